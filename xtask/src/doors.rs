//! Tests the steps of ARCHITECTURE.md for adding a format and a codec on a copy of the
//! repository: both are built and used through the public API.

use crate::command::{Outcome, Run, cargo, program, root, target};
use crate::interop::skipped;
use crate::new_format::{self, insert, put};
use std::path::{Path, PathBuf};

/// The toy format's code, which replaces the files that `new-format` writes.
const TOY: [(&str, &str); 2] = [
    ("decode.rs", include_str!("doors/toy_decode.rs.txt")),
    ("rules.rs", include_str!("doors/toy_rules.rs.txt")),
];
/// The toy codec, and a test that reads and writes components in it.
const CODEC: &str = include_str!("doors/toy_codec.rs.txt");
const CODEC_TEST: &str = include_str!("doors/toy_codec_test.rs.txt");
/// The program that opens files.
const OPEN: &str = include_str!("doors/open.rs.txt");

/// `cargo xtask doors`.
pub(crate) fn doors(_args: &[String]) -> Outcome {
    if !program("git").args(["rev-parse", "--git-dir"]).succeeds() {
        skipped("doors, for git does not say which files the repository has");
        return Ok(());
    }
    let scratch = Scratch { folder: target().join("doors") };
    scratch.copy_repository()?;
    new_format::write(&scratch.copy(), "toy")?;
    scratch.add_codec()?;
    scratch.write_program()?;
    // As `new-format` leaves it.
    scratch.cargo("build").run()?;
    let corpus = scratch.copy().join("corpus");
    scratch.prints(&corpus.join("accept/toy/made-empty.toy"), "toy\n")?;
    scratch.prints(&corpus.join("reject/toy/toy.header.cut.toy"), "error toy/header\n")?;
    scratch.prints(&corpus.join("reject/toy/toy.version.next.toy"), "error toy/version\n")?;
    // With the toy format's code.
    for (name, text) in TOY {
        let path = format!("crates/holdall-formats/src/toy/{name}");
        put(&scratch.copy(), &path, text.as_bytes())?;
    }
    scratch.cargo("build").run()?;
    let sound = toy_file(&[("weight", &[1.0, -2.5, 3.0]), ("bias", &[0.25])]);
    let found = "toy\nweight [3] [1.0, -2.5, 3.0]\nbias [1] [0.25]\n";
    let cut = &sound[..sound.len() - 1];
    for (name, bytes, printed) in
        [("sound.toy", &sound[..], found), ("cut.toy", cut, "error toy/tensor\n")]
    {
        put(&scratch.folder, name, bytes)?;
        scratch.prints(&scratch.folder.join(name), printed)?;
    }
    scratch.cargo("test").args(["--test", "toy_codec"]).run()
}

/// Returns a file of the toy format.
fn toy_file(tensors: &[(&str, &[f32])]) -> Vec<u8> {
    let mut file = b"TOY".to_vec();
    file.extend(1u32.to_le_bytes());
    file.extend((tensors.len() as u32).to_le_bytes());
    for (name, elements) in tensors {
        file.extend((name.len() as u16).to_le_bytes());
        file.extend(name.bytes());
        file.extend((elements.len() as u32).to_le_bytes());
        file.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
    }
    file
}

/// A folder with a copy of the repository, and a program that uses it.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn copy(&self) -> PathBuf {
        self.folder.join("copy")
    }

    /// Copies the repository's files, including uncommitted ones. Each keeps its modification
    /// time, so that builds from them stay valid.
    fn copy_repository(&self) -> Outcome {
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let list = program("git").args(list).output()?;
        let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
        let copy = self.copy();
        if copy.exists() {
            std::fs::remove_dir_all(&copy).map_err(|e| failed(&copy, e))?;
        }
        // A removed file is listed until the removal is committed.
        let paths = list.split('\0').filter(|path| root().join(path).is_file());
        for path in paths {
            let (from, to) = (root().join(path), copy.join(path));
            let copied = || {
                std::fs::create_dir_all(to.parent().unwrap_or(&copy))?;
                std::fs::copy(&from, &to)?;
                let changed = from.metadata()?.modified()?;
                std::fs::File::options().append(true).open(&to)?.set_modified(changed)
            };
            copied().map_err(|e| failed(&from, e))?;
        }
        Ok(())
    }

    /// Adds the toy codec to the copy: its file, its `mod` line and its line in the list.
    fn add_codec(&self) -> Outcome {
        let list = "crates/holdall-core/src/codec/mod.rs";
        put(&self.copy(), "crates/holdall-core/src/codec/xor.rs", CODEC.as_bytes())?;
        insert(&self.copy(), list, "\nmod decode;\n", "\nmod decode;\npub mod xor;\n")?;
        let mark = "pub static CODECS: &[(&str, &dyn Codec)] = &[\n";
        insert(&self.copy(), list, mark, &format!("{mark}    (\"xor\", &xor::Xor),\n"))
    }

    /// Writes a package that depends on the copy, with the toy format and zTensor, which supports
    /// all codecs.
    fn write_program(&self) -> Outcome {
        let features = "\"toy\", \"ztensor\"";
        let mut manifest = "[package]\nname = \"doors\"\nedition = \"2024\"\n\n[workspace]\n\n\
            [profile.dev]\ndebug = false\n\n[dependencies]\n"
            .to_owned();
        for (name, features) in
            [("holdall", features), ("holdall-io", features), ("holdall-core", "")]
        {
            manifest.push_str(&format!(
                "{name} = {{ path = \"../copy/crates/{name}\", default-features = false, \
                 features = [{features}] }}\n"
            ));
        }
        put(&self.folder, "program/Cargo.toml", manifest.as_bytes())?;
        put(&self.folder, "program/src/main.rs", OPEN.as_bytes())?;
        // The same versions of dependencies as in the repository.
        let lock = root().join("Cargo.lock");
        let lock = std::fs::read(&lock).map_err(|e| format!("{}: {e}", lock.display()))?;
        put(&self.folder, "program/Cargo.lock", &lock)?;
        put(&self.folder, "program/tests/toy_codec.rs", CODEC_TEST.as_bytes())
    }

    /// Returns a cargo task for the program; warnings are errors.
    fn cargo(&self, task: &str) -> Run {
        cargo([task, "--quiet", "--manifest-path"])
            .args([self.folder.join("program/Cargo.toml")])
            .env("CARGO_TARGET_DIR", self.folder.join("target"))
            .env("RUSTFLAGS", "--deny warnings")
    }

    /// Checks the program's output for a file.
    fn prints(&self, path: &Path, expected: &str) -> Outcome {
        let own = self.folder.join("target/debug/doors");
        let printed = program(own).args([path]).output()?;
        match printed == expected {
            true => Ok(()),
            false => Err(format!(
                "{}: expected {expected:?}, the program printed {printed:?}",
                path.display()
            )),
        }
    }
}
