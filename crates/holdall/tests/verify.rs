//! The findings, counts and reported gaps of `verify`.

use crate::count::Count;
use crate::make::{self, bytes_of, coo, csr, dense, f32s, file, noise, part, tensor, u64s};
use holdall::verify::{Reason, Strictness, Verdict};
use holdall::{
    Algorithm, Attributes, DType, Digest, ErrorKind, File, Io, Layout, LogicalType, OpenOptions,
    Role, Select, VerifyOptions, VerifyReport, Work, verify,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn report(file: &File) -> VerifyReport {
    let one = verify(file, &VerifyOptions::new().with_work(Work::new().with_threads(1))).unwrap();
    let many = verify(file, &VerifyOptions::new().with_work(Work::new().with_threads(4))).unwrap();
    assert_eq!(format!("{one:?}"), format!("{many:?}"));
    let copied = verify(&make::copied(file), &VerifyOptions::new()).unwrap();
    assert_eq!(format!("{copied:?}"), format!("{many:?}"));
    // Remote data that cannot be split is decoded in another way, and its errors may have other words.
    let far = verify(&make::far(file), &VerifyOptions::new()).unwrap();
    let codes = |r: &VerifyReport| r.findings.iter().map(|e| e.code()).collect::<Vec<_>>();
    assert_eq!(codes(&far), codes(&many));
    assert_eq!(
        (far.read_len, &far.digests, far.decoded),
        (many.read_len, &many.digests, many.decoded)
    );
    many
}

/// Returns the codes and tensors of the findings.
fn findings(report: &VerifyReport) -> Vec<(&str, &str)> {
    assert_eq!(report.verdict() == Verdict::Bad, !report.findings.is_empty());
    report.findings.iter().map(|e| (e.code(), e.tensor().unwrap_or(""))).collect()
}

/// Under strict verification the warnings of a file are findings, and there are no others. Fields of a
/// package that its document does not name, which readers ignore, are not findings.
#[test]
fn strictly_verdict_and_findings_say_the_same() {
    let options = VerifyOptions::new().with_strictness(Strictness::Strict);
    let mut odd = 0;
    for path in make::corpus() {
        let file = OpenOptions::new().open(&path).unwrap();
        let report = verify(&file, &options).unwrap();
        assert_eq!(findings(&report).len() as u64, report.finding_count);
        let counted = report.warnings.iter().filter(|w| w.code != "carton/extension");
        let counted: Vec<_> = counted.collect();
        assert_eq!(report.finding_count, counted.len() as u64, "{}", path.display());
        assert_eq!(report.is_sound(), report.verdict() == Verdict::Sound);
        for (e, warning) in report.findings.iter().zip(counted) {
            // Under the rule with that code, if there is one.
            let is_rule = holdall::rules().any(|rule| rule.code == warning.code);
            let code = if is_rule { warning.code } else { "verify/odd" };
            assert_eq!((e.code(), e.tensor()), (code, warning.tensor.as_deref()));
            assert!(e.to_string().contains(warning.code) && e.source_name().is_some(), "{e}");
        }
        odd += report.findings.len();
    }
    assert!(odd > 10, "{odd}");
}

/// 1.0 requires that padding is zero, 1.2 that writers set it to zero; 0.1 says nothing. The remains of
/// removed tensors are not padding.
#[test]
fn padding_that_is_not_zero_is_warned_of() {
    let find = |name: &str| {
        let path = make::corpus().into_iter().find(|p| p.ends_with(name)).unwrap();
        std::fs::read(path).unwrap()
    };
    let warned = |bytes: Vec<u8>| {
        let file = OpenOptions::new().open_bytes(bytes, "padded").unwrap();
        let report = verify(&file, &VerifyOptions::new()).unwrap();
        assert!(report.is_sound());
        let padding = report.warnings.iter().find(|w| w.code == "ztensor/padding").cloned();
        padding.map(|w| (w.count, w.tensor, w.message))
    };
    for name in ["v1.0-dense_all.zt", "v1.2-dense_all.zt", "v0.1-dense_all.zt"] {
        let mut bytes = find(name);
        assert_eq!(warned(bytes.clone()), None, "{name}");
        bytes[20] = 7;
        let found = warned(bytes.clone());
        if name.starts_with("v0.1") {
            assert_eq!(found, None);
            continue;
        }
        let (count, tensor, message) = found.unwrap();
        assert!(
            count == 1 && tensor.is_some() && message.starts_with("byte 20 is 0x07"),
            "{message}"
        );
        // Also after another component.
        let file = OpenOptions::new().open_bytes(bytes.clone(), "padded").unwrap();
        let ends = file.tensors().flat_map(|t| t.components().collect::<Vec<_>>());
        let gap = ends.map(|c| c.stored.end).filter(|end| end % 64 != 0).min().unwrap();
        bytes[gap as usize] = 1;
        assert_eq!(warned(bytes).unwrap().0, 2, "{name}");
    }

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    let mut writer = holdall::Writer::create(&path, &holdall::WriteOptions::new()).unwrap();
    for (name, len) in [("a", 100), ("b", 3 << 20), ("c", 1000)] {
        let spec = holdall::TensorSpec::dense(name, DType::U8, [len]);
        writer.add(spec, &[&vec![0xff; len as usize]]).unwrap();
    }
    writer.finish().unwrap();
    let mut edit = holdall::Edit::open(&path).unwrap();
    edit.remove("b").unwrap();
    edit.commit().unwrap();
    assert_eq!(warned(std::fs::read(&path).unwrap()), None);
}

#[test]
fn every_file_of_the_corpus_is_sound() {
    for path in make::corpus() {
        for io in [Io::Map, Io::Read] {
            let file = OpenOptions::new().with_io(io).open(&path).unwrap();
            let report = report(&file);
            assert_eq!(findings(&report), [], "{}", path.display());
            let name = path.file_name().unwrap().to_string_lossy();
            let is_linked = ["original-shrunk", "made-links", "made-linked", "made-twins.carton"]
                .iter()
                .any(|of| name.starts_with(of));
            assert_eq!(report.is_sound(), !is_linked, "{}", path.display());
            assert_eq!(report.tensors, file.len() as u64);
            let components: u64 = file.tensors().map(|t| t.components().len() as u64).sum();
            assert_eq!(report.components, components);
            let digests: u64 = report.checked().iter().map(|(_, n)| n).sum();
            let without = report.unverified_for(Reason::NoDigest)
                + report.unverified_for(Reason::UnknownDigest);
            if file.format().starts_with("carton") {
                // A package is verified file by file, and every file has its hash.
                assert!(digests > 0 && without == 0, "{}", path.display());
            } else {
                assert_eq!(digests + without, components, "{}", path.display());
            }
        }
    }
}

#[test]
fn digests_are_checked_whole_and_in_pieces() {
    for len in [0, 1, 4096, 300_000, 5_000_000] {
        for sha in [false, true] {
            let bytes = noise(len, 7);
            let mut data = part(Role::Data, DType::U8, bytes);
            if sha {
                data = data.sha256();
            }
            let shape = [len as u64];
            let sound = file("ztensor", &[dense("t", &shape, data.clone())]);
            let all = report(&sound);
            let algorithm = if sha { Algorithm::Sha256 } else { Algorithm::Crc32c };
            assert_eq!((all.digests.clone(), findings(&all)), (vec![(algorithm, 1)], vec![]));
            assert_eq!((all.stored_len, all.read_len), (len as u64, len as u64));
            assert_eq!(all.unverified, []);

            // Any byte, also the very last.
            for at in [0, len / 2, len.saturating_sub(1)] {
                if len == 0 {
                    continue;
                }
                let mut bytes =
                    bytes_of("ztensor", &Attributes::new(), &[dense("t", &shape, data.clone())]);
                bytes[64 + at] ^= 0x40;
                let report = report(&make::open(bytes));
                assert_eq!(findings(&report), [("file/digest", "t")]);
                assert_eq!(report.digests, []);
                let e = &report.findings[0];
                assert_eq!(e.kind(), ErrorKind::Integrity);
                assert_eq!(e.component(), Some("data"));
                assert_eq!(e.range(), Some(64..64 + len as u64));
                assert_eq!(e.source_name(), Some("made"));
            }
        }
    }
}

#[test]
fn many_small_tensors_and_every_broken_one() {
    let mut all = Vec::new();
    for i in 0..3000u64 {
        let data = part(Role::Data, DType::U8, noise(1 + (i % 90) as usize, i));
        all.push(dense(&format!("t{i:04}"), &[1 + i % 90], data));
    }
    let sound = bytes_of("ztensor", &Attributes::new(), &all);
    let all_of = |bytes: Vec<u8>| report(&make::open(bytes));
    assert_eq!(all_of(sound.clone()).digests, [(Algorithm::Crc32c, 3000)]);

    let index = make::open(sound.clone());
    let mut broken = sound;
    let mut expected = Vec::new();
    for t in index.tensors().step_by(2) {
        let c = t.component(&Role::Data).unwrap();
        broken[c.stored.end as usize - 1] ^= 1;
        expected.push(t.name().to_owned());
    }
    let report = all_of(broken);
    assert_eq!(report.finding_count, 1500);
    let found: Vec<&str> = report.findings.iter().filter_map(|e| e.tensor()).collect();
    assert_eq!(found, expected[..1000]);
    assert_eq!(report.digests, [(Algorithm::Crc32c, 1500)]);
}

#[test]
fn compressed_components_must_decode_to_their_length() {
    let bytes = noise(5_000_000, 3);
    let shape = [5_000_000];
    let none = |p: make::MadeComponent| p.digest(None);
    for data in [
        part(Role::Data, DType::U8, bytes.clone()).zstd(),
        part(Role::Data, DType::U8, bytes.clone()).one_frame(),
        part(Role::Data, DType::U8, bytes.clone()).zstd().sha256(),
        part(Role::Data, DType::U8, bytes.clone()).one_frame().sha256(),
    ] {
        let all = report(&file("ztensor", &[dense("t", &shape, data.clone())]));
        assert_eq!((findings(&all), all.decoded), (vec![], 1));
        assert_eq!(all.digests.len(), 1);

        // A damaged byte is a digest mismatch, and nothing more...
        let at = data.stored.len() / 2;
        let mut bytes =
            bytes_of("ztensor", &Attributes::new(), &[dense("t", &shape, data.clone())]);
        bytes[64 + at] ^= 0x10;
        let all = report(&make::open(bytes));
        assert_eq!((findings(&all), all.decoded), (vec![("file/digest", "t")], 0));

        // ...and without a digest it is found in the data itself: every frame has a checksum.
        let mut bytes =
            bytes_of("ztensor", &Attributes::new(), &[dense("t", &shape, none(data.clone()))]);
        bytes[64 + at] ^= 0x10;
        let all = report(&make::open(bytes));
        assert_eq!((findings(&all), all.decoded), (vec![("zstd/broken", "t")], 0));
        assert_eq!(all.unverified_for(Reason::NoDigest), 1);
    }
    // Longer and shorter than declared.
    for len in [1000, 5_000_000] {
        for more in [-1i64, 1] {
            let declared = (len as i64 + more) as u64;
            let data = part(Role::Data, DType::U8, &bytes[..len]).one_frame().decoded_len(declared);
            let all = report(&file("ztensor", &[dense("t", &[declared], data)]));
            assert_eq!((findings(&all), all.decoded), (vec![("zstd/length", "t")], 0));
        }
    }
}

#[test]
fn a_seek_table_that_lies_is_found() {
    let bytes = noise(6 << 20, 5);
    let mut data = part(Role::Data, DType::U8, bytes).zstd();
    // Moves 1 byte from the first frame's decoded length to the second's.
    let table = data.stored.len() - (8 + 3 * 8 + 9);
    let entry = |n: usize| table + 8 + n * 8 + 4;
    for (n, change) in [(0, -1i32), (1, 1)] {
        let at = entry(n)..entry(n) + 4;
        let old = i32::from_le_bytes(data.stored[at.clone()].try_into().unwrap());
        data.stored[at].copy_from_slice(&(old + change).to_le_bytes());
    }
    let all = report(&file("ztensor", &[dense("t", &[6 << 20], data)]));
    assert_eq!(findings(&all), [("zstd/length", "t")]);
}

#[test]
fn bool_bytes_are_0_or_1() {
    for len in [5usize, 10_000, 5_000_000] {
        for bad in [None, Some(len - 1), Some(len / 2)] {
            let mut bytes: Vec<u8> = noise(len, 1).into_iter().map(|b| b & 1).collect();
            if let Some(at) = bad {
                bytes[at] = 2;
            }
            let raw = part(Role::Data, DType::Bool, bytes);
            for data in [raw.clone(), raw.clone().digest(None), raw.clone().zstd(), raw.one_frame()]
            {
                let all = report(&file("ztensor", &[dense("t", &[len as u64], data)]));
                match bad {
                    None => assert_eq!((findings(&all), all.bools), (vec![], 1)),
                    Some(at) => {
                        assert_eq!(findings(&all), [("layout/bool-byte", "t")]);
                        let message = all.findings[0].message();
                        assert!(message.contains(&format!("element {at} ")), "{message}");
                    }
                }
            }
        }
    }
}

#[test]
fn shared_bytes_are_read_once_and_blamed_on_every_tensor() {
    let data = part(Role::Data, DType::U8, noise(3_000_000, 9));
    let shape = [3_000_000];
    let tied = data.clone().shares("a", Role::Data);
    let tensors =
        [dense("a", &shape, data), dense("b", &shape, tied.clone()), dense("c", &shape, tied)];
    let bytes = bytes_of("ztensor", &Attributes::new(), &tensors);
    let all = report(&make::open(bytes.clone()));
    assert_eq!((all.components, all.stored_len, all.read_len), (3, 3_000_000, 3_000_000));
    assert_eq!(all.digests, [(Algorithm::Crc32c, 3)]);
    let mut broken = bytes;
    broken[1000] ^= 1;
    let all = report(&make::open(broken));
    assert_eq!(findings(&all), ["a", "b", "c"].map(|t| ("file/digest", t)));
}

#[test]
fn unverified_parts_are_reported() {
    let plain = |bytes: &[u8]| part(Role::Data, DType::U8, bytes);
    let unknown = Digest::from_text("blake3:00ff").unwrap();
    let tensors = [
        dense("a", &[3], plain(b"abc").digest(None)),
        dense("b", &[3], plain(b"abc")),
        dense("c", &[3], plain(b"abc").digest(Some(unknown))),
        dense("d", &[3], plain(b"abc").logical(LogicalType::from_name("q7_x"))),
        tensor("e", &[2, 2], Layout::from_name("strange"), vec![plain(b"xyz")]),
        dense("f", &[3], plain(b"abc").digest(None)),
    ];
    let all = report(&file("ztensor", &tensors));
    assert!(all.is_sound());
    assert_eq!(all.digests, [(Algorithm::Crc32c, 3)]);
    let list: Vec<_> =
        all.unverified.iter().map(|u| (u.reason, u.tensor.as_str(), u.count)).collect();
    assert_eq!(
        list,
        [
            (Reason::NoDigest, "a", 2),
            (Reason::UnknownDigest, "c", 1),
            (Reason::UnknownLayout, "e", 1),
            (Reason::UnknownLogicalType, "d", 1),
        ]
    );
    assert!(all.unverified[1].message.contains("blake3"), "{}", all.unverified[1].message);

    // safetensors files have nothing to compare bytes with: nothing is read.
    let all = report(&file("safetensors", &[dense("a", &[3], plain(b"abc"))]));
    assert_eq!((all.unverified_for(Reason::NoDigest), all.read_len), (1, 0));
}

#[test]
fn a_limit_is_not_a_finding() {
    let data = part(Role::Data, DType::U8, noise(5_000_000, 2)).one_frame();
    let bytes = bytes_of("ztensor", &Attributes::new(), &[dense("t", &[5_000_000], data)]);
    let mut limits = holdall::Limits::default();
    limits.decoded_len = 1000;
    limits.expansion = 0;
    let file = OpenOptions::new().with_limits(limits).open_bytes(bytes, "made").unwrap();
    let all = report(&file);
    assert_eq!((all.verdict(), all.finding_count), (Verdict::Incomplete, 0));
    assert_eq!(all.digests, [(Algorithm::Crc32c, 1)]);
    assert_eq!((all.decoded, all.unverified_for(Reason::Unsupported)), (0, 1));
    assert_eq!(all.unverified[0].tensor, "t");
}

/// Its frames are below the limit, their sum is not.
#[test]
fn a_limit_applies_to_whole_seekable_components() {
    let data = part(Role::Data, DType::U8, noise(6 << 20, 5)).zstd();
    let bytes = bytes_of("ztensor", &Attributes::new(), &[dense("t", &[6 << 20], data)]);
    let under = |decoded_len: u64| {
        let mut limits = holdall::Limits::default();
        (limits.decoded_len, limits.expansion) = (decoded_len, 0);
        report(&OpenOptions::new().with_limits(limits).open_bytes(bytes.clone(), "made").unwrap())
    };
    let (all, over) = (under(6 << 20), under((6 << 20) - 1));
    assert_eq!((all.verdict(), all.decoded), (Verdict::Sound, 1));
    assert_eq!((over.verdict(), over.decoded), (Verdict::Incomplete, 0));
    assert!(over.unverified[0].message.contains("[zstd/decoded-len]"), "{over:?}");
}

#[test]
fn bytes_that_are_read_for_two_checks_count_once() {
    for sha in [false, true] {
        for data in [noise(300_000, 1), noise(6 << 20, 2)] {
            let shape = [data.len() as u64];
            for data in [
                part(Role::Data, DType::U8, data.clone()).zstd(),
                part(Role::Data, DType::U8, data.clone()).one_frame(),
            ] {
                let data = if sha { data.sha256() } else { data };
                let all = report(&file("ztensor", &[dense("t", &shape, data)]));
                assert_eq!((all.decoded, all.digests.len()), (1, 1));
                assert_eq!(all.read_len, all.stored_len);
            }
        }
    }
}

#[test]
fn sparse_indices_are_checked() {
    let sound = [
        csr("csr", [3, 4], &[0, 2, 2, 3], &[0, 3, 1], &[1.0, 2.0, 3.0]),
        coo("coo", &[2, 3], &[0, 1, 1, 2], &[1.0, 2.0]),
    ];
    let all = report(&file("ztensor", &sound));
    assert_eq!((findings(&all), all.sparse), (vec![], 2));
    let broken = [
        csr("column", [3, 4], &[0, 2, 2, 3], &[0, 4, 1], &[1.0, 2.0, 3.0]),
        coo("coord", &[2, 3], &[0, 2, 1, 2], &[1.0, 2.0]),
        csr("end", [3, 4], &[0, 2, 2, 2], &[0, 3, 1], &[1.0, 2.0, 3.0]),
        csr("order", [3, 4], &[0, 2, 1, 3], &[0, 3, 1], &[1.0, 2.0, 3.0]),
        csr("start", [3, 4], &[1, 2, 2, 3], &[0, 3, 1], &[1.0, 2.0, 3.0]),
    ];
    let all = report(&file("ztensor", &broken));
    let tensors: Vec<&str> = findings(&all).into_iter().map(|(_, t)| t).collect();
    assert_eq!((tensors, all.sparse), (vec!["column", "coord", "end", "order", "start"], 0));
    assert!(all.findings.iter().all(|e| e.kind() == ErrorKind::Malformed));

    // Damaged bytes are reported as such, not as the wrong indices that follow.
    let mut bytes = bytes_of("ztensor", &Attributes::new(), &sound[..1]);
    let file = make::open(bytes.clone());
    let c = file.tensor("csr").unwrap().component(&Role::Indices).unwrap();
    bytes[c.stored.start as usize] = 0xff;
    assert_eq!(findings(&report(&make::open(bytes))), [("file/digest", "csr")]);
}

#[test]
fn only_selected_tensors_are_verified() {
    let data = part(Role::Data, DType::F32, f32s(&[1.0, 2.0]));
    let bad = data.clone().digest(Some(Digest::Crc32c(1)));
    let file = file("ztensor", &[dense("a", &[2], data), dense("b", &[2], bad)]);
    let only = |include: &[&str]| {
        let select = Select::new(include, &[]).unwrap();
        verify(&file, &VerifyOptions::new().with_select(select))
    };
    assert!(only(&["a"]).unwrap().is_sound());
    assert_eq!(only(&["b"]).unwrap().finding_count, 1);
    assert_eq!(only(&["x"]).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn progress_is_reported() {
    let tensors = [
        dense("a", &[5 << 20], part(Role::Data, DType::U8, noise(5 << 20, 1))),
        dense("b", &[5 << 20], part(Role::Data, DType::U8, noise(5 << 20, 2)).zstd()),
        dense("c", &[5], part(Role::Data, DType::U8, noise(5, 2))),
        tensor(
            "d",
            &[],
            Layout::from_name("other"),
            vec![part(Role::Data, DType::U64, u64s(&[1]))],
        ),
    ];
    let file = file("ztensor", &tensors);
    let count = Arc::new(Count::default());
    verify(&file, &VerifyOptions::new().with_work(count.work())).unwrap();
    let (total, done) = (count.total.load(Ordering::SeqCst), count.done.load(Ordering::SeqCst));
    assert!(total > 10 << 20);
    assert_eq!(total, done);
}
