//! Decodes the header into an index.

use super::header::{self, Header};
use super::kind::Kinds;
use super::metadata::Metadata;
use super::rules::HEADER;
use super::walk::{Source, Walk};
use super::{SCHEMA_ATTRIBUTE, VALUES_ATTRIBUTE};
use holdall_collections::sort;
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{Index, IndexBuilder, Value};
use holdall_core::window::{Stop, Window};
use holdall_json::{Reader, parse_at, write_string};
use holdall_schema::{Root, Schema, Symbols, normalize};
use serde_json::Value as Json;
use std::ops::Range;

/// Decodes the index of the file in `window`.
pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let range = header::range(window, limits)?;
    let bytes = window.bytes(range.clone())?;
    Ok(decode_header(&bytes, range, window.len(), limits)?)
}

/// Decodes the index of a file of `source_len` bytes whose header lies at `range`.
pub(super) fn decode_header(
    bytes: &[u8],
    range: Range<u64>,
    source_len: u64,
    limits: &Limits,
) -> Result<Index> {
    let header = Header::read(bytes, range, limits)?;
    let metadata = Metadata::read(&header, limits)?;
    let text = header.text_of(&header.schema).as_bytes();
    let json = parse_at(text, header.schema.start, limits.depth)?;
    let json = normalize(json).map_err(|e| e.at(header.schema.clone()))?;
    let schema = Schema::compile(&json, &limits.schema_limits());
    let schema = schema.map_err(|e| e.at(header.schema.clone()))?;
    let file = File { header, json, source_len, limits };
    if schema.symbols().is_empty() {
        return file.read(&schema, Some(&Symbols::new()), metadata)?.1;
    }
    // The values of symbols may be known only after the references that depend on them.
    let (symbols, _) = file.read(&schema, None, metadata.clone())?;
    let bound = schema.bind(&symbols).map_err(|e| e.at(file.header.schema.clone()))?;
    file.read(&bound, Some(&symbols), metadata)?.1
}

struct File<'a> {
    header: Header<'a>,
    json: Json,
    source_len: u64,
    limits: &'a Limits,
}

impl File<'_> {
    /// Reads the tensors in one pass. Returns the values of symbols, and the index, which is final only if the symbols
    /// were known before and the schema was bound to them.
    fn read(
        &self,
        schema: &Schema,
        known: Option<&Symbols>,
        mut metadata: Metadata,
    ) -> Result<(Symbols, Result<Index>)> {
        let Root::References(root) = schema.root() else {
            return Err(HEADER.broken("the schema is that of a record"));
        };
        let (header, limits) = (&self.header, self.limits);
        // Bytes past the end of the file are detected when the ranges are checked, with a better message.
        let data = header.range.end..u64::MAX;
        let version = header.version.as_str();
        let builder = IndexBuilder::new("metatensor", version, self.source_len, data, limits);
        let none = Symbols::new();
        let text = header.text_of(&header.schema);
        let kinds = Kinds::new(&self.json, text, known.unwrap_or(&none), limits.header_len);
        let source = Source { len: self.source_len, data: header.range.end, limits };
        let mut walk = Walk::new(schema, &self.json, kinds, &mut metadata, source, builder);
        walk.symbols_are_known = known.is_some();
        let text = header.text_of(&header.tensors).as_bytes();
        let mut reader = Reader::new(text, header.tensors.start, limits.depth)?;
        walk.node(root, &mut reader)?;
        let Walk { symbols, builder, ranges, values, .. } = walk;
        let index = self.finish(builder, values, metadata).and_then(|index| {
            if !limits.salvage {
                ranges.check(header.range.end..self.source_len, &index)?;
            }
            Ok(index)
        });
        Ok((symbols, index))
    }

    fn finish(
        &self,
        mut builder: IndexBuilder,
        mut values: Vec<(String, String)>,
        metadata: Metadata,
    ) -> Result<Index> {
        let Metadata { mut attributes, tensor_attributes, names, is_inferred, odd } = metadata;
        for key in &self.header.unknown {
            builder.unrepresented(|| format!("the key `{}` of the header", key.escaped()));
        }
        if let Some(key) = self.header.unknown.first() {
            builder.warn("metatensor/unknown-key", None, None, || {
                format!("unknown key `{}` in the header, which is ignored", key.escaped()).into()
            });
        }
        let stray = |what: &str, names: Vec<&String>| {
            let first = names.into_iter().min()?;
            Some((what.to_owned(), format!("there is no tensor `{}`", first.escaped())))
        };
        let strays = [
            stray("holdall.tensor_attributes", tensor_attributes.keys().collect()),
            stray("holdall.names", names.keys().collect()),
        ];
        for (key, why) in odd.into_iter().chain(strays.into_iter().flatten()) {
            builder.warn("metatensor/restore", None, None, || {
                let key = key.escaped();
                format!("`{key}` in `metadata` is not in the form that Holdall writes: {why}")
                    .into()
            });
        }
        if !is_inferred {
            let schema = self.header.text_of(&self.header.schema);
            attributes.set(SCHEMA_ATTRIBUTE, Value::Text(schema.to_owned()));
        }
        if !values.is_empty() {
            // Sorted, so that files with the same values have the same text.
            sort(&mut values);
            attributes.set(VALUES_ATTRIBUTE, Value::Text(object(&values)));
        }
        builder.attributes(attributes);
        builder.finish()
    }
}

/// Returns the text of an object with these members.
fn object(members: &[(String, String)]) -> String {
    let mut out = String::from("{");
    for (at, (key, value)) in members.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_string(key, &mut out);
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
    out
}
