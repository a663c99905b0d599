/** The kind of an error. */
export type ErrorKind =
  | 'malformed' | 'integrity' | 'unsupported' | 'limit' | 'not_found' | 'misuse' | 'io'

/**
 * A suggestion of what to do about an error: `do` is the name of one of the library's remedies, `limit` a key of
 * `limits`.
 */
export interface Remedy {
  do: string
  [detail: string]: string | number
}

/** The description of an error by the core. */
export interface ErrorDetails {
  kind: ErrorKind
  code: string
  message: string
  text: string
  tensor: string | null
  component: string | null
  range: [number, number] | null
  hint: string | null
  remedies: Remedy[]
}

/** A rule that this package checks itself, because in the library the check is not part of the core. */
interface Rule {
  kind: ErrorKind
  hint?: string
  remedies?: Remedy[]
}

/**
 * The rules that JavaScript checks. Codes, kinds and hints are those of the library, and a test compares them;
 * `wasm/…` and `js/…` are specific to this package.
 */
export const RULES: Record<string, Rule> = {
  'io/failed': { kind: 'io' },
  'file/no-tensor': { kind: 'not_found', remedies: [{ do: 'list_names' }] },
  'file/no-component': { kind: 'not_found' },
  'shards/missing': {
    kind: 'not_found',
    hint: 'the download may not be complete; `holdall salvage` copies the undamaged tensors',
  },
  'file/changed': {
    kind: 'io',
    hint: 'another process is writing the file; open it again when that is done',
  },
  'file/unknown-layout': {
    kind: 'unsupported',
    hint: 'read its components one by one, as bytes',
  },
  'file/wrong-layout': { kind: 'misuse' },
  'records/index': { kind: 'misuse' },
  'schema/unknown-path': { kind: 'not_found' },
  'layout/rows': { kind: 'misuse' },
  'layout/element-size': { kind: 'unsupported' },
  'layout/dense-limit': { kind: 'limit', remedies: [{ do: 'raise_limit', limit: 'decodedLen' }] },
  'archive/no-archive': { kind: 'misuse' },
  'package/not-here': { kind: 'unsupported', remedies: [{ do: 'fetch_links' }] },
  'links/digest': { kind: 'integrity', hint: 'the server has another file at this address: ask the author of the package' },
  'links/declared-len': {
    kind: 'malformed', hint: 'the server has another file at this address, or the package is wrong: ask its author',
  },
  'http/url': { kind: 'misuse' },
  'http/scheme': { kind: 'misuse' },
  'http/failed': { kind: 'io' },
  'http/slow': { kind: 'io', hint: 'try again later, or from another network' },
  'http/status': { kind: 'io' },
  'http/answer': { kind: 'io' },
  'http/ranges': {
    kind: 'unsupported',
    hint: 'download the whole file first, then open it from the disk',
  },
  'http/changed': { kind: 'io', hint: 'the file was replaced on the server; open it again' },
  'http/too-long': { kind: 'limit', remedies: [{ do: 'raise_limit', limit: 'fetchedLen' }] },
  'write/length': { kind: 'misuse' },
  'write/exists': { kind: 'misuse', remedies: [{ do: 'overwrite' }] },
  'write/extension': { kind: 'misuse', remedies: [{ do: 'name_format' }] },
  'delta/base': {
    kind: 'integrity',
    hint: '`holdall delta show` lists the tensors of a delta; their base must have the same names, types, shapes and elements',
  },
  'delta/target': { kind: 'integrity' },
  'delta/unfit': { kind: 'unsupported' },
  'wasm/trap': { kind: 'io', hint: 'the module was replaced by a fresh one; the file can be read on' },
  'js/source': { kind: 'misuse' },
  'json/surrogate': { kind: 'malformed' },
  'record/utf8': { kind: 'malformed' },
  'record/entry-bounds': { kind: 'malformed' },
  'metatensor/schema-fit': { kind: 'unsupported' },
  'schema/too-large': { kind: 'limit' },
  'js/keyword': { kind: 'unsupported', hint: 'the command checks such values: `holdall verify`' },
  'js/number': { kind: 'misuse' },
  'js/closed': { kind: 'misuse' },
  'js/gpu-limit': { kind: 'limit', hint: 'ask the adapter for a device with larger limits (`requiredLimits`)' },
}

