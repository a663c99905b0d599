//! Files of Flax made byte by byte, and those that break a rule each.
#![allow(dead_code)] // Each user takes some of it.

/// A text.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [vec![0xd9, text.len() as u8], text.as_bytes().to_vec()].concat()
}

/// A whole number.
pub(crate) fn int(n: i64) -> Vec<u8> {
    [vec![0xd3], n.to_be_bytes().to_vec()].concat()
}

pub(crate) fn bytes(bytes: &[u8]) -> Vec<u8> {
    [vec![0xc5], (bytes.len() as u16).to_be_bytes().to_vec(), bytes.to_vec()].concat()
}

pub(crate) fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [vec![0xdc], (items.len() as u16).to_be_bytes().to_vec(), items.concat()].concat()
}

pub(crate) fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let all = entries.iter().flat_map(|(key, value)| [text(key), value.clone()].concat());
    let count = (entries.len() as u16).to_be_bytes().to_vec();
    [vec![0xde], count, all.collect()].concat()
}

pub(crate) fn ext(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [vec![0xc8], (bytes.len() as u16).to_be_bytes().to_vec(), vec![kind], bytes.to_vec()].concat()
}

/// An array of that shape and type.
pub(crate) fn array(shape: &[i64], dtype: &str, data: &[u8]) -> Vec<u8> {
    let shape: Vec<Vec<u8>> = shape.iter().map(|dim| int(*dim)).collect();
    ext(1, &list(&[list(&shape), text(dtype), bytes(data)]))
}

/// An array in chunks.
pub(crate) fn chunked(shape: &[i64], chunks: &[Vec<u8>]) -> Vec<u8> {
    let numbered = |items: Vec<Vec<u8>>| {
        let names: Vec<String> = (0..items.len()).map(|at| at.to_string()).collect();
        map(&names.iter().map(String::as_str).zip(items).collect::<Vec<_>>())
    };
    map(&[
        ("__msgpack_chunked_array__", vec![0xc3]),
        ("shape", numbered(shape.iter().map(|dim| int(*dim)).collect())),
        ("chunks", numbered(chunks.to_vec())),
    ])
}

/// Files by `area.what.case`, which is their name in the corpus.
pub(crate) fn rejects() -> Vec<(&'static str, Vec<u8>)> {
    let ok = || ("ok", array(&[1], "float32", &[0; 4]));
    let one = |value: Vec<u8>| map(&[ok(), ("x", value)]);
    let halves = [array(&[1], "float32", &[0; 4]), array(&[2], "float32", &[0; 8])];
    let deep = (0..200).fold(int(1), |inner, _| map(&[("m", inner)]));
    let lists = (0..200).fold(int(1), |inner, _| list(&[inner]));
    let cut = |file: Vec<u8>, less: usize| file[..file.len() - less].to_vec();
    let mut twice = chunked(&[3], &halves);
    // The mark and the shape change places.
    let mark = text("__msgpack_chunked_array__").len() + 1;
    let moved: Vec<u8> = twice.splice(3..3 + mark, []).collect();
    let late = [twice, moved].concat();
    vec![
        ("msgpack.broken.cut", cut(one(array(&[4], "float32", &[0; 16])), 5)),
        ("msgpack.broken.count", one(vec![0xdd, 0xff, 0xff, 0xff, 0xff])),
        ("msgpack.broken.map-count", one(vec![0xdf, 0x7f, 0xff, 0xff, 0xff])),
        ("msgpack.broken.type", one(vec![0xc1])),
        ("msgpack.broken.ext", one(vec![0xc9, 0xff, 0xff, 0xff, 0xff, 1])),
        ("msgpack.broken.after", [one(int(1)), int(1)].concat()),
        ("msgpack.broken.text", one(vec![0xa1, 0xff])),
        ("flax.key.bytes", [&[0x82][..], &text("a"), &int(1), &bytes(b"k"), &int(1)].concat()),
        ("flax.key.twice", map(&[ok(), ("x", int(1)), ("x", int(2))])),
        ("flax.key.not-utf-8", [&[0x82][..], &text("a"), &int(1), &[0xa1, 0xff], &int(1)].concat()),
        ("index.duplicate-name.dots", {
            let w = || array(&[1], "float32", &[0; 4]);
            map(&[("a", map(&[("b", w())])), ("a.b", w())])
        }),
        ("flax.array.not-three", one(ext(1, &list(&[list(&[]), text("float32")])))),
        ("flax.array.negative", one(array(&[-1], "float32", &[]))),
        ("flax.array.text-dim", one(ext(1, &list(&[list(&[text("2")]), text("f"), bytes(&[])])))),
        ("flax.array.no-type", one(ext(1, &list(&[list(&[]), int(1), bytes(&[0; 4])])))),
        ("flax.array.no-bytes", one(ext(1, &list(&[list(&[]), text("float32"), int(1)])))),
        ("flax.array.complex", one(ext(2, &list(&[int(1), int(2)])))),
        ("flax.element-type.text", one(array(&[1], "str32", &[0; 4]))),
        ("flax.element-type.int4", one(array(&[1], "int4", &[0; 1]))),
        ("flax.element-type.in-chunks", one(chunked(&[1], &[array(&[1], "str8", &[0; 1])]))),
        ("index.size.short", one(array(&[3], "float32", &[0; 8]))),
        ("index.size.long", one(array(&[1], "bfloat16", &[0; 4]))),
        ("index.size.in-chunks", one(chunked(&[2, 2], &halves))),
        ("index.shape-overflow.product", one(array(&[1 << 40, 1 << 40], "float32", &[0; 4]))),
        ("index.rank.many", one(array(&[1; 70], "float32", &[0; 4]))),
        ("flax.chunks.none", one(chunked(&[0], &[]))),
        ("flax.chunks.types", one(chunked(&[3], &[halves[0].clone(), array(&[1], "int8", &[0])]))),
        ("flax.chunks.not-whole", one(chunked(&[3], &[array(&[1], "float32", &[0; 3])]))),
        ("flax.chunks.late", one(late)),
        ("flax.chunks.alone", chunked(&[3], &halves)),
        ("flax.chunks.missing", one(map(&[("__msgpack_chunked_array__", vec![0xc3])]))),
        ("flax.chunks.order", {
            let shape = map(&[("1", int(3))]);
            let mark = ("__msgpack_chunked_array__", vec![0xc3]);
            let chunks = map(&[("0", array(&[3], "float32", &[0; 12]))]);
            one(map(&[mark, ("shape", shape), ("chunks", chunks)]))
        }),
        ("flax.depth.maps", deep),
        ("flax.depth.lists", one(lists)),
    ]
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/flax/{name}.msgpack");
    rejects().into_iter().map(|(name, bytes)| (path(name), bytes)).collect()
}
