//! `holdall convert` of a model's folder to GGUF.

use crate::convert::{ConvertArgs, Target, write_plan};
use crate::exit::{ARGUMENTS, Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::text::{Size, count, printable, versioned};
use crate::session::Session;
use crate::writing;
use clap::Args;
use holdall::plain::ToPlain as _;
use holdall::recipe::{
    self, Adapter, MetadataSetting, ModelConvert, ModelConvertReport, ModelRestore, OutType, Recipe,
};
use holdall::{EncodeOptions, Format, TensorSpec, fields};
use std::borrow::Cow;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Options of `convert` for a model's folder.
#[derive(Debug, Args)]
pub(crate) struct ByRecipe {
    /// For a folder of the Hugging Face hub that becomes GGUF: the type of the matrices, `auto`, `f32`, `f16`, `bf16`,
    /// `q8_0`, or a mix such as `q4_k_m` [default: auto, F16 or BF16 as in the folder]
    #[arg(long, value_name = "TYPE", value_parser = outtype)]
    outtype: Option<OutType>,

    /// The recipe by which a folder of the Hugging Face hub becomes GGUF: a name, a TOML file, or `none` to write the
    /// tensors as they are; for a GGUF file that becomes a folder, `auto` or a name [default: the one for the
    /// architecture in config.json]
    #[arg(long, value_name = "RECIPE")]
    recipe: Option<String>,

    /// With a recipe: the name of the model in the file [default: that of the folder]
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,

    /// With a recipe: the name of the pre-tokenizer, such as `llama-bpe`, in place of the one that its rules have
    #[arg(long, value_name = "NAME")]
    pre_tokenizer: Option<String>,

    /// With a recipe that is followed backwards: the config.json of the model [default: one that is made of the metadata]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// For an adapter of LoRA (a folder with adapter_config.json) that becomes GGUF, or the way back: the folder of its
    /// base model, of which config.json is needed
    #[arg(long, value_name = "FOLDER", conflicts_with = "config")]
    base: Option<PathBuf>,

    /// With a recipe: write no tokenizer
    #[arg(long, conflicts_with = "pre_tokenizer")]
    no_tokenizer: bool,

    /// With a recipe: write the metadata and the tokenizer only, without tensors
    #[arg(long, conflicts_with = "no_tokenizer")]
    vocab_only: bool,

    /// With a recipe: set a key of the metadata, in place of the recipe's value: `general.license=str:mit`,
    /// `llama.context_length=8192`, `llama.rope.freq_base=5e5`. The value has the type of the key; a new key takes one:
    /// int, float, bool, str or a type of GGUF such as u64 or [f32]; can be repeated
    #[arg(long, value_name = "KEY=[TYPE:]VALUE", value_parser = setting)]
    set: Vec<MetadataSetting>,
}

fn setting(text: &str) -> Result<MetadataSetting, String> {
    MetadataSetting::parse(text).map_err(|e| e.to_string())
}

fn outtype(text: &str) -> Result<OutType, String> {
    OutType::from_name(text).ok_or_else(|| {
        let all: Vec<&str> = OutType::all().map(OutType::as_str).collect();
        format!("expected one of {}", all.join(", "))
    })
}

impl ByRecipe {
    /// Returns the first option that was given and that requires a recipe.
    fn given(&self) -> Option<&'static str> {
        let recipe = self.recipe.as_deref().filter(|name| *name != "none");
        let given = [
            ("--recipe", recipe.is_some()),
            ("--outtype", self.outtype.is_some()),
            ("--model-name", self.model_name.is_some()),
            ("--pre-tokenizer", self.pre_tokenizer.is_some()),
            ("--config", self.config.is_some()),
            ("--base", self.base.is_some()),
            ("--no-tokenizer", self.no_tokenizer),
            ("--vocab-only", self.vocab_only),
            ("--set", !self.set.is_empty()),
        ];
        given.iter().find(|(_, is)| *is).map(|(name, _)| *name)
    }

    /// Returns the first option that was given and that is for adapters or for the way back.
    fn not_forward(&self) -> Option<&'static str> {
        let given = [("--config", self.config.is_some()), ("--base", self.base.is_some())];
        given.iter().find(|(_, is)| *is).map(|(name, _)| *name)
    }
}

