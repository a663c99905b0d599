//! The length of errors and warnings about a file is limited, whatever the file declares.
#![cfg(all(
    feature = "carton",
    feature = "metatensor",
    feature = "safetensors",
    feature = "ztensor"
))]

use crate::corpus_files::{error_of, files};
use holdall::{
    DType, Error, Faults, Io, OpenOptions, TensorSpec, VerifyOptions, WriteOptions, Writer, formats,
};
use std::path::Path;

/// Maximum number of characters of a message, a hint or a warning.
const MAX: usize = 1000;

/// Compares an error's texts with the limit. When printed, a message is preceded by names and a position.
#[track_caller]
fn bounded(e: &Error) {
    let len = |text: &str| text.chars().count();
    assert!(len(e.message()) <= MAX, "{} characters: {e}", len(e.message()));
    assert!(e.hint().is_none_or(|hint| len(hint) <= MAX), "{e}");
    let named = e.source_name().map_or(0, len);
    assert!(len(&e.to_string()) <= MAX + 600 + named, "{} characters", len(&e.to_string()));
}

#[track_caller]
fn warnings_are_bounded(file: &holdall::File) {
    for warning in file.warnings() {
        assert!(warning.message.chars().count() <= MAX, "{warning}");
        assert!(warning.to_string().chars().count() <= MAX + 300);
    }
}

#[test]
fn messages_about_the_corpus_are_short() {
    for path in files("reject") {
        if let Some(e) = error_of(&path, Io::Read) {
            bounded(&e);
        }
    }
    for kind in ["accept", "reject"] {
        for path in files(kind) {
            if let Ok(file) = holdall::open(&path) {
                warnings_are_bounded(&file);
            }
        }
    }
}

/// Returns a million characters, some of which take more when they are printed.
fn long() -> String {
    "n\u{202e}me".repeat(250_000)
}

/// Returns the bytes of a file of one tensor with the name `name`.
fn file_of(format: &str, name: &str) -> Vec<u8> {
    let options = WriteOptions::new().with_format(formats::by_name(format).unwrap());
    let mut writer = Writer::stream(Vec::new(), &options).unwrap();
    let spec = TensorSpec::dense(name, DType::F32, [2]);
    writer.declare(std::slice::from_ref(&spec)).unwrap();
    writer.add(spec, &[&[0; 8]]).unwrap();
    writer.finish().unwrap()
}

fn swap(bytes: &mut [u8], from: &str, to: &str) -> bool {
    assert_eq!(from.len(), to.len());
    let found = bytes.windows(from.len()).position(|w| w == from.as_bytes());
    let Some(at) = found else { return false };
    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    true
}

/// Errors about a tensor whose name has a million characters.
#[test]
fn long_names_are_cut_in_every_format() {
    let name = long();
    for format in ["ztensor", "metatensor", "safetensors"] {
        let bytes = file_of(format, &name);
        let file = OpenOptions::new().open_bytes(bytes.clone(), "long").unwrap();
        warnings_are_bounded(&file);
        bounded(&file.tensor(&format!("{name}x")).map(drop).unwrap_err());
        let tensor = file.tensor(&name).unwrap();
        bounded(&tensor.bytes(&holdall::Role::from_name(&name)).unwrap_err());
        assert!(holdall::verify(&file, &VerifyOptions::new()).unwrap().is_sound());
        // Possible errors in the tensor.
        for (from, to) in [("F32", "F99"), ("f32", "f99"), ("float32", "float99"), ("[2]", "[3]")] {
            let mut bytes = bytes.clone();
            if swap(&mut bytes, from, to) {
                let strict = OpenOptions::new().with_faults(Faults::Refuse);
                let e = strict.open_bytes(bytes, "long").map(drop).unwrap_err();
                bounded(&e);
            }
        }
    }
}

