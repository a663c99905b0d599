/** Metatensor as its author writes it: the concept's own tree and schemas, records as plain data, one verdict of all who check. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import * as legacy from '@sinclair/typebox'
import { Value as LegacyValue } from '@sinclair/typebox/value'
import { headerSchema, open, outlineSchema, toBytes, type Records } from 'holdall'
import { ArrayOf, Field, Model, Struct, Tensor, reconcile, render } from 'holdall/layout'
import { diff } from 'holdall/reports'
import * as s from 'holdall/schema'
import { type } from 'holdall/typebox-0.34'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { filesOf, root } from './corpus.js'
import { readFileSync } from 'node:fs'

const command = process.env['HOLDALL'] ?? join(root, 'target/debug/holdall')
const skip = existsSync(command) ? false : `there is no ${command}`
let folder = ''
before(() => (folder = mkdtempSync(join(tmpdir(), 'holdall-'))))
after(() => rmSync(folder, { recursive: true }))

/** The header of a file of Metatensor. */
function header(bytes: Uint8Array): any {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true))
  return JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)))
}
const written = (tensors: Parameters<typeof toBytes>[0], schema?: object | string) =>
  toBytes(tensors, { format: 'metatensor', ...(schema === undefined ? {} : { schema }) })

// ---- the concept's own tree

const layer = (
  <Struct>
    <Field name="weight"><Tensor dtype="f32" shape={[20, 1, 5, 5]} /></Field>
    <Field name="bias"><Tensor dtype="f32" shape={[20]} /></Field>
    <Field name="running_mean"><Tensor dtype="f32" shape={[20]} /></Field>
    <Field name="running_var"><Tensor dtype="f32" shape={[20]} /></Field>
  </Struct>
)
const ModelLayout = (
  <Struct name="ConvNet">
    <Field name="conv1">{layer}</Field>
    <Field name="conv2">{layer}</Field>
  </Struct>
)

test("the concept's own tree renders", async () => {
  const { schema, tensors, place } = render(ModelLayout)
  const tensor = (shape: number[]) => s.Tensor({ dtype: 'F32', shape })
  const own = s.References({ weight: tensor([20, 1, 5, 5]), bias: tensor([20]), running_mean: tensor([20]), running_var: tensor([20]) })
  assert.deepEqual(schema, s.toSchema(s.References({ conv1: own, conv2: own }, { title: 'ConvNet' })))
  assert.deepEqual(tensors.map(({ name }) => name).slice(0, 2), ['conv1.weight', 'conv1.bias'])
  assert.equal((await place()).tensors.length, 8)
  const dataset = (
    <Model>
      <ArrayOf name="samples">
        <Struct description="one"><Field name="x"><Tensor dtype="f32" shape={[4]} /></Field><Field name="label" type={s.Uint8()} /></Struct>
      </ArrayOf>
    </Model>
  )
  const record = s.Struct({ x: s.Tensor({ dtype: 'F32', shape: [4] }), label: s.Uint8() }, { description: 'one' })
  assert.deepEqual(render(dataset).schema, s.toSchema(s.References({ samples: s.Array(record) })))
})

