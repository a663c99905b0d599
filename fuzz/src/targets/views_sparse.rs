//! The entries of a sparse view are inside its shape, and its dense form matches its entries.

use crate::limits;
use crate::take::{Put, Take};
use holdall::layout::{Coo, Csr, Decoded, Dense, Tiles};
use holdall::{Layout, Limits, Result, Role, Tensor, Value, element_count};
use holdall_core::layout::sparse::tiles::{Compressed, blocks, hybrid};
use std::collections::BTreeMap;

/// An entry: its position, one number for each dimension, and the bytes of its value.
type Entry<'a> = (Vec<u64>, &'a [u8]);

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let limits = limits::tight();
    let mut take = Take::new(data);
    let kind = take.below(6);
    let shape = take.shape();
    match kind {
        0 => {
            let (values, indices, indptr) = (take.component(), take.component(), take.component());
            csr(Csr::new(&shape, indptr, indices, values, &limits), &limits);
        }
        1 => {
            let (values, coords) = (take.component(), take.component());
            coo(Coo::new(&shape, coords, values, &limits), &limits);
        }
        2 => csr(Csr::from_packed(&shape, take.component(), &limits), &limits),
        3 => coo(Coo::from_packed(&shape, take.component()), &limits),
        4 => {
            let compressed =
                if take.below(2) == 0 { Compressed::Rows } else { Compressed::Columns };
            let (block, batch) = ([take.u64(), take.u64()], take.u8().into());
            let (values, indices, indptr) = (take.component(), take.component(), take.component());
            let attributes = blocks(compressed, block, batch);
            tiles(Tiles::in_blocks(&shape, &attributes, indptr, indices, values, &limits), &limits);
        }
        _ => {
            let attributes = hybrid(take.u8().into());
            let (values, coords) = (take.component(), take.component());
            tiles(Tiles::at_coords(&shape, &attributes, coords, values, &limits), &limits);
        }
    }
}

/// Checks that the dense form does not depend on how it is split into parts.
fn tiles(view: Result<Tiles>, limits: &Limits) {
    let Ok(view) = view.map_err(|e| check(&e)) else { return };
    let Ok(dense) = view.to_dense(limits).map_err(|e| check(&e)) else { return };
    assert_eq!(dense.shape(), view.shape());
    let (len, values) = (dense.bytes().len(), view.values());
    assert!(len as u64 <= limits::DECODED_LEN);
    let there = |bytes: &[u8]| bytes.iter().any(|b| *b != 0);
    assert!(there(values.bytes()) || !there(dense.bytes()), "a nonzero element without a value");
    let count = element_count(view.shape()).unwrap_or_default();
    let width = len as u64 / count.max(1);
    let mut out = Vec::new();
    for part in [0..count / 3, count / 3..count / 3 + count.min(1), count / 3 + count.min(1)..count]
    {
        view.elements(part.clone(), &mut out).expect("the dense form can be read in parts");
        assert_eq!(out.len() as u64, part.end * width);
    }
    assert!(out[..] == dense.bytes()[..], "the parts differ from the whole");
}

fn csr(view: Result<Csr>, limits: &Limits) {
    let Ok(view) = view.map_err(|e| check(&e)) else { return };
    let [rows, columns] = view.shape();
    assert_eq!(view.indptr().len() as u64, rows + 1);
    assert!(view.indices().iter().all(|c| *c < columns));
    assert_eq!(view.indptr().last(), Some(&(view.count() as u64)));
    assert!(view.indptr().is_sorted() && view.indptr()[0] == 0);
    let entries: Vec<Entry<'_>> =
        view.entries().map(|e| (vec![e.row, e.column], e.value)).collect();
    assert_eq!(entries.len(), view.count());
    for (number, (place, _)) in entries.iter().enumerate() {
        let row = place[0] as usize;
        let own = view.indptr()[row]..view.indptr()[row + 1];
        assert!(own.contains(&(number as u64)));
    }
    is_dense(&[rows, columns], &entries, view.to_dense(limits));
    let indices = view.indptr().iter().chain(view.indices());
    let mut bytes: Vec<u8> = indices.flat_map(|index| index.to_le_bytes()).collect();
    bytes.extend_from_slice(view.values().bytes());
    let packed = Decoded { bytes: bytes.into(), ..decoded(view.values()) };
    let back = Csr::from_packed(&[rows, columns], packed, limits);
    assert_eq!(back.expect("packed entries can be unpacked"), view);
}

