//! Readers that are independent of Holdall: for safetensors, `.npy` and zTensor 1.2.

use crate::matrix::tensors::{LayoutForm, Stored, Tensor, Tensors, half};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Returns a safetensors file with these tensors.
pub(crate) fn safetensors(tensors: &Tensors) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, tensor) in tensors {
        let start = data.len();
        data.extend(&tensor.bytes);
        let (dtype, shape) = (&tensor.dtype, &tensor.shape);
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name.clone(), entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

/// Returns the tensors of a safetensors file.
pub(crate) fn tensors_of(bytes: &[u8]) -> Tensors {
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    let data = &bytes[8 + len..];
    let number = |value: &Value| value.as_u64().unwrap();
    let entries = header.into_iter().filter(|(name, _)| name != "__metadata__");
    let one = |(name, entry): (String, Value)| {
        let shape = entry["shape"].as_array().unwrap().iter().map(number).collect();
        let [start, end] = [0, 1].map(|at| number(&entry["data_offsets"][at]) as usize);
        let dtype = entry["dtype"].as_str().unwrap().to_owned();
        (name, Tensor { shape, dtype, bytes: data[start..end].to_vec() })
    };
    entries.map(one).collect()
}

/// Returns the header and the elements of an `.npy` file in C order.
pub(crate) fn npy(bytes: &[u8]) -> (String, Vec<u8>) {
    assert_eq!(&bytes[..6], b"\x93NUMPY");
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8(bytes[10..start].to_vec()).unwrap();
    assert!(header.contains("'fortran_order': False"), "{header}");
    (header, bytes[start..].to_vec())
}

/// Parses a CBOR item. Tags are ignored, and byte strings become text.
fn cbor(bytes: &mut &[u8]) -> Value {
    let first = bytes[0];
    *bytes = &bytes[1..];
    let len = match first & 31 {
        24 => 1,
        25 => 2,
        26 => 4,
        27 => 8,
        _ => 0,
    };
    let number = match len {
        0 => u64::from(first & 31),
        _ => bytes[..len].iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    };
    *bytes = &bytes[len..];
    match first >> 5 {
        0 => json!(number),
        1 => json!(-1 - number as i64),
        2 | 3 => {
            let (text, rest) = bytes.split_at(number as usize);
            *bytes = rest;
            json!(String::from_utf8_lossy(text))
        }
        4 => (0..number).map(|_| cbor(bytes)).collect(),
        5 => {
            let pair = |_| (cbor(bytes).as_str().unwrap().to_owned(), cbor(bytes));
            (0..number).map(pair).collect::<Map<_, _>>().into()
        }
        6 => cbor(bytes),
        _ => match (first & 31, len) {
            (20, _) => json!(false),
            (21, _) => json!(true),
            (_, 2) => json!(half(number as u16)),
            (_, 4) => json!(f32::from_bits(number as u32)),
            (_, 8) => json!(f64::from_bits(number)),
            _ => Value::Null,
        },
    }
}

/// Returns the stored tensors of a zTensor 1.2 file by name, or `None` if a component is compressed.
pub(crate) fn ztensor(bytes: &[u8]) -> Option<BTreeMap<String, Stored>> {
    let end = bytes.len() - 16;
    let len = u64::from_le_bytes(bytes[end..end + 8].try_into().unwrap()) as usize;
    let root = cbor(&mut &bytes[end - len..end]);
    let number = |value: &Value| value.as_u64().unwrap();
    let one = |(name, object): (&String, &Value)| {
        let mut parts = Vec::new();
        let mut dtype = "";
        for (role, component) in object["components"].as_object().unwrap() {
            if component.get("encoding").is_some_and(|encoding| encoding != "raw") {
                return None;
            }
            let [start, len] = ["offset", "length"].map(|key| number(&component[key]) as usize);
            parts.push((role.clone(), bytes[start..start + len].to_vec()));
            dtype = component["dtype"].as_str().unwrap();
        }
        let attributes = object["attributes"].as_object().cloned().unwrap_or_default();
        let form = match (object["format"].as_str().unwrap(), dtype) {
            ("dense", "f32") => LayoutForm::Dense,
            ("dense", "i8") => LayoutForm::Codes("I8"),
            ("dense", "u8") => LayoutForm::Codes("U8"),
            ("sparse_csr", _) => LayoutForm::Csr,
            ("sparse_coo", _) => LayoutForm::Coo,
            ("gguf.q8_0", _) => LayoutForm::Q8,
            ("quantized_group", _) => LayoutForm::Group {
                bits: number(&attributes["bits"]) as u32,
                size: number(&attributes["group_size"]) as usize,
            },
            ("records", _) => LayoutForm::Records,
            ("blob", _) => LayoutForm::Blob,
            other => panic!("a layout of {other:?}"),
        };
        let shape = object["shape"].as_array().unwrap().iter().map(number).collect();
        Some((name.clone(), Stored { name: "", shape, form, parts, attributes }))
    };
    root["objects"].as_object().unwrap().iter().map(one).collect()
}
