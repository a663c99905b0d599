import type { Json } from './kinds.js'

/** A schema that cannot be converted to a Metatensor schema, with the location of the problem. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError'
  constructor(
    /** The location, as a JSON pointer. */
    readonly pointer: string,
    /** The problem. */
    readonly found: string,
  ) {
    super(`${pointer === '' ? 'the root' : pointer}: ${found}`)
  }
}

type Node = { [keyword: string]: any }

/** Type names of the concept's schemas that JSON does not have, and their JSON types. */
const TYPES: Record<string, string> = {
  int8: 'integer', int16: 'integer', int32: 'integer', int64: 'integer',
  uint8: 'integer', uint16: 'integer', uint32: 'integer', uint64: 'integer',
  float32: 'number', float64: 'number', timestamp: 'string',
}
/** Returns the kind for such a type name. */
const kindNamed = (type: string): string =>
  `TypeDef:${type.replace(/^./, (c) => c.toUpperCase())}`
/** The default JSON type for a kind that is given by a symbol. */
const JSON_TYPES: Record<string, string> = {
  Boolean: 'boolean', String: 'string', Enum: 'string', Timestamp: 'string', Bytes: 'string',
  Array: 'array', Struct: 'object', Union: 'object', Record: 'object', Tensor: 'object', Blob: 'object',
}
/** Keywords whose values are maps of schemas; lists of schemas; schemas. */
const MAPS = ['properties', 'definitions', 'patternProperties', 'dependentSchemas', 'mapping']
const LISTS = ['anyOf', 'oneOf', 'allOf', 'prefixItems']
const SINGLE = ['items', 'additionalProperties', 'additionalItems', 'not', 'if', 'then', 'else', 'contains', 'propertyNames']

/**
 * Returns the schema of a header or a record as JSON, from kinds of this package, TypeBox types, or both. Forms of
 * TypeBox that Metatensor does not have are converted if they are unambiguous: `$id` and references to it, unions of
 * literals, tuples, records, kinds that are only given by a symbol. Other forms are refused.
 *
 * @throws SchemaError with the location of a problem.
 */
export function toSchema(of: object): { [keyword: string]: Json } {
  const lifted: { [name: string]: Json } = {}
  const root = node(of, '', { names: [], lifted }) as { [keyword: string]: Json }
  if (Object.keys(lifted).length > 0) root['$defs'] = lifted
  return root
}

interface Scope {
  /** For the surrounding nodes, innermost first: the names of their `$defs`, and those at the root. */
  names: Record<string, string>[]
  /** The `$defs` of the root, to which all others are moved. */
  lifted: { [name: string]: Json }
}

/** @internal Escapes a name as a segment of a JSON pointer. */
export const escaped = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

function node(from: unknown, at: string, scope: Scope): Json {
  if (typeof from === 'boolean') return from
  if (typeof from !== 'object' || from === null || Array.isArray(from)) {
    throw new SchemaError(at, `${from === null ? 'null' : typeof from} is not a schema`)
  }
  const own: Node = named({ ...from }, from, at)
  const inner = definitions(own, at, scope)
  delete own['$defs']
  // The target of a named reference is stored once.
  if (at !== '' && typeof own['$id'] === 'string') delete own['$id']
  if (typeof own['$ref'] === 'string') own['$ref'] = reference(own['$ref'], at, inner)
  literals(own)
  tuple(own)
  record(own)
  concept(own, at)
  const out: { [keyword: string]: Json } = {}
  for (const [keyword, value] of Object.entries(own)) {
    if (value === undefined) continue
    const place = `${at}/${escaped(keyword)}`
    if (MAPS.includes(keyword) && typeof value === 'object' && value !== null) {
      const pairs = Object.entries(value)
      out[keyword] = Object.fromEntries(
        pairs.map(([name, one]) => [name, node(one, `${place}/${escaped(name)}`, inner)]))
    } else if (LISTS.includes(keyword) && Array.isArray(value)) {
      out[keyword] = value.map((one, n) => node(one, `${place}/${n}`, inner))
    } else if (SINGLE.includes(keyword)) {
      out[keyword] = node(value, place, inner)
    } else {
      out[keyword] = plain(value, place)
    }
  }
  struct(out, at)
  return out
}

