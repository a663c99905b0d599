//! The crates, packaged in the order in which they can be published.

use super::graph::graph;
use super::{Release, bytes, sbom};
use crate::command::{Outcome, Run, cargo, program, root, target};
use crate::js::PAGE;
use crate::readmes::PUBLISHED;
use std::path::Path;

/// The members of the workspace that are not published.
const OTHERS: [&str; 3] = ["holdall-fuzz", "holdall-py", "xtask"];

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The size that crates.io allows.
const MOST: usize = 10 << 20;

/// Packages the crates and builds each from its package alone; returns the failures.
pub(super) fn crates(release: &Release) -> Result<Vec<String>, String> {
    let mut run = workspace("package");
    if release.is_trial {
        eprintln!("\n!!! NOT BUILT from their packages: this is a trial.\n");
        run = run.args(["--no-verify"]);
    }
    run.run()?;
    let mut failed = Vec::new();
    for name in PUBLISHED {
        if let Err(e) = one(release, name) {
            failed.push(format!("{name}: {e}"));
        }
    }
    Ok(failed)
}

/// `cargo xtask publish crates`, `publish npm FOLDER`, `publish github FOLDER`: uploads what `dist` has checked, with the credentials of the environment.
pub(crate) fn publish(args: &[String]) -> Outcome {
    match args {
        [what] if what == "crates" => {
            crate::js::viewer(&[])?;
            // Each was built from its package by `dist`.
            workspace("publish").args(["--no-verify"]).run()
        }
        [what, folder] if what == "npm" => {
            let packed = format!("{folder}/holdall-{VERSION}.tgz");
            program("npm").args(["publish", &packed, "--access", "public", "--provenance"]).run()
        }
        [what, folder] if what == "github" => {
            let entries = root().join(folder);
            let entries = entries.read_dir().map_err(|e| format!("{folder}: {e}"))?;
            let files = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
            let notes = "CHANGELOG.md says what changed, SHA256SUMS what the files are.";
            let tag = format!("v{VERSION}");
            let create = ["release", "create", &tag, "--verify-tag", "--notes", notes];
            program("gh").args(create).args(files).run()
        }
        _ => Err("publish crates, publish npm FOLDER, or publish github FOLDER".to_owned()),
    }
}

/// Returns a task of cargo for all crates that are published. The page in the crate of the command is not in the repository, which
/// cargo takes for a change.
fn workspace(task: &str) -> Run {
    let others = OTHERS.iter().flat_map(|name| ["--exclude", *name]);
    cargo([task, "--workspace", "--locked", "--allow-dirty"]).args(others)
}

/// Checks a package, and copies it to the artifacts.
fn one(release: &Release, name: &str) -> Outcome {
    let file = format!("{name}-{}.crate", release.version);
    let packed = target().join("package").join(&file);
    let content = bytes(&packed)?;
    if content.len() > MOST {
        return Err(format!("{} bytes, crates.io takes {MOST}", content.len()));
    }
    let listed = program("tar").args(["-tzf"]).args([&packed]).output()?;
    let page = PAGE.map(|file| format!("viewer/{file}.gz"));
    let page = page.iter().filter(|_| name == "holdall-cli").map(String::as_str);
    let wanted = ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/lib.rs"];
    for path in wanted.into_iter().chain(page) {
        let path = format!("{name}-{}/{path}", release.version);
        if !listed.lines().any(|line| line == path) {
            return Err(format!("{path} is not in the package"));
        }
    }
    let to = release.out.join(&file);
    std::fs::copy(&packed, &to).map_err(|e| format!("{}: {e}", to.display()))?;
    describe(release, name, &to)
}

fn describe(release: &Release, name: &str, packed: &Path) -> Outcome {
    let about = sbom::About {
        kind: "library",
        url: format!("pkg:cargo/{name}@{}", release.version),
        lock: "Cargo.lock",
        needs: &[],
    };
    sbom::add(release, packed, &graph("Cargo.toml", name, "all")?, &about).map(|_| ())
}
