/** The messages between the page and its worker. */

import type { Limits } from 'holdall'

/** An error as the page shows it. */
export interface Trouble {
  code: string
  message: string
  advice: string | null
}

/** A tensor, or a group of similar ones. */
export interface GroupFacts {
  name: string
  members: number[]
  /** `f32 [2, 3]` */
  fact: string
  isFault: boolean
}

/** The source to open: a file, an address, or the files of a model by path. */
export type From = File | string | [string, File][]

export interface FileFacts {
  name: string
  /** The number of files. */
  files: number
  format: string
  version: string
  size: number
  tensors: number
  storedLen: number
  /** Names and values, as text. */
  attributes: [string, string][]
  warnings: { code: string; message: string; tensor: string | null; count: number }[]
  names: string[]
  groups: GroupFacts[]
}

export interface ComponentFacts {
  role: string
  type: string
  encoding: string
  storedLen: number
  decodedLen: number | null
  offset: number | null
  digest: string | null
}

export interface TensorFacts {
  name: string
  shape: number[]
  count: number
  layout: string
  /** The element type; `null` if the tensor has no individual elements. */
  dense: string | null
  storedLen: number
  attributes: [string, string][]
  components: ComponentFacts[]
  fault: Trouble | null
  /** Whether any range of its elements can be read separately. */
  isRanged: boolean
}

export type Cell = string | { image: Uint8Array; type: string } | { bytes: number }

/** A picture in a package, or the reason why it cannot be read. */
export type Picture = { name: string; image: Uint8Array; type: string } | { name: string; trouble: Trouble }

export interface RecordsPage {
  count: number
  columns: string[]
  rows: Cell[][]
}

/** The operations of the worker. Elements are returned as numbers, complex ones as magnitudes. */
export interface Methods {
  init(wasm: ArrayBuffer): void
  open(slot: number, from: From, limits: Limits): FileFacts
  /** Returns whether files belong to one model. */
  isModel(files: [string, File][]): boolean
  tensor(slot: number, at: number): TensorFacts
  numbers(slot: number, at: number, start: number, end: number): Float32Array | Float64Array
  texts(slot: number, at: number, start: number, end: number): string[]
  stats(slot: number, at: number, bins: number): any
  records(slot: number, at: number, start: number, end: number): RecordsPage
  bytes(slot: number, at: number, component: number): { text: string | null; hex: string; isCut: boolean }
  pictures(slot: number): Picture[]
  verify(slot: number): { verdict: string; checked: [string, number][]; findings: Trouble[]; unverified: [string, number][] }
  diff(): any
}

export type Ask = { id: number; method: string; args: unknown[] } | { id: number; cancel: true }
export type Tell =
  | { id: number; result: unknown }
  | { id: number; trouble: Trouble }
  | { id: number; done: number; all: number }
