import { breakable, count, h, short, size, svg, table } from './dom.js'
import { Heatmap, ZOOMS, rangeOf, type Place } from './heatmap.js'
import type { Cell, TensorFacts, Trouble } from './protocol.js'
import { Failure, type Backend } from './rpc.js'

/** Bytes that are read without a click. */
const AT_ONCE = 64 << 20
/** Records on a page, and columns and rows of values. */
const [RECORDS, COLUMNS, ROWS] = [50, 8, 12]

/** The view of a tensor, which is part of the page's address. */
export interface View {
  /** The number of leading dimensions that become rows. */
  split: number
  row: number
  column: number
  zoom: number
}

export const alert = (trouble: Trouble, kind = ''): HTMLElement =>
  h('div', { class: `alert ${kind}`, role: 'status' }, trouble.message, ' ',
    h('span', { class: 'code' }, trouble.code), trouble.advice !== null && h('div', { class: 'soft' }, trouble.advice))

export const troubleOf = (e: unknown): Trouble =>
  e instanceof Failure ? e.trouble : { code: '', message: e instanceof Error ? e.message : String(e), advice: null }

export const pairsTable = (pairs: [string, string][]): HTMLElement =>
  table([], pairs.map(([key, value]) => [key, value]), ['key mono', 'long'])

/** Returns the number of rows and columns. */
function cut(shape: number[], split: number): [rows: number, columns: number] {
  const product = (all: number[]) => all.reduce((a, b) => a * b, 1)
  return [product(shape.slice(0, split)), product(shape.slice(split))]
}

/** Returns the default split between rows and columns, for which both are long. */
function usual(shape: number[]): number {
  if (shape.length < 2) return shape.length
  return shape.at(-1)! >= 16 ? shape.length - 1 : 1
}

/** The pane for one tensor. */
export class TensorPane {
  readonly element: HTMLElement
  readonly #backend: Backend
  readonly #slot: number
  readonly #at: number
  readonly #facts: TensorFacts
  readonly #onView: (view: View) => void
  readonly #stop = new AbortController()
  #heatmap: Heatmap | null = null
  #split: number
  #values = h('div', { class: 'values' })
  #valuesFrom = 0

