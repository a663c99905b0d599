//! `cargo xtask dist`: everything that a release consists of, built and checked, in one folder. `docs/releasing.md` is the guide.

mod archive;
mod binary;
mod commands;
mod crates;
mod graph;
mod licences;
mod npm;
mod provenance;
mod repeat;
mod sbom;
mod sums;
mod targets;
mod tools;
mod wheels;

use crate::command::{Outcome, program, root, target};
use std::path::PathBuf;
use targets::Target;

pub(crate) use crates::publish;
pub(crate) use tools::{deny, workflows};

/// A part of a release, and the function that makes it.
type Part = (&'static str, fn(&Release) -> Result<Vec<String>, String>);

/// The parts, in order: each needs nothing of those after it. `sign` is not among those that are made without being named.
const PARTS: [Part; 7] = [
    ("crates", crates::crates),
    ("npm", npm::npm),
    ("commands", commands::commands),
    ("wheels", wheels::wheels),
    ("source", wheels::source),
    ("sums", sums::sums),
    (SIGN, sums::sign),
];
const SIGN: &str = "sign";
/// The parts that contain the page.
const WITH_PAGE: [&str; 5] = ["crates", "npm", "commands", "wheels", "source"];

const HELP: &str = "\
cargo xtask dist [PART…] [--target TRIPLE]… [--out FOLDER] [--trial] [--twice]

Parts: crates, npm, commands, wheels, source (of the Python package), sums (checksums, provenance); without any, all of them.
`sign` checks the checksums of artifacts that are there, and signs them.

  --target TRIPLE   commands and wheels for this target only; the default is all that this system can build
  --out FOLDER      where the artifacts go, below the repository; the default is target/holdall-VERSION
  --trial           builds quickly, without optimising, also from a tree with changes: to try this, not to publish
  --twice           builds the command a second time, in a copy of the repository, and compares the bytes

The key that signs is the text in MINISIGN_SECRET_KEY, of a key without a password. Without it `sums` signs nothing.
";

/// A release that is being made.
pub(crate) struct Release {
    /// The folder of the artifacts.
    out: PathBuf,
    version: String,
    commit: String,
    /// The time of the commit, in seconds since 1970: that of every file in an archive.
    epoch: u64,
    targets: Vec<&'static Target>,
    is_trial: bool,
    is_twice: bool,
}

impl Release {
    /// Returns the profile of the command.
    fn profile(&self) -> &'static str {
        if self.is_trial { "looked-at" } else { "dist" }
    }

    /// Returns a name that begins with that of the package and its version.
    fn named(&self, rest: &str) -> String {
        format!("holdall-{}-{rest}", self.version)
    }

    /// Runs `make` for each target; returns the failures. A target that fails does not stop the others.
    fn for_targets(&self, make: impl Fn(&'static Target) -> Outcome) -> Vec<String> {
        let one = |target: &&'static Target| {
            eprintln!("\n=== {}", target.triple);
            let e = make(target).err()?;
            eprintln!("\n{}: {e}", target.triple);
            Some(format!("{}: {e}", target.triple))
        };
        self.targets.iter().filter_map(one).collect()
    }
}

/// `cargo xtask dist`.
pub(crate) fn dist(args: &[String]) -> Outcome {
    if args.iter().any(|arg| arg == "--help") {
        eprint!("{HELP}");
        return Ok(());
    }
    let (release, parts) = read(args)?;
    std::fs::create_dir_all(&release.out).map_err(|e| format!("{}: {e}", release.out.display()))?;
    if parts.iter().any(|part| WITH_PAGE.contains(part)) {
        crate::js::viewer(&[])?;
        licences::check()?;
    }
    let mut failed = Vec::new();
    for (name, make) in PARTS.iter().filter(|(name, _)| parts.contains(name)) {
        eprintln!("\n=== {name}");
        match make(&release) {
            Ok(some) => failed.extend(some.into_iter().map(|e| format!("{name}: {e}"))),
            Err(e) => failed.push(format!("{name}: {e}")),
        }
    }
    summary(&release)?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("not everything was made:\n  {}", failed.join("\n  "))),
    }
}

fn read(args: &[String]) -> Result<(Release, Vec<&'static str>), String> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let (mut parts, mut wanted) = (Vec::new(), Vec::new());
    let (mut out, mut is_trial, mut is_twice) = (None, false, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--target" => wanted.push(targets::named(value()?)?),
            "--out" => out = Some(root().join(value()?)),
            "--trial" => is_trial = true,
            "--twice" => is_twice = true,
            part => match PARTS.iter().find(|(name, _)| *name == part) {
                Some((name, _)) => parts.push(*name),
                None => return Err(format!("there is no part or option `{part}`\n\n{HELP}")),
            },
        }
    }
    if parts.is_empty() {
        parts = PARTS.iter().map(|(name, _)| *name).filter(|name| *name != SIGN).collect();
    }
    if wanted.is_empty() {
        wanted = targets::all_here();
    }
    let git = |args: &[&str]| program("git").args(args).output().map(|text| text.trim().to_owned());
    let changed = git(&["status", "--porcelain"])?;
    if !changed.is_empty() && !is_trial {
        return Err(format!(
            "the tree has changes, and a release is made from a commit:\n{changed}"
        ));
    }
    // A tag that starts a release names the version.
    let environment = |key: &str| std::env::var(key).unwrap_or_default();
    let tag = environment("GITHUB_REF_NAME");
    if environment("GITHUB_REF_TYPE") == "tag" && tag != format!("v{version}") {
        return Err(format!("the tag is {tag}, and the version is {version}"));
    }
    let epoch = git(&["log", "-1", "--format=%ct"])?;
    let release = Release {
        out: out.unwrap_or_else(|| target().join(format!("holdall-{version}"))),
        version,
        commit: git(&["rev-parse", "HEAD"])?,
        epoch: epoch.parse().map_err(|e| format!("{epoch}: {e}"))?,
        targets: wanted,
        is_trial,
        is_twice,
    };
    Ok((release, parts))
}

/// Lists the artifacts.
fn summary(release: &Release) -> Outcome {
    eprintln!("\n{}", release.out.display());
    for path in artifacts(release)? {
        let len = std::fs::metadata(&path).map_or(0, |about| about.len());
        eprintln!("  {len:>11}  {}", name(&path));
    }
    if release.is_trial {
        eprintln!("\n!!! A TRIAL: nothing here is for publishing.");
    }
    Ok(())
}

/// Returns the files of the release that are there, sorted by name.
fn artifacts(release: &Release) -> Result<Vec<PathBuf>, String> {
    let entries = release.out.read_dir().map_err(|e| format!("{}: {e}", release.out.display()))?;
    let mut all: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    all.retain(|path| path.is_file());
    all.sort();
    Ok(all)
}

fn name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Reads a whole file.
fn bytes(path: &std::path::Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Writes a whole file.
fn write(path: &std::path::Path, bytes: impl AsRef<[u8]>) -> Outcome {
    std::fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the SHA-256 of bytes, in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    let mut hasher = holdall::Hasher::new(holdall::Algorithm::Sha256);
    hasher.update(bytes);
    match hasher.finish() {
        holdall::Digest::Sha256(digest) => digest.iter().map(|b| format!("{b:02x}")).collect(),
        _ => String::new(),
    }
}
