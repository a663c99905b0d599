//! Descriptions and values for tests.
#![allow(dead_code)]

use holdall::carton::{
    Description, DimSpec, OptionValue, ShapeSpec, TensorValue, ValueSpec, ValueType,
};

/// Parses a shape: `*` or, for example, `n 3 *`.
pub(crate) fn shape(text: &str) -> ShapeSpec {
    match text {
        "*" => ShapeSpec::Any,
        _ => ShapeSpec::Dims(
            text.split_whitespace()
                .map(|d| match (d, d.parse()) {
                    ("*", _) => DimSpec::Any,
                    (_, Ok(size)) => DimSpec::Size(size),
                    (symbol, _) => DimSpec::Symbol(symbol.to_owned()),
                })
                .collect(),
        ),
    }
}

/// Returns a description with float32 inputs and outputs of these names and shapes.
pub(crate) fn description(
    runner: &str,
    inputs: &[(&str, &str)],
    outputs: &[(&str, &str)],
) -> Description {
    let specs = |of: &[(&str, &str)]| {
        let spec =
            |(name, text): &(&str, &str)| ValueSpec::new(*name, ValueType::Float32, shape(text));
        of.iter().map(spec).collect()
    };
    let mut d = Description::default();
    d.runner.name = runner.to_owned();
    d.runner.framework_version = "*".to_owned();
    d.runner.compat_version = 1;
    d.inputs = specs(inputs);
    d.outputs = specs(outputs);
    d
}

/// Returns the description of a Python model: the function `load` of `main.py`.
pub(crate) fn python(inputs: &[(&str, &str)], outputs: &[(&str, &str)]) -> Description {
    let mut d = description("python", inputs, outputs);
    for (name, value) in [("entrypoint_package", "main"), ("entrypoint_fn", "load")] {
        d.runner.options.push((name.to_owned(), OptionValue::String(value.to_owned())));
    }
    d
}

/// Returns a value of zeros.
pub(crate) fn value(shape: &[u64]) -> TensorValue {
    let count = shape.iter().product::<u64>() as usize;
    TensorValue::from_elements(shape.to_vec(), &vec![0f32; count]).unwrap()
}
