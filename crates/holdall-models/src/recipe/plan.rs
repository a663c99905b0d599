//! Plans: which tensors are written, and how each is computed.

use super::evaluate::{Locals, Scope, Tensors};
use super::metadata;
use super::node::{Computed, Node, float};
use super::outtype::{Form, OutType};
use super::pattern::Captures;
use super::read::{Action, Recipe, Rule};
use super::sizes;
use super::step;
use super::stepped::Stepped;
use super::stream::Pieces;
use super::{INCOMPLETE, LEFT_OVER, SHAPE, VALUE};
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::{Escape as _, Result, list};
use holdall_core::layout::float::decode_f64;
use holdall_core::layout::number::{ElementType, NumberClass};
use holdall_core::model::{Attributes, BlockType, DType, Value, Warning, element_count};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The maximum number of elements of a tensor that is made from the configuration.
const MAX_MADE: u64 = 1 << 20;
/// The maximum number of elements of a tensor that an expression reads.
const MAX_READ: u64 = 1 << 12;
/// The number of a file with experts in blocks of MXFP4 as `general.file_type` of GGUF.
const MXFP4_MOE: i128 = 38;
/// The number of elements that are compared at a time.
const COMPARED: u64 = 1 << 20;

/// A tensor of the source.
#[derive(Debug, Clone)]
pub struct SourceTensor {
    /// The name.
    pub name: String,
    /// The shape.
    pub shape: Vec<u64>,
    /// The type of the elements.
    pub element: ElementType,
    /// The type of blocks in which the source stores the values, which are read as F32.
    pub blocks: Option<&'static BlockType>,
}

/// The tensors of a source, and their elements.
pub trait TensorSource: Send + Sync {
    /// Returns the tensors, in the order of the file.
    fn tensors(&self) -> &[SourceTensor];

    /// Appends the bytes of a range of elements of the tensor at index `tensor`, little-endian and in row-major order.
    ///
    /// # Errors
    /// The errors of reading.
    fn read(&self, tensor: usize, elements: Range<u64>, out: &mut Vec<u8>) -> Result<()>;

    /// Returns the number of elements of the tensor at index `tensor`, or 0 if there is no such tensor.
    fn count(&self, tensor: usize) -> u64 {
        self.tensors().get(tensor).and_then(|t| element_count(&t.shape)).unwrap_or(0)
    }
}

/// What a plan is made from, apart from the recipe.
#[derive(Clone)]
pub struct Input<'a> {
    /// The model's `config.json`.
    pub config: &'a Value,
    /// The values of [`Recipe::files`] that the folder has, by path.
    pub files: &'a [(String, Value)],
    /// The tensors.
    pub source: Arc<dyn TensorSource>,
    /// The type of the matrices.
    pub outtype: OutType,
    /// The name of the model.
    pub name: &'a str,
    /// The number of tokens of the model's tokenizer, if it is known.
    pub tokens: Option<u64>,
}

/// What a conversion writes.
pub struct Plan {
    /// The tensors to write, in order.
    pub outputs: Vec<Output>,
    /// The metadata of the file.
    pub metadata: Attributes,
    /// The tensors of the source that no written tensor contains.
    pub left_out: Vec<LeftOut>,
    /// Properties of the model that the target cannot express.
    pub warnings: Vec<Warning>,
    /// The type of the matrices: never [`OutType::Auto`].
    pub outtype: OutType,
    pub(super) source: Arc<dyn TensorSource>,
}

/// A tensor to write.
pub struct Output {
    /// The name.
    pub name: String,
    /// The form of the elements.
    pub form: Form,
    /// The indices of the tensors of the source that it is computed from; empty if it is made from the configuration.
    pub sources: Vec<usize>,
    pub(super) computed: Computed,
}

/// A tensor of the source that is not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The name in the source.
    pub name: String,
    /// The reason, in words.
    pub reason: String,
}

impl Output {
    /// Returns the shape.
    pub fn shape(&self) -> &[u64] {
        &self.computed.shape
    }

    /// Returns the type of the elements before they are brought into [`Output::form`].
    pub fn element(&self) -> &ElementType {
        &self.computed.element
    }

    /// Returns `true` if the elements are computed by an exponential or a logarithm: libraries round them differently.
    pub fn is_rounded(&self) -> bool {
        self.computed.node.is_rounded()
    }
}

impl Plan {
    /// Returns the bytes of a tensor to write, in pieces of bounded size.
    pub fn pieces(&self, output: &Output) -> Pieces {
        Pieces::new(&output.computed, output.form, self.source.clone())
    }

