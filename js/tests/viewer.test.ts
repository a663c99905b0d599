import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { toBytes } from 'holdall'
import { Bytes, Float32, Optional, Struct, Text, toSchema } from 'holdall/schema'
import { chromium, type Browser, type Page } from 'playwright-core'
import { openArchive } from 'holdall/archive'
import { corpus, root } from './corpus.js'

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path))
/** The command, which `cargo xtask js` builds. */
const command = process.env['HOLDALL'] ?? join(root, 'target/debug/holdall')
const skip = executablePath === undefined ? 'there is no Chromium' : false
const page = pathToFileURL(join(root, 'js/dist/viewer/index.html')).href
const hostile = '<img src=x onerror="document.title=\'owned\'"><script>document.title=\'owned\'</script>'

let browser: Browser
let folder: string
before(async () => {
  if (executablePath === undefined) {
    console.error('\n!!! SKIPPED: the viewer, for there is no Chromium. Nothing was found out about it.\n')
    return
  }
  folder = await mkdtemp(join(tmpdir(), 'holdall-'))
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
})
after(async () => {
  await browser?.close()
  if (folder !== undefined) await rm(folder, { recursive: true })
})

/** The page with a file in it. Whatever it complains of fails the test. */
async function opened(path: string, hash = ''): Promise<Page> {
  const tab = await browser.newPage({ viewport: { width: 1200, height: 900 } })
  tab.on('pageerror', (e) => assert.fail(e))
  tab.on('console', (message) => message.type() === 'error' && assert.fail(message.text()))
  await tab.goto(page + hash)
  await choose(tab, 'Open…', path)
  await tab.waitForSelector('.pane h1')
  return tab
}

async function choose(tab: Page, button: string, path: string): Promise<void> {
  const [chooser] = await Promise.all([tab.waitForEvent('filechooser'), tab.click(`header >> text=${button}`)])
  await chooser.setFiles(path)
}

const line = (name: string) => `.row:has(.label:text-is(${JSON.stringify(name)}))`

test('files are shown as a tree of groups, with facts, from the disk and offline', { skip }, async () => {
  const tab = await opened(join(root, 'examples/tiny.zt'))
  await tab.context().setOffline(true)
  assert.match(await tab.innerText('.pane .chips'), /zTensor 1\.2\.0/)
  assert.equal(await tab.innerText('aside .foot'), '34 tensors on 13 lines')
  assert.equal(await tab.isVisible(line('norm.weight')), true)
  await tab.click(line('embed.weight'))
  await tab.waitForSelector('.bars rect')
  assert.match(await tab.innerText('.figures dl'), /min\s+-0\.25/)
  assert.match(await tab.innerText('.values'), /\[0\]/)
  // Quantized and sparse ones are decoded.
  for (const name of ['router.weight', 'experts.gate.weight']) {
    await tab.click(line(name))
    await tab.waitForSelector('.bars rect')
  }
  await tab.close()
})

test('the heat map has the colours of the elements, and requests only the visible ones', { skip }, async () => {
  const path = join(folder, 'map.safetensors')
  // Rows of -1, 0 and 1.
  const data = Float32Array.from({ length: 96 * 64 }, (_, n) => (Math.floor(n / 64 / 32)) - 1)
  await writeFile(path, await toBytes({ map: { data, shape: [96, 64] } }, { format: 'safetensors' }))
  const tab = await opened(path)
  await tab.click(line('map'))
  await tab.waitForSelector('.bars rect')
  await tab.waitForTimeout(300)
  const colours = await tab.evaluate(() => {
    const canvas = document.querySelector('.heat canvas') as HTMLCanvasElement
    const zoom = Number((document.querySelector('select[aria-label^="pixels"]') as HTMLSelectElement).value)
    const context = canvas.getContext('2d')!
    const at = (row: number, column: number) =>
      [...context.getImageData((column + 0.5) * zoom, (row + 0.5) * zoom, 1, 1).data].slice(0, 3)
    return { low: at(0, 0), middle: at(40, 20), rows: [at(10, 3), at(10, 50)], zoom }
  })
  assert.deepEqual(colours.low, [33, 102, 172])
  // The middle of the colours is the lightest.
  assert.ok(colours.middle.every((part) => part > 230), String(colours.middle))
  assert.deepEqual(colours.rows[0], colours.rows[1])
  const box = (await tab.locator('.heat').boundingBox())!
  await tab.mouse.move(box.x + 5 * colours.zoom + 2, box.y + 3 * colours.zoom + 2)
  assert.match(await tab.innerText('.legend .here'), /\[3, 5\]\s+-1/)
  await tab.close()
})

