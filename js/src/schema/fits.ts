import { isBase64, isTime, roundsTo } from './values.js'

/** The part of a schema that is used here. */
type Schema = { readonly [keyword: string]: any }

const BITS = /^TypeDef:(Ui|I)nt(8|16|32|64)$/
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value)
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0
const isPair = (value: unknown): boolean =>
  Array.isArray(value) && value.length === 2 && value.every(isCount)
const KINDS = /^TypeDef:(U?[iI]nt(8|16|32|64)|B?Float(16|32|64)|Float8E4M3|Float8E5M2|Complex(64|128)|Boolean|Timestamp|Enum|String|Bytes|Record|Array|Struct|Union|Tensor|Blob)$/

/** Returns the kind of a schema: its `TypeDef:` keyword, except for custom ones. */
export const kindOf = (schema: Schema): string | undefined =>
  Object.keys(schema).find((name) => KINDS.test(name))

/** Parses a float in JSON, including those that JSON writes as strings. */
function floatOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value
  const special = isObject(value) && Object.keys(value).length === 1 ? value['$float'] : undefined
  return special === 'nan' ? NaN : special === 'inf' ? Infinity : special === '-inf' ? -Infinity : undefined
}

/** Returns whether a value is an array or a typed array of elements. */
const isArray = (value: unknown): value is ArrayLike<unknown> =>
  Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView))

/**
 * Returns whether a value fits a kind, in its JSON or JavaScript form (`docs/spec/metatensor.md`, 5.8), as far as its
 * bytes are concerned; standard keywords are left to the validator. Without a kind every value fits.
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
  if (/^TypeDef:(B?Float\d+|Float8E\dM\d)$/.test(kind)) {
    const number = floatOf(value)
    return number !== undefined && roundsTo(kind.slice(8), number)
  }
  switch (kind) {
    case 'TypeDef:Complex64':
    case 'TypeDef:Complex128': {
      const part = kind === 'TypeDef:Complex64' ? 'Float32' : 'Float64'
      return Array.isArray(value) && value.length === 2 && value.map(floatOf).every((x) => x !== undefined && roundsTo(part, x))
    }
    case 'TypeDef:Boolean':
      return typeof value === 'boolean'
    case 'TypeDef:Timestamp':
      if (typeof value === 'bigint') return BigInt.asIntN(64, value) === value
      return typeof value === 'string' && isTime(value)
    case 'TypeDef:Enum':
      return (schema['enum'] as unknown[]).includes(value)
    case 'TypeDef:String':
      return typeof value === 'string' && isText(value)
    case 'TypeDef:Bytes':
      return value instanceof Uint8Array || (typeof value === 'string' && isBase64(value))
    case 'TypeDef:Record':
      return isObject(value)
    case 'TypeDef:Array': {
      if (!isArray(value)) return false
      const { minItems, maxItems, items } = schema
      if (minItems !== undefined && minItems === maxItems && value.length !== minItems) return false
      return Array.prototype.every.call(value, (item) => fits(items, item))
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
      return (ArrayBuffer.isView(value) && !(value instanceof DataView)) || (isObject(value) && isTensor(value))
    case 'TypeDef:Blob':
      return isObject(value) && isObject(value['entries']) && isCount(value['entries']['count'])
        && isObject(value['blob_data']) && isTensor(value['blob_data'])
    default:
      return false
  }
}

/** Returns whether a string has no lone surrogate, which UTF-8 cannot represent. */
export const isText = (text: string): boolean => !/\p{Surrogate}/u.test(text)

function isStruct(schema: Schema, value: Record<string, unknown>): boolean {
  const { properties, required = [] } = schema
  return (required as string[]).every((name) => {
    return Object.hasOwn(value, name) || properties[name]?.default !== undefined
  }) && Object.entries(value).every(([name, member]) => {
    // An absent optional member.
    if (member === undefined && !(required as string[]).includes(name)) return true
    return Object.hasOwn(properties, name) && fits(properties[name], member)
  })
}

/** Returns whether a value is a reference to a tensor, or its elements inside a record. */
function isTensor(value: Record<string, unknown>): boolean {
  if ('data' in value) return isArray(value['data'])
  const { dtype, shape, data_offsets: offsets } = value
  return typeof dtype === 'string' && Array.isArray(shape) && shape.every(isCount) && isPair(offsets)
}

/**
 * Returns whether a value fits the standard keywords of a kind, except those that contain schemas: for validators
 * that delegate all of a kind to its check.
 */
export function keeps(schema: Schema, value: unknown): boolean {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, pattern, minLength, maxLength, minItems, maxItems } = schema
  if (kindOf(schema) === undefined && !isOf(schema['type'], value)) return false
  if ('enum' in schema && !(schema['enum'] as unknown[]).includes(value)) return false
  if ('const' in schema && JSON.stringify(schema['const']) !== JSON.stringify(value)) return false
  if (typeof value === 'number' || typeof value === 'bigint') {
    return !(minimum !== undefined && value < minimum) && !(maximum !== undefined && value > maximum)
      && !(exclusiveMinimum !== undefined && value <= exclusiveMinimum)
      && !(exclusiveMaximum !== undefined && value >= exclusiveMaximum)
      && !(multipleOf !== undefined && !Number.isInteger(Number(value) / multipleOf))
  }
  if (typeof value === 'string') {
    const length = minLength === undefined && maxLength === undefined ? 0 : [...value].length
    return !(minLength !== undefined && length < minLength) && !(maxLength !== undefined && length > maxLength)
      && !(pattern !== undefined && !new RegExp(pattern, 'u').test(value))
  }
  if (isArray(value)) {
    const { items } = schema
    const all = Array.from(value)
    return !(minItems !== undefined && all.length < minItems) && !(maxItems !== undefined && all.length > maxItems)
      && !(schema['uniqueItems'] === true && new Set(all.map((one) => JSON.stringify(one, bigints))).size !== all.length)
      && (items === undefined || typeof items !== 'object' || all.every((one) => keeps(items, one)))
  }
  if (isObject(value)) {
    const { minProperties, maxProperties, required, properties, mapping, additionalProperties: others } = schema
    if ('TypeDef:Record' in schema && !Object.values(value).every((one) => others !== false && (others === true || others === undefined || (fits(others, one) && keeps(others, one))))) return false
    const count = Object.keys(value).length
    const key = value[schema['TypeDef:Union']?.discriminator] as string
    const variant = mapping?.[key]
    return !(minProperties !== undefined && count < minProperties) && !(maxProperties !== undefined && count > maxProperties)
      && !(required as string[] | undefined)?.some((name) => !Object.hasOwn(value, name))
      && Object.entries(properties ?? {}).every(([name, own]) => {
        return !Object.hasOwn(value, name) || value[name] === undefined || keeps(own as Schema, value[name])
      })
      && (variant === undefined || keeps(variant, value))
  }
  return true
}

/** Returns whether a JSON value has a JSON type. */
function isOf(type: unknown, value: unknown): boolean {
  if (type === undefined) return true
  if (Array.isArray(type)) return type.some((one) => isOf(one, value))
  const own = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value
  return own === type || (type === 'integer' && (Number.isInteger(value) || own === 'bigint')) || (type === 'number' && own === 'bigint')
}

const bigints = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}n` : value)
