import { encode, type Core } from './core.js'
import { broken } from './errors.js'
import { schemaText } from './schema/text.js'
import { joined } from './source.js'
import { written } from './values.js'

/** Records to be written: as objects, or as a column for each member. */
export interface RecordsInput {
  /** The records, in order: objects as `Records.at` returns them, or JSON texts. */
  records?: Iterable<object | string> | AsyncIterable<object | string> | undefined
  /** Instead of `records`: the values of each member, by path; paths of members in structs have dots, `at.lat`. */
  columns?: Readonly<Record<string, ArrayLike<unknown> | undefined>> | undefined
  /** The schema of a record, as an object or JSON text; optional if the file's schema has the dataset. */
  schema?: object | string | undefined
}

/** A blob to be written, as runs of bytes. */
export interface BlobInput {
  /** The runs, in order: strings, bytes, typed arrays; any value if `content` is `json`. */
  runs: Iterable<unknown> | AsyncIterable<unknown>
  /**
   * The content of the runs: `utf-8`, `bytes`, `json`, or an element type such as `F32`. By default it follows from
   * the first run.
   */
  content?: string | undefined
}

/** A dataset or a blob as bytes. */
export interface Encoded {
  /** The number that the core assigned to it. */
  part: number
  /** The records or entries, and their heap if they have one. */
  components: Uint8Array[]
}

/** Characters of lines that are passed to the core at a time. */
const BATCH = 1 << 20

/** Encodes records, by the core. */
export async function encodeRecords(
  core: Core, part: number, name: string, input: RecordsInput, ofFile: object | string | undefined,
): Promise<Encoded> {
  const schema = input.schema ?? ofFile
  if (schema === undefined) throw broken('js/source', 'nothing says what a record is: give its schema', { tensor: name })
  // The path matters if the schema is that of a file.
  const path = encode(name)
  const kind = core.json<Schema>('dataset_begin', [path.length], joined([path, encode(schemaText(schema))]))
  let [lines, len]: [string[], number] = [[], 0]
  const flush = () => {
    if (lines.length > 0) core.call('part_push', [], encode(lines.join('\n')))
    ;[lines, len] = [[], 0]
  }
  const given = input.records ?? rowsOf(name, input.columns ?? {}, kind)
  for await (const record of given as AsyncIterable<object | string>) {
    // A line break would end the record; in JSON it can be replaced by a space.
    const line = typeof record === 'string' ? record.replace(/[\r\n]/g, ' ') : lineOf(kind, record, kind)
    lines.push(line)
    len += line.length
    if (len >= BATCH) flush()
  }
  flush()
  return { part, components: taken(core) }
}

/** Returns the bytes that the core has just encoded. */
const taken = (core: Core): Uint8Array[] => [0, 1].flatMap((heap) => {
  const { bytes } = core.call('part_take', [heap])
  return bytes[0] === 1 ? [bytes.slice(8)] : []
})

/** Element types of the arrays that runs may be. */
const CONTENTS: Record<string, string> = {
  Float64Array: 'F64', Float32Array: 'F32', Float16Array: 'F16', BigInt64Array: 'I64', Int32Array: 'I32', Int16Array: 'I16',
  Int8Array: 'I8', BigUint64Array: 'U64', Uint32Array: 'U32', Uint16Array: 'U16',
}

/** Typed arrays for these element types. */
const NUMBERS: Record<string, { from(items: ArrayLike<unknown>): ArrayBufferView }> = {
  F64: Float64Array, F32: Float32Array, I64: BigInt64Array as never, I32: Int32Array, I16: Int16Array, I8: Int8Array,
  U64: BigUint64Array as never, U32: Uint32Array, U16: Uint16Array, U8: Uint8Array,
}
/** Element types without a typed array in JavaScript, and the array that holds their stored form. */
const STORED: Record<string, string> = {
  F16: 'Uint16Array', BF16: 'Uint16Array', C64: 'Float32Array', I8: 'Int8Array', U8: 'Uint8Array', BOOL: 'Uint8Array',
  F8_E4M3: 'Uint8Array', F8_E5M2: 'Uint8Array', F8_E8M0: 'Uint8Array', F8_E4M3FNUZ: 'Uint8Array', F8_E5M2FNUZ: 'Uint8Array',
}

/** Returns the class name of an array; a Node `Buffer` is a subclass of `Uint8Array`. */
const nameOf = (array: ArrayBufferView): string => (array as unknown as { [Symbol.toStringTag]: string })[Symbol.toStringTag]

