import { broken } from './errors.js'
import { DEFAULTS, type Limits } from './limits.js'
import { REMOTE, fromBytes, joined, messageOf, type Source } from './source.js'

/** Options for reading a file on a server. */
export interface UrlOptions {
  /** Cancels opening; reads have separate signals. */
  signal?: AbortSignal | undefined
  /**
   * `fetchedLen` limits the size of a file that must be fetched as a whole because the server does not support
   * ranges.
   */
  limits?: Limits | undefined
  /** Headers of every request, for example for authorization. */
  headers?: HeadersInit | undefined
  /** A replacement for the global `fetch`. */
  fetch?: typeof fetch | undefined
  /** Milliseconds without a byte after which a request fails: 30 s by default. */
  timeout?: number | undefined
}

/** Bytes of the start of the file that the first request fetches. */
const FIRST = 256 << 10
/** The number of attempts for requests that fail with a temporary error. */
const TRIES = 3

/**
 * Opens a file on a server. Headers with the length and version of the file may be hidden from pages of another
 * origin; then further requests determine the length, and changes may go unnoticed.
 */
export async function fromUrl(url: string | URL, options: UrlOptions = {}): Promise<Source> {
  let href: string
  try {
    href = new URL(url, globalThis.location?.href).href
  } catch (cause) {
    throw broken('http/url', `\`${url}\` is not an address`, { cause })
  }
  const server = new Server(href, options)
  const { signal } = options
  const answer = await server.ask({ range: [0, FIRST], signal })
  if (answer.status === 416) return fromBytes(new Uint8Array(0), href)
  if (answer.status === 200) return server.whole(answer, signal)
  const declared = contentRange(answer)
  const head = joined(await server.body(answer, FIRST, signal))
  if (declared !== null && (declared.start !== 0 || declared.end !== head.length)) {
    throw server.broken('http/answer', `${head.length} bytes came as ${declared.start}..${declared.end} for 0..${FIRST}`)
  }
  // The response ends at the end of the file, or states its length.
  const size = declared?.size ?? (head.length < FIRST ? head.length : await server.length(signal))
  server.pin(answer, size)
  return {
    size,
    name: href,
    hints: REMOTE,
    async read(start, end, { signal }) {
      if (end <= head.length) return head.subarray(start, end)
      return server.range(Math.max(start, head.length), end, signal, head.subarray(start))
    },
  }
}

interface Request {
  range?: [number, number]
  method?: string
  signal: AbortSignal | undefined
}

class Server {
  readonly #url: string
  readonly #options: UrlOptions
  #size = 0
  #version: [string | null, string | null] = [null, null]

  constructor(url: string, options: UrlOptions) {
    this.#url = url
    this.#options = options
  }

