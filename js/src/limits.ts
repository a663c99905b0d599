/** Every cap on what a file may ask of this process: see the limits of the library. */
export interface Limits {
  /** Bytes of a zTensor manifest. */
  manifest_len?: number
  /** Bytes of a safetensors or Metatensor header, or of a zip's directory. */
  header_len?: number
  /** Bytes of each text in a package. */
  text_len?: number
  /** Entries of a zip, or files of a package. */
  files?: number
  /** Tensors in one file. */
  tensors?: number
  /** Dimensions of one tensor. */
  rank?: number
  /** Nesting of maps and arrays. */
  depth?: number
  /** Nodes of a Metatensor schema. */
  schema_nodes?: number
  /** Values in all the attributes of one file. */
  attribute_values?: number
  /** Bytes that compressed components may decode to, and the most of a dense copy: 1 GiB here. */
  decoded_len?: number
  /** Beyond `decoded_len`, compressed components may decode to this many times what they store. */
  expansion?: number
  /** Bytes of a file that is fetched whole, from a server without ranges: 256 MiB here. */
  fetched_len?: number
  /** Base-2 logarithm of the largest window a zstd frame may ask for. */
  zstd_window_log?: number
  /** Whether a file may have more or less data than its header describes. */
  salvage?: boolean
  /** Whether values of a pickle that are not known are left out. */
  skip_unknown?: boolean
}

/** What differs from the library's own: a tab of a browser has less memory than a server. */
export const DEFAULTS = { decoded_len: 2 ** 30, fetched_len: 2 ** 28 }
