//! The order in which differences are listed.

use clap::ValueEnum;
use holdall::diff::{LayerDiff, TensorDiff};

/// `--sort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// The greatest relative error first
    Relative,
    /// The greatest share of changed elements first
    Share,
    /// By name, with numbers in their order
    Name,
    /// As in the first file
    File,
}

/// Sorts tensors. Those whose values could not be compared, and those with a changed NaN or infinity, count as changed most.
pub(super) fn tensors(all: &mut [&TensorDiff], by: Sort) {
    let change = |t: &TensorDiff| {
        let Some(values) = &t.values else {
            let is_whole = t.shapes.is_some() || t.incomparable.is_some();
            return if is_whole || !t.components.is_empty() { f64::INFINITY } else { 0.0 };
        };
        change(by, values.relative, values.share(), values.non_finite)
    };
    match by {
        Sort::File => {}
        Sort::Name => all.sort_by_cached_key(|t| by_number(&t.name)),
        Sort::Relative | Sort::Share => all.sort_by(|a, b| change(b).total_cmp(&change(a))),
    }
}

/// Sorts layers.
pub(super) fn layers(all: &mut [&LayerDiff], by: Sort) {
    let change = |l: &LayerDiff| change(by, l.relative, l.share(), l.non_finite);
    match by {
        Sort::File => {}
        Sort::Name => all.sort_by_cached_key(|l| by_number(l.name.as_deref().unwrap_or(""))),
        Sort::Relative | Sort::Share => all.sort_by(|a, b| change(b).total_cmp(&change(a))),
    }
}

fn change(by: Sort, relative: Option<f64>, share: f64, non_finite: u64) -> f64 {
    match by {
        Sort::Share => share,
        _ if non_finite > 0 => f64::INFINITY,
        _ => relative.unwrap_or(f64::INFINITY),
    }
}

/// Splits a name into texts and numbers, so that 9 comes before 10.
fn by_number(name: &str) -> Vec<(u128, String)> {
    let mut out = vec![(0, String::new())];
    let mut digits = String::new();
    for c in name.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            out.push((digits.parse().unwrap_or(u128::MAX), String::new()));
            digits.clear();
        }
        if let Some((_, text)) = out.last_mut() {
            text.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::by_number;

    #[test]
    fn numbers_are_in_their_order() {
        let mut names = ["h.10.a", "h.9.b", "h", "h.9.a", "a.1"];
        names.sort_by_key(|name| by_number(name));
        assert_eq!(names, ["a.1", "h", "h.9.a", "h.9.b", "h.10.a"]);
    }
}
