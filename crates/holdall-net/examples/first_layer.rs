//! Computes with a model while it is being received: the layers are fetched in the order in which they are needed. The
//! connection is cut in the middle, and the rest is fetched over another one.
//!
//! `cargo run --release --package holdall-net --features quic --example first_layer -- 1024` makes a model of 1024 MiB,
//! serves it, and prints when each layer arrived.

use holdall::http::{Hosts, Policy, Timeouts};
use holdall::serve::{Files, Identity, Protocols, ServeOptions, Service, Serving};
use holdall::{
    Algorithm, DType, Error, LoadOptions, OpenOptions, Result, Role, TensorSpec, WriteOptions,
    Writer,
};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LAYERS: u64 = 32;

#[allow(dead_code)] // As a test it has another beginning.
fn main() -> Result<()> {
    let mib = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1024);
    let folder = std::env::temp_dir().join(format!("first-layer-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is a folder for temporary files");
    let done = run(&folder, mib << 20, |line| println!("{line}"));
    // The folder is for temporary files, so a failure to remove it does not matter.
    let _ = std::fs::remove_dir_all(&folder);
    done
}

/// Streams a model of `bytes` bytes, and passes a line per event to `tell`.
pub(crate) fn run(folder: &Path, bytes: u64, tell: impl Fn(String)) -> Result<()> {
    let path = folder.join("model.zt");
    write(&path, bytes / LAYERS)?;
    let identity = Arc::new(Identity::generate()?);
    let serving = serve(&path, "127.0.0.1:0".parse().expect("an address"), &identity)?;
    let at = serving.address();
    let address = serving.url("model.zt").expect("it is served over QUIC");
    let mut serving = Some(serving);

    let began = Instant::now();
    let file = options().open(address)?;
    tell(format!("{:>6} ms  open: {} layers", began.elapsed().as_millis(), file.len()));
    let order: Vec<String> = (0..LAYERS).map(|layer| format!("layers.{layer}")).collect();
    let order = order.iter().map(String::as_str);
    let mut arriving = file.stream(order, &LoadOptions::new())?;
    let (mut activations, mut count) = (1.0, 0);
    while let Some(layer) = arriving.next() {
        let layer = layer?;
        let weights = layer.tensor().bytes(&Role::Data)?;
        activations = compute(activations, weights);
        let ms = began.elapsed().as_millis();
        tell(format!("{ms:>6} ms  {} computed, {} on their way", layer.name(), arriving.left()));
        let local =
            noise(layer.name().rsplit('.').next().and_then(|n| n.parse().ok()), weights.len());
        assert!(*weights == local, "{} is another", layer.name());
        count += 1;
        if count == LAYERS / 2 {
            // As if the process had been killed: the client is not notified. Another server starts at the same address.
            drop(serving.take());
            tell(format!("{:>6} ms  the server is gone", began.elapsed().as_millis()));
            serving = Some(again(&path, at, &identity)?);
        }
    }
    let secs = began.elapsed().as_secs_f64();
    let rate = bytes as f64 / secs / 1e6;
    tell(format!(
        "{:>6.0} ms  {count} layers, every byte the same, {rate:.0} MB/s; {activations:.3}",
        secs * 1e3
    ));
    assert_eq!(count, LAYERS);
    Ok(())
}

/// Stands in for computing a layer of a network.
fn compute(activations: f64, weights: &[u8]) -> f64 {
    let sum: u64 = weights.iter().map(|byte| u64::from(*byte)).sum();
    (activations + sum as f64 / weights.len().max(1) as f64).sqrt()
}

/// Returns the bytes of a layer.
fn noise(layer: Option<u64>, len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ layer.unwrap_or(u64::MAX);
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

fn write(path: &Path, len: u64) -> Result<()> {
    let options = WriteOptions::new().with_digest(Some(Algorithm::Crc32c));
    let mut writer = Writer::create(path, &options)?;
    for layer in 0..LAYERS {
        let spec = TensorSpec::dense(format!("layers.{layer}"), DType::U8, [len]);
        writer.add(spec, &[&noise(Some(layer), len as usize)])?;
    }
    writer.finish()
}

fn serve(path: &Path, listen: SocketAddr, identity: &Arc<Identity>) -> Result<Serving> {
    let files = Arc::new(Files::new([path])?);
    let options = ServeOptions::new().with_listen(listen).with_protocols(Protocols::Quic);
    Serving::start(&Service::new(files), &options.with_identity(Arc::clone(identity)))
}

/// Starts another server at the same address. The old server's threads may hold the socket for a moment.
fn again(path: &Path, at: SocketAddr, identity: &Arc<Identity>) -> Result<Serving> {
    let mut last: Option<Error> = None;
    for _ in 0..200 {
        match serve(path, at, identity) {
            Ok(serving) => return Ok(serving),
            Err(e) => last = Some(e),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(last.expect("it was tried"))
}

/// Options for a local server, whose connection counts as lost after a second without a packet.
fn options() -> OpenOptions {
    let mut timeouts = Timeouts::default();
    timeouts.stall = Duration::from_secs(1);
    OpenOptions::new().with_policy(Policy::new().with_hosts(Hosts::Any).with_timeouts(timeouts))
}