test('the properties of an element are in the schema, or refused with its path', async () => {
  const of = (more: object) => <Model><ArrayOf name="r"><Field name="x" type={s.Int8()} {...more} /></ArrayOf></Model>
  const member = (tree: ReturnType<typeof of>) => (render(tree).schema as any).properties.r.items.properties.x
  for (const [name, value] of Object.entries({ default: 5, align: 64, description: 'd', title: 't', minimum: 3, 'x-unit': 'm' })) {
    assert.equal(member(of({ [name]: value }))[name], value, name)
  }
  const changed = async (more: object) => (await reconcile(of({}), of(more))).changes.map(({ change, verdict }) => [change, verdict])
  assert.deepEqual(await changed({ default: 5 }), [['default', 'compatible']])
  assert.deepEqual(await changed({ align: 64 }), [['align', 'compatible']])
  const added = await reconcile(of({}), (
    <Model><ArrayOf name="r"><Field name="x" type={s.Int8()} /><Field name="y" type={s.Int8()} default={7} /></ArrayOf></Model>
  ))
  assert.deepEqual([added.bump, added.changes.map(({ change, verdict }) => [change, verdict])], ['minor', [['added', 'compatible']]])
  assert.equal((render(<Model><Tensor name="x" dtype="F32" shape={[1]} default={1} /></Model>).schema as any).properties.x.default, 1)
  assert.deepEqual(
    (render(<Model><Tensor name="x" dtype={['f32', 'i16']} /></Model>).schema as any).properties.x['TypeDef:Tensor'].dtype, ['F32', 'I16'])
  const x = <Tensor name="x" dtype="F32" shape={[1]} />
  const refused: [any, RegExp][] = [
    [<Model><ArrayOf name="r" of={s.Int8()}><Field name="x" type={s.Int8()} /></ArrayOf></Model>, /`ArrayOf` at `r`: it has `of`, and children/],
    [<Model><Tensor name="a" dtype="F32" shape={[1]} {...{ children: [x] }} /></Model>, /`Tensor` at `a`: it has children/],
    [<Model><Struct name="a" align={64}>{x}</Struct></Model>, /`Struct` at `a`: `align` says nothing/],
    [<Model><Struct name="a" default={5}>{x}</Struct></Model>, /`Struct` at `a`: `default` says nothing/],
    [<Model><Struct name="a"><Tensor dtype="F32" /></Struct></Model>, /`Tensor` at `a`: it has no `name`/],
    [<Model><Field name="a" /></Model>, /`Field` at `a`: it has neither/],
    [<Model><Field name="a">{x}</Field></Model>, /`Field` at `a`: its child has another name, `x`/],
    [<Model><Field name="a" title="t"><Tensor title="u" /></Field></Model>, /says `title`, too/],
    [<Model>{x}{x}</Model>, /two members are called `x`/],
  ]
  for (const [tree, found] of refused) assert.throws(() => render(tree), found)
})

// ---- records are plain data

/** Writes records, reads them, and writes what was read: the same lines, and the same values. */
async function again(kind: s.Kind<any>, records: (object | string)[]): Promise<any[]> {
  const schema = s.toSchema(kind)
  const bytes = await written({ r: { records, schema } })
  const tensor = (await open(bytes)).tensor('r')
  const read: Records<any> = await tensor.records()
  const second = await written({ r: { records: [...read], schema } })
  const other = (await open(second)).tensor('r')
  assert.deepEqual(await other.lines(), await tensor.lines())
  assert.deepEqual([...await other.records()], [...read])
  return [...read]
}

