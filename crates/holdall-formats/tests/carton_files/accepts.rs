//! Sound packages.

use super::sums::{hex, sha256};
use super::zip::Entry;
use super::{MINIMAL, Package, nested, noise, tensor};

/// A `carton.toml` with all there is, ours included.
const FULL: &str = r#"spec_version = 1
model_name = "everything"
short_description = "A package with all there is"
model_description = """
Two lines,
with a picture: ![](@misc/picture.png)
"""
license = "MIT OR Apache-2.0"
repository = "https://example.com/repository"
homepage = "https://example.com"
required_platforms = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"]
later_field = { of = ["another", "version"] }

[[input]]
name = "x"
dtype = "float32"
shape = ["batch", 3]
description = "Numbers"
internal_name = "scope/x:0"

[[input]]
name = "words"
dtype = "string"
shape = "*"

[[output]]
name = "y"
dtype = "int64"
shape = ["batch", "*"]

[[output]]
name = "rows"
dtype = "float64"
shape = "whatever"

[[self_test]]
name = "two rows"
description = "Of two"
inputs = { x = "@tensor_data/x", words = "@tensor_data/words" }
expected_out = { y = "@tensor_data/y", rows = "@tensor_data/rows" }

[self_test.compare]
rtol = 1e-3
atol = 0
equal_nan = true

[[self_test]]
inputs = { x = "@tensor_data/x", words = "@tensor_data/words" }

[[example]]
name = "a picture"
inputs = { x = "@misc/picture.png", words = "@tensor_data/words" }
sample_out = { y = "@tensor_data/y" }

[runner]
runner_name = "onnx"
required_framework_version = ">=1.12, <2"
runner_compat_version = 1

[runner.opts]
threads = 4
scale = 1.5
device = "cpu"
verbose = false

[card]
intended_use = "Tests"

[lineage]
base_model = ["one", "another"]

[sbom]
file = "misc/sbom.json"

[later_table]
x = 1
"#;

/// A package with all there is.
fn full() -> Package {
    let f64s = |range: std::ops::Range<u8>| -> Vec<u8> {
        range.flat_map(|n| f64::from(n).to_le_bytes()).collect()
    };
    let mut p = Package::new(FULL);
    let mut index = String::new();
    index += &tensor("x", "float32", "[2, 3]", "tensor_0.bin");
    index += &tensor("words", "string", "[2, 2]", "tensor_1.toml");
    index += &tensor("y", "int64", "[2, 1]", "tensor_2.bin");
    index += &tensor("row 0", "float64", "[3]", "tensor_3.bin");
    index += &tensor("row 1", "float64", "[2]", "tensor_4.bin");
    index += &nested("rows", &["row 0", "row 1", "row 0"]);
    index += &tensor("scalar", "uint8", "[]", "tensor_5.bin");
    index += &tensor("nothing", "int16", "[0, 7]", "tensor_6.bin");
    p.add("tensor_data/index.toml", index);
    let x: Vec<u8> = (0..6).flat_map(|n| (n as f32 / 2.0).to_le_bytes()).collect();
    p.add("tensor_data/tensor_0.bin", x);
    p.add("tensor_data/tensor_1.toml", "data = [\"a\", \"\", \"\\u00e9\", \"\"\"d\ne\"\"\"]\n");
    p.add("tensor_data/tensor_2.bin", [7i64, -8].map(i64::to_le_bytes).concat());
    p.add("tensor_data/tensor_3.bin", f64s(0..3));
    p.add("tensor_data/tensor_4.bin", f64s(3..5));
    p.add("tensor_data/tensor_5.bin", [255]);
    p.add("tensor_data/tensor_6.bin", []);
    p.add("misc/picture.png", noise(50));
    p.add("misc/sbom.json", "{}");
    p.add("model/weights/w=1.bin", noise(200));
    p.add("model/\u{5c64}.txt", "layer");
    p
}

