//! Rarely used functions, only in the whole module: archives, scanning pickles, comparing,
//! writing, schema evolution.

mod archive;
mod changes;
mod dataset;
mod delta;
mod diff;
mod evolve;
mod migrate;
mod model;
mod package;
mod plan;
mod scan;
mod values;
mod write;

pub(crate) use package::tensor as tensor_of_package;

use crate::file::File;
use crate::json::CALL;
use crate::{Answer, call};
use archive::Archive;
use dataset::{Blob, Dataset, Part};
use delta::Delta;
use diff::Differ;
use holdall_core::Error;
use migrate::Migration;
use model::Model;
use package::Package;
use scan::Scanner;
use write::Writer;

/// The state of these functions.
#[derive(Default)]
pub(crate) struct Whole {
    /// Datasets and blobs of the file that is being written.
    parts: Vec<Part>,
    writer: Option<Writer>,
    /// The file that the open one is compared with.
    aside: Option<File>,
    differ: Option<Differ>,
    delta: Delta,
    scanner: Option<Scanner>,
    archive: Option<Archive>,
    package: Option<Package>,
    model: Option<Model>,
    migration: Option<Migration>,
}

impl Whole {
    fn writer(&mut self) -> Result<&mut Writer, Error> {
        self.writer.as_mut().ok_or_else(|| CALL.broken("no file is being written"))
    }

    fn part(&mut self) -> Result<&mut Part, Error> {
        let part = self.parts.last_mut();
        part.ok_or_else(|| CALL.broken("no dataset or blob is being written"))
    }

    fn scanner(&mut self) -> Result<&mut Scanner, Error> {
        self.scanner.as_mut().ok_or_else(|| CALL.broken("no scan was begun"))
    }

    fn archive(&mut self) -> Result<&mut Archive, Error> {
        self.archive.as_mut().ok_or_else(|| CALL.broken("no archive is open"))
    }

    fn package(&mut self) -> Result<&mut Package, Error> {
        self.package.as_mut().ok_or_else(|| CALL.broken("no package is open"))
    }

    fn model(&mut self) -> Result<&mut Model, Error> {
        self.model.as_mut().ok_or_else(|| CALL.broken("no model is being opened"))
    }

    fn migration(&self) -> Result<&Migration, Error> {
        self.migration.as_ref().ok_or_else(|| CALL.broken("no migration was begun"))
    }

    fn differ(&mut self) -> Result<&mut Differ, Error> {
        self.differ.as_mut().ok_or_else(|| CALL.broken("no comparison was begun"))
    }
}

/// Sets the open file aside, to be compared with the next one.
#[unsafe(no_mangle)]
pub extern "C" fn set_aside() -> u32 {
    call(|state| {
        state.whole.aside = state.file.take();
        Ok(Answer::NOTHING)
    })
}

/// Begins to compare the file that was set aside with the open one; returns the number of tensors
/// in both.
#[unsafe(no_mangle)]
pub extern "C" fn diff_begin(rtol: f64, atol: f64) -> u32 {
    call(|state| {
        let Some(aside) = &state.whole.aside else {
            return Err(CALL.broken("no file was set aside"));
        };
        let differ = Differ::begin(aside.index()?, state.file()?.index()?, rtol, atol);
        let len = differ.len();
        state.whole.differ = Some(differ);
        Ok(len)
    })
}

/// Returns what to compare for a pair: see [`Differ::pair`].
#[unsafe(no_mangle)]
pub extern "C" fn diff_pair(at: u32) -> u32 {
    call(|state| state.whole.differ()?.pair(at))
}

/// Records that the values of a pair cannot be compared.
#[unsafe(no_mangle)]
pub extern "C" fn diff_incomparable(at: u32) -> u32 {
    call(|state| state.whole.differ()?.incomparable(at))
}

/// Returns the components of a pair: see [`Differ::components`].
#[unsafe(no_mangle)]
pub extern "C" fn diff_components(at: u32) -> u32 {
    call(|state| state.whole.differ()?.components(at))
}

/// Ends the comparison of a pair's components: see [`Differ::components_end`].
#[unsafe(no_mangle)]
pub extern "C" fn diff_components_end(at: u32) -> u32 {
    call(|state| state.whole.differ()?.components_end(at))
}

/// Begins to compare elements: see [`Differ::values`].
#[unsafe(no_mangle)]
pub extern "C" fn diff_values(at: u32, component: u32) -> u32 {
    call(|state| state.whole.differ()?.values(at, component))
}

/// Compares the next `count` elements of both sides; those of the first side have `len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn diff_push(len: usize, count: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.differ()?.push(&bytes, len, count)
    })
}

/// Ends the comparison of elements.
#[unsafe(no_mangle)]
pub extern "C" fn diff_values_end() -> u32 {
    call(|state| state.whole.differ()?.values_end())
}

