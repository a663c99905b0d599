import { HoldallError, broken, type ErrorDetails } from './errors.js'

/** The exports of the module: see `js/wasm/src/lib.rs`. */
interface Exports {
  memory: WebAssembly.Memory
  seed(a: bigint, b: bigint): void
  input(len: number): number
  output(): number
  output_len(): number
}

/** The variant of the module: `basic` reads the most common formats, `whole` all of them. */
type Part = 'basic' | 'whole'

/** An exported function of the module. */
type Call = (...args: (number | bigint)[]) => number

/** The source of the module: an address, a response, its bytes, or a compiled module. */
export type WasmSource = string | URL | Response | ArrayBuffer | Uint8Array | WebAssembly.Module

/**
 * The module that is used first; the whole module, if that is another; the source that `init` set for the whole
 * module.
 */
let first: Promise<WebAssembly.Module> | undefined
let whole: Promise<WebAssembly.Module> | undefined
let rest: WasmSource | Promise<WasmSource> | undefined

/**
 * Sets where the WebAssembly modules are loaded from. Not needed if they are next to this file, unless a bundler has
 * moved them. `holdall.wasm` supports all formats. `holdall-basic.wasm`, a third of its size, reads safetensors,
 * GGUF, zTensor and Metatensor; with it, pass `holdall.wasm` as `all`, which is fetched when another format or
 * function is needed.
 */
export async function init(source: WasmSource | Promise<WasmSource>, all?: WasmSource | Promise<WasmSource>): Promise<void> {
  first = Promise.resolve(source).then(compile)
  whole = undefined
  rest = all
  await first
}

/** Returns whether a module is the whole one. */
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
  // On a separate line, so that bundlers do not take the URL for an asset next to this file.
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

/** Loads a Node module in a way that bundlers for browsers do not follow. */
export function nodeModule(name: string): Promise<any> {
  return import(/* @vite-ignore */ /* webpackIgnore: true */ name)
}

/**
 * Keeps one object of each class of which files have many alive. Engines drop compiled code for a class when its last
 * object is collected, and listing the next file would then take twice as long.
 */
export const kept: object[] = []

/** The result of a call. */
export interface Answer {
  /** Whether the call is complete; otherwise it first needs ranges of the file. */
  done: boolean
  /** The answer, in the module's memory; valid until the next call. */
  bytes: Uint8Array
}

const encoder = new TextEncoder()
// With `ignoreBOM`, a byte order mark at the start is kept as a character.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Encodes a string as UTF-8; throws if it contains a lone surrogate, which UTF-8 cannot represent. */
export function encode(text: string): Uint8Array {
  const at = text.search(/\p{Surrogate}/u)
  if (at >= 0) {
    throw broken('json/surrogate', `\`\\u${text.charCodeAt(at).toString(16)}\` is half of a surrogate pair, at ${at} of ${text.length}`)
  }
  return encoder.encode(text)
}
/** Decodes UTF-8 bytes. */
export const decode = (bytes: Uint8Array): string => decoder.decode(bytes)

/** An instance of the module. Each open file has one, so that files cannot affect each other. */
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

  /** Whether the module supports all formats. */
  get isWhole(): boolean {
    return 'write_begin' in this.#exports
  }

  /** Whether a call ended in a trap, after which the instance cannot be used any more. */
  get isDead(): boolean {
    return this.#isDead
  }

  /**
   * Calls an exported function, with optional input bytes.
   *
   * @throws HoldallError an error of the module; `wasm/trap` if it trapped, after which the instance is dead.
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
      // A trap may leave the instance's state inconsistent.
      this.#isDead = true
      throw broken('wasm/trap', `the module ended in \`${name}\``, { cause })
    }
    const at = exports.output() >>> 0
    const bytes = new Uint8Array(exports.memory.buffer, at, exports.output_len() >>> 0)
    if (status === 2) throw new HoldallError(JSON.parse(decode(bytes)) as ErrorDetails)
    return { done: status === 0, bytes }
  }

  /** Calls the module and parses the answer as JSON. */
  json<T>(name: string, args: (number | bigint)[] = [], input?: Uint8Array): T {
    return JSON.parse(decode(this.call(name, args, input).bytes)) as T
  }

  /** Calls the module and returns the answer as numbers. */
  numbers(name: string, args: (number | bigint)[] = [], input?: Uint8Array): number[] {
    return numbersOf(this.call(name, args, input).bytes)
  }
}

/** Parses numbers in the module's binary form. */
export function numbersOf(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const out = new Array<number>(bytes.length / 8)
  for (let at = 0; at < out.length; at++) {
    out[at] = view.getUint32(at * 8, true) + view.getUint32(at * 8 + 4, true) * 2 ** 32
  }
  return out
}
