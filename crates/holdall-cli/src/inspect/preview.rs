//! Values as text: in a common number format, nested in brackets, with long dimensions shortened.

use holdall::layout::Dense;
use holdall::{DType, ElementType, Result};
use std::ops::Range;

/// Tensors with at most this many elements are shown completely, if their rows are short enough.
const WHOLE: u64 = 96;
const WHOLE_ROW: u64 = 16;
/// Number of elements at each end of a long row.
const EDGE: u64 = 4;
/// Number of rows at each end of a long matrix.
const ROW_EDGE: u64 = 3;
/// Number of matrices at each end of a long list of matrices.
const OUTER_EDGE: u64 = 1;

/// The elements of a tensor that are shown.
pub(super) struct Preview {
    shape: Vec<u64>,
    whole: bool,
}

impl Preview {
    /// Chooses the elements to show for a tensor of this shape.
    pub(super) fn new(shape: &[u64]) -> Preview {
        let count = shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
        let row = shape.last().copied().unwrap_or(1);
        let whole = count.is_some_and(|n| n <= WHOLE) && row <= WHOLE_ROW;
        Preview { shape: shape.to_vec(), whole }
    }

    /// Returns `true` if all elements are shown.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Returns the indices of the shown elements, in row-major order: one or two ranges per row.
    pub(super) fn ranges(&self) -> Vec<Range<u64>> {
        let mut out = Vec::new();
        if !self.shape.contains(&0) {
            self.collect(0, 0, &mut out);
        }
        out
    }

    fn collect(&self, dimension: usize, first: u64, out: &mut Vec<Range<u64>>) {
        let Some(&len) = self.shape.get(dimension) else {
            out.push(first..first + 1);
            return;
        };
        let inner: u64 = self.shape[dimension + 1..].iter().product();
        for part in self.visible_ranges(dimension, len) {
            if dimension + 1 == self.shape.len() {
                out.push(first + part.start..first + part.end);
            } else {
                part.for_each(|at| self.collect(dimension + 1, first + at * inner, out));
            }
        }
    }

    /// Returns the parts of a dimension of length `len` that are shown: all of it, or both ends. For the outer
    /// dimensions of a tensor with many dimensions, returns the first index and an empty range, for the rest.
    fn visible_ranges(&self, dimension: usize, len: u64) -> impl Iterator<Item = Range<u64>> {
        let edge = match self.shape.len() - dimension {
            1 => EDGE,
            2 => ROW_EDGE,
            3 | 4 => OUTER_EDGE,
            _ => 0,
        };
        // Omitting a single element would not save space.
        let whole = self.whole || len <= 2 * edge + 1;
        let (first, last) = match (whole, edge) {
            (true, _) => (0..len, None),
            (false, 0) => (0..1, Some(len..len)),
            (false, _) => (0..edge, Some(len - edge..len)),
        };
        std::iter::once(first).chain(last)
    }

    /// Formats the elements of [`Preview::ranges`].
    pub(super) fn render(&self, parts: &[Dense]) -> Result<String> {
        if self.shape.contains(&0) {
            return Ok("no elements".to_owned());
        }
        let texts = texts(parts)?;
        let width = texts.iter().flatten().map(|t| t.chars().count()).max().unwrap_or(0);
        let mut parts = texts.iter();
        let mut out = String::new();
        self.write(0, width, &mut parts, &mut out);
        Ok(out)
    }

    fn write(
        &self,
        dimension: usize,
        width: usize,
        parts: &mut std::slice::Iter<'_, Vec<String>>,
        out: &mut String,
    ) {
        let Some(&len) = self.shape.get(dimension) else {
            out.push_str(parts.next().and_then(|p| p.first()).map_or("", |s| s.as_str()));
            return;
        };
        out.push('[');
        let is_row = dimension + 1 == self.shape.len();
        // Line breaks between two members: one for each of their dimensions, at most three.
        let lines = (self.shape.len() - dimension - 1).min(3);
        let between = format!("{}{}", "\n".repeat(lines), " ".repeat(dimension + 1));
        for (number, part) in self.visible_ranges(dimension, len).enumerate() {
            if number > 0 {
                out.push_str(if is_row { " " } else { &between });
                out.push('…');
                if part.is_empty() {
                    continue;
                }
                out.push_str(if is_row { " " } else { &between });
            }
            if is_row {
                let texts = parts.next().map(Vec::as_slice).unwrap_or_default();
                let padded: Vec<String> = texts.iter().map(|t| format!("{t:>width$}")).collect();
                out.push_str(&padded.join(" "));
                continue;
            }
            for at in part.clone() {
                if at > part.start {
                    out.push_str(&between);
                }
                self.write(dimension + 1, width, parts, out);
            }
        }
        out.push(']');
    }
}

