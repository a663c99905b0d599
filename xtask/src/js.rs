//! The JavaScript package: the module of WebAssembly and the TypeScript around it, built and tested.

use crate::command::{self, Outcome, holdall, program, root, target};
use crate::wasm;
use std::path::{Path, PathBuf};

/// The oldest supported version of Node: major and minor.
const NODE: [u32; 2] = [20, 6];

/// The tests that also run the library's command.
const COMMAND: [&str; 7] = [
    "dataset.test.js",
    "metatensor.test.js",
    "migrate.test.js",
    "plain.test.js",
    "shards.test.js",
    "verify.test.js",
    "viewer.test.js",
];

/// The folder of the page in the crate of the command.
pub(crate) const VIEWER: &str = "crates/holdall-cli/viewer";

/// The files of the page, the same as in `crates/holdall-cli/build.rs`.
pub(crate) const PAGE: [&str; 4] = ["open.html", "viewer.css", "viewer.js", "core.js"];

/// Paths of a browser for testing the page, the same as in `js/tests/viewer.test.ts`.
const CHROMIUM: [&str; 3] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// `cargo xtask js`: arguments name the tests to run, by the names of files in `js/tests`.
pub(crate) fn js(args: &[String]) -> Outcome {
    let Some(folder) = build()? else { return Ok(()) };
    let built = folder.join("build");
    if built.is_dir() {
        std::fs::remove_dir_all(&built).map_err(|e| format!("{}: {e}", built.display()))?;
    }
    let tsc = ["node_modules/typescript/bin/tsc", "-p", "tsconfig.test.json"];
    program("node").args(tsc).within(&folder).run()?;
    let is_wanted = |name: &str| args.is_empty() || args.iter().any(|a| name.starts_with(a));
    let entries = built.read_dir().map_err(|e| format!("{}: {e}", built.display()))?;
    let names = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    let mut tests: Vec<String> =
        names.filter(|name| name.ends_with(".test.js") && is_wanted(name)).collect();
    tests.sort();
    if tests.is_empty() {
        return Err("no test has such a name".to_owned());
    }
    if COMMAND.iter().any(|name| is_wanted(name)) {
        holdall()?;
    }
    program("node").args(["--test"]).args(tests).within(&built).run()
}

/// `cargo xtask js-pack`: installs the npm package into empty projects of several kinds, or of
/// those named, and reads a file in each.
pub(crate) fn pack(args: &[String]) -> Outcome {
    let Some(folder) = build()? else { return Ok(()) };
    program("node").args(["pack.mjs"]).args(args).within(&folder).run()
}

/// `cargo xtask js-bench`: measures against other packages, which it fetches.
pub(crate) fn bench(args: &[String]) -> Outcome {
    let Some(folder) = build()? else { return Ok(()) };
    // The command creates a file with zstd.
    holdall()?;
    let own = folder.join("bench");
    program("npm").args(["ci", "--no-audit", "--no-fund"]).within(&own).run()?;
    program("node").args(["--expose-gc", "bench.mjs"]).args(args).within(&own).run()
}

/// `cargo xtask js-images`: makes the pictures of the page in `docs/images`; an argument is a
/// further folder for them.
pub(crate) fn images(args: &[String]) -> Outcome {
    let Some(folder) = build()? else { return Ok(()) };
    // The command creates files of records and packages.
    holdall()?;
    program("node").args(["images.mjs"]).args(args).within(&folder).run()
}

/// `cargo xtask viewer`: writes the page into the crate of the command, which is built with it from then on.
pub(crate) fn viewer(_args: &[String]) -> Outcome {
    let Some(folder) = build()? else { return Err("the viewer cannot be built here".to_owned()) };
    let built = folder.join("dist/viewer");
    let into = root().join(VIEWER);
    for name in PAGE {
        let (from, to) = (built.join(name), into.join(format!("{name}.gz")));
        // Without the name and the time of the file, so that the same page has the same bytes.
        program("gzip").args(["-9", "--no-name", "--force", "--keep"]).args([&from]).run()?;
        let packed = built.join(format!("{name}.gz"));
        // An unchanged page is not written again: the command would be built again.
        let bytes = std::fs::read(&packed).map_err(|e| format!("{}: {e}", packed.display()))?;
        if std::fs::read(&to).ok().as_ref() != Some(&bytes) {
            std::fs::write(&to, &bytes).map_err(|e| format!("{}: {e}", to.display()))?;
        }
        std::fs::remove_file(&packed).map_err(|e| format!("{}: {e}", packed.display()))?;
        eprintln!("{VIEWER}/{name}.gz: {} bytes", bytes.len());
    }
    Ok(())
}

/// Builds the package, if the required tools are available; returns its folder.
fn build() -> Result<Option<PathBuf>, String> {
    let skipped = |why: &str| {
        eprintln!("\n!!! SKIPPED: the JavaScript package, for {why}. Nothing was found out.\n");
        Ok(None)
    };
    match node_version() {
        Some(version) if version >= NODE => {}
        Some([major, minor]) => {
            let [oldest, oldest_minor] = NODE;
            return skipped(&format!(
                "Node is {major}.{minor}, and {oldest}.{oldest_minor} is the oldest"
            ));
        }
        None => return skipped("there is no node"),
    }
    if !program("npm").args(["--version"]).succeeds() {
        return skipped("there is no npm");
    }
    let Some(modules) = wasm::build()? else {
        return skipped("there is no module of WebAssembly");
    };
    let folder = root().join("js");
    install(&folder)?;
    // Without a browser the tests of the page report that they are skipped.
    if !CHROMIUM.iter().any(|path| Path::new(path).exists()) {
        let _ = command::install(&["chromium"]);
    }
    program("node").args(["build.mjs"]).args(modules).within(&folder).run()?;
    Ok(Some(folder))
}

/// Returns the major and minor version of Node.
fn node_version() -> Option<[u32; 2]> {
    if !program("node").args(["--version"]).succeeds() {
        return None;
    }
    let text = program("node").args(["--version"]).output().ok()?;
    let mut parts = text.trim().trim_start_matches('v').split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??])
}

/// Installs the packages for building and testing, unless they are installed.
fn install(folder: &Path) -> Outcome {
    let lock = folder.join("package-lock.json");
    let wanted = std::fs::read_to_string(&lock).map_err(|e| format!("{}: {e}", lock.display()))?;
    let done = target().join("js-installed.json");
    let is_there = folder.join("node_modules").is_dir();
    if is_there && std::fs::read_to_string(&done).ok().as_deref() == Some(&wanted) {
        return Ok(());
    }
    program("npm").args(["ci", "--no-audit", "--no-fund"]).within(folder).run()?;
    std::fs::write(&done, wanted).map_err(|e| format!("{}: {e}", done.display()))
}
