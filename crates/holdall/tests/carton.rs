//! Reads packages: as a zip, as a folder, in place, and unpacked.
#![cfg(feature = "carton")]

use bytes::Bytes;
use holdall::carton::{
    Description, Difference, Fetcher, FileContent, FileLocation, FileSelection, Links, Package,
    PackageVerifyOptions, Packer, Packing, Runner, SelfTest, Strictness, SymlinkPolicy,
    TensorValue, UnpackOptions, package_diff,
};
use holdall::verify::Verdict;
use holdall::{DType, OpenOptions, Role, TensorSpec, Work, Writer};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the path of a file of the corpus.
fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name)
}

fn runner() -> Runner {
    let mut runner = Runner::default();
    runner.name = "noop".into();
    runner.framework_version = "=1.0.0".into();
    runner.compat_version = 1;
    runner
}

fn packer() -> Packer {
    let mut description = Description::default();
    description.model_name = Some("Test".into());
    description.runner = runner();
    let mut test = SelfTest::default();
    test.inputs = vec![("x".into(), "numbers".into())];
    description.self_tests = vec![test];
    let numbers = TensorValue::from_elements(vec![2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let words = TensorValue::strings(vec![2], vec!["a\"".into(), "ü\n".into()]).unwrap();
    let ragged = [&[1i64, 2][..], &[]]
        .map(|all| TensorValue::from_elements(vec![all.len() as u64], all).unwrap());
    Packer::new(description)
        .with_file("model/weights.safetensors", FileContent::Bytes(weights()))
        .with_file("model/big", FileContent::Bytes(big()))
        .with_file("misc/in.txt", FileContent::Bytes(Bytes::from_static(b"hello\n")))
        .with_file("misc/empty", FileContent::Bytes(Bytes::new()))
        .with_tensor("numbers", numbers)
        .with_tensor("words", words)
        .with_tensor("ragged", TensorValue::nested(ragged.into()).unwrap())
        .with_tensor("scalar", TensorValue::from_elements(vec![], &[7u8]).unwrap())
}

fn big() -> Bytes {
    (0..5_000_000u32).map(|i| (i.wrapping_mul(i) >> 15) as u8).collect()
}

/// Returns a tensor file.
fn weights() -> Bytes {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.safetensors");
    let spec = TensorSpec::dense("w", DType::F32, [100_000]);
    let data: Vec<u8> = (0..100_000).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let mut writer = Writer::create(&path, &Default::default()).unwrap();
    writer.declare(std::slice::from_ref(&spec)).unwrap();
    writer.add(spec, &[&data]).unwrap();
    writer.finish().unwrap();
    std::fs::read(path).unwrap().into()
}

fn packed(dir: &Path, packing: Packing) -> PathBuf {
    let path = dir.join(format!("{packing:?}.carton"));
    packer().with_packing(packing).write(&path, false).unwrap();
    path
}

#[test]
fn a_package_is_read_as_a_zip_and_as_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let zip = packed(dir.path(), Packing::Stored);
    let folder = dir.path().join("unpacked");
    Package::open(&zip).unwrap().unpack(&folder).unwrap();
    let hash = Package::open(&zip).unwrap().hash();
    let others = [Packing::Zstd, Packing::Deflate].map(|packing| packed(dir.path(), packing));
    for path in [&zip, &folder, &others[0], &others[1]] {
        let package = Package::open(path).unwrap();
        assert_eq!(package.hash(), hash);
        assert_eq!(package.description().model_name.as_deref(), Some("Test"));
        assert_eq!(package.read("model/big").unwrap(), big());
        assert_eq!(package.read("misc/empty").unwrap(), Bytes::new());
        let mut text = String::new();
        package.reader("misc/in.txt").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello\n");
        let numbers = TensorValue::from_elements(vec![2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(package.value("numbers").unwrap(), numbers);
        let TensorValue::Strings { data, .. } = package.value("words").unwrap() else { panic!() };
        assert_eq!(data, ["a\"", "ü\n"]);
        let TensorValue::Nested(inner) = package.value("ragged").unwrap() else { panic!() };
        assert_eq!(
            inner,
            [&[1i64, 2][..], &[]]
                .map(|a| TensorValue::from_elements(vec![a.len() as u64], a).unwrap())
        );
        assert_eq!(
            package.value("scalar").unwrap(),
            TensorValue::from_elements(vec![], &[7u8]).unwrap()
        );
        let e = package.read("model/bog").unwrap_err();
        assert_eq!(e.code(), "package/no-file");
        assert_eq!(e.remedies(), [holdall::Remedy::did_you_mean("model/big")]);
        assert_eq!(package.value("number").unwrap_err().code(), "package/no-tensor");
        // Packing it again gives the same package.
        let again = dir.path().join("again.carton");
        let report = Packer::from_package(&package).write(&again, true).unwrap();
        assert_eq!(Some(report.hash), hash);
        assert!(std::fs::read(&again).unwrap() == std::fs::read(&zip).unwrap());
    }
    let report = Packer::from_folder(&folder, SymlinkPolicy::Inside, FileSelection::Usual)
        .unwrap()
        .write(dir.path().join("f"), false)
        .unwrap();
    assert_eq!(Some(report.hash), hash);
}

#[test]
fn tensor_files_inside_open_in_place() {
    let dir = tempfile::tempdir().unwrap();
    for packing in [Packing::Stored, Packing::Zstd, Packing::Deflate] {
        let zip = packed(dir.path(), packing);
        let inside = format!("{}!/model/weights.safetensors", zip.display());
        let file = holdall::open(&inside).unwrap();
        assert_eq!(file.format(), "safetensors");
        assert_eq!(file.name(), inside);
        let bytes = file.tensor("w").unwrap().bytes(&Role::Data).unwrap();
        assert_eq!(bytes[400..404], 100f32.to_le_bytes());
        if packing == Packing::Stored {
            // The same bytes at the same offset: a view into the map.
            let again = file.tensor("w").unwrap().bytes(&Role::Data).unwrap();
            assert_eq!(bytes.as_ptr(), again.as_ptr());
        }
        let missing = holdall::open(format!("{}!/model/none", zip.display())).unwrap_err();
        assert_eq!(missing.code(), "package/no-file");
    }
}

/// Changes one byte of the file `name` in the zip at `path`.
fn spoil(path: &Path, name: &str) {
    let bytes = Bytes::from(std::fs::read(path).unwrap());
    let window = holdall::Window::whole(bytes.clone());
    let directory = holdall_core::wire::zip::Directory::read(&window, &Default::default()).unwrap();
    let place = directory.data(directory.get(name).unwrap(), &window).unwrap();
    let mut bytes = bytes.to_vec();
    bytes[place.end as usize - 1] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn changed_bytes_are_never_returned() {
    let dir = tempfile::tempdir().unwrap();
    let zip = packed(dir.path(), Packing::Stored);
    spoil(&zip, "model/big");
    let package = Package::open(&zip).unwrap();
    assert_eq!(package.read("model/big").unwrap_err().code(), "carton/hash");
    let mut all = Vec::new();
    let e = package.reader("model/big").unwrap().read_to_end(&mut all).unwrap_err();
    let own = e.get_ref().unwrap().downcast_ref::<holdall::Error>().unwrap();
    assert!(matches!(own.code(), "carton/hash" | "zip/crc32"), "{own}");
    assert!(all.len() < big().len());
    let to = dir.path().join("out");
    let e = package.unpack(&to).unwrap_err();
    assert!(matches!(e.code(), "carton/hash" | "zip/crc32"), "{e}");
    assert!(!to.exists());
    // No other files are left in the folder.
    assert_eq!(dir.path().read_dir().unwrap().count(), 1);
}

#[test]
fn an_existing_folder_is_replaced_only_when_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let package = Package::open(packed(dir.path(), Packing::Stored)).unwrap();
    let to = dir.path().join("out");
    std::fs::create_dir(&to).unwrap();
    std::fs::write(to.join("mine"), "mine").unwrap();
    assert_eq!(package.unpack(&to).unwrap_err().code(), "package/target");
    assert!(to.join("mine").exists());
    package.unpack_with(&to, &UnpackOptions::new().with_overwrite(true)).unwrap();
    assert!(!to.join("mine").exists());
    assert_eq!(std::fs::read(to.join("model/big")).unwrap(), big());
    let model = dir.path().join("model");
    package.unpack_model(&model).unwrap();
    assert_eq!(std::fs::read(model.join("big")).unwrap(), big());
    assert!(!model.join("carton.toml").exists());
    assert_eq!(dir.path().read_dir().unwrap().count(), 3);
}

#[test]
fn a_folder_without_a_description_opens_with_a_runner() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("model")).unwrap();
    std::fs::write(dir.path().join("model/w"), "w").unwrap();
    assert_eq!(Package::open(dir.path()).unwrap_err().code(), "carton/missing-file");
    let mut description = Description::default();
    description.runner = runner();
    let open = |path: &Path| Package::open_folder(path, &description, &Default::default());
    // With a folder `model`, and with only the model's files.
    for path in [dir.path(), &dir.path().join("model")] {
        let package = open(path).unwrap();
        assert_eq!(package.description().runner, runner());
        assert_eq!(package.read("model/w").unwrap(), "w");
        assert_eq!(package.hash(), None);
        let to = tempfile::tempdir().unwrap();
        package.unpack_model(to.path().join("m")).unwrap();
        assert_eq!(std::fs::read(to.path().join("m/w")).unwrap(), b"w");
    }
    std::fs::write(dir.path().join("carton.toml"), "").unwrap();
    assert_eq!(open(dir.path()).unwrap_err().code(), "package/part");
}

/// Serves files named after their hashes from one folder.
struct Store(PathBuf);

impl Fetcher for Store {
    fn fetch(&self, sha256: [u8; 32], urls: &[String], at_most: u64) -> holdall::Result<PathBuf> {
        assert_eq!(at_most, holdall::Limits::default().fetched_len);
        assert_eq!(urls, ["https://example.org/big"]);
        let name: String = sha256.iter().map(|b| format!("{b:02x}")).collect();
        Ok(self.0.join(name))
    }
}

#[test]
fn files_that_are_linked_to_are_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let whole = Package::open(packed(dir.path(), Packing::Stored)).unwrap();
    let big_hash = whole.file("model/big").unwrap().sha256.unwrap();
    let links = Links { urls: vec![(big_hash, vec!["https://example.org/big".into()])] };
    let shrunk = dir.path().join("shrunk.carton");
    let report = Packer::from_package(&whole).with_links(links).write(&shrunk, false).unwrap();
    assert_eq!((Some(report.hash), report.linked), (whole.hash(), 1));
    assert!(report.len < 1_000_000);
    let package = Package::open(&shrunk).unwrap();
    let file = package.file("model/big").unwrap();
    assert_eq!((file.location, file.len), (FileLocation::Links, None));
    assert_eq!(package.read("model/big").unwrap_err().code(), "package/not-here");
    // Its texts alone, in a folder, are not a whole package either, and are not packed as one.
    let folder = tempfile::tempdir().unwrap();
    for file in package.files().iter().filter(|file| file.location != FileLocation::Links) {
        let to = folder.path().join(&file.path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, package.read(&file.path).unwrap()).unwrap();
    }
    let e = Packer::from_folder(folder.path(), SymlinkPolicy::Inside, FileSelection::Usual)
        .unwrap_err();
    assert!(
        e.message().contains("`model/big` is not in the folder: `LINKS` only links to it"),
        "{e}"
    );
    std::fs::write(folder.path().join("model/big"), big()).unwrap();
    assert!(
        Packer::from_folder(folder.path(), SymlinkPolicy::Inside, FileSelection::Usual).is_ok()
    );
    let store = tempfile::tempdir().unwrap();
    let name: String = big_hash.iter().map(|b| format!("{b:02x}")).collect();
    std::fs::write(store.path().join(&name), big()).unwrap();
    let package = package.with_fetcher(Arc::new(Store(store.path().to_owned())));
    assert_eq!(package.read("model/big").unwrap(), big());
    // Its name in the cache would not help.
    let inside = format!("{}!/model/big", shrunk.display());
    let e = package.open_file("model/big").expect_err("it is not a tensor file");
    assert_eq!(e.source_name(), Some(inside.as_str()), "{e}");
    // Made whole again, it is equal to the original.
    let again = dir.path().join("again.carton");
    Packer::from_package(&package).with_links(Links::default()).write(&again, false).unwrap();
    let stored = dir.path().join("Stored.carton");
    assert!(std::fs::read(again).unwrap() == std::fs::read(stored).unwrap());
    // The bytes in the store are verified, too.
    std::fs::write(store.path().join(&name), "other").unwrap();
    assert_eq!(package.read("model/big").unwrap_err().code(), "carton/hash");
}

