//! Which tensors a command is about: `--select` and `--exclude`.

use clap::Args;
use holdall::Select;

/// Which tensors a command is about.
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
    /// Whether nothing is chosen.
    pub(crate) fn is_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// The globs, read.
    pub(crate) fn read(&self) -> holdall::Result<Select> {
        Select::new(&self.include, &self.exclude)
    }
}
