//! Models in buffers of a GPU, by wgpu: loaded whole, or used while they arrive.
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
//! Bytes go from where they lie in the file (a map, a read, an answer) through wgpu's staging memory, once copied, into
//! buffers, on several threads and with a bound on what is under way. Nothing is handed out that was not filled and compared
//! with the file's digests.
#![forbid(unsafe_code)]

mod dense;
mod device;
mod load;
mod model;
mod place;
mod rules;
pub mod shader;
mod stream;
mod upload;

pub use dense::{Converter, Float};
pub use device::{block_on, device};
pub use load::{LoadOptions, load_model};
pub use model::{Component, Model, Page, Tensor, View};
pub use place::Placement;
pub use rules::RULES;
pub use stream::{ModelStream, TensorReady, stream_model};
/// The version of wgpu that devices and buffers are of.
pub use wgpu;

/// What the guide shows.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/gpu.md")]
struct Guide;
