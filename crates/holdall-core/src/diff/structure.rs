//! Differences that do not require reading values: names, types, shapes, layouts, attributes.

use super::{AttributeDiff, Diff, TensorDiff};
use crate::layout::number::ElementType;
use crate::model::{Attributes, Index, Layout, TensorInfo, Value};
use holdall_collections::HashMap;
use holdall_schema::{SCHEMA_ATTRIBUTE, TENSOR_SCHEMA_ATTRIBUTE};

/// Two tensors of the same name, and the differences found so far.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorPair {
    /// The tensor in `a`.
    pub a: TensorInfo,
    /// The tensor in `b`.
    pub b: TensorInfo,
    /// The differences, except those of the values.
    pub diff: TensorDiff,
}

/// Compares everything except values, for the tensors whose names `takes` accepts.
pub fn compare(a: &Index, b: &Index, takes: impl Fn(&str) -> bool) -> (Diff, Vec<TensorPair>) {
    let only_in = |index: &Index, other: &Index| {
        let missing = |t: &TensorInfo| takes(t.name()) && other.position(t.name()).is_none();
        index.tensors().filter(missing).collect()
    };
    let mut out = Diff {
        removed: only_in(a, b),
        added: only_in(b, a),
        attributes: compare_attributes(a.attributes(), b.attributes()),
        ..Diff::default()
    };
    let mut pairs = Vec::new();
    for a in a.tensors().filter(|t| takes(t.name())) {
        let Some(b) = b.position(a.name()).and_then(|at| b.at(at)) else { continue };
        let diff = tensors(&a, &b);
        pairs.push(TensorPair { a, b, diff });
    }
    out.compared = pairs.len() as u64;
    (out, pairs)
}

fn tensors(a: &TensorInfo, b: &TensorInfo) -> TensorDiff {
    let type_of = |t: &TensorInfo| t.dtype().map(|dtype| ElementType::new(dtype, t.logical_type()));
    // An unknown layout has no main component, and the first one may be a different one in each file. Types are
    // compared role by role instead.
    let by_role = matches!(a.layout(), Layout::Other(_)) && a.layout() == b.layout();
    let (of_a, of_b) = if by_role { (None, None) } else { (type_of(a), type_of(b)) };
    let shapes = || (a.shape().to_vec(), b.shape().to_vec());
    let layouts = || (a.layout().clone(), b.layout().clone());
    TensorDiff {
        name: a.name().to_owned(),
        types: (of_a != of_b).then_some((of_a, of_b)),
        shapes: (a.shape() != b.shape()).then(shapes),
        layouts: (family(a.layout()) != family(b.layout())).then(layouts),
        attributes: compare_attributes(a.attributes(), b.attributes()),
        components: Vec::new(),
        values: None,
        incomparable: None,
    }
}

/// Returns the same layout for equivalent layouts.
pub fn family(layout: &Layout) -> &Layout {
    match layout {
        Layout::PackedCsr => &Layout::SparseCsr,
        Layout::PackedCoo => &Layout::SparseCoo,
        Layout::Planes(_) => &Layout::Dense,
        other => other,
    }
}

/// Returns the attributes that differ: those of `a` in its order, then those that only `b` has.
pub fn compare_attributes(a: &Attributes, b: &Attributes) -> Vec<AttributeDiff> {
    if a.is_empty() && b.is_empty() {
        return Vec::new();
    }
    let mut left: HashMap<&str, &Value> = b.iter().collect();
    let mut out = Vec::new();
    for (key, value) in a.iter() {
        let other = left.remove(key);
        if !other.is_some_and(|other| same_attribute(key, value, other)) {
            out.push(AttributeDiff {
                key: key.to_owned(),
                a: Some(value.clone()),
                b: other.cloned(),
            });
        }
    }
    let added = b.iter().filter(|(key, _)| left.contains_key(key));
    out.extend(added.map(|(key, value)| AttributeDiff {
        key: key.to_owned(),
        a: None,
        b: Some(value.clone()),
    }));
    out
}

/// Returns `true` if an attribute has the same value in both files. Schemas are equal if their parsed JSON is.
pub(crate) fn same_attribute(key: &str, a: &Value, b: &Value) -> bool {
    if same_value(a, b) {
        return true;
    }
    let (Value::Text(a), Value::Text(b)) = (a, b) else { return false };
    let parsed = |text: &str| holdall_json::parse(text.as_bytes(), MAX_SCHEMA_DEPTH).ok();
    [TENSOR_SCHEMA_ATTRIBUTE, SCHEMA_ATTRIBUTE].contains(&key)
        && parsed(a).is_some_and(|a| Some(a) == parsed(b))
}

/// The maximum nesting of a schema; deeper ones are equal only if their texts are.
const MAX_SCHEMA_DEPTH: usize = 256;

/// Returns `true` if two values are equal: floats by their bits, maps regardless of the order of their keys.
pub(crate) fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        (Value::Tag(n, a), Value::Tag(m, b)) => n == m && same_value(a, b),
        (Value::Map(a), Value::Map(b)) => {
            let (of_a, of_b) = (by_key(a), by_key(b));
            a.len() == b.len()
                && of_a.iter().all(|(k, v)| of_b.get(k).is_some_and(|other| same_value(v, other)))
        }
        _ => a == b,
    }
}

/// Keys may be any value; their JSON text identifies them.
fn by_key(all: &[(Value, Value)]) -> HashMap<String, &Value> {
    all.iter().map(|(k, v)| (k.to_json(), v)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_by_meaning() {
        let map = |pairs: &[(&str, f64)]| {
            let pair = |&(k, v): &(&str, f64)| (Value::Text(k.into()), Value::Float(v));
            Value::Map(pairs.iter().map(pair).collect())
        };
        assert!(same_value(
            &map(&[("a", f64::NAN), ("b", 1.0)]),
            &map(&[("b", 1.0), ("a", f64::NAN)])
        ));
        assert!(!same_value(&map(&[("a", 1.0)]), &map(&[("a", 2.0)])));
        assert!(!same_value(&map(&[("a", 1.0)]), &map(&[("a", 1.0), ("b", 1.0)])));
        assert!(!same_value(&Value::Integer(1), &Value::Float(1.0)));
        assert!(!same_value(&Value::Float(0.0), &Value::Float(-0.0)));
        let tag = |x| Value::Tag(1, Box::new(Value::Array(vec![Value::Float(x)])));
        assert!(same_value(&tag(1.0), &tag(1.0)) && !same_value(&tag(1.0), &tag(2.0)));
    }
}
