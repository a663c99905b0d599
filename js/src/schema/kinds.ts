import { fits } from './fits.js'

/** JSON, as a schema has it. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/**
 * A schema whose values have the type `T` as JSON. That is all TypeBox 1.x asks of a type, so kinds stand in its `Type.Object` as
 * they are; the type is nowhere at run time.
 */
export interface Kind<T = unknown> {
  '~unsafe': T
}

/** A kind whose values are `R` in records that were read, and arrays of them `A`. */
export interface RowKind<T, R = T, A = R[]> extends Kind<T> {
  '~row': R
  '~rows': A
}

/**
 * The type of the values of a kind as records have them: 64-bit integers and times are bigints, bytes a `Uint8Array`, arrays of
 * numbers typed arrays. Of a type of TypeBox 1.x made by `Type.Unsafe` it is that type.
 */
export type Static<K> = K extends { '~row': infer R } ? R : StaticJson<K>

/** The type of the values of a kind in JSON: what `lines` gives as texts, and what TypeBox checks. */
export type StaticJson<K> = K extends { '~unsafe': infer T } ? T : unknown

/** The type of an array of values of a kind in a record. */
type ArrayOf<K> = K extends { '~rows': infer A } ? A : Static<K>[]

/** What may stand beside every kind. */
export interface Options {
  title?: string
  description?: string
  $comment?: string
  default?: unknown
  examples?: unknown[]
  deprecated?: boolean
  /** A power of two that the kind is aligned to, or `natural`. */
  align?: number | 'natural'
  [keyword: string]: unknown
}

/** Members by their names; or in their order, where a name may look like a number, which JavaScript puts first. */
export type Members = Record<string, Kind<any>> | readonly (readonly [string, Kind<any>])[]

type Flat<T> = { [K in keyof T]: T[K] } & {}
type OptionalNames<M> = { [K in keyof M]: M[K] extends { '~optional': true } ? K : never }[keyof M]

/** The object that has such members: as JSON, and in records. */
export type ObjectOf<M> = M extends readonly (readonly [string, Kind<any>])[]
  ? { [P in M[number] as P[0]]: StaticJson<P[1]> }
  : Flat<
      { -readonly [K in Exclude<keyof M, OptionalNames<M>>]: StaticJson<M[K]> }
      & { -readonly [K in OptionalNames<M>]?: StaticJson<M[K]> }
    >
export type RowOf<M> = M extends readonly (readonly [string, Kind<any>])[]
  ? { [P in M[number] as P[0]]: Static<P[1]> }
  : Flat<
      { -readonly [K in Exclude<keyof M, OptionalNames<M>>]: Static<M[K]> }
      & { -readonly [K in OptionalNames<M>]?: Static<M[K]> }
    >

/** Where a name of TypeBox is looked for that JSON does not show. */
const hidden = (schema: object, name: string, value: unknown): void => {
  Object.defineProperty(schema, name, { value, configurable: true, writable: true })
}

/** A kind: what JSON shows of it, and a check of what the standard keywords do not say, for TypeBox. */
function kind<K>(json: object, options: Options = {}): K {
  const schema = { ...json, ...options }
  hidden(schema, '~refine', [{
    check: (value: unknown) => fits(schema, value),
    error: () => 'is not a value of the kind',
  }])
  return schema as unknown as K
}

const scalar = <T, R = T, A = R[]>(type: string, name: string, more: object = {}) =>
  (options?: Options): RowKind<T, R, A> => kind({ type, [`TypeDef:${name}`]: true, ...more }, options)

const pair = { items: { type: 'number' }, minItems: 2, maxItems: 2 }

