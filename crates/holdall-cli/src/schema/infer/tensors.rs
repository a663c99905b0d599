//! A schema made from the tensors of a file.

use crate::exit::{ARGUMENTS, Failure};
use holdall::{Attributes, Convert, File, TensorSpec, WriteOptions, formats};
use serde_json::Value;

/// The schema that the file would get as Metatensor if it had none of its own; sparse and quantized
/// tensors as dense ones, types that there are not as what they are stored as.
pub(crate) fn of_file(file: &File) -> Result<Value, Failure> {
    let Some(format) = formats::by_name("metatensor") else { return Err(no_metatensor()) };
    // Those of the file stand elsewhere; those of tensors say what records are.
    let options = Convert::new(WriteOptions::new().with_format(format))
        .with_attributes(Attributes::new())
        .with_dense(true)
        .with_raw_types(true);
    of_tensors(&holdall::convert::plan(file, "-", &options)?.0)
}

/// The schema that these tensors get where there is none: objects from names with dots, each tensor
/// with its dtype and shape.
#[cfg(feature = "metatensor")]
pub(crate) fn of_tensors(specs: &[TensorSpec]) -> Result<Value, Failure> {
    let text = formats::metatensor::infer(specs, None)?;
    Ok(holdall_schema::json::parse(text.as_bytes(), holdall::Limits::default().depth)?)
}

#[cfg(not(feature = "metatensor"))]
pub(crate) fn of_tensors(_: &[TensorSpec]) -> Result<Value, Failure> {
    Err(no_metatensor())
}

fn no_metatensor() -> Failure {
    ARGUMENTS.broken("this build has no Metatensor").into()
}
