//! Files that `cargo xtask gen` derives from the list of formats in `holdall-formats`: cargo
//! features of the crates above it, the list of tables of files, and a libFuzzer program for each
//! target.

use std::fmt::Write as _;
use std::path::Path;

/// The file that contains the list.
pub(crate) const LIST: &str = "crates/holdall-formats/src/lib.rs";
/// The list of tables in this crate.
const TABLES: &str = "xtask/src/tables.rs";
const BEGIN: &str = "# Formats: these lines are written by `cargo xtask gen`.\n";
const END: &str = "# End of the lines that `cargo xtask gen` writes.\n";

/// A crate with a feature for each format.
struct Above {
    name: &'static str,
    /// The crates below it that have the same feature.
    below: &'static [&'static str],
    /// Further features that a format needs in this crate.
    besides: &'static [(&'static str, &'static [&'static str])],
}

const CRATES: &[Above] = &[
    Above { name: "holdall-formats", below: &[], besides: &[] },
    Above {
        name: "holdall-io",
        below: &["holdall-formats"],
        besides: &[("carton", &["dep:holdall-package"]), ("ztensor2", &["ztensor"])],
    },
    Above {
        name: "holdall",
        below: &["holdall-io"],
        besides: &[
            ("carton", &["dep:holdall-carton", "dep:holdall-package"]),
            ("metatensor", &["holdall-records/metatensor"]),
            ("ztensor2", &["ztensor"]),
        ],
    },
    Above {
        name: "holdall-cli",
        below: &["holdall"],
        besides: &[("carton", &["dep:holdall-run"])],
    },
    Above {
        name: "holdall-py",
        below: &["holdall", "holdall-cli"],
        besides: &[("carton", &["http", "dep:holdall-run"])],
    },
];

/// Returns the families of formats, each once, in the order of the list below `root`.
///
/// The list is read as text, so that a format that was just added counts before anything is
/// built.
pub(crate) fn families(root: &Path) -> Result<Vec<String>, String> {
    let text = read(root, LIST)?;
    let list = text.split_once("\nformats! {\n").and_then(|(_, rest)| rest.split_once("\n}"));
    let (list, _) = list.ok_or_else(|| format!("{LIST}: there is no `formats! {{ … }}`"))?;
    let mut families: Vec<String> = Vec::new();
    for line in list.lines() {
        let family = line.trim().strip_prefix('"').and_then(|rest| rest.split_once('"'));
        if let Some((family, _)) = family.filter(|(own, _)| !families.iter().any(|f| f == own)) {
            families.push(family.to_owned());
        }
    }
    Ok(families)
}

/// Returns each file that has features of formats, and what it should contain.
pub(crate) fn manifests(root: &Path) -> Result<Vec<(String, String)>, String> {
    let families = families(root)?;
    CRATES.iter().map(|own| manifest(root, own, &families)).collect()
}

fn manifest(root: &Path, own: &Above, families: &[String]) -> Result<(String, String), String> {
    let path = format!("crates/{}/Cargo.toml", own.name);
    let text = read(root, &path)?;
    let (before, rest) = text.split_once(BEGIN).ok_or_else(|| format!("{path}: no `{BEGIN}`"))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| format!("{path}: no `{END}`"))?;
    let mut lines = format!("formats = [{}]\n", quoted(families));
    for family in families.iter().filter(|_| !own.below.is_empty()) {
        let besides =
            own.besides.iter().filter(|(other, _)| other == family).flat_map(|(_, all)| *all);
        let passed = own.below.iter().map(|below| format!("{below}/{family}"));
        let all: Vec<String> = passed.chain(besides.map(|s| (*s).to_owned())).collect();
        let _ = writeln!(lines, "{family} = [{}]", quoted(&all));
    }
    Ok((path, format!("{before}{BEGIN}{lines}{END}{after}")))
}

/// Returns the module that has the tables of files of every family.
pub(crate) fn tables(root: &Path) -> Result<(String, String), String> {
    let mut families = families(root)?;
    families.sort();
    let mut text = "//! The files of the corpus that each format's own tables make. Written by `cargo xtask gen` from the list of formats.\n"
        .to_owned();
    for family in &families {
        let path = format!("crates/holdall-formats/tests/{family}_files/mod.rs");
        // In separate paragraphs, since rustfmt sorts adjacent lines.
        let _ = write!(text, "\n#[path = \"../../{path}\"]\npub(crate) mod {family}_files;\n");
    }
    text.push_str(
        "\n/// Makes files of the corpus: the path of each below `corpus/`, and its bytes.\n",
    );
    text.push_str("pub(crate) type Make = fn() -> Vec<(String, Vec<u8>)>;\n");
    text.push_str("\n/// The functions that make the files of each family.\n");
    text.push_str("pub(crate) static TABLES: &[Make] = &[\n");
    for family in &families {
        let _ = writeln!(text, "    {family}_files::files,");
    }
    text.push_str("];\n");
    Ok((TABLES.to_owned(), text))
}

