//! The published crates, each used the way its documentation says and in the fastest way it offers.

pub mod arrow;
pub mod gguf;
pub mod python;
pub mod safetensors;
pub mod zt12;
pub mod zt21;
