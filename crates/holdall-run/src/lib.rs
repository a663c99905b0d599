//! Runs models that are packed as Cartons, and their self-tests.
//!
//! # Overview
//! [`Model`] is a loaded model: it takes input values and returns output values. A [`Runner`] loads and runs it:
//! [`noop`] returns its inputs, `onnx` runs ONNX graphs in this process, and [`python`] runs Python code in a separate
//! process, by the protocol of `docs/spec/runner.md` ([`process`]).
//! The same protocol is used for a [`Program`]: an external runner, named by the caller or by the user's configuration
//! file ([`Config`]).
//!
//! A model's code runs only when the caller requests it, and only by the runners that the caller allows ([`Runners`]):
//! a package merely names one.
//!
//! ```
//! # fn main() -> holdall::Result<()> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/xor");
//! use holdall::carton::{Package, TensorValue};
//! use holdall_run::{Model, Settings};
//!
//! let package = Package::open(path)?;
//! # if !cfg!(feature = "run-onnx") { return Ok(()) }
//! let mut model = Model::load(&package, &Settings::default())?;
//! let inputs = model.in_order(vec![TensorValue::from_elements(vec![1, 2], &[1f32, 0.0])?])?;
//! let outputs = model.run(inputs)?;
//! assert_eq!(outputs[1], ("label".to_owned(), TensorValue::from_elements(vec![1], &[1i64])?));
//! # Ok(())
//! # }
//! ```
//!
//! # The engine of the runner `onnx`
//! The crate `rten` 0.27, chosen over `tract-onnx` 0.23, the other well-maintained one in Rust:
//! - build cost: 36 crates and 3.4 minutes of processor time, with all dependencies and the workspace's profile,
//!   against 123 crates and 17.7 minutes on the same busy machine;
//! - speed: the MiniLM encoder of `interop/onnx` on 128 tokens takes 16 ms on two cores and 26 ms on one, against 33 ms
//!   (`tract-onnx` uses one core), both in release builds, with input shapes that `tract-onnx` is given in advance;
//! - operators: about 160 against 181. `rten` has loops and sequences, `tract-onnx` more quantized, bitwise and
//!   classical operators (`QLinearConv`, `BitwiseAnd`, `TreeEnsembleClassifier`).
//!
//! It requires Rust 1.94, which is why the workspace does; older releases of `rten` panic, or compute wrong sums, on
//! some models. Its types are limited: it computes in 32-bit floats and in integers of 32 and 8 bits. 64-bit integers
//! are accepted if they fit in 32 bits (as token ids, lengths and masks do), and refused otherwise; 64-bit floats in
//! inputs are rounded. Without the feature `run-onnx`, this engine is not built.
//!
//! With the feature `run-onnxruntime` there is a second engine: `onnx::OnnxRuntime` loads an ONNX Runtime library that
//! the caller names, through the crate `ort`. `Settings::default().runners.with(…)` makes it take precedence. The
//! feature adds four crates, but not the library itself.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

mod builtin;
pub mod config;
mod folder;
pub mod model;
pub mod noop;
#[cfg(any(feature = "run-onnx", feature = "run-onnxruntime"))]
pub mod onnx;
mod platform;
pub mod process;
pub mod python;
pub mod requirements;
pub mod rules;
pub mod runner;
mod runner_settings;
mod runners;
pub mod self_test;
mod settings;

pub use config::Config;
pub use model::Model;
pub use process::program::Program;
pub use runner::{Load, Loaded, NamedValues, Runner};
pub use runner_settings::{Cancelled, Log, LogLine, RunnerSettings};
pub use runners::Runners;
pub use self_test::{OutputReport, TestReport, self_tests};
pub use settings::Settings;

/// Returns all rules of this crate and of the crates below it.
pub fn rules() -> impl Iterator<Item = &'static holdall::Rule> {
    rules::RULES.iter().copied().chain(holdall::rules())
}
