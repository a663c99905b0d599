//! Reads files that records name, and files of a folder.

use crate::query::or_like_member;
use crate::rules::FILE_NAME;
use crate::{BlobWriter, Build};
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use holdall_io::Work;
use holdall_io::error::io;
use holdall_schema::record::rules::TYPE;
use holdall_schema::{Accessor, Content, Entry, Kind, Path as Way, Schema, Segment, TypeId};
use serde_json::Value;
use std::fmt::Display;
use std::path::{Component, Path, PathBuf};

/// The members of records whose values are read from files.
pub(super) struct FileMembers {
    folder: PathBuf,
    members: Vec<(Way, Accessor)>,
}

/// The bytes of a file that a record names, and the member that it belongs to.
pub(super) struct Named {
    member: usize,
    bytes: Vec<u8>,
}

impl FileMembers {
    /// Creates the list of these members, in records of type `ty`, whose bytes are read from files of a folder.
    ///
    /// # Errors
    /// Returns `schema/path` or `schema/unknown-path` if there is no such member; `record/type` if it is neither bytes
    /// nor text.
    pub(super) fn new(
        folder: &Path,
        paths: &[String],
        schema: &Schema,
        ty: TypeId,
    ) -> Result<FileMembers> {
        let mut members = Vec::new();
        for path in paths {
            let path: Way = path.parse()?;
            let part = schema.accessor(ty, &path);
            let part = part.map_err(|e| or_like_member(e, schema, ty, &path.to_string()))?;
            let kind = &schema.ty(part.ty()).kind;
            if !matches!(kind, Kind::Bytes | Kind::String) {
                let kind = kind.as_str();
                let message = format!(
                    "`{path}` is a `TypeDef:{kind}`; only bytes and text can be read from files"
                );
                return Err(TYPE.broken(message));
            }
            members.push((path, part));
        }
        Ok(FileMembers { folder: folder.to_owned(), members })
    }

    /// Reads the files that a record names and replaces the names in it with empty text.
    ///
    /// # Errors
    /// Returns `build/file-name`; an I/O error.
    pub(super) fn take(
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
                return Err(
                    FILE_NAME.broken(format!("`{path}` is not text; expected the name of a file"))
                );
            };
            let bytes = read(&self.folder, name).map_err(|e| in_context(e, path))?;
            found.push(Named { member, bytes });
            *slot = Value::String(String::new());
        }
        Ok(found)
    }

    /// Puts the bytes of the files into the heap and into the entries of the encoded record.
    pub(super) fn put(&self, files: Vec<Named>, record: &mut [u8], heap: &mut Vec<u8>) {
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

/// Returns the value at a path of a record's JSON, if present.
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
                ty = fields.members.get(fields.index_of(name)?)?.ty;
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

/// Adds the member or file to an error.
#[cold]
fn in_context(e: Error, what: impl Display) -> Error {
    e.within(format!("`{}`", what.to_string().escaped()))
}

/// Returns the bytes of a file in a folder.
fn read(folder: &Path, name: &str) -> Result<Vec<u8>> {
    let relative = Path::new(name);
    // A record may only name files inside the folder.
    let is_inside =
        relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if name.is_empty() || !is_inside {
        let message = format!("`{}` is not a valid name of a file in the folder", name.escaped());
        return Err(FILE_NAME.broken(message));
    }
    let path = folder.join(relative);
    contents(&path).map_err(|e| in_context(e, path.display()))
}

/// Returns the bytes of a file; follows links. Refuses pipes and devices, which may never end.
fn contents(path: &Path) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| io(e, "reading");
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(FILE_NAME.broken("this is not a regular file"));
    }
    std::fs::read(path).map_err(failed)
}

impl Build {
    /// Adds every file of a folder and its subfolders to the blob `runs`, sorted by name, and adds the names, with `/`
    /// between folders, to a text blob called `NAME_names`. Returns the number of files. Links to files are followed,
    /// links to folders are not. A blob of elements takes the files' bytes as little-endian elements. `work` counts the
    /// bytes that are read.
    ///
    /// # Errors
    /// Returns `build/file-name` if a name is not UTF-8; an I/O error; and the errors of [`BlobWriter::bytes`], with
    /// the file's name, and of [`Build::add`].
    pub fn add_files(
        &mut self,
        mut runs: BlobWriter,
        folder: impl AsRef<Path>,
        work: &Work,
    ) -> Result<u64> {
        let folder = folder.as_ref();
        let found = names_below(folder)?;
        let len = |name: &String| std::fs::metadata(folder.join(name)).map_or(0, |m| m.len());
        work.begin(found.iter().map(len).fold(0, u64::saturating_add));
        let mut names = self.blob_with_content(&format!("{}_names", runs.name()), Content::Utf8)?;
        for file in &found {
            let path = folder.join(file);
            let in_file = |e: Error| e.in_source(path.display());
            let bytes = contents(&path).map_err(in_file)?;
            runs.bytes(&bytes).map_err(in_file)?;
            names.text(file)?;
            work.advance(bytes.len() as u64)?;
        }
        self.add(runs)?;
        self.add(names)?;
        Ok(found.len() as u64)
    }
}

/// Returns the names of all files in a folder and its subfolders, with `/` between folders, sorted.
fn names_below(folder: &Path) -> Result<Vec<String>> {
    let failed = |e: std::io::Error, at: &Path| io(e, "reading the folder").in_source(at.display());
    let mut found = Vec::new();
    let mut ahead = vec![(folder.to_owned(), String::new())];
    while let Some((at, prefix)) = ahead.pop() {
        for entry in std::fs::read_dir(&at).map_err(|e| failed(e, &at))? {
            let entry = entry.map_err(|e| failed(e, &at))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                let message = format!("the name `{}` is not UTF-8", name.display());
                return Err(FILE_NAME.broken(message).in_source(at.display()));
            };
            let name = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(|e| failed(e, &at))?;
            if kind.is_dir() {
                ahead.push((entry.path(), format!("{name}/")));
            } else if kind.is_file() || entry.path().is_file() {
                // A link to a file counts as that file. Links to folders are not followed, because they might form a
                // loop.
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}
