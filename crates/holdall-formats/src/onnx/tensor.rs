//! A tensor: the location of its elements, or the elements themselves.

use super::{DATA, DIMS, ELEMENT_TYPE, INDICES, NUMBERS, bits, element, name_of};
use holdall_collections::DebugUnwrap;
use holdall_core::error::{Error, Escape as _, Remedy, Result};
use holdall_core::model::element_count;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::protobuf::{Item, Scan};
use std::ops::Range;

/// The fields of a `TensorProto` that are needed to find its elements.
#[derive(Debug, Default)]
pub(super) struct Proto {
    pub(super) name: String,
    /// The dimensions as stored: values above 2^63 are negative.
    dims: Vec<u64>,
    pub(super) data_type: u64,
    /// The range of the message in the file.
    range: Range<u64>,
    raw: Option<Range<u64>>,
    /// The numeric fields that are not empty, each with its range if it is a single packed run.
    fields: Vec<(u64, Option<Range<u64>>)>,
    is_external: bool,
    pub(super) external: External,
    /// The reason why the message is invalid.
    wrong: Option<&'static str>,
}

/// The location of external data.
#[derive(Debug, Default)]
pub(super) struct External {
    pub(super) location: String,
    pub(super) offset: u64,
    pub(super) len: Option<u64>,
    /// Whether a number is invalid.
    wrong: bool,
}

/// The elements of a tensor.
pub(super) enum Data<'a> {
    /// A byte range of the file.
    Here(Range<u64>),
    /// Elements converted from numbers.
    Made(Vec<u8>),
    External(&'a External),
}

/// Fields of numbers and strings: float, int32, string, int64, double, uint64.
const NUMBERS_OF: [u64; 6] = [4, 5, 6, 7, 10, 11];

impl Proto {
    /// Reads everything except the elements of the tensor at `range`. `text` returns the string at a range.
    pub(super) fn read(
        window: &Window,
        range: Range<u64>,
        most: usize,
        text: &impl Fn(Range<u64>) -> Result<String, Stop>,
    ) -> Result<Proto, Stop> {
        let mut out = Proto { range: range.clone(), ..Proto::default() };
        let mut scan = Scan::new(window, range);
        while let Some((number, item)) = scan.next()? {
            match (number, item) {
                (1, Item::Varint(n)) => out.dim(n, most),
                (1, Item::Bytes(run)) => {
                    let mut packed = Scan::new(window, run);
                    while let Some(n) = packed.number()? {
                        out.dim(n, most);
                    }
                }
                (2, Item::Varint(n)) => out.data_type = n,
                (3, Item::Bytes(_)) => out.wrong = Some("it is a segment of a tensor"),
                (8, Item::Bytes(run)) => out.name = text(run)?,
                (9, Item::Bytes(run)) => {
                    let first = out.raw.replace(run);
                    if first.is_some() {
                        out.wrong = Some("it has two fields `raw_data`");
                    }
                }
                (13, Item::Bytes(run)) => out.external.read(window, run, text)?,
                (14, Item::Varint(n)) => out.is_external = n == 1,
                (field, item) if NUMBERS_OF.contains(&field) => {
                    let (known, run) = match item {
                        // Empty fields are ignored.
                        Item::Bytes(run) if run.is_empty() && field != 6 => continue,
                        Item::Bytes(run) => (out.field(field), Some(run)),
                        _ => (out.field(field), None),
                    };
                    match known {
                        Some(at) => {
                            if let Some((_, only)) = out.fields.get_mut(at) {
                                *only = None;
                            }
                        }
                        None => out.fields.push((field, run)),
                    }
                }
                (1 | 2 | 3 | 8 | 9 | 13 | 14, _) => {
                    out.wrong = Some("a field has the wrong type");
                }
                _ => {}
            }
        }
        Ok(out)
    }

    fn field(&self, field: u64) -> Option<usize> {
        self.fields.iter().position(|(own, _)| *own == field)
    }

    fn dim(&mut self, n: u64, most: usize) {
        // One dimension more than allowed is enough to detect that there are too many.
        if self.dims.len() <= most {
            self.dims.push(n);
        }
    }

    /// Returns the shape.
    ///
    /// # Errors
    /// Returns [`DIMS`] if a dimension is negative.
    pub(super) fn shape(&self) -> Result<&[u64]> {
        match self.dims.iter().find(|n| i64::try_from(**n).is_err()) {
            Some(n) => Err(DIMS.broken(format!("a dimension is {}", n.cast_signed()))),
            None => Ok(&self.dims),
        }
    }

