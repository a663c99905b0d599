/**
 * The kinds for `@sinclair/typebox` 0.34, which knows them by `Kind` and `TypeRegistry`.
 *
 * @module
 */
import { Kind, OptionalKind, TypeRegistry, type TSchema } from '@sinclair/typebox'
import { fits, keeps, kindOf } from './fits.js'
import type { Kind as AnyKind, StaticJson } from './kinds.js'

export { SchemaError, toSchema } from './to-schema.js'

/** A kind as a type of TypeBox 0.34. */
export type TKind<T> = TSchema & { [Kind]: string; static: T }

/** Where types of TypeBox are looked up by their names. */
type Registry = Pick<typeof TypeRegistry, 'Has' | 'Set'>

/** Whether a value is one of a kind with all the keywords beside it. */
type Check = (schema: unknown, value: unknown) => boolean

/**
 * The registries of all copies of TypeBox that there may be, and the kinds in them. A program may have several copies of TypeBox, and of
 * this package: npm links a folder that is installed, packages that depend on others have their own, and each copy has one form for
 * `import` and another for `require`. Types of one stand in objects of another, so that all copies of this package share this.
 */
const shared: { registries: Registry[]; kinds: Map<string, Check> } =
  (globalThis as { [name: symbol]: any })[Symbol.for('holdall.typebox-0.34')] ??= { registries: [], kinds: new Map() }

/** Adds a registry, with all kinds that there are by now. */
function add(registry: Registry): void {
  if (shared.registries.includes(registry)) return
  shared.registries.push(registry)
  for (const [name, check] of shared.kinds) if (!registry.Has(name)) registry.Set(name, check)
}

/** The copies that this package, and the program itself, would get, in Node. */
async function others(): Promise<Registry[]> {
  const { process } = globalThis as { process?: { versions?: { node?: string }; argv: string[]; cwd(): string } }
  if (process?.versions?.node === undefined) return []
  const found: Registry[] = []
  // By names that no bundler looks for.
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
      // There is none.
    }
  }
  return found.filter((one) => typeof one?.Set === 'function')
}

add(TypeRegistry)
for (const one of await others()) add(one)

/**
 * A kind as a type of TypeBox: `Type.Object({ x: type(Float32()) })`. `Value.Check` holds values against the whole kind and the
 * keywords beside it, and JSON shows it as the keyword that it is.
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
    // Of a kind the registry looks at nothing else.
    for (const one of shared.registries) if (!one.Has(name)) one.Set(name, check)
  }
  const own = { ...kind, [Kind]: name } as unknown as Record<symbol, unknown>
  if ('~optional' in kind) own[OptionalKind] = 'Optional'
  return own as never
}
