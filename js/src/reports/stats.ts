import { Core, encode, numbersOf } from '../core.js'
import { cut, runs, type RunOptions } from '../runs.js'
import type { Tensor } from '../tensor.js'
import { nearest, valueOf, type Written } from '../values.js'

/** An element: a bigint for an integer that a double cannot hold, a pair for a complex number. */
export type Element = number | bigint | [number, number]

/** Options for statistics. */
export interface StatsOptions extends RunOptions {
  /** The number of bins of the histogram: 16 by default. With 0 the values are read once instead of twice. */
  bins?: number | undefined
  /** Called with the number of bytes read and the total. */
  onProgress?: ((done: number, all: number) => void) | undefined
}

/** Statistics of a tensor's values; `min` to `histogram` cover the finite values. */
export interface Stats {
  /** The measured quantity: the magnitude for complex elements. */
  measure: 'value' | 'magnitude'
  /** The number of values, including the zeros that a sparse tensor does not store. */
  count: number
  zeros: number
  /** The zeros that a sparse tensor does not store, also counted in `zeros`. */
  impliedZeros: number
  nan: number
  inf: number
  negInf: number
  /** The smallest finite value, exact even for 64-bit integers; `null` if no value is finite. */
  min: Element | null
  /** The largest finite value, exact even for 64-bit integers; `null` if no value is finite. */
  max: Element | null
  /** The mean of the finite values. */
  mean: number | null
  /** The standard deviation of the population. */
  std: number | null
  /** The number of finite values in each of several bins of equal width from `min` to `max`. */
  histogram: { min: number; max: number; counts: number[] } | null
}

/** Parses an element from the core. */
export const elementOf = (written: Written): Element => valueOf(written) as Element

/** Computes statistics of a tensor in bounded memory: reads the values twice, the second time for the histogram. */
export function stats(tensor: Tensor, options: StatsOptions = {}): Promise<Stats> {
  return tensor.file.run(async (core) => {
    const type = tensor.elementType()
    const bins = options.bins ?? 16
    // A separate instance, so that two computations can run at the same time.
    const own = await Core.create()
    own.call('stats_begin', [bins], encode(type))
    const [held, zeros] = await stored(core, tensor, options)
    const width = tensor.storedLen * (bins > 0 ? 2 : 1)
    let done = 0
    const pass = async (check: boolean | undefined) => {
      const before = done
      for await (const run of held === null ? runs(core, tensor, { ...options, check }) : cut(held)) {
        options.signal?.throwIfAborted()
        own.call('stats_take', [], run)
        done += run.length
        options.onProgress?.(Math.min(done, width), width)
      }
      done = before + tensor.storedLen
      options.onProgress?.(Math.min(done, width), width)
    }
    await pass(options.check)
    const hasMore = own.call('stats_turn', [BigInt(zeros)]).bytes.length > 0
    // Digests are not checked a second time.
    if (hasMore) await pass(false)
    const report = own.json<Record<string, Written>>('stats_finish')
    const count = (name: string) => nearest(report[name] as number)
    const { histogram } = report as unknown as { histogram: { min: number; max: number; counts: (number | { $int: string })[] } | null }
    return {
      ...(report as unknown as Stats),
      count: count('count'), zeros: count('zeros'), impliedZeros: count('impliedZeros'),
      min: elementOf(report.min!), max: elementOf(report.max!),
      histogram: histogram && { ...histogram, counts: histogram.counts.map(nearest) },
    }
  })
}

/** Reads the values that a sparse tensor stores, and counts its implied zeros. */
async function stored(
  core: Core, tensor: Tensor, options: RunOptions,
): Promise<[Uint8Array | null, number]> {
  if (!tensor.layout.startsWith('sparse')) return [null, 0]
  const call = () => core.call('stored_values', [tensor.position]).bytes.slice()
  const bytes = await tensor.held(core, options, call)
  if (bytes.length === 0) return [null, 0]
  return [bytes.subarray(8), numbersOf(bytes.subarray(0, 8))[0]!]
}
