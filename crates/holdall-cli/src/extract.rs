//! `holdall extract`.

use crate::elements;
use crate::exit::{Failure, Status, WHICH_COMPONENT, WHICH_FORMAT};
use crate::input;
use crate::output::as_json;
use crate::output::text::{Size, escape, printable, shape, type_name};
use crate::session::Session;
use crate::writing;
use clap::{Args, ValueEnum};
use holdall::error::NO_COMPONENT;
use holdall::layout::rules::{LENGTH, NOT_A_NUMBER, UNKNOWN_TYPE};
use holdall::layout::{decode_f32, decode_f64, row_range};
use holdall::{
    Check, Component, DType, DensePieces, Durability, ElementType, FileSink, Layout, LogicalType,
    Result, Role, Sink, Tensor, element_count, fields, npy, stored_size,
};
use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;

/// Write one tensor to a .npy file, a raw file or standard output
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall extract model.zt lm_head.weight -o lm_head.npy
  holdall extract model.zt embed.weight --rows 0..64 -o first.npy
  holdall extract model.zt embed.weight --as f32 -o embed.npy        NumPy has no bf16
  holdall extract tuned.delta.zt w --base base.zt --rows 0..64 -o rows.npy
  holdall extract model.zt adjacency --dense -o adjacency.npy
  holdall extract model.zt adjacency --component indices -o - --format raw | xxd")]
pub(crate) struct ExtractArgs {
    /// A file, or `-` for standard input
    file: PathBuf,

    /// The tensor's name
    tensor: String,

    /// The file to write, or `-` for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// npy or raw (only the elements, little-endian) [default: by OUT's extension]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    format: Option<Format>,

    /// One component of a tensor that has several, such as values, indices or scales
    #[arg(long, value_name = "ROLE", conflicts_with = "dense")]
    component: Option<String>,

    /// Only rows A to B (excluding B) of the first dimension, for example 0..64, ..64 or 64..
    #[arg(long, value_name = "A..B", value_parser = rows, allow_hyphen_values = true)]
    rows: Option<Rows>,

    /// Write the tensor as a dense one: a sparse one with its zeros, a quantized one as f32, and one of a layout that
    /// --layouts describes
    #[arg(long)]
    dense: bool,

    /// Convert the elements to f32 or f64
    #[arg(long = "as", value_name = "DTYPE", hide_possible_values = true)]
    convert: Option<Float>,

    /// For a delta: the model that it was made from. The tensor is that of the target, and only the needed part is
    /// computed
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,

    /// Do not wait until the bytes are on disk: faster, but the file may be lost in a power failure
    #[arg(long)]
    no_sync: bool,

    /// Replace OUT if it exists
    #[arg(short, long)]
    force: bool,
}

/// The value of the `--format` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Npy,
    Raw,
}

/// The value of the `--as` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Float {
    F32,
    F64,
}

/// The value of the `--rows` option. Either end may be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    start: Option<u64>,
    end: Option<u64>,
}

/// Parses `0..64`, `..64` or `64..`.
pub(crate) fn rows(text: &str) -> Result<Rows, String> {
    let number = |s: &str| match s.trim() {
        "" => Ok(None),
        s => s.parse().map(Some).map_err(|_| {
            format!("`{s}` is not a row number; write for example 0..64, ..64 or 64..")
        }),
    };
    let Some((start, end)) = text.split_once("..") else {
        return Err("write A..B, for example 0..64, ..64 or 64..".to_owned());
    };
    match (number(start)?, number(end)?) {
        (Some(start), Some(end)) if start > end => {
            Err(format!("row {start} comes after row {end}; write {end}..{start}"))
        }
        (start, end) => Ok(Rows { start, end }),
    }
}

impl Rows {
    /// Returns the range of rows for a tensor of this shape. The caller must check that they exist.
    pub(crate) fn range(self, shape: &[u64]) -> Range<u64> {
        let all = shape.first().copied().unwrap_or(0);
        self.start.unwrap_or(0)..self.end.unwrap_or(all)
    }
}

