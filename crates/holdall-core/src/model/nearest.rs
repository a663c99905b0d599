//! Suggesting a similar name for a name that does not exist.

/// The maximum length of a name to look for, in bytes; longer ones are not typed by hand.
const MAX_WANTED: usize = 512;
/// The maximum number of comparison steps, about 0.1 s; after that the best name so far is returned.
const MAX_WORK: usize = 100_000_000;

/// Returns the name that is most similar to `wanted`, if any is similar enough: a few letters differ, or segments
/// (`a.b.`) are missing at the start or at the end.
///
/// The time is limited, whatever the names are.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.is_empty() || wanted.len() > MAX_WANTED {
        return None;
    }
    // One letter in four may differ; the distance must be below this bound.
    let mut bound = wanted.chars().count() / 4 + 2;
    let mut best = None;
    // A name that consists of `wanted` and more segments, or the other way round.
    let mut related: Option<(usize, &str)> = None;
    let mut work = 0usize;
    let mut compare = Distance::default();
    for name in names {
        work = work.saturating_add(16);
        let extra = name.len().abs_diff(wanted.len());
        if is_part(wanted, name) || is_part(name, wanted) {
            if related.is_none_or(|(least, _)| extra < least) {
                related = Some((extra, name));
            }
        } else if extra / 4 < bound && name.len() <= 8 * MAX_WANTED {
            // A character has at most four bytes.
            if let Some(found) = compare.below(bound, wanted, name, &mut work) {
                (bound, best) = (found, Some(name));
            }
        }
        if work > MAX_WORK || bound <= 1 {
            break;
        }
    }
    // One or two wrong letters are more likely than a missing prefix.
    match (best, related) {
        (Some(_), Some((_, name))) if bound > 2 => Some(name),
        (None, Some((_, name))) => Some(name),
        (best, _) => best,
    }
}

/// Returns `true` if `part` consists of the first or last segments of `whole`.
fn is_part(part: &str, whole: &str) -> bool {
    let is_dot = |c: char| matches!(c, '.' | '/');
    let rest = whole.strip_suffix(part).map(|before| before.ends_with(is_dot));
    rest.or_else(|| whole.strip_prefix(part).map(|after| after.starts_with(is_dot)))
        .unwrap_or(false)
}

/// Computes edit distances, and reuses its memory between names.
#[derive(Default)]
struct Distance {
    a: Vec<char>,
    b: Vec<char>,
    rows: [Vec<usize>; 3],
}

impl Distance {
    /// Returns the number of letters to insert, delete, replace or swap with their neighbour to get from one name to
    /// the other, if it is below `bound`. Case is ignored, but the distance is never 0.
    fn below(&mut self, bound: usize, a: &str, b: &str, work: &mut usize) -> Option<usize> {
        let lower = |c: char| c.to_ascii_lowercase();
        self.a.clear();
        self.a.extend(a.chars().map(lower));
        self.b.clear();
        self.b.extend(b.chars().map(lower));
        *work = work.saturating_add(self.b.len());
        let (mut a, mut b) = (&self.a[..], &self.b[..]);
        let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
        (a, b) = (&a[same..], &b[same..]);
        let same = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
        (a, b) = (&a[..a.len() - same], &b[..b.len() - same]);
        if a.len().abs_diff(b.len()) >= bound {
            return None;
        }
        if a.is_empty() && b.is_empty() {
            return (bound > 1).then_some(1);
        }
        let [before, above, row] = &mut self.rows;
        above.clear();
        above.extend(0..=b.len());
        for (i, x) in a.iter().enumerate() {
            row.clear();
            row.resize(b.len() + 1, usize::MAX / 2);
            row[0] = i + 1;
            // Cells farther than `bound` from the diagonal cannot lead to a distance below `bound`.
            let band = (i + 1).saturating_sub(bound)..(i + bound).min(b.len());
            let mut least = row[0];
            for j in band.clone() {
                let replaced = above[j] + usize::from(*x != b[j]);
                let mut cell = replaced.min(above[j + 1] + 1).min(row[j] + 1);
                if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == b[j] {
                    cell = cell.min(before[j - 1] + 1);
                }
                row[j + 1] = cell;
                least = least.min(cell);
            }
            *work = work.saturating_add(band.len());
            if least >= bound {
                return None;
            }
            std::mem::swap(before, above);
            std::mem::swap(above, row);
        }
        above.last().copied().filter(|&found| found < bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let distance = |a: &str, b: &str| Distance::default().below(10, a, b, &mut 0);
        assert_eq!(distance("kitten", "sitting"), Some(3));
        assert_eq!(distance("weight", "wieght"), Some(1));
        assert_eq!(distance("wigth", "weight"), Some(2));
        assert_eq!(distance("", "abc"), Some(3));
        assert_eq!(distance("abc", ""), Some(3));
        assert_eq!(distance("Abc", "abC"), Some(1));
        assert_eq!(distance("abcdefghij", "klmnopqrst"), None);
        assert_eq!(Distance::default().below(2, "abcd", "badc", &mut 0), None);
    }

    #[test]
    fn distances_do_not_depend_on_the_bound() {
        // A full table, to compare the banded one with.
        fn plain(a: &[u8], b: &[u8]) -> usize {
            let mut d = vec![vec![0usize; b.len() + 1]; a.len() + 1];
            for i in 0..=a.len() {
                for j in 0..=b.len() {
                    d[i][j] = if i == 0 || j == 0 {
                        i + j
                    } else {
                        let change = d[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                        let mut least = change.min(d[i - 1][j] + 1).min(d[i][j - 1] + 1);
                        if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                            least = least.min(d[i - 2][j - 2] + 1);
                        }
                        least
                    };
                }
            }
            d[a.len()][b.len()]
        }
        let mut state = 1u32;
        let mut text = |most: u32| -> String {
            let mut next = |n: u32| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) % n
            };
            (0..next(most)).map(|_| char::from(b'a' + next(3) as u8)).collect()
        };
        let mut compare = Distance::default();
        for _ in 0..3000 {
            let (a, b) = (text(12), text(12));
            let expected = plain(a.as_bytes(), b.as_bytes()).max(1);
            for bound in 1..8 {
                let found = compare.below(bound, &a, &b, &mut 0);
                assert_eq!(found, (expected < bound).then_some(expected), "{a} {b} {bound}");
            }
        }
    }
}
