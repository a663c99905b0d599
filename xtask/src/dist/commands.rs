//! The command, in an archive for each target, with completions, manual pages and licences.

use super::archive::{Entry, tar_gz, zip};
use super::graph::graph;
use super::targets::{System, Target};
use super::{Release, binary, bytes, licences, repeat, sbom, tools, write};
use crate::command::{self, Outcome, cargo, program, root, target};
use crate::js::{PAGE, VIEWER};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The shells, with the names of the files that they look for.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "holdall.bash"),
    ("elvish", "holdall.elv"),
    ("fish", "holdall.fish"),
    ("powershell", "_holdall.ps1"),
    ("zsh", "_holdall"),
];
const TEXTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Makes the archives; returns the failures.
pub(super) fn commands(release: &Release) -> Result<Vec<String>, String> {
    let mut failed = release.for_targets(|target| {
        let built = build(release, target)?;
        let content = bytes(&built)?;
        binary::check(target, &content)?;
        if target.system == System::Musl {
            binary::is_static(&content)?;
        }
        has_page(&content)
    });
    let built = |target: &&&Target| !failed.iter().any(|e| e.starts_with(target.triple));
    let targets: Vec<_> = release.targets.iter().filter(built).copied().collect();
    if targets.is_empty() {
        return Ok(failed);
    }
    // Completions and pages are the same for all targets; a command that runs here writes them.
    let own = targets.iter().find(|target| target.runs_here());
    let own = own.map_or_else(command::holdall, |target| Ok(executable(release, target)))?;
    let shared = shared(&own)?;
    for target in targets {
        if let Err(e) = pack(release, target, &shared) {
            failed.push(format!("{}: {e}", target.triple));
        }
    }
    match release.targets.iter().find(|target| target.runs_here()) {
        Some(target) if release.is_twice => repeat::repeat(release, target, &own)?,
        _ => {}
    }
    Ok(failed)
}

/// Builds the command for a target, and returns its path.
fn build(release: &Release, target: &Target) -> Result<PathBuf, String> {
    let run = cargo(arguments(release, target));
    tools::building(release, target, run)?.run()?;
    Ok(executable(release, target))
}

/// Returns the arguments with which cargo builds the command.
pub(super) fn arguments(release: &Release, target: &Target) -> Vec<String> {
    let build = if target.needs_zig() { "zigbuild" } else { "build" };
    let triple = format!("{}{}", target.triple, target.glibc);
    let all = [build, "--locked", "--package", "holdall-cli", "--profile", release.profile()];
    all.into_iter().chain(["--target", &triple]).map(str::to_owned).collect()
}

fn executable(release: &Release, target: &Target) -> PathBuf {
    crate::command::target().join(target.triple).join(release.profile()).join(target.command())
}

/// Fails unless the executable contains the page, as `crates/holdall-cli/viewer` has it.
pub(super) fn has_page(content: &[u8]) -> Outcome {
    for name in PAGE {
        let packed = bytes(&root().join(VIEWER).join(format!("{name}.gz")))?;
        if !binary::contains(content, &packed) {
            return Err(format!("the viewer's {name} is not in it"));
        }
    }
    Ok(())
}

/// Returns the files that all archives have.
fn shared(own: &Path) -> Result<Vec<Entry>, String> {
    let mut all = Vec::new();
    let mut add = |path: String, bytes: Vec<u8>| all.push(Entry { path, bytes, is_program: false });
    for name in TEXTS {
        add(name.to_owned(), bytes(&root().join(name))?);
    }
    for (shell, name) in SHELLS {
        let script = program(own).args(["completions", shell]).output()?;
        if !script.contains("holdall") {
            return Err(format!("the completions for {shell} do not name the command"));
        }
        add(format!("completions/{name}"), script.into_bytes());
    }
    let folder = target().join("dist-man");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    program(own).args(["man", "--dir"]).args([&folder]).quiet()?;
    let entries = folder.read_dir().map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut pages: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    pages.sort();
    if !pages.iter().any(|page| page.ends_with("holdall-inspect.1")) {
        return Err("there is no manual page of `inspect`".to_owned());
    }
    for page in pages {
        add(format!("man/{}", super::name(&page)), bytes(&page)?);
    }
    Ok(all)
}

