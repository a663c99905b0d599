//! Counts the round trips before a result, with a distant server.
#![cfg(all(feature = "http", feature = "ztensor", feature = "safetensors"))]

use crate::make::{self, dense, noise, part};
use crate::server::{Reply, Request, Server, policy};
use holdall::{Convert, DType, EncodeOptions, OpenOptions, Role, WriteOptions, convert};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Requests of one round trip are sent within this time.
const TOGETHER: Duration = Duration::from_millis(100);

/// Holds requests back until no more arrive, and then answers all of them: one round trip.
#[derive(Default)]
struct Waves {
    state: Mutex<Wave>,
    moved: Condvar,
}

#[derive(Default)]
struct Wave {
    /// Waiting requests.
    waiting: usize,
    /// The maximum number of waiting requests.
    most: usize,
    /// Completed waves.
    gone: usize,
}

impl Waves {
    /// Waits until this request is answered.
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        state.most = state.most.max(state.waiting);
        let wave = state.gone;
        while state.gone == wave {
            let before = state.waiting;
            let (now, waited) = self.moved.wait_timeout(state, TOGETHER).unwrap();
            state = now;
            // No request arrived for a while.
            if waited.timed_out() && state.waiting == before && state.gone == wave {
                (state.waiting, state.gone) = (0, state.gone + 1);
                self.moved.notify_all();
            }
        }
    }

    /// Returns the round trips, and the most requests of one, since the last call.
    fn count(&self) -> (usize, usize) {
        let wave = std::mem::take(&mut *self.state.lock().unwrap());
        (wave.gone, wave.most)
    }
}

