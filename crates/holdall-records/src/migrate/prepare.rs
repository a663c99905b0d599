//! Decides what happens to each tensor of a file before anything is written.

use super::Migration;
use super::conversion::Conversion;
use super::missing::missing;
use super::tensors::{Flat, FlatSource, describe_spec};
use crate::build::spec;
use crate::check::fits;
use crate::rules::WHICH_DATASET;
use crate::schemas::schema_of_dataset;
use crate::{HEAP, RECORDS, Records, TensorRecords as _, choose};
use holdall_core::error::Escape as _;
use holdall_core::ledger::{Expected, TensorChange};
use holdall_core::{ComponentSpec, DType, Error, Layout, Result, Role, TensorSpec};
use holdall_io::error::SAME_NAME;
use holdall_io::items::spec_of;
use holdall_io::{File, Tensor};
use holdall_schema::evolve::rules::DROPS_MEMBER;
use holdall_schema::rules::UNKNOWN_PATH;
use holdall_schema::{
    Change, ChangeKind, Checker, Converters, Document, Node, Path, Resolution, ResolveOptions,
    Root, SCHEMA_ATTRIBUTE, Verdict, diff, resolve,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A migration of one file with all decisions made.
pub(super) struct Prepared {
    /// The tensors of the new file, in the order of the old one; defaults come last.
    pub(super) works: Vec<Work>,
    /// Paths of the new schema that the new file does not have, and their types.
    pub(super) absent: Vec<(String, String)>,
    /// Tensors and datasets that are left out, and their types.
    pub(super) dropped: Vec<(String, Option<String>)>,
}

/// One tensor of the new file.
pub(super) enum Work {
    /// A copy of a tensor under this name.
    Copied(Tensor, String),
    Flat(Box<Flat>),
    Records(Box<Job>),
}

/// A dataset to migrate, its name in the new file, and the new schema of its records.
pub(super) struct Job {
    pub(super) name: String,
    pub(super) target: String,
    pub(super) records: Records,
    pub(super) to: Document,
    pub(super) resolution: Resolution,
    pub(super) converters: Converters<'static>,
}

/// The renames and converters, sorted by what they apply to.
struct Options<'m> {
    /// Tensors of the old file and their names in the new one.
    tensors: HashMap<&'m str, &'m str>,
    /// New and old names of members.
    renames: Vec<(&'m str, &'m str)>,
    /// Converters, by the path of their result.
    conversions: Vec<(&'m str, &'m Conversion)>,
    used: HashSet<&'m str>,
    /// The names of the datasets in the old file, and their names in the new one.
    names: Vec<String>,
    targets: Vec<String>,
}

impl Options<'_> {
    /// Parses a path of the new schema in the records of the dataset that is called `target` there.
    fn new_path(&self, text: &str, target: &str) -> Result<Option<Path>> {
        Path::within_dataset(text, target, self.targets.iter().map(String::as_str))
    }

    /// Parses a path in the records of the old file's dataset `name`.
    fn old_path(&self, text: &str, name: &str) -> Result<Option<Path>> {
        Path::within_dataset(text, name, self.names.iter().map(String::as_str))
    }
}

