//! `--layouts`: tensors of layouts that a description file defines.

use crate::command::holdall;
use holdall::{ComponentSpec, DType, Layout, Role, TensorSpec, WriteOptions, Writer, formats};

const DESCRIPTION: &str = r#"
[layouts.quantized_4bit]
about = "nibbles by rows"
shape = ["rows", "columns"]
index = ["row", "column"]
value = "(data[row, column] - zero_point[row]) * scale[row]"

[layouts.quantized_4bit.components]
data = { bits = 4, shape = ["rows", "columns"] }
scale = { read_as = "f32", shape = ["rows"] }
zero_point = { read_as = "f32", shape = ["rows"] }
"#;

struct Made {
    dir: tempfile::TempDir,
}

impl Made {
    /// Writes a zTensor 1.0 file of one tensor, and the description of its layout.
    fn new() -> Made {
        let dir = tempfile::tempdir().unwrap();
        let mut encode = holdall::EncodeOptions::new();
        encode.version = Some("1.0".into());
        let options = WriteOptions::new()
            .with_format(formats::by_name("ztensor").unwrap())
            .with_encode(encode);
        let mut writer = Writer::create(dir.path().join("w.zt"), &options).unwrap();
        let mut spec = TensorSpec::dense("w", DType::U8, [2, 4]);
        spec.layout = Layout::Other("quantized_4bit".into());
        let part = |role: &str, len| ComponentSpec::new(Role::from_name(role), DType::U8, len);
        spec.components = vec![part("data", 4), part("scale", 8), part("zero_point", 8)];
        let floats = |all: [f32; 2]| all.map(f32::to_le_bytes).concat();
        let parts = [&[0x10, 0x32, 0x54, 0xf6][..], &floats([0.5, 2.0]), &floats([1.0, 0.0])];
        writer.add(spec, &parts).unwrap();
        writer.finish().unwrap();
        std::fs::write(dir.path().join("layouts.toml"), DESCRIPTION).unwrap();
        Made { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn values_are_shown_checked_extracted_and_converted() {
    let made = Made::new();
    let (file, layouts) = (made.path("w.zt"), made.path("layouts.toml"));
    let unknown = holdall(["inspect", &file, "-t", "w"]).ends_with(0);
    assert!(unknown.out.contains("unknown layout"), "{unknown:?}");
    let shown = holdall(["inspect", &file, "-t", "w", "--layouts", &layouts]).ends_with(0);
    assert!(shown.out.contains("as described: nibbles by rows"), "{}", shown.out);
    assert!(shown.out.contains("[[-0.5  0.0  0.5  1.0]"), "{}", shown.out);
    assert!(shown.out.contains("[ 8.0 10.0 12.0 30.0]"), "{}", shown.out);
    let stats =
        holdall(["--layouts", &layouts, "inspect", "--json", "--stats", &file]).ends_with(0);
    assert_eq!(stats.json()["tensors"][0]["stats"]["max"], 30.0, "{}", stats.out);

    let checked = holdall(["verify", &file, "--layouts", &layouts]).ends_with(0);
    assert!(checked.out.contains("1 tensor with a value for every element"), "{}", checked.out);
    let checked = holdall(["verify", "--json", &file, "--layouts", &layouts]).ends_with(0).json();
    assert_eq!((&checked["described"], &checked["verdict"]), (&1.into(), &"sound".into()));

    let raw = made.path("w.raw");
    let e = holdall(["extract", &file, "w", "--dense", "-o", &raw]).ends_with(4);
    assert!(e.err.contains("--layouts FILE"), "{}", e.err);
    holdall(["extract", &file, "w", "--dense", "-o", &raw, "--layouts", &layouts]).ends_with(0);
    let expected: Vec<u8> = [-0.5f32, 0.0, 0.5, 1.0, 8.0, 10.0, 12.0, 30.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    assert_eq!(std::fs::read(&raw).unwrap(), expected);

    let target = made.path("w.safetensors");
    let e = holdall(["convert", &file, &target, "--layouts", &layouts]).ends_with(4);
    assert!(e.err.contains("--dense"), "{}", e.err);
    holdall(["convert", &file, &target, "--dense", "--layouts", &layouts]).ends_with(0);
    let same = holdall(["diff", "--json", &file, &target, "--layouts", &layouts]);
    assert_eq!(same.json()["values_agree"], true, "{}", same.out);
}

#[test]
fn errors_in_a_description_name_file_line_and_key() {
    let made = Made::new();
    let layouts = made.path("bad.toml");
    std::fs::write(&layouts, DESCRIPTION.replace("* scale[row]", "* scale")).unwrap();
    let e = holdall(["inspect", &made.path("w.zt"), "--json", "--layouts", &layouts]).ends_with(1);
    let error = e.error();
    assert_eq!(error["code"], "layouts/expression");
    assert_eq!(error["source"], layouts.as_str());
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("line 6: `layouts.quantized_4bit.value`: "), "{message}");
    let both = ["--layouts", &made.path("layouts.toml"), "--layouts", &made.path("layouts.toml")];
    let e = holdall([&["verify", &made.path("w.zt")][..], &both].concat()).ends_with(1);
    assert!(e.err.contains("[layouts/taken]"), "{}", e.err);
}
