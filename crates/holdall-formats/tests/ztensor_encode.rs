//! What an encoder writes decodes to what went in; what a version cannot hold is refused.

use holdall_core::model::{element_count, stored_size};
use holdall_core::{
    Algorithm, Attributes, Bytes, ComponentRef, ComponentSpec, DType, Digest, Encode,
    EncodeOptions, Encoding, Error, ErrorKind, Index, Layout, Limits, LogicalType, Result, Role,
    Stop, Stored, TensorSpec, Value, Window,
};
use proptest::prelude::*;

/// Writes a file as a caller of `Encode` does. Bytes of components are 0xA5; compressed ones take a
/// third of their length. Every second component has a digest.
fn write(
    options: &EncodeOptions,
    attributes: &Attributes,
    tensors: &[TensorSpec],
    compress: bool,
) -> Result<(Vec<u8>, Vec<Vec<Stored>>)> {
    let mut encoder = encoder(options)?;
    let mut out = encoder.begin(attributes, tensors)?.to_vec();
    let mut all = Vec::new();
    for tensor in tensors {
        let mut own = Vec::new();
        for (i, c) in tensor.components.iter().enumerate() {
            let stored = match &c.shares {
                Some(shared) => find(tensors, &all, shared),
                None => {
                    let start = encoder.next_offset(out.len() as u64, tensor, i)?;
                    out.resize(start as usize, 0);
                    let len = if compress { c.decoded_len.div_ceil(3) } else { c.decoded_len };
                    out.resize(out.len() + len as usize, 0xA5);
                    let digests =
                        [None, Some(Digest::Crc32c(0x0123)), Some(Digest::Sha256([7; 32]))];
                    Stored {
                        range: start..start + len,
                        encoding: if compress { Encoding::ZSTD } else { Encoding::Raw },
                        digest: digests[i % 3].clone(),
                    }
                }
            };
            encoder.component_written(tensor, i, stored.clone())?;
            own.push(stored);
        }
        all.push(own);
    }
    let tail = encoder.finish(out.len() as u64)?;
    out.extend_from_slice(&tail);
    Ok((out, all))
}

fn find(tensors: &[TensorSpec], all: &[Vec<Stored>], shared: &ComponentRef) -> Stored {
    let at = tensors.iter().position(|t| t.name == shared.tensor).unwrap();
    let of = tensors[at].components.iter().position(|c| c.role == shared.role).unwrap();
    all[at][of].clone()
}

fn encoder(options: &EncodeOptions) -> Result<Box<dyn Encode>> {
    (holdall_formats::ztensor::FORMAT.encode.unwrap())(options)
}

fn version(version: &str) -> EncodeOptions {
    EncodeOptions::new().with_version(version)
}

fn decode(bytes: Vec<u8>) -> Result<Index, Error> {
    match holdall_formats::decode(&Window::whole(Bytes::from(bytes)), &Limits::default()) {
        Ok(index) => index.sound(),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole window lacks {range:?}"),
    }
}

/// Writes, decodes, and compares everything that went in. Answers the file.
fn round_trip(
    options: &EncodeOptions,
    attributes: &Attributes,
    tensors: &[TensorSpec],
    compress: bool,
) -> Vec<u8> {
    let (bytes, stored) = write(options, attributes, tensors, compress).unwrap();
    let index = decode(bytes.clone()).unwrap();
    assert_eq!(index.warnings(), &[]);
    assert_eq!(index.attributes(), attributes);
    assert_eq!(index.len(), tensors.len());
    let is_0_1 = index.version().starts_with("0.1");
    let mut names: Vec<&str> = tensors.iter().map(|t| t.name.as_str()).collect();
    if !is_0_1 {
        names.sort_unstable();
    }
    assert_eq!(index.names().collect::<Vec<_>>(), names);
    for (tensor, stored) in tensors.iter().zip(&stored) {
        let info = index.get(&tensor.name).unwrap();
        assert_eq!(info.shape(), tensor.shape);
        assert_eq!(info.layout(), &tensor.layout);
        assert_eq!(info.attributes(), &tensor.attributes);
        assert_eq!(info.components().len(), tensor.components.len());
        for (spec, stored) in tensor.components.iter().zip(stored) {
            let c = info.component(&spec.role).unwrap();
            assert_eq!((c.dtype, c.logical_type), (spec.dtype, spec.logical_type.clone()));
            assert_eq!((c.stored.range(), c.encoding), (stored.range.clone(), stored.encoding));
            assert_eq!(c.digest, stored.digest);
            assert!(c.stored.start.is_multiple_of(options.align.unwrap_or(64)));
            // Before 1.2 nothing tells how long compressed sparse components decode to.
            if let Some(len) = c.decoded_len {
                assert_eq!(len, spec.decoded_len);
            } else {
                assert!(compress && tensor.layout != Layout::Dense && index.version() == "1.0");
            }
        }
    }
    bytes
}

