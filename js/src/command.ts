#!/usr/bin/env node
import { nodeModule } from './core.js'
import { schemaOfTypes, TypesError } from './types/index.js'

const USAGE = `holdall-ts-to-schema FILE.ts [--type NAME] [--record] [-o OUT.json]

Makes a schema of Metatensor of a type in a file of TypeScript, and prints it.

  --type NAME  the type; without it the default export, or the only one that is exported
  --record     the type is a record, though it does not extend Struct
  -o OUT.json  writes a file in place of printing
`

/**
 * Runs the command and returns its exit status: 1 if the types are not valid Metatensor, 2 for wrong usage, 3 for
 * system errors.
 */
async function run(args: string[]): Promise<number> {
  const { parseArgs } = await nodeModule('node:util')
  const { writeFile, access } = await nodeModule('node:fs/promises')
  const wrong = (text: string): number => (console.error(`error: ${text}\n\n${USAGE}`), 2)
  let given
  try {
    given = parseArgs({
      args, allowPositionals: true,
      options: {
        type: { type: 'string' }, record: { type: 'boolean' }, output: { type: 'string', short: 'o' },
        help: { type: 'boolean', short: 'h' },
      },
    })
  } catch (e) {
    return wrong((e as Error).message)
  }
  const { values, positionals: [file, ...others] } = given
  if (values.help === true) return console.log(USAGE), 0
  if (file === undefined || others.length > 0) return wrong('name one file of types')
  try {
    await access(file)
    const text = `${JSON.stringify(await schemaOfTypes(file, values), null, 2)}\n`
    if (values.output === undefined) console.log(text.trimEnd())
    else await writeFile(values.output, text)
    return 0
  } catch (e) {
    console.error(`error: ${(e as Error).message}`)
    return e instanceof TypesError ? 1 : 3
  }
}

const { default: process } = await nodeModule('node:process')
process.exitCode = await run(process.argv.slice(2))
