//! The documentation names only existing rules, and all of them.

use holdall::formats;
use holdall_formats::ztensor::rules::warnings;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Codes of warnings, which are in no table of rules.
const WARNINGS: [&str; 47] = [
    "recipe/config-made",
    "recipe/differs",
    "gguf/long-name",
    warnings::VERSION,
    warnings::ALIGNMENT,
    warnings::UNKNOWN_DIGEST,
    warnings::INDEX_DTYPE,
    warnings::UNCOMPRESSED_LENGTH,
    warnings::PACKED_SPARSE,
    warnings::SPARSE_FORMAT,
    warnings::BYTE_ORDER,
    warnings::PADDING,
    "index/logical-type",
    "http/validator",
    "safetensors/restore",
    "gguf/restore",
    "pytorch/left-out",
    "pytorch/restore",
    "onnx-file/renamed",
    "flax/passed-over",
    "npy/passed-over",
    "npz/passed-over",
    "npz/restore",
    "hdf5/not-closed",
    "hdf5/restore",
    "folder/config",
    "shards/extra",
    "shards/part",
    "shards/total-size",
    "shards/two-models",
    "gguf/big-endian",
    "metatensor/pattern-unchecked",
    "metatensor/restore",
    "metatensor/unknown-key",
    "metatensor/values-unchecked",
    "carton/self-test",
    "carton/example",
    "carton/no-outputs",
    "carton/nothing-declared",
    "carton/no-model",
    "carton/platform",
    "carton/description-link",
    "carton/description-html",
    "carton/extension",
    "carton/linked-description",
    "carton/linked-index",
    "carton/leading-slash",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns every document in the root and in `docs`.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    for folder in ["", "docs", "docs/spec"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            paths.push(entry.unwrap().path());
        }
    }
    paths.retain(|path| path.extension().is_some_and(|e| e == "md"));
    paths.sort();
    assert!(paths.len() > 4, "{paths:?}");
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Returns the texts between backticks on one line.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn codes_in_the_docs_are_codes_of_rules() {
    // `holdall-run` has more rules of ONNX, and a test of its own.
    let rules = holdall::rules().map(|r| r.code).filter(|code| !code.starts_with("onnx/"));
    let known: BTreeSet<&str> = rules.chain(WARNINGS).collect();
    let areas: BTreeSet<&str> = known.iter().filter_map(|code| code.split('/').next()).collect();
    let is_code = |text: &&str| {
        text.split_once('/').is_some_and(|(area, what)| {
            let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            areas.contains(area) && !what.is_empty() && what.chars().all(is_word)
        })
    };
    for (path, text) in documents() {
        // Generated from the tables, including the command's own rules.
        if path.ends_with("docs/rules.md") {
            continue;
        }
        for code in quoted(&text).filter(is_code) {
            assert!(known.contains(code), "{}: there is no rule `{code}`", path.display());
        }
    }
}

#[test]
fn the_specification_names_every_rule_of_the_formats() {
    let spec: String = documents()
        .into_iter()
        .filter(|(path, _)| path.parent().is_some_and(|p| p.ends_with("docs/spec")))
        // It only says where other documents describe them.
        .filter(|(path, _)| !path.ends_with("coverage.md"))
        .map(|(_, text)| text)
        .collect();
    let named: BTreeSet<&str> = quoted(&spec).collect();
    let missing: Vec<&str> =
        holdall_formats::rules().map(|r| r.code).filter(|code| !named.contains(code)).collect();
    assert!(missing.is_empty(), "docs/spec does not speak of {missing:?}");
    for code in WARNINGS {
        assert!(named.contains(code), "docs/spec does not speak of the warning {code}");
    }
}

