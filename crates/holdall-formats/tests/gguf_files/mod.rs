//! GGUF files made byte by byte, and those that break a rule each.
#![allow(dead_code)] // Each user takes some of it.

/// A file whose header and contents agree, unless changed by a test.
#[derive(Clone)]
pub(crate) struct Gguf {
    pub(crate) version: u32,
    pub(crate) is_big: bool,
    /// Counts in place of the true ones.
    pub(crate) counts: (Option<u64>, Option<u64>),
    pub(crate) pairs: Vec<Vec<u8>>,
    pub(crate) tensors: Vec<Vec<u8>>,
    pub(crate) data: Vec<u8>,
    pub(crate) align: usize,
}

impl Gguf {
    pub(crate) fn new() -> Gguf {
        let (pairs, tensors, data) = (Vec::new(), Vec::new(), Vec::new());
        Gguf { version: 3, is_big: false, counts: (None, None), pairs, tensors, data, align: 32 }
    }

    fn number<const N: usize>(&self, bytes: [u8; N]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if self.is_big {
            bytes.reverse();
        }
        bytes
    }

    pub(crate) fn u32(&self, n: u32) -> Vec<u8> {
        self.number(n.to_le_bytes())
    }

    pub(crate) fn u64(&self, n: u64) -> Vec<u8> {
        self.number(n.to_le_bytes())
    }

    pub(crate) fn string(&self, text: &[u8]) -> Vec<u8> {
        [self.u64(text.len() as u64), text.to_vec()].concat()
    }

    /// With a key–value of that type and those bytes.
    pub(crate) fn pair(mut self, key: &str, of: u32, value: &[u8]) -> Gguf {
        let pair = [self.string(key.as_bytes()), self.u32(of), value.to_vec()].concat();
        self.pairs.push(pair);
        self
    }

    pub(crate) fn raw_pair(mut self, bytes: &[u8]) -> Gguf {
        self.pairs.push(bytes.to_vec());
        self
    }

    /// With the entry of a tensor: its dimensions as GGUF has them, its type, its offset.
    pub(crate) fn entry(mut self, name: &[u8], dims: &[u64], of: u32, offset: u64) -> Gguf {
        let mut entry = [self.string(name), self.u32(dims.len() as u32)].concat();
        dims.iter().for_each(|n| entry.extend(self.u64(*n)));
        entry.extend([self.u32(of), self.u64(offset)].concat());
        self.tensors.push(entry);
        self
    }

    /// With a tensor of these bytes after those before it.
    pub(crate) fn tensor(mut self, name: &str, dims: &[u64], of: u32, bytes: &[u8]) -> Gguf {
        let offset = self.data.len() as u64;
        self = self.entry(name.as_bytes(), dims, of, offset);
        self.data.extend_from_slice(bytes);
        self.data.resize(self.data.len().next_multiple_of(self.align), 0);
        self
    }

    pub(crate) fn header(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.u32(self.version));
        out.extend(self.u64(self.counts.0.unwrap_or(self.tensors.len() as u64)));
        out.extend(self.u64(self.counts.1.unwrap_or(self.pairs.len() as u64)));
        self.pairs.iter().chain(&self.tensors).for_each(|part| out.extend(part));
        out
    }

    pub(crate) fn finish(&self) -> Vec<u8> {
        let mut out = self.header();
        out.resize(out.len().next_multiple_of(self.align), 0);
        out.extend(&self.data);
        out
    }
}

