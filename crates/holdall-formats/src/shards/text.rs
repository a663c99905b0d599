//! The text of an index file: written, and changed without losing its other contents.

use super::{Map, SHARD_INDEX, map::group_of};
use holdall_collections::DebugUnwrap;
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::Result;
use holdall_json::{Reader, Token};
use std::collections::BTreeMap;
use std::ops::Range;

/// An index file whose text can be changed.
#[derive(Debug)]
pub struct IndexText {
    text: String,
    map: Map,
    /// The tensors or groups of `weight_map` in their order, each with its files.
    entries: Vec<Entry>,
    /// The range of `weight_map`'s value in the text, in bytes.
    map_range: Range<usize>,
    /// The ranges of the values of `metadata.total_size` and `metadata.total_parameters`, if they are numbers.
    totals: [Option<Range<usize>>; 2],
    of_groups: bool,
}

/// A tensor or a group of `weight_map`.
#[derive(Debug, Clone)]
struct Entry {
    name: String,
    files: Vec<String>,
    is_list: bool,
}

/// A shard that replaces another.
#[derive(Debug, Clone, Default)]
pub struct ChangedShard {
    /// The name of the shard that it replaces.
    pub old: String,
    /// The shard's name.
    pub new: String,
    /// The shard's tensors: the name that each had in the replaced shard, if it was there, and its new name.
    pub tensors: Vec<(Option<String>, String)>,
    /// The change in the number of bytes of its tensors.
    pub bytes: i128,
    /// The change in the number of elements of its tensors.
    pub elements: i128,
}

impl IndexText {
    /// Reads the index file with this name.
    ///
    /// # Errors
    /// Returns the errors of [`Map::read`].
    pub fn read(text: &[u8], name: &str) -> Result<IndexText> {
        let map = Map::read(text, name)?;
        let of_groups = map.names_groups();
        let (mut entries, mut map_range, mut totals) = (Vec::new(), 0..0, [None, None]);
        let mut reader = Reader::new(text, 0, 16).map_err(|e| e.with_rule(&SHARD_INDEX))?;
        let mut read = || -> Result<()> {
            let (mut key, mut inner, mut value) = (String::new(), String::new(), String::new());
            reader.begin_object()?;
            while let Some(field) = reader.next_key(&mut key)? {
                match field {
                    "weight_map" => {
                        reader.peek()?;
                        let start = reader.offset();
                        reader.begin_object()?;
                        while let Some(name) = reader.next_key(&mut inner)? {
                            let is_list = of_groups && reader.peek()? == Token::Array;
                            let mut entry =
                                Entry { name: name.to_owned(), files: Vec::new(), is_list };
                            if is_list {
                                reader.begin_array()?;
                            }
                            while !is_list || reader.next_item()? {
                                entry.files.push(reader.string(&mut value)?.to_owned());
                                if !is_list {
                                    break;
                                }
                            }
                            entries.push(entry);
                        }
                        map_range = range(start, reader.offset());
                    }
                    "metadata" if reader.peek()? == Token::Object => {
                        reader.begin_object()?;
                        while let Some(field) = reader.next_key(&mut inner)? {
                            let total = match field {
                                "total_size" => Some(0),
                                "total_parameters" => Some(1),
                                _ => None,
                            };
                            let is_number = reader.peek()? == Token::Number;
                            let start = reader.offset();
                            reader.skip()?;
                            let total = total.filter(|_| is_number);
                            if let Some(total) = total.and_then(|at| totals.get_mut(at)) {
                                *total = Some(range(start, reader.offset()));
                            }
                        }
                    }
                    _ => reader.skip()?,
                }
            }
            reader.end()
        };
        read().map_err(|e| e.with_rule(&SHARD_INDEX))?;
        let text = String::from_utf8_lossy(text).into_owned();
        Ok(IndexText { text, map, entries, map_range, totals, of_groups })
    }

    /// Returns the contents of the index.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Returns `true` if the index states the number of bytes or elements of all tensors.
    pub fn has_totals(&self) -> bool {
        self.totals.iter().any(Option::is_some)
    }

