//! The contents of an index file: which tensor is in which file.

use super::{SHARD_INDEX, SHARD_TENSOR, Shard, check_names};
use holdall_collections::DebugUnwrap;
use holdall_collections::in_order;
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::model::{Component, Index, TensorInfo, Warning};
use holdall_json::{Reader, Token};
use std::ops::Range;

/// The maximum length of an index file, in bytes.
pub const MAX_INDEX: u64 = 10 << 20;
/// The end of the name of an index file of Keras. Such an index names groups of HDF5, each with the files that have
/// tensors of the group.
pub(crate) const KERAS: &str = ".weights.json";

/// The contents of an index file.
#[derive(Debug, Default)]
pub struct Map {
    /// The names of all tensors, concatenated.
    names: String,
    /// The range of each tensor's name in `names`, and the number of its file; sorted by name.
    tensors: Vec<(Range<u32>, u32)>,
    /// The numbers of the tensors of each file, sorted by name.
    of_files: Vec<Vec<u32>>,
    /// In an index of Keras, the groups of tensors, each with the number of a file that has tensors of it.
    groups: HashSet<(String, usize)>,
    /// The names of the files, sorted.
    files: Vec<String>,
    /// The stated number of bytes of all tensors.
    total: Option<u64>,
    of_groups: bool,
}

/// The result of comparing an index file with one of its files.
#[derive(Debug)]
pub struct Checked {
    /// The number of tensors that the file has and should have.
    found: usize,
    /// The number of bytes of those tensors. Tied tensors count once.
    total: u64,
    warnings: Vec<Warning>,
}

