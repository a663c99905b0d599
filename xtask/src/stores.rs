//! The command against object stores that are not ours.

use crate::command::{Outcome, cargo, program, root, target};
use crate::interop::skipped;
use crate::python::with_packages;

/// A server that answers as S3 does, and a client for it.
const PACKAGES: [&str; 2] = ["moto[server,s3]==5.2.5", "boto3>=1.40"];

/// `cargo xtask stores`.
pub(crate) fn stores(_args: &[String]) -> Outcome {
    let what = "object stores of others";
    if !program("python3").args(["--version"]).succeeds() {
        skipped(&format!("{what}, for there is no python3"));
        return Ok(());
    }
    let Ok(python) = with_packages(&target().join("stores/venv"), &PACKAGES) else {
        skipped(&format!("{what}, for `{}` cannot be had", PACKAGES[0]));
        return Ok(());
    };
    // With the whole workspace, so that nothing is built again for fewer features.
    cargo(["build", "--workspace", "--bin", "holdall"]).run()?;
    program(&python)
        .args([root().join("interop/stores/s3.py"), target().join("debug/holdall")])
        .run()
}
