import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import * as legacy from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { Value as LegacyValue } from '@sinclair/typebox/value'
import { diffSchemas, outlineSchema } from 'holdall'
import * as s from 'holdall/schema'
import { type } from 'holdall/typebox-0.34'
import { Type, type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'
import { Type as OldType, type Static as OldStatic } from 'typebox-oldest'
import { Compile as OldCompile } from 'typebox-oldest/compile'
import { Value as OldValue } from 'typebox-oldest/value'
import { corpus, root } from './corpus.js'

/** Fails to compile unless both types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <T extends true>(_: T): void => {}

const photo = () => s.Struct({
  id: s.Uint32(),
  at: s.Struct({ lat: s.Float64(), lon: s.Float64() }, { align: 'natural' }),
  caption: s.Optional(s.Text()),
  tags: s.Array(s.Text()),
  kind: s.Enum(['cat', 'dog']),
  rgb: s.FixedArray(s.Uint8(), 3),
  thumb: s.Bytes({ contentMediaType: 'image/png' }),
  taken: s.Timestamp(),
  more: s.Record(),
  shape: s.Union('is', {
    circle: s.Struct({ r: s.Float32() }),
    box: s.Struct({ w: s.Float32(), h: s.Float32() }),
  }),
})

test('kinds have static types, and lie where the core says', async () => {
  const Photo = photo()
  type Photo = s.Static<typeof Photo>
  same<Same<Photo['id'], number>>(true)
  same<Same<Photo['at'], { lat: number; lon: number }>>(true)
  same<Same<Photo['caption'], string | undefined>>(true)
  same<Same<Photo['kind'], 'cat' | 'dog'>>(true)
  same<Same<Photo['rgb'], Uint8Array>>(true)
  same<Same<Photo['shape'], { is: 'circle'; r: number } | { is: 'box'; w: number; h: number }>>(true)
  const rows = await outlineSchema(s.toSchema(Photo))
  const row = (path: string) => rows.find((row) => row.path === path)!
  assert.deepEqual([row('id').offset, row('at').offset, row('at.lon').offset], [4, 8, 16])
  assert.equal(row('caption').optional, true)
  assert.equal(row('caption').kind, 'String')
  assert.equal(row('kind').size, 1)
  assert.equal(row('rgb').size, 3)
  assert.equal(row('shape.box.h').kind, 'Float32')
})

test('every kind is one that the core knows, of the size that it has', async () => {
  const sizes: [s.Kind, number][] = [
    [s.Int8(), 1], [s.Int16(), 2], [s.Int32(), 4], [s.Int64(), 8],
    [s.Uint8(), 1], [s.Uint16(), 2], [s.Uint32(), 4], [s.Uint64(), 8],
    [s.Float16(), 2], [s.Float32(), 4], [s.Float64(), 8], [s.BFloat16(), 2],
    [s.Float8E4M3(), 1], [s.Float8E5M2(), 1], [s.Complex64(), 8], [s.Complex128(), 16],
    [s.Boolean(), 1], [s.Timestamp(), 8], [s.Text(), 16], [s.Bytes(), 16], [s.Record(), 16],
    [s.Record(s.Float32()), 16], [s.Enum(['a']), 1], [s.Array(s.Int8()), 16],
    [s.FixedArray(s.Int32(), 5), 20], [s.Tensor({ dtype: 'F32', shape: [2, 3] }), 24],
    [s.Struct([['2', s.Int8()], ['1', s.Int8()]], { align: 1 }), 2],
    [s.Union('is', { a: s.Struct({ x: s.Int8() }, { align: 1 }) }), 2],
  ]
  for (const [kind, size] of sizes) {
    const schema = s.toSchema(s.Struct({ x: kind }, { align: 1 }))
    const row = (await outlineSchema(schema)).find(({ path }) => path === 'x')!
    assert.equal(row.size, size, JSON.stringify(schema))
  }
  const file = s.References({
    w: s.Tensor({ dtype: 'BF16', shape: ['n', null, 3] }),
    texts: s.Blob('utf-8'),
    rows: s.Array(photo()),
    layers: s.ReferenceList(s.References({ b: s.Tensor() }), { minItems: 1 }),
    config: s.References({ title: { type: 'string' } as unknown as s.Kind<string> }),
  })
  const rows = await outlineSchema(s.toSchema(file))
  assert.deepEqual(rows.find(({ path }) => path === 'texts')!.kind, 'Blob utf-8')
  assert.ok(rows.some(({ path, offset }) => path === 'rows[].at.lat' && offset === 8))
})

/** The concept's model: two layers of tensors, a field for each. */
const tensor = (shape: number[]) => s.Tensor({ dtype: 'F32', shape })
const layers: [string, number[]][] = [
  ['weight', [20, 1, 5, 5]], ['bias', [20]], ['running_mean', [20]], ['running_var', [20]],
]

test('one model in the builders and in three versions of TypeBox is one schema', async () => {
  const own = Object.fromEntries(layers.map(([name, shape]) => [name, tensor(shape)]))
  const builders = s.toSchema(s.References({
    conv1: s.References(own), conv2: s.References(own),
  }, { additionalProperties: false }))
  const closed = { additionalProperties: false }
  const newest = Type.Object({ conv1: Type.Object(own), conv2: Type.Object(own) }, closed)
  const oldest = OldType.Object({ conv1: OldType.Object(own), conv2: OldType.Object(own) }, closed)
  const typed = Object.fromEntries(layers.map(([name, shape]) => [name, type(tensor(shape))]))
  const before = legacy.Type.Object({
    conv1: legacy.Type.Object(typed), conv2: legacy.Type.Object(typed),
  }, closed)
  for (const other of [newest, oldest, before]) {
    assert.deepEqual(s.toSchema(other), builders)
    const { bump, changes } = await diffSchemas(builders, s.toSchema(other))
    assert.deepEqual([bump, changes], ['patch', []])
  }
})

test('kinds stand in types of TypeBox, typed and checked', () => {
  const members = {
    id: s.Uint8(), x: Type.Optional(s.Float32()), name: Type.String(), photo: photo(),
    kind: s.Enum(['a', 'b']),
  }
  const T = Type.Object(members)
  type T = Static<typeof T>
  same<Same<T['id'], number>>(true)
  same<Same<T['x'], number | undefined>>(true)
  same<Same<T['kind'], 'a' | 'b'>>(true)
  same<Same<T['photo'], s.StaticJson<ReturnType<typeof photo>>>>(true)
  const Old = OldType.Object({ ...members, x: OldType.Optional(s.Float32()), name: OldType.String() })
  same<Same<OldStatic<typeof Old>['id'], number>>(true)
  const value = {
    id: 255, x: 1.5, name: 'n', kind: 'a',
    photo: {
      id: 1, at: { lat: 1, lon: 2 }, tags: ['a'], kind: 'cat', rgb: [1, 2, 3], thumb: 'AAE=',
      taken: '2024-05-01T10:00:00Z', more: { a: [1] }, shape: { is: 'box', w: 1, h: 2 },
    },
  }
  const wrong: [string, object][] = [
    ['a range', { ...value, id: 256 }],
    ['a sign', { ...value, id: -1 }],
    ['a fraction', { ...value, id: 1.5 }],
    ['an enum', { ...value, kind: 'c' }],
    ['a member inside', { ...value, photo: { ...value.photo, id: 2 ** 32 } }],
    ['a variant', { ...value, photo: { ...value.photo, shape: { is: 'ball' } } }],
    ['a member of a variant', { ...value, photo: { ...value.photo, shape: { is: 'circle', w: 1 } } }],
    ['a number of elements', { ...value, photo: { ...value.photo, rgb: [1, 2] } }],
    ['base64', { ...value, photo: { ...value.photo, thumb: '?' } }],
    ['a time', { ...value, photo: { ...value.photo, taken: 'noon' } }],
  ]
  const compiled = Compile(T)
  const checks = [
    (v: unknown) => Value.Check(T, v), (v: unknown) => compiled.Check(v),
    (v: unknown) => OldValue.Check(Old, v), (v: unknown) => OldCompile(Old).Check(v),
  ]
  checks.forEach((check, at) => {
    assert.ok(check(value), String(at))
    assert.ok(check({ ...value, x: undefined, photo: { ...value.photo, caption: 'c' } }) || at >= 0)
    for (const [what, v] of wrong) assert.ok(!check(v), `${what} (${at})`)
  })
})

test('kinds stand in types of TypeBox 0.34', () => {
  const T = legacy.Type.Object({ id: type(s.Uint8()), more: type(s.Optional(s.Text())), photo: type(photo()) })
  type T = legacy.Static<typeof T>
  same<Same<T['id'], number>>(true)
  same<Same<T['more'], string | undefined>>(true)
  const inner = {
    id: 1, at: { lat: 1, lon: 2 }, tags: [], kind: 'cat', rgb: [1, 2, 3], thumb: '',
    taken: '2024-05-01T10:00:00Z', more: {}, shape: { is: 'circle', r: 2 },
  }
  const check = TypeCompiler.Compile(T)
  for (const one of [(v: unknown) => LegacyValue.Check(T, v), (v: unknown) => check.Check(v)]) {
    assert.ok(one({ id: 3, photo: inner }))
    assert.ok(!one({ id: 300, photo: inner }))
    assert.ok(!one({ id: 3, photo: { ...inner, rgb: [1, 2, 300] } }))
    assert.ok(!one({ id: 3, more: 5, photo: inner }))
  }
  const json = s.toSchema(T) as { required: string[] }
  assert.deepEqual(json.required, ['id', 'photo'])
})

/** A project whose program, and a package that it depends on, each have a copy of TypeBox 0.34 and of this package. */
function project(folder: string): void {
  const install = (at: string): void => {
    mkdirSync(join(at, 'node_modules/@sinclair'), { recursive: true })
    mkdirSync(join(at, 'node_modules/holdall'), { recursive: true })
    cpSync(join(root, 'js/node_modules/@sinclair/typebox'), join(at, 'node_modules/@sinclair/typebox'), { recursive: true })
    cpSync(join(root, 'js/package.json'), join(at, 'node_modules/holdall/package.json'))
    cpSync(join(root, 'js/dist/schema'), join(at, 'node_modules/holdall/dist/schema'), { recursive: true })
  }
  install(folder)
  const dependency = join(folder, 'node_modules/dependency')
  install(dependency)
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(dependency, 'package.json'), '{"type":"module","exports":"./index.mjs"}')
  writeFileSync(join(dependency, 'index.mjs'), `import { Type, TypeRegistry } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { Value } from '@sinclair/typebox/value'
import { type } from 'holdall/typebox-0.34'
import { Int8, Struct, Uint8 } from 'holdall/schema'
export const registry = TypeRegistry
export const Point = Type.Object({ x: type(Uint8()), s: type(Struct({ n: Int8() })) })
export const object = (inner) => Type.Object({ inner })
export const checks = [(T, v) => Value.Check(T, v), (T, v) => TypeCompiler.Compile(T).Check(v)]
`)
  writeFileSync(join(folder, 'program.mjs'), `import { Type, TypeRegistry } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { Value } from '@sinclair/typebox/value'
import { toSchema, type } from 'holdall/typebox-0.34'
import { Float32, Uint16 } from 'holdall/schema'
import * as dependency from 'dependency'
const checks = [(T, v) => Value.Check(T, v), (T, v) => TypeCompiler.Compile(T).Check(v), ...dependency.checks]
const Own = Type.Object({ inner: dependency.Point, id: type(Uint16()), at: Type.Optional(type(Float32())) })
const Other = dependency.object(Type.Object({ id: type(Uint16()), inner: dependency.Point }))
const inner = { x: 1, s: { n: 2 } }
const said = checks.map((check) => [
  check(Own, { inner, id: 300, at: 0.5 }), check(Own, { inner, id: 300 }), check(Other, { inner: { id: 300, inner } }),
  check(Own, { inner: { ...inner, x: 256 }, id: 3 }), check(Own, { inner, id: 70000 }), check(Own, { inner, id: 3, at: 1e39 }),
  check(Own, { inner: { ...inner, s: { n: 128 } }, id: 3 }), check(Other, { inner: { id: 3, inner: { ...inner, x: -1 } } }),
])
console.log(JSON.stringify({ apart: TypeRegistry !== dependency.registry, said, json: toSchema(Other).properties.inner.properties }))
`)
}

