//! The steps of a migration from one schema to another.

use crate::Answer;
use crate::json::{self, CALL, Object};
use crate::schema::document;
use holdall_core::Error;
use holdall_core::error::Escape as _;
use holdall_json::parse;
use holdall_schema::evolve::rules::{DROPS_MEMBER, NO_CONVERTER, NO_DEFAULT};
use holdall_schema::rules::UNKNOWN_PATH;
use holdall_schema::{
    Chain, Change, ChangeKind, Document, MemberStep, Node, Path, ResolveOptions, Root,
    SchemaLimits, Segment, StepKind, TensorType, TypeId, Verdict, diff, resolve,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A step; the fields are those of `MemberStep`.
struct Step {
    what: StepKind,
    from: Option<String>,
    to: Option<String>,
    old: Option<String>,
    new: Option<String>,
    by: Option<String>,
}

/// The caller's changes: paths in the new schema with their old names, and with converters.
pub(super) struct PlanOptions {
    pub(super) renames: BTreeMap<Path, Path>,
    pub(super) converters: BTreeMap<Path, String>,
    pub(super) drops: bool,
    /// The path of the dataset in the new schema.
    pub(super) path: Option<String>,
}

/// Returns the steps from the first schema, of `lens[1]` bytes, to the second. They follow JSON
/// of `lens[0]` bytes in the input: `renames` and `converters`, pairs of strings, and `drop`.
pub(crate) fn plan(input: &[u8], lens: [usize; 2], reading: u32) -> Result<Answer, Error> {
    let parts = input.split_at_checked(lens[0]);
    let parts = parts.and_then(|(options, both)| Some((options, both.split_at_checked(lens[1])?)));
    let Some((options, (old, new))) = parts else {
        return Err(CALL.broken("a schema is longer than the input"));
    };
    let options = parse_options(options)?;
    let (old, new) = (document(old, reading)?, document(new, reading)?);
    let mut steps = Vec::new();
    match (old.schema.root(), new.schema.root()) {
        (Root::Record(from), Root::Record(to)) => {
            records((&old, from, &Path::root()), (&new, to, &Path::root()), &options, &mut steps)?;
        }
        (Root::References(_), Root::References(_)) => file(&old, &new, &options, &mut steps)?,
        _ => return Err(NO_CONVERTER.broken("one schema is that of a record, the other of a file")),
    }
    let mut out = String::new();
    json::list(steps, &mut out, |step, out| {
        let mut one = Object::new().text("what", step.what.as_str());
        let fields = [
            ("from", step.from),
            ("to", step.to),
            ("old", step.old),
            ("new", step.new),
            ("by", step.by),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                one = one.text(name, &value);
            }
        }
        out.push_str(&one.finish());
    });
    Ok(Answer::text(out))
}

pub(super) fn parse_options(options: &[u8]) -> Result<PlanOptions, Error> {
    let json = parse(options, 64)?;
    let pairs = |name: &str| -> Vec<(String, String)> {
        let all = json.get(name).and_then(|pairs| pairs.as_array()).into_iter().flatten();
        let both = all.filter_map(|pair| {
            let (new, old) = (pair.get(0)?.as_str()?, pair.get(1)?.as_str()?);
            Some((new.to_owned(), old.to_owned()))
        });
        both.collect()
    };
    let mut options = PlanOptions {
        renames: BTreeMap::new(),
        converters: BTreeMap::new(),
        drops: false,
        path: json.get("path").and_then(|path| path.as_str()).map(str::to_owned),
    };
    for (new, old) in pairs("renames") {
        options.renames.insert(new.parse()?, old.parse()?);
    }
    for (path, name) in pairs("converters") {
        options.converters.insert(path.parse()?, name);
    }
    options.drops = json.get("drop").and_then(|drop| drop.as_bool()) == Some(true);
    Ok(options)
}

