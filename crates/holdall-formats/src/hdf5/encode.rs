//! Writes HDF5. Everything except the data comes first: groups, headers, attributes. The data of each tensor follows,
//! contiguous.

use super::blocks::{Blocks, Group, Message, Texts};
use super::datatype::record_schema_of;
use super::values::{self, MAX_RANK};
use super::{
    ALIGN, BOUNDS, DECLARED, ELEMENT_TYPE, ENCODING, FIT, FORM, MARK, STRUCTURE, TOO_MANY,
};
use crate::array::DESCR;
use crate::header::{Dialect, Slot, Slots, check_values};
use crate::kept::{ATTRIBUTES, object};
use crate::structured::{Refusal, structured, type_from_attribute};
use bytes::Bytes;
use holdall_collections::{HashMap, HashSet};
use holdall_core::encode::{ComponentSpec, Encode, EncodeOptions, Stored, TensorSpec};
use holdall_core::error::{Error, Escape as _, Remedy, Result};
use holdall_core::model::{Attributes, DType, Layout, Role, Value, element_count, stored_size};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The default alignment of data, in bytes.
const ALIGN_DEFAULT: u64 = 64;
/// The maximum alignment: a larger one would fill the file with padding.
const MAX_ALIGN: u64 = 1 << 26;
/// The maximum length of a name, and the maximum number of groups in it, that are read again.
const MAX_NAME: usize = 65_000;
const MAX_PARTS: usize = 100;
/// The maximum number of attributes of an object that are written as messages.
const MAX_MESSAGES: usize = 50_000;

static DIALECT: Dialect = Dialect {
    bounds: &BOUNDS,
    limit: &TOO_MANY,
    offsets: &STRUCTURE,
    encoding: &ENCODING,
    declared: &DECLARED,
    unit: "tensor",
    gaps: true,
};

/// Creates an encoder of one file.
pub(super) fn encoder(options: &EncodeOptions) -> Result<Box<dyn Encode>> {
    options.check_unversioned("HDF5 is written in one version")?;
    let align = options.align_within(1..=MAX_ALIGN, &ALIGN)?.unwrap_or(ALIGN_DEFAULT);
    Ok(Box::new(Encoder { align, slots: Slots::new(&DIALECT, Vec::new(), 0) }))
}

struct Encoder {
    align: u64,
    slots: Slots,
}

impl Encode for Encoder {
    fn header_first(&self) -> bool {
        true
    }

    /// Attributes that HDF5 cannot hold are kept as text.
    fn check_attributes(&self, attributes: &Attributes) -> Result<()> {
        check_values(attributes)
    }

    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()> {
        check_values(&tensor.attributes)
            .and_then(|()| array(tensor).map(drop))
            .map_err(|e| e.in_tensor(&tensor.name))
    }

    fn begin(&mut self, attributes: &Attributes, declared: &[TensorSpec]) -> Result<Bytes> {
        let mut tree = Tree::from_tensors(declared)?;
        tree.add_layers(attributes);
        let (mut blocks, mut texts) = (Blocks::new(), Texts::default());
        let mut headers = Vec::with_capacity(declared.len());
        for (number, tensor) in declared.iter().enumerate() {
            let blame = |e: Error| e.in_tensor(&tensor.name);
            if let Some(owner) = tree.owner(number) {
                headers.push(headers.get(owner).copied().unwrap_or_default());
                continue;
            }
            let array = array(tensor).map_err(blame)?;
            let mut messages = vec![
                values::dataspace(&array.shape),
                values::datatype(array.datatype),
                values::fill(),
                Message::data(number, array.len),
            ];
            let own = array.attributes.iter().collect();
            messages.extend(object_messages(own, array.mark, &mut texts));
            headers.push(blocks.header(tree.links.get(number).copied().unwrap_or(1), messages));
        }
        let mut of_groups = tree.attributes(attributes);
        let root = tree.root.put(&mut String::new(), &mut blocks, &headers, &mut |path| {
            object_messages(of_groups.remove(path).unwrap_or_default(), None, &mut texts)
        });
        let mut end = blocks.texts(texts);
        let mut slots: Vec<Slot> = Vec::with_capacity(declared.len());
        for (number, tensor) in declared.iter().enumerate() {
            let shares = tree.owner(number);
            let range = match shares.and_then(|owner| slots.get(owner)) {
                Some(owner) => owner.range.clone(),
                None => {
                    let len = tensor.components.first().map_or(0, |data| data.decoded_len);
                    let too_long = || DECLARED.broken("the tensors together exceed 2^63 bytes");
                    let start = match len {
                        0 => Some(end),
                        _ => end.checked_next_multiple_of(self.align),
                    };
                    let start = start.ok_or_else(too_long)?;
                    let last = start.checked_add(len).filter(|last| *last < 1 << 63);
                    end = last.ok_or_else(too_long)?;
                    start..end
                }
            };
            slots.push(Slot { tensor: tensor.name.clone(), component: 0, range, shares });
        }
        let offsets: Vec<u64> = slots.iter().map(|slot| slot.range.start).collect();
        self.slots = Slots::new(&DIALECT, slots, end);
        Ok(blocks.finish(&root, end, &offsets).into())
    }

