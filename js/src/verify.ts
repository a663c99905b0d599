import { decode, numbersOf, type Core } from './core.js'
import { HoldallError } from './errors.js'
import { answered, gapOf, named, type TensorFile, type Warning } from './file.js'
import { check, decoding } from './read.js'
import { DISK, readRanges, type ReadOptions } from './source.js'
import type { Stored, Tensor } from './tensor.js'

/** How a file is verified. */
export interface VerifyOptions extends ReadOptions {
  /** Told how many bytes of how many were read. */
  onProgress?: ((done: number, all: number) => void) | undefined
}

/** Why something was not verified: names of the library's reports. */
export type Reason =
  | 'no_digest' | 'unknown_digest' | 'unknown_layout' | 'unknown_logical_type' | 'unsupported'

/** The files of a package that was verified. */
export interface PackageFiles {
  files: number
  /** Those whose SHA-256 is the one in `MANIFEST`. */
  hashed: number
  /** Those without a hash there. */
  unhashed: number
  /** Those that are only linked to, and were not read. */
  linked: number
}

/** What a verification did and found. */
export interface VerifyReport {
  /** `bad` where something is wrong, `incomplete` where something was in the way of a check. */
  verdict: 'sound' | 'bad' | 'incomplete'
  tensors: number
  components: number
  /** Components whose digest is that of their bytes, by algorithm. */
  digests: Record<string, number>
  /** The digest of what the file holds, however it lies in it, where its format has one (zTensor 2) and all of it was found right. */
  content: string | null
  /** Compressed components, and those in chunks, that decode to the length declared. */
  decoded: number
  /** Components of bools that hold nothing but 0 and 1. */
  bools: number
  /** Sparse tensors whose indices fit their shape. */
  sparse: number
  /** Quantized tensors whose components fit their shape and parameters. */
  quantized: number
  /** Tensors of records whose every record is one of their schema. */
  records: number
  /** Blobs whose every entry lies inside, and is what it should be. */
  blobs: number
  /** Of a package, its files. Those of its tensors are checked with them, and no component on its own. */
  package: PackageFiles | null
  /** What is wrong, in the file's own order. */
  findings: HoldallError[]
  /** What could not be verified: why, and of how many components or tensors. */
  unverified: Partial<Record<Reason, number>>
  /** What is odd about the file. */
  warnings: readonly Warning[]
}

/** A finding, with what it is sorted by. */
type Found = [position: number, order: number, error: HoldallError]

/** What a layout that was checked counts as. */
const COUNTED: Record<string, 'sparse' | 'quantized' | 'records' | 'blobs'> = {
  sparse_csr: 'sparse', sparse_coo: 'sparse', sparsecsr: 'sparse', sparsecoo: 'sparse',
  sparse_blocks: 'sparse', sparse_hybrid: 'sparse',
  quantized_group: 'quantized', records: 'records', blob: 'blobs',
}

