//! What an index file says: which tensor is in which file.

use super::{SHARD_INDEX, SHARD_TENSOR, Shard, check_names};
use holdall_collections::in_order;
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::{Error, Result, Shown as _};
use holdall_core::model::{Component, Index, TensorInfo, Warning};
use holdall_json::{Reader, Token};
use std::ops::Range;

/// The most bytes of an index file.
pub const MAX_INDEX: u64 = 10 << 20;
/// What the names of index files of Keras end in. They name groups of HDF5, each with the files that have tensors of it.
pub(crate) const KERAS: &str = ".weights.json";

/// What an index file says.
#[derive(Debug, Default)]
pub struct Map {
    /// The names of all tensors, one after the other.
    names: String,
    /// Where the name of each is in that, and the number of its file; sorted by name.
    tensors: Vec<(Range<u32>, u32)>,
    /// The numbers of the tensors of each file, sorted by name.
    of_files: Vec<Vec<u32>>,
    /// Of an index of Keras: groups of tensors, each with the number of a file that has some of it.
    groups: HashSet<(String, usize)>,
    /// The files, sorted.
    files: Vec<String>,
    /// The bytes of all tensors.
    total: Option<u64>,
    of_groups: bool,
}

/// What an index file says of one of its files, beside what that has.
#[derive(Debug)]
pub struct Checked {
    /// Tensors that it has and shall have.
    found: usize,
    /// The bytes of those; tied ones count once.
    total: u64,
    warnings: Vec<Warning>,
}

