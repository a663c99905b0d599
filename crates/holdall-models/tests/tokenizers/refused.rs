//! Files that break a rule, each once.

use super::files;
use super::kinds::piece;
use holdall_core::error::{Remedy, Result};
use holdall_core::{ErrorKind, Limits};
use holdall_models::tokenizer::{RULES, TokenizerFiles, TokenizerMetadata, TokenizerOptions};
use std::collections::BTreeSet;

const MODEL: &str = r#""pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}"#;

fn json(added: &str) -> String {
    format!(r#"{{"added_tokens":[{added}],{MODEL}}}"#)
}

fn with_model(model: &str) -> TokenizerFiles {
    let text = format!(r#"{{"pre_tokenizer":{{"type":"ByteLevel"}},"model":{model}}}"#);
    files(&[("tokenizer.json", &text)])
}

/// Files, and the code of the rule that they break.
fn cases() -> Vec<(&'static str, TokenizerFiles)> {
    let good = json("");
    let with = |name: &str, text: &str| {
        files(&[("tokenizer.json", &good)]).with_file(name, text.as_bytes().to_vec())
    };
    let pieces = |bytes: Vec<u8>| TokenizerFiles::new().with_file("tokenizer.model", bytes);
    let twice = [piece(b"a", 0.0, 1), piece(b"a", 0.0, 1)].concat();
    vec![
        ("tokenizer/missing-file", files(&[])),
        (
            "tokenizer/missing-file",
            files(&[("config.json", r#"{"architectures":["T5EncoderModel"]}"#)]),
        ),
        ("tokenizer/json", files(&[("tokenizer.json", "{")])),
        ("tokenizer/json", files(&[("tokenizer.json", r#"{"model":[]}"#)])),
        ("tokenizer/json", files(&[("tokenizer.json", &json(r#"{"id":1}"#))])),
        ("tokenizer/json", with("config.json", "[]")),
        ("tokenizer/json", with("tokenizer_config.json", r#"{"added_tokens_decoder":{"2":{}}}"#)),
        ("tokenizer/text", TokenizerFiles::new().with_file("vocab.txt", vec![0xff])),
        ("tokenizer/sentencepiece", pieces(vec![0x0a])),
        ("tokenizer/sentencepiece", pieces(Vec::new())),
        ("tokenizer/sentencepiece", pieces(piece(&[0xff], 0.0, 1))),
        ("tokenizer/sentencepiece", pieces(piece(b"", 0.0, 1))),
        ("tokenizer/sentencepiece", pieces(piece(b"a", 0.0, 7))),
        ("tokenizer/id", with_model(r#"{"type":"BPE","vocab":{"a":-1},"merges":[]}"#)),
        ("tokenizer/id", with_model(r#"{"type":"BPE","vocab":{"a":1.5},"merges":[]}"#)),
        ("tokenizer/id", with("config.json", r#"{"vocab_size":1}"#)),
        ("tokenizer/id", with("config.json", r#"{"vocab_size":-4}"#)),
        ("tokenizer/id", with("config.json", r#"{"pad_token_id":-1}"#)),
        ("tokenizer/id", with("config.json", r#"{"pad_token_id":4294967296}"#)),
        (
            "tokenizer/id",
            with("tokenizer_config.json", r#"{"added_tokens_decoder":{"x":{"content":"c"}}}"#),
        ),
        ("tokenizer/duplicate", with_model(r#"{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}"#)),
        ("tokenizer/duplicate", with_model(r#"{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}"#)),
        ("tokenizer/duplicate", files(&[("tokenizer.json", &json(r#"{"id":1,"content":"c"}"#))])),
        ("tokenizer/duplicate", files(&[("tokenizer.json", &json(r#"{"id":2,"content":"a"}"#))])),
        ("tokenizer/duplicate", pieces(twice)),
        ("tokenizer/merge", with_model(r#"{"type":"BPE","vocab":{"a":0},"merges":["a"]}"#)),
        (
            "tokenizer/merge",
            with_model(r#"{"type":"BPE","vocab":{"a":0},"merges":["a a",["a","a"]]}"#),
        ),
        ("tokenizer/merge", with_model(r#"{"type":"BPE","vocab":{"a":0},"merges":[["a",""]]}"#)),
        ("tokenizer/merge", with("merges.txt", "a b c\n")),
        (
            "tokenizer/missing-token",
            with("config.json", r#"{"architectures":["Glm4ForCausalLM"]}"#),
        ),
        ("tokenizer/chat-template", with("tokenizer_config.json", r#"{"chat_template":3}"#)),
        ("tokenizer/model", with_model(r#"{"type":"WordLevel","vocab":{"a":0}}"#)),
        ("tokenizer/model", with("config.json", r#"{"architectures":["BertModel"]}"#)),
        ("tokenizer/too-many", with("config.json", r#"{"vocab_size":1000000000000}"#)),
        (
            "tokenizer/pre-tokenizer",
            files(&[(
                "tokenizer.json",
                r#"{"pre_tokenizer":{"type":"Digits"},"model":{"type":"BPE","vocab":{"a":0},"merges":["a a"]}}"#,
            )]),
        ),
        ("tokenizer/pre-tokenizer", files(&[("vocab.json", r#"{"a":0}"#), ("merges.txt", "")])),
    ]
}

fn read(files: &TokenizerFiles, limits: &Limits) -> Result<TokenizerMetadata> {
    TokenizerMetadata::from_files(files, &TokenizerOptions::new(), limits)
}

#[test]
fn files_that_break_a_rule_are_refused() {
    let good = files(&[("tokenizer.json", &json(""))]);
    read(&good, &Limits::default()).unwrap();
    let mut broken: BTreeSet<&str> = BTreeSet::new();
    for (code, files) in cases() {
        let e = read(&files, &Limits::default()).unwrap_err();
        assert_eq!(e.code(), code, "{e}");
        broken.insert(code);
    }
    let mut short = Limits::default();
    short.header_len = 10;
    let e = read(&good, &short).unwrap_err();
    assert_eq!((e.code(), e.kind()), ("tokenizer/file-length", ErrorKind::Limit));
    broken.insert("tokenizer/file-length");
    broken.extend(super::back::BROKEN);
    let all: BTreeSet<&str> = RULES.iter().map(|rule| rule.code).collect();
    assert_eq!(broken, all);
}

#[test]
fn an_unknown_pre_tokenizer_can_be_named() {
    let text = r#"{"pre_tokenizer":{"type":"Digits"},"model":{"type":"BPE","vocab":{"a":0},"merges":["a a"]}}"#;
    let e = read(&files(&[("tokenizer.json", text)]), &Limits::default()).unwrap_err();
    assert_eq!(e.remedies(), [Remedy::NamePreTokenizer]);
    assert!(e.message().contains("runs of digits"), "{e}");
}

#[test]
fn numbers_of_tokens_and_merges_are_bounded() {
    let mut limits = Limits::default();
    limits.attribute_values = 3;
    let many = files(&[("vocab.json", r#"{"a":0,"b":1,"c":2,"d":3}"#)]);
    assert_eq!(read(&many, &limits).unwrap_err().code(), "tokenizer/too-many");
    let many = files(&[("vocab.txt", "a\nb\nc\nd\n")]);
    assert_eq!(read(&many, &limits).unwrap_err().code(), "tokenizer/too-many");
    let many = with_model(r#"{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b","b a"]}"#);
    assert_eq!(read(&many, &limits).unwrap_err().code(), "tokenizer/too-many");
    let deep = format!(r#"{{"normalizer":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    let e = read(&files(&[("tokenizer.json", &deep)]), &Limits::default()).unwrap_err();
    assert_eq!(e.code(), "tokenizer/json");
}
