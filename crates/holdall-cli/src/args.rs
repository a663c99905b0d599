//! The command line, as `clap` reads it.

use crate::limit::{self, SetLimit};
use crate::output::style::When;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use holdall::{Io, Limits, Select};
use std::num::NonZero;
use std::path::PathBuf;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Look into tensor and model files; check, convert and edit them.
#[derive(Debug, Parser)]
#[command(
    name = "holdall",
    version,
    styles = STYLES,
    arg_required_else_help = true,
    after_help = "Examples:
  holdall inspect model.safetensors                 what is in it
  holdall verify model.zt                           is it sound
  holdall convert model.safetensors model.zt        turn it into another format
  holdall diff model.safetensors model.zt           what differs

Exit status: 0 fine, 1 the file is bad or differs, 2 usage, 3 I/O, 4 unsupported or over a limit.
`holdall COMMAND --help` shows the options and examples of a command."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What `holdall` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(visible_aliases = ["info", "ls"])]
    Inspect(crate::inspect::InspectArgs),
    Verify(crate::verify::VerifyArgs),
    #[cfg(feature = "pytorch")]
    Scan(crate::scan::ScanArgs),
    Diff(crate::diff::DiffArgs),
    Convert(crate::convert::ConvertArgs),
    Extract(crate::extract::ExtractArgs),
    Edit(crate::edit::EditArgs),
    Salvage(crate::salvage::SalvageArgs),
    #[cfg(feature = "carton")]
    Pack(crate::package::pack::PackArgs),
    #[cfg(feature = "carton")]
    Unpack(crate::package::unpack::UnpackArgs),
    #[cfg(feature = "carton")]
    Hash(crate::package::hash::HashArgs),
    #[cfg(feature = "carton")]
    Test(crate::model::test::TestArgs),
    #[cfg(feature = "carton")]
    Run(crate::model::run::RunArgs),
    #[cfg(all(unix, feature = "carton"))]
    Runner(crate::model::runner::RunnerArgs),
    Build(crate::build::BuildArgs),
    Records(crate::records::RecordsArgs),
    Schema(crate::schema::SchemaArgs),
    #[cfg(all(feature = "http", feature = "carton"))]
    Shrink(crate::links::shrink::ShrinkArgs),
    #[cfg(all(feature = "http", feature = "carton"))]
    Fetch(crate::links::fetch::FetchArgs),
    Serve(crate::serve::ServeArgs),
    View(crate::view::ViewArgs),
    /// List the formats this build reads and writes
    Formats,
    Rules(crate::rules::RulesArgs),
    Completions(crate::completions::CompletionsArgs),
    Man(crate::completions::ManArgs),
}

const GLOBAL: &str = "Options of every command";

/// Options that every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print JSON; errors become one JSON object on standard error
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,

    /// Colour the output: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true, help_heading = GLOBAL)]
    pub(crate) color: When,

    /// Print only data and errors
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub(crate) quiet: bool,

    /// How files are read: auto, map, read (for network disks) or direct (without the system's cache)
    #[arg(long, global = true, value_name = "HOW", default_value = "auto", hide_possible_values = true, help_heading = GLOBAL)]
    pub(crate) io: IoChoice,

    /// Threads to use [default: one for each core]
    #[arg(long, global = true, value_name = "N", value_parser = from_one, help_heading = GLOBAL)]
    pub(crate) threads: Option<NonZero<usize>>,

    /// Raise or lower a limit
    #[arg(long = "limit", global = true, value_name = "NAME=N", value_parser = limit::parse, help = limit::help(), help_heading = GLOBAL)]
    pub(crate) limits: Vec<SetLimit>,

    /// Leave out unknown objects that a pickle would import, instead of refusing the file; nothing in the pickle is
    /// run either way
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) skip_unknown: bool,

    /// Read a description (TOML) of custom layouts; may be given again
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    pub(crate) layouts: Vec<PathBuf>,

    /// Allow what is forbidden for remote files by default: http (not only https), private-hosts (loopback, private
    /// and link-local networks); may be given again
    #[cfg(feature = "http")]
    #[arg(long, global = true, value_name = "WHAT", hide_possible_values = true, help_heading = GLOBAL)]
    pub(crate) allow: Vec<Allow>,

    /// Keep blocks of remote files on disk: in DIR, or by default in `HOLDALL_CACHE` or the system's cache folder
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

    /// Fetch nothing: files that a package links to come from the cache
    #[cfg(all(feature = "http", feature = "carton"))]
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) offline: bool,
}

/// `--store`. What is secret is not taken: all users of a machine see command lines.
#[cfg(feature = "stores")]
fn store(text: &str) -> Result<(String, String), String> {
    let open = holdall::stores::OPEN;
    let (name, value) =
        text.split_once('=').ok_or("write NAME=VALUE, for example region=eu-west-1")?;
    if !open.contains(&name) {
        return Err(format!(
            "name one of these: {}; keys come from the environment and from profiles",
            open.join(", ")
        ));
    }
    let checked = holdall::stores::StoreOptions::new().with(name, value);
    checked.map(|_| (name.to_owned(), value.to_owned())).map_err(|e| e.message().to_owned())
}

