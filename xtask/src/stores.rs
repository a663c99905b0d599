//! Tests the command with third-party object stores and servers.

use crate::command::{Outcome, holdall, program, root, target};
use crate::interop::skipped;
use crate::python::with_packages;
use std::path::PathBuf;

/// Servers that emulate S3, Google's store and WebDAV, and a client for the first: a script for
/// each.
const SERVERS: [(&str, &str, &[&str]); 3] = [
    ("S3", "s3.py", &["moto[server,s3]==5.2.5", "boto3>=1.40"]),
    ("Google's store", "gcs.py", &["gcp-storage-emulator==2026.7.19"]),
    ("WebDAV", "webdav.py", &["wsgidav==4.4.0", "cheroot==11.1.2"]),
];
/// The emulator for Azure, a Node program.
const AZURITE: &str = "azurite@3.37.0";

/// `cargo xtask stores`.
pub(crate) fn stores(_args: &[String]) -> Outcome {
    if !program("python3").args(["--version"]).succeeds() {
        skipped("object stores of others, for there is no python3");
        return Ok(());
    }
    let (scripts, holdall) = (root().join("interop/stores"), holdall()?);
    for (what, script, packages) in SERVERS {
        let venv = target().join("stores").join(script.trim_end_matches(".py"));
        match with_packages(&venv, packages) {
            Ok(python) => program(&python).args([scripts.join(script), holdall.clone()]).run()?,
            Err(_) => skipped(&format!("{what}, for `{}` cannot be had", packages[0])),
        }
    }
    match azurite() {
        Some(azurite) => {
            program("python3").args([scripts.join("azure.py"), holdall, azurite]).run()
        }
        None => {
            skipped(&format!("Azure, for `{AZURITE}` cannot be had"));
            Ok(())
        }
    }
}

/// Returns the path of Azurite, which is fetched if it is not installed.
fn azurite() -> Option<PathBuf> {
    let folder = target().join("stores/azurite");
    let own = folder.join("node_modules/.bin/azurite-blob");
    if !own.is_file() {
        std::fs::create_dir_all(&folder).ok()?;
        let install =
            ["install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", AZURITE];
        program("npm").args(install).within(&folder).run().ok()?;
    }
    own.is_file().then_some(own)
}
