//! Checkpoints of TensorFlow made byte by byte, and those that break a rule each.
#![allow(dead_code)] // Each user takes some of it.

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    })
}

pub(crate) fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

pub(crate) fn varint(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out
}

pub(crate) fn int(number: u64, n: u64) -> Vec<u8> {
    [varint(number << 3), varint(n)].concat()
}

pub(crate) fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A block of those entries, whose keys share nothing.
pub(crate) fn block(entries: &[(Vec<u8>, Vec<u8>)], kind: u8) -> Vec<u8> {
    let mut out: Vec<u8> = entries
        .iter()
        .flat_map(|(key, value)| {
            let lens = [varint(0), varint(key.len() as u64), varint(value.len() as u64)].concat();
            [lens, key.clone(), value.clone()].concat()
        })
        .collect();
    out.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    out.push(kind);
    out.extend(masked(&out).to_le_bytes());
    out
}

pub(crate) fn block_handle(start: usize, block: &[u8]) -> Vec<u8> {
    [varint(start as u64), varint(block.len() as u64 - 5)].concat()
}

/// A table of those blocks.
pub(crate) fn table(blocks: &[Vec<u8>]) -> Vec<u8> {
    let (mut out, mut index) = (Vec::new(), Vec::new());
    for (at, block) in blocks.iter().enumerate() {
        index.push((vec![0xff, at as u8], block_handle(out.len(), block)));
        out.extend(block);
    }
    finish(out, &index)
}

/// With an index of those entries.
fn finish(mut out: Vec<u8>, index: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut footer = Vec::new();
    for block in [block(&[], 0), block(index, 0)] {
        footer.extend(block_handle(out.len(), &block));
        out.extend(block);
    }
    footer.resize(40, 0);
    out.extend(footer);
    out.extend(0xdb47_7524_8b80_fb57_u64.to_le_bytes());
    out
}

pub(crate) fn header(shards: u64, big: bool) -> (Vec<u8>, Vec<u8>) {
    let mut value = [int(1, shards), field(3, &int(1, 1))].concat();
    if big {
        value.extend(int(2, 1));
    }
    (Vec::new(), value)
}

pub(crate) fn shape(dims: &[u64]) -> Vec<u8> {
    dims.iter().flat_map(|dim| field(2, &int(1, *dim))).collect()
}

/// An entry whose elements are `data`, at `start` of file number `shard`.
pub(crate) fn entry(
    name: &str,
    of: u64,
    dims: &[u64],
    shard: u64,
    start: u64,
    data: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let crc = [varint(6 << 3 | 5), masked(data).to_le_bytes().to_vec()].concat();
    let value = [
        int(1, of),
        field(2, &shape(dims)),
        int(3, shard),
        int(4, start),
        int(5, data.len() as u64),
        crc,
    ];
    (name.as_bytes().to_vec(), value.concat())
}

/// An entry that is put together of slices: from where, and how many, in each dimension.
pub(crate) fn sliced(
    name: &str,
    of: u64,
    dims: &[u64],
    slices: &[&[(u64, u64)]],
) -> (Vec<u8>, Vec<u8>) {
    let slice = |extents: &&[(u64, u64)]| {
        let all = extents
            .iter()
            .flat_map(|(start, len)| field(1, &[int(1, *start), int(2, *len)].concat()));
        field(7, &all.collect::<Vec<u8>>())
    };
    let value = [int(1, of), field(2, &shape(dims)), slices.iter().flat_map(slice).collect()];
    (name.as_bytes().to_vec(), value.concat())
}

/// The key of a slice whose numbers are below 64.
pub(crate) fn slice_key(name: &str, extents: &[(u64, u64)]) -> Vec<u8> {
    let mut out = [&[0][..], name.as_bytes(), &[0, 1, 1, extents.len() as u8]].concat();
    out.extend(extents.iter().flat_map(|(start, len)| [0x80 ^ *start as u8, 0x80 ^ *len as u8]));
    out
}

