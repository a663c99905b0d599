//! Salvages the sound tensors of damaged files.

use crate::make::{self, Made, bytes_of, dense, f32s, part};
use holdall::{
    Attributes, DType, Edit, OpenOptions, Role, SalvageReport, TensorSpec, VerifyOptions,
    WriteOptions, salvage, verify,
};
use std::path::{Path, PathBuf};

/// Returns tensors `t0` to `t7` of 64 floats each.
fn tensors() -> Vec<Made> {
    let one = |at: u32| {
        let data = part(Role::Data, DType::F32, f32s(&[at as f32; 64]));
        dense(&format!("t{at}"), &[8, 8], data)
    };
    (0..8).map(one).collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn damaged(&self, bytes: &[u8]) -> PathBuf {
        let path = self.path("damaged");
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn take(from: &Path, to: &Path) -> holdall::Result<SalvageReport> {
    salvage(from, to, WriteOptions::new(), &OpenOptions::new())
}

/// Checks that the file at `path` has these tensors of [`tensors`] and no others, and is sound.
#[track_caller]
fn has(path: &Path, expected: &[u32]) {
    let file = holdall::open(path).unwrap();
    let mut names: Vec<&str> = file.names().collect();
    names.sort_unstable();
    let wanted: Vec<String> = expected.iter().map(|at| format!("t{at}")).collect();
    assert_eq!(names, wanted);
    for at in expected {
        let found = file.tensor(&format!("t{at}")).unwrap();
        assert_eq!((found.shape(), found.dtype()), (&[8, 8][..], Some(DType::F32)));
        assert_eq!(found.bytes(&Role::Data).unwrap(), f32s(&[*at as f32; 64]));
    }
    assert!(verify(&file, &VerifyOptions::new()).unwrap().is_sound());
}

#[test]
fn a_file_cut_short_at_any_byte_of_its_data() {
    let dir = Folder::new();
    for format in ["safetensors", "metatensor"] {
        let whole = bytes_of(format, &Attributes::new(), &tensors());
        let opened = make::open(whole.clone());
        let ends: Vec<u64> = (0..8)
            .map(|at| opened.tensor(&format!("t{at}")).unwrap())
            .map(|t| t.component(&Role::Data).unwrap().stored.end)
            .collect();
        let first = ends[0] as usize;
        for len in (first..whole.len()).step_by(61).chain([first + 1, whole.len() - 1]) {
            let (from, to) = (dir.damaged(&whole[..len]), dir.path(&format!("{len}.{format}.zt")));
            let report = take(&from, &to).unwrap();
            let kept: Vec<u32> = (0..8).filter(|at| ends[*at as usize] <= len as u64).collect();
            has(&to, &kept);
            assert!(report.open_error.is_some() && !report.is_complete());
            assert_eq!(report.tensors, kept.len() as u64);
            assert_eq!(report.left_out_count, 8 - kept.len() as u64);
            assert!(report.left_out.iter().all(|e| e.code() == "index/cut-short"));
            assert_eq!(report.unchecked, kept.len() as u64, "no format with a header has digests");
        }
        // Not one complete tensor, or not even the header: the error is returned, and nothing is written.
        for len in [first - 1, 100, 9] {
            let (from, to) = (dir.damaged(&whole[..len]), dir.path("none.zt"));
            take(&from, &to).unwrap_err();
            assert!(!to.exists());
        }
        // Bytes added at the end do not hide the error either.
        let from = dir.damaged(&[&whole[..], &[7; 100]].concat());
        let to = dir.path(&format!("longer.{format}.zt"));
        assert!(take(&from, &to).unwrap().open_error.is_some());
        has(&to, &[0, 1, 2, 3, 4, 5, 6, 7]);
    }
}

#[test]
fn tensors_whose_digest_is_wrong_are_left_out() {
    let dir = Folder::new();
    let mut bytes = bytes_of("ztensor@1.2.0", &Attributes::new(), &tensors());
    let opened = make::open(bytes.clone());
    for at in [2, 5] {
        let tensor = opened.tensor(&format!("t{at}")).unwrap();
        bytes[tensor.component(&Role::Data).unwrap().stored.start as usize + 17] ^= 4;
    }
    let (from, to) = (dir.damaged(&bytes), dir.path("out.zt"));
    let report = take(&from, &to).unwrap();
    has(&to, &[0, 1, 3, 4, 6, 7]);
    assert!(report.open_error.is_none() && !report.is_complete());
    let found: Vec<_> = report.left_out.iter().map(|e| (e.code(), e.tensor())).collect();
    assert_eq!(found, [("file/digest", Some("t2")), ("file/digest", Some("t5"))]);
    assert_eq!(std::fs::read(&from).unwrap(), bytes, "the damaged file stays as it is");
    assert_eq!(holdall::open(&to).unwrap().version(), "1.2.0");
}

#[test]
fn an_older_end_of_a_file_whose_end_was_lost() {
    let dir = Folder::new();
    let older = bytes_of("ztensor@1.2.0", &Attributes::new(), &tensors());
    // An interrupted append: new bytes after the old end, without a new end.
    for version in ["ztensor@0.1.0", "ztensor@1.0"] {
        let older = bytes_of(version, &Attributes::new(), &tensors());
        for added in [1usize, 8, 5000, 5 << 20] {
            let mut bytes = older.clone();
            // Including numbers that could be lengths of a manifest.
            bytes.extend((0..added as u64 / 8).flat_map(|at| (at % 3000).to_le_bytes()));
            bytes.extend((0..added % 8).map(|at| at as u8));
            let (from, to) = (dir.damaged(&bytes), dir.path(&format!("{version}-{added}.zt")));
            let report = take(&from, &to).unwrap();
            has(&to, &[0, 1, 2, 3, 4, 5, 6, 7]);
            assert_eq!(
                (report.read_len, report.source_len),
                (older.len() as u64, bytes.len() as u64)
            );
        }
    }
    for added in [1usize, 8, 5000, 5 << 20] {
        let mut bytes = older.clone();
        bytes.extend((0..added).map(|at| (at * 7) as u8));
        let (from, to) = (dir.damaged(&bytes), dir.path(&format!("{added}.zt")));
        let report = take(&from, &to).unwrap();
        has(&to, &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(report.read_len, older.len() as u64);
        assert_eq!(report.source_len, bytes.len() as u64);
        assert!(!report.is_complete());
    }
}

/// The manifest is intact, but its position is lost.
#[test]
fn a_manifest_whose_place_was_lost() {
    let dir = Folder::new();
    for (version, footer) in [("0.1.0", 8), ("1.0", 8), ("1.2.0", 16)] {
        let whole = bytes_of(&format!("ztensor@{version}"), &Attributes::new(), &tensors());
        let end = whole.len() - footer;
        for cut in 1..=footer {
            let mut overwritten = whole.clone();
            overwritten[end..].fill(cut as u8);
            for (what, bytes) in [("cut", &whole[..whole.len() - cut]), ("over", &overwritten)] {
                let (from, to) =
                    (dir.damaged(bytes), dir.path(&format!("{version}-{cut}-{what}.zt")));
                let report = take(&from, &to).unwrap();
                has(&to, &[0, 1, 2, 3, 4, 5, 6, 7]);
                assert!(!report.is_complete());
                assert!(holdall::open(&to).unwrap().version().starts_with(version));
            }
        }
        // Without a manifest the meaning of the bytes is unknown.
        let (from, to) = (dir.damaged(&whole[..end - 1]), dir.path("lost.zt"));
        let e = take(&from, &to).unwrap_err();
        assert!(e.hint().is_some_and(|hint| hint.contains("nothing can be recovered")), "{e}");
        assert!(!to.exists());
    }
}

#[test]
fn a_sound_file_comes_out_whole() {
    let dir = Folder::new();
    for format in ["ztensor@1.2.0", "ztensor@1.0", "ztensor@0.1.0", "safetensors", "metatensor"] {
        let from = dir.damaged(&bytes_of(format, &Attributes::new(), &tensors()));
        // Without an extension the format is that of the file.
        let to = dir.path(&format!("{format} whole"));
        let report = take(&from, &to).unwrap();
        assert!(report.is_complete(), "{format}");
        has(&to, &[0, 1, 2, 3, 4, 5, 6, 7]);
        let (a, b) = (holdall::open(&from).unwrap(), holdall::open(&to).unwrap());
        assert_eq!(a.format(), b.format());
        assert_eq!(
            a.version().split('.').take(2).collect::<Vec<_>>(),
            b.version().split('.').take(2).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_tensor_that_cannot_be_read_is_left_out_by_name_and_not_by_pattern() {
    let dir = Folder::new();
    // The name of the damaged tensor is a pattern that matches all.
    let mut all = tensors();
    all.push(dense("t*", &[4], part(Role::Data, DType::I16, vec![1; 8])));
    let mut bytes = bytes_of("safetensors", &Attributes::new(), &all);
    let at = bytes.windows(5).position(|w| w == b"\"I16\"").unwrap();
    bytes[at..at + 5].copy_from_slice(b"\"X99\"");
    let (from, to) = (dir.damaged(&bytes), dir.path("out.zt"));
    let e = take(&from, &to);
    // An unknown dtype is not damage for verification, but cannot be taken either.
    let report = e.unwrap();
    has(&to, &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(report.left_out_count, 1);
    assert_eq!(report.left_out[0].code(), "safetensors/dtype");
}

#[test]
fn an_existing_target_is_kept() {
    let dir = Folder::new();
    let from = dir.damaged(&bytes_of("safetensors", &Attributes::new(), &tensors()));
    let to = dir.path("out.zt");
    std::fs::write(&to, b"mine").unwrap();
    take(&from, &to).unwrap_err();
    assert_eq!(std::fs::read(&to).unwrap(), b"mine");
    take(&dir.path("not there"), &to).unwrap_err();
}

#[test]
fn a_damaged_edit_falls_back_to_the_previous_state() {
    let dir = Folder::new();
    let path = dir.path("edited.zt");
    std::fs::write(&path, bytes_of("ztensor@1.2.0", &Attributes::new(), &tensors())).unwrap();
    let mut edit = Edit::open(&path).unwrap();
    let spec = TensorSpec::dense("t8", DType::F32, [8, 8]);
    edit.add(spec, vec![f32s(&[8.0; 64]).into()]).unwrap();
    edit.commit().unwrap();
    let to = dir.path("out.zt");
    assert!(take(&path, &to).unwrap().is_complete());
    has(&to, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[cfg(feature = "carton")]
mod zips {
    use super::*;
    use bytes::Bytes;
    use holdall::carton::{Description, FileContent, Package, Packer};

    /// Returns a package of several files, one of them compressed.
    fn package() -> Vec<u8> {
        let mut description = Description::default();
        description.runner.name = "noop".into();
        description.runner.framework_version = "=1.0.0".into();
        description.runner.compat_version = 1;
        let dir = Folder::new();
        let path = dir.path("m.carton");
        let file = |n: u8| FileContent::Bytes(Bytes::from(vec![n; 3000 + usize::from(n)]));
        Packer::new(description)
            .with_file("model/a.bin", file(1))
            .with_file("model/b.bin", file(2))
            .with_file("model/ü.bin", file(3))
            .write(&path, false)
            .unwrap();
        std::fs::read(path).unwrap()
    }

    /// Returns each entry's name, the offset of its header, and the end of its bytes.
    fn places(zip: &[u8]) -> Vec<(String, usize, usize)> {
        use holdall_core::Window;
        use holdall_core::wire::zip::Directory;
        let window = Window::whole(Bytes::copy_from_slice(zip));
        let directory = Directory::read(&window, &holdall::Limits::default()).ok().unwrap();
        let mut out: Vec<_> = directory
            .entries()
            .map(|e| {
                let data = directory.data(e, &window).ok().unwrap();
                (e.name().to_owned(), directory.header(e).start as usize, data.end as usize)
            })
            .collect();
        out.sort_by_key(|(_, start, _)| *start);
        out
    }

    fn lost(report: &SalvageReport) -> Vec<(&'static str, String)> {
        report.left_out.iter().map(|e| (e.code(), e.message().to_owned())).collect()
    }

    #[test]
    fn a_package_whose_directory_was_lost_is_whole_again() {
        let dir = Folder::new();
        let zip = package();
        let end = places(&zip).last().unwrap().2;
        for cut in [end, end + 1, end + 4, zip.len() - 22, zip.len() - 1] {
            let (from, to) = (dir.damaged(&zip[..cut]), dir.path(&format!("{cut}.carton")));
            let report = take(&from, &to).unwrap();
            let files = places(&zip).len() as u64;
            assert_eq!(report.files, files, "{:?}", lost(&report));
            // The bytes after the last entry are lost, and contained nothing else.
            assert!(report.left_out.iter().all(|e| e.code() == "zip/local-header"), "{report:?}");
            assert!(report.open_error.is_some() && !report.is_complete());
            let package = Package::open(&to).unwrap();
            let verified = package.verify(&holdall::carton::PackageVerifyOptions::new()).unwrap();
            assert_eq!(verified.finding_count, 0, "{verified:?}");
            assert_eq!(package.read("model/ü.bin").unwrap(), vec![3; 3003]);
            let whole = dir.path("whole.carton");
            std::fs::write(&whole, &zip).unwrap();
            assert_eq!(package.hash(), Package::open(&whole).unwrap().hash());
        }
    }

    #[test]
    fn truncated_and_changed_tensors_are_reported_and_omitted() {
        let dir = Folder::new();
        let zip = package();
        let places = places(&zip);
        for (number, (name, start, end)) in places.iter().enumerate().skip(1) {
            for cut in [start + 10, end - 1] {
                let (from, to) = (dir.damaged(&zip[..cut]), dir.path(&format!("{cut}.carton")));
                let report = take(&from, &to).unwrap();
                assert_eq!(report.files, number as u64, "{name}");
                assert!(report.left_out_count > 0 && !report.is_complete());
                assert!(report.left_out.iter().all(|e| e.source_name().is_some()), "{report:?}");
            }
        }
        let (_, start, end) = places.iter().find(|(name, ..)| name == "model/b.bin").unwrap();
        let mut bytes = zip[..zip.len() - 1].to_vec();
        bytes[end - 100] ^= 1;
        let (from, to) = (dir.damaged(&bytes), dir.path("changed.carton"));
        let report = take(&from, &to).unwrap();
        assert_eq!(report.files, places.len() as u64 - 1);
        let found = lost(&report);
        assert!(
            found.iter().any(|(code, text)| *code == "zip/crc32" && text.contains("model/b.bin")),
            "{found:?}"
        );
        assert!(
            found
                .iter()
                .any(|(code, text)| *code == "carton/missing-file" && text.contains("model/b.bin")),
            "{found:?}"
        );
        // A length after the bytes is not searched for.
        let mut bytes = zip[..zip.len() - 1].to_vec();
        bytes[start + 6] |= 8;
        let (from, to) = (dir.damaged(&bytes), dir.path("deferred.carton"));
        let report = take(&from, &to).unwrap();
        assert!(lost(&report).iter().any(|(code, _)| *code == "zip/descriptor"));
        // Only the first header: nothing to take, nothing written.
        let (from, to) = (dir.damaged(&zip[..20]), dir.path("none.carton"));
        assert_eq!(take(&from, &to).unwrap_err().code(), "salvage/nothing-sound");
        assert!(!to.exists());
        // A zip is not converted to a tensor file.
        let (from, to) = (dir.damaged(&zip[..zip.len() - 1]), dir.path("out.zt"));
        assert_eq!(take(&from, &to).unwrap_err().code(), "write/extension");
        assert!(!to.exists());
    }

    /// Any prefix of packages of every writer gives an error, or a zip whose entries can be read.
    #[test]
    fn any_beginning_of_any_package_is_survived() {
        use holdall_core::Window;
        use holdall_core::wire::zip::Directory;
        let dir = Folder::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/carton");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "carton") {
                continue;
            }
            let zip = std::fs::read(&path).unwrap();
            for cut in (1..12).map(|n| zip.len() * n / 12).chain([zip.len() - 1, zip.len() - 22]) {
                let (from, to) = (dir.damaged(&zip[..cut]), dir.path("out.carton"));
                let write = WriteOptions::new().with_overwrite(true);
                if salvage(&from, &to, write, &OpenOptions::new()).is_err() {
                    continue;
                }
                let window = Window::whole(std::fs::read(&to).unwrap().into());
                let directory = Directory::read(&window, &holdall::Limits::default());
                let directory = directory.unwrap_or_else(|e| panic!("{path:?} {cut}: {e:?}"));
                for entry in directory.entries() {
                    let data = directory.data(entry, &window);
                    assert!(data.is_ok(), "{path:?} {cut}: {entry:?} {data:?}");
                }
            }
        }
    }
}
