import assert from 'node:assert/strict'
import { open as openHandle, writeFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { HoldallError, fromBlob, fromBytes, fromFile, open, type Openable, type Source } from 'holdall'
import { corpus, read, safetensors } from './corpus.js'

const accepted = (path: string) => join(corpus, 'accept', path)

const bytesOf = (array: ArrayBufferView): Uint8Array =>
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength)

test('a file is opened from everything that has bytes', async () => {
  const path = accepted('safetensors/st_fp8.safetensors')
  const bytes = read(path)
  const handle = await openHandle(path)
  const own: Source = { size: bytes.length, read: (start, end) => bytes.slice(start, end) }
  const many: Source = {
    ...own, readMany: async (ranges) => ranges.map(([start, end]) => bytes.slice(start, end)),
  }
  const all: Openable[] = [
    path, pathToFileURL(path), pathToFileURL(path).href, bytes, bytes.buffer as ArrayBuffer,
    new Blob([bytes as BlobPart]), new File([bytes as BlobPart], 'a.safetensors'), handle, own, many,
    fromBytes(bytes), fromBlob(new Blob([bytes as BlobPart])), await fromFile(path),
  ]
  const seen = new Set<string>()
  for (const from of all) {
    const file = await open(from)
    assert.equal(file.format, 'safetensors')
    assert.equal(file.size, bytes.length)
    const arrays = await Promise.all(file.tensors.map((tensor) => tensor.array({ as: 'f32' })))
    seen.add(JSON.stringify(arrays.map((array) => [...array])))
    await file.close()
  }
  assert.equal(seen.size, 1)
  // A handle that was given stays open.
  assert.ok((await handle.stat()).size > 0)
  await handle.close()
})

test('what cannot be opened is said', async () => {
  await assert.rejects(open('/no/such/file.zt'), { code: 'io/failed', kind: 'io' })
  await assert.rejects(open(7 as unknown as Openable), { code: 'js/source', found: 'cannot open a value of type number; expected a path, URL, File, Blob or bytes' })
  await assert.rejects(open(null as unknown as Openable), { code: 'js/source', found: 'cannot open null; expected a path, URL, File, Blob or bytes' })
  // What the network says is in the cause of what Node says.
  await assert.rejects(open('http://127.0.0.1:1/x'), ({ code, found }: HoldallError) => code === 'http/failed' && found.length > 'fetch failed: '.length)
  await assert.rejects(open(new Uint8Array(0)), { code: 'format/empty' })
  await assert.rejects(open(new TextEncoder().encode('nothing that is known')), { code: 'format/unknown' })
  const short: Source = { size: 100, read: (start, end) => new Uint8Array(end - start - 1) }
  await assert.rejects(open(short), { code: 'io/failed' })
  await assert.rejects(open({ size: -1, read: () => new Uint8Array(0) }), { code: 'js/source' })
})

test('a file that is cut while it is open is noticed', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdall-'))
  const path = join(folder, 'a.safetensors')
  const big = new Uint8Array(200_000).fill(7)
  await writeFile(path, safetensors({ a: ['U8', [200_000], big] }))
  const file = await open(path)
  await writeFile(path, new Uint8Array(100))
  await assert.rejects(file.tensor('a').bytes(), { code: 'file/changed' })
  await file.close()
  await rm(folder, { recursive: true })
})

