//! Memory that is shared between Rust and Python: the buffer protocol in both directions, and
//! DLPack. With `arrow.rs` and `numpy.rs` the files of this crate with `unsafe`.
#![allow(unsafe_code)]

use crate::errors::misuse;
use bytes::Bytes;
use holdall::Buffer as Memory;
use holdall::records::gather::ColumnMemory;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

/// The owner of memory. The bytes keep their address until it is dropped.
enum Owner {
    /// Shared and never written to: a view into a map, or a frozen load.
    Frozen { _bytes: Bytes },
    /// Handed over to Python: Rust does not access its bytes again.
    Given { _memory: Memory },
    /// The same, of memory that is used again for other columns.
    Column { _memory: ColumnMemory },
}

/// Bytes at a fixed address.
struct Block {
    _owner: Owner,
    start: *mut u8,
    len: usize,
    writable: bool,
}

// SAFETY: the address of a block is valid until its owner is dropped. Both owners may move
// between threads; Rust itself does not access the bytes through `start`, except in Python's
// buffer protocol and DLPack, whose users are responsible for races.
unsafe impl Send for Block {}
// SAFETY: as above; only the address and length of a shared block are read.
unsafe impl Sync for Block {}

/// Bytes of a file in memory: a view into the map, or separate memory.
///
/// Supports the buffer protocol. Keeps its memory alive, even after the file is closed.
#[pyclass(frozen, module = "holdall._holdall")]
#[derive(Clone)]
pub(crate) struct Buffer(Arc<Block>);

impl Buffer {
    /// Returns a read-only buffer.
    pub(crate) fn frozen(bytes: Bytes) -> Buffer {
        let (start, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        Buffer(Arc::new(Block {
            _owner: Owner::Frozen { _bytes: bytes },
            start,
            len,
            writable: false,
        }))
    }

    /// Returns a buffer that Python may write to.
    pub(crate) fn writable(mut memory: Memory) -> Buffer {
        // The bytes do not move with `memory`, since they are on the heap or in a mapping.
        let (start, len) = (memory.as_mut().as_mut_ptr(), memory.as_mut().len());
        let owner = Owner::Given { _memory: memory };
        Buffer(Arc::new(Block { _owner: owner, start, len, writable: true }))
    }

    /// Returns a column that Python may write to.
    pub(crate) fn of_column(mut memory: ColumnMemory) -> Buffer {
        // As above.
        let (start, len) = (memory.as_mut().as_mut_ptr(), memory.as_mut().len());
        let owner = Owner::Column { _memory: memory };
        Buffer(Arc::new(Block { _owner: owner, start, len, writable: true }))
    }

    /// Returns its address.
    pub(crate) fn start(&self) -> usize {
        self.0.start as usize
    }

    /// Returns its address as a pointer.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.0.start
    }

    /// Returns its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    /// Returns whether Python may write to it.
    pub(crate) fn is_writable(&self) -> bool {
        self.0.writable
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.len()
    }

    /// Whether the buffer is read-only.
    #[getter]
    fn readonly(&self) -> bool {
        !self.is_writable()
    }

    /// The address of its first byte.
    #[getter]
    fn address(&self) -> usize {
        self.start()
    }

    fn __repr__(&self) -> String {
        let access = if self.0.writable { "writable" } else { "read-only" };
        format!("<holdall.Buffer of {} bytes, {access}>", self.0.len)
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        let block = &slf.get().0;
        // SAFETY: `view` is from Python and not null; address and length are those of a block
        // that lives as long as `slf`, to which the view gets a reference. The function refuses a
        // writable view of read-only memory.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                block.start.cast(),
                block.len as ffi::Py_ssize_t,
                c_int::from(!block.writable),
                flags,
            )
        };
        if status < 0 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }

    /// Returns a DLPack capsule of a row-major tensor that starts `offset` bytes into the buffer.
    /// `code` and `bits` are DLPack's for its element type. A capsule that is not `versioned`
    /// cannot be marked as read-only, so it requires a writable buffer.
    #[pyo3(signature = (offset, shape, code, bits, *, versioned, copied))]
    #[allow(clippy::too_many_arguments)] // What DLPack's struct has.
    fn dlpack<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
        shape: Vec<i64>,
        code: u8,
        bits: u8,
        versioned: bool,
        copied: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?));
        let len = count.and_then(|n| n.checked_mul(usize::from(bits))).map(|n| n.div_ceil(8));
        if len.and_then(|len| len.checked_add(offset)).is_none_or(|end| end > self.0.len) {
            return Err(PyBufferError::new_err("the tensor is not inside the buffer"));
        }
        if !versioned && !self.0.writable {
            return Err(PyBufferError::new_err(
                "read-only memory needs a consumer of DLPack 1.0 or newer, or copy=True",
            ));
        }
        let flags = u64::from(!self.0.writable) * READ_ONLY + u64::from(copied) * IS_COPIED;
        dlpack_capsule(py, self, offset, shape, (code, bits), versioned, flags)
    }
}

