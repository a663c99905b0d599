//! Packages on the command line: packed, inspected, verified, unpacked, compared, and killed meanwhile.
#![cfg(feature = "carton")]

use crate::command::{accept, command, holdall, holdall_with};
use std::path::Path;
use std::time::Duration;

/// Returns a length-delimited field of a protocol buffer.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// Returns an ONNX graph that only declares an input `x` of this type and of shape `[n, 2]`.
fn onnx(element: u8) -> Vec<u8> {
    let dims = [field(1, &field(2, b"n")), field(1, &[0x08, 2])].concat();
    let tensor = [vec![0x08, element], field(2, &dims)].concat();
    let value = [field(1, b"x"), field(2, &field(1, &tensor))].concat();
    let graph = [field(2, b"g"), field(11, &value), field(12, &value)].concat();
    [vec![0x08, 8], field(7, &graph), field(8, &[0x10, 17])].concat()
}

const CARD: &str = r#"
spec_version = 1
model_name = "Echo"
[[input]]
name = "x"
dtype = "float32"
shape = ["n", 2]
[[output]]
name = "x"
dtype = "float32"
shape = ["n", 2]
[[self_test]]
inputs = { x = "@tensor_data/x" }
expected_out = { x = "@tensor_data/x" }
[[example]]
inputs = { x = "@misc/note.txt" }
[runner]
runner_name = "noop"
required_framework_version = "=1.0.0"
runner_compat_version = 1
"#;

/// Returns an `.npy` file of ones.
fn npy(shape: &str, count: usize) -> Vec<u8> {
    let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let head = format!("{head:<117}\n");
    let len = (head.len() as u16).to_le_bytes();
    let ones = std::iter::repeat_n(1f32.to_le_bytes(), count).flatten();
    b"\x93NUMPY\x01\x00".iter().copied().chain(len).chain(head.into_bytes()).chain(ones).collect()
}

fn write(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_model_file_says_what_runs_it() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(dir.path(), "m.onnx", onnx(1));
    let made = holdall(["pack", &model, "--name", "M", "--json"]).ends_with(0).json();
    let package = dir.path().join("m.carton");
    let package = package.to_str().unwrap();
    assert_eq!((&made["package"], &made["files"]), (&package.into(), &3.into()));
    let card = holdall(["inspect", package, "--json"]).ends_with(0).json();
    assert_eq!(card["hash"], made["hash"]);
    assert_eq!(card["runner"]["name"], "onnx");
    assert_eq!(card["runner"]["required_framework_version"], ">=1.12, <2");
    assert_eq!(card["inputs"][0]["shape"], serde_json::json!(["n", 2]));
    assert_eq!(card["inputs"][0]["dtype"], "float32");
    let text = holdall(["inspect", package]).ends_with(0).out;
    assert!(text.contains("[n, 2]") && text.contains("model/m.onnx"), "{text}");
    // Element types that packages do not have.
    let model = write(dir.path(), "half.onnx", onnx(10));
    let made = holdall(["pack", &model]).ends_with(0);
    assert!(made.err.contains("float16"), "{made:?}");
    let no = holdall(["pack", &write(dir.path(), "bad.onnx", b"\x08")]).ends_with(1);
    assert!(no.err.contains("protobuf/broken"), "{no:?}");
    let no = holdall(["pack", &write(dir.path(), "w.bin", b"w")]).ends_with(2);
    assert!(no.err.contains("--runner"), "{no:?}");
    holdall(["pack", "no-such-file"]).ends_with(3);
}

