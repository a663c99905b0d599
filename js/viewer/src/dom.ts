/** Elements of the page. All text from files is inserted as text, by the functions here. */

type Child = Node | string | null | undefined | false
type Props = Record<string, string | number | boolean | ((event: any) => void) | undefined>

/** Creates an element with attributes, listeners and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, props: Props = {}, ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const out = document.createElement(tag)
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === 'function') out.addEventListener(name, value)
    else if (value === true) out.setAttribute(name, '')
    else if (value !== undefined && value !== false) out.setAttribute(name, String(value))
  }
  out.append(...children.flat().filter((child): child is Node | string => !!child || child === ''))
  return out
}

export function svg(tag: string, props: Record<string, string | number>, ...children: Node[]): SVGElement {
  const out = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(props)) out.setAttribute(name, String(value))
  out.append(...children)
  return out
}

/** Returns a name that can break after its separators. */
export const breakable = (name: string): Child[] => name.split(/(?<=[./_])/).flatMap((part, at) => (at === 0 ? [part] : [h('wbr'), part]))

/** Formats `1234567` as `1 234 567`. */
export const count = (n: number): string => String(n).replace(/\B(?=(\d{3})+$)/g, '\u202f')

/** Formats a number of bytes. */
export function size(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let unit = 0
  let n = bytes
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024
    unit++
  }
  return unit === 0 ? `${bytes} B` : `${n.toFixed(n < 10 ? 2 : n < 100 ? 1 : 0)} ${units[unit]}`
}

/** Formats a number in a few characters. */
export function short(x: number | bigint | [number, number] | null): string {
  if (x === null) return '–'
  if (typeof x === 'bigint') return String(x)
  if (Array.isArray(x)) return `${short(x[0])}, ${short(x[1])}i`
  if (Number.isInteger(x) && Math.abs(x) < 1e15) return String(x)
  return String(Number(x.toPrecision(6)))
}

export const table = (heads: string[], rows: (Node | string)[][], kinds: string[] = []): HTMLElement =>
  h('div', { class: 'box' }, h('div', { class: 'scroll' }, h('table', {},
    heads.length > 0 && h('thead', {}, h('tr', {}, heads.map((head, at) => h('th', { class: /\bn\b/.test(kinds[at] ?? '') ? 'n' : '' }, head)))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, at) => h('td', { class: kinds[at] ?? '' }, cell))))),
  )))
