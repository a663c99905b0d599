//! `holdall diff` of two packages.

use crate::exit::{Failure, Status};
use crate::output::style::Style;
use crate::output::text::{count, cut_end, escape};
use crate::session::Session;
use holdall::carton::{Difference, Package, package_diff};
use std::io::Write as _;

/// Maximum width of each side of a difference, in columns.
const SIDE: usize = 48;

/// Compares two packages.
pub(crate) fn run(session: &Session, a: &Package, b: &Package) -> Result<Status, Failure> {
    let diff = package_diff(a, b, &session.work("comparing"))?;
    if session.json() {
        writeln!(session.out(), "{}", super::json::diff(a, b, &diff))?;
    } else if !session.global.quiet {
        for (title, all) in
            [("description", &diff.fields), ("files", &diff.files), ("tensors", &diff.tensors)]
        {
            section(session, title, all)?;
        }
        if diff.is_same() {
            let files = count(a.files().len() as u64, "file");
            writeln!(session.out(), "the same: {files}, by their hashes")?;
        }
    }
    Ok(if diff.is_same() { Status::Fine } else { Status::Bad })
}

fn section(session: &Session, title: &str, all: &[Difference]) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint.styled(title, Style::Dim))?;
    for one in all {
        let side = |text: &str| cut_end(&escape(text), SIDE);
        let name = escape(&one.name);
        match (&one.a, &one.b) {
            (Some(a), Some(b)) => {
                let mark = paint.styled("~", Style::Warn);
                writeln!(out, "  {mark} {name}: {} → {}", side(a), side(b))?;
            }
            (Some(a), None) => {
                writeln!(out, "  {} {name}: {}", paint.styled("-", Style::Bad), side(a))?;
            }
            (None, b) => {
                let b = b.as_deref().unwrap_or_default();
                writeln!(out, "  {} {name}: {}", paint.styled("+", Style::Good), side(b))?;
            }
        }
    }
    Ok(())
}