/// Records that both sides have the same records or runs, stored at different places in the heap.
#[unsafe(no_mangle)]
pub extern "C" fn diff_same_content(at: u32) -> u32 {
    call(|state| state.whole.differ()?.same_content(at))
}

/// Returns the pairs whose values must be read for the sums of their layers.
#[unsafe(no_mangle)]
pub extern "C" fn diff_unsummed() -> u32 {
    call(|state| Ok(state.whole.differ()?.unsummed()))
}

/// Returns the differences.
#[unsafe(no_mangle)]
pub extern "C" fn diff_finish() -> u32 {
    call(|state| match state.whole.differ.take() {
        Some(differ) => Ok(differ.finish()),
        None => Err(CALL.broken("no comparison was begun")),
    })
}

/// Returns the attribute of the open file, a delta: see [`delta::head`].
#[unsafe(no_mangle)]
pub extern "C" fn delta_head() -> u32 {
    call(|state| delta::head(state.file()?))
}

/// Begins to apply the difference of a tensor of the open file whose components are held: see [`Delta::begin`].
#[unsafe(no_mangle)]
pub extern "C" fn delta_begin(at: u32) -> u32 {
    call(|state| {
        let held = std::mem::take(&mut state.held);
        let info = state.file()?.info(at)?;
        state.whole.delta.begin(&info, &held)
    })
}

/// Returns the elements of a block of the target; the input is those of the base.
#[unsafe(no_mangle)]
pub extern "C" fn delta_apply(block: u64) -> u32 {
    call(|state| {
        let elements = state.take();
        state.whole.delta.apply(block, &elements)
    })
}

/// Appends a tensor of the target to the tensors to be written: that of the file that was set aside, the base, or of the open one.
/// See [`delta::part`].
#[unsafe(no_mangle)]
pub extern "C" fn delta_part(at: u32, is_aside: u32) -> u32 {
    call(|state| {
        let file = match (is_aside, &state.whole.aside) {
            (0, _) => state.file()?,
            (_, Some(aside)) => aside,
            (_, None) => return Err(CALL.broken("no file was set aside")),
        };
        let (part, answer) = delta::part(&file.info(at)?)?;
        state.whole.parts.push(part);
        Ok(answer)
    })
}

/// Begins a digest of elements, of the kind that the input is.
#[unsafe(no_mangle)]
pub extern "C" fn delta_digest() -> u32 {
    call(|state| {
        let like = state.take();
        Ok(state.whole.delta.digest(&like))
    })
}

/// Adds the input to the digest.
#[unsafe(no_mangle)]
pub extern "C" fn delta_sum() -> u32 {
    call(|state| {
        let bytes = state.take();
        Ok(state.whole.delta.sum(&bytes))
    })
}

/// Returns the digest.
#[unsafe(no_mangle)]
pub extern "C" fn delta_digest_end() -> u32 {
    call(|state| state.whole.delta.digest_end())
}

/// Returns the digest of the file's contents, if its format has one; needed ranges are passed to
/// [`crate::add`].
#[unsafe(no_mangle)]
pub extern "C" fn content(gap: u64) -> u32 {
    call(|state| {
        let limits = state.limits.clone();
        state.file()?.content(&limits, gap)
    })
}

/// Begins to read a zip of `len` bytes, under the limits of the last [`begin`].
#[unsafe(no_mangle)]
pub extern "C" fn archive_begin(len: u64) -> u32 {
    call(|state| {
        state.whole.archive = Some(Archive::begin(len, &state.limits));
        Ok(Answer::NOTHING)
    })
}

/// Adds bytes of the zip; the input is at `offset`.
#[unsafe(no_mangle)]
pub extern "C" fn archive_add(offset: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.archive()?.add(offset, bytes);
        Ok(Answer::NOTHING)
    })
}

/// Returns the files in the zip: see [`Archive::list`].
#[unsafe(no_mangle)]
pub extern "C" fn archive_list(gap: u64) -> u32 {
    call(|state| state.whole.archive()?.list(gap))
}

/// Returns the bytes of the file with that index.
#[unsafe(no_mangle)]
pub extern "C" fn archive_read(at: u32, gap: u64) -> u32 {
    call(|state| state.whole.archive()?.read(at, gap))
}

/// Begins to open a model of several files, under the limits of the last [`begin`]: see [`Model::begin`].
#[unsafe(no_mangle)]
pub extern "C" fn model_begin(is_folder: u32) -> u32 {
    call(|state| {
        state.whole.model = Some(Model::begin(&state.take(), is_folder != 0, &state.limits));
        Ok(Answer::NOTHING)
    })
}

