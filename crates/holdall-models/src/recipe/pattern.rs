//! Patterns of names of tensors, with captures.
//!
//! `{layer}` captures one or more characters other than `.`; `{kind:weight|bias}` captures one of these texts, of which
//! one may be empty; `{:model.|}` is the same without a name. `*` matches any characters, and captures nothing.

use super::TEXT;
use super::expression::is_name;
use holdall_core::error::{Error, Escape as _, Result};

/// The maximum number of captures and `*` of a pattern.
const MAX_CAPTURES: usize = 8;
/// The maximum number of steps for matching one name.
const MAX_STEPS: usize = 1 << 14;

/// A pattern of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    text: String,
    parts: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    /// The name may be empty.
    Capture {
        name: String,
        alternatives: Vec<String>,
    },
    Any,
}

/// What the captures of a pattern matched, by name, in the order of the pattern.
pub(super) type Captures = Vec<(String, String)>;

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Returns [`TEXT`] if the pattern is invalid.
    pub(super) fn parse(text: &str) -> Result<Pattern> {
        let wrong =
            |what: &str| -> Error { TEXT.broken(format!("pattern `{}`: {what}", text.escaped())) };
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        let mut count = 0usize;
        while let Some(at) = rest.find(['{', '*', '}']) {
            let (before, after) = rest.split_at(at);
            literal.push_str(before);
            if !literal.is_empty() {
                parts.push(Segment::Literal(std::mem::take(&mut literal)));
            }
            count = count.saturating_add(1);
            if count > MAX_CAPTURES {
                return Err(wrong(&format!("more than {MAX_CAPTURES} captures")));
            }
            if let Some(after) = after.strip_prefix('*') {
                parts.push(Segment::Any);
                rest = after;
                continue;
            }
            let inside = after.strip_prefix('{').and_then(|after| after.split_once('}'));
            let Some((inside, after)) = inside else { return Err(wrong("unpaired brace")) };
            let (name, alternatives) = match inside.split_once(':') {
                None => (inside, Vec::new()),
                Some((name, all)) => (name, all.split('|').map(str::to_owned).collect()),
            };
            let is_unnamed = name.is_empty() && !alternatives.is_empty();
            if !is_name(name) && !is_unnamed {
                return Err(wrong("a capture has no valid name"));
            }
            parts.push(Segment::Capture { name: name.to_owned(), alternatives });
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Segment::Literal(literal));
        }
        Ok(Pattern { text: text.to_owned(), parts })
    }

    /// Returns the pattern as it was written.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Lets captures without alternatives capture only what captures of the same name in the other patterns do.
    pub(super) fn constrain(&mut self, others: &[Pattern]) {
        for part in &mut self.parts {
            let Segment::Capture { name, alternatives } = part else { continue };
            let parts = others.iter().flat_map(|other| &other.parts);
            let known = parts.filter_map(|part| match part {
                Segment::Capture { name: own, alternatives } if own == name => Some(alternatives),
                _ => None,
            });
            if let (true, Some(known)) = (alternatives.is_empty(), known.into_iter().next()) {
                alternatives.clone_from(known);
            }
        }
    }

    /// Returns the names of the captures.
    pub(super) fn captures(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Segment::Capture { name, .. } if !name.is_empty() => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns what the captures match, or `None` if the name does not match.
    pub(super) fn matches(&self, name: &str) -> Option<Captures> {
        let mut steps = MAX_STEPS;
        let mut captures = Vec::new();
        matched(&self.parts, name, &mut captures, &mut steps).then_some(captures)
    }

    /// Writes the name for these captures. A capture without a value takes its first alternative.
    ///
    /// # Errors
    /// Returns [`TEXT`] if a capture has no value, or the pattern has a `*`.
    pub(super) fn name(&self, captures: &[(String, String)]) -> Result<String> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Segment::Literal(text) => out.push_str(text),
                Segment::Any => {
                    let message =
                        format!("`{}` has a `*`, which names nothing", self.text.escaped());
                    return Err(TEXT.broken(message));
                }
                Segment::Capture { name, alternatives } => {
                    let own = captures.iter().find(|(own, _)| own == name);
                    let found = own.map(|(_, value)| value).filter(|_| !name.is_empty());
                    let Some(value) = found.or(alternatives.first()) else {
                        let (name, text) = (name.escaped(), self.text.escaped());
                        return Err(TEXT.broken(format!("`{name}` has no value in `{text}`")));
                    };
                    out.push_str(value);
                }
            }
        }
        Ok(out)
    }
}

fn matched(parts: &[Segment], rest: &str, captures: &mut Captures, steps: &mut usize) -> bool {
    *steps = match steps.checked_sub(1) {
        None => return false,
        Some(left) => left,
    };
    let Some((part, parts)) = parts.split_first() else { return rest.is_empty() };
    match part {
        Segment::Literal(text) => match rest.strip_prefix(text.as_str()) {
            Some(rest) => matched(parts, rest, captures, steps),
            None => false,
        },
        Segment::Any => {
            let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.into_iter().any(|at| match rest.get(at..) {
                Some(rest) => matched(parts, rest, captures, steps),
                None => false,
            })
        }
        Segment::Capture { name, alternatives } if !alternatives.is_empty() => {
            alternatives.iter().any(|text| match rest.strip_prefix(text.as_str()) {
                Some(after) => captured(name, text, parts, after, captures, steps),
                None => false,
            })
        }
        Segment::Capture { name, .. } => {
            let longest = rest.find('.').unwrap_or(rest.len());
            let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            let ends: Vec<usize> = ends.filter(|at| (1..=longest).contains(at)).collect();
            ends.into_iter().rev().any(|at| match rest.split_at_checked(at) {
                Some((text, after)) => captured(name, text, parts, after, captures, steps),
                None => false,
            })
        }
    }
}

fn captured(
    name: &str,
    text: &str,
    parts: &[Segment],
    after: &str,
    captures: &mut Captures,
    steps: &mut usize,
) -> bool {
    let before = captures.len();
    if !name.is_empty() {
        if captures.iter().any(|(own, value)| own == name && value != text) {
            return false;
        }
        captures.push((name.to_owned(), text.to_owned()));
    }
    let found = matched(parts, after, captures, steps);
    if !found {
        captures.truncate(before);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captures(pattern: &str, name: &str) -> Option<Vec<String>> {
        let found = Pattern::parse(pattern).expect("a pattern").matches(name)?;
        Some(found.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

    #[test]
    fn captures_stay_inside_a_segment() {
        let pattern = "{:model.|}layers.{n}.{qk:q|k}_proj.{kind:weight|bias}";
        let all = captures(pattern, "model.layers.12.q_proj.bias");
        assert_eq!(all, Some(vec!["n=12".into(), "qk=q".into(), "kind=bias".into()]));
        assert_eq!(captures(pattern, "layers.0.k_proj.weight").map(|all| all.len()), Some(3));
        assert_eq!(captures(pattern, "layers.0.1.k_proj.weight"), None);
        assert_eq!(captures(pattern, "layers.0.v_proj.weight"), None);
        assert_eq!(captures("*.rotary_emb.inv_freq", "a.b.rotary_emb.inv_freq"), Some(vec![]));
    }

    #[test]
    fn long_names_end() {
        let name = "a".repeat(1 << 16);
        assert_eq!(captures("*a*a*a*a*b", &name), None);
    }
}
