//! The key–values of a tokenizer in a GGUF file.

use holdall_core::model::{Attributes, Value};

/// The attribute of a GGUF file that names the types of key–values whose type does not follow from their value.
pub const GGUF_TYPES: &str = "holdall.gguf.types";

/// The tokenizer of a model as key–values of GGUF.
///
/// A number is a `u32`, an array of whole numbers has items of type `i32` and one of floats `f32`, as the encoder of
/// GGUF chooses by itself; [`TokenizerMetadata::types`] has the keys for which it would choose another type.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct TokenizerMetadata {
    /// The key–values in the order in which llama.cpp's converter writes them.
    pub attributes: Attributes,
    /// The keys with a type that does not follow from the value, and the names of these types, such as `[u8]`.
    pub types: Vec<(String, String)>,
    /// Descriptions of the files' contents that the key–values do not represent.
    pub omitted: Vec<String>,
}

impl TokenizerMetadata {
    /// Sets the key–values in the attributes of a GGUF file, with the attribute [`GGUF_TYPES`] if it is needed.
    pub fn add_to(&self, attributes: &mut Attributes) {
        for (key, value) in self.attributes.iter() {
            attributes.set(key, value.clone());
        }
        if self.types.is_empty() {
            return;
        }
        let mut pairs = match attributes.remove(GGUF_TYPES) {
            Some(Value::Map(pairs)) => pairs,
            _ => Vec::new(),
        };
        for (key, name) in &self.types {
            pairs.retain(|(own, _)| own.as_text() != Some(key));
            pairs.push((Value::Text(key.clone()), Value::Text(name.clone())));
        }
        attributes.set(GGUF_TYPES, Value::Map(pairs));
    }
}

/// Collects key–values. A key that is set again keeps its position.
#[derive(Debug, Default)]
pub(super) struct Entries {
    attributes: Attributes,
    types: Vec<(String, String)>,
    pub(super) omitted: Vec<String>,
}

impl Entries {
    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.attributes.set(key, Value::Text(text.to_owned()));
    }

    /// Sets an unsigned number, which must be less than 2^32.
    pub(super) fn number(&mut self, key: &str, number: u64) {
        self.attributes.set(key, Value::Integer(number.into()));
    }

    pub(super) fn flag(&mut self, key: &str, flag: bool) {
        self.attributes.set(key, Value::Bool(flag));
    }

    pub(super) fn texts(&mut self, key: &str, texts: Vec<String>) {
        self.attributes.set(key, Value::Array(texts.into_iter().map(Value::Text).collect()));
    }

    pub(super) fn bytes(&mut self, key: &str, bytes: &[u8]) {
        let items = bytes.iter().map(|byte| Value::Integer((*byte).into())).collect();
        self.attributes.set(key, Value::Array(items));
        self.types.push((key.to_owned(), "[u8]".to_owned()));
    }

    /// Sets the arrays of the tokens: their texts, their scores if there are any, and their types.
    pub(super) fn tokens(&mut self, tokens: Tokens) {
        self.texts("tokenizer.ggml.tokens", tokens.texts);
        if let Some(scores) = tokens.scores {
            let scores = scores.into_iter().map(|score| Value::Float(score.into())).collect();
            self.attributes.set("tokenizer.ggml.scores", Value::Array(scores));
        }
        let types = tokens.types.into_iter().map(|t| Value::Integer(t.number())).collect();
        self.attributes.set("tokenizer.ggml.token_type", Value::Array(types));
    }

    pub(super) fn finish(self) -> TokenizerMetadata {
        TokenizerMetadata { attributes: self.attributes, types: self.types, omitted: self.omitted }
    }
}

/// The tokens of a vocabulary by id, each with its type and perhaps a score.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub(super) texts: Vec<String>,
    pub(super) types: Vec<TokenType>,
    pub(super) scores: Option<Vec<f32>>,
}

/// The type of a token in GGUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenType {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl TokenType {
    const ALL: [TokenType; 6] = [
        TokenType::Normal,
        TokenType::Unknown,
        TokenType::Control,
        TokenType::UserDefined,
        TokenType::Unused,
        TokenType::Byte,
    ];

    /// Returns the number of the type, which is the same in a SentencePiece model.
    pub(super) fn number(self) -> i128 {
        let at = TokenType::ALL.iter().position(|own| *own == self).unwrap_or_default();
        i128::try_from(at).unwrap_or_default().saturating_add(1)
    }

    /// Returns the type with a number.
    pub(super) fn from_number(number: u64) -> Option<TokenType> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        TokenType::ALL.get(at).copied()
    }
}

impl Tokens {
    /// Creates a vocabulary of `size` unused tokens. The caller has checked the size.
    pub(super) fn unused(size: usize, with_scores: bool) -> Tokens {
        Tokens {
            texts: (0..size).map(|id| format!("[PAD{id}]")).collect(),
            types: vec![TokenType::Unused; size],
            scores: with_scores.then(|| vec![HOLE; size]),
        }
    }

    /// Replaces a token. Returns `false` if there is no token of this id.
    pub(super) fn set(&mut self, id: u64, text: String, of: TokenType, score: f32) -> bool {
        let Ok(at) = usize::try_from(id) else { return false };
        let (Some(own), Some(own_type)) = (self.texts.get_mut(at), self.types.get_mut(at)) else {
            return false;
        };
        (*own, *own_type) = (text, of);
        if let Some(own) = self.scores.as_mut().and_then(|scores| scores.get_mut(at)) {
            *own = score;
        }
        true
    }
}

/// The score of an id without a token.
const HOLE: f32 = -10000.0;
/// The score of an added token.
pub(super) const ADDED: f32 = -1000.0;
