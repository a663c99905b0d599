//! Tracks the values at each path of many records.

use super::{InferOptions, Width};
use crate::error::Result;
use crate::limits::SchemaLimits;
use crate::path::{Path, Segment};
use crate::record::rules::TYPE;
use crate::record::{Encoder, InputNumber, RecordInput};
use crate::schema::Schema;
use holdall_collections::HashMap;
use holdall_json::{Reader, Token};
use std::collections::BTreeSet;

/// An object with more members than this is treated as one whose keys are data.
pub(super) const MAX_MEMBERS: usize = 1000;

/// The values seen at one path.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// Number of values that were not null.
    pub(super) values: u64,
    pub(super) bools: Seen,
    pub(super) integers: Seen,
    pub(super) floats: Seen,
    pub(super) texts: Seen,
    /// Times that are not text, and bytes.
    pub(super) times: Seen,
    pub(super) bytes: Seen,
    pub(super) arrays: Seen,
    pub(super) objects: Seen,
    /// The smallest and the largest integer.
    pub(super) min_integer: i128,
    pub(super) max_integer: i128,
    /// Whether any float cannot be represented in 32 bits.
    pub(super) is_wide: bool,
    /// The distinct texts, as long as there are few.
    pub(super) different: BTreeSet<String>,
    pub(super) has_many_texts: bool,
    /// Whether any text is not a time in its canonical form.
    pub(super) has_other_text: bool,
    /// The lengths of the shortest and the longest array.
    pub(super) shortest: u64,
    pub(super) longest: u64,
    pub(super) items: Option<Box<Shape>>,
    /// The number of elements that have columns of a table.
    pub(super) columns: Option<u64>,
    /// Whether these are the cells of a column.
    pub(super) is_cell: bool,
    /// The index of the first column that belongs to it or a part of it.
    rank: Option<usize>,
    /// Members in the order in which they were first seen.
    pub(super) members: Vec<(String, Shape)>,
    indices: HashMap<String, usize>,
}

/// How often a type of value was seen, and the line of the first one.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Seen {
    pub(super) count: u64,
    pub(super) line: u64,
}

impl Seen {
    fn add(&mut self, line: u64) {
        if self.count == 0 {
            self.line = line;
        }
        self.count = self.count.saturating_add(1);
    }
}

impl Shape {
    /// Adds one record.
    pub(super) fn see(
        &mut self,
        text: &[u8],
        depth: usize,
        line: u64,
        wants: &InferOptions,
    ) -> Result<()> {
        let mut reader = Reader::new(text, 0, depth)?;
        self.see_input(&mut reader, line, wants)?;
        reader.end()
    }

    /// Adds one record of any source.
    pub(super) fn see_input(
        &mut self,
        input: &mut impl RecordInput,
        line: u64,
        wants: &InferOptions,
    ) -> Result<()> {
        See { line, wants, scratch: String::new(), data: Vec::new() }.value(input, self)
    }

    /// Adds the columns of a table: members are in their order, even those without a value, and an array has as many
    /// elements as there are columns for it.
    pub(super) fn columns(&mut self, columns: &[Path]) {
        for (at, path) in columns.iter().enumerate() {
            let mut shape = &mut *self;
            for segment in &path.0 {
                shape = match segment {
                    Segment::Name(name) => match shape.member(name) {
                        Some(member) => member,
                        None => return,
                    },
                    Segment::Index(index) => {
                        let count = index.saturating_add(1);
                        shape.columns = Some(shape.columns.map_or(count, |known| known.max(count)));
                        shape.items.get_or_insert_default()
                    }
                    Segment::Each => shape.items.get_or_insert_default(),
                };
                shape.rank.get_or_insert(at);
            }
            shape.is_cell = true;
        }
        self.sort();
    }

    fn member(&mut self, name: &str) -> Option<&mut Shape> {
        let next = self.members.len();
        let index = *self.indices.entry(name.to_owned()).or_insert(next);
        if index == next {
            self.members.push((name.to_owned(), Shape::default()));
        }
        self.members.get_mut(index).map(|(_, member)| member)
    }

    /// The recursion is bounded by the depth of the columns' paths and of JSON.
    fn sort(&mut self) {
        self.members.sort_by_key(|(_, member)| member.rank);
        self.indices.clear();
        self.members.iter_mut().for_each(|(_, member)| member.sort());
        self.items.iter_mut().for_each(|items| items.sort());
    }
}

struct See<'w> {
    line: u64,
    wants: &'w InferOptions,
    scratch: String,
    data: Vec<u8>,
}

