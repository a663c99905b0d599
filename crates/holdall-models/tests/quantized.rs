//! Quantised weights: those of files that other software wrote, and generated ones of every kind.

#[path = "quantized/goldens.rs"]
mod goldens;
#[path = "quantized/model.rs"]
mod model;
