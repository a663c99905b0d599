//! Every place that the documents let a reader ignore or that holds "arbitrary" values, with every kind of CBOR in it;
//! and every place with a meaning, in every spelling that CBOR has for it. None of them keeps the file from being read.

use crate::ztensor_files::*;
use holdall_core::{Bytes, Index, Layout, Limits, Value, Window};

/// Items of every kind, by name.
fn kinds() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("unsigned", uint(7)),
        ("long unsigned", vec![0x1b, 0, 0, 0, 0, 0, 0, 0, 7]),
        ("negative", vec![0x26]),
        ("bytes", vec![0x42, 1, 2]),
        ("bytes of indefinite length", vec![0x5f, 0x41, 1, 0x41, 2, 0xff]),
        ("text", text("t")),
        ("text of indefinite length", vec![0x7f, 0x61, b'u', 0x61, b'v', 0xff]),
        ("array", array(&[uint(1), text("x")])),
        ("array of indefinite length", vec![0x9f, 1, 2, 0xff]),
        ("map", map(&[("k", uint(1))])),
        ("map of other keys", vec![0xa2, 1, 2, 0x41, 3, 0x80]),
        ("map of indefinite length", vec![0xbf, 1, 2, 0xff]),
        ("tag", vec![0xc1, 0x1a, 0, 0, 0, 1]),
        ("self-described", vec![0xd9, 0xd9, 0xf7, 0x01]),
        ("tags", vec![0xd8, 0x20, 0xd9, 0xd9, 0xf7, 0x61, b'w']),
        ("half", vec![0xf9, 0x3e, 0]),
        ("single", vec![0xfa, 0x7f, 0xc0, 0, 0]),
        ("double", vec![0xfb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0]),
        ("false", vec![0xf4]),
        ("null", NULL.to_vec()),
        ("undefined", vec![0xf7]),
        ("simple", vec![0xf0]),
    ]
}

/// Whether the key is a text once its tags are off.
fn is_text(key: &[u8]) -> bool {
    match key {
        [0xd8, _, rest @ ..] | [0xd9, _, _, rest @ ..] => is_text(rest),
        [0xc1, rest @ ..] => is_text(rest),
        _ => key[0] >> 5 == 3,
    }
}

/// A map of these pairs and one more.
fn and(pairs: &[(&str, Vec<u8>)], key: &[u8], value: &[u8]) -> Vec<u8> {
    let plain = map(pairs);
    let (&count, rest) = plain.split_first().unwrap();
    [&[count + 1][..], rest, key, value].concat()
}

