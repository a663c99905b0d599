//! Files that break a rule each, found on opening them.

use super::*;

/// Files that break a rule: `area.what.case`, which is the file's name in the corpus.
pub(crate) fn rejects() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = containers();
    all.extend(schema());
    all.extend(cbor());
    all.extend(index());
    all
}

/// Rules of finding the manifest and of versions.
fn containers() -> Vec<(&'static str, Vec<u8>)> {
    let sound = map(&root(&object()));
    let sound_1_0 = map(&root_1_0(&tensor_1_0()));
    let footer = |len: u64, file: Vec<u8>, footer_len: usize| {
        let at = file.len() - footer_len;
        [&file[..at], &len.to_le_bytes(), &file[at + 8..]].concat()
    };
    let room = sound.len() as u64 + 120;
    let version = |v: &str| of_root(&with(root(&object()), "version", text(v)));
    vec![
        ("ztensor.unsupported-container.version-2-text-mode", b"\x89ZT2\n\x1a\n\0\0\0\0".to_vec()),
        ("ztensor.unsupported-container.unknown", container(b"ZTEN2000", &sound, true)),
        ("ztensor.too-short.magic-only", b"ZTEN1000".to_vec()),
        ("ztensor.too-short.two-magics", b"ZTEN1000ZTEN1000".to_vec()),
        ("ztensor.too-short.no-manifest", b"ZTEN1000\0\0\0\0\0\0\0\0ZTEN1000".to_vec()),
        ("ztensor.too-short.no-manifest-0.1", b"ZTEN0001\0\0\0\0\0\0\0\0".to_vec()),
        ("ztensor.manifest-bounds.most", footer(u64::MAX, file_1_2(&sound), 16)),
        ("ztensor.manifest-bounds.terabyte", footer(1 << 40, file_1_0(&sound_1_0), 8)),
        ("ztensor.manifest-bounds.into-magic", footer(room + 1, file_1_2(&sound), 16)),
        ("ztensor.empty-manifest.1.2", footer(0, file_1_2(&sound), 16)),
        ("ztensor.empty-manifest.1.0", footer(0, file_1_0(&sound_1_0), 8)),
        ("ztensor.empty-manifest.0.1", footer(0, file_0_1(&array(&[])), 8)),
        ("ztensor.container.objects-in-1.0", file_1_0(&sound)),
        ("ztensor.container.tensors-in-1.2", file_1_2(&sound_1_0)),
        ("ztensor.version-syntax.one-number", version("1")),
        ("ztensor.version-syntax.empty", version("")),
        ("ztensor.version-syntax.words", version("one.two")),
        ("ztensor.unsupported-version.2", version("2.0.0")),
        ("ztensor.unsupported-version.0", version("0.9")),
    ]
}

/// Rules of the manifest's fields.
fn schema() -> Vec<(&'static str, Vec<u8>)> {
    let set = |key, value| of_component(&with(component(), key, value));
    let set_0_1 = |key, value| of_entry(&with(entry(), key, value));
    let in_1_0 = |tensor: Pairs| file_1_0(&map(&root_1_0(&tensor)));
    vec![
        ("ztensor.missing-field.version", of_root(&without(root(&object()), "version"))),
        ("ztensor.missing-field.objects", of_root(&without(root(&object()), "objects"))),
        ("ztensor.missing-field.shape", of_object(&without(object(), "shape"))),
        ("ztensor.missing-field.format", of_object(&without(object(), "format"))),
        ("ztensor.missing-field.components", of_object(&without(object(), "components"))),
        ("ztensor.missing-field.dtype", of_component(&without(component(), "dtype"))),
        ("ztensor.missing-field.offset", of_component(&without(component(), "offset"))),
        ("ztensor.missing-field.length", of_component(&without(component(), "length"))),
        ("ztensor.missing-field.dtype-1.0", in_1_0(without(tensor_1_0(), "dtype"))),
        ("ztensor.missing-field.tensors-1.0", {
            file_1_0(&map(&without(root_1_0(&tensor_1_0()), "tensors")))
        }),
        ("ztensor.missing-field.name-0.1", of_entry(&without(entry(), "name"))),
        ("ztensor.missing-field.offset-0.1", of_entry(&without(entry(), "offset"))),
        ("ztensor.missing-field.size-0.1", of_entry(&without(entry(), "size"))),
        ("ztensor.missing-field.dtype-0.1", of_entry(&without(entry(), "dtype"))),
        ("ztensor.missing-field.shape-0.1", of_entry(&without(entry(), "shape"))),
        ("ztensor.missing-field.encoding-0.1", of_entry(&without(entry(), "encoding"))),
        ("ztensor.unknown-dtype.f128", set("dtype", text("f128"))),
        ("ztensor.unknown-dtype.long-in-1.2", set("dtype", text("uint8"))),
        ("ztensor.unknown-dtype.short-in-1.0", in_1_0(with(tensor_1_0(), "dtype", text("u8")))),
        ("ztensor.unknown-dtype.0.1", set_0_1("dtype", text("complex64"))),
        ("ztensor.unknown-encoding.lz4", set("encoding", text("lz4"))),
        ("ztensor.unknown-encoding.0.1", set_0_1("encoding", text("gzip"))),
        ("ztensor.unknown-byte-order.0.1", set_0_1("data_endianness", text("middle"))),
        ("ztensor.digest.crc32c", set("digest", text("crc32c:0xNOTHEX!!"))),
        ("ztensor.digest.crc32c-short", set("digest", text("crc32c:0x123"))),
        ("ztensor.digest.sha256", set("digest", text("sha256:00ff"))),
        ("ztensor.digest.0.1", set_0_1("checksum", text("crc32c:"))),
        ("ztensor.uncompressed-length.raw", set("uncompressed_length", uint(17))),
        ("ztensor.index-dtype.f32", of_object(&csr("f32"))),
    ]
}

