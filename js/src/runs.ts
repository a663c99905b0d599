import type { Core } from './core.js'
import { decoding, pieces, hintsOf } from './read.js'
import { joined, type ReadOptions } from './source.js'
import type { Tensor } from './tensor.js'

/** Bytes of elements in memory that are passed to the module at a time: a whole number of elements of every type. */
const CHUNK = 3 << 20

/** Options for reading elements: digests are checked by default, unless `check` is false. */
export interface RunOptions extends ReadOptions {
  check?: boolean | undefined
}

/** Yields the decoded bytes of a component, piece by piece. */
export async function* componentRuns(
  core: Core, tensor: Tensor, component: number, options: RunOptions,
): AsyncGenerator<Uint8Array> {
  const { sources } = tensor.file
  const digest = options.check !== false && tensor.hasSum(component)
  const want = { tensor: tensor.position, component, digest }
  const hints = decoding(hintsOf(sources))
  for await (const piece of pieces(core, sources, [want], tensor.isBare(component), hints, options)) {
    yield piece.bytes
  }
}

/** Yields the elements of a tensor in its dense type, a whole number at a time; each piece is valid until the next. */
export async function* runs(core: Core, tensor: Tensor, options: RunOptions): AsyncGenerator<Uint8Array> {
  const { position } = tensor
  const unit = core.numbers('element_range', [position, 0n, 0n])[3]
  if (unit === undefined) {
    tensor.elementType()
    yield* cut(await tensor.held(core, options, () => core.call('dense', [position]).bytes.slice()))
    return
  }
  const isDense = tensor.layout === 'dense'
  const data = tensor.components.findIndex(({ role }) => role === 'data')
  let left: Uint8Array = new Uint8Array(0)
  for await (const piece of componentRuns(core, tensor, data, options)) {
    const bytes = left.length === 0 ? piece : joined([left, piece])
    const whole = bytes.length - (bytes.length % unit)
    left = bytes.slice(whole)
    if (isDense) yield bytes.subarray(0, whole)
    else yield* blocks(core, position, bytes.subarray(0, whole), unit)
  }
  if (isDense && left.length > 0) yield left
}

/** Yields the elements of quantized blocks, a part at a time, since they take more memory than the blocks. */
export function* blocks(core: Core, at: number, bytes: Uint8Array, unit: number): Generator<Uint8Array> {
  const step = Math.max(1, Math.floor((1 << 20) / unit)) * unit
  for (let start = 0; start < bytes.length; start += step) {
    yield core.call('blocks', [at], bytes.subarray(start, start + step)).bytes.slice()
  }
}

/** Yields bytes in memory, a part at a time. */
export function* cut(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += CHUNK) yield bytes.subarray(at, at + CHUNK)
}
