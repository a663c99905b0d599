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

/** What every component takes. */
export interface Named extends s.Options {
  /** What it is called in what it stands in; a `Field` around it may say that. The root may have a name, which becomes its `title`. */
  name?: string
  /** Whether it may be absent. */
  optional?: boolean
}

/** An element type as safetensors writes it, in capitals or not. */
export type DTypeName = s.DType | Lowercase<s.DType>

const component = <P>(type: string): Component<P> => (props) => ({ type, props: props as Props })

/** The root of a file. */
export const Model: Component<{ name?: string; children?: Children; additionalProperties?: boolean; title?: string; description?: string }> =
  component('Model')
/** Members under one name: of a file an object of references, of a record a struct. At the root it is that of a file. */
export const Struct: Component<Named & { children?: Children }> = component('Struct')
/** Elements in row-major order; `dtype` may list the types there may be. */
export const Tensor: Component<Named & { dtype?: DTypeName | readonly DTypeName[] | null; shape?: readonly s.Dim[] | null }> =
  component('Tensor')
/** Many runs of bytes; only of a file. */
export const Blob: Component<Named & { content: 'utf-8' | 'bytes' | 'json' | DTypeName }> = component('Blob')
/**
 * Any number of records, whose members are the children, or of what the only child without a name is, or of values of the kind
 * `of`: of a file a dataset. In a record `count` says that there are always so many.
 */
export const ArrayOf: Component<Named & { of?: s.Kind<any>; count?: number; children?: Children }> =
  component('ArrayOf')
/** A list of references, whose members are the children, or of what the only child without a name is; only of a file. */
export const List: Component<Named & { minItems?: number; maxItems?: number; children?: Children }> =
  component('List')
/** A member: of a kind of `holdall/schema`, or what the only child is. */
export const Field: Component<Named & { type?: s.Kind<any>; children?: Children }> = component('Field')

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
    return { type, props, children: [] }
  },
  appendChild(parent, child) {
    if (child.type === 'Model') throw new TypeError('a `Model` stands in nothing else')
    parent.children.push(child)
  },
}

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

/** Renders a tree to a schema and offsets. Everything that is said of an element is in the schema, or refused. */
export function render(tree: AnyNode): Layout {
  const root = renderTo(tree, LayoutHostConfig)
  if (root.type !== 'Model' && root.type !== 'Struct') throw new TypeError(`a layout is a \`Model\` or a \`Struct\`, not a \`${root.type}\``)
  const { name, title = name, ...props } = root.props as Record<string, unknown>
  const own = { ...root, type: 'Model', props: title === undefined ? props : { title, ...props } } as Instance
  const element = elementOf(own, '')
  const schema = toSchema(kindOf(element, false))
  const tensors: { name: string; dtype: string; shape: number[] }[] = []
  const open: string[] = []
  collect(element, tensors, open)
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

/** An element with all that is said of it, by itself or by the `Field` around it. */
interface Element {
  readonly type: string
  /** Where it is in the file, for errors: `conv1.weight`. */
  readonly path: string
  /** What it is called in what it stands in; nothing for the root, and for elements of arrays. */
  readonly name: string | undefined
  readonly props: Record<string, any>
  readonly children: Element[]
}

function refused(type: string, path: string, found: string): never {
  throw new TypeError(`the \`${type}\` ${path === '' ? 'at the root' : `at \`${path}\``}: ${found}`)
}

/** An instance and all below it as elements; `path` is that of what it stands in, and its own where it has no name. */
function elementOf(instance: Instance, path: string): Element {
  const { type, children } = instance
  const { key: _, children: __, name, ...props } = instance.props as Record<string, any>
  const at = typeof name === 'string' ? joined(path, name) : path
  if (name !== undefined && typeof name !== 'string') refused(type, path, 'its `name` is not a text')
  if (type === 'Field' && children.length > 0) {
    const [child, ...others] = children
    if (others.length > 0) refused(type, at, 'it has several children: make them members of a `Struct`')
    if ('type' in props) refused(type, at, 'it has a `type`, and a child, too')
    const inner = elementOf({ ...child!, props: { ...child!.props, name: child!.props['name'] ?? name } } as Instance, path)
    if (name !== undefined && inner.name !== name) refused(type, at, `its child has another name, \`${inner.name}\``)
    const twice = Object.keys(props).find((one) => one in inner.props)
    if (twice !== undefined) refused(type, at, `its child says \`${twice}\`, too`)
    return { ...inner, props: { ...inner.props, ...props } }
  }
  const isArray = type === 'ArrayOf' || type === 'List'
  const inside = isArray ? `${at}[]` : at
  const all = children.map((child) => elementOf(child, inside))
  const isOne = isArray && all.length === 1 && all[0]!.name === undefined
  if (['Tensor', 'Blob', 'Field'].includes(type) && all.length > 0) refused(type, at, 'it has children')
  const names = new Set<string>()
  for (const child of isOne ? [] : all) {
    if (child.name === undefined) refused(child.type, inside, 'it has no `name`')
    if (names.has(child.name)) refused(type, at, `two members are called \`${child.name}\``)
    names.add(child.name)
  }
  if (isOne && all[0]!.props['optional'] !== undefined) refused(all[0]!.type, inside, 'an element of an array is not `optional`')
  return { type, path: at, name, props, children: all }
}

