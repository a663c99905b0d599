//! Whole models into buffers.

use crate::device::{can_map, guarded};
use crate::model::{Component, Model, Page, Tensor};
use crate::place::{Placement, Places, Sizes, Spot, allocate};
use crate::rules::{ENDED, LOST, MEMORY, UNKNOWN_LEN};
use crate::upload::{Target, Upload, UploadMode};
use holdall::{Cancel, Check, File, Glob, Result, Select, Work};
use holdall_core::read::{Plan, Want, check_digest, distinct};
use holdall_io::executor::{self, Executor};
use holdall_io::with_work;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of staging memory that are under way at most, unless said otherwise.
const STAGING: u64 = 32 << 20;

/// Who is told of a tensor that is there.
type OnReady = Arc<dyn Fn(&Tensor) + Send + Sync>;

/// What a caller chooses about a load onto a device.
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
    /// All tensors in the order of the file, several in one buffer, which can be bound as storage and copied from; the
    /// digests that the file was opened with; at most 32 MiB of staging memory under way.
    pub fn new() -> LoadOptions {
        LoadOptions::default()
    }

    /// Only these tensors.
    pub fn with_select(mut self, select: Select) -> LoadOptions {
        self.select = select;
        self
    }

    /// The order in which tensors are brought: those that match the first pattern, then those that match the second, and
    /// so on; what matches none comes last. Patterns are as [`Select`] has them.
    ///
    /// # Errors
    /// Misuse for a pattern that cannot be read.
    pub fn with_order<S: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<LoadOptions> {
        self.order = patterns.into_iter().map(|p| Glob::new(p.as_ref())).collect::<Result<_>>()?;
        Ok(self)
    }

    /// How tensors are put into buffers.
    pub fn with_placement(mut self, placement: Placement) -> LoadOptions {
        self.placement = placement;
        self
    }

    /// What the buffers can be used for, besides being copied to.
    pub fn with_usage(mut self, usage: wgpu::BufferUsages) -> LoadOptions {
        self.usage = usage;
        self
    }

    /// Bytes of staging memory that may be under way: at least 8 MiB. Each thread takes a piece of the file (2 MiB of a
    /// local one, 8 MiB of one that is far away) on top.
    pub fn with_staging(mut self, bytes: u64) -> LoadOptions {
        self.staging = bytes;
        self
    }

    /// Stages nothing: [`load_model`] writes into the buffers where they lie, if the device has no memory of its own and the feature
    /// `MAPPABLE_PRIMARY_BUFFERS`, and nobody is told of tensors on the way (a buffer is mapped until all of it is there). It saves the staging
    /// memory and the device's copy; wgpu fills such buffers with zeros first, which takes about as long.
    pub fn in_place(mut self) -> LoadOptions {
        self.is_in_place = true;
        self
    }

    /// Checks these digests.
    pub fn with_check(mut self, check: Check) -> LoadOptions {
        self.check = Some(check);
        self
    }

    /// Calls `tell` with each tensor when it is there: filled, compared with its digests, and copied by the device before
    /// whatever is submitted to the queue from then on. Any thread may call it; it must return quickly.
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

/// Brings tensors of a file into buffers of a device, on several threads, in bounded memory, checked on the way. Components
/// that have the same bytes in the file (tied weights) have the same bytes on the device.
///
/// # Errors
/// NotFound, Io, Integrity, Malformed and Limit as [`File::load`] has them; `gpu/memory`, `gpu/refused`, `gpu/lost`. Nothing
/// stays on the device.
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

/// A load, planned, with its buffers taken.
pub(crate) struct Task {
    file: File,
    plan: Plan,
    places: Places,
    upload: Upload,
    /// The tensors that each want is for, by their numbers in `tensors`.
    owners: Vec<Vec<usize>>,
    tensors: Vec<Tensor>,
    /// What nobody may see before all of it is there.
    pub(crate) model: Model,
    options: LoadOptions,
    /// Ends it.
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
        // Which of all components are those of each tensor.
        let mut own = Vec::with_capacity(tensors.len());
        for tensor in &tensors {
            let first = wants.len();
            for c in tensor.sound()?.components() {
                if c.decoded_len.is_none() {
                    let e = UNKNOWN_LEN.broken("nothing says how many bytes it decodes to");
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
        // The want of each component of each tensor, and the tensors of each want.
        let numbers: Vec<&[usize]> = own.into_iter().map(|own| &of_all[own]).collect();
        let mut owners: Vec<Vec<usize>> = vec![Vec::new(); wants.len()];
        for (at, own) in numbers.iter().enumerate() {
            own.iter().for_each(|number| owners[*number].push(at));
        }
        let places = allocate(&lens, options.placement, sizes);
        let buffers =
            take_buffers(device, &places, options.usage, way).map_err(|(buffer, e)| {
                let holds =
                    |number: &usize| places.spots[*number].iter().any(|s| s.buffer == buffer);
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
                pages: places.spots[*number].iter().map(page).collect(),
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
        Ok(Task { file, plan, places, upload, owners, tensors, model, options, ended })
    }

    /// Tensors in the order in which they are brought.
    pub(crate) fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Brings everything, and tells of each tensor by its number when it is there.
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
        let place = |number: u32, e| {
            let want = &wants[number as usize];
            let tensor = &self.tensors[self.owners[number as usize][0]];
            want.in_context(e).in_tensor(tensor.name())
        };
        self.options.work.begin(self.plan.len());
        // A device without memory for staging is given up by wgpu: other threads may be told of that first.
        let full = OnceLock::new();
        let visit = |visit: executor::DecodedBytes<'_>| {
            let number = visit.number as usize;
            let write = |bytes: &[u8]| {
                let spots = &self.places.spots[number];
                let len = spots.iter().map(|s| s.len).sum();
                self.upload.write(&Target { number, spots, len }, visit.at, bytes)
            };
            if self.ended.is_cancelled() {
                return Err(ENDED.broken("nobody waits for the model any more"));
            }
            visit.decoded.and_then(write).map_err(|e| {
                let e = place(visit.number, e);
                if e.code() == MEMORY.code {
                    full.get_or_init(|| e.clone());
                }
                e
            })
        };
        let done = |number: u32, digest| {
            let want = &wants[number as usize];
            if let Some(digest) = digest {
                check_digest(&want.component, &digest).map_err(|e| place(number, e))?;
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

/// The buffers on the device; which of them could not be had, and why.
fn take_buffers(
    device: &wgpu::Device,
    places: &Places,
    usage: wgpu::BufferUsages,
    way: UploadMode,
) -> std::result::Result<Vec<wgpu::Buffer>, (usize, holdall::Error)> {
    let all: u64 = places.buffers.iter().sum();
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
    places.buffers.iter().enumerate().map(take).collect()
}
