//! Packages that break a rule each.

use super::accepts::links;
use super::sums::{hex, sha256};
use super::zip::{Built, Entry, Zip};
use super::{MINIMAL, Package, nested, noise, tensor};

/// A broken package; its name is `area.what.case`.
pub(crate) struct Reject {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// Whether opening finds nothing wrong, and loading does.
    pub(crate) opens: bool,
}

pub(crate) fn rejects() -> Vec<Reject> {
    let mut all = Vec::new();
    let mut add = |name: &str, bytes: Vec<u8>| {
        all.push(Reject { name: name.to_owned(), bytes, opens: false });
    };
    ends(&mut add);
    entries(&mut add);
    local_headers(&mut add);
    descriptions(&mut add);
    manifests(&mut add);
    paths(&mut add);
    tensors(&mut add);
    contents(&mut add);
    for (name, bytes) in loads() {
        all.push(Reject { name: name.to_owned(), bytes, opens: true });
    }
    all
}

type Add<'a> = &'a mut dyn FnMut(&str, Vec<u8>);

/// A package with a tensor.
fn sound() -> Package {
    let mut p = Package::minimal();
    p.add("tensor_data/index.toml", tensor("x", "uint8", "[9]", "x.bin"));
    p.add("tensor_data/x.bin", "nine byte");
    p
}

fn with_zip(change: impl Fn(&mut Zip)) -> Built {
    let mut p = sound();
    change(&mut p.zip);
    p.build()
}

/// Errors at the end of a zip.
fn ends(add: Add<'_>) {
    let built = sound().build();
    let b = &built.bytes;
    add("zip.end.cut-in-record", b[..b.len() - 1].to_vec());
    add("zip.end.cut-in-directory", b[..built.directory + 50].to_vec());
    add("zip.end.cut-in-entry", b[..100].to_vec());
    add("zip.end.four-bytes", b[..4].to_vec());
    add("zip.end.comment-too-long", built.clone().patch(built.end + 20, &[1, 0]).bytes);
    add("zip.trailing.byte", [b, &b"\n"[..]].concat());
    add("zip.trailing.zeros", [b, &[0; 512][..]].concat());
    add("zip.trailing.after-comment", {
        let mut bytes = with_zip(|z| z.comment = b"comment".to_vec()).bytes;
        bytes.push(b'!');
        bytes
    });
    // A second end record in the comment of the first, which reaches to the last byte too.
    add("zip.trailing.two-records", {
        let comment = [&[7; 10][..], b"PK\x05\x06", &[0; 16], &[1, 0, 9, 9]].concat();
        with_zip(|z| z.comment = comment.clone()).bytes
    });
    let at = |field: usize, value: &[u8]| built.clone().patch(built.end + field, value).bytes;
    add("zip.multi-disk.number", at(4, &[1, 0]));
    add("zip.multi-disk.directory", at(6, &[1, 0]));
    add("zip.multi-disk.counts", at(8, &[1, 0]));
    add("zip.directory.offset-less", {
        let less = built.directory as u32 - 1;
        at(16, &less.to_le_bytes())
    });
    add("zip.directory.offset-more", at(16, &u32::MAX.to_le_bytes()));
    add("zip.directory.prefix-with-wrong-offsets", [b"#!prefix\n", &b[..]].concat());
    add("zip.directory.too-many", at(8, &[200, 0, 200, 0]));
    add("zip.directory.one-more", at(8, &[5, 0, 5, 0]));
    add("zip.directory.one-less", at(8, &[3, 0, 3, 0]));
    add("zip.directory.signature", built.clone().flip(built.centrals[1]).bytes);
    add("zip.directory.name-too-long", {
        built.clone().patch(built.centrals[3] + 28, &[0xff, 0xff]).bytes
    });

    let built = with_zip(|z| z.zip64 = true);
    let at = |at: usize, value: &[u8]| built.clone().patch(at, value).bytes;
    add("zip.zip64.locator-outside", at(built.locator + 8, &u64::MAX.to_le_bytes()));
    add("zip.zip64.signature", built.clone().flip(built.end64).bytes);
    add("zip.zip64.length", at(built.end64 + 4, &45u64.to_le_bytes()));
    add("zip.zip64.length-most", at(built.end64 + 4, &u64::MAX.to_le_bytes()));
    add("zip.zip64.counts-differ", at(built.end64 + 24, &[9; 16]));
    add("zip.multi-disk.locator", at(built.locator + 16, &[2]));
    let saturated = with_zip(|z| (z.zip64, z.saturated) = (true, true));
    add("zip.directory.zip64-offset", {
        saturated.clone().patch(saturated.end64 + 48, &u64::MAX.to_le_bytes()).bytes
    });
    add("zip.directory.zip64-count", {
        saturated.clone().patch(saturated.end64 + 24, &[0xff; 16]).bytes
    });
}

