//! Matches the inputs and outputs of a description with those of the graph.

use crate::rules::ONNX_NAME;
use holdall::Result;
use holdall::carton::{ValueSpec, ValueType};

/// An input or output.
pub(super) struct End {
    /// The name in the description.
    pub name: String,
    /// The index of the graph's input or output.
    pub index: usize,
    /// The declared type; `None` if nothing is declared.
    pub ty: Option<ValueType>,
}

/// Matches the declared inputs with the graph's; if none are declared, returns the graph's.
pub(super) fn inputs(declared: &[ValueSpec], graph: &[String]) -> Result<Vec<End>> {
    let ends = ends(declared, graph, "input")?;
    match (0..graph.len()).find(|at| ends.iter().all(|end| end.index != *at)) {
        None => Ok(ends),
        Some(left) => {
            let name = graph[left].escape_debug();
            Err(ONNX_NAME.broken(format!("the graph's input `{name}` is not declared")))
        }
    }
}

/// Matches the declared outputs with the graph's; if none are declared, returns the graph's.
pub(super) fn outputs(declared: &[ValueSpec], graph: &[String]) -> Result<Vec<End>> {
    ends(declared, graph, "output")
}

fn ends(declared: &[ValueSpec], graph: &[String], what: &str) -> Result<Vec<End>> {
    if declared.is_empty() {
        let all = graph.iter().enumerate();
        return Ok(all.map(|(at, name)| End { name: name.clone(), index: at, ty: None }).collect());
    }
    let end = |spec: &ValueSpec| {
        let wanted = spec.internal_name.as_ref().unwrap_or(&spec.name);
        let at = graph.iter().position(|name| name == wanted).ok_or_else(|| {
            let names: Vec<String> =
                graph.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
            let e = format!("the graph has no {what} `{}`, only ", wanted.escape_debug());
            ONNX_NAME.broken(e + &names.join(", "))
        })?;
        Ok(End { name: spec.name.clone(), index: at, ty: Some(spec.ty) })
    };
    declared.iter().map(end).collect()
}
