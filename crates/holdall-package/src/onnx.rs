//! Reads the inputs and outputs of an ONNX file from its graph, without its weights.

pub mod engine;

use crate::description::{DimSpec, ShapeSpec, ValueSpec};
use crate::value::ValueType;
use holdall_collections::HashSet;
use holdall_core::error::Result;
use holdall_core::wire::protobuf::{Field, Fields, varints};

holdall_core::error::rules! {
    /// Rules of reading signatures of ONNX files.
    pub static RULES;

    /// A file that is not an ONNX model.
    pub NOT_A_MODEL: Malformed "onnx/not-a-model"
        "An ONNX model has a version, a set of operators and a graph.";
}

/// Maximum nesting of messages; graphs contain graphs if a model branches.
const MAX_DEPTH: usize = 48;
/// Maximum number of inputs or outputs read from one graph; real graphs have a few.
const MAX_VALUES: usize = 4096;
/// The number of ONNX's 64-bit float type.
const DOUBLE: u64 = 11;
/// Maximum number of dimensions of one value.
const MAX_RANK: usize = 64;

/// The signature of an ONNX file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signature {
    /// Version of the ONNX file format.
    pub ir_version: u64,
    /// Version of the standard operator set.
    pub opset: u64,
    /// Name of the graph.
    pub name: Option<String>,
    /// Inputs, without those that have a value in the file.
    pub inputs: Vec<Declared>,
    /// Outputs.
    pub outputs: Vec<Declared>,
}

/// An input or output of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declared {
    /// A value that a package can declare.
    Tensor(ValueSpec),
    /// A value that a package cannot declare: its name, and the reason.
    Other(String, String),
}

/// Reads the signature of the ONNX model in `bytes`, the whole file.
///
/// # Errors
/// Returns [`NOT_A_MODEL`], [`holdall_core::wire::protobuf::BROKEN`].
pub fn signature(bytes: &[u8]) -> Result<Signature> {
    let mut out = Signature::default();
    let mut graph = None;
    let mut model = Fields::new(bytes);
    while let Some((number, field)) = model.next()? {
        match number {
            1 => out.ir_version = field.varint().unwrap_or(0),
            7 => graph = field.bytes(),
            8 => {
                let (domain, version) = operators(field.bytes().unwrap_or_default())?;
                if matches!(domain, "" | "ai.onnx") {
                    out.opset = out.opset.max(version);
                }
            }
            _ => {}
        }
    }
    let Some(graph) = graph.filter(|_| out.ir_version > 0) else {
        return Err(NOT_A_MODEL.broken("the file has no version, or no graph"));
    };
    let mut valued: HashSet<&str> = HashSet::default();
    let mut fields = Fields::new(graph);
    while let Some((number, field)) = fields.next()? {
        match number {
            2 => out.name = field.text().filter(|s| !s.is_empty()).map(str::to_owned),
            5 => {
                valued.extend(text_of(field.bytes().unwrap_or_default(), 8)?);
            }
            11 if out.inputs.len() < MAX_VALUES => {
                out.inputs.push(value(field.bytes().unwrap_or_default())?);
            }
            12 if out.outputs.len() < MAX_VALUES => {
                out.outputs.push(value(field.bytes().unwrap_or_default())?);
            }
            11 | 12 => {
                let message = format!("the graph has more than {MAX_VALUES} inputs or outputs");
                return Err(NOT_A_MODEL.broken(message));
            }
            _ => {}
        }
    }
    // Early versions list every weight as an input too.
    out.inputs.retain(|input| !valued.contains(input.name()));
    Ok(out)
}

impl Declared {
    /// Returns the name in the graph.
    pub fn name(&self) -> &str {
        match self {
            Declared::Tensor(spec) => &spec.name,
            Declared::Other(name, _) => name,
        }
    }
}

/// The kinds of messages in an ONNX file, as far as they contain other messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageKind {
    Model,
    Operators,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    ValueInfo,
    Type,
    TensorType,
    /// A type in a sequence type, or in an optional type.
    Sequence,
    Shape,
    /// A message of numbers and texts only.
    Flat,
    /// Packed integers.
    Numbers,
    /// Text or bytes.
    Opaque,
}

