//! Symbolic links of a folder: packed as links, and unpacked again. The folders are generated.
#![cfg(all(feature = "carton", unix))]

use holdall::carton::{FileSelection, Package, PackageVerifyOptions, Packer, SymlinkPolicy};
use holdall::verify::Verdict;
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// A pseudorandom generator with a fixed sequence.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % count
    }

    fn pick<'a>(&mut self, all: &'a [String]) -> &'a str {
        &all[self.below(all.len())]
    }
}

const TEXT: &str = "spec_version = 1\n[runner]\nrunner_name = \"noop\"\n\
                    required_framework_version = \"=1.0.0\"\nrunner_compat_version = 1\n";

/// Returns the text of a link at `link` to `target`, both paths in the folder.
fn text(link: &str, target: &str) -> String {
    let up = link.matches('/').count();
    format!("{}{target}", "../".repeat(up))
}

/// Creates a package's folder with files, and links of all kinds that stay in it. Returns the paths of files
/// and links to files.
fn make(folder: &Path, chance: &mut Chance) -> Vec<String> {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("carton.toml"), TEXT).unwrap();
    let folders = ["model", "model/a", "model/a/b", "model/c", "misc", "misc/a"];
    folders.iter().for_each(|of| std::fs::create_dir_all(folder.join(of)).unwrap());
    std::fs::write(folder.join("model/.env"), "secret").unwrap();
    let mut paths = Vec::new();
    for at in 0..2 + chance.below(8) {
        let path = format!("{}/f{at}", folders[chance.below(folders.len())]);
        std::fs::write(folder.join(&path), format!("contents {}", chance.below(4))).unwrap();
        let mode = [0o644, 0o755, 0o600, 0o700][chance.below(4)];
        std::fs::set_permissions(folder.join(&path), std::fs::Permissions::from_mode(mode))
            .unwrap();
        paths.push(path);
    }
    for at in 0..chance.below(10) {
        let target = chance.pick(&paths).to_owned();
        let top = target.split('/').next().unwrap();
        let mut folder_of_link = folders[chance.below(folders.len())];
        while chance.below(8) > 0 && !folder_of_link.starts_with(top) {
            folder_of_link = folders[chance.below(folders.len())];
        }
        let link = format!("{folder_of_link}/l{at}");
        let place = folder.join(&link);
        match chance.below(8) {
            // Most lead to a file or to another link, directly or by a detour.
            0..=2 => symlink(text(&link, &target), place).unwrap(),
            3 => symlink(format!("./{}", text(&link, &target)), place).unwrap(),
            4 => symlink(folder.canonicalize().unwrap().join(&target), place).unwrap(),
            5 => symlink(text(&link, "model/.env"), place).unwrap(),
            6 => {
                // A folder and its contents under a second name.
                if !link.starts_with("model/c/") {
                    symlink(text(&link, "model/c"), place).unwrap();
                }
                continue;
            }
            _ => {
                symlink(text("top", &target), folder.join(format!("t{at}"))).unwrap();
                continue;
            }
        }
        paths.push(link);
    }
    paths
}

fn packed(folder: &Path, to: &Path) -> (Package, [u8; 32], Vec<String>) {
    let packer = Packer::from_folder(folder, SymlinkPolicy::Inside, FileSelection::Usual).unwrap();
    let report = packer.write(to, false).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    (Package::open(to).unwrap(), report.hash, report.left_behind)
}

/// Returns for each path of a package: contents, whether it is executable, and the target of a link.
fn listed(package: &Package) -> BTreeMap<String, (Vec<u8>, bool, Option<String>)> {
    let one = |file: &holdall::carton::PackageFile| {
        let bytes = package.read(&file.path).unwrap().to_vec();
        (file.path.clone(), (bytes, package.is_executable(file), file.target.clone()))
    };
    package.files().iter().map(one).collect()
}

fn copy_without_links(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        match from.is_dir() {
            true => copy_without_links(&from, &to),
            // The modes are copied, too.
            false => drop(std::fs::copy(from, to).unwrap()),
        }
    }
}

