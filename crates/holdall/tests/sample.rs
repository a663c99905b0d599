//! Comparing models by a sample: generated models of any size, whose bytes are computed when they are read.

use crate::make::{self, dense, f32s, part};
use holdall::diff::{SampleDiff, SampleOptions, SampleVerdict, sample};
use holdall::{ByteSource, Bytes, DType, File, OpenOptions, ReadHints, Role};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a model is, in terms of the generated one with the same seed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    None,
    /// This share of the elements changed by normal noise, relative to their spread.
    Tuned {
        share: f64,
        noise: f64,
    },
    /// Only the vectors changed.
    VectorsTuned,
    /// Rounded to this many bits, with one scale for each tensor.
    Rounded {
        bits: i32,
    },
    /// The neurons of the residual stream in another order.
    PermutedStream,
    /// In another order, and changed by noise.
    PermutedTuned,
    /// Only those of the feed-forward layers.
    PermutedInside,
    /// Only one matrix changed, or only one row of it.
    OneTuned {
        is_row: bool,
    },
}

/// The parts that all models of a kind have, whatever their seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Common {
    Nothing,
    /// Vectors of ones, and a table of sines for positions.
    Untrained,
}

#[derive(Debug, Clone, Copy)]
struct Model {
    seed: u64,
    width: u64,
    layers: u64,
    dtype: &'static str,
    change: Change,
    common: Common,
}

#[derive(Debug, Clone)]
struct Weight {
    name: String,
    shape: Vec<u64>,
    /// The first byte in the file.
    start: u64,
    /// Decides its values, together with the model's seed.
    key: u64,
    kind: Kind,
    /// Whether it is the one that [`Change::OneTuned`] changes.
    is_one: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Vector,
    /// A table of sines.
    Positions,
    /// A matrix whose rows are the inner neurons of a feed-forward layer.
    Up,
    /// One whose columns are.
    Down,
    Other,
}

/// Mixes a number, as splitmix64 does.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns a number of almost normal distribution, with mean 0 and standard deviation 1.
fn normal(seed: u64, at: u64) -> f64 {
    let bits = mix(seed ^ mix(at));
    let sum: u64 = (0..4).map(|n| bits >> (16 * n) & 0xffff).sum();
    (sum as f64 / 65536.0 - 2.0) * 3f64.sqrt()
}

impl Model {
    fn new(seed: u64, width: u64, layers: u64) -> Model {
        let (change, common) = (Change::None, Common::Nothing);
        Model { seed, width, layers, dtype: "BF16", change, common }
    }

    fn with(self, change: Change) -> Model {
        Model { change, ..self }
    }

    fn size(&self) -> u64 {
        if self.dtype == "F32" { 4 } else { 2 }
    }

    fn weights(&self) -> Vec<Weight> {
        let d = self.width;
        let mut all = vec![("model.embed.weight".to_owned(), vec![16 * d, d])];
        if self.common == Common::Untrained {
            all.push(("model.positions".to_owned(), vec![128, d]));
        }
        for n in 0..self.layers {
            let name = |part: &str| format!("model.layers.{n}.{part}.weight");
            all.push((name("norm"), vec![d]));
            all.push((name("attn.q_proj"), vec![d, d]));
            all.push((name("mlp.down_proj"), vec![d, 4 * d]));
            all.push((name("mlp.up_proj"), vec![4 * d, d]));
        }
        let mut start = 0;
        let mut out = Vec::new();
        for (number, (name, shape)) in all.into_iter().enumerate() {
            let len = shape.iter().product::<u64>() * self.size();
            let kind = match &name {
                _ if shape.len() == 1 => Kind::Vector,
                name if name.contains("positions") => Kind::Positions,
                name if name.contains("up_proj") => Kind::Up,
                name if name.contains("down_proj") => Kind::Down,
                _ => Kind::Other,
            };
            let key = mix(self.seed ^ mix(number as u64));
            let is_one = name == "model.layers.1.mlp.down_proj.weight";
            out.push(Weight { name, shape, start, key, kind, is_one });
            start += len;
        }
        out
    }

