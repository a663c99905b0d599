//! Applying a delta to the file of its base, instead of writing the target anew.

use super::apply::{changed, check, target_attributes, whole, with_attributes};
use super::{ApplyReport, BASE, UNFIT, is_delta, is_difference, read_head};
use crate::convert::Convert;
use crate::edit::{Edit, HEADER_FIRST};
use crate::repack::SparseForms;
use holdall_core::layout::delta::KEY;
use holdall_core::{Attributes, Result};
use holdall_io::{OpenOptions, WriteOptions};
use std::path::Path;

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// The base cannot be changed in place.
    pub NOT_IN_PLACE: Unsupported "delta/not-in-place"
        "A delta is applied in place to one zTensor 1.x file on a file system that can insert ranges (ext4, XFS), so that the base is complete until the target is."
        hint "write the target to another file, which takes its place once it is complete";
}

/// Options of [`apply_in_place`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct InPlaceOptions {
    /// How the base is opened.
    pub open: OpenOptions,
    /// How changed tensors are written.
    pub write: WriteOptions,
}

/// Changes the base at `path` into the target of `delta`. The changed tensors are written into the file next to the old ones, and the file
/// becomes the target in one step after all of them have the digests of the target: at every instant, also after a kill or a power
/// cut, the file is the whole base or the whole target. The bytes of old tensors are then erased.
///
/// All that [`apply`](super::apply()) checks is checked before anything is written. Changed tensors come after the others in the file.
///
/// # Errors
/// Returns `delta/not-in-place` with the reason if this cannot be done with this file; the errors of [`apply`](super::apply()). After
/// any error the file is the base.
pub fn apply_in_place(
    path: impl AsRef<Path>,
    delta: &holdall_io::File,
    options: &InPlaceOptions,
) -> Result<ApplyReport> {
    let path = path.as_ref();
    let refused = |why: &str| NOT_IN_PLACE.broken(why.to_owned()).in_source(path.display());
    let mut edit = Edit::open_with(path, &options.open)?.with_write(options.write.clone());
    let base = edit.file().clone();
    if is_delta(&base) {
        return Err(UNFIT.broken("it is a delta itself").in_source(base.name()));
    }
    let format = holdall_formats::by_name(base.format());
    let format = format.filter(|format| format.ends_in_manifest);
    let format = format.ok_or_else(|| refused(HEADER_FIRST))?;
    if base.index().source_lens().count() > 1 {
        return Err(refused("it is in several files, which cannot change at the same instant"));
    }
    let head = read_head(delta)?;
    let work = options.write.work.clone();
    let checked = check(&base, delta, &head, &work)?;
    let mut report = ApplyReport { was_applied: checked.was_applied, ..ApplyReport::default() };
    let mut attributes = delta.attributes().clone();
    attributes.remove(KEY);
    let has_attributes = *base.attributes() == attributes
        && delta.tensors().filter(is_difference).all(|new| {
            let attributes = target_attributes(&new);
            base.tensor(new.name()).is_ok_and(|old| *old.attributes() == attributes)
        });
    if checked.was_applied && has_attributes {
        (report.tensors, report.len) = (base.len() as u64, base.index().source_len());
        return Ok(report);
    }
    let write = options.write.clone().with_format(format);
    let encoder = write.encoder(format)?;
    let forms = SparseForms::for_encoder(&*encoder);
    let convert = Convert::new(write.clone());
    for name in head.removed.iter().filter(|_| !checked.was_applied) {
        edit.remove(name)?;
        report.removed += 1;
    }
    let mut tensors = (base.len() as u64).saturating_sub(report.removed);
    for new in delta.tensors() {
        let old = base.tensor(new.name()).ok();
        tensors += u64::from(old.is_none());
        edit.put(match old.filter(|_| is_difference(&new)) {
            Some(old) if checked.was_applied => with_attributes(&old, &new)?,
            Some(old) => {
                report.changed += 1;
                changed(&old, &new, work.clone())?
            }
            None => {
                report.whole += u64::from(!checked.was_applied);
                whole(&new, &*encoder, &forms, &convert)?
            }
        })?;
    }
    if tensors != head.tensors {
        let stated = head.tensors;
        let message = format!("the target has {stated} tensors, but base and delta give {tensors}");
        return Err(BASE.broken(message).in_source(delta.name()));
    }
    report.tensors = tensors;
    set_attributes(&mut edit, base.attributes(), delta.attributes())?;
    report.len = edit.commit_in_place()?.map_err(refused)?.len;
    Ok(report)
}

/// Gives the file the attributes of the target.
fn set_attributes(edit: &mut Edit, old: &Attributes, new: &Attributes) -> Result<()> {
    for (key, _) in old.iter().filter(|(key, _)| new.get(key).is_none()) {
        edit.unset_attribute(key)?;
    }
    for (key, value) in new.iter().filter(|(key, _)| *key != KEY) {
        if old.get(key) != Some(value) {
            edit.set_attribute(key, value.clone());
        }
    }
    Ok(())
}