/// Returns whether a file with the name in the input lists the files of a model, and has no
/// tensors itself.
#[unsafe(no_mangle)]
pub extern "C" fn model_named() -> u32 {
    call(|state| Ok(Answer::numbers([model::is_one(&state.take()).into()])))
}

/// Adds the next of the files that [`model_step`] requested: see [`Model::file`].
#[unsafe(no_mangle)]
pub extern "C" fn model_file(how: u32, len: u64) -> u32 {
    call(|state| state.whole.model()?.file(how, len))
}

/// Adds bytes of a file by its number; the input is at `offset`.
#[unsafe(no_mangle)]
pub extern "C" fn model_add(file: u32, offset: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.model()?.add(file, offset, bytes)
    })
}

/// Continues until the model is the open file: see [`Model::step`].
#[unsafe(no_mangle)]
pub extern "C" fn model_step(gap: u64) -> u32 {
    call(|state| {
        let (answer, file) = state.whole.model()?.step(gap)?;
        if file.is_some() {
            (state.file, state.whole.model) = (file, None);
        }
        Ok(answer)
    })
}

/// Begins to check the files of a package of `len` bytes, under the limits of the last [`begin`].
#[unsafe(no_mangle)]
pub extern "C" fn package_begin(len: u64) -> u32 {
    call(|state| {
        state.whole.package = Some(Package::begin(len, &state.limits));
        Ok(Answer::NOTHING)
    })
}

/// Adds bytes of the package; the input is at `offset`.
#[unsafe(no_mangle)]
pub extern "C" fn package_add(offset: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.package()?.add(offset, bytes);
        Ok(Answer::NOTHING)
    })
}

/// Returns the files of the package: see [`Package::files`].
#[unsafe(no_mangle)]
pub extern "C" fn package_files(gap: u64) -> u32 {
    call(|state| state.whole.package()?.files(gap))
}

/// Returns the files of tensors that the package links to: see [`Package::linked`].
#[unsafe(no_mangle)]
pub extern "C" fn package_linked(gap: u64) -> u32 {
    call(|state| state.whole.package()?.linked(gap))
}

/// Opens the package with its linked files: see [`Package::decode`].
#[unsafe(no_mangle)]
pub extern "C" fn package_decode(gap: u64) -> u32 {
    call(|state| {
        let input = state.take();
        let (answer, file) = state.whole.package()?.decode(&input, gap)?;
        state.file = file.or(state.file.take());
        Ok(answer)
    })
}

/// Begins to read a file: see [`Package::file`].
#[unsafe(no_mangle)]
pub extern "C" fn package_file(at: u32, gap: u64) -> u32 {
    call(|state| state.whole.package()?.file(at, gap))
}

/// Adds the next stored bytes of that file, the input.
#[unsafe(no_mangle)]
pub extern "C" fn package_push() -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.package()?.push(bytes)
    })
}

/// Ends the file: see [`Package::file_end`].
#[unsafe(no_mangle)]
pub extern "C" fn package_file_end() -> u32 {
    call(|state| state.whole.package()?.file_end())
}

/// Begins to scan a file of `len` bytes for pickles, under the limits of the last [`begin`]. The
/// input is its name.
#[unsafe(no_mangle)]
pub extern "C" fn scan_begin(len: u64) -> u32 {
    call(|state| {
        state.whole.scanner = Some(Scanner::begin(&state.take(), len, &state.limits));
        Ok(Answer::NOTHING)
    })
}

/// Adds bytes of the file; the input is at `offset`.
#[unsafe(no_mangle)]
pub extern "C" fn scan_add(offset: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.scanner()?.add(offset, bytes);
        Ok(Answer::NOTHING)
    })
}

/// Continues the scan: see [`Scanner::step`].
#[unsafe(no_mangle)]
pub extern "C" fn scan_step(gap: u64) -> u32 {
    call(|state| state.whole.scanner()?.step(gap))
}

/// Returns the report of the scan.
#[unsafe(no_mangle)]
pub extern "C" fn scan_finish() -> u32 {
    call(|state| match state.whole.scanner.take() {
        Some(scanner) => Ok(scanner.finish()),
        None => Err(CALL.broken("no scan was begun")),
    })
}

/// Compares two schemas: the input is both, the first of `len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn schema_diff(len: usize, reading: u32) -> u32 {
    call(|state| changes::diff_of(&state.take(), len, reading))
}

/// Returns the schema of a header's references, in standard keywords; the input is the schema of
/// a file.
#[unsafe(no_mangle)]
pub extern "C" fn schema_header() -> u32 {
    call(|state| changes::header_schema(&state.take()))
}

/// Converts records to another schema: see [`evolve::records`].
#[unsafe(no_mangle)]
pub extern "C" fn records_evolve(request_len: usize, old: usize, new: usize, data: usize) -> u32 {
    call(|state| {
        let limits = state.limits.schema_limits();
        evolve::records(&state.take(), [request_len, old, new, data], &limits)
    })
}

