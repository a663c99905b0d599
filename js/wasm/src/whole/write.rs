//! Writing files: the location of each component, and the bytes outside of components.

use super::dataset::Part;
use crate::file::File;
use crate::json::CALL;
use crate::{Answer, le};
use holdall_core::error::Escape as _;
use holdall_core::model::{Hasher, stored_size};
use holdall_core::{
    Algorithm, Attributes, DType, Encode, EncodeOptions, Encoding, Error, LogicalType, Stored,
    TensorSpec, Value, ValueCheck,
};
use holdall_formats::stored_as;
use holdall_schema::{SCHEMA_ATTRIBUTE, TensorDType};

/// A file that is being written.
pub(crate) struct Writer {
    encoder: Box<dyn Encode>,
    /// The specs in the order of writing.
    specs: Vec<TensorSpec>,
    /// The digest of the current component.
    hasher: Option<Hasher>,
    start: u64,
}

impl Writer {
    /// Begins a file. The input is JSON: `format`, `version`, `attributes` (with `kept` also
    /// those of the open file except for its schema, or for the one that `without` names), and for each of `tensors` its `name`,
    /// `dtype`, `shape` and `attributes`, or instead of the last three as `part` the index of one
    /// of `parts`. The answer is the number of tensors, their indices in the order of writing,
    /// and the bytes at the start of the file.
    pub(crate) fn begin(
        input: &[u8],
        depth: usize,
        parts: &[Part],
        file: Option<&File>,
    ) -> Result<(Writer, Answer), Error> {
        let text = std::str::from_utf8(input)
            .map_err(|_| CALL.broken("the description of the file is not UTF-8"))?;
        let request = Attributes::from_json(text, depth.saturating_add(4))?;
        let word = |name: &str| request.get(name).and_then(Value::as_text);
        let id = word("format").unwrap_or_default();
        let format = holdall_formats::by_name(id).ok_or_else(|| {
            holdall_formats::UNKNOWN.broken(format!("there is no format `{}`", id.escaped()))
        })?;
        let Some(encode) = format.encode else {
            return Err(CALL.broken(format!("`{}` is not written", format.id)));
        };
        let mut options = EncodeOptions::new();
        options.version = word("version").map(str::to_owned);
        // The host has checked them.
        options.values = ValueCheck::Caller;
        let mut encoder = encode(&options)?;
        if encoder.needs_digest().is_some() {
            let message = format!("`{}` needs sums that are not made here", format.id);
            return Err(CALL.broken(message).with_hint("write another format and convert it"));
        }
        let mut attributes = attributes(request.get("attributes"))?;
        if let (Some(Value::Bool(true)), Some(file)) = (request.get("kept"), file) {
            let mut all = file.index()?.attributes().clone();
            all.remove(word("without").unwrap_or(SCHEMA_ATTRIBUTE));
            attributes.iter().for_each(|(key, value)| all.set(key, value.clone()));
            attributes = all;
        }
        encoder.check_attributes(&attributes)?;
        let Some(Value::Array(tensors)) = request.get("tensors") else {
            return Err(CALL.broken("`tensors` must be a list"));
        };
        let specs = tensors.iter().map(|request| spec(request, parts));
        let specs = specs.collect::<Result<Vec<_>, _>>()?;
        specs.iter().try_for_each(|spec| encoder.check_tensor(spec))?;
        let order = encoder.order(&specs);
        let specs: Vec<TensorSpec> =
            order.iter().filter_map(|at| specs.get(*at).cloned()).collect();
        let declared = if encoder.header_first() { &specs[..] } else { &[] };
        let head = encoder.begin(&attributes, declared)?;
        let mut out = le([order.len() as u64]);
        out.extend(le(order.iter().map(|at| *at as u64)));
        out.extend_from_slice(&head);
        Ok((Writer { encoder, specs, hasher: None, start: 0 }, Answer::Done(out)))
    }

    fn spec(&self, at: u32) -> Result<&TensorSpec, Error> {
        let found = self.specs.get(at as usize);
        found.ok_or_else(|| CALL.broken(format!("there is no tensor number {at} to write")))
    }

