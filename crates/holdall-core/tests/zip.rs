//! Directories of zips: many entries, and only the necessary fetches.

use crate::zip_files::zip::{Entry, Zip};
use holdall_core::wire::zip::{Directory, EntryKind, Method};
use holdall_core::{Bytes, Limits, Stop, Window};
use std::ops::Range;

/// Returns the result of `of` in a window that only contains what it requested, and the requests of each round.
fn by_ranges<T>(
    bytes: &Bytes,
    of: impl Fn(&Window) -> Result<T, Stop>,
) -> (T, Vec<Vec<Range<u64>>>) {
    let mut window = Window::new(bytes.len() as u64);
    let mut asked = Vec::new();
    loop {
        match of(&window) {
            Ok(found) => return (found, asked),
            Err(Stop::Fail(e)) => panic!("{e}"),
            Err(Stop::Need(ranges)) => {
                for range in &ranges {
                    let part = bytes.slice(range.start as usize..range.end as usize);
                    window.add(range.start, part);
                }
                asked.push(ranges);
                assert!(asked.len() < 10, "{asked:?}");
            }
        }
    }
}

#[test]
fn many_entries_are_read_from_the_end_of_the_file() {
    const COUNT: usize = 100_000;
    let mut zip = Zip { zip64: true, saturated: true, ..Zip::default() };
    // Not in the order of their names.
    zip.entries =
        (0..COUNT).map(|i| Entry::new(&format!("model/{}", i * 7919 % COUNT), b"x")).collect();
    let built = zip.build();
    let bytes = Bytes::from(built.bytes);
    let (directory, asked) =
        by_ranges(&bytes, |window| Directory::read(window, &Limits::default()));
    assert_eq!(directory.len(), COUNT);
    let asked: u64 = asked.iter().flatten().map(|range| range.end - range.start).sum();
    assert!(asked <= (bytes.len() - built.directory) as u64 + 200, "{asked}");
    for i in [0, 1, 4711, COUNT - 1] {
        let entry = directory.get(&format!("model/{i}")).expect("the entry exists");
        assert_eq!((entry.kind(), entry.method()), (EntryKind::File, Method::Stored));
        assert_eq!(entry.position() * 7919 % COUNT, i);
    }
    assert!(directory.get("model/").is_none());
    assert!(directory.get("model/100000").is_none());

    // All headers are requested at once; those with long extra fields a second time, again at once.
    let entries: Vec<_> = directory.entries().collect();
    let (places, asked) = by_ranges(&bytes, |window| directory.data_of_all(&entries, window));
    assert_eq!((places.len(), asked.len()), (COUNT, 1));
    assert!(places.iter().all(|place| bytes[place.start as usize..place.end as usize] == *b"x"));
}

#[test]
fn long_headers_are_asked_for_twice_and_no_more() {
    let mut zip = Zip::default();
    for i in 0..20 {
        let mut entry = Entry::new(&format!("{i}"), b"content");
        entry.local_extra = vec![0; 1000 * (i % 2)];
        zip.entries.push(entry);
    }
    let bytes = Bytes::from(zip.build().bytes);
    let limits = Limits::default();
    let (directory, _) = by_ranges(&bytes, |window| Directory::read(window, &limits));
    let entries: Vec<_> = directory.entries().collect();
    let (_, asked) = by_ranges(&bytes, |window| directory.data_of_all(&entries, window));
    assert_eq!(asked.iter().map(Vec::len).collect::<Vec<_>>(), [20, 10]);
    let (all, asked) = by_ranges(&bytes, |window| directory.contents(&entries, window, &limits));
    assert!(all.iter().all(|content| &content[..] == b"content") && asked.len() <= 3, "{asked:?}");
}

#[test]
fn entries_report_their_kind() {
    let mut zip = Zip::default();
    let mut link = Entry::new("link", b"target");
    link.mode = 0o120_777;
    let mut dos = Entry::new("dos", b"12345");
    // The mode of a device means nothing if another system wrote the entry.
    (dos.system, dos.mode) = (0, 0o020_000);
    dos.deflate();
    zip.entries = vec![Entry::new("folder/", b""), link, dos];
    let bytes = Bytes::from(zip.build().bytes);
    let directory = Directory::read(&Window::whole(bytes), &Limits::default()).unwrap();
    let listed: Vec<_> = directory
        .entries()
        .map(|e| (e.name(), e.kind(), e.method(), e.stored_len(), e.decoded_len()))
        .collect();
    let expected = [
        ("folder/", EntryKind::Folder, Method::Stored, 0, 0),
        ("link", EntryKind::Symlink, Method::Stored, 6, 6),
        ("dos", EntryKind::File, Method::Deflate, 10, 5),
    ];
    assert_eq!(listed, expected);
}

/// Returns the reader's message for a zip that `change` has broken.
fn error_after(change: impl Fn(&mut Vec<u8>, usize)) -> String {
    let mut zip = Zip { zip64: true, ..Zip::default() };
    zip.entries.push(Entry::new("a", b"content"));
    let built = zip.build();
    let mut bytes = built.bytes;
    change(&mut bytes, built.directory);
    let len = bytes.len() as u64;
    let mut window = Window::new(len);
    window.add(0, bytes.into());
    match Directory::read(&window, &Limits::default()) {
        Err(Stop::Fail(e)) => e.message().to_owned(),
        _ => panic!("it was read"),
    }
}

#[test]
fn messages_explain_the_error() {
    let message = error_after(|bytes, _| {
        let at = bytes.len() - 12;
        bytes[at..at + 2].copy_from_slice(&[7, 0]);
    });
    assert_eq!(message, "entries in total: 7 in the end record, but 1 in the zip64 end record");
    let message = error_after(|bytes, directory| bytes[directory + 8] |= 1 << 5);
    assert_eq!(message, "entry `a`: the bytes are a patch of other bytes (bit 5 of the flags)");
}
