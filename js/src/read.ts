import { numbersOf, type Core } from './core.js'
import { joined, readRange, DISK, type ReadOptions, type Source, type ReadHints } from './source.js'

/** A request for bytes of a component. */
export interface Want {
  /** The index of the tensor, or of a checksum of the file. */
  tensor: number
  /** The index of the component. */
  component: number
  /** The requested range of its decoded bytes; by default all. */
  range?: [number, number] | undefined
  /** Whether its digest is checked. */
  digest?: boolean
  /** Whether its stored bytes are returned without decoding. */
  asStored?: boolean
  /** Whether the request is for the bytes of a checksum instead of a component. */
  isChecksum?: boolean
}

/** Decoded bytes for a request; `bytes` are valid until the next call, unless they are `kept`. */
export interface Piece {
  want: number
  /** The offset in the decoded bytes of the component. */
  offset: number
  bytes: Uint8Array
}

/** Modes of `plan`: see `js/wasm/src/read.rs`. */
const [GIVE, BOOLS, BARE] = [1, 2, 4]
/** Flags of requests. */
const [RANGE, DIGEST, AS_STORED, CHECKSUM] = [1, 2, 4, 8]
/** The source number of bytes that are in the index itself. */
const STATED = 2 ** 32 - 1
/** The maximum length of a fetch that is decoded by the module, in bytes. */
export const DECODED_PIECE = 8 << 20

interface Fetch { source: number; start: number; end: number; parts: Part[] }
interface Part {
  want: number
  /** Whether the bytes are only needed for the digest. */
  isDigest: boolean
  stored: [number, number]
  decoded: [number, number]
}

interface Plan { read: number; fetches: Fetch[] }

function plan(core: Core, wants: Want[], mode: number, hints: ReadHints): Plan {
  const input = new DataView(new ArrayBuffer(wants.length * 32))
  wants.forEach(({ tensor, component, range, digest, asStored, isChecksum }, number) => {
    const at = number * 32
    const flags = (range ? RANGE : 0) | (digest ? DIGEST : 0) | (asStored ? AS_STORED : 0) | (isChecksum ? CHECKSUM : 0)
    input.setUint32(at, tensor, true)
    input.setUint32(at + 4, component, true)
    input.setUint32(at + 8, flags, true)
    if (range !== undefined) {
      input.setBigUint64(at + 16, BigInt(range[0]), true)
      input.setBigUint64(at + 24, BigInt(range[1]), true)
    }
  })
  const args = [mode, BigInt(hints.piece), BigInt(hints.gap), hints.atOnce]
  const n = core.numbers('plan', args, new Uint8Array(input.buffer))
  const [read, count] = n as [number, number]
  let at = 3 + count * 4
  const fetches: Fetch[] = []
  for (let number = 0; number < count; number++) {
    const [source, parts, start, end] = n.slice(3 + number * 4) as [number, number, number, number]
    const fetch: Fetch = { source, start, end, parts: [] }
    for (let part = 0; part < parts; part++, at += 6) {
      fetch.parts.push({
        want: n[at]!, isDigest: n[at + 1] === 2,
        stored: [n[at + 2]!, n[at + 3]!], decoded: [n[at + 4]!, n[at + 5]!],
      })
    }
    fetches.push(fetch)
  }
  return { read, fetches }
}

