//! Applies converters to JSON values.

use super::{Exact, Step};
use crate::error::{Error, Escape as _, Result};
use crate::evolve::rules::VALUE;
use crate::evolve::show;
use serde_json::Value;

impl Step {
    pub(super) fn value(&self, value: Value) -> Result<Value> {
        match self {
            Step::Map(pairs, rest) => {
                let found = pairs.iter().find(|(old, _)| match &value {
                    Value::String(text) => *text == old.text,
                    other => {
                        let numbers = (Exact::from_json(other), Exact::from_json(&old.value));
                        *other == old.value || matches!(numbers, (Some(a), Some(b)) if a.is_same(b))
                    }
                });
                let made = found.map(|(_, new)| new).or(rest.as_ref()).cloned();
                made.ok_or_else(|| {
                    let value = show::json(&value);
                    VALUE.broken(format!("`map` has no entry for {}", value.escaped()))
                })
            }
            Step::Const(made) => Ok(made.clone()),
            Step::Parse => match value {
                Value::String(text) => parsed(&text),
                Value::Number(_) | Value::Bool(_) => Ok(value),
                other => Err(not(&other, "text")),
            },
            Step::Text => Ok(Value::String(text(&value))),
            Step::Split(between) => match value {
                Value::String(text) if text.is_empty() => Ok(Value::Array(Vec::new())),
                Value::String(text) => Ok(text.split(between.as_str()).map(Value::from).collect()),
                other => Err(not(&other, "text")),
            },
            Step::Join(between, names) => {
                let parts: Vec<String> = match &value {
                    Value::Array(items) if names.is_empty() => items.iter().map(text).collect(),
                    Value::Object(members) if !names.is_empty() => {
                        names.iter().filter_map(|name| members.get(name)).map(text).collect()
                    }
                    other if names.is_empty() => return Err(not(other, "an array")),
                    other => return Err(not(other, "a struct")),
                };
                Ok(Value::String(parts.join(between)))
            }
            Step::Member(names) => names.iter().try_fold(value, |value, name| match value {
                Value::Object(mut members) => members
                    .remove(name)
                    .ok_or_else(|| VALUE.broken(format!("unknown member `{}`", name.escaped()))),
                other => Err(not(&other, "a struct")),
            }),
            Step::Reshape => Err(VALUE.broken("`reshape` only applies to tensors of a model")),
            Step::Cast(_) => Ok(value),
            numbers => match Exact::from_json(&value) {
                Some(number) => numbers.number(number)?.value(),
                None => {
                    let e = not(&value, "a number");
                    Err(match value.is_array() {
                        true => e.with_hint("add `[]` to the path to convert each element"),
                        false => e,
                    })
                }
            },
        }
    }
}

/// Parses a text as a number or a boolean.
fn parsed(text: &str) -> Result<Value> {
    let trimmed = text.trim();
    let wrong =
        || VALUE.broken(format!("`{}` is not a number", show::cut(&text.escaped().to_string())));
    match trimmed.to_ascii_lowercase().as_str() {
        "nan" => return Exact::Float(f64::NAN).value(),
        "inf" | "+inf" | "infinity" => return Exact::Float(f64::INFINITY).value(),
        "-inf" | "-infinity" => return Exact::Float(f64::NEG_INFINITY).value(),
        "true" => return Ok(true.into()),
        "false" => return Ok(false.into()),
        _ => {}
    }
    if let Ok(whole) = trimmed.parse::<i64>() {
        return Ok(whole.into());
    }
    if let Ok(whole) = trimmed.parse::<u64>() {
        return Ok(whole.into());
    }
    let is_digits = trimmed.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '+'));
    match trimmed.parse::<f64>() {
        // An integer that does not fit in 64 bits must not become a nearby float.
        Ok(x) if x.is_finite() && !is_digits => Exact::Float(x).value(),
        _ => Err(wrong()),
    }
}

/// Returns a text as it is, and any other value as its JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => match Exact::from_json(other) {
            Some(Exact::Float(x)) if !x.is_finite() => x.to_string().to_lowercase(),
            _ => other.to_string(),
        },
    }
}

#[cold]
fn not(value: &Value, what: &str) -> Error {
    VALUE.broken(format!("{} is not {what}", show::json(value).escaped()))
}
