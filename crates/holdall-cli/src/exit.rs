//! Exit statuses and error output.

use crate::commands::Cli;
use crate::output::as_json;
use crate::output::remedy::advice;
use crate::output::style::{ColorChoice, Painter, Style};
use crate::output::text::printable;
use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use holdall::{Error, Remedy, fields, nearest};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;

holdall::error::rules! {
    /// The rules of the command itself.
    pub(crate) static RULES;

    /// Invalid arguments.
    pub(crate) ARGUMENTS: Misuse "usage/arguments"
        "The arguments are those that `holdall COMMAND --help` describes.";
    /// Two inputs are `-`.
    pub(crate) STDIN_TWICE: Misuse "usage/stdin-twice" "Only one input is standard input.";
    /// Standard input is too long.
    pub(crate) STDIN_LEN: Limit "input/stdin-len"
        "Standard input that is read into memory has at most `--limit stdin-len` bytes."
        hint "give a file name instead of `-`"
        remedies [RaiseLimit { limit: "stdin_len", at_least: None }];
    /// The number of bytes does not fit the shape.
    pub(crate) LENGTH: Misuse "input/length"
        "A file of elements has exactly as many bytes as its shape and type require.";
    /// A tensor with several components, of which none is chosen.
    pub(crate) WHICH_COMPONENT: Misuse "extract/which-component"
        "For a tensor with several components, the arguments name one of them, or request a dense tensor.";
    /// The output format is unknown.
    pub(crate) WHICH_FORMAT: Misuse "extract/which-format"
        "The file to write has the extension npy, raw or bin, or the arguments name its format."
        hint "add `--format npy` or `--format raw`";
    /// An error writing to standard output.
    pub(crate) OUTPUT: Io "output/failed" "Standard output accepts the output.";
    /// Binary data for a terminal.
    pub(crate) NOT_TO_TERMINAL: Misuse "output/terminal"
        "Binary data goes to a file or a pipe, not to a terminal."
        hint "name a file with `-o`, or pipe the output into another command";

    /// No viewer is there.
    pub(crate) NO_PAGE: NotFound "view/no-page"
        "The viewer is in the command, or in the folder of `--page`."
        hint "released commands have the viewer; `cargo xtask viewer` puts it into those that are built after it from a clone";

    /// Inputs of a model with and without names.
    pub(crate) INPUT_NAME: Misuse "input/name"
        "Either all inputs of a model are given by name, or all in the declared order without names.";
    /// An invalid input of a model.
    pub(crate) INPUT_VALUE: Misuse "input/value"
        "An input of a model is an .npy file, a file of raw elements, or JSON with elements of the declared type.";
    /// Raw elements of unknown shape.
    pub(crate) INPUT_SHAPE: Misuse "input/raw-shape"
        "A file of raw elements is given only for an input whose declared shape leaves at most one dimension open.";
    /// An output whose name is not a valid file name.
    pub(crate) OUTPUT_NAME: Unsupported "output/name"
        "An output that is written to a file has a name that is a valid file name."
        hint "print the outputs with `--json`";
}

/// The result of a command that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Everything is fine.
    Fine,
    /// The file is bad, or the files differ.
    Bad,
    /// No errors were found, but a limit or an unsupported feature prevented a complete check.
    Incomplete,
}

impl From<Status> for u8 {
    fn from(status: Status) -> u8 {
        match status {
            Status::Fine => 0,
            Status::Bad => 1,
            Status::Incomplete => 4,
        }
    }
}

/// The reason why a command stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error that was not reported yet.
    Error(Error),
    /// An error that was reported already, with the exit status.
    Reported(u8),
    /// The reader of our output has closed it. Not an error.
    Closed,
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        match e.io() {
            Some(io) if crate::platform::is_closed_pipe(io) => Failure::Closed,
            _ => Failure::Error(e),
        }
    }
}

/// Bare [`io::Error`]s only come from writing to standard output.
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        OUTPUT.broken("writing to standard output").because(e).into()
    }
}

/// Returns the exit status for an error.
pub(crate) fn code(e: &Error) -> u8 {
    exit_code(e.kind())
}

