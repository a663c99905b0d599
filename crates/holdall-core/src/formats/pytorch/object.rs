//! What the values of a pickle are: tensors, containers, plain values. What a pickle would call is looked up in a list here,
//! and nowhere else.

use super::{CALL, DEPTH, DTYPE, GLOBAL, NO_ELEMENTS, TOO_MANY};
use crate::error::{Error, Result, Shown as _};
use crate::formats::named::{Element, PAIRS, is_dtype};
use crate::layout::dense::Dense;
use crate::layout::sparse::tiles::{self, Compressed};
use crate::layout::strided::stored_by;
use crate::model::{Attributes, ByteOrder, DType, Layout, Role, Value};
use crate::wire::npy;
use crate::wire::pickle::{Graph, Id, Node};

/// The module of the types that JAX adds to NumPy's.
const ML_DTYPES: &str = "ml_dtypes";

/// Whether classes of this module are of TorchScript: their code is in the file, and is not looked at.
fn is_script(module: &str) -> bool {
    module == "__torch__" || module.starts_with("__torch__.")
}

/// A storage, as a pickle names it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Storage {
    pub(super) key: String,
    /// `None` of one without a type, whose length is in bytes.
    pub(super) element: Option<Element>,
    /// Elements, or bytes.
    pub(super) len: u64,
    /// Where it begins in the storage of that key, in elements, and how many it has: a view, in files of before 1.6.
    pub(super) start: u64,
    pub(super) count: u64,
}

/// A view of a storage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    pub(super) storage: Storage,
    pub(super) element: Element,
    /// In elements.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    pub(super) strides: Vec<u64>,
    pub(super) requires_grad: bool,
    pub(super) flags: Flags,
}

/// What torch does to elements when it reads them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Flags {
    /// Imaginary parts have the other sign.
    pub(super) conj: bool,
    /// Numbers have the other sign.
    pub(super) neg: bool,
}

