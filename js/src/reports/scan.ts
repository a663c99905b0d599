import { Core, encode } from '../core.js'
import { HoldallError, broken, type Told } from '../errors.js'
import { answered, begun, gapOf, named, sourceOf, type Openable, type OpenOptions } from '../file.js'
import type { Source } from '../source.js'

/** What is known of something that a pickle would import, of a pickle, and of a file: the worst of its pickles, or that it has none. */
export type ScanVerdict = 'no pickles' | 'safe' | 'unknown' | 'suspicious' | 'dangerous'

/** Something that a pickle would import. */
export interface PickleImport {
  /** The module, `?` where only running the pickle would tell. */
  module: string
  name: string
  verdict: ScanVerdict
  /** Whether it would be called, too; importing alone runs a module. */
  called: boolean
  /** How often it is named. */
  count: number
  /** Where the first of those is, in bytes from where the file begins that the pickle is in. */
  offset: number
}

/** A pickle, and what unpickling it would do. */
export interface PickleReport {
  /** The file; `ARCHIVE!/NAME` of one in an archive. */
  source: string
  /** Where in that file it begins, and how many bytes can be followed. */
  offset: number
  len: number
  /** Whether it is in the texts or bytes of another pickle. */
  inner: boolean
  protocol: number
  verdict: ScanVerdict
  imports: PickleImport[]
  /** Why it was not followed to its end. What is before that would have run. */
  broken: HoldallError | null
}

/** What pickles were found, and what they would do. */
export interface ScanReport {
  /** The worst of all pickles; at least `unknown` where something could not be followed. `no pickles` where neither was found. */
  verdict: ScanVerdict
  /** Files that were looked at, those in archives too. */
  files: number
  pickles: PickleReport[]
  /** What could not be followed, and why: pickles may be there. */
  unread: HoldallError[]
}

/** An error as the core tells it here: with the file that it is about. */
interface Placed {
  source: string | null
  error: Told
}

/** A report as the core tells it. */
interface Found {
  verdict: ScanVerdict
  files: number
  pickles: (Omit<PickleReport, 'broken'> & { broken: Placed | null })[]
  unread: Placed[]
  /** Files of a model that an index names, each with the error if they are not scanned. */
  indices: { source: string; files: string[]; unread: Placed }[]
}

/** From the best to the worst. */
const VERDICTS: readonly ScanVerdict[] = ['no pickles', 'safe', 'unknown', 'suspicious', 'dangerous']
const worse = (a: ScanVerdict, b: ScanVerdict): ScanVerdict => VERDICTS.indexOf(a) < VERDICTS.indexOf(b) ? b : a

const errorOf = ({ source, error }: Placed): HoldallError => new HoldallError(error, source)

/**
 * Looks for pickles in a file, in archives and compressed files in it, and in the pickles in it, and says what each would import and call.
 * Nothing is imported or called. The name of the file decides nothing. Files that an index of a model names are looked at too, where
 * the index is given by its path or address; otherwise the verdict on the index is `unknown`.
 */
export async function scan(from: Openable, options: OpenOptions = {}): Promise<ScanReport> {
  const [report, indices] = await scanOne(await sourceOf(from, options), options)
  const isPlace = typeof from === 'string' || from instanceof URL
  for (const { source, files, unread } of indices) {
    // Of an index in an archive, what is beside it was looked at.
    if (!isPlace || source.includes('!/')) {
      addUnread(report, errorOf(unread))
      continue
    }
    const home = await (await import('../shards.js')).homeOf(from, options)
    for (const path of files) {
      const file = await home.get(path, { isInside: false, isOneOfMany: false })
      if (typeof file !== 'object') {
        addUnread(report, broken('shards/missing', `\`${path}\`, which the index names, is not there`, { source }))
        continue
      }
      const [found, more] = await scanOne(file, { ...options, name: file.name ?? path })
      add(report, found)
      for (const index of more) addUnread(report, errorOf(index.unread))
    }
  }
  return report
}

/** Adds what was found in another file. */
function add(report: ScanReport, other: ScanReport): void {
  report.verdict = worse(report.verdict, other.verdict)
  report.files += other.files
  report.pickles.push(...other.pickles)
  report.unread.push(...other.unread)
}

/** Adds why something could not be followed. */
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
