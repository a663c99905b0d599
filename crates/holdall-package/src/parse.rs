//! Parses the text of `carton.toml`.

use crate::description::{
    Description, DimSpec, Example, OptionValue, Reference, Runner, SelfTest, ShapeSpec, Tolerance,
    UnknownKeys, ValueSpec,
};
use crate::fields::{self, Fields, Warnings};
use crate::rules::*;
use crate::value::ValueType;
use crate::{CARTON_TOML, paths};
use holdall_collections::HashSet;
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::Warning;
use holdall_core::wire::toml::{Table, Value};

const TENSOR_PREFIX: &str = "@tensor_data/";
const MISC_PREFIX: &str = "@misc/";
/// The known keys of inputs and outputs.
const OF_SPEC: [&str; 5] = ["name", "dtype", "shape", "description", "internal_name"];
const OF_SELF_TEST: [&str; 5] = ["name", "description", "inputs", "expected_out", "compare"];
const OF_COMPARE: [&str; 3] = ["rtol", "atol", "equal_nan"];
const OF_EXAMPLE: [&str; 4] = ["name", "description", "inputs", "sample_out"];
const OF_RUNNER: [&str; 4] =
    ["runner_name", "required_framework_version", "runner_compat_version", "opts"];
/// The known keys at the top of `carton.toml`.
const KNOWN: [&str; 16] = [
    "spec_version",
    "model_name",
    "short_description",
    "model_description",
    "license",
    "repository",
    "homepage",
    "required_platforms",
    "input",
    "output",
    "self_test",
    "example",
    "runner",
    "card",
    "lineage",
    "sbom",
];

/// Returns the keys of a table that are not in `known`.
fn other(table: &Table, known: &[&str]) -> UnknownKeys {
    let unknown = table.iter().filter(|(key, _)| !known.contains(&key.as_str()));
    unknown.map(|(key, value)| (key.clone(), crate::write::value(value))).collect()
}

/// Returns the unknown keys of the table `key`; empty if there is no such table.
fn other_in(table: &Table, key: &str, known: &[&str]) -> UnknownKeys {
    table
        .get(key)
        .and_then(Value::as_table)
        .map_or_else(UnknownKeys::new, |table| other(table, known))
}

