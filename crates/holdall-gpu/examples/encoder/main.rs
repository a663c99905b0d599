//! A BERT encoder (such as MiniLM) in compute shaders, with weights that are loaded, and with weights that are still
//! loading: layer 0 is computed before the last layer has arrived.
//!
//! ```text
//! cargo run --release -p holdall-gpu --example encoder -- model.safetensors
//! ```
//!
//! Without an argument, a small encoder with random weights is created. The result of the device is compared with the
//! same computation on the CPU. The stream comes from a server on loopback that takes about four seconds.

mod cpu;
mod gpu;
#[path = "../../../holdall/tests/server/mod.rs"]
mod server;

use holdall::{DType, File, OpenOptions, Result, TensorSpec, WriteOptions, Writer};
use holdall_gpu::{LoadOptions, load_model, stream_model};
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// "This is a sentence to encode", as tokenized by MiniLM.
const IDS: [u32; 9] = [101, 2023, 2003, 1037, 6251, 2000, 4372, 16044, 102];

/// The sizes of an encoder, from its tensors.
struct Sizes {
    layers: usize,
    hidden: u64,
    inner: u64,
    heads: u32,
}

impl Sizes {
    fn from_file(file: &File) -> Result<Sizes> {
        let hidden = file.tensor("embeddings.word_embeddings.weight")?.shape()[1];
        let inner = file.tensor("encoder.layer.0.intermediate.dense.weight")?.shape()[0];
        let is_there =
            |n: &usize| file.index().get(&format!("encoder.layer.{n}.output.dense.bias")).is_some();
        let layers = (0..).take_while(is_there).count();
        Ok(Sizes { layers, hidden, inner, heads: 12 })
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let made = dir.path().join("made.safetensors");
    let path = match std::env::args_os().nth(1) {
        Some(path) => path.into(),
        None => {
            make(&made)?;
            made
        }
    };
    let file = holdall::open(&path)?;
    let sizes = Sizes::from_file(&file)?;
    println!("{} layers of {} numbers, {} tokens", sizes.layers, sizes.hidden, IDS.len());
    let words = file.tensor("embeddings.word_embeddings.weight")?.shape()[0];
    let ids = IDS.map(|id| id % words as u32);
    let expected = cpu::encode(&file, &sizes, &ids)?;

    let (device, queue) = holdall_gpu::device()?;
    println!("device: {}", device.adapter_info().name);
    let start = Instant::now();
    let model = load_model(&device, &queue, &file, &LoadOptions::new())?;
    let encoder = gpu::Encoder::new(&device, &queue, &sizes, &ids);
    let find = |name: &str| model.tensor(name).cloned();
    let found = encoder.encode(find, |_| ())?;
    println!("loaded and computed in {:?}", start.elapsed());
    compare(&expected, &found)?;

    let server = server::Server::new({
        let bytes = std::fs::read(&path)?;
        // Eight responses are in flight at once.
        let step = bytes.len() / 8 / 400;
        move |request| {
            let mut reply = server::Reply::file(&bytes, "\"model\"", request);
            reply.pace = Some((step, Duration::from_millis(10)));
            reply
        }
    });
    let far = OpenOptions::new().with_policy(server::policy()).open(server.url("/model"))?;
    let times: Arc<Mutex<Vec<(Duration, String)>>> = Arc::default();
    let start = Instant::now();
    let order = std::iter::once("embeddings.*".to_owned())
        .chain((0..sizes.layers).map(|n| format!("encoder.layer.{n}.*")));
    let options = LoadOptions::new().with_order(order)?.on_ready({
        let times = Arc::clone(&times);
        move |tensor| {
            if tensor.name().ends_with("output.dense.weight") {
                times.lock().unwrap().push((start.elapsed(), format!("came: {}", tensor.name())));
            }
        }
    });
    let stream = stream_model(&device, &queue, &far, &options)?;
    let found = encoder.encode(
        |name| stream.wait(name),
        |layer| {
            times.lock().unwrap().push((start.elapsed(), format!("computed: layer {layer}")));
        },
    )?;
    stream.finish()?;
    let mut times = times.lock().unwrap();
    times.sort();
    println!("\nstreamed, in the order of the layers:");
    for (at, what) in times.iter() {
        println!("{:8.1} ms  {what}", at.as_secs_f64() * 1e3);
    }
    compare(&expected, &found)?;
    let first = times.iter().position(|(_, what)| what == "computed: layer 0");
    let last = times.iter().rposition(|(_, what)| what.starts_with("came: "));
    if first > last {
        return Err("layer 0 was not computed before the last layer came".into());
    }
    Ok(())
}

fn compare(expected: &[f32], found: &[f32]) -> std::result::Result<(), String> {
    let far = expected.iter().zip(found).map(|(x, y)| (x - y).abs()).fold(0f32, f32::max);
    println!("maximum difference from the result on the CPU: {far:e}");
    match expected.len() == found.len() && far < 1e-4 {
        true => Ok(()),
        false => Err(format!("the maximum difference {far:e} exceeds 1e-4")),
    }
}

/// Writes a small encoder with random weights and MiniLM's names.
fn make(path: &Path) -> Result<()> {
    // More layers than concurrent responses.
    let (hidden, inner, layers) = (96u64, 192u64, 12);
    let mut all: Vec<(String, Vec<u64>)> = vec![
        ("embeddings.word_embeddings.weight".into(), vec![500, hidden]),
        ("embeddings.position_embeddings.weight".into(), vec![64, hidden]),
        ("embeddings.token_type_embeddings.weight".into(), vec![2, hidden]),
        ("embeddings.LayerNorm.weight".into(), vec![hidden]),
        ("embeddings.LayerNorm.bias".into(), vec![hidden]),
    ];
    for n in 0..layers {
        for (name, out, from) in [
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", inner, hidden),
            ("output.dense", hidden, inner),
        ] {
            all.push((format!("encoder.layer.{n}.{name}.weight"), vec![out, from]));
            all.push((format!("encoder.layer.{n}.{name}.bias"), vec![out]));
        }
        for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
            all.push((format!("encoder.layer.{n}.{name}.weight"), vec![hidden]));
            all.push((format!("encoder.layer.{n}.{name}.bias"), vec![hidden]));
        }
    }
    let specs: Vec<TensorSpec> =
        all.into_iter().map(|(name, shape)| TensorSpec::dense(name, DType::F32, shape)).collect();
    let mut writer = Writer::create(path, &WriteOptions::new())?;
    writer.declare(&specs)?;
    let mut state = 1u64;
    for spec in specs {
        let count: u64 = spec.shape.iter().product();
        writer.tensor(spec)?;
        let next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (((state >> 40) as f32 / (1u64 << 24) as f32) - 0.5) * 0.4
        };
        let bytes: Vec<u8> =
            std::iter::repeat_with(next).take(count as usize).flat_map(f32::to_le_bytes).collect();
        writer.write(&bytes)?;
    }
    writer.finish()?;
    Ok(())
}
