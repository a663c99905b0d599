//! Chat templates. They are copied and never evaluated.

use super::files::Source;
use super::metadata::Entries;
use super::rules::CHAT_TEMPLATE;
use super::special::text;
use holdall_core::error::Result;
use holdall_json::Value;

/// The maximum number of chat templates: each has a key, and keys are searched one by one.
pub(super) const MAX_TEMPLATES: usize = 1000;

/// Reads the chat templates that have files of their own.
pub(super) fn template_file(source: Source<'_>) -> Result<Option<Value>> {
    const FOLDER: &str = "additional_chat_templates/";
    if let Some(template) = source.text("chat_template.jinja")? {
        let entry = |name: &str, template: &str| {
            let members = [("name", name), ("template", template)];
            Value::Object(members.map(|(k, v)| (k.to_owned(), v.into())).into_iter().collect())
        };
        let mut names: Vec<&str> =
            source.files.names().filter(|name| name.starts_with(FOLDER)).collect();
        names.sort_unstable();
        let mut more = Vec::new();
        for path in names {
            let name = path.strip_prefix(FOLDER).and_then(|name| name.strip_suffix(".jinja"));
            if let (Some(name), Some(template)) = (name, source.text(path)?) {
                more.push(entry(name, template));
            }
        }
        if more.is_empty() {
            return Ok(Some(template.into()));
        }
        more.insert(0, entry("default", template));
        return Ok(Some(Value::Array(more)));
    }
    let json = source.json("chat_template.json")?;
    Ok(json.and_then(|json| json.get("chat_template").cloned()))
}

/// Adds the key–values of the chat templates: one key for each, and a list of the names of all but the default one.
pub(super) fn write_template(template: &Value, out: &mut Entries) -> Result<()> {
    const KEY: &str = "tokenizer.chat_template";
    let templates = match template {
        Value::Null => return Ok(()),
        Value::String(template) => {
            out.text(KEY, template);
            return Ok(());
        }
        Value::Array(templates) => templates,
        _ => return Err(CHAT_TEMPLATE.broken("it is neither a text nor a list")),
    };
    if templates.len() > MAX_TEMPLATES {
        let message =
            format!("there are {} templates, at most {MAX_TEMPLATES} are allowed", templates.len());
        return Err(CHAT_TEMPLATE.broken(message));
    }
    let (mut names, mut default) = (Vec::new(), None);
    for choice in templates {
        let name = text(choice, "name").unwrap_or_default();
        let name: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let Some(template) = text(choice, "template").filter(|_| !name.is_empty()) else {
            out.omitted.push("a chat template without a name or a text".to_owned());
            continue;
        };
        if name == "default" {
            default = Some(template);
            continue;
        }
        out.text(&format!("{KEY}.{name}"), template);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if !names.is_empty() {
        out.texts("tokenizer.chat_templates", names);
    }
    if let Some(default) = default {
        out.text(KEY, default);
    }
    Ok(())
}