impl Description {
    /// Parses the text of `carton.toml`. Unknown tables and fields are ignored.
    ///
    /// # Errors
    /// Returns [`VERSION`], [`MISSING_FIELD`], [`FIELD`], [`DTYPE`], [`SHAPE`], [`DUPLICATE_NAME`],
    /// [`FRAMEWORK_VERSION`], [`REFERENCE`], and those of TOML.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<(Description, Vec<Warning>)> {
        Description::read(bytes, limits, Says::All)
    }

    /// Parses the `carton.toml` of an unpacked package. Its author need only state the runner and the
    /// versions of its framework: by default `spec_version` is 1, and `runner_compat_version` is 0, which
    /// means the runner's own version.
    ///
    /// # Errors
    /// Returns the same errors as [`Description::parse`].
    pub fn parse_unpacked(bytes: &[u8], limits: &Limits) -> Result<(Description, Vec<Warning>)> {
        Description::read(bytes, limits, Says::Own)
    }

    /// Parses a partial `carton.toml`, in which `spec_version` and the fields of the runner may be missing
    /// too. See [`Description::with_defaults_from`].
    ///
    /// # Errors
    /// Returns the same errors as [`Description::parse`].
    pub fn parse_part(bytes: &[u8], limits: &Limits) -> Result<(Description, Vec<Warning>)> {
        Description::read(bytes, limits, Says::Some)
    }

    /// Returns this description, with missing fields taken from `base`. Options of the runner and unknown
    /// keys of both are merged.
    #[must_use]
    pub fn with_defaults_from(self, base: Description) -> Description {
        fn either<T: Default + PartialEq>(own: T, base: T) -> T {
            if own == T::default() { base } else { own }
        }
        fn both<T>(own: Vec<(String, T)>, mut base: Vec<(String, T)>) -> Vec<(String, T)> {
            base.retain(|(name, _)| own.iter().all(|(known, _)| known != name));
            base.extend(own);
            base
        }
        Description {
            model_name: either(self.model_name, base.model_name),
            short_description: either(self.short_description, base.short_description),
            model_description: either(self.model_description, base.model_description),
            license: either(self.license, base.license),
            repository: either(self.repository, base.repository),
            homepage: either(self.homepage, base.homepage),
            required_platforms: either(self.required_platforms, base.required_platforms),
            inputs: either(self.inputs, base.inputs),
            outputs: either(self.outputs, base.outputs),
            self_tests: either(self.self_tests, base.self_tests),
            examples: either(self.examples, base.examples),
            runner: Runner {
                name: either(self.runner.name, base.runner.name),
                framework_version: either(
                    self.runner.framework_version,
                    base.runner.framework_version,
                ),
                compat_version: either(self.runner.compat_version, base.runner.compat_version),
                options: both(self.runner.options, base.runner.options),
                other: both(self.runner.other, base.runner.other),
            },
            card: both(self.card, base.card),
            base_models: either(self.base_models, base.base_models),
            sbom: either(self.sbom, base.sbom),
            other: both(self.other, base.other),
            other_lineage: both(self.other_lineage, base.other_lineage),
            other_sbom: both(self.other_sbom, base.other_sbom),
        }
    }

    fn read(bytes: &[u8], limits: &Limits, says: Says) -> Result<(Description, Vec<Warning>)> {
        let table = fields::parse(bytes, CARTON_TOML, limits)?;
        let top = Fields::new(&table, CARTON_TOML);
        let version = match (says, table.contains_key("spec_version")) {
            (Says::Own | Says::Some, false) => 1,
            _ => top.required_count("spec_version")?,
        };
        if version != 1 {
            return Err(top.broken(&VERSION, format!("`spec_version` is {version}")));
        }
        let mut warnings = Warnings::default();
        let own = |text: Option<&str>| text.map(str::to_owned);
        let inputs = specs(&top, "input", limits)?;
        let outputs = specs(&top, "output", limits)?;
        let self_tests = top.tables("self_test")?;
        let self_tests = self_tests.iter().map(|test| self_test(test, &mut warnings));
        let self_tests = self_tests.collect::<Result<_>>()?;
        let examples = top.tables("example")?.iter().map(example).collect::<Result<_>>()?;
        let description = Description {
            model_name: own(top.text("model_name")?),
            short_description: later_text(&top, "short_description", &mut warnings),
            model_description: own(top.text("model_description")?),
            license: later_text(&top, "license", &mut warnings),
            repository: later_text(&top, "repository", &mut warnings),
            homepage: later_text(&top, "homepage", &mut warnings),
            required_platforms: top.texts("required_platforms")?.unwrap_or_default(),
            inputs,
            outputs,
            self_tests,
            examples,
            runner: match (says, top.table("runner")?) {
                (Says::Some, None) => Runner::default(),
                (_, Some(fields)) => runner(&fields, says)?,
                (Says::All | Says::Own, None) => runner(&top.required_table("runner")?, says)?,
            },
            card: card(&top, &mut warnings),
            base_models: base_models(&top, &mut warnings),
            sbom: sbom(&top, &mut warnings),
            other: other(&table, &KNOWN),
            other_lineage: other_in(&table, "lineage", &["base_model"]),
            other_sbom: other_in(&table, "sbom", &["file"]),
        };
        Ok((description, warnings.0))
    }
}

fn specs(top: &Fields<'_>, key: &str, limits: &Limits) -> Result<Vec<ValueSpec>> {
    let tables = top.tables(key)?;
    let mut seen = HashSet::default();
    let spec = |fields: &Fields<'_>| {
        let name = fields.required_text("name")?;
        let dtype = fields.required_text("dtype")?;
        let ty = ValueType::by_name(dtype).ok_or_else(|| {
            fields.broken(&DTYPE, format!("dtype `{}` is not known", dtype.escaped()))
        })?;
        Ok(ValueSpec {
            name: name.to_owned(),
            ty,
            shape: shape_spec(fields, limits)?,
            description: fields.text("description")?.map(str::to_owned),
            internal_name: fields.text("internal_name")?.map(str::to_owned),
            other: other(fields.table, &OF_SPEC),
        })
    };
    let specs: Vec<ValueSpec> = tables.iter().map(spec).collect::<Result<_>>()?;
    for spec in &specs {
        if !seen.insert(spec.name.as_str()) {
            let name = spec.name.escaped();
            return Err(top.broken(&DUPLICATE_NAME, format!("two `[[{key}]]` are named `{name}`")));
        }
    }
    Ok(specs)
}

