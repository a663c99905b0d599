//! Rounding to other float types, compared with a reference that does not use bit operations: the values of all codes,
//! and on which side of the middle between two of them a number lies.

use holdall_core::layout::cast::{Caster, FloatType, Overflow, round_f64};
use holdall_core::layout::float::decode_f64;
use holdall_core::{DType, LogicalType};

/// A float type as its specification describes it.
struct Kind {
    to: FloatType,
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    /// The largest finite code, and the codes of larger numbers and of NaN, without a sign.
    largest: u32,
    beyond: u32,
    nan: u32,
    /// Zero and NaN have no sign, and there is no infinity.
    unsigned_zero: bool,
}

const KINDS: [Kind; 6] = [
    kind(FloatType::F16, 5, 10, 15, [0x7bff, 0x7c00, 0x7e00]),
    kind(FloatType::Bf16, 8, 7, 127, [0x7f7f, 0x7f80, 0x7fc0]),
    kind(FloatType::F8E4M3Fn, 4, 3, 7, [0x7e, 0x7f, 0x7f]),
    kind(FloatType::F8E5M2, 5, 2, 15, [0x7b, 0x7c, 0x7e]),
    kind(FloatType::F8E4M3FnUz, 4, 3, 8, [0x7f, 0x80, 0x80]),
    kind(FloatType::F8E5M2FnUz, 5, 2, 16, [0x7f, 0x80, 0x80]),
];

const fn kind(to: FloatType, e: u32, m: u32, bias: i32, codes: [u32; 3]) -> Kind {
    let [largest, beyond, nan] = codes;
    let unsigned_zero = beyond == 1 << (e + m);
    Kind { to, exponent_bits: e, mantissa_bits: m, bias, largest, beyond, nan, unsigned_zero }
}

impl Kind {
    /// Returns the value of a magnitude.
    fn value(&self, code: u32) -> f64 {
        let m = self.mantissa_bits;
        let (exponent, mantissa) = (code >> m, code & ((1 << m) - 1));
        let fraction = f64::from(mantissa) / f64::from(1 << m);
        match exponent {
            0 => fraction * 2f64.powi(1 - self.bias),
            _ => (1.0 + fraction) * 2f64.powi(exponent as i32 - self.bias),
        }
    }

    /// Returns all finite magnitudes, and one that would come next.
    fn values(&self) -> Vec<f64> {
        let all = (0..=self.largest).map(|code| self.value(code));
        let step = self.value(self.largest) - self.value(self.largest - 1);
        all.chain([self.value(self.largest) + step]).collect()
    }

    fn has_infinities(&self) -> bool {
        self.beyond != self.nan
    }

    /// Returns the code that `x` rounds to, and whether it overflows.
    fn reference(&self, values: &[f64], x: f64, overflow: Overflow) -> (u32, bool) {
        let sign =
            if x.is_sign_negative() { 1 << (self.exponent_bits + self.mantissa_bits) } else { 0 };
        let signed = |code: u32| match self.unsigned_zero && (code == 0 || code == self.nan) {
            true => code,
            false => code | sign,
        };
        if x.is_nan() {
            return (signed(self.nan), false);
        }
        let x = x.abs();
        if x.is_infinite() && self.has_infinities() {
            return (signed(self.beyond), false);
        }
        let above = values.partition_point(|v| *v < x);
        let nearest = if above == 0 {
            0
        } else if above == values.len() {
            above
        } else {
            // Both numbers, and half of their sum, are exact.
            let middle = (values[above - 1] + values[above]) / 2.0;
            let up = x > middle || (x == middle && above % 2 == 0);
            if up { above } else { above - 1 }
        } as u32;
        match nearest > self.largest {
            false => (signed(nearest), false),
            true if overflow == Overflow::Saturate => (signed(self.largest), true),
            true => (signed(self.beyond), true),
        }
    }

    fn check(&self, inputs: &[f64]) {
        let values = self.values();
        for overflow in [Overflow::Infinite, Overflow::Saturate] {
            let mut out = Vec::new();
            let lost = round_f64(inputs, self.to, overflow, &mut out);
            let width = self.to.dtype().width() as usize;
            assert_eq!(out.len(), inputs.len() * width);
            let mut expected_lost = 0;
            for (x, code) in inputs.iter().zip(out.chunks(width)) {
                let mut wide = [0; 4];
                wide[..width].copy_from_slice(code);
                let found = u32::from_le_bytes(wide);
                let (expected, is_lost) = self.reference(&values, *x, overflow);
                expected_lost += u64::from(is_lost);
                assert_eq!(found, expected, "{:?} of {x:e}: {found:x}, not {expected:x}", self.to);
            }
            assert_eq!(lost, expected_lost, "{:?}", self.to);
        }
    }
}

/// Returns all 65,536 elements of a 16-bit type as numbers.
fn all_of(dtype: DType) -> Vec<f64> {
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let mut out = Vec::new();
    decode_f64(dtype, None, &bytes, |values| out.extend_from_slice(values)).unwrap();
    out
}

#[test]
fn every_number_of_16_bits_is_rounded_to_nearest_and_even() {
    for dtype in [DType::F16, DType::Bf16] {
        let inputs = all_of(dtype);
        assert_eq!(inputs.len(), 65_536);
        for kind in &KINDS {
            kind.check(&inputs);
        }
    }
}

