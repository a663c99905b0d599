//! The user's configuration file: the runners that are programs of others.
//!
//! ```toml
//! [runners.torchscript]
//! command = ["python3", "-m", "holdall.runners.torchscript"]
//! ```
//! It is the file that the variable `HOLDALL_CONFIG` names, else `holdall/config.toml` in the folder for such files:
//! `$XDG_CONFIG_HOME`, or `.config` in the home. Nothing of a package, and no file of the working folder, is one.

use crate::process::program::Program;
use crate::rules::CONFIG;
use crate::runners::Runners;
use holdall::error::Shown as _;
use holdall::{Error, Result};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The variable that names the file.
pub const VARIABLE: &str = "HOLDALL_CONFIG";

/// What a configuration file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Runners, in the file's order.
    pub runners: Vec<Program>,
}

impl Config {
    /// Reads the user's file; nothing where there is none.
    ///
    /// # Errors
    /// As [`Config::read`]; `run/io` where `HOLDALL_CONFIG` names a file that is not there.
    pub fn load() -> Result<Config> {
        let folder = || {
            let own = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
            let own = own.filter(|folder| folder.is_absolute());
            own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))
        };
        match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Config::read(path),
            None => match folder().map(|folder| folder.join("holdall/config.toml")) {
                Some(path) if path.exists() => Config::read(path),
                _ => Ok(Config::default()),
            },
        }
    }

    /// Reads a file. Tables and keys that are not known are passed over.
    ///
    /// # Errors
    /// `run/config`, `run/io`.
    pub fn read(path: impl AsRef<Path>) -> Result<Config> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|e| crate::rules::io(e, "reading").in_source(path.display()))?;
        Config::parse(&text).map_err(|e| e.in_source(path.display()))
    }

    fn parse(text: &str) -> Result<Config> {
        let table: Table = text.parse().map_err(|e: toml::de::Error| {
            let message = e.message().to_owned();
            CONFIG.broken(format!("this is not TOML: {message}")).because(e)
        })?;
        let runners = match table.get("runners") {
            None => return Ok(Config::default()),
            Some(Value::Table(runners)) => runners,
            Some(_) => return Err(CONFIG.broken("`runners` is not a table")),
        };
        let runner = |(name, of): (&String, &Value)| {
            let wrong = |what: &str| -> Error {
                CONFIG.broken(format!("`[runners.{}]`: {what}", name.shown()))
            };
            let command = of.get("command").ok_or_else(|| wrong("there is no `command`"))?;
            let texts = command.as_array().and_then(|all| {
                all.iter().map(|part| part.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
            });
            match texts.filter(|texts| texts.first().is_some_and(|program| !program.is_empty())) {
                Some(texts) => Ok(Program::new(name.as_str(), texts)),
                None => Err(wrong("`command` is not a list of texts, the first of them a program")),
            }
        };
        let runners = runners.iter().map(runner).collect::<Result<_>>()?;
        Ok(Config { runners })
    }
}

impl Runners {
    /// Adds those of a configuration file. They come before those of the same name that are there.
    pub fn with_config(self, config: &Config) -> Runners {
        config.runners.iter().cloned().fold(self, Runners::with)
    }
}
