import { Core, encode } from './core.js'
import { HoldallError } from './errors.js'
import { schemaText } from './schema/text.js'
import { joined } from './source.js'

/** A path of a schema, with its type and the location of its bytes. */
export interface OutlineRow {
  /** The names of members, separated by dots, with `[]` for the elements of an array. */
  path: string
  /** The type, in short: `Int32`, `F32 [20, 5]`, `String []`. */
  kind: string
  /** The offset in bytes from the start that `base` names. */
  offset: number | null
  /** The size of one value in bytes. */
  size: number | null
  /** The distance between consecutive values in an array, in bytes. */
  stride: number | null
  align: number | null
  optional: boolean
  /**
   * The start that the offset counts from: a record, or an element in the heap; references in the header have no
   * offset.
   */
  base: 'header' | 'record' | 'heap'
}

/** A difference between two schemas. */
export interface SchemaChange {
  path: string
  /** `added`, `removed`, `widened`, … */
  change: string
  /** The consequence for reading old files with the new schema. */
  verdict: 'compatible' | 'needs-default' | 'needs-converter' | 'breaking'
  old?: string
  new?: string
  values?: string[]
}

/** The differences between two schemas, and the version step that they require. */
export interface SchemaDiff {
  bump: 'patch' | 'minor' | 'major'
  changes: SchemaChange[]
}

/** The module instances for schema functions, shared until they trap. */
const cores: { basic?: Promise<Core> | undefined; whole?: Promise<Core> | undefined } = {}

async function asked<T>(part: keyof typeof cores, ask: (core: Core) => T): Promise<T> {
  try {
    return ask(await (cores[part] ??= Core.create(part)))
  } catch (e) {
    if (!(e instanceof HoldallError) || e.code === 'wasm/trap') cores[part] = undefined
    throw e
  }
}

/** Returns the bytes of a schema: objects as JSON, texts unchanged. */
const bytesOf = (schema: object | string): Uint8Array =>
  encode(schemaText(schema))

/** The subject of a schema: a record or a file. By default it follows from the schema's form. */
export interface SchemaOptions {
  of?: 'record' | 'file' | undefined
}

const reading = ({ of }: SchemaOptions): number => (of === 'record' ? 1 : of === 'file' ? 2 : 0)

/**
 * Compiles a schema, and returns its paths with their types and the locations of their bytes.
 *
 * @throws HoldallError if the schema breaks a rule.
 */
export const outlineSchema = (
  schema: object | string, options: SchemaOptions = {},
): Promise<OutlineRow[]> =>
  asked('basic', (core) => core.json<OutlineRow[]>('schema_outline', [reading(options)], bytesOf(schema)))

/**
 * Returns the schema of a file's header in standard keywords only: records, blobs and tensors are replaced by their
 * references, so that `Value.Check` and other validators can check the `tensors` of a header.
 *
 * @throws HoldallError if the schema describes a record, which has no header.
 */
export const headerSchema = (schema: object | string): Promise<{ [keyword: string]: unknown }> =>
  asked('whole', (core) => core.json('schema_header', [], bytesOf(schema)))

/** Compares two schemas of a record, or of a file. */
export function diffSchemas(
  before: object | string, after: object | string, options: SchemaOptions = {},
): Promise<SchemaDiff> {
  const [old, now] = [bytesOf(before), bytesOf(after)]
  return asked('whole', (core) => core.json<SchemaDiff>('schema_diff', [old.length, reading(options)], joined([old, now])))
}

/** A step of a migration. Members that stay as they are have no step. */
export interface PlanStep {
  what: 'renamed' | 'widened' | 'converted' | 'default' | 'absent' | 'dropped'
  /** The path under the old schema, if there is one: `encoder.weight`, `points[].x`. */
  from?: string
  /** The path under the new schema, if there is one. */
  to?: string
  old?: string
  new?: string
  /** The converter that is applied. */
  by?: string
}

/** Changes that cannot be derived from the two schemas, as for the command `schema migrate`. */
export interface PlanOptions extends SchemaOptions {
  /** The old names of members and tensors, by their paths in the new schema. */
  renames?: Readonly<Record<string, string>> | undefined
  /** Converters by their paths in the new schema: `cast`, `map(cat=0, dog=1)`. */
  converters?: Readonly<Record<string, string>> | undefined
  /** Whether members and tensors that the new schema lacks may be left out. */
  drop?: boolean | undefined
}

/**
 * Returns the steps of a migration from one schema to another.
 *
 * @throws HoldallError `evolve/…` if the migration is not possible.
 */
export function planMigration(
  before: object | string, after: object | string, options: PlanOptions = {},
): Promise<PlanStep[]> {
  const { renames = {}, converters = {}, drop = false } = options
  const request = encode(JSON.stringify({ renames: Object.entries(renames), converters: Object.entries(converters), drop }))
  const [old, now] = [bytesOf(before), bytesOf(after)]
  return asked('whole', (core) => core.json<PlanStep[]>(
    'schema_plan', [request.length, old.length, reading(options)], joined([request, old, now])))
}
