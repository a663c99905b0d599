//! Recipes: models of the Hugging Face hub converted to GGUF.

mod convert;

pub(crate) use convert::{ByRecipe, convert};
