import { decode, encode, kept } from './core.js'

/** Properties that tensors of a file have in common, stored once. */
export interface Kind {
  layout: string
  dtype: string | null
  logicalType: string | null
  dense: string | null
  /** Whether the tensor cannot be read. */
  isFaulty: boolean
}

/** All tensors of a file as listed by the module, by index: see `js/wasm/src/list.rs`. */
export class List {
  readonly length: number
  /** Numbers of elements, and lengths in the file in bytes. */
  readonly counts: Float64Array
  readonly storedLens: Float64Array
  readonly #dims: Float64Array
  readonly #dimsEnds: Uint32Array
  readonly #nameEnds: Uint32Array
  readonly #names: string
  readonly #kinds: Kind[]
  readonly #kindOf: Uint32Array

  static {
    const kind: Kind = { layout: 'dense', dtype: 'f32', logicalType: null, dense: 'f32', isFaulty: false }
    kept.push(new List(encode('\0'.repeat(16) + JSON.stringify([kind]))))
  }

  constructor(answer: Uint8Array) {
    // Numbers are copied to an aligned buffer; strings are decoded in place.
    const [length, rank, names] = new Uint32Array(answer.slice(0, 16).buffer) as unknown as [number, number, number]
    const texts = 16 + 28 * length + 8 * rank
    const bytes = answer.slice(16, texts)
    let at = 0
    const take = <T>(array: new (buffer: ArrayBufferLike, at: number, count: number) => T, width: number, count: number): T => {
      const start = at
      at += width * count
      return new array(bytes.buffer, start, count)
    }
    this.length = length
    this.counts = take(Float64Array, 8, length)
    this.storedLens = take(Float64Array, 8, length)
    this.#dims = take(Float64Array, 8, rank)
    this.#nameEnds = take(Uint32Array, 4, length)
    this.#dimsEnds = take(Uint32Array, 4, length)
    this.#kindOf = take(Uint32Array, 4, length)
    this.#names = decode(answer.subarray(texts, texts + names))
    this.#kinds = JSON.parse(decode(answer.subarray(texts + names))) as Kind[]
  }

  name(at: number): string {
    return this.#names.slice(at === 0 ? 0 : this.#nameEnds[at - 1], this.#nameEnds[at])
  }

  shape(at: number): number[] {
    const start = at === 0 ? 0 : this.#dimsEnds[at - 1]!
    const out = new Array<number>(this.#dimsEnds[at]! - start)
    for (let n = 0; n < out.length; n++) out[n] = this.#dims[start + n]!
    return out
  }

  kind(at: number): Kind {
    return this.#kinds[this.#kindOf[at]!]!
  }
}
