import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { diffSchemas, outlineSchema } from 'holdall'
import * as s from 'holdall/schema'
import { TypesError, programOf, schemaOfTypes } from 'holdall/types'
import { root } from './corpus.js'

const folder = join(root, 'js/build/types')
/** Writes a file of types. */
function file(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}
const HEAD = `import type * as h from 'holdall/schema'
import type { Bytes, FixedArray, Float32, Float64, Struct, Tensor, Timestamp, Uint8, Uint32 } from 'holdall/schema'
`

before(() => {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  // Types of browsers are many, and none are needed.
  file('tsconfig.json', '{"compilerOptions": {"module": "nodenext", "target": "es2022", "lib": ["es2022"], "types": []}}')
})

test('a schema is made of types, the same as the builders make', async () => {
  const path = file('photos.ts', `${HEAD}
    const KINDS = ['dog', 'cat'] as const
    enum Colour { Red = 'red', Blue = 'blue' }
    interface Base { id: Uint32 }
    export interface Place { lat: Float64; lon: Float64 }
    type Shape = { is: 'circle'; r: Float32 } | { is: 'box'; w: Float32; h: Float32 }
    type Metres = number & { readonly __unit: 'Float32' }
    /** A photo. */
    export interface Photo extends Base, Struct {
      /** Where it was.
       * @align natural */
      at: Place
      caption?: string | undefined
      tags: string[]
      kind: (typeof KINDS)[number]
      colour: Colour
      other: 'z' | 'a'
      rgb: [Uint8, Uint8, Uint8]
      grid: FixedArray<Float32, 4>
      /** @contentMediaType image/png */
      thumb: Bytes
      taken: Timestamp
      more: Record<string, unknown>
      shape: Shape
      /** @default 5 @minimum 0 */
      far: Metres
      z: h.Complex64
      rest: Pick<Place, 'lon' | 'lat'>
      ok: boolean
      patch: Tensor<'F32', [2, 3]>
      list: Place[]
    }
    export default interface File {
      weight: Tensor<'BF16', ['n', null, 3]>
      texts: h.Blob<'utf-8'>
      photos: Photo[]
      layers: { b?: Tensor }[]
      config: { title: string; size: number; on: boolean; mode: 'a' | 'b'; note?: string | null; pair: [number, string]; any: unknown
        tree: Tree; labels: { [name: string]: number } }
      depth: Uint8
    }
    interface Tree { name: string; children: Tree[] }
  `)
  const place = (options?: s.Options) => s.Struct({ lat: s.Float64(), lon: s.Float64() }, options)
  const photo = s.Struct({
    id: s.Uint32(), at: place({ description: 'Where it was.', align: 'natural' }), caption: s.Optional(s.Text()), tags: s.Array(s.Text()),
    kind: s.Enum(['dog', 'cat']), colour: s.Enum(['red', 'blue']), other: s.Enum(['z', 'a']),
    rgb: s.FixedArray(s.Uint8(), 3), grid: s.FixedArray(s.Float32(), 4), thumb: s.Bytes({ contentMediaType: 'image/png' }),
    taken: s.Timestamp(), more: s.Record(),
    shape: s.Union('is', { circle: s.Struct({ r: s.Float32() }), box: s.Struct({ w: s.Float32(), h: s.Float32() }) }),
    far: s.Float32({ default: 5, minimum: 0 }), z: s.Complex64(), rest: place(), ok: s.Boolean(),
    patch: s.Tensor({ dtype: 'F32', shape: [2, 3] }), list: s.Array(place()),
  }, { description: 'A photo.' })
  const plain = (json: object) => json as s.Kind
  const whole = s.toSchema(s.References({
    weight: s.Tensor({ dtype: 'BF16', shape: ['n', null, 3] }), texts: s.Blob('utf-8'), photos: s.Array(photo),
    layers: s.ReferenceList(s.References({ b: s.Optional(s.Tensor()) })),
    config: s.References({
      title: plain({ type: 'string' }), size: plain({ type: 'number' }), on: plain({ type: 'boolean' }),
      mode: plain({ type: 'string', enum: ['a', 'b'] }),
      note: s.Optional(plain({ anyOf: [{ type: 'string' }, { type: 'null' }] })),
      pair: plain({ type: 'array', prefixItems: [{ type: 'number' }, { type: 'string' }], items: false, minItems: 2 }),
      any: plain({}), tree: plain({ $ref: '#/$defs/Tree' }),
      labels: plain({ type: 'object', properties: {}, required: [], additionalProperties: { type: 'number' } }),
    }),
    depth: s.Uint8(),
  })) as Record<string, object>
  whole['$defs'] = { Tree: {
    type: 'object', required: ['name', 'children'],
    properties: { name: { type: 'string' }, children: { type: 'array', items: { $ref: '#/$defs/Tree' } } },
  } }
  const program = await programOf([path])
  assert.deepEqual(await schemaOfTypes(path, { program }), whole)
  const record = await schemaOfTypes(path, { program, type: 'Photo' })
  assert.deepEqual(record, s.toSchema(photo))
  assert.deepEqual((await diffSchemas(record, s.toSchema(photo))).changes, [])
  assert.deepEqual(await schemaOfTypes(path, { program, type: 'Place', record: true }), s.toSchema(place()))
})

