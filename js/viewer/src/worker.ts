import { HoldallError, init, open, type Limits, type Tensor, type TensorFile, type Value } from 'holdall'
import { openArchive } from 'holdall/archive'
import { diff, stats } from 'holdall/reports'
import type { Ask, Cell, FileFacts, From, Methods, Picture, RecordsPage, TensorFacts, Trouble } from './protocol.js'

/** The maximum size of a dense copy, for tensors whose elements cannot be read by ranges. */
const MOST = 64 << 20
/** The number of bytes of a component that are shown. */
const SHOWN = 4096
/** The number of characters of a value that are shown. */
const LONGEST = 20_000

/** The number of pictures of a package that are shown, and the maximum size of one. */
const PICTURED = 24
const LARGEST = 16 << 20

const files: (TensorFile | undefined)[] = []
/** The sources of the open files. */
const sources: From[] = []
/** The last tensor that was converted to dense as a whole. */
let whole: { key: string; values: Float32Array | Float64Array } | undefined

interface Turn {
  signal: AbortSignal
  onProgress: (done: number, all: number) => void
}

const fileOf = (slot: number): TensorFile => {
  const file = files[slot]
  if (file === undefined) throw new Error('no file is open')
  return file
}

const tensorOf = (slot: number, at: number): Tensor => fileOf(slot).tensors[at]!

function troubleOf(e: unknown): Trouble {
  if (e instanceof HoldallError) return { code: e.code, message: e.message, advice: e.advice }
  return { code: '', message: e instanceof Error ? e.message : String(e), advice: null }
}

/** Formats a value as text. */
function shown(value: Value): string {
  if (typeof value === 'string') return value
  if (value instanceof Uint8Array) return `${value.length} bytes`
  if (Array.isArray(value)) return `[${value.map((item) => part(item)).join(', ')}]`
  if (value instanceof Map) return `{${[...value].map(([key, item]) => `${part(key)}: ${part(item)}`).join(', ')}}`
  if (value !== null && typeof value === 'object') return JSON.stringify(value)
  return String(value)
}

const part = (value: Value): string => (typeof value === 'string' ? JSON.stringify(value) : shown(value))

const pairs = (all: ReadonlyMap<string, Value>): [string, string][] =>
  [...all].map(([key, value]) => {
    const text = shown(value)
    return [key, text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text]
  })

const typeName = (type: string): string => type.split(' ').at(-1)!

function fact(tensor: Tensor): string {
  const { shape, dense, layout, components } = tensor
  const blocks = layout.startsWith('gguf.') ? layout.slice(5) : null
  const type = blocks ?? (dense === null ? layout : typeName(dense))
  const note = layout === 'dense' || blocks !== null || dense === null ? '' : ` ${layout.replace(/^(sparse|packed)_|_group$/g, '')}`
  return components.length === 0 ? layout : `${type} [${shape.join(', ')}]${note}`
}

async function opened(slot: number, from: From, limits: Limits): Promise<FileFacts> {
  await files[slot]?.close()
  whole = undefined
  const file = await open(Array.isArray(from) ? new Map(from) : from, { limits, ...(from instanceof File ? { name: from.name } : {}) })
  files[slot] = file
  sources[slot] = from
  const groups = file.groups().map(({ name, members }) => {
    const first = tensorOf(slot, members[0]!)
    return { name, members, fact: fact(first), isFault: first.fault !== null }
  })
  const storedLen = groups.reduce((sum, { members }) =>
    sum + tensorOf(slot, members[0]!).storedLen * members.length, 0)
  return {
    name: file.name ?? '', files: file.sources.length, format: file.formatName, version: file.version, size: file.size, tensors: file.length,
    storedLen, attributes: pairs(file.attributes), warnings: [...file.warnings], names: [...file.names], groups,
  }
}

