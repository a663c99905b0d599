//! Objects and arrays of references, and plain values among them: sections 6.1 and 6.2.

use super::header::{count_values, too_many};
use super::reference::typed;
use super::rules::{MEMBERS, PATTERN_UNCHECKED, VALUE, VALUES_UNCHECKED};
use super::walk::{Walk, check_count};
use holdall_collections::DebugUnwrap;
use holdall_collections::sort;
use holdall_core::error::{Escape as _, Result};
use holdall_json::{DUPLICATE_KEY, Reader, parse_at};
use holdall_schema::{AdditionalMembers, Checker, NodeId, Object, Presence, write_name};
use serde_json::Value as Json;
use std::fmt::Write as _;
use std::ops::Range;

impl<'s> Walk<'s> {
    pub(super) fn object(
        &mut self,
        id: NodeId,
        object: &'s Object,
        reader: &mut Reader<'_>,
    ) -> Result<()> {
        let start = reader.offset();
        typed(reader.begin_object())?;
        let (from, text_from) = (self.ends.len(), self.keys.len());
        let (mut last, mut is_sorted) = (None::<Range<usize>>, true);
        let (mut guess, mut required) = (0usize, 0usize);
        let mut scratch = String::new();
        while let Some(key) = reader.next_key(&mut scratch)? {
            let before = last.and_then(|range| self.keys.get(range));
            is_sorted &= before.is_none_or(|before| before < key);
            let key_from = self.keys.len();
            self.keys.push_str(key);
            last = Some(key_from..self.keys.len());
            self.ends.push(self.keys.len());
            // Most writers keep the order of the schema.
            let guessed = object.properties.get(guess).filter(|p| *p.name == *key);
            if guessed.is_some() {
                guess = guess.saturating_add(1);
            }
            let node = match guessed.or_else(|| object.property(key)) {
                Some(property) => {
                    if property.presence == Presence::Required {
                        required = required.saturating_add(1);
                    }
                    Some(property.node)
                }
                None => match object.additional {
                    AdditionalMembers::Forbidden => {
                        let key = key.escaped();
                        return Err(MEMBERS.broken(format!("the schema has no member `{key}`")));
                    }
                    AdditionalMembers::Anything => None,
                    AdditionalMembers::Node(id) => Some(id),
                },
            };
            let len = self.path.len();
            if len > 0 {
                self.path.push('.');
            }
            // Writing to a String cannot fail.
            let _ = write_name(key, &mut self.path);
            match node {
                Some(id) => self.node(id, reader)?,
                None => self.plain(None, reader).map_err(|e| self.blame(e, reader.here()))?,
            }
            self.path.truncate(len);
        }
        let is_complete = object.required_others.is_empty()
            && required >= *self.required.entry(id).or_insert_with(|| count_required(object));
        if !is_sorted || !is_complete {
            self.check_members(from, text_from, object)
                .map_err(|e| e.at(start..reader.offset()))?;
        }
        self.ends.truncate(from);
        self.keys.truncate(text_from);
        Ok(())
    }

    /// Checks that the keys of the object that was read last are unique, and that no required key is missing.
    fn check_members(&self, from: usize, text_from: usize, object: &Object) -> Result<()> {
        let mut at = text_from;
        let ends = self.ends.get(from..).debug_unwrap();
        let mut keys: Vec<&str> = Vec::with_capacity(ends.len());
        for &end in ends {
            keys.push(self.keys.get(at..end).debug_unwrap());
            at = end;
        }
        sort(&mut keys);
        if let Some(key) = keys.windows(2).find_map(|p| (p.first() == p.last()).then(|| p.first()))
        {
            let key = key.map_or("", |k| *k).escaped();
            return Err(DUPLICATE_KEY.broken(format!("duplicate key `{key}`")));
        }
        let own = object.properties.iter().filter(|p| p.presence == Presence::Required);
        let mut wanted = own.map(|p| &p.name).chain(&object.required_others);
        match wanted.find(|name| keys.binary_search(&&***name).is_err()) {
            Some(name) => {
                let name = name.escaped();
                Err(MEMBERS.broken(format!("the member `{name}` is missing")))
            }
            None => Ok(()),
        }
    }

    pub(super) fn list(
        &mut self,
        items: NodeId,
        min: u64,
        max: Option<u64>,
        reader: &mut Reader<'_>,
    ) -> Result<()> {
        typed(reader.begin_array())?;
        let mut count = 0u64;
        while reader.next_item()? {
            let len = self.path.len();
            let _ = write!(self.path, "[{count}]");
            self.node(items, reader)?;
            self.path.truncate(len);
            count = count.saturating_add(1);
        }
        check_count(count, min, max)
    }

    /// Reads a value that is not a tensor. Its text is kept unchanged.
    pub(super) fn plain(&mut self, node: Option<NodeId>, reader: &mut Reader<'_>) -> Result<()> {
        reader.peek()?;
        let start = reader.offset();
        reader.skip()?;
        let text = reader.text_from(start);
        let left = self.values_left.checked_sub(count_values(text.as_bytes()));
        self.values_left = left.ok_or_else(|| too_many(self.source.limits))?;
        // Parsing finds errors that skipping ignores: duplicate keys, and numbers outside of the range of a double.
        let value = parse_at(text.as_bytes(), start, self.source.limits.depth)?;
        if let Some(id) = node.filter(|_| self.symbols_are_known) {
            self.check_plain(id, value)?;
        }
        self.values.push((self.path.clone(), text.to_owned()));
        Ok(())
    }

    /// Checks a plain value against the standard keywords of the schema. A build without a checker gives a warning,
    /// because the tensors are valid anyway.
    fn check_plain(&mut self, node: NodeId, value: Json) -> Result<()> {
        if !Checker::IS_BUILT {
            let path = self.path.escaped();
            self.builder.warn(VALUES_UNCHECKED, None, None, || {
                let what = "not checked against the keywords of the schema: this build lacks the feature `validate`";
                format!("the value `{path}` was {what}").into()
            });
            return Ok(());
        }
        let checker = match self.checker.take() {
            Some(checker) => checker,
            None => Checker::new(self.schema, self.json, &self.source.limits.schema_limits())?,
        };
        let checker = self.checker.insert(checker);
        checker.plain(node, value, &VALUE)?;
        if let Some(pattern) = checker.unverified_at(node) {
            let (path, pattern) = (self.path.escaped(), pattern.escaped());
            self.builder.warn(PATTERN_UNCHECKED, None, None, || {
                format!("the value `{path}` was not checked against the pattern `{pattern}`, which this build cannot compile").into()
            });
        }
        Ok(())
    }
}

fn count_required(object: &Object) -> usize {
    object.properties.iter().filter(|p| p.presence == Presence::Required).count()
}
