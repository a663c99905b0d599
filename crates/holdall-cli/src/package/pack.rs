//! `holdall pack`.

mod cases;

use crate::exit::{ARGUMENTS, Failure, Status};
use crate::input;
use crate::model::given;
use crate::output::as_json;
use crate::output::text::{Size, count, escape, escape_path, printable};
use crate::session::Session;
use crate::writing;
use clap::{Args, ValueEnum};
use holdall::carton::rules::RUNNER;
use holdall::carton::{
    FileContent, FileSelection, OptionValue, PackReport, Packing, Recipe, SymlinkPolicy, hex,
    package_path,
};
use holdall::fields;
use holdall::operations::Operation;
use holdall::plain::ToPlain as _;
use holdall::source::SourceReader;
use holdall::{Check, Error, Location, Warning};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Make a package from a folder or a model file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall pack model.onnx --name Doubler    the rest is read from the file
  holdall pack folder -o model.carton       with `carton.toml` and `model/`
  holdall pack folder --runner onnx         with only a model's files
  holdall pack weights.zt --runner python --framework-version '>=3.10' \\
      --takes 'x: f32[n, 2]' --gives 'p: f32[n, 2]'
  holdall pack model.onnx --self-test 'one: x=[[0, 1]] -> p=p.npy' \\
      --example 'a rose: image=rose.png -> label=\"rose\"'
  holdall pack model.onnx --from-toml card.toml --tensor x=x.npy
                                            self-tests as card.toml says

The same files result in the same package, byte for byte. Files are stored as they \
are, so that they can be mapped into memory without unpacking:
`holdall inspect 'model.carton!/model/weights.zt'`.")]
pub(crate) struct PackArgs {
    /// An unpacked package, a folder with a model's files, or a model's file, which is packed with the files that it
    /// names; also an address or a file in an archive
    #[arg(value_name = "DIR|FILE")]
    from: PathBuf,

    /// The package to write [default: DIR or FILE with the extension .carton]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,

    /// Read the description from this `carton.toml`
    #[arg(long, value_name = "FILE")]
    from_toml: Option<PathBuf>,

    /// Name of the model
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// A one-line summary of the model
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,

    /// A description of the model, in Markdown
    #[arg(long, value_name = "FILE")]
    description: Option<PathBuf>,

    /// The license, as an SPDX expression
    #[arg(long, value_name = "LICENSE")]
    license: Option<String>,

    /// The runner, such as onnx or python [default: onnx for .onnx]
    #[arg(long, value_name = "RUNNER")]
    runner: Option<String>,

    /// Version of the runner's framework, as a version requirement of Cargo, such as =1.12.1 or >=2
    #[arg(long, value_name = "VERSION")]
    framework_version: Option<String>,

    #[command(flatten)]
    declared: crate::model::Declared,

    /// Option for the runner; can be repeated
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = crate::model::option)]
    options: Vec<(String, OptionValue)>,

    /// Platform that the model runs on, such as x86_64-unknown-linux-gnu; can be repeated [default: all]
    #[arg(long = "platform", value_name = "TRIPLE")]
    platforms: Vec<String>,

    /// Self-test: inputs and expected outputs, such as 'three: x=[1, 2] -> y=y.npy'; can be repeated
    #[arg(long = "self-test", value_name = "CASE", value_parser = cases::case)]
    self_tests: Vec<cases::Case>,

    /// Example for readers: values as for self-tests, and files such as pictures; can be repeated
    #[arg(long = "example", value_name = "CASE", value_parser = cases::case)]
    examples: Vec<cases::Case>,

    /// File with a tensor that self-tests and examples of a carton.toml name; can be repeated
    #[arg(long = "tensor", value_name = "NAME=FILE", value_parser = cases::pair)]
    tensors: Vec<(String, PathBuf)>,

    /// File that examples show, stored as `misc/NAME`; can be repeated
    #[arg(long, value_name = "FILE")]
    misc: Vec<PathBuf>,

    /// Compress the files with zstd or deflate [default: do not compress]
    #[arg(long, value_name = "METHOD", hide_possible_values = true)]
    compress: Option<Compress>,

    /// Also pack the targets of symbolic links that lead out of DIR
    #[arg(long)]
    follow_links: bool,

    /// Also pack files that are otherwise omitted: `.env`, `.git`, `.venv`, caches, and those named by the folder's
    /// `.holdallignore`
    #[arg(long)]
    all_files: bool,

    /// Replace OUT if it exists
    #[arg(short, long)]
    force: bool,
}