/// Returns the exit status for errors of a kind.
pub(crate) fn exit_code(kind: holdall::ErrorKind) -> u8 {
    match kind {
        holdall::ErrorKind::Malformed | holdall::ErrorKind::Integrity => 1,
        holdall::ErrorKind::NotFound | holdall::ErrorKind::Misuse => 2,
        holdall::ErrorKind::Io => 3,
        // Unsupported, Limit, and kinds that are added later.
        _ => 4,
    }
}

/// Prints an error to standard error, and returns the exit status.
pub(crate) fn report(e: &Error, json: bool, paint: Painter) -> u8 {
    let text = if json {
        as_json(&fields!(error: e))
    } else {
        let text = format!("{} {}", paint.styled("error:", Style::Bad), printable(&e.to_string()));
        match advice(e) {
            Some(hint) => {
                format!("{text}\n{} {}", paint.styled("hint:", Style::Note), printable(&hint))
            }
            None => text,
        }
    };
    let text = format!("{text}\n");
    // If standard error cannot be written to, the error cannot be reported.
    let _ = io::stderr().write_all(text.as_bytes());
    code(e)
}

/// The options that affect how invalid arguments are reported. They are read before the arguments are parsed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EarlyOptions {
    json: bool,
    pub(crate) color: ColorChoice,
}

impl EarlyOptions {
    /// Looks for `--json` and `--color` in the arguments.
    pub(crate) fn from_args(args: impl Iterator<Item = OsString>) -> EarlyOptions {
        let mut early = EarlyOptions { json: false, color: ColorChoice::Auto };
        let mut args = args.skip(1).take_while(|a| a != "--").peekable();
        while let Some(arg) = args.next() {
            let Some(arg) = arg.to_str() else { continue };
            match arg.split_once('=') {
                None if arg == "--json" => early.json = true,
                None if arg == "--color" => {
                    let next =
                        args.peek().and_then(|a| a.to_str()).and_then(ColorChoice::from_name);
                    early.color = next.unwrap_or(early.color);
                }
                Some(("--color", when)) => {
                    early.color = ColorChoice::from_name(when).unwrap_or(early.color);
                }
                _ => {}
            }
        }
        early
    }
}

/// Reports clap's error about the arguments, or prints the requested help.
pub(crate) fn report_usage(mut e: clap::Error, early: &EarlyOptions) -> u8 {
    let other = improve_tips(&mut e);
    let is_help = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_help || !early.json {
        let printed = e.print().and_then(|()| io::stdout().flush());
        return match printed.map_err(Failure::from) {
            Err(Failure::Error(e)) if is_help => report(&e, early.json, Painter::plain()),
            // Our output is closed, so nothing can be reported.
            _ => {
                if is_help {
                    0
                } else {
                    2
                }
            }
        };
    }
    let rendered = e.render().to_string();
    let message = match e.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing".to_owned(),
        _ => {
            let first = rendered.split("\n\n").next().unwrap_or_default();
            let first = first.strip_prefix("error: ").unwrap_or(first);
            first.split_whitespace().collect::<Vec<_>>().join(" ")
        }
    };
    let mut error = ARGUMENTS.broken(message);
    let suggested =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    error = match (suggested.iter().find_map(|kind| e.get(*kind)), other) {
        (Some(near), _) => error.with_remedy(Remedy::did_you_mean(near.to_string())),
        (None, Some(other)) => error.with_hint(other),
        (None, None) => error.with_hint(
            "`holdall --help` lists the commands, `holdall COMMAND --help` their options",
        ),
    };
    report(&error, true, Painter::plain())
}

