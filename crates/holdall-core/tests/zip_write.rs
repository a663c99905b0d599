//! Written zips are read back unchanged, even if numbers need 64 bits.

use holdall_core::wire::zip::write::{ALIGN, Entry, directory, local_header};
use holdall_core::wire::zip::{Directory, EntryKind, Method};
use holdall_core::{Limits, Window};

/// Returns a zip with entries of these names and lengths, of which only the records are available.
fn read(entries: &[(&str, Method, u64)]) {
    let mut parts = Vec::new();
    let mut all = Vec::new();
    let mut end = 0u64;
    for (name, method, len) in entries {
        let stored_len = if *method == Method::Stored { *len } else { len / 2 };
        let entry = Entry {
            name: (*name).to_owned(),
            kind: EntryKind::File,
            is_executable: false,
            method: *method,
            crc: 0x1234_5678,
            stored_len,
            len: *len,
            offset: end,
            flags: None,
        };
        // The length is the same whatever is not known yet.
        let early = local_header(&Entry { crc: 0, stored_len: 0, ..entry.clone() });
        let header = local_header(&entry);
        assert_eq!(early.len(), header.len());
        let data = end + header.len() as u64;
        assert_eq!(data % ALIGN, 0, "{name}");
        parts.push((end, header));
        all.push((entry, data));
        end = data + stored_len;
    }
    let written: Vec<Entry> = all.iter().map(|(entry, _)| entry.clone()).collect();
    let tail = directory(&written, end);
    let mut window = Window::new(end + tail.len() as u64);
    window.add(end, tail.into());
    let limits = Limits::default();
    let found = Directory::read(&window, &limits).unwrap();
    assert_eq!(found.len(), all.len());
    // Checking each of very many would be slow, and find nothing else.
    for (entry, data) in all.into_iter().take(100) {
        let read = found.get(&entry.name).unwrap();
        assert_eq!(
            (read.method(), read.crc32(), read.kind()),
            (entry.method, entry.crc, entry.kind)
        );
        assert_eq!((read.stored_len(), read.decoded_len()), (entry.stored_len, entry.len));
        let (at, header) = parts.iter().find(|(at, _)| *at == entry.offset).unwrap();
        // The bytes after the header are zeros here.
        let room = found.header(read).end.min(end).max(data) - at;
        let mut bytes = header.clone();
        bytes.resize(room as usize, 0);
        let mut window = Window::new(window.len());
        window.add(*at, bytes.into());
        assert_eq!(found.data(read, &window).unwrap(), data..data + entry.stored_len);
    }
}

#[test]
fn records_come_back() {
    let deflate = Method::Deflate;
    read(&[]);
    read(&[("a", Method::Stored, 0), ("b/ü", Method::Zstd, 10), ("c", deflate, 3)]);
    for len in 0..70 {
        // Every distance to the next multiple of 64.
        let name = "x".repeat(1 + len as usize);
        read(&[(&name, Method::Stored, len), ("z", Method::Stored, 1)]);
    }
}

#[test]
fn numbers_of_64_bits_come_back() {
    let long = [0xffff_fffe, 0xffff_ffff, 0x1_0000_0000, 5 << 30];
    for len in long {
        read(&[("a", Method::Stored, len), ("b", Method::Zstd, 7), ("c", Method::Zstd, len)]);
    }
    let names: Vec<String> = (0..70_000).map(|i| format!("{i:05}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), Method::Stored, 1)).collect();
    read(&many[..0xfffe]);
    read(&many[..0xffff]);
    read(&many);
}
