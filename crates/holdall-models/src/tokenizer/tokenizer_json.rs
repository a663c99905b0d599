//! Reading `tokenizer.json`, the file of the library `tokenizers`.

use super::files::{Source, not_json};
use super::rules::{ID, JSON, MERGE, TOO_MANY};
use holdall_core::error::{Escape as _, Result};
use holdall_json::{Reader, TYPE, Token, Value, parse_at};

/// The contents of `tokenizer.json`.
#[derive(Debug, Default)]
pub(super) struct TokenizerJson {
    pub(super) model: Model,
    pub(super) added: Vec<AddedToken>,
    pub(super) normalizer: Value,
    pub(super) pre_tokenizer: Value,
    pub(super) post_processor: Value,
    pub(super) decoder: Value,
}

/// The algorithm that splits words into tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelType {
    Bpe,
    WordPiece,
    Unigram,
    WordLevel,
}

/// The member `model`.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) kind: Option<ModelType>,
    /// The tokens with their ids, in the order of the file.
    pub(super) vocab: Vec<(String, u64)>,
    /// The scores of a Unigram model, by id.
    pub(super) scores: Vec<f64>,
    /// The merges, as two pieces with a space between them.
    pub(super) merges: Vec<String>,
    pub(super) byte_fallback: Option<bool>,
    pub(super) ignore_merges: Option<bool>,
    pub(super) unk_id: Option<u64>,
    pub(super) has_prefix: bool,
}

/// A token that is found in the text before the pre-tokenizer runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddedToken {
    pub(super) id: u64,
    pub(super) content: String,
    pub(super) special: bool,
    pub(super) normalized: bool,
}

/// The name of the file.
pub(super) const TOKENIZER_JSON: &str = "tokenizer.json";
/// The character for a space in byte-level BPE.
const SPACE: &str = "\u{120}";

/// Reads `tokenizer.json` if there is one.
pub(super) fn read_tokenizer_json(source: Source<'_>) -> Result<Option<TokenizerJson>> {
    let Some(bytes) = source.bytes(TOKENIZER_JSON)? else { return Ok(None) };
    let read = || {
        let mut parser = Parser {
            reader: Reader::new(bytes, 0, source.limits.depth)?,
            depth: source.limits.depth,
            left: source.limits.attribute_values,
            scratch: String::new(),
        };
        let out = parser.document()?;
        parser.reader.end()?;
        Ok(out)
    };
    read().map(Some).map_err(|e: holdall_core::Error| match e.code().starts_with("json/") {
        true => not_json(e, TOKENIZER_JSON),
        false => e.in_source(TOKENIZER_JSON),
    })
}

