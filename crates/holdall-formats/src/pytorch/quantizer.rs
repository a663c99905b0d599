//! The parameters of quantized tensors, which convert integers to real numbers: read from a pickle, stored as
//! attributes, and written again.

use super::numpy::number;
use super::object::{Objects, Tensor, Thing, View};
use super::{DTYPE, ELEMENT_TYPE, STORAGE};
use crate::named::Element;
use bytes::Bytes;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::model::{Attributes, ByteOrder, DType, Value};
use holdall_core::wire::pickle::write::Pickler;
use holdall_core::wire::pickle::{Id, Node};

/// The attribute that names the scheme: `torch.per_tensor_affine`.
const SCHEME: &str = "torch.qscheme";
/// The attributes of a tensor with one scale and one zero point.
const SCALE: &str = "scale";
const ZERO_POINT: &str = "zero_point";
/// The attributes of a tensor with a scale and a zero point for each index of a dimension.
const SCALES: &str = "scales";
const ZERO_POINTS: &str = "zero_points";
const AXIS: &str = "axis";

/// The conversion of a tensor's integers to real numbers.
#[derive(Debug, Clone)]
pub(super) enum Quantizer {
    /// One scale and one zero point for all elements.
    Tensor { scale: f64, zero_point: i128 },
    /// A scale and a zero point for each index of a dimension.
    Channel { scheme: String, scales: Parameters, zero_points: Parameters, axis: u64 },
}

/// A number for each index of a dimension.
#[derive(Debug, Clone)]
pub(super) enum Parameters {
    /// In the pickle.
    Listed(Vec<Value>),
    /// In a storage.
    Stored(Box<View>),
}

impl Quantizer {
    fn parameters(&self) -> Vec<&Parameters> {
        match self {
            Quantizer::Tensor { .. } => Vec::new(),
            Quantizer::Channel { scales, zero_points, .. } => vec![scales, zero_points],
        }
    }

    /// Returns the views of storages with parameters.
    pub(super) fn views(&self) -> Vec<&View> {
        self.parameters()
            .into_iter()
            .filter_map(|quantizer| match quantizer {
                Parameters::Stored(view) => Some(&**view),
                Parameters::Listed(_) => None,
            })
            .collect()
    }

    pub(super) fn views_mut(&mut self) -> Vec<&mut View> {
        let all = match self {
            Quantizer::Tensor { .. } => Vec::new(),
            Quantizer::Channel { scales, zero_points, .. } => vec![scales, zero_points],
        };
        all.into_iter()
            .filter_map(|quantizer| match quantizer {
                Parameters::Stored(view) => Some(&mut **view),
                Parameters::Listed(_) => None,
            })
            .collect()
    }

    /// Stores the parameters in the attributes of the tensor. `bytes` has those of storages.
    ///
    /// # Errors
    /// Returns [`STORAGE`] if a parameter lies outside of its storage.
    pub(super) fn describe(
        &self,
        attributes: &mut Attributes,
        order: ByteOrder,
        bytes: impl Fn(&str) -> Option<Bytes>,
    ) -> Result<()> {
        match self {
            Quantizer::Tensor { scale, zero_point } => {
                attributes.set(SCHEME, Value::Text("torch.per_tensor_affine".to_owned()));
                attributes.set(SCALE, Value::Float(*scale));
                attributes.set(ZERO_POINT, Value::Integer(*zero_point));
            }
            Quantizer::Channel { scheme, scales, zero_points, axis } => {
                attributes.set(SCHEME, Value::Text(format!("torch.{scheme}")));
                for (key, parameters) in [(SCALES, scales), (ZERO_POINTS, zero_points)] {
                    let values = match parameters {
                        Parameters::Listed(values) => values.clone(),
                        Parameters::Stored(view) => {
                            let bytes = bytes(&view.storage.key).unwrap_or_default();
                            stored(view, order, &bytes).ok_or_else(|| {
                                STORAGE.broken(format!("its {key} lie outside of their storage"))
                            })?
                        }
                    };
                    attributes.set(key, Value::Array(values));
                }
                attributes.set(AXIS, Value::Integer((*axis).into()));
            }
        }
        Ok(())
    }