/// A tensor.
#[derive(Debug, Clone)]
pub(super) enum Tensor {
    Dense(View),
    /// With what its numbers mean, for attributes.
    Quantized(View, Vec<(&'static str, Value)>),
    /// With what else there is to know, as attributes.
    Sparse {
        shape: Vec<u64>,
        layout: Layout,
        attributes: Attributes,
        parts: Vec<(Role, View)>,
    },
    /// An array whose bytes stand in the pickle.
    Array {
        shape: Vec<u64>,
        /// The attributes that say how elements lie, where that is not row by row.
        strides: Option<Attributes>,
        element: Element,
        order: ByteOrder,
        /// As in a header of `.npy`, where NumPy's type has no like here.
        descr: Option<String>,
        bytes: Vec<u8>,
    },
    /// Listed, but not there: why.
    Missing(Vec<u64>, Error),
}

impl Tensor {
    /// What it takes from storages.
    pub(super) fn views(&self) -> Vec<&View> {
        match self {
            Tensor::Dense(view) | Tensor::Quantized(view, _) => vec![view],
            Tensor::Sparse { parts, .. } => parts.iter().map(|(_, view)| view).collect(),
            Tensor::Array { .. } | Tensor::Missing(..) => Vec::new(),
        }
    }

    pub(super) fn views_mut(&mut self) -> Vec<&mut View> {
        match self {
            Tensor::Dense(view) | Tensor::Quantized(view, _) => vec![view],
            Tensor::Sparse { parts, .. } => parts.iter_mut().map(|(_, view)| view).collect(),
            Tensor::Array { .. } | Tensor::Missing(..) => Vec::new(),
        }
    }
}

/// What a value is.
#[derive(Debug)]
pub(super) enum Thing<'g> {
    Tensor(Box<Tensor>),
    Dict(&'g [(Id, Id)]),
    List(&'g [Id]),
    Plain(Value),
    /// What the list does not have, where that is left out.
    Unknown(String),
}

/// Reads the values of a graph.
pub(super) struct Objects<'g> {
    pub(super) graph: &'g Graph,
    /// Whether what is not in the list is left out.
    pub(super) skips: bool,
    pub(super) depth: usize,
}

/// Checks that it does not take more steps than that to go through a value and all that it is made of.
///
/// # Errors
/// [`TOO_MANY`].
pub(super) fn check_steps(graph: &Graph, root: Id, most: u64) -> Result<()> {
    let message = match graph.steps(root) {
        steps if steps <= most => return Ok(()),
        u64::MAX => "a value is made of itself, or of others too many times over".to_owned(),
        steps => format!("it takes {steps} steps to go through all values, at most {most}"),
    };
    Err(TOO_MANY.broken(message))
}

impl<'g> Objects<'g> {
    /// What value `id` is.
    ///
    /// # Errors
    /// [`GLOBAL`], [`CALL`], [`DTYPE`].
    pub(super) fn get(&self, id: Id) -> Result<Thing<'g>> {
        self.at(id, 0)
    }

    fn at(&self, id: Id, depth: usize) -> Result<Thing<'g>> {
        if depth > self.depth {
            return Err(DEPTH.broken(format!("calls nest more than {} deep", self.depth)));
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
            // A storage that stands alone is all of its elements.
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
                Thing::Tensor(Box::new(Tensor::Dense(view)))
            }
            Node::Built(of, state) => self.built(*of, *state, depth.saturating_add(1))?,
            Node::Call(of, arguments) => match self.graph.get(*of) {
                Node::Global(module, name) => {
                    let items = self.graph.items(*arguments).unwrap_or_default();
                    self.called(module, name, items, depth.saturating_add(1))?
                }
                // A call of what a call gives: of something that is not known, then.
                _ => match self.at(*of, depth.saturating_add(1))? {
                    Thing::Unknown(what) => Thing::Unknown(what),
                    _ => return Err(CALL.broken("a value is called")),
                },
            },
        })
    }

    fn unknown(&self, module: &str, name: &str) -> Result<Thing<'g>> {
        let what = format!("{}.{}", module.shown(), name.shown());
        match self.skips {
            true => Ok(Thing::Unknown(what)),
            false => Err(GLOBAL.broken(format!("the pickle would import `{what}`"))),
        }
    }

    /// What a call of a known function gives. Elements of a type that is not known are the fault of their tensor, whose shape
    /// is the third argument of all functions that have a storage.
    fn called(&self, module: &str, name: &str, args: &'g [Id], depth: usize) -> Result<Thing<'g>> {
        match self.made(module, name, args, depth) {
            Err(e) if e.code() == DTYPE.code && name.starts_with("_rebuild") => {
                match args.get(2).and_then(|id| self.numbers(*id)) {
                    Some(shape) => Ok(Thing::Tensor(Box::new(Tensor::Missing(shape, e)))),
                    None => Err(e),
                }
            }
            made => made,
        }
    }

    fn made(&self, module: &str, name: &str, args: &'g [Id], depth: usize) -> Result<Thing<'g>> {
        let wrong =
            || CALL.broken(format!("`{module}.{name}` has other arguments than torch writes"));
        let tensor = |tensor| Ok(Thing::Tensor(Box::new(tensor)));
        match (module, name, args) {
            // An object of TorchScript is what its fields are; one without a state has none.
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
            // Of a device whose memory torch does not write as it is.
            | (
                "torch._utils",
                "_rebuild_device_tensor_from_cpu_tensor" | "_rebuild_device_tensor_from_numpy",
                [data, _, _, rest @ ..],
            )
            | ("torch.nn.parameter", "Parameter", [data, rest @ ..]) => {
                let wants = self.is_true(rest.first());
                Ok(match self.at(*data, depth)? {
                    Thing::Tensor(mut of) => {
                        if let Tensor::Dense(view) | Tensor::Quantized(view, _) = &mut *of {
                            view.requires_grad |= wants;
                        }
                        Thing::Tensor(of)
                    }
                    other => other,
                })
            }
            ("torch._tensor", "_rebuild_from_type_v2", [of, class, arguments, ..]) => {
                // A subclass of tensors may give its elements another meaning.
                match (self.graph.get(*of), self.graph.get(*class)) {
                    (Node::Global(module, name), Node::Global(of, class))
                        if matches!(
                            (of.as_str(), class.as_str()),
                            ("torch", "Tensor") | ("torch.nn.parameter", "Parameter")
                        ) =>
                    {
                        let items = self.graph.items(*arguments).ok_or_else(wrong)?;
                        self.called(module, name, items, depth)
                    }
                    (_, Node::Global(of, class)) => self.unknown(of, class),
                    _ => Err(wrong()),
                }
            }
            ("torch._utils", "_rebuild_sparse_tensor", [layout, data, ..]) => {
                let sparse = self.sparse(*layout, *data, depth)?.ok_or_else(wrong)?;
                tensor(sparse)
            }
            (
                "torch._utils",
                "_rebuild_qtensor",
                [storage, offset, shape, strides, quantizer, ..],
            ) => {
                let storage = self.storage(*storage)?;
                let element = storage.element.clone().ok_or_else(wrong)?;
                let view =
                    self.view(storage, element, *offset, *shape, *strides).ok_or_else(wrong)?;
                let said = self.quantizer(*quantizer).ok_or_else(wrong)?;
                tensor(Tensor::Quantized(view, said))
            }
            ("torch._utils", "_rebuild_meta_tensor_no_storage", [_, shape, ..]) => {
                let shape = self.numbers(*shape).ok_or_else(wrong)?;
                let e = NO_ELEMENTS
                    .broken("it was saved on the device `meta`, which holds no elements");
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
                let name = self.numpy_name(*dtype).ok_or_else(wrong)?;
                let mut bytes = self.bytes(*bytes, depth)?.ok_or_else(wrong)?;
                // Times and records are no values that attributes have.
                let of = self.numpy_dtype(*dtype);
                let Some(of) = of.filter(|of| of.descr.is_none() || is_text(of)) else {
                    return Ok(Thing::Unknown(name.shown().to_string()));
                };
                let element = Element { dtype: of.dtype, logical: of.logical_type.clone() };
                if of.byte_order == ByteOrder::Big {
                    element.swap(&mut bytes);
                }
                let value = if is_text(&of) { text(&of, bytes) } else { number(&element, &bytes) };
                value.map(Thing::Plain).ok_or_else(wrong)
            }
            (
                "numpy.core.numeric" | "numpy._core.numeric",
                "_frombuffer",
                [bytes, dtype, shape, order, turned @ ..],
            ) => {
                let mut shape = self.numbers(*shape).ok_or_else(wrong)?;
                let axes = match (self.graph.text(*order), turned) {
                    (Some("F"), _) => Some((0..shape.len()).rev().collect()),
                    // The shape is that in which the elements are stored, row by row; `turned` says which of its dimensions each is.
                    (Some("K"), [turned]) => {
                        let turned = self.numbers(*turned).ok_or_else(wrong)?;
                        let axes = inverse(&turned, shape.len()).ok_or_else(wrong)?;
                        let stored = shape.clone();
                        for (axis, size) in axes.iter().zip(stored) {
                            *shape.get_mut(*axis).ok_or_else(wrong)? = size;
                        }
                        Some(axes)
                    }
                    _ => None,
                };
                self.array(shape, axes, *dtype, *bytes, depth)
            }
            _ => self.unknown(module, name),
        }
    }

    /// Bytes, of Python 2 as well; nothing where it is anything else.
    fn bytes(&self, id: Id, depth: usize) -> Result<Option<Vec<u8>>> {
        if let Node::OldText(bytes) = self.graph.get(id) {
            return Ok(Some(bytes.clone()));
        }
        Ok(match self.at(id, depth)? {
            Thing::Plain(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        })
    }

    /// An array of NumPy, whose dimensions are stored in the order of `axes`.
    fn array(
        &self,
        shape: Vec<u64>,
        axes: Option<Vec<usize>>,
        dtype: Id,
        bytes: Id,
        depth: usize,
    ) -> Result<Thing<'g>> {
        let wrong = || CALL.broken("the bytes of an array are not as NumPy writes them");
        let Some(of) = self.numpy_dtype(dtype) else {
            let e = DTYPE.broken("its elements are not numbers, times or texts");
            return Ok(Thing::Tensor(Box::new(Tensor::Missing(shape, e))));
        };
        let bytes = self.bytes(bytes, depth)?.ok_or_else(wrong)?;
        let npy::Element { dtype, logical_type: logical, byte_order: order, descr, inner } = of;
        let strides = axes.and_then(|axes| stored_by(&shape, &axes, inner));
        let (element, shape) =
            (Element { dtype, logical }, shape.into_iter().chain(inner).collect());
        let array = Tensor::Array { shape, strides, element, order, descr, bytes };
        Ok(Thing::Tensor(Box::new(array)))
    }

    /// An object that is given a state: an array of NumPy, or one of TorchScript; of the others the state says nothing about values.
    fn built(&self, of: Id, state: Id, depth: usize) -> Result<Thing<'g>> {
        if let Node::Call(class, _) = self.graph.get(of)
            && let Node::Global(module, _) = self.graph.get(*class)
            && is_script(module)
        {
            return self.at(state, depth);
        }
        if let Node::Call(function, _) = self.graph.get(of)
            && let Node::Global(module, name) = self.graph.get(*function)
            && matches!(module.as_str(), "numpy.core.multiarray" | "numpy._core.multiarray")
            && name == "_reconstruct"
        {
            let wrong = || CALL.broken("the state of an array is not as NumPy writes it");
            let Some([_, shape, dtype, is_fortran, bytes]) = self.graph.items(state) else {
                return Err(wrong());
            };
            let shape = self.numbers(*shape).ok_or_else(wrong)?;
            let is_fortran = matches!(self.graph.get(*is_fortran), Node::Bool(true));
            let axes = is_fortran.then(|| (0..shape.len()).rev().collect());
            return self.array(shape, axes, *dtype, *bytes, depth);
        }
        self.at(of, depth)
    }

    fn storage(&self, id: Id) -> Result<Storage> {
        let wrong = || CALL.broken("a storage is not named as torch does");
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

    /// The numbers of a tuple, none negative.
    pub(super) fn numbers(&self, id: Id) -> Option<Vec<u64>> {
        let items = match self.graph.get(id) {
            // `torch.Size` of them.
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
            _ => return Err(CALL.broken("a dtype is not one of torch")),
        };
        if name == PAIRS {
            return Ok(Element::PAIR);
        }
        Element::of_dtype(name).ok_or_else(|| {
            DTYPE.broken(format!("elements of type `{}` are not read", name.shown()))
        })
    }

    /// A view as what the last argument of a tensor says of its elements makes of it.
    fn flagged(&self, view: View, wants: Option<&Id>, said: Option<&Id>) -> Tensor {
        let is_set = |name: &str| {
            let Some(Node::Dict(pairs)) = said.map(|id| self.graph.get(*id)) else { return false };
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
            let e = NO_ELEMENTS.broken("its elements are negated only when torch reads them");
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
            Thing::Tensor(tensor) => match *tensor {
                Tensor::Dense(view) => Ok(Some(view)),
                _ => Ok(None),
            },
            _ => Ok(None),
        };
        let (of, is_block) = match (layout.as_str(), items) {
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
                let e =
                    DTYPE.broken(format!("tensors of the layout `{}` are not read", other.shown()));
                return Ok(Some(Tensor::Missing(Vec::new(), e)));
            }
        };
        let [indptr, indices, values, shape, ..] = items else { return Ok(None) };
        let parts = view(*indptr)?.zip(view(*indices)?).zip(view(*values)?);
        let parts = parts.zip(self.numbers(*shape));
        Ok(parts.and_then(|(((indptr, indices), values), shape)| {
            let parts = [(Role::Indptr, indptr), (Role::Indices, indices), (Role::Values, values)];
            compressed(of, is_block, shape, parts)
        }))
    }

    fn quantizer(&self, id: Id) -> Option<Vec<(&'static str, Value)>> {
        let items = self.graph.items(id)?;
        let scheme = match self.graph.get(*items.first()?) {
            Node::Global(_, name) => Value::Text(format!("torch.{name}")),
            _ => return None,
        };
        let mut said = vec![("torch.qscheme", scheme)];
        if let [_, scale, zero] = items
            && let (Node::Float(scale), Some(zero)) =
                (self.graph.get(*scale), self.graph.integer(*zero))
        {
            said.push(("scale", Value::Float(*scale)));
            said.push(("zero_point", Value::Integer(zero)));
        }
        Some(said)
    }

    /// Text whose characters are bytes: how protocol 2 has bytes.
    fn latin(&self, id: Id) -> Option<Vec<u8>> {
        self.graph.text(id)?.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
    }

    /// What `numpy.dtype('f4', False, True)` with its state, whose second item is the order of bytes, is called: `<f4`; one
    /// of ml_dtypes: `bfloat16`.
    fn numpy_name(&self, id: Id) -> Option<String> {
        let (of, order) = match self.graph.get(id) {
            Node::Built(of, state) => {
                (*of, self.graph.items(*state)?.get(1).and_then(|id| self.graph.text(*id)))
            }
            _ => (id, None),
        };
        let Node::Call(function, arguments) = self.graph.get(of) else { return None };
        match self.graph.get(*function) {
            Node::Global(module, name) if module == "numpy" && name == "dtype" => {}
            _ => return None,
        }
        let name = *self.graph.items(*arguments)?.first()?;
        let name = match self.graph.get(name) {
            Node::Global(module, name) if module == ML_DTYPES => return Some(name.clone()),
            _ => self.graph.text(name)?,
        };
        let order = order.filter(|order| matches!(*order, "<" | ">" | "|" | "=")).unwrap_or("<");
        let order = if order == "=" { "<" } else { order };
        let order = if matches!(name, "b1" | "i1" | "u1") { "|" } else { order };
        let unit = self.unit(id).unwrap_or_default();
        Some(format!("{order}{name}{unit}"))
    }

    /// The unit that the state of a type of times says: `[25us]`.
    fn unit(&self, id: Id) -> Option<String> {
        let Node::Built(_, state) = self.graph.get(id) else { return None };
        let [.., said] = self.graph.items(*state)? else { return None };
        let [_, said] = self.graph.items(*said)? else { return None };
        let [unit, count, ..] = self.graph.items(*said)? else { return None };
        let unit = self.bytes(*unit, 0).ok()??;
        let unit = String::from_utf8(unit).ok().filter(|unit| unit != "generic")?;
        match self.graph.integer(*count)? {
            1 => Some(format!("[{unit}]")),
            count => Some(format!("[{count}{unit}]")),
        }
    }

    /// What elements of a type of NumPy's or of ml_dtypes are made of; nothing of objects and records.
    fn numpy_dtype(&self, id: Id) -> Option<npy::Element> {
        let name = self.numpy_name(id)?;
        if let Node::Built(_, state) = self.graph.get(id) {
            // Fields, and arrays as elements.
            let has = |at: usize| {
                let item = self.graph.items(*state).and_then(|items| items.get(at));
                item.is_some_and(|id| !matches!(self.graph.get(*id), Node::None))
            };
            if has(2) || has(3) {
                return None;
            }
        }
        if let Ok(element) = npy::any_element(&name) {
            return Some(element);
        }
        let Element { dtype, logical: logical_type } = Element::of_dtype(&name)?;
        let byte_order = ByteOrder::Little;
        Some(npy::Element { dtype, logical_type, byte_order, descr: None, inner: None })
    }
}

