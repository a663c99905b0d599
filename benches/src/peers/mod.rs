//! The published crates, each used as documented and in its fastest way.

pub mod arrow;
pub mod gguf;
pub mod python;
pub mod safetensors;
pub mod updates;
pub mod zipnn;
pub mod zt12;
pub mod zt21;
