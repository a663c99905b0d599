//! Builds the structures of a file as bytes, in the forms that every reader of HDF5 supports: superblock 0, object
//! headers of version 1, symbol tables, and collections of strings.

use super::header::kind;
use super::superblock::SIGNATURE;

/// The undefined address.
pub(super) const NOWHERE: u64 = u64::MAX;
/// Half of the maximum number of links in a symbol table, and of children of a tree node, as the superblock gives them.
const HALF_TABLE: u8 = 4;
const HALF_NODE: u8 = 16;
/// The maximum number of entries of a symbol table and of a tree node, and their lengths in bytes.
const TABLE: usize = 2 * HALF_TABLE as usize;
const NODE: usize = 2 * HALF_NODE as usize;
const TABLE_LEN: usize = 8 + TABLE * 40;
const NODE_LEN: usize = 24 + NODE * 16 + 8;
/// The minimum length of a collection in bytes. A collection of this length, or with too many strings, is closed.
const COLLECTION_LEAST: usize = 4096;
const COLLECTION_FULL: usize = 1 << 20;
const COLLECTION_TEXTS: u16 = 60_000;

/// The target of an address that is not known yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// The collection with this number.
    Texts(usize),
    /// The data of the tensor with this number.
    Data(usize),
}

/// A message of an object header.
pub(super) struct Message {
    kind: u16,
    body: Vec<u8>,
    /// The offsets in the body at which addresses are missing, and their targets.
    missing: Vec<(usize, Target)>,
}

impl Message {
    pub(super) fn new(kind: u16, body: Vec<u8>) -> Message {
        Message { kind, body, missing: Vec::new() }
    }

    /// Returns the layout message of a tensor with `len` bytes of data.
    pub(super) fn data(tensor: usize, len: u64) -> Message {
        let body = [&[3, 1][..], &NOWHERE.to_le_bytes(), &len.to_le_bytes()].concat();
        let missing = if len == 0 { Vec::new() } else { vec![(2, Target::Data(tensor))] };
        Message { kind: kind::LAYOUT, body, missing }
    }

