//! The native half of the Python package: file and memory access. The Python half, in
//! `python/holdall`, provides the public interface.
//!
//! The native half knows files, tensors by number, and buffers. The other half is typed Python, and imports
//! NumPy, torch and others when they are needed. A dict of many tensors takes one call: `arrays.rs` makes NumPy
//! arrays with NumPy's C functions (`numpy.rs`), and `save.rs` takes them, without running Python code for each.
//! Unusual cases (an element type that was not requested yet, memory that is not aligned, arrays of torch) are
//! left to the Python half. Apart from the caller's own functions, such as `progress`, a load runs no Python code
//! below frames of Rust, because Python ends daemon threads there when the interpreter ends, which would abort
//! the process.
//!
//! Memory is passed in two ways. A read that borrows returns a read-only buffer over `Bytes`, which keeps the map
//! alive. A load returns memory before it is frozen (`File::load_memory`), and from then on Python owns it: no
//! `Bytes` that Rust can see is ever writable. The memory of a buffer does not move, and lives as long as the
//! last array over it.
//!
//! Long work runs on its own thread without the GIL. The calling thread wakes every 50 ms to check for signals
//! and to report progress; both can cancel, through the `Work` that the library checks anyway.
//!
//! Reports are passed as plain data (`holdall/src/plain/`); the Python half makes classes from the dicts, and knows
//! only the fields that it renames.
#![deny(unsafe_code)]

mod append;
mod arrays;
mod arrow;
mod blob;
mod build;
mod decode;
mod delta;
#[cfg(feature = "carton")]
mod describe;
mod dtype;
mod edit;
mod errors;
mod file;
mod folders;
mod kinds;
mod memory;
mod migrate;
#[cfg(feature = "carton")]
mod model;
mod noted;
mod numpy;
mod options;
mod order;
#[cfg(feature = "carton")]
mod pack;
#[cfg(feature = "carton")]
mod package;
mod plain;
mod private;
mod recipes;
mod records;
mod remedies;
#[cfg(feature = "carton")]
mod remote;
mod row_columns;
mod row_input;
mod save;
mod schemas;
#[cfg(feature = "quic")]
mod serve;
mod source;
mod stream;
mod value;
#[cfg(feature = "carton")]
mod values;
mod work;
mod writer;

use pyo3::prelude::*;

/// Runs the command line of `holdall`, which `program` starts in further processes; returns the
/// exit status.
#[pyfunction]
fn command(py: Python<'_>, args: Vec<std::ffi::OsString>, program: Vec<std::ffi::OsString>) -> u8 {
    holdall_cli::set_program_command(program);
    py.detach(|| holdall_cli::run(args))
}

// Without this, PyO3 would declare support for free-threaded Python, on which no tests run yet.
/// Native half of `holdall`. Import `holdall` instead.
#[pymodule(gil_used = true)]
mod _holdall {
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use super::append::append;
    #[pymodule_export]
    use super::arrow::{arrow_array, arrow_schema, arrow_stream, arrow_views};
    #[pymodule_export]
    use super::blob::NativeBlob;
    #[pymodule_export]
    use super::build::{NativePart, build, encode_records, encode_runs, record_schema};
    #[pymodule_export]
    use super::command;
    #[pymodule_export]
    use super::delta::{
        delta_apply, delta_convert, delta_fold, delta_make, delta_open, delta_show,
    };
    #[pymodule_export]
    use super::edit::{NativeEdit, compact};
    #[pymodule_export]
    use super::file::NativeFile;
    #[pymodule_export]
    use super::file::formats;
    #[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
    #[pymodule_export]
    use super::folders::contents;
    #[pymodule_export]
    use super::folders::model_folder;
    #[pymodule_export]
    use super::folders::salvage;
    #[cfg(feature = "pytorch")]
    #[pymodule_export]
    use super::folders::scan;
    #[pymodule_export]
    use super::memory::Buffer;
    #[pymodule_export]
    use super::migrate::{schema_migrate, schema_plan, schema_view};
    #[cfg(feature = "carton")]
    #[pymodule_export]
    use super::model::{NativeAnswers, NativeModel};
    #[pymodule_export]
    use super::noted::{file_attribute, noted};
    #[pymodule_export]
    use super::order::shuffle_numbers;
    #[cfg(feature = "carton")]
    #[pymodule_export]
    use super::pack::{fetch, pack, shrink};
    #[cfg(feature = "carton")]
    #[pymodule_export]
    use super::package::NativePackage;
    #[pymodule_export]
    use super::plain::type_name;
    #[pymodule_export]
    use super::private::{PrivateMaps, another_handle};
    #[pymodule_export]
    use super::recipes::{
        adapter_convert, model_convert, model_diff, model_restore, model_vocabulary,
        recipe_described, recipe_texts,
    };
    #[pymodule_export]
    use super::records::{NativeColumn, NativeRecords};
    #[pymodule_export]
    use super::records::{record_types, sample, sample_among};
    #[pymodule_export]
    use super::remedies::{limit_remedies, remedies};
    #[cfg(all(feature = "carton", feature = "stores"))]
    #[pymodule_export]
    use super::remote::NativeStaged;
    #[pymodule_export]
    use super::row_columns::{NativeColumns, row_columns};
    #[pymodule_export]
    use super::save::save;
    #[pymodule_export]
    use super::schemas::{
        schema_check, schema_code, schema_diff, schema_header, schema_infer, schema_layout,
    };
    #[cfg(feature = "quic")]
    #[pymodule_export]
    use super::serve::NativeServer;
    #[pymodule_export]
    use super::stream::NativeArriving;
    #[pymodule_export]
    use super::writer::NativeWriter;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
