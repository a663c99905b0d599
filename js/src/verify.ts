import type { Core } from './core.js'
import { HoldallError } from './errors.js'
import type { TensorFile } from './file.js'
import { check } from './read.js'
import { readRanges, type ReadOptions } from './source.js'
import type { Tensor } from './tensor.js'
import type { Warning } from './file.js'

/** How a file is verified. */
export interface VerifyOptions extends ReadOptions {
  /** Told how many bytes of how many were read. */
  onProgress?: ((done: number, all: number) => void) | undefined
}

/** Why something was not verified: names of the library's reports. */
export type Reason =
  | 'no_digest' | 'unknown_digest' | 'unknown_layout' | 'unknown_logical_type' | 'unsupported'

/** What a verification found. */
export interface VerifyReport {
  /** `bad` where something is wrong, `incomplete` where something was in the way of a check. */
  verdict: 'sound' | 'bad' | 'incomplete'
  tensors: number
  components: number
  /** What is wrong, in the file's own order. */
  findings: HoldallError[]
  /** What could not be verified: why, and of how many components or tensors. */
  unverified: Partial<Record<Reason, number>>
  /** What is odd about the file. */
  warnings: readonly Warning[]
}

/** A finding, with what it is sorted by. */
type Found = [position: number, order: number, error: HoldallError]

/** Checks everything about a file that this build can check. What is wrong does not stop the rest. */
export async function verify(file: TensorFile, options: VerifyOptions): Promise<VerifyReport> {
  return new Verification(file, options).run()
}

class Verification {
  readonly #file: TensorFile
  readonly #options: VerifyOptions
  readonly #found: Found[] = []
  readonly #bad = new Set<number>()
  readonly #unverified: Partial<Record<Reason, number>> = {}
  #read = 0

  constructor(file: TensorFile, options: VerifyOptions) {
    this.#file = file
    this.#options = options
  }

  async run(): Promise<VerifyReport> {
    const { tensors } = this.#file
    const all = tensors.reduce((sum, tensor) => sum + tensor.storedLen, 0)
    const seen = new Set<string>()
    let components = 0
    for (const tensor of tensors) {
      if (tensor.fault !== null) this.#find(tensor.position, 0, tensor.fault)
      components += tensor.components.length
      for (let number = 0; number < tensor.components.length; number++) {
        await this.#component(tensor, number, seen)
        this.#options.onProgress?.(Math.min(this.#read, all), all)
      }
    }
    for (const tensor of tensors) await this.#layout(tensor)
    await this.#gaps()
    // A package has files besides its tensors, which this build does not look at.
    if (this.#file.format === 'carton') this.#skip('unsupported')
    this.#found.sort((a, b) => a[0] - b[0] || a[1] - b[1])
    const findings = this.#found.map(([, , error]) => error)
    const isComplete = this.#unverified.unsupported === undefined
    return {
      verdict: findings.length > 0 ? 'bad' : isComplete ? 'sound' : 'incomplete',
      tensors: tensors.length,
      components,
      findings,
      unverified: this.#unverified,
      warnings: this.#file.warnings,
    }
  }

  /** Reads a component where anything can be found out about it. */
  async #component(tensor: Tensor, number: number, seen: Set<string>): Promise<void> {
    const c = tensor.components[number]!
    const { algorithm } = c as unknown as { algorithm: string | null }
    if (c.digest === null) this.#skip('no_digest')
    else if (algorithm === null) this.#skip('unknown_digest')
    const isBool = c.dtype === 'bool' && c.logicalType === null
    if (algorithm === null && c.encoding === 'raw' && !isBool) return
    const key = JSON.stringify({ ...c, role: '' })
    if (c.offset !== null && seen.has(key)) return
    seen.add(key)
    const want = { tensor: tensor.position, component: number, digest: true }
    const order = (c.offset ?? 0) + number / 1024
    const options = {
      ...this.#options,
      read: (len: number) => {
        this.#read += len
      },
    }
    const before = this.#read
    try {
      await this.#file.run((core) => check(core, this.#file.source, [want], options))
    } catch (e) {
      if (!(e instanceof HoldallError)) throw e
      let error = e
      if (algorithm !== null && c.encoding !== 'raw' && e.code !== 'file/digest') {
        // Whatever else is wrong with bytes that changed follows from that.
        this.#read = before
        const stored = { ...want, asStored: true }
        await this.#file
          .run((core) => check(core, this.#file.source, [stored], options))
          .catch((e: unknown) => {
            if (!(e instanceof HoldallError)) throw e
            if (e.code === 'file/digest') error = e
          })
      }
      this.#find(tensor.position, order, error)
    }
  }

  /** How the components of a tensor fit together. Where their bytes are broken, that was said. */
  async #layout(tensor: Tensor): Promise<void> {
    if (tensor.layout === 'dense' || tensor.fault !== null || this.#bad.has(tensor.position)) return
    const options = { ...this.#options, check: false }
    const look = (core: Core) =>
      tensor.held(core, options, () => core.call('check', [tensor.position]).bytes.length)
    try {
      if ((await this.#file.run(look)) > 0) this.#skip('unknown_layout')
    } catch (e) {
      if (!(e instanceof HoldallError)) throw e
      this.#find(tensor.position, Infinity, e)
    }
  }

  /** Whether bytes between components are zero, where the format says so. */
  async #gaps(): Promise<void> {
    await this.#file.run(async (core) => {
      const numbers = core.numbers('gaps')
      for (let at = 0; at < numbers.length; at += 3) {
        const [start, end, tensor] = numbers.slice(at, at + 3) as [number, number, number]
        const [bytes] = await readRanges(this.#file.source, [[start, end]], this.#options)
        const number = tensor >= 2 ** 53 ? 2n ** 64n - 1n : BigInt(tensor)
        try {
          core.call('gap', [BigInt(start), number], bytes!)
        } catch (e) {
          if (!(e instanceof HoldallError)) throw e
          this.#find(tensor, 0, this.#file.named(e) as HoldallError)
        }
      }
    })
  }

  #find(position: number, order: number, error: HoldallError): void {
    if (error.kind === 'io') throw error
    if (error.kind === 'unsupported' || error.kind === 'limit') return this.#skip('unsupported')
    this.#bad.add(position)
    this.#found.push([position, order, error])
  }

  #skip(reason: Reason): void {
    this.#unverified[reason] = (this.#unverified[reason] ?? 0) + 1
  }
}