/// Files by `area.what.case`, which is their name in the corpus.
pub(crate) fn rejects() -> Vec<(&'static str, Vec<u8>)> {
    let new = Gguf::new;
    let one = || new().tensor("w", &[4], 0, &[1; 16]);
    let version = |version| Gguf { version, ..one() }.finish();
    let counts = |tensors, pairs| Gguf { counts: (tensors, pairs), ..one() }.finish();
    let entry = |name: &[u8], dims: &[u64], of, offset| {
        let mut file = new().entry(name, dims, of, offset);
        file.data = vec![1; 64];
        file.finish()
    };
    let reversed = |of| {
        let mut file = Gguf { is_big: true, ..new() }.entry(b"w", &[32], of, 0);
        file.data = vec![1; 64];
        file.finish()
    };
    let array =
        |of: u32, count: u64| [of.to_le_bytes().to_vec(), count.to_le_bytes().to_vec()].concat();
    let two = |second| {
        let mut file = new().entry(b"a", &[4], 0, 0).entry(b"b", &[4], 0, second);
        file.data = vec![1; 128];
        file.finish()
    };
    let aligned = |of: u32, value: &[u8]| one().pair("general.alignment", of, value).finish();
    let long = vec![b'n'; 128];
    let cut = |from_end: usize| {
        let file = one().pair("general.name", 8, &new().string(b"a name"));
        let header = file.header();
        header[..header.len() - from_end].to_vec()
    };
    let mut big = Gguf { is_big: true, ..new() };
    big = big.tensor("w", &[256], 16, &[1; 66]);
    vec![
        ("gguf.version.one", version(1)),
        ("gguf.version.four", version(4)),
        ("gguf.version.zero", version(0)),
        ("gguf.header-bounds.magic-alone", b"GGUF".to_vec()),
        ("gguf.version.reversed", [b"FUGG", &one().finish()[4..]].concat()),
        ("gguf.header-bounds.no-counts", one().finish()[..20].to_vec()),
        ("gguf.header-bounds.tensors", Gguf { counts: (Some(2), None), ..one() }.header()),
        ("gguf.header-bounds.tensors-most", counts(Some(u64::MAX), None)),
        ("gguf.header-bounds.pairs", counts(None, Some(1 << 40))),
        ("gguf.header-bounds.in-entry", cut(1)),
        ("gguf.header-bounds.in-name", cut(30)),
        ("gguf.header-bounds.in-value", cut(44)),
        ("gguf.header-bounds.items", one().pair("a", 9, &array(4, 1 << 29)).finish()),
        ("gguf.key.empty", one().pair("", 4, &[1, 0, 0, 0]).finish()),
        ("gguf.key.twice", one().pair("a", 7, &[1]).pair("a", 7, &[1]).finish()),
        (
            "gguf.key.utf8",
            one().raw_pair(&[&new().string(b"\xff")[..], &[7, 0, 0, 0, 1]].concat()).finish(),
        ),
        ("gguf.value-type.13", one().pair("a", 13, &[0; 8]).finish()),
        ("gguf.value-type.most", one().pair("a", u32::MAX, &[0; 8]).finish()),
        ("gguf.value-type.nested-array", one().pair("a", 9, &array(9, 1)).finish()),
        ("gguf.value-type.item", one().pair("a", 9, &array(13, 1)).finish()),
        ("gguf.string.key", one().raw_pair(&(1u64 << 31).to_le_bytes()).finish()),
        ("gguf.string.value", one().pair("a", 8, &u64::MAX.to_le_bytes()).finish()),
        ("gguf.string.array", one().pair("a", 9, &array(7, (1 << 30) + 1)).finish()),
        ("gguf.alignment.zero", aligned(4, &0u32.to_le_bytes())),
        ("gguf.alignment.48", aligned(4, &48u32.to_le_bytes())),
        ("gguf.alignment.u64", aligned(10, &64u64.to_le_bytes())),
        ("gguf.alignment.text", aligned(8, &new().string(b"32"))),
        ("gguf.name.128-bytes", entry(&long, &[4], 0, 0)),
        ("gguf.name.utf8", entry(b"\xff\xfe", &[4], 0, 0)),
        ("gguf.rank.five", entry(b"w", &[1, 1, 1, 1, 1], 0, 0)),
        (
            "gguf.rank.most",
            new().entry(b"w", &[4], 0, 0).header()[..33]
                .iter()
                .copied()
                .chain([0xff; 64])
                .collect(),
        ),
        ("gguf.rank.negative", entry(b"w", &[u64::MAX], 0, 0)),
        ("gguf.dtype.removed", reversed(4)),
        ("gguf.dtype.most", reversed(u32::MAX)),
        ("gguf.rows.q4_0", entry(b"w", &[16, 2], 2, 0)),
        ("gguf.rows.q4_k", entry(b"w", &[128, 2], 12, 0)),
        ("gguf.rows.scalar", entry(b"w", &[], 8, 0)),
        ("gguf.rows.product", entry(b"w", &[1 << 32, 1 << 31], 24, 0)),
        ("index.shape-overflow.product", entry(b"w", &[1 << 62, 1 << 62], 0, 0)),
        ("gguf.offset.gap", two(64)),
        ("gguf.offset.same", two(0)),
        ("gguf.offset.unpadded", two(16)),
        ("gguf.offset.first", entry(b"w", &[4], 0, 32)),
        ("gguf.offset.most", entry(b"w", &[4], 0, u64::MAX)),
        ("gguf.truncated.one-less", {
            let mut file = new().entry(b"w", &[16], 0, 0);
            file.data = vec![1; 63];
            file.finish()
        }),
        ("gguf.truncated.no-data", new().entry(b"w", &[16], 0, 0).finish()),
        ("gguf.big-endian-blocks.iq2_xxs", big.finish()),
        (
            "index.duplicate-name.same",
            two(32).iter().map(|b| if *b == b'b' { b'a' } else { *b }).collect(),
        ),
    ]
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/gguf/{name}.gguf");
    rejects().into_iter().map(|(name, bytes)| (path(name), bytes)).collect()
}
