import { encode, type Core } from './core.js'
import { broken } from './errors.js'

/** Elements as JavaScript has them. */
export type TypedArray =
  | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array | Float32Array | Float64Array

/** How elements are given. */
export interface ElementOptions {
  /**
   * As numbers of this type: rounded to nearest where they do not fit. Without it elements are as they are stored, where
   * there is an array of them: bf16 and f16 as `Uint16Array`, 8-bit floats as `Uint8Array`, complex ones as pairs,
   * elements below 8 bits packed into bytes.
   */
  as?: 'f32' | 'f64' | undefined
  /** 64-bit integers as a `Float64Array`, which fails where one is beyond 2^53. Without it they are bigints. */
  int64?: 'number' | undefined
}

/** The array that `options` ask for. */
export type ArrayOf<O> =
  O extends { as: 'f32' } ? Float32Array : O extends { as: 'f64' } ? Float64Array : TypedArray

type ArrayType = new (buffer: ArrayBufferLike, offset: number, length: number) => TypedArray

const ARRAYS: Record<string, ArrayType> = {
  f64: Float64Array, f32: Float32Array, f16: Uint16Array, bf16: Uint16Array,
  i64: BigInt64Array, i32: Int32Array, i16: Int16Array, i8: Int8Array,
  u64: BigUint64Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array, bool: Uint8Array,
}

/** Bytes that are given to the module at a time: whole elements of every type, packed ones too. */
const CHUNK = 3 << 20

/** Elements of the type `name` (`f32`, `u8 f8_e5m2`) that lie in `bytes`, little-endian. */
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

/** An array in the memory of bytes, or in a copy where they are not aligned for it. */
function view(type: ArrayType, bytes: Uint8Array): TypedArray {
  const width = (type as unknown as { BYTES_PER_ELEMENT: number }).BYTES_PER_ELEMENT
  const whole = bytes.byteOffset % width === 0 ? bytes : bytes.slice()
  return new type(whole.buffer, whole.byteOffset, Math.floor(whole.length / width))
}

/** Elements as numbers, which the core makes of them. */
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
