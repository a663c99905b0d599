import { Core, decode, encode, kept, numbersOf, type Answer } from './core.js'
import { HoldallError, broken, type Told } from './errors.js'
import { fromUrl, type UrlOptions } from './http.js'
import { DEFAULTS, type Limits } from './limits.js'
import { List } from './list.js'
import {
  DISK, fromBlob, fromBytes, fromFile, joined, readRanges, type FileHandle, type ReadOptions, type Source,
} from './source.js'
import { Tensor } from './tensor.js'
import { attributesOf, type Value, type Written } from './values.js'
import type { VerifyOptions, VerifyReport } from './verify.js'

/** What can be opened. A text is an address on the web, or a path where there is a file system. */
export type Openable = string | URL | Blob | Uint8Array | ArrayBuffer | FileHandle | Source

/**
 * The files of a model, or of its folder: `File`s that somebody chose or dropped, or what has the bytes of each by its path in the folder.
 */
export type ModelFiles = readonly File[] | ReadonlyMap<string, Openable>

/** How a file is opened. */
export interface OpenOptions extends UrlOptions {
  /** What the file may ask of this process. */
  limits?: Limits | undefined
  /** What errors say of the file. */
  name?: string | undefined
  /**
   * Whether tensors that a package only links to are fetched, from servers that whoever made the package has chosen: over https, each file whole
   * when it is read first, and held to its SHA-256. Without it they are listed, and reading them is refused.
   */
  fetchLinks?: boolean | undefined
}

/** What is odd about a file, and harmless. */
export interface Warning {
  code: string
  message: string
  tensor: string | null
  component: string | null
  /** How often. */
  count: number
}

/** What has a checksum, and the algorithm, which is `null` where it cannot be computed. */
export type Checksum = [name: string, algorithm: string | null]

/** @internal What the core says of a file as a whole. */
export interface Facts {
  format: string
  formatName: string
  version: string
  tensors: number
  attributes: [string, Written][]
  warnings: Warning[]
  passedOver: string[]
  /** Whether more files belong to it. */
  hasMore: boolean
  /** The checksums that are not those of one component alone. */
  checksums?: Checksum[]
}

