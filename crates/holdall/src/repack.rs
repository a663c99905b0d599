//! Sparse tensors between zTensor 0.1's one-component forms and the forms with a component for values
//! and one for each kind of index, which are 64 bits wide, or 32 where the target has such too.

use bytes::Bytes;
use holdall_core::layout::dense::Dense;
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
        _ => {}
    }
    attributes
}

/// Which spelling of sparse tensors a target has.
pub(crate) struct SparseForms {
    /// zTensor 0.1's one-component forms and no other.
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
        let split = probe(Layout::SparseCsr, &csr(DType::U64));
        let packed = !split && probe(Layout::PackedCsr, &[(Role::Data, DType::U64)]);
        SparseForms { packed, narrow: probe(Layout::SparseCsr, &csr(DType::U32)) }
    }

    /// The tensor as the target has it: in the other form, or with wider indices, where it must be.
    pub(crate) fn item(&self, tensor: &Tensor) -> Result<Item> {
        let packed = matches!(tensor.layout(), Layout::PackedCsr | Layout::PackedCoo);
        if is_sparse(tensor) && packed != self.packed {
            return repacked(tensor, self.packed);
        }
        let is_index =
            |c: &Component| matches!(c.role, Role::Indices | Role::Indptr | Role::Coords);
        let are_all = |of| tensor.components().filter(is_index).all(|c| c.dtype == of);
        let fits = are_all(DType::U64) || (self.narrow && are_all(DType::U32));
        if is_sparse(tensor) && !packed && !fits {
            return repacked(tensor, false);
        }
        items::as_it_is(tensor)
    }

    /// Whether zTensor 0.1's one-component forms are the ones that the target has.
    pub(crate) fn packed(&self) -> bool {
        self.packed
    }

    /// Whether the target has a tensor in the form that it has.
    pub(crate) fn has(&self, tensor: &Tensor) -> bool {
        let packed = matches!(tensor.layout(), Layout::PackedCsr | Layout::PackedCoo);
        !is_sparse(tensor) || packed == self.packed
    }
}

/// Whether the tensor is sparse, in either form.
pub(crate) fn is_sparse(tensor: &Tensor) -> bool {
    matches!(
        tensor.layout(),
        Layout::SparseCsr | Layout::SparseCoo | Layout::PackedCsr | Layout::PackedCoo
    )
}

/// The tensor in its packed form, or in its other one. Its indices are checked on the way. Each
/// component is made, from the whole tensor in memory, when its turn to be written comes.
fn repacked(tensor: &Tensor, packed: bool) -> Result<Item> {
    let by_rows = matches!(tensor.layout(), Layout::SparseCsr | Layout::PackedCsr);
    let parts: Vec<Part> = match (packed, by_rows) {
        (true, _) => vec![Part { role: Role::Data, of: Of::Whole }],
        (false, true) => vec![
            Part { role: Role::Values, of: Of::Values },
            Part { role: Role::Indices, of: Of::Indices },
            Part { role: Role::Indptr, of: Of::Indptr },
        ],
        (false, false) => vec![
            Part { role: Role::Values, of: Of::Values },
            Part { role: Role::Coords, of: Of::Indices },
        ],
    };
    let layout = match (packed, by_rows) {
        (true, true) => Layout::PackedCsr,
        (true, false) => Layout::PackedCoo,
        (false, true) => Layout::SparseCsr,
        (false, false) => Layout::SparseCoo,
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
        feeds.push(Feed::Made(Box::new(move || bytes_of(&tensor, by_rows, of))));
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
    Whole,
    Values,
    /// Columns, or all coordinates.
    Indices,
    Indptr,
}

fn bytes_of(tensor: &Tensor, by_rows: bool, of: Of) -> Result<Bytes> {
    if by_rows {
        let view = tensor.csr()?;
        return Ok(match of {
            Of::Whole => view.to_packed().into(),
            Of::Values => values(view.values()),
            Of::Indices => little_endian(view.indices()),
            Of::Indptr => little_endian(view.indptr()),
        });
    }
    let view = tensor.coo()?;
    Ok(match of {
        Of::Whole => view.to_packed().into(),
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