fn pack(release: &Release, target: &Target, shared: &[Entry]) -> Outcome {
    let stem = release.named(target.triple);
    let crates = graph("Cargo.toml", "holdall-cli", target.triple)?;
    let mut entries = vec![
        Entry {
            path: target.command().to_owned(),
            bytes: bytes(&executable(release, target))?,
            is_program: true,
        },
        Entry {
            path: "THIRD-PARTY-LICENSES.txt".to_owned(),
            bytes: licences::of_others(&crates)?.into_bytes(),
            is_program: false,
        },
    ];
    let copy = |one: &Entry| Entry { path: one.path.clone(), bytes: one.bytes.clone(), ..*one };
    entries.extend(shared.iter().map(copy));
    entries.iter_mut().for_each(|entry| entry.path = format!("{stem}/{}", entry.path));
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let is_zip = target.system == System::Windows;
    let path = release.out.join(format!("{stem}.{}", if is_zip { "zip" } else { "tar.gz" }));
    write(&path, if is_zip { zip(&entries)? } else { tar_gz(&entries, release.epoch)? })?;
    let about = sbom::About {
        kind: "application",
        url: format!("pkg:generic/holdall@{}?target={}", release.version, target.triple),
        lock: "Cargo.lock",
        needs: &[],
    };
    sbom::add(release, &path, &crates, &about)?;
    unpack(target, &path, &stem, &entries)
}

/// Unpacks the archive with a program of others, compares the files, and tries the command if it runs here.
fn unpack(target: &Target, path: &Path, stem: &str, entries: &[Entry]) -> Outcome {
    let folder = crate::command::target().join("dist-unpacked");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    match target.system {
        System::Windows => {
            let python = tools::python()?;
            program(python).args(["-m", "zipfile", "-e"]).args([path, folder.as_path()]).quiet()?;
        }
        _ => program("tar").args(["-xzf"]).args([path]).within(&folder).quiet()?,
    }
    for entry in entries {
        if bytes(&folder.join(&entry.path))? != entry.bytes {
            return Err(format!("{} is not unpacked as it was packed", entry.path));
        }
    }
    match target.runs_here() {
        true => try_command(&folder.join(stem).join(target.command()), &[]),
        false => {
            eprintln!("{stem}: a program for another system: built and looked at, not run");
            Ok(())
        }
    }
}

/// Runs a command: its version, a file, and the viewer, each file of which is compared with the built page.
pub(super) fn try_command(own: &Path, before: &[&str]) -> Outcome {
    let version = program(own).args(before).args(["--version"]).output()?;
    if version.trim() != concat!("holdall ", env!("CARGO_PKG_VERSION")) {
        return Err(format!("its version is {version}"));
    }
    let file = root().join("examples/tiny.zt");
    program(own).args(before).args(["verify", "--quiet"]).args([&file]).quiet()?;
    let empty = target().join("dist-empty");
    std::fs::create_dir_all(&empty).map_err(|e| format!("{}: {e}", empty.display()))?;
    let mut view = Command::new(own);
    view.args(before).args(["view", "--no-open"]).arg(&file).current_dir(&empty);
    let mut child = view.stdout(Stdio::piped()).spawn().map_err(|e| format!("view: {e}"))?;
    let served = child.stdout.take().ok_or("view: no output").map_err(str::to_owned);
    let compared = served.and_then(|out| {
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).map_err(|e| e.to_string())?;
        PAGE.iter().try_for_each(|name| compare(&line, name))
    });
    let _ = child.kill();
    let _ = child.wait();
    compared
}

/// Requests a file of the page from the server at the address that `view` printed.
fn compare(address: &str, name: &str) -> Outcome {
    let parts = address.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
    let (host, path) = parts.ok_or_else(|| format!("view printed `{address}`"))?;
    let token = path.split('/').next().unwrap_or_default();
    let mut stream = TcpStream::connect(host).map_err(|e| format!("{host}: {e}"))?;
    let request =
        format!("GET /{token}/{name} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|e| format!("{host}: {e}"))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(|e| format!("{host}: {e}"))?;
    let expected = bytes(&root().join("js/dist/viewer").join(name))?;
    match answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(&expected) {
        true => Ok(()),
        false => Err(format!("the viewer's {name} is not served as it was built")),
    }
}
