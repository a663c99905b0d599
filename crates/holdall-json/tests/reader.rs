//! The reader against serde_json; what it says where, and what is written.

use holdall_error::ErrorKind;
use holdall_json::{Reader, duplicate, parse, write_string};
use proptest::prelude::*;
use serde_json::Value;

const DEPTH: usize = 64;

/// Texts that catch readers out, right and wrong, one a line.
const NASTY: &str = include_str!("nasty.txt");

/// How a text ends that is only looked at.
fn skip(text: &[u8]) -> holdall_error::Result<()> {
    let mut reader = Reader::new(text, 0, DEPTH)?;
    reader.skip()?;
    reader.end()
}

#[test]
fn values_are_those_of_serde_json() {
    let mut compared = 0;
    for text in NASTY.lines() {
        for text in [text.to_owned(), format!("[{text}]"), format!("{{\"k\":{text},\"l\":0}}")] {
            let theirs = serde_json::from_str::<Value>(&text);
            let is_range = theirs.as_ref().is_err_and(|e| e.to_string().contains("out of range"));
            match parse(text.as_bytes(), DEPTH) {
                Ok(ours) => {
                    assert_eq!(Some(&ours), theirs.as_ref().ok(), "{text}");
                    compared += 1;
                }
                // They take the last of a key that is there twice.
                Err(e) => {
                    assert!(theirs.is_err() || e.code() == "json/duplicate-key", "{text}: {e}")
                }
            }
            // A number beyond a double has sound grammar; only those who want its value refuse it.
            let is_sound = theirs.is_ok() || is_range;
            assert_eq!(skip(text.as_bytes()).is_ok(), is_sound, "{text}");
        }
    }
    assert!(compared > 90, "{compared}");
}

