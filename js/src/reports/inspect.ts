import type { TensorFile, Warning } from '../file.js'
import { HoldallError } from '../errors.js'
import type { Component } from '../tensor.js'
import type { Value } from '../values.js'
import { stats, type Stats, type StatsOptions } from './stats.js'

/** What is looked at. */
export interface InspectOptions extends StatsOptions {
  /** With what the values of each tensor are like, which reads the file. */
  stats?: boolean | undefined
}

/** A tensor, without its elements. */
export interface TensorReport {
  name: string
  shape: number[]
  layout: string
  dtype: string | null
  logicalType: string | null
  attributes: ReadonlyMap<string, Value>
  components: readonly Component[]
  /** Why it cannot be read, where others can. */
  fault: HoldallError | null
  /** What its values are like, where that was asked for; an error where it has none that can be told. */
  stats?: Stats | HoldallError
}

/** A file, without its elements. */
export interface FileReport {
  source: string | null
  format: string
  formatName: string
  version: string
  size: number
  attributes: ReadonlyMap<string, Value>
  tensors: TensorReport[]
  /** Tensors alike in all but the numbers in their names. */
  groups: { name: string; members: number[] }[]
  /** What the file says besides that this version does not know, in words. */
  passedOver: readonly string[]
  warnings: readonly Warning[]
}

/** Says what a file is and what it has in it, as one plain object. */
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
  const { name: source, format, formatName, version, size, attributes, passedOver, warnings } = file
  return { source, format, formatName, version, size, attributes, tensors, groups: file.groups(), passedOver, warnings }
}
