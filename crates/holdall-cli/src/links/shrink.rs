//! `holdall shrink`.

use crate::args::size;
use crate::exit::{ARGUMENTS, Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::text::{Size, count, printable};
use crate::session::Session;
use clap::Args;
use holdall::Select;
use holdall::carton::links::{Shrink, hex};
use holdall::carton::{Links, PackReport, Package};
use holdall::fields;
use std::io::Write as _;
use std::path::PathBuf;

/// Take files out of a package and link to them instead
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall shrink a.carton -o b.carton --link model/weights.zt=https://host/weights.zt
  holdall shrink a.carton -o b.carton --base-url 'https://host/{sha256}' --save-files files
  holdall shrink a.carton -o b.carton --base-url 'https://host/{path}' -s 'model/*'
  holdall shrink a.carton -o b.carton --links LINKS

The package keeps its hash, because `MANIFEST` has the hashes of linked files, too. \
`holdall fetch` downloads the files.")]
pub(crate) struct ShrinkArgs {
    /// A package
    file: PathBuf,

    /// The package to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// Link to the file PATH of the package at URL; can be repeated, also with several URLs for one file
    #[arg(long = "link", value_name = "PATH=URL", value_parser = link)]
    link: Vec<(String, String)>,

    /// Link to the files for which this file, in the format of LINKS, has addresses
    #[arg(long, value_name = "FILE")]
    links: Vec<PathBuf>,

    /// Link to every large file at this address, in which {sha256} is replaced by its hash or {path} by its path
    #[arg(long, value_name = "TEMPLATE")]
    base_url: Option<String>,

    /// Minimum size of files for --base-url
    #[arg(long, value_name = "BYTES", default_value = "64KiB", value_parser = size, requires = "base_url")]
    at_least: u64,

    /// With --base-url: only files whose path matches, such as 'model/*'; can be repeated
    #[arg(short = 's', long = "select", value_name = "GLOB", requires = "base_url")]
    include: Vec<String>,

    /// With --base-url: no files whose path matches; can be repeated
    #[arg(short = 'x', long, value_name = "GLOB", requires = "base_url")]
    exclude: Vec<String>,

    /// Write the removed files into a folder, each named by its SHA-256
    #[arg(long, value_name = "DIR")]
    save_files: Option<PathBuf>,

    /// Replace OUT if it exists
    #[arg(short, long)]
    force: bool,
}

/// Parses `PATH=URL`. Both may contain `=`.
fn link(text: &str) -> Result<(String, String), String> {
    let at = ["=https://", "=http://"].iter().find_map(|mark| text.find(mark));
    match at.or_else(|| text.find('=')) {
        Some(at) if at > 0 => Ok((text[..at].to_owned(), text[at + 1..].to_owned())),
        _ => Err("write PATH=URL, for example model/w.zt=https://host/w.zt".to_owned()),
    }
}

/// Writes the package without the linked files.
pub(crate) fn run(session: &Session, args: &ShrinkArgs) -> Result<Status, Failure> {
    holdall::FileSink::check(&args.output, args.force)?;
    let package = Package::open_with(&args.file, &input::options(session))?;
    let before = package.files().iter().filter(|f| f.path != "LINKS").filter_map(|f| f.len);
    let before: u64 = before.sum();
    let mut shrink = Shrink::new(&package, &session.global.policy());
    for (path, url) in &args.link {
        shrink = shrink.with_link(path, url)?;
    }
    for path in &args.links {
        let text = std::fs::read(path)
            .map_err(|e| holdall::error::io(e, "reading").in_source(path.display()))?;
        let links = Links::parse(&text, &session.global.limits());
        shrink = shrink.with_links(&links.map_err(|e| e.in_source(path.display()))?)?;
    }
    if let Some(template) = &args.base_url {
        let select = Select::new(&args.include, &args.exclude)?;
        let large = shrink.candidates(args.at_least).map(|file| file.path.clone());
        let large: Vec<String> = large.filter(|path| select.selects(path)).collect();
        for path in &large {
            shrink = shrink.with_template(path, template)?;
        }
    }
    let linked = shrink.linked();
    if package.hash().is_none() {
        let e = ARGUMENTS.broken("the package has no `MANIFEST` with the hashes of its files");
        return Err(e.with_hint("`holdall pack` makes one").in_source(package.name()).into());
    }
    if linked.is_empty() {
        let e = ARGUMENTS.broken("no file of the package is selected");
        let hint = "select files with `--link PATH=URL`, `--links FILE` or `--base-url TEMPLATE`; see \
                    also `--at-least`";
        return Err(e.with_hint(hint).in_source(package.name()).into());
    }
    if let Some(folder) = &args.save_files {
        shrink.save(folder, &session.work("saving"))?;
    }
    let packer = shrink.packer().with_work(session.work("writing"));
    let report = packer.write(&args.output, args.force)?;
    if session.json() {
        let text = json(args, &package, &report, &linked);
        writeln!(session.out(), "{text}")?;
        return Ok(Status::Fine);
    }
    let name = printable(&args.output.display().to_string());
    let files = count(report.linked, "file");
    session.note(format!(
        "{name}: {} instead of {} of files, {files} linked; model hash {}",
        Size(report.len),
        Size(before),
        hex(&report.hash),
    ));
    Ok(Status::Fine)
}

fn json(
    args: &ShrinkArgs,
    package: &Package,
    report: &PackReport,
    linked: &[holdall::carton::links::LinkedFile],
) -> String {
    let fields = fields! {
        source: package.name(),
        output: args.output.display().to_string(),
        hash: hex(&report.hash),
        len: report.len,
        linked: linked,
    };
    as_json(&fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read() {
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(link("model/w=https://h/w?a=b"), pair("model/w", "https://h/w?a=b"));
        assert_eq!(link("a=b=https://h/w"), pair("a=b", "https://h/w"));
        assert_eq!(link("a=file:///w"), pair("a", "file:///w"));
        assert!(link("https://h/w").is_err() && link("=https://h").is_err());
    }
}
