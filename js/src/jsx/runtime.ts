/**
 * What `"jsx": "react-jsx", "jsxImportSource": "holdall"` makes of tags. Components of layouts are in `holdall/layout`.
 *
 * @module
 */

/** What is given to a component. */
export interface Props {
  readonly [name: string]: unknown
  readonly children?: Children
}

/** A node of a tree: what it is, and what was given to it. */
export interface Node {
  readonly type: string
  readonly props: Props
}

/** What may stand between two tags. What is nothing is left out. */
export type Children = Node | null | undefined | false | readonly Children[]

/** A component: what a tree is made of, by what is given to it. */
export type Component<P = any> = (props: P) => Node

/** Makes a node: a component is called at once. */
export function jsx(type: string | Component, props: Props | null): Node {
  return typeof type === 'function' ? type(props ?? {}) : { type, props: props ?? {} }
}

/** The same, where there are several children. */
export const jsxs = jsx

/** Nodes that stand where this one does. */
export const Fragment = (props: { children?: Children }): Node => ({ type: 'Fragment', props })

/** What TypeScript asks of tags. */
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
