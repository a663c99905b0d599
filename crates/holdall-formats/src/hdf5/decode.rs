//! Decodes the groups of a file, from the root on, into an index.

use super::attribute::{Attribute, Budget, attributes};
use super::dataset::{Data, Dataset, dataset, is_dataset};
use super::datatype::{ElementKind, Elements};
use super::group::{Target, is_group, links};
use super::header::Header;
use super::reader::{FIRST, Reader};
use super::resolve::{DatasetResolver, needs_resolving};
use super::superblock::{Start, start};
use super::variable_length::{Paths, Room};
use super::{DEPTH, LINK, LOOP};
use crate::array::{DESCR, describe};
use crate::kept;
use holdall_collections::sort_by;
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::{Error, ErrorKind, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{
    Attributes, ByteOrder, Checksum, Component, DType, Encoding, Index, IndexBuilder, Layout, Role,
    Value, element_count,
};
use holdall_core::read::Extent;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::npy::ENUM_KEYWORD as NAMES;

/// The code of the warning for attributes kept as text that cannot be parsed.
const RESTORE: &str = "hdf5/restore";
/// The maximum number of soft links that are followed, one after the other.
const STEPS: usize = 16;

/// Decodes the index of an HDF5 file.
pub(super) fn decode_hdf5(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    decode(super::FORMAT.id, window, limits)
}

/// Decodes the index of a `.keras` file, a zip with an HDF5 file.
pub(super) fn decode_keras(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    decode(super::KERAS.id, window, limits)
}

fn decode(id: &'static str, window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let Start { reader, root, is_open, beside, checksum } = start(window, limits)?;
    let mut walk = Walk::new(&reader);
    walk.all(root)?;
    sort_by(&mut walk.entries, |(a, _), (b, _)| a.cmp(b));
    walk.resolve_references()?;
    Ok(walk.index(id, beside, checksum, is_open)?)
}

/// The objects of a file that have been found.
struct Walk<'a, 'w> {
    reader: &'a Reader<'w>,
    budget: Budget,
    /// The path under which each group is read, by the address of its header; and the set of these paths.
    groups: HashMap<u64, String>,
    paths: HashSet<String>,
    /// The attributes of groups, by path.
    attributes: Vec<(String, Vec<Attribute>)>,
    /// The datasets, and their indices by the addresses of their headers.
    datasets: Vec<Dataset>,
    numbers: HashMap<u64, usize>,
    /// The paths of links, and their targets.
    entries: Vec<(String, Entry)>,
    /// Descriptions of contents that are ignored.
    unrepresented: Vec<String>,
}

enum Entry {
    Dataset(usize),
    /// A soft link: the path of its target, from the root.
    Path(String),
    /// A group that is read under another path, which is given.
    Group(String),
    Elsewhere(String),
    /// An object that cannot be read, with the error.
    Broken(Error),
}

impl<'a, 'w> Walk<'a, 'w> {
    fn new(reader: &'a Reader<'w>) -> Walk<'a, 'w> {
        Walk {
            reader,
            budget: Budget::new(reader),
            groups: HashMap::default(),
            paths: HashSet::default(),
            attributes: Vec::new(),
            datasets: Vec::new(),
            numbers: HashMap::default(),
            entries: Vec::new(),
            unrepresented: Vec::new(),
        }
    }

    /// Finds all objects, level by level. If bytes are missing, all bytes that the level needs are requested together.
    fn all(&mut self, root: u64) -> Result<(), Stop> {
        let mut level = vec![(String::new(), root)];
        let mut needs = Vec::new();
        let mut depth = 0usize;
        while !level.is_empty() {
            let most = self.reader.limits.depth;
            if depth > most {
                let message = format!("groups are nested deeper than {most}");
                return Err(DEPTH.broken(message).into());
            }
            depth = depth.saturating_add(1);
            match self.reader.ask(level.iter().map(|(_, at)| (*at, FIRST))) {
                Err(Stop::Need(mut ranges)) => {
                    needs.append(&mut ranges);
                    break;
                }
                asked => asked?,
            }
            let mut next = Vec::new();
            for (path, at) in level {
                match self.object(&path, at, &mut next) {
                    Ok(()) => {}
                    Err(Stop::Need(mut ranges)) => needs.append(&mut ranges),
                    // Exceeded limits concern the whole file, and without the root there is no index.
                    Err(Stop::Fail(e)) if !path.is_empty() && e.kind() != ErrorKind::Limit => {
                        self.entries.push((path, Entry::Broken(e)));
                    }
                    // Errors are returned only if no earlier bytes are missing, so that the first error does not depend
                    // on which bytes are available.
                    Err(failed) if needs.is_empty() => return Err(failed),
                    Err(_) => return Err(Stop::Need(needs)),
                }
            }
            level = next;
        }
        match needs.is_empty() {
            true => Ok(()),
            false => Err(Stop::Need(needs)),
        }
    }

    /// Adds the object at an address. `path` is the path of the link to it.
    fn object(&mut self, path: &str, at: u64, next: &mut Vec<(String, u64)>) -> Result<(), Stop> {
        if let Some(number) = self.numbers.get(&at) {
            self.entries.push((path.to_owned(), Entry::Dataset(*number)));
            return Ok(());
        }
        if let Some(first) = self.groups.get(&at) {
            self.entries.push((path.to_owned(), Entry::Group(first.clone())));
            return Ok(());
        }
        let header = Header::read(self.reader, at)?;
        if is_dataset(&header) && !path.is_empty() {
            let found = dataset(self.reader, &header, &mut self.budget)?;
            let number = self.datasets.len();
            self.datasets.push(found);
            self.numbers.insert(at, number);
            self.entries.push((path.to_owned(), Entry::Dataset(number)));
            return Ok(());
        }
        if !is_group(&header) {
            if path.is_empty() {
                return Err(self.reader.broken(at, "the root is not a group").into());
            }
            self.unrepresented
                .push(format!("`{}`, which is neither a group nor a dataset", path.escaped()));
            return Ok(());
        }
        let links = links(self.reader, &header)?;
        let own = attributes(self.reader, &header, &mut self.budget)?;
        for link in links {
            let inside = match path.is_empty() {
                true => link.name,
                false => format!("{path}/{}", link.name),
            };
            match link.to {
                Target::Object(at) => next.push((inside, at)),
                Target::Path(to) => {
                    let to = from_root(path, &to);
                    self.entries.push((inside, Entry::Path(to)));
                }
                Target::Elsewhere(what) => self.entries.push((inside, Entry::Elsewhere(what))),
            }
        }
        self.groups.insert(at, path.to_owned());
        self.attributes.push((path.to_owned(), own));
        self.paths.insert(path.to_owned());
        Ok(())
    }

    /// Resolves references in attributes and datasets, virtual datasets, and values of variable length, which depend on
    /// other objects of the file.
    fn resolve_references(&mut self) -> Result<(), Stop> {
        let mut paths: Paths = HashMap::default();
        for (at, path) in &self.groups {
            paths.insert(*at, format!("/{path}"));
        }
        let mut first: HashMap<usize, &str> = HashMap::default();
        for (path, entry) in &self.entries {
            if let Entry::Dataset(number) = entry {
                first.entry(*number).or_insert(path);
            }
        }
        for (at, number) in &self.numbers {
            paths.insert(*at, format!("/{}", first.get(number).copied().unwrap_or_default()));
        }
        for (_, own) in &mut self.attributes {
            for attribute in own {
                attribute.finish(self.reader, &paths)?;
            }
        }
        for attribute in self.datasets.iter_mut().flat_map(|dataset| &mut dataset.attributes) {
            attribute.finish(self.reader, &paths)?;
        }
        let indices: HashMap<&str, usize> =
            self.entries.iter().enumerate().map(|(at, (path, _))| (path.as_str(), at)).collect();
        let find = |path: &str| self.resolve(&indices, &Entry::Path(from_root("", path)));
        let mut resolver = DatasetResolver {
            reader: self.reader,
            datasets: &self.datasets,
            find: &find,
            paths: &paths,
            room: Room::new(self.reader.limits),
        };
        let pending = (0..).zip(&self.datasets).filter(|(_, dataset)| needs_resolving(dataset));
        let (mut found, mut needs) = (Vec::new(), Vec::new());
        for (number, _) in pending {
            match resolver.resolve(number) {
                Ok(resolved) => found.push((number, Ok(resolved))),
                Err(Stop::Fail(e)) => found.push((number, Err(e))),
                Err(Stop::Need(mut ranges)) => needs.append(&mut ranges),
            }
        }
        if !needs.is_empty() {
            return Err(Stop::Need(needs));
        }
        for (number, resolved) in found {
            let Some(dataset) = self.datasets.get_mut(number) else { continue };
            match resolved {
                Ok((data, kind)) => {
                    dataset.kind = kind.or_else(|| dataset.kind.take());
                    dataset.data = match std::mem::replace(&mut dataset.data, Ok(placeholder())) {
                        Ok((elements, _)) => Ok((elements, data)),
                        Err(e) => Err(e),
                    };
                }
                Err(e) => {
                    dataset.kind = None;
                    dataset.data = Err(e);
                }
            }
        }
        Ok(())
    }

    /// Builds the index of the objects.
    fn index(
        mut self,
        id: &'static str,
        beside: Attributes,
        checksum: Option<Checksum>,
        is_open: bool,
    ) -> Result<Index> {
        let reader = self.reader;
        let len = reader.window.len();
        let mut builder = IndexBuilder::new(id, "", len, 0..len, reader.limits);
        checksum.into_iter().for_each(|checksum| builder.checksum(checksum));
        let mut file = beside;
        let mut keys: HashSet<String> = file.iter().map(|(key, _)| key.to_owned()).collect();
        sort_by(&mut self.attributes, |(a, _), (b, _)| a.cmp(b));
        for (path, own) in std::mem::take(&mut self.attributes) {
            for Attribute { name, value, .. } in own {
                let key = match path.is_empty() {
                    true => name,
                    false => format!("{path}/{name}"),
                };
                match value {
                    _ if keys.contains(&key) => {
                        self.unrepresented.push(format!("another attribute `{}`", key.escaped()));
                    }
                    Ok(value) => {
                        keys.insert(key.clone());
                        file.push(key, value);
                    }
                    Err(what) => self.unrepresented.push(ignored_attribute(&key, &what)),
                }
            }
        }
        let file = kept::restore_own(file, reader.limits, |why| {
            builder.warn(RESTORE, None, None, || stays_text(&why).into());
        });
        builder.attributes(file);
        if is_open {
            builder.warn("hdf5/not-closed", None, None, || {
                "the writer did not close the file: some of its contents may be missing".into()
            });
        }
        let indices: HashMap<&str, usize> =
            self.entries.iter().enumerate().map(|(at, (path, _))| (path.as_str(), at)).collect();
        // The sources of the data and the heap of each dataset, once it is a tensor.
        let mut sources: HashMap<usize, (Extent, Option<Extent>)> = HashMap::default();
        let mut known = HashSet::default();
        for (path, entry) in &self.entries {
            let number = match self.resolve(&indices, entry) {
                Ok(Some(number)) => number,
                Ok(None) => {
                    self.unrepresented.push(match entry {
                        Entry::Group(_) => {
                            format!("the group `{}`, which another link leads to", path.escaped())
                        }
                        _ => format!("`{}`, a link to a group", path.escaped()),
                    });
                    continue;
                }
                Err(e) => {
                    builder.tensor(path, &[], Layout::Dense)?;
                    builder.fault(e);
                    continue;
                }
            };
            let Some(dataset) = self.datasets.get(number) else { continue };
            if !known.insert(number) {
                self.budget.take(reader, dataset.values)?;
            }
            if dataset.kind.is_some() {
                let count = element_count(&dataset.shape).unwrap_or(u64::MAX);
                builder.tensor(path, &[count], Layout::Records)?;
            } else {
                builder.tensor(path, &dataset.shape, Layout::Dense)?;
            }
            let mut own = Attributes::new();
            for Attribute { name, value, .. } in &dataset.attributes {
                match value {
                    Ok(value) => own.set(name.clone(), value.clone()),
                    Err(what) => {
                        let key = format!("{path}/{name}");
                        self.unrepresented.push(ignored_attribute(&key, what));
                    }
                }
            }
            let mut own = kept::restore_own(own, reader.limits, |why| {
                builder.warn(RESTORE, Some(path), None, || stays_text(&why).into());
            });
            if let Some(kind) = &dataset.kind {
                describe(&mut own, kind.clone(), &dataset.shape);
            }
            if let Ok((Elements { what: ElementKind::Number(_, Some(descr)), .. }, _)) =
                &dataset.data
            {
                own.set(DESCR.to_owned(), Value::Text(descr.clone()));
            }
            if !dataset.names.is_empty() && dataset.kind.is_none() {
                let pair =
                    |(name, n): &(String, i128)| (Value::Text(name.clone()), Value::Integer(*n));
                own.set(NAMES.to_owned(), Value::Map(dataset.names.iter().map(pair).collect()));
            }
            builder.tensor_attributes(own);
            let (elements, data) = match &dataset.data {
                Ok(found) => found,
                Err(e) => {
                    builder.fault(e.clone());
                    continue;
                }
            };
            let (stored, heap) = match (data, sources.get(&number)) {
                (Data::Contiguous(place), _) => (place.clone().into(), None),
                (_, Some(known)) => *known,
                (Data::Chunked(array), None) => (builder.chunked((**array).clone())?, None),
                (Data::InIndex(stated), None) => {
                    let records = builder.stated(&stated.records);
                    let is_varying = matches!(elements.what, ElementKind::Varying);
                    (records, is_varying.then(|| builder.stated(&stated.heap)))
                }
                (Data::Virtual(_), None) => continue,
            };
            sources.insert(number, (stored, heap));
            let (dtype, logical_type, byte_order) = match &elements.what {
                ElementKind::Number(number, _) => {
                    (number.dtype, number.logical.clone(), number.order)
                }
                _ => (DType::U8, None, ByteOrder::Little),
            };
            builder.component(Component {
                role: Role::Data,
                dtype,
                logical_type,
                encoding: Encoding::Raw,
                byte_order,
                stored,
                decoded_len: Some(stored.len()),
                digest: None,
            })?;
            if let Some(stored) = heap {
                builder.component(Component {
                    role: Role::BlobData,
                    dtype: DType::U8,
                    logical_type: None,
                    encoding: Encoding::Raw,
                    byte_order: ByteOrder::Little,
                    stored,
                    decoded_len: Some(stored.len()),
                    digest: None,
                })?;
            }
        }
        for what in std::mem::take(&mut self.unrepresented) {
            builder.unrepresented(|| what);
        }
        builder.finish()
    }

    /// Returns the index of the dataset that an entry refers to; `None` if it refers to a group.
    fn resolve(&self, indices: &HashMap<&str, usize>, entry: &Entry) -> Result<Option<usize>> {
        // The path of a group so far, and the remaining names, the next one last.
        let (mut so_far, mut rest) = (String::new(), Vec::new());
        match self.followed(entry)? {
            Followed::Dataset(number) => return Ok(Some(number)),
            Followed::Path(path) => rest.extend(parts(path).rev()),
        }
        // The number of links followed, counting the next one.
        let mut links = 2..STEPS;
        while let Some(part) = rest.pop() {
            if !so_far.is_empty() {
                so_far.push('/');
            }
            so_far.push_str(part);
            if self.paths.contains(so_far.as_str()) {
                continue;
            }
            let found = indices.get(so_far.as_str()).and_then(|at| self.entries.get(*at));
            match found.map(|(_, entry)| self.followed(entry)).transpose()? {
                Some(Followed::Dataset(number)) if rest.is_empty() => return Ok(Some(number)),
                Some(Followed::Path(path)) => {
                    if links.next().is_none() {
                        return Err(LOOP.broken(format!("it is a chain of {STEPS} or more links")));
                    }
                    so_far.clear();
                    rest.extend(parts(path).rev());
                }
                _ => {
                    rest.push(&so_far);
                    rest.reverse();
                    let path = rest.join("/");
                    let message =
                        format!("it is a link to `{}`, which does not exist", path.escaped());
                    return Err(LINK.broken(message));
                }
            }
        }
        Ok(None)
    }

    fn followed<'e>(&self, entry: &'e Entry) -> Result<Followed<'e>> {
        match entry {
            Entry::Dataset(number) => Ok(Followed::Dataset(*number)),
            Entry::Path(path) | Entry::Group(path) => Ok(Followed::Path(path)),
            Entry::Elsewhere(what) => Err(LINK.broken(format!("it is a link to {what}"))),
            Entry::Broken(e) => Err(e.clone()),
        }
    }
}

/// Returns data without bytes, which takes the place of a dataset's data while that is moved out by `mem::replace`.
fn placeholder() -> (Elements, Data) {
    let elements = Elements { what: ElementKind::Varying, inner: Vec::new(), is_marked: false };
    (elements, Data::Contiguous(0..0))
}

/// The target of an entry.
enum Followed<'e> {
    Dataset(usize),
    Path(&'e str),
}

/// Returns a path from the root, given a path that is relative to the group `group`.
fn from_root(group: &str, path: &str) -> String {
    let base = if path.starts_with('/') { "" } else { group };
    let parts: Vec<&str> = parts(base).chain(parts(path)).collect();
    parts.join("/")
}

/// Returns the names in a path.
fn parts(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

fn stays_text(why: &str) -> String {
    format!(
        "`{}` is not in the form that Holdall writes, and is kept as text: {why}",
        kept::ATTRIBUTES
    )
}

fn ignored_attribute(key: &str, what: &str) -> String {
    format!("the attribute `{}`: {what}", key.escaped())
}
