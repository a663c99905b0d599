//! The steps of a resolution: what happens to each member, known before any record is converted.

use super::build::Build;
use super::plan::PlanId;
use crate::error::Result;
use crate::path::{Path, Segment};
use std::sync::Arc;

/// A change to one member.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberStep {
    /// The kind of change.
    pub what: StepKind,
    /// The path in the writer's records, if it exists there.
    pub from: Option<Path>,
    /// The path in the reader's records, if it exists there.
    pub to: Option<Path>,
    /// A short description of the writer's type: `Int32`.
    pub old: Option<Arc<str>>,
    /// A short description of the reader's type.
    pub new: Option<Arc<str>>,
    /// The name of the converter.
    pub by: Option<Arc<str>>,
}

/// The kind of change to a member or tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StepKind {
    /// The member is renamed.
    Renamed,
    /// The member is converted to a wider kind.
    Widened,
    /// The member is converted by a converter.
    Converted,
    /// The member is created from the `default` of the schema.
    Default,
    /// The member is absent in the new records.
    Absent,
    /// The member is not in the new schema and is dropped.
    Dropped,
}

impl StepKind {
    /// Returns the name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            StepKind::Renamed => "renamed",
            StepKind::Widened => "widened",
            StepKind::Converted => "converted",
            StepKind::Default => "default",
            StepKind::Absent => "absent",
            StepKind::Dropped => "dropped",
        }
    }
}

/// The steps of one plan and of the plans below it.
#[derive(Clone, Default)]
pub(super) struct PlanActions {
    own: Vec<Local>,
    /// For each plan below: the path segments in the writer's and in the reader's record, and the plan.
    below: Vec<(Segment, Segment, PlanId)>,
}

/// A step, with its paths relative to the plan that it belongs to.
#[derive(Clone)]
pub(super) struct Local {
    pub(super) what: StepKind,
    /// `None` if this record does not have the member.
    pub(super) from: Option<LocalStep>,
    pub(super) to: Option<LocalStep>,
    pub(super) old: Option<Arc<str>>,
    pub(super) new: Option<Arc<str>>,
    pub(super) by: Option<Arc<str>>,
}

/// The path of a step: the plan itself, or a member of it.
pub(super) type LocalStep = Option<Segment>;

impl Local {
    pub(super) fn new(what: StepKind, from: Option<LocalStep>, to: Option<LocalStep>) -> Local {
        Local { what, from, to, old: None, new: None, by: None }
    }

    pub(super) fn sides(mut self, old: Option<String>, new: Option<String>) -> Local {
        (self.old, self.new) = (old.map(Arc::from), new.map(Arc::from));
        self
    }

    pub(super) fn by(mut self, name: Option<Arc<str>>) -> Local {
        self.by = name;
        self
    }
}

impl PlanActions {
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.below.is_empty()
    }

    pub(super) fn push(&mut self, local: Local) {
        self.own.push(local);
    }
}

impl Build<'_> {
    /// Records that a plan below has steps.
    pub(super) fn note(&self, actions: &mut PlanActions, from: Segment, to: Segment, plan: PlanId) {
        if self.actions.contains_key(&plan.0) {
            actions.below.push((from, to, plan));
        }
    }

    /// Every recorded plan leads to a step, so the work is proportional to the result.
    pub(super) fn expand(
        &mut self,
        plan: PlanId,
        paths: &mut (Vec<Segment>, Vec<Segment>),
        out: &mut Vec<MemberStep>,
    ) -> Result<()> {
        let Some(actions) = self.actions.get(&plan.0) else { return Ok(()) };
        let PlanActions { own, below } = actions.clone();
        for (from, to, plan) in below {
            paths.0.push(from);
            paths.1.push(to);
            self.expand(plan, paths, out)?;
            paths.0.pop();
            paths.1.pop();
        }
        for local in own {
            self.steps(1)?;
            let path = |base: &[Segment], way: Option<LocalStep>| {
                way.map(|way| Path(base.iter().cloned().chain(way).collect()))
            };
            out.push(MemberStep {
                what: local.what,
                from: path(&paths.0, local.from),
                to: path(&paths.1, local.to),
                old: local.old,
                new: local.new,
                by: local.by,
            });
        }
        Ok(())
    }
}
