//! Replaces the module `files` in builds that do not read Parquet and Arrow files.

use super::Batched;
use crate::rows::RecordForm;
use crate::rules::NO_PARQUET;
use holdall_core::{Limits, Result};
use holdall_io::{ByteSource, Work};
use std::sync::Arc;

pub(super) fn open(
    _: Arc<dyn ByteSource>,
    form: RecordForm,
    _: &Limits,
    _: &Work,
) -> Result<Batched> {
    let name = if form == RecordForm::Parquet { "Parquet" } else { "Arrow" };
    Err(NO_PARQUET.broken(format!("this build does not read {name} files")))
}
