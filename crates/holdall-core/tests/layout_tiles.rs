//! Sparse tensors whose entries are arrays: blocks of matrices, and arrays at coordinates.

use holdall_core::layout::Decoded;
use holdall_core::layout::sparse::Tiles;
use holdall_core::layout::sparse::tiles::{Compressed, blocks, hybrid};
use holdall_core::{Attributes, DType, Error, Limits};
use proptest::prelude::*;

fn u64s(values: &[u64]) -> Decoded {
    Decoded::new(DType::U64, values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
}

/// Returns this many values, none of them 0.
fn i32s(count: u64) -> Decoded {
    let values = (1..=count as i32).flat_map(i32::to_le_bytes);
    Decoded::new(DType::I32, values.collect::<Vec<_>>())
}

/// Checks that the elements are these, all at once and in every range.
fn is(tiles: &Tiles, wanted: &[i32]) {
    let dense = tiles.to_dense(&Limits::default()).unwrap();
    assert_eq!(dense.shape(), tiles.shape());
    assert_eq!(dense.to_vec::<i32>().unwrap(), wanted);
    let wanted: Vec<u8> = wanted.iter().flat_map(|x| x.to_le_bytes()).collect();
    let count = wanted.len() as u64 / 4;
    for start in 0..=count {
        for end in [start, start + 1, (start + 7).min(count), count] {
            let mut out = vec![9];
            tiles.elements(start..end.min(count).max(start), &mut out).unwrap();
            let end = end.min(count).max(start) as usize;
            assert_eq!(out[1..], wanted[start as usize * 4..end * 4], "{start}..{end}");
        }
    }
}

#[derive(Debug)]
struct Case {
    of: Compressed,
    batch: Vec<u64>,
    /// The blocks of a matrix.
    grid: [u64; 2],
    block: [u64; 2],
    inner: Vec<u64>,
    /// The places of blocks, equally many for each matrix.
    entries: Vec<Vec<(u64, u64)>>,
}

fn any_case() -> impl Strategy<Value = Case> {
    let sizes = || prop::collection::vec(1..3u64, 0..2);
    let pair = || [1..4u64, 1..4u64];
    (any::<bool>(), sizes(), pair(), pair(), sizes(), 0..5usize).prop_flat_map(
        |(is_rows, batch, grid, block, inner, count)| {
            let of = if is_rows { Compressed::Rows } else { Compressed::Columns };
            let matrices = batch.iter().product::<u64>() as usize;
            let place = (0..grid[0], 0..grid[1]);
            let entries =
                prop::collection::vec(prop::collection::vec(place, count..=count), matrices);
            entries.prop_map(move |entries| Case {
                of,
                batch: batch.clone(),
                grid,
                block,
                inner: inner.clone(),
                entries,
            })
        },
    )
}

proptest! {
    #[test]
    fn blocks_are_where_they_belong(case in any_case()) {
        let Case { of, batch, grid, block, inner, mut entries } = case;
        let [rows, columns] = [grid[0] * block[0], grid[1] * block[1]];
        let shape = [&batch[..], &[rows, columns], &inner].concat();
        let own: u64 = inner.iter().product();
        let mut wanted = vec![0i32; shape.iter().product::<u64>() as usize];
        let (mut indptr, mut indices, mut next) = (Vec::new(), Vec::new(), 0);
        let outer = if of == Compressed::Rows { grid[0] } else { grid[1] };
        for (matrix, entries) in entries.iter_mut().enumerate() {
            let by = |(row, column): (u64, u64)| match of {
                Compressed::Rows => (row, column),
                Compressed::Columns => (column, row),
            };
            entries.sort_by_key(|place| by(*place).0);
            let before = |line: u64| entries.iter().filter(|place| by(**place).0 < line).count();
            indptr.extend((0..=outer).map(|line| before(line) as u64));
            indices.extend(entries.iter().map(|place| by(*place).1));
            for (row, column) in entries {
                for down in 0..block[0] {
                    for across in 0..block[1] * own {
                        next += 1;
                        let row = matrix as u64 * rows + *row * block[0] + down;
                        let at = (row * columns + *column * block[1]) * own + across;
                        wanted[at as usize] += next;
                    }
                }
            }
        }
        let values = i32s(next as u64);
        let attributes = blocks(of, block, batch.len() as u64);
        let limits = Limits::default();
        let made =
            Tiles::in_blocks(&shape, &attributes, u64s(&indptr), u64s(&indices), values, &limits);
        is(&made.unwrap(), &wanted);
    }

    #[test]
    fn arrays_are_where_their_coordinates_are(
        sizes in prop::collection::vec(1..4u64, 1..4), inner in prop::collection::vec(1..4u64, 0..3),
        entries in prop::collection::vec(any::<[u8; 3]>(), 0..6),
    ) {
        let shape = [&sizes[..], &inner].concat();
        let own: u64 = inner.iter().product();
        let of = |d: usize, entry: &[u8; 3]| u64::from(entry[d]) % sizes[d];
        let coords: Vec<u64> =
            (0..sizes.len()).flat_map(|d| entries.iter().map(move |e| of(d, e))).collect();
        let mut wanted = vec![0i32; shape.iter().product::<u64>() as usize];
        for (number, entry) in entries.iter().enumerate() {
            let place = (0..sizes.len()).fold(0, |at, d| at * sizes[d] + of(d, entry));
            for at in 0..own {
                wanted[(place * own + at) as usize] += (number as u64 * own + at + 1) as i32;
            }
        }
        let (values, limits) = (i32s(entries.len() as u64 * own), Limits::default());
        let attributes = hybrid(sizes.len() as u64);
        let made = Tiles::at_coords(&shape, &attributes, u64s(&coords), values, &limits);
        is(&made.unwrap(), &wanted);
    }
}

fn in_blocks(
    shape: &[u64],
    block: [u64; 2],
    parts: [&[u64]; 2],
    values: u64,
) -> Result<Tiles, Error> {
    let attributes = blocks(Compressed::Rows, block, 0);
    let [indptr, indices] = parts.map(u64s);
    Tiles::in_blocks(shape, &attributes, indptr, indices, i32s(values), &Limits::default())
}

#[test]
fn entries_without_elements_are_nothing_whatever_their_size() {
    // Blocks of 2^40 rows, each without elements.
    let vast = in_blocks(&[1 << 40, 1, 0], [1 << 40, 1], [&[0, 1], &[0]], 0).unwrap();
    assert_eq!(vast.count(), 1);
    is(&vast, &[]);
    let none = Tiles::at_coords(&[2, 0], &hybrid(1), u64s(&[1]), i32s(0), &Limits::default());
    is(&none.unwrap(), &[]);
    is(&in_blocks(&[0, 4], [2, 2], [&[0], &[]], 0).unwrap(), &[]);
}

#[test]
fn mismatched_components_are_named() {
    let code = |r: Result<Tiles, Error>| r.unwrap_err().code();
    let sound: [&[u64]; 2] = [&[0, 1], &[0]];
    assert!(in_blocks(&[2, 4], [2, 2], sound, 4).is_ok());
    assert_eq!(code(in_blocks(&[2, 4], [2, 3], sound, 6)), "sparse/attribute");
    assert_eq!(code(in_blocks(&[2], [2, 2], sound, 4)), "sparse/attribute");
    assert_eq!(code(in_blocks(&[2, 4], [2, 2], sound, 3)), "sparse/counts");
    assert_eq!(code(in_blocks(&[2, 4], [2, 2], [&[0], &[0]], 4)), "sparse/counts");
    assert_eq!(code(in_blocks(&[2, 4], [2, 2], [&[0, 1], &[2]], 4)), "sparse/index-bounds");
    assert_eq!(code(in_blocks(&[2, 4], [2, 2], [&[1, 1], &[0]], 4)), "sparse/indptr-start");
    assert_eq!(code(in_blocks(&[2, 4], [2, 2], [&[0, 2], &[0]], 4)), "sparse/indptr-end");
    let vast = [1 << 40, 1 << 40];
    assert_eq!(code(in_blocks(&vast, [1 << 40, 1], [&[0, 0], &[]], 0)), "sparse/counts");
    let limits = Limits::default();
    let at = |attributes: &Attributes, coords: &[u64]| {
        Tiles::at_coords(&[2, 3], attributes, u64s(coords), i32s(3), &limits)
    };
    assert!(at(&hybrid(1), &[1]).is_ok());
    assert_eq!(code(at(&hybrid(0), &[1])), "sparse/attribute");
    assert_eq!(code(at(&hybrid(3), &[1])), "sparse/attribute");
    assert_eq!(code(at(&hybrid(1), &[1, 0])), "sparse/counts");
    assert_eq!(code(at(&hybrid(2), &[1])), "sparse/counts");
    let e = at(&hybrid(1), &[2]).unwrap_err();
    assert_eq!((e.code(), e.component()), ("sparse/index-bounds", Some("coords")));
}
