import type ts from 'typescript'
import * as s from '../schema/kinds.js'
import { escaped } from '../schema/to-schema.js'
import { membersOf, unionOf } from './order.js'

type Compiler = typeof ts
type Kind = s.Kind<any>

/** A location in a file: line and column start at 1. */
export interface Place {
  file: string
  line: number
  column: number
}

/** A type without a Metatensor equivalent, with its location and a suggestion. */
export class TypesError extends Error {
  override readonly name = 'TypesError'
  readonly file: string
  readonly line: number
  readonly column: number
  constructor(place: Place, readonly found: string, readonly remedy: string | null, cause?: unknown) {
    const { file, line, column } = place
    super(`${file}:${line}:${column}: ${found}${remedy === null ? '' : `; ${remedy}`}`, cause === undefined ? undefined : { cause })
    ;({ file: this.file, line: this.line, column: this.column } = place)
  }
}

/** Kinds without parameters, by their brand. */
const SCALARS: Record<string, (options?: s.Options) => Kind> = {
  Int8: s.Int8, Int16: s.Int16, Int32: s.Int32, Int64: s.Int64,
  Uint8: s.Uint8, Uint16: s.Uint16, Uint32: s.Uint32, Uint64: s.Uint64,
  Float16: s.Float16, Float32: s.Float32, Float64: s.Float64, BFloat16: s.BFloat16,
  Float8E4M3: s.Float8E4M3, Float8E5M2: s.Float8E5M2, Complex64: s.Complex64, Complex128: s.Complex128,
  Timestamp: s.Timestamp, Bytes: s.Bytes,
}
/** JavaScript types that are not JSON, and what to write instead. */
const INSTEAD: Record<string, string> = {
  Date: '`Timestamp`', Uint8Array: '`Bytes`, or `Uint8[]`', ArrayBuffer: '`Bytes`', Buffer: '`Bytes`',
  Map: '`Record<string, …>`', Set: 'an array',
  Int8Array: '`Int8[]`', Int16Array: '`Int16[]`', Int32Array: '`Int32[]`', Uint16Array: '`Uint16[]`', Uint32Array: '`Uint32[]`',
  BigInt64Array: '`Int64[]`', BigUint64Array: '`Uint64[]`', Float32Array: '`Float32[]`', Float64Array: '`Float64[]`',
}
/** Documentation tags that are keywords: those with JSON values, and those with text. */
const VALUES = [
  'default', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'minLength', 'maxLength', 'minItems',
  'maxItems', 'uniqueItems', 'align',
]
const TEXTS = ['title', 'format', 'pattern', 'contentMediaType']

/** The current position of the walk. */
interface At {
  /** The node for error messages, which also gives the order of a union. */
  node: ts.Node
  /** The location in the schema: a JSON pointer. */
  pointer: string
  /** Whether it is inside a record, where every value has a kind. */
  inRecord: boolean
  /** Whether it is the type of an optional member. */
  isOptional?: boolean
}

/** Converts types to kinds. */
export class Walk {
  readonly #ts: Compiler
  readonly #program: ts.Program
  readonly #checker: ts.TypeChecker
  /** The source node of each location in the schema. */
  readonly #nodes = new Map<string, ts.Node>()
  /** The objects that are being visited, and the names of those that refer to themselves. */
  readonly #open = new Map<ts.Type, string | null>()
  readonly #defs: { [name: string]: Kind } = {}

  constructor(ts: Compiler, program: ts.Program) {
    this.#ts = ts
    this.#program = program
    this.#checker = program.getTypeChecker()
  }

  /** Returns the source location for a location in the schema, or for the nearest one around it. */
  placed(pointer: string): Place {
    for (let at = pointer; ; at = at.slice(0, at.lastIndexOf('/'))) {
      const node = this.#nodes.get(at)
      if (node !== undefined) return this.#place(node)
      if (at === '') break
    }
    return { file: '', line: 1, column: 1 }
  }

