//! A package of many files, the folder it is packed from, and what Python's `zipfile` does with it.

use crate::floor::{cores, read};
use crate::timing::Outcome;
use crate::workload::{XorShift, llama};
use anyhow::{Context as _, Result, ensure};
use holdall::carton::{FileSelection, Packer, SymlinkPolicy};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The tensor of `tensor_data` that is read alone: 64 MiB of float32.
pub const TENSOR: &str = "x";
const SIDE: u64 = 4096;

/// The folder that `package` is made from, next to it.
pub fn folder(package: &Path) -> PathBuf {
    package.with_extension("folder")
}

/// Makes the folder of `package`, then packs it into `part`: 2,000 files, 2 GB.
pub fn write(package: &Path, part: &Path, quick: bool) -> Result<()> {
    let folder = folder(package);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    for sub in ["model", "tensor_data"] {
        fs::create_dir_all(folder.join(sub))?;
    }
    let mut random = XorShift(7);
    let mut fill = |path: PathBuf, len: usize| -> Result<()> {
        let words = (0..len / 8).flat_map(|_| random.next().to_le_bytes());
        Ok(fs::write(path, words.collect::<Vec<u8>>())?)
    };
    let count = if quick { 50 } else { 1_996 };
    for i in 0..count {
        fill(folder.join(format!("model/part-{i:04}.bin")), 960_000)?;
    }
    let side = if quick { 64 } else { SIDE };
    fill(folder.join("tensor_data/x.bin"), (4 * side * side) as usize)?;
    let index = format!(
        "[[tensor]]\nname = \"{TENSOR}\"\ndtype = \"float32\"\nshape = [{side}, {side}]\nfile = \"x.bin\"\ninner = []\n"
    );
    fs::write(folder.join("tensor_data/index.toml"), index)?;
    let specs = llama(1, true);
    let views = specs.iter().map(|s| (s.name.as_str(), s));
    safetensors::serialize_to_file(views, None, &folder.join("model/weights.safetensors"))?;
    let toml = "spec_version = 1\nmodel_name = \"bench\"\n\n[[input]]\nname = \"x\"\ndtype = \"float32\"\nshape = [\"rows\", \"columns\"]\n\n[[output]]\nname = \"y\"\ndtype = \"float32\"\nshape = [\"rows\", \"columns\"]\n\n[runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"*\"\nrunner_compat_version = 1\n";
    fs::write(folder.join("carton.toml"), toml)?;
    Packer::from_folder(&folder, SymlinkPolicy::Inside, FileSelection::All)?.write(part, true)?;
    Ok(())
}

/// Where a package has its directory and its `MANIFEST`: offsets and lengths in bytes. It has no comment, and fewer than 2^32
/// bytes.
pub fn texts(package: &Path) -> Result<Vec<(u64, usize)>> {
    let file = File::open(package)?;
    let word = |at: u64, len: usize| -> Result<u64> {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes[..len], at)?;
        Ok(u64::from_le_bytes(bytes))
    };
    let end = file.metadata()?.len() - 22;
    let directory = word(end + 16, 4)?;
    let mut at = directory;
    while at < end {
        let (name_len, extra_len, comment_len) =
            (word(at + 28, 2)?, word(at + 30, 2)?, word(at + 32, 2)?);
        let mut name = vec![0; name_len as usize];
        file.read_exact_at(&mut name, at + 46)?;
        if name == b"MANIFEST" {
            let header = word(at + 42, 4)?;
            let start = header + 30 + word(header + 26, 2)? + word(header + 28, 2)?;
            let manifest = (start, word(at + 20, 4)? as usize);
            return Ok(vec![(directory, (end - directory) as usize), manifest]);
        }
        at += 46 + name_len + extra_len + comment_len;
    }
    anyhow::bail!("{} has no MANIFEST", package.display())
}

/// Runs a Python program that prints how many nanoseconds its work took, and peak memory besides.
pub fn python(program: &str, argument: &Path) -> Result<Outcome> {
    run_python(Path::new("python3"), program, &[argument.as_os_str()])
}

/// The same by that interpreter, with several arguments.
pub fn run_python(python: &Path, program: &str, arguments: &[&OsStr]) -> Result<Outcome> {
    let out = Command::new(python).arg("-c").arg(program).args(arguments).output();
    let out = out.context("running python3")?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let nanos = String::from_utf8(out.stdout)?.trim().parse()?;
    Ok(Outcome { nanos, ..Outcome::default() })
}

/// Opens, goes over every entry's name, length and checksum, and reads what describes the package.
pub const LIST: &str = r#"
import sys, time, zipfile, tomllib
def work():
    with zipfile.ZipFile(sys.argv[1]) as z:
        entries = [(i.filename, i.file_size, i.CRC) for i in z.infolist()]
        about = tomllib.loads(z.read("carton.toml").decode())
        index = tomllib.loads(z.read("tensor_data/index.toml").decode())
        rows = [line.rpartition("=") for line in z.read("MANIFEST").decode().splitlines()]
        return entries, about, index, rows
work()
times = []
for _ in range(9):
    start = time.perf_counter_ns()
    work()
    times.append(time.perf_counter_ns() - start)
print(sorted(times)[4])
"#;

/// All files below `folder`, in order.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            out.extend(files(&entry.path())?);
        } else {
            out.push(entry.path());
        }
    }
    out.sort();
    Ok(out)
}

/// Writes all files one after the other into one file by `write` of whole files, then `fsync`.
pub fn copy_into_one(files: &[PathBuf], to: &Path) -> Result<()> {
    let mut out = File::create_new(to)?;
    for path in files {
        out.write_all(&fs::read(path)?)?;
    }
    Ok(out.sync_all()?)
}

/// Hashes every file by `hash`, on `threads` threads.
pub fn hash_all(files: &[PathBuf], threads: usize, hash: fn(&[u8]) -> [u8; 32]) -> Result<()> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                std::hint::black_box(hash(&read::map(path)?));
            }
            Ok(())
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("no panic"))
    })
}

/// As [`hash_all`] on every core.
pub fn hash_on_all_cores(files: &[PathBuf], hash: fn(&[u8]) -> [u8; 32]) -> Result<()> {
    hash_all(files, cores(), hash)
}