test('elements come as typed arrays, or as numbers', async () => {
  const f32 = new Float32Array([1.5, -2, NaN, Infinity])
  const file = await open(safetensors({
    f32: ['F32', [2, 2], bytesOf(f32)],
    odd: ['U8', [1], new Uint8Array([9])],
    f64: ['F64', [2], bytesOf(new Float64Array([Math.PI, 2 ** -1074]))],
    f16: ['F16', [2], bytesOf(new Uint16Array([0x3c00, 0x7bff]))],
    bf16: ['BF16', [2], bytesOf(new Uint16Array([0x3f80, 0xc020]))],
    i64: ['I64', [2], bytesOf(new BigInt64Array([-5n, 2n ** 53n - 1n]))],
    u64: ['U64', [1], bytesOf(new BigUint64Array([2n ** 64n - 1n]))],
    i32: ['I32', [1], bytesOf(new Int32Array([-7]))],
    i16: ['I16', [1], bytesOf(new Int16Array([-7]))],
    i8: ['I8', [1], bytesOf(new Int8Array([-7]))],
    bool: ['BOOL', [3], new Uint8Array([1, 0, 1])],
    f8: ['F8_E4M3', [2], new Uint8Array([0x38, 0x7e])],
    none: ['F32', [0, 5], new Uint8Array(0)],
    scalar: ['F32', [], bytesOf(new Float32Array([4]))],
  }))
  const get = (name: string) => file.tensor(name).array()
  assert.deepEqual(await get('f32'), f32)
  assert.ok((await get('f64')) instanceof Float64Array)
  assert.deepEqual([...(await get('f64'))], [Math.PI, 2 ** -1074])
  assert.deepEqual(await get('f16'), new Uint16Array([0x3c00, 0x7bff]))
  assert.deepEqual(await file.tensor('f16').array({ as: 'f32' }), new Float32Array([1, 65504]))
  assert.deepEqual(await get('bf16'), new Uint16Array([0x3f80, 0xc020]))
  assert.deepEqual(await file.tensor('bf16').array({ as: 'f32' }), new Float32Array([1, -2.5]))
  assert.deepEqual(await get('i64'), new BigInt64Array([-5n, 2n ** 53n - 1n]))
  const numbers = await file.tensor('i64').array({ int64: 'number' })
  assert.deepEqual(numbers, new Float64Array([-5, 2 ** 53 - 1]))
  await assert.rejects(file.tensor('f16').array({ as: 'f16' as 'f32' }), { code: 'js/source' })
  for (const [start, end] of [[-1, 1], [0.5, 1], [0, NaN], [1, 0]]) await assert.rejects(file.tensor('i8').rows(start!, end!), { code: 'layout/rows' })
  await assert.rejects(file.tensor('u64').array({ int64: 'number' }), { code: 'js/number', tensor: 'u64' })
  assert.deepEqual(await file.tensor('u64').array({ as: 'f64' }), new Float64Array([2 ** 64]))
  assert.deepEqual(await get('i32'), new Int32Array([-7]))
  assert.deepEqual(await get('i16'), new Int16Array([-7]))
  assert.deepEqual(await get('i8'), new Int8Array([-7]))
  assert.deepEqual(await get('bool'), new Uint8Array([1, 0, 1]))
  assert.equal(file.tensor('f8').logicalType, 'f8_e4m3fn')
  assert.equal(file.tensor('f8').dtype, 'u8')
  assert.deepEqual(await get('f8'), new Uint8Array([0x38, 0x7e]))
  assert.deepEqual(await file.tensor('f8').array({ as: 'f32' }), new Float32Array([1, 448]))
  assert.deepEqual(await get('none'), new Float32Array(0))
  assert.deepEqual(await get('scalar'), new Float32Array([4]))
  assert.deepEqual(file.tensor('scalar').shape, [])
  assert.equal(file.tensor('f32').count, 4)
})

test('many numbers are converted chunk by chunk', async () => {
  const n = 3_500_000
  const halves = new Uint16Array(n).map((_, at) => at % 0x7c00)
  const file = await open(safetensors({ h: ['F16', [n], bytesOf(halves)] }))
  const found = await file.tensor('h').array({ as: 'f32' })
  assert.equal(found.length, n)
  for (const at of [0, 1, 0x3c00, 1_572_863, 1_572_864, 1_572_865, n - 1]) {
    const bits = halves[at]!
    const exponent = bits >> 10
    const fraction = bits & 1023
    const expected = exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15)
    assert.equal(found[at], expected, String(at))
  }
})

test('rows are read alone', async () => {
  const ranges: [number, number][] = []
  const values = new Float32Array(40_000).map((_, at) => at)
  const bytes = safetensors({ w: ['F32', [100, 400], bytesOf(values)] })
  const source: Source = {
    size: bytes.length,
    hints: { piece: 1 << 20, gap: 64, atOnce: 2, ends: 0 },
    read: (start, end) => {
      ranges.push([start, end])
      return bytes.slice(start, end)
    },
  }
  const file = await open(source)
  ranges.length = 0
  const rows = await file.tensor('w').rows(3, 5)
  assert.deepEqual(rows, values.subarray(1200, 2000))
  assert.equal(ranges.length, 1)
  assert.ok(ranges[0]![1] - ranges[0]![0] <= 3200 + 8)
  assert.deepEqual(await file.tensor('w').rows(7, 7), new Float32Array(0))
  await assert.rejects(file.tensor('w').rows(99, 101), { code: 'layout/rows' })
  const last = await file.tensor('w').rows(99, 100, { as: 'f64' })
  assert.deepEqual(last, Float64Array.from(values.subarray(39_600)))
})

test('rows of tensors that are not dense are those of their dense form', async () => {
  const paths = ['ztensor/v1.2-sparse.zt', 'ztensor/v1.2-quantized.zt', 'gguf/gguf_quant_legacy.gguf']
  let looked = 0
  for (const path of paths) {
    const file = await open(accepted(path))
    for (const tensor of file.tensors) {
      const [count] = tensor.shape
      if (tensor.layout === 'dense' || tensor.dense === null || count === undefined || count < 2) continue
      if (tensor.count > 1_000_000) continue
      const all = await tensor.array({ as: 'f32' })
      const width = tensor.count / count
      assert.equal(all.length, tensor.count)
      assert.deepEqual(await tensor.rows(1, 2, { as: 'f32' }), all.slice(width, 2 * width))
      await assert.rejects(tensor.rows(0, count + 1), { code: 'layout/rows' })
      looked += 1
    }
    await file.close()
  }
  assert.ok(looked > 4, String(looked))
})

