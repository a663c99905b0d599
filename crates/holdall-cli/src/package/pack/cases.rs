//! Self-tests and examples on the command line: `NAME: x=VALUE, … -> y=VALUE, …`.

use crate::model::given;
use holdall::Result;
use holdall::carton::{Example, Packer, Recipe, Reference, SelfTest};
use std::path::{Path, PathBuf};

/// Parses `NAME=FILE`.
pub(super) fn pair(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=FILE, for example `x=x.npy`")?;
    Ok((name.to_owned(), path.into()))
}

/// A self-test or an example: its inputs, and its outputs if they are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    name: Option<String>,
    inputs: Vec<(String, String)>,
    outputs: Option<Vec<(String, String)>>,
}

/// Parses a self-test or example. Commas and arrows inside brackets and quotes belong to values.
pub(super) fn case(text: &str) -> Result<Case, String> {
    let named = text.split_once(": ").filter(|(name, _)| !name.contains(['=', '"', '[']));
    let (name, rest) = match named {
        Some((name, rest)) => (Some(name.trim().to_owned()), rest),
        None => (None, text),
    };
    let mut sides = vec![vec![String::new()]];
    let (mut depth, mut is_text, mut is_escaped) = (0usize, false, false);
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        let is_outside = depth == 0 && !is_text;
        let is_arrow = is_outside && c == '-' && chars.next_if_eq(&'>').is_some();
        match sides.last_mut() {
            _ if is_arrow => sides.push(vec![String::new()]),
            Some(values) if is_outside && c == ',' => values.push(String::new()),
            Some(values) => values.last_mut().into_iter().for_each(|value| value.push(c)),
            None => {}
        }
        match c {
            '"' => is_text = !is_text || is_escaped,
            '[' | '{' if !is_text => depth += 1,
            ']' | '}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        is_escaped = is_text && c == '\\' && !is_escaped;
    }
    let side = |values: Vec<String>| -> Result<Vec<(String, String)>, String> {
        let is_empty = values.iter().all(|value| value.trim().is_empty()) && values.len() == 1;
        let values = if is_empty { Vec::new() } else { values };
        let one = |value: String| {
            let (name, what) = value
                .split_once('=')
                .map(|(name, what)| (name.trim(), what.trim()))
                .filter(|(name, what)| !name.is_empty() && !what.is_empty())
                .ok_or(
                    "write NAME=FILE or NAME=JSON, for example `x=[[1, 2]], y=y.npy -> p=0.5`",
                )?;
            Ok((name.to_owned(), what.to_owned()))
        };
        values.into_iter().map(one).collect()
    };
    let mut sides = sides.into_iter().map(side);
    let inputs = sides.next().transpose()?.unwrap_or_default();
    let outputs = sides.next().transpose()?;
    if sides.next().is_some() {
        return Err("write one `->`, between inputs and outputs".to_owned());
    }
    if inputs.is_empty() && outputs.as_ref().is_none_or(Vec::is_empty) {
        return Err("write inputs and outputs, for example `x=[1, 2] -> y=[2, 4]`".to_owned());
    }
    Ok(Case { name, inputs, outputs })
}

/// All self-tests and examples, with their values and files.
pub(super) struct Cases {
    self_tests: Vec<SelfTest>,
    examples: Vec<Example>,
    values: Vec<Value>,
    files: Vec<PathBuf>,
}

/// A value that becomes a tensor of the package.
struct Value {
    tensor: String,
    /// The name of the input or output.
    name: String,
    is_input: bool,
    what: String,
}

impl Cases {
    pub(super) fn new(self_tests: &[Case], examples: &[Case]) -> Cases {
        let mut all = Cases {
            self_tests: Vec::new(),
            examples: Vec::new(),
            values: Vec::new(),
            files: Vec::new(),
        };
        for (at, case) in self_tests.iter().enumerate() {
            let mut test = SelfTest::default();
            test.name.clone_from(&case.name);
            test.inputs = all.tensors(&format!("self_test_{at}.inputs"), true, &case.inputs);
            let expected = case.outputs.as_deref();
            test.expected = expected
                .map(|values| all.tensors(&format!("self_test_{at}.expected"), false, values));
            all.self_tests.push(test);
        }
        for (at, case) in examples.iter().enumerate() {
            let mut example = Example::default();
            example.name.clone_from(&case.name);
            example.inputs = all.shown(&format!("example_{at}.inputs"), true, &case.inputs);
            let outputs = case.outputs.as_deref().unwrap_or_default();
            example.outputs = all.shown(&format!("example_{at}.outputs"), false, outputs);
            all.examples.push(example);
        }
        all
    }

