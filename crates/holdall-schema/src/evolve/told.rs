//! What a resolution does with each member, told before it is done.

use super::build::Build;
use super::plan::PlanId;
use crate::error::Result;
use crate::path::{Path, Segment};
use std::sync::Arc;

/// What becomes of one member, where it does not stay as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberStep {
    /// What is done.
    pub what: StepKind,
    /// Where the writer's records have it, if they do.
    pub from: Option<Path>,
    /// Where the reader's have it, if they do.
    pub to: Option<Path>,
    /// What the writer has there, in short: `Int32`.
    pub old: Option<Arc<str>>,
    /// What the reader has there, in short.
    pub new: Option<Arc<str>>,
    /// The name of the converter.
    pub by: Option<Arc<str>>,
}

/// What is done with a member, or with a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StepKind {
    /// It has another name.
    Renamed,
    /// It becomes one of a wider kind.
    Widened,
    /// A converter makes it.
    Converted,
    /// It is made of the `default` of the schema.
    Default,
    /// It is absent.
    Absent,
    /// It is left out.
    Dropped,
}

impl StepKind {
    /// The name in JSON.
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

/// What one plan does that is worth telling.
#[derive(Clone, Default)]
pub(super) struct PlanActions {
    own: Vec<Local>,
    /// The step in the writer's record, that in the reader's, and what they lead to.
    below: Vec<(Segment, Segment, PlanId)>,
}

/// A step, by its way from the plan that it is of.
#[derive(Clone)]
pub(super) struct Local {
    pub(super) what: StepKind,
    /// `None` where that side has nothing.
    pub(super) from: Option<LocalStep>,
    pub(super) to: Option<LocalStep>,
    pub(super) old: Option<Arc<str>>,
    pub(super) new: Option<Arc<str>>,
    pub(super) by: Option<Arc<str>>,
}

/// Where a step is: at the plan itself, or in a member of it.
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
    /// Notes that what a step leads to does something worth telling.
    pub(super) fn note(&self, told: &mut PlanActions, from: Segment, to: Segment, plan: PlanId) {
        if self.told.contains_key(&plan.0) {
            told.below.push((from, to, plan));
        }
    }

    /// Everything noted leads to a step, so no more is walked than told.
    pub(super) fn expand(
        &mut self,
        plan: PlanId,
        paths: &mut (Vec<Segment>, Vec<Segment>),
        out: &mut Vec<MemberStep>,
    ) -> Result<()> {
        let Some(told) = self.told.get(&plan.0) else { return Ok(()) };
        let PlanActions { own, below } = told.clone();
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