/// Adds the steps of records, at a path of each file.
fn records(
    (old, from, from_path): (&Document, TypeId, &Path),
    (new, to, to_path): (&Document, TypeId, &Path),
    options: &PlanOptions,
    steps: &mut Vec<Step>,
) -> Result<(), Error> {
    let mut resolve_options = ResolveOptions::default();
    for (path, name) in &options.converters {
        if let Some(path) = within(path, to_path) {
            resolve_options = resolve_options.with_converter(path, name.as_str());
        }
    }
    for (path, other) in &options.renames {
        if let Some((path, other)) = within(path, to_path).zip(within(other, from_path)) {
            resolve_options = resolve_options.with_rename(path, other);
        }
    }
    let in_context =
        |e: Error| if to_path.is_root() { e } else { e.in_tensor(to_path.to_string()) };
    let resolution =
        resolve(&old.schema, from, &new.schema, to, &resolve_options).map_err(in_context)?;
    if !options.drops {
        resolution.keeps_all().map_err(in_context)?;
    }
    let full = |base: &Path, path: &Option<Path>| {
        let path = path.as_ref()?;
        Some(match (base.is_root(), path.is_root()) {
            (true, _) => path.to_string(),
            (false, true) => format!("{base}[]"),
            (false, false) => format!("{base}[].{path}"),
        })
    };
    let owned = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
    steps.extend(resolution.steps().iter().map(|step: &MemberStep| Step {
        what: step.what,
        from: full(from_path, &step.from),
        to: full(to_path, &step.to),
        old: owned(&step.old),
        new: owned(&step.new),
        by: owned(&step.by),
    }));
    Ok(())
}

/// Returns a path relative to the records at `base`, if it is below it.
fn within(path: &Path, base: &Path) -> Option<Path> {
    let rest = path.0.strip_prefix(&base.0[..])?;
    let rest = if base.is_root() { rest } else { rest.strip_prefix(&[Segment::Each])? };
    (!rest.is_empty()).then(|| Path(rest.to_vec()))
}

/// Adds the steps of everything in a file.
fn file(
    old: &Document,
    new: &Document,
    options: &PlanOptions,
    steps: &mut Vec<Step>,
) -> Result<(), Error> {
    let limits = SchemaLimits::default();
    check_options(old, new, options)?;
    // Differences inside of datasets are not handled as changes of tensors.
    let mut resolved: Vec<Path> = Vec::new();
    for (path, _) in new.datasets() {
        let source = options.renames.get(&path).unwrap_or(&path);
        let [was, is] = [(old, source), (new, &path)]
            .map(|(document, path)| document.dataset(Some(&path.to_string()), &limits).ok());
        let (Some((_, was)), Some((_, is))) = (was, is) else { continue };
        if let (Root::Record(from), Root::Record(to)) = (was.schema.root(), is.schema.root()) {
            if *source != path {
                steps.push(step(StepKind::Renamed, Some(source), Some(&path)));
            }
            records((&was, from, source), (&is, to, &path), options, steps)?;
            resolved.extend([source.clone(), path]);
        }
    }
    let changes = diff((&old.schema, &old.json), (&new.schema, &new.json), &limits)?;
    let is_within = |path: &Path| resolved.iter().any(|base| path.0.starts_with(&base.0));
    let file = File { old, new, options, changes: &changes };
    for change in changes.iter().filter(|change| !is_within(&change.path)) {
        steps.extend(file.step_of(change)?);
    }
    // A tensor that takes the name of another one.
    for (path, source) in options.renames.iter().filter(|(path, _)| !is_within(path)) {
        if node_at(new, path).is_some_and(is_tensor) {
            steps.extend(file.replaced(path)?);
            if !changes.iter().any(|change| change.path == *path) {
                let now = tensor_at(new, path).map(TensorType::to_string);
                steps.push(file.renamed(path, source, now)?);
            }
        }
    }
    // An unchanged tensor is converted if the caller requested it.
    for (path, name) in &options.converters {
        let is_changed =
            changes.iter().any(|change| change.path == *path) || options.renames.contains_key(path);
        if let (false, Some(tensor)) = (is_changed, tensor_at(new, path)) {
            file.check_converter(path, path, name)?;
            if !name.parse::<Chain>()?.is_cast() {
                let shown = Some(tensor.to_string());
                let one = step(StepKind::Converted, Some(path), Some(path));
                steps.push(Step { old: shown.clone(), new: shown, by: Some(name.clone()), ..one });
            }
        }
    }
    Ok(())
}

