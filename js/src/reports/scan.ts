import { Core, encode } from '../core.js'
import { HoldallError, broken, type ErrorDetails } from '../errors.js'
import { answered, begun, gapOf, named, sourceOf, type Openable, type OpenOptions } from '../file.js'
import type { Source } from '../source.js'

/** The rating of an import, of a pickle, or of a file (the worst of its pickles, or `no pickles`). */
export type ScanVerdict = 'no pickles' | 'safe' | 'unknown' | 'suspicious' | 'dangerous'

/** An object that a pickle would import. */
export interface PickleImport {
  /** The module; `?` if it is only known when the pickle runs. */
  module: string
  name: string
  verdict: ScanVerdict
  /** Whether the object would also be called; importing alone already runs a module. */
  called: boolean
  /** The number of references to it. */
  count: number
  /** The offset of the first reference, in bytes from the start of the file that contains the pickle. */
  offset: number
}

/** A pickle and the imports that unpickling would make. */
export interface PickleReport {
  /** The file; `ARCHIVE!/NAME` for a pickle in an archive. */
  source: string
  /** The offset in that file, and the number of bytes that could be followed. */
  offset: number
  len: number
  /** Whether it is embedded in the strings or bytes of another pickle. */
  inner: boolean
  protocol: number
  verdict: ScanVerdict
  imports: PickleImport[]
  /** Why it could not be followed to its end; `null` if it was. The instructions before that point would have run. */
  broken: HoldallError | null
}

/** The result of a scan. */
export interface ScanReport {
  /**
   * The worst rating of all pickles; at least `unknown` if a part could not be followed. `no pickles` if there are
   * neither.
   */
  verdict: ScanVerdict
  /** The number of files that were examined, including those in archives. */
  files: number
  pickles: PickleReport[]
  /** Parts that could not be followed, with the reason; they may contain pickles. */
  unread: HoldallError[]
}

/** An error in the form of the core, with the file that it is about. */
interface Placed {
  source: string | null
  error: ErrorDetails
}

/** A report in the form of the core. */
interface Found {
  verdict: ScanVerdict
  files: number
  pickles: (Omit<PickleReport, 'broken'> & { broken: Placed | null })[]
  unread: Placed[]
  /** Files of a model that are listed in an index, each with the error if it was not scanned. */
  indices: { source: string; files: string[]; unread: Placed }[]
}

/** Ratings from best to worst. */
const VERDICTS: readonly ScanVerdict[] = ['no pickles', 'safe', 'unknown', 'suspicious', 'dangerous']
const worse = (a: ScanVerdict, b: ScanVerdict): ScanVerdict => VERDICTS.indexOf(a) < VERDICTS.indexOf(b) ? b : a

const errorOf = ({ source, error }: Placed): HoldallError => new HoldallError(error, source)

/**
 * Finds pickles in a file, in archives and compressed files in it, and in other pickles, and reports what each would
 * import and call. Nothing is imported or called, and the name of the file does not matter. Files that a model's
 * index lists are scanned too if the index is given by its path or address; otherwise the rating of the index is
 * `unknown`.
 */
export async function scan(from: Openable, options: OpenOptions = {}): Promise<ScanReport> {
  const [report, indices] = await scanOne(await sourceOf(from, options), options)
  const isPlace = typeof from === 'string' || from instanceof URL
  for (const { source, files, unread } of indices) {
    // For an index in an archive, the files next to it were scanned.
    if (!isPlace || source.includes('!/')) {
      addUnread(report, errorOf(unread))
      continue
    }
    const home = await (await import('../shards.js')).homeOf(from, options)
    for (const path of files) {
      const file = await home.get(path, { isInside: false, isOneOfMany: false })
      if (typeof file !== 'object') {
        addUnread(report, broken('shards/missing', `\`${path}\`, which the index lists, does not exist`, { source }))
        continue
      }
      const [found, more] = await scanOne(file, { ...options, name: file.name ?? path })
      add(report, found)
      for (const index of more) addUnread(report, errorOf(index.unread))
    }
  }
  return report
}

/** Adds the results for another file. */
function add(report: ScanReport, other: ScanReport): void {
  report.verdict = worse(report.verdict, other.verdict)
  report.files += other.files
  report.pickles.push(...other.pickles)
  report.unread.push(...other.unread)
}

/** Adds the reason why a part could not be followed. */
function addUnread(report: ScanReport, e: HoldallError): void {
  report.verdict = worse(report.verdict, 'unknown')
  report.unread.push(e)
}

async function scanOne(source: Source, options: OpenOptions): Promise<[ScanReport, Found['indices']]> {
  try {
    const core = await begun(source, options, await Core.create('whole'))
    core.call('scan_begin', [BigInt(source.size)], encode(options.name ?? source.name ?? ''))
    await answered(core, source, 'scan_add', () => core.call('scan_step', [gapOf(source)]), options)
    const { verdict, files, pickles, unread, indices } = core.json<Found>('scan_finish')
    const report = {
      verdict, files, unread: unread.map(errorOf),
      pickles: pickles.map(({ broken: e, ...one }) => ({ ...one, broken: e && errorOf(e) })),
    }
    return [report, indices]
  } catch (e) {
    throw named(e, options.name ?? source.name ?? null)
  } finally {
    await source.close?.()
  }
}
