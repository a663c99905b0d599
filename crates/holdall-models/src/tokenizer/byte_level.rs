//! Byte-level BPE and WordPiece: vocabularies whose tokens have no scores.

use super::family::Vocabularies;
use super::files::{Source, missing_file};
use super::metadata::TokenType;
use super::pre::{pre_tokenizer_name, word_piece_name};
use super::rules::{JSON, MERGE, MODEL};
use super::special::{ROLES, Special};
use super::tokenizer_json::{ModelType, TOKENIZER_JSON, checked_merge, too_many};
use super::vocabulary::{Vocabulary, WORD, not_an_id};
use super::{Work, options::TokenizerKind};
use holdall_core::error::{Escape as _, Result};
use holdall_json::Value;

/// Writes a vocabulary of byte-level BPE.
pub(super) fn write_byte_level(work: &mut Work<'_>) -> Result<()> {
    let base = base(
        work,
        &[ModelType::Bpe, ModelType::WordLevel],
        read_vocab_json,
        "tokenizer.json or vocab.json",
    )?;
    let json = work.json.as_mut();
    let merges = json.map(|json| std::mem::take(&mut json.model.merges)).unwrap_or_default();
    let (config, json) = (&work.config, work.json.as_ref());
    let vocabulary = Vocabulary::combine(work.source, config, json, base)?;
    let pre = match &work.options.pre_tokenizer {
        Some(name) => name.clone(),
        None => pre_tokenizer_name(config, json).map_err(|e| e.in_source(TOKENIZER_JSON))?,
    };
    let size = match work.vocab_size()? {
        Some(size) => size,
        None => vocabulary.end()?,
    };
    let decoder = json.map_or(&Value::Null, |json| &json.decoder);
    let tokens = vocabulary.tokens(config.checked_size(size)?, decoder)?;
    work.out.text("tokenizer.ggml.model", TokenizerKind::ByteLevelBpe.as_str());
    work.out.text("tokenizer.ggml.pre", &pre);
    work.out.tokens(tokens);
    let mut special = Special::collect(work.source, config, json, &ROLES, Some(merges), None)?;
    for (role, token) in work.roles() {
        special.set(role, vocabulary.added_id(token)?)?;
    }
    special.write(&mut work.out)
}

/// Writes a vocabulary of WordPiece.
///
/// GGUF marks the tokens that start a word, and the files those that do not.
pub(super) fn write_word_piece(work: &mut Work<'_>) -> Result<()> {
    let base = base(work, &[ModelType::WordPiece], read_vocab_txt, "tokenizer.json or vocab.txt")?;
    let (config, json) = (&work.config, work.json.as_ref());
    let vocabulary = Vocabulary::combine(work.source, config, json, base)?;
    let pre = match &work.options.pre_tokenizer {
        Some(name) => name.clone(),
        None => word_piece_name(json).map_err(|e| e.in_source(TOKENIZER_JSON))?,
    };
    let size = match work.vocab_size()? {
        Some(size) => size,
        None => vocabulary.end()?,
    };
    let decoder = json.map_or(&Value::Null, |json| &json.decoder);
    let mut tokens = vocabulary.tokens(config.checked_size(size)?, decoder)?;
    for (text, kind) in tokens.texts.iter_mut().zip(&tokens.types) {
        if *kind == TokenType::Control {
            continue;
        }
        *text = match text.strip_prefix("##") {
            Some(rest) => rest.to_owned(),
            None => format!("{WORD}{text}"),
        };
    }
    let len = tokens.texts.len() as u64;
    work.out.text("tokenizer.ggml.model", TokenizerKind::WordPiece.as_str());
    work.out.text("tokenizer.ggml.pre", &pre);
    work.out.tokens(tokens);
    let special = Special::collect(work.source, config, json, &ROLES, None, Some(len))?;
    special.write(&mut work.out)
}

