//! The checks of how components fit together: sparse indices, quantized groups.

use super::{Reason, State, VerifyOptions, VerifyReport};
use crate::file::Tensor;
use crate::workers;
use holdall_core::{Layout, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// Checks the layouts of `tensors`. Those with broken bytes are left alone: what is wrong with them
/// was said.
pub(super) fn check(
    tensors: &[Tensor],
    options: &VerifyOptions,
    state: &State,
    report: &mut VerifyReport,
) -> Result<()> {
    let counts = Counts::default();
    let layered = |t: &&Tensor| *t.layout() != Layout::Dense && !state.is_bad(t.position());
    let mut jobs: Vec<&Tensor> = tensors.iter().filter(layered).collect();
    // The longest first, so that no thread is left with one at the end.
    jobs.sort_by_key(|t| std::cmp::Reverse(t.stored_len()));
    let threads = workers::threads(options.threads);
    workers::for_each(threads, jobs, || (), |(), tensor| check_one(tensor, state, &counts))?;
    report.sparse += counts.sparse.into_inner();
    report.quantized += counts.quantized.into_inner();
    Ok(())
}

/// Tensors found sound.
#[derive(Default)]
struct Counts {
    sparse: AtomicU64,
    quantized: AtomicU64,
}

fn check_one(tensor: &Tensor, state: &State, counts: &Counts) -> Result<()> {
    let (checked, count) = match tensor.layout() {
        Layout::SparseCsr | Layout::PackedCsr => (tensor.csr().map(drop), &counts.sparse),
        Layout::SparseCoo | Layout::PackedCoo => (tensor.coo().map(drop), &counts.sparse),
        Layout::QuantizedGroup => (tensor.quantized().map(drop), &counts.quantized),
        other => {
            let (at, name) = (tensor.position(), tensor.name());
            state.skip(at, Reason::UnknownLayout, name, None, || {
                format!("layout `{}` is not known", other.as_str().escape_debug())
            });
            return Ok(());
        }
    };
    match checked {
        Ok(()) => {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(e) => state.find(tensor.position(), u64::MAX, e),
    }
}
