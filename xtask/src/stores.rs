//! The command against object stores that are not ours.

use crate::command::{Outcome, cargo, program, root, target};
use crate::interop::skipped;
use crate::python::{made, pip};

/// A server that answers as S3 does, and a client for it.
const PACKAGES: [&str; 2] = ["moto[server,s3]==5.2.5", "boto3>=1.40"];

/// `cargo xtask stores`.
pub(crate) fn stores(_args: &[String]) -> Outcome {
    let what = "object stores of others";
    if !program("python3").args(["--version"]).succeeds() {
        skipped(&format!("{what}, for there is no python3"));
        return Ok(());
    }
    let venv = target().join("stores/venv");
    let python = made(&venv)?;
    let done = venv.join("installed.txt");
    let wanted = PACKAGES.join("\n");
    if std::fs::read_to_string(&done).ok().as_ref() != Some(&wanted) {
        if pip(&python).args(PACKAGES).run().is_err() {
            skipped(&format!("{what}, for `{}` cannot be had", PACKAGES[0]));
            return Ok(());
        }
        std::fs::write(&done, wanted).map_err(|e| format!("{}: {e}", done.display()))?;
    }
    // With the whole workspace, so that nothing is built again for fewer features.
    cargo(["build", "--workspace", "--bin", "holdall"]).run()?;
    program(&python)
        .args([root().join("interop/stores/s3.py"), target().join("debug/holdall")])
        .run()
}
