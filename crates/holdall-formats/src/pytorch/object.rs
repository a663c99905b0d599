//! The values of a pickle: tensors, containers, plain values. The functions that a pickle may call are listed here, and
//! nowhere else.

use super::quantizer::Quantizer;
use super::{CALL, DEPTH, DTYPE, GLOBAL, NO_ELEMENTS, TOO_MANY};
use crate::named::{Element, PAIRS, is_dtype};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::layout::sparse::tiles::{self, Compressed};
use holdall_core::model::{Attributes, ByteOrder, DType, Layout, Role, Value};
use holdall_core::wire::pickle::{Graph, Id, Node};

/// Returns `true` if classes of this module belong to TorchScript. Their code is in the file, and is ignored.
fn is_script(module: &str) -> bool {
    module == "__torch__" || module.starts_with("__torch__.")
}

/// A storage, as a pickle refers to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Storage {
    pub(super) key: String,
    /// `None` for a storage without a type, whose length is in bytes.
    pub(super) element: Option<Element>,
    /// The number of elements, or of bytes.
    pub(super) len: u64,
    /// In files from before 1.6, a storage can be a view: its start in the storage with this key, in elements, and its
    /// length.
    pub(super) start: u64,
    pub(super) count: u64,
}

/// A view of a storage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    pub(super) storage: Storage,
    pub(super) element: Element,
    /// The offset in elements.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    pub(super) strides: Vec<u64>,
    pub(super) requires_grad: bool,
    pub(super) flags: Flags,
}

/// Operations that torch applies to elements when it reads them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Flags {
    /// Whether imaginary parts are negated.
    pub(super) conj: bool,
    /// Whether numbers are negated.
    pub(super) neg: bool,
}

/// A tensor.
#[derive(Debug, Clone)]
pub(super) enum Tensor {
    Dense(View),
    /// Integers, and the conversion to real numbers.
    Quantized(View, Quantizer),
    /// A sparse tensor, with its other properties as attributes.
    Sparse {
        shape: Vec<u64>,
        layout: Layout,
        attributes: Attributes,
        parts: Vec<(Role, View)>,
    },
    /// An array whose bytes are in the pickle.
    Array {
        shape: Vec<u64>,
        /// The attributes with the order of elements, if it is not row-major.
        strides: Option<Attributes>,
        element: Element,
        order: ByteOrder,
        /// The type in an `.npy` header, if it has no counterpart among the dtypes.
        descr: Option<String>,
        bytes: Vec<u8>,
    },
    /// A tensor without elements in the file, with the reason.
    Missing(Vec<u64>, Error),
}

impl Tensor {
    /// Returns the views of storages that it uses.
    pub(super) fn views(&self) -> Vec<&View> {
        match self {
            Tensor::Dense(view) => vec![view],
            Tensor::Quantized(view, quantizer) => {
                quantizer.views().into_iter().chain([view]).collect()
            }
            Tensor::Sparse { parts, .. } => parts.iter().map(|(_, view)| view).collect(),
            Tensor::Array { .. } | Tensor::Missing(..) => Vec::new(),
        }
    }

    pub(super) fn views_mut(&mut self) -> Vec<&mut View> {
        match self {
            Tensor::Dense(view) => vec![view],
            Tensor::Quantized(view, quantizer) => {
                quantizer.views_mut().into_iter().chain([view]).collect()
            }
            Tensor::Sparse { parts, .. } => parts.iter_mut().map(|(_, view)| view).collect(),
            Tensor::Array { .. } | Tensor::Missing(..) => Vec::new(),
        }
    }

    pub(super) fn shape(&self) -> &[u64] {
        match self {
            Tensor::Dense(view) | Tensor::Quantized(view, _) => &view.shape,
            Tensor::Sparse { shape, .. }
            | Tensor::Array { shape, .. }
            | Tensor::Missing(shape, _) => shape,
        }
    }
}

