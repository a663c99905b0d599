//! Datasets and blobs to be written: encodes JSON lines as records, and runs of bytes.

use crate::json::CALL;
use crate::{Answer, le};
use holdall_core::error::Escape as _;
use holdall_core::layout::records::SIZE;
use holdall_core::{
    Attributes, ComponentSpec, DType, Error, Layout, Limits, Role, TensorSpec, Value,
};
use holdall_schema::record::check_run;
use holdall_schema::{
    Content, Document, Encoder, Entry, Heap, Reading, Root, SchemaLimits, TENSOR_SCHEMA_ATTRIBUTE,
    TypeId,
};

/// A part of the written file other than a flat tensor.
pub(crate) enum Part {
    Dataset(Box<Dataset>),
    Blob(Blob),
    /// A tensor whose bytes the host has.
    Stored(Box<TensorSpec>),
}

impl Part {
    /// Adds records as JSON lines, or runs as for [`Blob::push`].
    pub(crate) fn push(&mut self, input: &[u8]) -> Result<Answer, Error> {
        match self {
            Part::Dataset(dataset) => dataset.push(input),
            Part::Blob(blob) => blob.push(input),
            Part::Stored(_) => Err(CALL.broken("the tensor already has its bytes")),
        }
    }

    /// Moves out the bytes of the first component or of the heap: whether there is one, and its
    /// bytes.
    pub(crate) fn take(&mut self, heap: bool) -> Answer {
        match self {
            Part::Dataset(dataset) => dataset.take(heap),
            Part::Blob(blob) => blob.take(heap),
            Part::Stored(_) => Answer::NOTHING,
        }
    }

    /// Returns the spec of the tensor with that name.
    pub(crate) fn spec(&self, name: &str) -> TensorSpec {
        match self {
            Part::Dataset(dataset) => dataset.spec(name),
            Part::Blob(blob) => blob.spec(name),
            Part::Stored(spec) => TensorSpec::clone(spec),
        }
    }
}

/// A blob that is being encoded.
pub(crate) struct Blob {
    content: Content,
    limits: SchemaLimits,
    count: u64,
    entries: Vec<u8>,
    heap: Vec<u8>,
    /// The lengths of both components, also after their bytes were taken.
    lens: [u64; 2],
}

impl Blob {
    /// Begins a blob. The input is the content of its runs: `utf-8`, `bytes`, `json`, or an
    /// element type.
    pub(crate) fn begin(input: &[u8], limits: &Limits) -> Result<Blob, Error> {
        let name = std::str::from_utf8(input).unwrap_or_default();
        let content = Content::from_name(name)
            .ok_or_else(|| CALL.broken(format!("a blob holds no `{}`", name.escaped())))?;
        let limits = limits.schema_limits();
        Ok(Blob { content, limits, count: 0, entries: Vec::new(), heap: Vec::new(), lens: [0; 2] })
    }

    /// Adds runs, each with its length as a `u32` before its bytes.
    fn push(&mut self, mut input: &[u8]) -> Result<Answer, Error> {
        while let Some((len, rest)) = input.split_first_chunk::<4>() {
            let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
            let Some((run, rest)) = rest.split_at_checked(len) else {
                return Err(CALL.broken("a run is longer than the input"));
            };
            input = rest;
            let align = check_run(self.content, run, &self.limits)
                .map_err(|e| e.within(format!("run {}", self.count)))?;
            let offset = if run.is_empty() { 0 } else { Heap::append(&mut self.heap, run, align)? };
            self.entries.extend(Entry { offset, len: run.len() as u64 }.to_bytes());
            self.count += 1;
        }
        self.lens = [self.entries.len() as u64, self.heap.len() as u64];
        Ok(Answer::NOTHING)
    }

    fn take(&mut self, heap: bool) -> Answer {
        let mut out = le([1]);
        out.append(if heap { &mut self.heap } else { &mut self.entries });
        Answer::Done(out)
    }