/// The data to write: the source of the bytes, and their type and shape.
struct Extraction {
    from: From,
    dtype: DType,
    logical_type: Option<LogicalType>,
    /// NumPy's name of the element type, for types other than plain numbers: records, times and strings.
    descr: Option<String>,
    /// The shape, in elements of that type.
    shape: Vec<u64>,
    /// Number of bytes read from `from`.
    len: u64,
}

enum From {
    /// A component, or a range of its decoded bytes.
    Component(Component, Option<Range<u64>>),
    Made(Box<DensePieces>),
}

/// Extracts a tensor.
pub(crate) fn run(session: &Session, args: &ExtractArgs) -> Result<Status, Failure> {
    let format = format(args)?;
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout {
        writing::check_stdout()?;
    } else {
        FileSink::check(&args.output, args.force)?;
    }
    let file = input::open_target(session, &args.file, args.base.as_deref(), Check::All)?;
    let tensor = match args.dense {
        // A quantized weight in 8-bit floats has the name of the tensor with its codes.
        true => file.dequantized()?.tensor(&args.tensor).or_else(|_| file.tensor(&args.tensor))?,
        false => input::tensor_or_weight(&file, &args.tensor)?,
    };
    let mut extraction = choose(&tensor, args, format).map_err(|e| match e {
        Failure::Error(e) => Failure::Error(e.in_tensor(tensor.name()).in_source(file.name())),
        other => other,
    })?;
    let (dtype, logical_type) = match args.convert {
        Some(Float::F32) => (DType::F32, None),
        Some(Float::F64) => (DType::F64, None),
        None => (extraction.dtype, extraction.logical_type.clone()),
    };
    if args.convert.is_some() {
        check_numbers(&extraction)
            .map_err(|e| e.in_tensor(tensor.name()).in_source(file.name()))?;
    }
    let header = match format {
        Format::Raw => Vec::new(),
        Format::Npy => {
            let header = match &extraction.descr {
                Some(descr) => npy::header_of(descr, false, &extraction.shape),
                None => npy::header(dtype, logical_type.as_ref(), &extraction.shape),
            };
            header.map_err(|e| {
                let e = e.in_tensor(tensor.name()).in_source(file.name());
                e.with_hint(match logical_type {
                    Some(LogicalType::Other(_) | LogicalType::Complex32) => {
                        "`--format raw` writes the bytes as they are"
                    }
                    _ => "add `--as f32` to convert, or `--format raw` for the bytes as they are",
                })
            })?
        }
    };
    // The file's header announces this many bytes, and readers rely on it.
    let element = ElementType::new(dtype, logical_type.clone());
    let expected = match extraction.descr {
        Some(_) => Some(header.len() as u64 + extraction.len),
        None => element_count(&extraction.shape)
            .filter(|_| format == Format::Npy || args.convert.is_some())
            .map(|count| header.len() as u64 + element.len_of(count)),
    };
    let shown = shape(&extraction.shape);
    let check = |len: u64| match expected {
        Some(expected) if expected != len => {
            let e = LENGTH
                .broken(format!("expected {expected} bytes for the shape {shown}, found {len}"));
            Err(e.in_tensor(tensor.name()).in_source(file.name()))
        }
        _ => Ok(()),
    };
    let work = session.work("extracting");
    work.begin(extraction.len);
    let len = if to_stdout {
        let mut out = session.out();
        out.write_all(&header)?;
        let mut len = header.len() as u64;
        write(&tensor, &mut extraction, args.convert, &mut |bytes| {
            len += bytes.len() as u64;
            work.advance(bytes.len() as u64)?;
            Ok(out.write_all(bytes)?)
        })?;
        check(len)?;
        len
    } else {
        let durability = if args.no_sync { Durability::System } else { Durability::Disk };
        let mut sink = FileSink::create(&args.output, args.force, durability)?;
        sink.expect(header.len() as u64 + extraction.len);
        sink.append(&header)?;
        write(&tensor, &mut extraction, args.convert, &mut |bytes| {
            work.advance(bytes.len() as u64)?;
            Ok(sink.append(bytes)?)
        })?;
        let len = sink.len();
        check(len)?;
        sink.finish()?;
        len
    };
    drop(work);
    let type_name = match &extraction.descr {
        Some(descr) => printable(descr).to_string(),
        None => type_name(Some(dtype), logical_type.as_ref()).to_string(),
    };
    if session.json() && !to_stdout {
        let text = report(args, &tensor, &extraction, dtype, logical_type.as_ref(), len);
        writeln!(session.out(), "{text}")?;
    } else if !to_stdout {
        let name = args.output.display().to_string();
        session.note(format!("{}: {type_name} {shown}, {}", printable(&name), Size(len)));
    }
    Ok(Status::Fine)
}

