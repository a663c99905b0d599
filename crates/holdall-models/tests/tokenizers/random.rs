//! Random vocabularies, with holes and added tokens.

use super::{files, value};
use holdall_core::Limits;
use holdall_core::model::{Attributes, Value};
use holdall_models::tokenizer::{
    RestoredTokenizer, TokenizerFiles, TokenizerKind, TokenizerMetadata, TokenizerOptions,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Names of files, and parts of their contents.
const PARTS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"model\"",
    "\"vocab\"",
    "\"type\"",
    "\"BPE\"",
    "\"Unigram\"",
    "\"merges\"",
    "\"a b\"",
    "\"added_tokens\"",
    "\"content\"",
    "\"id\"",
    "-1",
    "0",
    "7",
    "1e400",
    "18446744073709551615",
    "\"a\"",
    "null",
    "true",
];

/// Texts of tokens; `#` is replaced by the id.
const SOME: [&str; 12] = [
    "t#",
    "<|#|>",
    "[PAD#]",
    "\u{2581}w#",
    "##s#",
    "a b#",
    "<0x0A>",
    "<unk>",
    "é#",
    "\u{2581}[PAD#]",
    "#",
    "",
];

proptest! {
    /// Every id below the number of tokens has one token, and no token is lost.
    #[test]
    fn every_id_has_one_token(
        ids in prop::collection::btree_set(0u64..60, 1..40),
        added in prop::collection::vec((0u64..70, any::<bool>(), any::<bool>()), 0..12),
        more in 0u64..20,
        decides in any::<bool>(),
    ) {
        let base: BTreeMap<u64, String> = ids.iter().map(|id| (*id, format!("t{id}"))).collect();
        let added: BTreeMap<u64, (bool, bool)> = added.into_iter().map(|(id, s, n)| (id, (s, n))).collect();
        let vocab: Vec<String> = base.iter().map(|(id, text)| format!("\"{text}\":{id}")).collect();
        let tokens: Vec<String> = added
            .iter()
            .map(|(id, (special, normalized))| {
                let text = base.get(id).cloned().unwrap_or_else(|| format!("<a{id}>"));
                format!(r#"{{"id":{id},"content":"{text}","special":{special},"normalized":{normalized}}}"#)
            })
            .collect();
        let json = format!(
            r#"{{"added_tokens":[{}],"pre_tokenizer":{{"type":"ByteLevel"}},"model":{{"type":"BPE","vocab":{{{}}},"merges":[]}}}}"#,
            tokens.join(","),
            vocab.join(",")
        );
        let used: BTreeSet<u64> = base.keys().chain(added.keys()).copied().collect();
        let size = if decides { used.last().unwrap() + 1 + more } else { used.last().unwrap() + 1 };
        let config = if decides { format!(r#"{{"vocab_size":{size}}}"#) } else { "{}".to_owned() };
        let all = files(&[("tokenizer.json", &json), ("config.json", &config)]);
        let found = TokenizerMetadata::from_files(&all, &TokenizerOptions::new(), &Limits::default()).unwrap();
        let Some(Value::Array(texts)) = found.attributes.get("tokenizer.ggml.tokens") else { panic!() };
        let Some(Value::Array(types)) = found.attributes.get("tokenizer.ggml.token_type") else { panic!() };
        prop_assert_eq!((texts.len() as u64, types.len() as u64), (size, size));
        let distinct: BTreeSet<&str> = texts.iter().filter_map(Value::as_text).collect();
        prop_assert_eq!(distinct.len() as u64, size);
        for (at, (text, kind)) in texts.iter().zip(types).enumerate() {
            let id = at as u64;
            let is_hole = !used.contains(&id);
            prop_assert_eq!(kind.as_integer() == Some(5), is_hole);
            let pad = format!("[PAD{id}]");
            prop_assert_eq!(text.as_text() == Some(pad.as_str()), is_hole);
        }
    }

    /// Key–values that are restored as files lose only what is named, and none make the code panic.
    #[test]
    fn the_way_back_names_its_losses(
        model in 0usize..4,
        types in prop::collection::vec(0i128..8, 1..30),
        texts in prop::collection::vec(0usize..40, 1..30),
        roles in prop::collection::vec(-1i128..32, 8),
        flags in prop::collection::vec(any::<Option<bool>>(), 5),
    ) {
        let count = types.len().min(texts.len());
        let mut all = Attributes::new();
        let model = ["gpt2", "llama", "bert", "t5"][model];
        all.set("tokenizer.ggml.model", Value::Text(model.to_owned()));
        all.set("tokenizer.ggml.pre", Value::Text("qwen2".to_owned()));
        let text = |at: usize| Value::Text(SOME[texts[at] % SOME.len()].replace('#', &at.to_string()));
        all.set("tokenizer.ggml.tokens", Value::Array((0..count).map(text).collect()));
        let numbers = types.iter().take(count).map(|t| Value::Integer(*t)).collect();
        all.set("tokenizer.ggml.token_type", Value::Array(numbers));
        let scores = types.iter().take(count).map(|t| Value::Float(if *t > 2 { -1000.0 } else { 0.5 }));
        all.set("tokenizer.ggml.scores", Value::Array(scores.collect()));
        for (key, id) in ["bos", "eos", "unknown", "seperator", "padding", "mask", "eot", "eom"].iter().zip(&roles) {
            if *id < 30 {
                all.set(format!("tokenizer.ggml.{key}_token_id"), Value::Integer(*id));
            }
        }
        for (key, flag) in ["add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix", "normalizer.lowercase"].iter().zip(&flags) {
            if let Some(flag) = flag {
                all.set(format!("tokenizer.ggml.{key}"), Value::Bool(*flag));
            }
        }
        let (mut options, limits) = (TokenizerOptions::new(), Limits::default());
        if matches!(model, "gpt2" | "bert") {
            options = options.with_pre_tokenizer("qwen2");
        }
        let Ok(restored) = RestoredTokenizer::from_attributes(&all, &options, &limits) else { return Ok(()) };
        let members: Vec<String> = restored.config.iter().map(|(k, n)| format!("\"{k}\":{n}")).collect();
        let config = format!("{{{}}}", members.join(","));
        let files = restored.files.clone().with_file("config.json", config.into_bytes());
        let kind = TokenizerKind::from_name(model).unwrap();
        let again = TokenizerMetadata::from_files(&files, &options.with_kind(kind), &limits).unwrap();
        for (key, value) in all.iter() {
            let is_named = restored.lost.iter().any(|text| text.contains(&format!("`{key}`")));
            prop_assert!(is_named || again.attributes.get(key) == Some(value), "{}", key);
        }
    }

    /// No bytes of a file make the code panic.
    #[test]
    fn no_file_panics(
        parts in prop::collection::vec(0usize..24, 0..40),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        name in 0usize..9,
    ) {
        let names = [
            "tokenizer.json", "tokenizer_config.json", "config.json", "added_tokens.json",
            "special_tokens_map.json", "vocab.json", "merges.txt", "vocab.txt", "chat_template.json",
        ];
        let text: String = parts.iter().map(|at| PARTS[*at]).collect();
        let base = files(&[
            ("tokenizer.json", r#"{"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}"#),
        ]);
        let _ = read(base.clone().with_file(names[name], text.into_bytes()));
        let _ = read(base.with_file(names[name], bytes.clone()));
        for model in ["tokenizer.model", "spiece.model", "sentencepiece.bpe.model"] {
            let _ = read(TokenizerFiles::new().with_file(model, bytes.clone()));
            let mut changed = super::kinds::model(1);
            for (at, byte) in bytes.iter().enumerate() {
                let len = changed.len();
                changed[at * 7 % len] = *byte;
            }
            let _ = read(TokenizerFiles::new().with_file(model, changed));
        }
    }
}

fn read(files: TokenizerFiles) -> Option<String> {
    let mut limits = Limits::default();
    limits.attribute_values = 1000;
    let found = TokenizerMetadata::from_files(&files, &TokenizerOptions::new(), &limits);
    found.ok().map(|found| value(&found, "tokenizer.ggml.tokens"))
}
