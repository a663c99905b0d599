//! Demands of the specification without which packages still open and run: a warning of `verify`, and a
//! finding with a rule of its own under strict verification.
#![cfg(feature = "carton")]

use holdall::carton::{Package, PackageReport, PackageVerifyOptions, Strictness};
use holdall::verify::Verdict;
use holdall::{OpenOptions, VerifyOptions};
use std::path::Path;

const SOUND: &str = r#"
spec_version = 1
model_description = """
See [the paper](https://example.com/a_(b)) and ![a picture](@misc/a%20picture.png), [below](#usage).

[more]: <@misc/notes.md#start> "notes"

    <b>[code](http://example.com)</b>

and `<b>` [more][] for `x` < 3 > y.
"""
required_platforms = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin", "wasm32-wasip1"]
[[input]]
name = "x"
dtype = "uint8"
shape = [2]
[[output]]
name = "y"
dtype = "uint8"
shape = [2]
[[self_test]]
inputs = { x = "@tensor_data/t" }
expected_out = { y = "@tensor_data/t" }
[[example]]
name = "seen"
inputs = { x = "@misc/a picture.png" }
[[example]]
sample_out = { y = "@tensor_data/t" }
[runner]
runner_name = "noop"
required_framework_version = "=1.0.0"
runner_compat_version = 1
"#;

const INPUT: &str = "[[input]]\nname = \"x\"\ndtype = \"uint8\"\nshape = [2]\n";
const OUTPUT: &str = "[[output]]\nname = \"y\"\ndtype = \"uint8\"\nshape = [2]\n";
const SELF_TEST: &str = "[[self_test]]\ninputs = { x = \"@tensor_data/t\" }\nexpected_out = { y = \"@tensor_data/t\" }\n";

fn write(folder: &Path, path: &str, content: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Returns a folder with this description, and all files that it needs.
fn folder(description: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "carton.toml", description);
    write(dir.path(), "model/w.bin", "w");
    write(dir.path(), "misc/a picture.png", "not really");
    write(dir.path(), "misc/notes.md", "notes");
    let row = "[[tensor]]\nname = \"t\"\ndtype = \"uint8\"\nshape = [2]\nfile = \"t.bin\"\n";
    write(dir.path(), "tensor_data/index.toml", row);
    write(dir.path(), "tensor_data/t.bin", "ab");
    dir
}

fn verified(folder: &Path, strictness: Strictness) -> PackageReport {
    let options = PackageVerifyOptions::new().with_strictness(strictness);
    Package::open(folder).unwrap().verify(&options).unwrap()
}

/// Checks that the package is sound with these warnings, and under strict verification bad for the rules of
/// their codes.
fn check(folder: &Path, wanted: &[(&str, &str)]) {
    let usual = verified(folder, Strictness::Usual);
    assert_eq!(
        (usual.verdict(), usual.finding_count),
        (Verdict::Sound, 0),
        "{wanted:?}: {usual:?}"
    );
    let warned: Vec<&str> = usual.warnings.iter().map(|w| w.code).collect();
    let codes: Vec<&str> = wanted.iter().map(|(code, _)| *code).collect();
    assert_eq!(warned, codes, "{usual:?}");
    let strict = verified(folder, Strictness::Strict);
    let found: Vec<&str> = strict.findings.iter().map(|e| e.code()).collect();
    assert_eq!(found, codes, "{strict:?}");
    for (e, (_, words)) in strict.findings.iter().zip(wanted) {
        assert!(e.to_string().contains(words), "{e}");
        assert!(
            e.source_name()
                .is_some_and(|name| folder.ends_with(name) || folder.to_str() == Some(name))
        );
    }
    let verdict = if wanted.is_empty() { Verdict::Sound } else { Verdict::Bad };
    assert_eq!((strict.verdict(), strict.finding_count), (verdict, codes.len() as u64));
}

/// The same for the sound description with `from` replaced by `to`.
fn changed(from: &str, to: &str, wanted: &[(&str, &str)]) {
    assert!(SOUND.contains(from), "{from}");
    check(folder(&SOUND.replacen(from, to, 1)).path(), wanted);
}

#[test]
fn a_complete_package_has_no_findings() {
    check(folder(SOUND).path(), &[]);
    // A complete description of a model without inputs.
    let given = SOUND.replacen(INPUT, "", 1).replacen(SELF_TEST, "", 1);
    let given = given.replacen(
        "inputs = { x = \"@misc/a picture.png\" }",
        "sample_out = { y = \"@misc/notes.md\" }",
        1,
    );
    check(folder(&given).path(), &[]);
    // Nothing is declared, and there are no examples.
    let runner = &SOUND[SOUND.find("[runner]").unwrap()..];
    check(folder(&format!("spec_version = 1\n{runner}")).path(), &[]);
}

#[test]
fn a_package_without_a_model_is_found_out() {
    let dir = folder(SOUND);
    std::fs::remove_file(dir.path().join("model/w.bin")).unwrap();
    // The contents of the folder are not specified: it may be empty.
    check(dir.path(), &[]);
    std::fs::remove_dir(dir.path().join("model")).unwrap();
    check(dir.path(), &[("carton/no-model", "there is no folder `model`")]);
}