/// The meaning of a value.
#[derive(Debug)]
pub(super) enum Thing<'g> {
    /// A tensor, and the states that it was given: dicts of its Python attributes.
    Tensor(Box<Tensor>, Vec<Id>),
    Dict(&'g [(Id, Id)]),
    List(&'g [Id]),
    Plain(Value),
    /// A call that is not in the list and is left out.
    Unknown(String),
}

impl Thing<'_> {
    pub(super) fn tensor(tensor: Tensor) -> Self {
        Thing::Tensor(Box::new(tensor), Vec::new())
    }

    /// Adds a state, if it is a tensor.
    fn with_state(mut self, state: Option<&Id>) -> Self {
        if let Thing::Tensor(_, states) = &mut self {
            states.extend(state);
        }
        self
    }
}

/// Reads the values of a graph.
#[derive(Clone, Copy)]
pub(super) struct Objects<'g> {
    pub(super) graph: &'g Graph,
    /// Whether calls that are not in the list are left out instead of causing an error.
    pub(super) skips: bool,
    pub(super) depth: usize,
}

/// Checks that visiting a value and everything in it takes at most `most` steps.
///
/// # Errors
/// Returns [`TOO_MANY`] if it takes more.
pub(super) fn check_steps(graph: &Graph, root: Id, most: u64) -> Result<()> {
    let message = match graph.steps(root) {
        steps if steps <= most => return Ok(()),
        u64::MAX => "a value contains itself, or shared values too many times".to_owned(),
        steps => format!("visiting all values takes {steps} steps, at most {most} are allowed"),
    };
    Err(TOO_MANY.broken(message))
}

