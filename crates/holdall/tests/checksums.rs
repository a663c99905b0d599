//! zstd's own checksums in frames: compared if no digest covers the bytes.

use crate::make::{copied, dense, far, file, noise, part};
use holdall::{Check, DType, DiffOptions, Digest, File, LoadOptions, Role, Work, diff};

/// Returns a compressed tensor whose frame ends in a wrong checksum; its digest, if it has one, covers it.
fn file_with_wrong_checksum(has_digest: bool) -> File {
    let mut data = part(Role::Data, DType::U8, noise(40_000, 3)).one_frame();
    let last = data.stored.last_mut().unwrap();
    *last ^= 0x10;
    if !has_digest {
        data = data.digest(None);
    }
    file("ztensor@1.2.0", &[dense("w", &[40_000], data)])
}

fn load(file: &File, check: Check) -> Result<Vec<u8>, &'static str> {
    let loaded = file.load(["w"], &LoadOptions::new().with_check(check)).map_err(|e| e.code())?;
    Ok(loaded.get("w").unwrap().bytes(&Role::Data).unwrap().to_vec())
}

#[test]
fn checksums_are_compared_unless_a_digest_vouches_or_no_check_is_wanted() {
    for (has_digest, check, found) in [
        (true, Check::Fast, Ok(())),
        (true, Check::All, Ok(())),
        (true, Check::Off, Ok(())),
        (false, Check::Fast, Err("zstd/broken")),
        (false, Check::All, Err("zstd/broken")),
        (false, Check::Off, Ok(())),
    ] {
        let borrowed = file_with_wrong_checksum(has_digest);
        for file in [copied(&borrowed), borrowed] {
            let expected = found.map(|()| noise(40_000, 3));
            assert_eq!(load(&file, check), expected, "digest: {has_digest}, {check:?}");
        }
    }
}

/// SHA-256 digests are checked by default if all of a component is read, like CRC-32C; bytes borrowed from a
/// map are not.
#[test]
fn sha256_is_checked_where_all_of_a_component_is_read() {
    let values = noise(3 << 20, 5);
    let wrong = Some(Digest::Sha256([7; 32]));
    let of = |digest: Option<Digest>, zstd: bool| {
        let data = part(Role::Data, DType::U8, values.clone());
        let data = if zstd { data.zstd() } else { data }.digest(digest);
        file("ztensor@1.2.0", &[dense("w", &[3 << 20], data)])
    };
    for zstd in [false, true] {
        let (good, bad) = (of(None, zstd), of(wrong.clone(), zstd));
        for bad in [copied(&bad), far(&bad), bad.clone()] {
            assert_eq!(bad.check(), Check::Read);
            let w = bad.tensor("w").unwrap();
            let code = |found: holdall::Result<()>| found.map_err(|e| e.code());
            let all = || bad.load_all().map(drop);
            assert_eq!(code(all()), Err("file/digest"));
            assert_eq!(code(w.memory(&Role::Data).map(drop)), Err("file/digest"));
            let pieces = || w.pieces(&Role::Data)?.try_for_each(|p| p.map(drop));
            assert_eq!(code(pieces()), Err("file/digest"));
            assert_eq!(code(w.checked().compare(&Role::Data)), Err("file/digest"));
            // Compared with a good file, on either side, on one thread or several.
            for (a, b) in [(&good, &bad), (&bad, &good)] {
                for threads in [1, 4] {
                    let work = Work::new().with_threads(threads);
                    let found = diff(a, b, &DiffOptions::new().with_work(work));
                    assert_eq!(code(found.map(drop)), Err("file/digest"), "{zstd} {threads}");
                }
            }
            // In statistics, whether the values are read once or twice.
            for bins in [0, 16] {
                let options = holdall::StatsOptions::new().with_bins(bins);
                assert_eq!(code(holdall::stats(&w, &options).map(drop)), Err("file/digest"));
            }
            // Unless checks are off, or only part is read.
            for check in [Check::Off, Check::Fast] {
                let options = LoadOptions::new().with_check(check);
                assert_eq!(code(bad.load(["w"], &options).map(drop)), Ok(()));
            }
            assert_eq!(code(w.bytes_range(&Role::Data, 0..100).map(drop)), Ok(()));
        }
        let w = bad.tensor("w").unwrap();
        assert_eq!(w.bytes(&Role::Data).is_ok(), !zstd, "a view of memory is not touched");
    }
}

