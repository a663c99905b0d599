//! Limits: a file above a limit is refused, and the error names the option that raises the limit.

use super::command::{accept, corpus, holdall};
use serde_json::Value;

/// Returns `--limit` with the value of a row of `corpus/limits.json`.
fn option(name: &str, value: &Value) -> [String; 2] {
    ["--limit".to_owned(), format!("{}={value}", name.replace('_', "-"))]
}

#[test]
fn a_small_limit_is_named_with_the_option_that_raises_it() {
    let rows = std::fs::read_to_string(corpus().join("limits.json")).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (at, row) in rows.iter().enumerate() {
        let name = row["limit"].as_str().unwrap();
        let file = accept(row["file"].as_str().unwrap());
        let mut limits: Vec<String> = option(name, &row["value"]).into();
        for (name, value) in row["also"].as_object().into_iter().flatten() {
            limits.extend(option(name, value));
        }
        let out = folder.path().join(format!("{at}.zt")).to_str().unwrap().to_owned();
        // Reads every tensor and makes it dense.
        let convert = ["--json", "convert", &file, &out, "--dense", "--drop-attributes"];
        let convert = convert.map(str::to_owned);
        let error = holdall(convert.iter().chain(&limits)).ends_with(4).error();
        assert_eq!((&error["code"], &error["kind"]), (&row["code"], &"limit".into()), "{row}");

        let named = row["remedy"].as_str().unwrap_or(name).replace('_', "-");
        let advice = error["hint"].as_str().unwrap_or_else(|| panic!("{error}"));
        let option = advice.split('`').find(|part| part.starts_with("--limit")).unwrap();
        assert!(option.starts_with(&format!("--limit {named}=")), "{option}");
        let option = option.replace("=N", "=1000000000");
        let option = option.replace("zstd-window-log=1000000000", "zstd-window-log=27");
        let option = option.replace("depth=1000000000", "depth=512");
        // Later options override earlier ones.
        let raised = option.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let ran =
            holdall(["inspect", &file].map(str::to_owned).iter().chain(&limits).chain(&raised));
        ran.ends_with(0);
    }
}

#[test]
fn a_limit_that_does_not_exist_is_refused() {
    let error = holdall(["formats", "--limit", "header_len=1"]).ends_with(2).err;
    assert!(error.contains("unknown limit `header_len`"), "{error}");
    assert!(error.contains("did you mean `header-len`?"), "{error}");
    let error = holdall(["formats", "--limit", "depth=513"]).ends_with(2).err;
    assert!(error.contains("at most 512"), "{error}");
}
