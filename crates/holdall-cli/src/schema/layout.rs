//! `holdall schema layout`.

use super::read::{self, Given, Reading};
use super::rows::{Place, Row, There, Walk};
use crate::exit::{ARGUMENTS, Failure, Status};
use crate::output::json::{push_number, push_string};
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{Grouped, escape, exact_size};
use crate::session::Session;
use clap::Args;
use holdall_schema::{Extent, Path, Root, Schema, Symbols, TypeId};
use std::io::Write as _;
use std::path::PathBuf;

/// Show where each path of a schema, or of the records in a file, has its bytes
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema layout point.json                      the members of a record
  holdall schema layout points.mt --path 'points[].at'  what lies below one path of a file
  holdall schema layout model.json --symbols n=3,m=8    with numbers for the symbols in shapes

Offsets count from the start of the record, in bytes; those with a `+` from the start of an
element in the heap. `[]` stands for any element of an array, and offsets are those of the first
one, or of the one that --path names. `bit 0.3`: there where bit 3 of byte 0 is 1.")]
pub(crate) struct LayoutArgs {
    /// A schema (JSON), a tensor file, or `-` for standard input
    #[arg(value_name = "SCHEMA|FILE")]
    source: PathBuf,

    /// Only what lies at this path or below, as 'points[].at'
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// Numbers for symbols in shapes, as n=3; may be given again, or with commas
    #[arg(long, value_name = "NAME=N", value_delimiter = ',', value_parser = symbol)]
    symbols: Vec<(String, u64)>,

    /// Take the schema for that of one `record`, or of a whole `file` [default: of a record, where the
    /// root has a kind that a record can have]
    #[arg(long = "as", value_name = "WHAT", hide_possible_values = true)]
    reading: Option<Reading>,
}

fn symbol(text: &str) -> Result<(String, u64), String> {
    let (name, n) = text.rsplit_once('=').ok_or("write NAME=N, for example `n=3`")?;
    let number =
        n.parse().map_err(|_| format!("`{n}` is no whole number; write for example n=3"))?;
    Ok((name.to_owned(), number))
}

/// What the whole is.
struct Head {
    source: String,
    is_file: bool,
    /// Where it is the schema of one record: what the record is, and its size and place.
    record: Option<(String, Extent, Option<u32>)>,
    /// Symbols of the schema, with the numbers that were given.
    symbols: Vec<(String, Option<u64>)>,
}

/// Prints it.
pub(crate) fn run(session: &Session, args: &LayoutArgs) -> Result<Status, Failure> {
    let only: Option<Path> = match &args.path {
        Some(path) => Some(path.parse()?),
        None => None,
    };
    let limits = session.global.limits().of_schemas();
    let symbols: Symbols = args.symbols.iter().map(|(k, n)| (k.as_str().into(), *n)).collect();
    let reading = args.reading.unwrap_or(Reading::ByContent);
    let mut walk = Walk::new(&symbols, &limits, only.as_ref());
    let head = match read::given(session, &args.source, reading)? {
        Given::File(file) => {
            if let Some((name, _)) = args.symbols.first() {
                return Err(no_symbol(name, "a tensor file has none without a number").into());
            }
            walk.file(&file).map_err(|e| e.in_source(file.name()))?;
            let source = file.name().to_owned();
            Head { source, is_file: true, record: None, symbols: Vec::new() }
        }
        Given::Schema(named) => {
            let known = named.schema.symbols();
            if let Some(name) = symbols.keys().find(|name| !known.contains(name)) {
                let all: Vec<String> = known.iter().map(|s| format!("`{s}`")).collect();
                let has = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                return Err(no_symbol(name, &format!("the schema has {has}")).into());
            }
            let own = |e: holdall::Error| e.in_source(&named.source);
            let schema = named.schema.bind(&symbols).map_err(own)?;
            walk.schema(&schema).map_err(own)?;
            let record = match schema.root() {
                Root::Record(ty) => Some(record_of(&schema, ty, &symbols)?),
                Root::References(_) => None,
            };
            let symbols = known.iter().map(|s| (s.to_string(), symbols.get(s).copied())).collect();
            Head { source: named.source.clone(), is_file: false, record, symbols }
        }
    };
    let rows = walk.rows;
    if rows.is_empty()
        && let Some(only) = &only
    {
        let rule = &holdall_schema::rules::UNKNOWN_PATH;
        return Err(rule
            .broken(format!("`{only}` leads to nothing"))
            .in_source(head.source)
            .into());
    }
    if session.json() {
        writeln!(session.out(), "{}", json(&head, &rows))?;
    } else {
        text(session, &head, &rows)?;
    }
    Ok(Status::Fine)
}

