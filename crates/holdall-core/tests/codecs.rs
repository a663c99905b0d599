//! Properties of every codec in the list.

use holdall_core::codec::{CODECS, Codec, Decoder, SeekTable, StreamDecoder};
use holdall_core::{Encoding, Limits, Result};
use proptest::prelude::*;

/// Encodes a component like a writer: as frames of at most `frame_len` bytes with a table, or as a whole.
fn encoded(encoding: Encoding, width: u64, bytes: &[u8], frame_len: usize) -> Vec<u8> {
    let new = encoding.encoder().expect("it is written");
    let mut encoder = new(None).expect("its own level is one it has");
    let mut out = vec![1, 2, 3];
    let Some(seek) = encoding.seek_format() else {
        encoder.encode(width, bytes, &mut out).unwrap();
        return out;
    };
    let (mut stored, mut frames) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(frame_len) {
        encoder.encode(width, piece, &mut out).unwrap();
        frames.push((out.len() as u64, piece.len() as u64));
        stored.extend_from_slice(&out);
    }
    stored.extend(seek.write_table(&frames).unwrap());
    stored
}

/// Returns what `stored` decodes to, read and written in pieces of at most this many bytes.
fn streamed(
    mut stream: Box<dyn StreamDecoder>,
    stored: &[u8],
    step: usize,
    room: usize,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut piece = vec![0; room];
    let mut rest = stored;
    loop {
        let input = &rest[..rest.len().min(step)];
        let (read, mut written) = stream.decode(input, &mut piece)?;
        assert!(read <= input.len() && written <= room, "more bytes than there are");
        rest = &rest[read..];
        if (read, written) == (0, 0) && rest.is_empty() {
            written = stream.flush(&mut piece)?;
        }
        out.extend_from_slice(&piece[..written]);
        if (read, written) == (0, 0) {
            break;
        }
    }
    stream.end()?;
    assert!(rest.is_empty(), "it ends and has not read all");
    Ok(out)
}

fn at_once(encoding: Encoding, width: u64, stored: &[u8], len: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; len];
    Decoder::new(&Limits::default()).decode_into(encoding, width, stored, &mut out)?;
    Ok(out)
}

fn table(encoding: Encoding, stored: &[u8], decoded_len: usize) -> Option<SeekTable> {
    let seek = encoding.seek_format()?;
    let len = seek.table_len(stored, stored.len() as u64).expect("it was written");
    let table = &stored[stored.len() - len as usize..];
    assert!(seek.footer_len() <= len);
    let read = seek.read_table(table, stored.len() as u64, decoded_len as u64);
    assert!(seek.read_table(table, stored.len() as u64, decoded_len as u64 + 1).is_none());
    Some(read.expect("it is about these bytes"))
}

fn coded() -> impl Iterator<Item = (Encoding, &'static dyn Codec)> {
    CODECS.iter().map(|(name, codec)| (Encoding::from_name(name).unwrap(), *codec))
}

/// Bytes that codecs can compress, and others.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..3000),
        (any::<u8>(), 0usize..40_000).prop_map(|(byte, len)| vec![byte; len]),
        (0u32..9000).prop_map(|count| (0..count).flat_map(u32::to_le_bytes).collect()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn encoded_bytes_decode_in_every_way(
        bytes in bytes(),
        width in prop_oneof![Just(1u64), Just(2), Just(3), Just(4), Just(8), Just(16)],
        frame_len in 1usize..20_000,
        (step, room) in (1usize..5000, 1usize..5000),
    ) {
        for encoding in Encoding::writable().filter(|encoding| *encoding != Encoding::Raw) {
            // A limited number of frames, so that the test is fast.
            let frame_len = frame_len.max(bytes.len() / 64);
            let stored = encoded(encoding, width, &bytes, frame_len);
            prop_assert!(bytes.len() as u64 <= encoding.max_decoded_len(stored.len() as u64));
            prop_assert_eq!(&at_once(encoding, width, &stored, bytes.len()).unwrap(), &bytes);
            let stream = encoding.stream(width, &Limits::default()).unwrap();
            prop_assert_eq!(&streamed(stream, &stored, step, room).unwrap(), &bytes);
            if let Some(table) = table(encoding, &stored, bytes.len()) {
                for frame in table.frames() {
                    let (from, to) = (&frame.stored, &frame.decoded);
                    let stored = &stored[from.start as usize..from.end as usize];
                    let wanted = &bytes[to.start as usize..to.end as usize];
                    let found = at_once(encoding, width, stored, wanted.len()).unwrap();
                    prop_assert_eq!(found, wanted);
                }
            }
        }
    }

    #[test]
    fn truncated_bytes_are_an_error(bytes in bytes(), width in 1u64..9, cut in any::<prop::sample::Index>()) {
        for encoding in Encoding::writable().filter(|encoding| *encoding != Encoding::Raw) {
            // A single frame, because a table may be lost without loss of data.
            let mut stored = Vec::new();
            let mut encoder = encoding.encoder().unwrap()(None).unwrap();
            encoder.encode(width, &bytes, &mut stored).unwrap();
            if stored.is_empty() {
                continue;
            }
            let cut = &stored[..cut.index(stored.len())];
            // No bytes may also be stored as no frame.
            if bytes.is_empty() && cut.is_empty() {
                continue;
            }
            let found = at_once(encoding, width, cut, bytes.len());
            prop_assert!(found.is_err(), "{encoding}: {} of {} bytes", cut.len(), stored.len());
            let stream = encoding.stream(width, &Limits::default()).unwrap();
            let found = streamed(stream, cut, 1000, 1000);
            // No bytes are no frames; other lengths are detected if the length is known.
            let is_short = found.as_ref().is_ok_and(|found| found.len() < bytes.len());
            prop_assert!(found.is_err() || is_short || cut.is_empty(), "{encoding}");
        }
    }

    #[test]
    fn any_bytes_decode_the_same_in_every_way(
        stored in prop::collection::vec(any::<u8>(), 0..400),
        width in 0u64..9,
        (step, room) in (1usize..200, 1usize..200),
    ) {
        for (encoding, codec) in coded() {
            let stream = codec.stream(width, &Limits::default());
            let Ok(found) = streamed_any(stream, &stored, step, room) else { continue };
            let most = codec.decoded_len(stored.len() as u64).max_len();
            prop_assert!(found.len() as u64 <= most, "{encoding}: {} from {}", found.len(), stored.len());
            let whole = at_once(encoding, width, &stored, found.len());
            // zstd is stricter about empty blocks if it decodes at once.
            if encoding != Encoding::ZSTD {
                prop_assert_eq!(whole.as_ref().ok(), Some(&found), "{}", encoding);
            }
            let longer = at_once(encoding, width, &stored, found.len() + 1);
            prop_assert!(longer.is_err(), "{encoding}");
            if let Some(len) = found.len().checked_sub(1) {
                prop_assert!(at_once(encoding, width, &stored, len).is_err(), "{encoding}");
            }
        }
    }
}

