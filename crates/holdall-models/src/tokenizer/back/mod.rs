//! The way back: from the key–values of a GGUF file to the files of a tokenizer.

mod config;
mod json;
mod model;

use super::files::TokenizerFiles;
use super::metadata::{TokenType, TokenizerMetadata};
use super::options::{TokenizerKind, TokenizerOptions};
use super::rules::{METADATA, NO_FILES};
use super::special::id_key;
use super::tokenizer_json::too_many;
use holdall_collections::HashSet;
use holdall_core::Limits;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::model::{Attributes, Value};

/// The files of a tokenizer that were made of the key–values of a GGUF file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RestoredTokenizer {
    /// The files: `tokenizer_config.json`, and `tokenizer.json` or a SentencePiece model.
    pub files: TokenizerFiles,
    /// The members of `config.json` that are about the tokenizer: the number of tokens, and the ids of roles.
    pub config: Vec<(String, u64)>,
    /// Descriptions of everything that could not be restored, including keys that differ if the files are converted again.
    pub lost: Vec<String>,
}

impl RestoredTokenizer {
    /// Returns the files of a tokenizer for the key–values of a GGUF file.
    ///
    /// The files are converted again with `options`, and the keys that differ are in
    /// [`RestoredTokenizer::lost`]. Give the architecture, because some key–values follow from it alone.
    ///
    /// # Errors
    /// Returns [`METADATA`] if the key–values are incomplete or malformed, [`NO_FILES`] if they are of a kind that
    /// cannot be restored, and the rules about the number of tokens.
    pub fn from_attributes(
        attributes: &Attributes,
        options: &TokenizerOptions,
        limits: &Limits,
    ) -> Result<RestoredTokenizer> {
        let tokenizer = Tokenizer::parse(attributes, limits)?;
        let mut lost = Vec::new();
        let files = match tokenizer.kind {
            TokenizerKind::ByteLevelBpe => json::byte_level_files(&tokenizer, &mut lost)?,
            TokenizerKind::WordPiece => json::word_piece_files(&tokenizer, &mut lost)?,
            TokenizerKind::SentencePiece | TokenizerKind::Unigram => {
                model::model_files(&tokenizer, &mut lost)?
            }
            TokenizerKind::Gemma4 => return Err(no_files("the model `gemma4` is not supported")),
        };
        let mut config = vec![("vocab_size".to_owned(), tokenizer.tokens.len() as u64)];
        for (role, id) in &tokenizer.roles {
            config.push((format!("{role}_token_id"), *id));
        }
        if let Some(count) = tokenizer.number("tokenizer.ggml.token_type_count")? {
            config.push(("type_vocab_size".to_owned(), count));
        }
        let mut restored = RestoredTokenizer { files, config, lost };
        restored.compare(&tokenizer, options, limits)?;
        Ok(restored)
    }

    /// Converts the files again, and adds the keys that are not the same to what was lost.
    fn compare(
        &mut self,
        tokenizer: &Tokenizer<'_>,
        options: &TokenizerOptions,
        limits: &Limits,
    ) -> Result<()> {
        let members: Vec<String> =
            self.config.iter().map(|(key, number)| format!("\"{key}\":{number}")).collect();
        let config = format!("{{{}}}", members.join(","));
        let files = self.files.clone().with_file("config.json", config.into_bytes());
        let mut options = options.clone().with_kind(tokenizer.kind);
        // Several names are of the same rules, and the model's type, which decides, is not among the key–values.
        let has_rules =
            matches!(tokenizer.kind, TokenizerKind::ByteLevelBpe | TokenizerKind::WordPiece);
        let name = text(tokenizer.attributes, "tokenizer.ggml.pre")?;
        if let Some(name) = name.filter(|_| has_rules) {
            options = options.with_pre_tokenizer(name);
        }
        let again = TokenizerMetadata::from_files(&files, &options, limits)?.attributes;
        for (key, value) in
            tokenizer.attributes.iter().filter(|(key, _)| key.starts_with("tokenizer."))
        {
            match again.get(key) {
                Some(own) if own == value => {}
                Some(_) => self.lost.push(format!("part of the value of `{}`", key.escaped())),
                None => self.lost.push(format!("`{}`", key.escaped())),
            }
        }
        for (key, _) in again.iter().filter(|(key, _)| tokenizer.attributes.get(key).is_none()) {
            self.lost.push(format!("the absence of `{}`", key.escaped()));
        }
        Ok(())
    }
}

/// The roles that have an id in GGUF.
const ROLES: [&str; 8] = ["bos", "eos", "unk", "sep", "pad", "mask", "eot", "eom"];

/// A tokenizer as it is in a GGUF file.
struct Tokenizer<'a> {
    attributes: &'a Attributes,
    kind: TokenizerKind,
    tokens: Vec<Token<'a>>,
    /// The ids by role.
    roles: Vec<(&'static str, u64)>,
}

struct Token<'a> {
    id: u64,
    text: &'a str,
    kind: TokenType,
    score: Option<f32>,
}

