/**
 * What is found out about files: statistics, differences, everything that a table of contents says.
 *
 * @module
 */
export {
  diff, type AttributeDiff, type ComponentDiff, type DiffOptions, type FileDiff, type TensorDiff, type TensorFacts, type ValueDiff,
} from './diff.js'
export { inspect, type FileReport, type InspectOptions, type TensorReport } from './inspect.js'
export { stats, type Element, type Stats, type StatsOptions } from './stats.js'
