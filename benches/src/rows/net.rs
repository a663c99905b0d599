//! Files that another process could serve, over the network of this machine; the server is in the process that loads.

use super::Target::{SpeedAtLeast, TimeAtMost};
use super::{Cache, Comparison, Contestant, Goal, floor, ours};
use crate::files::Workload::{self, *};
use crate::floor::net::{self, Quic};
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use anyhow::{Context as _, Result};
use holdall::cache::BlockCache;
use holdall::http::{Hosts, Policy, Schemes};
use holdall::serve::{Files, Identity, Over, ServeOptions, Service, Serving};
use holdall::stores::StoreOptions;
use holdall::{Check, LoadOptions, OpenOptions, Role};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "net-s3",
        cache: Cache::Warm,
        rate: true,
        what: "Load every tensor from an S3 on this machine: Llama shapes. The floor asks the same server for ranges, over connections of its own.",
        files: &[LlamaZt12],
        contestants: &[
            ours("holdall, s3://", |c| s3(c, LlamaZt12)),
            floor("ranges, 4 connections", |c| ranges(c, LlamaZt12, 4)),
            floor("ranges, 8 connections", |c| ranges(c, LlamaZt12, 8)),
        ],
        goals: &[Goal {
            ours: "holdall, s3://",
            target: SpeedAtLeast(0.9, &["ranges, 4 connections", "ranges, 8 connections"]),
            note: "",
        }],
    },
    Comparison {
        name: "net-quic",
        cache: Cache::Warm,
        rate: true,
        what: "Load every tensor over QUIC: Llama shapes. The floor sends the same bytes by bare quinn, with the same windows.",
        files: &[LlamaZt12],
        contestants: &[
            ours("holdall, holdall://", |c| quic(c, LlamaZt12)),
            floor("quinn, 4 streams", |c| bare(c, LlamaZt12, 4)),
        ],
        goals: &[Goal {
            ours: "holdall, holdall://",
            target: SpeedAtLeast(0.9, &["quinn, 4 streams"]),
            note: "",
        }],
    },
    Comparison {
        name: "net-quic-51k",
        cache: Cache::Warm,
        rate: true,
        what: "The same with 51 000 tensors of 10 KB.",
        files: &[SmallZt12],
        contestants: &[
            ours("holdall, holdall://", |c| quic(c, SmallZt12)),
            floor("quinn, 4 streams", |c| bare(c, SmallZt12, 4)),
        ],
        goals: &[Goal {
            ours: "holdall, holdall://",
            target: SpeedAtLeast(0.7, &["quinn, 4 streams"]),
            note: "",
        }],
    },
    Comparison {
        name: "net-first",
        cache: Cache::Warm,
        rate: false,
        what: "Stream a model over QUIC, the smallest layer first, until that is there while the rest is on its way; the floor loads that layer and nothing else.",
        files: &[LlamaZt12],
        contestants: &[
            ours("holdall, first of all", |c| first(c, true)),
            floor("holdall, that alone", |c| first(c, false)),
        ],
        goals: &[Goal {
            ours: "holdall, first of all",
            target: TimeAtMost(3.0, &["holdall, that alone"]),
            note: "",
        }],
    },
    Comparison {
        name: "net-cache",
        cache: Cache::Warm,
        rate: true,
        what: "Load every tensor of a file at an address whose blocks are all in the cache, and of a local file.",
        files: &[LlamaZt12],
        contestants: &[
            ours("holdall, from the cache", |c| cached(c, LlamaZt12)),
            floor("holdall, a local file", |c| crate::ours::load(c, LlamaZt12, Check::Off)),
        ],
        goals: &[Goal {
            ours: "holdall, from the cache",
            target: SpeedAtLeast(0.9, &["holdall, a local file"]),
            note: "",
        }],
    },
];

