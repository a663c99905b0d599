//! Rewriting a file under another schema: the operation for each tensor, as in `holdall schema
//! migrate`.

use super::dataset::Part;
use crate::Answer;
use crate::json::{CALL, Object, list, text_or_null};
use holdall_core::error::Escape as _;
use holdall_core::{
    Attributes, ComponentSpec, DType, Error, Index, Layout, Role, TensorInfo, TensorSpec, Value,
};
use holdall_formats::{convert_elements, metatensor, schema_dtype, stored_as};
use holdall_json::{parse, write_string};
use holdall_schema::evolve::rules::DROPS_MEMBER;
use holdall_schema::rules::{UNKNOWN_PATH, WHICH_DATASET};
use holdall_schema::{
    Chain, Document, Filled, Node, Path, Reading, Root, SCHEMA_ATTRIBUTE, SchemaLimits,
    TENSOR_SCHEMA_ATTRIBUTE, TensorConverter, TensorDType, TensorSource, resolve_tensor,
};

/// A planned migration of the open file.
pub(crate) struct Migration {
    works: Vec<Work>,
}

/// A tensor of the new file.
struct Work {
    /// The tensor's spec in the new file; the lengths of its components are known once its bytes are.
    spec: TensorSpec,
    how: How,
}

/// The origin of its bytes: `at` is the index of the tensor in the file.
enum How {
    Same { at: usize },
    Elements { at: usize, chain: Chain, from: TensorDType, to: TensorDType },
    Function { at: usize, name: String, to: TensorDType },
    Filled(Filled),
    Records { at: usize, job: Box<Job> },
}

/// A conversion of a dataset's records to another schema.
struct Job {
    to: Document,
    renames: Vec<(String, String)>,
    converters: Vec<(String, String)>,
}

/// The caller's options besides the schema.
struct Options {
    dataset: Option<String>,
    renames: Vec<(String, String)>,
    converters: Vec<(String, String)>,
    may_drop: bool,
}

/// The prefix of names of converters that are functions of the host.
const FUNCTION: char = '#';

impl Migration {
    /// Plans the migration of a file's tensors. The input is JSON of `len` bytes, with `dataset`,
    /// pairs of strings as `renames` and `converters`, and `drop`; then the new schema. The
    /// answer is the `schema` of the new file, if it has one, and `works`: for each of its
    /// tensors the `name`, `how` its bytes are created, the index (`at`) of the source tensor,
    /// and the details of the operation.
    pub(crate) fn begin(
        input: &[u8],
        len: usize,
        index: &Index,
        limits: &SchemaLimits,
    ) -> Result<(Migration, Answer), Error> {
        let parts = input.split_at_checked(len);
        let (request, text) =
            parts.ok_or_else(|| CALL.broken("a part is longer than the input"))?;
        let options = options(request)?;
        let schema = Document::parse(text, "the schema", Reading::ByContent, limits)
            .map_err(Error::without_location)?;
        let works = decide(index, &schema, &options, limits)?;
        let own = schema_of_file(index, limits)?;
        let text = match schema.schema.root() {
            // A schema that follows from the tensors is not stored.
            Root::References(_) if own.is_none() && is_implied(&works, &schema, limits) => None,
            Root::References(_) => Some(schema.text.clone()),
            Root::Record(_) => works.iter().find_map(|work| match &work.how {
                How::Records { job, .. } => own.as_ref()?.with_records(&work.spec.name, &job.to),
                _ => None,
            }),
        };
        let answer = Object::new()
            .with("schema", |out| text_or_null(text.as_deref(), out))
            .with("works", |out| list(&works, out, |work, out| out.push_str(&work.to_json())));
        let answer = Answer::text(answer.finish());
        Ok((Migration { works }, answer))
    }

    fn work(&self, number: u32) -> Result<&Work, Error> {
        let work = self.works.get(number as usize);
        work.ok_or_else(|| CALL.broken(format!("there is no tensor number {number} to migrate")))
    }

