import { encode, type Core } from './core.js'
import { broken } from './errors.js'

/** A typed array of elements. */
export type TypedArray =
  | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array | Float32Array | Float64Array

/** How elements are converted. */
export interface ElementOptions {
  /**
   * Converts elements to numbers of this type, rounded to nearest. By default elements keep their stored type as far
   * as JavaScript has an array for it: bf16 and f16 are `Uint16Array`, 8-bit floats are `Uint8Array`, complex numbers
   * are pairs, and elements below 8 bits are packed into bytes.
   */
  as?: 'f32' | 'f64' | undefined
  /** Returns 64-bit integers as a `Float64Array`, and throws if one is beyond 2^53. By default they are bigints. */
  int64?: 'number' | undefined
}

/** The array type for `options`. */
export type ArrayOf<O> =
  O extends { as: 'f32' } ? Float32Array : O extends { as: 'f64' } ? Float64Array : TypedArray

type ArrayType = new (buffer: ArrayBufferLike, offset: number, length: number) => TypedArray

const ARRAYS: Record<string, ArrayType> = {
  f64: Float64Array, f32: Float32Array, f16: Uint16Array, bf16: Uint16Array,
  i64: BigInt64Array, i32: Int32Array, i16: Int16Array, i8: Int8Array,
  u64: BigUint64Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array, bool: Uint8Array,
}

/** Bytes that are passed to the module at a time: a whole number of elements of every type, including packed ones. */
const CHUNK = 3 << 20

/** Returns the elements of type `name` (`f32`, `u8 f8_e5m2`) in little-endian `bytes`. */
export function elementsOf(
  core: Core, name: string, bytes: Uint8Array, options: ElementOptions,
): TypedArray {
  const { as, int64 } = options
  const dtype = name.split(' ')[0]!
  if (as !== undefined && as !== 'f32' && as !== 'f64') throw broken('js/source', `elements come as f32 or f64, not as ${as}`)
  if (as !== undefined && as !== name) return converted(core, name, bytes, as === 'f64')
  const type = ARRAYS[dtype]!
  const array = view(type, bytes)
  if (int64 === 'number' && (array instanceof BigInt64Array || array instanceof BigUint64Array)) {
    return checked(array)
  }
  return array
}

/** Returns an array over the bytes, or over a copy if they are not aligned. */
function view(type: ArrayType, bytes: Uint8Array): TypedArray {
  const width = (type as unknown as { BYTES_PER_ELEMENT: number }).BYTES_PER_ELEMENT
  const whole = bytes.byteOffset % width === 0 ? bytes : bytes.slice()
  return new type(whole.buffer, whole.byteOffset, Math.floor(whole.length / width))
}

/** Converts elements to numbers, by the core. */
function converted(core: Core, name: string, bytes: Uint8Array, wide: boolean): TypedArray {
  const head = encode(name)
  const made: Uint8Array[] = []
  let len = 0
  for (let at = 0; at < bytes.length; at += CHUNK) {
    const part = bytes.subarray(at, at + CHUNK)
    const input = new Uint8Array(head.length + part.length)
    input.set(head)
    input.set(part, head.length)
    const piece = core.call('numbers', [head.length, wide ? 1 : 0], input).bytes.slice()
    made.push(piece)
    len += piece.length
  }
  let all = made[0] ?? new Uint8Array(0)
  if (made.length > 1) {
    all = new Uint8Array(len)
    let at = 0
    for (const piece of made) {
      all.set(piece, at)
      at += piece.length
    }
  }
  return view(wide ? Float64Array : Float32Array, all)
}

function checked(array: BigInt64Array | BigUint64Array): Float64Array {
  const out = new Float64Array(array.length)
  for (let at = 0; at < out.length; at++) {
    const n = Number(array[at]!)
    if (!Number.isSafeInteger(n)) {
      throw broken('js/number', `element ${at} is ${array[at]}, which a number cannot hold`)
    }
    out[at] = n
  }
  return out
}
