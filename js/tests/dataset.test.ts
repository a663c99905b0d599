import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { diffSchemas, open, save, toBytes, type RecordsInput } from 'holdall'
import { Model, Struct, Tensor, render } from 'holdall/layout'
import { jsx } from 'holdall/jsx-runtime'
import * as s from 'holdall/schema'
import { Type } from 'typebox'
import { root } from './corpus.js'

/** The command, which `cargo xtask js` builds. */
const command = process.env['HOLDALL'] ?? join(root, 'target/debug/holdall')
const skip = existsSync(command) ? false : `there is no ${command}`
const holdall = (...args: string[]): string => execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

let folder = ''
before(() => (folder = mkdtempSync(join(tmpdir(), 'holdall-'))))
after(() => rmSync(folder, { recursive: true }))

/** A record of every kind. */
const Every = s.Struct({
  i8: s.Int8(), u64: s.Uint64(), i64: s.Int64(), f16: s.Float16(), f32: s.Float32(), f64: s.Float64(), bf16: s.BFloat16(),
  f8: s.Float8E4M3(), c64: s.Complex64(), yes: s.Boolean(), at: s.Timestamp(), text: s.Text(), maybe: s.Optional(s.Uint8()),
  bytes: s.Bytes(), kind: s.Enum(['cat', 'dog']), more: s.Record(), list: s.Array(s.Uint8()), texts: s.Array(s.Text()),
  box: s.FixedArray(s.Float32(), 2), place: s.Struct({ lat: s.Float64(), lon: s.Float64() }, { align: 'natural' }),
  shape: s.Union('is', { circle: s.Struct({ r: s.Float32() }), none: s.Struct({}) }),
  patch: s.Tensor({ dtype: 'F32', shape: [2, 2] }), points: s.Array(s.Struct({ x: s.Int16(), tag: s.Text() })),
})
const rows = (count: number): object[] => Array.from({ length: count }, (_, n) => ({
  i8: -n, u64: 2n ** 64n - 1n - BigInt(n), i64: n % 2 ? -(2n ** 63n) : n, f16: n / 4, f32: n === 0 ? NaN : n / 8, f64: n === 1 ? -0 : 1e300,
  bf16: -Infinity, f8: 1.5, c64: [n, -n], yes: n % 2 === 0, at: BigInt(n) * 1_000_000_007n - 5n, text: `é "${n}"\n`,
  ...(n % 3 === 0 ? { maybe: n } : {}), bytes: new Uint8Array(n % 5).fill(n), kind: n % 2 ? 'dog' : 'cat',
  more: { n, list: [1, 'a', null] }, list: new Uint8Array([n, 1]), texts: n % 2 ? [] : ['a', 'b'],
  box: new Float32Array([n, 0.5]), place: { lat: n, lon: -n }, shape: n % 2 ? { is: 'circle', r: n } : { is: 'none' },
  patch: new Float32Array([1, 2, 3, n]), points: [{ x: n, tag: 't' }, { x: -1, tag: '' }],
}))

test('records of every kind are read back, and written again as the same bytes', async () => {
  const schema = s.toSchema(Every)
  for (const format of ['metatensor', 'ztensor']) {
    const bytes = await toBytes({ every: { records: rows(20), schema }, w: new Float32Array([1]) }, { format })
    const file = await open(bytes)
    assert.equal((await file.verify()).verdict, 'sound')
    const records = await file.tensor('every').records<any>()
    assert.equal(records.length, 20)
    const { text, at, u64, maybe, bytes: blob, shape } = records.at(3)
    assert.deepEqual([text, at, u64, maybe, blob, shape.is], ['é "3"\n', 3_000_000_016n, 2n ** 64n - 4n, 3, new Uint8Array(3).fill(3), 'circle'])
    assert.ok(Object.is(records.at(1).f64, -0))
    const again = Array.from({ length: 20 }, (_, n) => records.at(n))
    assert.deepEqual(await toBytes({ every: { records: again, schema }, w: new Float32Array([1]) }, { format }), bytes)
    const lines = await file.tensor('every').lines()
    assert.deepEqual(await toBytes({ every: { records: lines, schema }, w: new Float32Array([1]) }, { format }), bytes)
  }
})

test('columns are records', async () => {
  const schema = s.toSchema(s.Struct({ id: s.Uint32(), at: s.Struct({ lat: s.Float64(), 'a.b': s.Text() }), note: s.Optional(s.Text()) }))
  const columns = { id: new Uint32Array([1, 2]), 'at.lat': new Float64Array([0.5, 1]), 'at.a\\.b': ['x', 'y'], note: ['n', undefined] }
  const records = [{ id: 1, at: { lat: 0.5, 'a.b': 'x' }, note: 'n' }, { id: 2, at: { lat: 1, 'a.b': 'y' } }]
  const written = (input: RecordsInput) => toBytes({ people: { ...input, schema } }, { format: 'metatensor' })
  assert.deepEqual(await written({ columns }), await written({ records }))
  async function* later() { yield* records }
  assert.deepEqual(await written({ records: later() }), await written({ records }))
  await assert.rejects(written({ columns: { id: [1], note: [] } }), { code: 'write/length', found: /`note` has 0 values, `id` has 1/ })
})

