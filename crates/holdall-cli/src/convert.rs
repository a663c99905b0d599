//! `holdall convert`.

use crate::args::{SelectionArgs, size};
use crate::build::{self, BuildArgs};
use crate::exit::{ARGUMENTS, Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{Size, count, escape, printable, shape, type_name, versioned};
use crate::recipe::ByRecipe;
use crate::schema::read;
use crate::session::Session;
use crate::tables::{self, Columns};
use crate::writing::{self, Writing};
use clap::{Args, ValueEnum};
use holdall::fields;
use holdall::plain::ToPlain as _;
use holdall::records::{self, TensorRecords as _};
use holdall::schema::{Reading, SCHEMA_ATTRIBUTE};
use holdall::{
    Cast, Convert, ConvertReport, EncodeOptions, ExternalData, File, FormRule, Format, Overflow,
    Rename, Sharing, TensorForm, TensorSpec, Value, formats,
};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Write a file in another format, version, encoding or alignment
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall convert model.safetensors model.zt                     by extension
  holdall convert model.zt small.zt --encoding zstd:9            compressed, on all cores
  holdall convert model.safetensors small.zt --smallest          in the fewest bytes, without loss
  holdall convert model.zt old.zt --to ztensor@1.0               for an older reader
  holdall convert model.zt half.zt --dtype bf16 --dtype '*.norm.*=f32'
  holdall convert model.zt small.zt --quantize 'layers.*=group:4:128'
  holdall convert model.safetensors model.gguf --quantize q8_0
  holdall convert Llama-3.2-1B/ llama.gguf --outtype q8_0        a model that llama.cpp runs
  holdall convert Llama-3-70B/ out/ --to gguf --max-shard-size 40GB     in several files
  holdall convert adapter/ lora.gguf --base Llama-3.2-1B/        an adapter of LoRA for it
  holdall convert in.zt out.zt -s 'encoder.*' --rename 'encoder.*=*'
  holdall convert model.safetensors model.mt --schema s.json     under a schema of your own
  holdall convert model.zt model/ --max-shard-size 5GB           several files and their index
  holdall convert tuned.safetensors new.onnx --graph old.onnx    weights into a graph
  holdall convert arrays/ model.safetensors                      a folder of .npy files
  holdall convert a-1.safetensors a.zt --also a-2.safetensors    files without an index
  holdall convert train.mt train.parquet                         the dataset in it, as columns
  holdall convert train.parquet train.mt                         and back
  holdall convert model.zt - --to safetensors | ssh host 'cat > model.safetensors'

What the target cannot express is refused before a byte is written. An existing file is replaced \
only with --force, and only when the new one is whole.")]
pub(crate) struct ConvertArgs {
    /// A file, an .npy file or a folder of them, or `-` for standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,

    /// The file to write, or `-` for standard output; with --max-shard-size or --max-shard-tensors, the folder to write
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,

    /// Further files of the same model that have no common index: shards, in order
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) also: Vec<PathBuf>,

    /// The output format, with a version if wanted: `ztensor@1.2`, `ztensor@1.0`, `ztensor@0.1`, `metatensor`,
    /// `safetensors`, `gguf`, `pytorch`, `hdf5`, `npz`, `onnx`, `ztensor2` [default: by OUT's extension, newest
    /// version]
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,

    #[command(flatten)]
    pub(crate) writing: Writing,

    /// Start every component at a multiple of N bytes, a power of two such as 4096 or 64KiB
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) align: Option<u64>,

    /// Write a folder of files with at most SIZE bytes of tensors each, such as 5GB or 2GiB: safetensors with their
    /// index, as on the Hugging Face hub; with `--to gguf`, the parts of a split file; with `--to ztensor2`, shards
    /// and the file that names them
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_shard_size: Option<u64>,

    /// Write a folder of files with at most N tensors each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_shard_tensors: Option<u64>,

    /// Write the weights into the graph of this ONNX model, and leave everything else of it unchanged
    #[arg(long, value_name = "MODEL")]
    graph: Option<PathBuf>,

    /// For ONNX: store tensors of at least SIZE bytes in a file next to the model, or `none`
    #[arg(long, value_name = "SIZE", value_parser = external)]
    external: Option<ExternalData>,

    #[command(flatten)]
    by_recipe: ByRecipe,

    #[command(flatten)]
    select: SelectionArgs,

    /// Rename tensors; `*` matches the same text on both sides: 'model.*=*'; can be repeated
    #[arg(long, value_name = "OLD=NEW")]
    rename: Vec<String>,

    /// What to do with tensors that have the same bytes: keep (as they are), dedupe (store once) or copy (store
    /// each)
    #[arg(long, value_name = "HOW", default_value = "keep", hide_possible_values = true)]
    share: Share,

    /// Write sparse tensors with their zeros, quantized ones as f32 (also weights that are several tensors), and
    /// tensors of layouts that --layouts describes as dense ones
    #[arg(long)]
    dense: bool,

    /// For zTensor 1.2: write each quantized weight that is several tensors (GPTQ, AWQ, FP8 and others) as one tensor with
    /// those as components, which any other format has as the same tensors again
    #[arg(long, conflicts_with = "dense")]
    described: bool,

    /// Round dense float tensors to this type: f64, f32, f16, bf16, f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz,
    /// or `keep`; with GLOB=, only tensors whose name matches; can be repeated
    #[arg(long, value_name = "[GLOB=]TYPE")]
    dtype: Vec<String>,

    /// With --dtype: replace values out of range by the type's largest finite number, instead of infinity or NaN
    #[arg(long, requires = "dtype")]
    saturate: bool,

    /// Write tensors as sparse if that is smaller: csr (matrices), coo, or `keep`; with GLOB=, only tensors
    /// whose name matches; can be repeated
    #[arg(long, value_name = "[GLOB=]FORM")]
    sparse: Vec<String>,

    /// Quantize float tensors with at least two dimensions: group:4:128 means 4 bits, groups of 128 (-1: a whole
    /// row); GGUF blocks are q4_0, q4_1, q5_0, q5_1, q8_0, q2_k to q6_k, mxfp4, tq1_0, tq2_0; or `keep`; with
    /// GLOB=, only tensors whose name matches; can be repeated
    #[arg(long, value_name = "[GLOB=]FORM")]
    quantize: Vec<String>,

    /// Write types that the output format lacks as the plain elements that store them
    #[arg(long)]
    raw_types: bool,

    /// Write Metatensor with this schema (JSON, or a file that contains one), which the tensors must fit
    #[arg(long, value_name = "SCHEMA")]
    schema: Option<PathBuf>,

    /// Write Metatensor with a schema made from the tensors, instead of the one in IN
    #[arg(long, conflicts_with = "schema")]
    infer_schema: bool,

    /// Omit attributes that the output format cannot store
    #[arg(long)]
    drop_attributes: bool,

    /// Replace OUT if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Show what would be written, without writing it
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// The value of the `--share` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Share {
    Keep,
    Dedupe,
    Copy,
}

