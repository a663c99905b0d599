import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { HoldallError, formats, fromBytes, open, toBytes, type Limits } from 'holdall'
import { Core, encode } from '../dist/core.js'
import { RULES, knowsRemedy, remedyText } from '../dist/errors.js'
import { NAMES } from '../dist/limits.js'
import { corpus, read, root, safetensors } from './corpus.js'

const accepted = (path: string) => join(corpus, 'accept', path)

test('rules that the package finds broken are those of the library', () => {
  const rows = new Map<string, string[]>()
  for (const line of readFileSync(join(root, 'docs/rules.md'), 'utf8').split('\n')) {
    const cells = line.split('|').map((cell) => cell.trim())
    if (cells[1]?.startsWith('`')) rows.set(cells[1].slice(1, -1), cells)
  }
  assert.ok(rows.size > 100)
  for (const [code, { kind, hint }] of Object.entries(RULES)) {
    if (/^(js|wasm)\//.test(code)) {
      assert.ok(!rows.has(code), code)
      continue
    }
    const row = rows.get(code)
    assert.ok(row !== undefined, code)
    assert.equal(row[2], kind, code)
    if (hint !== undefined) assert.ok(row[3]!.includes(`*Hint: ${hint}.*`), `${code}: ${row[3]}`)
  }
  // The module itself has none but those of its calls: all others are of the pure crates.
  const folder = join(root, 'js/wasm/src')
  const names = (readdirSync(folder, { recursive: true }) as string[]).filter((name) => name.endsWith('.rs'))
  const rust = names.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n')
  const own = [...rust.matchAll(/pub [A-Z_]+: \w+ "([^"]+)"/g)].map(([, code]) => code)
  assert.deepEqual(own, ['wasm/call'])
})

test('every remedy of the library is known', async () => {
  const names = (await Core.create()).json<string[]>('remedy_list')
  assert.ok(names.length > 20)
  assert.deepEqual(names.filter((name) => !knowsRemedy(name)), [])
})

test('formats are listed', async () => {
  const all = await formats()
  const ids = all.map((format) => format.id)
  for (const id of ['ztensor', 'metatensor', 'safetensors', 'gguf', 'pytorch', 'carton']) {
    assert.ok(ids.includes(id), id)
  }
  assert.ok(all.find((format) => format.id === 'safetensors')!.extensions.includes('safetensors'))
})

test('an error says what, where and what now', async () => {
  const bytes = read(accepted('ztensor/v1.1-zstd.zt'))
  const file = await open(fromBytes(bytes, 'a.zt'), { limits: { decodedLen: 40 } })
  const wrong: HoldallError[] = []
  for (const tensor of file.tensors) {
    for (const { role } of tensor.components) {
      await tensor.bytes({ role }).catch((e: unknown) => wrong.push(e as HoldallError))
    }
  }
  const e = wrong[0]!
  assert.ok(e instanceof HoldallError && e instanceof Error)
  assert.equal(e.code, 'zstd/decoded-len')
  assert.equal(e.kind, 'limit')
  assert.equal(e.source, 'a.zt')
  assert.ok(file.has(e.tensor!))
  assert.ok(file.tensor(e.tensor!).components.some((c) => c.role === e.component))
  assert.equal(e.remedies[0]!.do, 'raise_limit')
  assert.equal(e.remedies[0]!.limit, 'decodedLen')
  assert.match(e.advice!, /raise the limit: `\{ limits: \{ decodedLen: \d+ \} \}`/)
  assert.ok(e.message.startsWith('a.zt: tensor'), e.message)
  assert.ok(e.message.endsWith('[zstd/decoded-len]'), e.message)
})

/** What refuses the file at a path under these limits: opening it, or reading one of its tensors. */
async function refusal(path: string, limits: Limits): Promise<HoldallError> {
  try {
    await using file = await open(read(path), { limits })
    for (const tensor of file.tensors) {
      for (const { role } of tensor.components) await tensor.bytes({ role })
      if (tensor.layout !== 'dense') await tensor.array()
    }
  } catch (e) {
    return e as HoldallError
  }
  throw new Error(`${path} is read under ${JSON.stringify(limits)}`)
}

/** The limits that a remedy suggests, as a program would take them from its words. */
function suggested(words: string): Limits {
  const [, object] = words.match(/`(\{.*\})`/)!
  return (new Function('N', `return (${object})`) as (n: number) => { limits: Limits })(7).limits
}

const camel = (name: string): keyof Limits => name.replace(/_(.)/g, (_, c: string) => c.toUpperCase()) as keyof Limits

