//! Every file of the corpus that is refused is refused with the code it is named after, and every rule
//! that bytes can break has such a file.

mod corpus_files;

use corpus_files::{code_of, error_of, files};
use holdall::{Check, ErrorKind, Io, Limits, OpenOptions, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// Rules that no small file breaks, and why.
const EXCUSED: &[(&str, &str)] = &[
    ("format/not-built", "found in builds that lack a format"),
    ("infer/mixed", GIVEN),
    ("infer/no-records", GIVEN),
    ("schema/no-mirror", GIVEN),
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
    ("edit/unkept", WRITING),
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
    (
        "strided/strides",
        "no format states strides that are none; opening finds them outside before",
    ),
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
    ("stores/not-built", STORED),
    ("stores/read-only", STORED),
    ("stores/many", STORED),
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

/// Areas of rules about bytes that are not in files of the corpus: those of models that are read on their own, of the values that a model is called with, and of descriptions of layouts.
const ELSEWHERE: [&str; 3] = ["layouts/", "onnx/", "signature/"];
/// A file that is over it is not a small one: [`limits_are_kept`] lowers the limit instead.
const LIMIT: &str = "a limit";
/// What a format cannot hold is found before a byte is written; tests of the encoders have it.
const SEVERAL: &str = "of models in several files; `shards.rs` has it";
const WRITING: &str = "found in writing";
/// What a server sends is in no file; tests with one have it.
const FETCHED: &str = "found in fetching";
const STORED: &str = "of object stores; `stores.rs` has it";
/// A warning, where the caller wants it to count; `carton_strict.rs` has it.
const STRICT: &str = "found in verifying strictly";
const ARCHIVES: &str = "of an archive, which is no file of tensors; `archives.rs` has it";
const RANKS: &str = "of a folder of files; `checkpoint.rs` has it";
/// What is missing from a damaged file is another error when it is not salvaged; `salvage.rs` has it.
const SALVAGED: &str = "found in salvaging";
/// Pickles are looked for where they are not read; `scan.rs` has it.
const SCANNED: &str = "found in scanning";
/// Records and schemas that users bring are in no file of ours; tests of reading those have it.
const GIVEN: &str = "found in what is given";
/// JSON that Holdall keeps in safetensors metadata; what is not as it writes it stays text.
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

/// What verification finds wrong with stored bytes, loading them finds too, in every way.
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
                // A text of a package is decoded on opening it.
                Err(e) => {
                    assert_eq!(e.code(), code, "{e}");
                    break;
                }
            };
            // What can be told of a tensor on opening it is its fault: it has no components to read.
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
        // What a caller asks for, and what the operating system does, is not in a file.
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

#[test]
fn limits_are_kept() {
    type Lower = fn(&mut Limits);
    let cases: [(&str, &str, Lower); 20] = [
        ("carton/too-many-files", "carton/made-links.carton", |l| l.files = 5),
        ("cbor/too-many-values", "ztensor/v1.2-quantized.zt", |l| l.attribute_values = 3),
        ("flax/too-many-values", "flax/flax_state.msgpack", |l| l.attribute_values = 3),
        ("gguf/header-limit", "gguf/gguf_quant_legacy.gguf", |l| l.header_len = 100),
        ("gguf/too-many-values", "gguf/gguf-py_blocks.gguf", |l| l.attribute_values = 5),
        ("hdf5/too-many-values", "hdf5/h5py_attrs-v110.h5", |l| l.attribute_values = 5),
        ("index/too-many-tensors", "ztensor/v1.2-dense_all.zt", |l| l.tensors = 5),
        ("layout/dense-limit", "ztensor/v1.2-sparse.zt", |l| l.decoded_len = 40),
        ("metatensor/header-limit", "metatensor/made-flat.mt", |l| l.header_len = 100),
        ("metatensor/too-many-values", "metatensor/made-metadata.mt", |l| l.attribute_values = 5),
        ("pickle/too-many-values", "pytorch/torch_state.pt", |l| l.attribute_values = 20),
        ("safetensors/header-limit", "safetensors/st_fp8.safetensors", |l| l.header_len = 100),
        ("tflite/too-much", "tflite/made-everything.tflite", |l| l.header_len = 100),
        ("toml/too-many-values", "carton/made-minimal.carton", |l| l.attribute_values = 3),
        ("zip/directory-len", "carton/made-minimal.carton", |l| l.header_len = 50),
        ("zip/entry-len", "carton/made-minimal.carton", |l| l.text_len = 50),
        ("zip/too-many-entries", "carton/made-minimal.carton", |l| l.files = 1),
        ("zstd/decoded-len", "ztensor/v1.1-zstd.zt", |l| l.decoded_len = 40),
        ("ztensor/manifest-len", "ztensor/v1.2-dense_all.zt", |l| l.manifest_len = 1000),
        ("ztensor2/manifest-len", "ztensor2/ztensor-2.1.2_dense.zt", |l| l.manifest_len = 1000),
    ];
    for (code, name, lower) in cases {
        let mut limits = Limits::default();
        lower(&mut limits);
        let path = corpus_files::root().join("accept").join(name);
        let opened = OpenOptions::new().with_limits(limits).open(&path);
        let e = opened.map_or_else(Some, |file| corpus_files::error_in(&file));
        assert_eq!(e.as_ref().map(|e| e.code()), Some(code), "{e:?}");
        assert_eq!(corpus_files::error_of(&path, Io::Auto).map(|e| e.code()), None, "{name}");
    }
    let limits = EXCUSED.iter().filter(|(_, why)| *why == LIMIT).map(|(code, _)| *code);
    assert!(limits.eq(cases.iter().map(|(code, ..)| *code)), "a limit is not tested");
}

#[test]
fn corpus_files_are_accepted() {
    for path in files("accept") {
        for io in [Io::Map, Io::Read, Io::Direct] {
            let found = error_of(&path, io);
            // A wide sparse tensor is as sound as any, though there is no room for all its zeros.
            let found = found.filter(|e| e.code() != "layout/dense-limit");
            assert!(found.is_none(), "{} ({io:?}): {found:?}", path.display());
        }
    }
}
