//! The functions that JavaScript calls: one open file per instance of the module, and schemas.
//!
//! A call takes numbers, and bytes that the host wrote to [`input`]. It returns a status, and
//! bytes at [`output`] that are valid until the next call: numbers are `u64`, texts are JSON in
//! which an integer that a double cannot hold is `{"$int": "…"}`. The module does no I/O: if a
//! call needs bytes of the file, the answer has the ranges.
//!
//! In JavaScript every read is a promise, so formats must do no I/O. `js/src` fetches bytes and keeps arrays;
//! `js/wasm` does everything else: `decode` returns ranges until it has enough bytes, `plan` returns fetches and
//! their parts, and `push` returns what could be decoded, using an `Assembly`. Raw bytes do not go through the
//! module: JavaScript takes them from where the plan says they are.
//!
//! There are two modules. Every page loads the basic one, which is built without the feature `whole`: without the
//! other formats, without encoders (`write` of the core), and without `js/wasm/src/whole`. A file that the basic
//! module does not know is opened by the whole one, with the bytes that were already read; other code that needs
//! the whole module says so when it creates a `Core`.
//!
//! Each open file has its own instance of a module, so that a file that breaks its instance, by a trap at worst,
//! affects no other file: a dead instance is replaced by a new one, which opens the file again. Errors are passed
//! complete, as JSON; rules that the library has above its core (`http/…`, `file/…`) are a table in
//! `js/src/errors.ts`, which a test compares with `docs/rules.md`. No TypeScript knows about formats, so a format
//! that is built into the module needs no TypeScript.

mod check;
mod file;
mod json;
mod list;
mod read;
mod records;
mod schema;
mod stats;
mod view;
#[cfg(feature = "whole")]
mod whole;

use file::File;
use holdall_core::{Bytes, Error, Limits, Remedy};
use read::Reads;
use stats::Pass;
use std::cell::RefCell;

/// The state of an instance.
#[derive(Default)]
struct State {
    input: Vec<u8>,
    output: Vec<u8>,
    limits: Limits,
    file: Option<File>,
    reads: Reads,
    /// Decoded components of a tensor, for the next call.
    held: view::Held,
    pass: Option<Pass>,
    #[cfg(feature = "whole")]
    whole: whole::Whole,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// The result of a call.
enum Answer {
    /// The call is complete; the output.
    Done(Vec<u8>),
    /// The call needs these ranges of the file: starts and ends.
    Need(Vec<u8>),
}

impl Answer {
    const NOTHING: Answer = Answer::Done(Vec::new());

    fn text(text: String) -> Answer {
        Answer::Done(text.into_bytes())
    }

    fn numbers(numbers: impl IntoIterator<Item = u64>) -> Answer {
        Answer::Done(le(numbers))
    }
}

/// Encodes numbers for the host.
fn le(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Runs a call and returns its status: 0 for done, 1 if it needs ranges, 2 for an error, which is
/// the output.
fn call(run: impl FnOnce(&mut State) -> Result<Answer, Error>) -> u32 {
    STATE.with_borrow_mut(|state| {
        let (status, output) = match run(state) {
            Ok(Answer::Done(output)) => (0, output),
            Ok(Answer::Need(output)) => (1, output),
            Err(e) => (2, json::error(&e).into_bytes()),
        };
        state.input = Vec::new();
        state.output = output;
        status
    })
}

impl State {
    fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.input))
    }

    fn file(&self) -> Result<&File, Error> {
        self.file.as_ref().ok_or_else(|| json::CALL.broken("no file is open"))
    }

    fn pass(&mut self) -> Result<&mut Pass, Error> {
        self.pass.as_mut().ok_or_else(|| json::CALL.broken("no statistics were begun"))
    }

    fn file_mut(&mut self) -> Result<&mut File, Error> {
        self.file.as_mut().ok_or_else(|| json::CALL.broken("no file is open"))
    }
}

/// Sets the secret seed of hash maps: see `holdall_collections::seed`.
#[unsafe(no_mangle)]
pub extern "C" fn seed(a: u64, b: u64) {
    #[cfg(target_family = "wasm")]
    holdall_collections::seed([a, b]);
    let _ = (a, b);
}

/// Returns the address to which the host writes `len` bytes of input for the next call.
#[unsafe(no_mangle)]
pub extern "C" fn input(len: usize) -> *const u8 {
    STATE.with_borrow_mut(|state| {
        state.output = Vec::new();
        state.input = vec![0; len];
        state.input.as_ptr()
    })
}

/// Returns the address of the last call's output.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    STATE.with_borrow(|state| state.output.as_ptr())
}

/// Returns the length of the output.
#[unsafe(no_mangle)]
pub extern "C" fn output_len() -> usize {
    STATE.with_borrow(|state| state.output.len())
}

/// Begins to open a file of `len` bytes. The input is JSON: limits by name.
#[unsafe(no_mangle)]
pub extern "C" fn begin(len: u64) -> u32 {
    call(|state| {
        let text = state.take();
        state.limits = json::limits(&text)?;
        state.file = Some(File::new(len));
        Ok(Answer::NOTHING)
    })
}