impl<'g> Objects<'g> {
    /// Returns the meaning of value `id`.
    ///
    /// # Errors
    /// Returns [`GLOBAL`], [`CALL`] or [`DTYPE`] if it cannot be read.
    pub(super) fn get(&self, id: Id) -> Result<Thing<'g>> {
        self.at(id, 0)
    }

    pub(super) fn at(&self, id: Id, depth: usize) -> Result<Thing<'g>> {
        if depth > self.depth {
            return Err(DEPTH.broken(format!("calls are nested deeper than {}", self.depth)));
        }
        if let Some(name) = self.numpy_name(id) {
            return Ok(Thing::Plain(Value::Text(name)));
        }
        Ok(match self.graph.get(id) {
            Node::None => Thing::Plain(Value::Null),
            Node::Bool(b) => Thing::Plain(Value::Bool(*b)),
            Node::Integer(n) => Thing::Plain(integer(*n)),
            Node::Long(bytes) => Thing::Plain(long(bytes)),
            Node::Float(x) => Thing::Plain(Value::Float(*x)),
            Node::Text(text) => Thing::Plain(Value::Text(text.clone())),
            Node::OldText(bytes) => Thing::Plain(match self.graph.text(id) {
                Some(text) => Value::Text(text.to_owned()),
                None => Value::Bytes(bytes.clone()),
            }),
            Node::Bytes(bytes) => Thing::Plain(Value::Bytes(bytes.clone())),
            Node::Tuple(items) | Node::List(items) | Node::Set(items) => Thing::List(items),
            Node::Dict(pairs) => Thing::Dict(pairs),
            Node::Global(module, name) => match (module.as_str(), name.as_str()) {
                ("torch", name) if is_dtype(name) || name.starts_with("per_") => {
                    Thing::Plain(Value::Text(format!("torch.{name}")))
                }
                _ => self.unknown(module, name)?,
            },
            // A storage as a value is a tensor of all of its elements.
            Node::Persistent(pid) => {
                let storage = storage(self.graph, *pid)?;
                let element = storage.element.clone().unwrap_or(Element::BYTE);
                let view = View {
                    shape: vec![storage.count],
                    strides: vec![1],
                    offset: 0,
                    requires_grad: false,
                    flags: Flags::default(),
                    element,
                    storage,
                };
                Thing::tensor(Tensor::Dense(view))
            }
            Node::Built(object, state) => self.built(*object, *state, depth.saturating_add(1))?,
            Node::Call(object, arguments) => match self.graph.get(*object) {
                Node::Global(module, name) => {
                    let items = self.graph.items(*arguments).unwrap_or_default();
                    self.called(module, name, items, depth.saturating_add(1))?
                }
                // A call of the result of a call, which is allowed only for unknown functions.
                _ => match self.at(*object, depth.saturating_add(1))? {
                    Thing::Unknown(what) => Thing::Unknown(what),
                    _ => return Err(CALL.broken("a value that is not a function is called")),
                },
            },
        })
    }

    fn unknown(&self, module: &str, name: &str) -> Result<Thing<'g>> {
        let what = format!("{}.{}", module.escaped(), name.escaped());
        match self.skips {
            true => Ok(Thing::Unknown(what)),
            false => Err(GLOBAL.broken(format!("the pickle would import `{what}`"))),
        }
    }

    /// Returns the result of calling a known function. An unknown element type is the fault of the tensor, whose shape
    /// is the third argument of all functions with a storage.
    fn called(&self, module: &str, name: &str, args: &'g [Id], depth: usize) -> Result<Thing<'g>> {
        match self.made(module, name, args, depth) {
            Err(e) if e.code() == DTYPE.code && name.starts_with("_rebuild") => {
                match args.get(2).and_then(|id| self.numbers(*id)) {
                    Some(shape) => Ok(Thing::tensor(Tensor::Missing(shape, e))),
                    None => Err(e),
                }
            }
            made => made,
        }
    }

    fn made(&self, module: &str, name: &str, args: &'g [Id], depth: usize) -> Result<Thing<'g>> {
        let wrong = || CALL.broken(format!("`{module}.{name}` has unexpected arguments"));
        let tensor = |tensor| Ok(Thing::tensor(tensor));
        match (module, name, args) {
            // A TorchScript object is the dict of its fields; without a state it has no fields.
            (module, _, []) if is_script(module) => Ok(Thing::Dict(&[])),
            (
                "torch.jit._pickle",
                "build_intlist" | "build_doublelist" | "build_boollist" | "build_tensorlist",
                [items],
            )
            | ("torch.jit._pickle", "restore_type_tag", [items, _]) => self.at(*items, depth),
            (
                "torch._utils",
                "_rebuild_tensor" | "_rebuild_tensor_v2",
                [storage, offset, shape, strides, ..],
            ) => {
                let storage = self.storage(*storage)?;
                let element = storage.element.clone().ok_or_else(wrong)?;
                let view =
                    self.view(storage, element, *offset, *shape, *strides).ok_or_else(wrong)?;
                tensor(self.flagged(view, args.get(4), args.get(6)))
            }
            (
                "torch._utils",
                "_rebuild_tensor_v3",
                [storage, offset, shape, strides, _, _, dtype, rest @ ..],
            ) => {
                let storage = self.storage(*storage)?;
                let element = self.dtype(*dtype)?;
                let view =
                    self.view(storage, element, *offset, *shape, *strides).ok_or_else(wrong)?;
                tensor(self.flagged(view, args.get(4), rest.first()))
            }
            (
                "torch._utils",
                "_rebuild_parameter" | "_rebuild_parameter_with_state",
                [data, rest @ ..],
            )
            // Tensors of devices whose memory torch does not save directly.
            | (
                "torch._utils",
                "_rebuild_device_tensor_from_cpu_tensor" | "_rebuild_device_tensor_from_numpy",
                [data, _, _, rest @ ..],
            )
            | ("torch.nn.parameter", "Parameter", [data, rest @ ..]) => {
                let wants = self.is_true(rest.first());
                let state = rest.get(2).filter(|_| name == "_rebuild_parameter_with_state");
                let mut thing = self.at(*data, depth)?;
                if let Thing::Tensor(tensor, _) = &mut thing
                    && let Tensor::Dense(view) | Tensor::Quantized(view, _) = &mut **tensor
                {
                    view.requires_grad |= wants;
                }
                Ok(thing.with_state(state))
            }
            ("torch._tensor", "_rebuild_from_type_v2", [class_module, class, arguments, rest @ ..]) => {
                let (Node::Global(module, name), Node::Global(class_module, class)) =
                    (self.graph.get(*class_module), self.graph.get(*class))
                else {
                    return Err(wrong());
                };
                let items = self.graph.items(*arguments).ok_or_else(wrong)?;
                let made = |this: &Self| this.called(module, name, items, depth);
                match (class_module.as_str(), class.as_str()) {
                    ("torch", "Tensor") | ("torch.nn.parameter", "Parameter") => {
                        Ok(made(self)?.with_state(rest.first()))
                    }
                    // A subclass of tensors may interpret its elements in another way.
                    (class_module, class) => match self.unknown(class_module, class) {
                        Err(e) => {
                            let shape = match made(self) {
                                Ok(Thing::Tensor(tensor, _)) => tensor.shape().to_vec(),
                                _ => items.get(2).and_then(|id| self.numbers(*id)).unwrap_or_default(),
                            };
                            tensor(Tensor::Missing(shape, e))
                        }
                        skipped => skipped,
                    },
                }
            }
            ("torch._utils", "_rebuild_sparse_tensor", [layout, data, ..]) => {
                let sparse = self.sparse(*layout, *data, depth)?.ok_or_else(wrong)?;
                tensor(sparse)
            }
            (
                "torch._utils",
                "_rebuild_qtensor",
                [storage, offset, shape, strides, quantizer, rest @ ..],
            ) => {
                let storage = self.storage(*storage)?;
                let element = storage.element.clone().ok_or_else(wrong)?;
                let mut view =
                    self.view(storage, element, *offset, *shape, *strides).ok_or_else(wrong)?;
                view.requires_grad = self.is_true(rest.first());
                let quantizer = self.quantizer(*quantizer, &view.shape, depth)?.ok_or_else(wrong)?;
                tensor(Tensor::Quantized(view, quantizer))
            }
            ("torch._utils", "_rebuild_meta_tensor_no_storage", [_, shape, ..]) => {
                let shape = self.numbers(*shape).ok_or_else(wrong)?;
                let e = NO_ELEMENTS
                    .broken("it was saved on the device `meta`, so it has no elements");
                tensor(Tensor::Missing(shape, e))
            }
            ("torch.serialization", "_get_layout", [layout]) => self.at(*layout, depth),
            ("torch", "Size", [items]) => {
                Ok(Thing::List(self.graph.items(*items).ok_or_else(wrong)?))
            }
            ("torch", "device", [first, rest @ ..]) => {
                let kind = self.graph.text(*first).ok_or_else(wrong)?;
                let number = rest.first().and_then(|id| self.graph.integer(*id));
                let text = number.map_or(kind.to_owned(), |number| format!("{kind}:{number}"));
                Ok(Thing::Plain(Value::Text(text)))
            }
            ("_codecs", "encode", [text, ..]) => {
                let bytes = self.latin(*text).ok_or_else(wrong)?;
                Ok(Thing::Plain(Value::Bytes(bytes)))
            }
            ("builtins" | "__builtin__", "bytes", []) => Ok(Thing::Plain(Value::Bytes(Vec::new()))),
            ("builtins" | "__builtin__", "bytearray", _) => match args {
                [] => Ok(Thing::Plain(Value::Bytes(Vec::new()))),
                [bytes] => match self.at(*bytes, depth)? {
                    Thing::Plain(Value::Bytes(bytes)) => Ok(Thing::Plain(Value::Bytes(bytes))),
                    _ => Err(wrong()),
                },
                [text, _] => {
                    self.latin(*text).map(|b| Thing::Plain(Value::Bytes(b))).ok_or_else(wrong)
                }
                _ => Err(wrong()),
            },
            ("builtins" | "__builtin__", "complex", [real, imaginary]) => {
                let part = |id: Id| match self.graph.get(id) {
                    Node::Float(x) => Some(Value::Float(*x)),
                    _ => None,
                };
                let parts = part(*real).zip(part(*imaginary)).ok_or_else(wrong)?;
                Ok(Thing::Plain(Value::Array(vec![parts.0, parts.1])))
            }
            ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar", [dtype, bytes]) => {
                self.scalar(*dtype, *bytes, depth)?.ok_or_else(wrong)
            }
            // A JAX array has the arguments of a NumPy array.
            ("jax._src.array", "_reconstruct_array", [function, _, state, ..])
                if self.is_of_numpy(*function) =>
            {
                self.stated(*state, depth)
            }
            (
                "numpy.core.numeric" | "numpy._core.numeric",
                "_frombuffer",
                [bytes, dtype, shape, order, turned @ ..],
            ) => {
                let shape = self.numbers(*shape).ok_or_else(wrong)?;
                let turned = turned.first().copied();
                let (shape, axes) = self.stored_order(shape, *order, turned).ok_or_else(wrong)?;
                self.array(shape, axes, *dtype, *bytes, depth)
            }
            // In protocols 0 and 1, objects of a class are created like this.
            ("copyreg" | "copy_reg", "_reconstructor", [class, ..])
                if let Node::Global(module, name) = self.graph.get(*class) =>
            {
                self.unknown(module, name)
            }
            _ => self.unknown(module, name),
        }
    }

    /// Returns an object that is given a state: a NumPy array, a TorchScript object, or a tensor with Python
    /// attributes. The states of other objects have no values.
    fn built(&self, object: Id, state: Id, depth: usize) -> Result<Thing<'g>> {
        if let Node::Call(class, _) = self.graph.get(object)
            && let Node::Global(module, _) = self.graph.get(*class)
            && is_script(module)
        {
            return self.at(state, depth);
        }
        if let Node::Call(function, _) = self.graph.get(object)
            && self.is_of_numpy(*function)
        {
            return self.stated(state, depth);
        }
        Ok(self.at(object, depth)?.with_state(Some(&state)))
    }

    fn storage(&self, id: Id) -> Result<Storage> {
        let wrong = || CALL.broken("a reference to a storage is not in the form that torch writes");
        let Node::Persistent(pid) = self.graph.get(id) else { return Err(wrong()) };
        storage(self.graph, *pid)
    }

    fn view(
        &self,
        storage: Storage,
        element: Element,
        offset: Id,
        shape: Id,
        strides: Id,
    ) -> Option<View> {
        let offset = self.graph.integer(offset).and_then(|n| u64::try_from(n).ok())?;
        let (shape, strides) = (self.numbers(shape)?, self.numbers(strides)?);
        let (requires_grad, flags) = (false, Flags::default());
        let fits = shape.len() == strides.len();
        fits.then_some(View { storage, element, offset, shape, strides, requires_grad, flags })
    }

    fn is_true(&self, id: Option<&Id>) -> bool {
        id.is_some_and(|id| matches!(self.graph.get(*id), Node::Bool(true)))
    }

    /// Returns the numbers of a tuple, if none is negative.
    pub(super) fn numbers(&self, id: Id) -> Option<Vec<u64>> {
        let items = match self.graph.get(id) {
            // A tuple in a `torch.Size`.
            Node::Call(_, arguments) => match self.graph.items(*arguments)? {
                [items] => self.graph.items(*items)?,
                _ => return None,
            },
            _ => self.graph.items(id)?,
        };
        items.iter().map(|id| u64::try_from(self.graph.integer(*id)?).ok()).collect()
    }

    fn dtype(&self, id: Id) -> Result<Element> {
        let name = match self.graph.get(id) {
            Node::Global(module, name) if module == "torch" => name.as_str(),
            _ => return Err(CALL.broken("unknown dtype of torch")),
        };
        if name == PAIRS {
            return Ok(Element::PAIR);
        }
        Element::from_dtype(name)
            .ok_or_else(|| DTYPE.broken(format!("unknown element type `{}`", name.escaped())))
    }

    /// Returns the tensor for a view, given the flags in its last argument.
    fn flagged(&self, view: View, wants: Option<&Id>, flags: Option<&Id>) -> Tensor {
        let is_set = |name: &str| {
            let Some(Node::Dict(pairs)) = flags.map(|id| self.graph.get(*id)) else { return false };
            pairs.iter().any(|(key, value)| {
                self.graph.text(*key) == Some(name)
                    && matches!(self.graph.get(*value), Node::Bool(true))
            })
        };
        let conj = is_set("conj") && view.element.is_complex();
        let flags = Flags { conj, neg: is_set("neg") };
        let Element { dtype, logical } = &view.element;
        let has_sign = matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::Bf16)
            && (logical.is_none() || view.element.is_complex());
        if flags.neg && !has_sign {
            let e = NO_ELEMENTS.broken("its elements are stored without the negation that torch applies when it reads them");
            return Tensor::Missing(view.shape, e);
        }
        Tensor::Dense(View { requires_grad: self.is_true(wants), flags, ..view })
    }

    fn sparse(&self, layout: Id, data: Id, depth: usize) -> Result<Option<Tensor>> {
        let layout = match self.at(layout, depth)? {
            Thing::Plain(Value::Text(layout)) => layout,
            _ => return Ok(None),
        };
        let items = self.graph.items(data).unwrap_or_default();
        let view = |id: Id| match self.at(id, depth)? {
            Thing::Tensor(tensor, _) => match *tensor {
                Tensor::Dense(view) => Ok(Some(view)),
                _ => Ok(None),
            },
            _ => Ok(None),
        };
        let (compressed_axis, is_block) = match (layout.as_str(), items) {
            ("torch.sparse_coo", [coords, values, shape, ..]) => {
                let parts = view(*coords)?.zip(view(*values)?).zip(self.numbers(*shape));
                return Ok(
                    parts.and_then(|((coords, values), shape)| at_coords(shape, coords, values))
                );
            }
            ("torch.sparse_csr", _) => (Compressed::Rows, false),
            ("torch.sparse_csc", _) => (Compressed::Columns, false),
            ("torch.sparse_bsr", _) => (Compressed::Rows, true),
            ("torch.sparse_bsc", _) => (Compressed::Columns, true),
            (other, _) => {
                let e = DTYPE.broken(format!("unknown layout of tensors `{}`", other.escaped()));
                return Ok(Some(Tensor::Missing(Vec::new(), e)));
            }
        };
        let [indptr, indices, values, shape, ..] = items else { return Ok(None) };
        let parts = view(*indptr)?.zip(view(*indices)?).zip(view(*values)?);
        let parts = parts.zip(self.numbers(*shape));
        Ok(parts.and_then(|(((indptr, indices), values), shape)| {
            let parts = [(Role::Indptr, indptr), (Role::Indices, indices), (Role::Values, values)];
            compressed(compressed_axis, is_block, shape, parts)
        }))
    }

    /// Returns the bytes of a string whose characters are bytes, which is how protocol 2 stores bytes.
    fn latin(&self, id: Id) -> Option<Vec<u8>> {
        self.graph.text(id)?.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
    }
}

