//! Devices without room, and what loads leave in memory: each test in a process of its own, whose memory is its own.
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

/// Whether this is a process of its own for the test of that name; if not, there was one and it succeeded.
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

/// A line of `/proc/self/status`, in bytes.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// From now on this process gets so many bytes of memory more, the driver that runs in it among them; no bound without a
/// number.
fn bound(more: Option<u64>) {
    let most = getrlimit(Resource::As).maximum;
    let current = more.map(|more| status("VmSize") + more);
    setrlimit(Resource::As, Rlimit { current, maximum: most }).unwrap();
}

/// Tensors `t0`, `t1`, … of so many bytes, all of them a hole.
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
        let said = |e: holdall::Error| {
            assert_eq!(e.code(), "gpu/memory", "{e}");
            assert!(e.tensor().is_some_and(|name| name.starts_with('t')), "{e}");
            let text = e.to_string();
            assert!(text.contains("m.safetensors") && text.contains("100663296 bytes"), "{e}");
            assert!(text.contains("of 3221225472 bytes taken"), "{e}");
            text
        };
        let first = said(load_model(&device, &queue, &file, &all).unwrap_err());
        for _ in 0..50 {
            // Were anything left from the last time, less could be taken.
            assert_eq!(said(load_model(&device, &queue, &file, &all).unwrap_err()), first);
            assert_eq!(said(stream_model(&device, &queue, &file, &all).unwrap_err()), first);
        }
        // The device goes on.
        let model = load_model(&device, &queue, &file, &one).unwrap();
        assert_eq!(model.size(), 96 * MIB);
        bound(None);
    }
}

/// Buffers that have all there is where staging memory comes from.
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
    // The buffers are there when it is told how much there is to do. What else there is for staging is then taken.
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
    // wgpu gives such a device up.
    let e = load_model(&device, &queue, &file, &LoadOptions::new()).unwrap_err();
    assert_eq!(e.code(), "gpu/lost", "{e}");
    let Some((device, queue)) = common::device() else { panic!("there was one before") };
    let model = load_model(&device, &queue, &file, &LoadOptions::new()).unwrap();
    let found = model.tensor("t1").unwrap().read(&device, &queue, &Role::Data).unwrap();
    assert!(found.len() as u64 == 64 * MIB && found.iter().all(|b| *b == 0));
}

#[test]
fn a_hundred_loads_leave_no_memory_behind() {
    if !is_alone("a_hundred_loads_leave_no_memory_behind") {
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
        // Of which nobody waits for the end.
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
