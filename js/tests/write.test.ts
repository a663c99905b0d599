import assert from 'node:assert/strict'
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Simple, Tagged, encodeTensors, open, save, toBytes, type TensorsInput, type Value } from 'holdall'
import { filesOf, read } from './corpus.js'

const tensors: TensorsInput = {
  f32: { data: new Float32Array([1, 2, 3, 4, 5, 6]), shape: [2, 3] },
  bf16: { data: new Uint16Array([0x3f80, 0xc020]), dtype: 'bf16' },
  f8: { data: new Uint8Array([0x38, 0x7e]), dtype: 'F8_E4M3' },
  i64: new BigInt64Array([-1n, 2n ** 62n]),
  empty: new Float64Array(0),
  scalar: { data: new Int32Array([7]), shape: [] },
  bool: { data: new Uint8Array([1, 0, 1]), dtype: 'bool' },
}

test('files of every format that is written are read back', async () => {
  for (const format of ['ztensor', 'safetensors', 'metatensor']) {
    const bytes = await toBytes(tensors, { format, attributes: new Map([['license', 'MIT']]) })
    const file = await open(bytes)
    assert.equal(file.format, format)
    assert.equal(file.attributes.get('license'), 'MIT')
    assert.deepEqual([...file.names].sort(), Object.keys(tensors).sort())
    assert.deepEqual(file.tensor('f32').shape, [2, 3])
    assert.deepEqual(await file.tensor('f32').array(), new Float32Array([1, 2, 3, 4, 5, 6]))
    assert.equal(file.tensor('bf16').dtype, 'bf16')
    assert.deepEqual(await file.tensor('bf16').array({ as: 'f32' }), new Float32Array([1, -2.5]))
    assert.equal(file.tensor('f8').logicalType, 'f8_e4m3fn')
    assert.deepEqual(await file.tensor('i64').array(), new BigInt64Array([-1n, 2n ** 62n]))
    assert.deepEqual(await file.tensor('empty').array(), new Float64Array(0))
    assert.deepEqual(file.tensor('scalar').shape, [])
    assert.equal(file.tensor('bool').dtype, 'bool')
    const report = await file.verify()
    assert.equal(report.verdict, 'sound')
    if (format === 'ztensor') {
      assert.equal(report.unverified.no_digest, undefined)
      assert.match(file.tensor('f32').components[0]!.digest!, /^crc32c:/)
    }
  }
})

test('a buffer of Node is bytes as others are', async () => {
  const file = await open(await toBytes({ a: Buffer.from([1, 2]), b: { data: Buffer.alloc(2), dtype: 'bf16', shape: [1] } }, { format: 'safetensors' }))
  assert.deepEqual(await file.tensor('a').array(), new Uint8Array([1, 2]))
  assert.deepEqual(file.tensor('b').shape, [1])
})

test('attributes come back as they were', async () => {
  const attributes = new Map<string, Value>([
    ['null', null], ['yes', true], ['n', -5], ['big', 2n ** 63n], ['x', 1.5], ['nan', NaN], ['inf', -Infinity],
    ['bytes', new Uint8Array([0, 255])], ['list', [1, 'a', [null]]],
    ['map', new Map<Value, Value>([['$int', 1], [2, 'b'], ['__proto__', new Map()]])],
    ['tag', new Tagged(300, 'x')], ['simple', new Simple(99)], ['__proto__', 'p'], ['undefined', undefined],
  ])
  const bytes = await toBytes({ a: new Uint8Array(1) }, { format: 'ztensor', attributes })
  assert.deepEqual(new Map((await open(bytes)).attributes), attributes)
  const own = await toBytes(
    { a: { data: new Uint8Array(1), attributes: new Map([['k', 'v']]) } }, { format: 'ztensor' },
  )
  assert.equal((await open(own)).tensor('a').attributes.get('k'), 'v')
})

