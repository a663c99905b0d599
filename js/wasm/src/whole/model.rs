//! Models in several files: finding their files, and opening them as one.

use crate::Answer;
use crate::file::{File, JOINED};
use crate::json::{self, CALL, Object};
use holdall_collections::HashMap;
use holdall_core::error::Escape as _;
use holdall_core::read::join;
use holdall_core::{Bytes, Error, Index, Limits, Stop, Warning, Window};
use holdall_formats::folders::{ModelFiles, by_entry, chosen, missing, too_many, variants};
use holdall_formats::pytorch::checkpoint::{Checkpoint, NAME};
use holdall_formats::pytorch::{CHECKPOINT, FORMAT};
use holdall_formats::shards::{
    Map, NO_MODEL, SHARD_MISSING, Shard, Split, check_names, has_unavailable_data, joined,
};
use holdall_package::CARTON_TOML;
use std::ops::Range;
use std::rc::Rc;

/// States of a file, as reported by the host: it exists; it is a link that leads out of the
/// folder.
const PRESENT: u32 = 1;
const OUTSIDE: u32 = 2;
/// Bytes that are fetched first from each end of a checkpoint's item: most items are described
/// there completely.
const FIRST: u64 = 1 << 10;

/// A model that is being opened. The host provides the requested files, by name, and ranges of
/// them.
pub(crate) struct Model {
    limits: Limits,
    kind: ModelKind,
    /// The requested files, in the order of the requests.
    files: Vec<Part>,
    /// The indices of the files, by name.
    numbers: HashMap<String, usize>,
    /// The number of files that the host has provided.
    given: usize,
    map: Option<Rc<Map>>,
    checkpoint: Option<Rc<Checkpoint>>,
    /// The indices of the checkpoint's items, as far as they are known.
    items: Vec<Option<Index>>,
}

/// The model to open.
enum ModelKind {
    /// A folder with files of these names.
    Folder(Vec<String>),
    /// The file of that name, with the further files that belong to it.
    File(String),
}

/// A requested file.
struct Part {
    name: String,
    /// The bytes received so far; `None` if the file does not exist.
    window: Option<Window>,
    is_outside: bool,
    index: Option<Index>,
}

/// The reason for an interruption.
enum Lack {
    /// Files with these names are needed; whether links must stay inside the model's folder.
    Files(Vec<String>, bool),
    /// Ranges of files are needed, by the indices of the files.
    Ranges(Vec<(usize, Range<u64>)>),
    Fail(Error),
}

impl From<Error> for Lack {
    fn from(e: Error) -> Lack {
        Lack::Fail(e)
    }
}

/// An index, and the indices of the files that are its sources.
type Opened = (Index, Vec<usize>);

impl Model {
    /// Begins to open a model. The input is the names of the files in a folder, separated by
    /// NULs, or the name of a file.
    pub(crate) fn begin(input: &[u8], is_folder: bool, limits: &Limits) -> Model {
        let text = String::from_utf8_lossy(input);
        let kind = match is_folder {
            true => {
                let mut names: Vec<String> = text.split('\0').map(str::to_owned).collect();
                names.sort();
                ModelKind::Folder(names)
            }
            false => ModelKind::File(text.into_owned()),
        };
        let (files, numbers, items) = (Vec::new(), HashMap::default(), Vec::new());
        let (map, checkpoint) = (None, None);
        Model { limits: limits.clone(), kind, files, numbers, given: 0, map, checkpoint, items }
    }

    /// Provides the next requested file: its length, or that it does not exist or is a link that
    /// leads out of the folder.
    pub(crate) fn file(&mut self, how: u32, len: u64) -> Result<Answer, Error> {
        let Some(part) = self.files.get_mut(self.given) else {
            return Err(CALL.broken("no file was asked for"));
        };
        part.window = (how == PRESENT).then(|| Window::new(len));
        part.is_outside = how == OUTSIDE;
        self.given += 1;
        Ok(Answer::NOTHING)
    }

    /// Adds bytes of a file at `offset`.
    pub(crate) fn add(&mut self, file: u32, offset: u64, bytes: Bytes) -> Result<Answer, Error> {
        match self.files.get_mut(file as usize).and_then(|part| part.window.as_mut()) {
            Some(window) => {
                window.add(offset, bytes);
                Ok(Answer::NOTHING)
            }
            None => Err(CALL.broken(format!("there is no file number {file}"))),
        }
    }