fn refused(options: &EncodeOptions, attributes: &Attributes, tensors: &[TensorSpec]) -> Error {
    let e = write(options, attributes, tensors, false).map(|_| ()).unwrap_err();
    // Tensors are also refused before the first byte.
    if e.kind() == ErrorKind::Unsupported && !tensors.is_empty() {
        let early = encoder(options).unwrap();
        let checks = early
            .check_attributes(attributes)
            .and_then(|()| tensors.iter().try_for_each(|t| early.check_tensor(t)));
        assert_eq!(checks.unwrap_err().code(), e.code());
    }
    e
}

fn code(options: &EncodeOptions, tensor: TensorSpec) -> &'static str {
    refused(options, &Attributes::new(), &[tensor]).code()
}

fn sparse_csr(name: &str, index: DType) -> TensorSpec {
    let mut t = TensorSpec::dense(name, DType::F32, [3, 4]);
    t.layout = Layout::SparseCsr;
    t.components = vec![
        ComponentSpec::new(Role::Values, DType::F32, 8),
        ComponentSpec::new(Role::Indices, index, 2 * index.width()),
        ComponentSpec::new(Role::Indptr, index, 4 * index.width()),
    ];
    t
}

fn quantized(name: &str) -> TensorSpec {
    let mut t = TensorSpec::dense(name, DType::I32, [64, 32]);
    t.layout = Layout::QuantizedGroup;
    t.components = vec![
        ComponentSpec::new(Role::PackedWeight, DType::I32, 1024),
        ComponentSpec::new(Role::Scales, DType::F16, 128),
        ComponentSpec::new(Role::Zeros, DType::F16, 128),
    ];
    t.attributes.set("bits", Value::Integer(4));
    t
}

fn packed_coo(name: &str, nnz: u64) -> TensorSpec {
    let mut t = TensorSpec::dense(name, DType::F32, [3, 4]);
    t.layout = Layout::PackedCoo;
    t.components = vec![ComponentSpec::new(Role::Data, DType::F32, nnz * 20)];
    t
}

fn text_attributes() -> Attributes {
    [("framework", "PyTorch"), ("", ""), ("ü", "層")]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), Value::Text(v.to_owned())))
        .collect()
}

fn any_attributes() -> Attributes {
    let mut a = text_attributes();
    a.set("null", Value::Null);
    a.set("undefined", Value::Undefined);
    a.set("yes", Value::Bool(true));
    a.set("most", Value::Integer(u64::MAX.into()));
    a.set("least", Value::Integer(-(1i128 << 64)));
    a.set("half", Value::Float(-0.0));
    a.set("single", Value::Float(f64::from(0.1f32)));
    a.set("double", Value::Float(0.1));
    a.set("bytes", Value::Bytes(vec![0, 255]));
    a.set("simple", Value::Simple(99));
    a.set("tag", Value::Tag(32, Box::new(Value::Text("https://x.invalid".into()))));
    let pairs = vec![
        (Value::Integer(1), Value::Array(vec![Value::Bool(false)])),
        (Value::Text("1".into()), Value::Map(vec![])),
    ];
    a.set("map", Value::Map(pairs));
    a
}

