//! `.npy` headers: written like NumPy, read back, and refused if they are malformed.

use holdall_core::wire::npy::{self, Header};
use holdall_core::{ByteOrder, DType, LogicalType};

/// Returns a header with this dict, framed like NumPy.
fn framed(dict: &str) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((dict.len() as u16).to_le_bytes());
    out.extend(dict.as_bytes());
    out
}

fn code(bytes: &[u8]) -> &'static str {
    npy::read(bytes).unwrap_err().code()
}

#[test]
fn headers_are_those_that_numpy_writes() {
    let expected = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, \
                     'shape': (3, 4), }                                                          \n";
    assert_eq!(expected.len(), 128);
    let found = npy::header(DType::F32, None, &[3, 4]).unwrap();
    assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
    let text = |shape: &[u64]| {
        String::from_utf8_lossy(&npy::header(DType::Bool, None, shape).unwrap()).into_owned()
    };
    assert!(text(&[]).contains("'|b1', 'fortran_order': False, 'shape': (), }"));
    assert!(text(&[5]).contains("'shape': (5,), }"));
    assert!(text(&[0, 7, 1]).contains("'shape': (0, 7, 1), }"));
}

#[test]
fn written_headers_are_read_back() {
    let types = DType::ALL
        .into_iter()
        .filter(|d| *d != DType::Bf16)
        .map(|d| (d, None))
        .chain([(DType::F32, Some(LogicalType::Complex64))])
        .chain([(DType::F64, Some(LogicalType::Complex128))]);
    for (dtype, logical_type) in types {
        for shape in [vec![], vec![1], vec![u64::MAX, 0], vec![1; 40_000]] {
            let bytes = npy::header(dtype, logical_type.as_ref(), &shape).unwrap();
            assert!(bytes.len().is_multiple_of(64) && bytes.ends_with(b"\n"));
            if bytes.len() as u64 > npy::HEADER_MAX {
                assert_eq!(bytes[6], 2);
                assert_eq!(code(&bytes), "npy/truncated");
                continue;
            }
            let len = bytes.len() as u64;
            let logical_type = logical_type.clone();
            let byte_order = ByteOrder::Little;
            let expected = Header {
                dtype,
                logical_type,
                byte_order,
                fortran_order: false,
                shape,
                len,
                descr: None,
                inner: None,
                fields: None,
            };
            assert_eq!(npy::read(&bytes).unwrap(), expected);
            assert_eq!(npy::header_len(&bytes[..12]).unwrap(), len);
        }
    }
}

#[test]
fn types_that_numpy_lacks_are_refused() {
    let e = npy::header(DType::Bf16, None, &[2]).unwrap_err();
    assert_eq!((e.code(), e.message()), ("npy/no-such-type", "NumPy has no type for bf16"));
    for t in [LogicalType::F8E4M3Fn, LogicalType::F4E2M1, LogicalType::from_name("new\n")] {
        assert_eq!(npy::header(DType::U8, Some(&t), &[2]).unwrap_err().code(), "npy/no-such-type");
    }
}

#[test]
fn other_writers_headers_are_read() {
    let h = npy::read(&framed("{\"shape\":(2L,3),'fortran_order':True,'descr':'>i2'}")).unwrap();
    assert_eq!((h.dtype, h.byte_order), (DType::I16, ByteOrder::Big));
    assert_eq!((h.shape, h.fortran_order, h.len), (vec![2, 3], true, 61));
    for (descr, dtype, order) in [
        ("i4", DType::I32, ByteOrder::Little),
        ("=i4", DType::I32, ByteOrder::Little),
        (">i4", DType::I32, ByteOrder::Big),
        ("b1", DType::Bool, ByteOrder::Little),
        ("|i4", DType::I32, ByteOrder::Little),
        ("d", DType::F64, ByteOrder::Little),
        (">H", DType::U16, ByteOrder::Big),
        ("?", DType::Bool, ByteOrder::Little),
        ("float64", DType::F64, ByteOrder::Little),
        ("bool", DType::Bool, ByteOrder::Little),
    ] {
        let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (3,), }}");
        let h = npy::read(&framed(&dict)).unwrap();
        assert_eq!((h.dtype, h.byte_order), (dtype, order), "{descr}");
    }
    let named = [("U5", "<U5", Some(5)), ("S3", "|S3", Some(3)), ("M8[ns]", "<M8[ns]", None)];
    for (descr, name, inner) in named {
        let of = npy::any_element(descr).unwrap();
        assert_eq!((of.descr.as_deref(), of.inner), (Some(name), inner));
    }
    for descr in ["", "<", "=", "4i", "é4", "<<i4", "<float64", "l", "g"] {
        assert_eq!(npy::any_element(descr).unwrap_err().code(), "npy/dtype", "{descr}");
    }
}

