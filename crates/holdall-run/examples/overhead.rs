//! Measures the cost of running a model compared to calling its engine: `cargo run --release -p holdall-run --example
//! overhead`.
//!
//! Runs the network of `examples/xor` on one row: once by calling the engine with prepared tensors, and once with
//! `Model::run`, which also checks values against the description and converts them in both directions.

use holdall::carton::{Package, TensorValue};
use holdall_run::{Model, Settings};
use rten_tensor::Tensor;
use rten_tensor::prelude::*;
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: usize = 31;
const CALLS: u32 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xor");
    let package = Package::open(&folder)?;
    let mut model = Model::load(&package, &Settings::default())?;
    let engine = rten::Model::load_file(folder.join("model/model.onnx"))?;
    let input = engine.node_id("x")?;
    let outputs = [engine.node_id("p")?, engine.node_id("label")?];

    let x = Tensor::from_data(&[1, 2], vec![1f32, 0.0]);
    let value = vec![("x".to_owned(), TensorValue::from_elements(vec![1, 2], &[1f32, 0.0])?)];
    let mut bare = Vec::new();
    let mut whole = Vec::new();
    // Alternately, so that a slow moment of the machine affects both.
    for _ in 0..ROUNDS {
        bare.push(time(|| {
            let out = engine.run(vec![(input, x.view().into())], &outputs, None)?;
            assert_eq!(out.len(), 2);
            Ok(())
        })?);
        whole.push(time(|| {
            assert_eq!(model.run(value.clone())?.len(), 2);
            Ok(())
        })?);
    }
    let (bare, whole) = (median(bare), median(whole));
    println!("engine      {:8.2} µs a call", micros(bare));
    println!("Model::run  {:8.2} µs a call", micros(whole));
    println!("over it     {:8.2} µs", micros(whole) - micros(bare));
    Ok(())
}

fn time(mut call: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    for _ in 0..CALLS {
        call()?;
    }
    Ok(start.elapsed() / CALLS)
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
