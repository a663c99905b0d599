//! Tokenizers: the files of a Hugging Face folder as the metadata of GGUF, and back.
//!
//! # Overview
//! A folder of a model has its tokenizer in some of the files [`TOKENIZER_FILES`]; a GGUF file has it in the key–values
//! `tokenizer.*`. [`TokenizerMetadata::from_files`] makes these of those, with the same keys, values and types as
//! llama.cpp's converter; [`RestoredTokenizer::from_attributes`] makes files of key–values. `docs/spec/tokenizers.md` has the rules.
//!
//! No text is tokenized, and no chat template is evaluated. The name of the pre-tokenizer is found by comparing the
//! rules in `tokenizer.json` with a table; rules that are not in the table are an error, never a guess.
//!
//! # Untrusted input
//! Files are bounded by [`Limits::header_len`], tokens and merges by [`Limits::attribute_values`], and nesting by
//! [`Limits::depth`]. Ids stay 64 bits wide until they have been checked against the number of tokens.

mod back;
mod byte_level;
mod chat_template;
mod config;
mod family;
mod files;
mod metadata;
mod options;
mod pieces;
mod pre;
mod rules;
mod sentencepiece;
mod special;
mod tokenizer_json;
mod vocabulary;

pub use back::RestoredTokenizer;
pub use files::{TOKENIZER_FILES, TokenizerFiles};
pub use metadata::{GGUF_TYPES, TokenizerMetadata};
pub use options::{TokenizerKind, TokenizerOptions};
pub use rules::{
    CHAT_TEMPLATE, DUPLICATE, FILE_LENGTH, ID, JSON, MERGE, METADATA, MISSING_FILE, MISSING_TOKEN,
    MODEL, NO_FILES, PRE_TOKENIZER, RULES, SENTENCEPIECE, TEXT, TOO_MANY,
};

use byte_level::{write_byte_level, write_word_piece};
use config::Config;
use family::{Extra, Family, Vocabularies};
use files::Source;
use holdall_core::Limits;
use holdall_core::error::Result;
use holdall_json::Value;
use metadata::Entries;
use pieces::{
    has_byte_fallback, write_byte_fallback, write_model, write_unigram, write_xlm_roberta,
};
use special::{Special, id_key};
use tokenizer_json::{TokenizerJson, read_tokenizer_json};

impl TokenizerMetadata {
    /// Returns the tokenizer in the files of a folder as key–values of GGUF.
    ///
    /// # Errors
    /// Returns one of [`RULES`] if a file is missing, malformed or over a limit, or if the tokenizer is of a kind that
    /// is not supported.
    pub fn from_files(
        files: &TokenizerFiles,
        options: &TokenizerOptions,
        limits: &Limits,
    ) -> Result<TokenizerMetadata> {
        let source = Source { files, limits };
        let config = Config::read(source, options)?;
        let family = Family::for_architecture(config.architecture.as_deref());
        let json = read_tokenizer_json(source)?;
        let mut work = Work { source, options, config, family, json, out: Entries::default() };
        work.write_first()?;
        let is_model = work.write_vocabulary()?;
        work.write_last(is_model)?;
        Ok(work.out.finish())
    }
}

/// The parts from which the key–values are made.
struct Work<'a> {
    source: Source<'a>,
    options: &'a TokenizerOptions,
    config: Config,
    family: &'static Family,
    json: Option<TokenizerJson>,
    out: Entries,
}

