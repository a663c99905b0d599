//! Plans, and the results of executing them, in any order of fetches.

use bytes::Bytes;
use holdall_core::codec::{FRAME_LEN, zstd};
use holdall_core::model::Hasher;
use holdall_core::read::{
    Assembly, ComponentDecoder, Decoded, Digests, Extent, FetchSizing, Plan, Purpose, ReadHints,
    Want, join,
};
use holdall_core::{
    Algorithm, ByteOrder, Component, DType, Digest, Encoding, Error, Limits, Result, Role,
};
use std::ops::Range;

/// Pseudo-random numbers that are equal in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        self.roll() % n.max(1)
    }

    /// Returns bytes that compress a little.
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.roll() >> 24) as u8 & 0x1f).collect()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// Sources, and components in them with their decoded bytes.
#[derive(Default)]
struct World {
    sources: Vec<Vec<u8>>,
    all: Vec<(Component, Vec<u8>)>,
}

fn compressed(bytes: &[u8], seekable: bool) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(1).unwrap();
    let mut out = Vec::new();
    if !seekable {
        encoder.frame(bytes, &mut out).unwrap();
        return out;
    }
    let mut frames = Vec::new();
    for piece in bytes.chunks(FRAME_LEN as usize) {
        let mut frame = Vec::new();
        encoder.frame(piece, &mut frame).unwrap();
        frames.push((frame.len() as u64, piece.len() as u64));
        out.extend(frame);
    }
    out.extend(zstd::seek_table(&frames).unwrap());
    out
}

impl World {
    /// Components of every kind, distributed over three sources.
    fn new(dice: &mut Dice) -> World {
        let mut world = World { sources: vec![Vec::new(); 3], all: Vec::new() };
        let lens = [0, 1, 8, 1000, 70_000, 600_000, 5 << 20];
        for (i, len) in lens.into_iter().enumerate() {
            for kind in 0..6 {
                let width = [1, 2, 8][i % 3];
                let decoded = dice.bytes(len / width * width);
                world.add(dice, kind, width, decoded);
            }
        }
        world
    }