/// A sparse tensor by coordinates of all dimensions, or of the first ones: then its values are tensors.
fn at_coords(shape: Vec<u64>, coords: View, values: View) -> Option<Tensor> {
    let &[dims, count] = coords.shape.as_slice() else { return None };
    let inner = shape.get(usize::try_from(dims).ok()?..)?;
    if values.shape.split_first() != Some((&count, inner)) {
        return None;
    }
    let (layout, attributes) = match (inner, dims) {
        ([], _) => (Layout::SparseCoo, Attributes::new()),
        (_, 0) => {
            let e = DTYPE.broken("sparse tensors without coordinates are not read");
            return Some(Tensor::Missing(shape, e));
        }
        _ => (Layout::SparseHybrid, tiles::hybrid(dims)),
    };
    let parts = vec![(Role::Coords, coords), (Role::Values, values)];
    Some(Tensor::Sparse { shape, layout, attributes, parts })
}

/// One in compressed rows or columns, of single elements or of blocks, perhaps in batches, perhaps of tensors.
fn compressed(
    of: Compressed,
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
    let is_plain = of == Compressed::Rows && !is_block && batch.is_empty() && inner.is_empty();
    let (layout, attributes) = match is_plain {
        true => (Layout::SparseCsr, Attributes::new()),
        false => (Layout::SparseBlocks, tiles::blocks(of, block, batch.len() as u64)),
    };
    Some(Tensor::Sparse { shape, layout, attributes, parts: parts.into() })
}

