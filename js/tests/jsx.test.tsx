import assert from 'node:assert/strict'
import { test } from 'node:test'
import { diffSchemas, open, planMigration, toBytes } from 'holdall'
import {
  ArrayOf, Blob, Field, LayoutHostConfig, List, Model, Struct, Tensor, reconcile, render, renderTo,
  type AnyNode, type HostConfig, type Node,
} from 'holdall/layout'
import * as s from 'holdall/schema'

/** A layer: a component of components. */
const Layer = ({ name, out }: { name: string; out: number }): Node => (
  <Struct name={name}>
    <Tensor name="weight" dtype="F32" shape={[out, 1, 5, 5]} />
    {['bias', 'running_mean'].map((name) => <Tensor key={name} name={name} dtype="F32" shape={[out]} />)}
    <>
      <Tensor name="running_var" dtype="F32" shape={[out]} />
      {null}
      {false}
    </>
  </Struct>
)

const tree = (out = 20): Node => (
  <Model additionalProperties={false}>
    <Layer name="conv1" out={out} />
    <Layer name="conv2" out={20} />
  </Model>
)

const layer = (out: number) => s.References({
  weight: s.Tensor({ dtype: 'F32', shape: [out, 1, 5, 5] }), bias: s.Tensor({ dtype: 'F32', shape: [out] }),
  running_mean: s.Tensor({ dtype: 'F32', shape: [out] }), running_var: s.Tensor({ dtype: 'F32', shape: [out] }),
})

test('a tree is rendered to the schema that the builders make', () => {
  const own = s.References({ conv1: layer(20), conv2: layer(20) }, { additionalProperties: false })
  assert.deepEqual(render(tree()).schema, s.toSchema(own))
})

test('a tree says where its tensors lie, in a file that has them', async () => {
  const layout = render(tree())
  const { size, tensors } = await layout.place()
  assert.equal(tensors.length, 8)
  const weight = tensors.find(({ name }) => name === 'conv1.weight')!
  assert.equal(weight.end - weight.start, 2000)
  // They are where the file has them that is written under the schema.
  const data = Object.fromEntries(layout.tensors.map(({ name, shape }, at) => {
    const count = shape.reduce((product, n) => product * n, 1)
    return [name, { data: new Float32Array(count).fill(at), shape }]
  }))
  const bytes = await toBytes(data, { format: 'metatensor', schema: layout.schema })
  assert.equal(bytes.length, size)
  const file = await open(bytes)
  for (const { name, start, end } of tensors) {
    const [c] = file.tensor(name).components
    assert.deepEqual([c!.offset, c!.storedLen], [start, end - start], name)
  }
  assert.equal(JSON.stringify(JSON.parse(file.attributes.get('metatensor.schema') as string)), JSON.stringify(layout.schema))
  assert.equal((await file.verify()).verdict, 'sound')
})

test('every component is rendered', async () => {
  const layout = render(
    <Model title="a dataset">
      <ArrayOf name="photos">
        <Field name="id" type={s.Uint32()} />
        <Field name="caption" type={s.Text()} optional />
        <Struct name="at" align="natural">
          <Field name="lat" type={s.Float64()} />
          <Field name="lon" type={s.Float64()} />
        </Struct>
        <Tensor name="pixels" dtype="U8" shape={[8, 8]} />
        <ArrayOf name="rgb" of={s.Uint8()} count={3} />
        <ArrayOf name="boxes">
          <Field name="x" type={s.Int16()} />
        </ArrayOf>
      </ArrayOf>
      <Blob name="texts" content="utf-8" />
      <List name="layers" minItems={1}>
        <Tensor name="w" shape={['n', null]} />
      </List>
      <Tensor name="a.b" dtype="F32" shape={[1]} optional />
    </Model>,
  )
  assert.deepEqual(layout.schema, s.toSchema(s.References({
    photos: s.Array(s.Struct({
      id: s.Uint32(),
      caption: s.Optional(s.Text()),
      at: s.Struct({ lat: s.Float64(), lon: s.Float64() }, { align: 'natural' }),
      pixels: s.Tensor({ dtype: 'U8', shape: [8, 8] }),
      rgb: s.FixedArray(s.Uint8(), 3),
      boxes: s.Array(s.Struct({ x: s.Int16() })),
    })),
    texts: s.Blob('utf-8'),
    layers: s.ReferenceList(s.References({ w: s.Tensor({ shape: ['n', null] }) }), { minItems: 1 }),
    'a.b': s.Optional(s.Tensor({ dtype: 'F32', shape: [1] })),
  }, { title: 'a dataset' })))
  const outline = await layout.outline()
  assert.equal(outline.find(({ path }) => path === 'photos[].at.lon')?.offset, 32)
  assert.deepEqual(layout.tensors, [{ name: 'a\\.b', dtype: 'F32', shape: [1] }])
  await assert.rejects(layout.place(), /length of `photos` is not known/)
})

