//! The tensors that a command applies to: `--select` and `--exclude`.

use clap::Args;
use holdall::Select;

/// The tensors that a command applies to.
#[derive(Debug, Args)]
pub(crate) struct Selecting {
    /// Only tensors whose name matches, such as 'layers.*.weight'; may be given again
    #[arg(short = 's', long = "select", value_name = "GLOB")]
    include: Vec<String>,

    /// No tensors whose name matches; may be given again
    #[arg(short = 'x', long, value_name = "GLOB")]
    exclude: Vec<String>,
}

impl Selecting {
    /// Returns `true` if all tensors are selected.
    pub(crate) fn is_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Parses the globs.
    pub(crate) fn read(&self) -> holdall::Result<Select> {
        Select::new(&self.include, &self.exclude)
    }
}