    /// Continues: returns the open model, with the indices of the files that are its sources, or
    /// a request: `names` of files, or `ranges`, each with the index of a file, start and end.
    pub(crate) fn step(&mut self, gap: u64) -> Result<(Answer, Option<File>), Error> {
        match self.opened() {
            Ok((index, sources)) => {
                let file = File::from_index(index);
                let sources = |out: &mut String| {
                    json::list(sources.iter().map(|n| *n as u64), out, json::integer);
                };
                let facts = file.facts()?.with("sources", sources);
                let text = facts.finish();
                Ok((Answer::text(text), Some(file)))
            }
            Err(Lack::Files(names, is_inside)) => {
                let list = |out: &mut String| {
                    json::list(&names, out, |name, out| holdall_json::write_string(name, out));
                };
                let text = Object::new().with("names", list).flag("isInside", is_inside);
                for name in names {
                    self.numbers.insert(name.clone(), self.files.len());
                    self.files.push(Part { name, window: None, is_outside: false, index: None });
                }
                Ok((Answer::Need(text.finish().into_bytes()), None))
            }
            Err(Lack::Ranges(ranges)) => {
                let text = Object::new().with("ranges", |out| {
                    json::list(near(&ranges, gap), out, json::integer);
                });
                Ok((Answer::Need(text.finish().into_bytes()), None))
            }
            // The host knows the name of the model; errors only get the name of the file in it.
            Err(Lack::Fail(e)) => Err(match e.source_name().map(str::to_owned) {
                Some(name) => e.within(name),
                None => e,
            }),
        }
    }

    fn opened(&mut self) -> Result<Opened, Lack> {
        let all = match &self.kind {
            ModelKind::Folder(names) => names.clone(),
            ModelKind::File(name) => {
                let name = name.clone();
                return match by_entry(&name) {
                    Some(ModelFiles::Index(name, more)) => self.open_index(name, more),
                    Some(ModelFiles::Checkpoint(_)) => self.open_checkpoint(),
                    _ => self.open_file(&name),
                };
            }
        };
        if all.iter().any(|name| name == CARTON_TOML) {
            let message = "the folder is that of a package, which is read here from its file";
            return Err(NO_MODEL.broken(message).into());
        }
        match chosen(&all) {
            ModelFiles::Index(name, more) => self.open_index(name, more),
            ModelFiles::Whole(name, warning) => {
                let parts = self.there(&[name.to_owned()])?;
                let index = self.index_of(parts[0])?;
                let index = joined(&[Shard::new(name, index)], vec![warning], &self.limits)?;
                Ok((index, parts))
            }
            ModelFiles::Checkpoint(_) => self.open_checkpoint(),
            ModelFiles::File(name) => self.open_file(name),
            // All the others are what it names.
            ModelFiles::Root(root, names) => match self.open_file(root) {
                Ok((_, sources)) if sources.len() != names.len() => Err(too_many(&names).into()),
                opened => opened,
            },
            ModelFiles::Shards(names) => {
                let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
                let parts = self.there(&names)?;
                let indices = self.indices(&parts)?;
                let shards = names.iter().zip(indices);
                let shards: Vec<Shard> = shards.map(|(name, i)| Shard::new(name, i)).collect();
                Ok((joined(&shards, Vec::new(), &self.limits)?, parts))
            }
            ModelFiles::Several(names) => Err(too_many(&names).into()),
            ModelFiles::Variants(names) => Err(variants(&names).into()),
            ModelFiles::Incomplete(names) => Err(missing(&names).into()),
            ModelFiles::Arrays => {
                let message = "there is no file of tensors, and no index of them";
                Err(NO_MODEL.broken(message).into())
            }
        }
    }

    /// Opens the model that an index file describes; `more` is an additional warning.
    fn open_index(&mut self, name: &str, more: Option<Warning>) -> Result<Opened, Lack> {
        let in_context = |e: Error| e.in_source(name.escaped());
        let map = match self.map.clone() {
            Some(map) => map,
            None => {
                let at = self.there(&[name.to_owned()])?[0];
                let len = self.window(at)?.len();
                Map::check_len(len).map_err(in_context)?;
                let map = Map::read(&self.bytes(at, 0..len)?, name).map_err(in_context)?;
                self.map.insert(Rc::new(map)).clone()
            }
        };
        let parts = self.there(map.files())?;
        let indices = self.indices(&parts)?;
        let (mut shards, mut checked) = (Vec::new(), Vec::new());
        for (number, (file, index)) in map.files().iter().zip(indices).enumerate() {
            let mut shard = Shard::new(file, index);
            checked.push(map.check(number, &mut shard, name));
            shards.push(shard);
        }
        let mut warnings = Vec::from_iter(more);
        let all: Vec<&Shard> = shards.iter().collect();
        warnings.extend(map.check_all(&all, checked, name).map_err(in_context)?);
        Ok((joined(&shards, warnings, &self.limits)?, parts))
    }

