//! Frames of a runner, from a process that may send anything: a frame that is read and written is read back unchanged,
//! in bounded memory.

use crate::walk::is_of_the_file;
use holdall::Bytes;
use holdall::carton::{TensorValue, ValueType};
use holdall_run::NamedValues;
use holdall_run::process::frame::{DATA_MAX, Frame, HEADER_MAX, Kind, PREFIX_LEN, Prefix};
use holdall_run::process::values;
use serde_json::json;

/// The maximum length of the shared memory file.
const SHARED_MAX: u64 = 1 << 16;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let Some((first, rest)) = data.split_first_chunk::<PREFIX_LEN>() else { return };
    let prefix = match Prefix::decode(first) {
        Ok(prefix) => prefix,
        Err(e) => return is_of_the_file(&e),
    };
    assert!(prefix.header_len <= HEADER_MAX as usize && prefix.data_len <= DATA_MAX as usize);
    // The announced bytes need not arrive.
    let (header, rest) = rest.split_at(prefix.header_len.min(rest.len()));
    let elements = rest[..prefix.data_len.min(rest.len())].to_vec();
    let frame = match prefix.frame(header, elements) {
        Ok(frame) => frame,
        Err(e) => return is_of_the_file(&e),
    };
    assert_eq!((frame.kind, frame.request), (prefix.kind, prefix.request));
    let _ = (frame.text("what"), frame.text("message"));
    let back = read(&frame.encode().expect("it is no longer than it was"));
    assert_eq!((back.kind, back.request, &back.data), (frame.kind, frame.request, &frame.data));
    // Floats may be written with other digits than they were read from.
    assert_eq!(back.header.to_string(), frame.header.to_string());
    let mut shared = |_, len| match len {
        0..=SHARED_MAX => Ok(Bytes::from(vec![1; len as usize])),
        _ => Err(holdall_run::rules::SHARED.broken("it is longer than any existing one")),
    };
    let found = match values::unpack(&frame.header, frame.data, &mut shared) {
        Ok(found) => found,
        Err(e) => return is_of_the_file(&e),
    };
    for (_, value) in &found {
        holds(value);
    }
    let mut files: Vec<Vec<u8>> = Vec::new();
    let (header, data) = values::pack(&found, values::SHARED_FROM, &mut |bytes| {
        files.push(bytes.to_vec());
        Ok(files.len() as u64 - 1)
    })
    .expect("files have room");
    let header = json!({ "values": header });
    let back = values::unpack(&header, data, &mut |at, len| {
        let file = &files[at as usize];
        assert_eq!(file.len() as u64, len);
        Ok(Bytes::copy_from_slice(file))
    });
    assert_eq!(back.expect("it was written"), found);
}

/// Reads a whole frame that was written.
fn read(bytes: &[u8]) -> Frame {
    let (first, rest) = bytes.split_first_chunk::<PREFIX_LEN>().expect("it has a prefix");
    let prefix = Prefix::decode(first).expect("it was written");
    assert_eq!(prefix.header_len + prefix.data_len, rest.len());
    let (header, data) = rest.split_at(prefix.header_len);
    prefix.frame(header, data.to_vec()).expect("it was written")
}

/// Checks that a value has as many elements as its shape requires.
fn holds(value: &TensorValue) {
    match value {
        TensorValue::Numbers { ty, shape, data } => {
            let count = holdall::element_count(shape).expect("it was read");
            assert_eq!(Some(data.len() as u64), ty.width().map(|width| width * count));
        }
        TensorValue::Strings { shape, data } => {
            assert_eq!(holdall::element_count(shape), Some(data.len() as u64));
        }
        TensorValue::Nested(inner) => {
            assert!(inner.iter().all(|v| !matches!(v, TensorValue::Nested(_))));
            inner.iter().for_each(holds);
        }
    }
}

/// Returns a call with all tensors of a file that a model may take, and the frames around it.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let Some(file) = crate::open(file) else { return Vec::new() };
    let mut named: NamedValues = Vec::new();
    for tensor in file.tensors() {
        let ty = tensor.dtype().and_then(|dtype| ValueType::by_name(long_name(dtype)));
        let bytes = tensor.bytes(&holdall::Role::Data);
        if let (Some(ty), Ok(bytes)) = (ty, bytes)
            && let Ok(value) = TensorValue::numbers(ty, tensor.shape().to_vec(), bytes)
        {
            named.push((tensor.name().to_owned(), value));
        }
    }
    let texts = TensorValue::strings(vec![2], vec!["a".into(), "ü\n".into()]);
    named.extend(texts.ok().map(|texts| ("texts".to_owned(), texts)));
    let inner: Vec<TensorValue> = named.iter().take(1).map(|(_, value)| value.clone()).collect();
    named.extend(TensorValue::nested(inner).ok().map(|nested| ("nested".to_owned(), nested)));
    let mut frames = Vec::new();
    // In the data, and in shared memory.
    if let Ok((values, data)) = values::pack(&named, values::SHARED_FROM, &mut |_| Ok(7)) {
        frames.push(Frame::new(Kind::Call, 3, json!({ "values": values })).with_data(data));
    }
    let shared = json!([{ "name": "x", "dtype": "uint8", "shape": [2, 3], "len": 6, "file": 0 }]);
    frames.push(Frame::new(Kind::Item, 3, json!({ "values": shared })));
    frames.push(Frame::new(Kind::Ready, 1, json!({ "protocol": 1, "runner": "python" })));
    frames.push(Frame::new(Kind::Fail, 9, json!({ "what": "call", "message": "no" })));
    frames.iter().filter_map(|frame| frame.encode().ok()).collect()
}

/// Returns the name of a type in `carton.toml`; for other types an unknown name.
fn long_name(dtype: holdall::DType) -> &'static str {
    use holdall::DType as D;
    match dtype {
        D::F32 => "float32",
        D::F64 => "float64",
        D::I8 => "int8",
        D::I16 => "int16",
        D::I32 => "int32",
        D::I64 => "int64",
        D::U8 => "uint8",
        D::U16 => "uint16",
        D::U32 => "uint32",
        D::U64 => "uint64",
        _ => "",
    }
}
