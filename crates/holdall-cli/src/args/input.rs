//! How files are read: `--io`.

use clap::ValueEnum;
use holdall::Io;

/// The values of `--io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoChoice {
    Auto,
    Map,
    Read,
    Direct,
}

impl From<IoChoice> for Io {
    fn from(choice: IoChoice) -> Io {
        match choice {
            IoChoice::Auto => Io::Auto,
            IoChoice::Map => Io::Map,
            IoChoice::Read => Io::Read,
            IoChoice::Direct => Io::Direct,
        }
    }
}