fn format(args: &ExtractArgs) -> Result<Format, Failure> {
    let extension = || args.output.extension()?.to_str();
    match (args.format, extension()) {
        (Some(format), _) => Ok(format),
        (None, Some("npy")) => Ok(Format::Npy),
        (None, Some("raw" | "bin")) => Ok(Format::Raw),
        (None, _) => {
            let shown = args.output.display();
            Err(WHICH_FORMAT
                .broken(format!("the extension of `{shown}` does not determine a format"))
                .into())
        }
    }
}

/// Decides what to write.
fn choose(tensor: &Tensor, args: &ExtractArgs, format: Format) -> Result<Extraction, Failure> {
    // A tensor that is not stored in row-major order is rearranged, and planes are joined, unless one of its components is
    // requested.
    let has_other_order = matches!(tensor.layout(), Layout::Strided | Layout::Planes(_));
    if has_other_order && args.component.is_none()
        || args.dense && *tensor.layout() != Layout::Dense
    {
        return made(tensor, args, format);
    }
    let c = component(tensor, args.component.as_deref())?;
    if let Some((descr, shape)) = npy_type(tensor, args, format)? {
        return whole_rows(c, Some(descr), shape, args);
    }
    if *tensor.layout() == Layout::Records && args.component.is_none() {
        return whole_rows(c, None, tensor.shape().to_vec(), args);
    }
    let whole = *tensor.layout() == Layout::Dense && c.role == Role::Data;
    let shape = if whole {
        tensor.shape().to_vec()
    } else if let Some(shape) = tensor.stored_shape(&c.role) {
        shape
    } else {
        let len = match c.decoded_len {
            Some(len) => len,
            // Old versions do not store the decoded length of compressed sparse components.
            None => tensor.pieces(&c.role)?.try_fold(0, |n, p| p.map(|p| n + p.len() as u64))?,
        };
        let bits = ElementType::new(c.dtype, c.logical_type.clone()).bits();
        vec![(u128::from(len) * 8 / u128::from(bits)) as u64]
    };
    let logical = c.logical_type.as_ref();
    let (range, shape) = match args.rows {
        None => (None, shape),
        Some(rows) => {
            let rows = rows.range(&shape);
            let mut of_rows = shape.clone();
            let range = row_range(&shape, c.dtype, logical, rows.clone())?;
            if let Some(first) = of_rows.first_mut() {
                *first = rows.end - rows.start;
            }
            (Some(range), of_rows)
        }
    };
    let len = match &range {
        Some(range) => range.end - range.start,
        None => {
            let count = element_count(&shape).unwrap_or(0);
            stored_size(count, c.dtype, logical).ok().flatten().or(c.decoded_len).unwrap_or(0)
        }
    };
    let (dtype, logical_type) = (c.dtype, c.logical_type.clone());
    let from = From::Component(c, range);
    Ok(Extraction { from, dtype, logical_type, descr: None, shape, len })
}

