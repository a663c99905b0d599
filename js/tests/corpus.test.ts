import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { test } from 'node:test'
import { HoldallError, Simple, Tagged, fromBytes, open, type Source, type TensorFile, type Value } from 'holdall'
import { exactJson, filesOf, read } from './corpus.js'

/** What only the standard keywords of a schema tell, which this build does not look at. */
const UNCHECKED = [
  'metatensor.value.kind.mt', 'metatensor.value.minimum.mt', 'schema.invalid.minimum.mt',
  'schema.too-large.all.mt', 'schema.too-large.alternatives.mt',
]

/** An attribute's value as the command's JSON has it. */
function plain(value: Value): unknown {
  if (value === undefined) return { $undefined: true }
  if (typeof value === 'bigint') return { $int: String(value) }
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return { $float: Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf' }
  }
  if (value === null || typeof value !== 'object') return value
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('hex') }
  if (Array.isArray(value)) return value.map(plain)
  if (value instanceof Tagged) return { $tag: [plain(value.tag), plain(value.value)] }
  if (value instanceof Simple) return { $simple: value.number }
  const pairs = [...value].map(([key, item]) => [key, plain(item)] as const)
  const isPlain = pairs.every(([key]) => typeof key === 'string' && !key.startsWith('$'))
  const nan = pairs.map(([key, item]) => [plain(key), item])
  return isPlain ? Object.fromEntries(pairs as [string, unknown][]) : { $map: nan }
}

/** Bits of a float that is not a number are lost in JavaScript: all are `nan`. */
function sameNan(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(sameNan)
  if (json === null || typeof json !== 'object') return json
  const entries = Object.entries(json).map(([key, value]) => [key, sameNan(value)])
  const [only] = entries
  if (entries.length === 1 && only![0] === '$float' && !['inf', '-inf'].includes(only![1] as string)) {
    return { $float: 'nan' }
  }
  return Object.fromEntries(entries)
}

/** What `holdall inspect --json --digests` says of a file. */
async function described(file: TensorFile, name: string): Promise<unknown> {
  const tensors = []
  for (const tensor of file.tensors) {
    const components: Record<string, unknown> = {}
    for (const c of tensor.components) {
      const { role, dtype, logicalType, offset, storedLen, encoding, digest } = c
      const hash = createHash('sha256')
      let len = 0
      for await (const piece of tensor.pieces({ role })) {
        hash.update(piece)
        len += piece.length
      }
      const whole = await tensor.bytes({ role })
      assert.equal(createHash('sha256').update(whole).digest('hex'), hash.copy().digest('hex'))
      components[role] = {
        dtype, logical_type: logicalType, offset, stored_len: storedLen, encoding,
        decoded_len: c.decodedLen ?? len, digest, sha256: hash.digest('hex'),
      }
    }
    const attributes = Object.fromEntries([...tensor.attributes].map(([k, v]) => [k, plain(v)]))
    const { fault } = tensor
    tensors.push({
      name: tensor.name, shape: tensor.shape, layout: tensor.layout, attributes, components,
      ...(fault === null ? {} : { fault: fault.code }),
    })
  }
  const attributes = Object.fromEntries([...file.attributes].map(([k, v]) => [k, plain(v)]))
  const { format, version } = file
  const warnings = file.warnings.filter(({ code }) => code !== 'metatensor/values-unchecked')
  const unrepresented = file.unrepresented.length === 0 ? {} : { unrepresented: file.unrepresented }
  return { source: name, format, version, attributes, tensors, files: [], ...unrepresented, warnings }
}

/** The first thing wrong with a file. */
async function errorOf(source: Source): Promise<HoldallError | null> {
  try {
    const file = await open(source)
    const { findings } = await file.verify()
    if (findings.length > 0) return findings[0]!
    for (const tensor of file.tensors) {
      try {
        await tensor.array()
      } catch (e) {
        if (e instanceof HoldallError && ['file/unknown-layout', 'package/not-here'].includes(e.code)) continue
        throw e
      }
    }
    return null
  } catch (e) {
    if (e instanceof HoldallError) return e
    throw e
  }
}

/** A source that gives no byte that was not asked for, and says that it is far away. */
function far(bytes: Uint8Array): Source {
  const hints = { piece: 64, gap: 8, atOnce: 3, ends: 0 }
  return { size: bytes.length, hints, read: async (start, end) => bytes.slice(start, end) }
}

test('accepted files are what the command says of them', async () => {
  const wrong: string[] = []
  for (const path of filesOf('accept').filter((path) => existsSync(`${path}.json`))) {
    const file = await open(fromBytes(read(path)))
    const expected = exactJson(readFileSync(`${path}.json`, 'utf8')) as {
      tensors: { fault?: { code: string } | string; members?: unknown; shape: (number | { $int: string })[] }[]
    }
    for (const tensor of expected.tensors) {
      if (typeof tensor.fault === 'object') tensor.fault = tensor.fault.code
      delete tensor.members
      tensor.shape = tensor.shape.map((n) => (typeof n === 'number' ? n : Number(n.$int)))
    }
    try {
      const found = await described(file, basename(path))
      // The command, which fetches what a package links to, lists what that will be.
      ;(found as { tensors: { layout: string }[] }).tensors.forEach((tensor, n) => {
        if (tensor.layout === 'linked') expected.tensors[n] = tensor as never
      })
      assert.deepEqual(sameNan(found), sameNan({ ...expected, files: [] }))
    } catch (e) {
      wrong.push(`${path}: ${(e as Error).message.slice(0, 900)}`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('accepted files are sound, read at once and in bits', async () => {
  const wrong: string[] = []
  for (const path of filesOf('accept')) {
    const bytes = read(path)
    for (const source of [fromBytes(bytes), far(bytes)]) {
      const e = await errorOf(source)
      // A wide sparse tensor is as sound as any, though there is no room for all its zeros.
      if (e !== null && e.code !== 'layout/dense-limit') wrong.push(`${path}: ${e.message}`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('rejected files are refused with the code they are named after', async () => {
  const wrong: string[] = []
  for (const path of filesOf('reject')) {
    const name = basename(path)
    const [area, what] = name.split('.')
    const bytes = read(path)
    for (const source of [fromBytes(bytes), far(bytes)]) {
      let e = await errorOf(source)
      if (e === null && UNCHECKED.includes(name)) continue
      // Who reads tensors of a package does not read its other files: verifying does, and names the file.
      if (name.endsWith('.carton') && (e === null || e.code === 'file/digest')) {
        e = (await (await open(source)).verify()).findings[0] ?? null
      }
      if (e?.code !== `${area}/${what}`) wrong.push(`${path}: ${e?.message}`)
    }
  }
  assert.deepEqual(wrong, [])
})
