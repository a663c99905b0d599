//! The parts of ONNX graphs that the built-in engine of the runner `onnx` supports, so that packing a graph can say at
//! once whether it will run there. The engine itself is above this crate; a test of `holdall-run` compares it with
//! these lists.

use super::{Declared, MessageKind, has_doubles, signature, walk};
use crate::value::ValueType;
use holdall_core::error::{Escape as _, Result};
use holdall_core::model::Warning;
use holdall_core::wire::protobuf::Fields;
use std::collections::BTreeSet;

holdall_core::error::rules! {
    /// Rules about the built-in engine.
    pub static RULES;

    /// A graph that the built-in engine cannot run.
    pub NOT_BUILT_IN: Unsupported "onnx/built-in"
        "A graph that is packed for the runner `onnx` can be run by its built-in engine: the engine has all operators of the graph, and no value is text or a 64-bit float."
        hint "run the package with a library of ONNX Runtime, or export the model without these parts";
}

/// The supported operators of the standard set, sorted.
#[rustfmt::skip]
pub const STANDARD: &[&str] = &[
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh",
    "Attention", "AveragePool", "BatchNormalization", "BitCast", "Cast", "CastLike", "Ceil",
    "Clip", "Concat", "ConcatFromSequence", "Constant", "ConstantOfShape", "Conv", "ConvInteger",
    "ConvTranspose", "Cos", "Cosh", "CumSum", "DepthToSpace", "DequantizeLinear", "Div", "Dropout",
    "DynamicQuantizeLinear", "Einsum", "Elu", "Equal", "Erf", "Exp", "Expand", "EyeLike",
    "Flatten", "Floor", "GRU", "Gather", "GatherElements", "GatherND", "Gelu", "Gemm",
    "GlobalAveragePool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "GridSample", "HardSigmoid",
    "HardSwish", "Identity", "If", "InstanceNormalization", "IsInf", "IsNaN", "LSTM",
    "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "Loop",
    "LpNormalization", "MatMul", "MatMulInteger", "Max", "MaxPool", "Mean", "Min", "Mod", "Mul",
    "Multinomial", "Neg", "NonMaxSuppression", "NonZero", "Not", "OneHot", "Or", "PRelu", "Pad",
    "Pow", "QuantizeLinear", "RMSNormalization", "RandomNormal", "RandomNormalLike",
    "RandomUniform", "RandomUniformLike", "Range", "Reciprocal", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Resize", "ReverseSequence",
    "RotaryEmbedding", "Round", "Scatter", "ScatterElements", "ScatterND", "SequenceAt",
    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
    "Shape", "Sigmoid", "Sign", "SimplifiedLayerNormalization", "Sin", "Sinh", "Size", "Slice",
    "Softmax", "Softplus", "Softsign", "Split", "SplitToSequence", "Sqrt", "Squeeze", "Sub", "Sum",
    "Swish", "Tan", "Tanh", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Upsample", "Where",
    "Xor",
];

/// The supported operators of the domain `com.microsoft`, sorted.
#[rustfmt::skip]
pub const MICROSOFT: &[&str] = &[
    "BiasGelu", "DynamicQuantizeLSTM", "FastGelu", "Gelu", "GroupQueryAttention", "MatMulNBits",
    "MultiHeadAttention", "QuickGelu", "RotaryEmbedding", "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
];

/// The largest number of operators and values that a message names.
const LISTED: usize = 6;

/// The parts of a graph that the built-in engine does not support.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unsupported {
    /// Operators with their domains, such as `ai.onnx.ml.TreeEnsembleClassifier`, sorted.
    pub operators: Vec<String>,
    /// Inputs and outputs that are texts.
    pub texts: Vec<String>,
    /// Whether the graph has 64-bit floats.
    pub has_doubles: bool,
}

