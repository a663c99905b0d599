//! Exports bytes of records to files.

use super::columns::json_at;
use crate::rules::{FILE_MEMBER, FILE_NAME};
use crate::{Record, Records};
use holdall_collections::HashSet;
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use holdall_io::error::{EXISTS, io};
use holdall_schema::{Accessor, Kind, Path as Way};
use std::borrow::Cow;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

/// Writes a member of records (bytes or text) into files of a folder, one record at a time. See [`Records::export`].
#[derive(Debug)]
pub struct Export {
    member: Way,
    part: Accessor,
    names: Option<Accessor>,
    folder: PathBuf,
    overwrites: bool,
    written: HashSet<String>,
}

impl Records {
    /// Returns an exporter that writes a member (bytes or text) into files of a folder, which is created if it does not
    /// exist. The files are named after the index of the record, with an extension that follows from their first bytes:
    /// `000012.png`.
    ///
    /// # Errors
    /// Returns `records/file-member` if the member is neither bytes nor text; `schema/path` or `schema/unknown-path` if
    /// there is no such member.
    pub fn export(&self, member: &str, folder: impl Into<PathBuf>) -> Result<Export> {
        let part = self.accessor(member)?;
        let kind = &self.schema().ty(part.ty()).kind;
        if !matches!(kind, Kind::Bytes | Kind::String) {
            let (member, kind) = (member.escaped(), kind.as_str());
            let message = format!(
                "`{member}` is a `TypeDef:{kind}`; only bytes and text can be exported as files"
            );
            return Err(super::placed(FILE_MEMBER.broken(message), self.tensor()));
        }
        Ok(Export {
            member: member.parse()?,
            part,
            names: None,
            folder: folder.into(),
            overwrites: false,
            written: HashSet::default(),
        })
    }
}

impl Export {
    /// Returns the accessors of the members that are used.
    pub fn parts(&self) -> impl Iterator<Item = &Accessor> {
        std::iter::once(&self.part).chain(&self.names)
    }

    /// Names the files after another member: text, an enum or a number. A name without an extension gets one.
    ///
    /// # Errors
    /// Returns `records/file-member` for any other member, and the errors of [`Records::accessor`].
    pub fn with_names(mut self, records: &Records, member: &str) -> Result<Export> {
        let part = records.accessor(member)?;
        let kind = &records.schema().ty(part.ty()).kind;
        if !matches!(kind, Kind::String | Kind::Enum(_))
            && part.typed::<f64>().is_err()
            && super::reader::Integer::from_accessor(&part).is_none()
        {
            let (member, kind) = (member.escaped(), kind.as_str());
            let message = format!(
                "`{member}` is a `TypeDef:{kind}`; files can only be named after text, enums and numbers"
            );
            return Err(super::placed(FILE_MEMBER.broken(message), records.tensor()));
        }
        self.names = Some(part);
        Ok(self)
    }

    /// Replaces existing files.
    pub fn with_overwrite(mut self, overwrite: bool) -> Export {
        self.overwrites = overwrite;
        self
    }

    /// Returns the path of the exported member.
    pub fn member(&self) -> String {
        self.member.to_string()
    }

    /// Writes the file of a record and returns its name in the folder, or `None` if the record does not have the
    /// member.
    ///
    /// # Errors
    /// Returns `build/file-name` for a name that is invalid, outside of the folder, or used by two records;
    /// `write/exists` if the file exists; an I/O error; and the errors of [`Record::data`].
    pub fn add(&mut self, record: &Record<'_>) -> Result<Option<String>> {
        let Some(bytes) = record.data(&self.part)? else { return Ok(None) };
        let in_record = |e: Error| record.records().in_record(e, record.index());
        let name = self.name(record, &bytes)?;
        if !self.written.insert(name.clone()) {
            let message = format!("two records have the file name `{}`", name.escaped());
            return Err(in_record(FILE_NAME.broken(message)));
        }
        let path = self.folder.join(&name);
        self.write(&path, &bytes).map_err(|e| e.in_source(path.display()))?;
        Ok(Some(name))
    }