/// Parses a `hex` block: offset, bytes (or `00 × n` for n equal bytes) and their meaning, with two spaces
/// between the columns.
fn hex_block(text: &str) -> Vec<u8> {
    let block =
        text.split("\n```hex\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap();
    let mut out = Vec::new();
    for line in block.lines() {
        let (offset, rest) = line.trim_start().split_once("  ").unwrap();
        assert_eq!(offset.parse(), Ok(out.len()), "{line}");
        let bytes = rest.split("  ").next().unwrap();
        match bytes.split_once(" × ") {
            Some((byte, count)) => {
                let byte = u8::from_str_radix(byte, 16).unwrap();
                out.resize(out.len() + count.trim().parse::<usize>().unwrap(), byte);
            }
            None => out.extend(bytes.split(' ').map(|b| u8::from_str_radix(b, 16).unwrap())),
        }
    }
    out
}

#[test]
fn the_files_in_the_specification_are_sound() {
    for (page, format) in [
        ("ztensor.md", "ztensor"),
        ("metatensor.md", "metatensor"),
        ("safetensors.md", "safetensors"),
    ] {
        let text = std::fs::read_to_string(root().join("docs/spec").join(page)).unwrap();
        let bytes = hex_block(&text);
        let file = holdall::OpenOptions::new().open_bytes(bytes.clone(), page).unwrap();
        assert_eq!((file.format(), file.len(), file.warnings().len()), (format, 1, 0));
        let report = holdall::verify(&file, &holdall::VerifyOptions::new()).unwrap();
        assert!(report.is_sound());
        let w = file.tensor("w").unwrap().dense().unwrap();
        assert_eq!(w.to_vec::<f32>().unwrap(), [1.0, 2.0]);

        // And these bytes are written.
        let format = formats::by_name(format).unwrap();
        let options = holdall::WriteOptions::new().with_format(format);
        let convert = holdall::Convert::new(options);
        assert_eq!(holdall::convert_to(&file, Vec::new(), &convert).unwrap().1, bytes, "{page}");
    }
}

#[test]
fn links_in_the_docs_lead_somewhere() {
    for (path, text) in documents() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap();
            // Programs in the docs write packages, whose descriptions have such links.
            let is_of_package = target.starts_with("@misc/");
            if target.is_empty() || target.contains("://") || is_of_package {
                continue;
            }
            let there = path.parent().unwrap().join(target);
            assert!(there.exists(), "{}: there is no {target}", path.display());
        }
    }
}

#[test]
fn the_menu_is_in_contributing() {
    let read = |path| std::fs::read_to_string(root().join(path)).unwrap();
    let (menu, page) = (read("xtask/src/main.rs"), read("CONTRIBUTING.md"));
    let tasks: Vec<&str> =
        menu.split("task(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(tasks.contains(&"test"), "{tasks:?}");
    for task in tasks {
        let entry = format!("`cargo xtask {task}`");
        assert!(page.contains(&entry), "CONTRIBUTING.md does not speak of {entry}");
    }
}

#[path = "../examples/guide.rs"]
mod guide;

#[test]
fn the_snippets_run() {
    let folder = tempfile::tempdir().unwrap();
    guide::run(&root().canonicalize().unwrap().join("examples/tiny.zt"), folder.path()).unwrap();
}

#[test]
fn every_snippet_in_the_docs_is_of_a_program_that_runs() {
    let example = |name| std::fs::read_to_string(root().join("crates/holdall/examples").join(name));
    let names = [
        "guide.rs",
        "make_example.rs",
        "dataset.rs",
        "arrow.rs",
        "mirror.rs",
        "../../holdall-net/examples/first_layer.rs",
        "../tests/aio.rs",
    ];
    let programs = names.map(|name| example(name).unwrap());
    let mut count = 0;
    for (path, text) in documents() {
        for snippet in text.split("\n```rust\n").skip(1) {
            let snippet = snippet.split("\n```").next().unwrap();
            let found = programs.iter().any(|program| contains(program, snippet));
            assert!(found, "{}: in no example program:\n{snippet}", path.display());
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

/// Returns `true` if the lines of `snippet` are in `program`, in order and equally indented.
fn contains(program: &str, snippet: &str) -> bool {
    let (lines, wanted): (Vec<&str>, Vec<&str>) =
        (program.lines().collect(), snippet.lines().collect());
    lines.windows(wanted.len()).any(|window| {
        let indent = window[0].len() - window[0].trim_start().len();
        window.iter().zip(&wanted).all(|(line, wanted)| line.get(indent..).unwrap_or("") == *wanted)
    })
}
