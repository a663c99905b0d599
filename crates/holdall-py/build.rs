//! On macOS a module's symbols of Python are looked up when it is loaded; the linker must be told.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
