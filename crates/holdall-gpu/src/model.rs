//! What a load gives: tensors on a device, by name and by path.

use crate::device::{done, guarded, lost};
use crate::rules::PAGES;
use holdall::error::{NO_COMPONENT, NOT_FOUND};
use holdall::{Attributes, DType, LogicalType, Remedy, Result, Role, TensorInfo, nearest};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Bytes that are read back at a time.
const READ_LEN: u64 = 8 << 20;

/// Bytes of a component in a buffer of the device.
#[derive(Debug, Clone)]
pub struct Page {
    /// The buffer, which other tensors may be in too.
    pub buffer: wgpu::Buffer,
    /// Where the bytes start in it: a multiple of 256, and of what the device wants of bindings.
    pub offset: u64,
    /// How many there are. The buffer goes on with zeros up to the next multiple of 4.
    pub len: u64,
}

impl Page {
    /// The page as what a bind group takes.
    pub fn binding(&self) -> wgpu::BindingResource<'_> {
        wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: &self.buffer,
            offset: self.offset,
            size: wgpu::BufferSize::new(self.len.next_multiple_of(4)),
        })
    }
}

/// One component of a tensor on the device: its decoded bytes, little-endian, as the file's format lays them out.
#[derive(Debug, Clone)]
pub struct Component {
    /// What it is for.
    pub role: Role,
    /// Storage element type.
    pub dtype: DType,
    /// Meaning beyond storage.
    pub logical_type: Option<LogicalType>,
    /// Bytes.
    pub len: u64,
    /// Where they are. Several pages where a component is longer than what one binding can hold: all of them are then as
    /// long as the first, but the last.
    pub pages: Vec<Page>,
}

impl Component {
    /// All of it as what a bind group takes.
    ///
    /// # Errors
    /// `gpu/pages`, where it is in several pages, or has no bytes and so is nowhere.
    pub fn binding(&self) -> Result<wgpu::BindingResource<'_>> {
        match &self.pages[..] {
            [page] => Ok(page.binding()),
            pages => {
                let message = format!("it is in {} pages", pages.len());
                Err(PAGES.broken(message).in_component(&self.role))
            }
        }
    }

    /// Its bytes, read back from the device. Buffers that are read back have the usage `COPY_SRC`, which they have unless
    /// [`LoadOptions::with_usage`](crate::LoadOptions::with_usage) says otherwise.
    ///
    /// # Errors
    /// `gpu/refused`, `gpu/memory`, `gpu/lost`.
    pub fn read(&self, device: &wgpu::Device, queue: &wgpu::Queue) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.len as usize);
        for page in &self.pages {
            let mut at = 0;
            while at < page.len {
                let len = (page.len - at).min(READ_LEN);
                let bytes = read(device, queue, &page.buffer, page.offset + at, len);
                out.extend(bytes.map_err(|e| e.in_component(&self.role))?);
                at += len;
            }
        }
        Ok(out)
    }
}

/// A tensor on the device. Cloning it copies handles, not elements.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub(crate) info: TensorInfo,
    pub(crate) components: Arc<[Component]>,
}

impl Tensor {
    /// What the file says of it: name, shape, layout, attributes.
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.info.name()
    }

    /// Its dimensions, in elements.
    pub fn shape(&self) -> &[u64] {
        self.info.shape()
    }

    /// Its components, in the file's own order.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The component in that role.
    ///
    /// # Errors
    /// NotFound.
    pub fn component(&self, role: &Role) -> Result<&Component> {
        self.components.iter().find(|c| c.role == *role).ok_or_else(|| {
            let message = format!("there is no component `{role}`");
            NO_COMPONENT.broken(message).in_tensor(self.name())
        })
    }

    /// All of a component as what a bind group takes.
    ///
    /// # Errors
    /// NotFound; as [`Component::binding`].
    pub fn binding(&self, role: &Role) -> Result<wgpu::BindingResource<'_>> {
        self.component(role)?.binding().map_err(|e| e.in_tensor(self.name()))
    }

    /// The bytes of a component, read back from the device.
    ///
    /// # Errors
    /// NotFound; as [`Component::read`].
    pub fn read(&self, device: &wgpu::Device, queue: &wgpu::Queue, role: &Role) -> Result<Vec<u8>> {
        self.component(role)?.read(device, queue).map_err(|e| e.in_tensor(self.name()))
    }
}

