import { Core, encode } from '../core.js'
import { HoldallError, type Told } from '../errors.js'
import { answered, begun, gapOf, named, sourceOf, type Openable, type OpenOptions } from '../file.js'

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
}

const errorOf = ({ source, error }: Placed): HoldallError => new HoldallError(error, source)

/**
 * Looks for pickles in a file, in archives and compressed files in it, and in the pickles in it, and says what each would import and call.
 * Nothing is imported or called. The name of the file decides nothing.
 */
export async function scan(from: Openable, options: OpenOptions = {}): Promise<ScanReport> {
  const source = await sourceOf(from, options)
  try {
    const core = await begun(source, options, await Core.create('whole'))
    core.call('scan_begin', [BigInt(source.size)], encode(options.name ?? source.name ?? ''))
    await answered(core, source, 'scan_add', () => core.call('scan_step', [gapOf(source)]), options)
    const { verdict, files, pickles, unread } = core.json<Found>('scan_finish')
    return {
      verdict, files, unread: unread.map(errorOf),
      pickles: pickles.map(({ broken, ...one }) => ({ ...one, broken: broken && errorOf(broken) })),
    }
  } catch (e) {
    throw named(e, options.name ?? source.name ?? null)
  } finally {
    await source.close?.()
  }
}