test('a file of the corpus that is written again says the same', async () => {
  let count = 0
  for (const path of filesOf('accept').filter((path) => /\/(safetensors|ztensor)\//.test(path))) {
    const file = await open(read(path))
    const given = new Map()
    for (const tensor of file.tensors) {
      if (tensor.layout !== 'dense' || tensor.fault !== null || tensor.dense === null) break
      given.set(tensor.name, {
        data: await tensor.bytes(), dtype: tensor.dense, shape: tensor.shape, attributes: tensor.attributes,
      })
    }
    // What has another layout, and what no element type names, is not written.
    if (given.size !== file.length || file.size > 1 << 20) continue
    let bytes
    try {
      bytes = await toBytes(given, { format: file.format, attributes: file.attributes })
    } catch (e) {
      if (['unsupported', 'misuse'].includes((e as { kind: string }).kind)) continue
      throw e
    }
    const again = await open(bytes)
    assert.deepEqual([...again.names].sort(), [...file.names].sort(), path)
    for (const tensor of again.tensors) {
      assert.deepEqual(await tensor.bytes(), await file.tensor(tensor.name).bytes(), `${path} ${tensor.name}`)
      assert.equal(tensor.dense, file.tensor(tensor.name).dense)
    }
    count += 1
  }
  assert.ok(count > 20, String(count))
})

test('what cannot be written is refused', async () => {
  const some = { a: new Float32Array(4) }
  await assert.rejects(toBytes(some, { format: 'nothing' }), { code: 'format/unknown' })
  await assert.rejects(toBytes(some, { format: 'pytorch' }), { code: 'wasm/call' })
  await assert.rejects(
    toBytes({ a: { data: new Float32Array(4), shape: [5] } }, { format: 'ztensor' }), { code: 'write/length', tensor: 'a' },
  )
  await assert.rejects(
    toBytes({ a: { data: new Float32Array(4), dtype: 'f33' } }, { format: 'ztensor' }), { code: 'wasm/call', tensor: 'a' },
  )
  await assert.rejects(
    toBytes({ a: { data: [1, 2] as never } }, { format: 'ztensor' }), { code: 'js/source', tensor: 'a' },
  )
  await assert.rejects(toBytes({ a: [1, 2] as never }, { format: 'ztensor' }), { code: 'js/source', tensor: 'a' })
  await assert.rejects(toBytes({ a: null as never }, { format: 'ztensor' }), { code: 'js/source', tensor: 'a' })
  await assert.rejects(toBytes({ a: new Int8Array(1) }, undefined as never), { code: 'write/extension' })
  await assert.rejects(
    toBytes({ a: { data: new DataView(new ArrayBuffer(1)) as never } }, { format: 'ztensor' }), { code: 'js/source' },
  )
  const plain = await open(await toBytes(some, { format: 'ztensor', attributes: { license: 'MIT', layers: 12 } }))
  assert.deepEqual([...plain.attributes], [['license', 'MIT'], ['layers', 12]])
  const attributes = new Map<string, Value>([['n', 2n ** 70n]])
  await assert.rejects(toBytes(some, { format: 'ztensor', attributes }), { code: 'js/number' })
})

test('a path gets a file when all of it is written', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdall-'))
  const path = join(folder, 'a.safetensors')
  await save(path, tensors)
  assert.equal((await open(await readFile(path))).format, 'safetensors')
  await assert.rejects(save(path, tensors), { code: 'write/exists', kind: 'misuse' })
  await writeFile(path, 'old')
  await save(path, tensors, { overwrite: true })
  assert.equal((await open(await readFile(path))).length, 7)
  await assert.rejects(save(join(folder, 'b'), tensors), { code: 'write/extension' })
  await assert.rejects(save(join(folder, 'no/b.zt'), tensors), { code: 'io/failed' })
  await assert.rejects(save(join(folder, 'c.zt'), { a: { data: new Int8Array(1), shape: [2] } }), { code: 'write/length' })
  assert.deepEqual(await readdir(folder), ['a.safetensors'])
  await rm(folder, { recursive: true })
})

test('a stream gets a file piece by piece', async () => {
  const pieces: Uint8Array[] = []
  const stream = new WritableStream<Uint8Array>({ write: (piece) => void pieces.push(piece) })
  await save(stream, tensors, { format: 'ztensor' })
  const file = await open(await new globalThis.Blob(pieces as BlobPart[]).arrayBuffer())
  assert.equal(file.length, 7)
  const seen: number[] = []
  const data = new Float32Array(3_000_000)
  for await (const piece of encodeTensors({ data }, { format: 'metatensor' })) {
    // Arrays are not copied.
    if (piece.buffer === data.buffer) seen.push(piece.length)
  }
  assert.deepEqual(seen, [12_000_000])
})
