//! Vocabularies with scores: SentencePiece models, BPE with byte fallback, and Unigram.

use super::family::Vocabularies;
use super::files::missing_file;
use super::metadata::{ADDED, TokenType, Tokens};
use super::options::TokenizerKind;
use super::rules::{ID, JSON, MODEL};
use super::sentencepiece::{BPE, SentencePiece, UNIGRAM, read_sentencepiece};
use super::special::{ROLES, Special, items, text};
use super::tokenizer_json::{AddedToken, ModelType, TOKENIZER_JSON};
use super::vocabulary::{Vocabulary, WORD, decoder_tokens, looks_special, not_an_id};
use super::{Work, tokenizer_json::TokenizerJson};
use data_encoding::BASE64;
use holdall_core::error::{Escape as _, Result};
use holdall_json::Value;

/// Writes the vocabulary of `tokenizer.model`.
pub(super) fn write_model(work: &mut Work<'_>, family: Vocabularies) -> Result<()> {
    let model = read_sentencepiece(work.source, &["tokenizer.model"])?;
    let model = model.ok_or_else(|| missing_file("tokenizer.model"))?;
    let size = work.vocab_size()?.filter(|size| *size > 0).unwrap_or(model.pieces.len() as u64);
    let mut tokens = of_pieces(work, &model, size)?;
    override_from_added_tokens(work, &mut tokens)?;
    if let Some(decoder) = work.config.tokenizer.get("added_tokens_decoder") {
        for token in decoder_tokens(decoder)? {
            match family {
                Vocabularies::Phi3 => replace(work, &mut tokens, token)?,
                _ => override_token(work, &mut tokens, token),
            }
        }
    }
    if family == Vocabularies::Phi3 {
        for token in work.json.as_ref().map(|json| json.added.clone()).unwrap_or_default() {
            replace(work, &mut tokens, token)?;
        }
    }
    write(work, TokenizerKind::SentencePiece, tokens)
}

/// Writes the key–values of a vocabulary with scores and of the roles.
fn write(work: &mut Work<'_>, kind: TokenizerKind, tokens: Tokens) -> Result<()> {
    let len = tokens.texts.len() as u64;
    work.out.text("tokenizer.ggml.model", kind.as_str());
    work.out.text("tokenizer.ggml.pre", work.options.pre_tokenizer.as_deref().unwrap_or("default"));
    work.out.tokens(tokens);
    let (config, json) = (&work.config, work.json.as_ref());
    let special = Special::collect(work.source, config, json, &ROLES, None, Some(len))?;
    special.write(&mut work.out)
}

/// Returns the pieces of a model as a vocabulary of `size` tokens. Pieces beyond the size are left out.
fn of_pieces(work: &mut Work<'_>, model: &SentencePiece, size: u64) -> Result<Tokens> {
    let mut out = Tokens::unused(work.config.checked_size(size)?, true);
    for (piece, id) in model.pieces.iter().zip(0u64..) {
        // Pieces that the trainer was given are found like others: only added tokens are found by their text.
        let kind =
            if piece.kind == TokenType::UserDefined { TokenType::Normal } else { piece.kind };
        if !out.set(id, piece.text.clone(), kind, piece.score) {
            let left = (model.pieces.len() as u64).saturating_sub(id);
            let message =
                format!("{left} pieces from the id {id} on, which is not in the vocabulary");
            work.out.omitted.push(message);
            break;
        }
    }
    Ok(out)
}

/// Replaces tokens by those of `added_tokens.json`. Those beyond the vocabulary are left out.
fn override_from_added_tokens(work: &mut Work<'_>, tokens: &mut Tokens) -> Result<()> {
    const NAME: &str = "added_tokens.json";
    let Some(added) = work.source.json(NAME)? else { return Ok(()) };
    let Value::Object(added) = added else {
        return Err(JSON.broken("expected an object").in_source(NAME));
    };
    for (text, id) in added {
        let id = id.as_u64().ok_or_else(|| not_an_id(&text).in_source(NAME))?;
        let note = beyond(id, &text);
        if !tokens.set(id, text, TokenType::UserDefined, ADDED) {
            work.out.omitted.push(note);
        }
    }
    Ok(())
}

