import { encode, type Core } from './core.js'
import { broken } from './errors.js'
import { joined } from './source.js'
import { written } from './values.js'

/** Records to be written: as objects, or a column of each member. */
export interface RecordsInput {
  /** The records, in order: objects as `at` of records gives them, or texts of JSON. */
  records?: Iterable<object | string> | AsyncIterable<object | string> | undefined
  /** The values of each member in place of that: by the paths of members that stand in structs, `at.lat`. */
  columns?: Readonly<Record<string, ArrayLike<unknown> | undefined>> | undefined
  /** The schema of a record, which may be left out where the file's schema has the dataset. */
  schema?: object | undefined
}

/** Many runs of bytes to be written: a blob. */
export interface BlobInput {
  /** The runs, in order: texts, bytes, typed arrays; any value where `content` is `json`. */
  runs: Iterable<unknown> | AsyncIterable<unknown>
  /** What they hold: `utf-8`, `bytes`, `json`, or an element type as `F32`. Without it, what the first is. */
  content?: string | undefined
}

/** A dataset or a blob as bytes. */
export interface Encoded {
  /** The number that the core has given it. */
  part: number
  /** Its records, or entries; what they point into, where they do. */
  components: Uint8Array[]
}

/** Characters of lines that the core is given at a time. */
const BATCH = 1 << 20

/** Makes bytes of records, by the core. */
export async function encodeRecords(
  core: Core, part: number, name: string, input: RecordsInput, ofFile: object | undefined,
): Promise<Encoded> {
  const schema = input.schema ?? ofFile
  if (schema === undefined) throw broken('js/source', 'nothing says what a record is: give its schema', { tensor: name })
  // The path matters where the schema is that of a file.
  const path = encode(name)
  const kind = core.json<Schema>('dataset_begin', [path.length], joined([path, encode(JSON.stringify(schema))]))
  let [lines, len]: [string[], number] = [[], 0]
  const flush = () => {
    if (lines.length > 0) core.call('part_push', [], encode(lines.join('\n')))
    ;[lines, len] = [[], 0]
  }
  const given = input.records ?? rowsOf(name, input.columns ?? {})
  for await (const record of given as AsyncIterable<object | string>) {
    // A line ends where one does: in JSON that is a space.
    const line = typeof record === 'string' ? record.replace(/[\r\n]/g, ' ') : lineOf(kind, record, kind)
    lines.push(line)
    len += line.length
    if (len >= BATCH) flush()
  }
  flush()
  return { part, components: taken(core) }
}

/** The bytes of what was just made. */
const taken = (core: Core): Uint8Array[] => [0, 1].flatMap((heap) => {
  const { bytes } = core.call('part_take', [heap])
  return bytes[0] === 1 ? [bytes.slice(8)] : []
})

/** Element types of arrays that runs may be. */
const CONTENTS: Record<string, string> = {
  Float64Array: 'F64', Float32Array: 'F32', Float16Array: 'F16', BigInt64Array: 'I64', Int32Array: 'I32', Int16Array: 'I16',
  Int8Array: 'I8', BigUint64Array: 'U64', Uint32Array: 'U32', Uint16Array: 'U16',
}

/** What a run holds, where nobody says it. */
function contentOf(run: unknown): string {
  if (typeof run === 'string') return 'utf-8'
  if (ArrayBuffer.isView(run)) return CONTENTS[run.constructor.name] ?? 'bytes'
  return 'json'
}

/** The bytes of a run, which stay as they are though its array is filled anew. An array of another type is one of these elements where that is said. */
function bytesOf(run: unknown, content: string, isSaid: boolean, name: string, at: number): Uint8Array {
  if (content === 'json') return encode(lineOf(undefined, run, {}))
  if (typeof run === 'string' && (content === 'utf-8' || content === 'bytes')) return encode(run)
  const own = contentOf(run)
  if (ArrayBuffer.isView(run) && (isSaid || own === content || own === 'bytes' || content === 'bytes')) {
    return new Uint8Array(run.buffer, run.byteOffset, run.byteLength).slice()
  }
  throw broken('js/source', `run ${at} is ${run === null ? 'null' : own}, in a blob of ${content}`, { tensor: name })
}

