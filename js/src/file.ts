import { Core, decode, encode, kept, numbersOf, type Answer } from './core.js'
import { HoldallError, broken, type ErrorDetails } from './errors.js'
import { fromUrl, type UrlOptions } from './http.js'
import { DEFAULTS, type Limits } from './limits.js'
import { List } from './list.js'
import {
  DISK, fromBlob, fromBytes, fromFile, joined, readRanges, type FileHandle, type ReadOptions, type Source,
} from './source.js'
import { Tensor } from './tensor.js'
import { attributesOf, type Value, type Written } from './values.js'
import type { VerifyOptions, VerifyReport } from './verify.js'

/** A source for `open`. A string is a web address, or a path if there is a file system. */
export type Openable = string | URL | Blob | Uint8Array | ArrayBuffer | FileHandle | Source

/**
 * The files of a model, or of its folder: `File`s that a user selected or dropped, or a map from paths in the folder
 * to sources.
 */
export type ModelFiles = readonly File[] | ReadonlyMap<string, Openable>

/** Options for opening a file. */
export interface OpenOptions extends UrlOptions {
  /** Upper bounds on what the file may demand. */
  limits?: Limits | undefined
  /** The name of the file in error messages. */
  name?: string | undefined
  /**
   * Whether tensors that a package only links to are fetched, from servers that the author of the package chose: over
   * https, each file as a whole at the first read, and checked against its SHA-256. By default they are listed, but
   * reading them throws.
   */
  fetchLinks?: boolean | undefined
}

/** An unusual property of a file that is not an error. */
export interface Warning {
  code: string
  message: string
  tensor: string | null
  component: string | null
  /** The number of occurrences. */
  count: number
}

/** The name of a checksum, and its algorithm, or `null` if the algorithm is not supported. */
export type Checksum = [name: string, algorithm: string | null]

/** @internal The core's description of a file. */
export interface Facts {
  format: string
  formatName: string
  version: string
  tensors: number
  attributes: [string, Written][]
  warnings: Warning[]
  unrepresented: string[]
  /** Whether further files belong to the file. */
  hasMore: boolean
  /** The checksums that cover more than one component. */
  checksums?: Checksum[]
}

/**
 * Opens a file, or a model in several files; only tables of contents are read. If a path or an address is an index, a
 * folder, or the first of several files, the other files are opened too.
 */
export async function open(from: Openable | ModelFiles, options: OpenOptions = {}): Promise<TensorFile> {
  if (Array.isArray(from) || from instanceof Map) return (await import('./shards.js')).openFiles(from, options)
  const isPlace = typeof from === 'string' || from instanceof URL
  let source: Source | undefined
  try {
    source = await sourceOf(from as Openable, options)
    const file = await TensorFile.open(source, options)
    if (options.fetchLinks === true && file.format === 'carton' && file.tensors.some(({ layout }) => layout === 'linked')) {
      return await (await import('./links.js')).withLinks(file, options)
    }
    return file.hasMore && isPlace ? await (await import('./shards.js')).openMore(from, options, source) : file
  } catch (e) {
    const isOther = isPlace && e instanceof HoldallError && (source === undefined ? e.code === 'io/failed' : e.code === 'format/unknown')
    const model = isOther ? await (await import('./shards.js')).openNamed(from, options, source) : null
    if (model !== null) return model
    await source?.close?.()
    throw e
  }
}