    /// Returns `true` if replacing these shards changes the entries of `weight_map`. The names of files count only if a
    /// shard gets another name.
    pub fn needs_update_for(&self, changed: &[ChangedShard]) -> bool {
        let new = self.entries_with(changed);
        new.len() != self.entries.len()
            || new.iter().zip(&self.entries).any(|(a, b)| a.name != b.name || a.files != b.files)
    }

    /// Returns the text of the index with these shards replaced. All other contents of the text are kept.
    pub fn with(&self, changed: &[ChangedShard]) -> String {
        let entries = self.entries_with(changed);
        let before = self.text.get(..self.map_range.start).debug_unwrap();
        let old = self.text.get(self.map_range.clone()).debug_unwrap();
        let mut pieces = vec![(self.map_range.clone(), written(&entries, before, old))];
        let more = |growth: fn(&ChangedShard) -> i128| {
            changed.iter().map(growth).fold(0i128, i128::saturating_add)
        };
        let deltas = [more(|shard| shard.bytes), more(|shard| shard.elements)];
        for (range, delta) in self.totals.iter().zip(deltas) {
            let Some(range) = range else { continue };
            let text = self.text.get(range.clone()).debug_unwrap();
            let (whole, fraction) = match text.strip_suffix(".0") {
                Some(whole) => (whole, ".0"),
                None => (text, ""),
            };
            // Values that are not whole numbers are not totals, and are kept.
            if let Ok(total) = whole.parse::<i128>() {
                let total = total.saturating_add(delta).max(0);
                pieces.push((range.clone(), format!("{total}{fraction}")));
            }
        }
        pieces.sort_by_key(|(range, _)| range.start);
        let (mut out, mut from) = (String::new(), 0);
        for (range, new) in pieces {
            out.push_str(self.text.get(from..range.start).debug_unwrap());
            out.push_str(&new);
            from = range.end;
        }
        out.push_str(self.text.get(from..).debug_unwrap());
        out
    }

    fn entries_with(&self, changed: &[ChangedShard]) -> Vec<Entry> {
        match self.of_groups {
            true => self.groups_with(changed),
            false => self.tensors_with(changed),
        }
    }

    fn tensors_with(&self, changed: &[ChangedShard]) -> Vec<Entry> {
        let shards: HashMap<&str, Shard<'_>> =
            changed.iter().map(|shard| (shard.old.as_str(), Shard::new(shard))).collect();
        let mut entries = Vec::with_capacity(self.entries.len());
        // Files from which a tensor was removed. A tied tensor that had the same bytes needed no name before, but needs
        // one now.
        let mut removed: HashSet<&str> = HashSet::default();
        let mut named: HashSet<&str> = HashSet::default();
        for entry in &self.entries {
            let file = entry.files.first().map_or("", String::as_str);
            let Some(shard) = shards.get(file) else {
                entries.push(entry.clone());
                continue;
            };
            let Some(name) = shard.renamed.get(entry.name.as_str()) else {
                removed.insert(file);
                continue;
            };
            named.insert(name);
            let files = vec![shard.changed.new.clone()];
            entries.push(Entry { name: (*name).to_owned(), files, is_list: false });
        }
        let elsewhere: HashSet<&str> = self.entries.iter().map(|e| e.name.as_str()).collect();
        let mut added: Vec<Entry> = Vec::new();
        for shard in changed {
            let is_shrunk = removed.contains(shard.old.as_str());
            for (old, new) in &shard.tensors {
                // A tensor that the model takes from another file is still not named here.
                let is_hidden = old.as_deref().is_some_and(|old| elsewhere.contains(old));
                if !named.contains(new.as_str()) && (old.is_none() || (is_shrunk && !is_hidden)) {
                    let files = vec![shard.new.clone()];
                    added.push(Entry { name: new.clone(), files, is_list: false });
                }
            }
        }
        self.merged(entries, added)
    }

