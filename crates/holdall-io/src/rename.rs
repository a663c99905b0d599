//! Renaming tensors by rule.

use crate::error::PATTERN;
use crate::glob::Glob;
use holdall_core::Result;
use holdall_core::error::Escape as _;
use std::borrow::Cow;
use std::fmt;

/// A rule `OLD=NEW`: a tensor whose whole name matches the glob `OLD` is renamed to `NEW`, in which the first `*` is
/// replaced by the text that the first `*` of `OLD` matched, the second by that of the second, and so on. Each `*` of
/// `OLD` matches as little as possible, the first one first.
///
/// `model.*=*` removes a prefix, `transformer.h.*.attn.*=blk.*.attn.*` renames in the middle. `\=`, `\*` and `\\` are
/// the characters themselves.
#[derive(Debug, Clone)]
pub struct Rename {
    old: Glob,
    /// The texts before, between and after the `*`s.
    new: Vec<String>,
}

impl Rename {
    /// Parses a rule.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the rule has no `=`, the glob is invalid, or `NEW` is empty or has another number of `*` than `OLD`,
    /// unless it has none.
    pub fn new(rule: &str) -> Result<Rename> {
        let shown = rule.escaped();
        let Some((old, new)) = split(rule) else {
            return Err(PATTERN.broken(format!("`{shown}` has no `=`; a rename is `OLD=NEW`")));
        };
        let old = Glob::new(old)?;
        if new.is_empty() {
            return Err(PATTERN.broken(format!("`{shown}` has nothing after `=`")));
        }
        let new = texts(new);
        let (found, expected) = (new.len() - 1, old.stars());
        if found != 0 && found != expected {
            return Err(PATTERN
                .broken(format!("`{shown}` has {expected} `*` before `=` and {found} after it"))
                .with_hint("use as many `*` after `=` as before it, or none"));
        }
        Ok(Rename { old, new })
    }

    /// Returns the new name of a tensor, or `None` if the rule does not match it.
    pub fn apply(&self, name: &str) -> Option<String> {
        if let [plain] = &self.new[..] {
            return self.old.matches(name).then(|| plain.clone());
        }
        let captures = self.old.captures(name)?;
        let mut out = self.new.first().cloned().unwrap_or_default();
        for (capture, text) in captures.iter().zip(&self.new[1..]) {
            out.push_str(capture);
            out.push_str(text);
        }
        Some(out)
    }

    /// Returns the name after the first rule that matches `name`, or `name` itself.
    pub fn first<'n>(rules: &[Rename], name: &'n str) -> Cow<'n, str> {
        match rules.iter().find_map(|rule| rule.apply(name)) {
            Some(new) => Cow::Owned(new),
            None => Cow::Borrowed(name),
        }
    }
}

impl fmt::Display for Rename {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.old, self.new.join("*"))
    }
}

/// Splits a rule at the first `=` that is not escaped.
fn split(rule: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, c) in rule.char_indices() {
        match c {
            '=' if !escaped => return Some((&rule[..at], &rule[at + 1..])),
            _ => escaped = c == '\\' && !escaped,
        }
    }
    None
}

/// Returns the texts between the `*`s that are not escaped: one more than there are `*`s.
fn texts(new: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut chars = new.chars();
    while let Some(c) = chars.next() {
        let last = out.len() - 1;
        match c {
            '*' => out.push(String::new()),
            '\\' => out[last].push(chars.next().unwrap_or('\\')),
            c => out[last].push(c),
        }
    }
    out
}
