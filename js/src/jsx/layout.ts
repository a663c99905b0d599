/**
 * Layouts of files as JSX trees: the components, and rendering to schemas.
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

/** The properties of every component. */
export interface Named extends s.Options {
  /** The name in the parent; a surrounding `Field` may give it instead. The name of the root becomes its `title`. */
  name?: string
  /** Whether it may be absent. */
  optional?: boolean
}

/** An element type as in safetensors, in upper or lower case. */
export type DTypeName = s.DType | Lowercase<s.DType>

const component = <P>(type: string): Component<P> => (props) => ({ type, props: props as Props })

/** The root of a file. */
export const Model: Component<{ name?: string; children?: Children; additionalProperties?: boolean; title?: string; description?: string }> =
  component('Model')
/**
 * Members under one name: in a file an object of references, in a record a struct. A `Struct` at the root describes a
 * file.
 */
export const Struct: Component<Named & { children?: Children }> = component('Struct')
/** Elements in row-major order; `dtype` may list several allowed types. */
export const Tensor: Component<Named & { dtype?: DTypeName | readonly DTypeName[] | null; shape?: readonly s.Dim[] | null }> =
  component('Tensor')
/** Runs of bytes; only in a file. */
export const Blob: Component<Named & { content: 'utf-8' | 'bytes' | 'json' | DTypeName }> = component('Blob')
/**
 * Any number of records, whose members are the children; or of the type of the only child, if that has no name; or of
 * values of the kind `of`. In a file it is a dataset. In a record, `count` gives a fixed length.
 */
export const ArrayOf: Component<Named & { of?: s.Kind<any>; count?: number; children?: Children }> =
  component('ArrayOf')
/**
 * A list of references, whose members are the children, or of the type of the only child, if that has no name; only
 * in a file.
 */
export const List: Component<Named & { minItems?: number; maxItems?: number; children?: Children }> =
  component('List')
/** A member, of a kind of `holdall/schema` or of the type of the only child. */
export const Field: Component<Named & { type?: s.Kind<any>; children?: Children }> = component('Field')

/** Operations that convert a tree, node by node. */
export interface HostConfig<I> {
  /** Creates the instance of a node. */
  createInstance(type: string, props: Props): I
  /** Appends a child. */
  appendChild(parent: I, child: I): void
}

/**
 * A node of this or any other JSX library: components may not have been called yet, and children may be outside of
 * the props.
 */
export interface AnyNode {
  readonly type: unknown
  readonly props?: Readonly<Record<string, any>> | null
  readonly children?: unknown
}

/**
 * Renders a tree bottom-up: nodes may come from this package's `jsx`, or from any other function that returns `{
 * type, props }`.
 */
export function renderTo<I>(tree: AnyNode, config: HostConfig<I>): I {
  const { type, props } = called(tree)
  const instance = config.createInstance(type, props)
  for (const child of flat(props.children ?? (tree.children as Children))) {
    config.appendChild(instance, renderTo(child, config))
  }
  return instance
}

/** Returns a node after calling its components. */
function called(node: AnyNode): Node {
  const { type, props } = node
  if (typeof type === 'function') return called((type as Component)({ children: node.children, ...props }))
  return { type: String(type), props: props ?? {} }
}

/** Returns the children as a flat list, including those of fragments. */
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

/** An instance of a layout node. */
export interface Instance {
  readonly type: string
  readonly props: Props
  readonly children: Instance[]
}

const TYPES = ['Model', 'Struct', 'Tensor', 'Blob', 'ArrayOf', 'List', 'Field']

/** Converts trees to layouts. */
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

/** The layout of a file that a tree describes. */
export interface Layout {
  /** The schema, as JSON. */
  readonly schema: { [keyword: string]: s.Json }
  /** The tensors with a given element type and shape, by their paths. */
  readonly tensors: readonly { name: string; dtype: string; shape: number[] }[]
  /** Returns every path of the schema, with the offsets of bytes in records. */
  outline(): Promise<OutlineRow[]>
  /** Returns the location of each tensor in a Metatensor file that has exactly these tensors. */
  place(): Promise<Placed>
}

/** Renders a tree to a schema and offsets. Every property of an element ends up in the schema, or is an error. */
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
      if (open.length > 0) throw new TypeError(`the length of \`${open[0]}\` is not known`)
      return placeTensors(schema, tensors)
    },
  }
}

/** The differences between two trees. */
export interface Reconciled extends SchemaDiff {
  /** Returns the steps of a migration of a file; fails like `planMigration` if there is no migration. */
  plan(options?: Omit<PlanOptions, 'of'>): Promise<PlanStep[]>
}

/**
 * Compares two trees: returns the changes from the first schema to the second, and the version step that they
 * require.
 */
export async function reconcile(before: AnyNode, after: AnyNode): Promise<Reconciled> {
  const [old, now] = [render(before).schema, render(after).schema]
  const found = await diffSchemas(old, now, { of: 'file' })
  return { ...found, plan: (options) => planMigration(old, now, { ...options, of: 'file' }) }
}

/** An element with all of its properties, including those of the surrounding `Field`. */
interface Element {
  readonly type: string
  /** The path in the file, for errors: `conv1.weight`. */
  readonly path: string
  /** The name in the parent; undefined for the root and for elements of arrays. */
  readonly name: string | undefined
  readonly props: Record<string, any>
  readonly children: Element[]
}

function refused(type: string, path: string, found: string): never {
  throw new TypeError(`the \`${type}\` ${path === '' ? 'at the root' : `at \`${path}\``}: ${found}`)
}

/**
 * Converts an instance and its children to elements; `path` is that of the parent, or of the element if it has no
 * name.
 */
function elementOf(instance: Instance, path: string): Element {
  const { type, children } = instance
  const { key: _, children: __, name, ...props } = instance.props as Record<string, any>
  const at = typeof name === 'string' ? joined(path, name) : path
  if (name !== undefined && typeof name !== 'string') refused(type, path, 'its `name` is not a string')
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

/** Returns an element type in upper case. */
const capital = (name: unknown): any => (typeof name === 'string' && DTYPE.test(name) ? name.toUpperCase() : name)

/** Returns the kind of an element, inside or outside of a record. */
function kindOf(element: Element, inRecord: boolean): s.Kind<any> {
  const { type, path, children } = element
  const { optional, ...props } = element.props
  const members = (record: boolean): [string, s.Kind][] =>
    children.map((child) => [child.name!, kindOf(child, record)])
  /** The only child without a name, or a struct of all children. */
  const items = (record: boolean): s.Kind<any> => {
    if (children.length === 1 && children[0]!.name === undefined) return kindOf(children[0]!, record)
    return record ? s.Struct(members(true)) : s.References(members(false))
  }
  /** Returns the properties except those that are handled separately. */
  const options = (...taken: string[]) => Object.fromEntries(Object.entries(props).filter(([name]) => !taken.includes(name)))
  const outside = () => {
    if (inRecord) refused(type, path, 'it does not stand in a record')
  }
  /** Checks that an object of references has no properties that only apply to bytes. */
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
      const declared = { ...(dtype === undefined ? {} : { dtype: names }), ...(shape === undefined ? {} : { shape }) }
      kind = s.Tensor(declared, options('dtype', 'shape'))
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

/** Collects the tensors of a file, and the tensors of unknown length. */
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

/** Returns the path of a member. */
const joined = (path: string, name: string): string => {
  const own = name === '' ? '\\_' : name.replace(/[.[\\]/g, '\\$&')
  return path === '' ? own : `${path}.${own}`
}
