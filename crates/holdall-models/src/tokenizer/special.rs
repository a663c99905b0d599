//! The roles of tokens: which is the first, the last, the padding, and which of them are added to each text; and the
//! chat template.

use super::byte_level::read_merges;
use super::chat_template::{template_file, write_template};
use super::config::Config;
use super::files::Source;
use super::metadata::Entries;
use super::rules::ID;
use super::tokenizer_json::{AddedToken, TokenizerJson};
use holdall_core::error::Result;
use holdall_json::Value;

/// The roles in the order in which they are looked up.
pub(super) const ROLES: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

/// The roles of tokens, the merges and the chat template, as they are collected from the files.
#[derive(Debug, Default)]
pub(super) struct Special {
    roles: Vec<String>,
    /// The ids by role, in the order in which they were found.
    ids: Vec<(String, u64)>,
    /// Whether the token of a role is added to each text, in the order in which they were found.
    adds: Vec<(String, bool)>,
    pub(super) merges: Vec<String>,
    pub(super) chat_template: Option<Value>,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
    /// The number of tokens, if ids beyond it are left out.
    vocab_size: Option<u64>,
    /// Descriptions of omitted tokens and settings, as sentences.
    pub(super) omitted: Vec<String>,
}

impl Special {
    /// Collects the roles from the files. `merges` are those of `tokenizer.json`, if the model has merges; if they are
    /// empty, those of `merges.txt` are read. With `vocab_size`, ids beyond it are left out.
    pub(super) fn collect(
        source: Source<'_>,
        config: &Config,
        json: Option<&TokenizerJson>,
        roles: &[&str],
        merges: Option<Vec<String>>,
        vocab_size: Option<u64>,
    ) -> Result<Special> {
        let with_merges = merges.is_some();
        let mut out = Special {
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            merges: merges.unwrap_or_default(),
            vocab_size,
            ..Special::default()
        };
        let mut tokenizer_config = config.tokenizer.clone();
        if let Some(json) = json {
            out.read_normalizer(&json.normalizer);
            out.read_processors(&json.post_processor, &mut tokenizer_config);
        }
        let added = json.map_or(&[][..], |json| &json.added);
        out.read_tokenizer_config(source, &tokenizer_config, added)?;
        out.read_config(config)?;
        if with_merges && out.merges.is_empty() {
            out.merges = read_merges(source)?;
        }
        Ok(out)
    }

    /// Sets the id of a role that has none yet.
    pub(super) fn set(&mut self, role: &str, id: u64) -> Result<()> {
        if u32::try_from(id).is_err() {
            return Err(ID.broken(format!("the id of the role {role} is {id}")));
        }
        if self.vocab_size.is_some_and(|size| id >= size) {
            self.omitted.push(format!(
                "the token id {id} of the role {role}, which is not in the vocabulary"
            ));
        } else if self.ids.iter().all(|(own, _)| own != role) {
            self.ids.push((role.to_owned(), id));
        }
        Ok(())
    }

    fn set_adds(&mut self, role: &str, is_added: bool) {
        match self.adds.iter_mut().find(|(own, _)| own == role) {
            Some((_, value)) => *value = is_added,
            None => self.adds.push((role.to_owned(), is_added)),
        }
    }

    fn read_normalizer(&mut self, normalizer: &Value) {
        let flag = |key: &str| normalizer.get(key).map(Value::as_bool);
        match text(normalizer, "type") {
            Some("Lowercase") => self.lowercase = Some(true),
            Some("StripAccents") => self.strip_accents = Some(true),
            Some("BertNormalizer") => {
                self.lowercase = flag("lowercase").unwrap_or(self.lowercase);
                self.strip_accents = flag("strip_accents").unwrap_or(self.strip_accents);
            }
            Some("Sequence") => {
                items(normalizer, "normalizers").iter().for_each(|one| self.read_normalizer(one));
            }
            _ => {}
        }
    }

