//! Models that are used while they are loading.

mod common;
#[path = "../../holdall/tests/served/mod.rs"]
mod served;
#[path = "../../holdall/tests/server/mod.rs"]
mod server;

use common::{LENS, device, name, noise, open_checked, write};
use holdall::http::Timeouts;
use holdall::{Algorithm, Check, ErrorKind, OpenOptions, Role, Work};
use holdall_gpu::{LoadOptions, ModelStream, Tensor, block_on, stream_model};
use server::{Reply, Server, policy};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Returns the index of a tensor of [`write`].
fn number(tensor: &Tensor) -> usize {
    tensor.name().rsplit_once(".t").unwrap().1.parse().unwrap()
}

#[test]
fn tensors_come_in_the_order_that_was_asked_for_and_whole() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    write(&path, "ztensor", Some(1), Some(Algorithm::Crc32c));
    let server = Server::with_file(std::fs::read(&path).unwrap());
    let far = OpenOptions::new().with_policy(policy()).open(server.url("/m.zt")).unwrap();
    for file in [open_checked(&path), far] {
        let options = LoadOptions::new()
            .with_work(Work::new().with_threads(1))
            .with_order(["layer.2.*", "layer.1.*"])
            .unwrap();
        let mut stream = stream_model(&device, &queue, &file, &options).unwrap();
        let mut layers = Vec::new();
        for tensor in stream.by_ref() {
            let tensor = tensor.unwrap();
            let i = number(&tensor);
            let bytes = tensor.read(&device, &queue, &Role::Data).unwrap();
            assert!(bytes == noise(LENS[i], i as u64 + 1), "{} differs", tensor.name());
            layers.push(i % 3);
        }
        assert_eq!(layers.len(), LENS.len());
        // Over a network, several responses arrive at once.
        if !file.name().starts_with("http") {
            assert_eq!(layers, [2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0]);
        }
        assert_eq!(stream.progress(), (LENS.len(), LENS.len()));
        assert_eq!(stream.finish().unwrap().len(), LENS.len());
    }
}

/// Over QUIC, each read of a tensor is a stream; the connection is lost in the middle, and another one continues.
#[test]
fn a_model_that_another_holdall_serves_comes_whole_though_that_is_restarted() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    write(&path, "ztensor", None, Some(Algorithm::Crc32c));
    let mut there = served::Served::new([&path]);
    let file = there.open("m.zt").unwrap();
    let options = LoadOptions::new().with_order(["layer.2.*"]).unwrap();
    let mut stream = stream_model(&device, &queue, &file, &options).unwrap();
    let mut count = 0;
    for tensor in stream.by_ref() {
        let tensor = tensor.unwrap();
        let i = number(&tensor);
        let bytes = tensor.read(&device, &queue, &Role::Data).unwrap();
        assert!(bytes == noise(LENS[i], i as u64 + 1), "{} differs", tensor.name());
        count += 1;
        if count == 3 {
            there.restart();
        }
    }
    assert_eq!(count, LENS.len());
    assert_eq!(stream.finish().unwrap().len(), LENS.len());
}

#[test]
fn a_tensor_can_be_waited_for() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    write(&path, "ztensor", None, Some(Algorithm::Crc32c));
    let stream = stream_model(&device, &queue, &open_checked(&path), &LoadOptions::new()).unwrap();
    let last = name(LENS.len() - 1);
    assert_eq!(stream.wait(&last).unwrap().name(), last);
    let first = block_on(stream.ready(&name(1)).unwrap()).unwrap();
    assert_eq!(first.read(&device, &queue, &Role::Data).unwrap(), noise(LENS[1], 2));
    let e = stream.wait("layer.1.t10000").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    stream.finish().unwrap();
}

#[test]
fn damage_is_an_error_for_the_missing_tensors() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    write(&path, "ztensor", None, Some(Algorithm::Crc32c));
    let file = open_checked(&path);
    let last = file.tensor(&name(LENS.len() - 1)).unwrap();
    let stored = last.components().next().unwrap().stored;
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[stored.end as usize - 1] ^= 0x80;
    std::fs::write(&path, bytes).unwrap();
    let mut stream =
        stream_model(&device, &queue, &open_checked(&path), &LoadOptions::new()).unwrap();
    let e = stream.wait(last.name()).unwrap_err();
    assert_eq!((e.kind(), e.tensor()), (ErrorKind::Integrity, Some(last.name())));
    let got: Vec<_> = stream.by_ref().collect();
    assert!(got.len() < LENS.len() + 1);
    assert!(got[..got.len() - 1].iter().all(Result::is_ok));
    assert!(got[got.len() - 1].is_err());
    assert_eq!(stream.finish().unwrap_err().kind(), ErrorKind::Integrity);
}

