//! Writes SentencePiece models.

use super::config::{string, tokenizer_config};
use super::{Token, TokenType, Tokenizer, array, no_files, wrong_type};
use crate::tokenizer::files::TokenizerFiles;
use crate::tokenizer::metadata::ADDED;
use crate::tokenizer::options::TokenizerKind;
use crate::tokenizer::rules::METADATA;
use crate::tokenizer::vocabulary::WORD;
use holdall_collections::HashSet;
use holdall_core::error::{Escape as _, Result};
use std::borrow::Cow;

/// Returns the files of a SentencePiece model.
pub(super) fn model_files(
    tokenizer: &Tokenizer<'_>,
    lost: &mut Vec<String>,
) -> Result<TokenizerFiles> {
    let is_unigram = tokenizer.kind == TokenizerKind::Unigram;
    let starts_with = |texts: [&str; 2]| {
        tokenizer.tokens.iter().zip(texts).all(|(token, text)| token.text == text)
    };
    if is_unigram && starts_with(["<s>", "<pad>"]) {
        return Err(no_files(
            "the special tokens of XLM-RoBERTa are not in its SentencePiece model",
        ));
    }
    tokenizer.check_unique()?;
    let scores = tokenizer.tokens.iter().map(|token| token.score);
    let scores = scores.collect::<Option<Vec<f32>>>();
    let scores = scores.ok_or_else(|| METADATA.broken("there is no `tokenizer.ggml.scores`"))?;
    if !is_unigram && scores.iter().all(|score| *score == ADDED) {
        lost.push("the merges of a `tokenizer.json`: all scores are the same".to_owned());
    }
    // Ids without a token at the end are those of the model only.
    let count = tokenizer.tokens.iter().rposition(|token| !token.is_hole());
    let count = count.and_then(|last| last.checked_add(1)).unwrap_or(0);
    let tokens = tokenizer.tokens.get(..count).unwrap_or_default();
    let unknown = unknown_id(tokenizer);
    let mut model = Vec::new();
    let mut texts: HashSet<Cow<'_, str>> = HashSet::default();
    for (token, score) in tokens.iter().zip(&scores) {
        let mut text = match token.is_added() {
            true => Cow::Owned(token.text.replace(' ', WORD)),
            false => Cow::Borrowed(token.text),
        };
        if text.is_empty() || texts.contains(&text) {
            text = Cow::Borrowed(token.text);
        }
        if text.is_empty() || !texts.insert(text.clone()) {
            let message =
                format!("the token `{}` is empty, or appears twice", token.text.escaped());
            return Err(no_files(&message));
        }
        let kind = if Some(token.id) == unknown { TokenType::Unknown } else { token.kind };
        let mut piece = field(1, text.as_bytes());
        piece.push(2 << 3 | 5);
        piece.extend_from_slice(&score.to_le_bytes());
        number(3, u64::try_from(kind.number()).unwrap_or_default(), &mut piece);
        model.extend(field(1, &piece));
    }
    model.extend(field(2, &trainer(tokenizer, tokens, unknown, is_unigram)));
    model.extend(field(3, &normalizer(tokenizer, is_unigram)?));
    let (name, class) = match is_unigram {
        true => ("spiece.model", "T5Tokenizer"),
        false => ("tokenizer.model", "LlamaTokenizer"),
    };
    let added: Vec<String> = tokens
        .iter()
        .filter(|token| token.is_added() && token.score == Some(ADDED))
        .map(|token| {
            format!(
                "\n    \"{}\": {{\"content\":{},\"lstrip\":false,\"normalized\":false,\"rstrip\":false,\"single_word\":false,\"special\":{}}}",
                token.id,
                string(token.text),
                token.kind == TokenType::Control
            )
        })
        .collect();
    let mut more = Vec::new();
    if !is_unigram {
        more.push(("added_tokens_decoder", format!("{{{}\n  }}", added.join(","))));
        more.push(("legacy", "false".to_owned()));
    }
    let config = tokenizer_config(tokenizer, class, false, &more)?;
    let mut files = TokenizerFiles::new()
        .with_file(name, model)
        .with_file("tokenizer_config.json", config.into_bytes());
    if is_unigram {
        let added: Vec<String> = tokens
            .iter()
            .filter(|token| token.kind == TokenType::UserDefined && token.score == Some(ADDED))
            .map(|token| format!("\n  {}: {}", string(token.text), token.id))
            .collect();
        if !added.is_empty() {
            let json = format!("{{{}\n}}\n", added.join(","));
            files.insert("added_tokens.json", json.into_bytes());
        }
    }
    Ok(files)
}

/// Returns the id of the unknown token. A model has exactly one; if an added token has replaced it, it is the one with
/// this role.
fn unknown_id(tokenizer: &Tokenizer<'_>) -> Option<u64> {
    let find = |is: &dyn Fn(&Token<'_>) -> bool| tokenizer.tokens.iter().find(|token| is(token));
    let own = find(&|token| token.kind == TokenType::Unknown);
    let found =
        own.or_else(|| tokenizer.role("unk")).or_else(|| find(&|token| token.text == "<unk>"));
    found.map(|token| token.id)
}

/// Returns the specification of the trainer.
fn trainer(
    tokenizer: &Tokenizer<'_>,
    tokens: &[Token<'_>],
    unknown: Option<u64>,
    is_unigram: bool,
) -> Vec<u8> {
    let mut out = Vec::new();
    number(3, if is_unigram { 1 } else { 2 }, &mut out);
    number(4, tokens.len() as u64, &mut out);
    let has_bytes = tokens.iter().any(|token| token.kind == TokenType::Byte);
    number(35, has_bytes.into(), &mut out);
    let role = |role: &str| tokenizer.role(role).map(|token| token.id);
    let ids = [(40, unknown), (41, role("bos")), (42, role("eos")), (43, role("pad"))];
    for (field, id) in ids {
        // Without the token, the id is -1.
        number(field, id.unwrap_or(u64::MAX), &mut out);
    }
    out
}

/// Returns the specification of the normalizer.
fn normalizer(tokenizer: &Tokenizer<'_>, is_unigram: bool) -> Result<Vec<u8>> {
    const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
    let mut out = field(1, b"identity");
    if let Some(items) = array(tokenizer.attributes, CHARSMAP)? {
        let byte = |item: &holdall_core::model::Value| u8::try_from(item.as_integer()?).ok();
        let bytes = items.iter().map(byte).collect::<Option<Vec<u8>>>();
        out = field(1, b"user_defined");
        out.extend(field(2, &bytes.ok_or_else(|| wrong_type(CHARSMAP, "an array of bytes"))?));
    }
    let adds_space = tokenizer.flag("tokenizer.ggml.add_space_prefix")?;
    number(3, adds_space.unwrap_or(true).into(), &mut out);
    let removes = tokenizer.flag("tokenizer.ggml.remove_extra_whitespaces")?;
    number(4, removes.unwrap_or(is_unigram).into(), &mut out);
    Ok(out)
}

/// Returns a field that consists of bytes.
fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(number << 3 | 2, &mut out);
    varint(bytes.len() as u64, &mut out);
    out.extend_from_slice(bytes);
    out
}

/// Appends a field that is a number.
fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3, out);
    varint(value, out);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}
