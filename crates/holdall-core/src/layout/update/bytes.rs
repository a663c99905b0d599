//! Differences of bytes: the XOR of old and new bytes, or positions and new bytes.

use super::{DIFF_LENGTH, ENCODING, POSITION};
use crate::codec::zstd::Stream;
use crate::error::{Escape as _, Result};
use crate::layout::LENGTH as BUFFER;
use crate::limits::Limits;

/// The length of a position, and of the count of positions.
const WORD: usize = 4;
/// The most bytes that are decoded at once.
const STEP: usize = 1 << 18;

/// How differences are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffEncoding {
    /// The XOR of the old and the new bytes.
    Xor,
    /// The number of changed bytes, the position of each, and the new byte at each.
    Overwrite,
}

impl DiffEncoding {
    /// Returns the encoding with this name.
    ///
    /// # Errors
    /// Returns [`ENCODING`] if the name is unknown.
    pub fn from_name(name: &str) -> Result<DiffEncoding> {
        match name {
            "xor" => Ok(DiffEncoding::Xor),
            "overwrite" => Ok(DiffEncoding::Overwrite),
            other => Err(ENCODING
                .broken(format!("the encoding of the differences is `{}`", other.escaped()))),
        }
    }

    /// Returns the name: `xor`.
    pub fn name(self) -> &'static str {
        match self {
            DiffEncoding::Xor => "xor",
            DiffEncoding::Overwrite => "overwrite",
        }
    }
}

/// A decoded difference. Applying it to a tensor of the length that it was checked for cannot fail.
#[derive(Debug, Clone, PartialEq)]
pub struct ByteDiff {
    encoding: DiffEncoding,
    bytes: Vec<u8>,
    /// The length of the tensor in bytes.
    len: u64,
}

impl ByteDiff {
    /// Decodes the difference of a tensor of `len` bytes from a zstd frame, and checks it.
    ///
    /// # Errors
    /// Returns [`DIFF_LENGTH`] if the frame does not decode to the length of a difference, [`POSITION`] if positions do not ascend or
    /// are outside the tensor, and the rules of zstd.
    pub fn decode(
        encoding: DiffEncoding,
        stored: &[u8],
        len: u64,
        limits: &Limits,
    ) -> Result<ByteDiff> {
        let bytes = decode_frame(encoding, stored, len, limits)?;
        let diff = ByteDiff { encoding, bytes, len };
        match encoding {
            DiffEncoding::Xor if diff.bytes.len() as u64 != len => {
                let found = diff.bytes.len();
                Err(DIFF_LENGTH.broken(format!(
                    "the difference decodes to {found} bytes, but the tensor has {len}"
                )))
            }
            DiffEncoding::Xor => Ok(diff),
            DiffEncoding::Overwrite => {
                diff.check_positions()?;
                Ok(diff)
            }
        }
    }

    /// Returns the difference between two tensors of the same length, or `None` if the lengths differ, or if a position does not
    /// fit 32 bits.
    pub fn between(encoding: DiffEncoding, old: &[u8], new: &[u8]) -> Option<ByteDiff> {
        if old.len() != new.len() {
            return None;
        }
        let pairs = || old.iter().zip(new);
        let bytes = match encoding {
            DiffEncoding::Xor => pairs().map(|(a, b)| a ^ b).collect(),
            DiffEncoding::Overwrite => {
                // A tensor of 4 GiB is too long even if only its start changes: its readers count in 32 bits.
                u32::try_from(old.len()).ok()?;
                let (mut positions, mut values) = (Vec::new(), Vec::new());
                for (at, (_, b)) in pairs().enumerate().filter(|(_, (a, b))| a != b) {
                    positions.extend_from_slice(&u32::try_from(at).ok()?.to_le_bytes());
                    values.push(*b);
                }
                let mut bytes = u32::try_from(values.len()).ok()?.to_le_bytes().to_vec();
                bytes.append(&mut positions);
                bytes.append(&mut values);
                bytes
            }
        };
        Some(ByteDiff { encoding, bytes, len: old.len() as u64 })
    }

    /// Returns the decoded bytes of the difference.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of bytes that change.
    pub fn changed(&self) -> u64 {
        match self.encoding {
            DiffEncoding::Xor => self.bytes.iter().filter(|byte| **byte != 0).count() as u64,
            DiffEncoding::Overwrite => self.parts().1.len() as u64,
        }
    }