/** Members of a record, with the column of the error and words of its message. */
const REFUSED: [member: string, message: RegExp][] = [
  ['x: number', /:\d+:4: `number` does not say its bytes; write `Float32`/],
  ['x?: bigint', /:5: `bigint` is not a type of JSON; write `Int64`/],
  ['x: Date', /:4: `Date` is not a type of JSON; write `Timestamp`/],
  ['x: Float32Array', /`Float32Array` is not .* write `Float32\[\]`/],
  ['x: Uint8 | null', /`null` has no bytes; make the member optional/],
  ['x: Uint8 | undefined', /`undefined` is not a value; make the member optional/],
  ['x: () => void', /a function is not data; leave it out/],
  ['x(): void', /a function is not data/],
  ['x: unknown', /`unknown` has no kind/],
  ['x: 1 | 2', /nothing tells the variants/],
  ['x: 7', /`7` is a value, not a kind/],
  ['x: { a: Uint8 } | { b: Uint8 }', /nothing tells the variants of the union apart; give each/],
  ['x: [Uint8, Float32]', /:\d+:12: the elements of a tuple in a record are alike/],
  ['x: [Uint8?]', /a tuple has so many elements/],
  ['x: Self', /`Self` contains itself/],
  ['x: h.Blob<"bytes">', /a blob does not stand in a record/],
  ['x: { a: Uint8; [name: string]: Uint8 }', /no members of any name besides/],
  ['x: Record<"b" | "a", Uint8>', /the order of the members of `Record<"a" \| "b", Uint8>` is not written/],
  ['x: keyof Two', /the order of the texts is not written/],
  ['x: `a${string}`', /is no type of data/],
  ['/** @default five */ x: Uint8', /:5: `@default`: `five` is not JSON/],
  ['/** @align 3 */ x: Uint8', /:\d+:\d+: .*\[schema\/align\]/],
]

test('types without a Metatensor kind are refused, with line, column and advice', async () => {
  const types = REFUSED.map(([member], n) => `export interface T${n} extends Struct {\n${member}\n}\n`).join('')
  const path = file('refused.ts', `${HEAD}
    interface Self { next: Self[] }
    interface Two { a: Uint8; b: Uint8 }
    export interface Box<T> extends Struct { v: T }
    ${types}`)
  const program = await programOf([path])
  const lines = readFileSync(path, 'utf8').split('\n')
  for (const [n, [member, message]] of REFUSED.entries()) {
    const line = lines.findIndex((line) => line.includes(`interface T${n} `)) + 2
    await assert.rejects(schemaOfTypes(path, { program, type: `T${n}` }), (e) => {
      assert.ok(e instanceof TypesError, String(e))
      assert.match(e.message, message, member)
      assert.equal(e.file, path)
      if (member !== 'x: Self') assert.equal(e.line, line, e.message)
      return true
    })
  }
  await assert.rejects(schemaOfTypes(path, { program }), /exports several types: .*; say which .* `--type`/)
  await assert.rejects(schemaOfTypes(path, { program, type: 'None' }), /there is no type `None`; it has `Self`, `Two`/)
  await assert.rejects(schemaOfTypes(path, { program, type: 'Box' }), /`Box` has type parameters/)
  const wrong = file('wrong.ts', 'export interface A {\n  x: NoSuch\n}\n')
  await assert.rejects(schemaOfTypes(wrong), { line: 2, column: 6, found: /Cannot find name 'NoSuch'/ })
})

test('the command makes schemas of types', async () => {
  const command = join(root, 'js/dist/command.js')
  const out = join(folder, 'photo.json')
  const status = (...args: string[]) => {
    const { status, stderr } = spawnSync(process.execPath, [command, ...args], { encoding: 'utf8' })
    return [status, stderr.split('\n')[0]]
  }
  const photos = join(root, 'examples/photos')
  assert.deepEqual(status(join(photos, 'photo.ts'), '-o', out), [0, ''])
  const [written, byHand] = [out, join(photos, 'schema.json')].map((path) => readFileSync(path, 'utf8'))
  assert.deepEqual(await diffSchemas(byHand!, written!), { bump: 'patch', changes: [] })
  assert.deepEqual(await outlineSchema(written!), await outlineSchema(byHand!))
  assert.deepEqual(status(file('bad.ts', 'export interface A {\n  x: bigint\n}\n')),
    [1, `error: ${join(folder, 'bad.ts')}:2:6: \`bigint\` is not a type of JSON; write \`Int64\` or \`Uint64\``])
  assert.deepEqual(status(), [2, 'error: name one file of types'])
  assert.deepEqual(status('a.ts', 'b.ts'), [2, 'error: name one file of types'])
  assert.deepEqual(status(join(folder, 'none.ts'))[0], 3)
})