/** Adds the keyword for a kind that is only given by a symbol. */
function named(own: Node, from: object, at: string): Node {
  for (const symbol of Object.getOwnPropertySymbols(from)) {
    const name: unknown = (from as Record<symbol, unknown>)[symbol]
    if (symbol.description !== 'TypeBox.Kind' || typeof name !== 'string') continue
    if (name.startsWith('TypeDef:') && !(name in own)) {
      if (name === 'TypeDef:Struct' || name === 'TypeDef:Union') own[name] = null
      else own[name] = true
      const type = JSON_TYPES[name.slice(8)]
      if (type !== undefined) own['type'] ??= type
    }
    if (name.startsWith('TypeDef:')) metadata(own, at)
  }
  const type: unknown = own['type']
  if (typeof type === 'string' && Object.hasOwn(TYPES, type)) {
    own['type'] = TYPES[type]
    own[kindNamed(type)] ??= true
    if (type === 'timestamp') own['format'] ??= 'date-time'
  } else if (type === 'bigint' || type === 'undefined' || type === 'symbol' || type === 'function') {
    throw new SchemaError(at, `\`${type}\` is not a type of JSON: take \`Int64()\` for integers`)
  }
  return own
}

/** Moves the keywords that the concept's `typedef.ts` stores in a separate object into the schema. */
function metadata(own: Node, at: string): void {
  const given: unknown = own['metadata']
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return
  delete own['metadata']
  for (const [keyword, value] of Object.entries(given)) {
    if (keyword in own) throw new SchemaError(at, `its \`metadata\` says \`${keyword}\`, too`)
    // The default for structs.
    if (keyword === 'additionalProperties' && value === false && 'TypeDef:Struct' in own) continue
    if (keyword === 'additionalProperties') throw new SchemaError(at, 'a struct has no members but its own: `additionalProperties` cannot be kept')
    own[keyword] = value
  }
}

/** Moves the `$defs` of a node to the root, and records the names by which they may be referenced. */
function definitions(own: Node, at: string, scope: Scope): Scope {
  const defs: unknown = own['$defs']
  if (typeof defs !== 'object' || defs === null) return scope
  const { lifted } = scope
  const names: Record<string, string> = Object.create(null)
  const inner = { names: [names, ...scope.names], lifted }
  const places = Object.entries(defs).map(([name, one]): [string, string, unknown] => {
    let place = name
    for (let n = 2; Object.hasOwn(lifted, place); n++) place = `${name}_${n}`
    lifted[place] = true
    names[name] = place
    const id: unknown = (one as Node)?.['$id']
    if (typeof id === 'string') names[id] = place
    return [name, place, one]
  })
  for (const [name, place, one] of places) {
    lifted[place] = node(one, `${at}/$defs/${escaped(name)}`, inner)
  }
  return inner
}

function reference(to: string, at: string, { names }: Scope): string {
  // A pointer starts at the root, whose `$defs` keep their names.
  if (to.startsWith('#')) return to
  const found = names.find((names) => to in names)?.[to]
  if (found === undefined) throw new SchemaError(at, `there is no \`$defs\` with \`${to}\``)
  return `#/$defs/${escaped(found)}`
}

/** Converts a union of strings to an enum. */
function literals(own: Node): void {
  const all: unknown = own['anyOf']
  if (!Array.isArray(all) || all.length === 0) return
  const isText = (one: Node) => typeof one?.['const'] === 'string'
    && Object.keys(one).every((key) => key === 'const' || key === 'type')
  if (!all.every(isText) || 'enum' in own || 'type' in own) return
  delete own['anyOf']
  own['type'] = 'string'
  own['enum'] = [...new Set(all.map((one) => one.const))]
}

/** Converts a list of schemas in `items`, as in drafts before 2020-12. */
function tuple(own: Node): void {
  const { items } = own
  if (!Array.isArray(items)) return
  delete own['items']
  const rest = own['additionalItems']
  delete own['additionalItems']
  own['prefixItems'] = items
  if (rest !== undefined) own['items'] = rest
}

/** Converts TypeBox's form of a record with any names. */
function record(own: Node): void {
  const by: unknown = own['patternProperties']
  if (typeof by !== 'object' || by === null || 'additionalProperties' in own) return
  const [only, ...others] = Object.entries(by)
  if (only === undefined || others.length > 0 || !/^\^\(?\.\*\)?\$$/.test(only[0])) return
  delete own['patternProperties']
  own['additionalProperties'] = only[1]
}