/// Returns a distant server.
fn far(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (Server, Arc<Waves>) {
    let waves = Arc::new(Waves::default());
    let own = waves.clone();
    let server = Server::new(move |request| {
        own.pass();
        answer(request)
    });
    (server, waves)
}

/// Returns the smallest of three counts: on a busy machine simultaneous requests may be delayed.
fn fewest<T: Ord>(count: impl Fn() -> T) -> T {
    (0..3).map(|_| count()).min().unwrap()
}

/// Returns the round trips of opening a file with that name, and of reading a tensor then.
fn trips(name: &str, bytes: &Arc<Vec<u8>>, wanted: &str, value: &[u8]) -> (usize, usize) {
    let own = bytes.clone();
    let (server, waves) = far(move |request| Reply::file(&own, "\"v1\"", request));
    let options = OpenOptions::new().with_policy(policy());
    let file = options.open(server.url(&format!("/{name}"))).unwrap();
    let (opened, _) = waves.count();
    assert!(file.tensor(wanted).unwrap().bytes(&Role::Data).unwrap() == value, "{name}");
    (opened, waves.count().0)
}

#[test]
fn a_file_opens_in_two_and_gives_a_tensor_in_one() {
    let dir = tempfile::tempdir().unwrap();
    let data = noise(400_000, 7);
    let tensors: Vec<_> = (0..12)
        .map(|n| dense(&format!("t{n}"), &[100_000], part(Role::Data, DType::F32, data.clone())))
        .collect();
    let whole = make::file("ztensor", &tensors);
    for (name, format, most) in [
        // The name tells where the index is.
        ("m.zt", "ztensor@1.2.0", 1),
        ("old.zt", "ztensor@0.1.0", 1),
        ("new.zt", "ztensor2", 1),
        ("m.mt", "metatensor", 1),
        ("m.safetensors", "safetensors", 1),
        ("m.gguf", "gguf", 1),
        ("m.h5", "hdf5", 1),
        // Each array of a zip also has its own header.
        ("m.pt", "pytorch", 2),
        ("m.npz", "npz", 2),
    ] {
        let (id, version) = format.split_once('@').unwrap_or((format, ""));
        let Some(format) = holdall::formats::by_name(id) else { continue };
        let path = dir.path().join(name);
        let mut options = WriteOptions::new().with_format(format);
        if !version.is_empty() {
            options = options.with_encode(EncodeOptions::new().with_version(version));
        }
        convert(&whole, &path, &Convert::new(options)).unwrap();
        let bytes = Arc::new(std::fs::read(&path).unwrap());
        for name in [name, "no-extension"] {
            let (opened, read) = fewest(|| trips(name, &bytes, "t6", &data));
            let most = if name == "no-extension" { 1 + most } else { most };
            assert!(opened <= most && read == 1, "{name}, {id}: {opened} to open, {read} to read");
        }
    }
}

#[test]
fn overlapping_ends_of_a_short_file_are_fetched_once() {
    for len in [1000, 100_000] {
        let data = noise(len, 7);
        let tensor = dense("t", &[len as u64], part(Role::Data, DType::U8, data.clone()));
        let bytes = Arc::new(make::bytes_of("ztensor", &Default::default(), &[tensor]));
        let own = bytes.clone();
        let (server, waves) = far(move |request| Reply::file(&own, "\"v1\"", request));
        let file = OpenOptions::new().with_policy(policy()).open(server.url("/m.zt")).unwrap();
        assert!(file.tensor("t").unwrap().bytes(&Role::Data).unwrap() == data);
        let (requests, came) = server.count();
        let most = bytes.len() + (4 << 10);
        assert!(came <= most, "{came} of {most} bytes in {requests} requests");
        assert_eq!(requests, 2, "{len} bytes");
        let _ = waves.count();
    }
}

/// Returns a safetensors file with one tensor, `t0` and so on by its number, longer than the prefetched
/// start.
fn shard(number: usize) -> Vec<u8> {
    let len = 600_000 + number;
    let header =
        format!(r#"{{"t{number}":{{"dtype":"U8","shape":[{len}],"data_offsets":[0,{len}]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + len, number as u8);
    bytes
}

#[test]
fn a_model_of_two_hundred_shards_opens_in_a_handful() {
    const SHARDS: usize = 200;
    let map: Vec<String> = (0..SHARDS).map(|n| format!(r#""t{n}": "m-{n}.safetensors""#)).collect();
    let index = format!(r#"{{"weight_map": {{{}}}}}"#, map.join(","));
    let count = || {
        let index = index.clone().into_bytes();
        let (server, waves) = far(move |request| {
            let name = request.target.trim_start_matches("/model/m-");
            match name.strip_suffix(".safetensors").and_then(|n| n.parse().ok()) {
                Some(number) => Reply::file(&shard(number), &format!("\"{number}\""), request),
                None => Reply::file(&index, "\"index\"", request),
            }
        });
        let options = OpenOptions::new().with_policy(policy());
        let file = options.open(server.url("/model/m.safetensors.index.json")).unwrap();
        let (trips, most) = waves.count();
        let names: Vec<_> = (0..SHARDS).map(|n| format!("t{n}")).collect();
        assert!(names.iter().all(|name| file.tensor(name).is_ok()));
        assert_eq!(file.len(), SHARDS);
        assert_eq!(server.count().0, SHARDS + 1, "one request for each");
        assert!((16..=32).contains(&most), "{most} at once");
        // The connections of the first file are reused for the others.
        let connections = server.connections();
        assert!(connections <= 40, "{connections}");
        // The prefetched bytes of all files are too many to keep: they are fetched again where needed.
        for number in [0, 150, 199] {
            let all = file.tensor(&format!("t{number}")).unwrap().bytes(&Role::Data).unwrap();
            assert!(all.len() == 600_000 + number && all.iter().all(|b| *b == number as u8));
        }
        trips
    };
    let trips = fewest(count);
    // Seven of 32, the index before them, and some that came late.
    assert!(trips <= 12, "{trips}");
}

#[test]
fn the_first_missing_shard_is_reported() {
    let map: Vec<String> = (0..40).map(|n| format!(r#""t{n}": "m-{n:02}.safetensors""#)).collect();
    let index = format!(r#"{{"weight_map": {{{}}}}}"#, map.join(","));
    let server = Server::new(move |request| match request.target.as_str() {
        "/m.safetensors.index.json" => Reply::file(index.as_bytes(), "\"index\"", request),
        // The later a shard is in the list, the sooner its answer is sent.
        target => {
            let number: u64 = target[3..5].parse().unwrap();
            std::thread::sleep(Duration::from_millis(2 * (40 - number)));
            match number < 3 {
                true => Reply::file(&shard(number as usize), "\"v\"", request),
                false => Reply::new(404, ""),
            }
        }
    });
    let options = OpenOptions::new().with_policy(policy());
    let e = options.open(server.url("/m.safetensors.index.json")).unwrap_err();
    assert_eq!(e.code(), "http/status");
    assert!(e.to_string().contains("m-03.safetensors"), "{e}");
}
