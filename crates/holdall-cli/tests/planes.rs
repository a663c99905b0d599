//! Tensors in byte planes through the command: they are shown, extracted and edited like dense ones.

use crate::command::holdall;

#[test]
fn planes_are_shown_extracted_and_edited() {
    let folder = tempfile::tempdir().unwrap();
    let to = |name: &str| folder.path().join(name).display().to_string();
    let planes = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/ztensor/planes-all.zt");
    let dense = to("dense.zt");
    holdall(["convert", planes, &dense, "--dense"]).ends_with(0);

    for tensor in ["a.bf16", "c.f32", "f.special.bf16"] {
        let values = |file: &str| {
            let out = holdall(["inspect", file, "-t", tensor]).ends_with(0).out;
            out.rsplit_once("\n\n").unwrap().1.to_owned()
        };
        assert_eq!(values(planes), values(&dense), "{tensor}");
        let raw = |file: &str, rows: &str, name: &str| {
            let out = to(name);
            holdall(["extract", file, tensor, "-o", &out, "--rows", rows, "-f"]).ends_with(0);
            std::fs::read(out).unwrap()
        };
        assert_eq!(raw(planes, "2..5", "a.raw"), raw(&dense, "2..5", "b.raw"), "{tensor}");
    }
    let e = holdall(["convert", &dense, &to("q.zt"), "--quantize", "planes"]).ends_with(2);
    assert!(e.err.contains("`--encoding`"), "{e:?}");
    // A plane by itself.
    let plane = to("p0.raw");
    holdall(["extract", planes, "a.bf16", "--component", "p0", "-o", &plane]).ends_with(0);
    assert_eq!(std::fs::read(plane).unwrap().len(), 512 * 384);

    // Edits and a new copy keep the planes, and their size.
    let edited = to("edited.zt");
    std::fs::copy(planes, &edited).unwrap();
    holdall(["edit", &edited, "rename", "a.*=z.*"]).ends_with(0);
    holdall(["edit", &edited, "compact"]).ends_with(0);
    let json = holdall(["inspect", &edited, "--json"]).ends_with(0).json();
    let tensors = json["tensors"].as_array().unwrap();
    let z = tensors.iter().find(|t| t["name"] == "z.bf16").unwrap();
    assert_eq!(z["layout"], "planes.bf16");
    assert_eq!(z["components"]["p1"]["encoding"], "zstd");
    holdall(["verify", &edited]).ends_with(0);
}

#[test]
fn the_smallest_encodings_say_what_they_saved() {
    let folder = tempfile::tempdir().unwrap();
    let to = |name: &str| folder.path().join(name).display().to_string();
    let planes = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/ztensor/planes-all.zt");
    let (dense, small) = (to("dense.zt"), to("small.zt"));
    holdall(["convert", planes, &dense, "--dense"]).ends_with(0);
    let note = holdall(["convert", &dense, &small, "--smallest"]).ends_with(0).err;
    assert!(note.contains("saved ") && note.contains(" in byte planes, "), "{note}");
    let json =
        holdall(["convert", &dense, &small, "--smallest", "-f", "--json"]).ends_with(0).json();
    assert!(json["in_planes"].as_u64().unwrap() >= 4, "{json}");
    let (decoded, stored) =
        (json["decoded_len"].as_u64().unwrap(), json["target_len"].as_u64().unwrap());
    assert_eq!(stored, std::fs::metadata(&small).unwrap().len());
    assert!(stored * 10 < decoded * 9, "{json}");
    holdall(["diff", &dense, &small, "--quiet"]).ends_with(0);
    holdall(["verify", &small]).ends_with(0);
    // It replaces `--encoding`, and only zTensor has planes.
    let e = holdall(["convert", &dense, &to("x.zt"), "--smallest", "--encoding", "zstd"]);
    assert!(e.ends_with(2).err.contains("--encoding"));
    let e = holdall(["convert", &dense, &to("x.safetensors"), "--smallest"]);
    assert!(e.err.contains("write/not-in-format"), "{e:?}");
}
