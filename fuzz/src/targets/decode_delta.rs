//! What the decoders of weight updates accept can be applied, and is written and read back as the same.

use crate::limits;
use crate::take::{Put, Take};
use holdall::{Attributes, DType, Value};
use holdall_core::layout::update::bytes::{ByteDiff, DiffEncoding};
use holdall_core::layout::update::sparse::{SparseDiff, SparseHead, SparseLayout};
use holdall_core::layout::update::{ChecksumKind, VersionIndex};

/// The longest tensor.
const MOST: u32 = 1 << 16;
const ENCODINGS: [DiffEncoding; 2] = [DiffEncoding::Xor, DiffEncoding::Overwrite];
const LAYOUTS: [SparseLayout; 3] = [SparseLayout::V1, SparseLayout::V2Raw, SparseLayout::V2Gap];
const INDICES: [DType; 4] = [DType::I32, DType::U16, DType::U32, DType::I64];

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let mut take = Take::new(data);
    match take.below(4) {
        0 => index(take.bytes(usize::MAX)),
        1 => bytes(&mut take),
        2 => elements(&mut take),
        _ => metadata(&mut take),
    }
}

fn index(text: &[u8]) {
    let Ok(index) = VersionIndex::read(text) else { return };
    let again = VersionIndex::read(index.text().as_bytes()).expect("its own text");
    assert_eq!(again, index);
}

fn bytes(take: &mut Take<'_>) {
    let encoding = ENCODINGS[take.below(2)];
    let len = take.u32() % MOST;
    let stored = take.bytes(usize::MAX);
    let limits = limits::tight();
    let Ok(diff) = ByteDiff::decode(encoding, stored, len.into(), &limits) else { return };
    let old: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let mut new = old.clone();
    diff.apply(&mut new).expect("a checked difference");
    let differ = old.iter().zip(&new).filter(|(a, b)| a != b).count() as u64;
    assert!(differ <= diff.changed());
    assert!(diff.changed_elements(1) == diff.changed());
    for encoding in ENCODINGS {
        let own = ByteDiff::between(encoding, &old, &new).expect("of equal lengths");
        assert_eq!(own.changed(), differ);
        let mut made = old.clone();
        own.apply(&mut made).expect("its own difference");
        assert!(made == new);
        assert_eq!(ChecksumKind::Adler32.compute(&made), ChecksumKind::Adler32.compute(&new));
    }
}

fn elements(take: &mut Take<'_>) {
    let (layout, dtype) = (LAYOUTS[take.below(3)], INDICES[take.below(4)]);
    let (count, width) = (take.u32() % MOST, 1 << take.below(4));
    let (indices, values) = (take.run(), take.run().to_vec());
    let decode = |layout, dtype, indices: &[u8]| {
        SparseDiff::decode(layout, dtype, indices, values.clone().into(), count.into(), width)
    };
    let Ok(diff) = decode(layout, dtype, indices) else { return };
    let len = count as usize * width as usize;
    let old: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let mut new = old.clone();
    diff.apply(&mut new).expect("a checked difference");
    for layout in LAYOUTS {
        let (dtype, own) = diff.indices(layout).expect("indices that fit");
        assert_eq!(decode(layout, dtype, &own).expect("its own indices"), diff);
    }
    let own = SparseDiff::between(&old, &new, width).expect("of equal lengths");
    assert!(own.changed() <= diff.changed());
    let mut made = old;
    own.apply(&mut made).expect("its own difference");
    assert!(made == new);
}

fn metadata(take: &mut Take<'_>) {
    let mut attributes = Attributes::new();
    for key in [
        "version",
        "sparse",
        "model_version",
        "num_changed_params",
        "total_changed_elements",
        "total_elements",
        "encoding",
        "changed_params",
    ] {
        if let Ok(text) = std::str::from_utf8(take.run())
            && !text.is_empty()
        {
            attributes.set(key, Value::Text(text.to_owned()));
        }
    }
    attributes.set("format", Value::Text("sparse_weight_patch".into()));
    let Ok(head) = SparseHead::read(&attributes) else { return };
    let mut head = head.expect("the format is that of an update");
    let again =
        SparseHead::read(&head.attributes()).expect("its own metadata").expect("of the format");
    if again.names.is_none() {
        head.names = None;
    }
    assert_eq!(again, head);
}

/// Returns the texts, the differences and the metadata in a file of an update.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    if file.starts_with(b"{") {
        out.push([&[0], file].concat());
        return out;
    }
    let Some(opened) = crate::open(file) else { return out };
    for tensor in opened.tensors() {
        let Ok(stored) = tensor.bytes(&holdall::Role::Data) else { continue };
        for encoding in 0..2u8 {
            for len in [24u32, 4608, 12_288, 18_432] {
                out.push([&[1, encoding], &len.to_le_bytes()[..], &stored].concat());
            }
        }
        for (layout, ends) in
            [(0u8, [".indices", ".values"]), (1, [".idx", ".val"]), (2, [".idx", ".val"])]
        {
            let Some(name) = tensor.name().strip_suffix(ends[0]) else { continue };
            let Ok(values) = opened.tensor(&format!("{name}{}", ends[1])) else { continue };
            let Ok(values) = values.bytes(&holdall::Role::Data) else { continue };
            let dtype = tensor.dense_type().map(|found| found.dtype);
            let dtype = INDICES.iter().position(|known| Some(*known) == dtype).unwrap_or(0);
            let mut put = Put::default();
            put.0.extend([2, layout, dtype as u8]);
            put.0.extend(60_000u32.to_le_bytes());
            put.u8(1);
            put.run(&stored);
            put.run(&values);
            out.push(put.0);
        }
    }
    out
}
