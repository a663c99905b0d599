//! Distributed checkpoints: the pickle `.metadata`, which describes the other files of the folder. Each item in these
//! is a file of `torch.save` with a chunk of a tensor or another value.

use super::object::{Objects, check_steps};
use super::{CHECKPOINT, CHUNKS, DTYPE, FORMAT, GLOBAL, ITEM, TRANSFORMED};
use crate::named::{Element, is_dtype};
use holdall_collections::DebugUnwrap;
use holdall_collections::HashMap;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{
    Attributes, ByteOrder, Component, Encoding, Index, IndexBuilder, Layout, Role, TensorInfo,
};
use holdall_core::read::{Chunk, Chunked, EdgeChunks, Extent, Grid};
use holdall_core::wire::pickle::{self, Graph, Id, Node};
use std::ops::Range;

/// The name of the file that describes a checkpoint.
pub const NAME: &str = ".metadata";
/// The extension of its other files.
pub const EXTENSION: &str = ".distcp";

/// The contents of `.metadata`.
#[derive(Debug)]
pub struct Checkpoint {
    files: Vec<String>,
    items: Vec<Item>,
    tensors: Vec<Sharded>,
    /// Values that are not tensors, and their items.
    values: Vec<(String, usize)>,
}

/// A file of `torch.save` inside another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The number of its file.
    pub file: usize,
    /// The byte range in its file.
    pub range: Range<u64>,
}

/// A tensor in chunks.
#[derive(Debug)]
struct Sharded {
    name: String,
    shape: Vec<u64>,
    /// The name of the type in torch.
    dtype: String,
    chunks: Vec<Piece>,
}

/// A box of a tensor's elements, which is an item.
#[derive(Debug)]
struct Piece {
    origin: Vec<u64>,
    shape: Vec<u64>,
    item: usize,
}

impl Checkpoint {
    /// Reads the pickle.
    ///
    /// # Errors
    /// Returns [`pickle::RULES`], [`GLOBAL`], [`CHECKPOINT`] or [`TRANSFORMED`] if it is not valid, and a `Limit` error
    /// if it takes more steps than [`Limits::attribute_values`](holdall_core::Limits::attribute_values).
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Checkpoint> {
        let Some((graph, root, _)) = pickle::read(bytes, 0, limits.attribute_values)? else {
            return Err(pickle::BROKEN.broken("the pickle is cut short"));
        };
        check_steps(&graph, root, limits.attribute_values)?;
        if !limits.skip_unknown {
            for (module, name) in graph.globals() {
                if !is_allowed(module, name) {
                    let what = format!("{}.{}", module.escaped(), name.escaped());
                    return Err(GLOBAL.broken(format!("the pickle would import `{what}`")));
                }
            }
        }
        let objects = Objects { graph: &graph, skips: limits.skip_unknown, depth: limits.depth };
        Reader { graph: &graph, objects }.checkpoint(root)
    }

    /// Returns the names of the files.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Returns all items in the files. [`FORMAT`] decodes each of them.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Converts an extent in an item to one in its file.
    fn moved(&self, stored: Extent, item: usize) -> Extent {
        let item = self.items.get(item);
        let start = item.map_or(0, |item| item.range.start);
        Extent {
            source: item.and_then(|item| u32::try_from(item.file).ok()).unwrap_or(u32::MAX),
            start: start.saturating_add(stored.start),
            end: start.saturating_add(stored.end),
        }
    }

    /// Joins the tensors and values of all items. `lens` has the length of each file, `items` the index of each item.
    ///
    /// # Errors
    /// Returns [`CHECKPOINT`] for an item outside of its file, and the errors of [`IndexBuilder`].
    pub fn join(&self, lens: &[u64], items: &[Index], limits: &Limits) -> Result<Index> {
        let mut builder = IndexBuilder::for_files(FORMAT.id, "", limits);
        for len in lens {
            builder.source(*len, 0..*len)?;
        }
        for item in &self.items {
            if lens.get(item.file).is_none_or(|len| item.range.end > *len) {
                let file = self.files.get(item.file).map_or("", String::as_str);
                let message = format!("an item is outside of `{}`", file.escaped());
                return Err(CHECKPOINT.broken(message).at(item.range.clone()));
            }
        }
        if items.len() != self.items.len() {
            let message = format!("expected {} items, found {}", self.items.len(), items.len());
            return Err(CHECKPOINT.broken(message));
        }
        let mut joined = Joined { checkpoint: self, items, builder };
        let mut attributes = Attributes::new();
        for (name, item) in &self.values {
            joined.value(name, *item, &mut attributes)?;
        }
        for tensor in &self.tensors {
            joined.tensor(tensor).map_err(|e| e.in_tensor(&tensor.name))?;
        }
        joined.builder.attributes(attributes);
        joined.builder.finish()
    }
}

