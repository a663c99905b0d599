import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { publint } from 'publint'
import { corpus, root } from './corpus.js'

const js = join(root, 'js')
const file = join(corpus, 'accept/safetensors/st_fp8.safetensors')

/** Runs a program in a folder of its own, and gives what it printed. */
function run(folder: string, text: string): string {
  const path = join(folder, 'program.mjs')
  writeFileSync(path, text)
  return execFileSync(process.execPath, [path], { cwd: folder, encoding: 'utf8' }).trim()
}

/** What npm packs. */
function packed(folder: string): string {
  const args = ['pack', '--json', '--ignore-scripts', '--offline', '--pack-destination', folder]
  const [{ filename }] = JSON.parse(execFileSync('npm', args, { cwd: js, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
  return join(folder, filename)
}

test('publint finds nothing wrong with what npm packs', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdall-'))
  try {
    const bytes = readFileSync(packed(folder))
    const tarball = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer
    const { messages } = await publint({ pack: { tarball }, strict: true })
    assert.deepEqual(messages, [])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('the package is whole: what it exports is in it, and it works where it is installed', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdall-'))
  try {
    const { exports } = JSON.parse(readFileSync(join(js, 'package.json'), 'utf8')) as {
      exports: Record<string, string | Record<string, string>>
    }
    const installed = join(folder, 'node_modules/holdall')
    mkdirSync(installed, { recursive: true })
    execFileSync('tar', ['xzf', packed(folder), '-C', installed, '--strip-components=1'])
    const there = new Set((readdirSync(installed, { recursive: true }) as string[]).map((name) => `./${name}`))
    for (const [name, target] of Object.entries(exports)) {
      for (const path of typeof target === 'string' ? [target] : Object.values(target)) {
        assert.ok(there.has(path), `${name}: there is no ${path}`)
      }
    }
    const open = (from: string) => `import { open } from '${from}'
      const file = await open(${JSON.stringify(file)})
      console.log(file.format, (await file.verify()).verdict)`
    assert.equal(run(folder, open('holdall')), 'safetensors sound')
    assert.equal(run(folder, open('holdall/inline')), 'safetensors sound')
    assert.equal(run(folder, `import { init, open } from 'holdall'
      import { readFile } from 'node:fs/promises'
      await init(new URL('no-such.wasm', import.meta.url)).catch((e) => console.log(e.code))
      await init(await WebAssembly.compile(await readFile(new URL(import.meta.resolve('holdall/holdall.wasm')))))
      console.log((await open(${JSON.stringify(file)})).format)`), 'ENOENT\nsafetensors')
    assert.equal(run(folder, `import * as s from 'holdall/schema'
      console.log(JSON.stringify(s.toSchema(s.Int8())))`), '{"type":"integer","TypeDef:Int8":true}')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('a bundle for browsers needs nothing of Node', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdall-'))
  try {
    await build({
      stdin: { contents: `export { open, fromBytes } from './dist/inline.js'`, resolveDir: js },
      bundle: true, minify: true, format: 'esm', platform: 'browser', target: 'es2022',
      outfile: join(folder, 'bundle.mjs'), logLevel: 'error',
    })
    const url = pathToFileURL(join(folder, 'bundle.mjs')).href
    const printed = run(folder, `import { readFileSync } from 'node:fs'
      const blob = new Blob([readFileSync(${JSON.stringify(file)})])
      // What a browser has not.
      delete globalThis.process
      const { open } = await import('${url}')
      const file = await open(blob)
      console.log(file.format, (await file.tensors[0].array({ as: 'f32' })).length > 0)`)
    assert.equal(printed, 'safetensors true')
  } finally {
    rmSync(folder, { recursive: true })
  }
})
