/**
 * The kinds for `@sinclair/typebox` 0.34, which identifies types by `Kind` and `TypeRegistry`.
 *
 * @module
 */
import { Kind, OptionalKind, TypeRegistry, type TSchema } from '@sinclair/typebox'
import { fits, keeps, kindOf } from './fits.js'
import type { Kind as AnyKind, StaticJson } from './kinds.js'

export { SchemaError, toSchema } from './to-schema.js'

/** A kind as a TypeBox 0.34 type. */
export type TKind<T> = TSchema & { [Kind]: string; static: T }

/** The registry in which TypeBox looks up types by name. */
type Registry = Pick<typeof TypeRegistry, 'Has' | 'Set'>

/** Returns whether a value fits a kind and all of its keywords. */
type Check = (schema: unknown, value: unknown) => boolean

/**
 * The registries of all loaded copies of TypeBox, and the registered kinds. A program may have several copies of
 * TypeBox and of this package (linked folders, nested dependencies, one each for `import` and `require`), and types
 * of one copy are used in objects of another, so all copies of this package share this object.
 */
const shared: { registries: Registry[]; kinds: Map<string, Check> } =
  (globalThis as { [name: symbol]: any })[Symbol.for('holdall.typebox-0.34')] ??= { registries: [], kinds: new Map() }

/** Adds a registry, and registers all known kinds in it. */
function add(registry: Registry): void {
  if (shared.registries.includes(registry)) return
  shared.registries.push(registry)
  for (const [name, check] of shared.kinds) if (!registry.Has(name)) registry.Set(name, check)
}

/** Returns the copies of TypeBox that this package and the program itself would load in Node. */
async function others(): Promise<Registry[]> {
  const { process } = globalThis as { process?: { versions?: { node?: string }; argv: string[]; cwd(): string } }
  if (process?.versions?.node === undefined) return []
  const found: Registry[] = []
  // In variables, so that bundlers do not resolve the names.
  const [module, url] = ['node:module', 'node:url']
  const { createRequire } = await import(/* @vite-ignore */ /* webpackIgnore: true */ module)
  const { pathToFileURL } = await import(/* @vite-ignore */ /* webpackIgnore: true */ url)
  const program = [process.argv[1], `${process.cwd()}/program.js`].filter((path) => path !== undefined)
  for (const from of [import.meta.url, ...program.map((path) => pathToFileURL(path))]) {
    try {
      const path: string = createRequire(from).resolve('@sinclair/typebox')
      for (const one of [path, path.replace(/([\\/])cjs([\\/])index\.js$/, '$1esm$2index.mjs')]) {
        found.push((await import(/* @vite-ignore */ /* webpackIgnore: true */ pathToFileURL(one).href)).TypeRegistry)
      }
    } catch {
      // TypeBox is not installed there.
    }
  }
  return found.filter((one) => typeof one?.Set === 'function')
}

add(TypeRegistry)
for (const one of await others()) add(one)

/**
 * Returns a kind as a TypeBox type: `Type.Object({ x: type(Float32()) })`. `Value.Check` checks values against the
 * kind and its keywords, and its JSON form is the keyword itself.
 */
export function type<K extends AnyKind<any>>(
  kind: K,
): K extends { '~optional': true }
  ? TKind<StaticJson<K>> & { [OptionalKind]: 'Optional' }
  : TKind<StaticJson<K>> {
  const name = kindOf(kind as unknown as Record<string, unknown>)
  if (name === undefined) throw new TypeError('a schema without a kind is a type of TypeBox itself')
  if (!shared.kinds.has(name)) {
    const check: Check = (schema, value) => fits(schema as {}, value) && keeps(schema as {}, value)
    shared.kinds.set(name, check)
    // For a registered kind, TypeBox only calls its check.
    for (const one of shared.registries) if (!one.Has(name)) one.Set(name, check)
  }
  const own = { ...kind, [Kind]: name } as unknown as Record<symbol, unknown>
  if ('~optional' in kind) own[OptionalKind] = 'Optional'
  return own as never
}
