//! GGUF: files that are read or refused, and files that are written again unchanged.

use crate::gguf_files::{Gguf, rejects};
use holdall_core::encode::Stored;
use holdall_core::layout::Computed as _;
use holdall_core::layout::blocks::{Blocks, can_quantize, quantize};
use holdall_core::model::BlockType;
use holdall_core::model::block::BLOCK_TYPES;
use holdall_core::{
    ByteOrder, Bytes, DType, EncodeOptions, Encoding, Error, Index, Layout, Limits, Role, Stop,
    TensorSpec, Value, Window,
};
use holdall_formats::gguf::FORMAT;
use std::collections::BTreeSet;

fn decode(bytes: &[u8]) -> Result<Index, Error> {
    match holdall_formats::decode(&Window::whole(Bytes::copy_from_slice(bytes)), &Limits::default())
    {
        Ok(index) => Ok(index),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole file lacks {range:?}"),
    }
}

/// Decodes by fetching only the requested ranges, and returns the number of requests.
fn decode_windowed(bytes: &[u8]) -> (Result<Index, Error>, usize) {
    let mut window = Window::new(bytes.len() as u64);
    let mut asked = 0;
    loop {
        match holdall_formats::decode(&window, &Limits::default()) {
            Ok(index) => return (Ok(index), asked),
            Err(Stop::Fail(e)) => return (Err(e), asked),
            Err(Stop::Need(ranges)) => {
                asked += 1;
                for range in ranges {
                    let found = &bytes[range.start as usize..range.end as usize];
                    window.add(range.start, Bytes::copy_from_slice(found));
                }
            }
        }
    }
}

#[test]
fn broken_files_fail_with_their_code_and_every_rule_has_one() {
    let mut broken = BTreeSet::new();
    for (name, bytes) in rejects() {
        let mut parts = name.split('.');
        let code = format!("{}/{}", parts.next().unwrap(), parts.next().unwrap());
        let e = decode(&bytes).and_then(Index::sound).expect_err(name);
        assert_eq!(e.code(), code, "{name}: {e}");
        let windowed = decode_windowed(&bytes).0.and_then(Index::sound).expect_err(name);
        assert_eq!(windowed.to_string(), e.to_string(), "{name}");
        broken.insert(code);
    }
    let of_writing = ["layout", "element-type", "fit", "declared", "encoding", "align"];
    let limits = ["header-limit", "too-many-values"];
    for rule in FORMAT.rules {
        let name = rule.code.strip_prefix("gguf/").unwrap();
        let excused = of_writing.contains(&name) || limits.contains(&name);
        assert!(excused != broken.contains(rule.code), "{}", rule.code);
    }
}

#[test]
fn limits_hold() {
    let items = [4u32.to_le_bytes().to_vec(), 3u64.to_le_bytes().to_vec(), vec![0; 12]].concat();
    let file = Gguf::new().pair("a", 9, &items).tensor("w", &[4], 0, &[1; 16]).finish();
    let with = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        match holdall_formats::decode(&Window::whole(file.clone().into()), &limits) {
            Ok(_) => "",
            Err(Stop::Fail(e)) => e.code(),
            Err(Stop::Need(_)) => panic!("it is whole"),
        }
    };
    assert_eq!(with(|limits| limits.attribute_values = 3), "");
    assert_eq!(with(|limits| limits.attribute_values = 2), "gguf/too-many-values");
    assert_eq!(with(|limits| limits.header_len = 50), "gguf/header-limit");
    assert_eq!(with(|limits| limits.tensors = 0), "index/too-many-tensors");
}