/// `--allow`.
#[cfg(feature = "http")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Allow {
    Http,
    PrivateHosts,
}

impl Global {
    /// The caps of the library after the changes asked for.
    pub(crate) fn limits(&self) -> Limits {
        let mut out = Limits::default();
        out.skip_unknown = self.skip_unknown;
        for limit in &self.limits {
            limit.apply(&mut out);
        }
        out
    }

    /// Where requests over HTTP may go.
    #[cfg(feature = "http")]
    pub(crate) fn policy(&self) -> holdall::http::Policy {
        use holdall::http::{Hosts, Policy, Schemes};
        self.allow.iter().fold(Policy::new(), |policy, allow| match allow {
            Allow::Http => policy.with_schemes(Schemes::HttpToo),
            Allow::PrivateHosts => policy.with_hosts(Hosts::Any),
        })
    }

    /// Where blocks of files that are elsewhere are kept.
    #[cfg(feature = "http")]
    pub(crate) fn cache(&self) -> holdall::Result<Option<holdall::cache::BlockCache>> {
        use holdall::cache::BlockCache;
        let cache = match &self.cache {
            None => return Ok(None),
            Some(folder) if folder.as_os_str().is_empty() => BlockCache::standard()?,
            Some(folder) => BlockCache::new(folder),
        };
        Ok(Some(match self.cache_size {
            Some(bytes) => cache.with_size(bytes),
            None => cache,
        }))
    }

    /// How object stores are used.
    #[cfg(feature = "stores")]
    pub(crate) fn stores(&self) -> holdall::stores::StoreOptions {
        let options = holdall::stores::StoreOptions::new();
        // Each was tried when it was read.
        self.store.iter().fold(options, |options, (name, value)| {
            options.clone().with(name, value.as_str()).unwrap_or(options)
        })
    }

    /// The most bytes to take from standard input.
    pub(crate) fn stdin_len(&self) -> u64 {
        self.limits.iter().rev().find_map(SetLimit::stdin_len).unwrap_or(limit::STDIN_LEN)
    }
}

/// A number that is not 0.
pub(crate) fn from_one(text: &str) -> Result<NonZero<usize>, String> {
    text.parse().map_err(|_| "write a whole number from 1 on, for example 4".to_owned())
}

/// A number of bytes: `4096`, `64KiB` or `64K`, `5GB`.
///
/// # Errors
/// What is wrong, in words.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "`{text}` is not a number of bytes; write a whole number with or without one of the units \
             KiB, MiB, GiB, TiB, KB, MB, GB, TB: for example 4096, 64KiB or 5GB"
        )
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let (power, base) = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => (0, 1),
        "k" | "kib" => (1, 1024),
        "m" | "mib" => (2, 1024),
        "g" | "gib" => (3, 1024),
        "t" | "tib" => (4, 1024),
        "kb" => (1, 1000),
        "mb" => (2, 1000),
        "gb" => (3, 1000),
        "tb" => (4, 1000),
        _ => return Err(wrong()),
    };
    let n: u64 = digits.parse().map_err(|_| wrong())?;
    let scale = u64::pow(base, power);
    n.checked_mul(scale).ok_or_else(|| format!("`{text}` is more than 2^64 - 1 bytes"))
}

/// `--io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoChoice {
    Auto,
    Map,
    Read,
    Direct,
}

impl From<IoChoice> for Io {
    fn from(choice: IoChoice) -> Io {
        match choice {
            IoChoice::Auto => Io::Auto,
            IoChoice::Map => Io::Map,
            IoChoice::Read => Io::Read,
            IoChoice::Direct => Io::Direct,
        }
    }
}

/// Which tensors a command is about.
#[derive(Debug, Args)]
pub(crate) struct Selecting {
    /// Only tensors whose name matches, such as 'layers.*.weight'; may be given again
    #[arg(short = 's', long = "select", value_name = "GLOB")]
    include: Vec<String>,

    /// No tensors whose name matches; may be given again
    #[arg(short = 'x', long, value_name = "GLOB")]
    exclude: Vec<String>,
}

impl Selecting {
    /// Whether nothing is chosen.
    pub(crate) fn is_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// The globs, read.
    pub(crate) fn read(&self) -> holdall::Result<Select> {
        Select::new(&self.include, &self.exclude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_are_read_in_both_units() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("64K"), Ok(65536));
        assert_eq!(size("64KiB"), Ok(65536));
        assert_eq!(size("5GB"), Ok(5_000_000_000));
        assert!(size("5.5GB").is_err() && size("").is_err() && size("9Q").is_err());
        assert!(size("99999999TiB").is_err());
    }
}
