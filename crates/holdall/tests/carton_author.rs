//! Packages as their authors write them: fields and files that the specification makes optional, additions,
//! links, choices.
#![cfg(feature = "carton")]

use holdall::carton::{
    Fetcher, FileSelection, Links, OptionValue, Package, PackageVerifyOptions, Packer, Recipe,
    Strictness, SymlinkPolicy, TensorValue,
};
use holdall::verify::Verdict;
use holdall::{Convert, OpenOptions, Role, WriteOptions, convert};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn corpus(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/carton")).join(name)
}

fn write(folder: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

const TWO_FIELDS: &str = "[runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"*\"\n";

const WHOLE: &str = r#"
spec_version = 1
[[input]]
name = "x"
dtype = "float32"
shape = [4]
[[output]]
name = "x"
dtype = "float32"
shape = [4]
[[self_test]]
inputs = { x = "@tensor_data/p" }
expected_out = { x = "@tensor_data/p" }
[runner]
runner_name = "noop"
required_framework_version = "*"
runner_compat_version = 1
"#;

fn whole(folder: &Path) {
    write(folder, "carton.toml", WHOLE);
    write(folder, "model/w.bin", "weights");
    let row = |name: &str, dtype: &str, shape: &str, file: &str| {
        format!(
            "[[tensor]]\nname = \"{name}\"\ndtype = \"{dtype}\"\nshape = {shape}\nfile = \"{file}\"\n"
        )
    };
    let rows = [row("p", "float32", "[4]", "p.bin"), row("s", "string", "[2]", "s.toml")].concat();
    write(folder, "tensor_data/index.toml", rows);
    let p: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    write(folder, "tensor_data/p.bin", p);
    write(folder, "tensor_data/s.toml", "data = [\"a\", \"b\"]\n");
}

/// A store of files by their hashes.
struct Store(PathBuf);

impl Fetcher for Store {
    fn fetch(&self, sha256: [u8; 32], _: &[String], _: u64) -> holdall::Result<PathBuf> {
        Ok(self.0.join(holdall::carton::hex(&sha256)))
    }
}

/// Every subset of the files that a package can link to: each reader gets the tensors, or an error that says
/// why not.
#[test]
fn links_resolve_for_everyone() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    whole(&folder);
    let path = dir.path().join("whole.carton");
    Packer::from_folder(&folder, SymlinkPolicy::Inside, FileSelection::Usual)
        .unwrap()
        .write(&path, false)
        .unwrap();
    let package = Package::open(&path).unwrap();
    let store = dir.path().join("store");
    std::fs::create_dir(&store).unwrap();
    let parts = [
        "carton.toml",
        "model/w.bin",
        "tensor_data/index.toml",
        "tensor_data/p.bin",
        "tensor_data/s.toml",
    ];
    for file in parts {
        let hash = package.file(file).unwrap().sha256.unwrap();
        std::fs::write(store.join(holdall::carton::hex(&hash)), package.read(file).unwrap())
            .unwrap();
    }
    let with = OpenOptions::new().with_fetcher(Arc::new(Store(store.clone())));
    for subset in 1u32..1 << parts.len() {
        let mut links = Links::default();
        let linked: Vec<&str> =
            (0..parts.len()).filter(|at| subset >> at & 1 == 1).map(|at| parts[at]).collect();
        for file in &linked {
            let hash = package.file(file).unwrap().sha256.unwrap();
            links.urls.push((hash, vec!["https://example.org/x".into()]));
        }
        let shrunk = dir.path().join("shrunk.carton");
        Packer::from_package(&package).with_links(links).write(&shrunk, true).unwrap();
        // A reader that can fetch gets everything.
        let file = with.open(&shrunk).unwrap();
        let names: Vec<_> = file.tensors().map(|t| t.name().to_owned()).collect();
        assert_eq!(names, ["p", "s"], "{linked:?}");
        let out = dir.path().join("out.zt");
        convert(&file, &out, &Convert::new(WriteOptions::new().with_overwrite(true))).unwrap();
        let out = holdall::open(&out).unwrap();
        let p = out.tensor("p").unwrap();
        assert_eq!(p.bytes(&Role::Data).unwrap(), package.read("tensor_data/p.bin").unwrap());
        assert_eq!(out.tensor("s").unwrap().components().len(), 1, "{linked:?}");
        let package = Package::open_with(&shrunk, &with).unwrap();
        assert!(matches!(package.value("p").unwrap(), TensorValue::Numbers { .. }));
        let strict = PackageVerifyOptions::new().with_strictness(Strictness::Strict);
        let report = package.verify(&strict).unwrap();
        assert_eq!(
            (report.verdict(), report.linked),
            (Verdict::Sound, 0),
            "{linked:?}: {report:?}"
        );
        assert_eq!(report.tensors, 2, "{linked:?}");
        // A package that is first opened as a file, such as one in an archive, can be fetched in the same
        // way.
        let of_file = Package::from_file(&with.open(&shrunk).unwrap()).unwrap().unwrap();
        assert_eq!(of_file.verify(&strict).unwrap().verdict(), Verdict::Sound, "{linked:?}");
        // A reader that cannot fetch gets an error for missing files.
        let file = holdall::open(&shrunk).unwrap();
        let out = dir.path().join("none.zt");
        let done = convert(&file, &out, &Convert::new(WriteOptions::new()));
        let lacks_tensors = linked.iter().any(|file| file.starts_with("tensor_data/"));
        match done {
            Ok(_) => {
                assert!(!lacks_tensors, "{linked:?}");
                std::fs::remove_file(&out).unwrap();
            }
            Err(e) => {
                assert!(e.to_string().contains("which only links to it"), "{linked:?}: {e}");
                assert!(lacks_tensors && !out.exists(), "{linked:?}");
            }
        }
        if let Ok(package) = Package::open(&shrunk) {
            let report = package.verify(&PackageVerifyOptions::new()).unwrap();
            assert_eq!(report.verdict(), Verdict::Incomplete, "{linked:?}");
            assert_eq!(report.linked, linked.len() as u64);
        }
    }
    // Fetched bytes are compared with the hash.
    for file in store.read_dir().unwrap() {
        let file = file.unwrap().path();
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, bytes).unwrap();
    }
    let hash = package.file("tensor_data/p.bin").unwrap().sha256.unwrap();
    let links = Links { urls: vec![(hash, vec!["https://example.org/x".into()])] };
    let shrunk = dir.path().join("shrunk.carton");
    Packer::from_package(&package).with_links(links).write(&shrunk, true).unwrap();
    let report = Package::open_with(&shrunk, &with).unwrap().verify(&PackageVerifyOptions::new());
    assert_eq!(report.unwrap().findings[0].code(), "carton/hash");
    let e = convert(
        &with.open(&shrunk).unwrap(),
        dir.path().join("bad.zt"),
        &Convert::new(WriteOptions::new()),
    );
    assert_eq!(e.unwrap_err().code(), "file/digest");
}

