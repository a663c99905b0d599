//! HDF5 files made byte by byte, and those that break a rule each.
#![allow(dead_code)] // Each user takes some of it.

/// Where things are in the files that are made here: the root's header, the dataset's, what else there is, data.
pub(crate) const ROOT: u64 = 96;
pub(crate) const DATASET: u64 = 512;
pub(crate) const EXTRA: u64 = 1024;
pub(crate) const DATA: u64 = 2048;
pub(crate) const LEN: u64 = 2304;
const NOWHERE: u64 = u64::MAX;

fn u16s(all: &[u16]) -> Vec<u8> {
    all.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn u32s(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn u64s(all: &[u64]) -> Vec<u8> {
    all.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// A superblock of version 0.
pub(crate) fn superblock(root: u64, len: u64) -> Vec<u8> {
    [
        b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0".to_vec(),
        u16s(&[4, 16]),
        u32s(&[0]),
        u64s(&[0, NOWHERE, len, NOWHERE]),
        u64s(&[0, root, 0, 0, 0]),
    ]
    .concat()
}

/// A message of a header of version 1.
pub(crate) fn message(kind: u16, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(8), 0);
    [u16s(&[kind, body.len() as u16]), vec![flags, 0, 0, 0], body].concat()
}

/// A header of version 1.
pub(crate) fn header(messages: &[Vec<u8>]) -> Vec<u8> {
    let content = messages.concat();
    let count = messages.len() as u16;
    [vec![1, 0], u16s(&[count]), u32s(&[1, content.len() as u32, 0]), content].concat()
}

/// A link to an object.
pub(crate) fn link(name: &[u8], to: u64) -> Vec<u8> {
    message(6, 0, &[&[1, 0, name.len() as u8][..], name, &u64s(&[to])].concat())
}

/// Blocks at their places.
pub(crate) fn file(blocks: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![0; LEN as usize];
    for (at, bytes) in [(0, superblock(ROOT, LEN))].iter().chain(blocks) {
        out[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
    }
    for (at, byte) in out[DATA as usize..].iter_mut().enumerate() {
        *byte = at as u8;
    }
    out
}

pub(crate) const F32: [u8; 20] =
    [0x11, 0x20, 0x1f, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0];

pub(crate) fn shape(dims: &[u64]) -> Vec<u8> {
    message(1, 0, &[vec![1, dims.len() as u8, 0, 0, 0, 0, 0, 0], u64s(dims)].concat())
}

pub(crate) fn contiguous(at: u64, len: u64) -> Vec<u8> {
    message(8, 0, &[vec![3, 1], u64s(&[at, len])].concat())
}

/// Chunks that a tree of version 1 has.
pub(crate) fn chunked(dims: &[u32], tree: u64) -> Vec<u8> {
    let rank = dims.len() as u8;
    message(8, 0, &[vec![3, 2, rank], u64s(&[tree]), u32s(dims)].concat())
}

/// A list of filters.
pub(crate) fn filters(ids: &[u16]) -> Vec<u8> {
    let each = ids.iter().flat_map(|id| u16s(&[*id, 0, 0, 0]));
    message(11, 0, &[vec![1, ids.len() as u8, 0, 0, 0, 0, 0, 0], each.collect()].concat())
}

/// A leaf of a tree of chunks: the stored bytes of each, its place in elements, and where it is.
pub(crate) fn leaf(chunks: &[(u32, &[u64], u64)]) -> Vec<u8> {
    let mut out =
        [b"TREE\x01\0".to_vec(), u16s(&[chunks.len() as u16]), u64s(&[NOWHERE; 2])].concat();
    for (len, place, at) in chunks {
        out.extend([u32s(&[*len, 0]), u64s(place), u64s(&[0, *at])].concat());
    }
    out
}

/// A file with a dataset `w` that has these messages besides its type, and a block.
pub(crate) fn dataset(messages: &[Vec<u8>], extra: &[u8]) -> Vec<u8> {
    let all = [&[message(3, 0, &F32)][..], messages].concat();
    file(&[
        (ROOT, header(&[link(b"w", DATASET)])),
        (DATASET, header(&all)),
        (EXTRA, extra.to_vec()),
    ])
}

/// An attribute `a` of one value of that type.
pub(crate) fn attribute(of: &[u8], value: &[u8]) -> Vec<u8> {
    let lens = u16s(&[2, of.len() as u16, 8]);
    let mut of = of.to_vec();
    of.resize(of.len().next_multiple_of(8), 0);
    let name = [b'a', 0, 0, 0, 0, 0, 0, 0];
    let all = [&[1, 0][..], &lens, &name, &of, &[1, 0, 0, 0, 0, 0, 0, 0], value];
    message(12, 0, &all.concat())
}

/// A file with a sound dataset of 4 f32, whose root has these messages too.
pub(crate) fn with_root(messages: &[Vec<u8>]) -> Vec<u8> {
    let all = [&[link(b"w", DATASET)][..], messages].concat();
    let of = [message(3, 0, &F32), shape(&[4]), contiguous(DATA, 16)];
    file(&[(ROOT, header(&all)), (DATASET, header(&of))])
}

/// A dataset of 4 f32 in two chunks of 2, whose tree is this.
fn tree_message(tree: &[u8]) -> Vec<u8> {
    dataset(&[shape(&[4]), chunked(&[2, 4], EXTRA)], tree)
}

/// The same, of one chunk, which went through these filters.
fn chunk_message(ids: &[u16], len: u32) -> Vec<u8> {
    let tree = leaf(&[(len, &[0], DATA)]);
    dataset(&[shape(&[4]), chunked(&[4, 4], EXTRA), filters(ids)], &tree)
}

/// A dataset of that type.
fn type_message(of: &[u8], width: u64) -> Vec<u8> {
    let of = [message(3, 0, of), shape(&[4]), contiguous(DATA, 4 * width)];
    file(&[(ROOT, header(&[link(b"w", DATASET)])), (DATASET, header(&of))])
}

/// Records of this length with these members: names, offsets and types.
pub(crate) fn compound(size: u8, members: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut of = vec![0x36, members.len() as u8, 0, 0, size, 0, 0, 0];
    for (name, at, member) in members {
        of.extend_from_slice(name.as_bytes());
        of.extend_from_slice(&[0, *at]);
        of.extend_from_slice(member);
    }
    of
}

/// An integer of 4 bytes; a text of any length.
pub(crate) const I32: [u8; 12] = [0x10, 8, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0];
const TEXT: [u8; 20] = [0x19, 1, 0, 0, 16, 0, 0, 0, 0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0];

fn patched(mut bytes: Vec<u8>, at: u64, by: &[u8]) -> Vec<u8> {
    bytes[at as usize..at as usize + by.len()].copy_from_slice(by);
    bytes
}

/// A selection of all elements.
const ALL: [u8; 16] = [3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A selection of one block.
fn regular(start: u64, len: u64) -> Vec<u8> {
    [u32s(&[2, 2]), vec![1], u32s(&[36, 1]), u64s(&[start, 1, 1, len])].concat()
}

/// A mapping of a part of a dataset to all of a virtual one.
fn mapping(file: &[u8], path: &[u8], from: &[u8]) -> Vec<u8> {
    [&[0][..], &u64s(&[1]), file, &[0], path, &[0], from, &ALL].concat()
}

/// A virtual dataset `w` with these mappings and their checksum, in a file that also has a dataset `v`.
fn virtual_of(mappings: &[u8], sum: u32) -> Vec<u8> {
    let object = [mappings, &u32s(&[sum])].concat();
    let mut heap = [u16s(&[1, 1]), u32s(&[0]), u64s(&[object.len() as u64]), object].concat();
    heap.resize(heap.len().next_multiple_of(8) + 16, 0);
    let len = heap.len() as u64 + 16;
    let heap = [b"GCOL\x01\0\0\0".to_vec(), u64s(&[len]), heap].concat();
    let place = [vec![4, 3], u64s(&[EXTRA]), u32s(&[1])].concat();
    let of = |layout: Vec<u8>| header(&[message(3, 0, &F32), shape(&[4]), layout]);
    file(&[
        (ROOT, header(&[link(b"w", DATASET), link(b"v", DATASET + 256)])),
        (DATASET, of(message(8, 0, &place))),
        (DATASET + 256, of(contiguous(DATA, 16))),
        (EXTRA, heap),
    ])
}

/// Files that break a rule each, and the names that say which.
pub(crate) fn rejects() -> Vec<(&'static str, Vec<u8>)> {
    let sound = with_root(&[]);
    let deep = {
        let mut blocks = Vec::new();
        let count = 140u64;
        for at in 0..count {
            let to = if at + 1 == count { DATASET } else { ROOT + 64 * (at + 1) };
            let at = ROOT + 64 * at;
            blocks.push((at, header(&[link(b"g", to)])));
        }
        let len = ROOT + 64 * count;
        let mut out = vec![0; len as usize];
        blocks.insert(0, (0, superblock(ROOT, len)));
        for (at, bytes) in blocks {
            out[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
        }
        out
    };
    // Many headers that are all continued by the same long block.
    let shared = {
        let (groups, at, each, block) = (300u64, 8192u64, 40u64, 28672u64);
        let end = at + each * groups;
        let name = |n: u64| format!("g{n:03}").into_bytes();
        let links: Vec<Vec<u8>> = (0..groups).map(|n| link(&name(n), at + each * n)).collect();
        let of = header(&[message(16, 0, &u64s(&[end, block]))]);
        let mut blocks = vec![(ROOT, header(&links))];
        blocks.extend((0..groups).map(|n| (at + each * n, of.clone())));
        let len = end + block;
        let mut out = vec![0; len as usize];
        blocks.insert(0, (0, superblock(ROOT, len)));
        for (at, bytes) in blocks {
            out[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
        }
        out
    };
    let points = [u32s(&[1, 1]), u32s(&[0, 12, 1, 1, 0])].concat();
    let second = [b"OHDR\x02\0\x08".to_vec(), vec![0, 4, 0, 0, 0, 0, 0, 0], u32s(&[1])].concat();
    let tree_of = |level: u8, child: u64| {
        let node = leaf(&[(8, &[0], child)]);
        patched(node, 5, &[level])
    };
    let two_same = leaf(&[(8, &[0], DATA), (8, &[0], DATA + 8)]);
    let external = [vec![1, 0, 0, 0], u16s(&[1, 1]), u64s(&[EXTRA])].concat();
    let keras = {
        let mut zip = super::pytorch_files::zip(&[("model.weights.h5", &sound)]);
        let directory = zip.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        // The method of the entry, before it and in the directory.
        (zip[8], zip[directory + 10]) = (8, 8);
        zip
    };
    let soft = |path: &[u8]| {
        let value = [u16s(&[path.len() as u16]), path.to_vec()].concat();
        message(6, 0, &[&[1, 8, 1, 1, b's'][..], &value].concat())
    };
    let outside = {
        let value = b"\0other.h5\0/x\0";
        let value = [u16s(&[value.len() as u16]), value.to_vec()].concat();
        message(6, 0, &[&[1, 8, 64, 1, b's'][..], &value].concat())
    };
    let cut = [vec![1, 0], u16s(&[2, 8, 8]), vec![b'a', 0, 0, 0, 0, 0, 0, 0]].concat();
    // A text of the global heap, in which it is not.
    let text = [0x19, 1, 0, 0, 16, 0, 0, 0, 0x13, 0, 0, 0, 1, 0, 0, 0];
    let kept = [u32s(&[3]), u64s(&[EXTRA]), u32s(&[2])].concat();
    let heap = [b"GCOL\x01\0\0\0".to_vec(), u64s(&[64]), vec![0; 48]].concat();
    let in_heap = patched(with_root(&[attribute(&text, &kept)]), EXTRA, &heap);
    vec![
        ("hdf5.version.superblock", patched(sound.clone(), 8, &[4])),
        ("hdf5.version.header", patched(sound.clone(), ROOT, &[9])),
        ("hdf5.version.link", patched(sound.clone(), ROOT + 24, &[2])),
        ("hdf5.version.layout", dataset(&[shape(&[4]), message(8, 0, &[6, 1])], &[])),
        ("hdf5.superblock.offsets", patched(sound.clone(), 13, &[3])),
        ("hdf5.superblock.cut", sound[..40].to_vec()),
        ("hdf5.truncated.one-less", sound[..sound.len() - 1].to_vec()),
        ("hdf5.truncated.most", patched(sound.clone(), 40, &[0xfe; 8])),
        ("hdf5.bounds.root", patched(sound.clone(), 64, &u64s(&[LEN + 1]))),
        ("hdf5.bounds.overflow", patched(sound.clone(), 64, &u64s(&[u64::MAX - 1]))),
        ("hdf5.bounds.data", dataset(&[shape(&[4]), contiguous(LEN - 8, 16)], &[])),
        ("hdf5.bounds.lying-shape", dataset(&[shape(&[1 << 40]), contiguous(DATA, 1 << 42)], &[])),
        ("hdf5.bounds.continuation", with_root(&[message(16, 0, &u64s(&[EXTRA, 1 << 40]))])),
        ("hdf5.bounds.header-len", patched(sound.clone(), ROOT + 8, &[0xff; 4])),
        ("hdf5.structure.no-tree", tree_message(b"TREX")),
        ("hdf5.structure.level", tree_message(&tree_of(1, EXTRA + 64)[..])),
        ("hdf5.structure.message-len", patched(sound.clone(), ROOT + 18, &[0xff; 2])),
        ("hdf5.structure.short", dataset(&[shape(&[4]), contiguous(DATA, 15)], &[])),
        ("hdf5.structure.no-shape", dataset(&[contiguous(DATA, 16)], &[])),
        ("hdf5.structure.rank", dataset(&[shape(&[1; 33]), contiguous(DATA, 4)], &[])),
        ("hdf5.structure.attribute", with_root(&[message(12, 0, &cut)])),
        ("hdf5.structure.heap", in_heap),
        ("hdf5.structure.no-group", patched(sound.clone(), 64, &u64s(&[DATASET]))),
        ("hdf5.checksum.header", file(&[(ROOT, second)])),
        ("hdf5.loop.continuation", with_root(&[message(16, 0, &u64s(&[ROOT + 16, 16]))])),
        ("hdf5.loop.tree", tree_message(&tree_of(1, EXTRA))),
        ("hdf5.loop.links", with_root(&[soft(b"s")])),
        ("hdf5.loop.shared", shared),
        ("hdf5.depth.groups", deep),
        ("hdf5.name.empty", with_root(&[link(b"", DATASET)])),
        ("hdf5.name.slash", with_root(&[link(b"a/b", DATASET)])),
        ("hdf5.name.utf8", with_root(&[link(b"\xff", DATASET)])),
        ("hdf5.name.twice", with_root(&[link(b"w", DATASET)])),
        ("hdf5.bounds.text-heap", type_message(&TEXT, 16)),
        ("hdf5.bounds.member-heap", type_message(&compound(16, &[("a", 0, &TEXT)]), 16)),
        ("hdf5.dtype.text-empty", type_message(&[0x13, 0, 0, 0, 0, 0, 0, 0], 0)),
        ("hdf5.dtype.opaque-empty", type_message(&[0x15, 0, 0, 0, 0, 0, 0, 0], 0)),
        ("hdf5.dtype.region", type_message(&[0x17, 1, 0, 0, 12, 0, 0, 0], 12)),
        ("hdf5.link.reference", type_message(&[0x17, 0, 0, 0, 8, 0, 0, 0], 8)),
        ("hdf5.dtype.member-outside", type_message(&compound(6, &[("a", 3, &I32)]), 6)),
        (
            "hdf5.dtype.members-overlap",
            type_message(&compound(12, &[("a", 0, &I32), ("b", 3, &I32)]), 12),
        ),
        (
            "hdf5.dtype.members-twice",
            type_message(&compound(8, &[("a", 0, &I32), ("a", 4, &I32)]), 8),
        ),
        (
            "hdf5.dtype.member-unnamed",
            type_message(&compound(8, &[("", 0, &I32), ("a", 4, &I32)]), 8),
        ),
        ("hdf5.dtype.no-members", type_message(&compound(4, &[]), 4)),
        ("hdf5.dtype.bits", type_message(&[0x10, 8, 0, 0, 4, 0, 0, 0, 0, 0, 31, 0], 4)),
        ("hdf5.structure.virtual", dataset(&[shape(&[4]), message(8, 0, &[4, 3])], &[])),
        ("hdf5.checksum.virtual", virtual_of(&mapping(b".", b"v", &ALL), 0)),
        ("hdf5.loop.virtual", virtual_of(&mapping(b".", b"w", &ALL), 0x5e28_26e0)),
        ("hdf5.external.virtual", virtual_of(&mapping(b"o.h5", b"x", &ALL), 0xbe85_6919)),
        ("hdf5.link.virtual", virtual_of(&mapping(b".", b"x", &ALL), 0x9a74_845b)),
        ("hdf5.layout.outside", virtual_of(&mapping(b".", b"v", &regular(2, 4)), 0x06df_3b61)),
        ("hdf5.layout.count", virtual_of(&mapping(b".", b"v", &regular(0, 2)), 0xed44_41af)),
        ("hdf5.layout.points", virtual_of(&mapping(b".", b"v", &points), 0xb683_f706)),
        ("hdf5.layout.class", dataset(&[shape(&[4]), message(8, 0, &[3, 7])], &[])),
        (
            "hdf5.external.file",
            dataset(&[shape(&[4]), contiguous(NOWHERE, 16), message(7, 0, &external)], &[]),
        ),
        ("hdf5.filter.szip", chunk_message(&[4], 16)),
        ("hdf5.filter.unknown", chunk_message(&[2, 400], 16)),
        ("hdf5.link.dangling", with_root(&[soft(b"/x")])),
        ("hdf5.link.outside", with_root(&[outside])),
        (
            "hdf5.shared.table",
            dataset(&[message(1, 2, &[3, 1, 0, 0, 0, 0, 0, 0, 0, 0]), contiguous(DATA, 16)], &[]),
        ),
        ("hdf5.chunk.place", tree_message(&leaf(&[(8, &[1], DATA)]))),
        ("hdf5.chunk.zero", dataset(&[shape(&[4]), chunked(&[0, 4], EXTRA)], &leaf(&[]))),
        ("hdf5.chunk.rank", dataset(&[shape(&[4]), chunked(&[2, 2, 4], EXTRA)], &leaf(&[]))),
        ("hdf5.chunk.width", dataset(&[shape(&[4]), chunked(&[2, 8], EXTRA)], &leaf(&[]))),
        ("hdf5.compressed.weights", keras),
        ("chunks.broken.twice", tree_message(&two_same)),
        ("chunks.broken.len", tree_message(&leaf(&[(9, &[0], DATA)]))),
        ("chunks.broken.deflate", chunk_message(&[1], 16)),
        ("chunks.broken.lzf", chunk_message(&[32000], 3)),
        (
            "chunks.broken.huge",
            dataset(
                &[shape(&[4]), chunked(&[u32::MAX, 4], EXTRA), filters(&[1])],
                &leaf(&[(16, &[0], DATA)]),
            ),
        ),
        ("chunks.checksum.fletcher32", chunk_message(&[3], 20)),
        ("index.overlap.datasets", {
            let of = |at| header(&[message(3, 0, &F32), shape(&[4]), contiguous(at, 16)]);
            let root = header(&[link(b"v", DATASET), link(b"w", EXTRA)]);
            file(&[(ROOT, root), (DATASET, of(DATA)), (EXTRA, of(DATA + 8))])
        }),
    ]
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| {
        let extension = if name.starts_with("hdf5.compressed") { "keras" } else { "h5" };
        format!("reject/hdf5/{name}.{extension}")
    };
    rejects().into_iter().map(|(name, bytes)| (path(name), bytes)).collect()
}
