//! Deltas between models: what a fine-tune or a training step changed, as a file that is applied to the base.
//!
//! A delta is a zTensor file. It has the tensors that changed, as the [differences](holdall_core::layout::delta) of their elements,
//! and those that are new, or of another type or shape, as they are. Tensors that did not change are not in it.
//! `docs/spec/delta.md` describes the file.

mod apply;
mod convert;
mod fold;
mod in_place;
mod make;
mod open;
mod show;
mod target;
mod updates;

pub use apply::{ApplyOptions, ApplyReport, apply};
pub use convert::{ConvertOptions, DeltaSource, convert};
pub use fold::{FoldOptions, fold};
pub use holdall_core::layout::update::ChecksumKind;
pub use in_place::{InPlaceOptions, apply_in_place};
pub use make::{MakeOptions, MakeReport, make};
pub use open::open;
pub use show::{DeltaReport, DeltaTensor, show};
pub use updates::{
    DeltaLayout, UpdateLayout, UpdateOptions, UpdateReport, UpdateStep, UpdateTensor, Updates,
    apply_updates, show_updates,
};

use holdall_core::layout::delta::{DeltaHead, ElementsDigest};
use holdall_core::{Layout, Result};
use holdall_io::{Check, File, Tensor};

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A delta was made from another base.
    pub BASE: Integrity "delta/base"
        "A delta is applied to the model that it was made from."
        hint "`holdall delta show` lists the tensors of a delta; their base must have the same names, types, shapes and elements";
    /// The result is not the target.
    pub TARGET: Integrity "delta/target"
        "Applying a delta gives the elements of the target, by their digest.";
    /// A base or target cannot be used.
    pub UNFIT: Unsupported "delta/unfit"
        "The base and the target of a delta are models of tensors, not deltas.";
    /// A delta is converted, or otherwise used as a model.
    pub NOT_MODEL: Unsupported "delta/not-a-model"
        "A delta has no elements of its own; it is applied to its base."
        hint "`holdall delta apply BASE DELTA -o TARGET` writes the model";
}

/// Returns the rules of this module.
pub(crate) fn rules() -> impl Iterator<Item = &'static holdall_core::Rule> {
    RULES.iter().chain(in_place::RULES.iter()).copied().chain(updates::rules())
}

/// Returns `true` if the file is a delta: if a tensor has the layout of differences, or the attributes are those of a delta.
pub fn is_delta(file: &File) -> bool {
    read_head(file).is_ok() || file.tensors().any(|tensor| is_difference(&tensor))
}

/// Returns `true` if the tensor is the difference from a tensor of the base.
pub(crate) fn is_difference(tensor: &Tensor) -> bool {
    matches!(tensor.layout(), Layout::Other(name) if &**name == holdall_core::layout::delta::LAYOUT)
}

/// Returns the attribute of the file of a delta.
fn read_head(file: &File) -> Result<DeltaHead> {
    DeltaHead::read(file.attributes()).map_err(|e| e.in_source(file.name()))
}

/// Returns the digest of a tensor's elements as a dense tensor, or of the roles, lengths and decoded bytes of its components if it
/// is of another layout. `like` is a digest of the kind that is wanted.
fn digest_of(tensor: &Tensor, like: Option<&str>) -> Result<String> {
    let mut digest = like.map_or_else(ElementsDigest::new, ElementsDigest::like);
    match tensor.layout() {
        Layout::Dense | Layout::Planes(_) | Layout::Strided => {
            for piece in tensor.dense_pieces(Check::All)? {
                digest.update(&piece?);
            }
        }
        _ => {
            let checked = tensor.checked_with(Check::All);
            for c in tensor.components() {
                // So that bytes cannot move from a component to the next unnoticed.
                let len = c.decoded_len.unwrap_or(c.stored_len());
                digest.update(format!("{} {len}\n", c.role).as_bytes());
                for piece in checked.pieces(&c.role)? {
                    digest.update(piece?.as_ref());
                }
            }
        }
    }
    Ok(digest.finish())
}

/// Returns the digest of a whole model: of the names, types, shapes and digests of its tensors, by name.
fn digest_of_model<'a>(tensors: impl Iterator<Item = (&'a Tensor, &'a str)>) -> String {
    let mut lines: Vec<String> = tensors
        .map(|(tensor, digest)| {
            let element_type = tensor
                .dense_type()
                .map(|element_type| element_type.to_string())
                .unwrap_or_default();
            let (name, shape) = (tensor.name(), tensor.shape());
            format!("{}:{name} {element_type} {shape:?} {digest}\n", name.len())
        })
        .collect();
    lines.sort_unstable();
    let mut digest = ElementsDigest::new();
    lines.iter().for_each(|line| digest.update(line.as_bytes()));
    digest.finish()
}