    /// Returns a tensor to be written; for records, `lens` are the lengths of the records and of
    /// their heap.
    pub(crate) fn part(&self, number: u32, lens: [u64; 2]) -> Result<Part, Error> {
        let work = self.work(number)?;
        let mut spec = work.spec.clone();
        if let How::Records { .. } = work.how {
            for (component, len) in spec.components.iter_mut().zip(lens) {
                component.decoded_len = len;
            }
        }
        Ok(Part::Stored(Box::new(spec)))
    }

    /// Converts elements of a tensor; `first` is the index of the first one.
    pub(crate) fn elements(&self, number: u32, first: u64, bytes: &[u8]) -> Result<Answer, Error> {
        let work = self.work(number)?;
        let How::Elements { chain, from, to, .. } = &work.how else {
            return Err(CALL.broken("the elements of this tensor are not converted"));
        };
        let mut out = Vec::new();
        let made = convert_elements(chain, first, (*from, bytes), (*to, &mut out));
        made.map_err(|e| e.in_tensor(work.spec.name.as_str()))?;
        Ok(Answer::Done(out))
    }

    /// Returns the bytes of a tensor that is filled with a default.
    pub(crate) fn filled(&self, number: u32) -> Result<Answer, Error> {
        let How::Filled(filled) = &self.work(number)?.how else {
            return Err(CALL.broken("the tensor is not filled with a default"));
        };
        let len = usize::try_from(filled.len).map_err(|_| CALL.broken("it is too long"))?;
        let mut out = vec![0; len];
        filled.read(0, &mut out);
        Ok(Answer::Done(out))
    }
}

impl Work {
    fn to_json(&self) -> String {
        let one = Object::new().text("name", &self.spec.name);
        let pairs = |all: &[(String, String)], out: &mut String| {
            list(all, out, |(new, old), out| {
                list([new, old], out, |text, out| write_string(text, out));
            });
        };
        match &self.how {
            How::Same { at } => one.text("how", "same").number("at", *at as u64),
            How::Elements { at, from, .. } => one
                .text("how", "elements")
                .number("at", *at as u64)
                .number("width", from.bits() / 8),
            How::Function { at, name, to } => one
                .text("how", "function")
                .number("at", *at as u64)
                .text("by", name)
                .text("dtype", to.as_str()),
            How::Filled(_) => one.text("how", "filled"),
            How::Records { at, job } => one
                .text("how", "records")
                .number("at", *at as u64)
                .text("kind", &job.to.text)
                .with("renames", |out| pairs(&job.renames, out))
                .with("converters", |out| pairs(&job.converters, out)),
        }
        .finish()
    }
}

fn options(request: &[u8]) -> Result<Options, Error> {
    let json = parse(request, 64)?;
    let pairs = |name: &str| -> Vec<(String, String)> {
        let all = json.get(name).and_then(|pairs| pairs.as_array()).into_iter().flatten();
        let text = |value: &holdall_json::Value| value.as_str().map(str::to_owned);
        all.filter_map(|pair| Some((text(pair.get(0)?)?, text(pair.get(1)?)?))).collect()
    };
    Ok(Options {
        dataset: json.get("dataset").and_then(|path| path.as_str()).map(str::to_owned),
        renames: pairs("renames"),
        converters: pairs("converters"),
        may_drop: json.get("drop").and_then(|drop| drop.as_bool()) == Some(true),
    })
}

/// Returns the schema in the file, if it has one.
fn schema_of_file(index: &Index, limits: &SchemaLimits) -> Result<Option<Document>, Error> {
    match index.attributes().get(SCHEMA_ATTRIBUTE).and_then(Value::as_text) {
        Some(text) => Document::parse(text.as_bytes(), "the file", Reading::File, limits).map(Some),
        None => Ok(None),
    }
}

