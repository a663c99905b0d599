//! Whether the tensors of self-tests are of the declared types and shapes. That they are not is worth a
//! warning: published packages are so, and run.

use crate::description::{Description, DimSpec, ShapeSpec, ValueSpec};
use crate::fields::Warnings;
use crate::tensors::{TensorKind, TensorRow};
use crate::value::ValueType;
use crate::warnings::SELF_TEST;
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::Shown as _;

/// What is known of a tensor without its bytes.
#[derive(Clone)]
struct Known {
    /// `None` for a nested tensor without inner ones.
    ty: Option<ValueType>,
    /// `None` where the rank is not known; a dimension is `None` where inner tensors differ.
    dims: Option<Vec<Option<u64>>>,
}

/// Notes every way in which a self-test does not fit the inputs and outputs.
pub(super) fn check(d: &Description, rows: &[TensorRow], warnings: &mut Warnings) {
    if d.self_tests.is_empty() {
        return;
    }
    let by_name: HashMap<&str, &TensorRow> = rows.iter().map(|r| (r.name.as_str(), r)).collect();
    // Once for all tests: a file can have many of them.
    let all: HashMap<&str, Known> =
        rows.iter().map(|row| (row.name.as_str(), known(row, &by_name))).collect();
    let [inputs, outputs] = [&d.inputs, &d.outputs]
        .map(|specs| specs.iter().map(|s| (s.name.as_str(), s)).collect::<HashMap<_, _>>());
    for (at, test) in d.self_tests.iter().enumerate() {
        let number = at.saturating_add(1);
        let mut bound = Bound::default();
        let mut note = |count: u64, what: String| {
            warnings.add_many(SELF_TEST, count, || match &test.name {
                Some(name) => format!("self-test `{}`: {what}", name.shown()),
                None => format!("self-test {number}: {what}"),
            });
        };
        let sides = [("input", &inputs, &test.inputs[..]), ("output", &outputs, expected(test))];
        for (side, declared, given) in sides {
            for (name, tensor) in given {
                let shown = name.shown();
                let Some(spec) = declared.get(name.as_str()) else {
                    note(1, format!("{side} `{shown}` is not declared"));
                    continue;
                };
                // That there is none is an error of its own.
                let Some(known) = all.get(tensor.as_str()) else { continue };
                if let Some(what) = bound.misfit(spec, known) {
                    note(1, format!("{side} `{shown}` {what}"));
                }
            }
        }
        let given: HashSet<&str> = test.inputs.iter().map(|(name, _)| name.as_str()).collect();
        let there = given.iter().filter(|name| inputs.contains_key(*name)).count();
        let missing = d.inputs.len().saturating_sub(there) as u64;
        // The first of them comes early: there are no more before it than are given.
        if let Some(first) = d.inputs.iter().find(|spec| !given.contains(spec.name.as_str())) {
            note(missing, format!("input `{}` is missing", first.name.shown()));
        }
    }
}

fn expected(test: &crate::description::SelfTest) -> &[(String, String)] {
    test.expected.as_deref().unwrap_or_default()
}

fn known(row: &TensorRow, by_name: &HashMap<&str, &TensorRow>) -> Known {
    let inner = match &row.kind {
        TensorKind::Plain { ty, shape, .. } => {
            return Known { ty: Some(*ty), dims: Some(shape.iter().map(|&n| Some(n)).collect()) };
        }
        TensorKind::Nested { inner } => inner,
    };
    let plain = inner.iter().filter_map(|name| match &by_name.get(name.as_str())?.kind {
        TensorKind::Plain { ty, shape, .. } => Some((*ty, shape)),
        TensorKind::Nested { .. } => None,
    });
    let mut out = Known { ty: None, dims: None };
    for (ty, shape) in plain {
        out.ty = Some(ty);
        let dims = out.dims.get_or_insert_with(|| {
            let count = Some(inner.len() as u64);
            std::iter::once(count).chain(shape.iter().map(|&n| Some(n))).collect()
        });
        for (dim, &n) in dims.iter_mut().skip(1).zip(shape) {
            *dim = dim.filter(|&dim| dim == n);
        }
    }
    out
}

/// What symbols stand for in one self-test.
#[derive(Default)]
struct Bound<'a> {
    dims: HashMap<&'a str, u64>,
    shapes: HashMap<&'a str, Vec<Option<u64>>>,
}

impl<'a> Bound<'a> {
    /// In what `known` is not what `spec` wants.
    fn misfit(&mut self, spec: &'a ValueSpec, known: &Known) -> Option<String> {
        if let Some(ty) = known.ty.filter(|&ty| ty != spec.ty) {
            return Some(format!("is {}, declared {}", ty.as_str(), spec.ty.as_str()));
        }
        let dims = known.dims.as_ref()?;
        match &spec.shape {
            ShapeSpec::Any => None,
            ShapeSpec::Symbol(symbol) => {
                let before = self.shapes.entry(symbol).or_insert_with(|| dims.clone());
                let shown = symbol.shown();
                (before != dims)
                    .then(|| format!("has shape {}, `{shown}` is {}", show(dims), show(before)))
            }
            ShapeSpec::Dims(wanted) if wanted.len() != dims.len() => {
                Some(format!("has {} dimensions, declared {}", dims.len(), wanted.len()))
            }
            ShapeSpec::Dims(wanted) => {
                wanted.iter().zip(dims).enumerate().find_map(|(at, (wanted, found))| {
                    let found = (*found)?;
                    match wanted {
                        DimSpec::Any => None,
                        DimSpec::Size(n) => (*n != found)
                            .then(|| format!("has {found} in dimension {at}, declared {n}")),
                        DimSpec::Symbol(symbol) => {
                            let before = *self.dims.entry(symbol).or_insert(found);
                            let shown = symbol.shown();
                            (before != found).then(|| {
                                format!("has {found} in dimension {at}, `{shown}` is {before}")
                            })
                        }
                    }
                })
            }
        }
    }
}

fn show(dims: &[Option<u64>]) -> String {
    let dims: Vec<String> =
        dims.iter().map(|dim| dim.map_or("*".to_owned(), |n| n.to_string())).collect();
    format!("[{}]", dims.join(", "))
}
