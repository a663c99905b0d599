//! The JSON output of `inspect`, which is stable and described in `docs/cli.md`.

use super::digests::Digests;
use super::stats;
use crate::exit::Failure;
use crate::output::as_json;
use crate::session::Session;
use holdall::plain::{Plain, ToPlain as _};
use holdall::{Component, File, Layout, ModelFolder, Tensor, TensorRecords as _, fields};
use std::io::Write as _;

/// Writes the object of one file as one line, tensor by tensor.
pub(super) fn write(
    session: &Session,
    file: &File,
    folder: Option<&ModelFolder>,
    tensors: &[Tensor],
    with_sha256: bool,
    with_stats: bool,
) -> Result<(), Failure> {
    // Read first, so that an error does not leave incomplete JSON.
    let digests = Digests::compute(session, tensors, with_sha256)?;
    let stats = with_stats.then(|| stats::compute(session, tensors, true)).transpose()?;
    let out = &mut *session.out();
    let head = as_json(&file.to_plain().and(fields!(attributes: file.attributes())));
    // The last bracket closes the object. Remove it, because the tensors are appended one by one.
    write!(out, "{},\"tensors\":[", head.strip_suffix('}').unwrap_or(&head))?;
    let mut text = String::with_capacity(1 << 10);
    for (at, tensor) in tensors.iter().enumerate() {
        text.push_str(if at > 0 { "," } else { "" });
        let components = components(tensor, &digests);
        let mut fields = fields! {
            name: tensor.name(),
            shape: tensor.shape(),
            layout: tensor.layout().as_str(),
            attributes: tensor.attributes(),
            components: Plain::map(components.iter().map(component_fields)),
        };
        if let Some(stats) = &stats {
            fields = fields.and(fields!(stats: &stats[at]));
        }
        let members = match tensor.layout() {
            Layout::Records => tensor.records().and_then(|records| records.members()).ok(),
            _ => None,
        };
        if let Some(members) = &members {
            fields = fields.and(fields!(members: Plain::list(members)));
        }
        let fault = tensor.fault();
        if let Some(fault) = &fault {
            fields = fields.and(fields!(fault: fault));
        }
        text.push_str(&as_json(&fields));
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    let folder = folder.map(|folder| format!(",\"folder\":{}", as_json(&folder.to_plain())));
    let unrepresented = file.index().unrepresented();
    let unrepresented = match unrepresented {
        [] => String::new(),
        all => format!(",\"unrepresented\":{}", as_json(&Plain::from(all))),
    };
    let quantized = super::quantized::json(session, file);
    let warnings = as_json(&Plain::from(file.warnings()));
    let folder = folder.unwrap_or_default();
    writeln!(out, "],\"files\":[]{folder}{unrepresented}{quantized},\"warnings\":{warnings}}}")?;
    Ok(())
}

/// Returns the components with their decoded length, and their SHA-256 if it was requested.
fn components(tensor: &Tensor, digests: &Digests) -> Vec<(Component, Option<String>)> {
    let one = |mut c: Component| {
        let result = digests.get(&c);
        let sha256 = result.and_then(|t| t.digest.as_ref()).map(|digest| {
            let text = digest.to_string();
            text.strip_prefix("sha256:").unwrap_or(&text).to_owned()
        });
        c.decoded_len = c.decoded_len.or(result.map(|t| t.decoded_len));
        (c, sha256)
    };
    tensor.components().map(one).collect()
}

fn component_fields((c, sha256): &(Component, Option<String>)) -> (&str, Plain<'_>) {
    let fields = c.to_plain();
    let fields = match sha256 {
        Some(sha256) => fields.and(fields!(sha256: sha256)),
        None => fields,
    };
    (c.role.as_str(), fields)
}
