//! Differences summed over the layers of a model.

use super::{Squares, TensorDiff};
use holdall_collections::HashMap;

/// What changed in a layer of a model, summed over its tensors that are in both files.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LayerDiff {
    /// The common start of the names of its tensors, such as `model.layers.12`; `None` for the tensors outside any layer.
    pub name: Option<String>,
    /// The number of its tensors.
    pub tensors: u64,
    /// The number of tensors of which a value, a shape or a component differs.
    pub changed: u64,
    /// The number of tensors whose values could not be compared one by one, because of their shapes for example.
    pub uncompared: u64,
    /// The number of elements of the other tensors.
    pub count: u64,
    /// The number of elements that are not equal.
    pub unequal: u64,
    /// The number of unequal elements of which one is NaN or infinite. The following fields leave them out.
    pub non_finite: u64,
    /// The maximum of `|a - b|`.
    pub max_abs: f64,
    /// The root of the mean square of the differences; `None` if a sum overflows `f64`.
    pub rms: Option<f64>,
    /// `rms` divided by the root of the mean square of the elements of `a`: infinite if all of these are 0 and others are
    /// not. `None` if a sum overflows `f64`.
    pub relative: Option<f64>,
    /// The cosine of the angle between the elements of `a` and of `b` as vectors: 1 if they are equal, 0 if all of one are
    /// 0. `None` if a sum overflows `f64`.
    pub cosine: Option<f64>,
}

impl LayerDiff {
    /// Returns the share of the elements that are not equal, from 0 to 1.
    pub fn share(&self) -> f64 {
        super::share(self.unequal, self.count)
    }

    /// Returns `true` if any tensor of the layer changed.
    pub fn is_change(&self) -> bool {
        self.changed > 0 || self.uncompared > 0
    }
}

/// Returns the part of a tensor's name that names its layer, such as `model.layers.12` in
/// `model.layers.12.mlp.up_proj.weight`: all up to the first number that stands between two points or slashes.
pub fn layer_name(name: &str) -> Option<&str> {
    let mut start = 0;
    for (at, c) in name.char_indices() {
        if c != '.' && c != '/' {
            continue;
        }
        let part = name.get(start..at)?;
        if start > 0 && !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
            return name.get(..at);
        }
        start = at + 1;
    }
    None
}

/// Adds up the differences of tensors by layer.
#[derive(Debug, Default)]
pub struct Layers {
    numbers: HashMap<Option<String>, usize>,
    all: Vec<Layer>,
}

#[derive(Debug, Default)]
struct Layer {
    name: Option<String>,
    tensors: u64,
    changed: u64,
    uncompared: u64,
    count: u64,
    unequal: u64,
    non_finite: u64,
    max_abs: f64,
    squares: Squares,
}

impl Layers {
    /// Returns the number of the layer of a tensor, from 0 in the order in which they are first requested.
    pub fn number(&mut self, tensor: &str) -> usize {
        let name = layer_name(tensor).map(str::to_owned);
        let next = self.all.len();
        let number = *self.numbers.entry(name.clone()).or_insert(next);
        if number == next {
            self.all.push(Layer { name, ..Layer::default() });
        }
        number
    }

    /// Adds a tensor of `count` elements. `diff` is `None` if it is the same in both files. `squares` is `None` if its
    /// elements are not numbers, or were not compared.
    pub fn add(
        &mut self,
        tensor: &str,
        count: u64,
        diff: Option<&TensorDiff>,
        squares: Option<&Squares>,
    ) {
        let number = self.number(tensor);
        let Some(layer) = self.all.get_mut(number) else { return };
        layer.tensors += 1;
        if let Some(squares) = squares {
            layer.squares.add(squares);
        }
        let Some(diff) = diff else {
            layer.count = layer.count.saturating_add(count);
            return;
        };
        let unequal = diff.values.as_ref().map_or(0, |values| values.unequal);
        let by_component = !diff.components.is_empty() && diff.values.is_none();
        if unequal > 0 || by_component || diff.shapes.is_some() {
            layer.changed += 1;
        }
        if by_component || diff.shapes.is_some() || diff.incomparable.is_some() {
            layer.uncompared += 1;
            return;
        }
        layer.count = layer.count.saturating_add(count);
        if let Some(values) = &diff.values {
            layer.unequal += values.unequal;
            layer.non_finite += values.non_finite;
            layer.max_abs = layer.max_abs.max(values.max_abs);
        }
    }

    /// Returns the layers, in the order of their numbers.
    pub fn finish(self) -> Vec<LayerDiff> {
        self.all.into_iter().map(Layer::finish).collect()
    }
}

impl Layer {
    fn finish(self) -> LayerDiff {
        let squares = Some(self.squares).filter(Squares::is_finite);
        LayerDiff {
            name: self.name,
            tensors: self.tensors,
            changed: self.changed,
            uncompared: self.uncompared,
            count: self.count,
            unequal: self.unequal,
            non_finite: self.non_finite,
            max_abs: self.max_abs,
            rms: squares.map(|s| s.rms(self.count.saturating_sub(self.non_finite))),
            relative: squares.map(|s| s.relative()),
            cosine: squares.map(|s| s.cosine()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::layer_name;

    #[test]
    fn the_first_number_between_points_ends_the_name_of_a_layer() {
        for (name, layer) in [
            ("model.layers.12.mlp.experts.7.w1.weight", Some("model.layers.12")),
            ("h.3.attn.c_attn.weight", Some("h.3")),
            ("blk.5.attn_q.weight", Some("blk.5")),
            ("encoder/layers/0/kernel", Some("encoder/layers/0")),
            ("down_blocks.1.resnets.0.conv1.weight", Some("down_blocks.1")),
            ("model.embed_tokens.weight", None),
            ("lm_head.0", None),
            ("0.weight", None),
            ("layer12.weight", None),
            ("a..b", None),
            ("", None),
        ] {
            assert_eq!(layer_name(name), layer, "{name}");
        }
    }
}
