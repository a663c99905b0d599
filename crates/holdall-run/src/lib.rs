//! Runs models that are packed as Cartons, and their self-tests.
//!
//! # What
//! [`Model`] is a model that was loaded: it takes values and gives values. What loads and runs it is a
//! [`Runner`]: [`noop`] gives back what it is given, `onnx` runs ONNX graphs in this process, [`python`] runs
//! Python code in a process of its own, which it speaks to as `docs/spec/runner.md` says ([`process`]). So does
//! [`Program`], a runner of somebody else that a caller names, or the user's configuration file ([`Config`]).
//!
//! Nothing here happens by itself: a model's code runs only when the caller asks for it. Which runners there are
//! is up to the caller too ([`Runners`]); a package only names one.
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
//! # The engine of `onnx`
//! The crate `rten` 0.27, chosen over `tract-onnx` 0.23, the other one in Rust that is kept well:
//! - weight: 36 crates and 3.4 minutes of processor time to build, with all dependencies and by the workspace's
//!   profile, against 123 crates and 17.7 minutes on the same busy machine;
//! - speed: the MiniLM encoder of `interop/onnx` on 128 tokens takes 16 ms on two cores and 26 ms on one, against
//!   33 ms (`tract-onnx` uses one), each built for release, with shapes that `tract-onnx` is told beforehand;
//! - operators: about 160 against 181. `rten` has loops and sequences, `tract-onnx` more quantized, bitwise and
//!   classical ones (`QLinearConv`, `BitwiseAnd`, `TreeEnsembleClassifier`).
//!
//! It wants Rust 1.94, the reason for the workspace's `rust-version`; older releases of it panic, or compute
//! wrong sums, on some models. What it lacks are types: it computes in 32-bit floats and integers of 32 and 8
//! bits. 64-bit integers are taken where they fit 32 bits (token ids, lengths and masks do) and refused where they do not;
//! 64-bit floats are rounded. Whoever builds without the feature `run-onnx` has no engine at all.
//!
//! With the feature `run-onnxruntime` there is a second one: `onnx::OnnxRuntime` loads a library of ONNX Runtime that
//! the caller names, through the crate `ort`, and `Settings::default().runners.with(…)` puts it before the other.
//! It brings four crates, and no code of the library itself.
#![deny(unsafe_code)]

mod builtin;
#[cfg(unix)]
pub mod config;
mod folder;
pub mod model;
pub mod noop;
#[cfg(any(feature = "run-onnx", feature = "run-onnxruntime"))]
pub mod onnx;
pub mod process;
#[cfg(unix)]
pub mod python;
pub mod requirements;
pub mod rules;
pub mod runner;
mod runner_settings;
mod runners;
pub mod self_test;
mod settings;

#[cfg(unix)]
pub use config::Config;
pub use model::Model;
#[cfg(unix)]
pub use process::program::Program;
pub use runner::{Load, Loaded, NamedValues, Runner};
pub use runner_settings::{Cancelled, Log, LogLine, RunnerSettings};
pub use runners::Runners;
pub use self_test::{OutputReport, TestReport, self_tests};
pub use settings::Settings;

/// Every rule of this crate and of those below it.
pub fn rules() -> impl Iterator<Item = &'static holdall::Rule> {
    rules::RULES.iter().copied().chain(holdall::rules())
}
