//! Sparse tensors of 0.1 with indices in the manifest, as its document describes them: the file has the values, and
//! fields of the tensor list the indices.

use holdall_core::model::{Attributes, Layout, Value};

/// The indices in the entry of a sparse tensor.
#[derive(Debug)]
pub(super) struct Indices {
    /// [`Layout::SparseCsr`] or [`Layout::SparseCoo`].
    pub(super) layout: Layout,
    /// The number of values to which the indices belong.
    pub(super) count: u64,
    /// The columns, or all coordinates, dimension by dimension; u64, little-endian.
    pub(super) indices: Vec<u8>,
    /// The row pointers, if the layout has them.
    pub(super) indptr: Vec<u8>,
    /// The fields that contain the indices.
    pub(super) fields: &'static [&'static str],
    /// Whether it is ambiguous if there is one list for each value or one for each dimension.
    pub(super) either_way: bool,
}

/// Returns the indices in the custom fields of a tensor with this `sparse_format`, if they exist and fit `values`
/// values. `values` is `None` if the number is unknown.
pub(super) fn find(
    format: &str,
    custom: &Attributes,
    shape: &[u64],
    values: Option<u64>,
) -> Option<Indices> {
    let found = match format {
        "csr" => by_rows(custom)?,
        "coo" => by_coordinates(custom, shape, values)?,
        _ => return None,
    };
    values.is_none_or(|values| values == found.count).then_some(found)
}

fn by_rows(custom: &Attributes) -> Option<Indices> {
    let (indptr, indices) =
        (integers(list(custom, "indptr")?)?, integers(list(custom, "indices")?)?);
    Some(Indices {
        layout: Layout::SparseCsr,
        count: count(&indices)?,
        indices: bytes(&indices),
        indptr: bytes(&indptr),
        fields: &["indptr", "indices"],
        either_way: false,
    })
}

fn by_coordinates(custom: &Attributes, shape: &[u64], values: Option<u64>) -> Option<Indices> {
    let (lists, fields): (Coordinates, &'static [&'static str]) =
        if let Some(coords) = list(custom, "coords") {
            (coordinates(coords, shape, values)?, &["coords"])
        } else if let Some(indices) = list(custom, "indices") {
            (coordinates(indices, shape, values)?, &["indices"])
        } else {
            let (row, col) = (list(custom, "row")?, list(custom, "col")?);
            let (mut rows, columns) = (integers(row)?, integers(col)?);
            if rows.len() != columns.len() || shape.len() != 2 {
                return None;
            }
            rows.extend(columns);
            (Coordinates { all: rows, either_way: false }, &["row", "col"])
        };
    // A tensor without dimensions has no coordinates, however many values it has.
    let nnz = || custom.get("nnz").and_then(Value::as_integer);
    let count = match u64::try_from(shape.len()).ok()? {
        0 => values.or_else(|| u64::try_from(nnz()?).ok())?,
        rank => count(&lists.all)?.checked_div(rank)?,
    };
    Some(Indices {
        layout: Layout::SparseCoo,
        count,
        indices: bytes(&lists.all),
        indptr: Vec::new(),
        fields,
        either_way: lists.either_way,
    })
}

/// Coordinates, ordered by dimension.
struct Coordinates {
    all: Vec<u64>,
    either_way: bool,
}

/// Reads coordinates in one list, dimension by dimension as in 1.x; in one list for each dimension; or in one list for
/// each value.
fn coordinates(items: &[Value], shape: &[u64], values: Option<u64>) -> Option<Coordinates> {
    let rank = shape.len();
    if let Some(all) = integers(items) {
        return all.len().is_multiple_of(rank).then_some(Coordinates { all, either_way: false });
    }
    let lists: Vec<Vec<u64>> = items
        .iter()
        .map(|item| match item {
            Value::Array(items) => integers(items),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let len = lists.first()?.len();
    if lists.iter().any(|list| list.len() != len) {
        return None;
    }
    let can_be = |count: usize| values.is_none_or(|values| u64::try_from(count) == Ok(values));
    let by_dimension = || lists.concat();
    let by_value =
        || (0..len).flat_map(|d| lists.iter().filter_map(move |l| l.get(d))).copied().collect();
    let all: Vec<u64> =
        match (lists.len() == rank && can_be(len), len == rank && can_be(lists.len())) {
            (false, false) => return None,
            (true, false) => by_dimension(),
            (false, true) => by_value(),
            (true, true) => {
                let (one, other): (Vec<u64>, Vec<u64>) = (by_dimension(), by_value());
                match (are_inside(&one, shape, len), are_inside(&other, shape, len)) {
                    (false, true) => other,
                    (true, true) if one != other => {
                        return Some(Coordinates { all: one, either_way: true });
                    }
                    _ => one,
                }
            }
        };
    Some(Coordinates { all, either_way: false })
}

/// Returns `true` if the coordinates of `count` values are inside the shape.
fn are_inside(all: &[u64], shape: &[u64], count: usize) -> bool {
    all.chunks(count.max(1)).zip(shape).all(|(indices, size)| indices.iter().all(|at| at < size))
}

fn list<'a>(custom: &'a Attributes, field: &str) -> Option<&'a [Value]> {
    match custom.get(field)? {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// Returns non-negative integers.
fn integers(items: &[Value]) -> Option<Vec<u64>> {
    items.iter().map(|item| u64::try_from(item.as_integer()?).ok()).collect()
}

fn count(indices: &[u64]) -> Option<u64> {
    u64::try_from(indices.len()).ok()
}

fn bytes(indices: &[u64]) -> Vec<u8> {
    indices.iter().flat_map(|index| index.to_le_bytes()).collect()
}
