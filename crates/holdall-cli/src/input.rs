//! Opening what the user named: a file, or standard input.

use crate::exit::{Failure, STDIN_LEN, STDIN_TWICE};
use crate::session::Session;
use holdall::source::{FileSource, MapSource};
use holdall::{ByteSource, Check, File, Io, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Standard input's name in output and errors.
pub(crate) const STDIN: &str = "<stdin>";

/// Opens `path`, or standard input when it is `-`.
pub(crate) fn open(session: &Session, path: &Path) -> Result<File, Failure> {
    open_with(session, path, Check::Fast)
}

/// Like [`open`], checking these digests.
pub(crate) fn open_with(session: &Session, path: &Path, check: Check) -> Result<File, Failure> {
    let options = OpenOptions::new()
        .with_io(session.global.io.into())
        .with_limits(session.global.limits())
        .with_check(check);
    if path.as_os_str() != "-" {
        return Ok(options.open(path)?);
    }
    if let Some(source) = redirected(session.global.io.into())? {
        return Ok(options.open_source(source, STDIN)?);
    }
    let cap = session.global.stdin_len();
    let mut bytes = Vec::new();
    let failed = |e: std::io::Error| {
        let rule = &holdall::error::IO;
        rule.broken(format!("reading: {e}")).with_io(e).in_source(STDIN)
    };
    std::io::stdin().lock().take(cap.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > cap {
        return Err(STDIN_LEN
            .broken(format!("there are more than {cap} bytes"))
            .in_source(STDIN)
            .into());
    }
    Ok(options.open_bytes(bytes, STDIN)?)
}

/// Standard input where it is a file, from its start: that needs no copy in memory.
#[cfg(target_os = "linux")]
fn redirected(io: Io) -> holdall::Result<Option<Arc<dyn ByteSource>>> {
    use std::io::Seek as _;
    use std::os::fd::AsFd as _;
    let Ok(fd) = std::io::stdin().as_fd().try_clone_to_owned() else { return Ok(None) };
    let mut file = std::fs::File::from(fd);
    let is_file = file.metadata().is_ok_and(|m| m.is_file());
    if !is_file || file.stream_position().ok() != Some(0) {
        return Ok(None);
    }
    let named = |e: holdall::Error| e.in_source(STDIN);
    let source = FileSource::open(Path::new("/dev/stdin")).map_err(named)?;
    Ok(Some(match io {
        Io::Read | Io::Direct => Arc::new(source),
        _ => Arc::new(MapSource::new(source).map_err(named)?),
    }))
}

#[cfg(not(target_os = "linux"))]
fn redirected(_: Io) -> holdall::Result<Option<Arc<dyn ByteSource>>> {
    Ok(None)
}

/// Refuses to read standard input twice.
pub(crate) fn check_once<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Failure> {
    let dashes = paths.into_iter().filter(|p| p.as_os_str() == "-").count();
    match dashes {
        0 | 1 => Ok(()),
        n => Err(STDIN_TWICE.broken(format!("`-` is given {n} times")).into()),
    }
}