    /// Opens a file with its other parts, or with the neighbouring files that hold bytes of its
    /// tensors.
    fn open_file(&mut self, name: &str) -> Result<Opened, Lack> {
        let at = self.there(&[name.to_owned()])?[0];
        let index = self.index_of(at)?;
        if let Some(split) = Split::from_index(&index, name)? {
            let mut parts = vec![at];
            parts.extend(self.there(&split.others())?);
            let indices = self.indices(&parts)?;
            for (no, index) in (1..).zip(indices.iter().skip(1)) {
                split.check(no, index)?;
            }
            split.check_all(indices.iter().map(Index::len).sum())?;
            let names = parts.iter().map(|part| self.files[*part].name.clone());
            let shards: Vec<Shard> = names.zip(indices).map(|(n, i)| Shard::new(n, i)).collect();
            return Ok((joined(&shards, Vec::new(), &self.limits)?, parts));
        }
        let beside =
            holdall_formats::by_name(index.format()).and_then(|format| format.external_files);
        let Some(beside) = beside.filter(|_| has_unavailable_data(&index)) else {
            return Ok((index, vec![at]));
        };
        let stopped = |stop| lack_of(at, stop);
        let names = (beside.names)(self.window(at)?, &self.limits).map_err(stopped)?;
        let paths: Vec<String> = names.iter().map(|own| (beside.path)(name, own)).collect();
        check_names(&paths)?;
        let others = self.parts(&paths, true)?;
        // Tensors whose file does not exist keep their fault.
        let (mut files, mut sources) = (Vec::new(), vec![at]);
        for (name, part) in names.into_iter().zip(others) {
            let part_of = &self.files[part];
            if part_of.is_outside {
                let message =
                    format!("`{}` is a link out of the model's folder", part_of.name.escaped());
                return Err(beside.outside.broken(message).into());
            }
            if let Some(window) = &part_of.window {
                files.push((name, window.len()));
                sources.push(part);
            }
        }
        let window = self.window(at)?;
        Ok(((beside.decode)(window, &self.limits, &files).map_err(stopped)?, sources))
    }

    /// Opens the distributed checkpoint in the folder.
    fn open_checkpoint(&mut self) -> Result<Opened, Lack> {
        let in_context = |e: Error| e.in_source(NAME);
        let checkpoint = match self.checkpoint.clone() {
            Some(checkpoint) => checkpoint,
            None => {
                let at = self.there(&[NAME.to_owned()])?[0];
                let (len, most) = (self.window(at)?.len(), self.limits.header_len);
                if len > most {
                    let message = format!("`{NAME}` has {len} bytes, at most {most}");
                    return Err(CHECKPOINT.broken(message).into());
                }
                let bytes = self.bytes(at, 0..len)?;
                let checkpoint = Checkpoint::read(&bytes, &self.limits).map_err(in_context)?;
                check_names(checkpoint.files()).map_err(in_context)?;
                self.checkpoint.insert(Rc::new(checkpoint)).clone()
            }
        };
        let parts = self.there(checkpoint.files())?;
        let is_first = self.items.is_empty();
        self.items.resize(checkpoint.items().len(), None);
        let mut needs = Vec::new();
        for (item, found) in checkpoint.items().iter().zip(&mut self.items) {
            let at = parts[item.file];
            let Some(window) = &self.files[at].window else { continue };
            let Range { start, end } = item.range;
            if end > window.len() {
                let message = format!("an item is outside of a file of {} bytes", window.len());
                let e = CHECKPOINT.broken(message).at(start..end);
                return Err(e.in_source(&self.files[at].name).into());
            }
            let mut need =
                |range: Range<u64>| needs.push((at, start + range.start..start + range.end));
            if is_first {
                let len = end - start;
                need(0..len.min(FIRST));
                need(len.saturating_sub(FIRST)..len);
            } else if found.is_none() {
                match (FORMAT.decode)(&window.part_of(start..end), &self.limits) {
                    Ok(index) => *found = Some(index),
                    Err(Stop::Need(more)) => more.into_iter().for_each(need),
                    Err(Stop::Fail(e)) => {
                        let e = e.within(format!("in the item at {start}..{end}"));
                        return Err(e.in_source(&self.files[at].name).into());
                    }
                }
            }
        }
        if !needs.is_empty() {
            return Err(Lack::Ranges(needs));
        }
        let lens: Result<Vec<u64>, Lack> =
            parts.iter().map(|at| Ok(self.window(*at)?.len())).collect();
        let items: Vec<Index> = self.items.iter().flatten().cloned().collect();
        Ok((checkpoint.join(&lens?, &items, &self.limits)?, parts))
    }

