// Measures the package in `dist` against what others read the same with: `cargo xtask js-bench`. A word chooses cases whose names
// have it, `--rounds N` how often each is measured, `--write` writes docs/benchmarks-javascript.md.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { cpus, release, type } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { gguf } from '@huggingface/gguf'
import { parseSafetensorsMetadata } from '@huggingface/hub'
import * as arrow from 'apache-arrow'
import * as fzstd from 'fzstd'
import { open, toBytes } from '../dist/index.js'
import * as s from '../dist/schema/index.js'

const here = dirname(fileURLToPath(import.meta.url))
const root = join(here, '../..')
const folder = join(root, 'target/js-bench')
const { values: given, positionals: [word = ''] } = parseArgs({
  allowPositionals: true, options: { rounds: { type: 'string', default: '7' }, write: { type: 'boolean', default: false } },
})
const rounds = Number(given.rounds)
if (!(rounds >= 1)) throw new Error('--rounds takes a number')
if (given.write && word !== '') throw new Error('--write makes the page of all cases: leave the word out')
mkdirSync(folder, { recursive: true })

/** What a peer is given in place of a server: ranges of bytes in memory. */
function served(bytes) {
  const asked = { count: 0 }
  const fetch = async (_, init = {}) => {
    asked.count++
    const headers = new Headers(init.headers)
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(headers.get('range') ?? '') ?? []
    const etag = { etag: '"1"', 'accept-ranges': 'bytes' }
    if (from === undefined) {
      return new Response(init.method === 'HEAD' ? null : bytes, { headers: { ...etag, 'content-length': String(bytes.length) } })
    }
    const part = bytes.subarray(Number(from), to === '' ? undefined : Number(to) + 1)
    return new Response(part, { status: 206, headers: {
      ...etag, 'content-length': String(part.length),
      'content-range': `bytes ${from}-${Number(from) + part.length - 1}/${bytes.length}`,
    } })
  }
  return { fetch, asked }
}

const MANY = 51_000
const manyTensors = () => {
  const data = new Float32Array(16)
  const names = Array.from({ length: MANY }, (_, n) => `model.layers.${Math.floor(n / 51)}.block_${n % 51}.weight`)
  return Object.fromEntries(names.map((name) => [name, { data, shape: [4, 4] }]))
}
/** Looks at all that a list shows. */
const listed = (tensors) => {
  let sum = 0
  for (const { name, dtype, shape } of tensors) sum += name.length + dtype.length + shape.length
  if (sum === 0) throw new Error('nothing is listed')
}
const sameCount = (count) => {
  if (count !== MANY) throw new Error(`${count} tensors`)
}

