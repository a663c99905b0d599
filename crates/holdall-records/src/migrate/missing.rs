//! Finds tensors that the new schema has and a file does not have.

use super::tensors::{Flat, TensorSource, set_type, shown};
use holdall_core::error::Shown as _;
use holdall_core::{Result, TensorSpec};
use holdall_formats::stored_as;
use holdall_schema::evolve::rules::NO_DEFAULT;
use holdall_schema::rules::TOO_LARGE;
use holdall_schema::{
    Document, Filled, Node, NodeId, Path, Presence, Root, SchemaLimits, Segment, TensorType,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The dense tensors of a schema that a file does not have.
#[derive(Default)]
pub(crate) struct Lacking {
    /// Tensors that are created from their default.
    pub(crate) filled: Vec<Flat>,
    /// The paths and types of optional tensors that remain absent.
    pub(super) absent: Vec<(Path, TensorType)>,
}

/// Finds the tensors that the schema has and a file does not have. `present` are the paths of the file's tensors under
/// the schema.
///
/// # Errors
/// Returns `evolve/no-default` if a required tensor has no default, or an error of the rules about defaults.
pub(crate) fn missing(
    schema: &Document,
    present: impl Iterator<Item = String>,
    limits: &SchemaLimits,
) -> Result<Lacking> {
    let path = |name: String| {
        name.parse().unwrap_or_else(|_| Path(vec![Segment::Name(name.as_str().into())]))
    };
    let present: BTreeSet<Path> = present.map(path).collect();
    let mut walk = Missing { schema, present, limits, left: limits.nodes, out: Lacking::default() };
    if let Root::References(root) = schema.schema.root() {
        walk.below(root, &Path::root()).map_err(|e| e.in_source(&schema.name))?;
    }
    Ok(walk.out)
}

struct Missing<'m> {
    schema: &'m Document,
    present: BTreeSet<Path>,
    limits: &'m SchemaLimits,
    left: u64,
    out: Lacking,
}

impl Missing<'_> {
    fn below(&mut self, id: NodeId, at: &Path) -> Result<()> {
        let Node::Object(object) = self.schema.schema.node(id) else { return Ok(()) };
        for property in &object.properties {
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                TOO_LARGE.broken(format!("a schema with more than {} paths", self.limits.nodes))
            })?;
            let path = at.then(Segment::Name(Arc::clone(&property.name)));
            let next = self.present.range(&path..).next();
            let is_there = next.is_some_and(|p| p.0.starts_with(&path.0));
            match self.schema.schema.node(property.node) {
                Node::Object(_) if is_there || property.presence == Presence::Required => {
                    self.below(property.node, &path)?;
                }
                Node::Flat { tensor, .. } if !is_there => {
                    match (&property.default, property.presence) {
                        (Some(value), presence) => match tensor.filled(value, self.limits) {
                            Ok(filled) => self.out.filled.push(default(&path, filled)),
                            // Treated as if there were no default.
                            Err(_) if presence == Presence::Optional => {
                                self.out.absent.push((path, tensor.clone()));
                            }
                            Err(e) => return Err(e.in_tensor(path.to_string())),
                        },
                        (None, Presence::Optional) => self.out.absent.push((path, tensor.clone())),
                        (None, Presence::Required) => {
                            let message = format!(
                                "the file has no tensor `{}`, which is {} without a default",
                                path.to_string().shown(),
                                shown(tensor)
                            );
                            return Err(NO_DEFAULT.broken(message));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Creates a tensor from its default.
fn default(path: &Path, filled: Filled) -> Flat {
    let (dtype, _) = stored_as(filled.dtype);
    let mut spec = TensorSpec::dense(path.to_string(), dtype, filled.shape.clone());
    set_type(&mut spec, filled.dtype);
    Flat { spec, how: TensorSource::Filled(Arc::new(filled)) }
}
