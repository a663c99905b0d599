//! Writes a zip: the storages, one after the other, then a pickle that describes their tensors.

use super::quantizer::{self, Quantizer};
use super::{
    ALIGN, ATTRIBUTES, DECLARED, ELEMENT_TYPE, ENCODING, LAYOUT, PYTHON_ATTRIBUTES, REQUIRES_GRAD,
    TENSORS,
};
use crate::header::check_values;
use crate::kept::object;
use crate::named::Element;
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_collections::{HashMap, HashSet};
use holdall_core::codec::crc::Crc32;
use holdall_core::encode::{ComponentSpec, Encode, EncodeOptions, Stored, TensorSpec};
use holdall_core::error::{Error, Escape as _, Remedy, Result};
use holdall_core::layout::strided;
use holdall_core::model::{
    Algorithm, Attributes, Digest, Encoding, Layout, Role, Value, element_count, stored_size,
};
use holdall_core::wire::pickle::write::Pickler;
use holdall_core::wire::zip::write::{self, Entry, descriptor, directory, local_header};
use holdall_core::wire::zip::{EntryKind, Method};

/// The top folder, which torch names after the file.
const TOP: &str = "archive/";

/// Creates an encoder of one file.
pub(super) fn encoder(options: &EncodeOptions) -> Result<Box<dyn Encode>> {
    options.check_unversioned("PyTorch's files have no versions")?;
    options.align_within(1..=write::ALIGN, &ALIGN)?;
    Ok(Box::<Encoder>::default())
}

#[derive(Default)]
struct Encoder {
    attributes: Attributes,
    /// The attributes that torch's format cannot store, by tensor.
    of_tensors: Vec<(String, Attributes)>,
    entries: Vec<Entry>,
    /// The storages. The name of each is its number.
    storages: Vec<Storage>,
    /// The numbers of storages, by the offset of their bytes.
    by_start: HashMap<u64, usize>,
    tensors: Vec<Tensor>,
    names: HashSet<String>,
    /// Whether the bytes of the last storage are being written.
    is_open: bool,
    /// Whether the last entry needs a data descriptor.
    owes: bool,
}

/// The bytes of one or more tensors.
struct Storage {
    len: u64,
    /// The element type of its tensors, if all have the same.
    element: Option<Element>,
    /// Whether its tensors are quantized: all or none, because the type of the storage in torch depends on it.
    is_quantized: bool,
}

/// A tensor in torch's terms.
struct Tensor {
    name: String,
    storage: usize,
    element: Element,
    shape: Vec<u64>,
    strides: Vec<u64>,
    requires_grad: bool,
    quantizer: Option<Quantizer>,
    /// The tensor's Python attributes: a dict.
    python: Option<Value>,
}

impl Encode for Encoder {
    fn header_first(&self) -> bool {
        false
    }

    fn can_digest(&self, algorithm: Algorithm) -> bool {
        algorithm == Algorithm::Crc32
    }

    fn needs_digest(&self) -> Option<Algorithm> {
        Some(Algorithm::Crc32)
    }

    fn check_attributes(&self, attributes: &Attributes) -> Result<()> {
        check_values(attributes)
    }

    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()> {
        check_values(&tensor.attributes)
            .and_then(|()| described(tensor).map(drop))
            .map_err(|e| e.in_tensor(&tensor.name))
    }

    fn begin(&mut self, attributes: &Attributes, _declared: &[TensorSpec]) -> Result<Bytes> {
        self.attributes = attributes.clone();
        Ok(Bytes::new())
    }

    fn preceding_bytes(
        &mut self,
        end: u64,
        tensor: &TensorSpec,
        component: usize,
    ) -> Result<Bytes> {
        let mut out = self.owed();
        let len = tensor.components.get(component).map_or(0, |c| c.decoded_len);
        let name = format!("{TOP}data/{}", self.storages.len());
        let offset = end.saturating_add(out.len() as u64);
        let entry = Entry::deferred(name, len, offset);
        out.extend_from_slice(&local_header(&entry));
        self.entries.push(entry);
        self.is_open = true;
        Ok(out.into())
    }

