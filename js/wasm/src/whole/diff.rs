//! Differences between two files: the one that was set aside, and the open one.

use crate::Answer;
use crate::json::{self, CALL, Object};
use crate::view::dense_type;
use holdall_core::diff::{
    AttributeDiff, Comparator, ComponentDiff, Diff, EqualBlocks, LayerDiff, Layers, Scratch, Side,
    Squares, Tally, TensorPair, Tolerance, ValueDiff, compare, family, is_comparable, unravel,
};
use holdall_core::layout::ELEMENT_SIZE;
use holdall_core::layout::number::ElementType;
use holdall_core::{Component, Error, Index, Layout, TensorInfo};

/// The modes for a pair: compare values, components, or components and then values if those
/// differ.
const VALUES: u64 = 1;
const COMPONENTS: u64 = 2;
/// The index of a pair's values, in place of a component.
const NONE: u64 = u32::MAX as u64;

pub(crate) struct Differ {
    out: Diff,
    pairs: Vec<TensorPair>,
    /// Sums over the values of each pair, if they were compared.
    sums: Vec<Option<Squares>>,
    tolerance: Option<Tolerance>,
    now: Option<Now>,
}

/// The elements that are being compared.
struct Now {
    pair: usize,
    /// The index of their component; `None` for the values.
    component: Option<usize>,
    types: (ElementType, ElementType),
    tally: Tally,
    scratch: Scratch,
}

impl Differ {
    /// Compares everything but the values; a tolerance that is not given is NaN.
    pub(crate) fn begin(a: &Index, b: &Index, rtol: f64, atol: f64) -> Differ {
        let (out, pairs) = compare(a, b, |_| true);
        let tolerance = (!rtol.is_nan()).then_some(Tolerance { rtol, atol });
        let sums = vec![None; pairs.len()];
        Differ { out, pairs, sums, tolerance, now: None }
    }

    pub(crate) fn len(&self) -> Answer {
        Answer::numbers([self.pairs.len() as u64])
    }

    fn pair_mut(&mut self, at: u32) -> Result<&mut TensorPair, Error> {
        let found = self.pairs.get_mut(at as usize);
        found.ok_or_else(|| CALL.broken(format!("there is no pair number {at}")))
    }

    /// Returns the indices of the two tensors, and the mode of comparing them.
    pub(crate) fn pair(&mut self, at: u32) -> Result<Answer, Error> {
        let pair = self.pair_mut(at)?;
        let fault = pair.a.sound().and(pair.b.sound()).err();
        let mut how = match (family(pair.a.layout()), family(pair.b.layout())) {
            (x, y) if x.is_computed() && x == y => VALUES | COMPONENTS,
            (Layout::Records, Layout::Records) | (Layout::Blob, Layout::Blob) => COMPONENTS,
            (Layout::Other(x), Layout::Other(y)) if x == y => COMPONENTS,
            _ => VALUES,
        };
        if let Some(e) = fault {
            pair.diff.incomparable = Some(e);
            how = 0;
        } else if pair.diff.shapes.is_some() {
            how = 0;
        } else if how == VALUES
            && let (Some(x), Some(y)) = (dense_type(&pair.a), dense_type(&pair.b))
            && !is_comparable(&x, &y)
        {
            let message = format!("cannot compare {x} and {y} element by element");
            pair.diff.incomparable = Some(ELEMENT_SIZE.broken(message).in_tensor(pair.a.name()));
            how = 0;
        }
        Ok(Answer::numbers([pair.a.position() as u64, pair.b.position() as u64, how]))
    }

    /// Records that the components only differ in the locations of bytes.
    pub(crate) fn same_content(&mut self, at: u32) -> Result<Answer, Error> {
        self.pair_mut(at)?.diff.components.clear();
        Ok(Answer::NOTHING)
    }

    /// Records that the values cannot be compared; the host has the error.
    pub(crate) fn incomparable(&mut self, at: u32) -> Result<Answer, Error> {
        self.now = None;
        self.pair_mut(at)?.diff.incomparable = Some(CALL.broken("the host says why"));
        Ok(Answer::NOTHING)
    }