const DTYPE = /^([fiu]\d+|bf16|f\d_e\dm\d(fnuz)?|c64|bool)$/i

/** An element type in capitals. */
const capital = (name: unknown): any => (typeof name === 'string' && DTYPE.test(name) ? name.toUpperCase() : name)

/** The kind of an element, in a record or outside of one. */
function kindOf(element: Element, inRecord: boolean): s.Kind<any> {
  const { type, path, children } = element
  const { optional, ...props } = element.props
  const members = (record: boolean): [string, s.Kind][] =>
    children.map((child) => [child.name!, kindOf(child, record)])
  /** The only child without a name, or a struct of all. */
  const items = (record: boolean): s.Kind<any> => {
    if (children.length === 1 && children[0]!.name === undefined) return kindOf(children[0]!, record)
    return record ? s.Struct(members(true)) : s.References(members(false))
  }
  /** What is said, but for those. */
  const options = (...taken: string[]) => Object.fromEntries(Object.entries(props).filter(([name]) => !taken.includes(name)))
  const outside = () => {
    if (inRecord) refused(type, path, 'it does not stand in a record')
  }
  /** An object of references has no bytes of its own. */
  const bare = () => {
    for (const name of ['align', 'default']) {
      if (name in props) refused(type, path, `\`${name}\` says nothing of an object of references: give it to its tensors`)
    }
  }
  let kind: s.Kind<any>
  switch (type) {
    case 'Model':
      if (optional !== undefined) refused(type, path, 'the root is not `optional`')
      bare()
      kind = s.References(members(false), props)
      break
    case 'Struct':
      if (!inRecord) bare()
      kind = inRecord ? s.Struct(members(true), props) : s.References(members(false), props)
      break
    case 'Tensor': {
      const { dtype, shape } = props
      const names = Array.isArray(dtype) ? dtype.map(capital) : capital(dtype)
      const said = { ...(dtype === undefined ? {} : { dtype: names }), ...(shape === undefined ? {} : { shape }) }
      kind = s.Tensor(said, options('dtype', 'shape'))
      break
    }
    case 'Blob':
      outside()
      kind = s.Blob(capital(props['content']), options('content'))
      break
    case 'List':
      outside()
      bare()
      kind = s.ReferenceList(items(false), props)
      break
    case 'Field':
      if (typeof props['type'] !== 'object' || props['type'] === null) refused(type, path, 'it has neither a `type` nor a child')
      kind = s.withOptions(props['type'] as s.Kind<any>, options('type'))
      break
    default: {
      const { of, count } = props
      if (of !== undefined && children.length > 0) refused(type, path, 'it has `of`, and children, too')
      const own = of ?? items(true)
      kind = count === undefined ? s.Array(own, options('of', 'count')) : s.FixedArray(own, count, options('of', 'count'))
    }
  }
  return optional === true ? s.Optional(kind) : kind
}

/** Gathers the tensors of a file, and what says not how long it is. */
function collect(
  { type, path, props, children }: Element, out: { name: string; dtype: string; shape: number[] }[], open: string[],
): void {
  const { shape } = props as { shape?: unknown[] }
  const dtype = capital(props['dtype'])
  const isSaid = typeof dtype === 'string' && shape?.every((n) => typeof n === 'number') === true
  if (type === 'Tensor' && isSaid) out.push({ name: path, dtype, shape: [...(shape as number[])] })
  else if (type !== 'Model' && type !== 'Struct') open.push(path)
  else for (const child of children) collect(child, out, open)
}

/** The path of a member. */
const joined = (path: string, name: string): string => {
  const own = name === '' ? '\\_' : name.replace(/[.[\\]/g, '\\$&')
  return path === '' ? own : `${path}.${own}`
}