impl MessageKind {
    /// Returns the kind of a field's bytes.
    fn field(self, number: u64) -> MessageKind {
        match (self, number) {
            (MessageKind::Model, 7) | (MessageKind::Attribute, 6 | 11) => MessageKind::Graph,
            (MessageKind::Model, 8) => MessageKind::Operators,
            (MessageKind::Graph, 1) => MessageKind::Node,
            (MessageKind::Graph, 5)
            | (MessageKind::Attribute, 5 | 10)
            | (MessageKind::SparseTensor, 1 | 2) => MessageKind::Tensor,
            (MessageKind::Graph, 15) | (MessageKind::Attribute, 22 | 23) => {
                MessageKind::SparseTensor
            }
            (MessageKind::Graph, 11..=13) => MessageKind::ValueInfo,
            (MessageKind::Node, 5) => MessageKind::Attribute,
            (MessageKind::ValueInfo, 2) | (MessageKind::Attribute, 14 | 15) => MessageKind::Type,
            (MessageKind::Type, 1 | 8) => MessageKind::TensorType,
            (MessageKind::Type, 4 | 9) => MessageKind::Sequence,
            (MessageKind::Sequence, 1) => MessageKind::Type,
            (MessageKind::TensorType, 2) => MessageKind::Shape,
            (MessageKind::Shape, 1) | (MessageKind::Tensor, 13) => MessageKind::Flat,
            (MessageKind::Tensor, 1 | 5 | 7 | 11)
            | (MessageKind::Attribute, 8)
            | (MessageKind::SparseTensor, 3) => MessageKind::Numbers,
            _ => MessageKind::Opaque,
        }
    }
}

/// Checks that the ONNX model in `bytes`, the whole file, consists of complete fields, down to the numbers of
/// its weights, for readers that assume this.
///
/// # Errors
/// Returns [`NOT_A_MODEL`], [`holdall_core::wire::protobuf::BROKEN`].
pub fn check(bytes: &[u8]) -> Result<()> {
    walk(bytes, &mut |_, _, _| {})
}

/// Visits all messages, and passes each field to `each` with the kind of its message.
fn walk(bytes: &[u8], each: &mut dyn FnMut(MessageKind, u64, Field<'_>)) -> Result<()> {
    let mut open = vec![(MessageKind::Model, Fields::new(bytes))];
    while let Some((part, fields)) = open.last_mut() {
        let part = *part;
        let Some((number, field)) = fields.next()? else {
            open.pop();
            continue;
        };
        each(part, number, field);
        let Some(inner) = field.bytes() else { continue };
        match part.field(number) {
            MessageKind::Opaque => {}
            MessageKind::Numbers => varints(inner)?,
            _ if open.len() == MAX_DEPTH => {
                let e = format!("messages are more than {MAX_DEPTH} deep in each other");
                return Err(NOT_A_MODEL.broken(e));
            }
            part => open.push((part, Fields::new(inner))),
        }
    }
    Ok(())
}

/// Returns `true` if the ONNX model in `bytes`, the whole file, has 64-bit floats: inputs, outputs, weights
/// or values between.
///
/// # Errors
/// Returns the same errors as [`check`].
pub fn has_doubles(bytes: &[u8]) -> Result<bool> {
    let mut found = false;
    walk(bytes, &mut |part, number, field| {
        let is_type =
            matches!((part, number), (MessageKind::Tensor, 2) | (MessageKind::TensorType, 1));
        found |= is_type && field.varint() == Some(DOUBLE);
    })?;
    Ok(found)
}

/// Returns the domain and the version of an operator set.
fn operators(bytes: &[u8]) -> Result<(&str, u64)> {
    let (mut domain, mut version) = ("", 0);
    let mut fields = Fields::new(bytes);
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => domain = field.text().unwrap_or("?"),
            2 => version = field.varint().unwrap_or(0),
            _ => {}
        }
    }
    Ok((domain, version))
}

/// Returns the text in field `wanted` of a message.
fn text_of(bytes: &[u8], wanted: u64) -> Result<Option<&str>> {
    let mut fields = Fields::new(bytes);
    while let Some((number, field)) = fields.next()? {
        if number == wanted {
            return Ok(field.text());
        }
    }
    Ok(None)
}

/// Reads a named value with its type.
fn value(bytes: &[u8]) -> Result<Declared> {
    let (mut name, mut ty, mut description) = ("", None, None);
    let mut fields = Fields::new(bytes);
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => name = field.text().unwrap_or(""),
            2 => ty = field.bytes(),
            3 => description = field.text().filter(|s| !s.is_empty()).map(str::to_owned),
            _ => {}
        }
    }
    let name = name.to_owned();
    // A type is one of several kinds; tensor types are the first.
    let mut tensor = None;
    let mut fields = Fields::new(ty.unwrap_or_default());
    while let Some((number, field)) = fields.next()? {
        if number == 1 {
            tensor = field.bytes();
        }
    }
    let Some(tensor) = tensor else {
        return Ok(Declared::Other(name, "it is not a tensor".into()));
    };
    let (mut element, mut shape) = (0, ShapeSpec::Any);
    let mut fields = Fields::new(tensor);
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => element = field.varint().unwrap_or(0),
            2 => shape = ShapeSpec::Dims(dims(field.bytes().unwrap_or_default())?),
            _ => {}
        }
    }
    Ok(match value_type(element) {
        Ok(ty) => {
            let mut spec = ValueSpec::new(name, ty, shape);
            spec.description = description;
            Declared::Tensor(spec)
        }
        Err(why) => Declared::Other(name, why),
    })
}

