import { Core, decode, encode } from './core.js'
import { broken } from './errors.js'
import { TensorFile, answered, begun, gapOf, named, type Facts, type Load, type OpenOptions } from './file.js'
import { fromUrl } from './http.js'
import { DEFAULTS } from './limits.js'
import { DISK, messageOf, type Source } from './source.js'
import { hexOf } from './values.js'

/** The file of a tensor that a package only links to. */
interface Linked {
  tensor: string
  path: string
  sha256: string | null
  /** The length in bytes that follows from the tensor's type and shape; `null` for strings. */
  len: number | null
  urls: string[]
}

/** Reads the links of a package to files of tensors. */
async function linkedOf(core: Core, source: Source, options: OpenOptions): Promise<Linked[]> {
  core.call('package_begin', [BigInt(source.size)])
  const ask = () => core.call('package_linked', [gapOf(source)])
  return JSON.parse(decode(await answered(core, source, 'package_add', ask, options))) as Linked[]
}

/** @internal Returns the error for a tensor whose file is only linked to, with its addresses. */
export async function notHere(file: TensorFile, tensor: string): Promise<Error> {
  const place = { source: file.name, tensor }
  try {
    const found = (await linkedOf(await file.unopenedCore(), file.source, {})).find((one) => one.tensor === tensor)
    const { path, urls } = found!
    return broken('package/not-here', `\`${path}\` is only linked to: ${urls.join(', ') || 'it has no address'}`, place)
  } catch {
    return broken('package/not-here', 'its file is only linked to', place)
  }
}

/**
 * @internal Opens a package together with the tensors that it links to: each file is fetched as a whole at the first
 * read, and must have the SHA-256 that the package states.
 */
export async function withLinks(file: TensorFile, options: OpenOptions): Promise<TensorFile> {
  const { source } = file
  const of = await begun(source, options, await Core.create('whole'))
  const all = (await linkedOf(of, source, options)).filter((one, at, all) => all.findIndex(({ path }) => path === one.path) === at)
  const sources: Source[] = []
  for (const one of all) sources.push(await linkedSource(one, options, file.name))
  const request = encode(JSON.stringify(all.map(({ path }, at) => [path, sources[at]!.size])))
  const load: Load = async (own) => {
    const core = await begun(source, options, own ?? (await Core.create('whole')))
    core.call('package_begin', [BigInt(source.size)])
    const ask = () => core.call('package_decode', [gapOf(source)], request)
    return [core, JSON.parse(decode(await answered(core, source, 'package_add', ask, {}))) as Facts]
  }
  try {
    return new TensorFile([source, ...sources], options, load, () => file.close(), ...(await load()))
  } catch (e) {
    throw named(e, file.name)
  }
}

/**
 * Returns the source of a linked file. Files of numbers have a known length and are fetched when read; files of
 * strings are fetched now.
 */
async function linkedSource(of: Linked, options: OpenOptions, name: string | null): Promise<Source> {
  let known: Promise<Uint8Array> | undefined
  const whole = () => (known ??= fetched(of, options, name).catch((e) => {
    // A later attempt may find it.
    known = undefined
    throw e
  }))
  return {
    size: of.len ?? (await whole()).length,
    name: of.path,
    hints: DISK,
    read: async (start, end) => (await whole()).subarray(start, end),
  }
}

async function fetched({ tensor, path, sha256, len, urls }: Linked, options: OpenOptions, name: string | null): Promise<Uint8Array> {
  const place = { source: name, tensor }
  const { fetchedLen: most = DEFAULTS.fetchedLen } = { ...DEFAULTS, ...options.limits }
  const failed: string[] = []
  let cause: unknown
  for (const url of urls) {
    if (!/^https:/i.test(url)) {
      failed.push(`${url}: the address is not https`)
      continue
    }
    try {
      // Headers for the package's server must not be sent to other servers.
      const { fetch, timeout, signal, limits } = options
      const source = await fromUrl(url, { fetch, timeout, signal, limits })
      if (len !== null && source.size !== len) throw broken('links/declared-len', `it has ${source.size} bytes, type and shape take ${len}`, place)
      if (source.size > most) throw broken('http/too-long', `it has ${source.size} bytes, at most ${most} are fetched`, place)
      const bytes = await source.read(0, source.size, { signal })
      const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>))
      const found = hexOf(hash)
      if (sha256 === null || found !== sha256) throw broken('links/digest', `\`${path}\` has the SHA-256 ${sha256}, ${url} serves ${found}`, place)
      return bytes
    } catch (e) {
      cause ??= e
      failed.push(`${url}: ${messageOf(e)}`)
    }
  }
  // If a server returned a different file, that error is more specific.
  if (urls.length === 1 && (cause as { code?: string } | undefined)?.code?.startsWith('links/')) throw cause
  const found = urls.length === 0 ? `\`${path}\` is only linked to, and has no address` : `\`${path}\` is only linked to: ${failed.join('; ')}`
  throw broken('package/not-here', found, { ...place, cause })
}