    fn next_offset(&mut self, end: u64, tensor: &TensorSpec, component: usize) -> Result<u64> {
        self.slots.next_offset(end, tensor, component)
    }

    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: Stored,
    ) -> Result<()> {
        self.slots.component_written(tensor, component, &stored)
    }

    fn finish(&mut self, end: u64) -> Result<Bytes> {
        self.slots.finish(end)
    }
}

/// The attribute in which Keras lists the weights of a layer.
const WEIGHT_NAMES: &str = "weight_names";

/// The tree of groups and datasets that the names of tensors form.
struct Tree<'a> {
    root: Node<'a>,
    /// The paths of groups.
    groups: HashSet<&'a str>,
    /// For each tensor that shares the dataset of another: the number of the other.
    owners: Vec<Option<usize>>,
    /// The number of names of each tensor's dataset.
    links: Vec<u32>,
}

enum Node<'a> {
    Group(BTreeMap<&'a str, Node<'a>>),
    /// A tensor, by its number.
    Dataset(usize),
}

impl<'a> Tree<'a> {
    fn from_tensors(declared: &'a [TensorSpec]) -> Result<Tree<'a>> {
        let mut root = BTreeMap::new();
        let mut groups = HashSet::from_iter([""]);
        let mut numbers = HashMap::default();
        let mut owners: Vec<Option<usize>> = Vec::with_capacity(declared.len());
        let mut links = vec![1u32; declared.len()];
        for (number, tensor) in declared.iter().enumerate() {
            let blame = |e: Error| e.in_tensor(&tensor.name);
            let name = tensor.name.as_str();
            let mut group = &mut root;
            let mut from = 0usize;
            for (at, _) in name.match_indices('/') {
                let part = name.get(from..at).unwrap_or_default();
                let path = name.get(..at).unwrap_or_default();
                from = at.saturating_add(1);
                groups.insert(path);
                match group.entry(part).or_insert_with(|| Node::Group(BTreeMap::new())) {
                    Node::Group(inner) => group = inner,
                    Node::Dataset(_) => return Err(blame(both(path))),
                }
            }
            let last = name.get(from..).unwrap_or_default();
            match group.insert(last, Node::Dataset(number)) {
                None => {}
                Some(Node::Group(_)) => return Err(blame(both(name))),
                Some(Node::Dataset(_)) => {
                    return Err(blame(DECLARED.broken("two tensors have this name")));
                }
            }
            let shares = tensor.components.first().and_then(|data| data.shares.as_ref());
            let owner = match shares {
                None => None,
                Some(other) => {
                    let found: Option<usize> = numbers.get(other.tensor.as_str()).copied();
                    let owner = found.and_then(|at| Some((at, declared.get(at)?)));
                    let kind = |other: &TensorSpec| {
                        let data = other.components.first();
                        data.map(|c| (c.dtype, c.logical_type.clone()))
                    };
                    let is_same = |other: &TensorSpec| {
                        let attributes = other.attributes.iter().eq(tensor.attributes.iter());
                        other.shape == tensor.shape && kind(other) == kind(tensor) && attributes
                    };
                    let Some((at, _)) = owner.filter(|(_, other)| is_same(other)) else {
                        let message = "it shares the bytes of a tensor with another shape, type or attributes, \
                                       but in HDF5 this would be one dataset with two names";
                        let e = FIT.broken(message).with_remedy(Remedy::CopyShared);
                        return Err(blame(e));
                    };
                    // The dataset that the other tensor shares, or its own.
                    owners.get(at).copied().flatten().or(Some(at))
                }
            };
            if let Some(links) = owner.and_then(|at| links.get_mut(at)) {
                *links = links.saturating_add(1);
            }
            owners.push(owner);
            numbers.insert(name, number);
        }
        Ok(Tree { root: Node::Group(root), groups, owners, links })
    }

    /// Adds the groups of layers without weights, which Keras expects: each has the attribute [`WEIGHT_NAMES`], and no
    /// dataset.
    fn add_layers(&mut self, attributes: &'a Attributes) {
        let layers = attributes.iter().filter_map(|(key, _)| key.strip_suffix(WEIGHT_NAMES));
        for layer in layers.filter_map(|path| path.strip_suffix('/')).filter(|path| is_path(path)) {
            let Node::Group(root) = &mut self.root else { return };
            let mut group = root;
            let (mut from, mut paths) = (0usize, Vec::new());
            let ends = layer.match_indices('/').map(|(at, _)| at).chain([layer.len()]);
            for at in ends {
                let part = layer.get(from..at).unwrap_or_default();
                from = at.saturating_add(1);
                match group.entry(part).or_insert_with(|| Node::Group(BTreeMap::new())) {
                    Node::Group(inner) => group = inner,
                    // The groups above exist.
                    Node::Dataset(_) => break,
                }
                paths.extend(layer.get(..at));
            }
            self.groups.extend(paths);
        }
    }

    fn owner(&self, number: usize) -> Option<usize> {
        self.owners.get(number).copied().flatten()
    }

    /// Assigns the file's attributes to groups: an attribute whose name begins with the path of a group belongs to it.
    fn attributes<'b>(&self, all: &'b Attributes) -> HashMap<&'b str, Vec<(&'b str, &'b Value)>> {
        let mut out: HashMap<&str, Vec<_>> = HashMap::default();
        for (key, value) in all.iter() {
            let parts = key.rmatch_indices('/').map(|(at, _)| key.split_at(at));
            let inside = parts
                .filter_map(|(path, name)| Some((path, name.strip_prefix('/')?)))
                .find(|(path, name)| {
                    !path.is_empty() && !name.is_empty() && self.groups.contains(path)
                });
            let (path, name) = inside.unwrap_or(("", key));
            out.entry(path).or_default().push((name, value));
        }
        out
    }
}

