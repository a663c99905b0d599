//! The JSON of `inspect`: a contract, described field by field in `docs/cli.md`.

use super::digests::Digests;
use super::stats;
use crate::exit::Failure;
use crate::output::json::{push_digest, push_number, push_optional, push_string, push_warnings};
use crate::session::Session;
use holdall::{Component, File, Tensor};
use std::io::Write as _;

/// Writes the object of one file as one line.
pub(super) fn write(
    session: &Session,
    file: &File,
    tensors: &[Tensor],
    with_sha256: bool,
    with_stats: bool,
) -> Result<(), Failure> {
    // Read first: what fails must not leave half an object behind.
    let digests = Digests::of(session, tensors, with_sha256)?;
    let stats = with_stats.then(|| stats::of(session, tensors, true)).transpose()?;
    let out = &mut *session.out();
    let mut text = String::with_capacity(1 << 10);
    text.push_str("{\"source\":");
    push_string(file.name(), &mut text);
    text.push_str(",\"format\":");
    push_string(file.format(), &mut text);
    text.push_str(",\"version\":");
    push_string(file.version(), &mut text);
    text.push_str(",\"attributes\":");
    text.push_str(&file.attributes().to_json());
    text.push_str(",\"tensors\":[");
    for (at, tensor) in tensors.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        push_tensor(tensor, &digests, &mut text);
        if let Some(stats) = &stats {
            text.push_str(",\"stats\":");
            stats::push(stats[at].as_ref(), &mut text);
        }
        text.push('}');
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    text.push_str("],\"files\":[],\"warnings\":");
    push_warnings(file.warnings(), &mut text);
    text.push_str("}\n");
    out.write_all(text.as_bytes())?;
    Ok(())
}

/// Appends a tensor but for the last bracket.
fn push_tensor(tensor: &Tensor, digests: &Digests, out: &mut String) {
    out.push_str("{\"name\":");
    push_string(tensor.name(), out);
    out.push_str(",\"shape\":[");
    for (at, dim) in tensor.shape().iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_number(*dim, out);
    }
    out.push_str("],\"layout\":");
    push_string(tensor.layout().as_str(), out);
    out.push_str(",\"attributes\":");
    if tensor.attributes().is_empty() {
        out.push_str("{}");
    } else {
        out.push_str(&tensor.attributes().to_json());
    }
    out.push_str(",\"components\":{");
    for (at, c) in tensor.components().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_string(c.role.as_str(), out);
        out.push(':');
        push_component(&c, digests, out);
    }
    out.push('}');
}

fn push_component(c: &Component, digests: &Digests, out: &mut String) {
    let told = digests.get(c);
    out.push_str("{\"dtype\":\"");
    out.push_str(c.dtype.as_str());
    out.push_str("\",\"logical_type\":");
    push_optional(c.logical_type.as_ref().map(|t| t.as_str()), out);
    out.push_str(",\"offset\":");
    push_number(c.stored.start, out);
    out.push_str(",\"stored_len\":");
    push_number(c.stored_len(), out);
    out.push_str(",\"encoding\":\"");
    out.push_str(c.encoding.as_str());
    out.push_str("\",\"decoded_len\":");
    match c.decoded_len.or(told.map(|t| t.decoded_len)) {
        Some(len) => push_number(len, out),
        None => out.push_str("null"),
    }
    out.push_str(",\"digest\":");
    match &c.digest {
        Some(digest) => push_digest(digest, out),
        None => out.push_str("null"),
    }
    if let Some(digest) = told.and_then(|t| t.digest.as_ref()) {
        let text = digest.to_string();
        out.push_str(",\"sha256\":");
        push_string(text.strip_prefix("sha256:").unwrap_or(&text), out);
    }
    out.push('}');
}
