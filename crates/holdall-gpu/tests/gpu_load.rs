//! Models in buffers of a device, read back byte for byte.

mod common;

use common::{LENS, device, mappable, name, noise, open, open_checked, with_limits, write};
use holdall::{
    Algorithm, Cancel, DType, ErrorKind, Role, Select, TensorSpec, Work, WriteOptions, Writer,
};
use holdall_gpu::{LoadOptions, Model, Placement, View, load_model};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn check(model: &Model, device: &wgpu::Device, queue: &wgpu::Queue) {
    for (i, len) in LENS.iter().enumerate() {
        let tensor = model.tensor(&name(i)).unwrap();
        let bytes = tensor.read(device, queue, &Role::Data).unwrap();
        assert!(bytes == noise(*len, i as u64 + 1), "{} differs", name(i));
        let component = tensor.component(&Role::Data).unwrap();
        assert_eq!(component.len, *len as u64);
        assert_eq!(component.pages.iter().map(|p| p.len).sum::<u64>(), *len as u64);
    }
}

#[test]
fn every_byte_of_every_encoding_is_on_the_device() {
    let Some((device, queue)) = device() else { return };
    every_encoding(&device, &queue, &LoadOptions::new());
}

#[test]
fn every_byte_is_loaded_in_place() {
    let Some((device, queue)) = mappable() else { return };
    every_encoding(&device, &queue, &LoadOptions::new().in_place());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    write(&path, "safetensors", None, None);
    let is_mapped = |options: &LoadOptions| {
        let model = load_model(&device, &queue, &open(&path), options).unwrap();
        check(&model, &device, &queue);
        model.buffers().iter().all(|b| b.usage().contains(wgpu::BufferUsages::MAP_WRITE))
    };
    assert!(is_mapped(&LoadOptions::new().in_place()));
    assert!(!is_mapped(&LoadOptions::new()));
    // An `on_ready` callback may use the tensor's buffer, which is impossible while it is mapped.
    assert!(!is_mapped(&LoadOptions::new().in_place().on_ready(|_| ())));
    device.destroy();
    let options = LoadOptions::new().in_place();
    let e = load_model(&device, &queue, &open(&path), &options).unwrap_err();
    assert_eq!(e.code(), "gpu/lost", "{e}");
}

fn every_encoding(device: &wgpu::Device, queue: &wgpu::Queue, options: &LoadOptions) {
    let dir = tempfile::tempdir().unwrap();
    for (format, zstd, digest) in [
        ("safetensors", None, None),
        ("ztensor", None, Some(Algorithm::Crc32c)),
        ("ztensor", None, Some(Algorithm::Sha256)),
        ("ztensor", Some(1), Some(Algorithm::Crc32c)),
        ("ztensor", Some(1), Some(Algorithm::Sha256)),
    ] {
        let path = dir.path().join(format!("{format}-{zstd:?}-{digest:?}"));
        write(&path, format, zstd, digest);
        for placement in [Placement::default(), Placement::Each, Placement::Arena(8 << 20)] {
            for threads in [1, 4] {
                let options = options
                    .clone()
                    .with_placement(placement)
                    .with_work(Work::new().with_threads(threads));
                let model = load_model(device, queue, &open_checked(&path), &options).unwrap();
                assert_eq!(model.len(), LENS.len());
                check(&model, device, queue);
            }
        }
    }
}

#[test]
fn bindings_start_where_the_device_wants_them() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    write(&path, "safetensors", None, None);
    let model = load_model(&device, &queue, &open(&path), &LoadOptions::new()).unwrap();
    assert_eq!(model.buffers().len(), 1, "all of them fit one buffer");
    let mut starts = HashSet::new();
    for tensor in model.tensors() {
        for page in &tensor.component(&Role::Data).unwrap().pages {
            assert_eq!(page.offset % 256, 0);
            assert!(starts.insert(page.offset));
        }
    }
    let nothing = model.tensor(&name(0)).unwrap();
    assert_eq!(nothing.binding(&Role::Data).unwrap_err().code(), "gpu/pages");
    assert!(model.tensor(&name(5)).unwrap().binding(&Role::Data).is_ok());
}

