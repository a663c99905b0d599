import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { HoldallError, open } from 'holdall'
import { uploadTo, type Device } from 'holdall/gpu'
import { chromium } from 'playwright-core'
import { read, root, safetensors } from './corpus.js'

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path))

/** A device that records all writes. */
class Memory implements Device<Kept> {
  readonly buffers: Kept[] = []
  readonly limits = { maxBufferSize: 1 << 20 }
  readonly queue = {
    writeBuffer(buffer: Kept, offset: number, data: Uint8Array) {
      assert.ok(offset % 4 === 0 && data.length % 4 === 0)
      buffer.bytes.set(data, offset)
    },
    onSubmittedWorkDone: async () => {},
  }

  createBuffer({ label = '', size }: { label?: string; size: number }): Kept {
    assert.ok(size > 0 && size % 4 === 0)
    const buffer = new Kept(label, new Uint8Array(size))
    this.buffers.push(buffer)
    return buffer
  }
}

class Kept {
  isDestroyed = false
  constructor(readonly label: string, readonly bytes: Uint8Array) {}
  destroy(): void {
    this.isDestroyed = true
  }
}

test('tensors lie in buffers as they are stored, filled up, in the order that is asked for', async () => {
  const file = await open(read(join(root, 'examples/tiny.zt')))
  const device = new Memory()
  const seen: string[] = []
  const tensors = ['router.weight', 'causal_mask', 'embed.weight', 'experts.gate.weight']
  const found = await uploadTo(file, device, { tensors, onTensor: ({ tensor }) => seen.push(tensor.name) })
  assert.deepEqual([seen, [...found.keys()]], [tensors, tensors])
  for (const name of tensors) {
    const { buffer, size, tensor, type } = found.get(name)!
    const array = await tensor.array()
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
    assert.equal(size, bytes.length, name)
    assert.equal(type, tensor.dense)
    assert.deepEqual(buffer.bytes.subarray(0, size), bytes, name)
  }
  const floats = await uploadTo(file, device, { tensors: ['embed.weight'], as: 'f32' })
  const embed = new Float32Array(floats.get('embed.weight')!.buffer.bytes.buffer)
  assert.deepEqual(embed, await file.tensor('embed.weight').array({ as: 'f32' }))
  const odd = await open(safetensors({ odd: ['U8', [5], new Uint8Array([1, 2, 3, 4, 5])], none: ['F32', [0], new Uint8Array(0)] }))
  const both = await uploadTo(odd, device)
  assert.deepEqual([...both.get('odd')!.buffer.bytes], [1, 2, 3, 4, 5, 0, 0, 0])
  assert.deepEqual([both.get('none')!.size, both.get('none')!.buffer.bytes.length], [0, 4])
})

test('what does not fit is said first, and what fails leaves nothing behind', async () => {
  const device = new Memory()
  const large = await open(safetensors({ small: ['U8', [4], new Uint8Array(4)], large: ['U8', [2 << 20], new Uint8Array(2 << 20)] }))
  await assert.rejects(uploadTo(large, device), (e) => e instanceof HoldallError && e.code === 'js/gpu-limit' && e.tensor === 'large')
  assert.equal(device.buffers.length, 0)
  const file = await open(read(join(root, 'examples/tiny.zt')))
  const stop = new AbortController()
  const ended = uploadTo(file, device, { signal: stop.signal, onTensor: () => stop.abort(new Error('enough')) })
  await assert.rejects(ended, { message: 'enough' })
  assert.ok(device.buffers.length > 0 && device.buffers.every((buffer) => buffer.isDestroyed))
})

test('a shader sums what was uploaded, in Chromium', { skip: executablePath === undefined && 'there is no Chromium' }, async (t) => {
  const server = createServer((request, answer) => {
    const name = request.url!.slice(1).split('?')[0]!
    if (name === '') return answer.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html>')
    const path = join(root, name === 'tiny.zt' ? 'examples' : 'js/dist', name)
    if (name.includes('..') || !existsSync(path)) return answer.writeHead(404).end()
    answer.writeHead(200, { 'content-type': name.endsWith('.js') ? 'text/javascript' : 'application/octet-stream' }).end(readFileSync(path))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const browser = await chromium.launch({
    executablePath: executablePath!, args: ['--no-sandbox', '--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'],
  })
  try {
    const page = await browser.newPage()
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    const sums = await page.evaluate(`(async () => {
      const adapter = await navigator.gpu?.requestAdapter()
      if (!adapter) return null
      const device = await adapter.requestDevice()
      const { open } = await import('/index.js')
      const { uploadTo } = await import('/gpu/index.js')
      const file = await open(new URL('/tiny.zt', location.href))
      const { buffer, size } = (await uploadTo(file, device, { tensors: ['embed.weight'], as: 'f32' })).get('embed.weight')
      const code = 'struct Sum { value: f32 } @group(0) @binding(0) var<storage, read> x: array<f32>;' +
        '@group(0) @binding(1) var<storage, read_write> sum: Sum;' +
        '@compute @workgroup_size(1) fn main() { var all = 0.0; for (var n = 0u; n < arrayLength(&x); n++) { all += x[n]; } sum.value = all; }'
      const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module: device.createShaderModule({ code }), entryPoint: 'main' } })
      const sum = device.createBuffer({ size: 4, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC })
      const back = device.createBuffer({ size: 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST })
      const encoder = device.createCommandEncoder()
      const pass = encoder.beginComputePass()
      pass.setPipeline(pipeline)
      const entries = [buffer, sum].map((buffer, binding) => ({ binding, resource: { buffer } }))
      pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }))
      pass.dispatchWorkgroups(1)
      pass.end()
      encoder.copyBufferToBuffer(sum, 0, back, 0, 4)
      device.queue.submit([encoder.finish()])
      await back.mapAsync(GPUMapMode.READ)
      const array = await file.tensor('embed.weight').array({ as: 'f32' })
      return [new Float32Array(back.getMappedRange())[0], array.reduce((a, b) => Math.fround(a + b), 0), size, array.byteLength]
    })()`) as number[] | null
    if (sums === null) {
      t.skip('Chromium has no adapter for WebGPU here')
      return
    }
    const [found, expected, size, len] = sums as [number, number, number, number]
    assert.ok(Math.abs(found - expected) < 1e-4, `${found} ${expected}`)
    assert.equal(size, len)
  } finally {
    await browser.close()
    server.closeAllConnections()
    server.close()
  }
})
