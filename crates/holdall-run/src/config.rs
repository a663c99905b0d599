//! The user's configuration file, which names external runners.
//!
//! ```toml
//! [runners.torchscript]
//! command = ["python3", "-m", "holdall.runners.torchscript"]
//! ```
//! The file is the one that the variable `HOLDALL_CONFIG` names, or else `holdall/config.toml` in `$XDG_CONFIG_HOME` or
//! in `~/.config`, on Windows in `%APPDATA%`. Neither a package nor a file in the working directory can configure runners.

use crate::platform;
use crate::process::program::Program;
use crate::rules::CONFIG;
use crate::runners::Runners;
use holdall::error::Escape as _;
use holdall::{Error, Result};
use std::path::Path;
use toml::{Table, Value};

/// The environment variable with the path of the configuration file.
pub const VARIABLE: &str = "HOLDALL_CONFIG";

/// The content of a configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The runners, in the order of the file.
    pub runners: Vec<Program>,
}

impl Config {
    /// Reads the user's configuration file. Without such a file, returns an empty configuration.
    ///
    /// # Errors
    /// Returns the same errors as for [`Config::read`]; `run/io` if `HOLDALL_CONFIG` names a file that does not exist.
    pub fn load() -> Result<Config> {
        match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Config::read(path),
            None => {
                match platform::config_folder().map(|folder| folder.join("holdall/config.toml")) {
                    Some(path) if path.exists() => Config::read(path),
                    _ => Ok(Config::default()),
                }
            }
        }
    }

    /// Reads a configuration file. Unknown tables and keys are ignored.
    ///
    /// # Errors
    /// Returns `run/config` if the file is invalid, `run/io` if it cannot be read.
    pub fn read(path: impl AsRef<Path>) -> Result<Config> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|e| crate::rules::io(e, "reading").in_source(path.display()))?;
        Config::parse(&text).map_err(|e| e.in_source(path.display()))
    }

    fn parse(text: &str) -> Result<Config> {
        let table: Table = text.parse().map_err(|e: toml::de::Error| {
            let message = e.message().to_owned();
            CONFIG.broken(format!("not valid TOML: {message}")).because(e)
        })?;
        let runners = match table.get("runners") {
            None => return Ok(Config::default()),
            Some(Value::Table(runners)) => runners,
            Some(_) => return Err(CONFIG.broken("`runners` is not a table")),
        };
        let runner = |(name, table): (&String, &Value)| {
            let wrong = |what: &str| -> Error {
                CONFIG.broken(format!("`[runners.{}]`: {what}", name.escaped()))
            };
            let command = table.get("command").ok_or_else(|| wrong("`command` is missing"))?;
            let texts = command.as_array().and_then(|all| {
                all.iter().map(|part| part.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
            });
            match texts.filter(|texts| texts.first().is_some_and(|program| !program.is_empty())) {
                Some(texts) => Ok(Program::new(name.as_str(), texts)),
                None => Err(wrong("`command` is not a list of strings that starts with a program")),
            }
        };
        let runners = runners.iter().map(runner).collect::<Result<_>>()?;
        Ok(Config { runners })
    }
}

impl Runners {
    /// Adds the runners of a configuration file. They take precedence over runners of the same names.
    pub fn with_config(self, config: &Config) -> Runners {
        config.runners.iter().cloned().fold(self, Runners::with)
    }
}