/** Fetches ranges with bounded concurrency, and yields them in order. */
async function* fetched(
  core: Core, sources: readonly Source[], fetches: Fetch[], atOnce: number, options: ReadOptions,
): AsyncGenerator<[number, Uint8Array]> {
  const stop = new AbortController()
  const { signal } = options
  const onAbort = () => stop.abort(signal!.reason)
  signal?.throwIfAborted()
  signal?.addEventListener('abort', onAbort, { once: true })
  const get = async ({ source: number, start, end }: Fetch): Promise<Uint8Array> => {
    const range = [BigInt(start), BigInt(end)]
    const own = (number: number, start: number, end: number) => readRange(sources[number]!, start, end, { signal: stop.signal })
    if (number < sources.length) return own(number, start, end)
    if (number === STATED) return core.call('stated', range).bytes.slice()
    // An array that is assembled from chunks.
    const places = core.numbers('chunks', [number, ...range])
    const stored: Uint8Array[] = []
    for (let at = 0; at < places.length; at += 3) {
      stored.push(await own(places[at]!, places[at + 1]!, places[at + 2]!))
    }
    return core.call('unchunk', [number, ...range], joined(stored)).bytes.slice()
  }
  const waiting: Promise<Uint8Array>[] = []
  let next = 0
  try {
    for (let at = 0; at < fetches.length; at++) {
      while (next < fetches.length && next < at + atOnce) {
        const one = get(fetches[next++]!)
        // The consumer handles the error; a promise that is no longer awaited must not cause an unhandled rejection.
        one.catch(() => {})
        waiting.push(one)
      }
      yield [at, await waiting[at]!]
      delete waiting[at]
    }
  } finally {
    stop.abort()
    signal?.removeEventListener('abort', onAbort)
  }
}

/**
 * Reads the requested bytes and yields them piece by piece. Components that are `bare` (stored without encoding) are
 * yielded without copying, and enter the module only if a digest must be checked.
 */
export async function* pieces(
  core: Core, sources: readonly Source[], wants: Want[], isBare: boolean, hints: ReadHints, options: ReadOptions,
): AsyncGenerator<Piece> {
  const sums = wants.some((want) => want.digest)
  const mode = isBare ? (sums ? 0 : BARE) : GIVE
  const { read, fetches } = plan(core, wants, mode, hints)
  try {
    for await (const [at, bytes] of fetched(core, sources, fetches, hints.atOnce, options)) {
      const fetch = fetches[at]!
      let answer: Uint8Array | undefined
      if (mode !== BARE) answer = core.call('push', [read, at, 0n], bytes).bytes
      if (isBare) {
        for (const { want, isDigest, stored, decoded } of fetch.parts) {
          if (isDigest) continue
          const [from, to] = stored
          yield { want, offset: decoded[0], bytes: bytes.subarray(from - fetch.start, to - fetch.start) }
        }
      } else {
        yield* arrivals(answer!.slice())
      }
    }
    if (mode !== BARE) core.call('finish', [read])
  } finally {
    if (mode !== BARE && !core.isDead) core.call('forget', [read])
  }
}

function* arrivals(answer: Uint8Array): Generator<Piece> {
  for (let at = 0; at < answer.length; ) {
    const [want, offset, len] = numbersOf(answer.subarray(at, at + 24)) as [number, number, number]
    yield { want, offset, bytes: answer.subarray(at + 24, at + 24 + len) }
    at += 24 + Math.ceil(len / 8) * 8
  }
}

/** Reads components only to check them: digests, decoding, and that bools are 0 or 1. */
export async function check(
  core: Core, sources: readonly Source[], wants: Want[], options: ReadOptions & { read?: (len: number) => void },
): Promise<void> {
  const own = decoding(hintsOf(sources))
  // As for remote files: a component with a seek table is then decoded from its start, and its frames are compared
  // with the table.
  const hints = { ...own, atOnce: Math.max(own.atOnce, 2) }
  const { read, fetches } = plan(core, wants, BOOLS, hints)
  try {
    for await (const [at, bytes] of fetched(core, sources, fetches, hints.atOnce, options)) {
      core.call('push', [read, at, 0n], bytes)
      options.read?.(bytes.length)
    }
    core.call('finish', [read])
  } finally {
    if (!core.isDead) core.call('forget', [read])
  }
}

/** Returns the I/O costs of the sources of a file. */
export const hintsOf = ([source]: readonly Source[]): ReadHints => source?.hints ?? DISK

/** Returns the hints for reads that are decoded by the module, with bounded memory. */
export const decoding = (hints: ReadHints): ReadHints => ({
  ...hints, piece: Math.min(hints.piece, DECODED_PIECE),
})
