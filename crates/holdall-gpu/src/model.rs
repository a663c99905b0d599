//! A loaded model: tensors on a device, by name and by path.

use crate::device::{done, guarded, lost};
use crate::rules::PAGES;
use holdall::error::{NO_COMPONENT, NOT_FOUND};
use holdall::{Attributes, DType, LogicalType, Remedy, Result, Role, TensorInfo, nearest};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Bytes that are read back in one step.
const READ_LEN: u64 = 8 << 20;

/// Bytes of a component in one buffer of the device.
#[derive(Debug, Clone)]
pub struct Page {
    /// The buffer, which may contain other tensors too.
    pub buffer: wgpu::Buffer,
    /// The offset of the bytes in the buffer: a multiple of 256, and of the device's alignment for bindings.
    pub offset: u64,
    /// The number of bytes. In the buffer they are padded with zeros to the next multiple of 4.
    pub len: u64,
}

impl Page {
    /// Returns the page as a resource for a bind group.
    pub fn binding(&self) -> wgpu::BindingResource<'_> {
        wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: &self.buffer,
            offset: self.offset,
            size: wgpu::BufferSize::new(self.len.next_multiple_of(4)),
        })
    }
}

/// One component of a tensor on the device: its decoded bytes, little-endian, laid out as in the file's format.
#[derive(Debug, Clone)]
pub struct Component {
    /// The component's role in its tensor.
    pub role: Role,
    /// Storage element type.
    pub dtype: DType,
    /// The meaning of the elements beyond their storage type.
    pub logical_type: Option<LogicalType>,
    /// The component's length in bytes.
    pub len: u64,
    /// The component's bytes on the device. A component that is longer than one binding allows has several pages; all
    /// of them but the last have the same length.
    pub pages: Vec<Page>,
}

impl Component {
    /// Returns the whole component as a resource for a bind group.
    ///
    /// # Errors
    /// Returns `gpu/pages` if the component has several pages, or no bytes and therefore no page.
    pub fn binding(&self) -> Result<wgpu::BindingResource<'_>> {
        match &self.pages[..] {
            [page] => Ok(page.binding()),
            pages => {
                let message = format!("expected one page, found {}", pages.len());
                Err(PAGES.broken(message).in_component(&self.role))
            }
        }
    }

    /// Reads the component's bytes back from the device. The buffers must have the usage `COPY_SRC`, which is the
    /// default, see [`LoadOptions::with_usage`](crate::LoadOptions::with_usage).
    ///
    /// # Errors
    /// Returns `gpu/refused`, `gpu/memory` or `gpu/lost` if the device returns an error.
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

/// A tensor on the device. Cloning copies handles, not elements.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub(crate) info: TensorInfo,
    pub(crate) components: Arc<[Component]>,
}

impl Tensor {
    /// Returns the tensor's description from the file: name, shape, layout, attributes.
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Returns the tensor's name.
    pub fn name(&self) -> &str {
        self.info.name()
    }

    /// Returns the tensor's dimensions, in elements.
    pub fn shape(&self) -> &[u64] {
        self.info.shape()
    }

    /// Returns the tensor's components, in the file's order.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// Returns the component with this role.
    ///
    /// # Errors
    /// Returns an error of kind `NotFound` if the tensor has no such component.
    pub fn component(&self, role: &Role) -> Result<&Component> {
        self.components.iter().find(|c| c.role == *role).ok_or_else(|| {
            let message = format!("the tensor has no component `{role}`");
            NO_COMPONENT.broken(message).in_tensor(self.name())
        })
    }

    /// Returns a whole component as a resource for a bind group.
    ///
    /// # Errors
    /// Returns an error of kind `NotFound` if the tensor has no such component, and the errors of
    /// [`Component::binding`].
    pub fn binding(&self, role: &Role) -> Result<wgpu::BindingResource<'_>> {
        self.component(role)?.binding().map_err(|e| e.in_tensor(self.name()))
    }

    /// Reads the bytes of a component back from the device.
    ///
    /// # Errors
    /// Returns an error of kind `NotFound` if the tensor has no such component, and the errors of [`Component::read`].
    pub fn read(&self, device: &wgpu::Device, queue: &wgpu::Queue, role: &Role) -> Result<Vec<u8>> {
        self.component(role)?.read(device, queue).map_err(|e| e.in_tensor(self.name()))
    }
}