/// A requirement of the specification that packages can be read without is a finding of its own rule in strict mode,
/// and a warning otherwise.
#[test]
fn what_the_specification_demands_is_found_strictly() {
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
            let told = |out: &str, start: &str| {
                let is_it = |line: &&str| {
                    line.trim_start().starts_with(start) && line.ends_with(&format!("[{code}]"))
                };
                out.lines().filter(is_it).count()
            };
            assert_eq!((told(&usual, "warning: "), told(&usual, "bad: ")), (1, 0), "{usual}");
            assert_eq!((told(&strict, "warning: "), told(&strict, "bad: ")), (0, 1), "{strict}");
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
fn self_tests_and_examples_are_given_by_options() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(dir.path(), "m.onnx", onnx(1));
    let x = write(dir.path(), "x.npy", npy("(3, 2)", 6));
    let png = write(dir.path(), "rose.png", b"\x89PNG\r\n\x1a\n");
    let pack = |out: &str, more: &[&str]| {
        let out = at(out);
        let fixed =
            ["pack", &model, "-o", &out, "--force", "--runner", "noop", "--framework-version", "1"];
        holdall(fixed.into_iter().chain(more.iter().copied()))
    };
    let same = format!("three: x={x} -> x={x}");
    let image = format!("a rose, red: x=[[1, 2]], image={png} -> label=\"red, as \\\"it\\\" is\"");
    let given = ["--self-test", &same, "--self-test", "x=[[0.5, 1]]", "--example", &image];
    pack("a.carton", &given).ends_with(0);
    pack("b.carton", &given).ends_with(0);
    assert!(std::fs::read(at("a.carton")).unwrap() == std::fs::read(at("b.carton")).unwrap());
    let tested = holdall(["test", &at("a.carton"), "--json"]).ends_with(0).json();
    assert_eq!((&tested["passed"], &tested["failed"]), (&2.into(), &0.into()));
    assert_eq!(tested["tests"][0]["name"], "three");
    let card = holdall(["inspect", &at("a.carton"), "--json"]).ends_with(0).json();
    let example = &card["examples"][0];
    assert_eq!(
        (&example["name"], &example["inputs"]["image"]),
        (&"a rose, red".into(), &"@misc/rose.png".into())
    );
    assert_eq!(example["outputs"]["label"], "@tensor_data/example_0.outputs.label");
    // With the declared type.
    let tensor = holdall(["inspect", &at("a.carton"), "-t", "self_test_1.inputs.x", "--json"])
        .ends_with(0)
        .json();
    assert_eq!(tensor["tensors"][0]["components"]["data"]["dtype"], "f32");
    let page = holdall(["inspect", &at("a.carton"), "--html"]).ends_with(0).out;
    assert!(page.contains("data:image/png;base64,iVBORw0KGgo="), "{page}");
    let other = write(&dir.path().join("sub"), "rose.png", "other");
    for (option, value, code) in [
        ("--self-test", "x=none.npy", "io/failed"),
        ("--self-test", "x=none", "input/value"),
        ("--self-test", "x=[[\"a\"]]", "input/value"),
        ("--self-test", "x", "write NAME=FILE"),
        ("--example", &format!("a={png}, b={other}"), "rose.png"),
    ] {
        let refused = pack("c.carton", &[option, value]);
        assert!(refused.err.contains(code) && refused.status != 0, "{value}: {refused:?}");
        assert!(!Path::new(&at("c.carton")).exists());
    }
}