#[test]
fn doubles_next_to_midpoints_are_rounded_once() {
    for kind in &KINDS {
        let values = kind.values();
        let mut inputs = vec![f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, 1e39, 0.0];
        for pair in values.windows(2) {
            let middle = (pair[0] + pair[1]) / 2.0;
            inputs.extend([middle, middle.next_up(), middle.next_down(), pair[0]]);
            // As close as an f32 can be, and closer than one can be.
            inputs.extend([f64::from((middle as f32).next_up()), middle * (1.0 + 2f64.powi(-40))]);
        }
        let negative: Vec<f64> = inputs.iter().map(|x| -x).collect();
        kind.check(&inputs);
        kind.check(&negative);
    }
}

#[test]
fn random_doubles_are_rounded_to_nearest() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut inputs = Vec::new();
    for _ in 0..200_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Exponents from 2^-150 to 2^129, the range of the types.
        let exponent = 1023 - 150 + (state >> 52) % 280;
        inputs.push(f64::from_bits(state & !(0x7ff << 52) | exponent << 52));
    }
    for kind in &KINDS {
        kind.check(&inputs);
    }
}

#[test]
fn f64_to_f32_is_rounded_and_counted() {
    let largest = f64::from(f32::MAX);
    let half = 2f64.powi(103);
    let inputs = [
        (1.0 + 2f64.powi(-24), 1.0f32),
        (1.0 + 3.0 * 2f64.powi(-24), 1.0 + f32::EPSILON * 2.0),
        (2f64.powi(-150), 0.0),
        (2f64.powi(-150).next_up(), f32::from_bits(1)),
        ((largest + half).next_down(), f32::MAX),
        (f64::NEG_INFINITY, f32::NEG_INFINITY),
        (-0.0, -0.0),
    ];
    let values: Vec<f64> = inputs.iter().map(|i| i.0).collect();
    let mut out = Vec::new();
    assert_eq!(round_f64(&values, FloatType::F32, Overflow::Infinite, &mut out), 0);
    let expected: Vec<u8> = inputs.iter().flat_map(|i| i.1.to_le_bytes()).collect();
    assert_eq!(out, expected);
    let beyond = [largest + half, -1e300, f64::NAN, -f64::NAN];
    for (overflow, top) in [(Overflow::Infinite, f32::INFINITY), (Overflow::Saturate, f32::MAX)] {
        out.clear();
        assert_eq!(round_f64(&beyond, FloatType::F32, overflow, &mut out), 2);
        let bits = [top.to_bits(), (-top).to_bits(), 0x7fc0_0000, 0xffc0_0000];
        assert_eq!(out, bits.map(u32::to_le_bytes).concat());
    }
}

#[test]
fn widening_changes_no_number() {
    for from in FloatType::ALL.into_iter().filter(|t| t.dtype().width() <= 2) {
        let width = from.dtype().width() as usize;
        let codes: Vec<u8> =
            (0..=u16::MAX).flat_map(|c| c.to_le_bytes()[..width].to_vec()).collect();
        let numbers = |dtype, logical: Option<LogicalType>, bytes: &[u8]| {
            let mut out = Vec::new();
            decode_f64(dtype, logical.as_ref(), bytes, |v| out.extend_from_slice(v)).unwrap();
            out
        };
        let before = numbers(from.dtype(), from.logical_type(), &codes);
        for to in [FloatType::F64, FloatType::F32, from] {
            let mut out = Vec::new();
            assert_eq!(round_f64(&before, to, Overflow::Infinite, &mut out), 0);
            let after = numbers(to.dtype(), to.logical_type(), &out);
            for (a, b) in before.iter().zip(&after) {
                assert!(
                    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
                    "{from} {to} {a}"
                );
            }
        }
    }
}

#[test]
fn pieces_of_any_length_give_the_same() {
    let types = [
        (DType::F32, None),
        (DType::F64, None),
        (DType::Bf16, None),
        (DType::U8, Some(LogicalType::F8E5M2)),
        (DType::U8, Some(LogicalType::F6E2M3)),
        (DType::U8, Some(LogicalType::F4E2M1)),
    ];
    for (dtype, logical) in types {
        for count in [1u64, 5, 1023, 4099] {
            let bits = logical.as_ref().and_then(LogicalType::bits).unwrap_or(dtype.width() * 8);
            let len = (count * bits).div_ceil(8);
            let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 7) as u8).collect();
            let cast = |step: usize| {
                let (to, overflow) = (FloatType::Bf16, Overflow::Infinite);
                let mut caster = Caster::new(dtype, logical.clone(), count, to, overflow);
                let mut out = Vec::new();
                bytes.chunks(step).for_each(|piece| caster.push(piece, &mut out).unwrap());
                (caster.finish(&mut out).unwrap(), out)
            };
            let whole = cast(bytes.len());
            assert_eq!(whole.1.len() as u64, count * 2, "{dtype} {logical:?} {count}");
            for step in [1, 2, 3, 7, 1000] {
                assert_eq!(cast(step), whole, "{dtype} {logical:?} {count} {step}");
            }
        }
    }
}

#[test]
fn names_are_those_of_types() {
    for t in FloatType::ALL {
        assert_eq!(FloatType::from_name(t.as_str()), Some(t));
        assert_eq!(FloatType::from_dtype(t.dtype(), t.logical_type().as_ref()), Some(t));
    }
    assert_eq!(FloatType::from_name("i32"), None);
    assert_eq!(FloatType::from_dtype(DType::U8, None), None);
    assert_eq!(FloatType::from_dtype(DType::F32, Some(&LogicalType::Complex64)), None);
}
