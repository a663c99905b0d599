//! Sparse tensors in the forms with a component for values and one for each kind of index, 64 bits wide, or 32 where the target has such
//! too, out of those with other indices and zTensor 0.1's forms of one component.

use bytes::Bytes;
use holdall_core::layout::dense::Dense;
use holdall_core::layout::sparse::tiles;
use holdall_core::{
    Attributes, Component, ComponentSpec, DType, Encode, Layout, Result, Role, TensorSpec,
};
use holdall_io::Tensor;
use holdall_io::items::{self, Feed, Item, Keep};

/// The attributes of a tensor that is written in another layout: all but those that say how to read the one it has.
pub(crate) fn attributes_of_elements(tensor: &Tensor) -> Attributes {
    let mut attributes = tensor.attributes().clone();
    match tensor.layout() {
        Layout::QuantizedGroup | Layout::Other(_) => return Attributes::new(),
        Layout::Strided => {
            attributes.remove("strides");
        }
        Layout::SparseBlocks | Layout::SparseHybrid => return tiles::without(attributes),
        _ => {}
    }
    attributes
}

/// Which spelling of sparse tensors a target has.
pub(crate) struct SparseForms {
    /// zTensor 0.1's one-component forms too.
    packed: bool,
    /// Indices of 32 bits as well as of 64.
    narrow: bool,
}

impl SparseForms {
    /// Those of the format that `encoder` writes.
    pub(crate) fn of(encoder: &dyn Encode) -> SparseForms {
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
        let csr = |of| [(Role::Values, of), (Role::Indices, of), (Role::Indptr, of)];
        SparseForms {
            packed: probe(Layout::PackedCsr, &[(Role::Data, DType::U64)]),
            narrow: probe(Layout::SparseCsr, &csr(DType::U32)),
        }
    }

    /// The tensor as the target has it: in the other form, or with wider indices, where it must be.
    pub(crate) fn item(&self, tensor: &Tensor) -> Result<Item> {
        let is_index =
            |c: &Component| matches!(c.role, Role::Indices | Role::Indptr | Role::Coords);
        let are_all = |of| tensor.components().filter(is_index).all(|c| c.dtype == of);
        let fits = are_all(DType::U64) || (self.narrow && are_all(DType::U32));
        if !self.has(tensor) || (is_sparse(tensor) && !fits) {
            return repacked(tensor);
        }
        items::as_it_is(tensor)
    }

    /// Whether the target has a tensor in the form that it has.
    fn has(&self, tensor: &Tensor) -> bool {
        self.packed || !matches!(tensor.layout(), Layout::PackedCsr | Layout::PackedCoo)
    }
}

/// Whether the tensor is sparse, in either form.
pub(crate) fn is_sparse(tensor: &Tensor) -> bool {
    matches!(
        tensor.layout(),
        Layout::SparseCsr | Layout::SparseCoo | Layout::PackedCsr | Layout::PackedCoo
    )
}

/// The tensor with a component for its values and one for each kind of index, which are checked on the way. Each
/// component is made, from the whole tensor in memory, when its turn to be written comes.
fn repacked(tensor: &Tensor) -> Result<Item> {
    let by_rows = matches!(tensor.layout(), Layout::SparseCsr | Layout::PackedCsr);
    let (layout, parts) = match by_rows {
        true => (
            Layout::SparseCsr,
            vec![
                Part { role: Role::Values, of: Of::Values },
                Part { role: Role::Indices, of: Of::Indices },
                Part { role: Role::Indptr, of: Of::Indptr },
            ],
        ),
        false => (
            Layout::SparseCoo,
            vec![
                Part { role: Role::Values, of: Of::Values },
                Part { role: Role::Coords, of: Of::Indices },
            ],
        ),
    };
    let mut spec = TensorSpec {
        name: tensor.name().to_owned(),
        shape: tensor.shape().to_vec(),
        layout,
        attributes: tensor.attributes().clone(),
        components: Vec::new(),
    };
    let mut feeds = Vec::new();
    for Part { role, of } in parts {
        let indices = matches!(of, Of::Indices | Of::Indptr);
        let dtype = if indices { DType::U64 } else { tensor.dtype().unwrap_or(DType::U8) };
        let len = bytes_of(tensor, by_rows, of)?.len() as u64;
        let mut component = ComponentSpec::new(role, dtype, len);
        component.logical_type = if indices { None } else { tensor.logical_type() };
        spec.components.push(component);
        let tensor = tensor.clone();
        feeds.push(Feed::bytes(move || bytes_of(&tensor, by_rows, of)));
    }
    Ok(Item { spec, feeds, keep: Keep::Nothing })
}

struct Part {
    role: Role,
    of: Of,
}

/// What a component is made of.
#[derive(Clone, Copy)]
enum Of {
    Values,
    /// Columns, or all coordinates.
    Indices,
    Indptr,
}

fn bytes_of(tensor: &Tensor, by_rows: bool, of: Of) -> Result<Bytes> {
    if by_rows {
        let view = tensor.csr()?;
        return Ok(match of {
            Of::Values => values(view.values()),
            Of::Indices => little_endian(view.indices()),
            Of::Indptr => little_endian(view.indptr()),
        });
    }
    let view = tensor.coo()?;
    Ok(match of {
        Of::Values => values(view.values()),
        Of::Indices | Of::Indptr => little_endian(view.indices().as_slice()),
    })
}

fn values(dense: &Dense) -> Bytes {
    dense.bytes().clone()
}

pub(crate) fn little_endian(indices: &[u64]) -> Bytes {
    indices.iter().flat_map(|i| i.to_le_bytes()).collect()
}
