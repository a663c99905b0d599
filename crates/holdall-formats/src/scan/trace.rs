//! Finds out what a pickle would import and call, without doing either.
//!
//! A pickle is a sequence of opcodes without jumps, so its imports are known once each opcode was interpreted up to
//! STOP, or up to an opcode at which every unpickler of CPython raises an exception. [`End`] says which of these it
//! was; if the analysis ended for another reason, the rest is unknown. If CPython's two unpicklers differ, the analysis
//! follows the one that continues: the C one accepts NUL bytes in lines and overlapping frames, the Python one accepts
//! a last line without a line end.
//!
//! Values are tracked only as far as needed to know names, and to distinguish objects that the pickle created from
//! objects that existed before: 16 bytes for each value on the stack or in the memo, whatever its length.

mod arrays;
mod machine;
mod value;

use super::names::Danger;
use holdall_core::error::Error;
use holdall_core::wire::pickle::{BROKEN, TOO_MANY};
use machine::Machine;

/// The maximum nesting of pickles in strings and bytes of pickles.
const MAX_NESTED: u32 = 4;
/// The maximum number of nested pickles that are reported.
const MAX_INNER: usize = 1000;
/// The maximum number of branches: how often the data after a pickle is analyzed for both `pickle.load` and joblib, if
/// the pickle ends at different offsets for them.
const MAX_BRANCHES: u32 = 64;
/// The maximum number of consecutive pickles that are reported.
const MAX_IN_SEQUENCE: usize = 1 << 16;

/// The bytes that contain a pickle.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The bytes from the start of the pickle on.
    pub bytes: &'a [u8],
    /// The number of bytes from the start of the pickle to the end of the file. `bytes` may have only the first of
    /// them.
    pub total: u64,
    /// The maximum number of values on the stack and in the memo at the same time.
    pub max_values: u64,
    /// Whether there is no known pickle before it, so that it may also be a text.
    pub is_first: bool,
}

/// How the analysis of a pickle ended.
#[derive(Debug)]
pub enum End {
    /// At STOP.
    Finished,
    /// At an opcode, or at the end of the bytes, at which every unpickler raises an exception.
    Raised(Error),
    /// Before either, because a limit was reached or a loader may continue in an unknown way.
    Unfollowed(Error),
    /// At the end of the available bytes, which is not the end of the file; see [`Input::total`].
    Cut,
}

/// The effects of unpickling a pickle.
#[derive(Debug)]
pub struct Trace {
    /// The imports of the pickle, each once, in the order of first use.
    pub imports: Vec<Import>,
    /// The highest protocol that it states; 0 if it states none.
    pub protocol: u64,
    /// The length of the pickle in bytes: up to STOP, or up to the end of the analysis.
    pub len: u64,
    /// How its analysis ended.
    pub end: End,
    /// Pickles in its strings and bytes, and their offsets. They are read only if a function that is called does so.
    pub inner: Vec<(u64, Trace)>,
    /// Pickles that joblib reads after its description of an array of objects, and their offsets.
    pub arrays: Vec<(u64, Trace)>,
    /// The reason why some of the pickles in its strings and bytes are not in `inner`.
    pub skipped: Option<Error>,
    /// The end of the pickle for `pickle.load`, if it differs from that for joblib: further pickles may follow both.
    other_end: Option<u64>,
    says_protocol: bool,
    is_first: bool,
}

/// An import of a pickle.
#[derive(Debug, Clone)]
pub struct Import {
    /// The module; `?` if it is known only by running the pickle.
    pub module: String,
    /// The name in the module: with dots if it is an attribute of an object there; `…(…)` for the result of a call.
    pub name: String,
    /// The verdict on it.
    pub danger: Danger,
    /// Whether it would also be called; importing alone runs a module.
    pub called: bool,
    /// The number of times that it is named.
    pub count: u64,
    /// The offset of the first of these, from the start of the pickle.
    pub offset: u64,
    /// The loaders that perform the import.
    certainty: Certainty,
}

/// The loaders that perform an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// All of them.
    All,
    /// Loaders in programs that registered the number of an extension; no program does so by default.
    Registered,
    /// CPython's unpickler in Python, which almost no program uses; the one in C raises an exception.
    Slow,
}

impl Trace {
    /// Analyzes the pickle at the start of the input, first as `pickle.load` reads it. If it has arrays of joblib, it
    /// is also analyzed as joblib reads it, because each array is followed by bytes that are not opcodes.
    pub fn new(input: Input<'_>) -> Trace {
        let plain = Machine::trace(input, false, 0);
        if !plain.imports.iter().any(|import| arrays::is_wrapper(&import.module, &import.name)) {
            return plain;
        }
        let mut trace = Machine::trace(input, true, 0);
        // Without an array before its end, it is the same pickle for both.
        if trace.len == plain.len {
            return trace;
        }
        for import in plain.imports {
            let is_new = |own: &Import| (&own.module, &own.name) != (&import.module, &import.name);
            if trace.imports.iter().all(is_new) {
                // After joblib has read an array of objects, the memo of `pickle.load` is wrong, so it imports names
                // that do not exist.
                let danger = match import.danger {
                    Danger::Suspicious => Danger::Unknown,
                    other => other,
                };
                trace.imports.push(Import { danger, ..import });
            }
        }
        // The bytes of an array can be anything, so an exception of `pickle.load` in them is expected.
        if let (End::Finished | End::Raised(_), End::Unfollowed(_) | End::Cut) =
            (&trace.end, &plain.end)
        {
            trace.end = plain.end;
        } else if matches!(plain.end, End::Finished) {
            trace.other_end = Some(plain.len);
        }
        trace
    }