/// Returns `true` for names that such a pickle may import: classes of checkpoints, paths, dtypes.
fn is_allowed(module: &str, name: &str) -> bool {
    match module {
        "torch.distributed.checkpoint.metadata" => matches!(
            name,
            "Metadata"
                | "MetadataIndex"
                | "TensorStorageMetadata"
                | "BytesStorageMetadata"
                | "ChunkStorageMetadata"
                | "TensorProperties"
                | "StorageMeta"
                | "_MEM_FORMAT_ENCODING"
        ),
        "torch.distributed.checkpoint.filesystem" => name == "_StorageInfo",
        "pathlib" | "pathlib._local" => {
            matches!(name, "PosixPath" | "PurePosixPath" | "WindowsPath" | "PureWindowsPath")
        }
        "torch.serialization" => name == "_get_layout",
        "torch" => name == "Size" || is_dtype(name),
        "collections" => name == "OrderedDict",
        _ => false,
    }
}

/// Reads objects of the classes of checkpoints.
struct Reader<'g> {
    graph: &'g Graph,
    objects: Objects<'g>,
}

impl<'g> Reader<'g> {
    fn checkpoint(&self, root: Id) -> Result<Checkpoint> {
        let wrong =
            |what: &str| CHECKPOINT.broken(format!("{what} is not in the form that torch writes"));
        let all = self.fields(root, "Metadata").ok_or_else(|| wrong("the metadata"))?;
        let dict = |key: &str| match all.get(key).map(|id| self.graph.get(*id)) {
            Some(Node::Dict(pairs)) => Ok(pairs),
            _ => Err(wrong(&format!("`{key}`"))),
        };
        let mut out = Checkpoint {
            files: Vec::new(),
            items: Vec::new(),
            tensors: Vec::new(),
            values: Vec::new(),
        };
        let storage_locations = self.storage_locations(dict("storage_data")?, &mut out)?;
        let find = |name: &str, origin: Option<&[u64]>| {
            storage_locations
                .get(&(name.to_owned(), origin.map(<[u64]>::to_vec)))
                .copied()
                .ok_or_else(|| {
                    let at = origin.map_or(String::new(), |origin| format!(" at {origin:?}"));
                    let message = format!(
                        "the checkpoint does not give the file of `{}`{at}",
                        name.escaped()
                    );
                    CHECKPOINT.broken(message)
                })
        };
        for (name, described) in dict("state_dict_metadata")? {
            let name = self.graph.text(*name).ok_or_else(|| wrong("the name of a tensor"))?;
            let named = |e: Error| e.in_tensor(name);
            let malformed = || wrong("the description of a tensor");
            if self.fields(*described, "BytesStorageMetadata").is_some() {
                out.values.push((name.to_owned(), find(name, None).map_err(named)?));
                continue;
            }
            let fields = self.fields(*described, "TensorStorageMetadata");
            let fields = fields.ok_or_else(malformed).map_err(named)?;
            let field = |key: &str| fields.get(key).copied().ok_or_else(malformed);
            let read = || -> Result<Sharded> {
                let shape = self.objects.numbers(field("size")?).ok_or_else(malformed)?;
                let dtype = self.dtype(field("properties")?).ok_or_else(malformed)?.to_owned();
                let mut chunks = Vec::new();
                for chunk in self.graph.items(field("chunks")?).ok_or_else(malformed)? {
                    let fields =
                        self.fields(*chunk, "ChunkStorageMetadata").ok_or_else(malformed)?;
                    let numbers = |key: &str| {
                        fields
                            .get(key)
                            .and_then(|id| self.objects.numbers(*id))
                            .ok_or_else(malformed)
                    };
                    let (origin, own) = (numbers("offsets")?, numbers("sizes")?);
                    if origin.len() != shape.len() || own.len() != shape.len() {
                        return Err(malformed());
                    }
                    let item = find(name, Some(&origin))?;
                    chunks.push(Piece { origin, shape: own, item });
                }
                Ok(Sharded { name: name.to_owned(), shape, dtype, chunks })
            };
            out.tensors.push(read().map_err(named)?);
        }
        Ok(out)
    }

