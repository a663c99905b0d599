//! One tensor: where its elements are, or what they are.

use super::{DATA, DIMS, ELEMENT_TYPE, INDICES, NUMBERS, bits, element, name_of};
use holdall_core::error::{Error, Remedy, Result, Shown as _};
use holdall_core::model::element_count;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::protobuf::{Item, Scan};
use std::ops::Range;

/// A `TensorProto`, as far as it takes to find its elements.
#[derive(Debug, Default)]
pub(super) struct Proto {
    pub(super) name: String,
    /// As they stand: those above 2^63 are negative.
    dims: Vec<u64>,
    pub(super) data_type: u64,
    /// Where it is in the file.
    place: Range<u64>,
    raw: Option<Range<u64>>,
    /// The fields of numbers that have something, and the only run of each, where it is one and packed.
    fields: Vec<(u64, Option<Range<u64>>)>,
    is_external: bool,
    pub(super) external: External,
    /// What it says that no reader can go by.
    wrong: Option<&'static str>,
}

/// Where external data is.
#[derive(Debug, Default)]
pub(super) struct External {
    pub(super) location: String,
    pub(super) offset: u64,
    pub(super) len: Option<u64>,
    /// An invalid number.
    wrong: bool,
}

/// The elements of a tensor.
pub(super) enum Data<'a> {
    /// Stored bytes of the file.
    Here(Range<u64>),
    /// Made of numbers.
    Made(Vec<u8>),
    External(&'a External),
}

/// Fields of numbers and texts: float, int32, string, int64, double, uint64.
const NUMBERS_OF: [u64; 6] = [4, 5, 6, 7, 10, 11];

