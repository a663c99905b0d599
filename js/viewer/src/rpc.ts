import type { Methods, Tell, Trouble } from './protocol.js'

declare const HOLDALL_WORKER: string

/** An error in the worker. */
export class Failure extends Error {
  constructor(readonly trouble: Trouble) {
    super(trouble.message)
  }
}

export interface Options {
  signal?: AbortSignal | undefined
  onProgress?: ((done: number, all: number) => void) | undefined
}

interface Waiting {
  done: (result: any) => void
  failed: (e: unknown) => void
  onProgress: Options['onProgress']
}

/** The worker that holds the files. */
export class Backend {
  readonly #worker: Worker
  readonly #waiting = new Map<number, Waiting>()
  #next = 0

  constructor() {
    // Created from a text, because a page that was opened as a file cannot load another script as a worker.
    const url = URL.createObjectURL(new Blob([HOLDALL_WORKER], { type: 'text/javascript' }))
    this.#worker = new Worker(url)
    this.#worker.onmessage = ({ data }: MessageEvent<Tell>) => {
      const waiting = this.#waiting.get(data.id)
      if (waiting === undefined) return
      if ('done' in data) return waiting.onProgress?.(data.done, data.all)
      this.#waiting.delete(data.id)
      if ('trouble' in data) waiting.failed(new Failure(data.trouble))
      else waiting.done(data.result)
    }
    this.#worker.onerror = (event) => {
      const trouble = { code: '', message: `the worker ended: ${event.message}`, advice: 'load the page again' }
      for (const { failed } of this.#waiting.values()) failed(new Failure(trouble))
      this.#waiting.clear()
    }
  }

  call<M extends keyof Methods>(
    method: M, args: Parameters<Methods[M]>, { signal, onProgress }: Options = {}, transfer: Transferable[] = [],
  ): Promise<ReturnType<Methods[M]>> {
    const id = this.#next++
    return new Promise((done, failed) => {
      this.#waiting.set(id, { done, failed, onProgress })
      signal?.addEventListener('abort', () => this.#worker.postMessage({ id, cancel: true }), { once: true })
      this.#worker.postMessage({ id, method, args }, transfer)
    })
  }
}

declare const HOLDALL_CORE: string

/**
 * Returns the WebAssembly module, which is embedded in a script next to the page, so that nothing needs to be
 * fetched.
 */
export async function core(): Promise<ArrayBuffer> {
  const bytes = Uint8Array.from(atob(HOLDALL_CORE), (c) => c.charCodeAt(0))
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
  return new Response(stream).arrayBuffer()
}
