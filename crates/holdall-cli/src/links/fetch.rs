//! `holdall fetch`.

use crate::exit::{Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::text::{Size, count, printable};
use crate::session::Session;
use crate::writing;
use clap::Args;
use holdall::carton::Package;
use holdall::carton::links::{self, hex};
use holdall::fields;
use std::io::Write as _;
use std::path::PathBuf;

/// Download the files that a package links to, into the cache or into a complete package
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall fetch small.carton                        into the cache, for later commands
  holdall fetch small.carton -o whole.carton        write a complete package
  holdall fetch https://host/small.carton -o whole.carton

The cache is a folder of files named by their SHA-256: HOLDALL_CACHE if that is set, otherwise \
`holdall` in the system's folder for caches. Anything in it may be deleted at any time.")]
pub(crate) struct FetchArgs {
    /// A package
    file: PathBuf,

    /// The package to write
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,

    /// Replace OUT if it exists
    #[arg(short, long)]
    force: bool,
}

/// Fetches the linked files that are missing.
pub(crate) fn run(session: &Session, args: &FetchArgs) -> Result<Status, Failure> {
    let begin = |output| writing::Output::begin(session, output, args.force);
    let out = args.output.as_deref().map(begin).transpose()?;
    let package = Package::open_with(&args.file, &input::options(session))?;
    let fetcher = super::fetcher(session)?.with_work(session.work("fetching"));
    let missing = links::missing(&package);
    let mut absent = Vec::new();
    for file in &missing {
        if !absent.contains(&file.sha256) && fetcher.store().find(&file.sha256)?.is_none() {
            absent.push(file.sha256);
        }
    }
    links::fetch(&package, &fetcher)?;
    let report = match out {
        Some(out) => {
            let report = links::embed_links(&package, &fetcher, out.path(), args.force)?;
            out.publish()?;
            Some(report)
        }
        None => None,
    };
    if session.json() {
        let mut out = fields! {
            source: package.name(),
            cache: fetcher.store().root().display().to_string(),
            fetched: absent.len(),
            linked: &missing,
        };
        if let (Some(output), Some(report)) = (&args.output, &report) {
            out = out.and(fields! {
                output: output.display().to_string(),
                hash: hex(&report.hash),
                len: report.len,
            });
        }
        writeln!(session.out(), "{}", as_json(&out))?;
        return Ok(Status::Fine);
    }
    let name = printable(package.name());
    let summary = match missing.len() as u64 {
        0 => format!("{name}: everything is in the package"),
        n => {
            let files = count(n, "file");
            format!("{name}: {files} linked, {} fetched now", absent.len())
        }
    };
    session.note(summary);
    if let (Some(output), Some(report)) = (&args.output, &report) {
        let name = printable(&output.display().to_string());
        session.note(format!("{name}: {}, model hash {}", Size(report.len), hex(&report.hash)));
    }
    Ok(Status::Fine)
}