/// Parses the value of the `--external` option.
fn external(text: &str) -> Result<ExternalData, String> {
    match text {
        "none" => Ok(ExternalData::None),
        _ => size(text).map(ExternalData::AtLeast),
    }
}

impl ConvertArgs {
    /// Returns the options that were given and that apply only to tensors.
    fn tensor_options(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("--align", self.align.is_some()),
            ("--max-shard-size", self.max_shard_size.is_some()),
            ("--max-shard-tensors", self.max_shard_tensors.is_some()),
            ("--graph", self.graph.is_some()),
            ("--external", self.external.is_some()),
            ("--select` and `--exclude", !self.select.is_all()),
            ("--rename", !self.rename.is_empty()),
            ("--share", self.share != Share::Keep),
            ("--dense", self.dense),
            ("--described", self.described),
            ("--dtype", !self.dtype.is_empty()),
            ("--sparse", !self.sparse.is_empty()),
            ("--quantize", !self.quantize.is_empty()),
            ("--raw-types", self.raw_types),
            ("--infer-schema", self.infer_schema),
            ("--drop-attributes", self.drop_attributes),
            ("--dry-run", self.dry_run),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// Returns the first option that was given and that does not apply to a model that a recipe converts.
    pub(crate) fn not_for_recipes(&self) -> Option<&'static str> {
        let schema = self.schema.is_some().then_some("--schema");
        let applies = |name: &&str| {
            ["--align", "--dry-run", "--max-shard-size", "--max-shard-tensors"].contains(name)
        };
        self.tensor_options().chain(schema).find(|name| !applies(name))
    }

