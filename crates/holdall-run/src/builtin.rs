//! The runners that are built in.

use crate::runners::Runners;

impl Default for Runners {
    /// Returns the runners that are built in: `noop`, `python`, and `onnx` if its feature is enabled.
    fn default() -> Runners {
        let all = Runners::none().with(crate::noop::Noop);
        #[cfg(feature = "run-onnx")]
        let all = all.with(crate::onnx::Onnx);
        all.with(crate::python::Python)
    }
}