test('records that were read are plain data, and are written again as they were', async () => {
  const cases: [s.Kind<any>, (object | string)[]][] = [
    [s.Struct({ x: s.FixedArray(s.Boolean(), 3), v: s.Array(s.Boolean()) }), [{ x: [true, false, true], v: [true] }]],
    [s.Struct({ t: s.Tensor({ dtype: 'BOOL', shape: [2] }) }), [{ t: { data: [true, false] } }]],
    [s.Struct({ t: s.Tensor({ dtype: 'C64', shape: [2] }) }), [{ t: { data: [[1, 2], [3, 4]] } }]],
    [s.Struct({ t: s.Tensor({ dtype: 'F4', shape: [2] }) }), [{ t: { data: [1, 0.5] } }]],
    [s.Struct({ t: s.Tensor({ dtype: 'I64', shape: [2] }) }), [{ t: { data: [9007199254740993n, -1n] } }]],
    [s.Struct({ t: s.Timestamp(), l: s.Array(s.Timestamp()) }), [{ t: '2024-05-01T10:00:00.000000001Z', l: ['1677-09-21T00:12:43.145224192Z', '2262-04-11T23:47:16.854775807Z'] }, { t: new Date(0), l: [] }]],
    [s.Struct({ c: s.Complex64(), l: s.Array(s.Complex128()) }), [{ c: [1, -0], l: [[NaN, Infinity]] }]],
    [s.Struct({ a: s.Float32(), c: s.Float32(), d: s.Float16(), e: s.Float8E5M2(), f: s.BFloat16() }), [{ a: NaN, c: -0, d: 0.1, e: 0.1, f: 0.1 }]],
    [s.Struct({ toJSON: s.Int8(), constructor: s.Int8(), valueOf: s.Text() }), [{ toJSON: 5, constructor: 6, valueOf: 'x' }]],
    [s.Struct([['__proto__', s.Int8()], ['b', s.Int8()]]), [JSON.parse('{"__proto__":5,"b":6}')]],
    [s.Struct([['10', s.Int8()], ['2', s.Int16()]]), [{ 2: 300, 10: 1 }]],
    [s.Struct({ u: s.Union('toJSON', { a: s.Struct({ r: s.Int8() }), b: s.Struct({ t: s.Text() }) }) }), [{ u: { toJSON: 'a', r: 1 } }, { u: { t: 'x', toJSON: 'b' } }]],
    [s.Struct({ b: s.Bytes() }), [{ b: new Uint8Array([0, 255]) }, { b: 'AP8=' }, { b: Buffer.from([0, 255]) }, { b: new Uint8Array([0, 255]).buffer }]],
    [s.Struct({ m: s.Record() }), [{ m: { a: 9007199254740993n, b: [1, { c: null }], 10: 1 } }]],
    [s.Struct({ e: s.Optional(s.Int8()), n: s.Optional(s.Struct({ a: s.Int8() })) }), [{ e: undefined }, { n: { a: 1 } }]],
    [s.Struct({ a: s.Int8(), z: s.Struct({}) }), [{ a: 1, z: {} }]],
    [s.Struct({ a: s.Array(s.Array(s.Text())) }), [{ a: [['x', ''], []] }]],
    [s.Struct({ a: s.Int64(), u: s.Uint64(), l: s.Array(s.Int64()) }), [{ a: -(2n ** 63n), u: 2n ** 64n - 1n, l: [9007199254740993n] }]],
    [s.Struct({ a: s.Int64(), s: s.Text() }), ['{"a": 9007199254740993,\n "s":"x\\u0000"}', { a: 1, s: '\ufeffx' }]],
  ]
  for (const [kind, records] of cases) {
    for (const record of await again(kind, records)) {
      assert.equal(Object.getPrototypeOf(record), Object.prototype)
      assert.deepEqual(structuredClone(record), record)
      assert.deepEqual({ ...record }, record)
    }
  }
  const [plain] = await again(s.Struct({ id: s.Uint32(), name: s.Text(), at: s.Struct({ lat: s.Float64() }), tag: s.Optional(s.Enum(['a'])) }), [
    { id: 1, name: 'x', at: { lat: 0.5 } },
  ])
  assert.deepEqual(Object.keys(plain), ['id', 'name', 'at'])
  const T = Type.Object({ id: s.Uint32(), name: s.Text(), at: s.Struct({ lat: s.Float64() }) })
  assert.ok(Value.Check(T, plain))
})

test('records of a file that was opened from a Buffer are written again, and columns as they come', async () => {
  const kind = s.Struct({ id: s.Uint32(), image: s.Bytes(), on: s.Boolean() })
  const schema = s.toSchema(kind)
  const bytes = Buffer.from(await written({ r: { records: [{ id: 1, image: Buffer.from('abc'), on: true }], schema } }))
  const records = await (await open(bytes)).tensor('r').records<any>()
  assert.deepEqual(Buffer.from(await written({ r: { records, schema } })), bytes)
  const columns = Object.fromEntries(['id', 'image', 'on'].map((name) => [name, records.column(name)]))
  assert.deepEqual(Buffer.from(await written({ r: { columns, schema } })), bytes)
  assert.deepEqual(Buffer.from(await written({ r: { columns: { ...columns, on: new Uint8Array([1]) }, schema } })), bytes)
  // A required struct whose members are all absent is there.
  const empty = s.toSchema(s.Struct({ at: s.Struct({ lat: s.Optional(s.Int8()) }), off: s.Optional(s.Struct({ a: s.Optional(s.Int8()) })) }))
  const made = await open(await written({ r: { columns: { 'at.lat': [undefined, 1], 'off.a': [undefined, undefined] }, schema: empty } }))
  assert.deepEqual(await made.tensor('r').lines(), ['{"at":{}}', '{"at":{"lat":1}}'])
})