    fn next_offset(&mut self, end: u64, tensor: &TensorSpec, _component: usize) -> Result<u64> {
        match self.is_open {
            true => Ok(end),
            false => Err(DECLARED.broken("its header was not written").in_tensor(&tensor.name)),
        }
    }

    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: Stored,
    ) -> Result<()> {
        let blame = |e: Error| e.in_tensor(&tensor.name);
        let (described, spec) = described(tensor).map_err(blame)?;
        if component != 0 || !self.names.insert(tensor.name.clone()) {
            return Err(blame(DECLARED.broken("two tensors have this name")));
        }
        let len = stored.range.end.saturating_sub(stored.range.start);
        if spec.decoded_len != len {
            return Err(blame(DECLARED.broken(format!(
                "{len} bytes were written, which differs from the declared length"
            ))));
        }
        let storage = if spec.shares.is_some() {
            let known = self.by_start.get(&stored.range.start).copied();
            let lost = || blame(DECLARED.broken("it shares bytes that were not written"));
            known
                .filter(|at| self.storages.get(*at).is_some_and(|s| s.len == len))
                .ok_or_else(lost)?
        } else {
            let is_quantized = described.quantizer.is_some();
            self.stored(&stored, &described.element, is_quantized, len).map_err(blame)?
        };
        if let Some(storage) = self.storages.get_mut(storage) {
            if storage.is_quantized != described.quantizer.is_some() {
                let message =
                    "it shares bytes with another tensor, and only one of them is quantized";
                return Err(blame(DECLARED.broken(message).with_remedy(Remedy::CopyShared)));
            }
            storage.element.take_if(|element| *element != described.element);
        }
        if !described.aside.is_empty() {
            self.of_tensors.push((tensor.name.clone(), described.aside));
        }
        self.tensors.push(Tensor {
            name: tensor.name.clone(),
            storage,
            element: described.element,
            shape: described.shape,
            strides: described.strides,
            requires_grad: described.requires_grad,
            quantizer: described.quantizer,
            python: described.python,
        });
        Ok(())
    }

    fn finish(&mut self, end: u64) -> Result<Bytes> {
        if self.is_open {
            return Err(DECLARED.broken("the last tensor was not written"));
        }
        let mut out = self.owed();
        let of_tensors = self.of_tensors.iter().map(|(name, own)| (name.as_str(), own));
        let of_tensors = object(of_tensors, |own, out| out.push_str(&own.to_json()));
        let of_file = (!self.attributes.is_empty()).then(|| self.attributes.to_json());
        let texts = [
            ("data.pkl", Some(self.pickle())),
            ("byteorder", Some(b"little".to_vec())),
            ("version", Some(b"3\n".to_vec())),
            (ATTRIBUTES, of_file.map(String::into_bytes)),
            (TENSORS, of_tensors.map(String::into_bytes)),
        ];
        for (name, bytes) in texts {
            let Some(bytes) = bytes else { continue };
            let len = bytes.len() as u64;
            let entry = Entry {
                name: format!("{TOP}{name}"),
                kind: EntryKind::File,
                is_executable: false,
                method: Method::Stored,
                crc: Crc32::zip_crc32(&bytes),
                stored_len: len,
                len,
                offset: end.saturating_add(out.len() as u64),
                flags: None,
            };
            out.extend_from_slice(&local_header(&entry));
            out.extend_from_slice(&bytes);
            self.entries.push(entry);
        }
        let at = end.saturating_add(out.len() as u64);
        out.extend_from_slice(&directory(&self.entries, at));
        Ok(out.into())
    }
}

impl Encoder {
    /// Records a storage that was written, and returns its number.
    fn stored(
        &mut self,
        stored: &Stored,
        element: &Element,
        is_quantized: bool,
        len: u64,
    ) -> Result<usize> {
        let (true, Some(entry)) = (std::mem::take(&mut self.is_open), self.entries.last_mut())
        else {
            return Err(DECLARED.broken("its header was not written"));
        };
        let (Encoding::Raw, Some(Digest::Crc32(crc))) = (stored.encoding, &stored.digest) else {
            return Err(ENCODING.broken("it is compressed, or has a digest that is not its CRC-32"));
        };
        entry.crc = *crc;
        self.owes = true;
        let number = self.storages.len();
        self.by_start.insert(stored.range.start, number);
        self.storages.push(Storage { len, element: Some(element.clone()), is_quantized });
        Ok(number)
    }

