// Written by `cargo xtask gen` from the table of limits in the code.

/** Upper bounds on what a file may demand. Limits that are left out have their default. */
export interface Limits {
  /** Bytes of a zTensor manifest; of the blocks of a TensorFlow checkpoint's index. Default: 1 GB. */
  manifestLen?: number
  /** Bytes of a header (safetensors, Metatensor, GGUF) or of a zip's directory; of elements that an ONNX model stores in numeric fields; of values of variable length and virtual datasets in an HDF5 file, which are in memory. Default: 100 MB. */
  headerLen?: number
  /** Bytes of each text of a package (`carton.toml`, `MANIFEST`, `LINKS`, `tensor_data/index.toml`) and of a description of layouts. Default: 8 MiB. */
  textLen?: number
  /** Bytes that compressed components may decode to, each and all that are loaded at once, however few bytes they store; bytes of a dense copy of a sparse or quantized tensor. Default: 1 GiB. */
  decodedLen?: number
  /** Beyond `decodedLen`, compressed components may decode to this many times their stored size. Default: 64. */
  expansion?: number
  /** Bytes of a file that is fetched whole over a network, as sent. Default: 256 MiB. */
  fetchedLen?: number
  /** Entries of a zip or tar archive, files of a package, objects under a prefix of an object store. Default: 2^20. */
  files?: number
  /** Tensors in a file. Default: 2^24. */
  tensors?: number
  /** Dimensions of a tensor. Default: 64. */
  rank?: number
  /** Components of a tensor. Default: 16384. */
  components?: number
  /** Levels of nesting of attribute values, headers and schemas. Default: 128. */
  depth?: number
  /** Nodes of a Metatensor schema; paths that one question about it may touch. Default: 2^20. */
  schemaNodes?: number
  /** Values in all attributes of a file; keys, items of arrays and entries of maps count too. Default: 2^22. */
  attributeValues?: number
  /** Base-2 logarithm of the largest window that a zstd frame may need. Level 22 needs 27. Default: 27. */
  zstdWindowLog?: number
  /** Whether a file may have more or less data than its header describes, which is otherwise refused. */
  salvage?: boolean
  /** Whether unknown values of a pickle are left out. By default they are refused. */
  skipUnknown?: boolean
}

/** The names of the limits that are numbers. */
export const NAMES = [
  'manifestLen',
  'headerLen',
  'textLen',
  'decodedLen',
  'expansion',
  'fetchedLen',
  'files',
  'tensors',
  'rank',
  'components',
  'depth',
  'schemaNodes',
  'attributeValues',
  'zstdWindowLog',
] as const

/** Defaults that differ from the library's: a browser tab has less memory than a server. */
export const DEFAULTS = {
  decodedLen: 1073741824,
  fetchedLen: 268435456,
}
