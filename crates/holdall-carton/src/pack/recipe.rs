//! What a path is packed as: a model's file, an unpacked package, a folder with a model's files.

use super::{FileContent, FileSelection, Packer, SymlinkPolicy, named};
use crate::rules::RUNNER;
use crate::{Description, Example, Inferred, OptionValue, Package, SelfTest, ValueSpec};
use holdall_core::error::Shown as _;
use holdall_core::{Limits, Result, Warning};
use holdall_formats::shards::SHARD_MISSING;
use holdall_io::OpenOptions;
use holdall_io::error::io;
use holdall_io::package::rules::PART;
use holdall_package::CARTON_TOML;
use std::path::{Path, PathBuf};

/// How a path is packed, and what the package says of itself in place of what the model or a `carton.toml`
/// says.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Recipe {
    /// Name of the model.
    pub name: Option<String>,
    /// One line about it.
    pub short_description: Option<String>,
    /// More about it, in Markdown.
    pub description: Option<String>,
    /// Its license, as an SPDX expression.
    pub license: Option<String>,
    /// The address of its source.
    pub repository: Option<String>,
    /// The address of its home page.
    pub homepage: Option<String>,
    /// What runs it: `onnx`, `python`.
    pub runner: Option<String>,
    /// The versions of the runner's framework that will do, as Cargo writes requirements: `>=3.10`.
    pub framework_version: Option<String>,
    /// Options for the runner, added to those that are there.
    pub options: Vec<(String, OptionValue)>,
    /// Target triples it runs on; empty for all.
    pub platforms: Option<Vec<String>>,
    /// Declared inputs.
    pub inputs: Option<Vec<ValueSpec>>,
    /// Declared outputs.
    pub outputs: Option<Vec<ValueSpec>>,
    /// Self-tests, whose tensors are given by [`Packer::with_tensor`].
    pub self_tests: Option<Vec<SelfTest>>,
    /// Examples, whose tensors are given by [`Packer::with_tensor`], and their files by [`Packer::with_file`].
    pub examples: Option<Vec<Example>>,
    /// A file like `carton.toml`, or some of one, which says what the model and the folder do not.
    pub from_toml: Option<PathBuf>,
    /// Which symbolic links in a folder are followed.
    pub follow: SymlinkPolicy,
    /// Which of its files are packed.
    pub take: FileSelection,
    /// How a folder is opened that is an unpacked package.
    pub open: OpenOptions,
    /// What a `carton.toml` may ask for.
    pub limits: Limits,
}

/// What a [`Recipe`] makes of a path.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Prepared {
    /// What writes the package. Tensors, and files for examples, are still to be added.
    pub packer: Packer,
    /// What is odd about the `carton.toml` that was read.
    pub warnings: Vec<Warning>,
    /// An input or output of the model that no package can declare, and why. Then none are declared.
    pub undeclared: Option<(String, String)>,
}

impl Recipe {
    /// Nothing but what the path says.
    pub fn new() -> Recipe {
        Recipe::default()
    }

