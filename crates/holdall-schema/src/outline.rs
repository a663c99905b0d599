//! Every path of a schema, with what stands there and where its bytes lie.

use crate::error::Result;
use crate::kinds::{Dim, Kind, Len, TensorType, TypeId};
use crate::layout::PresenceBit;
use crate::limits::SchemaLimits;
use crate::path::{Path, Segment};
use crate::rules;
use crate::schema::{AdditionalMembers, Node, NodeId, Presence, Root, Schema};
use crate::{Symbols, extent};

/// One path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineRow {
    /// Where it is.
    pub path: Path,
    /// What stands there, in a few words: `Int32`, `F32 [20, 5]`, `String []`, `Enum of 3`, `Blob utf-8`.
    pub kind: String,
    /// Bytes from where its base says.
    pub offset: Option<u64>,
    /// Bytes of one value, where they are known.
    pub size: Option<u64>,
    /// Bytes from one value to the next, in an array.
    pub stride: Option<u64>,
    /// Bytes of which its offset is a multiple.
    pub align: Option<u32>,
    /// Whether it must be there, and what says so.
    pub there: RowPresence,
    /// What the offset counts from.
    pub base: Base,
}

/// Whether a value is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowPresence {
    /// It must be there.
    Always,
    /// A member of an object of references that may be absent.
    Optional,
    /// A member of a record that is there where this bit is 1.
    Bit(PresenceBit),
}

/// What offsets count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// It is a reference, or plain JSON in the header: it has no offset.
    Header,
    /// The start of the record.
    Record,
    /// The start of an element of a variable array, in the heap.
    Heap,
}

/// The paths of schemas, gathered in order.
#[derive(Debug)]
pub struct Outline<'w> {
    symbols: &'w Symbols,
    limits: &'w SchemaLimits,
    only: Option<&'w Path>,
    rows: Vec<OutlineRow>,
    /// Paths touched.
    touched: u64,
    /// Steps of the paths that are kept.
    steps: u64,
}

/// Steps that paths may have on average where there are as many as may be.
const STEPS: u64 = 8;