fn both(path: &str) -> Error {
    let message = format!("`{}` would be both a dataset and a group", path.escaped());
    FIT.broken(message).with_remedy(Remedy::RenameTensor)
}

impl Node<'_> {
    /// Writes a group with everything in it, except the datasets, which are written.
    fn put(
        &self,
        path: &mut String,
        blocks: &mut Blocks,
        headers: &[u64],
        attributes: &mut impl FnMut(&str) -> Vec<Message>,
    ) -> Group {
        let inside = match self {
            Node::Group(inside) => inside.iter().collect(),
            Node::Dataset(_) => Vec::new(),
        };
        let mut links = Vec::with_capacity(inside.len());
        for (name, node) in inside {
            let at = match node {
                Node::Dataset(number) => headers.get(*number).copied().unwrap_or_default(),
                Node::Group(_) => {
                    let len = path.len();
                    if len > 0 {
                        path.push('/');
                    }
                    path.push_str(name);
                    let group = node.put(path, blocks, headers, attributes);
                    path.truncate(len);
                    group.header
                }
            };
            links.push((*name, at));
        }
        let own = attributes(path);
        blocks.group(&links, own)
    }
}

/// Returns the messages for the attributes of an object. Attributes that HDF5 cannot hold are kept as one text.
fn object_messages(
    own: Vec<(&str, &Value)>,
    mark: Option<&str>,
    texts: &mut Texts,
) -> Vec<Message> {
    let mut out = Vec::new();
    let mut others = Vec::new();
    if let Some(mark) = mark {
        out.extend(values::attribute(MARK, &Value::Text(mark.to_owned()), texts));
    }
    for (key, value) in own {
        let is_ours = key == ATTRIBUTES || (key == MARK && mark.is_some());
        let has_room = out.len() < MAX_MESSAGES && !is_ours;
        match has_room.then(|| values::attribute(key, value, texts)).flatten() {
            Some(message) => out.push(message),
            None => others.push((key, value)),
        }
    }
    if let Some(text) = object(others, |value, out| value.write_json(out)) {
        out.extend(values::attribute(ATTRIBUTES, &Value::Text(text), texts));
    }
    out
}

/// Returns `true` if the name can be the path of a dataset or a group.
fn is_path(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.matches('/').count() < MAX_PARTS
        && name.split('/').all(|part| !part.is_empty() && part != "." && !part.contains('\0'))
}