    /// Returns the number of bytes of the elements.
    ///
    /// # Errors
    /// Returns [`ELEMENT_TYPE`], [`DIMS`] or [`DATA`] if it cannot be computed.
    pub(super) fn len(&self) -> Result<u64> {
        if element(self.data_type).is_none() {
            let type_name = name_of(self.data_type);
            return Err(ELEMENT_TYPE.broken(format!("its elements have the ONNX type {type_name}")));
        }
        let bits = bits(self.data_type);
        let len = element_count(self.shape()?).and_then(|n| n.checked_mul(bits));
        len.map(|bits| bits.div_ceil(8))
            .ok_or_else(|| DATA.broken(format!("shape {:?} has more than 2^64 bits", self.dims)))
    }

    /// Returns the elements, or their location. Elements in numeric fields count against `budget`.
    ///
    /// # Errors
    /// Returns [`ELEMENT_TYPE`], [`DIMS`], [`DATA`] or [`NUMBERS`] if there are no valid elements, and [`Stop::Need`]
    /// if bytes are missing.
    pub(super) fn data(&self, window: &Window, budget: &mut u64) -> Result<Data<'_>, Stop> {
        let len = self.len()?;
        let broken =
            |what: &str| -> Stop { DATA.broken(what.to_owned()).at(self.range.clone()).into() };
        if let Some(what) = self.wrong {
            return Err(broken(what));
        }
        let raw = self.raw.as_ref().filter(|run| !run.is_empty());
        if self.is_external {
            if raw.is_some() || !self.fields.is_empty() {
                return Err(broken("it has elements both in the file and in an external file"));
            }
            return match self.external.wrong {
                true => Err(broken("the offset or length of its external data is not a number")),
                false => Ok(Data::External(&self.external)),
            };
        }
        let data = match (raw, self.fields.as_slice()) {
            (Some(run), []) => Data::Here(run.clone()),
            (None, []) => Data::Here(self.range.start..self.range.start),
            (None, [(field, only)]) => {
                if !fits(*field, self.data_type) {
                    let type_name = name_of(self.data_type);
                    return Err(broken(&format!(
                        "its elements have the type {type_name}, but are in field {field}"
                    )));
                }
                match only {
                    // Packed floats are stored like elements.
                    Some(run) if matches!(field, 4 | 10) => Data::Here(run.clone()),
                    _ => Data::Made(self.numbers(*field, len, window, budget)?),
                }
            }
            _ => return Err(broken("it has elements in more than one field")),
        };
        let found = match &data {
            Data::Here(run) => run.end.saturating_sub(run.start),
            Data::Made(bytes) => bytes.len() as u64,
            Data::External(_) => len,
        };
        if found != len {
            let message = format!("shape {:?} requires {len} bytes, found {found}", self.dims);
            return Err(broken(&message));
        }
        Ok(data)
    }

    /// Converts the elements in a numeric field, which should have `len` bytes.
    fn numbers(
        &self,
        field: u64,
        len: u64,
        window: &Window,
        budget: &mut u64,
    ) -> Result<Vec<u8>, Stop> {
        // A number takes at least one byte, and becomes at most eight.
        let there = self.range.end.saturating_sub(self.range.start);
        if len > there.saturating_mul(8) {
            let message = format!("{there} bytes of numbers cannot become {len} bytes of elements");
            return Err(DATA.broken(message).at(self.range.clone()).into());
        }
        *budget =
            budget.checked_sub(len).ok_or_else(|| over(len, "elements").at(self.range.clone()))?;
        // Numbers of 6-bit elements are one element each.
        let of_6 = matches!(self.data_type, 27 | 28);
        let count = element_count(&self.dims).filter(|_| of_6);
        let len = count.unwrap_or(len);
        let mut out = Vec::with_capacity(usize::try_from(len).debug_unwrap());
        let most = usize::try_from(len).unwrap_or(usize::MAX);
        let put = |n: u64, out: &mut Vec<u8>| {
            let width = self.number_width(field);
            let n = if self.data_type == 9 { u64::from(n != 0) } else { n };
            if out.len() < most.saturating_add(8) {
                out.extend(n.to_le_bytes().into_iter().take(width));
            }
        };
        let mut scan = Scan::new(window, self.range.clone());
        while let Some((number, item)) = scan.next()? {
            if number != field {
                continue;
            }
            match item {
                Item::Varint(n) | Item::Fixed64(n) => put(n, &mut out),
                Item::Fixed32(n) => put(n.into(), &mut out),
                Item::Bytes(run) if matches!(field, 4 | 10) => {
                    let room = most.saturating_add(8).saturating_sub(out.len()) as u64;
                    let end = run.end.min(run.start.saturating_add(room));
                    out.extend_from_slice(&window.bytes(run.start..end)?);
                }
                Item::Bytes(run) => {
                    let mut packed = Scan::new(window, run);
                    while let Some(n) = packed.number()? {
                        put(n, &mut out);
                    }
                }
            }
        }
        match count {
            Some(count) if count == out.len() as u64 => Ok(pack_6(&out)),
            _ => Ok(out),
        }
    }

    /// Returns the number of bytes that each number of a field becomes.
    fn number_width(&self, field: u64) -> usize {
        match field {
            4 => 4,
            10 => 8,
            // Below 8 bits, each number is a byte with several elements.
            _ => usize::try_from(bits(self.data_type).div_ceil(8)).unwrap_or(8),
        }
    }

    /// Returns the values of a tensor of 64-bit integers, of which at most `most` are allowed.
    ///
    /// # Errors
    /// Returns [`INDICES`], and the errors of [`Proto::data`].
    pub(super) fn integers(&self, window: &Window, budget: &mut u64) -> Result<Vec<i64>, Stop> {
        if self.data_type != 7 {
            let type_name = name_of(self.data_type);
            return Err(INDICES
                .broken(format!("expected 64-bit integers, found {type_name}"))
                .at(self.range.clone())
                .into());
        }
        let bytes = match self.data(window, budget)? {
            Data::Made(bytes) => bytes,
            Data::Here(run) => {
                let len = run.end.saturating_sub(run.start);
                *budget = budget
                    .checked_sub(len)
                    .ok_or_else(|| -> Error { over(len, "indices").at(run.clone()) })?;
                window.bytes(run)?.to_vec()
            }
            Data::External(_) => {
                return Err(INDICES
                    .broken("the indices are in an external file")
                    .at(self.range.clone())
                    .into());
            }
        };
        let (all, _) = bytes.as_chunks::<8>();
        Ok(all.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
    }
}

