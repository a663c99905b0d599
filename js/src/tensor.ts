import { kept, type Core } from './core.js'
import { elementsOf, type ArrayOf, type ElementOptions, type TypedArray } from './elements.js'
import { HoldallError, broken, type Told } from './errors.js'
import type { TensorFile } from './file.js'
import type { Kind } from './list.js'
import type { Changes, EvolveOptions, Evolved, Parts } from './evolve.js'
import { decoding, pieces, termsOf, type Want } from './read.js'
import { blocks } from './runs.js'
import type { RecordLayout, Records } from './records.js'
import { joined, readRange, type ReadOptions } from './source.js'
import { attributesOf, type Value, type Written } from './values.js'

/** One stored run of bytes of a tensor, and how it is read. */
export interface Component {
  /** What it is to its tensor: `data`, `values`, `scales`, … */
  readonly role: string
  /** Storage element type: `f32`, `bf16`, `u8`, … */
  readonly dtype: string
  /** Meaning beyond storage: `f8_e4m3fn`, `complex64`, … */
  readonly logicalType: string | null
  /** The number of the source that has it, of `TensorFile.sources`; another where it is put together of chunks, or stated. */
  readonly source: number
  /** Where it starts in that; `null` where the table of contents itself states it. */
  readonly offset: number | null
  /** Bytes in the file. */
  readonly storedLen: number
  /** `raw`, `zstd`, `deflate`. */
  readonly encoding: string
  /** Bytes after decoding; `null` where only decoding tells. */
  readonly decodedLen: number | null
  /** Digest of the stored bytes: `crc32c:0xA9CAB69D`. */
  readonly digest: string | null
}

/** @internal What the core says of a component. */
export interface Stored extends Component {
  readonly algorithm: string | null
  readonly bigEndian: boolean
  /** Whether its bytes are put together of chunks. */
  readonly isChunked: boolean
  /** The checksum that each of these chunks has, by its name, and that is compared wherever they are decoded; `null` where they have none. */
  readonly chunkChecksum: string | null
  /** Whether its logical type is one that is known. */
  readonly hasMeaning: boolean
}

/** What a list does not show. */
interface Facts {
  attributes: [string, Written][]
  components: Stored[]
  fault?: Told
}

/** How bytes are read. */
export interface BytesOptions extends ReadOptions {
  /** Which component: `data` where it is not said. */
  role?: string | undefined
  /** Whether the digest is compared, where the file has one: yes where it is not said. */
  check?: boolean | undefined
}

/** How elements are read. */
export interface ArrayOptions extends ReadOptions, ElementOptions {
  /** Whether digests are compared, where the file has them: yes where it is not said. */
  check?: boolean | undefined
}

/** Which records are read. */
export interface RecordsOptions extends ReadOptions, EvolveOptions {
  /** The first; the first of all where it is not said. */
  start?: number | undefined
  /** The one behind the last; all where it is not said. */
  end?: number | undefined
}

/** Rows wanted of a tensor that has none, or not those. */
const NO_ROWS = 'layout/rows'

/** Whether elements of a type share bytes. */
const isPacked = (type: string): boolean => / f[46]_/.test(type)

/** One tensor of an open file. What it is, is looked up when it is asked for first. */
export class Tensor {
  readonly #file: TensorFile
  #facts: Facts | undefined
  #attributes: ReadonlyMap<string, Value> | undefined

  static {
    kept.push(new Tensor(null as never, 0))
  }

  /** @internal */
  constructor(file: TensorFile, readonly position: number) {
    this.#file = file
  }

