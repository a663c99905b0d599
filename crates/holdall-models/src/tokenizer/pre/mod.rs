//! The name that GGUF has for a pre-tokenizer: the rules by which texts are split into words before merges apply.

mod table;

pub(super) use table::steps_of;

use super::config::Config;
use super::rules::PRE_TOKENIZER;
use super::special::{items, text};
use super::tokenizer_json::TokenizerJson;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_json::Value;
use table::{CASED, CLASSES, GROUPS, Group, NAMES};

/// Returns the name of the pre-tokenizer of a byte-level BPE.
///
/// # Errors
/// Returns [`PRE_TOKENIZER`] if the rules in the files are not in the table.
pub(super) fn pre_tokenizer_name(config: &Config, json: Option<&TokenizerJson>) -> Result<String> {
    let Some(json) = json else {
        let class =
            config.tokenizer_class().map(|class| class.strip_suffix("Fast").unwrap_or(class));
        let known = class.and_then(|class| CLASSES.iter().find(|(own, _)| *own == class));
        let (_, group) = known.ok_or_else(|| {
            let message = "there is no tokenizer.json, and the tokenizer's class does not tell its pre-tokenizer";
            unknown(message.to_owned())
        })?;
        return Ok(name(group, config, false).to_owned());
    };
    let group = find_group(&json.normalizer, &json.pre_tokenizer)?;
    let ignores_merges = json.model.ignore_merges == Some(true);
    Ok(name(group.name, config, ignores_merges).to_owned())
}

/// Returns the name of the group of a pre-tokenizer in `tokenizer.json`.
#[cfg(test)]
pub(super) fn group_name(pre_tokenizer: &Value) -> Result<&'static str> {
    find_group(&Value::Null, pre_tokenizer).map(|group| group.name)
}

/// Returns the group of a pre-tokenizer in `tokenizer.json`.
fn find_group(normalizer: &Value, pre_tokenizer: &Value) -> Result<&'static Group> {
    let mut rules = Vec::new();
    normalizers(normalizer, &mut rules)?;
    steps(pre_tokenizer, &mut rules)?;
    let found = GROUPS.iter().find(|group| group.spellings.iter().any(|own| *own == rules));
    found.ok_or_else(|| {
        let rules = rules.join(" then ");
        unknown(format!("its rules are not in the table: {}", rules.escaped()))
    })
}

/// Returns the name of WordPiece's pre-tokenizer. Programs that read GGUF have a single one.
pub(super) fn word_piece_name(json: Option<&TokenizerJson>) -> Result<String> {
    let found = json.map(|json| text(&json.pre_tokenizer, "type"));
    match found {
        None | Some(Some("BertPreTokenizer")) => Ok("jina-v2-en".to_owned()),
        Some(found) => {
            let found = found.unwrap_or("none").escaped();
            Err(unknown(format!("expected BertPreTokenizer for WordPiece, found {found}")))
        }
    }
}

/// Returns the name within a group that the model's type has, or else the group's own.
fn name(group: &'static str, config: &Config, ignores_merges: bool) -> &'static str {
    let model_type = config.model_type();
    let mut names = NAMES.iter().filter(|row| row.group == group);
    let found = names.find(|row| {
        row.ignores_merges.is_none_or(|own| own == ignores_merges)
            && (row.model_types.is_empty()
                || model_type.is_some_and(|own| row.model_types.contains(&own)))
    });
    found.map_or(group, |row| row.name)
}

fn unknown(message: String) -> Error {
    PRE_TOKENIZER.broken(message)
}

/// Adds the normalizers that change what a text is split into. Those that GGUF has keys for are skipped, and so are
/// forms of Unicode, which no program that reads GGUF applies.
fn normalizers(normalizer: &Value, out: &mut Vec<String>) -> Result<()> {
    match text(normalizer, "type") {
        None | Some("NFC" | "Lowercase" | "StripAccents" | "BertNormalizer") => {}
        Some("Sequence") => {
            items(normalizer, "normalizers").iter().try_for_each(|one| normalizers(one, out))?;
        }
        Some("Replace") => {
            let from = pattern(normalizer)?;
            let to = text(normalizer, "content").unwrap_or_default();
            out.push(format!("replace {from} {to}"));
        }
        Some(other) => out.push(format!("normalizer {other}")),
    }
    Ok(())
}

/// Adds the rules of a pre-tokenizer, each as a line of the table.
fn steps(value: &Value, out: &mut Vec<String>) -> Result<()> {
    let flag = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or(false);
    let Some(kind) = text(value, "type") else { return Ok(()) };
    match kind {
        "Sequence" => {
            items(value, "pretokenizers").iter().try_for_each(|one| steps(one, out))?;
        }
        "ByteLevel" => {
            if flag("add_prefix_space") {
                out.push("prefix space".to_owned());
            }
            // The words of GPT-2 are those of its regular expression.
            let has_regex = value.get("use_regex").and_then(Value::as_bool).unwrap_or(true);
            out.push(if has_regex { "words of GPT-2" } else { "bytes" }.to_owned());
        }
        "Digits" => {
            out.push(
                if flag("individual_digits") { "digits" } else { "runs of digits" }.to_owned(),
            );
        }
        "Split" => {
            let behavior = text(value, "behavior").unwrap_or_default();
            let pattern = pattern(value)?;
            out.push(match (behavior, flag("invert")) {
                ("Isolated", false) => format!("split {pattern}"),
                // The expression matches every character, so that nothing is removed.
                ("Removed", true) if pattern.ends_with(r"|\s+") => format!("split {pattern}"),
                (other, true) => format!("split !{other} {pattern}"),
                (other, false) => format!("split {other} {pattern}"),
            });
        }
        "Punctuation" => {
            let behavior = text(value, "behavior").unwrap_or("Isolated");
            out.push(format!("punctuation {behavior}"));
        }
        other => out.push(other.to_owned()),
    }
    Ok(())
}

/// Returns the pattern of a rule, in one spelling of those that mean the same.
fn pattern(value: &Value) -> Result<String> {
    let regex = value.pointer("/pattern/Regex").and_then(Value::as_str);
    if let Some(regex) = regex {
        let mut out = regex.replace('\r', r"\r").replace('\n', r"\n");
        for (from, to) in SPELLINGS {
            out = out.replace(from, to);
        }
        if out.starts_with(CASED_START) && out.ends_with("]+") && out.matches(']').count() == 1 {
            return Ok(CASED.to_owned());
        }
        return Ok(out);
    }
    let plain = value.pointer("/pattern/String").and_then(Value::as_str);
    plain
        .map(|plain| format!("`{plain}`"))
        .ok_or_else(|| unknown("a rule has no pattern".to_owned()))
}

/// The start of an expression that lists all cased letters of Unicode, which has 600 characters.
const CASED_START: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺ";

/// Spellings of parts of expressions, and the ones in the table.
const SPELLINGS: [(&str, &str); 3] = [
    ("(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])", "(?i:'s|'t|'re|'ve|'m|'ll|'d)"),
    (r"\p{N}{1}|", r"\p{N}|"),
    (r##"[!\"#$"##, r##"[!"#$"##),
];
