//! One item that is not in the target, and how a report names it.

use crate::error::Shown as _;
use crate::model::Role;
use holdall_collections::HashMap;

/// An item of the source that the target lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// What is lost.
    pub lost: LossKind,
    /// The name of its tensor in the source; `None` for an item of the file as a whole.
    pub tensor: Option<String>,
}

/// The kinds of items.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossKind {
    /// Something that the file says and its index does not hold, in words.
    Unknown(String),
    /// The file attribute of this key, or its value.
    FileAttribute(String),
    /// The attribute of this key, or its value.
    Attribute(String),
    /// The tensor.
    Tensor,
    /// The component of this role, or its length.
    Component(Role),
    /// The shape.
    Shape,
    /// This layout.
    Layout(String),
    /// This type of elements.
    ElementType(String),
    /// A digest of this algorithm.
    Digest(String),
    /// That the tensor shares the bytes of this one.
    Tie(String),
}

impl Loss {
    pub(super) fn new(lost: LossKind) -> Loss {
        Loss { lost, tensor: None }
    }

    pub(super) fn in_tensor(tensor: &str, lost: LossKind) -> Loss {
        Loss { lost, tensor: Some(tensor.to_owned()) }
    }
}

/// Names of tensors that a line shows.
const NAMES: usize = 8;
/// Tensors whose bytes others share that are named one by one.
const TIES: usize = 32;

/// Returns the losses in words, in their order: each item once, with the tensors that it is of.
pub(super) fn words(losses: &[Loss]) -> Vec<String> {
    let mut groups: Vec<(&LossKind, Vec<&str>)> = Vec::new();
    let mut places: HashMap<&LossKind, usize> = HashMap::default();
    for loss in losses {
        let at = *places.entry(&loss.lost).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, names)) => names.extend(loss.tensor.as_deref()),
            None => groups.push((&loss.lost, loss.tensor.as_deref().into_iter().collect())),
        }
    }
    let is_tie = |(lost, _): &&(&LossKind, Vec<&str>)| matches!(lost, LossKind::Tie(_));
    if groups.iter().filter(is_tie).count() <= TIES {
        return groups.iter().map(|(lost, names)| line(lost, names)).collect();
    }
    let members: usize = groups.iter().filter(is_tie).map(|(_, names)| names.len()).sum();
    let others = groups.iter().filter(|group| !is_tie(group));
    let lines = others.map(|(lost, names)| line(lost, names));
    lines.chain([format!("that {members} tensors share the bytes of others")]).collect()
}

fn line(lost: &LossKind, names: &[&str]) -> String {
    let of = || tensors(names);
    match lost {
        LossKind::Unknown(words) => words.clone(),
        LossKind::FileAttribute(key) => format!("the attribute `{}` of the file", key.shown()),
        LossKind::Attribute(key) => format!("the attribute `{}` of {}", key.shown(), of()),
        LossKind::Tensor => of(),
        LossKind::Component(role) => {
            format!("the component `{}` of {}", role.as_str().shown(), of())
        }
        LossKind::Shape => format!("the shape of {}", of()),
        LossKind::Layout(layout) => format!("the layout `{}` of {}", layout.shown(), of()),
        LossKind::ElementType(element) => {
            format!("the element type {} of {}", element.shown(), of())
        }
        LossKind::Digest(algorithm) if names.len() == 1 => {
            format!("the {} digest of {}", algorithm.shown(), of())
        }
        LossKind::Digest(algorithm) => {
            format!("the {} digests of {} components", algorithm.shown(), names.len())
        }
        LossKind::Tie(owner) => {
            let verb = if names.len() == 1 { "shares" } else { "share" };
            format!("that {} {verb} the bytes of `{}`", of(), owner.shown())
        }
    }
}

/// The names of some tensors, and how many more there are.
fn tensors(names: &[&str]) -> String {
    let mut shown: Vec<&str> = names.to_vec();
    shown.dedup();
    let quoted: Vec<String> =
        shown.iter().take(NAMES).map(|name| format!("`{}`", name.shown())).collect();
    let noun = if shown.len() == 1 { "tensor" } else { "tensors" };
    match shown.len().saturating_sub(NAMES) {
        0 => format!("{noun} {}", quoted.join(", ")),
        more => format!("{noun} {} and {more} more", quoted.join(", ")),
    }
}
