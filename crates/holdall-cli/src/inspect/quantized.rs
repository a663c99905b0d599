//! The quantized weights of a model, after its stored tensors.

use super::list;
use crate::exit::Failure;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::text::{count, printable};
use crate::session::Session;
use holdall::plain::{Plain, ToPlain as _};
use holdall::{File, Select, Tensor};
use std::io::Write as _;

/// The number of weights with faults that are listed.
const FAULTS_SHOWN: usize = 10;

/// Prints a table of the quantized weights, and why some of them have no values.
pub(super) fn table(
    session: &Session,
    file: &File,
    select: &Select,
    group: bool,
) -> Result<(), Failure> {
    if file.has_dequantized_weights() {
        return Ok(());
    }
    let logical = match file.dequantized() {
        Ok(logical) => logical,
        Err(e) => {
            session.warn(printable(&e.to_string()));
            return Ok(());
        }
    };
    let all = logical.tensors().filter(|t| t.quantized_weight().is_some());
    let all: Vec<Tensor> = all.filter(|t| select.selects(t.name())).collect();
    if all.is_empty() {
        return Ok(());
    }
    let paint = session.paint();
    let (sound, faulty): (Vec<Tensor>, Vec<Tensor>) =
        all.into_iter().partition(|t| t.fault().is_none());
    writeln!(session.out(), "\n{}", paint.styled("quantized weights", Style::Title))?;
    list::table(session, &sound, group)?;
    let out = &mut *session.out();
    for tensor in faulty.iter().take(FAULTS_SHOWN) {
        let fault = tensor.fault().map(|e| e.to_string()).unwrap_or_default();
        writeln!(out, "{} {}", paint.styled("unreadable:", Style::Bad), printable(&fault))?;
    }
    if let Some(more) = faulty.len().checked_sub(FAULTS_SHOWN).filter(|more| *more > 0) {
        let more = count(more as u64, "more weight");
        writeln!(out, "{} {more}", paint.styled("unreadable:", Style::Bad))?;
    }
    Ok(())
}

/// Returns the member of the JSON object with the quantized weights. Empty for a model without them.
pub(super) fn json(session: &Session, file: &File) -> String {
    match file.quantized_weights() {
        Ok([]) => String::new(),
        Ok(all) => {
            let all = Plain::list(all.iter().map(|weight| weight.to_plain()));
            format!(",\"quantized\":{}", as_json(&all))
        }
        Err(e) => {
            session.warn(printable(&e.to_string()));
            String::new()
        }
    }
}