const CASES = [
  {
    name: 'list safetensors', says: '51,000 tensors opened by ranges and listed: names, types, shapes.', goal: 3,
    async make() {
      const bytes = await toBytes(manyTensors(), { format: 'safetensors' })
      const { fetch } = served(bytes)
      const url = 'https://example.com/model.safetensors'
      return {
        async holdall() {
          const file = await open(url, { fetch })
          listed(file.tensors)
          sameCount(file.length)
        },
        async '@huggingface/hub'() {
          const { header } = await parseSafetensorsMetadata({ repo: 'a/b', path: 'model.safetensors', fetch })
          const tensors = Object.entries(header).filter(([name]) => name !== '__metadata__')
          listed(tensors.map(([name, { dtype, shape }]) => ({ name, dtype, shape })))
          sameCount(tensors.length)
        },
      }
    },
  },
  {
    name: 'list gguf', says: '51,000 tensors opened by ranges and listed: names, types, shapes.', goal: 3,
    async make() {
      const bytes = await toBytes(manyTensors(), { format: 'gguf' })
      const { fetch } = served(bytes)
      const url = 'https://example.com/model.gguf'
      return {
        async holdall() {
          const file = await open(url, { fetch })
          listed(file.tensors)
          sameCount(file.length)
        },
        async '@huggingface/gguf'() {
          const { tensorInfos } = await gguf(url, { fetch })
          listed(tensorInfos.map(({ name, dtype, shape }) => ({ name, dtype: String(dtype), shape })))
          sameCount(tensorInfos.length)
        },
      }
    },
  },
  {
    name: 'one field', says: 'One float of each of a million records of 40 bytes, as a typed array.', goal: 0.8,
    async make() {
      const people = await records()
      const tensor = (await open(people)).tensor('people')
      const rows = await tensor.records()
      const outline = { stride: 0, offset: 0 }
      const data = await tensor.bytes()
      outline.stride = data.length / rows.length
      const wanted = rows.column('at.lon')
      const view = new DataView(data.buffer, data.byteOffset, data.length)
      while (view.getFloat64(outline.offset, true) !== wanted[0] || view.getFloat64(outline.offset + outline.stride, true) !== wanted[1]) outline.offset += 8
      return {
        holdall() {
          if (rows.column('at.lon')[999_999] !== wanted[999_999]) throw new Error('another')
        },
        'DataView loop'() {
          const { stride, offset } = outline
          const out = new Float64Array(rows.length)
          for (let n = 0, at = offset; n < out.length; n++, at += stride) out[n] = view.getFloat64(at, true)
          if (out[999_999] !== wanted[999_999]) throw new Error('another')
        },
      }
    },
  },
  {
    name: 'text column', says: 'A million texts of 4 to 20 characters, as strings, of a column that nobody read before. A dictionary of apache-arrow that was read before keeps its texts: it makes none, and is not compared with.', goal: 1,
    async make() {
      const rows = await (await open(await records())).tensor('people').records()
      const names = rows.column('name')
      const dictionary = arrow.tableToIPC(arrow.tableFromArrays({ name: names }))
      const table = arrow.tableFromIPC(dictionary)
      // Without its dictionary, as records have none.
      const plain = arrow.vectorFromArray(names, new arrow.Utf8())
      const own = arrow.tableToIPC(new arrow.Table({ name: plain }))
      const check = (found) => {
        if (found.length !== names.length || found[77_777] !== names[77_777]) throw new Error('another')
      }
      return {
        holdall: () => check(rows.column('name')),
        'apache-arrow': () => check([...arrow.tableFromIPC(own).getChild('name').toArray()]),
        'apache-arrow, dictionary': () => check([...arrow.tableFromIPC(dictionary).getChild('name').toArray()]),
        'apache-arrow, dictionary (read before)': () => check([...table.getChild('name').toArray()]),
      }
    },
  },
  {
    name: 'zstd', says: 'A tensor of 32 MiB of weights in one compressed component, as bytes.', goal: 1.5,
    async make() {
      const raw = join(folder, 'raw.zt')
      const packed = join(folder, 'packed.zt')
      const data = new Uint16Array(16 << 20)
      let seed = 1
      for (let n = 0; n < data.length; n++) {
        seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
        // Exponents of weights are few, what follows them is noise.
        data[n] = ((seed >>> 31) << 15) | ((118 + (seed >>> 28) % 6) << 7) | ((seed >>> 16) & 0x7f)
      }
      writeFileSync(raw, await toBytes({ weight: { data, dtype: 'bf16', shape: [4096, 4096] } }, { format: 'ztensor' }))
      const command = ['release', 'debug'].map((kind) => join(root, `target/${kind}/holdall`)).find((path) => existsSync(path))
      if (command === undefined) return `the command is not built, which packs the file: cargo build --bin holdall`
      execFileSync(command, ['convert', raw, packed, '--encoding', 'zstd', '-f', '-q'])
      const file = await open(new Uint8Array(readFileSync(packed)))
      const tensor = file.tensor('weight')
      const { offset, storedLen, encoding } = tensor.components[0]
      if (encoding !== 'zstd') throw new Error(encoding)
      const stored = new Uint8Array(readFileSync(packed)).subarray(offset, offset + storedLen)
      const check = (bytes) => {
        if (bytes.length !== 32 << 20 || bytes[12_345] !== new Uint8Array(data.buffer)[12_345]) throw new Error('another')
      }
      return {
        holdall: async () => check(await tensor.bytes({ check: false })),
        fzstd: () => check(fzstd.decompress(stored)),
      }
    },
  },
]

