//! Builds the viewer's page into the command, if `viewer/` has it: `cargo xtask viewer` writes it there, and the crate that is
//! published contains it. Without the page the command is built all the same, for that needs Rust alone.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// The files of the page, each compressed by gzip under this name with `.gz` after it, with their media types.
const PAGE: [(&str, &str); 4] = [
    ("open.html", "text/html"),
    ("viewer.css", "text/css"),
    ("viewer.js", "text/javascript"),
    ("core.js", "text/javascript"),
];

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets the folder of the crate");
    let folder = Path::new(&root).join("viewer");
    // The folder and not its files: a file that is missing would be built again each time.
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-changed=build.rs");
    let is_there = PAGE.iter().all(|(name, _)| folder.join(format!("{name}.gz")).is_file());
    let mut text = String::from("&[\n");
    for (name, kind) in PAGE {
        let path = folder.join(format!("{name}.gz"));
        let bytes = match is_there {
            true => format!("Some(include_bytes!({:?}))", path.display().to_string()),
            false => "None".to_owned(),
        };
        let kind = format!("{kind}; charset=utf-8");
        writeln!(text, "    PageFile {{ name: {name:?}, kind: {kind:?}, compressed: {bytes} }},")
            .expect("a text grows");
    }
    text.push(']');
    let out = env::var("OUT_DIR").expect("cargo sets the folder for generated files");
    fs::write(Path::new(&out).join("page.rs"), text).expect("the list is written");
}