    /// Removes the parameters from the attributes of a tensor with this shape, and returns them; `None` if there are no
    /// parameters.
    ///
    /// # Errors
    /// Returns [`ELEMENT_TYPE`] for parameters that torch does not support.
    pub(super) fn take(
        attributes: &mut Attributes,
        element: &Element,
        shape: &[u64],
    ) -> Result<Option<Quantizer>> {
        let Some(scheme) = attributes.get(SCHEME) else { return Ok(None) };
        let wrong = |what: &str| {
            ELEMENT_TYPE.broken(format!("torch does not support this quantization: {what}"))
        };
        let Value::Text(scheme) = scheme else { return Err(wrong("the scheme is not a string")) };
        let scheme = scheme.strip_prefix("torch.").unwrap_or(scheme).to_owned();
        if storage(element).is_none() {
            return Err(wrong("its elements are not i8, u8 or i32"));
        }
        let list = |key: &str| match attributes.get(key) {
            Some(Value::Array(values)) => Some(values.clone()),
            _ => None,
        };
        let is_float = |value: &Value| matches!(value, Value::Float(_));
        let is_integer = |value: &Value| matches!(value, Value::Integer(_));
        let (quantizer, keys) = match scheme.as_str() {
            "per_tensor_affine" => {
                let (Some(Value::Float(scale)), Some(Value::Integer(zero_point))) =
                    (attributes.get(SCALE), attributes.get(ZERO_POINT))
                else {
                    return Err(wrong("`scale` and `zero_point` are not a float and an integer"));
                };
                let (scale, zero_point) = (*scale, *zero_point);
                (Quantizer::Tensor { scale, zero_point }, vec![SCALE, ZERO_POINT])
            }
            "per_channel_affine" | "per_channel_affine_float_qparams" => {
                let axis = attributes.get(AXIS).and_then(Value::as_integer);
                let axis = axis.and_then(|axis| u64::try_from(axis).ok());
                let (Some(scales), Some(zeros), Some(axis)) =
                    (list(SCALES), list(ZERO_POINTS), axis)
                else {
                    return Err(wrong(
                        "`scales` and `zero_points` must be lists, and `axis` a number",
                    ));
                };
                let count = usize::try_from(axis).ok().and_then(|axis| shape.get(axis)).copied();
                let has_all = |list: &[Value]| Some(list.len() as u64) == count;
                let is_zero = match scheme.as_str() {
                    "per_channel_affine" => is_integer,
                    _ => is_float as fn(&Value) -> bool,
                };
                if !has_all(&scales) || !has_all(&zeros) {
                    return Err(wrong("expected one scale and one zero point for each channel"));
                }
                if !scales.iter().all(is_float) || !zeros.iter().all(is_zero) {
                    return Err(wrong("a scale or a zero point is not a number of the right type"));
                }
                let (scales, zero_points) = (Parameters::Listed(scales), Parameters::Listed(zeros));
                let quantizer = Quantizer::Channel { scheme, scales, zero_points, axis };
                (quantizer, vec![SCALES, ZERO_POINTS, AXIS])
            }
            other => return Err(wrong(&format!("the scheme `{}`", other.escaped()))),
        };
        keys.into_iter().chain([SCHEME]).for_each(|key| drop(attributes.remove(key)));
        Ok(Some(quantizer))
    }

    /// Appends the tuple for `_rebuild_qtensor`. Parameters of channels are lists, which torch converts to tensors.
    pub(super) fn write(&self, p: &mut Pickler) {
        p.begin_tuple();
        match self {
            Quantizer::Tensor { scale, zero_point } => {
                p.global("torch", "per_tensor_affine");
                p.float(*scale);
                p.integer(*zero_point);
            }
            Quantizer::Channel { scheme, axis, .. } => {
                p.global("torch", scheme);
                for parameters in self.parameters() {
                    let Parameters::Listed(values) = parameters else { continue };
                    super::encode::write_value(&Value::Array(values.clone()), p);
                }
                p.number(*axis);
            }
        }
        p.end_tuple();
    }
}

/// Returns torch's storage class for quantized integers.
pub(super) fn storage(element: &Element) -> Option<&'static str> {
    match (element.dtype, &element.logical) {
        (DType::I8, None) => Some("QInt8Storage"),
        (DType::U8, None) => Some("QUInt8Storage"),
        (DType::I32, None) => Some("QInt32Storage"),
        _ => None,
    }
}