/// Each type of values, in both byte orders.
#[test]
fn key_values_are_attributes() {
    for is_big in [false, true] {
        let new = Gguf { is_big, ..Gguf::new() };
        let n = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            if is_big {
                bytes.reverse();
            }
            bytes
        };
        let text = new.string("é".as_bytes());
        let items = [new.u32(6), new.u64(2), n(&0.5f32.to_le_bytes()), n(&(-0.0f32).to_le_bytes())]
            .concat();
        let none = [new.u32(8), new.u64(0)].concat();
        let bytes = new.string(b"\xff");
        let file = new
            .pair("u8", 0, &[200])
            .pair("i8", 1, &[0xfd])
            .pair("u16", 2, &n(&65000u16.to_le_bytes()))
            .pair("i16", 3, &n(&(-300i16).to_le_bytes()))
            .pair("u32", 4, &n(&4_000_000_000u32.to_le_bytes()))
            .pair("i32", 5, &n(&(-70000i32).to_le_bytes()))
            .pair("f32", 6, &n(&0.1f32.to_le_bytes()))
            .pair("nan", 6, &n(&0x7f80_0001u32.to_le_bytes()))
            .pair("bool", 7, &[2])
            .pair("text", 8, &text)
            .pair("bytes", 8, &bytes)
            .pair("floats", 9, &items)
            .pair("none", 9, &none)
            .pair("u64", 10, &n(&(1u64 << 63).to_le_bytes()))
            .pair("i64", 11, &n(&i64::MIN.to_le_bytes()))
            .pair("f64", 12, &n(&0.5f64.to_le_bytes()));
        let mut bytes = file.tensor("w", &[2], 0, &n(&[1, 2, 3, 4]).repeat(2)).finish();
        let index = decode(&bytes).unwrap();
        // The other magic of big-endian files says nothing else, and nothing else may have it.
        bytes[..4].copy_from_slice(b"FUGG");
        match is_big {
            true => assert_eq!(
                format!("{:?}", decode(&bytes).unwrap().attributes()),
                format!("{:?}", index.attributes())
            ),
            false => assert_eq!(decode(&bytes).unwrap_err().code(), "gguf/version"),
        }
        let get = |key| index.attributes().get(key).unwrap().clone();
        assert_eq!(get("u8"), Value::Integer(200));
        assert_eq!(get("i8"), Value::Integer(-3));
        assert_eq!(get("u16"), Value::Integer(65000));
        assert_eq!(get("i16"), Value::Integer(-300));
        assert_eq!(get("u32"), Value::Integer(4_000_000_000));
        assert_eq!(get("i32"), Value::Integer(-70000));
        assert_eq!(get("f32"), Value::Float(0.1f32.into()));
        assert_eq!(get("bool"), Value::Bool(true));
        assert_eq!(get("text"), Value::Text("é".into()));
        assert_eq!(get("bytes"), Value::Bytes(vec![0xff]));
        assert_eq!(get("floats"), Value::Array(vec![Value::Float(0.5), Value::Float(-0.0)]));
        assert_eq!(get("none"), Value::Array(Vec::new()));
        assert_eq!(get("u64"), Value::Integer(1 << 63));
        assert_eq!(get("i64"), Value::Integer(i64::MIN.into()));
        assert_eq!(get("f64"), Value::Float(0.5));
        let types = get("holdall.gguf.types").to_json();
        let named =
            r#"{"u8":"u8","i8":"i8","u16":"u16","i16":"i16","none":"[string]","f64":"f64"}"#;
        assert_eq!(types, named, "those whose type does not follow from the value");
        let order = index.at(0).unwrap().component(&Role::Data).unwrap().byte_order;
        assert_eq!(order, if is_big { ByteOrder::Big } else { ByteOrder::Little });
        assert_eq!(index.warnings().len(), usize::from(is_big));
        if !is_big {
            // Every bit of every value is restored, also of a NaN.
            let again =
                encode(
                    &index,
                    |name| if name == "w" { vec![1, 2, 3, 4, 1, 2, 3, 4] } else { Vec::new() },
                );
            let again = decode(&again).unwrap();
            assert_eq!(format!("{:?}", again.attributes()), format!("{:?}", index.attributes()));
            let Value::Float(nan) = again.attributes().get("nan").unwrap() else { panic!() };
            assert_eq!(nan.to_bits(), 0x7ff0_0000_2000_0000);
        }
    }
}

