//! Converts sparse tensors to the spelling of the target: one component for the values and one for each kind
//! of index, 64 bits wide, or 32 bits if the target supports that. Sources may have other index types, or
//! zTensor 0.1's sparse forms in one component.

use bytes::Bytes;
use holdall_core::layout::sparse::{Coo, Csr, Indices, packed_count};
use holdall_core::layout::without_parameters;
use holdall_core::{Attributes, ComponentSpec, DType, Encode, Layout, Result, Role, TensorSpec};
use holdall_io::items::{self, ComponentSource, ComputedPieces, Item};
use holdall_io::{Check, Tensor, held};
use std::sync::{Arc, OnceLock};

/// Returns the attributes to keep for a tensor that is written in another layout: all except those that say
/// how to read its present layout.
pub(crate) fn attributes_of_elements(tensor: &Tensor) -> Attributes {
    let mut kept = without_parameters(tensor.layout(), tensor.attributes());
    if let Some(description) = tensor.description() {
        description.attribute_names().for_each(|key| drop(kept.remove(key)));
    }
    kept
}

/// The forms of sparse tensors that a target supports.
pub(crate) struct SparseForms {
    /// Whether zTensor 0.1's one-component forms are supported.
    packed: bool,
    /// Whether 32-bit indices are supported as well as 64-bit ones.
    narrow: bool,
}

impl SparseForms {
    /// Returns the forms of the format that `encoder` writes.
    pub(crate) fn for_encoder(encoder: &dyn Encode) -> SparseForms {
        let probe = |layout, roles: &[(Role, DType)]| {
            let components =
                roles.iter().map(|(r, d)| ComponentSpec::new(r.clone(), *d, d.width())).collect();
            let attributes = Attributes::new();
            let spec = TensorSpec {
                name: "probe".into(),
                shape: vec![0, 1],
                layout,
                attributes,
                components,
            };
            encoder.check_tensor(&spec).is_ok()
        };
        let csr =
            |wanted| [(Role::Values, wanted), (Role::Indices, wanted), (Role::Indptr, wanted)];
        SparseForms {
            packed: probe(Layout::PackedCsr, &[(Role::Data, DType::U64)]),
            narrow: probe(Layout::SparseCsr, &csr(DType::U32)),
        }
    }

    /// Returns the tensor as an item for the target: in the other form, or with wider indices, if needed.
    pub(crate) fn item(&self, tensor: &Tensor) -> Result<Item> {
        let are_all = |dtype| tensor.components().all(|c| !is_index(&c.role) || c.dtype == dtype);
        let fits = are_all(DType::U64) || (self.narrow && are_all(DType::U32));
        if !self.has(tensor) || (is_sparse(tensor) && !fits) {
            return repacked(tensor);
        }
        items::unchanged_item(tensor)
    }

    /// Returns `true` if the target supports the tensor's present form.
    fn has(&self, tensor: &Tensor) -> bool {
        self.packed || !matches!(tensor.layout(), Layout::PackedCsr | Layout::PackedCoo)
    }
}

/// Returns `true` if the tensor is sparse (CSR or COO), in either spelling.
pub(crate) fn is_sparse(tensor: &Tensor) -> bool {
    matches!(
        tensor.layout(),
        Layout::SparseCsr | Layout::SparseCoo | Layout::PackedCsr | Layout::PackedCoo
    )
}

