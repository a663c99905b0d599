//! A stable sort that adds little machine code for each type, for short slices and for rare calls.
//!
//! The standard library's sort compiles to about 4 KB of code for each element type, more than the rest of most
//! callers. Here one sort for all types orders the indices of the elements, and the elements are moved afterwards,
//! which takes a few hundred bytes of code for each type.

use std::cmp::Ordering;

/// Sorts the items in ascending order. Equal items keep their order.
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// Sorts the items with a comparison function. Equal items keep their order.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let sorted_indices = sorted_indices(items.len(), &|a, b| compare(&items[a], &items[b]));
    let Some(mut sorted_indices) = sorted_indices else { return };
    for at in 0..items.len() {
        while sorted_indices[at] != at {
            let to = sorted_indices[at];
            items.swap(at, to);
            sorted_indices.swap(at, to);
        }
    }
}

/// Returns the sorted position of each of `count` items, or `None` if the items are sorted already.
fn sorted_indices(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Option<Vec<usize>> {
    if (1..count).all(|at| compare(at - 1, at) != Ordering::Greater) {
        return None;
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| compare(*a, *b));
    let mut sorted_indices = vec![0; count];
    for (place, at) in order.into_iter().enumerate() {
        sorted_indices[at] = place;
    }
    Some(sorted_indices)
}

#[cfg(test)]
mod tests {
    use super::{sort, sort_by};

    #[test]
    fn sorts_as_the_standard_library_does() {
        let mut state = 7u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) % below
        };
        for len in [0, 1, 2, 3, 10, 100, 1000] {
            for most in [1, 3, 1000] {
                let items: Vec<(u32, usize)> = (0..len).map(|at| (next(most), at)).collect();
                let mut expected = items.clone();
                expected.sort_by_key(|(key, _)| *key);
                let mut found = items.clone();
                sort_by(&mut found, |a, b| a.0.cmp(&b.0));
                assert_eq!(found, expected);
                let mut texts: Vec<String> = items.iter().map(|(n, _)| n.to_string()).collect();
                let mut expected = texts.clone();
                expected.sort();
                sort(&mut texts);
                assert_eq!(texts, expected);
            }
        }
    }
}