/// Every file that `MANIFEST` lists may be only linked to, even those that describe the package.
#[test]
fn a_linked_description_is_fetched_to_open() {
    struct All(PathBuf);
    impl Fetcher for All {
        fn fetch(&self, sha256: [u8; 32], _: &[String], at_most: u64) -> holdall::Result<PathBuf> {
            assert!(at_most <= holdall::Limits::default().fetched_len);
            let name: String = sha256.iter().map(|b| format!("{b:02x}")).collect();
            Ok(self.0.join(name))
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let whole = Package::open(packed(dir.path(), Packing::Stored)).unwrap();
    let store = tempfile::tempdir().unwrap();
    let mut links = Links::default();
    for path in ["carton.toml", "model/big"] {
        let hash = whole.file(path).unwrap().sha256.unwrap();
        let name: String = hash.iter().map(|b| format!("{b:02x}")).collect();
        std::fs::write(store.path().join(name), whole.read(path).unwrap()).unwrap();
        links.urls.push((hash, vec!["https://example.org/x".into()]));
    }
    let shrunk = dir.path().join("shrunk.carton");
    Packer::from_package(&whole).with_links(links).write(&shrunk, false).unwrap();
    assert_eq!(Package::open(&shrunk).unwrap_err().code(), "package/not-here");
    let options = OpenOptions::new().with_fetcher(Arc::new(All(store.path().to_owned())));
    let package = Package::open_with(&shrunk, &options).unwrap();
    assert_eq!(package.description(), whole.description());
    assert_eq!(package.file("carton.toml").unwrap().location, FileLocation::Links);
    assert!(package.warnings().iter().all(|w| w.code != "carton/linked-description"));
    assert_eq!(package.read("carton.toml").unwrap(), whole.read("carton.toml").unwrap());
    // Its texts in a folder are the same package.
    let folder = tempfile::tempdir().unwrap();
    for file in package.files().iter().filter(|file| file.location != FileLocation::Links) {
        let to = folder.path().join(&file.path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, package.read(&file.path).unwrap()).unwrap();
    }
    let again = Package::open_with(folder.path(), &options).unwrap();
    assert_eq!((again.description(), again.hash()), (whole.description(), whole.hash()));
    // Without the description the tensors can be read, with a warning.
    let tensors = holdall::open(&shrunk).unwrap();
    assert_eq!(tensors.warnings()[0].code, "carton/linked-description");
    assert_eq!(tensors.len(), holdall::open(dir.path().join("Stored.carton")).unwrap().len());
    // Fetched bytes are verified.
    for file in store.path().read_dir().unwrap() {
        std::fs::write(file.unwrap().path(), "spec_version = 1").unwrap();
    }
    let e = Package::open_with(&shrunk, &options).unwrap_err();
    assert!(e.code() == "carton/hash" || e.code() == "carton/missing-field", "{e}");
    // A file without an address is missing.
    std::fs::remove_file(folder.path().join("LINKS")).unwrap();
    assert_eq!(Package::open(folder.path()).unwrap_err().code(), "carton/missing-file");
}

#[cfg(unix)]
#[test]
fn linked_targets_outside_the_package_are_fetched() {
    let at = corpus("accept/carton/made-linked-target.carton");
    let package = Package::open(&at).unwrap();
    let link = package.file("model/w").unwrap();
    assert_eq!(
        (link.target.as_deref(), link.location),
        (Some("model/blobs/abc"), FileLocation::Zip)
    );
    assert_eq!(package.read("model/w").unwrap_err().code(), "package/not-here");
    struct SingleFile(PathBuf);
    impl Fetcher for SingleFile {
        fn fetch(&self, _: [u8; 32], _: &[String], _: u64) -> holdall::Result<PathBuf> {
            Ok(self.0.join("content"))
        }
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("content"), "content").unwrap();
    let package = package.with_fetcher(Arc::new(SingleFile(dir.path().to_owned())));
    assert_eq!(package.read("model/w").unwrap(), "content");
    package.unpack(dir.path().join("all")).unwrap();
    assert!(dir.path().join("all/model/w").is_symlink());
    assert_eq!(std::fs::read(dir.path().join("all/model/w")).unwrap(), b"content");
    // Made whole, and shrunk again, it still has the same links.
    let whole = dir.path().join("whole.carton");
    Packer::from_package(&package).with_links(Links::default()).write(&whole, false).unwrap();
    let whole = Package::open(&whole).unwrap();
    assert_eq!(
        (whole.hash(), whole.verify(&Default::default()).unwrap().verdict()),
        (package.hash(), Verdict::Sound)
    );
    let shrunk = dir.path().join("shrunk.carton");
    Packer::from_package(&whole).with_links(package.links().clone()).write(&shrunk, false).unwrap();
    let shrunk = Package::open(&shrunk).unwrap();
    assert_eq!(shrunk.file("model/w"), package.file("model/w"));
    assert_eq!(shrunk.file("model/blobs/abc").unwrap().location, FileLocation::Links);
}

/// Paths that are one on some systems are kept apart where the file system allows it.
#[cfg(target_os = "linux")]
#[test]
fn twins_are_unpacked_where_they_can_be() {
    for (name, count) in [("twins", 6), ("twins-of-its-own", 5)] {
        let package = Package::open(corpus(&format!("accept/carton/made-{name}.carton"))).unwrap();
        let twins = package.warnings().iter().find(|w| w.code == "carton/collision").unwrap();
        assert_eq!(twins.count, count, "{twins:?}");
        assert!(twins.message.contains("are one on systems that ignore case"), "{twins:?}");
        let strict = PackageVerifyOptions::new().with_strictness(Strictness::Strict);
        let report = package.verify(&strict).unwrap();
        assert!(report.findings.iter().any(|e| e.code() == "carton/collision"), "{report:?}");
        if name == "twins" {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        package.unpack(dir.path().join("all")).unwrap();
        let again = Package::open(dir.path().join("all")).unwrap();
        assert_eq!(again.hash(), package.hash());
        let names = |package: &Package| -> Vec<String> {
            package.files().iter().map(|file| file.path.clone()).collect()
        };
        assert_eq!(names(&again), names(&package));
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    }
}

#[test]
fn verifying_reads_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    for packing in [Packing::Stored, Packing::Zstd, Packing::Deflate] {
        let zip = packed(dir.path(), packing);
        let report = Package::open(&zip).unwrap().verify(&Default::default()).unwrap();
        assert_eq!(report.verdict(), Verdict::Sound, "{report:?}");
        assert_eq!((report.files, report.hashed, report.tensors), (12, 11, 6));
        let folder = dir.path().join(format!("{packing:?}"));
        Package::open(&zip).unwrap().unpack(&folder).unwrap();
        let options = PackageVerifyOptions::new().with_strictness(Strictness::Strict);
        let report = Package::open(&folder).unwrap().verify(&options).unwrap();
        // The self-test gives an input that is not declared.
        assert_eq!(report.warnings.is_empty(), report.verdict() == Verdict::Sound, "{report:?}");
        spoil(&zip, "model/big");
        let report = Package::open(&zip).unwrap().verify(&Default::default()).unwrap();
        assert_eq!(report.verdict(), Verdict::Bad);
        assert_eq!(report.finding_count, 1, "{report:?}");
        std::fs::write(folder.join("misc/in.txt"), "Hello\n").unwrap();
        let report = Package::open(&folder).unwrap().verify(&Default::default()).unwrap();
        assert_eq!(report.findings[0].code(), "carton/hash");
    }
}

#[test]
fn differences_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    packer().write(&a, false).unwrap();
    let mut description = Description::default();
    description.model_name = Some("Other".into());
    description.runner = runner();
    Packer::from_package(&Package::open(&a).unwrap())
        .with_description(description)
        .with_file("misc/in.txt", FileContent::Bytes(Bytes::from_static(b"hi\n")))
        .with_file("misc/new.txt", FileContent::Bytes(Bytes::new()))
        .write(&b, false)
        .unwrap();
    let open = |path: &Path| Package::open(path).unwrap();
    assert!(package_diff(&open(&a), &open(&a), &Work::new()).unwrap().is_same());
    let diff = package_diff(&open(&a), &open(&b), &Work::new()).unwrap();
    let names = |all: &[Difference]| all.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&diff.fields), ["model_name", "self_test.1.inputs.x"]);
    assert_eq!(names(&diff.files), ["misc/in.txt", "misc/new.txt"]);
    assert_eq!(diff.files[1].a, None);
    assert!(diff.tensors.is_empty());
}

