//! `holdall schema layout`.

use super::read;
use crate::exit::{Failure, Status};
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{Grouped, escape, exact_size};
use crate::session::Session;
use clap::{Args, ValueEnum};
use holdall::fields;
use holdall::plain::Plain;
use holdall::records::{self, RecordLayout, SchemaLayout, SchemaOrFile};
use holdall::schema::{Base, Extent, OutlineRow, Path, Reading, RowPresence, Symbols};
use std::io::Write as _;
use std::path::PathBuf;

/// Show the bytes of each path of a schema, or of the records in a file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema layout point.json                      the members of a record
  holdall schema layout points.mt --path 'points[].at'  everything below one path of a file
  holdall schema layout model.json --symbols n=3,m=8    with numbers for the symbols in shapes

Offsets are in bytes from the start of the record; those with a `+` from the start of an element in \
the heap. `[]` is any element of an array; offsets are those of the first element, or of the one that \
--path names. `bit 0.3`: present if bit 3 of byte 0 is 1.")]
pub(crate) struct LayoutArgs {
    /// A schema (JSON), a tensor file, or `-` for standard input
    #[arg(value_name = "SCHEMA|FILE")]
    source: PathBuf,

    /// Only this path and those below it, such as 'points[].at'
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// Values for symbols in shapes, such as n=3; can be repeated, or separated by commas
    #[arg(long, value_name = "NAME=N", value_delimiter = ',', value_parser = symbol)]
    symbols: Vec<(String, u64)>,

    /// Read the schema as that of one `record`, or of a whole `file` [default: of a record, if the kind of its root is
    /// possible for a record]
    #[arg(long = "as", value_name = "WHAT", hide_possible_values = true)]
    reading: Option<As>,
}

/// The value of the `--as` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum As {
    /// The schema of one record.
    Record,
    /// The schema of the `tensors` of a file.
    File,
}

fn symbol(text: &str) -> Result<(String, u64), String> {
    let (name, n) = text.rsplit_once('=').ok_or("write NAME=N, for example `n=3`")?;
    let number =
        n.parse().map_err(|_| format!("`{n}` is not a whole number; write for example n=3"))?;
    Ok((name.to_owned(), number))
}

/// Prints the layout.
pub(crate) fn run(session: &Session, args: &LayoutArgs) -> Result<Status, Failure> {
    let only: Option<Path> = match &args.path {
        Some(path) => Some(path.parse()?),
        None => None,
    };
    let limits = session.global.limits().schema_limits();
    let symbols: Symbols = args.symbols.iter().map(|(k, n)| (k.as_str().into(), *n)).collect();
    let reading = match args.reading {
        None => Reading::ByContent,
        Some(As::Record) => Reading::Record,
        Some(As::File) => Reading::File,
    };
    let what = read::given(session, &args.source, reading)?;
    let layout = records::layout(&what, only.as_ref(), &symbols, &limits)?;
    if session.json() {
        writeln!(session.out(), "{}", json(&what, &layout))?;
    } else {
        text(session, &what, &layout)?;
    }
    Ok(Status::Fine)
}

fn text(session: &Session, what: &SchemaOrFile, layout: &SchemaLayout) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    writeln!(out, "{}", paint.styled(escape(what.name()), Style::Title))?;
    let mut lines = Vec::new();
    if let Some(RecordLayout { kind, extent, heap_align, .. }) = &layout.record {
        let size = exact_size(extent.size);
        let mut line = format!("{kind}, {size}, aligned to {}", extent.align);
        if extent.stride != extent.size {
            line.push_str(&format!(", {} from one to the next", Grouped(extent.stride)));
        }
        lines.push(("record", line));
        if let Some(align) = heap_align {
            lines.push(("heap", format!("aligned to {align}")));
        }
    }
    let shown = |(name, n): &(String, Option<u64>)| match n {
        Some(n) => format!("{} = {n}", escape(name)),
        None => escape(name),
    };
    if !layout.symbols.is_empty() {
        lines.push(("symbols", layout.symbols.iter().map(shown).collect::<Vec<_>>().join(", ")));
    }
    // The record itself is described above.
    let rows: Vec<&OutlineRow> =
        layout.rows.iter().filter(|r| layout.record.is_none() || !r.path.is_root()).collect();
    lines.push(("paths", Grouped(rows.len() as u64).to_string()));
    for (key, value) in lines {
        writeln!(out, "  {}{value}", paint.styled(format!("{key:<9}"), Style::Dim))?;
    }
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let columns = [
        Column::left("path").cut(),
        Column::left("kind").cut_end(),
        Column::right("offset"),
        Column::right("size"),
        Column::right("stride"),
        Column::right("align"),
        Column::left("there"),
    ];
    let number = |n: Option<u64>| Cell::new(n.map_or(String::new(), |n| Grouped(n).to_string()));
    let row = |at: usize| {
        let r = rows[at];
        let sign = if r.base == Base::Heap { "+" } else { "" };
        let offset = r.offset.map_or(String::new(), |n| format!("{sign}{}", Grouped(n)));
        let path = r.path.to_string();
        vec![
            // Paths escape backslashes themselves.
            Cell::new(crate::output::text::printable(&path)),
            Cell::styled(escape(&r.kind), Style::Type),
            Cell::new(offset),
            number(r.size),
            number(r.stride),
            number(r.align.map(u64::from)),
            Cell::new(match r.presence {
                RowPresence::Always => String::new(),
                RowPresence::Optional => "optional".to_owned(),
                RowPresence::Bit(bit) => format!("bit {}.{}", bit.byte, bit.bit),
            }),
        ]
    };
    table::write(out, &columns, rows.len(), &row, 2, session.width(), paint)?;
    Ok(())
}

fn json(what: &SchemaOrFile, layout: &SchemaLayout) -> String {
    let owner = match (&layout.record, what) {
        (_, SchemaOrFile::File(_)) => "file",
        (Some(_), _) => "record",
        (None, _) => "tensors",
    };
    let record = layout.record.as_ref().map(|RecordLayout { kind, extent, heap_align, .. }| {
        let Extent { size, stride, align } = extent;
        let heap_align = heap_align.map(u64::from);
        fields!(kind: kind, size: *size, stride: *stride, align: *align, heap_align: heap_align)
    });
    let fields = fields! {
        source: what.name(),
        of: owner,
        symbols: Plain::map(layout.symbols.iter().map(|(name, n)| (&**name, *n))),
        record: record,
        paths: Plain::list(&layout.rows),
    };
    as_json(&fields)
}