/// Converts a model's folder to GGUF by a recipe. Returns `None` for any other conversion.
pub(crate) fn convert(
    session: &Session,
    args: &ConvertArgs,
    by: &ByRecipe,
) -> Result<Option<Status>, Failure> {
    let given = by.given();
    if by.recipe.as_deref() == Some("none") {
        return match given {
            None => Ok(None),
            Some(option) => {
                let message =
                    format!("`{option}` requires a recipe, and `--recipe none` uses none");
                Err(ARGUMENTS.broken(message).into())
            }
        };
    }
    let is_back = by.recipe.is_some() || by.base.is_some();
    if is_back && args.also.is_empty() && is_gguf(&args.input) {
        return restore(session, args, by).map(Some);
    }
    if let Some(done) = adapter(session, args, by)? {
        return Ok(Some(done));
    }
    let limits = session.global.limits();
    let is_model = args.also.is_empty() && recipe::is_model(&args.input, &limits);
    let target = args.target()?.filter(|(format, _)| format.id == "gguf");
    let is_gguf = target.is_some();
    let Some((format, version)) = target.filter(|_| is_model) else {
        return match given {
            None => {
                let folder = args.input.parent().filter(|_| is_gguf && args.input.is_file());
                let folder = folder.filter(|folder| recipe::is_model(folder, &limits));
                if folder.is_some() {
                    session.warn(
                        "the tensors of the file are written as they are, which llama.cpp does not run; name the folder of the model to convert it by a recipe",
                    );
                }
                Ok(None)
            }
            Some(option) => {
                let message = format!(
                    "`{option}` applies to a folder with a config.json that becomes a GGUF file"
                );
                Err(ARGUMENTS.broken(message).into())
            }
        };
    };
    if let Some(option) = args.not_for_recipes() {
        let message = format!("`{option}` does not apply to a model that a recipe converts");
        let hint = "`--recipe none` writes the tensors of the folder as they are; `--outtype` sets the type of the matrices";
        return Err(ARGUMENTS.broken(message).with_hint(hint).into());
    }
    if let Some(option) = by.not_forward() {
        let message =
            format!("`{option}` does not apply to a model's folder that becomes a GGUF file");
        return Err(ARGUMENTS.broken(message).into());
    }
    let (target, mut options) = common_options(session, args, by, format, version)?;
    if let Some(name) = &by.pre_tokenizer {
        options = options.with_pre_tokenizer(name);
    }
    if by.no_tokenizer {
        options = options.without_tokenizer();
    }
    let (bytes, tensors) = args.shard_limits();
    if let Some(bytes) = bytes {
        options = options.with_max_shard_len(bytes);
    }
    if let Some(count) = tensors {
        options = options.with_max_shard_tensors(count);
    }
    match by.vocab_only {
        true => write_vocabulary(session, args, &target, &options).map(Some),
        false => write_model(session, args, &target, &options).map(Some),
    }
}

/// Returns the options that models and adapters have in common.
fn common_options(
    session: &Session,
    args: &ConvertArgs,
    by: &ByRecipe,
    format: &'static Format,
    version: Option<String>,
) -> Result<(Target, ModelConvert), Failure> {
    let mut encode = EncodeOptions::new();
    encode.align = args.align;
    encode.version = version;
    let newest = || format.versions.first().map_or(String::new(), |v| (*v).to_owned());
    let version = encode.version.clone().unwrap_or_else(newest);
    let target = Target { format, version };
    let write = args.writing.options(session.work("converting")).with_overwrite(args.force);
    let mut options = ModelConvert::new(write.with_format(format).with_encode(encode))
        .with_outtype(by.outtype.unwrap_or_default())
        .with_metadata(by.set.iter().cloned());
    if let Some(name) = by.recipe.as_deref().filter(|name| *name != "auto") {
        options = options.with_recipe(named(name, session)?);
    }
    if let Some(name) = &by.model_name {
        options = options.with_name(name);
    }
    Ok((target, options))
}

