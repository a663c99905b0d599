//! Devices to test on, and files to load.
#![allow(dead_code)] // Each test file uses its own part.

pub(crate) mod shaders;

use holdall::{
    Algorithm, Check, DType, File, OpenOptions, TensorSpec, WriteOptions, Writer, formats,
};
use std::path::Path;

/// Returns a device, or `None` if the machine has none. `HOLDALL_GPU_TESTS=required` requires a device,
/// `skipped` does not look for one.
pub(crate) fn device() -> Option<(wgpu::Device, wgpu::Queue)> {
    with_limits(|limits| limits)
}

/// Returns a device whose buffers can be mapped whatever their usage, if the adapter shares the host's memory.
pub(crate) fn mappable() -> Option<(wgpu::Device, wgpu::Queue)> {
    device()?;
    let (device, queue) = holdall_gpu::device().unwrap();
    if !device.features().contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS) {
        eprintln!("skipped: the device does not share the host's memory");
        return None;
    }
    Some((device, queue))
}

/// Returns a device with limits other than the adapter's.
pub(crate) fn with_limits(
    change: impl FnOnce(wgpu::Limits) -> wgpu::Limits,
) -> Option<(wgpu::Device, wgpu::Queue)> {
    let wanted = std::env::var_os("HOLDALL_GPU_TESTS").unwrap_or_default();
    if wanted == "skipped" {
        return None;
    }
    let required = wanted == "required";
    let instance =
        wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
    let adapter = holdall_gpu::block_on(instance.request_adapter(&Default::default()));
    let adapter = match adapter {
        Ok(adapter) => adapter,
        Err(e) if required => panic!("no adapter: {e}"),
        Err(_) => {
            eprintln!("skipped: there is no adapter");
            return None;
        }
    };
    let device = adapter.request_device(&wgpu::DeviceDescriptor {
        required_limits: change(adapter.limits()),
        ..Default::default()
    });
    Some(holdall_gpu::block_on(device).unwrap())
}

/// Returns pseudo-random bytes that compress a little.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 60) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Returns pseudo-random bytes of every value.
pub(crate) fn any_bytes(len: usize, seed: u64) -> Vec<u8> {
    let halves = noise(2 * len, seed);
    halves.as_chunks::<2>().0.iter().map(|[a, b]| a << 4 | b).collect()
}

/// Lengths around every size that is treated specially; not all are multiples of 4.
pub(crate) const LENS: [usize; 12] = [
    0,
    1,
    2,
    3,
    5,
    255,
    257,
    4099,
    (1 << 20) + 1,
    (2 << 20) + 3,
    (5 << 20) + 2,
    (9 << 20) + 12_345,
];

/// Writes a file of tensors of these lengths in bytes, compressed if a level is given.
pub(crate) fn write(path: &Path, format: &str, zstd: Option<i32>, digest: Option<Algorithm>) {
    let mut options =
        WriteOptions::new().with_format(formats::by_name(format).unwrap()).with_digest(digest);
    if let Some(level) = zstd {
        options = options.with_zstd(level);
    }
    let specs: Vec<TensorSpec> = LENS
        .iter()
        .enumerate()
        .map(|(i, len)| TensorSpec::dense(name(i), DType::U8, [*len as u64]))
        .collect();
    let mut writer = Writer::create(path, &options).unwrap();
    writer.declare(&specs).unwrap();
    for (i, spec) in specs.into_iter().enumerate() {
        writer.tensor(spec).unwrap();
        writer.write(&noise(LENS[i], i as u64 + 1)).unwrap();
    }
    writer.finish().unwrap();
}

pub(crate) fn name(i: usize) -> String {
    format!("layer.{}.t{i}", i % 3)
}

pub(crate) fn open(path: &Path) -> File {
    holdall::open(path).unwrap()
}

pub(crate) fn open_checked(path: &Path) -> File {
    OpenOptions::new().with_check(Check::Read).open(path).unwrap()
}