test('whatever a file says is text, never markup', { skip }, async () => {
  const path = join(folder, 'hostile.zt')
  const attributes = new Map([[hostile, hostile], ['model_description', `# ${hostile}\n[x](javascript:document.title='owned') ![y](https://a.example/b.png)\n${hostile}`]])
  await writeFile(path, await toBytes({
    [hostile]: new Float32Array([1, NaN, Infinity]), __proto__x: new Int8Array(2), constructor: new Int8Array(1),
    rows: {
      records: [{ [hostile]: hostile, __proto__: null, constructor: hostile, bytes: new TextEncoder().encode(`<svg onload="document.title='owned'">`) }],
      schema: toSchema(Struct([[hostile, Text()], ['constructor', Text()], ['bytes', Bytes()]])),
    },
    runs: { runs: [hostile] },
  }, { format: 'ztensor', attributes }))
  const tab = await opened(path)
  const isClean = async () => {
    assert.equal(await tab.evaluate(() => document.querySelectorAll('img, main script, [onerror], a[href^="javascript"]').length), 0)
    assert.notEqual(await tab.title(), 'owned')
  }
  assert.ok((await tab.innerText('.pane')).includes(hostile))
  await isClean()
  await tab.click(line(hostile))
  await tab.waitForSelector('.figures dl')
  assert.equal(await tab.innerText('.pane h1'), hostile)
  await isClean()
  await tab.click(line('rows'))
  await tab.waitForSelector(`td:text-is(${JSON.stringify(hostile)})`)
  assert.ok((await tab.innerText('.pane thead')).includes(hostile))
  await isClean()
  await tab.click(line('runs'))
  await tab.waitForSelector('.card pre')
  assert.ok((await tab.innerText('.pane')).includes(hostile))
  await isClean()
  await choose(tab, 'Compare…', join(root, 'examples/tiny.zt'))
  await tab.waitForSelector('text=They differ')
  await isClean()
  // Nothing may be asked of anybody. The browser says so on its console.
  tab.removeAllListeners('console')
  assert.match(await tab.getAttribute('meta[http-equiv]', 'content') ?? '', /default-src 'none'.*connect-src 'none'/)
  const asked = await tab.evaluate(() => fetch('https://example.com').then(() => 'asked', () => 'refused')).catch(() => 'refused')
  assert.equal(asked, 'refused')
  await tab.close().catch(() => {})
})

test('records are a table, a package has its card, and files are verified and compared', { skip }, async () => {
  const tab = await opened(join(corpus, 'accept/metatensor/made-strings.mt'))
  await tab.click(line('people'))
  await tab.waitForSelector('td:text-is("Ada")')
  await choose(tab, 'Open…', join(corpus, 'accept/carton/made-full.carton'))
  await tab.waitForSelector('text=A package with all there is')
  await tab.keyboard.press('v')
  await tab.waitForSelector('text=/\\d+ files, \\d+ hashes that match/')
  await choose(tab, 'Open…', join(root, 'examples/tiny.zt'))
  await tab.waitForSelector(line('lm_head.weight'))
  await tab.keyboard.press('v')
  await tab.waitForSelector('text=Everything that can be checked is sound.')
  await choose(tab, 'Compare…', join(root, 'examples/tiny.zt'))
  await tab.waitForSelector('text=There is no difference.')
  await choose(tab, 'Open…', join(root, 'README.md'))
  await tab.waitForSelector('.alert >> text=format/unknown')
  await tab.close()
})

