import { Core, encode, numbersOf } from './core.js'
import { Records, steps, type RecordLayout } from './records.js'
import { lineOf, schemasOf, type Schema } from './rows.js'
import { schemaText } from './schema/text.js'
import { joined } from './source.js'

/**
 * A converter for a member of the new schema: the name of a built-in converter, or a function of the value in the
 * file.
 */
export type Converter = string | ((value: any) => unknown)

/** Options for reading records with another schema than the file's. */
export interface EvolveOptions {
  /** The schema to read the records with: that of a record, or of a file that has the dataset. Members match by name. */
  schema?: object | string | undefined
  /** The old names of members, by their paths in the new schema. */
  renames?: Readonly<Record<string, string>> | undefined
  /**
   * Converters for members, by their paths in the new schema: a name such as `cast` or `map(cat=0, dog=1)`, or a
   * function. A function is passed the value at the same path (or the renamed one), or the surrounding struct if the
   * file has no such member. `[]` matches every element of an array: `items[].price`.
   */
  converters?: Readonly<Record<string, Converter>> | undefined
}

/** Records of a file, with their schema and their bytes. */
export interface Parts<T = any> {
  records: Records<T>
  /** The schema of a record, as JSON text. */
  kind: string
  layout: RecordLayout
  data: Uint8Array
  heap: Uint8Array
}

/** Records under another schema, as bytes. */
export interface Evolved {
  layout: RecordLayout
  data: Uint8Array
  heap: Uint8Array
  /** Whether the records have a heap, which may be empty. */
  hasHeap: boolean
  /** The module instance that converted them. */
  core: Core
}

/** The changes that cannot be derived from the two schemas, by paths in a record. */
export interface Changes {
  renames: [string, string][]
  converters: [string, Converter][]
  /** Whether members that the new schema lacks may be left out. */
  drop: boolean
}

/** Converts records to another schema. */
export async function evolved<T>(name: string, parts: Parts, options: EvolveOptions): Promise<Records<T>> {
  const { renames = {}, converters = {}, schema } = options
  const how = { renames: Object.entries(renames), converters: Object.entries(converters), drop: true }
  const made = await evolvedBytes(name, schemaText(schema), parts, how)
  return new Records<T>(made.core, made.layout, made.data, made.heap)
}

/** Converts records to another schema and returns their bytes. */
export async function evolvedBytes(
  name: string, text: string, { records: old, kind, layout, data, heap }: Parts, { renames, converters, drop }: Changes,
): Promise<Evolved> {
  const core = await Core.create('whole')
  const [schema, path] = [encode(text), encode(name)]
  const root = core.json<Schema>('dataset_begin', [path.length], joined([path, schema]))
  const made: string[] = []
  const named = converters.map(([path, by]) => {
    if (typeof by === 'string') return [path, by]
    const find = finder(layout, path, renames)
    const own = schemasOf(root, steps(path)).at(-1)
    // The values for each path, in the order of the records.
    const values: string[] = []
    for (const record of old) for (const value of find(record)) values.push(lineOf(own, by(value), root))
    made.push(`[${values.join()}]`)
    return [path, `#${made.length - 1}`]
  })
  const options = encode(`{"renames":${JSON.stringify(renames)},"converters":${JSON.stringify(named)},`
    + `"drop":${drop},"path":${JSON.stringify(name)},"made":[${made.join()}]}`)
  const before = encode(kind)
  const input = joined([options, before, schema, data, heap])
  const { bytes } = core.call('records_evolve', [options.length, before.length, schema.length, data.length], input)
  const [layoutLen = 0, dataLen = 0] = numbersOf(bytes.slice(0, 16))
  const [start, end] = [16 + layoutLen, 16 + layoutLen + dataLen]
  const now = JSON.parse(new TextDecoder().decode(bytes.slice(16, start))) as RecordLayout
  const parts = { layout: now, data: bytes.slice(start, end), heap: bytes.slice(end) }
  return { ...parts, hasHeap: core.call('part_take', [1]).bytes[0] === 1, core }
}

const isSame = (a: readonly unknown[], b: readonly unknown[]): boolean => a.length === b.length && a.every((one, at) => one === b[at])

/**
 * Returns a function that finds the values at a path of the new schema in a record of the file, under their old
 * names: one for each element of the arrays along the path. If the file has no such member, the value is the
 * surrounding struct; absent values are skipped.
 */
function finder({ types, root }: RecordLayout, path: string, renames: readonly [string, string][]): (record: any) => Iterable<unknown> {
  const olds = renames.map(([now, old]) => [steps(now), steps(old)] as const)
  const wanted = steps(path)
  const found: Step[] = []
  let type = root
  for (const [at, step] of wanted.entries()) {
    const { members, items, variants, discriminator } = types[type]!
    if (step === null) {
      if (items === undefined) break
      found.push(null)
      type = items
      continue
    }
    const old = olds.find(([now]) => isSame(now, wanted.slice(0, at + 1)))?.[1].at(-1) ?? step
    const variant = variants?.find(({ key }) => key === old)
    if (variant !== undefined) {
      found.push({ of: discriminator!, key: variant.key })
      type = variant.type
      continue
    }
    const member = members?.find((member) => member.name === old)
    if (member === undefined) break
    found.push(member.name)
    type = member.type
  }
  return (record) => valuesAt(record, found, 0)
}

/** A step into a member, into each element of an array, or into a variant of a union if the value has that variant. */
type Step = string | null | { of: string; key: string }

function* valuesAt(value: any, path: readonly Step[], at: number): Generator<unknown> {
  if (value === undefined) return
  if (at === path.length) return yield value
  const step = path[at]!
  if (step === null) for (const item of value) yield* valuesAt(item, path, at + 1)
  else if (typeof step === 'string') yield* valuesAt(value[step], path, at + 1)
  else if (value[step.of] === step.key) yield* valuesAt(value, path, at + 1)
}
