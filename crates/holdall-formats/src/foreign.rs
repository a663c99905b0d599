//! Files that are in no format of this build: describes what they are, as far as their first bytes show, and what to
//! do.

#[cfg(feature = "onnx")]
mod rare;

use super::{NOT_BUILT, UNKNOWN, is_built};
use holdall_core::error::{Error, Escape as _, Remedy};
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::tar;
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
use holdall_core::wire::zip::Directory;

/// The number of bytes read from the start of a file: they include the mark of a tar archive, and most texts or pages
/// can be identified by them.
const HEAD: u64 = 1024;
/// The maximum number of headers read from a tar archive, because each may have to be fetched.
const MAX_HEADERS: u64 = 1024;
/// The maximum number of file names that an error lists.
const MAX_NAMES: usize = 16;
/// The maximum number of characters of the file that an error quotes.
const TOLD: usize = 60;

/// Returns the error for the file in `window`, which no format of this build claims.
///
/// # Errors
/// Returns [`Stop::Need`] if bytes are missing.
pub(super) fn unknown(window: &Window) -> Result<Error, Stop> {
    let head = window.head(HEAD)?;
    if head.starts_with(b"PK\x03\x04") {
        return zip(window);
    }
    if tar::is_tar(&head) {
        let mut limits = Limits::default();
        limits.files = MAX_HEADERS;
        return match tar::read(window, &limits) {
            Ok(members) => {
                let names = members.iter().map(|member| member.name.as_str());
                Ok(holding("a tar archive", names)
                    .unwrap_or_else(|| refusal("a tar archive", FILED)))
            }
            Err(Stop::Fail(e)) if e.code() == tar::TOO_MANY.code => {
                Ok(refusal("a tar archive", FILED))
            }
            Err(Stop::Fail(e)) => Ok(e),
            Err(need) => Err(need),
        };
    }
    #[cfg(feature = "pytorch")]
    if is_joblib(&head) {
        return Ok(refusal(
            "a joblib pickle, with the bytes of arrays between its opcodes",
            PICKLE,
        ));
    }
    if let Some(kind) = KINDS.iter().find(|kind| kind.starts(&head)) {
        return Ok(refusal(kind.name, kind.way));
    }
    if let Some(e) = text(&head, window.len()) {
        return Ok(e);
    }
    #[cfg(feature = "onnx")]
    if let Some((name, way)) = rare::find(&head) {
        return Ok(refusal(name, way));
    }
    if !head.is_empty() && head.iter().all(|byte| *byte == 0) {
        return Ok(refusal("a run of zero bytes", ZEROS));
    }
    let start = head.get(..head.len().min(8)).unwrap_or(&head);
    Ok(UNKNOWN.broken(format!("no format starts with `{}`", start.escape_ascii())))
}

/// Returns the error for a file in a format that Holdall has but this build lacks; `None` for other files.
///
/// # Errors
/// Returns [`Stop::Need`] if bytes are missing.
pub(super) fn not_built(window: &Window) -> Result<Option<Error>, Stop> {
    if OWN.iter().all(|own| is_built(own.family)) {
        return Ok(None);
    }
    let head = window.head(HEAD)?;
    let own = OWN.iter().find(|own| (own.is)(&head)).filter(|own| !is_built(own.family));
    let Some(own) = own else {
        return Ok(None);
    };
    let e =
        NOT_BUILT.broken(format!("this is a {} file, and this build lacks that format", own.name));
    Ok(Some(e.with_hint(format!("use a build with the feature `{}`", own.family))))
}

/// Returns an [`UNKNOWN`] error that names the kind of the file, and what to do.
fn refusal(name: &str, way: Help) -> Error {
    let e = UNKNOWN.broken(format!("this is {name}, not a file of tensors"));
    match way {
        Help::Hint(hint) => e.with_hint(hint),
        Help::Remedy(remedy) => e.with_remedy(remedy.clone()),
    }
}

