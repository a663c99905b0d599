//! Opens inputs: files, or standard input.

use crate::exit::{ARGUMENTS, Failure, STDIN_LEN, STDIN_TWICE};
use crate::session::Session;
use holdall::operations::{self, LocationKind, Operation};
use holdall::source::{FileSource, MemorySource, SourceReader, mapped_or_read};
use holdall::{ByteSource, Check, File, Io, Location, OpenOptions, Tensor};
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of standard input in output and errors.
pub(crate) const STDIN: &str = "<stdin>";

/// Opens `path`, or standard input if it is `-`. A file inside a package is first checked against its hash.
pub(crate) fn open(session: &Session, path: &Path) -> Result<File, Failure> {
    open_with(session, path, initial_check(path))
}

/// Opens several files as one model, in this order.
pub(crate) fn open_all(session: &Session, paths: &[PathBuf]) -> Result<File, Failure> {
    let [path] = paths else {
        if paths.iter().any(|path| path.as_os_str() == "-") {
            let e = ARGUMENTS.broken("standard input cannot be one of several files of a model");
            return Err(e.into());
        }
        let is_inside = paths.iter().any(|path| initial_check(path) == Check::All);
        let check = if is_inside { Check::All } else { Check::Read };
        return Ok(options(session).with_check(check).open_all(paths)?);
    };
    open(session, path)
}

/// Groups files into models: each file is a model, or all of them together are one.
pub(crate) fn group_models(files: &[PathBuf], together: bool) -> Vec<&[PathBuf]> {
    match together {
        true => vec![files],
        false => files.chunks(1).collect(),
    }
}

/// Checks that the operation supports this kind of location, before it does anything.
pub(crate) fn check_location(operation: Operation, path: &Path) -> holdall::Result<()> {
    match path.as_os_str() == "-" {
        true => operations::check_kind(operation, LocationKind::StandardInput, STDIN),
        false => operations::check(operation, path),
    }
}

/// Returns the check that a file gets when it is opened: files inside a package are compared with their hash.
fn initial_check(path: &Path) -> Check {
    match Location::new(path) {
        Location::Member { .. } => Check::All,
        _ => Check::Read,
    }
}

/// Returns the options that [`open`] uses for this file.
pub(crate) fn options_for(session: &Session, path: &Path) -> OpenOptions {
    options(session).with_check(initial_check(path))
}

/// Like [`open`], but checks the given digests.
pub(crate) fn open_with(session: &Session, path: &Path, check: Check) -> Result<File, Failure> {
    let options = options(session).with_check(check);
    if path.as_os_str() != "-" {
        return Ok(options.open(path)?);
    }
    Ok(match standard(session)? {
        StandardInput::File(source) => options.open_source(source, STDIN)?,
        StandardInput::Memory(source) => {
            options.open_bytes(source.read_range(0..source.len())?, STDIN)?
        }
    })
}

/// Opens the target of the delta `path`, if it is made from `base`; without a base, the file itself.
pub(crate) fn open_target(
    session: &Session,
    path: &Path,
    base: Option<&Path>,
    check: Check,
) -> Result<File, Failure> {
    let file = open_with(session, path, check)?;
    match base {
        Some(base) => Ok(holdall::delta::open(&open_with(session, base, check)?, &file)?),
        None => Ok(file),
    }
}

/// The content of standard input, which can be read more than once.
#[derive(Clone)]
pub(crate) enum StandardInput {
    /// Standard input is redirected from a file.
    File(Arc<dyn ByteSource>),
    /// Standard input was read into memory.
    Memory(Arc<dyn ByteSource>),
}

/// Returns the content of standard input. It is read only once.
pub(crate) fn standard(session: &Session) -> Result<StandardInput, Failure> {
    if let Some(found) = session.standard.get() {
        return Ok(found.clone());
    }
    let found = match redirected(session.global.io.into())? {
        Some(source) => StandardInput::File(source),
        None => {
            let bytes = read_all(session, &mut std::io::stdin().lock(), STDIN)?;
            StandardInput::Memory(Arc::new(MemorySource::new(bytes)))
        }
    };
    Ok(session.standard.get_or_init(|| found).clone())
}

