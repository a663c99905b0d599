//! Weights written into the graph of an ONNX model, and into a file beside it.

use super::refusals::of_target;
use super::{
    Convert, ConvertReport, ExternalData, Prepared, became, ledger, len_of, report, write_items,
};
use holdall_core::{Encode, Error, Layout, Remedy, Result, TensorSpec};
use holdall_formats::onnx::{self, BESIDE, External, Graph, NO_GRAPH};
use holdall_io::items::{self, Item};
use holdall_io::sink::FileSink;
use holdall_io::{File, Tensor, external};
use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Bytes that a model has room for; a little less than the format has.
const MOST: u64 = (1 << 31) - (1 << 20);
/// Tensors of so many bytes are beside a model that has no room for them.
const LEAST: u64 = 1024;

/// The graph that weights go into.
pub(super) struct Into {
    graph: Graph,
    file: File,
    external: ExternalData,
    /// Whether the weights are its own.
    is_same: bool,
}

/// The graph that a conversion writes into, where it writes a model.
pub(super) fn graph_target(file: &File, path: &Path, options: &Convert) -> Result<Option<Into>> {
    // Where the format is not known, the code that needs it says so.
    let is_onnx = options.write.format_for(path).is_ok_and(|format| format.id == onnx::FORMAT.id);
    let graph = match &options.graph {
        Some(graph) if is_onnx && graph.format() == onnx::FORMAT.id => graph,
        Some(graph) if is_onnx => {
            let e = NO_GRAPH.broken(format!("`{}` is no model of ONNX", graph.name()));
            return Err(e);
        }
        Some(_) => return Err(NO_GRAPH.broken("a graph was given, but what is written has none")),
        None if is_onnx && file.format() == onnx::FORMAT.id => file,
        None if is_onnx => {
            let e = NO_GRAPH.broken("weights alone are no model");
            return Err(e.with_remedy(Remedy::NameGraph).in_source(file.name()));
        }
        None => return Ok(None),
    };
    Ok(Some(Into {
        graph: external::graph(graph)?,
        file: graph.clone(),
        external: options.external,
        is_same: graph.identity() == file.identity(),
    }))
}

impl Into {
    pub(super) fn encoder(&self) -> Box<dyn Encode> {
        self.graph.clone().encoder(External::default())
    }

    /// Whether a tensor of the source stays in the graph as it stands there.
    pub(super) fn stays(&self, tensor: &Tensor) -> bool {
        self.is_same && !self.graph.has_elements(tensor.name())
    }

    /// Gives a tensor the attributes that it has in the graph, where those stay.
    pub(super) fn set_attributes(&self, spec: &mut TensorSpec) {
        let own = self.file.index().get(&spec.name);
        spec.attributes = own.map(|own| own.attributes().clone()).unwrap_or_default();
    }

    /// What is wrong with elements of another type that nobody asked for.
    pub(super) fn wrong_type(&self, spec: &TensorSpec) -> Option<Error> {
        self.graph.is_of_other_type(spec).then(|| self.graph.other_type(spec))
    }

    /// The tensors of the graph that nobody gives elements for: they keep theirs.
    ///
    /// # Errors
    /// Their faults, where what they have is not there.
    pub(super) fn kept(&self, given: &[Item]) -> Result<Vec<Item>> {
        let given: HashSet<&str> = given.iter().map(|item| item.spec.name.as_str()).collect();
        let mut out = Vec::new();
        for tensor in self.file.tensors().filter(|t| !given.contains(t.name())) {
            if *tensor.layout() == Layout::SparseCoo {
                // Its description stays, and its values are left empty.
                if tensor.components().any(|c| c.stored.source > 0 && !c.stored.is_stated()) {
                    let e = BESIDE.broken("the values of a sparse tensor are in another file");
                    return Err(e.in_tensor(tensor.name()).in_source(self.file.name()));
                }
            } else if self.graph.has_elements(tensor.name()) {
                out.push(items::as_it_is(&tensor)?);
            }
        }
        Ok(out)
    }

    /// Whether elements are beside the model.
    fn is_beside(&self, item: &Item, how: ExternalData) -> bool {
        let len = len_of(item);
        len > 0
            && match how {
                ExternalData::AsItIs => self.graph.is_external(&item.spec.name),
                ExternalData::AtLeast(least) => len >= least,
                ExternalData::None => false,
            }
    }

    /// The tensors in the model, and those beside it.
    fn split(&self, items: Vec<Item>) -> (Vec<Item>, Vec<Item>) {
        let inside = items.iter().filter(|item| !self.is_beside(item, self.external));
        let len = inside.fold(self.graph.len(), |n, item| n.saturating_add(len_of(item)));
        let how = match self.external {
            ExternalData::AsItIs if len > MOST => ExternalData::AtLeast(LEAST),
            how => how,
        };
        items.into_iter().partition(|item| !self.is_beside(item, how))
    }

    /// Refuses what a stream cannot have: a file beside it.
    pub(super) fn check_stream(&self, items: &[Item]) -> Result<()> {
        match items.iter().any(|item| self.is_beside(item, self.external)) {
            true => Err(BESIDE.broken("a stream has no folder that another file could be in")),
            false => Ok(()),
        }
    }
}

