//! Comparing elements.

use super::{DifferingElement, Squares, Tolerance, ValueDiff, sum_of_squares};
use crate::error::{Error, Result};
use crate::layout::number::{ElementType, Number, NumberClass};

/// The number of elements that are decoded at once: a multiple of 4, so that packed ones fill whole bytes.
const BLOCK: u64 = 4096;

/// How two runs of elements are compared.
#[derive(Debug, Clone, Copy)]
pub struct Comparator<'a> {
    /// The first side.
    pub a: Side<'a>,
    /// The second side.
    pub b: Side<'a>,
    /// The tolerance. Without one, elements of the same type agree if their bits are equal.
    pub tolerance: Option<Tolerance>,
    /// The handling of blocks whose bytes are equal.
    pub equal: EqualBlocks,
}

/// The handling of blocks of elements whose bytes are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EqualBlocks {
    /// Counts them in [`Tally::skipped`]. Most files that are compared are the same, and then their sums are not needed.
    Skip,
    /// Adds the squares of their elements.
    Sum,
}

/// The elements of one side: their type, and their location for errors.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The name of the file.
    pub source: &'a str,
    /// The name of the tensor.
    pub tensor: &'a str,
    /// The type of the elements.
    pub element_type: &'a ElementType,
}

impl Side<'_> {
    #[cold]
    fn in_context(&self, e: Error) -> Error {
        e.in_tensor(self.tensor).in_source(self.source)
    }
}

/// The result of a comparison so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// The number of elements that were compared.
    pub count: u64,
    /// The number of elements in equal blocks, which `squares` does not include.
    pub skipped: u64,
    /// Sums over all other elements.
    pub squares: Squares,
    /// Whether the elements are of an unknown type, so that there are no sums.
    is_unknown: bool,
    unequal: u64,
    differing: u64,
    non_finite: u64,
    max_abs: f64,
    max_rel: f64,
    /// The row-major index of the first differing element, and its values.
    first: Option<(u64, Number, Number)>,
}

impl Tally {
    /// Adds the result of comparing other elements of the same tensor, but not their sums: those depend on the order in
    /// which they are added.
    pub fn add(&mut self, other: Tally) {
        self.count += other.count;
        self.skipped += other.skipped;
        self.is_unknown |= other.is_unknown;
        self.unequal += other.unequal;
        self.differing += other.differing;
        self.non_finite += other.non_finite;
        self.max_abs = self.max_abs.max(other.max_abs);
        self.max_rel = self.max_rel.max(other.max_rel);
        let at = |first: &Option<(u64, Number, Number)>| first.map_or(u64::MAX, |(at, ..)| at);
        if at(&other.first) < at(&self.first) {
            self.first = other.first;
        }
    }

    /// Returns the sums, or `None` if the elements are of an unknown type.
    pub fn sums(&self) -> Option<Squares> {
        (!self.is_unknown).then_some(self.squares)
    }

    /// Returns the result. `index` converts a row-major index to one per dimension.
    pub fn report(self, index: impl FnOnce(u64) -> Vec<u64>) -> ValueDiff {
        let sums = self.sums();
        let mut out = ValueDiff {
            count: self.count,
            unequal: self.unequal,
            differing: self.differing,
            max_abs: self.max_abs,
            max_rel: self.max_rel,
            non_finite: self.non_finite,
            rms: None,
            relative: None,
            cosine: None,
            first: self.first.map(|(at, a, b)| DifferingElement { index: index(at), a, b }),
        };
        out.set_squares(sums.as_ref());
        out
    }

    /// Returns the result, if any elements are not equal.
    pub fn finish(self, index: impl FnOnce(u64) -> Vec<u64>) -> Option<ValueDiff> {
        (self.unequal > 0).then(|| self.report(index))
    }
}

/// Memory that is reused between calls.
#[derive(Debug, Default)]
pub struct Scratch {
    real: (Vec<f64>, Vec<f64>),
    wide: (Vec<i128>, Vec<i128>),
    complex: (Vec<[f64; 2]>, Vec<[f64; 2]>),
}

