//! One tensor in detail: its components, their offsets, and some of its values.

use super::preview::{Preview, texts};
use super::stats;
use crate::elements;
use crate::exit::Failure;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};

use crate::output::text::{
    Grouped, Size, alignment, attributes, component_type, count, element_noun, escape, escape_path,
    exact_size, lines_of, printable, shape, tensor_type,
};
use crate::session::Session;
use holdall::layout::Dense;
use holdall::schema::{Content, RowPresence};
use holdall::{ByteOrder, Component, DType, ErrorKind, Layout, Result, Tensor, TensorRecords as _};
use std::io::Write;

/// Number of entries that are shown from each end of a sparse tensor.
const ENTRIES: usize = 5;
/// Maximum length of a shown record, in characters, or run, in bytes.
const LINE: usize = 100;
/// Maximum number of members of records that are shown.
const MEMBERS: usize = 64;
/// Width of the keys, in columns.
const KEY: usize = 12;

/// Prints everything about a tensor.
pub(super) fn write(session: &Session, tensor: &Tensor, stats: bool) -> Result<(), Failure> {
    let components: Vec<Component> = tensor.sound()?.components().collect();
    let (width, paint) = (session.width(), session.paint());
    let text = values(tensor, &components)?;
    let stats = if stats {
        stats::compute(session, std::slice::from_ref(tensor), true)?.pop().flatten()
    } else {
        None
    };
    let out = &mut *session.out();
    writeln!(out, "{}", paint.styled(escape(tensor.name()), Style::Title))?;
    let mut lines = vec![("file", escape_path(tensor.file().name()))];
    lines.push(("dtype", dtype_line(tensor)));
    let elements = count(tensor.count(), element_noun(tensor.layout()));
    lines.push(("shape", format!("{}, {elements}", shape(tensor.shape()))));
    lines.push(("layout", escape(tensor.layout().as_str())));
    lines.push(("size", size_line(tensor, &components)));
    for (at, (key, value)) in attributes(tensor.attributes()).enumerate() {
        lines.push((if at == 0 { "attributes" } else { "" }, format!("{key} = {value}")));
    }
    let room = width.unwrap_or(usize::MAX).saturating_sub(KEY + 2).max(20);
    for (key, value) in lines {
        for (at, line) in lines_of(&value, room).into_iter().enumerate() {
            let key = if at == 0 { key } else { "" };
            let key = paint.styled(format!("{key:KEY$}"), Style::Dim);
            writeln!(out, "  {key}{line}")?;
        }
    }
    writeln!(out)?;
    let columns = [
        Column::left("component"),
        Column::left("dtype"),
        Column::right("offset"),
        Column::right("aligned"),
        Column::right("stored"),
        Column::left("encoding"),
        Column::right("decoded"),
        Column::left("digest").cut(),
    ];
    let row = |at: usize| component_row(&components[at]);
    table::write(out, &columns, components.len(), &row, 2, width, paint)?;
    writeln!(out)?;
    if *tensor.layout() == Layout::Records {
        members(session, tensor, out)?;
        writeln!(out)?;
    }
    if let Some(stats) = &stats {
        for (key, value) in stats::lines(stats) {
            writeln!(out, "  {}{value}", paint.styled(format!("{key:KEY$}"), Style::Dim))?;
        }
        writeln!(out)?;
    }
    for line in text.lines() {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// Prints a table of the members of records.
fn members(session: &Session, tensor: &Tensor, out: &mut dyn Write) -> Result<(), Failure> {
    let mut all = tensor.records()?.members()?;
    let more = all.len().saturating_sub(MEMBERS);
    all.truncate(MEMBERS);
    let columns =
        [Column::left("member").cut(), Column::left("kind").cut_end(), Column::left("there")];
    let row = |at: usize| {
        let there = if all[at].presence == RowPresence::Always { "" } else { "optional" };
        vec![
            // Paths escape backslashes themselves.
            Cell::new(printable(&all[at].path.to_string())),
            Cell::styled(escape(&all[at].kind), Style::Type),
            Cell::new(there),
        ]
    };
    table::write(out, &columns, all.len(), &row, 2, session.width(), session.paint())?;
    if more > 0 {
        writeln!(out, "  … and {more} more: `holdall schema layout` lists all")?;
    }
    Ok(())
}

fn dtype_line(tensor: &Tensor) -> String {
    let own = tensor_type(tensor);
    match (tensor.logical_type(), tensor.dtype()) {
        _ if matches!(tensor.layout(), Layout::Records | Layout::Blob) => own.into_owned(),
        _ if matches!(tensor.layout(), Layout::Blocks(_)) => format!("{own}, in blocks"),
        (Some(_), Some(dtype)) => format!("{own}, stored as {dtype}"),
        _ => own.into_owned(),
    }
}

fn size_line(tensor: &Tensor, components: &[Component]) -> String {
    let stored = tensor.stored_len();
    let mut text = exact_size(stored);
    let decoded = components.iter().try_fold(0u64, |n, c| n.checked_add(c.decoded_len?));
    if let Some(decoded) = decoded.filter(|&d| d != stored) {
        let ratio = decoded as f64 / stored.max(1) as f64;
        text.push_str(&format!(" stored, {} decoded ({ratio:.2}×)", Size(decoded)));
    }
    text
}

fn component_row(c: &Component) -> Vec<Cell> {
    let mut dtype = component_type(c).into_owned();
    if c.byte_order != ByteOrder::Little {
        dtype.push_str(" big-endian");
    }
    // In zTensor 0.1, indices can be stored as numbers in the manifest.
    let offset = (!c.stored.is_stated()).then_some(c.stored.start);
    let digest = c.digest.as_ref().map_or("-".to_owned(), |d| escape(&d.to_string()));
    vec![
        Cell::new(escape(c.role.as_str())),
        Cell::styled(dtype, Style::Type),
        Cell::new(offset.map_or("manifest".to_owned(), |o| Grouped(o).to_string())),
        Cell::new(offset.map_or("-".to_owned(), |o| alignment(o).to_string())),
        Cell::new(Grouped(c.stored_len()).to_string()),
        Cell::new(c.encoding.as_str()),
        Cell::new(c.decoded_len.map_or("?".to_owned(), |n| Grouped(n).to_string())),
        Cell::styled(digest, Style::Dim),
    ]
}

/// Formats some of the values, or the reason why none can be shown.
fn values(tensor: &Tensor, components: &[Component]) -> Result<String> {
    let shown = match tensor.layout() {
        Layout::Dense => dense(tensor, components),
        layout if layout.is_computed() => computed(tensor),
        Layout::SparseCsr | Layout::PackedCsr => csr(tensor),
        Layout::SparseCoo | Layout::PackedCoo => coo(tensor),
        Layout::Planes(planes) => in_planes(tensor, planes.dtype),
        Layout::Strided | Layout::SparseBlocks | Layout::SparseHybrid => gathered(tensor),
        Layout::Records => records(tensor),
        Layout::Blob => blob(tensor),
        _ if tensor.description().is_some() => described(tensor),
        _ => package_value(tensor),
    };
    match shown {
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Limit) => {
            Ok(format!("no values to show: {} [{}]", e.message(), e.code()))
        }
        other => other,
    }
}

fn dense(tensor: &Tensor, components: &[Component]) -> Result<String> {
    let Some(c) = components.first() else { return Ok(String::new()) };
    let width = c.dtype.width();
    // The size of an unknown logical type's elements is unknown, so the storage elements are shown.
    let unknown = c.logical_type.as_ref().is_some_and(|t| t.bits().is_none());
    let preview = match c.decoded_len {
        Some(len) if unknown && len != tensor.count().saturating_mul(width) => {
            Preview::new(&[len / width])
        }
        _ => Preview::new(tensor.shape()),
    };
    if preview.is_whole() {
        tensor.checked().compare(&c.role)?;
    }
    let parts = elements::component_parts(tensor, c, &preview.ranges())?;
    preview.render(&parts)
}

fn computed(tensor: &Tensor) -> Result<String> {
    let preview = Preview::new(tensor.shape());
    let parts = elements::computed_parts(tensor, &preview.ranges())?;
    Ok(format!("dequantized\n{}", preview.render(&parts)?))
}

fn gathered(tensor: &Tensor) -> Result<String> {
    let preview = Preview::new(tensor.shape());
    let parts = elements::gathered(tensor, &preview.ranges())?;
    preview.render(&parts)
}

fn in_planes(tensor: &Tensor, dtype: DType) -> Result<String> {
    let preview = Preview::new(tensor.shape());
    let parts = elements::in_planes(tensor, dtype, &preview.ranges())?;
    preview.render(&parts)
}

fn described(tensor: &Tensor) -> Result<String> {
    let preview = Preview::new(tensor.shape());
    let parts = elements::described_parts(tensor, &preview.ranges())?;
    let about = tensor.description().and_then(|d| d.about.as_deref()).map(printable);
    let about = about.map_or(String::new(), |about| format!(": {about}"));
    Ok(format!("as described{about}\n{}", preview.render(&parts)?))
}

fn csr(tensor: &Tensor) -> Result<String> {
    let view = tensor.csr()?;
    let places = shown_positions(view.count());
    let mut lines = Vec::new();
    let mut bytes = Vec::new();
    for (_, entry) in view.entries().enumerate().filter(|(n, _)| places.contains(n)) {
        lines.push(format!("({}, {})", entry.row, entry.column));
        bytes.extend_from_slice(entry.value);
    }
    entries(tensor, view.count(), lines, view.values(), bytes)
}

fn coo(tensor: &Tensor) -> Result<String> {
    let view = tensor.coo()?;
    let places = shown_positions(view.count());
    let mut lines = Vec::new();
    let mut bytes = Vec::new();
    for (_, entry) in view.entries().enumerate().filter(|(n, _)| places.contains(n)) {
        let coords: Vec<String> = entry.coords().map(|c| c.to_string()).collect();
        lines.push(format!("({})", coords.join(", ")));
        bytes.extend_from_slice(entry.value);
    }
    entries(tensor, view.count(), lines, view.values(), bytes)
}

/// Formats strings and nested tensors of a package.
#[cfg(feature = "carton")]
fn package_value(tensor: &Tensor) -> Result<String> {
    use holdall::carton::{Package, TensorKind, TensorValue};
    let Some(what) = tensor.other_value() else { return Ok(UNKNOWN.to_owned()) };
    let Some(package) = Package::from_file(tensor.file())? else { return Ok(UNKNOWN.to_owned()) };
    let row = package.tensors().iter().find(|row| row.name == tensor.name());
    if let Some(TensorKind::Nested { inner }) = row.map(|row| &row.kind) {
        let lines = numbered(inner.len() as u64, |at| {
            let name = &inner[at as usize];
            Ok(format!("{name}  {}", in_a_line(&package, tensor, name)?))
        })?;
        return Ok(format!("{what} of\n{lines}"));
    }
    if tensor.components().len() == 0 {
        return Ok(format!("no values to show: this is {what}"));
    }
    match package.value(tensor.name())? {
        TensorValue::Strings { data, .. } => {
            let text = |at: u64| Ok(format!("{:?}", data[at as usize]));
            numbered(data.len() as u64, text)
        }
        _ => Ok(format!("no values to show: this is {what}")),
    }
}

/// Formats a tensor inside a nested one in a line: its type, its shape and its first values.
#[cfg(feature = "carton")]
fn in_a_line(package: &holdall::carton::Package, outer: &Tensor, name: &str) -> Result<String> {
    use holdall::carton::TensorValue;
    let tensor = outer.file().tensor(name)?;
    let shape = shape(tensor.shape());
    if *tensor.layout() == Layout::Dense
        && let Some(c) = tensor.components().next()
    {
        let first = 0..tensor.count().min(LINE_VALUES);
        let parts = elements::component_parts(&tensor, &c, std::slice::from_ref(&first))?;
        let texts = texts(&parts)?.concat().join(" ");
        let more = if tensor.count() > LINE_VALUES { " …" } else { "" };
        return Ok(format!("{} {shape}  {texts}{more}", tensor_type(&tensor)));
    }
    if tensor.components().len() == 0 {
        return Ok(tensor.other_value().unwrap_or_default().to_owned());
    }
    match package.value(name)? {
        TensorValue::Strings { data, .. } => {
            let some = data.iter().take(LINE_VALUES as usize);
            let texts: Vec<String> = some.map(|text| format!("{text:?}")).collect();
            let more = if data.len() as u64 > LINE_VALUES { " …" } else { "" };
            Ok(format!("string {shape}  {}{more}", texts.join(" ")))
        }
        _ => Ok(tensor.other_value().unwrap_or_default().to_owned()),
    }
}

/// Maximum number of values in such a line.
#[cfg(feature = "carton")]
const LINE_VALUES: u64 = 8;

#[cfg(not(feature = "carton"))]
fn package_value(_: &Tensor) -> Result<String> {
    Ok(UNKNOWN.to_owned())
}

const UNKNOWN: &str = "no values to show: unknown layout";

/// Formats some records as JSON.
fn records(tensor: &Tensor) -> Result<String> {
    let view = tensor.records()?;
    numbered(view.len(), |at| view.record(at)?.to_json())
}

/// Formats some runs of a blob: text and JSON as they are, other bytes in hexadecimal, numbers by their count.
fn blob(tensor: &Tensor) -> Result<String> {
    let view = tensor.blob()?;
    let content = view.content();
    let line = |at: u64| {
        let bytes = view.get(at)?;
        let head = &bytes[..bytes.len().min(LINE)];
        Ok(match content {
            Content::Utf8 | Content::Json => String::from_utf8_lossy(head).into_owned(),
            Content::Elements(dtype) => {
                let count = bytes.len() as u64 * 8 / dtype.bits();
                format!("{} of {dtype}", Grouped(count))
            }
            _ => data_encoding::HEXLOWER.encode(head),
        })
    };
    Ok(format!("{content}\n{}", numbered(view.len(), line)?))
}

/// Formats some of `count` items, one per line.
fn numbered(count: u64, line: impl Fn(u64) -> Result<String>) -> Result<String> {
    let all = usize::try_from(count).unwrap_or(usize::MAX);
    let places = shown_positions(all);
    let width = count.saturating_sub(1).to_string().len();
    let mut out = String::new();
    for (number, at) in places.iter().enumerate() {
        if number == ENTRIES && all > places.len() {
            out.push_str("…\n");
        }
        let line = line(*at as u64)?;
        let cut = line.char_indices().nth(LINE).map(|(end, _)| &line[..end]);
        let text = cut.map_or_else(|| printable(&line), |cut| printable(cut) + "…");
        out.push_str(&format!("{at:>width$}  {text}\n"));
    }
    Ok(out)
}

/// Returns the indices of the shown entries.
fn shown_positions(count: usize) -> Vec<usize> {
    if count <= 2 * ENTRIES + 1 {
        return (0..count).collect();
    }
    (0..ENTRIES).chain(count - ENTRIES..count).collect()
}

/// Formats the shown entries, one per line: position and value.
fn entries(
    tensor: &Tensor,
    all: usize,
    places: Vec<String>,
    values: &Dense,
    bytes: Vec<u8>,
) -> Result<String> {
    let part =
        Dense::new(values.dtype(), values.logical_type().cloned(), [places.len() as u64], bytes);
    let texts = texts(&[part])?;
    let texts = texts.first().map(Vec::as_slice).unwrap_or_default();
    let width = |all: &mut dyn Iterator<Item = &String>| all.map(|s| s.len()).max().unwrap_or(0);
    let (left, right) = (width(&mut places.iter()), width(&mut texts.iter()));
    let total = tensor.count();
    let mut out = format!("{} of {} elements are stored\n", Grouped(all as u64), Grouped(total));
    for (number, (place, text)) in places.iter().zip(texts).enumerate() {
        if number == ENTRIES && all > places.len() {
            out.push_str("…\n");
        }
        out.push_str(&format!("{place:<left$}  {text:>right$}\n"));
    }
    Ok(out)
}