/// The sound package with its tensor's entry changed.
fn with_entry(change: impl Fn(&mut Entry)) -> Built {
    let mut p = sound();
    change(p.entries.last_mut().expect("the tensor"));
    p.build()
}

/// Errors in one entry of the directory.
fn entries(add: Add<'_>) {
    add("zip.encrypted.flag", with_entry(|e| e.flags = 1).bytes);
    add("zip.encrypted.strongly", with_entry(|e| e.flags = 0x40).bytes);
    add("zip.encrypted.directory", with_entry(|e| e.flags = 0x2000).bytes);
    add("zip.method.bzip2", with_entry(|e| e.method = 12).bytes);
    add("zip.method.patch", with_entry(|e| e.flags = 0x20).bytes);
    add("zip.name.not-utf8", with_entry(|e| e.name = b"tensor_data/\xff".to_vec()).bytes);
    add("zip.name.not-marked", {
        with_entry(|e| (e.name, e.flags) = ("tensor_data/\u{e9}".into(), 0)).bytes
    });
    add("zip.name.nul", with_entry(|e| e.name = b"tensor_data/x.bin\0.txt".to_vec()).bytes);
    add("zip.name.empty", with_entry(|e| e.name = Vec::new()).bytes);
    add("zip.name.two-spellings", {
        let field = [&[0x75, 0x70, 9, 0, 1, 0, 0, 0, 0][..], b"evil"].concat();
        with_entry(|e| e.extra = field.clone()).bytes
    });
    add("zip.kind.device", with_entry(|e| e.mode = 0o020_666).bytes);
    add("zip.kind.folder-by-mode", with_entry(|e| e.mode = 0o040_755).bytes);
    add("zip.kind.folder-with-bytes", {
        with_entry(|e| (e.name, e.mode) = (b"tensor_data/x/".to_vec(), 0o040_755)).bytes
    });
    add("zip.kind.link-by-mode", {
        with_entry(|e| (e.name, e.mode) = (b"tensor_data/x/".to_vec(), 0o120_777)).bytes
    });
    add("zip.extra.too-long", with_entry(|e| e.extra = vec![9, 9, 9, 0, 1]).bytes);
    add("zip.extra.rest", with_entry(|e| e.extra = vec![9, 9, 0, 0, 1]).bytes);
    add("zip.extra.zip64-twice", with_entry(|e| e.extra = [1, 0, 0, 0].repeat(2)).bytes);
    add("zip.extra.spelling-twice", {
        let field = [&[0x75, 0x70, 22, 0, 1, 0, 0, 0, 0][..], b"tensor_data/x.bin"].concat();
        with_entry(|e| e.extra = field.repeat(2)).bytes
    });
    add("zip.zip64.no-field", {
        let built = with_entry(|_| {});
        let at = built.centrals[2] + 24;
        built.patch(at, &[0xff; 4]).bytes
    });
    add("zip.zip64.field-too-short", {
        let built = with_entry(|e| e.extra = vec![1, 0, 4, 0, 9, 0, 0, 0]);
        let at = built.centrals[2] + 24;
        built.patch(at, &[0xff; 4]).bytes
    });
    add("zip.zip64.no-disk", {
        let built = with_entry(|_| {});
        let at = built.centrals[2] + 34;
        built.patch(at, &[0xff; 2]).bytes
    });
    add("zip.multi-disk.entry", {
        let built = with_entry(|_| {});
        let at = built.centrals[2] + 34;
        built.patch(at, &[1, 0]).bytes
    });
    let decoded = |built: Built, len: u32| {
        let at = built.centrals[2] + 24;
        built.patch(at, &len.to_le_bytes()).bytes
    };
    add("zip.length.stored", decoded(with_entry(|_| {}), 10));
    add("zip.length.deflate", decoded(with_entry(Entry::deflate), 14 * 1032 + 1));
    add("zip.length.zstd", decoded(with_entry(Entry::zstd), u32::MAX - 1));
    add("zip.length.zstd-of-nothing", {
        let built = with_entry(|e| (e.method, e.stored) = (93, Vec::new()));
        built.bytes
    });
    add("zip.duplicate-name.entry", sound().with("tensor_data/x.bin", "nine byte").bytes());
    add("zip.overlap.same-header", {
        let built = with_entry(|_| {});
        let at = built.centrals[2] + 42;
        let other = built.locals[1] as u32;
        built.patch(at, &other.to_le_bytes()).bytes
    });
    add("zip.overlap.longer", {
        let built = with_entry(|_| {});
        let at = built.centrals[2] + 20;
        built.patch(at, &[100, 0, 0, 0, 100, 0, 0, 0]).bytes
    });
    let manifest = |field: usize, value: u32| {
        let built = with_entry(|_| {});
        let at = built.centrals[3] + field;
        built.patch(at, &value.to_le_bytes()).bytes
    };
    add("zip.bounds.offset", manifest(42, 0x7fff_ffff));
    add("zip.bounds.in-the-directory", {
        let built = with_entry(|_| {});
        manifest(42, built.directory as u32)
    });
    add("zip.bounds.length", {
        let built = with_entry(|_| {});
        let at = built.centrals[3] + 20;
        let len = (1u32 << 30).to_le_bytes();
        built.patch(at, &[len, len].concat()).bytes
    });
}

