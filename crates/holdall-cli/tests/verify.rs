//! `verify`: sound files, bad files, and files that could not be verified fully.

use crate::command::{self, accept, files, holdall, holdall_with};
use serde_json::json;

#[test]
fn every_accepted_file_is_sound() {
    for path in files("accept") {
        let path = path.to_str().unwrap();
        let ran = holdall(["verify", "--json", path]);
        let report = ran.json();
        // A package that only links to some of its files cannot be verified by itself.
        let linked = report["linked"].as_u64().unwrap_or(0) > 0;
        assert_eq!(ran.status, if linked { 4 } else { 0 }, "{path}");
        assert_eq!(
            (&report["sound"], &report["findings"]),
            (&json!(!linked), &json!([])),
            "{path}"
        );
        assert_eq!(report["source"], path);
    }
}

/// Checks the verdict, findings, JSON, text and exit status for every accepted file.
#[test]
fn strict_findings_are_explained() {
    let mut refused = 0;
    for path in files("accept") {
        let path = path.to_str().unwrap();
        let ran = holdall(["verify", "--strict", "--json", path]);
        let report = ran.json();
        let found = report["findings"].as_array().unwrap().len();
        // Fields that the packages' specification does not define are not findings.
        let is_extension = |w: &&serde_json::Value| w["code"] == "carton/extension";
        let warnings = report["warnings"].as_array().unwrap();
        let extensions = warnings.iter().filter(is_extension).count();
        let warned = warnings.len() - extensions;
        assert_eq!((found, &report["finding_count"]), (warned, &json!(warned)), "{path}");
        let verdict = match ran.status {
            0 => "sound",
            1 => "bad",
            _ => "incomplete",
        };
        assert_eq!(
            (&report["verdict"], &report["sound"]),
            (&json!(verdict), &json!(ran.status == 0))
        );
        assert_eq!(found > 0, ran.status == 1, "{path}");
        let text = holdall(["verify", "--strict", path]).ends_with(ran.status).out;
        let bad = |line: &&str| line.starts_with("bad: ") && line.ends_with(']');
        assert_eq!(text.lines().filter(bad).count(), found, "{text}");
        assert_eq!(text.contains("\nbad: ") || text.starts_with("bad: "), found > 0, "{text}");
        assert_eq!(text.contains("\nsound: ") || text.starts_with("sound: "), ran.status == 0);
        assert!(!text.contains("warning:"), "{text}");
        let quiet = holdall(["verify", "--strict", "--quiet", path]).ends_with(ran.status).out;
        assert_eq!(quiet.lines().filter(bad).count(), found, "{quiet}");
        refused += usize::from(found > 0);
    }
    assert!(refused > 5, "{refused}");
}

#[test]
fn changed_bytes_are_found_and_the_status_says_so() {
    let path = accept("ztensor/v1.2-sparse.zt");
    let all = holdall(["inspect", "--json", &path]).json();
    let tensors = all["tensors"].as_array().unwrap();
    let tensor = tensors.iter().find(|t| t["name"] == "csr_i8_crc").unwrap();
    let offset = tensor["components"]["values"]["offset"].as_u64().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[offset as usize] ^= 1;

    let report = holdall_with(["verify", "--json", "-"], &bytes).ends_with(1).json();
    assert_eq!((&report["sound"], &report["finding_count"]), (&json!(false), &json!(1)));
    let finding = &report["findings"][0];
    assert_eq!((&finding["code"], &finding["kind"]), (&json!("file/digest"), &json!("integrity")));
    assert_eq!(
        (&finding["tensor"], &finding["component"]),
        (&json!("csr_i8_crc"), &json!("values"))
    );
    assert_eq!(report["digests"], json!({"crc32c": 4, "sha256": 5}));

    let text = holdall_with(["verify", "-"], &bytes).ends_with(1);
    assert!(text.out.contains("bad: <stdin>, 1 finding\n"), "{}", text.out);
    // With `-q`, only problems are printed.
    let quiet = holdall_with(["verify", "-", "-q"], &bytes).ends_with(1);
    assert!(quiet.out.lines().count() == 1 && quiet.out.contains("[file/digest]"), "{quiet:?}");
    // The other tensors have no findings.
    holdall_with(["verify", "-", "-x", "csr_i8_crc"], &bytes).ends_with(0);
}

