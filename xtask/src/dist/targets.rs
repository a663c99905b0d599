//! The systems that a release is for.

/// A system that commands and wheels are built for.
pub(super) struct Target {
    /// The name that rustc has for it.
    pub(super) triple: &'static str,
    /// The version of glibc that zig links to, with a dot before it; empty elsewhere.
    pub(super) glibc: &'static str,
    pub(super) system: System,
    pub(super) processor: Processor,
    /// The tag of compatibility that the wheel is built for, if it is not derived from the target.
    pub(super) wheel: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// Linux with glibc.
    Gnu,
    /// Linux with anything: the command is static.
    Musl,
    Windows,
    Mac,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Processor {
    X86,
    Arm,
}

const fn linux(triple: &'static str, system: System, processor: Processor) -> Target {
    let (glibc, wheel) = match system {
        // RHEL 7, and all that is newer.
        System::Gnu => (".2.17", Some("manylinux2014")),
        _ => ("", Some("musllinux_1_2")),
    };
    Target { triple, glibc, system, processor, wheel }
}

const fn other(triple: &'static str, system: System, processor: Processor) -> Target {
    Target { triple, glibc: "", system, processor, wheel: None }
}

pub(super) const TARGETS: [Target; 7] = [
    linux("x86_64-unknown-linux-gnu", System::Gnu, Processor::X86),
    linux("aarch64-unknown-linux-gnu", System::Gnu, Processor::Arm),
    linux("x86_64-unknown-linux-musl", System::Musl, Processor::X86),
    linux("aarch64-unknown-linux-musl", System::Musl, Processor::Arm),
    other("x86_64-pc-windows-gnu", System::Windows, Processor::X86),
    other("aarch64-apple-darwin", System::Mac, Processor::Arm),
    other("x86_64-apple-darwin", System::Mac, Processor::X86),
];

impl Target {
    /// Returns the file name of the command.
    pub(super) fn command(&self) -> &'static str {
        if self.system == System::Windows { "holdall.exe" } else { "holdall" }
    }

    /// Returns whether a program for it runs on this system.
    pub(super) fn runs_here(&self) -> bool {
        let is_processor = match self.processor {
            Processor::X86 => cfg!(target_arch = "x86_64"),
            Processor::Arm => cfg!(target_arch = "aarch64"),
        };
        let is_system = match self.system {
            System::Gnu => cfg!(all(target_os = "linux", target_env = "gnu")),
            System::Musl => cfg!(target_os = "linux"),
            System::Windows => cfg!(windows),
            System::Mac => cfg!(target_os = "macos"),
        };
        is_processor && is_system
    }

    /// Returns whether zig compiles C and links for it: everywhere but on the target's own system, where that is not Linux.
    pub(super) fn needs_zig(&self) -> bool {
        match self.system {
            System::Mac => !cfg!(target_os = "macos"),
            System::Windows => !cfg!(windows),
            System::Gnu | System::Musl => true,
        }
    }
}

/// Returns the target with this name.
pub(super) fn named(triple: &str) -> Result<&'static Target, String> {
    let all = || TARGETS.iter().map(|target| target.triple).collect::<Vec<_>>().join(", ");
    TARGETS
        .iter()
        .find(|target| target.triple == triple)
        .ok_or_else(|| format!("`{triple}` is not a target of a release; these are: {}", all()))
}

/// Returns the targets that this system can build: on Linux all, elsewhere its own.
pub(super) fn all_here() -> Vec<&'static Target> {
    let can = |target: &&Target| match target.system {
        System::Mac => cfg!(any(target_os = "macos", target_os = "linux")),
        System::Windows => cfg!(any(windows, target_os = "linux")),
        System::Gnu | System::Musl => cfg!(target_os = "linux"),
    };
    TARGETS.iter().filter(can).collect()
}