fn coo(view: Result<Coo>, limits: &Limits) {
    let Ok(view) = view.map_err(|e| check(&e)) else { return };
    let shape = view.shape();
    for (d, size) in shape.iter().enumerate() {
        assert_eq!(view.coords(d).len(), view.count());
        assert!(view.coords(d).iter().all(|c| c < size));
    }
    assert!(view.coords(shape.len()).is_empty());
    let entries: Vec<Entry<'_>> = view.entries().map(|e| (e.coords().collect(), e.value)).collect();
    assert_eq!(entries.len(), view.count());
    is_dense(shape, &entries, view.to_dense(limits));
    let mut bytes = Vec::new();
    for (place, value) in &entries {
        place.iter().for_each(|at| bytes.extend_from_slice(&at.to_le_bytes()));
        bytes.extend_from_slice(value);
    }
    let packed = Decoded { bytes: bytes.into(), ..decoded(view.values()) };
    let back = Coo::from_packed(shape, packed).expect("what was packed can be unpacked");
    assert_eq!(back, view);
}

/// Checks that the error of a view concerns the bytes it was given.
fn check(e: &holdall::Error) {
    // This error occurs when a file is opened: the bytes are not whole elements.
    assert!(e.code() == "layout/length" || !e.to_string().is_empty());
    if e.code() != "layout/length" {
        crate::walk::is_of_the_file(e);
    }
}

fn decoded(values: &Dense) -> Decoded {
    let (dtype, logical_type) = (values.dtype(), values.logical_type().cloned());
    Decoded { dtype, logical_type, bytes: Default::default() }
}

/// Checks that the dense form has each value at its position, unless several values share one, and zeros elsewhere.
fn is_dense(shape: &[u64], entries: &[Entry<'_>], dense: Result<Dense>) {
    let Ok(dense) = dense.map_err(|e| check(&e)) else { return };
    assert_eq!(dense.shape(), shape);
    assert!(dense.bytes().len() as u64 <= limits::DECODED_LEN);
    let Some(width) = entries.first().map(|(_, value)| value.len()) else {
        return assert!(dense.bytes().iter().all(|b| *b == 0));
    };
    let mut elements: BTreeMap<usize, Option<&[u8]>> = BTreeMap::new();
    for (place, value) in entries {
        let at = place.iter().zip(shape).fold(0, |at, (p, size)| at * size + p) as usize;
        // Values at the same position are summed.
        elements.entry(at).and_modify(|v| *v = None).or_insert(Some(value));
    }
    let mut filled = 0;
    for (at, value) in &elements {
        let found = &dense.bytes()[at * width..(at + 1) * width];
        filled += usize::from(found.iter().any(|b| *b != 0));
        assert!(value.is_none_or(|value| value == found));
    }
    let all = dense.bytes().chunks_exact(width).filter(|v| v.iter().any(|b| *b != 0)).count();
    assert_eq!(all, filled, "a nonzero element without a value");
}

/// Returns every sparse tensor.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let Some(file) = crate::open(file) else { return Vec::new() };
    let mut out = Vec::new();
    for t in file.tensors() {
        let (kind, roles): (u8, &[Role]) = match t.layout() {
            Layout::SparseCsr => (0, &[Role::Values, Role::Indices, Role::Indptr]),
            Layout::SparseCoo => (1, &[Role::Values, Role::Coords]),
            Layout::PackedCsr => (2, &[Role::Data]),
            Layout::PackedCoo => (3, &[Role::Data]),
            Layout::SparseBlocks => (4, &[Role::Values, Role::Indices, Role::Indptr]),
            Layout::SparseHybrid => (5, &[Role::Values, Role::Coords]),
            _ => continue,
        };
        let mut put = Put::default();
        put.u8(kind);
        if !put.shape(t.shape()) {
            continue;
        }
        attributes(&t, &mut put);
        for role in roles {
            if let (Some(c), Ok(bytes)) = (t.component(role), t.bytes(role)) {
                put.component(&c, &bytes);
            }
        }
        if put.0.len() <= 8192 {
            out.push(put.0);
        }
    }
    out
}

/// Writes the attributes of a tensor that concern its entries.
fn attributes(t: &Tensor, put: &mut Put) {
    let number = |value: Option<&Value>| {
        value.and_then(Value::as_integer).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
    };
    let get = |key: &str| t.attributes().get(key);
    match t.layout() {
        Layout::SparseBlocks => {
            let is_rows = matches!(get("compressed"), Some(Value::Text(axis)) if axis == "rows");
            put.u8(u8::from(!is_rows));
            let sides: &[Value] = match get("block") {
                Some(Value::Array(sides)) => sides,
                _ => &[],
            };
            for side in [sides.first(), sides.get(1)] {
                put.0.extend(number(side).to_le_bytes());
            }
            put.u8(number(get("batch")) as u8);
        }
        Layout::SparseHybrid => put.u8(number(get("coordinates")) as u8),
        _ => {}
    }
}
