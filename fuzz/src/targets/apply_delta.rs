//! A delta that is applied to a base gives elements with the digests that the delta states; a delta that is refused leaves no file.

use crate::limits;
use crate::take::Take;
use holdall::delta::{ApplyOptions, apply};
use holdall::{Bytes, Durability, OpenOptions, Value, Work};
use holdall_core::layout::delta::ElementsDigest;
use std::path::PathBuf;
use std::sync::{LazyLock, Once};

/// A file of this process, which each input replaces.
static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
    std::env::temp_dir().join(format!("holdall-apply-delta-{}.zt", std::process::id()))
});

/// The bases of the corpus.
const BASES: [&[u8]; 2] = [
    include_bytes!("../../../corpus/accept/ztensor/delta-base.zt"),
    include_bytes!("../../../corpus/accept/ztensor/delta-small_base.zt"),
];

/// A thread reserves address space for its memory, once in this process, which is not what an input uses.
static RESERVED: Once = Once::new();

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    RESERVED.call_once(|| {
        let _ = std::thread::spawn(|| drop(std::hint::black_box(vec![1u8; 1 << 16]))).join();
    });
    let mut take = Take::new(data);
    let len = take.u32() as usize;
    let (base, delta) = (take.bytes(len), take.bytes(usize::MAX));
    let options = OpenOptions::new().with_limits(limits::tight());
    let open = |bytes: &[u8]| options.open_bytes(Bytes::copy_from_slice(bytes), "input").ok();
    let (Some(base), Some(delta)) = (open(base), open(delta)) else { return };
    let mut options = ApplyOptions::default();
    options.write = options
        .write
        .with_work(Work::new().with_threads(1))
        .with_durability(Durability::System)
        .with_overwrite(true);
    let _ = std::fs::remove_file(&*PATH);
    if apply(&base, &delta, &*PATH, &options).is_err() {
        assert!(!PATH.exists(), "a refused delta left a file");
        return;
    }
    let target = holdall::open(&*PATH).expect("a model that was written");
    for tensor in delta.tensors().filter(|tensor| tensor.layout().as_str() == "delta") {
        let made = target.tensor(tensor.name()).expect("a tensor that changed");
        let stated = tensor.attributes().get("target").and_then(Value::as_text);
        let stated = stated.expect("the digest of a delta that was applied");
        let mut digest = ElementsDigest::like(stated);
        digest.update(made.to_dense().expect("a dense tensor").bytes());
        assert_eq!(digest.finish(), stated);
    }
    drop(target);
    let _ = std::fs::remove_file(&*PATH);
}

/// Returns a delta with each base.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let is_delta = |file: holdall::File| file.attributes().get("delta").is_some();
    if !crate::open(file).is_some_and(is_delta) {
        return Vec::new();
    }
    let with = |base: &&[u8]| [&(base.len() as u32).to_le_bytes()[..], base, file].concat();
    BASES.iter().map(with).collect()
}