/// A package with one tensor of noise, which `change` is given.
fn stored(change: impl Fn(&mut Entry)) -> Package {
    let mut p = Package::minimal();
    p.add("tensor_data/index.toml", tensor("x", "int32", "[5, 5]", "x.bin"));
    change(p.add("tensor_data/x.bin", noise(100)));
    change(p.entries.first_mut().expect("carton.toml"));
    p
}

pub(crate) fn accepts() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = vec![
        ("minimal", Package::minimal().bytes()),
        ("full", full().bytes()),
        ("deflate", stored(Entry::deflate).bytes()),
        ("zstd", stored(Entry::zstd).bytes()),
        ("streamed", stored(|e| e.deferred = true).bytes()),
        ("streamed-zip64", stored(|e| (e.deferred, e.zip64) = (true, true)).bytes()),
        ("dos", stored(|e| (e.system, e.mode) = (0, 0)).bytes()),
    ];
    // Padded to a multiple of 64 as tools that align do, and once with bytes that are not a field.
    let aligned = stored(|e| {
        e.local_extra = [&[0x35, 0xd9, 40, 0][..], &[0; 40]].concat();
        e.extra = vec![0; 3];
        e.comment = b"of an entry".to_vec();
    });
    all.push(("aligned", aligned.bytes()));
    all.push(("padded", stored(|e| e.local_extra = vec![0; 7]).bytes()));

    let mut p = stored(|_| {});
    p.zip.comment = b"a comment, which may be of any bytes: \xff\x00 PK\x05".to_vec();
    all.push(("comment", p.bytes()));
    let mut p = stored(|_| {});
    p.zip.prefix = b"#!/usr/bin/env something\n".to_vec();
    all.push(("prefix", p.bytes()));
    let mut p = stored(|e| e.zip64 = true);
    (p.zip.zip64, p.zip.saturated) = (true, true);
    all.push(("zip64", p.bytes()));
    let mut p = stored(|_| {});
    p.zip.zip64 = true;
    all.push(("zip64-both", p.bytes()));

    let mut p = Package::minimal().with("model/", "").with("model/a/", "").with("misc/", "");
    p.add("model/a/w", "w");
    all.push(("folders", p.bytes()));

    let mut p = Package::minimal();
    p.manifest = Some(p.listing().trim_end().into());
    all.push(("manifest-without-line-feed", p.bytes()));

    let mut p = Package::minimal();
    p.add("model/blobs/abc", "content");
    p.link("model/snapshots/w", "../blobs/abc", b"content");
    p.link("model/snapshots/again", "./w", b"content");
    all.push(("symlinks", p.bytes()));

    let mut p = Package::minimal();
    p.add("tensor_data/index.toml", {
        tensor("here", "uint8", "[4]", "here.bin") + &tensor("there", "uint8", "[3]", "there.bin")
    });
    p.add("tensor_data/here.bin", "here");
    p.elsewhere("tensor_data/there.bin", b"far");
    p.elsewhere("model/weights", b"weights");
    p.elsewhere("model/weights again", b"weights");
    p.add("LINKS", links(&[b"far", b"weights", b"unused"]));
    all.push(("links", p.bytes()));

    let mut p = Package::minimal();
    p.elsewhere("tensor_data/index.toml", b"tensor = []\n");
    p.elsewhere("tensor_data/x.bin", b"x");
    p.add("LINKS", links(&[b"tensor = []\n", b"x"]));
    all.push(("linked-index", p.bytes()));

    // A link to a file elsewhere.
    let mut p = Package::minimal();
    p.elsewhere("model/blobs/abc", b"content");
    p.link("model/w", "blobs/abc", b"content");
    p.add("LINKS", links(&[b"content"]));
    all.push(("linked-target", p.bytes()));

    // Paths that are one where case or the form of Unicode is ignored.
    let mut p = Package::minimal();
    for path in [
        "model/Weights",
        "model/weights",
        "model/caf\u{e9}",
        "model/cafe\u{301}",
        "model/stra\u{df}e",
        "model/STRASSE",
        "model/\u{1e9e}",
        "model/\u{df}",
        "model/A/x",
        "model/a/y",
        "model/B",
    ] {
        p.add(path, path).flags |= 1 << 11;
    }
    p.elsewhere("model/b", b"b");
    p.add("LINKS", links(&[b"b"]));
    p.add("model/C/", "");
    p.add("model/c/x", "x");
    all.push(("twins", p.bytes()));
    // And the names of a package's own.
    let mut p = Package::minimal();
    for path in ["Carton.toml", "links", "Manifest/x", "Tensor_data/x", "Model/a"] {
        p.add(path, path);
    }
    all.push(("twins-of-its-own", p.bytes()));

    let mut p = Package::minimal();
    p.add("tensor_data/index.toml", {
        tensor("x", "uint8", "[2]", "a/x.bin") + &tensor("s", "string", "[1]", "a/b/s.toml")
    });
    p.add("tensor_data/a/x.bin", "xy");
    p.add("tensor_data/a/b/s.toml", "data = [\"s\"]\n");
    all.push(("tensor-folders", p.bytes()));

    // Two names of one file.
    let mut p = Package::minimal();
    p.add("tensor_data/index.toml", {
        tensor("a", "uint8", "[4]", "x") + &tensor("b", "int32", "[]", "x") + &nested("none", &[])
    });
    p.add("tensor_data/x", "abcd");
    all.push(("shared", p.bytes()));

    all.push(("misfits", misfits().bytes()));
    all.push(("extensions", extensions().bytes()));
    all
}

