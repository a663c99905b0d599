/**
 * The files in a package, or in any other zip.
 * Access to the files in a package, or in any other zip.
 * @module
 */
import { Core, decode, type Answer } from './core.js'
import { HoldallError, broken } from './errors.js'
import { TensorFile, answered, begun, gapOf, named, sourceOf, type Openable, type OpenOptions } from './file.js'
import type { ReadOptions, Source } from './source.js'

/** A file in a zip. */
export interface ArchiveEntry {
  /** The path in the zip: `misc/picture.png`. */
  readonly name: string
  /** The size in bytes. */
  readonly size: number
}

/** Opens a zip, such as a package. Only its directory is read. */
export async function openArchive(from: Openable, options: OpenOptions = {}): Promise<Archive> {
  const source = await sourceOf(from, options)
  try {
    return new Archive(source, options, ...(await listed(source, options)))
  } catch (e) {
    const why = await noZip(e, source, options)
    await source.close?.()
    throw named(why, options.name ?? source.name ?? null)
  }
}

/** Returns the error for a file that is not a zip, which says what the file is if that is known. */
async function noZip(e: unknown, source: Source, options: OpenOptions): Promise<unknown> {
  if (!(e instanceof HoldallError) || e.code !== 'zip/end') return e
  try {
    const { formatName } = await TensorFile.open(source, options)
    return broken('archive/no-archive', `this is a file of ${formatName}, not a zip`, { hint: '`open` reads its tensors' })
  } catch (cause) {
    if (!(cause instanceof HoldallError) || cause.code !== 'format/unknown') return e
    return broken('archive/no-archive', `${cause.found}, and not a zip`, { hint: cause.advice, cause })
  }
}

interface Numbered extends ArchiveEntry {
  at: number
}

/** Returns an instance of the module that has read the directory of a zip, and the files in it. */
async function listed(source: Source, options: OpenOptions): Promise<[Core, Numbered[]]> {
  const core = await begun(source, options, await Core.create('whole'))
  core.call('archive_begin', [BigInt(source.size)])
  const bytes = await answered(core, source, 'archive_add', () => core.call('archive_list', [gapOf(source)]), options)
  return [core, JSON.parse(decode(bytes)) as Numbered[]]
}

/** An open zip. */
export class Archive {
  readonly #source: Source
  readonly #options: OpenOptions
  #core: Core
  readonly #numbers: ReadonlyMap<string, number>
  /** The previous read; reads run one after the other. */
  #last: Promise<unknown> = Promise.resolve()

  /** The files, in the order of the directory. */
  readonly entries: readonly ArchiveEntry[]

  /** @internal */
  constructor(source: Source, options: OpenOptions, core: Core, entries: readonly Numbered[]) {
    this.#source = source
    this.#options = options
    this.#core = core
    this.#numbers = new Map(entries.map(({ name, at }) => [name, at]))
    this.entries = entries.map(({ name, size }) => ({ name, size }))
  }

  /** Returns the decoded bytes of a file, checked against its checksum in the zip; at most the limit `decodedLen`. */
  async read(name: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const number = this.#numbers.get(name)
    const own = this.#options.name ?? this.#source.name ?? null
    if (number === undefined) throw broken('js/source', `there is no file \`${name}\` in it`, { source: own })
    const read = this.#last.then(async () => {
      if (this.#core.isDead) [this.#core] = await listed(this.#source, this.#options)
      const core = this.#core
      const ask = (): Answer => core.call('archive_read', [number, gapOf(this.#source)])
      return (await answered(core, this.#source, 'archive_add', ask, options)).slice()
    })
    this.#last = read.catch(() => {})
    try {
      return await read
    } catch (e) {
      throw named(e, own)
    }
  }

  /** Closes the zip. */
  async close(): Promise<void> {
    await this.#source.close?.()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
