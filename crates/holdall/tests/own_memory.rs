//! Loads into memory that the caller may write to, and cancelled operations.

use holdall::{
    Cancel, Convert, DType, ErrorKind, LoadOptions, OpenOptions, Role, TensorSpec, VerifyOptions,
    Work, WriteOptions, Writer, formats,
};

/// Returns a file with a raw tensor, a tied one, and an empty one; compressed on request.
fn file(zstd: bool) -> holdall::File {
    let options = WriteOptions::new().with_format(formats::by_name("zt").unwrap());
    let options = if zstd { options.with_zstd(3) } else { options };
    let mut writer = Writer::stream(Vec::new(), &options).unwrap();
    writer.add(TensorSpec::dense("a", DType::U8, [4]), &[&[1, 2, 3, 4]]).unwrap();
    let mut tied = TensorSpec::dense("b", DType::U8, [4]);
    tied.components[0].shares =
        Some(holdall::ComponentRef { tensor: "a".to_owned(), role: Role::Data });
    writer.add(tied, &[]).unwrap();
    writer.add(TensorSpec::dense("n", DType::F32, [0]), &[&[]]).unwrap();
    let big: Vec<u8> = (0..6u32 << 20).map(|i| (i / 7) as u8).collect();
    writer.add(TensorSpec::dense("big", DType::U8, [6 << 20]), &[&big]).unwrap();
    let bytes = writer.finish().unwrap();
    OpenOptions::new().open_bytes(bytes, "made").unwrap()
}

#[test]
fn memory_of_a_load_is_the_callers() {
    for zstd in [false, true] {
        let file = file(zstd);
        let mut loaded = file.load_memory(0..file.len(), &LoadOptions::new()).unwrap();
        assert_eq!(loaded.tensors.len(), 4);
        let find = |name: &str| loaded.tensors.iter().position(|t| t.name() == name).unwrap();
        let (a, b, n, big) = (find("a"), find("b"), find("n"), find("big"));
        assert_eq!(loaded.ranges[a], loaded.ranges[b], "equal bytes are at one place");
        assert!(loaded.ranges[n].range.is_empty());
        for (at, name) in [(a, "a"), (big, "big")] {
            let place = loaded.ranges[at].clone();
            let own = &mut loaded.buffers[place.buffer].as_mut()[place.range];
            let before = file.tensor(name).unwrap().bytes(&Role::Data).unwrap();
            assert_eq!(own, &before[..]);
            own.fill(9);
            let after = file.tensor(name).unwrap().bytes(&Role::Data).unwrap();
            assert_eq!(before, after, "what others hold stays");
        }
        let (mut memory, range) = file.tensor("a").unwrap().memory(&Role::Data).unwrap();
        assert_eq!(memory.as_mut()[range], [1, 2, 3, 4]);
    }
}

#[test]
fn tensors_have_numbers() {
    let file = file(false);
    assert_eq!(file.at(0).unwrap().position(), 0);
    assert!(file.at(4).is_none());
    let e = file.load_memory([1, 9], &LoadOptions::new()).err().unwrap();
    assert_eq!((e.kind(), e.code()), (ErrorKind::NotFound, "file/no-tensor"));
}

/// Returns work that is cancelled after its first bytes.
fn fickle() -> Work {
    let cancel = Cancel::new();
    let lost = cancel.clone();
    Work::new().with_cancel(&cancel).on_progress(move |done, _| {
        if done > 0 {
            lost.cancel();
        }
    })
}

#[test]
fn work_that_is_cancelled_ends() {
    let folder = tempfile::tempdir().unwrap();
    for zstd in [false, true] {
        let file = file(zstd);
        let load = file.load_memory(0..4, &LoadOptions::new().with_work(fickle()));
        let verify = holdall::verify(&file, &VerifyOptions::new().with_work(fickle()));
        let options = Convert::new(WriteOptions::new()).with_work(fickle());
        let target = folder.path().join("out.zt");
        let convert = holdall::convert(&file, &target, &options);
        let errors = [load.err(), verify.err(), convert.err()];
        for e in errors.map(Option::unwrap) {
            assert_eq!((e.kind(), e.code()), (ErrorKind::Io, "work/cancelled"), "{e}");
            assert!(e.is_retryable());
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is left behind");
    }
}
