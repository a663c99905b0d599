//! `holdall formats`.

use crate::exit::{Failure, Status};
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::session::Session;
use holdall::plain::Plain;
use holdall::{FORMATS, Format};
use std::io::Write as _;

/// Lists the formats.
pub(crate) fn run(session: &Session) -> Result<Status, Failure> {
    let out = &mut *session.out();
    if session.json() {
        writeln!(out, "{}", as_json(&Plain::list(FORMATS.iter().copied())))?;
        return Ok(Status::Fine);
    }
    let columns = [
        Column::left("format"),
        Column::left("name"),
        Column::left("extensions"),
        Column::left("reads"),
        Column::left("writes"),
    ];
    let row = |at: usize| {
        let f = FORMATS[at];
        vec![
            Cell::styled(f.id, Style::Title),
            Cell::new(f.name),
            Cell::new(f.extensions.iter().map(|e| format!(".{e}")).collect::<Vec<_>>().join(" ")),
            Cell::new(if f.reads.is_empty() { "yes".to_owned() } else { f.reads.join(", ") }),
            Cell::new(writes(f)),
        ]
    };
    table::write(out, &columns, FORMATS.len(), &row, 0, session.width(), session.paint())?;
    Ok(Status::Fine)
}

fn writes(f: &Format) -> String {
    match (f.encode, f.versions) {
        (None, _) if f.has_graph => "into a graph".to_owned(),
        (None, _) => "no".to_owned(),
        (Some(_), []) => "yes".to_owned(),
        (Some(_), versions) => versions.join(", "),
    }
}
