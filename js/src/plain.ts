import { decode, encode, type Core } from './core.js'
import { broken } from './errors.js'
import { parsedExactly } from './records.js'
import { lineOf, type Schema } from './rows.js'
import { violation } from './schema/standard.js'
import { joined } from './source.js'

/** Plain values of a header, by their paths beside those of the tensors: `{ config: { layers: 3 }, name: 'small' }`. */
export type ValuesInput = ReadonlyMap<string, unknown> | Readonly<Record<string, unknown>>

/** The attribute of a file of Metatensor that its header's plain values are. */
export const VALUES = 'metatensor.values'

/** The plain values that the attributes of a file have. */
export function valuesOf(attributes: { get(name: string): unknown }): Map<string, unknown> {
  const text = attributes.get(VALUES)
  return new Map(typeof text === 'string' ? Object.entries(parsedExactly(text) as object) : [])
}

/**
 * The text of plain values that are to be written, with those that attributes have, which were checked against the schema: its kinds, and its
 * standard keywords.
 *
 * @throws HoldallError `metatensor/schema-fit` for a value that is not as the schema says.
 */
export function checkedValues(core: Core, schema: string | undefined, attributes: Map<string, unknown>, values: ValuesInput | undefined): string | undefined {
  const given = attributes.get(VALUES)
  if (given === undefined && values === undefined) return undefined
  const own = values instanceof Map ? [...values] : Object.entries(values ?? {})
  const kept = [...valuesOf(attributes)].filter(([path]) => !own.some(([other]) => other === path))
  // As files have them: by their paths.
  const all = [...own, ...kept].sort(([a], [b]) => (a < b ? -1 : 1))
  const paths = all.map(([path]) => path)
  const { parts, $defs: defs } = schema === undefined ? { parts: [], $defs: {} } : schemasOf(core, schema, paths)
  const texts = all.map(([path, value], at) => {
    const part = parts[at]
    const text = lineOf(typeof part === 'object' && part !== null ? part : undefined, value, { $defs: defs })
    const wrong = part === null || part === undefined ? null : violation(part, parsedExactly(text), defs)
    if (wrong !== null) throw broken('metatensor/schema-fit', `the value \`${path}\` is not as the schema says: ${wrong}`)
    return [path, text] as const
  })
  // The text that is there stays as it is, digit by digit.
  if (own.length === 0 && typeof given === 'string') return given
  return `{${texts.map(([path, text]) => `${JSON.stringify(path)}:${text}`).join()}}`
}

/** What a file's schema has at the paths of plain values. */
function schemasOf(core: Core, schema: string, paths: string[]): { parts: (Schema | boolean | null)[]; $defs: Record<string, Schema> } {
  const told = encode(JSON.stringify(paths))
  const { bytes } = core.call('value_schemas', [told.length], joined([told, encode(schema)]))
  return parsedExactly(decode(bytes)) as ReturnType<typeof schemasOf>
}
