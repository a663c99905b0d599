//! Renders a page that shows a package: its description, inputs and outputs, tests, examples and files.
//!
//! The contents of a package are not trusted. Its HTML is shown as text, and its links lead only to `https`
//! addresses. A page fetches nothing: pictures, sounds and films of `misc` are embedded, others are links.

mod html;
mod markdown;

use crate::{Example, FileLocation, Package, Reference, SelfTest, TensorKind, ValueSpec};
use holdall_core::Result;
use holdall_package::write::hex;
use pulldown_cmark::{LinkType, Options};
use std::fmt::Write as _;

/// The form of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageForm {
    /// A complete HTML document, with a content policy under which nothing is fetched or executed.
    Html,
    /// Markdown, with links instead of pictures.
    Markdown,
}

impl Package {
    /// Renders a page that shows the package. Files that are only linked to are named, not fetched.
    ///
    /// # Errors
    /// Returns the same errors as [`PackageReader::read`](holdall_io::package::PackageReader::read), for the files that are
    /// shown.
    pub fn page(&self, form: PageForm) -> Result<String> {
        match form {
            PageForm::Html => html::page(self),
            PageForm::Markdown => Ok(markdown::page(self)),
        }
    }
}

/// Returns the Markdown extensions that are supported.
fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH
}

/// Returns the title: the model's name, otherwise the file's name.
fn title(package: &Package) -> String {
    let name = package.description().model_name.clone().filter(|name| !name.is_empty());
    name.unwrap_or_else(|| package.name().rsplit('/').next().unwrap_or_default().to_owned())
}

/// Returns short facts: labels and values.
fn facts(package: &Package) -> Vec<(String, String)> {
    let d = package.description();
    let version = &d.runner.framework_version;
    let mut out = Vec::new();
    let mut add = |key: &str, value: Option<String>| {
        out.extend(value.filter(|v| !v.is_empty()).map(|value| (key.to_owned(), value)));
    };
    add("runner", Some(format!("{}, framework {version}", d.runner.name)));
    add("platforms", Some(d.required_platforms.join(", ")));
    add("license", d.license.clone());
    add("repository", d.repository.clone());
    add("home page", d.homepage.clone());
    add("made from", Some(d.base_models.join(", ")));
    add("bill of materials", d.sbom.clone());
    for (key, value) in &d.card {
        add(key, Some(value.clone()));
    }
    add("model hash", package.hash().map(|hash| hex(&hash)));
    out
}

/// Titles of columns, and rows.
type Table = (&'static [&'static str], Vec<Vec<String>>);

/// Returns the tables with their titles, without empty ones.
fn tables(package: &Package) -> Vec<(&'static str, Table)> {
    let d = package.description();
    let all: [(&str, Table); 4] = [
        ("Inputs", specs(&d.inputs)),
        ("Outputs", specs(&d.outputs)),
        ("Self-tests", self_tests(package, &d.self_tests)),
        ("Files", files(package)),
    ];
    all.into_iter().filter(|(_, (_, rows))| !rows.is_empty()).collect()
}

fn specs(specs: &[ValueSpec]) -> Table {
    let row = |spec: &ValueSpec| {
        let about = spec.description.clone().unwrap_or_default();
        vec![spec.name.clone(), spec.ty.as_str().to_owned(), spec.shape.to_string(), about]
    };
    (&["name", "dtype", "shape", "description"], specs.iter().map(row).collect())
}

fn self_tests(package: &Package, tests: &[SelfTest]) -> Table {
    let side = |all: &[(String, String)]| {
        let one =
            |(name, tensor): &(String, String)| format!("{name}: {}", tensor_of(package, tensor));
        all.iter().map(one).collect::<Vec<_>>().join("; ")
    };
    let row = |(at, test): (usize, &SelfTest)| {
        let expected = test.expected.as_deref().map(side).unwrap_or_default();
        let about = test.description.clone().unwrap_or_default();
        vec![numbered(at, test.name.as_deref()), side(&test.inputs), expected, about]
    };
    (&["name", "inputs", "expected", "description"], tests.iter().enumerate().map(row).collect())
}

fn files(package: &Package) -> Table {
    let row = |file: &crate::PackageFile| {
        let len = file.len.map_or_else(|| "-".to_owned(), |len| len.to_string());
        let hash = file.sha256.map(|hash| hex(&hash)).unwrap_or_default();
        let note = match (&file.target, file.location) {
            (Some(target), _) => format!("leads to {target}"),
            (None, FileLocation::Links) => "only linked to".to_owned(),
            _ => String::new(),
        };
        vec![file.path.clone(), len, hash, note]
    };
    (&["path", "bytes", "SHA-256", ""], package.files().iter().map(row).collect())
}

/// Returns the name, or a number counted from 1.
fn numbered(at: usize, name: Option<&str>) -> String {
    let name = name.filter(|name| !name.is_empty()).map(str::to_owned);
    name.unwrap_or_else(|| (at + 1).to_string())
}

/// Returns the type and shape of a tensor of `tensor_data`.
fn tensor_of(package: &Package, name: &str) -> String {
    match package.tensors().iter().find(|row| row.name == name).map(|row| &row.kind) {
        Some(TensorKind::Plain { ty, shape, .. }) => format!("{} {shape:?}", ty.as_str()),
        Some(TensorKind::Nested { inner }) => format!("nested, {}", inner.len()),
        None => name.to_owned(),
    }
}

/// Returns the inputs and outputs that an example shows, with their names.
fn example_references(example: &Example) -> impl Iterator<Item = (&'static str, &str, &Reference)> {
    let inputs = example.inputs.iter().map(|(name, to)| ("input", name.as_str(), to));
    inputs.chain(example.outputs.iter().map(|(name, to)| ("output", name.as_str(), to)))
}

/// Returns `true` if a link is allowed: an absolute address, or an anchor in the page.
fn is_allowed_link(address: &str, ty: LinkType) -> bool {
    let is_separator = |c: char| c.is_whitespace() || c.is_control();
    let is_https = address.len() > 8
        && address.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
    !address.contains(is_separator)
        && (is_https || address.starts_with('#'))
        && ty != LinkType::Email
}

/// Returns the path in the package that `@misc/PATH` names.
fn misc(address: &str) -> Option<String> {
    let path = address.strip_prefix("@misc/")?;
    let path = holdall_json::percent_decoded(path)?;
    Some(format!("misc/{path}"))
}

/// Appends one line.
fn line(out: &mut String, text: impl std::fmt::Display) {
    let _ = writeln!(out, "{text}");
}
