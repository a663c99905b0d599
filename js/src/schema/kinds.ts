import { fits } from './fits.js'

/** A JSON value in a schema. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/**
 * A schema whose values have the JSON type `T`. TypeBox 1.x needs nothing more of a type, so kinds can be used in its
 * `Type.Object` directly; the type does not exist at run time.
 */
export interface Kind<T = unknown> {
  '~unsafe': T
}

/** A kind whose values are read from records as `R`, and arrays of them as `A`. */
export interface RowKind<T, R = T, A = R[]> extends Kind<T> {
  '~row': R
  '~rows': A
}

/**
 * The type of a kind's values as read from records: 64-bit integers and times are bigints, bytes are a `Uint8Array`,
 * arrays of numbers are typed arrays. For a TypeBox 1.x type made by `Type.Unsafe` it is that type.
 */
export type Static<K> = K extends { '~row': infer R } ? R : StaticJson<K>

/** The type of a kind's values in JSON, as in the texts of `lines`, and as TypeBox checks. */
export type StaticJson<K> = K extends { '~unsafe': infer T } ? T : unknown

/** The type of an array of a kind's values in a record. */
type ArrayOf<K> = K extends { '~rows': infer A } ? A : Static<K>[]

/** Options of every kind. */
export interface Options {
  title?: string
  description?: string
  $comment?: string
  default?: unknown
  examples?: unknown[]
  deprecated?: boolean
  /** The alignment of the kind: a power of two, or `natural`. */
  align?: number | 'natural'
  [keyword: string]: unknown
}

/** Members by name; or as pairs in order, needed if a name looks like a number, since JavaScript puts those first. */
export type Members = Record<string, Kind<any>> | readonly (readonly [string, Kind<any>])[]

type Flat<T> = { [K in keyof T]: T[K] } & {}
type OptionalNames<M> = { [K in keyof M]: M[K] extends { '~optional': true } ? K : never }[keyof M]

/** The object type with these members, in JSON and in records. */
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

/** Sets a property that TypeBox looks up but JSON does not show. */
const hidden = (schema: object, name: string, value: unknown): void => {
  Object.defineProperty(schema, name, { value, configurable: true, writable: true })
}

/** Creates a kind: its JSON, and a check for TypeBox beyond the standard keywords. */
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
/** One byte, 0 or 1. */
export const Boolean = scalar<boolean>('boolean', 'Boolean')
/** An RFC 3339 time with nanoseconds. */
export const Timestamp = scalar<string, bigint, BigInt64Array>('string', 'Timestamp', { format: 'date-time' })
/** A string, stored in the heap. */
export const Text = scalar<string>('string', 'String')
/** A byte string, stored in the heap; base64 in JSON. */
export const Bytes = scalar<string, Uint8Array>('string', 'Bytes', { contentEncoding: 'base64' })

/** One of several strings, stored as its index in this list. */
export const Enum = <const V extends string>(values: readonly V[], options?: Options): RowKind<V> =>
  kind({ type: 'string', enum: [...values], 'TypeDef:Enum': true }, options)

/** A JSON object with any names, stored in the heap. Its values are plain JSON. */
export const Record = <K extends object = Kind<unknown>>(
  values?: K, options?: Options,
): RowKind<{ [name: string]: StaticJson<K> }> =>
  kind({ type: 'object', additionalProperties: values ?? true, 'TypeDef:Record': true }, options)

/** Any number of elements, stored in the heap; at the top of a file's schema, a dataset of records. */
export const Array = <K extends Kind<any>>(items: K, options?: Options): RowKind<StaticJson<K>[], ArrayOf<K>> =>
  kind({ type: 'array', items, 'TypeDef:Array': true }, options)

/** A fixed number of consecutive elements. */
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

/** Returns the kind with further options. */
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
  // JavaScript puts names that are numbers first, wherever they were written.
  if (!globalThis.Array.isArray(given) && names.some((name) => /^(0|[1-9]\d*)$/.test(name))) {
    throw new TypeError(`the order of \`${names.join('`, `')}\` is lost: give members as pairs`)
  }
  return [names, properties, required]
}

