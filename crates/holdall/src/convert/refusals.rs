//! Collects everything that prevents a conversion into one error, with the converter's code for what the
//! target cannot hold.

use holdall_core::error::Escape as _;
use holdall_core::{
    Attributes, EncodeOptions, Error, ErrorKind, Layout, Remedy, Result, TensorSpec,
};
use holdall_formats::{FORMATS, Format};
use holdall_io::error::CANNOT_HOLD;
use holdall_io::items::Item;
use holdall_io::{File, WriteOptions};
use std::collections::HashMap;

/// Errors found before anything is written.
#[derive(Default)]
pub(super) struct Refusals {
    all: Vec<Error>,
    /// Tensors that the target cannot hold; errors about its attributes are added last.
    specs: Vec<TensorSpec>,
    is_of_target: bool,
}

impl Refusals {
    /// Adds an error about a tensor of the source.
    pub(super) fn add(&mut self, e: Error) {
        self.all.push(e);
    }

    /// Adds an error of the target about a tensor that it cannot hold.
    pub(super) fn add_tensor(&mut self, e: Error, spec: TensorSpec) {
        self.specs.push(spec);
        self.is_of_target = true;
        self.all.push(e);
    }

    /// Returns an error if anything was refused, or if `attributes` is an error about the file's attributes.
    /// `accepted` are the tensors that the target can hold. `is_dense` is `true` if tensors were to be made
    /// dense already.
    ///
    /// # Errors
    /// Returns the error itself if there is one and it is about the source; otherwise `convert/cannot-hold`.
    pub(super) fn finish(
        mut self,
        file: &File,
        write: &WriteOptions,
        attributes: Option<Error>,
        accepted: &[Item],
        is_dense: bool,
    ) -> Result<()> {
        self.is_of_target |= attributes.as_ref().is_some_and(|e| !is_about_schema(e));
        self.all.splice(0..0, attributes);
        let all: Vec<Error> =
            std::mem::take(&mut self.all).into_iter().map(|e| e.in_source(file.name())).collect();
        let Some(first) = all.first() else { return Ok(()) };
        if all.len() == 1 && !self.is_of_target {
            return Err(first.clone());
        }
        let e = CANNOT_HOLD.broken(match (self.is_of_target, &all[..]) {
            (true, all) => in_words(write, all),
            (false, _) => format!("some tensors cannot be converted: {}", reasons(&all)),
        });
        // Tensors without elements cannot be made dense.
        let is_record = |spec: &TensorSpec| matches!(spec.layout, Layout::Records | Layout::Blob);
        let is_useless = is_dense || (!self.specs.is_empty() && self.specs.iter().all(is_record));
        let e = with_advice(e, &all, |remedy| !(is_useless && *remedy == Remedy::MakeDense));
        let mut specs = accepted.iter().map(|item| &item.spec).chain(&self.specs);
        let e = match self.is_of_target.then(|| able(&write.attributes, &mut specs)).flatten() {
            Some(remedy) if !e.remedies().contains(&remedy) => e.with_remedy(remedy),
            _ => e,
        };
        Err(e.in_source(file.name()).with_cause(first.clone()))
    }
}

/// Turns an error of the target's encoder about all tensors together into `convert/cannot-hold`, if the error
/// says that the target cannot hold them.
pub(super) fn target_error(e: Error, write: &WriteOptions) -> Error {
    let rules = write.format().map_or(&[][..], |format| format.rules);
    let is_known = rules.iter().any(|rule| std::ptr::eq(*rule, e.rule()));
    if !is_known || e.kind() != ErrorKind::Unsupported || is_about_schema(&e) {
        return e;
    }
    let all = std::slice::from_ref(&e);
    with_advice(CANNOT_HOLD.broken(in_words(write, all)), all, |_| true).with_cause(e)
}

/// Returns `true` if the schema that the caller gave, or that the source has, does not describe the tensors. Another
/// format would not help.
fn is_about_schema(e: &Error) -> bool {
    e.code() == "metatensor/schema-fit"
}

