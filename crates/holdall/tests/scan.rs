//! Imports and calls of pickles are found in every spelling and every place, and nothing is executed.

use crate::corpus_files;
use crate::pytorch_files::{file_of, zip};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use holdall::scan::{ScanReport, Verdict, scan_source};
use holdall::source::{ByteSource, MemorySource};
use holdall::{Limits, OpenOptions, Work, scan};
use std::io::Write as _;
use std::sync::Arc;

fn scan_with(bytes: &[u8], name: &str, limits: &Limits) -> ScanReport {
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new(bytes.to_vec()));
    scan_source(&source, name, limits, &Work::new()).unwrap()
}

fn scanned(bytes: &[u8], name: &str) -> ScanReport {
    scan_with(bytes, name, &Limits::default())
}

/// Returns the verdict on a file with the name of a pickle, and its imports.
pub(crate) fn verdict_on(bytes: &[u8]) -> (Verdict, Vec<String>) {
    let report = scanned(bytes, "x.pkl");
    let imports = report.pickles.iter().flat_map(|p| &p.imports);
    let names = imports.map(|i| format!("{}.{}", i.module, i.name)).collect();
    (report.verdict(), names)
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

#[test]
fn every_spelling_of_a_global_is_found() {
    let long = |code: u8, text: &str| {
        [&[code][..], &(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    };
    let command = text("true");
    let all: Vec<(&str, Vec<u8>)> = vec![
        ("GLOBAL", [b"\x80\x02cos\nsystem\n", &command[..], b"\x85R."].concat()),
        ("GLOBAL, protocol 0", b"cos\nsystem\n(S'true'\ntR.".to_vec()),
        ("INST", b"(S'true'\nios\nsystem\n.".to_vec()),
        ("OBJ", b"(cos\nsystem\nS'true'\no.".to_vec()),
        ("NEWOBJ", [b"\x80\x02cos\nsystem\n", &command[..], b"\x85\x81."].concat()),
        ("NEWOBJ_EX", [b"\x80\x04cos\nsystem\n", &command[..], b"\x85}\x92."].concat()),
        ("STACK_GLOBAL", b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.".to_vec()),
        ("memo", b"\x80\x04\x8c\x06system\x94\x8c\x02os\x94h\x01h\x00\x93)R.".to_vec()),
        ("long memo", b"\x80\x02X\x02\0\0\0osr\0\x01\0\0X\x06\0\0\0systemr\0\0\0\x02j\0\x01\0\0j\0\0\0\x02\x93)R.".to_vec()),
        ("PUT and GET", b"Vos\np 7\nVsystem\np1_0\n00g7\ng10\n\x93)R.".to_vec()),
        ("DUP", b"\x80\x04\x8c\x02os2\x8c\x06system\x93)R.".to_vec()),
        ("POP", b"\x80\x04\x8c\x02os\x8c\x06systemN0\x93)R.".to_vec()),
        ("POP_MARK", b"\x80\x04\x8c\x02os\x8c\x06system(NNN1\x93)R.".to_vec()),
        ("escapes of UNICODE", b"V\\u006fs\nV\\U00000073ystem\n\x93)R.".to_vec()),
        ("escapes of STRING", b"S'\\x6f\\163'\nS\"s\\x79stem\"\n\x93)R.".to_vec()),
        ("SHORT_BINSTRING", b"U\x02osU\x06system\x93)R.".to_vec()),
        ("BINSTRING", b"T\x02\0\0\0osT\x06\0\0\0system\x93)R.".to_vec()),
        ("BINUNICODE8", [b"\x80\x04", &long(0x8d, "os")[..], &long(0x8d, "system"), b"\x93)R."].concat()),
        ("frames", b"\x80\x04\x95\x0c\0\0\0\0\0\0\0\x8c\x02os\x8c\x06system\x95\x03\0\0\0\0\0\0\0\x93)R.".to_vec()),
        ("BUILD", b"\x80\x02cos\nsystem\n}b.".to_vec()),
        ("only imported", b"\x80\x02cos\nsystem\n.".to_vec()),
        ("thrown away", b"\x80\x02cos\nsystem\n)R0N.".to_vec()),
        ("as a key", b"\x80\x02}cos\nsystem\n)RNs.".to_vec()),
        ("in a persistent id", b"\x80\x02cos\nsystem\n)RQ.".to_vec()),
    ];
    for (what, bytes) in all {
        let (verdict, names) = verdict_on(&bytes);
        assert_eq!(
            (verdict, &names[..]),
            (Verdict::Dangerous, &["os.system".to_owned()][..]),
            "{what}"
        );
        // The same in a zip, and under a name without a known extension.
        let zipped = scanned(&file_of(&bytes), "x.bin");
        assert_eq!(zipped.verdict(), Verdict::Dangerous, "{what}");
        assert_eq!(zipped.pickles[0].source, "x.bin!/a/data.pkl");
        assert_eq!(scanned(&bytes, "weights").verdict(), Verdict::Dangerous, "{what}");
    }
}

#[test]
fn imports_are_dangerous_suspicious_or_safe() {
    let global =
        |module: &str, name: &str| verdict_on(format!("c{module}\n{name}\n)R.").as_bytes()).0;
    for (module, name) in [
        ("posix", "system"),
        ("nt", "system"),
        ("builtins", "eval"),
        ("__builtin__", "getattr"),
        ("subprocess", "Popen"),
        ("runpy", "_run_code"),
        ("importlib", "import_module"),
        ("torch", "load"),
        ("torch.storage", "_load_from_bytes"),
        ("numpy.testing", "runstring"),
        ("numpy", "core.multiarray.os.system"),
        ("torch.serialization", "os.system"),
        ("collections", "abc.sys.modules"),
        ("_pickle", "loads"),
        ("operator", "attrgetter"),
        ("uuid", "os.system"),
        ("torch._utils", "_rebuild_tensor_v2.__globals__"),
        ("pip", "main"),
        ("timeit", "timeit"),
        ("torch.utils._config_module", "load_config"),
    ] {
        assert_eq!(global(module, name), Verdict::Dangerous, "{module}.{name}");
    }
    for (module, name) in [
        ("mine", "Model"),
        ("uuid", "_get_command_stdout"),
        ("torch", "Sizes"),
        ("OS", "System"),
        ("collections", "OrderedDict.fromkeys"),
        ("torch.nn", "Linear"),
        ("numpy", "save"),
        ("torch", "float32.to"),
    ] {
        assert_eq!(global(module, name), Verdict::Suspicious, "{module}.{name}");
    }
    for (module, name) in [
        ("collections", "OrderedDict"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("numpy", "dtype"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("pathlib", "PosixPath"),
        ("torch.distributed.checkpoint.metadata", "Metadata"),
        ("_codecs", "encode"),
    ] {
        assert_eq!(global(module, name), Verdict::Safe, "{module}.{name}");
    }
    // Types that are never called.
    for (module, name) in [
        ("torch", "float8_e4m3fn"),
        ("torch", "BFloat16Storage"),
        ("torch.cuda", "FloatStorage"),
        ("torch.cuda.sparse", "FloatTensor"),
        ("numpy", "float32"),
    ] {
        let named = format!("c{module}\n{name}\n.");
        assert_eq!(verdict_on(named.as_bytes()).0, Verdict::Safe, "{module}.{name}");
        assert_eq!(global(module, name), Verdict::Suspicious, "{module}.{name}");
    }
}

#[test]
fn undecidable_pickles_are_unknown() {
    // The name is the result of a call, a value stored elsewhere, or too long a text.
    let long = [&b"\x80\x04"[..], &text(&"a".repeat(300)), &text("b"), b"\x93)R."].concat();
    for bytes in [
        &b"\x80\x04\x8c\x02osc_codecs\nencode\n)R\x93)R."[..],
        b"\x80\x04K\x01Q\x8c\x01a\x93)R.",
        b"\x80\x04K\x01QK\x02QR.",
        &long,
    ] {
        let (verdict, names) = verdict_on(bytes);
        assert_eq!(verdict, Verdict::Unknown, "{names:?}");
        assert!(names.iter().any(|name| name.contains('?')), "{names:?}");
    }
    // A call of the result of a call, and an extension that some program registers.
    assert_eq!(verdict_on(b"\x80\x02ccollections\nOrderedDict\n)R)R.").0, Verdict::Suspicious);
    for bytes in
        [&b"\x80\x02\x82\x01)R."[..], b"\x80\x02\x83\x01\x01)R.", b"\x80\x02\x84\x01\0\0\0)R."]
    {
        assert_eq!(verdict_on(bytes).0, Verdict::Suspicious);
    }
    // Attributes of a class are set.
    assert_eq!(verdict_on(b"\x80\x02ccollections\nOrderedDict\n}b.").0, Verdict::Suspicious);
}

/// The opcodes before an error have been executed.
#[test]
fn a_pickle_that_breaks_is_no_safer() {
    let payload = &b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R"[..];
    for rest in [
        &b""[..],
        b"\xff",
        b"t.",
        b"h\x63.",
        b"X\xff\xff\xff\x7fabc",
        b"0000.",
        b"c",
        b"cos\n",
        b"u.",
        b"\x80\x09.",
    ] {
        let report = scanned(&[payload, rest].concat(), "x.pkl");
        assert_eq!(report.verdict(), Verdict::Dangerous, "{rest:?}");
        assert!(report.pickles[0].broken.is_some(), "{rest:?}");
    }
    // A pickle that imports only safe names, and then fails, is not safe.
    assert_eq!(verdict_on(b"\x80\x02ccollections\nOrderedDict\n)R").0, Verdict::Unknown);
    // If every unpickler fails before the first import, it is not a pickle.
    for bytes in [
        &b"\x80\x02}"[..],
        b"\x80\x04\x95",
        b"\x80\x02h\x05.",
        b"\x80\x03\xff",
        b"",
        b"\x80\x02tcos\nsystem\n)R.",
        b"\x80\x02\x80\x09cos\nsystem\n)R.",
        b"\x80\x02NRcos\nsystem\n)R.",
        b"\x80\x02K\x01(K\x02u.cos\nsystem\n)R.",
        b"I1z\ncos\nsystem\n)R.",
        b"Snot in quotes\ncos\nsystem\n)R.",
        b"\x80\x02N(.cos\nsystem\n)R.",
        b"NN\x93cos\nsystem\n)R.",
        b"g0\ncos\nsystem\n)R.",
        b"cnot a module\nx\ncos\nsystem\n)R.",
    ] {
        assert_eq!(verdict_on(bytes), (Verdict::NoPickles, vec![]), "{}", bytes.escape_ascii());
    }
    assert_eq!(verdict_on(b"\x80\x02}.").0, Verdict::Safe);
}

#[test]
fn pickles_in_pickles_are_found() {
    let inner = b"\x80\x04\x8c\x02os\x8c\x06system\x93)R.";
    let old = b"cos\nsystem\n(S'true'\ntR.";
    let bytes = |code: &[u8], len: &[u8], of: &[u8]| [b"\x80\x04", code, len, of, b"."].concat();
    let len = inner.len() as u8;
    let latin: String = inner.iter().map(|b| char::from(*b)).collect();
    for outer in [
        bytes(b"C", &[len], inner),
        bytes(b"B", &u32::from(len).to_le_bytes(), inner),
        bytes(b"\x8e", &u64::from(len).to_le_bytes(), inner),
        bytes(b"\x96", &u64::from(len).to_le_bytes(), inner),
        bytes(b"U", &[len], inner),
        bytes(b"C", &[old.len() as u8], old),
        [&b"\x80\x02"[..], &text(&latin), b"."].concat(),
    ] {
        let report = scanned(&outer, "x.pkl");
        assert_eq!(report.verdict(), Verdict::Dangerous, "{outer:?}");
        assert!(!report.pickles[0].inner && report.pickles[1].inner, "{outer:?}");
        assert_eq!(report.pickles[0].verdict, Verdict::Safe);
        assert_eq!(report.pickles[1].imports[0].module, "os");
    }
    // One after the other, as if `pickle.load` were called more than once.
    let two = [b"\x80\x02}.", &inner[..], old].concat();
    let report = scanned(&two, "x.pkl");
    let offsets: Vec<u64> = report.pickles.iter().map(|p| p.offset).collect();
    assert_eq!(offsets, [0, 4, 4 + inner.len() as u64]);
    assert_eq!(report.pickles[2].imports[0].offset, offsets[2]);
}

#[test]
fn zips_that_readers_differ_about_are_looked_through() {
    let payload = b"\x80\x02cos\nsystem\n)R.";
    let sound = zip(&[("a/data.pkl", payload), ("a/data/0", &[1; 16])]);
    let at = |mark: &[u8]| sound.windows(mark.len()).position(|w| w == mark).unwrap();
    let (local, central, end) = (at(b"PK\x03\x04"), at(b"PK\x01\x02"), at(b"PK\x05\x06"));
    let changed = |changes: &[(usize, u8)]| {
        let mut bytes = sound.clone();
        changes.iter().for_each(|(at, byte)| bytes[*at] = *byte);
        bytes
    };
    // Flags, names, methods, checksums and lengths that differ between header and directory, a false end
    // record, and none.
    let cases = [
        changed(&[(local + 6, 1)]),
        changed(&[(local + 6, 1), (central + 8, 1)]),
        changed(&[(local + 6, 0x20), (central + 8, 0x40)]),
        changed(&[(local + 30, b'b')]),
        changed(&[(local + 14, 0), (local + 15, 9)]),
        changed(&[(local + 18, 1)]),
        changed(&[(central + 10, 12)]),
        changed(&[(end + 8, 9)]),
        sound[..end].to_vec(),
        [&sound[..], b"junk"].concat(),
        [b"#!/bin/sh\n", &sound[..]].concat(),
    ];
    for (case, bytes) in cases.iter().enumerate() {
        let report = scanned(bytes, "model.pt");
        assert_eq!(report.verdict(), Verdict::Dangerous, "case {case}: {report:?}");
        assert!(!report.unread.is_empty(), "case {case}");
    }
    // torch ignores wrong checksums, so they are ignored here.
    let report = scanned(&changed(&[(local + 14, 0), (central + 16, 0)]), "model.pt");
    assert_eq!(report.verdict(), Verdict::Dangerous);
    // A pickle followed by a zip is both.
    let both = [&payload[..], &zip(&[("a/data.pkl", b"\x80\x02}.")])].concat();
    assert_eq!(scanned(&both, "model.pt").verdict(), Verdict::Dangerous);
    // Nested zips, as deep as they are scanned.
    let mut nested = sound.clone();
    for _ in 0..3 {
        nested = zip(&[("model.zip", &nested)]);
    }
    assert_eq!(scanned(&nested, "x.zip").verdict(), Verdict::Dangerous);
    assert_eq!(scanned(&zip(&[("model.zip", &nested)]), "x.zip").verdict(), Verdict::Unknown);
}

#[test]
fn files_without_pickles_are_recognized() {
    for (bytes, name, wanted) in [
        (&b"hello\n"[..], "README.md", Verdict::NoPickles),
        // Unpickling this imports a module `at`.
        (b"cat\ndog\nelephant\n", "vocab.txt", Verdict::Suspicious),
        (b"cat and dog\nin the house\n.", "vocab.txt", Verdict::NoPickles),
        (b"class Model(Base):\n    pass\n", "model.py", Verdict::NoPickles),
        (b"certifi\n", "top_level.txt", Verdict::NoPickles),
        (b"import os\nimport sys\n", "run.py", Verdict::NoPickles),
        // Only the unpickler in Python imports this.
        (b"cos\nsys", "x", Verdict::Dangerous),
        (b"ios\nsystem\n", "x", Verdict::Dangerous),
        (b"{\"a\": 1}", "config.json", Verdict::NoPickles),
        (b"", "empty", Verdict::NoPickles),
        (b"I1\n.", "one.pkl", Verdict::Safe),
        (b"\x80\x02\0\0\0\0\0\0", "weights.bin", Verdict::NoPickles),
        (b"not a pickle", "model.pkl", Verdict::NoPickles),
        (b"\x89HDF\r\n\x1a\n\0\0\0\0", "model.h5", Verdict::NoPickles),
        (b"\x89HDF\r\n\x1a\n\0\0PYTABLES_FORMAT_VERSION\0", "frame.h5", Verdict::Unknown),
        (b"7z\xbc\xaf\x27\x1c...", "model.pt", Verdict::Unknown),
        (b"\xfd7zXZ\0...", "model.json.xz", Verdict::Unknown),
        (b"\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0...", "x", Verdict::Unknown),
        (b"\x1f\x8b\x08\0...", "model.json.gz", Verdict::NoPickles),
        (b"x^2 + y^2 = z^2", "equation.txt", Verdict::NoPickles),
        (b"click-8.1.dist-info/INSTALLER,sha256=x,4\nclick-8.1\n", "RECORD", Verdict::NoPickles),
        // A program that reads zips contains the signature of an end record; no reader finds an entry from
        // there.
        (
            b"const END = \"PK\x05\x06\", 22, const ENTRY = \"PK\x01\x02\", 46",
            "zip.pyc",
            Verdict::NoPickles,
        ),
    ] {
        let report = scanned(bytes, name);
        assert_eq!(report.verdict(), wanted, "{name}: {report:?}");
    }
    let codes = |report: ScanReport| report.unread.iter().map(|e| e.code()).collect::<Vec<_>>();
    assert_eq!(codes(scanned(b"BZh9", "model.pkl.bz2")), ["pickle/packed"]);
    // An array of objects is a pickle after a header.
    let header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
    let array =
        [b"\x93NUMPY\x01\0", &[header.len() as u8, 0][..], header, b"\x80\x03cos\nsystem\n)R."]
            .concat();
    let report = scanned(&array, "x.npy");
    assert_eq!(
        (report.verdict(), report.pickles[0].offset),
        (Verdict::Dangerous, 10 + header.len() as u64)
    );
}

/// Arrays of C's `long double`, which no dtype expresses, are skipped, and the bytes after them are scanned.
#[test]
fn arrays_of_long_doubles_are_passed_over() {
    let array = |behind: &[u8]| {
        let header = b"{'descr': '<f16', 'fortran_order': False, 'shape': (2,), }\n";
        let len = [header.len() as u8, 0];
        [b"\x93NUMPY\x01\0", &len[..], header, &[0; 32], behind].concat()
    };
    assert_eq!(scanned(&array(b""), "x.npy").verdict(), Verdict::NoPickles);
    let report = scanned(&array(b"\x80\x03cos\nsystem\n)R."), "x.npy");
    assert_eq!(report.verdict(), Verdict::Dangerous, "{report:?}");
}

/// Time and memory are proportional to the bytes, and anything beyond a limit is reported.
#[test]
fn bombs_do_not_go_off() {
    let names = |count: u32| {
        let mut out = b"\x80\x04".to_vec();
        for n in 0..count {
            out.extend([&b"\x8c\xf0"[..], format!("{n:0>240}").as_bytes(), b"\x940"].concat());
        }
        for (a, b) in (0..count).flat_map(|a| (0..count).map(move |b| (a, b))) {
            out.extend([b"j", &a.to_le_bytes()[..], b"j", &b.to_le_bytes(), b"\x930"].concat());
        }
        [out, b"N.".to_vec()].concat()
    };
    let report = scanned(&names(300), "x.pkl");
    assert!(report.pickles[0].imports.len() <= 1 << 16);
    assert_eq!(report.pickles[0].broken.as_ref().unwrap().code(), "pickle/too-many-values");
    // The reader of tensors has the same limits.
    let e = holdall::OpenOptions::new().open_bytes(file_of(&names(300)), "x.pt").unwrap_err();
    assert_eq!(e.code(), "pickle/too-many-values", "{e}");

    let mut limits = Limits::default();
    limits.attribute_values = 100;
    let many = [b"\x80\x02".to_vec(), vec![b'N'; 200], b"cos\nsystem\n)R.".to_vec()].concat();
    let report = scan_with(&many, "x.pkl", &limits);
    assert_eq!(report.verdict(), Verdict::Unknown);
    assert_eq!(report.pickles[0].broken.as_ref().unwrap().code(), "pickle/too-many-values");
    let mut limits = Limits::default();
    limits.header_len = 6000;
    let long = [&b"\x80\x02X"[..], &8000u32.to_le_bytes(), &[b'a'; 8000], b"."].concat();
    let report = scan_with(&long, "x.pkl", &limits);
    assert_eq!(report.verdict(), Verdict::Unknown);
    assert_eq!(report.pickles[0].broken.as_ref().unwrap().code(), "pickle/too-long");
    let dups = [b"\x80\x02N".to_vec(), vec![b'2'; 100_000], b".".to_vec()].concat();
    assert_eq!(verdict_on(&dups).0, Verdict::Safe);
    let marks =
        [b"\x80\x02".to_vec(), vec![b'('; 100_000], vec![b't'; 100_000], b".".to_vec()].concat();
    assert_eq!(verdict_on(&marks).0, Verdict::Safe);
}

/// Imports that Holdall reads are in the list; those for which it refuses a file are not.
#[test]
fn the_corpus_is_judged_as_it_is_read() {
    let root = corpus_files::root();
    let options = OpenOptions::new();
    let accepted = scan(root.join("accept/pytorch"), &options, &Work::new()).unwrap();
    // The classes of TorchScript are code in the file.
    let is_script = |source: &str| source.contains("torch_script.pt!/torch_script/data.pkl");
    for pickle in &accepted.pickles {
        let wanted = if is_script(&pickle.source) { Verdict::Suspicious } else { Verdict::Safe };
        assert_eq!(pickle.verdict, wanted, "{pickle:?}");
    }
    assert!(accepted.unread.is_empty());
    assert!(accepted.pickles.len() >= 9 && accepted.files >= 27);
    let refused = scan(root.join("reject/pytorch"), &options, &Work::new()).unwrap();
    assert_eq!(refused.verdict(), Verdict::Dangerous);
    for name in [
        "pytorch.global.system",
        "pytorch.global.stack",
        "pytorch.global.dotted",
        "pytorch.global.inst",
        "pytorch.global.obj",
    ] {
        let of_file = |p: &&holdall::scan::Pickle| p.source.contains(name);
        let found = refused.pickles.iter().find(of_file).unwrap();
        assert_eq!(found.verdict, Verdict::Dangerous, "{name}");
    }
    for other in [
        "accept/safetensors",
        "accept/gguf",
        "accept/ztensor",
        "accept/numpy",
        "accept/onnx",
        "accept/hdf5",
    ] {
        let report = scan(root.join(other), &options, &Work::new()).unwrap();
        assert_eq!(report.verdict(), Verdict::NoPickles, "{other}: {report:?}");
        assert!(report.pickles.is_empty(), "{other}: {report:?}");
    }
}

/// Returns a tar header with the file after it.
fn member(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = [0u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut out = [&header[..], bytes].concat();
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

/// Pickles are found in tar archives, in zips inside them, and in files named with `!/`; a damaged end does
/// not hide those before it.
#[test]
fn archives_are_walked() {
    let bad = b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.";
    let inner = zip(&[("b.pkl", bad)]);
    let members =
        [member("a.npy", b"\x93NUMPY"), member("x.zip", &inner), member("c", bad)].concat();
    let whole = [members, vec![0; 1024]].concat();
    let report = scanned(&whole, "t.tar");
    let found: Vec<&str> = report.pickles.iter().map(|p| p.source.as_str()).collect();
    // The end of the zip is near that of the archive: some readers take the whole for a zip.
    assert_eq!(found, ["t.tar!/b.pkl", "t.tar!/x.zip!/b.pkl", "t.tar!/c"]);
    assert_eq!(report.verdict(), Verdict::Dangerous);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.tar");
    std::fs::write(&path, &whole).unwrap();
    let own = |inside: &str| {
        let path = format!("{}!/{inside}", path.display());
        scan(path, &OpenOptions::new(), &Work::new()).map(|report| report.verdict())
    };
    assert_eq!(own("c").unwrap(), Verdict::Dangerous);
    assert_eq!(own("x.zip!/b.pkl").unwrap(), Verdict::Dangerous);
    assert_eq!(own("a.npy").unwrap(), Verdict::NoPickles);
    assert_eq!(own("d").unwrap_err().code(), "archive/no-file");
    // The last member is cut.
    let cut = &whole[..whole.len() - 1024 - 500];
    let report = scanned(cut, "t.tar");
    assert!(report.pickles.iter().any(|p| p.source == "t.tar!/x.zip!/b.pkl"));
    assert!(report.pickles.iter().all(|p| p.source != "t.tar!/c"));
    assert!(report.unread.iter().any(|e| e.code() == "tar/bounds"));
    // Nested archives, too deep to be scanned.
    let deep =
        (0..6).fold(bad.to_vec(), |inner, _| [member("in.tar", &inner), vec![0; 1024]].concat());
    let report = scanned(&deep, "t.tar");
    assert_eq!((report.verdict(), report.unread[0].code()), (Verdict::Unknown, "pickle/packed"));
}

/// Returns a zip with one file, compressed by Deflate.
fn deflated(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    let mut out = zip(&[(name, &encoder.finish().unwrap())]);
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    let central = out.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    // After the signatures and versions of both headers: flags, method, time, checksum, and both lengths.
    for at in [6, central + 8] {
        out[at + 2] = 8;
        out[at + 8..at + 12].copy_from_slice(&crc.sum().to_le_bytes());
        out[at + 16..at + 20].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    }
    out
}

/// Compressed entries of a zip are scanned like stored ones: arrays of objects, archives, packs.
#[test]
fn compressed_pickles_are_scanned() {
    let bad = b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.";
    let long = [&bad[..], &[0; 8 << 10]].concat();
    let header = format!("{{'descr': '|O', 'fortran_order': False, 'shape': (1,), }}{:59}\n", "");
    let array = [
        b"\x93NUMPY\x01\x00".as_slice(),
        &(header.len() as u16).to_le_bytes(),
        header.as_bytes(),
        &long,
    ]
    .concat();
    let tar = [member("c.pkl", bad), vec![0; 8 << 10]].concat();
    let bzip2 = [b"BZh9".as_slice(), &[0; 8 << 10]].concat();
    for (name, bytes, verdict) in [
        ("a.npy", array, Verdict::Dangerous),
        ("t.tar", tar, Verdict::Dangerous),
        ("b.bz2", bzip2, Verdict::Unknown),
    ] {
        let report = scanned(&deflated(name, &bytes), "x.zip");
        assert_eq!(report.verdict(), verdict, "{name}: {report:?}");
    }
}

/// Files that an earlier scan called safe, and that execute code.
#[test]
fn files_formerly_judged_safe_are_unsafe() {
    let cases: [(&str, &[u8], Verdict); 7] = [
        ("ident.bin", include_bytes!("scan_cases/ident.bin"), Verdict::Suspicious),
        ("inner1005.bin", include_bytes!("scan_cases/inner1005.bin"), Verdict::Dangerous),
        ("ltar-Z.pt", include_bytes!("scan_cases/ltar-Z.pt"), Verdict::Dangerous),
        ("memo3.bin", include_bytes!("scan_cases/memo3.bin"), Verdict::Dangerous),
        ("several.npy", include_bytes!("scan_cases/several.npy"), Verdict::Dangerous),
        ("zip-symlink.pt", include_bytes!("scan_cases/zip-symlink.pt"), Verdict::Dangerous),
        ("zlib.bin", include_bytes!("scan_cases/zlib.bin"), Verdict::Dangerous),
    ];
    for (name, bytes, wanted) in cases {
        let report = scanned(bytes, name);
        assert_eq!(report.verdict(), wanted, "{name}: {report:?}");
        // Under any name.
        assert_eq!(scanned(bytes, "x").verdict(), wanted, "{name}");
    }
}

/// Items may be appended to any object with `append`, and set in any that takes integer keys: the scan
/// continues after that.
#[test]
fn pickles_go_on_where_items_are_added_to_a_bytearray() {
    let container = |make: &[u8]| [make, b"K\0a", b"K\0K\x07s", b"(K\x01e"].concat();
    for make in [&b"\x96\x02\0\0\0\0\0\0\0ab"[..], b"](K\x01K\x02e"] {
        let bytes = [b"\x80\x05", &container(make)[..], b"cos\nsystem\n(S'x'\ntR."].concat();
        assert_eq!(verdict_on(&bytes).0, Verdict::Dangerous, "{}", bytes.escape_ascii());
    }
}

/// An object that is passed through a call, or changed, gets the verdict of the object.
#[test]
fn forwarded_imports_are_judged_by_their_target() {
    let path = "cpathlib\nPath\n";
    for (start, wanted) in [
        // Through a function that returns its argument; through two of them.
        (format!("ctorch.jit._pickle\nbuild_intlist\n{path}\u{85}R"), Verdict::Suspicious),
        (
            format!("ctorch.jit._pickle\nrestore_type_tag\n{path}X\x01\0\0\0a\u{86}R"),
            Verdict::Suspicious,
        ),
        (
            format!(
                "ctorch.jit._pickle\nbuild_intlist\nctorch.jit._pickle\nbuild_intlist\n{path}\u{85}R\u{85}R"
            ),
            Verdict::Suspicious,
        ),
        // Through the memo.
        (
            format!(
                "ctorch.jit._pickle\nbuild_intlist\n({path}tq\x000ctorch.jit._pickle\nbuild_intlist\nh\0R"
            ),
            Verdict::Suspicious,
        ),
        // Applied to a list of numbers it returns a list of numbers.
        ("ctorch.jit._pickle\nbuild_intlist\n]\u{85}R".to_owned(), Verdict::Safe),
        // Applied to a new object.
        (format!("{path})R"), Verdict::Safe),
        (path.to_owned(), Verdict::Suspicious),
    ] {
        let start: Vec<u8> = start.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        let bytes = [b"\x80\x02", &start[..], b"N}X\x01\0\0\0aNs\x86b."].concat();
        assert_eq!(verdict_on(&bytes).0, wanted, "{}", bytes.escape_ascii());
    }
    // Items are set on an imported object.
    assert_eq!(verdict_on(b"\x80\x02ccollections\nOrderedDict\nNNs.").0, Verdict::Suspicious);
    assert_eq!(verdict_on(b"\x80\x02ccollections\nOrderedDict\nNa.").0, Verdict::Suspicious);
}

const BAD: &[u8] = b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.";

/// Returns a NumPy array.
fn array(descr: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    let len = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\0", &len[..], header.as_bytes(), elements].concat()
}

#[test]
fn arrays_are_followed_by_others() {
    let numbers = array("'<f4'", "(3, 2)", &[0; 24]);
    let objects = array("'|O'", "(1,)", BAD);
    let none = array("'|O'", "(1,)", b"\x80\x04N.");
    for (bytes, wanted) in [
        (numbers.clone(), Verdict::NoPickles),
        ([&numbers[..], &numbers].concat(), Verdict::NoPickles),
        (none.clone(), Verdict::Safe),
        ([&numbers[..], &objects].concat(), Verdict::Dangerous),
        ([&none[..], &numbers, &objects].concat(), Verdict::Dangerous),
        ([&numbers[..], BAD].concat(), Verdict::Dangerous),
        ([BAD, &numbers].concat(), Verdict::Dangerous),
        ([b"\x80\x02N.", &objects[..]].concat(), Verdict::Dangerous),
        // A pickle inside the numbers is not one.
        (array("'|u1'", &format!("({},)", BAD.len()), BAD), Verdict::NoPickles),
        // The end of the elements is unknown.
        (array("'<g16'", "(1,)", &[0; 16]), Verdict::Unknown),
        (array("[('a', '|O'), ('b', '<i8')]", "(1,)", BAD), Verdict::Dangerous),
        (array("'<f4'", "(3, 2)", &[0; 20]), Verdict::NoPickles),
    ] {
        let report = scanned(&bytes, "x");
        assert_eq!(report.verdict(), wanted, "{}: {report:?}", bytes.escape_ascii());
        let zipped = scanned(&zip(&[("x", &bytes)]), "x");
        assert_eq!(zipped.verdict(), wanted, "in a zip: {}", bytes.escape_ascii());
        let zipped = scanned(&deflated("x", &bytes), "x");
        assert_eq!(zipped.verdict(), wanted, "deflated: {}", bytes.escape_ascii());
    }
    // An object follows after the bytes that are decoded at once.
    let mut limits = Limits::default();
    limits.header_len = 6000;
    let long = [array("'|u1'", "(20000,)", &[0; 20_000]), objects].concat();
    assert_eq!(scan_with(&deflated("x", &long), "x", &limits).verdict(), Verdict::Dangerous);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn wholly_compressed_files_are_decompressed() {
    let fine = b"\x80\x04N.";
    for (bytes, wanted) in [
        (gzip(BAD), Verdict::Dangerous),
        (zlib(BAD), Verdict::Dangerous),
        (gzip(fine), Verdict::Safe),
        (zlib(fine), Verdict::Safe),
        (gzip(b"text"), Verdict::NoPickles),
        // Several streams, with zeros between those of gzip.
        ([gzip(fine), vec![0; 9], gzip(BAD)].concat(), Verdict::Dangerous),
        ([zlib(b""), zlib(BAD)].concat(), Verdict::Dangerous),
        // The bytes decoded before an error are scanned.
        (gzip(BAD)[..gzip(BAD).len() - 8].to_vec(), Verdict::Dangerous),
        (gzip(&[member("c", BAD), vec![0; 1024]].concat()), Verdict::Dangerous),
        (gzip(&zlib(&gzip(BAD))), Verdict::Dangerous),
        (gzip(&gzip(&gzip(&gzip(&gzip(BAD))))), Verdict::Unknown),
        ([b"ZF0x1d               ", &zlib(BAD)[..]].concat(), Verdict::Dangerous),
    ] {
        let report = scanned(&bytes, "x");
        assert_eq!(report.verdict(), wanted, "{}: {report:?}", bytes.escape_ascii());
    }
    // The maximum that is decoded.
    let bomb = gzip(&[b"\x80\x02X\0\0\x10\0", &vec![b'a'; 1 << 20][..], b".", BAD].concat());
    let mut limits = Limits::default();
    assert_eq!(scan_with(&bomb, "x", &limits).verdict(), Verdict::Dangerous);
    limits.header_len = 100_000;
    assert_eq!(scan_with(&bomb, "x", &limits).verdict(), Verdict::Unknown);
    limits.decoded_len = 50_000;
    limits.header_len = 1 << 30;
    assert_eq!(scan_with(&bomb, "x", &limits).verdict(), Verdict::Unknown);
}

/// Returns a pickle as joblib writes it, with its arrays inside.
#[test]
fn arrays_of_joblib_are_passed_over() {
    let text = |text: &str| [&[0x8c, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let dtype = |code: &str| {
        [
            b"cnumpy\ndtype\n".to_vec(),
            text(code),
            b"\x89\x88\x87R(K\x03X\x01\0\0\0<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb".to_vec(),
        ]
        .concat()
    };
    let wrapper = |code: &str, shape: &[u8], alignment: &[u8]| {
        [
            b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}(".to_vec(),
            [text("subclass"), b"cnumpy\nndarray\n".to_vec(), text("shape"), shape.to_vec()]
                .concat(),
            [text("dtype"), dtype(code), text("numpy_array_alignment_bytes"), alignment.to_vec()]
                .concat(),
            b"ub".to_vec(),
        ]
        .concat()
    };
    let one = b"\x80\x04](".to_vec();
    let floats = wrapper("f8", b"K\x02\x85", b"K\x10");
    let end = b"cos\nsystem\n)Re.".to_vec();
    let elements = [&[3, 0xff, 0xff, 0xff][..], &[0xff; 16]].concat();
    let whole = |parts: &[&[u8]]| scanned(&parts.concat(), "x");
    assert_eq!(whole(&[&one, &floats, &elements, b"e."]).verdict(), Verdict::Safe);
    assert_eq!(whole(&[&one, &floats, &elements, &end]).verdict(), Verdict::Dangerous);
    // Without alignment, and with a scalar.
    let plain = wrapper("i4", b")", b"N");
    assert_eq!(
        whole(&[&one, &plain, &[0xff; 4], &floats, &elements, b"e."]).verdict(),
        Verdict::Safe
    );
    // Objects are a separate pickle, in the middle of which `pickle.load` stops: both ends are followed.
    let objects = wrapper("O8", b"K\x02\x85", b"K\x10");
    assert_eq!(whole(&[&one, &objects, b"\x80\x04N.", b"e."]).verdict(), Verdict::Safe);
    assert_eq!(whole(&[&one, &objects, BAD, b"e."]).verdict(), Verdict::Dangerous);
    let after = [&b"\x80\x04N."[..], b"(0e.", BAD].concat();
    assert_eq!(whole(&[&one, &objects, &after]).verdict(), Verdict::Dangerous);
    let only_pickle = [&b"\x80\x04N."[..], b"(cos\nsystem\n)R1(e."].concat();
    assert_eq!(whole(&[&one, &objects, &only_pickle]).verdict(), Verdict::Dangerous);
    // An array with an unknown length.
    let strange = wrapper("f8", b"G\0\0\0\0\0\0\0\0\x85", b"K\x10");
    assert_eq!(whole(&[&one, &strange, &elements, b"e."]).verdict(), Verdict::Unknown);
    // `pickle.load` finds an import where joblib finds elements.
    assert_eq!(
        whole(&[&one, &floats, b"\x13", &[0; 19], &[0; 16], b"e."]).verdict(),
        Verdict::Safe
    );
    let hidden = [b"(cos\nsystem\n)R".as_slice(), &[0xff; 60]].concat();
    assert_eq!(whole(&[&one, &floats, &hidden]).verdict(), Verdict::Dangerous);
}

#[test]
fn old_archives_of_torch_are_read_part_by_part() {
    let storages = [
        &b"\x80\x02K\x01."[..],
        b"\x80\x02(K\x05X\x03\0\0\0cpuctorch\nFloatStorage\nt.",
        &2u64.to_le_bytes(),
        &[0xff; 8],
    ]
    .concat();
    let old = |member: Vec<u8>| {
        let mut member = member;
        // No signature, as before 1988.
        member[257..265].fill(0);
        member[148..156].fill(b' ');
        let sum: u64 = member[..512].iter().map(|byte| u64::from(*byte)).sum();
        member[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        [member, vec![0; 1024]].concat()
    };
    let with = |end: &[u8]| scanned(&old(member("storages", &[&storages, end].concat())), "x");
    assert_eq!(with(b"\x80\x02].").verdict(), Verdict::Safe);
    assert_eq!(with(BAD).verdict(), Verdict::Dangerous);
    assert_eq!(with(b"").verdict(), Verdict::Unknown);
}

/// CPython's unpickler in C skips the rest of a frame if an opcode continues after it: its imports then
/// differ from the visible ones.
#[test]
fn frames_that_end_in_an_opcode_are_not_followed() {
    let frame = |len: u8, rest: &[u8]| [b"\x80\x04\x95", &[len][..], &[0; 7], rest].concat();
    for (bytes, wanted) in [
        // Instead of `numpy.ndarray`, it imports `py.ndarray`.
        (frame(4, b"cnumpy\nndarray\n."), Verdict::Unknown),
        (frame(15, b"cnumpy\nndarray\n."), Verdict::Safe),
        (frame(16, b"cnumpy\nndarray\n."), Verdict::Safe),
        (frame(40, b"cnumpy\nndarray\n."), Verdict::Unknown),
        (frame(1, &frame(2, b"NN.")[2..]), Verdict::Unknown),
    ] {
        assert_eq!(scanned(&bytes, "x").verdict(), wanted, "{}", bytes.escape_ascii());
    }
}
