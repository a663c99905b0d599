import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { open, fromUrl, toBytes } from 'holdall'
import { safetensors } from './corpus.js'

const values = new Float32Array(500_000).map((_, at) => at)
const data = new Uint8Array(values.buffer)
const bytes = safetensors({ w: ['F32', [500, 1000], data], v: ['U8', [3], new Uint8Array([1, 2, 3])] })

interface Server {
  url: string
  asked: string[]
}

/** Runs `work` with a server whose answers `answer` gives. */
async function serving(
  answer: (request: IncomingMessage, response: ServerResponse, number: number) => void,
  work: (server: Server) => Promise<void>,
): Promise<void> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.headers.range ?? ''}`.trim())
    answer(request, response, asked.length)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  try {
    await work({ url: `http://127.0.0.1:${port}/model.safetensors`, asked })
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

interface How {
  etag?: string
  hideLength?: boolean
  of?: Uint8Array
}

/** A server as they are meant to be. */
function ranged(request: IncomingMessage, response: ServerResponse, how: How = {}): void {
  const { etag, hideLength, of = bytes } = how
  if (etag !== undefined) response.setHeader('ETag', etag)
  const found = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '')
  if (found === null) {
    response.setHeader('Content-Length', of.length)
    response.end(request.method === 'HEAD' ? undefined : of)
    return
  }
  const [start, end] = [Number(found[1]), Math.min(Number(found[2]) + 1, of.length)]
  if (start >= of.length) {
    response.writeHead(416, { 'Content-Range': `bytes */${of.length}` }).end()
    return
  }
  const range = { 'Content-Range': `bytes ${start}-${end - 1}/${of.length}` }
  response.writeHead(206, { ...(hideLength ? {} : range), 'Content-Length': end - start })
  response.end(of.subarray(start, end))
}

test('a file on a server is opened by one request and read by ranges', async () => {
  await serving((q, a) => ranged(q, a, { etag: '"1"' }), async ({ url, asked }) => {
    const file = await open(url)
    assert.deepEqual(asked, ['GET bytes=0-262143'])
    assert.equal(file.size, bytes.length)
    assert.equal(file.name, url)
    assert.deepEqual(await file.tensor('w').rows(400, 402), values.subarray(400_000, 402_000))
    assert.equal(asked.length, 2)
    assert.deepEqual(await file.tensor('w').array(), values)
    assert.equal((await file.verify()).verdict, 'sound')
  })
})

test('a server that sends the whole file is taken at its word', async () => {
  await serving((_, a) => a.end(bytes), async ({ url, asked }) => {
    const file = await open(url)
    assert.deepEqual(await file.tensor('w').array(), values)
    assert.equal(asked.length, 1)
    await assert.rejects(open(url, { limits: { fetchedLen: 1000 } }), { code: 'http/too-long' })
  })
  // One that does not say how long it is, too.
  await serving((_, a) => {
    a.write(bytes.subarray(0, 1000))
    a.end(bytes.subarray(1000))
  }, async ({ url }) => {
    await assert.rejects(open(url, { limits: { fetchedLen: 1000 } }), { code: 'http/too-long' })
    assert.equal((await open(url)).length, 2)
  })
})

test('a length that is hidden is found in another way', async () => {
  await serving((q, a) => ranged(q, a, { hideLength: true }), async ({ url, asked }) => {
    const file = await open(url)
    assert.equal(file.size, bytes.length)
    assert.deepEqual(asked, ['GET bytes=0-262143', 'HEAD'])
  })
  await serving((q, a) => {
    if (q.method === 'HEAD') a.writeHead(403).end()
    else ranged(q, a, { hideLength: true })
  }, async ({ url, asked }) => {
    const file = await open(url)
    assert.equal(file.size, bytes.length)
    assert.deepEqual(asked, ['GET bytes=0-262143', 'HEAD', 'GET'])
    assert.deepEqual(await file.tensor('v').array(), new Uint8Array([1, 2, 3]))
  })
  // A short file tells by its end.
  const short = bytes.subarray(0, 100)
  await serving((q, a) => ranged(q, a, { hideLength: true, of: short }), async ({ url, asked }) => {
    assert.equal((await fromUrl(url)).size, 100)
    assert.equal(asked.length, 1)
  })
})

