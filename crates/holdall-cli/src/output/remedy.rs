//! Remedies as options of the command.

use holdall::error::Shown as _;
use holdall::{Error, NameCase, Remedy};

/// What can be done about an error, in words of the command.
pub(crate) fn advice(e: &Error) -> Option<String> {
    e.advice(spelled)
}

/// A remedy in words of the command; `None` for what it has no words for.
pub(crate) fn spelled(remedy: &Remedy) -> Option<String> {
    let text = match remedy {
        Remedy::RaiseLimit { limit, at_least } => {
            let name = NameCase::Kebab.spell(limit);
            let most = at_least.map_or_else(|| "N".to_owned(), |n| n.to_string());
            return Some(format!(
                "if you trust the file, raise the limit: `--limit {name}={most}`"
            ));
        }
        Remedy::DidYouMean { name } => return Some(format!("did you mean `{}`?", name.shown())),
        Remedy::WriteFormat { format, version: "" } => {
            return Some(format!("`--to {format}` keeps them"));
        }
        Remedy::WriteFormat { format, version } => {
            return Some(format!("`--to {format}@{version}` keeps them"));
        }
        Remedy::RaiseTimeout => "allow more with `--timeout SECONDS`",
        Remedy::AllowHttp => "use https, or allow http with `--allow http`",
        Remedy::AllowPrivateHosts => "if you mean this host, add `--allow private-hosts`",
        Remedy::ListNames => "`holdall inspect` lists the names",
        Remedy::ListAttributes => {
            "`holdall inspect` lists the attributes of a file, with `-t NAME` those of a tensor"
        }
        Remedy::ListFormats => "`holdall formats` lists the formats that this build reads",
        Remedy::Overwrite => "add `--force` to replace it",
        Remedy::NameFormat => {
            let all: Vec<&str> = holdall::formats::writable().map(|format| format.id).collect();
            return Some(format!("name the format by `--to`, one of {}", all.join(", ")));
        }
        Remedy::StoreRaw => "store it as it is: `--encoding raw --digest none`",
        Remedy::DefaultEncoding => "leave `--encoding` out, or write zTensor, which has it",
        Remedy::DefaultDigest => "leave `--digest` out, or write zTensor, which has it",
        Remedy::MakeDense => {
            "`--dense` writes sparse, quantized and described tensors as dense ones"
        }
        Remedy::SkipUnknown => "`--skip-unknown` leaves it out",
        Remedy::Salvage => "`holdall salvage` takes out what is sound",
        Remedy::LeaveOut => "`--exclude` leaves tensors out",
        Remedy::DropLogicalTypes => {
            "`--raw-types` writes the storage elements without logical types"
        }
        Remedy::DropAttributes => "`--drop-attributes` leaves out what cannot be kept",
        Remedy::RenameTensor => "`--rename` gives the tensor another name",
        Remedy::CopyShared => "`--share copy` gives every tensor bytes of its own",
        Remedy::InferSchema => {
            "remove the attribute with `holdall edit FILE unset metatensor.schema`, or add \
             `--infer-schema` to `holdall convert`: then the schema is made from the tensors"
        }
        Remedy::FetchLinks => "`holdall fetch` gets what a package links to",
        Remedy::FetchWhole => "`holdall fetch -o` writes a package with everything in it",
        Remedy::FollowLinks => "`--follow-links` packs what such links lead to",
        Remedy::SetCache => "set `HOLDALL_CACHE` to a folder",
        Remedy::NameRunner => {
            "if a model's files are in the folder, say what runs them: `--runner NAME \
             --framework-version VERSION`, to run them or to `holdall pack` them"
        }
        Remedy::BuildDataset => "if it has records, `holdall build` makes a dataset of them",
        Remedy::OpenInside => {
            "open a file in it by its name behind that of the archive, with `!/` between: `ARCHIVE!/PATH`; or unpack it"
        }
        Remedy::OpenIndex => {
            "an index of several files is opened under a name that ends in `.index.json`, beside them"
        }
        Remedy::NameFiles => {
            "name the files themselves, without their index: `holdall convert FILE OUT --also FILE…`, `holdall inspect --together FILE…`"
        }
        Remedy::PackFile => {
            "`holdall inspect` shows what is in it, `holdall pack` makes a package of it"
        }
        Remedy::NamePython => "name an interpreter with `--python` or the variable HOLDALL_PYTHON",
        Remedy::UseStreams => {
            "for a pipe or a device give `-` and redirect: `holdall … - < PIPE`, `holdall … - > PIPE`"
        }
        Remedy::NullIsAbsent => {
            "`--null-absent` takes `null` for an optional member as its absence"
        }
        Remedy::ReadArray => "records in one array are read with `--form json`",
        Remedy::NameGraph => "`--graph MODEL` names the ONNX model that the weights go into",
        Remedy::DescribeLayout => "`--layouts FILE` takes a description of the layout",
        // What only a program can do.
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

    /// Every remedy has words of the command, or none because there is nothing that the command could do.
    #[test]
    fn every_remedy_is_spelled() {
        let of_programs = ["copy_elements", "read_pairs", "declare_tensors", "give_schema"];
        for remedy in Remedy::examples() {
            let name = remedy.name();
            match spelled(&remedy) {
                None => assert!(of_programs.contains(&name), "{name}"),
                Some(text) => {
                    // A name to try instead is the same for everybody.
                    let same = text == remedy.to_string();
                    assert!(!same || name == "did_you_mean", "{name} is spelled as in Rust");
                    assert!(!of_programs.contains(&name) && !text.contains("with_"), "{text}");
                }
            }
        }
    }
}