export const Int8 = scalar<number, number, Int8Array>('integer', 'Int8')
export const Int16 = scalar<number, number, Int16Array>('integer', 'Int16')
export const Int32 = scalar<number, number, Int32Array>('integer', 'Int32')
export const Int64 = scalar<number, bigint, BigInt64Array>('integer', 'Int64')
export const Uint8 = scalar<number, number, Uint8Array>('integer', 'Uint8')
export const Uint16 = scalar<number, number, Uint16Array>('integer', 'Uint16')
export const Uint32 = scalar<number, number, Uint32Array>('integer', 'Uint32')
export const Uint64 = scalar<number, bigint, BigUint64Array>('integer', 'Uint64')
export const Float16 = scalar<number, number, Float32Array>('number', 'Float16')
export const Float32 = scalar<number, number, Float32Array>('number', 'Float32')
export const Float64 = scalar<number, number, Float64Array>('number', 'Float64')
export const BFloat16 = scalar<number, number, Float32Array>('number', 'BFloat16')
export const Float8E4M3 = scalar<number, number, Float32Array>('number', 'Float8E4M3')
export const Float8E5M2 = scalar<number, number, Float32Array>('number', 'Float8E5M2')
export const Complex64 = scalar<[number, number]>('array', 'Complex64', pair)
export const Complex128 = scalar<[number, number]>('array', 'Complex128', pair)
/** One byte: 0 or 1. */
export const Boolean = scalar<boolean>('boolean', 'Boolean')
/** A time of RFC 3339, in nanoseconds. */
export const Timestamp = scalar<string, bigint, BigInt64Array>('string', 'Timestamp', { format: 'date-time' })
/** A text, in the heap. */
export const Text = scalar<string>('string', 'String')
/** Any bytes, in the heap; in JSON as base64. */
export const Bytes = scalar<string, Uint8Array>('string', 'Bytes', { contentEncoding: 'base64' })

/** One of several texts; the order says which number each is. */
export const Enum = <const V extends string>(values: readonly V[], options?: Options): RowKind<V> =>
  kind({ type: 'string', enum: [...values], 'TypeDef:Enum': true }, options)

/** A JSON object of any names, in the heap. Its values are plain JSON. */
export const Record = <K extends object = Kind<unknown>>(
  values?: K, options?: Options,
): RowKind<{ [name: string]: StaticJson<K> }> =>
  kind({ type: 'object', additionalProperties: values ?? true, 'TypeDef:Record': true }, options)

/** Any number of elements, in the heap; at the top of a schema of references a dataset of records. */
export const Array = <K extends Kind<any>>(items: K, options?: Options): RowKind<StaticJson<K>[], ArrayOf<K>> =>
  kind({ type: 'array', items, 'TypeDef:Array': true }, options)

/** So many elements, one after the other. */
export const FixedArray = <K extends Kind<any>>(
  items: K, count: number, options?: Options,
): RowKind<StaticJson<K>[], ArrayOf<K>> =>
  kind({ type: 'array', items, minItems: count, maxItems: count, 'TypeDef:Array': true }, options)

/** A member that may be absent. */
export function Optional<K extends Kind<any>>(of: K): K & { '~optional': true } {
  const own = Object.create(Object.getPrototypeOf(of), Object.getOwnPropertyDescriptors(of))
  hidden(own, '~optional', true)
  return own
}

/** The same kind with more said beside it. */
export function withOptions<K extends Kind<any>>(of: K, options: Options): K {
  if (Object.keys(options).length === 0) return of
  const own: K = kind(of, options)
  return '~optional' in of ? Optional(own) : own
}

function members(given: Members): [names: string[], properties: object, required: string[]] {
  const pairs = (globalThis.Array.isArray(given) ? given : Object.entries(given)) as [string, Kind][]
  const properties = Object.fromEntries(pairs)
  const required = pairs.filter(([, member]) => !('~optional' in member)).map(([name]) => name)
  const names = pairs.map(([name]) => name)
  // Numbers stand first among the names of an object, wherever they were written.
  if (!globalThis.Array.isArray(given) && names.some((name) => /^(0|[1-9]\d*)$/.test(name))) {
    throw new TypeError(`the order of \`${names.join('`, `')}\` is lost: give members as pairs`)
  }
  return [names, properties, required]
}

/** Members one after the other, in the order in which they are given. */
export function Struct<const M extends Members>(given: M, options?: Options): RowKind<ObjectOf<M>, RowOf<M>> {
  const [names, properties, required] = members(given)
  return kind({ type: 'object', 'TypeDef:Struct': names, properties, required }, options)
}

/** One of several structs; the member `discriminator` of its JSON says which. */
export const Union = <D extends string, const V extends globalThis.Record<string, Kind<any>>>(
  discriminator: D, mapping: V, options?: Options,
): RowKind<
  { [K in keyof V]: Flat<{ [P in D]: K } & StaticJson<V[K]>> }[keyof V],
  { [K in keyof V]: Flat<{ [P in D]: K } & Static<V[K]>> }[keyof V]
> =>
  kind({ type: 'object', 'TypeDef:Union': { discriminator }, mapping }, options)

/** Names of element types of tensors: those of safetensors. */
export type DType =
  | 'F64' | 'F32' | 'F16' | 'BF16' | 'F8_E4M3' | 'F8_E5M2' | 'F8_E8M0' | 'F8_E4M3FNUZ' | 'F8_E5M2FNUZ'
  | 'F6_E2M3' | 'F6_E3M2' | 'F4' | 'C64' | 'I64' | 'I32' | 'I16' | 'I8' | 'U64' | 'U32' | 'U16' | 'U8' | 'BOOL'