#[test]
fn a_package_goes_round() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(dir.path(), "w.bin", [7; 1000]);
    let card = write(dir.path(), "card.toml", CARD);
    let x = format!("x={}", write(dir.path(), "x.npy", npy("(3, 2)", 6)));
    let words = format!("words={}", write(dir.path(), "words.json", r#"[["a", "b"]]"#));
    let note = write(dir.path(), "note.txt", "hello");
    let pack = |out: &str, x: &str| {
        let out = at(out);
        holdall([
            "pack",
            &model,
            "-o",
            &out,
            "--from-toml",
            &card,
            "--tensor",
            x,
            "--tensor",
            &words,
            "--misc",
            &note,
            "--force",
        ])
    };
    pack("a.carton", &x).ends_with(0);
    pack("b.carton", &x).ends_with(0);
    assert!(std::fs::read(at("a.carton")).unwrap() == std::fs::read(at("b.carton")).unwrap());
    let report = holdall(["verify", &at("a.carton"), "--strict", "--json"]).ends_with(0).json();
    assert_eq!((&report["hashed"], &report["tensors"]), (&6.into(), &2.into()));
    holdall(["unpack", &at("a.carton"), "-o", &at("a")]).ends_with(0);
    holdall(["unpack", &at("a.carton"), "-o", &at("a")]).ends_with(2);
    holdall(["unpack", &at("a.carton"), "-o", &at("a"), "--force"]).ends_with(0);
    holdall(["unpack", &at("a.carton"), "-o", &at("only"), "--model"]).ends_with(0);
    assert_eq!(std::fs::read(at("only/w.bin")).unwrap(), [7; 1000]);
    holdall(["verify", &at("a")]).ends_with(0);
    holdall(["pack", &at("a"), "-o", &at("c.carton")]).ends_with(0);
    assert!(std::fs::read(at("a.carton")).unwrap() == std::fs::read(at("c.carton")).unwrap());
    let hashes = holdall(["hash", &at("a.carton"), &at("a")]).ends_with(0).out;
    let hashes: Vec<&str> = hashes.lines().map(|line| &line[..64]).collect();
    assert_eq!(hashes[0], hashes[1]);
    let tensor = holdall(["inspect", &at("a.carton"), "-t", "x"]).ends_with(0).out;
    assert!(tensor.contains("[3, 2], 6 elements"), "{tensor}");
    // A different package name and a different file.
    holdall(["diff", &at("a.carton"), &at("a")]).ends_with(0);
    write(dir.path(), "a/model/w.bin", [8; 1000]);
    holdall(["verify", &at("a")]).ends_with(1);
    let diff = holdall(["diff", &at("a.carton"), &at("a")]).ends_with(1);
    assert!(diff.out.contains("model/w.bin") && diff.out.contains("altered"), "{diff:?}");
    holdall(["pack", &at("a"), "-o", &at("d.carton"), "--name", "Other"]).ends_with(0);
    let diff = holdall(["diff", &at("a.carton"), &at("d.carton"), "--json"]).ends_with(1).json();
    assert_eq!(diff["fields"][0]["name"], "model_name");
    assert_eq!(diff["files"][0]["name"], "model/w.bin");
    // Tensors that do not match the declared inputs cause a warning, and an error in strict mode.
    let odd = format!("x={}", write(dir.path(), "odd.npy", npy("(3, 1)", 3)));
    let odd = pack("odd.carton", &odd).ends_with(0);
    assert!(odd.err.contains("carton/self-test"), "{odd:?}");
    holdall(["verify", &at("odd.carton")]).ends_with(0);
    holdall(["verify", &at("odd.carton"), "--strict"]).ends_with(1);
}

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

/// Returns the names of incomplete files in a folder.
fn left(folder: &Path) -> Vec<String> {
    let names = folder.read_dir().unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".part")).collect()
}

