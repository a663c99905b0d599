//! Every operation on a file that opens returns a result or an error, and all ways to read the bytes of a component
//! give the same bytes.

use crate::frames::is_wide_block;
use crate::limits;
use holdall::verify::Reason;
use holdall::{
    Bytes, Check, Component, Error, ErrorKind, File, LoadOptions, OpenOptions, StatsOptions,
    Tensor, VerifyOptions, Work, stats, verify,
};

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let options = OpenOptions::new().with_limits(limits::tight()).with_check(Check::All);
    let file = match options.open_bytes(Bytes::copy_from_slice(data), "input") {
        Ok(file) => file,
        Err(e) => return crate::walk::is_of_the_file(&e),
    };
    let report = verify(&file, &VerifyOptions::new().with_work(Work::new().with_threads(1)))
        .expect("it is in memory");
    for finding in &report.findings {
        let kind = finding.kind();
        assert!(matches!(kind, ErrorKind::Malformed | ErrorKind::Integrity), "{kind:?}: {finding}");
    }
    for t in file.tensors() {
        for c in t.components() {
            component(&t, &c, data.len());
        }
        if let Ok(dense) = t.to_dense() {
            assert_eq!(dense.shape(), t.shape());
        }
        let _ = stats(&t, &StatsOptions::new().with_work(Work::new().with_threads(1)).with_bins(4));
    }
    // A limit may keep a stream from being verified. That is reported, and is not a finding.
    let is_verified = report.is_sound() && report.unverified_for(Reason::Unsupported) == 0;
    load(&file, is_verified);
}

fn component(t: &Tensor, c: &Component, len: usize) {
    let stored = t.stored(&c.role).expect("it is in memory");
    assert!(stored.len() <= len);
    let whole = t.bytes(&c.role);
    let mut pieced = Vec::new();
    let end: holdall::Result<()> = t.pieces(&c.role).and_then(|mut pieces| {
        pieces.try_for_each(|piece| {
            pieced.extend_from_slice(&piece?);
            Ok(())
        })
    });
    let Ok(whole) = whole else {
        // The only error may be the digest, which is not compared for a range.
        let _ = t.bytes_range(&c.role, 0..1);
        return;
    };
    if let Some(len) = c.decoded_len {
        assert_eq!(whole.len() as u64, len);
    }
    // A window is only needed for pieces.
    let of_stream = |e: &Error| e.kind() == ErrorKind::Limit || is_wide_block(e, &stored);
    match end {
        Ok(()) => assert!(pieced == whole, "other bytes in pieces"),
        Err(e) => assert!(of_stream(&e), "{e}"),
    }
    let len = whole.len() as u64;
    for range in [0..len, 0..len.min(1), len / 3..len / 2, len.saturating_sub(1)..len] {
        match t.bytes_range(&c.role, range.clone()) {
            Ok(bytes) => {
                let own = &whole[range.start as usize..range.end as usize];
                assert!(bytes == own, "other bytes in {range:?}");
            }
            Err(e) => assert!(of_stream(&e), "{range:?}: {e}"),
        }
    }
    t.bytes_range(&c.role, 0..len + 1).expect_err("the range is outside the component");
    let mut out = vec![0; whole.len()];
    match t.read_into(&c.role, &mut out) {
        Ok(()) => assert!(out == whole, "other bytes read into memory"),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Limit, "{e}"),
    }
}

fn load(file: &File, is_verified: bool) {
    let names: Vec<&str> = file.names().collect();
    match file.load(names, &LoadOptions::new().with_work(Work::new().with_threads(1))) {
        Ok(loaded) => {
            for t in file.tensors() {
                let own = loaded.get(t.name()).expect("it was requested");
                for c in t.components() {
                    let found = own.bytes(&c.role).expect("it was loaded");
                    // Large tensors may exceed a limit together and not individually; never the other way round.
                    let whole = t.bytes(&c.role).expect("what can be loaded can be read");
                    assert!(whole == *found, "other bytes loaded");
                }
            }
        }
        Err(e) => {
            let beyond_us = matches!(e.kind(), ErrorKind::Limit | ErrorKind::Unsupported);
            assert!(beyond_us || !is_verified, "verified, but does not load: {e}");
        }
    }
}