    /// Returns the bytes of a tensor before they are brought into [`Output::form`], in pieces of bounded size.
    pub fn elements(&self, output: &Output) -> Pieces {
        Pieces::new(&output.computed, Form::AsItIs, self.source.clone())
    }
}

/// Tensors that a rule combines.
pub(super) struct Group {
    pub(super) rule: usize,
    pub(super) captures: Captures,
    /// For each pattern of the rule, the tensors by the number that is gathered.
    pub(super) parts: Vec<BTreeMap<u64, usize>>,
}

impl Recipe {
    /// Plans the conversion of a model.
    ///
    /// # Errors
    /// Returns [`LEFT_OVER`] if no rule mentions a tensor, [`INCOMPLETE`] if tensors are missing or two get the same
    /// name, [`SHAPE`](super::SHAPE), [`VALUE`](super::VALUE), and the errors of reading.
    pub fn plan(&self, input: &Input<'_>) -> Result<Plan> {
        let tensors = input.source.tensors();
        let outtype = match input.outtype {
            OutType::Auto => usual_type(tensors),
            chosen => chosen,
        };
        let mut given = self.given(input, outtype);
        let named = NamedTensors::new(&*input.source);
        let scope = Scope::new(input.config, &self.definitions, &given, &named)
            .with_defaults(&self.defaults);

        let (groups, left_out) = self.groups(&scope, &*input.source)?;
        let mut outputs = self.made(&scope, outtype)?;
        for group in groups {
            let Some(rule) = self.rules.get(group.rule) else { continue };
            outputs.extend(
                self.computed(rule, &group, &scope, tensors, outtype, input.outtype)
                    .map_err(|e| e.within(rule.line.clone()))?,
            );
        }
        outputs.sort_by_key(|output| output.sources.iter().min().copied());
        check_names(&outputs)?;
        let mut warnings = Vec::new();
        for (when, text) in &self.warnings {
            if scope.is_true(when, &Locals::default())? {
                warnings.push(Warning::new("recipe/differs", text.clone()));
            }
        }
        drop(scope);
        if outputs.iter().any(|output| matches!(output.form, Form::SameBlocks(_))) {
            given.retain(|(name, _)| name != "file_type");
            given.push(("file_type".to_owned(), Value::Integer(MXFP4_MOE)));
        }
        given.push(("size_label".to_owned(), Value::Text(metadata::size_label(&outputs))));
        let scope = Scope::new(input.config, &self.definitions, &given, &named)
            .with_defaults(&self.defaults);
        let metadata = metadata::values(&self.metadata, &scope)?;
        sizes::check(&outputs, &metadata, input.config)?;
        if let OutType::Mix(mix) = outtype {
            mix.apply(&mut outputs, &metadata);
        }
        let source = input.source.clone();
        Ok(Plan { outputs, metadata, left_out, warnings, outtype, source })
    }

    /// Returns the names that the caller gives: those of files, and properties of the conversion.
    pub(super) fn given(&self, input: &Input<'_>, outtype: OutType) -> Vec<(String, Value)> {
        let mut given: Vec<(String, Value)> = Vec::new();
        for (name, path) in &self.files {
            let file = input.files.iter().find(|(own, _)| own == path);
            given.push((name.clone(), file.map_or(Value::Null, |(_, value)| value.clone())));
        }
        let tokens = input.tokens.map_or(Value::Null, |n| Value::Integer(n.into()));
        given.push(("tokens".to_owned(), tokens));
        given.push(("model_name".to_owned(), Value::Text(input.name.to_owned())));
        given.push(("file_type".to_owned(), Value::Integer(outtype.file_type())));
        given
    }

