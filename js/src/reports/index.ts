/**
 * Reports about files: statistics, differences, contents, and the imports of pickles.
 *
 * @module
 */
export {
  diff, type AttributeDiff, type ComponentDiff, type DiffOptions, type FileDiff, type LayerDiff, type TensorDiff, type TensorFacts, type ValueDiff,
} from './diff.js'
export { inspect, type FileReport, type InspectOptions, type TensorReport } from './inspect.js'
export { scan, type PickleImport, type PickleReport, type ScanReport, type ScanVerdict } from './scan.js'
export { stats, type Element, type Stats, type StatsOptions } from './stats.js'