#[test]
fn links_and_executables_come_back_as_they_were() {
    let mut chance = Chance(7);
    let (mut kept, mut chains, mut named) = (0, 0, 0);
    for round in 0..60 {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let folder = at("folder");
        let paths = make(&folder, &mut chance);
        let (package, hash, left_behind) = packed(&folder, &at("a.carton"));
        let verified = package.verify(&PackageVerifyOptions::new()).unwrap();
        assert_eq!(verified.verdict(), Verdict::Sound, "{round}: {verified:?}");
        let files = listed(&package);
        for path in &paths {
            let from = folder.join(path);
            let (bytes, executes, target) = &files[path];
            assert!(*bytes == std::fs::read(&from).unwrap(), "{round}: {path}");
            let mode = from.metadata().unwrap().permissions().mode();
            let is_named =
                left_behind.iter().any(|what| what.starts_with(&format!("that `{path}` ")));
            match target {
                Some(target) => {
                    let end = folder.join(target).canonicalize().unwrap();
                    assert_eq!(from.canonicalize().unwrap(), end, "{round}: {path}");
                    assert!(from.is_symlink() && !is_named, "{round}: {path}");
                    let next = package.file(path).unwrap().next.clone().unwrap();
                    (kept, chains) = (kept + 1, chains + usize::from(next != *target));
                }
                None => {
                    assert_eq!(*executes, mode & 0o100 != 0, "{round}: {path}");
                    assert_eq!(from.is_symlink(), is_named, "{round}: {path} {left_behind:?}");
                    named += usize::from(is_named);
                }
            }
        }
        // Unpacked, it is the same, and no link leads out of the folder.
        let out = at("out");
        let report = package.unpack(&out).unwrap();
        assert_eq!((report.files, report.left_behind), (files.len() as u64, Vec::new()));
        let whole = out.canonicalize().unwrap();
        for (path, (bytes, executes, target)) in &files {
            let file: PathBuf = out.join(path);
            assert!(file.canonicalize().unwrap().starts_with(&whole), "{round}: {path}");
            assert_eq!(file.is_symlink(), target.is_some(), "{round}: {path}");
            assert!(*bytes == std::fs::read(&file).unwrap(), "{round}: {path}");
            if target.is_none() {
                let mode = file.metadata().unwrap().permissions().mode();
                assert_eq!(*executes, mode & 0o100 != 0, "{round}: {path}");
            }
        }
        let opened = listed(&Package::open(&out).unwrap());
        assert!(opened == files, "{round}");
        // Packed again, in either way, it is the same, byte for byte.
        let (_, again, left) = packed(&out, &at("b.carton"));
        assert_eq!((again, left.len()), (hash, 0), "{round}: {left:?}");
        let bytes = |name| std::fs::read(at(name)).unwrap();
        assert!(bytes("a.carton") == bytes("b.carton"), "{round}");
        Packer::from_package(&package).write(at("c.carton"), false).unwrap();
        assert!(bytes("a.carton") == bytes("c.carton"), "{round}");
        let unpacked = Package::open(&out).unwrap();
        Packer::from_package(&unpacked).write(at("d.carton"), false).unwrap();
        assert!(bytes("a.carton") == bytes("d.carton"), "{round}");
        // With links or copies, the model is the same.
        copy_without_links(&folder, &at("copy"));
        assert_eq!(packed(&at("copy"), &at("e.carton")).1, hash, "{round}");
    }
    assert!(kept > 40 && chains > 4 && named > 20, "{kept} {chains} {named}");
}

#[test]
fn chains_of_links_resolve_as_in_the_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    std::fs::create_dir_all(folder.join("model/real/deep")).unwrap();
    std::fs::write(folder.join("carton.toml"), TEXT).unwrap();
    for path in ["model/x", "model/real/x", "model/real/deep/y"] {
        std::fs::write(folder.join(path), path).unwrap();
    }
    symlink("real/deep", folder.join("model/d")).unwrap();
    // By the text `model/x`, but `model/real/x` for the system.
    symlink("d/../x", folder.join("model/across")).unwrap();
    symlink("d/y", folder.join("model/through")).unwrap();
    symlink("real/deep/y", folder.join("model/direct")).unwrap();
    symlink("../../x", folder.join("model/real/deep/up")).unwrap();
    let (package, _, left_behind) = packed(&folder, &dir.path().join("a.carton"));
    for (path, target, contents) in [
        ("model/across", Some("model/real/x"), "model/real/x"),
        ("model/through", Some("model/real/deep/y"), "model/real/deep/y"),
        ("model/direct", Some("model/real/deep/y"), "model/real/deep/y"),
        ("model/real/deep/up", Some("model/x"), "model/x"),
        ("model/d/up", Some("model/x"), "model/x"),
        ("model/d/y", None, "model/real/deep/y"),
    ] {
        assert_eq!(package.file(path).unwrap().target.as_deref(), target, "{path}");
        assert_eq!(package.read(path).unwrap(), contents);
    }
    let named: Vec<&str> = left_behind.iter().filter_map(|of| of.split('`').nth(1)).collect();
    assert_eq!(named, ["model/d"]);
}

#[test]
fn a_folder_of_a_model_alone_keeps_its_links() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(at("m/blobs")).unwrap();
    std::fs::write(at("m/blobs/0123"), "weights").unwrap();
    // The names of a package's own texts are ordinary names here.
    std::fs::write(at("m/MANIFEST"), "of the model").unwrap();
    symlink("blobs/0123", at("m/weights.bin")).unwrap();
    let mut recipe = holdall::carton::Recipe::new();
    recipe.runner = Some("python".to_owned());
    recipe.framework_version = Some(">=3.10".to_owned());
    let prepared = recipe.prepare(at("m")).unwrap();
    let report = prepared.packer.write(at("m.carton"), false).unwrap();
    assert_eq!(report.left_behind, [""; 0]);
    let package = Package::open(at("m.carton")).unwrap();
    let file = package.file("model/weights.bin").unwrap();
    assert_eq!(file.target.as_deref(), Some("model/blobs/0123"));
    assert_eq!(package.read("model/MANIFEST").unwrap(), "of the model");
    package.unpack_model(at("out")).unwrap();
    assert_eq!(std::fs::read_link(at("out/weights.bin")).unwrap(), Path::new("blobs/0123"));
    std::fs::remove_file(at("m/weights.bin")).unwrap();
    // A link that leads out is refused, unless the caller allows it: then it is packed as a file, and
    // reported.
    std::fs::write(at("outside"), "elsewhere").unwrap();
    symlink("../outside", at("m/weights.bin")).unwrap();
    let e = recipe.prepare(at("m")).unwrap_err();
    assert_eq!(e.code(), "package/link-out");
    assert!(e.to_string().contains("weights.bin") && !e.remedies().is_empty(), "{e}");
    recipe.symlinks = SymlinkPolicy::All;
    let report = recipe.prepare(at("m")).unwrap().packer.write(at("n.carton"), false).unwrap();
    assert_eq!(report.left_behind, ["that `weights.bin` is a symbolic link to `../outside`"]);
    let package = Package::open(at("n.carton")).unwrap();
    assert_eq!(package.read("model/weights.bin").unwrap(), "elsewhere");
}