    /// Reads the processors that add tokens to each text, and completes the tokenizer's configuration with them.
    fn read_processors(&mut self, post: &Value, config: &mut Value) {
        let own = |config: &Value, role: &str| config.get(role).cloned().unwrap_or_default();
        let has_config = is_true(config);
        let mut names = Names {
            bos: own(config, "bos_token"),
            cls: own(config, "cls_token"),
            eos: own(config, "eos_token"),
            sep: own(config, "sep_token"),
        };
        if !is_true(&names.bos) && is_true(&names.cls) {
            names.bos = names.cls.clone();
            put(config, "bos_token", &names.bos);
        }
        if !is_true(&names.eos) && is_true(&names.sep) {
            names.eos = names.sep.clone();
            put(config, "eos_token", &names.eos);
        }
        let processors = match post.get("processors") {
            Some(Value::Array(all)) => all.as_slice(),
            _ => std::slice::from_ref(post),
        };
        for processor in processors {
            match text(processor, "type") {
                Some("RobertaProcessing") => {
                    ["bos", "eos", "sep"].iter().for_each(|role| self.set_adds(role, true));
                    let first = |key: &str| items(processor, key).first().cloned();
                    if !is_true(&names.cls) && has_config {
                        names.cls = first("cls").unwrap_or_else(|| names.bos.clone());
                        put(config, "cls_token", &names.cls);
                    }
                    if !is_true(&names.sep) && has_config {
                        names.sep = first("sep").unwrap_or_else(|| names.eos.clone());
                        put(config, "sep_token", &names.sep);
                    }
                }
                Some("TemplateProcessing") => self.read_template(processor, &mut names, config),
                _ => {}
            }
        }
    }

    /// Reads a template of special tokens around one or two texts. Only templates with at most one token at each end
    /// and two between the texts are understood.
    fn read_template(&mut self, template: &Value, names: &mut Names, config: &mut Value) {
        let has_config = is_true(config);
        let single = items(template, "single");
        let (mut first, mut last) = (None, None);
        if let [start, .., end] = single {
            first = special_token(start);
            last = special_token(end);
            if let Some(first) = first {
                if !has_config {
                    names.bos = first.clone();
                } else if *first != names.bos && *first != names.cls {
                    if !is_true(&names.bos) {
                        names.bos = first.clone();
                        put(config, "bos_token", first);
                    }
                    if !is_true(&names.cls) {
                        names.cls = first.clone();
                        put(config, "cls_token", first);
                    }
                }
                self.set_adds("bos", *first == names.bos || *first == names.cls);
            }
            if let Some(last) = last {
                if !has_config {
                    names.eos = last.clone();
                } else if *last != names.eos {
                    for role in ["eot", "eom"] {
                        if self.roles.iter().all(|own| own != role) {
                            self.roles.push(role.to_owned());
                            put(config, &format!("{role}_token"), &names.eos);
                            break;
                        }
                    }
                    names.eos = last.clone();
                    put(config, "eos_token", last);
                }
                self.set_adds("eos", *last == names.eos);
            }
        }
        self.read_pair(items(template, "pair"), first, last, names, config);
    }

    /// Reads whether a token separates two texts.
    fn read_pair(
        &mut self,
        pair: &[Value],
        first: Option<&Value>,
        last: Option<&Value>,
        names: &Names,
        config: &mut Value,
    ) {
        let is_at = |item: Option<&Value>, token: Option<&Value>| {
            token.is_some() && item.and_then(special_token) == token
        };
        let skipped = usize::from(is_at(pair.first(), first));
        let kept = pair.len().saturating_sub(usize::from(is_at(pair.last(), last)));
        let Some([a, between @ .., b]) = pair.get(skipped..kept) else { return };
        let name =
            |item: &Value| item.pointer("/Sequence/id").and_then(Value::as_str).map(str::to_owned);
        if name(a).as_deref() != Some("A") || name(b).as_deref() != Some("B") || between.is_empty()
        {
            return;
        }
        let separates = |item: Option<&Value>| {
            item.and_then(special_token).is_some_and(|t| *t == names.sep || *t == names.eos)
        };
        let mut is_added = separates(between.first()) && last.is_none();
        if between.len() == 2 && separates(between.get(1)) {
            is_added = true;
        }
        self.set_adds("sep", is_added);
        if is_added && !is_true(&names.sep) && is_true(config) {
            put(config, "sep_token", &names.eos);
        }
    }

