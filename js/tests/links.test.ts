/** Packages that only link to files of tensors. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { open, type OpenOptions } from 'holdall'
import { inspect } from 'holdall/reports'
import { corpus } from './corpus.js'

const bytes = new Uint8Array(readFileSync(join(corpus, 'accept/carton/made-links.carton')))
/** A network that serves these bytes, and what was asked of it. */
function network(served: string | number): { asked: string[]; options: OpenOptions } {
  const asked: string[] = []
  const fetch = async (url: string | URL | Request, init?: RequestInit) => {
    asked.push(`${url} ${new Headers(init?.headers).get('authorization')}`)
    return typeof served === 'number' ? new Response('', { status: served }) : new Response(served)
  }
  return { asked, options: { fetch: fetch as typeof globalThis.fetch, fetchLinks: true, headers: { authorization: 'secret' } } }
}

test('tensors of a linked file are listed, and refused with its address', async () => {
  const file = await open(bytes)
  assert.deepEqual(file.tensors.map(({ name, layout }) => [name, layout]), [['here', 'dense'], ['there', 'linked']])
  const there = file.tensor('there')
  const error = { code: 'package/not-here', tensor: 'there', found: '`tensor_data/there.bin` is only linked to: https://example.com/file', advice: /fetchLinks/ }
  await assert.rejects(there.array(), error)
  await assert.rejects(there.bytes(), error)
  await assert.rejects(there.rows(0, 1), error)
  await assert.rejects(there.elements(0, 1), error)
  await assert.rejects(async () => { for await (const _ of there.pieces()) assert.fail() }, error)
  assert.deepEqual((await file.tensor('here').array()).length, 4)
})

test('they are tensors where links are fetched: when they are read first, and held to their hash', async () => {
  const { asked, options } = network('far')
  const file = await open(bytes, options)
  assert.deepEqual([file.format, file.tensors.map(({ name, layout, dtype, shape }) => [name, layout, dtype, shape])],
    ['carton', [['here', 'dense', 'u8', [4]], ['there', 'dense', 'u8', [3]]]])
  assert.deepEqual(asked, [])
  assert.deepEqual(await file.tensor('there').array(), new Uint8Array(Buffer.from('far')))
  assert.deepEqual(await file.tensor('there').rows(1, 2), new Uint8Array(Buffer.from('a')))
  // Once, and the caller's headers are sent only to the package's own server.
  assert.deepEqual(asked, ['https://example.com/file null'])
  assert.equal((await inspect(file, { stats: true })).tensors.length, 2)
  assert.equal((await file.verify()).findings.length, 0)
})

test('content with another hash is refused', async () => {
  for (const [served, error] of [
    ['not', { code: 'links/digest', tensor: 'there' }], ['longer', { code: 'links/declared-len' }], [404, { code: 'package/not-here', found: /answered 404/ }],
  ] as const) {
    const file = await open(bytes, network(served).options)
    await assert.rejects(file.tensor('there').array(), error)
    assert.equal((await file.tensor('here').array()).length, 4)
  }
})