/// Converts an adapter of LoRA to GGUF. Returns `None` for any other conversion.
fn adapter(
    session: &Session,
    args: &ConvertArgs,
    by: &ByRecipe,
) -> Result<Option<Status>, Failure> {
    let target = args.target()?.filter(|(format, _)| format.id == "gguf");
    let is_adapter = args.also.is_empty() && recipe::is_adapter(&args.input);
    let (Some((format, version)), true) = (target, is_adapter) else { return Ok(None) };
    let Some(base) = &by.base else {
        let e = ARGUMENTS
            .broken("the folder is an adapter, whose base model decides how it is converted");
        return Err(e.with_hint("`--base FOLDER` names the folder of the base model").into());
    };
    let has_config = by.config.is_some();
    let is_other = by.no_tokenizer || by.pre_tokenizer.is_some() || by.vocab_only;
    if is_other || has_config || args.is_sharded() {
        let message =
            "an adapter takes `--outtype`, `--recipe`, `--model-name`, `--set` and `--base` only";
        return Err(ARGUMENTS.broken(message).into());
    }
    if let Some(option) = args.not_for_recipes() {
        let message = format!("`{option}` does not apply to an adapter that a recipe converts");
        return Err(ARGUMENTS.broken(message).into());
    }
    let (target, options) = common_options(session, args, by, format, version)?;
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout && !args.dry_run {
        writing::check_stdout()?;
    }
    let out = match to_stdout {
        true => None,
        false => Some(writing::Output::begin(session, &args.output, args.force)?),
    };
    let file = input::open(session, &args.input)?;
    // Its tensors are compared with those of the adapter if the folder has them.
    let base_file = match input::open(session, base) {
        Ok(file) => Some(file),
        Err(Failure::Error(e)) if e.code() == "shards/no-model" => None,
        Err(e) => return Err(e),
    };
    let mut adapter = Adapter::new(&args.input, &file, base);
    if let Some(file) = &base_file {
        adapter = adapter.with_base_file(file);
    }
    if args.dry_run {
        let (specs, report) =
            recipe::plan_adapter(&adapter, &args.output, &options).map_err(advised)?;
        show_plan(session, args, &target, file.name(), &specs, &report)?;
        return Ok(Some(Status::Fine));
    }
    let report = if to_stdout {
        let to = &mut *session.out();
        recipe::convert_adapter_to(&adapter, to, &options).map_err(advised)?.0
    } else {
        let path = out.as_ref().map_or(args.output.as_path(), writing::Output::path);
        recipe::convert_adapter(&adapter, path, &options).map_err(advised)?
    };
    if let Some(out) = out {
        out.publish()?;
    }
    if session.json() && !to_stdout {
        let text = report_json(file.name(), &args.output, &target, &report, None);
        writeln!(session.out(), "{text}")?;
        return Ok(Some(Status::Fine));
    }
    let written = versioned(target.format.name, &target.version);
    summarize(session, &args.output, &written, "", &report);
    Ok(Some(Status::Fine))
}

/// Shows what would be written.
fn show_plan(
    session: &Session,
    args: &ConvertArgs,
    target: &Target,
    source: &str,
    specs: &[TensorSpec],
    report: &ModelConvertReport,
) -> Result<(), Failure> {
    match session.json() {
        true => {
            let text = report_json(source, &args.output, target, report, Some(specs));
            writeln!(session.out(), "{text}")?;
        }
        false => {
            write_plan(session, &args.output, target, specs, &report.convert)?;
            report_losses(session, report);
        }
    }
    Ok(())
}

/// Writes a file with the metadata and the tokenizer of a model.
fn write_vocabulary(
    session: &Session,
    args: &ConvertArgs,
    target: &Target,
    options: &ModelConvert,
) -> Result<Status, Failure> {
    let (folder, limits) = (args.input.as_path(), session.global.limits());
    if args.dry_run {
        return Err(ARGUMENTS.broken("`--vocab-only` has no `--dry-run`").into());
    }
    let report = if args.output.as_os_str() == "-" {
        writing::check_stdout()?;
        let to = &mut *session.out();
        recipe::convert_vocabulary_to(folder, to, options, &limits).map_err(advised)?.0
    } else {
        let out = writing::Output::begin(session, &args.output, args.force)?;
        let report =
            recipe::convert_vocabulary(folder, out.path(), options, &limits).map_err(advised)?;
        out.publish()?;
        report
    };
    if session.json() && args.output.as_os_str() != "-" {
        let source = folder.display().to_string();
        writeln!(session.out(), "{}", report_json(&source, &args.output, target, &report, None))?;
        return Ok(Status::Fine);
    }
    session.note(format!(
        "{}: {}, no tensors, {}, recipe {}",
        printable(&args.output.display().to_string()),
        versioned(target.format.name, &target.version),
        Size(report.convert.target_len),
        printable(&report.recipe),
    ));
    report_losses(session, &report);
    Ok(Status::Fine)
}

