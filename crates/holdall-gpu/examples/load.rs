//! Measures how fast a file is loaded into buffers of the device, compared with a bare loop that copies the same bytes
//! from a memory map.
//!
//! ```text
//! cargo run --release -p holdall-gpu --example load -- FILE [ROUNDS]
//! ```
//!
//! Without a file, one of 1 GiB is created. Both methods run in each round, and the fastest time of each is reported,
//! with their ratio; then the memory of the process beyond the buffers (if the adapter is a CPU, buffers are in memory
//! too).

use holdall::{DType, File, Io, OpenOptions, Result, TensorSpec, WriteOptions, Writer};
use holdall_gpu::{LoadOptions, load_model};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes after which the bare loop submits.
const SUBMIT: u64 = 16 << 20;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let mut args = std::env::args_os().skip(1);
    let path = match args.next() {
        Some(path) => PathBuf::from(path),
        None => {
            let path = dir.path().join("made.safetensors");
            make(&path)?;
            path
        }
    };
    let rounds = args.next().and_then(|n| n.to_str()?.parse().ok()).unwrap_or(5);
    let file = OpenOptions::new().with_io(Io::Map).open(&path)?;
    let (device, queue) = holdall_gpu::device()?;
    println!("device: {}", device.adapter_info().name);
    let mut best = [Duration::MAX; 2];
    let mut size = 0;
    for _ in 0..rounds {
        let start = Instant::now();
        let buffers = bare(&device, &queue, &file)?;
        best[0] = best[0].min(start.elapsed());
        drop(buffers);
        device.poll(wgpu::PollType::wait_indefinitely())?;
        let start = Instant::now();
        let model = load_model(&device, &queue, &file, &LoadOptions::new())?;
        best[1] = best[1].min(start.elapsed());
        size = model.size();
        drop(model);
        device.poll(wgpu::PollType::wait_indefinitely())?;
    }
    let rate = |time: Duration| size as f64 / time.as_secs_f64() / 1e9;
    println!("bare loop   {:8.1} ms  {:6.2} GB/s", best[0].as_secs_f64() * 1e3, rate(best[0]));
    println!("load_model  {:8.1} ms  {:6.2} GB/s", best[1].as_secs_f64() * 1e3, rate(best[1]));
    println!("ratio       {:8.2}", best[0].as_secs_f64() / best[1].as_secs_f64());
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let most = status.lines().find(|l| l.starts_with("RssAnon:")).unwrap_or_default();
        println!("after all rounds: {most}");
    }
    Ok(())
}

/// Creates a buffer for each tensor, and fills it piece by piece from the memory map.
fn bare(device: &wgpu::Device, queue: &wgpu::Queue, file: &File) -> Result<Vec<wgpu::Buffer>> {
    let mut buffers = Vec::new();
    let mut waiting = 0;
    for tensor in file.tensors() {
        for component in tensor.components() {
            let bytes = tensor.bytes(&component.role)?;
            if bytes.is_empty() {
                continue;
            }
            let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: (bytes.len() as u64).next_multiple_of(4),
                usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            for (n, piece) in bytes.chunks(4 << 20).enumerate() {
                let whole = piece.len() / 4 * 4;
                let (words, rest) = piece.split_at(whole);
                let mut last = [0; 4];
                last[..rest.len()].copy_from_slice(rest);
                let at = (n << 22) as u64;
                for (at, bytes) in [(at, words), (at + whole as u64, &last[..])] {
                    let bytes = if at >= buffer.size() { &[] } else { bytes };
                    if let Some(size) = wgpu::BufferSize::new(bytes.len() as u64)
                        && let Some(mut view) = queue.write_buffer_with(&buffer, at, size)
                    {
                        view.copy_from_slice(bytes);
                    }
                }
                waiting += piece.len() as u64;
                if waiting >= SUBMIT {
                    queue.submit([]);
                    waiting = 0;
                }
            }
            buffers.push(buffer);
        }
    }
    queue.submit([]);
    let _ = device.poll(wgpu::PollType::wait_indefinitely());
    Ok(buffers)
}

/// Writes 1 GiB in tensors of 32 MiB.
fn make(path: &Path) -> Result<()> {
    let mut writer = Writer::create(path, &WriteOptions::new())?;
    let specs: Vec<TensorSpec> =
        (0..32).map(|n| TensorSpec::dense(format!("t{n}"), DType::F32, [1 << 23])).collect();
    writer.declare(&specs)?;
    for (n, spec) in specs.into_iter().enumerate() {
        writer.tensor(spec)?;
        let bytes: Vec<u8> = (0..1u32 << 20).flat_map(|i| (i ^ n as u32).to_le_bytes()).collect();
        (0..8).try_for_each(|_| writer.write(&bytes))?;
    }
    writer.finish()?;
    Ok(())
}
