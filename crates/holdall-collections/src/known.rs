//! Parts of slices whose bounds the code has established before.

use std::slice::SliceIndex;

/// Returns the part of a slice at a range that must be inside, whatever the bytes of a file are.
///
/// # Panics
/// In builds with debug assertions, panics if the range is outside. Other builds return an empty part, which the caller
/// treats as the end of the data.
#[track_caller]
pub fn known_part<T>(all: &[T], range: impl SliceIndex<[T], Output = [T]>) -> &[T] {
    let part = all.get(range);
    debug_assert!(part.is_some(), "the range is outside the slice of {} items", all.len());
    part.unwrap_or_default()
}

/// Returns the part of a slice at a range that must be inside, to be written; see [`known_part`].
///
/// # Panics
/// In builds with debug assertions, panics if the range is outside.
#[track_caller]
pub fn known_part_mut<T>(all: &mut [T], range: impl SliceIndex<[T], Output = [T]>) -> &mut [T] {
    let len = all.len();
    let part = all.get_mut(range);
    debug_assert!(part.is_some(), "the range is outside the slice of {len} items");
    part.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_inside_are_returned() {
        let mut all = [1, 2, 3];
        assert_eq!(known_part(&all, 1..), [2, 3]);
        assert_eq!(known_part(&all, 3..), []);
        known_part_mut(&mut all, ..2).fill(0);
        assert_eq!(all, [0, 0, 3]);
    }

    #[test]
    #[should_panic(expected = "outside the slice of 3 items")]
    #[cfg(debug_assertions)]
    fn parts_outside_are_noticed() {
        known_part(&[1, 2, 3], 4..);
    }
}