/// Every command that reads all of a tensor with a SHA-256 digest compares the digest.
#[test]
fn sha256_is_compared_by_whatever_reads_all_of_a_tensor() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (good, bad, out) = (at("good.zt"), at("bad.zt"), at("out.npy"));
    let source = accept("ztensor/v1.0-dense_all.zt");
    holdall(["convert", &source, &good, "--digest", "sha256", "-s", "*f32*"]).ends_with(0);
    let all = holdall(["inspect", "--json", &good]).json();
    let tensor = &all["tensors"][0];
    let name = tensor["name"].as_str().unwrap();
    let mut bytes = std::fs::read(&good).unwrap();
    bytes[tensor["components"]["data"]["offset"].as_u64().unwrap() as usize] ^= 1;
    std::fs::write(&bad, bytes).unwrap();
    for args in [
        vec!["extract", &bad, name, "-o", &out],
        vec!["diff", &good, &bad],
        vec!["diff", &bad, &good],
    ] {
        let error = holdall([&args[..], &["--json"]].concat()).error();
        assert_eq!(error["code"], "file/digest", "{args:?}: {error}");
        assert!(!std::path::Path::new(&out).exists());
    }
    let shown = holdall(["inspect", &bad, "-t", name]);
    assert!(shown.status != 0 && shown.err.contains("file/digest"), "{shown:?}");
    // Reading only a part of it does not read all of it.
    holdall(["extract", &bad, name, "--rows", "1..2", "-o", &out]).ends_with(0);
}

#[test]
fn padding_that_is_not_zero_is_bad_where_asked_strictly() {
    let mut bytes = std::fs::read(accept("ztensor/v1.0-dense_all.zt")).unwrap();
    holdall_with(["verify", "--strict", "-"], &bytes).ends_with(0);
    bytes[20] = 7;
    let report = holdall_with(["verify", "--json", "-"], &bytes).ends_with(0).json();
    assert_eq!(report["warnings"][0]["code"], "ztensor/padding");
    let text = holdall_with(["verify", "--strict", "-"], &bytes).ends_with(1);
    assert!(text.out.contains("ztensor/padding"), "{}", text.out);
}

#[test]
fn unverified_tensors_are_reported() {
    let path = accept("ztensor/v1.2-dense_all.zt");
    let report = holdall(["verify", "--json", &path]).ends_with(0).json();
    let unverified = &report["unverified"][0];
    assert_eq!((&unverified["reason"], &unverified["count"]), (&json!("no_digest"), &json!(13)));
    let text = holdall(["verify", &path]).ends_with(0).out;
    assert!(text.contains("13 components without a digest"), "{text}");
    let quiet = holdall(["verify", "-q", &path]).ends_with(0);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
}

#[test]
fn one_bad_file_of_several_ends_with_1() {
    let (good, bad) = (
        accept("ztensor/v1.0-empty.zt"),
        command::corpus().join("reject/ztensor/cbor.trailing.1.2.zt"),
    );
    let found = holdall(["verify", bad.to_str().unwrap(), &good]).ends_with(1);
    assert!(found.out.starts_with("sound: ") && found.err.contains("[cbor/trailing]"), "{found:?}");
}

