//! Lists every path of a schema with its type and the position of its bytes.

use crate::error::Result;
use crate::kinds::{Dim, Kind, Len, TensorType, TypeId};
use crate::layout::PresenceBit;
use crate::limits::SchemaLimits;
use crate::path::{Path, Segment};
use crate::rules;
use crate::schema::{AdditionalMembers, Node, NodeId, Presence, Root, Schema};
use crate::{Symbols, extent};

/// One path of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineRow {
    /// The path.
    pub path: Path,
    /// A short description of its type: `Int32`, `F32 [20, 5]`, `String []`, `Enum of 3`, `Blob utf-8`.
    pub kind: String,
    /// The offset in bytes from its base.
    pub offset: Option<u64>,
    /// The size of one value in bytes, if known.
    pub size: Option<u64>,
    /// The distance from one value to the next in bytes, for elements of an array.
    pub stride: Option<u64>,
    /// The alignment in bytes.
    pub align: Option<u32>,
    /// Whether the value must be present, and if not, what records its presence.
    pub presence: RowPresence,
    /// The start from which the offset counts.
    pub base: Base,
}

/// The rule for the presence of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowPresence {
    /// The value is always present.
    Always,
    /// An optional member of an object of references.
    Optional,
    /// An optional member of a record, which is present if this bit is 1.
    Bit(PresenceBit),
}

/// The start from which an offset counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// A reference or plain JSON in the header, which has no offset.
    Header,
    /// The start of the record.
    Record,
    /// The start of an element of a variable array, in the heap.
    Heap,
}

/// Collects the paths of schemas in order.
#[derive(Debug)]
pub struct Outline<'w> {
    symbols: &'w Symbols,
    limits: &'w SchemaLimits,
    only: Option<&'w Path>,
    rows: Vec<OutlineRow>,
    /// Number of paths visited.
    touched: u64,
    /// Number of segments of the collected paths.
    steps: u64,
}

/// Average number of segments of a path if the largest number of paths is collected.
const STEPS: u64 = 8;

impl<'w> Outline<'w> {
    /// Creates an empty list. `symbols` are the numbers for symbols in shapes. `only` limits the list to a path and the
    /// paths below it; if it contains an index, the offsets are those of that element.
    pub fn new(
        symbols: &'w Symbols,
        limits: &'w SchemaLimits,
        only: Option<&'w Path>,
    ) -> Outline<'w> {
        Outline { symbols, limits, only, rows: Vec::new(), touched: 0, steps: 0 }
    }

    /// Returns the collected paths.
    pub fn into_rows(self) -> Vec<OutlineRow> {
        self.rows
    }

    /// Adds the paths of a schema.
    ///
    /// # Errors
    /// Returns `schema/too-large` for more paths than `limits` allow; `schema/unknown-path` if the requested path has
    /// an index past the end of an array.
    pub fn schema(&mut self, schema: &Schema) -> Result<()> {
        match schema.root() {
            Root::Record(ty) => self.record(schema, ty, &Path::root(), Base::Record),
            Root::References(node) => self.node(schema, node, &Path::root(), RowPresence::Always),
        }
    }

    /// Adds a path in the header of a file, with its type and its length if known.
    ///
    /// # Errors
    /// Returns the same errors as [`Outline::schema`].
    pub fn header(&mut self, path: Path, kind: String, size: Option<u64>) -> Result<()> {
        self.push(header_row(path, kind, size, None, RowPresence::Always))
    }

    /// Adds the paths of the records of a dataset at `path`.
    ///
    /// # Errors
    /// Returns the same errors as [`Outline::schema`].
    pub fn records(&mut self, schema: &Schema, ty: TypeId, path: &Path) -> Result<()> {
        self.record(schema, ty, &path.then(Segment::Each), Base::Record)
    }

    /// Returns a short description of a type, with numbers in place of its symbols.
    pub fn kind(&self, schema: &Schema, ty: TypeId) -> String {
        kind(schema, ty, self.symbols)
    }

    fn node(
        &mut self,
        schema: &Schema,
        id: NodeId,
        path: &Path,
        presence: RowPresence,
    ) -> Result<()> {
        let row = |kind, size, align| header_row(path.clone(), kind, size, align, presence);
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
            // The recursion is bounded by the depth of a schema.
            Node::List { items, .. } => {
                self.touch()?;
                self.node(schema, *items, &path.then(Segment::Each), RowPresence::Always)
            }
            Node::Object(object) => {
                self.touch()?;
                for property in &object.properties {
                    let presence = match property.presence {
                        Presence::Required => RowPresence::Always,
                        Presence::Optional => RowPresence::Optional,
                    };
                    let path = path.then(Segment::Name(property.name.clone()));
                    self.node(schema, property.node, &path, presence)?;
                }
                if let AdditionalMembers::Node(node) = object.additional {
                    self.node(schema, node, &path.then(Segment::Each), RowPresence::Optional)?;
                }
                Ok(())
            }
        }
    }

    /// Adds the paths of a record at `base`, and of the elements of its variable arrays in the heap.
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
                presence: item.presence.map_or(RowPresence::Always, |bit| {
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

    /// Returns the distance in bytes from the first elements of the arrays in `path` to the elements that `only`
    /// names.
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
                        let message = format!(
                            "`{only}`: index {at} is out of range for an array of {len} elements"
                        );
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
                let message = format!("the paths have more than {most} segments in total");
                return Err(rules::TOO_LARGE.broken(message));
            }
            self.rows.push(row);
        }
        Ok(())
    }
}

/// Returns `true` if `path` is `only` or lies below it. An index matches any element.
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
    presence: RowPresence,
) -> OutlineRow {
    OutlineRow { path, kind, offset: None, size, stride: None, align, presence, base: Base::Header }
}

/// Returns a short description of a type, with numbers in place of its symbols.
fn kind(schema: &Schema, id: TypeId, symbols: &Symbols) -> String {
    match extent::get(&schema.types, id).map(|ty| &ty.kind) {
        Ok(Kind::Tensor(tensor)) => tensor_kind(tensor, symbols),
        Ok(Kind::Enum(e)) => format!("Enum of {}", e.values.len()),
        // The recursion is bounded by the depth of the schema.
        Ok(Kind::Array(array)) => format!("{} {}", kind(schema, array.items, symbols), array.len),
        Ok(other) => other.as_str().to_owned(),
        Err(_) => String::new(),
    }
}

/// Returns a short description of a tensor's type, with numbers in place of its symbols.
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
