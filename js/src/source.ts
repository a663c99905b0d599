import { broken } from './errors.js'
import { nodeModule } from './core.js'

/** A source of a file's bytes. Ranges are half-open, in bytes. */
export interface Source {
  /** The size of the file in bytes. */
  readonly size: number
  /** The name for error messages. */
  readonly name?: string
  /** Returns exactly the bytes `start..end`, which are inside the file. They may be shared and must not be changed. */
  read(start: number, end: number, options: ReadOptions): Uint8Array | Promise<Uint8Array>
  /** Reads several ranges at once, if that is faster than one by one. */
  readMany?(
    ranges: readonly (readonly [number, number])[],
    options: ReadOptions,
  ): Uint8Array[] | Promise<Uint8Array[]>
  /** The costs of reads; those of a local file by default. */
  readonly hints?: ReadHints
  /** Releases resources. */
  close?(): void | Promise<void>
}

/** Options for a read. */
export interface ReadOptions {
  /** Cancels the read. */
  signal?: AbortSignal | undefined
}

/** The costs of reads from a source. */
export interface ReadHints {
  /** A good size for a read, in bytes. */
  piece: number
  /** Two ranges with at most this many bytes between them are read as one. */
  gap: number
  /**
   * The number of concurrent reads. More than 1 means a remote source, for which the end of the file is read together
   * with its last bytes.
   */
  atOnce: number
  /** Bytes at both ends that are read before any request of the core. */
  ends: number
}

/** Costs for memory: nothing is copied, so a read may be as long as the file. */
export const MEMORY: ReadHints = { piece: 2 ** 40, gap: 0, atOnce: 1, ends: 0 }
/** Costs for a local file. Slices of more than 2 GiB fail in browsers. */
export const DISK: ReadHints = { piece: 2 ** 28, gap: 16 << 10, atOnce: 1, ends: 64 << 10 }
/** Costs for a remote file: several concurrent reads of limited length. */
export const REMOTE: ReadHints = { piece: 8 << 20, gap: 64 << 10, atOnce: 4, ends: 0 }

/** Returns a source for a file in memory. Arrays that are read from it may be views of that memory. */
export function fromBytes(bytes: Uint8Array | ArrayBuffer, name?: string): Source {
  const all = bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes)
  return {
    size: all.length,
    ...(name === undefined ? {} : { name }),
    hints: MEMORY,
    read: (start, end) => all.subarray(start, end),
  }
}

/** Returns a source for a file that a user selected, or a `Blob`. */
export function fromBlob(blob: Blob): Source {
  const name = (blob as { name?: unknown }).name
  return {
    size: blob.size,
    ...(typeof name === 'string' ? { name } : {}),
    hints: DISK,
    read: async (start, end) => {
      try {
        return new Uint8Array(await blob.slice(start, end).arrayBuffer())
      } catch (cause) {
        // Browsers refuse to read a file that changed after it was selected.
        throw broken('file/changed', 'the file cannot be read any more', { cause })
      }
    },
  }
}

/** The part of a Node file handle that is used here. */
export interface FileHandle {
  read(
    buffer: Uint8Array, offset: number, length: number, position: number,
  ): Promise<{ bytesRead: number }>
  stat(): Promise<{ size: number; isFile(): boolean }>
  close(): Promise<void>
}

/** Returns a source for a file: a path or `file:` URL is opened, and closed with the source; a handle stays open. */
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
    hints: DISK,
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

/** Returns the message of an exception. */
export const messageOf = (e: unknown): string => {
  if (!(e instanceof Error)) return String(e)
  // Node says `fetch failed`, and the reason is in the cause.
  return e.cause instanceof Error && e.cause.message !== '' ? `${e.message}: ${e.cause.message}` : e.message
}

/** Reads a range of a source, and checks its length. */
export async function readRange(
  source: Source, start: number, end: number, options: ReadOptions,
): Promise<Uint8Array> {
  options.signal?.throwIfAborted()
  return checked(source, start, end, await source.read(start, end, options))
}

/** Reads several ranges of a source, some at the same time, and checks their lengths. */
export async function readRanges(
  source: Source, ranges: [number, number][], options: ReadOptions,
): Promise<Uint8Array[]> {
  options.signal?.throwIfAborted()
  if (source.readMany !== undefined) {
    const all = await source.readMany(ranges, options)
    return ranges.map(([start, end], at) => checked(source, start, end, all[at]))
  }
  const out: Uint8Array[] = []
  const { atOnce } = source.hints ?? DISK
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
    throw broken('io/failed', `the source returned ${found} for the bytes ${start}..${end}`, {
      source: source.name ?? null,
    })
  }
  return bytes
}

/** Concatenates byte arrays. */
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
