//! Writing tensors in another float type: the rules that select them, and the conversion of their bytes.

use crate::by_name::ByName;
use crate::casting::{CastPieces, Casting};
use crate::error::{CAST_RULE, NOT_CAST, SCALED};
use crate::file::{File, Tensor};
use crate::glob::Glob;
use crate::items::{ComponentSource, ComputedPieces, CopyMode, Item};
use holdall_core::error::Escape as _;
use holdall_core::layout::cast::{Caster, FloatType, Overflow};
use holdall_core::layout::number::{ElementType, NumberClass};
use holdall_core::model::nearest;
use holdall_core::{Component, Error, Layout, Remedy, Result, TensorSpec};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A rule for the element type that tensors are written with: `TYPE` for all tensors, or `PATTERN=TYPE` for those whose
/// names match the [`Glob`]. `TYPE` is the name of a [`FloatType`], or `keep`.
#[derive(Debug, Clone)]
pub struct Cast {
    glob: Option<Glob>,
    /// The type to convert to. `None` to keep the type.
    to: Option<FloatType>,
}

impl Cast {
    /// Parses a rule. The text before the last `=` is the pattern.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the type is not one to convert to, or the pattern is invalid.
    pub fn new(rule: &str) -> Result<Cast> {
        let (glob, name) = match rule.rsplit_once('=') {
            Some((glob, name)) => (Some(Glob::new(glob)?), name),
            None => (None, rule),
        };
        // NumPy's spelling, such as `float16`, is accepted too.
        let to = FloatType::from_name(name)
            .or_else(|| FloatType::from_name(&name.replacen("float", "f", 1)));
        if to.is_none() && name != "keep" {
            let known: Vec<&str> = FloatType::ALL.into_iter().map(FloatType::as_str).collect();
            let e = CAST_RULE.broken(format!(
                "`{}` is not a type to convert to: {} or keep",
                name.escaped(),
                known.join(", ")
            ));
            return Err(match nearest(name, known.iter().copied()) {
                Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
                None => e,
            });
        }
        Ok(Cast { glob, to })
    }

    /// Creates a rule that converts all float tensors without another rule to this type.
    pub fn all(to: FloatType) -> Cast {
        Cast { glob: None, to: Some(to) }
    }
}

/// Rules for element types.
#[derive(Debug, Clone, Default)]
pub struct Casts {
    rules: ByName<Option<FloatType>>,
    overflow: Overflow,
}

/// Suffixes of the names of scales, after the name of the weight.
const SUFFIXES: [&str; 6] = ["_scale_inv", "_scale", "_scales", ".scale_inv", ".scale", ".scales"];
/// Suffixes of the names of scales that replace `weight`.
const IN_PLACE: [&str; 2] = ["weight_scale", "scale_weight"];

/// Returns an error if the elements of a tensor must not be converted to `to`: because they are floats of at most 8 bits
/// whose scale is another tensor of the file, or because the tensor is a part of a quantized weight.
pub fn scaled_weight(tensor: &Tensor, from: &ElementType, to: impl fmt::Display) -> Option<Error> {
    match tensor.file().quantized_weight_of(tensor.name()) {
        Err(e) => return Some(e.in_tensor(tensor.name())),
        Ok(Some(weight)) => {
            let role = weight.components().iter().find(|c| c.tensor == tensor.name());
            let role = role.map_or("", |companion| companion.role);
            let scale = weight.components().iter().find(|c| c.role == "scale");
            let message = match scale.filter(|_| role == "weight") {
                Some(scale) => format!(
                    "elements of {from} would become {to} without their scale, which is the tensor `{}`",
                    scale.tensor.escaped()
                ),
                None => format!(
                    "elements of {from} are the `{role}` of the quantized weight `{}`, which would change",
                    weight.name().escaped()
                ),
            };
            let e = SCALED.broken(message).in_tensor(tensor.name());
            return Some(if weight.fault().is_none() {
                e.with_remedy(Remedy::MakeDense)
            } else {
                e
            });
        }
        Ok(None) => {}
    }
    if from.bits() > 8 || from.class() != NumberClass::Float {
        return None;
    }
    let name = tensor.name();
    let layer = name.strip_suffix("weight");
    let after = SUFFIXES.iter().map(|suffix| format!("{name}{suffix}"));
    let in_place = layer.into_iter().flat_map(|layer| IN_PLACE.map(|end| format!("{layer}{end}")));
    let exists = |name: &String| tensor.file().index().get(name).is_some();
    let scale = after.chain(in_place).find(exists)?;
    let message = format!(
        "elements of {from} would become {to} without their scale, which is the tensor `{}`",
        scale.escaped()
    );
    Some(SCALED.broken(message).in_tensor(name))
}

impl Casts {
    /// Adds rules after the existing ones.
    pub fn extend(&mut self, rules: impl IntoIterator<Item = Cast>) {
        rules.into_iter().for_each(|rule| self.rules.push(rule.glob, rule.to));
    }

    /// Sets how numbers beyond the range of the new type are converted.
    pub fn set_overflow(&mut self, overflow: Overflow) {
        self.overflow = overflow;
    }

    /// Checks that there is at most one rule without a pattern, and that each pattern matches a tensor.
    ///
    /// # Errors
    /// Returns a `Misuse` error if there are several rules without a pattern; a `NotFound` error if a pattern matches nothing.
    pub fn check(&self, file: &File) -> Result<()> {
        let name = |to: &Option<FloatType>| to.map_or("keep", FloatType::as_str);
        self.rules.check(file, |one, other| {
            let (one, other) = (name(one), name(other));
            CAST_RULE.broken(format!("`{one}` and `{other}` are both given for all tensors"))
        })
    }

