//! What most pages never ask for, in the whole module alone: archives, what pickles do, comparing, writing, how schemas change.

mod archive;
mod changes;
mod dataset;
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
use diff::Differ;
use holdall_core::Error;
use migrate::Migration;
use model::Model;
use package::Package;
use scan::Scanner;
use write::Writer;

/// What an instance holds of that.
#[derive(Default)]
pub(crate) struct Whole {
    /// Datasets and blobs of the file that is written.
    parts: Vec<Part>,
    writer: Option<Writer>,
    /// The file that another one is compared with.
    aside: Option<File>,
    differ: Option<Differ>,
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
        self.scanner.as_mut().ok_or_else(|| CALL.broken("nothing is scanned"))
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
        self.migration.as_ref().ok_or_else(|| CALL.broken("no file is migrated"))
    }

    fn differ(&mut self) -> Result<&mut Differ, Error> {
        self.differ.as_mut().ok_or_else(|| CALL.broken("nothing is compared"))
    }
}

/// Sets the open file aside, to be compared with the next.
#[unsafe(no_mangle)]
pub extern "C" fn set_aside() -> u32 {
    call(|state| {
        state.whole.aside = state.file.take();
        Ok(Answer::NOTHING)
    })
}

/// Begins to compare the file that was set aside with the open one: how many tensors are in both.
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

/// What is to be compared of a pair: see [`Differ::pair`].
#[unsafe(no_mangle)]
pub extern "C" fn diff_pair(at: u32) -> u32 {
    call(|state| state.whole.differ()?.pair(at))
}

/// The values of a pair cannot be compared.
#[unsafe(no_mangle)]
pub extern "C" fn diff_incomparable(at: u32) -> u32 {
    call(|state| state.whole.differ()?.incomparable(at))
}

/// The components of a pair: see [`Differ::components`].
#[unsafe(no_mangle)]
pub extern "C" fn diff_components(at: u32) -> u32 {
    call(|state| state.whole.differ()?.components(at))
}

/// All components of a pair were compared: see [`Differ::components_end`].
#[unsafe(no_mangle)]
pub extern "C" fn diff_components_end(at: u32) -> u32 {
    call(|state| state.whole.differ()?.components_end(at))
}

/// Begins to compare elements: see [`Differ::values`].
#[unsafe(no_mangle)]
pub extern "C" fn diff_values(at: u32, component: u32) -> u32 {
    call(|state| state.whole.differ()?.values(at, component))
}

/// The input is the next `count` elements of both, those of the first `len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn diff_push(len: usize, count: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.differ()?.push(&bytes, len, count)
    })
}

/// All elements were compared.
#[unsafe(no_mangle)]
pub extern "C" fn diff_values_end() -> u32 {
    call(|state| state.whole.differ()?.values_end())
}

/// The components of a pair hold the same records, or runs: where the heap has their bytes says nothing of them.
#[unsafe(no_mangle)]
pub extern "C" fn diff_same_content(at: u32) -> u32 {
    call(|state| state.whole.differ()?.same_content(at))
}

/// What differs.
#[unsafe(no_mangle)]
pub extern "C" fn diff_finish() -> u32 {
    call(|state| match state.whole.differ.take() {
        Some(differ) => Ok(differ.finish()),
        None => Err(CALL.broken("nothing is compared")),
    })
}

/// The digest of what the file holds, where its format has one; what that takes of the file comes by [`crate::add`].
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

/// The input is what that zip has at `offset`.
#[unsafe(no_mangle)]
pub extern "C" fn archive_add(offset: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.archive()?.add(offset, bytes);
        Ok(Answer::NOTHING)
    })
}

/// The files in it: see [`Archive::list`].
#[unsafe(no_mangle)]
pub extern "C" fn archive_list(gap: u64) -> u32 {
    call(|state| state.whole.archive()?.list(gap))
}

/// The bytes of the file of that number.
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

/// Whether a file of the name in the input says which files a model is of, and has no tensors itself.
#[unsafe(no_mangle)]
pub extern "C" fn model_named() -> u32 {
    call(|state| Ok(Answer::numbers([model::is_one(&state.take()).into()])))
}

