//! `holdall pack`.

mod values;

use crate::exit::{ARGUMENTS, Failure, Status};
use crate::input;
use crate::output::json::push_string;
use crate::output::text::{Size, count, escape, printable};
use crate::session::Session;
use clap::{Args, ValueEnum};
use holdall::Error;
use holdall::carton::{
    Content, Description, Follow, Inferred, OptionValue, PackReport, Package, Packer, Packing, hex,
    rules::PART,
};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Make a package of a folder or a model file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall pack model.onnx --name Doubler    all else is read from the file
  holdall pack folder -o model.carton       with `carton.toml` and `model/`
  holdall pack weights.zt --runner python --framework-version '>=3.10'
  holdall pack model.onnx --from-toml card.toml --tensor x=x.npy
                                            self-tests as card.toml says

The same files give the same package, byte for byte. Files are stored as they
are, so that they can be mapped where they lie:
`holdall inspect 'model.carton!/model/weights.zt'`.")]
pub(crate) struct PackArgs {
    /// An unpacked package, a folder with a model's files, or one model file
    #[arg(value_name = "DIR|FILE")]
    from: PathBuf,

    /// The package to write [default: DIR or FILE with the extension .carton]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,

    /// Describe the package by this `carton.toml`
    #[arg(long, value_name = "FILE")]
    from_toml: Option<PathBuf>,

    /// Name of the model
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// One line about it
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,

    /// A description of it, in Markdown
    #[arg(long, value_name = "FILE")]
    description: Option<PathBuf>,

    /// Its license, as an SPDX expression
    #[arg(long, value_name = "LICENSE")]
    license: Option<String>,

    /// What runs it, as onnx or python [default: onnx for .onnx]
    #[arg(long, value_name = "RUNNER")]
    runner: Option<String>,

    /// Version of the runner's framework, as Cargo writes requirements: =1.12.1, >=2
    #[arg(long, value_name = "VERSION")]
    framework_version: Option<String>,

    /// Option for the runner; may be given again
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = crate::model::option)]
    options: Vec<(String, OptionValue)>,

    /// Platform it runs on, as x86_64-unknown-linux-gnu; may be given again [default: all]
    #[arg(long = "platform", value_name = "TRIPLE")]
    platforms: Vec<String>,

    /// Tensor that self-tests and examples name, from an .npy file or a .json file; may be given again
    #[arg(long = "tensor", value_name = "NAME=FILE", value_parser = values::pair)]
    tensors: Vec<(String, PathBuf)>,

    /// File that examples show, as `misc/NAME`; may be given again
    #[arg(long, value_name = "FILE")]
    misc: Vec<PathBuf>,

    /// Compress the files: zstd or deflate [default: stored as they are]
    #[arg(long, value_name = "METHOD", hide_possible_values = true)]
    compress: Option<Compress>,

    /// Pack what symbolic links out of DIR lead to
    #[arg(long)]
    follow_links: bool,

    /// Replace OUT if it is there
    #[arg(short, long)]
    force: bool,
}

/// `--compress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compress {
    Zstd,
    Deflate,
}

/// Packs.
pub(crate) fn run(session: &Session, args: &PackArgs) -> Result<Status, Failure> {
    let to = output(args)?;
    let mut packer = packer(session, args)?;
    for (name, path) in &args.tensors {
        packer = packer.with_tensor(name, values::read(path)?);
    }
    for path in &args.misc {
        let name = file_name(path)?;
        packer = packer.with_file(format!("misc/{name}"), Content::Path(path.clone()));
    }
    packer = packer.with_packing(match args.compress {
        None => Packing::Stored,
        Some(Compress::Zstd) => Packing::Zstd,
        Some(Compress::Deflate) => Packing::Deflate,
    });
    let report = packer.with_work(session.work("packing")).write(&to, args.force)?;
    report.warnings.iter().for_each(|w| session.warn(printable(&w.to_string())));
    tell(session, &to, &report)?;
    Ok(Status::Fine)
}

fn output(args: &PackArgs) -> Result<PathBuf, Failure> {
    if let Some(to) = &args.output {
        return Ok(to.clone());
    }
    let from = args.from.canonicalize().unwrap_or_else(|_| args.from.clone());
    match args.from.is_dir() {
        // `weights.v2` is a name, not one with an extension.
        true => {
            let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(from.with_file_name(format!("{name}.carton")))
        }
        false => Ok(args.from.with_extension("carton")),
    }
}

/// The parts of the package but for tensors and files of examples.
fn packer(session: &Session, args: &PackArgs) -> Result<Packer, Failure> {
    let from = &args.from;
    from.metadata().map_err(|e| {
        let rule = &holdall::error::IO;
        rule.broken(format!("opening: {e}")).with_io(e).in_source(from.display())
    })?;
    if !from.is_dir() {
        let name = file_name(from)?;
        if from.extension().is_some_and(|e| e.eq_ignore_ascii_case("carton")) {
            let e = ARGUMENTS.broken("this is a package already, not a model file");
            let e = e.in_source(from.display());
            return Err(e.with_hint("`holdall unpack` makes a folder of it to pack again").into());
        }
        let found = match args.from_toml {
            None => inferred(session, from)?,
            Some(_) => Description::default(),
        };
        let description = described(session, args, found)?;
        let packer = Packer::new(description);
        return Ok(packer.with_file(format!("model/{name}"), Content::Path(from.clone())));
    }
    let follow = if args.follow_links { Follow::All } else { Follow::Inside };
    let packer = Packer::from_folder(from, follow)?;
    if from.join("carton.toml").exists() && !args.says_something() {
        return Ok(packer);
    }
    if from.join("carton.toml").exists() && args.from_toml.is_none() {
        let package = Package::open_with(from, &input::options(session))?;
        let description = described(session, args, package.description().clone())?;
        return Ok(packer.with_description(description));
    }
    let description = described(session, args, Description::default())?;
    if from.join("carton.toml").exists() {
        return Ok(packer.with_description(description));
    }
    let packer = match from.join("model").is_dir() {
        true => packer,
        false => Packer::from_model(from, follow)?,
    };
    if !packer.paths().any(|path| path.starts_with("model/")) {
        let e = PART.broken("there are no files of a model in the folder");
        let e = e.with_hint(
            "name a folder with the model's files, right in it or in its folder `model`",
        );
        return Err(e.in_source(from.display()).into());
    }
    Ok(packer.with_description(description))
}

