//! The machine and the software versions of a measurement.

use crate::args::Args;
use crate::cold::drop_cache;
use crate::floor::memory::HugeMemory;
use crate::floor::{cores, read, write};
use crate::timing::timed;
use crate::worker::Output;
use anyhow::Result;
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Facts, in the order of the report.
pub struct Machine {
    pub date: String,
    pub facts: Vec<(&'static str, String)>,
    pub versions: Vec<(String, String)>,
}

pub fn describe(args: &Args) -> Result<Machine> {
    let (disk_read, disk_write) = disk_speed(&args.dir)?;
    let facts = vec![
        ("processor", format!("{}, {} cores", field("/proc/cpuinfo", "model name"), cores())),
        ("memory", memory()),
        ("kernel", kernel()),
        ("file system", file_system(&args.dir)),
        ("transparent huge pages", line("/sys/kernel/mm/transparent_hugepage/enabled")),
        ("disk, direct reads", format!("{disk_read:.2} GB/s")),
        ("disk, direct writes and fsync", format!("{disk_write:.2} GB/s")),
        ("compiler", compiler()),
    ];
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(Machine { date: date(now), facts, versions: versions() })
}

/// Returns the speed of reading and of writing a file without the page cache on all cores, in gigabytes per second.
fn disk_speed(dir: &Path) -> Result<(f64, f64)> {
    let mut bytes = HugeMemory::new(256 << 20);
    // Random bytes, as some disks do not store zeros.
    bytes.iter_mut().enumerate().for_each(|(i, b)| *b = (i.wrapping_mul(0x9e37_79b1) >> 13) as u8);
    let output = Output::new(dir.join("output.zt"))?;
    let path = output.as_ref();
    let (_, written) = timed(|| write::direct_synced(path, &bytes, cores()))?;
    drop_cache(path)?;
    let (_, read) = timed(|| read::direct(path, cores()))?;
    let speed = |nanos: u64| bytes.len() as f64 / nanos as f64;
    Ok((speed(read.nanos), speed(written.nanos)))
}

fn line(path: &str) -> String {
    read_to_string(path).map(|s| s.trim().to_owned()).unwrap_or_else(|_| "unknown".into())
}

/// Returns the kernel version without the suffix of the distribution.
fn kernel() -> String {
    let release = line("/proc/sys/kernel/osrelease");
    format!("Linux {}", release.split('-').next().unwrap_or_default())
}

fn field(path: &str, key: &str) -> String {
    let text = read_to_string(path).unwrap_or_default();
    let found = text.lines().filter_map(|l| l.split_once(':')).find(|(k, _)| k.trim() == key);
    found.map_or_else(|| "unknown".into(), |(_, v)| v.trim().to_owned())
}

fn memory() -> String {
    let total = field("/proc/meminfo", "MemTotal");
    let kilobytes = total.split_whitespace().next().and_then(|n| n.parse::<f64>().ok());
    kilobytes.map_or(total, |k| format!("{:.0} GB", k * 1024.0 / 1e9))
}

/// Returns the type of the file system that contains `dir`: that of the longest mount point that is a prefix of it.
fn file_system(dir: &Path) -> String {
    let Ok(dir) = dir.canonicalize() else { return "unknown".into() };
    let mounts = read_to_string("/proc/self/mounts").unwrap_or_default();
    let found = mounts.lines().filter_map(|l| {
        let mut fields = l.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        dir.starts_with(point).then_some((point.len(), kind))
    });
    found.max().map_or_else(|| "unknown".into(), |(_, kind)| kind.to_owned())
}

fn compiler() -> String {
    let out = Command::new("rustc").arg("-V").output();
    out.ok()
        .and_then(|o| String::from_utf8(o.stdout).ok())
        .map_or_else(|| "unknown".into(), |s| s.trim().to_owned())
}

/// Returns the versions of the measured packages, from the lock file of this build.
fn versions() -> Vec<(String, String)> {
    const SHOWN: [&str; 10] = [
        "arrow-array",
        "holdall",
        "ring",
        "safetensors",
        "serde_json",
        "sha2",
        "wgpu",
        "zstd",
        "zstd-sys",
        "ztensor",
    ];
    let value = |line: &str, key: &str| {
        line.strip_prefix(key).map(|v| v.trim_matches([' ', '=', '"']).to_owned())
    };
    let packages = include_str!("../Cargo.lock").split("[[package]]").filter_map(|package| {
        let name = package.lines().find_map(|l| value(l, "name"))?;
        let version = package.lines().find_map(|l| value(l, "version"))?;
        SHOWN.contains(&name.as_str()).then_some((name, version))
    });
    packages.collect()
}

/// Formats the day of a time since 1970 in UTC, as `2026-03-21`.
fn date(since: Duration) -> String {
    // Converts days to a civil date. Years start on 1 March, so that the leap day is the last.
    let days = since.as_secs() as i64 / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, day) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_818, "2026-12-31"),
        ] {
            assert_eq!(date(Duration::from_secs(days * 86_400 + 86_399)), day);
        }
    }
}