/// Writes what an index describes, with these bytes.
fn encode(index: &Index, bytes: impl Fn(&str) -> Vec<u8>) -> Vec<u8> {
    let mut encoder = FORMAT.encode.unwrap()(&EncodeOptions::new()).unwrap();
    let specs: Vec<TensorSpec> =
        index.tensors().map(|t| TensorSpec::from_info(&t).unwrap()).collect();
    let mut out = encoder.begin(index.attributes(), &specs).unwrap().to_vec();
    for spec in &specs {
        let start = encoder.next_offset(out.len() as u64, spec, 0).unwrap();
        out.resize(start as usize, 0);
        out.extend(bytes(&spec.name));
        let range = start..out.len() as u64;
        encoder
            .component_written(spec, 0, Stored { range, encoding: Encoding::Raw, digest: None })
            .unwrap();
    }
    out.extend(encoder.finish(out.len() as u64).unwrap());
    out
}

/// What `gguf` 0.19 wrote is written again to the byte, and its blocks become the numbers that it gives: those of big-endian files
/// as what they are little-endian.
#[test]
fn files_of_gguf_py_come_back_and_dequantise_as_there() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/gguf");
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "gguf") {
            continue;
        }
        let file = std::fs::read(&path).unwrap();
        let index = decode(&file).unwrap().sound().unwrap();
        let expected = std::fs::read(path.with_extension("gguf.expect.json")).unwrap();
        let expected: serde_json::Value = serde_json::from_slice(&expected).unwrap();
        let tensors = expected["tensors"].as_array().unwrap();
        assert_eq!(tensors.len(), index.len());
        for (wanted, found) in tensors.iter().zip(index.tensors()) {
            let name = wanted["name"].as_str().unwrap();
            assert_eq!(found.name(), name);
            assert_eq!(serde_json::json!(found.shape()), wanted["shape"], "{name}");
            let data = found.component(&Role::Data).unwrap();
            let stored = data.stored.range();
            let bytes = &mut file[stored.start as usize..stored.end as usize].to_vec();
            data.make_little_endian(bytes);
            assert_eq!(sha256(bytes), wanted["components"]["data"]["sha256"], "{name}");
            if let (Layout::Blocks(of), Some(sum)) =
                (found.layout(), wanted.get("dequantized_f32_sha256"))
            {
                let view = Blocks::new(of, found.shape(), Bytes::copy_from_slice(bytes)).unwrap();
                let numbers = view.dequantize().unwrap();
                let all: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
                assert_eq!(sha256(&all), *sum, "{name}");
                for range in [0..1, 5..77, 31..33, numbers.len() - 40..numbers.len()] {
                    let mut some = vec![0.0; range.len()];
                    let part = range.start as u64..range.end as u64;
                    view.dequantize_range(part, &mut some).unwrap();
                    let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&some), bits(&numbers[range]), "{name}");
                }
                seen.insert(of.as_str());
            }
        }
        let of = |name: &str| {
            let stored = index.get(name).unwrap().component(&Role::Data).unwrap().stored.range();
            file[stored.start as usize..stored.end as usize].to_vec()
        };
        if index.warnings().iter().all(|w| w.code != "gguf/big-endian") {
            assert_eq!(encode(&index, of), file, "{}", path.display());
        }
    }
    let silent = ["q8_1", "q8_k", "q1_0", "q2_0"];
    let all: BTreeSet<&str> = BLOCK_TYPES.iter().map(BlockType::as_str).collect();
    let left: Vec<_> = all.difference(&seen).copied().filter(|t| !silent.contains(t)).collect();
    assert_eq!(left, [""; 0], "types that no file has");
}

fn sha256(bytes: &[u8]) -> String {
    let mut hasher = holdall_core::model::Hasher::new(holdall_core::Algorithm::Sha256);
    hasher.update(bytes);
    hasher.finish().to_string().trim_start_matches("sha256:").to_owned()
}

