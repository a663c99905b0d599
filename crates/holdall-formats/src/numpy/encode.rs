//! Writes a zip of arrays, entry by entry.

use super::{
    ATTRIBUTES, DECLARED, ELEMENT_TYPE, ENCODING, EXTENSION, FIT, LAYOUT, TENSORS, TYPE, is_name,
};
use crate::array::DESCR;
use crate::header::check_values;
use crate::kept::object;
use crate::structured::{Refusal, structured, type_from_attribute};
use bytes::Bytes;
use holdall_collections::HashSet;
use holdall_core::codec::crc::Crc32;
use holdall_core::encode::{ComponentSpec, Encode, EncodeOptions, Stored, TensorSpec};
use holdall_core::error::{Escape as _, Remedy, Result};
use holdall_core::layout::strided::column_major;
use holdall_core::model::{
    Algorithm, Attributes, DType, Digest, Encoding, Layout, LogicalType, Role, Value,
    crc32_combine, element_count, stored_size,
};
use holdall_core::wire::npy::{self, Element};
use holdall_core::wire::zip::write::{ALIGN, Entry, descriptor, directory, local_header};
use holdall_core::wire::zip::{EntryKind, Method};

/// The maximum length of a header that NumPy reads without special options.
const MAX_HEADER_LEN: usize = 10_000;
/// The maximum length of a name that fits into a zip entry.
const MAX_NAME: usize = 65_000;

/// Creates an encoder of one file.
pub(super) fn encoder(options: &EncodeOptions) -> Result<Box<dyn Encode>> {
    options.check_unversioned("NumPy's files have no versions")?;
    options.align_within(1..=ALIGN, &super::ALIGN)?;
    Ok(Box::<Encoder>::default())
}

#[derive(Default)]
struct Encoder {
    attributes: Attributes,
    /// The attributes that NumPy's formats cannot store, by tensor.
    of_tensors: Vec<(String, Attributes)>,
    entries: Vec<Entry>,
    names: HashSet<String>,
    /// The CRC-32 of the last entry's header, while its elements are written.
    open: Option<u32>,
    /// Whether the last entry needs a data descriptor.
    owes: bool,
}

/// A tensor as an array.
struct Array {
    descr: String,
    fortran: bool,
    shape: Vec<u64>,
    /// The attributes that NumPy's formats cannot store.
    aside: Attributes,
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

    fn can_share(&self) -> bool {
        false
    }

    fn check_attributes(&self, attributes: &Attributes) -> Result<()> {
        check_values(attributes)
    }

    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()> {
        check_values(&tensor.attributes)
            .and_then(|()| array(tensor).map(drop))
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
        _component: usize,
    ) -> Result<Bytes> {
        let array = array(tensor).map_err(|e| e.in_tensor(&tensor.name))?;
        if !self.names.insert(tensor.name.clone()) {
            let e = DECLARED.broken("two tensors have this name");
            return Err(e.in_tensor(&tensor.name));
        }
        let header = npy::header_of(&array.descr, array.fortran, &array.shape)?;
        let mut out = self.owed();
        let len = tensor.components.first().map_or(0, |c| c.decoded_len);
        let len = len.saturating_add(header.len() as u64);
        let offset = end.saturating_add(out.len() as u64);
        let entry = Entry::deferred(format!("{}{EXTENSION}", tensor.name), len, offset);
        out.extend_from_slice(&local_header(&entry));
        out.extend_from_slice(&header);
        self.entries.push(entry);
        self.open = Some(Crc32::zip_crc32(&header));
        if !array.aside.is_empty() {
            self.of_tensors.push((tensor.name.clone(), array.aside));
        }
        Ok(out.into())
    }

    fn next_offset(&mut self, end: u64, tensor: &TensorSpec, _component: usize) -> Result<u64> {
        match self.open {
            Some(_) => Ok(end),
            None => Err(DECLARED.broken("its header was not written").in_tensor(&tensor.name)),
        }
    }

    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: Stored,
    ) -> Result<()> {
        let blame = |e: holdall_core::error::Error| e.in_tensor(&tensor.name);
        let (Some(head), Some(entry)) = (self.open.take(), self.entries.last_mut()) else {
            return Err(blame(DECLARED.broken("its header was not written")));
        };
        let len = stored.range.end.saturating_sub(stored.range.start);
        let (Encoding::Raw, Some(Digest::Crc32(crc))) = (stored.encoding, stored.digest) else {
            return Err(blame(
                ENCODING.broken("it is compressed, or has a digest that is not its CRC-32"),
            ));
        };
        if tensor.components.get(component).is_none_or(|c| c.decoded_len != len) {
            return Err(blame(DECLARED.broken(format!(
                "{len} bytes were written, which differs from the declared length"
            ))));
        }
        entry.crc = crc32_combine(head, crc, len);
        self.owes = true;
        Ok(())
    }

    fn finish(&mut self, end: u64) -> Result<Bytes> {
        if self.open.is_some() {
            return Err(DECLARED.broken("the last tensor was not written"));
        }
        let mut out = self.owed();
        let of_tensors = self.of_tensors.iter().map(|(name, own)| (name.as_str(), own));
        let of_tensors = object(of_tensors, |own, out| out.push_str(&own.to_json()));
        let of_file = (!self.attributes.is_empty()).then(|| self.attributes.to_json());
        for (name, text) in [(ATTRIBUTES, of_file), (TENSORS, of_tensors)] {
            let Some(text) = text else { continue };
            let len = text.len() as u64;
            let entry = Entry {
                name: name.to_owned(),
                kind: EntryKind::File,
                is_executable: false,
                method: Method::Stored,
                crc: Crc32::zip_crc32(text.as_bytes()),
                stored_len: len,
                len,
                offset: end.saturating_add(out.len() as u64),
                flags: None,
            };
            out.extend_from_slice(&local_header(&entry));
            out.extend_from_slice(text.as_bytes());
            self.entries.push(entry);
        }
        let at = end.saturating_add(out.len() as u64);
        out.extend_from_slice(&directory(&self.entries, at));
        Ok(out.into())
    }
}