fn no_symbol(name: &str, has: &str) -> holdall::Error {
    ARGUMENTS.broken(format!("there is no symbol `{}`: {has}", name.escape_debug()))
}

fn record_of(
    schema: &Schema,
    ty: TypeId,
    symbols: &Symbols,
) -> Result<(String, Extent, Option<u32>), Failure> {
    Ok((super::show::ty(schema, ty, symbols), schema.extent(ty)?, schema.ty(ty).heap_align))
}

fn text(session: &Session, head: &Head, rows: &[Row]) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    writeln!(out, "{}", paint.on(escape(&head.source), Style::Title))?;
    let mut lines = Vec::new();
    if let Some((kind, extent, heap)) = &head.record {
        let size = exact_size(extent.size);
        let mut line = format!("{kind}, {size}, aligned to {}", extent.align);
        if extent.stride != extent.size {
            line.push_str(&format!(", {} from one to the next", Grouped(extent.stride)));
        }
        lines.push(("record", line));
        if let Some(align) = heap {
            lines.push(("heap", format!("aligned to {align}")));
        }
    }
    let shown = |(name, n): &(String, Option<u64>)| match n {
        Some(n) => format!("{} = {n}", escape(name)),
        None => escape(name),
    };
    if !head.symbols.is_empty() {
        lines.push(("symbols", head.symbols.iter().map(shown).collect::<Vec<_>>().join(", ")));
    }
    // The record itself was told about.
    let rows: Vec<&Row> =
        rows.iter().filter(|r| head.record.is_none() || !r.path.is_root()).collect();
    lines.push(("paths", Grouped(rows.len() as u64).to_string()));
    for (key, value) in lines {
        writeln!(out, "  {}{value}", paint.on(format!("{key:<9}"), Style::Dim))?;
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
        let sign = if r.place == Place::Heap { "+" } else { "" };
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
            Cell::new(match r.there {
                There::Always => String::new(),
                There::Optional => "optional".to_owned(),
                There::Bit(bit) => format!("bit {}.{}", bit.byte, bit.bit),
            }),
        ]
    };
    table::write(out, &columns, rows.len(), &row, 2, session.width(), paint)?;
    Ok(())
}

fn json(head: &Head, rows: &[Row]) -> String {
    let mut out = String::from("{\"source\":");
    push_string(&head.source, &mut out);
    out.push_str(match (&head.record, head.is_file) {
        (_, true) => ",\"of\":\"file\"",
        (Some(_), _) => ",\"of\":\"record\"",
        (None, _) => ",\"of\":\"tensors\"",
    });
    out.push_str(",\"symbols\":{");
    for (at, (name, n)) in head.symbols.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        push_string(name, &mut out);
        out.push(':');
        number(*n, &mut out);
    }
    out.push_str("},\"record\":");
    match &head.record {
        None => out.push_str("null"),
        Some((kind, extent, heap)) => {
            out.push_str("{\"kind\":");
            push_string(kind, &mut out);
            let Extent { size, stride, align } = extent;
            out.push_str(&format!(",\"size\":{size},\"stride\":{stride},\"align\":{align}"));
            out.push_str(",\"heap_align\":");
            number(heap.map(u64::from), &mut out);
            out.push('}');
        }
    }
    out.push_str(",\"paths\":[");
    for (at, row) in rows.iter().enumerate() {
        out.push_str(if at > 0 { ",{\"path\":" } else { "{\"path\":" });
        push_string(&row.path.to_string(), &mut out);
        out.push_str(",\"kind\":");
        push_string(&row.kind, &mut out);
        out.push_str(match row.place {
            Place::Header => ",\"place\":\"header\"",
            Place::Record => ",\"place\":\"record\"",
            Place::Heap => ",\"place\":\"heap\"",
        });
        for (key, n) in [
            ("offset", row.offset),
            ("size", row.size),
            ("stride", row.stride),
            ("align", row.align.map(u64::from)),
        ] {
            out.push_str(&format!(",\"{key}\":"));
            number(n, &mut out);
        }
        let (optional, bit) = match row.there {
            There::Always => (false, None),
            There::Optional => (true, None),
            There::Bit(bit) => (true, Some(bit)),
        };
        out.push_str(&format!(",\"optional\":{optional},\"presence\":"));
        match bit {
            Some(bit) => out.push_str(&format!("{{\"byte\":{},\"bit\":{}}}", bit.byte, bit.bit)),
            None => out.push_str("null"),
        }
        out.push('}');
    }
    out.push_str("]}");
    out
}

fn number(n: Option<u64>, out: &mut String) {
    match n {
        Some(n) => push_number(n, out),
        None => out.push_str("null"),
    }
}