type Position = (&'static str, Box<dyn Fn(&[u8], &[u8]) -> Vec<u8>>);

/// Manifests with one more key and value, in each place that may have any.
fn places() -> Vec<Position> {
    fn position(name: &'static str, file: impl Fn(&[u8], &[u8]) -> Vec<u8> + 'static) -> Position {
        (name, Box::new(file))
    }
    let table = |w: Vec<u8>| [vec![0xa1], text("w"), w].concat();
    let of_tensor = move |w: Vec<u8>| of_root(&[("version", text("1.2.0")), ("objects", table(w))]);
    let components = |data: Vec<u8>| [vec![0xa1], text("data"), data].concat();
    vec![
        position("1.2 root", |k, v| file_1_2(&and(&root(&object()), k, v))),
        position("1.2 attributes", |k, v| {
            of_root(&with(root(&object()), "attributes", and(&[], k, v)))
        }),
        position("1.2 tensor", move |k, v| of_tensor(and(&object(), k, v))),
        position("1.2 attributes of a tensor", |k, v| {
            of_object(&with(object(), "attributes", and(&[("a", uint(1))], k, v)))
        }),
        position("1.2 component", move |k, v| {
            of_object(&with(object(), "components", components(and(&component(), k, v))))
        }),
        position("1.0 root", |k, v| file_1_0(&and(&root_1_0(&tensor_1_0()), k, v))),
        position("1.0 attributes", |k, v| {
            file_1_0(&map(&with(root_1_0(&tensor_1_0()), "attributes", and(&[], k, v))))
        }),
        position("1.0 tensor", move |k, v| {
            let root = root_1_0(&tensor_1_0());
            file_1_0(&map(&with(root, "tensors", table(and(&tensor_1_0(), k, v)))))
        }),
        position("0.1 tensor", |k, v| file_0_1(&[vec![0x81], and(&entry(), k, v)].concat())),
    ]
}

/// What a tensor `w` of 16 bytes at 64 is, whatever stands around it.
fn check_tensor(index: &Index, of: &str) {
    let w = index.get("w").unwrap_or_else(|| panic!("{of}: no tensor"));
    assert!(w.fault().is_none(), "{of}: {:?}", w.fault());
    let ranges: Vec<_> = w.components().map(|c| (c.stored.start, c.stored.end)).collect();
    assert_eq!((w.layout(), &ranges[..]), (&Layout::Dense, &[(64, 80)][..]), "{of}");
}

#[test]
fn any_key_and_any_value_may_stand_where_the_documents_allow_more() {
    for (place, file) in places() {
        for (key_kind, key) in kinds() {
            for (value_kind, value) in kinds() {
                let of = format!("{place}: {key_kind} → {value_kind}");
                let index = decode(&file(&key, &value)).unwrap_or_else(|e| panic!("{of}: {e}"));
                check_tensor(&index, &of);
                let named = index.unrepresented().join("; ");
                if !is_text(&key) {
                    assert!(named.contains("with the key"), "{of}: {named}");
                }
                let is_kept = place.contains("attributes") || place.starts_with("0.1");
                assert!(!is_text(&key) || is_kept || !named.is_empty(), "{of}");
            }
        }
    }
}

#[test]
fn attributes_keep_every_value_whose_key_is_a_text() {
    let attributes =
        |v: &[u8]| of_root(&with(root(&object()), "attributes", and(&[], &text("k"), v)));
    for (kind, value) in kinds() {
        let index = decode(&attributes(&value)).unwrap();
        assert!(
            index.attributes().get("k").is_some() && index.unrepresented().is_empty(),
            "{kind}"
        );
    }
    let mixed = [vec![0xa3], text("a"), uint(1), uint(2), uint(2), text("b"), uint(3)].concat();
    let index = decode(&of_root(&with(root(&object()), "attributes", mixed))).unwrap();
    let kept: Vec<_> = index.attributes().iter().map(|(key, value)| (key, value.clone())).collect();
    assert_eq!(kept, [("a", Value::Integer(1)), ("b", Value::Integer(3))]);
    assert_eq!(
        index.unrepresented(),
        ["the attribute with the key 2 in `attributes` of the manifest"]
    );
}

/// `item` in other spellings: under tags, and a text in pieces.
fn spellings(item: &[u8]) -> Vec<Vec<u8>> {
    let tagged = |tag: &[u8]| [tag, item].concat();
    let mut out = vec![tagged(&[0xd9, 0xd9, 0xf7]), tagged(&[0xd8, 0x40, 0xd9, 0xd9, 0xf7])];
    if item[0] >> 5 == 3 && item[0] < 0x78 {
        let (head, rest) = item.split_at(item.len().div_ceil(2).max(1));
        let piece = |bytes: &[u8]| [&[0x60 | bytes.len() as u8][..], bytes].concat();
        out.push([vec![0x7f], piece(&head[1..]), piece(rest), vec![0xff]].concat());
        out.push([vec![0xd9, 0xd9, 0xf7], out[2].clone()].concat());
    }
    out
}

/// Every item of a manifest in every other spelling, one at a time: keys, values, and the whole.
#[test]
fn every_spelling_of_a_manifest_is_the_same_file() {
    // Head and length of the item at the start.
    fn len(bytes: &[u8]) -> (usize, usize, usize) {
        let (major, info) = (bytes[0] >> 5, bytes[0] & 31);
        let (head, n) = match info {
            0..=23 => (1, info as usize),
            24 => (2, bytes[1] as usize),
            _ => panic!("longer than these"),
        };
        let items = match major {
            4 => n,
            5 => 2 * n,
            _ => 0,
        };
        let own = if major == 2 || major == 3 { head + n } else { head };
        let mut all = own;
        (0..items).for_each(|_| all += len(&bytes[all..]).2);
        (own, items, all)
    }
    // Where every item starts and ends.
    fn walk(bytes: &[u8], at: usize, out: &mut Vec<(usize, usize)>) -> usize {
        let (own, items, all) = len(&bytes[at..]);
        out.push((at, at + all));
        let mut inner = at + own;
        (0..items).for_each(|_| inner = walk(bytes, inner, out));
        at + all
    }
    let with_all = with(with(component(), "encoding", text("raw")), "type", text("u8"));
    let object = with(object(), "components", map(&[("data", map(&with_all))]));
    let object = with(object, "attributes", map(&[("n", text("v"))]));
    type MakeFile = fn(&[u8]) -> Vec<u8>;
    let files: [(Vec<u8>, MakeFile); 3] = [
        (map(&with(root(&object), "attributes", map(&[("a", text("b"))]))), file_1_2),
        (map(&root_1_0(&tensor_1_0())), file_1_0),
        (array(&[map(&with(entry(), "layout", text("dense")))]), file_0_1),
    ];
    for (manifest, file) in files {
        let plain = decode(&file(&manifest)).unwrap();
        let mut items = Vec::new();
        walk(&manifest, 0, &mut items);
        for (start, end) in items {
            for spelled in spellings(&manifest[start..end]) {
                let other = [&manifest[..start], &spelled, &manifest[end..]].concat();
                let index = decode(&file(&other)).unwrap_or_else(|e| panic!("{other:02x?}: {e}"));
                check_tensor(&index, &format!("{other:02x?}"));
                let is_value = |index: &Index| index.attributes().len();
                assert_eq!(is_value(&index), is_value(&plain));
            }
        }
    }
}

#[test]
fn names_that_are_no_text_are_refused() {
    let tensors = [vec![0xa1, 0x01], map(&object())].concat();
    let e = decode(&of_root(&with(root(&[]), "objects", tensors))).unwrap_err();
    assert_eq!(e.code(), "cbor/key");
    let components = [vec![0xa1, 0x01], map(&component())].concat();
    let e = decode(&of_object(&with(object(), "components", components))).unwrap_err();
    assert_eq!(e.code(), "cbor/key");
}

#[test]
fn nulls_of_0_1_are_absent() {
    for field in ["layout", "checksum", "data_endianness"] {
        let index = decode(&of_entry(&with(entry(), field, NULL.to_vec()))).unwrap();
        check_tensor(&index, field);
        assert!(index.warnings().is_empty() && index.unrepresented().is_empty(), "{field}");
    }
}

#[test]
fn a_logical_type_that_is_the_dtype_is_none() {
    for dtype in ["u8", "i8", "bool"] {
        let typed = with(with(component(), "dtype", text(dtype)), "type", text(dtype));
        let index = decode(&of_component(&typed)).unwrap();
        let w = index.at(0).unwrap();
        assert_eq!((w.logical_type(), index.warnings()), (None, &[][..]), "{dtype}");
    }
    // That of another dtype is one that is not known.
    let typed = with(component(), "type", text("i8"));
    assert!(decode(&of_component(&typed)).unwrap().at(0).unwrap().logical_type().is_some());
}

/// Tensors at these bytes.
fn tensors(of: &[(u64, u64)]) -> Vec<u8> {
    let tensor = |&(offset, len): &(u64, u64)| {
        let part = with(with(component(), "offset", uint(offset)), "length", uint(len));
        let tensor = with(object(), "shape", array(&[uint(len)]));
        map(&with(tensor, "components", map(&[("data", map(&part))])))
    };
    let names: Vec<String> = (0..of.len()).map(|at| format!("t{at}")).collect();
    let pairs: Vec<(&str, Vec<u8>)> =
        names.iter().map(String::as_str).zip(of.iter().map(tensor)).collect();
    of_root(&with(root(&[]), "objects", map(&pairs)))
}

#[test]
fn components_that_overlap_in_part_are_faults_of_their_tensors() {
    let faulty = |of: &[(u64, u64)]| -> Vec<usize> {
        let window = Window::whole(Bytes::from(tensors(of)));
        let index = holdall_formats::decode(&window, &Limits::default()).unwrap();
        let faults: Vec<_> = index.faults().collect();
        assert!(faults.iter().all(|e| e.code() == "index/overlap"), "{faults:?}");
        (0..of.len()).filter(|at| index.at(*at).unwrap().fault().is_some()).collect()
    };
    assert_eq!(faulty(&[(64, 16), (64, 16), (80, 8)]), [0; 0]);
    assert_eq!(faulty(&[(64, 16), (72, 16), (96, 8)]), [0, 1]);
    assert_eq!(faulty(&[(72, 16), (96, 8), (64, 16)]), [0, 2]);
    // One that holds others, and those that share its bytes.
    assert_eq!(faulty(&[(64, 64), (64, 8), (72, 8), (64, 64)]), [0, 1, 2, 3]);
    // Against every pair compared with every other.
    let mut seed = 1u64;
    let mut next = |most: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % most
    };
    for _ in 0..500 {
        let count = 1 + next(8);
        let all: Vec<(u64, u64)> = (0..count)
            .map(|_| {
                let start = 64 + 4 * next(12);
                (start, 4 * next(1 + (128 - start) / 4))
            })
            .collect();
        let overlaps = |a: (u64, u64), b: (u64, u64)| {
            a != b && a.1 > 0 && b.1 > 0 && a.0 < b.0 + b.1 && b.0 < a.0 + a.1
        };
        let expected: Vec<usize> = (0..all.len())
            .filter(|at| all.iter().any(|other| overlaps(all[*at], *other)))
            .collect();
        assert_eq!(faulty(&all), expected, "{all:?}");
    }
}