/** Returns the content of a run, if the caller has not specified it. */
function contentOf(run: unknown): string {
  if (typeof run === 'string') return 'utf-8'
  if (ArrayBuffer.isView(run)) return CONTENTS[nameOf(run)] ?? 'bytes'
  return 'json'
}

/** Returns the bytes of a run, copied if its array may be reused. */
function bytesOf(run: unknown, content: string, name: string, at: number): Uint8Array {
  if (content === 'json') return encode(lineOf(undefined, run, {}))
  if (typeof run === 'string' && (content === 'utf-8' || content === 'bytes')) return encode(run)
  const bytes = elementBytes(run, content)
  if (bytes !== undefined) return bytes.slice()
  const own = Array.isArray(run) ? 'a list' : contentOf(run)
  throw broken('js/source', `run ${at} is ${run === null ? 'null' : own}, in a blob of ${content}`, { tensor: name })
}

/**
 * Returns the bytes of an array or a list of numbers as that element type; bytes are taken as stored elements.
 * Returns `undefined` for other types.
 */
export function elementBytes(run: unknown, content: string): Uint8Array | undefined {
  const array = Array.isArray(run) ? numbersOf(run, content) : run
  if (!ArrayBuffer.isView(array)) return undefined
  const own = contentOf(array)
  if (!Array.isArray(run) && own !== content && own !== 'bytes' && content !== 'bytes' && nameOf(array) !== STORED[content]) return undefined
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
}

/** Converts a list of numbers to an array of the element type, if that changes none of them. */
function numbersOf(list: readonly unknown[], content: string): ArrayBufferView | undefined {
  const array = NUMBERS[content]
  const isBig = content === 'I64' || content === 'U64'
  const isNumber = (one: unknown) => typeof one === (isBig ? 'bigint' : 'number')
  if (array === undefined || !list.every(isNumber)) return undefined
  const made = array.from(list)
  const same = /^F/.test(content) || Array.from(made as unknown as ArrayLike<unknown>).every((one, n) => one === list[n])
  return same ? made : undefined
}

/** Encodes runs, by the core. */
export async function encodeBlob(core: Core, part: number, name: string, input: BlobInput): Promise<Encoded> {
  let { content } = input
  const begin = (of: string) => {
    core.call('blob_begin', [], encode(of))
    return of
  }
  if (content !== undefined) begin(content)
  let [pieces, len, count]: [Uint8Array[], number, number] = [[], 0, 0]
  const flush = () => {
    core.call('part_push', [], joined(pieces))
    ;[pieces, len] = [[], 0]
  }
  for await (const run of input.runs as AsyncIterable<unknown>) {
    content ??= begin(contentOf(run))
    const bytes = bytesOf(run, content, name, count++)
    pieces.push(new Uint8Array(Uint32Array.of(bytes.length).buffer), bytes)
    len += bytes.length
    if (len >= BATCH) flush()
  }
  if (content === undefined) begin('bytes')
  flush()
  return { part, components: taken(core) }
}

/** Yields records from columns; the schema decides which structs are present if all of their members are absent. */
function* rowsOf(name: string, columns: NonNullable<RecordsInput['columns']>, root: Schema): Generator<object> {
  const all = Object.entries(columns).filter(([, values]) => values !== undefined) as [string, ArrayLike<unknown>][]
  const count = all[0]?.[1].length ?? 0
  const odd = all.find(([, values]) => values.length !== count)
  if (odd !== undefined) {
    throw broken('write/length', `column \`${odd[0]}\` has ${odd[1].length} values, \`${all[0]![0]}\` has ${count}`, { tensor: name })
  }
  // A dot after a backslash belongs to the name.
  const paths = all.map(([path]) => (path.match(/(\\.|[^.\\])+/gs) ?? ['']).map((part) => part.replace(/\\(.)/gs, '$1')))
  const schemas = paths.map((path) => schemasOf(root, path))
  // Booleans are given as bytes.
  const isBoolean = all.map(([, values], n) => ArrayBuffer.isView(values) && 'TypeDef:Boolean' in (schemas[n]!.at(-1) ?? {}))
  for (let at = 0; at < count; at++) {
    const row: Map<string, unknown> = new Map()
    all.forEach(([, values], n) => {
      const value = isBoolean[n] ? bit(values[at]) : values[at]
      let inner = row
      for (const [depth, part] of paths[n]!.slice(0, -1).entries()) {
        const isRequired = (schemas[n]![depth]?.['required'] as string[] | undefined)?.includes(part)
        if (value === undefined && !isRequired) return
        if (!inner.has(part)) inner.set(part, new Map())
        inner = inner.get(part) as Map<string, unknown>
      }
      if (value !== undefined) inner.set(paths[n]!.at(-1)!, value)
    })
    yield row
  }
}