impl<'w> Outline<'w> {
    /// No paths yet. `symbols` are numbers for the symbols in shapes; `only` keeps what lies at that path or
    /// below it, and an index in it moves offsets to that element.
    pub fn new(
        symbols: &'w Symbols,
        limits: &'w SchemaLimits,
        only: Option<&'w Path>,
    ) -> Outline<'w> {
        Outline { symbols, limits, only, rows: Vec::new(), touched: 0, steps: 0 }
    }

    /// The paths that were gathered.
    pub fn into_rows(self) -> Vec<OutlineRow> {
        self.rows
    }

    /// The paths of a schema.
    ///
    /// # Errors
    /// `schema/too-large` for more paths than `limits` allow; `schema/unknown-path` where the path that is
    /// wanted passes the end of an array.
    pub fn schema(&mut self, schema: &Schema) -> Result<()> {
        match schema.root() {
            Root::Record(ty) => self.record(schema, ty, &Path::root(), Base::Record),
            Root::References(node) => self.node(schema, node, &Path::root(), RowPresence::Always),
        }
    }

    /// A path in the header of a file: what stands there, and its bytes where they are known.
    ///
    /// # Errors
    /// As [`Outline::schema`].
    pub fn header(&mut self, path: Path, kind: String, size: Option<u64>) -> Result<()> {
        self.push(header_row(path, kind, size, None, RowPresence::Always))
    }

    /// The paths of the records of a dataset at `path`.
    ///
    /// # Errors
    /// As [`Outline::schema`].
    pub fn records(&mut self, schema: &Schema, ty: TypeId, path: &Path) -> Result<()> {
        self.record(schema, ty, &path.then(Segment::Each), Base::Record)
    }

    /// A type in a few words, with numbers for its symbols.
    pub fn kind(&self, schema: &Schema, ty: TypeId) -> String {
        kind(schema, ty, self.symbols)
    }

    fn node(&mut self, schema: &Schema, id: NodeId, path: &Path, there: RowPresence) -> Result<()> {
        let row = |kind, size, align| header_row(path.clone(), kind, size, align, there);
        match schema.node(id) {
            Node::Flat { tensor, align } => {
                let natural = tensor.dtype.map(|d| d.align());
                let size = self.tensor_size(tensor);
                self.push(row(tensor_kind(tensor, self.symbols), size, align.or(natural)))
            }
            Node::Dataset { items, len, align, .. } => {
                let kind = format!("{} {len}", kind(schema, *items, self.symbols));
                self.push(row(kind, None, Some(*align)))?;
                self.record(schema, *items, &path.then(Segment::Each), Base::Record)
            }
            Node::Blob { content, .. } => self.push(row(format!("Blob {content}"), None, Some(8))),
            Node::Plain { .. } => self.push(row("JSON".to_owned(), None, None)),
            // The depth of a schema bounds the recursion.
            Node::List { items, .. } => {
                self.touch()?;
                self.node(schema, *items, &path.then(Segment::Each), RowPresence::Always)
            }
            Node::Object(object) => {
                self.touch()?;
                for property in &object.properties {
                    let there = match property.presence {
                        Presence::Required => RowPresence::Always,
                        Presence::Optional => RowPresence::Optional,
                    };
                    let path = path.then(Segment::Name(property.name.clone()));
                    self.node(schema, property.node, &path, there)?;
                }
                if let AdditionalMembers::Node(node) = object.additional {
                    self.node(schema, node, &path.then(Segment::Each), RowPresence::Optional)?;
                }
                Ok(())
            }
        }
    }

    /// The paths of a record at `base`, and of what its variable arrays have in the heap.
    fn record(&mut self, schema: &Schema, ty: TypeId, from: &Path, base: Base) -> Result<()> {
        let mut types: Vec<TypeId> = Vec::new();
        for item in schema.layout(ty, self.limits)? {
            let item = item?;
            types.truncate(item.path.0.len());
            types.push(item.ty);
            let mut path = from.clone();
            path.0.extend(item.path.0.iter().cloned());
            let shift = match base {
                Base::Record => self.shift(schema, &types, from, &path)?,
                _ => 0,
            };
            self.push(OutlineRow {
                kind: kind(schema, item.ty, self.symbols),
                offset: Some(item.range.start.saturating_add(shift)),
                size: Some(item.range.end.saturating_sub(item.range.start)),
                stride: Some(item.stride),
                align: Some(item.align),
                there: item.presence.map_or(RowPresence::Always, |bit| {
                    RowPresence::Bit(PresenceBit { byte: bit.byte.saturating_add(shift), ..bit })
                }),
                base,
                path: path.clone(),
            })?;
            if let Kind::Array(array) = &schema.ty(item.ty).kind
                && let Len::Variable { .. } = array.len
            {
                self.record(schema, array.items, &path.then(Segment::Each), Base::Heap)?;
            }
        }
        Ok(())
    }

    /// Bytes from the first elements of arrays to those that `only` names, on the way to `path`.
    fn shift(&self, schema: &Schema, types: &[TypeId], from: &Path, path: &Path) -> Result<u64> {
        let Some(only) = self.only else { return Ok(0) };
        let mut bytes = 0u64;
        for (step, (wanted, found)) in only.0.iter().zip(&path.0).enumerate() {
            match (wanted, found) {
                (Segment::Index(at), Segment::Each) => {
                    let Some(step) = step.checked_sub(from.0.len()) else { continue };
                    let Some(Kind::Array(array)) = types.get(step).map(|t| &schema.ty(*t).kind)
                    else {
                        continue;
                    };
                    if let Len::Fixed(len) = array.len
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
        self.touched = self.touched.saturating_add(1);
        if self.touched > self.limits.nodes {
            let message = format!("there are more than {} paths", self.limits.nodes);
            return Err(rules::TOO_LARGE.broken(message));
        }
        Ok(())
    }

    fn push(&mut self, row: OutlineRow) -> Result<()> {
        self.touch()?;
        if self.only.is_none_or(|only| is_within(only, &row.path)) {
            self.steps = self.steps.saturating_add(row.path.0.len() as u64);
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
    there: RowPresence,
) -> OutlineRow {
    OutlineRow { path, kind, offset: None, size, stride: None, align, there, base: Base::Header }
}

/// A type in a few words, with numbers for its symbols.
fn kind(schema: &Schema, id: TypeId, symbols: &Symbols) -> String {
    match extent::get(&schema.types, id).map(|ty| &ty.kind) {
        Ok(Kind::Tensor(tensor)) => tensor_kind(tensor, symbols),
        Ok(Kind::Enum(e)) => format!("Enum of {}", e.values.len()),
        // The height of a schema is bounded, and so is this recursion.
        Ok(Kind::Array(array)) => format!("{} {}", kind(schema, array.items, symbols), array.len),
        Ok(other) => other.as_str().to_owned(),
        Err(_) => String::new(),
    }
}

/// A tensor, its symbols replaced by their numbers.
fn tensor_kind(tensor: &TensorType, symbols: &Symbols) -> String {
    let dim = |dim: &Dim| match dim {
        Dim::Known(n) => n.to_string(),
        Dim::Any => "null".to_owned(),
        Dim::Symbol(name) => match symbols.get(name) {
            Some(n) => n.to_string(),
            None => name.to_string(),
        },
    };
    let dtype = tensor.dtype_names().unwrap_or_else(|| "Tensor".to_owned());
    match &tensor.shape {
        None => dtype,
        Some(shape) => {
            let dims: Vec<String> = shape.iter().map(dim).collect();
            format!("{dtype} [{}]", dims.join(", "))
        }
    }
}
