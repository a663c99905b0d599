import { HoldallError, broken, type Told } from './errors.js'

/** What the module exports: see `js/wasm/src/lib.rs`. */
interface Exports {
  memory: WebAssembly.Memory
  seed(a: bigint, b: bigint): void
  input(len: number): number
  output(): number
  output_len(): number
}

/** What is wanted of the module: to read the formats that most files are of, or whatever there is. */
type Part = 'basic' | 'whole'

/** A call of the module by its name. */
type Call = (...args: (number | bigint)[]) => number

/** Where the module comes from: an address, an answer to a request, its bytes, or itself. */
export type WasmSource = string | URL | Response | ArrayBuffer | Uint8Array | WebAssembly.Module

/** The module that is asked first; the whole one, where that is another; where `init` said that this one comes from. */
let first: Promise<WebAssembly.Module> | undefined
let whole: Promise<WebAssembly.Module> | undefined
let rest: WasmSource | Promise<WasmSource> | undefined

/**
 * Says where the modules of WebAssembly come from. Nobody needs to call it where they lie beside this file, as they do
 * unless a bundler moved one of them. `holdall.wasm` does everything alone. `holdall-basic.wasm`, a third of it, reads safetensors,
 * GGUF, zTensor and Metatensor; with it, `all` is `holdall.wasm`, which is fetched when something else is asked for.
 */
export async function init(source: WasmSource | Promise<WasmSource>, all?: WasmSource | Promise<WasmSource>): Promise<void> {
  first = Promise.resolve(source).then(compile)
  whole = undefined
  rest = all
  await first
}

/** Whether a module is the whole one. */
const isWhole = (module: WebAssembly.Module): boolean =>
  WebAssembly.Module.exports(module).some(({ name }) => name === 'write_begin')

async function moduleFor(part: Part): Promise<WebAssembly.Module> {
  if (part === 'whole' && first !== undefined) {
    const module = await first
    if (isWhole(module)) return module
  }
  if (part === 'whole') return (whole ??= Promise.resolve(rest ?? new URL('./holdall.wasm', import.meta.url)).then(compile))
  return (first ??= compile(new URL('./holdall-basic.wasm', import.meta.url)))
}

async function compile(source: WasmSource): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source
  if (source instanceof Uint8Array || source instanceof ArrayBuffer) {
    return WebAssembly.compile(source as BufferSource)
  }
  if (typeof Response !== 'undefined' && source instanceof Response) {
    return WebAssembly.compile(await source.arrayBuffer())
  }
  // Apart, so that no bundler takes this for a file beside it.
  const base = import.meta.url
  const url = new URL(String(source), base)
  if (url.protocol === 'file:') {
    const { readFile } = await nodeModule('node:fs/promises')
    return WebAssembly.compile(await readFile(url))
  }
  const answer = await fetch(url)
  if (!answer.ok) {
    throw broken('http/status', `the server answered ${answer.status} for ${url}`)
  }
  return WebAssembly.compile(await answer.arrayBuffer())
}

/** A module of Node, which bundlers for browsers do not look for. */
export function nodeModule(name: string): Promise<any> {
  return import(/* @vite-ignore */ /* webpackIgnore: true */ name)
}

/**
 * One object of each class of which files have many, or that stands between a caller and those. Engines forget what they compiled for objects of a class when
 * the last of them is gone, and to list the next file would take them twice as long.
 */
export const kept: object[] = []

/** What a call came to. */
export interface Answer {
  /** Whether it is done, or needs ranges of the file first. */
  done: boolean
  /** The answer. It lies in the module's memory, until the next call. */
  bytes: Uint8Array
}

const encoder = new TextEncoder()
// A mark at the start is a character as others are.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** The bytes of a text, which has no half of a pair of UTF-16 alone: UTF-8 has no bytes for one. */
export function encode(text: string): Uint8Array {
  const at = text.search(/\p{Surrogate}/u)
  if (at >= 0) {
    throw broken('json/surrogate', `\`\\u${text.charCodeAt(at).toString(16)}\` is half of a surrogate pair, at ${at} of ${text.length}`)
  }
  return encoder.encode(text)
}
/** The text of bytes. */
export const decode = (bytes: Uint8Array): string => decoder.decode(bytes)

/** An instance of the module: one for each open file, so that what one file does to it is no other's concern. */
export class Core {
  readonly #exports: Exports & Record<string, Call>
  #isDead = false

  private constructor(instance: WebAssembly.Instance) {
    this.#exports = instance.exports as unknown as Exports & Record<string, Call>
    const [a, b] = crypto.getRandomValues(new BigUint64Array(2))
    this.#exports.seed(a!, b!)
  }

  static async create(part: Part = 'basic'): Promise<Core> {
    try {
      return new Core(await WebAssembly.instantiate(await moduleFor(part), {}))
    } catch (e) {
      first = whole = undefined
      throw e
    }
  }

  /** Whether it does whatever there is. */
  get isWhole(): boolean {
    return 'write_begin' in this.#exports
  }

  /** Whether a call ended in a trap: then nothing more can be asked of it. */
  get isDead(): boolean {
    return this.#isDead
  }

  /**
   * Calls the module, with bytes that it is to look at.
   *
   * @throws HoldallError what the module says; `wasm/trap` where it ended, which makes it dead.
   */
  call(name: string, args: (number | bigint)[] = [], input?: Uint8Array): Answer {
    if (this.#isDead) throw broken('wasm/trap', 'the module ended in a call before')
    const exports = this.#exports
    let status: number
    try {
      if (input !== undefined) {
        const at = exports.input(input.length) >>> 0
        new Uint8Array(exports.memory.buffer, at, input.length).set(input)
      }
      status = exports[name]!(...args)
    } catch (cause) {
      // It cannot go on: whatever it was about to change may be half changed.
      this.#isDead = true
      throw broken('wasm/trap', `the module ended in \`${name}\``, { cause })
    }
    const at = exports.output() >>> 0
    const bytes = new Uint8Array(exports.memory.buffer, at, exports.output_len() >>> 0)
    if (status === 2) throw new HoldallError(JSON.parse(decode(bytes)) as Told)
    return { done: status === 0, bytes }
  }

  /** Calls the module for JSON. */
  json<T>(name: string, args: (number | bigint)[] = [], input?: Uint8Array): T {
    return JSON.parse(decode(this.call(name, args, input).bytes)) as T
  }

  /** Calls the module for numbers. */
  numbers(name: string, args: (number | bigint)[] = [], input?: Uint8Array): number[] {
    return numbersOf(this.call(name, args, input).bytes)
  }
}

/** Numbers as the module writes them. */
export function numbersOf(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const out = new Array<number>(bytes.length / 8)
  for (let at = 0; at < out.length; at++) {
    out[at] = view.getUint32(at * 8, true) + view.getUint32(at * 8 + 4, true) * 2 ** 32
  }
  return out
}
