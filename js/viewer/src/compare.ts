import { count, h, short, table } from './dom.js'
import { changeMap, percent } from './map.js'
import { alert } from './tensor.js'

/** Returns a type as shown in the tree: the logical type without the storage type. */
const typeOf = (name: string | null): string | undefined => name?.split(' ').at(-1)

/** Sorts what changed most first. */
const byChange = (a: any, b: any): number => changeOf(b) - changeOf(a)
const changeOf = (t: any): number => (t === null ? 1e300 : t.nonFinite > 0 || t.relative === null ? 1e300 : Math.min(t.relative, 1e300))

/** Renders the differences between two files; `all` are the names of the tensors of the first. */
export function comparison(names: [string, string], all: string[], found: any, onChoose: (name: string) => void): HTMLElement {
  const out = h('div', {}, h('h1', {}, `${names[0]} → ${names[1]}`))
  const verdict = found.identical
    ? 'There is no difference.'
    : found.undecided ? 'Nothing was found to differ, but some values could not be compared.' : 'They differ.'
  out.append(h('div', { class: 'chips' },
    ...[['in both', found.compared], ['unchanged', found.unchanged], ['changed', found.changed.length], ['only in the first', found.removed.length], ['only in the second', found.added.length]]
      .map(([name, n]) => h('span', { class: 'chip' }, `${name} `, h('b', {}, count(n as number))))))
  out.append(h('section', {}, h('div', { class: `alert ${found.identical ? 'good' : 'odd'}` }, verdict)))
  const section = (title: string, ...children: Node[]) => out.append(h('section', {}, h('h2', {}, title), ...children))
  const name = (text: string) => h('button', { class: 'link', click: () => onChoose(text) }, text)
  const map = found.changed.length > 0 ? changeMap(all, found, onChoose) : null
  if (map !== null) section('Map', map)
  const layers = found.layers.filter((l: any) => l.changed > 0 && l.name !== null).sort(byChange)
  if (layers.length > 1) {
    section('Layers', table(['layer', 'tensors', 'changed', 'relative', 'by at most', 'cosine'], layers.map((l: any) =>
      [l.name, `${count(l.changed)} of ${count(l.tensors)}`, percent(l.share), short(l.relative), short(l.maxAbs), short(l.cosine)]), ['mono long', 'n', 'n', 'n mono', 'n mono', 'n mono']))
  }
  if (found.changed.length > 0) {
    const changed = [...found.changed].sort((a: any, b: any) => byChange(a.values, b.values))
    section('Changed', table(['tensor', 'what', 'elements that differ', 'relative', 'by at most', 'first'], changed.map((t: any) => {
      const what: string[] = []
      if (t.types) what.push(t.types.map(typeOf).join(' → '))
      if (t.shapes) what.push(t.shapes.map((shape: number[]) => `[${shape.join(', ')}]`).join(' → '))
      if (t.layouts) what.push(t.layouts.join(' → '))
      if (t.attributes.length > 0) what.push(`${t.attributes.length} attributes`)
      const parts = t.components.map((c: any) => `${c.role}${c.values === null ? '' : `: ${count(c.values.differing)}`}`)
      if (parts.length > 0) what.push(parts.join(', '))
      if (t.values) what.push('values')
      if (t.incomparable) what.push(`not compared: ${t.incomparable.message}`)
      const v = t.values
      return [name(t.name), what.join('; '), v ? `${count(v.differing)} of ${count(v.count)}` : '', v ? short(v.relative) : '', v ? short(v.maxAbs) : '',
        v?.first ? `[${v.first.index.join(', ')}]: ${short(v.first.a)} → ${short(v.first.b)}` : '']
    }), ['', 'long', 'n', 'n mono', 'n mono', 'mono']))
  }
  const only = (title: string, all: any[]) => {
    if (all.length > 0) section(title, table(['tensor', 'type', 'shape'], all.map((t) => [t.name, typeOf(t.dense) ?? t.layout, `[${t.shape.join(', ')}]`]), ['mono long', 'mono', 'mono']))
  }
  only('Only in the first', found.removed)
  only('Only in the second', found.added)
  if (found.attributes.length > 0) section('Attributes', table(['name', 'first', 'second'], found.attributes, ['key mono', 'long', 'long']))
  return out
}

/** Renders the result of a verification. */
export function verification(found: any): HTMLElement {
  const words: Record<string, string> = {
    sound: 'Everything that can be checked is sound.', bad: 'Something is wrong with this file.',
    incomplete: 'Nothing wrong was found, but not everything could be checked.',
  }
  const kind = found.verdict === 'sound' ? 'good' : found.verdict === 'bad' ? '' : 'odd'
  const out = h('section', {}, h('h2', {}, 'Verification'), h('div', { class: `alert ${kind}` }, words[found.verdict] ?? ''))
  for (const finding of found.findings) out.append(alert(finding))
  const names: Record<string, string> = { files: 'files', hashes: 'hashes that match', tensors: 'tensors', digests: 'digests that match' }
  out.append(h('p', { class: 'note' }, found.checked.map(([what, n]: [string, number]) => `${count(n)} ${names[what]!}`).join(', ')))
  const reasons: Record<string, string> = {
    no_digest: 'without a digest', unknown_digest: 'with a digest of an unknown kind', unknown_layout: 'of an unknown layout',
    unknown_logical_type: 'of an unknown type', unsupported: 'not looked at here', linked: 'files only linked to', unhashed: 'files without a hash',
  }
  if (found.unverified.length > 0) {
    out.append(h('p', { class: 'note' }, 'Not checked: ', found.unverified.map(([reason, n]: [string, number]) => `${count(n)} ${reasons[reason] ?? reason}`).join(', ')))
  }
  return out
}
