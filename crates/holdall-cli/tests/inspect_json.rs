//! The JSON output of `inspect`.

use crate::command::{accept, golden, holdall, holdall_with};
use serde_json::{Value as Json, json};

#[test]
fn golden_files_match_their_descriptions() {
    for (path, expected) in golden() {
        let path = path.to_str().unwrap();
        // The other formats have different descriptions and their own tests.
        let is_one = path.ends_with(".zt") || path.ends_with(".safetensors");
        if !is_one || path.contains("/ztensor2/") {
            continue;
        }
        let found = holdall(["inspect", "--json", "--digests", path]).ends_with(0).json();
        let keys: Vec<&str> = found.as_object().unwrap().keys().map(String::as_str).collect();
        let contract =
            ["attributes", "files", "format", "source", "tensors", "version", "warnings"];
        assert_eq!(keys, contract, "{path}");
        assert_eq!(found["source"], path);
        assert_eq!((&found["files"], &found["warnings"]), (&json!([]), &json!([])), "{path}");
        let format = if path.ends_with(".zt") { "ztensor" } else { "safetensors" };
        assert_eq!(found["format"], format);
        let version = match (&expected["manifest_version"], &expected["container"]) {
            (Json::String(v), _) => v.as_str(),
            (_, c) if c == "0.1" => "0.1.0",
            _ => "",
        };
        assert_eq!(found["version"], version, "{path}");

        let tensors = expected["tensors"].as_array().unwrap();
        assert_eq!(found["tensors"].as_array().unwrap().len(), tensors.len(), "{path}");
        for expected in tensors {
            let name = &expected["name"];
            let of_name = |t: &&Json| t["name"] == *name;
            let found = found["tensors"].as_array().unwrap().iter().find(of_name).unwrap();
            assert_eq!(found["shape"], expected["shape"], "{path} {name}");
            assert_eq!(found["layout"], expected["format"], "{path} {name}");
            let components = expected["components"].as_object().unwrap();
            assert_eq!(found["components"].as_object().unwrap().len(), components.len());
            for (role, expected) in components {
                let found = &found["components"][role];
                let place = format!("{path} {name} {role}: {found}");
                let logical = &found["logical_type"];
                let dtype = if logical.is_null() { &found["dtype"] } else { logical };
                assert_eq!(dtype, &expected["dtype"], "{place}");
                assert_eq!(found["encoding"], expected["encoding"], "{place}");
                assert_eq!(found["decoded_len"], expected["decoded_length"], "{place}");
                assert_eq!(found["sha256"], expected["sha256"], "{place}");
                if expected.get("offset").is_some() {
                    assert_eq!(found["offset"], expected["offset"], "{place}");
                    assert_eq!(found["stored_len"], expected["stored_length"], "{place}");
                    assert_eq!(found["digest"], expected["digest"], "{place}");
                }
            }
        }
    }
}

#[test]
fn the_object_is_this_one_byte_for_byte() {
    let path = accept("ztensor/v1.1-attributes.zt");
    let expected = format!(
        r#"{{"source":{path:?},"format":"ztensor","version":"1.1.0","attributes":{{"empty":"","framework":"PyTorch","json":"{{\"a\":1}}","license":"Apache-2.0","ü":"層"}},"tensors":[{{"name":"w","shape":[2,2],"layout":"dense","attributes":{{}},"components":{{"data":{{"dtype":"f32","logical_type":null,"offset":64,"stored_len":16,"encoding":"raw","decoded_len":16,"digest":null}}}}}}],"files":[],"warnings":[]}}"#
    );
    let found = holdall(["inspect", "--json", &path]).ends_with(0);
    assert_eq!(found.out, format!("{expected}\n"));
    assert_eq!(found.err, "");
}

#[test]
fn lengths_missing_in_headers_are_found_by_decoding() {
    // In zTensor 0.1 to 1.1, the header does not have the decoded lengths of compressed sparse components.
    let path = accept("ztensor/v1.0-sparse.zt");
    let found = holdall(["inspect", "--json", &path]).ends_with(0).json();
    for tensor in found["tensors"].as_array().unwrap() {
        for (role, c) in tensor["components"].as_object().unwrap() {
            assert!(c["decoded_len"].is_u64(), "{tensor} {role}");
            assert!(c.get("sha256").is_none());
        }
    }
}

#[test]
fn several_files_are_lines_and_a_bad_one_does_not_hide_the_others() {
    let (a, b) = (accept("ztensor/v1.0-empty.zt"), accept("ztensor/v1.2-append.zt"));
    let found = holdall(["inspect", "--json", &a, "no-such-file.zt", &b]).ends_with(3);
    let lines: Vec<Json> = found.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["source"], &lines[1]["source"]), (&json!(a), &json!(b)));
    assert_eq!(found.error()["source"], "no-such-file.zt");
}

#[test]
fn the_same_bytes_on_standard_input_are_the_same_object() {
    let path = accept("ztensor/v1.2-quantized.zt");
    let mut of_file = holdall(["inspect", "--json", "--digests", &path]).ends_with(0).json();
    let bytes = std::fs::read(&path).unwrap();
    let of_pipe = holdall_with(["inspect", "--json", "--digests", "-"], &bytes).ends_with(0).json();
    of_file["source"] = json!("<stdin>");
    assert_eq!(of_file, of_pipe);
    // With every way of reading bytes.
    for io in ["map", "read", "direct"] {
        let mut found =
            holdall(["inspect", "--json", "--digests", &path, "--io", io]).ends_with(0).json();
        found["source"] = json!("<stdin>");
        assert_eq!(found, of_pipe, "{io}");
    }
}

#[test]
fn tensors_can_be_chosen_and_sorted() {
    let path = accept("ztensor/v1.2-dense_all.zt");
    let names = |args: &[&str]| {
        let all = [&["inspect", "--json", &path], args].concat();
        let found = holdall(all).ends_with(0).json();
        let tensors = found["tensors"].as_array().unwrap().clone();
        tensors.iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["-s", "t_f*"]), ["t_f16", "t_f32", "t_f64"]);
    assert_eq!(names(&["-s", "t_f*", "-x", "*32"]), ["t_f16", "t_f64"]);
    assert_eq!(names(&["-s", "t_f*", "--sort", "size"]), ["t_f64", "t_f32", "t_f16"]);
    assert_eq!(names(&["-s", "t_i*", "--sort", "name"]), ["t_i8", "t_i16", "t_i32", "t_i64"]);
}