test('every limit is kept, and errors name it', async () => {
  const cases = JSON.parse(readFileSync(join(corpus, 'limits.json'), 'utf8')) as
    { limit: string, value: number, also?: Record<string, number>, file: string, code: string, remedy?: string }[]
  const tested = new Set<string>(['fetchedLen']) // in `http.test.ts`
  for (const { limit, value, also = {}, file, code, remedy } of cases) {
    tested.add(camel(limit))
    // A frame that is decoded at once into its place needs no window, and here every frame is.
    if (code === 'zstd/window') continue
    const others = Object.entries(also).map(([name, value]) => [camel(name), value])
    const limits = { [camel(limit)]: value, ...Object.fromEntries(others) }
    const e = await refusal(accepted(file), limits)
    assert.deepEqual([e.code, e.kind], [code, 'limit'], `${file}: ${e}`)
    const named = e.remedies.filter((r) => r.do === 'raise_limit').map((r) => r.limit)
    assert.deepEqual(named, [camel(remedy ?? limit)], `${e}`)
    assert.deepEqual(Object.keys(suggested(e.advice!)), named, e.advice!)
  }
  assert.deepEqual([...tested].sort(), [...NAMES].sort())
})

test('remedies that name a limit are accepted as they are printed', async () => {
  const path = accepted('safetensors/st_fp8.safetensors')
  for (const limit of NAMES) {
    for (const remedy of [{ do: 'raise_limit', limit }, { do: 'raise_limit', limit, atLeast: 20 }]) {
      const limits = suggested(remedyText(remedy)!)
      assert.deepEqual(Object.keys(limits), [limit])
      await open(read(path), { limits }).then((file) => file.close(), (e: HoldallError) => assert.equal(e.kind, 'limit', `${e}`))
    }
  }
  for (const { remedies = [] } of Object.values(RULES)) {
    for (const { do: what, limit } of remedies) {
      if (what === 'raise_limit') assert.ok(NAMES.includes(limit as typeof NAMES[number]), `${limit}`)
    }
  }
})

test('limits that do not exist are refused', async () => {
  const wrong = (limits: object) => open(read(accepted('ztensor/v1.2-sparse.zt')), { limits }).then(() => null, (e: HoldallError) => e)
  for (const name of ['noSuch', 'decoded_len', 'skip_unknown']) {
    const e = await wrong({ [name]: 1 })
    assert.deepEqual([e?.code, e?.kind], ['limits/unknown', 'misuse'], name)
    for (const known of NAMES) assert.ok(e!.message.includes(known), known)
  }
  assert.match((await wrong({ decoded_len: 1 }))!.message, /did you mean `decodedLen`\?/)
  assert.equal((await wrong({ zstdWindowLog: 32 }))?.code, 'limits/value')
  for (const value of [-1, 0.5, '7', true]) assert.equal((await wrong({ tensors: value }))?.code, 'wasm/call', `${value}`)
  assert.equal(await wrong({ salvage: true, skipUnknown: false }), null)
})

test('a module that ended is replaced', async () => {
  const file = await open(accepted('ztensor/v1.2-dense_all.zt'))
  const [tensor] = file.tensors
  const before = await tensor!.array()
  const core = file.peek()
  // More than there is room for: the module ends.
  assert.throws(() => core.call('list', [], { length: 2 ** 32 - 16 } as Uint8Array), { code: 'wasm/trap' })
  assert.ok(core.isDead)
  assert.throws(() => core.call('list'), { code: 'wasm/trap' })
  assert.deepEqual(await tensor!.array(), before)
  assert.notEqual(file.peek(), core)
  assert.equal((await file.verify()).verdict, 'sound')
  await file.close()
  await assert.rejects(tensor!.array(), { code: 'js/closed' })
})

test('the module is held to its order', async () => {
  const core = await Core.create()
  for (const name of ['list', 'decode', 'gaps']) {
    assert.throws(() => core.call(name, name === 'decode' ? [0n] : []), { code: 'wasm/call' })
  }
  assert.throws(() => core.call('push', [7, 0, 0n], encode('x')), { code: 'wasm/call' })
  assert.ok(!core.isDead)
})

test('a list has what its file says of each tensor, whatever its name', async () => {
  const long = '𝄞é'.repeat(500)
  const names = ['\ufeffmark', '', 'plain', '𝄞', 'é\0', long, '"\\\n', '<b>', 'z']
  const given = names.map((name, n) => [name, { data: new Uint8Array(n), shape: n === 6 ? [1, 2, 3] : [n] }] as const)
  const file = await open(await toBytes(new Map(given), { format: 'safetensors' }))
  assert.deepEqual([...file.names].sort(), [...names].sort())
  assert.deepEqual(file.tensors.map((tensor) => tensor.name), file.names)
  for (const [name, { data, shape }] of given) {
    const tensor = file.tensor(name)
    assert.deepEqual([tensor.name, tensor.shape, tensor.count, tensor.storedLen], [name, shape, data.length, data.length])
    assert.deepEqual([tensor.dtype, tensor.logicalType, tensor.dense, tensor.layout, tensor.fault], ['u8', null, 'u8', 'dense', null])
  }
})

