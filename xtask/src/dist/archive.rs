//! Archives whose bytes depend on nothing but the names and bytes of the files in them, and on one time.

use std::io::Write as _;

/// A file of an archive.
pub(super) struct Entry {
    /// Its path in the archive, with `/`.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) is_program: bool,
}

/// Returns a tar archive (ustar) of the files, compressed by gzip; `time` is in seconds since 1970.
///
/// # Errors
/// Fails if a path has more than 100 bytes.
pub(super) fn tar_gz(entries: &[Entry], time: u64) -> Result<Vec<u8>, String> {
    let mut out = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::best());
    let mut write = |bytes: &[u8]| out.write_all(bytes).map_err(|e| e.to_string());
    for entry in entries {
        write(&tar_header(entry, time)?)?;
        write(&entry.bytes)?;
        write(&vec![0; entry.bytes.len().next_multiple_of(BLOCK) - entry.bytes.len()])?;
    }
    write(&[0; 2 * BLOCK])?;
    out.finish().map_err(|e| e.to_string())
}

fn tar_header(entry: &Entry, time: u64) -> Result<[u8; BLOCK], String> {
    let mode = if entry.is_program { 0o755 } else { 0o644 };
    let mut header = [0; BLOCK];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    if entry.path.len() > 100 {
        return Err(format!("{}: longer than 100 bytes", entry.path));
    }
    put(0, &entry.path);
    put(100, &format!("{mode:07o}\0{:07o}\0{:07o}\0", 0, 0));
    put(124, &format!("{:011o}\0{time:011o}\0", entry.bytes.len()));
    // The checksum counts as spaces in its own sum.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000root");
    put(297, "root");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

const BLOCK: usize = 512;

/// Returns a zip archive of the files, deflated, all of 1980.
///
/// # Errors
/// Fails if a size or an offset has more than 32 bits.
pub(super) fn zip(entries: &[Entry]) -> Result<Vec<u8>, String> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let small = |n: usize| u32::try_from(n).map_err(|_| "4 GiB or more".to_owned());
    for entry in entries {
        let mut sum = flate2::Crc::new();
        sum.update(&entry.bytes);
        let mut packed =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&entry.bytes).map_err(|e| e.to_string())?;
        let packed = packed.finish().map_err(|e| e.to_string())?;
        let offset = small(out.len())?;
        // Version 2.0, names in UTF-8, deflate, the first day of 1980.
        let mut common = Vec::new();
        [20u16, 0x800, 8, 0, 0x21].iter().for_each(|n| common.extend(n.to_le_bytes()));
        for number in [sum.sum(), small(packed.len())?, small(entry.bytes.len())?] {
            common.extend(number.to_le_bytes());
        }
        common.extend((entry.path.len() as u16).to_le_bytes());
        common.extend([0; 2]);
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(entry.path.as_bytes());
        out.extend(packed);
        let mode: u32 = if entry.is_program { 0o100755 } else { 0o100644 };
        directory.extend(b"PK\x01\x02");
        // Made by version 2.0 on Unix, so that programs stay programs there.
        directory.extend([20, 3]);
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(entry.path.as_bytes());
    }
    let (at, len) = (small(out.len())?, small(directory.len())?);
    let count = (entries.len() as u16).to_le_bytes();
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.iter().chain(&count));
    out.extend(len.to_le_bytes());
    out.extend(at.to_le_bytes());
    out.extend([0; 2]);
    Ok(out)
}
