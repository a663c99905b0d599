import type { Core } from './core.js'
import { elementsOf, type TypedArray } from './elements.js'
import { broken } from './errors.js'

/** A type in the layout table: see `js/wasm/src/records.rs`. */
interface Type {
  kind: string
  width?: number
  values?: string[]
  items?: number
  stride?: number
  count?: number | null
  members?: { name: string; type: number; offset: number; bit: number | null }[]
  discriminator?: string
  start?: number
  variants?: { key: string; type: number }[]
  dtype?: string
  size?: number
}

/** The core's description of the layout of records. */
export interface RecordLayout {
  count: number
  stride: number
  root: number
  types: Type[]
}

/** The bytes of records, or of elements in their heap. */
type Bytes = DataView

/** Reads a value at an offset. */
type Read = (bytes: Bytes, at: number) => unknown

/** How numbers of each kind are read, with their width in bytes. */
const SCALARS: Record<string, [width: number, read: Read]> = {
  Int8: [1, (b, at) => b.getInt8(at)],
  Int16: [2, (b, at) => b.getInt16(at, true)],
  Int32: [4, (b, at) => b.getInt32(at, true)],
  Int64: [8, (b, at) => b.getBigInt64(at, true)],
  Uint8: [1, (b, at) => b.getUint8(at)],
  Uint16: [2, (b, at) => b.getUint16(at, true)],
  Uint32: [4, (b, at) => b.getUint32(at, true)],
  Uint64: [8, (b, at) => b.getBigUint64(at, true)],
  Float32: [4, (b, at) => b.getFloat32(at, true)],
  Float64: [8, (b, at) => b.getFloat64(at, true)],
  Complex64: [8, (b, at) => [b.getFloat32(at, true), b.getFloat32(at + 4, true)]],
  Complex128: [16, (b, at) => [b.getFloat64(at, true), b.getFloat64(at + 8, true)]],
  Boolean: [1, (b, at) => b.getUint8(at) === 1],
  Timestamp: [8, (b, at) => b.getBigInt64(at, true)],
}

/** Typed arrays by kind. */
const ARRAYS: Record<string, new (count: number) => TypedArray> = {
  Int8: Int8Array, Int16: Int16Array, Int32: Int32Array, Int64: BigInt64Array,
  Uint8: Uint8Array, Uint16: Uint16Array, Uint32: Uint32Array, Uint64: BigUint64Array,
  Float16: Float32Array, BFloat16: Float32Array, Float8E4M3: Float32Array, Float8E5M2: Float32Array,
  Float32: Float32Array, Float64: Float64Array, Boolean: Uint8Array, Timestamp: BigInt64Array,
}

/** Floats that are converted by a lookup table: their width, and their name in the core. */
const SMALL: Record<string, [width: 1 | 2, name: string]> = {
  Float16: [2, 'f16'], BFloat16: [2, 'bf16'],
  Float8E4M3: [1, 'u8 f8_e4m3fn'], Float8E5M2: [1, 'u8 f8_e5m2'],
}

// With `ignoreBOM`, a byte order mark at the start is kept as a character.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true })
/** Bytes of strings, and number of strings, that are decoded at a time. */
const TEXTS = 1 << 18
const MANY = 1 << 14
const COUNTS = { 1: 'getUint8', 2: 'getUint16', 4: 'getUint32' } as const

/** Reads the index of an enum's value, or of a variant. */
const placeAt = (bytes: Bytes, at: number, width: number): number =>
  bytes[COUNTS[width as 1 | 2 | 4]](at, true)

/** Strings that are decoded together, and their destinations. */
class Batch {
  readonly #bytes = new Uint8Array(TEXTS)
  /** The index in `out` of each string, and its end in the decoded text, in UTF-16 units. */
  readonly #places = new Int32Array(MANY)
  readonly #ends = new Int32Array(MANY)
  #count = 0
  #len = 0
  #units = 0

