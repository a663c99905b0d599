//! Writes the files of byte-level BPE and WordPiece tokenizers: `tokenizer.json` and `tokenizer_config.json`.

use super::config::{object, string, tokenizer_config};
use super::{Token, TokenType, Tokenizer, no_files, text};
use crate::tokenizer::files::TokenizerFiles;
use crate::tokenizer::pre::steps_of;
use crate::tokenizer::rules::MERGE;
use crate::tokenizer::tokenizer_json::{TOKENIZER_JSON, checked_merge};
use crate::tokenizer::vocabulary::{Decoder, WORD};
use holdall_core::error::{Escape as _, Result};

/// The class of tokenizers that have `tokenizer.json` alone.
const CLASS: &str = "PreTrainedTokenizerFast";

/// Returns the files of a byte-level BPE.
pub(super) fn byte_level_files(
    tokenizer: &Tokenizer<'_>,
    lost: &mut Vec<String>,
) -> Result<TokenizerFiles> {
    tokenizer.check_unique()?;
    let pre = text(tokenizer.attributes, "tokenizer.ggml.pre")?.unwrap_or_default();
    let steps = steps_of(pre).ok_or_else(|| {
        no_files(&format!("unknown pre-tokenizer `{}` in `tokenizer.ggml.pre`", pre.escaped()))
    })?;
    let decoder = Decoder { is_byte_level: true, has_spaces: false };
    let end = end_of_vocabulary(tokenizer);
    let in_model = tokenizer.tokens.iter().filter(|token| !token.is_hole() && token.id < end);
    let vocab: Vec<(&str, u64)> = in_model.map(|token| (token.text, token.id)).collect();
    let added = tokenizer.tokens.iter().filter(|token| token.is_added()).map(|token| {
        // A token that is not normalized is written to GGUF as the decoder returns it.
        let normalized = decoder.decode(token.text) != token.text;
        added_token(token, token.text, normalized)
    });
    let mut merges = Vec::new();
    for merge in tokenizer.texts("tokenizer.ggml.merges")? {
        checked_merge(merge)?;
        let (a, b) = merge.split_once(' ').ok_or_else(|| {
            let message =
                format!("the merge `{}` has no space between its pieces", merge.escaped());
            MERGE.broken(message)
        })?;
        merges.push(format!("[{},{}]", string(a), string(b)));
    }
    let ignores_merges = matches!(
        pre,
        "llama-bpe"
            | "llama3"
            | "llama-v3"
            | "tekken"
            | "falcon3"
            | "falcon-h1"
            | "pixtral"
            | "midm-2.0"
            | "lfm2"
            | "jina-v5-nano"
            | "youtu"
            | "minicpm5"
            | "granite-embed-multi-97m"
    );
    let model = format!(
        "{{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":{ignores_merges},\"vocab\":{},\"merges\":[{}]}}",
        vocab_json(&vocab),
        merges.join(",")
    );
    let pre_tokenizer: Vec<String> = steps.iter().map(|step| step_json(step)).collect();
    let pre_tokenizer = match pre_tokenizer.as_slice() {
        [one] => one.clone(),
        all => format!("{{\"type\":\"Sequence\",\"pretokenizers\":[{}]}}", all.join(",")),
    };
    lost.push("the Unicode normalizer, if there was one".to_owned());
    let byte_level = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":false,\"use_regex\":true}";
    let members = [
        ("normalizer", normalizer(tokenizer)?),
        ("pre_tokenizer", pre_tokenizer),
        ("post_processor", template(tokenizer)?.unwrap_or_else(|| byte_level.to_owned())),
        ("decoder", byte_level.to_owned()),
        ("model", model),
    ];
    files(tokenizer, added.collect(), &members, &[])
}