#[test]
fn tensors_larger_than_a_binding_are_paged() {
    let small = |limits: wgpu::Limits| wgpu::Limits {
        max_storage_buffer_binding_size: 1 << 20,
        max_buffer_size: 4 << 20,
        ..limits
    };
    let Some((device, queue)) = with_limits(small) else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    write(&path, "ztensor", None, Some(Algorithm::Crc32c));
    let model = load_model(&device, &queue, &open_checked(&path), &LoadOptions::new()).unwrap();
    check(&model, &device, &queue);
    let last = model.tensor(&name(LENS.len() - 1)).unwrap();
    let pages = &last.component(&Role::Data).unwrap().pages;
    assert_eq!(pages.len(), LENS[LENS.len() - 1].div_ceil(1 << 20));
    let e = last.binding(&Role::Data).unwrap_err();
    assert_eq!((e.code(), e.tensor()), ("gpu/pages", Some(last.name())));
}

#[test]
fn tied_tensors_are_on_the_device_once() {
    let Some((device, queue)) = device() else { return };
    let file = open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny.zt"));
    let stored = |t: &holdall::Tensor| t.components().next().map(|c| c.stored);
    let all: Vec<holdall::Tensor> = file.tensors().collect();
    let tied = all.iter().enumerate().find_map(|(i, a)| {
        all[..i].iter().find(|b| stored(a) == stored(b)).map(|b| (a.name(), b.name()))
    });
    let (one, other) = tied.expect("two tensors of the example share their bytes");
    let model = load_model(&device, &queue, &file, &LoadOptions::new()).unwrap();
    let page = |name: &str| {
        let component = model.tensor(name).unwrap().component(&Role::Data).unwrap();
        (component.pages[0].buffer.clone(), component.pages[0].offset)
    };
    assert_eq!(page(one), page(other));
}

#[test]
fn a_part_of_a_model_is_found_by_its_path() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    write(&path, "safetensors", None, None);
    let model = load_model(&device, &queue, &open(&path), &LoadOptions::new()).unwrap();
    let first = model.view("layer").view("0");
    let names: Vec<&str> = first.tensors().map(|t| t.name()).collect();
    assert_eq!(names, ["layer.0.t0", "layer.0.t3", "layer.0.t6", "layer.0.t9"]);
    assert_eq!(first.tensor("t3").unwrap().name(), "layer.0.t3");
    let e = first.tensor("t33").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("layer.0.t33"), "{e}");

    // With a schema that has an array of layers.
    let nested = Path::new(env!("CARGO_MANIFEST_DIR"));
    let nested = open(&nested.join("../../corpus/accept/metatensor/made-nested.mt"));
    let nested = load_model(&device, &queue, &nested, &LoadOptions::new()).unwrap();
    let names = |view: View<'_>| view.tensors().map(|t| t.name().to_owned()).collect::<Vec<_>>();
    let all = ["layers[0].b", "layers[0].w", "layers[1].b", "layers[1].w"];
    assert_eq!(names(nested.view("layers")), all);
    assert_eq!(names(nested.view("layers").view("[1]")), all[2..]);
    assert_eq!(nested.view("layers").tensor("[0].w").unwrap().name(), all[1]);
    assert_eq!(nested.view("layers[0]").tensor("b").unwrap().name(), all[0]);

    let some = Select::new(&["layer.1.*"], &[]).unwrap();
    let options = LoadOptions::new().with_select(some);
    let model = load_model(&device, &queue, &open(&path), &options).unwrap();
    assert_eq!(model.len(), 4);
    assert!(model.tensor("layer.0.t0").is_err());
}

