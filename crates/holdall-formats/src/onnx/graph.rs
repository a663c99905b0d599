//! A model whose weights are replaced: all of its bytes except the elements, which are kept, and the tensors.

use super::{ELEMENT_TYPE, FIT, FORM, GRAPH_LEN, TYPE, element, name_of, unfilled};
use bytes::Bytes;
use holdall_collections::{HashMap, HashSet};
use holdall_core::encode::TensorSpec;
use holdall_core::error::{Escape as _, Remedy, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{DType, Layout, LogicalType, Role};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::protobuf::{Item, Scan};
use std::ops::Range;

/// A model to be written: see [`Graph::encoder`].
#[derive(Debug, Clone)]
pub struct Graph {
    pub(super) parts: Vec<MessagePiece>,
    pub(super) slots: Vec<Slot>,
    by_name: HashMap<String, usize>,
    /// The bytes that are kept.
    pub(super) runs: Vec<Bytes>,
    ir: u64,
    opset: u64,
}

/// A piece of a message.
#[derive(Debug, Clone)]
pub(super) enum MessagePiece {
    /// Complete fields that are kept, by the number of their run.
    Run(usize),
    /// A message that contains tensors.
    Message { field: u64, is_graph: bool, parts: Vec<MessagePiece> },
    /// A tensor, by its number.
    Tensor { field: u64, slot: usize },
}

/// A tensor of the model.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// The name in the index.
    pub(super) name: String,
    /// The name in the model.
    pub(super) own_name: String,
    pub(super) shape: Vec<u64>,
    pub(super) data_type: u64,
    pub(super) stored: Stored,
    /// The runs with the tensor's other fields, besides type and elements.
    pub(super) rest: Vec<usize>,
    /// Whether a cast to its type can be inserted before it: it is an initializer and not an input.
    can_cast: bool,
}

/// The location of the elements.
#[derive(Debug, Clone)]
pub(super) enum Stored {
    /// In one field: the runs before and after it, and its length.
    Here {
        before: usize,
        len: u64,
        after: usize,
    },
    /// In numeric fields, or missing: the run with the whole tensor.
    Whole(usize),
    Elsewhere,
}

/// The type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    Other,
}

impl Kind {
    fn inner(self, field: u64) -> Kind {
        match (self, field) {
            (Kind::Model, 7) | (Kind::Attribute, 6 | 11) => Kind::Graph,
            (Kind::Model, 25) => Kind::Function,
            (Kind::Graph, 1) | (Kind::Function, 7) => Kind::Node,
            (Kind::Node, 5) | (Kind::Function, 11) => Kind::Attribute,
            _ => Kind::Other,
        }
    }
}

/// The state of reading a model.
struct Reading<'w> {
    window: &'w Window,
    /// The ranges and names of tensors, in the order of the file.
    found: &'w [(Range<u64>, String)],
    next: usize,
    slots: Vec<Slot>,
    runs: Vec<Range<u64>>,
    /// The maximum number of dimensions.
    rank: usize,
}

impl Graph {
    /// Reads the model in `window`. `found` has the ranges and names of its tensors, in the order of the file.
    pub(super) fn read(
        window: &Window,
        limits: &Limits,
        found: &[(Range<u64>, String)],
    ) -> Result<Graph, Stop> {
        let (slots, runs, rank) = (Vec::new(), Vec::new(), limits.rank);
        let mut reading = Reading { window, found, next: 0, slots, runs, rank };
        let all = 0..window.len();
        let parts = reading.message(all.clone(), Kind::Model, false)?;
        let Reading { slots, runs, .. } = reading;
        let len =
            runs.iter().fold(0u64, |n, run| n.saturating_add(run.end.saturating_sub(run.start)));
        if len > limits.header_len {
            let raise = Remedy::RaiseLimit { limit: "header_len", at_least: Some(len) };
            let message = format!("the model has {len} bytes besides its weights");
            return Err(GRAPH_LEN.broken(message).with_remedy(raise).into());
        }
        window.all(runs.iter().cloned())?;
        let runs = runs.into_iter().map(|run| window.bytes(run)).collect::<Result<_, _>>()?;
        let by_name = slots.iter().enumerate().map(|(at, slot)| (slot.name.clone(), at)).collect();
        let (ir, opset) = versions(window, all)?;
        Ok(Graph { parts, slots, by_name, runs, ir, opset })
    }

    /// Returns `true` if the elements of the tensor with this name are written again, even if they are not replaced.
    pub fn has_elements(&self, name: &str) -> bool {
        self.slot(name).is_some_and(|(_, slot)| !matches!(slot.stored, Stored::Whole(_)))
    }

    /// Returns `true` if the elements of this tensor are in another file.
    pub fn is_external(&self, name: &str) -> bool {
        self.slot(name).is_some_and(|(_, slot)| matches!(slot.stored, Stored::Elsewhere))
    }

