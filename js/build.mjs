// Builds `dist` from `src` and the modules of WebAssembly whose paths are given, the whole one and the basic one, and weighs what comes out.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { buildSync } from 'esbuild'

/** Bytes that each part has at most, made small by esbuild and gzip; of the module of WebAssembly `xtask` sees to it. */
const MOST = {
  'index.js': 15_000, 'rows.js': 3_000, 'records.js': 4_000, 'evolve.js': 1_600, 'migrate.js': 2_000, 'plain.js': 4_200, 'links.js': 2_000, 'shards.js': 2_500, 'verify.js': 3_000, 'archive.js': 1_000, 'delta.js': 2_500, 'reports/index.js': 3_650, 'gpu/index.js': 1_500, 'schema/index.js': 5_000, 'jsx/runtime.js': 500, 'jsx/layout.js': 3_000,
}
/** What a part shares with others is weighed there. */
const SHARED = [
  'node:*', '../core.js', '../elements.js', '../errors.js', '../evolve.js', '../file.js', '../http.js', '../limits.js', '../read.js', '../runs.js', '../source.js', '../values.js',
  '../schemas.js', '../shards.js', '../write.js', './links.js', './migrate.js', './plain.js', './records.js', './rows.js', './shards.js', './verify.js', '../schema/kinds.js', '../schema/text.js', '../schema/to-schema.js', './evolve.js',
]

const here = dirname(fileURLToPath(import.meta.url))
const dist = join(here, 'dist')
const [bytes, basic] = ['holdall.wasm', 'holdall-basic.wasm'].map((name, at) => readFileSync(process.argv[2 + at] ?? join(dist, name)))
rmSync(dist, { recursive: true, force: true })
mkdirSync(dist)
execFileSync(process.execPath, [join(here, 'node_modules/typescript/bin/tsc'), '-p', here], { stdio: 'inherit' })
writeFileSync(join(dist, 'holdall.wasm'), bytes)
writeFileSync(join(dist, 'holdall-basic.wasm'), basic)

// The package with the module in it, for bundlers that do not take files along.
const text = bytes.toString('base64')
writeFileSync(join(dist, 'inline.d.ts'), "export * from './index.js'\n")
writeFileSync(join(dist, 'inline.js'), `import { init } from './index.js'
export * from './index.js'
const text = '${text}'
await init(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)))
`)
for (const name of ['LICENSE-MIT', 'LICENSE-APACHE']) {
  if (existsSync(join(here, '..', name))) copyFileSync(join(here, '..', name), join(dist, name))
}

// The page: everything in a few files that a browser also takes from a disk, where it fetches nothing and starts no modules.
const viewer = join(here, 'viewer')
const page = join(dist, 'viewer')
execFileSync(process.execPath, [join(here, 'node_modules/typescript/bin/tsc'), '-p', viewer], { stdio: 'inherit' })
mkdirSync(page)
const script = (name, define = {}) => buildSync({
  entryPoints: [join(viewer, 'src', name)], bundle: true, minify: true, write: false, format: 'iife', platform: 'browser',
  target: 'es2022', charset: 'utf8', define, logLevel: 'error',
}).outputFiles[0].text
const worker = script('worker.ts', { 'import.meta.url': '""' })
writeFileSync(join(page, 'viewer.js'), script('main.ts', { HOLDALL_WORKER: JSON.stringify(worker) }))
writeFileSync(join(page, 'core.js'), `const HOLDALL_CORE='${gzipSync(bytes, { level: 9 }).toString('base64')}'\n`)
copyFileSync(join(viewer, 'viewer.css'), join(page, 'viewer.css'))
const html = readFileSync(join(viewer, 'index.html'), 'utf8')
writeFileSync(join(page, 'index.html'), html.replace('CONNECT', "'none'"))
// Where an address was given: a policy cannot be made wider once a page is there.
writeFileSync(join(page, 'open.html'), html.replace('CONNECT', "'self' https: http:"))

let isTooLarge = false
for (const [name, most] of Object.entries(MOST).filter(([name]) => existsSync(join(dist, name)))) {
  const { outputFiles } = buildSync({
    entryPoints: [join(dist, name)], bundle: true, minify: true, write: false, format: 'esm',
    platform: 'neutral', external: name === 'index.js' ? SHARED : [...SHARED, ...SHARED.map((path) => path.replace('../', './'))], logLevel: 'error',
  })
  const len = gzipSync(outputFiles[0].contents, { level: 9 }).length
  isTooLarge ||= len > most
  console.error(`${name}: ${len} bytes gzipped, at most ${most}`)
}
if (isTooLarge) throw new Error('a part of the package is too large')
