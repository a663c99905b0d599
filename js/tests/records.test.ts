import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { HoldallError, open, outlineSchema, type Records, type Source } from 'holdall'
import { corpus, exactJson, filesOf, read } from './corpus.js'

const accepted = (path: string) => join(corpus, 'accept', path)

/** Nanoseconds of a time of RFC 3339. */
function nanoseconds(text: string): bigint {
  const [, seconds, fraction = ''] = /^(.*?)(?:\.(\d+))?Z$/.exec(text)!
  return BigInt(Date.parse(`${seconds}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0'))
}

/** Whether a value of a record is what the core's JSON says. */
function same(found: unknown, json: any, at: string): void {
  if (found === undefined) return assert.equal(json, undefined, at)
  if (typeof found === 'bigint') {
    const expected = typeof json === 'string' ? nanoseconds(json) : BigInt(json.$int ?? json)
    return assert.equal(found, expected, at)
  }
  if (typeof found === 'number') {
    if (typeof json === 'object') {
      const special = { nan: NaN, inf: Infinity, '-inf': -Infinity }[json.$float as string]
      return assert.ok(Object.is(found, special), at)
    }
    // The fewest digits that read back as the same number of the kind: of 16 bits or 8 not the number itself.
    const near = Math.abs(found - json) <= Math.abs(found) / 16
    return assert.ok(found === json || found === Math.fround(json) || near, `${at}: ${found}, not ${json}`)
  }
  if (found instanceof Uint8Array && typeof json === 'string') {
    return assert.equal(Buffer.from(found).toString('base64'), json, at)
  }
  if (typeof found !== 'object' || found === null) return assert.deepEqual(found, json, at)
  if (ArrayBuffer.isView(found) || Array.isArray(found)) {
    const items = (json.data ?? json) as unknown[]
    const all = [...(found as unknown as unknown[])]
    // Booleans of tensors, and complex numbers, lie as they are stored.
    if (typeof items[0] === 'boolean' || (Array.isArray(items[0]) && ArrayBuffer.isView(found))) {
      return assert.deepEqual(all.map(Number), items.flat().map(Number), at)
    }
    assert.equal(all.length, items.length, at)
    return all.forEach((item, n) => same(item, items[n], `${at}[${n}]`))
  }
  const names = new Set(Object.keys(json))
  const own = 'toJSON' in found ? (found as { toJSON(): object }).toJSON() : found
  Object.entries(own).forEach(([name, value]) => {
    same(value, json[name], `${at}.${name}`)
    names.delete(name)
  })
  assert.deepEqual([...names], [], at)
}

/** Compares all records of a file with their JSON; the kinds among them are noted. */
async function compare(bytes: Uint8Array, kinds: Set<string>, where: string): Promise<number> {
  let looked = 0
  const file = await open(bytes)
  for (const tensor of file.tensors.filter(({ layout }) => layout === 'records')) {
    const records = await tensor.records()
    const lines = await tensor.lines()
    assert.equal(records.length, lines.length)
    assert.equal(records.length, tensor.count)
    lines.forEach((line, at) => same(records.at(at), exactJson(line), `${where} ${tensor.name} ${at}`))
    const kind = String(tensor.attributes.get('metatensor.kind'))
    for (const match of kind.matchAll(/TypeDef:(\w+)/g)) kinds.add(match[1]!)
    looked += records.length
  }
  return looked
}

/** A file of Metatensor with one dataset, of two records that are the same. */
async function dataset(given: { $defs?: object }, record: Buffer, heap: Buffer): Promise<Uint8Array> {
  const [root] = await outlineSchema(given, { of: 'record' })
  const { $defs, ...schema } = given
  const stride = root!.stride!
  // The heap starts where its alignment has it, which the schema knows.
  let refused: unknown
  for (const align of [1, 2, 4, 8, 16]) {
    const at = Math.ceil((2 * stride) / align) * align
    const data = Buffer.alloc(at + heap.length)
    record.copy(data, 0)
    record.copy(data, stride)
    heap.copy(data, at)
    for (const hasHeap of [heap.length > 0, true]) {
      const offsets = [at, at + heap.length]
      const blob = { dtype: 'U8', shape: [heap.length], data_offsets: offsets }
      const header = JSON.stringify({
        metatensor: '1.0', endian: 'little', data_align: 64,
        schema: { $defs, type: 'object', properties: { d: { type: 'array', items: schema, 'TypeDef:Array': true } } },
        tensors: { d: { count: 2, data_offsets: [0, 2 * stride], ...(hasHeap ? { blob_data: blob } : {}) } },
      })
      const head = Buffer.alloc(Math.ceil((8 + Buffer.byteLength(header)) / 64) * 64, ' ')
      head.writeBigUInt64LE(BigInt(head.length - 8))
      head.write(header, 8)
      const bytes = new Uint8Array(Buffer.concat([head, hasHeap ? data : data.subarray(0, 2 * stride)]))
      try {
        await open(bytes)
        return bytes
      } catch (e) {
        refused = e
      }
    }
  }
  throw refused
}

test('records are what the core says of them', async () => {
  let looked = 0
  const kinds = new Set<string>()
  for (const path of filesOf('accept').filter((path) => /\.(mt|zt)$/.test(path))) {
    looked += await compare(read(path), kinds, path)
  }
  assert.ok(looked >= 19, String(looked))
  const text = readFileSync(join(corpus, 'vectors/metatensor/records.json'), 'utf8')
  const vectors = JSON.parse(text) as {
    name: string; schema: object; symbols?: object; expect?: { record: string; heap: string }
  }[]
  let tried = 0
  for (const { name, schema, symbols, expect } of vectors) {
    if (expect === undefined || symbols !== undefined || expect.record === '') continue
    const [record, heap] = [Buffer.from(expect.record, 'hex'), Buffer.from(expect.heap, 'hex')]
    await compare(await dataset(schema, record, heap), kinds, name)
    tried += 1
  }
  assert.ok(tried > 40, String(tried))
  const wanted = [
    ...['Int8', 'Int16', 'Int32', 'Int64', 'Uint8', 'Uint16', 'Uint32', 'Uint64', 'Float16', 'Float32', 'Float64'],
    ...['BFloat16', 'Float8E4M3', 'Float8E5M2', 'Complex64', 'Complex128', 'Boolean', 'Timestamp', 'Enum', 'Struct'],
    ...['Union', 'Array', 'String', 'Bytes', 'Record', 'Tensor'],
  ]
  assert.deepEqual(wanted.filter((kind) => !kinds.has(kind)), [])
})

/** A dataset of the corpus, and its first. */
async function first(path: string): Promise<[Records, string[]]> {
  const file = await open(accepted(path))
  const tensor = file.tensors.find(({ layout }) => layout === 'records')!
  const out: [Records, string[]] = [await tensor.records(), await tensor.lines()]
  await file.close()
  return out
}

test('columns are members of all records', async () => {
  const [records, lines] = await first('metatensor/made-scalars.mt')
  const rows = lines.map((line) => exactJson(line) as Record<string, unknown>)
  let typed = 0
  for (const name of Object.keys(rows[0]!)) {
    const column = records.column(name)
    assert.equal(column.length, rows.length)
    rows.forEach((row, at) => {
      const value = column[at]
      same(typeof row[name] === 'boolean' ? Boolean(value) : value, row[name], `${name} ${at}`)
    })
    typed += Number(ArrayBuffer.isView(column))
  }
  assert.ok(typed > 0)
  assert.throws(() => records.column('no such'), { code: 'schema/unknown-path' })
  const [optional, texts] = await first('metatensor/made-optional.mt')
  for (const [at, line] of texts.entries()) {
    for (const [name, value] of Object.entries(exactJson(line) as object)) same(optional.column(name)[at], value, name)
  }
})

test('a range of records is read alone, and places are checked', async () => {
  const bytes = read(accepted('metatensor/made-scalars.mt'))
  const ranges: [number, number][] = []
  const source: Source = {
    size: bytes.length,
    hints: { piece: 1 << 20, gap: 0, atOnce: 2, ends: 0 },
    read: (start, end) => {
      ranges.push([start, end])
      return bytes.slice(start, end)
    },
  }
  const file = await open(source)
  const tensor = file.tensors.find(({ layout }) => layout === 'records')!
  const all = await tensor.lines()
  ranges.length = 0
  const last = await tensor.records({ start: all.length - 1 })
  assert.equal(last.length, 1)
  same(last.at(0), exactJson(all.at(-1)!), 'last')
  same(last.at(-1), exactJson(all.at(-1)!), 'last')
  const stored = tensor.components[0]!.storedLen
  assert.ok(ranges.every(([start, end]) => end - start < stored || all.length === 1))
  assert.deepEqual([...(await tensor.records({ start: 0, end: 0 }))], [])
  assert.throws(() => last.at(1), { code: 'records/index' })
  await assert.rejects(tensor.records({ end: all.length + 1 }), { code: 'records/index' })
})

test('records whose bytes break a rule are not given', async () => {
  let refused = 0
  for (const path of filesOf('reject').filter((path) => /\/records?\.[^/]*$/.test(path))) {
    const [area, what] = path.split('/').at(-1)!.split('.')
    const file = await open(read(path))
    const codes: string[] = []
    for (const tensor of file.tensors.filter(({ layout }) => layout === 'records')) {
      await tensor.records().catch((e: unknown) => {
        assert.ok(e instanceof HoldallError)
        codes.push(e.code)
      })
    }
    if (file.tensors.some(({ layout }) => layout === 'blob')) continue
    assert.ok(codes.includes(`${area}/${what}`), `${path}: ${codes}`)
    refused += 1
  }
  assert.ok(refused > 10, String(refused))
  const dense = await open(read(accepted('safetensors/st_fp8.safetensors')))
  await assert.rejects(dense.tensors[0]!.records(), { code: 'file/wrong-layout' })
})