    /// Returns `true` if the tensor of this name in the graph has another element type than `tensor`.
    pub fn has_different_type(&self, tensor: &TensorSpec) -> bool {
        let number = data_type(tensor);
        self.slot(&tensor.name).is_some_and(|(_, slot)| number != Some(slot.data_type))
    }

    pub(super) fn slot(&self, name: &str) -> Option<(usize, &Slot)> {
        let at = *self.by_name.get(name)?;
        Some((at, self.slots.get(at)?))
    }

    /// Checks that a tensor can replace the one of the same name, and returns the number of the slot.
    pub(super) fn check(&self, tensor: &TensorSpec) -> Result<usize> {
        let dense = match tensor.components.as_slice() {
            [data] if data.role == Role::Data => tensor.layout == Layout::Dense,
            _ => false,
        };
        if !dense {
            let layout = tensor.layout.as_str().escaped();
            return Err(FORM.broken(format!("ONNX has no layout `{layout}`")));
        }
        let Some(number) = data_type(tensor) else {
            let type_name = tensor.components.first();
            let type_name = type_name.map_or("none", |c| {
                c.logical_type.as_ref().map_or(c.dtype.as_str(), LogicalType::as_str)
            });
            return Err(ELEMENT_TYPE
                .broken(format!("ONNX has no elements of type {}", type_name.escaped())));
        };
        let Some((at, slot)) = self.slot(&tensor.name) else {
            let e = FIT.broken("the graph has no tensor of this name");
            return Err(e.with_remedy(Remedy::RenameTensor));
        };
        if slot.shape != tensor.shape {
            let message = format!(
                "its shape is {:?}, expected {:?} as in the graph",
                tensor.shape, slot.shape
            );
            return Err(FIT.broken(message));
        }
        if number != slot.data_type && !self.can_cast(slot, number) {
            return Err(self.other_type(tensor));
        }
        Ok(at)
    }

    /// Returns the error for a tensor with another element type than the graph's.
    pub fn other_type(&self, tensor: &TensorSpec) -> holdall_core::Error {
        let known = self.slot(&tensor.name).map_or(0, |(_, slot)| slot.data_type);
        let (known, number) = (name_of(known), name_of(data_type(tensor).unwrap_or_default()));
        let message = format!("its elements are {number}, expected {known} as in the graph");
        TYPE.broken(message).in_tensor(&tensor.name)
    }

    /// Returns `true` if the operator `Cast` in the model's version can convert from this type.
    fn can_cast(&self, slot: &Slot, from: u64) -> bool {
        let since = |number: u64| match number {
            1..=7 | 9..=13 => 6,
            16 => 13,
            17..=20 => 19,
            _ => u64::MAX,
        };
        // Before IR version 4, every initializer is an input.
        slot.can_cast && self.ir >= 4 && self.opset >= since(from).max(since(slot.data_type))
    }

    /// Returns the number of bytes of the model, without elements that are replaced.
    pub fn len(&self) -> u64 {
        self.runs.iter().fold(0, |n, run| n.saturating_add(run.len() as u64))
    }

    /// Returns `true` if the model has 0 bytes without elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a suffix that occurs in no name of the model: for stored tensors from which the graph's values are
    /// computed.
    pub(super) fn stored(&self) -> String {
        let mut end = ".stored".to_owned();
        let is_in_graph = |end: &str| {
            self.runs.iter().any(|run| holds(run, end.as_bytes()))
                || self.slots.iter().any(|slot| slot.own_name.contains(end))
        };
        while is_in_graph(&end) {
            end.push('_');
        }
        end
    }
}

/// Returns `true` if `bytes` contain `wanted`.
fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len().max(1)).any(|found| found == wanted)
}

/// Returns the ONNX number of the type of a tensor's elements.
pub(super) fn data_type(tensor: &TensorSpec) -> Option<u64> {
    let data = tensor.components.first()?;
    let wanted: (DType, Option<LogicalType>) = (data.dtype, data.logical_type.clone());
    let is_it = |element: Option<(DType, Option<LogicalType>)>| element.as_ref() == Some(&wanted);
    (1..=28).find(|number| is_it(element(*number)) || is_it(unfilled(*number)))
}

/// Returns the IR version of the model, and the version of its standard operators.
fn versions(window: &Window, range: Range<u64>) -> Result<(u64, u64), Stop> {
    let (mut ir, mut opset) = (0, 0);
    let mut scan = Scan::new(window, range);
    while let Some((number, item)) = scan.next()? {
        match (number, item) {
            (1, Item::Varint(n)) => ir = n,
            (8, Item::Bytes(run)) => {
                let (domain, version) = super::value::entry(&window.bytes(run)?)?;
                if matches!(domain.as_str(), "" | "ai.onnx") {
                    let version = version.as_integer().and_then(|n| u64::try_from(n).ok());
                    opset = version.unwrap_or_default();
                }
            }
            _ => {}
        }
    }
    Ok((ir, opset))
}