#[test]
fn a_tensor_may_have_many_components() {
    let many = |tensors: u64, each: u64| {
        let part = map(&with(component(), "length", uint(0)));
        let names = |prefix: &str, count: u64| -> Vec<String> {
            (0..count).map(|at| format!("{prefix}{at:06}")).collect()
        };
        let tables: Vec<Vec<u8>> = (0..tensors)
            .map(|at| {
                let roles = names(&format!("r{at}-"), each);
                let parts: Vec<_> = roles.iter().map(|r| (r.as_str(), part.clone())).collect();
                map(&with(with(object(), "format", text("other")), "components", map(&parts)))
            })
            .collect();
        let tensors = names("t", tensors);
        let objects: Vec<_> = tensors.iter().map(String::as_str).zip(tables).collect();
        of_root(&with(root(&[]), "objects", map(&objects)))
    };
    let index = decode(&many(1, 1025)).unwrap();
    assert_eq!(index.at(0).unwrap().components().len(), 1025);
    assert_eq!(decode(&many(1, 16_385)).unwrap_err().code(), "index/too-many-components");
    let mut limits = Limits::default();
    limits.components = 16_385;
    let index = decode_with(&many(1, 16_385), &limits).unwrap();
    assert_eq!(index.at(0).unwrap().components().len(), 16_385);
    assert_eq!(decode(&many(4, 16_384)).unwrap_err().code(), "index/too-many-names");
}