/// The folder of the libFuzzer programs, below that of their manifest.
const PROGRAMS: &str = "fuzz_targets";
const LIBFUZZER: &str = "fuzz/libfuzzer";
const PROGRAMS_BEGIN: &str = "# Programs: the lines below are written by `cargo xtask gen`.\n";

/// Returns a libFuzzer program for each of the fuzzer's targets, and the manifest that lists
/// them.
pub(crate) fn programs(root: &Path, targets: &[&str]) -> Result<Vec<(String, String)>, String> {
    let path = format!("{LIBFUZZER}/Cargo.toml");
    let text = read(root, &path)?;
    let (before, _) = text.split_once(PROGRAMS_BEGIN).ok_or_else(|| format!("{path}: no mark"))?;
    let mut manifest = format!("{before}{PROGRAMS_BEGIN}");
    let mut all = Vec::new();
    for target in targets {
        let own = format!("{PROGRAMS}/{target}.rs");
        let _ = write!(manifest, "\n[[bin]]\nname = \"{target}\"\npath = \"{own}\"\n");
        manifest.push_str("test = false\ndoc = false\nbench = false\n");
        let program = format!(
            "// Written by `cargo xtask gen`.\n#![no_main]\n\nlibfuzzer_sys::fuzz_target!(\n    \
             init: holdall_fuzz::prepare(\"{target}\"),\n    \
             |data: &[u8]| holdall_fuzz::run(\"{target}\", data)\n);\n"
        );
        all.push((format!("{LIBFUZZER}/{own}"), program));
    }
    all.push((path, manifest));
    Ok(all)
}

/// Returns the paths of libFuzzer programs without a target.
pub(crate) fn stray_programs(root: &Path, targets: &[&str]) -> Vec<String> {
    let folder = format!("{LIBFUZZER}/{PROGRAMS}");
    let entries = root.join(&folder).read_dir().into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_stray = |name: &String| name.strip_suffix(".rs").is_none_or(|n| !targets.contains(&n));
    names.filter(is_stray).map(|name| format!("{folder}/{name}")).collect()
}

fn quoted(all: &[String]) -> String {
    all.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ")
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(path)).map_err(|e| format!("{path}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::root;
    use std::collections::BTreeSet;

    /// Families that have no accepted files in the corpus, and why.
    const NOT_ACCEPTED: [(&str, &str); 1] = [(
        "tensorflow",
        "a checkpoint is several files: `crates/holdall/tests/tensorflow` has some",
    )];

    fn folders(path: &str) -> BTreeSet<String> {
        let entries = root().join(path).read_dir().unwrap().map(|entry| entry.unwrap());
        let folders = entries.filter(|entry| entry.path().is_dir());
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn the_list_is_read_as_the_compiler_reads_it() {
        let families = families(root()).unwrap();
        assert!(holdall_formats::families().eq(families.iter().map(String::as_str)));
        // All formats are built here, so a format in the list is in the library.
        for family in &families {
            assert!(holdall_formats::formats_of(family).next().is_some(), "{family} is not built");
        }
    }

    #[test]
    fn every_family_has_its_folders_and_its_page() {
        let families: BTreeSet<String> = families(root()).unwrap().into_iter().collect();
        let index = read(root(), "docs/spec/index.md").unwrap();
        for family in &families {
            let page = format!("docs/spec/{family}.md");
            assert!(root().join(&page).is_file(), "there is no {page}");
            assert!(index.contains(&format!("({family}.md)")), "docs/spec/index.md: no {page}");
            let module = format!("crates/holdall-formats/src/{family}/mod.rs");
            let text = read(root(), &module).unwrap();
            let headings = ["Contents", "Layout", "Specification", "Support", "Deviations"];
            for heading in headings.into_iter().chain(["Untrusted input"]) {
                assert!(text.contains(&format!("\n//! # {heading}\n")), "{module}: no {heading}");
            }
        }
        let excused: BTreeSet<String> = NOT_ACCEPTED.map(|(family, _)| family.to_owned()).into();
        let accepted: BTreeSet<String> = families.difference(&excused).cloned().collect();
        assert_eq!(folders("corpus/accept"), accepted);
        assert_eq!(folders("corpus/reject"), families);
    }

    #[test]
    fn what_follows_from_the_list_is_written() {
        for (path, text) in manifests(root()).unwrap().into_iter().chain([tables(root()).unwrap()])
        {
            assert!(read(root(), &path).unwrap() == text, "{path}: `cargo xtask gen` writes it");
        }
    }
}
