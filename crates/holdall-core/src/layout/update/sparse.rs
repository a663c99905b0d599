//! Sparse updates: indices of changed elements, and their new values.

use super::{ENCODING, PAIR, POSITION, SPARSE_HEAD};
use crate::error::{Escape as _, Result};
use crate::layout::LENGTH as BUFFER;
use crate::model::{Attributes, DType, Value};
use bytes::Bytes;
use holdall_json::Reader;

/// The text of the metadata's key `format`.
const FORMAT: &str = "sparse_weight_patch";

/// How the indices of a sparse update are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SparseLayout {
    /// `NAME.indices` (I32) and `NAME.values`; the metadata has the list `changed_params`.
    V1,
    /// `NAME.idx` (I32) and `NAME.val`; the metadata has `encoding` raw.
    V2Raw,
    /// `NAME.idx` (U16 or U32), the number of unchanged elements before each changed one, and `NAME.val`; `encoding` is gap_delta.
    V2Gap,
}

impl SparseLayout {
    /// Returns the ends of the names of indices and of values.
    pub fn suffixes(self) -> [&'static str; 2] {
        match self {
            SparseLayout::V1 => [".indices", ".values"],
            SparseLayout::V2Raw | SparseLayout::V2Gap => [".idx", ".val"],
        }
    }

    /// Returns the text of `encoding` in the metadata, if the layout has one.
    pub fn encoding(self) -> Option<&'static str> {
        match self {
            SparseLayout::V1 => None,
            SparseLayout::V2Raw => Some("raw"),
            SparseLayout::V2Gap => Some("gap_delta"),
        }
    }
}

/// The metadata of a file of a sparse update.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseHead {
    /// Whether the file has differences; otherwise it is a whole model.
    pub is_sparse: bool,
    /// How indices are stored.
    pub layout: SparseLayout,
    /// The number of the step.
    pub model_version: u64,
    /// The number of changed tensors.
    pub tensors: u64,
    /// The number of changed elements.
    pub changed: u64,
    /// The number of elements of the changed tensors.
    pub total: u64,
    /// The names of the changed tensors, if the layout lists them.
    pub names: Option<Vec<String>>,
}

impl SparseHead {
    /// Reads the metadata of a file. Returns `None` if the file is not one of a sparse update.
    ///
    /// # Errors
    /// Returns [`SPARSE_HEAD`] if the metadata is incomplete, and [`ENCODING`] if the indices have an unknown encoding.
    pub fn read(attributes: &Attributes) -> Result<Option<SparseHead>> {
        let get = |key: &str| attributes.get(key).and_then(Value::as_text);
        if get("format") != Some(FORMAT) {
            return Ok(None);
        }
        let broken = |key: &str| {
            let found =
                get(key).map_or("missing".to_owned(), |text| format!("`{}`", text.escaped()));
            SPARSE_HEAD.broken(format!("`{key}` is {found}"))
        };
        let number = |key: &str| {
            let text = get(key).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            text.and_then(|text| text.parse::<u64>().ok()).ok_or_else(|| broken(key))
        };
        if get("version") != Some("1") {
            return Err(broken("version"));
        }
        let is_sparse = match get("sparse") {
            Some("True") => true,
            Some("False") => false,
            _ => return Err(broken("sparse")),
        };
        let layout = match get("encoding") {
            None => SparseLayout::V1,
            Some("raw") => SparseLayout::V2Raw,
            Some("gap_delta") => SparseLayout::V2Gap,
            // Whole models have no indices.
            Some(_) if !is_sparse => SparseLayout::V2Raw,
            Some("nvcomp_cascaded") => {
                let message = "the indices are compressed by nvCOMP, whose format is not public";
                let e = ENCODING.broken(message);
                return Err(e.with_hint("write the update with the encoding gap_delta"));
            }
            Some(other) => {
                return Err(ENCODING.broken(format!("the index encoding is `{}`", other.escaped())));
            }
        };
        let names = match get("changed_params") {
            Some(text) => Some(list(text).map_err(|e| e.with_rule(&SPARSE_HEAD))?),
            None if layout == SparseLayout::V1 => return Err(broken("changed_params")),
            None => None,
        };
        Ok(Some(SparseHead {
            is_sparse,
            layout,
            model_version: number("model_version")?,
            tensors: number("num_changed_params")?,
            changed: number("total_changed_elements")?,
            total: number("total_elements")?,
            names,
        }))
    }

