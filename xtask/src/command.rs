//! Runs other programs in the repository's root, and prints their command lines.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The outcome of a task; the error is a sentence for the user.
pub(crate) type Outcome = Result<(), String>;

/// Returns the repository's root.
pub(crate) fn root() -> &'static Path {
    // This crate is directly below it.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Returns the target folder of all builds, which the environment may override.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A program to run.
pub(crate) struct Run(Command);

/// Returns `cargo` with these arguments.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).args(args)
}

/// The crates that decode: nearly all of the tests' time is spent in them, and a third of the
/// compile time.
pub(crate) const DECODERS: [&str; 8] = [
    "holdall-collections",
    "holdall-error",
    "holdall-json",
    "holdall-schema",
    "holdall-core",
    "holdall-package",
    "holdall-models",
    "holdall-formats",
];

/// Further crates that are optimised for the crates above: the decoding of a stream's frames, and
/// the fuzzer.
const OPTIMISED: [&str; 2] = ["holdall-net", "holdall-fuzz"];

/// Returns a `cargo` task for the crates above the decoders, which are optimised for it. All
/// tasks that run programs of these crates use this function, so that all have the same features
/// and nothing is built twice.
pub(crate) fn above(task: &str) -> Run {
    optimised(cargo([task, "--workspace"]))
        .args(DECODERS.iter().flat_map(|package| ["--exclude", *package]))
}

/// Adds the settings that optimise the crates in which tests spend their time.
pub(crate) fn optimised(cargo: Run) -> Run {
    // With a single codegen unit each, since several take longer in total.
    let settings = DECODERS.iter().chain(&OPTIMISED).flat_map(|package| {
        ["opt-level=1", "codegen-units=1"].map(|set| format!("profile.dev.package.{package}.{set}"))
    });
    cargo.args(settings.flat_map(|setting| ["--config".to_owned(), setting]))
}

/// Returns a `cargo` task for the decoders and other crates without optimisation, with the
/// features of the Python package and its dependencies, so that its stage finds them built. The
/// Python package itself has no tests of this kind.
pub(crate) fn below<'a>(task: &'a str, packages: impl IntoIterator<Item = &'a str>) -> Run {
    let packages = packages.into_iter().chain(["holdall-py"]);
    cargo([task, "--no-default-features", "--features", "holdall-py/default"])
        .args(packages.flat_map(|package| ["--package", package]))
}

/// Builds one of our programs and returns its path. An example is built too, because cargo builds
/// targets with tests or examples with other features than those without.
pub(crate) fn built(name: &str, more: &[&str]) -> Result<PathBuf, String> {
    let what = ["--quiet", "--bin", name, "--example", "make_example"];
    above("build").args(what).args(more).run()?;
    Ok(target().join("debug").join(name))
}

/// Builds the command and returns its path.
pub(crate) fn holdall() -> Result<PathBuf, String> {
    built("holdall", &[])
}

/// Returns a program of that name or path.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Run {
    let mut command = Command::new(name);
    command.current_dir(root());
    // Cargo sets variables about this package for the programs it runs, which must not reach the
    // next program.
    for (key, _) in std::env::vars_os() {
        let key_text = key.to_string_lossy();
        if key_text.starts_with("CARGO_PKG_") || key_text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(key);
        }
    }
    Run(command)
}

impl Run {
    /// Adds these arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Run {
        self.0.args(args);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Run {
        self.0.env(key, value);
        self
    }

    /// Runs in a folder other than the repository's root.
    pub(crate) fn within(mut self, folder: &Path) -> Run {
        self.0.current_dir(folder);
        self
    }

    /// Runs it with its output on the terminal.
    pub(crate) fn run(mut self) -> Outcome {
        let line = self.line();
        eprintln!("$ {line}");
        match self.0.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`{line}` failed: {status}")),
            Err(e) => Err(format!("`{line}` cannot be run: {e}")),
        }
    }

    /// Runs it and fails if it prints anything. Cargo with `--quiet` only prints warnings.
    pub(crate) fn silent(mut self) -> Outcome {
        let line = self.line();
        eprintln!("$ {line}");
        let out = self.0.output().map_err(|e| format!("`{line}` cannot be run: {e}"))?;
        let words = [&*out.stdout, &*out.stderr].map(String::from_utf8_lossy).concat();
        eprint!("{words}");
        match out.status.success() {
            true if words.trim().is_empty() => Ok(()),
            true => Err(format!("`{line}` printed warnings")),
            false => Err(format!("`{line}` failed: {}", out.status)),
        }
    }

    /// Runs it; its output is shown only if it fails.
    pub(crate) fn quiet(mut self) -> Outcome {
        let line = self.line();
        let out = self.0.output().map_err(|e| format!("`{line}` cannot be run: {e}"))?;
        if out.status.success() {
            return Ok(());
        }
        eprint!("{}", [&*out.stdout, &*out.stderr].map(String::from_utf8_lossy).concat());
        Err(format!("`{line}` failed: {}", out.status))
    }

    /// Runs it with its output in a file.
    pub(crate) fn log(mut self, path: &Path) -> Outcome {
        let file = || std::fs::File::create(path).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = file().map_err(|e| format!("{}: {e}", path.display()))?;
        self.0.stdout(out).stderr(err);
        self.run()
    }

    /// Runs it without output; returns whether it could be run and succeeded.
    pub(crate) fn succeeds(mut self) -> bool {
        self.0.stdout(Stdio::null()).stderr(Stdio::null());
        self.0.status().is_ok_and(|s| s.success())
    }

    /// Runs it and returns its output.
    pub(crate) fn output(mut self) -> Result<String, String> {
        let line = self.line();
        let out = self.0.stderr(Stdio::inherit()).output();
        let out = out.map_err(|e| format!("`{line}` cannot be run: {e}"))?;
        if !out.status.success() {
            return Err(format!("`{line}` failed: {}", out.status));
        }
        String::from_utf8(out.stdout).map_err(|e| format!("`{line}` printed no text: {e}"))
    }

    /// Runs it and returns its output even if it fails.
    pub(crate) fn any_output(mut self) -> Result<String, String> {
        let line = self.line();
        eprintln!("$ {line}");
        let out = self.0.stderr(Stdio::inherit()).output();
        let out = out.map_err(|e| format!("`{line}` cannot be run: {e}"))?;
        String::from_utf8(out.stdout).map_err(|e| format!("`{line}` printed no text: {e}"))
    }

    fn line(&self) -> String {
        let program = Path::new(self.0.get_program());
        let name = program.file_stem().unwrap_or(program.as_os_str()).to_string_lossy();
        let args = self.0.get_args().map(|a| a.to_string_lossy());
        std::iter::once(name).chain(args).collect::<Vec<_>>().join(" ")
    }
}

/// Installs packages of Debian, if that is permitted; returns whether it succeeded.
pub(crate) fn install(packages: &[&str]) -> bool {
    let install =
        || program("apt-get").args(["install", "--yes", "--no-install-recommends"]).args(packages);
    install().succeeds() || (program("apt-get").args(["update"]).succeeds() && install().succeeds())
}
