/**
 * The runtime for `"jsx": "react-jsx", "jsxImportSource": "holdall"`. The components of layouts are in
 * `holdall/layout`.
 *
 * @module
 */

/** The properties of a component. */
export interface Props {
  readonly [name: string]: unknown
  readonly children?: Children
}

/** A node of a tree: its type and properties. */
export interface Node {
  readonly type: string
  readonly props: Props
}

/** The children of an element. Null, undefined and false are ignored. */
export type Children = Node | null | undefined | false | readonly Children[]

/** A component: a function from properties to a node. */
export type Component<P = any> = (props: P) => Node

/** Creates a node. Components are called at once. */
export function jsx(type: string | Component, props: Props | null): Node {
  return typeof type === 'function' ? type(props ?? {}) : { type, props: props ?? {} }
}

/** The same, for several children. */
export const jsxs = jsx

/** A group of nodes that are inserted into the parent. */
export const Fragment = (props: { children?: Children }): Node => ({ type: 'Fragment', props })

/** The types that TypeScript needs to check JSX. */
export declare namespace JSX {
  type Element = Node
  type ElementType = Component
  interface IntrinsicElements {}
  interface IntrinsicAttributes {
    key?: string | number
  }
  interface ElementChildrenAttribute {
    children: {}
  }
}
