//! Arrays, scalars and types of NumPy in a pickle.

use super::object::{Objects, Tensor, Thing};
use super::{CALL, DTYPE};
use crate::named::Element;
use holdall_core::error::{Escape as _, Result};
use holdall_core::layout::dense::Dense;
use holdall_core::layout::strided::strides_for_axes;
use holdall_core::model::{ByteOrder, DType, Value};
use holdall_core::wire::npy;
use holdall_core::wire::pickle::{Id, Node};

/// The module of the types that JAX adds to NumPy.
const ML_DTYPES: &str = "ml_dtypes";

impl<'g> Objects<'g> {
    /// Returns bytes, including those of Python 2; `None` for other values.
    fn bytes(&self, id: Id, depth: usize) -> Result<Option<Vec<u8>>> {
        if let Node::OldText(bytes) = self.graph.get(id) {
            return Ok(Some(bytes.clone()));
        }
        Ok(match self.at(id, depth)? {
            Thing::Plain(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        })
    }

    /// Returns a NumPy array. Its dimensions are stored in the order of `axes`.
    pub(super) fn array(
        &self,
        shape: Vec<u64>,
        axes: Option<Vec<usize>>,
        dtype: Id,
        bytes: Id,
        depth: usize,
    ) -> Result<Thing<'g>> {
        let wrong = || CALL.broken("the bytes of an array are not in the form that NumPy writes");
        let Some(element) = self.numpy_dtype(dtype) else {
            let e = DTYPE.broken("its elements are not numbers, times or strings");
            return Ok(Thing::tensor(Tensor::Missing(shape, e)));
        };
        let bytes = self.bytes(bytes, depth)?.ok_or_else(wrong)?;
        let npy::Element { dtype, logical_type: logical, byte_order: order, descr, inner } =
            element;
        let strides = axes.and_then(|axes| strides_for_axes(&shape, &axes, inner));
        let (element, shape) =
            (Element { dtype, logical }, shape.into_iter().chain(inner).collect());
        let array = Tensor::Array { shape, strides, element, order, descr, bytes };
        Ok(Thing::tensor(array))
    }

    /// Returns `true` for NumPy's function that creates an array to be given a state.
    pub(super) fn is_of_numpy(&self, function: Id) -> bool {
        matches!(self.graph.get(function), Node::Global(module, name)
            if matches!(module.as_str(), "numpy.core.multiarray" | "numpy._core.multiarray") && name == "_reconstruct")
    }

    /// Returns a NumPy array from its state.
    pub(super) fn stated(&self, state: Id, depth: usize) -> Result<Thing<'g>> {
        let wrong = || CALL.broken("the state of an array is not in the form that NumPy writes");
        let Some([_, shape, dtype, is_fortran, bytes]) = self.graph.items(state) else {
            return Err(wrong());
        };
        let shape = self.numbers(*shape).ok_or_else(wrong)?;
        let is_fortran = matches!(self.graph.get(*is_fortran), Node::Bool(true));
        let axes = is_fortran.then(|| (0..shape.len()).rev().collect());
        self.array(shape, axes, *dtype, *bytes, depth)
    }

    /// Returns a scalar; `None` if the bytes are not one element.
    pub(super) fn scalar(&self, dtype: Id, bytes: Id, depth: usize) -> Result<Option<Thing<'g>>> {
        let name = self.numpy_name(dtype);
        let (Some(name), Some(mut bytes)) = (name, self.bytes(bytes, depth)?) else {
            return Ok(None);
        };
        // Attributes cannot be times or records.
        let stored = self.numpy_dtype(dtype);
        let Some(stored) = stored.filter(|stored| stored.descr.is_none() || is_text(stored)) else {
            return Ok(Some(Thing::Unknown(name.escaped().to_string())));
        };
        let element = Element { dtype: stored.dtype, logical: stored.logical_type.clone() };
        if stored.byte_order == ByteOrder::Big {
            element.swap(&mut bytes);
        }
        let value = if is_text(&stored) { text(&stored, bytes) } else { number(&element, &bytes) };
        Ok(value.map(Thing::Plain))
    }

    /// Returns the shape of an array whose elements are stored in `order`, and its dimensions in storage order if that
    /// is not row-major. For the order `K`, `shape` is the shape in storage order, and `turned` has the index in it of
    /// each dimension of the array.
    pub(super) fn stored_order(
        &self,
        mut shape: Vec<u64>,
        order: Id,
        turned: Option<Id>,
    ) -> Option<(Vec<u64>, Option<Vec<usize>>)> {
        let axes = match (self.graph.text(order), turned) {
            (Some("F"), _) => Some((0..shape.len()).rev().collect()),
            (Some("K"), Some(turned)) => {
                let axes = inverse(&self.numbers(turned)?, shape.len())?;
                for (axis, size) in axes.iter().zip(shape.clone()) {
                    *shape.get_mut(*axis)? = size;
                }
                Some(axes)
            }
            _ => None,
        };
        Some((shape, axes))
    }

    /// Returns the name of `numpy.dtype('f4', False, True)` with its state, whose second item is the byte order: `<f4`.
    /// For a type of ml_dtypes: `bfloat16`.
    pub(super) fn numpy_name(&self, id: Id) -> Option<String> {
        let (object, order) = match self.graph.get(id) {
            Node::Built(object, state) => {
                (*object, self.graph.items(*state)?.get(1).and_then(|id| self.graph.text(*id)))
            }
            _ => (id, None),
        };
        let Node::Call(function, arguments) = self.graph.get(object) else { return None };
        match self.graph.get(*function) {
            Node::Global(module, name) if module == "numpy" && name == "dtype" => {}
            _ => return None,
        }
        let name = *self.graph.items(*arguments)?.first()?;
        let name = match self.graph.get(name) {
            Node::Global(module, name) if module == ML_DTYPES => return Some(name.clone()),
            _ => self.graph.text(name)?,
        };
        let order = order.filter(|order| matches!(*order, "<" | ">" | "|" | "=")).unwrap_or("<");
        let order = if order == "=" { "<" } else { order };
        let order = if matches!(name, "b1" | "i1" | "u1") { "|" } else { order };
        let unit = self.unit(id).unwrap_or_default();
        Some(format!("{order}{name}{unit}"))
    }

    /// Returns the unit in the state of a time type: `[25us]`.
    fn unit(&self, id: Id) -> Option<String> {
        let Node::Built(_, state) = self.graph.get(id) else { return None };
        let [.., state] = self.graph.items(*state)? else { return None };
        let [_, state] = self.graph.items(*state)? else { return None };
        let [unit, count, ..] = self.graph.items(*state)? else { return None };
        let unit = self.bytes(*unit, 0).ok()??;
        let unit = String::from_utf8(unit).ok().filter(|unit| unit != "generic")?;
        match self.graph.integer(*count)? {
            1 => Some(format!("[{unit}]")),
            count => Some(format!("[{count}{unit}]")),
        }
    }

    /// Returns the element type of a NumPy or ml_dtypes type; `None` for objects and records.
    fn numpy_dtype(&self, id: Id) -> Option<npy::Element> {
        let name = self.numpy_name(id)?;
        if let Node::Built(_, state) = self.graph.get(id) {
            // Types with fields, and types that are arrays.
            let has = |at: usize| {
                let item = self.graph.items(*state).and_then(|items| items.get(at));
                item.is_some_and(|id| !matches!(self.graph.get(*id), Node::None))
            };
            if has(2) || has(3) {
                return None;
            }
        }
        if let Ok(element) = npy::any_element(&name) {
            return Some(element);
        }
        let Element { dtype, logical: logical_type } = Element::from_dtype(&name)?;
        let byte_order = ByteOrder::Little;
        Some(npy::Element { dtype, logical_type, byte_order, descr: None, inner: None })
    }
}