/** Texts for remedies; `null` for a remedy that has no text in this package. */
const WORDS: Record<string, string | null | ((remedy: Remedy) => string)> = {
  raise_limit: ({ limit, atLeast }) =>
    `if you trust the file, raise the limit: \`{ limits: { ${limit}: ${atLeast ?? 'N'} } }\``,
  did_you_mean: ({ name }) => `did you mean \`${name}\`?`,
  list_names: '`file.names` gives the names',
  list_attributes: '`file.attributes` and `tensor.attributes` list the names',
  list_formats: '`formats()` lists the formats that this build reads',
  salvage: 'the command `holdall salvage` recovers the intact tensors',
  skip_unknown: '`{ limits: { skipUnknown: true } }` leaves it out',
  copy_elements: null,
  read_pairs: 'without `as` both parts are read',
  name_graph: null,
  describe_layout: null,
  name_pre_tokenizer: null,
  overwrite: 'allow it to be replaced with `{ overwrite: true }`',
  name_format: 'name the format: `{ format: "ztensor" }`',
  open_inside: '`openArchive` of `holdall/archive` reads files in zips; unpack other archives',
  open_index: 'open it by a path or an address that ends in `.index.json`, or among the files that it names',
  name_files: 'the command `holdall convert FILE OUT --also FILE…` takes the files without their index',
  fetch_links: 'open it with `{ fetchLinks: true }`, or write a package that contains all linked files with the command `holdall fetch -o`',
  fetch_whole: 'the command `holdall fetch -o` writes a package that contains all linked files',
  // Only for programs that write files, run models, or have a file system and a network stack.
  raise_timeout: null, allow_http: null, allow_private_hosts: null, write_format: null, store_raw: null, default_encoding: null,
  default_digest: null, make_dense: null, leave_out: null, drop_logical_types: null,
  drop_attributes: null, rename_tensor: null, copy_shared: null, infer_schema: null,
  follow_links: null, set_cache: null, name_runner: null, build_dataset: null, pack_file: null, name_python: null,
  use_streams: null, null_is_absent: null, read_array: null, declare_tensors: null,
  give_schema: null,
}

/** Returns the text of a remedy, if this package has one. */
export function remedyText(remedy: Remedy): string | null {
  const words = Object.hasOwn(WORDS, remedy.do) ? WORDS[remedy.do]! : null
  return typeof words === 'function' ? words(remedy) : words
}

/** Returns whether this package knows a remedy, with or without a text. */
export const knowsRemedy = (name: string): boolean => Object.hasOwn(WORDS, name)

/** An error of this package. Check `kind` and `code`, which are stable; the text may change. */
export class HoldallError extends Error {
  override readonly name = 'HoldallError'
  /** The kind of the error. */
  readonly kind: ErrorKind
  /** The stable code of the broken rule: `ztensor/manifest-bounds`. */
  readonly code: string
  /** The problem that was found, without its location. */
  readonly found: string
  /** The file, as the caller named it. */
  readonly source: string | null
  /** The tensor, if the error is about one. */
  readonly tensor: string | null
  /** The role of the component, if the error is about one. */
  readonly component: string | null
  /** The bytes in the file, half-open, if the error is about some. */
  readonly range: readonly [number, number] | null
  /** Suggestions of what to do, as values. */
  readonly remedies: readonly Remedy[]
  /** A general hint, the same in all packages. */
  readonly hint: string | null
  /** A suggestion of what to do, as text. */
  readonly advice: string | null

  constructor(details: ErrorDetails, source: string | null = null, cause?: unknown) {
    const text = source === null ? details.text : `${source}: ${details.text}`
    super(text, cause === undefined ? undefined : { cause })
    this.kind = details.kind
    this.code = details.code
    this.found = details.message
    this.source = source
    this.tensor = details.tensor
    this.component = details.component
    this.range = details.range
    this.remedies = details.remedies
    this.hint = details.hint
    const words = [details.hint, ...details.remedies.map(remedyText)].filter((text) => text !== null)
    this.advice = words.length > 0 ? words.join('; ') : null
  }
}

/** Returns an error for a rule of `RULES`; `found` describes the problem. */
export function broken(
  code: string,
  found: string,
  place: { source?: string | null; tensor?: string; component?: string; cause?: unknown; remedies?: Remedy[] | undefined; hint?: string | null | undefined } = {},
): HoldallError {
  const rule = RULES[code]!
  const { source = null, tensor = null, component = null, cause, remedies = rule.remedies ?? [], hint = rule.hint ?? null } = place
  const where = [
    ...(tensor === null ? [] : [`tensor \`${tensor}\``]),
    ...(component === null ? [] : [`component \`${component}\``]),
  ].join(', ')
  const text = `${where === '' ? '' : `${where}: `}${found} [${code}]`
  return new HoldallError(
    {
      kind: rule.kind, code, message: found, text, tensor, component, range: null,
      hint, remedies,
    },
    source,
    cause,
  )
}