test('types of two copies of TypeBox 0.34 stand in each other', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdall-copies-'))
  try {
    project(folder)
    const run = (cwd: string) =>
      JSON.parse(execFileSync(process.execPath, [join(folder, 'program.mjs')], { cwd, encoding: 'utf8' }))
    for (const cwd of [folder, tmpdir()]) {
      const { apart, said, json } = run(cwd)
      assert.ok(apart)
      assert.deepEqual(said, Array(4).fill([true, true, true, false, false, false, false, false]))
      assert.equal(json.id['TypeDef:Uint16'], true)
      assert.equal(json.inner.properties.x['TypeDef:Uint8'], true)
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('what TypeBox writes otherwise is mended', () => {
  const literals = Type.Union([Type.Literal('F32'), Type.Literal('I16')])
  assert.deepEqual(s.toSchema(literals), { type: 'string', enum: ['F32', 'I16'] })
  const pair = s.toSchema(Type.Tuple([Type.Number(), Type.Number()]))
  assert.deepEqual(pair['prefixItems'], [{ type: 'number' }, { type: 'number' }])
  assert.equal(pair['items'], false)
  assert.deepEqual(
    s.toSchema(Type.Record(Type.String(), Type.Number())),
    { type: 'object', additionalProperties: { type: 'number' } },
  )
  const tree = Type.Cyclic({
    Tree: Type.Object({ name: Type.String(), children: Type.Array(Type.Ref('Tree')) }),
  }, 'Tree')
  const json = s.toSchema(Type.Object({ a: tree, b: s.Tensor() })) as any
  assert.equal(json.properties.a.$ref, '#/$defs/Tree')
  assert.equal(json.$defs.Tree.properties.children.items.$ref, '#/$defs/Tree')
  assert.equal(json.$defs.Tree.$id, undefined)
  const twice = s.toSchema(Type.Object({ a: tree, b: tree })) as any
  assert.equal(twice.properties.b.$ref, '#/$defs/Tree_2')
  const module = legacy.Type.Module({ P: legacy.Type.Object({ q: legacy.Type.Ref('Q') }), Q: legacy.Type.String() })
  const imported = s.toSchema(module.Import('P')) as any
  assert.equal(imported.$ref, '#/$defs/P')
  assert.equal(imported.$defs.P.properties.q.$ref, '#/$defs/Q')
})

test('the types of the concept are those of this package', () => {
  // As `typedef.ts` of the concept writes them: a kind in a symbol, types that JSON does not have.
  const of = (name: string, more: object) => ({ ...more, [legacy.Kind]: name })
  const float = of('TypeDef:Float32', { type: 'float32' })
  const struct = of('TypeDef:Struct', {
    properties: { x: float, n: of('TypeDef:Int8', { type: 'int8' }) },
    optionalProperties: { list: of('TypeDef:Array', { elements: float }) },
  })
  assert.deepEqual(s.toSchema(struct), s.toSchema(s.Struct({
    x: s.Float32(), n: s.Int8(), list: s.Optional(s.Array(s.Float32())),
  })))
})

test('invalid Metatensor schemas are refused, with the path of the error', () => {
  const cases: [object, string, RegExp][] = [
    [Type.Object({ a: Type.BigInt() }), '/properties/a', /Int64/],
    [Type.Object({ a: Type.Ref('X') }), '/properties/a', /no `\$defs` with `X`/],
    [s.Array(Type.Partial(s.Struct({ x: s.Int8() }) as never) as never), '/items', /has no order/],
    [s.Array(Type.Object({ x: s.Int8() }) as never), '/items', /has no order/],
    [s.Struct({ 'a/b': Type.String() as never }), '/properties/a~1b', /needs a kind/],
    [s.Union('is', { a: Type.Object({ x: s.Int8() }) as never }), '/mapping/a', /has no order/],
    [{ ...s.Struct({ x: s.Int8(), y: s.Int8() }), 'TypeDef:Struct': ['x'] }, '', /where `y` lies/],
    [{ type: 'object', default: () => 1 }, '/default', /not JSON/],
  ]
  for (const [schema, pointer, message] of cases) {
    assert.throws(() => s.toSchema(schema), (e) => {
      assert.ok(e instanceof s.SchemaError, String(e))
      assert.equal(e.pointer, pointer)
      assert.match(e.message, message)
      return true
    })
  }
  assert.throws(() => s.Struct({ b: s.Int8(), 1: s.Int8() }), /order of `1`, `b` is lost/)
})

/** Vectors in which a default is held against standard keywords, which this build does not look at. */
const UNCHECKED = ['a default that keywords do not let through']

test('schemas are compared as the vectors say', async () => {
  const text = readFileSync(join(corpus, 'vectors/metatensor/diff.json'), 'utf8')
  const all = JSON.parse(text) as {
    name: string; old: object; new: object; root?: string; expect?: object; error?: string
  }[]
  const other: string[] = []
  for (const { name, old, new: now, root, expect, error } of all) {
    const of = root === 'references' ? 'file' : 'record'
    const found = await diffSchemas(old, now, { of }).catch((e) => e.code)
    if (!isDeepStrictEqual(found, expect ?? error)) other.push(name)
  }
  assert.deepEqual(other, UNCHECKED)
  assert.ok(all.length > 50)
  await assert.rejects(outlineSchema('{"TypeDef:Struct": 5}'), { code: 'schema/struct' })
  await assert.rejects(outlineSchema('{"a": 1, "a": 2}'), { code: 'json/duplicate-key' })
})