/// Writes the model, and before it the file beside it, if there is one.
pub(super) fn write(
    file: &File,
    path: &Path,
    into: Into,
    prepared: Prepared,
) -> Result<ConvertReport> {
    let Prepared { items, write, casts, forming, warnings, expected, .. } = prepared;
    let mut report = report(file, warnings, &items, 0);
    write.work.begin(report.decoded_len);
    let to = FileSink::create(path, write.overwrite, write.durability)?;
    let (inside, beside) = into.split(items);
    Claim::sweep(path);
    let old = if write.overwrite { external::beside(path) } else { Vec::new() };
    let mut external = External::default();
    let (mut data, mut claim) = (None, None);
    if !beside.is_empty() {
        let (name, location) = names(path)?;
        claim = Claim::new(path, &location);
        external.tensors = beside.iter().map(|item| item.spec.clone()).collect();
        let sink = FileSink::create(&path.with_file_name(&location), false, write.durability)?;
        data = Some(write_items(file, sink, onnx::runs(), &write, beside)?.close_unread()?);
        report.files = vec![name, location.clone()];
        external.location = location;
    }
    let location = external.location.clone();
    // A weight of another type than the graph has is found under the name of what becomes the weight when the model runs.
    let is_cast = inside.iter().any(|item| into.wrong_type(&item.spec).is_some());
    let writer = write_items(file, to, into.graph.encoder(external), &write, inside)?;
    let closed = if is_cast { writer.close_unread() } else { writer.close() };
    let model = closed.map_err(|e| of_target(e, &write).in_source(file.name()))?;
    let mut record = model.record().clone();
    data.iter().for_each(|data| record.merge(data.record().clone()));
    report.left_behind = ledger::close(file, &record, &expected)?;
    report.target_len = data.iter().fold(model.len(), |n, data| n.saturating_add(data.len()));
    if let Some(data) = data {
        data.publish()?;
    }
    if let Err(e) = model.publish() {
        if !location.is_empty() {
            let _ = std::fs::remove_file(path.with_file_name(location));
        }
        drop(claim);
        return Err(e);
    }
    drop(claim);
    // What the model that was there had beside it, as we name such files, is of no more use.
    for location in old.into_iter().filter(|old| *old != location && is_ours(path, old)) {
        let _ = std::fs::remove_file(path.with_file_name(location));
    }
    became(&mut report, casts, forming);
    Ok(report)
}

/// A note beside a model that is being written: which file beside it is no use without it. It is locked while somebody writes the model, so
/// that what a process leaves that is killed is told from what is being written.
struct Claim {
    note: PathBuf,
    _lock: std::fs::File,
}

impl Claim {
    /// Notes that the file at `location` is to belong to the model at `path`. Failing to is no reason not to write.
    fn new(path: &Path, location: &str) -> Option<Claim> {
        let note = Claim::target_path(path)?;
        let mut file = std::fs::File::create_new(&note).ok()?;
        file.lock().ok()?;
        file.write_all(location.as_bytes()).and_then(|()| file.sync_all()).ok()?;
        Some(Claim { note, _lock: file })
    }

    /// Removes what a process left that was killed while it wrote the model at `path`.
    fn sweep(path: &Path) {
        let Some(note) = Claim::target_path(path) else { return };
        let Ok(mut file) = std::fs::File::options().read(true).write(true).open(&note) else {
            return;
        };
        let mut location = String::new();
        if file.try_lock().is_err() || file.read_to_string(&mut location).is_err() {
            return;
        }
        // It may have come to the end, but for the note.
        if is_ours(path, &location) && !external::beside(path).contains(&location) {
            let _ = std::fs::remove_file(path.with_file_name(&location));
        }
        let _ = std::fs::remove_file(note);
    }

    fn target_path(path: &Path) -> Option<PathBuf> {
        let name = path.file_name()?.to_str()?;
        Some(path.with_file_name(format!(".{name}.holdall-external")))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.note);
    }
}

/// The name of a model's file, and of one beside it that is not there: no model loses what it has.
fn names(path: &Path) -> Result<(String, String)> {
    let name = path.file_name().and_then(|name| name.to_str()).filter(|name| is_location(name));
    let Some(name) = name else {
        let e = BESIDE.broken("its name cannot be that of external data");
        return Err(e.in_source(path.display()));
    };
    let others = (2u32..).map(|n| format!("{name}.{n}.data"));
    let mut all = std::iter::once(format!("{name}.data")).chain(others);
    let free = all.find(|location| path.with_file_name(location).symlink_metadata().is_err());
    Ok((name.to_owned(), free.unwrap_or_default()))
}

/// Whether readers take a name for that of a file beside the model.
fn is_location(name: &str) -> bool {
    !name.contains(['/', '\\', ':', '\0'])
}

/// Whether a file beside the model at `path` is named as we name such.
fn is_ours(path: &Path, location: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let middle = location.strip_prefix(name).and_then(|rest| rest.strip_suffix(".data"));
    middle.is_some_and(|middle| {
        middle.is_empty()
            || middle.strip_prefix('.').is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n > 1))
    })
}
