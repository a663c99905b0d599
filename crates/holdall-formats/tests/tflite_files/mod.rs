//! Models of LiteRT made table by table, and those that break a rule each.
#![allow(dead_code)] // Each user takes some of it.

/// What a field of a table is.
#[derive(Clone)]
pub(crate) enum Value {
    /// Bytes that stand in the table.
    Plain(Vec<u8>),
    Table(Table),
    Tables(Vec<Table>),
    /// Items of a vector, and how many they are said to be.
    Vector(Vec<u8>, u32),
}

/// The fields of a table by number.
pub(crate) type Table = Vec<(usize, Value)>;

pub(crate) fn u32_of(n: u32) -> Value {
    Value::Plain(n.to_le_bytes().to_vec())
}

pub(crate) fn u64_of(n: u64) -> Value {
    Value::Plain(n.to_le_bytes().to_vec())
}

pub(crate) fn text(text: &str) -> Value {
    Value::Vector(text.as_bytes().to_vec(), text.len() as u32)
}

pub(crate) fn bytes(bytes: &[u8]) -> Value {
    Value::Vector(bytes.to_vec(), bytes.len() as u32)
}

pub(crate) fn ints(all: &[i32]) -> Value {
    Value::Vector(all.iter().flat_map(|n| n.to_le_bytes()).collect(), all.len() as u32)
}

/// A file whose root is this table.
pub(crate) fn file(root: &Table) -> Vec<u8> {
    let mut out = [&[0; 4][..], b"TFL3"].concat();
    put(&mut out, 0, |out| table(out, root));
    out
}

/// Lets the u32 at `at` point at what `write` writes next.
fn put(out: &mut Vec<u8>, at: usize, write: impl FnOnce(&mut Vec<u8>) -> usize) {
    let to = write(out);
    let offset = (to - at) as u32;
    out[at..at + 4].copy_from_slice(&offset.to_le_bytes());
}

/// Writes the list of fields, the table and what it points at; where the table is.
fn table(out: &mut Vec<u8>, fields: &Table) -> usize {
    out.resize(out.len().next_multiple_of(8), 0);
    let (list, count) = (out.len(), fields.iter().map(|(n, _)| n + 1).max().unwrap_or(0));
    let at = (list + 4 + 2 * count).next_multiple_of(8) + 4;
    out.resize(at, 0);
    out.extend(((at - list) as i32).to_le_bytes());
    let mut places = Vec::new();
    for (number, value) in fields {
        let width = match value {
            Value::Plain(bytes) => bytes.len(),
            _ => 4,
        };
        out.resize(out.len().next_multiple_of(width.max(1)), 0);
        let place = out.len();
        places.push(place);
        out[list + 4 + 2 * number..][..2].copy_from_slice(&((place - at) as u16).to_le_bytes());
        match value {
            Value::Plain(bytes) => out.extend(bytes),
            _ => out.extend([0; 4]),
        }
    }
    let len = out.len() - at;
    out[list..list + 2].copy_from_slice(&((4 + 2 * count) as u16).to_le_bytes());
    out[list + 2..list + 4].copy_from_slice(&(len as u16).to_le_bytes());
    for ((_, value), place) in fields.iter().zip(places) {
        match value {
            Value::Plain(_) => {}
            Value::Table(inner) => put(out, place, |out| table(out, inner)),
            Value::Tables(all) => put(out, place, |out| {
                out.resize(out.len().next_multiple_of(4), 0);
                let start = out.len();
                out.extend((all.len() as u32).to_le_bytes());
                out.resize(start + 4 + 4 * all.len(), 0);
                for (number, inner) in all.iter().enumerate() {
                    put(out, start + 4 + 4 * number, |out| table(out, inner));
                }
                start
            }),
            Value::Vector(items, count) => put(out, place, |out| {
                // Elements of buffers are at multiples of 16.
                out.resize((out.len() + 4).next_multiple_of(16) - 4, 0);
                let start = out.len();
                out.extend(count.to_le_bytes());
                out.extend(items);
                start
            }),
        }
    }
    at
}

/// A tensor of that name, shape, type and buffer, and what else it has.
pub(crate) fn tensor(
    name: &str,
    of: u8,
    shape: &[i32],
    buffer: u32,
    rest: &[(usize, Value)],
) -> Table {
    let mut out =
        vec![(0, ints(shape)), (1, Value::Plain(vec![of])), (2, u32_of(buffer)), (3, text(name))];
    out.extend_from_slice(rest);
    out
}

pub(crate) fn graph(name: &str, tensors: &[Table]) -> Table {
    vec![(0, Value::Tables(tensors.to_vec())), (1, ints(&[0])), (2, ints(&[])), (4, text(name))]
}

/// A model of these graphs and buffers; a first buffer without bytes comes before them.
pub(crate) fn model(graphs: &[Table], buffers: &[Table], rest: &[(usize, Value)]) -> Table {
    let all = [&[vec![]][..], buffers].concat();
    let mut out =
        vec![(0, u32_of(3)), (2, Value::Tables(graphs.to_vec())), (4, Value::Tables(all))];
    out.extend_from_slice(rest);
    out
}

pub(crate) fn buffer(of: &[u8]) -> Table {
    vec![(0, bytes(of))]
}