/// Rules of CBOR.
fn cbor() -> Vec<(&'static str, Vec<u8>)> {
    let set = |key, value: &[u8]| of_component(&with(component(), key, value.to_vec()));
    let attributes =
        |value: &[u8]| of_root(&with(root(&object()), "attributes", map(&[("a", value.to_vec())])));
    let twice = |pairs: Pairs, key: &'static str| {
        let value = pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| v.clone()).unwrap();
        [pairs, vec![(key, value)]].concat()
    };
    let sound = map(&root(&object()));
    let not_text_key = [vec![0xa1, 0x01], NULL.to_vec()].concat();
    let in_object = |key, value: Vec<u8>| of_object(&with(object(), key, value));
    vec![
        ("cbor.truncated.manifest", file_1_2(&sound[..sound.len() - 1])),
        ("cbor.truncated.name", file_0_1(&[0x81, 0xa1, 0x78, 0xff, b'n'])),
        ("cbor.reserved.info-28", attributes(&[0x1c])),
        ("cbor.break.value", attributes(&[0xff])),
        ("cbor.break.odd-map", of_root(&[("x", vec![0xbf, 0x01, 0xff])])),
        ("cbor.break.structure", set("dtype", &[0xff])),
        ("cbor.utf8.attribute", attributes(&[0x61, 0xff])),
        (
            "cbor.utf8.name",
            file_1_2(&[&[0xa1][..], &text("objects"), &[0xa1, 0x61, 0xff]].concat()),
        ),
        ("cbor.utf8.unknown-key", file_1_2(&[0xa1, 0x61, 0xff, 0x00])),
        ("cbor.count.shape", in_object("shape", vec![0x9b, 0xff, 0, 0, 0, 0, 0, 0, 0])),
        ("cbor.count.root", file_1_2(&[0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
        ("cbor.count.bytes-of-maps", file_0_1(&[0x84, 0xa0, 0xa0, 0xa0])),
        ("cbor.depth.attribute", attributes(&[vec![0x81; 200], vec![0]].concat())),
        ("cbor.depth.unknown-field", in_object("x", [vec![0x81; 200], vec![0]].concat())),
        ("cbor.kind.name", of_entry(&with(entry(), "name", vec![0x41, b'w']))),
        ("cbor.kind.dtype", set("dtype", &uint(8))),
        ("cbor.kind.offset-negative", set("offset", &[0x20])),
        ("cbor.kind.offset-float", set("offset", &[0xf9, 0x54, 0x00])),
        ("cbor.kind.offset-null", set("offset", NULL)),
        ("cbor.kind.shape", in_object("shape", map(&[]))),
        ("cbor.kind.components", in_object("components", array(&[]))),
        ("cbor.kind.attributes", in_object("attributes", array(&[]))),
        ("cbor.kind.root-1.2", file_1_2(&array(&[]))),
        ("cbor.kind.root-0.1", file_0_1(&map(&[]))),
        ("cbor.kind.entry-0.1", file_0_1(&array(&[uint(1)]))),
        ("cbor.key.objects", of_root(&with(root(&object()), "objects", not_text_key.clone()))),
        ("cbor.key.components", in_object("components", not_text_key)),
        ("cbor.duplicate-key.root", of_root(&twice(root(&object()), "version"))),
        ("cbor.duplicate-key.root-unknown", {
            of_root(
                &[root(&object()), vec![("x", uint(1)), ("y", uint(1)), ("x", uint(1))]].concat(),
            )
        }),
        ("cbor.duplicate-key.objects", of_root(&twice(root(&object()), "objects"))),
        ("cbor.duplicate-key.tensor", of_object(&twice(object(), "shape"))),
        ("cbor.duplicate-key.component", of_component(&twice(component(), "offset"))),
        ("cbor.duplicate-key.attributes", {
            let attributes = map(&[("a", uint(1)), ("b", uint(1)), ("a", uint(1))]);
            of_root(&with(root(&object()), "attributes", attributes))
        }),
        ("cbor.duplicate-key.value", attributes(&[0xa2, 0x01, 0x00, 0x18, 0x01, 0x00])),
        ("cbor.duplicate-key.0.1", of_entry(&twice(entry(), "name"))),
        ("cbor.duplicate-key.0.1-custom", {
            of_entry(&[entry(), vec![("x", uint(1)), ("x", uint(1))]].concat())
        }),
        ("cbor.trailing.1.2", file_1_2(&[&sound[..], &[0]].concat())),
        ("cbor.trailing.0.1", file_0_1(&[0x80, 0x80])),
    ]
}

/// Rules that hold for every format.
fn index() -> Vec<(&'static str, Vec<u8>)> {
    let set = |key, value| of_component(&with(component(), key, value));
    let shape = |dims: &[u64]| {
        let dims: Vec<_> = dims.iter().map(|&d| uint(d)).collect();
        of_object(&with(object(), "shape", array(&dims)))
    };
    let two = |a: (u64, u64), b: (u64, u64)| {
        let part =
            |(offset, len)| with(with(component(), "offset", uint(offset)), "length", uint(len));
        let dense = |(offset, len)| {
            let object = with(object(), "shape", array(&[uint(len)]));
            map(&with(object, "components", map(&[("data", map(&part((offset, len))))])))
        };
        of_root(&with(root(&[]), "objects", map(&[("a", dense(a)), ("b", dense(b))])))
    };
    let named = |names: &[&str]| {
        let objects: Vec<_> = names.iter().map(|&name| (name, map(&object()))).collect();
        of_root(&with(root(&[]), "objects", map(&objects)))
    };
    let components =
        |pairs: &[(&str, Vec<u8>)]| of_object(&with(object(), "components", map(pairs)));
    let zstd = with(component(), "encoding", text("zstd"));
    vec![
        ("index.bounds.past-manifest", two((64, 16), (120, 16))),
        ("index.bounds.magic", set("offset", uint(0))),
        ("index.bounds.past-end", set("offset", uint(1 << 40))),
        ("index.bounds.wraps", set("offset", uint(u64::MAX - 7))),
        ("index.bounds.length-most", set("length", uint(u64::MAX))),
        ("index.bounds.wraps-0.1", of_entry(&with(entry(), "offset", uint(u64::MAX)))),
        ("index.overlap.in-part", two((64, 16), (72, 16))),
        ("index.overlap.inside", two((64, 32), (72, 8))),
        ("index.duplicate-name.sorted", named(&["w", "w"])),
        ("index.duplicate-name.apart", named(&["w", "a", "w"])),
        ("index.duplicate-name.0.1", file_0_1(&array(&[map(&entry()), map(&entry())]))),
        ("index.shape-overflow.product", shape(&[1 << 32, 1 << 32])),
        ("index.shape-overflow.bytes", {
            let object = with(object(), "shape", array(&[uint(1 << 62)]));
            let c = map(&[("data", map(&with(component(), "dtype", text("f64"))))]);
            of_object(&with(object, "components", c))
        }),
        ("index.size.short", shape(&[4, 5])),
        ("index.size.zstd", of_component(&with(zstd.clone(), "uncompressed_length", uint(17)))),
        ("index.size.0.1", of_entry(&with(entry(), "size", uint(15)))),
        ("index.missing-component.dense", components(&[("values", map(&component()))])),
        ("index.missing-component.csr", of_object(&with(csr("u64"), "components", map(&[])))),
        ("index.duplicate-component.data", {
            components(&[("data", map(&component())), ("data", map(&component()))])
        }),
        (
            "index.element-width.sparse",
            of_object(&{
                let values = with(with(component(), "dtype", text("f32")), "length", uint(3));
                let coords = with(with(component(), "dtype", text("u64")), "offset", uint(80));
                let parts = map(&[("values", map(&values)), ("coords", map(&coords))]);
                with(with(object(), "format", text("sparse_coo")), "components", parts)
            }),
        ),
        ("index.rank.65", shape(&[1; 65])),
        ("index.rank.65-0.1", of_entry(&with(entry(), "shape", array(&vec![uint(1); 65])))),
        (
            "index.expansion.zstd",
            of_component(&{
                with(with(zstd, "length", uint(4)), "uncompressed_length", uint(1 << 20))
            }),
        ),
    ]
}