    fn tensors(
        &mut self,
        prefix: &str,
        is_input: bool,
        values: &[(String, String)],
    ) -> Vec<(String, String)> {
        let mut out = Vec::new();
        for (name, what) in values {
            let tensor = format!("{prefix}.{name}");
            let (own, what) = (name.clone(), what.clone());
            self.values.push(Value { tensor: tensor.clone(), name: own, is_input, what });
            out.push((name.clone(), tensor));
        }
        out
    }

    /// Like `tensors`, but files that do not contain a tensor are stored as they are.
    fn shown(
        &mut self,
        prefix: &str,
        is_input: bool,
        values: &[(String, String)],
    ) -> Vec<(String, Reference)> {
        let mut out = Vec::new();
        for (name, what) in values {
            let path = Path::new(what);
            let file = path.file_name().and_then(|name| name.to_str());
            match file.filter(|_| path.is_file() && given::value_file_kind(path).is_none()) {
                Some(file) => {
                    self.files.push(path.to_owned());
                    out.push((name.clone(), Reference::Misc(file.to_owned())));
                }
                None => {
                    let one = self.tensors(prefix, is_input, &[(name.clone(), what.clone())]);
                    out.extend(one.into_iter().map(|(name, to)| (name, Reference::Tensor(to))));
                }
            }
        }
        out
    }

    /// Sets the self-tests and examples of a recipe. They replace existing ones.
    pub(super) fn say(&self, recipe: &mut Recipe) {
        recipe.self_tests = (!self.self_tests.is_empty()).then(|| self.self_tests.clone());
        recipe.examples = (!self.examples.is_empty()).then(|| self.examples.clone());
    }

    /// Adds the values to the package, with the declared types.
    pub(super) fn add(&self, mut packer: Packer) -> Result<Packer> {
        for Value { tensor, name, is_input, what } in &self.values {
            let declared = packer.description().map(|d| match is_input {
                true => &d.inputs,
                false => &d.outputs,
            });
            let spec = declared.and_then(|all| all.iter().find(|spec| spec.name == *name));
            let value = given::one(name, what, spec)?;
            packer = packer.with_tensor(tensor, value);
        }
        Ok(packer)
    }

    /// Returns the files that examples show.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<String>, Vec<String>, Option<Vec<String>>) {
        let Case { name, inputs, outputs } = case(text).unwrap();
        let joined = |all: Vec<(String, String)>| all.into_iter().map(|(n, w)| n + "=" + &w);
        (name, joined(inputs).collect(), outputs.map(|all| joined(all).collect()))
    }

    #[test]
    fn values_are_separated() {
        let texts = |all: &[&str]| all.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let found = read("two of them: x=[[0, 1], [2, 3]], w=w.npy->y=\"a -> \\\", b\", z=-1");
        assert_eq!(found.0.as_deref(), Some("two of them"));
        assert_eq!(found.1, texts(&["x=[[0, 1], [2, 3]]", "w=w.npy"]));
        assert_eq!(found.2, Some(texts(&["y=\"a -> \\\", b\"", "z=-1"])));
        assert_eq!(read("x:0=[1]"), (None, texts(&["x:0=[1]"]), None));
        assert_eq!(read("t=\"see: this\""), (None, texts(&["t=\"see: this\""]), None));
        assert_eq!(read("-> y=1"), (None, Vec::new(), Some(texts(&["y=1"]))));
        for wrong in ["", "x", "x=", "=1", "x=1,", "x=1 -> y=1 -> z=1", "->", "name: "] {
            assert!(case(wrong).is_err(), "{wrong}");
        }
    }
}
