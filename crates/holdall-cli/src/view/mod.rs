//! `holdall view`.

mod page;
mod site;

use crate::exit::{ARGUMENTS, Failure, Status};
use crate::output::as_json;
use crate::session::Session;
use clap::Args;
use holdall::fields;
use holdall::operations::Operation;
use holdall::serve::Service;
use holdall::serve::http::{HttpOptions, HttpServer};
use page::Page;
use site::{Site, ViewedModel};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Show a file or a model in the browser: tensors, statistics, heat maps, records
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall view model.safetensors                    opens the browser
  holdall view old.zt new.zt                        compares two files
  holdall view llama/                               a model of several files
  holdall view --no-open model.zt                   prints only the address

The page and these files, including the other files of their models, are served on this computer only, under an \
address that cannot be guessed, until Ctrl-C. No other files are accessible.")]
pub(crate) struct ViewArgs {
    /// The file, or folder of a model, to show, and optionally another to compare with it
    #[arg(required = true, num_args = 1..=2, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Print the address without opening a browser
    #[arg(long)]
    no_open: bool,

    /// Listen on this port [default: any free port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Serve the viewer of this folder, not the one in the command
    #[arg(long, value_name = "FOLDER")]
    page: Option<PathBuf>,
}

/// Serves the page and the files until the process ends.
pub(crate) fn run(session: &Session, args: &ViewArgs) -> Result<Status, Failure> {
    let shown: Result<Vec<ViewedModel>, Failure> =
        args.files.iter().map(|path| viewed_model(path)).collect();
    let shown = shown?;
    let page = match &args.page {
        Some(folder) => Page::in_folder(folder)?,
        None => Page::built_in()?,
    };
    let site = Arc::new(Site::new(page, shown)?);
    let mut options = HttpOptions::default();
    options.headers = site::HEADERS.to_vec();
    let listen = (Ipv4Addr::LOCALHOST, args.port).into();
    let server = HttpServer::start(Service::new(Arc::clone(&site) as _), listen, options)?;
    let address = site.address(server.address());
    match session.json() {
        true => writeln!(session.out(), "{}", as_json(&fields!(address: &address)))?,
        false => writeln!(session.out(), "{address}")?,
    }
    session.finish()?;
    if !args.no_open {
        session.note("Press Ctrl-C to stop.");
        open(&address);
    }
    server.wait();
    Ok(Status::Fine)
}

/// Returns the file to show for a path, with the other files of its model.
fn viewed_model(path: &Path) -> Result<ViewedModel, Failure> {
    crate::input::check_location(Operation::View, path)?;
    let about = std::fs::metadata(path)
        .map_err(|e| holdall::error::io(e, "it cannot be read").in_source(path.display()))?;
    let entry = match about.is_dir() {
        true if holdall::is_model_folder(path) => holdall::model_file(path)?,
        _ if about.is_file() => path.to_owned(),
        _ => {
            let e = ARGUMENTS.broken("expected a file or the folder of a model");
            return Err(e.in_source(path.display()).into());
        }
    };
    // Files that cannot be opened are shown, too: the page displays the error.
    let model = holdall::open(&entry);
    let all = model.iter().flat_map(|file| file.files());
    let all = all.filter_map(|file| file.location.as_path().map(Path::to_owned));
    Ok(ViewedModel::new(&entry, &all.collect::<Vec<_>>()))
}

/// Opens the browser. On a machine without a browser, the user opens the printed address.
fn open(address: &str) {
    let mut command = Command::new(crate::platform::BROWSER);
    command.arg(address);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        // Reap the process, so that it does not remain a zombie.
        std::thread::spawn(move || child.wait());
    }
}
