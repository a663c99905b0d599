//! Blobs: runs of bytes by index, with every kind of source.

use crate::records_files::{Made, blob, made, open, write};
use holdall::records::gather::{RunSelection, Values};
use holdall::records::{Build, RowsOptions};
use holdall::schema::{Content, Entry};
use holdall::{Blob, DType, Io, Result, TensorRecords as _, WriteOptions};
use serde_json::json;

fn everywhere(made: &Made, test: impl Fn(&Blob)) {
    for options in [WriteOptions::new(), WriteOptions::new().with_zstd(1)] {
        let file = write(made, &options);
        for io in [Io::Map, Io::Read] {
            test(&open(&file, io).tensor("set").unwrap().blob().unwrap());
        }
    }
}

fn blob_with_content(made: &Made) -> Result<Blob> {
    open(&write(made, &WriteOptions::new()), Io::Map).tensor("set")?.blob()
}

#[test]
fn runs_come_back_by_place() {
    let long = vec![b'x'; 100_000];
    everywhere(&blob("utf-8", &["ä".as_bytes(), b"", &long], 1), |blob| {
        assert_eq!((blob.len(), blob.is_empty()), (3, false));
        assert_eq!(blob.str(0).unwrap(), "ä");
        assert_eq!(blob.str(1).unwrap(), "");
        assert_eq!(*blob.get(2).unwrap(), long[..]);
        assert_eq!(blob.range(2).unwrap().count(), long.len());
        assert_eq!(blob.bytes(2).unwrap(), long);
        assert_eq!(blob.bytes(3).unwrap_err().code(), "records/index");
        assert_eq!(blob.get(3).unwrap_err().code(), "records/index");
        assert_eq!(blob.get(u64::MAX).unwrap_err().code(), "records/index");
        assert_eq!(blob.json(0).unwrap_err().code(), "records/content");
        assert_eq!(blob.elements::<f32>(0).unwrap_err().code(), "records/content");
    });
    everywhere(&blob("json", &[br#"{"a": [1]}"#, b"[", b""], 1), |blob| {
        assert_eq!(blob.json(0).unwrap(), serde_json::json!({"a": [1]}));
        assert_eq!(blob.json(1).unwrap_err().code(), "record/json");
        assert_eq!(blob.json(2).unwrap_err().code(), "record/json");
    });
    everywhere(&blob("bytes", &[&[0xff, 0]], 1), |blob| {
        assert_eq!(*blob.get(0).unwrap(), [0xff, 0]);
        assert_eq!(blob.str(0).unwrap_err().code(), "records/content");
    });
    everywhere(&blob("utf-8", &[&[0xff, 0]], 1), |blob| {
        let e = blob.str(0).unwrap_err();
        assert_eq!((e.code(), e.tensor()), ("record/utf8", Some("set")), "{e}");
    });
    let floats: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    everywhere(&blob("F32", &[&floats, b"", &floats[..4]], 4), |blob| {
        assert_eq!(blob.elements::<f32>(0).unwrap(), [1.5, -2.0]);
        assert_eq!(blob.elements::<f32>(1).unwrap(), [0f32; 0]);
        assert_eq!(blob.elements::<f32>(2).unwrap(), [1.5]);
        assert_eq!(blob.elements::<u32>(2).unwrap_err().code(), "records/content");
    });
    everywhere(&blob("utf-8", &[], 1), |blob| assert!(blob.is_empty()));
}

#[test]
fn texts_are_those_that_are_read_one_by_one() {
    let long = "x".repeat(100_000);
    let runs: [&[u8]; 4] = ["ä".as_bytes(), b"", long.as_bytes(), "–end".as_bytes()];
    for bad in [&b"fine"[..], &[0xff, 0]] {
        let all: Vec<&[u8]> = runs.into_iter().chain([bad]).collect();
        everywhere(&blob("utf-8", &all, 1), |blob| {
            let loaded = blob.loaded().unwrap();
            let texts = loaded.texts().unwrap().unwrap();
            assert_eq!((texts.len(), texts.is_empty()), (5, false));
            for i in 0..7 {
                match (texts.get(i), blob.str(i)) {
                    (Ok(a), Ok(b)) => assert_eq!(a, b),
                    (a, b) => assert_eq!(a.unwrap_err().code(), b.unwrap_err().code()),
                }
            }
        });
    }
    let mapped = blob_with_content(&blob("utf-8", &runs, 1)).unwrap();
    assert_eq!(mapped.texts().unwrap().unwrap().get(2).unwrap(), long);
    everywhere(&blob("bytes", &[b"a"], 1), |blob| {
        assert_eq!(blob.texts().unwrap_err().code(), "records/content");
    });
}

/// Returns the runs of a column.
fn column(blob: &Blob, chosen: &RunSelection<'_>) -> Result<Vec<Vec<u8>>> {
    let found = blob.gather(chosen)?;
    let Values::Binary64(ends, bytes) = found.values else { panic!("{:?}", found.values) };
    let ends: Vec<usize> =
        ends.as_chunks().0.iter().map(|end| u64::from_le_bytes(*end) as usize).collect();
    assert_eq!((ends.len(), found.absent, ends[0]), (found.len + 1, 0, 0));
    Ok(ends.windows(2).map(|ends| bytes[ends[0]..ends[1]].to_vec()).collect())
}

#[test]
fn runs_are_a_column() {
    let long = vec![b'x'; 100_000];
    let runs: [&[u8]; 4] = ["ä".as_bytes(), b"", &long, b"end"];
    everywhere(&blob("utf-8", &runs, 1), |blob| {
        assert_eq!(column(blob, &RunSelection::Range(0..4)).unwrap(), runs);
        assert_eq!(column(blob, &RunSelection::Range(1..3)).unwrap(), runs[1..3]);
        assert!(column(blob, &RunSelection::Range(2..2)).unwrap().is_empty());
        let some = column(blob, &RunSelection::At(&[3, 0, 3, 1])).unwrap();
        assert_eq!(some, [runs[3], runs[0], runs[3], runs[1]]);
        for outside in [RunSelection::Range(3..5), RunSelection::Range(0..u64::MAX)] {
            assert_eq!(column(blob, &outside).unwrap_err().code(), "records/index");
        }
        assert_eq!(column(blob, &RunSelection::At(&[4])).unwrap_err().code(), "records/index");
    });
    everywhere(&blob("bytes", &[&[0xff], &[0]], 1), |blob| {
        assert_eq!(column(blob, &RunSelection::Range(0..2)).unwrap(), [[0xff], [0]]);
    });
    // A character is cut apart, so that only the whole is text.
    for runs in [[&[0xc3][..], &[0xa4]], [b"a", &[0xff]]] {
        everywhere(&blob("utf-8", &runs, 1), |blob| {
            let e = column(blob, &RunSelection::Range(0..2)).unwrap_err();
            assert_eq!(e.code(), "record/utf8", "{e}");
        });
    }
    everywhere(&blob("F32", &[&[0; 4]], 4), |blob| {
        assert_eq!(column(blob, &RunSelection::Range(0..1)).unwrap_err().code(), "records/content");
    });
}

#[test]
fn texts_that_are_cut_apart_are_errors() {
    let text = "aäb".as_bytes();
    for (offset, len, code) in [
        (0, 2, "record/utf8"),
        (2, 2, "record/utf8"),
        (1, 4, "record/entry-bounds"),
        (u64::MAX, 2, "record/entry-bounds"),
        (3, 0, "record/entry-empty"),
    ] {
        let entries = [Entry { offset: 0, len: 4 }, Entry { offset, len }];
        let entries = entries.iter().flat_map(|e| e.to_bytes()).collect();
        let parts = vec![("entries", DType::U64, entries), ("blob_data", DType::U8, text.to_vec())];
        let made = made("blob", r#"{"TypeDef:Blob": {"content": "utf-8"}}"#, 2, parts);
        let blob = blob_with_content(&made).unwrap();
        let texts = blob.texts().unwrap().unwrap();
        assert_eq!(texts.get(0).unwrap(), "aäb");
        assert_eq!(texts.get(1).unwrap_err().code(), code, "{offset} {len}");
    }
}

#[test]
fn hostile_blobs_are_errors() {
    let entries = |all: &[(u64, u64)], dtype: &str| {
        let bytes: Vec<u8> =
            all.iter().flat_map(|&(offset, len)| Entry { offset, len }.to_bytes()).collect();
        let kind = format!(r#"{{"TypeDef:Blob": {{"content": "{dtype}"}}}}"#);
        let parts = vec![("entries", DType::U64, bytes), ("blob_data", DType::U8, vec![0; 64])];
        made("blob", &kind, all.len() as u64, parts)
    };
    let cases = [
        ("record/entry-bounds", (0, 65)),
        ("record/entry-bounds", (64, 1)),
        ("record/entry-bounds", (u64::MAX, 1)),
        ("record/entry-bounds", (1, u64::MAX)),
        ("record/entry-empty", (1, 0)),
        ("record/entry-length", (0, 3)),
        ("record/entry-align", (2, 4)),
    ];
    for (code, entry) in cases {
        everywhere(&entries(&[(0, 8), entry], "F32"), |blob| {
            assert_eq!(blob.elements::<f32>(0).unwrap(), [0.0, 0.0]);
            let e = blob.elements::<f32>(1).unwrap_err();
            assert_eq!((e.code(), e.tensor()), (code, Some("set")), "{e}");
            assert!(e.message().contains("run 1"), "{e}");
            assert_eq!(blob.get(1).unwrap_err().code(), code);
        });
    }
}

#[test]
fn tensors_that_are_no_blobs_are_refused() {
    let sound = || blob("utf-8", &[b"a", b"b"], 1);
    let with = |change: &dyn Fn(&mut Made)| {
        let mut made = sound();
        change(&mut made);
        blob_with_content(&made).map(drop).unwrap_err().code()
    };
    assert_eq!(with(&|m| m.spec.layout = holdall::Layout::from_name("other")), "file/wrong-layout");
    assert_eq!(with(&|m| m.spec.attributes = holdall::Attributes::new()), "records/kind");
    let kind = |text: &str| made("blob", text, 0, vec![]).spec.attributes;
    assert_eq!(with(&|m| m.spec.attributes = kind(r#"{"TypeDef:Tensor": {}}"#)), "records/kind");
    assert_eq!(with(&|m| m.spec.attributes = kind("nothing")), "json/syntax");
    assert_eq!(with(&|m| m.spec.components[0].dtype = DType::U8), "records/size");
}

#[test]
fn runs_are_written_from_lines_of_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.mt");
    let round = |content: Content, lines: &'static str| -> Result<Vec<Vec<u8>>> {
        let options = WriteOptions::new().with_overwrite(true);
        let mut build = Build::create(&path, &options)?;
        let mut runs = build.blob_with_content("set", content)?;
        let rows = RowsOptions::new().read(lines.as_bytes(), "lines")?;
        assert_eq!(runs.fill(rows)?, runs.len());
        build.add(runs)?;
        build.finish()?;
        let blob = holdall::open(&path)?.tensor("set")?.blob()?;
        (0..blob.len()).map(|i| blob.get(i).map(|run| run.to_vec())).collect()
    };
    let texts = round(Content::Utf8, "\"\\u00e4\"\n\n\"\"\n").unwrap();
    assert_eq!(texts, ["ä".as_bytes(), b""]);
    assert_eq!(round(Content::Bytes, "\"AP8=\"\n\"\"").unwrap(), [&[0, 255][..], b""]);
    // The text of a value is kept unchanged.
    let json = round(Content::Json, " {\"a\": 1.50} \nnull\n").unwrap();
    assert_eq!(json, [&b"{\"a\": 1.50}"[..], b"null"]);
    for (dtype, line, bytes) in [
        ("F32", "[1.5, {\"$float\": \"inf\"}]", &[0, 0, 0xc0, 0x3f, 0, 0, 0x80, 0x7f][..]),
        ("I64", "[-1]", &[255; 8]),
        ("BOOL", "[true, false]", &[1, 0]),
        ("C64", "[[1, 0]]", &[0, 0, 0x80, 0x3f, 0, 0, 0, 0]),
        ("F8_E8M0", "[1, 2]", &[127, 128]),
        ("F8_E4M3FNUZ", "[1]", &[0x40]),
        ("U16", "[]", &[]),
    ] {
        let content = Content::from_name(dtype).unwrap();
        assert_eq!(round(content, line).unwrap(), [bytes], "{dtype}");
    }
    assert_eq!(Content::from_name("F4"), None);
    let u8s = Content::from_name("U8").unwrap();
    for (content, lines, code, at) in [
        (Content::Utf8, "\"a\"\n1", "record/type", "line 2"),
        (Content::Bytes, "\"a\"", "record/base64", "line 1"),
        (Content::Json, "[1]\n[1", "json/truncated", "line 2"),
        (Content::Json, "{\"a\":1,\"a\":2}", "record/json", "line 1"),
        (u8s, "[1, 256]", "record/range", "line 1: `[1]`"),
        (u8s, "3", "record/type", "line 1"),
    ] {
        let e = round(content, lines).unwrap_err();
        assert_eq!((e.code(), e.source_name()), (code, Some("lines")), "{lines}");
        assert!(e.to_string().contains(at), "{e}");
    }
    // The schema of the file applies to a blob.
    let schema = json!({"type": "object", "required": ["t"],
        "properties": {"t": {"TypeDef:Blob": {"content": "utf-8"}}}});
    let options = WriteOptions::new().with_overwrite(true);
    let build = Build::create(&path, &options).unwrap().with_schema(&schema).unwrap();
    assert_eq!(build.blob_for("t", None).unwrap().content(), Content::Utf8);
    assert_eq!(build.blob_for("t", Some(Content::Json)).unwrap_err().code(), "records/node");
    assert_eq!(build.blob_for("u", None).unwrap_err().code(), "records/which-content");
}
