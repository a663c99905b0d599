//! Any format to any: each sound file of the corpus, and each TensorFlow checkpoint, is written in every
//! format that can be written, bit for bit, or refused beforehand with remedies.

use crate::corpus_files;
use holdall::{
    Convert, DiffOptions, Durability, EncodeOptions, Error, FORMATS, File, Format, Select,
    WriteOptions, convert, diff,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Larger files test nothing that smaller ones do not.
const MAX_LEN: u64 = 200_000;

/// Returns each version in which a format can be written.
fn targets() -> Vec<(&'static Format, Option<&'static str>)> {
    let writable = FORMATS.iter().filter(|format| format.encode.is_some());
    let versions = |format: &'static Format| match format.versions {
        [] => vec![(format, None)],
        versions => versions.iter().map(|version| (format, Some(*version))).collect(),
    };
    writable.flat_map(|format| versions(format)).collect()
}

/// Returns an error if anything relevant differs: names, shapes, types, any bit of any element.
fn is_the_same(source: &File, target: &Path) -> Result<(), String> {
    let written = holdall::open(target).map_err(|e| e.to_string())?;
    let found = diff(source, &written, &DiffOptions::new()).map_err(|e| e.to_string())?;
    if !found.added.is_empty() || !found.removed.is_empty() {
        return Err(format!("{:?} {:?}", found.added, found.removed));
    }
    match found.changed.iter().find(|t| {
        t.types.is_some() || t.shapes.is_some() || t.values.is_some() || t.incomparable.is_some()
    }) {
        Some(changed) => Err(format!("{changed:?}")),
        None => Ok(()),
    }
}

/// Returns TensorFlow checkpoints, each in several files.
fn checkpoints() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tensorflow");
    let files = folder.read_dir().unwrap().map(|file| file.unwrap().path());
    let mut all: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "index")).collect();
    all.sort();
    all
}

fn has_a_remedy(e: &Error) -> bool {
    e.advice(|remedy| Some(remedy.to_string())).is_some()
}

#[test]
fn every_file_goes_into_every_format_or_is_refused_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let (mut wrong, mut written) = (Vec::new(), BTreeMap::<(String, &str), u32>::new());
    for path in corpus_files::files("accept").into_iter().chain(checkpoints()) {
        if path.metadata().unwrap().len() > MAX_LEN {
            continue;
        }
        let source = holdall::open(&path).unwrap();
        for (at, (format, version)) in targets().into_iter().enumerate() {
            let target = dir.path().join(format!("{at}.{}", format.extensions[0]));
            let mut write =
                WriteOptions::new().with_format(format).with_durability(Durability::System);
            if let Some(version) = version {
                write = write.with_encode(EncodeOptions::new().with_version(version));
            }
            let place = format!("{} to {} {version:?}", path.display(), format.id);
            // As it is, otherwise with all remedies applied.
            let plain = Convert::new(write);
            let eager = plain.clone().with_dense().with_raw_types().with_drop_attributes();
            let refused = match convert(&source, &target, &plain) {
                Ok(_) => {
                    if let Err(e) = is_the_same(&source, &target) {
                        wrong.push(format!("{place}: {e}"));
                    }
                    None
                }
                Err(e) => Some(e),
            };
            if let Some(e) = refused {
                assert!(!target.exists(), "{place}");
                let refused = convert(&source, &target, &eager).err();
                for e in [Some(e), refused].into_iter().flatten().filter(|e| !has_a_remedy(e)) {
                    wrong.push(format!("{place}: no remedy: {e}"));
                }
            }
            // Otherwise the tensors that can be written alone are written.
            if !target.exists() {
                let names: Vec<&str> = source.names().collect();
                for name in &names {
                    let others = names.iter().filter(|other| *other != name);
                    let alone = Select::all().without(others.map(|name| (*name).to_owned()));
                    if convert(&source, &target, &eager.clone().with_select(alone)).is_ok() {
                        break;
                    }
                }
            }
            if target.exists() {
                let pair = (source.format().to_owned(), format.id);
                *written.entry(pair).or_default() += 1;
                std::fs::remove_file(&target).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {wrong:#?}", wrong.len());
    // Every format that can be read is converted at least partly into every format that can be written.
    for from in FORMATS {
        for (to, _) in targets() {
            let pair = (from.id.to_owned(), to.id);
            assert!(written.contains_key(&pair), "nothing goes from {} to {}", from.id, to.id);
        }
    }
}