test('two models are shown as a map of what changed, and the tree is coloured', { skip }, async () => {
  const write = async (name: string, change: (layer: number) => number) => {
    const path = join(folder, name)
    const tensors = Object.fromEntries(Array.from({ length: 12 }, (_, layer) => [
      [`model.layers.${layer}.mlp.w`, Float32Array.from({ length: 64 }, (_, n) => (n + 1) * (1 + change(layer)))],
      [`model.layers.${layer}.norm`, Float32Array.from({ length: 8 }, () => 1)],
    ] as const).flat())
    await writeFile(path, await toBytes({ ...tensors, embed: new Float32Array(4) }, { format: 'safetensors' }))
    return path
  }
  const a = await write('base.safetensors', () => 0)
  const b = await write('tuned.safetensors', (layer) => [0, 0.5, 0, 1e-3][layer] ?? (layer === 11 ? NaN : 0))
  const tab = await opened(a)
  assert.equal(await tab.isVisible('text=Differences'), false)
  await choose(tab, 'Compare…', b)
  await tab.waitForSelector('.map')
  assert.equal(await tab.locator('.map .layer').count(), 12)
  assert.deepEqual(await tab.locator('.map .layer').allInnerTexts(), Array.from({ length: 12 }, (_, n) => `model.layers.${n}`))
  const colours = await tab.locator('.map button.swatch').evaluateAll((all) => all.map((one) => getComputedStyle(one).backgroundColor))
  // Two cells in each row: the norm is the same everywhere, and so is layer 0.
  assert.equal(colours.length, 24)
  assert.ok([1, 3, 5, 7].every((n) => colours[n] === colours[0]), String(colours))
  assert.equal(new Set([colours[0], colours[2], colours[6], colours[22]]).size, 4)
  const title = (n: number) => tab.locator('.map button.swatch').nth(n).getAttribute('title')
  assert.match((await title(2))!, /^model\.layers\.1\.mlp\.w: 100 % of the elements changed, by 0\.5 relative$/)
  assert.match((await title(22))!, /64 of them NaN or infinite/)
  assert.equal(await title(0), 'model.layers.0.mlp.w: the same')
  const layers = await tab.locator('section:has(h2:text-is("Layers")) tbody tr td:first-child').allInnerTexts()
  assert.deepEqual(layers, ['model.layers.11', 'model.layers.1', 'model.layers.3'])
  // The tree has the same colours, and a cell leads to its tensor and back.
  await tab.waitForSelector('.row .swatch')
  await tab.locator('.map button.swatch').nth(2).click()
  await tab.waitForSelector('.pane h1:has-text("model.layers.1.mlp.w")')
  await tab.click('header >> text=Differences')
  await tab.waitForSelector('.map')
  await choose(tab, 'Open…', a)
  await tab.waitForFunction(() => document.querySelector('.row') !== null && document.querySelector('.row .swatch') === null)
  assert.equal(await tab.isVisible('text=Differences'), false)
  await tab.close()
})

/** A zip of files as they are; the sum of one is wrong. */
function zipOf(files: Record<string, Uint8Array>, damaged: string): Uint8Array {
  const [parts, central]: [Buffer[], Buffer[]] = [[], []]
  let at = 0
  for (const [name, bytes] of Object.entries(files)) {
    const [text, crc] = [Buffer.from(name), (crc32(bytes) ^ (name === damaged ? 1 : 0)) >>> 0]
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(0x800, 2)
    common.writeUInt32LE(0x00210000, 6)
    common.writeUInt32LE(crc, 10)
    common.writeUInt32LE(bytes.length, 14)
    common.writeUInt32LE(bytes.length, 18)
    common.writeUInt16LE(text.length, 22)
    parts.push(Buffer.from('PK\x03\x04'), common, text, Buffer.from(bytes))
    const place = Buffer.alloc(14)
    place.writeUInt32LE(at, 10)
    central.push(Buffer.from('PK\x01\x02\x14\x00', 'latin1'), common, place, text)
    at += 30 + text.length + bytes.length
  }
  const directory = Buffer.concat(central)
  const end = Buffer.alloc(18)
  end.writeUInt16LE(Object.keys(files).length, 4)
  end.writeUInt16LE(Object.keys(files).length, 6)
  end.writeUInt32LE(directory.length, 8)
  end.writeUInt32LE(at, 12)
  return Buffer.concat([...parts, directory, Buffer.from('PK\x05\x06'), end])
}

function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0)
  }
  return (crc ^ 0xffffffff) >>> 0
}

test('members of structs are columns, and floats have the digits of the file', { skip }, async () => {
  const path = join(folder, 'places.mt')
  const schema = toSchema(Struct({ at: Optional(Struct({ lat: Float32(), lon: Float32() })), name: Text() }))
  const records = [{ at: { lat: 48.86, lon: 2.35 }, name: 'here' }, { name: 'nowhere' }]
  await writeFile(path, await toBytes({ places: { records, schema } }, { format: 'metatensor' }))
  const tab = await opened(path)
  await tab.click(line('places'))
  await tab.waitForSelector('td:text-is("nowhere")')
  assert.deepEqual(await tab.locator('.pane section:first-of-type thead th').allInnerTexts(), ['', 'at.lat', 'at.lon', 'name'])
  assert.deepEqual(await tab.locator('.pane section:first-of-type tbody td').allInnerTexts(), ['0', '48.86', '2.35', 'here', '1', '', '', 'nowhere'])
  await tab.close()
})

