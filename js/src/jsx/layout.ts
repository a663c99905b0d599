/**
 * Layouts of files as trees: components, and what they are rendered to.
 *
 * @module
 */
import {
  diffSchemas, outlineSchema, planMigration, type OutlineRow, type PlanOptions, type PlanStep, type SchemaDiff,
} from '../schemas.js'
import * as s from '../schema/kinds.js'
import { toSchema } from '../schema/to-schema.js'
import { placeTensors, type Placed } from '../write.js'
import type { Children, Component, Node, Props } from './runtime.js'

export type { SchemaDiff } from '../schemas.js'
export type { Placed } from '../write.js'
export type { Children, Component, Node } from './runtime.js'

/** What every component that stands in another takes. */
export interface Named extends s.Options {
  /** What it is called in what it stands in. */
  name: string
  /** Whether it may be absent. */
  optional?: boolean
}

const component = <P>(type: string): Component<P> => (props) => ({ type, props: props as Props })

/** The root of a file. */
export const Model: Component<{ children?: Children; additionalProperties?: boolean; title?: string; description?: string }> =
  component('Model')
/** Members under one name: of a file an object of references, of a record a struct. */
export const Struct: Component<Named & { children?: Children }> = component('Struct')
/** Elements in row-major order. */
export const Tensor: Component<Named & { dtype?: s.DType | null; shape?: readonly s.Dim[] | null }> =
  component('Tensor')
/** Many runs of bytes; only of a file. */
export const Blob: Component<Named & { content: 'utf-8' | 'bytes' | 'json' | s.DType }> = component('Blob')
/**
 * Any number of records, whose members are the children, or of values of the kind `of`: of a file a dataset. In a record
 * `count` says that there are always so many.
 */
export const ArrayOf: Component<Named & { of?: s.Kind<any>; count?: number; children?: Children }> =
  component('ArrayOf')
/** A list of references, whose members are the children; only of a file. */
export const List: Component<Named & { minItems?: number; maxItems?: number; children?: Children }> =
  component('List')
/** A member of a kind of `holdall/schema`. */
export const Field: Component<Named & { type: s.Kind<any> }> = component('Field')

/** What makes something of a tree, node by node. */
export interface HostConfig<I> {
  /** What a node becomes. */
  createInstance(type: string, props: Props): I
  /** Puts a child behind those that are there. */
  appendChild(parent: I, child: I): void
}

/** A node as any library makes it: a component that was not called yet, or children beside the props, too. */
export interface AnyNode {
  readonly type: unknown
  readonly props?: Readonly<Record<string, any>> | null
  readonly children?: unknown
}

/** Renders a tree from its leaves up: of this package's `jsx`, or of any other function that makes `{ type, props }`. */
export function renderTo<I>(tree: AnyNode, config: HostConfig<I>): I {
  const { type, props } = called(tree)
  const instance = config.createInstance(type, props)
  for (const child of flat(props.children ?? (tree.children as Children))) {
    config.appendChild(instance, renderTo(child, config))
  }
  return instance
}

/** A node whose components are called. */
function called(node: AnyNode): Node {
  const { type, props } = node
  if (typeof type === 'function') return called((type as Component)({ children: node.children, ...props }))
  return { type: String(type), props: props ?? {} }
}

/** Children one after the other, those of fragments among them. */
function flat(children: unknown): AnyNode[] {
  if (children === null || children === undefined || typeof children === 'boolean') return []
  if (Array.isArray(children)) return children.flatMap(flat)
  if (typeof children !== 'object' || !('type' in children)) {
    throw new TypeError(`\`${String(children)}\` is not a component of a layout`)
  }
  const { type, props } = called(children as AnyNode)
  if (type !== 'Fragment') return [children as AnyNode]
  return flat(props.children ?? (children as AnyNode).children)
}

/** A node of a layout. */
export interface Instance {
  readonly type: string
  readonly props: Props
  readonly children: Instance[]
}

const TYPES = ['Model', 'Struct', 'Tensor', 'Blob', 'ArrayOf', 'List', 'Field']

/** Makes layouts of trees. */
export const LayoutHostConfig: HostConfig<Instance> = {
  createInstance(type, props) {
    if (!TYPES.includes(type)) throw new TypeError(`\`${type}\` is not a component of a layout`)
    if (type !== 'Model' && typeof props['name'] !== 'string') {
      throw new TypeError(`a \`${type}\` has no name`)
    }
    return { type, props, children: [] }
  },
  appendChild(parent, child) {
    if (child.type === 'Model') throw new TypeError('a `Model` stands in nothing else')
    const name = nameOf(child)
    if (parent.children.some((other) => nameOf(other) === name)) {
      throw new TypeError(`two members are called \`${name}\``)
    }
    parent.children.push(child)
  },
}

