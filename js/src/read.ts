import { numbersOf, type Core } from './core.js'
import { joined, readRange, DISK, type ReadOptions, type Source, type Terms } from './source.js'

/** What is wanted of a component. */
export interface Want {
  /** The number of the tensor, or of a checksum of the file. */
  tensor: number
  /** The number of the component. */
  component: number
  /** Only these of its decoded bytes. */
  range?: [number, number] | undefined
  /** Whether its digest is compared. */
  digest?: boolean
  /** Whether its stored bytes are wanted as they are. */
  asStored?: boolean
  /** Whether it is no component, but the bytes of that checksum. */
  isChecksum?: boolean
}

/** Decoded bytes of a want; `bytes` are valid until the next call, unless they are `kept`. */
export interface Piece {
  want: number
  /** Where they are among the decoded bytes of the component. */
  offset: number
  bytes: Uint8Array
}

/** Modes of `plan`: see `js/wasm/src/read.rs`. */
const [GIVE, BOOLS, BARE] = [1, 2, 4]
/** Flags of wants. */
const [RANGE, DIGEST, AS_STORED, CHECKSUM] = [1, 2, 4, 8]
/** The number of the source that the index itself is. */
const STATED = 2 ** 32 - 1
/** Bytes of the longest fetch that goes into the module. */
export const DECODED_PIECE = 8 << 20

interface Fetch { source: number; start: number; end: number; parts: Part[] }
interface Part {
  want: number
  /** Only for the digest. */
  isDigest: boolean
  stored: [number, number]
  decoded: [number, number]
}

interface Plan { read: number; fetches: Fetch[] }

function plan(core: Core, wants: Want[], mode: number, terms: Terms): Plan {
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
  const args = [mode, BigInt(terms.piece), BigInt(terms.gap), terms.atOnce]
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

/** Gets the bytes of fetches, some at a time, and hands them on in order, so that few wait. */
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
    // An array that is put together of chunks.
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
        // Whoever waits for it sees what is wrong; one that nobody waits for any more must not be an error of nobody's.
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
 * Reads what is wanted and hands it on piece by piece. Components that are `bare`, stored as they are, are taken where
 * they lie and enter the module only where a digest is to be compared.
 */
export async function* pieces(
  core: Core, sources: readonly Source[], wants: Want[], isBare: boolean, terms: Terms, options: ReadOptions,
): AsyncGenerator<Piece> {
  const sums = wants.some((want) => want.digest)
  const mode = isBare ? (sums ? 0 : BARE) : GIVE
  const { read, fetches } = plan(core, wants, mode, terms)
  try {
    for await (const [at, bytes] of fetched(core, sources, fetches, terms.atOnce, options)) {
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

/** Reads what is wanted only to check it: digests, that it decodes, and that bools are bools. */
export async function check(
  core: Core, sources: readonly Source[], wants: Want[], options: ReadOptions & { read?: (len: number) => void },
): Promise<void> {
  const own = decoding(termsOf(sources))
  // As from afar: what has a seek table is decoded from its start then, and its frames are compared with it.
  const terms = { ...own, atOnce: Math.max(own.atOnce, 2) }
  const { read, fetches } = plan(core, wants, BOOLS, terms)
  try {
    for await (const [at, bytes] of fetched(core, sources, fetches, terms.atOnce, options)) {
      core.call('push', [read, at, 0n], bytes)
      options.read?.(bytes.length)
    }
    core.call('finish', [read])
  } finally {
    if (!core.isDead) core.call('forget', [read])
  }
}

/** What reading from the sources of a file costs. */
export const termsOf = ([source]: readonly Source[]): Terms => source?.terms ?? DISK

/** The terms of reads whose bytes go into the module: not too many at a time. */
export const decoding = (terms: Terms): Terms => ({
  ...terms, piece: Math.min(terms.piece, DECODED_PIECE),
})