fn is_implied(works: &[Work], schema: &Document, limits: &SchemaLimits) -> bool {
    let specs: Vec<TensorSpec> = works.iter().map(|work| work.spec.clone()).collect();
    let inferred = metatensor::infer(&specs, None).ok();
    inferred.and_then(|text| parse(text.as_bytes(), limits.depth).ok()) == Some(schema.json.clone())
}

fn decide(
    index: &Index,
    schema: &Document,
    options: &Options,
    limits: &SchemaLimits,
) -> Result<Vec<Work>, Error> {
    let is_whole = matches!(schema.schema.root(), Root::References(_));
    let infos = || (0..index.len()).filter_map(|at| Some((at, index.at(at)?)));
    let only = if is_whole { None } else { Some(only_dataset(index, options)?) };
    let mut tensors: Vec<(&str, &str)> = Vec::new();
    let mut members: Vec<&(String, String)> = Vec::new();
    for pair in &options.renames {
        match is_whole && index.position(&pair.1).is_some() {
            true => tensors.push((&pair.1, &pair.0)),
            false => members.push(pair),
        }
    }
    let mut used: Vec<&str> = Vec::new();
    let mut works = Vec::new();
    let mut datasets: Vec<(usize, TensorInfo, String, Document)> = Vec::new();
    for (at, info) in infos() {
        let name = info.name();
        let renamed = tensors.iter().find(|(old, _)| *old == name);
        let target = renamed.map_or(name, |(_, new)| new).to_owned();
        let is_dataset = *info.layout() == Layout::Records;
        if let Some(only) = &only {
            if only == name {
                datasets.push((works.len(), info.clone(), target.clone(), schema.clone()));
            }
            works.push(same(at, &info, target)?);
            continue;
        }
        let found = match is_dataset {
            true => schema.dataset(Some(&target), limits).map(|(_, to)| Some(to)),
            false => schema.find_node(&target).map(|_| None),
        };
        match found {
            Ok(Some(to)) => {
                datasets.push((works.len(), info.clone(), target.clone(), to));
                works.push(same(at, &info, target)?);
            }
            Ok(None) => {
                let converter = options.converters.iter().find(|(path, _)| *path == target);
                if let Some((path, _)) = converter {
                    used.push(path);
                }
                let made = flat(at, &info, target, schema, converter.map(|(_, by)| by.as_str()));
                works.push(made.map_err(|e| e.in_tensor(name))?);
            }
            Err(_) if options.may_drop => {}
            Err(e) => {
                let what = if is_dataset { "dataset" } else { "tensor" };
                let e = DROPS_MEMBER.broken(format!("the {what} would be left out")).because(e);
                return Err(e.in_tensor(name));
            }
        }
    }
    let converters: Vec<&(String, String)> =
        options.converters.iter().filter(|(path, _)| !used.contains(&path.as_str())).collect();
    let names = Names {
        old: datasets.iter().map(|(_, info, ..)| info.name().to_owned()).collect(),
        new: datasets.iter().map(|(_, _, target, _)| target.clone()).collect(),
    };
    check_members(&members, &converters, &names)?;
    for (number, info, target, to) in datasets {
        let job = job(&info, &target, to, &members, &converters, &names)?;
        let Some(work) = works.get_mut(number) else { continue };
        let How::Same { at } = work.how else { continue };
        // With the same schema, nothing changes.
        let own = info.attributes().get(TENSOR_SCHEMA_ATTRIBUTE).and_then(Value::as_text);
        let own = own.and_then(|text| parse(text.as_bytes(), limits.depth).ok());
        let is_same = own.is_some_and(|own| {
            let renormal = holdall_schema::normalize(own).ok();
            renormal.is_some_and(|own| own == job.to.json)
        });
        if is_same && job.renames.is_empty() && job.converters.is_empty() {
            continue;
        }
        work.spec = spec_of_records(&info, target, &job.to)?;
        work.how = How::Records { at, job: Box::new(job) };
    }
    if is_whole {
        let names: Vec<String> = works.iter().map(|work: &Work| work.spec.name.clone()).collect();
        for (path, filled) in schema.missing_tensors(names.into_iter(), limits)?.filled {
            let (dtype, _) = stored_as(filled.dtype);
            let mut spec = TensorSpec::dense(path.to_string(), dtype, filled.shape.clone());
            set_type(&mut spec, filled.dtype);
            works.push(Work { spec, how: How::Filled(filled) });
        }
    }
    Ok(works)
}