/// Memory of a Python object, which cannot move or be freed while this exists.
pub(crate) struct BorrowedBuffer(PyUntypedBuffer);

impl BorrowedBuffer {
    /// Borrows the bytes of an object, which must be contiguous and row-major.
    pub(crate) fn from_object(object: &Bound<'_, PyAny>) -> PyResult<BorrowedBuffer> {
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.is_c_contiguous() {
            return Ok(BorrowedBuffer(buffer));
        }
        let hint = "pass a contiguous one, for example numpy.ascontiguousarray(x)";
        let message = "the buffer is not in one row-major piece";
        Err(misuse(object.py(), "python/buffer", message, Some(hint)))
    }

    /// Borrows the bytes of an object, which must be writable.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<BorrowedBuffer> {
        let lent = BorrowedBuffer::from_object(object)?;
        if !lent.0.readonly() {
            return Ok(lent);
        }
        Err(misuse(object.py(), "python/buffer", "the buffer to read into is read-only", None))
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len_bytes()
    }

    /// Returns the range of addresses.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.0.buf_ptr() as usize;
        start..start.saturating_add(self.len())
    }

    /// Returns the bytes to read.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: the exporter keeps this memory in place, and of this length, until the buffer
        // is released, which is after the borrow of `self` ends. That no other code writes to it
        // in the meantime is the caller's responsibility, as with every Python function that
        // releases the GIL (`file.write`, `zlib.crc32`): bytes may then be old or new ones;
        // lengths are never read from it.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.len()) }
    }

    /// Returns the bytes to write. Only for buffers from [`BorrowedBuffer::writable`].
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.len() == 0 || self.0.readonly() {
            return &mut [];
        }
        // SAFETY: as for `bytes`; the exporter allows writing, and `load_into` checks that no two
        // of its buffers overlap.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.len()) }
    }
}

/// Elements of a contiguous row-major array, which cannot move or be freed while this exists.
pub(crate) struct Elements(Box<ffi::Py_buffer>);

// SAFETY: the fields of a view never change, and its memory stays in place until it is released,
// which is done with the GIL. For writes to the memory, see `BorrowedBuffer::bytes`.
unsafe impl Send for Elements {}
// SAFETY: as above.
unsafe impl Sync for Elements {}

impl Elements {
    /// Borrows the elements of `array`; `None` if they are not contiguous and row-major.
    pub(crate) fn from_array(array: &Bound<'_, PyAny>) -> Option<Elements> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // Without a format, NumPy also lends types for which the protocol has no letter.
        // SAFETY: the view is new, and boxed, since it may point into itself.
        let status = unsafe {
            ffi::PyObject_GetBuffer(array.as_ptr(), &raw mut *view, ffi::PyBUF_C_CONTIGUOUS)
        };
        if status < 0 {
            drop(PyErr::take(array.py()));
            return None;
        }
        Some(Elements(view))
    }

    /// Returns the dimensions, in elements.
    pub(crate) fn shape(&self) -> Vec<u64> {
        let rank = usize::try_from(self.0.ndim).unwrap_or_default();
        if rank == 0 || self.0.shape.is_null() {
            return Vec::new();
        }
        // SAFETY: a view that was requested with its shape has `ndim` lengths, until its release.
        let shape = unsafe { std::slice::from_raw_parts(self.0.shape, rank) };
        shape.iter().map(|&n| n.unsigned_abs() as u64).collect()
    }

    /// Returns the bytes per element.
    pub(crate) fn width(&self) -> u64 {
        self.0.itemsize.unsigned_abs() as u64
    }

    /// Returns the address of the first element.
    pub(crate) fn start(&self) -> usize {
        self.0.buf as usize
    }

    /// Returns the bytes of the elements.
    pub(crate) fn bytes(&self) -> &[u8] {
        let len = self.0.len.unsigned_abs();
        if len == 0 {
            return &[];
        }
        // SAFETY: as for `BorrowedBuffer::bytes`.
        unsafe { std::slice::from_raw_parts(self.0.buf.cast(), len) }
    }
}

impl Drop for Elements {
    fn drop(&mut self) {
        // SAFETY: the view came from `PyObject_GetBuffer`, and is released once. Without an
        // interpreter there is nothing to release.
        let _ = attached(|_| unsafe { ffi::PyBuffer_Release(&raw mut *self.0) });
    }
}

