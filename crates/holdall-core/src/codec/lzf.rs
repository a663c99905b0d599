//! LZF, as h5py writes it.

use super::pipeline::{BROKEN, broken};
use super::{Codec, Collected, DecodedLen, StreamDecoder};
use crate::error::{Result, Rule};
use crate::limits::Limits;

/// The codec for one block of LZF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lzf;

impl Codec for Lzf {
    /// Three bytes encode up to 264.
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        DecodedLen::AtMost(stored_len.saturating_mul(88))
    }

    fn stream(&self, _: u64, limits: &Limits) -> Box<dyn StreamDecoder> {
        Collected::stream(limits, unlzf)
    }

    fn decode_chunk(&self, stored: &[u8], _: usize, most: usize) -> Result<Vec<u8>> {
        unlzf(stored, most)
    }

    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    fn length_rule(&self) -> &'static Rule {
        &BROKEN
    }
}

/// Decodes LZF: runs of bytes, and copies of earlier ones.
fn unlzf(stored: &[u8], most: usize) -> Result<Vec<u8>> {
    let short = || broken("the stored bytes end inside an LZF run".to_owned());
    let mut out: Vec<u8> = Vec::with_capacity(most.min(stored.len().saturating_mul(88)));
    let mut rest = stored;
    while let Some((&control, after)) = rest.split_first() {
        rest = after;
        let control = usize::from(control);
        if control < 32 {
            let (run, after) = rest.split_at_checked(control + 1).ok_or_else(short)?;
            out.extend_from_slice(run);
            rest = after;
        } else {
            let mut len = control >> 5;
            if len == 7 {
                let (&more, after) = rest.split_first().ok_or_else(short)?;
                (len, rest) = (len + usize::from(more), after);
            }
            let (&low, after) = rest.split_first().ok_or_else(short)?;
            rest = after;
            let back = ((control & 31) << 8) + usize::from(low) + 1;
            let from = out.len().checked_sub(back);
            let from =
                from.ok_or_else(|| broken("an LZF copy starts before the beginning".to_owned()))?;
            for at in from..from + len + 2 {
                out.push(out[at]);
            }
        }
        if out.len() > most {
            return Err(broken(format!("decodes to more than {most} bytes")));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_may_overlap_themselves() {
        // "aaaaaaaaaa" and "b": a run of one, a copy of nine from one back, a run of one.
        assert_eq!(unlzf(&[0, b'a', 0xe0, 0, 0, 0, b'b'], 20).unwrap(), b"aaaaaaaaaab");
        assert_eq!(unlzf(&[0x20, 0], 20).unwrap_err().code(), "chunks/broken");
    }

    #[test]
    fn at_most_the_allowed_bytes_are_decoded() {
        let stored = [1, b'a', b'b', 0, b'c'];
        assert_eq!(unlzf(&stored, 3).unwrap(), b"abc");
        let error = unlzf(&stored, 1).unwrap_err();
        assert_eq!(error.code(), "chunks/broken");
        assert!(error.to_string().contains("more than 1 bytes"), "{error}");
        assert!(unlzf(&stored, 2).is_err());
    }
}
