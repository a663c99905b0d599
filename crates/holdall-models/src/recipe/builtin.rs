//! The recipes of this crate: a file in `recipes/` for each.

use super::{Recipe, UNKNOWN};
use crate::recipe::evaluate::member;
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::Value;

/// Names and texts, sorted by name. The build script lists the folder.
static BUILTIN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/recipes.rs"));

/// Returns the names and texts of the recipes that are part of this crate, sorted by name.
pub fn builtin() -> &'static [(&'static str, &'static str)] {
    BUILTIN
}

/// Returns the recipes that write GGUF files with this `general.architecture`.
///
/// # Errors
/// Returns [`UNKNOWN`] if no recipe does.
pub fn find_by_gguf(architecture: &str, limits: &Limits) -> Result<Vec<Recipe>> {
    let mut out = Vec::new();
    for (_, text) in BUILTIN {
        let recipe = Recipe::parse(text.as_bytes(), limits)?;
        let is_for_models = !recipe.architectures().is_empty();
        if is_for_models && recipe.gguf_architecture() == Some(architecture) {
            out.push(recipe);
        }
    }
    if out.is_empty() {
        let architecture = architecture.escaped();
        let message =
            format!("no recipe writes files whose `general.architecture` is `{architecture}`");
        return Err(UNKNOWN.broken(message));
    }
    Ok(out)
}

/// Returns the recipe for models with this configuration.
///
/// # Errors
/// Returns [`UNKNOWN`] if no recipe applies.
pub fn find(config: &Value, limits: &Limits) -> Result<Recipe> {
    for (_, text) in BUILTIN {
        let recipe = Recipe::parse(text.as_bytes(), limits)?;
        if recipe.applies(config) {
            return Ok(recipe);
        }
    }
    let named = match member(config, "architectures") {
        Some(Value::Array(all)) => all.first(),
        _ => None,
    };
    let (key, value) = match named {
        Some(name) => ("architectures", Some(name)),
        None => ("model_type", member(config, "model_type")),
    };
    let Some(value) = value else {
        return Err(
            UNKNOWN.broken("the configuration has neither `architectures` nor `model_type`")
        );
    };
    let value = value.to_json();
    Err(UNKNOWN.broken(format!("no recipe for models whose `{key}` is {}", value.escaped())))
}