/// Two elements and their difference.
struct Both {
    /// Whether the elements are the same number, or both NaN.
    equal: bool,
    /// Whether `equal` implies equal bits, for elements of the same type.
    plain: bool,
    /// `|a - b|`, or NaN if one of them is NaN.
    abs: f64,
    /// `|b|`.
    magnitude: f64,
    /// `|a|` squared.
    source: f64,
    /// The product of both, or its real part.
    product: f64,
}

/// The functions that compare elements of one class.
struct CompareFns<T> {
    both: fn(&T, &T) -> Both,
    number: fn(&ElementType, &T) -> Number,
}

static WIDE: CompareFns<i128> = CompareFns {
    both: |&p, &q| Both {
        equal: p == q,
        plain: true,
        abs: p.abs_diff(q) as f64,
        magnitude: q.unsigned_abs() as f64,
        source: p as f64 * p as f64,
        product: p as f64 * q as f64,
    },
    number: |_, &p| Number::Integer(p),
};

static COMPLEX: CompareFns<[f64; 2]> = CompareFns {
    both: |p, q| {
        let is_nan = |z: &[f64; 2]| z[0].is_nan() || z[1].is_nan();
        Both {
            equal: p == q || (is_nan(p) && is_nan(q)),
            plain: false,
            abs: (p[0] - q[0]).hypot(p[1] - q[1]),
            magnitude: q[0].hypot(q[1]),
            source: p[0] * p[0] + p[1] * p[1],
            product: p[0] * q[0] + p[1] * q[1],
        }
    },
    number: |_, p| Number::Complex(p[0], p[1]),
};

static REAL: CompareFns<f64> = CompareFns {
    both: |&p, &q| Both {
        equal: p == q || (p.is_nan() && q.is_nan()),
        // Only zeros and NaN have several bit patterns.
        plain: p == q && p != 0.0,
        abs: (p - q).abs(),
        magnitude: q.abs(),
        source: p * p,
        product: p * q,
    },
    number: |magnitude, &p| {
        if magnitude.is_integer() { Number::Integer(p as i128) } else { Number::Float(p) }
    },
};