/// Returns the numbers of a view of a storage with these bytes.
fn stored(view: &View, order: ByteOrder, bytes: &[u8]) -> Option<Vec<Value>> {
    let (&[count], &[stride]) = (view.shape.as_slice(), view.strides.as_slice()) else {
        return None;
    };
    let width = view.element.width();
    let unit = view.storage.element.as_ref().map_or(1, Element::width);
    let first =
        view.storage.start.checked_mul(unit)?.checked_add(view.offset.checked_mul(width)?)?;
    // There are at most as many as bytes, except if all are the same element.
    let fits = count <= bytes.len() as u64;
    let one = |at: u64| {
        let start = first.checked_add(at.checked_mul(stride)?.checked_mul(width)?)?;
        let range =
            usize::try_from(start).ok()?..usize::try_from(start.checked_add(width)?).ok()?;
        let mut own = bytes.get(range)?.to_vec();
        if order == ByteOrder::Big {
            view.element.swap(&mut own);
        }
        number(&view.element, &own)
    };
    (0..count).take_while(|_| fits).map(one).collect::<Option<Vec<_>>>().filter(|_| fits)
}

impl Objects<'_> {
    /// Reads the tuple with the parameters of a quantized tensor; `None` if it is not such a tuple.
    ///
    /// # Errors
    /// Returns [`DTYPE`] for unknown schemes, and the errors of [`Objects::get`].
    pub(super) fn quantizer(
        &self,
        id: Id,
        shape: &[u64],
        depth: usize,
    ) -> Result<Option<Quantizer>> {
        let Some([scheme, rest @ ..]) = self.graph.items(id) else { return Ok(None) };
        let Node::Global(module, scheme) = self.graph.get(*scheme) else { return Ok(None) };
        match (module.as_str(), scheme.as_str(), rest) {
            ("torch", "per_tensor_affine", [scale, zero]) => {
                let parts = match (self.graph.get(*scale), self.graph.integer(*zero)) {
                    (Node::Float(scale), Some(zero_point)) => Some((*scale, zero_point)),
                    _ => None,
                };
                Ok(parts.map(|(scale, zero_point)| Quantizer::Tensor { scale, zero_point }))
            }
            (
                "torch",
                "per_channel_affine" | "per_channel_affine_float_qparams",
                [scales, zeros, axis],
            ) => {
                let axis = self.graph.integer(*axis).and_then(|axis| u64::try_from(axis).ok());
                let count = axis.and_then(|axis| shape.get(usize::try_from(axis).ok()?)).copied();
                let (Some(axis), Some(count)) = (axis, count) else { return Ok(None) };
                let all = |id| self.parameters(id, count, depth);
                let (Some(scales), Some(zero_points)) = (all(*scales)?, all(*zeros)?) else {
                    return Ok(None);
                };
                let scheme = scheme.clone();
                Ok(Some(Quantizer::Channel { scheme, scales, zero_points, axis }))
            }
            (_, scheme, _) => Err(unknown(scheme)),
        }
    }

    /// Reads `count` numbers: a list, or a tensor.
    fn parameters(&self, id: Id, count: u64, depth: usize) -> Result<Option<Parameters>> {
        if let Node::List(items) = self.graph.get(id) {
            let value = |id: &Id| match self.graph.get(*id) {
                Node::Float(x) => Some(Value::Float(*x)),
                Node::Integer(n) => Some(Value::Integer(*n)),
                _ => None,
            };
            let values: Option<Vec<_>> = items.iter().map(value).collect();
            let values = values.filter(|values| values.len() as u64 == count);
            return Ok(values.map(Parameters::Listed));
        }
        let Thing::Tensor(tensor, _) = self.at(id, depth)? else { return Ok(None) };
        let Tensor::Dense(view) = *tensor else { return Ok(None) };
        let is_plain = view.flags == Default::default() && view.element.logical.is_none();
        Ok((is_plain && view.shape == [count]).then(|| Parameters::Stored(Box::new(view))))
    }
}

#[cold]
fn unknown(scheme: &str) -> Error {
    DTYPE.broken(format!("unknown quantization scheme `{}`", scheme.escaped()))
}
