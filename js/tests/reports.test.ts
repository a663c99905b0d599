import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { HoldallError, open, toBytes, type TensorFile } from 'holdall'
import { diff, inspect, stats } from 'holdall/reports'
import { corpus, filesOf, read, root } from './corpus.js'

const tiny = () => open(join(root, 'examples/tiny.zt'))
const made = async (tensors: Parameters<typeof toBytes>[0], attributes = new Map()): Promise<TensorFile> =>
  open(await toBytes(tensors, { format: 'ztensor', attributes }))

test('statistics are those of the values, exact at the ends', async () => {
  const file = await made({
    floats: new Float32Array([1, 2, 3, 4, NaN, Infinity, -Infinity, 0, -0, 2.5]),
    wide: new BigInt64Array([-(2n ** 63n), 0n, 2n ** 63n - 1n]),
    same: new Int8Array([7, 7, 7]),
    none: new Float32Array(0),
    bad: { data: new Float32Array([NaN, NaN]) },
  })
  const floats = await stats(file.tensor('floats'), { bins: 4 })
  assert.equal(floats.count, 10)
  assert.deepEqual([floats.zeros, floats.nan, floats.inf, floats.negInf], [2, 1, 1, 1])
  assert.deepEqual([Number(floats.min) + 0, floats.max], [0, 4])
  assert.ok(Math.abs(floats.mean! - 12.5 / 7) < 1e-12)
  assert.deepEqual(floats.histogram!.counts, [2, 1, 2, 2])
  const wide = await stats(file.tensor('wide'))
  assert.deepEqual([wide.min, wide.max], [-(2n ** 63n), 2n ** 63n - 1n])
  assert.deepEqual((await stats(file.tensor('same'))).histogram, { min: 7, max: 7, counts: [3] })
  const none = await stats(file.tensor('none'))
  assert.deepEqual([none.count, none.min, none.histogram], [0, null, null])
  assert.deepEqual([(await stats(file.tensor('bad'))).min, (await stats(file.tensor('bad'))).nan], [null, 2])
  assert.equal((await stats(file.tensor('floats'), { bins: 0 })).histogram, null)
})

test('statistics go through every layout in pieces, two at a time, with progress', async () => {
  const file = await tiny()
  const [sparse, quantized] = await Promise.all([
    stats(file.tensor('router.weight')), stats(file.tensor('experts.gate.weight')),
  ])
  const zeros = [...(await file.tensor('router.weight').array({ as: 'f64' }))].filter((x) => x === 0).length
  assert.deepEqual([sparse.count, sparse.zeros], [512, zeros])
  assert.ok(sparse.impliedZeros > 0 && sparse.impliedZeros <= zeros)
  assert.equal(sparse.histogram!.counts.reduce((a, b) => a + b), 512)
  assert.equal(quantized.count, file.tensor('experts.gate.weight').count)
  const big = await made({ big: Float32Array.from({ length: 5_000_001 }, (_, n) => n % 1000) })
  const seen: number[] = []
  const found = await stats(big.tensor('big'), { onProgress: (done, all) => seen.push(done / all) })
  assert.deepEqual([found.count, found.min, found.max], [5_000_001, 0, 999])
  assert.equal(found.histogram!.counts.reduce((a, b) => a + b), 5_000_001)
  assert.ok(seen.length > 4 && seen.at(-1) === 1 && seen.every((x, at) => x >= (seen[at - 1] ?? 0)))
  const stop = new AbortController()
  const ended = stats(big.tensor('big'), { signal: stop.signal, onProgress: () => stop.abort(new Error('enough')) })
  await assert.rejects(ended, { message: 'enough' })
})

test('statistics agree with the elements, over the whole corpus', async () => {
  let looked = 0
  for (const path of filesOf('accept')) {
    const file = await open(read(path)).catch(() => undefined)
    for (const tensor of file?.tensors ?? []) {
      if (tensor.fault !== null || tensor.dense === null || tensor.count > 100_000) continue
      const array = await tensor.array({ as: 'f64' }).catch(() => undefined)
      if (array === undefined) continue
      const found = await stats(tensor, { bins: 3 })
      const finite = [...array].filter(Number.isFinite)
      assert.equal(found.count, array.length, `${path} ${tensor.name}`)
      const min = finite.reduce((a, b) => Math.min(a, b), Infinity)
      // -0 and 0 are one here.
      assert.equal(Number(found.min ?? Infinity) + 0, min + 0, path)
      assert.equal(found.histogram?.counts.reduce((a, b) => a + b) ?? 0, finite.length)
      const part = await tensor.elements(1, tensor.count < 1 ? 1 : tensor.count, { as: 'f64' }).catch(() => undefined)
      if (part !== undefined) assert.deepEqual([...part], [...array.subarray(1)], `${path} ${tensor.name}`)
      looked++
    }
  }
  assert.ok(looked > 300, String(looked))
})

test('unsupported statistics and ranges are errors', async () => {
  const file = await open(join(corpus, 'accept/metatensor/made-strings.mt'))
  await assert.rejects(stats(file.tensor('people')), { code: 'file/unknown-layout' })
  await assert.rejects((await tiny()).tensors[1]!.elements(1, 2 ** 52), { code: 'layout/rows' })
})