    /// Returns the metadata.
    pub fn attributes(&self) -> Attributes {
        let mut out = Attributes::new();
        let mut set = |key: &str, text: String| out.set(key, Value::Text(text));
        set("format", FORMAT.to_owned());
        set("version", "1".to_owned());
        set("sparse", if self.is_sparse { "True" } else { "False" }.to_owned());
        set("model_version", self.model_version.to_string());
        set("num_changed_params", self.tensors.to_string());
        set("total_changed_elements", self.changed.to_string());
        set("total_elements", self.total.to_string());
        let share = self.changed as f64 / self.total.max(1) as f64;
        // A whole number has a decimal point in Python too.
        set("sparsity", format!("{:?}", 1. - share));
        if let Some(encoding) = self.layout.encoding() {
            set("encoding", encoding.to_owned());
        }
        if let Some(names) = &self.names {
            let mut text = String::from("[");
            for (at, name) in names.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                holdall_json::write_string(name, &mut text);
            }
            text.push(']');
            set("changed_params", text);
        }
        out
    }
}

fn list(text: &str) -> Result<Vec<String>> {
    let mut reader = Reader::new(text.as_bytes(), 0, 4)?;
    let (mut out, mut scratch) = (Vec::new(), String::new());
    reader.begin_array()?;
    while reader.next_item()? {
        out.push(reader.string(&mut scratch)?.to_owned());
    }
    reader.end()?;
    Ok(out)
}

/// The changed elements of a tensor. Their positions ascend.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseDiff {
    positions: Vec<u64>,
    values: Bytes,
    width: usize,
}