#[test]
fn what_a_killed_unpack_left_goes_with_the_next_write_of_any_kind() {
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

/// Writes a sound package of one safetensors file, and a copy in which the last element differs.
fn sound_and_altered(dir: &Path) -> (String, String) {
    let header = r#"{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
    let len = (header.len() as u64).to_le_bytes();
    let file = [&len[..], header.as_bytes(), b"tail"].concat();
    let model = write(dir, "t.safetensors", file);
    let sound = dir.join("sound.carton").to_str().unwrap().to_owned();
    let version = ["--runner", "noop", "--framework-version", "=1.0.0"];
    holdall([&["pack", &model, "-o", &sound][..], &version].concat()).ends_with(0);
    let mut bytes = std::fs::read(&sound).unwrap();
    let at = bytes.windows(4).position(|w| w == b"tail").unwrap();
    bytes[at] = b'T';
    (sound, write(dir, "altered.carton", bytes))
}

#[test]
fn standard_input_may_be_a_package() {
    let dir = tempfile::tempdir().unwrap();
    let (sound, altered) = sound_and_altered(dir.path());
    let hash = holdall(["hash", &sound]).ends_with(0).out;
    for is_piped in [false, true] {
        let with = |args: &[&str], from: &str| {
            if is_piped {
                let ran = holdall_with(args, &std::fs::read(from).unwrap());
                return (ran.status, ran.out);
            }
            let file = std::fs::File::open(from).unwrap();
            let ran = command(args).stdin(file).output().unwrap();
            (ran.status.code().unwrap(), String::from_utf8(ran.stdout).unwrap())
        };
        assert_eq!(with(&["verify", "-"], &sound).0, 0);
        let bad = with(&["verify", "-"], &altered);
        assert!(bad.0 == 1 && bad.1.contains("carton/hash"), "{bad:?}");
        assert_eq!(with(&["hash", "-"], &sound).1, hash);
        let card = with(&["inspect", "-"], &sound).1;
        assert!(card.contains("model/t.safetensors"), "{card}");
        assert_eq!(with(&["diff", "-", &sound], &sound).0, 0);
        let to = dir.path().join(format!("to-{is_piped}"));
        let to = to.to_str().unwrap();
        assert_eq!(with(&["unpack", "-", "-o", to], &altered).0, 1);
        assert_eq!(with(&["unpack", "-", "-o", to], &sound).0, 0);
        assert!(Path::new(to).join("carton.toml").exists());
    }
}

#[test]
fn a_file_inside_is_held_against_its_hash_before_it_is_used() {
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
fn a_package_whose_files_are_not_what_it_says_is_not_compared() {
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

/// A package inside a package is recognized by its contents and treated as a package, with all its files.
#[test]
fn a_package_inside_a_package_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let (sound, altered) = sound_and_altered(dir.path());
    let folder = dir.path().join("outer");
    write(&folder, "model/sound.carton", std::fs::read(&sound).unwrap());
    write(&folder, "model/altered.carton", std::fs::read(&altered).unwrap());
    let outer = dir.path().join("outer.carton").to_str().unwrap().to_owned();
    let version = ["--runner", "noop", "--framework-version", "=1.0.0"];
    let pack = ["pack", folder.to_str().unwrap(), "-o", &outer];
    holdall([&pack[..], &version].concat()).ends_with(0);
    let inside = |name: &str| format!("{outer}!/model/{name}.carton");
    holdall(["verify", &inside("sound")]).ends_with(0);
    let bad = holdall(["verify", "--json", &inside("altered")]).ends_with(1).json();
    assert_eq!(bad["findings"][0]["code"], "carton/hash");
    let card = holdall(["inspect", &inside("sound")]).ends_with(0).out;
    assert!(card.contains("model/t.safetensors"), "{card}");
    let same = holdall(["diff", &inside("sound"), &sound]).ends_with(0).out;
    assert!(same.contains("by their hashes"), "{same}");
}

#[test]
fn what_is_compressed_is_held_to_limits() {
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
        let told = holdall([&["verify", &package][..], &limits].concat()).ends_with(4);
        assert!(told.out.contains("not fully verified"), "{told:?}");
        assert!(told.out.contains("p.carton!/model/w.bin"), "{told:?}");
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
        let told = holdall(["verify", &bad]).ends_with(1);
        assert!(told.out.contains("bad.carton!/model/w.bin"), "{told:?}");
        let told = holdall(["unpack", &bad, "-o", &at("no")]).ends_with(1);
        assert!(told.err.contains("bad.carton!/model/w.bin"), "{told:?}");
    }
}

#[test]
fn a_file_of_another_format_is_no_package() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    sound_and_altered(dir.path());
    for command in ["unpack", "hash", "run"] {
        let no = holdall([command, &at("t.safetensors")]).ends_with(2);
        assert!(no.err.contains("package/no-package"), "{no:?}");
    }
}

#[test]
fn what_cannot_be_packed_is_misuse() {
    let dir = tempfile::tempdir().unwrap();
    let (sound, _) = sound_and_altered(dir.path());
    let out = dir.path().join("out.carton");
    let pack = |from: &str, version: &str| {
        let to = out.to_str().unwrap();
        holdall(["pack", from, "-o", to, "--runner", "noop", "--framework-version", version])
    };
    assert!(pack(&sound, "=1.0.0").ends_with(2).err.contains("a package already"));
    let model = write(dir.path(), "w.bin", b"w");
    assert!(pack(&model, "abc").ends_with(2).err.contains("--framework-version"));
    pack(&model, "=1.0.0").ends_with(0);
}