    /// Returns the items, by the name of the value and the offset of the chunk in it.
    #[allow(clippy::type_complexity)]
    fn storage_locations(
        &self,
        pairs: &[(Id, Id)],
        out: &mut Checkpoint,
    ) -> Result<HashMap<(String, Option<Vec<u64>>), usize>> {
        let wrong =
            || CHECKPOINT.broken("the location of an item is not in the form that torch writes");
        let mut numbers: HashMap<&str, usize> = HashMap::default();
        let mut storage_locations = HashMap::default();
        for (key, storage_location) in pairs {
            let key = self.fields(*key, "MetadataIndex").ok_or_else(wrong)?;
            let name = key.get("fqn").and_then(|id| self.graph.text(*id)).ok_or_else(wrong)?;
            let origin = match key.get("offset").map(|id| (id, self.graph.get(*id))) {
                None | Some((_, Node::None)) => None,
                Some((id, _)) => Some(self.objects.numbers(*id).ok_or_else(wrong)?),
            };
            let storage_location =
                self.fields(*storage_location, "_StorageInfo").ok_or_else(wrong)?;
            let number = |key: &str| {
                let found = storage_location.get(key).and_then(|id| self.graph.integer(*id));
                found.and_then(|n| u64::try_from(n).ok()).ok_or_else(wrong)
            };
            let is_plain = storage_location.get("transform_descriptors").is_none_or(|id| {
                matches!(self.graph.get(*id), Node::None)
                    || self.graph.items(*id).is_some_and(<[Id]>::is_empty)
            });
            if !is_plain {
                let message = "its bytes are stored with a transform, such as compression";
                return Err(TRANSFORMED.broken(message).in_tensor(name));
            }
            let file = storage_location.get("relative_path").and_then(|id| self.graph.text(*id));
            let file = file.ok_or_else(wrong)?;
            let file = *numbers.entry(file).or_insert_with(|| {
                out.files.push(file.to_owned());
                out.files.len().saturating_sub(1)
            });
            let start = number("offset")?;
            let end = start.checked_add(number("length")?).ok_or_else(wrong)?;
            storage_locations.insert((name.to_owned(), origin), out.items.len());
            out.items.push(Item { file, range: start..end });
        }
        Ok(storage_locations)
    }

    /// Returns the fields of an object of this class.
    fn fields(&self, id: Id, class: &str) -> Option<HashMap<&'g str, Id>> {
        let (object, state) = match self.graph.get(id) {
            Node::Built(object, state) => (*object, Some(*state)),
            // An object without fields.
            Node::Call(..) => (id, None),
            _ => return None,
        };
        let Node::Call(object, _) = self.graph.get(object) else { return None };
        let is_it = matches!(self.graph.get(*object), Node::Global(module, name)
            if module.starts_with("torch.distributed.checkpoint.") && name == class);
        if !is_it {
            return None;
        }
        let pairs = match state.map(|state| self.graph.get(state)) {
            None => return Some(HashMap::default()),
            Some(Node::Dict(pairs)) => pairs,
            _ => return None,
        };
        pairs.iter().map(|(key, value)| Some((self.graph.text(*key)?, *value))).collect()
    }

    /// Returns the dtype in the properties of a tensor, which are a tuple or a dict.
    fn dtype(&self, id: Id) -> Option<&'g str> {
        let dtype = match self.graph.get(id) {
            Node::Built(_, state) => match self.graph.get(*state) {
                Node::Tuple(items) => *items.first()?,
                _ => *self.fields(id, "TensorProperties")?.get("dtype")?,
            },
            _ => return None,
        };
        match self.graph.get(dtype) {
            Node::Global(module, name) if module == "torch" => Some(name),
            _ => None,
        }
    }
}

struct Joined<'a> {
    checkpoint: &'a Checkpoint,
    items: &'a [Index],
    builder: IndexBuilder,
}

