//! A weight while it is put together.

use super::super::decoding::{Arithmetic, Codes, Cover, Decoding, Grid, Stack};
use super::super::kind::Kind;
use super::super::settings::Settings;
use super::super::{COMPANION, Companion, MISSING, QuantizedWeight, SHAPE, StoredTensor};
use super::Finder;
use super::leftover::weight_of_companion;
use bytes::Bytes;
use holdall_core::error::{Escape as _, Result, list};

/// Parts of the names of tensors next to a weight that are about activations or the cache of keys and values.
const ACTIVATIONS: [&str; 15] = [
    "input_scale",
    "input_scale_ub",
    "input_global_scale",
    "input_zero_point",
    "output_scale",
    "output_zero_point",
    "activation_scale",
    "activation_scale_ub",
    "act_scale",
    "scale_input",
    "k_scale",
    "v_scale",
    "q_scale",
    "kv_scale",
    "prob_output_scale",
];

/// The shape and the decoding of a weight.
pub(super) struct Described {
    pub(super) shape: Vec<u64>,
    pub(super) decoding: Decoding,
}

/// A weight while it is put together: its tensors are claimed one by one.
pub(super) struct Draft<'f, 'a> {
    finder: &'f mut Finder<'a>,
    name: String,
    kind: Kind,
    components: Vec<Companion>,
    not_applied: Vec<String>,
    parameters: Vec<(&'static str, String)>,
    first: usize,
}

impl<'f, 'a> Draft<'f, 'a> {
    pub(super) fn new(finder: &'f mut Finder<'a>, name: String) -> Draft<'f, 'a> {
        Draft {
            finder,
            name,
            kind: Kind::Unknown,
            components: Vec::new(),
            not_applied: Vec::new(),
            parameters: Vec::new(),
            first: usize::MAX,
        }
    }

    /// Sets the kind.
    pub(super) fn kind(&mut self, kind: Kind) {
        self.kind = kind;
    }

    /// Returns the settings of the model.
    pub(super) fn settings(&self) -> &Settings {
        &self.finder.settings
    }

    /// Adds a parameter, for reports.
    pub(super) fn parameter(&mut self, name: &'static str, value: impl ToString) {
        self.parameters.push((name, value.to_string()));
    }

    /// Returns an unclaimed tensor without claiming it.
    pub(super) fn look(&self, name: &str) -> Option<&'a StoredTensor> {
        self.finder.get(name)
    }

    /// Claims the tensor called `name` for a role.
    ///
    /// # Errors
    /// Returns [`MISSING`] if there is no such tensor.
    pub(super) fn take(&mut self, role: &'static str, name: &str) -> Result<&'a StoredTensor> {
        self.take_optional(role, name)
            .ok_or_else(|| MISSING.broken(format!("missing tensor `{}`", name.escaped())))
    }

    /// Claims the tensor called `name` for a role, if there is one.
    pub(super) fn take_optional(
        &mut self,
        role: &'static str,
        name: &str,
    ) -> Option<&'a StoredTensor> {
        let tensor = self.finder.get(name)?;
        self.claim(name);
        self.components.push(Companion { role, tensor: name.to_owned() });
        Some(tensor)
    }

    /// Claims a tensor that does not change the values, if there is one.
    pub(super) fn set_aside(&mut self, name: &str) {
        if self.finder.get(name).is_some() {
            self.claim(name);
            self.not_applied.push(name.to_owned());
        }
    }