test('the pictures of a package are shown, and its names are text', { skip }, async () => {
  await using archive = await openArchive(join(corpus, 'accept/carton/made-full.carton'))
  const files: Record<string, Uint8Array> = {}
  for (const { name } of archive.entries) files[name] = await archive.read(name)
  // A red dot.
  const dot = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC', 'base64')
  files['misc/dot.png'] = dot
  files['misc/"><img src=x onerror=document.title=1>.png'] = dot
  files['misc/damaged.png'] = dot
  files['misc/no-picture.png'] = new TextEncoder().encode('<svg onload="document.title=1">')
  const lines = Object.entries(files).filter(([name]) => name !== 'MANIFEST')
    .map(([name, bytes]) => `${name}=${createHash('sha256').update(bytes).digest('hex')}`)
  files['MANIFEST'] = new TextEncoder().encode(`${lines.sort((a, b) => Buffer.compare(Buffer.from(a.slice(0, -65)), Buffer.from(b.slice(0, -65)))).join('\n')}\n`)
  const path = join(folder, 'pictures.carton')
  await writeFile(path, zipOf(files, 'misc/damaged.png'))
  const tab = await opened(path)
  const areShown = () => tab.waitForFunction(() =>
    [...document.querySelectorAll<HTMLImageElement>('.gallery img')].filter((img) => img.naturalWidth === 1).length === 2)
  await areShown()
  // The damaged one says so in its own place.
  const troubles = await tab.locator('.gallery figure:has(.alert)').allInnerTexts()
  assert.ok(troubles.length === 1 && /misc\/damaged\.png/.test(troubles[0]!), troubles.join())
  const names = await tab.locator('.gallery figcaption').allInnerTexts()
  assert.ok(names.includes('misc/dot.png') && names.some((name) => name.includes('onerror')) && !names.includes('misc/no-picture.png'), names.join())
  assert.equal(await tab.evaluate(() => document.querySelectorAll('[onerror], .gallery svg').length), 0)
  // They are kept: who comes back does not ask for them again.
  await tab.evaluate(() => {
    const { postMessage } = Worker.prototype
    Worker.prototype.postMessage = function (this: Worker, ...args: any[]) {
      if (args[0]?.method === 'pictures') throw new Error('the pictures are asked for again')
      return postMessage.apply(this, args as [any])
    }
  })
  await tab.click('aside .row >> nth=0')
  await tab.waitForSelector('.gallery', { state: 'detached' })
  await tab.keyboard.press('i')
  await areShown()
  await tab.close()
})

test('a narrow screen has all that there is, in sight and with room', { skip }, async () => {
  const tab = await browser.newPage({ viewport: { width: 360, height: 700 } })
  tab.on('pageerror', (e) => assert.fail(e))
  await tab.goto(page)
  await choose(tab, 'Open…', join(root, 'examples/tiny.zt'))
  await tab.click(line('embed.weight'))
  await tab.waitForSelector('.bars rect')
  const isInside = () => tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth &&
    [...document.querySelectorAll('header button')].filter((one) => one.getBoundingClientRect().width > 0)
      .every((one) => one.getBoundingClientRect().right <= innerWidth && one.getBoundingClientRect().height < 48))
  assert.equal(await isInside(), true)
  await tab.click('text=‹ Tensors')
  await tab.waitForSelector('aside .foot')
  for (const [button, says] of [['Verify', 'Everything that can be checked is sound.']] as const) {
    await tab.click(`header >> text=${button}`)
    await tab.waitForSelector(`text=${says}`)
  }
  assert.equal(await isInside(), true)
  await choose(tab, 'Compare…', join(root, 'examples/tiny.zt'))
  await tab.waitForSelector('text=There is no difference.')
  await tab.close()
})