#[test]
fn inputs_without_outputs_are_found_out() {
    let wanted = [
        ("carton/self-test", "output `y` is not declared"),
        ("carton/no-outputs", "`x` is declared"),
    ];
    changed(OUTPUT, "", &wanted);
}

#[test]
fn tests_and_examples_with_undeclared_names_are_findings() {
    let undeclared = SOUND.replacen(INPUT, "", 1).replacen(OUTPUT, "", 1);
    let wanted = [
        ("carton/self-test", "input `x` is not declared, and 1 more"),
        (
            "carton/nothing-declared",
            "there is a self-test, and neither an input nor an output is declared, and 2 more",
        ),
    ];
    check(folder(&undeclared).path(), &wanted);
    // A self-test without inputs fits; but missing declarations are reported.
    let empty = undeclared.replacen(SELF_TEST, "[[self_test]]\ninputs = {}\n", 1);
    check(folder(&empty).path(), &wanted[1..]);
    let examples = undeclared.replacen(SELF_TEST, "", 1);
    check(
        folder(&examples).path(),
        &[("carton/nothing-declared", "there is an example, and neither")],
    );
}

#[test]
fn self_tests_that_do_not_fit_are_found_under_their_rule() {
    let wanted = [("carton/self-test", "self-test 1: input `z` is not declared, and 1 more")];
    changed("[[self_test]]\ninputs = { x =", "[[self_test]]\ninputs = { z =", &wanted);
    let wanted = [("carton/self-test", "self-test 1: input `x` is missing")];
    changed(SELF_TEST, "[[self_test]]\ninputs = {}\n", &wanted);
}

#[test]
fn examples_use_declared_names() {
    let wanted = [("carton/example", "example `seen`: input `z` is not declared")];
    changed("inputs = { x = \"@misc", "inputs = { z = \"@misc", &wanted);
    let wanted = [("carton/example", "example 2: output `z` is not declared")];
    changed("sample_out = { y", "sample_out = { z", &wanted);
    let wanted = [("carton/example", "example 2: it has neither `inputs` nor `sample_out`")];
    changed("sample_out = { y = \"@tensor_data/t\" }\n", "", &wanted);
}

#[test]
fn platforms_are_target_triples() {
    let wanted = [("carton/platform", "`linux` of `required_platforms` is not a target triple")];
    changed("\"wasm32-wasip1\"", "\"linux\"", &wanted);
    let wanted =
        [("carton/platform", "`macos-arm64` of `required_platforms` is not a target triple")];
    changed("\"wasm32-wasip1\"", "\"macos-arm64\"", &wanted);
}

#[test]
fn links_and_pictures_of_the_description_lead_somewhere() {
    let code = "carton/description-link";
    changed(
        "@misc/a%20picture.png",
        "@misc/b.png",
        &[(code, "leads to `@misc/b.png`, which is not in the package")],
    );
    changed("@misc/notes.md#start", "@misc/none.md", &[(code, "`@misc/none.md`, which is not")]);
    changed(
        "(https://example.com",
        "(http://example.com",
        &[(code, "`http://example.com/a_(b)`, which is neither")],
    );
    changed(
        "@misc/a%20picture.png",
        "picture.png",
        &[(code, "`picture.png`, which is neither a whole `https`")],
    );
}

#[test]
fn html_in_the_description_is_found_out() {
    let wanted = [("carton/description-html", "`model_description` has HTML, `<b>`")];
    changed("and `<b>`", "and <b>", &wanted);
}

/// A package that is opened as a file of tensors gets the same verdict, also in a zip, and opening one warns
/// as before.
#[test]
fn files_of_tensors_are_verified_the_same_way() {
    let dir = folder(&SOUND.replacen("\"wasm32-wasip1\"", "\"linux\"", 1));
    std::fs::remove_file(dir.path().join("model/w.bin")).unwrap();
    let package = Package::open(dir.path()).unwrap();
    assert!(package.warnings().is_empty(), "{:?}", package.warnings());
    let zip = dir.path().with_extension("carton");
    holdall::carton::Packer::from_package(&package).write(&zip, false).unwrap();
    let file = OpenOptions::new().open(&zip).unwrap();
    assert!(file.warnings().is_empty(), "{:?}", file.warnings());
    let strict = VerifyOptions::new().with_strictness(Strictness::Strict);
    for (options, findings) in [(VerifyOptions::new(), 0), (strict, 2)] {
        let report = holdall::verify(&file, &options).unwrap();
        let warned: Vec<&str> = report.warnings.iter().map(|w| w.code).collect();
        assert_eq!(warned, ["carton/no-model", "carton/platform"]);
        let found: Vec<&str> = report.findings.iter().map(|e| e.code()).collect();
        assert_eq!(found, warned[..findings]);
    }
    std::fs::remove_file(zip).unwrap();
}
