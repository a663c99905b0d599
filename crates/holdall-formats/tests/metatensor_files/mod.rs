//! Metatensor files byte by byte: those that are read, and those that break a rule each.
#![allow(dead_code)] // Each user takes some of it.

pub(crate) mod accepts;
pub(crate) mod rejects;

/// A file of this header, filled up with spaces to a multiple of 64, and this data.
pub(crate) fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let end = (8 + header.len()).next_multiple_of(64);
    let mut out = (end as u64 - 8).to_le_bytes().to_vec();
    out.extend_from_slice(header.as_bytes());
    out.resize(end, b' ');
    out.extend_from_slice(data);
    out
}

/// A header with these values of `schema` and `tensors`, data aligned to 64.
pub(crate) fn header(schema: &str, tensors: &str) -> String {
    with(schema, tensors, "")
}

/// The same with more keys.
pub(crate) fn with(schema: &str, tensors: &str, more: &str) -> String {
    format!(
        r#"{{"metatensor":"1.0","endian":"little","data_align":64,"schema":{schema},"tensors":{tensors}{more}}}"#
    )
}

/// An object of these properties, all required.
pub(crate) fn object(properties: &[(&str, &str)]) -> String {
    let names: Vec<String> = properties.iter().map(|(name, _)| format!("{name:?}")).collect();
    let all: Vec<String> =
        properties.iter().map(|(name, schema)| format!("{name:?}:{schema}")).collect();
    format!(
        r#"{{"type":"object","properties":{{{}}},"required":[{}]}}"#,
        all.join(","),
        names.join(",")
    )
}

/// A tensor of that dtype and shape.
pub(crate) fn tensor(dtype: &str, shape: &str) -> String {
    format!(r#"{{"type":"object","TypeDef:Tensor":{{"dtype":"{dtype}","shape":[{shape}]}}}}"#)
}

/// A reference to one.
pub(crate) fn flat(dtype: &str, shape: &str, start: usize, end: usize) -> String {
    format!(r#"{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{start},{end}]}}"#)
}

/// A dataset of records of that schema.
pub(crate) fn array(items: &str) -> String {
    format!(r#"{{"type":"array","items":{items},"TypeDef:Array":true}}"#)
}

/// A struct with these members, the first of which are required.
pub(crate) fn record(members: &[(&str, &str)], required: usize) -> String {
    let names: Vec<String> = members.iter().map(|(name, _)| format!("{name:?}")).collect();
    let all: Vec<String> =
        members.iter().map(|(name, schema)| format!("{name:?}:{schema}")).collect();
    format!(
        r#"{{"type":"object","TypeDef:Struct":[{}],"properties":{{{}}},"required":[{}]}}"#,
        names.join(","),
        all.join(","),
        names[..required].join(",")
    )
}

pub(crate) const UINT32: &str = r#"{"type":"integer","TypeDef:Uint32":true}"#;
pub(crate) const UINT8: &str = r#"{"type":"integer","TypeDef:Uint8":true}"#;
pub(crate) const FLOAT32: &str = r#"{"type":"number","TypeDef:Float32":true}"#;
pub(crate) const BOOLEAN: &str = r#"{"type":"boolean","TypeDef:Boolean":true}"#;
pub(crate) const STRING: &str = r#"{"type":"string","TypeDef:String":true}"#;
pub(crate) const TENSORS: &str =
    r#"{"type":"object","additionalProperties":{"type":"object","TypeDef:Tensor":{}}}"#;

/// Entries, each an offset and a length.
pub(crate) fn entries(all: &[(u64, u64)]) -> Vec<u8> {
    all.iter().flat_map(|(at, len)| [at.to_le_bytes(), len.to_le_bytes()].concat()).collect()
}

/// Records of the given number and length, with a heap after them.
pub(crate) fn dataset(count: usize, len: usize, heap: Option<usize>) -> String {
    match heap {
        None => format!(r#"{{"count":{count},"data_offsets":[0,{len}]}}"#),
        Some(heap) => format!(
            r#"{{"count":{count},"data_offsets":[0,{len}],"blob_data":{}}}"#,
            flat("U8", &heap.to_string(), len, len + heap)
        ),
    }
}

/// A blob with this number of entries, at the start of the data, with a heap after them.
pub(crate) fn blob(count: usize, heap: usize) -> String {
    let end = count * 16;
    format!(
        r#"{{"entries":{{"count":{count},"data_offsets":[0,{end}]}},"blob_data":{}}}"#,
        flat("U8", &heap.to_string(), end, end + heap)
    )
}

/// The schema of a blob.
pub(crate) fn blob_with_content(content: &str) -> String {
    format!(r#"{{"TypeDef:Blob":{{"content":"{content}"}}}}"#)
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/metatensor/{name}.mt");
    let rejects = rejects::rejects().into_iter().map(|r| (path(r.name), r.bytes));
    let path = |name: &str| format!("accept/metatensor/made-{name}.mt");
    let accepts = accepts::accepts().into_iter().map(|(name, bytes)| (path(name), bytes));
    rejects.chain(accepts).collect()
}
