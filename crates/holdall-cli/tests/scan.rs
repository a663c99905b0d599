//! `holdall scan`.

use crate::command::{accept, corpus, holdall};
use serde_json::json;

#[test]
fn reports_and_exit_status() {
    let safe = accept("pytorch/torch_state.pt");
    let bad = corpus().join("reject/pytorch/pytorch.global.stack.pt").display().to_string();
    let text = holdall(["scan", &safe]).ends_with(0).out;
    assert!(text.contains("called    collections.OrderedDict\n"), "{text}");
    assert!(text.ends_with(&format!("safe: {safe}, 1 pickle in 29 files\n")), "{text}");
    assert_eq!(holdall(["scan", &safe, "--quiet"]).ends_with(0).out, "");
    let text = holdall(["scan", &bad, "--quiet"]).ends_with(1).out;
    assert!(text.contains("dangerous  called  os.system\n"), "{text}");
    // The exit status is that of the worst input.
    holdall(["scan", &safe, &bad]).ends_with(1);
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("text.pkl"), b"no pickle").unwrap();
    let text = holdall(["scan", &path("text.pkl")]).ends_with(0).out;
    assert!(
        text.starts_with("no pickles: ") && text.ends_with(", 0 pickles in 1 file\n"),
        "{text}"
    );
    std::fs::remove_file(path("text.pkl")).unwrap();
    std::fs::write(path("model.pkl"), b"BZh91AY").unwrap();
    let text = holdall(["scan", &path("model.pkl"), &safe]).ends_with(4).out;
    assert!(text.contains("cannot be determined: ") && text.contains("[pickle/packed]"), "{text}");
    // A folder, and standard input.
    std::fs::copy(&bad, path("x.pt")).unwrap();
    let report = holdall(["scan", dir.path().to_str().unwrap(), "--json"]).ends_with(1).json();
    assert_eq!((&report["verdict"], &report["files"]), (&json!("dangerous"), &json!(5)));
    assert_eq!(report["unread"][0]["code"], json!("pickle/packed"));
    let import = &report["pickles"][0]["imports"][0];
    assert_eq!(import["module"], json!("os"));
    assert_eq!((&import["name"], &import["called"]), (&json!("system"), &json!(true)));
    holdall(["scan", &path("nothing")]).ends_with(3);
    // A file that cannot be read does not hide the rest of a folder.
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("a", path("a")).unwrap();
        let report = holdall(["scan", dir.path().to_str().unwrap(), "--json"]).ends_with(1).json();
        assert_eq!((&report["verdict"], &report["files"]), (&json!("dangerous"), &json!(5)));
        assert_eq!(report["unread"][0]["code"], json!("io/failed"));
        assert_eq!(report["unread"][0]["source"], json!(path("a")));
    }
}
