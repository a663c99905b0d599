//! Tensors that can be written in a version of a format are read back unchanged, and files of two versions with the
//! same contents do not differ.

use crate::take::Take;
use holdall::{
    Algorithm, Attributes, ComponentSpec, Convert, DType, DiffOptions, EncodeOptions, Error,
    ErrorKind, FORMATS, File, Format, Layout, OpenOptions, Role, TensorSpec, Value, VerifyOptions,
    Work, WriteOptions, Writer, convert_to, diff, verify,
};

/// A tensor to be written, and the bytes of its components.
struct Made {
    spec: TensorSpec,
    bytes: Vec<Vec<u8>>,
}

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let mut take = Take::new(data);
    let wanted = wanted(&mut take);
    let attributes = attributes(&mut take);
    let count = take.below(5);
    let mut tensors: Vec<Made> = Vec::new();
    for _ in 0..count {
        let made = tensor(&mut take);
        if tensors.iter().all(|t| t.spec.name != made.spec.name) {
            tensors.push(made);
        }
    }
    let mut files: Vec<File> = Vec::new();
    let written: Vec<&'static Format> =
        FORMATS.iter().copied().filter(|format| format.encode.is_some()).collect();
    for &format in &written {
        let versions = if format.versions.is_empty() { &[""][..] } else { format.versions };
        for version in versions {
            let options = in_version(&wanted, format, version).with_attributes(attributes.clone());
            if let Some(file) = write(&options, &tensors) {
                check(&file, &attributes, &tensors);
                files.push(file);
            }
        }
    }
    let Some(first) = files.first() else { return };
    for other in &files[1..] {
        is_same(first, other);
    }
    // What the target cannot represent is refused before.
    let format = written[take.below(written.len())];
    let version = format.versions.get(take.below(format.versions.len())).copied();
    let options = in_version(&wanted, format, version.unwrap_or_default());
    match convert_to(first, Vec::new(), &Convert::new(options)) {
        Ok((_, bytes)) => is_same(first, &open(bytes)),
        // Sparse tensors with other layouts in the target are written from checked indices.
        Err(e) => assert!(is_meaningless(&e) || is_refusal(&e), "{e}"),
    }
}

/// Options that are requested from every version that supports them.
struct Wanted {
    digest: Option<Algorithm>,
    is_compressed: bool,
}

fn in_version(wanted: &Wanted, format: &'static Format, version: &str) -> WriteOptions {
    let mut encode = EncodeOptions::new();
    if !version.is_empty() {
        encode = encode.with_version(version);
    }
    let new = format.encode.expect("only formats that are written");
    let encoder = new(&encode).expect("the version is there");
    let mut options = WriteOptions::new()
        .with_work(Work::new().with_threads(1))
        .with_format(format)
        .with_encode(encode.clone());
    if wanted.is_compressed && encoder.can_compress() {
        options = options.with_zstd(1);
    }
    if wanted.digest.is_none_or(|digest| encoder.can_digest(digest)) {
        options = options.with_digest(wanted.digest);
    }
    options
}

/// Writes the file, unless its format cannot represent the tensors.
fn write(options: &WriteOptions, tensors: &[Made]) -> Option<File> {
    let mut writer = Writer::stream(Vec::new(), options).expect("the version is there");
    let specs: Vec<TensorSpec> = tensors.iter().map(|t| t.spec.clone()).collect();
    if let Err(e) = writer.declare(&specs) {
        assert!(is_refusal(&e), "{e}");
        return None;
    }
    for made in tensors {
        let bytes: Vec<&[u8]> = made.bytes.iter().map(Vec::as_slice).collect();
        if let Err(e) = writer.add(made.spec.clone(), &bytes) {
            panic!("it was declared, but cannot be written: {e}");
        }
    }
    match writer.finish() {
        Ok(bytes) => Some(open(bytes)),
        // 0.1 stores them with the first tensor.
        Err(e) if e.code() == "ztensor/file-attributes" && tensors.is_empty() => None,
        Err(e) => panic!("it was written, but cannot be finished: {e}"),
    }
}

fn is_refusal(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Misuse | ErrorKind::Limit)
}