test('keys reach everything, and a link brings the view back', { skip }, async () => {
  const tab = await opened(join(root, 'examples/tiny.zt'))
  await tab.keyboard.press('/')
  await tab.keyboard.type('norm')
  assert.equal(await tab.locator('.row').count(), 4)
  await tab.keyboard.press('Escape')
  await tab.keyboard.press('ArrowDown')
  await tab.keyboard.press('Enter')
  await tab.waitForSelector('h1:has-text("layers.1.norm.weight")')
  const before = await tab.evaluate(() => document.documentElement.dataset.theme)
  await tab.keyboard.press('d')
  assert.notEqual(await tab.evaluate(() => document.documentElement.dataset.theme), before)
  await tab.keyboard.press('?')
  assert.equal(await tab.isVisible('dialog'), true)
  await tab.close()
  const again = await opened(join(root, 'examples/tiny.zt'), '#t=causal_mask&k=1&r=2&c=0&z=32')
  await again.waitForSelector('h1:has-text("causal_mask")')
  await again.waitForSelector('.bars rect')
  assert.equal(await again.inputValue('select[aria-label^="pixels"]'), '32')
  await again.waitForFunction(() => (document.querySelector('.port')?.scrollTop ?? 0) === 64)
  // It is written when scrolling rests.
  await again.waitForFunction(() => location.hash === '#t=causal_mask&k=1&r=2&c=0&z=32')
  await again.evaluate(() => { document.querySelector('.port')!.scrollTop = 320 })
  await again.waitForFunction(() => location.hash === '#t=causal_mask&k=1&r=10&c=0&z=32')
  await again.close()
})

