//! Reads schemas: JSON in a file or on standard input, or the schema of a tensor file.

use crate::exit::Failure;
use crate::input;
use crate::session::Session;
use holdall::convert;
use holdall::records::SchemaOrFile;
use holdall::schema::{Document, Reading};
use std::io::Read as _;
use std::path::Path;

/// Opens a schema or a tensor file, distinguished by content; `-` is standard input.
pub(crate) fn given(
    session: &Session,
    path: &Path,
    reading: Reading,
) -> Result<SchemaOrFile, Failure> {
    let limits = session.global.limits();
    let options = input::options_for(session, path);
    if path.as_os_str() != "-" {
        return Ok(SchemaOrFile::open(path, reading, &options, &limits)?);
    }
    let (_, mut reader) = input::reader(session, path)?;
    let mut bytes = Vec::new();
    reader
        .read_to_end(&mut bytes)
        .map_err(|e| holdall::error::io(e, "reading").in_source(input::STDIN))?;
    Ok(SchemaOrFile::from_bytes(bytes, input::STDIN, reading, &options, &limits)?)
}

/// Reads a schema, or that of a tensor file.
pub(crate) fn schema(
    session: &Session,
    path: &Path,
    reading: Reading,
) -> Result<Document, Failure> {
    match given(session, path, reading)? {
        SchemaOrFile::Schema(schema) => Ok(*schema),
        SchemaOrFile::File(file) => Ok(convert::schema(&file)?),
    }
}
