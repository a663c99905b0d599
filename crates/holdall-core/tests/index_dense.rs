//! A dense tensor that is added with `dense` equals one that is added in separate steps, for all kinds of odd tensors.

use holdall_core::{
    ByteOrder, Component, DType, Encoding, Extent, Index, IndexBuilder, Layout, Limits,
    LogicalType, Role,
};
use std::ops::Range;

/// One tensor: name, shape, element type, and the location of its bytes.
type Given<'g> = (&'g str, &'g [u64], DType, Option<LogicalType>, Range<u64>);

/// Tensors in sources with these numbers, of which two exist.
fn added(all: &[(Given<'_>, u32)], is_at_once: bool, limits: &Limits) -> Result<Index, String> {
    let mut builder = IndexBuilder::new("test", "", 1000, 8..900, limits);
    builder.source(60, 4..60).unwrap();
    let mut add = |((name, shape, dtype, logical, stored), source): &(Given<'_>, u32)| {
        let (dtype, order) = (*dtype, ByteOrder::Little);
        let stored = Extent::new(*source, stored.clone());
        if is_at_once {
            return builder.dense(name, shape, dtype, logical.as_ref(), order, stored);
        }
        builder.tensor(name, shape, Layout::Dense)?;
        builder.component(Component {
            role: Role::Data,
            dtype,
            logical_type: logical.clone(),
            encoding: Encoding::Raw,
            byte_order: order,
            stored,
            decoded_len: None,
            digest: None,
        })
    };
    let all = all.iter().try_for_each(&mut add);
    all.and_then(|()| builder.finish()).map_err(|e| format!("{e:?}"))
}

/// Returns everything that an index contains.
fn describe(index: Result<Index, String>) -> String {
    match index {
        Ok(index) => {
            let tensors: Vec<_> = index.tensors().collect();
            let faults: Vec<_> = index.faults().collect();
            let places: Vec<_> = tensors.iter().map(|t| index.position(t.name())).collect();
            let warnings = index.warnings();
            format!("{tensors:?} {faults:?} {:?} {warnings:?} {places:?}", index.claimed())
        }
        Err(e) => e,
    }
}

#[test]
#[allow(clippy::reversed_empty_ranges)] // As files have them.
fn a_dense_tensor_is_added_at_once_as_step_by_step() {
    let f8 = Some(LogicalType::F8E5M2);
    let odd: [Given<'_>; 14] = [
        ("plain", &[2, 3], DType::F32, None, 16..40),
        ("scalar", &[], DType::U8, None, 16..17),
        ("empty, at the end", &[0, u64::MAX, 2], DType::F64, None, 1000..1000),
        ("too short", &[2, 3], DType::F32, None, 16..36),
        ("before the data", &[2], DType::F32, None, 0..8),
        ("after the data", &[2], DType::F32, None, 896..904),
        ("after the file", &[1], DType::F32, None, 1000..1004),
        ("backwards", &[1], DType::F32, None, 20..16),
        ("product", &[u64::MAX, 2], DType::U8, None, 16..24),
        ("bytes", &[u64::MAX], DType::F64, None, 16..24),
        ("with a meaning", &[4], DType::U8, f8.clone(), 16..20),
        ("with another's meaning", &[4], DType::F32, f8, 16..32),
        ("ranks", &[1, 1, 1, 1], DType::U8, None, 16..17),
        ("plain", &[1], DType::U8, None, 50..51),
    ];
    let mut limits = Limits::default();
    for (rank, tensors) in [(64, 100), (3, 100), (64, 1)] {
        (limits.rank, limits.tensors) = (rank, tensors);
        for a in &odd {
            for b in &odd {
                for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2)] {
                    let both = [(a.clone(), first), (b.clone(), second)];
                    let step_by_step = describe(added(&both, false, &limits));
                    assert_eq!(describe(added(&both, true, &limits)), step_by_step, "{both:?}");
                }
            }
        }
    }
}
