//! Every path of a schema or a file, with its place.

use super::read::{self, Named, is_fixed};
use super::show;
use holdall::{File, Result};
use holdall_schema::{
    Additional, Dim, Kind, Node, NodeId, Path, Presence, PresenceBit, Root, Schema, SchemaLimits,
    Segment, Symbols, TensorType, TypeId, rules,
};

/// One path.
pub(super) struct Row {
    pub(super) path: Path,
    /// What stands there, in a few words.
    pub(super) kind: String,
    /// Bytes from the start of the record, or of the element in the heap.
    pub(super) offset: Option<u64>,
    /// Bytes of one value, where they are known.
    pub(super) size: Option<u64>,
    pub(super) stride: Option<u64>,
    pub(super) align: Option<u32>,
    /// Whether it must be there, and what says so.
    pub(super) there: There,
    pub(super) place: Place,
}

/// Whether a value is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum There {
    Always,
    /// A member of an object of references that may be absent.
    Optional,
    /// A member of a record that is there where this bit is 1.
    Bit(PresenceBit),
}

/// What offsets count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It is a reference, or plain JSON in the header: it has no offset.
    Header,
    /// The start of the record.
    Record,
    /// The start of an element of a variable array, in the heap.
    Heap,
}

/// Gathers rows.
pub(super) struct Walk<'w> {
    pub(super) symbols: &'w Symbols,
    pub(super) limits: &'w SchemaLimits,
    /// Only what lies at this path or below.
    pub(super) only: Option<&'w Path>,
    pub(super) rows: Vec<Row>,
    /// Paths touched.
    touched: u64,
    /// Steps of the paths that are kept.
    steps: u64,
}

/// Steps that paths may have on average where there are as many as may be.
const STEPS: u64 = 8;

