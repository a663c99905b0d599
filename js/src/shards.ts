import { Core, decode, encode, nodeModule } from './core.js'
import { HoldallError, broken } from './errors.js'
import {
  TAIL, TensorFile, begun, isWeb, named, sourceOf, type Facts, type Load, type ModelFiles, type Openable, type OpenOptions,
} from './file.js'
import { fromUrl } from './http.js'
import { hintsOf } from './read.js'
import { DISK, fromFile, readRange, type Source } from './source.js'

/** @internal The location of a model's files. */
export interface ModelLocation {
  /** The name of the model in error messages. */
  name: string
  /** The names of the files in a folder, or the name of the opened file. */
  readonly of: readonly string[] | string
  /** Returns the file at a relative path; `Missing` if it does not exist. */
  get(path: string, how: { isInside: boolean; isOneOfMany: boolean }): Promise<Source | Missing>
}

/** States of a file, as passed to the core: missing, present, or a link out of the folder. */
const [ABSENT, PRESENT, OUTSIDE] = [0, 1, 2] as const
type Missing = typeof ABSENT | typeof OUTSIDE

/** A request of the core: files by name, or ranges of files as (file number, start, end). */
interface Need {
  names?: string[]
  /** Whether links must stay inside the model's folder. */
  isInside?: boolean
  ranges?: number[]
}

/** The maximum number of files that are opened or read at the same time. */
const MAX_CONCURRENT = 32
/** With more files than this, each is opened only when it is read. */
const MAX_OPEN_FILES = 64

/** Opens a model from a list or map of files. */
export function openFiles(files: ModelFiles, options: OpenOptions): Promise<TensorFile> {
  const all = new Map<string, Openable>()
  if (Array.isArray(files)) {
    for (const file of files as readonly File[]) all.set(file.webkitRelativePath || file.name, file)
  } else {
    for (const [path, from] of files as ReadonlyMap<string, Openable>) all.set(path, from)
  }
  const paths = [...all.keys()]
  // Browsers report paths that begin with the name of the selected folder.
  const folder = /^[^/]+\//.exec(paths[0] ?? '')?.[0] ?? ''
  const isFolder = folder !== '' && paths.every((path) => path.startsWith(folder))
  const skip = isFolder ? folder.length : 0
  const more = paths.length > 1 ? ` and ${paths.length - 1} more` : ''
  return opened({
    name: isFolder ? folder.slice(0, -1) : `${paths[0] ?? 'no file'}${more}`,
    of: paths.map((path) => path.slice(skip)).filter((path) => !path.includes('/')),
    async get(path) {
      const from = all.get((isFolder ? folder : '') + path)
      return from === undefined ? ABSENT : sourceOf(from, options)
    },
  }, options)
}

/** Opens a file with the further files that belong to it; `source` is the file itself. */
export async function openMore(from: string | URL, options: OpenOptions, source: Source): Promise<TensorFile> {
  return opened(await homeOf(from, options), options, source)
}

/** Opens a folder, or a file that lists the files of a model. Returns `null` if it is neither. */
export async function openNamed(from: string | URL, options: OpenOptions, source: Source | undefined): Promise<TensorFile | null> {
  if (source === undefined) {
    const home = isWeb(String(from)) ? null : await folderAt(from)
    return home === null ? null : opened(home, options)
  }
  const home = await homeOf(from, options)
  const core = await Core.create('whole')
  const [isModel] = core.numbers('model_named', [], encode(home.of as string))
  return isModel === 1 ? opened(home, options, source) : null
}

async function opened(home: ModelLocation, options: OpenOptions, own?: Source): Promise<TensorFile> {
  const about = { ...options, name: options.name ?? home.name }
  const known = new Map<string, Source | Missing>()
  if (own !== undefined) known.set(home.of as string, own)
  let sources: Source[] = []
  const close = async () => {
    for (const source of known.values()) if (typeof source === 'object') await source.close?.()
  }
  const load: Load = async (given) => {
    const core = await begun({ size: 0 }, options, given ?? (await Core.create('whole')))
    const isFolder = typeof home.of !== 'string'
    core.call('model_begin', [Number(isFolder)], encode(isFolder ? home.of.join('\0') : home.of))
    const files: (Source | Missing)[] = []
    for (;;) {
      const present = files.filter((file) => typeof file === 'object')
      const { done, bytes } = core.call('model_step', [BigInt(hintsOf(present).gap)])
      const reply = JSON.parse(decode(bytes)) as unknown
      if (done) {
        const facts = reply as Facts & { sources: number[] }
        sources = facts.sources.map((number) => files[number] as Source)
        return [core, facts]
      }
      const { names = [], isInside = false, ranges = [] } = reply as Need
      const isOneOfMany = names.length > MAX_OPEN_FILES
      for (const file of await each(names, async (path) => {
        let file = known.get(path)
        if (file === undefined) known.set(path, file = await home.get(path, { isInside, isOneOfMany }))
        return file
      })) {
        const isThere = typeof file === 'object'
        core.call('model_file', isThere ? [PRESENT, BigInt(file.size)] : [file, 0n])
        files.push(file)
      }
      const wanted: [number, number, number][] = []
      for (let at = 0; at < ranges.length; at += 3) wanted.push([ranges[at]!, ranges[at + 1]!, ranges[at + 2]!])
      for (const [file, start, bytes] of await each(wanted, async ([file, start, end]) => {
        const source = files[file] as Source
        // The end of a remote file is requested once.
        const isEnd = end === source.size && hintsOf([source]).atOnce > 1
        const from = isEnd ? Math.min(start, Math.max(0, end - TAIL)) : start
        return [file, from, await readRange(source, from, end, options)] as const
      })) core.call('model_add', [file, BigInt(start)], bytes)
    }
  }
  try {
    const [core, facts] = await load()
    return new TensorFile(sources, about, load, close, core, facts)
  } catch (e) {
    await close()
    throw named(e, about.name)
  }
}

