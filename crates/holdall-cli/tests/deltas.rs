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