/** Converts a byte 0 or 1 to a boolean; other values stay as they are and are refused later. */
const bit = (value: unknown): unknown => (value === 1 ? true : value === 0 ? false : value)

/**
 * Returns the schemas along a path: of the record, of each struct, and of the member. A step of `null` goes into the
 * elements of an array.
 */
export function schemasOf(root: Schema, path: readonly (string | null)[]): (Schema | undefined)[] {
  const all: (Schema | undefined)[] = [followed(root, root)]
  for (const part of path) {
    const schema = all.at(-1)
    const members = part === null ? schema : schema?.['mapping'] ?? schema?.['properties']
    const name = part ?? 'items'
    all.push(members !== undefined && Object.hasOwn(members, name) ? followed(members[name], root) : undefined)
  }
  return all
}

/** Returns the target of a schema's `$ref`. */
function followed(schema: Schema, root: Schema): Schema {
  for (let n = 0; n < 64 && typeof schema['$ref'] === 'string'; n++) schema = root['$defs']?.[pointed(schema['$ref'])] ?? {}
  return schema
}

export type Schema = { readonly [keyword: string]: any }

/** Returns a value as lossless JSON for its schema. */
export function lineOf(given: Schema | undefined, value: unknown, root: Schema): string {
  const schema = followed(given ?? {}, root)
  if (typeof value === 'bigint') return 'TypeDef:Timestamp' in schema ? JSON.stringify(timeOf(value)) : String(value)
  if (typeof value === 'number') return numberOf(value)
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  const bytes = value instanceof ArrayBuffer ? new Uint8Array(value) : value
  if (bytes instanceof Uint8Array && 'TypeDef:Bytes' in schema) return `"${base64(bytes)}"`
  // For example dates. A member of that name is not called.
  const { toJSON } = value as { toJSON?: unknown }
  if (typeof toJSON === 'function' && !ArrayBuffer.isView(value)) return lineOf(schema, toJSON.call(value), root)
  if (ArrayBuffer.isView(value) || Array.isArray(value)) {
    const tensor = schema['TypeDef:Tensor']
    const given = tensor === undefined ? value as ArrayLike<unknown> : elementsOf(value as ArrayLike<unknown>, tensor.dtype)
    const items = Array.from(given, (one) => lineOf(schema['items'], one, root)).join()
    if (tensor === undefined) return `[${items}]`
    return `{"dtype":${JSON.stringify(tensor.dtype)},"shape":${JSON.stringify(tensor.shape)},"data":[${items}]}`
  }
  const pairs = value instanceof Map ? [...value] : Object.entries(value)
  let properties = schema['properties'] ?? {}
  if ('mapping' in schema) {
    const key = pairs.find(([name]) => name === schema['TypeDef:Union']?.discriminator)?.[1]
    const variant = schema['mapping'][key as string]
    properties = followed(variant ?? {}, root)['properties'] ?? {}
  }
  return `{${pairs.filter(([, one]) => one !== undefined).map(([name, one]) => {
    const own = Object.hasOwn(properties, name) ? properties[name] : undefined
    return `${JSON.stringify(String(name))}:${lineOf(own, one, root)}`
  }).join()}}`
}

/** Returns elements of a tensor in their JSON form: booleans are bytes, complex numbers are pairs of floats. */
function elementsOf(values: ArrayLike<unknown>, dtype: unknown): ArrayLike<unknown> {
  if (!ArrayBuffer.isView(values)) return values
  if (dtype === 'BOOL') return Array.from(values as ArrayLike<unknown>, bit)
  if (dtype !== 'C64') return values
  return Array.from({ length: values.length / 2 }, (_, n) => [values[2 * n], values[2 * n + 1]])
}

/** Returns the name in `#/$defs/name`. */
const pointed = (ref: string): string =>
  decodeURIComponent(ref.slice('#/$defs/'.length)).replaceAll('~1', '/').replaceAll('~0', '~')

function numberOf(value: number): string {
  // As in attributes: see `written` in values.ts.
  if (!Number.isFinite(value)) return written(value)
  return Object.is(value, -0) ? '-0.0' : String(value)
}

/** Formats nanoseconds since 1970 as RFC 3339. */
function timeOf(ns: bigint): string {
  const second = 1_000_000_000n
  const rest = ((ns % second) + second) % second
  const date = new Date(Number((ns - rest) / 1_000_000n)).toISOString()
  return date.replace(/\.\d+Z$/, `.${String(rest).padStart(9, '0')}Z`)
}

function base64(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += 0x2000) text += String.fromCharCode(...bytes.subarray(at, at + 0x2000))
  return btoa(text)
}