    fn read_tokenizer_config(
        &mut self,
        source: Source<'_>,
        config: &Value,
        added: &[AddedToken],
    ) -> Result<()> {
        if !is_true(config) {
            return Ok(());
        }
        self.chat_template = match config.get("chat_template") {
            Some(template) => Some(template.clone()),
            None => template_file(source)?,
        };
        for role in self.roles.clone() {
            if let Some(is_added) = config.get(format!("add_{role}_token")).and_then(Value::as_bool)
            {
                self.set_adds(&role, is_added);
            }
            let Some(content) = config.get(format!("{role}_token")).and_then(token_text) else {
                continue;
            };
            if let Some(token) = added.iter().find(|token| token.content == content) {
                self.set(&role, token.id)?;
            }
        }
        Ok(())
    }

    fn read_config(&mut self, config: &Config) -> Result<()> {
        for role in self.roles.clone() {
            let key = format!("{role}_token_id");
            let own = config.model.get(&key).filter(|id| !id.is_null());
            let inner = || config.model.get("text_config").and_then(|inner| inner.get(&key));
            let Some(Value::Number(number)) = own.or_else(inner) else { continue };
            match (number.as_u64(), number.as_i64()) {
                (Some(id), _) => self.set(&role, id).map_err(|e| e.in_source("config.json"))?,
                (None, Some(id)) => {
                    let e = ID.broken(format!(
                        "`{key}` is {id}, expected a non-negative number, or null"
                    ));
                    return Err(e.in_source("config.json"));
                }
                // A number with a point is no id.
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Adds the key–values of the merges, the roles, the chat template and the normalizer.
    pub(super) fn write(self, out: &mut Entries) -> Result<()> {
        if !self.merges.is_empty() {
            out.texts("tokenizer.ggml.merges", self.merges);
        }
        for (role, id) in &self.ids {
            if let Some(key) = id_key(role) {
                out.number(key, *id);
            }
        }
        for (role, is_added) in &self.adds {
            if matches!(role.as_str(), "bos" | "eos" | "sep") {
                out.flag(&format!("tokenizer.ggml.add_{role}_token"), *is_added);
            }
        }
        if let Some(template) = &self.chat_template {
            write_template(template, out)?;
        }
        if let Some(lowercase) = self.lowercase {
            out.flag("tokenizer.ggml.normalizer.lowercase", lowercase);
        }
        if let Some(strip_accents) = self.strip_accents {
            out.flag("tokenizer.ggml.normalizer.strip_accents", strip_accents);
        }
        out.omitted.extend(self.omitted);
        Ok(())
    }
}

/// The texts of the tokens with a role, as the tokenizer's configuration has them: texts, or objects.
struct Names {
    bos: Value,
    cls: Value,
    eos: Value,
    sep: Value,
}

/// Returns the key of a role's id, or `None` if GGUF has no key for the role.
pub(super) fn id_key(role: &str) -> Option<&'static str> {
    Some(match role {
        "bos" => "tokenizer.ggml.bos_token_id",
        "eos" => "tokenizer.ggml.eos_token_id",
        "unk" => "tokenizer.ggml.unknown_token_id",
        // The key is misspelled in GGUF.
        "sep" => "tokenizer.ggml.seperator_token_id",
        "pad" => "tokenizer.ggml.padding_token_id",
        "mask" => "tokenizer.ggml.mask_token_id",
        "eot" => "tokenizer.ggml.eot_token_id",
        "eom" => "tokenizer.ggml.eom_token_id",
        _ => return None,
    })
}

/// Returns the text of a token in a configuration: a text, or an object with its content.
pub(super) fn token_text(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| text(token, "content"))
}

/// Returns the text of a member.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns the items of a member that is an array.
pub(super) fn items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns `true` if a value is neither null, false, nor empty.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(all) => !all.is_empty(),
        Value::Object(all) => !all.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

/// Sets a member of an object; does nothing if the object is empty.
fn put(config: &mut Value, key: &str, value: &Value) {
    if let Value::Object(members) = config
        && !members.is_empty()
    {
        members.insert(key.to_owned(), value.clone());
    }
}

/// Returns the name of the special token that an item of a template is.
fn special_token(item: &Value) -> Option<&Value> {
    item.pointer("/SpecialToken/id").filter(|id| is_true(id))
}