impl Joined<'_> {
    /// Adds everything in an item that is not a chunk of a tensor.
    fn value(&mut self, name: &str, item: usize, attributes: &mut Attributes) -> Result<()> {
        let items = self.items;
        let Some(index) = items.get(item) else { return Ok(()) };
        let full = |own: &str| match own {
            super::ALONE => name.to_owned(),
            own => format!("{name}.{own}"),
        };
        for (own, value) in index.attributes().iter() {
            attributes.set(full(own), value.clone());
        }
        for tensor in index.tensors() {
            self.add(&full(tensor.name()), &tensor, item)?;
        }
        for warning in index.warnings() {
            self.builder.warn(warning.code, None, None, || {
                format!("in `{}`: {}", name.escaped(), warning.message).into()
            });
        }
        for what in index.dispensable() {
            self.builder.dispensable(|| what.clone());
        }
        for what in index.unrepresented() {
            self.builder.unrepresented(|| what.clone());
        }
        Ok(())
    }

    /// Adds a tensor of an item unchanged.
    fn add(&mut self, name: &str, tensor: &TensorInfo, item: usize) -> Result<()> {
        let Some(index) = self.items.get(item) else { return Ok(()) };
        let checkpoint = self.checkpoint;
        self.builder.copy(name, tensor, index, |stored| checkpoint.moved(stored, item))
    }

    /// Adds a tensor, joined from its chunks. Errors in the chunks are its fault.
    fn tensor(&mut self, tensor: &Sharded) -> Result<()> {
        if let [piece] = tensor.chunks.as_slice()
            && piece.shape == tensor.shape
        {
            return match self.chunk(tensor, piece, true) {
                Ok((own, _)) => self.add(&tensor.name, &own, piece.item),
                Err(e) => self.fault(tensor, e),
            };
        }
        let parts = Element::from_dtype(&tensor.dtype).ok_or_else(|| {
            DTYPE.broken(format!("unknown element type `{}`", tensor.dtype.escaped()))
        });
        let parts = parts.and_then(|element| Ok((self.chunked(tensor, &element)?, element)));
        let (component, element) = match parts {
            Ok(found) => found,
            Err(e) => return self.fault(tensor, e),
        };
        self.builder.tensor(&tensor.name, &tensor.shape, Layout::Dense)?;
        let stored = match component.1 {
            Some(array) => self.builder.chunked(array)?,
            None => self.builder.stated(&[]),
        };
        let Element { dtype, logical: logical_type } = element;
        self.builder.component(Component { dtype, logical_type, stored, ..component.0 })
    }

    fn fault(&mut self, tensor: &Sharded, e: Error) -> Result<()> {
        self.builder.tensor(&tensor.name, &tensor.shape, Layout::Dense)?;
        self.builder.fault(e);
        Ok(())
    }

    /// Returns the only tensor in the item of a chunk, which must have the stated shape and type. Unless `is_any`, it
    /// must also be dense and stored in the file.
    fn chunk(
        &self,
        tensor: &Sharded,
        piece: &Piece,
        is_any: bool,
    ) -> Result<(TensorInfo, Option<Component>)> {
        let index = self.items.get(piece.item);
        let own = index.filter(|index| index.len() == 1).and_then(|index| index.at(0));
        let Some(own) = own else {
            return Err(ITEM.broken("an item is not one tensor"));
        };
        own.sound()?;
        let data = own.component(&Role::Data);
        let is_type = data.as_ref().is_none_or(|c| {
            Element::from_dtype(&tensor.dtype).is_none_or(|declared| {
                (declared.dtype, &declared.logical) == (c.dtype, &c.logical_type)
            })
        });
        if own.shape() != piece.shape || !is_type {
            let message = format!(
                "an item has the shape {:?}, expected {:?} of `{}`",
                own.shape(),
                piece.shape,
                tensor.dtype.escaped()
            );
            return Err(ITEM.broken(message));
        }
        let lies = data.as_ref().is_some_and(|c| !c.stored.is_stated());
        if !is_any && (*own.layout() != Layout::Dense || !lies) {
            return Err(CHUNKS.broken("a chunk is not stored in row-major order"));
        }
        Ok((own, data))
    }

    /// Returns a component like those of the chunks, and the array made of the chunks; `None` if the tensor has no
    /// elements.
    fn chunked(&self, tensor: &Sharded, element: &Element) -> Result<(Component, Option<Chunked>)> {
        let width = element.width();
        let filled = || tensor.chunks.iter().filter(|piece| !piece.shape.contains(&0));
        let component = |order| Component {
            role: Role::Data,
            dtype: element.dtype,
            logical_type: element.logical.clone(),
            encoding: Encoding::Raw,
            byte_order: order,
            stored: Extent::default(),
            decoded_len: None,
            digest: None,
        };
        if tensor.shape.contains(&0) {
            return Ok((component(ByteOrder::Little), None));
        }
        let odd = || CHUNKS.broken(format!("the chunks do not fill the shape {:?}", tensor.shape));
        // A chunk that is stored more than once is used once.
        let mut distinct: HashMap<(&[u64], &[u64]), &Piece> = HashMap::default();
        for piece in filled() {
            distinct.insert((&piece.origin, &piece.shape), piece);
        }
        let pieces: Vec<&Piece> = distinct.into_values().collect();
        let boxes: Vec<_> =
            pieces.iter().map(|piece| (piece.origin.clone(), piece.shape.clone())).collect();
        let (grid, numbers) = Grid::from_boxes(&tensor.shape, &boxes, width).ok_or_else(odd)?;
        let (mut chunks, mut order) = (Vec::new(), None);
        for (piece, number) in pieces.into_iter().zip(numbers) {
            let (_, data) = self.chunk(tensor, piece, false)?;
            let data = data.ok_or_else(odd)?;
            if *order.get_or_insert(data.byte_order) != data.byte_order {
                return Err(CHUNKS.broken("the chunks have different byte orders"));
            }
            let stored = self.checkpoint.moved(data.stored, piece.item);
            chunks.push(Chunk { number, stored, skipped_steps: 0 });
        }
        let fill = vec![0; usize::try_from(width).debug_unwrap()];
        let array = Chunked::new(grid, fill, Vec::new(), EdgeChunks::Filtered, chunks)?;
        Ok((component(order.unwrap_or(ByteOrder::Little)), Some(array)))
    }
}