    /// Returns its components by role: their indices on both sides, and whether their elements
    /// must be compared.
    pub(crate) fn components(&mut self, at: u32) -> Result<Answer, Error> {
        let pair = self.pair_mut(at)?;
        let (mut found, mut out) = (Vec::new(), Vec::new());
        let all = |info: &TensorInfo| info.components().enumerate().collect::<Vec<_>>();
        let (of_a, of_b) = (all(&pair.a), all(&pair.b));
        for (n, c) in &of_a {
            let other = of_b.iter().find(|(_, other)| other.role == c.role);
            let diff = component_diff(Some(c), other.map(|(_, other)| other));
            let types = (&diff.types.0, &diff.types.1);
            let comparable = matches!(types, (Some(x), Some(y)) if is_comparable(x, y));
            let count = |len: Option<u64>, element_type: &Option<ElementType>| {
                Some(len? * 8 / element_type.as_ref()?.bits().max(1))
            };
            let counts = (count(diff.lens.0, types.0), count(diff.lens.1, types.1));
            let is_as_long = counts.0 == counts.1 || counts.0.is_none() || counts.1.is_none();
            let other = other.map_or(NONE, |(m, _)| *m as u64);
            out.extend([*n as u64, other, u64::from(comparable && is_as_long)]);
            found.push(diff);
        }
        for (m, c) in &of_b {
            if !of_a.iter().any(|(_, other)| other.role == c.role) {
                out.extend([NONE, *m as u64, 0]);
                found.push(component_diff(None, Some(c)));
            }
        }
        pair.diff.components = found;
        Ok(Answer::numbers(out))
    }

    /// Ends the comparison of components. The answer is one byte if the values must be compared
    /// too.
    pub(crate) fn components_end(&mut self, at: u32) -> Result<Answer, Error> {
        let pair = self.pair_mut(at)?;
        pair.diff.components.retain(ComponentDiff::is_change);
        let differs = !pair.diff.components.is_empty() || !pair.diff.attributes.is_empty();
        // Records and runs may be stored elsewhere, so the host compares their contents.
        let is_data = matches!(pair.a.layout(), Layout::Records | Layout::Blob);
        let goes_on = differs && (is_data || pair.a.layout().is_computed());
        Ok(Answer::Done(vec![1; usize::from(goes_on)]))
    }

    /// Begins to compare elements of a component (in the order of [`Differ::components`]), or the
    /// values. The answer is the number of bits per element on each side.
    pub(crate) fn values(&mut self, at: u32, component: u32) -> Result<Answer, Error> {
        let component = (u64::from(component) != NONE).then_some(component as usize);
        let pair = self.pair_mut(at)?;
        let types = match component {
            None => (dense_type(&pair.a), dense_type(&pair.b)),
            Some(n) => pair.diff.components.get(n).map_or((None, None), |c| c.types.clone()),
        };
        let (Some(a), Some(b)) = types else {
            return Err(CALL.broken("the pair has no elements to compare"));
        };
        let bits = [a.bits(), b.bits()];
        let (tally, scratch) = (Tally::default(), Scratch::default());
        self.now = Some(Now { pair: at as usize, component, types: (a, b), tally, scratch });
        Ok(Answer::numbers(bits))
    }

    /// Compares the next `count` elements of both sides; those of the first side have `len`
    /// bytes.
    pub(crate) fn push(&mut self, bytes: &[u8], len: usize, count: u64) -> Result<Answer, Error> {
        let (Some(now), Some((a, b))) = (&mut self.now, bytes.split_at_checked(len)) else {
            return Err(CALL.broken("no comparison of these elements was begun"));
        };
        let name = self.pairs.get(now.pair).map_or("", |pair| pair.a.name());
        let compare = Comparator {
            a: Side { source: "", tensor: name, element_type: &now.types.0 },
            b: Side { source: "", tensor: name, element_type: &now.types.1 },
            tolerance: self.tolerance,
            // The bytes are here already.
            equal: EqualBlocks::Sum,
        };
        let start = now.tally.count;
        compare.elements(start, count, a, b, &mut now.tally, &mut now.scratch)?;
        Ok(Answer::NOTHING)
    }

    /// Ends the comparison of elements.
    pub(crate) fn values_end(&mut self) -> Result<Answer, Error> {
        let Some(now) = self.now.take() else { return Err(CALL.broken("no comparison was begun")) };
        if let (None, Some(sums)) = (now.component, self.sums.get_mut(now.pair)) {
            *sums = now.tally.sums();
        }
        let pair = self.pair_mut(now.pair as u32)?;
        let shape = pair.a.shape();
        match now.component {
            Some(n) => {
                if let Some(c) = pair.diff.components.get_mut(n) {
                    c.values = now.tally.finish(|at| vec![at]);
                }
            }
            None if pair.diff.components.is_empty() && pair.diff.attributes.is_empty() => {
                pair.diff.values = now.tally.finish(|at| unravel(shape, at));
            }
            None if pair.a.layout().is_computed() && pair.a.layout() == pair.b.layout() => {
                pair.diff.values = Some(now.tally.report(|at| unravel(shape, at)));
            }
            None => pair.diff.values = now.tally.finish(|at| unravel(shape, at)),
        }
        Ok(Answer::NOTHING)
    }