/// Returns the files of WordPiece.
pub(super) fn word_piece_files(
    tokenizer: &Tokenizer<'_>,
    lost: &mut Vec<String>,
) -> Result<TokenizerFiles> {
    tokenizer.check_unique()?;
    let restored: Vec<(&Token<'_>, String)> = tokenizer
        .tokens
        .iter()
        .filter(|token| !token.is_hole())
        .map(|token| {
            let text = match (token.kind, token.text.strip_prefix(WORD)) {
                (TokenType::Control, _) => token.text.to_owned(),
                (_, Some(word)) => word.to_owned(),
                (_, None) => format!("##{}", token.text),
            };
            (token, text)
        })
        .collect();
    let vocab: Vec<(&str, u64)> =
        restored.iter().map(|(token, text)| (text.as_str(), token.id)).collect();
    let added = restored.iter().filter(|(token, _)| token.is_added());
    let added = added.map(|(token, text)| added_token(token, text, false)).collect();
    let lowercase = tokenizer.flag("tokenizer.ggml.normalizer.lowercase")?;
    let accents = tokenizer.flag("tokenizer.ggml.normalizer.strip_accents")?;
    if lowercase.is_none() {
        lost.push("whether text is lowercased; lowercasing is assumed".to_owned());
    }
    let normalizer = format!(
        "{{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":{},\"lowercase\":{}}}",
        accents.map_or("null".to_owned(), |flag| flag.to_string()),
        lowercase.unwrap_or(true)
    );
    let unknown = tokenizer.role("unk").map_or("[UNK]", |token| token.text);
    let model = format!(
        "{{\"type\":\"WordPiece\",\"unk_token\":{},\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"vocab\":{}}}",
        string(unknown),
        vocab_json(&vocab)
    );
    let members = [
        ("normalizer", normalizer),
        ("pre_tokenizer", "{\"type\":\"BertPreTokenizer\"}".to_owned()),
        ("post_processor", template(tokenizer)?.unwrap_or_else(|| "null".to_owned())),
        ("decoder", "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}".to_owned()),
        ("model", model),
    ];
    let first = tokenizer.role("bos").filter(|token| token.kind == TokenType::Control);
    let cls = first.map(|token| ("cls_token", string(token.text)));
    files(tokenizer, added, &members, cls.as_slice())
}

fn files(
    tokenizer: &Tokenizer<'_>,
    added: Vec<String>,
    members: &[(&str, String)],
    more: &[(&str, String)],
) -> Result<TokenizerFiles> {
    let mut all = vec![
        ("version".to_owned(), "\"1.0\"".to_owned()),
        ("truncation".to_owned(), "null".to_owned()),
        ("padding".to_owned(), "null".to_owned()),
        ("added_tokens".to_owned(), format!("[\n{}\n  ]", added.join(",\n"))),
    ];
    all.extend(members.iter().map(|(key, json)| ((*key).to_owned(), json.clone())));
    let config = tokenizer_config(tokenizer, CLASS, true, more)?;
    Ok(TokenizerFiles::new()
        .with_file(TOKENIZER_JSON, object(&all).into_bytes())
        .with_file("tokenizer_config.json", config.into_bytes()))
}

/// Returns the first id that need not be in the model's vocabulary. From this id on, all tokens are added tokens with
/// consecutive ids, and readers give added tokens the ids after the vocabulary in order. Before it, added tokens must
/// be in the vocabulary too.
fn end_of_vocabulary(tokenizer: &Tokenizer<'_>) -> u64 {
    let last = tokenizer.tokens.iter().rev().find(|own| !own.is_added() && !own.is_hole());
    let end = last.map_or(0, |last| last.id.saturating_add(1));
    let last_hole =
        tokenizer.tokens.iter().rev().skip_while(|own| own.is_hole()).find(|own| own.is_hole());
    match last_hole {
        // The ids have a gap, so the order of added tokens does not determine their ids: all are in the vocabulary.
        Some(_) => u64::MAX,
        None => end,
    }
}

fn added_token(token: &Token<'_>, text: &str, normalized: bool) -> String {
    let special = token.kind == TokenType::Control;
    format!(
        "    {{\"id\":{},\"content\":{},\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":{normalized},\"special\":{special}}}",
        token.id,
        string(text)
    )
}

fn vocab_json(vocab: &[(&str, u64)]) -> String {
    let tokens: Vec<String> =
        vocab.iter().map(|(text, id)| format!("{}:{id}", string(text))).collect();
    format!("{{{}}}", tokens.join(","))
}

/// Returns the normalizer of a byte-level BPE.
fn normalizer(tokenizer: &Tokenizer<'_>) -> Result<String> {
    let mut all = Vec::new();
    if tokenizer.flag("tokenizer.ggml.normalizer.lowercase")? == Some(true) {
        all.push("{\"type\":\"Lowercase\"}");
    }
    if tokenizer.flag("tokenizer.ggml.normalizer.strip_accents")? == Some(true) {
        all.push("{\"type\":\"StripAccents\"}");
    }
    Ok(match all.as_slice() {
        [] => "null".to_owned(),
        [one] => (*one).to_owned(),
        all => format!("{{\"type\":\"Sequence\",\"normalizers\":[{}]}}", all.join(",")),
    })
}

/// Returns the processor that adds tokens around texts, if any are added.
fn template(tokenizer: &Tokenizer<'_>) -> Result<Option<String>> {
    let added = |role: &str| -> Result<Option<&Token<'_>>> {
        let flag = tokenizer.flag(&format!("tokenizer.ggml.add_{role}_token"))?;
        Ok(tokenizer.role(role).filter(|t| flag == Some(true) && t.kind == TokenType::Control))
    };
    let (first, last, between) = (added("bos")?, added("eos")?, added("sep")?);
    if first.is_none() && last.is_none() {
        return Ok(None);
    }
    let special = |token: Option<&Token<'_>>, of: u8| {
        token
            .map(|t| format!("{{\"SpecialToken\":{{\"id\":{},\"type_id\":{of}}}}}", string(t.text)))
    };
    let sequence = |name: &str, of: u8| {
        Some(format!("{{\"Sequence\":{{\"id\":\"{name}\",\"type_id\":{of}}}}}"))
    };
    // GGUF says only whether the separator is between two texts. If the key is present and false, another token is
    // between them: in most tokenizers, the token that ends a text, or else the one that begins a text.
    let has_other = tokenizer.flag("tokenizer.ggml.add_sep_token")? == Some(false);
    let middle = if has_other { last.or(first) } else { between };
    let single = [special(first, 0), sequence("A", 0), special(last, 0)];
    let pair = [
        special(first, 0),
        sequence("A", 0),
        special(middle, 0),
        sequence("B", 1),
        special(last, 1),
    ];
    let join = |parts: &[Option<String>]| -> String {
        parts.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(",")
    };
    let mut tokens: Vec<&Token<'_>> = [first, last, middle].into_iter().flatten().collect();
    tokens.dedup_by_key(|token| token.id);
    let mut seen = Vec::new();
    let mut named = Vec::new();
    for token in tokens {
        if !seen.contains(&token.id) {
            seen.push(token.id);
            let text = string(token.text);
            named.push(format!(
                "{text}:{{\"id\":{text},\"ids\":[{}],\"tokens\":[{text}]}}",
                token.id
            ));
        }
    }
    Ok(Some(format!(
        "{{\"type\":\"TemplateProcessing\",\"single\":[{}],\"pair\":[{}],\"special_tokens\":{{{}}}}}",
        join(&single),
        join(&pair),
        named.join(",")
    )))
}

