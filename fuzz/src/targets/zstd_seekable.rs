//! A component of zstd frames decodes to the same bytes at once, as a stream in pieces, and by its seek table, or in
//! none of these ways.

use crate::frames::{is_wide_block, may_have_empty_block};
use crate::limits;
use crate::take::{Put, Take};
use holdall::{Encoding, ErrorKind, Result};
use holdall_core::codec::zstd::{Decoder, FOOTER_LEN, Stream, read_table, table_len};

/// The most bytes that are declared, less 1.
const MAX: u32 = 1 << 20;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let mut take = Take::new(data);
    let declared = (take.u32() % MAX) as usize;
    let (input_step, output_step) = (1 + take.below(200), 1 + usize::from(take.u16()));
    let stored = take.bytes(usize::MAX);
    let limits = limits::tight();
    let mut decoder = Decoder::new(&limits);
    let mut whole = vec![0; declared];
    let at_once = decoder.decode_into(stored, &mut whole);
    let streamed = stream(stored, declared, input_step, output_step);
    match (&at_once, streamed) {
        (Ok(()), Ok(Some(bytes))) => assert!(bytes == whole, "the stream gives other bytes"),
        (Ok(()), Ok(None)) => panic!("decodes to {declared} bytes at once, not as a stream"),
        // Decoding at once requires no window.
        (Ok(()), Err(e)) => {
            assert!(e.kind() == ErrorKind::Limit || is_wide_block(&e, stored), "{e}");
        }
        (Err(_), Ok(Some(_))) if may_have_empty_block(stored) => {}
        (Err(e), Ok(Some(_))) => panic!("decodes as a stream, not at once: {e}"),
        (Err(_), _) => {}
    }
    if let Some(bytes) = by_table(&mut decoder, stored, declared) {
        assert!(at_once.is_ok(), "decodes by its table, not at once");
        assert!(bytes == whole, "the seek table gives other bytes");
    }
}

/// Returns the decoded bytes if their count is as declared and the last frame is complete.
fn stream(stored: &[u8], declared: usize, step: usize, room: usize) -> Result<Option<Vec<u8>>> {
    let mut stream = Stream::new(&limits::tight());
    let mut out = Vec::new();
    let mut piece = vec![0; room];
    let (mut at, mut end) = (0, step.min(stored.len()));
    loop {
        let (read, written) = stream.decode(&stored[at..end], &mut piece)?;
        at += read;
        out.extend_from_slice(&piece[..written]);
        if out.len() > declared {
            return Ok(None);
        }
        if (read, written) == (0, 0) {
            if end == stored.len() {
                break;
            }
            end = stored.len().min(end + step);
        }
    }
    Ok((at == stored.len() && stream.is_whole() && out.len() == declared).then_some(out))
}

/// Decodes all frames of the seek table. Returns `None` if there is no table, or if a frame does not decode to its
/// share.
fn by_table(decoder: &mut Decoder, stored: &[u8], declared: usize) -> Option<Vec<u8>> {
    let footer = stored.get(stored.len().checked_sub(FOOTER_LEN as usize)?..)?;
    let len = table_len(footer, stored.len() as u64)? as usize;
    let table = &stored[stored.len() - len..];
    let table = read_table(table, stored.len() as u64, declared as u64)?;
    let mut out = vec![0; declared];
    let mut end = (0, 0);
    for frame in table.frames() {
        assert_eq!((frame.stored.start, frame.decoded.start), end, "frames follow one another");
        end = (frame.stored.end, frame.decoded.end);
        let covering = table.covering(frame.decoded.clone());
        assert!(frame.decoded.is_empty() || covering.contains(frame));
        let stored = &stored[frame.stored.start as usize..frame.stored.end as usize];
        let out = &mut out[frame.decoded.start as usize..frame.decoded.end as usize];
        decoder.decode_into(stored, out).ok()?;
    }
    assert_eq!(end, ((stored.len() - len) as u64, declared as u64), "frames tile it");
    Some(out)
}

/// Returns every compressed component.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let Some(file) = crate::open(file) else { return Vec::new() };
    let mut out = Vec::new();
    for t in file.tensors() {
        for c in t.components().filter(|c| c.encoding == Encoding::ZSTD) {
            let (Ok(decoded), Ok(stored)) = (t.bytes(&c.role), t.stored(&c.role)) else { continue };
            if decoded.len() < MAX as usize {
                let mut put = Put::default();
                put.0.extend((decoded.len() as u32).to_le_bytes());
                put.0.extend([16, 0, 1]);
                put.0.extend_from_slice(&stored);
                out.push(put.0);
            }
        }
    }
    out.extend(seekable());
    out
}

/// Returns small frames with a seek table, which Holdall writes only for long components.
fn seekable() -> Option<Vec<u8>> {
    let mut encoder = holdall_core::codec::zstd::Encoder::new(1).ok()?;
    let (mut frames, mut frame, mut stored, mut len) = (Vec::new(), Vec::new(), Vec::new(), 0u32);
    for i in 0..4u8 {
        let bytes = vec![i; 50 + usize::from(i)];
        encoder.frame(&bytes, &mut frame).ok()?;
        frames.push((frame.len() as u64, bytes.len() as u64));
        stored.extend_from_slice(&frame);
        len += bytes.len() as u32;
    }
    stored.extend(holdall_core::codec::zstd::seek_table(&frames).ok()?);
    let mut out = len.to_le_bytes().to_vec();
    out.extend([16, 0, 1]);
    out.extend(stored);
    Some(out)
}
