//! The command tree.

use crate::args::Global;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Look into tensor and model files; check, convert and edit them.
#[derive(Debug, Parser)]
#[command(
    name = "holdall",
    version,
    styles = STYLES,
    arg_required_else_help = true,
    after_help = "Examples:
  holdall inspect model.safetensors                 show the contents
  holdall verify model.zt                           check for damage
  holdall convert model.safetensors model.zt        write another format
  holdall diff model.safetensors model.zt           compare two files

Exit status: 0 fine, 1 the file is bad or differs, 2 usage, 3 I/O, 4 unsupported or over a limit.
`holdall COMMAND --help` shows the options and examples of a command."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(visible_aliases = ["info", "ls"])]
    Inspect(crate::inspect::InspectArgs),
    Verify(crate::verify::VerifyArgs),
    #[cfg(feature = "pytorch")]
    Scan(crate::scan::ScanArgs),
    Diff(crate::diff::DiffArgs),
    Convert(crate::convert::ConvertArgs),
    Delta(crate::delta::DeltaArgs),
    Extract(crate::extract::ExtractArgs),
    Edit(crate::edit::EditArgs),
    Salvage(crate::salvage::SalvageArgs),
    #[cfg(feature = "carton")]
    Pack(crate::package::pack::PackArgs),
    #[cfg(feature = "carton")]
    Unpack(crate::package::unpack::UnpackArgs),
    #[cfg(feature = "carton")]
    Hash(crate::package::hash::HashArgs),
    #[cfg(feature = "carton")]
    Test(crate::model::test::TestArgs),
    #[cfg(feature = "carton")]
    Run(crate::model::run::RunArgs),
    #[cfg(feature = "carton")]
    Runner(crate::model::runner::RunnerArgs),
    Build(crate::build::BuildArgs),
    Records(crate::records::RecordsArgs),
    Recipe(crate::recipe::RecipeArgs),
    Schema(crate::schema::SchemaArgs),
    #[cfg(all(feature = "http", feature = "carton"))]
    Shrink(crate::links::shrink::ShrinkArgs),
    #[cfg(all(feature = "http", feature = "carton"))]
    Fetch(crate::links::fetch::FetchArgs),
    Serve(crate::serve::ServeArgs),
    View(crate::view::ViewArgs),
    /// List the formats this build reads and writes
    Formats,
    Rules(crate::rules::RulesArgs),
    Completions(crate::completions::CompletionsArgs),
    Man(crate::completions::ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
