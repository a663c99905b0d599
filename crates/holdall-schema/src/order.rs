//! Writes JSON with its members in the order of the author's text, which JSON values do not keep.

use crate::error::Result;
use holdall_collections::sort_by;
use holdall_json::{Reader, Token, parse, write_string};
use serde_json::{Map, Value};

/// A JSON text with its members in order, and numbers and strings in their original spelling.
#[derive(Debug)]
pub struct OrderedJson<'t>(Shape<'t>);

#[derive(Debug)]
enum Shape<'t> {
    Object(Members<'t>),
    Array(Vec<OrderedJson<'t>>),
    /// The text of a value that is not an object or array.
    Scalar(&'t str),
}

#[derive(Debug)]
struct Members<'t> {
    all: Vec<(String, OrderedJson<'t>)>,
    /// The indices of the members, sorted by name.
    by_name: Vec<usize>,
}

impl<'t> Members<'t> {
    fn new(all: Vec<(String, OrderedJson<'t>)>) -> Members<'t> {
        let name = |at: &usize| all.get(*at).map_or("", |(name, _)| name.as_str());
        let mut by_name: Vec<usize> = (0..all.len()).collect();
        sort_by(&mut by_name, |a, b| name(a).cmp(name(b)));
        Members { all, by_name }
    }

    fn find(&self, name: &str) -> Option<(usize, &OrderedJson<'t>)> {
        let name_at = |at: &usize| self.all.get(*at).map_or("", |(name, _)| name.as_str());
        let found = self.by_name.binary_search_by(|at| name_at(at).cmp(name)).ok()?;
        let at = *self.by_name.get(found)?;
        self.all.get(at).map(|(_, member)| (at, member))
    }
}

impl<'t> OrderedJson<'t> {
    /// Reads a text that is nested at most `max_depth` levels deep.
    ///
    /// # Errors
    /// Returns an error of the `json/…` rules.
    pub fn read(text: &'t str, max_depth: usize) -> Result<OrderedJson<'t>> {
        let mut reader = Reader::new(text.as_bytes(), 0, max_depth)?;
        let written = OrderedJson::value(&mut reader)?;
        reader.end()?;
        Ok(written)
    }

    /// Reads a value. The recursion is bounded by the reader.
    fn value(reader: &mut Reader<'t>) -> Result<OrderedJson<'t>> {
        Ok(OrderedJson(match reader.peek()? {
            Token::Object => {
                reader.begin_object()?;
                let (mut members, mut scratch) = (Vec::new(), String::new());
                while let Some(key) = reader.next_key(&mut scratch)? {
                    let key = key.to_owned();
                    members.push((key, OrderedJson::value(reader)?));
                }
                Shape::Object(Members::new(members))
            }
            Token::Array => {
                reader.begin_array()?;
                let mut items = Vec::new();
                while reader.next_item()? {
                    items.push(OrderedJson::value(reader)?);
                }
                Shape::Array(items)
            }
            _ => {
                let start = reader.offset();
                reader.skip()?;
                Shape::Scalar(reader.text_from(start))
            }
        }))
    }

    /// Returns the member with this name, if this is an object that has it.
    pub fn member(&self, name: &str) -> Option<&OrderedJson<'t>> {
        self.find(name).map(|(_, member)| member)
    }

    /// Returns the index of the member with this name, and the member.
    fn find(&self, name: &str) -> Option<(usize, &OrderedJson<'t>)> {
        match &self.0 {
            Shape::Object(members) => members.find(name),
            _ => None,
        }
    }

    /// Returns the members of an object, in order. Empty for other values.
    pub fn members(&self) -> impl Iterator<Item = (&str, &OrderedJson<'t>)> {
        let members = match &self.0 {
            Shape::Object(members) => &members.all[..],
            _ => &[],
        };
        members.iter().map(|(key, member)| (key.as_str(), member))
    }

    /// Returns the value at a JSON pointer, which refers to the form of 2020-12.
    pub fn pointer(&self, pointer: &str) -> Option<&OrderedJson<'t>> {
        pointer.split('/').skip(1).try_fold(self, |at, token| match &at.0 {
            Shape::Object(_) => {
                let old = match token {
                    "$defs" => "definitions",
                    "prefixItems" => "items",
                    _ => token,
                };
                let name = token.replace("~1", "/").replace("~0", "~");
                at.member(&name).or_else(|| at.member(old))
            }
            Shape::Array(items) => items.get(token.parse::<usize>().ok()?),
            Shape::Scalar(_) => None,
        })
    }

    /// Returns the text of a part of a schema that has been made self-contained
    /// ([`self_contained`](crate::self_contained)), in the order of the value at the pointer and of the `$defs` of the
    /// whole text: see [`OrderedJson::text_of`].
    pub fn part_text(&self, part: &Value, pointer: &str) -> String {
        let mut defs = Vec::new();
        for keyword in ["$defs", "definitions"] {
            defs.extend(self.member(keyword));
        }
        let Value::Object(keywords) = part else { return part.to_string() };
        let mut out = String::from("{");
        for (key, member, mut texts) in ordered(keywords, self.pointer(pointer).as_slice()) {
            if key == "$defs" {
                texts.clone_from(&defs);
            }
            out.push_str(if out.len() == 1 { "" } else { "," });
            write_string(key, &mut out);
            out.push(':');
            write(member, &texts, &mut out);
        }
        out.push('}');
        out
    }

    /// Returns the JSON text of `value`, without spaces. At every level, members that this text has are in its order,
    /// and other members follow, sorted. Equal scalars keep their spelling. A schema in the form of 2020-12
    /// ([`normalize`](crate::normalize)) can be written in the order of a text in another form.
    pub fn text_of(&self, value: &Value) -> String {
        let mut out = String::new();
        write(value, &[self], &mut out);
        out
    }
}

/// Writes a value in the order of its texts, of which there are few. The recursion is bounded by the limit under which
/// both were parsed.
fn write(value: &Value, texts: &[&OrderedJson<'_>], out: &mut String) {
    match value {
        Value::Object(members) => {
            out.push('{');
            for (at, (key, member, texts)) in ordered(members, texts).into_iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                write_string(key, out);
                out.push(':');
                write(member, &texts, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                let of_item = texts.iter().filter_map(|text| match &text.0 {
                    Shape::Array(items) => items.get(at),
                    _ => None,
                });
                write(item, &of_item.collect::<Vec<_>>(), out);
            }
            out.push(']');
        }
        scalar => {
            let same = texts.iter().find_map(|text| match &text.0 {
                Shape::Scalar(text) => {
                    parse(text.as_bytes(), 1).is_ok_and(|v| v == *scalar).then_some(*text)
                }
                _ => None,
            });
            match same {
                Some(text) => out.push_str(text),
                None => out.push_str(&scalar.to_string()),
            }
        }
    }
}

type Member<'v, 'a, 't> = (&'v str, &'v Value, Vec<&'a OrderedJson<'t>>);

/// Returns the members of a value in the order of its texts, each with its own texts. The time does not grow with the
/// length of the texts: a part of a schema may have only a few members of a long text.
fn ordered<'v, 'a, 't>(
    members: &'v Map<String, Value>,
    texts: &[&'a OrderedJson<'t>],
) -> Vec<Member<'v, 'a, 't>> {
    let mut found = Vec::with_capacity(members.len());
    for (key, member) in members {
        let (mut place, mut own) = (None, Vec::new());
        for (number, text) in texts.iter().enumerate() {
            for name in names_in_texts(key, members).into_iter().flatten() {
                let Some((at, text)) = text.find(name) else { continue };
                // A list of `items` is called `prefixItems` in 2020-12.
                let is_tuple = name == "items" && matches!(text.0, Shape::Array(_));
                if name != "items" || is_tuple == (key == "prefixItems") {
                    place = place.or(Some((number, at)));
                    own.push(text);
                }
            }
        }
        found.push((place, (key.as_str(), member, own)));
    }
    sort_by(&mut found, |(a, _), (b, _)| (a.is_none(), a).cmp(&(b.is_none(), b)));
    found.into_iter().map(|(_, member)| member).collect()
}

/// Returns the names that a member of a schema in the form of 2020-12 may have in a text: its own, and that of older
/// drafts.
fn names_in_texts<'k>(key: &'k str, members: &Map<String, Value>) -> [Option<&'k str>; 2] {
    let old = match key {
        "$defs" => Some("definitions"),
        "prefixItems" => Some("items"),
        "items" => Some("additionalItems"),
        _ => None,
    };
    // If both names exist, the old name is a member by itself.
    [Some(key), old.filter(|old| *old == "items" || !members.contains_key(*old))]
}

#[cfg(test)]
mod tests {
    use super::OrderedJson;

    fn again(text: &str, value: &str) -> String {
        let value = holdall_json::parse(value.as_bytes(), 32).expect("the text is JSON");
        OrderedJson::read(text, 32).expect("the text is JSON").text_of(&value)
    }

    #[test]
    fn texts_come_back_as_they_were_written() {
        for text in [
            r#"{"z":1.50,"a":{"y":[{"d":1e2,"c":"\u00e9"}],"b":null},"m":[]}"#,
            r#"[{"b":1,"a":2},{"a":1,"b":2}]"#,
            "-0.0",
            r#"{"type":"object","properties":{"items":{"b":1,"a":2},"definitions":{"d":1,"c":2}}}"#,
        ] {
            assert_eq!(again(text, text), text);
        }
    }

    #[test]
    fn changed_members_keep_their_position_and_new_ones_come_last() {
        let text = r#"{"z":1,"gone":2,"a":{"y":3,"x":4}}"#;
        let value = r#"{"a":{"x":4,"w":6,"y":5},"b":7,"z":1}"#;
        assert_eq!(again(text, value), r#"{"z":1,"a":{"y":5,"x":4,"w":6},"b":7}"#);
    }

    #[test]
    fn forms_of_older_drafts_are_followed() {
        let text = r##"{"type":"array","items":[{"$ref":"#/definitions/b"}],"additionalItems":false,"$defs":{"z":{"type":"null","title":"z"}},"definitions":{"b":{"type":"null","title":"b"},"a":{}}}"##;
        let value = r##"{"$defs":{"a":{},"b":{"title":"b","type":"null"},"z":{"title":"z","type":"null"}},"items":false,"prefixItems":[{"$ref":"#/$defs/b"}],"type":"array"}"##;
        let expected = r##"{"type":"array","prefixItems":[{"$ref":"#/$defs/b"}],"items":false,"$defs":{"z":{"type":"null","title":"z"},"b":{"type":"null","title":"b"},"a":{}}}"##;
        assert_eq!(again(text, value), expected);
    }
}