/// The types that no package decodes: by the formulas at their functions.
#[test]
fn the_other_types_follow_their_formulas() {
    let half = |x: f32| half::f16::from_f32(x).to_le_bytes().to_vec();
    let get = |name: &str, bytes: Vec<u8>| {
        let of = BlockType::by_name(name).unwrap();
        Blocks::new(of, &[of.elements], bytes.into()).unwrap().dequantize().unwrap()
    };
    let q = |n: usize| (0..n).map(|i| (i as u8).wrapping_mul(37)).collect::<Vec<u8>>();
    let signed = |q: &[u8], d: f32| q.iter().map(|q| d * f32::from(*q as i8)).collect::<Vec<_>>();
    assert_eq!(get("q8_1", [half(0.5), half(9.0), q(32)].concat()), signed(&q(32), 0.5));
    let k = [0.25f32.to_le_bytes().to_vec(), q(256), vec![9; 32]].concat();
    assert_eq!(get("Q8_K", k), signed(&q(256), 0.25));
    let bit = |i: usize| if q(16)[i / 8] >> (i % 8) & 1 == 1 { 2.0 } else { -2.0 };
    assert_eq!(get("q1_0", [half(2.0), q(16)].concat()), (0..128).map(bit).collect::<Vec<f32>>());
    let two = |i: usize| 2.0 * (f32::from(q(16)[i / 4] >> (2 * (i % 4)) & 3) - 1.0);
    assert_eq!(get("q2_0", [half(2.0), q(16)].concat()), (0..64).map(two).collect::<Vec<f32>>());
}

/// What `gguf` 0.19 makes of the same numbers: the sums of `quantize.json`, which its `quants.quantize` gave.
#[test]
fn numbers_are_quantised_as_gguf_py_does() {
    let text = include_str!("gguf_files/quantize.json");
    let expected: serde_json::Value = serde_json::from_str(text).unwrap();
    let numbers = numbers();
    // The others are searched for: see `gguf_quantise.rs`.
    let made = |of: &&BlockType| can_quantize(of) && expected.get(of.as_str()).is_some();
    for of in BLOCK_TYPES.iter().filter(made) {
        let mut out = Vec::new();
        quantize(of, &numbers, &mut out).unwrap();
        assert_eq!(out.len() as u64, of.stored_len(&[numbers.len() as u64]).unwrap());
        assert_eq!(sha256(&out), expected[of.as_str()], "{of}");
        let mut odd = numbers[..of.elements as usize].to_vec();
        for bad in [f32::NAN, f32::INFINITY, f32::MAX] {
            odd[3] = bad;
            let result = quantize(of, &odd, &mut Vec::new());
            let is_fine = of.as_str() == "mxfp4" && bad == f32::MAX;
            assert_eq!(result.is_ok(), is_fine, "{of} of {bad}");
        }
        quantize(of, &numbers[1..], &mut Vec::new()).unwrap_err();
    }
    assert_eq!(expected.as_object().unwrap().len(), 8);
}

/// 4096 numbers of many sizes, zeros, and blocks of one number: the same everywhere, made without a library.
fn numbers() -> Vec<f32> {
    let mut state = 12345u32;
    (0..4096u32)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let x = (state >> 8) as f32 / 8_388_608.0 - 1.0;
            match i / 256 {
                3 => 0.0,
                4 => 0.75,
                5 => x * 1e-6,
                6 => x * 3000.0,
                7 if i % 32 == 0 => 1.0,
                7 => 0.0,
                8 => (x * 4.0).round(),
                _ => x,
            }
        })
        .collect()
}