#[test]
fn verify_compares_them_always() {
    for has_digest in [true, false] {
        let file = file_with_wrong_checksum(has_digest);
        let report = holdall::verify(&file, &holdall::VerifyOptions::new()).unwrap();
        let codes: Vec<&str> = report.findings.iter().map(|f| f.code()).collect();
        assert_eq!(codes, ["zstd/broken"]);
    }
}

#[test]
fn checksums_of_chunks_count_as_verified() {
    let file = holdall::open(crate::described::folder("hdf5").join("h5_chunked.h5")).unwrap();
    let report = holdall::verify(&file, &holdall::VerifyOptions::new()).unwrap();
    assert_eq!(report.chunk_checksums, [("fletcher32", 1)]);
    let no_digest = report.unverified.iter().find(|u| u.tensor == "fletcher32");
    assert!(no_digest.is_none(), "{:?}", report.unverified);
}

/// Single records are read from verified bytes if all digests are to be compared.
#[test]
fn records_are_compared_when_they_are_opened_if_all_is_to_be_checked() {
    use holdall::{OpenOptions, TensorRecords as _};
    let folder = crate::described::folder("metatensor");
    let (mut seen, check) = (0, |check| OpenOptions::new().with_check(check));
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "mt") {
            continue;
        }
        // Metatensor has no digests; zTensor stores the same records with them.
        let dir = tempfile::tempdir().unwrap();
        let zt = dir.path().join("a.zt");
        let source = holdall::open(&path).unwrap();
        let options = holdall::Convert::new(holdall::WriteOptions::new()).with_drop_attributes();
        if holdall::convert(&source, &zt, &options).is_err() {
            continue;
        }
        let sound = holdall::open(&zt).unwrap();
        for t in sound.tensors().filter(|t| t.records().is_ok_and(|r| !r.is_empty())) {
            let c = t.require(&Role::Data).unwrap();
            let mut bytes = std::fs::read(&zt).unwrap();
            let last = c.stored.end as usize - 1;
            bytes[last] ^= 1;
            let opened = |how| check(how).open_bytes(bytes.clone(), "changed").unwrap();
            let (fast, all) = (opened(Check::Read), opened(Check::All));
            assert!(fast.tensor(t.name()).unwrap().records().is_ok());
            let e = all.tensor(t.name()).unwrap().records().unwrap_err();
            assert_eq!(e.code(), "file/digest", "{} {}", path.display(), t.name());
            seen += 1;
        }
    }
    assert!(seen > 0);
}

/// Any part of a tensor in frames is right or refused, whichever bit changed: each frame has its own
/// checksum.
#[test]
fn parts_of_frames_are_compared_without_a_digest() {
    const LEN: u64 = 3 << 20;
    let values: Vec<u8> = (0..LEN).map(|at| (at / 7 % 251) as u8).collect();
    let sound = part(Role::Data, DType::U8, values.clone()).zstd().digest(None);
    let count = sound.stored.len();
    let mut refused = 0;
    for at in (0..count).step_by(count / 40 + 1) {
        let mut data = sound.clone();
        data.stored[at] ^= 1 << (at % 8);
        let file = file("ztensor@1.2.0", &[dense("w", &[LEN], data)]);
        let Ok(w) = file.tensor("w").map(|w| far(&file).tensor(w.name()).unwrap()) else {
            continue;
        };
        for start in (0..LEN).step_by(LEN as usize / 50) {
            let range = start..(start + 16).min(LEN);
            match w.bytes_range(&Role::Data, range.clone()) {
                Ok(found) => {
                    let expected = &values[range.start as usize..range.end as usize];
                    assert!(found[..] == *expected, "bit of byte {at}, {range:?}");
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 0);
}