/// Files by `area.what.case`, which is their name in the corpus.
pub(crate) fn rejects() -> Vec<(&'static str, Vec<u8>)> {
    let with = |entries: &[(Vec<u8>, Vec<u8>)]| {
        table(&[block(&[&[header(1, false)][..], entries].concat(), 0)])
    };
    let w = || entry("w", 1, &[1], 0, 0, &[0; 4]);
    let whole = with(&[w()]);
    let footer = whole.len() - 48;
    let changed = |at: usize, to: &[u8]| {
        let mut out = whole.clone();
        out[at..at + to.len()].copy_from_slice(to);
        out
    };
    let raw = |body: &[u8]| {
        let mut out = [body, &[0]].concat();
        out.extend(masked(&out).to_le_bytes());
        table(&[out])
    };
    let restarts = [0, 0, 0, 0, 1, 0, 0, 0];
    let first = block(&[header(1, false)], 0);
    let other = block(&[w()], 0);
    let twice = {
        let places = [block_handle(0, &first), block_handle(0, &first)];
        let index: Vec<_> =
            places.into_iter().enumerate().map(|(n, p)| (vec![n as u8], p)).collect();
        finish(first.clone(), &index)
    };
    let parts: &[&[(u64, u64)]] = &[&[(0, 1)], &[(1, 1)]];
    let part = |at: u64, len: u64, of: u64| {
        let (_, value) = entry("", of, &[len], 0, 0, &vec![0; 4 * len as usize]);
        (slice_key("s", &[(at, len)]), value)
    };
    vec![
        ("sstable.broken.footer", changed(footer, &[0xff; 20])),
        ("sstable.broken.index-outside", changed(footer, &[0, 0, 0xff, 0x7f, 1])),
        ("sstable.broken.twice", twice),
        ("sstable.broken.restarts", raw(&[0xff; 4])),
        ("sstable.broken.shared", raw(&[&[5, 1, 0, b'a'][..], &restarts].concat())),
        ("sstable.broken.key-cut", raw(&[&[0, 9, 0, b'a'][..], &restarts].concat())),
        ("sstable.broken.value-cut", raw(&[&[0, 1, 9, b'a'][..], &restarts].concat())),
        ("sstable.broken.entry-cut", raw(&[&[0, 0x80][..], &restarts].concat())),
        ("sstable.digest.block", changed(4, &[0xff])),
        ("sstable.compressed.snappy", table(&[block(&[header(1, false)], 1)])),
        ("sstable.compressed.other", table(&[block(&[header(1, false)], 7)])),
        ("sstable.order.in-block", with(&[w(), entry("a", 1, &[1], 0, 4, &[0; 4])])),
        ("sstable.order.twice", with(&[w(), w()])),
        ("sstable.order.blocks", table(&[other, first])),
        ("tensorflow.header.none", table(&[block(&[w()], 0)])),
        ("tensorflow.header.empty", table(&[])),
        ("tensorflow.header.no-files", table(&[block(&[header(0, false)], 0)])),
        ("tensorflow.header.many-files", table(&[block(&[header(1 << 40, false)], 0)])),
        (
            "tensorflow.header.version-1",
            table(&[block(&[(Vec::new(), field(1, &field(1, b"w")))], 0)]),
        ),
        ("tensorflow.header.newer", {
            let value = [int(1, 1), field(3, &[int(1, 9), int(2, 9)].concat())].concat();
            table(&[block(&[(Vec::new(), value)], 0)])
        }),
        ("protobuf.broken.entry", with(&[(b"w".to_vec(), vec![0x0b])])),
        ("protobuf.broken.shape", with(&[(b"w".to_vec(), field(2, &[0x12, 0x7f]))])),
        ("tensorflow.entry.name", with(&[(vec![0xff], w().1)])),
        ("tensorflow.entry.shard", with(&[entry("w", 1, &[1], 7, 0, &[0; 4])])),
        ("tensorflow.entry.negative", with(&[entry("w", 1, &[u64::MAX], 0, 0, &[0; 4])])),
        ("tensorflow.entry.rank", {
            let (key, value) = w();
            with(&[(key, [value, field(2, &int(3, 1))].concat())])
        }),
        ("tensorflow.entry.field", with(&[(b"w".to_vec(), [w().1, field(4, b"1")].concat())])),
        ("tensorflow.element-type.text", with(&[entry("w", 7, &[1], 0, 0, &[0; 4])])),
        ("tensorflow.element-type.variant", with(&[entry("w", 21, &[1], 0, 0, &[0; 4])])),
        ("tensorflow.element-type.none", with(&[entry("w", 0, &[1], 0, 0, &[0; 4])])),
        ("tensorflow.data.not-there", whole.clone()),
        ("tensorflow.slices.not-stored", with(&[part(1, 1, 1), sliced("s", 1, &[2], parts)])),
        (
            "tensorflow.slices.type",
            with(&[part(0, 1, 2), part(1, 1, 1), sliced("s", 1, &[2], parts)]),
        ),
        ("tensorflow.slices.rank", with(&[sliced("s", 1, &[2], &[&[]])])),
        (
            "index.shape-overflow.product",
            with(&[entry("w", 1, &[1 << 40, 1 << 40], 0, 0, &[0; 4])]),
        ),
    ]
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/tensorflow/{name}.index");
    rejects().into_iter().map(|(name, bytes)| (path(name), bytes)).collect()
}