impl Migration {
    /// Decides what happens to each tensor of a file.
    pub(super) fn prepare(&self, file: &File) -> Result<Prepared> {
        let is_whole = matches!(self.schema.schema.root(), Root::References(_));
        let mut options = self.options(file, is_whole)?;
        let mut out = Prepared { works: vec![], absent: vec![], dropped: vec![] };
        let mut datasets: Vec<(Tensor, String, Document)> = Vec::new();
        // The index of each dataset in `works`.
        let mut indices = Vec::new();
        let only = match is_whole {
            true => None,
            false => Some(choose::dataset(file, self.dataset.as_deref())?.name().to_owned()),
        };
        for tensor in file.tensors() {
            let name = tensor.name();
            let target = (*options.tensors.get(name).unwrap_or(&name)).to_owned();
            if let Some(only) = &only {
                match only == name {
                    true => {
                        indices.push(out.works.len());
                        datasets.push((tensor, target, self.schema.clone()));
                    }
                    false => out.works.push(Work::Copied(tensor, target)),
                }
                continue;
            }
            let placed = |e: Error| e.in_tensor(name).in_source(file.name());
            let is_dataset = *tensor.layout() == Layout::Records;
            let found = match is_dataset {
                true => self.schema.dataset(Some(&target), &self.limits).map(|(_, to)| Some(to)),
                false => self.schema.find_node(&target).map(|_| None),
            };
            match found {
                Ok(Some(to)) => {
                    indices.push(out.works.len());
                    datasets.push((tensor, target, to));
                }
                Ok(None) => {
                    let work = self.tensor(&tensor, target, &mut options).map_err(placed)?;
                    out.works.push(work);
                }
                Err(_) if self.may_drop => {
                    let old = (*tensor.layout() == Layout::Dense)
                        .then(|| describe_spec(&spec_of(&tensor)));
                    out.dropped.push((name.to_owned(), old));
                }
                Err(e) => {
                    let what = if is_dataset { "dataset" } else { "tensor" };
                    let e = DROPS_MEMBER.broken(format!("the {what} would be left out")).because(e);
                    return Err(placed(e));
                }
            }
        }
        options.names = datasets.iter().map(|(tensor, ..)| tensor.name().to_owned()).collect();
        options.targets = datasets.iter().map(|(_, target, _)| target.clone()).collect();
        self.check_members(file, &options, &datasets, is_whole)?;
        if is_whole {
            let names = out.works.iter().map(|work| work.target().to_owned());
            let names: Vec<String> =
                names.chain(datasets.iter().map(|(_, target, _)| target.clone())).collect();
            let missing_tensors = missing(&self.schema, names.into_iter(), &self.limits)
                .map_err(|e| e.in_source(file.name()))?;
            out.works
                .extend(missing_tensors.filled.into_iter().map(|flat| Work::Flat(Box::new(flat))));
            let absent = missing_tensors
                .absent
                .into_iter()
                .map(|(path, to)| (path.to_string(), to.describe()));
            out.absent = absent.collect();
        }
        for (shift, (at, (tensor, target, to))) in indices.into_iter().zip(datasets).enumerate() {
            let name = tensor.name().to_owned();
            let placed = |e: Error| e.in_tensor(&*name).in_source(file.name());
            let job = self.job(&tensor, target, to, &mut options).map_err(placed)?;
            out.works.insert(at + shift, Work::Records(Box::new(job)));
        }
        if let (true, Some(specs)) = (is_whole, out.specs()?) {
            let (_, attributes) = self.attributes(file, &out);
            fits(&specs, &attributes, &self.schema.json)?
                .map_err(|e| e.in_source(&self.schema.name))?;
        }
        Ok(out)
    }