test('a file that was replaced is noticed', async () => {
  await serving((q, a, n) => ranged(q, a, { etag: n === 1 ? '"1"' : '"2"' }), async ({ url }) => {
    const file = await open(url)
    await assert.rejects(file.tensor('w').array(), { code: 'http/changed', source: url })
  })
  const other = bytes.slice(0, -1)
  await serving((q, a, n) => ranged(q, a, { of: n === 1 ? bytes : other }), async ({ url }) => {
    const file = await open(url)
    await assert.rejects(file.tensor('w').array(), { code: 'http/changed' })
  })
  await serving((q, a, n) => ranged(q, a, { of: n === 1 ? bytes : new Uint8Array(1) }), async ({ url }) => {
    const file = await open(url)
    await assert.rejects(file.tensor('w').rows(499, 500), { code: 'http/changed' })
  })
})

test('a server that lies, fails or breaks off is an error', async () => {
  await serving((_, a) => a.writeHead(404).end('no'), async ({ url, asked }) => {
    await assert.rejects(open(url), { code: 'http/status', found: 'the server answered 404' })
    assert.equal(asked.length, 1)
  })
  await serving((_, a) => a.writeHead(401).end('no'), async ({ url }) => {
    await assert.rejects(open(url), { code: 'http/status', found: 'the server answered 401: pass credentials in `headers`' })
  })
  // Fewer bytes than it says.
  await serving((_, a) => a.writeHead(206, { 'Content-Range': `bytes 0-262143/${bytes.length}` }).end('abc'), async ({ url }) => {
    await assert.rejects(open(url), { code: 'http/answer', found: '3 bytes came as 0..262144 for 0..262144' })
  })
  // Other bytes than were asked for.
  await serving((q, a, n) => {
    if (n > 1) q.headers.range = 'bytes=5-9'
    ranged(q, a)
  }, async ({ url }) => {
    const file = await open(url)
    await assert.rejects(file.tensor('w').rows(499, 500), { code: 'http/answer' })
  })
  // Fewer bytes than were asked for, each time.
  await serving((q, a, n) => {
    const found = /^bytes=(\d+)-(\d+)$/.exec(q.headers.range!)!
    if (n === 1) return ranged(q, a)
    const range = `bytes ${found[1]}-${found[2]}/${bytes.length}`
    a.writeHead(206, { 'Content-Range': range }).end(new Uint8Array(10))
  }, async ({ url }) => {
    const file = await open(url)
    await assert.rejects(file.tensor('w').rows(499, 500), { code: 'http/answer' })
  })
  // For a moment only.
  await serving((q, a, n) => (n === 2 ? a.writeHead(503).end() : ranged(q, a)), async ({ url, asked }) => {
    const file = await open(url)
    assert.deepEqual(await file.tensor('w').rows(499, 500), values.subarray(499_000))
    assert.equal(asked.length, 3)
  })
  await assert.rejects(open('http://127.0.0.1:9/x'), { code: 'http/failed' })
  await assert.rejects(open('http://'), { code: 'http/url' })
})