/// A few bytes of a buffer, from a multiple of 4 on.
fn read(
    device: &wgpu::Device,
    queue: &wgpu::Queue,
    buffer: &wgpu::Buffer,
    offset: u64,
    len: u64,
) -> Result<Vec<u8>> {
    let size = len.next_multiple_of(4);
    let (own, mapped) = guarded(device, format_args!("reading {size} bytes back"), || {
        let own = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("holdall: read back"),
            size,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, offset, &own, 0, size);
        queue.submit([encoder.finish()]);
        let (tell, told) = std::sync::mpsc::channel();
        own.map_async(wgpu::MapMode::Read, .., move |mapped| drop(tell.send(mapped)));
        (own, told)
    })?;
    done(device, None)?;
    match mapped.recv() {
        Ok(Ok(())) => {}
        _ => return Err(lost()),
    }
    let bytes = own.get_mapped_range(..).map_err(|e| lost().with_cause(e))?;
    Ok(bytes.get(..len as usize).unwrap_or_default().to_vec())
}

/// Tensors on a device, all of them filled and, where the file has digests, compared with those.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) tensors: BTreeMap<Arc<str>, Tensor>,
    pub(crate) attributes: Attributes,
    pub(crate) buffers: Arc<[wgpu::Buffer]>,
}

impl Model {
    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The tensors, in the order of their names.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.tensors.values()
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// NotFound, with the nearest name there is.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.tensors.get(name).ok_or_else(|| {
            let e = NOT_FOUND.broken("no tensor of this name was loaded").in_tensor(name);
            match nearest(name, self.tensors.keys().map(|name| &**name)) {
                Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
                None => e,
            }
        })
    }

    /// The part of the model below `path`, as `encoder.layer.0` or, by a schema, `encoder.layers[0]`: tensors whose names go
    /// on with a `.`, a `/` or a `[`.
    pub fn view<'m>(&'m self, path: &str) -> View<'m> {
        View { model: self, path: path.to_owned() }
    }

    /// The file's attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Bytes of all buffers.
    pub fn size(&self) -> u64 {
        self.buffers.iter().map(wgpu::Buffer::size).sum()
    }

    /// All buffers that its tensors are in.
    pub fn buffers(&self) -> &[wgpu::Buffer] {
        &self.buffers
    }
}

/// The tensors of a model below one path.
#[derive(Debug, Clone)]
pub struct View<'m> {
    model: &'m Model,
    path: String,
}

/// What stands between a path and what is below it: names of most files, names of some, elements of arrays in schemas.
const MARKS: [char; 3] = ['.', '/', '['];

impl<'m> View<'m> {
    /// The tensor at `name` below this path: `weight`, or `[0].weight` of an array.
    ///
    /// # Errors
    /// NotFound, with the nearest name there is.
    pub fn tensor(&self, name: &str) -> Result<&'m Tensor> {
        let [slashed, dotted] = self.joined(name);
        match self.model.tensors.get(&*slashed) {
            Some(tensor) => Ok(tensor),
            None => self.model.tensor(&dotted),
        }
    }

    /// The part of this one below `path`.
    pub fn view(&self, path: &str) -> View<'m> {
        let [slashed, dotted] = self.joined(path).map(|path| View { model: self.model, path });
        match slashed.tensors().next() {
            Some(_) => slashed,
            None => dotted,
        }
    }

    /// Its tensors with their whole names, in the order of those.
    pub fn tensors(&self) -> impl Iterator<Item = &'m Tensor> + use<'m> {
        MARKS.into_iter().flat_map({
            let View { model, path } = self.clone();
            move |mark| {
                let start = format!("{path}{mark}");
                let from = (Bound::Included(start.as_str()), Bound::Unbounded);
                let rest = model.tensors.range::<str, _>(from);
                rest.take_while(move |(name, _)| name.starts_with(&start)).map(|(_, tensor)| tensor)
            }
        })
    }

    /// The whole path of what is at `below`, where names have slashes, and where they have dots.
    fn joined(&self, below: &str) -> [String; 2] {
        ["/", "."].map(|mark| {
            let mark = if below.starts_with('[') { "" } else { mark };
            format!("{}{mark}{below}", self.path)
        })
    }
}