#[test]
fn every_accepted_package_is_verified_unpacked_and_packed_again() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/carton");
    let dir = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for entry in corpus.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "carton") {
            continue;
        }
        seen += 1;
        let package = Package::open(&path).unwrap();
        let report = package.verify(&Default::default()).unwrap();
        assert_ne!(report.verdict(), Verdict::Bad, "{report:#?}");
        let again = dir.path().join("again");
        let packed = Packer::from_package(&package).write(&again, true).unwrap();
        assert_eq!(Some(packed.hash), package.hash(), "{}", path.display());
        assert!(
            package_diff(&package, &Package::open(&again).unwrap(), &Work::new())
                .unwrap()
                .is_same()
        );
        let to = dir.path().join("to");
        match package.unpack_with(&to, &UnpackOptions::new().with_overwrite(true)) {
            Ok(_) => {
                let folder = Package::open(&to).unwrap();
                assert_eq!(folder.hash(), package.hash());
                assert_ne!(folder.verify(&Default::default()).unwrap().verdict(), Verdict::Bad);
                let paths =
                    |p: &Package| p.files().iter().map(|f| f.path.clone()).collect::<Vec<_>>();
                assert_eq!(paths(&folder), paths(&package));
            }
            Err(e) => assert_eq!(e.code(), "package/not-here", "{}: {e}", path.display()),
        }
    }
    assert!(seen > 10);
}

