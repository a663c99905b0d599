//! Checks that the tensors of self-tests have the declared types and shapes. Violations are only warnings,
//! because published packages have them and still run.

use crate::description::{Description, DimSpec, ShapeSpec, ValueSpec};
use crate::fields::Warnings;
use crate::tensors::{TensorKind, TensorRow};
use crate::value::ValueType;
use crate::warnings::SELF_TEST;
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::Escape as _;

/// The type and dimensions of a tensor, known without its bytes.
#[derive(Clone)]
struct Known {
    /// `None` for a nested tensor without inner tensors.
    ty: Option<ValueType>,
    /// `None` if the rank is not known.
    dims: Option<Dims>,
}

/// The sizes of a tensor along each dimension: one size, or each distinct size of the inner tensors; and for
/// a ragged tensor the shapes of the inner tensors.
#[derive(Clone, PartialEq)]
struct Dims {
    sizes: Vec<Vec<u64>>,
    /// Distinct shapes of the inner tensors.
    shapes: Vec<Vec<u64>>,
}

impl Dims {
    fn from_shape(shape: &[u64]) -> Dims {
        Dims { sizes: shape.iter().map(|&n| vec![n]).collect(), shapes: Vec::new() }
    }

    fn from_nested(shapes: &[&Vec<u64>]) -> Option<Dims> {
        let first = shapes.first()?;
        let mut sizes: Vec<Vec<u64>> = vec![vec![shapes.len() as u64]];
        for at in 0..first.len() {
            let mut own = Vec::new();
            for size in shapes.iter().filter_map(|shape| shape.get(at).copied()) {
                // A few are enough: what matters is that there are several.
                if own.len() < 8 && !own.contains(&size) {
                    own.push(size);
                }
            }
            sizes.push(own);
        }
        let is_ragged = shapes.iter().any(|shape| shape != first);
        let shapes = if is_ragged { shapes.iter().copied().cloned().collect() } else { Vec::new() };
        Some(Dims { sizes, shapes })
    }
}

/// Adds a warning for every way in which a self-test does not fit the declared inputs and outputs.
pub(super) fn check(d: &Description, rows: &[TensorRow], warnings: &mut Warnings) {
    if d.self_tests.is_empty() {
        return;
    }
    let by_name: HashMap<&str, &TensorRow> = rows.iter().map(|r| (r.name.as_str(), r)).collect();
    // Built once for all tests, since a file can have many.
    let all: HashMap<&str, Known> =
        rows.iter().map(|row| (row.name.as_str(), known(row, &by_name))).collect();
    let [inputs, outputs] = [&d.inputs, &d.outputs]
        .map(|specs| specs.iter().map(|s| (s.name.as_str(), s)).collect::<HashMap<_, _>>());
    for (at, test) in d.self_tests.iter().enumerate() {
        let number = at.saturating_add(1);
        let mut bound = Bound::default();
        let mut note = |count: u64, what: String| {
            warnings.add_many(SELF_TEST, count, || match &test.name {
                Some(name) => format!("self-test `{}`: {what}", name.escaped()),
                None => format!("self-test {number}: {what}"),
            });
        };
        let sides = [("input", &inputs, &test.inputs[..]), ("output", &outputs, expected(test))];
        for (side, declared, given) in sides {
            for (name, tensor) in given {
                let shown = name.escaped();
                let Some(spec) = declared.get(name.as_str()) else {
                    note(1, format!("{side} `{shown}` is not declared"));
                    continue;
                };
                // A missing tensor is an error of its own.
                let Some(known) = all.get(tensor.as_str()) else { continue };
                if let Some(what) = bound.misfit(spec, known) {
                    note(1, format!("{side} `{shown}` {what}"));
                }
            }
        }
        let given: HashSet<&str> = test.inputs.iter().map(|(name, _)| name.as_str()).collect();
        let there = given.iter().filter(|name| inputs.contains_key(*name)).count();
        let missing = d.inputs.len().saturating_sub(there) as u64;
        // The first missing input is found early: at most as many given inputs come before it.
        if let Some(first) = d.inputs.iter().find(|spec| !given.contains(spec.name.as_str())) {
            note(missing, format!("input `{}` is missing", first.name.escaped()));
        }
    }
}

fn expected(test: &crate::description::SelfTest) -> &[(String, String)] {
    test.expected.as_deref().unwrap_or_default()
}

fn known(row: &TensorRow, by_name: &HashMap<&str, &TensorRow>) -> Known {
    let inner = match &row.kind {
        TensorKind::Plain { ty, shape, .. } => {
            return Known { ty: Some(*ty), dims: Some(Dims::from_shape(shape)) };
        }
        TensorKind::Nested { inner } => inner,
    };
    let plain = inner.iter().filter_map(|name| match &by_name.get(name.as_str())?.kind {
        TensorKind::Plain { ty, shape, .. } => Some((*ty, shape)),
        TensorKind::Nested { .. } => None,
    });
    let (types, shapes): (Vec<ValueType>, Vec<&Vec<u64>>) = plain.unzip();
    Known { ty: types.first().copied(), dims: Dims::from_nested(&shapes) }
}

/// The values of symbols in one self-test.
#[derive(Default)]
struct Bound<'a> {
    dims: HashMap<&'a str, u64>,
    shapes: HashMap<&'a str, Dims>,
}

impl<'a> Bound<'a> {
    /// Returns how `known` does not fit `spec`.
    fn misfit(&mut self, spec: &'a ValueSpec, known: &Known) -> Option<String> {
        if let Some(ty) = known.ty.filter(|&ty| ty != spec.ty) {
            return Some(format!("is {}, declared {}", ty.as_str(), spec.ty.as_str()));
        }
        let dims = known.dims.as_ref()?;
        match &spec.shape {
            ShapeSpec::Any => None,
            ShapeSpec::Symbol(symbol) => {
                let before = self.shapes.entry(symbol).or_insert_with(|| dims.clone());
                let shown = symbol.escaped();
                (before != dims)
                    .then(|| format!("has shape {}, `{shown}` is {}", show(dims), show(before)))
            }
            ShapeSpec::Dims(wanted) if wanted.len() != dims.sizes.len() => {
                Some(format!("has {} dimensions, declared {}", dims.sizes.len(), wanted.len()))
            }
            // A size or a symbol holds for each of the inner tensors.
            ShapeSpec::Dims(wanted) => {
                wanted.iter().zip(&dims.sizes).enumerate().find_map(|(at, (wanted, found))| {
                    found.iter().find_map(|&found| match wanted {
                        DimSpec::Any => None,
                        DimSpec::Size(n) => (*n != found)
                            .then(|| format!("has {found} in dimension {at}, declared {n}")),
                        DimSpec::Symbol(symbol) => {
                            let before = *self.dims.entry(symbol).or_insert(found);
                            let shown = symbol.escaped();
                            (before != found).then(|| {
                                format!("has {found} in dimension {at}, `{shown}` is {before}")
                            })
                        }
                    })
                })
            }
        }
    }
}

fn show(dims: &Dims) -> String {
    let size = |sizes: &Vec<u64>| match &sizes[..] {
        [one] => one.to_string(),
        _ => "*".to_owned(),
    };
    let sizes: Vec<String> = dims.sizes.iter().map(size).collect();
    let shown = format!("[{}]", sizes.join(", "));
    match &dims.shapes[..] {
        [] => shown,
        [first, second] => {
            format!("{shown} of {first:?} and {second:?}")
        }
        [first, second, ..] => format!("{shown} of {first:?}, {second:?}, …"),
        [one] => format!("{shown} of {one:?}"),
    }
}
