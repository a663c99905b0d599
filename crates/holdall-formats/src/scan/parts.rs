//! Two files in the tar archives that torch wrote up to version 0.1.9. `torch.load` reads them pickle by pickle, with
//! other bytes in between:
//!
//! ```text
//! storages   their number; for each: (key, place, class), its number of elements as i64, the elements;
//!            then one more pickle
//! tensors    their number; for each: (key, storage, class), rank as i32, 4 bytes, sizes and strides as i64, an offset as i64
//! ```

use super::{Found, Job, Scan};
use crate::scan::trace::{End, Input, Trace};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::cursor::Cursor;
use holdall_core::wire::pickle::{self, Node, PACKED};

/// The role of a file in a pair of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Storages,
    Tensors,
}

impl Kind {
    /// Returns the kind of file for which torch takes the member with this name.
    pub(super) fn from_member_name(name: &str) -> Option<Kind> {
        match name.trim_start_matches("./").trim_end_matches('/') {
            "storages" => Some(Kind::Storages),
            "tensors" => Some(Kind::Tensors),
            _ => None,
        }
    }
}

impl Scan {
    /// Analyzes the pickles between the other bytes.
    pub(super) fn parts(
        &self,
        kind: Kind,
        job: &Job,
        window: &Window,
        found: &mut Found,
    ) -> Result<(), Stop> {
        let bytes = window.head(self.most())?;
        let mut reader = Reader {
            bytes: &bytes,
            total: window.len(),
            at: 0,
            traces: Vec::new(),
            max_values: self.limits.attribute_values,
        };
        let is_followed = reader.read_file(kind).is_some();
        // The first two pickles are adjacent, and were found as a sequence.
        for (at, trace) in reader.traces.into_iter().skip(2) {
            found.report.add(&job.name, at, trace, false, self.most());
        }
        if !is_followed {
            let what = "a file of an old torch tar archive, of which not all parts could be read";
            found.unread(job, PACKED.broken(what));
        }
        Ok(())
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    total: u64,
    at: u64,
    traces: Vec<(u64, Trace)>,
    max_values: u64,
}

impl Reader<'_> {
    /// Reads the file. Returns `None` if its parts are not those that torch reads, or if a loader raises an exception.
    fn read_file(&mut self, kind: Kind) -> Option<()> {
        let (graph, root) = self.pickle()?;
        let count = graph.integer(root)?;
        for _ in 0..count {
            let (graph, root) = self.pickle()?;
            let [_, _, class] = graph.items(root)? else { return None };
            let rest = self.bytes.get(usize::try_from(self.at).ok()?..)?;
            let mut cursor = Cursor::new(rest);
            let len = match kind {
                Kind::Storages => {
                    let Node::Global(_, class) = graph.get(*class) else { return None };
                    let size = element_size(class)?;
                    let elements = cursor.array().map(u64::from_le_bytes)?;
                    8u64.checked_add(elements.checked_mul(size)?)?
                }
                Kind::Tensors => {
                    let rank = u64::try_from(cursor.array().map(i32::from_le_bytes)?).ok()?;
                    16u64.checked_add(rank.checked_mul(16)?)?
                }
            };
            self.at = self.at.checked_add(len)?;
        }
        if kind == Kind::Storages {
            self.pickle()?;
        }
        Some(())
    }

    fn pickle(&mut self) -> Option<(pickle::Graph, pickle::Id)> {
        let rest = self.bytes.get(usize::try_from(self.at).ok()?..)?;
        let total = self.total.saturating_sub(self.at);
        let trace =
            Trace::new(Input { bytes: rest, total, max_values: self.max_values, is_first: false });
        let (start, len) = (self.at, trace.len);
        let ends = matches!(trace.end, End::Finished);
        if trace.is_pickle() {
            self.traces.push((start, trace));
        }
        if !ends {
            return None;
        }
        self.at = self.at.checked_add(len)?;
        let (graph, root, _) = pickle::read(rest, 0, self.max_values).ok()??;
        Some((graph, root))
    }
}

/// Returns the number of bytes of an element of a storage.
fn element_size(class: &str) -> Option<u64> {
    Some(match class.strip_suffix("Storage")? {
        "Double" | "Long" | "ComplexFloat" => 8,
        "Float" | "Int" => 4,
        "Half" | "Short" | "BFloat16" => 2,
        "Char" | "Byte" | "Bool" => 1,
        "ComplexDouble" => 16,
        _ => return None,
    })
}