  constructor(backend: Backend, slot: number, at: number, facts: TensorFacts, view: Partial<View>, onView: (view: View) => void) {
    this.#backend = backend
    this.#slot = slot
    this.#at = at
    this.#facts = facts
    this.#onView = onView
    const { shape, layout, dense, fault, attributes, components, storedLen } = facts
    this.#split = Math.min(shape.length, view.split ?? usual(shape))
    const decoded = components.reduce((sum, c) => sum + (c.decodedLen ?? 0), 0)
    const chip = (name: string, value: string) => h('span', { class: 'chip' }, `${name} `, h('b', {}, value))
    this.element = h('div', {},
      h('h1', { class: 'mono' }, facts.name === '' ? '(no name)' : breakable(facts.name)),
      h('div', { class: 'chips' },
        chip('type', dense?.split(' ').at(-1) ?? layout), chip('shape', `[${shape.join(', ')}]`),
        layout !== 'dense' && dense !== null && chip('layout', layout), chip('elements', count(facts.count)),
        chip('stored', size(storedLen)), decoded !== storedLen && decoded > 0 && chip('decoded', size(decoded))))
    if (fault !== null) this.#section('Cannot be read', alert(fault))
    else if (layout === 'records') this.#records()
    else if (dense !== null && facts.count > 0) {
      this.#statistics()
      this.#map(view)
      this.#section('Values', this.#values)
      // After the requests of the heat map in this frame.
      requestAnimationFrame(() => void this.#showValues(0))
    }
    if (attributes.length > 0) this.#section('Attributes', pairsTable(attributes))
    this.#section('Components', table(['role', 'type', 'encoding', 'stored', 'decoded', 'offset', 'digest'], components.map((c) => [
      c.role, c.type, c.encoding, size(c.storedLen), c.decodedLen === null ? '?' : size(c.decodedLen),
      c.offset === null ? 'in the table of contents' : count(c.offset), c.digest ?? '–',
    ]), ['mono', 'mono', '', 'n', 'n', 'n', 'mono long']))
    if (fault === null && (dense === null || facts.count === 0) && layout !== 'records') void this.#bytes()
  }

  close(): void {
    this.#stop.abort()
    this.#heatmap?.close()
  }

  theme(): void {
    this.#heatmap?.theme()
  }

  #section(title: string, ...children: (Node | string)[]): HTMLElement {
    const out = h('section', {}, h('h2', {}, title), ...children)
    this.element.append(out)
    return out
  }

  #statistics(): void {
    const { storedLen, count: all } = this.#facts
    const body = h('div')
    const run = async () => {
      const progress = h('progress', { max: 1, value: 0 })
      body.replaceChildren(h('div', { class: 'note' }, 'reading … ', progress))
      try {
        const found = await this.#backend.call('stats', [this.#slot, this.#at, 64], {
          signal: this.#stop.signal, onProgress: (done, of) => progress.setAttribute('value', String(done / Math.max(1, of))),
        })
        body.replaceChildren(figures(found))
        if (found.min !== null && found.mean !== null) {
          this.#heatmap?.setRange(...rangeOf(Number(found.min), Number(found.max), found.mean, found.std ?? 0))
        }
      } catch (e) {
        if (!this.#stop.signal.aborted) body.replaceChildren(alert(troubleOf(e)))
      }
    }
    if (storedLen <= AT_ONCE && all <= AT_ONCE) void run()
    else body.append(h('button', { click: () => void run() }, `Go through all ${size(storedLen)}`))
    this.#section('Statistics', body)
  }

  #map(view: Partial<View>): void {
    const { shape, count: all } = this.#facts
    const here = h('span', { class: 'here' })
    const trouble = h('div')
    const heatmap = new Heatmap(
      (start, end, signal) => this.#backend.call('numbers', [this.#slot, this.#at, start, end], { signal }),
      (place, value) => {
        here.textContent = place === null ? '' : `[${this.#index(place).join(', ')}]  ${short(value)}`
      },
      () => this.#moved(),
      (e) => trouble.replaceChildren(alert(troubleOf(e))), here,
    )
    this.#heatmap = heatmap
    const zoom = h('select', { 'aria-label': 'pixels of an element', change: () => {
      heatmap.setZoom(Number(zoom.value))
      this.#moved()
    } }, ZOOMS.map((n) => h('option', { value: n }, `${n}×`)))
    const set = (split: number) => {
      this.#split = split
      // A vector is wrapped into lines.
      const [rows, columns] = shape.length < 2 ? folded(all) : cut(shape, split)
      heatmap.set({ rows, columns, count: all })
    }
    const dims = shape.map((n, at) => `${at}: ${n}`)
    const splits = h('select', { change: () => {
      set(Number(splits.value))
      heatmap.go({ row: 0, column: 0 })
      this.#moved()
    } }, dims.slice(1).map((_, at) => h('option', { value: at + 1 }, `${shape.slice(0, at + 1).join('×')} by ${shape.slice(at + 1).join('×')}`)))
    const goTo = h('input', { type: 'text', placeholder: shape.map(() => '0').join(', '), 'aria-label': 'index to go to', change: () => {
      const index = goTo.value.split(/[\s,]+/).filter((part) => part !== '').map(Number)
      const flat = shape.reduce((sum, n, at) => sum * n + Math.min(n - 1, Math.max(0, Math.trunc(index[at] || 0))), 0)
      const [, columns] = shape.length < 2 ? folded(all) : cut(shape, this.#split)
      heatmap.go({ row: Math.floor(flat / columns), column: flat % columns })
      void this.#showValues(flat)
    } })
    const box = h('div', { class: 'box' }, h('div', { class: 'tools' },
      shape.length > 2 && h('label', {}, 'rows by columns', splits),
      h('label', {}, 'size', zoom),
      shape.length > 0 && h('label', {}, 'go to', goTo)), heatmap.element)
    const best = (): number => {
      const [rows, columns] = shape.length < 2 ? folded(all) : cut(shape, this.#split)
      return [...ZOOMS].reverse().find((n) => n <= 16 && n * columns <= 1020 && n * rows <= 1600) ?? (columns < 500 ? 2 : 1)
    }
    this.#section('Heat map', box, trouble)
    splits.value = String(this.#split)
    const first = view.zoom !== undefined && ZOOMS.includes(view.zoom) ? view.zoom : best()
    zoom.value = String(first)
    heatmap.setZoom(first)
    set(this.#split)
    const port = box.querySelector<HTMLElement>('.heat')!
    const [rows] = shape.length < 2 ? folded(all) : cut(shape, this.#split)
    port.style.height = `${Math.min(Math.max(rows * first + 14, 46), Math.max(260, Math.round(window.innerHeight * 0.52)))}px`
    port.addEventListener('click', (event) => {
      const place = heatmap.at(event)
      if (place !== null) void this.#showValues(this.#flat(place))
    })
    // When it is on the page and has a size.
    requestAnimationFrame(() => heatmap.go({ row: view.row ?? 0, column: view.column ?? 0 }))
  }

  #moved(): void {
    if (this.#heatmap === null) return
    const { row, column } = this.#heatmap.place
    this.#onView({ split: this.#split, row, column, zoom: this.#heatmap.zoom })
  }

  #flat({ row, column }: Place): number {
    const { shape, count: all } = this.#facts
    const [, columns] = shape.length < 2 ? folded(all) : cut(shape, this.#split)
    return row * columns + column
  }

  #index(place: Place): number[] {
    return unravel(this.#facts.shape, this.#flat(place))
  }

  /** Shows a few values as numbers, starting with the line that contains the element. */
  async #showValues(flat: number): Promise<void> {
    const { shape, count: all } = this.#facts
    const width = Math.max(1, Math.min(COLUMNS, shape.at(-1) ?? 1))
    const last = shape.at(-1) ?? 1
    const column = Math.min(flat % last, Math.max(0, last - width))
    const start = Math.max(0, Math.min(flat - (flat % last), all - last))
    this.#valuesFrom = start + column
    const from = this.#valuesFrom
    const rows = Math.max(1, Math.min(ROWS, Math.ceil((all - start) / last)))
    try {
      const lines = await Promise.all(Array.from({ length: shape.length < 2 ? 1 : rows }, (_, n) => {
        const at = from + n * last
        return this.#backend.call('texts', [this.#slot, this.#at, at, Math.min(all, at + width)], { signal: this.#stop.signal })
      }))
      if (from !== this.#valuesFrom) return
      const vector = shape.length < 2
      const folded = vector ? await this.#vector(from) : lines
      const step = vector ? COLUMNS : last
      const heads = h('tr', {}, h('th'), Array.from({ length: folded[0]?.length ?? 0 }, (_, n) => h('th', {}, vector ? `+${n}` : count(column + n))))
      const body = folded.map((line, n) => h('tr', {},
        h('th', {}, vector ? count(from + n * step) : `[${unravel(shape, from + n * step).slice(0, -1).join(', ')}]`),
        line.map((text) => h('td', {}, text))))
      const move = (by: number) => () => void this.#showValues(Math.max(0, Math.min(all - 1, from + by)))
      const page = vector ? COLUMNS * ROWS : last * ROWS
      const buttons = all > width * ROWS && h('div', { class: 'tools' },
        h('button', { click: move(-page), 'aria-label': 'values before' }, '↑'), h('button', { click: move(page), 'aria-label': 'values after' }, '↓'),
        !vector && last > width && h('button', { click: move(-width), 'aria-label': 'columns before' }, '←'),
        !vector && last > width && h('button', { click: move(width), 'aria-label': 'columns after' }, '→'),
        h('span', { class: 'note' }, 'or click into the heat map'))
      this.#values.replaceChildren(h('div', { class: 'box' }, buttons || '', h('div', { class: 'scroll' }, h('table', {}, heads, body))))
    } catch (e) {
      if (!this.#stop.signal.aborted) this.#values.replaceChildren(alert(troubleOf(e)))
    }
  }

  async #vector(from: number): Promise<string[][]> {
    const end = Math.min(this.#facts.count, from + COLUMNS * ROWS)
    const all = await this.#backend.call('texts', [this.#slot, this.#at, from, end], { signal: this.#stop.signal })
    return Array.from({ length: Math.ceil(all.length / COLUMNS) }, (_, n) => all.slice(n * COLUMNS, (n + 1) * COLUMNS))
  }

  #records(): void {
    const body = h('div')
    const title = this.#section('Records', body).querySelector('h2')!
    const show = async (start: number) => {
      try {
        const page = await this.#backend.call('records', [this.#slot, this.#at, start, start + RECORDS], { signal: this.#stop.signal })
        const rows = page.rows.map((row, n) => [String(start + n), ...row.map(cellOf)])
        const isNumber = page.columns.map((_, at) => page.rows.every((row) => /^-?[\d.e+-]*$/.test(String(row[at]))))
        body.replaceChildren(table(['', ...page.columns], rows, ['n index', ...isNumber.map((is) => (is ? 'n mono' : 'long'))]))
        const end = Math.min(page.count, start + RECORDS)
        title.replaceChildren('Records', h('span', { class: 'soft' }, `${count(start)}–${count(end)} of ${count(page.count)}`),
          start > 0 && h('button', { click: () => void show(Math.max(0, start - RECORDS)) }, 'before') || '',
          end < page.count && h('button', { click: () => void show(end) }, 'after') || '')
      } catch (e) {
        if (!this.#stop.signal.aborted) body.replaceChildren(alert(troubleOf(e)))
      }
    }
    if (this.#facts.count > 0) void show(0)
  }

  async #bytes(): Promise<void> {
    for (const [at, c] of this.#facts.components.entries()) {
      if (c.storedLen === 0) continue
      const body = this.#section(`Bytes of ${c.role}`)
      try {
        const { text, hex, isCut } = await this.#backend.call('bytes', [this.#slot, this.#at, at], { signal: this.#stop.signal })
        body.append(h('div', { class: 'box card' }, h('pre', {}, text ?? hex, isCut ? ' …' : '')))
      } catch (e) {
        if (!this.#stop.signal.aborted) body.append(alert(troubleOf(e)))
      }
    }
  }
}

/** Wraps a vector into lines of a picture. */
function folded(all: number): [rows: number, columns: number] {
  const columns = Math.min(all, all > 16_384 ? 1024 : 64)
  return [Math.ceil(all / Math.max(1, columns)), columns]
}

export function unravel(shape: number[], flat: number): number[] {
  const out = new Array<number>(shape.length)
  for (let at = shape.length - 1; at >= 0; at--) {
    out[at] = flat % shape[at]!
    flat = Math.floor(flat / shape[at]!)
  }
  return out
}

function cellOf(cell: Cell): Node | string {
  if (typeof cell === 'string') return cell
  if ('bytes' in cell) return h('span', { class: 'soft' }, `${count(cell.bytes)} bytes`)
  return picture(cell.image, cell.type, `${cell.type}, ${count(cell.image.length)} bytes`)
}

/** Shows a picture from the file with a caption, or the caption alone if it cannot be shown. */
export function picture(image: Uint8Array, type: string, says: string): HTMLElement {
  const url = URL.createObjectURL(new Blob([image as BlobPart], { type }))
  const forget = () => URL.revokeObjectURL(url)
  return h('img', { src: url, alt: says, load: forget, error: forget })
}

/** Renders statistics and a histogram. */
function figures(found: any): HTMLElement {
  const rows: [string, string][] = [
    ['min', short(found.min)], ['max', short(found.max)], ['mean', short(found.mean)], ['std', short(found.std)],
    ['zeros', share(found.zeros, found.count)],
  ]
  if (found.nan > 0) rows.push(['no number', count(found.nan)])
  if (found.inf > 0) rows.push(['infinite', count(found.inf)])
  if (found.negInf > 0) rows.push(['−infinite', count(found.negInf)])
  if (found.measure === 'magnitude') rows.push(['of', 'magnitudes'])
  const list = h('dl', { class: 'box' }, rows.flatMap(([key, value]) => [h('dt', {}, key), h('dd', {}, value)]))
  const { histogram } = found
  if (histogram === null) return h('div', { class: 'figures' }, list)
  const most = Math.max(1, ...histogram.counts)
  const n = histogram.counts.length
  const width = 640 / n
  const step = (histogram.max - histogram.min) / n
  const bars = histogram.counts.map((value: number, at: number) => {
    const height = value === 0 ? 0 : Math.max(1, (value / most) * 128)
    const bar = svg('rect', { x: at * width + 0.5, y: 130 - height, width: Math.max(1, width - 1), height, rx: 1 })
    const title = document.createElementNS('http://www.w3.org/2000/svg', 'title')
    title.textContent = `${short(histogram.min + at * step)} to ${short(histogram.min + (at + 1) * step)}: ${count(value)}`
    bar.append(title)
    return bar
  })
  const picture = svg('svg', { viewBox: '0 0 640 130', preserveAspectRatio: 'none', role: 'img', 'aria-label': `histogram of ${count(found.count)} values` }, ...bars)
  return h('div', { class: 'figures' }, list, h('div', { class: 'box bars' }, picture,
    h('div', { class: 'ends' }, h('span', {}, short(histogram.min)), h('span', {}, n > 1 ? short((histogram.min + histogram.max) / 2) : ''), h('span', {}, short(histogram.max)))))
}

const share = (n: number, all: number): string =>
  n === 0 ? '0' : `${count(n)}  (${Number(((n / all) * 100).toPrecision(3))} %)`