/// Options of every TOML type, nested in each other: all are read when the package is opened, and written
/// when it is packed again.
#[test]
fn options_are_of_every_type_of_toml() {
    let scalars = [
        "4",
        "-9223372036854775808",
        "0xDEADBEEF",
        "0.5",
        "nan",
        "inf",
        "-inf",
        "true",
        "\"text\"",
        "'a\"b'",
        "\"\"\"\nlines\n\"\"\"",
        "1979-05-27T07:32:00Z",
        "1979-05-27",
        "07:32:00",
        "1979-05-27T00:32:00.999999-07:00",
        "[]",
        "{}",
    ];
    let mut values: Vec<String> = scalars.map(str::to_owned).to_vec();
    for value in scalars {
        values.push(format!("[{value}, {value}]"));
        values.push(format!(
            "{{ \"a b\" = {}, c = [{value}] }}",
            value.replace('\n', "\\n").replace("\"\"\"", "\"")
        ));
    }
    let options: Vec<String> =
        values.iter().enumerate().map(|(at, value)| format!("o{at} = {value}\n")).collect();
    let text = format!(
        "# kept\n{WHOLE}\n[runner.opts] # of the runner\n{}\n[runner.opts.sub]\nx = 1\n[other]\na = 1 # kept too\n",
        options.concat()
    );
    let dir = tempfile::tempdir().unwrap();
    whole(dir.path());
    write(dir.path(), "carton.toml", &text);
    let found = Package::open(dir.path()).unwrap();
    assert!(found.warnings().is_empty(), "{:?}", found.warnings());
    let shown = |package: &Package| {
        let options = &package.description().runner.options;
        options.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    assert_eq!(shown(&found).len(), values.len() + 1);
    for (at, (value, (_, parsed))) in
        values.iter().zip(&found.description().runner.options).enumerate()
    {
        let again = OptionValue::parse(&parsed.to_string()).unwrap();
        assert_eq!(again.to_string(), parsed.to_string(), "{at}: {value}");
    }
    // With another name: nothing else changes.
    let mut recipe = Recipe::new();
    recipe.name = Some("X".into());
    let out = tempfile::tempdir().unwrap();
    let packed = out.path().join("x.carton");
    recipe.prepare(dir.path()).unwrap().packer.write(&packed, false).unwrap();
    let packed = Package::open(&packed).unwrap();
    assert_eq!(shown(&packed), shown(&found));
    let own = packed.read("carton.toml").unwrap();
    let own = std::str::from_utf8(&own).unwrap();
    assert_eq!(
        own,
        text.replacen("spec_version = 1\n", "spec_version = 1\nmodel_name = \"X\"\n", 1)
    );
}

/// An author's case: all options survive unpacking and packing under another name.
#[test]
fn options_survive_a_new_name() {
    let dir = tempfile::tempdir().unwrap();
    let package = Package::open(corpus("author-c_opts.carton")).unwrap();
    let folder = dir.path().join("folder");
    package.unpack(&folder).unwrap();
    let mut recipe = Recipe::new();
    recipe.name = Some("X".into());
    let out = dir.path().join("x.carton");
    recipe.prepare(&folder).unwrap().packer.write(&out, false).unwrap();
    let packed = Package::open(&out).unwrap();
    let shown = |package: &Package| format!("{:?}", package.description().runner.options);
    assert_eq!(shown(&packed), shown(&package));
    assert_eq!(packed.description().runner.options.len(), 14);
}

#[test]
fn strict_checks_match_the_specification() {
    let strict = |path: &Path| {
        let options = PackageVerifyOptions::new().with_strictness(Strictness::Strict);
        let report = Package::open(path).unwrap().verify(&options).unwrap();
        report.findings.iter().map(|e| e.code()).collect::<Vec<_>>()
    };
    assert_eq!(strict(&corpus("author-m_modeldirentry.carton")), [""; 0]);
    assert_eq!(strict(&corpus("author-n_fixdim.carton")), ["carton/self-test"]);
    // Fields that the specification does not name may have any type.
    let dir = tempfile::tempdir().unwrap();
    whole(dir.path());
    for unknown in [
        "license = 5",
        "short_description = []",
        "homepage = {}",
        "card = 1",
        "lineage = [1]",
        "sbom = true",
        "whatever = 1979-05-27",
    ] {
        write(dir.path(), "carton.toml", format!("{unknown}\n{WHOLE}"));
        assert_eq!(strict(dir.path()), [""; 0], "{unknown}");
    }
    let compare = WHOLE.replace("[runner]", "[self_test.compare]\nrtol = \"x\"\nany = 1\n[runner]");
    write(dir.path(), "carton.toml", compare);
    assert_eq!(strict(dir.path()), [""; 0]);
}

/// Ragged tensors against declared shapes: every inner tensor is compared with each dimension.
#[test]
fn ragged_self_tests_are_held_against_the_declaration() {
    let dir = tempfile::tempdir().unwrap();
    let findings = |input: &str, output: &str, shapes: [&[usize]; 2]| {
        let declared = WHOLE.replacen("shape = [4]", &format!("shape = {input}"), 1);
        let declared = declared.replacen("shape = [4]", &format!("shape = {output}"), 1);
        let declared = declared.replacen(
            "expected_out = { x = \"@tensor_data/p\" }",
            "expected_out = { x = \"@tensor_data/q\" }",
            1,
        );
        write(dir.path(), "carton.toml", declared.replace("@tensor_data/p", "@tensor_data/n"));
        write(dir.path(), "model/w", "w");
        let mut rows = String::from(
            "[[tensor]]\nname = \"n\"\ndtype = \"nested\"\ninner = [\"a\", \"b\"]\n[[tensor]]\nname = \"q\"\ndtype = \"nested\"\ninner = [\"b\", \"b\"]\n",
        );
        for (name, shape) in ["a", "b"].iter().zip(shapes) {
            rows += &format!(
                "[[tensor]]\nname = \"{name}\"\ndtype = \"float32\"\nshape = {shape:?}\nfile = \"{name}.bin\"\n"
            );
            let count: usize = shape.iter().product();
            write(dir.path(), &format!("tensor_data/{name}.bin"), vec![0; 4 * count]);
        }
        write(dir.path(), "tensor_data/index.toml", rows);
        let options = PackageVerifyOptions::new().with_strictness(Strictness::Strict);
        let report = Package::open(dir.path()).unwrap().verify(&options).unwrap();
        report.findings.len()
    };
    let ragged: [&[usize]; 2] = [&[2], &[3]];
    let same: [&[usize]; 2] = [&[3], &[3]];
    assert_eq!(findings("[2, 2]", "\"*\"", ragged), 1);
    assert_eq!(findings("[2, 3]", "\"*\"", ragged), 1);
    assert_eq!(findings("[2, 3]", "\"*\"", same), 0);
    assert_eq!(findings("[3, \"*\"]", "\"*\"", ragged), 1);
    assert_eq!(findings("[\"*\", \"*\"]", "\"*\"", ragged), 0);
    assert_eq!(findings("\"*\"", "\"*\"", ragged), 0);
    // A symbol means one size.
    assert_eq!(findings("[\"*\", \"n\"]", "\"*\"", ragged), 1);
    assert_eq!(findings("[\"*\", \"n\"]", "[\"*\", \"n\"]", same), 0);
    // A symbol for a whole shape includes the shapes of the inner tensors.
    assert_eq!(findings("\"s\"", "\"s\"", ragged), 1);
    assert_eq!(findings("\"s\"", "\"s\"", same), 0);
}

/// The fields that the specification requires are enough in a folder, and packing adds the rest.
#[test]
fn a_folder_says_no_more_than_its_runner_and_version() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    write(&folder, "carton.toml", format!("# mine\n{TWO_FIELDS}"));
    write(&folder, "model/w.bin", "w");
    let package = Package::open(&folder).unwrap();
    assert_eq!(package.description().runner.name, "noop");
    assert_eq!(package.verify(&PackageVerifyOptions::new()).unwrap().verdict(), Verdict::Sound);
    let out = dir.path().join("out.carton");
    for name in [None, Some("named")] {
        let mut recipe = Recipe::new();
        recipe.name = name.map(str::to_owned);
        recipe.prepare(&folder).unwrap().packer.write(&out, true).unwrap();
        let packed = Package::open(&out).unwrap();
        assert_eq!(packed.description().runner.compat_version, 1);
        let text = packed.read("carton.toml").unwrap();
        let text = std::str::from_utf8(&text).unwrap();
        let named = name.map(|name| format!("model_name = \"{name}\"\n")).unwrap_or_default();
        assert_eq!(
            text,
            format!("# mine\nspec_version = 1\n{named}{TWO_FIELDS}runner_compat_version = 1\n")
        );
    }
    // A zip has all fields.
    let e = Packer::from_folder(&folder, SymlinkPolicy::Inside, FileSelection::Usual).unwrap();
    assert_eq!(
        e.write(dir.path().join("no.carton"), false).unwrap_err().code(),
        "carton/missing-field"
    );
}