    /// Returns the format that `--to` or the extension names, if any, and the version that `--to` names.
    pub(crate) fn target(&self) -> Result<Option<(&'static Format, Option<String>)>, Failure> {
        if let Some(to) = &self.to {
            return writing::target(to).map(Some);
        }
        let extension = self.output.extension().and_then(|e| e.to_str());
        Ok(extension.and_then(formats::by_name).map(|format| (format, None)))
    }

    /// Returns the limits of each file in bytes and in tensors.
    pub(crate) fn shard_limits(&self) -> (Option<u64>, Option<u64>) {
        (self.max_shard_size, self.max_shard_tensors)
    }

    /// Returns `true` if a folder of shards is written.
    pub(crate) fn is_sharded(&self) -> bool {
        self.max_shard_size.is_some() || self.max_shard_tensors.is_some()
    }
}

/// The format and version to write.
pub(crate) struct Target {
    pub(crate) format: &'static Format,
    pub(crate) version: String,
}

/// Converts the only dataset of a file into a Parquet or Arrow file, or such a file into a dataset. Returns `None` if
/// neither is requested.
fn table(session: &Session, args: &ConvertArgs) -> Result<Option<Status>, Failure> {
    let to = tables::target(args.to.as_deref(), &args.output);
    if !args.also.is_empty() {
        // Several files can only be a model, which has tensors.
        return Ok(None);
    }
    let from = tables::source(&args.input);
    let refused = |what: String, hint: &'static str| -> Result<Option<Status>, Failure> {
        Err(ARGUMENTS.broken(what).with_hint(hint).into())
    };
    if to.is_none() && from.is_none() {
        return Ok(None);
    }
    if let Some(option) = args.tensor_options().next() {
        let hint =
            "omit it; to select records and members, use `holdall records` and `holdall build`";
        return refused(format!("`{option}` applies to tensors, not to records"), hint);
    }
    match (from, to) {
        (Some(form), None) => {
            let mut build =
                BuildArgs::for_table(&args.input, form, &args.output, args.writing.clone());
            build.schema.clone_from(&args.schema);
            build.to.clone_from(&args.to);
            build.force = args.force;
            build::run(session, &build).map(Some)
        }
        (None, Some(form)) => {
            let own = args.schema.as_ref().map(|_| "--schema").or(args.writing.given());
            if let Some(option) = own {
                let hint = "omit it; `holdall records --schema` shows records with another schema";
                return refused(format!("`{option}` does not apply to files of columns"), hint);
            }
            let file = crate::input::open(session, &args.input)?;
            let records = records::dataset(&file, None)?.records()?;
            let all = Columns::Records(&records, records.query(), &[]);
            tables::write(session, all, form, &args.output, args.force).map(Some)
        }
        _ => refused(
            "IN and OUT are both files of columns".to_owned(),
            "use pandas, Polars, DuckDB or pyarrow to convert between them",
        ),
    }
}

