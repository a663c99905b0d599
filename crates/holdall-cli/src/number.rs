//! Formatting of floating-point numbers.

/// Formats a number with at most five significant digits: `0.048706`, `-1.5`, `1.2346e-7`.
pub(crate) fn short(x: f64) -> String {
    if x.is_nan() {
        return "NaN".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if x == 0.0 {
        return "0".to_owned();
    }
    let power = x.abs().log10().floor();
    if !(-4.0..6.0).contains(&power) {
        let text = format!("{x:.4e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'));
    }
    let decimals = (4.0 - power).max(0.0) as usize;
    let text = format!("{x:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a share, such as `12.5%`; `0` if `n` is 0.
pub(crate) fn share(n: u64, all: u64) -> String {
    if n == 0 {
        return "0".to_owned();
    }
    let percent = n as f64 / all.max(1) as f64 * 100.0;
    if n < all && percent > 99.9 {
        return ">99.9%".to_owned();
    }
    if percent < 0.1 { "<0.1%".to_owned() } else { format!("{percent:.1}%") }
}

/// Formats a number with at most three significant digits: `0.0487`, `1.23e-7`.
pub(crate) fn brief(x: f64) -> String {
    short(if x.is_finite() { format!("{x:.2e}").parse().unwrap_or(x) } else { x })
}

#[cfg(test)]
mod tests {
    use super::{brief, share, short};

    #[test]
    fn five_digits_and_no_more_than_needed() {
        for (x, text) in [
            (0.0, "0"),
            (-1.5, "-1.5"),
            (2.0, "2"),
            (100.0, "100"),
            (0.048_706_05, "0.048706"),
            (123_456.7, "123457"),
            (1_234_567.0, "1.2346e6"),
            (1e-7, "1e-7"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(short(x), text);
        }
        for (x, text) in [(0.048_706, "0.0487"), (1234.0, "1230"), (f64::INFINITY, "inf")] {
            assert_eq!(brief(x), text);
        }
    }

    #[test]
    fn shares_are_0_or_100_percent_only_if_exact() {
        assert_eq!(share(0, 10), "0");
        assert_eq!(share(1, 1_000_000), "<0.1%");
        assert_eq!(share(999_999, 1_000_000), ">99.9%");
        assert_eq!(share(10, 10), "100.0%");
        assert_eq!(share(1, 8), "12.5%");
    }
}