    fn add(&mut self, dice: &mut Dice, kind: u64, width: usize, decoded: Vec<u8>) {
        let big = kind == 1 || kind == 4;
        let encoding = if kind < 3 { Encoding::Raw } else { Encoding::ZSTD };
        let mut plain = decoded.clone();
        if big {
            plain.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
        let stored = match encoding {
            Encoding::Raw => plain,
            _ => compressed(&plain, kind != 5 && plain.len() > 4 << 20),
        };
        let algorithm =
            [None, Some(Algorithm::Crc32c), Some(Algorithm::Sha256)][dice.below(3) as usize];
        let digest = algorithm.map(|algorithm| {
            let mut hasher = Hasher::new(algorithm);
            hasher.update(&stored);
            hasher.finish()
        });
        let number = dice.below(3) as usize;
        let source = &mut self.sources[number];
        let gap = [0, 3, 5000, 200_000][dice.below(4) as usize];
        source.extend(vec![0xee; gap]);
        let start = source.len() as u64;
        source.extend(&stored);
        let component = Component {
            role: Role::Data,
            dtype: [DType::U8, DType::U16, DType::U64]
                [[1, 2, 8].iter().position(|w| *w == width).unwrap()],
            logical_type: None,
            encoding,
            byte_order: if big { ByteOrder::Big } else { ByteOrder::Little },
            stored: Extent::new(number as u32, start..start + stored.len() as u64),
            decoded_len: Some(decoded.len() as u64),
            digest,
        };
        self.all.push((component, decoded));
    }

    fn read(&self, extent: Extent) -> &[u8] {
        &self.sources[extent.source as usize][extent.start as usize..extent.end as usize]
    }

    /// Creates a want for all of a component, or a range of it.
    fn want(&self, number: usize, range: Option<Range<u64>>, with_table: bool) -> Want {
        let c = &self.all[number].0;
        let mut want = Want::new(number as u32, c.clone());
        if let Some(range) = range {
            want = want.with_range(range);
        } else {
            want = want.with_digests(c.digest.as_ref().and_then(Digest::algorithm));
        }
        if with_table && let Some(extent) = c.table_extent() {
            let table = c.seek_table(self.read(extent));
            want = want.with_table(table.unwrap().map(std::sync::Arc::new));
        }
        want
    }
}

/// Passes the bytes of a plan to an assembly in random order and in random pieces.
fn run(world: &World, plan: Plan, dice: &mut Dice) -> Result<Vec<Vec<(u64, Bytes)>>> {
    let mut out = vec![Vec::new(); plan.wants().len()];
    let mut pieces: Vec<(usize, u64, Bytes)> = Vec::new();
    for (number, fetch) in plan.fetches().iter().enumerate() {
        let bytes = world.read(fetch.extent);
        let mut at = 0;
        while at < bytes.len() {
            let most = [1, 100, 100_000, 3 << 20][dice.below(4) as usize];
            // Large fetches are not split into single bytes; small ones test that.
            let least = bytes.len() / 40;
            let end = bytes.len().min(at + least + 1 + dice.below(most) as usize);
            pieces.push((number, at as u64, Bytes::copy_from_slice(&bytes[at..end])));
            // Sometimes a byte comes twice.
            at = if dice.below(9) == 0 { end - (end - at) / 2 } else { end };
        }
    }
    dice.shuffle(&mut pieces);
    let mut assembly = Assembly::new(plan, &Limits::default())?;
    for (fetch, offset, bytes) in pieces {
        assembly.push(fetch, offset, bytes, |arrival| {
            out[arrival.want as usize].push((arrival.offset, arrival.bytes));
            Ok(())
        })?;
    }
    assembly.finish()?;
    Ok(out)
}

/// Returns the bytes of one want, and checks that they are those of `range` and that each came once.
fn joined(mut parts: Vec<(u64, Bytes)>, range: &Range<u64>) -> Vec<u8> {
    parts.sort_by_key(|(offset, _)| *offset);
    let mut at = range.start;
    let mut out = Vec::new();
    for (offset, bytes) in parts {
        assert_eq!(offset, at);
        at += bytes.len() as u64;
        out.extend_from_slice(&bytes);
    }
    assert_eq!(at, range.end);
    out
}

/// Returns what a component decodes to, decoded in order: the other implementation.
fn in_order(world: &World, want: &Want, limits: &Limits) -> Result<Vec<u8>> {
    let mut decoder = want.decoder(limits)?;
    let mut runs = world.read(want.component.stored).chunks(9999);
    let mut out = Vec::new();
    loop {
        match decoder.next().map_err(|e| want.in_context(e))? {
            Decoded::Need => decoder.push(Bytes::copy_from_slice(runs.next().unwrap_or(&[]))),
            Decoded::Piece(bytes) => out.extend_from_slice(&bytes),
            Decoded::End => return Ok(out),
        }
    }
}

fn sizing(dice: &mut Dice) -> FetchSizing {
    let mut hints = [ReadHints::MEMORY, ReadHints::DISK, ReadHints::REMOTE][dice.below(3) as usize];
    hints.piece = [1 << 10, 64 << 10, 2 << 20, 8 << 20][dice.below(4) as usize];
    hints.gap = [0, 100, 64 << 10][dice.below(3) as usize];
    FetchSizing { align: [1, 64, 4096][dice.below(3) as usize], ..FetchSizing::from(hints) }
}

#[test]
fn bytes_in_random_order_and_pieces_give_the_same() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    for _ in 0..6 {
        let world = World::new(&mut dice);
        let mut wants = Vec::new();
        for number in 0..world.all.len() {
            let len = world.all[number].1.len() as u64;
            let range = (dice.below(3) == 0).then(|| {
                let start = dice.below(len + 1);
                start..start + dice.below(len - start + 1)
            });
            let with_table = dice.below(2) == 0;
            wants.push(world.want(number, range, with_table).in_group(dice.below(2) as u32));
        }
        let cut = sizing(&mut dice);
        let plan = Plan::new(wants.clone(), cut);
        check(&world, &plan, cut);
        let out = run(&world, plan, &mut dice).unwrap();
        for (want, parts) in wants.iter().zip(out) {
            let decoded = &world.all[want.tensor as usize].1;
            let range = want.range.clone().unwrap_or(0..decoded.len() as u64);
            let expected = &decoded[range.start as usize..range.end as usize];
            assert!(joined(parts, &range) == expected, "{want:?}");
        }
    }
}

