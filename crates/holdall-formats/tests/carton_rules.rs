//! Every rule of packages and zips has bytes that break it, which stand in `corpus/reject/carton` too, and
//! sound files are read.
//!
//! A file of the corpus is named after the code it breaks: `carton.path.up.carton` breaks `carton/path`.
//! `cargo xtask corpus --make` writes the corpus anew from the same table.

use crate::carton_files::rejects::{Reject, rejects};
use crate::carton_files::{Package, accepts::accepts, sums};
use holdall_core::{Bytes, Error, Index, Limits, Stop, Window};
use std::collections::BTreeSet;

fn decode(bytes: &[u8], limits: &Limits) -> Result<Index, Error> {
    match holdall_formats::decode(&Window::whole(Bytes::copy_from_slice(bytes)), limits) {
        Ok(index) => index.sound(),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(ranges)) => panic!("a whole file lacks {ranges:?}"),
    }
}

/// The same with only the requested ranges in the window, and the number of requests.
fn by_ranges(bytes: &[u8]) -> (Result<Index, Error>, usize) {
    let mut window = Window::new(bytes.len() as u64);
    for round in 0..100 {
        match holdall_formats::decode(&window, &Limits::default()) {
            Ok(index) => return (index.sound(), round),
            Err(Stop::Fail(e)) => return (Err(e), round),
            Err(Stop::Need(ranges)) => {
                for range in ranges {
                    assert!(!range.is_empty() && range.end <= bytes.len() as u64, "{range:?}");
                    let found = &bytes[range.start as usize..range.end as usize];
                    window.add(range.start, Bytes::copy_from_slice(found));
                }
            }
        }
    }
    panic!("it asks on and on");
}

fn code_of(name: &str) -> String {
    let mut parts = name.split('.');
    format!("{}/{}", parts.next().unwrap(), parts.next().unwrap())
}

/// What an index says, in words.
fn describe(index: &Index) -> String {
    let tensors: Vec<String> = index
        .tensors()
        .map(|t| {
            let components: Vec<_> = t.components().collect();
            let (shape, layout) = (t.shape(), t.layout());
            format!("{} {shape:?} {layout} {:?} {components:?}", t.name(), t.attributes())
        })
        .collect();
    format!("{:?} {:?} {tensors:#?}", index.attributes(), index.warnings())
}

