//! Every rule of Metatensor has bytes that break it, which stand in `corpus/reject/metatensor` too.
//!
//! A file of the corpus is named after the code it breaks: `metatensor.gap.start.mt` breaks
//! `metatensor/gap`. `cargo xtask corpus --make` writes the corpus anew from the same table.

use crate::metatensor_files::rejects::{Reject, rejects};
use holdall_core::{Bytes, Error, Index, Limits, Stop, Window};
use holdall_formats::metatensor::FORMAT;
use std::collections::BTreeSet;

fn decode(window: &Window) -> Result<Index, Error> {
    match holdall_formats::decode(window, &Limits::default()) {
        Ok(index) => index.sound(),
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
    let mut wrong = Vec::new();
    for Reject { name, bytes, opens } in rejects() {
        let found = decode(&Window::whole(bytes.clone().into()));
        let found = match found {
            Ok(index) if opens && index.format() == "metatensor" => continue,
            Ok(_) => {
                wrong.push(format!("{name} opens"));
                continue;
            }
            Err(e) => e,
        };
        if opens || found.code() != code_of(name) {
            wrong.push(format!("{name}: {found}"));
        }
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
        assert_eq!(windowed.to_string(), found.to_string(), "{name}");
    }
    assert!(wrong.is_empty(), "{} files:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn errors_say_where() {
    for Reject { name, bytes, opens } in rejects() {
        let Err(e) = decode(&Window::whole(bytes.clone().into())) else {
            assert!(opens, "{name}");
            continue;
        };
        let code = code_of(name);
        let of_names = matches!(code.as_str(), "index/duplicate-name");
        assert!(of_names || e.range().is_some(), "{name}: {e}");
        let of_tensor = matches!(
            code.as_str(),
            "metatensor/dtype"
                | "metatensor/shape"
                | "metatensor/symbol"
                | "metatensor/size"
                | "metatensor/align"
                | "metatensor/gap"
                | "metatensor/offsets"
                | "metatensor/bounds"
        );
        assert!(!of_tensor || e.tensor().is_some(), "{name}: {e}");
    }
}

#[test]
fn every_rule_is_broken_somewhere() {
    let broken: BTreeSet<String> = rejects().iter().map(|r| code_of(r.name)).collect();
    // Broken in `metatensor.rs`: below a limit, and in writing.
    let elsewhere = [
        "metatensor/header-limit",
        "metatensor/too-many-values",
        "metatensor/layout",
        "metatensor/components",
        "metatensor/logical-type",
        "metatensor/kind",
        "metatensor/attribute",
        "metatensor/schema-fit",
        "metatensor/encoding",
        "metatensor/write-align",
        "metatensor/declared",
    ];
    for rule in FORMAT.rules {
        let has = broken.contains(rule.code);
        let is_elsewhere = elsewhere.contains(&rule.code);
        assert!(has || is_elsewhere, "nothing breaks {}", rule.code);
        assert!(!(has && is_elsewhere), "{} is broken here", rule.code);
    }
    let rules: BTreeSet<&str> = holdall_formats::rules().map(|r| r.code).collect();
    assert_eq!(rules.len(), holdall_formats::rules().count(), "a code stands twice in the tables");
    for code in &broken {
        assert!(rules.contains(code.as_str()), "{code} is in no table");
    }
}