    /// Returns the indices of the files with these names, after requesting them from the host.
    fn parts(&self, names: &[String], is_inside: bool) -> Result<Vec<usize>, Lack> {
        let found = names.iter().map_while(|name| self.numbers.get(name).copied());
        let found: Vec<usize> = found.collect();
        if found.len() == names.len() {
            return Ok(found);
        }
        let mut unknown: Vec<String> = names.to_vec();
        unknown.sort();
        unknown.dedup();
        unknown.retain(|name| !self.numbers.contains_key(name));
        Err(Lack::Files(unknown, is_inside))
    }

    /// Returns the indices of files that must exist.
    fn there(&self, names: &[String]) -> Result<Vec<usize>, Lack> {
        let parts = self.parts(names, false)?;
        match parts.iter().map(|at| &self.files[*at]).find(|part| part.window.is_none()) {
            Some(part) => {
                let message = format!("`{}` is not there", part.name.escaped());
                Err(SHARD_MISSING.broken(message).into())
            }
            None => Ok(parts),
        }
    }

    fn window(&self, at: usize) -> Result<&Window, Lack> {
        let window = self.files.get(at).and_then(|part| part.window.as_ref());
        window.ok_or_else(|| CALL.broken(format!("there is no file number {at}")).into())
    }

    fn bytes(&self, at: usize, range: Range<u64>) -> Result<Bytes, Lack> {
        self.window(at)?.bytes(range).map_err(|stop| lack_of(at, stop))
    }

    fn index_of(&mut self, at: usize) -> Result<Index, Lack> {
        Ok(self.indices(&[at])?.remove(0))
    }

    /// Opens files. The ranges that any of them needs are requested together.
    fn indices(&mut self, parts: &[usize]) -> Result<Vec<Index>, Lack> {
        let (mut found, mut needs) = (Vec::with_capacity(parts.len()), Vec::new());
        for at in parts {
            let part = &mut self.files[*at];
            if let Some(index) = &part.index {
                found.push(index.clone());
                continue;
            }
            let Some(window) = &part.window else { continue };
            match holdall_formats::decode(window, &self.limits) {
                Ok(index) => found.push(part.index.insert(index).clone()),
                Err(Stop::Need(ranges)) => needs.extend(ranges.into_iter().map(|r| (*at, r))),
                Err(Stop::Fail(e)) => return Err(e.in_source(part.name.escaped()).into()),
            }
        }
        match needs.is_empty() {
            true => Ok(found),
            false => Err(Lack::Ranges(needs)),
        }
    }
}

/// Returns whether a file of that name lists the files of a model.
pub(crate) fn is_one(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| by_entry(name).is_some())
}

/// Returns the request of a file, or its error.
fn lack_of(at: usize, stop: Stop) -> Lack {
    match stop {
        Stop::Need(ranges) => Lack::Ranges(ranges.into_iter().map(|range| (at, range)).collect()),
        Stop::Fail(e) => Lack::Fail(e),
    }
}

/// Returns ranges of files, joined if they are at most `gap` bytes apart: index, start and end of
/// each.
fn near(ranges: &[(usize, Range<u64>)], gap: u64) -> Vec<u64> {
    let mut files: Vec<usize> = ranges.iter().map(|(at, _)| *at).collect();
    files.sort_unstable();
    files.dedup();
    let mut out = Vec::new();
    for file in files {
        let own = ranges.iter().filter(|(at, _)| *at == file).map(|(_, range)| range.clone());
        let own: Vec<Range<u64>> = own.collect();
        let all = join(&own, gap, JOINED);
        out.extend(all.into_iter().flat_map(|j| [file as u64, j.range.start, j.range.end]));
    }
    out
}
