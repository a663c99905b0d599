//! Every rule of safetensors has bytes that break it, which stand in `corpus/reject/safetensors` too.
//!
//! A file of the corpus is named after the code it breaks: `safetensors.hole.start.safetensors` breaks
//! `safetensors/hole`. `cargo xtask corpus --make` writes the corpus anew from the same table.

use crate::safetensors_files::{Reject, rejects};
use holdall_core::{Bytes, Error, Limits, Stop, Window};
use holdall_formats::safetensors::FORMAT;
use safetensors::SafeTensors;
use std::collections::BTreeSet;

fn decode(window: &Window) -> Result<(), Error> {
    match holdall_formats::decode(window, &Limits::default()) {
        Ok(index) => index.sound().map(drop),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole file lacks {range:?}"),
    }
}

/// The code that a file of the corpus is named after.
fn code_of(name: &str) -> String {
    let mut parts = name.split('.');
    format!("{}/{}", parts.next().unwrap(), parts.next().unwrap())
}

#[test]
fn broken_files_fail_with_their_code() {
    for Reject { name, bytes, reference } in rejects() {
        let e = decode(&Window::whole(bytes.clone().into())).expect_err(name);
        assert_eq!(e.code(), code_of(name), "{name}: {e}");
        // The rank is a limit of ours alone.
        let reference = reference || e.code() == "index/rank";
        assert_eq!(SafeTensors::deserialize(&bytes).is_ok(), reference, "{name}");
        // Fetching only the requested ranges ends the same way.
        let mut window = Window::new(bytes.len() as u64);
        let windowed = loop {
            match holdall_formats::decode(&window, &Limits::default()) {
                Err(Stop::Need(ranges)) => {
                    for range in ranges {
                        let found = &bytes[range.start as usize..range.end as usize];
                        window.add(range.start, Bytes::copy_from_slice(found));
                    }
                }
                Err(Stop::Fail(e)) => break e,
                Ok(index) => break index.sound().expect_err("it decodes piece by piece"),
            }
        };
        assert_eq!(windowed.to_string(), e.to_string(), "{name}");
    }
}

#[test]
fn errors_say_where() {
    for Reject { name, bytes, .. } in rejects() {
        let e = decode(&Window::whole(bytes.clone().into())).unwrap_err();
        let tensor = match name.split('.').nth(1).unwrap() {
            "dtype" | "offsets" | "hole" | "overlap" | "missing-field" | "size" | "rank"
            | "integer" | "shape-overflow" | "duplicate-name" => true,
            "truncated" | "trailing-data" => continue,
            _ => false,
        };
        assert!(!tensor || matches!(e.tensor(), Some("w" | "a" | "b")), "{name}: {e}");
        let has_range = !matches!(code_of(name).as_str(), "format/empty" | "format/unknown");
        let of_name = matches!(e.code(), "index/duplicate-name" | "index/shape-overflow");
        assert!(!has_range || of_name || e.range().is_some(), "{name}: {e}");
    }
}

#[test]
fn every_rule_is_broken_somewhere() {
    let broken: BTreeSet<String> = rejects().iter().map(|r| code_of(r.name)).collect();
    // Broken in `safetensors.rs`: below a limit or a length that detection asks for, and in writing.
    let elsewhere = [
        "safetensors/too-short",
        "safetensors/header-limit",
        "safetensors/layout",
        "safetensors/components",
        "safetensors/logical-type",
        "safetensors/reserved-name",
        "safetensors/alias",
        "safetensors/encoding",
        "safetensors/align",
        "safetensors/declared",
        "json/not-json",
        // Broken in `json.rs`.
        "json/duplicate-key",
        "json/lossless",
    ];
    for rule in FORMAT.rules.iter().chain(holdall_json::RULES) {
        let has = broken.contains(rule.code) || elsewhere.contains(&rule.code);
        assert!(has, "nothing breaks {}", rule.code);
    }
    let rules: BTreeSet<&str> = holdall_formats::rules().map(|r| r.code).collect();
    assert_eq!(rules.len(), holdall_formats::rules().count(), "a code stands twice in the tables");
    for code in &broken {
        assert!(rules.contains(code.as_str()), "{code} is in no table");
    }
}