/// Returns `true` if bytes are invalid in their layout. The bytes that are written here are arbitrary.
fn is_meaningless(e: &Error) -> bool {
    matches!(e.code().split('/').next(), Some("layout" | "sparse" | "quantized"))
}

fn open(bytes: Vec<u8>) -> File {
    OpenOptions::new().open_bytes(bytes, "written").expect("what was written can be read")
}

/// Checks that the file contains what was written.
fn check(file: &File, attributes: &Attributes, tensors: &[Made]) {
    assert_eq!(file.len(), tensors.len());
    assert_eq!(by_key(file.attributes()), by_key(attributes));
    for made in tensors {
        let found = file.tensor(&made.spec.name).expect("it was written");
        assert_eq!(found.shape(), made.spec.shape);
        assert_eq!(*found.layout(), made.spec.layout);
        assert_eq!(by_key(found.attributes()), by_key(&made.spec.attributes));
        assert_eq!(found.components().len(), made.spec.components.len());
        for (spec, bytes) in made.spec.components.iter().zip(&made.bytes) {
            let c = found.component(&spec.role).expect("it was written");
            assert_eq!((c.dtype, &c.logical_type), (spec.dtype, &spec.logical_type));
            match found.bytes(&spec.role) {
                Ok(found) => assert!(found == *bytes, "other bytes of `{}`", spec.role),
                Err(e) => panic!("what was written cannot be read: {e}"),
            }
        }
    }
    let report = verify(file, &VerifyOptions::new().with_work(Work::new().with_threads(1)))
        .expect("it is in memory");
    for finding in report.findings {
        // Any other finding is an error of the writer.
        assert!(is_meaningless(&finding), "{finding}");
    }
}

/// Returns attributes sorted by key: safetensors keeps no other order, and zTensor 2 keeps none in nested maps.
fn by_key(attributes: &Attributes) -> Vec<(&str, String)> {
    let json = |value: &Value| sorted(value).to_json();
    let mut all: Vec<_> = attributes.iter().map(|(key, value)| (key, json(value))).collect();
    all.sort();
    all
}

/// Returns the value with its maps sorted by key.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Map(pairs) => {
            let mut pairs: Vec<_> = pairs.iter().map(|(k, v)| (sorted(k), sorted(v))).collect();
            pairs.sort_by_key(|(key, _)| key.to_json());
            Value::Map(pairs)
        }
        Value::Tag(tag, inner) => Value::Tag(*tag, Box::new(sorted(inner))),
        other => other.clone(),
    }
}

fn is_same(a: &File, b: &File) {
    // An error of the given bytes.
    let Ok(found) = diff(a, b, &DiffOptions::new().with_work(Work::new().with_threads(1))) else {
        return;
    };
    assert!(found.removed.is_empty() && found.added.is_empty());
    assert!(found.attributes.is_empty(), "{:?}", found.attributes);
    for t in &found.changed {
        assert!(t.incomparable.is_some() && t.types.is_none(), "one is another: {t:?}");
    }
}

fn wanted(take: &mut Take<'_>) -> Wanted {
    let digest = [None, Some(Algorithm::Crc32c), Some(Algorithm::Sha256)][take.below(3)];
    Wanted { digest, is_compressed: take.below(2) == 1 }
}