#[test]
fn version_1_2_holds_everything() {
    let mut complex = TensorSpec::dense("c", DType::F32, [5]);
    complex.components[0].logical_type = Some(LogicalType::Complex64);
    complex.components[0].decoded_len = 40;
    let mut fp4 = TensorSpec::dense("fp4", DType::U8, [8]);
    fp4.components[0].logical_type = Some(LogicalType::F4E2M1);
    fp4.components[0].decoded_len = 4;
    let mut odd = TensorSpec::dense("odd", DType::U8, [7]);
    odd.layout = Layout::Other("ragged".into());
    odd.components = vec![
        ComponentSpec::new(Role::Other("rows".into()), DType::U16, 6),
        ComponentSpec::new(Role::Data, DType::U8, 7),
    ];
    let mut bare = TensorSpec::dense("bare", DType::U8, [7]);
    bare.layout = Layout::Other("nothing".into());
    bare.components.clear();
    let mut tied = TensorSpec::dense("tied", DType::F32, [5, 2]);
    tied.components[0].shares = Some(ComponentRef { tensor: "c".into(), role: Role::Data });
    let mut q = quantized("q\0\n");
    q.attributes = any_attributes();
    let tensors = [
        TensorSpec::dense("scalar", DType::F64, []),
        complex,
        fp4,
        TensorSpec::dense("empty", DType::Bf16, [0, 7]),
        TensorSpec::dense("empty2", DType::Bf16, [0]),
        odd,
        bare,
        tied,
        sparse_csr("csr", DType::U64),
        q,
    ];
    for compress in [false, true] {
        let bytes = round_trip(&EncodeOptions::new(), &any_attributes(), &tensors, compress);
        assert!(bytes.starts_with(b"ZTEN1000") && bytes.ends_with(b"ZTEN1000"));
        let again = round_trip(&version("1.2.0"), &any_attributes(), &tensors, compress);
        assert!(bytes == again, "the same tensors give the same bytes");
    }
    round_trip(&EncodeOptions::new().with_align(4096), &Attributes::new(), &tensors, false);
}

#[test]
fn version_1_0_follows_its_specification() {
    let tensors = [
        TensorSpec::dense("z", DType::Bool, [3]),
        TensorSpec::dense("a", DType::Bf16, [2, 2]),
        sparse_csr("csr", DType::U64),
    ];
    for (name, compress) in [("1.0", false), ("1.0.0", true)] {
        let bytes = round_trip(&version(name), &text_attributes(), &tensors, compress);
        assert!(bytes.starts_with(b"ZTEN1000") && !bytes.ends_with(b"ZTEN1000"));
    }
}

#[test]
fn version_0_1_holds_attributes_in_custom_fields() {
    let mut first = TensorSpec::dense("z", DType::F16, [3]);
    first.attributes = any_attributes();
    // Custom fields of a dense tensor may have the names that only sparse ones give a meaning.
    first.attributes.set("nnz", Value::Integer(3));
    first.attributes.set("sparse_format", Value::Text("csr".into()));
    let mut csr = TensorSpec::dense("csr", DType::F64, [2, 9]);
    csr.layout = Layout::PackedCsr;
    csr.components[0].decoded_len = 3 * 8 + 4 * 16;
    csr.attributes.set("note", Value::Text("custom".into()));
    let tensors = [first, packed_coo("coo", 3), csr, TensorSpec::dense("a", DType::U8, [1])];
    for (name, compress) in [("0.1", false), ("0.1.0", true)] {
        let bytes = round_trip(&version(name), &any_attributes(), &tensors, compress);
        assert!(bytes.starts_with(b"ZTEN0001"));
    }
    round_trip(&version("0.1"), &Attributes::new(), &tensors, false);
}

/// The document's form: the values are stored, the indices stand in the manifest.
#[test]
fn sparse_tensors_of_0_1_state_their_indices() {
    let mut coo = TensorSpec::dense("coo", DType::U8, [9, 300]);
    coo.layout = Layout::SparseCoo;
    coo.components = vec![
        ComponentSpec::new(Role::Coords, DType::U64, 16),
        ComponentSpec::new(Role::Values, DType::U8, 1),
    ];
    coo.attributes.set("indices", Value::Text("custom".into()));
    let csr = sparse_csr("csr", DType::U64);
    let mut encoder = encoder(&version("0.1")).unwrap();
    let mut out = encoder.begin(&Attributes::new(), &[]).unwrap().to_vec();
    let numbers = |all: &[u64]| all.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let short = encoder.add_header_values(&coo, 0, &[0; 8]).unwrap_err();
    assert_eq!(short.code(), "ztensor/declared");
    for (tensor, lists) in
        [(&coo, [vec![8, 299], vec![], vec![]]), (&csr, [vec![], vec![1, 3], vec![0, 1, 1, 2]])]
    {
        for (at, c) in tensor.components.iter().enumerate() {
            if encoder.stores_in_header(tensor, at) {
                encoder.add_header_values(tensor, at, &numbers(&lists[at])).unwrap();
                continue;
            }
            let start = encoder.next_offset(out.len() as u64, tensor, at).unwrap();
            out.resize((start + c.decoded_len) as usize, 7);
            let range = start..out.len() as u64;
            let stored = Stored { range, encoding: Encoding::Raw, digest: None };
            encoder.component_written(tensor, at, stored).unwrap();
        }
    }
    let tail = encoder.finish(out.len() as u64).unwrap();
    out.extend_from_slice(&tail);
    let has = |what: &[u8]| out.windows(what.len()).any(|bytes| bytes == what);
    assert!(has(
        b"layout\x66sparse\x6dsparse_format\x63coo\x63nnz\x01\x66coords\x82\x08\x19\x01\x2b"
    ));
    assert!(has(
        b"sparse_format\x63csr\x63nnz\x02\x67indices\x82\x01\x03\x66indptr\x84\x00\x01\x01\x02"
    ));

    let index = decode(out).unwrap();
    for (tensor, role, expected) in
        [(&coo, Role::Coords, 16), (&csr, Role::Indices, 16), (&csr, Role::Indptr, 32)]
    {
        let found = index.get(&tensor.name).unwrap();
        assert_eq!((found.layout(), found.shape()), (&tensor.layout, &tensor.shape[..]));
        assert_eq!(found.attributes(), &tensor.attributes);
        assert_eq!(found.components().len(), tensor.components.len());
        let c = found.component(&role).unwrap();
        assert!(c.stored.is_stated());
        assert_eq!(c.decoded_len, Some(expected));
    }
}

