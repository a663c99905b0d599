//! Ranges of compressed components, read from the frames that contain them.

use crate::make::{copied, dense, file, noise, part};
use holdall::{DType, File, Role};
use holdall_core::codec::{FRAME_LEN, SINGLE_FRAME_MAX};

const LEN: u64 = SINGLE_FRAME_MAX + 2 * FRAME_LEN + 1234;

/// Returns bytes that compress, but not to nothing: repeated runs of noise.
fn bytes() -> Vec<u8> {
    let unit = noise(3000, 5);
    (0..LEN as usize).map(|i| unit[(i * 7 + i / 4096) % unit.len()]).collect()
}

fn sources(made: File) -> [File; 2] {
    [copied(&made), made]
}

#[test]
fn a_range_equals_that_part_of_the_whole() {
    let whole = bytes();
    let data = part(Role::Data, DType::U8, whole.clone()).zstd();
    for file in sources(file("ztensor@1.2.0", &[dense("w", &[LEN], data)])) {
        let tensor = file.tensor("w").unwrap();
        for (start, end) in [
            (0, 0),
            (0, 1),
            (0, FRAME_LEN),
            (1, FRAME_LEN + 1),
            (FRAME_LEN - 1, FRAME_LEN + 1),
            (FRAME_LEN, 2 * FRAME_LEN),
            (FRAME_LEN + 17, FRAME_LEN + 400_000),
            (FRAME_LEN / 2, 3 * FRAME_LEN - 5),
            (3, LEN),
            (LEN - 1234, LEN),
            (LEN - 1235, LEN - 1),
            (LEN, LEN),
        ] {
            let found = tensor.bytes_range(&Role::Data, start..end).unwrap();
            assert!(found[..] == whole[start as usize..end as usize], "{start}..{end}");
        }
    }
}

#[test]
fn several_ranges_equal_those_parts_of_the_whole() {
    let whole = bytes();
    let data = part(Role::Data, DType::U8, whole.clone()).zstd();
    for file in sources(file("ztensor@1.2.0", &[dense("w", &[LEN], data)])) {
        let tensor = file.tensor("w").unwrap();
        for ranges in [
            // In one frame, across two, in separate ones, and empty.
            vec![1..5, 5..9, 100..200],
            vec![FRAME_LEN - 7..FRAME_LEN + 7, FRAME_LEN + 8..FRAME_LEN + 9],
            vec![0..1, 2 * FRAME_LEN..2 * FRAME_LEN + 3, LEN - 1..LEN],
            vec![3..3, FRAME_LEN..FRAME_LEN, LEN - 9..LEN, LEN..LEN],
            vec![0..FRAME_LEN / 2, FRAME_LEN / 2..3 * FRAME_LEN, 3 * FRAME_LEN..LEN],
            vec![],
        ] {
            let found = tensor.bytes_ranges(&Role::Data, &ranges).unwrap();
            assert_eq!(found.len(), ranges.len(), "{ranges:?}");
            for (found, range) in found.iter().zip(&ranges) {
                let wanted = &whole[range.start as usize..range.end as usize];
                assert!(found[..] == *wanted, "{range:?} of {ranges:?}");
            }
        }
    }
}

/// Returns the file with the component's stored bytes changed from frame `at` on.
fn damaged(at: usize, damage: impl Fn(&mut [u8])) -> [File; 2] {
    let mut data = part(Role::Data, DType::U8, bytes()).zstd();
    let len = data.stored.len() as u64;
    let table =
        holdall_core::codec::zstd::table_len(&data.stored[data.stored.len() - 9..], len).unwrap();
    let read = &data.stored[(len - table) as usize..];
    let frames = holdall_core::codec::zstd::read_table(read, len, LEN).unwrap();
    let stored = &frames.frames()[at].stored;
    damage(&mut data.stored[stored.start as usize..stored.end as usize]);
    sources(file("ztensor@1.2.0", &[dense("w", &[LEN], data)]))
}

#[test]
fn a_frame_that_is_decoded_to_its_end_is_held_against_its_checksum() {
    for file in damaged(2, |frame| *frame.last_mut().unwrap() ^= 1) {
        let tensor = file.tensor("w").unwrap();
        let read = |range| tensor.bytes_range(&Role::Data, range).map_err(|e| e.code());
        let (start, end) = (2 * FRAME_LEN, 3 * FRAME_LEN);
        assert_eq!(read(start + 5..end), Err("zstd/broken"));
        assert_eq!(read(start + 5..end + 5), Err("zstd/broken"));
        assert_eq!(read(5..LEN), Err("zstd/broken"));
        // For all bytes the digest is compared, which is right here, and covers the frames.
        assert!(read(0..LEN).is_ok());
        // Only the start of the frame is read: right, and its checksum is not reached.
        let whole = bytes();
        assert!(read(start + 5..start + 9).unwrap()[..] == whole[start as usize + 5..][..4]);
        // Other frames are unchanged.
        assert!(read(end..end + 7).unwrap()[..] == whole[end as usize..][..7]);
    }
}

#[test]
fn frames_of_another_length_than_the_table_says_are_refused() {
    // Replaces frame 2 by one of the same stored length that decodes to less: a raw block with the remaining
    // bytes.
    let shorter = |frame: &mut [u8]| {
        let body = frame.len() - 12;
        frame[..4].copy_from_slice(&0xfd2f_b528u32.to_le_bytes());
        // No checksum, single segment, a content size of 4 bytes; then one block, raw and the last.
        frame[4] = 0xa0;
        frame[5..9].copy_from_slice(&(body as u32).to_le_bytes());
        frame[9..12].copy_from_slice(&((body as u32) << 3 | 1).to_le_bytes()[..3]);
    };
    for file in damaged(2, shorter) {
        let tensor = file.tensor("w").unwrap();
        let (start, end) = (2 * FRAME_LEN, 3 * FRAME_LEN);
        for range in [end - 9..end, start + 5..end + 5, 0..LEN] {
            let e = tensor.bytes_range(&Role::Data, range).unwrap_err();
            assert_eq!(e.code(), "zstd/length", "{e}");
        }
    }
}
