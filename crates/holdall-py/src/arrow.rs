//! Arrow's C data interface: converts arrays that the Python half describes to the structs that
//! Arrow consumers take, and takes batches from those of other programs. One of the files of this crate with `unsafe`,
//! with `memory.rs` and `numpy.rs`.
//!
//! An exported struct is released by its last owner: a consumer, which may also move a child out
//! of its parent, or the capsule if no consumer took it. `release` is null afterwards.
#![allow(unsafe_code)]

use crate::memory::{Elements, attached};
use crate::records::NativeColumn;
use ::arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use ::arrow_array::{RecordBatch, StructArray};
use bytes::Bytes;
use holdall::records::arrow::arrow_schema::{ArrowError, Schema};
use holdall::records::gather::{Gathered, Values};
use holdall::schema::Enum;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::ptr::{null, null_mut};

/// The type of a column: format, name, flags, metadata, children, and dictionary values (at most
/// one item).
#[derive(FromPyObject)]
pub(crate) struct Field(String, String, i64, Vec<(String, String)>, Vec<Field>, Vec<Field>);

/// The elements of a column from the Python half: length, number of nulls, buffers, children, and
/// dictionary values (at most one item).
type Column<'py> =
    (i64, i64, Vec<Option<Bound<'py, PyAny>>>, Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>);

// The structs of the interface, field by field: <https://arrow.apache.org/docs/format/CDataInterface.html>.

#[repr(C)]
struct CSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut CSchema,
    dictionary: *mut CSchema,
    release: Option<unsafe extern "C" fn(*mut CSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct CArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut CArray,
    dictionary: *mut CArray,
    release: Option<unsafe extern "C" fn(*mut CArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct CStream {
    get_schema: Option<unsafe extern "C" fn(*mut CStream, *mut CSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut CStream, *mut CArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut CStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut CStream)>,
    private_data: *mut c_void,
}

/// Structs that a function releases, with their memory in `private_data`; dropping a struct calls
/// the function unless it was called.
macro_rules! released {
    ($($name:ident by $release:ident keeping $kept:ty),*) => {$(
        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the code that set `release` set the rest of the struct for it, and
                    // it was not called yet.
                    unsafe { release(self) }
                }
            }
        }

        /// Called once, from any thread, with or without the GIL.
        unsafe extern "C" fn $release(it: *mut $name) {
            // SAFETY: null, or a struct of ours that its owner gives back.
            let Some(it) = (unsafe { it.as_mut() }) else { return };
            if it.release.take().is_some() {
                let kept = std::mem::replace(&mut it.private_data, null_mut());
                // SAFETY: set with `release`, from a box of this type, and taken once.
                drop(unsafe { Box::from_raw(kept.cast::<$kept>()) });
            }
        }
    )*};
}

released!(
    CSchema by release_schema keeping ExportedMemory<CSchema>,
    CArray by release_array keeping ExportedMemory<CArray>,
    CStream by release_stream keeping Batches
);

/// A buffer of a column.
enum Lent {
    Python(Elements),
    Own(Bytes),
}

impl Lent {
    fn bytes(&self) -> &[u8] {
        match self {
            Lent::Python(elements) => elements.bytes(),
            Lent::Own(bytes) => bytes,
        }
    }
}

/// The memory that the pointers of a struct refer to.
struct ExportedMemory<T> {
    texts: Vec<CString>,
    metadata: Vec<u8>,
    lent: Vec<Option<Lent>>,
    buffers: Vec<*const c_void>,
    pointers: Vec<*mut T>,
    dictionary: *mut T,
}

impl<T> Drop for ExportedMemory<T> {
    fn drop(&mut self) {
        for pointer in self.pointers.drain(..).chain([self.dictionary]) {
            if !pointer.is_null() {
                // SAFETY: a child, from a box. One that was moved out is empty, and is no more than memory.
                drop(unsafe { Box::from_raw(pointer) });
            }
        }
    }
}