#[test]
fn empty_files_have_the_documented_bytes() {
    let none = Attributes::new();
    let empty = round_trip(&version("0.1"), &none, &[], false);
    assert_eq!(empty, b"ZTEN0001\x80\x01\0\0\0\0\0\0\0");
    for name in ["1.0", "1.2"] {
        round_trip(&version(name), &none, &[], false);
    }
}

#[test]
fn the_manifest_of_a_small_file_is_these_bytes() {
    let tensors = [TensorSpec::dense("w", DType::U16, [3])];
    let bytes = round_trip(&EncodeOptions::new(), &Attributes::new(), &tensors, false);
    let mut expected = b"ZTEN1000".to_vec();
    expected.resize(64, 0);
    expected.extend_from_slice(&[0xA5; 6]);
    let manifest = [
        &b"\xa2\x67version\x651.2.0\x67objects\xa1\x61w\xa3"[..],
        b"\x65shape\x81\x03\x66format\x65dense\x6acomponents\xa1\x64data",
        b"\xa3\x65dtype\x63u16\x66offset\x18\x40\x66length\x06",
    ]
    .concat();
    expected.extend_from_slice(&manifest);
    expected.extend_from_slice(&(manifest.len() as u64).to_le_bytes());
    expected.extend_from_slice(b"ZTEN1000");
    assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn a_page_boundary_lies_between_much_data_and_the_manifest() {
    let manifest_at = |bytes: &[u8]| {
        let at = bytes.len() - 16;
        let len = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        at as u64 - len
    };
    let none = Attributes::new();
    let much = [TensorSpec::dense("w", DType::U8, [(1 << 20) + 1])];
    let bytes = round_trip(&EncodeOptions::new(), &none, &much, false);
    assert_eq!(manifest_at(&bytes), (1 << 20) + 4096);
    let little = [TensorSpec::dense("w", DType::U8, [1 << 19])];
    let bytes = round_trip(&EncodeOptions::new(), &none, &little, false);
    assert_eq!(manifest_at(&bytes), (1 << 19) + 64);
}

#[test]
fn versions_refuse_unsupported_tensors() {
    let (v0_1, v1_0, v1_2) = (version("0.1"), version("1.0"), version("1.2"));
    let none = Attributes::new();
    let mut fp8 = TensorSpec::dense("t", DType::U8, [3]);
    fp8.components[0].logical_type = Some(LogicalType::F8E5M2);
    let mut other = TensorSpec::dense("t", DType::U8, [3]);
    other.layout = Layout::Other("ragged".into());
    let mut posing = TensorSpec::dense("t", DType::U8, [3]);
    posing.layout = Layout::Other("sparse_csr".into());

    assert_eq!(code(&v0_1, fp8.clone()), "ztensor/logical-type");
    assert_eq!(code(&v1_0, fp8), "ztensor/logical-type");
    assert_eq!(code(&v0_1, sparse_csr("t", DType::U32)), "ztensor/wide-indices");
    assert_eq!(code(&v0_1, quantized("t")), "ztensor/layout");
    // One of another version whose component is not called `data` would not come back.
    let mut scales = other.clone();
    scales.components[0].role = Role::Scales;
    assert_eq!(code(&v0_1, scales), "ztensor/layout");
    for name in ["dense", "sparse_csr", "sparsecoo"] {
        other.layout = Layout::Other(name.into());
        assert_eq!(code(&v0_1, other.clone()), "ztensor/layout");
    }
    other.layout = Layout::Other("sparse".into());
    other.attributes.set("sparse_format", Value::Text("csr".into()));
    assert_eq!(code(&v0_1, other.clone()), "ztensor/layout");
    other.attributes = Attributes::new();
    other.layout = Layout::Other("ragged".into());
    assert_eq!(code(&v1_0, quantized("t")), "ztensor/layout");
    assert_eq!(code(&v1_0, packed_coo("t", 2)), "ztensor/layout");
    assert_eq!(code(&v1_2, packed_coo("t", 2)), "ztensor/layout");
    assert_eq!(code(&v1_2, posing), "ztensor/layout");
    assert_eq!(code(&v1_0, sparse_csr("t", DType::U32)), "ztensor/wide-indices");
    assert_eq!(code(&v1_2, sparse_csr("t", DType::I32)), "ztensor/wide-indices");

    let mut two = other.clone();
    two.components.push(ComponentSpec::new(Role::Scales, DType::F32, 4));
    assert_eq!(code(&v1_0, two), "ztensor/one-dtype");
    other.components.clear();
    assert_eq!(code(&v1_0, other), "ztensor/one-dtype");

    let mut noted = TensorSpec::dense("t", DType::U8, [3]);
    noted.attributes.set("offset", Value::Null);
    assert_eq!(code(&v1_0, noted.clone()), "ztensor/tensor-attributes");
    assert_eq!(code(&v0_1, noted), "ztensor/reserved-field");
    let mut coo = packed_coo("t", 2);
    coo.attributes.set("nnz", Value::Null);
    assert_eq!(code(&v0_1, coo), "ztensor/reserved-field");
    let mut csr = sparse_csr("t", DType::U64);
    csr.attributes.set("indptr", Value::Null);
    assert_eq!(code(&v0_1, csr), "ztensor/reserved-field");

    let one = [TensorSpec::dense("t", DType::U8, [3])];
    round_trip(&v1_0, &any_attributes(), &one, false);
    assert_eq!(refused(&v0_1, &text_attributes(), &[]).code(), "ztensor/file-attributes");

    let mut bad = Attributes::new();
    bad.set("n", Value::Integer(1 << 64));
    assert_eq!(refused(&v1_2, &bad, &one).code(), "cbor/not-cbor");
    bad.set("n", Value::Simple(20));
    assert_eq!(refused(&v1_2, &bad, &one).code(), "cbor/not-cbor");
    bad.set("n", Value::Map(vec![(Value::Null, Value::Null), (Value::Null, Value::Null)]));
    assert_eq!(refused(&v1_2, &bad, &one).code(), "cbor/not-cbor");
    let mut twice = Attributes::new();
    twice.push("a", Value::Null);
    twice.push("a", Value::Null);
    assert_eq!(refused(&v1_2, &twice, &one).code(), "cbor/not-cbor");
    let deep = |n| (0..n).fold(Value::Null, |v, _| Value::Array(vec![v]));
    bad.set("n", deep(511));
    assert_eq!(refused(&v1_2, &bad, &one).code(), "cbor/depth");
    // The deepest that is read with the default limits can be written, wherever it stands.
    let mut noted = TensorSpec::dense("t", DType::U8, [3]);
    noted.attributes.set("n", deep(124));
    bad.set("n", deep(124));
    round_trip(&v1_2, &bad, std::slice::from_ref(&noted), false);
    round_trip(&v0_1, &bad, &[noted], false);

    for align in [0, 32, 96] {
        let e = refused(&EncodeOptions::new().with_align(align), &none, &[]);
        assert_eq!(e.code(), "ztensor/align");
    }
    for name in ["1.1", "2.0", "1", "", "1.2.1", "0"] {
        assert_eq!(refused(&version(name), &none, &[]).code(), "format/unknown-version");
    }
}

#[test]
fn tensors_that_no_decoder_would_take_are_refused() {
    let v1_2 = version("1.2");
    let mut short = TensorSpec::dense("t", DType::F32, [3]);
    short.components[0].decoded_len = 8;
    assert_eq!(code(&v1_2, short), "ztensor/components");
    let mut ragged = sparse_csr("t", DType::U64);
    ragged.components[0].decoded_len = 7;
    assert_eq!(code(&v1_2, ragged), "ztensor/components");
    let mut missing = sparse_csr("t", DType::U64);
    missing.components.pop();
    assert_eq!(code(&v1_2, missing), "ztensor/components");
    let mut twice = TensorSpec::dense("t", DType::F32, [3]);
    twice.components.push(twice.components[0].clone());
    assert_eq!(code(&v1_2, twice), "ztensor/components");
    let mut huge = TensorSpec::dense("t", DType::F32, [1 << 40, 1 << 40]);
    huge.components[0].decoded_len = 0;
    assert_eq!(code(&v1_2, huge), "ztensor/components");
    let mut half = packed_coo("t", 2);
    half.components[0].decoded_len = 39;
    assert_eq!(code(&version("0.1"), half), "ztensor/components");
    // In 0.1 the number of values tells what the lists of indices are.
    let mut fewer = sparse_csr("t", DType::U64);
    fewer.components[1].decoded_len = 8;
    assert_eq!(code(&version("0.1"), fewer), "ztensor/components");
    // More than a reader takes for attributes.
    let mut many = sparse_csr("t", DType::U64);
    many.components[0].decoded_len = 4 << 22;
    many.components[1].decoded_len = 8 << 22;
    assert_eq!(code(&version("0.1"), many.clone()), "ztensor/layout");
    many.components[0].decoded_len = 4 << 20;
    many.components[1].decoded_len = 8 << 20;
    let all = [1, 2, 3, 4].map(|n| TensorSpec { name: n.to_string(), ..many.clone() });
    let e = encoder(&version("0.1")).unwrap().begin(&Attributes::new(), &all).map(|_| ());
    assert_eq!(e.unwrap_err().code(), "ztensor/layout");
}

#[test]
fn calls_out_of_order_are_refused() {
    let none = Attributes::new();
    let (a, b) = (TensorSpec::dense("a", DType::U8, [1]), sparse_csr("b", DType::U64));
    let raw = |range| Stored { range, encoding: Encoding::Raw, digest: None };
    let code = |r: Result<u64>| r.unwrap_err().code();
    let begun = || {
        let mut e = encoder(&EncodeOptions::new()).unwrap();
        e.begin(&none, &[a.clone(), b.clone()]).unwrap();
        e
    };

    // Two of one name.
    assert_eq!(
        refused(&EncodeOptions::new(), &none, &[a.clone(), a.clone()]).code(),
        "ztensor/declared"
    );
    let mut e = encoder(&EncodeOptions::new()).unwrap();
    e.begin(&none, &[]).unwrap();
    for _ in 0..2 {
        e.component_written(&a, 0, raw(64..65)).unwrap();
    }
    assert_eq!(e.finish(65).unwrap_err().code(), "ztensor/declared");
    // A component out of turn, or none.
    assert_eq!(code(begun().next_offset(8, &b, 1)), "ztensor/declared");
    assert_eq!(code(begun().next_offset(8, &a, 1)), "ztensor/declared");
    // Another tensor while one is half written.
    let mut e = begun();
    e.component_written(&b, 0, raw(64..72)).unwrap();
    assert_eq!(code(e.next_offset(72, &a, 0)), "ztensor/declared");
    assert_eq!(e.finish(72).unwrap_err().code(), "ztensor/declared");
    // One that was not declared, or was written before.
    let c = TensorSpec::dense("c", DType::U8, [1]);
    assert_eq!(code(begun().next_offset(8, &c, 0)), "ztensor/declared");
    let mut e = begun();
    e.component_written(&a, 0, raw(64..65)).unwrap();
    assert_eq!(code(e.next_offset(65, &a, 0)), "ztensor/declared");
    // Something declared is missing.
    assert_eq!(e.finish(65).unwrap_err().code(), "ztensor/declared");
    // Fewer bytes than declared, or an invalid range.
    assert_eq!(
        begun().component_written(&a, 0, raw(64..64)).unwrap_err().code(),
        "ztensor/declared"
    );
    assert_eq!(begun().component_written(&a, 0, raw(0..1)).unwrap_err().code(), "ztensor/declared");
    // The end of the number line.
    assert_eq!(code(begun().next_offset(u64::MAX, &a, 0)), "ztensor/declared");
}

#[test]
fn an_encoder_reports_its_capabilities() {
    let e = encoder(&EncodeOptions::new()).unwrap();
    assert!(!e.header_first() && e.can_compress());
    assert!(e.can_digest(Algorithm::Crc32c) && e.can_digest(Algorithm::Sha256));
}

fn a_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(Value::Undefined),
        any::<bool>().prop_map(Value::Bool),
        (-(1i128 << 64)..1i128 << 64).prop_map(Value::Integer),
        any::<i8>().prop_map(|n| Value::Integer(n.into())),
        // Any bits but a NaN's, which is not equal to itself.
        any::<f64>().prop_filter("not a NaN", |x| !x.is_nan()).prop_map(Value::Float),
        any::<f32>().prop_filter("not a NaN", |x| !x.is_nan()).prop_map(|x| Value::Float(x.into())),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Value::Bytes),
        any::<String>().prop_map(Value::Text),
        prop_oneof![0u8..20, 32u8..].prop_map(Value::Simple),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            (any::<u64>(), inner.clone()).prop_map(|(t, v)| Value::Tag(t, Box::new(v))),
            prop::collection::vec((inner.clone(), inner), 0..6).prop_map(|mut pairs| {
                let mut keys = Vec::new();
                pairs.retain(|(k, _)| {
                    let key = k.to_json();
                    let is_new = !keys.contains(&key);
                    keys.push(key);
                    is_new
                });
                Value::Map(pairs)
            }),
        ]
    })
}

