//! The runners that this crate brings.

use crate::runners::Runners;

impl Default for Runners {
    /// The runners that this crate brings.
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
