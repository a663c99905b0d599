import { h, short } from './dom.js'

/** Elements per read: 4 MiB. */
const BLOCK = 1 << 20
/** The number of cached blocks: 64 MiB. */
const KEPT = 16
/** The maximum size of an element in browsers, in pixels, with a margin. */
const LONGEST = 8_000_000
export const ZOOMS = [1, 2, 4, 8, 16, 32]

/** The part of a tensor that is shown, with its elements as rows and columns. */
export interface Map2D {
  rows: number
  columns: number
  /** The total number of elements: the last row may be shorter. */
  count: number
}

export interface Place {
  row: number
  column: number
}

/** Colours for low, middle and high values. */
type Stops = [number[], number[], number[]]

const stops = (isDark: boolean): Stops => isDark
  ? [[104, 170, 240], [32, 36, 43], [244, 141, 106]]
  : [[33, 102, 172], [247, 246, 242], [190, 58, 38]]

/** A heat map that reads and draws only the visible part. */
export class Heatmap {
  readonly element: HTMLElement
  readonly #read: (start: number, end: number, signal: AbortSignal) => Promise<ArrayLike<number>>
  readonly #onPlace: (place: Place | null, value: number | null) => void
  readonly #onMove: () => void
  readonly #onTrouble: (e: unknown) => void
  readonly #canvas = h('canvas')
  readonly #spacer = h('div', { class: 'spacer' })
  readonly #port: HTMLElement
  readonly #legend = h('canvas', { width: 130, height: 1 })
  readonly #low = h('span')
  readonly #high = h('span')
  readonly #small = document.createElement('canvas')
  #map: Map2D = { rows: 0, columns: 0, count: 0 }
  #zoom = 8
  #range: [number, number] | null = null
  #colours = new Uint32Array(512)
  readonly #blocks = new Map<string, ArrayLike<number> | null>()
  #stop = new AbortController()
  #frame = 0
  #hasFailed = false
  #pending = 0

