/**
 * Deltas: what a fine-tune or a training step changed, shown and applied to the base.
 *
 * @module
 */
import { Core, decode, encode } from './core.js'
import { broken } from './errors.js'
import type { TensorFile } from './file.js'
import { componentRuns, cut, runs, type RunOptions } from './runs.js'
import { joined } from './source.js'
import type { Tensor } from './tensor.js'
import { collected, encoded, formatOf, publish, type Encodable, type Target } from './write.js'

/** What a delta changes. */
export interface DeltaReport {
  /** The tensors that the delta has, in the order of the file. */
  tensors: DeltaTensor[]
  /** The names of the tensors of the base that the target lacks. */
  removed: string[]
  /** The names of the tensors that the base lacks, if the delta has them. */
  added: string[] | null
  /** The number of tensors of the target. */
  targetTensors: number
  /** The digests of the base and of the target as a whole, if the delta has them. */
  base: string | null
  target: string | null
  /** What the base and the target are called, if the delta says so. */
  baseVersion: string | null
  targetVersion: string | null
  /** Bytes of the file. */
  size: number
}

/** A tensor of a delta. */
export interface DeltaTensor {
  name: string
  shape: number[]
  /** The element type of the target: `bf16`. */
  dense: string | null
  count: number
  /** The number of elements that differ; `null` if the tensor is stored whole. */
  changed: number | null
  /** Bytes that the tensor takes in the file. */
  storedLen: number
}

/** Options for applying a delta. */
export interface ApplyDeltaOptions extends RunOptions {
  /** The format of the target; by default that of the name of `to`, or else that of the base. */
  format?: string | undefined
  /** A path or a stream to write to. By default the bytes are returned. */
  to?: Target | undefined
  /** Whether an existing file may be replaced. */
  overwrite?: boolean | undefined
}

/** The attribute of the file, as the core has it. */
interface Head {
  tensors: number
  removed: string[]
  added: string[] | null
  base: string | null
  target: string | null
  baseVersion: string | null
  targetVersion: string | null
}

/** The facts of a difference that was checked. */
interface Difference {
  dense: string
  width: number
  count: number
  changed: number
  base: string
  target: string
}

/** The attribute of a delta, and the layout of its differences. */
const DELTA = 'delta'
/** The kind of digest that new deltas have. */
const XXH3 = 'xxh3-128:'
/** Elements of a block. */
const BLOCK = 1 << 20
/** How the bytes of a tensor of the target are made: see `js/wasm/src/whole/delta.rs`. */
const [STORED, DENSE] = [0, 1]

const isDifference = (tensor: Tensor): boolean => tensor.layout === DELTA
const isDense = ({ layout }: Tensor): boolean => layout === 'dense' || layout === 'strided' || layout.startsWith('planes.')

/**
 * Returns what a delta changes, after checking each difference.
 *
 * @throws HoldallError `delta/not-a-delta` if the file is not a delta; the rules of its parts.
 */
export async function showDelta(delta: TensorFile, options: RunOptions = {}): Promise<DeltaReport> {
  const own = await Core.create('whole')
  try {
    await delta.openIn(own)
    const { tensors: targetTensors, ...head } = own.json<Head>('delta_head')
    const tensors: DeltaTensor[] = []
    for (const tensor of delta.tensors) {
      sound(tensor)
      const { name, shape, count, storedLen, dense } = tensor
      const found = isDifference(tensor) ? await differenceOf(own, tensor, options) : null
      tensors.push({ name, shape, count, storedLen, dense: found?.dense ?? dense, changed: found?.changed ?? null })
    }
    return { tensors, targetTensors, ...head, size: delta.size }
  } catch (e) {
    throw delta.named(e)
  }
}

/**
 * Applies a delta to the base that it was made from. All of the delta and the digests of the base are checked before the first
 * byte is written, and the digest of each changed tensor before its bytes are. Tensors are made one at a time.
 *
 * Tensors that share their bytes become separate ones, and those in byte planes become dense.
 *
 * @throws HoldallError `delta/base` if the base is another model, `delta/target` if the result is not the target.
 */