/// Tensors that were ready before a stream failed stay usable; the others return the error.
fn breaks(stream: &mut ModelStream, device: &wgpu::Device, queue: &wgpu::Queue) -> holdall::Error {
    let mut seen = Vec::new();
    let e = stream.by_ref().find_map(|tensor| match tensor {
        Ok(tensor) => {
            seen.push(tensor);
            None
        }
        Err(e) => Some(e),
    });
    let e = e.expect("the stream breaks");
    for tensor in &seen {
        let i = number(tensor);
        let bytes = tensor.read(device, queue, &Role::Data).unwrap();
        assert!(bytes == noise(LENS[i], i as u64 + 1), "{} differs", tensor.name());
    }
    assert!(stream.next().is_none() && seen.len() < LENS.len());
    for i in (0..LENS.len()).filter(|i| seen.iter().all(|tensor| number(tensor) != *i)) {
        assert_eq!(stream.wait(&name(i)).unwrap_err().code(), e.code());
        assert_eq!(block_on(stream.ready(&name(i)).unwrap()).unwrap_err().code(), e.code());
    }
    e
}

#[test]
fn a_broken_stream_is_an_error_for_the_missing_tensors() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    write(&path, "ztensor", None, Some(Algorithm::Crc32c));
    let bytes = std::fs::read(&path).unwrap();
    let is_cut = Arc::new(AtomicBool::new(false));
    let server = Server::new({
        let is_cut = Arc::clone(&is_cut);
        move |request| {
            let mut reply = Reply::file(&bytes, "\"m\"", request);
            reply.cut = is_cut.load(Ordering::SeqCst).then_some(100);
            reply
        }
    });
    let far = OpenOptions::new().with_policy(policy()).open(server.url("/m.zt")).unwrap();
    // The large ones come last.
    let options = LoadOptions::new().with_work(Work::new().with_threads(1)).on_ready({
        let is_cut = Arc::clone(&is_cut);
        move |_| is_cut.store(true, Ordering::SeqCst)
    });
    let mut stream = stream_model(&device, &queue, &far, &options).unwrap();
    let e = breaks(&mut stream, &device, &queue);
    assert_eq!(e.kind(), ErrorKind::Io, "{e}");
    assert_eq!(stream.finish().unwrap_err().code(), e.code());
}

#[test]
fn a_server_that_ends_ends_the_stream() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    write(&path, "ztensor", None, Some(Algorithm::Crc32c));
    let mut there = served::Served::new([&path]);
    let mut timeouts = Timeouts::default();
    (timeouts.connect, timeouts.tries) = (Duration::from_millis(200), 1);
    let policy = served::policy().with_timeouts(timeouts);
    let file = OpenOptions::new().with_policy(policy).open(there.url("m.zt")).unwrap();
    there.server.take();
    let mut stream = stream_model(&device, &queue, &file, &LoadOptions::new()).unwrap();
    let e = breaks(&mut stream, &device, &queue);
    assert_eq!(e.kind(), ErrorKind::Io, "{e}");
    assert_eq!(stream.finish().unwrap_err().code(), e.code());
}

#[test]
fn a_stream_that_lies_is_an_error_and_no_tensor() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    write(&path, "ztensor", None, Some(Algorithm::Crc32c));
    let last = LENS.len() - 1;
    let stored = open_checked(&path).tensor(&name(last)).unwrap();
    let stored = stored.components().next().unwrap().stored;
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[stored.start as usize + 1000] ^= 4;
    let server = Server::with_file(bytes);
    let far = OpenOptions::new().with_policy(policy()).with_check(Check::Read);
    let far = far.open(server.url("/m.zt")).unwrap();
    let mut stream = stream_model(&device, &queue, &far, &LoadOptions::new()).unwrap();
    let e = breaks(&mut stream, &device, &queue);
    assert_eq!((e.kind(), e.tensor()), (ErrorKind::Integrity, Some(&*name(last))), "{e}");
    assert_eq!(stream.finish().unwrap_err().kind(), ErrorKind::Integrity);
}

#[test]
fn a_device_that_is_lost_ends_the_stream() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    write(&path, "ztensor", None, Some(Algorithm::Crc32c));
    let options = LoadOptions::new().with_work(Work::new().with_threads(1)).on_ready({
        let device = device.clone();
        move |_| device.destroy()
    });
    let mut stream = stream_model(&device, &queue, &open_checked(&path), &options).unwrap();
    let last = name(LENS.len() - 1);
    assert_eq!(stream.wait(&last).unwrap_err().code(), "gpu/lost");
    assert_eq!(stream.by_ref().last().unwrap().unwrap_err().code(), "gpu/lost");
    assert_eq!(stream.finish().unwrap_err().code(), "gpu/lost");
}

#[test]
fn a_dropped_stream_ends() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    write(&path, "ztensor", Some(1), None);
    for _ in 0..5 {
        drop(stream_model(&device, &queue, &open_checked(&path), &LoadOptions::new()).unwrap());
    }
}
