//! Lists every path of a schema or a file with its type and the position of its bytes.

use super::schemas::{SchemaOrFile, schema_of_tensor};
use holdall_core::{Layout, Result};
use holdall_io::{File, Tensor};
use holdall_schema::rules::{UNKNOWN_PATH, UNKNOWN_SYMBOL};
use holdall_schema::{
    Document, Extent, Node, Outline, OutlineRow, Path, Root, SchemaLimits, Segment, Symbols,
};

/// The paths of a schema or a file, with their types and positions.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SchemaLayout {
    /// One row for each path, in order.
    pub rows: Vec<OutlineRow>,
    /// The record as a whole, if this is the schema of a record.
    pub record: Option<RecordLayout>,
    /// The symbols in shapes of the schema, with the numbers that the caller gave for them.
    pub symbols: Vec<(String, Option<u64>)>,
}

/// A record as a whole.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordLayout {
    /// A short description of its type.
    pub kind: String,
    /// The size and alignment of a record, in bytes.
    pub extent: Extent,
    /// The alignment of its heap in bytes, if it has entries.
    pub heap_align: Option<u32>,
}

/// Lists the paths of a schema or a file. `only` limits the list to a path and the paths below it; if it contains an
/// index, the offsets are those of that element. `symbols` are the numbers for symbols in the schema's shapes; the
/// shapes of a file have no symbols.
///
/// # Errors
/// Returns `schema/unknown-path`, `schema/unknown-symbol`, `schema/too-large`; an error of the `schema/…` rules.
pub fn layout(
    source: &SchemaOrFile,
    only: Option<&Path>,
    symbols: &Symbols,
    limits: &SchemaLimits,
) -> Result<SchemaLayout> {
    let mut outline = Outline::new(symbols, limits, only);
    let found = match source {
        SchemaOrFile::Schema(schema) => add_schema(schema, &mut outline, symbols),
        SchemaOrFile::File(file) => add_file(file, &mut outline, symbols),
    };
    let own = |e: holdall_core::Error| e.in_source(source.name());
    let (record, symbols) = found.map_err(own)?;
    let rows = outline.into_rows();
    if let (true, Some(only)) = (rows.is_empty(), only) {
        return Err(own(UNKNOWN_PATH.broken(format!("the path `{only}` does not exist"))));
    }
    Ok(SchemaLayout { rows, record, symbols })
}

type Head = (Option<RecordLayout>, Vec<(String, Option<u64>)>);

fn add_schema(document: &Document, outline: &mut Outline<'_>, symbols: &Symbols) -> Result<Head> {
    let known = document.schema.symbols();
    if let Some(name) = symbols.keys().find(|name| !known.contains(name)) {
        let all: Vec<String> = known.iter().map(|s| format!("`{}`", s.escape_debug())).collect();
        let has = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        return Err(no_symbol(name, &format!("the schema has {has}")));
    }
    let schema = document.schema.bind(symbols)?;
    outline.schema(&schema)?;
    let record = match schema.root() {
        Root::Record(ty) => Some(RecordLayout {
            kind: outline.kind(&schema, ty),
            extent: schema.extent(ty)?,
            heap_align: schema.ty(ty).heap_align,
        }),
        Root::References(_) => None,
    };
    Ok((record, known.iter().map(|s| (s.to_string(), symbols.get(s).copied())).collect()))
}

fn add_file(file: &File, outline: &mut Outline<'_>, symbols: &Symbols) -> Result<Head> {
    if let Some(name) = symbols.keys().next() {
        return Err(no_symbol(name, "in a tensor file, all symbols already have numbers"));
    }
    for tensor in file.tensors() {
        // A name that is not a path becomes a path of one segment.
        let path = tensor.name().parse();
        let path = path.unwrap_or_else(|_| Path(vec![Segment::Name(tensor.name().into())]));
        let kind = schema_of_tensor(&tensor)?;
        let text = format!("{} {:?}", name(&tensor, kind.as_ref(), outline), tensor.shape());
        let mut size = Some(0u64);
        for component in tensor.components() {
            size = size.zip(component.decoded_len).and_then(|(a, b)| a.checked_add(b));
        }
        outline.header(path.clone(), text, size)?;
        if let Some(Document { schema, .. }) = &kind
            && let Root::Record(ty) = schema.root()
        {
            outline.records(schema, ty, &path)?;
        }
    }
    Ok((None, Vec::new()))
}

#[cold]
fn no_symbol(name: &str, has: &str) -> holdall_core::Error {
    UNKNOWN_SYMBOL.broken(format!("unknown symbol `{}`: {has}", name.escape_debug()))
}

/// Returns a tensor's type, without its shape.
fn name(tensor: &Tensor, kind: Option<&Document>, outline: &Outline<'_>) -> String {
    let Some(Document { schema, .. }) = kind else { return element_type(tensor) };
    match schema.root() {
        Root::Record(ty) => outline.kind(schema, ty),
        Root::References(node) => match schema.node(node) {
            Node::Blob { content, .. } => format!("Blob {content}"),
            _ => tensor.layout().as_str().to_owned(),
        },
    }
}

/// Returns the logical type of a tensor's elements if it has one, otherwise their dtype.
fn element_type(tensor: &Tensor) -> String {
    match (tensor.info().logical_type(), tensor.info().dtype()) {
        // Records and blobs without a kind have neither.
        _ if matches!(tensor.layout(), Layout::Records | Layout::Blob) => "-".to_owned(),
        (Some(logical), _) => logical.as_str().to_owned(),
        (None, Some(dtype)) => dtype.as_str().to_owned(),
        (None, None) => "-".to_owned(),
    }
}
