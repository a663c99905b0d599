//! The configurations of the model and of the tokenizer.

use super::TokenizerOptions;
use super::files::Source;
use super::rules::{ID, JSON};
use super::special::{ROLES, text, token_text};
use super::tokenizer_json::too_many;
use holdall_core::error::Result;
use holdall_json::Value;

/// The configurations in the folder.
#[derive(Debug)]
pub(super) struct Config {
    /// `config.json`, or null.
    pub(super) model: Value,
    /// `tokenizer_config.json`, or null.
    pub(super) tokenizer: Value,
    /// The number of tokens that the caller gives.
    given_size: Option<u64>,
    /// The name of the model's class, such as `LlamaForCausalLM`.
    pub(super) architecture: Option<String>,
    /// The largest number of tokens.
    most: u64,
}

impl Config {
    pub(super) fn read(source: Source<'_>, options: &TokenizerOptions) -> Result<Config> {
        let object = |name: &str| -> Result<Value> {
            match source.json(name)? {
                None => Ok(Value::Null),
                Some(value @ Value::Object(_)) => Ok(value),
                Some(_) => Err(JSON.broken("expected an object").in_source(name)),
            }
        };
        let model = object("config.json")?;
        let named = || model.get("architectures")?.get(0)?.as_str().map(str::to_owned);
        Ok(Config {
            architecture: options.architecture.clone().or_else(named),
            tokenizer: object("tokenizer_config.json")?,
            given_size: options.vocab_size,
            most: source.limits.attribute_values,
            model,
        })
    }

    /// Returns a value of the model's configuration, in which the one of its text model has precedence.
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        let inner = self.model.get("text_config").and_then(|inner| inner.get(key));
        inner.or_else(|| self.model.get(key)).filter(|value| !value.is_null())
    }

    /// Returns a whole number of the model's configuration.
    pub(super) fn number(&self, key: &str) -> Result<Option<u64>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let wrong =
            || ID.broken(format!("`{key}` is not a non-negative integer")).in_source("config.json");
        value.as_u64().map(Some).ok_or_else(wrong)
    }

    /// Returns the number of tokens that the model has.
    pub(super) fn vocab_size(&self) -> Result<Option<u64>> {
        match self.given_size {
            Some(size) => Ok(Some(size)),
            None => self.number("vocab_size"),
        }
    }

    /// Returns the model's type, such as `llama`: that of its text model, if it has one.
    pub(super) fn model_type(&self) -> Option<&str> {
        self.value("model_type").and_then(Value::as_str)
    }

    /// Returns the number of tokens as a size in memory, after checking it against the limit.
    pub(super) fn checked_size(&self, size: u64) -> Result<usize> {
        if size > self.most {
            return Err(too_many());
        }
        usize::try_from(size).map_err(|_| too_many())
    }

    /// Returns the texts of the tokens that have a role in the tokenizer's configuration, or in `more`.
    pub(super) fn named_tokens<'c>(&'c self, more: Option<&'c Value>) -> Vec<&'c str> {
        let mut out = Vec::new();
        for role in ROLES {
            let key = format!("{role}_token");
            let own = self.tokenizer.get(&key).filter(|token| !token.is_null());
            let token = more.and_then(|more| more.get(&key)).or(own);
            out.extend(token.and_then(token_text));
        }
        for key in ["extra_special_tokens", "additional_special_tokens"] {
            let own = self.tokenizer.get(key);
            match more.and_then(|more| more.get(key)).or(own) {
                Some(Value::Array(all)) => out.extend(all.iter().filter_map(token_text)),
                Some(Value::Object(all)) => out.extend(all.values().filter_map(token_text)),
                _ => {}
            }
        }
        out
    }

    /// Returns the texts that tokens have by default in the tokenizer's class, for the roles that neither the
    /// configuration nor `more` has.
    pub(super) fn default_tokens(&self, more: Option<&Value>) -> Vec<&'static str> {
        let class = self.tokenizer_class().map(|class| class.strip_suffix("Fast").unwrap_or(class));
        let by_type =
            || self.model_type().and_then(|own| TYPES.iter().find(|(name, _)| *name == own));
        let class = class.or_else(|| by_type().map(|(_, class)| *class));
        let found = class.and_then(|class| DEFAULTS.iter().find(|(own, _)| *own == class));
        let Some((_, roles)) = found else { return Vec::new() };
        let has = |role: &str| {
            let key = format!("{role}_token");
            self.tokenizer.get(&key).or_else(|| more.and_then(|more| more.get(&key))).is_some()
        };
        roles.iter().filter(|(role, _)| !has(role)).map(|(_, token)| *token).collect()
    }

    /// Returns the name of the tokenizer's class.
    pub(super) fn tokenizer_class(&self) -> Option<&str> {
        text(&self.tokenizer, "tokenizer_class")
    }
}

/// Classes of tokenizers, for types of models whose configuration does not name one.
const TYPES: [(&str, &str); 6] = [
    ("bert", "BertTokenizer"),
    ("distilbert", "BertTokenizer"),
    ("gpt2", "GPT2Tokenizer"),
    ("roberta", "RobertaTokenizer"),
    ("xlm-roberta", "XLMRobertaTokenizer"),
    ("llama", "LlamaTokenizer"),
];

/// The roles of a class with the tokens that have them by default.
type Roles = &'static [(&'static str, &'static str)];

const ROBERTA: Roles = &[
    ("bos", "<s>"),
    ("eos", "</s>"),
    ("unk", "<unk>"),
    ("sep", "</s>"),
    ("pad", "<pad>"),
    ("cls", "<s>"),
    ("mask", "<mask>"),
];
const BERT: Roles =
    &[("unk", "[UNK]"), ("sep", "[SEP]"), ("pad", "[PAD]"), ("cls", "[CLS]"), ("mask", "[MASK]")];

const DEFAULTS: [(&str, Roles); 7] = [
    ("BertTokenizer", BERT),
    ("DistilBertTokenizer", BERT),
    ("RobertaTokenizer", ROBERTA),
    ("XLMRobertaTokenizer", ROBERTA),
    ("LlamaTokenizer", &[("unk", "<unk>"), ("bos", "<s>"), ("eos", "</s>")]),
    (
        "GPT2Tokenizer",
        &[("unk", "<|endoftext|>"), ("bos", "<|endoftext|>"), ("eos", "<|endoftext|>")],
    ),
    (
        "Qwen2Tokenizer",
        &[("unk", "<|endoftext|>"), ("eos", "<|endoftext|>"), ("pad", "<|endoftext|>")],
    ),
];
