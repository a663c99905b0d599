//! Files of no format are named, with a way out that is true.

use holdall_core::error::Remedy;
use holdall_core::{Bytes, Error, Limits, Stop, Window};

fn unknown(bytes: &[u8]) -> Error {
    match holdall_formats::decode(&Window::whole(Bytes::copy_from_slice(bytes)), &Limits::default())
    {
        Err(Stop::Fail(e)) => e,
        Err(Stop::Need(ranges)) => panic!("a whole file lacks {ranges:?}"),
        Ok(_) => panic!("it is read: {}", bytes.escape_ascii()),
    }
}

/// A zip of empty entries, as short as one can be.
fn zip(names: &[&str]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for name in names {
        let at = u32::try_from(out.len()).unwrap();
        let len = u16::try_from(name.len()).unwrap().to_le_bytes();
        let common = [&[20, 0][..], &[0; 20], &[0; 0]].concat();
        out.extend([b"PK\x03\x04", &common[..], &len, &[0, 0], name.as_bytes()].concat());
        let tail = [&[0; 10][..], &at.to_le_bytes()].concat();
        let entry = [b"PK\x01\x02\x14\0", &common[..], &len, &[0, 0], &tail, name.as_bytes()];
        directory.extend(entry.concat());
    }
    let count = u16::try_from(names.len()).unwrap().to_le_bytes();
    let len = u32::try_from(directory.len()).unwrap().to_le_bytes();
    let at = u32::try_from(out.len()).unwrap().to_le_bytes();
    out.extend(directory);
    out.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &len, &at, &[0, 0]].concat());
    out
}

#[test]
fn files_of_other_kinds_are_named() {
    let tar = [&b"a.safetensors"[..], &[0; 244], b"ustar\x0000", &[0; 700]].concat();
    let long_text = format!("Dear reader,\n{}", "it goes on. ".repeat(200));
    let cases: Vec<(&[u8], &str, &str)> = vec![
        (
            "<!DOCTYPE html>\n<html><head><title> Sign in\u{202e} </title>".as_bytes(),
            "an HTML page titled “Sign in\\u{202e}”",
            "web page",
        ),
        (b"\xef\xbb\xbf\n<HTML><body>", "an HTML page,", "web page"),
        (b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "XML", "web page"),
        (b"<?xml version=\"1.0\"?><svg/>", "XML", "other programs"),
        (
            b"<\n   ir_version: 10,\n   opset_import: [\"\" : 20]\n>\nagraph (float[N] x) => (float[N] y)\n{\n}",
            "a model of ONNX as text",
            "save it as binary",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n",
            "a git-lfs pointer for a file of 12345 bytes",
            "git lfs pull",
        ),
        (b"{\"error\":\"Repository not found\"}", "JSON", "web page"),
        (b"{\"model_type\": \"bert\"}", "JSON", "the file with its weights"),
        (b"\xff\xfea\0,\0b\0\n\0", "text in UTF-16", "as UTF-8"),
        (b"\x1f\x8b\x08\x00aaaaaaaa", "a file compressed with gzip", "decompress"),
        (b"\x28\xb5\x2f\xfdaaaaaaaaaaaa", "a file compressed with zstd", "decompress"),
        (&tar, "a tar archive", "unpack"),
        (b"\x80\x04\x95\x10\0\0\0\0\0\0\0}.", "a pickle", "loading a pickle"),
        (b"(dp0\nVa\np1\n.", "a pickle", "loading a pickle runs the code in it"),
        (b"SQLite format 3\0aaaa", "an SQLite database", "table"),
        (b"MATLAB 5.0 MAT-file, Platform: GLNXA64", "a MATLAB file", "-v7.3"),
        (b"CDF\x01\0\0\0\x01", "a NetCDF file older than NetCDF-4", "nccopy -k nc4"),
        (
            b"Invalid username or password.",
            "text that begins “Invalid username or password.”",
            "web page",
        ),
        (long_text.as_bytes(), "text that begins “Dear reader,”", "other programs"),
        (&[0; 100], "a run of zero bytes", "get it again"),
        (b"\x80\x04\x8c\x13joblib.numpy_pickle\x8c", "a joblib pickle", "loading a pickle"),
        (b"\x78\x9cKL\xff\0\0\0", "a file compressed with zlib", "decompress"),
        (b"ftrt\0\0\0\0\xff", "a TensorRT engine", "compiled from"),
        (b"\x18\0\0\0ORTM\0\0\xff", "an ONNX Runtime model", "compiled from"),
        (b"tjgg\x03\0\0\0\xff\xff", "a ggml model", "GGUF"),
        (b"RDX3\nX\n\0\0\0\x03", "a file of R", "table"),
        (b"\x08\x04\x12\x0d\x0a\x0b\x0a\x05image\x1a\x02\xff", "a Core ML model", "coremltools"),
        (
            b"\x08\x01\x12\xa0\x02\x0a\x1e\x12\x00\x22\x05serve\xff",
            "the graph of a TensorFlow saved model",
            "variables.index",
        ),
        (b"\x0a\x1c\x0a\x05input\x12\x0bPlaceholder\xff", "a TensorFlow graph", "ONNX"),
    ];
    for (bytes, name, way) in cases {
        let e = unknown(bytes);
        assert_eq!(e.code(), "format/unknown", "{e}");
        assert!(e.message().contains(&format!("this is {name}")), "{name}: {}", e.message());
        assert!(e.hint().unwrap().contains(way), "{name}: {:?}", e.hint());
        assert!(e.remedies().is_empty(), "{name}: {:?}", e.remedies());
    }
}