struct Parser<'a> {
    reader: Reader<'a>,
    depth: usize,
    /// The number of further tokens and merges that are allowed.
    left: u64,
    scratch: String,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<TokenizerJson> {
        let mut out = TokenizerJson::default();
        self.reader.begin_object()?;
        while let Some(key) = self.key()? {
            match key.as_str() {
                "model" => out.model = self.model()?,
                "added_tokens" => out.added = self.added_tokens()?,
                "normalizer" => out.normalizer = self.value()?,
                "pre_tokenizer" => out.pre_tokenizer = self.value()?,
                "post_processor" => out.post_processor = self.value()?,
                "decoder" => out.decoder = self.value()?,
                _ => self.reader.skip()?,
            }
        }
        Ok(out)
    }

    fn model(&mut self) -> Result<Model> {
        let mut out = Model::default();
        let mut name = None;
        self.reader.begin_object()?;
        while let Some(key) = self.key()? {
            match key.as_str() {
                "type" => name = self.optional(|p| p.string())?,
                "vocab" => match self.reader.peek()? {
                    Token::Array => self.scored_vocab(&mut out)?,
                    _ => out.vocab = self.vocab()?,
                },
                "merges" => out.merges = self.merges()?,
                "byte_fallback" => out.byte_fallback = self.optional(|p| p.reader.bool())?,
                "ignore_merges" => out.ignore_merges = self.optional(|p| p.reader.bool())?,
                "unk_id" => out.unk_id = self.optional(|p| p.reader.u64())?,
                "continuing_subword_prefix" => {
                    out.has_prefix = self.optional(|p| p.string())?.is_some();
                }
                _ => self.reader.skip()?,
            }
        }
        out.kind = match name.as_deref() {
            Some("BPE") => Some(ModelType::Bpe),
            Some("WordPiece") => Some(ModelType::WordPiece),
            Some("Unigram") => Some(ModelType::Unigram),
            Some("WordLevel") => Some(ModelType::WordLevel),
            Some(_) => None,
            // Files of old versions have no type.
            None if !out.scores.is_empty() => Some(ModelType::Unigram),
            None if !out.merges.is_empty() => Some(ModelType::Bpe),
            None if out.has_prefix => Some(ModelType::WordPiece),
            None => None,
        };
        Ok(out)
    }

    /// Reads the vocabulary of all models but Unigram: `{token: id}`.
    fn vocab(&mut self) -> Result<Vec<(String, u64)>> {
        let mut out = Vec::new();
        self.reader.begin_object()?;
        while let Some(token) = self.key()? {
            self.count()?;
            let id = self.id().map_err(|e| e.within(format!("the token `{}`", token.escaped())))?;
            out.push((token, id));
        }
        Ok(out)
    }

    /// Reads the vocabulary of a Unigram model: `[[token, score]]`.
    fn scored_vocab(&mut self, out: &mut Model) -> Result<()> {
        self.reader.begin_array()?;
        while self.reader.next_item()? {
            self.count()?;
            let id = out.vocab.len() as u64;
            self.reader.begin_array()?;
            self.item("a token")?;
            let token = self.string()?;
            self.item("a score")?;
            let score = self.reader.number()?.text.parse::<f64>();
            let score = score.map_err(|_| JSON.broken("a score is not a number"))?;
            self.end_of_pair()?;
            out.vocab.push((token, id));
            out.scores.push(score);
        }
        Ok(())
    }

    fn merges(&mut self) -> Result<Vec<String>> {
        let mut out = Vec::new();
        // Whether merges are pairs; all are written like the first one.
        let mut pairs = None;
        self.reader.begin_array()?;
        while self.reader.next_item()? {
            self.count()?;
            let is_pair = self.reader.peek()? == Token::Array;
            if *pairs.get_or_insert(is_pair) != is_pair {
                return Err(MERGE.broken("some merges are pairs, and some are texts"));
            }
            let merge = match is_pair {
                true => self.pair()?,
                false => {
                    let text = self.string()?;
                    checked_merge(&text)?;
                    text
                }
            };
            out.push(merge);
        }
        Ok(out)
    }

    /// Reads a merge that is written as two texts. Spaces inside of them become the character for a space.
    fn pair(&mut self) -> Result<String> {
        self.reader.begin_array()?;
        self.item("a piece")?;
        let mut merge = self.string()?.replace(' ', SPACE);
        self.item("a piece")?;
        let second = self.string()?.replace(' ', SPACE);
        self.end_of_pair()?;
        if merge.is_empty() || second.is_empty() {
            return Err(MERGE.broken("a piece of a merge is empty"));
        }
        merge.push(' ');
        merge.push_str(&second);
        Ok(merge)
    }

    fn added_tokens(&mut self) -> Result<Vec<AddedToken>> {
        let mut out = Vec::new();
        if self.reader.peek()? == Token::Null {
            self.reader.null()?;
            return Ok(out);
        }
        self.reader.begin_array()?;
        while self.reader.next_item()? {
            self.count()?;
            let (mut id, mut content) = (None, None);
            let (mut special, mut normalized) = (false, None);
            self.reader.begin_object()?;
            while let Some(key) = self.key()? {
                match key.as_str() {
                    "id" => id = Some(self.id()?),
                    "content" => content = Some(self.string()?),
                    "special" => special = self.reader.bool()?,
                    "normalized" => normalized = Some(self.reader.bool()?),
                    _ => self.reader.skip()?,
                }
            }
            let (Some(id), Some(content)) = (id, content) else {
                return Err(JSON.broken("an added token has no `id` or no `content`"));
            };
            let normalized = normalized.unwrap_or(!special);
            out.push(AddedToken { id, content, special, normalized });
        }
        Ok(out)
    }

    fn key(&mut self) -> Result<Option<String>> {
        Ok(self.reader.next_key(&mut self.scratch)?.map(str::to_owned))
    }

    fn string(&mut self) -> Result<String> {
        self.reader.string(&mut self.scratch).map(str::to_owned)
    }

    /// Reads a small part of the document as a whole.
    fn value(&mut self) -> Result<Value> {
        self.reader.peek()?;
        let start = self.reader.offset();
        self.reader.skip()?;
        parse_at(self.reader.text_from(start).as_bytes(), start, self.depth)
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.reader.peek()? == Token::Null {
            self.reader.null()?;
            return Ok(None);
        }
        read(self).map(Some)
    }

    /// Reads the id of a token.
    fn id(&mut self) -> Result<u64> {
        let start = self.reader.offset();
        let number = self.reader.number()?;
        number.text.parse().map_err(|_| {
            ID.broken(format!("the id {} is not a non-negative integer", number.text.escaped()))
                .at(start..self.reader.offset())
        })
    }

    fn item(&mut self, expected: &str) -> Result<()> {
        if self.reader.next_item()? {
            return Ok(());
        }
        let message = format!("expected {expected}, found the end of the array");
        Err(TYPE.broken(message).at(self.reader.here()))
    }

    fn end_of_pair(&mut self) -> Result<()> {
        match self.reader.next_item()? {
            false => Ok(()),
            true => {
                let message = "expected an array of two items, found more";
                Err(TYPE.broken(message).at(self.reader.here()))
            }
        }
    }

    fn count(&mut self) -> Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(too_many)?;
        Ok(())
    }
}

/// Checks a merge that is written as one text.
pub(super) fn checked_merge(text: &str) -> Result<()> {
    let pieces = text.split_once(' ');
    if pieces.is_some_and(|(a, b)| !a.is_empty() && !b.is_empty() && !b.contains(' ')) {
        return Ok(());
    }
    let message =
        format!("expected two pieces with one space between them, found `{}`", text.escaped());
    Err(MERGE.broken(message))
}

/// Returns the error for more tokens or merges than the limit allows.
pub(super) fn too_many() -> holdall_core::Error {
    TOO_MANY.broken("there are more tokens or merges than the limit allows")
}
