//! The list of the components of an artifact, as CycloneDX 1.5.

use super::graph::{Crate, Graph, checksums};
use super::{Release, name, sha256, tools, write};
use crate::command::{Outcome, program};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What the list says of the artifact itself.
pub(super) struct About<'a> {
    pub(super) kind: &'a str,
    /// The package URL.
    pub(super) url: String,
    /// The lock file with the digests of the crates.
    pub(super) lock: &'a str,
    /// Packages that are not in the artifact, but that its users install with it: names and package URLs.
    pub(super) needs: &'a [(&'a str, &'a str)],
}

/// Writes the list of an artifact next to it, as `NAME.cdx.json`, and returns its path.
pub(super) fn add(
    release: &Release,
    artifact: &Path,
    graph: &Graph,
    about: &About<'_>,
) -> Result<PathBuf, String> {
    let digest = sha256(&super::bytes(artifact)?);
    let sums = checksums(about.lock)?;
    // A number that is as good as a random one, and the same for the same artifact.
    let (a, b, c, d, e) =
        (&digest[..8], &digest[8..12], &digest[13..16], &digest[17..20], &digest[20..32]);
    let component = |one: &Crate| {
        let mut out = json!({
            "type": "library", "bom-ref": one.url(), "name": one.name, "version": one.version, "purl": one.url(),
            "licenses": [{ "expression": one.licence }],
        });
        if let Some(sum) = sums.get(&(one.name.clone(), one.version.clone())) {
            out["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        out
    };
    let top = &graph.top;
    let mut components: Vec<Value> =
        graph.all.keys().filter(|one| *one != top).map(component).collect();
    let needed = about.needs.iter().map(|(name, url)| {
        json!({ "type": "library", "bom-ref": url, "name": name, "purl": url, "scope": "optional" })
    });
    components.extend(needed);
    let mut dependencies: Vec<Value> = graph
        .all
        .iter()
        .map(|(one, others)| {
            let own = if one == top { about.url.clone() } else { one.url() };
            let others = others.iter().map(Crate::url);
            let needs = about.needs.iter().map(|(_, url)| (*url).to_owned());
            let others = others.chain(needs.filter(|_| one == top)).collect::<Vec<_>>();
            json!({ "ref": own, "dependsOn": others })
        })
        .collect();
    dependencies.extend(about.needs.iter().map(|(_, url)| json!({ "ref": url })));
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": format!("urn:uuid:{a}-{b}-4{c}-8{d}-{e}"),
        "version": 1,
        "metadata": {
            "component": {
                "type": about.kind, "bom-ref": about.url, "name": name(artifact), "version": release.version, "purl": about.url,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                "hashes": [{ "alg": "SHA-256", "content": digest }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    let path = artifact.with_file_name(format!("{}.cdx.json", name(artifact)));
    write(&path, format!("{list:#}\n"))?;
    check(&path, graph.all.len() - 1 + about.needs.len())?;
    Ok(path)
}

/// Fails unless the list is valid, by the schema of CycloneDX, and has `count` components.
fn check(path: &Path, count: usize) -> Outcome {
    const SCRIPT: &str = "\
import json, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = open(sys.argv[1], encoding='utf-8').read()
wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
refs = [c['bom-ref'] for c in json.loads(text)['components']]
if wrong or len(refs) != int(sys.argv[2]) or len(set(refs)) != len(refs):
    sys.exit(f'{sys.argv[1]}: {wrong}, {len(refs)} components')
";
    let args = ["-c", SCRIPT, &path.display().to_string(), &count.to_string()];
    program(tools::python()?).args(args).quiet()
}
