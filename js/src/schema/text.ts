/**
 * Returns a schema as exact JSON text: 64-bit integers keep all digits, and -0 stays a float. A schema given as text
 * is returned unchanged.
 */
export function schemaText(schema: unknown): string {
  return typeof schema === 'string' ? schema : textOf(schema) ?? 'null'
}

function textOf(value: unknown): string | undefined {
  if (typeof value === 'bigint') return String(value)
  if (Object.is(value, -0)) return '-0.0'
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const { toJSON } = value as { toJSON?: unknown }
  if (typeof toJSON === 'function') return textOf(toJSON.call(value))
  if (Array.isArray(value)) return `[${value.map((one) => textOf(one) ?? 'null').join()}]`
  const members = Object.entries(value).map(([name, one]) => [JSON.stringify(name), textOf(one)])
  return `{${members.filter(([, text]) => text !== undefined).map(([name, text]) => `${name}:${text}`).join()}}`
}
