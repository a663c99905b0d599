//! Blocks whose scales are searched for: no error of theirs is above that of ggml's own method.

use holdall_core::layout::Computed as _;
use holdall_core::layout::blocks::{Blocks, can_quantize, quantize};
use holdall_core::model::BlockType;
use holdall_core::{Limits, Role, Window};

/// Of a kind of numbers and a type: blocks, and the errors of ours and ggml's, alike and weighed.
struct Tally {
    blocks: usize,
    less: usize,
    ours: [f64; 2],
    theirs: [f64; 2],
}

/// Quantises block by block, and holds both errors of each against those of the reference.
fn compare(name: &str, of: &'static BlockType, numbers: &[f32]) -> Tally {
    let mut tally = Tally { blocks: 0, less: 0, ours: [0.0; 2], theirs: [0.0; 2] };
    for (at, block) in numbers.chunks_exact(256).enumerate() {
        let mut bytes = Vec::new();
        quantize(of, block, &mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, of.bytes, "{of}");
        let ours = Blocks::new(of, &[256], bytes.into()).unwrap().dequantize().unwrap();
        let theirs = crate::reference::quantised(of.as_str(), block);
        let weights = crate::reference::weights(of.as_str(), block);
        let errors = |found: &[f32]| {
            let mut sums = [0.0; 2];
            for ((x, y), w) in block.iter().zip(found).zip(&weights) {
                let e = f64::from(*y) - f64::from(*x);
                sums[0] += e * e;
                sums[1] += f64::from(*w) * e * e;
            }
            sums
        };
        let (ours, theirs) = (errors(&ours), errors(&theirs));
        for (k, what) in ["error", "weighed error"].into_iter().enumerate() {
            // Sums of the same squares in another order differ by less than this.
            let most = theirs[k] * (1.0 + 1e-12);
            let (a, b) = (ours[k], theirs[k]);
            assert!(a <= most, "{name}, block {at} of {of}: the {what} is {a:e}, theirs {b:e}");
            tally.ours[k] += a;
            tally.theirs[k] += b;
        }
        tally.blocks += 1;
        tally.less += usize::from(ours[0] < theirs[0] && ours[1] < theirs[1]);
    }
    tally
}

fn searched() -> impl Iterator<Item = &'static BlockType> {
    ["q2_k", "q3_k", "q4_k", "q5_k", "q6_k"].iter().map(|name| BlockType::by_name(name).unwrap())
}

/// Numbers from 0 to 1, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// 32 blocks of each kind of numbers.
fn kinds() -> Vec<(&'static str, Vec<f32>)> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut all = Vec::new();
    let mut add = |name, one: &mut dyn FnMut(usize) -> f64| {
        all.push((name, (0..32 * 256).map(|i| one(i) as f32).collect::<Vec<f32>>()));
    };
    add("even", &mut |_| random.next() * 2.0 - 1.0);
    add("gaussian", &mut |_| random.normal() * 0.02);
    add("heavy tails", &mut |_| random.normal() / random.normal().abs().max(1e-3));
    add("one outlier", &mut |i| random.normal() * if i % 256 == 77 { 1000.0 } else { 1.0 });
    add("above 0", &mut |_| random.next() + 3.0);
    add("below 0", &mut |_| -random.next() * 5.0 - 0.1);
    add("mostly zeros", &mut |i| if i % 19 == 0 { random.normal() } else { 0.0 });
    add("groups of many sizes", &mut |i| {
        random.normal() * f64::powi(10.0, (i / 16 % 9) as i32 - 4)
    });
    add("of a few values", &mut |_| (random.next() * 8.0).floor() * 0.25 - 1.0);
    add("tiny", &mut |_| random.normal() * 1e-7);
    add("too tiny", &mut |_| random.normal() * 1e-20);
    add("large", &mut |_| random.normal() * 1e4);
    add("zeros", &mut |_| 0.0);
    add("zeros of both signs", &mut |i| if i % 2 == 0 { 0.0 } else { -0.0 });
    add("one value a block", &mut |i| (i / 256) as f64 * 0.37 - 4.0);
    add("one value a group", &mut |i| (i / 16 * 37 % 41) as f64 * 0.1 - 2.0);
    add("one number", &mut |i| if i % 256 == i / 256 { 0.3 - (i % 2) as f64 } else { 0.0 });
    add("rising", &mut |i| (i % 256) as f64 / 255.0 - 0.3);
    all
}

#[test]
fn no_block_has_a_greater_error_than_by_the_method_of_ggml() {
    for (name, numbers) in kinds() {
        for of in searched() {
            let Tally { blocks, less, ours, theirs } = compare(name, of, &numbers);
            let part = |k: usize| if theirs[k] > 0.0 { ours[k] / theirs[k] } else { 1.0 };
            println!("{name}, {of}: {:.3} {:.3}, less in {less} of {blocks}", part(0), part(1));
            if ["even", "gaussian", "heavy tails"].contains(&name) {
                assert!(part(0) < 0.99 && part(1) < 0.99, "the search finds little");
                assert!(less > blocks / 2, "the search finds less in {less} blocks of {blocks}");
            }
        }
    }
}

/// `HOLDALL_MODEL` names the safetensors of a model with weights in f32.
#[test]
fn nor_have_the_weights_of_a_model() {
    let Some(path) = std::env::var_os("HOLDALL_MODEL") else {
        println!("skipped: HOLDALL_MODEL names no model");
        return;
    };
    let bytes: holdall_core::Bytes = std::fs::read(path).unwrap().into();
    let index =
        holdall_formats::decode(&Window::whole(bytes.clone()), &Limits::default()).ok().unwrap();
    for of in searched() {
        let mut all = Tally { blocks: 0, less: 0, ours: [0.0; 2], theirs: [0.0; 2] };
        for tensor in index.tensors().filter(|t| t.shape().len() == 2) {
            let data = tensor.component(&Role::Data).unwrap();
            if data.dtype != holdall_core::DType::F32 {
                continue;
            }
            let range = data.stored.range();
            let data = &bytes[range.start as usize..range.end as usize];
            let numbers: Vec<f32> =
                data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            // Some of it: every block takes a while without optimisation.
            let some = &numbers[..numbers.len().min(256 * 64)];
            let found = compare(tensor.name(), of, some);
            all.blocks += found.blocks;
            all.less += found.less;
            all.ours.iter_mut().zip(found.ours).for_each(|(sum, own)| *sum += own);
            all.theirs.iter_mut().zip(found.theirs).for_each(|(sum, own)| *sum += own);
        }
        assert!(all.blocks > 0, "no weights in f32");
        let part = |k: usize| all.ours[k] / all.theirs[k];
        println!("{of}: {:.4} {:.4}, less in {} of {}", part(0), part(1), all.less, all.blocks);
    }
}

/// Numbers that a block cannot represent are refused, and nothing is written.
#[test]
fn numbers_without_a_place_are_refused() {
    for of in searched() {
        assert!(can_quantize(of));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -1e12] {
            let mut numbers = vec![0.5; 256];
            numbers[200] = bad;
            let mut out = vec![7];
            let e = quantize(of, &numbers, &mut out).unwrap_err();
            assert_eq!(e.code(), "layout/not-finite", "{of} of {bad}");
            assert_eq!(out, [7], "{of} of {bad}");
        }
        let mut out = Vec::new();
        quantize(of, &[65504.0; 256], &mut out).unwrap();
        quantize(of, &[0.5; 255], &mut out).unwrap_err();
    }
}
