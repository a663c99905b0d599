import { kept, type Core } from './core.js'
import { elementsOf, type ArrayOf, type ElementOptions, type TypedArray } from './elements.js'
import { HoldallError, broken, type ErrorDetails } from './errors.js'
import type { TensorFile } from './file.js'
import type { Kind } from './list.js'
import type { Changes, EvolveOptions, Evolved, Parts } from './evolve.js'
import { decoding, pieces, hintsOf, type Want } from './read.js'
import { blocks } from './runs.js'
import type { RecordLayout, Records } from './records.js'
import { joined, readRange, type ReadOptions } from './source.js'
import { attributesOf, type Value, type Written } from './values.js'

/** A stored run of bytes of a tensor, and its encoding. */
export interface Component {
  /** The component's role: `data`, `values`, `scales`, … */
  readonly role: string
  /** The storage element type: `f32`, `bf16`, `u8`, … */
  readonly dtype: string
  /** The logical type beyond storage: `f8_e4m3fn`, `complex64`, … */
  readonly logicalType: string | null
  /**
   * The index of its source in `TensorFile.sources`; out of range if it is assembled from chunks, or stated in the
   * index.
   */
  readonly source: number
  /** The offset in that source; `null` if its bytes are in the table of contents. */
  readonly offset: number | null
  /** The length in the file in bytes. */
  readonly storedLen: number
  /** The encoding: `raw`, `zstd`, `deflate`. */
  readonly encoding: string
  /** The length after decoding; `null` if it is only known after decoding. */
  readonly decodedLen: number | null
  /** The digest of the stored bytes: `crc32c:0xA9CAB69D`. */
  readonly digest: string | null
}

/** @internal The core's description of a component. */
export interface Stored extends Component {
  readonly algorithm: string | null
  readonly bigEndian: boolean
  /** Whether it is assembled from chunks. */
  readonly isChunked: boolean
  /** The name of the checksum of each chunk, which is checked on decoding; `null` if chunks have none. */
  readonly chunkChecksum: string | null
  /** Whether its logical type is known. */
  readonly hasMeaning: boolean
}

/** Properties that a list does not include. */
interface Facts {
  attributes: [string, Written][]
  components: Stored[]
  fault?: ErrorDetails
}

/** Options for reading bytes. */
export interface BytesOptions extends ReadOptions {
  /** The role of the component: `data` by default. */
  role?: string | undefined
  /** Whether the digest is checked, if the file has one: true by default. */
  check?: boolean | undefined
}

/** Options for reading elements. */
export interface ArrayOptions extends ReadOptions, ElementOptions {
  /** Whether digests are checked, if the file has them: true by default. */
  check?: boolean | undefined
}

/** Options for reading records. */
export interface RecordsOptions extends ReadOptions, EvolveOptions {
  /** The index of the first record; 0 by default. */
  start?: number | undefined
  /** The index after the last record; by default all are read. */
  end?: number | undefined
}

/** The code for rows of a tensor without rows, or rows out of range. */
const NO_ROWS = 'layout/rows'

/** Returns whether elements of a type share bytes. */
const isPacked = (type: string): boolean => / f[46]_/.test(type)

