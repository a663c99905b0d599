//! CBOR reading and writing: the examples of the standard, and malformed bytes.

use holdall_core::wire::cbor::{Reader, Writer};
use holdall_core::{Limits, Result, Value};
use proptest::prelude::*;

fn read(bytes: &[u8]) -> Result<Value> {
    let mut reader = Reader::new(bytes, 0, &Limits::default());
    let value = reader.value()?;
    reader.end()?;
    Ok(value)
}

fn write(value: &Value) -> Vec<u8> {
    let mut w = Writer::new();
    w.value(value).unwrap();
    w.into_bytes()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn code(bytes: &str) -> &'static str {
    let bytes = hex(bytes);
    let e = read(&bytes).unwrap_err();
    // Skipping returns the same errors, except those that only reading detects.
    if e.code() != "cbor/duplicate-key" && e.code() != "cbor/trailing" {
        let mut reader = Reader::new(&bytes, 0, &Limits::default());
        assert_eq!(reader.skip().unwrap_err().code(), e.code());
    }
    e.code()
}

/// RFC 8949, appendix A: bytes, and the value as lossless JSON. All are written back unchanged, except those of
/// indefinite length.
#[test]
fn the_examples_of_the_standard() {
    let table = [
        ("00", "0"),
        ("17", "23"),
        ("1818", "24"),
        ("1864", "100"),
        ("1903e8", "1000"),
        ("1a000f4240", "1000000"),
        ("1b000000e8d4a51000", "1000000000000"),
        ("1bffffffffffffffff", "18446744073709551615"),
        ("c249010000000000000000", r#"{"$tag":[2,{"$bytes":"010000000000000000"}]}"#),
        ("3bffffffffffffffff", "-18446744073709551616"),
        ("20", "-1"),
        ("3863", "-100"),
        ("3903e7", "-1000"),
        ("f90000", "0.0"),
        ("f98000", "-0.0"),
        ("f93c00", "1.0"),
        ("fb3ff199999999999a", "1.1"),
        ("f93e00", "1.5"),
        ("f97bff", "65504.0"),
        ("fa47c35000", "100000.0"),
        ("fa7f7fffff", "3.4028234663852886e38"),
        ("fb7e37e43c8800759c", "1e300"),
        ("f90001", "5.960464477539063e-8"),
        ("f90400", "6.103515625e-5"),
        ("f9c400", "-4.0"),
        ("fbc010666666666666", "-4.1"),
        ("f97c00", r#"{"$float":"inf"}"#),
        ("f97e00", r#"{"$float":"nan"}"#),
        ("f9fc00", r#"{"$float":"-inf"}"#),
        ("f4", "false"),
        ("f5", "true"),
        ("f6", "null"),
        ("f7", r#"{"$undefined":true}"#),
        ("f0", r#"{"$simple":16}"#),
        ("f8ff", r#"{"$simple":255}"#),
        ("c11a514b67b0", r#"{"$tag":[1,1363896240]}"#),
        ("40", r#"{"$bytes":""}"#),
        ("4401020304", r#"{"$bytes":"01020304"}"#),
        ("60", r#""""#),
        ("6449455446", r#""IETF""#),
        ("62225c", r#""\"\\""#),
        ("62c3bc", "\"\u{fc}\""),
        ("64f0908591", "\"\u{10151}\""),
        ("80", "[]"),
        ("8301820203820405", "[1,[2,3],[4,5]]"),
        (
            "98190102030405060708090a0b0c0d0e0f101112131415161718181819",
            "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25]",
        ),
        ("a0", "{}"),
        ("a201020304", r#"{"$map":[[1,2],[3,4]]}"#),
        ("a26161016162820203", r#"{"a":1,"b":[2,3]}"#),
        ("826161a161626163", r#"["a",{"b":"c"}]"#),
        ("5f42010243030405ff", r#"{"$bytes":"0102030405"}"#),
        ("7f657374726561646d696e67ff", r#""streaming""#),
        ("9fff", "[]"),
        ("9f018202039f0405ffff", "[1,[2,3],[4,5]]"),
        ("83019f0203ff820405", "[1,[2,3],[4,5]]"),
        ("bf61610161629f0203ffff", r#"{"a":1,"b":[2,3]}"#),
        ("826161bf61626163ff", r#"["a",{"b":"c"}]"#),
    ];
    for (bytes, json) in table {
        let bytes = hex(bytes);
        let value = read(&bytes).unwrap();
        assert_eq!(value.to_json(), json);
        let has_indefinite = bytes.ends_with(&[0xff]) && !matches!(bytes[0] >> 5, 0 | 1 | 7)
            || bytes == hex("83019f0203ff820405");
        let again = write(&value);
        assert!(has_indefinite || again == bytes, "{json}: {again:02x?}");
        assert_eq!(read(&again).unwrap().to_json(), json);
    }
}

#[test]
fn floats_keep_their_bits_in_the_shortest_form() {
    // Wider than necessary: written back shorter, with the same bits.
    for (wide, short) in [
        ("fb3ff8000000000000", "f93e00"),
        ("fa3fc00000", "f93e00"),
        ("fb3fb99999a0000000", "fa3dcccccd"),
        ("fb7ff8000000000000", "f97e00"),
        // Signalling NaNs, with a payload, negative: a conversion in hardware would change them.
        ("fb7ff0040000000000", "f97c01"),
        ("fbfff0000020000000", "faff800001"),
        ("fb7ff0000000000001", "fb7ff0000000000001"),
    ] {
        let value = read(&hex(wide)).unwrap();
        assert_eq!(write(&value), hex(short), "{wide}");
        let (Value::Float(a), Value::Float(b)) = (value, read(&hex(short)).unwrap()) else {
            panic!("{wide} is not a float")
        };
        assert_eq!(a.to_bits(), b.to_bits(), "{wide}");
    }
}

#[test]
fn bytes_that_are_no_cbor_have_a_code_each() {
    assert_eq!(code(""), "cbor/truncated");
    assert_eq!(code("18"), "cbor/truncated");
    assert_eq!(code("1bffffff"), "cbor/truncated");
    assert_eq!(code("43ffff"), "cbor/truncated");
    assert_eq!(code("5bffffffffffffffff00"), "cbor/truncated");
    assert_eq!(code("9f01"), "cbor/truncated");
    assert_eq!(code("7f6161"), "cbor/truncated");
    assert_eq!(code("c1"), "cbor/truncated");
    assert_eq!(code("1c"), "cbor/reserved");
    assert_eq!(code("1f"), "cbor/reserved");
    assert_eq!(code("df"), "cbor/reserved");
    assert_eq!(code("fc"), "cbor/reserved");
    assert_eq!(code("f818"), "cbor/reserved");
    assert_eq!(code("f800"), "cbor/reserved");
    assert_eq!(code("5f6161ff"), "cbor/reserved");
    assert_eq!(code("7f7f6161ffff"), "cbor/reserved");
    assert_eq!(code("ff"), "cbor/break");
    assert_eq!(code("81ff"), "cbor/break");
    assert_eq!(code("a1ff00"), "cbor/break");
    assert_eq!(code("bf01ff"), "cbor/break");
    assert_eq!(code("c1ff"), "cbor/break");
    assert_eq!(code("61ff"), "cbor/utf8");
    assert_eq!(code("7f61c361bcff"), "cbor/utf8");
    assert_eq!(code("8200"), "cbor/count");
    assert_eq!(code("9bffffffffffffffff"), "cbor/count");
    assert_eq!(code("bb800000000000000000"), "cbor/count");
    assert_eq!(code("828100"), "cbor/truncated");
    assert_eq!(code("a201000100"), "cbor/duplicate-key");
    // 1 is 1, however it is encoded; the integer 1 and the float 1 are different values.
    assert_eq!(code("a20100180100"), "cbor/duplicate-key");
    assert_eq!(code("a2f93c0000fa3f80000000"), "cbor/duplicate-key");
    assert!(read(&hex("a20100f93c0000")).is_ok());
    assert_eq!(code("0000"), "cbor/trailing");
}

#[test]
fn nesting_is_bounded_and_cheap() {
    let depth = Limits::default().depth;
    for one in [&[0x81u8][..], &[0x9f], &[0xc1], &[0xa1, 0x00]] {
        let nested = |n: usize| [one.repeat(n), vec![0x00]].concat();
        let mut fits = nested(depth);
        if one[0] == 0x9f {
            fits.extend(vec![0xff; depth]);
        }
        assert!(read(&fits).is_ok());
        for n in [depth + 1, 1_000_000] {
            let bytes = nested(n);
            assert_eq!(read(&bytes).unwrap_err().code(), "cbor/depth");
            let mut reader = Reader::new(&bytes, 0, &Limits::default());
            assert_eq!(reader.skip().unwrap_err().code(), "cbor/depth");
        }
    }
}

/// Maps as keys of maps, two entries each: comparing keys must not take twice the time for each level.
#[test]
fn keys_inside_keys_take_no_exponential_time() {
    let depth = Limits::default().depth - 1;
    let mut bytes = vec![0xa2; depth];
    bytes.push(0x00);
    for _ in 0..depth {
        bytes.extend_from_slice(&[0x00, 0x01, 0x00]);
    }
    let value = read(&bytes).unwrap();
    assert_eq!(write(&value), bytes);
}

#[test]
fn many_keys_take_no_quadratic_time() {
    let mut w = Writer::new();
    w.map(200_000);
    for i in 0..200_000u64 {
        w.u64(i);
        w.u64(0);
    }
    assert!(read(w.as_bytes()).is_ok());
}

#[test]
fn attribute_values_are_counted() {
    let mut limits = Limits::default();
    limits.attribute_values = 1000;
    let array = |n: usize| [vec![0x99, (n >> 8) as u8, n as u8], vec![0; n]].concat();
    assert!(Reader::new(&array(999), 0, &limits).value().is_ok());
    let e = Reader::new(&array(1000), 0, &limits).value().unwrap_err();
    assert_eq!(e.code(), "cbor/too-many-values");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any bytes: reading and skipping agree, and a value that was read is written in one form from then on.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut reader = Reader::new(&bytes, 7, &Limits::default());
        let mut skipper = reader.clone();
        let read_value = reader.value();
        let skipped = skipper.skip();
        match read_value {
            Ok(value) => {
                prop_assert!(skipped.is_ok());
                prop_assert_eq!(reader.offset(), skipper.offset());
                let once = write(&value);
                prop_assert!(once.len() as u64 <= reader.offset() - 7);
                prop_assert_eq!(&write(&read(&once).unwrap()), &once);
            }
            Err(e) => {
                prop_assert!(skipped.is_err() || e.code() == "cbor/duplicate-key");
                let range = e.range().unwrap();
                prop_assert!(7 <= range.start && range.end <= 7 + bytes.len() as u64, "{range:?}");
            }
        }
    }

    /// Each prefix of a value's bytes is reported as truncated.
    #[test]
    fn any_cut(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(value) = Reader::new(&bytes, 0, &Limits::default()).value() {
            let whole = write(&value);
            for cut in 0..whole.len() {
                let e = read(&whole[..cut]).unwrap_err();
                prop_assert!(matches!(e.code(), "cbor/truncated" | "cbor/count"), "{}", e);
            }
        }
    }
}

#[test]
fn errors_name_the_kind_that_was_found() {
    for (bytes, kind) in [
        ("01", "an unsigned integer"),
        ("20", "a negative integer"),
        ("4100", "a byte string"),
        ("80", "an array"),
        ("a0", "a map"),
        ("c100", "a tag"),
        ("f4", "a boolean"),
        ("f5", "a boolean"),
        ("f6", "null"),
        ("f7", "undefined"),
        ("f93c00", "a float"),
        ("fb3ff0000000000000", "a float"),
        ("ff", "a break"),
        ("e0", "a simple value"),
    ] {
        let bytes = hex(bytes);
        let e = Reader::new(&bytes, 0, &Limits::default()).key("the map").unwrap_err();
        let wanted = format!("a key of the map is {kind}, not text");
        assert!(e.to_string().contains(&wanted), "{e}");
    }
    let e = Reader::new(b"\x61a", 0, &Limits::default()).u64("the count").unwrap_err();
    assert!(e.to_string().contains("at the count, found text"), "{e}");
}