/// Returns what the target cannot hold in words, with the name of its format.
fn in_words(write: &WriteOptions, all: &[Error]) -> String {
    let name = write.format().map_or("", |format| format.name);
    let is_named = all.iter().all(|e| e.message().contains(name));
    match (all, is_named) {
        ([one], true) => one.message().to_owned(),
        ([one], false) => format!("{} cannot hold it: {}", target(write), one.message()),
        (_, true) => format!("the target cannot hold all of it: {}", reasons(all)),
        (_, false) => format!("{} cannot hold all of it: {}", target(write), reasons(all)),
    }
}

/// Returns the target's format and version in words.
fn target(write: &WriteOptions) -> String {
    let Some(format) = write.format() else { return "the target".to_owned() };
    let newest = format.versions.first().copied();
    match write.encode.version.as_deref().or(newest) {
        Some(version) => format!("{} {version}", format.name),
        None => format.name.to_owned(),
    }
}

/// Adds the remedies of all errors for which `keeps` returns `true`, without duplicates, and their first
/// hint.
fn with_advice(e: Error, all: &[Error], keeps: impl Fn(&Remedy) -> bool) -> Error {
    let mut remedies: Vec<&Remedy> = Vec::new();
    for remedy in all.iter().flat_map(Error::remedies).filter(|remedy| keeps(remedy)) {
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    let e = remedies.into_iter().cloned().fold(e, Error::with_remedy);
    match all.iter().find_map(Error::hint) {
        Some(hint) => e.with_hint(hint.to_owned()),
        None => e,
    }
}

/// Returns the first format whose newest version can hold these attributes and tensors.
fn able<'t>(
    attributes: &Attributes,
    specs: &mut (dyn Iterator<Item = &'t TensorSpec> + '_),
) -> Option<Remedy> {
    let encoder = |format: &'static Format| {
        let encoder = format.encode.and_then(|new| new(&EncodeOptions::new()).ok())?;
        let can = !format.has_graph && encoder.check_attributes(attributes).is_ok();
        can.then_some((format, encoder))
    };
    let mut able: Vec<_> = FORMATS.iter().copied().filter_map(encoder).collect();
    for spec in specs {
        able.retain(|(_, encoder)| encoder.check_tensor(spec).is_ok());
    }
    let (format, _) = able.first()?;
    let version = format.versions.first().copied().unwrap_or_default();
    Some(Remedy::WriteFormat { format: format.id, version })
}

/// Returns the reasons in words, each once with some of the tensors that it concerns.
fn reasons(all: &[Error]) -> String {
    const REASONS: usize = 8;
    const TENSORS: usize = 3;
    let mut indices: HashMap<&str, usize> = HashMap::new();
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for e in all {
        let at = *indices.entry(e.message()).or_insert(reasons.len());
        if at == reasons.len() {
            reasons.push((e.message(), Vec::new()));
        }
        if let (Some((_, tensors)), Some(tensor)) = (reasons.get_mut(at), e.tensor()) {
            tensors.push(tensor);
        }
    }
    let more = |count: usize, shown: usize| match count.saturating_sub(shown) {
        0 => None,
        left => Some(format!(" and {left} more")),
    };
    let one = |(reason, tensors): &(&str, Vec<&str>)| {
        if tensors.is_empty() {
            return (*reason).to_owned();
        }
        let names: Vec<String> =
            tensors.iter().take(TENSORS).map(|t| format!("`{}`", t.escaped())).collect();
        let rest = more(tensors.len(), TENSORS).unwrap_or_default();
        format!("{reason} ({}{rest})", names.join(", "))
    };
    let shown: Vec<String> = reasons.iter().take(REASONS).map(one).collect();
    let rest = more(reasons.len(), REASONS).map_or(String::new(), |m| format!(";{m}"));
    format!("{}{rest}", shown.join("; "))
}
