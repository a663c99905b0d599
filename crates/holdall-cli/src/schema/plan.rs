//! The plan of a migration.

use crate::exit::Failure;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{count, escape_path, printable};
use crate::session::Session;
use holdall::plain::ToPlain as _;
use holdall::records::{MigrationPlan, PlanStep};
use holdall::schema::StepKind;
use holdall::{File, fields};
use std::io::Write as _;

/// Prints the plan.
pub(super) fn show(
    session: &Session,
    file: &File,
    schema: &str,
    plan: &MigrationPlan,
) -> Result<(), Failure> {
    let out = &mut *session.out();
    if session.json() {
        let fields = fields!(source: file.name(), schema: schema).and(plan.to_plain());
        writeln!(out, "{}", as_json(&fields))?;
        return Ok(());
    }
    let paint = session.paint();
    if !plan.steps.is_empty() {
        let columns = [
            Column::left(""),
            Column::left("path").cut(),
            Column::left("step"),
            Column::left("what").cut_end(),
        ];
        let row = |at: usize| {
            let step = &plan.steps[at];
            let style = match step.what {
                StepKind::Dropped => Style::Bad,
                StepKind::Converted => Style::Warn,
                _ => Style::Plain,
            };
            let mark = match step.what {
                StepKind::Default => "+",
                StepKind::Dropped => "-",
                _ => "~",
            };
            vec![
                Cell::styled(mark, style),
                Cell::styled(path(step), style),
                Cell::new(step.what.as_str()),
                Cell::new(describe(step)),
            ]
        };
        table::write(out, &columns, plan.steps.len(), &row, 0, session.width(), paint)?;
        writeln!(out)?;
    }
    let mut parts = vec![count(plan.tensors, "tensor")];
    if plan.unchanged > 0 {
        parts.push(format!("{} of them unchanged", plan.unchanged));
    }
    if plan.records > 0 {
        parts.push(count(plan.records, "record"));
    }
    let plan = paint.styled("plan:", Style::Good);
    writeln!(
        out,
        "{plan} {}: {}; nothing was written",
        escape_path(file.name()),
        parts.join(", ")
    )?;
    Ok(())
}

/// Formats the path of a step: `caption → text`.
fn path(step: &PlanStep) -> String {
    match (&step.from, &step.to) {
        (Some(from), Some(to)) if from != to && step.what == StepKind::Renamed => {
            format!("{} → {}", printable(from), printable(to))
        }
        (_, Some(one)) | (Some(one), None) => printable(one),
        (None, None) => String::new(),
    }
}

/// Describes a step: `F32 [2] → BF16 [2], by cast, rounded to nearest, ties to even`.
fn describe(step: &PlanStep) -> String {
    let mut parts = Vec::new();
    match (&step.old, &step.new) {
        (Some(old), Some(new)) => parts.push(format!("{} → {}", printable(old), printable(new))),
        (Some(one), None) | (None, Some(one)) => parts.push(printable(one)),
        (None, None) => {}
    }
    parts.extend(step.by.as_ref().map(|by| format!("by {}", printable(by))));
    if step.rounds {
        parts.push("rounded to nearest, ties to even".to_owned());
    }
    parts.join(", ")
}
