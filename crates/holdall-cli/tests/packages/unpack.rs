//! What `unpack` writes, and leaves when it is killed.

use super::{left, write};
use crate::command::{command, holdall};
use std::path::Path;
use std::time::Duration;

#[test]
fn a_killed_unpack_leaves_nothing_under_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for number in 0..200 {
        write(dir.path(), &format!("from/{number}"), vec![number as u8; 100_000]);
    }
    let (package, to) = (at("p.carton"), at("to"));
    let version = ["--runner", "noop", "--framework-version", "=1.0.0"];
    let begun = std::time::Instant::now();
    holdall([&["pack", &at("from"), "-o", &package][..], &version].concat()).ends_with(0);
    let whole = begun.elapsed();
    let mut seen = [0; 2];
    for part in 0..20 {
        let _ = std::fs::remove_dir_all(&to);
        let mut child = command(["unpack", &package, "-o", &to, "-q"]).spawn().unwrap();
        std::thread::sleep(Duration::from_secs_f64(whole.as_secs_f64() * f64::from(part) / 15.0));
        let _ = child.kill();
        child.wait().unwrap();
        let is_there = Path::new(&to).exists();
        seen[usize::from(is_there)] += 1;
        if is_there {
            assert_eq!(Path::new(&to).join("model").read_dir().unwrap().count(), 200);
        }
    }
    assert!(seen[0] > 0, "{seen:?}");
    // Files left by killed runs are removed by the next run.
    holdall(["unpack", &package, "-o", &to, "--force"]).ends_with(0);
    assert_eq!(left(dir.path()), [""; 0]);
}

#[test]
fn the_next_write_removes_leftovers_of_a_killed_unpack() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    write(dir.path(), "from/x", "x");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny.zt");
    let tiny = write(dir.path(), "tiny.zt", std::fs::read(example).unwrap());
    let pack = ["pack", &at("from"), "--runner", "noop", "--framework-version", "=1.0.0", "-o"];
    holdall([&pack[..], &[&at("p.carton")]].concat()).ends_with(0);
    let writes: [Vec<String>; 5] = [
        ["convert", &tiny, &at("a.zt")].map(str::to_owned).to_vec(),
        ["edit", &tiny, "set", "a=1"].map(str::to_owned).to_vec(),
        ["extract", &tiny, "layers.0.norm.weight", "-o", &at("w.npy")].map(str::to_owned).to_vec(),
        [&pack[..], &[&at("q.carton")]].concat().into_iter().map(str::to_owned).collect(),
        ["unpack", &at("p.carton"), "-o", &at("to")].map(str::to_owned).to_vec(),
    ];
    for args in writes {
        write(dir.path(), ".holdall-abcdef.part/model/deep/x", "half a file");
        write(dir.path(), ".holdall-abcdeg.part", "half a file");
        holdall(&args).ends_with(0);
        assert_eq!(left(dir.path()), [""; 0], "{args:?}");
    }
}

#[test]
fn a_sound_package_can_be_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    // Names like those that unpacking uses itself, and names of the maximum length.
    let long = "x".repeat(255);
    for name in ["mode", ".holdall-mode", ".holdall-abcdef.part", &long, &format!("{long}/{long}")]
    {
        write(dir.path(), &format!("from {}/{name}", name.len()), "x");
        let from = dir.path().join(format!("from {}", name.len()));
        let (from, to) = (from.to_str().unwrap(), dir.path().join("to"));
        let package = dir.path().join("p.carton");
        let (package, to) = (package.to_str().unwrap(), to.to_str().unwrap());
        let version = ["--runner", "noop", "--framework-version", "=1.0.0", "--force"];
        holdall([&["pack", from, "-o", package][..], &version].concat()).ends_with(0);
        holdall(["verify", "--strict", package]).ends_with(0);
        holdall(["unpack", package, "-o", to, "--force"]).ends_with(0);
        assert_eq!(std::fs::read(Path::new(to).join("model").join(name)).unwrap(), b"x");
        holdall(["verify", "--strict", to]).ends_with(0);
        holdall(["unpack", "--model", package, "-o", to, "--force"]).ends_with(0);
        assert_eq!(std::fs::read(Path::new(to).join(name)).unwrap(), b"x");
        std::fs::remove_dir_all(from).unwrap();
    }
}

#[test]
fn a_file_where_a_folder_should_be_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(dir.path(), "m.bin", b"weights");
    holdall(["pack", &model, "--runner", "noop", "--framework-version", "1"]).ends_with(0);
    let package = dir.path().join("m.carton");
    let args = ["unpack", package.to_str().unwrap(), "-o", &model, "-f", "--json"];
    let e = holdall(args).ends_with(2).error();
    assert_eq!(e["code"], "package/target");
    // The hint does not suggest an option that is already given.
    assert!(!e["hint"].as_str().unwrap().contains("--force"), "{e}");
    assert_eq!(std::fs::read(&model).unwrap(), b"weights");
}

/// Unpacking does not replace the folder that contains the package, because that would delete the package.
#[test]
fn a_package_is_not_unpacked_over_itself() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(dir.path(), "m.bin", b"weights");
    write(dir.path(), "here/inner/other", b"other");
    let package = dir.path().join("here/inner/p.carton");
    let package = package.to_str().unwrap();
    let version = ["--runner", "noop", "--framework-version", "1"];
    holdall([&["pack", &model, "-o", package][..], &version].concat()).ends_with(0);
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut tries = vec![(package.to_owned(), at("here")), (package.to_owned(), at("here/inner"))];
    tries.push((package.to_owned(), at("here/inner/../../here")));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(package, at("link.carton")).unwrap();
        tries.push((at("link.carton"), at("here")));
        std::os::unix::fs::symlink(at("."), at("around")).unwrap();
        tries.push((package.to_owned(), at("around/here")));
    }
    for (package, to) in tries {
        for more in [&["--json"][..], &["--json", "--model"]] {
            let e = holdall([&["unpack", &package, "-o", &to, "-f"][..], more].concat());
            let e = e.ends_with(2).error();
            assert_eq!(e["code"], "package/target", "{to}");
            assert!(e["hint"].as_str().unwrap().contains("move the package out"), "{e}");
        }
        assert!(Path::new(&at("here/inner/other")).exists());
    }
    holdall(["verify", package]).ends_with(0);
    // A neighboring folder whose name begins with that of the package can be written.
    holdall(["unpack", package, "-o", &at("here/inner/p")]).ends_with(0);
    holdall(["unpack", package, "-o", &at("here/inner/p"), "-f"]).ends_with(0);
    // An unpacked package is not packed onto itself.
    let itself = ["unpack", &at("here/inner/p"), "-o", &at("here/inner/p"), "-f", "--model"];
    holdall(itself).ends_with(2);
    holdall(["verify", &at("here/inner/p")]).ends_with(0);
}