export async function applyDelta(base: TensorFile, delta: TensorFile, options: ApplyDeltaOptions & { to: Target }): Promise<void>
export async function applyDelta(base: TensorFile, delta: TensorFile, options?: ApplyDeltaOptions & { to?: undefined }): Promise<Uint8Array>
export async function applyDelta(base: TensorFile, delta: TensorFile, options: ApplyDeltaOptions = {}): Promise<Uint8Array | void> {
  const { to } = options
  const isNamed = to !== undefined && !(to instanceof WritableStream)
  const format = options.format ?? (isNamed ? await formatOf(to) : base.format)
  const pieces = encodeTarget(base, delta, { ...options, format })
  return to === undefined ? collected(pieces) : publish(to, pieces, options)
}

/** Yields the bytes of the target of a delta as a file, in order, as they are made: see {@link applyDelta}. */
export async function* encodeTarget(
  base: TensorFile, delta: TensorFile, options: RunOptions & { format: string },
): AsyncGenerator<Uint8Array> {
  const own = await Core.create('whole')
  await base.openIn(own)
  own.call('set_aside')
  await delta.openIn(own)
  let head: Head
  let wasApplied: boolean
  try {
    head = own.json<Head>('delta_head')
    wasApplied = await check(own, base, delta, head, options)
  } catch (e) {
    throw delta.named(e)
  }
  if (wasApplied) await base.openIn(own)
  const removed = new Set(wasApplied ? [] : head.removed)
  const inputs: Encodable[] = []
  const add = (tensor: Tensor, isAside: boolean, old: Tensor | undefined) => {
    const [how] = own.numbers('delta_part', [tensor.position, Number(isAside)])
    const components = how === STORED
      ? tensor.components.map(({ role }) => () => tensor.bytes({ ...options, role }))
      : [() => (how === DENSE ? elementsOf(tensor, options) : targetOf(own, old!, tensor, options))]
    inputs.push({ name: tensor.name, part: inputs.length, components })
  }
  for (const old of base.tensors) {
    if (removed.has(old.name)) continue
    const changed = !wasApplied && delta.has(old.name)
    if (changed) add(delta.tensor(old.name), false, old)
    else add(old, !wasApplied, undefined)
  }
  if (!wasApplied) delta.tensors.forEach((tensor) => { if (!base.has(tensor.name)) add(tensor, false, undefined) })
  if (!wasApplied && inputs.length !== head.tensors) {
    const found = `the target has ${head.tensors} tensors, but base and delta give ${inputs.length}`
    throw broken('delta/base', found, { source: delta.name })
  }
  yield* encoded(own, inputs, { format: options.format, signal: options.signal }, DELTA)
}

/** Throws if a tensor cannot be read. */
function sound(tensor: Tensor): void {
  if (tensor.fault !== null) throw tensor.fault
}

/** Checks the difference of a tensor, which the core then can apply. */
function differenceOf(own: Core, tensor: Tensor, options: RunOptions): Promise<Difference> {
  return tensor.held(own, options, () => own.json<Difference>('delta_begin', [tensor.position]))
}

/** Checks all of the delta, and the base against it. Returns whether the base is the target already. */
async function check(own: Core, base: TensorFile, delta: TensorFile, head: Head, options: RunOptions): Promise<boolean> {
  if (base.attributes.has(DELTA) && base.tensors.some(isDifference)) {
    throw broken('delta/unfit', 'it is a delta itself', { source: base.name })
  }
  const digests = new Map<string, string>()
  for (const old of base.tensors) {
    options.signal?.throwIfAborted()
    digests.set(old.name, await digestOf(own, old, XXH3, options))
  }
  let wrong: Error | undefined
  const refuse = (found: string, tensor?: string) => {
    wrong ??= broken('delta/base', found, tensor === undefined ? { source: delta.name } : { source: delta.name, tensor })
  }
  const gone = head.removed.find((name) => !base.has(name))
  if (gone !== undefined) refuse(`the base lacks \`${gone}\`, which is to be removed`)
  const stranger = head.added?.find((name) => base.has(name))
  if (stranger !== undefined) refuse(`the base has \`${stranger}\`, which the delta adds`)
  let isTarget = base.length === head.tensors && head.removed.every((name) => !base.has(name))
  for (const tensor of delta.tensors) {
    options.signal?.throwIfAborted()
    sound(tensor)
    const { name } = tensor
    if (!isDifference(tensor)) {
      isTarget &&= digests.get(name) === await digestOf(own, tensor, XXH3, options)
      continue
    }
    const difference = await differenceOf(own, tensor, options)
    const old = base.has(name) ? base.tensor(name) : undefined
    if (old === undefined) throw broken('delta/base', 'the base lacks the tensor', { source: delta.name, tensor: name })
    if (old.dense !== difference.dense || String(old.shape) !== String(tensor.shape)) {
      const found = `the base has ${old.dense} [${old.shape}], the delta is of ${difference.dense} [${tensor.shape}]`
      throw broken('delta/base', found, { source: delta.name, tensor: name })
    }
    const found = (like: string) => (like.startsWith(XXH3) ? digests.get(name)! : digestOf(own, old, like, options))
    const digest = await found(difference.base)
    isTarget &&= await found(difference.target) === difference.target
    if (digest !== difference.base) refuse(`the base has the digest ${digest}, not ${difference.base}`, name)
  }
  if (wrong === undefined && head.base !== null) {
    const found = digestOfModel(own, base, digests)
    if (found !== head.base) refuse(`the base has the digest ${found}, not ${head.base}`)
  }
  if (wrong !== undefined && !isTarget) throw wrong
  return wrong !== undefined
}