#[cfg(unix)]
#[test]
fn modes_and_links_of_a_folder_are_kept() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    whole(&folder);
    write(&folder, "model/run.sh", "#!/bin/sh\n");
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&folder.join("model/run.sh"), 0o750);
    mode(&folder.join("model/w.bin"), 0o600);
    symlink("w.bin", folder.join("model/link")).unwrap();
    let out = dir.path().join("out.carton");
    let packer =
        || Packer::from_folder(&folder, SymlinkPolicy::Inside, FileSelection::Usual).unwrap();
    let report = packer().write(&out, false).unwrap();
    assert_eq!(report.left_behind, [""; 0]);
    let package = Package::open(&out).unwrap();
    assert_eq!(package.file("model/link").unwrap().target.as_deref(), Some("model/w.bin"));
    let again = dir.path().join("again");
    package.unpack(&again).unwrap();
    let executes =
        |path: &str| again.join(path).metadata().unwrap().permissions().mode() & 0o100 != 0;
    assert!(executes("model/run.sh") && !executes("model/w.bin") && !executes("carton.toml"));
    // The same files are the same package, and have the same hash.
    let twice = dir.path().join("twice.carton");
    let second = Packer::from_folder(&again, SymlinkPolicy::Inside, FileSelection::Usual)
        .unwrap()
        .write(&twice, false)
        .unwrap();
    assert_eq!(second.hash, report.hash);
    assert!(std::fs::read(&out).unwrap() == std::fs::read(&twice).unwrap());
    let copied = dir.path().join("copied.carton");
    Packer::from_package(&package).write(&copied, false).unwrap();
    assert!(std::fs::read(&out).unwrap() == std::fs::read(&copied).unwrap());
}