impl SparseDiff {
    /// Decodes the changed elements of a tensor of `count` elements of `width` bytes each. `dtype` is that of the indices.
    ///
    /// # Errors
    /// Returns [`PAIR`] if the indices have another type or number than their layout says, and [`POSITION`] if one is outside the
    /// tensor or out of order.
    pub fn decode(
        layout: SparseLayout,
        dtype: DType,
        indices: &[u8],
        values: Bytes,
        count: u64,
        width: u64,
    ) -> Result<SparseDiff> {
        let words: Vec<u64> = match (layout, dtype) {
            (SparseLayout::V1 | SparseLayout::V2Raw, DType::I32) => {
                let (words, _) = indices.as_chunks();
                let position = |word: &[u8; 4]| {
                    let at = i32::from_le_bytes(*word);
                    u64::try_from(at).map_err(|_| POSITION.broken(format!("the index {at}")))
                };
                words.iter().map(position).collect::<Result<_>>()?
            }
            (SparseLayout::V2Gap, DType::U16) => {
                let (words, _) = indices.as_chunks();
                words.iter().map(|word| u64::from(u16::from_le_bytes(*word))).collect()
            }
            (SparseLayout::V2Gap, DType::U32) => {
                let (words, _) = indices.as_chunks();
                words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).collect()
            }
            (_, other) => {
                let expected = match layout {
                    SparseLayout::V2Gap => "u16 or u32",
                    _ => "i32",
                };
                return Err(PAIR.broken(format!("the indices are {other}, not {expected}")));
            }
        };
        let found = words.len() as u64;
        let expected = found.saturating_mul(width);
        if values.len() as u64 != expected {
            let message =
                format!("{found} indices have values of {expected} bytes, found {}", values.len());
            return Err(PAIR.broken(message));
        }
        let positions = positions(layout, words, count)?;
        Ok(SparseDiff { positions, values, width: usize::try_from(width).unwrap_or(usize::MAX) })
    }

    /// Returns the changed elements, of `width` bytes each, of a tensor, or `None` if the lengths differ.
    pub fn between(old: &[u8], new: &[u8], width: u64) -> Option<SparseDiff> {
        let width = usize::try_from(width).ok().filter(|width| *width > 0)?;
        if old.len() != new.len() {
            return None;
        }
        let (mut positions, mut values) = (Vec::new(), Vec::new());
        let pairs = old.chunks(width).zip(new.chunks(width)).enumerate();
        for (at, (_, b)) in pairs.filter(|(_, (a, b))| a != b) {
            positions.push(at as u64);
            values.extend_from_slice(b);
        }
        Some(SparseDiff { positions, values: values.into(), width })
    }

    /// Returns the number of elements that are listed.
    pub fn changed(&self) -> u64 {
        self.positions.len() as u64
    }

    /// Returns the new values of the listed elements.
    pub fn values(&self) -> &Bytes {
        &self.values
    }

    /// Returns the type of the indices and their bytes, or `None` if one does not fit the layout.
    pub fn indices(&self, layout: SparseLayout) -> Option<(DType, Vec<u8>)> {
        if layout != SparseLayout::V2Gap {
            let mut out = Vec::with_capacity(self.positions.len().saturating_mul(4));
            for at in &self.positions {
                out.extend_from_slice(&i32::try_from(*at).ok()?.to_le_bytes());
            }
            return Some((DType::I32, out));
        }
        let mut next = 0u64;
        let gaps: Vec<u64> = self
            .positions
            .iter()
            .map(|at| at.saturating_sub(std::mem::replace(&mut next, at.saturating_add(1))))
            .collect();
        if let Ok(short) = gaps.iter().map(|gap| u16::try_from(*gap)).collect::<Result<Vec<_>, _>>()
        {
            return Some((DType::U16, short.iter().flat_map(|gap| gap.to_le_bytes()).collect()));
        }
        let long: Vec<u32> =
            gaps.iter().map(|gap| u32::try_from(*gap).ok()).collect::<Option<_>>()?;
        Some((DType::U32, long.iter().flat_map(|gap| gap.to_le_bytes()).collect()))
    }

    /// Changes the listed elements.
    ///
    /// # Errors
    /// Returns the rule `layout/length` if a listed element is not in `elements`.
    pub fn apply(&self, elements: &mut [u8]) -> Result<()> {
        for (at, value) in self.positions.iter().zip(self.values.chunks(self.width.max(1))) {
            let start = usize::try_from(*at).unwrap_or(usize::MAX).saturating_mul(self.width);
            let end = start.saturating_add(self.width);
            match elements.get_mut(start..end) {
                Some(element) if element.len() == value.len() => element.copy_from_slice(value),
                _ => return Err(BUFFER.broken(format!("element {at} is not in the tensor"))),
            }
        }
        Ok(())
    }
}

