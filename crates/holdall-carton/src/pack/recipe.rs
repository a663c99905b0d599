//! Determines how a path is packed: a model's file, an unpacked package, or a folder with a model's files.

use super::{FileContent, FileSelection, Packer, SymlinkPolicy, named};
use crate::rules::RUNNER;
use crate::{Description, Example, Inferred, OptionValue, Package, SelfTest, ValueSpec};
use holdall_core::error::Escape as _;
use holdall_core::{Limits, Result, Warning};
use holdall_formats::shards::SHARD_MISSING;
use holdall_io::OpenOptions;
use holdall_io::error::io;
use holdall_io::package::rules::PART;
use holdall_package::CARTON_TOML;
use std::path::{Path, PathBuf};

/// Options for packing a path, and values that replace those of the model or of its `carton.toml`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Recipe {
    /// Name of the model.
    pub name: Option<String>,
    /// Summary in one line.
    pub short_description: Option<String>,
    /// Description in Markdown.
    pub description: Option<String>,
    /// License, as an SPDX expression.
    pub license: Option<String>,
    /// Address of the source repository.
    pub repository: Option<String>,
    /// Address of the home page.
    pub homepage: Option<String>,
    /// Runner: `onnx`, `python`.
    pub runner: Option<String>,
    /// Required versions of the runner's framework, in Cargo's syntax: `>=3.10`.
    pub framework_version: Option<String>,
    /// Options for the runner, added to existing ones.
    pub options: Vec<(String, OptionValue)>,
    /// Supported target triples; empty for all.
    pub platforms: Option<Vec<String>>,
    /// Declared inputs.
    pub inputs: Option<Vec<ValueSpec>>,
    /// Declared outputs.
    pub outputs: Option<Vec<ValueSpec>>,
    /// Self-tests, whose tensors are added by [`Packer::with_tensor`].
    pub self_tests: Option<Vec<SelfTest>>,
    /// Examples, whose tensors are added by [`Packer::with_tensor`], and their files by
    /// [`Packer::with_file`].
    pub examples: Option<Vec<Example>>,
    /// A file in the format of `carton.toml`, possibly partial, with values that the model and the folder
    /// lack.
    pub from_toml: Option<PathBuf>,
    /// The symbolic links in a folder that are followed.
    pub symlinks: SymlinkPolicy,
    /// The files of a folder that are packed.
    pub selection: FileSelection,
    /// Options for opening a folder that is an unpacked package.
    pub open: OpenOptions,
    /// Limits for reading a `carton.toml`.
    pub limits: Limits,
}

/// The result of [`Recipe::prepare`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Prepared {
    /// The packer for the package. Tensors, and files for examples, must still be added.
    pub packer: Packer,
    /// Warnings about the `carton.toml` that was read.
    pub warnings: Vec<Warning>,
    /// An input or output of the model that a package cannot declare, and the reason. No inputs and outputs
    /// are declared then.
    pub undeclared: Option<(String, String)>,
}

impl Recipe {
    /// Creates a recipe that replaces nothing.
    pub fn new() -> Recipe {
        Recipe::default()
    }