  constructor(readonly out: (string | undefined)[]) {}

  /** Adds a string if it is pure ASCII; otherwise returns `false`. */
  addAscii(n: number, heap: Uint8Array, at: number, length: number): boolean {
    this.#makeRoom(length)
    const bytes = this.#bytes
    const to = this.#len
    let all = 0
    for (let i = 0; i < length; i++) all |= bytes[to + i] = heap[at + i]!
    if (all > 0x7f) return false
    this.#added(n, length, length)
    return true
  }

  add(n: number, heap: Uint8Array, at: number, length: number): void {
    this.#makeRoom(length)
    const bytes = this.#bytes
    const to = this.#len
    let units = 0
    for (let i = 0; i < length; i++) {
      const byte = (bytes[to + i] = heap[at + i]!)
      // A character beyond 16 bits takes two units; its first byte is 0xf0 or above.
      units += (byte & 0xc0) === 0x80 ? 0 : byte >= 0xf0 ? 2 : 1
    }
    this.#added(n, length, units)
  }

  flush(): void {
    const all = decoder.decode(this.#bytes.subarray(0, this.#len))
    const [places, ends, out, count] = [this.#places, this.#ends, this.out, this.#count]
    for (let at = 0, start = 0; at < count; at++) {
      const end = ends[at]!
      out[places[at]!] = all.slice(start, end)
      start = end
    }
    this.#count = this.#len = this.#units = 0
  }

  #makeRoom(length: number): void {
    if (this.#len + length > TEXTS || this.#count === MANY) this.flush()
  }

  #added(n: number, length: number, units: number): void {
    this.#len += length
    this.#units += units
    this.#places[this.#count] = n
    this.#ends[this.#count++] = this.#units
  }
}

/** Readers of all types of a layout. They rely on the core's checks of the bytes. */
class Readers {
  readonly #heap: Uint8Array
  readonly #heapView: Bytes
  readonly #types: Type[]
  readonly #made: Read[] = []
  readonly #tables = new Map<string, Float32Array>()

