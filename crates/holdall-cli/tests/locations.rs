//! Commands accept input wherever it is: on the disk, at an address, in an archive; and several files as one model.
#![cfg(all(feature = "http", feature = "carton"))]

use crate::archives::tar;
use crate::command::{Ran, accept, command, holdall, holdall_with, ran};
use crate::server::{Reply, Server};
use std::path::{Path, PathBuf};

fn models(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../holdall/tests/models").join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder, which is also available in an archive and on a server.
struct Places {
    dir: tempfile::TempDir,
    server: Server,
}

impl Places {
    fn new(files: &[(&str, Vec<u8>)]) -> Places {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("files");
        std::fs::create_dir(&folder).unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        std::fs::write(dir.path().join("files.tar"), tar(files)).unwrap();
        let server = Server::new(move |request| {
            match std::fs::read(folder.join(request.target.trim_start_matches('/'))) {
                Ok(bytes) => Reply::file(&bytes, "\"v1\"", request),
                Err(_) => Reply::new(404, ""),
            }
        });
        Places { dir, server }
    }

    /// Returns the name of a file in each place.
    fn locations(&self, name: &str) -> [String; 3] {
        let at = |of: &str| format!("{}{of}{name}", self.dir.path().display());
        [at("/files/"), at("/files.tar!/"), self.server.url(&format!("/{name}"))]
    }

    /// Runs the command in the folder, with its own cache.
    fn run(&self, args: &[&str]) -> Ran {
        let mut command = command(args);
        command.args(["--allow", "http", "--allow", "private-hosts"]);
        command.current_dir(self.dir.path()).env("HOLDALL_CACHE", self.dir.path().join("cache"));
        ran(command.output().unwrap())
    }
}

#[test]
fn records_schemas_and_elements_come_from_everywhere() {
    let lines = b"{\"x\": 1}\n{\"x\": 2}\n".to_vec();
    let npy = std::fs::read(models("../../../../corpus/accept/numpy/made-plain.npy"));
    let npy = npy.unwrap_or_else(|_| {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
        let header = format!("{header:<117}\n");
        [&b"\x93NUMPY\x01\x00\x76\x00"[..], header.as_bytes(), &[0; 8]].concat()
    });
    let schema = holdall_with(["schema", "infer", "-"], &lines).ends_with(0).out.into_bytes();
    let places = Places::new(&[("r.ndjson", lines), ("s.json", schema), ("a.npy", npy)]);
    let inferred: Vec<String> = places
        .locations("r.ndjson")
        .iter()
        .map(|path| places.run(&["schema", "infer", path]).ends_with(0).out)
        .collect();
    assert!(inferred.iter().all(|one| *one == inferred[0]), "{inferred:?}");
    for (schema, records) in places.locations("s.json").iter().zip(&places.locations("r.ndjson")) {
        places.run(&["schema", "check", schema, records]).ends_with(0);
        let build = ["build", "--schema", schema, "--records", records, "-o", "out.mt", "-f"];
        places.run(&build).ends_with(0);
        let rows = places.run(&["records", "out.mt"]).ends_with(0).out;
        assert!(rows.contains('2'), "{rows}");
    }
    for path in places.locations("a.npy") {
        places.run(&["convert", &places.locations("a.npy")[0], "t.zt", "-f"]).ends_with(0);
        places.run(&["edit", "t.zt", "add", "new", "--from", &path]).ends_with(0);
        assert!(places.run(&["inspect", "t.zt"]).ends_with(0).out.contains("new"));
    }
}

#[test]
fn a_model_is_packed_from_everywhere() {
    let bytes = std::fs::read(models("onnx_inside.carton")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let package = dir.path().join("p.carton");
    std::fs::write(&package, bytes).unwrap();
    let unpacked = dir.path().join("unpacked");
    holdall(["unpack", text(&package), "-o", text(&unpacked)]).ends_with(0);
    let read = |name: &str| std::fs::read(unpacked.join("model").join(name)).unwrap();
    let places =
        Places::new(&[("enc.onnx", read("enc.onnx")), ("enc.onnx_data", read("enc.onnx_data"))]);
    let [_, inside, address] = places.locations("enc.onnx");
    for path in [&inside, &address] {
        let runner = ["--runner", "onnx", "--framework-version", ">=1", "-f"];
        places.run(&[&["pack", path][..], &runner].concat()).ends_with(0);
        let found = places.run(&["inspect", "enc.carton!/model/enc.onnx"]).ends_with(0).out;
        assert!(found.contains("enc.w") && !found.contains("unreadable"), "{found}");
    }
}

#[test]
fn several_files_are_one_model() {
    let dir = tempfile::tempdir().unwrap();
    let shard = |no: u32| models("stale").join(format!("model-0000{no}-of-00002.safetensors"));
    let (a, b, out) = (shard(1), shard(2), dir.path().join("out.safetensors"));
    holdall(["convert", text(&a), text(&out), "--also", text(&b)]).ends_with(0);
    let tensors = |args: &[&str]| {
        let found = holdall(args).ends_with(0).json();
        found["tensors"].as_array().unwrap().len()
    };
    assert_eq!(tensors(&["inspect", "--json", text(&out)]), 4);
    assert_eq!(tensors(&["inspect", "--json", "--together", text(&a), text(&b)]), 4);
    holdall(["verify", "--together", text(&a), text(&b)]).ends_with(0);
    // The index belongs to a different split of the model, and the error has a hint.
    let e = holdall(["convert", text(&models("stale")), text(&out), "-f"]);
    assert!(e.err.contains("another division") && e.err.contains("--together"), "{}", e.err);
    let twice = holdall(["convert", text(&a), text(&out), "-f", "--also", "-"]);
    assert!(twice.err.contains("[usage/arguments]"), "{}", twice.err);
}

#[test]
fn a_part_from_standard_input_is_not_taken_for_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.safetensors");
    let part = models("gguf_part_missing").join("m-00001-of-00003.gguf");
    let bytes = std::fs::read(&part).unwrap();
    let refused = holdall_with(["convert", "-", text(&out)], &bytes);
    assert!(refused.err.contains("[shards/split]"), "{}", refused.err);
    assert!(!out.exists());
    let shown = holdall_with(["inspect", "-"], &bytes).ends_with(0);
    assert!(shown.out.contains("part 1 of 3"), "{}", shown.out);
    // On the disk, a part other than the first is opened alone, and the output mentions it.
    let last = models("gguf_part_missing").join("m-00003-of-00003.gguf");
    let result = holdall(["convert", text(&last), text(&out), "--dense"]).ends_with(0);
    assert!(
        result.err.contains("part 3 of 3") || result.out.contains("part 3 of 3"),
        "{}",
        result.err
    );
    let missing = holdall(["inspect", text(&part)]);
    assert!(missing.err.contains("`m-00002-of-00003.gguf`"), "{}", missing.err);
}

#[test]
fn a_zip_of_tensors_is_no_package_on_standard_input() {
    for name in ["pytorch/torch_state.pt", "numpy/npz_deflate.npz"] {
        let bytes = std::fs::read(accept(name)).unwrap();
        let shown = holdall_with(["inspect", "-", "--json"], &bytes).ends_with(0).json();
        let own = holdall(["inspect", &accept(name), "--json"]).ends_with(0).json();
        assert_eq!((&shown["format"], &shown["tensors"]), (&own["format"], &own["tensors"]));
        holdall_with(["verify", "-"], &bytes).ends_with(0);
        holdall_with(["diff", "-", &accept(name)], &bytes).ends_with(0);
    }
    let package = std::fs::read(accept("carton/made-minimal.carton")).unwrap();
    holdall_with(["verify", "-"], &package).ends_with(0);
}

#[test]
fn a_folder_of_arrays_is_a_model_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("arrays");
    std::fs::create_dir_all(folder.join("layers/0")).unwrap();
    std::fs::copy(accept("numpy/npy_fortran_f32.npy"), folder.join("layers/0/w.npy")).unwrap();
    let folder = text(&folder);
    let shown = holdall(["inspect", folder, "--json"]).ends_with(0).json();
    assert_eq!(shown["tensors"][0]["name"], "layers.0.w");
    holdall(["verify", folder]).ends_with(0);
    let st = dir.path().join("one.safetensors");
    holdall(["convert", folder, text(&st)]).ends_with(0);
    holdall(["diff", folder, text(&st), "--values-only"]).ends_with(0);
    let e = holdall(["view", folder, "--no-open", "--json"]).error();
    assert_eq!(e["code"], "shards/no-model", "{e}");
    // A folder of a package without its description is not a package.
    std::fs::write(dir.path().join("arrays/MANIFEST"), "").unwrap();
    let e = holdall(["inspect", folder, "--json"]).error();
    assert_eq!(e["code"], "carton/missing-file", "{e}");
}
