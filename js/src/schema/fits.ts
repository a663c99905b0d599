/** A schema, as far as it is looked at here. */
type Schema = { readonly [keyword: string]: any }

const BITS = /^TypeDef:(Ui|I)nt(8|16|32|64)$/
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0
const isPair = (value: unknown): boolean =>
  Array.isArray(value) && value.length === 2 && value.every(isCount)

/** The kind of a schema: its keyword that starts with `TypeDef:`. */
export const kindOf = (schema: Schema): string | undefined =>
  Object.keys(schema).find((name) => name.startsWith('TypeDef:'))

/**
 * Whether a value of JSON is one of a kind, as far as its bytes are concerned: what the standard keywords beside it say is
 * looked at by whoever validates them. Without a kind every value fits.
 */
export function fits(schema: Schema, value: unknown): boolean {
  const kind = kindOf(schema)
  if (kind === undefined) return true
  const bits = BITS.exec(kind)
  if (bits !== null) {
    const size = Number(bits[2])
    const [least, most] = bits[1] === 'Ui' ? [0, 2 ** size] : [-(2 ** (size - 1)), 2 ** (size - 1)]
    if (typeof value === 'bigint') return value >= BigInt(least) && value < BigInt(most)
    return Number.isInteger(value) && (value as number) >= least && (value as number) < most
  }
  if (/^TypeDef:(B?Float\d+|Float8E\dM\d)$/.test(kind)) return typeof value === 'number'
  switch (kind) {
    case 'TypeDef:Complex64':
    case 'TypeDef:Complex128':
      return Array.isArray(value) && value.length === 2 && value.every((x) => typeof x === 'number')
    case 'TypeDef:Boolean':
      return typeof value === 'boolean'
    case 'TypeDef:Timestamp':
      return typeof value === 'string' && /^\d{4}-\d\d-\d\dT.+(Z|[+-]\d\d:\d\d)$/.test(value)
        && !Number.isNaN(Date.parse(value))
    case 'TypeDef:Enum':
      return (schema['enum'] as unknown[]).includes(value)
    case 'TypeDef:String':
      return typeof value === 'string'
    case 'TypeDef:Bytes':
      return typeof value === 'string' && value.length % 4 === 0
        && /^[A-Za-z0-9+/]*={0,2}$/.test(value)
    case 'TypeDef:Record':
      return isObject(value)
    case 'TypeDef:Array': {
      if (!Array.isArray(value)) return false
      const { minItems, maxItems, items } = schema
      if (minItems !== undefined && minItems === maxItems && value.length !== minItems) return false
      return value.every((item) => fits(items, item))
    }
    case 'TypeDef:Struct':
      return isObject(value) && isStruct(schema, value)
    case 'TypeDef:Union': {
      if (!isObject(value)) return false
      const { discriminator } = schema[kind] as { discriminator: string }
      const { [discriminator]: key, ...rest } = value
      return typeof key === 'string' && Object.hasOwn(schema['mapping'], key)
        && fits(schema['mapping'][key], rest)
    }
    case 'TypeDef:Tensor':
      return isObject(value) && isTensor(value)
    case 'TypeDef:Blob':
      return isObject(value) && isObject(value['entries']) && isCount(value['entries']['count'])
        && isObject(value['blob_data']) && isTensor(value['blob_data'])
    default:
      return false
  }
}

function isStruct(schema: Schema, value: Record<string, unknown>): boolean {
  const { properties, required = [] } = schema
  return (required as string[]).every((name) => {
    return Object.hasOwn(value, name) || properties[name]?.default !== undefined
  }) && Object.entries(value).every(([name, member]) => {
    return Object.hasOwn(properties, name) && fits(properties[name], member)
  })
}

/** A reference; or the elements, inside a record. */
function isTensor(value: Record<string, unknown>): boolean {
  if ('data' in value) return Array.isArray(value['data'])
  const { dtype, shape, data_offsets: offsets } = value
  return typeof dtype === 'string' && Array.isArray(shape) && shape.every(isCount) && isPair(offsets)
}