function facts(slot: number, at: number): TensorFacts {
  const tensor = tensorOf(slot, at)
  const { name, shape, count, layout, dense, storedLen, attributes, components, fault } = tensor
  return {
    name, shape, count, layout, dense, storedLen, attributes: pairs(attributes),
    components: components.map((c) => ({
      role: c.role, type: c.logicalType ?? c.dtype, encoding: c.encoding, storedLen: c.storedLen,
      decodedLen: c.decodedLen, offset: c.offset, digest: c.digest,
    })),
    fault: fault === null ? null : troubleOf(fault),
    isRanged: layout === 'dense' || layout.startsWith('gguf.'),
  }
}

async function numbers(
  slot: number, at: number, start: number, end: number, signal: AbortSignal,
): Promise<Float32Array | Float64Array> {
  const tensor = tensorOf(slot, at)
  const dense = tensor.dense ?? ''
  const isComplex = /complex/.test(dense)
  const as = /^(f64|[iu](32|64))\b/.test(dense) ? 'f64' : 'f32'
  const isRanged = tensor.layout === 'dense' || tensor.layout.startsWith('gguf.')
  if (!isRanged) {
    const key = `${slot} ${at}`
    if (whole?.key !== key) {
      if (tensor.count * 4 > MOST) {
        throw new Error(`as dense elements it would take ${tensor.count * 4} bytes, more than the ${MOST} that are shown`)
      }
      const values = await tensor.array({ as, signal, check: false })
      whole = { key, values: values as Float32Array | Float64Array }
    }
    return whole!.values.slice(start, end)
  }
  if (!isComplex) {
    return (await tensor.elements(start, end, { as, signal, check: false })) as Float32Array | Float64Array
  }
  const both = (await tensor.elements(start, end, { signal, check: false })) as Float32Array
  return Float32Array.from({ length: end - start }, (_, n) => Math.hypot(both[2 * n]!, both[2 * n + 1]!))
}

async function texts(slot: number, at: number, start: number, end: number, signal: AbortSignal): Promise<string[]> {
  const tensor = tensorOf(slot, at)
  const dense = tensor.dense ?? ''
  const isRanged = tensor.layout === 'dense' || tensor.layout.startsWith('gguf.')
  if (!isRanged || !/^(f64|f32|[iu]\d+|bool)$|complex/.test(dense)) {
    const values = await numbers(slot, at, start, end, signal)
    return Array.from(values, real)
  }
  const array = await tensor.elements(start, end, { signal, check: false })
  if (/complex/.test(dense)) {
    return Array.from({ length: end - start }, (_, n) => `${real(array[2 * n]! as number)}, ${real(array[2 * n + 1]! as number)}i`)
  }
  return Array.from(array as ArrayLike<number | bigint>, (x) => (typeof x === 'bigint' ? String(x) : dense === 'bool' ? String(x !== 0) : real(x)))
}

/** Formats a number with about seven digits, the precision of an f32. */
function real(x: number): string {
  return Number.isInteger(x) || !Number.isFinite(x) ? String(x) : String(Number(x.toPrecision(7)))
}

/** Signatures of picture formats. */
const PICTURES: [string, number[]][] = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47]], ['image/jpeg', [0xff, 0xd8, 0xff]], ['image/gif', [0x47, 0x49, 0x46, 0x38]],
]

const pictureType = (bytes: Uint8Array): string | undefined =>
  PICTURES.find(([, start]) => start.every((byte, at) => bytes[at] === byte))?.[0]

/** Returns the pictures in a package: files with a picture's extension and signature. */
async function pictures(slot: number, signal: AbortSignal): Promise<Picture[]> {
  const from = sources[slot]
  if (from === undefined || Array.isArray(from) || fileOf(slot).format !== 'carton') return []
  const archive = await openArchive(from, { signal })
  try {
    const likely = archive.entries.filter(({ name, size }) => /\.(png|jpe?g|gif)$/i.test(name) && size <= LARGEST)
    const out: Picture[] = []
    for (const { name } of likely.slice(0, PICTURED)) {
      try {
        const image = await archive.read(name, { signal })
        const type = pictureType(image)
        if (type !== undefined) out.push({ name, image, type })
      } catch (e) {
        signal.throwIfAborted()
        out.push({ name, trouble: troubleOf(e) })
      }
    }
    return out
  } finally {
    await archive.close()
  }
}