/// Checks that each rename and each converter applies to a tensor that both schemas have, or to a
/// member of a dataset that both have.
fn check_options(old: &Document, new: &Document, options: &PlanOptions) -> Result<(), Error> {
    let datasets: Vec<Path> = new.datasets().map(|(path, _)| path).collect();
    let was = |path: &Path| options.renames.get(path).unwrap_or(path).clone();
    let is_member = |path: &Path, other: Option<&Path>| {
        datasets.iter().any(|base| {
            let source = was(base);
            let is_there = matches!(node_at(old, &source), Some(Node::Dataset { .. }));
            let is_old = other.is_none_or(|other| within(other, &source).is_some());
            is_there && is_old && within(path, base).is_some()
        })
    };
    for (path, source) in &options.renames {
        let both = node_at(new, path).zip(node_at(old, source));
        let is_tensor = both.is_some_and(|(new, old)| is_tensor(new) && is_tensor(old));
        if !is_tensor && !is_member(path, Some(source)) {
            let (source, path) = (shown(source), shown(path));
            let message = format!(
                "no tensor, and no member of a dataset, is `{source}` in the old schema and `{path}` in the new one"
            );
            return Err(UNKNOWN_PATH.broken(message).with_hint(MEMBERS));
        }
    }
    for path in options.converters.keys() {
        let both = tensor_at(new, path).zip(tensor_at(old, &was(path)));
        if both.is_none() && !is_member(path, None) {
            let message = format!(
                "`{}` has a converter, but is no tensor, and no member of a dataset, of both schemas",
                shown(path)
            );
            return Err(UNKNOWN_PATH.broken(message).with_hint(MEMBERS));
        }
    }
    Ok(())
}

const MEMBERS: &str = "a member is named with the path of its dataset: `points[].x`";

/// Returns the node at a path in the schema of a file.
fn node_at<'d>(document: &'d Document, path: &Path) -> Option<&'d Node> {
    let Root::References(root) = document.schema.root() else { return None };
    Some(document.schema.node(document.schema.follow(root, path)?))
}

fn tensor_at<'d>(document: &'d Document, path: &Path) -> Option<&'d TensorType> {
    match node_at(document, path)? {
        Node::Flat { tensor, .. } => Some(tensor),
        _ => None,
    }
}

fn is_tensor(node: &Node) -> bool {
    matches!(node, Node::Flat { .. } | Node::Dataset { .. } | Node::Blob { .. })
}

/// Returns whether values of one node are valid for the other without conversion.
fn is_same(old: &Node, new: &Node) -> bool {
    match (old, new) {
        (Node::Flat { tensor: old, .. }, Node::Flat { tensor: new, .. }) => old == new,
        (Node::Blob { content: old, .. }, Node::Blob { content: new, .. }) => old == new,
        _ => false,
    }
}

/// Two schemas of a file, and their differences.
struct File<'d> {
    old: &'d Document,
    new: &'d Document,
    options: &'d PlanOptions,
    changes: &'d [Change],
}

