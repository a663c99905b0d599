import { count, h } from './dom.js'
import { swatch, type Change } from './map.js'
import type { FileFacts, GroupFacts } from './protocol.js'

/** A line of the tree: a common part of names, a group of similar tensors, or a tensor. */
interface Line {
  label: string
  depth: number
  lines: Line[]
  group?: GroupFacts
  /** The index of the tensor. */
  at?: number
  isOpen: boolean
}

const HEIGHT = 28
const byNumber = new Intl.Collator('en', { numeric: true })

/** Splits a name at its dots, except those in braces. */
export function parts(name: string): string[] {
  return name.match(/(?:\{[^}]*\}|[^.{])+|\{|(?<=\.)(?=\.)|^(?=\.)|(?<=\.)$/g) ?? [name]
}

/** The tensors of a file as a tree; only the visible part is on the page. */
export class Tree {
  readonly element: HTMLElement
  readonly #facts: FileFacts
  readonly #onChoose: (at: number | null) => void
  readonly #list = h('div', { class: 'tree', role: 'tree', tabindex: 0, 'aria-label': 'tensors' })
  readonly #spacer = h('div')
  readonly #filter: HTMLInputElement
  readonly #roots: Line[]
  #shown: Line[] = []
  #chosen: number | null = null
  #cursor = 0
  /** The changes to another file that the tree shows, by the name of the tensor. */
  #changes: Map<string, Change> | null = null
  /** The greatest change of each line that was drawn. */
  readonly #greatest = new Map<Line, Change | undefined>()

  constructor(facts: FileFacts, onChoose: (at: number | null) => void) {
    this.#facts = facts
    this.#onChoose = onChoose
    this.#roots = this.#made(facts.groups)
    this.#filter = h('input', { type: 'search', placeholder: 'Filter by name  /', 'aria-label': 'filter by name', input: () => this.#refresh() })
    this.#list.append(this.#spacer)
    this.#list.addEventListener('scroll', () => this.#draw())
    this.#list.addEventListener('keydown', (event) => this.#key(event))
    new ResizeObserver(() => this.#draw()).observe(this.#list)
    const lines = facts.groups.length < facts.tensors ? ` on ${count(facts.groups.length)} lines` : ''
    this.element = h('aside', {},
      h('div', { class: 'filter' }, this.#filter), this.#list,
      h('div', { class: 'foot' }, `${count(facts.tensors)} ${facts.tensors === 1 ? 'tensor' : 'tensors'}${lines}`))
    this.#refresh()
  }

  focus(what: 'filter' | 'tree'): void {
    if (what === 'filter') this.#filter.focus()
    else this.#list.focus()
  }

  /** Colours tensors by how much they changed; those that are not listed did not. */
  paint(changes: Map<string, Change> | null): void {
    this.#changes = changes
    this.#greatest.clear()
    this.#draw()
  }

  /** Returns the greatest change of the tensors of a line. */
  #changeOf(line: Line): Change | undefined {
    if (this.#greatest.has(line)) return this.#greatest.get(line)
    const numbers = line.at !== undefined ? [line.at] : line.group?.members ?? []
    const own = numbers.map((at) => this.#changes?.get(this.#facts.names[at]!))
    const inner = line.group === undefined ? line.lines.map((inner) => this.#changeOf(inner)) : []
    const out = [...own, ...inner].reduce((a, b) => ((b?.relative ?? -1) > (a?.relative ?? -1) ? b : a), undefined)
    this.#greatest.set(line, out)
    return out
  }

  /** Marks the selected tensor and scrolls to it. */
  choose(at: number | null): void {
    this.#chosen = at
    if (at !== null && !this.#shown.some((line) => line.at === at)) {
      this.#reveal(this.#roots, at)
      this.#refresh()
    }
    const found = this.#shown.findIndex((line) => line.at === at && at !== null)
    if (found >= 0) this.#go(found)
    this.#draw()
  }

  /** Builds a tree of groups from the parts of their names; nodes with a single child are merged with it. */
  #made(groups: GroupFacts[]): Line[] {
    interface Node { nodes: Map<string, Node>; groups: GroupFacts[] }
    const root: Node = { nodes: new Map(), groups: [] }
    for (const group of groups) {
      const names = parts(group.name)
      let node = root
      for (const name of names.slice(0, -1)) {
        const next: Node = node.nodes.get(name) ?? { nodes: new Map(), groups: [] }
        node.nodes.set(name, next)
        node = next
      }
      node.groups.push(group)
    }
    const lines = (node: Node, depth: number, prefix: string): Line[] => {
      const out: Line[] = []
      for (const [name, inner] of node.nodes) {
        const label = prefix + name
        if (inner.nodes.size === 1 && inner.groups.length === 0) out.push(...lines(inner, depth, `${label}.`))
        else if (inner.nodes.size === 0 && inner.groups.length === 1) out.push(leaf(inner.groups[0]!, depth, `${label}.`))
        else out.push({ label, depth, lines: lines(inner, depth + 1, ''), isOpen: groups.length <= 200 || depth === 0 })
      }
      out.push(...node.groups.map((group) => leaf(group, depth, prefix)))
      return out
    }
    const leaf = (group: GroupFacts, depth: number, prefix: string): Line => {
      const label = prefix + (parts(group.name).at(-1) ?? '')
      if (group.members.length === 1) return { label, depth, lines: [], group, at: group.members[0]!, isOpen: false }
      const members = group.members.map((at) =>
        ({ label: this.#facts.names[at]!, depth: depth + 1, lines: [], at, isOpen: false }))
      members.sort((a, b) => byNumber.compare(a.label, b.label))
      return { label, depth, lines: members, group, isOpen: false }
    }
    return lines(root, 0, '')
  }

  #reveal(lines: Line[], at: number): boolean {
    for (const line of lines) {
      if (line.at === at || this.#reveal(line.lines, at)) {
        line.isOpen = line.lines.length > 0
        return true
      }
    }
    return false
  }

  #refresh(): void {
    const wanted = this.#filter.value.trim().toLowerCase()
    this.#shown = []
    if (wanted === '') {
      const walk = (lines: Line[]) => {
        for (const line of lines) {
          this.#shown.push(line)
          if (line.isOpen) walk(line.lines)
        }
      }
      walk(this.#roots)
    } else {
      const of = new Map<number, GroupFacts>()
      for (const group of this.#facts.groups) for (const at of group.members) of.set(at, group)
      this.#facts.names.forEach((label, at) => {
        if (label.toLowerCase().includes(wanted)) {
          this.#shown.push({ label, depth: 0, lines: [], group: of.get(at)!, at, isOpen: false })
        }
      })
    }
    this.#cursor = Math.max(0, Math.min(this.#cursor, this.#shown.length - 1))
    this.#draw()
  }

  #draw(): void {
    const { scrollTop, clientHeight } = this.#list
    this.#spacer.style.height = `${this.#shown.length * HEIGHT}px`
    const first = Math.max(0, Math.floor(scrollTop / HEIGHT) - 4)
    const last = Math.min(this.#shown.length, Math.ceil((scrollTop + clientHeight) / HEIGHT) + 4)
    const rows: HTMLElement[] = []
    for (let at = first; at < last; at++) rows.push(this.#row(this.#shown[at]!, at))
    this.#spacer.replaceChildren(...rows)
    this.#list.setAttribute('aria-activedescendant', `line-${this.#cursor}`)
  }

  #row(line: Line, at: number): HTMLElement {
    const isBranch = line.lines.length > 0
    const many = line.group !== undefined && isBranch ? `×${line.group.members.length}` : ''
    const isChosen = line.at !== undefined && line.at === this.#chosen
    const row = h('div', {
      class: `row${isChosen ? ' chosen' : ''}${at === this.#cursor ? ' cursor' : ''}${line.group?.isFault ? ' fault' : ''}`, role: 'treeitem', id: `line-${at}`,
      'aria-level': line.depth + 1, 'aria-expanded': isBranch ? String(line.isOpen) : undefined, 'aria-selected': String(isChosen),
      title: line.at === undefined ? line.group?.name ?? line.label : this.#facts.names[line.at]!,
      click: () => {
        this.#cursor = at
        this.#act(line)
      },
    },
    h('span', { class: 'twist' }, isBranch ? (line.isOpen ? '▾' : '▸') : ''),
    this.#changes !== null && this.#swatch(line),
    h('span', { class: 'label' }, line.label),
    many !== '' && h('span', { class: 'many' }, many),
    line.group !== undefined && h('span', { class: 'fact' }, line.group.fact))
    row.style.top = `${at * HEIGHT}px`
    row.style.paddingLeft = `${8 + line.depth * 16}px`
    return row
  }

  #swatch(line: Line): HTMLElement {
    const change = this.#changeOf(line)
    const out = swatch(change)
    out.title = change?.text ?? 'the same'
    return out
  }

  #act(line: Line): void {
    if (line.lines.length > 0) {
      line.isOpen = !line.isOpen
      this.#refresh()
    } else if (line.at !== undefined) this.#onChoose(line.at)
  }

  #go(at: number): void {
    this.#cursor = Math.max(0, Math.min(at, this.#shown.length - 1))
    const top = this.#cursor * HEIGHT
    const { scrollTop, clientHeight } = this.#list
    if (top < scrollTop) this.#list.scrollTop = top
    else if (clientHeight > 0 && top + HEIGHT > scrollTop + clientHeight) this.#list.scrollTop = top + HEIGHT - clientHeight
    this.#draw()
  }

  #key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const line = this.#shown[this.#cursor]
    if (line === undefined) return
    const step = Math.max(1, Math.floor(this.#list.clientHeight / HEIGHT) - 1)
    switch (event.key) {
      case 'ArrowDown': this.#go(this.#cursor + 1); break
      case 'ArrowUp': this.#go(this.#cursor - 1); break
      case 'PageDown': this.#go(this.#cursor + step); break
      case 'PageUp': this.#go(this.#cursor - step); break
      case 'Home': this.#go(0); break
      case 'End': this.#go(this.#shown.length - 1); break
      case 'ArrowRight':
        if (line.lines.length > 0 && !line.isOpen) this.#act(line)
        else this.#go(this.#cursor + 1)
        break
      case 'ArrowLeft': {
        if (line.isOpen) this.#act(line)
        else {
          let above = this.#cursor - 1
          while (above > 0 && this.#shown[above]!.depth >= line.depth) above--
          this.#go(above)
        }
        break
      }
      case 'Enter': case ' ': this.#act(line); break
      default: return
    }
    event.preventDefault()
  }
}