test('files are compared by what they mean', async () => {
  const values = Float32Array.from({ length: 600_000 }, (_, n) => n)
  const other = values.slice()
  other[599_999] = 0
  const a = await made({ w: { data: values, shape: [600, 1000] }, gone: new Int8Array(1), same: new Int8Array(9) })
  const b = await made(
    { same: new Int8Array(9), w: { data: other, shape: [600, 1000] }, new: new Int8Array(2) },
    new Map([['license', 'MIT']]),
  )
  const seen: number[] = []
  const found = await diff(a, b, { onProgress: (done, all) => seen.push(done / all) })
  assert.deepEqual([found.identical, found.same, found.valuesAgree, found.undecided], [false, false, false, false])
  assert.deepEqual([found.compared, found.unchanged], [2, 1])
  assert.deepEqual(found.removed.map((t) => t.name), ['gone'])
  assert.deepEqual(found.added, [{ name: 'new', shape: [2], layout: 'dense', dense: 'i8' }])
  assert.deepEqual(found.attributes, [{ key: 'license', b: 'MIT' }])
  const [w] = found.changed
  assert.deepEqual(w!.values, {
    count: 600_000, unequal: 1, differing: 1, maxAbs: 599_999, maxRel: 0, share: 1 / 600_000, nonFinite: 0,
    rms: w!.values!.rms, relative: w!.values!.relative, cosine: w!.values!.cosine,
    first: { index: [599, 999], a: 599_999, b: 0 },
  })
  const squares = values.reduce((sum, x) => sum + x * x, 0)
  const close = (x: number | null, y: number) => assert.ok(Math.abs(x! - y) < 1e-9 * y, `${x} ${y}`)
  close(w!.values!.rms, 599_999 / Math.sqrt(600_000))
  close(w!.values!.relative, 599_999 / Math.sqrt(squares))
  close(w!.values!.cosine, Math.sqrt((squares - 599_999 ** 2) / squares))
  assert.ok(seen.length > 1)
  assert.equal((await diff(a, a)).identical, true)
})

test('a tolerance, another type, another shape, and other components', async () => {
  const a = await made({ x: new Float32Array([1, 2]), y: new Float32Array([1, 2]), z: new Float32Array(4) })
  const b = await made({
    x: new Float32Array([1.001, 2]), y: new Float64Array([1, 2]), z: { data: new Float32Array(4), shape: [2, 2] },
  })
  const found = await diff(a, b, { rtol: 0.01 })
  const [x, y, z] = found.changed
  assert.deepEqual([x!.same, x!.values!.unequal, x!.values!.differing], [true, 1, 0])
  assert.deepEqual([y!.types, y!.values], [['f32', 'f64'], null])
  assert.deepEqual([z!.shapes, z!.values], [[[4], [2, 2]], null])
  const people = await open(join(corpus, 'accept/metatensor/made-strings.mt'))
  assert.equal((await diff(people, people)).identical, true)
  const mixed = await tiny()
  assert.equal((await diff(mixed, mixed)).identical, true)
  const stop = AbortSignal.abort(new Error('enough'))
  await assert.rejects(diff(mixed, mixed, { signal: stop }), { message: 'enough' })
})

test('layers have what changed in them', async () => {
  const model = (last: number, odd: number) => made({
    'embed.weight': new Float32Array([1, 2]), 'h.0.a': new Float32Array([3]), 'h.0.b': new Float32Array([4, last]), 'h.1.a': new Float32Array([1]),
    'h.10.a': new Float32Array([1, odd]), 'h.11.a': new Float32Array(2),
  })
  const { layers } = await diff(await model(0, 1), await model(5, NaN))
  assert.deepEqual(layers.map(({ name, tensors, changed, count, unequal }) => [name, tensors, changed, count, unequal]), [
    [null, 1, 0, 2, 0], ['h.0', 2, 1, 3, 1], ['h.1', 1, 0, 1, 0], ['h.10', 1, 1, 2, 1], ['h.11', 1, 0, 2, 0],
  ])
  assert.deepEqual(layers.map((l) => l.relative), [0, 1, 0, 0, 0])
  assert.deepEqual([layers[1]!.share, layers[1]!.maxAbs, layers[1]!.cosine], [1 / 3, 5, 25 / (5 * Math.sqrt(50))])
  assert.deepEqual([layers[3]!.nonFinite, layers[3]!.maxAbs], [1, 0])
})

test('files of the corpus are identical to themselves, or the reason is given', async () => {
  for (const path of filesOf('accept')) {
    const file = await open(read(path)).catch(() => undefined)
    if (file === undefined || file.size > 1 << 20) continue
    const found = await diff(file, file)
    assert.ok(found.identical || found.changed.every((t) => t.incomparable instanceof HoldallError), path)
  }
})

test('a file as one object, with its groups', async () => {
  const report = await inspect(await tiny(), { stats: true })
  assert.deepEqual([report.format, report.tensors.length], ['ztensor', 34])
  const norm = report.groups.find((group) => group.name === 'layers.{0..3}.norm.weight')
  assert.equal(norm?.members.length, 4, JSON.stringify(report.groups.map((g) => g.name)))
  const first = report.tensors.find((t) => t.name === 'embed.weight')
  assert.ok(first?.stats !== undefined && !(first.stats instanceof HoldallError) && first.stats.count === 1024)
})