    /// Returns the element at an index of a weight.
    fn value(&self, weight: &Weight, at: u64) -> f64 {
        let d = self.width;
        let columns = *weight.shape.last().unwrap();
        let (row, column) = (at / columns, at % columns);
        // A bijection of `0..n` for n that are multiples of 4: odd steps, and an offset.
        let turned = |i: u64, n: u64| (i * 17 + 5) % n;
        let mut from = (row, column);
        match (self.change, weight.kind) {
            (Change::PermutedInside, Kind::Up) => from.0 = turned(row, 4 * d),
            (Change::PermutedInside, Kind::Down) => from.1 = turned(column, 4 * d),
            (Change::PermutedStream | Change::PermutedTuned, Kind::Down) => {
                from.0 = turned(row, d);
            }
            (Change::PermutedStream | Change::PermutedTuned, _) => {
                from.1 = turned(column, columns);
            }
            _ => {}
        }
        let at = from.0 * columns + from.1;
        let is_vector = weight.kind == Kind::Vector;
        if self.common == Common::Untrained && is_vector {
            return 1.0;
        }
        if weight.kind == Kind::Positions {
            return (row as f64 / 1e4f64.powf(column as f64 / d as f64)).sin();
        }
        let key = weight.key;
        let (mean, spread) = if is_vector { (1.0, 0.2) } else { (0.0, 0.02) };
        let base = mean + spread * normal(key, at);
        match self.change {
            Change::Tuned { share, noise } => {
                let chance = mix(key ^ at ^ 0x7e57) as f64 / u64::MAX as f64;
                let is_changed = chance < share;
                base + if is_changed { spread * noise * normal(key ^ 0xfade, at) } else { 0.0 }
            }
            Change::PermutedTuned => base + 0.1 * spread * normal(key ^ 0xfade, at),
            Change::OneTuned { is_row } if weight.is_one && (row == 3 || !is_row) => {
                base + 0.1 * spread * normal(key ^ 0xfade, at)
            }
            Change::VectorsTuned if is_vector => base + 0.01 * normal(key ^ 0xfade, at),
            Change::Rounded { bits } if !is_vector => {
                let step = 8.0 * spread / f64::from(bits).exp2();
                (base / step).round() * step
            }
            _ => base,
        }
    }

    fn header(&self) -> Vec<u8> {
        let entries: Vec<String> = self
            .weights()
            .iter()
            .map(|w| {
                let end = w.start + w.shape.iter().product::<u64>() * self.size();
                format!(
                    "\"{}\":{{\"dtype\":\"{}\",\"shape\":{:?},\"data_offsets\":[{},{end}]}}",
                    w.name, self.dtype, w.shape, w.start
                )
            })
            .collect();
        let mut text = format!("{{{}}}", entries.join(","));
        text.push_str(&" ".repeat((8 - text.len() % 8) % 8));
        let mut out = (text.len() as u64).to_le_bytes().to_vec();
        out.extend(text.bytes());
        out
    }
}

/// A model as a file: its bytes are computed when they are read.
struct Generated {
    model: Model,
    header: Vec<u8>,
    weights: Vec<Weight>,
    len: u64,
    hints: ReadHints,
    read: AtomicU64,
}

impl Generated {
    fn new(model: Model, hints: ReadHints) -> Generated {
        let (header, weights) = (model.header(), model.weights());
        let last = weights.last().unwrap();
        let data = last.start + last.shape.iter().product::<u64>() * model.size();
        let len = header.len() as u64 + data;
        Generated { model, header, weights, len, hints, read: AtomicU64::new(0) }
    }

