//! The tokens of a vocabulary and the added ones, as the library `transformers` combines them.

use super::config::Config;
use super::files::Source;
use super::metadata::{ADDED, TokenType, Tokens};
use super::rules::{DUPLICATE, ID, JSON, MISSING_TOKEN};
use super::special::token_text;
use super::tokenizer_json::{AddedToken, TokenizerJson, too_many};
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_json::Value;
use std::borrow::Cow;

/// A vocabulary with its added tokens.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// The tokens of the model, in the order of the file.
    base: Vec<(String, u64)>,
    /// The added tokens. Some of them are in the base, too.
    pub(super) added: Vec<AddedToken>,
    /// The texts of the tokens that have a role.
    named: HashSet<String>,
}

impl Vocabulary {
    /// Combines the tokens of a model with the added tokens in all files.
    pub(super) fn combine(
        source: Source<'_>,
        config: &Config,
        json: Option<&TokenizerJson>,
        base: Vec<(String, u64)>,
    ) -> Result<Vocabulary> {
        let (mut ids, mut by_id) = (HashMap::default(), HashMap::default());
        for (text, id) in &base {
            if ids.insert(text.as_str(), *id).is_some() {
                return Err(twice(text));
            }
            if let Some(other) = by_id.insert(*id, Cow::Borrowed(text.as_str())) {
                return Err(same_id(*id, &other, text));
            }
        }
        let next = by_id.keys().max().map_or(0, |last: &u64| last.saturating_add(1));
        let mut added =
            AddedTokens { base: ids, by_id, next, all: Vec::new(), at: HashMap::default() };
        for token in json.map_or(&[][..], |json| &json.added) {
            added.add(token.clone())?;
        }
        let more = match config.tokenizer.get("added_tokens_decoder") {
            Some(decoder @ Value::Object(_)) => {
                for token in decoder_tokens(decoder)? {
                    added.add(token)?;
                }
                None
            }
            _ => {
                let more = source.json("special_tokens_map.json")?;
                let named: HashSet<&str> = config.named_tokens(more.as_ref()).into_iter().collect();
                if let Some(Value::Object(all)) = source.json("added_tokens.json")? {
                    for (content, id) in all {
                        let wrong = || not_an_id(&content).in_source("added_tokens.json");
                        let id = id.as_u64().ok_or_else(wrong)?;
                        let special = named.contains(content.as_str());
                        added.add_unknown(AddedToken {
                            id,
                            content,
                            special,
                            normalized: !special,
                        })?;
                    }
                }
                more
            }
        };
        for content in config.named_tokens(more.as_ref()) {
            added.add_named(content)?;
        }
        let mut named: HashSet<String> =
            config.named_tokens(more.as_ref()).into_iter().map(str::to_owned).collect();
        for content in config.default_tokens(more.as_ref()) {
            if added.has(content) {
                added.add_named(content)?;
                named.insert(content.to_owned());
            }
        }
        let mut added = added.all;
        holdall_collections::sort_by(&mut added, |a, b| a.id.cmp(&b.id));
        Ok(Vocabulary { base, added, named })
    }

    /// Returns the number of tokens of the model, without added ones.
    pub(super) fn base_len(&self) -> u64 {
        self.base.len() as u64
    }

    /// Returns the number of ids up to the last one that has a token.
    pub(super) fn end(&self) -> Result<u64> {
        let ids = self.base.iter().map(|(_, id)| *id).chain(self.added.iter().map(|t| t.id));
        ids.max().map_or(Ok(0), |last| last.checked_add(1).ok_or_else(too_many))
    }

    /// Returns the id of an added token.
    pub(super) fn added_id(&self, content: &str) -> Result<u64> {
        let found = self.added.iter().find(|token| token.content == content);
        let missing =
            || MISSING_TOKEN.broken(format!("there is no added token `{}`", content.escaped()));
        found.map(|token| token.id).ok_or_else(missing)
    }

    /// Returns `true` if the token of this text has a role.
    pub(super) fn is_named(&self, content: &str) -> bool {
        self.named.contains(content)
    }

    /// Returns the vocabulary by id, with `size` tokens. Ids without a token get unused ones.
    ///
    /// # Errors
    /// Returns [`ID`] if there is a token beyond the size.
    pub(super) fn tokens(&self, size: usize, decoder: &Value) -> Result<Tokens> {
        let end = self.end()?;
        if end > size as u64 {
            let last = end.saturating_sub(1);
            return Err(ID.broken(format!(
                "a token has the id {last}, but the vocabulary has {size} tokens"
            )));
        }
        let decoder = Decoder::read(decoder);
        let mut out = Tokens::unused(size, false);
        for (text, id) in &self.base {
            out.set(*id, text.clone(), TokenType::Normal, 0.0);
        }
        for token in &self.added {
            let text = match token.normalized {
                true => token.content.clone(),
                false => decoder.decode(&token.content),
            };
            // An added token is also found by its text, so it must have the form that it has in a text.
            match token.special || looks_special(&text) {
                true => out.set(token.id, text, TokenType::Control, ADDED),
                false => out.set(token.id, text.replace(WORD, " "), TokenType::UserDefined, ADDED),
            };
        }
        Ok(out)
    }

    /// Returns the texts of the model's tokens by id.
    pub(super) fn base(&self) -> &[(String, u64)] {
        &self.base
    }
}

/// The mark that SentencePiece puts before words.
pub(super) const WORD: &str = "\u{2581}";