impl External {
    /// Reads one key and its value.
    fn read(
        &mut self,
        window: &Window,
        range: Range<u64>,
        text: &impl Fn(Range<u64>) -> Result<String, Stop>,
    ) -> Result<(), Stop> {
        let (mut key, mut value) = (String::new(), String::new());
        let mut scan = Scan::new(window, range);
        while let Some((number, item)) = scan.next()? {
            match (number, item) {
                (1, Item::Bytes(run)) => key = text(run)?,
                (2, Item::Bytes(run)) => value = text(run)?,
                _ => {}
            }
        }
        match key.as_str() {
            "location" => self.location = value,
            "offset" => match value.parse() {
                Ok(n) => self.offset = n,
                Err(_) => self.wrong = true,
            },
            "length" => match value.parse() {
                Ok(n) => self.len = Some(n),
                Err(_) => self.wrong = true,
            },
            _ => {}
        }
        Ok(())
    }

    /// Returns `true` if the file is in the model's folder or below.
    pub(super) fn is_inside(&self) -> bool {
        let name = &self.location;
        !name.is_empty()
            && !name.starts_with('/')
            && !name.contains(['\\', ':', '\0'])
            && name.split('/').all(|part| !matches!(part, "" | ".."))
    }

    pub(super) fn escaped_location(&self) -> String {
        self.location.as_str().escaped().to_string()
    }
}

/// Returns the error for numbers that exceed the limit.
pub(super) fn over(len: u64, what: &str) -> Error {
    let raise = Remedy::RaiseLimit { limit: "header_len", at_least: None };
    let message = format!("{len} bytes of {what} exceed the rest of the limit");
    NUMBERS.broken(message).with_remedy(raise)
}

/// Packs 6-bit elements, one in each byte: four in three bytes, the first in the lowest bits.
fn pack_6(all: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for four in all.chunks(4) {
        let mut bits = 0u32;
        for element in four.iter().rev() {
            bits = bits << 6 | u32::from(element & 0x3f);
        }
        let len = four.len().saturating_mul(6).div_ceil(8);
        out.extend(bits.to_le_bytes().into_iter().take(len));
    }
    out
}

/// Returns `true` if elements of a type may be in this numeric field.
fn fits(field: u64, data_type: u64) -> bool {
    match field {
        4 => matches!(data_type, 1 | 14),
        10 => matches!(data_type, 11 | 15),
        7 => data_type == 7,
        11 => matches!(data_type, 12 | 13),
        5 => matches!(data_type, 2..=6 | 9 | 10 | 16..=28),
        _ => false,
    }
}
