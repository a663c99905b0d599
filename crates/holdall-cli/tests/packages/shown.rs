//! The output of `inspect` for packages, and which files are packages.

use super::{CARD, npy, sound_and_altered, write};
use crate::command::{command, holdall, holdall_with};
use std::path::Path;

#[test]
fn a_package_is_unpacked_and_packed_without_changes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(dir.path(), "w.bin", [7; 1000]);
    let card = write(dir.path(), "card.toml", CARD);
    let x = format!("x={}", write(dir.path(), "x.npy", npy("(3, 2)", 6)));
    let words = format!("words={}", write(dir.path(), "words.json", r#"[["a", "b"]]"#));
    let note = write(dir.path(), "note.txt", "hello");
    let pack = |out: &str, x: &str| {
        let out = at(out);
        holdall([
            "pack",
            &model,
            "-o",
            &out,
            "--from-toml",
            &card,
            "--tensor",
            x,
            "--tensor",
            &words,
            "--misc",
            &note,
            "--force",
        ])
    };
    pack("a.carton", &x).ends_with(0);
    pack("b.carton", &x).ends_with(0);
    assert!(std::fs::read(at("a.carton")).unwrap() == std::fs::read(at("b.carton")).unwrap());
    let report = holdall(["verify", &at("a.carton"), "--strict", "--json"]).ends_with(0).json();
    assert_eq!((&report["hashed"], &report["tensors"]), (&6.into(), &2.into()));
    holdall(["unpack", &at("a.carton"), "-o", &at("a")]).ends_with(0);
    holdall(["unpack", &at("a.carton"), "-o", &at("a")]).ends_with(2);
    holdall(["unpack", &at("a.carton"), "-o", &at("a"), "--force"]).ends_with(0);
    holdall(["unpack", &at("a.carton"), "-o", &at("only"), "--model"]).ends_with(0);
    assert_eq!(std::fs::read(at("only/w.bin")).unwrap(), [7; 1000]);
    holdall(["verify", &at("a")]).ends_with(0);
    holdall(["pack", &at("a"), "-o", &at("c.carton")]).ends_with(0);
    assert!(std::fs::read(at("a.carton")).unwrap() == std::fs::read(at("c.carton")).unwrap());
    let hashes = holdall(["hash", &at("a.carton"), &at("a")]).ends_with(0).out;
    let hashes: Vec<&str> = hashes.lines().map(|line| &line[..64]).collect();
    assert_eq!(hashes[0], hashes[1]);
    let tensor = holdall(["inspect", &at("a.carton"), "-t", "x"]).ends_with(0).out;
    assert!(tensor.contains("[3, 2], 6 elements"), "{tensor}");
    // A different package name and a different file.
    holdall(["diff", &at("a.carton"), &at("a")]).ends_with(0);
    write(dir.path(), "a/model/w.bin", [8; 1000]);
    holdall(["verify", &at("a")]).ends_with(1);
    let diff = holdall(["diff", &at("a.carton"), &at("a")]).ends_with(1);
    assert!(diff.out.contains("model/w.bin") && diff.out.contains("altered"), "{diff:?}");
    holdall(["pack", &at("a"), "-o", &at("d.carton"), "--name", "Other"]).ends_with(0);
    let diff = holdall(["diff", &at("a.carton"), &at("d.carton"), "--json"]).ends_with(1).json();
    assert_eq!(diff["fields"][0]["name"], "model_name");
    assert_eq!(diff["files"][0]["name"], "model/w.bin");
    // Tensors that do not match the declared inputs cause a warning, and an error in strict mode.
    let odd = format!("x={}", write(dir.path(), "odd.npy", npy("(3, 1)", 3)));
    let odd = pack("odd.carton", &odd).ends_with(0);
    assert!(odd.err.contains("carton/self-test"), "{odd:?}");
    holdall(["verify", &at("odd.carton")]).ends_with(0);
    holdall(["verify", &at("odd.carton"), "--strict"]).ends_with(1);
}

#[test]
fn standard_input_may_be_a_package() {
    let dir = tempfile::tempdir().unwrap();
    let (sound, altered) = sound_and_altered(dir.path());
    let hash = holdall(["hash", &sound]).ends_with(0).out;
    for is_piped in [false, true] {
        let with = |args: &[&str], from: &str| {
            if is_piped {
                let ran = holdall_with(args, &std::fs::read(from).unwrap());
                return (ran.status, ran.out);
            }
            let file = std::fs::File::open(from).unwrap();
            let ran = command(args).stdin(file).output().unwrap();
            (ran.status.code().unwrap(), String::from_utf8(ran.stdout).unwrap())
        };
        assert_eq!(with(&["verify", "-"], &sound).0, 0);
        let bad = with(&["verify", "-"], &altered);
        assert!(bad.0 == 1 && bad.1.contains("carton/hash"), "{bad:?}");
        assert_eq!(with(&["hash", "-"], &sound).1, hash);
        let card = with(&["inspect", "-"], &sound).1;
        assert!(card.contains("model/t.safetensors"), "{card}");
        assert_eq!(with(&["diff", "-", &sound], &sound).0, 0);
        let to = dir.path().join(format!("to-{is_piped}"));
        let to = to.to_str().unwrap();
        assert_eq!(with(&["unpack", "-", "-o", to], &altered).0, 1);
        assert_eq!(with(&["unpack", "-", "-o", to], &sound).0, 0);
        assert!(Path::new(to).join("carton.toml").exists());
    }
}

/// A package inside a package is recognized by its contents and treated as a package, with all its files.
#[test]
fn a_package_inside_a_package_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let (sound, altered) = sound_and_altered(dir.path());
    let folder = dir.path().join("outer");
    write(&folder, "model/sound.carton", std::fs::read(&sound).unwrap());
    write(&folder, "model/altered.carton", std::fs::read(&altered).unwrap());
    let outer = dir.path().join("outer.carton").to_str().unwrap().to_owned();
    let version = ["--runner", "noop", "--framework-version", "=1.0.0"];
    let pack = ["pack", folder.to_str().unwrap(), "-o", &outer];
    holdall([&pack[..], &version].concat()).ends_with(0);
    let inside = |name: &str| format!("{outer}!/model/{name}.carton");
    holdall(["verify", &inside("sound")]).ends_with(0);
    let bad = holdall(["verify", "--json", &inside("altered")]).ends_with(1).json();
    assert_eq!(bad["findings"][0]["code"], "carton/hash");
    let card = holdall(["inspect", &inside("sound")]).ends_with(0).out;
    assert!(card.contains("model/t.safetensors"), "{card}");
    let same = holdall(["diff", &inside("sound"), &sound]).ends_with(0).out;
    assert!(same.contains("by their hashes"), "{same}");
}