/**
 * Opens a file, or a model in several: reads tables of contents, and nothing else. Of a path or an address that is an index, a folder, or
 * the first of several files the others come along.
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

/** @internal What was given, as a source. */
export async function sourceOf(from: Openable, options: OpenOptions): Promise<Source> {
  if (typeof from === 'string' || from instanceof URL) {
    const text = String(from)
    // One letter is a drive; pages have other addresses, too.
    if (hasFiles() && /^(?!file|http)\w[\w+.-]+:\/\//i.test(text)) throw broken('http/scheme', 'the scheme is not http, https or file', { source: text })
    return isWeb(text) ? fromUrl(from, options) : fromFile(isFileUrl(text) ? new URL(text) : from)
  }
  if (from instanceof Blob) return fromBlob(from)
  if (from instanceof Uint8Array || from instanceof ArrayBuffer) return fromBytes(from)
  if (typeof from === 'object' && from !== null) {
    if ('size' in from && typeof from.size === 'number') return from
    if ('stat' in from && typeof from.stat === 'function') return fromFile(from)
  }
  throw broken('js/source', `nothing opens ${from === null ? 'null' : `a value of type ${typeof from}`}`)
}

const isFileUrl = (text: string): boolean => /^file:/i.test(text)
const hasFiles = (): boolean => typeof (globalThis as { process?: unknown }).process === 'object'
/** @internal Whether a text is an address on the web. */
export const isWeb = (text: string): boolean => /^https?:/i.test(text) || !hasFiles()

/** @internal Opens a file, in an instance of the module that is given or in a fresh one. */
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
    /** Where its bytes come from: one source, or one for each file of a model in several, which components name by their numbers. */
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

  /** What errors say of it: its path or address. */
  get name(): string | null {
    return this.#options.name ?? this.source.name ?? null
  }

  /** Where its bytes come from; of a model in several files, those of the first. */
  get source(): Source {
    return this.sources[0]!
  }

  /** Bytes in it; of a model in several files, in all of them. */
  get size(): number {
    return this.sources.reduce((sum, { size }) => sum + size, 0)
  }

  /** Its format, in short: `safetensors`. */
  get format(): string {
    return this.#facts.format
  }

  /** Its format, for people: `zTensor`. */
  get formatName(): string {
    return this.#facts.formatName
  }

  /** The version of the format as the file states it; empty where the format has none. */
  get version(): string {
    return this.#facts.version
  }

  /** The file's attributes. */
  get attributes(): ReadonlyMap<string, Value> {
    return this.#attributes
  }

  /**
   * The plain values of the header of a file of Metatensor, by their paths beside those of the tensors: integers beyond 2^53 are bigints.
   * They can be written as they are, as the option `values`.
   */
  async values(): Promise<Map<string, unknown>> {
    const { valuesOf } = await import('./plain.js')
    return valuesOf(this.#attributes)
  }

  /** What is odd about it. */
  get warnings(): readonly Warning[] {
    return this.#facts.warnings
  }

  /**
   * What the file says besides that this version does not know, in words: fields of its manifest or header, a newer version. Who writes the
   * file again would lose it. The first 8 things of a file are kept.
   */
  get passedOver(): readonly string[] {
    return this.#facts.passedOver
  }

  /** How many tensors it has. */
  get length(): number {
    return this.#facts.tensors
  }

  /** The names of its tensors, in its own order. */
  get names(): readonly string[] {
    return (this.#names ??= made(this.length, (at) => this.list.name(at)))
  }

  /** Its tensors, in its own order. */
  get tensors(): readonly Tensor[] {
    return (this.#tensors ??= made(this.length, (at) => new Tensor(this, at)))
  }

  /** Tensors alike in all but the numbers in their names, put together: `layers.{0..31}.w`, and the positions of its members. */
  groups(): { name: string; members: number[] }[] {
    return this.peek().json('groups')
  }

  /** Whether it has a tensor of that name. */
  has(name: string): boolean {
    return this.#position(name) !== undefined
  }

  /** The tensor of that name. */
  tensor(name: string): Tensor {
    const at = this.#position(name)
    if (at === undefined) {
      const near = decode(this.peek().call('near', [], encode(name)).bytes)
      const remedies = near === '' ? undefined : [{ do: 'did_you_mean', name: near }]
      throw broken('file/no-tensor', `there is no tensor \`${name}\``, { source: this.name, remedies })
    }
    return this.#tensors?.[at] ?? new Tensor(this, at)
  }

  /** Checks everything that can be checked: digests, compressed data, how components fit, records, gaps. */
  async verify(options: VerifyOptions = {}): Promise<VerifyReport> {
    // Who only reads does not load what verifies.
    const { verify } = await import('./verify.js')
    return verify(this, options)
  }

  /** Lets go of the file. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** @internal Whether more files belong to it. */
  get hasMore(): boolean {
    return this.#facts.hasMore
  }

  /** @internal The checksums that are not those of one component alone. */
  get checksums(): Checksum[] {
    return this.#facts.checksums ?? []
  }

  /** @internal Its tensors in a few arrays. */
  get list(): List {
    return (this.#list ??= new List(this.peek().call('list').bytes))
  }

  /** @internal The instance of the module that has the file, for what is answered at once. */
  peek(): Core {
    return this.#core
  }

  /** @internal The instance of the module that has the file: a fresh one where the last one ended. */
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

  /** @internal An instance of the module that was told of the file, and does not have it open: for what else is to be read of it. */
  async told(): Promise<Core> {
    return begun(this.source, this.#options, await Core.create('whole'))
  }

  /** @internal Opens it in another instance of the module. */
  async openIn(core: Core): Promise<void> {
    await this.run(() => this.#load(core))
  }

  /** @internal Does something with the module; errors say which file they are about. */
  async run<T>(work: (core: Core) => Promise<T>): Promise<T> {
    try {
      return await work(await this.core())
    } catch (e) {
      throw this.named(e)
    }
  }

  /** @internal An error with the name of the file. */
  named(e: unknown): unknown {
    return named(e, this.name)
  }

  #position(name: string): number | undefined {
    return this.peek().numbers('find', [], encode(name))[0]
  }
}

/** A list of what is made of each position. */
function made<T>(length: number, make: (at: number) => T): T[] {
  const out = new Array<T>(length)
  for (let at = 0; at < length; at++) out[at] = make(at)
  return out
}

/** @internal An error with the name of the file that it is about. */
export function named(e: unknown, name: string | null): unknown {
  if (!(e instanceof HoldallError) || e.source !== null || name === null) return e
  const { kind, code, found, tensor, component, range, remedies, hint } = e
  const told: Told = {
    kind, code, message: found, text: e.message, tensor, component, hint,
    range: range as [number, number] | null, remedies: [...remedies],
  }
  return new HoldallError(told, name, e.cause)
}

/** Opens a source in a fresh instance of the module. */
async function opened(
  source: Source, options: OpenOptions, own?: Core,
): Promise<[Core, Facts]> {
  const { size } = source
  if (!Number.isSafeInteger(size) || size < 0) {
    throw broken('js/source', `a source of ${size} bytes`)
  }
  const { signal } = options
  const { ends } = source.terms ?? DISK
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
  // Of a format that the basic module does not know, or of none: the whole one says which. What was read is not read again.
  return facts(await begun(source, options, await Core.create('whole')), [])
}

/** @internal An instance of the module that was told of a source. */
export async function begun(source: { size: number }, { limits }: OpenOptions, own?: Core): Promise<Core> {
  const core = own ?? (await Core.create())
  core.call('begin', [BigInt(source.size)], encode(JSON.stringify({ ...DEFAULTS, ...limits })))
  return core
}

/** @internal Ranges of a source that are so far apart, or less, are read as one. */
export const gapOf = (source: Source): bigint => BigInt((source.terms ?? DISK).gap)

/** @internal Asks the module until it needs no more of a source: `add` is what takes bytes that it asked for. */
export async function answered(
  core: Core, source: Source, add: string, ask: () => Answer, options: ReadOptions, first: [number, number][] = [],
  read: [number, Uint8Array][] = [],
): Promise<Uint8Array> {
  const { size, terms = DISK } = source
  const last = terms.atOnce > 1 ? Math.max(size - Math.max(TAIL, Math.min(size / PART | 0, terms.piece)), 0) : size
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
 * Bytes of the end of what is far away that come with the last ones, at least: the table of contents that is found by those is among them, of most files. Of a large
 * file they are more, one for so many of it, because it has more tensors.
 */
export const [TAIL, PART] = [256 << 10, 50_000]

/** Ranges as the module asks for them: starts and ends. */
function rangesOf({ bytes }: Answer): [number, number][] {
  const numbers = numbersOf(bytes)
  return Array.from({ length: numbers.length / 2 }, (_, n) => [numbers[n * 2]!, numbers[n * 2 + 1]!])
}

