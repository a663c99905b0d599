//! Information that two schemas do not contain: renames and converters.

use crate::exit::Failure;
use clap::Args;
use holdall::records::{Conversion, Migration};

/// Renames and converters.
#[derive(Debug, Args)]
pub(crate) struct Evolution {
    /// The member (or tensor) NEW of the new schema has the name OLD in the file, in the same struct; may be given
    /// again
    #[arg(long, value_name = "NEW=OLD", value_parser = rename, requires = "schema")]
    rename: Vec<(String, String)>,

    /// Compute the member (or tensor) at PATH of the new schema with a converter, such as 'w=cast' or 'size=split(x)';
    /// can be repeated
    #[arg(long, value_name = "PATH=NAME(ARGS)", value_parser = convert, requires = "schema")]
    convert: Vec<(String, String)>,
}

impl Evolution {
    /// Adds the renames and converters to a migration.
    pub(crate) fn apply(&self, mut migration: Migration) -> Result<Migration, Failure> {
        for (new, old) in &self.rename {
            migration = migration.with_rename(new, old);
        }
        for (path, by) in &self.convert {
            migration = migration.with_converter(path, by.parse::<Conversion>()?);
        }
        Ok(migration)
    }
}

fn rename(text: &str) -> Result<(String, String), String> {
    let (new, old) = text.split_once('=').ok_or("write NEW=OLD, for example text=caption")?;
    Ok((new.to_owned(), old.to_owned()))
}

fn convert(text: &str) -> Result<(String, String), String> {
    let (path, by) = text.split_once('=').ok_or("write PATH=NAME(ARGS), for example w=cast")?;
    Ok((path.to_owned(), by.to_owned()))
}
