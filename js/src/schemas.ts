import { Core, encode } from './core.js'
import { HoldallError } from './errors.js'
import { schemaText } from './schema/text.js'
import { joined } from './source.js'

/** A path of a schema: what stands there, and where its bytes lie. */
export interface OutlineRow {
  /** The names of members with a dot between them, `[]` for the elements of an array. */
  path: string
  /** In a few words: `Int32`, `F32 [20, 5]`, `String []`. */
  kind: string
  /** Bytes from the start of what `base` says. */
  offset: number | null
  /** Bytes of one value. */
  size: number | null
  /** Bytes from one value to the next, in an array. */
  stride: number | null
  align: number | null
  optional: boolean
  /** What the offset counts from: a record, the start of an element in the heap; a reference in the header has none. */
  base: 'header' | 'record' | 'heap'
}

/** One difference of two schemas. */
export interface SchemaChange {
  path: string
  /** `added`, `removed`, `widened`, … */
  change: string
  /** What it means for who reads old files by the new schema. */
  verdict: 'compatible' | 'needs-default' | 'needs-converter' | 'breaking'
  old?: string
  new?: string
  values?: string[]
}

/** How two schemas differ, and the step of a version that this asks for. */
export interface SchemaDiff {
  bump: 'patch' | 'minor' | 'major'
  changes: SchemaChange[]
}

/** The modules that schemas are asked of: one for all, until it ends. */
const cores: { basic?: Promise<Core> | undefined; whole?: Promise<Core> | undefined } = {}

async function asked<T>(part: keyof typeof cores, ask: (core: Core) => T): Promise<T> {
  try {
    return ask(await (cores[part] ??= Core.create(part)))
  } catch (e) {
    if (!(e instanceof HoldallError) || e.code === 'wasm/trap') cores[part] = undefined
    throw e
  }
}

/** The bytes of a schema: of an object as JSON, of a text as it is. */
const bytesOf = (schema: object | string): Uint8Array =>
  encode(schemaText(schema))

/** What a schema is one of: a record, or a file. Where it is not said it is what it looks like. */
export interface SchemaOptions {
  of?: 'record' | 'file' | undefined
}

const reading = ({ of }: SchemaOptions): number => (of === 'record' ? 1 : of === 'file' ? 2 : 0)

/**
 * Compiles a schema, and says what stands at each of its paths and where the bytes lie.
 *
 * @throws HoldallError the rule of schemas that is broken.
 */
export const outlineSchema = (
  schema: object | string, options: SchemaOptions = {},
): Promise<OutlineRow[]> =>
  asked('basic', (core) => core.json<OutlineRow[]>('schema_outline', [reading(options)], bytesOf(schema)))

/**
 * The schema of a file's header in standard keywords alone: in place of records, blobs and tensors it has their references, so
 * that `Value.Check` and any other validator checks the `tensors` of a header with it.
 *
 * @throws HoldallError for the schema of a record, which has no header.
 */
export const headerSchema = (schema: object | string): Promise<{ [keyword: string]: unknown }> =>
  asked('whole', (core) => core.json('schema_header', [], bytesOf(schema)))

/** Compares two schemas of one record, or of one file. */
export function diffSchemas(
  before: object | string, after: object | string, options: SchemaOptions = {},
): Promise<SchemaDiff> {
  const [old, now] = [bytesOf(before), bytesOf(after)]
  return asked('whole', (core) => core.json<SchemaDiff>('schema_diff', [old.length, reading(options)], joined([old, now])))
}

/** One thing that a migration does; what stays as it is has no step. */
export interface PlanStep {
  what: 'renamed' | 'widened' | 'converted' | 'default' | 'absent' | 'dropped'
  /** Its path under the old schema, if it is there: `encoder.weight`, `points[].x`. */
  from?: string
  /** Its path under the new one, if it is there. */
  to?: string
  old?: string
  new?: string
  /** The converter that makes it. */
  by?: string
}

/** What two schemas do not say of how one becomes the other: as the command's `schema migrate` takes it. */
export interface PlanOptions extends SchemaOptions {
  /** What members and tensors were called, by their paths in the new schema. */
  renames?: Readonly<Record<string, string>> | undefined
  /** What makes them, by their paths in the new schema: `cast`, `map(cat=0, dog=1)`. */
  converters?: Readonly<Record<string, string>> | undefined
  /** Whether what the new schema does not have may be left out. */
  drop?: boolean | undefined
}

/**
 * What a migration from one schema to another does.
 *
 * @throws HoldallError `evolve/…`, what stands in the way of one.
 */
export function planMigration(
  before: object | string, after: object | string, options: PlanOptions = {},
): Promise<PlanStep[]> {
  const { renames = {}, converters = {}, drop = false } = options
  const told = encode(JSON.stringify({ renames: Object.entries(renames), converters: Object.entries(converters), drop }))
  const [old, now] = [bytesOf(before), bytesOf(after)]
  return asked('whole', (core) => core.json<PlanStep[]>(
    'schema_plan', [told.length, old.length, reading(options)], joined([told, old, now])))
}
