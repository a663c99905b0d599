//! Reading recipes.

use super::ARCHITECTURE;
use super::builtin::builtin;
use super::evaluate::{Locals, NoTensors, Scope, member};
use super::expression::{Expression, is_name};
use super::pattern::Pattern;
use super::step::{self, Step};
use super::text::{Entry, Table};
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{Attributes, Value};

/// The key of the architecture in GGUF files.
const ARCHITECTURE_KEY: &str = "general.architecture";
/// The maximum number of recipes that extend each other.
const MAX_EXTENDS: usize = 8;

/// A recipe, together with those that it extends.
#[derive(Debug, Clone)]
pub struct Recipe {
    name: String,
    about: String,
    architectures: Vec<String>,
    model_types: Vec<String>,
    when: Option<Expression>,
    /// Names in expressions, and the JSON files of the model's folder that they stand for.
    pub(super) files: Vec<(String, String)>,
    pub(super) definitions: Vec<(String, Expression)>,
    /// The values of keys that a configuration lacks.
    pub(super) defaults: Vec<(String, Expression)>,
    pub(super) rules: Vec<Rule>,
    pub(super) metadata: Vec<Entered>,
    /// Keys of a configuration, and their values from the metadata that the recipe writes.
    config: Vec<(String, Expression)>,
    /// The names of tensors that stay F32.
    pub(super) f32: Vec<Pattern>,
    /// Texts to warn with, and their conditions.
    pub(super) warnings: Vec<(Expression, String)>,
    steps: Vec<(String, Vec<Step>)>,
}

/// A rule for tensors.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// The line of the text, for errors.
    pub(super) line: String,
    pub(super) from: Vec<Pattern>,
    pub(super) to: Vec<Pattern>,
    pub(super) when: Option<Expression>,
    pub(super) definitions: Vec<(String, Expression)>,
    /// The capture over whose numbers tensors are stacked, and how many there must be.
    pub(super) gather: Option<(String, Option<Expression>)>,
    pub(super) steps: Vec<Step>,
    pub(super) action: Action,
    /// Whether further rules may use the same tensors.
    pub(super) also: bool,
}

/// What a rule does with its tensors.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Write,
    /// The tensors are left out, for this reason; if there is a pattern, only tensors that are equal to that one.
    Drop {
        reason: String,
        equal_to: Option<Pattern>,
    },
    /// A tensor is computed from the configuration alone.
    Make {
        shape: Vec<Expression>,
        definitions: Vec<(String, Expression)>,
        value: Expression,
    },
}

/// A key of the metadata and its value.
#[derive(Debug, Clone)]
pub(super) struct Entered {
    pub(super) key: String,
    pub(super) value: Expression,
    /// The type in GGUF, if it is not the usual one for the value.
    pub(super) kind: Option<String>,
    pub(super) required: bool,
}

impl Recipe {
    /// Parses a recipe. It may extend recipes of [`builtin`].
    ///
    /// # Errors
    /// Returns the errors of TOML, [`TEXT`](super::TEXT) and [`EXPRESSION`](super::EXPRESSION).
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Recipe> {
        Recipe::parse_at(text, limits, 0)
    }