test('trees of other libraries are rendered', () => {
  const h = (type: unknown, props: object | null, ...children: unknown[]) => ({ type, props, children })
  const other = h('Model', { additionalProperties: false },
    h(({ children }: { children: unknown }) => h('Fragment', null, children) as never, null,
      h('Struct', { name: 'conv1' }, [h('Tensor', { name: 'w', dtype: 'F32', shape: [1] })])))
  const own = <Model additionalProperties={false}><Struct name="conv1"><Tensor name="w" dtype="F32" shape={[1]} /></Struct></Model>
  assert.deepEqual(render(other as AnyNode).schema, render(own).schema)
  // Another host makes something else of it.
  const names: HostConfig<string[]> = {
    createInstance: (type, props) => [`${type} ${String(props['name'] ?? '')}`.trim()],
    appendChild: (parent, child) => parent.push(...child),
  }
  assert.deepEqual(renderTo(own, names), ['Model', 'Struct conv1', 'Tensor w'])
  assert.equal(renderTo(own, LayoutHostConfig).children[0]!.children[0]!.props['name'], 'w')
})

test('trees are compared, and what changed is a step of the version', async () => {
  const none = await reconcile(tree(), tree())
  assert.deepEqual([none.bump, none.changes, await none.plan()], ['patch', [], []])
  const { bump, changes } = await reconcile(tree(), tree(40))
  assert.equal(bump, 'major')
  assert.ok(changes.some(({ path, change }) => path === 'conv1.weight' && change === 'shape'))
  const more = <Model additionalProperties={false}><Layer name="conv1" out={20} /><Layer name="conv2" out={20} /><Tensor name="scale" dtype="F32" shape={[]} optional /></Model>
  const added = await reconcile(tree(), more)
  assert.deepEqual([added.bump, added.changes[0]!.change, added.changes[0]!.path], ['minor', 'added', 'scale'])
  assert.deepEqual(await added.plan(), [{ what: 'absent', to: 'scale', new: added.changes[0]!.new }])
  const removed = await reconcile(more, tree())
  assert.equal(removed.bump, 'major')
  await assert.rejects(removed.plan(), { code: 'evolve/drops-member' })
  assert.deepEqual((await removed.plan({ drop: true })).map(({ what, from }) => [what, from]), [['dropped', 'scale']])
})

test('the plan of a migration says what becomes of tensors and of members of records', async () => {
  const model = (dtype: s.DType, name: string, members: Node[]) => <Model>
    <Tensor name={name} dtype={dtype} shape={[4]} />
    <ArrayOf name="points">{members}</ArrayOf>
  </Model>
  const x = (type: s.Kind<number>) => <Field name="x" type={type} />
  const before = model('F32', 'w', [x(s.Int16()), <Field name="note" type={s.Text()} />])
  const { plan } = await reconcile(before, model('F64', 'w', [
    x(s.Int32()), <Field name="text" type={s.Text()} />, <Field name="more" type={s.Int8({ default: 7 })} />,
  ]))
  const steps = await plan({ renames: { 'points[].text': 'points[].note' } })
  assert.deepEqual(steps.map(({ what, from, to }) => [what, from, to]), [
    ['widened', 'points[].x', 'points[].x'], ['renamed', 'points[].note', 'points[].text'],
    ['default', undefined, 'points[].more'], ['widened', 'w', 'w'],
  ])
  await assert.rejects(plan(), { code: 'evolve/no-default' })
  const narrower = await reconcile(before, model('F16', 'v', [x(s.Int8()), <Field name="note" type={s.Text()} />]))
  const renames = { v: 'w' }
  await assert.rejects(narrower.plan({ renames }), { code: 'evolve/no-converter' })
  const made = await narrower.plan({ renames, converters: { v: 'cast', 'points[].x': 'cast' } })
  assert.deepEqual(made.map(({ what, from, to, by }) => [what, from, to, by]), [
    ['converted', 'points[].x', 'points[].x', 'cast'], ['converted', 'w', 'v', 'cast'],
  ])
  const shape = (shape: number[]) => s.toSchema(s.References({ w: s.Tensor({ dtype: 'F32', shape }) }))
  const reshaped = await planMigration(shape([4]), shape([2, 2]), { converters: { w: 'reshape' } })
  assert.deepEqual(reshaped, [{ what: 'converted', from: 'w', to: 'w', old: 'F32 [4]', new: 'F32 [2, 2]', by: 'reshape' }])
  await assert.rejects(planMigration(shape([4]), shape([5]), { converters: { w: 'reshape' } }), { code: 'evolve/no-converter' })
  await assert.rejects(planMigration(shape([4]), shape([2, 2]), { converters: { w: 'none' } }), { code: 'evolve/converter' })
  await assert.rejects(planMigration(shape([4]), shape([2, 2]), { converters: { w: 'cast' } }), { code: 'evolve/no-converter' })
  // Names that change places, of the same type and of others; one whose name is taken is left out.
  const two = (a: 'F32' | 'F16', b: 'F32' | 'F16') =>
    s.toSchema(s.References({ a: s.Tensor({ dtype: a, shape: [4] }), b: s.Tensor({ dtype: b, shape: [4] }) }))
  const swap = { renames: { a: 'b', b: 'a' } }
  for (const [from, to] of [[two('F32', 'F32'), two('F32', 'F32')], [two('F32', 'F16'), two('F16', 'F32')]] as const) {
    const swapped = await planMigration(from, to, swap)
    assert.deepEqual(swapped.map(({ what, from, to }) => [what, from, to]), [['renamed', 'b', 'a'], ['renamed', 'a', 'b']])
  }
  await assert.rejects(planMigration(two('F32', 'F32'), two('F32', 'F32'), { renames: { a: 'b' } }), { code: 'evolve/drops-member' })
  const [old, now] = [s.Int8(), s.Int16()].map((x) => s.toSchema(s.Struct({ x })))
  assert.deepEqual(await planMigration(old!, now!), [{ what: 'widened', from: 'x', to: 'x', old: 'Int8', new: 'Int16' }])
  await assert.rejects(planMigration(now!, old!), { code: 'evolve/no-converter' })
})

