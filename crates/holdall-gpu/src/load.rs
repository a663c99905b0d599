//! Loading whole models into buffers.

use crate::device::{can_map, guarded};
use crate::model::{Component, Model, Page, Tensor};
use crate::placement::{Allocation, Placement, Sizes, Spot, allocate};
use crate::rules::{ENDED, LOST, MEMORY, UNKNOWN_LEN};
use crate::upload::{Target, Upload, UploadMode};
use holdall::{Cancel, Check, File, Glob, Result, Select, Work};
use holdall_core::read::{Plan, Want, check_digest, distinct};
use holdall_io::executor::{self, Executor};
use holdall_io::with_work;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The default limit of staging memory in use, in bytes.
const STAGING: u64 = 32 << 20;

/// A callback that receives each tensor when it is ready.
type OnReady = Arc<dyn Fn(&Tensor) + Send + Sync>;

/// Options for loading tensors onto a device.
#[derive(Clone)]
pub struct LoadOptions {
    select: Select,
    order: Vec<Glob>,
    placement: Placement,
    usage: wgpu::BufferUsages,
    staging: u64,
    is_in_place: bool,
    check: Option<Check>,
    on_ready: Option<OnReady>,
    pub(crate) work: Work,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            select: Select::all(),
            order: Vec::new(),
            placement: Placement::default(),
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
            staging: STAGING,
            is_in_place: false,
            check: None,
            on_ready: None,
            work: Work::new(),
        }
    }
}

impl LoadOptions {
    /// Returns the default options: all tensors in the order of the file, many tensors per buffer, buffers that can be
    /// bound as storage and copied from, the digests that the file was opened with, and at most 32 MiB of staging
    /// memory.
    pub fn new() -> LoadOptions {
        LoadOptions::default()
    }

    /// Loads only these tensors.
    pub fn with_select(mut self, select: Select) -> LoadOptions {
        self.select = select;
        self
    }

    /// Sets the order in which tensors are loaded: those that match the first pattern, then those that match the
    /// second, and so on; tensors that match no pattern come last. Patterns have the syntax of [`Select`].
    ///
    /// # Errors
    /// Returns an error of kind `Misuse` if a pattern is invalid.
    pub fn with_order<S: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<LoadOptions> {
        self.order = patterns.into_iter().map(|p| Glob::new(p.as_ref())).collect::<Result<_>>()?;
        Ok(self)
    }

    /// Sets how tensors are distributed over buffers.
    pub fn with_placement(mut self, placement: Placement) -> LoadOptions {
        self.placement = placement;
        self
    }

    /// Sets the usages of the buffers, in addition to `COPY_DST`.
    pub fn with_usage(mut self, usage: wgpu::BufferUsages) -> LoadOptions {
        self.usage = usage;
        self
    }

    /// Sets the limit of staging memory in use, in bytes; at least 8 MiB. In addition, each thread uses one piece of
    /// the file (2 MiB of a local file, 8 MiB of a remote one).
    pub fn with_staging(mut self, bytes: u64) -> LoadOptions {
        self.staging = bytes;
        self
    }

    /// Writes directly into mapped buffers, without staging memory. Only [`load_model`] does this, and only if the
    /// device shares the CPU's memory, has the feature `MAPPABLE_PRIMARY_BUFFERS`, and no
    /// [`on_ready`](LoadOptions::on_ready) callback is set (buffers stay mapped until all tensors are loaded). This
    /// saves the staging memory and the device's copy; but wgpu fills such buffers with zeros first, which takes about
    /// as long as the copy.
    pub fn in_place(mut self) -> LoadOptions {
        self.is_in_place = true;
        self
    }

    /// Sets which digests are compared.
    pub fn with_check(mut self, check: Check) -> LoadOptions {
        self.check = Some(check);
        self
    }

    /// Calls `tell` with each tensor when it is ready: it is filled, compared with its digests, and its copy comes
    /// before anything that is submitted to the queue from then on. `tell` may be called from any thread, and must
    /// return quickly.
    pub fn on_ready(mut self, tell: impl Fn(&Tensor) + Send + Sync + 'static) -> LoadOptions {
        self.on_ready = Some(Arc::new(tell));
        self
    }
}

with_work!(LoadOptions);

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("select", &self.select)
            .field("order", &self.order)
            .field("placement", &self.placement)
            .field("usage", &self.usage)
            .field("staging", &self.staging)
            .field("is_in_place", &self.is_in_place)
            .field("check", &self.check)
            .field("work", &self.work)
            .finish_non_exhaustive()
    }
}