test('addresses are opened by a page that may ask their server, and compared', { skip }, async () => {
  const asked: string[] = []
  const server = createServer((request, answer) => {
    const name = request.url!.split('/').at(-1)!
    const path = name.endsWith('.zt') ? join(root, 'examples', name) : join(root, 'js/dist/viewer', name)
    asked.push(`${name} ${request.headers.range ?? ''}`)
    const bytes = existsSync(path) ? readFileSync(path) : undefined
    if (bytes === undefined) return answer.writeHead(404).end()
    const types: Record<string, string> = { html: 'text/html', js: 'text/javascript', css: 'text/css' }
    const type = types[name.split('.').at(-1)!] ?? 'application/octet-stream'
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? []
    if (from === undefined) return answer.writeHead(200, { 'content-type': type }).end(bytes)
    const part = bytes.subarray(Number(from), Number(to) + 1)
    const range = `bytes ${from}-${Number(from) + part.length - 1}/${bytes.length}`
    answer.writeHead(206, { 'content-type': type, 'content-range': range }).end(part)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  try {
    const tab = await browser.newPage()
    tab.on('pageerror', (e) => assert.fail(e))
    await tab.goto(`${base}/index.html`)
    await tab.fill('input[type="url"]', `${base}/tiny.zt`)
    await tab.click('text=Open address')
    await tab.waitForSelector(line('lm_head.weight'))
    assert.match(tab.url(), /open\.html#url=/)
    assert.ok(asked.some((one) => /^tiny\.zt bytes=0-/.test(one)), asked.join())
    await tab.goto('about:blank')
    await tab.goto(`${base}/open.html#url=/tiny.zt&with=/tiny.zt`)
    await tab.waitForSelector('text=There is no difference.')
    assert.equal(await tab.innerText('header .name'), 'tiny.zt')
    await tab.goto('about:blank')
    await tab.goto(`${base}/open.html#url=/none.zt`)
    await tab.waitForSelector('.alert >> text=http/status')
    await tab.close()
  } finally {
    server.closeAllConnections()
    server.close()
  }
})

test('a file far larger than memory is opened, and its heat map scrolled', { skip }, async () => {
  const path = join(folder, 'large.safetensors')
  const shape = [400_000, 8192]
  const len = shape[0]! * shape[1]! * 4
  const header = new TextEncoder().encode(JSON.stringify({ big: { dtype: 'F32', shape, data_offsets: [0, len] } }))
  const head = new Uint8Array(8 + header.length)
  new DataView(head.buffer).setBigUint64(0, BigInt(header.length), true)
  head.set(header, 8)
  await writeFile(path, head)
  const { truncate } = await import('node:fs/promises')
  await truncate(path, head.length + len)
  const tab = await opened(path)
  await tab.evaluate(() => {
    const counted = window as any
    const { postMessage } = Worker.prototype
    counted.asked = 0
    Worker.prototype.postMessage = function (this: Worker, ...args: any[]) {
      if (args[0].method === 'numbers' && !document.querySelector('.legend span')?.textContent) counted.asked++
      return postMessage.apply(this, args as [any])
    }
  })
  await tab.click(line('big'))
  // Reading all of the tensor was not requested.
  await tab.waitForSelector('button:has-text("Go through all")')
  await tab.waitForFunction(() => document.querySelector('.legend span')?.textContent !== '')
  // The block that tells the colours waited for no other.
  assert.equal(await tab.evaluate(() => (window as any).asked), 1)
  // It stays where it was scrolled to, frame after frame.
  const top = await tab.evaluate(() => new Promise<number>((done) => {
    const port = document.querySelector('.port')!
    let left = 30
    const step = () => {
      port.scrollTop += 300
      if (--left > 0) requestAnimationFrame(step)
      else done(port.scrollTop)
    }
    step()
  }))
  assert.equal(top, 30 * 300)
  await tab.close()
})

test('a folder is one model: chosen, dropped, at the address of its index, and as the command shows it', { skip }, async () => {
  const model = join(folder, 'llama')
  await mkdir(model)
  const shards = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'] as const
  const write = async (name: string, data: Float32Array, shard: string) =>
    writeFile(join(model, shard), await toBytes({ [name]: data }, { format: 'safetensors' }))
  await write('first', new Float32Array([1, 2, 3]), shards[0])
  await write('second', new Float32Array([4, 5]), shards[1])
  await writeFile(join(model, 'model.safetensors.index.json'), JSON.stringify({ weight_map: { first: shards[0], second: shards[1] } }))
  const isShown = async (tab: Page) => {
    await tab.click(line('second'))
    await tab.waitForSelector('.figures dl')
    assert.match(await tab.innerText('.figures dl'), /min\s+4/)
  }
  const tab = await browser.newPage()
  tab.on('pageerror', (e) => assert.fail(e))
  await tab.goto(page)
  const [chooser] = await Promise.all([tab.waitForEvent('filechooser'), tab.click('text=Choose a folder')])
  await chooser.setFiles(model)
  await tab.waitForSelector('.pane h1')
  assert.match(await tab.innerText('.pane .chips'), /files 2/)
  assert.equal(await tab.innerText('header .name'), 'llama')
  await isShown(tab)
  // Several files are one model where they are; two that are not are compared.
  const several = async (...paths: string[]) => {
    const [chooser] = await Promise.all([tab.waitForEvent('filechooser'), tab.click('header >> text=Open…')])
    await chooser.setFiles(paths)
  }
  await several(...[...shards, 'model.safetensors.index.json'].map((name) => join(model, name)))
  await tab.waitForSelector('header .name:has-text("and 2 more")')
  await isShown(tab)
  const apart = ['one.safetensors', 'other.safetensors'].map((name) => join(folder, name))
  for (const [n, path] of apart.entries()) await copyFile(join(model, shards[n]!), path)
  await several(...apart)
  await tab.waitForSelector('text=They differ')
  // As a browser tells of a folder that was dropped.
  await tab.evaluate(async ([names, texts]) => {
    const files = names!.map((name, n) => new File([Uint8Array.from(atob(texts![n]!), (c) => c.charCodeAt(0))], name))
    const entries = files.map((file) => ({ isFile: true, name: file.name, file: (done: (file: File) => void) => done(file) }))
    const parts = [entries.slice(0, 1), entries.slice(1), []]
    const root = { isFile: false, name: 'dropped', createReader: () => ({ readEntries: (done: (some: unknown[]) => void) => done(parts.shift()!) }) }
    const event = new Event('drop', { cancelable: true })
    Object.defineProperty(event, 'dataTransfer', { value: { items: [{ webkitGetAsEntry: () => root }] } })
    dispatchEvent(event)
  }, await (async () => {
    const names = [...shards, 'model.safetensors.index.json']
    return [names, names.map((name) => readFileSync(join(model, name)).toString('base64'))]
  })())
  await tab.waitForSelector('header .name:text-is("dropped")')
  await isShown(tab)
  await tab.close()
  if (!existsSync(command)) return
  const child = spawn(command, ['view', '--no-open', '--page', join(root, 'js/dist/viewer'), model], { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const address = await new Promise<string>((done) => child.stdout.once('data', (text: Buffer) => done(String(text).trim())))
    assert.match(address, /model\.safetensors\.index\.json$/)
    const tab = await browser.newPage()
    tab.on('pageerror', (e) => assert.fail(e))
    await tab.goto(address)
    await tab.waitForSelector('.pane .chips >> text=files')
    await isShown(tab)
    await tab.close()
  } finally {
    child.kill()
  }
})