/// A number of what an index file has, which is at most 10 MiB long.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Map {
    /// The files that it names, sorted.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Returns whether the index names groups of tensors instead of tensors, as those of Keras do.
    pub fn is_of_groups(&self) -> bool {
        self.of_groups
    }

    /// Returns the number of the file that should have a tensor, among [`files`](Self::files).
    pub fn file_of(&self, tensor: &str) -> Option<usize> {
        let at = self.tensors.binary_search_by(|(name, _)| self.name(name).cmp(tensor)).ok()?;
        self.tensors.get(at).map(|(_, file)| *file as usize)
    }

    /// Whether an index file of so many bytes is read.
    ///
    /// # Errors
    /// [`SHARD_INDEX`].
    pub fn check_len(len: u64) -> Result<()> {
        match len > MAX_INDEX {
            true => Err(SHARD_INDEX.broken(format!("it has {len} bytes, at most {MAX_INDEX}"))),
            false => Ok(()),
        }
    }

    /// The name of the tensor of that number.
    fn name_at(&self, number: u32) -> &str {
        self.tensors.get(number as usize).map_or("", |(at, _)| self.name(at))
    }

    fn name(&self, at: &Range<u32>) -> &str {
        self.names.get(at.start as usize..at.end as usize).unwrap_or_default()
    }

    /// The tensors that it names, and the file of each, sorted by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named().map(|(tensor, file)| (tensor, self.files.get(file).map_or("", String::as_str)))
    }

    /// The tensors that it names, and the number of the file of each, sorted by name.
    fn named(&self) -> impl Iterator<Item = (&str, usize)> {
        self.tensors.iter().map(|(name, file)| (self.name(name), *file as usize))
    }

    /// Whether it names a tensor.
    fn has(&self, tensor: &str) -> bool {
        self.file_of(tensor).is_some()
    }

    /// Looks at the tensors of the file of that number; notes those that the model has from others. `name` is the index's.
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
        // Tied ones need no names in the index.
        let is_tied = |t: &TensorInfo| {
            let is_named = |c: Component| stored.binary_search(&c.stored).is_ok();
            t.components().len() > 0 && t.components().all(is_named)
        };
        let extra = |t: TensorInfo| {
            let message = format!("`{name}` does not name it, `{}` has it", shard.name);
            Warning::new("shards/extra", message).in_tensor(t.name())
        };
        let warnings = unnamed.into_iter().filter(|t| !is_tied(t)).map(extra).collect();
        Checked { found, total, warnings }
    }

    /// Looks at all files, in the order of [`files`](Self::files): what is odd.
    ///
    /// # Errors
    /// [`SHARD_TENSOR`] for the first tensor by name that is not where it should be.
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
        if let Some(said) = self.total.filter(|said| *said != total) {
            let message =
                format!("`{name}` says that all tensors have {said} bytes, they have {total}");
            warnings.push(Warning::new("shards/total-size", message));
        }
        Ok(warnings)
    }

    /// Says where a tensor is that the file of that number lacks, and of how many that is true.
    #[cold]
    fn misplaced(&self, shards: &[&Shard], tensor: &str, file: usize) -> Error {
        let has = |shard: &&&Shard, tensor: &str| shard.index.get(tensor).is_some();
        let lacks = |file: usize, tensor: &str| shards.get(file).is_none_or(|s| !has(&s, tensor));
        let wrong = self.named().filter(|(tensor, file)| lacks(*file, tensor)).count();
        let named = self.files.get(file).map_or("", String::as_str).shown();
        let message = match shards.iter().find(|shard| has(shard, tensor)) {
            Some(other) => format!(
                "`{}` has it, and the index says `{named}`: the index is of another division of the model; \
                 it names other files than they are in for {wrong} of {} tensors",
                other.name.shown(),
                self.tensors.len()
            ),
            None if wrong > 1 => format!(
                "`{named}` should have it, and has not; nor are {} other tensors where the index says",
                wrong.saturating_sub(1)
            ),
            None => format!("`{named}` should have it, and has not"),
        };
        SHARD_TENSOR.broken(message).in_tensor(tensor)
    }

    /// A tensor, or a group of them, that the file which should have it has not, and the number of that file. `found` were found.
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

    /// Reads the index file of that name.
    ///
    /// # Errors
    /// [`SHARD_INDEX`]; `shards/outside`.
    pub fn read(text: &[u8], name: &str) -> Result<Map> {
        let wrong = |message: &str| SHARD_INDEX.broken(message.to_owned());
        let twice = |tensor: &str| wrong("`weight_map` names a tensor twice").in_tensor(tensor);
        let mut reader = Reader::new(text, 0, 16).map_err(|e| e.under(&SHARD_INDEX))?;
        let mut map = Map { of_groups: name.ends_with(KERAS), ..Map::default() };
        let mut numbers: HashMap<String, usize> = HashMap::default();
        // That of the tensor before, as a rule.
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
                            // Keras names one file, or the several that a group is in.
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
                                    // Of at most 10 MiB.
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
        if !read().map_err(|e| e.under(&SHARD_INDEX))? {
            return Err(wrong("there is no `weight_map`"));
        }
        if map.tensors.is_empty() && map.groups.is_empty() {
            return Err(wrong("`weight_map` names no tensor"));
        }
        map.files.sort();
        check_names(&map.files)?;
        let mut places = vec![0; map.files.len()];
        for (place, file) in map.files.iter().enumerate() {
            if let Some(at) = numbers.get(file).and_then(|number| places.get_mut(*number)) {
                *at = place;
            }
        }
        let place = |file: usize| places.get(file).copied().unwrap_or_default();
        let names: Vec<&[u8]> = map.tensors.iter().map(|(at, _)| map.name(at).as_bytes()).collect();
        let order = in_order(&names).map_err(|at| twice(map.name_at(at)))?;
        let sorted = order.iter().filter_map(|at| map.tensors.get(*at as usize).cloned());
        map.tensors = sorted.map(|(name, file)| (name, number(place(file as usize)))).collect();
        map.of_files = vec![Vec::new(); map.files.len()];
        for (at, (_, file)) in (0..).zip(&map.tensors) {
            if let Some(own) = map.of_files.get_mut(*file as usize) {
                own.push(at);
            }
        }
        map.groups = map.groups.into_iter().map(|(group, file)| (group, place(file))).collect();
        Ok(map)
    }
}

/// A number that may have a fraction of nothing.
fn whole(text: &str) -> Option<u64> {
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

/// The group that a tensor of HDF5 is in, as Keras names it: `/layers/dense/vars`.
pub(super) fn group_of(name: &str) -> Option<String> {
    name.rsplit_once('/').map(|(group, _)| format!("/{group}"))
}
