import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { open } from 'holdall'
import { corpus, read, root } from './corpus.js'

const dist = join(root, 'js/dist')
const [small, other] = ['safetensors/made-dtypes.safetensors', 'hdf5/h5py_dtypes-v110.h5'].map((path) => join(corpus, 'accept', path))
const run = (cwd: string, program: string): string =>
  execFileSync(process.execPath, ['--input-type=module', '-e', program], { cwd, encoding: 'utf8' }).trim()

test('the whole module is loaded for what the basic one does not do, and for nothing else', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdall-'))
  try {
    cpSync(dist, folder, { recursive: true, filter: (path) => !path.endsWith('holdall.wasm') && !path.includes('viewer') })
    assert.equal(run(folder, `import { diffSchemas, open, outlineSchema, toBytes } from './index.js'
      import { stats } from './reports/index.js'
      const file = await open(${JSON.stringify(small)})
      await file.verify()
      await stats(file.tensors[0])
      await outlineSchema({ type: 'integer', 'TypeDef:Int8': true })
      const failed = []
      for (const work of [() => open(${JSON.stringify(other)}), () => toBytes({}, { format: 'safetensors' }), () => diffSchemas({}, {})]) {
        await work().catch((e) => failed.push(e.code))
      }
      // What could not be had is asked for again, and the rest goes on.
      console.log(failed.join(), (await open(${JSON.stringify(small)})).format)`), 'ENOENT,ENOENT,ENOENT safetensors')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('modules from elsewhere are the ones that are asked', () => {
  const program = (init: string) => `import { init, open, toBytes } from ${JSON.stringify(join(dist, 'index.js'))}
    import { readFile } from 'node:fs/promises'
    const bytes = (name) => readFile(${JSON.stringify(dist)} + '/' + name)
    ${init}
    console.log((await open(${JSON.stringify(small)})).format, (await open(${JSON.stringify(other)})).format)`
  assert.equal(run(root, program(`await init(bytes('holdall-basic.wasm'), bytes('holdall.wasm'))`)), 'safetensors hdf5')
  assert.equal(run(root, program(`await init(bytes('holdall.wasm'), new URL('file:///no/such.wasm'))`)), 'safetensors hdf5')
  assert.throws(() => run(root, program(`await init(bytes('holdall-basic.wasm'), new URL('file:///no/such.wasm'))`)))
})

test('what was read for the basic module is not read again for the whole one', async () => {
  const bytes = read(other!)
  const asked: string[] = []
  const file = await open({
    size: bytes.length, hints: { piece: 1 << 20, gap: 0, atOnce: 2, ends: 0 },
    read: (start: number, end: number) => {
      asked.push(`${start}..${end}`)
      return bytes.slice(start, end)
    },
  })
  assert.equal(file.format, 'hdf5')
  assert.deepEqual(asked, [...new Set(asked)])
})
