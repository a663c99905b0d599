import type { TensorFile, Warning } from '../file.js'
import { HoldallError } from '../errors.js'
import type { Component } from '../tensor.js'
import type { Value } from '../values.js'
import { stats, type Stats, type StatsOptions } from './stats.js'

/** Options for `inspect`. */
export interface InspectOptions extends StatsOptions {
  /** Whether to include statistics of each tensor's values, which reads the whole file. */
  stats?: boolean | undefined
}

/** A tensor's description, without its elements. */
export interface TensorReport {
  name: string
  shape: number[]
  layout: string
  dtype: string | null
  logicalType: string | null
  attributes: ReadonlyMap<string, Value>
  components: readonly Component[]
  /** Why the tensor cannot be read; `null` if it can. */
  fault: HoldallError | null
  /** Statistics of its values, if requested; an error if they cannot be computed. */
  stats?: Stats | HoldallError
}

/** A file's description, without its elements. */
export interface FileReport {
  source: string | null
  format: string
  formatName: string
  version: string
  size: number
  attributes: ReadonlyMap<string, Value>
  tensors: TensorReport[]
  /** Groups of tensors that differ only in the numbers in their names. */
  groups: { name: string; members: number[] }[]
  /** Parts of the file that this version does not know, as messages. */
  unrepresented: readonly string[]
  warnings: readonly Warning[]
}

/** Returns a description of a file and its contents as one plain object. */
export async function inspect(file: TensorFile, options: InspectOptions = {}): Promise<FileReport> {
  const tensors: TensorReport[] = []
  const all = file.tensors.reduce((sum, tensor) => sum + tensor.storedLen, 0)
  let read = 0
  for (const tensor of file.tensors) {
    options.signal?.throwIfAborted()
    const { name, shape, layout, dtype, logicalType, attributes, components, fault } = tensor
    const report: TensorReport = { name, shape, layout, dtype, logicalType, attributes, components, fault }
    if (options.stats === true) {
      const onProgress = (done: number, of: number) =>
        options.onProgress?.(read + (of > 0 ? (done / of) * tensor.storedLen : 0), all)
      report.stats = await stats(tensor, { ...options, onProgress }).catch((e: unknown) => {
        if (e instanceof HoldallError) return e
        throw e
      })
      read += tensor.storedLen
    }
    tensors.push(report)
  }
  const { name: source, format, formatName, version, size, attributes, unrepresented, warnings } = file
  return { source, format, formatName, version, size, attributes, tensors, groups: file.groups(), unrepresented, warnings }
}
