//! The runner `noop`: gives back what it is given. For trying packages, and what is around them.

use crate::runner::{Load, Loaded, NamedValues, OutputSink, Runner};
use holdall::Result;
use semver::VersionReq;

/// Gives back what it is given: to outputs that are declared, the inputs in the declared order; where none are
/// declared, the inputs by their names.
#[derive(Debug)]
pub struct Noop;

impl Runner for Noop {
    fn name(&self) -> &str {
        "noop"
    }

    fn options(&self) -> Option<&[&str]> {
        Some(&[])
    }

    fn satisfies(&self, _: &VersionReq) -> Result<(), String> {
        Ok(())
    }

    fn load(&self, load: &Load<'_>) -> Result<Box<dyn Loaded>> {
        let outputs = load.description.outputs.iter().map(|o| o.name.clone()).collect();
        let inputs = load.description.inputs.iter().map(|i| i.name.clone()).collect();
        Ok(Box::new(Echo { inputs, outputs }))
    }
}

struct Echo {
    inputs: Vec<String>,
    outputs: Vec<String>,
}

impl Loaded for Echo {
    fn needs_files(&self) -> bool {
        false
    }

    fn run(&mut self, inputs: &NamedValues, each: OutputSink<'_>) -> Result<()> {
        // An output that has an input's name is that input; the others take them in order.
        let by_name = |name: &str| inputs.iter().find(|(n, _)| n == name);
        if self.outputs.is_empty() {
            return each(inputs.clone());
        }
        let at = |at: usize| self.inputs.get(at).and_then(|name| by_name(name));
        let value = |(place, name): (usize, &String)| {
            let (_, value) = by_name(name).or_else(|| at(place))?;
            Some((name.clone(), value.clone()))
        };
        each(self.outputs.iter().enumerate().filter_map(value).collect())
    }
}
