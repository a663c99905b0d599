//! The npm package.

use super::graph::graph;
use super::{Release, bytes, sbom};
use crate::command::{program, root};
use crate::wasm::MANIFEST;
use serde_json::Value;

/// Files without which the package is of no use.
const WANTED: [&str; 7] = [
    "README.md",
    "package.json",
    "dist/index.js",
    "dist/index.d.ts",
    "dist/holdall.wasm",
    "dist/holdall-basic.wasm",
    "dist/LICENSE-MIT",
];

/// Packs the package and looks at it; returns the failures.
pub(super) fn npm(release: &Release) -> Result<Vec<String>, String> {
    let folder = root().join("js");
    let manifest = bytes(&folder.join("package.json"))?;
    let manifest: Value = serde_json::from_slice(&manifest).map_err(|e| e.to_string())?;
    if manifest["version"] != release.version.as_str() {
        return Err(format!("its version is {}, not {}", manifest["version"], release.version));
    }
    let pack = ["pack", "--json", "--pack-destination"];
    let text = program("npm").args(pack).args([&release.out]).within(&folder).output()?;
    let packed: Value = serde_json::from_str(&text).map_err(|e| format!("npm pack: {e}"))?;
    // Newer versions of npm print an object by the package's name, not a list.
    let packed = packed.get(0).or_else(|| packed.get("holdall")).unwrap_or(&packed);
    let files = packed["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let missing = WANTED.iter().filter(|name| !files.iter().any(|file| file["path"] == **name));
    let mut failed: Vec<_> = missing.map(|name| format!("{name} is not in the package")).collect();
    let name = packed["filename"].as_str().ok_or("npm pack names no file")?;
    let path = release.out.join(name);
    let publint = ["node_modules/publint/src/cli.js", "run", "--strict"];
    if program("node").args(publint).args([&path]).within(&folder).run().is_err() {
        failed.push("publint finds something wrong".to_owned());
    }
    let about = sbom::About {
        kind: "library",
        url: format!("pkg:npm/holdall@{}", release.version),
        lock: "js/wasm/Cargo.lock",
        needs: &[],
    };
    let crates = graph(MANIFEST, "holdall-wasm", "wasm32-unknown-unknown")?;
    sbom::add(release, &path, &crates, &about)?;
    Ok(failed)
}
