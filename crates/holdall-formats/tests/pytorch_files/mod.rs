//! PyTorch files made byte by byte, and those that break a rule each.
#![allow(dead_code)] // Each user takes some of it.

/// What the CRC-32 of zips makes of each byte. Bit by bit, large files take minutes without optimising.
const CRCS: [u32; 256] = {
    let mut all = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut crc, mut bit) = (at as u32, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
            bit += 1;
        }
        all[at] = crc;
        at += 1;
    }
    all
};

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0;
    for byte in bytes {
        crc = (crc >> 8) ^ CRCS[usize::from(crc as u8 ^ *byte)];
    }
    !crc
}

/// A zip of stored entries.
pub(crate) fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in entries {
        let crc = crc32(bytes);
        let fixed = |out: &mut Vec<u8>| {
            out.extend([0, 0, 0, 0, 0, 0, 0, 0]);
            out.extend(crc.to_le_bytes());
            out.extend(
                [(bytes.len() as u32).to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat(),
            );
            out.extend((name.len() as u16).to_le_bytes());
            out.extend([0, 0]);
        };
        let at = out.len() as u32;
        directory.extend(b"PK\x01\x02\x14\x00\x14\x00");
        fixed(&mut directory);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
        out.extend(b"PK\x03\x04\x14\x00");
        fixed(&mut out);
        out.extend(name.as_bytes());
        out.extend_from_slice(bytes);
    }
    let (at, len, count) = (out.len() as u32, directory.len() as u32, entries.len() as u16);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    out.extend([len.to_le_bytes(), at.to_le_bytes()].concat());
    out.extend([0, 0]);
    out
}

/// A file of this pickle and a storage `0` of 16 bytes.
pub(crate) fn file_of(pickle: &[u8]) -> Vec<u8> {
    zip(&[("a/data.pkl", pickle), ("a/version", b"3\n"), ("a/data/0", &[1; 16])])
}

/// `{'w': tensor}` with this number of f32, this offset, shape and strides.
pub(crate) fn tensor(storage: &[u8], offset: u8, shape: &[u8], strides: &[u8]) -> Vec<u8> {
    let numbers = |all: &[u8]| {
        let items: Vec<u8> = all.iter().flat_map(|n| [b'K', *n]).collect();
        [b"(".to_vec(), items, b"t".to_vec()].concat()
    };
    [
        b"\x80\x02}X\x01\0\0\0w".to_vec(),
        b"ctorch._utils\n_rebuild_tensor_v2\n(".to_vec(),
        storage.to_vec(),
        vec![b'K', offset],
        numbers(shape),
        numbers(strides),
        b"\x89)tRs.".to_vec(),
    ]
    .concat()
}

pub(crate) fn storage(class: &str, key: &str, len: u8) -> Vec<u8> {
    let text = |text: &str| {
        [b"X".to_vec(), (text.len() as u32).to_le_bytes().to_vec(), text.as_bytes().to_vec()]
            .concat()
    };
    [
        b"(".to_vec(),
        text("storage"),
        format!("ctorch\n{class}\n").into_bytes(),
        text(key),
        text("cpu"),
        vec![b'K', len],
        b"tQ".to_vec(),
    ]
    .concat()
}

