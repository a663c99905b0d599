/**
 * What `"jsx": "react-jsxdev"` makes of tags: the same.
 *
 * @module
 */
export { Fragment, jsx as jsxDEV, type JSX } from './runtime.js'
