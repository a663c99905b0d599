//! Limits of decoded lengths.

use crate::error::{Remedy, Result};
use crate::limits::Limits;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A component decodes to more bytes than the caller allows.
    pub DECODED_LEN: Limit "zstd/decoded-len"
        "Compressed components decode to at most `Limits::decoded_len` bytes, or `Limits::expansion` times their stored bytes if that is more. This holds for each of them, and for all that are loaded at once."
        remedies [RaiseLimit { limit: "decoded_len", at_least: None }];
}

/// Returns the maximum decoded length of `stored_len` bytes: `Limits::decoded_len`, or `Limits::expansion` times the
/// stored length if that is more.
pub fn max_decoded_len(stored_len: u64, limits: &Limits) -> u64 {
    limits.decoded_len.max(stored_len.saturating_mul(limits.expansion))
}

/// Checks that `stored_len` bytes may be decoded to `len` bytes.
///
/// # Errors
/// Returns [`DECODED_LEN`] if `len` exceeds the limit.
pub fn check_decoded_len(len: u64, stored_len: u64, limits: &Limits) -> Result<()> {
    let most = max_decoded_len(stored_len, limits);
    if len > most {
        let message = format!(
            "{stored_len} stored bytes decode to {len} bytes, which exceeds the limit of {most}"
        );
        let raise = Remedy::RaiseLimit { limit: "decoded_len", at_least: Some(len) };
        return Err(DECODED_LEN.broken(message).with_remedy(raise));
    }
    Ok(())
}
