//! Archives that do not contain a model: `inspect` shows their entries, `scan` scans them.

use crate::command::{accept, holdall};
use serde_json::json;

/// Returns a tar archive of these files.
pub(crate) fn tar(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, bytes) in files {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(bytes);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

#[test]
fn members_of_an_archive_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("models.tar").to_str().unwrap().to_owned();
    let model = std::fs::read(accept("safetensors/made-dtypes.safetensors")).unwrap();
    let len = model.len();
    let inner = tar(&[("a.bin", model.clone())]);
    let files = [("w/model.weights", model), ("in.tar", inner), ("notes.txt", b"hello".to_vec())];
    std::fs::write(&path, tar(&files)).unwrap();
    let text = holdall(["inspect", &path]).ends_with(0).out;
    assert!(text.contains("format      tar archive\n"), "{text}");
    assert!(text.contains("files       3 files, 1 of which"), "{text}");
    let row = text.lines().find(|line| line.contains("w/model.weights")).unwrap();
    assert!(row.contains("safetensors"), "{row}");
    assert!(text.contains("notes.txt"), "{text}");
    let found = holdall(["inspect", "--json", &path]).ends_with(0).json();
    assert_eq!((&found["format"], &found["tensors"]), (&json!("tar"), &json!([])));
    let file = json!({
        "path": "w/model.weights", "len": len, "stored_len": len, "method": null, "format": "safetensors"
    });
    assert_eq!((&found["files"][0], &found["files"][2]["format"]), (&file, &json!(null)));
    // An archive inside it, and the entries of that archive.
    let own = holdall(["inspect", "--json", &format!("{path}!/in.tar")]).ends_with(0).json();
    assert_eq!(own["files"][0]["path"], json!("a.bin"));
    holdall(["inspect", &format!("{path}!/in.tar!/a.bin")]).ends_with(0);
    // If no entry can be opened, the error names the kind of file.
    std::fs::write(&path, tar(&[("notes.txt", b"hello".to_vec())])).unwrap();
    let wrong = holdall(["inspect", &path]).ends_with(4).err;
    assert!(wrong.contains("[format/unknown]"), "{wrong}");
}