    /// Returns the pairs whose values must be read for the sums of their layers, in which others changed: quantized ones
    /// with the same components.
    pub(crate) fn unsummed(&self) -> Answer {
        let mut layers = Layers::default();
        let numbers: Vec<usize> = self.pairs.iter().map(|p| layers.number(p.a.name())).collect();
        let is_changed =
            |pair: &TensorPair| pair.diff.values.as_ref().is_some_and(|v| v.unequal > 0);
        let mut changed = vec![false; numbers.iter().max().map_or(0, |last| last + 1)];
        for (pair, number) in self.pairs.iter().zip(&numbers) {
            if let (true, Some(layer)) = (is_changed(pair), changed.get_mut(*number)) {
                *layer = true;
            }
        }
        let wanted = self.pairs.iter().zip(&self.sums).zip(&numbers).enumerate();
        let wanted = wanted.filter(|(_, ((pair, sums), number))| {
            let is_same = pair.diff.components.is_empty()
                && pair.diff.shapes.is_none()
                && pair.diff.incomparable.is_none();
            changed.get(**number) == Some(&true)
                && sums.is_none()
                && is_same
                && pair.a.layout().is_computed()
        });
        Answer::numbers(wanted.map(|(at, _)| at as u64))
    }

    /// Returns the differences by layer.
    fn layers(&self) -> Vec<LayerDiff> {
        let mut layers = Layers::default();
        for (pair, sums) in self.pairs.iter().zip(&self.sums) {
            let is_data =
                matches!(pair.a.layout(), Layout::Records | Layout::Blob | Layout::Other(_));
            let count = if is_data { 0 } else { pair.a.count() };
            let diff = Some(&pair.diff).filter(|diff| diff.is_change());
            layers.add(pair.a.name(), count, diff, sums.as_ref());
        }
        layers.finish()
    }

    /// Returns the differences. `pair` of a changed tensor is the index of its pair.
    pub(crate) fn finish(mut self) -> Answer {
        self.out.layers = self.layers();
        let changed: Vec<(usize, TensorPair)> =
            self.pairs.into_iter().enumerate().filter(|(_, pair)| pair.diff.is_change()).collect();
        self.out.identical = self.out.compared - changed.len() as u64;
        self.out.changed = changed.iter().map(|(_, pair)| pair.diff.clone()).collect();
        let out = &self.out;
        let infos = |all: &[TensorInfo]| {
            let all = all.to_vec();
            move |out: &mut String| json::list(&all, out, |info, out| out.push_str(&facts(info)))
        };
        let text = Object::new()
            .flag("identical", out.is_identical())
            .flag("same", out.is_same())
            .flag("valuesAgree", out.values_agree())
            .flag("undecided", out.is_undecided())
            .number("compared", out.compared)
            .number("unchanged", out.identical)
            .with("removed", infos(&out.removed))
            .with("added", infos(&out.added))
            .with("changed", |text| {
                json::list(&changed, text, |(at, pair), text| text.push_str(&tensor(*at, pair)));
            })
            .with("attributes", |text| attributes(&out.attributes, text))
            .with("layers", |text| {
                json::list(&out.layers, text, |layer, text| text.push_str(&layer_facts(layer)));
            })
            .finish();
        Answer::text(text)
    }
}

fn component_diff(a: Option<&Component>, b: Option<&Component>) -> ComponentDiff {
    let element_type = |c: &Component| ElementType::new(c.dtype, c.logical_type.clone());
    let len = |c: Option<&Component>| c.and_then(|c| c.decoded_len);
    let role = a.or(b).map(|c| c.role.clone()).unwrap_or(holdall_core::Role::Data);
    ComponentDiff::new(role, (a.map(element_type), b.map(element_type)), (len(a), len(b)))
}