/// Converts a file.
pub(crate) fn run(session: &Session, args: &ConvertArgs) -> Result<Status, Failure> {
    if let Some(status) = table(session, args)? {
        return Ok(status);
    }
    if let Some(status) = crate::recipe::convert(session, args, &args.by_recipe)? {
        return Ok(status);
    }
    let to_stdout = args.output.as_os_str() == "-";
    let forms = forms(args)?;
    let renames = writing::renames(&args.rename)?;
    let (target, options) = options(session, args, &forms, &renames)?;
    if to_stdout && !args.dry_run {
        writing::check_stdout()?;
    }
    let out = match (to_stdout, args.is_sharded()) {
        (true, _) => None,
        (_, true) => Some(writing::Output::begin_folder(session, &args.output, args.force)?),
        (_, false) => Some(writing::Output::begin(session, &args.output, args.force)?),
    };
    let all: Vec<PathBuf> = std::iter::once(&args.input).chain(&args.also).cloned().collect();
    let file = input::open_all(session, &all)?;
    writing::warn_of_unused_renames(session, &renames, &file);
    let options = with_schema(session, args, &target, &file, options)?;
    let options = with_graph(session, args, &target, options)?;
    if args.dry_run {
        let (specs, report) = holdall::convert::plan(&file, &args.output, &options)?;
        dry_run(session, args, &file, &target, &specs, &report)?;
        return Ok(Status::Fine);
    }
    let report = if to_stdout {
        holdall::convert_to(&file, &mut *session.out(), &options)?.0
    } else {
        let path = out.as_ref().map_or(args.output.as_path(), writing::Output::path);
        holdall::convert(&file, path, &options)?
    };
    if let Some(out) = out {
        out.publish()?;
    }
    drop(options);
    if args.described && !file.has_described_weights() {
        not_described(session, &file)?;
    }
    untouched(session, &forms, &report);
    if args.writing.is_smallest() && !session.json() {
        session.note(saved(&report));
    }
    if !session.json() {
        report.warnings.iter().for_each(|w| session.warn(printable(&w.to_string())));
    }
    if to_stdout {
        // Standard output contains the file.
        session.note(summary(&args.output, &target, &report));
        writing::left_behind(session, &left_behind(&report));
        errors(session, &report);
        overflows(session, args, &report);
    } else if session.json() {
        let text = report_json(&file, args, &target, &report, None);
        writeln!(session.out(), "{text}")?;
        overflows(session, args, &report);
    } else {
        session.note(summary(&args.output, &target, &report));
        writing::left_behind(session, &left_behind(&report));
        errors(session, &report);
        overflows(session, args, &report);
    }
    Ok(Status::Fine)
}

fn options(
    session: &Session,
    args: &ConvertArgs,
    forms: &[FormRule],
    renames: &[Rename],
) -> Result<(Target, Convert), Failure> {
    let mut encode = EncodeOptions::new();
    let mut write = args.writing.options(session.work("converting")).with_overwrite(args.force);
    let format = match &args.to {
        Some(to) => {
            let (format, version) = writing::target(to)?;
            encode.version = version;
            Some(format)
        }
        None => {
            let extension = args.output.extension().and_then(|e| e.to_str());
            let named =
                extension.and_then(formats::by_name).filter(|f| f.encode.is_some() || f.has_graph);
            // Shards are safetensors by default, as on the Hugging Face hub.
            let usual = || formats::by_name("safetensors").filter(|_| args.is_sharded());
            named.or_else(usual)
        }
    };
    let Some(format) = format else {
        let e = holdall::error::EXTENSION.broken(if args.output.as_os_str() == "-" {
            "standard output has no extension to derive the format from"
        } else {
            "no format that can be written has this file extension"
        });
        let e = match args.output.extension().and_then(|e| e.to_str()) {
            Some("carton") => {
                e.without_advice().with_hint("`holdall pack IN -o OUT` makes a package")
            }
            Some("csv") => {
                e.without_advice().with_hint("`holdall records IN --csv` writes records as a table")
            }
            Some("json" | "jsonl" | "ndjson") => e
                .without_advice()
                .with_hint("`holdall records IN --json` writes records as lines of JSON"),
            _ => e,
        };
        return Err(e.in_source(args.output.display()).into());
    };
    encode.align = args.align;
    let newest = || format.versions.first().map_or(String::new(), |v| (*v).to_owned());
    let version = encode.version.clone().unwrap_or_else(newest);
    write = write.with_format(format).with_encode(encode);
    let mut options = Convert::new(write)
        .with_select(args.select.parse()?)
        .with_renames(renames.to_vec())
        .with_sharing(match args.share {
            Share::Keep => Sharing::Keep,
            Share::Dedupe => Sharing::Dedupe,
            Share::Copy => Sharing::Copy,
        });
    let casts = args.dtype.iter().map(|r| Cast::new(r)).collect::<holdall::Result<Vec<_>>>()?;
    options = options.with_dtypes(casts);
    options = options.with_forms(forms.iter().cloned());
    if let Some(bytes) = args.max_shard_size {
        options = options.with_max_shard_len(bytes);
    }
    if let Some(count) = args.max_shard_tensors {
        options = options.with_max_shard_tensors(count);
    }
    if args.saturate {
        options = options.with_overflow(Overflow::Saturate);
    }
    for (is_asked_for, with) in [
        (args.dense, Convert::with_dense as fn(Convert) -> Convert),
        (args.described, Convert::with_described),
        (args.raw_types, Convert::with_raw_types),
        (args.drop_attributes, Convert::with_drop_attributes),
        (args.writing.has_encoding(), Convert::reencode),
    ] {
        if is_asked_for {
            options = with(options);
        }
    }
    Ok((Target { format, version }, options))
}

