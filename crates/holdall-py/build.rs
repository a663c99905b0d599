//! On macOS a module's Python symbols are resolved when it is loaded, which requires linker
//! options.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
