//! The correlation of two runs of numbers.

/// The confidence of all statements.
pub(super) const CONFIDENCE: f64 = 0.999;
/// The number of standard deviations on both sides of the mean of a normal distribution that hold `CONFIDENCE` of it.
const DEVIATIONS: f64 = 3.290_526_7;
/// The number of different values below which a tensor is taken for a constant or a mask.
const FEW: usize = 3;

/// Sums over pairs of numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Correlation {
    /// The number of pairs.
    pub(super) count: u64,
    /// The number of pairs that are not equal, apart from rounding.
    pub(super) unequal: u64,
    /// The number of pairs that are not equal.
    pub(super) inexact: u64,
    /// The number of finite pairs.
    finite: u64,
    sums: [f64; 2],
    squares: [f64; 2],
    product: f64,
    /// The sum of the squares of the differences.
    difference: f64,
    /// The first different values of each side.
    values: [Vec<f64>; 2],
}

impl Correlation {
    /// Adds pairs. `rounding` is the greatest relative error of rounding to the less precise type, and its smallest number.
    pub(super) fn add_values(&mut self, a: &[f64], b: &[f64], rounding: Rounding) {
        for (&a, &b) in a.iter().zip(b) {
            self.count += 1;
            let is_equal = a == b || (a.is_nan() && b.is_nan());
            self.inexact += u64::from(!is_equal);
            let near = rounding.relative * a.abs().max(b.abs()) + rounding.least;
            // A difference with NaN is NaN, which is not near; of infinities, both sides would be infinite.
            let is_near = near.is_finite() && (a - b).abs() <= near;
            self.unequal += u64::from(!is_equal && !is_near);
            if !(a.is_finite() && b.is_finite()) {
                continue;
            }
            self.finite += 1;
            self.sums[0] += a;
            self.sums[1] += b;
            self.squares[0] += a * a;
            self.squares[1] += b * b;
            self.product += a * b;
            self.difference += (a - b) * (a - b);
            for (values, x) in self.values.iter_mut().zip([a, b]) {
                if values.len() < FEW && !values.contains(&x) {
                    values.push(x);
                }
            }
        }
    }

    /// Adds the sums over other pairs.
    pub(super) fn add(&mut self, more: &Correlation) {
        self.count += more.count;
        self.unequal += more.unequal;
        self.inexact += more.inexact;
        self.finite += more.finite;
        for side in 0..2 {
            self.sums[side] += more.sums[side];
            self.squares[side] += more.squares[side];
            for x in &more.values[side] {
                if self.values[side].len() < FEW && !self.values[side].contains(x) {
                    self.values[side].push(*x);
                }
            }
        }
        self.product += more.product;
        self.difference += more.difference;
    }

    /// Returns Pearson's correlation, or `None` if a side has only a few values.
    pub(super) fn pearson(&self) -> Option<f64> {
        if self.values.iter().any(|values| values.len() < FEW) {
            return None;
        }
        let n = self.finite as f64;
        let [a, b] = self.sums.map(|sum| sum / n);
        let covariance = self.product / n - a * b;
        let variances = (self.squares[0] / n - a * a) * (self.squares[1] / n - b * b);
        let r = covariance / variances.sqrt();
        r.is_finite().then_some(r.clamp(-1.0, 1.0))
    }

    /// Returns the interval in which the correlation of all elements is, by Fisher's transformation.
    pub(super) fn interval(&self, r: f64) -> (f64, f64) {
        if self.finite < 8 {
            return (-1.0, 1.0);
        }
        let z = r.clamp(-1.0 + 1e-12, 1.0 - 1e-12).atanh();
        let width = DEVIATIONS / ((self.finite - 3) as f64).sqrt();
        ((z - width).tanh(), (z + width).tanh())
    }

    /// Returns the root of the mean square of the differences, divided by that of the first side.
    pub(super) fn relative(&self) -> f64 {
        if self.difference == 0.0 { 0.0 } else { (self.difference / self.squares[0]).sqrt() }
    }
}

/// How far two numbers can be apart if one is the other, rounded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounding {
    /// The greatest error, relative to the number.
    pub(super) relative: f64,
    /// The greatest error of numbers near 0.
    pub(super) least: f64,
}

/// Returns the greatest share of a population that can have a property which none of `n` random members has.
pub(super) fn most_unseen(n: u64) -> f64 {
    match n {
        0 => 1.0,
        n => 1.0 - (1.0 - CONFIDENCE).powf(1.0 / n as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correlation(a: &[f64], b: &[f64]) -> Correlation {
        let mut out = Correlation::default();
        out.add_values(a, b, Rounding::default());
        out
    }

    #[test]
    fn constants_and_masks_have_no_correlation() {
        assert_eq!(correlation(&[1.0; 9], &[1.0; 9]).pearson(), None);
        let mask: Vec<f64> = (0..100).map(|n| f64::from(n % 2)).collect();
        assert_eq!(correlation(&mask, &mask).pearson(), None);
        let ramp: Vec<f64> = (0..100).map(f64::from).collect();
        let c = correlation(&ramp, &ramp);
        assert!(c.pearson().unwrap() > 0.999_999 && c.interval(1.0).0 > 0.999_999);
        let down: Vec<f64> = ramp.iter().map(|x| -x).collect();
        assert!(correlation(&ramp, &down).pearson().unwrap() < -0.999_999);
    }

    #[test]
    fn an_interval_is_narrower_with_more_numbers() {
        let few = Correlation { finite: 12, ..Correlation::default() };
        let many = Correlation { finite: 1000, ..Correlation::default() };
        assert!(few.interval(0.0).1 > 0.7 && many.interval(0.0).1 < 0.11);
        assert_eq!(correlation(&[1.0, 2.0], &[1.0, 2.0]).interval(1.0), (-1.0, 1.0));
    }

    #[test]
    fn what_none_of_many_has_is_rare() {
        assert_eq!(most_unseen(0), 1.0);
        assert!((most_unseen(1000) - 0.006_884).abs() < 1e-5, "{}", most_unseen(1000));
    }

    #[test]
    fn nan_and_rounding_are_equal() {
        let near = Rounding { relative: 0.004, least: 0.0 };
        let mut c = Correlation::default();
        c.add_values(&[1.0, f64::NAN, 2.0, f64::INFINITY], &[1.003, f64::NAN, 2.1, 1.0], near);
        assert_eq!((c.count, c.inexact, c.unequal, c.finite), (4, 3, 2, 2));
    }
}