const nameOf = ({ props }: Instance): string => props['name'] as string

/** What a tree says of a file. */
export interface Layout {
  /** The schema, as JSON. */
  readonly schema: { [keyword: string]: s.Json }
  /** The tensors whose element type and shape are said, by their paths. */
  readonly tensors: readonly { name: string; dtype: string; shape: number[] }[]
  /** Every path of the schema, and where bytes of records lie. */
  outline(): Promise<OutlineRow[]>
  /** Where each tensor lies in a file of Metatensor that has all of them and nothing else. */
  place(): Promise<Placed>
}

/** Renders a tree to a schema and offsets. */
export function render(tree: AnyNode): Layout {
  const root = renderTo(tree, LayoutHostConfig)
  if (root.type !== 'Model') throw new TypeError(`a layout is a \`Model\`, not a \`${root.type}\``)
  const schema = toSchema(kindOf(root, false))
  const tensors: { name: string; dtype: string; shape: number[] }[] = []
  const open: string[] = []
  collect(root, '', tensors, open)
  return {
    schema,
    tensors,
    outline: () => outlineSchema(schema, { of: 'file' }),
    place: async () => {
      if (open.length > 0) throw new TypeError(`it is not said how long \`${open[0]}\` is`)
      return placeTensors(schema, tensors)
    },
  }
}

/** How one tree differs from another. */
export interface Reconciled extends SchemaDiff {
  /** What a migration of a file does; fails as `planMigration` where something stands in the way of one. */
  plan(options?: Omit<PlanOptions, 'of'>): Promise<PlanStep[]>
}

/** Compares two trees: how the schema of the second differs from that of the first, and the step of a version that this is. */
export async function reconcile(before: AnyNode, after: AnyNode): Promise<Reconciled> {
  const [old, now] = [render(before).schema, render(after).schema]
  const found = await diffSchemas(old, now, { of: 'file' })
  return { ...found, plan: (options) => planMigration(old, now, { ...options, of: 'file' }) }
}

/** The kind of an instance, in a record or outside of one. */
function kindOf(instance: Instance, inRecord: boolean): s.Kind<any> {
  const { type, props, children } = instance
  const { name: _, optional, children: __, dtype, shape, content, of, count, key: ___, ...options } =
    props as Record<string, any>
  const members = (record: boolean): [string, s.Kind][] =>
    children.map((child) => [nameOf(child), kindOf(child, record)])
  const outside = () => {
    if (inRecord) throw new TypeError(`a \`${type}\` does not stand in a record: \`${nameOf(instance)}\``)
  }
  let kind: s.Kind<any>
  switch (type) {
    case 'Model':
      kind = s.References(members(false), options)
      break
    case 'Struct':
      kind = inRecord ? s.Struct(members(true), options) : s.References(members(false), options)
      break
    case 'Tensor': {
      const said = { ...(dtype === undefined ? {} : { dtype }), ...(shape === undefined ? {} : { shape }) }
      kind = s.Tensor(said, options)
      break
    }
    case 'Blob':
      outside()
      kind = s.Blob(content, options)
      break
    case 'List':
      outside()
      kind = s.ReferenceList(s.References(members(false)), options)
      break
    case 'Field':
      kind = (options as { type: s.Kind<any> }).type
      break
    default: {
      const items = of ?? s.Struct(members(true))
      kind = count === undefined ? s.Array(items, options) : s.FixedArray(items, count, options)
    }
  }
  return optional === true ? s.Optional(kind) : kind
}

/** Gathers the tensors of a file, and what says not how long it is. */
function collect(
  { type, props, children }: Instance, path: string, out: { name: string; dtype: string; shape: number[] }[],
  open: string[],
): void {
  const { dtype, shape } = props as { dtype?: string; shape?: unknown[] }
  const isSaid = dtype != null && shape?.every((n) => typeof n === 'number') === true
  if (type === 'Tensor' && isSaid) out.push({ name: path, dtype, shape: [...(shape as number[])] })
  else if (type !== 'Model' && type !== 'Struct') open.push(path)
  else for (const child of children) collect(child, joined(path, nameOf(child)), out, open)
}

/** The path of a member. */
const joined = (path: string, name: string): string => {
  const own = name === '' ? '\\_' : name.replace(/[.[\\]/g, '\\$&')
  return path === '' ? own : `${path}.${own}`
}
