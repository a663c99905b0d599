//! zstd's own checksums in frames: compared where nothing else vouches for the bytes.

mod make;

use holdall::{Check, DType, File, LoadOptions, Role};
use make::{copied, dense, file, noise, part};

/// A compressed tensor whose frame ends in a wrong checksum, which its digest, if it has one, covers.
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

#[test]
fn verify_compares_them_always() {
    for has_digest in [true, false] {
        let file = file_with_wrong_checksum(has_digest);
        let report = holdall::verify(&file, &holdall::VerifyOptions::new()).unwrap();
        let codes: Vec<&str> = report.findings.iter().map(|f| f.code()).collect();
        assert_eq!(codes, ["zstd/broken"]);
    }
}