/// A server of the folder that the file is in, over one protocol, and the name that the file has there: its folder, which an S3 would call a
/// bucket, and its own.
fn serving(c: &Context, file: Workload, over: Over) -> Result<(Serving, String)> {
    let path = c.path(file);
    let folder = path.parent().context("a folder")?;
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let name = name(folder).zip(name(&path)).map(|(folder, file)| format!("{folder}/{file}"));
    let name = name.context("a file's name")?;
    let options = ServeOptions::new().with_listen((Ipv4Addr::LOCALHOST, 0).into()).with_over(over);
    let options = match over {
        Over::Quic => options.with_identity(Identity::generate()?),
        _ => options,
    };
    Ok((Serving::start(&Service::new(Arc::new(Files::new([folder])?)), &options)?, name))
}

/// Loads all of what is at an address.
fn load(c: &Context, options: &OpenOptions, address: &str) -> Result<Outcome> {
    let options = options.clone().with_check(Check::Off);
    let (loaded, mut outcome) = timed(|| options.open(address).and_then(|file| file.load_all()))?;
    let mut check = c.check();
    for tensor in loaded.iter() {
        check.tensor(tensor.info().name(), tensor.bytes(&Role::Data)?);
    }
    outcome.check = check.value();
    Ok(outcome)
}

fn options() -> OpenOptions {
    let policy = Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo);
    OpenOptions::new().with_policy(policy)
}

/// Our server answers as an S3 does to who reads, and looks at no signature.
fn s3(c: &Context, file: Workload) -> Result<Outcome> {
    let (serving, name) = serving(c, file, Over::Http)?;
    let endpoint = format!("http://{}", serving.address());
    let said = StoreOptions::alone().with("endpoint_url", endpoint)?.with("anon", "true")?;
    load(c, &options().with_store_options(said), &format!("s3://{name}"))
}

fn ranges(c: &Context, file: Workload, connections: usize) -> Result<Outcome> {
    let (serving, name) = serving(c, file, Over::Http)?;
    let len = std::fs::metadata(c.path(file))?.len();
    Ok(timed(|| net::http(serving.address(), &format!("/{name}"), len, connections))?.1)
}

fn quic(c: &Context, file: Workload) -> Result<Outcome> {
    let (serving, name) = serving(c, file, Over::Quic)?;
    load(c, &options(), &serving.url(&name).context("it is served")?)
}

fn bare(c: &Context, file: Workload, streams: usize) -> Result<Outcome> {
    let quic = Quic::new(&c.path(file))?;
    Ok(timed(|| quic.load(streams))?.1)
}

/// The time until a small tensor is there, with all others behind it or alone.
fn first(c: &Context, all: bool) -> Result<Outcome> {
    const FIRST: &str = "model.layers.0.self_attn.k_proj.weight";
    let (serving, name) = serving(c, LlamaZt12, Over::Quic)?;
    let address = serving.url(&name).context("it is served")?;
    let file = options().with_check(Check::Off).open(address)?;
    let others = file.names().filter(|name| all && *name != FIRST);
    let order: Vec<&str> = std::iter::once(FIRST).chain(others).collect();
    let (arrived, outcome) = timed(|| {
        let mut arriving = file.stream(order.iter().copied(), &LoadOptions::new())?;
        let first = arriving.next().transpose()?;
        anyhow::Ok((first, arriving))
    })?;
    let first = arrived.0.context("it comes")?;
    anyhow::ensure!(first.name() == FIRST, "{} came first", first.name());
    Ok(outcome)
}

fn cached(c: &Context, file: Workload) -> Result<Outcome> {
    let (serving, name) = serving(c, file, Over::Http)?;
    let folder = c.path(file).with_extension("blocks");
    let address = format!("http://{}/{name}", serving.address());
    let options = options().with_cache(BlockCache::new(&folder));
    let done = load(c, &options, &address).and_then(|_| load(c, &options, &address));
    std::fs::remove_dir_all(&folder)?;
    done
}
