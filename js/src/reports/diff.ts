import { Core } from '../core.js'
import { HoldallError, broken, type ErrorDetails } from '../errors.js'
import type { TensorFile } from '../file.js'
import { joined, type ReadOptions } from '../source.js'
import { componentRuns, runs, type RunOptions } from '../runs.js'
import type { Tensor } from '../tensor.js'
import { valueOf, type Value, type Written } from '../values.js'
import { elementOf, type Element } from './stats.js'

/** Options for comparing files. */
export interface DiffOptions extends RunOptions {
  /**
   * Elements agree if `|a - b| <= atol + rtol * |b|`. If neither is given, elements of one type agree if they have
   * the same bits, and elements of two types if they are the same number.
   */
  rtol?: number | undefined
  atol?: number | undefined
  /** Called with the number of bytes compared and the total. */
  onProgress?: ((done: number, all: number) => void) | undefined
}

/** A tensor that only one of the files has. */
export interface TensorFacts {
  name: string
  shape: number[]
  layout: string
  dense: string | null
}

/** An attribute that differs; `undefined` on a side that does not have it. */
export interface AttributeDiff {
  key: string
  a?: Value
  b?: Value
}

/** The comparison of the elements of two tensors. */
export interface ValueDiff {
  count: number
  /** The number of elements that are not identical. */
  unequal: number
  /** The number of elements that differ by more than the tolerance. */
  differing: number
  maxAbs: number
  maxRel: number
  /** The share of elements that are not identical, from 0 to 1. */
  share: number
  /** The number of elements that are not identical and of which one is NaN or infinite; the next three leave them out. */
  nonFinite: number
  /** The root of the mean square of the differences; `null`, like the next two, for elements of an unknown type. */
  rms: number | null
  /** `rms` divided by the root of the mean square of the elements of `a`; infinite if all of these are 0. */
  relative: number | null
  /** The cosine of the angle between both tensors as vectors: 1 if they are equal, 0 if one is all zeros. */
  cosine: number | null
  /** The first element that differs by more than the tolerance, and its index in each dimension. */
  first: { index: number[]; a: Element; b: Element } | null
}

/** A component that differs; `null` on a side that does not have it. */
export interface ComponentDiff {
  role: string
  types: [string | null, string | null]
  lens: [number | null, number | null]
  values: ValueDiff | null
}

/** The differences between two tensors of the same name. */
export interface TensorDiff {
  name: string
  /** Whether all differences are within the tolerance. */
  same: boolean
  types: [string | null, string | null] | null
  shapes: [number[], number[]] | null
  layouts: [string, string] | null
  attributes: AttributeDiff[]
  components: ComponentDiff[]
  values: ValueDiff | null
  /** Why the values could not be compared; `null` if they were. */
  incomparable: HoldallError | null
}

/** What changed in a layer of a model, summed over its tensors that are in both files. */
export interface LayerDiff {
  /** The common start of the names of its tensors, such as `model.layers.12`; `null` for the tensors outside any layer. */
  name: string | null
  tensors: number
  /** The number of tensors of which a value, a shape or a component differs. */
  changed: number
  /** The number of tensors whose values could not be compared one by one. */
  uncompared: number
  /** The number of elements of the other tensors, and of those that are not identical. */
  count: number
  unequal: number
  share: number
  maxAbs: number
  nonFinite: number
  rms: number | null
  relative: number | null
  cosine: number | null
}

/** The differences between two files. The way in which values are stored is not a difference. */
export interface FileDiff {
  /** Whether there is no difference at all: the same tensors, bit for bit, and the same attributes. */
  identical: boolean
  /** Whether all differences are within the tolerance. */
  same: boolean
  /** Whether names and shapes are the same and values agree; types, layouts and attributes may differ. */
  valuesAgree: boolean
  /** Whether no difference was found, but some values could not be compared. */
  undecided: boolean
  /** The number of tensors that are in both files, and of those that are identical. */
  compared: number
  unchanged: number
  removed: TensorFacts[]
  added: TensorFacts[]
  changed: TensorDiff[]
  attributes: AttributeDiff[]
  /** The layers of the model, in the order of `a`. */
  layers: LayerDiff[]
}

/** Modes of comparing a pair: see `js/wasm/src/diff.rs`. */
const [VALUES, COMPONENTS] = [1, 2]
const NONE = 2 ** 32 - 1
/** Elements that are compared at a time: a multiple of 4. */
const STEP = 1 << 18

/** Compares two files of any two formats, in bounded memory; `a` is the old one. */
export async function diff(a: TensorFile, b: TensorFile, options: DiffOptions = {}): Promise<FileDiff> {
  const own = await Core.create('whole')
  await a.openIn(own)
  own.call('set_aside')
  await b.openIn(own)
  const { rtol, atol } = options
  const isExact = rtol === undefined && atol === undefined
  const [count = 0] = own.numbers('diff_begin', [isExact ? NaN : rtol ?? 0, atol ?? 0])
  const comparison = new Comparison(own, a, b, options)
  for (let pair = 0; pair < count; pair++) await comparison.pair(pair)
  await comparison.sums()
  return comparison.finish()
}