impl Reading<'_> {
    /// Returns the parts of a message.
    fn message(
        &mut self,
        range: Range<u64>,
        kind: Kind,
        in_function: bool,
    ) -> Result<Vec<MessagePiece>, Stop> {
        let in_function = in_function || kind == Kind::Function;
        let (mut parts, first) = (Vec::new(), self.slots.len());
        let mut inputs = HashSet::default();
        let mut scan = Scan::new(self.window, range);
        loop {
            let start = scan.position();
            let Some((field, item)) = scan.next()? else { break };
            let whole = start..scan.position();
            if let Item::Bytes(run) = item {
                if kind == Kind::Graph && field == 11 {
                    inputs.insert(super::value::entry(&self.window.bytes(run.clone())?)?.0);
                }
                match self.found.get(self.next) {
                    Some((at, name)) if *at == run => {
                        let is_initializer = kind == Kind::Graph && field == 5 && !in_function;
                        let slot = self.slots.len();
                        self.tensor(run, name, is_initializer)?;
                        self.next = self.next.saturating_add(1);
                        parts.push(MessagePiece::Tensor { field, slot });
                        continue;
                    }
                    Some((at, _)) if run.start <= at.start && at.end <= run.end => {
                        let inner = kind.inner(field);
                        let is_graph = inner == Kind::Graph;
                        let inside = self.message(run, inner, in_function)?;
                        parts.push(MessagePiece::Message { field, is_graph, parts: inside });
                        continue;
                    }
                    _ => {}
                }
            }
            self.keep(whole, &mut parts);
        }
        if !inputs.is_empty() {
            for slot in self.slots.iter_mut().skip(first) {
                slot.can_cast &= !inputs.contains(&slot.own_name);
            }
        }
        Ok(parts)
    }

    /// Keeps a field unchanged.
    fn keep(&mut self, whole: Range<u64>, parts: &mut Vec<MessagePiece>) {
        let last = match parts.last() {
            Some(MessagePiece::Run(last)) => Some(*last),
            _ => None,
        };
        parts.extend(self.go_on(last, whole).map(MessagePiece::Run));
    }

    /// Extends the last run if it has this number and ends where the new bytes begin. Otherwise adds a run, and returns
    /// its number.
    fn go_on(&mut self, number: Option<usize>, whole: Range<u64>) -> Option<usize> {
        let last = self.runs.len().checked_sub(1);
        match self.runs.last_mut() {
            Some(run) if number == last && run.end == whole.start => {
                run.end = whole.end;
                None
            }
            _ => Some(self.run(whole)),
        }
    }

    fn run(&mut self, range: Range<u64>) -> usize {
        self.runs.push(range);
        self.runs.len().saturating_sub(1)
    }

    /// Adds a dimension. If there are too many, only one of the excess ones is added.
    fn dim(&self, shape: &mut Vec<u64>, n: u64) {
        if shape.len() <= self.rank {
            shape.push(n);
        }
    }

    fn tensor(&mut self, range: Range<u64>, name: &str, is_initializer: bool) -> Result<(), Stop> {
        let (mut shape, mut data_type, mut own_name) = (Vec::new(), 0, String::new());
        let (mut rest, mut data, mut is_external) = (Vec::new(), Vec::new(), false);
        let mut scan = Scan::new(self.window, range.clone());
        loop {
            let start = scan.position();
            let Some((field, item)) = scan.next()? else { break };
            let whole = start..scan.position();
            match (field, item) {
                (1, Item::Varint(n)) => self.dim(&mut shape, n),
                (1, Item::Bytes(run)) => {
                    let mut packed = Scan::new(self.window, run);
                    while let Some(n) = packed.number()? {
                        self.dim(&mut shape, n);
                    }
                }
                (2, Item::Varint(n)) => {
                    data_type = n;
                    continue;
                }
                (8, Item::Bytes(run)) => {
                    own_name = super::value::lossy(&self.window.bytes(run)?);
                    continue;
                }
                (4 | 9 | 10, Item::Bytes(run)) if run.is_empty() => continue,
                (4 | 9 | 10, Item::Bytes(run)) => {
                    data.push(Some(run));
                    continue;
                }
                (14, Item::Varint(n)) => {
                    is_external = n == 1;
                    continue;
                }
                (13, _) => continue,
                (4..=7 | 9..=11, _) => {
                    data.push(None);
                    continue;
                }
                _ => {}
            }
            let run = self.go_on(rest.last().copied(), whole);
            rest.extend(run);
        }
        let stored = match data.as_slice() {
            _ if is_external => Stored::Elsewhere,
            [Some(run)] => Stored::Here {
                before: self.run(range.start..run.start),
                len: run.end.saturating_sub(run.start),
                after: self.run(run.end..range.end),
            },
            _ => Stored::Whole(self.run(range)),
        };
        let can_cast = is_initializer && !own_name.is_empty();
        let name = name.to_owned();
        self.slots.push(Slot { name, own_name, shape, data_type, stored, rest, can_cast });
        Ok(())
    }
}