/// Replaces a token by an added one, in the form that it has in a text. One beyond the vocabulary is left out.
fn override_token(work: &mut Work<'_>, tokens: &mut Tokens, token: AddedToken) {
    let note = beyond(token.id, &token.content);
    let (text, kind) = match token.special || looks_special(&token.content) {
        true => (token.content, TokenType::Control),
        false => (token.content.replace(WORD, " "), TokenType::UserDefined),
    };
    if !tokens.set(token.id, text, kind, ADDED) {
        work.out.omitted.push(note);
    }
}

/// Replaces a token by an added one as it is.
fn replace(work: &Work<'_>, tokens: &mut Tokens, token: AddedToken) -> Result<()> {
    let kind = if token.special { TokenType::Control } else { TokenType::UserDefined };
    let message = beyond(token.id, &token.content);
    match tokens.set(token.id, token.content, kind, ADDED) {
        true => Ok(()),
        false => Err(ID.broken(format!(
            "{message}, which has {} tokens",
            work.vocab_size()?.unwrap_or_default()
        ))),
    }
}

fn beyond(id: u64, text: &str) -> String {
    format!("the added token `{}` with the id {id}, which is not in the vocabulary", text.escaped())
}

/// Returns `true` if `tokenizer.json` has a BPE with byte fallback, which SentencePiece trained.
pub(super) fn has_byte_fallback(json: Option<&TokenizerJson>) -> bool {
    json.is_some_and(|json| {
        json.model.kind == Some(ModelType::Bpe)
            && json.model.byte_fallback == Some(true)
            && text(&json.decoder, "type") == Some("Sequence")
    })
}

/// Writes the vocabulary of a BPE with byte fallback in `tokenizer.json`, which has no scores.
pub(super) fn write_byte_fallback(work: &mut Work<'_>, family: Vocabularies) -> Result<()> {
    if !has_byte_fallback(work.json.as_ref()) {
        let e = match work.json.is_some() {
            true => MODEL.broken("expected BPE with byte fallback").in_source(TOKENIZER_JSON),
            false => missing_file("tokenizer.model or tokenizer.json"),
        };
        return Err(e);
    }
    let json = work.json.as_mut();
    let (base, merges) = json
        .map(|json| (std::mem::take(&mut json.model.vocab), std::mem::take(&mut json.model.merges)))
        .unwrap_or_default();
    let (config, json) = (&work.config, work.json.as_ref());
    let vocabulary = Vocabulary::combine(work.source, config, json, base)?;
    let mut tokens = Tokens::unused(config.checked_size(vocabulary.end()?)?, true);
    let base_len = vocabulary.base_len();
    for (text, id) in vocabulary.base() {
        let kind = match () {
            () if is_byte(text) => TokenType::Byte,
            () if vocabulary.is_named(text) => TokenType::Control,
            () => TokenType::Normal,
        };
        tokens.set(*id, text.clone(), kind, ADDED);
    }
    for token in vocabulary.added.iter().filter(|token| token.id >= base_len) {
        let kind = match vocabulary.is_named(&token.content) {
            true => TokenType::Control,
            false => TokenType::UserDefined,
        };
        tokens.set(token.id, token.content.clone(), kind, ADDED);
    }
    if family != Vocabularies::Gemma4 {
        return write(work, TokenizerKind::SentencePiece, tokens);
    }
    for (text, kind) in tokens.texts.iter().zip(&mut tokens.types) {
        // The parser of answers reads them, so they are not hidden.
        if VISIBLE.contains(&text.as_str()) {
            *kind = TokenType::UserDefined;
        }
    }
    work.out.text("tokenizer.ggml.model", TokenizerKind::Gemma4.as_str());
    work.out.tokens(tokens);
    let special = Special::collect(work.source, config, json, &ROLES, Some(merges), None)?;
    special.write(&mut work.out)
}

/// Tokens of Gemma 4 that are shown, although they are special.
const VISIBLE: [&str; 7] = [
    "<|channel>",
    "<channel|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|tool_response>",
    "<tool_response|>",
    "<|\"|>",
];

