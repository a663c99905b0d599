//! Decoding any bytes as zTensor 2 with a manifest that has the correct digest gives an index that can be walked, or an
//! error of the file. The digest is computed here, as almost any change of the bytes invalidates it.

use holdall::Algorithm;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let mut data = data.to_vec();
    let end = data.len();
    let Some(footer) = end.checked_sub(40) else { return };
    let number = |at: usize| data[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let (start, len) = (number(footer), number(footer + 8));
    let range = usize::try_from(start).ok().zip(usize::try_from(start.saturating_add(len)).ok());
    let Some(manifest) = range.and_then(|(start, end)| data.get(start..end)) else { return };
    let mut hasher = holdall_core::model::Hasher::new(Algorithm::Xxh3);
    hasher.update(manifest);
    let holdall::Digest::Xxh3(sum) = hasher.finish() else { return };
    data[footer + 16..footer + 24].copy_from_slice(&sum.to_le_bytes());
    super::decode(&holdall_formats::ztensor2::FORMAT, &data);
}
