import { decode, numbersOf, type Core } from './core.js'
import { HoldallError } from './errors.js'
import { answered, gapOf, named, type TensorFile, type Warning } from './file.js'
import { check, decoding } from './read.js'
import { DISK, readRanges, type ReadOptions } from './source.js'
import type { Stored, Tensor } from './tensor.js'

/** Options for verifying a file. */
export interface VerifyOptions extends ReadOptions {
  /** Called with the number of bytes read and the total. */
  onProgress?: ((done: number, all: number) => void) | undefined
}

/** Why a part was not verified: the names in the library's reports. */
export type Reason =
  | 'no_digest' | 'unknown_digest' | 'unknown_layout' | 'unknown_logical_type' | 'unsupported'

/** The files of a verified package. */
export interface PackageFiles {
  files: number
  /** The number of files whose SHA-256 matches `MANIFEST`. */
  hashed: number
  /** The number of files without a hash in `MANIFEST`. */
  unhashed: number
  /** The number of linked files, which were not read. */
  linked: number
}

/** The result of a verification. */
export interface VerifyReport {
  /** `bad` if there are findings, `incomplete` if some checks could not be made. */
  verdict: 'sound' | 'bad' | 'incomplete'
  tensors: number
  components: number
  /** The number of components whose digest matched, by algorithm. */
  digests: Record<string, number>
  /**
   * The digest of the contents of the file, independent of how they are stored, if its format has one (zTensor 2) and
   * all of it is correct.
   */
  content: string | null
  /** The number of compressed or chunked components that decode to the declared length. */
  decoded: number
  /** The number of bool components that contain only 0 and 1. */
  bools: number
  /** The number of sparse tensors whose indices fit their shape. */
  sparse: number
  /** The number of quantized tensors whose components fit their shape and parameters. */
  quantized: number
  /** The number of datasets whose records all fit their schema. */
  records: number
  /** The number of blobs whose entries are all in bounds and valid. */
  blobs: number
  /** For a package, its files. Tensors in it are checked with their files and not counted as components. */
  package: PackageFiles | null
  /** Errors, in the file's own order. */
  findings: HoldallError[]
  /** The number of components or tensors that could not be verified, by reason. */
  unverified: Partial<Record<Reason, number>>
  /** Unusual properties of the file that are not errors. */
  warnings: readonly Warning[]
}

/** A finding, with its sort keys. */
type Found = [position: number, order: number, error: HoldallError]

/** The counter for each checked layout. */
const COUNTED: Record<string, 'sparse' | 'quantized' | 'records' | 'blobs'> = {
  sparse_csr: 'sparse', sparse_coo: 'sparse', sparsecsr: 'sparse', sparsecoo: 'sparse',
  sparse_blocks: 'sparse', sparse_hybrid: 'sparse',
  quantized_group: 'quantized', records: 'records', blob: 'blobs',
}

/** The number of ranges that are checked in one call. */
const BATCH = 1024

/** Checks everything about a file that this build can check. An error does not stop the other checks. */
export async function verify(file: TensorFile, options: VerifyOptions): Promise<VerifyReport> {
  return new Verification(file, options).run()
}