/// Where each dimension of a permutation of `count` is in it.
fn inverse(permutation: &[u64], count: usize) -> Option<Vec<usize>> {
    let at = |axis: usize| permutation.iter().position(|a| usize::try_from(*a) == Ok(axis));
    if permutation.len() != count {
        return None;
    }
    (0..count).map(at).collect()
}

/// The storage that a persistent id names.
pub(super) fn storage(graph: &Graph, pid: Id) -> Result<Storage> {
    let wrong = || CALL.broken("a storage is not named as torch does");
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
        name => Some(Element::of_storage(name).ok_or_else(|| {
            DTYPE.broken(format!("storages of type `{}` are not read", name.shown()))
        })?),
    };
    let key = graph.text(*key).ok_or_else(wrong)?.to_owned();
    let mut len = graph.integer(*len).and_then(|n| u64::try_from(n).ok()).ok_or_else(wrong)?;
    let (mut start, mut count) = (0, len);
    if let Some([_, offset, size]) = rest.first().and_then(|id| graph.items(*id)) {
        // What is kept is the storage that this one is a view of; `key` is of that.
        let number = |id: Id| graph.integer(id).and_then(|n| u64::try_from(n).ok());
        start = number(*offset).ok_or_else(wrong)?;
        count = number(*size).ok_or_else(wrong)?;
        len = len.max(start.checked_add(count).ok_or_else(wrong)?);
    }
    Ok(Storage { key, element, len, start, count })
}