test('a file of a schema has its datasets there, and records that do not fit are refused', async () => {
  const schema = s.toSchema(s.References({ w: s.Tensor(), rows: s.Array(s.Struct({ x: s.Uint8() })) }))
  const made = (records: (object | string)[]) =>
    toBytes({ w: new Float32Array(1), rows: { records } }, { format: 'metatensor', schema })
  const file = await open(await made([{ x: 1 }, '{"x":\n2}']))
  assert.deepEqual(await file.tensor('rows').lines(), ['{"x":1}', '{"x":2}'])
  for (const [record, code] of [
    [{ x: 300 }, 'record/range'], [{ y: 1 }, 'record/unknown-member'], [{}, 'record/missing-member'], ['{', 'json/truncated'],
  ] as const) {
    await assert.rejects(made([{ x: 1 }, record]), (e) => {
      assert.equal((e as { code: string }).code, code, String(e))
      assert.match(String(e), /record 1/)
      return true
    })
  }
  await assert.rejects(toBytes({ rows: { records: [] } }, { format: 'metatensor' }), { code: 'js/source' })
  await assert.rejects(toBytes({ rows: { records: [], schema: s.Struct({ x: s.Int8() }) } }, { format: 'safetensors' }))
})

test('records have the bytes that the command writes', { skip }, async () => {
  const path = (name: string) => join(folder, name)
  writeFileSync(path('schema.json'), JSON.stringify(s.toSchema(Every)))
  await save(path('js.zt'), { every: { records: rows(50), schema: s.toSchema(Every) } })
  await using file = await open(path('js.zt'))
  const lines = await file.tensor('every').lines()
  writeFileSync(path('lines.ndjson'), lines.join('\n'))
  for (const extension of ['mt', 'zt']) {
    await save(path(`js.${extension}`), { every: { records: rows(50), schema: s.toSchema(Every) } }, { overwrite: true })
    holdall('build', '--schema', path('schema.json'), '--path', 'every', '--records', path('lines.ndjson'), '--encoding', 'raw',
      ...(extension === 'zt' ? ['--digest', 'crc32c'] : []), '-o', path(`command.${extension}`))
    assert.deepEqual(readFileSync(path(`js.${extension}`)), readFileSync(path(`command.${extension}`)), extension)
    holdall('verify', path(`js.${extension}`))
  }
})

/** The concept's model: what its two layers have. */
const LAYERS: [string, number[]][] = [['weight', [20, 1, 5, 5]], ['bias', [20]], ['running_mean', [20]], ['running_var', [20]]]

test('the model of the concept in TypeBox, builders and JSX is one file, which goes to another schema and back', { skip }, async () => {
  const tensor = (shape: number[], dtype: s.DType = 'F32') => s.Tensor({ dtype, shape })
  const own = Object.fromEntries(LAYERS.map(([name, shape]) => [name, tensor(shape)]))
  const builders = s.toSchema(s.References({ conv1: s.References(own), conv2: s.References(own) }))
  const typebox = s.toSchema(Type.Object({ conv1: Type.Object(own), conv2: Type.Object(own) }))
  const layer = (name: string) => jsx(Struct, {
    name, children: LAYERS.map(([name, shape]) => jsx(Tensor, { name, dtype: 'F32', shape })),
  })
  const tree = render(jsx(Model, { children: [layer('conv1'), layer('conv2')] })).schema
  for (const other of [typebox, tree]) assert.deepEqual((await diffSchemas(builders, other)).changes, [])
  const arrays = Object.fromEntries(['conv1', 'conv2'].flatMap((layer, at) => LAYERS.map(([name, shape]) => {
    const data = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, n) => n * (at + 1) / 8)
    return [`${layer}.${name}`, { data, shape }]
  })))
  const path = (name: string) => join(folder, name)
  const files = await Promise.all([builders, typebox, tree].map((schema) => toBytes(arrays, { format: 'metatensor', schema })))
  const tensors = async (bytes: Uint8Array) => {
    const file = await open(bytes)
    return Promise.all(file.tensors.map(async (one) => [one.name, one.dtype, one.shape, await one.array()]))
  }
  for (const bytes of files) assert.deepEqual(await tensors(bytes), await tensors(files[0]!))
  writeFileSync(path('model.mt'), files[0]!)
  assert.match(holdall('verify', path('model.mt')), /sound/)

  // Wider numbers, one member more and one less; then back.
  const wide = Object.fromEntries(LAYERS.map(([name, shape]) => [name, tensor(shape, name === 'bias' ? 'F64' : 'F32')]))
  const next = s.toSchema(s.References({
    conv1: s.References({ ...wide, note: s.Optional(s.Tensor({ dtype: 'U8', shape: [null] })) }), conv2: s.References(wide),
  }))
  assert.equal((await diffSchemas(builders, next)).bump, 'minor')
  writeFileSync(path('next.json'), JSON.stringify(next))
  writeFileSync(path('schema.json'), JSON.stringify(builders))
  holdall('schema', 'migrate', path('model.mt'), path('next.json'), '-o', path('next.mt'))
  const moved = await open(path('next.mt'))
  assert.equal(moved.tensor('conv1.bias').dtype, 'f64')
  assert.deepEqual(await moved.tensor('conv2.bias').array(), Float64Array.from(arrays['conv2.bias']!.data))
  await moved.close()
  holdall('schema', 'migrate', path('next.mt'), path('schema.json'), '--convert', 'conv1.bias=cast', '--convert', 'conv2.bias=cast', '-o', path('back.mt'))
  assert.deepEqual(await tensors(readFileSync(path('back.mt'))), await tensors(files[0]!))
})

