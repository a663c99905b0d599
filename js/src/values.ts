import { broken } from './errors.js'

/** A CBOR value with a tag. */
export class Tagged {
  constructor(readonly tag: number | bigint, readonly value: Value) {}
}

/** A CBOR simple value without a JavaScript equivalent. */
export class Simple {
  constructor(readonly number: number) {}
}

/**
 * A value of an attribute. Integers that a double cannot hold are bigints, bytes are a `Uint8Array`, and maps are a
 * `Map`, so that names in a file cannot collide with properties of objects.
 */
export type Value =
  | null | undefined | boolean | number | bigint | string | Uint8Array | Value[]
  | Map<Value, Value> | Tagged | Simple

/** The core's form of a value: JSON, with single-key objects for values that JSON lacks. */
export type Written = null | boolean | number | string | Written[] | { [key: string]: Written }

/** Returns the attributes from the core's pairs. */
export function attributesOf(pairs: [string, Written][]): ReadonlyMap<string, Value> {
  return new Map(pairs.map(([name, value]) => [name, valueOf(value)]))
}

/** Returns an integer as a number; if it is too large for a double, the nearest one. */
export const nearest = (n: number | { $int: string }): number =>
  typeof n === 'number' ? n : Number(n.$int)

/** Converts a value from the core's form. */
export function valueOf(written: Written): Value {
  if (written === null || typeof written !== 'object') return written
  if (Array.isArray(written)) return written.map(valueOf)
  const [key, inner] = Object.entries(written)[0]!
  switch (key) {
    case '$int': return BigInt(inner as string)
    case '$float': return floatOf(inner as string)
    case '$bytes': return bytesOf(inner as string)
    case '$undefined': return undefined
    case '$simple': return new Simple(inner as number)
    case '$tag': {
      const [tag, value] = inner as [Written, Written]
      return new Tagged(valueOf(tag) as number | bigint, valueOf(value))
    }
    default: {
      const pairs = inner as [Written, Written][]
      return new Map(pairs.map(([key, value]) => [valueOf(key), valueOf(value)]))
    }
  }
}

/** Parses `nan`, `inf`, `-inf`, or the bits of another NaN. */
function floatOf(text: string): number {
  return text === 'inf' ? Infinity : text === '-inf' ? -Infinity : NaN
}

function bytesOf(hex: string): Uint8Array {
  const out = new Uint8Array(hex.length / 2)
  for (let at = 0; at < out.length; at++) out[at] = parseInt(hex.slice(at * 2, at * 2 + 2), 16)
  return out
}

/** The limit of integers in attributes. */
const MAX_INTEGER = 2n ** 64n

/** Converts a value to the core's form: JSON, with single-key objects for values that JSON lacks. */
export function written(value: Value): string {
  if (value === undefined) return '{"$undefined":true}'
  if (typeof value === 'bigint') {
    if (value >= -MAX_INTEGER && value < MAX_INTEGER) return String(value)
    throw broken('js/number', `the integer ${value} is outside of -2^64..2^64`)
  }
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return `{"$float":"${Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf'}"}`
  }
  // With a decimal point it is a float: beyond 2^53 JavaScript cannot tell which integer is meant.
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) {
    return value.toExponential()
  }
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (value instanceof Uint8Array) {
    return `{"$bytes":"${hexOf(value)}"}`
  }
  if (Array.isArray(value)) return `[${value.map(written).join()}]`
  if (value instanceof Tagged) return `{"$tag":[${value.tag},${written(value.value)}]}`
  if (value instanceof Simple) return `{"$simple":${value.number}}`
  const pairs = [...value].map(([key, item]) => `[${written(key)},${written(item)}]`)
  return `{"$map":[${pairs.join()}]}`
}

/** Returns bytes as lowercase hexadecimal digits. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