    /// Returns the bytes of a small tensor.
    ///
    /// # Errors
    /// Returns [`MISSING`] if it does not exist, and [`SHAPE`] if it is not small.
    pub(super) fn small(&self, name: &str) -> Result<&'a Bytes> {
        let small: &'a holdall_collections::HashMap<String, Bytes> = self.finder.small;
        small.get(name).ok_or_else(|| match self.finder.stored.get(name) {
            Some(tensor) => SHAPE
                .broken(format!("a small tensor has shape {:?}", tensor.shape))
                .in_tensor(&tensor.name),
            None => MISSING.broken(format!("missing tensor `{}`", name.escaped())),
        })
    }

    fn claim(&mut self, name: &str) {
        let Some(at) = self.finder.stored.index_of(name) else { return };
        if let Some(is_claimed) = self.finder.is_claimed.get_mut(at) {
            *is_claimed = true;
        }
        self.first = self.first.min(at);
    }

    /// Claims the tensors of activations next to the weight, and refuses further companions: tensors whose names
    /// continue the name of the weight, and scales of its module.
    fn check_neighbours(&mut self) -> Result<()> {
        let module = self.name.strip_suffix(".weight").map(str::to_owned);
        for end in ACTIVATIONS {
            let name = match &module {
                Some(module) => format!("{module}.{end}"),
                None => format!("{}_{end}", self.name),
            };
            self.set_aside(&name);
        }
        let is_changing = |last: &str| {
            ["scale", "zero", "absmax", "quant", "smooth"].iter().any(|word| last.contains(word))
        };
        let neighbours = self.finder.neighbours(&self.name);
        let unknown = neighbours.into_iter().filter(|name| {
            let own = name.strip_prefix(self.name.as_str());
            let continues =
                own.is_some_and(|rest| rest.starts_with(['_', '.']) && !rest.ends_with("bias"));
            let of_module = module.as_ref().and_then(|module| name.strip_prefix(module.as_str()));
            let of_module = of_module.and_then(|rest| rest.strip_prefix('.'));
            continues || of_module.is_some_and(|last| !last.contains('.') && is_changing(last))
        });
        let unknown: Vec<&str> = unknown.collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let names = list(unknown.iter().map(|name| format!("`{}`", name.escaped())));
        let message = format!("a weight of kind {} has the unknown companions {names}", self.kind);
        unknown
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .iter()
            .for_each(|name| self.claim(name));
        Err(COMPANION.broken(message))
    }

    /// Adds the weight to the result of the search.
    pub(super) fn finish(mut self, described: Result<Described>) {
        let described = described.and_then(|described| {
            self.check_neighbours()?;
            Ok(described)
        });
        if described.is_err() {
            // So that a weight with a fault has one.
            for name in self.finder.neighbours(&self.name) {
                if weight_of_companion(name, true).as_deref() == Some(self.name.as_str()) {
                    self.claim(name);
                    self.components.push(Companion { role: "other", tensor: name.to_owned() });
                }
            }
        }
        let (shape, decoding) = match described {
            Ok(Described { shape, decoding }) => (shape, Ok(decoding)),
            Err(e) => {
                let e = match e.tensor() {
                    None => e.in_tensor(&self.name),
                    Some(tensor) if tensor != self.name => {
                        e.within(format!("in the quantized weight `{}`", self.name.escaped()))
                    }
                    Some(_) => e,
                };
                (Vec::new(), Err(e))
            }
        };
        let weight = QuantizedWeight {
            name: self.name,
            kind: self.kind,
            shape,
            components: self.components,
            not_applied: self.not_applied,
            parameters: self.parameters,
            decoding,
        };
        self.finder.found.push((self.first, weight));
    }
}

impl<'a> Finder<'a> {
    /// Returns the names of the unclaimed tensors in the module of a weight called `weight`, and of those whose names
    /// continue the name of any other weight.
    fn neighbours(&self, name: &str) -> Vec<&'a str> {
        let free = |prefix: String| {
            let names = self.stored.names_from(&prefix);
            names.filter(|name| self.get(name).is_some()).collect::<Vec<_>>()
        };
        match name.strip_suffix(".weight") {
            Some(module) => free(format!("{module}.")),
            None => [free(format!("{name}_")), free(format!("{name}."))].concat(),
        }
    }
}

/// Returns the grid of scales, which cover the weight in the first of the ways `covers` that fits.
///
/// # Errors
/// Returns [`SHAPE`] if none fits.
pub(super) fn cover(weight: &[u64], scale: &StoredTensor, covers: &[Cover]) -> Result<Grid> {
    let found = covers.iter().find_map(|cover| cover.grid(weight, &scale.shape));
    found.ok_or_else(|| {
        let expected = covers.iter().map(|cover| match cover {
            Cover::Tensor => "one scale".to_owned(),
            Cover::Rows => "one for each row".to_owned(),
            Cover::Blocks(1, across) => format!("one for {across} elements of a row"),
            Cover::Blocks(down, across) => format!("one for a block of {down} by {across}"),
        });
        let message = format!(
            "scales of shape {:?} do not fit a weight of shape {weight:?}: expected {}",
            scale.shape,
            expected.collect::<Vec<_>>().join(", or ")
        );
        SHAPE.broken(message).in_tensor(&scale.name)
    })
}

/// Returns the description of a weight of shape `shape`, whose codes are in the component `weight` in the same shape.
///
/// # Errors
/// Returns [`SHAPE`] if the shape has no or too many elements.
pub(super) fn plain(
    shape: Vec<u64>,
    codes: Codes,
    grid: Grid,
    arithmetic: Arithmetic,
) -> Result<Described> {
    let Stack { matrices, rows, columns } = Stack::from_shape(&shape)?;
    let decoding = Decoding {
        matrices,
        rows,
        columns,
        is_transposed: false,
        data: "weight",
        codes,
        grid,
        arithmetic,
    };
    Ok(Described { shape, decoding })
}

/// Returns a shape with another last dimension.
///
/// # Errors
/// Returns [`SHAPE`] if the shape has no dimensions, or if the number exceeds 64 bits.
pub(super) fn with_columns(
    tensor: &StoredTensor,
    columns: impl Fn(u64) -> Option<u64>,
) -> Result<Vec<u64>> {
    let mut shape = tensor.shape.clone();
    let changed = shape.last_mut().and_then(|last| {
        *last = columns(*last)?;
        Some(())
    });
    match changed {
        Some(()) => Ok(shape),
        None => {
            let message = format!("shape {:?} has no or too many columns", tensor.shape);
            Err(SHAPE.broken(message).in_tensor(&tensor.name))
        }
    }
}