/// Errors in the header before an entry's bytes.
fn local_headers(add: Add<'_>) {
    let local = |field: usize, value: &[u8]| {
        let built = with_entry(|_| {});
        let at = built.locals[2] + field;
        built.patch(at, value).bytes
    };
    add("zip.local-header.signature", local(0, b"PK\x01\x02"));
    add("zip.local-header.flags", local(6, &[8, 0]));
    add("zip.local-header.encrypted", local(6, &[1, 0]));
    add("zip.local-header.method", local(8, &[8, 0]));
    add("zip.local-header.crc", local(14, &[0; 4]));
    add("zip.local-header.stored-length", local(18, &[8]));
    add("zip.local-header.decoded-length", local(22, &[8]));
    add("zip.local-header.name", local(30, b"T"));
    add("zip.local-header.name-length", local(26, &[16, 0, 1, 0]));
    add("zip.overlap.extra-too-long", local(28, &[0xff, 0xff]));
    add("zip.zip64.local-no-field", local(18, &[0xff; 8]));
    add("zip.local-header.deferred", {
        let built = with_entry(|e| e.deferred = true);
        let at = built.locals[2] + 18;
        built.patch(at, &[8, 0, 0, 0]).bytes
    });
    // Of `carton.toml`: the descriptor ends where the next header starts.
    let descriptor = |at: usize| {
        let mut package = sound();
        package.entries[0].deferred = true;
        let built = package.build();
        let end = built.locals[1];
        built.flip(end - at).bytes
    };
    add("zip.descriptor.decoded-length", descriptor(4));
    add("zip.descriptor.stored-length", descriptor(8));
    add("zip.descriptor.crc", descriptor(12));
    add("zip.descriptor.signature", descriptor(16));
    add("zip.local-header.of-a-text", {
        let built = with_entry(|_| {});
        let at = built.locals[0] + 30;
        built.patch(at, b"x").bytes
    });
    add("zip.crc32.text", {
        let built = with_entry(|_| {});
        let at = built.locals[0] + 30 + "carton.toml".len();
        built.patch(at, b"#").bytes
    });
    add("deflate.broken.text", {
        let mut p = Package::minimal();
        p.entries[0].deflate();
        p.entries[0].stored[0] = 7;
        p.bytes()
    });
    add("zstd.broken.text", {
        let mut p = Package::minimal();
        p.entries[0].zstd();
        p.entries[0].stored[0] = 7;
        p.bytes()
    });
}