test('tensors that are read at the same time do not get each other’s components', async () => {
  for (const path of ['ztensor/v1.2-sparse.zt', 'ztensor/v1.2-quantized.zt', 'gguf/gguf_quant_legacy.gguf', 'metatensor/made-strings.mt']) {
    const bytes = read(accepted(path))
    const source: Source = { size: bytes.length, read: async (start, end) => bytes.slice(start, end) }
    const file = await open(source)
    // Each several times: what is alone in its file meets itself.
    const jobs = [...file.tensors, ...file.tensors, ...file.tensors].flatMap((tensor, n): (() => Promise<unknown>)[] => {
      if (tensor.dense !== null) return [() => tensor.array()]
      if (tensor.layout !== 'records') return []
      return [async () => JSON.stringify(await tensor.lines({ start: n % 2 })),
        async () => JSON.stringify([...(await tensor.records({ start: n % 2 }))])]
    })
    const alone: unknown[] = []
    for (const job of jobs) alone.push(await job())
    assert.deepEqual(await Promise.all(jobs.map((job) => job())), alone, path)
  }
})

test('pieces are whole, in order, and can be left', async () => {
  const values = new Uint8Array(30 << 20).map((_, at) => at >> 12)
  const file = await open(new Blob([safetensors({ w: ['U8', [values.length], values] }) as BlobPart]))
  let at = 0
  for await (const piece of file.tensor('w').pieces()) {
    assert.ok(piece.length <= 8 << 20)
    assert.deepEqual(piece[5], values[at + 5])
    at += piece.length
  }
  assert.equal(at, values.length)
  for await (const piece of file.tensor('w').pieces()) {
    assert.ok(piece.length > 0)
    break
  }
})

test('arrays of a file in memory lie in that memory, unless it is not aligned for them', async () => {
  const bytes = safetensors({ a: ['F32', [1], bytesOf(new Float32Array([3]))] })
  const moved = new Uint8Array(bytes.length + 1)
  moved.set(bytes, 1)
  const whole = (await (await open(bytes)).tensor('a').bytes())
  assert.equal(whole.buffer, bytes.buffer)
  const found = await (await open(moved.subarray(1))).tensor('a').array()
  assert.deepEqual(found, new Float32Array([3]))
})

test('a read is ended by its signal', async () => {
  const stop = new AbortController()
  const bytes = safetensors({ a: ['U8', [100_000], new Uint8Array(100_000)] })
  const source: Source = {
    size: bytes.length,
    hints: { piece: 1000, gap: 0, atOnce: 2, ends: 0 },
    read: async (start, end) => {
      if (start > 50_000) stop.abort()
      return bytes.slice(start, end)
    },
  }
  const file = await open(source)
  await assert.rejects(file.tensor('a').bytes({ signal: stop.signal }), { name: 'AbortError' })
  await assert.rejects(open(source, { signal: stop.signal }), { name: 'AbortError' })
  assert.equal((await file.tensor('a').bytes()).length, 100_000)
})

test('verification says how far it is', async () => {
  await using file = await open(accepted('ztensor/v1.2-dense_all.zt'))
  const seen: number[] = []
  const report = await file.verify({ onProgress: (done, all) => seen.push(done / all) })
  assert.equal(report.verdict, 'sound')
  assert.equal(report.tensors, file.length)
  assert.ok(seen.length > 1 && seen.every((x, at) => x >= (seen[at - 1] ?? 0)))
})

test('a file of twelve gigabytes opens in an instant', async () => {
  const tensors = 12 * 2 ** 30
  const header = new TextEncoder().encode(JSON.stringify({
    w: { dtype: 'U8', shape: [tensors], data_offsets: [0, tensors] },
  }))
  const start = 8 + header.length
  const source: Source = {
    size: start + tensors,
    read: (from, to) => {
      assert.ok(to - from <= 1 << 20, `${from}..${to}`)
      const out = new Uint8Array(to - from)
      if (from === 0) {
        new DataView(out.buffer).setBigUint64(0, BigInt(header.length), true)
        out.set(header, 8)
      }
      for (let at = Math.max(from, start); at < to; at++) out[at - from] = at % 251
      return out
    },
  }
  const file = await open(source)
  const rows = await file.tensor('w').rows(tensors - 10, tensors)
  assert.deepEqual([...rows], Array.from({ length: 10 }, (_, n) => (start + tensors - 10 + n) % 251))
})