/** Fails to compile unless both types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <T extends true>(_: T): void => {}

test('the types of records are what comes', async () => {
  const P = s.Struct({
    id: s.Uint64(), when: s.Timestamp(), raw: s.Bytes(), list: s.Array(s.Int8()), texts: s.Array(s.Text()), on: s.Array(s.Boolean()),
    t: s.Tensor({ dtype: 'F64', shape: [1] }), m: s.Optional(s.Float32()), u: s.Union('is', { a: s.Struct({ x: s.Int64() }) }),
  })
  type P = s.Static<typeof P>
  same<Same<P['id'], bigint>>(true)
  same<Same<P['when'], bigint>>(true)
  same<Same<P['raw'], Uint8Array>>(true)
  same<Same<P['list'], Int8Array>>(true)
  same<Same<P['texts'], string[]>>(true)
  same<Same<P['t'], Float64Array>>(true)
  same<Same<P['m'], number | undefined>>(true)
  same<Same<P['u'], { is: 'a'; x: bigint }>>(true)
  type J = s.StaticJson<typeof P>
  same<Same<J['id'], number>>(true)
  same<Same<J['raw'], string>>(true)
  same<Same<J['list'], number[]>>(true)
  const record = { id: 1n, when: 5n, raw: new Uint8Array([1]), list: new Int8Array([1]), texts: ['a'], on: [true], t: new Float64Array([2]), u: { is: 'a', x: 3n } }
  const bytes = await written({ p: { records: [record], schema: s.toSchema(P) } })
  const p = (await (await open(bytes)).tensor('p').records<P>()).at(0)
  assert.deepEqual(p, record)
})

// ---- blobs

test('a run of a blob is what it holds, by one call', async () => {
  const blob = async (content: string | undefined, runs: unknown[]) => (await open(await written({ t: { runs, ...(content === undefined ? {} : { content }) } }))).tensor('t')
  const texts = await blob(undefined, ['é', '', 'three'])
  assert.deepEqual([await texts.run(0), await texts.run(1), await texts.run(-1)], ['é', '', 'three'])
  assert.deepEqual(await (await blob('json', [{ a: [1, null] }])).run(0), { a: [1, null] })
  assert.deepEqual(await (await blob(undefined, [Buffer.from('ab')])).run(0), new Uint8Array([97, 98]))
  assert.deepEqual(await (await blob('F32', [[1, 2], new Float32Array([3])])).run(0), new Float32Array([1, 2]))
  assert.deepEqual(await (await blob('BF16', [new Uint16Array([0x3f80])])).run(0), new Float32Array([1]))
  assert.deepEqual(await (await blob('I64', [[1n]])).run(0), new BigInt64Array([1n]))
  for (const [content, run] of [
    ['F32', new Int32Array([1])], ['F32', new Float64Array([1])], ['F16', new Int16Array([1])], ['U8', [300]], ['I8', [1.5]], ['I64', [1]],
    ['utf-8', new Float32Array([1])], ['F32', ['a']],
  ] as const) {
    await assert.rejects(blob(content, [run]), { code: 'js/source' }, `${content} ${run}`)
  }
  await assert.rejects(texts.run(3), { code: 'records/index' })
})

test('half a surrogate pair is refused wherever a text is written', async () => {
  const lone = 'x\ud800'
  const schema = s.toSchema(s.Struct({ s: s.Text() }))
  const code = { code: 'json/surrogate' }
  await assert.rejects(written({ t: { runs: [lone] } }), code)
  await assert.rejects(written({ r: { records: [{ s: lone }], schema } }), code)
  await assert.rejects(written({ r: { records: [`{"s":"${lone}"}`], schema } }), code)
  await assert.rejects(written({ r: { columns: { s: [lone] }, schema } }), code)
  await assert.rejects(written({ [lone]: new Float32Array(1) }), code)
  await assert.rejects(outlineSchema(s.toSchema(s.Struct({ e: s.Enum([lone, 'b']) }))), code)
  await assert.rejects(outlineSchema(`{"title":"${lone}","TypeDef:Int8":true}`), code)
})

// ---- schemas

test('defaults of 64 bits and -0 are exact', async () => {
  const exact = '{"type":"object","TypeDef:Struct":["id","b","f"],"required":["id","b","f"],"properties":{"id":{"type":"integer","TypeDef:Uint32":true},"b":{"type":"integer","TypeDef:Int64":true,"default":9007199254740993},"f":{"type":"number","TypeDef:Float32":true,"default":-0.0}}}'
  const lines = async (schema: object | string) => (await open(await written({ r: { records: [{ id: 1 }], schema } }))).tensor('r').lines()
  assert.deepEqual(await lines(exact), ['{"id":1,"b":9007199254740993,"f":-0.0}'])
  const kinds = s.Struct({ id: s.Uint32(), b: s.Int64({ default: 9007199254740993n }), f: s.Float32({ default: -0 }) })
  assert.deepEqual(await lines(s.toSchema(kinds)), ['{"id":1,"b":9007199254740993,"f":-0.0}'])
  assert.match(s.schemaText(s.toSchema(kinds)), /9007199254740993/)
})

test('what typedef.ts of the concept writes is read, or refused', async () => {
  const Kind = legacy.Kind
  const of = (kind: string, more: object = {}, metadata?: object): any =>
    ({ [Kind]: `TypeDef:${kind}`, ...more, ...(metadata === undefined ? {} : { metadata }) })
  const struct = (properties: object, metadata?: object) => of('Struct', { properties }, metadata)
  const float = of('Float32', { type: 'float32' }, { align: 256, default: 1.5 })
  const schema = s.toSchema(struct({ a: of('Uint8', { type: 'uint8' }), x: float, m: of('Record', { values: of('Float32', { type: 'float32' }) }) }, { additionalProperties: false, title: 't' }))
  const { a: _, x, m } = schema['properties'] as any
  assert.deepEqual([x.align, x.default, 'metadata' in x, schema['title']], [256, 1.5, false, 't'])
  assert.deepEqual(m.additionalProperties, { type: 'number', 'TypeDef:Float32': true })
  assert.ok(!('values' in m))
  assert.equal((await outlineSchema(schema)).find(({ path }) => path === 'x')!.align, 256)
  assert.throws(() => s.toSchema(struct({ 10: float, 2: float })), /the order of `2`, `10` is lost/)
  assert.throws(() => s.toSchema(struct({ a: float }, { additionalProperties: true })), /additionalProperties/)
})

const TensorRef = Type.Object({
  dtype: Type.Union([Type.Literal('F32'), Type.Literal('I16')]), shape: Type.Array(Type.Number()),
  data_offsets: Type.Tuple([Type.Number(), Type.Number()]),
})
const Layer = Type.Object({ weight: TensorRef })

test('the list of dtypes of a printed reference is enforced', async () => {
  const Own = Type.Object({ conv1: Layer }, { additionalProperties: false })
  const data = { 'conv1.weight': { data: new Float32Array([1, 2]), shape: [1, 2] } }
  const bytes = await written(data, Own)
  assert.deepEqual(header(bytes).schema, JSON.parse(JSON.stringify(Own)))
  assert.ok(Value.Check(Own, header(bytes).tensors))
  await assert.rejects(written({ 'conv1.weight': new Float64Array([1]) }, Own), { code: 'metatensor/schema-fit', found: /the dtype is F64, expected F32, I16/ })
  const wrong = readFileSync(join(root, 'crates/holdall-cli/tests/metatensor_cases/dtype-outside-list.mt'))
  await assert.rejects(open(wrong), { code: 'metatensor/dtype' })
})

test('schemas of TypeBox are those of files', async () => {
  const float = new Float32Array(1)
  const accepted: [string, object, object][] = [
    ['record', { x: float, 'y\\.z': float }, Type.Record(Type.String(), TensorRef)],
    ['layers', { 'layers[0].weight': float, 'layers[1].weight': float }, Type.Object({ layers: Type.Array(Layer) })],
    ['optional', { 'conv1.weight': float }, Type.Object({ conv1: Type.Object({ weight: TensorRef, bias: Type.Optional(TensorRef) }) })],
    ['module', { 'conv1.weight': float }, s.toSchema(Type.Module({
      TensorRef, Layer: Type.Object({ weight: Type.Ref('TensorRef') }), Model: Type.Object({ conv1: Type.Ref('Layer') }),
    }).Model)],
    ['import', { 'conv1.weight': float }, s.toSchema(legacy.Type.Module({
      Layer: legacy.Type.Object({ weight: legacy.Type.Unsafe(JSON.parse(JSON.stringify(TensorRef))) }),
      Model: legacy.Type.Object({ conv1: legacy.Type.Ref('Layer') }),
    }).Import('Model'))],
    ['old record', { x: float }, s.toSchema(legacy.Type.Record(legacy.Type.String(), legacy.Type.Unsafe(JSON.parse(JSON.stringify(TensorRef)))))],
  ]
  for (const [name, tensors, schema] of accepted) {
    const bytes = await written(tensors as any, schema).catch((e) => assert.fail(`${name}: ${e}`))
    const { header_schema: own, schema: author, tensors: found } = header(bytes)
    assert.ok(Value.Check(own ?? author, found), name)
  }
})

test('the header of a file is valid by its header schema', async () => {
  let count = 0
  for (const [path, bytes] of filesOf('accept').map((path) => [path, readFileSync(path)] as const)) {
    if (!path.endsWith('.mt')) continue
    const own = header(bytes)
    if (typeof own.metatensor !== 'string') continue
    const derived = await headerSchema(JSON.stringify(own.schema))
    assert.ok(Value.Check(derived as any, own.tensors), path)
    count += 1
  }
  assert.ok(count > 20)
  const Docs = s.References({ docs: s.Array(s.Struct({ t: s.Text() })), texts: s.Blob('utf-8') })
  const bytes = await written({ docs: { records: [{ t: 'a' }] }, texts: { runs: ['x'] } }, s.toSchema(Docs))
  const { header_schema: own, tensors } = header(bytes)
  assert.ok(Value.Check(own, tensors))
  assert.ok(!Value.Check(own, { ...(tensors as object), docs: [] }))
})

test('the same records are the same wherever the heap has them', async () => {
  const cases = (name: string) => open(new Uint8Array(readFileSync(join(root, 'crates/holdall-cli/tests/metatensor_cases', name))))
  assert.equal((await diff(await cases('dd1.mt'), await cases('dd2.mt'))).identical, true)
  const schema = s.toSchema(s.Struct({ t: s.Text(), m: s.Record() }))
  const file = async (records: string[]) => open(await written({ r: { records, schema } }))
  const one = () => file(['{"t":"a","m":{"x":1,"y":2}}'])
  assert.equal((await diff(await one(), await file(['{"m":{"y": 2,"x":1},"t":"a"}']))).identical, true)
  assert.equal((await diff(await one(), await file(['{"m":{"y": 3,"x":1},"t":"a"}']))).identical, false)
  assert.equal((await diff(await one(), await file(['{"m":{"y": 9007199254740993,"x":1},"t":"a"}']))).identical, false)
})

// ---- evolution

test('records are read under another schema', async () => {
  const schema = s.toSchema(s.Struct({ id: s.Int32(), text: s.Text(), old: s.Int8(), kind: s.Enum(['cat', 'dog']), at: s.Struct({ x: s.Float32() }) }))
  const records = [{ id: 1, text: 'a,b', old: 2, kind: 'dog', at: { x: 0.5 } }, { id: 2, text: '', old: 3, kind: 'cat', at: { x: 1 } }]
  const file = await open(await written({ r: { records, schema } }))
  const New = s.Struct({
    id: s.Int64(), caption: s.Text(), tags: s.Array(s.Text()), kind: s.Enum(['bird', 'dog', 'cat']), score: s.Float32({ default: 0.25 }),
    at: s.Struct({ x: s.Float64(), y: s.Optional(s.Float64()) }), both: s.Int32(), when: s.Timestamp(),
  })
  const read = await file.tensor('r').records<s.Static<typeof New>>({
    schema: s.toSchema(New), renames: { caption: 'text', tags: 'text' },
    converters: { tags: 'split(",")', both: (record: any) => record.id + record.old, when: ({ id }: any) => BigInt(id) },
  })
  assert.deepEqual(read.at(0), { id: 1n, caption: 'a,b', tags: ['a', 'b'], kind: 'dog', score: 0.25, at: { x: 0.5 }, both: 3, when: 1n })
  assert.deepEqual(read.at(1), { id: 2n, caption: '', tags: [], kind: 'cat', score: 0.25, at: { x: 1 }, both: 5, when: 2n })
  // The read records are written as the new file.
  const migrated = await open(await written({ r: { records: read, schema: s.toSchema(New) } }))
  assert.deepEqual([...await migrated.tensor('r').records()], [...read])
  await assert.rejects(file.tensor('r').records({ schema: s.toSchema(s.Struct({ id: s.Text() })) }), { code: 'evolve/no-converter' })
  await assert.rejects(file.tensor('r').records({ schema: s.toSchema(s.Struct({ z: s.Text() })) }), { code: 'evolve/no-default' })
  await assert.rejects(
    file.tensor('r').records({ schema: s.toSchema(s.Struct({ id: s.Int8() })), converters: { id: () => 300 } }), { code: 'record/range' })
  const some = await file.tensor('r').records<any>({ schema: s.toSchema(s.Struct({ id: s.Float64() })), start: 1 })
  assert.deepEqual([...some], [{ id: 2 }])
})

// ---- who checks says the same

/** Values of each kind, as JSON: the edges of what it has, and what is just beyond. */
function values(): [name: string, kind: s.Kind<any>, values: unknown[]][] {
  const integers = (bits: number, signed: boolean) => {
    const [least, most] = signed ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1]
    return [least, most, least - 1, most + 1, 1.5, '1', true, null, 0]
  }
  const floats = (most: number, over: number) => [0, -0.5, most, -most, over, -over, 'x', null, [1], true]
  const times = [
    '2024-05-01T10:00:00Z', '2024-05-01t10:00:00z', '2024-02-29T00:00:00Z', '2023-02-29T00:00:00Z', '2024-02-30T00:00:00Z', '2024-13-01T00:00:00Z',
    '2024-05-01T24:00:00Z', '2016-12-31T23:59:60Z', '2024-05-01T10:00Z', '2024-05-01 10:00:00Z', '2024-05-01T10:00:00', '2024-05-01T10:00:00+02:00',
    '2024-05-01T10:00:00+24:00', '2024-05-01T10:00:00.123456789Z', '2024-05-01T10:00:00.1234567891Z', '2024-05-01T10:00:00.Z', '2500-01-01T00:00:00Z',
    '1677-09-21T00:12:43.145224192Z', '1677-09-21T00:12:43.145224191Z', '2262-04-11T23:47:16.854775807Z', '2262-04-11T23:47:16.854775808Z', '', 5,
  ]
  const base64 = ['', 'QQ==', 'QR==', 'QUI=', 'QUJ=', 'QUJD', 'A===', '====', '=', 'QQ', 'QQ=', 'Q Q=', 'Q-_=', 5]
  return [
    ['Int8', s.Int8(), integers(8, true)], ['Int16', s.Int16(), integers(16, true)], ['Int32', s.Int32(), integers(32, true)],
    ['Uint8', s.Uint8(), integers(8, false)], ['Uint16', s.Uint16(), integers(16, false)], ['Uint32', s.Uint32(), integers(32, false)],
    ['Int64', s.Int64(), [0, -1, 1.5, '1', Number.MAX_SAFE_INTEGER]], ['Uint64', s.Uint64(), [0, -1, 1.5, Number.MAX_SAFE_INTEGER]],
    ['Float16', s.Float16(), floats(65504, 65520)], ['Float16 near', s.Float16(), [65519.99]],
    ['BFloat16', s.BFloat16(), floats(3.3895313892515355e38, 3.4e38)],
    ['Float8E4M3', s.Float8E4M3(), [...floats(448, 480), 464, 464.1, 463.9]], ['Float8E5M2', s.Float8E5M2(), [...floats(57344, 61440), 61439.9]],
    ['Float32', s.Float32(), floats(3.4028234663852886e38, 3.4028235677973366e38)], ['Float64', s.Float64(), floats(1e308, 1.7976931348623157e308).slice(0, 4)],
    ['Complex64', s.Complex64(), [[1, 2], [1], [1, 2, 3], [1, 'x'], [1e300, 0], 5]], ['Complex128', s.Complex128(), [[1, 1e300], [1]]],
    ['Boolean', s.Boolean(), [true, false, 0, 1, 'true', null]], ['Timestamp', s.Timestamp(), times], ['Bytes', s.Bytes(), base64],
    ['Text', s.Text(), ['', 'a\u0000b', '\ud83d\ude00', 5, null]], ['Enum', s.Enum(['a', 'b']), ['a', 'c', '', 0]],
    ['fixed', s.FixedArray(s.Int8(), 2), [[1, 2], [1], [1, 2, 3], [1, 300], 'x']], ['array', s.Array(s.Uint8()), [[], [1, 255], [256], [-1], {}]],
    ['bounded array', s.Array(s.Uint8(), { minItems: 1, maxItems: 2, uniqueItems: true }), [[], [1], [1, 2], [1, 2, 3], [1, 1]]],
    ['struct', s.Struct({ a: s.Int8(), b: s.Optional(s.Text()) }), [{ a: 1 }, { a: 1, b: 'x' }, {}, { a: 1, c: 1 }, { a: 300 }, [], null]],
    ['empty struct', s.Struct({}), [{}, { a: 1 }, []]],
    ['union', s.Union('k', { x: s.Struct({ a: s.Int8() }), y: s.Struct({}) }), [{ k: 'x', a: 1 }, { k: 'y' }, { k: 'z' }, { a: 1 }, { k: 'x' }, { k: 'y', a: 1 }, { k: 'x', a: 300 }]],
    ['record', s.Record(s.Float32()), [{}, { a: 1 }, { a: 'x' }, [], 'x']], ['any record', s.Record(), [{}, { a: [null, 'x'] }, []]],
    ['minimum', s.Int8({ minimum: 5 }), [4, 5, 6]], ['maximum', s.Float32({ exclusiveMaximum: 5 }), [4.5, 5]], ['multiple', s.Int32({ multipleOf: 3 }), [9, 10]],
    ['pattern', s.Text({ pattern: '^a+$', maxLength: 3 }), ['a', 'aaa', 'aaaa', 'b', '']], ['length', s.Text({ minLength: 2 }), ['é', 'éé', '\ud83d\ude00']],
    ['nested keywords', s.Struct({ n: s.Array(s.Int8({ minimum: 5 })) }), [{ n: [5] }, { n: [5, 4] }]],
  ]
}