/** Returns the digest of a tensor's elements, or of the roles, lengths and bytes of its components if it is of another layout. */
async function digestOf(own: Core, tensor: Tensor, like: string, options: RunOptions): Promise<string> {
  sound(tensor)
  const core = await tensor.file.core()
  own.call('delta_digest', [], encode(like))
  try {
    if (isDense(tensor)) {
      for await (const piece of runs(core, tensor, options)) sum(own, piece)
    } else {
      for (const [number, { role, decodedLen, storedLen }] of tensor.components.entries()) {
        sum(own, encode(`${role} ${decodedLen ?? storedLen}\n`))
        for await (const piece of componentRuns(core, tensor, number, options)) sum(own, piece)
      }
    }
  } catch (e) {
    throw tensor.file.named(e)
  }
  return decode(own.call('delta_digest_end').bytes)
}

function sum(own: Core, bytes: Uint8Array): void {
  for (const piece of cut(bytes)) own.call('delta_sum', [], piece)
}

/** Returns the digest of a whole model: of the names, types, shapes and digests of its tensors. */
function digestOfModel(own: Core, base: TensorFile, digests: ReadonlyMap<string, string>): string {
  const lines = base.tensors.map(({ name, dense, shape }) => {
    return encode(`${encode(name).length}:${name} ${dense ?? ''} [${shape.join(', ')}] ${digests.get(name)!}\n`)
  })
  lines.sort(compareBytes)
  own.call('delta_digest', [], encode(XXH3))
  lines.forEach((line) => sum(own, line))
  return decode(own.call('delta_digest_end').bytes)
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const at = a.findIndex((byte, n) => byte !== b[n])
  return at < 0 ? a.length - b.length : a[at]! - (b[at] ?? -1)
}

/** Returns the elements of a tensor in dense form. */
async function elementsOf(tensor: Tensor, options: RunOptions): Promise<Uint8Array> {
  if (tensor.layout === 'dense') return tensor.bytes(options)
  const core = await tensor.file.core()
  const pieces: Uint8Array[] = []
  for await (const piece of runs(core, tensor, options)) pieces.push(piece.slice())
  return joined(pieces)
}

/** Returns the elements of the target of a difference, after comparing their digest. */
async function targetOf(own: Core, old: Tensor, tensor: Tensor, options: RunOptions): Promise<Uint8Array> {
  const { target, width } = await differenceOf(own, tensor, options)
  const elements = await elementsOf(old, options)
  const out = new Uint8Array(elements.length)
  own.call('delta_digest', [], encode(target))
  for (let block = 0, at = 0; at < elements.length; block++, at += BLOCK * width) {
    const { bytes } = own.call('delta_apply', [BigInt(block)], elements.subarray(at, at + BLOCK * width))
    out.set(bytes, at)
    sum(own, out.subarray(at, at + BLOCK * width))
  }
  const found = decode(own.call('delta_digest_end').bytes)
  if (found === target) return out
  throw broken('delta/target', `the result has the digest ${found}, not ${target}`, { source: tensor.file.name, tensor: tensor.name })
}
