//! The rows of the table of differences.

use super::Standing;
use crate::number::{brief, share, short};
use crate::output::style::Style;
use crate::output::table::Cell;
use crate::output::text::{Grouped, escape, printable, shape, tensor_type, value};
use holdall::diff::{AttributeDiff, ComponentDiff, TensorDiff, ValueDiff};
use holdall::{ElementType, File, Number, TensorInfo};

/// One row of the table.
pub(super) enum Row<'a> {
    Removed(&'a TensorInfo),
    Added(&'a TensorInfo),
    Changed(&'a TensorDiff),
    Attribute(&'a AttributeDiff),
}

/// Returns the cells of a row, with those of its numbers if any row has some.
pub(super) fn cells(a: &File, row: &Row<'_>, values_only: bool, has_values: bool) -> Vec<Cell> {
    let mut out = start(a, row, values_only);
    if has_values {
        let values = match row {
            Row::Changed(d) => d.values.as_ref(),
            _ => None,
        };
        let at = out.len().saturating_sub(1);
        out.splice(at..at, numbers(values).map(Cell::new));
    }
    out
}

/// Returns the share of changed elements, the relative error, the root mean square of the differences and the cosine.
fn numbers(values: Option<&ValueDiff>) -> [String; 4] {
    let Some(v) = values else { return [const { String::new() }; 4] };
    [share(v.unequal, v.count), number(v.relative), number(v.rms), cosine(v.cosine)]
}

pub(super) fn number(x: Option<f64>) -> String {
    x.map_or("-".to_owned(), brief)
}

pub(super) fn cosine(x: Option<f64>) -> String {
    match x {
        None => "-".to_owned(),
        // Six decimals do not tell it from 1.
        Some(x) if (1.0 - 5e-7..1.0).contains(&x) => format!("1−{:.1e}", 1.0 - x),
        Some(x) if x < 1.0 => format!("{x:.6}"),
        Some(_) => "1".to_owned(),
    }
}

/// Returns the cells of a row without those of its numbers.
fn start(a: &File, row: &Row<'_>, values_only: bool) -> Vec<Cell> {
    let one = |mark, style, t: &TensorInfo, what: &'static str| {
        vec![
            Cell::styled(mark, style),
            Cell::styled(escape(t.name()), style),
            Cell::styled(tensor_type(t), Style::Type),
            Cell::new(shape(t.shape())),
            Cell::new(what),
        ]
    };
    match row {
        Row::Removed(t) => one("-", Style::Bad, t, "only in the first"),
        Row::Added(t) => one("+", Style::Good, t, "only in the second"),
        Row::Attribute(d) => vec![
            Cell::styled("~", Style::Warn),
            Cell::styled(format!("attribute {}", escape(&d.key)), Style::Warn),
            Cell::default(),
            Cell::default(),
            Cell::new(attribute(d)),
        ],
        Row::Changed(d) => {
            let (mark, style) = match Standing::from_diff(d, values_only) {
                Standing::Agree => ("≈", Style::Plain),
                Standing::Unknown => ("?", Style::Warn),
                Standing::Differ => ("~", Style::Warn),
            };
            let old = a.index().get(&d.name);
            let type_name = |t: &Option<ElementType>| {
                t.as_ref().map_or("-".to_owned(), |t| escape(&t.to_string()))
            };
            let dtype = match (&d.types, &old) {
                (Some((x, y)), _) => format!("{} → {}", type_name(x), type_name(y)),
                (None, Some(t)) => tensor_type(t).into_owned(),
                (None, None) => String::new(),
            };
            let dims = match (&d.shapes, &old) {
                (Some((x, y)), _) => format!("{} → {}", shape(x), shape(y)),
                (None, Some(t)) => shape(t.shape()),
                (None, None) => String::new(),
            };
            vec![
                Cell::styled(mark, style),
                Cell::styled(escape(&d.name), style),
                Cell::styled(dtype, Style::Type),
                Cell::new(dims),
                Cell::new(difference(d)),
            ]
        }
    }
}

/// Describes the differences between two tensors, except those of type and shape.
fn difference(d: &TensorDiff) -> String {
    let mut parts = Vec::new();
    if let Some((a, b)) = &d.layouts {
        parts.push(format!("{} → {}", escape(a.as_str()), escape(b.as_str())));
    }
    if let Some(values) = &d.values {
        parts.push(values_line(values));
    }
    if let Some(e) = &d.incomparable {
        parts.push(format!("values not compared: {} [{}]", printable(e.message()), e.code()));
    }
    // Differences between decoded values were reported instead.
    for c in d.components.iter().filter(|_| d.values.is_none()) {
        parts.push(component(c));
    }
    for attribute_diff in &d.attributes {
        let key = escape(&attribute_diff.key);
        parts.push(format!("attribute {key}: {}", attribute(attribute_diff)));
    }
    if parts.is_empty() && d.types.is_some() {
        parts.push("equal values".to_owned());
    }
    parts.join("; ")
}

fn values_line(v: &ValueDiff) -> String {
    let n = if v.differing > 0 { v.differing } else { v.unequal };
    let mut text = format!("{} of {} differ", Grouped(n), Grouped(v.count));
    if v.differing == 0 {
        text.push_str(" within the tolerance");
    }
    text.push_str(&format!(", by at most {}", short(v.max_abs)));
    if v.max_rel > 0.0 {
        text.push_str(&format!(" ({} relative)", short(v.max_rel)));
    }
    if v.non_finite > 0 {
        text.push_str(&format!(", {} NaN or infinite on one side", Grouped(v.non_finite)));
    }
    if let Some(first) = &v.first {
        let (a, b) = (element(first.a), element(first.b));
        text.push_str(&format!(", first at {:?}: {a} → {b}", first.index));
    }
    text
}

fn element(n: Number) -> String {
    match n {
        Number::Float(x) => short(x),
        other => other.to_string(),
    }
}

fn component(c: &ComponentDiff) -> String {
    let role = escape(c.role.as_str());
    match (&c.types, &c.values) {
        ((Some(_), None), _) => format!("{role} only in the first"),
        ((None, _), _) => format!("{role} only in the second"),
        ((Some(a), Some(b)), _) if a != b => format!("{role}: {a} → {b}"),
        (_, Some(values)) => format!("{role}: {}", values_line(values)),
        _ => format!("{role}: other lengths"),
    }
}

/// Formats a changed attribute: `pt → np`, `none → np`.
pub(super) fn attribute(d: &AttributeDiff) -> String {
    let side = |v: &Option<holdall::Value>| v.as_ref().map_or("none".to_owned(), value);
    format!("{} → {}", side(&d.a), side(&d.b))
}
