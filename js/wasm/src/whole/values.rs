//! The subschemas for plain values of a header.

use crate::Answer;
use crate::json::{CALL, Object, list};
use holdall_core::Error;
use holdall_json::parse;
use holdall_schema::{Document, Node, Path, Reading, Root, SchemaLimits};

/// Returns the subschemas for a file's plain values. The input is a JSON list of their paths, of
/// `len` bytes, and the schema. The answer has the `parts`, `null` for a path at which the schema
/// has no plain value, and the schema's `$defs`, which they refer to.
pub(crate) fn schemas(input: &[u8], len: usize, limits: &SchemaLimits) -> Result<Answer, Error> {
    let parts = input.split_at_checked(len);
    let (paths, text) = parts.ok_or_else(|| CALL.broken("a part is longer than the input"))?;
    let paths = parse(paths, limits.depth)?;
    let document = Document::parse(text, "the schema", Reading::File, limits)
        .map_err(Error::without_location)?;
    let part = |path: &str| {
        let Root::References(root) = document.schema.root() else { return None };
        let path: Path = path.parse().ok()?;
        match document.schema.node(document.schema.follow(root, &path)?) {
            Node::Plain { pointer, .. } => document.json.pointer(pointer),
            _ => None,
        }
    };
    let found = paths.as_array().into_iter().flatten().map(|path| path.as_str().and_then(part));
    let answer = Object::new()
        .with("parts", |out| {
            list(found, out, |part, out| match part {
                Some(part) => out.push_str(&part.to_string()),
                None => out.push_str("null"),
            });
        })
        .with("$defs", |out| match document.json.get("$defs") {
            Some(defs) => out.push_str(&defs.to_string()),
            None => out.push_str("{}"),
        });
    Ok(Answer::text(answer.finish()))
}
