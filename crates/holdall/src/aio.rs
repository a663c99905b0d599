//! Files for programs that wait for many things at once, on `tokio`.
//!
//! ```no_run
//! # async fn example() -> holdall::Result<()> {
//! let file = holdall::aio::open("model.safetensors").await?;
//! let weights = file.tensor("embed.weight")?.bytes(&holdall::Role::Data).await?;
//! let report = holdall::aio::verify(&file, &holdall::VerifyOptions::new()).await?;
//! # let _ = (weights, report);
//! # Ok(())
//! # }
//! ```

pub use holdall_io::aio::{Blocking, ByteSource, File, Reading, Tensor, open_source, open_with};

use crate::{OpenOptions, VerifyOptions, VerifyReport};
use holdall_core::Result;
use holdall_io::Work;
use std::path::PathBuf;

/// Opens a file with the default [`OpenOptions`]: one of the file system, one at an address, or one inside a package.
///
/// # Errors
/// As [`crate::open`].
pub async fn open(path: impl Into<PathBuf>) -> Result<File> {
    open_with(path, &OpenOptions::new()).await
}

/// Checks everything about `file` that can be checked. Dropping the future ends it.
///
/// # Errors
/// As [`crate::verify()`].
pub async fn verify(file: &File, options: &VerifyOptions) -> Result<VerifyReport> {
    let options = options.clone();
    let run = move |file: &crate::File, work: Work| {
        let work = options.work.clone().under(&work);
        crate::verify(file, &options.with_work(work))
    };
    file.run(run).await
}
