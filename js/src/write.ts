import { Core, encode, nodeModule, numbersOf } from './core.js'
import type { TypedArray } from './elements.js'
import { broken } from './errors.js'
import type { ValuesInput } from './plain.js'
import type { BlobInput, RecordsInput } from './rows.js'
import { joined, messageOf, type FileHandle } from './source.js'
import { schemaText } from './schema/text.js'
import { written, type Value } from './values.js'

/** A tensor to be written. */
export interface TensorInput {
  /** Its elements, little-endian, row-major. */
  data: TypedArray | Uint8Array
  /** The element type, if it does not follow from the array: `bf16`, `F8_E4M3`. */
  dtype?: string | undefined
  /** The dimensions; by default one, of the length of the array. */
  shape?: readonly number[] | undefined
  /** The attributes, if the format supports them. */
  attributes?: Attributes | undefined
}

/** Attributes by name. */
export type Attributes = ReadonlyMap<string, Value> | Readonly<Record<string, Value>>

/** The value for one name in a file. */
type Input = TypedArray | TensorInput | RecordsInput | BlobInput

/** Tensors, datasets of records, and blobs, by name. */
export type TensorsInput = Readonly<Record<string, Input>> | ReadonlyMap<string, Input>

/** Options for writing a file. */
export interface WriteOptions {
  /** The format: `ztensor`, `safetensors`, `metatensor`, `gguf`. For a path, the extension decides by default. */
  format?: string | undefined
  /** The version of the format; the newest by default. */
  version?: string | undefined
  /** The attributes of the file. */
  attributes?: Attributes | undefined
  /**
   * The schema of a Metatensor file, as an object or as JSON text, which is written unchanged; by default it is
   * derived from the tensors.
   */
  schema?: object | string | undefined
  /**
   * Plain values in the header of a Metatensor file, by their paths in the schema: `{ config: { layers: 3 } }`. They
   * are checked against it.
   */
  values?: ValuesInput | undefined
  /** Cancels writing. */
  signal?: AbortSignal | undefined
}

/** Options for saving a file. */
export interface SaveOptions extends WriteOptions {
  /** Whether an existing file may be replaced. */
  overwrite?: boolean | undefined
}

/** The locations of tensors in a file. */
export interface Placed {
  /** The size of the file in bytes. */
  size: number
  /** The start and end of each tensor in bytes, by path, in the order of the file. */
  tensors: { name: string; start: number; end: number }[]
}

/** The attributes of a Metatensor file that hold its schema and the plain values of its header. */
const [SCHEMA, VALUES] = ['metatensor.schema', 'metatensor.values']
/** Bytes that are hashed at a time. */
const PIECE = 4 << 20

const DTYPES: Record<string, string> = {
  Float64Array: 'f64', Float32Array: 'f32', BigInt64Array: 'i64', Int32Array: 'i32',
  Int16Array: 'i16', Int8Array: 'i8', BigUint64Array: 'u64', Uint32Array: 'u32',
  Uint16Array: 'u16', Uint8Array: 'u8', Uint8ClampedArray: 'u8', Float16Array: 'f16',
}

/** A tensor's description for the core; datasets and blobs refer to an encoded part by number. */
type Spec = { name: string } & (
  | { dtype: string; shape: readonly number[]; attributes: Attributes | undefined }
  | { part: number }
)

const mapOf = (of: Attributes = {}): Map<string, Value> => new Map(of instanceof Map ? of : Object.entries(of))

/** Returns a file's description for the core. */
function writeRequest(
  format: string, specs: readonly Spec[], attributes: Map<string, Value>, options: WriteOptions, isKept: boolean | string = false,
): Uint8Array {
  const object = (of: Attributes | undefined) => written(mapOf(of))
  const tensors = specs.map((spec) => {
    const name = `{"name":${JSON.stringify(spec.name)}`
    if ('part' in spec) return `${name},"part":${spec.part}}`
    const { dtype, shape, attributes } = spec
    return `${name},"dtype":${JSON.stringify(dtype)},"shape":${JSON.stringify(shape)},"attributes":${object(attributes)}}`
  })
  const version = options.version === undefined ? '' : `"version":${JSON.stringify(options.version)},`
  const without = typeof isKept === 'string' ? `"without":${JSON.stringify(isKept)},` : ''
  return encode(`{"format":${JSON.stringify(format)},"kept":${isKept !== false},${version}${without}` +
    `"attributes":${written(attributes)},"tensors":[${tensors.join()}]}`)
}