fn write_model(
    session: &Session,
    args: &ConvertArgs,
    target: &Target,
    options: &ModelConvert,
) -> Result<Status, Failure> {
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout && !args.dry_run {
        writing::check_stdout()?;
    }
    let out = match to_stdout {
        true => None,
        false if args.is_sharded() => {
            Some(writing::Output::begin_folder(session, &args.output, args.force)?)
        }
        false => Some(writing::Output::begin(session, &args.output, args.force)?),
    };
    let file = input::open(session, &args.input)?;
    let folder = args.input.as_path();
    if args.dry_run {
        let planned = recipe::plan_model(folder, &file, &args.output, options);
        let (specs, report) = planned.map_err(advised)?;
        show_plan(session, args, target, file.name(), &specs, &report)?;
        return Ok(Status::Fine);
    }
    let report = if to_stdout {
        let to = &mut *session.out();
        recipe::convert_model_to(folder, &file, to, options).map_err(advised)?.0
    } else {
        let path = out.as_ref().map_or(args.output.as_path(), writing::Output::path);
        recipe::convert_model(folder, &file, path, options).map_err(advised)?
    };
    if let Some(out) = out {
        out.publish()?;
    }
    if session.json() && !to_stdout {
        let text = report_json(file.name(), &args.output, target, &report, None);
        writeln!(session.out(), "{text}")?;
        return Ok(Status::Fine);
    }
    let written = versioned(target.format.name, &target.version);
    summarize(session, &args.output, &written, "", &report);
    Ok(Status::Fine)
}

/// Returns `true` if the path names a GGUF file.
fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// Writes the model of a GGUF file as a folder, by a recipe that is followed backwards.
fn restore(session: &Session, args: &ConvertArgs, by: &ByRecipe) -> Result<Status, Failure> {
    let refused =
        |what: &str| -> Result<Status, Failure> { Err(ARGUMENTS.broken(what.to_owned()).into()) };
    let is_one_way = by.vocab_only || !by.set.is_empty();
    if is_one_way || by.no_tokenizer || by.pre_tokenizer.is_some() || by.model_name.is_some() {
        return refused(
            "a recipe that is followed backwards takes `--outtype`, `--config` and `--base` only",
        );
    }
    if by.outtype.is_some_and(OutType::is_quantized) {
        return refused("a folder of the Hugging Face hub has no blocks: use f32, f16 or bf16");
    }
    if args.output.extension().is_some() || args.output.as_os_str() == "-" {
        return refused(
            "a recipe that is followed backwards writes a folder: name it without an extension",
        );
    }
    if let Some(option) = args.not_for_recipes() {
        return refused(&format!("`{option}` does not apply to a model that a recipe converts"));
    }
    if args.is_sharded() {
        return refused("a recipe that is followed backwards writes one file of tensors");
    }
    if args.align.is_some() {
        return refused("`--align` does not apply to a recipe that is followed backwards");
    }
    if args.dry_run {
        return refused("a recipe that is followed backwards has no `--dry-run`");
    }
    let write = args.writing.options(session.work("converting")).with_overwrite(args.force);
    let file = input::open(session, &args.input)?;
    let path = by.base.as_ref().map(|base| base.join("config.json"));
    let path = path.as_ref().or(by.config.as_ref());
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path)
            .map_err(|e| holdall::error::io(e, "reading").in_source(path.display()))
    };
    let config = path.map(read).transpose()?;
    let kind = file.attributes().get("general.type").and_then(holdall::Value::as_text);
    let is_adapter = kind == Some("adapter");
    let recipe = match (by.recipe.as_deref(), &config) {
        (None | Some("auto"), None) if is_adapter => {
            let e = ARGUMENTS
                .broken("the file is an adapter, which does not say how its base model is built");
            return Err(e.with_hint("`--base FOLDER` names the folder of the base model").into());
        }
        // A configuration says more than tensors do: several families have the same ones.
        (None | Some("auto"), Some(text)) => {
            let limits = session.global.limits();
            let config = holdall::Value::from_json(text, limits.depth)?;
            recipe::find(&config, &limits).map_err(advised)?
        }
        (None | Some("auto"), None) => recipe::find_back(&file).map_err(advised)?,
        (Some(name), _) => named(name, session)?,
    };
    let mut options = ModelRestore::new(write, recipe).with_outtype(by.outtype.unwrap_or_default());
    if let Some(text) = config {
        options = options.with_config(text);
    }
    let out = writing::Output::begin_folder(session, &args.output, args.force)?;
    let report = match is_adapter {
        true => recipe::restore_adapter(&file, out.path(), &options).map_err(advised)?,
        false => recipe::restore_model(&file, out.path(), &options).map_err(advised)?,
    };
    out.publish()?;
    if session.json() {
        let head = fields! {
            source: file.name(),
            target: args.output.display().to_string(),
        };
        writeln!(session.out(), "{}", as_json(&head.and(report.to_plain())))?;
        return Ok(Status::Fine);
    }
    let written = count(report.convert.files.len() as u64, "file");
    summarize(session, &args.output, &written, " backwards", &report);
    Ok(Status::Fine)
}

