/** Plain values of a header: written from JavaScript, held to their schema as the command holds them, read as they were written. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { open, toBytes } from 'holdall'
import * as s from 'holdall/schema'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { root } from './corpus.js'

const command = process.env['HOLDALL'] ?? join(root, 'target/debug/holdall')
const skip = existsSync(command) ? false : `there is no ${command}`
let folder = ''
before(() => (folder = mkdtempSync(join(tmpdir(), 'holdall-'))))
after(() => rmSync(folder, { recursive: true }))

const weight = { weight: new Float32Array([1, 2]) }
const TensorPart = s.Tensor({ dtype: 'F32', shape: [2] })
const Config = Type.Object({ layers: s.Uint8(), rate: Type.Number({ minimum: 0 }), note: Type.Optional(Type.String()) })
const Model = s.toSchema(Type.Object({ weight: TensorPart, name: Type.String({ pattern: '^[a-z]+$' }), config: Config, seed: Type.Optional(Type.Integer()) }))

test('plain values are written, and read as they were written', async () => {
  const values = { name: 'small', config: { layers: 3, rate: 0.5, note: 'é' }, seed: 2n ** 63n }
  const bytes = await toBytes(weight, { format: 'metatensor', schema: Model, values })
  const file = await open(bytes)
  assert.deepEqual(Object.fromEntries(await file.values()), values)
  const attributes = new Map([...file.attributes].filter(([name]) => name.startsWith('metatensor.')))
  const data = { data: await file.tensor('weight').array(), shape: [2] }
  for (const again of [
    await toBytes({ weight: data }, { format: 'metatensor', schema: Model, values: await file.values() }),
    await toBytes({ weight: data }, { format: 'metatensor', attributes }),
  ]) assert.deepEqual(Buffer.compare(again, bytes), 0)
  // Some changed, the rest as they are.
  const changed = await open(await toBytes({ weight: data }, { format: 'metatensor', attributes, values: { name: 'large' } }))
  assert.deepEqual(Object.fromEntries(await changed.values()), { ...values, name: 'large' })
  const none = await open(await toBytes(weight, { format: 'metatensor' }))
  assert.equal((await none.values()).size, 0)
})

test('a value that is not as the schema says is refused with its path', async () => {
  const good = { name: 'small', config: { layers: 3, rate: 0.5 } }
  const of = (values: object) => toBytes(weight, { format: 'metatensor', schema: Model, values: { ...good, ...values } })
  for (const [values, found] of [
    [{ name: 'Small' }, /`name` does not fit the schema: "Small" does not match/],
    [{ config: { layers: 300, rate: 1 } }, /`config`.*300 is not valid for its kind, at `\/layers`/],
    [{ config: { layers: 3, rate: -1 } }, /less than the minimum of 0, at `\/rate`/],
    [{ config: { layers: 3 } }, /has no member `rate`/],
    [{ seed: 1.5 }, /not of type integer/],
    [{ name: 5 }, /not of type string/],
  ] as const) await assert.rejects(of(values), { code: 'metatensor/schema-fit', found })
  await assert.rejects(of({ config: undefined }), { code: 'metatensor/schema-fit' })
  await assert.rejects(toBytes(weight, { format: 'metatensor', values: { weight: 1 } }), { code: 'metatensor/attribute' })
})

test('the types of plain values', () => {
  const of = async () => (await open('a.mt')).values()
  const values: () => Promise<Map<string, unknown>> = of
  void [values, () => toBytes({}, { format: 'metatensor', values: new Map([['a', 1]]) }), () => toBytes({}, { format: 'metatensor', values: { a: [1, null] } })]
  // @ts-expect-error: values have paths.
  void (() => toBytes({}, { format: 'metatensor', values: 5 }))
})

/** A file of Metatensor whose header has these plain values, whatever the schema says. */
function raw(schema: object, values: object): Uint8Array {
  const text = JSON.stringify({ metatensor: '1.0', endian: 'little', data_align: 256, schema, tensors: values })
  const bytes = new TextEncoder().encode(text)
  const body = new Uint8Array(Math.ceil((bytes.length + 8) / 256) * 256 - 8).fill(0x20)
  body.set(bytes)
  const out = new Uint8Array(8 + body.length)
  new DataView(out.buffer).setBigUint64(0, BigInt(body.length), true)
  out.set(body, 8)
  return out
}

