import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { open, toBytes, type TensorFile } from 'holdall'
import { diff } from 'holdall/reports'
import { root } from './corpus.js'

const command = process.env['HOLDALL'] ?? join(root, 'target/debug/holdall')
const skip = existsSync(command) ? false : `there is no ${command}`
const convert = (...args: string[]): string => execFileSync(command, ['convert', ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

const INDEX = 'model.safetensors.index.json'
const SHARDS = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'] as const
let folder = ''
const at = (...parts: string[]) => join(folder, ...parts)
/** What the files of a model have, by their names. */
const files = new Map<string, Uint8Array>()

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'holdall-'))
  const shard = (tensors: Record<string, Float32Array>) => toBytes(tensors, { format: 'safetensors' })
  files.set(SHARDS[0], await shard({ a: new Float32Array([1, 2, 3, 4]), b: new Float32Array(300_000).map((_, n) => n) }))
  files.set(SHARDS[1], await shard({ c: new Float32Array([5, 6]) }))
  files.set(INDEX, json({ metadata: { total_size: 1_200_024 }, weight_map: { a: SHARDS[0], b: SHARDS[0], c: SHARDS[1] } }))
  files.set('config.json', json({}))
  mkdirSync(at('model'))
  for (const [name, bytes] of files) writeFileSync(at('model', name), bytes)
})
after(() => rmSync(folder, { recursive: true }))

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value))

async function isTheModel(file: TensorFile): Promise<void> {
  assert.deepEqual([file.format, file.sources.length, file.warnings], ['safetensors', 2, []])
  assert.deepEqual(file.names, ['a', 'b', 'c'])
  assert.equal(file.size, files.get(SHARDS[0])!.length + files.get(SHARDS[1])!.length)
  assert.deepEqual(await file.tensor('a').array(), new Float32Array([1, 2, 3, 4]))
  assert.deepEqual(await file.tensor('b').elements(299_998, 300_000), new Float32Array([299_998, 299_999]))
  assert.deepEqual(await file.tensor('c').array(), new Float32Array([5, 6]))
  assert.deepEqual(file.tensors.map(({ components }) => components[0]!.source), [0, 0, 1])
  assert.deepEqual([(await file.verify()).verdict, (await file.verify()).components], ['sound', 3])
  await file.close()
  await assert.rejects(file.tensor('a').array(), { code: 'js/closed' })
}

test('a folder and its index are one model, from paths and file addresses', async () => {
  for (const from of [at('model'), at('model', INDEX), pathToFileURL(at('model', INDEX)), pathToFileURL(at('model'))]) {
    const file = await open(from)
    assert.equal(file.name, String(from))
    await isTheModel(file)
  }
  const named = [...files].map(([name, bytes]) => new File([bytes as Uint8Array<ArrayBuffer>], name))
  await isTheModel(await open(named))
  await isTheModel(await open(new Map([...files].map(([name, bytes]) => [`llama/${name}`, bytes]))))
  assert.equal((await open(new Map([...files].map(([name, bytes]) => [`llama/${name}`, bytes])))).name, 'llama')
  assert.equal((await open(named, { name: 'mine' })).name, 'mine')
})

test('an instance that ended is replaced, and models are compared', async () => {
  await using a = await open(at('model'))
  await using b = await open(new Map([...files]))
  await using part = await open(at('model', SHARDS[1]))
  assert.equal((await diff(a, b)).identical, true)
  assert.equal((await diff(a, part)).removed.length, 2)
  const [core, tensor] = [await a.core(), a.tensor('c')]
  assert.throws(() => core.call('push', [], { length: 1 } as Uint8Array), { code: 'wasm/trap' })
  assert.deepEqual(await tensor.array(), new Float32Array([5, 6]))
})