/// Returns the tensor with one component for its values and one for each kind of index. The indices are
/// checked while they are written.
fn repacked(tensor: &Tensor) -> Result<Item> {
    let Item { mut spec, mut feeds, keep } = items::unchanged_item(tensor)?;
    let shared = Shared { tensor: tensor.clone(), view: Arc::default() };
    if let Some(data) = spec.components.pop_if(|c| c.role == Role::Data) {
        feeds.clear();
        let (shape, dtype) = (tensor.shape(), data.dtype);
        let count = packed_count(&spec.layout, shape, dtype, data.decoded_len).unwrap_or(0);
        let component = |role, dtype: DType, count: u64| {
            ComponentSpec::new(role, dtype, count.saturating_mul(dtype.width()))
        };
        let mut values = component(Role::Values, dtype, count);
        values.logical_type = data.logical_type;
        spec.components.push(values);
        match (&spec.layout, shape) {
            (Layout::PackedCsr, shape) => {
                let rows = shape.first().map_or(0, |rows| rows.saturating_add(1));
                spec.components.push(component(Role::Indices, DType::U64, count));
                spec.components.push(component(Role::Indptr, DType::U64, rows));
                spec.layout = Layout::SparseCsr;
            }
            (_, shape) => {
                let all = count.saturating_mul(shape.len() as u64);
                spec.components.push(component(Role::Coords, DType::U64, all));
                spec.layout = Layout::SparseCoo;
            }
        }
        feeds.extend(spec.components.iter().map(|c| shared.feed(c.role.clone())));
    }
    for (c, feed) in spec.components.iter_mut().zip(&mut feeds).filter(|(c, _)| is_index(&c.role)) {
        c.decoded_len = (c.decoded_len / c.dtype.width()).saturating_mul(8);
        c.dtype = DType::U64;
        *feed = shared.feed(c.role.clone());
    }
    // A component without bytes is never read, so its check must be made here.
    if spec.components.iter().any(|c| c.decoded_len == 0) {
        shared.part(&Role::Values)?;
    }
    Ok(Item { spec, feeds, keep })
}

fn is_index(role: &Role) -> bool {
    matches!(role, Role::Indices | Role::Indptr | Role::Coords)
}

/// A sparse tensor that is the source of several components. Its view is created once, when the first
/// component is written.
#[derive(Clone)]
struct Shared {
    tensor: Tensor,
    view: Arc<OnceLock<View>>,
}

enum View {
    Csr(Csr),
    Coo(Coo),
}

impl Shared {
    /// Returns the source of the values or of the 64-bit indices, piece by piece.
    fn feed(&self, role: Role) -> ComponentSource {
        let shared = self.clone();
        ComponentSource::Made(Box::new(move || {
            let len = match shared.part(&role)? {
                ComponentContent::Values(bytes) => bytes.len(),
                ComponentContent::Indices(indices) => indices.len() * 8,
            };
            let pieces = (0..len).step_by(PIECE).map(move |start| {
                let end = len.min(start + PIECE);
                Ok(match shared.part(&role)? {
                    ComponentContent::Values(bytes) => bytes.slice(start..end),
                    ComponentContent::Indices(indices) => {
                        let mut bytes = vec![0; end - start];
                        let words = bytes.as_chunks_mut().0.iter_mut();
                        for (word, index) in words.zip(indices.range(start / 8..end / 8)) {
                            *word = index.to_le_bytes();
                        }
                        bytes.into()
                    }
                })
            });
            let made: ComputedPieces = Box::new(pieces);
            Ok(made)
        }))
    }

    fn part(&self, role: &Role) -> Result<ComponentContent<'_>> {
        let view = match self.view.get() {
            Some(view) => view,
            None => {
                let view = match self.tensor.layout() {
                    Layout::SparseCsr | Layout::PackedCsr => {
                        View::Csr(held::csr(&self.tensor.checked_with(Check::All))?)
                    }
                    _ => View::Coo(held::coo(&self.tensor.checked_with(Check::All))?),
                };
                self.view.get_or_init(|| view)
            }
        };
        Ok(match (view, role) {
            (View::Csr(csr), Role::Indices) => ComponentContent::Indices(csr.stored().1),
            (View::Csr(csr), Role::Indptr) => ComponentContent::Indices(csr.stored().0),
            (View::Coo(coo), Role::Coords) => ComponentContent::Indices(coo.indices()),
            (View::Csr(csr), _) => ComponentContent::Values(csr.values().bytes()),
            (View::Coo(coo), _) => ComponentContent::Values(coo.values().bytes()),
        })
    }
}

/// The content of one component.
enum ComponentContent<'v> {
    Values(&'v Bytes),
    Indices(&'v Indices),
}

/// Bytes produced at a time: a whole number of indices.
const PIECE: usize = 1 << 20;