/// Creates children, which `Kept` drops even if one of them cannot be created.
fn children<T>(
    all: impl Iterator<Item = PyResult<T>>,
    kept: &mut ExportedMemory<T>,
) -> PyResult<()> {
    for made in all {
        kept.pointers.push(Box::into_raw(Box::new(made?)));
    }
    Ok(())
}

/// Returns a record of exported memory without any memory yet.
fn no_memory<T>() -> ExportedMemory<T> {
    let (texts, metadata, lent) = Default::default();
    let (buffers, pointers) = Default::default();
    ExportedMemory { texts, metadata, lent, buffers, pointers, dictionary: null_mut() }
}

fn schema(field: &Field) -> PyResult<CSchema> {
    let Field(format, name, flags, metadata, below, dictionary) = field;
    let text = |text: &str| {
        CString::new(text).map_err(|_| PyValueError::new_err("Arrow has no names with a zero byte"))
    };
    let (format, name) = (text(format)?, text(name)?);
    let mut kept = Box::new(no_memory::<CSchema>());
    children(below.iter().map(schema), &mut kept)?;
    if let Some(values) = dictionary.first() {
        kept.dictionary = Box::into_raw(Box::new(schema(values)?));
    }
    if !metadata.is_empty() {
        let mut out = (metadata.len() as i32).to_ne_bytes().to_vec();
        for text in metadata.iter().flat_map(|(key, value)| [key, value]) {
            out.extend((text.len() as i32).to_ne_bytes());
            out.extend(text.as_bytes());
        }
        kept.metadata.extend(out);
    }
    kept.texts.extend([format, name]);
    // The contents of vectors do not move with them.
    let [format, name] = [0, 1].map(|at: usize| kept.texts.get(at).map_or(null(), |t| t.as_ptr()));
    Ok(CSchema {
        format,
        name,
        metadata: if metadata.is_empty() { null() } else { kept.metadata.as_ptr().cast() },
        flags: *flags,
        n_children: kept.pointers.len() as i64,
        children: kept.pointers.as_mut_ptr(),
        dictionary: kept.dictionary,
        release: Some(release_schema),
        private_data: Box::into_raw(kept).cast(),
    })
}

/// The address of empty buffers: consumers check its alignment, too.
#[repr(align(64))]
struct Nothing;
static NOTHING: Nothing = Nothing;

/// Returns a column from the Python half's description, or one that was gathered, which is moved
/// out.
fn array(column: &Bound<'_, PyAny>) -> PyResult<CArray> {
    if let Ok(column) = column.cast::<NativeColumn>() {
        return gathered(column.get().take()?);
    }
    let (length, null_count, buffers, below, dictionary): Column<'_> = column.extract()?;
    let lent = buffers.into_iter().map(|buffer| {
        let Some(buffer) = buffer else { return Ok(None) };
        let elements = Elements::from_array(&buffer).map(Lent::Python);
        let wrong = || PyTypeError::new_err("a buffer of Arrow's lies in one piece");
        elements.ok_or_else(wrong).map(Some)
    });
    let below = below.iter().map(array);
    let dictionary = dictionary.first().map(array).transpose()?;
    made(length, null_count, lent.collect::<PyResult<_>>()?, below, dictionary)
}

/// Returns a gathered column; the height of a schema bounds the recursion.
fn gathered(column: Gathered) -> PyResult<CArray> {
    let Gathered { len, absent, presence: there, values, .. } = column;
    let (mut lent, mut below, mut dictionary) = (vec![there], Vec::new(), None);
    match values {
        Values::Bits(data) | Values::Numbers(data) => lent.push(Some(data.freeze())),
        Values::EnumIndices(data, e) => {
            lent.push(Some(data.freeze()));
            dictionary = Some(names(&e)?);
        }
        Values::Binary64(offsets, bytes) | Values::Binary32(offsets, bytes) => {
            lent.extend([Some(offsets), Some(bytes)]);
        }
        Values::Views(views, bytes) => {
            let lens = bytes.iter().flat_map(|bytes| (bytes.len() as u64).to_le_bytes());
            let lens = Bytes::from(lens.collect::<Vec<u8>>());
            lent.extend([views].into_iter().chain(bytes).chain([lens]).map(Some));
        }
        Values::Struct(members) => below = members,
        Values::Lists(offsets, items) => {
            lent.push(Some(offsets));
            below.push(*items);
        }
        Values::Fixed(items) => below.push(*items),
        _ => return Err(PyTypeError::new_err("a column of another kind")),
    }
    let lent = lent.into_iter().map(|bytes| bytes.map(Lent::Own)).collect();
    made(len as i64, absent as i64, lent, below.into_iter().map(gathered), dictionary)
}

