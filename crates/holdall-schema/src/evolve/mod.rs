//! Evolution: compares schemas, and reads records of one schema under another (section 8).

mod assertions;
mod build;
mod chain;
mod change;
mod convert;
mod diff;
mod flat;
mod keep;
mod keywords;
mod members;
mod migrate;
mod number;
mod plan;
mod references;
mod resolve;
pub mod rules;
mod show;
mod steps;
mod tensor;
mod types;
mod widen;

pub use chain::Chain;
pub use change::{Bump, Change, ChangeKind, Verdict, changes_json};
pub use convert::{ConversionInput, Convert, Converters, by_chain, by_value};
pub use diff::{Side, diff};
pub use flat::{MissingTensors, TensorChange, TensorConverter, TensorSource, resolve_tensor};
pub use keep::HeapDefaults;
pub use migrate::Migrator;
pub use resolve::{Resolution, ResolveOptions, resolve};
pub use steps::{MemberStep, StepKind};
pub use tensor::Filled;
