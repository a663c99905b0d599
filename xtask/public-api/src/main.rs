//! Lists the public items of a crate, one per line, sorted: `holdall-public-api holdall.json`.
//! With `--is-known` before the path it only reports, by its exit status, whether it supports
//! that version of rustdoc's JSON.
//!
//! With `HOLDALL_RUSTDOC` in the environment it runs `rustdoc` with unstable options instead;
//! cargo runs it as `RUSTDOC`. Setting the variable that allows these options for all of cargo
//! would rebuild dependencies.

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    match std::env::var_os("HOLDALL_RUSTDOC") {
        Some(rustdoc) => {
            let mut command = Command::new(rustdoc);
            command.args(std::env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1");
            match command.status() {
                Ok(status) if status.success() => ExitCode::SUCCESS,
                _ => ExitCode::FAILURE,
            }
        }
        None => list(),
    }
}

fn list() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let path = match &args[..] {
        [flag, path] if flag == "--is-known" => return is_known(Path::new(path)),
        [path] => Path::new(path),
        _ => {
            eprintln!("expected the path of a JSON file of rustdoc");
            return ExitCode::from(2);
        }
    };
    let builder = public_api::Builder::from_rustdoc_json(path)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .sorted(true);
    match builder.build() {
        Ok(api) => {
            api.items().for_each(|item| println!("{item}"));
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether the file has the supported version.
fn is_known(path: &Path) -> ExitCode {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let stated = text.split_once("\"format_version\":").map(|(_, rest)| rest);
    let version = stated.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    match version.and_then(|v| v.parse().ok()) {
        Some(rustdoc_types::FORMAT_VERSION) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
