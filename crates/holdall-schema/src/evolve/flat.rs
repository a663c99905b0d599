//! Flat tensors under another schema: what becomes of each (8.4), and those that a file lacks.

use super::chain::Chain;
use super::rules::{NO_CONVERTER, NO_DEFAULT};
use super::tensor::Filled;
use crate::document::Document;
use crate::dtype::TensorDType;
use crate::error::{Result, Shown as _};
use crate::kinds::{Dim, TensorType};
use crate::limits::SchemaLimits;
use crate::path::{Path, Segment};
use crate::rules::TOO_LARGE;
use crate::schema::{Node, NodeId, Presence, Root};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What makes a flat tensor of another schema.
#[derive(Debug, Clone, Copy)]
pub enum TensorConverter<'c> {
    /// A converter by its name.
    Named(&'c Chain),
    /// A function of the caller's.
    Function,
}

/// What a flat tensor is under another schema.
#[derive(Debug, Clone)]
pub struct TensorChange {
    /// Its elements' type there.
    pub dtype: TensorDType,
    /// Its dimensions there.
    pub shape: Vec<u64>,
    /// Where its elements come from.
    pub how: TensorSource,
}

/// Where the elements of a tensor under another schema come from.
#[derive(Debug, Clone)]
pub enum TensorSource {
    /// They are those of the file.
    Same,
    /// Each is made by a converter.
    Elements(Chain),
    /// The caller's function makes them.
    Function,
}

/// What makes elements those of a wider type.
const WIDEN: &str = "cast";

/// Decides what becomes of a dense tensor whose elements are `from`, and whose dimensions `shape`, where a schema has `to`.
///
/// # Errors
/// `evolve/no-converter`.
pub fn resolve_tensor(
    (from, shape): (TensorDType, &[u64]),
    to: &TensorType,
    converter: Option<TensorConverter<'_>>,
) -> Result<TensorChange> {
    let wanted = match to.dtype {
        Some(dtype) => dtype,
        None if to.accepts(from) => from,
        None => to.dtypes.first().copied().unwrap_or(from),
    };
    let wrong = || {
        let old = format!("{from} {shape:?}");
        NO_CONVERTER.broken(format!("it is {old} in the file, and {} for the reader", to.shown()))
    };
    let chain = match converter {
        Some(TensorConverter::Named(chain)) => Some(chain),
        _ => None,
    };
    let Some(new_shape) = shape_for(shape, to) else { return Err(wrong()) };
    if new_shape != shape && !matches!(converter, Some(TensorConverter::Function)) {
        if count(&new_shape) != count(shape) {
            return Err(wrong());
        }
        if !chain.is_some_and(Chain::reshapes) {
            return Err(
                wrong().with_hint("the converter `reshape` takes its elements in the new shape")
            );
        }
    }
    let made_of = |chain: Chain| {
        let takes = from.scalar().zip(wanted.scalar()).is_some_and(|(a, b)| chain.takes(a, b));
        match takes {
            true => Ok(TensorSource::Elements(chain)),
            false => {
                let by = chain.as_str().shown();
                let message =
                    format!("`{by}` does not make elements of {wanted} from those of {from}");
                Err(NO_CONVERTER.broken(message))
            }
        }
    };
    let how = match (chain, converter) {
        (None, None) if wanted == from => TensorSource::Same,
        (None, None) if to.dtype.is_some() && from.widens_to(wanted) => made_of(WIDEN.parse()?)?,
        (None, None) => {
            return Err(wrong().with_hint("the converter `cast` rounds numbers into another type"));
        }
        (None, Some(_)) => TensorSource::Function,
        (Some(chain), _) if chain.is_cast() && wanted == from => TensorSource::Same,
        (Some(chain), _) => made_of(chain.clone())?,
    };
    Ok(TensorChange { dtype: wanted, shape: new_shape, how })
}

fn count(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1u64, |count, dim| count.checked_mul(*dim))
}

/// The shape that a tensor has under a schema; what may be any stays as it is.
fn shape_for(old: &[u64], to: &TensorType) -> Option<Vec<u64>> {
    let Some(dims) = &to.shape else { return Some(old.to_vec()) };
    let is_same_rank = dims.len() == old.len();
    let dim = |(at, dim): (usize, &Dim)| match dim {
        Dim::Known(n) => Some(*n),
        Dim::Any | Dim::Symbol(_) if is_same_rank => old.get(at).copied(),
        Dim::Any | Dim::Symbol(_) => None,
    };
    dims.iter().enumerate().map(dim).collect()
}

impl TensorType {
    /// Returns it as messages show it: `F32 [2, n]`.
    pub fn shown(&self) -> String {
        let dims = self.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(n) => n.to_string(),
            Dim::Any => "null".to_owned(),
            Dim::Symbol(name) => name.shown().to_string(),
        });
        let dims: Vec<String> = dims.collect();
        let dtype = self.dtype_names().unwrap_or_else(|| "Tensor".to_owned());
        if self.shape.is_none() { dtype } else { format!("{dtype} [{}]", dims.join(", ")) }
    }
}

/// The flat tensors of a schema that a file lacks.
#[derive(Debug, Clone, Default)]
pub struct Lacking {
    /// Those that a default makes.
    pub filled: Vec<(Path, Filled)>,
    /// Where there are none, and what they would be.
    pub absent: Vec<(Path, TensorType)>,
}

impl Document {
    /// Returns the tensors that the schema has and a file lacks, whose tensors are at the paths `present` under it.
    ///
    /// # Errors
    /// `evolve/no-default`; the rules that a default breaks.
    pub fn lacking(
        &self,
        present: impl Iterator<Item = String>,
        limits: &SchemaLimits,
    ) -> Result<Lacking> {
        let path = |name: String| {
            name.parse().unwrap_or_else(|_| Path(vec![Segment::Name(name.as_str().into())]))
        };
        let present: BTreeSet<Path> = present.map(path).collect();
        let out = Lacking::default();
        let mut walk = Missing { schema: self, present, limits, left: limits.nodes, out };
        if let Root::References(root) = self.schema.root() {
            walk.below(root, &Path::root()).map_err(|e| e.in_source(&self.name))?;
        }
        Ok(walk.out)
    }
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
                            Ok(filled) => self.out.filled.push((path, filled)),
                            // As if it had none.
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
                                tensor.shown()
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