    /// Returns the number of elements of `width` bytes that change.
    pub fn changed_elements(&self, width: u64) -> u64 {
        let width = usize::try_from(width).unwrap_or(usize::MAX).max(1);
        match self.encoding {
            DiffEncoding::Xor => {
                let is_changed = |element: &&[u8]| element.iter().any(|byte| *byte != 0);
                self.bytes.chunks(width).filter(is_changed).count() as u64
            }
            DiffEncoding::Overwrite => {
                let mut last = None;
                let (positions, _) = self.parts();
                let elements = positions.iter().map(|at| position(at).checked_div(width));
                elements.filter(|at| std::mem::replace(&mut last, *at) != *at).count() as u64
            }
        }
    }

    /// Changes the bytes of a tensor from the old to the new ones.
    ///
    /// # Errors
    /// Returns the rule `layout/length` if `elements` do not have the length of the tensor.
    pub fn apply(&self, elements: &mut [u8]) -> Result<()> {
        if elements.len() as u64 != self.len {
            let (found, len) = (elements.len(), self.len);
            return Err(BUFFER.broken(format!("expected {len} bytes of a tensor, found {found}")));
        }
        match self.encoding {
            DiffEncoding::Xor => {
                elements.iter_mut().zip(&self.bytes).for_each(|(byte, diff)| *byte ^= diff);
            }
            DiffEncoding::Overwrite => {
                let (positions, values) = self.parts();
                for (at, value) in positions.iter().zip(values) {
                    if let Some(byte) = elements.get_mut(position(at)) {
                        *byte = *value;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the positions and the values of an overwrite.
    fn parts(&self) -> (&[[u8; WORD]], &[u8]) {
        let rest = self.bytes.get(WORD..).unwrap_or_default();
        let count = rest.len() / 5;
        let (positions, values) =
            rest.split_at_checked(count.saturating_mul(WORD)).unwrap_or_default();
        (positions.as_chunks().0, values)
    }

    fn check_positions(&self) -> Result<()> {
        let found = self.bytes.len();
        let Some(count) = self.bytes.first_chunk::<WORD>() else {
            return Err(DIFF_LENGTH.broken(format!("the difference has {found} bytes, no count")));
        };
        let count = u64::from(u32::from_le_bytes(*count));
        let expected = count.saturating_mul(5).saturating_add(4);
        if found as u64 != expected {
            let message = format!(
                "{count} positions and values take {expected} bytes, but the difference has {found}"
            );
            return Err(DIFF_LENGTH.broken(message));
        }
        let mut next = 0u64;
        for at in self.parts().0 {
            let at = position(at) as u64;
            if at >= self.len {
                let len = self.len;
                return Err(POSITION.broken(format!("byte {at} of a tensor of {len} bytes")));
            }
            if at < next {
                return Err(POSITION.broken(format!("byte {at} is out of order, or there twice")));
            }
            next = at.saturating_add(1);
        }
        Ok(())
    }
}

fn position(word: &[u8; WORD]) -> usize {
    usize::try_from(u32::from_le_bytes(*word)).unwrap_or(usize::MAX)
}

/// Decodes one frame, to no more than the longest difference of a tensor of `len` bytes.
fn decode_frame(
    encoding: DiffEncoding,
    stored: &[u8],
    len: u64,
    limits: &Limits,
) -> Result<Vec<u8>> {
    let most = match encoding {
        DiffEncoding::Xor => len,
        DiffEncoding::Overwrite => len.saturating_mul(5).saturating_add(4),
    };
    let mut stream = Stream::new(limits);
    let (mut out, mut from) = (Vec::new(), 0usize);
    // One byte more, to notice a difference that is longer.
    let most = usize::try_from(most).unwrap_or(usize::MAX).saturating_add(1);
    let mut filled = 0usize;
    loop {
        let room = out.len().saturating_add(STEP).min(most);
        if filled == out.len() {
            out.resize(room, 0);
        }
        let (Some(input), Some(free)) = (stored.get(from..), out.get_mut(filled..)) else { break };
        let (read, written) = stream.decode(input, free)?;
        from = from.saturating_add(read);
        filled = filled.saturating_add(written);
        if filled >= most || stream.is_whole() || (read, written) == (0, 0) {
            break;
        }
    }
    out.truncate(filled);
    if filled >= most {
        let most = most.saturating_sub(1);
        let message = format!("the difference decodes to more than {most} bytes");
        return Err(DIFF_LENGTH.broken(message));
    }
    if !stream.is_whole() || from == 0 {
        return Err(crate::codec::zstd::BROKEN.broken("the frame ends early"));
    }
    if from < stored.len() {
        let rest = stored.len().saturating_sub(from);
        return Err(DIFF_LENGTH.broken(format!("there are {rest} bytes after the frame")));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    /// Returns a frame that states a content of 2^40 bytes, and has 3.
    fn claiming(descriptor: u8, window: &[u8]) -> Vec<u8> {
        let mut out = vec![0x28, 0xB5, 0x2F, 0xFD, descriptor];
        out.extend_from_slice(window);
        out.extend_from_slice(&(1u64 << 40).to_le_bytes());
        out.extend_from_slice(&[25, 0, 0, 1, 2, 3]);
        out
    }

    fn decode(encoding: DiffEncoding, stored: &[u8], len: u64) -> Result<ByteDiff> {
        ByteDiff::decode(encoding, stored, len, &Limits::default())
    }

    #[test]
    fn differences_come_back() {
        let old: Vec<u8> = (0..700_000u32).map(|n| (n % 251) as u8).collect();
        let mut new = old.clone();
        for at in [0, 1, 7, 300_000, 699_999] {
            new[at] ^= 0x81;
        }
        for encoding in [DiffEncoding::Xor, DiffEncoding::Overwrite] {
            let diff = ByteDiff::between(encoding, &old, &new).unwrap();
            assert_eq!((diff.changed(), diff.changed_elements(2)), (5, 4));
            let back = decode(encoding, &frame(diff.bytes()), old.len() as u64).unwrap();
            assert_eq!(back, diff);
            let mut made = old.clone();
            back.apply(&mut made).unwrap();
            assert!(made == new);
            assert!(back.apply(&mut made[1..]).is_err());
        }
    }

    #[test]
    fn broken_differences_are_refused() {
        use DiffEncoding::{Overwrite, Xor};
        let overwrite = |positions: &[u32], values: usize| {
            let mut out = (positions.len() as u32).to_le_bytes().to_vec();
            positions.iter().for_each(|at| out.extend_from_slice(&at.to_le_bytes()));
            out.resize(out.len() + values, 1);
            frame(&out)
        };
        assert_eq!(decode(Overwrite, &overwrite(&[0, 9], 2), 10).unwrap().changed(), 2);
        assert_eq!(decode(Overwrite, &overwrite(&[], 0), 0).unwrap().changed(), 0);
        assert_eq!(decode(Xor, &frame(&[]), 0).unwrap().changed(), 0);
        let mut two = frame(&[0; 4]);
        two.extend(frame(&[0; 6]));
        for (encoding, stored, code) in [
            (Xor, frame(&[0; 9]), "delta/diff-length"),
            (Xor, frame(&[0; 11]), "delta/diff-length"),
            (Xor, frame(&[0; 1 << 20]), "delta/diff-length"),
            (Xor, two, "delta/diff-length"),
            (Xor, vec![1, 2, 3], "zstd/broken"),
            (Xor, frame(&[0; 10])[..8].to_vec(), "zstd/broken"),
            (Xor, Vec::new(), "zstd/broken"),
            // Frames that claim 2^40 bytes: with that as the window, and with a window of 1 KiB.
            (Xor, claiming(0xE0, &[]), "zstd/window"),
            (Xor, claiming(0xC0, &[0]), "zstd/broken"),
            (Overwrite, frame(&[1, 0]), "delta/diff-length"),
            (Overwrite, overwrite(&[0, 9], 1), "delta/diff-length"),
            (Overwrite, overwrite(&[0, 9], 3), "delta/diff-length"),
            (Overwrite, frame(&[0xFF; 4]), "delta/diff-length"),
            (Overwrite, overwrite(&[0, 10], 2), "delta/position"),
            (Overwrite, overwrite(&[3, 3], 2), "delta/position"),
            (Overwrite, overwrite(&[4, 3], 2), "delta/position"),
        ] {
            let e = decode(encoding, &stored, 10).unwrap_err();
            assert_eq!(e.code(), code, "{encoding:?} {stored:?}: {e}");
        }
    }
}