/// A sparse tensor of that layout and shape, whose parts have these shapes and bytes of 1.
fn sparse(layout: &str, parts: &[&[u8]], shape: &[u8]) -> Vec<u8> {
    let bytes = storage("ByteStorage", "0", 16);
    let part = |shape: &&[u8]| {
        let mut strides = vec![1; shape.len()];
        for at in (1..shape.len()).rev() {
            strides[at - 1] = strides[at] * shape[at];
        }
        let alone = tensor(&bytes, 0, shape, &strides);
        alone[9..alone.len() - 2].to_vec()
    };
    let mut out = b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_sparse_tensor\n(".to_vec();
    out.extend(b"ctorch.serialization\n_get_layout\n(X");
    out.extend((layout.len() as u32).to_le_bytes());
    out.extend(layout.as_bytes());
    out.extend(b"tR(");
    out.extend(parts.iter().flat_map(part));
    out.push(b'(');
    out.extend(shape.iter().flat_map(|n| [b'K', *n]));
    out.extend(b"tttRs.");
    file_of(&out)
}

/// A file whose tensor `w` is sparse: of that layout and shape, with a storage for each part, whose class, shape and bytes these are.
pub(crate) fn sparse_file(layout: &str, parts: &[(&str, &[u32], &[u8])], shape: &[u32]) -> Vec<u8> {
    let text =
        |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let number = |n: u32| [b"J", &n.to_le_bytes()[..]].concat();
    let tuple = |all: &[u32]| {
        let items: Vec<u8> = all.iter().flat_map(|n| number(*n)).collect();
        [b"(", &items[..], b"t"].concat()
    };
    let part = |(key, (class, shape, _)): (usize, &(&str, &[u32], &[u8]))| {
        let strides: Vec<u32> = (1..=shape.len()).map(|at| shape[at..].iter().product()).collect();
        [
            b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
            text("storage"),
            format!("ctorch\n{class}\n").into_bytes(),
            text(&key.to_string()),
            text("cpu"),
            number(shape.iter().product()),
            b"tQK\0".to_vec(),
            tuple(shape),
            tuple(&strides),
            b"\x89)tR".to_vec(),
        ]
        .concat()
    };
    let mut pickle = b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_sparse_tensor\n(".to_vec();
    pickle.extend(b"ctorch.serialization\n_get_layout\n(");
    pickle.extend(text(layout));
    pickle.extend(b"tR(");
    pickle.extend(parts.iter().enumerate().flat_map(part));
    pickle.extend(tuple(shape));
    pickle.extend(b"ttRs.");
    let names: Vec<String> = (0..parts.len()).map(|key| format!("a/data/{key}")).collect();
    let storages = names.iter().zip(parts).map(|(name, (_, _, bytes))| (&name[..], *bytes));
    let mut entries = vec![("a/data.pkl", &pickle[..]), ("a/version", b"3\n")];
    entries.extend(storages);
    zip(&entries)
}

/// Files by `area.what.case`, which is their name in the corpus.
pub(crate) fn rejects() -> Vec<(&'static str, Vec<u8>)> {
    let float = storage("FloatStorage", "0", 4);
    let view =
        |offset, shape: &[u8], strides: &[u8]| file_of(&tensor(&float, offset, shape, strides));
    let of = |class, key, len| file_of(&tensor(&storage(class, key, len), 0, &[1], &[1]));
    let sound = tensor(&float, 0, &[4], &[1]);
    let integers = tensor(&storage("IntStorage", "0", 4), 0, &[4], &[1]);
    let mut flagged = integers[..integers.len() - 4].to_vec();
    flagged.extend(b"}X\x03\0\0\0neg\x88stRs.");
    let old = |rest: &[u8]| [&b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."[..], rest].concat();
    let mut method = zip(&[("a/data.pkl", &sound), ("a/data/0", &[1; 16])]);
    let name = method.windows(8).position(|w| w == b"a/data/0").unwrap();
    method[name - 22] = 93;
    let name = method.windows(8).rposition(|w| w == b"a/data/0").unwrap();
    method[name - 36] = 93;
    let deep = [vec![b']'; 500], vec![b'a'; 499], b".".to_vec()].concat();
    let mut bomb = b"\x80\x02]q\0".to_vec();
    for i in 0..60u8 {
        bomb.extend([b'(', b'h', i, b'h', i, b'l', b'q', i + 1]);
    }
    bomb.push(b'.');
    let key = |key: &[u8]| {
        let mut file = b"\x80\x02}".to_vec();
        file.extend(key);
        file.extend(&sound[9..]);
        file_of(&file)
    };
    let exported = |config: &[u8]| {
        zip(&[
            ("m/archive_format", b"pt2"),
            ("m/data/weights/weight_0", &[1; 16]),
            ("m/data/weights/m_weights_config.json", config),
        ])
    };
    let weight = |meta: &str| {
        let of = r#"{"config": {"w": {"path_name": "weight_0", "tensor_meta": "#;
        exported(format!("{of}{meta}}}}}}}").as_bytes())
    };
    let alone = |rest: &[u8]| [&b"\x80\x04X\x05\0\0\0numpy0"[..], rest].concat();
    vec![
        ("pytorch.export.not-json", exported(b"{")),
        ("pytorch.export.no-entry", {
            let meta = r#"{"config": {"w": {"path_name": "../x", "tensor_meta": {}}}}"#;
            exported(meta.as_bytes())
        }),
        ("pytorch.export.size", weight(r#"{"dtype": 7, "sizes": [{"as_expr": "s0"}]}"#)),
        ("pytorch.export.strides", weight(r#"{"dtype": 7, "sizes": [{"as_int": 4}]}"#)),
        ("pytorch.view.export", {
            let meta = r#"{"dtype": 7, "sizes": [{"as_int": 5}], "strides": [{"as_int": 1}]}"#;
            weight(meta)
        }),
        ("pickle.broken.alone", alone(b"}")),
        ("pytorch.global.alone", alone(b"cnumpy\nfromfile\n.")),
        ("pytorch.call.frombuffer", alone(b"cnumpy.core.numeric\n_frombuffer\n(NK\x01NNtR.")),
        ("pickle.broken.empty", file_of(b"")),
        ("pickle.broken.no-end", file_of(b"\x80\x02}")),
        ("pickle.broken.no-mark", file_of(b"t.")),
        ("pickle.broken.memo", file_of(b"h\x05.")),
        ("pickle.broken.utf8", file_of(b"X\x01\0\0\0\xff.")),
        ("pickle.broken.number", file_of(b"I1.5\n.")),
        ("pickle.broken.quotes", file_of(b"Sabc\n.")),
        ("pickle.broken.escape", file_of(b"V\\u12\n.")),
        ("pytorch.global.inst", file_of(b"(ios\nsystem\n.")),
        ("pytorch.global.obj", file_of(b"(cos\nsystem\nS'ls'\no.")),
        ("pytorch.global.key", file_of(b"(dcos\nsystem\nI1\ns.")),
        ("pytorch.call.persid", file_of(b"P('storage', 1)\n.")),
        ("pickle.opcode.ext", file_of(b"\x82\x01.")),
        ("pickle.opcode.protocol", file_of(b"\x80\x09.")),
        ("pytorch.global.system", file_of(b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.")),
        ("pytorch.global.stack", file_of(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.")),
        (
            "pytorch.global.dotted",
            file_of(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2.__globals__\n)R."),
        ),
        ("pytorch.call.strides", view(0, &[4], &[1, 1])),
        ("pytorch.call.storage", file_of(b"\x80\x02K\x01Q.")),
        ("pytorch.depth.lists", file_of(&deep)),
        ("pytorch.too-many-values.shared", file_of(&bomb)),
        ("pytorch.key.dict", key(b"}")),
        ("pytorch.dtype.storage", of("QUInt4x2Storage", "0", 4)),
        ("pytorch.storage.none", of("FloatStorage", "1", 4)),
        ("pytorch.storage.short", of("FloatStorage", "0", 5)),
        ("pytorch.compressed.method", method),
        ("pytorch.view.one-more", view(0, &[5], &[1])),
        ("pytorch.view.offset", view(4, &[1], &[1])),
        ("pytorch.view.strides", view(0, &[2, 2], &[3, 1])),
        ("pytorch.call.sparse", sparse("torch.sparse_csc", &[&[3], &[1], &[1, 2]], &[2, 2])),
        ("sparse.attribute.blocks", sparse("torch.sparse_bsr", &[&[2], &[1], &[1, 2, 2]], &[3, 2])),
        ("sparse.indptr-start.blocks", sparse("torch.sparse_csc", &[&[3], &[1], &[1]], &[2, 2])),
        ("sparse.index-bounds.hybrid", sparse("torch.sparse_coo", &[&[1, 2], &[2, 3]], &[1, 3])),
        ("pytorch.no-elements.neg", file_of(&flagged)),
        (
            "pytorch.byte-order.middle",
            zip(&[("a/data.pkl", &sound), ("a/byteorder", b"middle"), ("a/data/0", &[1; 16])]),
        ),
        ("pytorch.legacy.cut", old(b"")),
        ("pytorch.legacy.version", old(b"K\x01.}.}.].")),
        ("pytorch.legacy.keys", old(b"M\xe9\x03.}.}.}.")),
    ]
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/pytorch/{name}.pt");
    rejects().into_iter().map(|(name, bytes)| (path(name), bytes)).collect()
}