test('options of a plan that match nothing are errors, with the message of the command', async () => {
  const unknown = { code: 'schema/unknown-path' }
  const { plan } = await reconcile(
    <Model><Tensor name="w" dtype="F32" shape={[4]} /><ArrayOf name="points"><Field name="x" type={s.Int16()} /></ArrayOf></Model>,
    <Model><Tensor name="v" dtype="F32" shape={[4]} /><ArrayOf name="points"><Field name="y" type={s.Int16()} /></ArrayOf></Model>)
  const renames = { v: 'w', 'points[].y': 'points[].x' }
  assert.equal((await plan({ renames })).length, 2)
  for (const more of [{ n: 'w' }, { v: 'n' }, { 'points[].z': 'points[].x' }, { 'points[].y': 'points[].z' }, { 'other[].y': 'points[].x' }, { y: 'x' }]) {
    await assert.rejects(plan({ renames: { ...renames, ...more }, drop: true }), unknown, JSON.stringify(more))
  }
  for (const path of ['n', 'points', 'points[].z', 'z', 'points[]']) {
    await assert.rejects(plan({ renames, converters: { [path]: 'cast' } }), unknown, path)
  }
  const record = [s.Struct({ a: s.Int8() }), s.Struct({ b: s.Int8() })].map((of) => s.toSchema(of)) as [object, object]
  assert.equal((await planMigration(...record, { renames: { b: 'a' } })).length, 1)
  await assert.rejects(planMigration(...record, { renames: { b: 'a', c: 'a' } }), unknown)
  await assert.rejects(planMigration(...record, { renames: { b: 'a' }, converters: { c: 'cast' } }), unknown)
  // What does not change is made by a converter all the same; one for other types is refused.
  const of = (dtype: s.DType, shape: number[]) => s.toSchema(s.References({ w: s.Tensor({ dtype, shape }) }))
  const same = of('F32', [4])
  assert.deepEqual(await planMigration(same, same, { converters: { w: 'negate' } }).catch((e) => e.code), 'evolve/converter')
  assert.deepEqual(await planMigration(same, same, { converters: { w: 'cast' } }), [])
  assert.deepEqual((await planMigration(same, same, { converters: { w: 'scale(2)' } })).map(({ what, by }) => [what, by]), [['converted', 'scale(2)']])
  await assert.rejects(planMigration(same, of('C64', [4]), { converters: { w: 'scale(2)' } }), { code: 'evolve/no-converter' })
  // A long shape is shortened.
  const long = (last: number) => [...Array.from({ length: 40 }, () => 1), last]
  const other = s.toSchema(s.References({ v: s.Tensor({ dtype: 'F32', shape: long(3) }) }))
  await assert.rejects(planMigration(of('F32', long(2)), other, { renames: { v: 'w' } }), { code: 'evolve/no-converter' })
})