/// Returns `true` if a token means a byte: `<0x0A>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|d| d.len() == 2 && d.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Writes the vocabulary of a Unigram model.
pub(super) fn write_unigram(work: &mut Work<'_>) -> Result<()> {
    const NAMES: [&str; 2] = ["tokenizer.model", "spiece.model"];
    let Some(model) = read_sentencepiece(work.source, &NAMES)? else {
        return write_unigram_json(work, false);
    };
    match model.model_type {
        UNIGRAM => {}
        BPE => return write_model(work, Vocabularies::T5),
        other => {
            return Err(MODEL
                .broken(format!("the SentencePiece model is of type {other}, expected 1 or 2")));
        }
    }
    let size = work.vocab_size()?.unwrap_or(model.pieces.len() as u64);
    if (model.pieces.len() as u64) > size {
        let len = model.pieces.len();
        return Err(
            ID.broken(format!("the model has {len} pieces, but the vocabulary has {size} tokens"))
        );
    }
    let mut tokens = of_pieces(work, &model, size)?;
    override_from_added_tokens(work, &mut tokens)?;
    write_with_normalizer(work, tokens, &Normalizer::from(&model), false)
}

/// The normalizer of a Unigram model.
struct Normalizer<'a> {
    adds_space: bool,
    removes_spaces: bool,
    charsmap: std::borrow::Cow<'a, [u8]>,
}

impl<'a> From<&'a SentencePiece> for Normalizer<'a> {
    fn from(model: &'a SentencePiece) -> Normalizer<'a> {
        Normalizer {
            adds_space: model.add_dummy_prefix,
            removes_spaces: model.remove_extra_whitespaces,
            charsmap: model.precompiled_charsmap.as_slice().into(),
        }
    }
}

fn write_with_normalizer(
    work: &mut Work<'_>,
    tokens: Tokens,
    normalizer: &Normalizer<'_>,
    with_types: bool,
) -> Result<()> {
    let len = tokens.texts.len() as u64;
    work.out.text("tokenizer.ggml.model", TokenizerKind::Unigram.as_str());
    work.out.text("tokenizer.ggml.pre", work.options.pre_tokenizer.as_deref().unwrap_or("default"));
    work.out.tokens(tokens);
    work.out.flag("tokenizer.ggml.add_space_prefix", normalizer.adds_space);
    if with_types {
        work.write_token_types()?;
    }
    work.out.flag("tokenizer.ggml.remove_extra_whitespaces", normalizer.removes_spaces);
    if !normalizer.charsmap.is_empty() {
        work.out.bytes("tokenizer.ggml.precompiled_charsmap", &normalizer.charsmap);
    }
    let (config, json) = (&work.config, work.json.as_ref());
    let special = Special::collect(work.source, config, json, &ROLES, None, Some(len))?;
    special.write(&mut work.out)
}

/// Writes the vocabulary of XLM-RoBERTa.
pub(super) fn write_xlm_roberta(work: &mut Work<'_>) -> Result<()> {
    let Some(model) = read_sentencepiece(work.source, &["sentencepiece.bpe.model"])? else {
        return write_unigram_json(work, true);
    };
    if model.model_type != UNIGRAM {
        return Err(MODEL.broken("expected a Unigram model").in_source("sentencepiece.bpe.model"));
    }
    let len = model.pieces.len() as u64;
    let mut tokens = of_pieces(work, &model, work.vocab_size()?.unwrap_or(0).max(len))?;
    realign(&mut tokens);
    write_with_normalizer(work, tokens, &Normalizer::from(&model), true)
}

/// Puts the four special tokens of XLM-RoBERTa at the start, which moves all others by one.
fn realign(tokens: &mut Tokens) {
    const FIRST: [(&str, TokenType); 4] = [
        ("<s>", TokenType::Control),
        ("<pad>", TokenType::Control),
        ("</s>", TokenType::Control),
        ("<unk>", TokenType::Unknown),
    ];
    fn shift<T>(all: &mut Vec<T>, first: impl Iterator<Item = T>) {
        all.pop();
        let rest = all.split_off(all.len().min(3));
        *all = first.chain(rest).collect();
    }
    shift(&mut tokens.texts, FIRST.iter().map(|(text, _)| (*text).to_owned()));
    shift(&mut tokens.types, FIRST.iter().map(|(_, kind)| *kind));
    if let Some(scores) = &mut tokens.scores {
        shift(scores, FIRST.iter().map(|_| 0.0));
    }
}