impl File<'_> {
    /// Returns the step for a change outside of records.
    fn step_of(&self, change: &Change) -> Result<Option<Step>, Error> {
        let (path, options) = (&change.path, self.options);
        let text = |side: &Option<Arc<str>>| side.as_deref().map(str::to_owned);
        let (old, now) = (text(&change.old), text(&change.new));
        let in_tensor = |e: Error| e.in_tensor(path.to_string());
        let sides = |step: Step| Some(Step { old: old.clone(), new: now.clone(), ..step });
        let by = options.converters.get(path);
        let source = options.renames.get(path);
        if let Some(name) = by {
            self.check_converter(path, source.unwrap_or(path), name)?;
        }
        if let Some(source) = source {
            return self.renamed(path, source, now).map(Some);
        }
        if let Some(name) = by {
            let one = step(StepKind::Converted, Some(path), Some(path));
            return Ok(sides(Step { by: Some(name.clone()), ..one }));
        }
        match (change.what, change.verdict) {
            (ChangeKind::Removed, _) if options.renames.values().any(|source| source == path) => {
                Ok(None)
            }
            (ChangeKind::Removed, _) if options.drops => {
                Ok(sides(step(StepKind::Dropped, Some(path), None)))
            }
            (ChangeKind::Removed, _) => {
                let message = format!("{} would be left out", shown(path));
                Err(DROPS_MEMBER.broken(message))
            }
            (_, Verdict::NeedsDefault) => {
                let what = now.unwrap_or_else(|| "it".to_owned());
                let message = format!("{what} has no default, and may be absent");
                Err(in_tensor(NO_DEFAULT.broken(message)))
            }
            (ChangeKind::Added, _) => {
                let what =
                    if has_default(self.new, path) { StepKind::Default } else { StepKind::Absent };
                Ok(sides(step(what, None, Some(path))))
            }
            (ChangeKind::Widened | ChangeKind::DType, Verdict::Compatible)
                if self.are_named(path) =>
            {
                Ok(sides(step(StepKind::Widened, Some(path), Some(path))))
            }
            (_, Verdict::Compatible) => Ok(None),
            _ => {
                let sides =
                    [old, now].map(|side| side.unwrap_or_else(|| "something else".to_owned()));
                let message = format!("{} does not become {} by itself", sides[0], sides[1]);
                Err(in_tensor(NO_CONVERTER.broken(message)))
            }
        }
    }

    /// Returns the step for a renamed tensor; `now` is its type in the new schema.
    fn renamed(&self, path: &Path, source: &Path, now: Option<String>) -> Result<Step, Error> {
        let by = self.options.converters.get(path);
        let both = node_at(self.old, source).zip(node_at(self.new, path));
        let is_same = both.is_some_and(|(old, new)| is_same(old, new));
        if !is_same && by.is_none() {
            let message = format!("what was `{}` does not become it by itself", shown(source));
            return Err(NO_CONVERTER.broken(message).in_tensor(path.to_string()));
        }
        let removed =
            self.changes.iter().find(|c| c.what == ChangeKind::Removed && c.path == *source);
        let was = removed.and_then(|c| c.old.as_deref().map(str::to_owned));
        let was = was.or_else(|| Some(tensor_at(self.old, source)?.to_string()));
        let what = if is_same { StepKind::Renamed } else { StepKind::Converted };
        let one = step(what, Some(source), Some(path));
        Ok(Step { old: was, new: now, by: by.cloned(), ..one })
    }

    /// Returns the step for a tensor whose name belongs to another one in the new schema.
    fn replaced(&self, path: &Path) -> Result<Option<Step>, Error> {
        let is_used = self.options.renames.values().any(|source| source == path);
        if is_used || !node_at(self.old, path).is_some_and(is_tensor) {
            return Ok(None);
        }
        if !self.options.drops {
            let message = format!("{} would be left out", shown(path));
            return Err(DROPS_MEMBER.broken(message));
        }
        let old = tensor_at(self.old, path).map(TensorType::to_string);
        Ok(Some(Step { old, ..step(StepKind::Dropped, Some(path), None) }))
    }

    /// Returns whether both schemas give a specific element type at a path.
    fn are_named(&self, path: &Path) -> bool {
        [self.old, self.new]
            .iter()
            .all(|document| tensor_at(document, path).is_some_and(|t| t.dtype.is_some()))
    }

    /// Checks that a converter can convert the type at `source` to the one at `path`, as far as
    /// the schemas determine them.
    fn check_converter(&self, path: &Path, source: &Path, name: &str) -> Result<(), Error> {
        let in_tensor = |e: Error| e.in_tensor(path.to_string());
        let chain: Chain = name.parse().map_err(in_tensor)?;
        let both = tensor_at(self.old, source).zip(tensor_at(self.new, path));
        let Some((old, new)) = both else { return Ok(()) };
        if let (Some(was), Some(is)) = (old.known_count(), new.known_count())
            && was != is
        {
            let message = format!("{was} elements do not become {is}");
            return Err(in_tensor(NO_CONVERTER.broken(message)));
        }
        if let (Some(was), Some(is)) = (old.known_shape(), new.known_shape())
            && was != is
            && !chain.reshapes()
        {
            let message = format!("{old} does not become {new} by `{}`", name.escaped());
            let e = NO_CONVERTER.broken(message);
            return Err(in_tensor(
                e.with_hint("the converter `reshape` gives elements another shape"),
            ));
        }
        let kind = |document: &TensorType| document.dtype.and_then(|dtype| dtype.scalar());
        match (kind(old), kind(new)) {
            (Some(a), Some(b)) if !chain.can_convert(a, b) => {
                let message = format!("`{}` does not make {new} of {old}", name.escaped());
                Err(in_tensor(NO_CONVERTER.broken(message)))
            }
            _ => Ok(()),
        }
    }
}

fn step(what: StepKind, from: Option<&Path>, to: Option<&Path>) -> Step {
    let text = |path: Option<&Path>| path.map(Path::to_string);
    Step { what, from: text(from), to: text(to), old: None, new: None, by: None }
}

/// Formats a path for messages.
fn shown(path: &Path) -> String {
    path.to_string().escaped().to_string()
}

/// Returns whether the schema of a file has a default for a member.
fn has_default(document: &Document, path: &Path) -> bool {
    let Some((Segment::Name(name), before)) = path.0.split_last() else { return false };
    match node_at(document, &Path(before.to_vec())) {
        Some(Node::Object(object)) => {
            object.properties.iter().any(|p| p.name == *name && p.default.is_some())
        }
        _ => false,
    }
}
