//! `holdall completions` and `holdall man`.

use crate::commands::Cli;
use crate::exit::{Failure, Status};
use crate::session::Session;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write as _;
use std::path::PathBuf;

/// Print the completion script of a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall completions bash > ~/.local/share/bash-completion/completions/holdall
  holdall completions zsh > ~/.zfunc/_holdall
  holdall completions fish > ~/.config/fish/completions/holdall.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell [default: the one in $SHELL]
    shell: Option<Shell>,
}

/// Prints the completion script.
pub(crate) fn run(session: &Session, args: &CompletionsArgs) -> Result<Status, Failure> {
    let Some(shell) = args.shell.or_else(Shell::from_env) else {
        let rule = &crate::exit::ARGUMENTS;
        let e = rule.broken("there are no completions for the shell in $SHELL");
        return Err(e.with_hint("name one: bash, elvish, fish, powershell or zsh").into());
    };
    // The generator panics when it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "holdall", &mut script);
    session.out().write_all(&script)?;
    Ok(Status::Fine)
}

/// Print a manual page, or write the pages of all commands
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall man | man -l -
  holdall man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write `holdall.1`, `holdall-inspect.1` and so on into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints a manual page, or writes all of them.
pub(crate) fn man(session: &Session, args: &ManArgs) -> Result<Status, Failure> {
    match &args.dir {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            session.out().write_all(&page)?;
        }
        Some(dir) if !dir.is_dir() => {
            let (what, hint) = match dir.exists() {
                true => ("this is a file, not a folder", "name a folder"),
                false => ("this folder does not exist", "create the folder first"),
            };
            let e = holdall::error::IO.broken(what).with_hint(hint);
            return Err(e.in_source(dir.display()).into());
        }
        Some(dir) => clap_mangen::generate_to(Cli::command(), dir)
            .map_err(|e| holdall::error::io(e, "writing manual pages").in_source(dir.display()))?,
    }
    Ok(Status::Fine)
}