/// Writes the vocabulary of a Unigram model in `tokenizer.json`: that of XLM-RoBERTa, or else of T5.
fn write_unigram_json(work: &mut Work<'_>, is_xlm_roberta: bool) -> Result<()> {
    let json = work
        .json
        .as_mut()
        .ok_or_else(|| missing_file("SentencePiece model and no tokenizer.json"))?;
    if json.model.kind != Some(ModelType::Unigram) {
        return Err(MODEL.broken("expected a Unigram model").in_source(TOKENIZER_JSON));
    }
    let (base, scores) =
        (std::mem::take(&mut json.model.vocab), std::mem::take(&mut json.model.scores));
    let unknown_id = json.model.unk_id;
    let (config, json) = (&work.config, work.json.as_ref());
    let vocabulary = Vocabulary::combine(work.source, config, json, base)?;
    let size = work.vocab_size()?.unwrap_or(0).max(vocabulary.base_len());
    let mut tokens = Tokens::unused(config.checked_size(size)?, true);
    let unknown_text = text(&config.tokenizer, "unk_token");
    let unknown =
        vocabulary.added.iter().find(|token| Some(token.content.as_str()) == unknown_text);
    let unknown_id = unknown.map(|token| token.id).or(unknown_id).unwrap_or(3);
    for ((text, id), score) in vocabulary.base().iter().zip(scores) {
        let added = vocabulary.added.binary_search_by_key(id, |token| token.id).is_ok();
        let kind = match () {
            () if *id == unknown_id => TokenType::Unknown,
            () if vocabulary.is_named(text) => TokenType::Control,
            () if added => TokenType::UserDefined,
            () => TokenType::Normal,
        };
        #[allow(clippy::cast_possible_truncation)] // GGUF has scores of 32 bits.
        tokens.set(*id, text.clone(), kind, score as f32);
    }
    let notes: Vec<String> = vocabulary
        .added
        .iter()
        .filter(|token| token.id >= vocabulary.base_len())
        .map(|token| {
            format!("the added token `{}`, which is not in the model", token.content.escaped())
        })
        .collect();
    let rules = json.map_or((&Value::Null, &Value::Null), |j| (&j.normalizer, &j.pre_tokenizer));
    let normalizer = Normalizer {
        adds_space: match is_xlm_roberta {
            true => adds_space(config.tokenizer_class(), &config.tokenizer),
            false => has_rule(rules.1, &|rule| {
                text(rule, "type") == Some("Metaspace")
                    && text(rule, "prepend_scheme") != Some("never")
            }),
        },
        removes_spaces: match is_xlm_roberta {
            true => flag(&config.tokenizer, "clean_up_tokenization_spaces"),
            false => {
                has_rule(rules.1, &|rule| text(rule, "type") == Some("WhitespaceSplit"))
                    || has_rule(rules.0, &|rule| {
                        rule.pointer("/pattern/Regex").and_then(Value::as_str) == Some(" {2,}")
                    })
            }
        },
        charsmap: charsmap(rules.0)?.into(),
    };
    work.out.omitted.extend(notes);
    write_with_normalizer(work, tokens, &normalizer, is_xlm_roberta)
}

/// Returns `true` if a rule, or one of a sequence of rules, is the one that is looked for.
fn has_rule(rules: &Value, is: &dyn Fn(&Value) -> bool) -> bool {
    let parts = ["normalizers", "pretokenizers"].into_iter().flat_map(|key| items(rules, key));
    is(rules) || parts.into_iter().any(|part| has_rule(part, is))
}

/// Returns `true` if a space is put before texts: by default, this depends on the class.
fn adds_space(class: Option<&str>, config: &Value) -> bool {
    let own = config.get("add_prefix_space").and_then(Value::as_bool);
    let is_generic = matches!(class, None | Some("PreTrainedTokenizerFast" | "TokenizersBackend"));
    own.unwrap_or(!is_generic)
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the map of characters of a normalizer.
fn charsmap(normalizer: &Value) -> Result<Vec<u8>> {
    if let Some(encoded) = text(normalizer, "precompiled_charsmap") {
        let wrong =
            |_| JSON.broken("`precompiled_charsmap` is not base64").in_source(TOKENIZER_JSON);
        return BASE64.decode(encoded.as_bytes()).map_err(wrong);
    }
    for one in items(normalizer, "normalizers") {
        let found = charsmap(one)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}