/// The value of the `--compress` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compress {
    Zstd,
    Deflate,
}

/// Packs a model.
pub(crate) fn run(session: &Session, args: &PackArgs) -> Result<Status, Failure> {
    input::check_location(Operation::Pack, &args.from)?;
    let source = Source::new(session, &args.from)?;
    let to = args.output.clone().unwrap_or_else(|| source.to.clone());
    let mut recipe = recipe(session, args)?;
    let cases = cases::Cases::new(&args.self_tests, &args.examples);
    cases.say(&mut recipe);
    let prepared = recipe.prepare(&source.path).map_err(replace_advice)?;
    prepared.warnings.iter().for_each(|w| session.warn(printable(&w.to_string())));
    if let Some((name, why)) = &prepared.undeclared {
        let (name, why) = (escape(name), printable(why));
        session.warn(format_args!(
            "`{name}` cannot be declared in a package: {why}; no inputs and outputs are declared"
        ));
    }
    let mut packer = prepared.packer;
    for (name, path) in &args.tensors {
        packer = packer.with_tensor(name, given::read_file(path, None)?);
    }
    packer = cases.add(packer)?;
    let mut shown: BTreeMap<String, &Path> = BTreeMap::new();
    for path in args.misc.iter().map(PathBuf::as_path).chain(cases.files()) {
        let name = file_name(path)?;
        if shown.insert(name.clone(), path).is_some_and(|other| other != path) {
            let e = ARGUMENTS.broken(format!("two files would be `misc/{}`", escape(&name)));
            return Err(e.in_source(path.display()).into());
        }
        packer = packer.with_file(format!("misc/{name}"), FileContent::Path(path.to_owned()));
    }
    packer = packer.with_packing(match args.compress {
        None => Packing::Stored,
        Some(Compress::Zstd) => Packing::Zstd,
        Some(Compress::Deflate) => Packing::Deflate,
    });
    let out = writing::Output::begin(session, &to, args.force)?;
    let report = packer.with_work(session.work("packing")).write(out.path(), args.force)?;
    out.publish()?;
    report.warnings.iter().for_each(|w| session.warn(printable(&w.to_string())));
    let warnings: Vec<_> = prepared.warnings.into_iter().chain(report.warnings.clone()).collect();
    tell(session, &to, &report, &warnings)?;
    Ok(Status::Fine)
}

/// The files to pack, in the file system.
struct Source {
    /// The path of the file or folder.
    path: PathBuf,
    /// The default path of the package to write.
    to: PathBuf,
    /// Temporary copies of remote files, kept until the package is written.
    _copies: Option<tempfile::TempDir>,
}