fn shape_spec(fields: &Fields<'_>, limits: &Limits) -> Result<ShapeSpec> {
    let dims = match fields.required_value("shape")? {
        Value::String(text) if text == "*" => return Ok(ShapeSpec::Any),
        Value::String(text) => return Ok(ShapeSpec::Symbol(text.clone())),
        Value::Array(dims) => dims,
        _ => return Err(fields.broken(&SHAPE, "`shape` is neither a string nor a list")),
    };
    if dims.len() > limits.rank {
        let message = format!("{} dimensions, at most {}", dims.len(), limits.rank);
        return Err(fields.broken(&SHAPE, message));
    }
    let dim = |value: &Value| match value {
        Value::String(text) if text == "*" => Ok(DimSpec::Any),
        Value::String(text) => Ok(DimSpec::Symbol(text.clone())),
        Value::Integer(n) if *n >= 0 => Ok(DimSpec::Size(n.unsigned_abs())),
        Value::Integer(n) => Err(fields.broken(&SHAPE, format!("a dimension is {n}"))),
        other => {
            let message = format!("a dimension is {}", other.type_str());
            Err(fields.broken(&SHAPE, message))
        }
    };
    dims.iter().map(dim).collect::<Result<_>>().map(ShapeSpec::Dims)
}

fn self_test(fields: &Fields<'_>, warnings: &mut Warnings) -> Result<SelfTest> {
    let expected = fields.table("expected_out")?;
    Ok(SelfTest {
        name: fields.text("name")?.map(str::to_owned),
        description: fields.text("description")?.map(str::to_owned),
        inputs: tensor_names(&fields.required_table("inputs")?)?,
        expected: expected.map(|fields| tensor_names(&fields)).transpose()?,
        tolerance: tolerance(fields, warnings),
        other: other(fields.table, &OF_SELF_TEST),
        other_compare: other_in(fields.table, "compare", &OF_COMPARE),
    })
}

fn tensor_names(fields: &Fields<'_>) -> Result<Vec<(String, String)>> {
    let pair = |(name, value): (&String, &Value)| match reference(fields, name, value)? {
        Reference::Tensor(tensor) => Ok((name.clone(), tensor)),
        Reference::Misc(_) => {
            let message = format!("`{}` is not a tensor", name.escaped());
            Err(fields.broken(&REFERENCE, message))
        }
    };
    fields.table.iter().map(pair).collect()
}

fn reference(fields: &Fields<'_>, name: &str, value: &Value) -> Result<Reference> {
    let Value::String(text) = value else {
        return Err(fields.wrong_type(name, "a string"));
    };
    let tensor = text.strip_prefix(TENSOR_PREFIX).map(|t| Reference::Tensor(t.to_owned()));
    let misc = || {
        let path = text.strip_prefix(MISC_PREFIX)?;
        paths::check(path).ok().map(|()| Reference::Misc(path.to_owned()))
    };
    tensor.or_else(misc).ok_or_else(|| {
        let (name, text) = (name.escaped(), text.escaped());
        fields.broken(&REFERENCE, format!("`{name}` refers to `{text}`"))
    })
}

fn example(fields: &Fields<'_>) -> Result<Example> {
    let references = |key: &str| match fields.table(key)? {
        None => Ok(Vec::new()),
        Some(fields) => {
            let pair = |(name, value): (&String, &Value)| {
                Ok((name.clone(), reference(&fields, name, value)?))
            };
            fields.table.iter().map(pair).collect::<Result<Vec<_>>>()
        }
    };
    Ok(Example {
        name: fields.text("name")?.map(str::to_owned),
        description: fields.text("description")?.map(str::to_owned),
        inputs: references("inputs")?,
        outputs: references("sample_out")?,
        other: other(fields.table, &OF_EXAMPLE),
    })
}

