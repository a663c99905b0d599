//! Each kind of tokenizer, from small files.

use super::{files, json, read, value};
use holdall_core::Limits;
use holdall_core::model::{Attributes, Value};
use holdall_models::tokenizer::{
    GGUF_TYPES, TokenizerFiles, TokenizerKind, TokenizerMetadata, TokenizerOptions,
};

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";

/// A byte-level BPE with a hole in its ids.
const BYTE_LEVEL: &str = r#"{
    "added_tokens": [
        {"id": 5, "content": "<|end|>", "special": false, "normalized": false},
        {"id": 6, "content": "a\u2581b", "special": false, "normalized": true},
        {"id": 7, "content": "\u0120x", "special": false, "normalized": false}
    ],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|end|>"}}, {"Sequence": {"id": "A"}}], "pair": []},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 3}, "merges": [["a", "b"], [" ", "b"]]}
}"#;

/// HunYuan's `config.json` has the end of a text, and its `generation_config.json` the end of a turn first.
#[test]
fn the_end_of_a_turn_is_the_first_of_several_ends() {
    let config =
        r#"{"architectures": ["HunYuanDenseV1ForCausalLM"], "vocab_size": 9, "eod_token_id": 5}"#;
    let key = "tokenizer.ggml.eot_token_id";
    let with = |generation: &str| {
        let all = [
            ("tokenizer.json", BYTE_LEVEL),
            ("config.json", config),
            ("generation_config.json", generation),
        ];
        read(&all)
    };
    let found = with(r#"{"eos_token_id": [3, 5]}"#).unwrap();
    assert_eq!(value(&found, key), "3");
    assert_eq!(value(&found, "tokenizer.ggml.eos_token_id"), "5");
    for generation in ["{}", r#"{"eos_token_id": 3}"#, r#"{"eos_token_id": [3]}"#] {
        assert!(with(generation).unwrap().attributes.get(key).is_none(), "{generation}");
    }
    let wrong = with(r#"{"eos_token_id": [-1, 5]}"#).unwrap_err();
    assert_eq!(wrong.code(), "tokenizer/id");
    // Other architectures do not read it.
    let other = [
        ("tokenizer.json", BYTE_LEVEL),
        ("config.json", r#"{"vocab_size": 9}"#),
        ("generation_config.json", r#"{"eos_token_id": [3, 5]}"#),
    ];
    assert!(read(&other).unwrap().attributes.get(key).is_none());
}

#[test]
fn byte_level_bpe_has_merges_and_holes() {
    let config =
        r#"{"vocab_size": 9, "eos_token_id": 5, "pad_token_id": [1], "bos_token_id": null}"#;
    let tokenizer = r#"{"bos_token": "<|end|>", "chat_template": "{{ x }}"}"#;
    let found = read(&[
        ("tokenizer.json", BYTE_LEVEL),
        ("config.json", config),
        ("tokenizer_config.json", tokenizer),
    ])
    .unwrap();
    let keys: Vec<&str> = found.attributes.iter().map(|(key, _)| key).collect();
    assert_eq!(
        keys,
        [
            "tokenizer.ggml.model",
            "tokenizer.ggml.pre",
            TOKENS,
            TYPES,
            "tokenizer.ggml.merges",
            "tokenizer.ggml.bos_token_id",
            "tokenizer.ggml.eos_token_id",
            "tokenizer.ggml.add_bos_token",
            "tokenizer.chat_template",
        ]
    );
    assert_eq!(value(&found, "tokenizer.ggml.model"), r#""gpt2""#);
    assert_eq!(value(&found, "tokenizer.ggml.pre"), r#""gpt-2""#);
    let tokens = r#"["a","b","[PAD2]","ab","[PAD4]","<|end|>","a b"," x","[PAD8]"]"#;
    assert_eq!(value(&found, TOKENS), tokens);
    assert_eq!(value(&found, TYPES), "[1,1,5,1,5,3,4,4,5]");
    assert_eq!(value(&found, "tokenizer.ggml.merges"), "[\"a b\",\"\u{120} b\"]");
    assert_eq!(value(&found, "tokenizer.ggml.bos_token_id"), "5");
    assert_eq!(value(&found, "tokenizer.ggml.add_bos_token"), "true");
}

#[test]
fn without_a_size_the_last_id_is_the_last_token() {
    let found = read(&[("tokenizer.json", BYTE_LEVEL)]).unwrap();
    assert_eq!(value(&found, TYPES), "[1,1,5,1,5,3,4,4]");
    // Without a configuration of the tokenizer, roles have no names.
    assert_eq!(value(&found, "tokenizer.ggml.bos_token_id"), "none");
}

#[test]
fn a_vocabulary_can_be_in_files_of_its_own() {
    let found = read(&[
        ("vocab.json", r#"{"a": 0, "b": 1, "ab": 2}"#),
        ("merges.txt", "#version: 0.2\r\na b\n\n"),
        (
            "tokenizer_config.json",
            r#"{"tokenizer_class": "GPT2TokenizerFast", "eos_token": "<e>"}"#,
        ),
        ("added_tokens.json", r#"{"<e>": 3, "<f>": 4}"#),
    ])
    .unwrap();
    assert_eq!(value(&found, TOKENS), r#"["a","b","ab","<e>","<f>"]"#);
    assert_eq!(value(&found, TYPES), "[1,1,1,3,4]");
    assert_eq!(value(&found, "tokenizer.ggml.merges"), r#"["a b"]"#);
}

#[test]
fn word_piece_marks_the_start_of_words() {
    let config = r#"{"architectures": ["BertModel"], "type_vocab_size": 2}"#;
    let found = read(&[
        ("vocab.txt", "[UNK]\n[CLS]\nword\n##s\n"),
        ("config.json", config),
        ("tokenizer_config.json", r#"{"cls_token": "[CLS]", "unk_token": "[UNK]"}"#),
    ])
    .unwrap();
    assert_eq!(value(&found, "tokenizer.ggml.model"), r#""bert""#);
    assert_eq!(value(&found, TOKENS), "[\"[UNK]\",\"[CLS]\",\"\u{2581}word\",\"s\"]");
    assert_eq!(value(&found, TYPES), "[3,3,1,1]");
    assert_eq!(value(&found, "tokenizer.ggml.token_type_count"), "2");
}

/// Returns a field of a protocol buffer that consists of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend_from_slice(bytes);
    out
}

/// Returns a piece of a SentencePiece model.
pub(super) fn piece(text: &[u8], score: f32, kind: u8) -> Vec<u8> {
    let mut out = field(1, text);
    out.push(2 << 3 | 5);
    out.extend_from_slice(&score.to_le_bytes());
    out.extend_from_slice(&[3 << 3, kind]);
    field(1, &out)
}

/// Returns a SentencePiece model with an unknown, a control, a normal, a user-defined and a byte piece.
pub(super) fn model(model_type: u8) -> Vec<u8> {
    let mut out = piece(b"<unk>", 0.0, 2);
    out.extend(piece(b"<s>", 0.0, 3));
    out.extend(piece("\u{2581}a".as_bytes(), -0.5, 1));
    out.extend(piece(b"<user>", 0.0, 4));
    out.extend(piece(b"<0x0A>", 0.0, 6));
    out.extend(field(2, &[3 << 3, model_type]));
    // The map of characters, and no space before texts.
    out.extend(field(3, &[2 << 3 | 2, 2, 7, 255, 3 << 3, 0]));
    out
}

fn with_model(name: &str, model_type: u8, texts: &[(&str, &str)]) -> TokenizerMetadata {
    let all: TokenizerFiles = files(texts).with_file(name, model(model_type));
    TokenizerMetadata::from_files(&all, &TokenizerOptions::new(), &Limits::default()).unwrap()
}

#[test]
fn sentencepiece_has_scores_and_added_tokens_replace_pieces() {
    let tokenizer = r#"{"added_tokens_decoder": {
        "5": {"content": "\u2581<t>", "special": false},
        "1": {"content": "<s>", "special": true},
        "9": {"content": "<far>", "special": true}
    }}"#;
    let texts = [
        ("config.json", r#"{"vocab_size": 7, "bos_token_id": 1, "eos_token_id": 7}"#),
        ("tokenizer_config.json", tokenizer),
    ];
    let found = with_model("tokenizer.model", 2, &texts);
    assert_eq!(value(&found, "tokenizer.ggml.model"), r#""llama""#);
    let tokens = "[\"<unk>\",\"<s>\",\"\u{2581}a\",\"<user>\",\"<0x0A>\",\" <t>\",\"[PAD6]\"]";
    assert_eq!(value(&found, TOKENS), tokens);
    assert_eq!(value(&found, TYPES), "[2,3,1,1,6,4,5]");
    let scores = "[0.0,-1000.0,-0.5,0.0,0.0,-1000.0,-10000.0]";
    assert_eq!(value(&found, "tokenizer.ggml.scores"), scores);
    assert_eq!(value(&found, "tokenizer.ggml.bos_token_id"), "1");
    // Tokens and roles beyond the vocabulary are named.
    assert_eq!(found.omitted.len(), 2, "{:?}", found.omitted);
    assert!(found.omitted[0].contains("<far>") && found.omitted[1].contains("eos"));
}

#[test]
fn unigram_has_a_map_of_characters() {
    let found = with_model("spiece.model", 1, &[]);
    assert_eq!(value(&found, "tokenizer.ggml.model"), r#""t5""#);
    assert_eq!(value(&found, "tokenizer.ggml.add_space_prefix"), "false");
    assert_eq!(value(&found, "tokenizer.ggml.remove_extra_whitespaces"), "true");
    assert_eq!(value(&found, "tokenizer.ggml.precompiled_charsmap"), "[7,255]");
    let mut attributes = Attributes::new();
    found.add_to(&mut attributes);
    let types = attributes.get(GGUF_TYPES).map(json);
    assert_eq!(types.unwrap(), r#"{"tokenizer.ggml.precompiled_charsmap":"[u8]"}"#);
}

#[test]
fn unigram_can_be_in_tokenizer_json() {
    let text = r#"{
        "added_tokens": [{"id": 1, "content": "</s>", "special": true}],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": "B/8="},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"}, {"type": "Metaspace", "prepend_scheme": "always"}
        ]},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["</s>", 0.0], ["a", -1.5]]}
    }"#;
    let config = ("config.json", r#"{"architectures": ["T5EncoderModel"], "vocab_size": 4}"#);
    let tokenizer = ("tokenizer_config.json", r#"{"eos_token": "</s>"}"#);
    let found = read(&[("tokenizer.json", text), config, tokenizer]).unwrap();
    assert_eq!(value(&found, TYPES), "[2,3,1,5]");
    assert_eq!(value(&found, "tokenizer.ggml.scores"), "[0.0,0.0,-1.5,-10000.0]");
    assert_eq!(value(&found, "tokenizer.ggml.precompiled_charsmap"), "[7,255]");
    assert_eq!(value(&found, "tokenizer.ggml.add_space_prefix"), "true");
    assert_eq!(value(&found, "tokenizer.ggml.remove_extra_whitespaces"), "true");
    assert_eq!(value(&found, "tokenizer.ggml.token_type_count"), "none");
}

#[test]
fn xlm_roberta_starts_with_four_special_tokens() {
    let config = r#"{"architectures": ["XLMRobertaModel"], "vocab_size": 7}"#;
    let found = with_model("sentencepiece.bpe.model", 1, &[("config.json", config)]);
    let tokens = r#"["<s>","<pad>","</s>","<unk>","<user>","<0x0A>","[PAD5]"]"#;
    assert_eq!(value(&found, TOKENS), tokens);
    assert_eq!(value(&found, TYPES), "[3,3,3,2,1,6,5]");
}

/// A BPE that SentencePiece trained.
const BYTE_FALLBACK: &str = r#"{
    "added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 3, "content": "<t>", "special": false}],
    "decoder": {"type": "Sequence", "decoders": []},
    "model": {"type": "BPE", "byte_fallback": true, "vocab": {"<s>": 0, "<0x0A>": 1, "a": 2}, "merges": ["a a"]}
}"#;

#[test]
fn bpe_with_byte_fallback_has_no_scores_of_its_own() {
    let tokenizer = ("tokenizer_config.json", r#"{"bos_token": "<s>"}"#);
    let found = read(&[("tokenizer.json", BYTE_FALLBACK), tokenizer]).unwrap();
    assert_eq!(value(&found, "tokenizer.ggml.model"), r#""llama""#);
    assert_eq!(value(&found, TYPES), "[3,6,1,4]");
    assert_eq!(value(&found, "tokenizer.ggml.scores"), "[-1000.0,-1000.0,-1000.0,-1000.0]");
    assert_eq!(value(&found, "tokenizer.ggml.merges"), "none");
    let options = TokenizerOptions::new().with_kind(TokenizerKind::Gemma4);
    let all = files(&[("tokenizer.json", BYTE_FALLBACK), tokenizer]);
    let found = TokenizerMetadata::from_files(&all, &options, &Limits::default()).unwrap();
    assert_eq!(value(&found, "tokenizer.ggml.model"), r#""gemma4""#);
    assert_eq!(value(&found, "tokenizer.ggml.merges"), r#"["a a"]"#);
}

#[test]
fn the_caller_decides_about_architecture_size_and_name() {
    let options = TokenizerOptions::new()
        .with_architecture("ModernBertModel")
        .with_vocab_size(10)
        .with_pre_tokenizer("mine");
    let all = files(&[("tokenizer.json", &BYTE_LEVEL.replace("ByteLevel", "Unknown"))]);
    let found = TokenizerMetadata::from_files(&all, &options, &Limits::default()).unwrap();
    assert_eq!(value(&found, "tokenizer.ggml.pre"), r#""mine""#);
    assert_eq!(value(&found, "tokenizer.ggml.add_sep_token"), "true");
    let Some(Value::Array(tokens)) = found.attributes.get(TOKENS) else { panic!() };
    assert_eq!(tokens.len(), 10);
}

#[test]
fn there_can_be_several_chat_templates() {
    let tokenizer = r#"{"chat_template": [
        {"name": "default", "template": "D"}, {"name": "tool use", "template": "T"}, {"name": "", "template": "U"}
    ]}"#;
    let found =
        read(&[("tokenizer.json", BYTE_LEVEL), ("tokenizer_config.json", tokenizer)]).unwrap();
    assert_eq!(value(&found, "tokenizer.chat_template"), r#""D""#);
    assert_eq!(value(&found, "tokenizer.chat_template.tool_use"), r#""T""#);
    assert_eq!(value(&found, "tokenizer.chat_templates"), r#"["tool_use"]"#);
    assert_eq!(found.omitted.len(), 1);
    let tokenizer = ("tokenizer_config.json", r#"{"eos_token": null}"#);
    let jinja = ("chat_template.jinja", "J");
    let found = read(&[("tokenizer.json", BYTE_LEVEL), tokenizer, jinja]).unwrap();
    assert_eq!(value(&found, "tokenizer.chat_template"), r#""J""#);
    let more = ("additional_chat_templates/rag.jinja", "R");
    let found = read(&[("tokenizer.json", BYTE_LEVEL), tokenizer, jinja, more]).unwrap();
    assert_eq!(value(&found, "tokenizer.chat_template.rag"), r#""R""#);
}

#[test]
fn spellings_of_a_pre_tokenizer_have_the_same_name() {
    let split = |regex: &str, behavior: &str, invert: bool| {
        let regex = holdall_core::model::Value::Text(regex.to_owned()).to_json();
        format!(
            r#"{{"type":"Split","pattern":{{"Regex":{regex}}},"behavior":"{behavior}","invert":{invert}}}"#
        )
    };
    let bytes = r#"{"type":"ByteLevel","use_regex":false}"#.to_owned();
    let name = |steps: &[String], model: &str| {
        let json = format!(
            r#"{{"normalizer":{{"type":"NFC"}},"pre_tokenizer":{{"type":"Sequence","pretokenizers":[{}]}},
            "model":{{"type":"BPE","vocab":{{"a":0}},"merges":["a a"]{model}}}}}"#,
            steps.join(",")
        );
        read(&[("tokenizer.json", &json)]).map(|found| value(&found, "tokenizer.ggml.pre"))
    };
    let rest =
        r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let short = format!("(?i:'s|'t|'re|'ve|'m|'ll|'d){rest}");
    let long = format!("(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]){rest}");
    for (regex, behavior, invert) in
        [(&short, "Isolated", false), (&long, "Isolated", false), (&short, "Removed", true)]
    {
        let steps = [split(regex, behavior, invert), bytes.clone()];
        assert_eq!(name(&steps, r#","ignore_merges":true"#).unwrap(), r#""llama-bpe""#);
        // Words are not taken whole: another name with the same rules.
        assert_eq!(name(&steps, "").unwrap(), r#""dbrx""#);
    }
    for (regex, behavior, invert) in [(&short, "Removed", false), (&short, "Isolated", true)] {
        let e = name(&[split(regex, behavior, invert), bytes.clone()], "").unwrap_err();
        assert_eq!(e.code(), "tokenizer/pre-tokenizer");
    }
    let with_space = r#"{"type":"ByteLevel","add_prefix_space":true,"use_regex":true}"#.to_owned();
    assert_eq!(name(&[with_space], "").unwrap_err().code(), "tokenizer/pre-tokenizer");
    let deepseek = [
        split("[\r\n]", "Isolated", false),
        split(r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿ]+", "Isolated", false),
        split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+", "Isolated", false),
        split(r"\s+$", "Isolated", false),
        split("[一-龥ࠀ-一가-퟿]+", "Isolated", false),
        r#"{"type":"Digits","individual_digits":true}"#.to_owned(),
        bytes.clone(),
    ];
    assert_eq!(name(&deepseek, "").unwrap(), r#""deepseek-llm""#);
}
