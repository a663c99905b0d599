//! Remedies as arguments of the Python package.

use holdall::Remedy;
use holdall::error::{Detail, Escape as _};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Returns the text of a remedy for Python; `None` if Python has no such option.
pub(crate) fn spelled(remedy: &Remedy) -> Option<String> {
    let text = match remedy {
        Remedy::RaiseLimit { limit, at_least } => {
            let most = at_least.map_or_else(|| "N".to_owned(), |n| n.to_string());
            return Some(format!(
                "if you trust the file, raise the limit: limits={{\"{limit}\": {most}}}"
            ));
        }
        Remedy::DidYouMean { name } => return Some(format!("did you mean `{}`?", name.escaped())),
        Remedy::WriteFormat { format, version: "" } => {
            return Some(format!("format=\"{format}\" keeps them"));
        }
        Remedy::WriteFormat { format, version } => {
            return Some(format!("format=\"{format}\", version=\"{version}\" keeps them"));
        }
        Remedy::RaiseTimeout => "allow more with timeout=SECONDS",
        Remedy::AllowHttp => "use https, or allow http with allow=[\"http\"]",
        Remedy::AllowPrivateHosts => "if you mean this host, pass allow=[\"private-hosts\"]",
        Remedy::ListNames => "list(file) gives the names",
        Remedy::ListAttributes => "`attributes` of the file and of its tensors list the names",
        Remedy::ListFormats => "holdall.formats() lists the formats that this build reads",
        Remedy::Overwrite => "pass overwrite=True to replace it",
        Remedy::NameFormat => {
            let all = holdall::formats::writable().map(|format| format!("\"{}\"", format.id));
            let all: Vec<String> = all.collect();
            return Some(format!("name the format: format={}", all.join(", ")));
        }
        Remedy::StoreRaw => "store it as it is: encoding=\"raw\", digest=\"none\"",
        Remedy::DefaultEncoding => "omit encoding, or write zTensor, which supports it",
        Remedy::DefaultDigest => "omit digest, or write zTensor, which supports it",
        Remedy::MakeDense => {
            "dense=True writes sparse, quantized and described tensors as dense ones"
        }
        Remedy::SkipUnknown => "limits={\"skip_unknown\": True} leaves it out",
        Remedy::Salvage => "holdall.salvage recovers the intact tensors",
        Remedy::LeaveOut => "exclude leaves tensors out",
        Remedy::DropLogicalTypes => {
            "raw_types=True writes the storage elements without logical types"
        }
        Remedy::DropAttributes => "drop_attributes=True leaves out attributes that cannot be kept",
        Remedy::RenameTensor => "rename gives the tensor another name",
        Remedy::CopyShared => "sharing=\"copy\" writes separate bytes for every tensor",
        Remedy::InferSchema => {
            "without the attribute metatensor.schema a schema is made from the tensors"
        }
        Remedy::FetchLinks => {
            "holdall.carton.fetch downloads linked files; so does a package that is not opened with offline=True"
        }
        Remedy::FetchWhole => {
            "holdall.carton.fetch with out= writes a package that contains all linked files"
        }
        Remedy::FollowLinks => "follow_links=True packs the files that such links point to",
        Remedy::SetCache => "set the variable HOLDALL_CACHE to a folder",
        Remedy::NameRunner => {
            "pass runner= and framework_version= to holdall.carton.open, load or pack"
        }
        Remedy::BuildDataset => "if it has records, holdall.build creates a dataset from them",
        Remedy::OpenInside => {
            "open a file in the archive as `ARCHIVE!/PATH`, or unpack the archive"
        }
        Remedy::OpenIndex => {
            "open an index of several files by a name that ends in `.index.json`, in the folder of the files"
        }
        Remedy::NameFiles => "pass holdall.open a list of the files, without their index",
        Remedy::PackFile => {
            "use holdall.open to read the file, or holdall.carton.pack to create a package from it"
        }
        Remedy::NamePython => "name an interpreter with python= or the variable HOLDALL_PYTHON",
        Remedy::UseStreams => {
            "read it in your program, and pass the bytes or an object with read or write"
        }
        Remedy::NameGraph => "pass graph=, the ONNX model to write the weights into",
        Remedy::DescribeLayout => "open it with layouts=, a file that describes the layout",
        Remedy::NamePreTokenizer => "name it with pre_tokenizer=",
        Remedy::DeclareTensors => "call declare() with a TensorSpec of each tensor first",
        Remedy::ReadArray => "give the records one by one",
        Remedy::NullIsAbsent => {
            "with null_absent=True, None means that an optional member is absent"
        }
        // Only possible with the command and in Rust.
        Remedy::CopyElements | Remedy::ReadPairs | Remedy::GiveSchema => return None,
        other => return Some(other.to_string()),
    };
    Some(text.to_owned())
}

/// Returns remedies as a list of dicts with their parameters.
pub(crate) fn listed<'py>(py: Python<'py>, all: &[Remedy]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for remedy in all {
        let dict = PyDict::new(py);
        dict.set_item("do", remedy.name())?;
        for (key, detail) in remedy.details() {
            match detail {
                Detail::Text(text) => dict.set_item(key, text)?,
                Detail::Number(n) => dict.set_item(key, n)?,
            }
        }
        list.append(dict)?;
    }
    Ok(list)
}

/// Returns each limit that a remedy may name: its name, the remedy's text without a value, and
/// with one. They are the limits of the table, and those in remedies of rules. For the test that
/// `limits=` accepts the suggestions.
#[pyfunction]
pub(crate) fn limit_remedies() -> Vec<(&'static str, Option<String>, Option<String>)> {
    let of_rules = holdall::rules().flat_map(|rule| rule.remedies);
    let named = of_rules.filter_map(|remedy| match remedy {
        Remedy::RaiseLimit { limit, .. } => Some(*limit),
        _ => None,
    });
    let mut names: Vec<&str> =
        holdall::LIMITS.iter().map(|limit| limit.name).chain(named).collect();
    names.sort_unstable();
    names.dedup();
    let words = |limit, at_least| spelled(&Remedy::RaiseLimit { limit, at_least });
    names.into_iter().map(|name| (name, words(name, None), words(name, Some(20)))).collect()
}

/// Returns one remedy of each kind: its name, its text in Python, and in Rust. For the test that
/// the table is complete.
#[pyfunction]
pub(crate) fn remedies() -> Vec<(&'static str, Option<String>, String)> {
    Remedy::examples().iter().map(|r| (r.name(), spelled(r), r.to_string())).collect()
}
