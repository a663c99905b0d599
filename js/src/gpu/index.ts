/**
 * Uploads tensors to GPU buffers, by WebGPU.
 *
 * @module
 */
import { elementsOf } from '../elements.js'
import { broken } from '../errors.js'
import type { TensorFile } from '../file.js'
import { runs, type RunOptions } from '../runs.js'
import type { Tensor } from '../tensor.js'

/** The part of `GPUBuffer` that is used here. */
export interface Buffer {
  destroy(): void
}

/** The part of `GPUDevice` that is used here. */
export interface Device<B extends Buffer = Buffer> {
  readonly limits: { readonly maxBufferSize: number }
  readonly queue: {
    writeBuffer(buffer: B, offset: number, data: any): void
    onSubmittedWorkDone(): Promise<unknown>
  }
  createBuffer(about: { label?: string; size: number; usage: number }): B
}

/** Options for uploads. */
export interface UploadOptions extends RunOptions {
  /** Names of the tensors, in the order in which they are needed; by default all, in the file's own order. */
  tensors?: Iterable<string> | undefined
  /**
   * Converts all elements to `f32`. By default they keep their stored type; quantized tensors are `f32`, sparse ones
   * are dense.
   */
  as?: 'f32' | undefined
  /** Usage flags of the buffers; `STORAGE | COPY_SRC | COPY_DST` by default. */
  usage?: number | undefined
  /** Called after each uploaded tensor, with the number of bytes done and the total. */
  onTensor?: ((uploaded: Uploaded<any>, done: number, all: number) => void) | undefined
}

/** A tensor in a buffer. */
export interface Uploaded<B extends Buffer = Buffer> {
  tensor: Tensor
  buffer: B
  /** The size of the elements in bytes; the buffer is padded to a multiple of four. */
  size: number
  /** The type of the elements: `f32`, `u8 f8_e4m3fn`. */
  type: string
}

const [COPY_SRC, COPY_DST, STORAGE] = [0x4, 0x8, 0x80]
/** The maximum number of bytes in flight. */
const PENDING = 64 << 20

/**
 * Uploads tensors one after the other, in pieces: memory stays bounded, and each tensor can be used while the next
 * ones are uploaded. On an error, the buffers created so far are destroyed.
 */
export async function uploadTo<B extends Buffer>(
  file: TensorFile, device: Device<B>, options: UploadOptions = {},
): Promise<Map<string, Uploaded<B>>> {
  const wanted = options.tensors === undefined ? [...file.tensors] : [...options.tensors].map((name) => file.tensor(name))
  const places = wanted.map((tensor) => placed(file, tensor, device, options))
  const all = places.reduce((sum, { size }) => sum + size, 0)
  const out = new Map<string, Uploaded<B>>()
  let [done, pending] = [0, 0]
  try {
    for (const { tensor, size, type } of places) {
      if (out.has(tensor.name)) continue
      const buffer = device.createBuffer({
        label: tensor.name, size: Math.max(4, Math.ceil(size / 4) * 4), usage: (options.usage ?? STORAGE | COPY_SRC) | COPY_DST,
      })
      const one = { tensor, buffer, size, type }
      out.set(tensor.name, one)
      await file.run(async (core) => {
        const isAsked = options.as === 'f32' && tensor.dense !== 'f32'
        let [offset, left] = [0, new Uint8Array(0)]
        for await (const run of runs(core, tensor, options)) {
          options.signal?.throwIfAborted()
          const array = isAsked ? elementsOf(core, tensor.elementType(), run, { as: 'f32' }) : run
          const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
          // Writes must be multiples of four bytes.
          const whole = new Uint8Array(left.length + bytes.length)
          whole.set(left)
          whole.set(bytes, left.length)
          const len = whole.length - (whole.length % 4)
          device.queue.writeBuffer(buffer, offset, whole.subarray(0, len))
          left = whole.slice(len)
          offset += len
          pending += len
          if (pending >= PENDING) {
            await device.queue.onSubmittedWorkDone()
            pending = 0
          }
        }
        if (left.length > 0) {
          const last = new Uint8Array(4)
          last.set(left)
          device.queue.writeBuffer(buffer, offset, last)
        }
      })
      done += size
      options.onTensor?.(one, done, all)
    }
    return out
  } catch (e) {
    for (const { buffer } of out.values()) buffer.destroy()
    throw e
  }
}

/** Returns the buffer size for a tensor, before anything is created. */
function placed(file: TensorFile, tensor: Tensor, device: Device, { as }: UploadOptions) {
  const { fault, name } = tensor
  if (fault !== null) throw fault
  const own = tensor.elementType()
  const type = as ?? own
  const data = tensor.components.find(({ role }) => role === 'data')
  const size = type === 'f32' ? tensor.count * 4
    : tensor.layout === 'dense' && data?.decodedLen != null ? data.decodedLen : tensor.count * tensor.width
  const most = device.limits.maxBufferSize
  if (size > most) {
    throw broken('js/gpu-limit', `${size} bytes are more than the ${most} of a buffer of this device`, {
      source: file.name, tensor: name,
    })
  }
  return { tensor, size, type }
}