/// Calls a function with the GIL, for code that is called from C and may have released it,
/// possibly below one of our functions that had it, so that PyO3's own count is wrong. Returns
/// `None` if there is no interpreter any more.
pub(crate) fn attached<R>(act: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    // SAFETY: may be called at any time.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        return None;
    }
    // SAFETY: there is an interpreter; Python itself knows whether this thread has the GIL, and
    // that state is restored by the release below.
    let state = unsafe { ffi::PyGILState_Ensure() };
    let done = Release(state);
    let out = Python::try_attach(act);
    drop(done);
    out
}

/// Releases the GIL, if it was not held before, even after a panic.
struct Release(ffi::PyGILState_STATE);

impl Drop for Release {
    fn drop(&mut self) {
        // SAFETY: the state is from `PyGILState_Ensure` on this thread.
        unsafe { ffi::PyGILState_Release(self.0) }
    }
}

const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
/// DLPack 1.0: the version that consumers must support; later minor versions add nothing that is
/// used here.
const VERSION: DlVersion = DlVersion { major: 1, minor: 0 };
const CPU: c_int = 1;

// DLPack's own structs, field by field: <https://dmlc.github.io/dlpack/latest/c_api.html>.

#[repr(C)]
struct DlVersion {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct DlDevice {
    kind: c_int,
    id: c_int,
}

#[repr(C)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: c_int,
    dtype: DlType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManagedTensor {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

#[repr(C)]
struct DlManagedTensorVersioned {
    version: DlVersion,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// The target of a capsule, with its owner. The managed tensor comes first, so that its address
/// is that of the whole.
#[repr(C)]
struct Managed<T> {
    tensor: T,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    _block: Buffer,
}

fn dlpack_capsule<'py>(
    py: Python<'py>,
    buffer: &Buffer,
    offset: usize,
    shape: Vec<i64>,
    (code, bits): (u8, u8),
    versioned: bool,
    flags: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let mut strides = vec![1i64; shape.len()].into_boxed_slice();
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at].saturating_mul(shape[at].max(1));
    }
    let mut shape = shape.into_boxed_slice();
    let tensor = DlTensor {
        // Inside the block, or one past its end if there are no bytes: checked by the caller.
        data: buffer.0.start.wrapping_add(offset).cast(),
        device: DlDevice { kind: CPU, id: 0 },
        ndim: c_int::try_from(shape.len()).map_err(|_| PyBufferError::new_err("the rank"))?,
        dtype: DlType { code, bits, lanes: 1 },
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let _block = buffer.clone();
    if versioned {
        let tensor = DlManagedTensorVersioned {
            version: VERSION,
            context: std::ptr::null_mut(),
            deleter: Some(drop_managed::<DlManagedTensorVersioned>),
            flags,
            tensor,
        };
        let managed = Box::new(Managed { tensor, shape, strides, _block });
        capsule(py, Box::into_raw(managed), VERSIONED, drop_versioned_capsule)
    } else {
        let deleter = Some(drop_managed::<DlManagedTensor> as unsafe extern "C" fn(_));
        let tensor = DlManagedTensor { tensor, context: std::ptr::null_mut(), deleter };
        let managed = Box::new(Managed { tensor, shape, strides, _block });
        capsule(py, Box::into_raw(managed), OLD, drop_old_capsule)
    }
}

const VERSIONED: &CStr = c"dltensor_versioned";
const OLD: &CStr = c"dltensor";

fn capsule<'py, T>(
    py: Python<'py>,
    managed: *mut Managed<T>,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer is not null and the name is static.
    let made = unsafe { ffi::PyCapsule_New(managed.cast(), name.as_ptr(), Some(destructor)) };
    // SAFETY: a new reference, or null with an exception set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) };
    if made.is_err() {
        // SAFETY: no other code has the pointer, which came from a box of this type.
        drop(unsafe { Box::from_raw(managed) });
    }
    made
}

/// The deleter of a managed tensor. Called once, by the consumer or the capsule, from any thread,
/// with or without the GIL, which is not needed to drop Rust values.
unsafe extern "C" fn drop_managed<T>(tensor: *mut T) {
    if !tensor.is_null() {
        // SAFETY: the managed tensor is the first field of a `Managed<T>` that came from a box.
        drop(unsafe { Box::from_raw(tensor.cast::<Managed<T>>()) });
    }
}

unsafe extern "C" fn drop_versioned_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: Python passes the capsule that is being destroyed.
    unsafe { drop_capsule::<DlManagedTensorVersioned>(capsule, VERSIONED.as_ptr()) }
}

unsafe extern "C" fn drop_old_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe { drop_capsule::<DlManagedTensor>(capsule, OLD.as_ptr()) }
}

unsafe fn drop_capsule<T>(capsule: *mut ffi::PyObject, name: *const c_char) {
    // SAFETY: a capsule that a consumer took has another name, and the consumer deletes its
    // tensor. With this name the pointer is the original one.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, name) == 1 {
            drop_managed::<T>(ffi::PyCapsule_GetPointer(capsule, name).cast());
        }
    }
}
