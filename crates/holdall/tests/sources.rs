//! The contract of every source of bytes, whoever implements it: see [`holdall::ByteSource`]. To test your
//! own source, copy [`behaves`] and call it.
#![cfg(feature = "http")]

use crate::make;
use crate::server;
use holdall::source::{FileSource, HttpSource, MapSource, MemorySource, SliceSource};
use holdall::{
    Attributes, ByteOrder, ByteSource, Bytes, Component, DType, Encoding, Error, Extent, Index,
    IndexBuilder, Layout, Limits, LoadOptions, OpenOptions, ReadHints, Result, Role,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Checks that `source` behaves as its trait requires, and contains `bytes`.
fn behaves(source: &dyn ByteSource, bytes: &[u8]) {
    let len = bytes.len() as u64;
    assert_eq!(source.len(), len);
    assert_eq!(source.is_empty(), bytes.is_empty());
    let slice = |r: &Range<u64>| &bytes[r.start as usize..r.end as usize];

    // Any ranges: out of order, overlapping, equal, empty, all, and no ranges at all.
    let ranges = [0..len, len / 2..len, 0..len / 3, len / 3..len / 2, 0..0, len..len, 0..len / 3];
    let got = source.read(&ranges).unwrap();
    assert_eq!(got.len(), ranges.len());
    for (range, got) in ranges.iter().zip(&got) {
        assert!(got == slice(range), "{range:?}");
        assert!(source.read_range(range.clone()).unwrap() == slice(range), "{range:?}");
        let mut out = vec![0xaa; (range.end - range.start) as usize];
        source.read_into(range.start, &mut out).unwrap();
        assert!(out == slice(range), "{range:?}");
    }
    assert!(source.read(&[]).unwrap().is_empty());

    // A range outside is an error, and no bytes of the call are returned.
    let outside: [Range<u64>; 4] =
        [0..len + 1, len + 1..len + 1, u64::MAX - 1..u64::MAX, Range { start: 1, end: 0 }];
    for range in outside {
        let e = source.read(&[0..len / 2, range.clone()]).unwrap_err();
        assert_eq!(e.code(), "window/outside", "{range:?}: {e}");
    }
    let mut beyond = [0; 3];
    assert!(source.read_into(len.saturating_sub(2), &mut beyond).is_err() || len == 1);
    assert!(source.read_into(u64::MAX, &mut beyond).is_err());

    // Returned bytes never change.
    let kept = source.read_range(0..len.min(100)).unwrap();
    source.read(&ranges).unwrap();
    assert!(kept == bytes[..kept.len()]);

    // The hints are consistent, and stay the same.
    let hints = source.read_hints();
    assert!(hints.piece > 0 && hints.at_once > 0 && hints.gap < hints.piece);
    assert_eq!(source.read_hints(), hints);

    // Many threads at once.
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            scope.spawn(move || {
                for i in 0..20 {
                    let at = (n * 7919 + i * 104_729) % len.max(1);
                    let range = at..len.min(at + 5000);
                    assert!(source.read_range(range.clone()).unwrap() == slice(&range));
                }
            });
        }
    });
}

/// A minimal implementation.
struct Least(Vec<u8>, AtomicUsize);

impl ByteSource for Least {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let outside = |r: &Range<u64>| -> Error {
            holdall::source::OUTSIDE.broken("not in it").at(r.clone())
        };
        let one = |r: &Range<u64>| {
            let inside = r.start <= r.end && r.end <= self.len();
            let bytes = inside.then(|| &self.0[r.start as usize..r.end as usize]);
            bytes.map(Bytes::copy_from_slice).ok_or_else(|| outside(r))
        };
        ranges.iter().map(one).collect()
    }
}

