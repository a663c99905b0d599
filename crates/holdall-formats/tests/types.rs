//! The types that people have in files: texts of any length, enumerations, references, parts of other datasets, trees
//! with numbers as keys. The files are those of other writers, with the values that these read.

use holdall_core::{
    ByteOrder, Bytes, Error, Index, Layout, Limits, Role, Stop, TensorInfo, Value, Window,
};
use holdall_schema::{Schema, TENSOR_SCHEMA_ATTRIBUTE, normalize};

fn decode_with(bytes: &[u8], limits: &Limits) -> Result<Index, Error> {
    match holdall_formats::decode(&Window::whole(Bytes::copy_from_slice(bytes)), limits) {
        Ok(index) => Ok(index),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole file lacks {range:?}"),
    }
}

fn decode(bytes: &[u8]) -> Index {
    decode_with(bytes, &Limits::default()).unwrap()
}

/// Returns the bytes of a component.
fn bytes(file: &[u8], index: &Index, tensor: &TensorInfo, role: &Role) -> Vec<u8> {
    let stored = tensor.component(role).unwrap().stored;
    let range = stored.start as usize..stored.end as usize;
    if stored.is_stated() {
        return index.stated()[range].to_vec();
    }
    let Some(array) = stored.chunked() else { return file[range].to_vec() };
    let array = &index.chunked()[array];
    let mut out = vec![0; array.len() as usize];
    array.clear(0, &mut out);
    for chunk in array.chunks() {
        let stored = chunk.stored.start as usize..chunk.stored.end as usize;
        let decoded = array.decode(chunk, &file[stored]).unwrap();
        array.copy_chunk(chunk, &decoded, 0, 0, &mut out);
    }
    out
}

/// Returns the records of a tensor as JSON, one line each.
fn records(file: &[u8], index: &Index, name: &str) -> String {
    let tensor = index.get(name).unwrap();
    tensor.sound().unwrap();
    let limits = Limits::default().schema_limits();
    let kind = tensor.attributes().get(TENSOR_SCHEMA_ATTRIBUTE).and_then(Value::as_text).unwrap();
    let json = normalize(serde_json::from_str(kind).unwrap()).unwrap();
    let schema = Schema::compile_record(&json, &limits).unwrap();
    let ty = schema.record().unwrap();
    let stride = schema.extent(ty).unwrap().stride as usize;
    let data = bytes(file, index, &tensor, &Role::Data);
    let heap = match tensor.component(&Role::BlobData) {
        Some(_) => bytes(file, index, &tensor, &Role::BlobData),
        None => Vec::new(),
    };
    let mut lines = Vec::new();
    for record in data.chunks_exact(stride) {
        let mut line = String::new();
        schema.record_text(ty, record, &heap, &limits, &mut line).unwrap();
        lines.push(line);
    }
    assert_eq!(tensor.shape(), [lines.len() as u64]);
    lines.join("\n")
}

#[test]
fn texts_of_any_length_are_records() {
    let file = include_bytes!("types_files/labels.h5");
    let index = decode(file);
    assert_eq!(records(file, &index, "labels"), "\"oak\"\n\"bêche\"\n\"\"\n\"\"\n\"\"\n\"\"");
    assert_eq!(records(file, &index, "one"), "\"hello world\"");
    let shape = index.get("one").unwrap().attributes().get("numpy.shape").cloned();
    assert_eq!(shape, Some(Value::Array(Vec::new())));
    let mut few = Limits::default();
    few.header_len = 220;
    let index = decode_with(file, &few).unwrap();
    let codes = |index: &Index| index.faults().map(|e| e.code()).collect::<Vec<_>>();
    assert_eq!(codes(&index), ["hdf5/too-many-values"; 1]);
}

