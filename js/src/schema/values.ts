/** For floats without a rounding function in JavaScript: the smallest number that overflows. */
const OVER: Record<string, number> = {
  Float16: 65520, BFloat16: (2 - 2 ** -8) * 2 ** 127, Float8E5M2: 61440, Float8E4M3: 464,
}

/** Returns whether a number is a value of a float kind, or is rounded to one. */
export function roundsTo(kind: string, value: number): boolean {
  if (Number.isNaN(value)) return true
  if (!Number.isFinite(value)) return kind !== 'Float8E4M3'
  if (kind === 'Float32') return Number.isFinite(Math.fround(value))
  const over = OVER[kind]
  return over === undefined || Math.abs(value) < over
}

const TIME = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$/

/** Parses an RFC 3339 time to nanoseconds since 1970; `undefined` if it is not valid or out of the range of 64 bits. */
export function nanosecondsOf(text: string): bigint | undefined {
  const parts = TIME.exec(text)
  if (parts === null) return undefined
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map(Number) as [number, number, number, number, number, number]
  const [hours, minutes] = [Number(parts[9] ?? 0), Number(parts[10] ?? 0)]
  const days = [31, (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
  if (month < 1 || month > 12 || day < 1 || day > days[month - 1]! || hour > 23 || minute > 59 || second > 59) return undefined
  if (hours > 23 || minutes > 59) return undefined
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  const ahead = (hours * 60 + minutes) * (parts[8] === '-' ? -1 : 1)
  const seconds = date.getTime() / 1000 + hour * 3600 + (minute - ahead) * 60 + second
  const ns = BigInt(seconds) * 1_000_000_000n + BigInt((parts[7] ?? '').padEnd(9, '0'))
  return BigInt.asIntN(64, ns) === ns ? ns : undefined
}

export const isTime = (text: string): boolean => nanosecondsOf(text) !== undefined

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/** Returns whether a string is padded base64 whose unused bits are zero. */
export function isBase64(text: string): boolean {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return false
  if (!text.endsWith('=')) return true
  const last = DIGITS.indexOf(text[text.indexOf('=') - 1] ?? 'A')
  return text.endsWith('==') ? last % 16 === 0 && text.length >= 4 && text[text.length - 3] !== '=' : last % 4 === 0
}