/// The text of `LINKS` for files of these contents.
pub(crate) fn links(contents: &[&[u8]]) -> String {
    let row =
        |content: &&[u8]| format!("{} = [\"https://example.com/file\"]\n", hex(&sha256(content)));
    let rows: String = contents.iter().map(row).collect();
    format!("version = 1\n\n[urls]\n{rows}")
}

/// A self-test that fits in nothing: read with a warning.
fn misfits() -> Package {
    let text = format!(
        "{MINIMAL}\n[[input]]\nname = \"x\"\ndtype = \"float32\"\nshape = [\"n\"]\n\
         [[input]]\nname = \"z\"\ndtype = \"uint8\"\nshape = [\"n\", 2]\n\
         [[input]]\nname = \"missing\"\ndtype = \"uint8\"\nshape = []\n\
         [[output]]\nname = \"y\"\ndtype = \"uint8\"\nshape = \"s\"\n\
         [[self_test]]\nname = \"none\"\n\
         inputs = {{ x = \"@tensor_data/a\", z = \"@tensor_data/b\", other = \"@tensor_data/a\" }}\n\
         expected_out = {{ y = \"@tensor_data/rows\" }}\n\
         [[self_test]]\n\
         inputs = {{ x = \"@tensor_data/f\", z = \"@tensor_data/b\", missing = \"@tensor_data/s\" }}\n\
         expected_out = {{ y = \"@tensor_data/b\" }}\n"
    );
    let mut p = Package::new(&text);
    let mut index = tensor("a", "uint8", "[4]", "a.bin");
    index += &tensor("b", "uint8", "[1, 2]", "b.bin");
    index += &nested("rows", &["a"]);
    // The second test is of the right types; but `n` is 4 here, and 1 there.
    index += &tensor("f", "float32", "[4]", "f.bin");
    index += &tensor("s", "uint8", "[]", "s.bin");
    p.add("tensor_data/index.toml", index);
    p.add("tensor_data/a.bin", "abcd");
    p.add("tensor_data/b.bin", "ab");
    p.add("tensor_data/f.bin", [0; 16]);
    p.add("tensor_data/s.bin", "s");
    p
}

/// Fields of ours and of later texts that are something else here: read with a warning.
fn extensions() -> Package {
    let runner = MINIMAL.split_once('\n').expect("a line").1;
    let text = format!(
        "spec_version = 1\nlicense = 3\ncard = \"x\"\nlineage = {{ base_model = 1 }}\n\
         sbom = {{ file = \"../x\" }}\n{runner}\n[runner.opts]\nwhen = 2020-01-01\nlist = [1]\n"
    );
    Package::new(&text)
}
