//! Models in buffers of a GPU, through wgpu: loaded as a whole, or used while they are loading.
//!
//! ```no_run
//! # fn main() -> holdall::Result<()> {
//! let (device, queue) = holdall_gpu::device()?;
//! let file = holdall::open("model.safetensors")?;
//! let model = holdall_gpu::load_model(&device, &queue, &file, &holdall_gpu::LoadOptions::new())?;
//! let layer = model.view("encoder.layer.0");
//! let weight = layer.tensor("attention.self.query.weight")?;
//! let entry = wgpu::BindGroupEntry { binding: 0, resource: weight.binding(&holdall::Role::Data)? };
//! # let _ = entry;
//! # Ok(())
//! # }
//! ```
//!
//! Bytes are copied once, from the file's memory (a memory map, a read, an HTTP response) into wgpu's staging memory,
//! and from there into buffers. Several threads do this, and the amount of staging memory in use is limited. A tensor
//! is returned only after it was filled and compared with the file's digests.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod dense;
mod device;
mod load;
mod model;
mod placement;
mod rules;
pub mod shader;
mod stream;
mod upload;

pub use dense::{Converter, Float};
pub use device::{block_on, device};
pub use load::{LoadOptions, load_model};
pub use model::{Component, Model, Page, Tensor, View};
pub use placement::Placement;
pub use rules::RULES;
pub use stream::{ModelStream, TensorReady, stream_model};
/// The version of wgpu whose devices and buffers this crate uses.
pub use wgpu;

/// Tests the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/gpu.md")]
struct Guide;
