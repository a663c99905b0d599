import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from './corpus.js'

/** The programs in the documents, and the lines that they say they print. */
function programs(): { text: string; isTsx: boolean; prints: string[] }[] {
  const page = readFileSync(join(root, 'docs/javascript.md'), 'utf8')
  return [...page.matchAll(/\n```(ts|tsx)\n([^]*?)\n```/g)].map(([, language, text]) => ({
    text: text!,
    isTsx: language === 'tsx',
    prints: [...text!.matchAll(/console\.log\(.*\) \/\/ (.*)/g)].map(([, line]) => line!),
  }))
}

test('the programs in the documents are well typed, run, and print the documented output', () => {
  const folder = join(root, 'js/build/docs')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const all = programs()
  assert.ok(all.length > 4)
  all.forEach(({ text, isTsx }, at) => {
    writeFileSync(join(folder, `program${at}.${isTsx ? 'tsx' : 'ts'}`), `${text}\nexport {}\n`)
  })
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({
    extends: '../../tsconfig.json',
    compilerOptions: {
      rootDir: '.', outDir: 'out', declaration: false, types: ['node'], noUnusedLocals: false,
      typeRoots: ['../../node_modules/@types'],
    },
    include: ['.'],
  }))
  const node = (args: string[], cwd: string) =>
    execFileSync(process.execPath, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  try {
    node([join(root, 'js/node_modules/typescript/bin/tsc'), '-p', folder], root)
  } catch (e) {
    assert.fail((e as { stdout: string }).stdout)
  }
  all.forEach(({ prints }, at) => {
    const printed = node([join(folder, `out/program${at}.js`)], root).trimEnd().split('\n')
    assert.deepEqual(printed.filter((line) => line !== ''), prints)
  })
})
