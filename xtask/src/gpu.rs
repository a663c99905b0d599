//! The crate for GPUs, on any adapter: without a graphics card, a software driver is used.

use crate::command::{Outcome, above, install, program, target};
use crate::interop;
use std::path::Path;

/// A software driver for Vulkan, and its loader.
const PACKAGES: [&str; 2] = ["mesa-vulkan-drivers", "libvulkan1"];

/// The tests that need a device.
const TESTS: [&str; 6] =
    ["gpu_load", "gpu_memory", "gpu_stream", "gpu_dense", "gpu_records", "gpu_members"];

/// `cargo xtask gpu`.
pub(crate) fn gpu(_args: &[String]) -> Outcome {
    if cfg!(target_os = "linux") && !has_driver() && !install(&PACKAGES) {
        eprintln!(
            "\n!!! SKIPPED: the GPU, for there is no driver for Vulkan, and Debian's package `{}` cannot be installed. \
             Nothing was found out about it.\n",
            PACKAGES[0]
        );
        return Ok(());
    }
    let tests = TESTS.into_iter().flat_map(|t| ["--test", t]);
    let model = interop::real_model();
    let mut run = above("test")
        .args(tests)
        .args(["--", "--include-ignored"])
        .env("HOLDALL_GPU_TESTS", "required");
    match &model {
        Some(model) => run = run.env("HOLDALL_MODEL", model),
        None => interop::skipped("a real model in buffers of a device"),
    }
    run.run()?;
    above("build").args(["--example", "encoder"]).run()?;
    let encoder = target().join("debug/examples/encoder");
    program(&encoder).run()?;
    match model {
        Some(model) => program(&encoder).args([&model]).run(),
        None => Ok(()),
    }
}

fn has_driver() -> bool {
    let folders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"];
    let has_any =
        |folder: &&str| Path::new(folder).read_dir().is_ok_and(|mut d| d.next().is_some());
    std::env::var_os("VK_DRIVER_FILES").is_some() || folders.iter().any(has_any)
}
