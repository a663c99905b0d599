//! Devices without memory, and the memory that loads leave in use: each test runs in a process of its own.
#![cfg(target_os = "linux")]

mod common;

use common::{device, noise, open, open_checked};
use holdall::{Algorithm, DType, File, Role, Select, TensorSpec, Work, WriteOptions, Writer};
use holdall_gpu::{LoadOptions, Placement, load_model, stream_model};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;

/// Returns `true` in the process that runs only this test. Otherwise starts that process, and checks that it succeeded.
fn is_alone(test: &str) -> bool {
    if std::env::var_os("HOLDALL_GPU_ALONE").is_some() {
        return true;
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1", "--include-ignored"])
        .env("HOLDALL_GPU_ALONE", "1")
        .status();
    assert!(status.unwrap().success(), "{test}");
    false
}

/// Returns a line of `/proc/self/status`, in bytes.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// Limits this process, including its driver, to this many additional bytes of memory; `None` removes the limit.
fn bound(more: Option<u64>) {
    let most = getrlimit(Resource::As).maximum;
    let current = more.map(|more| status("VmSize") + more);
    setrlimit(Resource::As, Rlimit { current, maximum: most }).unwrap();
}

/// Writes tensors `t0`, `t1`, … of this many bytes each, as a sparse file.
fn holes(path: &Path, count: u64, len: u64) -> File {
    let entry = |n| {
        format!(
            r#""t{n}":{{"dtype":"U8","shape":[{len}],"data_offsets":[{},{}]}}"#,
            n * len,
            (n + 1) * len
        )
    };
    let mut header = format!("{{{}}}", (0..count).map(entry).collect::<Vec<_>>().join(","));
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    std::fs::write(path, &bytes).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(bytes.len() as u64 + count * len).unwrap();
    open(path)
}

#[test]
fn a_model_that_the_device_has_no_room_for_is_an_error_and_leaves_nothing() {
    if !is_alone("a_model_that_the_device_has_no_room_for_is_an_error_and_leaves_nothing") {
        return;
    }
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = holes(&dir.path().join("m.safetensors"), 32, 96 * MIB);
    let one = LoadOptions::new().with_select(Select::new(&["t0"], &[]).unwrap());
    for placement in [Placement::Each, Placement::Arena(96 * MIB)] {
        let all = LoadOptions::new().with_placement(placement);
        drop(load_model(&device, &queue, &file, &one).unwrap());
        bound(Some(600 * MIB));
        let message = |e: holdall::Error| {
            assert_eq!(e.code(), "gpu/memory", "{e}");
            assert!(e.tensor().is_some_and(|name| name.starts_with('t')), "{e}");
            let text = e.to_string();
            assert!(text.contains("m.safetensors") && text.contains("100663296 bytes"), "{e}");
            assert!(text.contains("of 3221225472 bytes taken"), "{e}");
            text
        };
        let first = message(load_model(&device, &queue, &file, &all).unwrap_err());
        for _ in 0..50 {
            // If anything was left from the last round, less memory could be used.
            assert_eq!(message(load_model(&device, &queue, &file, &all).unwrap_err()), first);
            assert_eq!(message(stream_model(&device, &queue, &file, &all).unwrap_err()), first);
        }
        // The device is still usable.
        let model = load_model(&device, &queue, &file, &one).unwrap();
        assert_eq!(model.size(), 96 * MIB);
        bound(None);
    }
}

/// Buffers that use all of the memory that staging memory comes from.
fn staging(device: &wgpu::Device) -> Vec<wgpu::Buffer> {
    let take = || {
        let scope = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: MIB,
            usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        holdall_gpu::block_on(scope.pop()).is_none().then_some(buffer)
    };
    let taken: Vec<wgpu::Buffer> = std::iter::from_fn(take).take(4096).collect();
    assert!(taken.len() < 4096, "there is no end to it");
    taken
}

#[test]
fn a_device_without_memory_for_staging_is_an_error() {
    if !is_alone("a_device_without_memory_for_staging_is_an_error") {
        return;
    }
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = holes(&dir.path().join("m.safetensors"), 2, 64 * MIB);
    let was_told = Arc::new(AtomicBool::new(false));
    // The buffers exist when the work is announced. The rest of the memory for staging is then used.
    let taken = Arc::new(Mutex::new(Vec::new()));
    let work = Work::new().with_threads(1).on_progress({
        let (device, taken) = (device.clone(), Arc::clone(&taken));
        move |done, _| {
            if done == 0 {
                bound(Some(MIB));
                taken.lock().unwrap().extend(staging(&device));
            }
        }
    });
    let options = LoadOptions::new().with_work(work).on_ready({
        let was_told = Arc::clone(&was_told);
        move |_| was_told.store(true, Ordering::Relaxed)
    });
    let e = load_model(&device, &queue, &file, &options).unwrap_err();
    bound(None);
    taken.lock().unwrap().clear();
    assert_eq!((e.code(), e.tensor()), ("gpu/memory", Some("t0")), "{e}");
    assert!(e.to_string().contains("staging memory"), "{e}");
    assert!(!was_told.load(Ordering::Relaxed));
    // wgpu reports such a device as lost.
    let e = load_model(&device, &queue, &file, &LoadOptions::new()).unwrap_err();
    assert_eq!(e.code(), "gpu/lost", "{e}");
    let Some((device, queue)) = common::device() else { panic!("there was one before") };
    let model = load_model(&device, &queue, &file, &LoadOptions::new()).unwrap();
    let found = model.tensor("t1").unwrap().read(&device, &queue, &Role::Data).unwrap();
    assert!(found.len() as u64 == 64 * MIB && found.iter().all(|b| *b == 0));
}

#[test]
fn a_hundred_loads_leak_no_memory() {
    if !is_alone("a_hundred_loads_leak_no_memory") {
        return;
    }
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    let options = WriteOptions::new().with_digest(Some(Algorithm::Crc32c));
    let mut writer = Writer::create(&path, &options).unwrap();
    writer.tensor(TensorSpec::dense("w", DType::F32, [1 << 20])).unwrap();
    writer.write(&noise(4 << 20, 1)).unwrap();
    writer.finish().unwrap();
    let file = open_checked(&path);
    let loads: [&dyn Fn(); 3] = [
        &|| drop(load_model(&device, &queue, &file, &LoadOptions::new()).unwrap()),
        &|| {
            let stream = stream_model(&device, &queue, &file, &LoadOptions::new());
            drop(stream.unwrap().finish().unwrap());
        },
        // A stream that nothing waits for.
        &|| drop(stream_model(&device, &queue, &file, &LoadOptions::new()).unwrap()),
    ];
    for load in loads {
        (0..10).for_each(|_| load());
        let before = status("VmRSS");
        (0..100).for_each(|_| load());
        let grown = status("VmRSS").saturating_sub(before);
        assert!(grown < 64 * MIB, "{grown} bytes more after 100 loads of 4 MiB");
    }
}
