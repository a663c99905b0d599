/**
 * Schemas of Metatensor in TypeScript, with static types; alone, or inside TypeBox 1.x.
 *
 * @module
 */
export * from './kinds.js'
export { schemaText } from './text.js'
export { SchemaError, toSchema } from './to-schema.js'
