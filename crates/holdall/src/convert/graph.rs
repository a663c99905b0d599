//! Writes weights into the graph of an ONNX model and into its external data file.

use super::refusals::target_error;
use super::{
    Convert, ConvertReport, ExternalData, Prepared, ledger, len_of, report, report_changes,
    write_items,
};
use holdall_core::{Encode, Error, Layout, Remedy, Result, TensorSpec};
use holdall_formats::onnx::{self, BESIDE, External, Graph, NO_GRAPH};
use holdall_io::items::{self, Item};
use holdall_io::sink::FileSink;
use holdall_io::{File, Tensor, external};
use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Maximum bytes of a model file; a little less than the format's limit of 2 GiB.
const MAX_MODEL_LEN: u64 = (1 << 31) - (1 << 20);
/// Tensors of at least this many bytes become external if the model would be too large.
const LEAST: u64 = 1024;

/// The graph that weights are written into.
pub(super) struct Into {
    graph: Graph,
    file: File,
    external: ExternalData,
    /// Whether the weights come from this graph itself.
    is_same: bool,
}

/// Returns the graph that a conversion writes into, or `None` if the target is not ONNX.
pub(super) fn graph_target(file: &File, path: &Path, options: &Convert) -> Result<Option<Into>> {
    // If the format is not known, the code that needs it returns the error.
    let is_onnx = options.write.format_for(path).is_ok_and(|format| format.id == onnx::FORMAT.id);
    let graph = match &options.graph {
        Some(graph) if is_onnx && graph.format() == onnx::FORMAT.id => graph,
        Some(graph) if is_onnx => {
            let e = NO_GRAPH.broken(format!("`{}` is not an ONNX model", graph.name()));
            return Err(e);
        }
        Some(_) => {
            return Err(NO_GRAPH.broken("a graph was given, but the target format has no graph"));
        }
        None if is_onnx && file.format() == onnx::FORMAT.id => file,
        None if is_onnx => {
            let e = NO_GRAPH.broken("an ONNX model needs a graph, and the source has only weights");
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

    /// Returns `true` if a tensor of the source stays in the graph unchanged.
    pub(super) fn stays(&self, tensor: &Tensor) -> bool {
        self.is_same && !self.graph.has_elements(tensor.name())
    }

    /// Replaces a tensor's attributes by those that it has in the graph.
    pub(super) fn set_attributes(&self, spec: &mut TensorSpec) {
        let own = self.file.index().get(&spec.name);
        spec.attributes = own.map(|own| own.attributes().clone()).unwrap_or_default();
    }

    /// Returns the error if the elements have another type than the graph, unless a cast was requested.
    pub(super) fn wrong_type(&self, spec: &TensorSpec) -> Option<Error> {
        self.graph.has_different_type(spec).then(|| self.graph.other_type(spec))
    }

    /// Returns the tensors of the graph for which the source has no elements: they keep the elements of the
    /// graph.
    ///
    /// # Errors
    /// Returns the tensors' faults if their elements are missing.
    pub(super) fn kept(&self, given: &[Item]) -> Result<Vec<Item>> {
        let given: HashSet<&str> = given.iter().map(|item| item.spec.name.as_str()).collect();
        let mut out = Vec::new();
        for tensor in self.file.tensors().filter(|t| !given.contains(t.name())) {
            if *tensor.layout() == Layout::SparseCoo {
                // The graph keeps the description of a sparse tensor, and its values are not written.
                if tensor.components().any(|c| c.stored.source > 0 && !c.stored.is_stated()) {
                    let e = BESIDE
                        .broken("cannot keep a sparse tensor whose values are in an external file");
                    return Err(e.in_tensor(tensor.name()).in_source(self.file.name()));
                }
            } else if self.graph.has_elements(tensor.name()) {
                out.push(items::unchanged_item(&tensor)?);
            }
        }
        Ok(out)
    }

    /// Returns `true` if the elements are external.
    fn is_beside(&self, item: &Item, how: ExternalData) -> bool {
        let len = len_of(item);
        len > 0
            && match how {
                ExternalData::AsItIs => self.graph.is_external(&item.spec.name),
                ExternalData::AtLeast(least) => len >= least,
                ExternalData::None => false,
            }
    }

    /// Splits the items into those in the model file and external ones.
    fn split(&self, items: Vec<Item>) -> (Vec<Item>, Vec<Item>) {
        let inside = items.iter().filter(|item| !self.is_beside(item, self.external));
        let len = inside.fold(self.graph.len(), |n, item| n.saturating_add(len_of(item)));
        let how = match self.external {
            ExternalData::AsItIs if len > MAX_MODEL_LEN => ExternalData::AtLeast(LEAST),
            how => how,
        };
        items.into_iter().partition(|item| !self.is_beside(item, how))
    }

    /// Returns an error if a tensor would be external: a stream has no external file.
    pub(super) fn check_stream(&self, items: &[Item]) -> Result<()> {
        match items.iter().any(|item| self.is_beside(item, self.external)) {
            true => Err(BESIDE.broken("cannot write external data: the target is a stream, without a folder for a second file")),
            false => Ok(()),
        }
    }
}

/// Writes the external file, if there is one, and then the model.
pub(super) fn write(
    file: &File,
    path: &Path,
    into: Into,
    prepared: Prepared,
) -> Result<ConvertReport> {
    let Prepared { items, write, casts, forming, warnings, expected, .. } = prepared;
    let mut report = report(file.index().source_len(), warnings, &items, 0);
    write.work.begin(report.decoded_len);
    let to = FileSink::create(path, write.overwrite, write.durability)?;
    let (inside, beside) = into.split(items);
    Claim::sweep(path);
    let old = if write.overwrite { external::named_files(path) } else { Vec::new() };
    let mut external = External::default();
    let (mut data, mut claim) = (None, None);
    if !beside.is_empty() {
        let (name, location) = names(path)?;
        claim = Claim::new(path, &location);
        external.tensors = beside.iter().map(|item| item.spec.clone()).collect();
        let sink = FileSink::create(&path.with_file_name(&location), false, write.durability)?;
        data = Some(
            write_items(file, sink, onnx::external_data_encoder(), &write, beside)?
                .close_unread()?,
        );
        report.files = vec![name, location.clone()];
        external.location = location;
    }
    let location = external.location.clone();
    // A weight that the graph casts is stored under another name, that of the cast's input, so that reading the
    // model back would not find it.
    let is_cast = inside.iter().any(|item| into.wrong_type(&item.spec).is_some());
    let writer = write_items(file, to, into.graph.encoder(external), &write, inside)?;
    let closed = if is_cast { writer.close_unread() } else { writer.close() };
    let model = closed.map_err(|e| target_error(e, &write).in_source(file.name()))?;
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
    // External files of the replaced model, if named by Holdall, are no longer needed.
    for location in old.into_iter().filter(|old| *old != location && is_ours(path, old)) {
        let _ = std::fs::remove_file(path.with_file_name(location));
    }
    report_changes(&mut report, casts, forming);
    Ok(report)
}

/// A note next to a model that is being written: it names the external file that is useless without the
/// model. It is locked while the model is written, so that files left by a killed process can be
/// distinguished from files in use.
struct Claim {
    note: PathBuf,
    _lock: std::fs::File,
}

impl Claim {
    /// Creates the note that the file at `location` belongs to the model at `path`. The model is written even
    /// if this fails.
    fn new(path: &Path, location: &str) -> Option<Claim> {
        let note = Claim::target_path(path)?;
        let mut file = std::fs::File::create_new(&note).ok()?;
        file.lock().ok()?;
        file.write_all(location.as_bytes()).and_then(|()| file.sync_all()).ok()?;
        Some(Claim { note, _lock: file })
    }

    /// Removes the files of a process that was killed while it wrote the model at `path`.
    fn sweep(path: &Path) {
        let Some(note) = Claim::target_path(path) else { return };
        let Ok(mut file) = std::fs::File::options().read(true).write(true).open(&note) else {
            return;
        };
        let mut location = String::new();
        if file.try_lock().is_err() || file.read_to_string(&mut location).is_err() {
            return;
        }
        // The process may have completed the model but not removed the note.
        if is_ours(path, &location) && !external::named_files(path).contains(&location) {
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

/// Returns the name of the model file, and an unused name for its external file, so that no existing file is
/// replaced.
fn names(path: &Path) -> Result<(String, String)> {
    let name = path.file_name().and_then(|name| name.to_str()).filter(|name| is_location(name));
    let Some(name) = name else {
        let e = BESIDE.broken(
            "cannot write external data: its location cannot contain the name of this file",
        );
        return Err(e.in_source(path.display()));
    };
    let others = (2u32..).map(|n| format!("{name}.{n}.data"));
    let mut all = std::iter::once(format!("{name}.data")).chain(others);
    let free = all.find(|location| path.with_file_name(location).symlink_metadata().is_err());
    Ok((name.to_owned(), free.unwrap_or_default()))
}

/// Returns `true` if readers accept the name as the location of an external file.
fn is_location(name: &str) -> bool {
    !name.contains(['/', '\\', ':', '\0'])
}

/// Returns `true` if `location` is a name that Holdall gives external files of the model at `path`.
fn is_ours(path: &Path, location: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let middle = location.strip_prefix(name).and_then(|rest| rest.strip_suffix(".data"));
    middle.is_some_and(|middle| {
        middle.is_empty()
            || middle.strip_prefix('.').is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n > 1))
    })
}