/// Returns the strings of an enum.
fn names(e: &Enum) -> PyResult<CArray> {
    let (mut offsets, mut bytes) = (vec![0; size_of::<i32>()], Vec::new());
    for name in e.values.iter() {
        bytes.extend_from_slice(name.as_bytes());
        // The length is less than that of the schema.
        offsets.extend((bytes.len() as i32).to_le_bytes());
    }
    let lent = vec![None, Some(Lent::Own(offsets.into())), Some(Lent::Own(bytes.into()))];
    made(e.values.len() as i64, 0, lent, std::iter::empty(), None)
}

fn made(
    length: i64,
    null_count: i64,
    lent: Vec<Option<Lent>>,
    below: impl Iterator<Item = PyResult<CArray>>,
    dictionary: Option<CArray>,
) -> PyResult<CArray> {
    let mut kept = Box::new(no_memory::<CArray>());
    kept.buffers.extend(lent.iter().map(|lent| match lent.as_ref().map(Lent::bytes) {
        None => null(),
        Some([]) => (&raw const NOTHING).cast(),
        Some(bytes) => bytes.as_ptr().cast(),
    }));
    kept.lent = lent;
    if let Some(values) = dictionary {
        kept.dictionary = Box::into_raw(Box::new(values));
    }
    children(below, &mut kept)?;
    Ok(CArray {
        length,
        null_count,
        offset: 0,
        n_buffers: kept.buffers.len() as i64,
        n_children: kept.pointers.len() as i64,
        buffers: kept.buffers.as_mut_ptr(),
        children: kept.pointers.as_mut_ptr(),
        dictionary: kept.dictionary,
        release: Some(release_array),
        private_data: Box::into_raw(kept).cast(),
    })
}

/// The batches of a stream.
struct Batches {
    field: Field,
    /// Returns the next batch, or `None` after the last; `None` once the stream is dropped.
    next: Option<Py<PyAny>>,
    /// The error that ended the stream, if any. It stays: a failed stream has no regular end.
    error: Option<CString>,
}

impl Drop for Batches {
    fn drop(&mut self) {
        // The iterator must be dropped with the GIL.
        let _ = attached(|_| drop(self.next.take()));
    }
}

/// C's error number for failed input (EIO).
const FAILED: c_int = 5;

impl Batches {
    /// Creates a value for a consumer, on any thread, with the GIL; Python exceptions are cleared
    /// before the GIL is released.
    fn make<T>(
        &mut self,
        make: impl FnOnce(Python<'_>, &Batches) -> PyResult<T>,
    ) -> Result<T, c_int> {
        if self.error.is_some() {
            return Err(FAILED);
        }
        let made = attached(|py| make(py, self).map_err(|e| exception_text(py, &e)));
        let text = match made {
            Some(Ok(made)) => return Ok(made),
            Some(Err(text)) => text,
            None => "Python is at its end".to_owned(),
        };
        self.error = CString::new(text.replace('\0', "\\0")).ok();
        Err(FAILED)
    }
}

/// Returns the text of an exception, or its class name if the text is empty, as for
/// `KeyboardInterrupt`.
fn exception_text(py: Python<'_>, e: &PyErr) -> String {
    let text = e.value(py).to_string();
    if !text.is_empty() {
        return text;
    }
    e.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string())
}