    /// Separates renames of tensors from renames of members.
    fn options(&self, file: &File, is_whole: bool) -> Result<Options<'_>> {
        let mut tensors: HashMap<&str, &str> = HashMap::new();
        let mut renames = Vec::new();
        for (new, old) in &self.renames {
            if !(is_whole && file.index().get(old).is_some()) {
                renames.push((new.as_str(), old.as_str()));
            } else if let Some(other) = tensors.insert(old, new).filter(|other| other != new) {
                let message =
                    format!("it is renamed to both `{}` and `{}`", other.escaped(), new.escaped());
                return Err(SAME_NAME.broken(message).in_tensor(old).in_source(file.name()));
            }
        }
        let conversions = self.conversions.iter().map(|(path, c)| (path.as_str(), c)).collect();
        let (names, targets) = (Vec::new(), Vec::new());
        Ok(Options { tensors, renames, conversions, used: HashSet::new(), names, targets })
    }

    /// Prepares a tensor that is not a dataset, under a schema that has a tensor at its path.
    fn tensor<'m>(
        &self,
        tensor: &Tensor,
        target: String,
        options: &mut Options<'m>,
    ) -> Result<Work> {
        let conversion = options.conversions.iter().find(|(path, _)| *path == target);
        if let Some((path, _)) = conversion {
            options.used.insert(path);
        }
        let to = self.schema.find_node(&target)?;
        match self.schema.schema.node(to) {
            Node::Flat { tensor: to, .. } => {
                let conversion = conversion.map(|(_, c)| *c);
                Ok(Work::Flat(Box::new(Flat::new(tensor, &target, to, conversion)?)))
            }
            _ => Ok(Work::Copied(tensor.clone(), target)),
        }
    }

    /// Prepares a dataset under a new schema for its records.
    fn job(
        &self,
        tensor: &Tensor,
        target: String,
        to: Document,
        options: &mut Options<'_>,
    ) -> Result<Job> {
        let (name, records) = (tensor.name().to_owned(), tensor.records()?);
        let mut limits = self.limits.clone();
        limits.decoded_len = limits.decoded_len.min(records.limits().decoded_len);
        let mut how = ResolveOptions::default().with_limits(limits);
        for (new, old) in &options.renames {
            if let (Some(new), Some(old)) =
                (options.new_path(new, &target)?, options.old_path(old, &name)?)
            {
                how = how.with_rename(new, old);
            }
        }
        let schemas = (Arc::new(records.schema().clone()), Arc::new(to.schema.clone()));
        let mut converters = Converters::new();
        for (path, conversion) in &options.conversions {
            if options.used.contains(path) {
                continue;
            }
            if let Some(at) = options.new_path(path, &target)? {
                // Functions have no name, so they are identified by the path of their result.
                let id = match &conversion.chain {
                    Some(chain) => chain.as_str().to_owned(),
                    None => format!("a function for {path}"),
                };
                converters =
                    conversion.add_to(converters, &id, (&schemas.0, &schemas.1), &self.limits);
                how = how.with_converter(at, id);
            }
        }
        let Some(ty) = to.schema.record() else {
            return Err(WHICH_DATASET.broken("this is not the schema of a record"));
        };
        let resolution = resolve(records.schema(), records.ty(), &to.schema, ty, &how)?;
        if !self.may_drop {
            resolution.keeps_all()?;
        }
        Ok(Job { name, target, records, to, resolution, converters })
    }

    /// Checks that renames and converters of members refer to members of a dataset of the file.
    fn check_members(
        &self,
        file: &File,
        options: &Options<'_>,
        datasets: &[(Tensor, String, Document)],
        is_whole: bool,
    ) -> Result<()> {
        let renames = options.renames.iter().map(|(new, old)| (*new, Some(*old)));
        let conversions = options.conversions.iter().map(|(path, _)| *path);
        let conversions = conversions.filter(|path| !options.used.contains(path));
        for (new, old) in renames.chain(conversions.map(|path| (path, None))) {
            let path: Path = new.parse()?;
            let is_named = options.targets.iter().any(|target| path.below(target).is_some());
            if let ([_, _, ..], false) = (datasets, is_named) {
                let message =
                    format!("`{}` is ambiguous: the file has several datasets", new.escaped());
                let hint = "write the path of the dataset first: `points[].x`";
                return Err(WHICH_DATASET.broken(message).with_hint(hint));
            }
            let about = |(tensor, target, _): &(Tensor, String, Document)| {
                let old = match old {
                    Some(old) => options.old_path(old, tensor.name())?.is_some(),
                    None => true,
                };
                Ok::<bool, Error>(options.new_path(new, target)?.is_some() && old)
            };
            if datasets.iter().map(about).collect::<Result<Vec<bool>>>()?.contains(&true) {
                continue;
            }
            let what =
                if is_whole { "no tensor and no dataset member" } else { "no dataset member" };
            let message = match old {
                Some(old) => {
                    format!(
                        "cannot rename `{}` to `{}`: {what} of the file has these paths",
                        old.escaped(),
                        new.escaped()
                    )
                }
                None => {
                    format!("cannot convert `{}`: {what} of the file has this path", new.escaped())
                }
            };
            return Err(UNKNOWN_PATH.broken(message).in_source(file.name()));
        }
        Ok(())
    }
}