/// Errors in `carton.toml`.
fn descriptions(add: Add<'_>) {
    let mut of = |name: &str, text: &str| add(name, Package::new(text).bytes());
    let runner = MINIMAL.split_once('\n').expect("a line").1;
    of("toml.broken.syntax", &format!("{MINIMAL}x ="));
    of("toml.broken.duplicate-key", &format!("spec_version = 1\n{MINIMAL}"));
    of("toml.broken.duplicate-table", &format!("{MINIMAL}[runner]\n"));
    of("toml.broken.bare-control", &format!("{MINIMAL}x = \"\u{7}\""));
    of("toml.depth.arrays", &format!("{MINIMAL}x = {}", "[".repeat(5000)));
    of("toml.depth.tables", &format!("{MINIMAL}x = {}", "{a=".repeat(5000)));
    of("toml.depth.dotted", &format!("{MINIMAL}{} = 1", ["a"; 5000].join(".")));
    of("toml.depth.header", &format!("{MINIMAL}[{}]", ["a"; 5000].join(".")));
    of("carton.version.two", &format!("spec_version = 2\n{runner}"));
    of("carton.missing-field.version", runner);
    of("carton.missing-field.runner", "spec_version = 1\n");
    for field in ["runner_name", "required_framework_version", "runner_compat_version"] {
        let lines: Vec<&str> = MINIMAL.lines().filter(|line| !line.starts_with(field)).collect();
        of(&format!("carton.missing-field.{}", field.replace('_', "-")), &lines.join("\n"));
    }
    let spec = |fields: &str| format!("{MINIMAL}\n[[input]]\n{fields}\n");
    of("carton.missing-field.input-name", &spec("dtype = \"int8\"\nshape = []"));
    of("carton.missing-field.input-dtype", &spec("name = \"x\"\nshape = []"));
    of("carton.missing-field.input-shape", &spec("name = \"x\"\ndtype = \"int8\""));
    of("carton.missing-field.self-test-inputs", &format!("{MINIMAL}\n[[self_test]]\n"));
    of("carton.field.version", &format!("spec_version = \"1\"\n{runner}"));
    of("carton.field.name", &format!("spec_version = 1\nmodel_name = 1\n{runner}"));
    of("carton.field.platforms", &format!("spec_version = 1\nrequired_platforms = [1]\n{runner}"));
    of(
        "carton.field.compat-version",
        &MINIMAL.replace("compat_version = 1", "compat_version = -1"),
    );
    of("carton.field.runner", "spec_version = 1\nrunner = \"noop\"\n");
    of("carton.field.opts", &format!("{MINIMAL}opts = 3\n"));
    of("carton.field.inputs", &format!("spec_version = 1\ninput = \"x\"\n{runner}"));
    of("carton.field.input", &format!("spec_version = 1\ninput = [1]\n{runner}"));
    of("carton.field.self-test", &format!("{MINIMAL}\n[[self_test]]\ninputs = {{ x = 1 }}\n"));
    of("carton.dtype.input", &spec("name = \"x\"\ndtype = \"float16\"\nshape = []"));
    let shape = |shape: &str| spec(&format!("name = \"x\"\ndtype = \"int8\"\nshape = {shape}"));
    of("carton.shape.number", &shape("3"));
    of("carton.shape.negative", &shape("[-1]"));
    of("carton.shape.fraction", &shape("[1.5]"));
    of("carton.shape.rank", &shape(&format!("{:?}", [1; 65])));
    let x = "name = \"x\"\ndtype = \"int8\"\nshape = []\n";
    of("carton.duplicate-name.inputs", &spec(&format!("{x}[[input]]\n{x}")));
    of("carton.duplicate-name.outputs", &format!("{MINIMAL}\n[[output]]\n{x}[[output]]\n{x}"));
    of("carton.framework-version.word", &MINIMAL.replace("=1.0.0", "latest"));
    of("carton.framework-version.empty", &MINIMAL.replace("=1.0.0", ""));
    let test = |to: &str| format!("{MINIMAL}\n[[self_test]]\ninputs = {{ x = \"{to}\" }}\n");
    of("carton.reference.no-prefix", &test("tensor_data/x"));
    of("carton.reference.misc-in-self-test", &test("@misc/x"));
    of("carton.reference.no-tensor", &test("@tensor_data/x"));
    let example = |to: &str| format!("{MINIMAL}\n[[example]]\nsample_out = {{ x = \"{to}\" }}\n");
    of("carton.reference.no-file", &example("@misc/x.png"));
    of("carton.reference.out-of-misc", &example("@misc/../carton.toml"));
    of("carton.reference.no-tensor-in-example", &example("@tensor_data/x"));
    add("toml.broken.not-utf8", {
        let mut p = Package::minimal();
        p.entries[0] = Entry::new("carton.toml", &[MINIMAL.as_bytes(), b"\n# \xff\n"].concat());
        p.bytes()
    });
}

