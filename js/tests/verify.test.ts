import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { open, toBytes } from 'holdall'
import { openArchive } from 'holdall/archive'
import { stats } from 'holdall/reports'
import { corpus, filesOf, root } from './corpus.js'

/** The command, which `cargo xtask js` builds. */
const command = process.env['HOLDALL'] ?? join(root, 'target/debug/holdall')
const skip = existsSync(command) ? false : `there is no ${command}`

test('verification checks the same as the command', { skip }, async () => {
  const wrong: string[] = []
  let checked = 0
  for (const path of filesOf('accept').filter((path) => existsSync(`${path}.json`) && !path.includes('carton/'))) {
    const file = await open(path)
    const found = await file.verify()
    const report = JSON.parse(execFileSync(command, ['verify', '--json', path], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
    const common = (of: any) => Object.fromEntries(
      ['verdict', 'tensors', 'components', 'decoded', 'bools', 'sparse', 'quantized', 'records', 'blobs', 'digests', 'content'].map((name) => [name, of[name]]))
    const warnings = (of: { code: string; message: string; tensor: string | null; count: number }[]) =>
      // What JavaScript does not check of values it says; see docs/javascript.md.
      of.filter(({ code }) => code !== 'metatensor/values-unchecked').map(({ code, message, tensor, count }) => ({ code, message, tensor, count }))
    const unverified = Object.fromEntries(report.unverified.map(({ reason, count }: { reason: string; count: number }) => [reason, count]))
    try {
      assert.deepEqual(
        { ...common(found), unverified: found.unverified, warnings: warnings([...found.warnings]) },
        { ...common(report), unverified, warnings: warnings(report.warnings) })
      checked++
    } catch (e) {
      wrong.push(`${path}: ${(e as Error).message.slice(0, 900)}`)
    }
    await file.close()
  }
  assert.deepEqual(wrong, [])
  assert.ok(checked > 50, `${checked} files`)
})

test('of packages all files are verified, as the command verifies them', { skip }, async () => {
  const wrong: string[] = []
  let [checked, bad] = [0, 0]
  for (const path of [...filesOf('accept'), ...filesOf('reject')].filter((path) => path.endsWith('.carton'))) {
    const file = await open(path).catch(() => null)
    if (file === null) continue
    const found = await file.verify()
    const { stdout } = spawnSync(command, ['verify', '--json', path], { encoding: 'utf8' })
    const report = JSON.parse(stdout)
    const of = ({ files, hashed, unhashed, linked }: any) => ({ files, hashed, unhashed, linked })
    const codes = (all: readonly { code: string }[]) => all.map(({ code }) => code)
    try {
      assert.deepEqual(
        [found.verdict, of(found.package), codes(found.findings), codes(found.warnings)],
        [report.verdict, of(report), codes(report.findings), codes(report.warnings)])
      assert.deepEqual(found.findings.map((e) => e.found), report.findings.map(({ message }: { message: string }) => message))
      checked++
      bad += Number(found.verdict === 'bad')
    } catch (e) {
      wrong.push(`${path}: ${(e as Error).message.slice(0, 900)}`)
    }
    await file.close()
  }
  assert.deepEqual(wrong, [])
  assert.ok(checked > 30 && bad > 3, `${checked} files, ${bad} of them bad`)
})

test('a damaged file of a package that no tensor is in is found and named', async () => {
  const bytes = readFileSync(join(corpus, 'accept/carton/made-full.carton'))
  const sound = await (await open(bytes)).verify()
  assert.equal(sound.verdict, 'sound')
  assert.ok(sound.package!.hashed > 3 && sound.package!.linked === 0)
  const picture = await (await openArchive(bytes)).read('misc/picture.png')
  const at = bytes.indexOf(picture)
  assert.ok(at > 0)
  bytes[at + 20]! ^= 1
  const { verdict, findings, package: files } = await (await open(bytes, { name: 'damaged.carton' })).verify()
  assert.deepEqual([verdict, findings.map(({ code, source }) => [code, source])],
    ['bad', [['carton/hash', 'damaged.carton!/misc/picture.png']]])
  assert.equal(files!.hashed, sound.package!.hashed - 1)
})

test('chunks that do not decode are found, though nothing states a digest', async () => {
  const names = ['chunks.broken.deflate', 'chunks.broken.len', 'chunks.broken.lzf', 'chunks.checksum.fletcher32']
  for (const name of names) {
    await using file = await open(join(corpus, 'reject/hdf5', `${name}.h5`))
    const { verdict, findings } = await file.verify()
    assert.deepEqual([verdict, findings[0]?.code], ['bad', name.split('.').slice(0, 2).join('/')], name)
  }
  await using sound = await open(join(corpus, 'accept/hdf5/h5py_chunks-v110.h5'))
  assert.ok((await sound.verify()).decoded > 0)
  // Two arrays that look alike are two.
  const [first, second] = ['c00', 'c03'].map((name) => sound.tensor(name).components[0]!)
  const alike = ({ role, dtype, decodedLen, offset }: typeof first & {}) => [role, dtype, decodedLen, offset]
  assert.deepEqual(alike(first!), alike(second!))
  const [, start, end] = (await sound.core()).numbers('chunks', [second!.source, 0n, 1n])
  const bytes = new Uint8Array(readFileSync(join(corpus, 'accept/hdf5/h5py_chunks-v110.h5')))
  bytes[(start! + end!) >> 1]! ^= 0xff
  assert.equal((await (await open(bytes)).verify()).verdict, 'bad')
})

test('nonzero padding is reported with its offset', async () => {
  const bytes = await toBytes({ a: new Uint8Array([1]), b: new Uint8Array([2]) }, { format: 'ztensor' })
  const file = await open(bytes)
  const [first] = file.tensor('a').components
  const odd = bytes.slice()
  odd[first!.offset! + 5] = 7
  const { verdict, warnings } = await (await open(odd)).verify()
  assert.equal(verdict, 'sound')
  assert.deepEqual(warnings.map(({ code, tensor, count }) => [code, tensor, count]), [['ztensor/padding', 'b', 1]])
})

test('statistics count the implicit zeros of sparse tensors', async () => {
  for (const name of ['made-0.1-sparse.zt', 'made-1.2-sparse.zt']) {
    const path = join(corpus, 'accept/ztensor', name)
    const file = await open(path)
    const sparse = file.tensors.filter(({ layout }) => /^sparse_?(csr|coo)$/.test(layout))
    assert.ok(sparse.length > 0, name)
    let implied = 0
    for (const tensor of sparse) {
      const { count, zeros, impliedZeros } = await stats(tensor)
      assert.ok(zeros >= impliedZeros && count === tensor.count, `${name} ${tensor.name}`)
      implied += impliedZeros
    }
    assert.ok(implied > 0, name)
  }
})