test('TypeBox, schema check, build and build --check say the same of every value', { skip }, () => {
  const differ: string[] = []
  let count = 0
  for (const [name, kind, all] of values()) {
    const path = join(folder, 'schema.json')
    writeFileSync(path, s.schemaText(s.toSchema(s.Struct({ x: kind, y: s.Uint8() }))))
    const lines = all.map((x) => JSON.stringify({ x, y: 1 }))
    const run = (...args: string[]) => spawnSync(command, args, { encoding: 'utf8', input: '' })
    writeFileSync(join(folder, 'all.ndjson'), lines.join('\n'))
    const checked = JSON.parse(run('schema', 'check', path, join(folder, 'all.ndjson'), '--json').stdout)
    const bad = new Set<number>(checked.findings.map((found: any) => found.line))
    const [now, old] = [Type.Object({ x: kind, y: s.Uint8() }), legacy.Type.Object({ x: type(kind), y: type(s.Uint8()) })]
    all.forEach((x, n) => {
      writeFileSync(join(folder, 'one.ndjson'), lines[n]!)
      const built = (more: string[]) =>
        run('build', '--schema', path, '--records', join(folder, 'one.ndjson'), '-o', join(folder, 'out.mt'), '--force', ...more).status === 0
      const verdicts = {
        typebox: Value.Check(now, { x, y: 1 }), legacy: LegacyValue.Check(old, { x, y: 1 }),
        check: !bad.has(n + 1), build: built([]), 'build --check': built(['--check']),
      }
      if (new Set(Object.values(verdicts)).size > 1) differ.push(`${name} ${JSON.stringify(x)}: ${JSON.stringify(verdicts)}`)
      count += 1
    })
  }
  assert.deepEqual(differ, [])
  assert.ok(count > 150)
})