fn tensor(at: usize, pair: &TensorPair) -> String {
    let diff = &pair.diff;
    let type_of = |t: &Option<ElementType>, out: &mut String| match t {
        Some(t) => holdall_json::write_string(&t.to_string(), out),
        None => out.push_str("null"),
    };
    let shape = |s: &Vec<u64>, out: &mut String| json::list(s.iter().copied(), out, json::integer);
    let number = |n: &Option<u64>, out: &mut String| match n {
        Some(n) => json::integer(*n, out),
        None => out.push_str("null"),
    };
    Object::new()
        .text("name", &diff.name)
        .number("pair", at as u64)
        .flag("same", diff.is_same())
        .with("types", |out| both(&diff.types, out, type_of))
        .with("shapes", |out| both(&diff.shapes, out, shape))
        .with("layouts", |out| {
            both(&diff.layouts, out, |l, out| holdall_json::write_string(l.as_str(), out));
        })
        .with("attributes", |out| attributes(&diff.attributes, out))
        .with("components", |out| {
            json::list(&diff.components, out, |c, out| {
                let one = Object::new()
                    .text("role", c.role.as_str())
                    .with("types", |out| both(&Some(c.types.clone()), out, type_of))
                    .with("lens", |out| both(&Some(c.lens), out, number))
                    .with("values", |out| values(c.values.as_ref(), out));
                out.push_str(&one.finish());
            });
        })
        .with("values", |out| values(diff.values.as_ref(), out))
        .with("incomparable", |out| match &diff.incomparable {
            Some(e) => out.push_str(&json::error(e)),
            None => out.push_str("null"),
        })
        .finish()
}

fn both<T>(sides: &Option<(T, T)>, out: &mut String, write: impl Fn(&T, &mut String)) {
    match sides {
        Some((a, b)) => json::list([a, b], out, write),
        None => out.push_str("null"),
    }
}

fn values(diff: Option<&ValueDiff>, out: &mut String) {
    let Some(diff) = diff else { return out.push_str("null") };
    let one = Object::new()
        .number("count", diff.count)
        .number("unequal", diff.unequal)
        .number("differing", diff.differing)
        .with("maxAbs", |out| json::maybe_float(Some(diff.max_abs), out))
        .with("maxRel", |out| json::maybe_float(Some(diff.max_rel), out))
        .with("share", |out| json::maybe_float(Some(diff.share()), out))
        .number("nonFinite", diff.non_finite)
        .with("rms", |out| json::maybe_float(diff.rms, out))
        .with("relative", |out| json::maybe_float(diff.relative, out))
        .with("cosine", |out| json::maybe_float(diff.cosine, out))
        .with("first", |out| match &diff.first {
            None => out.push_str("null"),
            Some(first) => {
                let one = Object::new()
                    .with("index", |out| {
                        json::list(first.index.iter().copied(), out, json::integer)
                    })
                    .with("a", |out| json::maybe_number(Some(first.a), out))
                    .with("b", |out| json::maybe_number(Some(first.b), out));
                out.push_str(&one.finish());
            }
        });
    out.push_str(&one.finish());
}

fn layer_facts(layer: &LayerDiff) -> String {
    Object::new()
        .maybe_text("name", layer.name.as_deref())
        .number("tensors", layer.tensors)
        .number("changed", layer.changed)
        .number("uncompared", layer.uncompared)
        .number("count", layer.count)
        .number("unequal", layer.unequal)
        .with("share", |out| json::maybe_float(Some(layer.share()), out))
        .with("maxAbs", |out| json::maybe_float(Some(layer.max_abs), out))
        .number("nonFinite", layer.non_finite)
        .with("rms", |out| json::maybe_float(layer.rms, out))
        .with("relative", |out| json::maybe_float(layer.relative, out))
        .with("cosine", |out| json::maybe_float(layer.cosine, out))
        .finish()
}

/// Appends differences of attributes. A missing attribute is left out, because null is a value.
fn attributes(all: &[AttributeDiff], out: &mut String) {
    json::list(all, out, |diff, out| {
        let mut one = Object::new().text("key", &diff.key);
        for (side, value) in [("a", &diff.a), ("b", &diff.b)] {
            if let Some(value) = value {
                one = one.with(side, |out| json::value(value, out));
            }
        }
        out.push_str(&one.finish());
    });
}

fn facts(info: &TensorInfo) -> String {
    Object::new()
        .text("name", info.name())
        .with("shape", |out| json::list(info.shape().iter().copied(), out, json::integer))
        .text("layout", info.layout().as_str())
        .with("dense", |out| match dense_type(info) {
            Some(element_type) => {
                holdall_json::write_string(&crate::view::name_of(&element_type), out)
            }
            None => out.push_str("null"),
        })
        .finish()
}
