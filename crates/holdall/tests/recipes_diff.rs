//! Converted models compared with their sources through recipes.

use crate::recipes::{cases, converted, corpus, options};
use holdall::recipe::{ModelDiff, OutType, Verdict, diff_model};
use holdall::{Layout, Role, TensorForm};
use std::fs;
use std::path::Path;

fn compared(case: &str, converted: &Path) -> ModelDiff {
    let folder = corpus(case);
    let source = holdall::open(&folder).unwrap();
    let file = holdall::open(converted).unwrap();
    diff_model(&folder, &source, &file, &options()).unwrap_or_else(|e| panic!("{case}: {e}"))
}

/// Numbers that depend on a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[test]
fn converted_models_are_exact_and_one_flipped_bit_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    let mut random = Random(0x5eed);
    for case in cases() {
        let floats = [OutType::F32, OutType::F16, OutType::Bf16];
        for outtype in [floats[random.below(3) as usize], OutType::Q8_0] {
            let context = format!("{case} {}", outtype.as_str());
            converted(&corpus(&case), &path, &options().with_outtype(outtype)).unwrap();
            let diff = compared(&case, &path);
            assert!(diff.is_faithful(), "{context}: {diff:?}");
            assert!(diff.tensors.iter().all(|t| t.verdict == Verdict::Exact), "{context}");
            assert!(diff.added_attributes.is_empty(), "{context}");
            let most = match outtype {
                OutType::F32 => 1e-7,
                OutType::F16 => 1e-3,
                _ => 1e-2,
            };
            for tensor in &diff.tensors {
                assert!(tensor.error.relative <= most, "{context}: {tensor:?}");
                assert!(tensor.error.cosine > 0.999, "{context}: {tensor:?}");
            }

            let file = holdall::open(&path).unwrap();
            let at = random.below(file.len() as u64) as usize;
            let tensor = file.tensors().nth(at).unwrap();
            let data = tensor.require(&Role::Data).unwrap();
            let byte = random.below(data.stored_len());
            let mut bytes = fs::read(&path).unwrap();
            bytes[(data.stored.start + byte) as usize] ^= 1 << random.below(8);
            let name = tensor.name().to_owned();
            let (unit, width) = match tensor.layout() {
                Layout::Blocks(of) => (of.elements, of.bytes),
                _ => (1, data.dtype.width()),
            };
            drop((tensor, file));
            fs::write(&path, bytes).unwrap();
            let diff = compared(&case, &path);
            let found: Vec<_> = diff.tensors.iter().filter(|t| t.differing != Some(0)).collect();
            assert_eq!(found.len(), 1, "{context} {name}: {found:?}");
            let unit = byte / width * unit..(byte / width + 1) * unit;
            assert_eq!((&found[0].name, &found[0].first), (&name, &Some(unit)), "{context}");
            assert_eq!(found[0].differing, Some(1), "{context} {name}");
            // The last place of an exponential is no difference.
            let is_tiny = case == "mamba" && found[0].verdict == Verdict::Rounded;
            assert_eq!(diff.is_faithful(), is_tiny, "{context} {name}");
        }
    }
}

/// Blocks that another quantizer made are near the source; a block of other content is named.
#[test]
fn blocks_of_other_quantizers_pass_and_wrong_ones_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let (path, quantized) = (dir.path().join("f32.gguf"), dir.path().join("q4_0.gguf"));
    converted(&corpus("qwen2"), &path, &options().with_outtype(OutType::F32)).unwrap();
    let form = TensorForm::Blocks(holdall::BlockType::by_name("q4_0").unwrap());
    let convert = holdall::Convert::new(holdall::WriteOptions::new()).with_form(form);
    holdall::convert(&holdall::open(&path).unwrap(), &quantized, &convert).unwrap();
    let blocks = |diff: &ModelDiff, verdict| {
        let is_found =
            |t: &&holdall::recipe::ConvertedTensor| t.stored == "q4_0" && t.verdict == verdict;
        diff.tensors.iter().filter(is_found).cloned().collect::<Vec<_>>()
    };
    let diff = compared("qwen2", &quantized);
    let exact = blocks(&diff, Verdict::Exact);
    assert!(diff.is_faithful() && exact.len() > 3, "{diff:?}");
    assert!(exact.iter().all(|t| t.error.rms > 0.0 && t.error.relative < 0.15));

    // The lowest bit of the first number of every block.
    let file = holdall::open(&quantized).unwrap();
    let mut bytes = fs::read(&quantized).unwrap();
    let name = exact[1].name.clone();
    let mut worst = 0;
    for tensor in file.tensors().filter(|t| matches!(t.layout(), Layout::Blocks(_))) {
        let data = tensor.require(&Role::Data).unwrap();
        let range = data.stored.start as usize..(data.stored.start + data.stored_len()) as usize;
        bytes[range.clone()].iter_mut().skip(2).step_by(18).for_each(|byte| *byte ^= 1);
        if tensor.name() == name {
            worst = range.start;
        }
    }
    fs::write(&quantized, &bytes).unwrap();
    let diff = compared("qwen2", &quantized);
    assert!(diff.is_faithful(), "{diff:?}");
    assert_eq!(blocks(&diff, Verdict::Quantized).len(), exact.len());

    // All numbers of one block.
    let block = 3;
    bytes[worst + 18 * block + 2..worst + 18 * (block + 1)]
        .iter_mut()
        .for_each(|byte| *byte ^= 0x5a);
    fs::write(&quantized, &bytes).unwrap();
    let diff = compared("qwen2", &quantized);
    let wrong = blocks(&diff, Verdict::Differs);
    assert_eq!(wrong.len(), 1);
    assert_eq!(wrong[0].name, name);
    let found = wrong[0].worst.as_ref().unwrap();
    assert_eq!((found.index, found.elements.clone()), (3, 96..128));
    assert!(!diff.is_faithful());
}

#[test]
fn missing_and_added_tensors_shapes_and_metadata_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    converted(&corpus("llama-bias"), &path, &options()).unwrap();
    let diff = compared("mixtral", &path);
    assert!(!diff.is_faithful());
    assert!(diff.missing.iter().any(|name| name == "blk.0.ffn_gate_inp.weight"), "{diff:?}");
    assert!(diff.added.iter().any(|name| name == "blk.0.attn_q.bias"), "{diff:?}");
    assert!(diff.attributes.iter().any(|d| d.key == "llama.expert_count"), "{diff:?}");
}
