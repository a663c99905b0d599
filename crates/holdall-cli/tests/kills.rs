//! The command is killed at random times while it replaces or edits a file: afterwards the file is either the old one
//! or the new one, complete, and can be edited again.
#![cfg(unix)]

use crate::command::{command, holdall};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How often each command is killed.
const KILLS: u32 = 40;

/// A temporary folder with the files of the tests.
struct Workdir {
    dir: tempfile::TempDir,
    instants: Instants,
}

/// A reproducible pseudo-random sequence of times, as fractions of a whole run.
struct Instants(u64);

impl Instants {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The state of the file after a kill.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Left {
    #[default]
    Old,
    New,
}

impl Workdir {
    fn new(seed: u64) -> Workdir {
        Workdir { dir: tempfile::tempdir().unwrap(), instants: Instants(seed) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file of twelve tensors with about 4 kB per row.
    fn write(&self, name: &str, format: &str, rows: u64, seed: u64) -> PathBuf {
        use holdall::{DType, TensorSpec, WriteOptions, Writer, formats};
        let path = self.path(name);
        let options = WriteOptions::new().with_format(formats::by_name(format).unwrap());
        let mut writer = Writer::create(&path, &options).unwrap();
        let spec = |i: u64| TensorSpec::dense(format!("w{i}"), DType::F32, [rows, 1000 + i]);
        let all: Vec<TensorSpec> = (0..12).map(spec).collect();
        writer.declare(&all).unwrap();
        let mut noise = Instants(seed);
        for spec in all {
            let count = spec.shape.iter().product::<u64>();
            let bytes: Vec<u8> =
                (0..count).flat_map(|_| (noise.next() as f32).to_le_bytes()).collect();
            writer.add(spec, &[&bytes]).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    /// Runs `holdall` with these arguments repeatedly, each time after `before`, and kills it at a random time. `after`
    /// returns the state of the file. Prints the count of each state, and how many temporary files remained until the
    /// next write removed them.
    fn kill(
        &mut self,
        what: &str,
        args: &[&str],
        before: impl Fn(),
        after: impl Fn() -> Left,
    ) -> BTreeMap<Left, u32> {
        before();
        let begun = Instant::now();
        let found = holdall(args).ends_with(0);
        let whole = begun.elapsed();
        assert_eq!(after(), Left::New, "{what}: {found:?}");
        let kept = self.names();
        let mut counts = BTreeMap::new();
        for _ in 0..KILLS {
            before();
            let mut child =
                command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let instant = whole.mul_f64(1.1 * self.instants.next());
            std::thread::sleep(instant.min(Duration::from_secs(5)));
            // It may have finished already.
            let _ = child.kill();
            child.wait().unwrap();
            *counts.entry(after()).or_default() += 1;
        }
        let strays = self.names().iter().filter(|name| !kept.contains(name)).count();
        // Files left by kills are removed by the next named write to that folder.
        self.sweep();
        assert_eq!(self.names().iter().find(|name| !kept.contains(name)), None, "{what}");
        println!("{what}: {counts:?}, {strays} temporary files left in {KILLS} kills of {whole:?}");
        counts
    }

    /// Replaces a file in the same folder.
    fn sweep(&self) {
        let swept = self.path("swept.zt");
        let any = self.names().into_iter().find(|name| name.ends_with(".zt")).unwrap();
        for _ in 0..2 {
            let any = self.path(&any);
            let args = ["convert", text(&any), text(&swept), "--force", "--no-sync"];
            holdall(args).ends_with(0);
        }
        std::fs::remove_file(swept).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let name = |e: std::io::Result<std::fs::DirEntry>| e.unwrap().file_name();
        self.dir.path().read_dir().unwrap().map(|e| name(e).into_string().unwrap()).collect()
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    match holdall([Path::new("diff"), a, b]) {
        ran if ran.status == 0 => true,
        ran if ran.status == 1 && ran.err.is_empty() => false,
        ran => panic!("{ran:?}"),
    }
}

/// Returns which of the two files `path` equals, after verifying it.
fn identify(path: &Path, old: &Path, new: &Path) -> Left {
    let found = holdall([Path::new("verify"), path]);
    assert_eq!(found.status, 0, "{found:?}");
    match (is_same(path, old), is_same(path, new)) {
        (true, false) => Left::Old,
        (false, true) => Left::New,
        both => panic!("{}: {both:?}", path.display()),
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn convert_over_a_file() {
    for encoding in ["raw", "zstd:1"] {
        let mut place = Workdir::new(1);
        let old = place.write("old.zt", "ztensor", 256, 1);
        let new = place.write("new.safetensors", "safetensors", 256, 2);
        let target = place.path("target.zt");
        let args = ["convert", text(&new), text(&target), "--force", "--encoding", encoding];
        let before = || copy(&old, &target);
        let whole_new = || {
            let bytes = std::fs::read(&target).unwrap();
            (bytes != std::fs::read(&old).unwrap()).then_some(bytes)
        };
        before();
        holdall(args).ends_with(0);
        let expected = whole_new().expect("the target is another file");
        place.kill(&format!("convert, {encoding}"), &args, before, || match whole_new() {
            None => Left::Old,
            Some(found) if found == expected => Left::New,
            Some(found) => panic!("{} bytes are neither the old file nor the new", found.len()),
        });
    }
}

#[test]
fn convert_to_a_name_that_is_free() {
    let mut place = Workdir::new(2);
    let from = place.write("from.zt", "ztensor", 256, 1);
    let target = place.path("target.safetensors");
    let args = ["convert", text(&from), text(&target)];
    let before = || drop(std::fs::remove_file(&target));
    place.kill("convert to a free name", &args, before, || match target.exists() {
        false => Left::Old,
        true if is_same(&from, &target) => Left::New,
        true => panic!("a file under the final name that is not whole"),
    });
    // Remove the target before the next `before`.
    let _ = std::fs::remove_file(&target);
}

/// Kills edits of a file of this format and length; `args` follow the file's name.
fn edits(what: &str, seed: u64, format: &str, rows: u64, args: &[&str]) {
    let mut place = Workdir::new(seed);
    let extension = if format == "ztensor" { "zt" } else { format };
    let old = place.write(&format!("old.{extension}"), format, rows, 1);
    let more = place.write("more.zt", "ztensor", 256, 3);
    let edited = place.path(&format!("edited.{extension}"));
    let new = place.path(&format!("new.{extension}"));
    let more = text(&more).to_owned();
    let with = |path: &Path| {
        let own = args.iter().map(|a| if *a == "MORE" { more.clone() } else { (*a).to_owned() });
        ["edit".to_owned(), text(path).to_owned()].into_iter().chain(own).collect::<Vec<_>>()
    };
    std::fs::copy(&old, &new).unwrap();
    holdall(with(&new)).ends_with(0);
    let args = with(&edited);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    place.kill(
        what,
        &args,
        || copy(&old, &edited),
        || {
            let left = identify(&edited, &old, &new);
            // The next edit finds no lock and nothing that stops it.
            holdall(["edit", text(&edited), "set", "after=1"]).ends_with(0);
            holdall(["edit", text(&edited), "unset", "after"]).ends_with(0);
            assert_eq!(identify(&edited, &old, &new), left);
            left
        },
    );
}

const APPEND: [&str; 4] = ["append", "MORE", "--rename", "*=more.*"];

#[test]
fn append_in_place() {
    edits("append in place", 3, "ztensor", 256, &APPEND);
}

#[test]
fn set_attributes_in_place() {
    edits("set in place", 4, "ztensor", 256, &["set", "license=MIT"]);
}

#[test]
fn remove_in_place() {
    edits("remove in place", 5, "ztensor", 256, &["remove", "w3", "w4"]);
}

/// A short file is rewritten, not edited in place.
#[test]
fn append_to_a_short_file() {
    edits("append to a short file", 6, "ztensor", 8, &APPEND);
}

#[test]
fn append_by_writing_anew() {
    edits("append, written anew", 7, "safetensors", 256, &APPEND);
}

#[test]
fn compact() {
    let mut place = Workdir::new(8);
    let old = place.write("old.zt", "ztensor", 256, 1);
    holdall(["edit", text(&old), "remove", "w1", "w5"]).ends_with(0);
    let path = place.path("compacted.zt");
    let len = |path: &Path| path.metadata().unwrap().len();
    place.kill(
        "compact",
        &["edit", text(&path), "compact"],
        || copy(&old, &path),
        || {
            holdall([Path::new("verify"), &path]).ends_with(0);
            assert!(is_same(&path, &old));
            if len(&path) == len(&old) { Left::Old } else { Left::New }
        },
    );
}

/// A delta that is applied in place: the file is the whole base or the whole target.
#[test]
fn delta_in_place() {
    let mut place = Workdir::new(12);
    let (old, made) =
        (place.write("old.zt", "ztensor", 256, 1), place.write("made.zt", "ztensor", 256, 1));
    // The other half of the tensors of another model.
    let other = place.write("other.zt", "ztensor", 256, 2);
    let select = ["w0", "w2", "w4", "w6", "w8", "w10"].map(|name| ["-s", name]).concat();
    let args = ["edit", text(&made), "append", text(&other), "--replace"];
    holdall([&args[..], &select].concat()).ends_with(0);
    let change = place.path("change.delta");
    let args = ["delta", "make", text(&old), text(&made), "-o", text(&change)];
    holdall(args).ends_with(0);
    let path = place.path("changed.zt");
    let args = ["delta", "apply", text(&path), text(&change), "--in-place"];
    copy(&old, &path);
    let tried = holdall(args);
    if tried.err.contains("file system") {
        eprintln!("skipped: {}", tried.err);
        return;
    }
    place.kill(
        "delta in place",
        &args,
        || copy(&old, &path),
        || {
            holdall([Path::new("verify"), &path]).ends_with(0);
            if is_same(&path, &old) {
                return Left::Old;
            }
            assert!(is_same(&path, &made));
            Left::New
        },
    );
}

/// Edits of a model in several files: whenever the command is killed, the old or the new model opens, and the next edit
/// removes leftover files.
fn edits_several(what: &str, seed: u64, format: &str, entry: &str) {
    let mut place = Workdir::new(seed);
    let from = place.write("from.zt", "ztensor", 64, 1);
    let folder = |name: &str| {
        let path = place.path(name);
        let args = ["convert", text(&from), text(&path), "--to", format, "--max-shard-size", "1MB"];
        holdall(args.into_iter().chain(["--no-sync"])).ends_with(0);
        path
    };
    let (old, new, edited) = (folder("old"), folder("new"), place.path("edited"));
    let args = |path: &Path| {
        let rest = ["rename", "w0=first", "w7=second", "w11=third"];
        let path = text(path).to_owned();
        ["edit".to_owned(), path].into_iter().chain(rest.map(str::to_owned)).collect::<Vec<_>>()
    };
    holdall(args(&new)).ends_with(0);
    let named = args(&edited);
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    place.kill(
        what,
        &named,
        || {
            let _ = std::fs::remove_dir_all(&edited);
            std::fs::create_dir(&edited).unwrap();
            for entry in old.read_dir().unwrap().map(|entry| entry.unwrap()) {
                copy(&entry.path(), &edited.join(entry.file_name()));
            }
        },
        || {
            let left = identify(&edited, &old, &new);
            assert_eq!(identify(&edited.join(entry), &old, &new), left);
            holdall(["edit", text(&edited), "set", "after=1"]).ends_with(0);
            holdall(["edit", text(&edited), "unset", "after"]).ends_with(0);
            assert_eq!(identify(&edited, &old, &new), left);
            let count = |path: &Path| path.read_dir().unwrap().count();
            assert_eq!(count(&edited), count(&old));
            left
        },
    );
}

#[test]
fn edit_of_shards_with_an_index() {
    edits_several("edit of shards", 10, "safetensors", "model.safetensors.index.json");
}

#[test]
fn edit_of_shards_with_a_root() {
    edits_several("edit of shards of zTensor 2", 11, "ztensor2", "model.zt");
}

/// After Ctrl-C, which can be handled, not even a temporary folder remains.
#[test]
fn an_interrupted_folder_leaves_nothing() {
    let mut place = Workdir::new(9);
    let from = place.write("from.zt", "ztensor", 256, 1);
    let target = place.path("model");
    let args = ["convert", text(&from), text(&target), "--max-shard-size", "1MB"];
    let begun = Instant::now();
    holdall(args).ends_with(0);
    let whole = begun.elapsed();
    for _ in 0..KILLS / 2 {
        let _ = std::fs::remove_dir_all(&target);
        let mut child = command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole.mul_f64(place.instants.next()));
        let pid = child.id().to_string();
        let _ = std::process::Command::new("kill").args(["-INT", &pid]).status();
        child.wait().unwrap();
        let names = place.names();
        assert!(names.iter().all(|name| name == "from.zt" || name == "model"), "{names:?}");
        assert!(!target.exists() || is_same(&from, &target));
    }
}