    /// Returns `true` for a pickle that has to be reported: all except those at which every unpickler raises an
    /// exception before any import.
    pub fn is_pickle(&self) -> bool {
        let counts = |import: &Import| match import.certainty {
            Certainty::All => true,
            Certainty::Registered => false,
            // Many texts begin with such a letter and a word: `certifi`, a line end, and nothing else.
            Certainty::Slow => {
                !self.is_first || import.offset > 0 || import.danger == Danger::Dangerous
            }
        };
        !matches!(self.end, End::Raised(_)) || self.imports.iter().any(counts)
    }

    /// Returns the worst verdict of its imports, and at least [`Danger::Unknown`] if it was not analyzed up to STOP.
    pub fn danger(&self) -> Danger {
        let worst = self.imports.iter().map(|i| i.danger).max().unwrap_or(Danger::Safe);
        match (&self.end, &self.skipped) {
            (End::Finished, None) => worst,
            _ => worst.max(Danger::Unknown),
        }
    }

    /// Returns `true` if bytes in another pickle are probably a pickle. Loaders do not unpickle them, so more evidence
    /// is required than for a file: a protocol, or an import that is called or followed by STOP.
    fn is_likely(&self) -> bool {
        let ends = matches!(self.end, End::Finished);
        let counts =
            |i: &Import| self.says_protocol || ends || i.called || i.danger == Danger::Dangerous;
        self.is_pickle() && self.imports.iter().any(counts)
    }
}

/// Returns the consecutive pickles at the start of `input` and their offsets, until one raises an exception or is not
/// analyzed to the end. A pickle that raises before any import is not included.
pub fn all(input: Input<'_>) -> Vec<(u64, Trace)> {
    let mut branches = MAX_BRANCHES;
    all_from(input, &mut branches)
}

fn all_from(input: Input<'_>, branches: &mut u32) -> Vec<(u64, Trace)> {
    let (mut out, mut at) = (Vec::new(), 0u64);
    while let Some(rest) = usize::try_from(at).ok().and_then(|at| input.bytes.get(at..))
        && !rest.is_empty()
    {
        let total = input.total.saturating_sub(at);
        let is_first = input.is_first && at == 0;
        let mut found = Trace::new(Input { bytes: rest, total, is_first, ..input });
        if !found.is_pickle() {
            break;
        }
        if out.len() >= MAX_IN_SEQUENCE {
            found.end = End::Unfollowed(
                TOO_MANY.broken(format!("more than {MAX_IN_SEQUENCE} pickles follow each other")),
            );
        }
        if let Some(end) = found.other_end {
            let others = follow_other(input, at.saturating_add(end), &mut found, branches);
            out.extend(others);
        }
        let start = at;
        at = at.saturating_add(found.len);
        let ends = !matches!(found.end, End::Finished);
        out.push((start, found));
        if ends {
            break;
        }
    }
    out
}

/// Analyzes the data after the other end of `found`, which is at offset `at` of the input. If this fails, `found`
/// counts as not analyzed to the end.
fn follow_other(
    input: Input<'_>,
    at: u64,
    found: &mut Trace,
    branches: &mut u32,
) -> Vec<(u64, Trace)> {
    let rest = usize::try_from(at).ok().and_then(|at| input.bytes.get(at..)).unwrap_or_default();
    let total = input.total.saturating_sub(at);
    let unfollowed = || {
        let e = BROKEN.broken("it ends at different offsets for pickle and joblib");
        End::Unfollowed(e)
    };
    let Some(left) = branches.checked_sub(1) else {
        found.end = unfollowed();
        return Vec::new();
    };
    *branches = left;
    let others = all_from(Input { bytes: rest, total, is_first: false, ..input }, branches);
    let last = others.last().map(|(start, last)| (start.saturating_add(last.len), &last.end));
    match last {
        Some((_, End::Cut)) => {
            found.end = End::Cut;
            return Vec::new();
        }
        Some((_, End::Unfollowed(_))) => found.end = unfollowed(),
        Some((_, End::Raised(_))) => {}
        // An array may follow.
        Some((_, End::Finished)) | None => {
            let end = last.map_or(0, |(end, _)| end);
            let end = usize::try_from(end).ok().and_then(|end| rest.get(end..)).unwrap_or_default();
            let is_cut = input.total > input.bytes.len() as u64;
            match end.is_empty() && is_cut {
                true => found.end = End::Cut,
                false if end.starts_with(b"\x93") => found.end = unfollowed(),
                false => {}
            }
        }
    }
    others.into_iter().map(|(start, other)| (at.saturating_add(start), other)).collect()
}