/// Parses `--sparse` and `--quantize`.
fn forms(args: &ConvertArgs) -> holdall::Result<Vec<FormRule>> {
    let sparse = args.sparse.iter().map(|rule| (rule, true));
    let all = sparse.chain(args.quantize.iter().map(|rule| (rule, false)));
    all.map(|(rule, sparse)| {
        let read = FormRule::new(rule)?;
        match read.to() {
            Some(TensorForm::Planes) => {
                Err(ARGUMENTS.broken("`planes` is for `--encoding`, for all tensors of floats"))
            }
            Some(form) if form.is_sparse() != sparse => {
                let other = if sparse { "--quantize" } else { "--sparse" };
                Err(ARGUMENTS.broken(format!("`{form}` is for `{other}`")))
            }
            _ => Ok(read),
        }
    })
    .collect()
}

/// Adds the requested schema, as the attribute that stores it.
fn with_schema(
    session: &Session,
    args: &ConvertArgs,
    target: &Target,
    file: &File,
    options: Convert,
) -> Result<Convert, Failure> {
    let mut attributes = file.attributes().clone();
    attributes.remove(SCHEMA_ATTRIBUTE);
    match &args.schema {
        _ if args.schema.is_none() && !args.infer_schema => return Ok(options),
        _ if !target.format.has_schema => {
            let what = if args.infer_schema { "--infer-schema" } else { "--schema" };
            let name = target.format.name;
            return Err(ARGUMENTS
                .broken(format!("`{what}` applies to Metatensor only; {name} files have no schema"))
                .into());
        }
        Some(path) => {
            let named = read::schema(session, path, Reading::File)?;
            let plain = options.clone().with_attributes(attributes.clone());
            let (specs, _) = holdall::convert::plan(file, &args.output, &plain)?;
            // A schema equal to the one derived from the tensors need not be stored.
            if holdall::convert::schema_of_tensors(&specs)? != named.json {
                attributes.set(SCHEMA_ATTRIBUTE, Value::Text(named.text));
            }
        }
        None => {}
    }
    Ok(options.with_attributes(attributes))
}

/// Adds the graph to write weights into, and the option for external data.
fn with_graph(
    session: &Session,
    args: &ConvertArgs,
    target: &Target,
    options: Convert,
) -> Result<Convert, Failure> {
    let given = [("--graph", args.graph.is_some()), ("--external", args.external.is_some())];
    if let Some((option, _)) = given.iter().find(|(_, is)| *is && !target.format.has_graph) {
        let name = target.format.name;
        return Err(ARGUMENTS
            .broken(format!("`{option}` applies to ONNX only; {name} files have no graph"))
            .into());
    }
    let options = match &args.graph {
        Some(graph) => options.with_graph(input::open(session, graph)?),
        None => options,
    };
    // Only a single file can be written to an object store.
    #[cfg(feature = "stores")]
    if args.output.to_str().is_some_and(holdall::stores::is_address) {
        return match args.external {
            Some(ExternalData::AtLeast(_)) => {
                let message =
                    "`--external` writes a second file, which object stores do not support";
                Err(ARGUMENTS.broken(message).into())
            }
            _ => Ok(options.with_external(ExternalData::None)),
        };
    }
    Ok(options.with_external(args.external.unwrap_or_default()))
}

