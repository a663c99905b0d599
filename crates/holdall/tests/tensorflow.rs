//! TensorFlow checkpoints: an index and data files next to it.

use crate::tensorflow_files::{block, entry, header, slice_key, sliced, table};
use holdall::{File, Limits, OpenOptions, VerifyOptions, verify};
use std::path::{Path, PathBuf};

/// Returns the folder of files that TensorFlow 2.21 wrote: `interop/others/tensorflow_files.py`.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tensorflow")
}

fn floats(all: &[f32]) -> Vec<u8> {
    all.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn sound(file: &File) {
    let report = verify(file, &VerifyOptions::new()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// Writes an index with these entries, and one data file for each run of bytes.
fn written(dir: &Path, entries: &[(Vec<u8>, Vec<u8>)], is_big: bool, data: &[&[u8]]) -> PathBuf {
    let head = header(data.len() as u64, is_big);
    // A block for each entry.
    let all = std::iter::once(&head).chain(entries);
    let blocks: Vec<Vec<u8>> = all.map(|entry| block(std::slice::from_ref(entry), 0)).collect();
    let path = dir.join("m.ckpt.index");
    std::fs::write(&path, table(&blocks)).unwrap();
    for (at, bytes) in data.iter().enumerate() {
        let name = format!("m.ckpt.data-{at:05}-of-{:05}", data.len());
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    path
}

#[test]
fn data_is_read_from_files_next_to_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (floats(&[1.0, -2.5]), 7u16.to_le_bytes());
    let second = [&[9; 4][..], &b].concat();
    let entries = [entry("a/b", 1, &[2], 0, 0, &a), entry("c", 17, &[], 1, 4, &b)];
    let path = written(dir.path(), &entries, false, &[&a, &second]);
    let file = holdall::open(&path).unwrap();
    assert_eq!((file.format(), file.len()), ("tensorflow", 2));
    assert_eq!(file.tensor("a/b").unwrap().to_dense().unwrap().to_f32().unwrap(), [1.0, -2.5]);
    assert_eq!(file.tensor("c").unwrap().dense().unwrap().bytes()[..], b);
    sound(&file);
    // A byte changed, bytes missing, the file missing.
    let place = dir.path().join("m.ckpt.data-00001-of-00002");
    let mut wrong = second.clone();
    wrong[4] ^= 1;
    std::fs::write(&place, &wrong).unwrap();
    let report = verify(&holdall::open(&path).unwrap(), &VerifyOptions::new()).unwrap();
    assert_eq!(report.findings.iter().map(|e| e.code()).collect::<Vec<_>>(), ["file/digest"]);
    std::fs::write(&place, &second[..5]).unwrap();
    let fault = |name: &str| {
        let file = holdall::open(&path).unwrap();
        file.tensor(name).unwrap().fault().map(|e| e.code())
    };
    assert_eq!((fault("a/b"), fault("c")), (None, Some("tensorflow/data")));
    std::fs::remove_file(&place).unwrap();
    assert_eq!((fault("a/b"), fault("c")), (None, Some("tensorflow/data")));
    #[cfg(unix)]
    {
        let away = tempfile::tempdir().unwrap();
        std::fs::write(away.path().join("x"), &second).unwrap();
        std::os::unix::fs::symlink(away.path().join("x"), &place).unwrap();
        assert_eq!(holdall::open(&path).unwrap_err().code(), "tensorflow/link");
    }
}

#[test]
fn bytes_in_the_other_order_are_turned() {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_be_bytes()).collect();
    let path = written(dir.path(), &[entry("w", 1, &[2], 0, 0, &bytes)], true, &[&bytes]);
    let file = holdall::open(path).unwrap();
    assert_eq!(file.tensor("w").unwrap().to_dense().unwrap().to_f32().unwrap(), [1.5, -2.0]);
    sound(&file);
}

#[test]
fn slices_are_put_together() {
    let dir = tempfile::tempdir().unwrap();
    // A matrix of two rows and three columns: columns 0 and 1, and column 2.
    let (left, right) = (floats(&[1.0, 2.0, 4.0, 5.0]), floats(&[3.0, 6.0]));
    let data = [left.clone(), right.clone()].concat();
    let places: [&[(u64, u64)]; 2] = [&[(0, 2), (0, 2)], &[(0, 2), (2, 1)]];
    let part = |at: usize, dims: &[u64], start: u64, data: &[u8]| {
        (slice_key("s", places[at]), entry("", 1, dims, 0, start, data).1)
    };
    let parts = || vec![part(0, &[2, 2], 0, &left), part(1, &[2, 1], 16, &right)];
    let mut entries = parts();
    entries.push(sliced("s", 1, &[2, 3], &places));
    let path = written(dir.path(), &entries, false, &[&data]);
    let file = holdall::open(&path).unwrap();
    let values = file.tensor("s").unwrap().to_dense().unwrap().to_f32().unwrap();
    assert_eq!(values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    sound(&file);
    // Not a grid: a row of two, two columns of one and two, and a corner. The whole, and any part of it, is
    // assembled.
    let boxes: [&[(u64, u64)]; 5] = [
        &[(0, 1), (0, 2)],
        &[(0, 2), (2, 1)],
        &[(1, 2), (0, 1)],
        &[(1, 1), (1, 1)],
        &[(2, 1), (1, 2)],
    ];
    let runs: [&[f32]; 5] = [&[0.0, 1.0], &[2.0, 5.0], &[3.0, 6.0], &[4.0], &[7.0, 8.0]];
    let from_boxes = floats(&runs.concat());
    let (mut entries, mut start) = (Vec::new(), 0);
    for (place, run) in boxes.iter().zip(runs) {
        let dims = [place[0].1, place[1].1];
        entries.push((slice_key("s", place), entry("", 1, &dims, 0, start, &floats(run)).1));
        start += run.len() as u64 * 4;
    }
    entries.sort();
    let with = |slices: &[&[(u64, u64)]]| {
        let all = [&entries[..], &[sliced("s", 1, &[3, 3], slices)]].concat();
        holdall::open(written(dir.path(), &all, false, &[&from_boxes])).unwrap()
    };
    let file = with(&boxes);
    let s = file.tensor("s").unwrap();
    let wanted: Vec<f32> = (0..9u8).map(f32::from).collect();
    assert_eq!(s.to_dense().unwrap().to_f32().unwrap(), wanted);
    for row in 0..3 {
        let own = s.rows(row..row + 1).unwrap().to_f32().unwrap();
        assert_eq!(own, wanted[row as usize * 3..][..3]);
    }
    sound(&file);
    let fault = |slices| with(slices).tensor("s").unwrap().fault().map(|e| e.code());
    assert_eq!(fault(&boxes[1..]), Some("tensorflow/slices"), "a hole");
    // A hole, a duplicate, and another shape.
    for (dims, slices) in
        [([2, 4], &places[..]), ([2, 3], &[places[0], places[0]]), ([3, 3], &places[..])]
    {
        let mut entries = parts();
        entries.push(sliced("s", 1, &dims, slices));
        let path = written(dir.path(), &entries, false, &[&data]);
        let file = holdall::open(path).unwrap();
        let code = file.tensor("s").unwrap().fault().map(|e| e.code());
        assert_eq!(code, Some("tensorflow/slices"), "{dims:?} {slices:?}");
    }
}

#[test]
fn the_table_is_held_to_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), &[entry("w", 1, &[1], 0, 0, &[0; 4])], false, &[&[0; 4]]);
    let mut limits = Limits::default();
    limits.manifest_len = 60;
    let e = OpenOptions::new().with_limits(limits).open(path).unwrap_err();
    assert_eq!(e.code(), "sstable/too-long");
}

