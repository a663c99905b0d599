//! A dataset of many texts, images and labels, built by the command from lines of JSON and files: a hundred thousand
//! records, or a million with `HOLDALL_WHOLE`, which `cargo xtask whole` sets.

use crate::command::holdall;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;

fn count() -> u64 {
    if std::env::var_os("HOLDALL_WHOLE").is_some() { 1_000_000 } else { 100_000 }
}

const IMAGES: u64 = 100;
const LABELS: [&str; 3] = ["cat", "dog", "other"];

fn label(id: u64) -> &'static str {
    LABELS[(id * 7 % 13 % 3) as usize]
}

fn image(id: u64) -> Vec<u8> {
    let pixels = (0..64).map(|at| (id % IMAGES * 31 + at * 7) as u8);
    b"P5 8 8 255\n".iter().copied().chain(pixels).collect()
}

/// Writes the lines and the images, and returns the names of both.
fn write(folder: &Path) -> (String, String) {
    let images = folder.join("images");
    std::fs::create_dir(&images).unwrap();
    for id in 0..IMAGES {
        std::fs::write(images.join(format!("{id}.pgm")), image(id)).unwrap();
    }
    let mut lines = String::new();
    for id in 0..count() {
        let (label, at) = (label(id), id % IMAGES);
        writeln!(lines, r#"{{"id":{id},"label":"{label}","score":{},"caption":"number {id}, a {label}","image":"{at}.pgm"}}"#, id % 8).unwrap();
    }
    let path = folder.join("all.ndjson");
    std::fs::write(&path, lines).unwrap();
    (path.display().to_string(), images.display().to_string())
}

#[test]
fn many_records_are_built_sampled_filtered_and_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (lines, images) = write(folder.path());
    let schema = json!({
        "type": "object",
        "TypeDef:Struct": ["id", "label", "score", "caption", "image"],
        "required": ["id", "label", "score", "caption", "image"],
        "properties": {
            "id": {"TypeDef:Uint32": true},
            "label": {"enum": LABELS, "TypeDef:Enum": true},
            "score": {"TypeDef:Float32": true},
            "caption": {"type": "string", "TypeDef:String": true},
            "image": {"type": "string", "contentEncoding": "base64", "TypeDef:Bytes": true}
        }
    });
    // The new schema adds a member, renames one and widens one.
    let mut later = schema.clone();
    later["TypeDef:Struct"] = json!(["id", "stars", "label", "score", "text", "image"]);
    later["required"] = later["TypeDef:Struct"].clone();
    let members = later["properties"].as_object_mut().unwrap();
    let caption = members.remove("caption").unwrap();
    members.insert("text".to_owned(), caption);
    members.insert("stars".to_owned(), json!({"TypeDef:Uint8": true, "default": 3}));
    members.insert("id".to_owned(), json!({"TypeDef:Uint64": true}));
    let (one, two, old, new) = (path("1.json"), path("2.json"), path("old.mt"), path("new.mt"));
    std::fs::write(&one, schema.to_string()).unwrap();
    std::fs::write(&two, later.to_string()).unwrap();

    let from = ["--records", &lines, "--files", &images, "--file-member", "image"];
    let build = [&["build", "--schema", &one][..], &from, &["-o", &old, "--json"]].concat();
    assert_eq!(holdall(build).ends_with(0).json()["records"]["count"], count());

    let rows = |args: &[&str]| -> Vec<serde_json::Value> {
        let out = holdall([&["records"], args, &["--json"]].concat()).ends_with(0).out;
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let sample = rows(&[&old, "--sample", "50", "--seed", "7"]);
    assert_eq!(sample.len(), 50);
    for row in &sample {
        let id = row["id"].as_u64().unwrap();
        let text = row["image"].as_str().unwrap();
        let bytes = data_encoding::BASE64.decode(text.as_bytes()).unwrap();
        assert_eq!((row["label"].as_str(), bytes), (Some(label(id)), image(id)));
    }
    let some = rows(&[&old, "--where", "label=dog", "--where", "score>=7", "--columns", "id"]);
    let wanted: Vec<_> = (0..count())
        .filter(|id| label(*id) == "dog" && id % 8 == 7)
        .map(|id| json!({"id": id}))
        .collect();
    assert!(some == wanted, "{} of {} records", some.len(), wanted.len());

    let migrate = ["schema", "migrate", &old, &two, "-o", &new];
    assert_eq!(
        holdall([&migrate[..], &["--json"]].concat()).ends_with(2).error()["code"],
        "evolve/no-default"
    );
    holdall([&migrate[..], &["--rename", "text=caption"]].concat()).ends_with(0);
    let last = count() - 1;
    let text = format!("number {last}, a {}", label(last));
    let last = rows(&[&new, "--range", &format!("{last}..")]);
    assert_eq!((&last[0]["text"], &last[0]["stars"]), (&json!(text), &json!(3)));
    for file in [&old, &new] {
        let report = holdall(["verify", file, "--json"]).ends_with(0).json();
        assert_eq!(report["verdict"], "sound");
    }
    let change = holdall(["schema", "diff", &one, &two, "--json"]).ends_with(1).json();
    assert_eq!(change["bump"], "major");
}