/// Decodes like [`streamed`], but returns an error if bytes are left.
fn streamed_any(
    mut stream: Box<dyn StreamDecoder>,
    stored: &[u8],
    step: usize,
    room: usize,
) -> Result<Vec<u8>, ()> {
    let (mut out, mut piece, mut rest) = (Vec::new(), vec![0; room], stored);
    loop {
        let input = &rest[..rest.len().min(step)];
        let (read, mut written) = stream.decode(input, &mut piece).map_err(drop)?;
        rest = &rest[read..];
        if (read, written) == (0, 0) && rest.is_empty() {
            written = stream.flush(&mut piece).map_err(drop)?;
        }
        out.extend_from_slice(&piece[..written]);
        if (read, written) == (0, 0) {
            break;
        }
    }
    stream.end().map_err(drop)?;
    if rest.is_empty() { Ok(out) } else { Err(()) }
}

#[test]
fn read_only_codecs_decode_files_of_other_writers() {
    // The same text, encoded by other programs.
    let abc = b"abc";
    let deflate = [0x4b, 0x4c, 0x4a, 0x06, 0x00];
    let zlib = [&[0x78, 0x9c][..], &deflate, &[0x02, 0x4d, 0x01, 0x27]].concat();
    // 0x6162 + 0x6300, and the sum of that and 0x6162.
    let summed = [b'a', b'b', b'c', 0x62, 0xc4, 0xc5, 0x25];
    let cases: [(&str, &[u8]); 5] = [
        ("deflate", &deflate),
        ("zlib", &zlib),
        ("lzf", b"\x02abc"),
        ("shuffle", abc),
        ("fletcher32", &summed),
    ];
    for (name, stored) in cases {
        let encoding = Encoding::from_name(name).unwrap();
        assert_eq!(at_once(encoding, 1, stored, 3).unwrap(), abc, "{name}");
        assert!(!encoding.is_writable(), "{name} is written: it belongs to the other tests");
        assert_eq!(
            streamed(encoding.stream(1, &Limits::default()).unwrap(), stored, 2, 2).unwrap(),
            abc
        );
    }
    // Bytes 0 and 1 of the elements are stored together.
    let shuffle = Encoding::from_name("shuffle").unwrap();
    assert_eq!(at_once(shuffle, 2, &[1, 3, 2, 4], 4).unwrap(), [1, 2, 3, 4]);
    assert_eq!(at_once(shuffle, 1, &[1, 3, 2, 4], 4).unwrap(), [1, 3, 2, 4]);
}

#[test]
fn memory_is_held_to_limits() {
    let mut limits = Limits::default();
    (limits.decoded_len, limits.expansion) = (1000, 1);
    // A run of one byte, and copies of 264.
    let stored = [&[0, 7][..], &[0xe0, 0xff, 0].repeat(20)].concat();
    let stream = Encoding::from_name("lzf").unwrap().stream(1, &limits).unwrap();
    assert!(streamed(stream, &stored, 7, 7).is_err());
}

/// The checksum of bytes that are not the same in both halves, as HDF5 1.8 computes it, and in each order of its bytes.
#[test]
fn fletcher32_is_read_in_two_orders_of_its_bytes_and_in_no_other() {
    let content = b"holdall";
    let sum = {
        // Sums of big-endian 16-bit words modulo 65,535, an odd byte at the end as the high one of a word.
        let words =
            content.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |b| u32::from(*b)));
        let (a, b) = words.fold((0, 0), |(a, b), word| {
            let a = (a + word) % 65535;
            (a, (b + a) % 65535)
        });
        (b << 16 | a).to_le_bytes()
    };
    assert_eq!(sum.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{sum:?}");
    let read = |order: [usize; 4]| {
        let stored = [&content[..], &order.map(|i| sum[i])].concat();
        at_once(Encoding::from_name("fletcher32").unwrap(), 1, &stored, content.len())
    };
    for order in [[0, 1, 2, 3], [1, 0, 3, 2]] {
        assert_eq!(read(order).unwrap(), content, "{order:?}");
    }
    for order in [[3, 2, 1, 0], [2, 3, 0, 1], [1, 0, 2, 3], [0, 1, 3, 2], [0, 2, 1, 3]] {
        assert!(read(order).is_err(), "{order:?}");
    }
}