/// Returns the tokens of the model, without added ones: those of `tokenizer.json`, or else of another file.
fn base(
    work: &mut Work<'_>,
    expected: &[ModelType],
    read: impl FnOnce(&Work<'_>) -> Result<Option<Vec<(String, u64)>>>,
    names: &str,
) -> Result<Vec<(String, u64)>> {
    if let Some(json) = work.json.as_mut() {
        if json.model.kind.is_none_or(|kind| !expected.contains(&kind)) {
            let message = format!("expected {:?}, found {:?}", expected.first(), json.model.kind);
            return Err(MODEL.broken(message.replace("Some", "")).in_source(TOKENIZER_JSON));
        }
        return Ok(std::mem::take(&mut json.model.vocab));
    }
    read(work)?.ok_or_else(|| missing_file(names))
}

/// Reads `vocab.json`, `{token: id}`.
fn read_vocab_json(work: &Work<'_>) -> Result<Option<Vec<(String, u64)>>> {
    const NAME: &str = "vocab.json";
    let Some(vocab) = work.source.json(NAME)? else { return Ok(None) };
    let Value::Object(vocab) = vocab else {
        return Err(JSON.broken("expected an object").in_source(NAME));
    };
    if vocab.len() as u64 > work.source.limits.attribute_values {
        return Err(too_many().in_source(NAME));
    }
    let token = |(text, id): (String, Value)| match id.as_u64() {
        Some(id) => Ok((text, id)),
        None => Err(not_an_id(&text).in_source(NAME)),
    };
    vocab.into_iter().map(token).collect::<Result<_>>().map(Some)
}

/// Reads `vocab.txt`: a token on each line.
fn read_vocab_txt(work: &Work<'_>) -> Result<Option<Vec<(String, u64)>>> {
    const NAME: &str = "vocab.txt";
    let Some(text) = work.source.text(NAME)? else { return Ok(None) };
    let mut out = Vec::new();
    for (line, id) in text.lines().zip(0u64..) {
        if id >= work.source.limits.attribute_values {
            return Err(too_many().in_source(NAME));
        }
        out.push((line.to_owned(), id));
    }
    Ok(Some(out))
}

/// Reads `merges.txt` if there is one.
pub(super) fn read_merges(source: Source<'_>) -> Result<Vec<String>> {
    const NAME: &str = "merges.txt";
    let mut out = Vec::new();
    let Some(text) = source.text(NAME)? else { return Ok(out) };
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || (at == 0 && line.starts_with('#')) {
            continue;
        }
        if out.len() as u64 >= source.limits.attribute_values {
            return Err(too_many().in_source(NAME));
        }
        let mut pieces = line.split_whitespace();
        let (Some(a), Some(b), None) = (pieces.next(), pieces.next(), pieces.next()) else {
            let context = format!("line {}", at.saturating_add(1));
            let message = format!("expected two pieces, found `{}`", line.escaped());
            let e = checked_merge(line).err().unwrap_or_else(|| MERGE.broken(message));
            return Err(e.within(context).in_source(NAME));
        };
        out.push(format!("{a} {b}"));
    }
    Ok(out)
}

impl Vocabularies {
    /// Returns the vocabulary that the files suggest.
    pub(super) fn suggested(work: &Work<'_>) -> Result<Vocabularies> {
        let files = work.source.files;
        if files.has("tokenizer.model") {
            return Ok(Vocabularies::Llama);
        }
        if let Some(json) = &work.json {
            return match json.model.kind {
                Some(ModelType::Bpe) if json.model.byte_fallback == Some(true) => {
                    Ok(Vocabularies::Llama)
                }
                Some(ModelType::Bpe) => Ok(Vocabularies::ByteLevel),
                Some(ModelType::WordPiece) => Ok(Vocabularies::WordPiece),
                Some(ModelType::Unigram) => Ok(match files.has("sentencepiece.bpe.model") {
                    true => Vocabularies::XlmRoberta,
                    false => Vocabularies::T5,
                }),
                Some(ModelType::WordLevel) | None => {
                    let message =
                        format!("the model of type {} is not supported", name(json.model.kind));
                    Err(MODEL.broken(message).in_source(TOKENIZER_JSON))
                }
            };
        }
        let by_file = [
            ("spiece.model", Vocabularies::T5),
            ("sentencepiece.bpe.model", Vocabularies::XlmRoberta),
            ("vocab.json", Vocabularies::ByteLevel),
            ("vocab.txt", Vocabularies::WordPiece),
        ];
        let found = by_file.iter().find(|(name, _)| files.has(name));
        let none = || {
            missing_file("tokenizer.json, tokenizer.model, spiece.model, vocab.json or vocab.txt")
        };
        found.map(|(_, vocabulary)| *vocabulary).ok_or_else(none)
    }
}

/// Returns the name of a model type in messages.
fn name(kind: Option<ModelType>) -> String {
    kind.map_or("unknown".to_owned(), |kind| format!("{kind:?}")).escaped().to_string()
}
