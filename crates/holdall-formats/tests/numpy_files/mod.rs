//! NumPy files made byte by byte, and those that break a rule each.
#![allow(dead_code)] // Each user takes some of it.

use super::pytorch_files::zip;

/// An array of this type, order and shape, as `numpy.save` writes it.
pub(crate) fn array(descr: &str, fortran: bool, shape: &str, elements: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let descr = if descr.starts_with('[') { descr.to_owned() } else { format!("'{descr}'") };
    framed(&format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"), elements)
}

fn framed(dict: &str, elements: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    out.extend(dict.as_bytes());
    out.resize(127, b' ');
    out.push(b'\n');
    out.extend(elements);
    out
}

/// A zip whose entries are Deflate, each one block of bytes as they are.
pub(crate) fn deflated(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let blocks: Vec<Vec<u8>> = entries.iter().map(|(_, bytes)| block(bytes)).collect();
    let stored: Vec<(&str, &[u8])> =
        entries.iter().zip(&blocks).map(|((name, _), block)| (*name, &block[..])).collect();
    let mut file = zip(&stored);
    for (name, bytes) in entries {
        let crc = zip(&[("a", bytes)])[14..18].to_vec();
        let len = (bytes.len() as u32).to_le_bytes();
        // In the local header and in the directory: method, CRC-32, decoded length.
        for (at, header) in [(find(&file, name, false), 30), (find(&file, name, true), 46)] {
            let method = if header == 30 { 22 } else { 36 };
            file[at - method] = 8;
            let crc_at = at - method + 6;
            file[crc_at..crc_at + 4].copy_from_slice(&crc);
            file[crc_at + 8..crc_at + 12].copy_from_slice(&len);
        }
    }
    file
}

/// One block of Deflate that is not compressed.
fn block(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len() as u16;
    [&[1][..], &len.to_le_bytes(), &(!len).to_le_bytes(), bytes].concat()
}

fn find(file: &[u8], name: &str, last: bool) -> usize {
    let mut all = file.windows(name.len()).enumerate().filter(|(_, w)| *w == name.as_bytes());
    let found = if last { all.next_back() } else { all.next() };
    found.unwrap().0
}

/// With these bytes in the location of those, once.
fn with(mut file: Vec<u8>, old: &[u8], new: &[u8]) -> Vec<u8> {
    let at = file.windows(old.len()).position(|w| w == old).unwrap();
    file[at..at + old.len()].copy_from_slice(new);
    file
}

/// Files by `area.what.case.extension`, which is their name in the corpus.
pub(crate) fn rejects() -> Vec<(&'static str, Vec<u8>)> {
    let elements = [7, 1, 2, 3, 4, 5, 6, 9];
    let sound = array("<f4", false, "(2,)", &elements);
    let one = |bytes: &[u8]| zip(&[("ok.npy", &sound), ("x.npy", bytes)]);
    let of = |descr: &str| one(&array(descr, false, "(2,)", &elements));
    let mut zstd = zip(&[("x.npy", &sound)]);
    for at in [find(&zstd, "x.npy", false) - 22, find(&zstd, "x.npy", true) - 36] {
        zstd[at] = 93;
    }
    vec![
        ("npy.magic.version.npy", with(sound.clone(), b"Y\x01", b"Y\x04")),
        ("npy.magic.in-zip.npz", one(b"\x93NUMPX\x01\x00\x02\x00{}")),
        ("npy.truncated.magic-alone.npy", sound[..6].to_vec()),
        ("npy.truncated.header.npy", sound[..100].to_vec()),
        ("npy.truncated.long.npy", with(sound.clone(), b"Y\x01\x00\x76\x00", b"Y\x02\x00\xff\xff")),
        ("npy.magic.nothing.npz", one(b"")),
        ("npy.truncated.in-deflate.npz", deflated(&[("x.npy", &sound[..60])])),
        ("npy.header.no-dict.npy", framed("[1, 2]", &elements)),
        ("npy.header.call.npy", framed("__import__('os').system('ls')", &elements)),
        // NumPy takes it for an integer, which is no shape.
        ("npy.header.number.npy", array("<f4", false, "(2)", &elements)),
        ("npy.header.negative.npz", one(&array("<f4", false, "(-2,)", &elements))),
        ("npy.dtype.objects.npy", array("|O", false, "(2,)", b"\x80\x02cos\nsystem\n")),
        ("npy.dtype.objects.npz", one(&array("|O", false, "(2,)", b"\x80\x02cos\nsystem\n"))),
        ("npy.dtype.fields.npz", of("[('a', '<f4'), ('b', '|O')]")),
        ("npy.dtype.no-bytes.npz", of("[('a', '<f4'), ('b', '<f4', (2, 0))]")),
        ("npy.fields.twice.npz", of("[('a', '<f4'), ('a', '<f4')]")),
        ("npy.fields.no-name.npy", array("[('', '<f4')]", false, "(2,)", &elements)),
        ("index.size.records.npz", of("[('a', '<f4'), ('b', '<f4')]")),
        ("npy.dtype.unknown.npz", of("<q4")),
        ("npy.dtype.long-double.npz", of("<f16")),
        ("npz.name.up.npz", zip(&[("../x.npy", &sound)])),
        ("npz.name.backslash.npz", zip(&[("a\\x.npy", &sound)])),
        ("npz.method.zstd.npz", zstd),
        ("index.size.short.npy", sound[..135].to_vec()),
        ("index.size.long.npz", one(&array("<f4", false, "(1,)", &elements))),
        ("index.size.columns.npz", one(&array("<f4", true, "(2, 3)", &elements))),
        (
            "index.size.in-deflate.npz",
            deflated(&[("x.npy", &array("<f4", false, "(3,)", &elements))]),
        ),
        (
            "index.shape-overflow.product.npz",
            one(&array("<f4", false, "(4294967296, 4294967296)", &elements)),
        ),
        (
            "file.digest.stored.npz",
            with(
                one(&array("<i8", false, "()", &elements)),
                &[7, 1, 2, 3, 4, 5, 6, 9, b'P', b'K', 1],
                &[8, 1, 2, 3, 4, 5, 6, 9, b'P', b'K', 1],
            ),
        ),
        (
            "file.digest.deflated.npz",
            with(deflated(&[("x.npy", &sound)]), &elements, &[8, 1, 2, 3, 4, 5, 6, 9]),
        ),
        (
            "deflate.broken.header.npz",
            with(deflated(&[("x.npy", &sound)]), &block(&sound)[..5], &[7; 5]),
        ),
        ("zip.duplicate-name.arrays.npz", zip(&[("x.npy", &sound), ("x.npy", &sound)])),
        ("zip.overlap.arrays.npz", {
            let mut file = zip(&[("a.npy", &sound), ("b.npy", &sound)]);
            // The second entry of the directory is where the first one is.
            let at = find(&file, "b.npy", true) - 4;
            file[at..at + 4].copy_from_slice(&[8, 0, 0, 0]);
            file
        }),
        ("zip.encrypted.array.npz", {
            let mut file = zip(&[("a.npy", &sound)]);
            for at in [find(&file, "a.npy", false) - 24, find(&file, "a.npy", true) - 38] {
                file[at] = 1;
            }
            file
        }),
        ("zip.length.bomb.npz", {
            let mut file = deflated(&[("a.npy", &sound)]);
            for at in [find(&file, "a.npy", false) - 8, find(&file, "a.npy", true) - 22] {
                file[at..at + 4].copy_from_slice(&[0, 0, 0, 0x7f]);
            }
            file
        }),
        ("zip.local-header.crc.npz", {
            let mut file = zip(&[("a.npy", &sound)]);
            let at = find(&file, "a.npy", false) - 16;
            file[at] ^= 1;
            file
        }),
    ]
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/numpy/{name}");
    rejects().into_iter().map(|(name, bytes)| (path(name), bytes)).collect()
}
