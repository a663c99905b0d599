//! Asynchronous files on `tokio`.
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

/// Opens a file with the default [`OpenOptions`]: a local path, an address, or a path inside a package.
///
/// # Errors
/// Returns the same errors as [`crate::open`].
pub async fn open(path: impl Into<PathBuf>) -> Result<File> {
    open_with(path, &OpenOptions::new()).await
}

/// Runs all checks of [`crate::verify()`] on `file`. Dropping the future cancels the work.
///
/// # Errors
/// Returns the same errors as [`crate::verify()`].
pub async fn verify(file: &File, options: &VerifyOptions) -> Result<VerifyReport> {
    let options = options.clone();
    let run = move |file: &crate::File, work: Work| {
        let work = options.work.clone().under(&work);
        crate::verify(file, &options.with_work(work))
    };
    file.run(run).await
}