impl PackArgs {
    /// Whether an option changes what the package says of itself.
    fn says_something(&self) -> bool {
        let texts = [&self.name, &self.about, &self.license, &self.runner, &self.framework_version];
        texts.iter().any(|t| t.is_some())
            || self.from_toml.is_some()
            || self.description.is_some()
            || !self.options.is_empty()
            || !self.platforms.is_empty()
    }
}

/// The description that was given, or else was found, with what options say in place of it.
fn described(
    session: &Session,
    args: &PackArgs,
    found: Description,
) -> Result<Description, Failure> {
    let mut d = match &args.from_toml {
        Some(path) => {
            let text = read(path)?;
            let parsed = Description::parse(text.as_bytes(), &session.global.limits());
            let (description, warnings) = parsed.map_err(|e| e.in_source(path.display()))?;
            warnings.iter().for_each(|w| session.warn(printable(&w.to_string())));
            description
        }
        None => found,
    };
    let take = |to: &mut Option<String>, from: &Option<String>| {
        if from.is_some() {
            to.clone_from(from);
        }
    };
    take(&mut d.model_name, &args.name);
    take(&mut d.short_description, &args.about);
    take(&mut d.license, &args.license);
    if let Some(path) = &args.description {
        d.model_description = Some(read(path)?);
    }
    if let Some(runner) = &args.runner {
        d.runner.name.clone_from(runner);
    }
    if let Some(version) = &args.framework_version {
        check_version(session, version)?;
        d.runner.framework_version.clone_from(version);
    }
    if d.runner.compat_version == 0 && args.from_toml.is_none() {
        d.runner.compat_version = 1;
    }
    for (name, value) in &args.options {
        d.runner.options.retain(|(known, _)| known != name);
        d.runner.options.push((name.clone(), value.clone()));
    }
    if !args.platforms.is_empty() {
        d.required_platforms.clone_from(&args.platforms);
    }
    let missing =
        [(&d.runner.name, "--runner"), (&d.runner.framework_version, "--framework-version")];
    if let Some((_, option)) = missing.into_iter().find(|(text, _)| text.is_empty()) {
        let e = PART.broken("nothing says what runs the model, or of which version");
        let hint =
            format!("add `{option}`, for example `--runner python --framework-version '>=3.10'`");
        return Err(e.with_hint(hint).into());
    }
    Ok(d)
}

/// Refuses what is no requirement.
fn check_version(session: &Session, version: &str) -> Result<(), Failure> {
    let text = format!(
        "spec_version = 1\n[runner]\nrunner_name = \"x\"\nrequired_framework_version = {version:?}\n\
         runner_compat_version = 1\n"
    );
    match Description::parse(text.as_bytes(), &session.global.limits()) {
        Ok(_) => Ok(()),
        Err(e) => {
            let e = ARGUMENTS.broken(format!("`--framework-version`: {}", e.message()));
            Err(e.with_hint("write it as Cargo does: `=1.12.1`, `>=2, <3`").into())
        }
    }
}

/// What a model file says of itself.
fn inferred(session: &Session, path: &Path) -> Result<Description, Failure> {
    let found = Inferred::from_file(path)?;
    if let Some((name, why)) = &found.undeclared {
        let (name, why) = (escape(name), printable(why));
        session.warn(format_args!(
            "`{name}` cannot be declared in a package: {why}; no inputs and outputs are declared"
        ));
    }
    Ok(found.description)
}

fn file_name(path: &Path) -> Result<String, Failure> {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) => Ok(name.to_owned()),
        None => {
            let e = ARGUMENTS.broken("this is no name of a file, or not UTF-8");
            Err(e.in_source(path.display()).into())
        }
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|e| {
        let rule = &holdall::error::IO;
        rule.broken(format!("reading: {e}")).with_io(e).in_source(path.display())
    })
}

fn tell(session: &Session, to: &Path, report: &PackReport) -> Result<(), Failure> {
    let hash = hex(&report.hash);
    let name = to.display().to_string();
    if session.json() {
        let mut out = String::from("{\"package\":");
        push_string(&name, &mut out);
        let (len, files, linked) = (report.len, report.files, report.linked);
        out.push_str(&format!(
            ",\"hash\":\"{hash}\",\"len\":{len},\"files\":{files},\"linked\":{linked}}}"
        ));
        writeln!(session.out(), "{out}")?;
    } else if !session.global.quiet {
        let files = count(report.files, "file");
        writeln!(session.out(), "{}: {files}, {}", escape(&name), Size(report.len))?;
        writeln!(session.out(), "model hash {hash}")?;
    }
    Ok(())
}