    /// Reserves space in the body for an address.
    pub(super) fn push_address(&mut self, target: Target) {
        self.missing.push((self.body.len(), target));
        self.push(&NOWHERE.to_le_bytes());
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

/// All of a file except its data, as far as it is built.
pub(super) struct Blocks {
    bytes: Vec<u8>,
    missing: Vec<(usize, Target)>,
}

/// A group that was written: the fields that the superblock has for the root group.
pub(super) struct Group {
    pub(super) header: u64,
    tree: u64,
    names: u64,
}

impl Blocks {
    /// Creates the blocks with space for the superblock.
    pub(super) fn new() -> Blocks {
        Blocks { bytes: vec![0; SUPERBLOCK_LEN], missing: Vec::new() }
    }

    /// Writes an object header to which `links` links refer.
    pub(super) fn header(&mut self, links: u32, messages: Vec<Message>) -> u64 {
        let at = self.bytes.len() as u64;
        let count = u16::try_from(messages.len()).unwrap_or(u16::MAX);
        let mut content = Vec::new();
        for Message { kind, mut body, missing } in messages {
            body.resize(body.len().next_multiple_of(8), 0);
            let len = u16::try_from(body.len()).unwrap_or(u16::MAX);
            // A datatype is marked as constant.
            let flags = u8::from(kind == kind::DATATYPE);
            content.extend_from_slice(&kind.to_le_bytes());
            content.extend_from_slice(&len.to_le_bytes());
            content.extend_from_slice(&[flags, 0, 0, 0]);
            let start = self.bytes.len().saturating_add(HEADER_LEN).saturating_add(content.len());
            let addresses =
                missing.into_iter().map(|(at, target)| (start.saturating_add(at), target));
            self.missing.extend(addresses);
            content.extend_from_slice(&body);
        }
        let len = u32::try_from(content.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&[1, 0]);
        self.bytes.extend_from_slice(&count.to_le_bytes());
        self.bytes.extend_from_slice(&links.to_le_bytes());
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&content);
        at
    }

    /// Writes a group with these links to object headers, in the order of their names.
    pub(super) fn group(&mut self, links: &[(&str, u64)], mut messages: Vec<Message>) -> Group {
        // The empty name at offset 0 is the first key of the tree.
        let mut heap = vec![0; 8];
        let mut entries = Vec::with_capacity(links.len());
        for (name, to) in links {
            entries.push((heap.len() as u64, *to));
            heap.extend_from_slice(name.as_bytes());
            heap.resize(heap.len().saturating_add(1).next_multiple_of(8), 0);
        }
        let names = self.bytes.len() as u64;
        self.bytes.extend_from_slice(b"HEAP\0\0\0\0");
        let data = names.saturating_add(32);
        // The offset of the free list: 1 means that there is no free space.
        self.numbers([heap.len() as u64, 1, data]);
        self.bytes.extend_from_slice(&heap);
        let tree = self.tree(&entries);
        let mut first = Message::new(kind::SYMBOLS, Vec::new());
        [tree, names].iter().for_each(|n| first.push(&n.to_le_bytes()));
        messages.insert(0, first);
        Group { header: self.header(1, messages), tree, names }
    }

    /// Writes the symbol tables of a group and the tree of them. `entries` has the offset of each link's name, and the
    /// address of its object.
    fn tree(&mut self, entries: &[(u64, u64)]) -> u64 {
        // The nodes of a level: the address of each, and the last name in it.
        let mut level: Vec<(u64, u64)> = Vec::new();
        for entries in entries.chunks(TABLE) {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(b"SNOD\x01\0");
            let count = u16::try_from(entries.len()).unwrap_or(u16::MAX);
            self.bytes.extend_from_slice(&count.to_le_bytes());
            for (name, to) in entries {
                self.numbers([*name, *to, 0, 0, 0]);
            }
            self.bytes.resize(at.saturating_add(TABLE_LEN), 0);
            level.push((at as u64, entries.last().map_or(0, |(name, _)| *name)));
        }
        let mut height = 0u8;
        loop {
            let start = self.bytes.len() as u64;
            let address_of = |node: usize| {
                let len = (node as u64).saturating_mul(NODE_LEN as u64);
                start.saturating_add(len)
            };
            let nodes: Vec<&[(u64, u64)]> = match level.is_empty() {
                true => vec![&[]],
                false => level.chunks(NODE).collect(),
            };
            let (mut above, mut key) = (Vec::new(), 0u64);
            for (number, node) in nodes.iter().enumerate() {
                let count = u16::try_from(node.len()).unwrap_or(u16::MAX);
                let left = number.checked_sub(1).map_or(NOWHERE, address_of);
                let right = number.saturating_add(1);
                let right = if right < nodes.len() { address_of(right) } else { NOWHERE };
                self.bytes.extend_from_slice(b"TREE\0");
                self.bytes.push(height);
                self.bytes.extend_from_slice(&count.to_le_bytes());
                self.numbers([left, right, key]);
                for (at, last) in *node {
                    self.numbers([*at, *last]);
                    key = *last;
                }
                let end =
                    usize::try_from(address_of(number.saturating_add(1))).unwrap_or(usize::MAX);
                self.bytes.resize(end, 0);
                above.push((address_of(number), key));
            }
            match above.as_slice() {
                [(root, _)] => return *root,
                _ => level = above,
            }
            height = height.saturating_add(1);
        }
    }

    /// Writes the collections. After that, only addresses of data are missing. Returns the length of all blocks.
    pub(super) fn texts(&mut self, texts: Texts) -> u64 {
        let mut addresses = Vec::new();
        for collection in texts.finish() {
            addresses.push(self.bytes.len() as u64);
            self.bytes.extend_from_slice(&collection);
        }
        self.fill(|target| match target {
            Target::Texts(number) => addresses.get(number).copied(),
            Target::Data(_) => None,
        });
        self.bytes.len() as u64
    }

    /// Writes the addresses of targets that are known now.
    fn fill(&mut self, known: impl Fn(Target) -> Option<u64>) {
        let bytes = &mut self.bytes;
        self.missing.retain(|(at, target)| {
            let room = bytes.get_mut(*at..).and_then(<[u8]>::first_chunk_mut::<8>);
            match (known(*target), room) {
                (Some(address), Some(room)) => {
                    *room = address.to_le_bytes();
                    false
                }
                _ => true,
            }
        });
    }

    /// Returns all bytes before the data, for a file of `end` bytes.
    pub(super) fn finish(mut self, root: &Group, end: u64, data: &[u64]) -> Vec<u8> {
        self.fill(|target| match target {
            Target::Data(tensor) => data.get(tensor).copied(),
            Target::Texts(_) => None,
        });
        let mut head = SIGNATURE.to_vec();
        head.extend_from_slice(&[0, 0, 0, 0, 0, 8, 8, 0]);
        head.extend_from_slice(&[HALF_TABLE, 0, HALF_NODE, 0, 0, 0, 0, 0]);
        for number in [0, NOWHERE, end, NOWHERE, 0, root.header, 1, root.tree, root.names] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        self.bytes.iter_mut().zip(head).for_each(|(to, from)| *to = from);
        self.bytes
    }

    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        numbers.iter().for_each(|n| self.bytes.extend_from_slice(&n.to_le_bytes()));
    }
}

const SUPERBLOCK_LEN: usize = 96;
/// The number of bytes of an object header before its messages.
const HEADER_LEN: usize = 16;

/// Variable-length strings, in collections.
#[derive(Default)]
pub(super) struct Texts {
    full: Vec<Vec<u8>>,
    open: Vec<u8>,
    count: u16,
}

impl Texts {
    /// Adds a string, and returns the number of its collection and its number in the collection.
    pub(super) fn add(&mut self, text: &str) -> (usize, u32) {
        if self.open.len() >= COLLECTION_FULL || self.count >= COLLECTION_TEXTS {
            self.close();
        }
        self.count = self.count.saturating_add(1);
        self.open.extend_from_slice(&self.count.to_le_bytes());
        self.open.extend_from_slice(&[1, 0, 0, 0, 0, 0]);
        self.open.extend_from_slice(&(text.len() as u64).to_le_bytes());
        self.open.extend_from_slice(text.as_bytes());
        self.open.resize(self.open.len().next_multiple_of(8), 0);
        (self.full.len(), self.count.into())
    }

    fn close(&mut self) {
        self.count = 0;
        let texts = std::mem::take(&mut self.open);
        let len = texts.len().saturating_add(16).max(COLLECTION_LEAST);
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(b"GCOL\x01\0\0\0");
        out.extend_from_slice(&(len as u64).to_le_bytes());
        out.extend_from_slice(&texts);
        // The rest is free space, which is object number 0.
        let free = len.saturating_sub(out.len());
        if free >= 16 {
            out.extend_from_slice(&[0; 8]);
            out.extend_from_slice(&(free as u64).to_le_bytes());
        }
        out.resize(len, 0);
        self.full.push(out);
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        if !self.open.is_empty() {
            self.close();
        }
        self.full
    }
}