  #place(node: ts.Node): Place {
    const file = node.getSourceFile()
    const { line, character } = file.getLineAndCharacterOfPosition(node.getStart(file))
    return { file: file.fileName, line: line + 1, column: character + 1 }
  }

  #refuse(node: ts.Node, found: string, remedy: string): never {
    throw new TypesError(this.#place(node), found, remedy)
  }

  /** Returns the kind of a type in a file, by name, or of the only one. */
  root(file: ts.SourceFile, name: string | undefined, record: boolean): { kind: Kind; isRecord: boolean } {
    const node = this.#named(file, name)
    this.#nodes.set('', node)
    const type = this.#checker.getTypeAtLocation(node.name!)
    if ((node.typeParameters?.length ?? 0) > 0) {
      this.#refuse(node.name!, `\`${node.name!.text}\` has type parameters`, `name a type without: \`type Own = ${node.name!.text}<…>\``)
    }
    const isRecord = record || this.#brand(type) === 'Struct'
    const at = { node: this.#ts.isTypeAliasDeclaration(node) ? node.type : node.name!, pointer: '', inRecord: isRecord }
    const kind = this.#kind(type, at, this.#annotations(node))
    if (Object.keys(this.#defs).length === 0) return { kind, isRecord }
    return { kind: { ...kind, $defs: this.#defs } as unknown as Kind, isRecord }
  }

  #named(file: ts.SourceFile, name: string | undefined): ts.InterfaceDeclaration | ts.TypeAliasDeclaration {
    const ts = this.#ts
    const isType = (one: ts.Node): one is ts.InterfaceDeclaration | ts.TypeAliasDeclaration =>
      ts.isInterfaceDeclaration(one) || ts.isTypeAliasDeclaration(one)
    const own = file.statements.filter(isType)
    const module = this.#checker.getSymbolAtLocation(file)
    const exported = module === undefined ? [] : this.#checker.getExportsOfModule(module).map((symbol) => {
      const of = symbol.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol
      return { name: symbol.name, node: of.declarations?.find(isType) }
    })
    const types = exported.flatMap(({ name, node }) => (node === undefined ? [] : [{ name, node }]))
    if (name !== undefined) {
      const found = types.find((one) => one.name === name)?.node ?? own.find((one) => one.name.text === name)
      return found ?? this.#refuse(file, `there is no type \`${name}\``,
        `it has ${own.map((one) => `\`${one.name.text}\``).join(', ') || 'none'}`)
    }
    const main = types.find((one) => one.name === 'default')
    const all = types.length > 0 ? types.map(({ node }) => node) : own
    if (main !== undefined) return main.node
    if (all.length === 1) return all[0]!
    if (all.length === 0) return this.#refuse(file, 'it has no types', 'export an interface')
    const names = all.map((one) => `\`${one.name!.text}\``).join(', ')
    return this.#refuse(all[1]!.name!, `it exports several types: ${names}`, 'say which the schema is of, with `--type`')
  }

  /**
   * Returns the kind of a branded type: one of this package, or another member with a literal type that names a kind.
   */
  #brand(type: ts.Type): string | null {
    const flags = this.#ts.TypeFlags
    const isOwn = type.getProperty('~kind')
    const properties = isOwn !== undefined ? [isOwn]
      : type.isIntersection() && type.types.some((one) => one.flags & (flags.Number | flags.String))
        ? type.types.filter((one) => one.flags & flags.Object).flatMap((one) => one.getProperties())
        : []
    for (const property of properties) {
      const value = this.#checker.getNonNullableType(this.#checker.getTypeOfSymbol(property))
      const name = value.isStringLiteral() ? value.value.replace(/^TypeDef:/, '') : property.name.replace(/^TypeDef:/, '')
      if (isOwn !== undefined || Object.hasOwn(SCALARS, name)) return name
    }
    return null
  }

  /** Returns the parameters in the brand. */
  #of(type: ts.Type): any {
    const property = type.getProperty('~of')
    return property === undefined ? undefined
      : this.#value(this.#checker.getNonNullableType(this.#checker.getTypeOfSymbol(property)))
  }

  /** Converts a literal type to its value. */
  #value(type: ts.Type): any {
    if (type.isLiteral()) return type.value
    if (type.flags & this.#ts.TypeFlags.Null) return null
    if (this.#checker.isTupleType(type)) {
      return this.#checker.getTypeArguments(type as ts.TypeReference).map((one) => this.#value(one))
    }
    if (type.flags & this.#ts.TypeFlags.Object) {
      const pairs = type.getProperties().map((one) => [one.name, this.#value(this.#checker.getTypeOfSymbol(one))])
      return Object.fromEntries(pairs.filter(([, value]) => value !== null && value !== undefined))
    }
    return undefined
  }

  /** Returns the keywords in the documentation of a declaration. */
  #annotations(node: ts.Node): s.Options {
    const ts = this.#ts
    const out: s.Options = {}
    const docs = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc)
    const text = docs.map((doc) => ts.getTextOfJSDocComment(doc.comment) ?? '').join('\n').trim()
    if (text !== '') out.description = text
    for (const tag of ts.getJSDocTags(node)) {
      const name = tag.tagName.text
      const value = (ts.getTextOfJSDocComment(tag.comment) ?? '').trim()
      if (name === 'deprecated') out.deprecated = true
      if (TEXTS.includes(name)) out[name] = value
      if (!VALUES.includes(name)) continue
      try {
        out[name] = name === 'align' && value === 'natural' ? value : JSON.parse(value)
      } catch {
        this.#refuse(tag, `\`@${name}\`: \`${value}\` is not JSON`, `write a value: \`@${name} 1\``)
      }
    }
    return out
  }

  #plain(json: object, options: s.Options): Kind {
    return { ...json, ...options } as unknown as Kind
  }

  /** Returns the kind of a type. */
  #kind(type: ts.Type, at: At, options: s.Options): Kind {
    const flags = this.#ts.TypeFlags
    const { inRecord, node } = at
    const text = () => `\`${this.#checker.typeToString(type)}\``
    if (!this.#nodes.has(at.pointer)) this.#nodes.set(at.pointer, node)
    const brand = this.#brand(type)
    if (brand !== null && brand !== 'Struct') return this.#branded(brand, type, at, options)
    const { flags: own } = type
    if (own & (flags.Any | flags.Unknown)) {
      return inRecord ? this.#refuse(node, `${text()} has no kind`, 'say what stands there') : this.#plain({}, options)
    }
    if (own & flags.BooleanLike && !type.isLiteral() && !(own & flags.BooleanLiteral)) {
      return inRecord ? s.Boolean(options) : this.#plain({ type: 'boolean' }, options)
    }
    if (own & flags.StringLike && !(own & (flags.StringLiteral | flags.EnumLike | flags.TemplateLiteral))) {
      return inRecord ? s.Text(options) : this.#plain({ type: 'string' }, options)
    }
    if (own & flags.Number) {
      if (!inRecord) return this.#plain({ type: 'number' }, options)
      this.#refuse(node, '`number` does not say its bytes', 'write `Float32`, or another number of `holdall/schema`')
    }
    if (own & flags.BigIntLike) this.#refuse(node, `${text()} is not a type of JSON`, 'write `Int64` or `Uint64`')
    if (own & flags.Null && inRecord) this.#refuse(node, '`null` has no bytes', 'make the member optional: `name?: …`')
    if (own & flags.Null) return this.#plain({ type: 'null' }, options)
    if (type.isUnion()) return this.#union(type, at, options)
    if (own & flags.StringLiteral) {
      const { value } = type as ts.StringLiteralType
      return inRecord ? s.Enum([value], options) : this.#plain({ const: value }, options)
    }
    if (own & (flags.NumberLiteral | flags.BooleanLiteral)) {
      if (inRecord) this.#refuse(node, `${text()} is a value, not a kind`, 'write what numbers or booleans stand there, or texts')
      return this.#plain({ const: JSON.parse(this.#checker.typeToString(type)) }, options)
    }
    if (this.#checker.isTupleType(type)) return this.#tuple(type as ts.TypeReference, at, options)
    if (this.#checker.isArrayType(type)) {
      const [of] = this.#checker.getTypeArguments(type as ts.TypeReference)
      const records = inRecord || this.#isRecord(of!)
      const inner = this.#kind(of!, { node: this.#elementNode(node), pointer: `${at.pointer}/items`, inRecord: records }, {})
      return records ? s.Array(inner, options) : s.ReferenceList(inner, options)
    }
    if (own & flags.NonPrimitive) return inRecord ? s.Record(undefined, options) : this.#plain({ type: 'object' }, options)
    if (own & flags.Object || type.isIntersection()) return this.#object(type, at, options)
    return this.#refuse(node, `${text()} is no type of data`, 'write a type that JSON has')
  }

  #isRecord(type: ts.Type): boolean {
    return type.isUnion() ? type.types.every((one) => this.#isRecord(one)) : this.#brand(type) === 'Struct'
  }

  #elementNode(node: ts.Node): ts.Node {
    return this.#ts.isArrayTypeNode(node) ? node.elementType : node
  }

  #branded(brand: string, type: ts.Type, at: At, options: s.Options): Kind {
    const scalar = Object.hasOwn(SCALARS, brand) ? SCALARS[brand] : undefined
    if (scalar !== undefined) return scalar(options)
    const of = this.#of(type)
    if (brand === 'Tensor') return s.Tensor(of, options)
    if (brand === 'Blob') {
      if (at.inRecord) this.#refuse(at.node, 'a blob does not stand in a record', 'write `Bytes`, or `string`')
      return s.Blob(of.content, options)
    }
    if (brand === 'FixedArray' && typeof of === 'number') {
      const inner = this.#checker.getIndexTypeOfType(type, this.#ts.IndexKind.Number)!
      const [item] = this.#ts.isTypeReferenceNode(at.node) ? at.node.typeArguments ?? [] : []
      return s.FixedArray(
        this.#kind(inner, { node: item ?? at.node, pointer: `${at.pointer}/items`, inRecord: true }, {}), of, options)
    }
    return this.#refuse(at.node, `\`${brand}\` is not a kind`, 'write one of `holdall/schema`')
  }

  #tuple(type: ts.TypeReference, at: At, options: s.Options): Kind {
    const { elementFlags } = type.target as ts.TupleType
    if (elementFlags.some((flag) => flag !== this.#ts.ElementFlags.Required)) {
      this.#refuse(at.node, 'a tuple has so many elements, all of them there', 'write an array')
    }
    const nodes = this.#ts.isTupleTypeNode(at.node) ? at.node.elements : []
    const items = this.#checker.getTypeArguments(type).map((one, n) => this.#kind(
      one, { node: nodes[n] ?? at.node, pointer: `${at.pointer}/${at.inRecord ? 'items' : `prefixItems/${n}`}`, inRecord: at.inRecord }, {}))
    if (!at.inRecord) return this.#plain({ type: 'array', prefixItems: items, items: false, minItems: items.length }, options)
    const odd = items.findIndex((one) => JSON.stringify(one) !== JSON.stringify(items[0]))
    if (odd >= 0) this.#refuse(nodes[odd] ?? at.node, 'the elements of a tuple in a record are alike', 'write an object, whose members have names')
    if (items.length === 0) this.#refuse(at.node, 'the tuple has no elements', 'leave it out')
    return s.FixedArray(items[0]!, items.length, options)
  }

  #union(type: ts.UnionType, at: At, options: s.Options): Kind {
    const { node, inRecord } = at
    const parts = type.types.filter((one) => !at.isOptional || !(one.flags & this.#ts.TypeFlags.Undefined))
    const texts = parts.filter((one) => one.isStringLiteral())
    if (texts.length === parts.length) {
      const order = unionOf(this.#ts, this.#checker, node, parts)
      if (order === null && inRecord) this.#refuse(node, 'the order of the texts is not written', 'write the union out: `\'a\' | \'b\'`')
      const values = (order ?? parts).map((one) => (one as ts.StringLiteralType).value)
      return inRecord ? s.Enum(values, options) : this.#plain({ type: 'string', enum: values }, options)
    }
    if (parts.some((one) => one.flags & this.#ts.TypeFlags.Undefined)) {
      this.#refuse(node, '`undefined` is not a value', 'make the member optional: `name?: …`')
    }
    if (!inRecord && !parts.every((one) => this.#isRecord(one))) {
      const order = unionOf(this.#ts, this.#checker, node, parts) ?? parts
      return this.#plain({
        anyOf: order.map((one, n) => this.#kind(one, { node, pointer: `${at.pointer}/anyOf/${n}`, inRecord }, {})),
      }, options)
    }
    if (parts.some((one) => one.flags & this.#ts.TypeFlags.Null)) this.#refuse(node, '`null` has no bytes', 'make the member optional: `name?: …`')
    const isKey = (name: string) => {
      const keys = parts.map((one) => {
        const property = one.getProperty(name)
        const key = property === undefined ? undefined : this.#checker.getTypeOfSymbol(property)
        return key?.isStringLiteral() === true ? key.value : undefined
      })
      return keys.every((key) => key !== undefined) && new Set(keys).size === keys.length ? keys as string[] : null
    }
    const by = parts[0]!.getProperties().map(({ name }) => name).find((name) => isKey(name) !== null)
    if (by === undefined) {
      this.#refuse(node, 'nothing tells the variants of the union apart',
        'give each a member with a text of its own: `kind: \'circle\'`')
    }
    const keys = isKey(by)!
    const mapping = Object.fromEntries(parts.map((one, n): [string, Kind] => {
      const key = keys[n]!
      const pointer = `${at.pointer}/mapping/${escaped(key)}`
      return [key, this.#object(one, { node: one.symbol?.declarations?.[0] ?? node, pointer, inRecord: true }, {}, by)]
    }).sort(([a], [b]) => (a < b ? -1 : 1)))
    return s.Union(by, mapping, options)
  }

  /**
   * Converts an object: to a struct in a record, otherwise to references or plain values; `without` leaves out the
   * discriminator.
   */
  #object(type: ts.Type, at: At, given: s.Options, without?: string): Kind {
    const checker = this.#checker
    const symbol = type.symbol as ts.Symbol | undefined
    const name = symbol?.name ?? ''
    if (type.getCallSignatures().length > 0 || type.getConstructSignatures().length > 0) {
      this.#refuse(at.node, 'a function is not data', 'leave it out')
    }
    const declared = symbol?.declarations?.[0]
    if (declared !== undefined && name !== '__type' && this.#program.isSourceFileDefaultLibrary(declared.getSourceFile())) {
      const instead = Object.hasOwn(INSTEAD, name) ? INSTEAD[name] : 'its members as an interface'
      this.#refuse(at.node, `\`${name}\` is not a type of JSON`, `write ${instead}`)
    }
    const open = this.#open.get(type)
    if (open !== undefined) {
      if (at.inRecord) this.#refuse(at.node, `\`${checker.typeToString(type)}\` contains itself`, 'let records refer to others by a number')
      this.#open.set(type, open ?? this.#free(name))
      return { $ref: `#/$defs/${escaped(this.#open.get(type)!)}` } as unknown as Kind
    }
    const isOwn = declared !== undefined && (this.#ts.isInterfaceDeclaration(declared) || this.#ts.isTypeAliasDeclaration(declared))
    const options = { ...(isOwn ? this.#annotations(declared) : {}), ...given }
    const inRecord = at.inRecord || this.#brand(type) === 'Struct'
    this.#open.set(type, null)
    const kind = this.#members(type, { ...at, inRecord }, options, without)
    const ref = this.#open.get(type) ?? null
    this.#open.delete(type)
    if (ref === null) return kind
    this.#defs[ref] = kind
    return { $ref: `#/$defs/${escaped(ref)}` } as unknown as Kind
  }

  /** Returns a name that no other definition has. */
  #free(name: string): string {
    const known = [...Object.keys(this.#defs), ...this.#open.values()]
    let free = name === '__type' ? 'Type' : name
    for (let n = 2; known.includes(free); n++) free = `${name}_${n}`
    return free
  }

  #members(type: ts.Type, at: At, options: s.Options, without?: string): Kind {
    const { inRecord, node, pointer } = at
    const order = membersOf(this.#ts, this.#checker, type)
    const symbols = (order ?? type.getProperties()).filter(({ name }) => !name.startsWith('~') && name !== without)
    const rest = this.#checker.getIndexTypeOfType(type, this.#ts.IndexKind.String)
    if (order === null && inRecord && symbols.length > 1) {
      this.#refuse(node, `the order of the members of \`${this.#checker.typeToString(type)}\` is not written`, 'write them out as an interface')
    }
    if (rest !== undefined && inRecord) {
      if (symbols.length > 0) this.#refuse(node, 'a record has no members of any name besides its own', 'put them in a member of their own')
      const isAny = rest.flags & (this.#ts.TypeFlags.Any | this.#ts.TypeFlags.Unknown)
      return s.Record(isAny ? undefined : this.#kind(
        rest, { node, pointer: `${pointer}/additionalProperties`, inRecord: false }, {}), options)
    }
    const pairs = symbols.map((symbol): [string, Kind] => {
      const declaration = symbol.valueDeclaration ?? symbol.declarations?.[0]
      const typed = declaration !== undefined && this.#ts.isPropertySignature(declaration) ? declaration.type : undefined
      const isOptional = (symbol.flags & this.#ts.SymbolFlags.Optional) !== 0
      const own = this.#checker.getTypeOfSymbol(symbol)
      const found = isOptional ? this.#there(own) : own
      const kind = this.#kind(
        found, { node: typed ?? declaration ?? node, pointer: `${pointer}/properties/${escaped(symbol.name)}`, inRecord, isOptional },
        declaration === undefined ? {} : this.#annotations(declaration))
      return [symbol.name, isOptional ? s.Optional(kind) : kind]
    })
    if (inRecord) return s.Struct(pairs, options)
    const { align: _, ...others } = options
    const additionalProperties = rest === undefined ? undefined
      : this.#kind(rest, { node, pointer: `${pointer}/additionalProperties`, inRecord: false }, {})
    return s.References(pairs, additionalProperties === undefined ? others : { ...others, additionalProperties })
  }

  /** Returns a type without `undefined`, unless it may also be `null`: then `#union` removes it. */
  #there(type: ts.Type): ts.Type {
    const hasNull = type.isUnion() && type.types.some((one) => one.flags & this.#ts.TypeFlags.Null)
    return hasNull ? type : this.#checker.getNonNullableType(type)
  }
}