/** Begins a file: returns the order of its tensors, and its first bytes. */
function begin(core: Core, request: Uint8Array): [order: number[], head: Uint8Array] {
  const { bytes } = core.call('write_begin', [], request)
  const [count = 0] = numbersOf(bytes.slice(0, 8))
  const end = 8 + count * 8
  return [numbersOf(bytes.slice(8, end)), bytes.slice(end)]
}

/** Yields the bytes of a file, in order, as they are produced; arrays are yielded without copying. */
export async function* encodeTensors(
  tensors: TensorsInput, options: WriteOptions & { format: string },
): AsyncGenerator<Uint8Array> {
  if (options?.format === undefined) throw broken('write/extension', 'the bytes have no name that says a format')
  const all = [...(tensors instanceof Map ? tensors : Object.entries(tensors))] as [string, Input][]
  const core = await Core.create('whole')
  const inputs: Encodable[] = []
  let parts = 0
  for (const [name, given] of all) {
    if (!isPart(given)) {
      inputs.push(inputOf(name, given))
      continue
    }
    // Loaded on demand, since most users only write tensors.
    const { encodeBlob, encodeRecords } = await import('./rows.js')
    const encoded = 'runs' in given ? encodeBlob(core, parts++, name, given) : encodeRecords(core, parts++, name, given, options.schema)
    inputs.push({ name, ...(await encoded) })
  }
  yield* encoded(core, inputs, options)
}

/** @internal A tensor with its bytes, or functions that make them when they are written. */
export type Encodable = Spec & { components: (Uint8Array | (() => Promise<Uint8Array>))[] }

/** Returns the attributes to write, including the schema and the checked plain values. */
async function attributesOf(core: Core, { attributes: given, schema, values }: WriteOptions): Promise<Map<string, Value>> {
  const attributes = mapOf(given)
  if (schema !== undefined) attributes.set(SCHEMA, schemaText(schema))
  if (values === undefined && !attributes.has(VALUES)) return attributes
  const { checkedValues } = await import('./plain.js')
  const text = attributes.get(SCHEMA)
  const checked = checkedValues(core, typeof text === 'string' ? text : undefined, attributes, values)
  return checked === undefined ? attributes : attributes.set(VALUES, checked)
}

/**
 * @internal Yields the bytes of a file with these tensors; datasets and blobs are in the core. With `isKept`,
 * attributes of the file that is open in the core are written too, except for its schema, or for the one that is named.
 */
export async function* encoded(
  core: Core, inputs: readonly Encodable[], options: WriteOptions & { format: string }, isKept: boolean | string = false,
): AsyncGenerator<Uint8Array> {
  const attributes = await attributesOf(core, options)
  const [order, head] = begin(core, writeRequest(options.format, inputs, attributes, options, isKept))
  yield head
  let end = head.length
  for (let at = 0; at < order.length; at++) {
    options.signal?.throwIfAborted()
    const { name, components } = inputs[order[at]!]!
    for (const [component, given] of components.entries()) {
      const bytes = typeof given === 'function' ? await given() : given
      const [start = 0, len, sums] = core.numbers('write_place', [at, component, BigInt(end)])
      if (bytes.length !== len) {
        throw broken('write/length', `${bytes.length} bytes were given, its shape takes ${len}`, { tensor: name })
      }
      if (start > end) yield new Uint8Array(start - end)
      if (sums === 1) {
        for (let from = 0; from < len; from += PIECE) {
          core.call('write_sum', [], bytes.subarray(from, from + PIECE))
        }
      }
      if (len > 0) yield bytes
      core.call('write_placed', [at, component])
      end = start + len
    }
  }
  const tail = core.call('write_finish', [BigInt(end)]).bytes.slice()
  if (tail.length > 0) yield tail
}

/** Encodes a file in memory. */
export async function toBytes(
  tensors: TensorsInput, options: WriteOptions & { format: string },
): Promise<Uint8Array> {
  return collected(encodeTensors(tensors, options))
}

/** @internal Concatenates pieces. */
export async function collected(all: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  for await (const piece of all) pieces.push(piece)
  return joined(pieces)
}

/** A target for writing. */
export type Target = string | URL | WritableStream<Uint8Array>

/**
 * Writes a file to a path, where it appears when it is complete, or to a stream, which is closed at the end.
 */
export async function save(to: Target, tensors: TensorsInput, options: SaveOptions = {}): Promise<void> {
  const format = options.format ?? (await formatOf(to))
  return publish(to, encodeTensors(tensors, { ...options, format }), options)
}

