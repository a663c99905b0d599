//! `cargo xtask new-format x`: creates the files of a new file format, which build and pass tests
//! without changes, and adds every line elsewhere that the format needs.

use crate::command::{Outcome, cargo, root};
use crate::derived;
use std::path::Path;

/// The files of a format, below its folder.
const SOURCES: [(&str, &str); 5] = [
    ("mod.rs", include_str!("new_format/mod.rs.txt")),
    ("detect.rs", include_str!("new_format/detect.rs.txt")),
    ("decode.rs", include_str!("new_format/decode.rs.txt")),
    ("encode.rs", include_str!("new_format/encode.rs.txt")),
    ("rules.rs", include_str!("new_format/rules.rs.txt")),
];
const FILES: &str = include_str!("new_format/files.rs.txt");
const PAGE: &str = include_str!("new_format/spec.md.txt");

/// A new format is added to the list above this line.
const LIST_MARK: &str = "    // `cargo xtask new-format` adds a line here";
/// A new format's module is added to the same file above this line.
const MOD_MARK: &str = "\npub use array::";
/// A new format's feature is added to the manifest below this line.
const FEATURE_MARK: &str = "# What each format needs.\n";
/// A new format's page is added to the specification's index above this line.
const PAGE_MARK: &str = "- [shards.md]";

/// `cargo xtask new-format x`.
pub(crate) fn new_format(args: &[String]) -> Outcome {
    let [id] = args else { return Err("name the format: `cargo xtask new-format x`".into()) };
    write(root(), id)?;
    cargo(["fmt", "--package", "holdall-formats", "--package", "xtask"]).run()?;
    println!(
        "\nThe format `{id}` is there: a header without tensors. To do by hand:\n\n\
         [ ] crates/holdall-formats/src/{id}/mod.rs: the six headings, and what FORMAT says of itself\n\
         [ ] detect.rs, decode.rs, rules.rs: how files are recognised and read, and what they must be\n\
         [ ] encode.rs: how they are written; or remove it and `mod encode`, if nothing is written\n\
         [ ] crates/holdall-formats/tests/{id}_files/mod.rs: files that are read, and one for each rule;\n    \
             then `cargo xtask corpus --make` and `cargo xtask bless`, and read what that says\n\
         [ ] docs/spec/{id}.md: what a file must be, with the code of each rule\n\
         [ ] the comment at its line in {list}: why the line is where it is\n\
         [ ] crates/holdall-formats/Cargo.toml: the features of `holdall-core` that it needs\n\
         [ ] CHANGELOG.md and README.md, where they list formats\n\
         [ ] crates/holdall/tests/corpus.rs, EXCUSED: rules of kind Unsupported that only writing breaks\n\
         [ ] `cargo xtask gen`, `cargo xtask fuzz-smoke --targets decode_{id}`, `cargo xtask test`\n\n\
         What follows from the files is written now; you can begin meanwhile.",
        list = derived::LIST
    );
    // In another process, because this one was built without the format.
    cargo(["xtask", "gen"]).run()?;
    cargo(["xtask", "bless"]).run()
}

/// Writes the files of a format and its lines below `root`, and the resulting cargo features.
pub(crate) fn write(root: &Path, id: &str) -> Outcome {
    let is_word = id.starts_with(|c: char| c.is_ascii_lowercase())
        && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !is_word {
        return Err(format!("`{id}` is no name of a format: lower-case letters, then digits too"));
    }
    let folder = format!("crates/holdall-formats/src/{id}");
    if root.join(&folder).exists() || derived::families(root)?.iter().any(|family| family == id) {
        return Err(format!("there is a format or a folder `{id}` already"));
    }
    let filled = |template: &str| fill(template, id);
    for (name, template) in SOURCES {
        put(root, &format!("{folder}/{name}"), filled(template).as_bytes())?;
    }
    let files = format!("crates/holdall-formats/tests/{id}_files/mod.rs");
    put(root, &files, filled(FILES).as_bytes())?;
    put(root, &format!("docs/spec/{id}.md"), filled(PAGE).as_bytes())?;
    corpus(root, id)?;
    let list = format!("    \"{id}\" => {id}::FORMAT,\n");
    let module = format!("#[cfg(feature = \"{id}\")]\npub mod {id};\n");
    insert(root, derived::LIST, LIST_MARK, &format!("{list}{LIST_MARK}"))?;
    insert(root, derived::LIST, MOD_MARK, &format!("{module}{MOD_MARK}"))?;
    let feature = format!("{FEATURE_MARK}{id} = []\n");
    insert(root, "crates/holdall-formats/Cargo.toml", FEATURE_MARK, &feature)?;
    let page = format!("- [{id}.md]({id}.md)\n{PAGE_MARK}");
    insert(root, "docs/spec/index.md", PAGE_MARK, &page)?;
    for (path, text) in derived::manifests(root)?.into_iter().chain([derived::tables(root)?]) {
        put(root, &path, text.as_bytes())?;
    }
    Ok(())
}

/// Writes the files that the table in [`FILES`] generates.
fn corpus(root: &Path, id: &str) -> Outcome {
    let file = |version: u32| [magic(id).as_bytes(), &version.to_le_bytes()].concat();
    let sound = file(1);
    let cut = sound[..sound.len() - 1].to_vec();
    put(root, &format!("corpus/accept/{id}/made-empty.{id}"), &sound)?;
    for (name, bytes) in [("header.cut", cut), ("version.none", file(0)), ("version.next", file(2))]
    {
        put(root, &format!("corpus/reject/{id}/{id}.{name}.{id}"), &bytes)?;
    }
    Ok(())
}

/// Returns a preliminary signature for files of the format.
fn magic(id: &str) -> String {
    id.to_ascii_uppercase()
}

fn fill(template: &str, id: &str) -> String {
    let (first, rest) = id.split_at(1);
    let name = first.to_ascii_uppercase() + rest;
    let cut = magic(id).len() + 3;
    template
        .replace("@ID@", id)
        .replace("@NAME@", &name)
        .replace("@MAGIC@", &magic(id))
        .replace("@MAGIC_TEXT@", &magic(id))
        .replace("@CUT@", &cut.to_string())
}

/// Writes a file below `root`, and creates its folders.
pub(crate) fn put(root: &Path, path: &str, bytes: &[u8]) -> Outcome {
    let at = root.join(path);
    let folder = at.parent().unwrap_or(root);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&at, bytes))
        .map_err(|e| format!("{path}: {e}"))
}

/// Replaces `mark`, which must occur exactly once in the file, by `new`.
pub(crate) fn insert(root: &Path, path: &str, mark: &str, new: &str) -> Outcome {
    let text = std::fs::read_to_string(root.join(path)).map_err(|e| format!("{path}: {e}"))?;
    if text.matches(mark).count() != 1 {
        return Err(format!("{path}: `{}` is not there once", mark.trim()));
    }
    put(root, path, text.replacen(mark, new, 1).as_bytes())
}
