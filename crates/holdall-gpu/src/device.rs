//! Creating a device, and converting its errors.

use crate::rules::{LOST, MEMORY, NO_ADAPTER, REFUSED};
use holdall::{Error, Result};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Returns the adapter that wgpu considers fastest, with the adapter's full limits. If the adapter shares the CPU's
/// memory, the device can map buffers of any usage: see [`LoadOptions::in_place`](crate::LoadOptions::in_place). wgpu's
/// variables `WGPU_BACKEND` and `WGPU_ADAPTER_NAME` restrict the choice of adapters.
///
/// # Errors
/// Returns `gpu/no-adapter` if there is no adapter, or if it returns no device.
pub fn device() -> Result<(wgpu::Device, wgpu::Queue)> {
    let instance =
        wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
    let adapter = block_on(instance.request_adapter(&wgpu::RequestAdapterOptions {
        power_preference: wgpu::PowerPreference::HighPerformance,
        ..Default::default()
    }));
    let adapter = adapter.map_err(|e| NO_ADAPTER.broken("wgpu found no adapter").with_cause(e))?;
    let name = adapter.get_info().name;
    let device = block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        label: Some("holdall"),
        required_limits: adapter.limits(),
        required_features: match has_our_memory(&adapter.get_info()) {
            true => adapter.features() & wgpu::Features::MAPPABLE_PRIMARY_BUFFERS,
            false => wgpu::Features::empty(),
        },
        ..Default::default()
    }));
    device.map_err(|e| {
        NO_ADAPTER.broken(format!("the adapter `{name}` returned no device")).with_cause(e)
    })
}

/// Returns `true` if the device shares the CPU's memory.
fn has_our_memory(adapter: &wgpu::AdapterInfo) -> bool {
    matches!(adapter.device_type, wgpu::DeviceType::IntegratedGpu | wgpu::DeviceType::Cpu)
}

/// Returns `true` if buffers can be mapped and written in memory that is shared with the CPU.
pub(crate) fn can_map(device: &wgpu::Device) -> bool {
    device.features().contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS)
        && has_our_memory(&device.adapter_info())
}

/// Runs `what`, and returns the first error that the device reports for it. `doing` describes the operation in the
/// error.
pub(crate) fn guarded<T>(
    device: &wgpu::Device,
    doing: fmt::Arguments<'_>,
    what: impl FnOnce() -> T,
) -> Result<T> {
    use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
    let scopes = [OutOfMemory, Validation, Internal].map(|filter| device.push_error_scope(filter));
    let out = what();
    let found = scopes.into_iter().rev().fold(None, |found, scope| found.or(block_on(scope.pop())));
    match found {
        None => Ok(out),
        Some(e) => Err(refusal(e, doing)),
    }
}

#[cold]
fn refusal(e: wgpu::Error, doing: fmt::Arguments<'_>) -> Error {
    match e {
        wgpu::Error::OutOfMemory { .. } => {
            MEMORY.broken(format!("the device has not enough memory for {doing}"))
        }
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            let says = description.trim().replace('\n', " ");
            REFUSED.broken(format!("the device refused {doing}: {says}"))
        }
    }
}

#[cold]
pub(crate) fn lost() -> Error {
    LOST.broken("the device was lost")
}

/// Waits until the device has finished the submission `index`, or all submissions.
pub(crate) fn done(device: &wgpu::Device, index: Option<wgpu::SubmissionIndex>) -> Result<()> {
    let wait = wgpu::PollType::Wait { submission_index: index, timeout: None };
    device.poll(wait).map(drop).map_err(|e| lost().with_cause(e))
}

/// Blocks this thread until a future is ready, so that a program without an executor can use the futures of this crate
/// and of wgpu.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(out) => return out,
            Poll::Pending => std::thread::park(),
        }
    }
}
