/** Deltas: files by another writer and by the command, applied to their base and refused with another. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { open, toBytes, type TensorFile } from 'holdall'
import { applyDelta, encodeTarget, showDelta } from 'holdall/delta'
import { diff } from 'holdall/reports'
import { corpus, read } from './corpus.js'

let folder = ''
before(() => (folder = mkdtempSync(join(tmpdir(), 'holdall-'))))
after(() => rmSync(folder, { recursive: true }))

/** Opened from memory, so that there is nothing to close. */
const accepted = (name: string) => open(read(join(corpus, 'accept/ztensor', name)))
const sha256 = async (file: TensorFile, name: string) =>
  createHash('sha256').update(await file.tensor(name).bytes()).digest('hex')

/** The hashes of the target were computed by the writer of the files. */
const TARGET = {
  a: '9b5f065ff5e964a540603045f8c81769ce6176818c19058685d24bd17b232fc7',
  b: 'b082c4de0a8c4311aef674d479adc8134fa4da2f18282fd9b07eced4170df5e5',
  c: 'a96a1c7df82d7295b674327c8e7f4546bc185d12c17a503ce82f8863dec642fb',
  new: 'e2c0a71510b5394df7773b63fb5f54372b84c3564e67811bde7d665be227976d',
  special: 'd26a0b8b99b0170e1a5190e8ce83ad1fe1434994e101dee34f201551ba7a8232',
  f8: '6350de4819495217d75dc8c8281517a3e36fe737adebc95c6ec1aaba33fedfb7',
}

test('a delta of another writer is shown', async () => {
  const shown = await showDelta(await accepted('delta-all.zt'))
  assert.deepEqual(shown.tensors.map(({ name, changed }) => [name, changed]), [
    ['a', 2227], ['b', 24576], ['f8', 676], ['new', null], ['special', 12],
  ])
  assert.deepEqual([shown.removed, shown.targetTensors], [['gone'], 6])
  assert.equal(shown.tensors[0]!.dense, 'bf16')
  await assert.rejects(showDelta(await accepted('delta-base.zt')), { code: 'delta/not-a-delta' })
})

test('a delta is applied to its base, into bytes, a path and a stream', async () => {
  const [base, delta] = [await accepted('delta-base.zt'), await accepted('delta-all.zt')]
  for (const format of ['ztensor', 'safetensors']) {
    const bytes = await applyDelta(base, delta, { format })
    const target = await open(bytes)
    assert.deepEqual([...target.names].sort(), Object.keys(TARGET).sort())
    for (const [name, hash] of Object.entries(TARGET)) assert.equal(await sha256(target, name), hash, `${format}: ${name}`)
    assert.equal(target.attributes.has('delta'), false)
    assert.equal((await target.verify()).verdict, 'sound')
    // Applied to its target, it changes nothing.
    const again = await open(await applyDelta(target, delta))
    assert.ok((await diff(target, again)).identical)
    const path = join(folder, format === 'ztensor' ? 'target.zt' : 'target.safetensors')
    await applyDelta(base, delta, { to: path })
    assert.ok((await diff(target, await open(read(path)))).identical)
    await assert.rejects(applyDelta(base, delta, { to: path }), { code: 'write/exists' })
    const pieces: Uint8Array[] = []
    await applyDelta(base, delta, { format, to: new WritableStream({ write: (piece) => void pieces.push(piece.slice()) }) })
    assert.ok((await diff(target, await open(new Blob(pieces as BlobPart[])))).identical)
  }
})

test('another base is refused before the first byte', async () => {
  const delta = await accepted('delta-all.zt')
  const first = async (base: TensorFile, delta: TensorFile) => encodeTarget(base, delta, { format: 'ztensor' }).next()
  await assert.rejects(first(await accepted('delta-small_base.zt'), delta), { code: 'delta/base' })
  await assert.rejects(first(delta, delta), { code: 'delta/unfit' })
  await assert.rejects(first(await accepted('delta-base.zt'), await accepted('delta-base.zt')), { code: 'delta/not-a-delta' })
  const small = await accepted('delta-small_base.zt')
  for (const name of ['base', 'dtype', 'stranger']) {
    await assert.rejects(first(small, await accepted(`delta-other_${name}.zt`)), { code: 'delta/base' }, name)
  }
  for (const name of ['delta-small_gaps.zt', 'delta-small_mask.zt']) {
    const target = await open(await applyDelta(small, await accepted(name)))
    assert.equal(await sha256(target, 't'), 'de5b2c382019d8d859558700c338a5861c526edb5835a5696a705844aa59d524')
  }
})

test('damaged deltas are refused with their rule', async () => {
  for (const name of [
    'delta.components.golden-neither', 'delta.gap.golden-past', 'delta.gap.golden-255', 'delta.gap.golden-shape', 'delta.length.golden-mask',
    'delta.changed.golden-starts', 'delta.length.golden-changed', 'delta.value.golden-largest', 'delta.attribute.golden-digest', 'delta.spare-bits.golden-set',
  ]) {
    const [area, what] = name.split('.')
    const delta = await open(read(join(corpus, 'reject/ztensor', `${name}.zt`)))
    const base = await accepted(what === 'spare-bits' ? 'delta-small_base_597.zt' : 'delta-small_base.zt')
    await assert.rejects(applyDelta(base, delta), { code: `${area}/${what}` }, name)
    await assert.rejects(showDelta(delta), { code: `${area}/${what}` }, name)
  }
})

test('a base with the same tensors but other elements is refused', async () => {
  const [base, delta] = [await accepted('delta-base.zt'), await accepted('delta-all.zt')]
  const tensors = Object.fromEntries(await Promise.all(base.tensors.map(async (tensor) => {
    const data = (await tensor.bytes()).slice()
    if (tensor.name === 'a') data[7]! ^= 1
    return [tensor.name, { data, dtype: tensor.dense!, shape: tensor.shape }] as const
  })))
  const other = await open(await toBytes(tensors, { format: 'ztensor' }))
  await assert.rejects(applyDelta(other, delta), { code: 'delta/base', tensor: 'a' })
})
