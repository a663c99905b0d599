//! `holdall run` and `holdall test`: loading a model.

pub(crate) mod given;
pub(crate) mod run;
pub(crate) mod runner;
mod shown;
pub(crate) mod test;
mod words;

use crate::exit::{ARGUMENTS, Failure};
use crate::input;
use crate::output::style::Style;
use crate::output::text::{escape, printable};
use crate::package::pack::replace_advice;
use crate::session::Session;
use clap::Args;
use holdall::carton::{OptionValue, Package, Recipe, ValueSpec};
use holdall_run::{LogLine, Model, Settings};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Options for loading and running a model.
#[derive(Debug, Args)]
pub(crate) struct Running {
    /// Package to run: a `.carton` file or an unpacked folder
    #[arg(value_name = "PACKAGE")]
    package: PathBuf,

    /// The runner of the model, such as onnx or python, for a folder without `carton.toml`
    #[arg(long, value_name = "RUNNER")]
    runner: Option<String>,

    /// Required version of the runner's framework for such a folder, such as `--framework-version '>=3.10'`
    #[arg(long, value_name = "VERSION", requires = "runner")]
    framework_version: Option<String>,

    #[command(flatten)]
    declared: Declared,

    /// Start this program as the package's runner, such as 'python3 -m holdall.runners.torchscript'
    #[arg(long, value_name = "COMMAND", value_parser = words::split)]
    runner_command: Option<words::Words>,

    /// File with the commands of runners [default: $HOLDALL_CONFIG, otherwise holdall/config.toml in the system's
    /// configuration folder]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Option for the runner, overriding the package's; can be repeated
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = option)]
    options: Vec<(String, OptionValue)>,

    /// Python interpreter [default: $HOLDALL_PYTHON, otherwise python3]
    #[arg(long, value_name = "PROGRAM")]
    python: Option<OsString>,

    /// Environment variable for the model's process, with this value or the current one; can be repeated. Variables
    /// that may contain secrets are passed only if named
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    environment: Vec<OsString>,

    /// Run ONNX graphs with this library of ONNX Runtime, such as libonnxruntime.so, instead of the built-in engine
    #[cfg(feature = "run-onnxruntime")]
    #[arg(long, value_name = "LIBRARY")]
    onnxruntime: Option<PathBuf>,

    /// Maximum seconds for loading, for a call, and for each output of a stream [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

/// Inputs and outputs that the user declares.
#[derive(Debug, Args)]
pub(crate) struct Declared {
    /// Declare an input, such as 'x: f32[batch, 3]'; can be repeated
    #[arg(long, value_name = "NAME: TYPE[SHAPE]", value_parser = declared)]
    takes: Vec<ValueSpec>,

    /// Declare an output, such as 'y: i64[batch]'; can be repeated
    #[arg(long, value_name = "NAME: TYPE[SHAPE]", value_parser = declared)]
    gives: Vec<ValueSpec>,
}

impl Declared {
    /// Adds the declarations to a recipe.
    pub(crate) fn say(&self, recipe: &mut Recipe) {
        let some = |specs: &[ValueSpec]| (!specs.is_empty()).then(|| specs.to_vec());
        (recipe.inputs, recipe.outputs) = (some(&self.takes), some(&self.gives));
    }

    fn is_empty(&self) -> bool {
        self.takes.is_empty() && self.gives.is_empty()
    }
}

fn declared(text: &str) -> Result<ValueSpec, String> {
    holdall::carton::declared(text).map_err(|e| match e.hint() {
        Some(hint) => format!("{}; {hint}", e.message()),
        None => e.message().to_owned(),
    })
}

/// Parses `NAME=VALUE`. The value may contain arbitrary bytes.
fn with_value(settings: Settings, text: &std::ffi::OsStr) -> Settings {
    let (name, value) = crate::platform::split_variable(text);
    settings.with_variable(name, value)
}

