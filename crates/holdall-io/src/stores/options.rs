//! Options of object stores, from the caller and the environment.

use super::rules::OPTION;
use crate::http::Url;
use holdall_core::Result;
use std::collections::BTreeMap;
use std::fmt;

/// Options of object stores, with the names that fsspec's file systems use. Options that are not set are taken from the
/// environment, from profiles, and from the identity of the machine, in the same order as each store's own tools.
///
/// `Debug` shows only the names, because values may be secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StoreOptions {
    chosen: BTreeMap<&'static str, String>,
    /// Replaces the environment. `None` for the environment of the process.
    environment: Option<BTreeMap<String, String>>,
}

/// The names of the options, each with its aliases.
const NAMES: &[(&str, &[&str])] = &[
    ("endpoint_url", &["endpoint", "endpoint_override"]),
    ("region", &["region_name", "aws_region"]),
    ("profile", &[]),
    ("anon", &["anonymous", "skip_signature"]),
    ("key", &["username", "aws_access_key_id", "access_key_id"]),
    ("secret", &["password", "aws_secret_access_key", "secret_access_key"]),
    ("token", &["aws_session_token", "session_token"]),
    ("account_name", &["azure_storage_account_name"]),
    ("account_key", &["azure_storage_account_key"]),
    ("sas_token", &["azure_storage_sas_token"]),
    ("connection_string", &["azure_storage_connection_string"]),
    ("tenant_id", &[]),
    ("client_id", &[]),
    ("client_secret", &[]),
];

/// The names of options that are not secret. Only these may be given on a command line, which all users of a machine
/// can see.
pub const NON_SECRET_OPTIONS: &[&str] =
    &["endpoint_url", "region", "profile", "anon", "account_name", "tenant_id", "client_id"];

impl StoreOptions {
    /// Returns options of which none is set.
    pub fn new() -> StoreOptions {
        StoreOptions::default()
    }

    /// Returns options of which none is set and that use neither the environment nor profiles nor the machine's
    /// identity.
    pub fn isolated() -> StoreOptions {
        StoreOptions { chosen: BTreeMap::new(), environment: Some(BTreeMap::new()) }
    }

    /// Sets an option: `endpoint_url`, `region`, `profile`, `anon`, `key`, `secret`, `token`, `account_name`,
    /// `account_key`, `sas_token`, `connection_string`, `tenant_id`, `client_id` or `client_secret`.
    ///
    /// # Errors
    /// Returns [`OPTION`] if there is no option of this name, or `anon` is neither `true` nor `false`.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Result<StoreOptions> {
        let is = |known: &&(&'static str, &[&str])| known.0 == name || known.1.contains(&name);
        let Some((known, _)) = NAMES.iter().find(is) else {
            let e = OPTION.broken(format!("there is no option `{}`", name.escape_debug()));
            let all: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            return Err(e.with_hint(format!("the options are {}", all.join(", "))));
        };
        let value = value.into();
        if *known == "anon" && !["true", "false"].iter().any(|v| value.eq_ignore_ascii_case(v)) {
            return Err(OPTION.broken("expected `true` or `false` for `anon`"));
        }
        self.chosen.insert(known, value);
        Ok(self)
    }

    /// Replaces the environment.
    #[cfg(test)]
    pub(super) fn in_environment(mut self, all: &[(&str, &str)]) -> StoreOptions {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.environment = Some(all.iter().map(own).collect());
        self
    }

    /// Returns an option that was set.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.chosen.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns a variable of the environment.
    pub(super) fn env(&self, name: &str) -> Option<String> {
        let value = match &self.environment {
            Some(all) => all.get(name).cloned(),
            None => std::env::var(name).ok(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// Returns an option that was set, else the first of these environment variables that is set.
    pub(super) fn find(&self, name: &str, vars: &[&str]) -> Option<String> {
        let from_env = || vars.iter().find_map(|var| self.env(var));
        self.get(name).map(str::to_owned).or_else(from_env)
    }

    /// Returns `true` if requests are not to be signed.
    pub(super) fn is_anonymous(&self) -> bool {
        self.get("anon").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns `true` if credentials may come from the metadata service of the machine that this program runs on.
    pub(super) fn allows_instance_metadata(&self) -> bool {
        self.environment.is_none()
    }

    /// Returns the path of a file in the user's home folder.
    pub(super) fn home(&self, path: &str) -> Option<std::path::PathBuf> {
        let home = self.env("HOME").or_else(|| self.env("USERPROFILE"))?;
        Some(std::path::Path::new(&home).join(path))
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.chosen.keys()).finish()
    }
}

/// Parses an endpoint, and removes trailing slashes.
pub(super) fn endpoint(text: &str) -> Result<Url> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let in_context = |e: holdall_core::Error| e.within("the endpoint");
    let url = Url::parse(&whole).map_err(in_context)?;
    let path = url.path().trim_end_matches('/').to_owned();
    Ok(url.with_target(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_names_and_show_no_values() {
        let options = StoreOptions::isolated().with("aws_access_key_id", "AKIA").unwrap();
        let options = options.with("secret", "s3cr3t").unwrap();
        assert_eq!(options.get("key"), Some("AKIA"));
        assert_eq!(format!("{options:?}"), r#"{"key", "secret"}"#);
        let e = StoreOptions::new().with("sekret", "x").unwrap_err();
        assert_eq!(e.code(), "stores/option");
        assert!(e.hint().unwrap().contains("endpoint_url"), "{e}");
        assert_eq!(StoreOptions::new().with("anon", "maybe").unwrap_err().code(), "stores/option");
    }
}