impl Encoder {
    /// Returns the data descriptor of the last entry, if it is not written yet.
    fn owed(&mut self) -> Vec<u8> {
        match self.entries.last().filter(|_| std::mem::take(&mut self.owes)) {
            Some(entry) => descriptor(entry),
            None => Vec::new(),
        }
    }
}

/// Returns the array for a tensor.
fn array(tensor: &TensorSpec) -> Result<Array> {
    let data = match tensor.components.as_slice() {
        [data] if data.role == Role::Data => Some(data),
        _ => None,
    };
    if let (Layout::Records, Some(data)) = (&tensor.layout, data) {
        check_location(tensor, data)?;
        let refusal = Refusal { format: "NumPy", layout: &LAYOUT, declared: &DECLARED };
        let element = structured(tensor, data, &refusal)?;
        if element.descr.len() > MAX_HEADER_LEN {
            let len = element.descr.len();
            let message = format!(
                "its header has {len} bytes because of its fields, at most {MAX_HEADER_LEN} are allowed"
            );
            return Err(ELEMENT_TYPE.broken(message));
        }
        let aside = element.extra_attributes(&element.fields.schema());
        return Ok(Array { descr: element.descr, fortran: false, shape: element.shape, aside });
    }
    let mut aside = tensor.attributes.clone();
    let fortran = match (&tensor.layout, column_major(&tensor.shape, None)) {
        (Layout::Dense, _) => Some(false),
        (Layout::Strided, Some(columns)) => {
            let is_same = |(key, value)| aside.get(key) == Some(value);
            let is_by_columns = columns.iter().all(is_same);
            columns.iter().filter(|_| is_by_columns).for_each(|(key, _)| drop(aside.remove(key)));
            is_by_columns.then_some(true)
        }
        _ => None,
    };
    let (Some(data), Some(fortran)) = (data, fortran) else {
        let layout = tensor.layout.as_str().escaped();
        let e = LAYOUT.broken(format!("NumPy has no layout `{layout}`"));
        return Err(match tensor.layout {
            // Tensors with an unknown layout cannot be made dense either.
            Layout::Records | Layout::Blob | Layout::Other(_) => e.with_remedy(Remedy::LeaveOut),
            _ => e,
        });
    };
    check_location(tensor, data)?;
    let count = element_count(&tensor.shape).unwrap_or(u64::MAX);
    let len = stored_size(count, data.dtype, data.logical_type.as_ref()).ok().flatten();
    let is_known = !matches!(data.logical_type, Some(LogicalType::Other(_)));
    if is_known && len != Some(data.decoded_len) {
        let message = format!("shape {:?} does not match {} bytes", tensor.shape, data.decoded_len);
        return Err(DECLARED.broken(message));
    }
    if let Some((Element { descr: Some(descr), .. }, shape)) = type_from_attribute(tensor, data)
        && !fortran
    {
        aside.remove(DESCR);
        return Ok(Array { descr, fortran, shape, aside });
    }
    let (dtype, logical) = (data.dtype, data.logical_type.as_ref());
    let own = match (npy::descr(dtype, logical), logical) {
        (Some(own), _) => own,
        (None, None) if dtype == DType::Bf16 => {
            aside.set(TYPE, Value::Text(dtype.as_str().to_owned()));
            "<V2"
        }
        (None, Some(logical_type))
            if logical_type.bits() == Some(8) && !matches!(logical_type, LogicalType::Other(_)) =>
        {
            aside.set(TYPE, Value::Text(logical_type.as_str().to_owned()));
            "|V1"
        }
        (None, type_name) => {
            let type_name =
                type_name.map_or(dtype.as_str(), |type_name| type_name.as_str()).escaped();
            return Err(ELEMENT_TYPE.broken(format!("NumPy has no elements of type {type_name}")));
        }
    };
    Ok(Array { descr: own.to_owned(), fortran, shape: tensor.shape.clone(), aside })
}

/// Checks that the name is valid for a zip entry, and that the tensor shares no bytes.
fn check_location(tensor: &TensorSpec, data: &ComponentSpec) -> Result<()> {
    if tensor.name.len() > MAX_NAME || !is_name(&tensor.name) {
        return Err(FIT.broken("the name is not valid for an entry of a zip"));
    }
    if data.shares.is_some() {
        let e =
            DECLARED.broken("it shares the bytes of another tensor, which NumPy cannot represent");
        return Err(e.with_remedy(Remedy::CopyShared));
    }
    Ok(())
}
