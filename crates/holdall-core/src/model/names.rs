//! Puts names in order.

/// The numbers 0 to `count` in bytewise order of `name`, or one of two numbers of equal names.
///
/// Names of a model start alike, and most differ within the 8 bytes after what all have in common:
/// those are compared as one number, and the names themselves only where it is equal. The sort makes
/// use of runs that are in order already, as real files have them.
pub(crate) fn in_order<'a>(
    count: u32,
    name: impl Fn(u32) -> &'a [u8],
) -> std::result::Result<Vec<u32>, u32> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let shared = (1..count).fold(name(0), |shared, at| {
        let same = shared.iter().zip(name(at)).take_while(|(a, b)| a == b).count();
        &shared[..same]
    });
    // A name that ends sooner is filled up with zeros; names settle what that makes equal.
    let key = |at: u32| {
        let mut word = [0; 8];
        let rest = &name(at)[shared.len()..];
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        u64::from_be_bytes(word)
    };
    let mut keyed: Vec<(u64, u32)> = (0..count).map(|at| (key(at), at)).collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| name(a.1).cmp(name(b.1))));
    let twice = keyed.windows(2).find(|p| p[0].0 == p[1].0 && name(p[0].1) == name(p[1].1));
    match twice {
        Some(pair) => Err(pair[0].1),
        None => Ok(keyed.into_iter().map(|(_, at)| at).collect()),
    }
}