    /// What packs the model at `path`: one file, which becomes `model/NAME`, with the files that it names (external data, shards, parts); a folder with `carton.toml` and
    /// `model/`, or with `model/` alone; or a folder with the model's files, which go under `model/`.
    ///
    /// # Errors
    /// `package/part` for a package, for a model that names a file which is missing or not in its folder, and for a folder without files of a model; a damaged file is a warning, `package/unread`; `package/runner` where nothing
    /// says what runs the model, or with versions that are not a requirement; the `carton/…` rules; what is
    /// wrong with the model's file; Io.
    pub fn prepare(&self, path: impl AsRef<Path>) -> Result<Prepared> {
        let path = path.as_ref();
        let mut warnings = Vec::new();
        let metadata = path.metadata().map_err(|e| io(e, "opening").in_source(path.display()))?;
        if !metadata.is_dir() {
            let name = model_name(path)?;
            let Inferred { description, mut undeclared } = Inferred::from_file(path)?;
            let description = self.describe(description, &mut warnings)?;
            if !description.inputs.is_empty() && !description.outputs.is_empty() {
                undeclared = None;
            }
            let mut packer = Packer::new(description);
            packer = packer.with_file(format!("model/{name}"), FileContent::Path(path.to_owned()));
            for (name, from) in named::files_named(path, &self.open, true, &mut warnings)? {
                packer = packer.with_file(format!("model/{name}"), FileContent::Path(from));
            }
            return Ok(Prepared { packer, warnings, undeclared });
        }
        let packer = Packer::from_folder(path, self.follow, self.take)?;
        let inner = path.join("model");
        let model = match holdall_io::model_file(if inner.is_dir() { &inner } else { path }) {
            // A model of which files are missing; a folder without a model is packed as it is.
            Err(e) if e.code() == SHARD_MISSING.code => return Err(named::refused(path, e)),
            found => found.ok(),
        };
        named::check_all(&packer.files, model.as_deref(), &self.open, &mut warnings)?;
        let is_described = path.join("carton.toml").exists();
        if is_described && !self.says_something() {
            // The author need not say what a package in a zip has to.
            let text = packer.text(CARTON_TOML)?;
            let (mut own, _) = Description::parse_own(&text, &self.limits)?;
            if Description::parse(&text, &self.limits).is_ok() {
                return Ok(Prepared { packer, warnings, undeclared: None });
            }
            own.runner.compat_version = own.runner.compat_version.max(1);
            let packer = packer.with_description(own);
            return Ok(Prepared { packer, warnings, undeclared: None });
        }
        let Inferred { description, undeclared } = match is_described {
            true => Inferred::from_description(Package::open_with(path, &self.open)?.description()),
            false => self.infer(path)?,
        };
        let description = self.describe(description, &mut warnings)?;
        if is_described {
            let packer = packer.with_description(description);
            return Ok(Prepared { packer, warnings, undeclared });
        }
        let packer = match path.join("model").is_dir() {
            true => packer,
            false => Packer::from_model(path, self.follow, self.take)?,
        };
        if !packer.paths().any(|path| path.starts_with("model/")) {
            let e = PART.broken("there are no files of a model in the folder");
            let hint =
                "name a folder with the model's files, directly in it or in its folder `model`";
            return Err(e.with_hint(hint).in_source(path.display()));
        }
        Ok(Prepared { packer: packer.with_description(description), warnings, undeclared })
    }

