//! Writes `tokenizer_config.json`.

use super::{TokenType, Tokenizer, text};
use crate::tokenizer::chat_template::MAX_TEMPLATES;
use crate::tokenizer::rules::METADATA;
use holdall_core::error::Result;
use holdall_json::{Value, write_string};

/// The roles that have a name in the configuration.
const NAMED: [&str; 6] = ["bos", "eos", "unk", "sep", "pad", "mask"];

/// Returns `tokenizer_config.json`. `more` are further members as JSON. Only control tokens get the name of a role if
/// `only_special`, because a name makes a token special.
pub(super) fn tokenizer_config(
    tokenizer: &Tokenizer<'_>,
    class: &str,
    only_special: bool,
    more: &[(&str, String)],
) -> Result<String> {
    let mut members: Vec<(String, String)> = Vec::new();
    for role in NAMED {
        let token = tokenizer.role(role).filter(|t| !only_special || t.kind == TokenType::Control);
        if let Some(token) = token {
            members.push((format!("{role}_token"), string(token.text)));
        }
    }
    for role in ["bos", "eos", "sep"] {
        if let Some(flag) = tokenizer.flag(&format!("tokenizer.ggml.add_{role}_token"))? {
            members.push((format!("add_{role}_token"), flag.to_string()));
        }
    }
    if let Some(flag) = tokenizer.flag("tokenizer.ggml.add_space_prefix")? {
        members.push(("add_prefix_space".to_owned(), flag.to_string()));
    }
    if let Some(template) = chat_template(tokenizer)? {
        members.push(("chat_template".to_owned(), template.to_string()));
    }
    members.push(("clean_up_tokenization_spaces".to_owned(), "false".to_owned()));
    members.extend(more.iter().map(|(key, json)| ((*key).to_owned(), json.clone())));
    members.push(("tokenizer_class".to_owned(), string(class)));
    Ok(object(&members))
}

/// Returns the chat template: a text, or a list if there are several.
fn chat_template(tokenizer: &Tokenizer<'_>) -> Result<Option<Value>> {
    const KEY: &str = "tokenizer.chat_template";
    let default = text(tokenizer.attributes, KEY)?;
    let names = tokenizer.texts("tokenizer.chat_templates")?;
    if names.is_empty() {
        return Ok(default.map(Value::from));
    }
    if names.len() >= MAX_TEMPLATES {
        return Err(METADATA.broken(format!("there are {} chat templates", names.len())));
    }
    let entry = |name: &str, template: &str| {
        let members = [("name", name), ("template", template)];
        Value::Object(
            members.map(|(key, text)| (key.to_owned(), text.into())).into_iter().collect(),
        )
    };
    let mut out: Vec<Value> =
        default.map(|template| entry("default", template)).into_iter().collect();
    for name in names {
        if let Some(template) = text(tokenizer.attributes, &format!("{KEY}.{name}"))? {
            out.push(entry(name, template));
        }
    }
    Ok(Some(Value::Array(out)))
}

/// Returns a text as JSON.
pub(super) fn string(text: &str) -> String {
    let mut out = String::new();
    write_string(text, &mut out);
    out
}

/// Returns an object of members whose values are JSON, with a line for each.
pub(super) fn object(members: &[(String, String)]) -> String {
    let lines: Vec<String> =
        members.iter().map(|(key, json)| format!("  {}: {json}", string(key))).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}