/// Formats the elements of each part, all in the same number format.
pub(super) fn texts(parts: &[Dense]) -> Result<Vec<Vec<String>>> {
    let Some(first) = parts.first() else { return Ok(Vec::new()) };
    macro_rules! plain {
        ($t:ty) => {
            parts
                .iter()
                .map(|p| Ok(p.to_vec::<$t>()?.iter().map(|x| x.to_string()).collect()))
                .collect()
        };
    }
    match (first.logical_type(), first.dtype()) {
        (Some(t), _) if t.is_complex() => complex(parts),
        (Some(t), _) if t.bits().is_some() => floats(parts),
        (_, DType::F64 | DType::F32 | DType::F16 | DType::Bf16) => floats(parts),
        (_, DType::I64) => plain!(i64),
        (_, DType::I32) => plain!(i32),
        (_, DType::I16) => plain!(i16),
        (_, DType::I8) => plain!(i8),
        (_, DType::U64) => plain!(u64),
        (_, DType::U32) => plain!(u32),
        (_, DType::U16) => plain!(u16),
        (_, DType::U8) => plain!(u8),
        // `verify` reports bytes other than 0 and 1; here they are shown.
        (_, DType::Bool) => {
            let one = |b: &u8| match b {
                0 => "false".to_owned(),
                1 => "true".to_owned(),
                other => format!("{other:#04x}"),
            };
            Ok(parts.iter().map(|p| p.bytes().iter().map(one).collect()).collect())
        }
    }
}

fn floats(parts: &[Dense]) -> Result<Vec<Vec<String>>> {
    let values: Vec<Vec<f64>> = parts.iter().map(Dense::to_f64).collect::<Result<_>>()?;
    let format = NumberFormat::for_values(values.iter().flatten().copied());
    Ok(values.iter().map(|part| part.iter().map(|x| format.text(*x)).collect()).collect())
}

fn complex(parts: &[Dense]) -> Result<Vec<Vec<String>>> {
    let one = |p: &Dense| -> Result<Vec<[f64; 2]>> {
        let mut values = Vec::new();
        let element_type = ElementType::new(p.dtype(), p.logical_type().cloned());
        element_type.read_complex(p.bytes(), &mut values).map(|()| values)
    };
    let values: Vec<Vec<[f64; 2]>> = parts.iter().map(one).collect::<Result<_>>()?;
    let format = NumberFormat::for_values(values.iter().flatten().flatten().copied());
    let text = |[re, im]: &[f64; 2]| {
        let sign = if im.is_sign_negative() && !im.is_nan() { "-" } else { "+" };
        format!("{}{sign}{}j", format.text(*re), format.text(im.abs()))
    };
    Ok(values.iter().map(|part| part.iter().map(text).collect()).collect())
}

/// The number format of the floats in a preview: enough decimal places for five digits of the largest and two of the
/// smallest number, within limits, or scientific notation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NumberFormat {
    Fixed(usize),
    Scientific,
}

impl NumberFormat {
    fn for_values(values: impl Iterator<Item = f64> + Clone) -> NumberFormat {
        let finite = values.filter(|x| x.is_finite());
        let most = finite.clone().fold(0f64, |most, x| most.max(x.abs()));
        if most == 0.0 {
            return NumberFormat::Fixed(1);
        }
        if !(1e-4..1e7).contains(&most) {
            return NumberFormat::Scientific;
        }
        let least = finite.clone().filter(|x| *x != 0.0).fold(most, |least, x| least.min(x.abs()));
        let of_most = (4.0 - most.log10().floor()).clamp(1.0, 8.0);
        let of_least = (1.0 - least.log10().floor()).min(5.0);
        let decimals = of_most.max(of_least) as usize;
        // Drop zeros at the end that all values have.
        let needed = finite.map(|x| {
            let text = format!("{x:.decimals$}");
            text.trim_end_matches('0').split_once('.').map_or(0, |(_, after)| after.len())
        });
        NumberFormat::Fixed(needed.max().unwrap_or(1).max(1))
    }