/** Stretches of a file that are looked at in one go. */
const BATCH = 1024

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
  /** By the stored bytes: whether they are right. */
  readonly #seen = new Map<string, boolean>()
  readonly #done = {
    digests: {} as Record<string, number>, decoded: 0, bools: 0, sparse: 0, quantized: 0, records: 0, blobs: 0,
  }
  /** The tensors and components that a checksum covers, by the number of that. */
  readonly #covered = new Map<number, [tensor: number, component: number][]>()
  readonly #isCovered = new Set<string>()
  #read = 0

  constructor(file: TensorFile, options: VerifyOptions) {
    this.#file = file
    this.#options = options
  }

  async run(): Promise<VerifyReport> {
    const { tensors } = this.#file
    const all = tensors.reduce((sum, tensor) => sum + tensor.storedLen, 0)
    let components = 0
    const files = this.#file.format === 'carton' ? await this.#files() : null
    if (files === null) await this.#cover()
    for (const tensor of tensors) {
      if (tensor.fault !== null) this.#find(tensor.position, 0, tensor.fault)
      components += tensor.components.length
      for (let number = 0; files === null && number < tensor.components.length; number++) {
        await this.#component(tensor, number)
        this.#options.onProgress?.(Math.min(this.#read, all), all)
      }
    }
    await this.#checksums()
    for (const tensor of tensors) await this.#layout(tensor)
    await this.#gaps()
    const warnings = [...this.#file.warnings, ...(files?.warnings ?? []), ...(await this.#padding())]
    this.#found.sort((a, b) => a[0] - b[0] || a[1] - b[1])
    const findings = this.#found.map(([, , error]) => error)
    const isComplete = this.#unverified.unsupported === undefined && !files?.told.linked
    const verdict = findings.length > 0 ? 'bad' : isComplete ? 'sound' : 'incomplete'
    const sums = Object.values(this.#done.digests).reduce((sum, count) => sum + count, 0)
    const isWhole = verdict === 'sound' && sums === components
    return {
      verdict, tensors: tensors.length, components, ...this.#done, package: files?.told ?? null,
      content: isWhole ? await this.#content() : null,
      findings, unverified: this.#unverified, warnings,
    }
  }

  /** Reads all files of a package, in an instance of the module of its own: who else reads the file does not meet what this one is at. */
  async #files(): Promise<{ told: PackageFiles; warnings: Warning[] }> {
    const { source } = this.#file
    const options = this.#options
    const core = await this.#file.told()
    const ask = (name: string, args: number[] = []): Promise<Uint8Array> =>
      answered(core, source, 'package_add', () => core.call(name, [...args, gapOf(source)]), options)
    core.call('package_begin', [BigInt(source.size)])
    const { here, warnings, ...counts } = JSON.parse(decode(await ask('package_files'))) as
      { here: { path: string; isHashed: boolean }[]; warnings: Warning[] } & Omit<PackageFiles, 'hashed'>
    const told: PackageFiles = { ...counts, hashed: 0 }
    const { piece } = decoding(source.terms ?? DISK)
    for (const [at, { path, isHashed }] of here.entries()) {
      let [start, end] = [0, 0]
      try {
        ;[start, end] = numbersOf(await ask('package_file', [at])) as [number, number]
        for (let from = start; from < end; from += piece) {
          const to = Math.min(from + piece, end)
          core.call('package_push', [], (await readRanges(source, [[from, to]], options))[0])
          options.onProgress?.(to, source.size)
        }
        core.call('package_file_end')
        told.hashed += Number(isHashed)
      } catch (e) {
        if (!(e instanceof HoldallError)) throw e
        const error = named(e, `${this.#file.name ?? ''}!/${path}`) as HoldallError
        this.#find(-1, at, error)
        // A fault in bytes that a tensor shares is not counted again.
        for (const { position, components } of this.#file.tensors) {
          if (components.some(({ offset }) => offset !== null && offset >= start && offset < end)) this.#bad.add(position)
        }
      }
    }
    return { told, warnings }
  }

  /** Reads a component where anything can be found out about it. */
  async #component(tensor: Tensor, number: number): Promise<void> {
    const c = tensor.components[number] as Stored
    const isCovered = this.#isCovered.has(`${tensor.position} ${number}`)
    if (c.digest === null && !isCovered && c.chunkChecksum === null) this.#skip('no_digest')
    else if (c.digest !== null && c.algorithm === null) this.#skip('unknown_digest')
    if (!c.hasMeaning) this.#skip('unknown_logical_type')
    // Sparse tensors of zTensor 0.1 have indices among their elements.
    const isPacked = tensor.layout === 'sparsecsr' || tensor.layout === 'sparsecoo'
    const isBool = c.dtype === 'bool' && c.logicalType === null && !isPacked
    const isDecoded = c.encoding !== 'raw' || c.isChunked
    if (tensor.fault !== null || (c.algorithm === null && !isDecoded && !isBool)) return
    // Bytes that several share are read once, where all say the same of them.
    const key = JSON.stringify([c, isBool], (name, value) => (name === 'role' ? undefined : value))
    let isRight = c.offset === null ? undefined : this.#seen.get(key)
    if (isRight === undefined) {
      isRight = await this.#bytes(tensor, number, c)
      this.#seen.set(key, isRight)
    }
    if (!isRight) return
    for (const name of [c.algorithm, c.chunkChecksum]) if (name !== null) this.#count(name)
    if (isDecoded) this.#done.decoded++
    if (isBool) this.#done.bools++
  }

  /** Whether the bytes of a component are right. */
  async #bytes(tensor: Tensor, number: number, c: Stored): Promise<boolean> {
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
      await this.#file.run((core) => check(core, this.#file.sources, [want], options))
      return true
    } catch (e) {
      if (!(e instanceof HoldallError)) throw e
      let error = e
      if (c.algorithm !== null && c.encoding !== 'raw' && e.code !== 'file/digest') {
        // Whatever else is wrong with bytes that changed follows from that.
        this.#read = before
        const stored = { ...want, asStored: true }
        await this.#file
          .run((core) => check(core, this.#file.sources, [stored], options))
          .catch((e: unknown) => {
            if (!(e instanceof HoldallError)) throw e
            if (e.code === 'file/digest') error = e
          })
      }
      this.#find(tensor.position, order, error)
      return false
    }
  }

  /** Finds which checksums cover components that have no digest of their own. */
  async #cover(): Promise<void> {
    if (this.#file.checksums.length === 0) return
    const numbers = await this.#file.run((core) => Promise.resolve(core.numbers('covered')))
    for (let at = 0; at < numbers.length; at += 3) {
      const [tensor, component, checksum] = numbers.slice(at, at + 3) as [number, number, number]
      const members = this.#covered.get(checksum) ?? []
      members.push([tensor, component])
      this.#covered.set(checksum, members)
      this.#isCovered.add(`${tensor} ${component}`)
    }
  }

  /** Compares the checksums of bytes that are not those of one component. */
  async #checksums(): Promise<void> {
    const counted = new Set<string>()
    for (const [number, [name, algorithm]] of this.#file.checksums.entries()) {
      if (algorithm === null) continue
      const members = this.#covered.get(number) ?? []
      const want = { tensor: number, component: 0, digest: true, isChecksum: true }
      try {
        await this.#file.run((core) => check(core, this.#file.sources, [want], this.#options))
        for (const member of members.map(String)) {
          if (counted.has(member)) continue
          counted.add(member)
          this.#count(algorithm)
        }
      } catch (e) {
        if (!(e instanceof HoldallError)) throw e
        const tensors = new Set(members.map(([tensor]) => tensor))
        if (tensors.size === 0) this.#find(Infinity, 0, ofChecksum(name, e, null))
        for (const position of tensors) this.#find(position, 0, ofChecksum(name, e, this.#file.tensors[position]!.name))
      }
    }
  }

  /** How the components of a tensor fit together. Where their bytes are broken, that was said. */
  async #layout(tensor: Tensor): Promise<void> {
    if (tensor.layout === 'dense' || tensor.fault !== null || this.#bad.has(tensor.position)) return
    const options = { ...this.#options, check: false }
    const look = (core: Core) =>
      tensor.held(core, options, () => core.call('check', [tensor.position]).bytes.length)
    try {
      if ((await this.#file.run(look)) > 0) return this.#skip('unknown_layout')
      const counted = Object.hasOwn(COUNTED, tensor.layout) ? COUNTED[tensor.layout] : undefined
      if (counted !== undefined) this.#done[counted]++
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

  /**
   * The warning that bytes which align components are not zero, where writers set them to zero. A file that is far away is
   * not asked for such bytes, each of which would be a wait.
   */
  #padding(): Promise<Warning[]> {
    const { source } = this.#file
    if ((source.terms ?? DISK).atOnce > 1) return Promise.resolve([])
    return this.#file.run(async (core) => {
      const { bytes } = core.call('padding')
      if (bytes.length === 0) return []
      const { code, ranges } = JSON.parse(decode(bytes)) as { code: string; ranges: (number | object)[] }
      const pads: [number, number, unknown][] = []
      for (let at = 0; at < ranges.length; at += 3) pads.push([ranges[at] as number, ranges[at + 1] as number, ranges[at + 2]])
      let warning: Warning | undefined
      for (let at = 0; at < pads.length; at += BATCH) {
        const some = pads.slice(at, at + BATCH)
        const all = await readRanges(source, some.map(([start, end]) => [start, end]), this.#options)
        for (const [n, bytes] of all.entries()) {
          const [start, end, tensor] = some[n]!
          const odd = bytes.findIndex((byte) => byte !== 0)
          if (odd < 0) continue
          const value = bytes[odd]!.toString(16).padStart(2, '0')
          const message = `byte ${start + odd} is 0x${value}, in padding ${start}..${end} that writers set to zero`
          const name = typeof tensor === 'number' ? (this.#file.tensors[tensor]?.name ?? null) : null
          warning ??= { code, message, tensor: name, component: null, count: 0 }
          warning.count++
        }
      }
      return warning === undefined ? [] : [warning]
    })
  }

  /** The digest of what the file holds, which another file with the same has too. */
  #content(): Promise<string | null> {
    return this.#file.run(async (core) => {
      // No format of the basic module has one.
      if (!core.isWhole) return null
      const { source } = this.#file
      const bytes = await answered(core, source, 'add', () => core.call('content', [gapOf(source)]), this.#options)
      return bytes.length === 0 ? null : decode(bytes)
    })
  }

  #find(position: number, order: number, error: HoldallError): void {
    if (error.kind === 'io') throw error
    if (error.kind === 'unsupported' || error.kind === 'limit') return this.#skip('unsupported')
    this.#bad.add(position)
    this.#found.push([position, order, error])
  }

  /** Counts a component whose bytes have the digest, or the checksums, that they should have. */
  #count(algorithm: string): void {
    const { digests } = this.#done
    digests[algorithm] = (digests[algorithm] ?? 0) + 1
  }

  #skip(reason: Reason): void {
    this.#unverified[reason] = (this.#unverified[reason] ?? 0) + 1
  }
}

/** The error for bytes that do not match a checksum: it says what the checksum is of, and which tensor is concerned. */
function ofChecksum(name: string, e: HoldallError, tensor: string | null): HoldallError {
  const { kind, code, source, range, hint, remedies } = e
  const message = code === 'file/digest' ? `in \`${name}\`: ${e.found}` : e.found
  const text = `${tensor === null ? '' : `tensor \`${tensor}\`: `}${message} [${code}]`
  const said = { kind, code, message, text, tensor, component: null, range: range as [number, number] | null, hint, remedies: [...remedies] }
  return new HoldallError(said, source, e.cause)
}