#[test]
fn unsupported_tensors_are_refused() {
    let new = |options: EncodeOptions| FORMAT.encode.unwrap()(&options);
    assert_eq!(
        new(EncodeOptions::new().with_version("2")).err().unwrap().code(),
        "format/unknown-version"
    );
    assert_eq!(new(EncodeOptions::new().with_align(4)).err().unwrap().code(), "gguf/align");
    let encoder = new(EncodeOptions::new()).unwrap();
    let check = |spec: &TensorSpec| encoder.check_tensor(spec).err().map(|e| e.code());
    let dense = |dtype, shape: &[u64]| TensorSpec::dense("w", dtype, shape);
    assert_eq!(check(&dense(DType::Bf16, &[2, 3])), None);
    assert_eq!(check(&dense(DType::U8, &[2, 3])), Some("gguf/element-type"));
    assert_eq!(check(&dense(DType::F32, &[1; 5])), Some("gguf/fit"));
    assert_eq!(check(&TensorSpec::dense("n".repeat(128), DType::F32, [4])), Some("gguf/fit"));
    let warned = |len| encoder.warning(&TensorSpec::dense("n".repeat(len), DType::F32, [4]));
    assert_eq!((warned(63), warned(64).map(|w| w.code)), (None, Some("gguf/long-name")));
    let mut sparse = dense(DType::F32, &[2, 2]);
    sparse.layout = Layout::SparseCoo;
    assert_eq!(check(&sparse), Some("gguf/layout"));
    let mut blocks = dense(DType::U8, &[18]);
    (blocks.layout, blocks.shape) = (Layout::from_name("gguf.q4_0"), vec![32]);
    assert_eq!(check(&blocks), None);
    blocks.shape = vec![64];
    assert_eq!(check(&blocks), Some("gguf/declared"));
}

/// What no key–value holds is kept, for the file and for its tensors.
#[test]
fn attributes_of_any_kind_come_back() {
    let mut index = decode(&Gguf::new().tensor("w", &[4], 0, &[1; 16]).finish()).unwrap();
    let mut attributes = index.attributes().clone();
    let map = Value::Map(vec![(Value::Text("a".into()), Value::Null)]);
    attributes.push("map", map.clone());
    attributes.push("mixed", Value::Array(vec![Value::Bool(true), Value::Integer(1)]));
    attributes.push("wide", Value::Integer(-(1 << 64)));
    attributes.push("utf-8", Value::Bytes(b"text".to_vec()));
    attributes.push("text", Value::Text("as it is".into()));
    let mut spec = TensorSpec::dense("w", DType::F32, [4]);
    spec.attributes.push("unit", map);
    let mut encoder = FORMAT.encode.unwrap()(&EncodeOptions::new().with_align(64)).unwrap();
    let mut out = encoder.begin(&attributes, std::slice::from_ref(&spec)).unwrap().to_vec();
    let start = encoder.next_offset(out.len() as u64, &spec, 0).unwrap();
    assert_eq!(start % 64, 0);
    out.resize(start as usize, 0);
    out.extend([1; 16]);
    let range = start..out.len() as u64;
    encoder
        .component_written(&spec, 0, Stored { range, encoding: Encoding::Raw, digest: None })
        .unwrap();
    out.extend(encoder.finish(out.len() as u64).unwrap());
    assert_eq!(out.len() % 64, 0);
    index = decode(&out).unwrap();
    for (key, value) in attributes.iter() {
        assert_eq!(index.attributes().get(key), Some(value), "{key}");
    }
    assert_eq!(index.attributes().get("general.alignment"), Some(&Value::Integer(64)));
    assert_eq!(index.at(0).unwrap().attributes(), &spec.attributes);
}

/// A header of many megabytes is found in a few growing looks.
#[test]
fn long_headers_take_few_looks() {
    let mut items = [8u32.to_le_bytes().to_vec(), 200_000u64.to_le_bytes().to_vec()].concat();
    (0..200_000).for_each(|i| items.extend(Gguf::new().string(format!("token {i}").as_bytes())));
    let file = Gguf::new().pair("tokens", 9, &items).tensor("w", &[4], 0, &[1; 16]).finish();
    let (index, asked) = decode_windowed(&file);
    assert_eq!(index.unwrap().len(), 1);
    assert!(asked <= 7, "{asked} looks");
}

