import type { Bytes, Float32, Struct, Uint32 } from 'holdall/schema'

// The records of `schema.json`: `holdall-ts-to-schema` makes it.
/** @title A photo with its caption */
export interface Photo extends Struct {
  /** @minimum 0 */
  id: Uint32
  label: 'cat' | 'dog' | 'other'
  /** @align natural */
  at?: { lat: Float32; lon: Float32 }
  caption: string
  tags: string[]
  /** @contentMediaType image/x-portable-graymap */
  image?: Bytes
}
