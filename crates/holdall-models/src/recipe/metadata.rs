//! The metadata that a recipe computes from a configuration.

use super::VALUE;
use super::evaluate::{Locals, Scope};
use super::expression::Expression;
use super::plan::Output;
use super::read::Entered;
use super::setting::{Kind, usual};
use holdall_core::error::{Escape as _, Result};
use holdall_core::model::{Attributes, Value, element_count};

/// The attribute that names the types of key–values of GGUF whose type does not follow from the value.
pub(super) const TYPES: &str = "holdall.gguf.types";

/// Evaluates metadata. A key whose value is null is left out. In a key, `{name}` is replaced by the value of a name.
///
/// # Errors
/// Returns [`VALUE`] if a value is missing that is required, or no value of metadata.
pub(super) fn values(all: &[Entered], scope: &Scope<'_>) -> Result<Attributes> {
    let mut out = Attributes::new();
    let mut types = Vec::new();
    for entered in all {
        let key = key(&entered.key, scope)?;
        let in_context = |e: holdall_core::Error| e.within(format!("`{}`", key.escaped()));
        let value = scope.value(&entered.value, &Locals::default()).map_err(in_context)?;
        match value {
            Value::Null if entered.required => {
                return Err(in_context(VALUE.broken("the configuration lacks its value")));
            }
            Value::Null => continue,
            Value::Map(_) => {
                return Err(in_context(VALUE.broken("a map is no value of metadata")));
            }
            value if has_null(&value) => {
                let message = "the configuration or the tensors lack a part of its value";
                return Err(in_context(VALUE.broken(message)));
            }
            value => {
                let value = single(value);
                if let Some(kind) = &entered.kind
                    && (Kind::by_name(kind).is_none() || Kind::by_name(kind) != usual(&value))
                {
                    types.push((Value::Text(key.clone()), Value::Text(kind.clone())));
                }
                out.set(key, value);
            }
        }
    }
    if !types.is_empty() {
        out.set(TYPES, Value::Map(types));
    }
    Ok(out)
}

/// Returns `true` if a list has a null in it.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Array(all) => all.iter().any(|item| *item == Value::Null || has_null(item)),
        _ => false,
    }
}

/// Rounds floats to F32, the type in which GGUF has them.
pub(super) fn single(value: Value) -> Value {
    match value {
        #[allow(clippy::cast_possible_truncation)] // Rounding is intended.
        Value::Float(x) => Value::Float(f64::from(x as f32)),
        Value::Array(all) => Value::Array(all.into_iter().map(single).collect()),
        other => other,
    }
}

fn key(text: &str, scope: &Scope<'_>) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        out.push_str(before);
        match scope.value(&Expression::Name(name.to_owned()), &Locals::default())? {
            Value::Text(value) => out.push_str(&value),
            other => {
                let found = other.to_json();
                let message = format!("`{}` is {}, not a text", name.escaped(), found.escaped());
                return Err(VALUE.broken(message).within(format!("`{}`", text.escaped())));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns the size of a model in words, such as `7.2B` or `8x7B`: with experts, their number and the size of the model
/// with one of them.
pub(super) fn size_label(outputs: &[Output]) -> String {
    let (mut shared, mut expert, mut experts, mut stacks) = (0u64, 0u64, 0u64, 0u64);
    for output in outputs {
        let shape = output.shape();
        let count = element_count(shape).unwrap_or(0);
        let inner = if output.name.ends_with(".bias") { 2 } else { 3 };
        let at = shape.len().checked_sub(inner).filter(|_| output.name.contains("_exps."));
        match at.and_then(|at| shape.get(at)).filter(|own| **own > 0) {
            Some(own) => {
                expert = expert.saturating_add(count.checked_div(*own).unwrap_or(0));
                experts = experts.saturating_add(*own);
                stacks = stacks.saturating_add(1);
            }
            None => shared = shared.saturating_add(count),
        }
    }
    let size = rounded(shared.saturating_add(expert));
    match experts.checked_div(stacks) {
        Some(count) if count > 0 => format!("{count}x{size}"),
        _ => size,
    }
}

/// Writes a number with two digits at least: `26K`, `1.2B`.
fn rounded(count: u64) -> String {
    let (scale, suffix) = match count {
        1_000_000_000_001.. => (1e12, 'T'),
        1_000_000_001.. => (1e9, 'B'),
        1_000_001.. => (1e6, 'M'),
        _ => (1e3, 'K'),
    };
    let scaled = count as f64 / scale;
    let whole = format!("{}", scaled.round_ties_even());
    let digits = whole.trim_start_matches('0').len();
    format!("{scaled:.0$}{suffix}", 2usize.saturating_sub(digits))
}