/** Numbers that are the same for a seed. */
function* numbers(seed: number): Generator<number> {
  for (let x = seed; ; ) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0
    yield x >>> 8
  }
}

test('what the trees say is what the core says of the schemas that they stand for', async () => {
  const next = numbers(7)
  const pick = (n: number): number => next.next().value! % n
  const dtypes = ['F32', 'F16', 'I64'] as const
  /** A tree, and the schema of it by the builders. */
  const make = (depth: number): [Node[], [string, s.Kind<any>][]] => {
    const nodes: Node[] = []
    const members: [string, s.Kind<any>][] = []
    for (const name of ['a', 'b', 'c', 'd'].filter(() => pick(3) > 0)) {
      const optional = pick(4) === 0
      const put = (node: Node, kind: s.Kind<any>) => {
        nodes.push(node)
        members.push([name, optional ? s.Optional(kind) : kind])
      }
      if (depth > 0 && pick(3) === 0) {
        const [inner, own] = make(depth - 1)
        put(<Struct name={name} optional={optional}>{inner}</Struct>, s.References(own))
      } else if (pick(4) === 0) {
        const type = [s.Int8(), s.Int32(), s.Float32()][pick(3)]!
        put(
          <ArrayOf name={name} optional={optional}><Field name="x" type={type} /></ArrayOf>,
          s.Array(s.Struct({ x: type })),
        )
      } else {
        const dtype = dtypes[pick(3)]!
        const shape = [pick(3), pick(2) === 0 ? null : 4]
        put(<Tensor name={name} dtype={dtype} shape={shape} optional={optional} />, s.Tensor({ dtype, shape }))
      }
    }
    return [nodes, members]
  }
  const bumps = new Set<string>()
  for (let n = 0; n < 60; n++) {
    const [before, old] = make(2)
    const [after, now] = make(2)
    if (n % 3 === 0) {
      // The same, and a tensor that may be there.
      after.splice(0, after.length, ...before, <Tensor name="z" dtype="F32" optional />)
      now.splice(0, now.length, ...old, ['z', s.Optional(s.Tensor({ dtype: 'F32' }))])
    }
    const found = await reconcile(<Model>{before}</Model>, <Model>{after}</Model>)
    const expected = await diffSchemas(s.toSchema(s.References(old)), s.toSchema(s.References(now)), { of: 'file' })
    const { plan, ...delta } = found
    assert.deepEqual(delta, expected)
    // A change that nothing stands in the way of is in the plan, and one that is in its way is an error.
    const steps = await plan({ drop: true }).catch((e) => (assert.match(e.code, /^evolve\//), null))
    const isFree = expected.changes.every(({ verdict, change }) => verdict === 'compatible' || change === 'removed')
    if (steps === null) assert.ok(!isFree, JSON.stringify(expected))
    else {
      assert.deepEqual(steps, await planMigration(render(<Model>{before}</Model>).schema, render(<Model>{after}</Model>).schema, { drop: true }))
      const wide = expected.changes.filter(({ change, verdict }) => /widened|dtype/.test(change) && verdict === 'compatible').map(({ path }) => path)
      assert.deepEqual(steps.filter(({ what }) => what === 'widened').map(({ to }) => to).sort(), wide.sort())
    }
    bumps.add(found.bump)
  }
  assert.ok(bumps.size > 1)
})

test('invalid layouts are refused', () => {
  assert.throws(() => render(<Tensor name="a" />), /a layout is a `Model`/)
  assert.throws(() => render(<Model><Model /></Model>), /a `Model` stands in nothing/)
  assert.throws(() => render({ type: 'Model', props: { children: [{ type: 'div', props: {} }] } }), /`div` is not a component/)
  assert.throws(() => render({ type: 'Model', props: { children: ['text'] } }), /`text` is not a component/)
  assert.throws(() => render({ type: 'Model', props: { children: [{ type: 'Tensor', props: {} }] } }), /no `name`/)
  assert.throws(() => render(<Model><Tensor name="a" /><Blob name="a" content="json" /></Model>), /two members are called `a`/)
  assert.throws(() => render(<Model><ArrayOf name="a"><Blob name="b" content="json" /></ArrayOf></Model>), /`Blob` at `a\[\]\.b`: it does not stand in a record/)
})

/** What TypeScript refuses: never called. */
export const refused = () => [
  // @ts-expect-error There are no elements of HTML.
  <div />,
  // @ts-expect-error There is no such element type.
  <Tensor name="a" dtype="F33" />,
  // @ts-expect-error A shape is a list.
  <Tensor name="a" shape={3} />,
  // @ts-expect-error A blob says what it holds.
  <Blob name="a" />,
  // @ts-expect-error A model is not aligned.
  <Model align={64} />,
]