test('values in the form of JavaScript are of their kinds', () => {
  const P = s.Struct({ id: s.Uint64(), when: s.Timestamp(), raw: s.Bytes(), list: s.Array(s.Int8()), f: s.Float32() })
  const value = { id: 2n ** 64n - 1n, when: -5n, raw: Buffer.from('a'), list: new Int8Array([1]), f: NaN }
  assert.ok(LegacyValue.Check(type(P), value))
  assert.ok(!LegacyValue.Check(type(P), { ...value, id: 2n ** 64n }))
  assert.ok(!LegacyValue.Check(type(P), { ...value, when: 2n ** 63n }))
  assert.ok(!LegacyValue.Check(type(s.Text()), 'x\ud800'))
})

test('a package that is linked has the registry of the program', () => {
  const project = join(folder, 'linked')
  mkdirSync(join(project, 'node_modules/@sinclair'), { recursive: true })
  symlinkSync(join(root, 'js'), join(project, 'node_modules/holdall'))
  cpSync(join(root, 'js/node_modules/@sinclair/typebox'), join(project, 'node_modules/@sinclair/typebox'), { recursive: true })
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
  writeFileSync(join(project, 'a.mjs'), `import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { type } from 'holdall/typebox-0.34'
import { Uint8 } from 'holdall/schema'
console.log(Value.Check(Type.Object({ id: type(Uint8()) }), { id: 3 }), Value.Check(Type.Object({ id: type(Uint8()) }), { id: 300 }))
`)
  const out = execFileSync(process.execPath, ['a.mjs'], { cwd: project, encoding: 'utf8' })
  assert.equal(out, 'true false\n')
  // The same where it is run from elsewhere.
  assert.equal(execFileSync(process.execPath, [join(project, 'a.mjs')], { cwd: folder, encoding: 'utf8' }), 'true false\n')
})