/// Returns the steps of a migration from one schema to another: see [`plan::plan`].
#[unsafe(no_mangle)]
pub extern "C" fn schema_plan(request_len: usize, len: usize, reading: u32) -> u32 {
    call(|state| plan::plan(&state.take(), [request_len, len], reading))
}

/// Plans the migration of the open file to another schema: see [`Migration::begin`].
#[unsafe(no_mangle)]
pub extern "C" fn migrate_begin(len: usize) -> u32 {
    call(|state| {
        let (input, limits) = (state.take(), state.limits.schema_limits());
        let (migration, answer) = Migration::begin(&input, len, state.file()?.index()?, &limits)?;
        state.whole.migration = Some(migration);
        Ok(answer)
    })
}

/// Converts elements of a tensor of the file, the input: see [`Migration::elements`].
#[unsafe(no_mangle)]
pub extern "C" fn migrate_elements(number: u32, first: u64) -> u32 {
    call(|state| {
        let input = state.take();
        state.whole.migration()?.elements(number, first, &input)
    })
}

/// Returns the bytes of a tensor that is filled with a default.
#[unsafe(no_mangle)]
pub extern "C" fn migrate_filled(number: u32) -> u32 {
    call(|state| state.whole.migration()?.filled(number))
}

/// Appends a tensor of the migrated file to the tensors to be written: see [`Migration::part`].
#[unsafe(no_mangle)]
pub extern "C" fn migrate_part(number: u32, data: u64, heap: u64) -> u32 {
    call(|state| {
        let part = state.whole.migration()?.part(number, [data, heap])?;
        state.whole.parts.push(part);
        Ok(Answer::NOTHING)
    })
}

/// Returns the schemas of plain values: see [`values::schemas`].
#[unsafe(no_mangle)]
pub extern "C" fn value_schemas(len: usize) -> u32 {
    call(|state| {
        let limits = state.limits.schema_limits();
        values::schemas(&state.take(), len, &limits)
    })
}

/// Begins a further dataset: see [`Dataset::begin`].
#[unsafe(no_mangle)]
pub extern "C" fn dataset_begin(len: usize) -> u32 {
    call(|state| {
        let (dataset, answer) = Dataset::begin(&state.take(), len, &state.limits)?;
        state.whole.parts.push(Part::Dataset(Box::new(dataset)));
        Ok(answer)
    })
}

/// Begins a further blob: see [`Blob::begin`].
#[unsafe(no_mangle)]
pub extern "C" fn blob_begin() -> u32 {
    call(|state| {
        let blob = Blob::begin(&state.take(), &state.limits)?;
        state.whole.parts.push(Part::Blob(blob));
        Ok(Answer::NOTHING)
    })
}

/// Adds the input to the last dataset or blob: see [`Part::push`].
#[unsafe(no_mangle)]
pub extern "C" fn part_push() -> u32 {
    call(|state| {
        let input = state.take();
        state.whole.part()?.push(&input)
    })
}

/// Takes the bytes of the first component of the last dataset or blob, or of its heap: see [`Part::take`].
#[unsafe(no_mangle)]
pub extern "C" fn part_take(heap: u32) -> u32 {
    call(|state| Ok(state.whole.part()?.take(heap != 0)))
}

/// Begins to write a file: see [`Writer::begin`].
#[unsafe(no_mangle)]
pub extern "C" fn write_begin() -> u32 {
    call(|state| {
        let (writer, answer) = {
            let input = state.take();
            Writer::begin(&input, state.limits.depth, &state.whole.parts, state.file.as_ref())?
        };
        state.whole.writer = Some(writer);
        Ok(answer)
    })
}

/// Begins a component of the tensor at index `at` in the order of writing, in a file of `end`
/// bytes: returns its offset, its length, and whether it is hashed.
#[unsafe(no_mangle)]
pub extern "C" fn write_place(at: u32, component: u32, end: u64) -> u32 {
    call(|state| state.whole.writer()?.place(at, component, end))
}

/// Hashes bytes of that component, the input.
#[unsafe(no_mangle)]
pub extern "C" fn write_sum() -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.writer()?.sum(&bytes);
        Ok(Answer::NOTHING)
    })
}

/// Ends that component.
#[unsafe(no_mangle)]
pub extern "C" fn write_placed(at: u32, component: u32) -> u32 {
    call(|state| state.whole.writer()?.component_written(at, component))
}

/// Returns the bytes at the end of a file of `end` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn write_finish(end: u64) -> u32 {
    call(|state| match state.whole.writer.take() {
        Some(writer) => writer.finish(end),
        None => Err(CALL.broken("no file is being written")),
    })
}
