//! The file of totals and survivors.

use super::list::Mutant;
use super::{LEAST, Verdict};
use crate::command::{Outcome, root};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const PATH: &str = "xtask/mutants.txt";
const HEAD: &str = "\
# Totals of `cargo xtask mutants`, which writes this file; only the reasons are written by hand. `through` is the
# position up to which mutants were tested, in an order that depends on the seed. Each line after the totals is a
# mutant that the tests do not notice, with the reason.
";
const SEPARATOR: &str = " # ";
/// The reason of a survivor without a known reason.
const NO_REASON: &str = "?";

/// The contents of the file.
#[derive(Debug, Default)]
pub(super) struct Record {
    through: u64,
    counts: BTreeMap<&'static str, usize>,
    survivors: BTreeMap<String, String>,
}

impl Record {
    pub(super) fn read() -> Result<Record, String> {
        let text = std::fs::read_to_string(root().join(PATH)).unwrap_or_default();
        Record::parse(&text)
    }

    fn parse(text: &str) -> Result<Record, String> {
        let mut record = Record::default();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let odd = || format!("{PATH}: expected a total or a mutant with a reason: `{line}`");
            if let Some((mutant, reason)) = line.rsplit_once(SEPARATOR) {
                record.survivors.insert(mutant.to_owned(), reason.to_owned());
                continue;
            }
            let (name, value) = line.split_once(' ').ok_or_else(odd)?;
            if name == "through" {
                record.through = u64::from_str_radix(value, 16).map_err(|_| odd())?;
            } else if let Some((_, name)) = Verdict::ALL.iter().find(|(_, n)| *n == name) {
                record.counts.insert(name, value.parse().map_err(|_| odd())?);
            } else if name != "tested" {
                return Err(odd());
            }
        }
        Ok(record)
    }

    fn count(&self, verdict: Verdict) -> usize {
        match verdict {
            Verdict::Missed => self.survivors.len(),
            _ => self.counts.get(verdict.name()).copied().unwrap_or(0),
        }
    }

    /// Returns the next mutants to test.
    pub(super) fn next(&self, all: Vec<Mutant>, count: usize) -> Vec<Mutant> {
        all.into_iter().filter(|m| m.order > self.through).take(count).collect()
    }

    /// Returns `true` if the mutant is known to survive.
    pub(super) fn has(&self, mutant: &str) -> bool {
        self.survivors.contains_key(mutant)
    }

    /// Adds the verdict about a mutant that is new, or that survived before.
    pub(super) fn add(&mut self, mutant: &Mutant, verdict: Verdict) {
        let reason = self.survivors.remove(&mutant.name);
        self.through = self.through.max(mutant.order);
        match verdict {
            Verdict::Missed => {
                let reason = reason.unwrap_or_else(|| NO_REASON.to_owned());
                self.survivors.insert(mutant.name.clone(), reason);
            }
            _ => *self.counts.entry(verdict.name()).or_insert(0) += 1,
        }
    }

    fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = HEAD.to_owned();
        let tested: usize = Verdict::ALL.iter().map(|(verdict, _)| self.count(*verdict)).sum();
        writeln!(text, "through {:016x}\ntested {tested}", self.through)?;
        for (verdict, name) in Verdict::ALL {
            writeln!(text, "{name} {}", self.count(verdict))?;
        }
        writeln!(text)?;
        for (mutant, reason) in &self.survivors {
            writeln!(text, "{mutant}{SEPARATOR}{reason}")?;
        }
        Ok(text)
    }

    pub(super) fn write(&self) -> Outcome {
        let text = self.text().map_err(|e| e.to_string())?;
        std::fs::write(root().join(PATH), text).map_err(|e| format!("{PATH}: {e}"))
    }

    /// Prints the totals.
    ///
    /// # Errors
    /// Returns an error if too few mutants are noticed, or if a survivor has no reason.
    pub(super) fn check(&self) -> Outcome {
        let noticed = self.count(Verdict::Caught) + self.count(Verdict::TimedOut);
        let viable = noticed + self.count(Verdict::Missed);
        println!("{noticed} of {viable} viable mutants are noticed");
        for (mutant, _) in self.survivors.iter().filter(|(_, reason)| *reason == NO_REASON) {
            println!("without a reason: {mutant}");
        }
        if noticed * 100 < viable * LEAST {
            return Err(format!("fewer than {LEAST} % of the viable mutants are noticed"));
        }
        match self.survivors.values().any(|reason| reason == NO_REASON) {
            true => Err(format!("write a test, or a reason into {PATH}, for each mutant above")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(name: &str, order: u64) -> Mutant {
        let span = ((1, 1), (1, 2));
        let (file, replacement) = (String::new(), String::new());
        Mutant { name: name.to_owned(), file, span, replacement, function: None, order }
    }

    #[test]
    fn totals_grow_and_survivors_keep_their_reasons() {
        let mut record = Record::default();
        record.add(&mutant("a: replace | with ^ in f", 7), Verdict::Missed);
        record.add(&mutant("b", 9), Verdict::Caught);
        let text = record.text().unwrap();
        let mut record = Record::parse(&text.replace("# ?", "# It is equivalent.")).unwrap();
        assert_eq!(
            record.check().unwrap_err(),
            "fewer than 95 % of the viable mutants are noticed"
        );
        let all = vec![mutant("b", 9), mutant("c", 10), mutant("d", 11)];
        let next: Vec<_> = record.next(all, 1).into_iter().map(|m| m.name).collect();
        assert_eq!(next, ["c"]);
        record.add(&mutant("a: replace | with ^ in f", 7), Verdict::Missed);
        assert!(record.text().unwrap().contains("in f # It is equivalent.\n"));
        record.add(&mutant("a: replace | with ^ in f", 7), Verdict::Caught);
        assert!(record.text().unwrap().contains("tested 2\ncaught 2\ntimeout 0\nmissed 0\n"));
        assert_eq!(record.check(), Ok(()));
    }
}
