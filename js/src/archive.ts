/**
 * The files in a package, or in any other zip.
 *
 * @module
 */
import { Core, decode, encode, type Answer } from './core.js'
import { broken } from './errors.js'
import { answered, sourceOf, type Openable, type OpenOptions } from './file.js'
import { DEFAULTS } from './limits.js'
import { DISK, type ReadOptions, type Source } from './source.js'

/** A file in a zip. */
export interface ArchiveEntry {
  /** Its path in the zip: `misc/picture.png`. */
  readonly name: string
  /** Bytes of it. */
  readonly size: number
}

/** Opens a zip, such as a package is one: reads its directory, and nothing else. */
export async function openArchive(from: Openable, options: OpenOptions = {}): Promise<Archive> {
  const source = await sourceOf(from, options)
  try {
    const core = await Core.create()
    const size = BigInt(source.size)
    core.call('begin', [size], encode(JSON.stringify({ ...DEFAULTS, ...options.limits })))
    core.call('archive_begin', [size])
    const ask = () => core.call('archive_list', [gapOf(source)])
    const bytes = await answered(core, source, 'archive_add', ask, options)
    return new Archive(source, core, JSON.parse(decode(bytes)) as Numbered[])
  } catch (e) {
    await source.close?.()
    throw e
  }
}

interface Numbered extends ArchiveEntry {
  at: number
}

const gapOf = (source: Source): bigint => BigInt((source.terms ?? DISK).gap)

/** An open zip. */
export class Archive {
  readonly #source: Source
  readonly #core: Core
  readonly #entries: readonly Numbered[]
  /** The read before: one comes after the other. */
  #last: Promise<unknown> = Promise.resolve()

  /** @internal */
  constructor(source: Source, core: Core, entries: readonly Numbered[]) {
    this.#source = source
    this.#core = core
    this.#entries = entries
  }

  /** Its files, in the order of its directory. */
  get entries(): readonly ArchiveEntry[] {
    return this.#entries.map(({ name, size }) => ({ name, size }))
  }

  /** The decoded bytes of a file, checked against the sum that the zip has of it; at most the limit `decoded_len`. */
  async read(name: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const entry = this.#entries.find((entry) => entry.name === name)
    if (entry === undefined) {
      throw broken('js/source', `there is no file \`${name}\` in it`, { source: this.#source.name ?? null })
    }
    const ask = (): Answer => this.#core.call('archive_read', [entry.at, gapOf(this.#source)])
    const read = this.#last.then(async () =>
      (await answered(this.#core, this.#source, 'archive_add', ask, options)).slice())
    this.#last = read.catch(() => {})
    return read
  }

  /** Lets go of the zip. */
  async close(): Promise<void> {
    await this.#source.close?.()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
