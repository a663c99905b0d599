//! Comparing elements.

use super::{DifferingElement, Tolerance, ValueDiff};
use crate::error::{Error, Result};
use crate::layout::number::{ElementType, Number, NumberClass};

/// Elements that are decoded at a time: a multiple of 4, so that packed ones fill whole bytes.
const BLOCK: u64 = 4096;

/// How two runs of elements are compared.
#[derive(Debug, Clone, Copy)]
pub struct Comparator<'a> {
    /// The one side.
    pub a: Side<'a>,
    /// The other.
    pub b: Side<'a>,
    /// Without one, elements of one type agree when they are the same bits.
    pub tolerance: Option<Tolerance>,
}

/// What is compared, for errors, and what its elements are.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The name of the file.
    pub source: &'a str,
    /// The name of the tensor.
    pub tensor: &'a str,
    /// What its elements are.
    pub of: &'a ElementType,
}

impl Side<'_> {
    #[cold]
    fn in_context(&self, e: Error) -> Error {
        e.in_tensor(self.tensor).in_source(self.source)
    }
}

/// What was found so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Elements that were compared.
    pub count: u64,
    unequal: u64,
    differing: u64,
    max_abs: f64,
    max_rel: f64,
    /// Its number in row-major order.
    first: Option<(u64, Number, Number)>,
}

impl Tally {
    /// Takes what was found of other elements of the same.
    pub fn add(&mut self, other: Tally) {
        self.count += other.count;
        self.unequal += other.unequal;
        self.differing += other.differing;
        self.max_abs = self.max_abs.max(other.max_abs);
        self.max_rel = self.max_rel.max(other.max_rel);
        let at = |first: &Option<(u64, Number, Number)>| first.map_or(u64::MAX, |(at, ..)| at);
        if at(&other.first) < at(&self.first) {
            self.first = other.first;
        }
    }

    /// What was found. `index` tells the place of an element.
    pub fn report(self, index: impl FnOnce(u64) -> Vec<u64>) -> ValueDiff {
        ValueDiff {
            count: self.count,
            unequal: self.unequal,
            differing: self.differing,
            max_abs: self.max_abs,
            max_rel: self.max_rel,
            first: self.first.map(|(at, a, b)| DifferingElement { index: index(at), a, b }),
        }
    }

    /// The same, if anything is unequal.
    pub fn finish(self, index: impl FnOnce(u64) -> Vec<u64>) -> Option<ValueDiff> {
        (self.unequal > 0).then(|| self.report(index))
    }
}

/// Memory kept between calls.
#[derive(Debug, Default)]
pub struct Scratch {
    real: (Vec<f64>, Vec<f64>),
    wide: (Vec<i128>, Vec<i128>),
    complex: (Vec<[f64; 2]>, Vec<[f64; 2]>),
}

/// Two elements side by side.
struct Both {
    /// Whether they are the same number, or both NaN.
    equal: bool,
    /// Whether the same bits follow from that, in elements of one type.
    plain: bool,
    /// `|a - b|`: NaN where one of them is.
    abs: f64,
    /// `|b|`.
    of: f64,
}

/// How elements of one class are compared.
struct CompareFns<T> {
    both: fn(&T, &T) -> Both,
    number: fn(&ElementType, &T) -> Number,
}

static WIDE: CompareFns<i128> = CompareFns {
    both: |&p, &q| Both {
        equal: p == q,
        plain: true,
        abs: p.abs_diff(q) as f64,
        of: q.unsigned_abs() as f64,
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
            of: q[0].hypot(q[1]),
        }
    },
    number: |_, p| Number::Complex(p[0], p[1]),
};

static REAL: CompareFns<f64> = CompareFns {
    both: |&p, &q| Both {
        equal: p == q || (p.is_nan() && q.is_nan()),
        // Only zeros and NaN have more than one form.
        plain: p == q && p != 0.0,
        abs: (p - q).abs(),
        of: q.abs(),
    },
    number: |of, &p| if of.is_integer() { Number::Integer(p as i128) } else { Number::Float(p) },
};

impl Comparator<'_> {
    /// Compares `count` elements, of which the first has the number `start`, with their bytes.
    ///
    /// # Errors
    /// `bool` bytes above 1 where they differ.
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
        let same_type = self.a.of == self.b.of;
        if same_type && a == b {
            return Ok(());
        }
        for from in (0..count).step_by(BLOCK as usize) {
            let to = count.min(from + BLOCK);
            let cut = |bytes, of: &ElementType| -> &[u8] { part(bytes, of, from, to) };
            let (a, b) = (cut(a, self.a.of), cut(b, self.b.of));
            if !(same_type && a == b) {
                self.block(start + from, a, b, tally, scratch)?;
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
        let (x, y) = (&self.a.of.as_stored(), &self.b.of.as_stored());
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
        let width = (self.a.of.bits() / 8) as usize;
        let same_type = self.a.of == self.b.of;
        // To codes that nobody knows the meaning of nothing is near.
        let tolerance = self.tolerance.filter(|_| self.a.of.is_known());
        for (i, (p, q)) in p.iter().zip(q).enumerate() {
            let both = (how.both)(p, q);
            let bits = || match width {
                // Below 8 bits there is no NaN, and zeros differ in their sign.
                0 => {
                    let negative = |x| (how.number)(self.a.of, x).to_f64().is_sign_negative();
                    negative(p) == negative(q)
                }
                _ => at.a[i * width..][..width] == at.b[i * width..][..width],
            };
            if both.equal && (!same_type || both.plain || bits()) {
                continue;
            }
            tally.unequal += 1;
            if both.abs > tally.max_abs {
                tally.max_abs = both.abs;
            }
            let rel = both.abs / both.of;
            if rel > tally.max_rel && both.of > 0.0 {
                tally.max_rel = rel;
            }
            if !tolerance.is_some_and(|t| t.holds(&both)) {
                tally.differing += 1;
                if tally.first.is_none() {
                    let number = how.number;
                    let (a, b) = (number(self.a.of, p), number(self.b.of, q));
                    tally.first = Some((at.start + i as u64, a, b));
                }
            }
        }
    }
}

/// Elements as they are stored, and the number of the first.
struct StoredElements<'a> {
    start: u64,
    a: &'a [u8],
    b: &'a [u8],
}

impl Tolerance {
    fn holds(&self, both: &Both) -> bool {
        // Next to an infinity only the same infinity is near; a difference with NaN is NaN.
        both.equal
            || (both.abs.is_finite()
                && both.of.is_finite()
                && both.abs <= self.atol + self.rtol * both.of)
    }
}

/// The bytes of elements `from..to` of those in `bytes`.
fn part<'b>(bytes: &'b [u8], of: &ElementType, from: u64, to: u64) -> &'b [u8] {
    let end = bytes.len();
    let (from, to) = (of.len_of(from) as usize, of.len_of(to) as usize);
    &bytes[from.min(end)..to.min(end)]
}

/// The place of an element in a tensor of `shape`, from its number in row-major order.
pub fn unravel(shape: &[u64], mut at: u64) -> Vec<u64> {
    let mut out = vec![0; shape.len()];
    for (place, &size) in out.iter_mut().zip(shape).rev() {
        if let (Some(rest), Some(whole)) = (at.checked_rem(size), at.checked_div(size)) {
            (*place, at) = (rest, whole);
        }
    }
    out
}

/// Whether elements of these types stand for each other one by one: those of an unknown type only for
/// those of the same.
pub fn is_comparable(a: &ElementType, b: &ElementType) -> bool {
    a == b || (a.is_known() && b.is_known())
}
