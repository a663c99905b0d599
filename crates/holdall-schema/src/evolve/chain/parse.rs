//! `NAME(ARGUMENT, OLD=NEW)|NAME`.

use super::{Argument, Beyond, Chain, Exact, Step};
use crate::error::{Error, Escape as _, Result};
use crate::evolve::rules::CONVERTER;
use serde_json::Value;

/// Length of the longest chain in bytes; a chain comes from a command line, not from a file.
const MAX_CHAIN_LEN: usize = 1 << 16;

pub(super) fn chain(text: &str) -> Result<Chain> {
    if text.len() > MAX_CHAIN_LEN {
        return Err(CONVERTER.broken(format!("the converter has more than {MAX_CHAIN_LEN} bytes")));
    }
    let mut scan = Scan { whole: text, rest: text };
    let mut steps = Vec::new();
    loop {
        steps.push(scan.step()?);
        match scan.take_if("|") {
            true => {}
            false if scan.rest.is_empty() => break,
            false => return Err(scan.wrong("goes on after a converter without a `|`")),
        }
    }
    Ok(Chain { text: text.trim().to_owned(), steps })
}

struct Scan<'t> {
    whole: &'t str,
    rest: &'t str,
}

/// An argument, and the value after its `=`.
type Pair = (Argument, Option<Argument>);

impl Scan<'_> {
    fn step(&mut self) -> Result<Step> {
        let name = self.until(&['(', ')', '|', ',', '=']).trim().to_owned();
        let mut arguments: Vec<Pair> = Vec::new();
        if self.take_if("(") && !self.take_if(")") {
            loop {
                let argument = self.argument()?;
                let value = if self.take_if("=") { Some(self.argument()?) } else { None };
                arguments.push((argument, value));
                if self.take_if(")") {
                    break;
                }
                if !self.take_if(",") {
                    return Err(self.wrong("has a `(` without a `)`"));
                }
            }
        }
        self.named(&name, arguments)
    }

    fn named(&self, name: &str, arguments: Vec<Pair>) -> Result<Step> {
        let takes = |what: &str| self.wrong(&format!("has a `{name}`, which takes {what}"));
        if name == "map" {
            return map(arguments).ok_or_else(|| takes("OLD=NEW, at least once"));
        }
        let mut plain = Vec::with_capacity(arguments.len());
        for (argument, value) in arguments {
            if value.is_some() {
                return Err(takes("no `=`"));
            }
            plain.push(argument);
        }
        let text = |a: &Argument| a.text.clone();
        Ok(match (name, &plain[..]) {
            ("cast", []) => Step::Cast(Beyond::Refused),
            ("cast", [a]) if a.text == "saturate" => Step::Cast(Beyond::Saturate),
            ("cast", _) => return Err(takes("nothing or `saturate`")),
            ("round", []) => Step::Round,
            ("parse", []) => Step::Parse,
            ("text", []) => Step::Text,
            ("reshape", []) => Step::Reshape,
            ("round" | "parse" | "text" | "reshape", _) => return Err(takes("nothing")),
            ("scale", [a]) => Step::Scale(number(a).ok_or_else(|| takes("a number"))?),
            ("offset", [a]) => Step::Offset(number(a).ok_or_else(|| takes("a number"))?),
            ("scale" | "offset", _) => return Err(takes("a number")),
            ("clamp", [a, b]) => match (number(a), number(b)) {
                (Some(a), Some(b)) if a.float() <= b.float() => Step::Clamp(a, b),
                _ => return Err(takes("two numbers, the lower one first")),
            },
            ("clamp", _) => return Err(takes("two numbers, the lower one first")),
            ("const", [a]) => Step::Const(a.value.clone()),
            ("const", _) => return Err(takes("a value")),
            ("split", [a]) if !a.text.is_empty() => Step::Split(text(a)),
            ("split", _) => return Err(takes("a separator")),
            ("join", [a, names @ ..]) => Step::Join(text(a), names.iter().map(text).collect()),
            ("join", _) => return Err(takes("a separator, and optionally members")),
            ("member", [a]) => Step::Member(a.text.split('.').map(str::to_owned).collect()),
            ("member", _) => return Err(takes("the name of a member")),
            _ => return Err(CONVERTER.broken(format!("unknown converter `{}`", name.escaped()))),
        })
    }

    /// Parses an argument: JSON, or a word up to the next comma, bracket or equals sign.
    fn argument(&mut self) -> Result<Argument> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with(['"', '[', '{']) {
            let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<Value>();
            let Some(Ok(value)) = values.next() else {
                return Err(self.wrong("has an argument that is not JSON"));
            };
            let (json, rest) = self.rest.split_at(values.byte_offset());
            self.rest = rest;
            let text = value.as_str().unwrap_or(json).to_owned();
            return Ok(Argument { value, text });
        }
        let text = self.until(&[',', ')', '=']).trim().to_owned();
        if text.is_empty() {
            return Err(self.wrong("has an empty argument; text that is empty is `\"\"`"));
        }
        let value = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.clone()));
        Ok(Argument { value, text })
    }

    fn until(&mut self, ends: &[char]) -> &str {
        let (before, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        before
    }

    fn take_if(&mut self, mark: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    #[cold]
    fn wrong(&self, what: &str) -> Error {
        CONVERTER.broken(format!("`{}` {what}", self.whole.escaped()))
    }
}

fn map(arguments: Vec<Pair>) -> Option<Step> {
    let (mut pairs, mut rest) = (Vec::new(), None);
    for (old, new) in arguments {
        let new = new?.value;
        match old.text == "*" {
            true => rest = Some(new),
            false => pairs.push((old, new)),
        }
    }
    (!pairs.is_empty() || rest.is_some()).then_some(Step::Map(pairs, rest))
}

fn number(argument: &Argument) -> Option<Exact> {
    Exact::from_json(&argument.value).filter(|n| n.float().is_finite())
}