/** @internal Writes the bytes of a file to a target. */
export async function publish(to: Target, pieces: AsyncIterable<Uint8Array>, options: { overwrite?: boolean | undefined }): Promise<void> {
  if (to instanceof WritableStream) {
    const writer = to.getWriter()
    try {
      for await (const piece of pieces) await writer.write(piece)
      await writer.close()
    } catch (e) {
      await writer.abort(e).catch(() => {})
      throw e
    }
    return
  }
  const name = String(to)
  const { open, rename, link, rm } = await nodeModule('node:fs/promises')
  const path: string = to instanceof URL || /^file:/i.test(name)
    ? (await nodeModule('node:url')).fileURLToPath(name)
    : name
  const own = `${path}.${crypto.randomUUID().slice(0, 8)}.part`
  let handle: (FileHandle & { write(bytes: Uint8Array): Promise<{ bytesWritten: number }>; sync(): Promise<void> }) | undefined
  try {
    handle = await open(own, 'wx')
    for await (const piece of pieces) {
      for (let at = 0; at < piece.length; ) {
        at += (await handle!.write(piece.subarray(at, at + (1 << 30)))).bytesWritten
      }
    }
    await handle!.sync()
    await handle!.close()
    handle = undefined
    if (options.overwrite === true) {
      await rename(own, path)
    } else {
      // A hard link, unlike a rename, does not replace an existing file.
      await link(own, path)
      await rm(own)
    }
  } catch (e) {
    await handle?.close().catch(() => {})
    await rm(own, { force: true }).catch(() => {})
    const { code } = e as { code?: unknown }
    if (code === 'EEXIST') throw broken('write/exists', 'the file exists', { source: name, cause: e })
    if (typeof code === 'string' && /^E[A-Z]+$/.test(code)) {
      throw broken('io/failed', messageOf(e), { source: name, cause: e })
    }
    throw e
  }
}

/** @internal Returns the format for the extension of a file name. */
export async function formatOf(to: Target): Promise<string> {
  if (to instanceof WritableStream) throw broken('write/extension', 'a stream has no name')
  const name = String(to)
  const formats = (await Core.create('whole')).json<{ id: string; extensions: string[] }[]>('format_list')
  const extension = /\.([^./\\]+)$/.exec(name)?.[1]?.toLowerCase() ?? ''
  const found = formats.find((format) => format.extensions.includes(extension))
  if (found === undefined) {
    throw broken('write/extension', `the extension of \`${name}\` is not that of a writable format`, { source: name })
  }
  return found.id
}

const isPart = (given: Input): given is RecordsInput | BlobInput =>
  typeof given === 'object' && given !== null && !ArrayBuffer.isView(given) && ('records' in given || 'columns' in given || 'runs' in given)

function inputOf(name: string, given: TypedArray | TensorInput): Spec & { components: Uint8Array[] } {
  const input: TensorInput = ArrayBuffer.isView(given) ? { data: given as TypedArray } : given
  if (!ArrayBuffer.isView(input?.data)) {
    throw broken('js/source', 'this is neither a typed array nor an object with one as `data`', { tensor: name })
  }
  const { data, shape = [data.length], attributes } = input
  // A Node `Buffer` is a subclass of `Uint8Array`.
  const kind = data[Symbol.toStringTag]
  const dtype = input.dtype ?? DTYPES[kind]
  if (dtype === undefined) throw broken('js/source', `cannot write a ${kind}`, { tensor: name })
  return { name, dtype, shape, attributes, components: [new Uint8Array(data.buffer, data.byteOffset, data.byteLength)] }
}

/** Returns the locations of tensors in a Metatensor file with a schema. */
export async function placeTensors(
  schema: object | string, tensors: readonly { name: string; dtype: string; shape: number[] }[],
): Promise<Placed> {
  const core = await Core.create('whole')
  const specs = tensors.map((tensor) => ({ ...tensor, attributes: undefined }))
  const [order, head] = begin(core, writeRequest('metatensor', specs, new Map([[SCHEMA, schemaText(schema)]]), {}))
  const out: Placed = { size: head.length, tensors: [] }
  order.forEach((number, at) => {
    const [start = 0, len = 0] = core.numbers('write_place', [at, 0, BigInt(out.size)])
    core.call('write_placed', [at, 0])
    out.tensors.push({ name: tensors[number]!.name, start, end: start + len })
    out.size = start + len
  })
  out.size += core.call('write_finish', [BigInt(out.size)]).bytes.length
  return out
}