    /// Returns the JSON text of a record with the name of its file in place of the member's value.
    ///
    /// # Errors
    /// Returns the same errors as [`Record::to_json`].
    pub fn json(&self, record: &Record<'_>, name: Option<&str>) -> Result<String> {
        let whole = record.to_json()?;
        let Some(name) = name else { return Ok(whole) };
        let records = record.records();
        let found = json_at(records.schema(), records.ty(), &whole, &self.member, usize::MAX)?;
        let Some(found) = found else { return Ok(whole) };
        // `found` is a slice of the text.
        let at = (found.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        let (before, rest) = whole.split_at(at);
        let after = rest.get(found.len()..).unwrap_or_default();
        Ok(format!("{before}{}{after}", serde_json::Value::from(name)))
    }

    fn name(&self, record: &Record<'_>, bytes: &[u8]) -> Result<String> {
        let records = record.records();
        let Some(part) = &self.names else {
            let digits = records.len().saturating_sub(1).to_string().len();
            return Ok(format!("{:0digits$}.{}", record.index(), extension(bytes)));
        };
        let kind = &records.schema().ty(part.ty()).kind;
        let file_name = match kind {
            Kind::String => record.string(part)?.map(Cow::into_owned),
            Kind::Enum(_) => record.enum_value(part)?.map(str::to_owned),
            _ => record.part(part)?.map(|value| value.to_json()).transpose()?,
        };
        let file_name = file_name.unwrap_or_default();
        let path = Path::new(&file_name);
        let is_inside = path.components().all(|c| matches!(c, Component::Normal(_)));
        if file_name.is_empty()
            || file_name.ends_with('/')
            || file_name.contains(['\\', '\0'])
            || !is_inside
        {
            let message =
                format!("`{}` is not a valid name of a file in the folder", file_name.escaped());
            return Err(records.in_record(FILE_NAME.broken(message), record.index()));
        }
        let is_text = matches!(kind, Kind::String);
        Ok(match is_text && path.extension().is_some() {
            true => file_name,
            false => format!("{file_name}.{}", extension(bytes)),
        })
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let failed = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                EXISTS.broken("a file of this name already exists")
            }
            _ => io(e, "writing"),
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = std::fs::OpenOptions::new();
        match self.overwrites {
            true => options.write(true).create(true).truncate(true),
            false => options.write(true).create_new(true),
        };
        options.open(path).and_then(|mut file| file.write_all(bytes)).map_err(failed)
    }
}

/// Returns the file extension for bytes, by their first bytes.
fn extension(bytes: &[u8]) -> &'static str {
    let is_riff = bytes.starts_with(b"RIFF");
    let of_riff = bytes.get(8..12).filter(|_| is_riff);
    let known: [(&[u8], &str); 16] = [
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"\xff\xd8\xff", "jpg"),
        (b"GIF8", "gif"),
        (b"BM", "bmp"),
        (b"II*\0", "tif"),
        (b"MM\0*", "tif"),
        (b"%PDF-", "pdf"),
        (b"fLaC", "flac"),
        (b"OggS", "ogg"),
        (b"ID3", "mp3"),
        (b"PK\x03\x04", "zip"),
        (b"\x1f\x8b", "gz"),
        (b"\x93NUMPY", "npy"),
        (b"<svg", "svg"),
        (b"P5", "pgm"),
        (b"P6", "ppm"),
    ];
    match (of_riff, known.iter().find(|(start, _)| bytes.starts_with(start))) {
        (Some(b"WEBP"), _) => "webp",
        (Some(b"WAVE"), _) => "wav",
        (_, Some((_, extension))) => extension,
        _ => match std::str::from_utf8(bytes) {
            Ok(text) if !text.chars().any(|c| c.is_control() && !c.is_whitespace()) => "txt",
            _ => "bin",
        },
    }
}
