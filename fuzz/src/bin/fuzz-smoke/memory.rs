//! How much memory this process takes: its address space, touched or not.

/// Keeps this process from taking the machine's memory, whatever an input makes it ask for.
pub(crate) fn cap() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let most = Some(4 << 30);
        let maximum = getrlimit(Resource::As).maximum;
        // Where the system has no such limit, what follows only costs more when it fails.
        let _ = setrlimit(Resource::As, Rlimit { current: most, maximum });
    }
}

/// The most address space so far, in KiB; `None` where the system does not tell.
pub(crate) fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmPeak:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// By how much that grew, if by more than `most`.
pub(crate) fn above(before: Option<u64>, most: u64) -> Option<u64> {
    let more = peak_kib()?.saturating_sub(before?);
    (more > most).then_some(more)
}