/// Errors in `MANIFEST` and `LINKS`.
fn manifests(add: Add<'_>) {
    let sound = Package::minimal().with("model/a", "a").with("model/b", "b");
    let rows = sound.listing();
    let mut of = |name: &str, text: &str| {
        let mut p = sound.clone();
        p.manifest = Some(text.into());
        add(name, p.bytes());
    };
    of("carton.manifest.crlf", &rows.replace('\n', "\r\n"));
    of("carton.manifest.blank-line", &rows.replacen('\n', "\n\n", 1));
    of("carton.manifest.blank-line-at-the-end", &format!("{rows}\n"));
    of("carton.manifest.no-equals", &rows.replacen('=', " ", 1));
    of("carton.manifest.space", &rows.replacen('=', "= ", 1));
    of("carton.manifest.upper-case", &rows.to_uppercase().replace("CARTON.TOML", "carton.toml"));
    of("carton.manifest.short-hash", &rows.trim_end()[..rows.len() - 3]);
    of("carton.manifest.lists-itself", &format!("MANIFEST={}\n{rows}", "0".repeat(64)));
    of("carton.manifest.lists-links", &format!("LINKS={}\n{rows}", "0".repeat(64)));
    let mut lines: Vec<&str> = rows.lines().collect();
    lines.swap(1, 2);
    of("carton.manifest-order.swapped", &lines.join("\n"));
    of("carton.manifest-order.twice", &rows.replace("model/b", "model/a"));
    of("carton.unlisted.file", rows.rsplit_once("model/b").expect("the file exists").0);
    of("carton.unlisted.all", "");
    of("carton.missing-file.row", &format!("{rows}model/c={}\n", "0".repeat(64)));
    of("carton.path.row", &format!("../up={}\n{rows}", "0".repeat(64)));
    of(
        "carton.hash.carton-toml",
        &rows.replacen(&hex(&sha256(MINIMAL.as_bytes())), &"0".repeat(64), 1),
    );
    add("carton.manifest.not-utf8", {
        let mut p = sound.clone();
        p.manifest = Some([b"\xff=", "0".repeat(64).as_bytes(), b"\n", rows.as_bytes()].concat());
        p.bytes()
    });
    add("carton.no-manifest.zip", {
        let mut zip = Zip::default();
        zip.entries.push(Entry::new("carton.toml", MINIMAL.as_bytes()));
        zip.build().bytes
    });
    add("carton.hash.index-toml", {
        let mut p = Package::minimal().with("tensor_data/index.toml", "tensor = []\n");
        p.entries[1].listed = Some(b"tensor = [ ]\n".to_vec());
        p.bytes()
    });
    let url = "[\"https://example.com\"]";
    let mut of = |name: &str, text: &str| add(name, Package::minimal().with("LINKS", text).bytes());
    of("carton.links-version.two", "version = 2\n[urls]\n");
    of("carton.missing-field.links-version", "[urls]\n");
    of("carton.missing-field.links-urls", "version = 1\n");
    of("carton.links.upper-case", &format!("version = 1\n[urls]\n{} = {url}\n", "A".repeat(64)));
    of("carton.links.short", &format!("version = 1\n[urls]\nabcd = {url}\n"));
    of("carton.links.no-address", &format!("version = 1\n[urls]\n{} = []\n", "a".repeat(64)));
    of("carton.field.links-address", &format!("version = 1\n[urls]\n{} = \"x\"\n", "a".repeat(64)));
    of("toml.broken.links", "version = 1\n[urls");
    add("carton.missing-file.other-link", {
        let mut p = Package::minimal().with("LINKS", links(&[b"another"]));
        p.elsewhere("model/w", b"w");
        p.bytes()
    });
}

