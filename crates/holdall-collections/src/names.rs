//! The sorted order of many names. It is in this crate because the WebAssembly module optimises this crate for speed,
//! and most others for size.

use std::ops::Range;

/// Returns the indices of the names in the bytewise order of the names.
///
/// The names of a model's tensors share a prefix, and most differ within the next 8 bytes. Those 8 bytes are compared as
/// one number; names that are equal in them are compared by the 8 bytes that follow, and so on. Runs of names that are
/// already sorted, which are common in real files, are sorted faster.
///
/// # Errors
/// Returns the index of a name that occurs more than once.
pub fn in_order(names: &[&[u8]]) -> std::result::Result<Vec<u32>, u32> {
    let name = |at: u32| names[at as usize];
    let mut keyed: Vec<(u64, u32)> = (0..names.len() as u32).map(|at| (0, at)).collect();
    // Ranges that are not sorted yet, the first one last, each with the length of the prefix that its names share.
    let mut left: Vec<(Range<usize>, usize)> = vec![(0..keyed.len(), 0)];
    while let Some((range, same)) = left.pop() {
        let some = &mut keyed[range.clone()];
        let rest = |at: u32| name(at).get(same..).unwrap_or_default();
        let Some((_, first)) = some.first() else { continue };
        let shared = some.iter().skip(1).fold(rest(*first).len(), |len, (_, at)| {
            rest(*first)[..len].iter().zip(rest(*at)).take_while(|(a, b)| a == b).count()
        });
        // A name that ends within the 8 bytes is padded with zeros.
        for (key, at) in some.iter_mut() {
            let rest = &rest(*at)[shared..];
            let mut word = [0; 8];
            match rest.first_chunk() {
                Some(whole) => word = *whole,
                None => word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from),
            }
            *key = u64::from_be_bytes(word);
        }
        some.sort_by_key(|(key, _)| *key);
        let (known_len, from) = (same + shared + 8, left.len());
        let mut start = range.start;
        for alike in some.chunk_by_mut(|a, b| a.0 == b.0) {
            let end = start + alike.len();
            if alike.len() > 1 && alike.iter().all(|(_, at)| name(*at).len() >= known_len) {
                left.push((start..end, known_len));
            } else if alike.len() > 1 {
                // The zeros may be part of a name, or padding after its end.
                alike.sort_by(|a, b| name(a.1).cmp(name(b.1)));
            }
            start = end;
        }
        left[from..].reverse();
    }
    let twice = keyed.windows(2).find(|p| p[0].0 == p[1].0 && name(p[0].1) == name(p[1].1));
    match twice {
        Some(pair) => Err(pair[0].1),
        None => Ok(keyed.into_iter().map(|(_, at)| at).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::in_order;

    /// Returns the result of sorting the names themselves.
    fn expected(names: &[String]) -> Result<Vec<u32>, u32> {
        let mut all: Vec<u32> = (0..names.len() as u32).collect();
        all.sort_by_key(|at| &names[*at as usize]);
        match all.windows(2).find(|p| names[p[0] as usize] == names[p[1] as usize]) {
            Some(pair) => Err(pair[0]),
            None => Ok(all),
        }
    }

    /// Returns the result of `in_order`.
    fn found(names: &[String]) -> Result<Vec<u32>, u32> {
        in_order(&names.iter().map(String::as_bytes).collect::<Vec<_>>())
    }

    #[test]
    fn names_are_in_bytewise_order_however_they_end() {
        let layers = (0..300).rev().map(|n| format!("model.layers.{n}.block_{}.weight", n % 7));
        let mut names: Vec<String> = layers.collect();
        for ends in
            ["", "a", "a\0", "a\0\0", "aaaaaaaa", "aaaaaaaaa", "aaaaaaaa\0", "aaaaaaaa\0\0b"]
        {
            names.push(ends.into());
            names.push(format!("model.layers.1{ends}"));
            names.push(format!("model.layers.10.block_3.weight{ends}{ends}"));
        }
        names.sort();
        names.dedup();
        names.reverse();
        // Each rotation is a different order to start from. Duplicate names are tried in each.
        for _ in 0..names.len() {
            names.rotate_left(1);
            assert_eq!(found(&names), expected(&names));
            let mut twice = names.clone();
            twice.push(names[names.len() / 2].clone());
            twice.push(names[names.len() / 3].clone());
            assert_eq!(found(&twice), expected(&twice));
        }
        assert_eq!(found(&[]), Ok(vec![]));
        assert_eq!(found(&["same name", "same name", "same name"].map(String::from)), Err(0));
    }
}