    fn spec(&self, name: &str) -> TensorSpec {
        let kind = format!("{{\"TypeDef:Blob\":{{\"content\":\"{}\"}}}}", self.content);
        let [entries, heap] = self.lens;
        TensorSpec {
            name: name.to_owned(),
            shape: vec![self.count],
            layout: Layout::Blob,
            attributes: Attributes::from_iter([(
                TENSOR_SCHEMA_ATTRIBUTE.to_owned(),
                Value::Text(kind),
            )]),
            components: vec![
                ComponentSpec::new(Role::Entries, DType::U64, entries),
                ComponentSpec::new(Role::BlobData, DType::U8, heap),
            ],
        }
    }
}

/// A dataset that is being encoded.
pub(crate) struct Dataset {
    document: Document,
    ty: TypeId,
    limits: SchemaLimits,
    size: usize,
    stride: usize,
    count: u64,
    records: Vec<u8>,
    heap: Vec<u8>,
    /// The lengths of both components, also after their bytes were taken.
    lens: [u64; 2],
}

impl Dataset {
    /// Begins a dataset. The input is its path in the file's schema, of `len` bytes, and the
    /// schema, of the file or of a record. The answer is the schema of a record.
    pub(crate) fn begin(
        input: &[u8],
        len: usize,
        limits: &Limits,
    ) -> Result<(Dataset, Answer), Error> {
        let Some((path, text)) = input.split_at_checked(len) else {
            return Err(CALL.broken("the path is longer than the input"));
        };
        let path = std::str::from_utf8(path).map_err(|_| CALL.broken("a path is a text"))?;
        let limits = limits.schema_limits();
        let document = Document::parse(text, "the schema", Reading::ByContent, &limits)
            .and_then(|document| document.records(Some(path), &limits))
            .map_err(Error::without_location)?;
        let Root::Record(ty) = document.schema.root() else {
            return Err(SIZE.broken("the schema is not that of a record"));
        };
        let extent = document.schema.extent(ty)?;
        let fits = |n: u64| isize::try_from(n).ok().and_then(|n| usize::try_from(n).ok());
        let (Some(size), Some(stride @ 1..)) = (fits(extent.size), fits(extent.stride)) else {
            return Err(SIZE.broken(format!("records of {} bytes", extent.stride)));
        };
        let answer = Answer::text(document.normal_text());
        let (records, heap, lens) = (Vec::new(), Vec::new(), [0; 2]);
        Ok((Dataset { document, ty, limits, size, stride, count: 0, records, heap, lens }, answer))
    }

    /// Adds a record for each line.
    fn push(&mut self, lines: &[u8]) -> Result<Answer, Error> {
        let mut encoder = Encoder::new(&self.document.schema, self.ty, &self.limits)?;
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let start = self.records.len();
            self.records.resize(start + self.stride, 0);
            let slot = self.records.get_mut(start..).unwrap_or_default();
            let slot = slot.get_mut(..self.size).unwrap_or_default();
            let made = encoder.text(line, slot, &mut self.heap);
            made.map_err(|e| e.within(format!("record {}", self.count)))?;
            self.count += 1;
        }
        self.lens = [self.records.len() as u64, self.heap.len() as u64];
        Ok(Answer::NOTHING)
    }

    fn take(&mut self, heap: bool) -> Answer {
        let has_heap = self.document.schema.ty(self.ty).heap_align.is_some();
        let mut out = le([u64::from(!heap || has_heap)]);
        out.append(if heap { &mut self.heap } else { &mut self.records });
        Answer::Done(out)
    }

    fn spec(&self, name: &str) -> TensorSpec {
        let [data, heap] = self.lens;
        let mut components = vec![ComponentSpec::new(Role::Data, DType::U8, data)];
        if self.document.schema.ty(self.ty).heap_align.is_some() {
            components.push(ComponentSpec::new(Role::BlobData, DType::U8, heap));
        }
        let kind = self.document.normal_text();
        let kind = (TENSOR_SCHEMA_ATTRIBUTE.to_owned(), Value::Text(kind));
        TensorSpec {
            name: name.to_owned(),
            shape: vec![self.count],
            layout: Layout::Records,
            attributes: Attributes::from_iter([kind]),
            components,
        }
    }
}
