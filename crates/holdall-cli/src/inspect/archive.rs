//! Lists the files in a tar or zip archive that is not itself a file of tensors.

use crate::exit::Failure;
use crate::input::{self, STDIN, StandardInput};
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{Size, count, escape, escape_path, exact_size};
use crate::session::Session;
use holdall::archive::{ArchiveContents, ArchiveEntry, contents};
use holdall::formats::UNKNOWN;
use holdall::plain::ToPlain as _;
use holdall::{Error, Location, fields};
use std::io::Write as _;
use std::path::Path;

/// Returns the contents of the archive at `path`, which could not be opened because of `e`, if it contains files that
/// can be.
///
/// # Errors
/// Returns `e`, if it is not such an archive.
pub(super) fn instead(
    session: &Session,
    path: &Path,
    e: Error,
) -> Result<ArchiveContents, Failure> {
    if e.code() != UNKNOWN.code {
        return Err(e.into());
    }
    let options = input::options(session);
    let found = match path.as_os_str() == "-" {
        true => input::standard(session).map(|standard| {
            let (StandardInput::File(source) | StandardInput::Memory(source)) = standard;
            (source, STDIN.to_owned())
        }),
        false => options.unchecked_source_at(&Location::new(path)).map_err(Failure::from),
    };
    let archive =
        found.ok().and_then(|(source, name)| contents(source, &name, options.limits()).ok());
    // Without such files, the error is more helpful.
    let can_be_opened = |file: &ArchiveEntry| file.format.is_some();
    match archive.filter(|archive| archive.files.iter().any(can_be_opened)) {
        Some(archive) => Ok(archive),
        None => Err(e.into()),
    }
}

/// Prints the contents.
pub(super) fn show(session: &Session, archive: &ArchiveContents) -> Result<(), Failure> {
    let out = &mut *session.out();
    if session.json() {
        let (nothing, attributes): ([&str; 0], _) = ([], holdall::Attributes::new());
        let head = archive.to_plain().without("files");
        let fields = head.and(fields! {
            attributes: &attributes,
            tensors: &nothing[..],
            files: &archive.files[..],
            warnings: &nothing[..],
        });
        writeln!(out, "{}", as_json(&fields))?;
        return Ok(());
    }
    let paint = session.paint();
    let kind = if archive.kind == "tar" { "tar archive" } else { "zip" };
    writeln!(out, "{}", paint.styled(escape_path(&archive.source), Style::Title))?;
    writeln!(out, "  format      {kind}")?;
    writeln!(out, "  size        {}", exact_size(archive.len))?;
    let opens = archive.files.iter().filter(|file| file.format.is_some()).count();
    let files = count(archive.files.len() as u64, "file");
    writeln!(
        out,
        "  files       {files}, {opens} of which open as `{}!/FILE`",
        escape_path(&archive.source)
    )?;
    writeln!(out)?;
    let columns = [
        Column::left("file").cut(),
        Column::left("format"),
        Column::right("size"),
        Column::left("encoding").dropped(0),
    ];
    let row = |at: usize| {
        let file = &archive.files[at];
        let encoding = file.method.clone().unwrap_or_else(|| "raw".to_owned());
        vec![
            Cell::new(escape(&file.name)),
            Cell::new(file.format.map_or("", |format| format.name)),
            Cell::new(Size(file.len).to_string()),
            Cell::styled(encoding, Style::Dim),
        ]
    };
    table::write(out, &columns, archive.files.len(), &row, 2, session.width(), paint)?;
    Ok(())
}