/** What has no peer, but a bound: a number, how it is written, and whether that is the least or the most that is wanted. */
const BOUNDS = [
  {
    name: 'module', says: 'kB of `holdall-basic.wasm` that a page fetches first, by gzip.', most: 400,
    measure: () => execFileSync('gzip', ['-9', '--stdout', join(here, '../dist/holdall-basic.wasm')]).length / 1000,
  },
  ...['safetensors', 'gguf', 'metatensor', 'ztensor'].flatMap((format) => [1000, MANY].map((count) => ({
    name: `requests ${format} ${count}`, says: `Requests to open a file of ${count.toLocaleString('en')} tensors at an address: ${format}.`, most: 2,
    async measure() {
      const tensors = Object.fromEntries(Object.entries(manyTensors()).slice(0, count))
      const { fetch, asked } = served(await toBytes(tensors, { format }))
      await open(`https://example.com/model.${format}`, { fetch })
      return asked.count
    },
  }))),
  {
    name: 'viewer first tensor', says: 'Seconds in Chromium from choosing a file of 12 GB until its tensor is drawn.', most: 0.3,
    measure: () => inViewer(async (tab) => {
      await tab.evaluate(() => {
        const { click } = HTMLInputElement.prototype
        HTMLInputElement.prototype.click = function () {
          this.addEventListener('change', () => { window.chosen = performance.now() }, true)
          click.call(this)
        }
        new MutationObserver(() => {
          if (document.querySelector('.legend span')?.textContent) window.drawn ??= performance.now()
        }).observe(document.body, { subtree: true, childList: true, characterData: true })
      })
      return async () => (await tab.evaluate(() => window.drawn - window.chosen)) / 1000
    }),
  },
  {
    name: 'viewer scroll', says: 'Frames a second in Chromium while its heat map is scrolled, 300 lines a frame, for three seconds.', least: 30,
    measure: () => inViewer(async (tab) => () => tab.evaluate(() => new Promise((done) => {
      const port = document.querySelector('.port')
      const start = performance.now()
      let frames = 0
      const step = () => {
        port.scrollTop += 300
        const passed = performance.now() - start
        if (passed < 3000) requestAnimationFrame(step, frames++)
        else done(frames / passed * 1000)
      }
      requestAnimationFrame(step)
    }))),
  },
]

/** The measurements in the page once a file of 12 GB is chosen whose tensor is shown: `prepare` is called before. */
async function inViewer(prepare) {
  const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path))
  if (executablePath === undefined) return 'there is no Chromium'
  const { chromium } = await import('playwright-core')
  const path = join(folder, 'large.safetensors')
  const shape = [366_210, 8192]
  const header = Buffer.from(JSON.stringify({ big: { dtype: 'F32', shape, data_offsets: [0, shape[0] * shape[1] * 4] } }))
  const head = Buffer.alloc(8)
  head.writeBigUInt64LE(BigInt(header.length))
  writeFileSync(path, Buffer.concat([head, header]))
  // Zeros that take no room.
  truncateSync(path, 8 + header.length + shape[0] * shape[1] * 4)
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
  try {
    const tab = await browser.newPage({ viewport: { width: 1200, height: 900 } })
    await tab.goto(`${pathToFileURL(join(here, '../dist/viewer/index.html'))}#t=big`)
    await tab.waitForTimeout(1000)
    const measure = await prepare(tab)
    const [chooser] = await Promise.all([tab.waitForEvent('filechooser'), tab.click('header >> text=Open…')])
    await chooser.setFiles(path)
    await tab.waitForFunction(() => document.querySelector('.legend span')?.textContent)
    return await measure()
  } finally {
    await browser.close()
    rmSync(path)
  }
}

let madeRecords
async function records() {
  if (madeRecords !== undefined) return madeRecords
  const Person = s.toSchema(s.Struct({ id: s.Uint64(), name: s.Text(), at: s.Struct({ lat: s.Float64(), lon: s.Float64() }) }))
  const list = function* () {
    for (let n = 0; n < 1_000_000; n++) yield `{"id":${n},"name":"name ${n % 7 === 0 ? `of é ${n}` : n}","at":{"lat":${n / 8},"lon":${-n / 4}}}`
  }
  madeRecords = await toBytes({ people: { records: list(), schema: Person } }, { format: 'metatensor' })
  return madeRecords
}