#[test]
fn broken_headers_name_their_rule() {
    let dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n";
    let whole = framed(dict);
    for len in 0..whole.len() {
        let code = code(&whole[..len]);
        assert_eq!(code, if len < 6 { "npy/magic" } else { "npy/truncated" }, "{len}");
    }
    let mut bad = whole.clone();
    bad[6] = 4;
    assert_eq!(code(&bad), "npy/magic");
    for (from, to, expected) in [
        ("<f4", "|O", "npy/dtype"),
        ("<f4", "<g", "npy/dtype"),
        ("<f4", "", "npy/dtype"),
        ("<f4", "é4", "npy/dtype"),
        ("<f4", "|f3", "npy/dtype"),
        ("<f4", "<f4\\n", "npy/dtype"),
        ("<f4", "<f4\\q", "npy/header"),
        ("<f4", "<f4\\x4", "npy/header"),
        ("'<f4'", "[('a', '<f4')]", "npy/dtype"),
        ("False", "0", "npy/header"),
        ("(3, 4)", "(3, -4)", "npy/header"),
        ("(3, 4)", "(3 4)", "npy/header"),
        ("(3, 4)", "(99999999999999999999,)", "npy/header"),
        ("(3, 4)", "3", "npy/header"),
        ("(3, 4)", "(3)", "npy/header"),
        ("(3, 4)", "(,)", "npy/header"),
        (", }", "", "npy/header"),
        (" }", " 'shape': (1,), }", "npy/header"),
        (" }", " 'more': 1 }", "npy/header"),
        (", 'shape': (3, 4)", "", "npy/header"),
        ("}\n", "}}\n", "npy/header"),
    ] {
        assert!(dict.contains(from));
        assert_eq!(code(&framed(&dict.replacen(from, to, 1))), expected, "{from} -> {to}");
    }
    assert_eq!(code(b"\x93NUMPY\x01\x00\x02\x00\xff\xfe"), "npy/header");
}

/// Types without an equivalent are read as their parts, with a little-endian name.
#[test]
fn types_of_numpy_alone_are_named() {
    let read = |descr: &str| {
        let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,)}}");
        npy::read_any(&framed(&dict)).map_err(|e| e.code())
    };
    for (descr, dtype, order, name, shape) in [
        (">M8[ns]", DType::I64, ByteOrder::Big, "<M8[ns]", &[2][..]),
        ("<m8[25us]", DType::I64, ByteOrder::Little, "<m8[25us]", &[2]),
        (">U5", DType::U32, ByteOrder::Big, "<U5", &[2, 5]),
        ("|S3", DType::U8, ByteOrder::Little, "|S3", &[2, 3]),
        ("<V2", DType::U8, ByteOrder::Little, "|V2", &[2, 2]),
    ] {
        let header = read(descr).unwrap();
        assert_eq!((header.dtype, header.byte_order), (dtype, order), "{descr}");
        assert_eq!((header.descr.as_deref(), &header.shape[..]), (Some(name), shape), "{descr}");
    }
    for descr in ["|O", "<M8[", "<M8[a']", "<U", "<U-1", "<M4", "V", "", "<q2", "<S99999999999"] {
        assert!(matches!(read(descr), Err("npy/dtype" | "npy/header")), "{descr}");
    }
    assert_eq!(
        code(&framed("{'descr': '<M8[ns]', 'fortran_order': False, 'shape': ()}")),
        "npy/dtype"
    );
}

fn fields(descr: &str) -> Result<npy::Fields, &'static str> {
    let dict = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,)}}");
    npy::read_any(&framed(&dict)).map(|header| header.fields.unwrap()).map_err(|e| e.code())
}

/// Structured types have schemas of packed records, and a codec that converts the stored ones.
#[test]
fn fields_are_schemas() {
    let of = fields("[('a', '<i4'), (('T', 'b'), '|S2', (3, 2)), ('c', [('d', 'g')])]");
    // A long double.
    assert_eq!(of, Err("npy/dtype"));
    let of =
        fields("[('a', '<i4'), (('T', 'b'), '|S2', (3, 2)), ('c', [('d', '|b1')]), ]").unwrap();
    assert_eq!((of.size(), of.members()), (17, None));
    let kind: serde_json::Value = serde_json::from_str(&of.schema()).unwrap();
    let expected = serde_json::json!({
        "type": "object", "TypeDef:Struct": ["a", "b", "c"], "align": 1, "required": ["a", "b", "c"],
        "properties": {
            "a": {"type": "integer", "TypeDef:Int32": true},
            "b": {"type": "array", "title": "T", "TypeDef:Array": true, "minItems": 3, "maxItems": 3, "items":
                {"type": "array", "TypeDef:Array": true, "minItems": 2, "maxItems": 2, "items":
                    {"type": "array", "TypeDef:Array": true, "minItems": 2, "maxItems": 2, "numpy.descr": "|S2",
                     "items": {"type": "integer", "TypeDef:Uint8": true}}}},
            "c": {"type": "object", "TypeDef:Struct": ["d"], "align": 1, "required": ["d"], "properties":
                {"d": {"type": "boolean", "TypeDef:Boolean": true}}},
        },
    });
    assert_eq!(kind, expected);
    // As found in other files.
    assert_eq!(of.schema(), kind.to_string());
    // Bytes between members are removed, and numbers are byte-swapped.
    let of =
        fields("[('', '|V1'), ('a', '>i2'), ('', '|V2'), ('b', [('', '|V1'), ('c', '>c8')], 2)]");
    let members = of.unwrap().members().unwrap();
    let stored: Vec<u8> = (0..23).collect();
    let expected = [2, 1, 9, 8, 7, 6, 13, 12, 11, 10, 18, 17, 16, 15, 22, 21, 20, 19];
    assert_eq!(members.decode(&stored).unwrap(), expected);
    assert_eq!(members.decode(&stored[..22]).unwrap_err().code(), "chunks/broken");
}