/// Parses `NAME=VALUE`, where the value is a number, `true`, `false` or otherwise a string.
pub(crate) fn option(text: &str) -> Result<(String, OptionValue), String> {
    let (name, value) =
        text.split_once('=').ok_or("write NAME=VALUE, for example `num_threads=1`")?;
    let value = match (value, value.parse(), value.parse()) {
        ("true", ..) => OptionValue::Boolean(true),
        ("false", ..) => OptionValue::Boolean(false),
        (_, Ok(n), _) => OptionValue::Integer(n),
        (_, _, Ok(n)) => OptionValue::Double(n),
        _ => OptionValue::String(value.to_owned()),
    };
    Ok((name.to_owned(), value))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "write seconds, for example 30 or 0.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|d| !d.is_zero()).ok_or_else(wrong)
}

impl Running {
    /// Opens the package.
    fn open(&self, session: &Session) -> Result<Package, Failure> {
        if self.package.as_os_str() == "-" {
            return Err(ARGUMENTS
                .broken("a package cannot be run from standard input; give a file or a folder")
                .into());
        }
        let Some(runner) = &self.runner else {
            if !self.declared.is_empty() {
                let e = ARGUMENTS.broken("`--takes` and `--gives` require `--runner`");
                return Err(e.into());
            }
            return Ok(Package::open_with(&self.package, &input::options(session))?);
        };
        let mut recipe = Recipe::new();
        recipe.runner = Some(runner.clone());
        recipe.framework_version.clone_from(&self.framework_version);
        self.declared.say(&mut recipe);
        recipe.open = input::options(session);
        recipe.limits = session.global.limits();
        let (package, undeclared) = recipe.open(&self.package).map_err(replace_advice)?;
        if let Some((name, why)) = undeclared {
            let (name, why) = (escape(&name), printable(&why));
            session.warn(format_args!(
                "`{name}` cannot be declared in a package: {why}; no inputs and outputs are declared"
            ));
        }
        Ok(package)
    }

    /// Adds runners to the built-in ones.
    fn add_runners(&self, settings: Settings, package: &Package) -> Result<Settings, Failure> {
        use holdall_run::{Config, Program};
        let config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::load()?,
        };
        let mut runners = settings.runners.clone();
        // An engine in this process could not be killed at a timeout.
        if self.timeout.is_some() {
            runners = runner::with_separate_onnx(runners, self.engine());
        }
        runners = runners.with_config(&config);
        if let Some(words) = &self.runner_command {
            let name = package.description().runner.name.as_str();
            runners = runners.with(Program::new(name, words.0.clone()));
        }
        Ok(settings.with_runners(runners))
    }

    /// Returns the path of the library that runs graphs, if one is named.
    fn engine(&self) -> Option<&std::path::Path> {
        #[cfg(feature = "run-onnxruntime")]
        return self.onnxruntime.as_deref();
        #[cfg(not(feature = "run-onnxruntime"))]
        None
    }

    /// Unpacks and loads the model. The output of the model goes to standard error.
    fn load(&self, session: &Session, package: &Package) -> Result<Model, Failure> {
        crate::signals::leave_nothing_behind();
        let mut settings = Settings::default();
        if let Some(timeout) = self.timeout {
            settings = settings.with_timeout(timeout);
        }
        for (name, value) in &self.options {
            settings = settings.with_option(name, value.clone());
        }
        #[cfg(feature = "run-onnxruntime")]
        if let Some(library) = &self.onnxruntime {
            let engine = holdall_run::onnx::OnnxRuntime::load(library)?;
            let runners = settings.runners.clone();
            settings = settings.with_runners(runners.with(engine));
        }
        settings = self.add_runners(settings, package)?;
        if let Some(python) = &self.python {
            settings = settings.with_python(python);
        }
        for variable in &self.environment {
            settings = match variable.as_encoded_bytes().contains(&b'=') {
                true => with_value(settings, variable),
                false => settings.with_inherited_variable(variable),
            };
        }
        let prefix = session.err_paint().styled("model:", Style::Dim).to_string();
        settings = settings.with_log(move |line: LogLine| {
            // If standard error cannot be written to, the error cannot be reported.
            let _ = writeln!(std::io::stderr(), "{prefix} {}", printable(&line.text));
        });
        let model = Model::load(package, &settings).map_err(|e| e.in_source(package.name()))?;
        for warning in model.warnings() {
            session.warn(printable(warning));
        }
        Ok(model)
    }
}