/// Returns NumPy's type of the tensor's elements and the shape in such elements, if it differs from the storage type.
fn npy_type(
    tensor: &Tensor,
    args: &ExtractArgs,
    format: Format,
) -> Result<Option<(String, Vec<u64>)>, Failure> {
    if args.component.is_some() || (format == Format::Raw && args.convert.is_none()) {
        return Ok(None);
    }
    let found = npy::type_of(tensor).map_err(|e| {
        e.with_hint("`holdall records` shows and writes the records; `--format raw` writes the bytes as they are")
    })?;
    match (&found, args.convert) {
        (Some((descr, _)), Some(_)) => {
            let e =
                NOT_A_NUMBER.broken(format!("elements of NumPy's type {descr} are not numbers"));
            Err(e.with_hint("omit `--as`").into())
        }
        _ => Ok(found),
    }
}

/// Extracts whole rows of elements that are not plain numbers: records, and elements of NumPy's types.
fn whole_rows(
    c: Component,
    descr: Option<String>,
    mut shape: Vec<u64>,
    args: &ExtractArgs,
) -> Result<Extraction, Failure> {
    let all = c.decoded_len.unwrap_or_default();
    let range = match args.rows {
        None => 0..all,
        Some(rows) => {
            let rows = rows.range(&shape);
            row_range(&shape, DType::U8, None, rows.clone())?;
            let count = shape.first().copied().unwrap_or(0);
            let row = all.checked_div(count).unwrap_or(0);
            if let Some(first) = shape.first_mut() {
                *first = rows.end - rows.start;
            }
            rows.start * row..rows.end * row
        }
    };
    let (dtype, logical_type) = (c.dtype, c.logical_type.clone());
    let (len, range) = (range.end - range.start, args.rows.map(|_| range));
    let from = From::Component(c, range);
    Ok(Extraction { from, dtype, logical_type, descr, shape, len })
}

fn made(tensor: &Tensor, args: &ExtractArgs, format: Format) -> Result<Extraction, Failure> {
    tensor.check_dense()?;
    let mut pieces = tensor.dense_pieces(Check::All)?;
    let mut shape = tensor.shape().to_vec();
    if let Some(rows) = args.rows {
        let rows = rows.range(&shape);
        pieces = pieces.with_rows(rows.clone())?;
        if let Some(first) = shape.first_mut() {
            *first = rows.end - rows.start;
        }
    }
    let element_type = pieces.element_type().clone();
    let mut len = element_type.len_of(element_count(&shape).unwrap_or(0));
    let mut descr = None;
    if let Some((named, own)) = npy_type(tensor, args, format)? {
        let first = shape.first().copied();
        (descr, shape) = (Some(named), own);
        if let (Some(rows), Some(first)) = (shape.first_mut(), first) {
            *rows = first;
        }
    }
    // No rows means no bytes.
    if shape.contains(&0) {
        len = 0;
    }
    Ok(Extraction {
        len,
        descr,
        dtype: element_type.dtype,
        logical_type: element_type.logical_type,
        shape,
        from: From::Made(Box::new(pieces)),
    })
}

/// Returns the named component, or the only one.
fn component(tensor: &Tensor, role: Option<&str>) -> Result<Component, Failure> {
    tensor.sound()?;
    let mut all = tensor.components();
    if let Some(role) = role {
        let role = Role::from_name(role);
        if let Some(c) = all.find(|c| c.role == role) {
            return Ok(c);
        }
    } else if let (Some(only), None) = (all.next(), all.next()) {
        return Ok(only);
    }
    if tensor.components().len() == 0 {
        let layout = tensor.layout();
        let what = tensor
            .other_value()
            .map_or_else(|| format!("a tensor of layout {layout}"), str::to_owned);
        return Err(NO_COMPONENT
            .broken(format!("the tensor is {what}, which has no components"))
            .into());
    }
    let roles: Vec<String> = tensor.components().map(|c| escape(c.role.as_str())).collect();
    let roles = roles.join(", ");
    let e = match role {
        Some(role) => {
            let shown = escape(role);
            NO_COMPONENT
                .broken(format!("there is no component `{shown}`; the components are {roles}"))
        }
        None => WHICH_COMPONENT
            .broken(format!("the tensor has layout {} and the components {roles}", tensor.layout()))
            .with_hint(match tensor.layout() {
                Layout::Records | Layout::Blob => {
                    "`holdall records` shows and writes the content; or name one with `--component`"
                }
                _ => "name one with `--component`, or add `--dense`",
            }),
    };
    Err(e.into())
}