#[test]
fn formats_with_records_suggest_a_dataset() {
    let texts = [&b"[{\"id\": 1}]"[..], b"{\"id\": 1}\n{\"id\": 2}\n", b"id,name\n1,a\n"];
    let others = [&b"id;name\n1;a\n"[..], b"PAR1aaaaaaaaPAR1", b"ARROW1\0\0aaaaARROW1"];
    for bytes in texts.into_iter().chain(others) {
        let e = unknown(bytes);
        assert_eq!(e.remedies(), [Remedy::BuildDataset], "{e}");
        assert_eq!(e.hint(), None);
    }
}

#[test]
fn an_index_of_several_files_is_opened_by_its_name() {
    let e = unknown(b"{\"metadata\": {}, \"weight_map\": {}}");
    assert_eq!(e.remedies(), [Remedy::OpenIndex], "{e}");
    assert!(e.message().contains("this is JSON"), "{e}");
}

#[test]
fn unknown_files_are_shown_by_their_first_bytes() {
    let e = unknown(b"\xc3\x28\x01\x02\x03\x04\x05\x06\x07\x08");
    assert!(e.message().contains("no format starts with `\\xc3("), "{e}");
    assert_eq!(e.remedies(), [Remedy::ListFormats]);
}

#[test]
fn zips_of_other_kinds_are_named() {
    let cases: [(&[&str], &str, &str); 5] = [
        (&["a.txt", "b.csv"], "a zip of 2 entries, the first of which is `a.txt`", "carton.toml"),
        (&["a.txt"], "a zip with only `a.txt`", "carton.toml"),
        (&["[Content_Types].xml", "xl/workbook.xml"], "an Office document", "other programs"),
        (&["m/__init__.py", "m-1.dist-info/METADATA"], "a Python wheel", "other programs"),
        (&["META-INF/MANIFEST.MF", "a.class"], "a Java archive", "other programs"),
    ];
    for (names, name, way) in cases {
        let e = unknown(&zip(names));
        assert_eq!(e.code(), "format/unknown", "{e}");
        assert!(e.message().contains(name), "{e}");
        assert!(e.hint().unwrap().contains(way), "{name}: {:?}", e.hint());
    }
}

#[test]
fn files_of_tensors_in_zips_of_any_kind_are_named() {
    let cases: [(&[&str], &str); 2] = [
        (&["config.json", "model.safetensors"], "a zip that contains `model.safetensors`"),
        (
            &["m/model.safetensors", "m-1.dist-info/METADATA"],
            "a Python wheel that contains `m/model.safetensors`",
        ),
    ];
    for (names, name) in cases {
        let e = unknown(&zip(names));
        assert_eq!((e.code(), e.remedies()), ("format/unknown", &[Remedy::OpenInside][..]), "{e}");
        assert!(e.message().contains(name), "{e}");
    }
}

/// However little or much there is, and whatever it is.
#[test]
fn pieces_of_files_are_no_harm() {
    let zipped = zip(&["a.txt"]);
    for bytes in [
        &b"<html><title>\xe2\x80"[..],
        &zipped,
        b"{\"error",
        b"version https://git-lfs.github.com/spec/v1\nsize -1",
    ] {
        for len in 1..=bytes.len() {
            unknown(&bytes[..len]);
        }
    }
}
