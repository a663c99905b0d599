//! Schemas by themselves: the locations of paths, and differences.

use crate::Answer;
use crate::json::{self, Object};
use holdall_core::Error;
use holdall_schema::{Base, Document, Outline, Reading, RowPresence, SchemaLimits, Symbols};

/// Compiles a schema; `reading` is as for [`crate::schema_outline`].
pub(crate) fn document(text: &[u8], reading: u32) -> Result<Document, Error> {
    let reading = match reading {
        1 => Reading::Record,
        2 => Reading::File,
        _ => Reading::ByContent,
    };
    Document::parse(text, "the schema", reading, &SchemaLimits::default())
        .map_err(Error::without_location)
}

/// Returns every path of a schema.
pub(crate) fn outline(text: &[u8], reading: u32) -> Result<Answer, Error> {
    let (limits, symbols) = (SchemaLimits::default(), Symbols::default());
    let document = document(text, reading)?;
    let mut outline = Outline::new(&symbols, &limits, None);
    outline.schema(&document.schema)?;
    let mut out = String::new();
    json::list(outline.into_rows(), &mut out, |row, out| {
        let one = Object::new()
            .text("path", &row.path.to_string())
            .text("kind", &row.kind)
            .maybe_number("offset", row.offset)
            .maybe_number("size", row.size)
            .maybe_number("stride", row.stride)
            .maybe_number("align", row.align.map(u64::from))
            .flag("optional", row.presence != RowPresence::Always)
            .text(
                "base",
                match row.base {
                    Base::Header => "header",
                    Base::Record => "record",
                    Base::Heap => "heap",
                },
            );
        out.push_str(&one.finish());
    });
    Ok(Answer::text(out))
}
