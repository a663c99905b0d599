//! The fields of packages and of reports about them.

use super::{Plain, ToPlain};
#[cfg(feature = "http")]
use crate::carton::links::LinkedFile;
use crate::carton::{
    Description, Difference, DimSpec, Example, FileLocation, OptionValue, PackReport, Package,
    PackageDiff, PackageFile, PackageReport, Reference, SelfTest, ShapeSpec, TensorKind, TensorRow,
    ValueSpec, hex,
};
use crate::fields;
use crate::verify::Verdict;

/// Returns an object whose names come from the data.
fn map<T: ToPlain>(all: &[(String, T)]) -> Plain<'_> {
    Plain::map(all.iter().map(|(name, value)| (name.as_str(), value)))
}

impl ToPlain for Package {
    /// The package's own description, completely.
    fn to_plain(&self) -> Plain<'_> {
        let head = fields! {
            source: self.name(),
            format: "carton",
            version: "1",
            hash: self.hash().map(|hash| hex(&hash)),
        };
        let urls = |(hash, urls): &'_ ([u8; 32], Vec<String>)| {
            (hex(hash), Plain::list(urls.iter().cloned()))
        };
        head.and(self.description().to_plain()).and(fields! {
            files: self.files(),
            links: Plain::map(self.links().urls.iter().map(urls)),
            tensors: self.tensors(),
            warnings: self.warnings(),
        })
    }
}

impl ToPlain for Description {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            name: &self.model_name,
            short_description,
            description: &self.model_description,
            license, repository, homepage, required_platforms, inputs, outputs, self_tests, examples,
            runner: fields! {
                name: &self.runner.name,
                required_framework_version: &self.runner.framework_version,
                compat_version: self.runner.compat_version,
                options: map(&self.runner.options),
            },
            card: map(&self.card),
            base_models, sbom,
        )
    }
}

impl ToPlain for PackageFile {
    fn to_plain(&self) -> Plain<'_> {
        let location = match self.location {
            FileLocation::Zip => "zip",
            FileLocation::Disk => "disk",
            _ => "links",
        };
        fields!(self => path, len, sha256: self.sha256.map(|hash| hex(&hash)), location: location, target)
    }
}

#[cfg(feature = "http")]
impl ToPlain for LinkedFile {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => path, len, sha256: hex(&self.sha256), urls)
    }
}

impl ToPlain for TensorRow {
    fn to_plain(&self) -> Plain<'_> {
        match &self.kind {
            TensorKind::Plain { ty, shape, file } => {
                fields!(self => name, dtype: ty.as_str(), shape: shape, file: file)
            }
            TensorKind::Nested { inner } => fields!(self => name, dtype: "nested", inner: inner),
        }
    }
}

impl ToPlain for ValueSpec {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => name, dtype: self.ty.as_str(), shape, description, internal_name)
    }
}

impl ToPlain for ShapeSpec {
    fn to_plain(&self) -> Plain<'_> {
        match self {
            ShapeSpec::Any => "*".into(),
            ShapeSpec::Symbol(symbol) => symbol.into(),
            ShapeSpec::Dims(dims) => dims.into(),
        }
    }
}

impl ToPlain for DimSpec {
    fn to_plain(&self) -> Plain<'_> {
        match self {
            DimSpec::Size(n) => (*n).into(),
            DimSpec::Symbol(symbol) => symbol.into(),
            DimSpec::Any => "*".into(),
        }
    }
}

impl ToPlain for SelfTest {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            name, description,
            inputs: map(&self.inputs),
            expected: self.expected.as_deref().map(map),
            rtol: self.tolerance.rtol,
            atol: self.tolerance.atol,
            equal_nan: self.tolerance.equal_nan,
        )
    }
}

impl ToPlain for Example {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => name, description, inputs: map(&self.inputs), outputs: map(&self.outputs))
    }
}

impl ToPlain for Reference {
    fn to_plain(&self) -> Plain<'_> {
        match self {
            Reference::Tensor(name) => format!("@tensor_data/{name}").into(),
            Reference::Misc(path) => format!("@misc/{path}").into(),
        }
    }
}

impl ToPlain for OptionValue {
    fn to_plain(&self) -> Plain<'_> {
        match self {
            OptionValue::Integer(n) => (*n).into(),
            OptionValue::Double(x) => (*x).into(),
            OptionValue::Boolean(b) => (*b).into(),
            OptionValue::String(s) => s.into(),
            OptionValue::Datetime(time) => time.into(),
            OptionValue::Array(all) => Plain::list(all.iter().map(ToPlain::to_plain)),
            OptionValue::Table(all) => {
                Plain::map(all.iter().map(|(name, value)| (name.as_str(), value.to_plain())))
            }
        }
    }
}

impl ToPlain for PackReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            hash: hex(&self.hash), len, files, linked,
            left_out: Plain::list(&self.left_out), left_behind: Plain::list(&self.left_behind), warnings,
        )
    }
}

/// The verdict on a package and the package's identity are separate fields.
impl ToPlain for PackageReport {
    fn to_plain(&self) -> Plain<'_> {
        let verdict = self.verdict();
        fields!(self =>
            sound: verdict == Verdict::Sound,
            verdict: verdict.as_str(),
            files, hashed, unhashed, linked, read_len, tensors,
            finding_count, findings, over_limit_count, over_limit, warnings,
        )
    }
}

impl ToPlain for PackageDiff {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => same: self.is_same(), fields, files, tensors)
    }
}

impl ToPlain for Difference {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => name, a, b)
    }
}