    fn bytes(&self, range: Range<u64>) -> Vec<u8> {
        let head = self.header.len() as u64;
        let mut out = Vec::with_capacity((range.end - range.start) as usize);
        let mut at = range.start;
        while at < range.end {
            if at < head {
                out.push(self.header[at as usize]);
                at += 1;
                continue;
            }
            let (offset, size) = (at - head, self.model.size());
            let weight = &self.weights[self.weights.partition_point(|w| w.start <= offset) - 1];
            let (element, byte) = ((offset - weight.start) / size, (offset - weight.start) % size);
            let value = self.model.value(weight, element) as f32;
            let mut stored = [0; 4];
            match size {
                4 => stored = value.to_le_bytes(),
                _ => stored[..2].copy_from_slice(&half::bf16::from_f32(value).to_le_bytes()),
            }
            let part = &stored[byte as usize..(size.min(byte + range.end - at)) as usize];
            out.extend(part);
            at += part.len() as u64;
        }
        out
    }

    fn open(model: Model) -> File {
        Generated::open_as(model, ReadHints::DISK).0
    }

    fn open_as(model: Model, hints: ReadHints) -> (File, Arc<Generated>) {
        let source = Arc::new(Generated::new(model, hints));
        let file = OpenOptions::new().open_source(source.clone(), "m.safetensors").unwrap();
        source.read.store(0, Ordering::Relaxed);
        (file, source)
    }
}

impl ByteSource for Generated {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, ranges: &[Range<u64>]) -> holdall::Result<Vec<Bytes>> {
        let one = |range: &Range<u64>| {
            self.read.fetch_add(range.end - range.start, Ordering::Relaxed);
            Bytes::from(self.bytes(range.clone()))
        };
        Ok(ranges.iter().map(one).collect())
    }

    fn read_hints(&self) -> ReadHints {
        self.hints
    }
}

/// Compares two models by a sample of at most 64 kB of each.
fn sampled(a: Model, b: Model) -> SampleDiff {
    let share = (64_000.0 / Generated::new(a, ReadHints::DISK).len as f64).clamp(1e-5, 0.01);
    let options = SampleOptions::new().with_share(share);
    let (of_a, from_a) = Generated::open_as(a, ReadHints::DISK);
    let (of_b, from_b) = Generated::open_as(b, ReadHints::DISK);
    let found = sample(&of_a, &of_b, &options).unwrap();
    for (from, read, all) in
        [(from_a, found.bytes_read.0, found.bytes.0), (from_b, found.bytes_read.1, found.bytes.1)]
    {
        assert_eq!(from.read.load(Ordering::Relaxed), read);
        assert!(read as f64 <= all as f64 * share, "{read} of {all}");
    }
    found
}