/** Formats a member of a record, with the digits of the file's own JSON for `f32` values. */
function cell(value: unknown, shown: unknown): Cell {
  if (value instanceof Uint8Array) {
    const type = value.length < LARGEST ? pictureType(value) : undefined
    return type === undefined ? { bytes: value.length } : { image: value.slice(), type }
  }
  if (value === undefined) return ''
  if (typeof value === 'string') return value.length > 500 ? `${value.slice(0, 500)}…` : value
  if (typeof value === 'object' && value !== null) {
    if (ArrayBuffer.isView(value)) {
      const some = Array.from((value as unknown as ArrayLike<unknown>), String)
      return some.length > 16 ? `${some.slice(0, 16).join(', ')}, … (${some.length})` : some.join(', ')
    }
    let isWide = false
    const all = JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'bigint' ? ((isWide = true), String(inner)) : inner))
    // 64-bit integers lose digits when JSON is parsed.
    const text = isWide ? all : JSON.stringify(shown)
    return text.length > 500 ? `${text.slice(0, 500)}…` : text
  }
  return String(typeof value === 'number' && typeof shown === 'number' ? shown : value)
}

type Schema = { readonly [keyword: string]: any }

/** Returns the schema of the member at a path. */
const schemaAt = (root: Schema, path: string[]): Schema | undefined => {
  const followed = (schema: Schema | undefined): Schema | undefined => {
    for (let n = 0; n < 64 && typeof schema?.['$ref'] === 'string'; n++) schema = root['$defs']?.[schema['$ref'].replace('#/$defs/', '')]
    return schema
  }
  return path.reduce<Schema | undefined>((schema, key) => followed(schema?.['properties']?.[key]), followed(root))
}

/** Returns whether values of a schema are structs, whose members are shown as separate columns. */
const isStruct = (schema: Schema | undefined): boolean => schema !== undefined && ('TypeDef:Struct' in schema || 'TypeDef:Union' in schema)

/** Returns the member at a path; undefined if it or a parent is absent. */
const member = (value: any, path: string[]): unknown =>
  path.reduce((of, key) => (typeof of === 'object' && of !== null && Object.hasOwn(of, key) ? of[key] : undefined), value)

async function records(slot: number, at: number, start: number, end: number, signal: AbortSignal): Promise<RecordsPage> {
  const tensor = tensorOf(slot, at)
  end = Math.min(end, tensor.count)
  const found = await tensor.records({ start, end, signal })
  const lines = (await tensor.lines({ start, end, signal })).map((line) => JSON.parse(line) as unknown)
  const kind = JSON.parse(tensor.attributes.get('metatensor.kind') as string) as Schema
  const columns = new Map<string, string[]>()
  const add = (line: unknown, row: unknown, path: string[]): void => {
    if (line === null || typeof line !== 'object' || Array.isArray(line)) return
    for (const [key, value] of Object.entries(line)) {
      const [own, at] = [member(row, [key]), [...path, key]]
      if (isStruct(schemaAt(kind, at))) add(value, own, at)
      else columns.set(JSON.stringify(at), at)
    }
  }
  lines.forEach((line, n) => add(line, found.at(n), []))
  const paths = [...columns.values()]
  const rows = lines.map((line, n) => {
    const row = found.at(n) as unknown
    return paths.length === 0 ? [cell(row ?? line, line)] : paths.map((path) => cell(member(row, path), member(line, path)))
  })
  return { count: tensor.count, columns: paths.length === 0 ? ['value'] : paths.map((path) => path.join('.')), rows }
}

