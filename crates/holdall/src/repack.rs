//! Sparse tensors between zTensor 0.1's one-component forms and the forms with a component for values
//! and one for each kind of index, which are 64 bits wide.

use bytes::Bytes;
use holdall_core::layout::dense::Dense;
use holdall_core::{ComponentSpec, DType, Layout, Result, Role, TensorSpec};
use holdall_io::Tensor;
use holdall_io::items::{Feed, Item, Keep};

/// The tensor in its packed form, or in its other one. Its indices are checked on the way. Each
/// component is made, from the whole tensor in memory, when its turn to be written comes.
pub(crate) fn repacked(tensor: &Tensor, packed: bool) -> Result<Item> {
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

fn little_endian(indices: &[u64]) -> Bytes {
    indices.iter().flat_map(|i| i.to_le_bytes()).collect()
}