/// Paths that lead out, or that meet.
fn paths(add: Add<'_>) {
    let mut of = |name: &str, paths: &[&str]| {
        let mut p = Package::minimal();
        paths.iter().for_each(|path| p.add(path, "x").flags |= 1 << 11);
        add(name, p.bytes());
    };
    of("carton.path.up", &["../evil"]);
    of("carton.path.up-in-the-middle", &["model/../../evil"]);
    of("carton.path.absolute", &["/etc/passwd"]);
    of("carton.path.backslash", &["model\\..\\..\\evil"]);
    of("carton.path.drive", &["C:evil"]);
    of("carton.path.drive-with-slash", &["C:/evil"]);
    of("carton.path.empty-part", &["model//x"]);
    of("carton.path.dot", &["model/./x"]);
    of("carton.path.control", &["model/a\tb"]);
    of("carton.path.too-long", &[&("long/".repeat(204) + "12345")]);
    of("carton.path.part-too-long", &[&format!("model/{}", "p".repeat(256))]);
    of("carton.path.part-too-long-in-bytes", &[&format!("model/{}/x", "\u{e9}".repeat(128))]);
    of("carton.collision.file-and-folder", &["model/a", "model/a/b"]);
    of("carton.collision.manifest-with-slash", &["/MANIFEST"]);
    of("carton.collision.below-links", &["LINKS/x"]);
    of("carton.collision.file-for-the-model", &["model"]);
    of("carton.collision.between-twins", &["model/A", "model/a/b", "model/A/c"]);
    add("carton.path.folder", Package::minimal().with("../evil/", "").bytes());
    add("carton.collision.folder-entry", {
        Package::minimal().with("model/a", "x").with("model/a/", "").bytes()
    });
    let mut of = |name: &str, path: &str, target: &str| {
        let mut p = Package::minimal().with("model/w", "w").with("misc/w", "w");
        p.link(path, target, b"w");
        add(name, p.bytes());
    };
    of("carton.symlink.absolute", "model/link", "/etc/passwd");
    of("carton.symlink.up", "model/link", "../../etc/passwd");
    of("carton.symlink.other-top-folder", "model/link", "../misc/w");
    of("carton.symlink.out-and-in", "model/link", "../model/w");
    of("carton.symlink.nowhere", "model/link", "x");
    of("carton.symlink.folder", "model/a/link", "..");
    of("carton.symlink.empty", "model/link", "");
    of("carton.symlink.itself", "model/link", "link");
    of("carton.symlink.too-long", "model/link", &"./".repeat(2049));
    of("carton.symlink.at-the-top", "link", "model/w");
    add("carton.symlink.round", {
        let mut p = Package::minimal();
        p.link("model/a", "b", b"");
        p.link("model/b", "a", b"");
        p.bytes()
    });
    add("carton.symlink.hash-of-the-link", {
        let mut p = Package::minimal().with("model/w", "content");
        p.link("model/link", "w", b"w");
        p.entries[2].listed = None;
        p.bytes()
    });
    add("carton.symlink.text", {
        let mut p = Package::minimal().with("model/w", "w");
        p.link("tensor_data/index.toml", "other.toml", b"tensor = []");
        p.add("tensor_data/other.toml", "tensor = []");
        p.bytes()
    });
    add("carton.symlink.not-utf8", {
        let mut p = Package::minimal().with("model/w", "w");
        p.link("model/link", "w", b"w");
        (p.entries[2].content, p.entries[2].stored) = (vec![0xff], vec![0xff]);
        p.bytes()
    });
}

