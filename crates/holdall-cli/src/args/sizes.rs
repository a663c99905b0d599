//! Parsing of numbers and sizes.

use std::num::NonZero;

/// Parses a positive number.
pub(crate) fn positive_number(text: &str) -> Result<NonZero<usize>, String> {
    text.parse().map_err(|_| "expected a positive whole number, for example 4".to_owned())
}

/// Parses a number of bytes: `4096`, `64KiB` or `64K`, `5GB`.
///
/// # Errors
/// Returns a description of the mistake.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "`{text}` is not a number of bytes; write a whole number with or without one of the units \
             KiB, MiB, GiB, TiB, KB, MB, GB, TB: for example 4096, 64KiB or 5GB"
        )
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let (power, base) = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => (0, 1),
        "k" | "kib" => (1, 1024),
        "m" | "mib" => (2, 1024),
        "g" | "gib" => (3, 1024),
        "t" | "tib" => (4, 1024),
        "kb" => (1, 1000),
        "mb" => (2, 1000),
        "gb" => (3, 1000),
        "tb" => (4, 1000),
        _ => return Err(wrong()),
    };
    let n: u64 = digits.parse().map_err(|_| wrong())?;
    let scale = u64::pow(base, power);
    n.checked_mul(scale).ok_or_else(|| format!("`{text}` is more than 2^64 - 1 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_both_units() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("64K"), Ok(65536));
        assert_eq!(size("64KiB"), Ok(65536));
        assert_eq!(size("5GB"), Ok(5_000_000_000));
        assert!(size("5.5GB").is_err() && size("").is_err() && size("9Q").is_err());
        assert!(size("99999999TiB").is_err());
    }
}
