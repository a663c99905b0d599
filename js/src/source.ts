import { broken } from './errors.js'
import { nodeModule } from './core.js'

/** Where the bytes of a file come from. Ranges are half-open, in bytes. */
export interface Source {
  /** Bytes in the file. */
  readonly size: number
  /** What is said of it in errors. */
  readonly name?: string
  /** The bytes `start..end`, which lie inside the file: exactly as many. They may be shared, and are not changed. */
  read(start: number, end: number, options: ReadOptions): Uint8Array | Promise<Uint8Array>
  /** Several ranges at once, where that is quicker than one by one. */
  readMany?(
    ranges: readonly (readonly [number, number])[],
    options: ReadOptions,
  ): Uint8Array[] | Promise<Uint8Array[]>
  /** What reading costs; a local file where it is not said. */
  readonly terms?: Terms
  /** Lets go of what it holds. */
  close?(): void | Promise<void>
}

/** How a read is done. */
export interface ReadOptions {
  /** Ends it early. */
  signal?: AbortSignal | undefined
}

/** What reading from a source costs. */
export interface Terms {
  /** Bytes that it is good to read at a time. */
  piece: number
  /** Two ranges so many bytes apart, or fewer, are read as one. */
  gap: number
  /** Reads that are under way at the same time. More than one is of what is far away: there the end of a file comes with its last bytes. */
  atOnce: number
  /** Bytes of either end that are read before anything is asked. */
  ends: number
}

/** Bytes in memory: nothing is copied, so a read may be as long as the file. */
export const MEMORY: Terms = { piece: 2 ** 40, gap: 0, atOnce: 1, ends: 0 }
/** A file of a disk. A slice of more than 2 GiB fails in browsers. */
export const DISK: Terms = { piece: 2 ** 28, gap: 16 << 10, atOnce: 1, ends: 64 << 10 }
/** Something far away: several reads at once, none of them long. */
export const REMOTE: Terms = { piece: 8 << 20, gap: 64 << 10, atOnce: 4, ends: 0 }

/** A file in memory. Arrays that are read from it may lie in the same memory. */
export function fromBytes(bytes: Uint8Array | ArrayBuffer, name?: string): Source {
  const all = bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes)
  return {
    size: all.length,
    ...(name === undefined ? {} : { name }),
    terms: MEMORY,
    read: (start, end) => all.subarray(start, end),
  }
}

/** A file that a user chose, or a `Blob`. */
export function fromBlob(blob: Blob): Source {
  const name = (blob as { name?: unknown }).name
  return {
    size: blob.size,
    ...(typeof name === 'string' ? { name } : {}),
    terms: DISK,
    read: async (start, end) => {
      try {
        return new Uint8Array(await blob.slice(start, end).arrayBuffer())
      } catch (cause) {
        // A browser refuses to read a file that changed since it was chosen.
        throw broken('file/changed', 'the file cannot be read any more', { cause })
      }
    },
  }
}

/** What is needed of an open file of Node. */
export interface FileHandle {
  read(
    buffer: Uint8Array, offset: number, length: number, position: number,
  ): Promise<{ bytesRead: number }>
  stat(): Promise<{ size: number; isFile(): boolean }>
  close(): Promise<void>
}

/** A file of the file system: a path or a URL of it, which is opened and closed here, or a handle, which stays open. */
export async function fromFile(file: string | URL | FileHandle): Promise<Source> {
  const isOwn = typeof file === 'string' || file instanceof URL
  const name = isOwn ? String(file) : undefined
  const named = name === undefined ? {} : { source: name }
  const failed = (cause: unknown) => broken('io/failed', messageOf(cause), { ...named, cause })
  let handle: FileHandle
  let stat: Awaited<ReturnType<FileHandle['stat']>>
  try {
    handle = isOwn ? await (await nodeModule('node:fs/promises')).open(file, 'r') : file
  } catch (cause) {
    throw failed(cause)
  }
  try {
    stat = await handle.stat()
  } catch (cause) {
    if (isOwn) await handle.close()
    throw failed(cause)
  }
  if (!stat.isFile()) {
    if (isOwn) await handle.close()
    throw failed('this is no regular file')
  }
  const { size } = stat
  return {
    size,
    ...(name === undefined ? {} : { name }),
    terms: DISK,
    async read(start, end, { signal }) {
      const out = new Uint8Array(end - start)
      let at = 0
      while (at < out.length) {
        signal?.throwIfAborted()
        const most = Math.min(out.length - at, 1 << 30)
        let count: number
        try {
          count = (await handle.read(out, at, most, start + at)).bytesRead
        } catch (cause) {
          throw failed(cause)
        }
        if (count === 0) {
          throw broken('file/changed', `the file ends at ${start + at}, it had ${size} bytes`, named)
        }
        at += count
      }
      return out
    },
    ...(isOwn ? { close: () => handle.close() } : {}),
  }
}

/** What an exception says. */
export const messageOf = (e: unknown): string => {
  if (!(e instanceof Error)) return String(e)
  // `fetch failed`, says Node, and why in the cause.
  return e.cause instanceof Error && e.cause.message !== '' ? `${e.message}: ${e.cause.message}` : e.message
}

/** Bytes of a source, which are as many as were asked for. */
export async function readRange(
  source: Source, start: number, end: number, options: ReadOptions,
): Promise<Uint8Array> {
  options.signal?.throwIfAborted()
  return checked(source, start, end, await source.read(start, end, options))
}

/** The same of several ranges, some at once. */
export async function readRanges(
  source: Source, ranges: [number, number][], options: ReadOptions,
): Promise<Uint8Array[]> {
  options.signal?.throwIfAborted()
  if (source.readMany !== undefined) {
    const all = await source.readMany(ranges, options)
    return ranges.map(([start, end], at) => checked(source, start, end, all[at]))
  }
  const out: Uint8Array[] = []
  const { atOnce } = source.terms ?? DISK
  for (let at = 0; at < ranges.length; at += atOnce) {
    const some = ranges.slice(at, at + atOnce)
    out.push(...(await Promise.all(some.map(([a, b]) => readRange(source, a, b, options)))))
  }
  return out
}

function checked(
  source: Source, start: number, end: number, bytes: Uint8Array | undefined,
): Uint8Array {
  if (!(bytes instanceof Uint8Array) || bytes.length !== end - start) {
    const found = bytes instanceof Uint8Array ? `${bytes.length} bytes` : typeof bytes
    throw broken('io/failed', `the source gave ${found} for the bytes ${start}..${end}`, {
      source: source.name ?? null,
    })
  }
  return bytes
}

/** Bytes one after the other. */
export function joined(parts: Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    out.set(part, at)
    at += part.length
  }
  return out
}