/// Returns `true` if Keras would read the tensor as a weight, `…/vars/0`. For a weight, Keras accepts `bfloat16` only
/// as opaque bytes, not as a type of HDF5.
fn is_of_keras(name: &str) -> bool {
    name.rsplit('/').nth(1) == Some("vars")
}

/// A tensor as a dataset.
struct Array<'t> {
    /// The datatype message of an element.
    datatype: Vec<u8>,
    /// The value of the attribute that names the type of the elements.
    mark: Option<&'static str>,
    shape: Cow<'t, [u64]>,
    attributes: Cow<'t, Attributes>,
    /// The number of bytes of all elements.
    len: u64,
}

/// Returns the dataset for a tensor.
fn array(tensor: &TensorSpec) -> Result<Array<'_>> {
    let data = match tensor.components.as_slice() {
        [data] if data.role == Role::Data => Some(data),
        _ => None,
    };
    if let (Layout::Records, Some(data)) = (&tensor.layout, data) {
        return records(tensor, data);
    }
    let Some(data) = data.filter(|_| tensor.layout == Layout::Dense) else {
        let layout = tensor.layout.as_str().escaped();
        let e = FORM.broken(format!("HDF5 has no layout `{layout}`"));
        return Err(match tensor.layout {
            // Tensors with an unknown layout cannot be made dense either.
            Layout::Records | Layout::Blob | Layout::Other(_) => e.with_remedy(Remedy::LeaveOut),
            _ => e,
        });
    };
    let logical = data.logical_type.as_ref();
    let Some(mut element) = values::element(data.dtype, logical) else {
        let type_name =
            logical.map_or(data.dtype.as_str(), |type_name| type_name.as_str()).escaped();
        return Err(ELEMENT_TYPE.broken(format!("HDF5 has no elements of type {type_name}")));
    };
    check_location(&tensor.name, tensor.shape.len())?;
    if data.dtype == DType::Bf16 && is_of_keras(&tensor.name) {
        element.datatype = values::opaque(2);
    }
    let count = element_count(&tensor.shape).unwrap_or(u64::MAX);
    if stored_size(count, data.dtype, logical).ok().flatten() != Some(data.decoded_len) {
        let message = format!("shape {:?} does not match {} bytes", tensor.shape, data.decoded_len);
        return Err(DECLARED.broken(message));
    }
    if let Some((element, shape)) = type_from_attribute(tensor, data)
        && let Some(datatype) = values::numpy_datatype(&element)
    {
        let mut attributes = tensor.attributes.clone();
        attributes.remove(DESCR);
        let (shape, attributes) = (shape.into(), Cow::Owned(attributes));
        return Ok(Array { datatype, mark: None, shape, attributes, len: data.decoded_len });
    }
    let (shape, attributes) = (tensor.shape.as_slice().into(), Cow::Borrowed(&tensor.attributes));
    Ok(Array {
        datatype: element.datatype,
        mark: element.mark,
        shape,
        attributes,
        len: data.decoded_len,
    })
}

/// Returns the dataset of compounds for a tensor of records.
fn records<'t>(tensor: &TensorSpec, data: &ComponentSpec) -> Result<Array<'t>> {
    let refusal = Refusal { format: "HDF5", layout: &FORM, declared: &DECLARED };
    let found = structured(tensor, data, &refusal)?;
    check_location(&tensor.name, found.shape.len())?;
    let datatype = values::record(&found.fields)
        .and_then(|datatype| Some((record_schema_of(&datatype)?, datatype)));
    let Some((kind, datatype)) = datatype else {
        let why = "their type is too long, has fields of 0 bytes, or is that of complex numbers";
        return Err(refusal.error(why));
    };
    let attributes = Cow::Owned(found.extra_attributes(&kind));
    Ok(Array { datatype, mark: None, shape: found.shape.into(), attributes, len: data.decoded_len })
}

/// Checks that a dataset can have this name and number of dimensions.
fn check_location(name: &str, rank: usize) -> Result<()> {
    if rank > MAX_RANK {
        let e = FIT.broken(format!("it has {rank} dimensions, at most {MAX_RANK} are allowed"));
        return Err(e.with_remedy(Remedy::LeaveOut));
    }
    if !is_path(name) {
        let e = FIT.broken("its name is not a valid path of a dataset");
        return Err(e.with_remedy(Remedy::RenameTensor));
    }
    Ok(())
}