#[test]
fn a_rejected_package_is_not_unpacked() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/reject/carton");
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("a/to");
    std::fs::create_dir(dir.path().join("a")).unwrap();
    let mut seen = 0;
    for entry in corpus.read_dir().unwrap() {
        let path = entry.unwrap().path();
        seen += 1;
        let unpacked = Package::open(&path).and_then(|package| package.unpack(&to));
        assert!(unpacked.is_err(), "{}", path.display());
        // Nothing is left: not the folder, not a part of it, no other files.
        assert_eq!(dir.path().join("a").read_dir().unwrap().count(), 0, "{}", path.display());
        assert_eq!(dir.path().read_dir().unwrap().count(), 1, "{}", path.display());
    }
    assert!(seen > 100, "{seen}");
}

#[cfg(unix)]
#[test]
fn links_out_of_a_folder_are_packed_only_when_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, out) = (dir.path().join("f"), dir.path().join("f.carton"));
    std::fs::create_dir_all(folder.join("model")).unwrap();
    std::fs::write(dir.path().join("secret"), b"outside").unwrap();
    std::fs::write(folder.join("model/a"), b"inside").unwrap();
    std::os::unix::fs::symlink("a", folder.join("model/b")).unwrap();
    assert!(Packer::from_folder(&folder, SymlinkPolicy::Inside, FileSelection::Usual).is_ok());
    std::os::unix::fs::symlink("../../secret", folder.join("model/c")).unwrap();
    let e = Packer::from_folder(&folder, SymlinkPolicy::Inside, FileSelection::Usual).unwrap_err();
    assert_eq!(e.code(), "package/link-out");
    std::fs::write(
        folder.join("carton.toml"),
        "spec_version = 1\n[runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"*\"\nrunner_compat_version = 1\n",
    )
    .unwrap();
    Packer::from_folder(&folder, SymlinkPolicy::All, FileSelection::Usual)
        .unwrap()
        .write(&out, false)
        .unwrap();
    assert_eq!(&Package::open(&out).unwrap().read("model/c").unwrap()[..], b"outside");
}

/// A descriptor that differs from the directory is found when the whole zip is verified.
#[test]
fn descriptors_are_held_against_the_directory() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../corpus/accept/carton/made-streamed.carton");
    let mut bytes = std::fs::read(path).unwrap();
    let findings = |bytes: &[u8]| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.carton");
        std::fs::write(&path, bytes).unwrap();
        let report = Package::open(&path).unwrap().verify(&PackageVerifyOptions::new()).unwrap();
        report.findings.iter().map(|e| e.code()).collect::<Vec<_>>()
    };
    assert!(findings(&bytes).is_empty());
    // The descriptor of a tensor: those of the texts are read when the package is opened.
    let at = bytes.windows(4).rposition(|w| w == b"PK\x07\x08").unwrap();
    for field in 0..4 {
        bytes[at + 4 * field] ^= 1;
        assert_eq!(findings(&bytes), ["zip/descriptor"]);
        bytes[at + 4 * field] ^= 1;
    }
}
