import { Core, encode, numbersOf } from './core.js'
import { Records, segments, type RecordLayout } from './records.js'
import { lineOf, schemasOf, type Schema } from './rows.js'
import { schemaText } from './schema/text.js'
import { joined } from './source.js'

/** What makes a member of the new schema: a converter by its name, or a function of the value in the file. */
export type Converter = string | ((value: any) => unknown)

/** How records are read under another schema than that of the file. */
export interface EvolveOptions {
  /** The schema to read them under: that of a record, or of a file that has the dataset. Members match by name. */
  schema?: object | string | undefined
  /** What members were called, by their paths in the new schema. */
  renames?: Readonly<Record<string, string>> | undefined
  /**
   * What makes members, by their paths in the new schema: a name as `cast` or `map(cat=0, dog=1)`, or a function. That is given
   * the value of the same path, or of the rename; the struct around it where the file has no such member.
   */
  converters?: Readonly<Record<string, Converter>> | undefined
}

/** Records that were read, under another schema. `kind` is the schema that they have in the file. */
export async function evolved<T>(
  name: string, kind: string, layout: RecordLayout, data: Uint8Array, heap: Uint8Array, old: Records<any>, options: EvolveOptions,
): Promise<Records<T>> {
  const core = await Core.create('whole')
  const schema = encode(schemaText(options.schema))
  const path = encode(name)
  const root = core.json<Schema>('dataset_begin', [path.length], joined([path, schema]))
  const { renames = {}, converters = {} } = options
  const made: string[] = []
  const named = Object.entries(converters).map(([path, by]) => {
    if (typeof by === 'string') return [path, by]
    const find = finder(layout, renames[path] ?? path)
    const own = schemasOf(root, segments(path)).at(-1)
    const values = Array.from(old, (record) => {
      const value = find(record)
      // Of what is absent nothing is made.
      return value === undefined ? 'null' : lineOf(own, by(value), root)
    })
    made.push(`[${values.join()}]`)
    return [path, `#${made.length - 1}`]
  })
  const told = encode(`{"renames":${JSON.stringify(Object.entries(renames))},"converters":${JSON.stringify(named)},`
    + `"drop":true,"path":${JSON.stringify(name)},"made":[${made.join()}]}`)
  const before = encode(kind)
  const input = joined([told, before, schema, data, heap])
  const { bytes } = core.call('records_evolve', [told.length, before.length, schema.length, data.length], input)
  const [layoutLen = 0, dataLen = 0] = numbersOf(bytes.slice(0, 16))
  const [start, end] = [16 + layoutLen, 16 + layoutLen + dataLen]
  const now = JSON.parse(new TextDecoder().decode(bytes.slice(16, start))) as RecordLayout
  return new Records<T>(core, now, bytes.slice(start, end), bytes.slice(end))
}

/** Finds the value at a path of a record in a file; of a path that it does not have, the struct around it. */
function finder({ types, root }: RecordLayout, path: string): (record: any) => unknown {
  const names: string[] = []
  let type = root
  for (const name of segments(path)) {
    const member = types[type]!.members?.find((member) => member.name === name)
    if (member === undefined) break
    names.push(name)
    type = member.type
  }
  return (record) => names.reduce((value, name) => value?.[name], record)
}
