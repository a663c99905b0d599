//! ONNX models made byte by byte, and those that break a rule each.
#![allow(dead_code)] // Each user takes some of it.

/// A field of bytes.
pub(crate) fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A field of a whole number.
pub(crate) fn int(number: u64, n: u64) -> Vec<u8> {
    [varint(number << 3), varint(n)].concat()
}

fn varint(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out
}

/// A model with this graph.
pub(crate) fn model(graph: &[Vec<u8>]) -> Vec<u8> {
    [int(1, 10), field(7, &graph.concat()), field(8, &int(2, 20))].concat()
}

/// A tensor of this name, element type and shape, and what else it has.
pub(crate) fn tensor(name: &str, of: u64, shape: &[u64], rest: &[Vec<u8>]) -> Vec<u8> {
    let dims: Vec<u8> = shape.iter().flat_map(|n| int(1, *n)).collect();
    [dims, int(2, of), field(8, name.as_bytes()), rest.concat()].concat()
}

/// An initializer with these bytes.
pub(crate) fn raw(name: &str, of: u64, shape: &[u64], bytes: &[u8]) -> Vec<u8> {
    field(5, &tensor(name, of, shape, &[field(9, bytes)]))
}

/// An initializer whose elements are in another file.
pub(crate) fn external(name: &str, shape: &[u64], pairs: &[(&str, &str)]) -> Vec<u8> {
    let pair = |(key, value): &(&str, &str)| {
        field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
    };
    let mut rest: Vec<Vec<u8>> = pairs.iter().map(pair).collect();
    rest.push(int(14, 1));
    field(5, &tensor(name, 1, shape, &rest))
}

/// A sparse initializer of shape 2 × 3.
fn sparse(indices: &[u8]) -> Vec<u8> {
    let values = tensor("s", 1, &[2], &[field(9, &[0; 8])]);
    let parts = [field(1, &values), field(2, indices), int(3, 2), int(3, 3)];
    field(15, &parts.concat())
}

/// A node with this attribute.
pub(crate) fn node(name: &str, attribute: &[Vec<u8>]) -> Vec<u8> {
    field(1, &[field(3, name.as_bytes()), field(5, &attribute.concat())].concat())
}

/// Files by `area.what.case`, which is their name in the corpus.
pub(crate) fn rejects() -> Vec<(&'static str, Vec<u8>)> {
    let one = |init: Vec<u8>| model(&[raw("ok", 1, &[1], &[0; 4]), init]);
    let with = |of, shape: &[u64], rest: &[Vec<u8>]| one(field(5, &tensor("x", of, shape, rest)));
    let deep =
        (0..200).fold(Vec::new(), |graph, _| node("n", &[field(1, b"body"), field(6, &graph)]));
    let at = |pairs: &[(&str, &str)]| one(external("x", &[2], pairs));
    let indices = |shape: &[u64], all: &[i64]| {
        let bytes: Vec<u8> = all.iter().flat_map(|n| n.to_le_bytes()).collect();
        one(sparse(&tensor("", 7, shape, &[field(9, &bytes)])))
    };
    let whole = model(&[raw("w", 1, &[1000], &[0; 4000])]);
    vec![
        ("protobuf.broken.cut", whole[..2000].to_vec()),
        ("protobuf.broken.group", one(field(5, &[0x0b, 0x0c]))),
        ("protobuf.broken.inside", one(field(5, &[0x4a, 0x7f, 1, 2]))),
        ("protobuf.broken.endless", one(field(5, &[&[0x08][..], &[0xff; 12]].concat()))),
        ("protobuf.broken.field-0", one(field(5, &[0x02, 0x00]))),
        ("onnx-file.graph.two", [whole.clone(), whole[2..].to_vec()].concat()),
        ("onnx-file.depth.graphs", model(&[deep])),
        ("onnx-file.element-type.text", with(8, &[1], &[field(6, b"hello")])),
        ("onnx-file.element-type.none", with(0, &[1], &[field(9, &[0; 4])])),
        ("onnx-file.element-type.most", with(u64::MAX, &[1], &[field(9, &[0; 4])])),
        ("onnx-file.dims.negative", with(1, &[u64::MAX], &[field(9, &[0; 4])])),
        ("onnx-file.data.short", with(1, &[2], &[field(9, &[0; 7])])),
        ("onnx-file.data.long", with(1, &[2], &[field(9, &[0; 9])])),
        ("onnx-file.data.none", with(1, &[2], &[])),
        ("onnx-file.data.twice", with(1, &[1], &[field(9, &[0; 4]), field(4, &[0; 4])])),
        ("onnx-file.data.bytes-twice", with(1, &[1], &[field(9, &[0; 4]), field(9, &[0; 4])])),
        ("onnx-file.data.wrong-field", with(1, &[1], &[field(7, &[1])])),
        ("onnx-file.data.segment", with(1, &[1], &[field(3, &int(1, 0)), field(9, &[0; 4])])),
        ("onnx-file.data.few-numbers", with(7, &[3], &[field(7, &[1, 2])])),
        ("onnx-file.data.many-numbers", with(7, &[1], &[field(7, &[1; 100])])),
        ("onnx-file.data.huge", with(7, &[1 << 40], &[field(7, &[1, 2])])),
        ("index.shape-overflow.product", with(1, &[1 << 40, 1 << 40], &[field(9, &[0; 4])])),
        ("onnx-file.data.offset", at(&[("location", "w"), ("offset", "-1")])),
        ("onnx-file.data.length", at(&[("location", "w"), ("length", "9")])),
        ("onnx-file.indices.outside", indices(&[2], &[0, 6])),
        ("onnx-file.indices.negative", indices(&[2], &[-1, 2])),
        ("onnx-file.indices.row", indices(&[2, 2], &[0, 0, 1, 3])),
        ("onnx-file.indices.shape", indices(&[3], &[0, 1, 2])),
        ("onnx-file.indices.floats", one(sparse(&tensor("", 1, &[2], &[field(9, &[0; 8])])))),
        ("onnx-file.location.up", at(&[("location", "../w")])),
        ("onnx-file.location.absolute", at(&[("location", "/etc/passwd")])),
        ("onnx-file.location.drive", at(&[("location", "C:w")])),
        ("onnx-file.location.backslash", at(&[("location", "a\\..\\..\\w")])),
        ("onnx-file.location.none", at(&[("offset", "0")])),
        ("onnx-file.external.not-there", at(&[("location", "not-there.data")])),
        // The file itself has less.
        (
            "onnx-file.external.outside",
            at(&[
                ("location", "onnx-file.external.outside.onnx"),
                ("offset", "18446744073709551615"),
            ]),
        ),
    ]
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/onnx/{name}.onnx");
    rejects().into_iter().map(|(name, bytes)| (path(name), bytes)).collect()
}