impl Prepared {
    /// Returns the descriptions of the new tensors, or `None` if a length is known only after decoding.
    pub(super) fn specs(&self) -> Result<Option<Vec<TensorSpec>>> {
        let mut specs = Vec::with_capacity(self.works.len());
        for work in &self.works {
            specs.push(match work {
                Work::Flat(flat) => flat.spec.clone(),
                Work::Records(job) => job.spec(0)?,
                Work::Copied(tensor, target) => match TensorSpec::from_info(tensor.sound()?.info())
                {
                    Some(spec) => TensorSpec { name: target.clone(), ..spec },
                    None => return Ok(None),
                },
            });
        }
        Ok(Some(specs))
    }

    /// Returns the requested changes, for the check of the written file.
    pub(super) fn expected(&self) -> Expected {
        let mut expected = Expected::new();
        expected.change_attribute(SCHEMA_ATTRIBUTE);
        let mut change = |old: &str, new: &str, how: fn(&mut TensorChange)| {
            let change = expected.tensor(old);
            change.name = Some(new.to_owned());
            how(change);
        };
        for work in &self.works {
            match work {
                Work::Copied(tensor, target) => change(tensor.name(), target, |_| ()),
                Work::Records(job) => {
                    change(&job.name, &job.target, |change| change.elements = true)
                }
                Work::Flat(flat) => {
                    let how: fn(&mut TensorChange) = match flat.how {
                        FlatSource::Same(_) => |change| change.shape = true,
                        _ => |change| change.elements = true,
                    };
                    if let Some(tensor) = flat.tensor() {
                        change(tensor.name(), &flat.spec.name, how);
                    }
                }
            }
        }
        for (name, _) in &self.dropped {
            expected.tensor(name).left_out = true;
        }
        expected
    }

    /// Returns the datasets to migrate.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.works.iter().filter_map(|work| match work {
            Work::Records(job) => Some(&**job),
            _ => None,
        })
    }
}

impl Work {
    /// Returns the name in the new file.
    fn target(&self) -> &str {
        match self {
            Work::Copied(_, target) => target,
            Work::Flat(flat) => &flat.spec.name,
            Work::Records(job) => &job.target,
        }
    }
}

impl Job {
    /// Returns the description of the new dataset, with `heap_len` bytes in its heap if it has one.
    pub(super) fn spec(&self, heap_len: u64) -> Result<TensorSpec> {
        let schema = &self.to.schema;
        let Some(ty) = schema.record() else {
            return Err(WHICH_DATASET.broken("this is not the schema of a record"));
        };
        let count = self.records.len();
        let mut spec = spec(&self.target, RECORDS, count, self.to.normal_text());
        let len = count.saturating_mul(schema.extent(ty)?.stride);
        spec.components.push(ComponentSpec::new(Role::Data, DType::U8, len));
        if schema.ty(ty).heap_align.is_some() {
            let role = Role::from_name(HEAP);
            spec.components.push(ComponentSpec::new(role, DType::U8, heap_len));
        }
        Ok(spec)
    }

    /// Returns a checker of the new records against the keywords of their schema, if these may be stricter than the old
    /// ones or include the caller's own keywords.
    pub(super) fn checker(
        &self,
        limits: &holdall_schema::SchemaLimits,
    ) -> Result<Option<Checker<'_>>> {
        let old = schema_of_dataset(self.records.tensor().file(), &self.name)?;
        let sides = ((&old.schema, &old.json), (&self.to.schema, &self.to.json));
        let changes = diff(sides.0, sides.1, limits)?;
        let is_open = |c: &Change| c.verdict > Verdict::Compatible && c.what != ChangeKind::Removed;
        let own = &self.to.vocabulary;
        match Checker::IS_BUILT && (!own.is_empty() || changes.iter().any(is_open)) {
            true => Checker::with_vocabulary(&self.to.schema, &self.to.json, own, limits).map(Some),
            false => Ok(None),
        }
    }
}
