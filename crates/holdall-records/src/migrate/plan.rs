//! The plan of a migration.

use super::prepare::{Prepared, Work};
use super::tensors::{FlatSource, describe_spec};
use holdall_core::error::Escape as _;
use holdall_io::items::spec_of;
use holdall_schema::{MemberStep, Scalar, StepKind, TensorDType};

/// The plan of a [`Migration`](super::Migration): what it will do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationPlan {
    /// The changes to tensors and to members of records.
    pub steps: Vec<PlanStep>,
    /// Number of records that will be written under the new schema.
    pub records: u64,
    /// Number of tensors of the new file, including datasets and blobs.
    pub tensors: u64,
    /// Number of them that are copied unchanged, under the same name.
    pub unchanged: u64,
}

/// A change to one tensor or one member of records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanStep {
    /// The kind of change.
    pub what: StepKind,
    /// The path in the old file, if it exists there: `encoder.weight`, `points[].x`.
    pub from: Option<String>,
    /// The path in the new file, if it exists there.
    pub to: Option<String>,
    /// A short description of the old type: `F32 [2, 3]`.
    pub old: Option<String>,
    /// A short description of the new type.
    pub new: Option<String>,
    /// The name of the converter, if one is used.
    pub by: Option<String>,
    /// Whether numbers are rounded: to nearest, ties to even.
    pub rounds: bool,
}

impl MigrationPlan {
    /// Creates the plan of a prepared migration.
    pub(super) fn from_prepared(prepared: &Prepared) -> MigrationPlan {
        let mut plan =
            MigrationPlan { tensors: prepared.works.len() as u64, ..MigrationPlan::default() };
        for work in &prepared.works {
            let before = plan.steps.len();
            match work {
                Work::Copied(tensor, target) => {
                    plan.renamed(tensor.name(), target);
                }
                Work::Flat(flat) => plan.flat(flat),
                Work::Records(job) => {
                    plan.records += job.records.len();
                    plan.renamed(&job.name, &job.target);
                    let steps = job.resolution.steps();
                    plan.steps.extend(steps.iter().map(|s| member(s, &job.name, &job.target)));
                }
            }
            plan.unchanged += u64::from(plan.steps.len() == before);
        }
        for (path, new) in &prepared.absent {
            plan.steps.push(PlanStep {
                new: Some(new.clone()),
                ..step(StepKind::Absent, None, Some(path))
            });
        }
        for (path, old) in &prepared.dropped {
            plan.steps
                .push(PlanStep { old: old.clone(), ..step(StepKind::Dropped, Some(path), None) });
        }
        plan
    }

    fn renamed(&mut self, from: &str, to: &str) {
        if from != to {
            self.steps.push(step(StepKind::Renamed, Some(from), Some(to)));
        }
    }

    fn flat(&mut self, flat: &super::tensors::Flat) {
        let to = flat.spec.name.as_str();
        let from = flat.tensor();
        if let Some(tensor) = from {
            self.renamed(tensor.name(), to);
        }
        let old = from.map(|tensor| describe_spec(&spec_of(tensor)));
        let new = flat.describe();
        let (what, by) = match &flat.how {
            FlatSource::Same(_) if old.as_ref() == Some(&new) => return,
            FlatSource::Same(_) => (StepKind::Converted, Some("reshape")),
            FlatSource::Elements(elements) if elements.widens => (StepKind::Widened, None),
            FlatSource::Elements(elements) => (StepKind::Converted, Some(elements.name())),
            FlatSource::Made(..) => (StepKind::Converted, Some("a function")),
            FlatSource::Filled(_) => (StepKind::Default, None),
        };
        let rounds = by.is_some() && rounds(old.as_deref(), Some(&new));
        let from = from.map(|tensor| tensor.name());
        let step = step(what, from, Some(to));
        let by = by.map(str::to_owned);
        self.steps.push(PlanStep { old, new: Some(new), by, rounds, ..step });
    }
}

fn step(what: StepKind, from: Option<&str>, to: Option<&str>) -> PlanStep {
    let owned = |path: Option<&str>| path.map(str::to_owned);
    let (from, to) = (owned(from), owned(to));
    PlanStep { what, from, to, old: None, new: None, by: None, rounds: false }
}

/// Converts a step about a member of records; puts the name of the dataset before each path.
fn member(step: &MemberStep, name: &str, target: &str) -> PlanStep {
    let path = |dataset: &str, path: &holdall_schema::Path| match path.is_root() {
        true => format!("{dataset}[]"),
        false => format!("{dataset}[].{path}"),
    };
    let (old, new) = (step.old.as_deref(), step.new.as_deref());
    PlanStep {
        what: step.what,
        from: step.from.as_ref().map(|p| path(name, p)),
        to: step.to.as_ref().map(|p| path(target, p)),
        old: old.map(str::to_owned),
        new: new.map(str::to_owned),
        by: step.by.as_deref().map(|by| by.to_owned()),
        rounds: step.what == StepKind::Converted && rounds(old, new),
    }
}

/// Returns `true` if converting numbers between these types may round. Each text starts with the name of a type.
fn rounds(old: Option<&str>, new: Option<&str>) -> bool {
    let scalar = |text: Option<&str>| {
        let name = text?.split(' ').next()?;
        Scalar::from_name(name).or_else(|| TensorDType::from_name(name)?.scalar())
    };
    let (Some(from), Some(to)) = (scalar(old), scalar(new)) else { return false };
    to.json_type() == "number" && from != to && !from.widens_to(to)
}

/// Writes a step as one line, such as `widened w: F32 [2], now F64 [2]`.
impl std::fmt::Display for PlanStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.what.as_str())?;
        match (&self.from, &self.to) {
            (Some(from), Some(to)) if from != to => {
                write!(f, " {}, now {}", from.escaped(), to.escaped())?;
            }
            (Some(one), _) | (None, Some(one)) => write!(f, " {}", one.escaped())?,
            (None, None) => {}
        }
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, ": {old}, now {new}")?,
            (Some(one), None) | (None, Some(one)) => write!(f, ": {one}")?,
            (None, None) => {}
        }
        if let Some(by) = &self.by {
            write!(f, " by {}", by.escaped())?;
        }
        if self.rounds {
            f.write_str(", rounded to nearest, ties to even")?;
        }
        Ok(())
    }
}