/// An integer; one beyond 64 bits as CBOR has it.
pub(super) fn integer(n: i128) -> Value {
    match n {
        n if (-(1 << 64)..1 << 64).contains(&n) => Value::Integer(n),
        n => long(&n.to_le_bytes()),
    }
}

/// An integer beyond 64 bits, in two's complement, the lowest byte first: a tag, and the bytes of its size, the highest first.
fn long(bytes: &[u8]) -> Value {
    let is_negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
    let size = bytes.iter().rev().map(|b| if is_negative { !b } else { *b });
    let size = size.skip_while(|b| *b == 0).collect();
    Value::Tag(if is_negative { 3 } else { 2 }, Box::new(Value::Bytes(size)))
}

/// Whether elements are texts, of characters or of bytes.
fn is_text(of: &npy::Element) -> bool {
    of.descr.as_deref().is_some_and(|descr| matches!(descr.as_bytes(), [_, b'U' | b'S', ..]))
}

/// The text that the bytes of an element are, without the zeros behind it.
fn text(of: &npy::Element, mut bytes: Vec<u8>) -> Option<Value> {
    if of.dtype == DType::U32 {
        let (chars, _) = bytes.as_chunks::<4>();
        let chars = chars.iter().map(|c| char::from_u32(u32::from_le_bytes(*c)));
        let text: String = chars.collect::<Option<_>>()?;
        return Some(Value::Text(text.trim_end_matches('\0').to_owned()));
    }
    let len = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last.saturating_add(1));
    bytes.truncate(len);
    Some(Value::Bytes(bytes))
}