    fn text(self, x: f64) -> String {
        match self {
            _ if x.is_nan() => "NaN".to_owned(),
            _ if x.is_infinite() => if x > 0.0 { "inf" } else { "-inf" }.to_owned(),
            NumberFormat::Fixed(decimals) => format!("{x:.decimals$}"),
            NumberFormat::Scientific => format!("{x:.4e}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdall::LogicalType;

    fn shown(shape: &[u64]) -> String {
        let preview = Preview::new(shape);
        let part = |r: Range<u64>| {
            let bytes: Vec<u8> = r.clone().flat_map(|x| (x as u32).to_le_bytes()).collect();
            Dense::new(DType::U32, None, [r.end - r.start], bytes)
        };
        let parts: Vec<Dense> = preview.ranges().into_iter().map(part).collect();
        preview.render(&parts).unwrap()
    }

    #[test]
    fn small_tensors_are_shown_whole() {
        assert_eq!(shown(&[]), "0");
        assert_eq!(shown(&[1]), "[0]");
        assert_eq!(shown(&[0, 7]), "no elements");
        assert_eq!(shown(&[2, 3]), "[[0 1 2]\n [3 4 5]]");
        assert_eq!(shown(&[2, 2, 1]), "[[[0]\n  [1]]\n\n [[2]\n  [3]]]");
        assert_eq!(shown(&[12]), "[ 0  1  2  3  4  5  6  7  8  9 10 11]");
    }

    #[test]
    fn large_tensors_are_shown_by_their_edges() {
        assert_eq!(shown(&[1000]), "[  0   1   2   3 … 996 997 998 999]");
        assert_eq!(
            shown(&[100, 2]),
            "[[  0   1]\n [  2   3]\n [  4   5]\n …\n [194 195]\n [196 197]\n [198 199]]"
        );
        let text = shown(&[10, 10, 10]);
        assert_eq!(text.matches('…').count(), 1 + 2 + 2 * 6);
        assert!(text.starts_with("[[[  0   1   2   3 …   6   7   8   9]\n  [ 10"), "{text}");
        assert!(text.contains("\n\n …\n\n [[900"), "{text}");
    }

    #[test]
    fn tensors_with_many_dimensions_have_few_lines() {
        let text = shown(&[2; 24]);
        assert!(text.lines().count() < 200, "{}", text.lines().count());
        assert_eq!(text.matches('[').count(), text.matches(']').count());
        assert!(shown(&[1; 64]).ends_with(&format!("0{}", "]".repeat(64))));
    }

    fn float_texts(values: &[f64]) -> Vec<String> {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let dense = Dense::new(DType::F64, None, [values.len() as u64], bytes);
        texts(&[dense]).unwrap().remove(0)
    }

    #[test]
    fn floats_of_one_preview_have_one_format() {
        assert_eq!(float_texts(&[0.5, -1.25]), ["0.50", "-1.25"]);
        assert_eq!(float_texts(&[0.0, -0.0]), ["0.0", "-0.0"]);
        assert_eq!(float_texts(&[0.089_213_44, 1e-5]), ["0.089213", "0.000010"]);
        assert_eq!(float_texts(&[1e9, 1.0]), ["1.0000e9", "1.0000e0"]);
        assert_eq!(
            float_texts(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2.0])[..3],
            ["NaN", "inf", "-inf"]
        );
        assert_eq!(float_texts(&[123_456.0]), ["123456.0"]);
    }

    #[test]
    fn other_types_are_formatted() {
        let dense = |dtype, logical, bytes: &[u8], n: u64| {
            texts(&[Dense::new(dtype, logical, [n], bytes.to_vec())]).unwrap().remove(0)
        };
        assert_eq!(dense(DType::Bool, None, &[0, 1, 2], 3), ["false", "true", "0x02"]);
        assert_eq!(dense(DType::I64, None, &[0xff; 8], 1), ["-1"]);
        assert_eq!(dense(DType::U64, None, &[0xff; 8], 1), ["18446744073709551615"]);
        let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(dense(DType::F32, Some(LogicalType::Complex64), &bytes, 1), ["1.5-2.0j"]);
        let unknown = LogicalType::from_name("new_type");
        assert_eq!(dense(DType::U8, Some(unknown), &[7], 1), ["7"]);
        assert_eq!(dense(DType::U8, Some(LogicalType::F8E4M3Fn), &[0x38, 0xff], 2), ["1.0", "NaN"]);
    }
}
