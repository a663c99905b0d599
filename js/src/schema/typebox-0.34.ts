/**
 * The kinds for `@sinclair/typebox` 0.34, which knows them by `Kind` and `TypeRegistry`.
 *
 * @module
 */
import { Kind, OptionalKind, TypeRegistry, type TSchema } from '@sinclair/typebox'
import { fits, kindOf } from './fits.js'
import type { Kind as AnyKind, Static } from './kinds.js'

export { SchemaError, toSchema } from './to-schema.js'

/** A kind as a type of TypeBox 0.34. */
export type TKind<T> = TSchema & { [Kind]: string; static: T }

/**
 * A kind as a type of TypeBox: `Type.Object({ x: type(Float32()) })`. `Value.Check` holds values against the whole kind, and
 * JSON shows it as the keyword that it is.
 */
export function type<K extends AnyKind<any>>(
  kind: K,
): K extends { '~optional': true }
  ? TKind<Static<K>> & { [OptionalKind]: 'Optional' }
  : TKind<Static<K>> {
  const name = kindOf(kind as unknown as Record<string, unknown>)
  if (name === undefined) throw new TypeError('a schema without a kind is a type of TypeBox itself')
  if (!TypeRegistry.Has(name)) TypeRegistry.Set(name, fits)
  const own = { ...kind, [Kind]: name } as unknown as Record<symbol, unknown>
  if ('~optional' in kind) own[OptionalKind] = 'Optional'
  return own as never
}
