//! Options of the commands that write files.

use crate::exit::{ARGUMENTS, Failure, NOT_TO_TERMINAL};
use crate::output::text::{count, printable};
use crate::session::Session;
use clap::{Args, ValueEnum};
use holdall::{
    Algorithm, Durability, EncodeOptions, Encoding, File, FileSink, Format, Remedy, Rename, Work,
    WriteOptions, formats,
};
use std::io::{IsTerminal as _, stdout};
use std::path::Path;

/// Prints what the input contains that the output cannot store.
pub(crate) fn left_behind(session: &Session, items: &[String]) {
    /// Maximum number of lines that are shown; `--json` lists all.
    const SHOWN: usize = 20;
    for what in items.iter().take(SHOWN) {
        session.note(format!("left behind: {}", printable(what)));
    }
    if let Some(more) = items.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        session.note(format!("left behind: {more} more, which --json lists"));
    }
}

/// How new components are written.
#[derive(Debug, Clone, Args)]
pub(crate) struct Writing {
    #[arg(long, value_name = "ENCODING", value_parser = encoding, help = encoding_help())]
    encoding: Option<EncodingChoice>,

    /// Instead of --encoding: write each tensor in the smallest of its lossless encodings (floats in byte planes, the
    /// rest in zstd, and as it is what would save less than 3 %)
    #[arg(long, conflicts_with = "encoding")]
    smallest: bool,

    /// Digest of every component: crc32c, xxh3, sha256 or none [default: crc32c, otherwise xxh3, if the format supports
    /// it]
    #[arg(long, value_name = "ALGORITHM", hide_possible_values = true)]
    digest: Option<DigestChoice>,

    /// Do not wait until the bytes are on disk: faster, but the file may be lost in a power failure
    #[arg(long)]
    no_sync: bool,
}

impl Writing {
    /// Returns the first option that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        match (self.encoding, self.digest) {
            (Some(_), _) => Some("--encoding"),
            _ if self.smallest => Some("--smallest"),
            (None, Some(_)) => Some("--digest"),
            (None, None) => None,
        }
    }

    /// Returns the options for the library.
    pub(crate) fn options(&self, work: Work) -> WriteOptions {
        let mut out = WriteOptions::new().with_work(work);
        if let Some(digest) = self.digest {
            out = out.with_digest(match digest {
                DigestChoice::Crc32c => Some(Algorithm::Crc32c),
                DigestChoice::Xxh3 => Some(Algorithm::Xxh3),
                DigestChoice::Sha256 => Some(Algorithm::Sha256),
                DigestChoice::None => None,
            });
        }
        match self.encoding {
            None if self.smallest => out = out.with_smallest(),
            None => {}
            Some(EncodingChoice::Planes) => out = out.with_planes(),
            Some(EncodingChoice::Codec { encoding, level }) => {
                out = out.with_encoding(encoding, level);
            }
        }
        if self.no_sync { out.with_durability(Durability::System) } else { out }
    }

    /// Returns the options for a file of records, in the requested format, if any.
    pub(crate) fn options_for_records(
        &self,
        work: Work,
        to: Option<&str>,
        force: bool,
    ) -> Result<WriteOptions, Failure> {
        in_format(self.options(work).with_overwrite(force), to)
    }

    /// Returns `true` if an encoding is requested, rather than keeping that of each component.
    pub(crate) fn has_encoding(&self) -> bool {
        self.encoding.is_some() || self.smallest
    }

    /// Returns `true` if the smallest encoding of each tensor is requested.
    pub(crate) fn is_smallest(&self) -> bool {
        self.smallest
    }
}

/// Adds the requested format and version, if any, to the options.
pub(crate) fn in_format(out: WriteOptions, to: Option<&str>) -> Result<WriteOptions, Failure> {
    let Some(to) = to else { return Ok(out) };
    let (format, version) = target(to)?;
    let out = out.with_format(format);
    Ok(match version {
        Some(version) => out.with_encode(EncodeOptions::new().with_version(version)),
        None => out,
    })
}

/// The value of the `--encoding` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EncodingChoice {
    /// The same for all components.
    Codec { encoding: Encoding, level: Option<i32> },
    /// Floats in byte planes, the rest in zstd.
    Planes,
}

/// The value of `--encoding` for floats in byte planes.
const PLANES: &str = "planes";

fn encoding(text: &str) -> Result<EncodingChoice, String> {
    if text == PLANES {
        return Ok(EncodingChoice::Planes);
    }
    let (name, level) = match text.split_once(':') {
        Some((name, level)) => (name, Some(level)),
        None => (text, None),
    };
    let known = Encoding::from_name(name).filter(|encoding| encoding.is_writable());
    let choice = known.and_then(|encoding| {
        let level = match level {
            None => None,
            Some(level) => {
                let levels = encoding.codec()?.levels()?.range;
                Some(level.parse().ok().filter(|level| levels.contains(level))?)
            }
        };
        Some(EncodingChoice::Codec { encoding, level })
    });
    choice.ok_or_else(|| {
        let example = Encoding::writable().find_map(|encoding| {
            let levels = encoding.codec()?.levels()?.range;
            Some(format!(", for example {encoding}:{}", 9.clamp(*levels.start(), *levels.end())))
        });
        let all = one_of(&spellings(|name| name.to_owned()));
        format!("write {all}{}", example.unwrap_or_default())
    })
}

fn encoding_help() -> String {
    let quoted = spellings(|name| format!("`{name}`"));
    format!("{} [default: as in the input]", one_of(&quoted))
}

