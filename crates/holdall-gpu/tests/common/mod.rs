//! Devices to test on, and files to load.
#![allow(dead_code)] // Each test file uses its own part.

pub(crate) mod shaders;

use holdall::{
    Algorithm, Check, DType, File, OpenOptions, TensorSpec, WriteOptions, Writer, formats,
};
use std::path::Path;

/// A device, or nothing where there is none and it need not be: `HOLDALL_GPU_TESTS=required` says that it must, `skipped` that none is looked
/// for.
pub(crate) fn device() -> Option<(wgpu::Device, wgpu::Queue)> {
    with_limits(|limits| limits)
}

/// A device whose buffers can be mapped whatever they are used for, where the adapter has no memory of its own.
pub(crate) fn mappable() -> Option<(wgpu::Device, wgpu::Queue)> {
    device()?;
    let (device, queue) = holdall_gpu::device().unwrap();
    if !device.features().contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS) {
        eprintln!("skipped: the device has memory of its own");
        return None;
    }
    Some((device, queue))
}

/// A device with other limits than the adapter's.
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

/// Bytes that look like nothing, but compress a little.
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

/// Bytes of every value.
pub(crate) fn any_bytes(len: usize, seed: u64) -> Vec<u8> {
    let halves = noise(2 * len, seed);
    halves.as_chunks::<2>().0.iter().map(|[a, b]| a << 4 | b).collect()
}

/// Lengths around whatever is treated differently; not all of them multiples of 4.
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

/// A file of tensors of these lengths, in bytes; compressed where there is a level.
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
