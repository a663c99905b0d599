//! Options of every command.

use crate::args::input::IoChoice;
use crate::args::limits::{self, SetLimit};
#[cfg(feature = "http")]
use crate::args::remote::Allow;
#[cfg(feature = "stores")]
use crate::args::remote::store;
use crate::args::sizes::positive_number;
#[cfg(feature = "http")]
use crate::args::sizes::size;
use crate::output::style::ColorChoice;
use clap::Args;
use std::num::NonZero;
use std::path::PathBuf;

const GLOBAL: &str = "Options of every command";

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print JSON; errors become one JSON object on standard error
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,

    /// Colour the output: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true, help_heading = GLOBAL)]
    pub(crate) color: ColorChoice,

    /// Print only data and errors
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub(crate) quiet: bool,

    /// How to read files: auto, map, read (for network disks) or direct (without the system's cache)
    #[arg(long, global = true, value_name = "HOW", default_value = "auto", hide_possible_values = true, help_heading = GLOBAL)]
    pub(crate) io: IoChoice,

    /// Number of threads [default: one per core]
    #[arg(long, global = true, value_name = "N", value_parser = positive_number, help_heading = GLOBAL)]
    pub(crate) threads: Option<NonZero<usize>>,

    /// Raise or lower a limit
    #[arg(long = "limit", global = true, value_name = "NAME=N", value_parser = limits::parse, help = limits::help(), help_heading = GLOBAL)]
    pub(crate) limits: Vec<SetLimit>,

    /// Leave out unknown objects that a pickle would import, instead of refusing the file; nothing in the pickle is
    /// run either way
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) skip_unknown: bool,

    /// Read a description (TOML) of custom layouts; can be repeated
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    pub(crate) layouts: Vec<PathBuf>,

    /// Allow something that is forbidden for remote files by default: http (not only https) or private-hosts (loopback,
    /// private and link-local networks); can be repeated
    #[cfg(feature = "http")]
    #[arg(long, global = true, value_name = "WHAT", hide_possible_values = true, help_heading = GLOBAL)]
    pub(crate) allow: Vec<Allow>,

    /// Keep blocks of remote files on disk, in DIR; without DIR, in `HOLDALL_CACHE` or the system's cache folder
    #[cfg(feature = "http")]
    #[arg(long, global = true, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = GLOBAL)]
    pub(crate) cache: Option<PathBuf>,

    /// Limit the size of the cache that `--cache` keeps [default: 10GiB]
    #[cfg(feature = "http")]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size, help_heading = GLOBAL)]
    pub(crate) cache_size: Option<u64>,

    /// Set an option for object stores, such as `endpoint_url=https://host` (also `region`, `profile`, `anon`,
    /// `account_name`, `tenant_id`, `client_id`); keys come from the environment and from profiles; may be given
    /// again
    #[cfg(feature = "stores")]
    #[arg(long, global = true, value_name = "NAME=VALUE", value_parser = store, help_heading = GLOBAL)]
    pub(crate) store: Vec<(String, String)>,

    /// Do not use the network: files that a package links to are read from the cache
    #[cfg(all(feature = "http", feature = "carton"))]
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) offline: bool,
}