/// For a folder without `carton.toml`, the command does not guess, and its error has a hint.
#[test]
fn a_folder_of_model_files_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "files/model.bin", b"weights");
    let folder = dir.path().join("files");
    let folder = folder.to_str().unwrap();
    for command in [
        vec!["inspect", folder],
        vec!["verify", folder],
        vec!["hash", folder],
        vec!["test", folder],
        vec!["run", folder],
    ] {
        let e = holdall([&command[..], &["--json"]].concat()).ends_with(1).error();
        assert_eq!(e["code"], "carton/missing-file", "{command:?}");
        let hint = e["hint"].as_str().unwrap();
        assert!(hint.contains("name the runner: `--runner NAME --framework-version"), "{hint}");
    }
    // Following the hint helps.
    holdall(["pack", folder, "--runner", "noop", "--framework-version", "1"]).ends_with(0);
    holdall(["verify", "--strict", &format!("{folder}.carton")]).ends_with(0);
}

#[test]
fn a_folder_without_a_model_is_not_packed() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.carton");
    for empty in ["empty", "inner/model", "deep/model/more"] {
        std::fs::create_dir_all(dir.path().join(empty)).unwrap();
        let from = dir.path().join(empty.split('/').next().unwrap());
        let args = ["pack", from.to_str().unwrap(), "-o", to.to_str().unwrap(), "--json"];
        let e = holdall([&args[..], &["--runner", "noop", "--framework-version", "1"]].concat());
        let e = e.ends_with(2).error();
        assert_eq!(e["code"], "package/part", "{e}");
        assert!(e["message"].as_str().unwrap().contains("no files of a model"), "{e}");
        assert!(!to.exists());
    }
}

/// Texts given as options are read back from the package unchanged.
#[test]
fn what_is_packed_is_strictly_sound() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(dir.path(), "m.bin", b"weights");
    let odd = "a \"quote\", a \\ and\ttabs\nü\u{7f}";
    let args = ["pack", &model, "--runner", "noop", "--framework-version", "1", "--license", odd];
    let more = ["--platform", odd, "--platform", "", "--name", odd, "--about", odd];
    let packed = holdall([&args[..], &more].concat()).ends_with(0);
    let package = dir.path().join("m.carton");
    let package = package.to_str().unwrap();
    // No platform has such a name, which is reported at once.
    assert!(packed.err.contains("(and 1 more) [carton/platform]"), "{packed:?}");
    let report = holdall(["verify", "--strict", package, "--json"]).ends_with(1).json();
    let found = &report["findings"];
    assert_eq!(
        (&report["finding_count"], &found[0]["code"]),
        (&1.into(), &"carton/platform".into())
    );
    holdall(["verify", package]).ends_with(0);
    let card = holdall(["inspect", package, "--json"]).ends_with(0).json();
    assert_eq!((&card["license"], &card["required_platforms"][0]), (&odd.into(), &odd.into()));
    let more = ["--platform", "aarch64-apple-darwin", "--name", odd, "--about", odd, "--force"];
    let packed = holdall([&args[..], &more].concat()).ends_with(0);
    assert!(!packed.err.contains("warning"), "{packed:?}");
    let unversioned = holdall(["pack", &model, "--runner", "noop"]).ends_with(2);
    assert!(unversioned.err.contains("with which versions of `noop`"), "{unversioned:?}");
    holdall(["verify", "--strict", package]).ends_with(0);
}

#[test]
fn a_file_where_a_folder_should_be_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(dir.path(), "m.bin", b"weights");
    holdall(["pack", &model, "--runner", "noop", "--framework-version", "1"]).ends_with(0);
    let package = dir.path().join("m.carton");
    let args = ["unpack", package.to_str().unwrap(), "-o", &model, "-f", "--json"];
    let e = holdall(args).ends_with(2).error();
    assert_eq!(e["code"], "package/place");
    // The hint does not suggest an option that is already given.
    assert!(!e["hint"].as_str().unwrap().contains("--force"), "{e}");
    assert_eq!(std::fs::read(&model).unwrap(), b"weights");
}