/// Improves clap's suggestions. For an unknown option, keeps a suggestion only if it is similar; otherwise, names the
/// commands that have the option. For an unexpected argument, names the option it may be meant for. For a file instead
/// of a command, suggests `inspect`.
fn improve_tips(e: &mut clap::Error) -> Option<String> {
    let tip = |e: &mut clap::Error, tip: String| {
        e.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.clone().into()]));
        Some(tip)
    };
    if e.kind() == ErrorKind::InvalidSubcommand {
        let given = match e.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(given)) => given.clone(),
            _ => return None,
        };
        let suggestion = e.remove(ContextKind::SuggestedSubcommand);
        // An empty list would be printed as an empty line.
        e.remove(ContextKind::Suggested);
        if Path::new(&given).exists() || given.contains("://") {
            return tip(e, format!("`holdall inspect {given}` shows its contents"));
        }
        if let Some(ContextValue::Strings(all)) = suggestion
            && let Some(near) = nearest(&given, all.iter().map(String::as_str))
        {
            let near = ContextValue::Strings(vec![near.to_owned()]);
            e.insert(ContextKind::SuggestedSubcommand, near);
            return None;
        }
        let tip_text = commands_with_option(&given)?;
        return tip(e, tip_text);
    }
    if e.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    e.remove(ContextKind::Suggested);
    let Some(ContextValue::String(given)) = e.get(ContextKind::InvalidArg) else { return None };
    if !given.starts_with('-') {
        let tip_text = missing_option_tip(given)?;
        return tip(e, tip_text);
    }
    if let Some(tip_text) = positional_tip(given) {
        e.remove(ContextKind::SuggestedArg);
        return tip(e, tip_text);
    }
    let given = given.split('=').next()?.strip_prefix("--")?.to_owned();
    if let Some(ContextValue::String(suggestion)) = e.get(ContextKind::SuggestedArg) {
        let suggestion = suggestion.trim_start_matches('-').to_owned();
        if nearest(&given, std::iter::once(suggestion.as_str())).is_some() {
            return None;
        }
        e.remove(ContextKind::SuggestedArg);
    }
    let tip_text = commands_with_option(&given)?;
    tip(e, tip_text)
}

/// Names the commands that have this option.
fn commands_with_option(name: &str) -> Option<String> {
    let mut commands = Vec::new();
    commands_with(name, &Cli::command(), "holdall", &mut commands);
    let owners = match commands.as_slice() {
        [] => return None,
        [one] => format!("{one} has this option"),
        [first, second] => format!("{first} and {second} have this option"),
        [first, second, ..] => format!("{first}, {second} and others have this option"),
    };
    Some(format!("{owners}: `--{name}`"))
}

/// Names the option that the unexpected argument `given` may be meant for: `-o`, or `--records` if `-o` was given.
fn missing_option_tip(given: &str) -> Option<String> {
    let arguments = arguments();
    let (path, command) = invoked_command(&arguments);
    let has = |name: &str| command.get_arguments().any(|arg| arg.get_long() == Some(name));
    let has_o = command.get_arguments().any(|arg| arg.get_short() == Some('o'));
    let is_named = arguments
        .iter()
        .any(|argument| argument.starts_with("-o") || argument.starts_with("--output"));
    match is_named {
        false if has_o => Some(format!("to name the output of `{path}`, use `-o {given}`")),
        true if has("records") => {
            Some(format!("to name the records for `{path}`, use `--records {given}`"))
        }
        _ => None,
    }
}

/// Suggests the last positional argument for an unknown option for the output or the tensor.
fn positional_tip(given: &str) -> Option<String> {
    let (path, command) = invoked_command(&arguments());
    let names: Vec<String> = command.get_positionals().map(|arg| arg.to_string()).collect();
    let last = names.last()?;
    let is = |name: &str| last.contains(name);
    let what = match given.split('=').next()? {
        option if is("OUT") && (option.starts_with("-o") || option == "--output") => {
            "the file to write"
        }
        option if is("TENSOR") && (option.starts_with("-t") || option == "--tensor") => {
            "the tensor"
        }
        _ => return None,
    };
    Some(format!("the last argument names {what}: `{path} {}`", names.join(" ")))
}

fn arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Returns the name of the command on the command line, and the command.
fn invoked_command(arguments: &[String]) -> (String, clap::Command) {
    let (mut path, mut command) = ("holdall".to_owned(), Cli::command());
    for word in arguments {
        if let Some(subcommand) = command.find_subcommand(word).cloned() {
            path = format!("{path} {word}");
            command = subcommand;
        }
    }
    (path, command)
}

/// Collects the subcommands of `command` that have this option.
fn commands_with(name: &str, command: &clap::Command, path: &str, commands: &mut Vec<String>) {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let path = format!("{path} {}", subcommand.get_name());
        if subcommand.get_arguments().any(|arg| arg.get_long() == Some(name) && !arg.is_hide_set())
        {
            commands.push(format!("`{path}`"));
        }
        commands_with(name, subcommand, &path, commands);
    }
}