/** @internal Returns a source for a value passed to `open`. */
export async function sourceOf(from: Openable, options: OpenOptions): Promise<Source> {
  if (typeof from === 'string' || from instanceof URL) {
    const text = String(from)
    // A single letter is a drive; browsers have other schemes, such as `blob:`.
    if (hasFiles() && /^(?!file|http)\w[\w+.-]+:\/\//i.test(text)) throw broken('http/scheme', 'the scheme is not http, https or file', { source: text })
    return isWeb(text) ? fromUrl(from, options) : fromFile(isFileUrl(text) ? new URL(text) : from)
  }
  if (from instanceof Blob) return fromBlob(from)
  if (from instanceof Uint8Array || from instanceof ArrayBuffer) return fromBytes(from)
  if (typeof from === 'object' && from !== null) {
    if ('size' in from && typeof from.size === 'number') return from
    if ('stat' in from && typeof from.stat === 'function') return fromFile(from)
  }
  throw broken('js/source', `cannot open ${from === null ? 'null' : `a value of type ${typeof from}`}; expected a path, URL, File, Blob or bytes`)
}

const isFileUrl = (text: string): boolean => /^file:/i.test(text)
const hasFiles = (): boolean => typeof (globalThis as { process?: unknown }).process === 'object'
/** @internal Returns whether a string is a web address. */
export const isWeb = (text: string): boolean => /^https?:/i.test(text) || !hasFiles()

/** @internal Opens a file, in the given instance of the module or in a new one. */
export type Load = (own?: Core) => Promise<[Core, Facts]>

/** An open file. */
export class TensorFile {
  readonly #options: OpenOptions
  #core: Core
  #again: Promise<Core> | undefined
  readonly #facts: Facts
  readonly #attributes: ReadonlyMap<string, Value>
  #list: List | undefined
  #names: string[] | undefined
  #tensors: readonly Tensor[] | undefined
  #isClosed = false
  readonly #load: Load
  readonly #close: () => Promise<void>

  static {
    kept.push(new TensorFile([], {}, null as never, null as never, null as never, { attributes: [] } as unknown as Facts))
  }

  /** @internal */
  constructor(
    /** The sources of its bytes: one, or one for each file of a model. Components refer to them by index. */
    readonly sources: readonly Source[],
    options: OpenOptions,
    load: Load,
    close: () => Promise<void>,
    core: Core,
    facts: Facts,
  ) {
    this.#options = options
    this.#load = load
    this.#close = close
    this.#core = core
    this.#facts = facts
    this.#attributes = attributesOf(facts.attributes)
  }

  /** @internal */
  static async open(source: Source, options: OpenOptions): Promise<TensorFile> {
    const name = options.name ?? source.name ?? null
    try {
      const load: Load = (own) => opened(source, options, own)
      return new TensorFile([source], options, load, async () => source.close?.(), ...(await load()))
    } catch (e) {
      throw named(e, name)
    }
  }

  /** The path or address, for error messages. */
  get name(): string | null {
    return this.#options.name ?? this.source.name ?? null
  }

  /** The source of its bytes; for a model in several files, the first one. */
  get source(): Source {
    return this.sources[0]!
  }

  /** The size in bytes; for a model in several files, the total. */
  get size(): number {
    return this.sources.reduce((sum, { size }) => sum + size, 0)
  }

  /** The id of the format: `safetensors`. */
  get format(): string {
    return this.#facts.format
  }

  /** The name of the format: `zTensor`. */
  get formatName(): string {
    return this.#facts.formatName
  }

  /** The version of the format as stated in the file; empty if the format has no versions. */
  get version(): string {
    return this.#facts.version
  }

  /** The file's attributes. */
  get attributes(): ReadonlyMap<string, Value> {
    return this.#attributes
  }

  /**
   * Returns the plain values in the header of a Metatensor file, by their paths; integers beyond 2^53 are bigints.
   * They can be passed as the option `values` for writing.
   */
  async values(): Promise<Map<string, unknown>> {
    const { valuesOf } = await import('./plain.js')
    return valuesOf(this.#attributes)
  }

  /** Unusual properties of the file that are not errors. */
  get warnings(): readonly Warning[] {
    return this.#facts.warnings
  }

  /**
   * Parts of the file that this version does not know, as messages: fields of its manifest or header, a newer
   * version. Rewriting the file would drop them. At most 8 are listed.
   */
  get unrepresented(): readonly string[] {
    return this.#facts.unrepresented
  }

  /** The number of tensors. */
  get length(): number {
    return this.#facts.tensors
  }

  /** The names of the tensors, in the file's own order. */
  get names(): readonly string[] {
    return (this.#names ??= made(this.length, (at) => this.list.name(at)))
  }

  /** The tensors, in the file's own order. */
  get tensors(): readonly Tensor[] {
    return (this.#tensors ??= made(this.length, (at) => new Tensor(this, at)))
  }

  /**
   * Groups tensors that differ only in the numbers in their names: `layers.{0..31}.w`, with the positions of the
   * members.
   */
  groups(): { name: string; members: number[] }[] {
    return this.peek().json('groups')
  }

  /** Returns whether the file has a tensor of that name. */
  has(name: string): boolean {
    return this.#position(name) !== undefined
  }

  /** Returns the tensor of that name. Throws if the file has no such tensor. */
  tensor(name: string): Tensor {
    const at = this.#position(name)
    if (at === undefined) {
      const near = decode(this.peek().call('near', [], encode(name)).bytes)
      const remedies = near === '' ? undefined : [{ do: 'did_you_mean', name: near }]
      throw broken('file/no-tensor', `there is no tensor \`${name}\``, { source: this.name, remedies })
    }
    return this.#tensors?.[at] ?? new Tensor(this, at)
  }

  /** Checks everything that can be checked: digests, compressed data, shapes of components, records, gaps. */
  async verify(options: VerifyOptions = {}): Promise<VerifyReport> {
    // Loaded on demand, since most users only read.
    const { verify } = await import('./verify.js')
    return verify(this, options)
  }

  /** Closes the file. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** @internal Whether further files belong to the file. */
  get hasMore(): boolean {
    return this.#facts.hasMore
  }

  /** @internal The checksums that cover more than one component. */
  get checksums(): Checksum[] {
    return this.#facts.checksums ?? []
  }

  /** @internal The tensors, as a few arrays. */
  get list(): List {
    return (this.#list ??= new List(this.peek().call('list').bytes))
  }

  /** @internal The instance of the module that has the file open, for calls without I/O. */
  peek(): Core {
    return this.#core
  }

  /** @internal Returns the instance of the module that has the file open, or a new one if the previous one trapped. */
  async core(): Promise<Core> {
    if (this.#isClosed) throw broken('js/closed', 'the file was closed', { source: this.name })
    if (this.#core.isDead) {
      this.#again ??= this.#load().then(([core]) => {
        this.#core = core
        return core
      }).finally(() => {
        this.#again = undefined
      })
      await this.#again
    }
    return this.#core
  }

  /**
   * @internal Returns an instance of the module that knows the source but has not opened the file, for other reads of
   * it.
   */
  async unopenedCore(): Promise<Core> {
    return begun(this.source, this.#options, await Core.create('whole'))
  }

  /** @internal Opens the file in another instance of the module. */
  async openIn(core: Core): Promise<void> {
    await this.run(() => this.#load(core))
  }

  /** @internal Runs `work` with the module; errors get the name of the file. */
  async run<T>(work: (core: Core) => Promise<T>): Promise<T> {
    try {
      return await work(await this.core())
    } catch (e) {
      throw this.named(e)
    }
  }

  /** @internal Adds the name of the file to an error. */
  named(e: unknown): unknown {
    return named(e, this.name)
  }

  #position(name: string): number | undefined {
    return this.peek().numbers('find', [], encode(name))[0]
  }
}

/** Creates a list with one item for each position. */
function made<T>(length: number, make: (at: number) => T): T[] {
  const out = new Array<T>(length)
  for (let at = 0; at < length; at++) out[at] = make(at)
  return out
}

/** @internal Adds the name of a file to an error. */
export function named(e: unknown, name: string | null): unknown {
  if (!(e instanceof HoldallError) || e.source !== null || name === null) return e
  const { kind, code, found, tensor, component, range, remedies, hint } = e
  const details: ErrorDetails = {
    kind, code, message: found, text: e.message, tensor, component, hint,
    range: range as [number, number] | null, remedies: [...remedies],
  }
  return new HoldallError(details, name, e.cause)
}

/** Opens a source in a new instance of the module. */
async function opened(
  source: Source, options: OpenOptions, own?: Core,
): Promise<[Core, Facts]> {
  const { size } = source
  if (!Number.isSafeInteger(size) || size < 0) {
    throw broken('js/source', `a source of ${size} bytes`)
  }
  const { signal } = options
  const { ends } = source.hints ?? DISK
  const first: [number, number][] = ends === 0 || size === 0
    ? []
    : size <= 2 * ends ? [[0, size]] : [[0, ends], [size - ends, size]]
  const read: [number, Uint8Array][] = []
  const facts = async (core: Core, first: [number, number][]): Promise<[Core, Facts]> => {
    read.forEach(([start, bytes]) => core.call('add', [BigInt(start)], bytes))
    const ask = () => core.call('decode', [gapOf(source)])
    return [core, JSON.parse(decode(await answered(core, source, 'add', ask, { signal }, first, read))) as Facts]
  }
  const core = await begun(source, options, own)
  try {
    return await facts(core, first)
  } catch (e) {
    const isOfAnother = e instanceof HoldallError && (e.code === 'format/not-built' || e.code === 'format/unknown')
    if (core.isWhole || !isOfAnother) throw e
  }
  // The basic module does not know the format; the whole module may. Ranges that were read are not read again.
  return facts(await begun(source, options, await Core.create('whole')), [])
}

/** @internal Returns an instance of the module that knows the size and limits of a source. */
export async function begun(source: { size: number }, { limits }: OpenOptions, own?: Core): Promise<Core> {
  const core = own ?? (await Core.create())
  core.call('begin', [BigInt(source.size)], encode(JSON.stringify({ ...DEFAULTS, ...limits })))
  return core
}

/** @internal The maximum gap, in bytes, between two ranges of a source that are read as one. */
export const gapOf = (source: Source): bigint => BigInt((source.hints ?? DISK).gap)

/**
 * @internal Repeats a call until it needs no more ranges of the source; `add` passes the requested bytes to the
 * module.
 */
export async function answered(
  core: Core, source: Source, add: string, ask: () => Answer, options: ReadOptions, first: [number, number][] = [],
  read: [number, Uint8Array][] = [],
): Promise<Uint8Array> {
  const { size, hints = DISK } = source
  const last = hints.atOnce > 1 ? Math.max(size - Math.max(TAIL, Math.min(size / PART | 0, hints.piece)), 0) : size
  let tail: Uint8Array | undefined
  for (let need = first; ;) {
    const wanted = need.map(([start, end]): [number, number] => {
      if (tail === undefined && end === size && start > last) return [last, size]
      return tail !== undefined && start < last && end > last ? [start, last] : [start, end]
    })
    const got = await readRanges(source, wanted, options)
    got.forEach((bytes, at) => {
      const [[start, end], [from, to]] = [need[at]!, wanted[at]!]
      const whole = to < end ? joined([bytes, tail!.subarray(0, end - last)]) : bytes
      if (from < start) tail = bytes
      core.call(add, [BigInt(from)], whole)
      read.push([from, whole])
    })
    const answer = ask()
    if (answer.done) return answer.bytes
    need = rangesOf(answer)
  }
}

/**
 * Minimum length of the end of a remote file that is read together with its last bytes: for most files it contains
 * the table of contents. For large files it is a fraction of the size (one byte for every `PART`), since they have
 * more tensors.
 */
export const [TAIL, PART] = [256 << 10, 50_000]

/** Returns the ranges that the module requests, as pairs of start and end. */
function rangesOf({ bytes }: Answer): [number, number][] {
  const numbers = numbersOf(bytes)
  return Array.from({ length: numbers.length / 2 }, (_, n) => [numbers[n * 2]!, numbers[n * 2 + 1]!])
}