/// Packages have no boolean type: the booleans of a graph are declared as numbers, which the runner accepts and
/// returns.
#[cfg(feature = "run-onnx")]
#[test]
fn booleans_of_a_graph_are_declared_as_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let value = |name: &[u8]| {
        let dims = [field(1, &field(2, b"n")), field(1, &[0x08, 2])].concat();
        let tensor = [vec![0x08, 9], field(2, &dims)].concat();
        [field(1, name), field(2, &field(1, &tensor))].concat()
    };
    let node = [field(1, b"x"), field(2, b"y"), field(4, b"Not")].concat();
    let graph = [field(1, &node), field(2, b"g"), field(11, &value(b"x")), field(12, &value(b"y"))];
    let model = [vec![0x08, 8], field(7, &graph.concat()), field(8, &[0x10, 17])].concat();
    let packed = holdall(["pack", &write(dir.path(), "not.onnx", model)]).ends_with(0);
    assert_eq!(packed.err, "");
    let package = dir.path().join("not.carton");
    let package = package.to_str().unwrap();
    let card = holdall(["inspect", package, "--json"]).ends_with(0).json();
    for side in ["inputs", "outputs"] {
        assert_eq!(card[side][0]["dtype"], "uint8", "{card}");
    }
    let ran = holdall(["run", package, "-i", "x=[[1, 0], [0, 0]]", "--json"]).ends_with(0);
    assert!(ran.out.replace(' ', "").contains("[[0,1],[1,1]]"), "{}", ran.out);
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
            assert_eq!(e["code"], "package/place", "{to}");
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

#[test]
fn a_damaged_model_is_packed_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let sound = std::fs::read(accept("safetensors/st_dense_all.safetensors")).unwrap();
    let half = &sound[..sound.len() / 2];
    let pack = |model: &str| {
        let package = dir.path().join("p.carton").to_str().unwrap().to_owned();
        let version = ["--runner", "noop", "--framework-version", "1"];
        holdall([&["pack", model, "-f", "-o", &package][..], &version].concat()).ends_with(0).err
    };
    let alone = write(dir.path(), "cut.safetensors", half);
    let said = pack(&alone);
    assert!(said.contains("package/unread") && said.contains("`cut.safetensors`"), "{said}");
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    write(&folder, "model.safetensors", half);
    let said = pack(folder.to_str().unwrap());
    assert!(said.contains("package/unread"), "{said}");
    // An index alone is refused: it is only a part of a model.
    let index = write(
        &folder,
        "model.safetensors.index.json",
        r#"{"weight_map": {"a": "model.safetensors"}}"#,
    );
    let to = dir.path().join("index.carton").to_str().unwrap().to_owned();
    let args =
        ["pack", &index, "-o", &to, "--json", "--runner", "noop", "--framework-version", "1"];
    assert_eq!(holdall(args).error()["code"], "package/part");
    assert!(!Path::new(&to).exists());
    // Neither message appears for a sound file or for a file that is not a tensor file.
    for (name, bytes) in [("sound.safetensors", &sound[..]), ("m.bin2", half)] {
        assert_eq!(pack(&write(dir.path(), name, bytes)), "", "{name}");
    }
}

#[test]
fn a_package_is_not_written_among_what_is_packed() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(dir.path(), "folder/m.bin", b"weights");
    std::fs::create_dir(dir.path().join("folder/deep")).unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut names = vec!["folder/o.carton", "folder/deep/o.carton", "folder/../folder/o.carton"];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(at("folder"), at("around")).unwrap();
        std::os::unix::fs::symlink(at("folder/o.carton"), at("dangling")).unwrap();
        names.extend(["around/o.carton", "dangling"]);
    }
    let version = ["--runner", "noop", "--framework-version", "1"];
    let pack = |args: &[&str]| holdall([&["pack"][..], args, &version, &["--json"]].concat());
    for name in names {
        for more in [&[][..], &["-f"]] {
            let to = at(name);
            let e = pack(&[&[&at("folder"), "-o", &to][..], more].concat()).ends_with(2).error();
            assert_eq!(e["code"], "package/output-inside", "{name}");
            assert!(e["hint"].as_str().unwrap().contains("another folder"), "{e}");
        }
    }
    assert!(!Path::new(&at("folder/o.carton")).exists());
    // The single file that is packed is not overwritten either.
    let e = pack(&[&model, "-o", &model, "-f"]).ends_with(2).error();
    assert_eq!(e["code"], "package/output-inside");
    assert_eq!(std::fs::read(&model).unwrap(), b"weights");
    // By default, the package is written next to the folder, also if the folder is the current one.
    pack(&[&at("folder")]).ends_with(0);
    pack(&[&at("folder"), "-f"]).ends_with(0);
    pack(&[&at("folder/deep/.."), "-f"]).ends_with(0);
    let mut within = command(["pack", ".", "-f", "--json"]);
    let within = within.args(version).current_dir(at("folder")).output().unwrap();
    assert!(within.status.success(), "{within:?}");
    // A path that merely begins with the folder's name is not inside the folder.
    pack(&[&at("folder"), "-o", &at("folder.more")]).ends_with(0);
}