/** Maps items with bounded concurrency, in order. On an error, waits for the running ones and rejects. */
async function each<T, R>(all: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> {
  const out: R[] = []
  let next = 0
  const run = async () => {
    try {
      while (next < all.length) {
        const at = next++
        out[at] = await work(all[at]!)
      }
    } catch (e) {
      next = all.length
      throw e
    }
  }
  const runs = await Promise.allSettled(Array.from({ length: Math.min(MAX_CONCURRENT, all.length) }, run))
  for (const one of runs) if (one.status === 'rejected') throw one.reason
  return out
}

/** @internal Returns the location of the named file and of the files next to it. */
export async function homeOf(from: string | URL, options: OpenOptions): Promise<ModelLocation> {
  if (isWeb(String(from))) return webOf(from, options)
  const { basename, dirname, path } = await pathsOf(from)
  return folderOf(dirname(path), String(from), basename(path), path)
}

/**
 * Returns the location for a file on a server. Other files must be below the folder's address; its query is not sent
 * with them.
 */
function webOf(from: string | URL, options: OpenOptions): ModelLocation {
  const url = new URL(from, globalThis.location?.href)
  const base = new URL('.', url).href
  return {
    name: url.href,
    of: decodeURIComponent(url.pathname.split('/').at(-1)!),
    async get(path) {
      const { href } = new URL(path.split('/').map(encodeURIComponent).join('/'), base)
      // The core refuses such paths.
      if (!href.startsWith(base)) throw broken('http/url', `\`${path}\` is not below ${base}`)
      try {
        return await fromUrl(href, options)
      } catch (e) {
        if (e instanceof HoldallError && e.code === 'http/status' && /\b4(04|10)\b/.test(e.found)) return ABSENT
        throw e
      }
    },
  }
}

/** Returns the location for a folder; `null` if it does not exist. */
async function folderAt(from: string | URL): Promise<ModelLocation | null> {
  const { readdir } = await nodeModule('node:fs/promises')
  const { path } = await pathsOf(from)
  let names: string[]
  try {
    names = await readdir(path)
  } catch {
    return null
  }
  return folderOf(path, String(from), names)
}

/** Returns the location for files in a folder of the file system; `own` is the path of the named file. */
async function folderOf(folder: string, name: string, of: string[] | string, own?: string): Promise<ModelLocation> {
  const { realpath, stat } = await nodeModule('node:fs/promises')
  const { join, dirname, sep } = await nodeModule('node:path')
  return {
    name, of,
    async get(at, { isInside, isOneOfMany }) {
      const path: string = join(folder, ...at.split('/'))
      let size: number
      try {
        const about = await stat(path)
        if (!about.isFile()) return ABSENT
        size = about.size
      } catch (e) {
        if (['ENOENT', 'ENOTDIR'].includes((e as { code?: string }).code ?? '')) return ABSENT
        throw broken('io/failed', String((e as Error).message), { source: path, cause: e })
      }
      if (isInside) {
        // Caches store the files of a model in one folder, and links to them in another.
        const [real, home, model] = await Promise.all([path, folder, own ?? join(folder, '_')].map((path) => realpath(path).catch(() => path)))
        if (!real.startsWith(home + sep) && dirname(real) !== dirname(model)) return OUTSIDE
      }
      return isOneOfMany ? reopened(path, size) : fromFile(path)
    },
  }
}

/** A file that is opened for each read. */
function reopened(path: string, size: number): Source {
  return {
    size, name: path, hints: DISK,
    async read(start, end, options) {
      const file = await fromFile(path)
      try {
        if (file.size !== size) throw broken('file/changed', `the file had ${size} bytes, and has ${file.size}`, { source: path })
        return await file.read(start, end, options)
      } finally {
        await file.close?.()
      }
    },
  }
}

async function pathsOf(from: string | URL): Promise<{ path: string; basename: (path: string) => string; dirname: (path: string) => string }> {
  const { basename, dirname } = await nodeModule('node:path')
  const { fileURLToPath } = await nodeModule('node:url')
  return { path: /^file:/i.test(String(from)) ? fileURLToPath(from) : String(from), basename, dirname }
}
