import { broken } from '../errors.js'
import { fits } from './fits.js'

/** A JSON Schema: an object of keywords, `true` or `false`. */
type Schema = boolean | { readonly [keyword: string]: any }

/**
 * Members and items that subschemas have evaluated, and that `unevaluatedProperties` and `unevaluatedItems` do not
 * apply to.
 */
interface Seen {
  names: Set<string>
  items: number
  others: Set<number>
}

/** Keywords with references that are not supported. */
const UNKNOWN = ['$dynamicRef', '$recursiveRef']
/** The maximum depth of references between schemas. */
const DEPTH = 256

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const nothing = (): Seen => ({ names: new Set(), items: 0, others: new Set() })
const short = (value: unknown): string => {
  const text = canonical(value)
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}

/** Returns a canonical text of a JSON value: numbers by value, members sorted. */
function canonical(value: unknown): string {
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'number') return Number.isInteger(value) ? String(BigInt(value)) : String(value)
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (!isObject(value)) return JSON.stringify(value) ?? 'null'
  const names = Object.keys(value).sort()
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join()}}`
}

/**
 * Returns where and why a JSON value does not fit the standard keywords of draft 2020-12 or the kinds of a schema;
 * `null` if it fits. Integers beyond 2^53 are bigints. `format` is not checked, nor is a pattern that JavaScript
 * cannot compile.
 */
export function violation(schema: Schema, value: unknown, defs: { readonly [name: string]: Schema }): string | null {
  return new Checker(defs).check(schema, value, '', nothing(), 0)
}

class Checker {
  constructor(private readonly defs: { readonly [name: string]: Schema }) {}

  check(schema: Schema, value: unknown, at: string, seen: Seen, depth: number): string | null {
    if (schema === true) return null
    const wrong = (what: string): string => `${short(value)} ${what}${at === '' ? '' : `, at \`${at}\``}`
    if (schema === false) return wrong('is not allowed')
    if (depth > DEPTH) throw broken('schema/too-large', 'schemas refer to each other more than 256 levels deep')
    const unknown = UNKNOWN.find((name) => Object.hasOwn(schema, name))
    if (unknown !== undefined) throw broken('js/keyword', `the keyword \`${unknown}\` is not supported`)
    if (!fits(schema, value)) return wrong('is not valid for its kind')
    const { type, enum: values, const: only } = schema
    if (type !== undefined && ![type].flat().some((one) => isOf(one, value))) return wrong(`is not of type ${[type].flat().join(' or ')}`)
    if (values !== undefined && !values.some((one: unknown) => canonical(one) === canonical(value))) return wrong('is not one of its values')
    if ('const' in schema && canonical(only) !== canonical(value)) return wrong(`is not ${short(only)}`)
    const own = typeof value === 'number' || typeof value === 'bigint' ? numberFits(schema, value)
      : typeof value === 'string' ? textFits(schema, value)
        : null
    if (own !== null) return wrong(own)
    // Subschemas for the same value, which count for `unevaluated…`.
    const inside = (part: Schema, found = nothing()): [string | null, Seen] => [this.check(part, value, at, found, depth + 1), found]
    const take = (found: Seen) => {
      found.names.forEach((name) => seen.names.add(name))
      found.others.forEach((n) => seen.others.add(n))
      seen.items = Math.max(seen.items, found.items)
    }
    const must = (part: Schema): string | null => {
      const [error, found] = inside(part)
      if (error === null) take(found)
      return error
    }
    const { $ref, allOf, anyOf, oneOf, not, if: when } = schema
    for (const part of [...($ref === undefined ? [] : [this.at($ref)]), ...(allOf ?? [])]) {
      const error = must(part)
      if (error !== null) return error
    }
    for (const [all, least, most] of [[anyOf, 1, Infinity], [oneOf, 1, 1]] as const) {
      if (all === undefined) continue
      const sound = (all as Schema[]).map((part) => inside(part)).filter(([error]) => error === null)
      if (sound.length < least) return wrong(`fits none of the ${all.length} allowed schemas`)
      if (sound.length > most) return wrong(`fits ${sound.length} schemas; expected exactly one`)
      sound.forEach(([, found]) => take(found))
    }
    if (not !== undefined && inside(not)[0] === null) return wrong('is what it must not be')
    if (when !== undefined) {
      const [error, found] = inside(when)
      if (error === null) take(found)
      const error2 = must((error === null ? schema['then'] : schema['else']) ?? true)
      if (error2 !== null) return error2
    }
    if (Array.isArray(value)) return this.list(schema, value, at, seen, depth, wrong)
    if (isObject(value)) return this.object(schema, value, at, seen, depth, wrong, must)
    return null
  }

  private list(schema: Record<string, any>, value: unknown[], at: string, seen: Seen, depth: number, wrong: (what: string) => string): string | null {
    const { prefixItems = [], items, contains, minItems, maxItems, uniqueItems, minContains = 1, maxContains, unevaluatedItems } = schema
    if (minItems !== undefined && value.length < minItems) return wrong(`has fewer than ${minItems} items`)
    if (maxItems !== undefined && value.length > maxItems) return wrong(`has more than ${maxItems} items`)
    if (uniqueItems === true && new Set(value.map(canonical)).size < value.length) return wrong('has an item twice')
    const item = (part: Schema, n: number): string | null => this.check(part, value[n], `${at}/${n}`, nothing(), depth + 1)
    for (const [n, part] of (prefixItems as Schema[]).slice(0, value.length).entries()) {
      const error = item(part, n)
      if (error !== null) return error
    }
    seen.items = Math.max(seen.items, Math.min(prefixItems.length, value.length))
    if (items !== undefined) {
      for (let n = prefixItems.length; n < value.length; n++) {
        const error = item(items, n)
        if (error !== null) return error
      }
      seen.items = value.length
    }
    if (contains !== undefined) {
      const found = value.map((_, n) => n).filter((n) => item(contains, n) === null)
      found.forEach((n) => seen.others.add(n))
      if (found.length < minContains) return wrong('has too few items that it must contain')
      if (maxContains !== undefined && found.length > maxContains) return wrong(`has more than ${maxContains} of the items that it must contain`)
    }
    if (unevaluatedItems !== undefined) {
      for (let n = seen.items; n < value.length; n++) {
        const error = seen.others.has(n) ? null : item(unevaluatedItems, n)
        if (error !== null) return error
      }
      seen.items = value.length
    }
    return null
  }

  private object(
    schema: Record<string, any>, value: Record<string, unknown>, at: string, seen: Seen, depth: number,
    wrong: (what: string) => string, must: (part: Schema) => string | null,
  ): string | null {
    const {
      properties = {}, patternProperties = {}, additionalProperties, propertyNames, required = [], minProperties, maxProperties,
      dependentRequired = {}, dependentSchemas = {}, dependencies = {}, unevaluatedProperties,
    } = schema
    const names = Object.keys(value)
    if (minProperties !== undefined && names.length < minProperties) return wrong(`has fewer than ${minProperties} members`)
    if (maxProperties !== undefined && names.length > maxProperties) return wrong(`has more than ${maxProperties} members`)
    const lacks = (all: string[]): string | undefined => all.find((name) => !Object.hasOwn(value, name))
    const missing = lacks(required)
    if (missing !== undefined) return wrong(`has no member \`${missing}\``)
    for (const [name, needs] of Object.entries({ ...dependencies, ...dependentRequired, ...dependentSchemas }) as [string, Schema | string[]][]) {
      if (!Object.hasOwn(value, name)) continue
      const error = Array.isArray(needs) ? (lacks(needs) === undefined ? null : wrong(`has no member \`${lacks(needs)}\``)) : must(needs)
      if (error !== null) return error
    }
    const patterns = Object.entries(patternProperties as Record<string, Schema>).map(([pattern, part]) => [patternOf(pattern), part] as const)
    const own = new Set<string>()
    for (const name of names) {
      const parts: Schema[] = Object.hasOwn(properties, name) ? [properties[name]] : []
      for (const [pattern, part] of patterns) if (pattern === null || pattern.test(name)) parts.push(part)
      if (parts.length > 0 || additionalProperties !== undefined) own.add(name)
      if (parts.length === 0 && additionalProperties !== undefined) parts.push(additionalProperties)
      const place = `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
      for (const part of parts) {
        const error = this.check(part, value[name], place, nothing(), depth + 1)
        if (error !== null) return error
      }
      if (propertyNames !== undefined && this.check(propertyNames, name, place, nothing(), depth + 1) !== null) {
        return wrong(`has a member \`${name}\`, whose name is not allowed`)
      }
    }
    own.forEach((name) => seen.names.add(name))
    if (unevaluatedProperties !== undefined) {
      for (const name of names.filter((name) => !seen.names.has(name))) {
        const error = this.check(unevaluatedProperties, value[name], `${at}/${name}`, nothing(), depth + 1)
        if (error !== null) return error
        seen.names.add(name)
      }
    }
    return null
  }

  /** Returns the target of a `$ref`. */
  private at(ref: string): Schema {
    const parts = ref.startsWith('#/$defs/') ? decodeURIComponent(ref.slice('#/$defs/'.length)).split('/') : []
    let found: any = this.defs
    for (const part of parts) {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
      found = typeof found === 'object' && found !== null && Object.hasOwn(found, name) ? found[name] : undefined
    }
    if (parts.length === 0 || found === undefined) throw broken('js/keyword', `\`$ref\` to \`${ref}\` is not supported`)
    return found
  }
}

