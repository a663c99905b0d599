//! Mutation testing: small changes of the code that the tests should notice.
//!
//! `cargo-mutants` lists the changes; [`list`] puts them into an order that depends on a fixed seed. [`switch`] writes
//! a copy of the repository in `target/mutants/tree` in which all mutants of a run are compiled at once, and an
//! environment variable chooses one. So the tests are built once, and each mutant takes as long as the tests that
//! reach its function, which [`programs`] records first. Mutants that cannot be chosen while the program runs, such
//! as those of constants, are built one at a time.

mod build;
mod list;
mod programs;
mod record;
mod switch;

use crate::command::{Outcome, target};
use build::{Amount, Built};
use list::Mutant;
use programs::Programs;
use record::Record;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use switch::Tree;

/// The number of mutants that a run tests unless `--count` says otherwise.
const COUNT: usize = 400;
/// The least share of viable mutants that the tests must notice, in percent.
const LEAST: usize = 95;

/// The result of the tests for a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// A test failed.
    Caught,
    /// A test did not end.
    TimedOut,
    /// All tests passed.
    Missed,
    /// The mutant does not compile.
    Unviable,
    /// The mutant was not tested, since it must be built alone.
    LeftOut,
}

impl Verdict {
    const ALL: [(Verdict, &'static str); 5] = [
        (Verdict::Caught, "caught"),
        (Verdict::TimedOut, "timeout"),
        (Verdict::Missed, "missed"),
        (Verdict::Unviable, "unviable"),
        (Verdict::LeftOut, "left-out"),
    ];

    fn name(self) -> &'static str {
        Verdict::ALL.iter().find(|(verdict, _)| *verdict == self).map_or("", |(_, name)| name)
    }
}

/// `cargo xtask mutants [--quick] [--count N | --again | --check]`.
pub(crate) fn mutants(args: &[String]) -> Outcome {
    let mut record = Record::read()?;
    let is_quick = args.iter().any(|arg| arg == "--quick");
    let rest = args.iter().map(String::as_str).filter(|arg| *arg != "--quick");
    let chosen: Vec<Mutant> = match rest.collect::<Vec<_>>()[..] {
        ["--check"] => return record.check(),
        ["--again"] => list::all()?.into_iter().filter(|m| record.has(&m.name)).collect(),
        [] => record.next(list::all()?, COUNT),
        ["--count", count] => {
            record.next(list::all()?, count.parse().map_err(|e| format!("--count: {e}"))?)
        }
        _ => return Err("the options are --quick, --count N, --again and --check".into()),
    };
    let verdicts = Journal::open()?.complete(&chosen, is_quick)?;
    for mutant in &chosen {
        if let Some(verdict) = verdicts.get(&mutant.name) {
            record.add(mutant, *verdict);
        }
    }
    record.write()?;
    Journal::remove()?;
    record.check()
}

/// The verdicts of a run that has not ended, in a file, so that a run that is stopped goes on where it was.
struct Journal {
    path: PathBuf,
    verdicts: BTreeMap<String, Verdict>,
}

impl Journal {
    fn path() -> PathBuf {
        target().join("mutants/verdicts.txt")
    }

    fn open() -> Result<Journal, String> {
        let path = Journal::path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let read = |line: &str| {
            let (name, mutant) = line.split_once(' ')?;
            let (verdict, _) = Verdict::ALL.iter().find(|(_, n)| *n == name)?;
            Some((mutant.to_owned(), *verdict))
        };
        Ok(Journal { path, verdicts: text.lines().filter_map(read).collect() })
    }

    fn remove() -> Outcome {
        std::fs::remove_file(Journal::path()).map_err(|e| format!("verdicts: {e}"))
    }

    fn add(&mut self, mutant: &Mutant, verdict: Verdict, by: &str) -> Outcome {
        println!("{:>8}  {}{by}", verdict.name(), mutant.name);
        self.verdicts.insert(mutant.name.clone(), verdict);
        let mut text = String::new();
        for (name, verdict) in &self.verdicts {
            writeln!(text, "{} {name}", verdict.name()).map_err(|e| e.to_string())?;
        }
        std::fs::write(&self.path, text).map_err(|e| format!("{}: {e}", self.path.display()))
    }

    /// Tests the mutants that have no verdict yet, and returns the verdicts of all.
    /// `is_quick` leaves out those that must be built alone.
    fn complete(
        mut self,
        chosen: &[Mutant],
        is_quick: bool,
    ) -> Result<BTreeMap<String, Verdict>, String> {
        let left = chosen.iter().filter(|m| !self.verdicts.contains_key(&m.name));
        let mut switched: Vec<&Mutant> = left.collect();
        if switched.is_empty() {
            return Ok(self.verdicts);
        }
        let tree = Tree::open()?;
        let mut alone = Vec::new();
        // Those that do not compile with the others are removed until the rest compiles.
        let built = loop {
            let refused = tree.write(&switched)?;
            let refused = match refused.is_empty() {
                true => match build::tests(&tree, Amount::All)? {
                    Built::Programs(programs) => break programs,
                    Built::Errors(errors) => tree.culprits(&errors)?,
                },
                false => refused,
            };
            let (out, rest) = switched.into_iter().partition(|m| refused.contains(&m.name));
            (alone, switched) = ([alone, out].concat(), rest);
            println!("{} mutants are left to be built alone", alone.len());
        };
        if is_quick {
            for mutant in alone.drain(..) {
                self.add(mutant, Verdict::LeftOut, "")?;
            }
            if switched.is_empty() {
                return Ok(self.verdicts);
            }
        }
        let programs = Programs::measure(built)?;
        for mutant in switched {
            let (number, function) = tree.numbers(mutant);
            let (verdict, by) = programs.test(number, function)?;
            self.add(mutant, verdict, &by)?;
        }
        for mutant in alone {
            tree.write_alone(mutant)?;
            let (verdict, by) = match build::tests(&tree, Amount::First)? {
                Built::Errors(_) => (Verdict::Unviable, String::new()),
                Built::Programs(built) => match programs.test_all(&built)? {
                    (Verdict::Missed, _) => match build::tests(&tree, Amount::All)? {
                        Built::Errors(_) => (Verdict::Unviable, String::new()),
                        Built::Programs(built) => programs.test_all(&built)?,
                    },
                    noticed => noticed,
                },
            };
            self.add(mutant, verdict, &by)?;
        }
        Ok(self.verdicts)
    }
}
