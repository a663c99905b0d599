//! `--limit NAME=N`: the library's limits, and one that only the command has.

use crate::args::{Global, size};
use holdall::{LIMITS, Limit, LimitUnit, Limits, NameCase};

/// Default of `stdin-len`: maximum bytes of standard input that are read into memory.
pub(crate) const STDIN_LEN: u64 = 4 << 30;
/// The name of the limit that the library does not have.
const STDIN: &str = "stdin-len";

impl Global {
    /// Returns the library's limits, with the changes that the user made.
    pub(crate) fn limits(&self) -> Limits {
        let mut out = Limits::default();
        out.skip_unknown = self.skip_unknown;
        for limit in &self.limits {
            limit.apply(&mut out);
        }
        out
    }

    /// Returns the maximum number of bytes to read from standard input.
    pub(crate) fn stdin_len(&self) -> u64 {
        self.limits.iter().rev().find_map(SetLimit::stdin_len).unwrap_or(STDIN_LEN)
    }
}

/// One `--limit` option.
#[derive(Debug, Clone)]
pub(crate) struct SetLimit {
    /// `None` for `stdin-len`.
    limit: Option<&'static Limit>,
    value: u64,
}

impl SetLimit {
    /// Sets the limit in `limits`, if it is one of the library's.
    pub(crate) fn apply(&self, limits: &mut Limits) {
        if let Some(limit) = self.limit {
            // The value was checked when it was parsed.
            let _ = limit.set(limits, self.value);
        }
    }

    /// Returns the value of `stdin-len`, if it is this limit.
    pub(crate) fn stdin_len(&self) -> Option<u64> {
        self.limit.is_none().then_some(self.value)
    }
}

/// Parses `NAME=N`.
///
/// # Errors
/// Returns a description of the mistake.
pub(crate) fn parse(text: &str) -> Result<SetLimit, String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=N, for example `tensors=1000`")?;
    let name = name.to_ascii_lowercase();
    let limit = match name == STDIN {
        true => None,
        false => Some(
            Limit::find(&name, NameCase::Kebab)
                .map_err(|_| Limit::unknown_name(&name, NameCase::Kebab, &[STDIN]))?,
        ),
    };
    let value = size(value).map_err(|e| match limit {
        Some(limit) if limit.unit != LimitUnit::Bytes => {
            format!("`{value}` is not a whole number; write for example `{name}={}`", limit.default)
        }
        _ => e,
    })?;
    if let Some(limit) = limit {
        limit.check(value, NameCase::Kebab).map_err(|e| e.message().to_owned())?;
    }
    Ok(SetLimit { limit, value })
}

/// Returns the help of `--limit`: the names of all limits, first of those in bytes.
pub(crate) fn help() -> String {
    let names = |in_bytes: bool| {
        LIMITS
            .iter()
            .filter(move |limit| (limit.unit == LimitUnit::Bytes) == in_bytes)
            .map(|limit| limit.spelled(NameCase::Kebab))
    };
    let bytes: Vec<String> = names(true).chain([STDIN.to_owned()]).collect();
    let others: Vec<String> = names(false).collect();
    format!(
        "Raise or lower a limit, such as `decoded-len=100GiB`: {} (bytes), {}; can be repeated",
        bytes.join(", "),
        others.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use crate::output::remedy::spelled;
    use clap::{CommandFactory as _, Parser as _};
    use holdall::Remedy;

    /// Returns the text between the first backticks.
    fn quoted(text: &str) -> &str {
        text.split('`').nth(1).unwrap()
    }

    fn globals(args: &str) -> crate::args::Global {
        let args = ["holdall", "formats"].into_iter().chain(args.split(' '));
        Cli::try_parse_from(args).unwrap().global
    }

    /// The option in a remedy is accepted as it is printed, and sets the limit it names.
    #[test]
    fn remedies_that_name_a_limit_are_accepted() {
        for limit in LIMITS {
            for value in [0, 5, limit.default, limit.max] {
                let raise = Remedy::RaiseLimit { limit: limit.name, at_least: Some(value) };
                let limits = globals(quoted(&spelled(&raise).unwrap())).limits();
                assert_eq!(limit.get(&limits), value, "{}", limit.name);
            }
            let raise = Remedy::RaiseLimit { limit: limit.name, at_least: None };
            let limits = globals(&quoted(&spelled(&raise).unwrap()).replace("=N", "=7")).limits();
            assert_eq!(limit.get(&limits), 7, "{}", limit.name);
        }
    }

    /// If a remedy of a rule of the command or the library names a limit, `--limit` accepts it.
    #[test]
    fn rules_name_limits_that_exist() {
        let mut count = 0;
        for rule in holdall::rules().chain(crate::exit::RULES.iter().copied()) {
            for remedy in rule.remedies {
                if matches!(remedy, Remedy::RaiseLimit { .. }) {
                    let option = quoted(&spelled(remedy).unwrap()).replace("=N", "=7");
                    let global = globals(&option);
                    assert_eq!(global.limits.len(), 1, "{}: {option}", rule.code);
                    count += 1;
                }
            }
        }
        assert!(count > 40, "{count}");
    }

    #[test]
    fn help_lists_every_limit() {
        let help = Cli::command().render_long_help().to_string();
        for name in LIMITS.iter().map(|l| l.spelled(NameCase::Kebab)).chain([STDIN.to_owned()]) {
            assert!(help.contains(&name), "{name}");
        }
    }

    #[test]
    fn stdin_len_is_a_limit_of_the_command() {
        assert_eq!(globals("--limit tensors=1").stdin_len(), STDIN_LEN);
        assert_eq!(globals("--limit stdin-len=64K").stdin_len(), 65536);
    }

    #[test]
    fn wrong_limits_are_refused() {
        let wrong = |text: &str| parse(text).unwrap_err();
        let unknown = wrong("decodedlen=1");
        assert!(unknown.contains("did you mean `decoded-len`?"), "{unknown}");
        assert!(unknown.contains("zstd-window-log") && unknown.contains(STDIN), "{unknown}");
        assert!(wrong("decoded_len=1").contains("`decoded-len`"));
        assert_eq!(wrong("depth=513"), "the limit `depth` must be at most 512, not 513");
        assert_eq!(wrong("rank=x"), "`x` is not a whole number; write for example `rank=64`");
        assert!(wrong("text-len=x").contains("KiB"));
        assert!(wrong("tensors").contains("NAME=N"));
    }
}