    /// Returns the type to which the tensor of this name is converted, if a rule converts it.
    pub fn target(&self, name: &str) -> Option<FloatType> {
        self.rules.lookup(name).and_then(|(to, _)| to)
    }

    /// Converts an item as the rule for its tensor says. By a pattern only dense tensors of floats of at least 8 bits
    /// are converted; other floats, such as scales and packed floats, only if a rule names them. `tensor` is the tensor
    /// from which the item was created.
    ///
    /// # Errors
    /// Returns [`NOT_CAST`] if a rule names a tensor without floats.
    pub fn apply(&self, tensor: &Tensor, item: &mut Item) -> Result<Option<CastCount>> {
        let Some((Some(to), by_name)) = self.rules.lookup(tensor.name()) else { return Ok(None) };
        let from = dense_type(&item.spec).filter(|from| match by_name {
            true => from.class() == NumberClass::Float && from.is_known(),
            false => FloatType::from_dtype(from.dtype, from.logical_type.as_ref()).is_some(),
        });
        let Some(from) = from else {
            return match by_name {
                true => Err(not_cast(tensor, &item.spec, to)),
                false => Ok(None),
            };
        };
        let (Some(c), Some(count)) = (
            item.spec.components.first_mut(),
            holdall_core::model::element_count(&item.spec.shape),
        ) else {
            return Ok(None);
        };
        let already = FloatType::from_dtype(from.dtype, from.logical_type.as_ref()) == Some(to);
        let len = count.checked_mul(to.dtype().width());
        let (Some(len), false) = (len, already) else { return Ok(None) };
        // A quantized weight that becomes dense has its scales applied.
        let is_weight = tensor.quantized_weight().is_some();
        if let Some(e) = scaled_weight(tensor, &from, to).filter(|_| !is_weight) {
            return Err(e.in_source(tensor.file().name()));
        }
        (c.dtype, c.logical_type, c.decoded_len) = (to.dtype(), to.logical_type(), len);
        let overflowed = Arc::new(AtomicU64::new(0));
        let overflow = self.overflow;
        let caster = Caster::new(from.dtype, from.logical_type.clone(), count, to, overflow);
        let counter = overflowed.clone();
        let feeds = std::mem::take(&mut item.feeds);
        let cast = |feed: ComponentSource| match feed {
            ComponentSource::Component(feed) => {
                let (tensor, component) = *feed;
                ComponentSource::Cast(Box::new(Casting {
                    tensor,
                    component,
                    to,
                    caster,
                    overflowed: counter,
                    refused: None,
                }))
            }
            ComponentSource::Made(make) => ComponentSource::Made(Box::new(move || {
                let (pieces, caster) = (make()?, Some(caster));
                let made: ComputedPieces =
                    Box::new(CastPieces { pieces, caster, overflowed: counter });
                Ok(made)
            })),
            other => other,
        };
        item.feeds = feeds.into_iter().next().map(cast).into_iter().collect();
        item.keep = CopyMode::Nothing;
        Ok(Some(CastCount { from, to, overflowed }))
    }
}

/// The conversion of a tensor, with the number of values that overflowed, which is known once the tensor is written.
#[derive(Debug, Clone)]
pub struct CastCount {
    /// The type before the conversion.
    pub from: ElementType,
    /// The type after the conversion.
    pub to: FloatType,
    overflowed: Arc<AtomicU64>,
}

impl CastCount {
    /// Returns the number of values that overflowed. 0 for a tensor that shares the bytes of another.
    pub fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }
}

/// Returns the element type of a dense tensor with one component.
fn dense_type(spec: &TensorSpec) -> Option<ElementType> {
    match &spec.components[..] {
        [c] if spec.layout == Layout::Dense => {
            Some(ElementType::new(c.dtype, c.logical_type.clone()))
        }
        _ => None,
    }
}

#[cold]
fn not_cast(tensor: &Tensor, spec: &TensorSpec, to: FloatType) -> Error {
    let what = match dense_type(spec) {
        Some(source_type) => format!("elements of {source_type} are not converted to {to}"),
        None => {
            let layout = spec.layout.as_str().escaped();
            format!("a tensor of layout `{layout}` is not converted to {to}")
        }
    };
    let e = NOT_CAST.broken(what).in_tensor(tensor.name()).in_source(tensor.file().name());
    let dense = [Layout::SparseCsr, Layout::SparseCoo, Layout::PackedCsr, Layout::PackedCoo];
    match dense.contains(&spec.layout) || spec.layout.is_computed() {
        true => e.with_remedy(Remedy::MakeDense),
        false => e,
    }
}

impl ComponentSource {
    /// Returns a source of a component's elements rounded to another float type. If values overflow, writing fails at
    /// the end with the error `refused`. Returns `None` if the elements are not floats of a known type.
    pub fn cast(
        tensor: &Tensor,
        component: Component,
        to: FloatType,
        refused: fn(u64, FloatType) -> Error,
    ) -> Option<ComponentSource> {
        let logical = component.logical_type.as_ref();
        FloatType::from_dtype(component.dtype, logical)?;
        let count = component.decoded_len? / component.dtype.width();
        let (dtype, logical) = (component.dtype, logical.cloned());
        let caster = Caster::new(dtype, logical, count, to, Overflow::Infinite);
        let (tensor, overflowed) = (tensor.clone(), Arc::default());
        let refused = Some(refused);
        Some(ComponentSource::Cast(Box::new(Casting {
            tensor,
            component,
            to,
            caster,
            overflowed,
            refused,
        })))
    }
}