  get #kind(): Kind {
    return this.#file.list.kind(this.position)
  }

  get #told(): Facts {
    return (this.#facts ??= this.#file.peek().json<Facts>('tensor', [this.position]))
  }

  /** The file that it is in. */
  get file(): TensorFile {
    return this.#file
  }

  /** Its name, exactly as the file has it. */
  get name(): string {
    return this.#file.list.name(this.position)
  }

  /** Its dimensions, in elements. Those beyond 2^53, which no array has, are rounded. */
  get shape(): number[] {
    return this.#file.list.shape(this.position)
  }

  /** The number of its elements: the product of the shape. */
  get count(): number {
    return this.#file.list.counts[this.position]!
  }

  /** How components form it: `dense`, `sparse_csr`, `quantized_group`, … */
  get layout(): string {
    return this.#kind.layout
  }

  /** The storage type of its elements, or of the values of a sparse one; `null` where it has none. */
  get dtype(): string | null {
    return this.#kind.dtype
  }

  /** What its elements mean beyond storage. */
  get logicalType(): string | null {
    return this.#kind.logicalType
  }

  /** The element type of its dense form, `f32` or `u8 f8_e5m2`; `null` for a layout that has none. */
  get dense(): string | null {
    return this.#kind.dense
  }

  /** Its attributes. */
  get attributes(): ReadonlyMap<string, Value> {
    return (this.#attributes ??= attributesOf(this.#told.attributes))
  }

  /** Its components, in the order of the file. */
  get components(): readonly Component[] {
    return this.#told.components
  }

  /** Bytes in the file. */
  get storedLen(): number {
    return this.#file.list.storedLens[this.position]!
  }

  /** Why it cannot be read, where others can. */
  get fault(): HoldallError | null {
    if (!this.#kind.isFaulty) return null
    const { fault } = this.#told
    return fault === undefined ? null : new HoldallError(fault, this.#file.name)
  }

  /**
   * The decoded bytes of a component: little-endian, row by row. They are the file's own memory where that is in memory.
   */
  async bytes(options: BytesOptions = {}): Promise<Uint8Array> {
    await this.#here()
    const number = this.#component(options.role ?? 'data')
    return this.#file.run((core) => this.read(core, number, undefined, options))
  }

  /** The same, piece by piece, in order and in bounded memory. */
  async *pieces(options: BytesOptions = {}): AsyncGenerator<Uint8Array> {
    await this.#here()
    const number = this.#component(options.role ?? 'data')
    const core = await this.#file.core()
    const { sources } = this.#file
    const want = this.#want(number, undefined, options)
    const terms = decoding(termsOf(sources))
    try {
      for await (const piece of pieces(core, sources, [want], this.isBare(number), terms, options)) {
        yield piece.bytes
      }
    } catch (e) {
      throw this.#file.named(e)
    }
  }

  /**
   * Its elements, row by row. Sparse tensors come with their zeros, quantized ones as f32.
   */
  async array<O extends ArrayOptions>(options: O = {} as O): Promise<ArrayOf<O>> {
    await this.#here()
    return this.#file.run(async (core) => {
      const type = this.elementType()
      const bytes = await this.#denseBytes(core, options)
      return this.#arrayOf(core, type, bytes, options) as ArrayOf<O>
    })
  }

  /** Rows `start..end` of the first dimension. Of a dense tensor only their bytes are read. */
  async rows<O extends ArrayOptions>(
    start: number, end: number, options: O = {} as O,
  ): Promise<ArrayOf<O>> {
    await this.#here()
    return this.#file.run(async (core) => {
      const type = this.elementType()
      if (!(start >= 0 && Number.isInteger(start) && Number.isInteger(end))) {
        throw broken(NO_ROWS, `rows ${start}..${end}`, { source: this.#file.name, tensor: this.name })
      }
      const range = core.numbers('rows', [this.position, BigInt(start), BigInt(end)])
      if (range.length === 2) {
        const number = this.#component('data')
        const bytes = await this.read(core, number, range as [number, number], options)
        return this.#arrayOf(core, type, bytes, options) as ArrayOf<O>
      }
      const [count = 0, ...rest] = this.shape
      if (this.shape.length === 0 || !(start >= 0 && start <= end && end <= count)) {
        throw broken(NO_ROWS, `rows ${start}..${end} of ${count}`, {
          source: this.#file.name, tensor: this.name,
        })
      }
      const width = rest.reduce((product, n) => product * n, 1)
      const bytes = await this.#denseBytes(core, options)
      const all = this.#arrayOf(core, type, bytes, options)
      return all.subarray(start * width, end * width) as ArrayOf<O>
    })
  }

  /**
   * Elements `start..end` of all of them, row by row, whatever the shape. Of a dense tensor, and of blocks, only their bytes are
   * read. Elements below 8 bits come as numbers.
   */
  async elements<O extends ArrayOptions>(
    start: number, end: number, options: O = {} as O,
  ): Promise<ArrayOf<O>> {
    await this.#here()
    return this.#file.run(async (core) => {
      const type = this.elementType()
      if (!(Number.isSafeInteger(start) && start >= 0 && start <= end && end <= this.count)) {
        throw broken(NO_ROWS, `elements ${start}..${end} of ${this.count}`, {
          source: this.#file.name, tensor: this.name,
        })
      }
      const { position } = this
      const range = core.numbers('element_range', [position, BigInt(start), BigInt(end)])
      const as = options.as ?? (isPacked(type) ? 'f32' : undefined)
      let bytes: Uint8Array
      let skipped = start
      if (range.length === 0) bytes = await this.#denseBytes(core, options)
      else {
        const [from, to, before, unit] = range as [number, number, number, number]
        const stored = from === to
          ? new Uint8Array(0)
          : await this.read(core, this.#component('data'), [from, to], options)
        bytes = this.layout === 'dense' ? stored : joined([...blocks(core, position, stored, unit)])
        skipped = before
      }
      const all = this.#arrayOf(core, type, bytes, { ...options, as })
      const each = all.length > 0 && /complex/.test(type) && as === undefined ? 2 : 1
      return all.subarray(skipped * each, (skipped + end - start) * each) as ArrayOf<O>
    })
  }

  /**
   * Its records, where it is a dataset, or some of them: read into memory with all that they point at, and checked. `T` is what
   * they are: `Static` of their schema. Under another `schema` they are what a migration makes of them that leaves out what it
   * does not have.
   */
  async records<T = any>(options: RecordsOptions = {}): Promise<Records<T>> {
    return this.#file.run(async (core) => {
      const parts = await this.#records<T>(core, options)
      if (options.schema === undefined) return parts.records
      const { evolved } = await import('./evolve.js')
      return evolved<T>(this.name, parts, options)
    })
  }

  /** @internal The bytes of its records under another schema. */
  async recordsUnder(schema: string, how: Changes, options: ReadOptions): Promise<Evolved> {
    return this.#file.run(async (core) => {
      const parts = await this.#records(core, options)
      const { evolvedBytes } = await import('./evolve.js')
      try {
        return await evolvedBytes(this.name, schema, parts, how)
      } catch (e) {
        throw this.#placed(e)
      }
    })
  }

  async #records<T>(core: Core, options: RecordsOptions): Promise<Parts<T>> {
    // Who reads tensors alone does not load what reads records.
    const { Records } = await import('./records.js')
    const kind = this.attributes.get('metatensor.kind') as string
    return this.#dataset(core, options, (layout, data, heap) => {
      core.call('check', [this.position])
      return { records: new Records<T>(core, layout, data, heap), kind, layout, data, heap }
    })
  }

  /** The same as texts of JSON, exactly as the command shows them. */
  async lines(options: RecordsOptions = {}): Promise<string[]> {
    return this.#file.run((core) =>
      this.#dataset(core, options, () => core.json<string[]>('record_lines', [this.position])))
  }

  /**
   * A run of a blob: a string where its content is `utf-8`, the value where it is `json`, else bytes, or its elements as an
   * array. Only its own bytes are read where the file has them as they are.
   */
  async run(index: number, options: ReadOptions = {}): Promise<unknown> {
    const { runOf } = await import('./records.js')
    return this.#file.run(async (core) => {
      const { fault } = this
      if (fault !== null) throw fault
      const place = { source: this.#file.name, tensor: this.name }
      if (this.layout !== 'blob') throw broken('file/wrong-layout', `its layout is ${this.layout}, not blob`, place)
      const [count = 0] = this.shape
      const at = index < 0 ? count + index : index
      if (!Number.isInteger(at) || at < 0 || at >= count) throw broken('records/index', `run ${index} of ${count}`, place)
      const entry = await this.read(core, this.#component('entries'), [at * 16, at * 16 + 16], options)
      const view = new DataView(entry.buffer, entry.byteOffset, 16)
      const [start, len] = [Number(view.getBigUint64(0, true)), Number(view.getBigUint64(8, true))]
      const number = this.#component('blob_data')
      const heap = this.components[number]!.decodedLen
      if (heap !== null && start + len > heap) {
        throw broken('record/entry-bounds', `run ${at} is ${len} bytes at ${start} of a heap of ${heap}`, place)
      }
      const bytes = len === 0 ? new Uint8Array(0) : await this.read(core, number, [start, start + len], options)
      try {
        return runOf(core, this.attributes.get('metatensor.kind') as string, bytes)
      } catch (e) {
        throw this.#placed(e)
      }
    })
  }

  /** Reads records and their heap, puts them into the module, and calls it: at once, as `held` does. */
  async #dataset<T>(
    core: Core, options: RecordsOptions,
    call: (layout: RecordLayout, data: Uint8Array, heap: Uint8Array) => T,
  ): Promise<T> {
    const { fault } = this
    if (fault !== null) throw fault
    const source = this.#file.name
    if (this.layout !== 'records') {
      const found = `its layout is ${this.layout}, not records`
      throw broken('file/wrong-layout', found, { source, tensor: this.name })
    }
    const layout = core.json<RecordLayout>('record_layout', [this.position])
    const { count, stride } = layout
    const { start = 0, end = count } = options
    if (!Number.isInteger(start) || !Number.isInteger(end) || start < 0 || start > end || end > count) {
      throw broken('records/index', `records ${start}..${end} of ${count}`, { source, tensor: this.name })
    }
    const number = this.#component('data')
    const isAll = start === 0 && end === count
    const range: [number, number] = [start * stride, end * stride]
    const data = start === end
      ? new Uint8Array(0)
      : await this.read(core, number, isAll ? undefined : range, options)
    const at = this.components.findIndex(({ role }) => role === 'blob_data')
    const heap = at < 0 ? new Uint8Array(0) : await this.read(core, at, undefined, options)
    core.call('hold', [number], data)
    if (at >= 0) core.call('hold', [at], heap)
    return call(layout, data, heap)
  }

  /** @internal Whether its stored bytes have a digest that can be compared. */
  hasSum(number: number): boolean {
    return this.#told.components[number]!.algorithm !== null
  }

  /** @internal Whether decoded bytes are the stored ones. */
  isBare(number: number): boolean {
    const { encoding, bigEndian } = this.#told.components[number]!
    return encoding === 'raw' && !bigEndian
  }

  /** @internal The decoded bytes of a component. */
  async read(
    core: Core, number: number, range: [number, number] | undefined, options: BytesOptions,
  ): Promise<Uint8Array> {
    const { sources } = this.#file
    const isBare = this.isBare(number)
    // All of it is compared with its digest, whether it was asked for as a range or not.
    if (range?.[0] === 0 && range[1] === this.#told.components[number]!.decodedLen) range = undefined
    if (range !== undefined && !isBare) await this.#table(core, number, options)
    const want = this.#want(number, range, options)
    const own = termsOf(sources)
    const terms = isBare && !want.digest ? own : decoding(own)
    const c = this.#told.components[number]!
    const len = range === undefined ? c.decodedLen : range[1] - range[0]
    const base = range?.[0] ?? 0
    let all: Uint8Array | undefined
    const parts: Uint8Array[] = []
    for await (const { offset, bytes } of pieces(core, sources, [want], isBare, terms, options)) {
      if (bytes.length === len) return bytes
      if (len === null) parts.push(bytes)
      else (all ??= new Uint8Array(len)).set(bytes, offset - base)
    }
    return all ?? joined(parts)
  }

  /** @internal Puts all components into the module, and calls it: at once, so that no other read comes in between. */
  async held<T>(core: Core, options: BytesOptions, call: () => T): Promise<T> {
    const all: Uint8Array[] = []
    for (let number = 0; number < this.components.length; number++) {
      all.push(await this.read(core, number, undefined, options))
    }
    all.forEach((bytes, number) => core.call('hold', [number], bytes))
    return call()
  }

  #want(number: number, range: [number, number] | undefined, options: BytesOptions): Want {
    const { algorithm } = this.#told.components[number]!
    const digest = options.check !== false && range === undefined && algorithm !== null
    return { tensor: this.position, component: number, range, digest }
  }

  /** Reads where the frames of a compressed component are, so that a range of it needs no more than those. */
  async #table(core: Core, number: number, options: ReadOptions): Promise<void> {
    let [start, end, at] = core.numbers('table', [this.position, number])
    while (start !== undefined && end !== undefined) {
      const bytes = await readRange(this.#file.sources[at!]!, start, end, options)
      const answer = core.call('table_read', [this.position, number], bytes)
      if (answer.done) return
      const view = new DataView(answer.bytes.buffer, answer.bytes.byteOffset)
      start = Number(view.getBigUint64(0, true))
      end = Number(view.getBigUint64(8, true))
    }
  }

  async #denseBytes(core: Core, options: BytesOptions): Promise<Uint8Array> {
    if (this.layout === 'dense') return this.read(core, this.#component('data'), undefined, options)
    return this.held(core, options, () => core.call('dense', [this.position]).bytes.slice())
  }

  #arrayOf(core: Core, type: string, bytes: Uint8Array, options: ElementOptions): TypedArray {
    try {
      return elementsOf(core, type, bytes, options)
    } catch (e) {
      throw this.#placed(e)
    }
  }

  /** Refuses a tensor that a package only links to, with the addresses of its file. */
  async #here(): Promise<void> {
    if (this.layout === 'linked') throw await (await import('./links.js')).notHere(this.#file, this.name)
  }

  /** The number of a component of a tensor that can be read. */
  #component(role: string): number {
    const { fault } = this
    if (fault !== null) throw fault
    const number = this.components.findIndex((c) => c.role === role)
    if (number >= 0) return number
    const roles = this.components.map((c) => `\`${c.role}\``).join(', ')
    throw broken('file/no-component', `there is no component \`${role}\`; there are ${roles}`, {
      source: this.#file.name, tensor: this.name,
    })
  }

  /** @internal Bytes of an element of a sparse tensor's dense form. */
  get width(): number {
    const [type = '', logical] = this.elementType().split(' ')
    if (logical === 'complex32') return 4
    if (logical === 'complex64') return 8
    if (logical === 'complex128') return 16
    return /64$/.test(type) ? 8 : /32$/.test(type) ? 4 : /16$/.test(type) ? 2 : 1
  }

  /** @internal The type of its elements. */
  elementType(): string {
    const { fault, dense } = this
    if (fault !== null) throw fault
    if (dense !== null) return dense
    throw broken('file/unknown-layout', `its layout \`${this.layout}\` has no elements`, {
      source: this.#file.name, tensor: this.name,
    })
  }

  #placed(e: unknown): unknown {
    if (!(e instanceof HoldallError) || e.tensor !== null) return e
    const { kind, code, found, hint, range, remedies } = e
    const text = `tensor \`${this.name}\`: ${e.message}`
    const told = {
      kind, code, message: found, text, tensor: this.name, component: null,
      range: range as [number, number] | null, hint, remedies: [...remedies],
    }
    return new HoldallError(told, this.#file.name, e)
  }
}