/// The fields that a text must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// All required fields.
    All,
    /// The fields that an author writes: an unpacked package.
    Own,
    /// No fields: a partial text.
    Some,
}

fn runner(fields: &Fields<'_>, says: Says) -> Result<Runner> {
    let text = |key: &str| match (says, fields.text(key)?) {
        (Says::Some, None) => Ok(""),
        _ => fields.required_text(key),
    };
    let framework_version = text("required_framework_version")?;
    let is_said = says != Says::Some || !framework_version.is_empty();
    if let (true, Err(e)) = (is_said, semver::VersionReq::parse(framework_version)) {
        let message =
            format!("`required_framework_version` is `{}`: {e}", framework_version.escaped());
        return Err(fields.broken(&FRAMEWORK_VERSION, message));
    }
    let options = fields.table("opts")?.into_iter().flat_map(|opts| opts.table);
    let options = options.map(|(name, value)| (name.clone(), OptionValue::from_toml(value)));
    Ok(Runner {
        name: text("runner_name")?.to_owned(),
        framework_version: framework_version.to_owned(),
        compat_version: match (says, fields.table.contains_key("runner_compat_version")) {
            (Says::Own | Says::Some, false) => 0,
            _ => fields.required_count("runner_compat_version")?,
        },
        options: options.collect(),
        other: other(fields.table, &OF_RUNNER),
    })
}

/// Returns a text field from later specifications. Readers of version 1 do not know it, so it may have any
/// type.
fn later_text(fields: &Fields<'_>, key: &str, warnings: &mut Warnings) -> Option<String> {
    match fields.table.get(key)? {
        Value::String(text) => Some(text.clone()),
        _ => {
            warnings.ignored(fields, key, "a string");
            None
        }
    }
}

/// Returns a table of our extensions, which other writers may use with another meaning.
fn own_table<'a>(top: &Fields<'a>, key: &str, warnings: &mut Warnings) -> Option<Fields<'a>> {
    top.table(key).unwrap_or_else(|_| {
        warnings.ignored(top, key, "a table");
        None
    })
}

fn tolerance(test: &Fields<'_>, warnings: &mut Warnings) -> Tolerance {
    let mut out = Tolerance::default();
    let Some(fields) = own_table(test, "compare", warnings) else { return out };
    for (key, to) in [("rtol", &mut out.rtol), ("atol", &mut out.atol)] {
        let number = match fields.table.get(key) {
            None => continue,
            Some(Value::Float(x)) => *x,
            Some(Value::Integer(n)) => *n as f64,
            Some(_) => f64::NAN,
        };
        if number.is_finite() && number >= 0.0 {
            *to = number;
        } else {
            warnings.ignored(&fields, key, "a non-negative number");
        }
    }
    match fields.table.get("equal_nan") {
        None => {}
        Some(Value::Boolean(yes)) => out.equal_nan = *yes,
        Some(_) => warnings.ignored(&fields, "equal_nan", "true or false"),
    }
    out
}

fn card(top: &Fields<'_>, warnings: &mut Warnings) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let Some(fields) = own_table(top, "card", warnings) else { return out };
    for (key, value) in fields.table {
        match value {
            Value::String(text) => out.push((key.clone(), text.clone())),
            _ => warnings.ignored(&fields, key, "a string"),
        }
    }
    out
}

fn base_models(top: &Fields<'_>, warnings: &mut Warnings) -> Vec<String> {
    let Some(fields) = own_table(top, "lineage", warnings) else { return Vec::new() };
    if let Some(Value::String(one)) = fields.table.get("base_model") {
        return vec![one.clone()];
    }
    fields
        .texts("base_model")
        .unwrap_or_else(|_| {
            warnings.ignored(&fields, "base_model", "a string or a list of strings");
            None
        })
        .unwrap_or_default()
}

fn sbom(top: &Fields<'_>, warnings: &mut Warnings) -> Option<String> {
    let fields = own_table(top, "sbom", warnings)?;
    let file = later_text(&fields, "file", warnings)?;
    if paths::check(&file).is_err() {
        warnings.ignored(&fields, "file", "a path");
        return None;
    }
    Some(file)
}