    /// Assigns each tensor to the first rule for it.
    pub(super) fn groups(
        &self,
        scope: &Scope<'_>,
        source: &dyn TensorSource,
    ) -> Result<(Vec<Group>, Vec<LeftOut>)> {
        let mut groups: Vec<Group> = Vec::new();
        let mut known: HashMap<(usize, Captures), usize> = HashMap::default();
        let (mut left_out, mut left_over) = (Vec::new(), Vec::new());
        for (index, tensor) in source.tensors().iter().enumerate() {
            let mut is_used = false;
            for (number, rule) in self.rules.iter().enumerate() {
                let Some((part, mut captures)) = matched(rule, &tensor.name) else { continue };
                if let Some(when) = &rule.when {
                    let locals = locals(rule, &captures, scope)?;
                    let is_met = scope.is_true(when, &locals);
                    if !is_met.map_err(|e| e.within(rule.line.clone()))? {
                        continue;
                    }
                }
                if let Action::Drop { reason, equal_to } = &rule.action {
                    if let Some(other) = equal_to
                        && !are_equal(source, index, &other.name(&captures)?)?
                    {
                        continue;
                    }
                    left_out.push(LeftOut { name: tensor.name.clone(), reason: reason.clone() });
                    is_used = true;
                    break;
                }
                let gathered = match &rule.gather {
                    None => 0,
                    Some((name, _)) => {
                        let at = captures.iter().position(|(own, _)| own == name);
                        let text = at.map(|at| captures.remove(at).1).unwrap_or_default();
                        text.parse().map_err(|_| {
                            let message = format!("`{}` is not a number", text.escaped());
                            VALUE.broken(message).in_tensor(&tensor.name)
                        })?
                    }
                };
                captures.sort();
                let key = (number, captures);
                let at = match known.get(&key) {
                    Some(at) => *at,
                    None => {
                        let at = groups.len();
                        let parts = vec![BTreeMap::new(); rule.from.len()];
                        groups.push(Group { rule: number, captures: key.1.clone(), parts });
                        known.insert(key, at);
                        at
                    }
                };
                let slot = groups.get_mut(at).and_then(|group| group.parts.get_mut(part));
                if let Some(other) = slot.and_then(|slot| slot.insert(gathered, index)) {
                    let other = source.tensors().get(other).map_or("", |t| t.name.as_str());
                    let message = format!("`{}` would be used in its stead", other.escaped());
                    return Err(INCOMPLETE.broken(message).in_tensor(&tensor.name));
                }
                is_used = true;
                if !rule.also {
                    break;
                }
            }
            if !is_used {
                left_over.push(tensor.name.as_str());
            }
        }
        if !left_over.is_empty() {
            let count = left_over.len();
            let names = list(left_over.iter().map(|name| format!("`{}`", name.escaped())));
            let message = format!("the recipe `{}` has no rule for {names}", self.name().escaped());
            let e = LEFT_OVER.broken(message);
            return Err(if count == 1 { e.in_tensor(left_over.concat()) } else { e });
        }
        Ok((groups, left_out))
    }

    /// Computes the tensors of a group.
    fn computed(
        &self,
        rule: &Rule,
        group: &Group,
        scope: &Scope<'_>,
        tensors: &[SourceTensor],
        outtype: OutType,
        requested: OutType,
    ) -> Result<Vec<Output>> {
        let combined = combined(rule, group, scope, tensors, read)?;
        let (all, sources) = combined;
        let mut stored = sources.iter().map(|at| tensors.get(*at).and_then(|t| t.blocks));
        let first = stored.next().flatten().filter(|_| requested == OutType::Auto);
        let same = first.filter(|of| stored.all(|other| other == Some(*of)));
        let mut out = Vec::new();
        for (name, computed) in all {
            let row = computed.shape.last().copied().unwrap_or(0);
            let form = match same {
                Some(of) if row > 0 && row.is_multiple_of(of.elements) => Form::SameBlocks(of),
                _ => self.form(&name, &computed, outtype),
            };
            out.push(Output { name, form, sources: sources.clone(), computed });
        }
        Ok(out)
    }

    /// Returns the form in which a tensor is written: vectors, tensors other than weights, and those that the recipe names
    /// stay F32.
    fn form(&self, name: &str, computed: &Computed, outtype: OutType) -> Form {
        let is_vector = computed.shape.len() < 2 || !name.ends_with(".weight");
        if is_vector || self.f32.iter().any(|pattern| pattern.matches(name).is_some()) {
            return Form::Float(DType::F32);
        }
        Form::of_matrix(outtype, computed.shape.last().copied().unwrap_or(0))
    }