/// Converts a count of items in an index file. It fits because the file has at most 10 MiB.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Map {
    /// Returns the names of the files, sorted.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Returns whether the index names groups of tensors instead of tensors, as those of Keras do.
    pub fn names_groups(&self) -> bool {
        self.of_groups
    }

    /// Returns the number of the file that should have a tensor, as an index into [`files`](Self::files).
    pub fn file_of(&self, tensor: &str) -> Option<usize> {
        let at = self.tensors.binary_search_by(|(name, _)| self.name(name).cmp(tensor)).ok()?;
        self.tensors.get(at).map(|(_, file)| *file as usize)
    }

    /// Checks that an index file of `len` bytes is short enough to be read.
    ///
    /// # Errors
    /// Returns [`SHARD_INDEX`] if `len` is more than [`MAX_INDEX`].
    pub fn check_len(len: u64) -> Result<()> {
        match len > MAX_INDEX {
            true => Err(SHARD_INDEX
                .broken(format!("the index has {len} bytes, at most {MAX_INDEX} are allowed"))),
            false => Ok(()),
        }
    }

    /// Returns the name of tensor `number`.
    fn name_at(&self, number: u32) -> &str {
        self.tensors.get(number as usize).map_or("", |(at, _)| self.name(at))
    }

    fn name(&self, at: &Range<u32>) -> &str {
        self.names.get(at.start as usize..at.end as usize).debug_unwrap()
    }

    /// Returns the names of the tensors, each with the name of its file, sorted by tensor.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named().map(|(tensor, file)| (tensor, self.files.get(file).map_or("", String::as_str)))
    }

    /// Returns the names of the tensors, each with the number of its file, sorted by tensor.
    fn named(&self) -> impl Iterator<Item = (&str, usize)> {
        self.tensors.iter().map(|(name, file)| (self.name(name), *file as usize))
    }

    /// Returns `true` if the index names the tensor.
    fn has(&self, tensor: &str) -> bool {
        self.file_of(tensor).is_some()
    }

    /// Compares file `number` with the index, and notes the tensors that the model takes from other files. `name` is
    /// the index file's.
    pub fn check(&self, number: usize, shard: &mut Shard, name: &str) -> Checked {
        let (mut found, mut stored, mut unnamed) = (0usize, Vec::new(), Vec::new());
        let mut groups = HashSet::default();
        let own = self.of_files.get(number).map(Vec::as_slice).unwrap_or_default();
        let mut own = own.iter().map(|at| self.name_at(*at)).peekable();
        for t in shard.index.by_name() {
            if self.of_groups {
                match group_of(t.name())
                    .filter(|group| self.groups.contains(&(group.clone(), number)))
                {
                    Some(group) => {
                        stored.extend(t.components().map(|c| c.stored));
                        groups.insert(group);
                    }
                    None => unnamed.push(t),
                }
                continue;
            }
            while own.next_if(|name| *name < t.name()).is_some() {}
            if own.next_if_eq(&t.name()).is_some() {
                stored.extend(t.components().map(|c| c.stored));
                found = found.saturating_add(1);
            } else if self.has(t.name()) {
                shard.left_out.insert(t.name().to_owned());
            } else {
                unnamed.push(t);
            }
        }
        unnamed.sort_unstable_by_key(TensorInfo::position);
        found = found.saturating_add(groups.len());
        stored.sort_unstable();
        stored.dedup();
        let total = stored.iter().fold(0, |total: u64, own| total.saturating_add(own.len()));
        // Tied tensors need no names in the index.
        let is_tied = |t: &TensorInfo| {
            let is_named = |c: Component| stored.binary_search(&c.stored).is_ok();
            t.components().len() > 0 && t.components().all(is_named)
        };
        let extra = |t: TensorInfo| {
            let message = format!("`{name}` does not name it, but `{}` has it", shard.name);
            Warning::new("shards/extra", message).in_tensor(t.name())
        };
        let warnings = unnamed.into_iter().filter(|t| !is_tied(t)).map(extra).collect();
        Checked { found, total, warnings }
    }

    /// Compares all files, which are in the order of [`files`](Self::files), with the index. Returns warnings.
    ///
    /// # Errors
    /// Returns [`SHARD_TENSOR`] for the first tensor by name that is not in the file that the index names.
    pub fn check_all(
        &self,
        shards: &[&Shard],
        checked: Vec<Checked>,
        name: &str,
    ) -> Result<Vec<Warning>> {
        let (mut warnings, mut found, mut total) = (Vec::new(), 0usize, 0u64);
        for own in checked {
            found = found.saturating_add(own.found);
            total = total.saturating_add(own.total);
            warnings.extend(own.warnings);
        }
        if let Some((tensor, file)) = self.missing(shards, found) {
            return Err(self.misplaced(shards, tensor, file));
        }
        if let Some(stated) = self.total.filter(|stated| *stated != total) {
            let message = format!(
                "`{name}` says that all tensors together have {stated} bytes, but they have {total}"
            );
            warnings.push(Warning::new("shards/total-size", message));
        }
        Ok(warnings)
    }

    /// Returns the error for a tensor that file `file` should have and has not. The message names the file that has it
    /// and counts how many other tensors are missing.
    #[cold]
    fn misplaced(&self, shards: &[&Shard], tensor: &str, file: usize) -> Error {
        let has = |shard: &&&Shard, tensor: &str| shard.index.get(tensor).is_some();
        let lacks = |file: usize, tensor: &str| shards.get(file).is_none_or(|s| !has(&s, tensor));
        let wrong = self.named().filter(|(tensor, file)| lacks(*file, tensor)).count();
        let named = self.files.get(file).map_or("", String::as_str).escaped();
        let message = match shards.iter().find(|shard| has(shard, tensor)) {
            Some(other) => format!(
                "the tensor is in `{}`, but the index says `{named}`: the index is of another division of the model; \
                 {wrong} of {} tensors are in other files than the index says",
                other.name.escaped(),
                self.tensors.len()
            ),
            None if wrong > 1 => format!(
                "the tensor is missing from `{named}`; {} other tensors are not in the file that the index names either",
                wrong.saturating_sub(1)
            ),
            None => format!("the tensor is missing from `{named}`"),
        };
        SHARD_TENSOR.broken(message).in_tensor(tensor)
    }

    /// Returns a tensor, or a group of tensors, that is missing from the file that should have it, and the number of
    /// that file. `found` is the number of tensors found in the right file.
    fn missing(&self, shards: &[&Shard], found: usize) -> Option<(&str, usize)> {
        if found == self.tensors.len().saturating_add(self.groups.len()) {
            return None;
        }
        let tensors = self.named().filter(|(tensor, file)| {
            shards.get(*file).is_none_or(|shard| shard.index.get(tensor).is_none())
        });
        let has = |index: &Index, group: &str| {
            index.tensors().any(|t| group_of(t.name()).as_deref() == Some(group))
        };
        let groups = self.groups.iter().filter(|(group, file)| {
            shards.get(*file).is_none_or(|shard| !has(&shard.index, group))
        });
        tensors.chain(groups.map(|(group, file)| (group.as_str(), *file))).min()
    }

    /// Reads the index file with this name.
    ///
    /// # Errors
    /// Returns [`SHARD_INDEX`] if the text is not a valid index, and `shards/outside` if it names a file outside of the
    /// folder.
    pub fn read(text: &[u8], name: &str) -> Result<Map> {
        let wrong = |message: &str| SHARD_INDEX.broken(message.to_owned());
        let twice = |tensor: &str| wrong("`weight_map` names a tensor twice").in_tensor(tensor);
        let mut reader = Reader::new(text, 0, 16).map_err(|e| e.with_rule(&SHARD_INDEX))?;
        let mut map = Map { of_groups: name.ends_with(KERAS), ..Map::default() };
        let mut numbers: HashMap<String, usize> = HashMap::default();
        // The file of the tensor before, which is usually the same.
        let mut last = 0;
        let mut read = || -> Result<bool> {
            let (mut key, mut name, mut file) = (String::new(), String::new(), String::new());
            let mut has_map = false;
            reader.begin_object()?;
            while let Some(field) = reader.next_key(&mut key)? {
                match field {
                    "weight_map" => {
                        has_map = true;
                        reader.begin_object()?;
                        while let Some(tensor) = reader.next_key(&mut name)? {
                            // Keras names one file, or a list of the files that a group is in.
                            let is_list = map.of_groups && reader.peek()? == Token::Array;
                            if is_list {
                                reader.begin_array()?;
                            }
                            while !is_list || reader.next_item()? {
                                let file = reader.string(&mut file)?;
                                if map.files.get(last).is_none_or(|last| last != file) {
                                    last = numbers.get(file).copied().unwrap_or(map.files.len());
                                }
                                if last == map.files.len() {
                                    numbers.insert(file.to_owned(), last);
                                    map.files.push(file.to_owned());
                                }
                                if !map.of_groups {
                                    // The text has at most 10 MiB.
                                    let start = number(map.names.len());
                                    map.names.push_str(tensor);
                                    let end = number(map.names.len());
                                    map.tensors.push((start..end, number(last)));
                                } else if !map.groups.insert((tensor.to_owned(), last)) {
                                    return Err(twice(tensor));
                                }
                                if !is_list {
                                    break;
                                }
                            }
                        }
                    }
                    "metadata" if reader.peek()? == Token::Object => {
                        reader.begin_object()?;
                        while let Some(field) = reader.next_key(&mut name)? {
                            match (field, reader.peek()?) {
                                ("total_size", Token::Number) => {
                                    // Some writers have a float there.
                                    map.total = whole(reader.number()?.text);
                                }
                                _ => reader.skip()?,
                            }
                        }
                    }
                    _ => reader.skip()?,
                }
            }
            reader.end()?;
            Ok(has_map)
        };
        if !read().map_err(|e| e.with_rule(&SHARD_INDEX))? {
            return Err(wrong("missing `weight_map`"));
        }
        if map.tensors.is_empty() && map.groups.is_empty() {
            return Err(wrong("`weight_map` names no tensor"));
        }
        map.files.sort();
        check_names(&map.files)?;
        let mut sorted = vec![0; map.files.len()];
        for (sorted_index, file) in map.files.iter().enumerate() {
            if let Some(at) = numbers.get(file).and_then(|number| sorted.get_mut(*number)) {
                *at = sorted_index;
            }
        }
        let sorted_index = |file: usize| sorted.get(file).copied().debug_unwrap();
        let names: Vec<&[u8]> = map.tensors.iter().map(|(at, _)| map.name(at).as_bytes()).collect();
        let order = in_order(&names).map_err(|at| twice(map.name_at(at)))?;
        let sorted = order.iter().filter_map(|at| map.tensors.get(*at as usize).cloned());
        map.tensors =
            sorted.map(|(name, file)| (name, number(sorted_index(file as usize)))).collect();
        map.of_files = vec![Vec::new(); map.files.len()];
        for (at, (_, file)) in (0..).zip(&map.tensors) {
            if let Some(own) = map.of_files.get_mut(*file as usize) {
                own.push(at);
            }
        }
        map.groups =
            map.groups.into_iter().map(|(group, file)| (group, sorted_index(file))).collect();
        Ok(map)
    }
}

/// Parses a whole number, which may have a fraction of zero.
fn whole(text: &str) -> Option<u64> {
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

/// Returns the name that Keras has for the HDF5 group of a tensor: `/layers/dense/vars`.
pub(super) fn group_of(name: &str) -> Option<String> {
    name.rsplit_once('/').map(|(group, _)| format!("/{group}"))
}
