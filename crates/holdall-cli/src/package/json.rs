//! The JSON output for packages.

use crate::output::as_json;
use holdall::carton::{Package, PackageDiff, PackageReport, hex};
use holdall::fields;
use holdall::plain::ToPlain as _;

/// Returns the result of verifying a package.
pub(super) fn report(package: &Package, report: &PackageReport) -> String {
    let verdict = report.verdict();
    let head = fields! {
        source: package.name(),
        format: "carton",
        version: "1",
        sound: verdict == holdall::verify::Verdict::Sound,
        verdict: verdict.as_str(),
        hash: package.hash().map(|hash| hex(&hash)),
    };
    as_json(&head.and(report.to_plain().without("sound").without("verdict")))
}

/// Returns the differences between two packages.
pub(super) fn diff(a: &Package, b: &Package, diff: &PackageDiff) -> String {
    as_json(&fields!(a: a.name(), b: b.name()).and(diff.to_plain()))
}