    /// Returns the data descriptor of the last entry, if it is not written yet.
    fn owed(&mut self) -> Vec<u8> {
        match self.entries.last().filter(|_| std::mem::take(&mut self.owes)) {
            Some(entry) => descriptor(entry),
            None => Vec::new(),
        }
    }

    /// Returns a dict of all tensors, as `torch.save` pickles it.
    fn pickle(&self) -> Vec<u8> {
        let mut p = Pickler::new();
        p.begin_dict();
        for tensor in &self.tensors {
            let Some(storage) = self.storages.get(tensor.storage) else { continue };
            p.text(&tensor.name);
            match &tensor.python {
                None => write_call(tensor, storage, &mut p),
                Some(python) => {
                    p.global("torch._tensor", "_rebuild_from_type_v2");
                    p.begin_tuple();
                    p.global("torch._utils", tensor.function(storage));
                    p.global("torch", "Tensor");
                    write_arguments(tensor, storage, &mut p);
                    write_value(python, &mut p);
                    p.end_tuple();
                }
            }
            p.call();
            p.set_item();
        }
        p.finish()
    }
}

impl Tensor {
    /// Returns torch's storage class for the tensor's elements, if there is one and all tensors of the storage have
    /// this type.
    fn class(&self, storage: &Storage) -> Option<&'static str> {
        match self.quantizer {
            Some(_) => quantizer::storage(&self.element),
            None => storage.element.as_ref().and_then(Element::storage),
        }
    }

    /// Returns the function of `torch._utils` that creates the tensor.
    fn function(&self, storage: &Storage) -> &'static str {
        match (&self.quantizer, self.class(storage)) {
            (Some(_), _) => "_rebuild_qtensor",
            (None, Some(_)) => "_rebuild_tensor_v2",
            (None, None) => "_rebuild_tensor_v3",
        }
    }
}

/// Writes the function that creates a tensor, and its arguments.
fn write_call(tensor: &Tensor, storage: &Storage, p: &mut Pickler) {
    p.global("torch._utils", tensor.function(storage));
    write_arguments(tensor, storage, p);
}

fn write_arguments(tensor: &Tensor, storage: &Storage, p: &mut Pickler) {
    let class = tensor.class(storage);
    p.begin_tuple();
    p.begin_tuple();
    p.text("storage");
    match class {
        Some(class) => p.global("torch", class),
        None => p.global("torch.storage", "UntypedStorage"),
    }
    p.text(&tensor.storage.to_string());
    p.text("cpu");
    p.number(match class {
        Some(_) => storage.len.checked_div(tensor.element.width()).debug_unwrap(),
        None => storage.len,
    });
    p.end_tuple();
    p.persistent();
    p.number(0);
    p.numbers(&tensor.shape);
    p.numbers(&tensor.strides);
    if let Some(quantizer) = &tensor.quantizer {
        quantizer.write(p);
    }
    p.bool(tensor.requires_grad);
    p.global("collections", "OrderedDict");
    p.call_without();
    if class.is_none() {
        p.global("torch", tensor.element.dtype_name().unwrap_or_default());
    }
    p.end_tuple();
}

/// Returns `true` if [`write_value`] writes the value unchanged.
fn is_written(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Text(_) => true,
        Value::Array(items) => items.iter().all(is_written),
        Value::Map(pairs) => pairs.iter().all(|(key, value)| {
            let is_key = matches!(key, Value::Text(_) | Value::Integer(_) | Value::Bool(_));
            is_key && is_written(value)
        }),
        // In protocol 2, bytes would require a call.
        _ => false,
    }
}