/// Prints what was written, with the recipe, the type, warnings, and the content that the target lacks.
fn summarize(
    session: &Session,
    output: &Path,
    written: &str,
    direction: &str,
    report: &ModelConvertReport,
) {
    let files = match report.convert.files.len() as u64 {
        // The folder of a way back is described by its files alone.
        files if files > 0 && direction.is_empty() => format!(", {}", count(files, "file")),
        _ => String::new(),
    };
    session.note(format!(
        "{}: {written}{files}, {}, {} → {}, recipe {}{direction}, {}",
        printable(&output.display().to_string()),
        count(report.convert.tensors, "tensor"),
        Size(report.convert.source_len),
        Size(report.convert.target_len),
        printable(&report.recipe),
        report.outtype.as_str(),
    ));
    report_losses(session, report);
}

/// Prints the metadata that was set, warnings, and the content that the target lacks.
pub(super) fn report_losses(session: &Session, report: &ModelConvertReport) {
    for set in &report.set_keys {
        let shown = |value: &holdall::Value| {
            let text = value.to_json();
            let start: String = text.chars().take(60).collect();
            if start.len() < text.len() { format!("{start}…") } else { start }
        };
        let old = match &set.old {
            Some(old) => format!(" in place of {}", shown(old)),
            None => String::new(),
        };
        let text = format!("set `{}` to {}{old}", set.key, shown(&set.value));
        session.note(printable(&text).to_string());
    }
    report.convert.warnings.iter().for_each(|w| session.warn(printable(&w.to_string())));
    writing::left_behind(session, &report.convert.left_behind);
}

/// Reads a recipe: a file, or one that is part of the program.
pub(crate) fn named(name: &str, session: &Session) -> Result<Recipe, Failure> {
    let recipe = Recipe::parse(&recipe_text(name)?, &session.global.limits());
    Ok(recipe.map_err(|e| e.in_source(name))?)
}

/// Returns the text of a recipe: of a file, or of one that is part of the program.
pub(super) fn recipe_text(name: &str) -> Result<Cow<'static, [u8]>, Failure> {
    let known = recipe::builtin().iter().find(|(own, _)| *own == name);
    if let Some((_, text)) = known {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let path = Path::new(name);
    if path.extension().is_none() && !path.exists() {
        let e = ARGUMENTS.broken(format!("no recipe is called `{name}`"));
        let all = recipe::builtin().iter().map(|(name, _)| *name);
        return Err(match holdall::nearest(name, all) {
            Some(near) => e.with_remedy(holdall::Remedy::did_you_mean(near)),
            None => {
                e.with_hint("`holdall recipe list` lists them; a file is named with its extension")
            }
        }
        .into());
    }
    let text = std::fs::read(path)
        .map_err(|e| holdall::error::io(e, "reading").in_source(path.display()))?;
    Ok(Cow::Owned(text))
}

/// Adds what the command offers to errors of recipes.
pub(crate) fn advised(e: holdall::Error) -> holdall::Error {
    match e.code() {
        "recipe/unknown-architecture" => e.with_hint(
            "`--recipe none` writes the tensors as they are, which llama.cpp does not run; `--recipe FILE` uses a recipe of your own",
        ),
        "recipe/architecture" => e.with_hint(
            "`--recipe auto` without `--config` takes a recipe for the architecture of the file",
        ),
        "recipe/left-over" => e.with_hint(
            "a recipe that `extends` this one and has a rule for them, with `drop` and a reason, leaves tensors out: `--recipe FILE`",
        ),
        "tokenizer/pre-tokenizer" => e.with_hint("`--pre-tokenizer NAME` sets the name"),
        "tokenizer/no-files" => e.with_hint("`--no-tokenizer` writes a file without one"),
        _ => e,
    }
}

fn report_json(
    source: &str,
    output: &Path,
    target: &Target,
    report: &ModelConvertReport,
    plan: Option<&[TensorSpec]>,
) -> String {
    let head = fields! {
        source: source,
        target: output.display().to_string(),
        format: target.format.id,
        version: &target.version,
    };
    let head = head.and(report.to_plain());
    match plan {
        None => as_json(&head),
        Some(specs) => as_json(&head.without("target_len").and(fields!(plan: specs))),
    }
}
