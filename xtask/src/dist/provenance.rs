//! The statement of where the artifacts come from: in-toto's statement 1 with SLSA's provenance 1.

use super::{Release, bytes, sha256};
use crate::command::{program, root};
use serde_json::{Value, json};

/// Returns the statement about artifacts, given by name and SHA-256.
pub(super) fn statement(release: &Release, all: &[(String, String)]) -> Result<String, String> {
    let digest = |path: &str| bytes(&root().join(path)).map(|bytes| sha256(&bytes));
    let version = |tool: &str, option: &str| {
        program(tool).args([option]).output().map(|text| text.trim().to_owned())
    };
    let environment = |key: &str| std::env::var(key).ok();
    // On GitHub the run is named; elsewhere the statement says that a person made it.
    let builder = match (environment("GITHUB_SERVER_URL"), environment("GITHUB_REPOSITORY")) {
        (Some(server), Some(repository)) => {
            let run = environment("GITHUB_RUN_ID").unwrap_or_default();
            let repository = format!("{server}/{repository}");
            json!({
                "id": format!("{repository}/.github/workflows/release.yml"),
                "invocation": format!("{repository}/actions/runs/{run}"),
                "source": format!("git+{repository}"),
            })
        }
        _ => json!({ "id": "urn:holdall:built-by-hand", "invocation": null, "source": "git" }),
    };
    let mut sources =
        vec![json!({ "uri": builder["source"], "digest": { "gitCommit": release.commit } })];
    let files: Vec<Value> = ["Cargo.lock", "js/package-lock.json", "js/wasm/Cargo.lock"]
        .into_iter()
        .map(|path| Ok(json!({ "name": path, "digest": { "sha256": digest(path)? } })))
        .collect::<Result<_, String>>()?;
    sources.extend(files);
    let subjects =
        all.iter().map(|(name, sum)| json!({ "name": name, "digest": { "sha256": sum } }));
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects.collect::<Vec<_>>(),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:holdall:cargo-xtask-dist:1",
                "externalParameters": { "version": release.version, "trial": release.is_trial },
                "internalParameters": {
                    "rustc": version("rustc", "--version")?,
                    "cargo": version("cargo", "--version")?,
                    "node": version("node", "--version").ok(),
                    "sourceDateEpoch": release.epoch,
                },
                "resolvedDependencies": sources,
            },
            "runDetails": {
                "builder": { "id": builder["id"] },
                "metadata": { "invocationId": builder["invocation"] },
            },
        },
    });
    Ok(format!("{statement:#}\n"))
}
