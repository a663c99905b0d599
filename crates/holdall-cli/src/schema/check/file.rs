//! A tensor file against a schema: its header, and the records in it.

use super::{CheckArgs, Place, Report};
use crate::exit::{ARGUMENTS, Failure};
use crate::schema::read::{Named, only_dataset};
use crate::session::Session;
use holdall::{EncodeOptions, Error, File, Records, TensorSpec, Value, formats};
use holdall_schema::{Checker, Root, SCHEMA_ATTRIBUTE, SchemaLimits};

/// Checks the tensors of a file and the values of its records.
pub(super) fn check(
    session: &Session,
    args: &CheckArgs,
    file: &File,
    named: &Named,
    limits: &SchemaLimits,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut datasets = Vec::new();
    match named.schema.root() {
        Root::Record(_) => {
            let tensor = only_dataset(file, args.path.as_deref())?;
            datasets.push((tensor.records()?, named.clone()));
        }
        Root::References(_) => {
            report.tensors = Some(file.len() as u64);
            if let Err(e) = header(file, named)? {
                report.add(Place::Whole, e.in_source(file.name()));
            }
            let wanted = |name: &str| args.path.as_deref().is_none_or(|path| path == name);
            for tensor in file.tensors().filter(|t| t.layout().as_str() == "records") {
                // Where the schema has no place for it, the header does not fit.
                if let (true, Ok((_, kind))) =
                    (wanted(tensor.name()), named.dataset(Some(tensor.name()), limits))
                {
                    datasets.push((tensor.records()?, kind));
                }
            }
        }
    }
    let work = session.work("checking");
    let len = |(r, _): &(Records, Named)| r.len().saturating_mul(r.extent().stride);
    work.begin(datasets.iter().map(len).sum());
    for (records, kind) in &datasets {
        let checker = Checker::new(&kind.schema, &kind.json, limits);
        let checker = checker.map_err(|e| e.in_source(&kind.source))?;
        let name = records.tensor().name();
        for record in records.iter(0..records.len())? {
            let record = record?;
            report.records += 1;
            let found = record.to_value().and_then(|value| {
                let place = |e: Error| {
                    let message = format!("record {}: {}", record.index(), e.message());
                    e.rule().broken(message)
                };
                checker.one_record(value).map_err(place)
            });
            if let Err(e) = found {
                let e = e.in_tensor(name).in_source(file.name());
                report.add(Place::Record(record.index()), e);
            }
            work.advance(records.extent().stride)?;
        }
    }
    Ok(())
}

/// Whether the tensors of a file could stand under that schema, asked of what would write them so.
fn header(file: &File, named: &Named) -> Result<Result<(), Error>, Failure> {
    let Some(encode) = formats::by_name("metatensor").and_then(|format| format.encode) else {
        return Err(ARGUMENTS.broken("this build has no Metatensor").into());
    };
    let mut specs = Vec::new();
    for tensor in file.tensors() {
        let Some(spec) = TensorSpec::of(tensor.info()) else {
            let e = ARGUMENTS.broken("only decoding it says how long it is");
            return Err(e.in_tensor(tensor.name()).in_source(file.name()).into());
        };
        specs.push(spec);
    }
    let mut attributes = file.attributes().clone();
    attributes.set(SCHEMA_ATTRIBUTE, Value::Text(named.json.to_string()));
    let mut encoder = encode(&EncodeOptions::new())?;
    let fits = specs
        .iter()
        .try_for_each(|spec| encoder.check_tensor(spec))
        .and_then(|()| encoder.check_attributes(&attributes))
        .and_then(|()| encoder.begin(&attributes, &specs).map(|_| ()));
    Ok(fits)
}