#[test]
fn a_file_of_another_format_is_no_package() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    sound_and_altered(dir.path());
    for command in ["unpack", "hash", "run"] {
        let no = holdall([command, &at("t.safetensors")]).ends_with(2);
        assert!(no.err.contains("package/no-package"), "{no:?}");
    }
}

/// Examples fit the narrowest usual terminal; the sentences below them use its full width.
#[test]
fn examples_are_not_wrapped() {
    for name in ["pack", "unpack", "hash"] {
        let under = |columns: &str| {
            let ran = command(["help", name]).env("COLUMNS", columns).output().unwrap();
            let text = String::from_utf8(ran.stdout).unwrap();
            let (examples, sentences) =
                text.split_once("Examples:").unwrap().1.rsplit_once("\n\n").unwrap();
            (examples.to_owned(), sentences.to_owned())
        };
        let (narrow, wide) = (under("80"), under("100"));
        assert_eq!(narrow.0, wide.0, "{name}");
        assert_eq!(narrow.1.replace('\n', " "), wide.1.replace('\n', " "), "{name}");
        let mut lines = narrow.0.lines().chain(narrow.1.lines());
        assert!(lines.all(|line| line.chars().count() <= 80), "{narrow:?}");
        assert!(narrow.0.lines().count() > 2, "{narrow:?}");
    }
}