    fn groups_with(&self, changed: &[ChangedShard]) -> Vec<Entry> {
        let shards: HashMap<&str, (&ChangedShard, HashSet<String>)> = changed
            .iter()
            .map(|shard| {
                let groups = shard.tensors.iter().filter_map(|(_, new)| group_of(new)).collect();
                (shard.old.as_str(), (shard, groups))
            })
            .collect();
        let mut entries: Vec<Entry> = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let new = |file: &String| match shards.get(file.as_str()) {
                None => Some(file.clone()),
                Some((shard, groups)) => groups.contains(&entry.name).then(|| shard.new.clone()),
            };
            let files: Vec<String> = entry.files.iter().filter_map(new).collect();
            if !files.is_empty() {
                let (name, is_list) = (entry.name.clone(), entry.is_list);
                entries.push(Entry { name, files, is_list });
            }
        }
        let mut added: Vec<Entry> = Vec::new();
        for shard in changed {
            // Groups of tensors that are new, or have a new name.
            let changed = shard.tensors.iter().filter(|(old, new)| old.as_ref() != Some(new));
            for group in changed.filter_map(|(_, new)| group_of(new)) {
                let known = entries.iter_mut().chain(&mut added).find(|e| e.name == group);
                match known {
                    Some(entry) if entry.files.contains(&shard.new) => {}
                    Some(entry) => {
                        entry.files.push(shard.new.clone());
                        entry.is_list = true;
                    }
                    None => {
                        let files = vec![shard.new.clone()];
                        added.push(Entry { name: group, files, is_list: false });
                    }
                }
            }
        }
        self.merged(entries, added)
    }

    /// Adds new entries at the end, or in their sorted position if all entries are sorted.
    fn merged(&self, mut entries: Vec<Entry>, added: Vec<Entry>) -> Vec<Entry> {
        let is_sorted = self.entries.is_sorted_by(|a, b| a.name <= b.name);
        entries.extend(added);
        if is_sorted {
            entries.sort_by(|a, b| a.name.cmp(&b.name));
        }
        entries
    }
}

/// A changed shard, with the new name of each tensor by its old name.
struct Shard<'a> {
    changed: &'a ChangedShard,
    renamed: HashMap<&'a str, &'a str>,
}

impl<'a> Shard<'a> {
    fn new(changed: &'a ChangedShard) -> Shard<'a> {
        let both = |(old, new): &'a (Option<String>, String)| Some((old.as_deref()?, &**new));
        let mut renamed: HashMap<&str, &str> = changed.tensors.iter().filter_map(both).collect();
        // A new tensor with the name of an old one replaces it.
        for (_, new) in changed.tensors.iter().filter(|(old, _)| old.is_none()) {
            renamed.entry(new).or_insert(new);
        }
        Shard { changed, renamed }
    }
}

fn range(start: u64, end: u64) -> Range<usize> {
    // Offsets in a text of at most 10 MiB.
    let number = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    number(start)..number(end)
}

/// Writes `weight_map` in the style of the text before: one entry per line, or all on one line.
fn written(entries: &[Entry], before: &str, old: &str) -> String {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let outer: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    let inner: Option<String> = old.split_once('\n').map(|(_, rest)| {
        let found: String = rest.chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
        if found.is_empty() { format!("{outer}  ") } else { found }
    });
    let mut out = String::from("{");
    for (at, entry) in entries.iter().enumerate() {
        match (&inner, at) {
            (Some(inner), 0) => out.push_str(&format!("\n{inner}")),
            (Some(inner), _) => out.push_str(&format!(",\n{inner}")),
            (None, 0) => {}
            (None, _) => out.push_str(", "),
        }
        push_ascii(&entry.name, &mut out);
        out.push_str(": ");
        let is_list = entry.is_list || entry.files.len() > 1;
        if is_list {
            out.push('[');
        }
        for (at, file) in entry.files.iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            push_ascii(file, &mut out);
        }
        if is_list {
            out.push(']');
        }
    }
    if inner.is_some() && !entries.is_empty() {
        out.push_str(&format!("\n{outer}"));
    }
    out.push('}');
    out
}