fn some_attributes() -> impl Strategy<Value = Attributes> {
    prop::collection::vec((any::<String>(), a_value()), 0..5)
        .prop_map(|pairs| pairs.into_iter().collect())
}

fn a_dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::ALL.to_vec())
}

/// A dense tensor of any dtype and logical type, of at most a few thousand elements.
fn a_dense_tensor() -> impl Strategy<Value = TensorSpec> {
    let shape = prop::collection::vec(0u64..9, 0..4);
    let logical = prop::option::of(prop::sample::select(LogicalType::KNOWN.to_vec()));
    (a_dtype(), shape, logical).prop_map(|(dtype, shape, logical)| {
        let dtype = logical.as_ref().and_then(|t| t.storage()).unwrap_or(dtype);
        let mut t = TensorSpec::dense("", dtype, shape);
        let count = element_count(&t.shape).unwrap();
        if let Ok(Some(len)) = stored_size(count, dtype, logical.as_ref()) {
            t.components[0].decoded_len = len;
            t.components[0].logical_type = logical;
        }
        t
    })
}

fn a_sparse_tensor() -> impl Strategy<Value = TensorSpec> {
    (a_dtype(), prop::collection::vec(0u64..9, 1..4), 0u64..9, any::<bool>()).prop_map(
        |(dtype, shape, nnz, is_csr)| {
            let mut t = TensorSpec::dense("", dtype, shape);
            let values = ComponentSpec::new(Role::Values, dtype, nnz * dtype.width());
            let index = |role, count: u64| ComponentSpec::new(role, DType::U64, count * 8);
            if is_csr {
                t.layout = Layout::SparseCsr;
                let indptr = index(Role::Indptr, t.shape[0] + 1);
                t.components = vec![indptr, values, index(Role::Indices, nnz)];
            } else {
                t.layout = Layout::SparseCoo;
                let coords = index(Role::Coords, nnz * t.shape.len() as u64);
                t.components = vec![coords, values];
            }
            t
        },
    )
}