/** Reads the runs of a blob into memory. */
async function partsOf(blob: Tensor, options: ReadOptions): Promise<{ count: number; run(n: number): Uint8Array }> {
  const [entries, heap] = [await blob.bytes({ ...options, role: 'entries' }), await blob.bytes({ ...options, role: 'blob_data' })]
  const view = new DataView(entries.buffer, entries.byteOffset, entries.length)
  const number = (at: number) => Number(view.getBigUint64(at, true))
  return {
    count: entries.length / 16,
    run: (n) => heap.subarray(number(n * 16), number(n * 16) + number(n * 16 + 8)),
  }
}

/** Returns whether two texts are the same JSON: numbers are compared digit by digit, objects in any order of members. */
function sameJson(a: string, b: string): boolean {
  if (a === b) return true
  try {
    return isDeeplyEqual(parsed(a), parsed(b))
  } catch {
    return false
  }
}

/** Parses JSON with numbers as strings, since JavaScript numbers cannot hold 64-bit integers. */
const parsed = (text: string): unknown =>
  JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) => (token.startsWith('"') ? `"s${token.slice(1)}` : `"n${token}"`)))

function isDeeplyEqual(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b
  const [x, y] = [Object.entries(a), new Map(Object.entries(b))]
  return Array.isArray(a) === Array.isArray(b) && x.length === y.size
    && x.every(([name, value]) => y.has(name) && isDeeplyEqual(value, y.get(name)))
}

class Comparison {
  readonly #core: Core
  readonly #a: TensorFile
  readonly #b: TensorFile
  readonly #options: DiffOptions
  readonly #incomparable = new Map<number, HoldallError>()
  readonly #all: number
  #done = 0

  constructor(core: Core, a: TensorFile, b: TensorFile, options: DiffOptions) {
    this.#core = core
    this.#a = a
    this.#b = b
    this.#options = options
    this.#all = a.size + b.size
  }