/// Passes the bytes after the header to `sink`.
fn write(
    tensor: &Tensor,
    extraction: &mut Extraction,
    convert: Option<Float>,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (dtype, logical) = (extraction.dtype, extraction.logical_type.as_ref());
    let mut converted = Vec::new();
    // 6-bit elements are in groups of 3 bytes, which may be split between pieces.
    let six = matches!(logical, Some(LogicalType::F6E2M3 | LogicalType::F6E3M2));
    let mut group = Vec::new();
    let mut pass = |bytes: &[u8]| -> Result<(), Failure> {
        let Some(float) = convert else { return sink(bytes) };
        let mut bytes = bytes;
        if six {
            group.extend_from_slice(bytes);
            bytes = &group[..group.len() / 3 * 3];
        }
        converted.clear();
        match float {
            Float::F32 => decode_f32(dtype, logical, bytes, |part| {
                part.iter().for_each(|x| converted.extend_from_slice(&x.to_le_bytes()));
            })?,
            Float::F64 => decode_f64(dtype, logical, bytes, |part| {
                part.iter().for_each(|x| converted.extend_from_slice(&x.to_le_bytes()));
            })?,
        }
        let used = bytes.len();
        if six {
            group.drain(..used);
        }
        sink(&converted)
    };
    let done = match &mut extraction.from {
        From::Made(pieces) => {
            pieces.try_for_each(|piece| piece?.chunks(3 << 20).try_for_each(&mut pass))
        }
        From::Component(c, range) => elements::stream(tensor, c, range.clone(), &mut pass),
    };
    done.map_err(|e| match e {
        Failure::Error(e) => {
            Failure::Error(e.in_tensor(tensor.name()).in_source(tensor.file().name()))
        }
        other => other,
    })
}

/// Refuses to convert elements that are not single numbers, or of an unknown type.
fn check_numbers(extraction: &Extraction) -> Result<()> {
    match &extraction.logical_type {
        Some(pair) if pair.is_complex() => {
            let e = NOT_A_NUMBER.broken(format!("elements of {pair} are pairs of numbers"));
            Err(e.with_hint("omit `--as`: .npy files can contain complex numbers"))
        }
        Some(LogicalType::Other(name)) => {
            let name = escape(name);
            let e = UNKNOWN_TYPE.broken(format!("unknown logical type `{name}`"));
            Err(e.with_hint("omit `--as`: `--format raw` writes the bytes as they are"))
        }
        _ => Ok(()),
    }
}

fn report(
    args: &ExtractArgs,
    tensor: &Tensor,
    extraction: &Extraction,
    dtype: DType,
    logical_type: Option<&LogicalType>,
    len: u64,
) -> String {
    let component = match &extraction.from {
        From::Component(c, _) => Some(c.role.as_str()),
        From::Made(_) => None,
    };
    let fields = fields! {
        source: input::display_name(&args.file),
        tensor: tensor.name(),
        component: component,
        target: args.output.display().to_string(),
        dtype: dtype.as_str(),
        logical_type: logical_type.map(|t| t.as_str()),
        shape: &extraction.shape,
        len: len,
    };
    as_json(&fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_ranges_may_be_open() {
        let range = |text| rows(text).map(|r: Rows| r.range(&[10, 3]));
        assert_eq!(range("2..4"), Ok(2..4));
        assert_eq!(range("..4"), Ok(0..4));
        assert_eq!(range("2.."), Ok(2..10));
        assert_eq!(range(".."), Ok(0..10));
        assert_eq!(range("4..4"), Ok(4..4));
        assert!(range("5..2").is_err());
        assert!(range("2").is_err() && range("a..b").is_err() && range("-1..2").is_err());
    }
}
