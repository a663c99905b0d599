//! Decoding at once and as a stream detects the same errors.

use holdall_core::codec::zstd::{Decoder, Encoder, Stream};
use holdall_core::{Limits, Result};

/// Returns what the frames decode to as a stream, `step` bytes at a time.
fn stream(stored: &[u8], step: usize) -> Result<Vec<u8>> {
    let mut stream = Stream::new(&Limits::default());
    let (mut out, mut piece) = (Vec::new(), vec![0; step]);
    let mut rest = stored;
    loop {
        let (read, written) = stream.decode(&rest[..step.min(rest.len())], &mut piece)?;
        out.extend_from_slice(&piece[..written]);
        rest = &rest[read..];
        if (read, written) == (0, 0) && rest.is_empty() {
            assert!(stream.is_whole());
            return Ok(out);
        }
    }
}

/// zstd itself does not check the stated length if the last block is empty.
#[test]
fn a_frame_that_states_another_length_is_broken() {
    // Magic; one segment, checksum, a length of two bytes (minus 256); the last, empty block; checksum.
    let frame = |stated: u8| {
        [&b"\x28\xb5\x2f\xfd\x24"[..], &[stated], b"\x01\0\0\x99\xe9\xd8\x51"].concat()
    };
    for step in [1, 3, 100_000] {
        assert!(stream(&frame(0), step).unwrap().is_empty());
        assert_eq!(stream(&frame(254), step).unwrap_err().code(), "zstd/broken");
        let two = [frame(0), frame(1)].concat();
        assert_eq!(stream(&two, step).unwrap_err().code(), "zstd/broken");
    }
    Decoder::new(&Limits::default()).decode_into(&frame(0), &mut []).unwrap();
    let e = Decoder::new(&Limits::default()).decode_into(&frame(254), &mut []).unwrap_err();
    assert_eq!(e.code(), "zstd/broken");
}

#[test]
fn frames_of_all_lengths_and_skippable_ones_are_whole() {
    let mut encoder = Encoder::new(1).unwrap();
    let (mut stored, mut bytes, mut frame) = (Vec::new(), Vec::new(), Vec::new());
    for len in [0, 1, 255, 256, 70_000, 300_000] {
        let own: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        encoder.frame(&own, &mut frame).unwrap();
        stored.extend_from_slice(&frame);
        stored.extend_from_slice(b"\x5e\x2a\x4d\x18\x03\0\0\0abc");
        bytes.extend_from_slice(&own);
    }
    for step in [1, 7, 1000, 1 << 20] {
        assert!(stream(&stored, step).unwrap() == bytes, "{step} at a time");
    }
}

#[test]
fn a_window_up_to_the_limit_is_allowed() {
    // Magic; no length, a window of 2^22 bytes; the last block, which is one byte.
    let frame = b"\x28\xb5\x2f\xfd\0\x60\x09\0\0x";
    let decode = |log: u32| {
        let mut limits = Limits::default();
        limits.zstd_window_log = log;
        let mut out = [0];
        Stream::new(&limits).decode(frame, &mut out).map(|_| out)
    };
    assert_eq!(decode(22).unwrap(), *b"x");
    let e = decode(21).unwrap_err();
    assert!(e.to_string().contains("more than 2^21 bytes"), "{e}");
    // Limits that zstd does not have are replaced by the nearest.
    assert!(decode(1).is_err());
    assert_eq!(decode(99).unwrap(), *b"x");
}
