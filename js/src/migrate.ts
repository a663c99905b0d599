import { Core, encode } from './core.js'
import { broken } from './errors.js'
import type { Converter } from './evolve.js'
import { TensorFile, open, type ModelFiles, type Openable, type OpenOptions } from './file.js'
import { schemaText } from './schema/text.js'
import { joined } from './source.js'
import { collected, encoded, formatOf, publish, type Encodable, type Target } from './write.js'

/** Options for rewriting a file under another schema, like the command `schema migrate`. */
export interface MigrateOptions {
  /** The dataset that a record's schema is for; by default the only one in the file. */
  dataset?: string | undefined
  /**
   * The old names of members and tensors, by their paths in the new schema. If there are several datasets, paths of
   * members begin with that of the dataset: `points[].x`.
   */
  renames?: Readonly<Record<string, string>> | undefined
  /**
   * Converters for members and tensors, by their paths in the new schema: a name such as `cast` or `map(cat=0,
   * dog=1)`, or a function. For a member it takes the old value and returns the new one; for a tensor it takes the
   * array and returns one of the new element type.
   */
  converters?: Readonly<Record<string, Converter>> | undefined
  /** Whether members and tensors that the new schema lacks may be left out. */
  drop?: boolean | undefined
  /** The format to write; by default that of the name of `to`, or else that of the file. */
  format?: string | undefined
  /** The target: a path or a stream. By default the bytes are returned. */
  to?: Target | undefined
  /** Whether an existing file may be replaced. */
  overwrite?: boolean | undefined
  /** Options for opening the file, if it is not open yet. */
  open?: OpenOptions | undefined
  /** Cancels the migration. */
  signal?: AbortSignal | undefined
}

/** The operation for one tensor: see `js/wasm/src/whole/migrate.rs`. */
type Work = { name: string } & (
  | { how: 'same'; at: number }
  | { how: 'elements'; at: number; width: number }
  | { how: 'function'; at: number; by: string; dtype: string }
  | { how: 'filled' }
  | { how: 'records'; at: number; kind: string; renames: [string, string][]; converters: [string, string][] }
)

/** Bytes of elements that are converted at a time: a whole number of elements of every type. */
const PIECE = 4 << 20

/**
 * Rewrites a file under another schema, that of a record or of a whole file. Members and tensors match by name,
 * numbers are widened, and new members take their default or are absent; converters create members that do not follow
 * from the old ones. The tensors of the new file are held in memory.
 *
 * @throws HoldallError `evolve/…` if the migration is not possible.
 */
export async function migrate(
  from: TensorFile | Openable | ModelFiles, schema: object | string, options: MigrateOptions & { to: Target },
): Promise<void>
export async function migrate(
  from: TensorFile | Openable | ModelFiles, schema: object | string, options?: MigrateOptions & { to?: undefined },
): Promise<Uint8Array>
export async function migrate(
  from: TensorFile | Openable | ModelFiles, schema: object | string, options: MigrateOptions = {},
): Promise<Uint8Array | void> {
  if (!(from instanceof TensorFile)) {
    const file = await open(from, options.open)
    try {
      return await migrated(file, schema, options)
    } finally {
      await file.close()
    }
  }
  return migrated(from, schema, options)
}

async function migrated(file: TensorFile, schema: object | string, options: MigrateOptions): Promise<Uint8Array | void> {
  const { to } = options
  const isNamed = to !== undefined && !(to instanceof WritableStream)
  const format = options.format ?? (isNamed ? await formatOf(to) : file.format)
  const pieces = migrating(file, schema, { ...options, format })
  return to === undefined ? collected(pieces) : publish(to, pieces, options)
}

async function* migrating(
  file: TensorFile, schema: object | string, options: MigrateOptions & { format: string },
): AsyncGenerator<Uint8Array> {
  const { renames = {}, converters = {}, drop = false, dataset, format, signal } = options
  const functions: ((value: any) => unknown)[] = []
  const named = Object.entries(converters).map(([path, by]) => {
    return [path, typeof by === 'string' ? by : `#${functions.push(by) - 1}`]
  })
  const by = (name: string): Converter => (name.startsWith('#') ? functions[Number(name.slice(1))]! : name)
  const core = await Core.create('whole')
  let own: string | null
  const inputs: Encodable[] = []
  try {
    await file.openIn(core)
    const request = encode(JSON.stringify({ dataset, renames: Object.entries(renames), converters: named, drop }))
    const { schema: text, works } = core.json<{ schema: string | null; works: Work[] }>(
      'migrate_begin', [request.length], joined([request, encode(schemaText(schema))]))
    own = text
    for (const [number, work] of works.entries()) {
      signal?.throwIfAborted()
      const components = await componentsOf(core, file, number, work, by, drop, signal)
      const [data = 0, heap = 0] = components.map(({ length }) => BigInt(length))
      core.call('migrate_part', [number, BigInt(data), BigInt(heap)])
      inputs.push({ name: work.name, part: number, components })
    }
  } catch (e) {
    throw file.named(e)
  }
  // The core keeps attributes exactly; JavaScript cannot distinguish 1 and 1.0. Plain values are checked against the
  // new schema.
  const attributes = new Map([...file.attributes].filter(([name]) => name === 'metatensor.values'))
  yield* encoded(core, inputs, { attributes, schema: own ?? undefined, format, signal }, true)
}

/** Returns the bytes of a tensor of the new file. */
async function componentsOf(
  core: Core, file: TensorFile, number: number, work: Work, by: (name: string) => Converter, drop: boolean, signal: AbortSignal | undefined,
): Promise<Uint8Array[]> {
  if (work.how === 'filled') return [core.call('migrate_filled', [number]).bytes.slice()]
  const tensor = file.tensors[work.at]!
  switch (work.how) {
    case 'same':
      return tensor.components.length === 0
        ? []
        : Promise.all(tensor.components.map(({ role }) => tensor.bytes({ role, signal })))
    case 'elements': {
      const bytes = await tensor.bytes({ signal })
      const pieces: Uint8Array[] = []
      for (let at = 0; at < bytes.length; at += PIECE) {
        const { bytes: made } = core.call('migrate_elements', [number, BigInt(at / work.width)], bytes.subarray(at, at + PIECE))
        pieces.push(made.slice())
      }
      return [joined(pieces)]
    }
    case 'function': {
      const { elementBytes } = await import('./rows.js')
      const make = by(work.by) as (value: unknown) => unknown
      const made = elementBytes(make(await tensor.array({ signal })), work.dtype)
      if (made === undefined) throw broken('js/source', `the converter gives no array of ${work.dtype}`, { tensor: work.name })
      return [made]
    }
    case 'records': {
      const converters = work.converters.map(([path, name]): [string, Converter] => [path, by(name)])
      const how = { renames: work.renames, converters, drop }
      const { data, heap, hasHeap } = await tensor.recordsUnder(work.kind, how, { signal })
      return hasHeap ? [data, heap] : [data]
    }
  }
}
