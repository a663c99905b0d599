//! Members as columns.

use crate::{Record, Records};
use holdall_core::error::Escape as _;
use holdall_core::{Error, Remedy, Result};
use holdall_io::select::nearest;
use holdall_json::Reader;
use holdall_schema::rules::UNKNOWN_PATH;
use holdall_schema::{Accessor, Kind, Path, Schema, Segment, TypeId};

/// Chosen members of the records of one dataset: see [`Records::columns`].
#[derive(Debug, Clone)]
pub struct Columns {
    names: Vec<String>,
    parts: Vec<Accessor>,
}

impl Columns {
    pub(super) fn new(records: &Records, paths: &[impl AsRef<str>]) -> Result<Columns> {
        let paths = paths.iter().map(|path| path.as_ref().trim().parse());
        Columns::at(records, paths.collect::<Result<_>>()?)
    }

    pub(super) fn all(records: &Records, most: usize) -> Result<Columns> {
        let mut paths = Vec::new();
        leaves(records.schema(), records.ty(), &Path::root(), most, &mut paths);
        Columns::at(records, paths)
    }

    fn at(records: &Records, paths: Vec<Path>) -> Result<Columns> {
        let names = paths.iter().map(Path::to_string).collect();
        let part = |path: &Path| records.accessor(&path.to_string());
        let parts = paths.iter().map(part).collect::<Result<_>>()?;
        Ok(Columns { names, parts })
    }

    /// Returns the paths of the members, as the caller gave them.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the accessors of the members.
    pub fn parts(&self) -> impl Iterator<Item = &Accessor> {
        self.parts.iter()
    }

    /// Returns the JSON text of each member, or `None` for a member that the record does not have.
    ///
    /// # Errors
    /// Returns the same errors as [`Record::to_json`].
    pub fn values(&self, record: &Record<'_>) -> Result<Vec<Option<String>>> {
        let text = |part| record.part(part)?.map(|part| part.to_json()).transpose();
        self.parts.iter().map(text).collect()
    }
}

/// Adds a hint to an error about an unknown member: the most similar member, or a list of the existing ones.
#[cold]
pub(crate) fn or_like_member(e: Error, schema: &Schema, ty: TypeId, given: &str) -> Error {
    if e.code() != UNKNOWN_PATH.code || !e.remedies().is_empty() || e.hint().is_some() {
        return e;
    }
    let mut paths = Vec::new();
    leaves(schema, ty, &Path::root(), LOOKED_AT, &mut paths);
    let names: Vec<String> = paths.iter().map(Path::to_string).collect();
    if let Some(near) = nearest(given, names.iter().map(String::as_str)) {
        return e.with_remedy(Remedy::did_you_mean(near));
    }
    let listed: Vec<_> =
        names.iter().take(LISTED).map(|name| format!("`{}`", name.escaped())).collect();
    let more = if names.len() > LISTED { ", …" } else { "" };
    match listed.is_empty() {
        true => e,
        false => e.with_hint(format!("available: {}{more}", listed.join(", "))),
    }
}

/// Number of members that are compared with an unknown one, and number of members that are listed.
const LOOKED_AT: usize = 1000;
const LISTED: usize = 12;

/// Collects the paths of a record's members that are not structs.
fn leaves(schema: &Schema, ty: TypeId, path: &Path, most: usize, out: &mut Vec<Path>) {
    match &schema.ty(ty).kind {
        Kind::Struct(fields) => {
            for member in &fields.members {
                if out.len() >= most {
                    return;
                }
                let path = path.then(Segment::Name(member.name.clone()));
                // The recursion is bounded by the depth of the schema.
                leaves(schema, member.ty, &path, most, out);
            }
        }
        _ => out.push(path.clone()),
    }
}

/// Returns the part of a record's JSON at a path, or `None` if the record does not have it.
pub(super) fn json_at<'t>(
    schema: &Schema,
    ty: TypeId,
    whole: &'t str,
    path: &Path,
    depth: usize,
) -> Result<Option<&'t str>> {
    let (mut ty, mut at) = (ty, whole);
    for segment in &path.0 {
        let mut reader = Reader::new(at.as_bytes(), 0, depth)?;
        match (&schema.ty(ty).kind, segment) {
            (Kind::Struct(fields), Segment::Name(name)) => {
                let Some(member) = fields.index_of(name).and_then(|p| fields.members.get(p)) else {
                    return Ok(None);
                };
                let mut scratch = String::new();
                reader.begin_object()?;
                loop {
                    match reader.next_key(&mut scratch)? {
                        None => return Ok(None),
                        Some(key) if *key == **name => break,
                        Some(_) => reader.skip()?,
                    }
                }
                (at, ty) = (value(&mut reader)?, member.ty);
            }
            // The JSON object of a union is that of its variant.
            (Kind::Union(union), Segment::Name(key)) => {
                let variant = union.tag(key).and_then(|tag| union.variants.get(tag));
                let Some(variant) = variant else { return Ok(None) };
                ty = variant.ty;
            }
            (Kind::Array(array), Segment::Index(index)) => {
                reader.begin_array()?;
                for _ in 0..*index {
                    if !reader.next_item()? {
                        return Ok(None);
                    }
                    reader.skip()?;
                }
                if !reader.next_item()? {
                    return Ok(None);
                }
                (at, ty) = (value(&mut reader)?, array.items);
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// Returns the text of the next value.
fn value<'t>(reader: &mut Reader<'t>) -> Result<&'t str> {
    reader.peek()?;
    let start = reader.offset();
    reader.skip()?;
    Ok(reader.text_from(start))
}