#[test]
fn fields_that_make_no_record_are_refused() {
    for empty in ["'<f4', (0,)", "'<f4', (0, 2)", "'|S0'", "'<U0'", "'<U2', 0"] {
        assert!(fields(&format!("[('a', '<f4'), ('b', {empty})]")).is_ok(), "{empty}");
    }
    let hint = |descr: &str| {
        let dict = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,)}}");
        npy::read_any(&framed(&dict)).unwrap_err().hint().unwrap_or_default().to_owned()
    };
    assert!(hint("[]").contains("without the fields that are empty"), "{}", hint("[]"));
    assert!(hint("'g'").contains("'|b1'"), "{}", hint("'g'"));
    assert!(hint("'<f16'").contains("longdouble as float64"), "{}", hint("'<f16'"));
    let deep = |depth: usize| format!("{}'|i1'{}", "[('a', ".repeat(depth), ")]".repeat(depth));
    assert!(fields(&deep(32)).is_ok());
    let dims = format!("[('a', '|i1', ({}))]", "1, ".repeat(65));
    for (descr, code) in [
        ("[('a', '|O')]", "npy/dtype"),
        ("[('a', [('b', '<f16')])]", "npy/dtype"),
        ("[('a', ('<f4', (2,)))]", "npy/dtype"),
        ("[]", "npy/dtype"),
        ("[('a', '|S0')]", "npy/dtype"),
        ("[('a', '<f4', (0,))]", "npy/dtype"),
        // Elements of arrays without bytes are refused; an array without elements is allowed.
        ("[('a', '<f4'), ('b', '<f4', (2, 0))]", "npy/dtype"),
        ("[('a', '<f4'), ('b', '<f4', (0, 0))]", "npy/dtype"),
        ("[('a', '<f4'), ('b', '|S0', (2,))]", "npy/dtype"),
        ("[('a', '<f4'), ('b', '<U0', 0)]", "npy/dtype"),
        ("[('a', '<f4'), ('b', [('c', '<f4'), ('d', '<f4', (1, 0))])]", "npy/dtype"),
        ("[('', '|V4')]", "npy/dtype"),
        ("[('', '<f4')]", "npy/fields"),
        ("[('', [('a', '<f4')])]", "npy/fields"),
        ("[('a', '<f4'), ('a', '<f4')]", "npy/fields"),
        ("[('a', '<f8', (1152921504606846976,))]", "npy/fields"),
        ("[('a', '<f4', (4294967296, 4294967296, 4294967296))]", "npy/fields"),
        (
            "[('a', '<f4', (1152921504606846975,)), ('b', '<f4', (1152921504606846975,)), ('c', '<f8')]",
            "npy/fields",
        ),
        ("[('a', '<f4', -1)]", "npy/header"),
        ("[('a')]", "npy/header"),
        ("[('a', '<f4'", "npy/header"),
        ("[('a', '<f4', (1,), 2)]", "npy/header"),
        ("[('a\\ud800', '<f4')]", "npy/header"),
        ("[('a\\', '<f4')]", "npy/header"),
        (&deep(33), "npy/header"),
        (&dims, "npy/header"),
    ] {
        assert_eq!(fields(descr).err(), Some(code), "{descr}");
    }
}

/// Headers of versions 1 and 2 are Latin-1, of version 3 UTF-8; `repr` escapes the rest.
#[test]
fn names_of_fields_are_any_text() {
    let name = |version: u8, name: &[u8]| {
        let dict =
            [b"{'descr': [(", name, b", '|i1')], 'fortran_order': False, 'shape': (2,)}"].concat();
        let mut file = vec![0x93, b'N', b'U', b'M', b'P', b'Y', version, 0];
        let len = dict.len() as u32;
        file.extend(&len.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
        file.extend(dict);
        let kind = npy::read_any(&file).map_err(|e| e.code())?.fields.unwrap().schema();
        let kind: serde_json::Value = serde_json::from_str(&kind).unwrap();
        Ok(kind["required"][0].as_str().unwrap().to_owned())
    };
    assert_eq!(name(1, b"'\xe9'").as_deref(), Ok("é"));
    assert_eq!(name(2, b"'\xe9'").as_deref(), Ok("é"));
    assert_eq!(name(3, "'日'".as_bytes()).as_deref(), Ok("日"));
    assert_eq!(name(3, b"'\xe9'"), Err("npy/header"));
    assert_eq!(name(1, br#"'q\'"\\\n\x01\u65e5\U0001f600'"#).as_deref(), Ok("q'\"\\\n\u{1}日😀"));
    assert_eq!(name(1, br#""it's""#).as_deref(), Ok("it's"));
}