/** A tensor of an open file. Its properties are looked up on first access. */
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

  get #loaded(): Facts {
    return (this.#facts ??= this.#file.peek().json<Facts>('tensor', [this.position]))
  }

  /** The file that contains the tensor. */
  get file(): TensorFile {
    return this.#file
  }

  /** The name, exactly as in the file. */
  get name(): string {
    return this.#file.list.name(this.position)
  }

  /** The dimensions, in elements. Those beyond 2^53, which no array can have, are rounded. */
  get shape(): number[] {
    return this.#file.list.shape(this.position)
  }

  /** The number of elements: the product of the shape. */
  get count(): number {
    return this.#file.list.counts[this.position]!
  }

  /** The layout: `dense`, `sparse_csr`, `quantized_group`, … */
  get layout(): string {
    return this.#kind.layout
  }

  /** The storage type of the elements (for a sparse tensor, of the values); `null` for a layout without elements. */
  get dtype(): string | null {
    return this.#kind.dtype
  }

  /** The logical type of the elements beyond storage. */
  get logicalType(): string | null {
    return this.#kind.logicalType
  }

  /** The element type of its dense form, `f32` or `u8 f8_e5m2`; `null` for a layout that has none. */
  get dense(): string | null {
    return this.#kind.dense
  }

  /** The attributes. */
  get attributes(): ReadonlyMap<string, Value> {
    return (this.#attributes ??= attributesOf(this.#loaded.attributes))
  }

  /** The components, in the order of the file. */
  get components(): readonly Component[] {
    return this.#loaded.components
  }

  /** The number of bytes of its components in the file. */
  get storedLen(): number {
    return this.#file.list.storedLens[this.position]!
  }

  /** Why the tensor cannot be read; `null` if it can. */
  get fault(): HoldallError | null {
    if (!this.#kind.isFaulty) return null
    const { fault } = this.#loaded
    return fault === undefined ? null : new HoldallError(fault, this.#file.name)
  }

  /**
   * Returns the decoded bytes of a component: little-endian, row-major. If the file is in memory, they may be a view
   * of it.
   */
  async bytes(options: BytesOptions = {}): Promise<Uint8Array> {
    await this.#here()
    const number = this.#component(options.role ?? 'data')
    return this.#file.run((core) => this.read(core, number, undefined, options))
  }

  /** Yields the decoded bytes piece by piece, in order and in bounded memory. */
  async *pieces(options: BytesOptions = {}): AsyncGenerator<Uint8Array> {
    await this.#here()
    const number = this.#component(options.role ?? 'data')
    const core = await this.#file.core()
    const { sources } = this.#file
    const want = this.#want(number, undefined, options)
    const hints = decoding(hintsOf(sources))
    try {
      for await (const piece of pieces(core, sources, [want], this.isBare(number), hints, options)) {
        yield piece.bytes
      }
    } catch (e) {
      throw this.#file.named(e)
    }
  }

  /**
   * Returns the elements, row-major. Sparse tensors are returned with their zeros, quantized ones as f32.
   */
  async array<O extends ArrayOptions>(options: O = {} as O): Promise<ArrayOf<O>> {
    await this.#here()
    return this.#file.run(async (core) => {
      const type = this.elementType()
      const bytes = await this.#denseBytes(core, options)
      return this.#arrayOf(core, type, bytes, options) as ArrayOf<O>
    })
  }

  /** Returns rows `start..end` of the first dimension. For a dense tensor only their bytes are read. */
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
   * Returns elements `start..end` in row-major order, independent of the shape. For dense tensors and quantized
   * blocks only their bytes are read. Elements below 8 bits are returned as numbers.
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
   * Reads the records of a dataset, or some of them, into memory with the parts of the heap that they refer to, and
   * checks them. `T` is the type of a record, `Static` of the schema. With another `schema` they are converted as a
   * migration would, and members that it lacks are left out.
   */
  async records<T = any>(options: RecordsOptions = {}): Promise<Records<T>> {
    return this.#file.run(async (core) => {
      const parts = await this.#records<T>(core, options)
      if (options.schema === undefined) return parts.records
      const { evolved } = await import('./evolve.js')
      return evolved<T>(this.name, parts, options)
    })
  }

  /** @internal Returns the bytes of the records under another schema. */
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
    // Loaded on demand, since most users only read tensors.
    const { Records } = await import('./records.js')
    const kind = this.attributes.get('metatensor.kind') as string
    return this.#dataset(core, options, (layout, data, heap) => {
      core.call('check', [this.position])
      return { records: new Records<T>(core, layout, data, heap), kind, layout, data, heap }
    })
  }

  /** Returns the records as JSON texts, exactly as the command shows them. */
  async lines(options: RecordsOptions = {}): Promise<string[]> {
    return this.#file.run((core) =>
      this.#dataset(core, options, () => core.json<string[]>('record_lines', [this.position])))
  }

  /**
   * Returns a run of a blob: a string if its content is `utf-8`, the value if it is `json`, otherwise bytes, or its
   * elements as an array. Only its bytes are read if the file stores them without encoding.
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

  /** Reads records and their heap into the module, and calls it without interruption, as `held` does. */
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

  /** @internal Returns whether its stored bytes have a digest that can be checked. */
  hasSum(number: number): boolean {
    return this.#loaded.components[number]!.algorithm !== null
  }

  /** @internal Returns whether the decoded bytes are the stored ones. */
  isBare(number: number): boolean {
    const { encoding, bigEndian } = this.#loaded.components[number]!
    return encoding === 'raw' && !bigEndian
  }

  /** @internal Returns the decoded bytes of a component. */
  async read(
    core: Core, number: number, range: [number, number] | undefined, options: BytesOptions,
  ): Promise<Uint8Array> {
    const { sources } = this.#file
    const isBare = this.isBare(number)
    // A range that covers the whole component is checked against its digest, too.
    if (range?.[0] === 0 && range[1] === this.#loaded.components[number]!.decodedLen) range = undefined
    if (range !== undefined && !isBare) await this.#table(core, number, options)
    const want = this.#want(number, range, options)
    const own = hintsOf(sources)
    const hints = isBare && !want.digest ? own : decoding(own)
    const c = this.#loaded.components[number]!
    const len = range === undefined ? c.decodedLen : range[1] - range[0]
    const base = range?.[0] ?? 0
    let all: Uint8Array | undefined
    const parts: Uint8Array[] = []
    for await (const { offset, bytes } of pieces(core, sources, [want], isBare, hints, options)) {
      if (bytes.length === len) return bytes
      if (len === null) parts.push(bytes)
      else (all ??= new Uint8Array(len)).set(bytes, offset - base)
    }
    return all ?? joined(parts)
  }

  /**
   * @internal Loads all components into the module and calls it without interruption, so that no other read can
   * interfere.
   */
  async held<T>(core: Core, options: BytesOptions, call: () => T): Promise<T> {
    const all: Uint8Array[] = []
    for (let number = 0; number < this.components.length; number++) {
      all.push(await this.read(core, number, undefined, options))
    }
    all.forEach((bytes, number) => core.call('hold', [number], bytes))
    return call()
  }

  #want(number: number, range: [number, number] | undefined, options: BytesOptions): Want {
    const { algorithm } = this.#loaded.components[number]!
    const digest = options.check !== false && range === undefined && algorithm !== null
    return { tensor: this.position, component: number, range, digest }
  }

  /** Reads the seek table of a compressed component, so that a range only needs its frames. */
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

  /** Throws for a tensor that a package only links to, with the addresses of its file. */
  async #here(): Promise<void> {
    if (this.layout === 'linked') throw await (await import('./links.js')).notHere(this.#file, this.name)
  }

  /** Returns the index of a component by role; throws if the tensor cannot be read. */
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

  /** @internal The bytes per element of a sparse tensor's dense form. */
  get width(): number {
    const [type = '', logical] = this.elementType().split(' ')
    if (logical === 'complex32') return 4
    if (logical === 'complex64') return 8
    if (logical === 'complex128') return 16
    return /64$/.test(type) ? 8 : /32$/.test(type) ? 4 : /16$/.test(type) ? 2 : 1
  }

  /** @internal Returns the element type. */
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
    const details = {
      kind, code, message: found, text, tensor: this.name, component: null,
      range: range as [number, number] | null, hint, remedies: [...remedies],
    }
    return new HoldallError(details, this.#file.name, e)
  }
}