/// Returns the summary, such as `model.zt: zTensor 1.2, 104 tensors, 90.9 MB → 45.2 MB, compressed 2.01×`.
fn summary(output: &Path, target: &Target, report: &ConvertReport) -> String {
    let mut text = format!(
        "{}: {}, {}, {} → {}",
        printable(&output.display().to_string()),
        versioned(target.format.name, &target.version),
        count(report.tensors, "tensor"),
        Size(report.source_len),
        Size(report.target_len),
    );
    if !report.files.is_empty() {
        text.push_str(&format!(", {}", count(report.files.len() as u64, "file")));
    }
    // Compared with the decoded length of the written tensors, so that a selection does not count as compression.
    let ratio = report.decoded_len as f64 / report.target_len.max(1) as f64;
    if ratio > 1.005 {
        text.push_str(&format!(", compressed {ratio:.2}×"));
    }
    if report.cast > 0 {
        text.push_str(&format!(", {} converted", count(report.cast, "tensor")));
    }
    for (what, sparse) in [("made sparse", true), ("quantized", false)] {
        let n = report.reformed.iter().filter(|r| r.form.is_sparse() == sparse).count();
        if n > 0 {
            text.push_str(&format!(", {} {what}", count(n as u64, "tensor")));
        }
    }
    if !report.dequantized.is_empty() {
        let n = count(report.dequantized.len() as u64, "quantized weight");
        text.push_str(&format!(", {n} made dense"));
    }
    if report.shared > 0 {
        text.push_str(&format!(", {} shared", count(report.shared, "component")));
    }
    text
}

/// Returns what `--smallest` saved, such as `saved 33.5 % of 91 MB: 98 tensors in byte planes, 4 in zstd, 2 raw`.
fn saved(report: &ConvertReport) -> String {
    let (all, saved) = (report.decoded_len, report.decoded_len.saturating_sub(report.target_len));
    let percent = 100. * saved as f64 / all.max(1) as f64;
    let raw = report.tensors.saturating_sub(report.in_planes + report.compressed);
    format!(
        "saved {percent:.1} % of {}: {} in byte planes, {} in zstd, {raw} raw",
        Size(all),
        count(report.in_planes, "tensor"),
        report.compressed,
    )
}

/// Says which quantized weights `--described` could not describe, or that the model has no such weights.
fn not_described(session: &Session, file: &File) -> Result<(), Failure> {
    let all = file.quantized_weights()?;
    let faulty = all.iter().filter(|weight| weight.fault().is_some()).count() as u64;
    if all.is_empty() {
        session.warn("`--described` had no effect: the model has no quantized weights");
    } else if faulty > 0 {
        let n = count(faulty, "quantized weight");
        session.warn(format!("{n} with a fault stayed as stored: `holdall inspect` shows why"));
    }
    Ok(())
}

/// Returns what the target lacks, in words: also the tensors next to quantized weights that do not change their values.
fn left_behind(report: &ConvertReport) -> Vec<String> {
    let dropped = report.dequantized.iter().flat_map(|weight| {
        let (name, all) = (escape(&weight.name), weight.dropped.iter());
        all.map(move |tensor| format!("tensor `{}`, next to the weight `{name}`", escape(tensor)))
    });
    report.left_behind.iter().cloned().chain(dropped).collect()
}

/// Warns about forms that were not applied to any tensor.
fn untouched(session: &Session, forms: &[FormRule], report: &ConvertReport) {
    for (option, sparse) in [("--sparse", true), ("--quantize", false)] {
        let mut asked = forms.iter().filter_map(FormRule::to).filter(|f| f.is_sparse() == sparse);
        let has_done = report.reformed.iter().any(|r| r.form.is_sparse() == sparse);
        if has_done || asked.next().is_none() {
            continue;
        }
        let what = match sparse {
            true => {
                "no tensor was made sparse: only tensors that become smaller are converted, and csr requires matrices"
            }
            false => {
                "no tensor was quantized: only float tensors with at least two dimensions are converted, to GGUF blocks only if each row is a whole number of blocks"
            }
        };
        session.warn(format!(
            "`{option}`: {what}; a rule with a tensor's full name applies in any case"
        ));
    }
}