/// Returns the options for opening files.
pub(crate) fn options(session: &Session) -> OpenOptions {
    let options =
        OpenOptions::new().with_io(session.global.io.into()).with_limits(session.global.limits());
    let options = options.with_layouts(session.layouts());
    #[cfg(feature = "http")]
    let options = options.with_policy(policy(session));
    // An invalid cache was reported before.
    #[cfg(feature = "http")]
    let options = match session.global.cache() {
        Ok(Some(cache)) => options.with_cache(cache),
        _ => options,
    };
    #[cfg(feature = "stores")]
    let options = options.with_store_options(session.global.stores());
    #[cfg(all(feature = "http", feature = "carton"))]
    let options = options.with_fetcher(Arc::new(crate::links::OnDemand::new(session)));
    options
}

/// Returns the policy for HTTP requests. Trusted certificate authorities are those in the file that `SSL_CERT_FILE`
/// names, as for other programs, or else the built-in ones. The file is read once.
#[cfg(feature = "http")]
pub(crate) fn policy(session: &Session) -> holdall::http::Policy {
    session.policy.get_or_init(|| read_policy(session)).clone()
}

#[cfg(feature = "http")]
fn read_policy(session: &Session) -> holdall::http::Policy {
    let policy = session.global.policy();
    let Some(path) = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()) else {
        return policy;
    };
    let read = std::fs::read(&path).map_err(|e| holdall::error::io(e, "reading"));
    let with = read.and_then(|pem| policy.clone().with_certificates(&pem));
    with.unwrap_or_else(|e| {
        let (path, reason) = (Path::new(&path).display(), e.message());
        session.warn(format_args!("SSL_CERT_FILE is not used: {path}: {reason}"));
        policy
    })
}

/// Returns the name of an input, for output and errors.
pub(crate) fn display_name(path: &Path) -> String {
    if path.as_os_str() == "-" {
        return STDIN.to_owned();
    }
    holdall::http::redacted(path)
}

/// Opens a file, an address, a file in an archive, or standard input if it is `-`. Returns its length in bytes and a
/// reader at its start. Pipes are read into memory, like standard input.
pub(crate) fn reader(
    session: &Session,
    path: &Path,
) -> Result<(u64, Box<dyn Read + Send>), Failure> {
    let failed = |e: std::io::Error| holdall::error::io(e, "opening").in_source(path.display());
    let bytes = if path.as_os_str() == "-" {
        read_all(session, &mut std::io::stdin().lock(), STDIN)?
    } else if let location = Location::new(path)
        && location.as_path().is_none()
    {
        let (source, _) = options(session).checked_source_at(&location)?;
        return Ok((source.len(), Box::new(SourceReader::new(source))));
    } else {
        let mut file = std::fs::File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_file() {
            return Ok((metadata.len(), Box::new(file)));
        }
        read_all(session, &mut file, &display_name(path))?
    };
    Ok((bytes.len() as u64, Box::new(Cursor::new(bytes))))
}

/// Reads everything from a reader, up to the limit for standard input.
fn read_all(session: &Session, from: &mut dyn Read, name: &str) -> Result<Vec<u8>, Failure> {
    let cap = session.global.stdin_len();
    let mut bytes = Vec::new();
    from.take(cap.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|e| holdall::error::io(e, "reading").in_source(name))?;
    if bytes.len() as u64 > cap {
        let e = STDIN_LEN.broken(format!("more than {cap} bytes"));
        return Err(e.in_source(name).into());
    }
    Ok(bytes)
}

/// Returns standard input if it is redirected from a file and at its start; it need not be copied into memory.
fn redirected(io: Io) -> holdall::Result<Option<Arc<dyn ByteSource>>> {
    let Some(path) = crate::platform::redirected_input() else { return Ok(None) };
    let in_context = |e: holdall::Error| e.in_source(STDIN);
    let source = FileSource::open(path).map_err(in_context)?;
    Ok(Some(match io {
        Io::Read | Io::Direct => Arc::new(source),
        _ => mapped_or_read(source).map_err(in_context)?,
    }))
}

/// Refuses to read standard input twice.
pub(crate) fn check_once<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Failure> {
    let dashes = paths.into_iter().filter(|p| p.as_os_str() == "-").count();
    match dashes {
        0 | 1 => Ok(()),
        n => Err(STDIN_TWICE.broken(format!("`-` is given {n} times")).into()),
    }
}

/// Returns the tensor called `name`, or the quantized weight of this name that the model stores as several tensors.
pub(crate) fn tensor_or_weight(file: &File, name: &str) -> holdall::Result<Tensor> {
    file.tensor(name).or_else(|e| match file.dequantized()?.tensor(name) {
        Ok(tensor) => Ok(tensor),
        Err(_) => Err(e),
    })
}
