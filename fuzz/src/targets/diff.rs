//! Comparing two files gives the same result from both sides, and a file equals itself.

use crate::limits;
use crate::take::Take;
use holdall::{Bytes, DiffOptions, File, OpenOptions, Work, diff};

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let mut take = Take::new(data);
    let len = take.u32() as usize;
    let (a, b) = (take.bytes(len), take.bytes(usize::MAX));
    let options = OpenOptions::new().with_limits(limits::tight());
    let open = |bytes: &[u8]| options.open_bytes(Bytes::copy_from_slice(bytes), "input").ok();
    let (Some(a), Some(b)) = (open(a), open(b)) else { return };
    is_itself(&a);
    is_itself(&b);
    let options = DiffOptions::new().with_work(Work::new().with_threads(1));
    let (there, back) = match (diff(&a, &b, &options), diff(&b, &a, &options)) {
        (Ok(there), Ok(back)) => (there, back),
        (Err(_), Err(_)) => return,
        // If two things are wrong, the first one found is returned: an error of one side ends the comparison, a limit
        // on the other does not.
        (Ok(found), Err(_)) | (Err(_), Ok(found))
            if found.changed.iter().any(|t| t.incomparable.is_some()) =>
        {
            return;
        }
        (there, back) => panic!("one side: {there:?}, the other: {back:?}"),
    };
    let names = |all: &[holdall::TensorInfo]| -> Vec<String> {
        all.iter().map(|t| t.name().to_owned()).collect()
    };
    assert_eq!(names(&there.added), names(&back.removed));
    assert_eq!(names(&there.removed), names(&back.added));
    assert_eq!((there.compared, there.identical), (back.compared, back.identical));
    assert_eq!(there.attributes.len(), back.attributes.len());
    assert_eq!(there.changed.len(), back.changed.len());
    assert_eq!((there.is_same(), there.values_agree()), (back.is_same(), back.values_agree()));
    for one in &there.changed {
        let other = back.changed.iter().find(|t| t.name == one.name).expect("it is in both");
        assert_eq!(one.types.is_some(), other.types.is_some());
        assert_eq!(one.shapes.is_some(), other.shapes.is_some());
        assert_eq!(one.layouts.is_some(), other.layouts.is_some());
        assert_eq!(one.attributes.len(), other.attributes.len());
        assert_eq!(one.components.len(), other.components.len());
        assert_eq!(one.incomparable.is_some(), other.incomparable.is_some());
        let counts = |t: &holdall::diff::TensorDiff| {
            let v = t.values.as_ref();
            v.map(|v| (v.count, v.unequal, v.differing, v.max_abs.to_bits()))
        };
        assert_eq!(counts(one), counts(other));
    }
}

/// Checks that a file has no difference from itself, except where values cannot be compared.
fn is_itself(file: &File) {
    let Ok(found) = diff(file, file, &DiffOptions::new().with_work(Work::new().with_threads(1)))
    else {
        return;
    };
    assert!(found.removed.is_empty() && found.added.is_empty() && found.attributes.is_empty());
    for t in &found.changed {
        assert!(t.incomparable.is_some(), "it differs from itself: {t:?}");
    }
}

/// Returns a file twice; those of the corpus have tensors of the same names.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    if crate::is_description(file) || file.len() > 8 << 10 {
        return Vec::new();
    }
    let len = file.len() as u32;
    vec![[&len.to_le_bytes(), file, file].concat()]
}