test('the files of an index at an address are asked for beside it, and nowhere else', async () => {
  const asked: string[] = []
  const server = createServer((request, answer) => {
    asked.push(request.url!)
    const bytes = files.get(request.url!.split('?')[0]!.slice('/llama%203/'.length))
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? []
    if (bytes === undefined || from === undefined) return void answer.writeHead(404).end()
    const part = bytes.subarray(Number(from), Number(to) + 1)
    answer.writeHead(206, { 'content-range': `bytes ${from}-${Number(from) + part.length - 1}/${bytes.length}` }).end(part)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/llama%203/`
  try {
    const file = await open(`${url}${INDEX}?download=true`)
    assert.deepEqual([...asked].sort(), [`/llama%203/${SHARDS[0]}`, `/llama%203/${SHARDS[1]}`, `/llama%203/${INDEX}?download=true`])
    await isTheModel(file)
    for (const path of ['../other.safetensors', '/etc/passwd', 'https://example.com/x', '//example.com/x', 'a/../../x', 'a\\b', '%2e%2e/x?y#z']) {
      asked.length = 0
      const own = new Map(files)
      files.set(INDEX, json({ weight_map: { a: path } }))
      const isName = path.startsWith('%')
      await assert.rejects(open(url + INDEX), { code: isName ? 'shards/missing' : 'shards/outside' }, path)
      assert.deepEqual(asked.slice(1), isName ? ['/llama%203/%252e%252e/x%3Fy%23z'] : [], path)
      files.set(INDEX, own.get(INDEX)!)
    }
  } finally {
    server.closeAllConnections()
    server.close()
  }
})

test('errors of a model name the file and the reason', async () => {
  const changed = (changes: Record<string, Uint8Array | null>) => {
    const all = new Map(files)
    for (const [name, bytes] of Object.entries(changes)) if (bytes === null) all.delete(name)
    else all.set(name, bytes)
    return open(all)
  }
  await assert.rejects(changed({ [SHARDS[1]]: null }), { code: 'shards/missing', found: `\`${SHARDS[1]}\` is not there` })
  await assert.rejects(changed({ [INDEX]: json({ weight_map: { c: SHARDS[0] } }) }), { code: 'shards/tensor', tensor: 'c' })
  await assert.rejects(changed({ [INDEX]: json({}) }), { code: 'shards/index' })
  await assert.rejects(changed({ [SHARDS[1]]: files.get(SHARDS[1])!.subarray(0, 20) }), { code: /^safetensors\// , found: new RegExp(`^${SHARDS[1]}`) })
  // Names of shards say what an index would.
  assert.deepEqual([...(await changed({ [INDEX]: null })).names].sort(), ['a', 'b', 'c'])
  await assert.rejects(changed({ [INDEX]: null, [SHARDS[1]]: null }), { code: 'shards/missing' })
  await assert.rejects(open([]), { code: 'shards/no-model' })
  await assert.rejects(open(new Map([['carton.toml', json({})], ...files])), { code: 'shards/no-model', found: /package/ })
  const file = await changed({ [INDEX]: json({ metadata: { total_size: 1 }, weight_map: { a: SHARDS[0], c: SHARDS[1] } }) })
  assert.deepEqual(file.warnings.map(({ code, tensor }) => [code, tensor]), [['shards/extra', 'b'], ['shards/total-size', null]])
  // Neither is there, and neither is a model.
  await assert.rejects(open(at('none')), { code: 'io/failed' })
  await assert.rejects(open(at('model', 'config.json')), { code: 'format/unknown' })
  await assert.rejects(open(files.get(INDEX)!), { code: 'format/unknown', advice: /`\.index\.json`/ })
})

test('a split GGUF file and a file of zTensor 2 with shards open by their first', { skip }, async () => {
  const whole = await open(new Map(files))
  const [gguf, zt] = [at('gguf'), at('zt')]
  convert(at('model'), gguf, '--to', 'gguf', '--max-shard-size', '1000')
  convert(at('model'), zt, '--to', 'ztensor2', '--max-shard-size', '1000')
  const first = join(gguf, readdirSync(gguf).sort()[0]!)
  for (const from of [gguf, first, zt, join(zt, 'model.zt')]) {
    const file = await open(from)
    assert.ok(file.sources.length > 1, from)
    assert.equal((await diff(whole, file)).valuesAgree, true, from)
    assert.equal((await file.verify()).verdict, 'sound', from)
    assert.ok(![...file.attributes.keys()].some((key) => key.startsWith('split.')))
    await file.close()
  }
  // Alone a part is what it is, and what it says of the others is of no use.
  assert.equal((await open(new Uint8Array(readFileSync(first)))).sources.length, 1)
  // Of a shard all bytes have a digest.
  const shard = readdirSync(zt).find((name) => name !== 'model.zt')!
  const bytes = readFileSync(join(zt, shard))
  bytes[bytes.length >> 1]! ^= 1
  const changed = new Map(readdirSync(zt).map((name) => [name, new Uint8Array(name === shard ? bytes : readFileSync(join(zt, name)))]))
  const report = await (await open(changed)).verify()
  assert.equal(report.verdict, 'bad')
  assert.ok(report.findings.every(({ code }) => code === 'file/digest'), String(report.findings))
  rmSync(join(gguf, readdirSync(gguf).sort()[1]!))
  await assert.rejects(open(first), { code: 'shards/missing' })
})

test('a distributed checkpoint opens by its folder and by its description', async () => {
  const ranks = join(root, 'crates/holdall/tests/checkpoint/ranks')
  const full = Array.from({ length: 35 }, (_, n) => n)
  const all = new Map(readdirSync(ranks).map((name) => [name, new Uint8Array(readFileSync(join(ranks, name)))]))
  for (const from of [ranks, join(ranks, '.metadata'), all]) {
    const file = await open(from)
    assert.deepEqual([file.format, file.length, file.sources.length], ['pytorch', 9, 4])
    for (const name of ['rows', 'cols', 'both', 'same', 'plain']) assert.deepEqual([...(await file.tensor(name).array({ as: 'f32' }))], full, name)
    assert.deepEqual([...(await file.tensor('rows').rows(1, 2))], full.slice(7, 14))
    assert.equal((await file.verify()).verdict, 'sound')
    await file.close()
  }
})

test('a checkpoint of TensorFlow comes with its data', async () => {
  await using file = await open(join(root, 'crates/holdall/tests/tensorflow/tf_types.index'))
  assert.deepEqual([file.sources.length, file.tensors.filter(({ fault }) => fault !== null).length], [2, 0])
  assert.equal((await file.verify()).verdict, 'sound')
})

/** Fields of a message of protobuf: numbers, texts, messages. */
function message(...fields: [number, number | string | Uint8Array][]): Uint8Array {
  const varint = (n: number): number[] => (n < 128 ? [n] : [(n & 127) | 128, ...varint(n >>> 7)])
  return Uint8Array.from(fields.flatMap(([field, value]) => {
    if (typeof value === 'number') return [...varint(field * 8), ...varint(value)]
    const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value
    return [...varint(field * 8 + 2), ...varint(bytes.length), ...bytes]
  }))
}

/** A model of ONNX whose weight is in another file. */
function onnx(location: string): Uint8Array {
  const entry = (key: string, value: string) => message([1, key], [2, value])
  const weight = message([1, 3], [2, 1], [8, 'w'], [13, entry('location', location)], [13, entry('offset', '4')], [13, entry('length', '12')], [14, 1])
  return message([1, 8], [7, message([2, 'g'], [5, weight])], [8, message([2, 17])])
}

test('an ONNX model comes with its external data, where that lies beside it', async () => {
  mkdirSync(at('onnx', 'data'), { recursive: true })
  const data = new Uint8Array(new Float32Array([9, 1, 2, 3]).buffer)
  writeFileSync(at('onnx', 'm.onnx'), onnx('data/w.bin'))
  writeFileSync(at('onnx', 'data', 'w.bin'), data)
  for (const from of [at('onnx', 'm.onnx'), at('onnx'), new Map([['m.onnx', onnx('data/w.bin')], ['data/w.bin', data]])]) {
    const file = await open(from)
    assert.deepEqual([file.sources.length, ...(await file.tensor('w').array())], [2, 1, 2, 3])
    await file.close()
  }
  const code = async (from: string | Uint8Array) => {
    await using file = await open(from)
    return file.tensor('w').fault?.code
  }
  // Missing files are faults of their tensors.
  writeFileSync(at('onnx', 'lost.onnx'), onnx('lost.bin'))
  assert.equal(await code(at('onnx', 'lost.onnx')), 'onnx-file/external')
  assert.equal(await code(onnx('data/w.bin')), 'onnx-file/external')
  // A link out of the folder is refused; one in the folder of the files that all are links to is not.
  writeFileSync(at('secret.bin'), data)
  symlinkSync(at('secret.bin'), at('onnx', 'link.bin'))
  writeFileSync(at('onnx', 'link.onnx'), onnx('link.bin'))
  await assert.rejects(open(at('onnx', 'link.onnx')), { code: 'onnx-file/location' })
  mkdirSync(at('snapshot'))
  writeFileSync(at('blob'), onnx('link.bin'))
  symlinkSync(at('blob'), at('snapshot', 'm.onnx'))
  symlinkSync(at('secret.bin'), at('snapshot', 'link.bin'))
  await using linked = await open(at('snapshot', 'm.onnx'))
  assert.deepEqual([...(await linked.tensor('w').array())], [1, 2, 3])
})

test('of very many files each is open while it is read', async () => {
  mkdirSync(at('many'))
  const names = Array.from({ length: 70 }, (_, n) => `part${n}.safetensors`)
  for (const [n, name] of names.entries()) writeFileSync(at('many', name), await toBytes({ [`t${n}`]: new Float32Array([n]) }, { format: 'safetensors' }))
  writeFileSync(at('many', INDEX), json({ weight_map: Object.fromEntries(names.map((name, n) => [`t${n}`, name])) }))
  const file = await open(at('many'))
  assert.equal(file.sources.length, 70)
  assert.deepEqual([...(await file.tensor('t69').array())], [69])
  writeFileSync(at('many', names[69]!), 'short')
  await assert.rejects(file.tensor('t69').array(), { code: 'file/changed' })
  await file.close()
})
