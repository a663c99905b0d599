//! The runners that are built in.

use crate::runners::Runners;

impl Default for Runners {
    /// Returns the runners that are built in: `noop`; `onnx`, if the feature `run-onnx` is enabled; and `python`, on
    /// Unix.
    fn default() -> Runners {
        let mut all = Runners::none().with(crate::noop::Noop);
        #[cfg(feature = "run-onnx")]
        {
            all = all.with(crate::onnx::Onnx);
        }
        #[cfg(unix)]
        {
            all = all.with(crate::python::Python);
        }
        all
    }
}