/// Examples fit the narrowest usual terminal; the sentences below them use its full width.
#[test]
fn examples_are_not_wrapped() {
    for name in ["pack", "unpack", "hash"] {
        let under = |columns: &str| {
            let ran = command(["help", name]).env("COLUMNS", columns).output().unwrap();
            let text = String::from_utf8(ran.stdout).unwrap();
            let (examples, sentences) =
                text.split_once("Examples:").unwrap().1.rsplit_once("\n\n").unwrap();
            (examples.to_owned(), sentences.to_owned())
        };
        let (narrow, wide) = (under("80"), under("100"));
        assert_eq!(narrow.0, wide.0, "{name}");
        assert_eq!(narrow.1.replace('\n', " "), wide.1.replace('\n', " "), "{name}");
        let mut lines = narrow.0.lines().chain(narrow.1.lines());
        assert!(lines.all(|line| line.chars().count() <= 80), "{narrow:?}");
        assert!(narrow.0.lines().count() > 2, "{narrow:?}");
    }
}

#[test]
fn a_folder_whose_description_is_linked_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(dir.path(), "w.bin", [7; 1000]);
    let version = ["--runner", "noop", "--framework-version", "=1.0.0"];
    holdall([&["pack", &*model, "-o", &at("a.carton")][..], &version].concat()).ends_with(0);
    holdall(["unpack", &at("a.carton"), "-o", &at("a")]).ends_with(0);
    std::fs::remove_file(at("a/carton.toml")).unwrap();
    write(dir.path(), "a/LINKS", "version = 1\n[urls]\n");
    for command in ["inspect", "verify", "hash"] {
        let error = holdall([command, &at("a"), "--json"]).ends_with(1).error();
        assert_eq!(error["code"], "carton/missing-file", "{error}");
        let hint = error["hint"].as_str().unwrap();
        assert!(hint.contains("put it back") && !hint.contains("--runner"), "{error}");
    }
}

