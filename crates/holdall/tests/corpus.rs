//! Every file of the corpus that is refused is refused with the code in its name, and every rule about bytes
//! has such a file.

mod corpus_files;

use corpus_files::{code_of, error_of, files};
use holdall::{
    Check, ErrorKind, File, Io, LIMITS, Limits, NameCase, OpenOptions, Remedy, Rule, Value,
};
use std::collections::{BTreeMap, BTreeSet};

/// For shared codecs' rules that no format can break.
const CODEC: &str = "of codecs without rules of their own, in which no format's files are written";

/// For rules about a delta and its base.
const APPLYING: &str = "found when a delta is applied to a base, or converted; `delta.rs` has it";

/// For rules about folders of weight updates.
const UPDATES: &str = "of folders, which are in `corpus/updates`; `updates.rs` has it";

/// Rules that no small file breaks, and why.
const EXCUSED: &[(&str, &str)] = &[
    ("delta/not-a-delta", APPLYING),
    ("delta/base", APPLYING),
    ("delta/target", APPLYING),
    ("delta/unfit", APPLYING),
    ("delta/not-in-place", APPLYING),
    ("delta/not-a-model", APPLYING),
    ("delta/version", UPDATES),
    ("delta/chain", UPDATES),
    ("delta/weight-map", UPDATES),
    ("delta/index", UPDATES),
    ("delta/encoding", UPDATES),
    ("delta/checksum-format", UPDATES),
    ("delta/checksum", UPDATES),
    ("delta/diff-length", UPDATES),
    ("delta/position", UPDATES),
    ("delta/sparse-metadata", UPDATES),
    ("delta/pair", UPDATES),
    ("delta/not-in-layout", UPDATES),
    ("delta/needs-base", UPDATES),
    ("format/not-built", "found in builds that lack a format"),
    ("package/unread", "of a file that is packed, as a warning"),
    ("infer/mixed", GIVEN),
    ("infer/no-records", GIVEN),
    ("schema/no-equivalent-type", GIVEN),
    ("input/schema-len", GIVEN),
    ("input/columns", GIVEN),
    ("input/columns-limit", GIVEN),
    ("input/columns-unsupported", GIVEN),
    ("records/array-len", GIVEN),
    ("records/arrow", GIVEN),
    ("records/no-metatensor", GIVEN),
    ("records/no-parquet", GIVEN),
    ("records/no-tables", GIVEN),
    ("records/sorted", GIVEN),
    ("records/unknown-len", GIVEN),
    ("carton/too-many-files", LIMIT),
    ("cbor/too-many-values", LIMIT),
    ("flax/too-many-values", LIMIT),
    ("gguf/header-limit", LIMIT),
    ("gguf/too-many-values", LIMIT),
    ("hdf5/too-many-values", LIMIT),
    ("index/too-many-components", LIMIT),
    ("index/too-many-names", "a file with as many names is not small"),
    ("index/too-many-tensors", LIMIT),
    ("layout/dense-limit", LIMIT),
    ("metatensor/header-limit", LIMIT),
    ("metatensor/too-many-values", LIMIT),
    ("pickle/too-many-values", LIMIT),
    ("safetensors/header-limit", LIMIT),
    ("tflite/too-much", LIMIT),
    ("toml/too-many-values", LIMIT),
    ("zip/directory-len", LIMIT),
    ("zip/entry-len", LIMIT),
    ("zip/too-many-entries", LIMIT),
    ("zstd/decoded-len", LIMIT),
    ("ztensor/manifest-len", LIMIT),
    ("ztensor2/manifest-len", LIMIT),
    ("convert/cannot-hold", WRITING),
    ("convert/scaled-weight", WRITING),
    ("internal/ledger", WRITING),
    ("edit/unrepresented", WRITING),
    ("metatensor/attribute", WRITING),
    ("metatensor/components", WRITING),
    ("metatensor/encoding", WRITING),
    ("metatensor/kind", WRITING),
    ("metatensor/layout", WRITING),
    ("metatensor/logical-type", WRITING),
    ("metatensor/schema-fit", WRITING),
    ("gguf/layout", WRITING),
    ("gguf/element-type", WRITING),
    ("gguf/fit", WRITING),
    ("gguf/encoding", WRITING),
    ("onnx-file/form", WRITING),
    ("onnx-file/fit", WRITING),
    ("onnx-file/type", WRITING),
    ("onnx-file/graph-len", "a limit; `onnx_graph.rs` has it"),
    ("onnx-file/too-large", WRITING),
    ("onnx-file/beside", WRITING),
    ("onnx-file/encoding", WRITING),
    ("onnx-file/numbers", "a limit; `onnx_weights.rs` has it"),
    ("onnx-file/text", "a limit; `onnx_weights.rs` has it"),
    ("hdf5/form", WRITING),
    ("hdf5/element-type", WRITING),
    ("hdf5/fit", WRITING),
    ("hdf5/encoding", WRITING),
    ("npy/no-such-type", WRITING),
    ("npz/layout", WRITING),
    ("npz/element-type", WRITING),
    ("npz/fit", WRITING),
    ("npz/encoding", WRITING),
    ("layout/not-finite", "of numbers that are to be quantized; `core/tests/gguf.rs` has it"),
    ("strided/strides", "no format states invalid strides; opening finds them outside before"),
    ("tar/header", ARCHIVES),
    ("tar/bounds", ARCHIVES),
    ("tar/name", ARCHIVES),
    ("tar/duplicate-name", ARCHIVES),
    ("tar/sparse", ARCHIVES),
    ("tar/too-many-files", ARCHIVES),
    ("pytorch/checkpoint", RANKS),
    ("pytorch/item", RANKS),
    ("pytorch/chunks", RANKS),
    ("pytorch/transformed", RANKS),
    ("sstable/too-long", "a limit; `tensorflow.rs` has it"),
    ("tensorflow/link", "of files beside an index; `tensorflow.rs` has it"),
    ("shards/index", SEVERAL),
    ("shards/outside", SEVERAL),
    ("shards/tensor", SEVERAL),
    ("shards/split", SEVERAL),
    ("shards/variants", SEVERAL),
    ("pickle/packed", SCANNED),
    ("pickle/too-long", SCANNED),
    ("pytorch/layout", WRITING),
    ("pytorch/element-type", WRITING),
    ("pytorch/encoding", WRITING),
    ("safetensors/alias", WRITING),
    ("safetensors/components", WRITING),
    ("safetensors/encoding", WRITING),
    ("safetensors/layout", WRITING),
    ("safetensors/logical-type", WRITING),
    ("safetensors/reserved-name", WRITING),
    ("ztensor/file-attributes", WRITING),
    ("ztensor/layout", WRITING),
    ("ztensor/logical-type", WRITING),
    ("ztensor/one-dtype", WRITING),
    ("ztensor/reserved-field", WRITING),
    ("ztensor/tensor-attributes", WRITING),
    ("ztensor/wide-indices", WRITING),
    ("ztensor2/attribute", WRITING),
    ("ztensor2/logical-type", WRITING),
    ("ztensor2/other-layout", WRITING),
    ("ztensor2/tensor-name", WRITING),
    ("json/lossless", RESTORED),
    ("net/certificate", FETCHED),
    ("net/frame", FETCHED),
    ("net/not-built", FETCHED),
    ("net/proof", FETCHED),
    ("net/version", FETCHED),
    ("http/encoding", FETCHED),
    ("http/not-built", FETCHED),
    ("http/ranges", FETCHED),
    ("http/redirect-target", FETCHED),
    ("http/too-long", FETCHED),
    ("write/address", WRITING),
    ("edit/several-files", SEVERAL),
    ("quantized-weight/missing", WEIGHTS),
    ("quantized-weight/orphan", WEIGHTS),
    ("quantized-weight/shape", WEIGHTS),
    ("quantized-weight/type", WEIGHTS),
    ("quantized-weight/content", WEIGHTS),
    ("quantized-weight/parameter", WEIGHTS),
    ("quantized-weight/companion", WEIGHTS),
    ("quantized-weight/kind", WEIGHTS),
    ("quantized-weight/name", WEIGHTS),
    ("quantized-weight/text", WEIGHTS),
    ("stores/not-built", STORED),
    ("stores/read-only", STORED),
    ("stores/many", STORED),
    ("codec/broken", CODEC),
    ("codec/length", CODEC),
    ("codec/not-built", "of builds without the features `zstd` and `deflate`"),
    ("schema/not-built", "of builds without the feature `validate`"),
    ("links/digest", FETCHED),
    ("links/declared-len", FETCHED),
    ("links/not-an-address", FETCHED),
    ("links/encoded", FETCHED),
    ("links/too-long", FETCHED),
    ("package/not-here", "a package may leave files to whoever fetches them"),
    ("carton/strings", "found when texts are asked for as values; `carton_rules.rs` has it"),
    ("toml/len", "a text in a zip is refused before: `zip/entry-len`; `carton_rules.rs` has it"),
    (
        "file/unknown-layout",
        "a tensor of a layout that is not known is kept whole; the file is sound",
    ),
    ("index/cut-short", SALVAGED),
    ("salvage/nothing-sound", SALVAGED),
    ("records/line", "of lines of JSON that a dataset is built from; `build.rs` has it"),
    ("record/too-large", "a limit that verification tells of as what could not be verified"),
    ("layout/element-size", "found when elements are asked for one by one, not by reading a file"),
    ("layout/unknown-type", "found when elements are asked for as numbers"),
    ("carton/description-html", STRICT),
    ("carton/description-link", STRICT),
    ("carton/example", STRICT),
    ("carton/no-model", STRICT),
    ("carton/no-outputs", STRICT),
    ("carton/nothing-declared", STRICT),
    ("carton/platform", STRICT),
    ("carton/self-test", STRICT),
    ("verify/odd", "a warning, where the caller wants it to count; `verify.rs` has it"),
    ("safetensors/too-short", "a file below 8 bytes is of no format: `format/unknown`"),
    ("sparse/index-dtype", "zTensor refuses such indices on opening: `ztensor/index-dtype`"),
    ("window/outside", "every decoder checks bounds before it asks for bytes"),
];