/// How long the entries of many tensors are is guessed from the first of them.
#[test]
fn many_tensors_take_two_looks() {
    let mut file = Gguf::new();
    for i in 0..20_000u64 {
        file =
            file.tensor(&format!("model.layers.{}.block_{}.weight", i / 51, i % 51), &[0], 0, &[]);
    }
    let (index, asked) = decode_windowed(&file.finish());
    assert_eq!(index.unwrap().len(), 20_000);
    // Three tell which format it is.
    assert_eq!(asked, 5);
}

/// Blocks as ggml has them on a big-endian machine, whole and a range at a time.
#[test]
fn fields_of_big_endian_blocks_are_turned() {
    let half = |x: f32| half::f16::from_f32(x).to_le_bytes().to_vec();
    let swapped = |mut bytes: Vec<u8>| {
        bytes.reverse();
        bytes
    };
    let q: Vec<u8> = (0..192u32).map(|i| (i * 71 % 251) as u8).collect();
    // Q5_0: a scale of 2 bytes, fifth bits of 4; Q6_K: its scale at the end.
    let little = [half(0.5), q[..4].to_vec(), q[4..20].to_vec()].concat();
    let big = [swapped(half(0.5)), swapped(q[..4].to_vec()), q[4..20].to_vec()].concat();
    let k = |scale: Vec<u8>| [q.clone(), q[..16].to_vec(), scale].concat();
    let new = Gguf { is_big: true, ..Gguf::new() };
    let file = new.tensor("a", &[32, 2], 6, &big.repeat(2));
    let file = file.tensor("b", &[256], 14, &k(swapped(half(0.01)))).finish();
    let index = decode(&file).unwrap().sound().unwrap();
    for (name, wanted) in [("a", little.repeat(2)), ("b", k(half(0.01)))] {
        let data = index.get(name).unwrap().component(&Role::Data).unwrap();
        assert!(matches!(data.byte_order, ByteOrder::BigBlocks(_)));
        let stored = data.stored.range();
        let mut bytes = file[stored.start as usize..stored.end as usize].to_vec();
        assert_ne!(bytes, wanted);
        data.make_little_endian(&mut bytes);
        assert_eq!(bytes, wanted, "{name}");
    }
    // Every type but one has its fields inside of its block, one after the other.
    for of in BLOCK_TYPES {
        let Some(fields) = of.fields() else {
            assert_eq!(of.as_str(), "iq2_xxs");
            continue;
        };
        let mut at = 0;
        for (start, width, count) in fields {
            assert!(*start >= at && matches!(width, 2 | 4), "{of}");
            at = start + width * count;
        }
        assert!(at as u64 <= of.bytes, "{of}");
    }
}

/// A tensor whose type is not known has the bytes up to the next, and its number; in a big-endian file it is a fault.
#[test]
fn a_tensor_of_an_unknown_type_is_opaque() {
    for (is_big, last) in [(false, false), (false, true), (true, false)] {
        let mut file = Gguf { is_big, ..Gguf::new() };
        file = file.tensor("a", &[4], 0, &[1; 16]).tensor("b", &[4], 99, &[2; 40]);
        if !last {
            file = file.tensor("c", &[4], 0, &[3; 16]);
        }
        let index = decode(&file.finish()).unwrap();
        assert!(index.tensors().filter(|t| t.name() != "b").all(|t| t.fault().is_none()));
        let b = index.get("b").unwrap();
        if is_big {
            assert_eq!(b.fault().map(|e| e.code()), Some("gguf/dtype"));
            continue;
        }
        assert_eq!(b.layout().as_str(), "gguf.type_99");
        assert_eq!(b.component(&Role::Data).unwrap().stored.len(), 64);
    }
    // A tensor that begins after the next one has an unknown length.
    let mut file = Gguf::new().entry(b"a", &[4], 99, 64).entry(b"b", &[4], 0, 0);
    file.data = vec![1; 128];
    assert!(decode(&file.finish()).is_err());
    let bytes = Gguf::new().tensor(&"n".repeat(127), &[4], 0, &[1; 16]).finish();
    assert_eq!(decode(&bytes).unwrap().len(), 1);
}
