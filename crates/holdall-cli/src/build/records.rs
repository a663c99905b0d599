//! Records into a dataset.

use super::BuildArgs;
use crate::exit::Failure;
use crate::given::{self, Columns, FileMembers, Form, Rows, at_line};
use crate::input;
use crate::schema::read::Named;
use crate::session::Session;
use holdall::Result;
use holdall::records::DatasetWriter;
use holdall_schema::record::{Null, Unknown};
use holdall_schema::{Checker, Encoder, SchemaLimits, TypeId, json};
use serde_json::Value;
use std::path::Path;

/// Puts the records of a file into a dataset.
pub(super) fn fill(
    session: &Session,
    args: &BuildArgs,
    mut dataset: DatasetWriter,
    kind: &Named,
    path: &Path,
    limits: &SchemaLimits,
) -> std::result::Result<DatasetWriter, Failure> {
    let work = session.work("reading");
    let name = input::shown(path);
    let is_plain =
        args.files.members.is_empty() && !(args.ignore_unknown || args.null_absent || args.check);
    if is_plain && args.form.unwrap_or_else(|| Form::of(path)) == Form::Ndjson {
        // On all cores.
        dataset.lines(given::reader(path, &work)?)?;
        return Ok(dataset);
    }
    let Some(ty) = kind.schema.record() else { return Ok(dataset) };
    let mut way = Way::new(args, kind, ty, limits)?;
    match given::open(session, path, args.form, &work)? {
        Rows::Json(mut texts) => {
            while let Some((line, text)) = texts.next()? {
                let added = match is_plain {
                    true => dataset.text(text),
                    false => json::parse(text, limits.depth)
                        .and_then(|value| way.put(&mut dataset, value)),
                };
                added.map_err(|e| at_line(e, line, &name))?;
            }
        }
        Rows::Table(mut table) => {
            let names = table.names().to_vec();
            let columns = Columns::new(&names, &kind.schema, ty, way.unknown, limits.depth);
            let columns = columns.map_err(|e| at_line(e, 1, &name))?;
            while let Some((line, row)) = table.next()? {
                let value = columns.value(&names, row);
                let added = value.and_then(|value| match is_plain {
                    true => dataset.value(&value),
                    false => way.put(&mut dataset, value),
                });
                added.map_err(|e| at_line(e, line, &name))?;
            }
        }
    }
    Ok(dataset)
}

/// The long way of a record: files, checks, what a schema does not say.
struct Way<'w> {
    kind: &'w Named,
    ty: TypeId,
    limits: &'w SchemaLimits,
    unknown: Unknown,
    encoder: Encoder<'w>,
    checker: Option<Checker<'w>>,
    members: Option<FileMembers>,
    record: Vec<u8>,
    heap: Vec<u8>,
}

impl<'w> Way<'w> {
    fn new(
        args: &BuildArgs,
        kind: &'w Named,
        ty: TypeId,
        limits: &'w SchemaLimits,
    ) -> Result<Way<'w>> {
        let own = |e: holdall::Error| e.in_source(&kind.source);
        let unknown = if args.ignore_unknown { Unknown::Ignore } else { Unknown::Refuse };
        let null = if args.null_absent { Null::Absent } else { Null::Value };
        let encoder = Encoder::new(&kind.schema, ty, limits).map_err(own)?;
        let encoder = encoder.with_unknown(unknown).with_null(null);
        let checker = match args.check {
            true => Some(Checker::new(&kind.schema, &kind.json, limits).map_err(own)?),
            false => None,
        };
        let members = args.files.members(&kind.schema, ty).map_err(own)?;
        let record = vec![0; encoder.size()];
        let heap = Vec::new();
        Ok(Way { kind, ty, limits, unknown, encoder, checker, members, record, heap })
    }

    fn put(&mut self, dataset: &mut DatasetWriter, mut value: Value) -> Result<()> {
        let schema = &self.kind.schema;
        let files = match &self.members {
            Some(members) => members.take(schema, self.ty, &mut value)?,
            None => Vec::new(),
        };
        self.heap.clear();
        self.encoder.value(&value, &mut self.record, &mut self.heap)?;
        if let Some(checker) = &self.checker {
            let value = schema.record_value(self.ty, &self.record, &self.heap, self.limits)?;
            checker.one_record(value)?;
        }
        if let Some(members) = &self.members {
            members.put(files, &mut self.record, &mut self.heap);
        }
        dataset.raw(&self.record, &self.heap)
    }
}
