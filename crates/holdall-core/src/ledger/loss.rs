//! Losses: items that are missing in the target, and how a report describes them.

use crate::error::Escape as _;
use crate::model::Role;
use holdall_collections::HashMap;

/// An item of the source that is missing in the target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The kind of item.
    pub lost: LossKind,
    /// The name of its tensor in the source; `None` for an item of the file as a whole.
    pub tensor: Option<String>,
}

/// The kinds of items.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossKind {
    /// Contents of the file that its index does not represent, as a description.
    Unknown(String),
    /// The file attribute with this key, or its value.
    FileAttribute(String),
    /// The tensor's attribute with this key, or its value.
    Attribute(String),
    /// The tensor.
    Tensor,
    /// The component with this role, or its length.
    Component(Role),
    /// The shape.
    Shape,
    /// This layout.
    Layout(String),
    /// This type of elements.
    ElementType(String),
    /// A digest of this algorithm.
    Digest(String),
    /// The tensor's sharing of bytes with this tensor.
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

/// The maximum number of tensor names in a line.
const NAMES: usize = 8;
/// The maximum number of shared tensors that are described one by one.
const TIES: usize = 32;

/// Returns descriptions of the losses, in order: each item once, with its tensors.
pub(super) fn words(losses: &[Loss]) -> Vec<String> {
    let mut groups: Vec<(&LossKind, Vec<&str>)> = Vec::new();
    let mut indices: HashMap<&LossKind, usize> = HashMap::default();
    for loss in losses {
        let at = *indices.entry(&loss.lost).or_insert(groups.len());
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
    let listed = || tensors(names);
    match lost {
        LossKind::Unknown(words) => words.clone(),
        LossKind::FileAttribute(key) => format!("the attribute `{}` of the file", key.escaped()),
        LossKind::Attribute(key) => format!("the attribute `{}` of {}", key.escaped(), listed()),
        LossKind::Tensor => listed(),
        LossKind::Component(role) => {
            format!("the component `{}` of {}", role.as_str().escaped(), listed())
        }
        LossKind::Shape => format!("the shape of {}", listed()),
        LossKind::Layout(layout) => format!("the layout `{}` of {}", layout.escaped(), listed()),
        LossKind::ElementType(element) => {
            format!("the element type {} of {}", element.escaped(), listed())
        }
        LossKind::Digest(algorithm) if names.len() == 1 => {
            format!("the {} digest of {}", algorithm.escaped(), listed())
        }
        LossKind::Digest(algorithm) => {
            format!("the {} digests of {} components", algorithm.escaped(), names.len())
        }
        LossKind::Tie(owner) => {
            let verb = if names.len() == 1 { "shares" } else { "share" };
            format!("that {} {verb} the bytes of `{}`", listed(), owner.escaped())
        }
    }
}

/// Returns the names of some tensors, and the number of further ones.
fn tensors(names: &[&str]) -> String {
    let mut shown: Vec<&str> = names.to_vec();
    shown.dedup();
    let quoted: Vec<String> =
        shown.iter().take(NAMES).map(|name| format!("`{}`", name.escaped())).collect();
    let noun = if shown.len() == 1 { "tensor" } else { "tensors" };
    match shown.len().saturating_sub(NAMES) {
        0 => format!("{noun} {}", quoted.join(", ")),
        more => format!("{noun} {} and {more} more", quoted.join(", ")),
    }
}