/// Loads tensors of a file into buffers of a device, on several threads, with limited memory, and compares digests
/// while loading. Components that share bytes in the file (tied weights) share bytes on the device.
///
/// # Errors
/// Returns the errors of [`File::load`], of the kinds `NotFound`, `Io`, `Integrity`, `Malformed` and `Limit`, and
/// `gpu/memory`, `gpu/refused` or `gpu/lost` if the device returns an error. After an error nothing stays on the
/// device.
pub fn load_model(
    device: &wgpu::Device,
    queue: &wgpu::Queue,
    file: &File,
    options: &LoadOptions,
) -> Result<Model> {
    let is_in_place = options.is_in_place && options.on_ready.is_none() && can_map(device);
    let way = match is_in_place {
        true => UploadMode::Mapped,
        false => UploadMode::Staged,
    };
    let task = Task::new(device, queue, file, options, way)?;
    task.run(|_| Ok(()))?;
    Ok(task.model)
}

/// A planned load with its buffers.
pub(crate) struct Task {
    file: File,
    plan: Plan,
    allocation: Allocation,
    upload: Upload,
    /// For each want, the indices in `tensors` of the tensors that it belongs to.
    owners: Vec<Vec<usize>>,
    tensors: Vec<Tensor>,
    /// The model, which must not be returned before it is fully loaded.
    pub(crate) model: Model,
    options: LoadOptions,
    /// Cancels the load.
    pub(crate) ended: Cancel,
}

impl Task {
    pub(crate) fn new(
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        file: &File,
        options: &LoadOptions,
        way: UploadMode,
    ) -> Result<Task> {
        let sizes = Sizes::from_limits(&device.limits())?;
        let mut tensors = options.select.tensors(file)?;
        let rank = |name: &str| {
            options.order.iter().position(|glob| glob.matches(name)).unwrap_or(options.order.len())
        };
        tensors.sort_by_cached_key(|t| rank(t.name()));
        let check = options.check.unwrap_or(file.check());
        let mut wants: Vec<Want> = Vec::new();
        // For each tensor, the range of its components in `wants`.
        let mut own = Vec::with_capacity(tensors.len());
        for tensor in &tensors {
            let first = wants.len();
            for c in tensor.sound()?.components() {
                if c.decoded_len.is_none() {
                    let e = UNKNOWN_LEN.broken("the decoded length is unknown");
                    return Err(tensor.in_context(e, &c));
                }
                let digest = check.algorithm(&c);
                let want = Want::new(tensor.position() as u32, c).with_digests(digest);
                wants.push(want.in_group(rank(tensor.name()) as u32));
            }
            own.push(first..wants.len());
        }
        let (wants, of_all) = distinct(wants);
        let lens: Vec<u64> =
            wants.iter().map(|w| w.component.decoded_len.unwrap_or_default()).collect();
        // For each tensor the wants of its components, and for each want its tensors.
        let numbers: Vec<&[usize]> = own.into_iter().map(|own| &of_all[own]).collect();
        let mut owners: Vec<Vec<usize>> = vec![Vec::new(); wants.len()];
        for (at, own) in numbers.iter().enumerate() {
            own.iter().for_each(|number| owners[*number].push(at));
        }
        let allocation = allocate(&lens, options.placement, sizes);
        let buffers =
            take_buffers(device, &allocation, options.usage, way).map_err(|(buffer, e)| {
                let holds =
                    |number: &usize| allocation.spots[*number].iter().any(|s| s.buffer == buffer);
                let first = (0..wants.len()).find(holds).map(|number| owners[number][0]);
                first.map_or(e.clone(), |at| e.in_tensor(tensors[at].name())).in_source(file.name())
            })?;
        let upload = Upload::new(device, queue, buffers, options.staging, way);
        let component = |number: &usize| {
            let c = &wants[*number].component;
            let page = |s: &Spot| Page {
                buffer: upload.buffers()[s.buffer].clone(),
                offset: s.offset,
                len: s.len,
            };
            Component {
                role: c.role.clone(),
                dtype: c.dtype,
                logical_type: c.logical_type.clone(),
                len: lens[*number],
                pages: allocation.spots[*number].iter().map(page).collect(),
            }
        };
        let tensors: Vec<Tensor> = tensors
            .iter()
            .zip(&numbers)
            .map(|(tensor, numbers)| Tensor {
                info: tensor.info().clone(),
                components: numbers.iter().map(component).collect(),
            })
            .collect();
        let model = Model {
            tensors: tensors.iter().map(|t| (Arc::from(t.name()), t.clone())).collect(),
            attributes: file.attributes().clone(),
            buffers: upload.buffers().into(),
        };
        let plan = executor::plan(file.sources(), wants).map_err(|e| e.in_source(file.name()))?;
        let (file, options) = (file.clone(), options.clone());
        let ended = Cancel::new();
        Ok(Task { file, plan, allocation, upload, owners, tensors, model, options, ended })
    }