/// Returns a sparse tensor with coordinates of all dimensions, or of the first ones, so that its values are tensors.
fn at_coords(shape: Vec<u64>, coords: View, values: View) -> Option<Tensor> {
    let &[dims, count] = coords.shape.as_slice() else { return None };
    let inner = shape.get(usize::try_from(dims).ok()?..)?;
    if values.shape.split_first() != Some((&count, inner)) {
        return None;
    }
    let (layout, attributes) = match (inner, dims) {
        ([], _) => (Layout::SparseCoo, Attributes::new()),
        (_, 0) => {
            let e = DTYPE.broken("sparse tensors without coordinates are not supported");
            return Some(Tensor::Missing(shape, e));
        }
        _ => (Layout::SparseHybrid, tiles::hybrid(dims)),
    };
    let parts = vec![(Role::Coords, coords), (Role::Values, values)];
    Some(Tensor::Sparse { shape, layout, attributes, parts })
}

/// Returns a tensor in compressed rows or columns, of elements or blocks, possibly in batches or with further dense
/// dimensions.
fn compressed(
    compressed_axis: Compressed,
    is_block: bool,
    shape: Vec<u64>,
    parts: [(Role, View); 3],
) -> Option<Tensor> {
    let [(_, indptr), (_, indices), (_, values)] = &parts;
    let (_, batch) = indptr.shape.split_last()?;
    let (count, of_indices) = indices.shape.split_last()?;
    let own = values.shape.strip_prefix(batch)?.strip_prefix(&[*count])?;
    let (block, inner) = match (is_block, own) {
        (true, [height, width, inner @ ..]) => ([*height, *width], inner),
        (true, _) => return None,
        (false, inner) => ([1, 1], inner),
    };
    let matrix = shape.strip_prefix(batch)?;
    if of_indices != batch || matrix.get(2..)? != inner {
        return None;
    }
    let is_plain =
        compressed_axis == Compressed::Rows && !is_block && batch.is_empty() && inner.is_empty();
    let (layout, attributes) = match is_plain {
        true => (Layout::SparseCsr, Attributes::new()),
        false => (Layout::SparseBlocks, tiles::blocks(compressed_axis, block, batch.len() as u64)),
    };
    Some(Tensor::Sparse { shape, layout, attributes, parts: parts.into() })
}