/// Copies a tensor unchanged, under a new name.
fn same(at: usize, info: &TensorInfo, target: String) -> Result<Work, Error> {
    info.sound().map_err(|e| e.in_tensor(info.name()))?;
    let Some(spec) = TensorSpec::from_info(info) else {
        let e = CALL.broken("its length is only known after decoding");
        return Err(e.in_tensor(info.name()).with_hint("the command migrates such a file"));
    };
    Ok(Work { spec: TensorSpec { name: target, ..spec }, how: How::Same { at } })
}

/// Plans a tensor other than a dataset, for which the new schema has a place.
fn flat(
    at: usize,
    info: &TensorInfo,
    target: String,
    schema: &Document,
    by: Option<&str>,
) -> Result<Work, Error> {
    let mut work = same(at, info, target)?;
    let node = schema.find_node(&work.spec.name)?;
    let Node::Flat { tensor: to, .. } = schema.schema.node(node) else { return Ok(work) };
    let named = match &work.spec.components[..] {
        [data] if work.spec.layout == Layout::Dense => {
            schema_dtype(data.dtype, data.logical_type.as_ref())
        }
        _ => None,
    };
    let chain: Option<Chain> = match by.filter(|by| !by.starts_with(FUNCTION)) {
        Some(by) => Some(by.parse()?),
        None => None,
    };
    let converter = match (&chain, by) {
        (Some(chain), _) => Some(TensorConverter::Named(chain)),
        (None, Some(_)) => Some(TensorConverter::Function),
        (None, None) => None,
    };
    let Some(from) = named else {
        return match converter {
            None => Ok(work),
            Some(_) => {
                let rule = &holdall_schema::evolve::rules::NO_CONVERTER;
                Err(rule.broken("only dense tensors of a named type can be converted"))
            }
        };
    };
    let change = resolve_tensor((from, info.shape()), to, converter)?;
    work.spec.shape = change.shape;
    set_type(&mut work.spec, change.dtype);
    work.how = match (change.how, by) {
        (TensorSource::Same, _) => How::Same { at },
        (TensorSource::Elements(chain), _) => How::Elements { at, chain, from, to: change.dtype },
        (TensorSource::Function, by) => {
            How::Function { at, name: by.unwrap_or_default().to_owned(), to: change.dtype }
        }
    };
    Ok(work)
}

/// Changes the spec to a single component with that element type.
fn set_type(spec: &mut TensorSpec, to: TensorDType) {
    let count = holdall_core::model::element_count(&spec.shape);
    let bits = count.and_then(|n| n.checked_mul(to.bits()));
    if let Some(data) = spec.components.first_mut() {
        (data.dtype, data.logical_type) = stored_as(to);
        data.decoded_len = bits.unwrap_or(u64::MAX) / 8;
    }
}

/// Returns the dataset that a record's schema is for.
fn only_dataset(index: &Index, options: &Options) -> Result<String, Error> {
    if let Some(name) = &options.dataset {
        return Ok(name.clone());
    }
    let infos = (0..index.len()).filter_map(|at| index.at(at));
    let mut all = infos.filter(|info| *info.layout() == Layout::Records);
    match (all.next(), all.next()) {
        (Some(only), None) => Ok(only.name().to_owned()),
        (None, _) => Err(WHICH_DATASET.broken("the file has no dataset of records")),
        (Some(first), Some(second)) => {
            let names: Vec<String> = [first, second]
                .into_iter()
                .chain(all.take(6))
                .map(|info| format!("`{}`", info.name().escaped()))
                .collect();
            let e = WHICH_DATASET.broken("the file has more than one dataset of records");
            Err(e.with_hint(format!("name one of them: {}", names.join(", "))))
        }
    }
}

