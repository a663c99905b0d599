//! Loading from a server, which runs on this machine: over QUIC, over HTTP, and from the block cache.

use super::Target::SpeedAtLeast;
use super::{Cache, Comparison, Contestant, Goal, floor, ours};
use crate::files::Workload::{self, *};
use crate::floor::wire::{Bare, http};
use crate::ours;
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use anyhow::{Context as _, Result};
use holdall::cache::BlockCache;
use holdall::http::{Hosts, Policy, Schemes};
use holdall::serve::{Files, Identity, Protocols, ServeOptions, Service, Serving};
use holdall::{Check, LoadOptions, OpenOptions};
use std::sync::Arc;

/// Why goals are missed, according to samples of the processors. Samples of the kernel clearing fresh pages are not
/// counted.
const OPENED: &str = "Opening takes a seventh of the processor time, and the floor has no equivalent: the client receives a table of contents of 5 MB and decodes it while the server waits. The rest takes as long as one stream of quinn.";
const COPIES: &str = "In ours, as in the floor, nine tenths of the time are spent in the kernel: copies from the file into the socket and out of it. Overall, ours takes 5 % more processor time than four bare connections.";

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "quic-load",
        cache: Cache::Warm,
        rate: true,
        what: "Connect, open and load every tensor over QUIC from a server on loopback: Llama shapes, digests not checked.",
        files: &[LlamaSafetensors],
        contestants: QUIC,
        goals: &[Goal {
            ours: "holdall",
            target: SpeedAtLeast(0.9, &["quinn, 1 stream", "quinn, 4 streams"]),
            note: "",
        }],
    },
    Comparison {
        name: "quic-load-10k",
        cache: Cache::Warm,
        rate: false,
        what: "The same of 10 000 tensors of 10 KB, of a file with 51 000; quinn sends the same number of bytes.",
        files: &[SmallSafetensors],
        contestants: QUIC_SMALL,
        goals: &[Goal {
            ours: "holdall",
            target: SpeedAtLeast(0.7, &["quinn, 1 stream", "quinn, 4 streams"]),
            note: OPENED,
        }],
    },
    Comparison {
        name: "http-load",
        cache: Cache::Warm,
        rate: true,
        what: "Open and load every tensor over HTTP from a server on loopback: Llama shapes, digests not checked.",
        files: &[LlamaSafetensors],
        contestants: HTTP,
        goals: &[Goal {
            ours: "holdall",
            target: SpeedAtLeast(0.9, &["ranges of 8 MB, 4 at once", "ranges of 8 MB, 8 at once"]),
            note: COPIES,
        }],
    },
    Comparison {
        name: "cache-load",
        cache: Cache::Warm,
        rate: true,
        what: "Open and load every tensor of a file at an address, all blocks of which are in the cache: Llama shapes, digests not checked.",
        files: &[LlamaSafetensors],
        contestants: CACHE,
        goals: &[Goal {
            ours: "holdall, from the cache",
            target: SpeedAtLeast(0.9, &["holdall, local file"]),
            note: "Each block is read by a separate call and compared with its checksum, unlike the local file.",
        }],
    },
];

const QUIC: &[Contestant] = &[
    ours("holdall", |c| load(c, LlamaSafetensors, Protocols::Quic, None, OpenOptions::new())),
    floor("quinn, 1 stream", |c| bare(c, LlamaSafetensors, None, 1)),
    floor("quinn, 4 streams", |c| bare(c, LlamaSafetensors, None, 4)),
];

const QUIC_SMALL: &[Contestant] = &[
    ours("holdall", |c| {
        load(c, SmallSafetensors, Protocols::Quic, Some(SMALL), OpenOptions::new())
    }),
    floor("quinn, 1 stream", |c| bare(c, SmallSafetensors, Some(SMALL_LEN), 1)),
    floor("quinn, 4 streams", |c| bare(c, SmallSafetensors, Some(SMALL_LEN), 4)),
];

const HTTP: &[Contestant] = &[
    ours("holdall", |c| load(c, LlamaSafetensors, Protocols::Http, None, OpenOptions::new())),
    floor("ranges of 8 MB, 4 at once", |c| ranges(c, LlamaSafetensors, 4)),
    floor("ranges of 8 MB, 8 at once", |c| ranges(c, LlamaSafetensors, 8)),
];

const CACHE: &[Contestant] = &[
    ours("holdall, from the cache", |c| {
        let cache = BlockCache::new(c.folder().join("blocks"));
        let options = OpenOptions::new().with_cache(cache);
        // Fills the cache from the same server, because a cached block belongs to one address.
        let (_serving, url) = serve(c, LlamaSafetensors, Protocols::Http)?;
        load_from(c, &url, None, options.clone())?;
        let outcome = load_from(c, &url, None, options)?;
        std::fs::remove_dir_all(c.folder().join("blocks"))?;
        Ok(outcome)
    }),
    floor("holdall, local file", |c| ours::load(c, LlamaSafetensors, Check::Off)),
];

/// The number of tensors in the comparison of small ones.
const SMALL: usize = 10_000;
const SMALL_LEN: u64 = SMALL as u64 * 10_240;

/// Starts a server of one file in this process.
fn serve(c: &Context, file: Workload, over: Protocols) -> Result<(Serving, String)> {
    let path = c.path(file);
    let name = path.file_name().and_then(|name| name.to_str()).context("the file has a name")?;
    let service = Service::new(Arc::new(Files::new([&path])?));
    let options = ServeOptions::new().with_listen("127.0.0.1:0".parse()?).with_protocols(over);
    let serving = Serving::start(&service, &options.with_identity(Identity::generate()?))?;
    let url = match over {
        Protocols::Http => serving.http_url(name),
        _ => serving.url(name),
    };
    let url = url.context("the file is served")?;
    Ok((serving, url))
}

/// Opens and loads all tensors, or the first ones.
fn load(
    c: &Context,
    file: Workload,
    over: Protocols,
    first: Option<usize>,
    options: OpenOptions,
) -> Result<Outcome> {
    let (_serving, url) = serve(c, file, over)?;
    load_from(c, &url, first, options)
}

fn load_from(
    c: &Context,
    url: &str,
    first: Option<usize>,
    options: OpenOptions,
) -> Result<Outcome> {
    let policy = Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo);
    let options = options.with_policy(policy).with_check(Check::Off);
    let (loaded, mut outcome) = timed(|| {
        let file = options.open(url)?;
        match first {
            None => file.load_all(),
            Some(count) => file.load(file.names().take(count), &LoadOptions::new()),
        }
    })?;
    outcome.check = ours::check_of(c, &loaded)?;
    Ok(outcome)
}

/// Fetches the file, or the start of it, by quinn alone.
fn bare(c: &Context, file: Workload, len: Option<u64>, streams: u64) -> Result<Outcome> {
    let path = c.path(file);
    let all = path.metadata()?.len();
    let server = Bare::serve(&path)?;
    let len = len.map_or(all, |len| len.min(all));
    Ok(timed(|| server.fetch(len, streams))?.1)
}

fn ranges(c: &Context, file: Workload, at_once: usize) -> Result<Outcome> {
    let (_serving, url) = serve(c, file, Protocols::Http)?;
    let len = c.path(file).metadata()?.len();
    Ok(timed(|| http(&url, len, 8 << 20, at_once))?.1)
}