#[test]
fn every_source_behaves() {
    let dir = tempfile::tempdir().unwrap();
    for len in [0usize, 1, 4096, 100_000, 3 << 20] {
        let bytes = make::noise(len, 5);
        let path = dir.path().join("bytes");
        std::fs::write(&path, &bytes).unwrap();
        let file = || FileSource::open(&path).unwrap();
        behaves(&file(), &bytes);
        behaves(&MapSource::new(file()).unwrap(), &bytes);
        behaves(&MemorySource::new(bytes.clone()), &bytes);
        behaves(&Least(bytes.clone(), AtomicUsize::new(0)), &bytes);
        for whole in
            [Arc::new(file()) as Arc<dyn ByteSource>, Arc::new(MemorySource::new(bytes.clone()))]
        {
            let range = len / 4..len - len / 3;
            let slice = SliceSource::new(whole, range.start as u64..range.end as u64).unwrap();
            behaves(&slice, &bytes[range]);
        }
        let server = server::Server::with_file(bytes.clone());
        behaves(&HttpSource::open(&server.url("/f"), &server::policy()).unwrap(), &bytes);
    }
}

/// An index, its sources, and the decoded bytes of its tensors.
type Three = (Index, Vec<Arc<dyn ByteSource>>, Vec<(String, Vec<u8>)>);

/// Returns an index over three sources: raw, big-endian and compressed components in each.
fn over_three() -> Three {
    let mut sources: Vec<Vec<u8>> = vec![vec![0xee; 100]; 3];
    let mut all = Vec::new();
    for n in 0..24usize {
        let bytes = make::noise([8, 4000, 300_000, 3 << 20][n % 4], n as u64 + 1);
        let (encoding, order) = match n % 3 {
            0 => (Encoding::Raw, ByteOrder::Little),
            1 => (Encoding::Raw, ByteOrder::Big),
            _ => (Encoding::ZSTD, ByteOrder::Little),
        };
        let mut stored = bytes.clone();
        if order == ByteOrder::Big {
            stored.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        }
        if encoding == Encoding::ZSTD {
            let mut out = Vec::new();
            holdall_core::codec::zstd::Encoder::new(1).unwrap().frame(&stored, &mut out).unwrap();
            stored = out;
        }
        let source = &mut sources[n * 7 % 3];
        let start = source.len() as u64;
        source.extend(&stored);
        let stored = Extent::new((n * 7 % 3) as u32, start..source.len() as u64);
        all.push((format!("t{n}"), bytes, stored, encoding, order));
    }
    let limits = Limits::default();
    let first = sources[0].len() as u64;
    let mut builder = IndexBuilder::new("made", "1", first, 100..first, &limits);
    for source in &sources[1..] {
        let len = source.len() as u64;
        builder.source(len, 100..len).unwrap();
    }
    builder.attributes(Attributes::new());
    for (name, bytes, stored, encoding, byte_order) in &all {
        builder.tensor(name, &[bytes.len() as u64 / 4], Layout::Dense).unwrap();
        let component = Component {
            role: Role::Data,
            dtype: DType::F32,
            logical_type: None,
            encoding: *encoding,
            byte_order: *byte_order,
            stored: *stored,
            decoded_len: Some(bytes.len() as u64),
            digest: None,
        };
        builder.component(component).unwrap();
    }
    let index = builder.finish().unwrap();
    let sources =
        sources.into_iter().map(|s| Arc::new(MemorySource::new(s)) as Arc<dyn ByteSource>);
    (index, sources.collect(), all.into_iter().map(|(name, bytes, ..)| (name, bytes)).collect())
}