/// 32 × 16 elements of 4 bits in groups of 16, with an attribute that does not fit them.
#[test]
fn attributes_that_cannot_be_are_findings() {
    let dir = tempfile::tempdir().unwrap();
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tiny.zt");
    let path = dir.path().join("changed.zt").to_str().unwrap().to_owned();
    let verify = |key: &str, value: &str, kind: &str| {
        std::fs::copy(tiny, &path).unwrap();
        let pair = format!("{key}={value}");
        let name = "experts.gate.weight";
        holdall(["edit", &path, "set", "--tensor", name, "--type", kind, &pair]).ends_with(0);
        (holdall(["verify", "--json", &path]), holdall(["verify", &path]))
    };
    for (key, value, kind, code) in [
        ("bits", "0", "int", "quantized/attribute"),
        ("bits", "-4", "int", "quantized/attribute"),
        ("bits", "8", "int", "quantized/fit"),
        ("bits", "16", "int", "quantized/counts"),
        ("group_size", "0", "int", "quantized/attribute"),
        ("group_size", "7", "int", "quantized/counts"),
        ("packing", "9_per_i32", "text", "quantized/fit"),
        ("packing", "4_per_i16", "text", "quantized/fit"),
        ("axis", "7", "int", "quantized/attribute"),
    ] {
        let (report, text) = verify(key, value, kind);
        let report = report.ends_with(1).json();
        assert_eq!(report["findings"][0]["code"], code, "{key}={value}");
        assert_eq!((&report["sound"], &report["unverified"]), (&json!(false), &json!([])));
        let line = text.ends_with(1).out.lines().next().unwrap().to_owned();
        assert!(line.contains("`experts.gate.weight`") && line.contains(code), "{line}");
    }
    // A value that may be valid but is unknown to this version is reported, but it is not a finding; the file is not
    // sound either.
    let (report, text) = verify("packing", "marlin", "text");
    let report = report.ends_with(4).json();
    assert_eq!(report["unverified"][0]["reason"], "unsupported");
    assert_eq!((&report["sound"], &report["verdict"]), (&json!(false), &json!("incomplete")));
    assert_eq!(report["finding_count"], 0);
    let expected = "  not verified  unknown packing `marlin` [quantized/packing] \
        (`experts.gate.weight`)\n";
    let text = text.ends_with(4).out;
    assert!(text.starts_with("not fully verified: ") && text.contains(expected), "{text}");
    let quiet = holdall(["verify", "-q", &path]).ends_with(4).out;
    assert!(quiet.lines().count() == 1 && quiet.contains("[quantized/packing]"), "{quiet}");
    // A bad file given with it takes precedence; a sound one does not change the status.
    holdall(["verify", &path, tiny]).ends_with(4);
    holdall(["verify", tiny, &path]).ends_with(4);
}

/// Only the selected tensors are verified, and findings of other tensors are omitted.
#[test]
fn chosen_tensors_alone_are_verified() {
    // Two tensors of an old file have offsets that current writers do not produce.
    let odd = accept("ztensor/made-0.1-unaligned.zt");
    let json = holdall(["verify", &odd, "--json"]).ends_with(0).json();
    let warned = json["warnings"][0]["tensor"].as_str().unwrap().to_owned();
    holdall(["verify", &odd, "--strict"]).ends_with(1);
    holdall(["verify", &odd, "--strict", "-s", &warned]).ends_with(1);
    let listed = holdall(["inspect", &odd, "--plain"]).ends_with(0);
    let names: Vec<&str> = listed.out.lines().map(|l| l.split('\t').next().unwrap()).collect();
    let verdict = |name: &str| holdall(["verify", &odd, "--strict", "-s", name, "--json"]).json();
    let sound = names.iter().filter(|name| verdict(name)["verdict"] == "sound").count();
    assert!(sound < names.len(), "{names:?}");
    // All findings of the file belong to its tensors.
    let all: u64 = names
        .iter()
        .map(|name| {
            verdict(name)["warnings"]
                .as_array()
                .unwrap()
                .iter()
                .map(|w| w["count"].as_u64().unwrap())
                .sum::<u64>()
        })
        .sum();
    let whole: u64 =
        json["warnings"].as_array().unwrap().iter().map(|w| w["count"].as_u64().unwrap()).sum();
    assert_eq!(all, whole);
}

#[cfg(feature = "carton")]
#[test]
fn a_selection_of_a_package_is_of_its_tensors() {
    let package = accept("carton/made-full.carton");
    let whole = holdall(["verify", &package, "--json"]).ends_with(0).json();
    assert!(whole["hash"].is_string());
    let names = holdall(["inspect", &package, "--plain"]).ends_with(0);
    let first = names.out.split('\t').next().unwrap();
    let one = holdall(["verify", &package, "-s", first, "--json"]).ends_with(0).json();
    assert_eq!((&one["tensors"], &one["hash"]), (&1.into(), &serde_json::Value::Null));
    let none = holdall(["verify", &package, "-s", "no such tensor", "--json"]).ends_with(2);
    assert_eq!(none.error()["code"], "select/nothing");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xor");
    let folder = holdall(["verify", folder.to_str().unwrap(), "-s", "x", "--json"]).ends_with(2);
    assert_eq!(folder.error()["code"], "usage/arguments");
}