    /// Returns a packer for the model at `path`: one file, which becomes `model/NAME`, with the files that it
    /// refers to (external data, shards, parts); a folder with `carton.toml` and `model/`, or with `model/`
    /// alone; or a folder with the model's files, which are placed under `model/`.
    ///
    /// # Errors
    /// `package/part` if `path` is a package, if the model refers to a file that is missing or outside of its
    /// folder, or if a folder has no files of a model; a damaged file is a warning, `package/unread`;
    /// `package/runner` if the runner is not known, or its versions are not a valid requirement; the
    /// `carton/…` rules; errors of the model's file; Io.
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
            for (name, from) in named::referenced_files(path, &self.open, true, &mut warnings)? {
                packer = packer.with_file(format!("model/{name}"), FileContent::Path(from));
            }
            return Ok(Prepared { packer, warnings, undeclared });
        }
        let packer = Packer::from_folder(path, self.symlinks, self.selection)?;
        let inner = path.join("model");
        let model = match holdall_io::model_file(if inner.is_dir() { &inner } else { path }) {
            // Files of the model are missing. A folder without a model is packed as it is.
            Err(e) if e.code() == SHARD_MISSING.code => return Err(named::refused(path, e)),
            found => found.ok(),
        };
        named::check_complete(&packer.files, model.as_deref(), &self.open, &mut warnings)?;
        let is_described = path.join("carton.toml").exists();
        if is_described && !self.replaces_any() {
            // The author may leave out fields that a zip must have.
            let text = packer.text(CARTON_TOML)?;
            let (mut description, _) = Description::parse_unpacked(&text, &self.limits)?;
            if Description::parse(&text, &self.limits).is_ok() {
                return Ok(Prepared { packer, warnings, undeclared: None });
            }
            description.runner.compat_version = description.runner.compat_version.max(1);
            let packer = packer.with_description(description);
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
            false => Packer::from_model(path, self.symlinks, self.selection)?,
        };
        if !packer.paths().any(|path| path.starts_with("model/")) {
            let e = PART.broken("the folder contains no model files");
            let hint =
                "name a folder with the model's files, directly in it or in its folder `model`";
            return Err(e.with_hint(hint).in_source(path.display()));
        }
        Ok(Prepared { packer: packer.with_description(description), warnings, undeclared })
    }

    /// Opens a folder without `carton.toml` as a package, with the description that packing it would create. The
    /// model's files are in the folder itself or in its folder `model`. Also returns an input or output that a
    /// package cannot declare, and the reason.
    ///
    /// # Errors
    /// `package/part` if it is not such a folder, `package/runner`, and the same as [`Package::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<(Package, Option<(String, String)>)> {
        let path = path.as_ref();
        if !path.is_dir() {
            let e = "this is not a folder; a runner can be given only for a folder without `carton.toml`";
            return Err(PART.broken(e).in_source(path.display()));
        }
        let Inferred { description, undeclared } = self.infer(path)?;
        let description = self.describe(description, &mut Vec::new())?;
        Ok((Package::open_folder(path, &description, &self.open)?, undeclared))
    }

    /// Returns the information in the files of a model in a folder.
    fn infer(&self, path: &Path) -> Result<Inferred> {
        let mut found = Inferred::from_folder(path, self.runner.as_deref().unwrap_or_default())?;
        if self.inputs.is_some() && self.outputs.is_some() {
            found.undeclared = None;
        }
        Ok(found)
    }

    /// Returns `true` if the recipe replaces any value of the description.
    fn replaces_any(&self) -> bool {
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

    /// Returns the description `found`, with the values of the recipe that replace parts of it.
    fn describe(&self, found: Description, warnings: &mut Vec<Warning>) -> Result<Description> {
        let mut d = match &self.from_toml {
            None => found,
            Some(path) => {
                let in_context = |e: std::io::Error| io(e, "reading").in_source(path.display());
                let text = std::fs::read(path).map_err(in_context)?;
                let parsed = Description::parse_part(&text, &self.limits);
                let (description, odd) = parsed.map_err(|e| e.in_source(path.display()))?;
                warnings.extend(odd);
                description.with_defaults_from(found)
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
                "" => "the runner of the model and its versions are not known".to_owned(),
                name => {
                    format!(
                        "the versions of `{}` that the model needs are not known",
                        name.escaped()
                    )
                }
            });
            return Err(e.with_hint("for example the runner `python` with the versions `>=3.10`"));
        }
        Ok(d)
    }
}

/// Returns the default path of the package of the model at `path`: next to it, with the extension `.carton`.
pub fn package_path(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    if !path.is_dir() {
        return path.with_extension("carton");
    }
    // A folder name such as `weights.v2` has no extension.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".carton");
    path.with_file_name(name)
}

/// Returns the name that the model's file gets in its package.
fn model_name(path: &Path) -> Result<&str> {
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("carton")) {
        let e = PART.broken("this is a package already, not a model file");
        return Err(e.with_hint("unpack it, and pack the folder").in_source(path.display()));
    }
    path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        PART.broken("the file name is missing or not UTF-8").in_source(path.display())
    })
}

/// Returns an error for a version requirement that opening the package would refuse.
fn check_version(version: &str, limits: &Limits) -> Result<()> {
    let text = format!(
        "spec_version = 1\n[runner]\nrunner_name = \"x\"\nrequired_framework_version = {version:?}\n\
         runner_compat_version = 1\n"
    );
    Description::parse(text.as_bytes(), limits).map(drop).map_err(|e| {
        let hint = "write it as Cargo writes requirements: `=1.12.1`, `>=2, <3`";
        let e = e.with_rule(&RUNNER).with_hint(hint);
        e.within(format!("the framework's version `{}`", version.escaped()))
    })
}