/// Returns the text of a new index file, as Python's `json` writes it with an indent of 2 and sorted keys. `total` is
/// the number of bytes of all tensors.
pub fn index_text(map: &BTreeMap<String, String>, total: u64) -> String {
    let mut out = format!("{{\n  \"metadata\": {{\n    \"total_size\": {total}\n  }},\n");
    let entry = |(name, file): (&String, &String)| Entry {
        name: name.clone(),
        files: vec![file.clone()],
        is_list: false,
    };
    let entries: Vec<Entry> = map.iter().map(entry).collect();
    out.push_str("  \"weight_map\": ");
    out.push_str(&written(&entries, "  ", "{\n    }"));
    out.push_str("\n}\n");
    out
}

/// Writes a string as JSON in ASCII.
fn push_ascii(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                out.push_str(&format!("\\u{unit:04x}"));
            }),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
  "metadata": {"total_size": 100.0, "total_parameters": 25, "mine": [1, {"a": "ü"}]},
  "weight_map": {
    "a": "m-1.st",
    "b": "m-1.st",
    "c": "m-2.st"
  },
  "more": null
}
"#;

    fn changed() -> ChangedShard {
        let same = |name: &str| (Some(name.to_owned()), name.to_owned());
        ChangedShard {
            old: "m-1.st".into(),
            new: "m-1.2.st".into(),
            tensors: vec![same("a"), (Some("b".into()), "z".into()), (None, "bb".into())],
            bytes: 8,
            elements: 2,
        }
    }

    #[test]
    fn all_else_is_kept() {
        let text = IndexText::read(TEXT.as_bytes(), "m.index.json").expect("an index file");
        assert_eq!(text.with(&[]), TEXT);
        let expected = TEXT
            .replace(
                "\"a\": \"m-1.st\",\n    \"b\": \"m-1.st\"",
                "\"a\": \"m-1.2.st\",\n    \"bb\": \"m-1.2.st\"",
            )
            .replace("\"c\": \"m-2.st\"", "\"c\": \"m-2.st\",\n    \"z\": \"m-1.2.st\"")
            .replace("100.0", "108.0")
            .replace("25", "27");
        assert_eq!(text.with(&[changed()]), expected);
        assert!(text.needs_update_for(&[changed()]) && !text.needs_update_for(&[]));
        // What was written is read as the same again, from one line too.
        let line: String = TEXT.split('\n').map(str::trim).collect();
        let line = IndexText::read(line.as_bytes(), "m.index.json")
            .expect("an index file")
            .with(&[changed()]);
        let line = IndexText::read(line.as_bytes(), "m.index.json").expect("an index file");
        assert_eq!(line.map().files(), ["m-1.2.st", "m-2.st"]);
        assert!(!line.text.contains('\n'));
    }

    #[test]
    fn tied_tensors_are_named_when_the_one_that_names_them_goes() {
        let text = IndexText::read(TEXT.as_bytes(), "m.index.json").expect("an index file");
        let same = |name: &str| (Some(name.to_owned()), name.to_owned());
        let tensors = vec![same("a"), same("tied"), same("c")];
        let gone = ChangedShard { tensors, new: "m-1.st".into(), ..changed() };
        let new = text.with(&[gone]);
        let map = IndexText::read(new.as_bytes(), "m.index.json").expect("an index file");
        let names: Vec<&str> = map.entries.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["a", "c", "tied"]);
    }

    #[test]
    fn groups_of_keras_follow_their_tensors() {
        let text = r#"{"weight_map": {"/a/vars": ["x_0.h5", "x_1.h5"], "/b/vars": "x_0.h5"}}"#;
        let text = IndexText::read(text.as_bytes(), "x.weights.json").expect("an index file");
        let moved = ChangedShard {
            old: "x_0.h5".into(),
            new: "x_0.2.h5".into(),
            tensors: vec![
                (Some("b/vars/0".into()), "c/vars/0".into()),
                (Some("a/vars/0".into()), "a/vars/0".into()),
            ],
            ..ChangedShard::default()
        };
        let expected =
            r#"{"weight_map": {"/a/vars": ["x_0.2.h5", "x_1.h5"], "/c/vars": "x_0.2.h5"}}"#;
        assert_eq!(text.with(&[moved]), expected);
    }
}