impl<'w> Walk<'w> {
    pub(super) fn new(
        symbols: &'w Symbols,
        limits: &'w SchemaLimits,
        only: Option<&'w Path>,
    ) -> Walk<'w> {
        Walk { symbols, limits, only, rows: Vec::new(), touched: 0, steps: 0 }
    }

    /// The paths of a schema.
    pub(super) fn schema(&mut self, schema: &Schema) -> Result<()> {
        match schema.root() {
            Root::Record(ty) => self.record(schema, ty, &Path::root(), Place::Record),
            Root::References(node) => self.node(schema, node, &Path::root(), There::Always),
        }
    }

    /// The paths of a file: its tensors, and the records in them.
    pub(super) fn file(&mut self, file: &File) -> Result<()> {
        for tensor in file.tensors() {
            // A name that is no path is one step.
            let path = tensor.name().parse();
            let path = path.unwrap_or_else(|_| Path(vec![Segment::Name(tensor.name().into())]));
            let kind = read::of_tensor(&tensor)?;
            let shape = tensor.shape();
            let text = match &kind {
                Some(Named { schema, .. }) => match schema.root() {
                    Root::Record(ty) => {
                        format!("{} {shape:?}", show::ty(schema, ty, self.symbols))
                    }
                    Root::References(node) => match schema.node(node) {
                        Node::Blob { content, .. } => format!("Blob {content} {shape:?}"),
                        _ => format!("{} {shape:?}", tensor.layout().as_str()),
                    },
                },
                None => format!("{} {shape:?}", crate::output::text::tensor_type(tensor.info())),
            };
            let mut size = Some(0u64);
            for component in tensor.components() {
                size = size.zip(component.decoded_len).and_then(|(a, b)| a.checked_add(b));
            }
            let row = header_row(path.clone(), text, size, None, There::Always);
            self.push(row)?;
            if let Some(Named { schema, .. }) = &kind
                && let Root::Record(ty) = schema.root()
            {
                self.record(schema, ty, &path.then(Segment::Each), Place::Record)?;
            }
        }
        Ok(())
    }

    fn node(&mut self, schema: &Schema, id: NodeId, path: &Path, there: There) -> Result<()> {
        let row = |kind, size, align| header_row(path.clone(), kind, size, align, there);
        match schema.node(id) {
            Node::Flat { tensor, align } => {
                let natural = tensor.dtype.map(|d| d.align());
                let size = self.tensor_size(tensor);
                self.push(row(show::tensor(tensor, self.symbols), size, align.or(natural)))
            }
            Node::Dataset { items, len, align, .. } => {
                let kind = show::ty(schema, *items, self.symbols);
                let kind = format!("{kind} {len}");
                self.push(row(kind, None, Some(*align)))?;
                self.record(schema, *items, &path.then(Segment::Each), Place::Record)
            }
            Node::Blob { content, .. } => self.push(row(format!("Blob {content}"), None, Some(8))),
            Node::Plain { .. } => self.push(row("JSON".to_owned(), None, None)),
            // The depth of a schema bounds the recursion.
            Node::List { items, .. } => {
                self.touch()?;
                self.node(schema, *items, &path.then(Segment::Each), There::Always)
            }
            Node::Object(object) => {
                self.touch()?;
                for property in &object.properties {
                    let there = match property.presence {
                        Presence::Required => There::Always,
                        Presence::Optional => There::Optional,
                    };
                    let path = path.then(Segment::Name(property.name.clone()));
                    self.node(schema, property.node, &path, there)?;
                }
                if let Additional::Node(node) = object.additional {
                    self.node(schema, node, &path.then(Segment::Each), There::Optional)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The paths of a record at `base`, and of what its variable arrays have in the heap.
    fn record(&mut self, schema: &Schema, ty: TypeId, base: &Path, place: Place) -> Result<()> {
        let mut types: Vec<TypeId> = Vec::new();
        for item in schema.layout(ty, self.limits)? {
            let item = item?;
            types.truncate(item.path.0.len());
            types.push(item.ty);
            let mut path = base.clone();
            path.0.extend(item.path.0.iter().cloned());
            let shift = match place {
                Place::Record => self.shift(schema, &types, base, &path)?,
                _ => 0,
            };
            self.push(Row {
                kind: show::ty(schema, item.ty, self.symbols),
                offset: Some(item.range.start.saturating_add(shift)),
                size: Some(item.range.end.saturating_sub(item.range.start)),
                stride: Some(item.stride),
                align: Some(item.align),
                there: item.presence.map_or(There::Always, |bit| {
                    There::Bit(PresenceBit { byte: bit.byte.saturating_add(shift), ..bit })
                }),
                place,
                path: path.clone(),
            })?;
            if let Kind::Array(array) = &schema.ty(item.ty).kind
                && !is_fixed(array.len)
            {
                self.record(schema, array.items, &path.then(Segment::Each), Place::Heap)?;
            }
        }
        Ok(())
    }

    /// Bytes from the first elements of arrays to those that `only` names, on the way to `path`.
    fn shift(&self, schema: &Schema, types: &[TypeId], base: &Path, path: &Path) -> Result<u64> {
        let Some(only) = self.only else { return Ok(0) };
        let mut bytes = 0u64;
        for (step, (wanted, found)) in only.0.iter().zip(&path.0).enumerate() {
            match (wanted, found) {
                (Segment::Index(at), Segment::Each) => {
                    let Some(step) = step.checked_sub(base.0.len()) else { continue };
                    let Some(Kind::Array(array)) = types.get(step).map(|t| &schema.ty(*t).kind)
                    else {
                        continue;
                    };
                    if let holdall_schema::Len::Fixed(len) = array.len
                        && *at >= len
                    {
                        let message = format!("`{only}` goes to element {at} of an array of {len}");
                        return Err(rules::UNKNOWN_PATH.broken(message));
                    }
                    let stride = schema.extent(array.items)?.stride;
                    bytes = bytes.saturating_add(at.saturating_mul(stride));
                }
                (a, b) if a == b => {}
                _ => break,
            }
        }
        Ok(bytes)
    }

    fn tensor_size(&self, tensor: &TensorType) -> Option<u64> {
        let mut bits = tensor.dtype?.bits();
        for dim in tensor.shape.as_ref()? {
            let n = match dim {
                Dim::Known(n) => *n,
                Dim::Symbol(name) => *self.symbols.get(name)?,
                Dim::Any => return None,
            };
            bits = bits.checked_mul(n)?;
        }
        Some(bits.div_ceil(8))
    }

    fn touch(&mut self) -> Result<()> {
        self.touched += 1;
        if self.touched > self.limits.nodes {
            let message = format!("there are more than {} paths", self.limits.nodes);
            return Err(rules::TOO_LARGE.broken(message));
        }
        Ok(())
    }

    fn push(&mut self, row: Row) -> Result<()> {
        self.touch()?;
        if self.only.is_none_or(|only| is_within(only, &row.path)) {
            self.steps += row.path.0.len() as u64;
            let most = self.limits.nodes.saturating_mul(STEPS);
            if self.steps > most {
                let message = format!("the paths have more than {most} steps together");
                return Err(rules::TOO_LARGE.broken(message));
            }
            self.rows.push(row);
        }
        Ok(())
    }
}

/// Whether `path` is that path, or lies below it; an index stands for any element.
fn is_within(only: &Path, path: &Path) -> bool {
    let same = |(wanted, found): (&Segment, &Segment)| {
        wanted == found || matches!((wanted, found), (Segment::Index(_), Segment::Each))
    };
    only.0.len() <= path.0.len() && only.0.iter().zip(&path.0).all(same)
}

fn header_row(
    path: Path,
    kind: String,
    size: Option<u64>,
    align: Option<u32>,
    there: There,
) -> Row {
    Row { path, kind, offset: None, size, stride: None, align, there, place: Place::Header }
}
