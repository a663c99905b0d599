//! Dense tensors under another schema: how each is converted (8.4), and which ones a file does not have.

use super::chain::Chain;
use super::rules::{NO_CONVERTER, NO_DEFAULT};
use super::tensor::Filled;
use crate::document::Document;
use crate::dtype::TensorDType;
use crate::error::{Escape as _, Result};
use crate::kinds::{Dim, TensorType};
use crate::limits::SchemaLimits;
use crate::path::{Path, Segment};
use crate::rules::TOO_LARGE;
use crate::schema::{Node, NodeId, Presence, Root};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A converter of a dense tensor.
#[derive(Debug, Clone, Copy)]
pub enum TensorConverter<'c> {
    /// A chain of named converters.
    Named(&'c Chain),
    /// A function of the caller.
    Function,
}

/// A dense tensor under another schema.
#[derive(Debug, Clone)]
pub struct TensorChange {
    /// The new element type.
    pub dtype: TensorDType,
    /// The new dimensions.
    pub shape: Vec<u64>,
    /// The source of its elements.
    pub how: TensorSource,
}

/// The source of the elements of a tensor under another schema.
#[derive(Debug, Clone)]
pub enum TensorSource {
    /// The elements of the file, unchanged.
    Same,
    /// The elements of the file, converted one by one.
    Elements(Chain),
    /// The result of the caller's function.
    Function,
}

/// The converter to a wider type.
const WIDEN: &str = "cast";

/// Decides how a dense tensor with elements `from` and dimensions `shape` is converted to the type `to` of a schema.
///
/// # Errors
/// Returns `evolve/no-converter` if it cannot be converted without (another) converter.
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
        NO_CONVERTER
            .broken(format!("it is {old} in the file, but {} in the new schema", to.describe()))
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
            return Err(wrong()
                .with_hint("use the converter `reshape` to keep the elements in the new shape"));
        }
    }
    let made_of = |chain: Chain| {
        let takes =
            from.scalar().zip(wanted.scalar()).is_some_and(|(a, b)| chain.can_convert(a, b));
        match takes {
            true => Ok(TensorSource::Elements(chain)),
            false => {
                let by = chain.as_str().escaped();
                let message = format!("`{by}` cannot convert elements of {from} to {wanted}");
                Err(NO_CONVERTER.broken(message))
            }
        }
    };
    let how = match (chain, converter) {
        (None, None) if wanted == from => TensorSource::Same,
        (None, None) if to.dtype.is_some() && from.widens_to(wanted) => made_of(WIDEN.parse()?)?,
        (None, None) => {
            return Err(
                wrong().with_hint("use the converter `cast` to round numbers to another type")
            );
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

/// Returns the shape of a tensor under a schema. Dimensions that the schema leaves open keep their size.
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
    /// Describes the type for messages: `F32 [2, n]`.
    pub fn describe(&self) -> String {
        let dims = self.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(n) => n.to_string(),
            Dim::Any => "null".to_owned(),
            Dim::Symbol(name) => name.escaped().to_string(),
        });
        let dims: Vec<String> = dims.collect();
        let dtype = self.dtype_names().unwrap_or_else(|| "Tensor".to_owned());
        if self.shape.is_none() { dtype } else { format!("{dtype} [{}]", dims.join(", ")) }
    }
}

/// The dense tensors of a schema that a file does not have.
#[derive(Debug, Clone, Default)]
pub struct MissingTensors {
    /// Tensors that are created from their default.
    pub filled: Vec<(Path, Filled)>,
    /// The paths and types of optional tensors that remain absent.
    pub absent: Vec<(Path, TensorType)>,
}

impl Document {
    /// Returns the tensors that the schema has and a file does not have. `present` are the paths of the file's tensors
    /// under the schema.
    ///
    /// # Errors
    /// Returns `evolve/no-default` if a required tensor has no default, or an error of the rules about defaults.
    pub fn missing_tensors(
        &self,
        present: impl Iterator<Item = String>,
        limits: &SchemaLimits,
    ) -> Result<MissingTensors> {
        let path = |name: String| {
            name.parse().unwrap_or_else(|_| Path(vec![Segment::Name(name.as_str().into())]))
        };
        let present: BTreeSet<Path> = present.map(path).collect();
        let out = MissingTensors::default();
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
    out: MissingTensors,
}

impl Missing<'_> {
    fn below(&mut self, id: NodeId, at: &Path) -> Result<()> {
        let Node::Object(object) = self.schema.schema.node(id) else { return Ok(()) };
        for property in &object.properties {
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                TOO_LARGE.broken(format!("the schema has more than {} paths", self.limits.nodes))
            })?;
            let path = at.then(Segment::Name(Arc::clone(&property.name)));
            let next = self.present.range(&path..).next();
            let is_present = next.is_some_and(|p| p.0.starts_with(&path.0));
            match self.schema.schema.node(property.node) {
                Node::Object(_) if is_present || property.presence == Presence::Required => {
                    self.below(property.node, &path)?;
                }
                Node::Flat { tensor, .. } if !is_present => {
                    match (&property.default, property.presence) {
                        (Some(value), presence) => match tensor.filled(value, self.limits) {
                            Ok(filled) => self.out.filled.push((path, filled)),
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
                                path.to_string().escaped(),
                                tensor.describe()
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