#[test]
fn depth_is_bounded_without_recursion() {
    let deep = "[".repeat(1_000_000);
    let mut reader = Reader::new(deep.as_bytes(), 0, usize::MAX).unwrap();
    let e = reader.skip().unwrap_err();
    assert_eq!((e.code(), e.kind()), ("json/depth", ErrorKind::Limit));
    let just = format!("{}1{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    assert!(parse(just.as_bytes(), DEPTH).is_ok());
    assert_eq!(parse(just.as_bytes(), DEPTH - 1).unwrap_err().code(), "json/depth");
}

#[test]
fn errors_say_where() {
    let cases: &[(&str, &str, u64)] = &[
        (r#"{"a": 1, "b" 2}"#, "json/syntax", 13),
        (r#"{"a": 01}"#, "json/number", 6),
        (r#"["a", "\x"]"#, "json/string", 8),
        (r#"["\ud800"]"#, "json/surrogate", 2),
        (r#"[1] x"#, "json/trailing", 4),
        (r#"[1"#, "json/truncated", 2),
    ];
    for (text, code, at) in cases {
        let e = Reader::new(text.as_bytes(), 100, DEPTH)
            .and_then(|mut r| {
                r.skip()?;
                r.end()
            })
            .unwrap_err();
        assert_eq!(e.code(), *code, "{text}: {e}");
        assert_eq!(e.range().unwrap().start, 100 + at, "{text}: {e}");
    }
    let e = Reader::new(b"ab\xff", 100, DEPTH).unwrap_err();
    assert_eq!((e.code(), e.range()), ("json/utf8", Some(102..103)));
}

#[test]
fn counts_are_whole_and_fit() {
    let read = |text: &str| Reader::new(text.as_bytes(), 0, 1).unwrap().u64();
    assert_eq!(read("0").unwrap(), 0);
    assert_eq!(read(" 18446744073709551615 ").unwrap(), u64::MAX);
    for bad in ["18446744073709551616", "-1", "-0", "1.0", "1e3", "0.5"] {
        assert_eq!(read(bad).unwrap_err().code(), "json/integer", "{bad}");
    }
    assert_eq!(read("007").unwrap_err().code(), "json/number");
    assert_eq!(read("\"1\"").unwrap_err().code(), "json/type");
}

#[test]
fn strings_without_escapes_are_borrowed() {
    let text = r#"["plain é", "esc\u0061ped\n"]"#;
    let mut reader = Reader::new(text.as_bytes(), 0, 1).unwrap();
    let mut scratch = String::new();
    reader.begin_array().unwrap();
    assert!(reader.next_item().unwrap());
    let plain = reader.string(&mut scratch).unwrap();
    assert_eq!(plain, "plain é");
    assert!(text.as_bytes().as_ptr_range().contains(&plain.as_ptr()));
    assert!(reader.next_item().unwrap());
    assert_eq!(reader.string(&mut scratch).unwrap(), "escaped\n");
    assert!(!reader.next_item().unwrap());
    reader.end().unwrap();
}

/// Strings are scanned eight bytes at a time: each byte that ends a run, in every place of one.
#[test]
fn strings_end_anywhere() {
    for len in 0..20 {
        for at in 0..=len {
            for middle in
                ["\"", "\\", "\n", "\u{1f}", "\u{7f}", "é", " ", "!", "\u{80}", "\u{10ffff}"]
            {
                let text = format!("{}{middle}{}", "x".repeat(at), "~\"".repeat(len - at));
                let json = serde_json::to_string(&text).unwrap();
                assert_eq!(parse(json.as_bytes(), 1).unwrap(), Value::String(text.clone()));
                let bare = format!("\"{text}\"");
                let theirs = serde_json::from_str::<serde_json::Value>(&bare).is_ok();
                assert_eq!(parse(bare.as_bytes(), 1).is_ok(), theirs, "{bare:?}");
            }
        }
    }
}

#[test]
fn repeated_keys_are_found() {
    assert_eq!(duplicate(["a", "b", "a"]), Some("a"));
    assert_eq!(duplicate(["a", "b"]), None);
    for text in [r#"{"a":1,"a":2}"#, r#"[{"x":{"a":1,"\u0061":2}}]"#] {
        let e = parse(text.as_bytes(), DEPTH).unwrap_err();
        assert_eq!((e.code(), e.message()), ("json/duplicate-key", "the key `a` appears twice"));
    }
}

proptest! {
    #[test]
    fn strings_are_written_as_serde_json_does(text in any::<String>()) {
        let mut out = String::new();
        write_string(&text, &mut out);
        prop_assert_eq!(&out, &serde_json::to_string(&text).unwrap());
    }
}

/// Integers in every spelling of at most 20 digits, with their exact values.
#[test]
fn integers_are_exact_in_every_spelling() {
    let integer = |text: &str| {
        let mut reader = Reader::new(text.as_bytes(), 0, DEPTH).unwrap();
        reader.number().unwrap().integer()
    };
    let whole = [
        ("0", 0),
        ("-0", 0),
        ("0.000e99999999999999999999", 0),
        ("3", 3),
        ("-3.0", -3),
        ("30e-1", 3),
        ("0.03e2", 3),
        ("1203.400e2", 120_340),
        ("100e-2", 1),
        ("1e19", 10_000_000_000_000_000_000),
        ("-99999999999999999999", -99_999_999_999_999_999_999),
        ("99999999999999999999.000", 99_999_999_999_999_999_999),
        ("18446744073709551616", 1 << 64),
    ];
    for (text, value) in whole {
        assert_eq!(integer(text), Some(value), "{text}");
    }
    for text in
        ["0.5", "3e-1", "1203.401e2", "1e20", "100000000000000000000", "1e99999999999999999999"]
    {
        assert_eq!(integer(text), None, "{text}");
    }
}

proptest! {
    /// A number with its point moved and an exponent that moves it back is the same integer.
    #[test]
    fn moved_points_change_no_integer(value in -(1i128 << 63)..1 << 64, shift in 0usize..25) {
        let size = value.unsigned_abs().to_string();
        let padded = format!("{size:0>width$}", width = shift + 1);
        let (before, after) = padded.split_at(padded.len() - shift);
        let sign = if value < 0 { "-" } else { "" };
        let before = match before.trim_start_matches('0') { "" => "0", kept => kept };
        let text = match after {
            "" => format!("{sign}{before}"),
            _ => format!("{sign}{before}.{after}E+{shift}"),
        };
        let mut reader = Reader::new(text.as_bytes(), 0, DEPTH).unwrap();
        prop_assert_eq!(reader.number().unwrap().integer(), Some(value), "{}", text);
    }
}
