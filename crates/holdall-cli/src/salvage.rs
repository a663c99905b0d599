//! `holdall salvage`.

use crate::exit::{Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::text::{Grouped, Size, count, escape_path, printable};
use crate::session::Session;
use crate::writing;
use clap::Args;
use holdall::operations::Operation;
use holdall::plain::ToPlain as _;
use holdall::{FileSink, SalvageReport, WriteOptions, fields};
use std::io::Write as _;
use std::path::PathBuf;

/// Recover the intact tensors of a damaged file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall salvage broken.safetensors rescued.safetensors    an incomplete download
  holdall salvage damaged.zt rescued.zt                     changed bytes, a lost end

Every tensor that is complete and whose bytes match their digest, if the file has one, is written to \
OUT; the others are reported. IN stays unchanged. Exit status: 0 if nothing is left out, otherwise 1.")]
pub(crate) struct SalvageArgs {
    /// The damaged file
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// The file to write
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// The output format, with a version if wanted, such as `ztensor@1.2` [default: by OUT's extension]
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,

    /// Replace OUT if it exists
    #[arg(short, long)]
    force: bool,
}

/// Maximum number of omitted tensors that are listed with the reason.
const SHOWN: usize = 20;

/// Salvages a file.
pub(crate) fn run(session: &Session, args: &SalvageArgs) -> Result<Status, Failure> {
    input::check_location(Operation::Salvage, &args.input)?;
    FileSink::check(&args.output, args.force)?;
    let write = WriteOptions::new().with_work(session.work("salvaging"));
    let write = writing::in_format(write.with_overwrite(args.force), args.to.as_deref())?;
    let options = input::options_for(session, &args.input);
    let report = holdall::salvage(&args.input, &args.output, write, &options)?;
    if session.json() {
        let name = args.input.display().to_string();
        let fields = fields!(source: name.as_str()).and(report.to_plain());
        writeln!(session.out(), "{}", as_json(&fields))?;
    } else {
        text(session, args, &report)?;
    }
    Ok(if report.is_complete() { Status::Fine } else { Status::Bad })
}

fn text(session: &Session, args: &SalvageArgs, report: &SalvageReport) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    if let Some(e) = &report.open_error {
        writeln!(out, "{} {}", paint.styled("damaged:", Style::Bad), printable(&e.to_string()))?;
    }
    if report.read_len < report.source_len && report.files == 0 {
        let (read, all) = (Size(report.read_len), Size(report.source_len));
        writeln!(out, "read up to an older end of the file: {read} of {all}")?;
    }
    for e in report.left_out.iter().take(SHOWN) {
        writeln!(out, "{} {}", paint.styled("left out:", Style::Bad), printable(&e.to_string()))?;
    }
    let shown = report.left_out.len().min(SHOWN) as u64;
    let more = report.left_out_count.saturating_sub(shown);
    if more > 0 {
        let more = count(more, if report.files > 0 { "more thing" } else { "more tensor" });
        writeln!(out, "{} {more}, which --json lists", paint.styled("left out:", Style::Bad))?;
    }
    if session.global.quiet {
        return Ok(());
    }
    let target = paint.styled(escape_path(&args.output.display().to_string()), Style::Title);
    let taken = match report.files {
        0 => count(report.tensors, "tensor"),
        files => count(files, "file"),
    };
    writeln!(out, "{target}: {taken} taken, {} left out", Grouped(report.left_out_count))?;
    writing::left_behind(session, &report.left_behind);
    if report.unchecked > 0 {
        let components = count(report.unchecked, "component");
        writeln!(out, "{components} without a digest: changes cannot be detected")?;
    }
    Ok(())
}
