//! Printing the runs of a blob.

use super::RecordsArgs;
use super::write::Output;
use crate::exit::{ARGUMENTS, Failure, Status};
use crate::output::as_json;
use crate::output::text::count;
use crate::session::Session;
use crate::tables::{self, Columns};
use holdall::plain::Plain;
use holdall::schema::{Content, Schema, SchemaLimits, Symbols, TensorDType};
use holdall::{Blob, Result};
use serde_json::{Value, json};

/// Prints the runs.
pub(super) fn run(session: &Session, args: &RecordsArgs, blob: &Blob) -> Result<Status, Failure> {
    let members = [&args.columns, &args.conditions, &args.sort, &args.group];
    if members.iter().any(|given| !given.is_empty()) || args.files.is_some() {
        let e = ARGUMENTS.broken(
            "`--columns`, `--where`, `--sort`, `--group` and `--files` require members, which a blob does not have",
        );
        return Err(e.in_tensor(blob.tensor().name()).into());
    }
    if args.count {
        let indices = blob.indices(args.range(blob.len()), args.sample())?;
        return super::counted(session, indices.count() as u64);
    }
    if let Some((form, out)) = args.columns_file() {
        if args.sample().is_some() {
            let e = ARGUMENTS
                .broken("for a blob, `--parquet` and `--arrow` cannot be combined with `--sample`");
            return Err(e.in_tensor(blob.tensor().name()).into());
        }
        let runs = Columns::Blob(blob, args.range(blob.len()));
        return tables::write(session, runs, form, out, args.force);
    }
    let whole = args.is_whole(blob.len());
    let mut output = Output::new(session, args, &["value".to_owned()], whole);
    let indices = blob.indices(args.range(blob.len()), args.sample())?;
    let elements = match blob.content() {
        Content::Elements(dtype) => Some(Elements::new(dtype)?),
        _ => None,
    };
    if whole && output.is_json() {
        blob.compare()?;
    }
    for index in indices {
        if output.is_full() {
            output.more = true;
            break;
        }
        let text = match (blob.content(), &elements) {
            (Content::Utf8, _) => as_json(&Plain::from(&*blob.str(index)?)),
            (Content::Json, _) => blob.json(index)?.to_string(),
            (_, Some(elements)) => elements.json(&blob.get(index)?)?,
            (_, None) => {
                use data_encoding::BASE64;
                as_json(&Plain::from(BASE64.encode(&blob.get(index)?)))
            }
        };
        match output.is_json() {
            true => output.line(session, &text)?,
            false => output.values(session, index, vec![Some(text)])?,
        }
    }
    output.finish(session, &count(blob.len(), "entry"))
}

/// Runs whose elements have a numeric type.
struct Elements {
    /// The schema of a tensor of `n` elements.
    schema: Schema,
    width: u64,
    limits: SchemaLimits,
}

impl Elements {
    fn new(dtype: TensorDType) -> Result<Elements> {
        let limits = SchemaLimits::default();
        let tensor = json!({"TypeDef:Tensor": {"dtype": dtype.as_str(), "shape": ["n"]}});
        let schema = Schema::compile_record(&tensor, &limits)?;
        Ok(Elements { schema, width: (dtype.bits() / 8).max(1), limits })
    }

    /// Formats the elements of a run as a JSON array.
    fn json(&self, bytes: &[u8]) -> Result<String> {
        let n = bytes.len() as u64 / self.width;
        let schema = self.schema.bind(&Symbols::from([("n".into(), n)]))?;
        let Some(ty) = schema.record() else { return Ok("[]".to_owned()) };
        let value = schema.record_value(ty, bytes, &[], &self.limits)?;
        Ok(value.get("data").unwrap_or(&Value::Null).to_string())
    }
}