/// Returns `true` if a token looks like a control token, although it is not marked as special.
pub(super) fn looks_special(text: &str) -> bool {
    let between = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    matches!(text, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || between("<|", "|>")
        || between("<\u{ff5c}", "\u{ff5c}>")
        || between("<unused", ">")
}

/// How a decoder changes the text of a single token.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Decoder {
    /// Characters of byte-level BPE become the bytes that they represent.
    pub(super) is_byte_level: bool,
    /// The mark before words becomes a space.
    pub(super) has_spaces: bool,
}

impl Decoder {
    /// Reads the decoder of `tokenizer.json`. Decoders that only change several tokens together are skipped.
    pub(super) fn read(value: &Value) -> Decoder {
        let mut out = Decoder::default();
        match super::special::text(value, "type") {
            Some("ByteLevel") => out.is_byte_level = true,
            Some("Replace") => {
                let pattern = value.pointer("/pattern/String").and_then(Value::as_str);
                let content = super::special::text(value, "content");
                out.has_spaces = pattern == Some(WORD) && content == Some(" ");
            }
            Some("Sequence") => {
                for one in super::special::items(value, "decoders").iter().map(Decoder::read) {
                    out.is_byte_level |= one.is_byte_level;
                    out.has_spaces |= one.has_spaces;
                }
            }
            _ => {}
        }
        out
    }

    /// Returns the text that the decoder makes of a token.
    pub(super) fn decode(self, content: &str) -> String {
        let bytes = content.chars().map(byte_of).collect::<Option<Vec<u8>>>();
        match bytes.filter(|_| self.is_byte_level) {
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            None if self.has_spaces => content.replace(WORD, " "),
            None => content.to_owned(),
        }
    }
}

/// Returns the byte that a character of byte-level BPE represents.
pub(super) fn byte_of(c: char) -> Option<u8> {
    let is_own = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if let Ok(byte) = u8::try_from(u32::from(c))
        && is_own(byte)
    {
        return Some(byte);
    }
    let at = usize::try_from(u32::from(c).checked_sub(0x100)?).ok()?;
    (0..=u8::MAX).filter(|byte| !is_own(*byte)).nth(at)
}

/// The added tokens while they are collected.
struct AddedTokens<'a> {
    base: HashMap<&'a str, u64>,
    by_id: HashMap<u64, Cow<'a, str>>,
    /// The id after the last one.
    next: u64,
    all: Vec<AddedToken>,
    /// The positions in `all` by text.
    at: HashMap<String, usize>,
}

impl AddedTokens<'_> {
    /// Adds a token, or replaces the properties of the one with the same text.
    fn add(&mut self, token: AddedToken) -> Result<()> {
        let known = self.at.get(&token.content).and_then(|at| self.all.get_mut(*at));
        let id = match &known {
            Some(known) => Some(known.id),
            None => self.base.get(token.content.as_str()).copied(),
        };
        if let Some(id) = id.filter(|id| *id != token.id) {
            let (text, other) = (token.content.escaped(), token.id);
            return Err(
                DUPLICATE.broken(format!("the token `{text}` has the ids {id} and {other}"))
            );
        }
        if let Some(known) = known {
            *known = token;
            return Ok(());
        }
        if let Some(other) = self.by_id.insert(token.id, token.content.clone().into())
            && other != token.content
        {
            return Err(same_id(token.id, &other, &token.content));
        }
        self.next = self.next.max(token.id.checked_add(1).ok_or_else(too_many)?);
        self.at.insert(token.content.clone(), self.all.len());
        self.all.push(token);
        Ok(())
    }

    /// Returns `true` if there is a token with this text, added or not.
    fn has(&self, content: &str) -> bool {
        self.at.contains_key(content) || self.base.contains_key(content)
    }

    /// Adds a token unless there is one with the same text.
    fn add_unknown(&mut self, token: AddedToken) -> Result<()> {
        if self.at.contains_key(&token.content) { Ok(()) } else { self.add(token) }
    }

    /// Adds a token that has a role, which needs no id of its own. If there is one with the same text, it is special.
    fn add_named(&mut self, content: &str) -> Result<()> {
        if let Some(known) = self.at.get(content).and_then(|at| self.all.get_mut(*at)) {
            known.special = true;
            return Ok(());
        }
        let id = match self.base.get(content) {
            Some(id) => *id,
            None => self.next,
        };
        let content = content.to_owned();
        self.add(AddedToken { id, content, special: true, normalized: false })
    }
}

/// Returns the tokens of the member `added_tokens_decoder`, `{id: {content, …}}`, by id.
pub(super) fn decoder_tokens(decoder: &Value) -> Result<Vec<AddedToken>> {
    const NAME: &str = "tokenizer_config.json";
    let mut out = Vec::new();
    for (key, value) in decoder.as_object().into_iter().flatten() {
        let id: u64 = key.parse().map_err(|_| not_an_id(key).in_source(NAME))?;
        let wrong = || JSON.broken(format!("the added token {id} has no text `content`"));
        let content = token_text(value).ok_or_else(|| wrong().in_source(NAME))?.to_owned();
        let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        let (special, normalized) = (flag("special"), flag("normalized"));
        out.push(AddedToken { id, content, special, normalized });
    }
    holdall_collections::sort_by(&mut out, |a, b| a.id.cmp(&b.id));
    Ok(out)
}

/// Returns the error for an id that is not a whole number.
pub(super) fn not_an_id(of: &str) -> Error {
    ID.broken(format!("the id of `{}` is not a non-negative integer", of.escaped()))
}

fn twice(text: &str) -> Error {
    DUPLICATE.broken(format!("the token `{}` appears twice", text.escaped()))
}

fn same_id(id: u64, a: &str, b: &str) -> Error {
    DUPLICATE.broken(format!("the tokens `{}` and `{}` have the id {id}", a.escaped(), b.escaped()))
}