/// Adds bytes of the file; the input is at `offset`.
#[unsafe(no_mangle)]
pub extern "C" fn add(offset: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.file_mut()?.add(offset, bytes);
        Ok(Answer::NOTHING)
    })
}

/// Decodes the index, or returns the ranges needed for it, joined if they are at most `gap` bytes
/// apart.
#[unsafe(no_mangle)]
pub extern "C" fn decode(gap: u64) -> u32 {
    call(|state| {
        let limits = state.limits.clone();
        state.file_mut()?.decode(&limits, gap)
    })
}

/// Returns all tensors for a list: see [`list::list`].
#[unsafe(no_mangle)]
pub extern "C" fn list() -> u32 {
    call(|state| Ok(list::list(state.file()?.index()?)))
}

/// Returns the properties of tensor `at` that a list does not include.
#[unsafe(no_mangle)]
pub extern "C" fn tensor(at: u32) -> u32 {
    call(|state| state.file()?.tensor(at))
}

/// Returns the index of the tensor whose name is the input, if it exists.
#[unsafe(no_mangle)]
pub extern "C" fn find() -> u32 {
    call(|state| {
        let name = state.take();
        state.file()?.find(&name)
    })
}

/// Returns the name most similar to the input, an unknown name; empty if none is similar enough.
#[unsafe(no_mangle)]
pub extern "C" fn near() -> u32 {
    call(|state| {
        let name = state.take();
        state.file()?.near(&name)
    })
}

/// Returns the range of the decoded component that holds rows of a dense tensor.
#[unsafe(no_mangle)]
pub extern "C" fn rows(at: u32, start: u64, end: u64) -> u32 {
    call(|state| state.file()?.rows(at, start..end))
}

/// Returns where the seek table of a component may be, and in which source, if it may have one
/// that was not read yet.
#[unsafe(no_mangle)]
pub extern "C" fn table(at: u32, component: u32) -> u32 {
    call(|state| state.file()?.table(at, component))
}

/// Reads a seek table; the input is the range that [`table`] or the previous call returned.
#[unsafe(no_mangle)]
pub extern "C" fn table_read(at: u32, component: u32) -> u32 {
    call(|state| {
        let end = state.take();
        state.file_mut()?.table_read(at, component, &end)
    })
}

/// Plans a read: see [`read::plan`].
#[unsafe(no_mangle)]
pub extern "C" fn plan(mode: u32, piece: u64, gap: u64, at_once: u32) -> u32 {
    call(|state| {
        let wants = state.take();
        read::plan(state, &wants, mode, read::hints(piece, gap, at_once))
    })
}

/// Adds bytes of a fetch; the input is `offset` bytes after the start of fetch `fetch` of a read.
#[unsafe(no_mangle)]
pub extern "C" fn push(read: u32, fetch: u32, offset: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.reads.push(read, fetch, offset, bytes)
    })
}

/// Ends a read, and makes the checks that need all of its bytes.
#[unsafe(no_mangle)]
pub extern "C" fn finish(read: u32) -> u32 {
    call(|state| state.reads.finish(read))
}

/// Discards a read.
#[unsafe(no_mangle)]
pub extern "C" fn forget(read: u32) -> u32 {
    call(|state| {
        state.reads.forget(read);
        Ok(Answer::NOTHING)
    })
}

/// Returns bytes that are stored in the table of contents.
#[unsafe(no_mangle)]
pub extern "C" fn stated(start: u64, end: u64) -> u32 {
    call(|state| state.file()?.stated(start..end))
}

/// Returns the components that checksums of the file cover: see [`File::covered`].
#[cfg(feature = "whole")]
#[unsafe(no_mangle)]
pub extern "C" fn covered() -> u32 {
    call(|state| state.file()?.covered())
}

/// Returns the chunks that hold a range of an array: source, start and end of each.
#[unsafe(no_mangle)]
pub extern "C" fn chunks(source: u32, start: u64, end: u64) -> u32 {
    call(|state| state.file()?.chunks(source, start..end))
}

/// Assembles a range of an array; the input is its chunks, concatenated.
#[unsafe(no_mangle)]
pub extern "C" fn unchunk(source: u32, start: u64, end: u64) -> u32 {
    call(|state| {
        let stored = state.take();
        state.file()?.unchunk(source, start..end, &stored)
    })
}

/// Holds a decoded component for the next call; the input is all of its bytes.
#[unsafe(no_mangle)]
pub extern "C" fn hold(component: u32) -> u32 {
    call(|state| {
        let bytes = state.take();
        state.held.insert(component, bytes);
        Ok(Answer::NOTHING)
    })
}

/// Returns the elements of a tensor whose components are held, in dense form.
#[unsafe(no_mangle)]
pub extern "C" fn dense(at: u32) -> u32 {
    call(|state| {
        let held = std::mem::take(&mut state.held);
        view::dense(state.file()?.info(at)?, &held, &state.limits)
    })
}

