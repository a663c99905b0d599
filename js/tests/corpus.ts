import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'

/** The repository's root: this file is compiled into `js/build`. */
export const root = fileURLToPath(new URL('../../', import.meta.url))
export const corpus = join(root, 'corpus')

/** Files of a part of the corpus that are not descriptions of others. */
export function filesOf(kind: 'accept' | 'reject'): string[] {
  const folders = readdirSync(join(corpus, kind))
  const all = folders.flatMap((folder) =>
    readdirSync(join(corpus, kind, folder)).map((name) => join(corpus, kind, folder, name)))
  return all.filter((path) => !path.endsWith('.json')).sort()
}

/** The JSON of a text, in which an integer that a double cannot hold is a bigint. */
export function exactJson(text: string): unknown {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
  const marked = text.replace(tokens, (token) => {
    if (!/^-?\d+$/.test(token) || Number.isSafeInteger(Number(token))) return token
    return `{"$int":"${token}"}`
  })
  return JSON.parse(marked)
}

export const read = (path: string): Uint8Array => new Uint8Array(readFileSync(path))

/** A safetensors file. */
export function safetensors(
  tensors: Record<string, [dtype: string, shape: number[], bytes: Uint8Array]>, pad = 0,
): Uint8Array {
  let at = 0
  const header: Record<string, unknown> = {}
  for (const [name, [dtype, shape, bytes]] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [at, at + bytes.length] }
    at += bytes.length
  }
  const text = new TextEncoder().encode(JSON.stringify(header) + ' '.repeat(pad))
  const out = new Uint8Array(8 + text.length + at)
  new DataView(out.buffer).setBigUint64(0, BigInt(text.length), true)
  out.set(text, 8)
  at = 8 + text.length
  for (const [, , bytes] of Object.values(tensors)) {
    out.set(bytes, at)
    at += bytes.length
  }
  return out
}