#[test]
fn damage_is_found_before_a_tensor_is_returned() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    write(&path, "ztensor", None, Some(Algorithm::Crc32c));
    let file = open(&path);
    let damaged = file.tensor(&name(9)).unwrap();
    let stored = damaged.components().next().unwrap().stored;
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[stored.start as usize + 77] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let options = LoadOptions::new().on_ready({
        let seen = Arc::clone(&seen);
        move |tensor| {
            assert_ne!(tensor.name(), name(9));
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    let e = load_model(&device, &queue, &open_checked(&path), &options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Integrity);
    assert_eq!(e.tensor(), Some(&*name(9)));
    assert!(e.to_string().contains("m.zt"), "{e}");
    assert!(seen.load(Ordering::Relaxed) < LENS.len() as u64);
}

#[test]
fn a_device_that_is_lost_is_an_error() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    write(&path, "safetensors", None, None);
    let options = LoadOptions::new().with_work(Work::new().with_threads(1)).on_ready({
        let device = device.clone();
        move |_| device.destroy()
    });
    let e = load_model(&device, &queue, &open(&path), &options).unwrap_err();
    assert_eq!(e.code(), "gpu/lost", "{e}");
    // And from the start.
    let e = load_model(&device, &queue, &open(&path), &LoadOptions::new()).unwrap_err();
    assert_eq!(e.code(), "gpu/lost", "{e}");
}

#[test]
fn a_load_that_is_cancelled_ends() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    write(&path, "safetensors", None, None);
    let cancel = Cancel::new();
    let work = Work::new().with_threads(1).with_cancel(&cancel).on_progress({
        let cancel = cancel.clone();
        move |done, total| {
            assert!(done <= total);
            if done > 0 {
                cancel.cancel();
            }
        }
    });
    let options = LoadOptions::new().with_work(work);
    let e = load_model(&device, &queue, &open(&path), &options).unwrap_err();
    assert_eq!(e.code(), "work/cancelled");
}

#[test]
#[ignore = "1 GiB; `cargo xtask gpu` runs it"]
fn every_byte_of_a_gigabyte_is_on_the_device() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.zt");
    let specs: Vec<TensorSpec> =
        (0..16).map(|n| TensorSpec::dense(format!("t{n}"), DType::U8, [(64 << 20) + n])).collect();
    let bytes = noise(1 << 20, 7);
    // No two pieces of the file are equal.
    let piece = |n: usize, at: usize| {
        let mut piece = bytes.clone();
        piece[..16].copy_from_slice(&((n as u128) << 64 | at as u128).to_le_bytes());
        piece
    };
    let options = WriteOptions::new().with_digest(Some(Algorithm::Crc32c));
    let mut writer = Writer::create(&path, &options).unwrap();
    for (n, spec) in specs.into_iter().enumerate() {
        let len = spec.shape[0] as usize;
        writer.tensor(spec).unwrap();
        for at in (0..len).step_by(1 << 20) {
            writer.write(&piece(n, at)[..(len - at).min(1 << 20)]).unwrap();
        }
    }
    writer.finish().unwrap();
    let ways = [(device(), LoadOptions::new()), (mappable(), LoadOptions::new().in_place())];
    for (device, options) in ways {
        let Some((device, queue)) = device else { continue };
        let model = load_model(&device, &queue, &open_checked(&path), &options).unwrap();
        for n in 0..16 {
            let tensor = model.tensor(&format!("t{n}")).unwrap();
            let found = tensor.read(&device, &queue, &Role::Data).unwrap();
            assert_eq!(found.len(), (64 << 20) + n);
            for (i, found) in found.chunks(1 << 20).enumerate() {
                assert!(*found == piece(n, i << 20)[..found.len()], "t{n} differs in MiB {i}");
            }
        }
    }
}

#[test]
#[ignore = "a real model, named by HOLDALL_MODEL; `cargo xtask gpu` runs it"]
fn every_byte_of_a_real_model_is_on_the_device() {
    let Some((device, queue)) = device() else { return };
    let Some(path) = std::env::var_os("HOLDALL_MODEL") else {
        eprintln!("skipped: HOLDALL_MODEL names no model");
        return;
    };
    let file = open(Path::new(&path));
    for placement in [Placement::default(), Placement::Each] {
        let options = LoadOptions::new().with_placement(placement);
        let model = load_model(&device, &queue, &file, &options).unwrap();
        assert_eq!(model.len(), file.tensors().len());
        for tensor in file.tensors() {
            let there = model.tensor(tensor.name()).unwrap();
            assert_eq!(there.shape(), tensor.shape());
            for component in tensor.components() {
                let found = there.read(&device, &queue, &component.role).unwrap();
                let wanted = tensor.bytes(&component.role).unwrap();
                assert!(found == wanted, "{} differs", tensor.name());
            }
        }
    }
}

#[test]
fn every_rule_is_in_the_document() {
    let text = include_str!("../../../docs/gpu.md");
    for rule in holdall_gpu::RULES.iter() {
        assert!(text.contains(&format!("`{}`", rule.code)), "docs/gpu.md lacks `{}`", rule.code);
    }
}
