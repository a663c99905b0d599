import { decode, encode, type Core } from './core.js'
import { broken } from './errors.js'
import { parsedExactly } from './records.js'
import { lineOf, type Schema } from './rows.js'
import { violation } from './schema/standard.js'
import { joined } from './source.js'

/** Plain values of a header, by their paths: `{ config: { layers: 3 }, name: 'small' }`. */
export type ValuesInput = ReadonlyMap<string, unknown> | Readonly<Record<string, unknown>>

/** The attribute of a Metatensor file that holds the plain values of its header. */
export const VALUES = 'metatensor.values'

/** Returns the plain values in the attributes of a file. */
export function valuesOf(attributes: { get(name: string): unknown }): Map<string, unknown> {
  const text = attributes.get(VALUES)
  return new Map(typeof text === 'string' ? Object.entries(parsedExactly(text) as object) : [])
}

/**
 * Returns the JSON text of the plain values to write, including those in the attributes. They are checked against the
 * kinds and standard keywords of the schema.
 *
 * @throws HoldallError `metatensor/schema-fit` if a value does not fit the schema.
 */
export function checkedValues(core: Core, schema: string | undefined, attributes: Map<string, unknown>, values: ValuesInput | undefined): string | undefined {
  const given = attributes.get(VALUES)
  if (given === undefined && values === undefined) return undefined
  const own = values instanceof Map ? [...values] : Object.entries(values ?? {})
  const kept = [...valuesOf(attributes)].filter(([path]) => !own.some(([other]) => other === path))
  // Files store them by path.
  const all = [...own, ...kept].sort(([a], [b]) => (a < b ? -1 : 1))
  const paths = all.map(([path]) => path)
  const { parts, $defs: defs } = schema === undefined ? { parts: [], $defs: {} } : schemasOf(core, schema, paths)
  const texts = all.map(([path, value], at) => {
    const part = parts[at]
    const text = lineOf(typeof part === 'object' && part !== null ? part : undefined, value, { $defs: defs })
    const wrong = part === null || part === undefined ? null : violation(part, parsedExactly(text), defs)
    if (wrong !== null) throw broken('metatensor/schema-fit', `the value \`${path}\` does not fit the schema: ${wrong}`)
    return [path, text] as const
  })
  // An existing text is kept digit by digit.
  if (own.length === 0 && typeof given === 'string') return given
  return `{${texts.map(([path, text]) => `${JSON.stringify(path)}:${text}`).join()}}`
}

/** Returns the subschemas at the paths of plain values. */
function schemasOf(core: Core, schema: string, paths: string[]): { parts: (Schema | boolean | null)[]; $defs: Record<string, Schema> } {
  const request = encode(JSON.stringify(paths))
  const { bytes } = core.call('value_schemas', [request.length], joined([request, encode(schema)]))
  return parsedExactly(decode(bytes)) as ReturnType<typeof schemasOf>
}