impl Proto {
    /// Reads all but the elements of the tensor at `place`. `text` gets the text at a place.
    pub(super) fn read(
        window: &Window,
        place: Range<u64>,
        most: usize,
        text: &impl Fn(Range<u64>) -> Result<String, Stop>,
    ) -> Result<Proto, Stop> {
        let mut out = Proto { place: place.clone(), ..Proto::default() };
        let mut scan = Scan::new(window, place);
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
                        out.wrong = Some("it has bytes twice");
                    }
                }
                (13, Item::Bytes(run)) => out.external.read(window, run, text)?,
                (14, Item::Varint(n)) => out.is_external = n == 1,
                (field, item) if NUMBERS_OF.contains(&field) => {
                    let (known, run) = match item {
                        // What is empty says nothing.
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
                    out.wrong = Some("a field has a value of another type");
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
        // One more than may be is found to be too many.
        if self.dims.len() <= most {
            self.dims.push(n);
        }
    }

    /// Its shape.
    ///
    /// # Errors
    /// [`DIMS`].
    pub(super) fn shape(&self) -> Result<&[u64]> {
        match self.dims.iter().find(|n| i64::try_from(**n).is_err()) {
            Some(n) => Err(DIMS.broken(format!("a dimension is {}", n.cast_signed()))),
            None => Ok(&self.dims),
        }
    }

    /// Bytes that its elements take.
    ///
    /// # Errors
    /// [`ELEMENT_TYPE`], [`DIMS`], [`DATA`].
    pub(super) fn len(&self) -> Result<u64> {
        if element(self.data_type).is_none() {
            let of = name_of(self.data_type);
            return Err(ELEMENT_TYPE.broken(format!("its elements are of ONNX's {of}")));
        }
        let bits = bits(self.data_type);
        let len = element_count(self.shape()?).and_then(|n| n.checked_mul(bits));
        len.map(|bits| bits.div_ceil(8))
            .ok_or_else(|| DATA.broken(format!("shape {:?} passes 2^64 bits", self.dims)))
    }

    /// Where its elements are; those that are numbers take bytes of `budget`.
    ///
    /// # Errors
    /// [`ELEMENT_TYPE`], [`DIMS`], [`DATA`], [`NUMBERS`]; what the window needs.
    pub(super) fn data(&self, window: &Window, budget: &mut u64) -> Result<Data<'_>, Stop> {
        let len = self.len()?;
        let broken =
            |what: &str| -> Stop { DATA.broken(what.to_owned()).at(self.place.clone()).into() };
        if let Some(what) = self.wrong {
            return Err(broken(what));
        }
        let raw = self.raw.as_ref().filter(|run| !run.is_empty());
        if self.is_external {
            if raw.is_some() || !self.fields.is_empty() {
                return Err(broken("it has elements in the file and in another"));
            }
            return match self.external.wrong {
                true => Err(broken("the place of its external data is not a number")),
                false => Ok(Data::External(&self.external)),
            };
        }
        let data = match (raw, self.fields.as_slice()) {
            (Some(run), []) => Data::Here(run.clone()),
            (None, []) => Data::Here(self.place.start..self.place.start),
            (None, [(field, only)]) => {
                if !fits(*field, self.data_type) {
                    let of = name_of(self.data_type);
                    return Err(broken(&format!("its elements are of {of}, and in field {field}")));
                }
                match only {
                    // Packed floats are elements as they lie.
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
            let message = format!("shape {:?} takes {len} bytes, it has {found}", self.dims);
            return Err(broken(&message));
        }
        Ok(data)
    }

    /// The elements that are in a field of numbers, of which there should be `len` bytes.
    fn numbers(
        &self,
        field: u64,
        len: u64,
        window: &Window,
        budget: &mut u64,
    ) -> Result<Vec<u8>, Stop> {
        // An element of a byte takes one at least, and becomes eight at most.
        let there = self.place.end.saturating_sub(self.place.start);
        if len > there.saturating_mul(8) {
            let message = format!("{there} bytes cannot have elements of {len} bytes");
            return Err(DATA.broken(message).at(self.place.clone()).into());
        }
        *budget =
            budget.checked_sub(len).ok_or_else(|| over(len, "elements").at(self.place.clone()))?;
        // Of elements of 6 bits each number is one.
        let of_6 = matches!(self.data_type, 27 | 28);
        let count = element_count(&self.dims).filter(|_| of_6);
        let len = count.unwrap_or(len);
        let mut out = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        let most = usize::try_from(len).unwrap_or(usize::MAX);
        let put = |n: u64, out: &mut Vec<u8>| {
            let width = self.number_width(field);
            let n = if self.data_type == 9 { u64::from(n != 0) } else { n };
            if out.len() < most.saturating_add(8) {
                out.extend(n.to_le_bytes().into_iter().take(width));
            }
        };
        let mut scan = Scan::new(window, self.place.clone());
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

    /// Bytes that each number of a field becomes.
    fn number_width(&self, field: u64) -> usize {
        match field {
            4 => 4,
            10 => 8,
            // Below 8 bits each number is a byte of several elements.
            _ => usize::try_from(bits(self.data_type).div_ceil(8)).unwrap_or(8),
        }
    }

    /// The values of a tensor of 64-bit integers, of which there may be `most`.
    ///
    /// # Errors
    /// [`INDICES`]; as [`Proto::data`].
    pub(super) fn integers(&self, window: &Window, budget: &mut u64) -> Result<Vec<i64>, Stop> {
        if self.data_type != 7 {
            let of = name_of(self.data_type);
            return Err(INDICES.broken(format!("they are {of}")).at(self.place.clone()).into());
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
                    .broken("they are in another file")
                    .at(self.place.clone())
                    .into());
            }
        };
        let (all, _) = bytes.as_chunks::<8>();
        Ok(all.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
    }
}

impl External {
    /// One key and its value.
    fn read(
        &mut self,
        window: &Window,
        place: Range<u64>,
        text: &impl Fn(Range<u64>) -> Result<String, Stop>,
    ) -> Result<(), Stop> {
        let (mut key, mut value) = (String::new(), String::new());
        let mut scan = Scan::new(window, place);
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

    /// Whether the file is one in the model's folder or below.
    pub(super) fn is_inside(&self) -> bool {
        let name = &self.location;
        !name.is_empty()
            && !name.starts_with('/')
            && !name.contains(['\\', ':', '\0'])
            && name.split('/').all(|part| !matches!(part, "" | ".."))
    }

    pub(super) fn shown(&self) -> String {
        self.location.as_str().shown().to_string()
    }
}

/// That what is taken out of fields passes its limit.
pub(super) fn over(len: u64, what: &str) -> Error {
    let raise = Remedy::RaiseLimit { limit: "header_len", at_least: None };
    let message = format!("{len} bytes of {what} are more than is left of the limit");
    NUMBERS.broken(message).with_remedy(raise)
}

/// Elements of 6 bits, one in each byte, packed: four in three bytes, the first in the lowest bits.
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

/// Whether elements of a type may be in a field of numbers.
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