impl Comparator<'_> {
    /// Compares `count` elements, given by their bytes. The first one has the row-major index `start`.
    ///
    /// # Errors
    /// Returns an error if elements differ and one is a `bool` byte greater than 1.
    pub fn elements(
        &self,
        start: u64,
        count: u64,
        a: &[u8],
        b: &[u8],
        tally: &mut Tally,
        scratch: &mut Scratch,
    ) -> Result<()> {
        tally.count += count;
        tally.is_unknown |= !self.a.element_type.is_known();
        let same_type = self.a.element_type == self.b.element_type;
        if same_type && self.equal == EqualBlocks::Skip && a == b {
            tally.skipped += count;
            return Ok(());
        }
        for from in (0..count).step_by(BLOCK as usize) {
            let to = count.min(from + BLOCK);
            let cut = |bytes, element_type: &ElementType| -> &[u8] {
                part(bytes, element_type, from, to)
            };
            let (a, b) = (cut(a, self.a.element_type), cut(b, self.b.element_type));
            if !(same_type && a == b) {
                self.block(start + from, a, b, tally, scratch)?;
            } else if self.equal == EqualBlocks::Skip {
                tally.skipped += to - from;
            } else {
                tally.squares.add(&Squares::of_equal(sum_of_squares(self.a.element_type, a)?));
            }
        }
        Ok(())
    }

    fn block(
        &self,
        start: u64,
        a: &[u8],
        b: &[u8],
        tally: &mut Tally,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (x, y) = (&self.a.element_type.as_stored(), &self.b.element_type.as_stored());
        let (class_a, class_b) = (x.class(), y.class());
        let wide = class_a == NumberClass::Wide || class_b == NumberClass::Wide;
        let at = StoredElements { start, a, b };
        if x.is_integer() && y.is_integer() && wide {
            let (p, q) = &mut scratch.wide;
            x.read_i128(a, p).map_err(|e| self.a.in_context(e))?;
            y.read_i128(b, q).map_err(|e| self.b.in_context(e))?;
            self.all(at, p, q, tally, &WIDE);
        } else if class_a == NumberClass::Complex || class_b == NumberClass::Complex {
            let (p, q) = &mut scratch.complex;
            x.read_complex(a, p).map_err(|e| self.a.in_context(e))?;
            y.read_complex(b, q).map_err(|e| self.b.in_context(e))?;
            self.all(at, p, q, tally, &COMPLEX);
        } else {
            let (p, q) = &mut scratch.real;
            x.read_f64(a, p).map_err(|e| self.a.in_context(e))?;
            y.read_f64(b, q).map_err(|e| self.b.in_context(e))?;
            self.all(at, p, q, tally, &REAL);
        }
        Ok(())
    }

    /// Compares elements one by one.
    #[inline(always)]
    fn all<T>(
        &self,
        at: StoredElements<'_>,
        p: &[T],
        q: &[T],
        tally: &mut Tally,
        how: &CompareFns<T>,
    ) {
        let width = (self.a.element_type.bits() / 8) as usize;
        let same_type = self.a.element_type == self.b.element_type;
        // Codes of an unknown type have no tolerance.
        let tolerance = self.tolerance.filter(|_| self.a.element_type.is_known());
        let mut squares = Squares::default();
        for (i, (p, q)) in p.iter().zip(q).enumerate() {
            let both = (how.both)(p, q);
            // An infinity minus itself is NaN.
            let is_finite = both.abs.is_finite();
            if is_finite {
                squares.source += both.source;
                squares.other += both.magnitude * both.magnitude;
                squares.product += both.product;
                squares.difference += both.abs * both.abs;
            }
            let bits = || match width {
                // Types of less than 8 bits have no NaN, and their zeros differ only in the sign.
                0 => {
                    let negative =
                        |x| (how.number)(self.a.element_type, x).to_f64().is_sign_negative();
                    negative(p) == negative(q)
                }
                _ => at.a[i * width..][..width] == at.b[i * width..][..width],
            };
            if both.equal && (!same_type || both.plain || bits()) {
                continue;
            }
            tally.unequal += 1;
            tally.non_finite += u64::from(!is_finite);
            if both.abs > tally.max_abs {
                tally.max_abs = both.abs;
            }
            let rel = both.abs / both.magnitude;
            if rel > tally.max_rel && both.magnitude > 0.0 {
                tally.max_rel = rel;
            }
            if !tolerance.is_some_and(|t| t.holds(&both)) {
                tally.differing += 1;
                if tally.first.is_none() {
                    let number = how.number;
                    let (a, b) = (number(self.a.element_type, p), number(self.b.element_type, q));
                    tally.first = Some((at.start + i as u64, a, b));
                }
            }
        }
        tally.squares.add(&squares);
    }
}

/// Stored elements, and the row-major index of the first.
struct StoredElements<'a> {
    start: u64,
    a: &'a [u8],
    b: &'a [u8],
}

impl Tolerance {
    fn holds(&self, both: &Both) -> bool {
        // An infinity only agrees with the same infinity. A difference with NaN is NaN.
        both.equal
            || (both.abs.is_finite()
                && both.magnitude.is_finite()
                && both.abs <= self.atol + self.rtol * both.magnitude)
    }
}

/// Returns the bytes of the elements `from..to` in `bytes`.
fn part<'b>(bytes: &'b [u8], element_type: &ElementType, from: u64, to: u64) -> &'b [u8] {
    let end = bytes.len();
    let (from, to) = (element_type.len_of(from) as usize, element_type.len_of(to) as usize);
    &bytes[from.min(end)..to.min(end)]
}

/// Converts a row-major index in a tensor of `shape` to one index per dimension.
pub fn unravel(shape: &[u64], mut index: u64) -> Vec<u64> {
    let mut out = vec![0; shape.len()];
    for (place, &size) in out.iter_mut().zip(shape).rev() {
        if let (Some(rest), Some(whole)) = (index.checked_rem(size), index.checked_div(size)) {
            (*place, index) = (rest, whole);
        }
    }
    out
}

/// Returns `true` if elements of these types can be compared one by one. Elements of an unknown type can only be
/// compared with elements of the same type.
pub fn is_comparable(a: &ElementType, b: &ElementType) -> bool {
    a == b || (a.is_known() && b.is_known())
}
