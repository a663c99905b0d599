import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { HoldallError, fromBytes, toBytes, type Source } from 'holdall'
import { openArchive } from 'holdall/archive'
import { scan } from 'holdall/reports'
import { corpus, exactJson, filesOf, read, root } from './corpus.js'

const command = process.env['HOLDALL'] ?? join(root, 'target/debug/holdall')
const skip = existsSync(command) ? false : `there is no ${command}`
const pickle = (text: string) => new TextEncoder().encode(text)

test('a pickle is said to do what it would do, and does not do it', async () => {
  const found = await scan(pickle("cos\nsystem\n(S'true'\ntR."), { name: 'model.pkl' })
  assert.equal(found.verdict, 'dangerous')
  assert.deepEqual([found.files, found.pickles.length, found.unread], [1, 1, []])
  const [one] = found.pickles
  assert.deepEqual([one!.source, one!.offset, one!.protocol, one!.broken], ['model.pkl', 0, 0, null])
  assert.deepEqual(one!.imports.map(({ module, name, called, verdict }) => [module, name, called, verdict]), [['os', 'system', true, 'dangerous']])
  const torn = await scan(pickle('cos\nsystem\n('), { name: 'torn.pkl' })
  assert.equal(torn.verdict, 'dangerous')
  assert.ok(torn.pickles[0]!.broken instanceof HoldallError)
  const none = await scan(pickle('no pickle'), { name: 'model.pkl' })
  assert.deepEqual([none.verdict, none.unread], ['no pickles', []])
  const packed = await scan(pickle('BZh91AY'), { name: 'model.pkl' })
  assert.deepEqual([packed.verdict, packed.unread[0]!.code, packed.unread[0]!.source], ['unknown', 'pickle/packed', 'model.pkl'])
  const tensors = await toBytes({ w: new Float32Array([1]) }, { format: 'safetensors' })
  assert.deepEqual(await scan(tensors, { name: 'w.safetensors' }), { verdict: 'no pickles', files: 1, pickles: [], unread: [] })
})

test('files that an index names are scanned with it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdall-'))
  const index = join(folder, 'pytorch_model.bin.index.json')
  writeFileSync(index, '{"weight_map": {"a": "m-1.bin", "b": "m-2.bin"}}')
  writeFileSync(join(folder, 'm-1.bin'), pickle("cos\nsystem\n(S'true'\ntR."))
  const lacking = await scan(index)
  assert.deepEqual([lacking.verdict, lacking.files, lacking.unread.map((e) => e.code)], ['dangerous', 2, ['shards/missing']])
  writeFileSync(join(folder, 'm-1.bin'), 'no pickle')
  assert.equal((await scan(index)).verdict, 'unknown')
  writeFileSync(join(folder, 'm-2.bin'), 'no pickle')
  const whole = await scan(index)
  assert.deepEqual([whole.verdict, whole.files, whole.unread], ['no pickles', 3, []])
  const alone = await scan(pickle('{"weight_map": {"a": "m-1.bin"}}'))
  assert.deepEqual([alone.verdict, alone.unread.map((e) => e.code)], ['unknown', ['shards/missing']])
})

test('only what tells is read of a large file', async () => {
  const tensors = await toBytes({ w: new Float32Array(1 << 20) }, { format: 'safetensors' })
  let bytes = 0
  const inner = fromBytes(tensors)
  const source: Source = { ...inner, read: (start, end, options) => {
    bytes += end - start
    return inner.read(start, end, options)
  } }
  assert.equal((await scan(source)).verdict, 'no pickles')
  assert.ok(bytes < 200_000, `${bytes} bytes`)
})

test('every file of the corpus is scanned as the command scans it', { skip }, async () => {
  let pickles = 0
  for (const path of [...filesOf('accept'), ...filesOf('reject')]) {
    if (!/\.(pt|pth|pkl|npy|npz|ckpt|carton|zip|bin)$/.test(path)) continue
    let text: string
    try {
      text = execFileSync(command, ['scan', '--json', path], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    } catch (e) {
      text = (e as { stdout: string }).stdout
    }
    if (text === '') continue
    const wanted = exactJson(text) as any
    const found = await scan(read(path), { name: path })
    const seen = (report: any) => [report.verdict, report.files, report.pickles.map((one: any) => [
      one.source, one.offset, one.len, one.inner, one.protocol, one.verdict, one.broken?.code ?? null,
      one.imports.map((i: any) => [i.module, i.name, i.verdict, i.called, i.count, i.offset]),
    ]), report.unread.map((e: any) => e.code)]
    const of = wanted.scan ?? wanted
    assert.deepEqual(seen(found), seen(of), path)
    pickles += found.pickles.length
  }
  assert.ok(pickles > 10, `${pickles}`)
})

test('the files of a package are listed and read, and held against their sums', async () => {
  const path = join(corpus, 'accept/carton/made-full.carton')
  await using archive = await openArchive(path)
  assert.ok(archive.entries.some(({ name, size }) => name === 'misc/picture.png' && size === 50))
  const [picture, toml] = await Promise.all([archive.read('misc/picture.png'), archive.read('carton.toml')])
  assert.ok(Buffer.from(read(path)).includes(Buffer.from(picture)) && picture.length === 50)
  assert.match(new TextDecoder().decode(toml), /^spec_version/m)
  await assert.rejects(archive.read('constructor'), { code: 'js/source' })
  await using packed = await openArchive(join(corpus, 'accept/carton/made-deflate.carton'))
  for (const { name, size } of packed.entries) assert.equal((await packed.read(name)).length, size, name)
  // A byte of the picture that is another.
  const bytes = read(path)
  const at = Buffer.from(bytes).indexOf(Buffer.from(picture))
  bytes[at + 20]! ^= 1
  await assert.rejects((await openArchive(bytes)).read('misc/picture.png'), { code: 'zip/crc32' })
  // Files that are not zips are named by their kind; truncated ones are reported.
  const odd: [Uint8Array, string, RegExp, RegExp][] = [
    [pickle('no zip'), 'archive/no-archive', /this is text .* and not a zip/, /^/],
    [new Uint8Array([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0]), 'archive/no-archive', /a file compressed with gzip/, /decompress it/],
    [await toBytes({ a: new Float32Array([1]) }, { format: 'gguf' }), 'archive/no-archive', /a file of GGUF, not a zip/, /`open` reads/],
    [read(path).subarray(0, 1000), 'zip/end', /./, /incomplete/],
  ]
  for (const [bytes, code, found, advice] of odd) await assert.rejects(openArchive(bytes), { code, found, advice })
  const small = await openArchive(path, { limits: { decodedLen: 40 } })
  await assert.rejects(small.read('misc/picture.png'), { kind: 'limit' })
})