  constructor(private readonly core: Core, { types }: RecordLayout, heap: Uint8Array) {
    this.#types = types
    this.#heap = heap
    this.#heapView = viewOf(heap)
    // The parts of a type come before it.
    types.forEach((type) => this.#made.push(this.#make(type)))
  }

  of(type: number): Read {
    return this.#made[type]!
  }

  /**
   * Returns the strings of the heap whose entries are `step` bytes apart, decoded in batches; absent ones are
   * undefined.
   */
  texts(count: number, b: Bytes, place: number, step: number, isThere: ((n: number) => boolean) | null): (string | undefined)[] {
    const out = new Array<string | undefined>(count).fill(undefined)
    const heap = this.#heap
    // Separate batches, because pure ASCII is decoded far faster.
    const [ascii, other] = [new Batch(out), new Batch(out)]
    for (let n = 0; n < count; n++, place += step) {
      if (isThere !== null && !isThere(n)) continue
      // The core holds the whole heap, which is below 4 GiB.
      const at = b.getUint32(place, true)
      const length = b.getUint32(place + 8, true)
      if (length > TEXTS) out[n] = decoder.decode(heap.subarray(at, at + length))
      else if (!ascii.addAscii(n, heap, at, length)) other.add(n, heap, at, length)
    }
    ascii.flush()
    other.flush()
    return out
  }

  #make(type: Type): Read {
    const { kind } = type
    const scalar = SCALARS[kind]
    if (scalar !== undefined) return scalar[1]
    const small = SMALL[kind]
    if (small !== undefined) {
      const table = this.#table(kind, ...small)
      const wide = small[0] === 2
      return (b, at) => table[wide ? b.getUint16(at, true) : b.getUint8(at)]
    }
    switch (kind) {
      case 'Enum': {
        const { width = 1, values = [] } = type
        return (b, at) => values[placeAt(b, at, width)]
      }
      case 'String':
        return (b, at) => decoder.decode(this.#entry(b, at))
      case 'Bytes':
        return (b, at) => this.#entry(b, at)
      case 'Record':
        return (b, at) => parsedExactly(decoder.decode(this.#entry(b, at)))
      case 'Array':
        return this.#array(type)
      case 'Struct':
        return this.#struct(type)
      case 'Union': {
        const { width = 1, start = 0, variants = [], discriminator = '' } = type
        return (b, at) => {
          const { key, type } = variants[placeAt(b, at, width)]!
          const row = put({}, discriminator, key)
          Object.entries(this.of(type)(b, at + start) as Plain).forEach(([name, value]) => put(row, name, value))
          return row
        }
      }
      default: {
        // A tensor: its elements as a typed array.
        const { dtype = 'U8', size = 0 } = type
        const float = FLOATS[dtype]
        const name = float ?? TENSORS[dtype] ?? 'u8'
        const options = float === undefined ? {} : { as: 'f32' as const }
        return (b, at) => elementsOf(this.core, name, bytesOf(b, at, size), options)
      }
    }
  }

  #array(type: Type): Read {
    const { items = 0, stride = 1, count = null } = type
    const read = this.of(items)
    const { kind } = this.#types[items]!
    const array = ARRAYS[kind]
    const fill = (b: Bytes, from: number, n: number): unknown => {
      if (array === undefined || kind === 'Boolean') return Array.from({ length: n }, (_, at) => read(b, from + at * stride))
      const out = new array(n) as { [at: number]: unknown }
      for (let at = 0; at < n; at++) out[at] = read(b, from + at * stride)
      return out
    }
    if (count !== null) return (b, at) => fill(b, at, count)
    return (b, at) => {
      const [offset, length] = entryAt(b, at)
      return fill(this.#heapView, offset, length / stride)
    }
  }

  /**
   * Reads a struct as a plain object, for spread, `structuredClone` and validators. Absent optional members are left
   * out.
   */
  #struct({ members = [] }: Type): Read {
    const all = members.map(({ name, type, offset, bit }) => ({ name, read: this.of(type), offset, bit }))
    return (b, at) => {
      const row: Plain = {}
      for (const { name, read, offset, bit } of all) {
        if (bit !== null && ((b.getUint8(at + (bit >> 3)) >> (bit & 7)) & 1) === 0) continue
        put(row, name, read(b, at + offset))
      }
      return row
    }
  }

  #table(kind: string, width: 1 | 2, name: string): Float32Array {
    let table = this.#tables.get(kind)
    if (table === undefined) {
      const codes = width === 2 ? Uint16Array.from({ length: 65536 }, (_, n) => n) : Uint8Array.from({ length: 256 }, (_, n) => n)
      table = elementsOf(this.core, name, new Uint8Array(codes.buffer), { as: 'f32' }) as Float32Array
      this.#tables.set(kind, table)
    }
    return table
  }

  #entry(b: Bytes, at: number): Uint8Array {
    const [offset, length] = entryAt(b, at)
    return this.#heap.subarray(offset, offset + length)
  }
}

/** @internal Parses JSON; integers beyond 2^53 become bigints. */
export function parsedExactly(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text)
  // No member can have this name: JSON text escapes the character.
  const tagged = text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) => {
    const isExact = token.startsWith('"') || /[.eE]/.test(token) || Number.isSafeInteger(Number(token))
    return isExact ? token : `{"\\u0000int":"${token}"}`
  })
  return JSON.parse(tagged, (_, value) => {
    const big: unknown = typeof value === 'object' && value !== null ? value['\0int'] : undefined
    return typeof big === 'string' ? BigInt(big) : value
  })
}

type Plain = { [name: string]: unknown }

/** Sets a member of an object, whatever its name: assigning `__proto__` would call a setter. */
function put(row: Plain, name: string, value: unknown): Plain {
  if (name !== '__proto__') row[name] = value
  else Object.defineProperty(row, name, { value, enumerable: true, configurable: true, writable: true })
  return row
}