/// The names of datasets in the file, and in the new one.
struct Names {
    old: Vec<String>,
    new: Vec<String>,
}

impl Names {
    fn old_path(&self, text: &str, name: &str) -> Result<Option<Path>, Error> {
        Path::within_dataset(text, name, self.old.iter().map(String::as_str))
    }

    fn new_path(&self, text: &str, name: &str) -> Result<Option<Path>, Error> {
        Path::within_dataset(text, name, self.new.iter().map(String::as_str))
    }
}

/// Checks that renames and converters that do not name a tensor are about members of one dataset.
fn check_members(
    renames: &[&(String, String)],
    converters: &[&(String, String)],
    names: &Names,
) -> Result<(), Error> {
    let renames = renames.iter().map(|(new, old)| (new, Some(old)));
    for (new, old) in renames.chain(converters.iter().map(|(path, _)| (path, None))) {
        let path: Path = new.parse()?;
        if names.new.len() > 1 && !names.new.iter().any(|name| path.below(name).is_some()) {
            let message =
                format!("`{}` is ambiguous: the file has several datasets", new.escaped());
            let hint = "write the path of the dataset first: `points[].x`";
            return Err(WHICH_DATASET.broken(message).with_hint(hint));
        }
        let mut is_found = false;
        for (was, is) in names.old.iter().zip(&names.new) {
            let old = match old {
                Some(old) => names.old_path(old, was)?.is_some(),
                None => true,
            };
            is_found |= names.new_path(new, is)?.is_some() && old;
        }
        if !is_found {
            let message = match old {
                Some(old) => {
                    format!(
                        "cannot rename `{}` to `{}`: nothing in the file has these paths",
                        old.escaped(),
                        new.escaped()
                    )
                }
                None => {
                    format!("cannot convert `{}`: nothing in the file has this path", new.escaped())
                }
            };
            return Err(UNKNOWN_PATH.broken(message));
        }
    }
    Ok(())
}

/// Returns the conversion of a dataset's records, with the renames and converters of its members
/// by their paths in a record.
fn job(
    info: &TensorInfo,
    target: &str,
    to: Document,
    renames: &[&(String, String)],
    converters: &[&(String, String)],
    names: &Names,
) -> Result<Job, Error> {
    let mut job = Job { to, renames: Vec::new(), converters: Vec::new() };
    for (new, old) in renames {
        let new = names.new_path(new, target)?;
        if let Some((new, old)) = new.zip(names.old_path(old, info.name())?) {
            job.renames.push((new.to_string(), old.to_string()));
        }
    }
    for (path, by) in converters {
        if let Some(path) = names.new_path(path, target)? {
            job.converters.push((path.to_string(), by.clone()));
        }
    }
    Ok(job)
}

/// Returns the spec of a converted dataset, whose bytes are not known yet.
fn spec_of_records(info: &TensorInfo, name: String, to: &Document) -> Result<TensorSpec, Error> {
    let Some(ty) = to.schema.record() else {
        return Err(WHICH_DATASET.broken("this is not the schema of a record"));
    };
    let mut attributes: Attributes = info.attributes().clone();
    attributes.set(TENSOR_SCHEMA_ATTRIBUTE, Value::Text(to.json.to_string()));
    let mut components = vec![ComponentSpec::new(Role::Data, DType::U8, 0)];
    if to.schema.ty(ty).heap_align.is_some() {
        components.push(ComponentSpec::new(Role::BlobData, DType::U8, 0));
    }
    let shape = info.shape().to_vec();
    Ok(TensorSpec { name, shape, layout: Layout::Records, attributes, components })
}