/** Schemas of a value in standard keywords, and values around what they say. */
const cases: [schema: object | boolean, values: unknown[]][] = [
  [{ type: 'string' }, ['', 'a', 5, null]], [{ type: ['string', 'null'] }, ['a', null, 5]], [{ type: 'integer' }, [1, 1.5, '1', 2 ** 60]],
  [{ type: 'number', minimum: 2, maximum: 5 }, [1.9, 2, 5, 5.1, 'x']], [{ exclusiveMinimum: 2, exclusiveMaximum: 5 }, [2, 2.1, 4.9, 5, 'x']],
  [{ multipleOf: 3 }, [0, 9, 10, -3]], [{ multipleOf: 0.5 }, [1.5, 1.25]], [{ enum: ['a', 1, null, [1, { b: 2 }]] }, ['a', 1, null, [1, { b: 2 }], 'b', [1]]],
  [{ const: { a: 1, b: 2 } }, [{ b: 2, a: 1 }, { a: 1 }]], [{ pattern: '^a+$' }, ['aa', 'b', 5]], [{ minLength: 2, maxLength: 3 }, ['é', 'éé', '😀😀😀', 'abcd']],
  [{ type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 2 }, [[], [1], [1, 2, 3], ['a']]], [{ uniqueItems: true }, [[1, 2], [1, 1.0], [{ a: 1, b: 2 }, { b: 2, a: 1 }]]],
  [{ prefixItems: [{ type: 'string' }], items: { type: 'integer' } }, [['a', 1], [1], ['a', 'b'], []]], [{ prefixItems: [true], items: false }, [[1], [1, 2]]],
  [{ contains: { type: 'integer' }, minContains: 2, maxContains: 3 }, [[1], [1, 2, 'a'], [1, 2, 3, 4]]], [{ contains: { const: 1 }, minContains: 0 }, [[]]],
  [{ type: 'object', properties: { a: { type: 'integer' } }, required: ['a'], additionalProperties: false }, [{ a: 1 }, {}, { a: 1, b: 1 }, { a: 'x' }, []]],
  [{ patternProperties: { '^x': { type: 'integer' } }, additionalProperties: { type: 'string' } }, [{ xa: 1 }, { xa: 'b' }, { y: 'b' }, { y: 1 }]],
  [{ propertyNames: { maxLength: 2 } }, [{ ab: 1 }, { abc: 1 }]], [{ minProperties: 1, maxProperties: 2 }, [{}, { a: 1 }, { a: 1, b: 2, c: 3 }]],
  [{ dependentRequired: { a: ['b'] } }, [{ a: 1 }, { a: 1, b: 2 }, {}]], [{ dependentSchemas: { a: { required: ['b'] } } }, [{ a: 1 }, { a: 1, b: 1 }]],
  [{ allOf: [{ minimum: 2 }, { maximum: 4 }] }, [1, 3, 5]], [{ anyOf: [{ type: 'string' }, { minimum: 5 }] }, ['a', 4, 5]],
  [{ oneOf: [{ multipleOf: 2 }, { multipleOf: 3 }] }, [2, 3, 6, 5]], [{ not: { type: 'string' } }, [1, 'a']],
  [{ if: { type: 'string' }, then: { minLength: 2 }, else: { minimum: 2 } }, ['a', 'ab', 1, 2]], [{ if: { const: 1 }, then: false }, [1, 2]],
  [{ $ref: '#/$defs/small' }, [1, 5]], [{ type: 'array', items: { $ref: '#/$defs/tree' } }, [[{ of: [] }], [{ of: [{ of: [1] }] }], [{ of: [{ of: [] }] }]]],
  [{ properties: { a: true }, unevaluatedProperties: false }, [{ a: 1 }, { b: 1 }]],
  [{ allOf: [{ properties: { a: true } }], anyOf: [{ properties: { b: { type: 'string' } }, required: ['b'] }, true], unevaluatedProperties: false }, [{ a: 1 }, { a: 1, b: 'x' }, { b: 1 }, { c: 1 }]],
  [{ prefixItems: [true], unevaluatedItems: false }, [[1], [1, 2]]], [{ contains: { const: 1 }, unevaluatedItems: { type: 'string' } }, [[1, 'a'], [1, 2]]],
  [{ type: 'string', format: 'email' }, ['no address']], [{ 'TypeDef:Uint8': true, type: 'integer' }, [255, 256, -1]],
  [{ type: 'object', properties: { layers: { type: 'integer', 'TypeDef:Int8': true, minimum: 5 } } }, [{ layers: 5 }, { layers: 4 }, { layers: 200 }]],
]

test('the command, TypeBox and this package say the same of every plain value', { skip }, async () => {
  const differ: string[] = []
  let count = 0
  for (const [part, values] of cases) {
    const schema = {
      type: 'object', properties: { x: part, weight: JSON.parse(JSON.stringify(TensorPart)) }, required: ['x'],
      $defs: { small: { maximum: 4 }, tree: { type: 'object', properties: { of: { type: 'array', items: { $ref: '#/$defs/tree' } } } } },
    }
    for (const x of values) {
      const path = join(folder, 'one.mt')
      writeFileSync(path, raw(schema, { x }))
      const ran = spawnSync(command, ['inspect', path, '--json'], { encoding: 'utf8' })
      if (ran.status !== 0) assert.match(ran.stderr + ran.stdout, /metatensor\/value/, `${JSON.stringify(part)} ${JSON.stringify(x)}`)
      const own = await toBytes({}, { format: 'metatensor', schema, values: { x } }).then(() => true, (e) => (assert.equal(e.code, 'metatensor/schema-fit', e), false))
      const verdicts: Record<string, boolean> = { command: ran.status === 0, own }
      // Kinds are no keywords of TypeBox's, and it takes formats for more than annotations.
      if (!/TypeDef|format/.test(JSON.stringify(part))) verdicts['typebox'] = Value.Check({ ...(part as object), $defs: schema.$defs } as any, x)
      if (new Set(Object.values(verdicts)).size > 1) differ.push(`${JSON.stringify(part)} ${JSON.stringify(x)}: ${JSON.stringify(verdicts)}`)
      count += 1
    }
  }
  assert.deepEqual(differ, [])
  assert.ok(count > 100)
})
