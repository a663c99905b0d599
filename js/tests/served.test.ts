import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash, X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { chromium } from 'playwright-core'
import { root } from './corpus.js'

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path))
/** The command, which `cargo xtask js` builds. */
const command = process.env['HOLDALL'] ?? join(root, 'target/debug/holdall')
const skip = executablePath === undefined ? 'there is no Chromium' : existsSync(command) ? false : 'the command is not built'

test('a page reads ranges of served files over HTTP/2, with the certificate of the server', { skip }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdall-'))
  const [identity, path] = [join(folder, 'key'), join(root, 'examples/tiny.zt')]
  const server = spawn(command, ['serve', path, '--json', '--cors', '*', '--listen', '127.0.0.1:0', '--identity', identity], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const page = createServer((_, answer) => answer.setHeader('Content-Type', 'text/html').end('<p>')).listen(0, '127.0.0.1')
  try {
    const [line] = await once(server.stdout, 'data')
    const { address } = JSON.parse(String(line)) as { address: string }
    const { publicKey } = new X509Certificate(await readFile(identity))
    const key = createHash('sha256').update(publicKey.export({ type: 'spki', format: 'der' })).digest('base64')
    const args = ['--no-sandbox', `--ignore-certificate-errors-spki-list=${key}`]
    const browser = await chromium.launch({ executablePath: executablePath ?? '', args })
    try {
      const tab = await browser.newPage()
      await tab.goto(`http://127.0.0.1:${(page.address() as AddressInfo).port}/`)
      const url = `https://${address}/tiny.zt`
      const result = await tab.evaluate(async (url) => {
        const ask = async (at: number) => {
          // Both headers make the browser ask first whether it may.
          const answer = await fetch(url, { headers: { Authorization: 'Bearer none', Range: `bytes=${at}-${at + 9}` } })
          return [answer.status, answer.headers.get('Content-Range'), [...new Uint8Array(await answer.arrayBuffer())]] as const
        }
        const parts = await Promise.all([0, 100, 200].map(ask))
        const entries = performance.getEntriesByName(url) as PerformanceResourceTiming[]
        return { parts, protocols: [...new Set(entries.map((entry) => entry.nextHopProtocol))] }
      }, url)
      const bytes = await readFile(path)
      const part = (at: number) => [206, `bytes ${at}-${at + 9}/${bytes.length}`, [...bytes.subarray(at, at + 10)]]
      assert.deepEqual(result, { parts: [0, 100, 200].map(part), protocols: ['h2'] })
    } finally {
      await browser.close()
    }
  } finally {
    server.kill()
    page.close()
    await rm(folder, { recursive: true })
  }
})