/// Checks properties that every plan has.
fn check(world: &World, plan: &Plan, cut: FetchSizing) {
    let mut last: Option<Extent> = None;
    for fetch in plan.fetches() {
        assert!(!fetch.extent.is_empty());
        assert!(fetch.extent.end <= world.sources[fetch.extent.source as usize].len() as u64);
        let parts = plan.parts_of(fetch);
        assert!(!parts.is_empty());
        for part in parts {
            let inside =
                fetch.extent.start <= part.stored.start && part.stored.end <= fetch.extent.end;
            assert!(inside && !part.stored.is_empty(), "{part:?} in {fetch:?}");
            let single = part.purpose == Purpose::Next;
            assert!(!single || parts.len() == 1);
        }
        let plain = parts.iter().all(|part| plan.want(part).is_plain());
        let no_sum = parts.iter().all(|part| !plan.want(part).digests.sha256);
        if plain && no_sum {
            let most = cut.hints.piece.next_multiple_of(cut.align);
            assert!(fetch.extent.len() <= most, "{fetch:?}");
        }
        last = Some(fetch.extent);
    }
    assert_eq!(plan.len(), plan.fetches().iter().map(|f| f.extent.len()).sum::<u64>());
    assert_eq!(plan.is_empty(), last.is_none());
}

#[test]
fn errors_do_not_depend_on_the_decoder() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let limits = Limits::default();
    let mut found = 0;
    for _ in 0..60 {
        let mut world = World { sources: vec![Vec::new(); 3], all: Vec::new() };
        let (kind, len) = (dice.below(6), [200, 70_000, 5 << 20][dice.below(3) as usize]);
        let decoded = dice.bytes(len);
        world.add(&mut dice, kind, 1, decoded);
        let extent = world.all[0].0.stored;
        let at = extent.start + dice.below(extent.len());
        world.sources[extent.source as usize][at as usize] ^= 1 << dice.below(8);
        let want = world.want(0, None, dice.below(2) == 0);
        let plan = Plan::new(vec![want.clone()], sizing(&mut dice));
        let code = |e: &Error| (e.kind(), e.component().map(str::to_owned), e.range());
        let one = in_order(&world, &want, &limits).map_err(|e| code(&e));
        let other = run(&world, plan, &mut dice).map_err(|e| code(&e));
        match (one, other) {
            (Ok(bytes), Ok(parts)) => {
                let parts = parts.into_iter().next().unwrap();
                assert!(joined(parts, &(0..bytes.len() as u64)) == bytes);
            }
            (Err(a), Err(b)) => {
                found += 1;
                // Whether the broken frame or the wrong digest is found first depends on the order.
                assert_eq!((&a.1, &a.2), (&b.1, &b.2));
            }
            // A wrong table has no effect on code that does not use it, and is detected by code that can compare it.
            (a, b) => panic!("{want:?}: {a:?}, {}", b.is_ok()),
        }
    }
    assert!(found > 20, "{found}");
}