class Verification {
  readonly #file: TensorFile
  readonly #options: VerifyOptions
  readonly #found: Found[] = []
  readonly #bad = new Set<number>()
  readonly #unverified: Partial<Record<Reason, number>> = {}
  /** Whether stored bytes are valid, by their location. */
  readonly #seen = new Map<string, boolean>()
  readonly #counts = {
    digests: {} as Record<string, number>, decoded: 0, bools: 0, sparse: 0, quantized: 0, records: 0, blobs: 0,
  }
  /** The tensors and components that a checksum covers, by the index of the checksum. */
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
    if (files === null) await this.#findCovered()
    for (const tensor of tensors) {
      if (tensor.fault !== null) this.#record(tensor.position, 0, tensor.fault)
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
    const isComplete = this.#unverified.unsupported === undefined && !files?.counted.linked
    const verdict = findings.length > 0 ? 'bad' : isComplete ? 'sound' : 'incomplete'
    const sums = Object.values(this.#counts.digests).reduce((sum, count) => sum + count, 0)
    const isWhole = verdict === 'sound' && sums === components
    return {
      verdict, tensors: tensors.length, components, ...this.#counts, package: files?.counted ?? null,
      content: isWhole ? await this.#content() : null,
      findings, unverified: this.#unverified, warnings,
    }
  }

  /**
   * Checks all files of a package, in a separate instance of the module so that concurrent reads of the file are not
   * affected.
   */
  async #files(): Promise<{ counted: PackageFiles; warnings: Warning[] }> {
    const { source } = this.#file
    const options = this.#options
    const core = await this.#file.unopenedCore()
    const ask = (name: string, args: number[] = []): Promise<Uint8Array> =>
      answered(core, source, 'package_add', () => core.call(name, [...args, gapOf(source)]), options)
    core.call('package_begin', [BigInt(source.size)])
    const { here, warnings, ...counts } = JSON.parse(decode(await ask('package_files'))) as
      { here: { path: string; isHashed: boolean }[]; warnings: Warning[] } & Omit<PackageFiles, 'hashed'>
    const counted: PackageFiles = { ...counts, hashed: 0 }
    const { piece } = decoding(source.hints ?? DISK)
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
        counted.hashed += Number(isHashed)
      } catch (e) {
        if (!(e instanceof HoldallError)) throw e
        const error = named(e, `${this.#file.name ?? ''}!/${path}`) as HoldallError
        this.#record(-1, at, error)
        // A fault in shared bytes is counted once.
        for (const { position, components } of this.#file.tensors) {
          if (components.some(({ offset }) => offset !== null && offset >= start && offset < end)) this.#bad.add(position)
        }
      }
    }
    return { counted, warnings }
  }

  /** Reads a component if any check applies to it. */
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
    // Bytes that several components share are read once, if all describe them in the same way.
    const key = JSON.stringify([c, isBool], (name, value) => (name === 'role' ? undefined : value))
    let isRight = c.offset === null ? undefined : this.#seen.get(key)
    if (isRight === undefined) {
      isRight = await this.#bytes(tensor, number, c)
      this.#seen.set(key, isRight)
    }
    if (!isRight) return
    for (const name of [c.algorithm, c.chunkChecksum]) if (name !== null) this.#count(name)
    if (isDecoded) this.#counts.decoded++
    if (isBool) this.#counts.bools++
  }

  /** Checks the bytes of a component, and returns whether they are valid. */
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
        // Further errors follow from the changed bytes.
        this.#read = before
        const stored = { ...want, asStored: true }
        await this.#file
          .run((core) => check(core, this.#file.sources, [stored], options))
          .catch((e: unknown) => {
            if (!(e instanceof HoldallError)) throw e
            if (e.code === 'file/digest') error = e
          })
      }
      this.#record(tensor.position, order, error)
      return false
    }
  }

  /** Finds the checksums that cover components without a digest. */
  async #findCovered(): Promise<void> {
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

  /** Checks the checksums that cover more than one component. */
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
        if (tensors.size === 0) this.#record(Infinity, 0, checksumError(name, e, null))
        for (const position of tensors) this.#record(position, 0, checksumError(name, e, this.#file.tensors[position]!.name))
      }
    }
  }

  /** Checks that the components of a tensor fit together. Errors in their bytes were already reported. */
  async #layout(tensor: Tensor): Promise<void> {
    if (tensor.layout === 'dense' || tensor.fault !== null || this.#bad.has(tensor.position)) return
    const options = { ...this.#options, check: false }
    const look = (core: Core) =>
      tensor.held(core, options, () => core.call('check', [tensor.position]).bytes.length)
    try {
      if ((await this.#file.run(look)) > 0) return this.#skip('unknown_layout')
      const counted = Object.hasOwn(COUNTED, tensor.layout) ? COUNTED[tensor.layout] : undefined
      if (counted !== undefined) this.#counts[counted]++
    } catch (e) {
      if (!(e instanceof HoldallError)) throw e
      this.#record(tensor.position, Infinity, e)
    }
  }

  /** Checks that bytes between components are zero, if the format requires it. */
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
          this.#record(tensor, 0, this.#file.named(e) as HoldallError)
        }
      }
    })
  }

  /**
   * Returns the warning that alignment padding, which writers set to zero, is not zero. Padding of remote files is
   * not fetched, since each range would take a round trip.
   */
  #padding(): Promise<Warning[]> {
    const { source } = this.#file
    if ((source.hints ?? DISK).atOnce > 1) return Promise.resolve([])
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

  /** Returns the digest of the file's contents, which is the same for other files with the same contents. */
  #content(): Promise<string | null> {
    return this.#file.run(async (core) => {
      // None of the formats in the basic module has one.
      if (!core.isWhole) return null
      const { source } = this.#file
      const bytes = await answered(core, source, 'add', () => core.call('content', [gapOf(source)]), this.#options)
      return bytes.length === 0 ? null : decode(bytes)
    })
  }

  #record(position: number, order: number, error: HoldallError): void {
    if (error.kind === 'io') throw error
    if (error.kind === 'unsupported' || error.kind === 'limit') return this.#skip('unsupported')
    this.#bad.add(position)
    this.#found.push([position, order, error])
  }

  /** Counts a component whose digest or checksums matched. */
  #count(algorithm: string): void {
    const { digests } = this.#counts
    digests[algorithm] = (digests[algorithm] ?? 0) + 1
  }

  #skip(reason: Reason): void {
    this.#unverified[reason] = (this.#unverified[reason] ?? 0) + 1
  }
}

/** Returns the error for a checksum mismatch, with the name of the checksum and the affected tensor. */
function checksumError(name: string, e: HoldallError, tensor: string | null): HoldallError {
  const { kind, code, source, range, hint, remedies } = e
  const message = code === 'file/digest' ? `in \`${name}\`: ${e.found}` : e.found
  const text = `${tensor === null ? '' : `tensor \`${tensor}\`: `}${message} [${code}]`
  const details = { kind, code, message, text, tensor, component: null, range: range as [number, number] | null, hint, remedies: [...remedies] }
  return new HoldallError(details, source, e.cause)
}