impl See<'_> {
    /// Adds a value. The recursion is bounded by the reader.
    fn value(&mut self, reader: &mut impl RecordInput, shape: &mut Shape) -> Result<()> {
        let token = reader.peek()?;
        if token == Token::Null {
            return reader.skip();
        }
        shape.values = shape.values.saturating_add(1);
        if reader.time()?.is_some() {
            shape.times.add(self.line);
            return Ok(());
        }
        self.data.clear();
        if reader.bytes(&mut self.data)? {
            shape.bytes.add(self.line);
            return Ok(());
        }
        match token {
            Token::Null => {}
            Token::Bool => {
                reader.bool()?;
                shape.bools.add(self.line);
            }
            Token::Number => match reader.number()? {
                InputNumber::Unsigned(n) => self.integer(i128::from(n), shape),
                InputNumber::Negative(n) => self.integer(i128::from(n), shape),
                InputNumber::Long(_, x) | InputNumber::Float(x) => self.float(x, shape),
            },
            Token::String => {
                let mut scratch = std::mem::take(&mut self.scratch);
                let text = reader.string(&mut scratch)?;
                self.text(text, shape);
                self.scratch = scratch;
            }
            Token::Array => self.array(reader, shape)?,
            Token::Object => self.object(reader, shape)?,
        }
        Ok(())
    }

    fn integer(&mut self, n: i128, shape: &mut Shape) {
        if shape.integers.count == 0 {
            (shape.min_integer, shape.max_integer) = (n, n);
        }
        shape.min_integer = shape.min_integer.min(n);
        shape.max_integer = shape.max_integer.max(n);
        shape.integers.add(self.line);
        // The integer may turn out to belong to numbers with fractions.
        if self.wants.width == Width::Tight && !shape.is_wide {
            shape.is_wide = n.to_string() != format!("{:.0}", n as f32);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "rounds to nearest, which is compared")]
    fn float(&mut self, wide: f64, shape: &mut Shape) {
        shape.floats.add(self.line);
        if self.wants.width == Width::Tight && !shape.is_wide && wide.is_finite() {
            // Checks whether the shortest decimal of the 32-bit float is the same number.
            let back = (wide as f32).to_string().parse::<f64>().unwrap_or(f64::NAN);
            shape.is_wide = back != wide;
        }
    }

    fn text(&mut self, text: &str, shape: &mut Shape) {
        shape.texts.add(self.line);
        if !shape.has_many_texts {
            if !shape.different.contains(text) {
                shape.different.insert(text.to_owned());
            }
            if shape.different.len() > self.wants.enums {
                shape.has_many_texts = true;
                shape.different = BTreeSet::new();
            }
        }
        if self.wants.width == Width::Tight && !shape.has_other_text {
            shape.has_other_text = !is_time(text);
        }
    }

    fn array(&mut self, reader: &mut impl RecordInput, shape: &mut Shape) -> Result<()> {
        let mut items = shape.items.take().unwrap_or_default();
        let mut len = 0u64;
        reader.begin_array()?;
        while reader.next_item()? {
            len = len.saturating_add(1);
            if reader.peek()? == Token::Null {
                return Err(TYPE.broken("an array contains `null`, which no kind can represent"));
            }
            self.value(reader, &mut items)?;
        }
        shape.items = Some(items);
        if shape.arrays.count == 0 {
            (shape.shortest, shape.longest) = (len, len);
        }
        shape.shortest = shape.shortest.min(len);
        shape.longest = shape.longest.max(len);
        shape.arrays.add(self.line);
        Ok(())
    }

    fn object(&mut self, reader: &mut impl RecordInput, shape: &mut Shape) -> Result<()> {
        let mut ahead = reader.clone();
        if self.is_float(&mut ahead)? {
            shape.floats.add(self.line);
            *reader = ahead;
            return Ok(());
        }
        shape.objects.add(self.line);
        reader.begin_object()?;
        let mut key = String::new();
        let mut scratch = std::mem::take(&mut self.scratch);
        loop {
            match reader.next_key(&mut scratch)? {
                None => break,
                Some(name) => {
                    key.clear();
                    key.push_str(name);
                }
            }
            let index = match shape.indices.get(&key) {
                Some(index) => *index,
                None if shape.members.len() > MAX_MEMBERS => {
                    reader.skip()?;
                    continue;
                }
                None => {
                    let index = shape.members.len();
                    shape.indices.insert(key.clone(), index);
                    shape.members.push((key.clone(), Shape::default()));
                    index
                }
            };
            if let Some((_, member)) = shape.members.get_mut(index) {
                self.value(reader, member)?;
            }
        }
        self.scratch = scratch;
        Ok(())
    }

    /// Returns `true` if the next object is `{"$float": "nan"}` or similar.
    fn is_float(&mut self, ahead: &mut impl RecordInput) -> Result<bool> {
        ahead.begin_object()?;
        if ahead.next_key(&mut self.scratch)? != Some("$float") || ahead.peek()? != Token::String {
            return Ok(false);
        }
        ahead.string(&mut self.scratch)?;
        Ok(ahead.next_key(&mut self.scratch)?.is_none())
    }
}

/// Returns `true` if a text is a time in the canonical form, which encoding and decoding preserve.
fn is_time(text: &str) -> bool {
    if !(20..=30).contains(&text.len()) || !text.ends_with('Z') {
        return false;
    }
    let json = serde_json::json!({"TypeDef:Timestamp": true});
    let limits = SchemaLimits::default();
    let Ok(schema) = Schema::compile_record(&json, &limits) else { return false };
    let Some(ty) = schema.record() else { return false };
    let mut bytes = [0; 8];
    let value = serde_json::Value::from(text);
    let written = Encoder::new(&schema, ty, &limits)
        .and_then(|mut encoder| encoder.value(&value, &mut bytes, &mut Vec::new()));
    written.is_ok() && schema.record_value(ty, &bytes, &[], &limits).is_ok_and(|back| back == value)
}