#[test]
fn bytes_that_do_not_come_are_missed() {
    let mut dice = Dice(7);
    let world = World::new(&mut dice);
    let wants: Vec<Want> = (0..world.all.len()).map(|n| world.want(n, None, true)).collect();
    let plan = Plan::new(wants, ReadHints::DISK);
    let mut assembly = Assembly::new(plan.clone(), &Limits::default()).unwrap();
    for (number, fetch) in plan.fetches().iter().enumerate().skip(1) {
        let bytes = Bytes::copy_from_slice(world.read(fetch.extent));
        assembly.push(number, 0, bytes, |_| Ok(())).unwrap();
    }
    assert_eq!(assembly.finish().unwrap_err().code(), "read/missing");
    let mut assembly = Assembly::new(plan.clone(), &Limits::default()).unwrap();
    let e = assembly.push(plan.fetches().len(), 0, Bytes::new(), |_| Ok(())).unwrap_err();
    assert_eq!(e.code(), "read/missing");
    // A component that ends too early.
    let mut decoder =
        ComponentDecoder::new(&world.all[5 * 6].0, Digests::NONE, &Limits::default()).unwrap();
    decoder.push(Bytes::from_static(b"abc"));
    while let Decoded::Piece(_) = decoder.next().unwrap() {}
    assert_eq!(decoder.next().unwrap(), Decoded::Need);
}

#[test]
fn a_plan_over_few_bytes_fetches_no_more() {
    let mut dice = Dice(3);
    let mut world = World { sources: vec![Vec::new(); 3], all: Vec::new() };
    let decoded = dice.bytes(6 << 20);
    world.add(&mut dice, 3, 1, decoded);
    let whole = world.all[0].0.stored.len();
    let frames = world.want(0, Some((2 << 20) + 10..(2 << 20) + 20), true);
    let plan = Plan::new(vec![frames], ReadHints::REMOTE);
    assert_eq!(plan.fetches().len(), 1);
    assert!(plan.len() < whole / 5, "{} of {whole}", plan.len());
    // Without a table, the whole component.
    let all = world.want(0, Some(10..20), false);
    assert_eq!(Plan::new(vec![all], ReadHints::REMOTE).len(), whole);
}

#[test]
fn ranges_are_joined_where_that_is_cheaper() {
    let joined = join(&[500..600, 0..100, 130..150, 0..100, 700..700, 2000..9000], 50, 1000);
    let reads: Vec<_> = joined.iter().map(|j| (j.range.clone(), j.ranges.clone())).collect();
    assert_eq!(reads, [(0..150, vec![1, 3, 2]), (500..600, vec![0]), (2000..9000, vec![5])]);
    assert_eq!(join(&[0..100, 120..900], 50, 500).len(), 2);
}

/// Short reads of a remote source are requested together up to exactly one piece, and not across sources.
#[test]
fn reads_are_requested_together_up_to_one_piece() {
    const LEN: u64 = 1000;
    // Apart by more than the gap over which reads are merged.
    let component = |source: u32, number: u64| Component {
        role: Role::Data,
        dtype: DType::U8,
        logical_type: None,
        encoding: Encoding::Raw,
        byte_order: ByteOrder::Little,
        stored: Extent::new(source, number * 10_000..number * 10_000 + LEN),
        decoded_len: Some(LEN),
        digest: None,
    };
    let mut hints = ReadHints::REMOTE;
    hints.gap = 16;
    let planned = hints;
    let plan = |sources: &[u32]| {
        let wants = sources.iter().enumerate();
        let wants = wants.map(|(i, source)| Want::new(i as u32, component(*source, i as u64)));
        Plan::new(wants.collect(), planned)
    };
    let same = plan(&[0; 6]);
    assert_eq!(same.fetches().len(), 6);
    for (piece, expected) in
        [(0, 1), (LEN, 1), (2 * LEN - 1, 1), (2 * LEN, 2), (3 * LEN, 3), (6 * LEN, 6), (7 * LEN, 6)]
    {
        hints.piece = piece;
        assert_eq!(same.batch_len(0, &hints), expected, "{piece}");
    }
    assert_eq!(same.batch_len(4, &hints), 2);
    assert_eq!(same.batch_len(6, &hints), 0);
    let mixed = plan(&[0, 0, 1, 1]);
    assert_eq!((mixed.batch_len(0, &hints), mixed.batch_len(2, &hints)), (2, 2));
    hints.at_once = 1;
    assert_eq!(same.batch_len(0, &hints), 1, "a local source is read one by one");
}