/// The table in `docs/sampling.md`. A verdict is false if it is not one of those that are allowed for its kind. Two kinds show
/// the limits of sampling, and are only counted.
#[test]
fn no_verdict_on_hundreds_of_generated_pairs_is_false() {
    use SampleVerdict::{Same, SameBase, Undecided, Unrelated};
    let mut seed = 0;
    let mut model = || {
        seed += 1;
        let (width, layers) = [(64, 4), (256, 8), (512, 12), (1024, 12), (4096, 32)][seed % 5];
        Model::new(mix(seed as u64), width, layers)
    };
    let mut table: BTreeMap<String, (BTreeMap<&str, u32>, u32)> = BTreeMap::new();
    let mut count = |kind: &str, allowed: &[SampleVerdict], a: Model, b: Model| {
        let found = sampled(a, b);
        let (verdicts, wrong) = table.entry(kind.to_owned()).or_default();
        *verdicts.entry(found.verdict.as_str()).or_default() += 1;
        let is_wrong = found.verdict != Undecided && !allowed.contains(&found.verdict);
        if is_wrong && !kind.starts_with("limit") {
            println!("{kind}: {a:?} {found:?}");
        }
        *wrong += u32::from(is_wrong);
    };
    for _ in 0..10 {
        for share in [0.001, 0.01, 0.1, 1.0] {
            for noise in [0.02, 0.2] {
                let (a, kind) = (model(), format!("tuned: {share} of the elements by {noise} σ"));
                count(&kind, &[SameBase], a, a.with(Change::Tuned { share, noise }));
            }
        }
    }
    for _ in 0..20 {
        let a = model();
        count("tuned: the vectors alone", &[SameBase], a, a.with(Change::VectorsTuned));
        let a = model();
        count("equal", &[Same], a, a);
        let a = model();
        let full = Model { dtype: "F32", ..a };
        count("equal, f32 rounded to bf16", &[Same], full, a);
        let a = model();
        count("rounded to 8 bits", &[SameBase], a, a.with(Change::Rounded { bits: 8 }));
        let a = model();
        count("rounded to 4 bits", &[SameBase], a, a.with(Change::Rounded { bits: 4 }));
        let a = model();
        count("all neurons permuted", &[SameBase], a, a.with(Change::PermutedStream));
        let a = model();
        count("inner neurons permuted", &[SameBase], a, a.with(Change::PermutedInside));
        let a = Model { common: Common::Untrained, ..model() };
        let b = Model { seed: mix(a.seed), ..a };
        count("unrelated, equal norms and positions", &[Unrelated], a, b);
    }
    for _ in 0..80 {
        let a = model();
        let b = Model { seed: mix(a.seed), ..a };
        count("unrelated", &[Unrelated], a, b);
    }
    for _ in 0..20 {
        let a = model();
        count("tuned: one matrix", &[SameBase], a, a.with(Change::OneTuned { is_row: false }));
        let a = model();
        count(
            "limit: one row of one matrix tuned",
            &[SameBase],
            a,
            a.with(Change::OneTuned { is_row: true }),
        );
        let a = model();
        count("limit: permuted and tuned", &[SameBase], a, a.with(Change::PermutedTuned));
    }
    let (mut pairs, mut wrong, mut undecided) = (0, 0, 0);
    for (kind, (verdicts, false_ones)) in &table {
        println!("{kind}: {verdicts:?}, {false_ones} false");
        if kind.starts_with("limit") {
            continue;
        }
        pairs += verdicts.values().sum::<u32>();
        undecided += verdicts.get("undecided").copied().unwrap_or(0);
        wrong += false_ones;
    }
    println!("{pairs} pairs, {wrong} false, {undecided} undecided");
    assert!(pairs >= 300 && wrong == 0, "{wrong} of {pairs}");
    // Silence is no achievement: what can be decided is.
    let decided = |kind: &str| {
        let verdicts = &table[kind].0;
        verdicts.values().sum::<u32>() - verdicts.get("undecided").copied().unwrap_or(0)
    };
    assert!(decided("unrelated") >= 60 && decided("equal") >= 15, "{table:?}");
    assert!(decided("tuned: 1 of the elements by 0.02 σ") >= 8, "{table:?}");
}

#[test]
fn a_sample_says_what_it_read_and_how_sure_it_is() {
    let a = Model::new(1, 1024, 12);
    let tuned = a.with(Change::Tuned { share: 1.0, noise: 0.1 });
    let found = sampled(a, tuned);
    assert_eq!(found.verdict, SampleVerdict::SameBase);
    let r = 1.0 / 1.01f64.sqrt();
    let (low, high) = found.interval.unwrap();
    assert!(low < r && r < high && high - low < 0.01, "{found:?}");
    assert!((found.related, found.unrelated) == (found.coverage, 0.0) && found.coverage > 0.99);
    assert_eq!((found.confidence, found.common, found.unmatched), (0.999, 49, 0));
    assert!(found.unequal > found.elements * 9 / 10 && !found.is_within_quantization);
    // The sample of the same models is the same.
    assert_eq!(found, sampled(a, tuned));

    let same = sampled(a, a);
    assert_eq!((same.verdict, same.unequal), (SampleVerdict::Same, 0));
    let bound = 1.0 - 0.001f64.powf(1.0 / same.runs as f64);
    assert!((same.most_unequal - bound).abs() < 1e-12 && bound < 0.2, "{same:?}");

    let other = sampled(a, Model { seed: 2, ..a });
    assert_eq!(other.verdict, SampleVerdict::Unrelated);
    assert!(other.interval.unwrap().1 < 0.5 && other.unrelated > 0.95, "{other:?}");
}