/// A model with everything that is read.
pub(crate) fn everything() -> Vec<u8> {
    let scales: Vec<u8> = [0.5f32, 0.25].iter().flat_map(|x| x.to_le_bytes()).collect();
    let zeros: Vec<u8> = [0i64, -3].iter().flat_map(|x| x.to_le_bytes()).collect();
    let quantized =
        vec![(2, Value::Vector(scales, 2)), (3, Value::Vector(zeros, 2)), (6, u32_of(1))];
    let f = |all: &[f32]| buffer(&all.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
    let signature = (7, ints(&[-1, 2]));
    let main = graph(
        "main",
        &[
            tensor("input", 0, &[1, 2], 0, &[signature]),
            tensor("w", 0, &[2, 2], 1, &[]),
            tensor("q", 9, &[2, 2], 2, &[(4, Value::Table(quantized))]),
            tensor("packed", 17, &[3], 3, &[]),
            tensor("tied", 0, &[4], 1, &[]),
            tensor("w", 6, &[2], 4, &[]),
            tensor("", 18, &[1], 5, &[]),
        ],
    );
    let other = graph(
        "",
        &[
            tensor("w", 4, &[1], 6, &[]),
            tensor("pairs", 20, &[3], 3, &[]),
            tensor("fours", 19, &[5], 3, &[]),
            tensor("small", 21, &[4], 2, &[]),
            tensor("wide", 22, &[4], 2, &[]),
        ],
    );
    let buffers = [
        f(&[1.0, -2.5, 3.0, 0.125]),
        buffer(&[1, 2, 255, 128]),
        buffer(&[0x21, 0x0f]),
        buffer(&[0, 1]),
        buffer(&[0x80, 0x3f]),
        buffer(&7i64.to_le_bytes()),
        buffer(b"1.14.0\0\0\0\0\0\0\0\0\0\0"),
    ];
    let metadata = vec![(0, text("min_runtime_version")), (1, u32_of(7))];
    let rest = [(3, text("made by hand")), (6, Value::Tables(vec![metadata]))];
    file(&model(&[main, other], &buffers, &rest))
}

/// A model whose elements are after the FlatBuffer.
pub(crate) fn outside() -> Vec<u8> {
    let of = |start: u64| {
        let buffers = [vec![(1, u64_of(start)), (2, u64_of(8))]];
        file(&model(&[graph("", &[tensor("w", 0, &[2], 1, &[])])], &buffers, &[]))
    };
    let start = of(64).len().next_multiple_of(16);
    let mut out = of(start as u64);
    out.resize(start, 0);
    out.extend([1.5f32, -1.0].iter().flat_map(|x| x.to_le_bytes()));
    out
}

/// Files by `area.what.case`, which is their name in the corpus.
pub(crate) fn rejects() -> Vec<(&'static str, Vec<u8>)> {
    let with =
        |tensors: &[Table], buffers: &[Table]| file(&model(&[graph("", tensors)], buffers, &[]));
    let one = |tensor: Table| with(&[tensor], &[buffer(&[0; 8])]);
    let whole = one(tensor("w", 0, &[2], 1, &[]));
    let changed = |at: usize, to: &[u8]| {
        let mut out = whole.clone();
        out[at..at + to.len()].copy_from_slice(to);
        out
    };
    let root = u32::from_le_bytes(whole[..4].try_into().unwrap()) as usize;
    let lies = |count: u32| {
        let vector = Value::Vector(vec![0; 8], count);
        with(&[tensor("w", 0, &[2], 1, &[])], &[vec![(0, vector)]])
    };
    let elsewhere = |start: u64, len: u64| {
        let buffers = [vec![(1, u64_of(start)), (2, u64_of(len))]];
        with(&[tensor("w", 0, &[2], 1, &[])], &buffers)
    };
    vec![
        ("flatbuffer.bounds.root", changed(0, &[0xff, 0xff, 0xff, 0x7f])),
        ("flatbuffer.bounds.fields-before", changed(root, &[0xff, 0xff, 0xff, 0x7f])),
        ("flatbuffer.bounds.fields-behind", changed(root, &[0, 0, 0, 0x80])),
        ("flatbuffer.bounds.table-len", changed(10, &[0xff, 0xff])),
        ("flatbuffer.bounds.field", changed(12, &[0xff, 0x0f])),
        ("flatbuffer.bounds.field-in-head", changed(12, &[1, 0])),
        ("flatbuffer.bounds.vector", lies(u32::MAX)),
        ("flatbuffer.bounds.cut", whole[..whole.len() - 8].to_vec()),
        ("flatbuffer.bounds.no-more", b"\x10\0\0\0TFL3".to_vec()),
        ("tflite.version.none", file(&vec![])),
        ("tflite.version.two", file(&vec![(0, u32_of(2))])),
        ("tflite.buffer.number", one(tensor("w", 0, &[2], 9, &[]))),
        ("tflite.buffer.outside", elsewhere(64, 1 << 40)),
        ("tflite.buffer.overflow", elsewhere(u64::MAX, 8)),
        ("tflite.dims.negative", one(tensor("w", 0, &[-1, 2], 1, &[]))),
        ("tflite.element-type.text", one(tensor("w", 5, &[2], 1, &[]))),
        ("tflite.element-type.unknown", one(tensor("w", 99, &[2], 1, &[]))),
        ("tflite.sparse.one", one(tensor("w", 0, &[2], 1, &[(6, Value::Table(vec![]))]))),
        ("index.size.long", one(tensor("w", 0, &[1], 1, &[]))),
        ("index.size.short", lies(4)),
        ("index.size.packed", one(tensor("w", 17, &[2], 1, &[]))),
        ("index.shape-overflow.product", one(tensor("w", 0, &[i32::MAX; 5], 1, &[]))),
        ("index.rank.many", one(tensor("w", 0, &[1; 70], 1, &[]))),
    ]
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/tflite/{name}.tflite");
    let rejects = rejects().into_iter().map(|(name, bytes)| (path(name), bytes));
    let accepts = [("everything", everything()), ("outside", outside())];
    let accepts = accepts
        .into_iter()
        .map(|(name, bytes)| (format!("accept/tflite/made-{name}.tflite"), bytes));
    rejects.chain(accepts).collect()
}
