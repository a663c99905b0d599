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

/**
 * The registries of all copies of TypeBox that there may be: npm links a folder that is installed, and then the program has
 * another copy than this package, in one form for `import` and in another for `require`.
 */
const registries: Registry[] = [TypeRegistry]

/** The copies that the program itself would get, in Node. */
async function others(): Promise<Registry[]> {
  const { process } = globalThis as { process?: { versions?: { node?: string }; argv: string[]; cwd(): string } }
  if (process?.versions?.node === undefined) return []
  const found: Registry[] = []
  // By names that no bundler looks for.
  const [module, url] = ['node:module', 'node:url']
  const { createRequire } = await import(/* @vite-ignore */ /* webpackIgnore: true */ module)
  const { pathToFileURL } = await import(/* @vite-ignore */ /* webpackIgnore: true */ url)
  for (const from of [process.argv[1], `${process.cwd()}/program.js`]) {
    try {
      const path: string = createRequire(pathToFileURL(from)).resolve('@sinclair/typebox')
      for (const one of [path, path.replace(/([\\/])cjs([\\/])index\.js$/, '$1esm$2index.mjs')]) {
        found.push((await import(/* @vite-ignore */ /* webpackIgnore: true */ pathToFileURL(one).href)).TypeRegistry)
      }
    } catch {
      // The program has none.
    }
  }
  return found.filter((one) => typeof one?.Set === 'function')
}

for (const one of await others()) if (!registries.includes(one)) registries.push(one)

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
  for (const one of registries) {
    // Of a kind the registry looks at nothing else.
    if (!one.Has(name)) one.Set(name, (schema: {}, value) => fits(schema, value) && keeps(schema, value))
  }
  const own = { ...kind, [Kind]: name } as unknown as Record<symbol, unknown>
  if ('~optional' in kind) own[OptionalKind] = 'Optional'
  return own as never
}
