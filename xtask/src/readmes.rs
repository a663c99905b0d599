//! The README of each crate that is published, which `cargo xtask gen` writes from the crate's manifest: what it is, how it is
//! used, and its features, each with the comment above it.

use crate::command::root;
use std::fmt::Write as _;

/// The crates that are published, in the order in which they can be: each stands after those it depends on.
pub(crate) const PUBLISHED: [&str; 17] = [
    "holdall-collections",
    "holdall-error",
    "holdall-json",
    "holdall-schema",
    "holdall-core",
    "holdall-package",
    "holdall-models",
    "holdall-formats",
    "holdall-net",
    "holdall-io",
    "holdall-carton",
    "holdall-records",
    "holdall-derive",
    "holdall",
    "holdall-run",
    "holdall-gpu",
    "holdall-cli",
];

/// Returns the READMEs, each with its path.
pub(crate) fn readmes() -> Result<Vec<(String, String)>, String> {
    let one = |name: &&str| {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)
            .map_err(|e| format!("{}: {e}", manifest.display()))?;
        Ok((format!("crates/{name}/README.md"), readme(name, &text)?))
    };
    PUBLISHED.iter().map(one).collect()
}

fn readme(name: &str, manifest: &str) -> Result<String, String> {
    let lines = || manifest.lines();
    let about = lines().find_map(|line| line.strip_prefix("description = \"")?.strip_suffix('"'));
    let about = about.ok_or_else(|| format!("{name}: the manifest has no description"))?;
    let use_of = USES.iter().find(|(own, _)| *own == name).map_or(BELOW, |(_, text)| text);
    let mut out = format!(
        "<!-- Written by `cargo xtask gen` from the manifest. -->\n# {name}\n\n{about}.\n\n{use_of}"
    );
    let features = features(manifest);
    if !features.is_empty() {
        out.push_str("\n## Features\n\n| feature | | enables |\n| --- | --- | --- |\n");
        for Feature { name, is_default, about } in features {
            let default = if is_default { "default" } else { "" };
            let _ = writeln!(out, "| `{name}` | {default} | {about} |");
        }
    }
    out.push_str("\n## Licence\n\nMIT or Apache-2.0, at your choice.\n");
    Ok(out)
}

struct Feature<'a> {
    name: &'a str,
    is_default: bool,
    about: String,
}

/// Returns the features of a manifest, in its order. The comment above the first of several lines is about all of them.
fn features(manifest: &str) -> Vec<Feature<'_>> {
    let Some((_, rest)) = manifest.split_once("\n[features]\n") else { return Vec::new() };
    let own = rest.split("\n[").next().unwrap_or_default();
    let pairs = || own.lines().filter_map(|line| line.split_once(" = "));
    let names = |of: &str| {
        let list = pairs().find(|(name, _)| *name == of).map(|(_, list)| list);
        let parts = list.unwrap_or_default().trim_matches(['[', ']']).split(", ");
        parts.map(|part| part.trim_matches('"').to_owned()).collect::<Vec<_>>()
    };
    let (defaults, formats) = (names("default"), names("formats"));
    let mut all = Vec::new();
    let mut above = String::new();
    for line in own.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let is_mark = comment.contains("that `cargo xtask gen` writes");
            above = if is_mark { "" } else { comment.trim_end_matches('.') }.to_owned();
        } else if let Some((name, list)) = line.split_once(" = ").filter(|(n, _)| *n != "default") {
            let is_format = formats.iter().any(|format| format == name);
            let about = match () {
                () if name == "formats" => "All formats".to_owned(),
                () if is_format => format!("Files of the format `{name}`"),
                () if above.is_empty() => list.trim_matches(['[', ']']).replace('"', "`"),
                () => above.clone(),
            };
            let by_formats = is_format && defaults.iter().any(|d| d == "formats");
            let is_default = by_formats || defaults.iter().any(|d| d == name);
            all.push(Feature { name, is_default, about });
            above.clear();
        }
    }
    all
}

/// What the README of a crate below `holdall` says.
const BELOW: &str = "\
This crate is a part of [`holdall`](https://crates.io/crates/holdall), which names everything here that its users need. Depend on `holdall`: public
items here that it does not name may change in any version.
";

/// What the README of other crates says.
const USES: [(&str, &str); 4] = [
    (
        "holdall",
        "\
```rust,no_run
fn main() -> holdall::Result<()> {
    let file = holdall::open(\"model.safetensors\")?;
    for tensor in file.tensors() {
        println!(\"{} {:?}\", tensor.name(), tensor.shape());
    }
    file.verify(&Default::default())?;
    Ok(())
}
```

It reads and writes safetensors, zTensor, Metatensor, GGUF, ONNX, NumPy, Flax, HDF5 and more, and reads PyTorch, TFLite and TensorFlow files; nothing in a file
is ever executed. A file that is wrong is refused with the code of the rule that it breaks, and no operation loses anything without saying so. The command is the
crate [`holdall-cli`](https://crates.io/crates/holdall-cli).
",
    ),
    (
        "holdall-cli",
        "\
```sh
cargo install --locked holdall-cli
holdall inspect model.safetensors
holdall verify model.safetensors
holdall convert model.safetensors model.zt
holdall view model.zt
```

`holdall help` lists all commands. The command has everything in it, also the page that `view` shows. The library is the crate
[`holdall`](https://crates.io/crates/holdall).
",
    ),
    (
        "holdall-gpu",
        "\
It puts the tensors of a file that [`holdall`](https://crates.io/crates/holdall) opens into buffers of a GPU: whole models, or tensors that are used while the rest arrives.
",
    ),
    (
        "holdall-run",
        "\
It runs the models of packages that [`holdall`](https://crates.io/crates/holdall) opens: ONNX in this process, Python and other runners in processes of their own, and only
those that the caller allows.
",
    ),
];
