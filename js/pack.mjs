// Packs the package as npm would, installs it into an empty project of each kind, and reads a file there: `cargo xtask js-pack`.
// Arguments name the kinds; without any it is all of them.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The packages that are installed next to this one. */
const VERSIONS = {
  vite: 'vite@8.3.8', webpack: 'webpack@5.112.2', cli: 'webpack-cli@7.3.1', esbuild: 'esbuild@0.28.2', deno: 'deno@2.9.6',
  bun: 'bun@1.4.5', typescript: 'typescript@5.9.3', publint: 'publint@0.3.25', attw: '@arethetypeswrong/cli@0.18.5',
}
const SAYS = 'safetensors 1 sound'

const here = dirname(fileURLToPath(import.meta.url))
const sample = join(here, '../corpus/accept/safetensors/st_fp8.safetensors')
const scratch = mkdtempSync(join(tmpdir(), 'holdall-pack-'))

/** Runs a program of a project, and gives what it printed. */
function run(folder, program, ...args) {
  const own = join(folder, 'node_modules/.bin', program)
  try {
    return execFileSync(existsSync(own) ? own : program, args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()
  } catch (e) {
    throw new Error(`${program} ${args.join(' ')} failed\n${e.stdout ?? ''}${e.stderr ?? e.message}`)
  }
}

/** A project with the package and others in it. */
function project(name, others, files) {
  const folder = join(scratch, name)
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: `try-${name}`, private: true, type: 'module' }))
  run(folder, 'npm', 'install', '--no-audit', '--no-fund', packed, ...others)
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  copyFileSync(sample, join(folder, 'sample.safetensors'))
  return folder
}

const expect = (found, wanted = SAYS) => {
  if (!found.split('\n').includes(wanted)) throw new Error(`it says \`${found}\`, not \`${wanted}\``)
}

/** Reads the file of the project from the disk. */
const program = `import { open } from 'holdall'
const file = await open('sample.safetensors')
const [tensor] = file.tensors
if ((await tensor.array({ as: 'f32' })).length !== tensor.count) throw new Error('not all of it')
console.log(file.format, file.formatName === '' ? 0 : 1, (await file.verify()).verdict)
await file.close()
`
/** Reads it from where the page comes from. */
const page = (from) => `import { open } from '${from}'
try {
  const file = await open(new URL('/sample.safetensors', location.href))
  document.title = [file.format, (await file.tensors[0].array()).length > 0 ? 1 : 0, (await file.verify()).verdict].join(' ')
} catch (e) {
  document.title = String(e)
}
`
const html = '<!doctype html><meta charset="utf-8"><title></title><script type="module" src="./main.js"></script>'

/** Opens what a bundler made in a browser, and gives what the page calls itself. */
async function shown(folder) {
  const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path))
  if (executablePath === undefined) throw new Error('there is no Chromium')
  const { chromium } = await import('playwright-core')
  const types = { '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm' }
  const server = createServer((request, answer) => {
    const name = decodeURIComponent(request.url.split('?')[0])
    const path = name === '/sample.safetensors' ? sample : join(folder, name === '/' ? 'index.html' : name)
    if (!existsSync(path)) return answer.writeHead(404).end()
    const bytes = readFileSync(path)
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? []
    const type = { 'content-type': types[extname(path)] ?? 'application/octet-stream' }
    if (from === undefined) return answer.writeHead(200, type).end(bytes)
    const part = bytes.subarray(Number(from), Number(to) + 1)
    answer.writeHead(206, { ...type, 'content-range': `bytes ${from}-${Number(from) + part.length - 1}/${bytes.length}` }).end(part)
  })
  await new Promise((done) => server.listen(0, '127.0.0.1', done))
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
  try {
    const tab = await browser.newPage()
    await tab.goto(`http://127.0.0.1:${server.address().port}/`)
    await tab.waitForFunction(() => document.title !== '')
    return await tab.title()
  } finally {
    await browser.close()
    server.closeAllConnections()
    server.close()
  }
}

/** Where a bundler put the modules of WebAssembly. */
function wasmIn(folder) {
  const found = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.wasm'))
  if (found.length !== 2) throw new Error(`${found.length} modules of WebAssembly in ${folder}`)
}