    /// The package that the folder at `path` would be packed as, opened where it lies: a folder without `carton.toml`,
    /// with the model's files or with a folder `model` that has them. Beside it an input or output that no package
    /// can declare, and why.
    ///
    /// # Errors
    /// `package/part` for what is not such a folder, `package/runner`, and as [`Package::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<(Package, Option<(String, String)>)> {
        let path = path.as_ref();
        if !path.is_dir() {
            let e = "this is not a folder: only of one without `carton.toml` it is said what runs its model";
            return Err(PART.broken(e).in_source(path.display()));
        }
        let Inferred { description, undeclared } = self.infer(path)?;
        let description = self.describe(description, &mut Vec::new())?;
        Ok((Package::open_folder(path, &description, &self.open)?, undeclared))
    }

    /// What the files of a model in a folder say.
    fn infer(&self, path: &Path) -> Result<Inferred> {
        let mut found = Inferred::from_folder(path, self.runner.as_deref().unwrap_or_default())?;
        if self.inputs.is_some() && self.outputs.is_some() {
            found.undeclared = None;
        }
        Ok(found)
    }

    /// Whether it changes what a package says of itself.
    fn says_something(&self) -> bool {
        let texts = [
            &self.name,
            &self.short_description,
            &self.description,
            &self.license,
            &self.repository,
            &self.homepage,
            &self.runner,
            &self.framework_version,
        ];
        texts.iter().any(|text| text.is_some())
            || self.from_toml.is_some()
            || !self.options.is_empty()
            || self.platforms.is_some()
            || self.inputs.is_some()
            || self.outputs.is_some()
            || self.self_tests.is_some()
            || self.examples.is_some()
    }

    /// The description that was given or else found, with the values that replace parts of it.
    fn describe(&self, found: Description, warnings: &mut Vec<Warning>) -> Result<Description> {
        let mut d = match &self.from_toml {
            None => found,
            Some(path) => {
                let own = |e: std::io::Error| io(e, "reading").in_source(path.display());
                let text = std::fs::read(path).map_err(own)?;
                let parsed = Description::parse_part(&text, &self.limits);
                let (description, odd) = parsed.map_err(|e| e.in_source(path.display()))?;
                warnings.extend(odd);
                description.over(found)
            }
        };
        for (to, from) in [
            (&mut d.model_name, &self.name),
            (&mut d.short_description, &self.short_description),
            (&mut d.model_description, &self.description),
            (&mut d.license, &self.license),
            (&mut d.repository, &self.repository),
            (&mut d.homepage, &self.homepage),
        ] {
            if from.is_some() {
                to.clone_from(from);
            }
        }
        if let Some(runner) = &self.runner {
            d.runner.name.clone_from(runner);
        }
        if let Some(version) = &self.framework_version {
            check_version(version, &self.limits)?;
            d.runner.framework_version.clone_from(version);
        }
        if d.runner.compat_version == 0 {
            d.runner.compat_version = 1;
        }
        for (name, value) in &self.options {
            d.runner.options.retain(|(known, _)| known != name);
            d.runner.options.push((name.clone(), value.clone()));
        }
        if let Some(platforms) = &self.platforms {
            d.required_platforms.clone_from(platforms);
        }
        for (to, from) in [(&mut d.inputs, &self.inputs), (&mut d.outputs, &self.outputs)] {
            if let Some(declared) = from {
                to.clone_from(declared);
            }
        }
        if let Some(tests) = &self.self_tests {
            d.self_tests.clone_from(tests);
        }
        if let Some(examples) = &self.examples {
            d.examples.clone_from(examples);
        }
        let (name, version) = (&d.runner.name, &d.runner.framework_version);
        if name.is_empty() || version.is_empty() {
            let e = RUNNER.broken(match name.as_str() {
                "" => "nothing says what runs the model, and with which versions".to_owned(),
                name => {
                    format!("nothing says with which versions of `{}` the model runs", name.shown())
                }
            });
            return Err(e.with_hint("for example the runner `python` with the versions `>=3.10`"));
        }
        Ok(d)
    }
}

/// Where the package of the model at `path` goes when nothing says it: beside it, with the extension
/// `.carton`.
pub fn package_path(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    if !path.is_dir() {
        return path.with_extension("carton");
    }
    // `weights.v2` is the name of a folder, not one with an extension.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".carton");
    path.with_file_name(name)
}

/// What the file of a model is called in its package.
fn model_name(path: &Path) -> Result<&str> {
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("carton")) {
        let e = PART.broken("this is a package already, not the file of a model");
        return Err(e.with_hint("unpack it, and pack the folder").in_source(path.display()));
    }
    path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        PART.broken("the name of the file is not UTF-8, or there is none").in_source(path.display())
    })
}

/// Refuses a requirement that could not be read when the package is opened.
fn check_version(version: &str, limits: &Limits) -> Result<()> {
    let text = format!(
        "spec_version = 1\n[runner]\nrunner_name = \"x\"\nrequired_framework_version = {version:?}\n\
         runner_compat_version = 1\n"
    );
    Description::parse(text.as_bytes(), limits).map(drop).map_err(|e| {
        let hint = "write it as Cargo writes requirements: `=1.12.1`, `>=2, <3`";
        let e = e.under(&RUNNER).with_hint(hint);
        e.within(format!("the framework's version `{}`", version.shown()))
    })
}
