//! Deltas between models: what a fine-tune or a training step changed, as a file that is applied to the base.
//!
//! A delta is a zTensor file. It has the tensors that changed, as the [differences](holdall_core::layout::delta) of their elements,
//! and those that are new, or of another type or shape, as they are. Tensors that did not change are not in it.
//! `docs/spec/delta.md` describes the file.

mod apply;
mod convert;
mod fold;
mod make;
mod show;
mod target;
mod updates;

pub use apply::{ApplyOptions, ApplyReport, apply};
pub use convert::{ConvertOptions, DeltaSource, convert};
pub use fold::{FoldOptions, fold};
pub use holdall_core::layout::update::ChecksumKind;
pub use make::{MakeOptions, MakeReport, make};
pub use show::{DeltaReport, DeltaTensor, show};
pub use updates::{
    DeltaLayout, UpdateLayout, UpdateOptions, UpdateReport, UpdateStep, UpdateTensor, Updates,
    apply_updates, show_updates,
};

use holdall_core::layout::delta::ElementsDigest;
use holdall_core::{Layout, Result, Value};
use holdall_io::{Check, File, Tensor};

/// The attribute of the file.
pub(crate) const KEY: &str = "delta";
/// The version of the layout of the file.
const VERSION: i128 = 1;

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A file is not a delta.
    pub NOT_DELTA: Malformed "delta/not-a-delta"
        "A delta is a file with the attribute `delta`: its version (1), the number of tensors of the target, and the names of tensors that were removed.";
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
    RULES.iter().copied().chain(updates::rules())
}

/// Returns `true` if the file is a delta: if a tensor has the layout of differences, or the attributes are those of a delta.
pub fn is_delta(file: &File) -> bool {
    Head::read(file).is_ok() || file.tensors().any(|tensor| is_difference(&tensor))
}

/// Returns `true` if the tensor is the difference from a tensor of the base.
pub(crate) fn is_difference(tensor: &Tensor) -> bool {
    matches!(tensor.layout(), Layout::Other(name) if &**name == holdall_core::layout::delta::LAYOUT)
}

/// The attribute of the file of a delta.
#[derive(Default)]
struct Head {
    /// The number of tensors of the target.
    tensors: u64,
    /// The names of the tensors of the base that the target lacks.
    removed: Vec<String>,
    /// The names of the tensors that the base lacks, if the delta has them.
    added: Option<Vec<String>>,
    /// The digest of the whole base, if the delta has it.
    base: Option<String>,
    /// The digest of the whole target, if the delta has it.
    target: Option<String>,
    /// What the base and the target are called, if the delta says so.
    base_version: Option<String>,
    target_version: Option<String>,
}

impl Head {
    fn read(file: &File) -> Result<Head> {
        let broken = |what: &str| NOT_DELTA.broken(what.to_owned()).in_source(file.name());
        let Some(Value::Map(pairs)) = file.attributes().get(KEY) else {
            return Err(broken("there is no attribute `delta`"));
        };
        let get = |key: &str| {
            let found = pairs.iter().find(|(k, _)| k.as_text() == Some(key));
            found.map(|(_, value)| value)
        };
        match get("version") {
            Some(Value::Integer(VERSION)) => {}
            Some(Value::Integer(other)) => {
                return Err(broken(&format!("its version is {other}; this build reads 1")));
            }
            _ => return Err(broken("`version` is missing")),
        }
        let tensors = match get("tensors") {
            Some(Value::Integer(n)) => u64::try_from(*n).ok(),
            _ => None,
        };
        let tensors = tensors.ok_or_else(|| broken("`tensors` is not a number"))?;
        let names = |key: &str| match get(key) {
            None => Ok(None),
            Some(Value::Array(all)) => {
                let names = all.iter().map(|name| name.as_text().map(str::to_owned));
                let names: Option<Vec<String>> = names.collect();
                let names = names.ok_or_else(|| broken(&format!("`{key}` is not a list of names")));
                names.map(Some)
            }
            Some(_) => Err(broken(&format!("`{key}` is not a list of names"))),
        };
        let (removed, added) = (names("removed")?.unwrap_or_default(), names("added")?);
        let text = |key: &str| get(key).and_then(Value::as_text).map(str::to_owned);
        let (base, target) = (text("base"), text("target"));
        let (base_version, target_version) = (text("base_version"), text("target_version"));
        Ok(Head { tensors, removed, added, base, target, base_version, target_version })
    }

    fn value(&self) -> Value {
        let text = |text: &str| Value::Text(text.to_owned());
        let mut pairs = vec![
            (text("version"), Value::Integer(VERSION)),
            (text("tensors"), Value::Integer(self.tensors.into())),
        ];
        let list = |names: &[String]| Value::Array(names.iter().map(|name| text(name)).collect());
        if !self.removed.is_empty() {
            pairs.push((text("removed"), list(&self.removed)));
        }
        if let Some(added) = &self.added {
            pairs.push((text("added"), list(added)));
        }
        for (key, value) in [
            ("base", &self.base),
            ("target", &self.target),
            ("base_version", &self.base_version),
            ("target_version", &self.target_version),
        ] {
            if let Some(value) = value {
                pairs.push((text(key), text(value)));
            }
        }
        Value::Map(pairs)
    }
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
