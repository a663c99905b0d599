//! Files that records name, and files of a folder.

use crate::exit::FILE_NAME;
use clap::Args;
use holdall::Result;
use holdall_schema::record::rules::TYPE;
use holdall_schema::{Accessor, Entry, Kind, Path as Way, Schema, Segment, TypeId};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};

/// Where the bytes of members are that records only name.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// The folder that file names start from
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,

    /// This member's bytes (or text) are those of the file in --files that the record names there; may
    /// be given again
    #[arg(long = "file-member", value_name = "MEMBER", requires = "files")]
    pub(crate) members: Vec<String>,
}

/// The members of records that are files.
pub(crate) struct FileMembers {
    folder: PathBuf,
    members: Vec<(Way, Accessor)>,
}

/// A file that a record names: which member it is, and its bytes.
pub(crate) struct Named {
    member: usize,
    bytes: Vec<u8>,
}

impl Files {
    /// The members in records of that type; `None` where no member is a file.
    ///
    /// # Errors
    /// `schema/path`, `schema/unknown-path`; `record/type` for a member that is neither bytes nor text.
    pub(crate) fn members(&self, schema: &Schema, ty: TypeId) -> Result<Option<FileMembers>> {
        let Some(folder) = self.files.as_ref().filter(|_| !self.members.is_empty()) else {
            return Ok(None);
        };
        let mut members = Vec::new();
        for member in &self.members {
            let path: Way = member.parse()?;
            let part = schema.accessor(ty, &path)?;
            let kind = &schema.ty(part.ty()).kind;
            if !matches!(kind, Kind::Bytes | Kind::String) {
                let kind = kind.as_str();
                return Err(
                    TYPE.broken(format!("`{path}` is a `TypeDef:{kind}`, no bytes or text"))
                );
            }
            members.push((path, part));
        }
        Ok(Some(FileMembers { folder: folder.clone(), members }))
    }
}

impl FileMembers {
    /// Reads the files that a record names, and leaves empty text in their places.
    ///
    /// # Errors
    /// `build/file-name`; Io.
    pub(crate) fn take(
        &self,
        schema: &Schema,
        ty: TypeId,
        record: &mut Value,
    ) -> Result<Vec<Named>> {
        let mut found = Vec::new();
        for (member, (path, _)) in self.members.iter().enumerate() {
            let Some(slot) = slot(schema, ty, record, path) else { continue };
            let Value::String(name) = slot else {
                if slot.is_null() {
                    continue;
                }
                return Err(FILE_NAME.broken(format!("`{path}` is no text")));
            };
            let bytes = read(&self.folder, name).map_err(|e| {
                let located = e.rule().broken(format!("{}, in `{path}`", e.message()));
                match e.io() {
                    Some(io) => located.with_io(std::io::Error::from(io.kind())),
                    None => located,
                }
            })?;
            found.push(Named { member, bytes });
            *slot = Value::String(String::new());
        }
        Ok(found)
    }

    /// Puts the files into a record that was written with empty text in their places, and its heap.
    pub(crate) fn put(&self, files: Vec<Named>, record: &mut [u8], heap: &mut Vec<u8>) {
        for Named { member, bytes } in files {
            let Some((_, part)) = self.members.get(member) else { continue };
            let at = part.offset()..part.offset() + Entry::LEN;
            if let (false, Some(slot)) = (bytes.is_empty(), record.get_mut(at)) {
                let entry = Entry { offset: heap.len() as u64, len: bytes.len() as u64 };
                slot.copy_from_slice(&entry.to_bytes());
                heap.extend(bytes);
            }
        }
    }
}

/// The value at a path of a record's JSON, where it is.
fn slot<'v>(
    schema: &Schema,
    ty: TypeId,
    record: &'v mut Value,
    path: &Way,
) -> Option<&'v mut Value> {
    let (mut ty, mut at) = (ty, record);
    for segment in &path.0 {
        match (&schema.ty(ty).kind, segment) {
            (Kind::Struct(fields), Segment::Name(name)) => {
                ty = fields.members.get(fields.place(name)?)?.ty;
                at = at.get_mut(&**name)?;
            }
            (Kind::Union(union), Segment::Name(key)) => {
                ty = union.variants.get(union.tag(key)?)?.ty;
                if at.get(&*union.discriminator)?.as_str()? != &**key {
                    return None;
                }
            }
            (Kind::Array(array), Segment::Index(index)) => {
                ty = array.items;
                at = at.get_mut(usize::try_from(*index).ok()?)?;
            }
            _ => return None,
        }
    }
    Some(at)
}

/// The bytes of a file in a folder.
fn read(folder: &Path, name: &str) -> Result<Vec<u8>> {
    let relative = Path::new(name);
    // A record says which file of the folder, and nothing outside of it.
    let is_inside =
        relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if name.is_empty() || !is_inside {
        let message = format!("`{}` is no name of a file in the folder", name.escape_debug());
        return Err(FILE_NAME.broken(message));
    }
    let path = folder.join(relative);
    contents(&path).map_err(|e| {
        let message = format!("`{}`: {}", path.display().to_string().escape_debug(), e.message());
        let located = e.rule().broken(message);
        match e.io() {
            Some(io) => located.with_io(std::io::Error::from(io.kind())),
            None => located,
        }
    })
}

/// The bytes of a file; links are followed. What is none, a pipe or a device, may have no end.
///
/// # Errors
/// `build/file-name`; Io.
pub(crate) fn contents(path: &Path) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| {
        let rule = &holdall::error::IO;
        rule.broken(format!("reading: {e}")).with_io(e)
    };
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(FILE_NAME.broken("it is no file"));
    }
    std::fs::read(path).map_err(failed)
}

/// The names of all files in a folder and those below it, with `/` between folders, sorted.
///
/// # Errors
/// `build/file-name` for a name that is no text; Io.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>> {
    let failed = |e: std::io::Error, at: &Path| {
        let rule = &holdall::error::IO;
        rule.broken(format!("reading the folder: {e}")).with_io(e).in_source(at.display())
    };
    let mut found = Vec::new();
    let mut ahead = vec![(folder.to_owned(), String::new())];
    while let Some((at, prefix)) = ahead.pop() {
        for entry in std::fs::read_dir(&at).map_err(|e| failed(e, &at))? {
            let entry = entry.map_err(|e| failed(e, &at))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                let message = format!("`{}` is not UTF-8", name.display());
                return Err(FILE_NAME.broken(message).in_source(at.display()));
            };
            let name = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(|e| failed(e, &at))?;
            if kind.is_dir() {
                ahead.push((entry.path(), format!("{name}/")));
            } else if kind.is_file() || entry.path().is_file() {
                // A link to a file is that file; links to folders might lead in circles.
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}