#[test]
fn what_a_sample_cannot_say_it_does_not_say() {
    let a = Model::new(1, 1024, 12);
    let b = a.with(Change::Tuned { share: 1.0, noise: 0.1 });
    let reason = |found: SampleDiff| {
        assert_eq!(found.verdict, SampleVerdict::Undecided, "{found:?}");
        found.reason
    };
    let none =
        sample(&Generated::open(a), &Generated::open(b), &SampleOptions::new().with_share(1e-9));
    assert!(reason(none.unwrap()).contains("less than one read"));
    let other = make::file(
        "safetensors",
        &[dense("x", &[2], part(Role::Data, DType::F32, f32s(&[1.0, 2.0])))],
    );
    let found = sample(&Generated::open(a), &other, &SampleOptions::new()).unwrap();
    assert!(reason(found).contains("no tensor of one has a name and shape of the other"));
    // Another number of rows is no obstacle, another number of columns is.
    let small = Model::new(1, 512, 12);
    assert!(reason(sampled(a, small)).contains("no tensor"));
    // Compressed tensors have no ranges to read.
    let values: Vec<f32> = (0..1 << 16).map(|n| normal(1, n) as f32).collect();
    let data = part(Role::Data, DType::F32, f32s(&values)).zstd();
    let packed = make::file("ztensor", &[dense("w", &[256, 256], data)]);
    let found = sample(&packed, &packed, &SampleOptions::new()).unwrap();
    assert!(reason(found).contains("no tensor is stored so that a part of it can be read"));
    // An attribute or a tensor that only one has is named by the reason, or ends the verdict.
    let data = || part(Role::Data, DType::F32, f32s(&values));
    let plain = |more: bool| {
        let mut all = vec![dense("w", &[256, 256], data())];
        if more {
            all.push(dense("more", &[256, 256], data()));
        }
        make::file("ztensor", &all)
    };
    let all = SampleOptions::new().with_share(1.0);
    let same = sample(&plain(false), &plain(false), &all).unwrap();
    assert_eq!(same.verdict, SampleVerdict::Same);
    let more = sample(&plain(false), &plain(true), &all).unwrap();
    assert_eq!((more.verdict, more.unmatched), (SampleVerdict::SameBase, 1));
}

/// Blocks of llama.cpp's types are read as such, at multiples of their lengths.
#[test]
fn quantized_copies_have_the_same_base() {
    let values = |seed: u64| -> Vec<f32> { (0..1 << 18).map(|n| normal(seed, n) as f32).collect() };
    let model = |seed: u64| {
        let all: Vec<_> = (0..4)
            .map(|n| {
                let data = part(Role::Data, DType::F32, f32s(&values(4 * seed + n)));
                dense(&format!("blk.{n}.w"), &[256, 1024], data)
            })
            .collect();
        make::file("safetensors", &all)
    };
    let dir = tempfile::tempdir().unwrap();
    let options = SampleOptions::new().with_share(0.2);
    for (block, is_within) in [("q8_0", true), ("q4_k", true), ("q4_0", true)] {
        let path = dir.path().join(format!("{block}.gguf"));
        let form = holdall::TensorForm::new(block).unwrap();
        let convert = holdall::Convert::new(holdall::WriteOptions::new()).with_form(form);
        holdall::convert(&model(1), &path, &convert).unwrap();
        let copy = holdall::open(&path).unwrap();
        let found = sample(&model(1), &copy, &options).unwrap();
        assert_eq!(found.verdict, SampleVerdict::SameBase, "{block} {found:?}");
        assert_eq!(found.is_within_quantization, is_within, "{block} {found:?}");
        let found = sample(&model(2), &copy, &options).unwrap();
        assert_eq!(found.verdict, SampleVerdict::Unrelated, "{block} {found:?}");
        assert!(!found.is_within_quantization);
    }
}

