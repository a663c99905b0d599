//! `holdall run` and `holdall test`: what both do to load a model.

pub(crate) mod given;
pub(crate) mod run;
mod shown;
pub(crate) mod test;

use crate::exit::{ARGUMENTS, Failure};
use crate::input;
use crate::output::style::Style;
use crate::output::text::printable;
use crate::session::Session;
use clap::Args;
use holdall::carton::{OptionValue, Package};
use holdall_run::{LogLine, Model, Settings};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// How a model is loaded and run.
#[derive(Debug, Args)]
pub(crate) struct Running {
    /// Package to run: a `.carton` file or an unpacked folder
    #[arg(value_name = "PACKAGE")]
    package: PathBuf,

    /// Option for the runner, before the package's own; may be given again
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = option)]
    options: Vec<(String, OptionValue)>,

    /// Python interpreter [default: $HOLDALL_PYTHON, else python3]
    #[arg(long, value_name = "PROGRAM")]
    python: Option<OsString>,

    /// Variable for the model's process: this value, or the one it has here; may be given again. Others that may
    /// be secrets are not passed
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    environment: Vec<OsString>,

    /// Run ONNX graphs by this library of ONNX Runtime, as libonnxruntime.so, not by the engine in the box
    #[cfg(feature = "onnxruntime")]
    #[arg(long, value_name = "LIBRARY")]
    onnxruntime: Option<PathBuf>,

    /// Seconds that a model may take to load, and for a call, or each answer of one that is streamed
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "600",
        value_parser = seconds,
        allow_hyphen_values = true
    )]
    timeout: Duration,
}

/// A variable from `NAME=VALUE`, in which the value may be of any bytes that the system has in variables.
fn with_value(settings: Settings, text: &std::ffi::OsStr) -> Settings {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let (name, value) =
            text.as_bytes().split_at(text.as_bytes().iter().position(|b| *b == b'=').unwrap_or(0));
        let value = value.get(1..).unwrap_or_default();
        settings
            .with_variable(std::ffi::OsStr::from_bytes(name), std::ffi::OsStr::from_bytes(value))
    }
    #[cfg(not(unix))]
    {
        let text = text.to_string_lossy();
        let (name, value) = text.split_once('=').unwrap_or((&text, ""));
        settings.with_variable(name, value)
    }
}

/// `name=value`, where the value is a number, `true`, `false` or else a text.
pub(crate) fn option(text: &str) -> Result<(String, OptionValue), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, as `num_threads=1`")?;
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
    let wrong = || "write seconds, as 30 or 0.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|d| !d.is_zero()).ok_or_else(wrong)
}

impl Running {
    /// Opens the package.
    fn open(&self, session: &Session) -> Result<Package, Failure> {
        if self.package.as_os_str() == "-" {
            return Err(ARGUMENTS
                .broken("a package is run from a file or a folder, not from `-`")
                .into());
        }
        Ok(Package::open_with(&self.package, &input::options(session))?)
    }

    /// Unpacks and loads its model. What the model prints goes to standard error.
    fn load(&self, session: &Session, package: &Package) -> Result<Model, Failure> {
        #[cfg(unix)]
        crate::signals::leave_nothing_behind();
        let mut settings = Settings::default().with_timeout(self.timeout);
        for (name, value) in &self.options {
            settings = settings.with_option(name, value.clone());
        }
        #[cfg(feature = "onnxruntime")]
        if let Some(library) = &self.onnxruntime {
            let engine = holdall_run::onnx::OnnxRuntime::load(library)?;
            let runners = settings.runners.clone();
            settings = settings.with_runners(runners.with(engine));
        }
        if let Some(python) = &self.python {
            settings = settings.with_python(python);
        }
        for variable in &self.environment {
            settings = match variable.as_encoded_bytes().contains(&b'=') {
                true => with_value(settings, variable),
                false => settings.with_own_variable(variable),
            };
        }
        let prefix = session.err_paint().on("model:", Style::Dim).to_string();
        settings = settings.with_log(move |line: LogLine| {
            // There is no one to tell.
            let _ = writeln!(std::io::stderr(), "{prefix} {}", printable(&line.text));
        });
        let model = Model::load(package, &settings).map_err(|e| e.in_source(package.name()))?;
        for warning in model.warnings() {
            session.warn(printable(warning));
        }
        Ok(model)
    }
}
