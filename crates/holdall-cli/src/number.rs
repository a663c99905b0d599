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

#[cfg(test)]
mod tests {
    use super::short;

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
    }
}
