/** What the page and its worker tell each other. */

import type { Limits } from 'holdall'

/** An error as the page shows it. */
export interface Trouble {
  code: string
  message: string
  advice: string | null
}

/** A tensor, or several alike. */
export interface GroupFacts {
  name: string
  members: number[]
  /** `f32 [2, 3]` */
  fact: string
  isFault: boolean
}

/** What is opened: a file, an address, or the files of a model by their paths. */
export type From = File | string | [string, File][]

export interface FileFacts {
  name: string
  /** How many it is of. */
  files: number
  format: string
  version: string
  size: number
  tensors: number
  storedLen: number
  /** Names and values, as texts. */
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
  /** Whether any range of its elements can be read alone. */
  isRanged: boolean
}

export type Cell = string | { image: Uint8Array; type: string } | { bytes: number }

/** A picture in a package, or why it cannot be read. */
export type Picture = { name: string; image: Uint8Array; type: string } | { name: string; trouble: Trouble }

export interface RecordsPage {
  count: number
  columns: string[]
  rows: Cell[][]
}

/** What the worker does. Elements come as numbers, magnitudes where they are complex. */
export interface Methods {
  init(wasm: ArrayBuffer): void
  open(slot: number, from: From, limits: Limits): FileFacts
  /** Whether files are of one model. */
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