    /// Computes the tensors that are made from the configuration alone.
    fn made(&self, scope: &Scope<'_>, outtype: OutType) -> Result<Vec<Output>> {
        let mut out = Vec::new();
        for rule in &self.rules {
            let Action::Make { shape, definitions, value } = &rule.action else { continue };
            let one = || -> Result<Option<Output>> {
                let mut locals = locals(rule, &[], scope)?;
                if let Some(when) = &rule.when
                    && !scope.is_true(when, &locals)?
                {
                    return Ok(None);
                }
                let shape = shape.iter().map(|n| scope.whole(n, &locals));
                let shape = shape.collect::<Result<Vec<_>>>()?;
                let Some(count) = element_count(&shape).filter(|n| *n <= MAX_MADE) else {
                    let message = format!("{shape:?} has more than {MAX_MADE} elements");
                    return Err(SHAPE.broken(message));
                };
                let mut numbers = Vec::new();
                for at in 0..count {
                    let before = locals.0.len();
                    locals.set("i", Value::Integer(at.into()));
                    for (name, expression) in definitions {
                        let value = scope.value(expression, &locals)?;
                        locals.set(name, value);
                    }
                    let number = scope.value(value, &locals)?;
                    locals.0.truncate(before);
                    let Some(x) = number.as_f64() else {
                        let found = number.to_json();
                        let message = format!("element {at} is {}, not a number", found.escaped());
                        return Err(VALUE.broken(message));
                    };
                    #[allow(clippy::cast_possible_truncation)]
                    // Rounding to the type of the tensor.
                    numbers.push(x as f32);
                }
                let name = match rule.to.first() {
                    Some(to) => to.name(&[])?,
                    None => return Ok(None),
                };
                let node = Node::Made(numbers.into());
                let computed = Computed { shape, element: float(DType::F32), node };
                let form = self.form(&name, &computed, outtype);
                Ok(Some(Output { name, form, sources: Vec::new(), computed }))
            };
            out.extend(one().map_err(|e| e.within(rule.line.clone()))?);
        }
        Ok(out)
    }
}

/// What a rule makes, by name, and the indices of the tensors that it is made of.
pub(super) type Combined<S> = (Vec<(String, S)>, Vec<usize>);

/// Applies a rule to a group of tensors, each of which `read` returns.
///
/// # Errors
/// Returns [`INCOMPLETE`] if a tensor is missing, the errors of the steps, and those of `read`.
pub(super) fn combined<S: Stepped>(
    rule: &Rule,
    group: &Group,
    scope: &Scope<'_>,
    tensors: &[SourceTensor],
    read: impl Fn(&SourceTensor, usize) -> Result<S>,
) -> Result<Combined<S>> {
    let locals = locals(rule, &group.captures, scope)?;
    let (mut parts, mut sources) = (Vec::new(), Vec::new());
    for (pattern, found) in rule.from.iter().zip(&group.parts) {
        let mut all = Vec::with_capacity(found.len());
        for index in found.values() {
            let Some(tensor) = tensors.get(*index) else { continue };
            sources.push(*index);
            all.push(read(tensor, *index)?);
        }
        match &rule.gather {
            None => match all.pop() {
                Some(one) => parts.push(one),
                None => {
                    let name = pattern.name(&group.captures)?;
                    let others = named(&sources, tensors);
                    let message = format!("`{}` is missing next to {others}", name.escaped());
                    return Err(INCOMPLETE.broken(message));
                }
            },
            Some((name, count)) => {
                let expected = match count {
                    Some(count) => scope.whole(count, &locals)?,
                    None => found.len() as u64,
                };
                if !found.keys().copied().eq(0..expected) {
                    let missing = (0..expected).find(|n| !found.contains_key(n));
                    let message = match missing {
                        Some(n) => format!(
                            "`{}` is missing for {} = {n}; expected {expected} of them",
                            pattern.as_str().escaped(),
                            name.escaped()
                        ),
                        None => format!(
                            "{} tensors like `{}`, expected {expected}",
                            found.len(),
                            pattern.as_str().escaped()
                        ),
                    };
                    return Err(INCOMPLETE.broken(message));
                }
                parts.push(S::stacked(all, 0)?);
            }
        }
    }
    let of_first = |e: holdall_core::Error| {
        let first = sources.first().and_then(|index| tensors.get(*index));
        e.in_tensor(first.map_or("", |tensor| tensor.name.as_str()))
    };
    let all = step::apply(&rule.steps, parts, scope, &locals).map_err(of_first)?;
    if all.len() != rule.to.len() {
        let (found, expected) = (all.len(), rule.to.len());
        let message = format!("the steps make {found} tensors for {expected} names");
        return Err(of_first(SHAPE.broken(message)));
    }
    let mut out = Vec::new();
    for (one, to) in all.into_iter().zip(&rule.to) {
        out.push((to.name(&group.captures)?, one));
    }
    Ok((out, sources))
}

/// The tensors of a source by their names.
pub(super) struct NamedTensors<'a> {
    names: HashMap<&'a str, usize>,
    source: &'a dyn TensorSource,
}

