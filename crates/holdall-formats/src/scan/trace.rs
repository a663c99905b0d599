//! What a pickle would import and call, found without doing either.
//!
//! A pickle is a sequence of opcodes without jumps, so what it imports is known once each opcode was followed up to STOP, or up to
//! one at which every unpickler of CPython raises. [`End`] says which it was; where following stopped for another reason, nothing
//! is known about what comes after. Differences between CPython's two unpicklers are resolved for the one that goes on: the C one
//! accepts NUL bytes in lines and frames that overlap, the one in Python accepts lines that the file ends in.
//!
//! Of values, only what is needed to know names, and to tell objects that a pickle made from those that it was given, is kept:
//! 16 bytes for each value on the stack or in the memo, however long it is.

mod arrays;
mod machine;
mod value;

use super::names::Danger;
use holdall_core::error::Error;
use holdall_core::wire::pickle::{BROKEN, TOO_MANY};
use machine::Machine;

/// How many levels of pickles in the texts and bytes of pickles are followed.
const MAX_NESTED: u32 = 4;
/// How many of them are reported.
const MAX_INNER: usize = 1000;
/// How often what follows a pickle is followed for `pickle.load` and for joblib, where it does not end at the same byte for both.
const MAX_BRANCHES: u32 = 64;
/// How many pickles that follow each other are reported.
const MAX_IN_SEQUENCE: usize = 1 << 16;

/// The bytes that pickles are followed in.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The bytes from the start of the pickle on.
    pub bytes: &'a [u8],
    /// Bytes from the start of the pickle to the end of the file, of which only the first may be at hand.
    pub total: u64,
    /// Values that a pickle may have on its stack and in its memo at once.
    pub max_values: u64,
    /// Whether nothing is known to stand before it: then it may be a text as well.
    pub is_first: bool,
}

/// How following a pickle ended.
#[derive(Debug)]
pub enum End {
    /// At STOP.
    Finished,
    /// At an opcode, or an end of the bytes, at which every unpickler raises.
    Raised(Error),
    /// Before either: a limit was reached, or a loader may read on in a way that is not known.
    Unfollowed(Error),
    /// At the end of the bytes at hand, which is not the end of the file; see [`Input::total`].
    Cut,
}

/// What a pickle would do.
#[derive(Debug)]
pub struct Trace {
    /// What it would import, each once, in the order of first use.
    pub imports: Vec<Import>,
    /// The highest protocol that it says; 0 of those that say none.
    pub protocol: u64,
    /// Bytes of it: up to STOP, or up to where following it ended.
    pub len: u64,
    /// How following it ended.
    pub end: End,
    /// Pickles in its texts and bytes, and where those are: nothing reads them unless something is called that does.
    pub inner: Vec<(u64, Trace)>,
    /// Pickles that joblib reads behind its description of an array of objects, and where they are.
    pub arrays: Vec<(u64, Trace)>,
    /// Why some of the pickles in its texts and bytes are not in `inner`.
    pub skipped: Option<Error>,
    /// Where it ends for `pickle.load`, if that is not where it ends for joblib: more may follow both.
    other_end: Option<u64>,
    says_protocol: bool,
    is_first: bool,
}

/// Something that a pickle would import.
#[derive(Debug, Clone)]
pub struct Import {
    /// The module, `?` where only running the pickle would tell.
    pub module: String,
    /// The name in it: with dots where it is an attribute of something there; `…(…)` for what a call would give.
    pub name: String,
    /// What is known of it.
    pub danger: Danger,
    /// Whether it would be called, too; importing alone runs a module.
    pub called: bool,
    /// How often it is named.
    pub count: u64,
    /// Where the first of those is, in bytes from where the pickle starts.
    pub offset: u64,
    /// How sure it is that the import takes place.
    certainty: Certainty,
}

/// Which loaders import something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// All of them.
    All,
    /// Those whose program registered the number of an extension; none does by itself.
    Registered,
    /// CPython's unpickler in Python, which nearly no program uses; the one in C raises.
    Slow,
}

impl Trace {
    /// Follows the pickle at the start of the input, first as `pickle.load` reads it. A pickle with arrays of joblib is followed
    /// as joblib reads it too: each of them is followed by bytes that are not opcodes.
    pub fn new(input: Input<'_>) -> Trace {
        let plain = Machine::follow(input, false, 0);
        if !plain.imports.iter().any(|import| arrays::is_wrapper(&import.module, &import.name)) {
            return plain;
        }
        let mut trace = Machine::follow(input, true, 0);
        // With no array before its end it is the same pickle to both.
        if trace.len == plain.len {
            return trace;
        }
        for import in plain.imports {
            let is_new = |own: &Import| (&own.module, &own.name) != (&import.module, &import.name);
            if trace.imports.iter().all(is_new) {
                // Where joblib has read an array of objects, `pickle.load` gets what it recalls wrong, and names of nothing with it.
                let danger = match import.danger {
                    Danger::Suspicious => Danger::Unknown,
                    other => other,
                };
                trace.imports.push(Import { danger, ..import });
            }
        }
        // Bytes of an array may be anything: that `pickle.load` raises in them is what is to be expected.
        if let (End::Finished | End::Raised(_), End::Unfollowed(_) | End::Cut) =
            (&trace.end, &plain.end)
        {
            trace.end = plain.end;
        } else if matches!(plain.end, End::Finished) {
            trace.other_end = Some(plain.len);
        }
        trace
    }

    /// Whether it is a pickle that has to be reported: all but those at which every unpickler raises before it imports anything.
    pub fn is_pickle(&self) -> bool {
        let counts = |import: &Import| match import.certainty {
            Certainty::All => true,
            Certainty::Registered => false,
            // Many a text begins with such a letter and a word: `certifi`, a line end, and nothing else.
            Certainty::Slow => {
                !self.is_first || import.offset > 0 || import.danger == Danger::Dangerous
            }
        };
        !matches!(self.end, End::Raised(_)) || self.imports.iter().any(counts)
    }

    /// The worst that it would import; at least [`Danger::Unknown`] where it was not followed up to STOP.
    pub fn danger(&self) -> Danger {
        let worst = self.imports.iter().map(|i| i.danger).max().unwrap_or(Danger::Safe);
        match (&self.end, &self.skipped) {
            (End::Finished, None) => worst,
            _ => worst.max(Danger::Unknown),
        }
    }

    /// Whether bytes in another pickle are likely meant as a pickle. Nothing unpickles them by itself, so more evidence is asked for than of
    /// a file: a protocol, or an import that is called or followed by STOP.
    fn is_likely(&self) -> bool {
        let ends = matches!(self.end, End::Finished);
        let counts =
            |i: &Import| self.says_protocol || ends || i.called || i.danger == Danger::Dangerous;
        self.is_pickle() && self.imports.iter().any(counts)
    }
}

/// The pickles at the start of `input`, one after the other, and where each is, until one raises or is not followed to its
/// end. One that raises before it imports anything is not among them.
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

/// What follows the other end of `found`, which is at byte `at` of the input. `found` is not followed to its end where that is not.
fn follow_other(
    input: Input<'_>,
    at: u64,
    found: &mut Trace,
    branches: &mut u32,
) -> Vec<(u64, Trace)> {
    let rest = usize::try_from(at).ok().and_then(|at| input.bytes.get(at..)).unwrap_or_default();
    let total = input.total.saturating_sub(at);
    let unfollowed = || {
        let e = BROKEN.broken("it ends at one byte for pickle and at another for joblib");
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