impl Work<'_> {
    /// Writes the vocabulary and the roles. Returns `true` if they are those of `tokenizer.model`.
    fn write_vocabulary(&mut self) -> Result<bool> {
        let files = self.source.files;
        let (has_model, has_json) = (files.has("tokenizer.model"), self.json.is_some());
        let mut vocabulary = match self.options.kind {
            None => self.family.vocabulary,
            Some(TokenizerKind::ByteLevelBpe) => Vocabularies::ByteLevel,
            Some(TokenizerKind::SentencePiece) => match self.family.vocabulary {
                own @ (Vocabularies::Model | Vocabularies::Phi3) => own,
                _ => Vocabularies::Jamba,
            },
            Some(TokenizerKind::WordPiece) => Vocabularies::WordPiece,
            Some(TokenizerKind::Unigram) => match self.family.vocabulary {
                Vocabularies::XlmRoberta => Vocabularies::XlmRoberta,
                _ if files.has("sentencepiece.bpe.model") => Vocabularies::XlmRoberta,
                _ => Vocabularies::T5,
            },
            Some(TokenizerKind::Gemma4) => Vocabularies::Gemma4,
        };
        if vocabulary == Vocabularies::Any {
            vocabulary = Vocabularies::suggested(self)?;
        }
        let model = |work: &mut Self| write_model(work, vocabulary).map(|()| true);
        let byte_level = |work: &mut Self| write_byte_level(work).map(|()| false);
        match vocabulary {
            Vocabularies::Model => model(self),
            Vocabularies::ModelOrByteLevel if has_model => model(self),
            Vocabularies::Llama | Vocabularies::Jamba if has_model => model(self),
            Vocabularies::ByteLevelOrModel if !has_json && has_model => model(self),
            Vocabularies::Phi3 if self.config.tokenizer_class() == Some("GPT2Tokenizer") => {
                byte_level(self)
            }
            Vocabularies::Phi3 if !has_model && has_byte_fallback(self.json.as_ref()) => {
                write_byte_fallback(self, vocabulary).map(|()| false)
            }
            Vocabularies::Phi3 if !has_model && has_json => byte_level(self),
            Vocabularies::Phi3 => model(self),
            Vocabularies::Llama if !has_byte_fallback(self.json.as_ref()) => byte_level(self),
            Vocabularies::Llama | Vocabularies::Jamba | Vocabularies::Gemma4 => {
                write_byte_fallback(self, vocabulary).map(|()| false)
            }
            Vocabularies::WordPiece => write_word_piece(self).map(|()| false),
            Vocabularies::Roberta if !has_json => write_word_piece(self).map(|()| false),
            Vocabularies::T5 => write_unigram(self).map(|()| true),
            Vocabularies::XlmRoberta => write_xlm_roberta(self).map(|()| false),
            Vocabularies::Any
            | Vocabularies::ByteLevel
            | Vocabularies::ModelOrByteLevel
            | Vocabularies::ByteLevelOrModel
            | Vocabularies::Roberta => byte_level(self),
        }
    }

    /// Writes the key–values that only the architecture has, and that the files may replace.
    fn write_first(&mut self) -> Result<()> {
        for extra in self.family.extras {
            match extra {
                Extra::First(key, flag) => self.out.flag(key, *flag),
                Extra::PrefixSpace => {
                    let own =
                        self.config.tokenizer.get("add_prefix_space").and_then(Value::as_bool);
                    if let Some(flag) = own {
                        self.out.flag("tokenizer.ggml.add_space_prefix", flag);
                    }
                }
                Extra::TypesFirst => self.write_token_types()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the key–values that only the architecture has, and that replace those of the files.
    fn write_last(&mut self, is_model: bool) -> Result<()> {
        let size = self.config.vocab_size()?;
        for extra in self.family.extras {
            match *extra {
                Extra::Last(key, flag) => self.out.flag(key, flag),
                Extra::LastOfDense(key, flag)
                    if self.config.value("num_experts_per_tok").is_none() =>
                {
                    self.out.flag(key, flag);
                }
                Extra::LastOfModel(key, flag) if is_model => self.out.flag(key, flag),
                Extra::LastOfJson(key, flag) if !is_model => self.out.flag(key, flag),
                Extra::LastOfSize(of, key, flag) if size.unwrap_or(32000) == of => {
                    self.out.flag(key, flag)
                }
                Extra::Id(role, id) => {
                    if let Some(key) = id_key(role) {
                        self.out.number(key, id);
                    }
                }
                Extra::Configured(role, from) => {
                    if let (Some(key), Some(id)) = (id_key(role), self.config.number(from)?) {
                        self.out.number(key, id);
                    }
                }
                Extra::FirstEnd(role) => {
                    if let (Some(key), Some(id)) = (id_key(role), self.first_end()?) {
                        self.out.number(key, id);
                    }
                }
                Extra::EndOfTurn { vocab_size, id }
                    if vocab_size.is_none() || vocab_size == size =>
                {
                    self.write_end_of_turn(id, vocab_size.is_some())?;
                }
                Extra::TypesLast => self.write_token_types()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the id of the end of a turn, which only the architecture has, and the roles of the files once more.
    fn write_end_of_turn(&mut self, id: u64, with_template: bool) -> Result<()> {
        let (config, json) = (&self.config, self.json.as_ref());
        let mut special = Special::collect(self.source, config, json, &["eot"], None, None)?;
        special.set("eot", id)?;
        if !with_template {
            special.chat_template = None;
        }
        special.write(&mut self.out)
    }

    /// Returns the first of several ids that end a text, as `generation_config.json` has them.
    fn first_end(&self) -> Result<Option<u64>> {
        const FILE: &str = "generation_config.json";
        let Some(config) = self.source.json(FILE)? else { return Ok(None) };
        let ends = config.get("eos_token_id").and_then(holdall_json::Value::as_array);
        let Some(ends) = ends.filter(|ends| ends.len() >= 2) else { return Ok(None) };
        let first = ends.first().and_then(holdall_json::Value::as_u64);
        match first.filter(|id| u32::try_from(*id).is_ok()) {
            Some(id) => Ok(Some(id)),
            None => {
                let message =
                    "the first of `eos_token_id` is not a non-negative integer below 2^32";
                Err(ID.broken(message).in_source(FILE))
            }
        }
    }

    fn write_token_types(&mut self) -> Result<()> {
        let count = self.config.number("type_vocab_size")?.unwrap_or(1);
        if u32::try_from(count).is_err() {
            let e = ID.broken(format!("`type_vocab_size` is {count}, expected less than 2^32"));
            return Err(e.in_source("config.json"));
        }
        self.out.number("tokenizer.ggml.token_type_count", count);
        Ok(())
    }

    /// Returns the number of tokens that the model has: that of the configuration, rounded up if the architecture says
    /// so.
    fn vocab_size(&self) -> Result<Option<u64>> {
        let Some(size) = self.config.vocab_size()? else { return Ok(None) };
        for extra in self.family.extras {
            if let Extra::Multiple(default) = extra {
                let multiple = self.config.number("pad_vocab_size_multiple")?.unwrap_or(*default);
                return size
                    .checked_next_multiple_of(multiple.max(1))
                    .map(Some)
                    .ok_or_else(tokenizer_json::too_many);
            }
        }
        Ok(Some(size))
    }

    /// Returns the roles of added tokens that only the architecture has.
    fn roles(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        self.family.extras.iter().filter_map(|extra| match extra {
            Extra::Role(role, token) => Some((*role, *token)),
            _ => None,
        })
    }
}