/** Makes bytes of runs, by the core. */
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
    const bytes = bytesOf(run, content, input.content !== undefined, name, count++)
    pieces.push(new Uint8Array(Uint32Array.of(bytes.length).buffer), bytes)
    len += bytes.length
    if (len >= BATCH) flush()
  }
  if (content === undefined) begin('bytes')
  flush()
  return { part, components: taken(core) }
}

/** Records of their columns. */
function* rowsOf(name: string, columns: NonNullable<RecordsInput['columns']>): Generator<object> {
  const all = Object.entries(columns).filter(([, values]) => values !== undefined) as [string, ArrayLike<unknown>][]
  const count = all[0]?.[1].length ?? 0
  const odd = all.find(([, values]) => values.length !== count)
  if (odd !== undefined) {
    throw broken('write/length', `column \`${odd[0]}\` has ${odd[1].length} values, \`${all[0]![0]}\` has ${count}`, { tensor: name })
  }
  // A dot with a backslash before it is one of a name.
  const paths = all.map(([path]) => (path.match(/(\\.|[^.\\])+/gs) ?? ['']).map((part) => part.replace(/\\(.)/gs, '$1')))
  for (let at = 0; at < count; at++) {
    const row: Map<string, unknown> = new Map()
    all.forEach(([, values], n) => {
      const value = values[at]
      if (value === undefined) return
      let inner = row
      for (const part of paths[n]!.slice(0, -1)) {
        if (!inner.has(part)) inner.set(part, new Map())
        inner = inner.get(part) as Map<string, unknown>
      }
      inner.set(paths[n]!.at(-1)!, value)
    })
    yield row
  }
}

type Schema = { readonly [keyword: string]: any }

/** A value as JSON in which nothing is lost, as its schema has it. */
function lineOf(given: Schema | undefined, value: unknown, root: Schema): string {
  const ref: unknown = given?.['$ref']
  const schema: Schema = typeof ref === 'string' ? root['$defs']?.[pointed(ref)] ?? {} : given ?? {}
  if (typeof value === 'bigint') return 'TypeDef:Timestamp' in schema ? JSON.stringify(timeOf(value)) : String(value)
  if (typeof value === 'number') return numberOf(value)
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  // Records that were read, and dates.
  const { toJSON } = value as { toJSON?: unknown }
  if (typeof toJSON === 'function') return lineOf(schema, toJSON.call(value), root)
  const isBytes = value instanceof Uint8Array
  if (isBytes && 'TypeDef:Bytes' in schema) return `"${base64(value)}"`
  if (ArrayBuffer.isView(value) || Array.isArray(value)) {
    const items = Array.from(value as ArrayLike<unknown>, (one) => lineOf(schema['items'], one, root)).join()
    const tensor = schema['TypeDef:Tensor']
    if (tensor === undefined) return `[${items}]`
    return `{"dtype":${JSON.stringify(tensor.dtype)},"shape":${JSON.stringify(tensor.shape)},"data":[${items}]}`
  }
  const pairs = value instanceof Map ? [...value] : Object.entries(value)
  let properties = schema['properties'] ?? {}
  if ('mapping' in schema) {
    const key = pairs.find(([name]) => name === schema['TypeDef:Union']?.discriminator)?.[1]
    const variant = schema['mapping'][key as string]
    properties = (variant?.$ref === undefined ? variant : root['$defs']?.[pointed(variant.$ref)])?.properties ?? {}
  }
  return `{${pairs.filter(([, one]) => one !== undefined).map(([name, one]) => {
    const own = Object.hasOwn(properties, name) ? properties[name] : undefined
    return `${JSON.stringify(String(name))}:${lineOf(own, one, root)}`
  }).join()}}`
}

/** The name in `#/$defs/name`. */
const pointed = (ref: string): string =>
  decodeURIComponent(ref.slice('#/$defs/'.length)).replaceAll('~1', '/').replaceAll('~0', '~')

function numberOf(value: number): string {
  // As attributes have them: `written` of values.
  if (!Number.isFinite(value)) return written(value)
  return Object.is(value, -0) ? '-0.0' : String(value)
}

/** Nanoseconds since 1970 as RFC 3339 says them. */
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