#[test]
fn names_of_an_enumeration_are_kept() {
    let file = include_bytes!("types_files/enum.h5");
    let index = decode(file);
    let level = index.get("level").unwrap();
    let names = level.attributes().get("hdf5.enum").cloned();
    let pair = |name: &str, n: i128| (Value::Text(name.to_owned()), Value::Integer(n));
    let Some(Value::Map(mut found)) = names else { panic!("{names:?}") };
    found.sort_by_key(|(_, n)| n.as_integer());
    assert_eq!(found, [pair("LOW", 10), pair("MID", 20), pair("HIGH", 30)]);
    assert!(index.get("plain").unwrap().attributes().get("hdf5.enum").is_none());
    let rows = index.get("rows").unwrap();
    let kind = rows.attributes().get(TENSOR_SCHEMA_ATTRIBUTE).and_then(Value::as_text).unwrap();
    assert!(kind.contains(r#""hdf5.enum":{"HIGH":30,"LOW":10,"MID":20}"#), "{kind}");
}

#[test]
fn a_virtual_dataset_of_the_same_file_has_its_elements() {
    let file = include_bytes!("types_files/vds_self.h5");
    let index = decode(file);
    let found = bytes(file, &index, &index.get("virtual").unwrap(), &Role::Data);
    assert_eq!(found, [1i64, 2, 3].map(i64::to_le_bytes).concat());
}

#[test]
fn trees_may_be_lists_or_have_numbers_as_keys() {
    let file = include_bytes!("types_files/introot.msgpack");
    let index = decode(file);
    assert_eq!(index.names().collect::<Vec<_>>(), ["0.kernel", "1.kernel"]);
    assert_eq!(index.get("1.kernel").unwrap().shape(), [2, 3]);
    // The same trees as items of a list.
    let trees: Vec<u8> =
        file.split(|byte| *byte == 0x81).skip(1).fold(vec![0x92], |mut list, tree| {
            list.push(0x81);
            // The key of the next tree comes last.
            let len = if tree.last() == Some(&1) { tree.len() - 1 } else { tree.len() };
            list.extend_from_slice(&tree[..len]);
            list
        });
    let index = decode(&trees);
    assert_eq!(index.names().collect::<Vec<_>>(), ["0.kernel", "1.kernel"]);
    // Numbers and lists without an array are no such tree.
    for other in [&[0x82, 0, 1, 1, 2][..], &[0x92, 1, 2], &[0x91; 4000]] {
        assert_eq!(decode_with(other, &Limits::default()).unwrap_err().code(), "format/unknown");
    }
}

/// Every dataset has the values that h5py reads, in each generation of the format.
#[test]
fn values_of_any_length_are_those_of_h5py() {
    for (file, wanted) in [
        (
            &include_bytes!("types_files/h5py-earliest.h5")[..],
            include_str!("types_files/h5py-earliest.h5.json"),
        ),
        (include_bytes!("types_files/h5py-v110.h5"), include_str!("types_files/h5py-v110.h5.json")),
        (
            include_bytes!("types_files/h5py-latest.h5"),
            include_str!("types_files/h5py-latest.h5.json"),
        ),
    ] {
        let index = decode(file);
        assert_eq!(index.faults().map(|e| e.to_string()).collect::<Vec<_>>(), [""; 0]);
        let wanted: serde_json::Value = serde_json::from_str(wanted).unwrap();
        for (name, wanted) in wanted.as_object().unwrap() {
            let tensor = index.get(name).unwrap();
            let found = match *tensor.layout() == Layout::Records {
                true => {
                    let text = records(file, &index, name);
                    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
                    serde_json::Value::Array(lines.collect())
                }
                false => {
                    let c = tensor.component(&Role::Data).unwrap();
                    let bytes = bytes(file, &index, &tensor, &Role::Data);
                    let number = |bytes: &[u8]| -> i64 {
                        let mut bytes = bytes.to_vec();
                        if c.byte_order == ByteOrder::Big {
                            bytes.reverse();
                        }
                        let sign = if bytes.last().unwrap() & 0x80 == 0 { 0 } else { 0xff };
                        bytes.resize(8, sign);
                        i64::from_le_bytes(bytes.try_into().unwrap())
                    };
                    bytes.chunks(c.dtype.width() as usize).map(number).collect()
                }
            };
            assert_eq!(&found, wanted, "{name}");
        }
        let attributes = index.get("refs").unwrap().attributes().to_json();
        let attributes: serde_json::Value = serde_json::from_str(&attributes).unwrap();
        assert_eq!(attributes["to"], "/group/sub");
        assert_eq!(attributes["list"], serde_json::json!(["/one", "/group"]));
        assert_eq!(attributes["pair"], serde_json::json!([{"to": "/group", "n": 1}]));
        let scales = index.get("group/sub/data").unwrap().attributes().to_json();
        let scales: serde_json::Value = serde_json::from_str(&scales).unwrap();
        assert_eq!(scales["DIMENSION_LIST"], serde_json::json!([["/scale"]]));
        let virtual_ones = index.get("virtual/base").unwrap();
        assert!(virtual_ones.component(&Role::Data).unwrap().stored.chunked().is_some());
    }
}

/// A file with any byte changed is read, or refused, in bounded memory and time.
#[test]
fn changed_files_do_no_harm() {
    let file = include_bytes!("types_files/h5py-latest.h5");
    let mut state = 40u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    for _ in 0..300 {
        let mut file = file.to_vec();
        for _ in 0..3 {
            let at = next() as usize % file.len();
            file[at] = next() as u8;
        }
        if let Ok(index) = decode_with(&file, &Limits::default()) {
            assert!(index.stated().len() < 1 << 22);
        }
    }
}