test('a server that stalls is not waited for', async () => {
  await serving(() => {}, async ({ url }) => {
    const before = Date.now()
    await assert.rejects(open(url, { timeout: 100 }), { code: 'http/slow' })
    assert.ok(Date.now() - before < 5000)
  })
  await serving((_, a) => {
    a.writeHead(206, { 'Content-Range': `bytes 0-262143/${bytes.length}` })
    a.write(bytes.subarray(0, 100))
  }, async ({ url }) => {
    await assert.rejects(open(url, { timeout: 100 }), { code: 'http/slow' })
  })
  await serving(() => {}, async ({ url }) => {
    await assert.rejects(open(url, { signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' })
  })
})

test('a server that stops supporting ranges is an error', async () => {
  await serving((q, a, n) => (n === 1 ? ranged(q, a) : a.end(bytes)), async ({ url }) => {
    const file = await open(url)
    assert.deepEqual(await file.tensor('w').rows(499, 500), values.subarray(499_000))
    const strict = await open(url, { limits: { fetchedLen: 3_000_000 } })
    assert.equal(strict.length, 2)
  })
})

test('a tensor of a file of 12 GB takes two requests, and little more than its bytes', async () => {
  const tensors = 2000
  const each = 6 << 20
  const entries = Array.from({ length: tensors }, (_, n) =>
    `"layers.${n}.weight":{"dtype":"F32","shape":[1536,1024],"data_offsets":[${n * each},${(n + 1) * each}]}`)
  const header = new TextEncoder().encode(`{${entries.join()}}`)
  const size = 8 + header.length + tensors * each
  const [asked, sent]: [string[], number[]] = [[], []]
  // All bytes after the header are zeros, which are not cached.
  const fetch = async (_: unknown, { headers }: RequestInit = {}) => {
    const range = new Headers(headers).get('range')!
    asked.push(range)
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(range)!.map(Number) as [number, number, number]
    const part = new Uint8Array(Math.min(to + 1, size) - from)
    const head = new Uint8Array(8 + header.length)
    new DataView(head.buffer).setBigUint64(0, BigInt(header.length), true)
    head.set(header, 8)
    if (from < head.length) part.set(head.subarray(from, from + part.length))
    sent.push(part.length)
    return new Response(part, { status: 206, headers: { 'content-range': `bytes ${from}-${from + part.length - 1}/${size}` } })
  }
  const file = await open('https://example.com/model.safetensors', { fetch: fetch as typeof globalThis.fetch })
  assert.equal(file.length, tensors)
  assert.deepEqual(asked.length, 1, asked.join())
  const array = await file.tensors[0]!.array()
  assert.equal(array.length, 1536 << 10)
  assert.equal(asked.length, 2, asked.join())
  assert.ok(sent.reduce((sum, n) => sum + n, 0) <= (256 << 10) + each + 8, sent.join())
  assert.equal((await file.tensors.at(-1)!.rows(1512, 1536)).length, 24 << 10)
  assert.equal(asked.length, 3, asked.join())
})

test('a table of contents that is long, or at the end, is opened without a byte that is asked for twice', async () => {
  const many = (count: number, len: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`layers.${n}.weight`, new Float32Array(len)]))
  for (const [format, count, len, requests] of [
    ['ztensor', 1000, 256, 2], ['ztensor', 5000, 64, 3], ['safetensors', 5000, 64, 2], ['metatensor', 5000, 64, 2],
  ] as const) {
    const of = await toBytes(many(count, len), { format })
    await serving((q, a) => ranged(q, a, { of }), async ({ url, asked }) => {
      const file = await open(url)
      assert.equal(file.length, count)
      const ranges = asked.map((text) => text.match(/\d+/g)!.map(Number)).sort(([a], [b]) => a! - b!)
      assert.equal(ranges.length, requests, `${format}: ${asked.join()}`)
      ranges.forEach(([start], at) => assert.ok(at === 0 || ranges[at - 1]![1]! < start!, `${format}: ${asked.join()}`))
      assert.deepEqual(await file.tensor('layers.7.weight').array(), new Float32Array(len))
    })
  }
})

test('several ranges in one answer are no bytes of the file', async () => {
  await serving((_, a) => {
    a.writeHead(206, { 'Content-Type': 'multipart/byteranges; boundary=x' })
    a.end(`--x\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/2\r\n\r\nab\r\n--x--\r\n`)
  }, async ({ url, asked }) => {
    await assert.rejects(open(url), { code: 'http/answer', found: /several ranges/ })
    // A retry would not help.
    assert.equal(asked.length, 1)
  })
})
