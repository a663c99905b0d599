//! `holdall inspect`: shows the contents of a file.

#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
mod archive;
mod card;
mod digests;
mod family;
mod json;
mod list;
mod preview;
mod quantized;
mod stats;
mod tensor;

use crate::args::SelectionArgs;
use crate::exit::{Failure, Status};
use crate::input;
use crate::output::text::printable;
use crate::session::Session;
use clap::{Args, ValueEnum};
use holdall::{Check, File, ModelFolder, Tensor};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Show the contents of a file: tensors, shapes, sizes, attributes; for a package, its description
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall inspect model.safetensors                      all tensors, repeated layers as one row
  holdall inspect model.zt -s '*.mlp.*' --sort size      some of them, largest first
  holdall inspect model.zt -t lm_head.weight             one tensor and its values
  holdall inspect model.zt --json --digests              for programs, with SHA-256 of the content
  holdall inspect model.carton                           the card of a package, zip or folder
  holdall inspect model.carton --html > model.html       a page to look at, with its pictures
  holdall inspect 'model.carton!/model/weights.zt'       a file inside it, in place
  holdall inspect model.gguf --as hf                     tensors by the names of the model's folder

GLOB: `*` matches any characters (including dots), `?` one character, `[a-z]` one of a class, \
`{a,b}` either, `{0..31}` a number in a range. `-` reads standard input.")]
pub(crate) struct InspectArgs {
    /// Files, or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Treat all FILEs as one model, in this order: shards without an index
    #[arg(long)]
    together: bool,

    #[command(flatten)]
    select: SelectionArgs,

    /// For a delta: the model that it was made from. The target is shown
    #[arg(long, value_name = "FILE", conflicts_with = "together")]
    base: Option<PathBuf>,

    /// Sort the tensors by name, size or offset [default: the file's order]
    #[arg(long, value_name = "KEY", hide_possible_values = true)]
    sort: Option<Sort>,

    /// Show one tensor in detail: components, offsets, and some of its values
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["include", "exclude", "plain"])]
    tensor: Option<String>,

    /// Show a row for every tensor, instead of grouping repeated layers
    #[arg(long, visible_alias = "all")]
    no_group: bool,

    /// Add min, max, mean, std, zeros, NaN and infinities; with -t, a histogram
    #[arg(long, conflicts_with = "plain")]
    stats: bool,

    /// Show each quantized weight that the model stores as several tensors as one tensor, with its values
    #[arg(long)]
    dequantize: bool,

    /// For a GGUF file: show its tensors under the names of another convention, `hf`: those of the model's folder on the
    /// Hugging Face hub
    #[arg(long = "as", value_name = "NAMES", conflicts_with_all = ["plain", "tensor", "include", "exclude", "sort", "no_group", "stats", "dequantize"])]
    names: Option<Names>,

    /// Print tab-separated values, one line per tensor: name, dtype, shape, stored bytes, layout, encoding, digest,
    /// offset
    #[arg(long, conflicts_with = "json")]
    plain: bool,

    /// For a package: print an HTML page with its description, tables and pictures; the page loads nothing from the
    /// network
    #[cfg(feature = "carton")]
    #[arg(long, conflicts_with_all = ["json", "plain", "markdown", "tensor", "stats", "include", "exclude", "sort", "no_group"])]
    html: bool,

    /// For a package: print the same page as Markdown, without pictures
    #[cfg(feature = "carton")]
    #[arg(long, conflicts_with_all = ["json", "plain", "tensor", "stats", "include", "exclude", "sort", "no_group"])]
    markdown: bool,

    /// With --json: add the SHA-256 of every component's decoded bytes
    #[arg(long, requires = "json")]
    digests: bool,
}

/// The value of the `--sort` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    // Numbers in names are compared by value.
    Name,
    // Largest first.
    Size,
    // By position in the file.
    Offset,
}

/// The value of the `--as` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Names {
    // Those of the Hugging Face hub.
    Hf,
}

