//! Loading and streaming onto a device, whatever wgpu finds: a driver that is a processor, where there is no graphics card.

use super::Target::{MemoryBeyondAtMost, SpeedAtLeast, TimeAtMost};
use super::{Cache, Comparison, Contestant, Goal, floor, ours};
use crate::files::Workload::{self, *};
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use anyhow::{Context as _, Result, ensure};
use holdall::http::{Hosts, Policy};
use holdall::serve::{Files, Identity, Server, Service};
use holdall::{Check, File, Io, OpenOptions, Select};
use holdall_gpu::wgpu::{self, BufferUsages};
use holdall_gpu::{LoadOptions, load_model, stream_model};
use std::sync::Arc;

/// What every tensor of the first layer is called.
const FIRST: &str = "model.layers.0.*";
/// Bytes that the bare loop writes at a time, and after which it submits.
const PIECE: usize = 4 << 20;
const SUBMIT: usize = 16 << 20;

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "gpu-load",
        cache: Cache::Warm,
        rate: true,
        what: "Load every tensor into buffers of a device, by wgpu: Llama shapes, warm.",
        files: &[LlamaZt12, LlamaSafetensors],
        contestants: LOAD,
        goals: &[Goal {
            ours: "holdall, safetensors",
            target: SpeedAtLeast(0.9, &["write_buffer_with from a map"]),
            note: "",
        }],
    },
    Comparison {
        name: "gpu-memory",
        cache: Cache::Warm,
        rate: true,
        what: "The same for memory, against the buffers alone, filled by the device: where it is a processor, they are in memory too.",
        files: &[LlamaZt12],
        contestants: MEMORY,
        goals: &[Goal {
            ours: "holdall",
            target: MemoryBeyondAtMost(64 << 20, "the buffers alone"),
            note: "",
        }],
    },
    Comparison {
        name: "gpu-stream",
        cache: Cache::Warm,
        rate: false,
        what: "Stream a model over QUIC on loopback into buffers until its first layer (122 MB of 1 GB) is there.",
        files: &[LlamaZt12],
        contestants: STREAM,
        goals: &[Goal {
            ours: "holdall, all of it",
            target: TimeAtMost(1.2, &["that layer alone"]),
            note: "",
        }],
    },
];

const LOAD: &[Contestant] = &[
    ours("holdall, safetensors", |c| load(c, LlamaSafetensors, Check::Off)),
    ours("holdall, zTensor 1.2, crc32c", |c| load(c, LlamaZt12, Check::Fast)),
    floor("write_buffer_with from a map", |c| bare(c, LlamaSafetensors)),
];

const MEMORY: &[Contestant] = &[
    ours("holdall", |c| load(c, LlamaZt12, Check::Fast)),
    floor("the buffers alone", |c| empty(c, LlamaZt12)),
];

const STREAM: &[Contestant] = &[
    ours("holdall, all of it", |c| {
        let there = There::new(c, LlamaZt12)?;
        let (device, queue) = holdall_gpu::device()?;
        let options = LoadOptions::new().with_order([FIRST])?;
        let (stream, outcome) = timed(|| -> Result<_> {
            let stream = stream_model(&device, &queue, &there.file, &options)?;
            first(&there.file)?.iter().try_for_each(|name| stream.wait(name).map(drop))?;
            Ok(stream)
        })?;
        drop(stream);
        Ok(outcome)
    }),
    floor("that layer alone", |c| {
        let there = There::new(c, LlamaZt12)?;
        let (device, queue) = holdall_gpu::device()?;
        let options = LoadOptions::new().with_select(Select::new(&[FIRST], &[])?);
        let (model, outcome) = timed(|| load_model(&device, &queue, &there.file, &options))?;
        ensure!(model.len() == first(&there.file)?.len());
        Ok(outcome)
    }),
];

/// Whether there is a device.
pub fn is_possible() -> bool {
    holdall_gpu::device().is_ok()
}

fn load(c: &Context, file: Workload, digests: Check) -> Result<Outcome> {
    let (device, queue) = holdall_gpu::device()?;
    let file = OpenOptions::new().with_check(digests).open(c.path(file))?;
    let (_model, outcome) = timed(|| load_model(&device, &queue, &file, &LoadOptions::new()))?;
    Ok(outcome)
}

/// A buffer for each tensor, filled piece by piece out of the map.
fn bare(c: &Context, file: Workload) -> Result<Outcome> {
    let (device, queue) = holdall_gpu::device()?;
    let file = mapped(c, file)?;
    let (_buffers, outcome) = timed(|| -> Result<_> {
        let mut buffers = Vec::new();
        let mut waiting = 0;
        for tensor in file.tensors() {
            let bytes = tensor.bytes(&holdall::Role::Data)?;
            let buffer = buffer(&device, bytes.len());
            for (n, piece) in bytes.chunks(PIECE).enumerate() {
                let (at, len) = ((n * PIECE) as u64, wgpu::BufferSize::new(piece.len() as u64));
                let room = len.and_then(|len| queue.write_buffer_with(&buffer, at, len));
                room.context("wgpu has no room to write into")?.copy_from_slice(piece);
                waiting += piece.len();
                if waiting >= SUBMIT {
                    queue.submit([]);
                    waiting = 0;
                }
            }
            buffers.push(buffer);
        }
        queue.submit([]);
        device.poll(wgpu::PollType::wait_indefinitely())?;
        Ok(buffers)
    })?;
    Ok(outcome)
}

/// The buffers, which the device fills with zeros.
fn empty(c: &Context, file: Workload) -> Result<Outcome> {
    let (device, queue) = holdall_gpu::device()?;
    let file = mapped(c, file)?;
    let (_buffers, outcome) = timed(|| -> Result<_> {
        let len = |tensor: holdall::Tensor| Ok(tensor.bytes(&holdall::Role::Data)?.len());
        let lens: Vec<usize> = file.tensors().map(len).collect::<Result<_>>()?;
        let buffers: Vec<_> = lens.into_iter().map(|len| buffer(&device, len)).collect();
        let mut encoder = device.create_command_encoder(&Default::default());
        buffers.iter().for_each(|buffer| encoder.clear_buffer(buffer, 0, None));
        queue.submit([encoder.finish()]);
        device.poll(wgpu::PollType::wait_indefinitely())?;
        Ok(buffers)
    })?;
    Ok(outcome)
}

fn mapped(c: &Context, file: Workload) -> Result<File> {
    Ok(OpenOptions::new().with_io(Io::Map).open(c.path(file))?)
}

fn buffer(device: &wgpu::Device, len: usize) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: (len as u64).next_multiple_of(4),
        usage: BufferUsages::STORAGE | BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}

/// The names of the tensors of the first layer.
fn first(file: &File) -> Result<Vec<String>> {
    let tensors = Select::new(&[FIRST], &[])?.tensors(file)?;
    Ok(tensors.iter().map(|tensor| tensor.name().to_owned()).collect())
}

/// A file that a server on loopback has.
struct There {
    file: File,
    _server: Server,
}

impl There {
    fn new(c: &Context, file: Workload) -> Result<There> {
        let path = c.path(file);
        let identity = Identity::generate()?;
        let service = Service::new(Arc::new(Files::new([&path])?));
        let server = Server::start(service, "127.0.0.1:0".parse()?, &identity)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let pin = identity.pin().context("the identity has no pin")?;
        let url = format!("holdall://{}/{name}#sha256={pin}", server.address()?);
        let policy = Policy::new().with_hosts(Hosts::Any);
        let file = OpenOptions::new().with_policy(policy).open(url)?;
        Ok(There { file, _server: server })
    }
}
