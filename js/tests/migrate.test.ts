/** Files written anew under another schema, by one call: the same as the command writes. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, before, test } from 'node:test'
import { migrate, open, toBytes } from 'holdall'
import { diff, inspect } from 'holdall/reports'
import * as s from 'holdall/schema'
import { filesOf, root } from './corpus.js'

const command = process.env['HOLDALL'] ?? join(root, 'target/debug/holdall')
const skip = existsSync(command) ? false : `there is no ${command}`
let folder = ''
before(() => (folder = mkdtempSync(join(tmpdir(), 'holdall-'))))
after(() => rmSync(folder, { recursive: true }))

const Item = s.Struct({ price: s.Float32(), name: s.Text(), tags: s.Array(s.Int16()) })
const Old = s.Struct({
  id: s.Uint32(), items: s.Array(Item), pair: s.FixedArray(s.Struct({ v: s.Int8() }), 2), note: s.Optional(s.Text()),
  shape: s.Union('is', { circle: s.Struct({ r: s.Float32() }), square: s.Struct({ side: s.Float32() }) }),
})
const records = [
  { id: 1, items: [{ price: 1.5, name: 'a', tags: [1, 2] }, { price: 2, name: 'b', tags: [] }], pair: [{ v: 1 }, { v: 2 }], shape: { is: 'circle', r: 2 } },
  { id: 2, items: [], pair: [{ v: 3 }, { v: 4 }], note: 'n', shape: { is: 'square', side: 3 } },
  { id: 3, items: [{ price: 0, name: '', tags: [3] }], pair: [{ v: 5 }, { v: 6 }], shape: { is: 'circle', r: 1 } },
]
const written = () => toBytes({ r: { records, schema: s.toSchema(Old) }, w: new Float32Array([1, 2, 3, 4]) }, { format: 'metatensor' })

test('functions make members in arrays, in variants and under new names', async () => {
  const file = await open(await written())
  const New = s.Struct({
    id: s.Uint32(), goods: s.Array(s.Struct({ cents: s.Int64(), label: s.Text(), tags: s.Array(s.Text()) })), pair: s.FixedArray(s.Struct({ v: s.Text() }), 2),
    note: s.Optional(s.Uint8()), shape: s.Union('is', { circle: s.Struct({ r: s.Text() }), square: s.Struct({ side: s.Float32() }) }),
  })
  const calls: unknown[] = []
  const how = {
    renames: { goods: 'items', 'goods[].label': 'items[].name' },
    converters: {
      'goods[].cents': (item: any) => (calls.push(item.name), BigInt(Math.round(item.price * 100))),
      'goods[].label': (name: string) => name.toUpperCase(),
      'goods[].tags[]': (tag: number) => `t${tag}`,
      'pair[].v': (v: number) => String(v * 10), note: (note: string) => note.length, 'shape.circle.r': (r: number) => `${r} m`,
    },
  }
  const wanted = [
    { id: 1, goods: [{ cents: 150n, label: 'A', tags: ['t1', 't2'] }, { cents: 200n, label: 'B', tags: [] }], pair: [{ v: '10' }, { v: '20' }], shape: { is: 'circle', r: '2 m' } },
    { id: 2, goods: [], pair: [{ v: '30' }, { v: '40' }], note: 1, shape: { is: 'square', side: 3 } },
    { id: 3, goods: [{ cents: 0n, label: '', tags: ['t3'] }], pair: [{ v: '50' }, { v: '60' }], shape: { is: 'circle', r: '1 m' } },
  ]
  assert.deepEqual([...await file.tensor('r').records({ schema: s.toSchema(New), ...how })], wanted)
  assert.deepEqual(calls, ['a', 'b', ''])
  await assert.rejects(migrate(file, s.toSchema(New), how), { code: 'evolve/drops-member' })
  const migrated = await open(await migrate(file, s.toSchema(New), { ...how, drop: true }))
  assert.deepEqual([...await migrated.tensor('r').records()], wanted)
  assert.deepEqual(await migrated.tensor('w').array(), new Float32Array([1, 2, 3, 4]))
  assert.equal((await migrated.verify()).verdict, 'sound')
  const unknown = { ...how, converters: { ...how.converters, 'goods[].none': () => 1 } }
  await assert.rejects(migrate(file, s.toSchema(New), { ...unknown, drop: true }), { code: 'schema/unknown-path' })
})

test('tensors widen, are converted, renamed, filled with defaults, and left out if that is allowed', async () => {
  const tensors = { a: new Float32Array([1, 2]), b: new Int16Array([1, -2]), c: new Float64Array([1.5, 2.5]), d: { data: new Float32Array([1, 2, 3, 4]), shape: [2, 2] } }
  const bytes = await toBytes(tensors, { format: 'metatensor', attributes: new Map([['note', 'kept']]) })
  const tensor = (dtype: string, shape: number[], more = {}) => s.Tensor({ dtype, shape, ...more } as never)
  const schema = s.toSchema(s.References({
    a: tensor('F64', [2]), x: tensor('I16', [2]), c: tensor('BF16', [2]), d: tensor('F32', [4]),
    e: { ...tensor('I32', [3]), default: 7 } as never,
  }))
  const how = { renames: { x: 'b' }, converters: { c: 'scale(2)', d: 'reshape' } }
  const file = await open(await migrate(bytes, schema, how))
  assert.deepEqual(await file.tensor('a').array(), new Float64Array([1, 2]))
  assert.deepEqual(await file.tensor('x').array(), new Int16Array([1, -2]))
  assert.deepEqual(await file.tensor('c').array({ as: 'f32' }), new Float32Array([3, 5]))
  assert.deepEqual([file.tensor('d').shape, await file.tensor('d').array()], [[4], new Float32Array([1, 2, 3, 4])])
  assert.deepEqual(await file.tensor('e').array(), new Int32Array([7, 7, 7]))
  assert.equal(file.attributes.get('note'), 'kept')
  const made = await open(await migrate(bytes, schema, { ...how, converters: { ...how.converters, a: (a: Float32Array) => Float64Array.from(a, (x) => -x) } }))
  assert.deepEqual(await made.tensor('a').array(), new Float64Array([-1, -2]))
  await assert.rejects(migrate(bytes, schema, { ...how, converters: { ...how.converters, a: (a: Float32Array) => a } }), { code: 'js/source' })
  const less = s.toSchema(s.References({ a: tensor('F32', [2]) }))
  await assert.rejects(migrate(bytes, less), { code: 'evolve/drops-member' })
  assert.deepEqual((await open(await migrate(bytes, less, { drop: true }))).names, ['a'])
  await assert.rejects(migrate(bytes, s.toSchema(s.References({ a: tensor('I8', [2]) })), { drop: true }), { code: 'evolve/no-converter' })
})

/** Fails to compile unless both types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <T extends true>(_: T): void => {}

test('the types of what a migration gives', () => {
  const bytes = () => migrate(new Uint8Array(), {}, { drop: true })
  const nothing = () => migrate('a.mt', '{}', { to: 'b.mt', converters: { 'a[].b': (b: number) => b, c: 'cast' } })
  same<Same<ReturnType<typeof bytes>, Promise<Uint8Array>>>(true)
  same<Same<ReturnType<typeof nothing>, Promise<void>>>(true)
  // @ts-expect-error: a converter is a name or a function.
  void (() => migrate('a.mt', {}, { converters: { a: 5 } }))
  // @ts-expect-error: there is no such option.
  void (() => migrate('a.mt', {}, { dropped: true }))
})

test('a path, and the format that its name says', async () => {
  const [from, to] = [join(folder, 'old.mt'), join(folder, 'new.zt')]
  writeFileSync(from, await written())
  const schema = s.toSchema(s.Struct({ id: s.Uint64() }))
  await assert.rejects(migrate(from, schema, { to }), { code: 'evolve/drops-member' })
  assert.equal(await migrate(from, schema, { to, drop: true }), undefined)
  await assert.rejects(migrate(from, schema, { to, drop: true }), { code: 'write/exists' })
  await migrate(from, schema, { to, drop: true, overwrite: true })
  const file = await open(to)
  assert.deepEqual([file.format, [...await file.tensor('r').records<any>()]], ['ztensor', [{ id: 1n }, { id: 2n }, { id: 3n }]])
  await file.close()
})

test('a migration to the schema that a file has is the identity, and gives what the command gives', { skip }, async () => {
  let count = 0
  for (const path of filesOf('accept').filter((path) => path.endsWith('.mt'))) {
    const file = await open(new Uint8Array(readFileSync(path)))
    const schema = file.attributes.get('metatensor.schema')
    if (typeof schema !== 'string') continue
    const [own, theirs] = [join(folder, 'schema.json'), join(folder, 'out.mt')]
    writeFileSync(own, schema)
    let wanted: Uint8Array
    try {
      execFileSync(command, ['schema', 'migrate', path, own, '-o', theirs, '--force'], { stdio: 'pipe' })
      wanted = new Uint8Array(readFileSync(theirs))
    } catch {
      continue
    }
    const made = await migrate(file, schema)
    const about = basename(path)
    assert.equal((await diff(file, await open(made))).identical, true, about)
    assert.deepEqual(await migrate(made, schema), made, about)
    assert.equal((await diff(await open(wanted), await open(made))).identical, true, about)
    // Where a heap has what its records point at is the writer's choice: here it is where it was.
    const hasHeap = file.tensors.some(({ components }) => components.some(({ role }) => role === 'blob_data'))
    // Tied tensors are written twice by JavaScript and once by the command.
    const isTied = about === 'made-tied.mt'
    if (!hasHeap && !isTied) assert.equal(Buffer.compare(made, wanted), 0, about)
    count += 1
  }
  assert.ok(count > 5, `${count}`)
})

test('what a migration does is what the command does', { skip }, async () => {
  const New = s.toSchema(s.Struct({
    id: s.Uint64(), things: s.Array(s.Struct({ price: s.Float64(), name: s.Text(), tags: s.Array(s.Int32()), stars: s.Uint8({ default: 3 }) })),
    pair: s.FixedArray(s.Struct({ v: s.Int16() }), 2), note: s.Optional(s.Text()),
    shape: s.Union('is', { circle: s.Struct({ r: s.Float64() }), square: s.Struct({ side: s.Float64() }) }),
  }))
  const [from, schema, to] = [join(folder, 'from.mt'), join(folder, 'to.json'), join(folder, 'to.mt')]
  writeFileSync(from, await written())
  writeFileSync(schema, JSON.stringify(New))
  execFileSync(command, ['schema', 'migrate', from, schema, '-o', to, '--force', '--rename', 'things=items'], { stdio: 'pipe' })
  const made = await migrate(from, New, { renames: { things: 'items' } })
  assert.equal((await diff(await open(to), await open(made))).identical, true)
  assert.deepEqual((await inspect(await open(made))).unrepresented, [])
})