/// Reports the errors of quantization.
fn errors(session: &Session, report: &ConvertReport) {
    const SHOWN: usize = 8;
    let all: Vec<_> =
        report.reformed.iter().filter_map(|r| Some((r, r.max_error?, r.rms_error?))).collect();
    for (r, max, rms) in all.iter().take(SHOWN) {
        let (name, from, to) = (escape(&r.name), Size(r.from_len), Size(r.len));
        session.note(format!(
            "`{name}`: {}, {from} → {to}, error at most {max:.3e}, RMS {rms:.3e}",
            r.form
        ));
    }
    let rest = all.len().saturating_sub(SHOWN);
    if rest > 0 {
        let max = all.iter().map(|(_, max, _)| *max).fold(0.0, f64::max);
        session.note(format!("{rest} more were quantized, with errors of at most {max:.3e}"));
    }
}

/// Warns about numbers that are out of range of their new type.
fn overflows(session: &Session, args: &ConvertArgs, report: &ConvertReport) {
    const SHOWN: usize = 8;
    for o in report.overflows.iter().take(SHOWN) {
        let became = match () {
            () if args.saturate => "the largest finite number",
            () if o.to.has_infinities() => "infinite",
            () => "NaN",
        };
        let (numbers, name) = (count(o.count, "number"), escape(&o.name));
        session.warn(format!("`{name}`: {numbers} out of range of {} became {became}", o.to));
    }
    let (all, rest) = (report.overflows.len(), report.overflows.len().saturating_sub(SHOWN));
    if rest > 0 {
        let numbers = count(report.overflowed, "number");
        session.warn(format!("{rest} more tensors overflowed: {numbers} in {all} of them"));
    }
}

fn dry_run(
    session: &Session,
    args: &ConvertArgs,
    file: &File,
    target: &Target,
    specs: &[TensorSpec],
    report: &ConvertReport,
) -> Result<(), Failure> {
    if session.json() {
        let text = report_json(file, args, target, report, Some(specs));
        writeln!(session.out(), "{text}")?;
        return Ok(());
    }
    write_plan(session, &args.output, target, specs, report)
}

/// Writes the tensors that would be written as a table.
pub(crate) fn write_plan(
    session: &Session,
    output: &Path,
    target: &Target,
    specs: &[TensorSpec],
    report: &ConvertReport,
) -> Result<(), Failure> {
    let out = &mut *session.out();
    let columns = [
        Column::left("name").cut(),
        Column::left("dtype"),
        Column::left("shape").cut_end(),
        Column::right("decoded"),
        Column::left("layout").dropped(1),
        Column::left(if report.shared > 0 { "bytes of" } else { "" }).dropped(0),
    ];
    let row = |at: usize| {
        let spec = &specs[at];
        let main = spec.components.first();
        let shares = main.and_then(|c| c.shares.as_ref());
        let decoded = spec.components.iter().map(|c| c.decoded_len).sum();
        vec![
            Cell::new(escape(&spec.name)),
            Cell::styled(
                type_name(main.map(|c| c.dtype), main.and_then(|c| c.logical_type.as_ref())),
                Style::Type,
            ),
            Cell::new(shape(&spec.shape)),
            Cell::new(Size(decoded).to_string()),
            Cell::new(escape(spec.layout.as_str())),
            Cell::styled(shares.map_or(String::new(), |s| escape(&s.tensor)), Style::Dim),
        ]
    };
    table::write(out, &columns, specs.len(), &row, 0, session.width(), session.paint())?;
    let what = format!("{} {}", target.format.name, target.version);
    writeln!(
        out,
        "\n{}: would be {}, {}, {} decoded{}",
        printable(&output.display().to_string()),
        what.trim_end(),
        count(report.tensors, "tensor"),
        Size(report.decoded_len),
        match report.files.len() as u64 {
            0 => String::new(),
            files => format!(", {}", count(files, "file")),
        },
    )?;
    Ok(())
}

fn report_json(
    file: &File,
    args: &ConvertArgs,
    target: &Target,
    report: &ConvertReport,
    plan: Option<&[TensorSpec]>,
) -> String {
    let head = fields! {
        source: file.name(),
        target: args.output.display().to_string(),
        format: target.format.id,
        version: &target.version,
    };
    let head = head.and(report.to_plain());
    match plan {
        None => as_json(&head),
        Some(specs) => {
            // Known only after writing.
            let unknown = ["target_len", "overflowed", "overflows", "in_planes", "compressed"];
            let head = unknown.into_iter().fold(head, |head, key| head.without(key));
            as_json(&head.and(fields!(plan: specs)))
        }
    }
}
