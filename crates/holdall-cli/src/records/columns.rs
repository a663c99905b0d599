//! Members as columns.

use holdall::records::Record;
use holdall::schema::json::Reader;
use holdall::schema::{Accessor, Kind, Path, Schema, SchemaLimits, Segment, TypeId};
use holdall::{Records, Result};

/// The members that are shown.
pub(super) struct Columns {
    /// Their paths.
    pub(super) titles: Vec<String>,
    parts: Vec<(Path, Accessor)>,
    /// Whether members were asked for, rather than all there are.
    pub(super) asked: bool,
    limits: SchemaLimits,
}

impl Columns {
    /// The columns of these paths; without any, every member up to `most`, structs taken apart.
    ///
    /// # Errors
    /// `schema/path`, `schema/unknown-path`.
    pub(super) fn new(records: &Records, paths: &[String], most: usize) -> Result<Columns> {
        let limits = records.limits().clone();
        let asked = !paths.is_empty();
        let mut found = Vec::new();
        if asked {
            for path in paths {
                found.push(path.trim().parse::<Path>()?);
            }
        } else {
            leaves(records.schema(), records.ty(), &Path::root(), most, &mut found);
        }
        let part = |path: Path| Ok((path.clone(), records.accessor(&path.to_string())?));
        let parts = found.into_iter().map(part).collect::<Result<Vec<_>>>()?;
        let titles = parts.iter().map(|(path, _)| path.to_string()).collect();
        Ok(Columns { titles, parts, asked, limits })
    }

    /// The JSON of each column; `None` where it is not there.
    pub(super) fn values(&self, record: &Record<'_>) -> Result<Vec<Option<String>>> {
        let records = record.records();
        let schema = records.schema();
        let mut out = Vec::with_capacity(self.parts.len());
        let Some(heap) = records.heap() else {
            let whole = record.to_json()?;
            for (path, part) in &self.parts {
                let found = match record.is_there(part)? {
                    true => follow(schema, records.ty(), &whole, path, usize::MAX)?,
                    false => None,
                };
                out.push(found.map(str::to_owned));
            }
            return Ok(out);
        };
        for (_, part) in &self.parts {
            let text = match record.raw(part)? {
                None => None,
                Some(bytes) => {
                    let mut text = String::new();
                    schema.record_text(part.ty(), bytes, heap, &self.limits, &mut text).map_err(
                        |e| e.rule().broken(format!("record {}: {}", record.index(), e.message())),
                    )?;
                    Some(text)
                }
            };
            out.push(text);
        }
        Ok(out)
    }
}

/// The members of a record that are no structs.
fn leaves(schema: &Schema, ty: TypeId, path: &Path, most: usize, out: &mut Vec<Path>) {
    match &schema.ty(ty).kind {
        Kind::Struct(fields) => {
            for member in &fields.members {
                if out.len() >= most {
                    return;
                }
                let path = path.then(Segment::Name(member.name.clone()));
                // The height of a schema bounds the recursion.
                leaves(schema, member.ty, &path, most, out);
            }
        }
        _ => out.push(path.clone()),
    }
}

/// The part of a record's JSON at a path that it has.
fn follow<'t>(
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
                let Some(member) = fields.place(name).and_then(|p| fields.members.get(p)) else {
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
            // The object of a union is that of its variant.
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

/// The text of the value that comes next.
fn value<'t>(reader: &mut Reader<'t>) -> Result<&'t str> {
    reader.peek()?;
    let start = reader.offset();
    reader.skip()?;
    Ok(reader.text_from(start))
}