  async pair(at: number): Promise<void> {
    const { signal, onProgress } = this.#options
    signal?.throwIfAborted()
    const [number, other, how] = this.#core.numbers('diff_pair', [at]) as [number, number, number]
    if (how === 0) return
    const [a, b] = [this.#a.tensors[number]!, this.#b.tensors[other]!]
    const before = this.#done
    try {
      const goesOn = (how & COMPONENTS) === 0 || (await this.#components(at, a, b))
      if (goesOn && (how & VALUES) === 0 && (await this.#hasSameContent(a, b))) this.#core.call('diff_same_content', [at])
      if (goesOn && (how & VALUES) !== 0) {
        await this.#elements(at, NONE, a, b, (core, tensor) => runs(core, tensor, this.#options))
      }
    } catch (e) {
      const isBeyondUs = e instanceof HoldallError && (e.kind === 'unsupported' || e.kind === 'limit')
      if (!isBeyondUs) throw e
      this.#core.call('diff_incomparable', [at])
      this.#incomparable.set(at, e)
    }
    this.#done = before + a.storedLen + b.storedLen
    onProgress?.(Math.min(this.#done, this.#all), this.#all)
  }

  /** Reads the values of unchanged quantized tensors, for the sums of layers in which others changed. */
  async sums(): Promise<void> {
    for (const at of this.#core.numbers('diff_unsummed')) {
      const [number, other] = this.#core.numbers('diff_pair', [at]) as [number, number]
      const before = this.#done
      await this.#elements(at, NONE, this.#a.tensors[number]!, this.#b.tensors[other]!, (core, tensor) => runs(core, tensor, this.#options))
      this.#done = before
    }
  }

  /** Compares components by role, and returns whether the values must be compared too. */
  async #components(at: number, a: Tensor, b: Tensor): Promise<boolean> {
    const numbers = this.#core.numbers('diff_components', [at])
    for (let n = 0; n < numbers.length; n += 3) {
      const [ofA, ofB, isComparable] = numbers.slice(n, n + 3) as [number, number, number]
      if (isComparable === 0) continue
      await this.#elements(at, n / 3, a, b, (core, tensor) =>
        componentRuns(core, tensor, tensor === a ? ofA : ofB, this.#options))
    }
    return this.#core.call('diff_components_end', [at]).bytes.length > 0
  }

  /** Returns whether records or runs are the same, wherever their bytes are in the heap. */
  async #hasSameContent(a: Tensor, b: Tensor): Promise<boolean> {
    const options = this.#options
    if (a.layout === 'records' && b.layout === 'records') {
      const [x, y] = [await a.lines(options), await b.lines(options)]
      return x.length === y.length && x.every((line, n) => sameJson(line, y[n]!))
    }
    if (a.layout !== 'blob' || b.layout !== 'blob') return false
    const [x, y] = [await partsOf(a, options), await partsOf(b, options)]
    const isJson = [a, b].every((one) => /"content": *"json"/.test(String(one.attributes.get('metatensor.kind'))))
    return x.count === y.count && Array.from({ length: x.count }, (_, n) => n).every((n) => {
      const [p, q] = [x.run(n), y.run(n)]
      if (p.length === q.length && p.every((byte, at) => byte === q[at])) return true
      return isJson && sameJson(new TextDecoder().decode(p), new TextDecoder().decode(q))
    })
  }

  async #elements(
    at: number, component: number, a: Tensor, b: Tensor,
    runsOf: (core: Core, tensor: Tensor) => AsyncGenerator<Uint8Array>,
  ): Promise<void> {
    const [coreA, coreB] = [await this.#a.core(), await this.#b.core()]
    // Throws for a tensor without elements before any comparison.
    if (component === NONE) [a, b].forEach((tensor) => tensor.elementType())
    const bits = this.#core.numbers('diff_values', [at, component]) as [number, number]
    const x = new Cursor(runsOf(coreA, a), bits[0])
    const y = new Cursor(runsOf(coreB, b), bits[1])
    try {
      for (;;) {
        this.#options.signal?.throwIfAborted()
        const n = await this.#named(this.#a, () => x.fill())
        const m = await this.#named(this.#b, () => y.fill())
        if (n !== m) {
          const found = `${x.taken + n} elements on one side, ${y.taken + m} on the other`
          throw broken('layout/element-size', found, { tensor: a.name })
        }
        if (n === 0) break
        const [p, q] = [x.take(n), y.take(n)]
        this.#core.call('diff_push', [p.length, BigInt(n)], joined([p, q]))
        this.#done += p.length + q.length
        this.#options.onProgress?.(Math.min(this.#done, this.#all), this.#all)
      }
    } finally {
      await x.close()
      await y.close()
    }
    this.#core.call('diff_values_end')
  }

  async #named<T>(file: TensorFile, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (e) {
      throw file.named(e)
    }
  }

  finish(): FileDiff {
    const report = this.#core.json<any>('diff_finish')
    const attributes = (all: { key: string; a?: Written; b?: Written }[]): AttributeDiff[] =>
      all.map(({ key, ...sides }) => {
        const out: AttributeDiff = { key }
        if ('a' in sides) out.a = valueOf(sides.a!)
        if ('b' in sides) out.b = valueOf(sides.b!)
        return out
      })
    const float = (of: any) => (of === null ? null : elementOf(of))
    const floats = ({ rms, relative, cosine }: any) => ({ rms: float(rms), relative: float(relative), cosine: float(cosine) })
    const values = (of: any): ValueDiff | null => {
      if (of === null) return null
      const { maxAbs, maxRel, first } = of
      return {
        ...of, ...floats(of), maxAbs: elementOf(maxAbs), maxRel: elementOf(maxRel),
        first: first && { ...first, a: elementOf(first.a), b: elementOf(first.b) },
      }
    }
    return {
      ...report,
      layers: report.layers.map((layer: any) => ({ ...layer, ...floats(layer), maxAbs: elementOf(layer.maxAbs) })),
      attributes: attributes(report.attributes),
      changed: report.changed.map(({ pair, ...changed }: any) => ({
        ...changed,
        attributes: attributes(changed.attributes),
        components: changed.components.map((c: any) => ({ ...c, values: values(c.values) })),
        values: values(changed.values),
        incomparable: this.#incomparable.get(pair) ?? errorOf(changed.incomparable),
      })),
    }
  }
}

const errorOf = (report: ErrorDetails | null): HoldallError | null =>
  report === null ? null : new HoldallError(report, null)

/** Regroups elements that arrive in pieces into steps of equal size. */
class Cursor {
  readonly #runs: AsyncGenerator<Uint8Array>
  readonly #bits: number
  #bytes: Uint8Array = new Uint8Array(0)
  #isDone = false
  taken = 0

  constructor(runs: AsyncGenerator<Uint8Array>, bits: number) {
    this.#runs = runs
    this.#bits = bits
  }

  /** Reads up to a step of elements, and returns how many there are. */
  async fill(): Promise<number> {
    const wanted = (STEP * this.#bits) / 8
    while (this.#bytes.length < wanted && !this.#isDone) {
      const { value, done } = await this.#runs.next()
      if (done === true) this.#isDone = true
      else this.#bytes = joined([this.#bytes, value])
    }
    return Math.min(STEP, Math.floor((this.#bytes.length * 8) / this.#bits))
  }

  take(count: number): Uint8Array {
    const len = Math.ceil((count * this.#bits) / 8)
    const out = this.#bytes.subarray(0, len)
    this.#bytes = this.#bytes.subarray(len)
    this.taken += count
    return out
  }

  async close(): Promise<void> {
    await this.#runs.return(undefined)
  }
}
