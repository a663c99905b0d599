//! Models that are used while they are loading.

use crate::load::{LoadOptions, Task};
use crate::model::{Model, Tensor};
use crate::rules::ENDED;
use crate::upload::UploadMode;
use holdall::error::NOT_FOUND;
use holdall::{Cancel, Error, File, Remedy, Result, nearest};
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

/// Starts loading tensors of a file into buffers of a device, in the order that the options set, and returns
/// immediately: each tensor can be used as soon as it is ready, while the others are still loading. The file may be
/// remote.
///
/// # Errors
/// Returns those errors of [`load_model`](crate::load_model) that can be detected before anything is read, such as
/// unknown names and a lack of memory on the device.
pub fn stream_model(
    device: &wgpu::Device,
    queue: &wgpu::Queue,
    file: &File,
    options: &LoadOptions,
) -> Result<ModelStream> {
    let task = Task::new(device, queue, file, options, UploadMode::Staged)?;
    let numbers = task.tensors().iter().zip(0..).map(|(t, at)| (Arc::from(t.name()), at));
    let shared = Arc::new(Shared {
        numbers: numbers.collect(),
        tensors: task.tensors().to_vec(),
        state: Mutex::new(State { ready: vec![false; task.tensors().len()], ..State::default() }),
        changed: Condvar::new(),
    });
    let (ended, teller) = (task.ended.clone(), Arc::clone(&shared));
    let thread = std::thread::Builder::new().name("holdall-gpu".to_owned()).spawn(move || {
        let end = task.run(|at| {
            teller.tell(|state| {
                state.ready[at] = true;
                state.arrived.push(at);
            });
            Ok(())
        });
        teller.tell(|state| state.end = Some(end.map(|()| task.model)));
    });
    let thread =
        thread.map_err(|e| holdall::error::IO.broken("cannot start a thread").with_cause(e))?;
    Ok(ModelStream { shared, ended, thread: Some(thread), next: 0 })
}

/// A model that is loading onto a device. It is an iterator over the tensors in the order in which they become ready.
/// Dropping it cancels the load.
pub struct ModelStream {
    shared: Arc<Shared>,
    ended: Cancel,
    thread: Option<JoinHandle<()>>,
    /// The number of tensors that the iterator has returned.
    next: usize,
}

struct Shared {
    tensors: Vec<Tensor>,
    numbers: HashMap<Arc<str>, usize>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: Vec<bool>,
    /// The tensors that are ready, in the order in which they became ready.
    arrived: Vec<usize>,
    end: Option<Result<Model>>,
    wakers: Vec<Waker>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        let wakers = {
            let mut state = self.state();
            change(&mut state);
            std::mem::take(&mut state.wakers)
        };
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until `look` returns a value.
    fn wait<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        let mut state = self.state();
        loop {
            match look(&state) {
                Some(found) => return found,
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn number(&self, name: &str) -> Result<usize> {
        self.numbers.get(name).copied().ok_or_else(|| {
            let e = NOT_FOUND.broken("no tensor of this name is being loaded").in_tensor(name);
            match nearest(name, self.numbers.keys().map(|name| &**name)) {
                Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
                None => e,
            }
        })
    }

    /// Returns the tensor at index `at` if it is ready, or an error if the stream ended without it.
    fn look(&self, state: &State, at: usize) -> Option<Result<Tensor>> {
        if state.ready[at] {
            return Some(Ok(self.tensors[at].clone()));
        }
        state.end.as_ref().map(|end| Err(ended(end)))
    }
}

/// Returns the error for a tensor that was not ready when the stream ended.
#[cold]
fn ended(end: &Result<Model>) -> Error {
    match end {
        Err(e) => e.clone(),
        Ok(_) => ENDED.broken("the stream ended before the tensor was loaded"),
    }
}

impl ModelStream {
    /// Waits for the tensor with this name, and returns it when it is ready: it is filled, compared with its digests,
    /// and its copy comes before anything that is submitted to the queue from then on.
    ///
    /// # Errors
    /// Returns an error of kind `NotFound` if no such tensor is being loaded, or the error that ended the stream before
    /// the tensor was ready.
    pub fn wait(&self, name: &str) -> Result<Tensor> {
        let at = self.shared.number(name)?;
        self.shared.wait(|state| self.shared.look(state, at))
    }

    /// Returns a future for the tensor with this name, like [`ModelStream::wait`].
    ///
    /// # Errors
    /// Returns an error of kind `NotFound` if no such tensor is being loaded.
    pub fn ready(&self, name: &str) -> Result<TensorReady> {
        Ok(TensorReady { at: self.shared.number(name)?, shared: Arc::clone(&self.shared) })
    }

    /// Returns the number of tensors that are ready, and the number of all tensors.
    pub fn progress(&self) -> (usize, usize) {
        (self.shared.state().arrived.len(), self.shared.tensors.len())
    }

    /// Waits for all tensors, and returns the whole model.
    ///
    /// # Errors
    /// Returns the error that ended the stream early.
    pub fn finish(mut self) -> Result<Model> {
        self.join();
        match self.shared.state().end.take() {
            Some(end) => end,
            None => Err(ENDED.broken("the thread that loads the model ended early")),
        }
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic was already printed by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Iterator for ModelStream {
    type Item = Result<Tensor>;

    fn next(&mut self) -> Option<Result<Tensor>> {
        if self.next == usize::MAX {
            return None;
        }
        let (shared, next) = (&self.shared, self.next);
        let found = shared.wait(|state| match (state.arrived.get(next), &state.end) {
            (Some(at), _) => Some(Some(Ok(shared.tensors[*at].clone()))),
            (None, Some(Ok(_))) => Some(None),
            (None, Some(Err(e))) => Some(Some(Err(e.clone()))),
            (None, None) => None,
        });
        self.next = match &found {
            Some(Ok(_)) => next + 1,
            _ => usize::MAX,
        };
        found
    }
}

impl Drop for ModelStream {
    fn drop(&mut self) {
        self.ended.cancel();
        self.join();
    }
}

impl fmt::Debug for ModelStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (there, all) = self.progress();
        f.debug_struct("ModelStream").field("there", &there).field("all", &all).finish()
    }
}

/// A future for a tensor: see [`ModelStream::ready`].
pub struct TensorReady {
    at: usize,
    shared: Arc<Shared>,
}

impl Future for TensorReady {
    type Output = Result<Tensor>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Tensor>> {
        let mut state = self.shared.state();
        match self.shared.look(&state, self.at) {
            Some(found) => Poll::Ready(found),
            None => {
                if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    state.wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}