/** Members in the given order, stored one after the other. */
export function Struct<const M extends Members>(given: M, options?: Options): RowKind<ObjectOf<M>, RowOf<M>> {
  const [names, properties, required] = members(given)
  return kind({ type: 'object', 'TypeDef:Struct': names, properties, required }, options)
}

/** One of several structs; the member `discriminator` in JSON selects it. */
export const Union = <D extends string, const V extends globalThis.Record<string, Kind<any>>>(
  discriminator: D, mapping: V, options?: Options,
): RowKind<
  { [K in keyof V]: Flat<{ [P in D]: K } & StaticJson<V[K]>> }[keyof V],
  { [K in keyof V]: Flat<{ [P in D]: K } & Static<V[K]>> }[keyof V]
> =>
  kind({ type: 'object', 'TypeDef:Union': { discriminator }, mapping }, options)

/** Names of element types of tensors, as in safetensors. */
export type DType =
  | 'F64' | 'F32' | 'F16' | 'BF16' | 'F8_E4M3' | 'F8_E5M2' | 'F8_E8M0' | 'F8_E4M3FNUZ' | 'F8_E5M2FNUZ'
  | 'F6_E2M3' | 'F6_E3M2' | 'F4' | 'C64' | 'I64' | 'I32' | 'I16' | 'I8' | 'U64' | 'U32' | 'U16' | 'U8' | 'BOOL'

/** A dimension: a fixed size, any size (`null`), or a symbol with the same size in the whole file. */
export type Dim = number | null | string

/** A reference to a tensor, as in a header. */
export interface TensorRef {
  dtype: string
  shape: number[]
  data_offsets: [number, number]
}

/** A reference to a blob, as in a header. */
export interface BlobRef {
  entries: { count: number; data_offsets: [number, number] }
  blob_data: TensorRef
}

/** The elements of a tensor in a record, row-major: booleans as bytes, complex numbers as pairs of floats. */
type ElementsOf<D> =
  D extends 'F64' ? Float64Array : D extends 'I64' ? BigInt64Array : D extends 'U64' ? BigUint64Array : D extends 'I32' ? Int32Array
  : D extends 'U32' ? Uint32Array : D extends 'I16' ? Int16Array : D extends 'U16' ? Uint16Array : D extends 'I8' ? Int8Array
  : D extends 'U8' | 'BOOL' ? Uint8Array : D extends DType ? Float32Array : unknown

/**
 * Elements in row-major order: a reference, or, inside a record, the elements themselves. For a reference, `dtype`
 * may list several allowed types.
 */
export const Tensor = <const D extends DType | readonly DType[] | null = null>(
  of: { dtype?: D; shape?: readonly Dim[] | null } = {}, options?: Options,
): RowKind<TensorRef, ElementsOf<D>> => kind({ type: 'object', 'TypeDef:Tensor': { ...of } }, options)

/** A blob of runs; only as a reference. */
export const Blob = (
  content: 'utf-8' | 'bytes' | 'json' | DType, options?: Options,
): RowKind<BlobRef> => kind({ type: 'object', 'TypeDef:Blob': { content } }, options)

/** An object of references or plain JSON: the top of a file's schema. */
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
 * A TypeScript type that `holdall-ts-to-schema` converts to a kind. Every `T` is assignable to it; the brand does not
 * exist at run time.
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
/** A fixed number of consecutive elements, equivalent to a tuple. */
export type FixedArray<T, N extends number> = Branded<T[], 'FixedArray', N>
/** The base of records: `interface Photo extends Struct { … }`. Inside a record every object is a struct. */
export interface Struct {
  readonly '~kind'?: 'Struct'
}
export type Tensor<D extends DType | null = null, S extends readonly Dim[] | null = null> =
  Branded<TensorRef, 'Tensor', { dtype: D; shape: S }>
export type Blob<C extends 'utf-8' | 'bytes' | 'json' | DType> = Branded<BlobRef, 'Blob', { content: C }>