/// Areas of rules about bytes that are not in files of the corpus: models that are read on their own, values
/// passed to a model, descriptions of layouts, recipes, and tokenizers.
const ELSEWHERE: [&str; 5] = ["layouts/", "onnx/", "recipe/", "signature/", "tokenizer/"];
/// A file over the limit would not be small: [`limits_are_kept`] lowers the limit instead.
const LIMIT: &str = "a limit";
/// Models in several files are tested in `shards.rs`.
const SEVERAL: &str = "of models in several files; `shards.rs` has it";
/// Quantized weights, which are found when they are asked for, are tested in `holdall-models`.
const WEIGHTS: &str = "of weights that are several tensors; `holdall-models` has it";
const WRITING: &str = "found in writing";
/// Bytes sent by a server are tested with one.
const FETCHED: &str = "found in fetching";
const STORED: &str = "of object stores; `stores.rs` has it";
/// A warning that strict verification counts; tested in `carton_strict.rs`.
const STRICT: &str = "found in verifying strictly";
const ARCHIVES: &str = "of an archive, which is no file of tensors; `archives.rs` has it";
const RANKS: &str = "of a folder of files; `checkpoint.rs` has it";
/// Missing parts of a damaged file have another error if it is not salvaged; tested in `salvage.rs`.
const SALVAGED: &str = "found in salvaging";
/// Pickles are also scanned in places where they are not read; tested in `scan.rs`.
const SCANNED: &str = "found in scanning";
/// Records and schemas given by users are not in our files; tested where they are read.
const GIVEN: &str = "found in the arguments";
/// JSON that Holdall stores in safetensors metadata; anything else stays text.
const RESTORED: &str = "a warning, not an error";