/// Appends a plain value, for which [`is_written`] must be true.
pub(super) fn write_value(value: &Value, p: &mut Pickler) {
    match value {
        Value::Bool(value) => p.bool(*value),
        Value::Integer(n) => p.integer(*n),
        Value::Float(x) => p.float(*x),
        Value::Text(text) => p.text(text),
        Value::Array(items) => {
            p.begin_list();
            for item in items {
                write_value(item, p);
                p.append();
            }
        }
        Value::Map(pairs) => {
            p.begin_dict();
            for (key, value) in pairs {
                write_value(key, p);
                write_value(value, p);
                p.set_item();
            }
        }
        _ => p.none(),
    }
}

/// The description of a tensor.
struct Described {
    element: Element,
    shape: Vec<u64>,
    strides: Vec<u64>,
    requires_grad: bool,
    quantizer: Option<Quantizer>,
    python: Option<Value>,
    /// The attributes that torch's format cannot store.
    aside: Attributes,
}

fn described(tensor: &TensorSpec) -> Result<(Described, &ComponentSpec)> {
    let data = match tensor.components.as_slice() {
        [data] if data.role == Role::Data => Some(data),
        _ => None,
    };
    let Some(data) = data.filter(|_| matches!(tensor.layout, Layout::Dense | Layout::Strided))
    else {
        let layout = tensor.layout.as_str().escaped();
        let e = LAYOUT.broken(format!("PyTorch has no layout `{layout}` that can be written"));
        return Err(match tensor.layout {
            // Tensors with an unknown layout cannot be made dense either.
            Layout::Records | Layout::Blob | Layout::Other(_) => e.with_remedy(Remedy::LeaveOut),
            _ => e,
        });
    };
    let element = Element { dtype: data.dtype, logical: data.logical_type.clone() };
    if element.dtype_name().is_none() {
        let type_name = data
            .logical_type
            .as_ref()
            .map_or(data.dtype.as_str(), |type_name| type_name.as_str())
            .escaped();
        return Err(ELEMENT_TYPE.broken(format!("torch has no elements of type {type_name}")));
    }
    let mut shape = tensor.shape.clone();
    if element == Element::PAIR {
        let last = shape.last_mut().filter(|n| **n % 2 == 0 && tensor.layout == Layout::Dense);
        let last = last.ok_or_else(|| {
            let message =
                "torch stores f4_e2m1 elements in pairs, so the last dimension must be even";
            ELEMENT_TYPE.broken(message)
        })?;
        *last /= 2;
    }
    let (strides, mut aside) = match tensor.layout {
        Layout::Strided => {
            let own = tensor.attributes.clone();
            strided::split_strides(own, &shape, element.width(), data.decoded_len)?
        }
        _ => (row_major(&shape), tensor.attributes.clone()),
    };
    let count = element_count(&tensor.shape).unwrap_or(u64::MAX);
    let len = stored_size(count, data.dtype, data.logical_type.as_ref()).ok().flatten();
    // A view may leave out bytes.
    if tensor.layout == Layout::Dense && len != Some(data.decoded_len) {
        let message = format!("shape {:?} does not match {} bytes", tensor.shape, data.decoded_len);
        return Err(DECLARED.broken(message));
    }
    let requires_grad = aside.get(REQUIRES_GRAD) == Some(&Value::Bool(true));
    if requires_grad {
        aside.remove(REQUIRES_GRAD);
    }
    let quantizer = Quantizer::take(&mut aside, &element, &shape)?;
    let is_state = |value: &Value| matches!(value, Value::Map(_)) && is_written(value);
    let python = aside.get(PYTHON_ATTRIBUTES).filter(|value| is_state(value)).cloned();
    if python.is_some() {
        aside.remove(PYTHON_ATTRIBUTES);
    }
    Ok((Described { element, shape, strides, requires_grad, quantizer, python, aside }, data))
}

/// Returns the strides of elements in row-major order.
fn row_major(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    let mut next = 1u64;
    for (stride, dim) in strides.iter_mut().zip(shape).rev() {
        *stride = next;
        next = next.saturating_mul((*dim).max(1));
    }
    strides
}