    fn parse_at(text: &[u8], limits: &Limits, depth: usize) -> Result<Recipe> {
        let mut table = Table::parse(text, limits)?;
        let name = table.require("recipe")?.text()?.to_owned();
        let about = table.take_text("about")?.unwrap_or_default();
        let parent = match table.take("extends") {
            None => None,
            Some(e) => {
                let wanted = e.text()?;
                let known = builtin().iter().find(|(name, _)| *name == wanted);
                let Some((_, text)) = known.filter(|_| depth < MAX_EXTENDS) else {
                    return Err(e.wrong(&format!("no recipe named `{}`", wanted.escaped())));
                };
                Some(Recipe::parse_at(text.as_bytes(), limits, depth.saturating_add(1))?)
            }
        };
        let mut recipe = Recipe {
            name,
            about,
            architectures: table.take_texts("architectures")?,
            model_types: table.take_texts("model_types")?,
            when: table.take_expression("when")?,
            files: Vec::new(),
            definitions: Vec::new(),
            defaults: Vec::new(),
            rules: Vec::new(),
            metadata: Vec::new(),
            config: Vec::new(),
            f32: Vec::new(),
            warnings: Vec::new(),
            steps: Vec::new(),
        };
        if let Some(parent) = &parent {
            recipe.files.clone_from(&parent.files);
            recipe.definitions.clone_from(&parent.definitions);
            recipe.defaults.clone_from(&parent.defaults);
            recipe.f32.clone_from(&parent.f32);
            recipe.warnings.clone_from(&parent.warnings);
            recipe.steps.clone_from(&parent.steps);
            recipe.metadata.clone_from(&parent.metadata);
            recipe.config.clone_from(&parent.config);
        }
        for e in table.take_entries("files")? {
            checked_name(&e)?;
            let path = e.text()?;
            let is_inside = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
            if !is_inside || path.contains(['\\', ':']) {
                return Err(e.wrong("expected a path inside the model's folder"));
            }
            recipe.files.push((e.key().to_owned(), path.to_owned()));
        }
        recipe.definitions.extend(definitions_of("let", &mut table)?);
        recipe.defaults.extend(definitions_of("defaults", &mut table)?);
        for e in table.take_entries("steps")? {
            let name = e.key().to_owned();
            recipe.steps.push((name, step::read(e.tables()?)?));
        }
        if let Some(e) = table.take("f32") {
            for text in e.texts()? {
                recipe.f32.push(Pattern::parse(&text).map_err(|error| e.in_context(error))?);
            }
        }
        for mut e in table.take("warnings").map(Entry::tables).transpose()?.unwrap_or_default() {
            let when = e.require("when")?.expression()?;
            recipe.warnings.push((when, e.require("text")?.text()?.to_owned()));
            e.finish()?;
        }
        for one in table.take("tensors").map(Entry::tables).transpose()?.unwrap_or_default() {
            recipe.rules.push(rule(one)?);
        }
        for e in table.take_entries("rename")? {
            recipe.rules.push(renaming(&e)?);
        }
        for e in table.take_entries("metadata")? {
            let entered = metadata(e)?;
            match recipe.metadata.iter_mut().find(|own| own.key == entered.key) {
                Some(own) => *own = entered,
                None => recipe.metadata.push(entered),
            }
        }
        for e in table.take_entries("config")? {
            let (key, value) = (e.key().to_owned(), e.expression()?);
            recipe.config.retain(|(own, _)| *own != key);
            recipe.config.push((key, value));
        }
        table.finish()?;
        if let Some(parent) = parent {
            // The rules of the recipe itself come first.
            recipe.rules.extend(parent.rules);
        }
        if depth == 0 {
            let steps = std::mem::take(&mut recipe.steps);
            let named = |name: &str| {
                let found = steps.iter().rev().find(|(own, _)| own == name);
                found.map(|(_, steps)| steps.clone())
            };
            for rule in &mut recipe.rules {
                rule.steps = step::resolved(&rule.steps, &named, 0)
                    .map_err(|e| e.within(rule.line.clone()))?;
            }
            recipe.steps = steps;
        }
        Ok(recipe)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a sentence about the models that the recipe is for.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Returns the architectures that the recipe is for, as in `architectures` of a `config.json`.
    pub fn architectures(&self) -> &[String] {
        &self.architectures
    }

    /// Returns the `general.architecture` of the GGUF files that the recipe writes, if it does not depend on the model.
    pub fn gguf_architecture(&self) -> Option<&str> {
        let (_, value) = self.definitions.iter().rev().find(|(name, _)| name == "arch")?;
        match value {
            Expression::Text(name) => Some(name),
            _ => None,
        }
    }

    /// Checks that the recipe writes files with the `general.architecture` of this metadata, for a model with this
    /// configuration.
    ///
    /// # Errors
    /// Returns [`ARCHITECTURE`] if it writes another one.
    pub fn check_architecture(&self, config: &Value, metadata: &Attributes) -> Result<()> {
        let scope =
            Scope::new(config, &self.definitions, &[], &NoTensors).with_defaults(&self.defaults);
        let entered = self.metadata.iter().find(|entered| entered.key == ARCHITECTURE_KEY);
        let written = entered.map(|entered| scope.value(&entered.value, &Locals::default()));
        let written = match &written {
            Some(Ok(Value::Text(written))) => Some(written.as_str()),
            _ => self.gguf_architecture(),
        };
        let found = metadata.get(ARCHITECTURE_KEY).and_then(Value::as_text);
        match (written, found) {
            (Some(written), Some(found)) if written != found => {
                let (name, found) = (self.name.escaped(), found.escaped());
                Err(ARCHITECTURE.broken(format!(
                    "the recipe `{name}` writes files whose `{ARCHITECTURE_KEY}` is `{}`, but that of the file is `{found}`",
                    written.escaped()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the configuration of a model with this metadata, as far as the recipe knows: what the way back needs.
    ///
    /// # Errors
    /// Returns [`VALUE`](super::VALUE) if an expression has no value.
    pub fn config(&self, metadata: &Attributes) -> Result<Value> {
        let pairs =
            metadata.iter().map(|(key, value)| (Value::Text(key.to_owned()), value.clone()));
        let given = [("kv".to_owned(), Value::Map(pairs.collect()))];
        let none = Value::Map(Vec::new());
        let scope = Scope::new(&none, &self.definitions, &given, &NoTensors);
        let mut out = Vec::new();
        let mut add = |key: &str, value: Value| out.push((Value::Text(key.to_owned()), value));
        if let Some(name) = self.architectures.first() {
            add("architectures", Value::Array(vec![Value::Text(name.clone())]));
        }
        if let Some(name) = self.model_types.first() {
            add("model_type", Value::Text(name.clone()));
        }
        for (key, expression) in &self.config {
            let value = scope.value(expression, &Locals::default());
            match value.map_err(|e| e.within(format!("`{}`", key.escaped())))? {
                Value::Null => {}
                value => add(key, value),
            }
        }
        Ok(Value::Map(out))
    }

    /// Returns the paths of the JSON files in a model's folder whose values the recipe uses.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(_, path)| path.as_str())
    }

    /// Returns `true` if the recipe is for models with this configuration.
    pub fn applies(&self, config: &Value) -> bool {
        let own = match member(config, "architectures") {
            Some(Value::Array(all)) => all.first().and_then(Value::as_text),
            _ => None,
        };
        let is_named = match own {
            Some(name) => self.architectures.iter().any(|own| own == name),
            None => {
                let kind = member(config, "model_type").and_then(Value::as_text);
                self.model_types.iter().any(|own| Some(own.as_str()) == kind)
            }
        };
        let is_met = |when: &Expression| {
            let scope = Scope::new(config, &self.definitions, &[], &NoTensors)
                .with_defaults(&self.defaults);
            scope.is_true(when, &Locals::default()).unwrap_or(false)
        };
        is_named && self.when.as_ref().is_none_or(is_met)
    }
}

fn checked_name(e: &Entry<'_>) -> Result<()> {
    match is_name(e.key()) {
        true => Ok(()),
        false => Err(e.wrong("names consist of letters, digits and `_`")),
    }
}

fn metadata(e: Entry<'_>) -> Result<Entered> {
    let key = e.key().to_owned();
    if !e.is_table() {
        let value = e.expression()?;
        return Ok(Entered { key, value, kind: None, required: false });
    }
    let mut table = e.table()?;
    let value = table.require("value")?.expression()?;
    let kind = table.take_text("type")?;
    let required = table.take_flag("required")?;
    table.finish()?;
    Ok(Entered { key, value, kind, required })
}

/// Reads the names that a table of this name defines.
fn definitions_of(name: &str, table: &mut Table<'_>) -> Result<Vec<(String, Expression)>> {
    let mut out = Vec::new();
    for e in table.take_entries(name)? {
        checked_name(&e)?;
        out.push((e.key().to_owned(), e.expression()?));
    }
    Ok(out)
}

/// Returns the rule for tensors that only get another name.
fn renaming(e: &Entry<'_>) -> Result<Rule> {
    let parse = |text: &str| Pattern::parse(text).map_err(|error| e.in_context(error));
    let from = vec![parse(e.key())?];
    let mut to = parse(e.text()?)?;
    to.constrain(&from);
    Ok(Rule {
        line: e.line(),
        from,
        to: vec![to],
        when: None,
        definitions: Vec::new(),
        gather: None,
        steps: Vec::new(),
        action: Action::Write,
        also: false,
    })
}

fn rule(mut table: Table<'_>) -> Result<Rule> {
    let line = table.line();
    let patterns = |texts: Vec<String>, table: &Table<'_>| -> Result<Vec<Pattern>> {
        let parsed = texts.iter().map(|text| Pattern::parse(text));
        parsed.collect::<Result<_>>().map_err(|e| table.in_context(e))
    };
    let from = table.take_texts("from")?;
    let from = patterns(from, &table)?;
    let to = table.take_texts("to")?;
    let mut to = patterns(to, &table)?;
    to.iter_mut().for_each(|pattern| pattern.constrain(&from));
    let when = table.take_expression("when")?;
    let definitions = definitions_of("let", &mut table)?;
    let count = table.take_expression("count")?;
    let gather = table.take_text("gather")?.map(|name| (name, count));
    let also = table.take_flag("also")?;
    let steps = table.take("steps").map(Entry::tables).transpose()?.unwrap_or_default();
    let steps = step::read(steps)?;
    let (reason, equal_to) = (table.take_text("drop")?, table.take_text("equal_to")?);
    let make = table.take("make").map(Entry::table).transpose()?;
    let action = match (reason, make) {
        (None, None) if from.is_empty() => return Err(table.wrong("missing key `from`")),
        (None, None) if to.is_empty() => return Err(table.wrong("missing key `to`")),
        (None, None) => Action::Write,
        (Some(reason), None) if to.is_empty() && !from.is_empty() => {
            let equal_to = patterns(equal_to.into_iter().collect(), &table)?.pop();
            Action::Drop { reason, equal_to }
        }
        (None, Some(mut make)) if from.is_empty() && to.len() == 1 => {
            let shape = make.require("shape")?.expressions()?;
            let definitions = definitions_of("let", &mut make)?;
            let value = make.require("value")?.expression()?;
            make.finish()?;
            Action::Make { shape, definitions, value }
        }
        _ => {
            let what = "`drop` has `from` only, and `make` one name in `to` only";
            return Err(table.wrong(what));
        }
    };
    if let Some((name, _)) = &gather
        && !from.iter().all(|pattern| pattern.captures().any(|own| own == name))
    {
        return Err(table.wrong(&format!("`{}` is not captured", name.escaped())));
    }
    table.finish()?;
    Ok(Rule { line, from, to, when, definitions, gather, steps, action, also })
}