#[test]
fn one_model_from_three_sources() {
    let (index, sources, all) = over_three();
    let lens: Vec<u64> = sources.iter().map(|s| s.len()).collect();
    let file = OpenOptions::new().open_index(index.clone(), sources.clone(), "three").unwrap();
    assert_eq!(file.index().source_lens().collect::<Vec<_>>(), lens);
    let loaded = file.load_all().unwrap();
    for (name, bytes) in &all {
        let tensor = file.tensor(name).unwrap();
        assert!(tensor.bytes(&Role::Data).unwrap() == *bytes, "{name}");
        assert!(*loaded.get(name).unwrap().bytes(&Role::Data).unwrap() == *bytes, "{name}");
        let pieces: Vec<u8> =
            tensor.pieces(&Role::Data).unwrap().flat_map(|piece| piece.unwrap()).collect();
        assert!(pieces == *bytes, "{name}");
        let some = bytes.len() as u64 / 8 * 4..bytes.len() as u64;
        let range = tensor.bytes_range(&Role::Data, some.clone()).unwrap();
        assert!(range == bytes[some.start as usize..]);
    }
    let report = holdall::verify(&file, &Default::default()).unwrap();
    assert!(report.is_sound() && report.decoded == 8, "{report:?}");

    // The plan of a load is known beforehand: each byte once, and none outside.
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let plan = file.plan(names, &LoadOptions::new()).unwrap();
    let mut extents: Vec<Extent> = plan.fetches().iter().map(|f| f.extent).collect();
    extents.sort();
    assert!(extents.windows(2).all(|w| w[0].source < w[1].source || w[0].end <= w[1].start));
    assert!(plan.len() <= lens.iter().sum());

    // Sources that do not fit the index are refused.
    for wrong in [sources[..2].to_vec(), [&sources[..], &sources[..1]].concat()] {
        let e = OpenOptions::new().open_index(index.clone(), wrong, "wrong").unwrap_err();
        assert_eq!(e.code(), "file/sources");
    }
}

/// A source that prefers small reads.
struct Small(MemorySource);

impl ByteSource for Small {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.read(ranges)
    }

    fn read_hints(&self) -> ReadHints {
        let mut hints = ReadHints::REMOTE;
        hints.piece = 4 << 10;
        hints
    }
}

/// Tensors far apart are loaded into separate memory, though one read of such a piece would span the gap
/// between them.
#[test]
fn gaps_longer_than_a_piece_are_no_ones_bytes() {
    let align = holdall::EncodeOptions::new().with_align(32 << 10);
    let format = holdall::formats::by_name("ztensor").unwrap();
    let options = holdall::WriteOptions::new().with_format(format).with_encode(align);
    let mut writer = holdall::Writer::stream(Vec::new(), &options).unwrap();
    for n in 0..6u8 {
        let spec = holdall::TensorSpec::dense(format!("t{n}"), DType::U8, [100]);
        writer.add(spec, &[&[n + 1; 100]]).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let source = Arc::new(Small(MemorySource::new(bytes)));
    let file = OpenOptions::new().open_source(source, "small.zt").unwrap();
    let loaded = file.load_all().unwrap();
    for n in 0..6u8 {
        let found = loaded.get(&format!("t{n}")).unwrap();
        assert_eq!(**found.bytes(&Role::Data).unwrap(), [n + 1; 100]);
    }
}

#[test]
fn an_index_refuses_a_source_that_it_does_not_span() {
    let mut builder = IndexBuilder::new("made", "1", 100, 0..100, &Limits::default());
    builder.tensor("t", &[4], Layout::Dense).unwrap();
    let component = |stored: Extent| Component {
        role: Role::Data,
        dtype: DType::U8,
        logical_type: None,
        encoding: Encoding::Raw,
        byte_order: ByteOrder::Little,
        stored,
        decoded_len: Some(4),
        digest: None,
    };
    let e = builder.component(component(Extent::new(1, 0..4))).unwrap_err();
    assert_eq!(e.code(), "index/bounds");
    // The same offset in two sources is not an overlap.
    let other = builder.source(50, 0..50).unwrap();
    builder.component(component(Extent::new(0, 0..4))).unwrap();
    builder.tensor("u", &[4], Layout::Dense).unwrap();
    builder.component(component(Extent::new(other, 2..6))).unwrap();
    builder.finish().unwrap();
    assert_eq!(ReadHints::REMOTE, Least(vec![], AtomicUsize::new(0)).read_hints());
}
