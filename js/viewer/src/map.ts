import { count, h, short } from './dom.js'

/** How much a tensor changed: relative to its values, and the share of its elements. */
export interface Change {
  /** Infinite if the values could not be compared, or if one became NaN or infinite. */
  relative: number
  share: number
  text: string
}

/** The greatest numbers of rows and columns of the map. */
const [ROWS, COLUMNS] = [512, 64]

/** Formats a share as a percentage. */
export const percent = (x: number): string => (x > 0 && x < 0.001 ? '<0.1 %' : x < 1 && x > 0.999 ? '>99.9 %' : `${Number((100 * x).toPrecision(3))} %`)

/** Returns the changes of all tensors that are in both files, by name: those that are not listed are the same. */
export function changesOf(found: any): Map<string, Change> {
  const out = new Map<string, Change>()
  for (const t of found.changed) {
    const v = t.values
    const isWhole = t.shapes !== null || t.incomparable !== null || (v === null && t.components.length > 0)
    const relative = isWhole || (v !== null && (v.nonFinite > 0 || v.relative === null)) ? Infinity : v?.relative ?? 0
    const share = isWhole ? 1 : v?.share ?? 0
    const text = t.shapes !== null ? 'another shape' : isWhole ? 'not compared element by element'
      : v === null ? 'equal values' : `${percent(share)} of the elements changed, by ${short(v.relative)} relative${v.nonFinite > 0 ? `, ${count(v.nonFinite)} of them NaN or infinite` : ''}`
    out.set(t.name, { relative, share, text })
  }
  return out
}

/** Returns the depth of the colour of a change, from 0 to 1: a step for each factor of ten from a millionth on. */
export function depthOf(relative: number): number {
  if (!(relative > 0)) return 0
  return Math.max(0.1, Math.min(1, 1 + Math.log10(relative) / 6))
}

/** Creates a square with the colour of a change. */
export function swatch(change: Change | undefined, tag: 'span' | 'button' = 'span'): HTMLElement {
  const out = h(tag, { class: `swatch${change?.relative === Infinity ? ' whole' : ''}` })
  out.style.setProperty('--depth', `${(100 * depthOf(change?.relative ?? 0)).toFixed(0)}%`)
  return out
}

/** Splits a name into its layer and the rest, as the core does: the layer ends with the first number between points. */
export function layerOf(name: string): [string, string] | null {
  let start = 0
  for (let at = 0; at < name.length; at++) {
    if (name[at] !== '.' && name[at] !== '/') continue
    if (start > 0 && /^\d+$/.test(name.slice(start, at))) return [name.slice(0, at), name.slice(at + 1)]
    start = at + 1
  }
  return null
}

/** Renders all tensors of a model as a map: a row for each layer, a column for each kind of tensor, coloured by relative change. */
export function changeMap(names: string[], found: any, onChoose: (name: string) => void): HTMLElement | null {
  const changes = changesOf(found)
  const removed = new Set(found.removed.map((t: any) => t.name))
  const rows = new Map<string, Map<string, string[]>>()
  const kinds = new Set<string>()
  const others: string[] = []
  for (const name of names) {
    const parts = layerOf(name)
    if (parts === null) {
      others.push(name)
      continue
    }
    // Experts are one column.
    const kind = parts[1].replace(/(^|[./])\d+(?=[./]|$)/g, '$1*')
    if (!kinds.has(kind) && kinds.size === COLUMNS) continue
    kinds.add(kind)
    const row = rows.get(parts[0]) ?? new Map<string, string[]>()
    rows.set(parts[0], row)
    row.set(kind, [...row.get(kind) ?? [], name])
  }
  if (rows.size < 2) return null
  const cell = (all: string[] | undefined): HTMLElement => {
    if (all === undefined) return h('span', { class: 'swatch none' })
    const worst = all.reduce((a, b) => ((changes.get(b)?.relative ?? 0) > (changes.get(a)?.relative ?? 0) ? b : a))
    const change = changes.get(worst)
    const out = swatch(change, 'button')
    const text = removed.has(worst) ? 'only in the first' : change?.text ?? 'the same'
    if (removed.has(worst)) out.classList.add('gone')
    const more = all.length > 1 ? ` (most changed of ${all.length})` : ''
    out.title = `${worst}: ${text}${more}`
    out.setAttribute('aria-label', out.title)
    out.addEventListener('click', () => onChoose(worst))
    return out
  }
  const columns = [...kinds]
  const relativeOf = new Map<string, number | null>(found.layers.map((l: any) => [l.name, l.relative]))
  const shown = [...rows].sort(([a], [b]) => new Intl.Collator('en', { numeric: true }).compare(a, b)).slice(0, ROWS)
  const grid = h('div', { class: 'map', role: 'group', 'aria-label': 'changes by layer' },
    h('span'), ...columns.map((kind) => h('span', { class: 'kind', title: kind }, h('span', {}, kind.replace(/\.weight$/, '')))), h('span', { class: 'kind' }),
    ...shown.flatMap(([layer, row]) => [
      h('span', { class: 'layer', title: layer }, layer),
      ...columns.map((kind) => cell(row.get(kind))),
      h('span', { class: 'sum', title: 'the relative change of the layer' }, shortOf(relativeOf.get(layer))),
    ]))
  grid.style.setProperty('--columns', String(columns.length))
  const rest = others.length === 0 ? null : h('div', { class: 'outside' },
    ...others.slice(0, ROWS).map((name) => h('span', {}, cell([name]), ' ', name)))
  const scale = h('p', { class: 'note scale' }, 'relative change: ', ...[1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1].flatMap((x) =>
    [swatch({ relative: x, share: 1, text: '' }), ` ${x < 1e-3 ? x.toExponential().replace('e-', 'e−') : x} `]))
  const left = rows.size > ROWS ? h('p', { class: 'note' }, `${count(rows.size - ROWS)} more layers are not shown.`) : null
  return h('div', {}, h('div', { class: 'box' }, h('div', { class: 'scroll maps' }, grid, rest)), scale, left)
}

const shortOf = (x: number | null | undefined): string => (x === null || x === undefined ? '' : x === 0 ? '0' : x.toPrecision(2))