/// Tensors of texts and of tensors have a known layout; they have no numbers.
#[test]
fn texts_and_nested_tensors_are_shown_as_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(dir.path(), "w.bin", [7; 10]);
    let words = format!("words={}", write(dir.path(), "words.json", r#"["a", "b\nc"]"#));
    let x = format!("x={}", write(dir.path(), "x.npy", npy("(3, 2)", 6)));
    let version = ["--runner", "noop", "--framework-version", "=1.0.0"];
    let args = ["pack", &*model, "-o", &at("a.carton"), "--tensor", &words, "--tensor", &x];
    holdall([&args[..], &version].concat()).ends_with(0);
    holdall(["unpack", &at("a.carton"), "-o", &at("a")]).ends_with(0);
    let index = std::fs::read_to_string(at("a/tensor_data/index.toml")).unwrap();
    let nested = "\n[[tensor]]\nname = \"all\"\ndtype = \"nested\"\ninner = [\"x\", \"x\"]\n";
    write(dir.path(), "a/tensor_data/index.toml", index + nested);
    std::fs::remove_file(at("a/MANIFEST")).unwrap();
    holdall(["pack", &at("a"), "-o", &at("b.carton")]).ends_with(0);
    let shown = |name: &str| holdall(["inspect", &at("b.carton"), "-t", name]).ends_with(0).out;
    let texts = shown("words");
    assert!(texts.contains("0  \"a\"\n") && texts.contains("1  \"b\\nc\"\n"), "{texts}");
    let all = shown("all");
    assert!(all.contains("a nested tensor of\n  0  x  f32 [3, 2]  "), "{all}");
    assert!(all.contains("\n  1  x  f32 [3, 2]  "), "{all}");
    for text in [texts, all] {
        assert!(!text.contains("unknown layout"), "{text}");
    }
    for (name, code) in [("words", "file/unknown-layout"), ("all", "file/unknown-layout")] {
        let out = at("t.npy");
        let args = ["extract", &at("b.carton"), name, "--dense", "-o", &out, "--json"];
        let error = holdall(args).ends_with(4).error();
        assert_eq!(error["code"], code);
        let message = error["message"].as_str().unwrap();
        assert!(!message.contains("not known") && message.starts_with("it is a "), "{error}");
    }
    let error = holdall(["extract", &at("b.carton"), "all", "-o", &at("t.npy"), "--json"]).error();
    assert_eq!(error["code"], "file/no-component");
}

#[test]
fn a_package_is_shown_as_a_page() {
    let xor = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xor");
    let xor = xor.to_str().unwrap();
    let html = holdall(["inspect", xor, "--html"]).ends_with(0);
    assert!(
        html.out.starts_with("<!doctype html>\n") && html.out.ends_with("</html>\n"),
        "{html:?}"
    );
    let markdown = holdall(["inspect", xor, "--markdown"]).ends_with(0);
    assert!(
        markdown.out.starts_with("# ") && markdown.out.contains("\n## Inputs\n"),
        "{markdown:?}"
    );
    holdall(["inspect", xor, "--markdown", "--html"]).ends_with(2);
    holdall(["inspect", xor, "--html", "--json"]).ends_with(2);
    let tensors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny.zt");
    let e = holdall(["inspect", tensors.to_str().unwrap(), "--html"]).ends_with(2);
    assert!(e.err.contains("package/no-package"), "{e:?}");
}

/// A card may contain only new fields; the rest comes from the graph and from the folder's own `carton.toml`.
#[test]
fn a_card_may_say_only_what_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let xor = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/xor");
    let card = "license = \"MIT\"\n[runner.opts]\nthreads = 2\n[card]\nusage = \"at will\"\n";
    let card = write(dir.path(), "card.toml", card);
    let model = format!("{xor}/model/model.onnx");
    holdall(["pack", &model, "-o", &at("a.carton"), "--from-toml", &card]).ends_with(0);
    let found = holdall(["inspect", &at("a.carton"), "--json"]).ends_with(0).json();
    let package = found.to_string();
    assert!(package.contains("\"MIT\"") && package.contains("at will"), "{package}");
    let bare = holdall(["pack", &model, "-o", &at("b.carton"), "--json"]).ends_with(0);
    assert!(bare.err.is_empty(), "{bare:?}");
    let text = |package: &str| {
        let to = at("unpacked");
        holdall(["unpack", package, "-o", &to, "--force"]).ends_with(0);
        std::fs::read_to_string(format!("{to}/carton.toml")).unwrap()
    };
    let (with, without) = (text(&at("a.carton")), text(&at("b.carton")));
    for line in without.lines().filter(|line| !line.is_empty()) {
        assert!(with.contains(line), "`{line}` is not in\n{with}");
    }
    assert!(with.contains("threads = 2"), "{with}");
    // The card takes precedence over the folder's description.
    holdall(["pack", xor, "-o", &at("c.carton"), "--from-toml", &card]).ends_with(0);
    let own = std::fs::read_to_string(format!("{xor}/carton.toml")).unwrap();
    let again = text(&at("c.carton"));
    assert!(again.contains("[[self_test]]") == own.contains("[[self_test]]"), "{again}");
    assert!(again.contains("license = \"MIT\"\n"), "{again}");
    // The fields of the card must be valid, and the missing ones must come from elsewhere.
    let wrong = write(dir.path(), "wrong.toml", "spec_version = 2\n");
    let error = holdall(["pack", &model, "-o", &at("d.carton"), "--from-toml", &wrong, "--json"]);
    assert_eq!(error.ends_with(4).error()["code"], "carton/version");
    let bin = write(dir.path(), "w.bin", [7; 10]);
    let error = holdall(["pack", &bin, "-o", &at("d.carton"), "--from-toml", &card, "--json"]);
    assert_eq!(error.ends_with(2).error()["code"], "package/runner");
}