impl Token<'_> {
    /// Returns `true` if the converter made the token for an id without one.
    fn is_hole(&self) -> bool {
        let text = self.text.strip_prefix(super::vocabulary::WORD).unwrap_or(self.text);
        self.kind == TokenType::Unused && text == format!("[PAD{}]", self.id)
    }

    /// Returns `true` if the token is found in a text before the pre-tokenizer runs.
    fn is_added(&self) -> bool {
        matches!(self.kind, TokenType::Control | TokenType::UserDefined)
    }
}

impl<'a> Tokenizer<'a> {
    fn parse(attributes: &'a Attributes, limits: &Limits) -> Result<Tokenizer<'a>> {
        let name = text(attributes, "tokenizer.ggml.model")?
            .ok_or_else(|| METADATA.broken("there is no `tokenizer.ggml.model`"))?;
        let kind = TokenizerKind::from_name(name)
            .ok_or_else(|| no_files(&format!("the model `{}` is not supported", name.escaped())))?;
        let texts = array(attributes, "tokenizer.ggml.tokens")?
            .ok_or_else(|| METADATA.broken("there is no `tokenizer.ggml.tokens`"))?;
        if texts.len() as u64 > limits.attribute_values {
            return Err(too_many());
        }
        let of_tokens = |key: &str| match array(attributes, key)? {
            Some(items) if items.len() == texts.len() => Ok(Some(items)),
            None => Ok(None),
            Some(items) => {
                let (found, expected) = (items.len(), texts.len());
                Err(METADATA.broken(format!("`{key}` has {found} items for {expected} tokens")))
            }
        };
        let types = of_tokens("tokenizer.ggml.token_type")?;
        let scores = of_tokens("tokenizer.ggml.scores")?;
        let mut tokens = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            let wrong = |what: &str| METADATA.broken(format!("token {at} {what}"));
            let kind = match types.and_then(|types| types.get(at)) {
                None => TokenType::Normal,
                Some(number) => number
                    .as_integer()
                    .and_then(|number| TokenType::from_number(u64::try_from(number).ok()?))
                    .ok_or_else(|| wrong("has no type from 1 to 6"))?,
            };
            let score = match scores.and_then(|scores| scores.get(at)) {
                None => None,
                #[allow(clippy::cast_possible_truncation)] // Scores have 32 bits in GGUF.
                Some(score) => {
                    Some(score.as_f64().ok_or_else(|| wrong("has a score that is not a number"))?
                        as f32)
                }
            };
            let text = text.as_text().ok_or_else(|| wrong("is not UTF-8"))?;
            tokens.push(Token { id: at as u64, text, kind, score });
        }
        let mut out = Tokenizer { attributes, kind, tokens, roles: Vec::new() };
        for role in ROLES {
            if let Some(id) = id_key(role).map(|key| out.number(key)).transpose()?.flatten() {
                out.roles.push((role, id));
            }
        }
        Ok(out)
    }

    fn number(&self, key: &str) -> Result<Option<u64>> {
        let Some(value) = self.attributes.get(key) else { return Ok(None) };
        let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
        number.map(|number| Some(number.into())).ok_or_else(|| wrong_type(key, "a u32"))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.attributes.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(wrong_type(key, "a bool")),
        }
    }

    /// Returns the token with an id.
    fn token(&self, id: u64) -> Option<&Token<'a>> {
        self.tokens.get(usize::try_from(id).ok()?)
    }

    /// Returns the token of a role.
    fn role(&self, role: &str) -> Option<&Token<'a>> {
        let (_, id) = self.roles.iter().find(|(own, _)| *own == role)?;
        self.token(*id)
    }

    /// Returns the texts of an array.
    fn texts(&self, key: &str) -> Result<Vec<&'a str>> {
        let items = array(self.attributes, key)?.unwrap_or_default();
        let texts = items.iter().map(Value::as_text).collect::<Option<_>>();
        texts.ok_or_else(|| wrong_type(key, "an array of texts"))
    }

    /// Checks that no two tokens have the same text, holes excepted.
    fn check_unique(&self) -> Result<()> {
        let mut texts = HashSet::default();
        for token in self.tokens.iter().filter(|token| !token.is_hole()) {
            if !texts.insert(token.text) {
                let message = format!("the token `{}` appears twice", token.text.escaped());
                return Err(no_files(&message));
            }
        }
        Ok(())
    }
}

fn text<'a>(attributes: &'a Attributes, key: &str) -> Result<Option<&'a str>> {
    match attributes.get(key) {
        None => Ok(None),
        Some(value) => value.as_text().map(Some).ok_or_else(|| wrong_type(key, "a text")),
    }
}

fn array<'a>(attributes: &'a Attributes, key: &str) -> Result<Option<&'a [Value]>> {
    match attributes.get(key) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(wrong_type(key, "an array")),
    }
}

fn wrong_type(key: &str, expected: &str) -> Error {
    METADATA.broken(format!("`{key}` is not {expected}"))
}

fn no_files(message: &str) -> Error {
    NO_FILES.broken(message.to_owned())
}