#[cfg(all(feature = "http", feature = "serve"))]
mod served {
    use super::*;
    use holdall::http::{Hosts, Policy, Schemes};
    use holdall::serve::http::{HttpOptions, HttpServer};
    use holdall::serve::{Entry, FileCatalog, FileId, ServedFile, Service};
    use std::sync::Mutex;

    struct Catalog([Arc<Generated>; 2]);

    struct Ranged(Arc<Generated>, u8);

    impl FileCatalog for Catalog {
        fn open(&self, name: &str) -> holdall::Result<Arc<dyn ServedFile>> {
            let number = u8::from(name.starts_with('b'));
            Ok(Arc::new(Ranged(self.0[usize::from(number)].clone(), number)))
        }

        fn list(&self) -> holdall::Result<Vec<Entry>> {
            Ok(Vec::new())
        }
    }

    impl ServedFile for Ranged {
        fn len(&self) -> u64 {
            self.0.len
        }

        fn id(&self) -> FileId {
            FileId([self.1; 32])
        }

        fn index(&self) -> Vec<Range<u64>> {
            Vec::new()
        }

        fn read(&self, range: Range<u64>) -> holdall::Result<Bytes> {
            Ok(Bytes::from(self.0.bytes(range)))
        }
    }

    /// The bytes that a server sends are a hundredth of the models, and what opening them takes.
    #[test]
    fn a_sample_over_http_is_a_hundredth_of_the_bytes() {
        let a = Model::new(7, 2048, 8);
        let b = a.with(Change::Tuned { share: 0.01, noise: 0.1 });
        let catalog = Catalog([a, b].map(|m| Arc::new(Generated::new(m, ReadHints::DISK))));
        let len = catalog.0[0].len;
        let sent: Arc<Mutex<BTreeMap<String, (u64, u64)>>> = Arc::default();
        let seen = sent.clone();
        let service = Service::new(Arc::new(catalog)).with_log(Arc::new(
            move |access: &holdall::serve::Access<'_>| {
                let mut all = seen.lock().unwrap();
                let one = all.entry(access.name.to_owned()).or_default();
                (one.0, one.1) = (one.0 + 1, one.1 + access.sent);
            },
        ));
        let any = "127.0.0.1:0".parse().unwrap();
        let server = HttpServer::start(service, any, HttpOptions::default()).unwrap();
        let policy = Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo);
        let open = |name: &str| {
            let url = format!("http://{}/{name}.safetensors", server.address());
            OpenOptions::new().with_policy(policy.clone()).open(url).unwrap()
        };
        let (of_a, of_b) = (open("a"), open("b"));
        let settled = || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            sent.lock().unwrap().clone()
        };
        let before = settled();
        let found = sample(&of_a, &of_b, &SampleOptions::new()).unwrap();
        assert_eq!(found.verdict, SampleVerdict::SameBase, "{found:?}");
        let after = settled();
        for (name, read) in
            [("a.safetensors", found.bytes_read.0), ("b.safetensors", found.bytes_read.1)]
        {
            let (requests, bytes) = after[name];
            let (opening, head) = before[name];
            let (requests, bytes) = (requests - opening, bytes - head);
            println!(
                "{name}: {len} bytes, opened with {head}, sampled with {bytes} in {requests} requests"
            );
            assert!(bytes > 0 && bytes * 100 <= len, "{bytes} of {len}");
            // What was planned, and the heads of the responses.
            assert!(bytes <= read + 1024 * requests, "{bytes} for {read}");
            assert!(head <= 1 << 20, "{head}");
        }
    }
}