/// Returns the batches of a stream; `None` if it was released.
///
/// # Safety
/// `stream` must be null, or one of our streams that no other code uses at the same time.
unsafe fn batches<'a>(stream: *mut CStream) -> Option<&'a mut Batches> {
    // SAFETY: the caller's promise; the target of `private_data` is valid until `release` sets it
    // to null.
    unsafe { stream.as_ref().and_then(|stream| stream.private_data.cast::<Batches>().as_mut()) }
}

unsafe extern "C" fn get_schema(stream: *mut CStream, out: *mut CSchema) -> c_int {
    // SAFETY: the interface requires consumers to pass a valid stream.
    let Some(batches) = (unsafe { batches(stream) }) else { return FAILED };
    match batches.make(|_, batches| schema(&batches.field)) {
        // SAFETY: uninitialized memory of the consumer.
        Ok(made) => unsafe { out.write(made) },
        Err(status) => return status,
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut CStream, out: *mut CArray) -> c_int {
    // SAFETY: as above.
    let Some(batches) = (unsafe { batches(stream) }) else { return FAILED };
    let made = batches.make(|py, batches| {
        let Some(next) = &batches.next else { return Ok(None) };
        let batch = next.bind(py).call0()?;
        if batch.is_none() { Ok(None) } else { array(&batch).map(Some) }
    });
    match made {
        // SAFETY: as above.
        Ok(Some(made)) => unsafe { out.write(made) },
        // SAFETY: as above; a released struct marks the end.
        Ok(None) => unsafe { (&raw mut (*out).release).write(None) },
        Err(status) => return status,
    }
    0
}

unsafe extern "C" fn get_last_error(stream: *mut CStream) -> *const c_char {
    // SAFETY: as above; the text is valid until the stream is released.
    let batches = unsafe { batches(stream) };
    batches.and_then(|state| state.error.as_ref()).map_or(null(), |text| text.as_ptr())
}

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// Returns a type, for `__arrow_c_schema__`.
#[pyfunction]
pub(crate) fn arrow_schema(py: Python<'_>, field: Field) -> PyResult<Bound<'_, PyAny>> {
    capsule(py, schema(&field)?, SCHEMA, drop_capsule::<CSchema>)
}

/// Returns whether a consumer requests a type (in a capsule) with strings as views.
#[pyfunction]
pub(crate) fn arrow_views(py: Python<'_>, requested: &Bound<'_, PyAny>) -> PyResult<bool> {
    // SAFETY: an object, and a static name; if the object is not such a capsule, the result is
    // null and an exception is set.
    let schema = unsafe { ffi::PyCapsule_GetPointer(requested.as_ptr(), SCHEMA.as_ptr()) };
    // SAFETY: a struct of the interface, which the consumer does not change during the call.
    match unsafe { schema.cast::<CSchema>().as_ref() } {
        // SAFETY: as above.
        Some(schema) => Ok(unsafe { has_views(schema) }),
        None => Err(PyErr::fetch(py)),
    }
}

/// Returns `true` if a column with this schema, or one inside of it, has views.
///
/// # Safety
/// `schema` must be a valid struct with valid children that no other code changes at the same time.
unsafe fn has_views(schema: &CSchema) -> bool {
    if schema.release.is_none() {
        return false;
    }
    // SAFETY: a struct that is not released has a format, which is a text that ends with a zero.
    let format = unsafe { CStr::from_ptr(schema.format) }.to_bytes();
    let mut children = (0..schema.n_children as usize).map(|at| {
        // SAFETY: the struct has that many children.
        unsafe { (*schema.children.add(at)).as_ref() }
    });
    // SAFETY: the caller's promise.
    matches!(format, b"vu" | b"vz")
        || children.any(|schema| schema.is_some_and(|schema| unsafe { has_views(schema) }))
}

/// Returns a type and its elements, for `__arrow_c_array__`.
#[pyfunction]
pub(crate) fn arrow_array<'py>(
    py: Python<'py>,
    field: Field,
    column: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let made = array(column)?;
    Ok((arrow_schema(py, field)?, capsule(py, made, ARRAY, drop_capsule::<CArray>)?))
}

/// Returns a stream of batches of a type, for `__arrow_c_stream__`: the results of `next`, until
/// it returns `None`.
#[pyfunction]
pub(crate) fn arrow_stream(
    py: Python<'_>,
    field: Field,
    next: Py<PyAny>,
) -> PyResult<Bound<'_, PyAny>> {
    let batches = Box::new(Batches { field, next: Some(next), error: None });
    let stream = CStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(batches).cast(),
    };
    capsule(py, stream, STREAM, drop_capsule::<CStream>)
}

