//! Parsing the XML that stores return: nested elements with text, nothing more.

use super::rules::ANSWER;
use holdall_core::{Error, Result};

/// The greatest length of a response in bytes.
pub(super) const MAX_ANSWER: usize = 16 << 20;
/// The greatest nesting depth of elements.
const MAX_DEPTH: usize = 16;

/// Calls `visit` for each element, with the names of the enclosing elements and its own. An element without children is
/// passed with its text; an element with children is passed when it ends, without text.
///
/// # Errors
/// Returns [`ANSWER`] if the text is not XML, or has a document type. (Only a document type can define custom entities.)
pub(super) fn read(bytes: &[u8], mut visit: impl FnMut(&[&str], Option<String>)) -> Result<()> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(broken("the response is not UTF-8"));
    };
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut path: Vec<&str> = Vec::new();
    let mut own = String::new();
    let mut is_leaf = false;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        if is_leaf {
            unescape(before, &mut own)?;
        }
        if tag.starts_with("<!--") {
            rest = after(tag, "-->")?;
            continue;
        }
        if let Some(data) = tag.strip_prefix("<![CDATA[") {
            let end = data.find("]]>").ok_or_else(|| broken("a CDATA section has no `]]>`"))?;
            own.push_str(&data[..end]);
            rest = &data[end + 3..];
            continue;
        }
        if tag.starts_with("<!") {
            return Err(broken("the response has a document type"));
        }
        if tag.starts_with("<?") {
            rest = after(tag, "?>")?;
            continue;
        }
        let end = tag.find('>').ok_or_else(|| broken("a tag has no `>`"))?;
        let inner = &tag[1..end];
        rest = &tag[end + 1..];
        if let Some(name) = inner.strip_prefix('/') {
            if path.last() != Some(&name.trim_end()) {
                return Err(broken("an end tag does not match its start tag"));
            }
            let text = is_leaf.then(|| std::mem::take(&mut own));
            visit(&path, text);
            path.pop();
            is_leaf = false;
            continue;
        }
        let is_empty = inner.ends_with('/');
        let name = inner.trim_end_matches('/').split([' ', '\t', '\r', '\n']).next();
        path.push(name.filter(|name| !name.is_empty()).ok_or_else(|| broken("a tag has no name"))?);
        if path.len() > MAX_DEPTH {
            return Err(broken(&format!("elements are nested deeper than {MAX_DEPTH}")));
        }
        own.clear();
        is_leaf = !is_empty;
        if is_empty {
            visit(&path, Some(String::new()));
            path.pop();
        }
    }
    match path.is_empty() && !text.trim().is_empty() {
        true => Ok(()),
        false => Err(broken("the response ends before its root element does")),
    }
}

/// Returns the text of the first element with this name.
pub(super) fn find(bytes: &[u8], name: &str) -> Option<String> {
    let mut found = None;
    let read = read(bytes, |path, text| {
        if path.last() == Some(&name) && found.is_none() {
            found = text;
        }
    });
    read.ok().and(found)
}

fn after<'a>(text: &'a str, mark: &str) -> Result<&'a str> {
    text.split_once(mark)
        .map(|(_, rest)| rest)
        .ok_or_else(|| broken(&format!("a comment or an instruction has no `{mark}`")))
}

/// Decodes the five predefined entities of XML, and character references.
fn unescape(text: &str, out: &mut String) -> Result<()> {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let (name, after) =
            after.split_once(';').ok_or_else(|| broken("a `&` begins no entity"))?;
        let number = name.strip_prefix('#').and_then(|digits| match digits.strip_prefix('x') {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        });
        out.push(match name {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                number.and_then(char::from_u32).ok_or_else(|| broken("it has an unknown entity"))?
            }
        });
        rest = after;
    }
    out.push_str(rest);
    Ok(())
}

#[cold]
fn broken(what: &str) -> Error {
    ANSWER.broken(format!("invalid XML in the response: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<String>> {
        let mut out = Vec::new();
        read(text.as_bytes(), |path, text| {
            let text = text.map_or("…".to_owned(), |text| format!("{text:?}"));
            out.push(format!("{}={text}", path.join("/")));
        })?;
        Ok(out)
    }

    #[test]
    fn elements_are_read() {
        let text = "<?xml version=\"1.0\"?>\n<!-- x --><A xmlns=\"u\"><B>a&amp;b&#x21;</B> <C/>\n<D><E>\n</E></D><F><![CDATA[<]]></F></A>";
        let found = ["A/B=\"a&b!\"", "A/C=\"\"", "A/D/E=\"\\n\"", "A/D=…", "A/F=\"<\"", "A=…"];
        assert_eq!(all(text).unwrap(), found);
        assert_eq!(find(text.as_bytes(), "E").as_deref(), Some("\n"));
    }

    #[test]
    fn bombs_and_rubbish_are_refused() {
        let deep = "<a>".repeat(1000);
        let bomb = "<!DOCTYPE a [<!ENTITY b \"bbb\"><!ENTITY c \"&b;&b;&b;\">]><a>&c;</a>";
        for text in [
            "",
            " ",
            "<",
            "<a",
            "<a>",
            "<a></b>",
            "</a>",
            "<a>&b;</a>",
            "<a>&</a>",
            "< />",
            "<a><![CDATA[",
            &deep,
            bomb,
        ] {
            assert_eq!(all(text).unwrap_err().code(), "stores/answer", "{text}");
        }
    }
}