    /// Returns the offset of a component in a file of `end` bytes, and its length; its bytes are
    /// hashed from now on.
    pub(crate) fn place(&mut self, at: u32, component: u32, end: u64) -> Result<Answer, Error> {
        let spec = self.spec(at)?.clone();
        let component = component as usize;
        let len = spec.components.get(component).map(|c| c.decoded_len);
        let len = len.ok_or_else(|| CALL.broken(format!("there is no component {component}")))?;
        let start = self.encoder.next_offset(end, &spec, component)?;
        let sums = self.encoder.can_digest(Algorithm::Crc32c);
        self.hasher = sums.then(|| Hasher::new(Algorithm::Crc32c));
        self.start = start;
        Ok(Answer::numbers([start, len, u64::from(sums)]))
    }

    /// Hashes bytes of the current component.
    pub(crate) fn sum(&mut self, bytes: &[u8]) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
    }

    /// Ends the component.
    pub(crate) fn component_written(&mut self, at: u32, component: u32) -> Result<Answer, Error> {
        let spec = self.spec(at)?.clone();
        let component = component as usize;
        let len = spec.components.get(component).map_or(0, |c| c.decoded_len);
        let digest = self.hasher.take().map(Hasher::finish);
        let range = self.start..self.start.saturating_add(len);
        self.encoder.component_written(
            &spec,
            component,
            Stored { range, encoding: Encoding::Raw, digest },
        )?;
        Ok(Answer::NOTHING)
    }

    /// Returns the bytes at the end of a file of `end` bytes.
    pub(crate) fn finish(mut self, end: u64) -> Result<Answer, Error> {
        Ok(Answer::Done(self.encoder.finish(end)?.to_vec()))
    }
}

fn spec(request: &Value, parts: &[Part]) -> Result<TensorSpec, Error> {
    let field = |name: &str| match request {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| key.as_text() == Some(name)),
        _ => None,
    };
    let word = |name: &str| field(name).and_then(|(_, value)| value.as_text());
    let name = word("name").ok_or_else(|| CALL.broken("a tensor lacks its name"))?;
    let named = |message: String| CALL.broken(message).in_tensor(name);
    if let Some((_, number)) = field("part") {
        let number = number.as_integer().and_then(|n| usize::try_from(n).ok());
        let part = number.and_then(|n| parts.get(n));
        return part
            .map(|part| part.spec(name))
            .ok_or_else(|| named("there is no dataset or blob of this number".to_owned()));
    }
    let dtype = word("dtype").unwrap_or_default();
    let (dtype, logical) = element_type(dtype)
        .ok_or_else(|| named(format!("there is no element type `{}`", dtype.escaped())))?;
    let Some((_, Value::Array(shape))) = field("shape") else {
        return Err(named("its shape is a list of whole numbers".to_owned()));
    };
    let shape = shape.iter().map(|n| n.as_integer().and_then(|n| u64::try_from(n).ok()));
    let shape: Option<Vec<u64>> = shape.collect();
    let shape = shape.ok_or_else(|| named("its shape is a list of whole numbers".to_owned()))?;
    let count = holdall_core::model::element_count(&shape).unwrap_or(u64::MAX);
    let len = stored_size(count, dtype, logical.as_ref()).ok().flatten();
    let len = len.ok_or_else(|| named("its elements do not fill whole bytes".to_owned()))?;
    let mut spec = TensorSpec::dense(name, dtype, shape);
    spec.attributes = attributes(field("attributes").map(|(_, value)| value))?;
    if let Some(component) = spec.components.first_mut() {
        (component.decoded_len, component.logical_type) = (len, logical);
    }
    Ok(spec)
}

/// Parses `f32` or `u8 f8_e5m2`, or the names of safetensors: `F32`, `F8_E5M2`.
fn element_type(name: &str) -> Option<(DType, Option<LogicalType>)> {
    if let Some(named) = TensorDType::from_name(name) {
        return Some(stored_as(named));
    }
    match name.split_once(' ') {
        Some((dtype, logical)) => {
            Some((DType::from_name(dtype)?, Some(LogicalType::from_name(logical))))
        }
        None => DType::from_name(name).map(|dtype| (dtype, None)),
    }
}

/// Parses attributes from an object, if there is one.
fn attributes(request: Option<&Value>) -> Result<Attributes, Error> {
    match request {
        None | Some(Value::Null) => Ok(Attributes::new()),
        Some(Value::Map(pairs)) => pairs
            .iter()
            .map(|(key, value)| match key {
                Value::Text(key) => Ok((key.clone(), value.clone())),
                _ => Err(CALL.broken("the name of an attribute must be a text")),
            })
            .collect(),
        Some(_) => Err(CALL.broken("attributes must be an object")),
    }
}