function numberFits(schema: Record<string, any>, value: number | bigint): string | null {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema
  if (minimum !== undefined && value < minimum) return `is less than the minimum of ${minimum}`
  if (maximum !== undefined && value > maximum) return `is more than the maximum of ${maximum}`
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum) return `is not more than ${exclusiveMinimum}`
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum) return `is not less than ${exclusiveMaximum}`
  if (multipleOf === undefined) return null
  const isMultiple = typeof value === 'bigint' && Number.isInteger(multipleOf)
    ? value % BigInt(multipleOf) === 0n
    : Number.isInteger(Number(value) / multipleOf)
  return isMultiple ? null : `is no multiple of ${multipleOf}`
}

function textFits(schema: Record<string, any>, value: string): string | null {
  const { minLength, maxLength, pattern } = schema
  const length = minLength === undefined && maxLength === undefined ? 0 : [...value].length
  if (minLength !== undefined && length < minLength) return `is shorter than ${minLength} characters`
  if (maxLength !== undefined && length > maxLength) return `is longer than ${maxLength} characters`
  const compiled = pattern === undefined ? null : patternOf(pattern)
  return compiled === null || compiled.test(value) ? null : `does not match \`${pattern}\``
}

/** Compiles a pattern; `null` if it does not compile and is ignored. */
function patternOf(pattern: string): RegExp | null {
  try {
    return new RegExp(pattern, 'u')
  } catch {
    return null
  }
}

/** Returns whether a value has a JSON type. */
function isOf(type: unknown, value: unknown): boolean {
  switch (type) {
    case 'null': return value === null
    case 'boolean': return typeof value === 'boolean'
    case 'string': return typeof value === 'string'
    case 'number': return typeof value === 'number' || typeof value === 'bigint'
    case 'integer': return typeof value === 'bigint' || Number.isInteger(value)
    case 'array': return Array.isArray(value)
    case 'object': return isObject(value)
    default: return false
  }
}
