//! The limits as the documentation and the packages' types show them, written from the library's table.

use crate::docs::{cell, line};
use holdall::{LIMITS, Limit, LimitUnit, NameCase};
use std::collections::BTreeMap;

const BEGIN: &str = "<!-- Limits, written by `cargo xtask gen` from the table in the code. -->\n";
const END: &str = "<!-- End of the limits. -->\n";

/// Limits that the JavaScript package lowers, because a browser tab has less memory than a
/// server.
const IN_JAVASCRIPT: [(&str, u64); 2] = [("decoded_len", 1 << 30), ("fetched_len", 1 << 28)];

/// A limit of the command that the library does not have.
const OF_COMMAND: &str = "| `stdin-len` | bytes | 4 GiB | Bytes taken from standard input, and bytes of a JSON array of records. |";

/// Replaces the table between the marks of a page.
///
/// # Errors
/// Returns an error if the page has no marks.
pub(crate) fn in_page(page: &str, table: &str) -> Result<String, String> {
    let marked = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
    });
    marked.ok_or_else(|| "the marks of the table of limits are missing".to_owned())
}

/// Returns the table of the specification: the names in Rust and Python, and the rules that name
/// each limit. `rules` are the sentences of the rules of kind `limit`, by code.
pub(crate) fn specification(rules: &BTreeMap<String, String>) -> String {
    let mut out =
        head("| limit | unit | default | bounds | rules |\n| --- | --- | --- | --- | --- |");
    for limit in LIMITS {
        let mention = format!("`Limits::{}`", limit.name);
        let rules: Vec<String> = rules
            .iter()
            .filter(|(_, says)| says.contains(&mention))
            .map(|(code, _)| format!("`{code}`"))
            .collect();
        let row = row(limit, NameCase::Snake, limit.default);
        line(&mut out, &format!("{row} {} |", rules.join(", ")));
    }
    out
}

/// Returns the table of the command.
pub(crate) fn command() -> String {
    let mut out = head("| name | unit | default | bounds |\n| --- | --- | --- | --- |");
    for limit in LIMITS {
        line(&mut out, &row(limit, NameCase::Kebab, limit.default));
    }
    line(&mut out, OF_COMMAND);
    out
}

/// Returns the table of the JavaScript package, with its own defaults.
pub(crate) fn javascript() -> String {
    let mut out = head("| name | unit | default | bounds |\n| --- | --- | --- | --- |");
    for limit in LIMITS {
        line(&mut out, &row(limit, NameCase::Camel, in_javascript(limit)));
    }
    out
}

/// Returns the TypeScript type, and the defaults that differ from the library's.
pub(crate) fn typescript() -> String {
    let mut out = "// Written by `cargo xtask gen` from the table of limits in the code.\n\n\
        /** Upper bounds on what a file may demand. Limits that are left out have their default. */\n\
        export interface Limits {\n"
        .to_owned();
    for limit in LIMITS {
        let help = limit.described(NameCase::Camel);
        let default = shown(limit, in_javascript(limit));
        line(&mut out, &format!("  /** {help} Default: {default}. */"));
        line(&mut out, &format!("  {}?: number", limit.spelled(NameCase::Camel)));
    }
    out.push_str(
        "  /** Whether a file may have more or less data than its header describes, which is otherwise refused. */\n  \
         salvage?: boolean\n  \
         /** Whether unknown values of a pickle are left out. By default they are refused. */\n  \
         skipUnknown?: boolean\n}\n\n\
         /** The names of the limits that are numbers. */\n\
         export const NAMES = [\n",
    );
    for limit in LIMITS {
        line(&mut out, &format!("  '{}',", limit.spelled(NameCase::Camel)));
    }
    out.push_str(
        "] as const\n\n\
         /** Defaults that differ from the library's: a browser tab has less memory than a server. */\n\
         export const DEFAULTS = {\n",
    );
    for (name, value) in IN_JAVASCRIPT {
        line(&mut out, &format!("  {}: {value},", NameCase::Camel.spell(name)));
    }
    out.push_str("}\n");
    out
}

/// Returns the Python type of `limits=`.
pub(crate) fn python() -> String {
    let mut out = "# Written by `cargo xtask gen` from the table of limits in the code.\n\
        \"\"\"Limits on what a file may demand.\"\"\"\n\n\
        from typing import TypedDict\n\n\n\
        class Limits(TypedDict, total=False):\n    \
        \"\"\"The keys of ``limits=``: upper bounds on what a file may demand. Limits that are left out have their default.\"\"\"\n\n"
        .to_owned();
    for limit in LIMITS {
        let help = limit.described(NameCase::Snake).replace('`', "``");
        line(&mut out, &format!("    #: {help}"));
        line(&mut out, &format!("    #: Default: {}.", shown(limit, limit.default)));
        line(&mut out, &format!("    {}: int", limit.name));
    }
    out.push_str(
        "    #: Whether unknown values of a pickle are left out. By default they are refused.\n    \
         skip_unknown: bool\n",
    );
    out
}

fn head(head: &str) -> String {
    format!("{head}\n")
}

fn row(limit: &Limit, case: NameCase, default: u64) -> String {
    let unit = match limit.unit {
        LimitUnit::Bytes => "bytes",
        LimitUnit::Times => "factor",
        LimitUnit::Bits => "bits",
        _ => "count",
    };
    let most = match limit.max {
        u64::MAX => String::new(),
        most => format!(" (at most {most})"),
    };
    let (name, default) = (limit.spelled(case), shown(limit, default));
    format!("| `{name}` | {unit} | {default}{most} | {} |", cell(&limit.described(case)))
}

fn in_javascript(limit: &Limit) -> u64 {
    let own = IN_JAVASCRIPT.iter().find(|(name, _)| *name == limit.name);
    own.map_or(limit.default, |(_, value)| *value)
}

/// Formats a value for people.
fn shown(limit: &Limit, value: u64) -> String {
    let scales = [
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
    ];
    match limit.unit {
        LimitUnit::Bytes => {
            let whole = scales.iter().find(|(_, scale)| value.is_multiple_of(*scale));
            whole.map_or_else(
                || value.to_string(),
                |(unit, scale)| format!("{} {unit}", value / scale),
            )
        }
        _ if value >= 1 << 16 && value.is_power_of_two() => format!("2^{}", value.ilog2()),
        _ => value.to_string(),
    }
}