/** Converts other forms of the concept's `typedef.ts`. */
function concept(own: Node, at: string): void {
  if (own['TypeDef:Array'] === true && 'elements' in own) {
    own['items'] = own['elements']
    delete own['elements']
    own['type'] ??= 'array'
  }
  if (own['TypeDef:Record'] === true && 'values' in own) {
    own['additionalProperties'] = own['values']
    delete own['values']
  }
  if ('TypeDef:Struct' in own || 'optionalProperties' in own) {
    const optional = (own['optionalProperties'] ?? {}) as Node
    const must = (own['properties'] ?? {}) as Node
    if ('optionalProperties' in own) {
      delete own['optionalProperties']
      own['required'] = Object.keys(must)
      own['properties'] = { ...must, ...optional }
    }
    if (own['TypeDef:Struct'] === null) {
      own['type'] ??= 'object'
      own['required'] ??= Object.keys(must)
      const names = Object.keys(own['properties'] ?? {})
      // JavaScript puts names that are numbers first, wherever they were written.
      if (names.length > 1 && names.some((name) => /^(0|[1-9]\d*)$/.test(name))) {
        throw new SchemaError(at, `the order of \`${names.join('`, `')}\` is lost: make it by \`Struct\` of \`holdall/schema\`, of pairs`)
      }
      own['TypeDef:Struct'] = names
    }
  }
  if (own['TypeDef:Union'] === null) {
    own['TypeDef:Union'] = { discriminator: own['discriminator'] }
    delete own['discriminator']
  }
}

const hasKind = (one: Json | undefined): boolean =>
  typeof one === 'object' && one !== null && !Array.isArray(one)
  && ('$ref' in one || Object.keys(one).some((key) => key.startsWith('TypeDef:')))

/** Checks the order of a struct's members, and that an object in a record is a struct. */
function struct(own: { [keyword: string]: Json }, at: string): void {
  const names = own['TypeDef:Struct']
  const properties = (own['properties'] ?? {}) as { [name: string]: Json }
  if (Array.isArray(names)) {
    const known = Object.keys(properties)
    const lost = known.find((name) => !names.includes(name))
    const gone = names.find((name) => typeof name !== 'string' || !Object.hasOwn(properties, name))
    if (lost !== undefined) throw new SchemaError(at, `the struct does not say where \`${lost}\` lies`)
    if (gone !== undefined) throw new SchemaError(at, `the struct has no property \`${gone}\``)
  }
  const inRecords: [string, Json | undefined][] = []
  if (own['TypeDef:Array'] !== undefined) inRecords.push(['items', own['items']])
  if (names !== undefined) {
    inRecords.push(...Object.entries(properties).map(([name, one]): [string, Json] => [`properties/${escaped(name)}`, one]))
  }
  if (own['TypeDef:Union'] !== undefined) {
    const mapping = (own['mapping'] ?? {}) as { [key: string]: Json }
    inRecords.push(...Object.entries(mapping).map(([key, one]): [string, Json] => [`mapping/${escaped(key)}`, one]))
  }
  for (const [place, one] of inRecords) {
    if (hasKind(one)) continue
    const isObject = typeof one === 'object' && one !== null && !Array.isArray(one) && 'properties' in one
    const why = isObject
      ? 'an object without `TypeDef:Struct` has no order of its bytes: make it by `Struct`, after `Partial` and `Pick` too'
      : 'a value in a record needs a kind'
    throw new SchemaError(`${at}/${place}`, why)
  }
}

/** Converts a value that is not a schema to JSON. */
function plain(value: unknown, at: string): Json {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number' && Number.isFinite(value)) return value
  // `schemaText` writes all of its digits.
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value as unknown as Json
  if (Array.isArray(value)) return value.map((one, n) => plain(one, `${at}/${n}`))
  if (typeof value === 'object' && Object.getPrototypeOf(value) !== RegExp.prototype) {
    const pairs = Object.entries(value).filter(([, one]) => one !== undefined)
    return Object.fromEntries(pairs.map(([name, one]) => [name, plain(one, `${at}/${escaped(name)}`)]))
  }
  throw new SchemaError(at, `${typeof value === 'symbol' ? 'a symbol' : String(value)} is not JSON`)
}
