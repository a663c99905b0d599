//! Files of packages are held against their hashes and limits.

use super::{sound_and_altered, write};
use crate::command::holdall;

/// A requirement of the specification that packages can be read without is a finding of its own rule in strict mode,
/// and a warning otherwise.
#[test]
fn strict_verification_checks_all_requirements() {
    let dir = tempfile::tempdir().unwrap();
    let card = r#"
spec_version = 1
required_platforms = ["linux"]
model_description = "<b>[a](http://example.com)</b> ![b](@misc/none.png)"
[[input]]
name = "x"
dtype = "uint8"
shape = []
[[example]]
name = "first"
inputs = { y = "@misc/note.txt" }
[runner]
runner_name = "noop"
required_framework_version = "=1.0.0"
runner_compat_version = 1
"#;
    write(dir.path(), "p/carton.toml", card);
    write(dir.path(), "p/misc/note.txt", "hello");
    let folder = dir.path().join("p");
    let folder = folder.to_str().unwrap();
    let codes = [
        "carton/no-model",
        "carton/no-outputs",
        "carton/example",
        "carton/platform",
        "carton/description-link",
        "carton/description-html",
    ];
    let packed = format!("{folder}.carton");
    holdall(["pack", folder, "-o", &packed]).ends_with(0);
    for package in [folder, &packed] {
        let usual = holdall(["verify", package]).ends_with(0).out;
        let strict = holdall(["verify", "--strict", package]).ends_with(1).out;
        for code in codes {
            let count = |out: &str, start: &str| {
                let is_it = |line: &&str| {
                    line.trim_start().starts_with(start) && line.ends_with(&format!("[{code}]"))
                };
                out.lines().filter(is_it).count()
            };
            assert_eq!((count(&usual, "warning: "), count(&usual, "bad: ")), (1, 0), "{usual}");
            assert_eq!((count(&strict, "warning: "), count(&strict, "bad: ")), (0, 1), "{strict}");
        }
        let report = holdall(["verify", "--strict", "--json", package]).ends_with(1).json();
        let found: Vec<&str> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["code"].as_str().unwrap())
            .collect();
        assert_eq!(found, codes, "{report}");
        assert_eq!(
            (&report["verdict"], &report["finding_count"]),
            (&"bad".into(), &codes.len().into())
        );
        let link = report["findings"][4]["message"].as_str().unwrap();
        assert!(link.contains("`http://example.com`") && link.contains("and 1 more"), "{link}");
    }
}

#[test]
fn a_member_is_checked_against_its_hash_before_use() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (sound, altered) = sound_and_altered(dir.path());
    let inside = |package: &str| format!("{package}!/model/t.safetensors");
    for (package, status) in [(&sound, 0), (&altered, 1)] {
        let file = inside(package);
        holdall(["verify", &file]).ends_with(status);
        holdall(["convert", &file, &at("o.zt"), "--force"]).ends_with(status);
        holdall(["extract", &file, "x", "-o", &at("x.npy"), "--force"]).ends_with(status);
        holdall(["inspect", &file]).ends_with(0);
    }
    let no = holdall(["diff", &inside(&sound), &inside(&altered)]).ends_with(1);
    assert!(no.err.contains("carton/hash") && no.err.contains("!/model/t.safetensors"), "{no:?}");
}

#[test]
fn a_package_with_changed_files_is_not_compared() {
    let dir = tempfile::tempdir().unwrap();
    let (sound, altered) = sound_and_altered(dir.path());
    let pairs = [(&altered, &altered), (&sound, &altered), (&altered, &sound)];
    for (a, b) in pairs {
        let no = holdall(["diff", a, b]).ends_with(1);
        assert!(
            no.err.contains("carton/hash") && no.err.contains("!/model/t.safetensors"),
            "{no:?}"
        );
    }
}