/// Returns the storage to which a persistent id refers.
pub(super) fn storage(graph: &Graph, pid: Id) -> Result<Storage> {
    let wrong = || CALL.broken("a reference to a storage is not in the form that torch writes");
    let Some([kind, class, key, _, len, rest @ ..]) = graph.items(pid) else { return Err(wrong()) };
    if graph.text(*kind) != Some("storage") {
        return Err(wrong());
    }
    let class = match graph.get(*class) {
        Node::Global(module, name)
            if matches!(module.as_str(), "torch" | "torch.cuda" | "torch.storage") =>
        {
            name
        }
        _ => return Err(wrong()),
    };
    let element = match class.as_str() {
        "UntypedStorage" | "TypedStorage" => None,
        name => Some(Element::from_storage(name).ok_or_else(|| {
            DTYPE.broken(format!("unknown type of storage `{}`", name.escaped()))
        })?),
    };
    let key = graph.text(*key).ok_or_else(wrong)?.to_owned();
    let mut len = graph.integer(*len).and_then(|n| u64::try_from(n).ok()).ok_or_else(wrong)?;
    let (mut start, mut count) = (0, len);
    if let Some([_, offset, size]) = rest.first().and_then(|id| graph.items(*id)) {
        // The stored storage is the one of which this is a view; `key` is that of the former.
        let number = |id: Id| graph.integer(id).and_then(|n| u64::try_from(n).ok());
        start = number(*offset).ok_or_else(wrong)?;
        count = number(*size).ok_or_else(wrong)?;
        len = len.max(start.checked_add(count).ok_or_else(wrong)?);
    }
    Ok(Storage { key, element, len, start, count })
}

/// Returns an integer; beyond 64 bits in CBOR's form.
pub(super) fn integer(n: i128) -> Value {
    match n {
        n if (-(1 << 64)..1 << 64).contains(&n) => Value::Integer(n),
        n => long(&n.to_le_bytes()),
    }
}

/// Converts an integer beyond 64 bits, given in little-endian two's complement, to a CBOR tag and the big-endian bytes
/// of its magnitude.
fn long(bytes: &[u8]) -> Value {
    let is_negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
    let size = bytes.iter().rev().map(|b| if is_negative { !b } else { *b });
    let size = size.skip_while(|b| *b == 0).collect();
    Value::Tag(if is_negative { 3 } else { 2 }, Box::new(Value::Bytes(size)))
}
