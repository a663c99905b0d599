//! `diff --sample`: a verdict from a small part of the weights.

use super::DiffArgs;
use crate::exit::{Failure, Status};
use crate::input;
use crate::number::share;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::text::{Grouped, Size, count, escape};
use crate::session::Session;
use holdall::diff::{SampleDiff, SampleOptions, SampleVerdict};
use holdall::plain::ToPlain as _;
use holdall::{File, fields};
use std::io::Write as _;

/// Parses `1%` or `0.01`, of more than 0 and at most everything.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.strip_suffix('%') {
        Some(digits) => (digits.trim_end(), 0.01),
        None => (text, 1.0),
    };
    let share = digits.parse::<f64>().map(|number| number * factor);
    let fits = share.ok().filter(|share| *share > 0.0 && *share <= 1.0);
    fits.ok_or_else(|| "expected a share such as 0.5% or 0.005".to_owned())
}

/// Compares two files by a sample.
pub(super) fn run(session: &Session, args: &DiffArgs, given: f64) -> Result<Status, Failure> {
    let (a, b) = (input::open(session, &args.a)?, input::open(session, &args.b)?);
    let mut options =
        SampleOptions::new().with_select(args.select.parse()?).with_work(session.work("sampling"));
    if given > 0.0 {
        options = options.with_share(given);
    }
    let found = holdall::diff::sample(&a, &b, &options)?;
    drop(options);
    if session.json() {
        let report = fields!(a: &a, b: &b).and(found.to_plain());
        writeln!(session.out(), "{}", as_json(&report))?;
    } else if !session.global.quiet {
        write(session, &a, &b, &found)?;
    }
    Ok(match found.verdict {
        SampleVerdict::Same => Status::Fine,
        SampleVerdict::Undecided => Status::Incomplete,
        _ => Status::Bad,
    })
}

fn write(session: &Session, a: &File, b: &File, found: &SampleDiff) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    let percent = |x: f64| share((x * 1e6).round() as u64, 1_000_000);
    let mut lines: Vec<(&str, String)> = Vec::new();
    let (read, all) = (found.bytes_read, found.bytes);
    let both = |x: (u64, u64)| x.0.saturating_add(x.1);
    lines.push((
        "read",
        format!(
            "{} of {} ({}), in {} runs of {} of {}",
            Size(both(read)),
            Size(both(all)),
            share(both(read), both(all)),
            Grouped(found.runs),
            Grouped(found.sampled),
            count(found.common, "common tensor"),
        ),
    ));
    if found.unmatched > 0 {
        lines
            .push(("other", format!("{} without a counterpart", count(found.unmatched, "tensor"))));
    }
    if found.elements > 0 {
        let rounded = if found.is_rounded { ", but for rounding" } else { "" };
        let differ = match found.unequal {
            0 => format!("none differ{rounded}"),
            n => format!("{} differ", share(n, found.elements)),
        };
        lines.push(("compared", format!("{}: {differ}", count(found.elements, "element"))));
    }
    if let (Some(r), Some((low, high))) = (found.correlation, found.interval) {
        let line = format!("{r:.4} in the median matrix, between {low:.4} and {high:.4}");
        lines.push(("correlation", line));
        let line = format!(
            "{} in matrices that correlate, {} in others, {} not sampled",
            percent(found.related),
            percent((found.coverage - found.related).max(0.0)),
            percent((1.0 - found.coverage).max(0.0)),
        );
        lines.push(("weights", line));
    }
    if found.is_within_quantization {
        lines.push(("quantized", "no difference is larger than quantization makes".to_owned()));
    }
    let sure = percent(found.confidence);
    lines.push((
        "certainty",
        match found.verdict {
            SampleVerdict::Same => format!(
                "with {sure} confidence at most {} of such runs differ",
                percent(found.most_unequal)
            ),
            SampleVerdict::Undecided => "none: compare more with --sample=SHARE".to_owned(),
            _ => format!("{sure} for each matrix"),
        },
    ));
    for (name, text) in lines {
        writeln!(out, "  {}  {text}", paint.styled(&format!("{name:11}"), Style::Dim))?;
    }
    let (verdict, style) = match found.verdict {
        SampleVerdict::Same => ("the same, as far as sampled:", Style::Good),
        SampleVerdict::SameBase if found.is_within_quantization => {
            ("same base, quantized:", Style::Warn)
        }
        SampleVerdict::SameBase => ("same base, fine-tuned:", Style::Warn),
        SampleVerdict::Unrelated => ("unrelated:", Style::Bad),
        _ => ("not enough to say:", Style::Warn),
    };
    let names = format!("{} and {}", escape(a.name()), escape(b.name()));
    writeln!(out, "{} {names}: {}", paint.styled(verdict, style), found.reason)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::parse_share;

    #[test]
    fn shares_are_percentages_or_numbers() {
        for (text, share) in [("1%", 0.01), ("0.5 %", 0.005), ("0.25", 0.25), ("100%", 1.0)] {
            assert_eq!(parse_share(text), Ok(share));
        }
        for text in ["", "0", "-1%", "101%", "2", "nan", "inf", "a"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