test('a list tells kinds of tensors apart, more than are looked through one by one', async () => {
  const types = ['F64', 'F32', 'F16', 'BF16', 'I64', 'I32', 'I16', 'I8', 'U64', 'U32', 'U16', 'U8', 'BOOL', 'C64',
    'F8_E4M3', 'F8_E5M2', 'F8_E8M0', 'F8_E4M3FNUZ', 'F8_E5M2FNUZ', 'F9_WRONG']
  const widths: Record<string, number> = { F64: 8, I64: 8, U64: 8, C64: 8, F32: 4, I32: 4, U32: 4, F16: 2, BF16: 2, I16: 2, U16: 2 }
  const tensors = Object.fromEntries([...types, ...types].map((type, n) => [`t${`${n}`.padStart(2, '0')}`, [type, [1], new Uint8Array(widths[type] ?? 1)] as const]))
  const file = await open(safetensors(tensors as unknown as Parameters<typeof safetensors>[0]))
  const kinds = file.tensors.map(({ dtype, logicalType, dense }) => `${dtype} ${logicalType} ${dense}`)
  assert.deepEqual(kinds.slice(types.length), kinds.slice(0, types.length))
  assert.equal(new Set(kinds).size, types.length)
  for (const [n, { dtype, components, fault }] of file.tensors.entries()) {
    assert.equal(fault === null, types[n % types.length] !== 'F9_WRONG')
    assert.equal(dtype, components[0]?.dtype ?? null)
  }
})

test('names of an object in JavaScript are names like others', async () => {
  const header = {
    __metadata__: { ['__proto__']: 'a', constructor: 'b', toString: 'c' },
    ['__proto__']: { dtype: 'U8', shape: [1], data_offsets: [0, 1] },
    constructor: { dtype: 'U8', shape: [1], data_offsets: [1, 2] },
  }
  // JSON.stringify leaves out the member set by `__proto__:` above.
  const text = `{"__metadata__":{"__proto__":"a","constructor":"b"},"__proto__":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},` +
    `"constructor":${JSON.stringify(header.constructor)}}`
  const head = encode(text)
  const bytes = new Uint8Array(8 + head.length + 2)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(head.length), true)
  bytes.set(head, 8)
  bytes.set([5, 6], 8 + head.length)
  const file = await open(bytes)
  assert.deepEqual(file.names, ['__proto__', 'constructor'])
  assert.equal(file.attributes.get('__proto__'), 'a')
  assert.equal(file.attributes.get('toString'), undefined)
  assert.deepEqual([...(await file.tensor('__proto__').array())], [5])
  assert.ok(!file.has('toString'))
  await assert.rejects(async () => file.tensor('toString'), { code: 'file/no-tensor' })
})

test('values that cannot be opened are refused with advice', async () => {
  const file = await open(join(root, 'examples/tiny.zt'))
  const wrong = (name: string) => assert.throws(() => file.tensor(name), (e: HoldallError) => {
    assert.deepEqual([e.code, e.source], ['file/no-tensor', file.name])
    assert.deepEqual(e.remedies, [{ do: 'did_you_mean', name: 'embed.weight' }])
    return e.advice === 'did you mean `embed.weight`?'
  })
  wrong('embed.wieght')
  wrong('model.embed.weight')
  assert.throws(() => file.tensor('zzzzzzzzzz'), { advice: '`file.names` gives the names' })
  await assert.rejects(open(corpus), { code: 'shards/no-model', source: corpus, found: 'there is no file of tensors, and no index of them' })
  await assert.rejects(open('/dev/null'), { code: 'io/failed', source: '/dev/null', found: 'this is no regular file' })
  for (const address of ['s3://bucket/a.zt', 'FTP://host/a.zt']) {
    await assert.rejects(open(address), { code: 'http/scheme', source: address, found: 'the scheme is not http, https or file' })
  }
  const index = encode('{"metadata":{},"weight_map":{"a":"model-00001-of-00002.safetensors"}}')
  await assert.rejects(open(index), { code: 'format/unknown', advice: 'open it by a path or an address that ends in `.index.json`, or among the files that it names' })
  const member = new Uint8Array(1536)
  member.set(encode('a.npy'))
  member.set(encode('0000644\0'), 100)
  member.set(encode('00000000000\0'), 124)
  member.set(encode('        0'), 148)
  member.set(encode('ustar\u000000'), 257)
  const sum = member.subarray(0, 512).reduce((all, byte) => all + byte, 0)
  member.set(encode(`${sum.toString(8).padStart(6, '0')}\0 `), 148)
  await assert.rejects(open(member), { code: 'format/unknown', advice: /`openArchive`/ })
})