async function bytes(slot: number, at: number, component: number, signal: AbortSignal) {
  const tensor = tensorOf(slot, at)
  const c = tensor.components[component]!
  let head = new Uint8Array(0)
  for await (const piece of tensor.pieces({ role: c.role, signal, check: false })) {
    head = piece.slice(0, SHOWN)
    break
  }
  let text: string | null = null
  try {
    const found = new TextDecoder('utf-8', { fatal: true }).decode(head, { stream: true })
    if (!/[\0-\x08\x0e-\x1f]/.test(found)) text = found
  } catch {
    // The bytes are not text.
  }
  const hex = Array.from(head.subarray(0, 256), (byte) => byte.toString(16).padStart(2, '0')).join(' ')
  return { text, hex, isCut: (c.decodedLen ?? Infinity) > (text === null ? 256 : SHOWN) }
}

async function isModel(files: [string, File][]): Promise<boolean> {
  try {
    return (await open(new Map(files))).sources.length > 1
  } catch {
    return false
  }
}

const methods: Record<keyof Methods, (turn: Turn, ...args: any[]) => unknown> = {
  init: (_, wasm: ArrayBuffer) => init(wasm),
  open: (_, slot, from, limits) => opened(slot, from, limits),
  isModel: (_, files) => isModel(files),
  tensor: (_, slot, at) => facts(slot, at),
  numbers: ({ signal }, slot, at, start, end) => numbers(slot, at, start, end, signal),
  texts: ({ signal }, slot, at, start, end) => texts(slot, at, start, end, signal),
  stats: (turn, slot, at, bins) => stats(tensorOf(slot, at), { ...turn, bins }),
  records: ({ signal }, slot, at, start, end) => records(slot, at, start, end, signal),
  bytes: ({ signal }, slot, at, component) => bytes(slot, at, component, signal),
  pictures: ({ signal }, slot) => pictures(slot, signal),
  async verify(turn, slot) {
    const { verdict, tensors, findings, unverified, package: files, digests } = await fileOf(slot).verify(turn)
    const sums = Object.values(digests).reduce((sum, n) => sum + n, 0)
    const checked = Object.entries({ files: files?.files ?? 0, hashes: files?.hashed ?? 0, tensors, digests: sums }).filter(([, n]) => n > 0)
    const away = Object.entries({ linked: files?.linked ?? 0, unhashed: files?.unhashed ?? 0 }).filter(([, n]) => n > 0)
    return { verdict, checked, findings: findings.slice(0, 500).map(troubleOf), unverified: [...Object.entries(unverified), ...away] }
  },
  async diff(turn) {
    const found = await diff(fileOf(0), fileOf(1), turn)
    const sides = ({ key, a, b }: { key: string; a?: Value; b?: Value }) =>
      [key, a === undefined ? '' : shown(a), b === undefined ? '' : shown(b)]
    return {
      ...found,
      attributes: found.attributes.map(sides),
      changed: found.changed.map(({ attributes, incomparable, ...rest }) => ({
        ...rest, attributes: attributes.map(sides), incomparable: incomparable && troubleOf(incomparable),
      })),
    }
  },
}

const running = new Map<number, AbortController>()
const post = postMessage as (message: unknown, transfer?: Transferable[]) => void

onmessage = async ({ data }: MessageEvent<Ask>) => {
  const { id } = data
  if ('cancel' in data) {
    running.get(id)?.abort(new Error('cancelled'))
    return
  }
  const stop = new AbortController()
  running.set(id, stop)
  let lastReport = 0
  const onProgress = (done: number, all: number) => {
    const now = Date.now()
    if (now - lastReport < 50 && done < all) return
    lastReport = now
    post({ id, done, all })
  }
  try {
    const method = methods[data.method as keyof Methods]
    const result = await method({ signal: stop.signal, onProgress }, ...data.args)
    const isArray = result instanceof Float32Array || result instanceof Float64Array
    // Views of larger buffers are copied.
    const isAlone = isArray && result.byteLength === result.buffer.byteLength
    post({ id, result }, isAlone ? [result.buffer] : [])
  } catch (e) {
    post({ id, trouble: troubleOf(e) })
  } finally {
    running.delete(id)
  }
}