/// A file of a package is compared with its hash wherever the package is, and whichever command reads the file.
#[test]
fn a_package_inside_an_archive_is_held_against_its_hashes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (sound, altered) = sound_and_altered(dir.path());
    let mut members = Vec::new();
    for (name, path) in [("in/sound.carton", &sound), ("in/altered.carton", &altered)] {
        let bytes = std::fs::read(path).unwrap();
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[156] = b'0';
        header[148..156].fill(b' ');
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        members.extend_from_slice(&header);
        members.extend_from_slice(&bytes);
        members.resize(members.len().next_multiple_of(512), 0);
    }
    members.resize(members.len() + 1024, 0);
    let tar = write(dir.path(), "a.tar", members);
    let version = ["--runner", "noop", "--framework-version", "=1.0.0"];
    for (name, direct, status) in [("sound", &sound, 0), ("altered", &altered, 1)] {
        for package in [format!("{tar}!/in/{name}.carton"), direct.clone()] {
            let file = format!("{package}!/model/t.safetensors");
            holdall(["inspect", &file]).ends_with(0);
            let packed = at("p.carton");
            let pack = ["pack", &file, "-o", &packed, "--force"];
            for args in [
                vec!["verify", &file],
                vec!["extract", &file, "x", "-o", &at("x.npy"), "--force"],
                vec!["convert", &file, &at("x.zt"), "--force"],
                [&pack[..], &version].concat(),
            ] {
                let ran = holdall(&args).ends_with(status);
                let says = ran.err.contains("carton/hash")
                    || ran.out.contains("carton/hash")
                    || ran.err.contains("file/digest")
                    || ran.out.contains("file/digest");
                assert_eq!(says, status == 1, "{args:?} {ran:?}");
            }
            // A scan reads the files whether or not they match their hashes.
            holdall(["scan", &file]).ends_with(0);
        }
    }
}

#[test]
fn compressed_files_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(dir.path(), "w.bin", vec![0; 1 << 20]);
    let words = format!("words={}", write(dir.path(), "words.json", r#"["one", "two"]"#));
    let version = ["--runner", "noop", "--framework-version", "=1.0.0", "--tensor", &words];
    for method in ["zstd", "deflate"] {
        let package = at("p.carton");
        let pack = ["pack", &model, "-o", &package, "--compress", method, "--force"];
        holdall([&pack[..], &version].concat()).ends_with(0);
        let limits = ["--limit", "decoded-len=1000", "--limit", "expansion=2"];
        let result = holdall([&["verify", &package][..], &limits].concat()).ends_with(4);
        assert!(result.out.contains("not fully verified"), "{result:?}");
        assert!(result.out.contains("p.carton!/model/w.bin"), "{result:?}");
        let json = holdall([&["verify", &package, "--json"][..], &limits].concat()).ends_with(4);
        assert_eq!(json.json()["over_limit"][0]["code"], "zstd/decoded-len");
        let no = holdall([&["unpack", &package, "-o", &at("no")][..], &limits].concat());
        assert!(no.ends_with(4).err.contains("p.carton!/model/w.bin"));
        holdall(["verify", &package]).ends_with(0);
        // One bit of the compressed data is flipped: the file is named whatever the error is.
        let mut bytes = std::fs::read(&package).unwrap();
        let name = b"model/w.bin";
        let first = bytes.windows(name.len()).position(|w| w == name).unwrap();
        let extra = usize::from(bytes[first - 2]) + 256 * usize::from(bytes[first - 1]);
        bytes[first + name.len() + extra + 12] ^= 0x10;
        let bad = write(dir.path(), "bad.carton", bytes);
        let result = holdall(["verify", &bad]).ends_with(1);
        assert!(result.out.contains("bad.carton!/model/w.bin"), "{result:?}");
        let result = holdall(["unpack", &bad, "-o", &at("no")]).ends_with(1);
        assert!(result.err.contains("bad.carton!/model/w.bin"), "{result:?}");
    }
}