test('blobs are written: what they hold is what the first run is, and every run is checked', async () => {
  const blobs = {
    texts: { runs: ['a', '', 'é'] },
    pictures: { runs: [new Uint8Array([1, 2, 3]), new Uint8Array(0)] },
    vectors: { runs: [new Float32Array([1, 2]), new Float32Array([3])] },
    values: { runs: [{ a: 2n ** 63n }, null, [1.5]], content: 'json' },
    none: { runs: [] },
    w: new Float32Array([1]),
  }
  for (const format of ['metatensor', 'ztensor']) {
    const file = await open(await toBytes(blobs, { format }))
    assert.deepEqual(await file.verify().then(({ verdict, findings }) => [verdict, findings]), ['sound', []])
    const heap = (name: string) => file.tensor(name).bytes({ role: 'blob_data' }).then((bytes) => new TextDecoder().decode(bytes))
    assert.equal(await heap('texts'), 'aé')
    assert.equal(await heap('values'), '{"a":9223372036854775808}null[1.5]')
    assert.deepEqual(await file.tensor('pictures').bytes({ role: 'blob_data' }), new Uint8Array([1, 2, 3]))
    assert.deepEqual([...new BigUint64Array((await file.tensor('vectors').bytes({ role: 'entries' })).slice().buffer)], [0n, 8n, 8n, 4n])
    assert.deepEqual(['texts', 'vectors', 'none'].map((name) => [file.tensor(name).layout, file.tensor(name).count]), [['blob', 3], ['blob', 2], ['blob', 0]])
  }
  const bad = (runs: unknown[], content?: string) =>
    toBytes({ b: { runs, content } }, { format: 'metatensor' }).then(() => 'written', (e) => `${e.code} ${/run \d/.exec(e.message)?.[0]}`)
  assert.equal(await bad(['a', new Uint8Array([0xff])]), 'record/utf8 run 1')
  assert.equal(await bad([new Uint8Array(5)], 'F32'), 'record/entry-length run 0')
  assert.equal(await bad(['a', {}]), 'js/source run 1')
  assert.equal(await bad(['abcd'], 'F32'), 'js/source run 0')
  assert.equal(await bad([new Float32Array(1), new Float64Array(1)]), 'js/source run 1')
  // One array, filled anew for each run.
  const room = new Uint8Array(1)
  function* refilled() {
    for (room[0] = 1; room[0]! < 4; room[0]!++) yield room
  }
  const made = await toBytes({ b: { runs: refilled() } }, { format: 'metatensor' })
  await using own = await open(made)
  assert.deepEqual(await own.tensor('b').bytes({ role: 'blob_data' }), new Uint8Array([1, 2, 3]))
  assert.equal(await bad([], 'no such'), 'wasm/call undefined')
})

test('blobs are what the command reads', { skip }, async () => {
  const path = join(folder, 'blobs.mt')
  await save(path, { texts: { runs: ['one', 'two'] }, more: { runs: [{ n: 1 }], content: 'json' } }, { overwrite: true })
  assert.match(holdall('records', path, '--path', 'texts'), /0  one\n1  two\n/)
  assert.match(holdall('records', path, '--path', 'more'), /0  \{"n":1\}\n/)
})

test('texts of a column are those of the records, however long and whatever they are', async () => {
  const schema = s.toSchema(s.Struct({ name: s.Text(), note: s.Optional(s.Text()), data: s.Bytes() }))
  const texts = ['', 'a', 'é', '日本', '😀😀', '\ufeffmark', '\0', 'x'.repeat((1 << 20) + 7), 'after', `${'é'.repeat(1 << 19)}`, '😀'.repeat(1 << 18), 'end']
  const records = texts.map((name, n) => ({ name, ...(n % 3 === 0 ? {} : { note: [...name].slice(0, 9).join('') }), data: new Uint8Array([0xe2, 0xff, n]) }))
  const rows = await (await open(await toBytes({ r: { records, schema } }, { format: 'metatensor' }))).tensor('r').records<any>()
  assert.deepEqual(rows.column('name'), texts)
  assert.deepEqual(rows.column('note'), records.map(({ note }) => note))
  assert.deepEqual([...rows].map((row) => row.name), texts)
})