/// Errors in `tensor_data/index.toml`, and in the files that it names.
fn tensors(add: Add<'_>) {
    let mut of = |name: &str, index: &str| {
        let p = Package::minimal().with("tensor_data/index.toml", index);
        add(name, p.with("tensor_data/x.bin", noise(12)).bytes());
    };
    let x = |dtype: &str, shape: &str| tensor("x", dtype, shape, "x.bin");
    of("carton.dtype.tensor", &x("bool", "[12]"));
    of("carton.shape.tensor-number", &x("uint8", "12"));
    of("carton.shape.tensor-negative", &x("uint8", "[-12]"));
    of("carton.shape.tensor-symbol", &x("uint8", "[\"n\"]"));
    of("carton.shape.tensor-rank", &x("uint8", &format!("{:?}", [1; 65])));
    of("carton.shape.overflow", &x("uint8", &format!("{:?}", [i64::MAX, i64::MAX, 2])));
    of("carton.shape.overflow-in-bytes", &x("float64", &format!("{:?}", [i64::MAX])));
    of("carton.tensor-len.more", &x("uint8", "[11]"));
    of("carton.tensor-len.less", &x("float32", "[2, 2]"));
    of("carton.tensor-len.scalar", &x("float64", "[]"));
    of("carton.tensor-len.nothing", &x("int8", "[0]"));
    of("carton.tensor-file.missing", &tensor("x", "uint8", "[12]", "y.bin"));
    of("carton.tensor-file.up", &tensor("x", "uint8", "[12]", "../carton.toml"));
    of("carton.tensor-file.absolute", &tensor("x", "uint8", "[12]", "/x.bin"));
    of("carton.tensor-file.index", &tensor("x", "string", "[12]", "index.toml"));
    of("carton.duplicate-name.tensors", &[x("uint8", "[12]"), x("uint8", "[12]")].concat());
    let sound = x("uint8", "[12]");
    of("carton.nested.missing", &[sound.clone(), nested("n", &["y"])].concat());
    of("carton.nested.itself", &[sound.clone(), nested("n", &["n"])].concat());
    of(
        "carton.nested.of-nested",
        &[sound.clone(), nested("m", &["x"]), nested("n", &["x", "m"])].concat(),
    );
    of(
        "carton.nested.dtypes",
        &[sound.clone(), tensor("y", "int8", "[12]", "x.bin"), nested("n", &["x", "y"])].concat(),
    );
    of(
        "carton.nested.ranks",
        &[sound.clone(), tensor("y", "uint8", "[12, 1]", "x.bin"), nested("n", &["x", "y"])]
            .concat(),
    );
    of(
        "carton.nested.shape",
        &[sound.clone(), nested("n", &["x"]).replace("inner", "shape = [2]\ninner")].concat(),
    );
    of("carton.missing-field.tensor-name", &sound.replace("name", "nom"));
    of("carton.missing-field.tensor-dtype", &sound.replace("dtype", "type"));
    of("carton.missing-field.tensor-shape", &sound.replace("shape", "dims"));
    of("carton.missing-field.tensor-file", &sound.replace("file", "path"));
    of("carton.field.tensor", "tensor = 1");
    of("carton.field.inner", "[[tensor]]\nname = \"n\"\ndtype = \"nested\"\ninner = [1]\n");
    add("carton.no-tensor-index.file", {
        Package::minimal().with("tensor_data/x.bin", "x").bytes()
    });
}

/// What only the whole shows.
fn contents(add: Add<'_>) {
    add("format.unknown.zip", {
        let mut zip = Zip::default();
        zip.entries.push(Entry::new("x.txt", b"hello"));
        zip.build().bytes
    });
    // Everything else of a zip in front of it: the first entry of its directory.
    add("zip.bounds.before-the-file", {
        let built = sound().build();
        let at = built.centrals[0] + 42;
        built.patch(at, &u32::MAX.to_le_bytes().map(|b| b & 0xfe)).bytes
    });
}

/// Files that can be opened; the error is in the bytes of a tensor.
fn loads() -> Vec<(&'static str, Vec<u8>)> {
    let of = |change: &dyn Fn(&mut Entry)| with_entry(change).bytes;
    vec![
        ("carton.hash.tensor", of(&|e| e.listed = Some(b"nine_byte".to_vec()))),
        (
            "deflate.broken.block",
            of(&|e| {
                e.deflate();
                e.stored[0] = 7
            }),
        ),
        (
            "deflate.broken.cut",
            of(&|e| {
                e.deflate();
                e.stored.pop();
            }),
        ),
        (
            "deflate.broken.trailing",
            of(&|e| {
                e.deflate();
                e.stored.push(0)
            }),
        ),
        (
            "deflate.length.more",
            of(&|e| {
                e.method = 8;
                e.stored = super::zip::deflate(b"more than nine");
            }),
        ),
        (
            "deflate.length.less",
            of(&|e| {
                e.method = 8;
                e.stored = super::zip::deflate(b"less");
            }),
        ),
        (
            "zstd.broken.block",
            of(&|e| {
                e.zstd();
                e.stored[0] = 7
            }),
        ),
        (
            "zstd.length.less",
            of(&|e| {
                e.method = 93;
                e.stored = super::zip::zstd(b"less");
            }),
        ),
    ]
}