#[test]
fn checkpoints_of_tensorflow_are_read() {
    let file = holdall::open(folder().join("tf_types.index")).unwrap();
    assert_eq!(file.faults().count(), 0);
    sound(&file);
    let known = holdall::open(folder().join("tf_types.npz")).unwrap();
    assert!(known.len() >= 13);
    for tensor in known.tensors() {
        let own = file.tensor(tensor.name()).unwrap();
        // NumPy has no type for these, and stores their bytes.
        if own.dtype() != Some(holdall::DType::Bf16) {
            let of = |t: &holdall::Tensor| (t.dtype(), t.logical_type(), t.shape().to_vec());
            assert_eq!(of(&own), of(&tensor), "{}", own.name());
        }
        let bytes = |t: &holdall::Tensor| t.bytes(&holdall::Role::Data).unwrap();
        assert_eq!(bytes(&own), bytes(&tensor), "{}", own.name());
    }
    assert_eq!(file.tensor("types/bfloat16").unwrap().dtype(), Some(holdall::DType::Bf16));

    let file = holdall::open(folder().join("tf_sliced.index")).unwrap();
    sound(&file);
    let rows = file.tensor("rows").unwrap();
    let wanted: Vec<f32> = (0..700u16).map(f32::from).collect();
    assert_eq!((rows.shape(), rows.to_dense().unwrap().to_f32().unwrap()), (&[100, 7][..], wanted));
    let columns = file.tensor("columns").unwrap();
    let wanted: Vec<u8> = (0..18i16).flat_map(i16::to_le_bytes).collect();
    assert_eq!(columns.bytes(&holdall::Role::Data).unwrap(), wanted);

    let file = holdall::open(folder().join("tf_objects.index")).unwrap();
    sound(&file);
    let w = file.tensor("model/w/.ATTRIBUTES/VARIABLE_VALUE").unwrap();
    assert_eq!(w.to_dense().unwrap().to_f32().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

/// A saved model is a folder, with the weights in a subfolder.
#[test]
fn saved_models_are_folders() {
    let dir = tempfile::tempdir().unwrap();
    let weights = dir.path().join("variables");
    std::fs::create_dir(&weights).unwrap();
    for entry in folder().read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
        if let Some(behind) = name.strip_prefix("tf_objects.") {
            std::fs::copy(&entry, weights.join(format!("variables.{behind}"))).unwrap();
        }
    }
    assert!(!holdall::is_model_folder(dir.path()));
    std::fs::write(dir.path().join("saved_model.pb"), b"\x08\x01").unwrap();
    assert!(holdall::is_model_folder(dir.path()));
    let file = holdall::open(dir.path()).unwrap();
    assert_eq!(file.format(), "tensorflow");
    assert_eq!(file.len(), holdall::open(&weights).unwrap().len());
    sound(&file);
}