const KINDS = {
  node() {
    const folder = project('node', [], { 'main.js': program })
    expect(run(folder, 'node', 'main.js'))
    expect(run(folder, 'node_modules/.bin/holdall-ts-to-schema', '--help').split('\n')[0], 'holdall-ts-to-schema FILE.ts [--type NAME] [--record] [-o OUT.json]')
  },
  types() {
    const text = `import { open, type Tensor } from 'holdall'
import * as s from 'holdall/schema'
import { stats } from 'holdall/reports'
const Photo = s.Struct({ id: s.Uint32() })
type Photo = s.Static<typeof Photo>
export async function first(path: string): Promise<Float32Array> {
  const tensor: Tensor = (await open(path)).tensors[0]!
  await stats(tensor)
  const photo: Photo = { id: 1 }
  // @ts-expect-error an id is a number
  const wrong: Photo = { id: 'x' }
  return [photo, wrong].length > 1 ? tensor.array({ as: 'f32' }) : new Float32Array(0)
}
`
    const folder = project('types', [VERSIONS.typescript], { 'main.ts': text })
    const common = ['--strict', '--noEmit', '--target', 'es2022', '--lib', 'es2022,dom,esnext.disposable']
    for (const module of [['nodenext', 'nodenext'], ['esnext', 'bundler']]) {
      run(folder, 'tsc', ...common, '--module', module[0], '--moduleResolution', module[1], 'main.ts')
    }
  },
  async esbuild() {
    const folder = project('esbuild', [VERSIONS.esbuild], { 'src/main.js': page('holdall/inline'), 'out/index.html': html })
    run(folder, 'esbuild', 'src/main.js', '--bundle', '--minify', '--format=esm', '--target=es2022', '--outfile=out/main.js')
    expect(await shown(join(folder, 'out')))
  },
  async vite() {
    const folder = project('vite', [VERSIONS.vite], { 'main.js': page('holdall'), 'index.html': html })
    run(folder, 'vite', 'build', '--target', 'es2022')
    wasmIn(join(folder, 'dist'))
    expect(await shown(join(folder, 'dist')))
  },
  async webpack() {
    const folder = project('webpack', [VERSIONS.webpack, VERSIONS.cli], {
      'src/main.js': page('holdall'), 'dist/index.html': html.replace('main.js', 'main.js'),
      'webpack.config.js': `export default { entry: './src/main.js', mode: 'production', output: { filename: 'main.js' }, performance: { hints: false } }\n`,
    })
    run(folder, 'webpack')
    wasmIn(join(folder, 'dist'))
    expect(await shown(join(folder, 'dist')))
  },
  deno() {
    const folder = project('deno', [VERSIONS.deno], { 'main.js': program })
    expect(run(folder, 'deno', 'run', '--no-prompt', '--allow-read=.', '--node-modules-dir=manual', 'main.js'))
  },
  bun() {
    const folder = project('bun', [VERSIONS.bun], { 'main.js': program })
    expect(run(folder, 'bun', 'main.js'))
  },
  publint() {
    const folder = project('publint', [VERSIONS.publint], {})
    run(folder, 'publint', 'run', '--strict', packed)
  },
  attw() {
    const folder = project('attw', [VERSIONS.attw], {})
    // A WebAssembly module has no types.
    run(folder, 'attw', packed, '--profile', 'esm-only', '--exclude-entrypoints', './holdall.wasm', './holdall-basic.wasm')
  },
}

const wanted = process.argv.slice(2)
const unknown = wanted.find((name) => !Object.hasOwn(KINDS, name))
if (unknown !== undefined) throw new Error(`there is no kind \`${unknown}\`: ${Object.keys(KINDS).join(', ')}`)
let failed = 0
const packed = join(scratch, JSON.parse(run(here, 'npm', 'pack', '--json', '--pack-destination', scratch))[0].filename)
try {
  for (const name of wanted.length > 0 ? wanted : Object.keys(KINDS)) {
    try {
      await KINDS[name]()
      console.error(`${name}: reads a file, or finds nothing wrong`)
    } catch (e) {
      failed++
      console.error(`${name}: ${e.message}`)
    }
  }
} finally {
  rmSync(scratch, { recursive: true })
}
process.exitCode = failed > 0 ? 1 : 0
