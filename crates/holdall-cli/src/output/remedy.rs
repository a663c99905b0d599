//! Remedies, as options of the command.

use holdall::error::Escape as _;
use holdall::{Error, NameCase, Remedy};

/// Returns the advice for an error, in terms of the command.
pub(crate) fn advice(e: &Error) -> Option<String> {
    e.advice(spelled)
}

/// Describes a remedy in terms of the command; `None` if the command has no equivalent.
pub(crate) fn spelled(remedy: &Remedy) -> Option<String> {
    let text = match remedy {
        Remedy::RaiseLimit { limit, at_least } => {
            let name = NameCase::Kebab.spell(limit);
            let most = at_least.map_or_else(|| "N".to_owned(), |n| n.to_string());
            return Some(format!(
                "if you trust the file, raise the limit: `--limit {name}={most}`"
            ));
        }
        Remedy::DidYouMean { name } => return Some(format!("did you mean `{}`?", name.escaped())),
        Remedy::WriteFormat { format, version: "" } => {
            return Some(format!("`--to {format}` keeps them"));
        }
        Remedy::WriteFormat { format, version } => {
            return Some(format!("`--to {format}@{version}` keeps them"));
        }
        Remedy::RaiseTimeout => "allow more with `--timeout SECONDS`",
        Remedy::AllowHttp => "use https, or allow http with `--allow http`",
        Remedy::AllowPrivateHosts => "if you intend to use this host, add `--allow private-hosts`",
        Remedy::ListNames => "`holdall inspect` lists the names",
        Remedy::ListAttributes => {
            "`holdall inspect` lists the attributes of a file, with `-t NAME` those of a tensor"
        }
        Remedy::ListFormats => "`holdall formats` lists the formats that this build reads",
        Remedy::Overwrite => "add `--force` to replace it",
        Remedy::NameFormat => {
            let all: Vec<&str> = holdall::formats::writable().map(|format| format.id).collect();
            return Some(format!("name the format with `--to`: one of {}", all.join(", ")));
        }
        Remedy::StoreRaw => "store it as it is: `--encoding raw --digest none`",
        Remedy::DefaultEncoding => "omit `--encoding`, or write zTensor, which supports it",
        Remedy::DefaultDigest => "omit `--digest`, or write zTensor, which supports it",
        Remedy::MakeDense => {
            "`--dense` writes sparse, quantized and described tensors as dense ones"
        }
        Remedy::SkipUnknown => "`--skip-unknown` omits it",
        Remedy::Salvage => "`holdall salvage` copies the undamaged tensors",
        Remedy::LeaveOut => "`--exclude` omits tensors",
        Remedy::DropLogicalTypes => {
            "`--raw-types` writes the storage elements without logical types"
        }
        Remedy::DropAttributes => "`--drop-attributes` omits attributes that cannot be stored",
        Remedy::RenameTensor => "`--rename` renames the tensor",
        Remedy::CopyShared => "`--share copy` stores the bytes of every tensor separately",
        Remedy::InferSchema => {
            "remove the attribute with `holdall edit FILE unset metatensor.schema`, or add \
             `--infer-schema` to `holdall convert`: the schema is then derived from the tensors"
        }
        Remedy::FetchLinks => "`holdall fetch` downloads the files that a package links to",
        Remedy::FetchWhole => "`holdall fetch -o` writes a complete package",
        Remedy::FollowLinks => "`--follow-links` packs the targets of such links",
        Remedy::SetCache => "set `HOLDALL_CACHE` to a folder",
        Remedy::NameRunner => {
            "if the folder has a model's files, name the runner: `--runner NAME \
             --framework-version VERSION`, for running or for `holdall pack`"
        }
        Remedy::BuildDataset => "if it has records, `holdall build` makes a dataset of them",
        Remedy::OpenInside => "open a file in it as `ARCHIVE!/PATH`, or unpack it",
        Remedy::OpenIndex => {
            "rename the index so that it ends in `.index.json`, in the folder of its files"
        }
        Remedy::NameFiles => {
            "name the files instead of their index: `holdall convert FILE OUT --also FILE…`, `holdall inspect --together FILE…`"
        }
        Remedy::PackFile => {
            "`holdall inspect` shows its contents, `holdall pack` makes a package of it"
        }
        Remedy::NamePython => "name an interpreter with `--python` or the variable HOLDALL_PYTHON",
        Remedy::UseStreams => {
            "for a pipe or a device, use `-` and redirect: `holdall … - < PIPE`, `holdall … - > PIPE`"
        }
        Remedy::NullIsAbsent => "`--null-absent` treats `null` for an optional member as absent",
        Remedy::ReadArray => "for records in one array, use `--form json`",
        Remedy::NameGraph => "name the ONNX model to write the weights into, with `--graph MODEL`",
        Remedy::DescribeLayout => "describe the layout in a file, and add `--layouts FILE`",
        Remedy::NamePreTokenizer => "name it with `--pre-tokenizer NAME`",
        // Available only to programs.
        Remedy::CopyElements | Remedy::ReadPairs | Remedy::DeclareTensors | Remedy::GiveSchema => {
            return None;
        }
        other => return Some(other.to_string()),
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every remedy has a wording of the command, except those that the command cannot offer.
    #[test]
    fn every_remedy_is_spelled() {
        let of_programs = ["copy_elements", "read_pairs", "declare_tensors", "give_schema"];
        for remedy in Remedy::examples() {
            let name = remedy.name();
            match spelled(&remedy) {
                None => assert!(of_programs.contains(&name), "{name}"),
                Some(text) => {
                    // A suggested name has the same wording everywhere.
                    let same = text == remedy.to_string();
                    assert!(!same || name == "did_you_mean", "{name} is spelled as in Rust");
                    assert!(!of_programs.contains(&name) && !text.contains("with_"), "{text}");
                }
            }
        }
    }
}
