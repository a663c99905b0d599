//! NumPy arrays over memory of the native half, created by NumPy's C functions: calling
//! `numpy.ndarray` takes several times as long. With `memory.rs` and `arrow.rs` the files of this
//! crate with `unsafe`.
#![allow(unsafe_code)]

use crate::arrays::ndarray;
use crate::memory::Buffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::{c_int, c_uint, c_void};
use std::mem::transmute;

/// The number of dimensions that every version of NumPy supports.
const MAX_DIMS: usize = 32;

/// Returns the array of `shape` whose elements, of `width` bytes and of the type `dtype`, start
/// `start` bytes into `buffer`, which it keeps alive. Returns `None` if they are not all in the
/// buffer, if NumPy does not support the array, or if this version of NumPy is not known.
pub(crate) fn array<'py>(
    buffer: &Bound<'py, Buffer>,
    start: usize,
    shape: &[u64],
    dtype: &Bound<'py, PyAny>,
    width: u64,
) -> Option<Bound<'py, PyAny>> {
    let py = buffer.py();
    let functions = functions(py)?;
    let memory = buffer.get();
    if shape.len() > MAX_DIMS {
        return None;
    }
    let (mut dims, mut len) = ([0isize; MAX_DIMS], width);
    for (dim, &n) in dims.iter_mut().zip(shape) {
        *dim = isize::try_from(n).ok()?;
        len = len.checked_mul(n)?;
    }
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    if end > memory.len() {
        return None;
    }
    let data = memory.as_ptr().wrapping_add(start).cast::<c_void>();
    let flags = if memory.is_writable() { ALIGNED | WRITEABLE } else { ALIGNED };
    let array_type = ndarray(py).ok()?.as_ptr().cast();
    // SAFETY: `array_type` is the type of arrays, and `dtype` is a NumPy dtype, whose item size was
    // compared with `width`; the call takes over a reference to it. `dims` has as many items as
    // stated, and memory from `data` on has as many bytes as they require, which are valid as
    // long as `buffer`. NumPy computes the strides.
    let made = unsafe {
        let dtype = dtype.clone().into_ptr();
        let rank = shape.len() as c_int;
        let none = std::ptr::null_mut::<ffi::PyObject>();
        let made =
            (functions.new)(array_type, dtype, rank, dims.as_ptr(), none.cast(), data, flags, none);
        Bound::from_owned_ptr_or_opt(py, made)
    };
    let Some(made) = made else {
        drop(PyErr::take(py));
        return None;
    };
    // SAFETY: `made` is a new array; the call takes over a reference to the buffer. The flags are
    // then computed from shape and address.
    let status = unsafe {
        let status = (functions.set_base)(made.as_ptr(), buffer.clone().into_ptr());
        (functions.update_flags)(made.as_ptr(), C_CONTIGUOUS | F_CONTIGUOUS | ALIGNED);
        status
    };
    if status < 0 {
        drop(PyErr::take(py));
        return None;
    }
    Some(made)
}

/// `PyArray_NewFromDescr`: the class, the dtype, rank, dimensions, strides, memory, flags, an object.
type New = unsafe extern "C" fn(
    *mut ffi::PyTypeObject,
    *mut ffi::PyObject,
    c_int,
    *const isize,
    *const isize,
    *mut c_void,
    c_int,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// `PyArray_SetBaseObject`: the array, the object that it keeps alive.
type SetBase = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> c_int;
/// `PyArray_UpdateFlags`: the array, the flags to compute.
type UpdateFlags = unsafe extern "C" fn(*mut ffi::PyObject, c_int);
/// `PyArray_GetNDArrayCVersion`: returns the version of NumPy's binary interface.
type Version = unsafe extern "C" fn() -> c_uint;

/// The part of NumPy's C interface that is used:
/// <https://numpy.org/doc/stable/reference/c-api/array.html>.
struct Functions {
    new: New,
    set_base: SetBase,
    update_flags: UpdateFlags,
}

const C_CONTIGUOUS: c_int = 0x1;
const F_CONTIGUOUS: c_int = 0x2;
const ALIGNED: c_int = 0x100;
const WRITEABLE: c_int = 0x400;

/// Returns the functions, found at the first call; `None` for versions of NumPy whose table is
/// not known.
fn functions(py: Python<'_>) -> Option<&Functions> {
    static FOUND: PyOnceLock<Option<Functions>> = PyOnceLock::new();
    FOUND.get_or_init(py, || find(py).ok().flatten()).as_ref()
}

fn find(py: Python<'_>) -> PyResult<Option<Functions>> {
    // NumPy 1 has it in another module.
    let module = py
        .import("numpy._core._multiarray_umath")
        .or_else(|_| py.import("numpy.core._multiarray_umath"))?;
    let capsule = module.getattr("_ARRAY_API")?;
    // SAFETY: the capsule has no name; a capsule with a name is an error.
    let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), std::ptr::null()) };
    let table: *const *const c_void = table.cast_const().cast();
    if table.is_null() {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: the capsule has NumPy's table of functions, which is static. Its first entry is the
    // version in every NumPy; the positions and types of the others are those of NumPy 1 and 2.
    unsafe {
        let version = transmute::<*const c_void, Version>(*table);
        if !matches!(version() >> 24, 1 | 2) {
            return Ok(None);
        }
        Ok(Some(Functions {
            update_flags: transmute::<*const c_void, UpdateFlags>(*table.add(92)),
            new: transmute::<*const c_void, New>(*table.add(94)),
            set_base: transmute::<*const c_void, SetBase>(*table.add(282)),
        }))
    }
}
