//! The memory of this process: its address space, whether used or not.

/// Limits the address space, so that an input cannot exhaust the machine's memory.
pub(crate) fn cap() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let most = Some(4 << 30);
        let maximum = getrlimit(Resource::As).maximum;
        // If the system does not have this limit, an excessive allocation only takes longer to fail.
        let _ = setrlimit(Resource::As, Rlimit { current: most, maximum });
    }
}

/// Returns the maximum address space so far, in KiB, or `None` if the system does not report it.
pub(crate) fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmPeak:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Returns by how much the maximum grew, if by more than `most`.
pub(crate) fn above(before: Option<u64>, most: u64) -> Option<u64> {
    let more = peak_kib()?.saturating_sub(before?);
    (more > most).then_some(more)
}