/// Reads a few bytes of a buffer. `offset` is a multiple of 4.
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
        let (sender, receiver) = std::sync::mpsc::channel();
        own.map_async(wgpu::MapMode::Read, .., move |mapped| drop(sender.send(mapped)));
        (own, receiver)
    })?;
    done(device, None)?;
    match mapped.recv() {
        Ok(Ok(())) => {}
        _ => return Err(lost()),
    }
    let bytes = own.get_mapped_range(..).map_err(|e| lost().with_cause(e))?;
    Ok(bytes.get(..len as usize).unwrap_or_default().to_vec())
}

/// Tensors on a device, all of them fully loaded and, if the file has digests, compared with them.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) tensors: BTreeMap<Arc<str>, Tensor>,
    pub(crate) attributes: Attributes,
    pub(crate) buffers: Arc<[wgpu::Buffer]>,
}

impl Model {
    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Returns `true` if the model has no tensors.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Returns the tensors, sorted by name.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.tensors.values()
    }

    /// Returns the tensor with this name.
    ///
    /// # Errors
    /// Returns an error of kind `NotFound`, which suggests the most similar name, if no such tensor was loaded.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.tensors.get(name).ok_or_else(|| {
            let e = NOT_FOUND.broken("no tensor of this name was loaded").in_tensor(name);
            match nearest(name, self.tensors.keys().map(|name| &**name)) {
                Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
                None => e,
            }
        })
    }

    /// Returns the part of the model below `path`, such as `encoder.layer.0` or, with a schema, `encoder.layers[0]`:
    /// the tensors whose names continue `path` with a `.`, a `/` or a `[`.
    pub fn view<'m>(&'m self, path: &str) -> View<'m> {
        View { model: self, path: path.to_owned() }
    }

    /// Returns the file's attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Returns the length of all buffers in bytes.
    pub fn size(&self) -> u64 {
        self.buffers.iter().map(wgpu::Buffer::size).sum()
    }

    /// Returns the buffers that contain the tensors.
    pub fn buffers(&self) -> &[wgpu::Buffer] {
        &self.buffers
    }
}

/// The tensors of a model below a path.
#[derive(Debug, Clone)]
pub struct View<'m> {
    model: &'m Model,
    path: String,
}

/// Characters that separate a path from the paths below it: `.` and `/` in names, `[` for elements of arrays in schemas.
const MARKS: [char; 3] = ['.', '/', '['];

impl<'m> View<'m> {
    /// Returns the tensor at `name` below this path: `weight`, or `[0].weight` for an array.
    ///
    /// # Errors
    /// Returns an error of kind `NotFound`, which suggests the most similar name, if there is no such tensor.
    pub fn tensor(&self, name: &str) -> Result<&'m Tensor> {
        let [slashed, dotted] = self.joined(name);
        match self.model.tensors.get(&*slashed) {
            Some(tensor) => Ok(tensor),
            None => self.model.tensor(&dotted),
        }
    }

    /// Returns the part of this view below `path`.
    pub fn view(&self, path: &str) -> View<'m> {
        let [slashed, dotted] = self.joined(path).map(|path| View { model: self.model, path });
        match slashed.tensors().next() {
            Some(_) => slashed,
            None => dotted,
        }
    }

    /// Returns the view's tensors with their full names, sorted by name.
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

    /// Returns the full path of `below`, with a slash and with a dot as separator.
    fn joined(&self, below: &str) -> [String; 2] {
        ["/", "."].map(|mark| {
            let mark = if below.starts_with('[') { "" } else { mark };
            format!("{}{mark}{below}", self.path)
        })
    }
}
