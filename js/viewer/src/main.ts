import { comparison, verification } from './compare.js'
import { count, h, size, table } from './dom.js'
import { changesOf } from './map.js'
import { markdown } from './markdown.js'
import type { FileFacts, From, Picture } from './protocol.js'
import { Backend, core } from './rpc.js'
import { TensorPane, alert, pairsTable, picture, troubleOf, type View } from './tensor.js'
import { Tree } from './tree.js'

/** The state in the page's address: the file, the tensor, and the view of it. */
interface State {
  url?: string
  tensor?: string
  /** The address of a file to compare with. */
  other?: string
  view: Partial<View>
}

/** Pages that may open addresses have a different content security policy: see `build.mjs`. */
const OPENS_URLS = document.querySelector('meta[http-equiv]')?.getAttribute('content')?.includes("connect-src 'none'") === false

class App {
  readonly #backend = new Backend()
  readonly #ready: Promise<unknown>
  readonly #main = h('main')
  readonly #name = h('span', { class: 'name grow' })
  readonly #fileButtons = [
    h('button', { hidden: true, click: () => this.#choose(1) }, 'Compare…'),
    h('button', { hidden: true, click: () => void this.#verify() }, 'Verify'),
  ]
  /** Shows the last comparison again. */
  readonly #differencesButton = h('button', { hidden: true, click: () => this.#differences?.() }, 'Differences')
  #differences: (() => void) | null = null
  #file: FileFacts | null = null
  #tree: Tree | null = null
  #pane = h('div', { class: 'pane', tabindex: -1 })
  #tensor: TensorPane | null = null
  /** The pictures of the package, loaded on first use. */
  #pictured: Promise<Picture[]> | null = null
  #isWaiting = false
  #resting: ReturnType<typeof setTimeout> | undefined
  #state: State = { view: {} }

  constructor() {
    this.#setTheme(remembered() ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'))
    document.body.append(h('header', {},
      h('button', { class: 'plain word', title: 'the file as a whole', click: () => {
        this.#overview()
        this.#main.classList.add('detail')
      } }, 'Holdall'), this.#name,
      h('button', { click: () => this.#choose(0) }, 'Open…'), ...this.#fileButtons, this.#differencesButton,
      h('button', { class: 'plain icon', title: 'light or dark', 'aria-label': 'light or dark', click: () => this.#toggleTheme() }, '◐'),
      h('button', { class: 'plain icon keys', title: 'keys', 'aria-label': 'keys', click: () => this.#help() }, '?')), this.#main)
    this.#ready = core().then((wasm) => this.#backend.call('init', [wasm], {}, [wasm]))
    this.#welcome()
    this.#listen()
    this.#state = stateOf(location.hash)
    if (this.#state.url !== undefined) this.#openUrl(this.#state.url)
  }

  #listen(): void {
    let depth = 0
    const over = (by: number) => (event: DragEvent) => {
      event.preventDefault()
      depth = Math.max(0, depth + by)
      document.body.classList.toggle('over', depth > 0)
    }
    addEventListener('dragenter', over(1))
    addEventListener('dragleave', over(-1))
    addEventListener('dragover', (event) => event.preventDefault())
    addEventListener('drop', (event) => {
      event.preventDefault()
      depth = 0
      document.body.classList.remove('over')
      // The entries are only valid during this event; folders are read later.
      const entries = [...event.dataTransfer?.items ?? []].flatMap((item) => item.webkitGetAsEntry() ?? [])
      void Promise.all(entries.map((entry) => filesIn(entry))).then((all) => this.#openAll(all.flat()))
    })
    addEventListener('hashchange', () => {
      const state = stateOf(location.hash)
      if (state.url !== undefined && state.url !== this.#state.url) this.#openUrl(state.url)
      else this.#apply(state)
    })
    addEventListener('keydown', (event) => {
      const isText = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement
      if (event.ctrlKey || event.metaKey || event.altKey) return
      if (event.key === 'Escape' && isText) return this.#tree?.focus('tree')
      if (isText) return
      const keys: Record<string, () => void> = {
        '/': () => this.#tree?.focus('filter'), t: () => this.#tree?.focus('tree'), o: () => this.#choose(0),
        c: () => this.#file && this.#choose(1), v: () => void this.#verify(), i: () => this.#overview(), d: () => this.#toggleTheme(), '?': () => this.#help(),
      }
      const act = keys[event.key]
      if (act === undefined) return
      event.preventDefault()
      act()
    })
  }

  #welcome(problem?: HTMLElement): void {
    const address = h('input', { type: 'url', placeholder: 'https://…/model.safetensors', 'aria-label': 'address of a file', required: true })
    const form = h('form', { submit: (event: Event) => {
      event.preventDefault()
      this.#openUrl(address.value)
    } }, address, h('button', {}, 'Open address'))
    this.#main.replaceChildren(h('div', { class: 'welcome' },
      h('div', { class: 'drop' },
        h('h1', {}, 'What is in a model file'),
        h('p', {}, 'Drop one here, or the folder of a model: safetensors, GGUF, PyTorch, ONNX, NumPy, HDF5, zTensor, Metatensor, Carton.'),
        h('button', { class: 'main', click: () => this.#choose(0) }, 'Choose a file'), ' ',
        h('button', { click: () => this.#choose(0, true) }, 'Choose a folder'), form,
        h('p', { class: 'note' }, 'It is read where it lies. Nothing leaves this computer.')),
      problem && h('section', {}, problem)))
  }

  #choose(slot: number, isFolder = false): void {
    const input = h('input', { type: 'file', change: () => {
      const files = [...input.files ?? []]
      if (slot === 0) void this.#openAll(files.map((file) => [file.webkitRelativePath || file.name, file]))
      else if (files[0] !== undefined) void this.#compare(files[0])
    } })
    input.multiple = slot === 0
    input.webkitdirectory = isFolder
    input.click()
  }

  /** Opens a file, a model in several files, or two files to compare. */
  async #openAll(files: [string, File][]): Promise<void> {
    const [first, second] = files
    if (first === undefined) return
    const isAlone = !first[0].includes('/') && (second === undefined ||
      (files.length === 2 && !(await this.#ready.then(() => this.#backend.call('isModel', [files])))))
    await this.#open(isAlone ? first[1] : files)
    if (isAlone && second !== undefined) await this.#compare(second[1])
  }

  #openUrl(url: string): void {
    // The page that cannot access servers redirects to the one that can.
    if (!OPENS_URLS) location.href = `open.html#${new URLSearchParams({ url })}`
    else void this.#open(url)
  }

  async #open(from: From): Promise<void> {
    const done = await this.#busy(`Opening ${Array.isArray(from) ? `${from.length} files` : nameOf(from)}`, (options) =>
      this.#ready.then(() => this.#backend.call('open', [0, whole(from), {}], options)), (problem) => this.#welcome(problem))
    if (done === null) return
    this.#file = done
    this.#pictured = null
    this.#differences = null
    this.#differencesButton.setAttribute('hidden', '')
    const isUrl = typeof from === 'string'
    const state = stateOf(location.hash)
    this.#state = isUrl ? { ...state, url: from } : { view: state.view, ...(state.tensor === undefined ? {} : { tensor: state.tensor }) }
    if (isUrl) done.name = nameOf(from)
    this.#name.textContent = done.name
    document.title = `${done.name} – Holdall`
    this.#fileButtons.forEach((button) => button.removeAttribute('hidden'))
    this.#tree = new Tree(done, (at) => at !== null && void this.#show(at))
    this.#pane = h('div', { class: 'pane', tabindex: -1 })
    this.#main.classList.remove('detail')
    this.#main.replaceChildren(this.#tree.element, this.#pane)
    const wanted = this.#state.tensor
    if (wanted !== undefined && done.names.includes(wanted)) this.#apply(this.#state)
    else this.#overview()
    this.#tree.focus('tree')
    if (isUrl && this.#state.other !== undefined) await this.#compare(this.#state.other)
  }

  #apply(state: State): void {
    const at = state.tensor === undefined ? -1 : this.#file?.names.indexOf(state.tensor) ?? -1
    this.#state = { ...state, ...(this.#state.url === undefined ? {} : { url: this.#state.url }) }
    if (at < 0) return this.#overview()
    this.#tree?.choose(at)
    void this.#show(at, state.view)
  }

  #into(...children: Node[]): void {
    this.#tensor?.close()
    this.#tensor = null
    const back = h('button', { class: 'plain back', click: () => this.#main.classList.remove('detail') }, '‹ Tensors')
    this.#pane.replaceChildren(back, ...children)
    this.#pane.scrollTop = 0
  }

  /** Shows the file as a whole. */
  #overview(): void {
    const file = this.#file
    if (file === null) return
    delete this.#state.tensor
    this.#write()
    this.#tree?.choose(null)
    const chip = (name: string, value: string) => h('span', { class: 'chip' }, `${name} `, h('b', {}, value))
    const attributes = new Map(file.attributes)
    const title = attributes.get('model_name') || file.name
    const card = ['short_description', 'model_description'].map((key) => attributes.get(key)).filter((text) => text !== undefined && text !== '')
    const rest = file.attributes.filter(([key]) => card.length === 0 || !['short_description', 'model_description'].includes(key))
    const out = h('div', {}, h('h1', {}, title), h('div', { class: 'chips' },
      chip('format', `${file.format}${file.version === '' ? '' : ` ${file.version}`}`), chip('size', size(file.size)),
      ...(file.files > 1 ? [chip('files', count(file.files))] : []),
      chip('tensors', count(file.tensors)), chip('stored', size(file.storedLen))))
    const section = (name: string, ...children: Node[]) => out.append(h('section', {}, h('h2', {}, name), ...children))
    if (file.warnings.length > 0) {
      section('Warnings', ...file.warnings.map(({ code, message, tensor, count: n }) =>
        alert({ code, message: `${tensor === null ? '' : `${tensor}: `}${message}${n > 1 ? ` (${n} times)` : ''}`, advice: null }, 'odd')))
    }
    if (card.length > 0) section('Card', h('div', { class: 'box card' }, card.flatMap((text) => markdown(text!))))
    // A placeholder for content that loads slowly.
    const gallery = h('div')
    out.append(gallery)
    void this.#pictures(gallery)
    if (rest.length > 0) section('Attributes', pairsTable(rest))
    const groups = [...file.groups].sort((a, b) => b.members.length - a.members.length).slice(0, 12)
    if (groups.length > 0) {
      section(file.groups.length > 12 ? 'Most repeated tensors' : 'Tensors', table(['name', '', 'type and shape'], groups.map((group) => [
        h('button', { class: 'link', click: () => void this.#go(group.members[0]!) }, group.name === '' ? '(no name)' : group.name),
        group.members.length > 1 ? `×${count(group.members.length)}` : '', group.fact,
      ]), ['long', 'n', 'mono long']))
    }
    this.#into(out)
  }

  /** Shows the pictures of a package. */
  async #pictures(gallery: HTMLElement): Promise<void> {
    const file = this.#file
    this.#pictured ??= this.#backend.call('pictures', [0])
    const found = await this.#pictured.catch((e: unknown) => {
      this.#pictured = null
      return alert(troubleOf(e))
    })
    if (file !== this.#file || (Array.isArray(found) && found.length === 0)) return
    const shown = Array.isArray(found)
      ? h('div', { class: 'gallery' }, found.map((one) => h('figure', { class: 'box' },
          'trouble' in one ? alert(one.trouble) : picture(one.image, one.type, one.name), h('figcaption', { class: 'mono' }, one.name))))
      : found
    gallery.append(h('section', {}, h('h2', {}, 'Pictures'), shown))
  }

  #go(at: number): void {
    this.#tree?.choose(at)
    void this.#show(at)
  }

  async #show(at: number, view: Partial<View> = {}): Promise<void> {
    const facts = await this.#backend.call('tensor', [0, at]).catch((e: unknown) => this.#into(alert(troubleOf(e))))
    if (facts === undefined) return
    this.#tree?.choose(at)
    this.#state.tensor = facts.name
    this.#state.view = view
    this.#write()
    const pane = new TensorPane(this.#backend, 0, at, facts, view, (view) => {
      this.#state.view = view
      // Debounced: browsers limit the rate of address changes, and each takes time of the frame.
      clearTimeout(this.#resting)
      this.#resting = setTimeout(() => this.#write(), 150)
    })
    this.#into(pane.element)
    this.#tensor = pane
    this.#main.classList.add('detail')
  }

  async #verify(): Promise<void> {
    if (this.#file === null) return
    const found = await this.#busy('Verifying', (options) => this.#backend.call('verify', [0], options), (problem) => this.#into(problem))
    if (found === null) return
    this.#overview()
    this.#pane.querySelector('h1')?.parentElement?.querySelector('.chips')?.after(verification(found))
    this.#main.classList.add('detail')
  }

  async #compare(from: File | string): Promise<void> {
    const found = await this.#busy(`Comparing with ${nameOf(from)}`, async (options) => {
      await this.#backend.call('open', [1, whole(from), {}], options)
      return [nameOf(from), await this.#backend.call('diff', [], options)] as const
    }, (problem) => this.#into(problem))
    if (found === null || this.#file === null) return
    const choose = (name: string) => this.#go(this.#file!.names.indexOf(name))
    this.#tree?.paint(changesOf(found[1]))
    const { name, names } = this.#file
    this.#differences = () => {
      this.#tree?.choose(null)
      this.#into(comparison([name, found[0]], names, found[1], choose))
      this.#main.classList.add('detail')
    }
    this.#differencesButton.removeAttribute('hidden')
    this.#differences()
    this.#main.classList.add('detail')
  }

  /** Runs a slow operation with a progress bar and a way to cancel it. */
  async #busy<T>(
    what: string, work: (options: { signal: AbortSignal; onProgress: (done: number, all: number) => void }) => Promise<T>,
    failed: (problem: HTMLElement) => void,
  ): Promise<T | null> {
    if (this.#isWaiting) return null
    this.#isWaiting = true
    const stop = new AbortController()
    const progress = h('progress', { max: 1 })
    const box = h('div', { class: 'busy', role: 'status' },
      h('div', { class: 'line' }, h('span', { class: 'grow' }, what), h('button', { click: () => stop.abort() }, 'Cancel')), progress)
    const shown = setTimeout(() => document.body.append(box), 150)
    try {
      return await work({
        signal: stop.signal,
        onProgress: (done, all) => progress.setAttribute('value', String(all === 0 ? 1 : done / all)),
      })
    } catch (e) {
      if (!stop.signal.aborted) failed(alert(troubleOf(e)))
      return null
    } finally {
      clearTimeout(shown)
      box.remove()
      this.#isWaiting = false
    }
  }

  #write(): void {
    clearTimeout(this.#resting)
    const { url, tensor, other, view } = this.#state
    const out = new URLSearchParams()
    if (url !== undefined) out.set('url', url)
    if (other !== undefined) out.set('with', other)
    if (tensor !== undefined) {
      out.set('t', tensor)
      for (const [short, name] of VIEW) if (view[name] !== undefined) out.set(short, String(view[name]))
    }
    history.replaceState(null, '', `#${out}`)
  }

  #setTheme(theme: string): void {
    document.documentElement.dataset.theme = theme
    this.#tensor?.theme()
  }

  #toggleTheme(): void {
    const theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'
    this.#setTheme(theme)
    try {
      localStorage.setItem('holdall-theme', theme)
    } catch {
      // The preference is not remembered in this case.
    }
  }

  #help(): void {
    const keys: [string, string][] = [
      ['o', 'open a file'], ['c', 'compare with another'], ['v', 'verify'], ['i', 'the file as a whole'], ['/', 'filter by name'],
      ['t', 'the tree; arrows move, Enter opens'], ['d', 'light or dark'], ['?', 'this'],
    ]
    const dialog = h('dialog', { close: () => dialog.remove() }, h('h1', {}, 'Keys'),
      h('dl', {}, keys.flatMap(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)])),
      h('button', { click: () => dialog.close() }, 'Close'))
    document.body.append(dialog)
    dialog.showModal()
  }
}

const VIEW: [string, keyof View][] = [['k', 'split'], ['r', 'row'], ['c', 'column'], ['z', 'zoom']]

function stateOf(hash: string): State {
  const given = new URLSearchParams(hash.replace(/^#/, ''))
  const state: State = { view: {} }
  const [url, tensor, other] = [given.get('url'), given.get('t'), given.get('with')]
  if (other !== null && other !== '') state.other = other
  if (url !== null && url !== '') state.url = url
  if (tensor !== null) state.tensor = tensor
  for (const [short, name] of VIEW) {
    const n = Number(given.get(short) ?? NaN)
    if (Number.isSafeInteger(n) && n >= 0) state.view[name] = n
  }
  return state
}

/** Resolves an address: the worker, which is created from a text, has no base address. */
const whole = <F extends From>(from: F): F | string =>
  typeof from === 'string' && URL.canParse(from, location.href) ? new URL(from, location.href).href : from

/** Returns the files in a dropped entry, by path. */
async function filesIn(entry: FileSystemEntry, folder = ''): Promise<[string, File][]> {
  const path = folder + entry.name
  if (entry.isFile) return [[path, await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed))]]
  const reader = (entry as FileSystemDirectoryEntry).createReader()
  const out: [string, File][] = []
  for (;;) {
    // Entries are returned in batches.
    const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed))
    if (some.length === 0) return out
    for (const one of some) out.push(...await filesIn(one, `${path}/`))
  }
}

/** Returns the last part of an address. */
const nameOf = (from: File | string): string => {
  if (typeof from !== 'string') return from.name
  const last = from.split(/[?#]/)[0]!.split('/').at(-1)!
  try {
    return decodeURIComponent(last) || from
  } catch {
    return last
  }
}

function remembered(): string | null {
  try {
    const theme = localStorage.getItem('holdall-theme')
    return theme === 'dark' || theme === 'light' ? theme : null
  } catch {
    return null
  }
}

new App()
