//! GGUF files by the names of their families: those of the Hugging Face hub.

use super::back::config_of;
use super::source::FileTensors;
use super::{OutType, Recipe};
use holdall_core::{Result, Value};
use holdall_io::File;
use holdall_models::recipe::{Input, Plan, UNKNOWN, find_by_gguf};
use std::sync::Arc;

/// The tensors of a GGUF file under the names that the folder of the model has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FamilyNames {
    /// The name of the recipe that leads back to the folder.
    pub recipe: String,
    /// The tensors of the folder, in the order of the file.
    pub tensors: Vec<FamilyTensor>,
    /// The names of the tensors of the file that the folder does not have, with the reasons.
    pub left_out: Vec<String>,
}

/// A tensor of a model's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FamilyTensor {
    /// The name in the folder.
    pub name: String,
    /// The shape in the folder.
    pub shape: Vec<u64>,
    /// The names of the tensors of the file that it is computed from.
    pub sources: Vec<String>,
}

/// Returns the first built-in recipe that leads from a GGUF file back to the folder of its model.
///
/// # Errors
/// Returns `recipe/unknown-architecture` if no recipe writes such files; the error of the last recipe that does if none leads
/// back.
pub fn find_back(file: &File) -> Result<Recipe> {
    found(file).map(|(recipe, _)| recipe)
}

/// Returns the tensors of a GGUF file under the names that the folder of the model has.
///
/// # Errors
/// Returns the errors of [`find_back`].
pub fn family_names(file: &File) -> Result<FamilyNames> {
    let (recipe, plan) = found(file)?;
    let names: Vec<String> = file.tensors().map(|tensor| tensor.name().to_owned()).collect();
    let of_output = |output: &holdall_models::recipe::Output| FamilyTensor {
        name: output.name.clone(),
        shape: output.shape().to_vec(),
        sources: output.sources.iter().filter_map(|at| names.get(*at).cloned()).collect(),
    };
    Ok(FamilyNames {
        recipe: recipe.name().to_owned(),
        tensors: plan.outputs.iter().map(of_output).collect(),
        left_out: plan
            .left_out
            .iter()
            .map(|l| format!("tensor `{}`: {}", l.name, l.reason))
            .collect(),
    })
}

fn found(file: &File) -> Result<(Recipe, Plan)> {
    let in_file = |e: holdall_core::Error| e.in_source(file.name());
    let architecture = match file.attributes().get("general.architecture") {
        Some(Value::Text(name)) => name.as_str(),
        _ => "",
    };
    let source = Arc::new(FileTensors::new(file)?);
    let mut last = UNKNOWN.broken("no recipe leads back");
    for recipe in find_by_gguf(architecture, file.limits()).map_err(in_file)? {
        let config = config_of(file, &recipe, None).map_err(in_file)?;
        let input = Input {
            config: &config,
            files: &[],
            source: source.clone(),
            outtype: OutType::Auto,
            name: "",
            tokens: None,
        };
        match recipe.plan_back(&input) {
            Ok(plan) => return Ok((recipe, plan)),
            Err(e) => last = e,
        }
    }
    Err(in_file(last))
}
