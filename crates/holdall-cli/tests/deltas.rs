//! `holdall delta`: made, shown, applied, refused.

use crate::command::holdall;
use std::path::Path;

#[test]
fn deltas_are_made_shown_and_applied() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/ztensor");
    let at = |name: &str| corpus.join(name).display().to_string();
    let to = |name: &str| folder.path().join(name).display().to_string();
    let (base, golden) = (at("delta-base.zt"), at("delta-all.zt"));
    let (target, made, again) = (to("target.zt"), to("made.zt"), to("again.safetensors"));

    let shown = holdall(["delta", "show", &golden, "--json"]).ends_with(0).json();
    assert_eq!(shown["tensors"][0]["changed"], 2227);
    assert_eq!(shown["removed"][0], "gone");
    holdall(["delta", "apply", &base, &golden, "-o", &target]).ends_with(0);
    let report = holdall(["delta", "make", &base, &target, "-o", &made, "--json"]).ends_with(0);
    assert_eq!(report.json()["removed"], 1);
    holdall(["verify", &made]).ends_with(0);
    holdall(["delta", "apply", &base, &made, "-o", &again]).ends_with(0);
    assert!(holdall(["delta", "show", &made]).ends_with(0).out.contains("removed"));

    // Another base, a target that exists, a delta as a model.
    let e = holdall(["delta", "apply", &at("planes-all.zt"), &made, "-o", &to("never.zt")]);
    assert!(e.status != 0 && e.err.contains("delta/base"), "{e:?}");
    assert_ne!(holdall(["delta", "apply", &base, &made, "-o", &again]).status, 0);
    let e = holdall(["convert", &made, &to("never.safetensors")]);
    assert!(e.err.contains("delta/not-a-model"), "{e:?}");
    assert!(!folder.path().join("never.zt").exists());
}

#[test]
fn weight_updates_are_shown_applied_and_converted() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/updates");
    let at = |name: &str| corpus.join(name).display().to_string();
    let to = |name: &str| folder.path().join(name).display().to_string();
    let (base, updates) = (at("versions/base"), at("versions/updates"));

    let shown = holdall(["delta", "show", &updates, "--json"]).ends_with(0).json();
    assert_eq!(shown["updates"][2]["encoding"], "overwrite");
    assert_eq!(shown["latest"], 4);
    let shown = holdall(["delta", "show", &at("versions/updates/weight_v000001")]).ends_with(0);
    assert!(shown.out.contains("model.embed_tokens.weight"), "{shown:?}");
    let args = ["delta", "apply", &base, &updates, "--to", "3", "-o", &to("three"), "--json"];
    let report = holdall(args).ends_with(0).json();
    assert_eq!((&report["version"], &report["steps"]), (&3.into(), &3.into()));
    let args = ["delta", "apply", &to("three"), &updates, "-o", &to("four.safetensors")];
    let applied = holdall(args).ends_with(0);
    assert!(applied.out.contains("version 4, 0 updates"), "{applied:?}");
    // The same again does not replace the first result.
    assert_ne!(holdall(args).status, 0);

    // One delta of three versions, in two layouts.
    for (layout, name) in [("holdall", "all.zt"), ("slime-xor", "all")] {
        let to = to(name);
        let args = ["delta", "convert", &updates, "--base", &base, "--to", "3", "-o", &to];
        let more = ["--layout", layout, "--checksums", "blake3"];
        holdall(args.into_iter().chain(more).collect::<Vec<_>>()).ends_with(0);
    }
    let (made, all) = (to("all/weight_v000003"), to("all.zt"));
    for (delta, name) in [(&to("all.zt"), "a.safetensors"), (&made, "b.safetensors")] {
        holdall(["delta", "apply", &base, delta, "-o", &to(name)]).ends_with(0);
        holdall(["diff", &to("three"), &to(name)]).ends_with(0);
    }
    // Folded with nothing, a delta stays what it is.
    holdall(["delta", "fold", &to("all.zt"), "-o", &to("folded.zt")]).ends_with(0);
    holdall(["delta", "apply", &base, &to("folded.zt"), "-o", &to("c.zt")]).ends_with(0);
    holdall(["diff", &to("three"), &to("c.zt")]).ends_with(0);

    for (args, code) in [
        (vec!["apply", &base, &updates, "--to", "9"], "delta/version"),
        (vec!["apply", &base, &made, "--from", "2"], "delta/chain"),
        (vec!["apply", &base, &all, "--to", "3"], "--to is about weight updates"),
        (vec!["convert", &updates], "delta/needs-base"),
        (vec!["convert", &updates, "--layout", "xor"], "slime-xor"),
        (vec!["fold", &base], "delta/not-a-delta"),
    ] {
        let never = to("never.zt");
        let args = ["delta"].into_iter().chain(args).chain(["-o", &never]);
        let e = holdall(args.collect::<Vec<_>>());
        assert!(e.status != 0 && e.err.contains(code), "{code}: {e:?}");
        assert!(!folder.path().join("never.zt").exists());
    }
}

#[test]
fn rows_of_a_target_are_read_without_making_it() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/ztensor");
    let at = |name: &str| corpus.join(name).display().to_string();
    let to = |name: &str| folder.path().join(name).display().to_string();
    let (base, change, target) = (at("delta-base.zt"), at("delta-all.zt"), to("target.zt"));
    holdall(["delta", "apply", &base, &change, "-o", &target]).ends_with(0);
    for tensor in ["a", "b", "c", "new"] {
        let rows = |more: &[&str], name: &str| {
            let out = to(name);
            let args = ["extract", more[0], tensor, "--rows", "1..3", "-f", "-o", &out];
            holdall([&args[..], &more[1..]].concat()).ends_with(0);
            std::fs::read(out).unwrap()
        };
        let expected = rows(&[&target], "expected.raw");
        assert!(!expected.is_empty());
        assert_eq!(rows(&[&change, "--base", &base], "found.raw"), expected, "{tensor}");
    }
    let shown =
        |args: &[&str]| holdall([&["inspect", "--json"], args].concat()).ends_with(0).json();
    let (a, b) = (shown(&[&change, "--base", &base]), shown(&[&target]));
    let names = |json: &serde_json::Value| -> Vec<String> {
        json["tensors"].as_array().unwrap().iter().map(|t| t["name"].to_string()).collect()
    };
    assert_eq!(names(&a), names(&b));
    let e = holdall(["inspect", &change, "--base", &at("delta-small_base.zt")]);
    assert!(e.status != 0 && e.err.contains("delta/base"), "{e:?}");
}