/// Returns a step of a pre-tokenizer as JSON, in the form of `tokenizer.json`.
fn step_json(step: &str) -> String {
    let byte_level = |has_regex: bool| {
        format!(
            "{{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":{has_regex}}}"
        )
    };
    let digits = |single: bool| format!("{{\"type\":\"Digits\",\"individual_digits\":{single}}}");
    if let Some(regex) = step.strip_prefix("split ") {
        let regex = string(regex);
        return format!(
            "{{\"type\":\"Split\",\"pattern\":{{\"Regex\":{regex}}},\"behavior\":\"Isolated\",\"invert\":false}}"
        );
    }
    if let Some(behavior) = step.strip_prefix("punctuation ") {
        return format!("{{\"type\":\"Punctuation\",\"behavior\":{}}}", string(behavior));
    }
    match step {
        "words of GPT-2" => byte_level(true),
        "digits" => digits(true),
        "runs of digits" => digits(false),
        _ => byte_level(false),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tokenizer::pre::{group_name, steps_of};

    #[test]
    fn written_pre_tokenizers_are_those_of_the_table() {
        let names = [
            "gpt-2",
            "starcoder",
            "llama-bpe",
            "qwen2",
            "qwen35",
            "gpt-4o",
            "tekken",
            "deepseek-v3",
            "deepseek-coder",
            "falcon",
            "bloom",
            "viking",
            "seed-coder",
            "bailingmoe",
            "exaone-moe",
            "tiny_aya",
            "minicpm5",
            "youtu",
            "laguna",
        ];
        for name in names {
            let steps: Vec<String> = steps_of(name).unwrap().iter().map(|s| step_json(s)).collect();
            let text = format!("{{\"type\":\"Sequence\",\"pretokenizers\":[{}]}}", steps.join(","));
            let value = holdall_json::parse(text.as_bytes(), 8).unwrap();
            assert_eq!(group_name(&value).unwrap(), name, "{text}");
        }
        assert_eq!(steps_of("smollm"), steps_of("starcoder"));
        assert_eq!(steps_of("unheard-of"), None);
    }
}