fn dims(bytes: &[u8]) -> Result<Vec<DimSpec>> {
    let mut out = Vec::new();
    let mut fields = Fields::new(bytes);
    while let Some((number, field)) = fields.next()? {
        if number != 1 {
            continue;
        }
        if out.len() >= MAX_RANK {
            let message = format!("a value has more than {MAX_RANK} dimensions");
            return Err(NOT_A_MODEL.broken(message));
        }
        let mut dim = DimSpec::Any;
        let mut own = Fields::new(field.bytes().unwrap_or_default());
        while let Some((number, field)) = own.next()? {
            dim = match (number, field.varint(), field.text()) {
                // Some exporters write -1 for an unknown size.
                (1, Some(n), _) => i64::try_from(n).map_or(DimSpec::Any, |_| DimSpec::Size(n)),
                (2, _, Some(symbol)) if !matches!(symbol, "" | "*" | "?") => {
                    DimSpec::Symbol(symbol.to_owned())
                }
                _ => dim,
            };
        }
        out.push(dim);
    }
    Ok(out)
}

/// Returns the type of an ONNX element, or the reason why it is not supported.
fn value_type(element: u64) -> Result<ValueType, String> {
    Ok(match element {
        1 => ValueType::Float32,
        2 => ValueType::Uint8,
        3 => ValueType::Int8,
        4 => ValueType::Uint16,
        5 => ValueType::Int16,
        6 => ValueType::Int32,
        7 => ValueType::Int64,
        8 => ValueType::String,
        11 => ValueType::Float64,
        12 => ValueType::Uint32,
        13 => ValueType::Uint64,
        // Packages have no booleans. The runner passes them as 0 and 1.
        9 => ValueType::Uint8,
        10 => return Err("its elements are of type float16".into()),
        16 => return Err("its elements are of type bfloat16".into()),
        other => return Err(format!("its elements are of ONNX type {other}")),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
mod tests {
    use super::*;

    /// A field of bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    fn input(number: u8, name: &str, element: u8, dims: &[&[u8]]) -> Vec<u8> {
        let dims: Vec<u8> = dims.iter().flat_map(|d| field(1, d)).collect();
        let tensor = [vec![0x08, element], field(2, &dims)].concat();
        field(number, &[field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat())
    }

    #[test]
    fn inputs_and_outputs_of_a_graph_are_read() {
        let graph = [
            input(11, "x", 1, &[&field(2, b"n"), &[0x08, 3], &[]]),
            input(11, "w", 1, &[]),
            field(5, &field(8, b"w")),
            input(12, "y", 10, &[]),
            input(12, "is", 9, &[]),
        ]
        .concat();
        let model = [vec![0x08, 8], field(7, &graph), field(8, &[0x10, 17])].concat();
        let found = signature(&model).unwrap();
        assert_eq!((found.ir_version, found.opset), (8, 17));
        let [Declared::Tensor(x)] = found.inputs.as_slice() else { panic!("{found:?}") };
        let dims = vec![DimSpec::Symbol("n".into()), DimSpec::Size(3), DimSpec::Any];
        assert_eq!((x.name.as_str(), &x.shape), ("x", &ShapeSpec::Dims(dims)));
        let [Declared::Other(y, _), Declared::Tensor(is)] = found.outputs.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((y.as_str(), is.ty), ("y", ValueType::Uint8));
        check(&model).unwrap();
        for cut in 0..model.len() {
            // A prefix is either not a model, or one with less in it.
            let _ = signature(model.get(..cut).unwrap());
        }
    }

    #[test]
    fn overlong_varints_are_refused_everywhere() {
        let endless = [0xff; 11];
        let tensor = |number| [field(number, &[1, 2]), field(number, &endless)].concat();
        let attribute =
            |number, bytes: &[u8]| field(7, &field(1, &field(5, &field(number, bytes))));
        for bad in [
            endless.to_vec(),
            field(7, &endless),
            field(8, &endless),
            field(7, &field(1, &endless)),
            field(7, &field(5, &tensor(1))),
            field(7, &field(5, &tensor(7))),
            field(7, &field(12, &field(2, &field(1, &field(2, &field(1, &endless)))))),
            field(7, &field(11, &field(2, &field(4, &field(1, &endless))))),
            attribute(8, &endless),
            attribute(6, &field(1, &endless)),
            attribute(5, &tensor(5)),
        ] {
            assert_eq!(check(&bad).unwrap_err().code(), "protobuf/broken", "{bad:x?}");
        }
        // A weight's bytes are its own.
        check(&field(7, &field(5, &field(9, &endless)))).unwrap();
        let deep = (0..20).fold(Vec::new(), |inner, _| field(1, &field(5, &field(6, &inner))));
        check(&field(7, &deep)).unwrap_err();
    }
}