/// Returns the parts of the ONNX model in `bytes`, the whole file, that the built-in engine does not support.
///
/// # Errors
/// Returns the same errors as [`super::signature`] and [`super::check`].
pub fn unsupported(bytes: &[u8]) -> Result<Unsupported> {
    let mut operators = BTreeSet::new();
    let mut broken = None;
    walk(bytes, &mut |part, number, field| {
        if part != MessageKind::Graph || number != 1 {
            return;
        }
        match node(field.bytes().unwrap_or_default()) {
            Ok((domain, name)) if !is_supported(domain, name) => {
                let domain = if domain.is_empty() { "ai.onnx" } else { domain };
                operators.insert(format!("{domain}.{name}"));
            }
            Ok(_) => {}
            Err(e) => broken = Some(e),
        }
    })?;
    if let Some(e) = broken {
        return Err(e);
    }
    let found = signature(bytes)?;
    let mut texts: Vec<String> = Vec::new();
    for value in found.inputs.iter().chain(&found.outputs) {
        if let Declared::Tensor(spec) = value
            && spec.ty == ValueType::String
            && !texts.contains(&spec.name)
        {
            texts.push(spec.name.clone());
        }
    }
    Ok(Unsupported {
        operators: operators.into_iter().collect(),
        texts,
        has_doubles: has_doubles(bytes)?,
    })
}

/// Returns `true` if the built-in engine has an operator.
pub fn is_supported(domain: &str, name: &str) -> bool {
    match domain {
        "" | "ai.onnx" => STANDARD.binary_search(&name).is_ok(),
        "com.microsoft" => MICROSOFT.binary_search(&name).is_ok(),
        _ => false,
    }
}

/// Returns the domain and the name of a node's operator.
fn node(bytes: &[u8]) -> Result<(&str, &str)> {
    let (mut domain, mut name) = ("", "");
    let mut fields = Fields::new(bytes);
    while let Some((number, field)) = fields.next()? {
        match number {
            4 => name = field.text().unwrap_or("?"),
            7 => domain = field.text().unwrap_or("?"),
            _ => {}
        }
    }
    Ok((domain, name))
}

impl Unsupported {
    /// Returns a warning that names the unsupported parts and the engine that runs the graph instead; `None` if the
    /// built-in engine supports everything.
    pub fn warning(&self) -> Option<Warning> {
        let mut reasons = Vec::new();
        if !self.operators.is_empty() {
            let what = if self.operators.len() == 1 { "the operator" } else { "the operators" };
            reasons.push(format!("it lacks {what} {}", listed(&self.operators)));
        }
        if !self.texts.is_empty() {
            reasons.push(format!(
                "it does not support strings, which {} would be",
                listed(&self.texts)
            ));
        }
        if self.has_doubles {
            reasons.push("it has no 64-bit floats".to_owned());
        }
        (!reasons.is_empty()).then(|| {
            let message = format!(
                "the built-in engine cannot run this graph: {}; the runner `onnx` can, with a library of ONNX Runtime",
                reasons.join("; ")
            );
            Warning::new(NOT_BUILT_IN.code, message)
        })
    }
}

/// Returns some names for a message.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(LISTED).map(|name| format!("`{}`", name.escaped()));
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.collect::<Vec<_>>().join(", ") + &more
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    fn model(nodes: &[(&str, &str)], element: u8) -> Vec<u8> {
        let nodes = nodes.iter().flat_map(|(domain, name)| {
            field(1, &[field(4, name.as_bytes()), field(7, domain.as_bytes())].concat())
        });
        let ty = field(2, &field(1, &[0x08, element]));
        let input = field(11, &[field(1, b"x"), ty].concat());
        let graph = nodes.chain(input).collect::<Vec<u8>>();
        [vec![0x08, 8], field(7, &graph)].concat()
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(STANDARD.is_sorted() && MICROSOFT.is_sorted());
    }

    #[test]
    fn a_graph_of_supported_operators_has_no_warning() {
        let bytes = model(&[("", "Add"), ("ai.onnx", "MatMul"), ("com.microsoft", "Gelu")], 1);
        let found = unsupported(&bytes).unwrap();
        assert_eq!(found, Unsupported::default());
        assert_eq!(found.warning(), None);
    }

    #[test]
    fn unsupported_operators_are_named() {
        let nodes = [("ai.onnx.ml", "TreeEnsembleClassifier"), ("", "Foo"), ("", "Foo")];
        let found = unsupported(&model(&nodes, 8)).unwrap();
        assert_eq!(found.operators, ["ai.onnx.Foo", "ai.onnx.ml.TreeEnsembleClassifier"]);
        assert_eq!((found.texts.as_slice(), found.has_doubles), (&["x".to_owned()][..], false));
        let warning = found.warning().unwrap();
        assert_eq!(warning.code, "onnx/built-in");
        assert!(warning.message.contains("TreeEnsembleClassifier"), "{}", warning.message);
        assert!(warning.message.contains("ONNX Runtime"), "{}", warning.message);
        assert!(unsupported(&model(&[], 11)).unwrap().has_doubles);
    }
}