fn tensor(take: &mut Take<'_>) -> Made {
    let name = text(take);
    let shape: Vec<u64> = (0..take.below(4)).map(|_| take.below(5) as u64).collect();
    let count = holdall::element_count(&shape).unwrap_or_default() as usize;
    let rows = shape.first().copied().unwrap_or_default() as usize;
    let (dtype, logical) = take.types();
    let bits = logical.as_ref().and_then(|t| t.bits()).unwrap_or(dtype.width() * 8) as usize;
    let some = take.below(4);
    let (layout, parts) = match take.below(8) {
        0 => {
            let mut parts = vec![(Role::Values, some * bits / 8, dtype, logical)];
            parts.push((Role::Indices, some * 8, DType::U64, None));
            parts.push((Role::Indptr, (rows + 1) * 8, DType::U64, None));
            (Layout::SparseCsr, parts)
        }
        1 => {
            let mut parts = vec![(Role::Values, some * bits / 8, dtype, logical)];
            parts.push((Role::Coords, some * shape.len() * 8, DType::U64, None));
            (Layout::SparseCoo, parts)
        }
        2 => {
            let mut parts = vec![(Role::Scales, some * 4, DType::F32, None)];
            parts.push((Role::PackedWeight, some * dtype.width() as usize, dtype, None));
            parts.push((Role::Zeros, some, DType::U8, None));
            (Layout::QuantizedGroup, parts)
        }
        3 => {
            let parts = (0..some).map(|_| {
                let (dtype, logical) = take.types();
                (Role::from_name(&text(take)), 8 * take.below(3), dtype, logical)
            });
            let parts: Vec<_> = parts.collect();
            (Layout::from_name(&text(take)), parts)
        }
        4 => {
            let len = (some + rows + 1) * 8 + some * bits / 8;
            (Layout::PackedCsr, vec![(Role::Data, len, dtype, logical)])
        }
        5 => {
            let len = some * (shape.len() * 8 + bits / 8);
            (Layout::PackedCoo, vec![(Role::Data, len, dtype, logical)])
        }
        _ => (Layout::Dense, vec![(Role::Data, count * bits / 8, dtype, logical)]),
    };
    let mut components = Vec::new();
    let mut bytes = Vec::new();
    for (role, len, dtype, logical_type) in parts {
        let mut spec = ComponentSpec::new(role, dtype, len as u64);
        spec.logical_type = logical_type;
        components.push(spec);
        let given = take.bytes(len.min(take.left() / 4));
        let most = if dtype == DType::Bool { 1 } else { u8::MAX };
        let repeated = given.iter().copied().chain([0]).cycle().map(|b| b & most);
        bytes.push(repeated.take(len).collect());
    }
    let attributes = attributes(take);
    Made { spec: TensorSpec { name, shape, layout, attributes, components }, bytes }
}

fn attributes(take: &mut Take<'_>) -> Attributes {
    let count = take.below(4).saturating_sub(1);
    (0..count).map(|_| (text(take), value(take, 3))).collect()
}

fn value(take: &mut Take<'_>, depth: usize) -> Value {
    let kinds = if depth == 0 { 8 } else { 11 };
    match take.below(kinds) {
        0 => Value::Text(text(take)),
        1 => Value::Integer(i128::from(take.u64()) - i128::from(take.u32())),
        2 => Value::Float(f64::from_bits(take.u64())),
        3 => Value::Bytes(take.run().to_vec()),
        4 => Value::Bool(take.below(2) == 1),
        5 => Value::Null,
        6 => Value::Simple(take.u8()),
        7 => Value::Undefined,
        8 => Value::Array((0..take.below(4)).map(|_| value(take, depth - 1)).collect()),
        9 => {
            let pair = |take: &mut Take<'_>| (value(take, depth - 1), value(take, depth - 1));
            Value::Map((0..take.below(4)).map(|_| pair(take)).collect())
        }
        _ => Value::Tag(take.u64(), Box::new(value(take, depth - 1))),
    }
}

/// Returns a short, arbitrary text.
fn text(take: &mut Take<'_>) -> String {
    const WORDS: [&str; 8] =
        ["", "a", "data", "dtype", "__metadata__", "shape", "bits", "holdall.attributes"];
    let at = take.below(24);
    match WORDS.get(at) {
        Some(word) => (*word).to_owned(),
        None => String::from_utf8_lossy(take.bytes(at - WORDS.len())).into_owned(),
    }
}

/// Returns files as seeds; bytes that compress badly are better.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    if crate::is_description(file) || !file.len().is_multiple_of(3) {
        return Vec::new();
    }
    let mut mixed = Vec::new();
    for (i, chunk) in file.chunks(4).take(512).enumerate() {
        let i = (i as u32).wrapping_mul(0x9e37_79b9).rotate_left(15);
        mixed.extend(chunk.iter().zip(i.to_le_bytes()).map(|(a, b)| a ^ b));
    }
    vec![mixed]
}