#[test]
fn secrets_and_caches_are_not_packed_unless_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    whole(&folder);
    let junk = [
        ".env",
        ".git/config",
        ".venv/bin/x",
        "model/.git/HEAD",
        "model/__pycache__/m.pyc",
        "model/.env.local",
    ];
    junk.iter().for_each(|path| write(&folder, path, "secret"));
    write(&folder, "model/drafts/a", "a");
    write(&folder, "model/b.tmp", "b");
    write(&folder, "model/keep.tmp", "c");
    write(&folder, ".holdallignore", "# mine\ndrafts/\n*.tmp\n!keep.tmp\n");
    let out = dir.path().join("out.carton");
    let pack =
        |take| Packer::from_folder(&folder, SymlinkPolicy::Inside, take).unwrap().write(&out, true);
    let report = pack(FileSelection::Usual).unwrap();
    let paths = || {
        let package = Package::open(&out).unwrap();
        package.files().iter().map(|f| f.path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        paths(),
        [
            "MANIFEST",
            "carton.toml",
            "model/keep.tmp",
            "model/w.bin",
            "tensor_data/index.toml",
            "tensor_data/p.bin",
            "tensor_data/s.toml",
        ]
    );
    assert_eq!(
        report.left_out,
        [
            ".env",
            ".git/",
            ".holdallignore",
            ".venv/",
            "model/.env.local",
            "model/.git/",
            "model/__pycache__/",
            "model/b.tmp",
            "model/drafts/",
        ]
    );
    let report = pack(FileSelection::All).unwrap();
    assert!(report.left_out.is_empty());
    assert!(junk.iter().all(|path| paths().contains(&(*path).to_owned())), "{:?}", paths());
    // Files that the folder's own `MANIFEST` lists belong to the package, whatever their names: unpacked and
    // packed it is the same.
    let again = dir.path().join("again");
    Package::open(&out).unwrap().unpack(&again).unwrap();
    write(&again, ".git/new", "not of the package");
    let second = Packer::from_folder(&again, SymlinkPolicy::Inside, FileSelection::Usual).unwrap();
    let second = second.write(dir.path().join("twice.carton"), false).unwrap();
    assert_eq!(second.hash, report.hash);
    assert_eq!(second.left_out, [".git/new"]);
}

/// Every package of the corpus: unpacked and packed again, it has the same hash.
#[test]
fn an_unpacked_package_packs_to_the_same_hash() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in corpus("").read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "carton") {
            continue;
        }
        let Ok(package) = Package::open(&path) else { continue };
        let folder = dir.path().join("folder");
        if package.links().urls.is_empty() && package.unpack(&folder).is_ok() {
            let out = dir.path().join("out.carton");
            let packer =
                Packer::from_folder(&folder, SymlinkPolicy::Inside, FileSelection::Usual).unwrap();
            match packer.write(&out, true) {
                Ok(report) => assert_eq!(Some(report.hash), package.hash(), "{}", path.display()),
                Err(e) => panic!("{}: {e}", path.display()),
            }
            count += 1;
        }
        let _ = std::fs::remove_dir_all(&folder);
    }
    assert!(count > 20, "{count}");
}
