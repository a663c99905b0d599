//! Records in lines, arrays and tables against a schema.

use super::{CheckArgs, Place, Report};
use crate::exit::Failure;
use crate::given::{self, Columns, FileMembers, Rows, at_line};
use crate::input;
use crate::schema::read::Named;
use crate::session::Session;
use holdall::Error;
use holdall_schema::record::{Null, Unknown};
use holdall_schema::{Checker, Encoder, SchemaLimits, TypeId, json};
use serde_json::Value;
use std::path::Path;

/// Checks the records of a file.
pub(super) fn check(
    session: &Session,
    args: &CheckArgs,
    path: &Path,
    named: &Named,
    limits: &SchemaLimits,
    report: &mut Report,
) -> Result<(), Failure> {
    let Some(ty) = named.schema.record() else { return Ok(()) };
    let work = session.work("checking");
    let name = input::shown(path);
    let unknown = if args.ignore_unknown { Unknown::Ignore } else { Unknown::Refuse };
    let null = if args.null_absent { Null::Absent } else { Null::Value };
    let own = |e: Error| e.in_source(&named.source);
    let mut one = One::new(named, ty, limits, (unknown, null)).map_err(own)?;
    one.members = args.files.members(&named.schema, ty).map_err(own)?;
    match given::open(session, path, args.form, &work)? {
        Rows::Json(mut texts) => {
            while let Some((line, text)) = texts.next()? {
                report.records += 1;
                if let Err(e) = one.text(text) {
                    report.add(Place::Line(line), at_line(e, line, &name));
                }
            }
        }
        Rows::Table(mut table) => {
            let names = table.names().to_vec();
            let columns = Columns::new(&names, &named.schema, ty, unknown, limits.depth);
            let columns = columns.map_err(|e| at_line(e, 1, &name))?;
            while let Some((line, row)) = table.next()? {
                report.records += 1;
                let value = columns.value(&names, row);
                if let Err(e) = value.and_then(|value| one.value(value)) {
                    report.add(Place::Line(line), at_line(e, line, &name));
                }
            }
        }
    }
    Ok(())
}

/// Tries records.
struct One<'s> {
    named: &'s Named,
    ty: TypeId,
    limits: &'s SchemaLimits,
    checker: Checker<'s>,
    /// Where more is taken than a schema says: what writes it as the schema does say.
    lenient: Option<Encoder<'s>>,
    record: Vec<u8>,
    heap: Vec<u8>,
    members: Option<FileMembers>,
}

impl One<'_> {
    fn new<'s>(
        named: &'s Named,
        ty: TypeId,
        limits: &'s SchemaLimits,
        (unknown, null): (Unknown, Null),
    ) -> holdall::Result<One<'s>> {
        let checker = Checker::new(&named.schema, &named.json, limits)?;
        let mut one = One {
            named,
            ty,
            limits,
            checker,
            lenient: None,
            record: Vec::new(),
            heap: Vec::new(),
            members: None,
        };
        if unknown == Unknown::Ignore || null == Null::Absent {
            let encoder = Encoder::new(&named.schema, ty, limits)?;
            let encoder = encoder.with_unknown(unknown).with_null(null);
            let size = encoder.size();
            if size as u64 > limits.decoded_len {
                let rule = &holdall_schema::record::rules::TOO_LARGE;
                let most = limits.decoded_len;
                return Err(rule.broken(format!("a record of {size} bytes, over {most}")));
            }
            one.record = vec![0; size];
            one.lenient = Some(encoder);
        }
        Ok(one)
    }

    fn text(&mut self, text: &[u8]) -> holdall::Result<()> {
        self.value(json::parse(text, self.limits.depth)?)
    }

    fn value(&mut self, mut value: Value) -> holdall::Result<()> {
        if let Some(members) = &self.members {
            members.take(&self.named.schema, self.ty, &mut value)?;
        }
        let Some(encoder) = &mut self.lenient else { return self.checker.one_record(value) };
        self.heap.clear();
        encoder.value(&value, &mut self.record, &mut self.heap)?;
        let schema = &self.named.schema;
        let value = schema.record_value(self.ty, &self.record, &self.heap, self.limits)?;
        self.checker.one_record(value)
    }
}