/// Returns the possible values for each encoding; `quote` formats names.
fn spellings(quote: impl Fn(&str) -> String) -> Vec<String> {
    let mut out = Vec::new();
    for encoding in Encoding::writable() {
        out.push(quote(encoding.as_str()));
        if let Some(levels) = encoding.codec().and_then(|codec| codec.levels()) {
            let (first, last) = levels.range.into_inner();
            let (name, default) = (quote(&format!("{encoding}:LEVEL")), levels.default);
            out.push(format!("{name} ({first} to {last}, default {default})"));
        }
    }
    out.push(format!("{} (floats in byte planes, the rest in zstd)", quote(PLANES)));
    out
}

/// Formats a list of alternatives: `a, b or c`.
fn one_of(all: &[String]) -> String {
    match all {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => all.concat(),
    }
}

/// The value of the `--digest` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DigestChoice {
    Crc32c,
    Xxh3,
    Sha256,
    None,
}

/// Parses a format to write and, after `@`, its version: `ztensor@1.2`.
pub(crate) fn target(text: &str) -> Result<(&'static Format, Option<String>), Failure> {
    let (name, version) = match text.split_once('@') {
        Some((name, version)) => (name, Some(version.to_owned())),
        None => (text, None),
    };
    match formats::by_name(name) {
        Some(format) if format.encode.is_some() || format.has_graph => Ok((format, version)),
        _ => {
            let e = ARGUMENTS.broken(format!("unknown output format `{name}`"));
            let all: Vec<&str> = formats::writable().map(|format| format.id).collect();
            Err(match holdall::nearest(name, all.iter().copied()) {
                Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
                None => e.with_hint(format!("use one of these: {}", all.join(", "))),
            }
            .into())
        }
    }
}

/// Parses the rules of `--rename`.
pub(crate) fn renames(rules: &[String]) -> holdall::Result<Vec<Rename>> {
    rules.iter().map(|rule| Rename::new(rule)).collect()
}

/// Warns about rules that match no tensor of the file: they may be misspelt.
pub(crate) fn warn_of_unused_renames(session: &Session, rules: &[Rename], file: &File) {
    for rule in rules {
        if !file.names().any(|name| rule.apply(name).is_some()) {
            let (rule, all) = (printable(&rule.to_string()), count(file.len() as u64, "tensor"));
            session.warn(format_args!("`{rule}` matches none of {all}"));
        }
    }
}

/// The destination of a written file: its path, or a temporary file for upload to an object store.
pub(crate) enum Output<'a> {
    Path(&'a Path),
    #[cfg(feature = "stores")]
    Staged(Box<holdall::stores::Staged>),
    #[cfg(feature = "stores")]
    Folder(Box<holdall::stores::StagedFolder>),
}

impl<'a> Output<'a> {
    /// Prepares the file at `to`, which must not be standard output.
    pub(crate) fn begin(
        session: &Session,
        to: &'a Path,
        force: bool,
    ) -> Result<Output<'a>, Failure> {
        crate::signals::leave_nothing_behind();
        #[cfg(feature = "stores")]
        if let Some(address) = to.to_str().filter(|to| holdall::stores::is_address(to)) {
            let staged = crate::input::options(session).stage(address, force)?;
            return Ok(Output::Staged(Box::new(staged)));
        }
        let _ = session;
        FileSink::check(to, force)?;
        Ok(Output::Path(to))
    }

    /// Prepares a model of several files at `to`. The writer checks the folder.
    pub(crate) fn begin_folder(
        session: &Session,
        to: &'a Path,
        force: bool,
    ) -> Result<Output<'a>, Failure> {
        crate::signals::leave_nothing_behind();
        #[cfg(feature = "stores")]
        if let Some(address) = to.to_str().filter(|to| holdall::stores::is_address(to)) {
            let staged = crate::input::options(session).stage_folder(address, force)?;
            return Ok(Output::Folder(Box::new(staged)));
        }
        let _ = (session, force);
        Ok(Output::Path(to))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Output::Path(path) => path,
            #[cfg(feature = "stores")]
            Output::Staged(staged) => staged.path(),
            #[cfg(feature = "stores")]
            Output::Folder(staged) => staged.path(),
        }
    }

    /// Uploads the finished file, if it goes to an object store.
    pub(crate) fn publish(self) -> Result<(), Failure> {
        match self {
            Output::Path(_) => Ok(()),
            #[cfg(feature = "stores")]
            Output::Staged(staged) => Ok(staged.publish()?),
            #[cfg(feature = "stores")]
            Output::Folder(staged) => Ok(staged.publish()?),
        }
    }
}

/// Refuses standard output for a file that needs temporary files next to it.
pub(crate) fn check_is_file(output: &Path) -> Result<(), Failure> {
    if output.as_os_str() == "-" {
        let e = ARGUMENTS.broken("records cannot be written to standard output");
        return Err(e.with_hint("name a file with `-o`").into());
    }
    Ok(())
}

/// Refuses to write binary data to a terminal.
pub(crate) fn check_stdout() -> Result<(), Failure> {
    if stdout().is_terminal() {
        return Err(NOT_TO_TERMINAL.broken("standard output is a terminal").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_read() {
        let choice = |encoding, level| Ok(EncodingChoice::Codec { encoding, level });
        assert_eq!(encoding("raw"), choice(Encoding::Raw, None));
        assert_eq!(encoding("zstd"), choice(Encoding::ZSTD, None));
        assert_eq!(encoding("zstd:19"), choice(Encoding::ZSTD, Some(19)));
        for bad in ["", "zst", "raw:1", "zstd:", "zstd:0", "zstd:23", "zstd:x", "deflate"] {
            assert!(encoding(bad).is_err(), "{bad}");
        }
    }
}
