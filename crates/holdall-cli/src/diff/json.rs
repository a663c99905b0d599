//! The JSON of `diff`, described in `docs/cli.md`.

use crate::output::json::{push_element, push_error, push_f64, push_optional, push_string};
use holdall::diff::{AttributeDiff, ComponentDiff, TensorDiff, ValueDiff};
use holdall::{Diff, ElementType, File, TensorInfo};

/// The object for two files.
pub(super) fn report(a: &File, b: &File, diff: &Diff) -> String {
    let mut out = String::from("{");
    for (key, file) in [("a", a), ("b", b)] {
        out.push_str(&format!("\"{key}\":{{\"source\":"));
        push_string(file.name(), &mut out);
        out.push_str(",\"format\":");
        push_string(file.format(), &mut out);
        out.push_str(",\"version\":");
        push_string(file.version(), &mut out);
        out.push_str("},");
    }
    out.push_str(&format!(
        "\"identical\":{},\"same\":{},\"values_agree\":{},\"undecided\":{},\"compared\":{},\"unchanged\":{}",
        diff.is_identical(),
        diff.is_same(),
        diff.values_agree(),
        diff.is_undecided(),
        diff.compared,
        diff.identical,
    ));
    push_list("removed", &diff.removed, push_info, &mut out);
    push_list("added", &diff.added, push_info, &mut out);
    push_list("changed", &diff.changed, push_tensor, &mut out);
    push_list("attributes", &diff.attributes, push_attribute, &mut out);
    out.push('}');
    out
}

fn push_list<T>(key: &str, all: &[T], push: impl Fn(&T, &mut String), out: &mut String) {
    out.push_str(&format!(",\"{key}\":["));
    for (at, item) in all.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        push(item, out);
    }
    out.push(']');
}

fn push_info(t: &TensorInfo, out: &mut String) {
    out.push_str("{\"name\":");
    push_string(t.name(), out);
    out.push_str(",\"dtype\":");
    push_optional(t.dtype().map(|d| d.as_str()), out);
    out.push_str(",\"logical_type\":");
    push_optional(t.logical_type().as_ref().map(|t| t.as_str()), out);
    out.push_str(&format!(",\"shape\":{:?},\"layout\":", t.shape()));
    push_string(t.layout().as_str(), out);
    out.push('}');
}

fn push_tensor(d: &TensorDiff, out: &mut String) {
    out.push_str("{\"name\":");
    push_string(&d.name, out);
    out.push_str(&format!(",\"same\":{},\"types\":", d.is_same()));
    match &d.types {
        None => out.push_str("null"),
        Some((a, b)) => push_pair(a.as_ref(), b.as_ref(), push_type, out),
    }
    out.push_str(",\"shapes\":");
    match &d.shapes {
        None => out.push_str("null"),
        Some((a, b)) => out.push_str(&format!("[{a:?},{b:?}]")),
    }
    out.push_str(",\"layouts\":");
    match &d.layouts {
        None => out.push_str("null"),
        Some((a, b)) => {
            push_pair(Some(a), Some(b), |layout, out| push_string(layout.as_str(), out), out);
        }
    }
    push_list("attributes", &d.attributes, push_attribute, out);
    push_list("components", &d.components, push_component, out);
    out.push_str(",\"values\":");
    push_values(d.values.as_ref(), out);
    out.push_str(",\"incomparable\":");
    match &d.incomparable {
        None => out.push_str("null"),
        Some(e) => push_error(e, out),
    }
    out.push('}');
}

fn push_pair<T>(a: Option<&T>, b: Option<&T>, push: impl Fn(&T, &mut String), out: &mut String) {
    for (bracket, side) in [('[', a), (',', b)] {
        out.push(bracket);
        match side {
            None => out.push_str("null"),
            Some(side) => push(side, out),
        }
    }
    out.push(']');
}

fn push_type(t: &ElementType, out: &mut String) {
    out.push_str(&format!("{{\"dtype\":\"{}\",\"logical_type\":", t.dtype));
    push_optional(t.logical_type.as_ref().map(|t| t.as_str()), out);
    out.push('}');
}

fn push_component(c: &ComponentDiff, out: &mut String) {
    out.push_str("{\"role\":");
    push_string(c.role.as_str(), out);
    out.push_str(",\"types\":");
    push_pair(c.types.0.as_ref(), c.types.1.as_ref(), push_type, out);
    out.push_str(",\"lens\":");
    push_pair(c.lens.0.as_ref(), c.lens.1.as_ref(), |n, out| out.push_str(&n.to_string()), out);
    out.push_str(",\"values\":");
    push_values(c.values.as_ref(), out);
    out.push('}');
}

fn push_values(v: Option<&ValueDiff>, out: &mut String) {
    let Some(v) = v else { return out.push_str("null") };
    let (count, unequal, differing) = (v.count, v.unequal, v.differing);
    out.push_str(&format!(
        "{{\"count\":{count},\"unequal\":{unequal},\"differing\":{differing},\"max_abs\":"
    ));
    push_f64(v.max_abs, out);
    out.push_str(",\"max_rel\":");
    push_f64(v.max_rel, out);
    out.push_str(",\"first\":");
    match &v.first {
        None => out.push_str("null"),
        Some(first) => {
            out.push_str(&format!("{{\"index\":{:?},\"a\":", first.index));
            push_element(first.a, out);
            out.push_str(",\"b\":");
            push_element(first.b, out);
            out.push('}');
        }
    }
    out.push('}');
}

fn push_attribute(d: &AttributeDiff, out: &mut String) {
    out.push_str("{\"key\":");
    push_string(&d.key, out);
    // A side that does not have it is left out: null is a value.
    for (key, side) in [("a", &d.a), ("b", &d.b)] {
        if let Some(value) = side {
            out.push_str(&format!(",\"{key}\":"));
            value.write_json(out);
        }
    }
    out.push('}');
}
