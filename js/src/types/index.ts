/**
 * Creates Metatensor schemas from TypeScript types, with TypeScript's own compiler, which is looked up near the
 * types. Only for Node.
 *
 * @module
 */
import type ts from 'typescript'
import { nodeModule } from '../core.js'
import { HoldallError } from '../errors.js'
import type { Json } from '../schema/kinds.js'
import { SchemaError, toSchema } from '../schema/to-schema.js'
import { outlineSchema } from '../schemas.js'
import { TypesError, Walk } from './walk.js'

export { TypesError } from './walk.js'

/** Options for creating a schema from types. */
export interface TypesOptions {
  /** The name of the type; by default the default export, or the only exported type. */
  type?: string | undefined
  /** Whether the type is a record even if it does not extend `Struct`. */
  record?: boolean | undefined
  /** A TypeScript program that contains the file, to create many schemas with one program. */
  program?: ts.Program | undefined
}

/** Returns the compiler: that of the project of the types, or the one installed with this package. */
async function compiler(path: string): Promise<typeof ts> {
  const { createRequire } = await nodeModule('node:module')
  for (const from of [path, import.meta.url]) {
    try {
      return createRequire(from)('typescript')
    } catch (e) {
      if ((e as { code?: unknown }).code !== 'MODULE_NOT_FOUND') throw e
    }
  }
  throw new TypesError({ file: path, line: 1, column: 1 },
    'TypeScript is not installed', 'install it: `npm install --save-dev typescript`')
}

/** Creates a program for files, with the `tsconfig.json` nearest to the first. */
export async function programOf(files: readonly string[]): Promise<ts.Program> {
  const paths = await Promise.all(files.map(absolute))
  return program(await compiler(paths[0]!), paths)
}

async function program(ts: typeof import('typescript'), paths: string[]): Promise<ts.Program> {
  const { fileURLToPath } = await nodeModule('node:url')
  const { dirname } = await nodeModule('node:path')
  let options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, lib: ['lib.es2022.d.ts'], types: [],
    // For projects that have not installed this package.
    paths: { 'holdall/schema': [ts.sys.resolvePath(fileURLToPath(new URL('../schema/index.d.ts', import.meta.url)))] },
  }
  const config = ts.findConfigFile(dirname(paths[0]!), ts.sys.fileExists)
  if (config !== undefined) {
    const { config: json } = ts.readConfigFile(config, ts.sys.readFile)
    options = ts.parseJsonConfigFileContent({ ...json, files: [], include: [] }, ts.sys, dirname(config)).options
  }
  return ts.createProgram(paths, {
    ...options, strict: true, noEmit: true, skipLibCheck: true, composite: false, noUnusedLocals: false, noUnusedParameters: false,
  })
}

async function absolute(file: string): Promise<string> {
  return (await nodeModule('node:path')).resolve(file)
}

/**
 * Returns the schema of a type in a TypeScript file. Members have the order in which they are written, those of base
 * interfaces first.
 *
 * @throws TypesError if a type has no Metatensor equivalent, with the location and a suggestion.
 */
export async function schemaOfTypes(
  file: string, options: TypesOptions = {},
): Promise<{ [keyword: string]: Json }> {
  const path = await absolute(file)
  const ts = await compiler(path)
  const all = options.program ?? await program(ts, [path])
  const source = all.getSourceFile(path)
  if (source === undefined) {
    throw new TypesError({ file, line: 1, column: 1 }, 'it cannot be read as TypeScript', 'name a file of types')
  }
  for (const { file, start, messageText } of [...all.getSyntacticDiagnostics(source), ...all.getSemanticDiagnostics(source)]) {
    const { line, character } = (file ?? source).getLineAndCharacterOfPosition(start ?? 0)
    throw new TypesError({ file: (file ?? source).fileName, line: line + 1, column: character + 1 },
      ts.flattenDiagnosticMessageText(messageText, ' '), 'mend what `tsc` refuses')
  }
  const walk = new Walk(ts, all)
  const made = walk.root(source, options.type, options.record === true)
  try {
    const schema = toSchema(made.kind)
    await outlineSchema(schema, { of: made.isRecord ? 'record' : 'file' })
    return schema
  } catch (e) {
    const pointer = e instanceof SchemaError ? e.pointer : /`(\/[^`]*)`|at (\/\S*)/.exec(String((e as Error).message))?.[1] ?? ''
    if (e instanceof SchemaError) throw new TypesError(walk.placed(pointer), e.found, null, e)
    if (e instanceof HoldallError) throw new TypesError(walk.placed(pointer), `${e.found} [${e.code}]`, e.advice, e)
    throw e
  }
}