impl Source {
    /// Finds the files to pack. Those of a model at an address or in an archive are copied first.
    fn new(session: &Session, from: &Path) -> Result<Source, Failure> {
        let location = Location::new(from);
        if let Some(path) = location.as_path() {
            return Ok(Source { path: path.to_owned(), to: package_path(path), _copies: None });
        }
        let options = input::options(session).with_check(Check::All);
        let files: Vec<Location> = match options.open_location(&location) {
            Ok(model) => model.files().iter().map(|file| file.location.clone()).collect(),
            // A model need not be a file of tensors.
            Err(_) => vec![location.clone()],
        };
        let io = |e, what| holdall::error::io(e, what).in_source(&location);
        let copies = tempfile::tempdir().map_err(|e| io(e, "creating a temporary folder"))?;
        let base = files.first().and_then(|file| file.sibling("")).unwrap_or(location.clone());
        let base = base.to_path_buf();
        let mut path = copies.path().to_owned();
        for file in &files {
            let (source, _) = options.checked_source_at(file)?;
            let text = file.to_path_buf();
            let below =
                text.to_str().zip(base.to_str()).and_then(|(text, base)| text.strip_prefix(base));
            let name = match (files.len(), below) {
                (1, _) | (_, None) => file.file_name(),
                (_, Some(below)) => below,
            };
            let target = copies.path().join(name);
            if let Some(folder) = target.parent() {
                std::fs::create_dir_all(folder).map_err(|e| io(e, "creating a folder"))?;
            }
            let mut out = std::fs::File::create(&target).map_err(|e| io(e, "copying"))?;
            std::io::copy(&mut SourceReader::new(source), &mut out)
                .map_err(|e| io(e, "copying"))?;
            if files.len() == 1 {
                path = target;
            }
        }
        let stem = Path::new(location.file_name()).file_stem().unwrap_or("model".as_ref());
        let to = PathBuf::from(stem).with_extension("carton");
        Ok(Source { path, to, _copies: Some(copies) })
    }
}

/// Returns the recipe that the options describe.
fn recipe(session: &Session, args: &PackArgs) -> Result<Recipe, Failure> {
    let mut recipe = Recipe::new();
    recipe.name.clone_from(&args.name);
    recipe.short_description.clone_from(&args.about);
    recipe.license.clone_from(&args.license);
    recipe.runner.clone_from(&args.runner);
    recipe.framework_version.clone_from(&args.framework_version);
    recipe.options.clone_from(&args.options);
    args.declared.say(&mut recipe);
    recipe.from_toml.clone_from(&args.from_toml);
    recipe.description = args.description.as_deref().map(read).transpose()?;
    recipe.platforms = (!args.platforms.is_empty()).then(|| args.platforms.clone());
    recipe.symlinks = if args.follow_links { SymlinkPolicy::All } else { SymlinkPolicy::Inside };
    recipe.selection = if args.all_files { FileSelection::All } else { FileSelection::Usual };
    recipe.open = input::options(session);
    recipe.limits = session.global.limits();
    Ok(recipe)
}

/// Adds a hint about options to an error about a missing runner.
pub(crate) fn replace_advice(e: Error) -> Error {
    if e.code() != RUNNER.code {
        return e;
    }
    let hint = "for example, add `--runner python --framework-version '>=3.10'`; versions are written \
                like Cargo's version requirements";
    e.with_hint(hint)
}

fn file_name(path: &Path) -> Result<String, Failure> {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) => Ok(name.to_owned()),
        None => {
            let e = ARGUMENTS.broken("the file has no name, or one that is not UTF-8");
            Err(e.in_source(path.display()).into())
        }
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path)
        .map_err(|e| holdall::error::io(e, "reading").in_source(path.display()))
}

fn tell(
    session: &Session,
    to: &Path,
    report: &PackReport,
    warnings: &[Warning],
) -> Result<(), Failure> {
    let hash = hex(&report.hash);
    let name = to.display().to_string();
    if session.json() {
        let shown = report.to_plain().without("warnings").and(fields!(warnings: warnings));
        let fields = fields!(package: &name).and(shown);
        writeln!(session.out(), "{}", as_json(&fields))?;
    } else if !session.global.quiet {
        let files = count(report.files, "file");
        writeln!(session.out(), "{}: {files}, {}", escape_path(&name), Size(report.len))?;
        writeln!(session.out(), "model hash {hash}")?;
        if !report.left_out.is_empty() {
            const SHOWN: usize = 8;
            let names: Vec<String> =
                report.left_out.iter().take(SHOWN).map(|n| escape(n)).collect();
            let more = match report.left_out.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let names = names.join(", ");
            session.note(format!("not packed: {names}{more} (`--all-files` packs them)"));
        }
        writing::left_behind(session, &report.left_behind);
    }
    Ok(())
}
