/**
 * Reads tensor and model files: their contents and elements, in place.
 *
 * @module
 */
import { Core } from './core.js'

export { init, type WasmSource } from './core.js'
export type { ArrayOf, ElementOptions, TypedArray } from './elements.js'
export { HoldallError, type ErrorKind, type Remedy } from './errors.js'
export { open, type ModelFiles, type Openable, type OpenOptions, type TensorFile, type Warning } from './file.js'
export { fromUrl, type UrlOptions } from './http.js'
export type { Limits } from './limits.js'
export { migrate, type MigrateOptions } from './migrate.js'
export type { ValuesInput } from './plain.js'
export type { Records } from './records.js'
export type { BlobInput, RecordsInput } from './rows.js'
export {
  diffSchemas, headerSchema, outlineSchema, planMigration, type OutlineRow, type PlanOptions, type PlanStep, type SchemaChange, type SchemaDiff, type SchemaOptions,
} from './schemas.js'
export {
  fromBlob, fromBytes, fromFile, type FileHandle, type ReadOptions, type Source, type ReadHints,
} from './source.js'
export type { Converter, EvolveOptions } from './evolve.js'
export type { ArrayOptions, BytesOptions, Component, RecordsOptions, Tensor } from './tensor.js'
export { Simple, Tagged, type Value } from './values.js'
export {
  encodeTensors, save, toBytes, type Attributes, type SaveOptions, type Target, type TensorInput, type TensorsInput, type WriteOptions,
} from './write.js'
export type { PackageFiles, Reason, VerifyOptions, VerifyReport } from './verify.js'

/** A format that this build reads. */
export interface Format {
  /** Its short name: `ztensor`. */
  id: string
  /** Its name for people: `zTensor`. */
  name: string
  /** Extensions of file names, without the dot. */
  extensions: string[]
  /** Versions that can be read, newest first; empty if the format has no versions. */
  reads: string[]
}

/** Returns the formats that this build reads, in the order in which they are tried. */
export async function formats(): Promise<Format[]> {
  return (await Core.create('whole')).json<Format[]>('format_list')
}