/// The next of the files that [`model_step`] asked for: see [`Model::file`].
#[unsafe(no_mangle)]
pub extern "C" fn model_file(how: u32, len: u64) -> u32 {
    call(|state| state.whole.model()?.file(how, len))
}

/// The input is what the file of that number has at `offset`.
#[unsafe(no_mangle)]
pub extern "C" fn model_add(file: u32, offset: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.model()?.add(file, offset, bytes)
    })
}

/// Goes on, until the model is the open file: see [`Model::step`].
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

/// Begins to look at the files of a package of `len` bytes, under the limits of the last [`begin`].
#[unsafe(no_mangle)]
pub extern "C" fn package_begin(len: u64) -> u32 {
    call(|state| {
        state.whole.package = Some(Package::begin(len, &state.limits));
        Ok(Answer::NOTHING)
    })
}

/// The input is what that package has at `offset`.
#[unsafe(no_mangle)]
pub extern "C" fn package_add(offset: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.package()?.add(offset, bytes);
        Ok(Answer::NOTHING)
    })
}

/// Its files: see [`Package::files`].
#[unsafe(no_mangle)]
pub extern "C" fn package_files(gap: u64) -> u32 {
    call(|state| state.whole.package()?.files(gap))
}

/// The files of tensors that it links to: see [`Package::linked`].
#[unsafe(no_mangle)]
pub extern "C" fn package_linked(gap: u64) -> u32 {
    call(|state| state.whole.package()?.linked(gap))
}

/// Opens it with those: see [`Package::decode`].
#[unsafe(no_mangle)]
pub extern "C" fn package_decode(gap: u64) -> u32 {
    call(|state| {
        let input = state.take();
        let (answer, file) = state.whole.package()?.decode(&input, gap)?;
        state.file = file.or(state.file.take());
        Ok(answer)
    })
}

/// Begins to read one: see [`Package::file`].
#[unsafe(no_mangle)]
pub extern "C" fn package_file(at: u32, gap: u64) -> u32 {
    call(|state| state.whole.package()?.file(at, gap))
}

/// The input is the next stored bytes of that file.
#[unsafe(no_mangle)]
pub extern "C" fn package_push() -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.package()?.push(bytes)
    })
}

/// All bytes of that file were taken: see [`Package::file_end`].
#[unsafe(no_mangle)]
pub extern "C" fn package_file_end() -> u32 {
    call(|state| state.whole.package()?.file_end())
}

/// Begins to look for pickles in a file of `len` bytes, under the limits of the last [`begin`]. The input is its name.
#[unsafe(no_mangle)]
pub extern "C" fn scan_begin(len: u64) -> u32 {
    call(|state| {
        state.whole.scanner = Some(Scanner::begin(&state.take(), len, &state.limits));
        Ok(Answer::NOTHING)
    })
}

/// The input is what that file has at `offset`.
#[unsafe(no_mangle)]
pub extern "C" fn scan_add(offset: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.scanner()?.add(offset, bytes);
        Ok(Answer::NOTHING)
    })
}

/// Goes on: see [`Scanner::step`].
#[unsafe(no_mangle)]
pub extern "C" fn scan_step(gap: u64) -> u32 {
    call(|state| state.whole.scanner()?.step(gap))
}

/// What was found.
#[unsafe(no_mangle)]
pub extern "C" fn scan_finish() -> u32 {
    call(|state| match state.whole.scanner.take() {
        Some(scanner) => Ok(scanner.finish()),
        None => Err(CALL.broken("nothing is scanned")),
    })
}

/// Compares two schemas: the input is both, the first of `len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn schema_diff(len: usize, reading: u32) -> u32 {
    call(|state| changes::diff_of(&state.take(), len, reading))
}

/// The schema of a header's references, in standard keywords: the input is the schema of a file.
#[unsafe(no_mangle)]
pub extern "C" fn schema_header() -> u32 {
    call(|state| changes::header_schema(&state.take()))
}

