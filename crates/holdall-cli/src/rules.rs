//! `holdall rules`.

use crate::exit::{ARGUMENTS, Failure, Status};
use crate::output::as_json;
use crate::output::remedy;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::session::Session;
use clap::Args;
use holdall::plain::Plain;
use holdall::{Remedy, Rule, fields, nearest};
use std::io::Write as _;

/// Explain an error code, or list them all
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall rules                          all codes, with their kinds
  holdall rules index/overlap            explain one code
  holdall rules --json                   the same for programs")]
pub(crate) struct RulesArgs {
    /// The code, as printed in brackets after an error
    code: Option<String>,
}

/// Explains one rule, or lists all.
pub(crate) fn run(session: &Session, args: &RulesArgs) -> Result<Status, Failure> {
    let mut all: Vec<&'static Rule> = all().collect();
    if let Some(code) = &args.code {
        all.retain(|r| r.code == code);
        if all.is_empty() {
            let e = ARGUMENTS.broken(format!("there is no rule `{}`", code.escape_debug()));
            let near = nearest(code, self::all().map(|r| r.code));
            return Err(match near {
                Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
                None => e.with_hint("`holdall rules` lists all rules"),
            }
            .into());
        }
    }
    let out = &mut *session.out();
    let paint = session.paint();
    if session.json() {
        match (&args.code, &all[..]) {
            (Some(_), [rule]) => writeln!(out, "{}", as_json(&json(rule)))?,
            _ => writeln!(out, "{}", as_json(&Plain::list(all.into_iter().map(json))))?,
        }
    } else if args.code.is_some() {
        for rule in all {
            writeln!(out, "{}  {}", paint.styled(rule.code, Style::Title), fault(rule))?;
            writeln!(out, "  {}", rule.sentence)?;
            if let Some(hint) = advice(rule) {
                writeln!(out, "  {} {hint}", paint.styled("hint:", Style::Note))?;
            }
        }
    } else {
        all.sort_by_key(|r| r.code);
        let columns = [Column::left("code"), Column::left("kind"), Column::left("the rule")];
        let row = |at: usize| {
            let r = all[at];
            vec![
                Cell::styled(r.code, Style::Title),
                Cell::new(r.kind.as_str()),
                Cell::new(r.sentence),
            ]
        };
        table::write(out, &columns, all.len(), &row, 0, session.width(), paint)?;
    }
    Ok(Status::Fine)
}

/// Returns all rules: of the formats, of the library, and of the command.
fn all() -> impl Iterator<Item = &'static Rule> {
    #[cfg(feature = "carton")]
    let below = holdall_run::rules();
    #[cfg(not(feature = "carton"))]
    let below = holdall::rules();
    below.chain(crate::exit::RULES.iter().copied())
}

fn fault(rule: &Rule) -> String {
    let code = crate::exit::exit_code(rule.kind);
    format!("{}, exit status {code}", rule.kind.as_str())
}

/// Returns the advice that always applies to the rule, in terms of the command.
fn advice(rule: &'static Rule) -> Option<String> {
    remedy::advice(&rule.broken(""))
}

fn json(rule: &'static Rule) -> Plain<'static> {
    fields!(code: rule.code, kind: rule.kind.as_str(), sentence: rule.sentence, hint: advice(rule))
}