const median = (times) => [...times].sort((a, b) => a - b)[times.length >> 1]
const ms = (x) => `${x.toFixed(x < 10 ? 2 : 1)} ms`
const out = []
for (const { name, says, goal, make } of CASES.filter((one) => one.name.includes(word))) {
  const contestants = await make()
  if (typeof contestants === 'string') {
    console.error(`${name}: skipped, for ${contestants}`)
    continue
  }
  const times = Object.fromEntries(Object.keys(contestants).map((who) => [who, []]))
  for (let round = -1; round < rounds; round++) {
    for (const [who, run] of Object.entries(contestants)) {
      globalThis.gc?.()
      const start = performance.now()
      await run()
      if (round >= 0) times[who].push(performance.now() - start)
    }
  }
  const own = median(times.holdall)
  const others = Object.entries(times).filter(([who]) => who !== 'holdall').map(([who, all]) => [who, median(all)])
  const [fastest, best] = others.filter(([who]) => !who.endsWith('(read before)')).reduce((a, b) => (b[1] < a[1] ? b : a))
  const ratio = best / own
  out.push({ name, says, goal, times, fastest, ratio })
  console.error(`${name}: ${ms(own)}; ${others.map(([who, time]) => `${who} ${ms(time)}`).join('; ')}; ${ratio.toFixed(2)} × ${fastest}, wanted ${goal}`)
}

const bounds = []
for (const { name, says, most, least, measure } of BOUNDS.filter((one) => one.name.includes(word))) {
  const found = []
  for (let round = 0; round < (name.startsWith('viewer') ? Math.min(rounds, 5) : 1); round++) found.push(await measure())
  if (typeof found[0] === 'string') {
    console.error(`${name}: skipped, for ${found[0]}`)
    continue
  }
  const value = median(found)
  const wanted = most === undefined ? `${least} or more` : `${most} or less`
  const isMet = most === undefined ? value >= least : value <= most
  bounds.push({ says, wanted, value: value.toFixed(value < 10 && !Number.isInteger(value) ? 2 : 0), isMet })
  console.error(`${name}: ${value.toFixed(2)}, wanted ${wanted}`)
}

if (given.write) {
  const { dependencies } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'))
  const lines = [
    '# Benchmarks of the JavaScript package', '',
    'Written by `cargo xtask js-bench --write`; do not edit.', '',
    'Contestants of a case run one after the other, round after round, in one process. What is on a server is given by a `fetch` that has',
    'the bytes in memory. Times are medians; × is how much faster Holdall is than the fastest of the others.', '',
    `${rounds} rounds after a warm-up, ${type()} ${release()}, ${cpus().length} cores, Node ${process.versions.node}; ` +
      `${Object.entries(dependencies).map((one) => one.join(' ')).join(', ')}.`, '',
    '| case | against | wanted | reached | |', '| --- | --- | ---: | ---: | --- |',
    ...out.map(({ name, goal, fastest, ratio }) =>
      `| ${name} | ${fastest} | ${goal} × | ${ratio.toFixed(2)} × | ${ratio >= goal ? 'met' : '**missed**'} |`),
  ]
  lines.push('', '| bound | wanted | reached | |', '| --- | ---: | ---: | --- |',
    ...bounds.map(({ says, wanted, value, isMet }) => `| ${says.slice(0, -1)} | ${wanted} | ${value} | ${isMet ? 'met' : '**missed**'} |`))
  for (const { name, says, times } of out) {
    lines.push('', `## ${name}`, '', says, '', '| | median | min .. max |', '| --- | ---: | ---: |')
    for (const [who, all] of Object.entries(times)) {
      lines.push(`| ${who === 'holdall' ? '**holdall**' : who} | ${ms(median(all))} | ${ms(Math.min(...all))} .. ${ms(Math.max(...all))} |`)
    }
  }
  writeFileSync(join(root, 'docs/benchmarks-javascript.md'), `${lines.join('\n')}\n`)
}
