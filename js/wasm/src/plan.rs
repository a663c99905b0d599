//! What a migration from one schema to another would do.

use crate::Answer;
use crate::json::{self, CALL, Object};
use crate::schema::document;
use holdall_core::Error;
use holdall_core::error::Shown as _;
use holdall_json::parse;
use holdall_schema::evolve::rules::{DROPS_MEMBER, NO_CONVERTER, NO_DEFAULT};
use holdall_schema::{
    Chain, Change, Document, Done, MemberStep, Node, Path, ResolveOptions, Root, SchemaLimits,
    Segment, TensorDType, TypeId, Verdict, What, diff, resolve,
};
use std::collections::BTreeMap;

/// One thing that is done; fields as those of `MemberStep`.
struct Step {
    what: Done,
    from: Option<String>,
    to: Option<String>,
    old: Option<String>,
    new: Option<String>,
    by: Option<String>,
}

/// What the caller knows that the schemas do not say: paths of the new schema with what the old one calls it, and with converters.
struct Told {
    renames: BTreeMap<Path, Path>,
    converters: BTreeMap<Path, String>,
    drops: bool,
}

/// The steps from the first schema of `lens[1]` bytes to the second. Before both the input has JSON of `lens[0]` bytes: `renames` and
/// `converters`, pairs of texts, and `drop`.
pub(crate) fn plan(input: &[u8], lens: [usize; 2], reading: u32) -> Result<Answer, Error> {
    let parts = input.split_at_checked(lens[0]);
    let parts = parts.and_then(|(told, both)| Some((told, both.split_at_checked(lens[1])?)));
    let Some((told, (old, new))) = parts else {
        return Err(CALL.broken("a schema is longer than all"));
    };
    let told = told_of(told)?;
    let (old, new) = (document(old, reading)?, document(new, reading)?);
    let mut steps = Vec::new();
    match (old.schema.root(), new.schema.root()) {
        (Root::Record(from), Root::Record(to)) => {
            records((&old, from, &Path::root()), (&new, to, &Path::root()), &told, &mut steps)?;
        }
        (Root::References(_), Root::References(_)) => file(&old, &new, &told, &mut steps)?,
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

fn told_of(told: &[u8]) -> Result<Told, Error> {
    let json = parse(told, 8)?;
    let pairs = |name: &str| -> Vec<(String, String)> {
        let all = json.get(name).and_then(|pairs| pairs.as_array()).into_iter().flatten();
        let both = all.filter_map(|pair| {
            let (new, old) = (pair.get(0)?.as_str()?, pair.get(1)?.as_str()?);
            Some((new.to_owned(), old.to_owned()))
        });
        both.collect()
    };
    let mut told = Told { renames: BTreeMap::new(), converters: BTreeMap::new(), drops: false };
    for (new, old) in pairs("renames") {
        told.renames.insert(new.parse()?, old.parse()?);
    }
    for (path, name) in pairs("converters") {
        told.converters.insert(path.parse()?, name);
    }
    told.drops = json.get("drop").and_then(|drop| drop.as_bool()) == Some(true);
    Ok(told)
}

/// The steps of records, which stand below a path of each file.
fn records(
    (old, from, from_path): (&Document, TypeId, &Path),
    (new, to, to_path): (&Document, TypeId, &Path),
    told: &Told,
    steps: &mut Vec<Step>,
) -> Result<(), Error> {
    let within = |path: &Path, base: &Path| {
        let rest = path.0.strip_prefix(&base.0[..])?;
        match base.is_root() {
            true => Some(Path(rest.to_vec())),
            false => rest.strip_prefix(&[Segment::Each]).map(|rest| Path(rest.to_vec())),
        }
    };
    let mut options = ResolveOptions::default();
    for (path, name) in &told.converters {
        if let Some(path) = within(path, to_path).filter(|path| !path.is_root()) {
            options = options.with_converter(path, name.as_str());
        }
    }
    for (path, other) in &told.renames {
        let both = within(path, to_path).zip(within(other, from_path));
        if let Some((path, other)) = both.filter(|(path, _)| !path.is_root()) {
            options = options.with_rename(path, other);
        }
    }
    let place = |e: Error| if to_path.is_root() { e } else { e.in_tensor(to_path.to_string()) };
    let resolution = resolve(&old.schema, from, &new.schema, to, &options).map_err(place)?;
    if !told.drops {
        resolution.keeps_all().map_err(place)?;
    }
    let full = |base: &Path, path: &Option<Path>| {
        let path = path.as_ref()?;
        Some(match (base.is_root(), path.is_root()) {
            (true, _) => path.to_string(),
            (false, true) => format!("{base}[]"),
            (false, false) => format!("{base}[].{path}"),
        })
    };
    let owned = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
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

/// The steps of all that a file has.
fn file(old: &Document, new: &Document, told: &Told, steps: &mut Vec<Step>) -> Result<(), Error> {
    let limits = SchemaLimits::default();
    // What the records are in both is not compared as tensors are.
    let mut resolved: Vec<Path> = Vec::new();
    for path in datasets(new) {
        let source = told.renames.get(&path).unwrap_or(&path);
        let [was, is] = [(old, source), (new, &path)]
            .map(|(of, path)| of.dataset(Some(&path.to_string()), &limits).ok());
        let (Some((_, was)), Some((_, is))) = (was, is) else { continue };
        if let (Root::Record(from), Root::Record(to)) = (was.schema.root(), is.schema.root()) {
            if *source != path {
                steps.push(step(Done::Renamed, Some(source), Some(&path)));
            }
            records((&was, from, source), (&is, to, &path), told, steps)?;
            resolved.extend([source.clone(), path]);
        }
    }
    let changes =
        diff((&old.schema, &old.json), (&new.schema, &new.json), &SchemaLimits::default())?;
    let is_within = |path: &Path| resolved.iter().any(|base| path.0.starts_with(&base.0));
    for change in changes.iter().filter(|change| !is_within(&change.path)) {
        if let Some(one) = step_of(change, &changes, new, told)? {
            steps.push(one);
        }
    }
    Ok(())
}

/// What a change of anything but records takes.
fn step_of(
    change: &Change,
    all: &[Change],
    new: &Document,
    told: &Told,
) -> Result<Option<Step>, Error> {
    let path = &change.path;
    let text = |side: &Option<std::sync::Arc<str>>| side.as_deref().map(str::to_owned);
    let (old, now) = (text(&change.old), text(&change.new));
    let in_tensor = |e: Error| e.in_tensor(path.to_string());
    let sides = |step: Step| Some(Step { old: old.clone(), new: now.clone(), ..step });
    let by = told.converters.get(path);
    if change.what == What::Added
        && let Some(source) = told.renames.get(path)
    {
        let was = all.iter().find(|c| c.what == What::Removed && c.path == *source);
        let was = was.and_then(|c| text(&c.old));
        let what = if was == now { Done::Renamed } else { Done::Converted };
        if was.is_none() || (was != now && by.is_none()) {
            let message = format!("what was `{}` does not become it by itself", shown(source));
            return Err(in_tensor(NO_CONVERTER.broken(message)));
        }
        let one = step(what, Some(source), Some(path));
        return Ok(Some(Step { old: was, new: now, by: by.cloned(), ..one }));
    }
    if let Some(name) = by {
        if let Err(e) = name.parse::<Chain>() {
            return Err(in_tensor(e));
        }
        if let (Some(was), Some(is)) = (count(&old), count(&now))
            && was != is
        {
            let message = format!("{was} elements do not become {is}");
            return Err(in_tensor(NO_CONVERTER.broken(message)));
        }
        let one = step(Done::Converted, (change.what != What::Added).then_some(path), Some(path));
        return Ok(sides(Step { by: Some(name.clone()), ..one }));
    }
    match (change.what, change.verdict) {
        (What::Removed, _) if told.renames.values().any(|source| source == path) => Ok(None),
        (What::Removed, _) if told.drops => Ok(sides(step(Done::Dropped, Some(path), None))),
        (What::Removed, _) => {
            let message = format!("{} would be left out", shown(path));
            Err(DROPS_MEMBER.broken(message))
        }
        (_, Verdict::NeedsDefault) => {
            let what = now.unwrap_or_else(|| "it".to_owned());
            Err(in_tensor(NO_DEFAULT.broken(format!("{what} has no default, and may be absent"))))
        }
        (What::Added, _) => {
            let what = if has_default(new, path) { Done::Default } else { Done::Absent };
            Ok(sides(step(what, None, Some(path))))
        }
        (What::Widened | What::DType, Verdict::Compatible) if is_named(&old) && is_named(&now) => {
            Ok(sides(step(Done::Widened, Some(path), Some(path))))
        }
        (_, Verdict::Compatible) => Ok(None),
        _ => {
            let sides = [old, now].map(|side| side.unwrap_or_else(|| "something else".to_owned()));
            let message = format!("{} does not become {} by itself", sides[0], sides[1]);
            Err(in_tensor(NO_CONVERTER.broken(message)))
        }
    }
}

fn step(what: Done, from: Option<&Path>, to: Option<&Path>) -> Step {
    let text = |path: Option<&Path>| path.map(Path::to_string);
    Step { what, from: text(from), to: text(to), old: None, new: None, by: None }
}

/// Whether a side of a change begins with an element type, which an open one does not.
fn is_named(side: &Option<String>) -> bool {
    let name = side.as_deref().and_then(|text| text.split(' ').next());
    name.is_some_and(|name| TensorDType::from_name(name).is_some())
}

/// The number of elements that a side of a change says, `F32 [2, 3]`, if it says all dimensions.
fn count(side: &Option<String>) -> Option<u64> {
    let (_, dims) = side.as_deref()?.split_once('[')?;
    let dims = dims.strip_suffix(']')?.split(", ").filter(|dim| !dim.is_empty());
    dims.map(str::parse).try_fold(1u64, |count, dim| count.checked_mul(dim.ok()?))
}

/// A path as messages show it.
fn shown(path: &Path) -> String {
    path.to_string().shown().to_string()
}

/// Whether the schema of a file has a default for a member.
fn has_default(of: &Document, path: &Path) -> bool {
    let Root::References(mut at) = of.schema.root() else { return false };
    let Some((last, before)) = path.0.split_last() else { return false };
    for segment in before {
        let Some(next) = of.schema.step(at, segment) else { return false };
        at = next;
    }
    match (of.schema.node(at), last) {
        (Node::Object(object), Segment::Name(name)) => {
            object.properties.iter().any(|p| p.name == *name && p.default.is_some())
        }
        _ => false,
    }
}

/// The paths of all datasets of a file.
fn datasets(of: &Document) -> Vec<Path> {
    let Root::References(root) = of.schema.root() else { return Vec::new() };
    let (mut found, mut ahead) = (Vec::new(), vec![(Path::root(), root)]);
    let mut left = 1u32 << 20;
    while let Some((path, node)) = ahead.pop() {
        left = left.saturating_sub(1);
        match of.schema.node(node) {
            _ if left == 0 => break,
            Node::Dataset { .. } => found.push(path),
            Node::Object(object) => {
                for property in object.properties.iter().rev() {
                    ahead.push((path.then(Segment::Name(property.name.clone())), property.node));
                }
            }
            Node::List { items, .. } => ahead.push((path.then(Segment::Each), *items)),
            _ => {}
        }
    }
    found
}