/// Returns the positions that the indices name, after checking them.
fn positions(layout: SparseLayout, words: Vec<u64>, count: u64) -> Result<Vec<u64>> {
    let mut next = 0u64;
    let mut out = words;
    for word in &mut out {
        let at = match layout {
            SparseLayout::V2Gap => next.saturating_add(*word),
            SparseLayout::V1 | SparseLayout::V2Raw => *word,
        };
        if at >= count {
            return Err(POSITION.broken(format!("element {at} of a tensor of {count} elements")));
        }
        if at < next {
            return Err(POSITION.broken(format!("element {at} is out of order, or there twice")));
        }
        next = at.saturating_add(1);
        *word = at;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(layout: SparseLayout, dtype: DType, indices: &[u8]) -> Result<SparseDiff> {
        let count = indices.len() / dtype.width() as usize;
        SparseDiff::decode(layout, dtype, indices, vec![7; 2 * count].into(), 100_000, 2)
    }

    #[test]
    fn updates_come_back() {
        let old = vec![0u8; 200_000];
        let mut new = old.clone();
        for (at, layout, dtype) in [
            (3, SparseLayout::V1, DType::I32),
            (70, SparseLayout::V2Raw, DType::I32),
            (4, SparseLayout::V2Gap, DType::U16),
            (199_999, SparseLayout::V2Gap, DType::U32),
        ] {
            new[at] = 9;
            let diff = SparseDiff::between(&old, &new, 2).unwrap();
            let (found, indices) = diff.indices(layout).unwrap();
            assert_eq!(found, dtype);
            let back =
                SparseDiff::decode(layout, dtype, &indices, diff.values().clone(), 100_000, 2);
            assert_eq!(back.unwrap(), diff);
            let mut made = old.clone();
            diff.apply(&mut made).unwrap();
            assert!(made == new);
            assert!(diff.apply(&mut made[..2]).is_err());
        }
    }

    #[test]
    fn broken_updates_are_refused() {
        use SparseLayout::{V1, V2Gap, V2Raw};
        let i32s = |all: &[i32]| all.iter().flat_map(|at| at.to_le_bytes()).collect::<Vec<u8>>();
        let u16s = |all: &[u16]| all.iter().flat_map(|at| at.to_le_bytes()).collect::<Vec<u8>>();
        assert!(decode(V1, DType::I32, &i32s(&[0, 99_999])).is_ok());
        for (layout, dtype, indices, code) in [
            (V1, DType::I32, i32s(&[0, 100_000]), "delta/position"),
            (V2Raw, DType::I32, i32s(&[5, 5]), "delta/position"),
            (V2Raw, DType::I32, i32s(&[5, 4]), "delta/position"),
            (V1, DType::I32, i32s(&[-1]), "delta/position"),
            (V2Gap, DType::U16, u16s(&[65_535, 65_535]), "delta/position"),
            (V2Gap, DType::I32, i32s(&[1]), "delta/pair"),
            (V2Raw, DType::U16, u16s(&[1]), "delta/pair"),
        ] {
            assert_eq!(decode(layout, dtype, &indices).unwrap_err().code(), code);
        }
        let short = SparseDiff::decode(V1, DType::I32, &i32s(&[1, 2]), vec![0; 3].into(), 9, 2);
        assert_eq!(short.unwrap_err().code(), "delta/pair");
    }

    #[test]
    fn metadata_comes_back() {
        for (layout, names) in [
            (SparseLayout::V1, Some(vec!["a\"b".to_owned(), "c".to_owned()])),
            (SparseLayout::V2Raw, None),
            (SparseLayout::V2Gap, None),
        ] {
            let (model_version, tensors, changed, total) = (3, 2, 5, 40);
            let is_sparse = true;
            let head =
                SparseHead { is_sparse, layout, model_version, tensors, changed, total, names };
            let attributes = head.attributes();
            assert_eq!(attributes.get("sparsity").unwrap().as_text(), Some("0.875"));
            assert_eq!(SparseHead::read(&attributes).unwrap(), Some(head));
            for (key, text, code) in [
                ("version", "2", "delta/sparse-metadata"),
                ("sparse", "true", "delta/sparse-metadata"),
                ("model_version", "-3", "delta/sparse-metadata"),
                ("num_changed_params", "", "delta/sparse-metadata"),
                ("changed_params", "[1]", "delta/sparse-metadata"),
                ("encoding", "rle", "delta/encoding"),
                ("encoding", "nvcomp_cascaded", "delta/encoding"),
            ] {
                let mut other = attributes.clone();
                other.set(key, Value::Text(text.into()));
                assert_eq!(SparseHead::read(&other).unwrap_err().code(), code, "{key}");
            }
            let mut other = attributes.clone();
            other.set("format", Value::Text("pt".into()));
            assert_eq!(SparseHead::read(&other).unwrap(), None);
        }
    }
}