/// The advice for a file of a foreign kind.
#[derive(Clone, Copy)]
enum Help {
    Hint(&'static str),
    Remedy(&'static Remedy),
}

const REFUSED: Help = Help::Hint(
    "the server sent an error or a web page instead of the file: read it, and download the file itself",
);
const POINTER: Help = Help::Hint("run `git lfs pull` in the repository to get the file itself");
const PACKED: Help = Help::Hint("decompress it, and open the result");
const FILED: Help = Help::Hint("unpack it, and open the files in it");
const INSIDE: Help = Help::Remedy(&Remedy::OpenInside);
const BUILD: Help = Help::Remedy(&Remedy::BuildDataset);
const INDEX: Help = Help::Remedy(&Remedy::OpenIndex);
const PICKLE: Help = Help::Hint(
    "loading a pickle runs the code in it: if you trust the file, load it in Python and save its arrays in a tensor format",
);
const TABLE: Help = Help::Hint(
    "read the table with a program that supports it, and save its columns or records in another format",
);
const MATLAB: Help = Help::Hint(
    "save it in MATLAB with `-v7.3`, which is HDF5, or its arrays from Python: `scipy.io.loadmat`, then `numpy.savez`",
);
const UTF_8: Help = Help::Hint("save it as UTF-8: other text encodings are not read");
const ONNX_TEXT: Help =
    Help::Hint("save it as binary: `onnx.save(onnx.load(path), \"model.onnx\")` in Python");
const OTHER: Help = Help::Hint("it is for other programs");
const ZEROS: Help = Help::Hint(
    "space was reserved for the file, but its bytes were never written, or were lost: get it again",
);
const CONFIG: Help =
    Help::Hint("these are the settings of a model: open the file with its weights, or the folder");

/// A kind of file that is identified by bytes at a fixed offset.
struct Kind {
    name: &'static str,
    at: usize,
    mark: &'static [u8],
    way: Help,
}

impl Kind {
    const fn new(name: &'static str, at: usize, mark: &'static [u8], way: Help) -> Kind {
        Kind { name, at, mark, way }
    }

    fn starts(&self, head: &[u8]) -> bool {
        head.get(self.at..).is_some_and(|rest| rest.starts_with(self.mark))
    }
}

static KINDS: &[Kind] = &[
    Kind::new("a file compressed with gzip", 0, b"\x1f\x8b", PACKED),
    Kind::new("a file compressed with zstd", 0, b"\x28\xb5\x2f\xfd", PACKED),
    Kind::new("a file compressed with xz", 0, b"\xfd7zXZ\0", PACKED),
    Kind::new("a file compressed with bzip2", 0, b"BZh", PACKED),
    Kind::new("a file compressed with LZ4", 0, b"\x04\x22\x4d\x18", PACKED),
    Kind::new("a 7z archive", 0, b"7z\xbc\xaf\x27\x1c", FILED),
    Kind::new("a RAR archive", 0, b"Rar!\x1a\x07", FILED),
    Kind::new("a tar archive", 257, b"ustar", FILED),
    Kind::new("a pickle", 0, b"\x80\x02", PICKLE),
    Kind::new("a pickle", 0, b"\x80\x03", PICKLE),
    Kind::new("a pickle", 0, b"\x80\x04", PICKLE),
    Kind::new("a pickle", 0, b"\x80\x05", PICKLE),
    Kind::new("a Parquet file", 0, b"PAR1", BUILD),
    Kind::new("an Arrow IPC file", 0, b"ARROW1", BUILD),
    Kind::new("an SQLite database", 0, b"SQLite format 3\0", TABLE),
    Kind::new("a PNG picture", 0, b"\x89PNG\r\n\x1a\n", OTHER),
    Kind::new("a JPEG picture", 0, b"\xff\xd8\xff", OTHER),
    Kind::new("a PDF document", 0, b"%PDF-", OTHER),
    Kind::new("text in UTF-16", 0, b"\xff\xfe", UTF_8),
    Kind::new("text in UTF-16", 0, b"\xfe\xff", UTF_8),
    Kind::new("a program", 0, b"\x7fELF", OTHER),
    Kind::new("a MATLAB file", 0, b"MATLAB 5.0 MAT-file", MATLAB),
];

/// Returns `true` for a joblib pickle with arrays. The bytes of each array follow its object directly, where a pickle
/// would have opcodes.
#[cfg(feature = "pytorch")]
pub(super) fn is_joblib(head: &[u8]) -> bool {
    head.starts_with(b"\x80") && memchr::memmem::find(head, b"joblib.numpy_pickle").is_some()
}

/// Returns the error for a text file, according to its beginning; `None` if the bytes are not text. `len` is the length
/// of the file.
fn text(head: &[u8], len: u64) -> Option<Error> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    // The last character may be incomplete.
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() => {
            std::str::from_utf8(head.get(..e.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\x0c');
    if text.is_empty() || !text.chars().all(is_text) {
        return None;
    }
    let begin = text.trim_start();
    let lower = begin.to_ascii_lowercase();
    if let Some(rest) = begin.strip_prefix("version https://git-lfs.github.com/spec/") {
        let size =
            rest.lines().find_map(|line| line.strip_prefix("size ")?.trim().parse::<u64>().ok());
        let size_text = size.map_or(String::new(), |size| format!(" for a file of {size} bytes"));
        return Some(refusal(&format!("a git-lfs pointer{size_text}"), POINTER));
    }
    if lower.starts_with("<!doctype html") || lower.starts_with("<html") || lower.contains("<head>")
    {
        let title = between(begin, &lower, "<title>", "</title>");
        let titled = title.map_or(String::new(), |title| format!(" titled “{}”", quoted(title)));
        return Some(refusal(&format!("an HTML page{titled}"), REFUSED));
    }
    if lower.starts_with('<') && lower.contains("ir_version:") {
        return Some(refusal("a model of ONNX as text", ONNX_TEXT));
    }
    if lower.starts_with('<') {
        let way = if lower.contains("<error>") { REFUSED } else { OTHER };
        return Some(refusal("XML", way));
    }
    if begin.starts_with('{') || begin.starts_with('[') {
        let has = |keys: &[&str]| keys.iter().any(|key| begin.contains(&format!("\"{key}\"")));
        let way = match () {
            () if has(&["weight_map"]) => INDEX,
            () if has(&["error", "errors", "message"]) && len < HEAD => REFUSED,
            () if has(&["architectures", "model_type", "_class_name", "tokenizer_class"]) => CONFIG,
            () => BUILD,
        };
        return Some(refusal("JSON", way));
    }
    let first = begin.lines().next().unwrap_or_default();
    let is_pickle = ["(dp", "(lp", "ccopy_reg\n", "c__builtin__\n"];
    if is_pickle.iter().any(|start| begin.starts_with(start)) {
        return Some(refusal("a pickle", PICKLE));
    }
    let columns = |line: &str| line.matches([',', ';', '\t']).count();
    let mut lines = begin.lines().take(2).map(columns);
    if lines.next().is_some_and(|n| n > 0 && lines.next() == Some(n)) {
        return Some(refusal("a table of text", BUILD));
    }
    // A short text is probably a server's response instead of the file.
    let way = if len < HEAD { REFUSED } else { OTHER };
    Some(refusal(&format!("text that begins “{}”", quoted(first)), way))
}

/// Returns the text between two tags. The tags are searched in `lower`, which is `text` in lower case, with the same
/// length in bytes.
fn between<'a>(text: &'a str, lower: &str, start: &str, end: &str) -> Option<&'a str> {
    let from = lower.find(start)?.checked_add(start.len())?;
    let rest = lower.get(from..)?;
    text.get(from..from.checked_add(rest.find(end)?)?)
}

/// Shortens a line of the file, and escapes its control characters.
fn quoted(text: &str) -> String {
    let text = text.trim();
    let short: String = text.chars().take(TOLD).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{}{more}", short.escaped())
}

/// Returns the [`UNKNOWN`] error for a zip.
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
fn zip(window: &Window) -> Result<Error, Stop> {
    match Directory::read(window, &Limits::default()) {
        Ok(directory) => Ok(unknown_zip(&directory)),
        Err(Stop::Fail(_)) => Ok(refusal("a zip", FILED)),
        Err(need) => Err(need),
    }
}

/// Returns the [`UNKNOWN`] error for a zip, in a build that reads no zips.
#[cfg(not(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5")))]
fn zip(_: &Window) -> Result<Error, Stop> {
    Ok(refusal("a zip", FILED))
}

/// Returns the [`UNKNOWN`] error for an archive with these names, if files in formats of this build are among them.
fn holding<'a>(kind: &str, names: impl Iterator<Item = &'a str>) -> Option<Error> {
    let is_ours = |name: &&str| {
        let end = name.rsplit_once('.').map_or("", |(_, end)| end);
        end != "bin" && super::by_name(end).is_some()
    };
    let mut names = names.filter(is_ours);
    let members: Vec<String> =
        names.by_ref().take(MAX_NAMES).map(|name| format!("`{}`", quoted(name))).collect();
    let more = match names.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!("{kind} that contains {}{more}", members.join(", "));
    (!members.is_empty()).then(|| refusal(&what, INSIDE))
}

/// Returns the [`UNKNOWN`] error for a zip with this directory.
#[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
pub fn unknown_zip(directory: &Directory) -> Error {
    let has = |name: &str| directory.get(name).is_some();
    let ends = |end: &str| directory.entries().any(|entry| entry.name().ends_with(end));
    let kind = match () {
        () if has("[Content_Types].xml") => Some("an Office document"),
        () if ends(".dist-info/METADATA") => Some("a Python wheel"),
        () if has("META-INF/manifest.xml") => Some("an OpenDocument file"),
        () if has("META-INF/MANIFEST.MF") => Some("a Java archive"),
        () => None,
    };
    let names = directory.entries().map(|entry| entry.name());
    if let Some(e) = holding(kind.unwrap_or("a zip"), names) {
        return e;
    }
    if let Some(kind) = kind {
        return refusal(kind, OTHER);
    }
    let first = directory.entries().next().map(|entry| quoted(entry.name()));
    let what = match (directory.len(), first) {
        (1, Some(first)) => format!("a zip with only `{first}`"),
        (count, Some(first)) => {
            format!("a zip of {count} entries, the first of which is `{first}`")
        }
        (_, None) => "a zip without entries".to_owned(),
    };
    let way = "it contains no file with the extension of a tensor format, and no `carton.toml`, which a package would have";
    refusal(&what, Help::Hint(way))
}

/// How to recognise a file of a format in a build that lacks this format, if its first bytes identify it reliably.
/// Other formats are unknown to builds without them.
struct Own {
    name: &'static str,
    family: &'static str,
    /// Returns `true` if a file with these first bytes is certainly of the format.
    is: fn(&[u8]) -> bool,
}

/// Formats whose first bytes can also be taken for safetensors come before it.
static OWN: &[Own] = &[
    Own { name: "zTensor", family: "ztensor", is: |head| head.starts_with(b"ZTEN") },
    Own {
        name: "zTensor 2",
        family: "ztensor2",
        is: |head| head.starts_with(b"\x89ZT2\r\n\x1a\n"),
    },
    Own {
        name: "GGUF",
        family: "gguf",
        is: |head| head.starts_with(b"GGUF") || head.starts_with(b"FUGG"),
    },
    Own {
        name: "NumPy",
        family: "numpy",
        is: |head| {
            head.starts_with(b"\x93NUMPY")
                || first_entry(head).is_some_and(|n| n.ends_with(b".npy"))
        },
    },
    Own { name: "HDF5", family: "hdf5", is: |head| head.starts_with(b"\x89HDF\r\n\x1a\n") },
    Own {
        name: "PyTorch",
        family: "pytorch",
        is: |head| {
            head.starts_with(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.")
                || first_entry(head).is_some_and(|n| n.ends_with(b"/data.pkl"))
        },
    },
    Own {
        name: "Carton",
        family: "carton",
        is: |head| {
            first_entry(head).is_some_and(|n| matches!(n, b"carton.toml" | b"MANIFEST" | b"LINKS"))
        },
    },
    Own {
        name: "Metatensor",
        family: "metatensor",
        is: |head| {
            let key = b"\"metatensor\"";
            has_header(head) && head.windows(key.len()).any(|at| at == key)
        },
    },
    Own { name: "safetensors", family: "safetensors", is: has_header },
    Own { name: "LiteRT", family: "tflite", is: |head| head.get(4..8) == Some(b"TFL3") },
    Own {
        name: "ONNX",
        family: "onnx",
        // The version, then the producer's name or another field of a model.
        is: |head| {
            matches!(head, [0x08, 1..=20, 0x12 | 0x1a | 0x22 | 0x2a | 0x32 | 0x3a | 0x42, ..])
        },
    },
];

/// Returns `true` if a file begins with a binary length and the start of a JSON header.
fn has_header(head: &[u8]) -> bool {
    let Some((len, start)) = head.split_first_chunk::<8>() else { return false };
    let next = start.get(1);
    start.first() == Some(&b'{')
        && next.is_some_and(|c| matches!(c, b'"' | b'}' | b' '))
        && u64::from_le_bytes(*len) < 1_000_000_000_000
}

/// Returns the name of the first entry of a zip.
fn first_entry(head: &[u8]) -> Option<&[u8]> {
    let len = head.strip_prefix(b"PK\x03\x04").and_then(|_| head.get(26..28))?;
    let len = u16::from_le_bytes(len.try_into().ok()?);
    head.get(30..)?.get(..usize::from(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of the corpus, and the format of each.
    macro_rules! corpus {
        ($($name:literal: $($path:literal)+;)*) => {
            [$(($name, &[$(&include_bytes!(concat!("../../../corpus/accept/", $path))[..]),+][..])),*]
        };
    }

    /// Each file of the corpus is recognised as its own format, by its first bytes alone.
    #[test]
    fn formats_missing_in_this_build_are_named() {
        let corpus = corpus! {
            "zTensor": "ztensor/v1.2-dense_all.zt" "ztensor/v1.2-sparse.zt";
            "zTensor 2": "ztensor2/ztensor-2.1.2_canonical.zt";
            "GGUF": "gguf/gguf-py_blocks.gguf";
            "NumPy": "numpy/npy_fortran_f32.npy" "numpy/npz_deflate.npz" "numpy/numpy_types.npz";
            "HDF5": "hdf5/h5py_attrs-v110.h5";
            "PyTorch": "pytorch/torch_state.pt" "pytorch/torch_state-legacy.pt";
            "Carton": "carton/made-minimal.carton" "carton/made-links.carton";
            "Metatensor": "metatensor/made-dtypes.mt" "metatensor/made-paths.mt";
            "safetensors": "safetensors/made-dtypes.safetensors" "safetensors/made-metadata.safetensors";
            "LiteRT": "tflite/made-everything.tflite";
            "ONNX": "onnx/onnx_all.onnx";
        };
        assert_eq!(corpus.len(), OWN.len());
        for (name, files) in corpus {
            for file in files {
                let head = file.get(..1024).unwrap_or(file);
                let format_name = OWN.iter().find(|own| (own.is)(head)).map(|own| own.name);
                assert_eq!(format_name, Some(name));
            }
        }
    }
}
