//! Quantized weights: those of files that other software wrote, and generated ones of every kind.

#[path = "quantized/generated.rs"]
mod generated;
#[path = "quantized/goldens.rs"]
mod goldens;
#[path = "quantized/made.rs"]
mod made;
#[path = "quantized/model.rs"]
mod model;
