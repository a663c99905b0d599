//! The tensors that a command applies to: `--select` and `--exclude`.

use clap::Args;
use holdall::Select;

/// The tensors that a command applies to.
#[derive(Debug, Args)]
pub(crate) struct SelectionArgs {
    /// Only tensors whose name matches, such as 'layers.*.weight'; can be repeated
    #[arg(short = 's', long = "select", value_name = "GLOB")]
    include: Vec<String>,

    /// No tensors whose name matches; can be repeated
    #[arg(short = 'x', long, value_name = "GLOB")]
    exclude: Vec<String>,
}

impl SelectionArgs {
    /// Returns `true` if all tensors are selected.
    pub(crate) fn is_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Parses the globs.
    pub(crate) fn parse(&self) -> holdall::Result<Select> {
        Select::new(&self.include, &self.exclude)
    }
}
