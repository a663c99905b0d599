// Makes the pictures of the viewer in `docs/images`, from files that it writes itself: `cargo xtask js-images`. A folder says where else they go.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { chromium } from 'playwright-core'
import { toBytes } from './dist/index.js'

const here = dirname(fileURLToPath(import.meta.url))
const root = join(here, '..')
const out = process.argv[2] ?? join(root, 'docs/images')
const page = pathToFileURL(join(here, 'dist/viewer/index.html')).href
const command = join(root, 'target/debug/holdall')
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path))
if (executablePath === undefined) throw new Error('there is no Chromium')

let seed = 1
const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32
const noise = () => random() + random() + random() - 1.5

/** A matrix of bf16: noise, and in it what `of` says. */
function matrix(shape, of, loud = 0.008) {
  const [rows, columns] = shape
  const data = new Uint16Array(rows * columns)
  const float = new Float32Array(1)
  const bits = new Uint32Array(float.buffer)
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      float[0] = noise() * loud + of(row, column)
      data[row * columns + column] = bits[0] >>> 16
    }
  }
  return { data, dtype: 'bf16', shape }
}

/** A model as people have them; `tuned` says how much of each layer is new, as a fine-tune would have it. */
function model(tuned = () => 0) {
  const ones = (n) => ({ data: Float32Array.from({ length: n }, () => 1 + noise() * 0.02), shape: [n] })
  const waves = (row, column) => 0.05 * Math.sin((row + column) / 23) * Math.exp(-(((row - column) / 40) ** 2))
  const tensors = { 'model.embed_tokens.weight': matrix([2048, 512], () => 0), 'model.norm.weight': ones(512) }
  for (let layer = 0; layer < 12; layer++) {
    const name = (rest) => `model.layers.${layer}.${rest}`
    tensors[name('input_layernorm.weight')] = ones(512)
    const change = tuned(layer)
    const changed = (of) => (row, column) => of(row, column) * (1 + change * Math.sin(row * 3 + column))
    tensors[name('mlp.up_proj.weight')] = matrix([512, 512], changed(waves), 0.001)
    for (const one of ['q', 'k', 'v', 'o']) {
      tensors[name(`self_attn.${one}_proj.weight`)] = matrix([256, 256], (row, column) => (row >> 5 === column >> 5 ? 0.03 * Math.cos(row / 7) * Math.cos(column / 9) * (1 + ('qv'.includes(one) ? 5 * change * Math.sin(row + column) : 0)) : 0))
    }
  }
  const side = (n) => Math.exp(-(((n - 3) / 1.7) ** 2))
  const conv = { data: new Float32Array(32 * 3 * 7 * 7), shape: [32, 3, 7, 7] }
  for (let n = 0; n < conv.data.length; n++) {
    const [x, y, filter] = [n % 7, Math.floor(n / 7) % 7, Math.floor(n / 147)]
    conv.data[n] = noise() * 0.05 + side(x) * side(y) * Math.sin(((x - 3) * Math.cos(filter / 5) + (y - 3) * Math.sin(filter / 5)) * 1.4 + filter)
  }
  tensors['vision.patch_embed.weight'] = conv
  return toBytes(tensors, { format: 'ztensor', attributes: new Map([['license', 'Apache-2.0'], ['architecture', 'llama'], ['layers', 12]]) })
}

const folder = mkdtempSync(join(tmpdir(), 'holdall-'))
const files = { model: join(folder, 'model.zt'), photos: join(folder, 'photos.mt'), xor: join(folder, 'xor.carton'), tuned: join(folder, 'tuned.zt') }
const WIDE = { width: 1160, height: 800 }
const NARROW = { width: 390, height: 720 }
const drawn = (tab) => tab.waitForFunction(() => document.querySelector('.bars rect') && document.querySelector('.legend span')?.textContent)

/** Name of the picture, colours, size, file, its address, and a function that runs before it is taken. */
const PICTURES = [
  ['viewer-light', 'light', WIDE, 'model', 't=model.layers.3.mlp.up_proj.weight', drawn],
  ['viewer-dark', 'dark', WIDE, 'model', 't=vision.patch_embed.weight&k=2&z=16', drawn],
  ['viewer-narrow', 'light', NARROW, 'model', '', (tab) => tab.waitForSelector('aside .row')],
  ['viewer-narrow-dark', 'dark', NARROW, 'model', 't=model.layers.3.self_attn.q_proj.weight', drawn],
  ['viewer-records', 'light', WIDE, 'photos', 't=records', (tab) => tab.waitForSelector('.pane td img, .pane td.long')],
  ['viewer-compare', 'light', { width: 1160, height: 900 }, 'model', '', async (tab) => {
    const [chooser] = await Promise.all([tab.waitForEvent('filechooser'), tab.click('header >> text=Compare…')])
    await chooser.setFiles(files.tuned)
    await tab.waitForSelector('.map')
  }],
  ['viewer-package', 'dark', WIDE, 'xor', '', async (tab) => {
    await tab.click('header >> text=Verify')
    await tab.waitForSelector('.alert.good')
  }],
]

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
try {
  writeFileSync(files.model, await model())
  seed = 1
  writeFileSync(files.tuned, await model((layer) => (layer < 3 ? 0 : 1e-3 * 2 ** (layer - 3))))
  const photos = join(root, 'examples/photos')
  execFileSync(command, ['build', '--schema', join(photos, 'schema.json'), '--records', join(photos, 'photos.ndjson'), '--files', join(photos, 'files'),
    '--file-member', 'image', '-o', files.photos, '-q'])
  execFileSync(command, ['pack', join(root, 'examples/xor'), '-o', files.xor, '-q'])
  for (const [name, colorScheme, viewport, file, hash, ready] of PICTURES) {
    const tab = await browser.newPage({ viewport, colorScheme })
    await tab.goto(hash === '' ? page : `${page}#${hash}`)
    const [chooser] = await Promise.all([tab.waitForEvent('filechooser'), tab.click('header >> text=Open…')])
    await chooser.setFiles(files[file])
    await tab.waitForSelector('aside .row')
    await ready(tab)
    await tab.mouse.move(viewport.width / 2, 120)
    // Waits until the next frames are drawn.
    await tab.waitForTimeout(300)
    await tab.screenshot({ path: join(out, `${name}.png`) })
    await tab.close()
    console.error(`${name}.png`)
  }
} finally {
  await browser.close()
  rmSync(folder, { recursive: true })
}
