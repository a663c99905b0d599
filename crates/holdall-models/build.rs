//! Lists the recipes in `recipes/`, so that a recipe is a file and nothing else.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets the folder of the crate");
    let folder = Path::new(&root).join("recipes");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).expect("the folder of recipes is there");
    let mut all: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    all.sort();
    let mut text = String::from("&[\n");
    for path in all {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name in UTF-8");
        let path = path.to_str().expect("a path in UTF-8");
        writeln!(text, "    ({name:?}, include_str!({path:?})),").expect("a text grows");
    }
    text.push(']');
    let out = env::var("OUT_DIR").expect("cargo sets the folder for generated files");
    fs::write(Path::new(&out).join("recipes.rs"), text).expect("the list is written");
}
