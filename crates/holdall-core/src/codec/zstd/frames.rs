//! Decoding and encoding frames with the zstd library.

use super::{BROKEN, ENCODE, LENGTH, WINDOW};
use crate::codec::Checksums;
use crate::error::{Error, Result};
use crate::limits::Limits;
use holdall_collections::DebugUnwrap;
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};

/// The maximum length of a frame's header in bytes.
const HEADER_MAX: usize = 18;

/// A decoder that reuses its tables. They are created for the first frame, because many decoders never decode one.
pub struct Decoder {
    context: Option<DCtx<'static>>,
    checksums: Checksums,
    limits: Limits,
}

impl Decoder {
    /// Creates a decoder that limits decoded lengths.
    pub fn new(limits: &Limits) -> Decoder {
        Decoder { context: None, checksums: Checksums::Compare, limits: limits.clone() }
    }

    fn context(&mut self) -> &mut DCtx<'static> {
        self.context.get_or_insert_with(|| {
            let mut context = DCtx::create();
            // The value is in zstd's range, so this cannot fail.
            let _ = context.set_parameter(DParameter::WindowLogMax(window_log(&self.limits)));
            apply(&mut context, self.checksums);
            context
        })
    }

    /// Sets whether frames are compared with zstd's own checksum of the decoded bytes, which takes about a twelfth of
    /// the decoding time. By default they are. Checksums can be ignored if a digest of the stored bytes is compared
    /// anyway, or if the caller wants no checks.
    pub fn set_checksums(&mut self, checksums: Checksums) {
        self.checksums = checksums;
        if let Some(context) = &mut self.context {
            apply(context, checksums);
        }
    }

    /// Decodes whole frames into exactly `out`.
    ///
    /// # Errors
    /// Returns [`BROKEN`] if the frames are malformed, [`WINDOW`] if one exceeds the limit, and [`LENGTH`] if they do
    /// not decode to the length of `out`.
    pub fn decode_into(&mut self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let (wanted, log) = (out.len(), self.limits.zstd_window_log);
        let found =
            self.context().decompress(out, stored).map_err(|code| explain(code, wanted, log))?;
        if found != wanted {
            return Err(LENGTH.broken(format!("decodes to {found} bytes, declared {wanted}")));
        }
        Ok(())
    }
}

fn apply(context: &mut DCtx<'static>, checksums: Checksums) {
    // The parameter exists in every zstd version that the bindings support.
    let ignore = checksums == Checksums::Ignore;
    let _ = context.set_parameter(DParameter::ForceIgnoreChecksum(ignore));
}

/// Decodes frames incrementally; memory is only zstd's window.
pub struct Stream {
    decoder: Decoder,
    /// Whether the input so far ends at the end of a frame.
    whole: bool,
    /// The first bytes of the frame: enough for its header.
    head: Vec<u8>,
    /// The number of bytes that the frame decoded to so far.
    decoded: u64,
}

impl Stream {
    /// Creates a stream.
    pub fn new(limits: &Limits) -> Stream {
        Stream { decoder: Decoder::new(limits), whole: true, head: Vec::new(), decoded: 0 }
    }

    /// Decodes from `input` into `out`, and returns how many bytes of each were used. `(0, 0)` means that more input is
    /// needed.
    ///
    /// # Errors
    /// Returns [`BROKEN`] if the input is malformed, and [`WINDOW`] if a frame exceeds the limit.
    pub fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize)> {
        if input.is_empty() && self.whole {
            return Ok((0, 0));
        }
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around(out);
        let log = self.decoder.limits.zstd_window_log;
        let left = self
            .decoder
            .context()
            .decompress_stream(&mut to, &mut from)
            .map_err(|code| explain_stream(code, log))?;
        let done = (from.pos(), to.pos());
        if done != (0, 0) {
            self.note(input.get(..done.0).debug_unwrap(), done.1);
            self.whole = left == 0;
            if self.whole {
                self.check_frame()?;
            }
        }
        Ok(done)
    }

    /// Records what was read and how much was written. zstd stops at the end of a frame, so both belong to one frame.
    fn note(&mut self, read: &[u8], written: usize) {
        if self.whole {
            self.head.clear();
            self.decoded = 0;
        }
        let missing = HEADER_MAX.saturating_sub(self.head.len()).min(read.len());
        self.head.extend_from_slice(read.get(..missing).debug_unwrap());
        self.decoded = self.decoded.saturating_add(written as u64);
    }

    /// Compares the length that a frame states with its actual length. zstd does this itself if it decodes a frame at
    /// once, but not for a stream whose last block is empty.
    fn check_frame(&self) -> Result<()> {
        match zstd_safe::get_frame_content_size(&self.head) {
            Ok(Some(stated)) if stated != self.decoded => {
                let found = self.decoded;
                Err(BROKEN.broken(format!("a frame states {stated} bytes, but decodes to {found}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if the input so far ends at the end of a frame.
    pub fn is_whole(&self) -> bool {
        self.whole
    }
}

fn explain(code: usize, wanted: usize, log: u32) -> Error {
    let name = zstd_safe::get_error_name(code);
    if name.contains("Destination buffer is too small") {
        return LENGTH.broken(format!("decodes to more than the declared {wanted} bytes"));
    }
    explain_stream(code, log)
}

/// Returns the limit within the range of zstd, which ignores other values.
fn window_log(limits: &Limits) -> u32 {
    let most = if cfg!(target_pointer_width = "32") { 30 } else { 31 };
    limits.zstd_window_log.clamp(10, most)
}

fn explain_stream(code: usize, log: u32) -> Error {
    let name = zstd_safe::get_error_name(code);
    if name.contains("requires too much memory") {
        return WINDOW.broken(format!("a frame requires a window of more than 2^{log} bytes"));
    }
    BROKEN.broken(format!("zstd error: {name}"))
}

/// A compressor that reuses its tables. Every frame states its content size and has a checksum.
pub struct Encoder {
    context: CCtx<'static>,
}

impl Encoder {
    /// Creates a compressor with this level. At negative levels, literals are compressed too.
    ///
    /// # Errors
    /// Returns [`ENCODE`] if zstd does not have the level.
    pub fn new(level: i32) -> Result<Encoder> {
        let levels = zstd::compression_level_range();
        if !levels.contains(&level) {
            return Err(ENCODE.broken(format!(
                "invalid level {level}: expected {} to {}",
                levels.start(),
                levels.end()
            )));
        }
        let mut context = CCtx::create();
        for parameter in [
            CParameter::CompressionLevel(level),
            CParameter::ChecksumFlag(true),
            CParameter::ContentSizeFlag(true),
        ] {
            context.set_parameter(parameter).map_err(refused)?;
        }
        if level < 0 {
            // At these levels zstd finds hardly any matches. Without this, it would not compress literals either.
            let literals = zstd_safe::ParamSwitch::Enable;
            context.set_parameter(CParameter::LiteralCompressionMode(literals)).map_err(refused)?;
        }
        Ok(Encoder { context })
    }

    /// Replaces the contents of `out` with one frame of `bytes`.
    ///
    /// # Errors
    /// Returns [`ENCODE`] if the library fails (out of memory).
    pub fn frame(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.reserve(zstd_safe::compress_bound(bytes.len()));
        self.context.compress2(out, bytes).map_err(refused)?;
        Ok(())
    }
}

fn refused(code: usize) -> Error {
    ENCODE.broken(format!("zstd error: {}", zstd_safe::get_error_name(code)))
}