#[test]
fn corpus_files_are_refused_with_the_code_they_are_named_after() {
    let mut wrong = Vec::new();
    for path in files("reject") {
        for io in [Io::Map, Io::Read, Io::Direct] {
            let found = error_of(&path, io);
            let code = found.as_ref().map_or("nothing", |e| e.code());
            if code != code_of(&path) {
                wrong.push(format!("{} ({io:?}): {code}: {found:?}", path.display()));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} files:\n{}", wrong.len(), wrong.join("\n"));
}

/// Wrong stored bytes that verification finds are also found by every way of loading them.
#[test]
fn corpus_files_with_wrong_bytes_do_not_load() {
    let mut wrong = Vec::new();
    for path in files("reject") {
        let code = code_of(&path);
        let decodes = code.starts_with("zstd/")
            || code.starts_with("deflate/")
            || code.starts_with("chunks/");
        if !decodes && code != "file/digest" {
            continue;
        }
        for io in [Io::Map, Io::Read, Io::Direct] {
            let options = OpenOptions::new().with_io(io).with_check(Check::All);
            let file = match options.open(&path) {
                Ok(file) => file,
                // A text of a package is decoded on opening.
                Err(e) => {
                    assert_eq!(e.code(), code, "{e}");
                    break;
                }
            };
            // An error that is found on opening is the tensor's fault: it has no components to read.
            if let Some(e) = file.faults().next() {
                assert_eq!(e.code(), code, "{e}");
                break;
            }
            let one_by_one = || {
                file.tensors().try_for_each(|t| {
                    t.sound()?.components().try_for_each(|c| t.bytes(&c.role).map(drop))
                })
            };
            let in_pieces = || {
                file.tensors().try_for_each(|t| {
                    t.sound()?
                        .components()
                        .try_for_each(|c| t.pieces(&c.role)?.try_for_each(|piece| piece.map(drop)))
                })
            };
            let ways = [("at once", file.load_all().map(drop)), ("one by one", one_by_one())];
            // In pieces a component is decoded from its start, whatever its seek table says.
            let pieces = (!path.to_string_lossy().contains("seek-table")).then(in_pieces);
            for (way, found) in ways.into_iter().chain(pieces.map(|found| ("in pieces", found))) {
                let found = found.map_err(|e| e.code());
                if found != Err(&code) {
                    wrong.push(format!("{} {way} ({io:?}): {found:?}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn corpus_breaks_every_rule() {
    let rules: BTreeMap<&str, &Rule> = holdall::rules()
        .filter(|r| !ELSEWHERE.iter().any(|area| r.code.starts_with(area)))
        .map(|r| (r.code, r))
        .collect();
    let broken: BTreeSet<String> = files("reject").iter().map(|p| code_of(p)).collect();
    for code in &broken {
        assert!(rules.contains_key(code.as_str()), "{code} is in no table of rules");
    }
    let excused: BTreeMap<&str, &str> = EXCUSED.iter().copied().collect();
    for (code, rule) in &rules {
        // Rules about requests of the caller and errors of the operating system have no files.
        let of_bytes =
            !matches!(rule.kind, ErrorKind::Misuse | ErrorKind::NotFound | ErrorKind::Io);
        let has = broken.contains(*code);
        let is_excused = excused.contains_key(code);
        assert!(has || is_excused || !of_bytes, "no file in corpus/reject breaks {code}");
        assert!(!(has && is_excused), "{code} is excused, but a file breaks it");
    }
    for code in excused.keys() {
        assert!(rules.contains_key(code), "{code} is excused, but no rule");
    }
}

/// A row of `corpus/limits.json`: a file that a lower limit refuses.
struct Lowered {
    code: String,
    file: String,
    /// The lowered limit, and others that must be low as well.
    limits: Limits,
    /// The limit in the error's remedy.
    remedy: String,
    lowered: String,
}

fn lowered() -> Vec<Lowered> {
    let text = std::fs::read_to_string(corpus_files::root().join("limits.json")).unwrap();
    let Value::Array(rows) = Value::from_json(&text, 4).unwrap() else { panic!("{text}") };
    let row = |row: &Value| {
        let field = |name: &str| {
            let Value::Map(fields) = row else { panic!("{row:?}") };
            fields.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
        };
        let text = |name: &str| field(name).map(|value| value.as_text().unwrap().to_owned());
        let mut limits = Limits::default();
        let mut set = |name: &str, value: &Value| {
            let value = u64::try_from(value.as_integer().unwrap()).unwrap();
            limits.set(name, NameCase::Snake, value).unwrap();
        };
        let lowered = text("limit").unwrap();
        set(&lowered, field("value").unwrap());
        if let Some(Value::Map(also)) = field("also") {
            also.iter().for_each(|(name, value)| set(name.as_text().unwrap(), value));
        }
        Lowered {
            code: text("code").unwrap(),
            file: text("file").unwrap(),
            limits,
            remedy: text("remedy").unwrap_or_else(|| lowered.clone()),
            lowered,
        }
    };
    rows.iter().map(row).collect()
}

#[test]
fn limits_are_kept() {
    let cases = lowered();
    for case in &cases {
        let path = corpus_files::root().join("accept").join(&case.file);
        let opened = OpenOptions::new().with_limits(case.limits.clone()).open(&path);
        // Verification skips data above a limit, and only decoding in pieces needs a window.
        let read = |file: &File| {
            file.tensors().try_for_each(|t| {
                t.sound()?
                    .components()
                    .try_for_each(|c| t.pieces(&c.role)?.try_for_each(|piece| piece.map(drop)))
            })
        };
        let in_file = |file: File| corpus_files::error_in(&file).or_else(|| read(&file).err());
        let e = opened.map_or_else(Some, in_file);
        let e = e.unwrap_or_else(|| panic!("{} is not refused under {}", case.file, case.lowered));
        assert_eq!((e.code(), e.kind()), (case.code.as_str(), ErrorKind::Limit), "{e}");
        let named = e.remedies().iter().filter_map(|remedy| match remedy {
            Remedy::RaiseLimit { limit, .. } => Some(*limit),
            _ => None,
        });
        assert_eq!(named.collect::<Vec<_>>(), [case.remedy.as_str()], "{e}");
        assert_eq!(corpus_files::error_of(&path, Io::Auto).map(|e| e.code()), None, "{path:?}");
    }
    let excused = EXCUSED.iter().filter(|(_, why)| *why == LIMIT).map(|(code, _)| *code);
    for code in excused {
        assert!(cases.iter().any(|case| case.code == code), "{code} is not tested");
    }
    // Limits of fetching are tested in `links.rs`.
    let untested: Vec<&str> = LIMITS.iter().map(|limit| limit.name).collect();
    let untested = untested.into_iter().filter(|name| cases.iter().all(|c| c.lowered != *name));
    assert_eq!(untested.collect::<Vec<_>>(), ["fetched_len"]);
}

/// A rule about a limit has a remedy that names it, and all remedies name existing limits.
#[test]
fn rules_about_limits_name_them() {
    for rule in holdall::rules() {
        let raised: Vec<&str> = rule
            .remedies
            .iter()
            .filter_map(|remedy| match remedy {
                Remedy::RaiseLimit { limit, .. } => Some(*limit),
                _ => None,
            })
            .collect();
        for name in &raised {
            let limit = LIMITS.iter().find(|limit| limit.name == *name);
            assert!(limit.is_some(), "{}: there is no limit `{name}`", rule.code);
        }
        let says = |name: &str| rule.sentence.contains(&format!("`Limits::{name}`"));
        if rule.kind == ErrorKind::Limit && rule.sentence.contains("`Limits::") {
            assert!(raised.iter().any(|name| says(name)), "{}: {raised:?}", rule.code);
        }
    }
}

#[test]
fn corpus_files_are_accepted() {
    for path in files("accept") {
        for io in [Io::Map, Io::Read, Io::Direct] {
            let found = error_of(&path, io);
            // A wide sparse tensor is sound even if its dense form exceeds the limit.
            let found = found.filter(|e| e.code() != "layout/dense-limit");
            assert!(found.is_none(), "{} ({io:?}): {found:?}", path.display());
        }
    }
}