/// Records as a reader with another schema has them: see [`evolve::records`].
#[unsafe(no_mangle)]
pub extern "C" fn records_evolve(told: usize, old: usize, new: usize, data: usize) -> u32 {
    call(|state| {
        let limits = state.limits.of_schemas();
        evolve::records(&state.take(), [told, old, new, data], &limits)
    })
}

/// What a migration from one schema to another would do: see [`plan::plan`].
#[unsafe(no_mangle)]
pub extern "C" fn schema_plan(told: usize, len: usize, reading: u32) -> u32 {
    call(|state| plan::plan(&state.take(), [told, len], reading))
}

/// Decides what becomes of the open file under another schema: see [`Migration::begin`].
#[unsafe(no_mangle)]
pub extern "C" fn migrate_begin(len: usize) -> u32 {
    call(|state| {
        let (input, limits) = (state.take(), state.limits.of_schemas());
        let (migration, answer) = Migration::begin(&input, len, state.file()?.index()?, &limits)?;
        state.whole.migration = Some(migration);
        Ok(answer)
    })
}

/// What the input, elements of a tensor of the file, become: see [`Migration::elements`].
#[unsafe(no_mangle)]
pub extern "C" fn migrate_elements(number: u32, first: u64) -> u32 {
    call(|state| {
        let input = state.take();
        state.whole.migration()?.elements(number, first, &input)
    })
}

/// The bytes of a tensor that a default makes.
#[unsafe(no_mangle)]
pub extern "C" fn migrate_filled(number: u32) -> u32 {
    call(|state| state.whole.migration()?.filled(number))
}

/// Makes a tensor of the migrated file one of those that are written, one more than there are: see [`Migration::part`].
#[unsafe(no_mangle)]
pub extern "C" fn migrate_part(number: u32, data: u64, heap: u64) -> u32 {
    call(|state| {
        let part = state.whole.migration()?.part(number, [data, heap])?;
        state.whole.parts.push(part);
        Ok(Answer::NOTHING)
    })
}

/// The schemas of plain values: see [`values::schemas`].
#[unsafe(no_mangle)]
pub extern "C" fn value_schemas(len: usize) -> u32 {
    call(|state| {
        let limits = state.limits.of_schemas();
        values::schemas(&state.take(), len, &limits)
    })
}

/// Begins a dataset, one more than there are: see [`Dataset::begin`].
#[unsafe(no_mangle)]
pub extern "C" fn dataset_begin(len: usize) -> u32 {
    call(|state| {
        let (dataset, answer) = Dataset::begin(&state.take(), len, &state.limits)?;
        state.whole.parts.push(Part::Dataset(Box::new(dataset)));
        Ok(answer)
    })
}

/// Begins a blob, one more than there are: see [`Blob::begin`].
#[unsafe(no_mangle)]
pub extern "C" fn blob_begin() -> u32 {
    call(|state| {
        let blob = Blob::begin(&state.take(), &state.limits)?;
        state.whole.parts.push(Part::Blob(blob));
        Ok(Answer::NOTHING)
    })
}

/// The input is more of the last dataset or blob: see [`Part::push`].
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

/// Where a component of the tensor that is number `at` in the order of writing starts, in a file of `end` bytes, how many bytes it has,
/// and whether they are summed.
#[unsafe(no_mangle)]
pub extern "C" fn write_place(at: u32, component: u32, end: u64) -> u32 {
    call(|state| state.whole.writer()?.place(at, component, end))
}

/// The input is bytes of that component, to be summed.
#[unsafe(no_mangle)]
pub extern "C" fn write_sum() -> u32 {
    call(|state| {
        let bytes = state.take();
        state.whole.writer()?.sum(&bytes);
        Ok(Answer::NOTHING)
    })
}

/// All bytes of that component were written.
#[unsafe(no_mangle)]
pub extern "C" fn write_placed(at: u32, component: u32) -> u32 {
    call(|state| state.whole.writer()?.placed(at, component))
}

/// The bytes of the end of a file of `end` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn write_finish(end: u64) -> u32 {
    call(|state| match state.whole.writer.take() {
        Some(writer) => writer.finish(end),
        None => Err(CALL.broken("no file is being written")),
    })
}
