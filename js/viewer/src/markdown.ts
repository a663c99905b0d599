import { h } from './dom.js'

/** Renders text with `code`, *emphasis* and links, which may only lead to `https`. */
function inline(text: string): (Node | string)[] {
  const out: (Node | string)[] = []
  const marks = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|!?\[([^\]]*)\]\(([^()\s]+)\)/g
  let at = 0
  for (const found of text.matchAll(marks)) {
    out.push(text.slice(at, found.index))
    at = found.index + found[0].length
    const [, code, strong, em, label, address] = found
    if (code !== undefined) out.push(h('code', {}, code))
    else if (strong !== undefined) out.push(h('b', {}, strong))
    else if (em !== undefined) out.push(h('em', {}, em))
    else if (/^https:\/\/[^\s]+$/i.test(address!)) {
      out.push(h('a', { href: address!, rel: 'noopener noreferrer nofollow', target: '_blank' }, label || address!))
    } else out.push(label || address!)
  }
  out.push(text.slice(at))
  return out
}

/** Renders Markdown: headings, lists, code, paragraphs. HTML in it is shown as text, and pictures as links. */
export function markdown(text: string): HTMLElement[] {
  const out: HTMLElement[] = []
  const lines = text.replace(/\r\n?/g, '\n').split('\n')
  let at = 0
  while (at < lines.length) {
    const line = lines[at]!
    const heading = /^#{1,6}\s+(.*)$/.exec(line)
    const list = /^\s*([-*+]|\d+[.)])\s+/
    if (line.trim() === '') at++
    else if (/^```/.test(line)) {
      const start = ++at
      while (at < lines.length && !/^```/.test(lines[at]!)) at++
      out.push(h('pre', {}, lines.slice(start, at++).join('\n')))
    } else if (heading !== null) {
      out.push(h('h3', {}, inline(heading[1]!)))
      at++
    } else if (list.test(line)) {
      const items: HTMLElement[] = []
      const isNumbered = /^\s*\d/.test(line)
      while (at < lines.length && list.test(lines[at]!)) items.push(h('li', {}, inline(lines[at++]!.replace(list, ''))))
      out.push(h(isNumbered ? 'ol' : 'ul', {}, items))
    } else {
      const start = at
      while (at < lines.length && lines[at]!.trim() !== '' && !/^(#{1,6}\s|```)/.test(lines[at]!) && !list.test(lines[at]!)) at++
      out.push(h('p', {}, inline(lines.slice(start, at).join(' '))))
    }
  }
  return out
}
