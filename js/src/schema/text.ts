/**
 * A schema as the text of its JSON, exactly: integers of 64 bits with all their digits, and -0 as the float that it is. A text
 * stays as it is.
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
