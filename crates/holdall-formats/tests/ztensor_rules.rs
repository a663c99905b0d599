//! Every rule of zTensor has bytes that break it, which stand in `corpus/reject/ztensor` too.
//!
//! A file of the corpus is named after the code it breaks: `ztensor.digest.crc32c.zt` breaks
//! `ztensor/digest`. `cargo xtask corpus --make` writes the corpus anew from the same table.

use crate::ztensor_files::rejects::rejects;
use crate::ztensor_files::*;
use holdall_core::{ErrorKind, Limits};
use std::collections::BTreeSet;

/// The code that a file of the corpus is named after.
fn code_of(name: &str) -> String {
    let mut parts = name.split('.');
    format!("{}/{}", parts.next().unwrap(), parts.next().unwrap())
}

#[test]
fn broken_files_fail_with_their_code() {
    for (name, bytes) in rejects() {
        let e = decode(&bytes).map(|_| ()).expect_err(name);
        assert_eq!(e.code(), code_of(name), "{name}: {e}");
        if let Some(range) = e.range() {
            let is_far = e.code() == "index/bounds";
            assert!(is_far || range.end <= bytes.len() as u64, "{name}: {e}");
        }
    }
}

/// Errors of a tensor or component say which.
#[test]
fn errors_say_where() {
    for (name, bytes) in rejects() {
        let e = decode(&bytes).map(|_| ()).unwrap_err();
        let Some((_, case)) = name.split_once(".missing-field.") else { continue };
        let (tensor, component) = match case {
            "version" | "objects" | "tensors-1.0" | "name-0.1" => (None, None),
            "dtype" | "offset" | "length" => (Some("w"), Some("data")),
            _ => (Some("w"), None),
        };
        assert_eq!((e.tensor(), e.component()), (tensor, component), "{name}");
        let field = case.split('-').next().unwrap();
        assert!(e.message().contains(&format!("`{field}`")), "{name}: {e}");
    }
    let bytes = of_component(&with(component(), "digest", text("sha256:0")));
    let e = decode(&bytes).unwrap_err();
    let field = "digest".len() as u64;
    assert_eq!((e.tensor(), e.component()), (Some("w"), Some("data")));
    assert!(e.range().is_some_and(|r| r.start >= 128 && r.end - r.start > field));
}

#[test]
fn every_rule_is_broken_somewhere() {
    let broken: BTreeSet<String> = rejects().iter().map(|(name, _)| code_of(name)).collect();
    // Broken below, under limits that a small file passes.
    let limits = ["ztensor/manifest-len", "cbor/too-many-values"];
    // Of encoding: `ztensor_encode.rs` has them.
    let encode = [
        "ztensor/layout",
        "ztensor/logical-type",
        "ztensor/file-attributes",
        "ztensor/tensor-attributes",
        "ztensor/reserved-field",
        "ztensor/one-dtype",
        "ztensor/wide-indices",
        "ztensor/components",
        "ztensor/align",
        "ztensor/declared",
        "cbor/not-cbor",
    ];
    for rule in holdall_formats::ztensor::FORMAT.rules.iter().chain(holdall_core::wire::cbor::RULES)
    {
        let code = rule.code;
        let has = broken.contains(code) || limits.contains(&code) || encode.contains(&code);
        assert!(has, "nothing breaks {code}");
    }
    let rules: BTreeSet<&str> = holdall_formats::rules().map(|r| r.code).collect();
    for code in &broken {
        assert!(rules.contains(code.as_str()), "{code} is in no table");
    }
}

#[test]
fn limits_are_kept() {
    let bytes = of_object(&object());
    let broken = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        decode_with(&bytes, &limits).unwrap_err().code()
    };
    assert_eq!(broken(|l| l.manifest_len = 20), "ztensor/manifest-len");
    assert_eq!(broken(|l| l.rank = 1), "index/rank");
    assert_eq!(broken(|l| l.tensors = 0), "index/too-many-tensors");
    assert_eq!(broken(|l| l.depth = 4), "cbor/depth");
    let mut limits = Limits::default();
    limits.attribute_values = 1;
    let noted = of_object(&with(object(), "attributes", map(&[("a", uint(1))])));
    assert_eq!(decode_with(&noted, &limits).unwrap_err().code(), "cbor/too-many-values");
    limits.attribute_values = 2;
    limits.depth = 5;
    limits.rank = 2;
    limits.tensors = 1;
    assert!(decode_with(&noted, &limits).is_ok());
}

#[test]
fn a_container_of_no_known_version_is_named() {
    let name = "ztensor.unsupported-container.unknown";
    let (_, bytes) = rejects().into_iter().find(|(n, _)| *n == name).unwrap();
    let e = decode(&bytes).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.message().contains("ZTEN2000"), "{e}");
    assert!(e.hint().is_some());
}