#[test]
fn broken_files_fail_with_their_code() {
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    for Reject { name, bytes, opens } in rejects() {
        assert!(names.insert(name.clone()), "{name} comes twice");
        let found = decode(&bytes, &Limits::default());
        let code = found.as_ref().map_or_else(|e| e.code(), |_| "nothing");
        if opens != found.is_ok() || (!opens && code != code_of(&name)) {
            wrong.push(format!("{name}: {code}: {found:?}"));
        }
        let (by_ranges, rounds) = by_ranges(&bytes);
        match (found, by_ranges) {
            (Ok(whole), Ok(found)) => assert_eq!(describe(&whole), describe(&found), "{name}"),
            (Err(whole), Err(found)) => assert_eq!(whole.to_string(), found.to_string(), "{name}"),
            (whole, found) => panic!("{name}: whole {whole:?}, by ranges {found:?}"),
        }
        assert!(rounds <= 9, "{name}: {rounds} rounds");
    }
    assert!(wrong.is_empty(), "{} files:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn sound_files_are_read() {
    for (name, bytes) in accepts() {
        let whole = decode(&bytes, &Limits::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(whole.format(), "carton", "{name}");
        let (found, rounds) = by_ranges(&bytes);
        assert_eq!(describe(&whole), describe(&found.unwrap()), "{name}");
        assert!(rounds <= 9, "{name}: {rounds} rounds");
    }
}

/// Cut off anywhere it is an error of the file, and so is any changed byte of the directory, or it is
/// read.
#[test]
fn prefixes_and_changed_bytes_are_survived() {
    for (name, bytes) in accepts() {
        for len in 0..bytes.len() {
            let e = decode(&bytes[..len], &Limits::default());
            let e = e.expect_err(&format!("{name} cut at {len}"));
            assert!(
                ["zip/end", "format/unknown", "format/empty"].contains(&e.code()),
                "{name}: {e}"
            );
        }
        let mut changed = bytes.clone();
        for at in 0..bytes.len() {
            changed[at] = [bytes[at] ^ 1, bytes[at] ^ 0x80, 0xff][at % 3];
            let _ = decode(&changed, &Limits::default());
            changed[at] = bytes[at];
        }
    }
}

#[test]
fn limits_are_kept() {
    let bytes = Package::minimal().bytes();
    let code = |change: &dyn Fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        decode(&bytes, &limits).err().map(|e| e.code())
    };
    assert_eq!(code(&|_| {}), None);
    assert_eq!(code(&|l| l.files = 1), Some("zip/too-many-entries"));
    assert_eq!(code(&|l| l.header_len = 100), Some("zip/directory-len"));
    assert_eq!(code(&|l| l.text_len = 100), Some("zip/entry-len"));
    assert_eq!(code(&|l| l.attribute_values = 3), Some("toml/too-many-values"));
    let long = vec![b'#'; 200];
    let mut limits = Limits::default();
    limits.text_len = 100;
    let code = |e: Error| e.code();
    assert_eq!(holdall_package::Links::parse(&long, &limits).map_err(code), Err("toml/len"));
    assert_eq!(
        holdall_package::Manifest::parse(&long, &limits).map_err(code),
        Err("carton/too-many-files")
    );
}

#[test]
fn texts_of_tensors_are_as_many_as_the_shape_has() {
    let read = |text: &str, count| {
        holdall_package::tensors::strings(text.as_bytes(), count, &Limits::default())
            .map_err(|e| e.code())
    };
    assert_eq!(read("data = [\"a\", 'b']", 2), Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(read("data = []\nmore = 1", 0), Ok(Vec::new()));
    for (text, count) in [("data = ['a']", 2), ("data = 'a'", 1), ("data = [1]", 1), ("", 0)] {
        assert_eq!(read(text, count), Err("carton/strings"), "{text}");
    }
    assert_eq!(read("data = [", 0), Err("toml/broken"));
}

#[test]
fn sums_are_those_of_the_world() {
    assert_eq!(sums::crc32(b"123456789"), 0xcbf4_3926);
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sums::hex(&sums::sha256(b"abc")), abc);
    assert_eq!(sums::sha256(&[7; 300]), holdall_package::sha256(&[7; 300]));
}

/// A package that lacks what describes it is one all the same, and the advice is about that.
#[test]
fn a_linked_description_is_missed_with_fitting_advice() {
    let mut p = Package { entries: Vec::new(), ..Package::minimal() };
    p.add("model/w", "w");
    p.add("LINKS", "version = 1\n[urls]\n");
    p.elsewhere("carton.toml", crate::carton_files::MINIMAL.as_bytes());
    let e = decode(&p.bytes(), &Limits::default()).unwrap_err();
    assert_eq!(e.code(), "carton/missing-file", "{e}");
    assert!(e.message().contains("`carton.toml`") && e.hint().unwrap().contains("put it back"));
    // Any other zip is of no format, as before.
    p.entries.retain(|entry| entry.name != b"LINKS");
    let e = decode(&p.bytes(), &Limits::default()).unwrap_err();
    assert_eq!(e.code(), "format/unknown", "{e}");
}

/// Descriptions that would take ever longer, if anything in them were looked at again and again.
#[test]
fn long_descriptions_are_looked_through_in_linear_time() {
    let one_by_one: String = (1..700).map(|n| "`".repeat(n) + " ").collect();
    let cases = [
        "[a](", "](", "<a ", "<a b=\"", "<a b='", "`", "[", "<a:", "<!", "[a](<", "> ", "[a]:",
        "[a](b(", "- ", "\\", "[a](b)", "<b>", "[a]: b\n",
    ];
    let many = cases.iter().map(|case| case.repeat(400_000 / case.len()));
    for text in many.chain([one_by_one]) {
        let start = std::time::Instant::now();
        let mut d = holdall_package::Description::default();
        d.model_description = Some(text);
        let found = holdall_package::unmet_requirements(&d, true, &|_| false);
        let took = start.elapsed();
        let text = d.model_description.unwrap_or_default();
        assert!(took.as_secs() < 5, "{:?}: {took:?}, {found:?}", &text[..10]);
    }
}