/** Decodes the bytes of a run of a blob; `kind` is the blob's schema as JSON text. */
export function runOf(core: Core, kind: string, bytes: Uint8Array): unknown {
  const { content } = JSON.parse(kind)['TypeDef:Blob'] as { content: string }
  if (content === 'bytes') return bytes
  if (content !== 'utf-8' && content !== 'json') {
    const float = FLOATS[content]
    return elementsOf(core, float ?? TENSORS[content] ?? 'u8', bytes, float === undefined ? {} : { as: 'f32' })
  }
  let text: string
  try {
    text = strict.decode(bytes)
  } catch (e) {
    throw broken('record/utf8', 'a run is not UTF-8', { cause: e })
  }
  return content === 'json' ? JSON.parse(text) : text
}

/** Element types of tensors in records, by their names in the core. */
const TENSORS: Record<string, string> = {
  F64: 'f64', F32: 'f32', I64: 'i64', I32: 'i32', I16: 'i16', I8: 'i8',
  U64: 'u64', U32: 'u32', U16: 'u16', U8: 'u8', BOOL: 'bool', C64: 'f32 complex64',
}
/** Element types without a typed array in JavaScript, which become `f32`. */
const FLOATS: Record<string, string> = {
  F16: 'f16', BF16: 'bf16', F8_E4M3: 'u8 f8_e4m3fn', F8_E5M2: 'u8 f8_e5m2', F8_E8M0: 'u8 f8_e8m0',
  F8_E4M3FNUZ: 'u8 f8_e4m3fnuz', F8_E5M2FNUZ: 'u8 f8_e5m2fnuz', F6_E2M3: 'u8 f6_e2m3',
  F6_E3M2: 'u8 f6_e3m2', F4: 'u8 f4_e2m1',
}

const viewOf = (bytes: Uint8Array): Bytes => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
const bytesOf = (b: Bytes, at: number, len: number): Uint8Array => new Uint8Array(b.buffer, b.byteOffset + at, len)
const placeOf = (b: Bytes, at: number): number => b.getUint32(at, true) + b.getUint32(at + 4, true) * 2 ** 32
const entryAt = (b: Bytes, at: number): [number, number] => [placeOf(b, at), placeOf(b, at + 8)]

/**
 * Fills an array with a number of every record. Each loop is a separate function, so that it is compiled for its
 * type.
 */
type Fill = (out: any, b: Bytes, at: number, stride: number) => void
const FILLS: Record<string, Fill> = {
  Int8: (out, b, at, step) => { for (let n = 0; n < out.length; n++, at += step) out[n] = b.getInt8(at) },
  Int16: (out, b, at, step) => { for (let n = 0; n < out.length; n++, at += step) out[n] = b.getInt16(at, true) },
  Int32: (out, b, at, step) => { for (let n = 0; n < out.length; n++, at += step) out[n] = b.getInt32(at, true) },
  Int64: (out, b, at, step) => { for (let n = 0; n < out.length; n++, at += step) out[n] = b.getBigInt64(at, true) },
  Uint8: (out, b, at, step) => { for (let n = 0; n < out.length; n++, at += step) out[n] = b.getUint8(at) },
  Uint16: (out, b, at, step) => { for (let n = 0; n < out.length; n++, at += step) out[n] = b.getUint16(at, true) },
  Uint32: (out, b, at, step) => { for (let n = 0; n < out.length; n++, at += step) out[n] = b.getUint32(at, true) },
  Uint64: (out, b, at, step) => { for (let n = 0; n < out.length; n++, at += step) out[n] = b.getBigUint64(at, true) },
  Float32: (out, b, at, step) => { for (let n = 0; n < out.length; n++, at += step) out[n] = b.getFloat32(at, true) },
  Float64: (out, b, at, step) => { for (let n = 0; n < out.length; n++, at += step) out[n] = b.getFloat64(at, true) },
}
FILLS['Boolean'] = FILLS['Uint8']!
FILLS['Timestamp'] = FILLS['Int64']!