/// Values of a million characters in headers written as JSON.
#[test]
fn long_values_are_cut_in_headers() {
    let long = "v".repeat(1 << 20);
    let framed =
        |json: String| [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &[0; 64]].concat();
    for json in [
        format!(r#"{{"w":{{"dtype":"{long}","shape":[],"data_offsets":[0,4]}}}}"#),
        format!(r#"{{"w":{{"{long}":1}}}}"#),
        format!(r#"{{"{long}":1}}"#),
        format!(r#"{{"{long}":{{}},"{long}":{{}}}}"#),
        format!(r#"{{"__metadata__":{{"{long}":1}}}}"#),
        format!(r#"{{"__metadata__":{{"{long}":"","{long}":""}}}}"#),
        format!(
            r#"{{"w":{{"dtype":"F32","shape":[1{}],"data_offsets":[0,4]}}}}"#,
            "0".repeat(1 << 20)
        ),
        format!(r#"{{"metatensor":"{long}"}}"#),
        format!(r#"{{"metatensor":"1.0","endian":"{long}","schema":{{}},"values":{{}}}}"#),
        format!(r#"{{"metatensor":"1.0","{long}":1,"{long}":2}}"#),
        format!(
            r#"{{"metatensor":"1.0","endian":"little","schema":{{"$ref":"{long}"}},"values":{{}}}}"#
        ),
        format!(
            r#"{{"metatensor":"1.0","endian":"little","schema":{{"type":"object","properties":{{"{long}":{{"type":"TypeDef:{long}"}}}}}},"values":{{}}}}"#
        ),
    ] {
        match OpenOptions::new().open_bytes(framed(json.clone()), "long") {
            Ok(file) => warnings_are_bounded(&file),
            Err(e) => bounded(&e),
        }
    }
}

/// Opens an unpacked package with these texts.
fn opened(folder: &Path, toml: &str, index: Option<&str>, links: Option<&str>) -> Vec<String> {
    std::fs::write(folder.join("carton.toml"), toml).unwrap();
    for (name, text) in [("tensor_data/index.toml", index), ("LINKS", links)] {
        let path = folder.join(name);
        match text {
            Some(text) => std::fs::write(path, text).unwrap(),
            None => drop(std::fs::remove_file(path)),
        }
    }
    match holdall::carton::Package::open(folder) {
        Ok(package) => package.warnings().iter().map(|w| w.message.clone()).collect(),
        Err(e) => {
            bounded(&e);
            vec![e.message().to_owned()]
        }
    }
}

/// The same in the texts of a package.
#[test]
fn long_values_are_cut_in_packages() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("tensor_data")).unwrap();
    let long = "v".repeat(1 << 20);
    let runner = "[runner]\nrunner_name = 'noop'\nrequired_framework_version = '*'\nrunner_compat_version = 1\n";
    let sound = format!("spec_version = 1\n{runner}");
    let input = |name: &str, dtype: &str, shape: &str| {
        format!("[[input]]\nname = '{name}'\ndtype = '{dtype}'\nshape = {shape}\n")
    };
    let mut texts_seen = 0;
    for toml in [
        format!("spec_version = {long}\n"),
        format!("{long} = 1\n{long} = 2\n"),
        long.clone(),
        format!(
            "spec_version = 1\n[runner]\nrunner_name = 'x'\nrequired_framework_version = '{long}'\nrunner_compat_version = 1\n"
        ),
        format!("{sound}{}", input(&long, "float16", "'*'")),
        format!("{sound}{}", input("x", &long, "'*'")),
        format!("{sound}{0}{0}", input(&long, "float32", "'*'")),
        format!("{sound}[[self_test]]\ninputs = {{ '{long}' = '@tensor_data/{long}' }}\n"),
        format!("{sound}[[self_test]]\ninputs = {{ x = '{long}' }}\n"),
        format!("short_description = 1\n{sound}[card]\n'{long}' = 1\n"),
    ] {
        let texts = opened(dir.path(), &toml, None, None);
        assert!(!texts.is_empty(), "{}", &toml[..200.min(toml.len())]);
        assert!(texts.iter().all(|t| t.chars().count() <= MAX));
        texts_seen += texts.len();
    }
    let row = |name: &str, dtype: &str, file: &str| {
        format!("[[tensor]]\nname = '{name}'\ndtype = '{dtype}'\nshape = []\nfile = '{file}'\n")
    };
    for index in [
        row(&long, "float32", &long),
        row(&long, &long, "0"),
        row("x", "float32", &format!("../{long}")),
        format!("[[tensor]]\nname = '{long}'\ndtype = 'nested'\ninner = ['{long}x']\n"),
    ] {
        let texts = opened(dir.path(), &sound, Some(&index), None);
        assert!(texts.iter().all(|t| t.chars().count() <= MAX) && !texts.is_empty());
        texts_seen += texts.len();
    }
    for links in [format!("version = 1\n[urls]\n{long} = []\n"), format!("version = '{long}'")] {
        let texts = opened(dir.path(), &sound, None, Some(&links));
        assert!(texts.iter().all(|t| t.chars().count() <= MAX) && !texts.is_empty());
        texts_seen += texts.len();
    }
    assert!(texts_seen >= 16);
    for manifest in [format!("{long}\n"), format!("{long}={}\n", "0".repeat(64))] {
        std::fs::write(dir.path().join("MANIFEST"), manifest).unwrap();
        let texts = opened(dir.path(), &sound, None, None);
        assert!(texts.iter().all(|t| t.chars().count() <= MAX) && !texts.is_empty());
    }
}

/// Elements that do not fill whole bytes are called by their logical type, not by their storage type.
#[test]
fn messages_name_the_element_type() {
    let header = br#"{"w":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 2]].concat();
    let file = OpenOptions::new().open_bytes(bytes, "made.safetensors").unwrap();
    let e = file.tensor("w").unwrap().fault().unwrap().to_string();
    assert!(e.contains("[3] of f4_e2m1 is not a whole number of bytes"), "{e}");
}