/// Shows each file.
pub(crate) fn run(session: &Session, args: &InspectArgs) -> Result<Status, Failure> {
    input::check_once(&args.files)?;
    let mut first = true;
    session.each(&input::group_models(&args.files, args.together), |paths| {
        let [path, ..] = paths else { return Ok(Status::Fine) };
        let is_alone = paths.len() == 1;
        #[cfg(feature = "carton")]
        if let Some(form) = args.form().filter(|_| is_alone) {
            let page = crate::package::expect(session, path)?.page(form)?;
            session.out().write_all(page.as_bytes())?;
            return Ok(Status::Fine);
        }
        #[cfg(feature = "carton")]
        if is_alone && args.is_about_files() {
            match crate::package::open(session, path) {
                Ok(Some(package)) => {
                    if !std::mem::take(&mut first) && !session.json() {
                        session.out().write_all(b"\n")?;
                    }
                    return crate::package::show(session, &package).map(|()| Status::Fine);
                }
                Ok(None) => {}
                Err(e) => return archive(session, path, e, &mut first),
            }
        }
        // Only a part of the file is shown, so a file inside a package is not read completely to verify it.
        let opened = match is_alone {
            true => input::open_target(session, path, args.base.as_deref(), Check::Read),
            false => input::open_all(session, paths),
        };
        let file = match opened {
            Ok(file) => file,
            Err(e) if !is_alone => return Err(e),
            Err(e) => return archive(session, path, e, &mut first),
        };
        if args.names == Some(Names::Hf) {
            if !std::mem::take(&mut first) && !session.json() {
                session.out().write_all(b"\n")?;
            }
            return family::show(session, &file).map(|()| Status::Fine);
        }
        let file = if args.dequantize { file.dequantized()? } else { file };
        #[cfg(feature = "carton")]
        if args.is_about_files()
            && let Some(package) = crate::package::from_file(&file)?
        {
            if !std::mem::take(&mut first) && !session.json() {
                session.out().write_all(b"\n")?;
            }
            return crate::package::show(session, &package).map(|()| Status::Fine);
        }
        let tensors = chosen(&file, args)?;
        let folder = match is_alone {
            true => ModelFolder::detect(path, file.limits())?,
            false => None,
        };
        if session.json() {
            json::write(session, &file, folder.as_ref(), &tensors, args.digests, args.stats)?;
        } else if args.plain {
            let source = (args.files.len() > 1).then(|| file.name());
            list::plain(session, &tensors, source)?;
            file.faults().for_each(|e| session.warn(printable(&e.to_string())));
            file.warnings().iter().for_each(|w| session.warn(printable(&w.to_string())));
        } else {
            if !std::mem::take(&mut first) {
                session.out().write_all(b"\n")?;
            }
            if let (Some(_), [tensor]) = (&args.tensor, &tensors[..]) {
                return tensor::write(session, tensor, args.stats).map(|()| Status::Fine);
            }
            let stats = args.stats.then(|| stats::compute(session, &tensors, false)).transpose()?;
            card::head(session, &file, folder.as_ref())?;
            let left_out = match &stats {
                Some(stats) => list::stats_table(session, &tensors, stats)?,
                None => list::table(session, &tensors, !args.no_group)?,
            };
            let left_out: Vec<&str> = left_out.iter().map(|title| &**title).collect();
            card::foot(session, &file, &tensors, &left_out, folder.as_ref())?;
            quantized::table(session, &file, &args.select.parse()?, !args.no_group)?;
        }
        Ok(Status::Fine)
    })
}

/// Shows an archive that is not a file of tensors. Returns any other error unchanged.
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
fn archive(
    session: &Session,
    path: &Path,
    failure: Failure,
    first: &mut bool,
) -> Result<Status, Failure> {
    let Failure::Error(e) = failure else { return Err(failure) };
    let archive = archive::instead(session, path, e)?;
    if !std::mem::take(first) && !session.json() {
        session.out().write_all(b"\n")?;
    }
    archive::show(session, &archive).map(|()| Status::Fine)
}

#[cfg(not(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5")))]
fn archive(_: &Session, _: &Path, failure: Failure, _: &mut bool) -> Result<Status, Failure> {
    Err(failure)
}

#[cfg(feature = "carton")]
impl InspectArgs {
    /// Returns the form of the requested page, if any.
    fn form(&self) -> Option<holdall::carton::PageForm> {
        use holdall::carton::PageForm;
        let html = self.html.then_some(PageForm::Html);
        html.or_else(|| self.markdown.then_some(PageForm::Markdown))
    }

    /// Returns `true` if no option concerns tensors, so that a package is shown as such.
    fn is_about_files(&self) -> bool {
        self.tensor.is_none()
            && self.sort.is_none()
            && !(self.no_group || self.stats || self.plain || self.digests || self.dequantize)
            && self.select.is_all()
    }
}

/// Returns the selected tensors in the requested order.
fn chosen(file: &File, args: &InspectArgs) -> Result<Vec<Tensor>, Failure> {
    if let Some(name) = &args.tensor {
        return Ok(vec![input::tensor_or_weight(file, name)?]);
    }
    let mut tensors = args.select.parse()?.tensors(file)?;
    match args.sort {
        None => {}
        Some(Sort::Name) => tensors.sort_by(|a, b| natural(a.name(), b.name())),
        Some(Sort::Size) => tensors.sort_by_key(|t| std::cmp::Reverse(t.stored_len())),
        Some(Sort::Offset) => {
            tensors.sort_by_key(|t| t.components().map(|c| c.stored).min());
        }
    }
    Ok(tensors)
}

/// Compares names so that `layer.2` comes before `layer.10`.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    let (mut x, mut y) = (a, b);
    loop {
        let (Some(p), Some(q)) = (x.chars().next(), y.chars().next()) else {
            return x.len().cmp(&y.len()).then_with(|| a.cmp(b));
        };
        let digits = |s: &str| s.len() - s.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (m, n) = (digits(x), digits(y));
        let order = if m > 0 && n > 0 {
            let (i, j) = (x[..m].trim_start_matches('0'), y[..n].trim_start_matches('0'));
            (x, y) = (&x[m..], &y[n..]);
            i.len().cmp(&j.len()).then_with(|| i.cmp(j))
        } else {
            (x, y) = (&x[p.len_utf8()..], &y[q.len_utf8()..]);
            p.cmp(&q)
        };
        if order.is_ne() {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn numbers_in_names_sort_by_value() {
        let mut names = ["l.10.w", "l.2.w", "l.02.b", "a", "l", "l.2.b", "l.2"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "l", "l.2", "l.02.b", "l.2.b", "l.2.w", "l.10.w"]);
    }
}
