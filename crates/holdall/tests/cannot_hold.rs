//! The refusals of conversions: every file of the corpus into every format, with the options that change what
//! is written. A refusal by the target has the converter's code, names the format, and has a remedy; the
//! target's own rule is the code of its cause.

use holdall::FloatType;
use holdall::formats::{self, Format};
use holdall::{Attributes, Convert, EncodeOptions, Error, File, Remedy, Value, WriteOptions};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns all files that can be read.
fn accepted() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept")];
    let mut out = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|e| e == "json") => {}
                false => out.push(path),
            }
        }
    }
    out.sort();
    out
}

/// Returns `true` if a rule belongs to that format alone.
fn is_of(format: &Format, code: &str) -> bool {
    format.rules.iter().any(|rule| rule.code == code)
}

/// A schema that fits no file of the corpus.
const ODD: &str = r#"{"type": "object", "properties": {"no such tensor": {"type": "number"}}}"#;

type Choice = (&'static str, fn(Convert) -> Convert);

const CHOICES: [Choice; 4] = [
    ("as it is", |options| options),
    ("dense", Convert::with_dense),
    ("dtype", |options| options.with_dtype(FloatType::F16)),
    ("schema", |options| {
        let schema = Value::Text(ODD.into());
        options.with_attributes(Attributes::from_iter([("metatensor.schema".into(), schema)]))
    }),
];

/// Returns the errors in the refusal of a conversion of `file`.
fn wrong(file: &File, format: &Format, e: &Error) -> Option<String> {
    // A schema that does not describe the tensors: another format would not help.
    if e.code() == "metatensor/schema-fit" {
        return None;
    }
    let own = formats::by_name(file.format()).is_some_and(|own| is_of(own, e.code()));
    if is_of(format, e.code()) && !own {
        return Some("the code is the target's".to_owned());
    }
    let is_fault = file.faults().any(|fault| fault.code() == e.code());
    if own && !is_fault && format.id == file.format() {
        return Some("the code is the format's".to_owned());
    }
    if e.code() != "convert/cannot-hold" {
        return None;
    }
    let cause = std::error::Error::source(e).and_then(|cause| cause.downcast_ref::<Error>());
    let Some(cause) = cause else { return Some("it has no cause".to_owned()) };
    if is_of(format, cause.code()) && !e.message().contains(format.name) {
        return Some("the format is not named".to_owned());
    }
    if cause.tensor() != e.tensor() {
        return Some("another tensor is named".to_owned());
    }
    let helps = |e: &Error| e.advice(|remedy| Some(remedy.to_string())).is_some();
    (helps(cause) && !helps(e)).then(|| "nothing says what would help".to_owned())
}

/// Converts a file into every version of every format. Returns the number of refusals, and the errors in
/// them.
fn tried(path: &Path) -> (usize, Vec<String>) {
    let Ok(file) = holdall::open(path) else { return (0, Vec::new()) };
    let name = path.file_name().unwrap().to_string_lossy();
    let (mut refused, mut wrongs) = (0, Vec::new());
    for format in formats::FORMATS.iter().filter(|format| format.encode.is_some()) {
        let versions: Vec<Option<&str>> = match format.versions {
            [] => vec![None],
            versions => versions.iter().copied().map(Some).collect(),
        };
        for (version, (choice, set)) in
            versions.iter().flat_map(|version| CHOICES.iter().map(move |choice| (version, choice)))
        {
            if *choice == "schema" && !format.has_schema {
                continue;
            }
            let mut encode = EncodeOptions::new();
            encode.version = version.map(str::to_owned);
            let write = WriteOptions::new().with_format(format).with_encode(encode);
            let options = set(Convert::new(write));
            let Err(e) = holdall::convert::convert_to(&file, Vec::new(), &options) else {
                continue;
            };
            refused += usize::from(e.code() == "convert/cannot-hold");
            if let Some(what) = wrong(&file, format, &e) {
                let to = format!("{}@{}", format.id, version.unwrap_or_default());
                wrongs.push(format!("{name} → {to} ({choice}): {what}: {} {e}", e.code()));
            }
        }
    }
    (refused, wrongs)
}

#[test]
fn refusals_of_targets_have_the_code_of_the_converter() {
    let (paths, next) = (accepted(), AtomicUsize::new(0));
    let all = Mutex::new((0, Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (refused, wrongs) = tried(path);
                    let mut all = all.lock().unwrap();
                    all.0 += refused;
                    all.1.extend(wrongs);
                }
            });
        }
    });
    let (refused, wrongs) = all.into_inner().unwrap();
    let shown: Vec<&String> = wrongs.iter().take(40).collect();
    assert!(wrongs.is_empty(), "{} are wrong: {shown:#?}", wrongs.len());
    assert!(refused > 100, "{refused}");
}

#[test]
fn records_are_refused_with_a_format_that_has_them() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/metatensor");
    let mut seen = 0;
    for entry in corpus.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let Ok(file) = holdall::open(&path) else { continue };
        let is_record = |t: &holdall::Tensor| matches!(t.layout().as_str(), "records" | "blob");
        let Some(records) = file.tensors().find(is_record) else { continue };
        if file.tensors().count() > 1 || file.faults().count() > 0 {
            continue;
        }
        for to in ["safetensors", "ztensor2"] {
            let options = |to: &str| {
                let write = WriteOptions::new().with_format(formats::by_name(to).unwrap());
                Convert::new(write).with_dense()
            };
            let e = holdall::convert::convert_to(&file, Vec::new(), &options(to)).unwrap_err();
            assert_eq!((e.code(), e.tensor()), ("convert/cannot-hold", Some(records.name())));
            // Records cannot be made dense, so that remedy would not help.
            assert!(!e.remedies().contains(&Remedy::MakeDense), "{}: {e}", path.display());
            let able = e.remedies().iter().find_map(|remedy| match remedy {
                Remedy::WriteFormat { format, .. } => Some(*format),
                _ => None,
            });
            holdall::convert::convert_to(&file, Vec::new(), &options(able.unwrap())).unwrap();
            seen += 1;
        }
    }
    assert!(seen > 1, "{seen}");
}