/** A dimension: so many, any number, or the number that a name stands for in the whole file. */
export type Dim = number | null | string

/** What a header says of a tensor. */
export interface TensorRef {
  dtype: string
  shape: number[]
  data_offsets: [number, number]
}

/** What a header says of a blob. */
export interface BlobRef {
  entries: { count: number; data_offsets: [number, number] }
  blob_data: TensorRef
}

/** The elements of a tensor in a record, row by row: booleans as bytes, complex numbers as two floats each. */
type ElementsOf<D> =
  D extends 'F64' ? Float64Array : D extends 'I64' ? BigInt64Array : D extends 'U64' ? BigUint64Array : D extends 'I32' ? Int32Array
  : D extends 'U32' ? Uint32Array : D extends 'I16' ? Int16Array : D extends 'U16' ? Uint16Array : D extends 'I8' ? Int8Array
  : D extends 'U8' | 'BOOL' ? Uint8Array : D extends DType ? Float32Array : unknown

/**
 * Elements in row-major order: a reference, or, inside a record, its own bytes. `dtype` may list the types there may be of a
 * reference.
 */
export const Tensor = <const D extends DType | readonly DType[] | null = null>(
  of: { dtype?: D; shape?: readonly Dim[] | null } = {}, options?: Options,
): RowKind<TensorRef, ElementsOf<D>> => kind({ type: 'object', 'TypeDef:Tensor': { ...of } }, options)

/** Many runs of bytes; only as a reference. */
export const Blob = (
  content: 'utf-8' | 'bytes' | 'json' | DType, options?: Options,
): RowKind<BlobRef> => kind({ type: 'object', 'TypeDef:Blob': { content } }, options)

/** An object of references, or of plain JSON: what a file's schema is at its top. */
export function References<const M extends Members>(
  given: M, options?: Omit<Options, 'align'> & { additionalProperties?: boolean | Kind<any> },
): RowKind<ObjectOf<M>, RowOf<M>> {
  const [, properties, required] = members(given)
  return kind({ type: 'object', properties, required }, options)
}

/** A list of references. */
export const ReferenceList = <K extends Kind<any>>(
  items: K, options?: Omit<Options, 'align'> & { minItems?: number; maxItems?: number },
): RowKind<StaticJson<K>[]> => kind({ type: 'array', items }, options)

/**
 * A type of TypeScript that stands for a kind, for `holdall-ts-to-schema`. Whatever is a `T` will do for it: what says the kind
 * is nowhere at run time.
 */
export type Branded<T, Name extends string, Of = unknown> = T & { readonly '~kind'?: Name; readonly '~of'?: Of }

export type Int8 = Branded<number, 'Int8'>
export type Int16 = Branded<number, 'Int16'>
export type Int32 = Branded<number, 'Int32'>
export type Int64 = Branded<number, 'Int64'>
export type Uint8 = Branded<number, 'Uint8'>
export type Uint16 = Branded<number, 'Uint16'>
export type Uint32 = Branded<number, 'Uint32'>
export type Uint64 = Branded<number, 'Uint64'>
export type Float16 = Branded<number, 'Float16'>
export type Float32 = Branded<number, 'Float32'>
export type Float64 = Branded<number, 'Float64'>
export type BFloat16 = Branded<number, 'BFloat16'>
export type Float8E4M3 = Branded<number, 'Float8E4M3'>
export type Float8E5M2 = Branded<number, 'Float8E5M2'>
export type Complex64 = Branded<[number, number], 'Complex64'>
export type Complex128 = Branded<[number, number], 'Complex128'>
export type Timestamp = Branded<string, 'Timestamp'>
export type Bytes = Branded<string, 'Bytes'>
/** So many elements, one after the other; a tuple says the same. */
export type FixedArray<T, N extends number> = Branded<T[], 'FixedArray', N>
/** What a record extends: `interface Photo extends Struct { … }`. In a record every object is one. */
export interface Struct {
  readonly '~kind'?: 'Struct'
}
export type Tensor<D extends DType | null = null, S extends readonly Dim[] | null = null> =
  Branded<TensorRef, 'Tensor', { dtype: D; shape: S }>
export type Blob<C extends 'utf-8' | 'bytes' | 'json' | DType> = Branded<BlobRef, 'Blob', { content: C }>