  constructor(
    read: (start: number, end: number, signal: AbortSignal) => Promise<ArrayLike<number>>,
    onPlace: (place: Place | null, value: number | null) => void,
    onMove: () => void, onTrouble: (e: unknown) => void, here: HTMLElement,
  ) {
    this.#read = read
    this.#onPlace = onPlace
    this.#onMove = onMove
    this.#onTrouble = onTrouble
    this.#port = h('div', { class: 'port', tabindex: 0, role: 'img', 'aria-label': 'heat map of the values; arrow keys scroll' }, this.#canvas, this.#spacer)
    this.#port.addEventListener('scroll', () => {
      this.#schedule()
      this.#onMove()
    })
    this.#port.addEventListener('mousemove', (event) => this.#hover(event))
    this.#port.addEventListener('mouseleave', () => this.#onPlace(null, null))
    new ResizeObserver(() => this.#schedule()).observe(this.#port)
    this.element = h('div', {}, h('div', { class: 'heat' }, this.#port),
      h('div', { class: 'legend' }, this.#low, this.#legend, this.#high, here))
    this.#recolour()
  }

  get zoom(): number {
    return this.#zoom
  }

  /** The first visible row and column. */
  get place(): Place {
    const { x, y } = this.#offset()
    return { row: Math.floor(y / this.#zoom), column: Math.floor(x / this.#zoom) }
  }

  close(): void {
    this.#stop.abort()
    cancelAnimationFrame(this.#frame)
    this.#blocks.clear()
  }

  set(map: Map2D): void {
    this.#map = map
    this.#stop.abort()
    this.#stop = new AbortController()
    this.#blocks.clear()
    this.#hasFailed = false
    this.#resize()
  }

  setZoom(zoom: number): void {
    const { row, column } = this.place
    this.#zoom = zoom
    this.#resize()
    this.go({ row, column })
  }

  /** Sets the values at the ends of the colour scale. */
  setRange(low: number, high: number): void {
    this.#range = [low, high]
    this.#schedule()
    this.#tell()
  }

  /** Scrolls an element to the upper left corner. */
  go({ row, column }: Place): void {
    const width = this.#map.columns * this.#zoom
    const height = this.#map.rows * this.#zoom
    const { clientWidth, clientHeight } = this.#port
    const to = (at: number, full: number, shown: number, view: number) =>
      full === shown ? at : (at / Math.max(1, full - view)) * (shown - view)
    this.#port.scrollLeft = to(column * this.#zoom, width, Math.min(width, LONGEST), clientWidth)
    this.#port.scrollTop = to(row * this.#zoom, height, Math.min(height, LONGEST), clientHeight)
    this.#schedule()
  }

  theme(): void {
    this.#recolour()
    this.#schedule()
  }

  #tell(): void {
    const [low, high] = this.#range ?? [0, 0]
    this.#low.textContent = short(Number(low.toPrecision(4)))
    this.#high.textContent = short(Number(high.toPrecision(4)))
  }

  #recolour(): void {
    const [a, b, c] = stops(document.documentElement.dataset.theme === 'dark')
    for (let n = 0; n < 512; n++) {
      const t = n / 511
      const [from, to, share] = t < 0.5 ? [a, b, t * 2] : [b, c, t * 2 - 1]
      const [red, green, blue] = from.map((x, i) => Math.round(x + (to[i]! - x) * share))
      this.#colours[n] = (255 << 24) | (blue! << 16) | (green! << 8) | red!
    }
    const context = this.#legend.getContext('2d')!
    const image = context.createImageData(130, 1)
    const pixels = new Uint32Array(image.data.buffer)
    for (let x = 0; x < 130; x++) pixels[x] = this.#colours[Math.round((x / 129) * 511)]!
    context.putImageData(image, 0, 0)
  }

  #resize(): void {
    this.#spacer.style.width = `${Math.min(this.#map.columns * this.#zoom, LONGEST)}px`
    this.#spacer.style.height = `${Math.min(this.#map.rows * this.#zoom, LONGEST)}px`
    this.#schedule()
  }

  /** The number of pixels to the left of and above the visible part. */
  #offset(): { x: number; y: number } {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.#port
    const from = (at: number, full: number, view: number) => {
      const shown = Math.min(full, LONGEST)
      return full === shown ? at : (at / Math.max(1, shown - view)) * (full - view)
    }
    return {
      x: from(scrollLeft, this.#map.columns * this.#zoom, clientWidth),
      y: from(scrollTop, this.#map.rows * this.#zoom, clientHeight),
    }
  }

  #schedule(): void {
    cancelAnimationFrame(this.#frame)
    this.#frame = requestAnimationFrame(() => this.#draw())
  }

  /** The number of rows of a block, and of elements in each row. */
  #shape(): { rows: number; columns: number } {
    const { columns } = this.#map
    return columns >= BLOCK ? { rows: 1, columns: BLOCK } : { rows: Math.max(1, Math.floor(BLOCK / Math.max(1, columns))), columns }
  }

  #block(key: string, band: number, part: number): ArrayLike<number> | null {
    const found = this.#blocks.get(key)
    if (found !== undefined) {
      this.#blocks.delete(key)
      this.#blocks.set(key, found)
      return found
    }
    // Further blocks are requested when these have arrived, if they are still visible; the first block, which sets
    // the colour range, is requested alone.
    if (this.#hasFailed || this.#pending >= (this.#range === null ? 1 : 3)) return null
    this.#blocks.set(key, null)
    this.#pending++
    const { rows, columns } = this.#shape()
    const start = band * rows * this.#map.columns + part * columns
    const len = rows > 1 ? rows * this.#map.columns : Math.min(columns, this.#map.columns - part * columns)
    const end = Math.min(this.#map.count, start + len)
    const stop = this.#stop
    this.#read(start, end, stop.signal).then((values) => {
      if (stop.signal.aborted) return
      if (this.#range === null) this.#guess(values)
      this.#blocks.set(key, values)
      for (const old of this.#blocks.keys()) {
        if (this.#blocks.size <= KEPT) break
        if (this.#blocks.get(old) !== null) this.#blocks.delete(old)
      }
      this.#schedule()
    }).catch((e: unknown) => {
      if (stop.signal.aborted) return
      this.#blocks.delete(key)
      this.#hasFailed = true
      this.#onTrouble(e)
    }).finally(() => {
      this.#pending--
      this.#schedule()
    })
    return null
  }

  /**
   * Estimates the colour range from the first values: three standard deviations around the mean, symmetric if there
   * are values on both sides of zero.
   */
  #guess(values: ArrayLike<number>): void {
    let [n, mean, squares, min, max] = [0, 0, 0, Infinity, -Infinity]
    const step = Math.max(1, Math.floor(values.length / 65_536))
    for (let at = 0; at < values.length; at += step) {
      const x = values[at]!
      if (!Number.isFinite(x)) continue
      n++
      const apart = x - mean
      mean += apart / n
      squares += apart * (x - mean)
      if (x < min) min = x
      if (x > max) max = x
    }
    if (n === 0) [min, max] = [-1, 1]
    const [from, to] = rangeOf(min, max, mean, Math.sqrt(squares / Math.max(1, n)))
    this.setRange(from, to)
  }

  #draw(): void {
    const { clientWidth: width, clientHeight: height } = this.#port
    if (width === 0 || height === 0) return
    const ratio = window.devicePixelRatio || 1
    const canvas = this.#canvas
    const [w, v] = [Math.round(width * ratio), Math.round(height * ratio)]
    if (canvas.width !== w || canvas.height !== v) {
      canvas.width = w
      canvas.height = v
      canvas.style.width = `${width}px`
      canvas.style.height = `${height}px`
    }
    const context = canvas.getContext('2d')!
    context.clearRect(0, 0, w, v)
    const { rows, columns, count } = this.#map
    if (count === 0) return
    const zoom = this.#zoom
    const { x, y } = this.#offset()
    const [left, top] = [Math.floor(x / zoom), Math.floor(y / zoom)]
    const across = Math.min(columns - left, Math.ceil(width / zoom) + 1)
    const down = Math.min(rows - top, Math.ceil(height / zoom) + 1)
    if (across <= 0 || down <= 0) return
    const small = this.#small
    if (small.width !== across || small.height !== down) {
      small.width = across
      small.height = down
    }
    const inner = small.getContext('2d')!
    const image = inner.createImageData(across, down)
    const pixels = new Uint32Array(image.data.buffer)
    const shape = this.#shape()
    const [low, high] = this.#range ?? [0, 1]
    const scale = high > low ? 511 / (high - low) : 0
    for (let row = 0; row < down; row++) {
      const band = Math.floor((top + row) / shape.rows)
      for (let column = 0; column < across;) {
        const part = Math.floor((left + column) / shape.columns)
        const stretch = Math.min(across, (part + 1) * shape.columns - left)
        const values = this.#block(`${band} ${part}`, band, part)
        if (values === null) {
          column = stretch
          continue
        }
        const base = shape.rows > 1
          ? (top + row - band * shape.rows) * columns + left
          : left - part * shape.columns
        for (; column < stretch; column++) {
          const value = values[base + column]
          let colour = 0
          if (value !== undefined) {
            if (value !== value) colour = 0xffb040d0
            else {
              const n = scale === 0 ? 255 : (value - low) * scale
              colour = this.#colours[n <= 0 ? 0 : n >= 511 ? 511 : n | 0]!
            }
          }
          pixels[row * across + column] = colour
        }
      }
    }
    inner.putImageData(image, 0, 0)
    context.imageSmoothingEnabled = false
    const size = zoom * ratio
    context.drawImage(small, (left * zoom - x) * ratio, (top * zoom - y) * ratio, across * size, down * size)
  }

  /** Returns the element under the pointer. */
  at(event: MouseEvent): Place | null {
    const box = this.#port.getBoundingClientRect()
    const { x, y } = this.#offset()
    const row = Math.floor((event.clientY - box.top + y) / this.#zoom)
    const column = Math.floor((event.clientX - box.left + x) / this.#zoom)
    const { rows, columns, count } = this.#map
    return row >= rows || column >= columns || row * columns + column >= count ? null : { row, column }
  }

  #hover(event: MouseEvent): void {
    const place = this.at(event)
    if (place === null) return this.#onPlace(null, null)
    const { row, column } = place
    const { columns } = this.#map
    const shape = this.#shape()
    const [band, part] = [Math.floor(row / shape.rows), Math.floor(column / shape.columns)]
    const values = this.#blocks.get(`${band} ${part}`)
    const at = shape.rows > 1 ? (row - band * shape.rows) * columns + column : column - part * shape.columns
    this.#onPlace({ row, column }, values?.[at] ?? null)
  }
}

/** Returns the colour range. */
export function rangeOf(min: number, max: number, mean: number, std: number): [number, number] {
  const [from, to] = [Math.max(min, mean - 3 * std), Math.min(max, mean + 3 * std)]
  if (min < 0 && max > 0) {
    const far = Math.max(Math.abs(from), Math.abs(to))
    return [-far, far]
  }
  return from < to ? [from, to] : min < max ? [min, max] : [min - 1, min + 1]
}