/**
 * Records of a dataset, in memory. The core has checked each of them; `T` is the type of a record, `Static` of the
 * schema.
 */
export class Records<T = any> implements Iterable<T> {
  readonly #layout: RecordLayout
  readonly #bytes: Bytes
  readonly #readers: Readers
  /** The number of records. */
  readonly length: number

  /** @internal */
  constructor(core: Core, layout: RecordLayout, data: Uint8Array, heap: Uint8Array) {
    this.#layout = layout
    this.#bytes = viewOf(data)
    this.#readers = new Readers(core, layout, heap)
    this.length = data.length / layout.stride
  }

  /**
   * Returns a record as a plain object: numbers and booleans, 64-bit integers and times (nanoseconds since 1970) as
   * bigints, strings, bytes as a `Uint8Array` view, arrays of numbers as typed arrays. Absent optional members are
   * left out.
   */
  at(index: number): T {
    const at = index < 0 ? this.length + index : index
    if (!Number.isInteger(at) || at < 0 || at >= this.length) {
      throw broken('records/index', `record ${index} of ${this.length}`)
    }
    const { root, stride } = this.#layout
    return this.#readers.of(root)(this.#bytes, at * stride) as T
  }

  *[Symbol.iterator](): Iterator<T> {
    for (let at = 0; at < this.length; at++) yield this.at(at)
  }

  /**
   * Returns a member of all records, by its path (`at.lat`): a typed array for numbers that are not optional,
   * otherwise an array.
   */
  column(path: string): TypedArray | unknown[] {
    const { types, root, stride } = this.#layout
    const bits: [offset: number, bit: number][] = []
    let [type, offset] = [root, 0]
    for (const name of segments(path)) {
      const member = types[type]!.members?.find((member) => member.name === name)
      if (member === undefined) {
        throw broken('schema/unknown-path', `\`${path}\`: the struct has no member \`${name}\``)
      }
      if (member.bit !== null) bits.push([offset + (member.bit >> 3), member.bit & 7])
      offset += member.offset
      type = member.type
    }
    const read = this.#readers.of(type)
    const b = this.#bytes
    // Booleans are stored as bytes, but are not numbers.
    const array = types[type]!.kind === 'Boolean' ? undefined : ARRAYS[types[type]!.kind]
    if (bits.length === 0 && array !== undefined) {
      const out = new array(this.length)
      const fill = FILLS[types[type]!.kind]
      if (fill !== undefined) fill(out, b, offset, stride)
      else for (let at = 0, from = offset; at < this.length; at++, from += stride) (out as { [at: number]: unknown })[at] = read(b, from)
      return out
    }
    const isThere = (at: number) => bits.every(([byte, bit]) => ((b.getUint8(at + byte) >> bit) & 1) === 1)
    if (types[type]!.kind === 'String') {
      return this.#readers.texts(this.length, b, offset, stride, bits.length === 0 ? null : (n) => isThere(n * stride))
    }
    return Array.from({ length: this.length }, (_, n) => {
      const at = n * stride
      return isThere(at) ? read(b, at + offset) : undefined
    })
  }
}

/** Splits a path into names; `\` escapes `.`, `[` and itself. */
export function segments(path: string): string[] {
  const names = path.match(/(?:\\.|[^.\\])+/gs) ?? []
  return names.map((name) => (name === '\\_' ? '' : name.replace(/\\(.)/gs, '$1')))
}

/** Splits a path into steps: a name for a member, or `null` for `[]`, each element of an array. */
export function steps(path: string): (string | null)[] {
  const found = path.match(/\[\]|(?:\\.|[^.\\[])+/gs) ?? []
  return found.map((step) => (step === '[]' ? null : segments(step)[0]!))
}