  broken(code: string, found: string, cause?: unknown) {
    return broken(code, found, { source: this.#url, ...(cause === undefined ? {} : { cause }) })
  }

  /** Records the version of the file on the server. */
  pin(answer: Response, size: number): void {
    this.#size = size
    this.#version = versionOf(answer)
  }

  /** Sends a request, and retries it after temporary errors. */
  async ask({ range, method = 'GET', signal }: Request): Promise<Response> {
    const { fetch: ask = fetch, timeout = 30_000 } = this.#options
    const headers = new Headers(this.#options.headers)
    if (range !== undefined) headers.set('Range', `bytes=${range[0]}-${range[1] - 1}`)
    for (let tried = 1; ; tried++) {
      signal?.throwIfAborted()
      let failed
      const late = new AbortController()
      const timer = setTimeout(() => late.abort(), timeout)
      const either = signal === undefined ? late.signal : AbortSignal.any([signal, late.signal])
      try {
        // Chrome serializes range requests for one address unless caching is off.
        const answer = await ask(this.#url, { method, headers, signal: either, cache: 'no-store' })
        const isSeveral = answer.status === 206 && /^multipart\//i.test(answer.headers.get('Content-Type') ?? '')
        if (!isSeveral && (answer.status === 206 || answer.status === 200)) return answer
        await answer.body?.cancel().catch(() => {})
        if (isSeveral) throw (failed = this.broken('http/answer', 'several ranges came as one answer, and one was asked for'))
        if (answer.status === 416 && range !== undefined) return answer
        const { status } = answer
        const says = status === 401 || status === 403 ? ': pass credentials in `headers`' : ''
        failed = this.broken('http/status', `the server answered ${status}${says}`)
        if (answer.status < 500 && answer.status !== 429) throw failed
      } catch (cause) {
        if (cause === failed) throw cause
        signal?.throwIfAborted()
        failed = late.signal.aborted
          ? this.broken('http/slow', `no answer came in ${timeout} ms`, cause)
          : this.broken('http/failed', messageOf(cause), cause)
      } finally {
        clearTimeout(timer)
      }
      if (tried === TRIES) throw failed
      await new Promise((resolve) => setTimeout(resolve, 200 * tried))
    }
  }

  /** Reads a response body up to byte `most`, in the chunks in which it arrives; the rest is not fetched. */
  async body(answer: Response, most: number, signal: AbortSignal | undefined): Promise<Uint8Array[]> {
    const { timeout = 30_000 } = this.#options
    const reader = answer.body?.getReader()
    if (reader === undefined) return [new Uint8Array(await answer.arrayBuffer()).subarray(0, most)]
    const pieces: Uint8Array[] = []
    let len = 0
    try {
      while (len < most) {
        const { done, value } = await within(reader.read(), timeout, signal)
        if (done) break
        pieces.push(new Uint8Array(value.buffer, value.byteOffset, Math.min(value.length, most - len)))
        len += value.length
      }
    } catch (cause) {
      reader.cancel().catch(() => {})
      signal?.throwIfAborted()
      if (cause === LATE) throw this.broken('http/slow', `no byte came in ${timeout} ms`)
      throw this.broken('http/failed', messageOf(cause), cause)
    }
    if (len >= most) reader.cancel().catch(() => {})
    return pieces
  }

  /** Handles a server that sends the whole file instead of a range: small files are kept in memory. */
  async whole(answer: Response, signal: AbortSignal | undefined): Promise<Source> {
    const most = this.#options.limits?.fetchedLen ?? DEFAULTS.fetchedLen
    // Some servers send the requested range with the status for a whole file.
    const part = contentRange(answer)
    if (part !== null && (part.start !== 0 || part.end !== part.size)) {
      await answer.body?.cancel()
      const of = part.size ?? 'unknown'
      throw this.broken(
        'http/answer',
        `status 200 says that the whole file follows, Content-Range that it is a part of ${of} bytes; expected 206`,
      )
    }
    const declared = lengthOf(answer)
    const tooLong = (len: string) =>
      this.broken('http/too-long', `the server sends all ${len} bytes, at most ${most} are fetched`)
    if (declared !== null && declared > most) {
      await answer.body?.cancel()
      throw tooLong(String(declared))
    }
    const bytes = joined(await this.body(answer, most + 1, signal))
    if (bytes.length > most) throw tooLong(`of more than ${most}`)
    if (declared !== null && declared !== bytes.length) {
      throw this.broken('http/answer', `${bytes.length} bytes came, ${declared} were announced`)
    }
    return fromBytes(bytes, this.#url)
  }

  /** Determines the length of the file if the response to a range request does not state it. */
  async length(signal: AbortSignal | undefined): Promise<number> {
    for (const method of ['HEAD', 'GET']) {
      try {
        const answer = await this.ask({ method, signal })
        await answer.body?.cancel()
        const len = lengthOf(answer)
        if (answer.status === 200 && len !== null) return len
      } catch (e) {
        signal?.throwIfAborted()
        // Some servers only refuse HEAD.
        if (method === 'GET') throw e
      }
    }
    throw this.broken('http/ranges', 'the server does not say how long the file is')
  }

  /**
   * Reads a range of the file and appends it to the bytes `before`, with a single copy, since a table of contents may
   * be long.
   */
  async range(start: number, end: number, signal: AbortSignal | undefined, before: Uint8Array): Promise<Uint8Array> {
    for (let tried = 1; ; tried++) {
      const answer = await this.ask({ range: [start, end], signal })
      if (answer.status === 416) {
        throw this.broken('http/changed', `the server no longer has the bytes ${start}..${end}`)
      }
      this.#check(answer)
      let skip = 0
      const declared = contentRange(answer)
      if (answer.status === 200) {
        skip = start
      } else if (declared !== null && (declared.start !== start || declared.end !== end)) {
        await answer.body?.cancel()
        if (declared.size !== null && declared.size !== this.#size) throw this.#changed()
        const came = `bytes ${declared.start}..${declared.end} came for ${start}..${end}`
        throw this.broken('http/answer', came)
      }
      const most = this.#options.limits?.fetchedLen ?? DEFAULTS.fetchedLen
      if (skip > 0 && end > most) {
        await answer.body?.cancel()
        throw this.broken('http/ranges', 'the server sends the whole file for a range of it')
      }
      const pieces = await this.body(answer, skip + end - start, signal)
      const parts = skip > 0 ? [joined(pieces).subarray(skip)] : pieces
      const count = parts.reduce((sum, { length }) => sum + length, 0)
      if (count === end - start) return joined(before.length > 0 ? [before, ...parts] : parts)
      if (tried === TRIES) {
        throw this.broken('http/answer', `${count} bytes came for ${start}..${end}`)
      }
    }
  }

  /** Checks that the response is from the version of the file that was opened, as far as the headers tell. */
  #check(answer: Response): void {
    const size = contentRange(answer)?.size ?? (answer.status === 200 ? lengthOf(answer) : null)
    const now = versionOf(answer)
    const differs = now.some((text, at) => {
      const before = this.#version[at]!
      return text !== null && before !== null && text !== before
    })
    if (differs || (size !== null && size !== this.#size)) {
      answer.body?.cancel().catch(() => {})
      throw this.#changed()
    }
  }

  #changed() {
    return this.broken('http/changed', 'the server has another file there than when it was opened')
  }
}

/** Returns the headers that identify a version of a file. */
const versionOf = (answer: Response): [string | null, string | null] => [
  answer.headers.get('ETag'), answer.headers.get('Last-Modified'),
]

/** Parses `Content-Range: bytes 0-9/100` as a half-open range; `null` if the header is missing or hidden. */
function contentRange(answer: Response): { start: number; end: number; size: number | null } | null {
  const found = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(answer.headers.get('Content-Range') ?? '')
  if (found === null) return null
  const size = found[3] === '*' ? null : Number(found[3])
  return { start: Number(found[1]), end: Number(found[2]) + 1, size }
}

/** Returns the length of the file in a response, unless the response has a content encoding. */
function lengthOf(answer: Response): number | null {
  const text = answer.headers.get('Content-Length')
  const encoding = answer.headers.get('Content-Encoding') ?? 'identity'
  return text !== null && /^\d+$/.test(text) && encoding === 'identity' ? Number(text) : null
}

const LATE = Symbol('late')

/** Returns the result of a promise, unless it times out or is aborted. */
function within<T>(
  promise: Promise<T>, timeout: number, signal: AbortSignal | undefined,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(LATE), timeout)
    const stop = () => reject(signal!.reason)
    signal?.addEventListener('abort', stop, { once: true })
    promise.then(resolve, reject).finally(() => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', stop)
    })
  })
}