/// Returns the inverse of a permutation of `count` dimensions.
fn inverse(permutation: &[u64], count: usize) -> Option<Vec<usize>> {
    let mut slots = vec![None; count];
    for (place, axis) in permutation.iter().enumerate() {
        *slots.get_mut(usize::try_from(*axis).ok()?)? = Some(place);
    }
    let is_whole = permutation.len() == count;
    slots.into_iter().collect::<Option<_>>().filter(|_| is_whole)
}

/// Returns `true` if elements are strings of characters or bytes.
fn is_text(element: &npy::Element) -> bool {
    element.descr.as_deref().is_some_and(|descr| matches!(descr.as_bytes(), [_, b'U' | b'S', ..]))
}

/// Returns the string in an element's bytes, without trailing zeros.
fn text(element: &npy::Element, mut bytes: Vec<u8>) -> Option<Value> {
    if element.dtype == DType::U32 {
        let (chars, _) = bytes.as_chunks::<4>();
        let chars = chars.iter().map(|c| char::from_u32(u32::from_le_bytes(*c)));
        let text: String = chars.collect::<Option<_>>()?;
        return Some(Value::Text(text.trim_end_matches('\0').to_owned()));
    }
    let len = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last.saturating_add(1));
    bytes.truncate(len);
    Some(Value::Bytes(bytes))
}

/// Returns the number in an element's bytes; an array of both parts for a complex number.
pub(super) fn number(element: &Element, bytes: &[u8]) -> Option<Value> {
    if bytes.len() as u64 != element.width() {
        return None;
    }
    if element.is_complex() {
        let part = Element { dtype: element.dtype, logical: None };
        let (real, imaginary) = bytes.split_at_checked(bytes.len() / 2)?;
        return Some(Value::Array(vec![number(&part, real)?, number(&part, imaginary)?]));
    }
    let dense = Dense::new(element.dtype, element.logical.clone(), [], bytes.to_vec());
    if element.logical.is_some() {
        return Some(Value::Float(f64::from(*dense.to_f32().ok()?.first()?)));
    }
    Some(match element.dtype {
        DType::F64 => Value::Float(f64::from_le_bytes(bytes.try_into().ok()?)),
        DType::F32 | DType::F16 | DType::Bf16 => {
            Value::Float(f64::from(*dense.to_f32().ok()?.first()?))
        }
        DType::Bool => Value::Bool(*bytes.first()? != 0),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
            let mut wide = [0; 16];
            wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Value::Integer(i128::from_le_bytes(wide))
        }
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
            let mut wide = [if bytes.last()? & 0x80 != 0 { 0xff } else { 0 }; 16];
            wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Value::Integer(i128::from_le_bytes(wide))
        }
    })
}