#[test]
fn a_linked_description_is_refused_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(dir.path(), "w.bin", [7; 1000]);
    let version = ["--runner", "noop", "--framework-version", "=1.0.0"];
    holdall([&["pack", &*model, "-o", &at("a.carton")][..], &version].concat()).ends_with(0);
    holdall(["unpack", &at("a.carton"), "-o", &at("a")]).ends_with(0);
    std::fs::remove_file(at("a/carton.toml")).unwrap();
    write(dir.path(), "a/LINKS", "version = 1\n[urls]\n");
    for command in ["inspect", "verify", "hash"] {
        let error = holdall([command, &at("a"), "--json"]).ends_with(1).error();
        assert_eq!(error["code"], "carton/missing-file", "{error}");
        let hint = error["hint"].as_str().unwrap();
        assert!(hint.contains("put it back") && !hint.contains("--runner"), "{error}");
    }
}

/// Tensors of texts and of tensors have a known layout; they have no numbers.
#[test]
fn texts_and_nested_tensors_are_listed_with_their_types() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(dir.path(), "w.bin", [7; 10]);
    let words = format!("words={}", write(dir.path(), "words.json", r#"["a", "b\nc"]"#));
    let x = format!("x={}", write(dir.path(), "x.npy", npy("(3, 2)", 6)));
    let version = ["--runner", "noop", "--framework-version", "=1.0.0"];
    let args = ["pack", &*model, "-o", &at("a.carton"), "--tensor", &words, "--tensor", &x];
    holdall([&args[..], &version].concat()).ends_with(0);
    holdall(["unpack", &at("a.carton"), "-o", &at("a")]).ends_with(0);
    let index = std::fs::read_to_string(at("a/tensor_data/index.toml")).unwrap();
    let nested = "\n[[tensor]]\nname = \"all\"\ndtype = \"nested\"\ninner = [\"x\", \"x\"]\n";
    write(dir.path(), "a/tensor_data/index.toml", index + nested);
    std::fs::remove_file(at("a/MANIFEST")).unwrap();
    holdall(["pack", &at("a"), "-o", &at("b.carton")]).ends_with(0);
    let shown = |name: &str| holdall(["inspect", &at("b.carton"), "-t", name]).ends_with(0).out;
    let texts = shown("words");
    assert!(texts.contains("0  \"a\"\n") && texts.contains("1  \"b\\nc\"\n"), "{texts}");
    let all = shown("all");
    assert!(all.contains("a nested tensor of\n  0  x  f32 [3, 2]  "), "{all}");
    assert!(all.contains("\n  1  x  f32 [3, 2]  "), "{all}");
    for text in [texts, all] {
        assert!(!text.contains("unknown layout"), "{text}");
    }
    for (name, code) in [("words", "file/unknown-layout"), ("all", "file/unknown-layout")] {
        let out = at("t.npy");
        let args = ["extract", &at("b.carton"), name, "--dense", "-o", &out, "--json"];
        let error = holdall(args).ends_with(4).error();
        assert_eq!(error["code"], code);
        let message = error["message"].as_str().unwrap();
        assert!(
            !message.contains("not known") && message.starts_with("the tensor is a "),
            "{error}"
        );
    }
    let error = holdall(["extract", &at("b.carton"), "all", "-o", &at("t.npy"), "--json"]).error();
    assert_eq!(error["code"], "file/no-component");
}

#[test]
fn a_package_is_shown_as_a_page() {
    let xor = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xor");
    let xor = xor.to_str().unwrap();
    let html = holdall(["inspect", xor, "--html"]).ends_with(0);
    assert!(
        html.out.starts_with("<!doctype html>\n") && html.out.ends_with("</html>\n"),
        "{html:?}"
    );
    let markdown = holdall(["inspect", xor, "--markdown"]).ends_with(0);
    assert!(
        markdown.out.starts_with("# ") && markdown.out.contains("\n## Inputs\n"),
        "{markdown:?}"
    );
    holdall(["inspect", xor, "--markdown", "--html"]).ends_with(2);
    holdall(["inspect", xor, "--html", "--json"]).ends_with(2);
    let tensors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny.zt");
    let e = holdall(["inspect", tensors.to_str().unwrap(), "--html"]).ends_with(2);
    assert!(e.err.contains("package/no-package"), "{e:?}");
}
