//! Recipes: how the tensors and the configuration of a model become those of another convention, such as the folders of
//! the Hugging Face hub and the GGUF files of llama.cpp.
//!
//! # What
//! A [`Recipe`] is a text in TOML, specified in `docs/spec/recipes.md`: conditions on the configuration under which it
//! applies, rules for tensors, and metadata. [`Recipe::plan`] combines it with a configuration and the list of a
//! model's tensors, and returns a [`Plan`]: the tensors to write, with the way each is computed, the metadata, and the
//! tensors that are left out with the reason.
//!
//! # Support
//! The recipes of [`builtin`] are texts of this crate, one for each family of models.
//!
//! # Untrusted input
//! Texts and configurations are read under limits. Evaluating an expression always ends. Every tensor of the source is
//! used, or named as left out, or an error. Elements are computed in pieces; only a permutation holds a whole tensor.

mod adapter;
mod adapter_config;
mod base;
mod builtin;
mod evaluate;
mod expression;
mod factored;
mod metadata;
mod mix;
mod node;
mod outtype;
mod pattern;
mod plan;
mod read;
mod reverse;
mod setting;
mod sizes;
mod step;
mod stepped;
mod stream;
mod text;
mod trace;

pub use adapter::{ADAPTER_PREFIX, AdapterInput, RestoredAdapter};
pub use adapter_config::check_adapter_alpha;
pub use builtin::{builtin, find, find_by_gguf};
pub use mix::Mix;
pub use outtype::{Form, OutType};
pub use plan::{Input, LeftOut, Output, Plan, SourceTensor, TensorSource};
pub use read::Recipe;
pub use setting::{MetadataSetting, SetKey, set_keys};
pub use stream::Pieces;

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A recipe is invalid.
    pub TEXT: Malformed "recipe/text"
        "A recipe has only known keys, with values of the right types.";
    /// An expression is invalid.
    pub EXPRESSION: Malformed "recipe/expression"
        "An expression of a recipe consists of numbers, texts, names and known operations, at most 1024 of them.";
    /// An expression has no value.
    pub VALUE: Malformed "recipe/value"
        "The expressions of a recipe have values of the right types for the model's configuration.";
    /// A step does not fit the shapes of the tensors.
    pub SHAPE: Malformed "recipe/shape"
        "The steps of a recipe and the sizes of the configuration fit the shapes of the model's tensors.";
    /// A tensor is not mentioned.
    pub LEFT_OVER: Unsupported "recipe/left-over"
        "A recipe has a rule for every tensor of the model.";
    /// Tensors are missing, or a name is made twice.
    pub INCOMPLETE: Malformed "recipe/incomplete"
        "A model has all tensors that a recipe puts together, and each tensor is made once.";
    /// A rule cannot be undone.
    pub NO_INVERSE: Unsupported "recipe/no-inverse"
        "The rules of a recipe that is followed backwards can be undone.";
    /// An adapter has no form in the target.
    pub ADAPTER: Unsupported "recipe/adapter"
        "An adapter consists of factors of LoRA for matrices of its base model, whose rows and columns the recipe keeps apart.";
    /// Metadata that the caller sets is wrong.
    pub SETTING: Misuse "recipe/setting"
        "Metadata that is set in place of a recipe's has the type of its key, and does not contradict the tensors.";
    /// A file of the model's folder is too long.
    pub CONFIG_LENGTH: Limit "recipe/config-length"
        "The configuration and the other texts in a model's folder have at most `Limits::header_len` bytes each."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
    /// The recipe writes files of another architecture.
    pub ARCHITECTURE: Unsupported "recipe/architecture"
        "A recipe that is followed backwards is one that writes the architecture of the file.";
    /// No recipe applies.
    pub UNKNOWN: Unsupported "recipe/unknown-architecture"
        "There is a recipe for the architecture of the model.";
}