    /// Returns the tensors in the order in which they are loaded.
    pub(crate) fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Loads all tensors, and calls `ready` with the index of each tensor when it is ready.
    pub(crate) fn run(&self, ready: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
        self.bring(ready).map_err(|e| e.in_source(self.file.name()))
    }

    fn bring(&self, ready: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
        let left: Vec<AtomicUsize> =
            self.tensors.iter().map(|t| AtomicUsize::new(t.components.len())).collect();
        let is_ready = |at: usize| {
            if let Some(tell) = &self.options.on_ready {
                tell(&self.tensors[at]);
            }
            ready(at)
        };
        for (at, _) in self.tensors.iter().enumerate().filter(|(_, t)| t.components.is_empty()) {
            is_ready(at)?;
        }
        let wants = self.plan.wants();
        let in_context = |number: u32, e| {
            let want = &wants[number as usize];
            let tensor = &self.tensors[self.owners[number as usize][0]];
            want.in_context(e).in_tensor(tensor.name())
        };
        self.options.work.begin(self.plan.len());
        // If the device has no memory for staging, wgpu may report a lost device to other threads first: the memory
        // error is returned.
        let full = OnceLock::new();
        let visit = |visit: executor::DecodedBytes<'_>| {
            let index = visit.want_index as usize;
            let write = |bytes: &[u8]| {
                let spots = &self.allocation.spots[index];
                let len = spots.iter().map(|s| s.len).sum();
                self.upload.write(&Target { index, spots, len }, visit.offset, bytes)
            };
            if self.ended.is_cancelled() {
                return Err(ENDED.broken("the stream of the model was dropped"));
            }
            visit.decoded.and_then(write).map_err(|e| {
                let e = in_context(visit.want_index, e);
                if e.code() == MEMORY.code {
                    full.get_or_init(|| e.clone());
                }
                e
            })
        };
        let done = |number: u32, digest| {
            let want = &wants[number as usize];
            if let Some(digest) = digest {
                check_digest(&want.component, &digest).map_err(|e| in_context(number, e))?;
            }
            for at in &self.owners[number as usize] {
                if left[*at].fetch_sub(1, Ordering::AcqRel) == 1 {
                    is_ready(*at)?;
                }
            }
            Ok(())
        };
        let executor = Executor::new(self.file.sources(), self.file.limits(), &self.options.work);
        executor.run_each(&self.plan, visit, done).map_err(|e| match full.get() {
            Some(first) if e.code() == LOST.code => first.clone(),
            _ => e,
        })?;
        self.upload.finish()
    }
}

/// Creates the buffers on the device. An error comes with the index of the buffer that could not be created.
fn take_buffers(
    device: &wgpu::Device,
    allocation: &Allocation,
    usage: wgpu::BufferUsages,
    way: UploadMode,
) -> std::result::Result<Vec<wgpu::Buffer>, (usize, holdall::Error)> {
    let all: u64 = allocation.buffers.iter().sum();
    let mut taken = 0;
    let (is_mapped, usage) = match way {
        UploadMode::Staged => (false, usage | wgpu::BufferUsages::COPY_DST),
        UploadMode::Mapped => {
            (true, usage | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_WRITE)
        }
    };
    let take = |(at, size): (usize, &u64)| {
        let doing = format_args!("a buffer of {size} bytes, with {taken} of {all} bytes taken");
        let buffer = guarded(device, doing, || {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("holdall"),
                size: *size,
                usage,
                mapped_at_creation: is_mapped,
            })
        });
        taken += size;
        buffer.map_err(|e| (at, e))
    };
    allocation.buffers.iter().enumerate().map(take).collect()
}
