/**
 * The runtime for `"jsx": "react-jsxdev"`, the same as the normal one.
 *
 * @module
 */
export { Fragment, jsx as jsxDEV, type JSX } from './runtime.js'