/// Returns the struct in a capsule, which is moved out of it.
fn take<'py, T>(
    capsule: &Bound<'py, PyAny>,
    name: &'static CStr,
    take: unsafe fn(*mut T) -> T,
) -> PyResult<T> {
    // SAFETY: an object, and a static name; if the object is not such a capsule, the result is null and an exception is
    // set.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) };
    if pointer.is_null() {
        return Err(PyErr::fetch(capsule.py()));
    }
    // SAFETY: capsules of this name contain such a struct; with the GIL, no other code uses it. The struct that stays
    // in the capsule is released.
    Ok(unsafe { take(pointer.cast()) })
}

/// Returns a batch from its schema and its columns, as `__arrow_c_array__` returns them.
fn batch(schema: &Bound<'_, PyAny>, array: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let wrong = |e: ArrowError| PyValueError::new_err(e.to_string());
    let schema = take(schema, SCHEMA, FFI_ArrowSchema::from_raw)?;
    let array = take(array, ARRAY, FFI_ArrowArray::from_raw)?;
    // SAFETY: the interface requires that the columns have the types in the schema.
    let data = unsafe { from_ffi(array, &schema) }.map_err(wrong)?;
    let metadata = schema.metadata().map_err(wrong)?;
    let batch = RecordBatch::from(StructArray::from(data));
    let fields = batch.schema().fields().clone();
    batch.with_schema(Schema::new_with_metadata(fields, metadata).into()).map_err(wrong)
}

/// Batches from a Python function that returns the next one as `__arrow_c_array__` does, and `None` after the last one.
pub(crate) struct GivenBatches {
    next: Py<PyAny>,
    is_over: bool,
}

impl GivenBatches {
    pub(crate) fn new(next: Py<PyAny>) -> GivenBatches {
        GivenBatches { next, is_over: false }
    }

    fn step(&self) -> PyResult<Option<RecordBatch>> {
        Python::attach(|py| {
            let found = self.next.bind(py).call0()?;
            if found.is_none() {
                return Ok(None);
            }
            let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = found.extract()?;
            batch(&schema, &array).map(Some)
        })
    }
}

impl Iterator for GivenBatches {
    type Item = holdall::Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let batch = self.step();
        self.is_over = !matches!(batch, Ok(Some(_)));
        let batch = batch.map_err(|e| holdall::error::io(io::Error::other(e), "reading columns"));
        batch.transpose()
    }
}

fn capsule<'py, T>(
    py: Python<'py>,
    value: T,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    let value = Box::into_raw(Box::new(value));
    // SAFETY: the pointer is not null and the name is static.
    let made = unsafe { ffi::PyCapsule_New(value.cast(), name.as_ptr(), Some(destructor)) };
    // SAFETY: a new reference, or null with an exception set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) };
    if made.is_err() {
        // SAFETY: no other code has the pointer, which came from a box of this type.
        drop(unsafe { Box::from_raw(value) });
    }
    made
}

unsafe extern "C" fn drop_capsule<T>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python passes the capsule that is being destroyed; its name never changes, and its
    // pointer is the original one. A struct that a consumer moved out is already released.
    unsafe {
        let value = ffi::PyCapsule_GetPointer(capsule, ffi::PyCapsule_GetName(capsule)).cast::<T>();
        if !value.is_null() {
            drop(Box::from_raw(value));
        }
    }
}