/// Returns the range of a tensor's data that holds elements `start..end`: see [`view::range`].
#[unsafe(no_mangle)]
pub extern "C" fn element_range(at: u32, start: u64, end: u64) -> u32 {
    call(|state| Ok(view::range(&state.file()?.info(at)?, start, end)))
}

/// Decodes whole blocks of a quantized tensor, the input, to `f32`.
#[unsafe(no_mangle)]
pub extern "C" fn blocks(at: u32) -> u32 {
    call(|state| {
        let bytes = state.take();
        view::blocks(&state.file()?.info(at)?, bytes)
    })
}

/// Returns groups of similar tensors.
#[unsafe(no_mangle)]
pub extern "C" fn groups() -> u32 {
    call(|state| Ok(list::groups(state.file()?.index()?)))
}

/// Returns the stored values of a sparse tensor whose components are held: see [`stats::stored`].
#[unsafe(no_mangle)]
pub extern "C" fn stored_values(at: u32) -> u32 {
    call(|state| {
        let held = std::mem::take(&mut state.held);
        let info = state.file()?.info(at)?;
        stats::stored(&info, &held, &state.limits).map_err(|e| e.in_tensor(info.name()))
    })
}

/// Begins statistics of elements of the type named by the input.
#[unsafe(no_mangle)]
pub extern "C" fn stats_begin(bins: u32) -> u32 {
    call(|state| {
        state.pass = Some(Pass::begin(&state.take(), bins)?);
        Ok(Answer::NOTHING)
    })
}

/// Adds elements; the input is the next ones.
#[unsafe(no_mangle)]
pub extern "C" fn stats_take() -> u32 {
    call(|state| {
        let bytes = state.take();
        state.pass()?.take(&bytes)
    })
}

/// Ends the first pass: see [`Pass::turn`].
#[unsafe(no_mangle)]
pub extern "C" fn stats_turn(zeros: u64) -> u32 {
    call(|state| Ok(state.pass()?.turn(zeros)))
}

/// Returns the statistics.
#[unsafe(no_mangle)]
pub extern "C" fn stats_finish() -> u32 {
    call(|state| match state.pass.take() {
        Some(pass) => Ok(pass.finish()),
        None => Err(json::CALL.broken("no statistics were begun")),
    })
}

/// Checks that the held components of a tensor fit together.
#[unsafe(no_mangle)]
pub extern "C" fn check(at: u32) -> u32 {
    call(|state| {
        let held = std::mem::take(&mut state.held);
        check::check(state.file()?.info(at)?, &held, &state.limits)
    })
}

/// Returns the layout of a dataset's records.
#[unsafe(no_mangle)]
pub extern "C" fn record_layout(at: u32) -> u32 {
    call(|state| {
        let info = state.file()?.info(at)?;
        records::layout(&info, &state.limits).map_err(|e| e.in_tensor(info.name()))
    })
}

/// Returns the held records of a dataset as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn record_lines(at: u32) -> u32 {
    call(|state| {
        let held = std::mem::take(&mut state.held);
        let info = state.file()?.info(at)?;
        records::lines(&info, &held, &state.limits).map_err(|e| e.in_tensor(info.name()))
    })
}

/// Converts elements to `f32` or `f64`; the input is the name of their type (`name_len` bytes)
/// and the elements.
#[unsafe(no_mangle)]
pub extern "C" fn numbers(name_len: u32, wide: u32) -> u32 {
    call(|state| {
        let input = state.take();
        view::numbers(&input, name_len as usize, wide != 0)
    })
}

/// Returns the gaps of the file that align components: see [`check::padding`].
#[unsafe(no_mangle)]
pub extern "C" fn padding() -> u32 {
    call(|state| check::padding(state.file()?))
}

/// Returns the gaps of the file that must be zero: start, end, and the index of the next tensor.
#[unsafe(no_mangle)]
pub extern "C" fn gaps() -> u32 {
    call(|state| check::gaps(state.file()?))
}

/// Checks the bytes of a gap, the input.
#[unsafe(no_mangle)]
pub extern "C" fn gap(start: u64, tensor: u64) -> u32 {
    call(|state| {
        let bytes = state.take();
        check::gap(state.file()?, start, &bytes, tensor)
    })
}

/// Returns the formats of this build.
#[unsafe(no_mangle)]
pub extern "C" fn format_list() -> u32 {
    call(|_| Ok(Answer::text(json::formats(holdall_formats::FORMATS))))
}

/// Returns the names of all remedies.
#[unsafe(no_mangle)]
pub extern "C" fn remedy_list() -> u32 {
    call(|_| Ok(Answer::text(json::texts(Remedy::examples().iter().map(|r| r.name())))))
}

/// Compiles the schema in the input and returns its paths, with types and locations of bytes.
/// `reading` is 1 for the schema of a record, 2 for that of a file, and otherwise it is detected.
#[unsafe(no_mangle)]
pub extern "C" fn schema_outline(reading: u32) -> u32 {
    call(|state| schema::outline(&state.take(), reading))
}
