//! Promises of the guide that no other test covers.

use holdall::{
    DType, Edit, Io, OpenOptions, Result, Role, TensorSpec, Value, Work, WriteOptions, Writer,
};
use std::path::Path;

/// Writes two tensors, one of them large enough that the file can be edited in place if the system supports
/// it.
fn write(path: &Path, options: &WriteOptions) {
    let mut writer = Writer::create(path, options).unwrap();
    let big: Vec<u8> = (0..3u32 << 20).flat_map(|i| (i / 100).to_le_bytes()).collect();
    writer.add(TensorSpec::dense("big", DType::U32, [3, 1 << 20]), &[&big]).unwrap();
    writer.add(TensorSpec::dense("small", DType::U8, [4]), &[&[1, 2, 3, 4]]).unwrap();
    writer.finish().unwrap();
}

fn open(path: &Path, io: Io) -> holdall::File {
    OpenOptions::new().with_io(io).open(path).unwrap()
}

#[test]
fn a_file_that_became_shorter_is_an_error_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zt");
    write(&path, &WriteOptions::new());
    let file = open(&path, Io::Read);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let e = file.tensor("big").unwrap().bytes(&Role::Data).unwrap_err();
    assert_eq!(e.code(), "file/changed", "{e}");
    assert_eq!(file.load_all().err().map(|e| e.code()), Some("file/changed"));
}

#[test]
fn an_open_file_still_reads_tensors_kept_by_an_edit() {
    for io in [Io::Map, Io::Read] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zt");
        write(&path, &WriteOptions::new());
        let file = open(&path, io);
        let before = file.tensor("big").unwrap().bytes(&Role::Data).unwrap().to_vec();
        let mut edit = Edit::open(&path).unwrap();
        edit.remove("small").unwrap();
        let bytes = vec![7; 100_000];
        let spec = TensorSpec::dense("new", DType::U8, [100_000]);
        edit.add(spec, vec![bytes.into()]).unwrap();
        edit.commit().unwrap();
        assert_eq!(open(&path, io).len(), 2);
        assert!(file.tensor("big").unwrap().bytes(&Role::Data).unwrap() == before);
        holdall::compact(&path, WriteOptions::new()).unwrap();
        assert!(file.tensor("big").unwrap().bytes(&Role::Data).unwrap() == before);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn one_process_at_a_time_edits_a_file_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zt");
    write(&path, &WriteOptions::new());
    let edit = || -> Result<bool> {
        let mut edit = Edit::open(&path)?;
        edit.set_attribute("a", Value::Integer(1));
        edit.commit().map(|report| report.in_place)
    };
    let other = std::fs::File::open(&path).unwrap();
    other.lock().unwrap();
    assert_eq!(edit().unwrap_err().code(), "edit/locked");
    other.unlock().unwrap();
    edit().unwrap();
}

#[test]
fn a_file_appears_when_it_is_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zt");
    let mut writer = Writer::create(&path, &WriteOptions::new()).unwrap();
    writer.add(TensorSpec::dense("w", DType::U8, [4]), &[&[1, 2, 3, 4]]).unwrap();
    assert!(!path.exists());
    drop(writer);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_number_of_threads_does_not_show_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = [1, 3, 8].map(|threads| {
        let path = folder.path().join(format!("{threads}.zt"));
        write(
            &path,
            &WriteOptions::new().with_zstd(3).with_work(Work::new().with_threads(threads)),
        );
        std::fs::read(path).unwrap()
    });
    assert!(bytes[0] == bytes[1] && bytes[0] == bytes[2]);
}