/// The number that the bytes of an element are; of a complex one both parts.
fn number(element: &Element, bytes: &[u8]) -> Option<Value> {
    if bytes.len() as u64 != element.width() {
        return None;
    }
    if element.is_complex() {
        let part = Element { dtype: element.dtype, logical: None };
        let (real, imaginary) = bytes.split_at_checked(bytes.len() / 2)?;
        return Some(Value::Array(vec![number(&part, real)?, number(&part, imaginary)?]));
    }
    let dense = Dense::new(element.dtype, element.logical.clone(), [], bytes.to_vec());
    if element.logical.is_some() {
        return Some(Value::Float(f64::from(*dense.to_f32().ok()?.first()?)));
    }
    Some(match element.dtype {
        DType::F64 => Value::Float(f64::from_le_bytes(bytes.try_into().ok()?)),
        DType::F32 | DType::F16 | DType::Bf16 => {
            Value::Float(f64::from(*dense.to_f32().ok()?.first()?))
        }
        DType::Bool => Value::Bool(*bytes.first()? != 0),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
            let mut wide = [0; 16];
            wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Value::Integer(i128::from_le_bytes(wide))
        }
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
            let mut wide = [if bytes.last()? & 0x80 != 0 { 0xff } else { 0 }; 16];
            wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Value::Integer(i128::from_le_bytes(wide))
        }
    })
}