impl<'a> NamedTensors<'a> {
    pub(super) fn new(source: &'a dyn TensorSource) -> NamedTensors<'a> {
        let names = source.tensors().iter().enumerate();
        let names = names.map(|(at, tensor)| (tensor.name.as_str(), at)).collect();
        NamedTensors { names, source }
    }
}

impl Tensors for NamedTensors<'_> {
    fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    fn elements(&self, name: &str) -> Result<Option<Vec<f64>>> {
        let Some(at) = self.names.get(name) else { return Ok(None) };
        let Some(tensor) = self.source.tensors().get(*at) else { return Ok(None) };
        let count = self.source.count(*at);
        if count > MAX_READ {
            let message = format!("it has {count} elements, at most {MAX_READ} are read");
            return Err(VALUE.broken(message).in_tensor(name));
        }
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        self.source.read(*at, 0..count, &mut bytes)?;
        let ElementType { dtype, logical_type, .. } = &tensor.element;
        decode_f64(*dtype, logical_type.as_ref(), &bytes, |all| out.extend_from_slice(all))
            .map_err(|e| e.in_tensor(name))?;
        Ok(Some(out))
    }
}

/// Returns the type that matrices get if the caller chose none.
fn usual_type(tensors: &[SourceTensor]) -> OutType {
    let first = tensors.iter().find(|tensor| tensor.shape.len() >= 2);
    match first.map(|tensor| tensor.element == float(DType::F16)) {
        Some(true) => OutType::F16,
        _ => OutType::Bf16,
    }
}

/// Returns the number of the pattern that matches, and what it captures.
pub(super) fn matched(rule: &Rule, name: &str) -> Option<(usize, Captures)> {
    rule.from.iter().enumerate().find_map(|(at, pattern)| Some((at, pattern.matches(name)?)))
}

/// Returns the names that have a meaning in a rule: numbers and texts that its patterns captured, and its own
/// definitions.
pub(super) fn locals(
    rule: &Rule,
    captures: &[(String, String)],
    scope: &Scope<'_>,
) -> Result<Locals> {
    let mut locals = Locals::default();
    for (name, text) in captures {
        let number = text.parse::<u64>().ok().map(|n| Value::Integer(n.into()));
        locals.set(name, number.unwrap_or_else(|| Value::Text(text.clone())));
    }
    for (name, expression) in &rule.definitions {
        let value = scope.value(expression, &locals).map_err(|e| e.within(rule.line.clone()))?;
        locals.set(name, value);
    }
    Ok(locals)
}

pub(super) fn read(tensor: &SourceTensor, index: usize) -> Result<Computed> {
    let element = tensor.element.clone();
    let is_number = element.is_known()
        && element.class() != NumberClass::Complex
        && element.bits() == element.dtype.width().saturating_mul(8);
    if !is_number {
        let message = format!("elements of type {element} cannot be computed with");
        return Err(SHAPE.broken(message).in_tensor(&tensor.name));
    }
    Ok(Computed { shape: tensor.shape.clone(), element, node: Node::Source(index) })
}

fn named(indices: &[usize], tensors: &[SourceTensor]) -> String {
    let all = indices.iter().filter_map(|index| tensors.get(*index));
    list(all.map(|tensor| format!("`{}`", tensor.name.escaped())))
}

/// Returns `true` if a tensor has the same shape, type and bytes as the one with the name `other`.
fn are_equal(source: &dyn TensorSource, index: usize, other: &str) -> Result<bool> {
    let tensors = source.tensors();
    let Some(at) = tensors.iter().position(|tensor| tensor.name == other) else {
        return Ok(false);
    };
    let (Some(a), Some(b)) = (tensors.get(index), tensors.get(at)) else { return Ok(false) };
    if a.shape != b.shape || a.element != b.element {
        return Ok(false);
    }
    let count = source.count(index);
    let (mut start, mut own, mut others) = (0u64, Vec::new(), Vec::new());
    while start < count {
        let end = start.saturating_add(COMPARED).min(count);
        own.clear();
        others.clear();
        source.read(index, start..end, &mut own)?;
        source.read(at, start..end, &mut others)?;
        if own != others {
            return Ok(false);
        }
        start = end;
    }
    Ok(true)
}

pub(super) fn check_names(outputs: &[Output]) -> Result<()> {
    let mut names = HashSet::default();
    match outputs.iter().find(|output| !names.insert(output.name.as_str())) {
        None => Ok(()),
        Some(twice) => {
            let message = "two rules make a tensor of this name";
            Err(INCOMPLETE.broken(message).in_tensor(&twice.name))
        }
    }
}