/// Tensors with names of their own, in no order.
fn some_tensors(
    one: impl Strategy<Value = TensorSpec> + 'static,
) -> impl Strategy<Value = Vec<TensorSpec>> {
    prop::collection::hash_map(any::<String>(), one, 0..8).prop_map(|tensors| {
        let named = |(name, mut t): (String, TensorSpec)| {
            t.name = name;
            t
        };
        tensors.into_iter().map(named).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_1_2_file_decodes_to_the_encoded_tensors(
        file in some_attributes(),
        mut tensors in some_tensors(prop_oneof![a_dense_tensor(), a_sparse_tensor()]),
        own in prop::collection::vec(some_attributes(), 8),
        compress in any::<bool>(),
        align in 6u32..14,
    ) {
        for (t, a) in tensors.iter_mut().zip(own) {
            t.attributes = a;
        }
        let options = EncodeOptions::new().with_align(1 << align);
        round_trip(&options, &file, &tensors, compress);
    }

    #[test]
    fn any_1_0_file_decodes_to_the_encoded_tensors(
        file in prop::collection::vec((any::<String>(), any::<String>()), 0..5),
        mut tensors in some_tensors(prop_oneof![a_dense_tensor(), a_sparse_tensor()]),
        compress in any::<bool>(),
    ) {
        tensors.retain(|t| t.components.iter().all(|c| c.logical_type.is_none()));
        let file = file.into_iter().map(|(k, v)| (k, Value::Text(v))).collect();
        round_trip(&version("1.0"), &file, &tensors, compress);
    }

    #[test]
    fn any_0_1_file_decodes_to_the_encoded_tensors(
        file in some_attributes(),
        mut tensors in some_tensors(a_dense_tensor()),
        own in prop::collection::vec(some_attributes(), 8),
        compress in any::<bool>(),
    ) {
        tensors.retain(|t| t.components.iter().all(|c| c.logical_type.is_none()));
        for (t, a) in tensors.iter_mut().zip(own) {
            t.attributes = a;
        }
        let file = if tensors.is_empty() { Attributes::new() } else { file };
        round_trip(&version("0.1"), &file, &tensors, compress);
    }
}

/// What a 0.1 file has in a layout without a meaning here comes back as it was, with all its fields.
#[test]
fn layouts_of_0_1_without_a_meaning_are_written_again() {
    let v0_1 = version("0.1");
    let none = Attributes::new();
    let layouts = [
        (
            "quantized",
            vec![("bits", Value::Integer(4)), ("sparse_format", Value::Text("csr".into()))],
        ),
        ("sparse", vec![("sparse_format", Value::Text("bsr".into())), ("nnz", Value::Integer(3))]),
        ("sparse", vec![("indptr", Value::Array(vec![Value::Integer(0)]))]),
        ("sparse", vec![("sparse_format", Value::Integer(1))]),
        ("", vec![("indices", Value::Null)]),
        ("records", vec![]),
        ("quantized_group", vec![]),
    ];
    for (name, fields) in layouts {
        let mut tensor = TensorSpec::dense("t", DType::U8, [3]);
        tensor.layout = Layout::Other(name.into());
        fields.into_iter().for_each(|(key, value)| tensor.attributes.set(key, value));
        let (bytes, _) = write(&v0_1, &none, std::slice::from_ref(&tensor), false).unwrap();
        let index = decode(bytes).unwrap();
        let found = index.at(0).unwrap();
        assert_eq!((found.layout(), found.attributes()), (&tensor.layout, &tensor.attributes));
        assert_eq!(found.component(&Role::Data).unwrap().decoded_len, Some(3));
    }
}

/// A sparse tensor without dimensions has values and no coordinates.
#[test]
fn a_sparse_tensor_without_dimensions_fits_every_version() {
    for v in ["0.1", "1.0", "1.2"] {
        for count in [0, 1, 3] {
            let tensor = TensorSpec {
                name: "t".into(),
                shape: Vec::new(),
                layout: Layout::SparseCoo,
                attributes: Attributes::new(),
                components: vec![
                    ComponentSpec::new(Role::Values, DType::F32, 4 * count),
                    ComponentSpec::new(Role::Coords, DType::U64, 0),
                ],
            };
            if v != "0.1" {
                round_trip(&version(v), &Attributes::new(), &[tensor], false);
                continue;
            }
            // Coordinates stand in the manifest; the count of a compressed one follows from `nnz` alone.
            for encoding in [Encoding::Raw, Encoding::ZSTD] {
                let mut encoder = encoder(&version(v)).unwrap();
                let specs = std::slice::from_ref(&tensor);
                let mut out = encoder.begin(&Attributes::new(), specs).unwrap().to_vec();
                let start = encoder.next_offset(out.len() as u64, &tensor, 0).unwrap();
                out.resize(start as usize + 4 * count as usize, 0xA5);
                let range = start..out.len() as u64;
                let stored = Stored { range, encoding, digest: None };
                encoder.component_written(&tensor, 0, stored).unwrap();
                assert!(encoder.stores_in_header(&tensor, 1));
                encoder.add_header_values(&tensor, 1, &[]).unwrap();
                let tail = encoder.finish(out.len() as u64).unwrap();
                out.extend_from_slice(&tail);
                let index = decode(out).unwrap();
                let t = index.at(0).unwrap();
                let values = t.component(&Role::Values).unwrap();
                assert_eq!(t.layout(), &Layout::SparseCoo);
                assert_eq!(values.decoded_len, Some(4 * count));
                assert_eq!(t.component(&Role::Coords).unwrap().decoded_len, Some(0));
                assert!(t.attributes().is_empty(), "{:?}", t.attributes());
            }
        }
    }
}
