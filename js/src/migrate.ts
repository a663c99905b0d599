import { Core, encode } from './core.js'
import { broken } from './errors.js'
import type { Converter } from './evolve.js'
import { TensorFile, open, type ModelFiles, type Openable, type OpenOptions } from './file.js'
import { schemaText } from './schema/text.js'
import { joined } from './source.js'
import { collected, encoded, formatOf, publish, type Encodable, type Target } from './write.js'

/** How a file is written anew under another schema: as the command's `schema migrate` does it. */
export interface MigrateOptions {
  /** The dataset that the schema of a record is for; otherwise it is the only one of the file. */
  dataset?: string | undefined
  /** What members and tensors were called, by their paths in the new schema. Members of one of several datasets have its path before theirs: `points[].x`. */
  renames?: Readonly<Record<string, string>> | undefined
  /**
   * What makes members and tensors, by their paths in the new schema: a name as `cast` or `map(cat=0, dog=1)`, or a function. That is given the value
   * of a member, and gives that of the new one; of a tensor it is given the array, and gives one of the new element type.
   */
  converters?: Readonly<Record<string, Converter>> | undefined
  /** Whether what the new schema does not have may be left out. */
  drop?: boolean | undefined
  /** The format that is written; that of the file where neither this nor the name of `to` says it. */
  format?: string | undefined
  /** Where the new file goes: a path or a stream. Without it the call gives its bytes. */
  to?: Target | undefined
  /** Whether a file that is there may be replaced. */
  overwrite?: boolean | undefined
  /** How the file is opened, if it is not open yet. */
  open?: OpenOptions | undefined
  /** Ends it early. */
  signal?: AbortSignal | undefined
}

/** What becomes of one tensor: see `js/wasm/src/whole/migrate.rs`. */
type Work = { name: string } & (
  | { how: 'same'; at: number }
  | { how: 'elements'; at: number; width: number }
  | { how: 'function'; at: number; by: string; dtype: string }
  | { how: 'filled' }
  | { how: 'records'; at: number; kind: string; renames: [string, string][]; converters: [string, string][] }
)

/** Bytes of elements that are converted at a time: whole ones of every type. */
const PIECE = 4 << 20

/**
 * Writes a file anew under another schema, that of a record or of a whole file. Members and tensors match by name, numbers widen, and what is
 * new takes its default or is absent; converters make what does not follow by itself. The tensors of the new file are held in memory.
 *
 * @throws HoldallError `evolve/…`, what stands in the way of it.
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
    const told = encode(JSON.stringify({ dataset, renames: Object.entries(renames), converters: named, drop }))
    const { schema: text, works } = core.json<{ schema: string | null; works: Work[] }>(
      'migrate_begin', [told.length], joined([told, encode(schemaText(schema))]))
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
  // The core keeps attributes as they are, which JavaScript cannot: 1 and 1.0 are one there. Plain values are held to the new schema.
  const attributes = new Map([...file.attributes].filter(([name]) => name === 'metatensor.values'))
  yield* encoded(core, inputs, { attributes, schema: own ?? undefined, format, signal }, true)
}

/** The bytes of a tensor of the new file. */
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
