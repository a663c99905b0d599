//! Finds the links and the HTML in a Markdown text.
//!
//! Blocks are parsed only as far as this needs: code is skipped, and other text is split at blank lines. Time
//! is linear in the text, for any text.

use holdall_collections::HashMap;

/// Maximum nesting of parentheses in an address.
const MAX_OPEN: u32 = 32;

/// The links and HTML found, in the order of the text, except that the addresses of a paragraph's definitions
/// come first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Markup {
    /// Targets of links and pictures: `[a](HERE)`, `![a](HERE)`, `[a]: HERE`, `<HERE>`.
    pub(super) addresses: Vec<String>,
    /// HTML tags, and the starts of comments and similar constructs.
    pub(super) html: Vec<String>,
}

impl Markup {
    pub(super) fn parse(text: &str) -> Markup {
        let mut out = Markup::default();
        let mut paragraph = String::new();
        let mut fence: Option<(u8, usize)> = None;
        // The column at which the text of a list item continues.
        let mut column = 0;
        let (mut after_blank, mut in_code) = (true, false);
        for line in text.lines() {
            let (indent, mut rest) = unindented(line);
            while let Some(quoted) = rest.strip_prefix('>') {
                rest = quoted.trim_start();
            }
            let marker = fence_of(rest);
            if let Some((sign, len)) = fence {
                if marker.is_some_and(|(s, n, bare)| s == sign && n >= len && bare) {
                    fence = None;
                }
                continue;
            }
            if rest.is_empty() {
                out.add(&std::mem::take(&mut paragraph));
                after_blank = true;
                continue;
            }
            let item = item_width(rest);
            if after_blank && indent < column && item.is_none() {
                column = 0;
            }
            in_code = indent >= column.saturating_add(4) && (after_blank || in_code);
            after_blank = false;
            if in_code {
                continue;
            }
            if let Some((sign, len, _)) = marker {
                out.add(&std::mem::take(&mut paragraph));
                fence = Some((sign, len));
                continue;
            }
            if rest.starts_with('#') || item.is_some() {
                out.add(&std::mem::take(&mut paragraph));
            }
            let text = match item {
                Some(width) => {
                    column = indent.saturating_add(width);
                    rest.get(width..).unwrap_or_default()
                }
                None => rest,
            };
            paragraph.push_str(text);
            paragraph.push('\n');
        }
        out.add(&paragraph);
        out
    }

    /// Adds the links and HTML of a paragraph.
    fn add(&mut self, paragraph: &str) {
        let mut text = paragraph;
        while let Some((address, rest)) = definition(text) {
            self.addresses.push(address);
            text = rest;
        }
        let bytes = text.as_bytes();
        let ticks = Ticks::count(bytes);
        let (mut at, mut open) = (0, 0u64);
        while let Some(&byte) = bytes.get(at) {
            let rest = text.get(at..).unwrap_or_default();
            let len = match byte {
                b'\\' if rest.as_bytes().get(1).is_some_and(u8::is_ascii_punctuation) => 2,
                b'`' => ticks.skip(bytes, at),
                b'[' => {
                    open = open.saturating_add(1);
                    1
                }
                b']' => {
                    let is_text = open > 0;
                    open = open.saturating_sub(1);
                    match rest.strip_prefix("](").filter(|_| is_text).and_then(destination) {
                        Some((address, len)) => {
                            self.addresses.push(address);
                            len.saturating_add(2)
                        }
                        None => 1,
                    }
                }
                b'<' => match (autolink(rest), tag(rest)) {
                    (Some(address), _) => {
                        self.addresses.push(address.to_owned());
                        address.len().saturating_add(2)
                    }
                    (None, Some(tag)) => {
                        self.html.push(tag.to_owned());
                        tag.len()
                    }
                    (None, None) => 1,
                },
                _ => 1,
            };
            at = at.saturating_add(len);
        }
    }
}

/// Returns the columns of white space at the start of a line, and the rest of the line.
fn unindented(line: &str) -> (usize, &str) {
    let rest = line.trim_start();
    let white = line.len().saturating_sub(rest.len());
    let columns = line.bytes().take(white).fold(0usize, |n, b| match b {
        b'\t' => n.saturating_add(1).next_multiple_of(4),
        _ => n.saturating_add(1),
    });
    (columns, rest.trim_end())
}

/// Returns the character of a code fence, its count, and whether nothing follows.
fn fence_of(rest: &str) -> Option<(u8, usize, bool)> {
    let sign = *rest.as_bytes().first().filter(|b| matches!(b, b'`' | b'~'))?;
    let len = rest.bytes().take_while(|b| *b == sign).count();
    let info = rest.get(len..)?;
    let is_fence = len >= 3 && !(sign == b'`' && info.contains('`'));
    is_fence.then_some((sign, len, info.is_empty()))
}

/// Returns the bytes before the text of a list item.
fn item_width(rest: &str) -> Option<usize> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let marker = match rest.as_bytes().get(digits)? {
        b'-' | b'*' | b'+' if digits == 0 => 1,
        b'.' | b')' if (1..=9).contains(&digits) => digits.saturating_add(1),
        _ => return None,
    };
    let after = rest.get(marker..)?;
    let white = after.len().saturating_sub(after.trim_start().len());
    match white {
        0 => None,
        1..=4 => Some(marker.saturating_add(white)),
        _ => Some(marker.saturating_add(1)),
    }
}

/// Runs of backticks: the start of each, by length.
struct Ticks(HashMap<usize, Vec<usize>>);

impl Ticks {
    fn count(bytes: &[u8]) -> Ticks {
        let mut runs: HashMap<usize, Vec<usize>> = HashMap::default();
        let mut at = 0;
        while at < bytes.len() {
            let len = bytes.iter().skip(at).take_while(|b| **b == b'`').count();
            if len > 0 {
                runs.entry(len).or_default().push(at);
            }
            at = at.saturating_add(len.max(1));
        }
        Ticks(runs)
    }

    /// Returns the length of the code span that starts at `at`, or of the run of backticks alone if the span
    /// is not closed.
    fn skip(&self, bytes: &[u8], at: usize) -> usize {
        let len = bytes.iter().skip(at).take_while(|b| **b == b'`').count();
        let starts = self.0.get(&len).map_or(&[][..], Vec::as_slice);
        let end = starts.get(starts.partition_point(|start| *start <= at));
        end.map_or(len, |end| end.saturating_sub(at).saturating_add(len))
    }
}

/// Parses `[label]: ADDRESS` at the start of a paragraph; returns the address and the text after its line.
fn definition(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('[').filter(|rest| !rest.starts_with('^'))?;
    let (line, rest) = inside.split_once('\n').unwrap_or((inside, ""));
    let (label, after) = line.split_once("]:")?;
    if label.trim().is_empty() || label.contains(['[', ']']) {
        return None;
    }
    let (address, _) = address(after.trim_start())?;
    (!address.is_empty()).then_some((address, rest))
}

/// Parses the destination after `](`; returns the address and the bytes it takes.
fn destination(text: &str) -> Option<(String, usize)> {
    let start = text.trim_start();
    let (address, len) = address(start)?;
    let after = start.get(len..)?;
    let rest = after.trim_start();
    let is_end =
        rest.starts_with(')') || (rest.len() < after.len() && rest.starts_with(['"', '\'', '(']));
    let white = text.len().saturating_sub(start.len());
    is_end.then_some((address, white.saturating_add(len)))
}

/// Parses an address at the start of `text`; returns it and the bytes it takes.
fn address(text: &str) -> Option<(String, usize)> {
    if let Some(inside) = text.strip_prefix('<') {
        let len = inside.find(['<', '>', '\n'])?;
        let is_whole = inside.as_bytes().get(len) == Some(&b'>');
        return is_whole
            .then(|| (unescaped(inside.get(..len).unwrap_or_default()), len.saturating_add(2)));
    }
    let (mut open, mut escaped) = (0u32, false);
    let mut len = text.len();
    for (at, c) in text.char_indices() {
        if c.is_whitespace() || c.is_ascii_control() || (c == ')' && open == 0 && !escaped) {
            len = at;
            break;
        }
        match c {
            '(' if !escaped && open == MAX_OPEN => return None,
            '(' if !escaped => open = open.saturating_add(1),
            ')' if !escaped => open = open.saturating_sub(1),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    (open == 0).then(|| (unescaped(text.get(..len).unwrap_or_default()), len))
}

/// Returns the text without the backslashes that escape punctuation.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) if c == '\\' && next.is_ascii_punctuation() => out.extend(chars.next()),
            _ => out.push(c),
        }
    }
    out
}

/// Returns the contents of `<…>` if it is an address, including mail addresses.
fn autolink(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('<')?;
    let len = inside
        .find(|c: char| c.is_whitespace() || c.is_ascii_control() || matches!(c, '<' | '>'))?;
    let (inside, end) = (inside.get(..len)?, inside.as_bytes().get(len)?);
    let is_scheme = |text: &str| {
        (2..=32).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'-'))
    };
    let has_scheme = inside.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
    let is_mail = inside.split_once('@').is_some_and(|(name, host)| {
        let is_sign = |b: u8| b.is_ascii_alphanumeric() || b".!#$%&*+-/=?^_`{|}~".contains(&b);
        let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
        !name.is_empty()
            && !host.is_empty()
            && name.bytes().all(is_sign)
            && host.bytes().all(is_word)
    });
    (*end == b'>' && (has_scheme || is_mail)).then_some(inside)
}

/// Returns an HTML tag with its brackets, or the first two bytes of a comment or similar construct.
fn tag(text: &str) -> Option<&str> {
    let rest = text.get(1..)?;
    let declares =
        |rest: &str| rest.starts_with("--") || rest.starts_with(|c: char| c.is_ascii_alphabetic());
    if rest.starts_with('?') || rest.strip_prefix('!').is_some_and(declares) {
        return text.get(..2);
    }
    let name = rest.strip_prefix('/').unwrap_or(rest);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-';
    let start = text.len().saturating_sub(name.len());
    let mut at = start.saturating_add(name.bytes().take_while(is_name).count());
    let bytes = text.as_bytes();
    if !bytes.get(at).is_some_and(|b| b.is_ascii_whitespace() || matches!(b, b'/' | b'>')) {
        return None;
    }
    // Almost any character may follow `=`.
    let (mut is_value, mut last) = (false, b' ');
    loop {
        let byte = *bytes.get(at)?;
        match byte {
            b'>' => return text.get(..=at),
            b'"' | b'\'' if last == b'=' => {
                at = at.saturating_add(1);
                at = at.saturating_add(bytes.iter().skip(at).position(|b| *b == byte)?);
                is_value = false;
            }
            b'<' | b'"' | b'\'' | b'`' => return None,
            b'=' => is_value = true,
            _ if byte.is_ascii_whitespace() => is_value &= last == b'=',
            b':' | b'_' | b'.' | b'-' | b'/' => {}
            _ if is_value || byte.is_ascii_alphanumeric() => {}
            _ => return None,
        }
        if !byte.is_ascii_whitespace() {
            last = byte;
        }
        at = at.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::Markup;

    fn addresses(text: &str) -> Vec<String> {
        Markup::parse(text).addresses
    }

    #[test]
    fn addresses_of_links_and_pictures_are_found() {
        let cases: [(&str, &[&str]); 17] = [
            ("a [b](https://c.org/d) ![e](@misc/f.png)", &["https://c.org/d", "@misc/f.png"]),
            ("[![a](@misc/a.png)](https://b.org)", &["@misc/a.png", "https://b.org"]),
            ("[a](<@misc/b c.png> \"title\")", &["@misc/b c.png"]),
            ("[a]( b (c) )", &["b"]),
            ("[a](b_(c)_d)", &["b_(c)_d"]),
            ("[a](b\\)c\\_d)", &["b)c_d"]),
            ("[a]()", &[""]),
            ("[a]: http://b.org 'title'\n[c]: <d>\n\n[e][a]", &["http://b.org", "d"]),
            ("<http://a.org/b> <me@a.org>", &["http://a.org/b", "me@a.org"]),
            ("> - [a](b)\n>   [c](d)", &["b", "d"]),
            ("1. a\n\n   [b](c)\n\n       [code](d)\n", &["c"]),
            ("a](b) \\[c](d) [e] (f) [g]( h", &[]),
            ("`[a](b)` ``[a](`b)`` and `[c](d)", &["d"]),
            ("```\n[a](b)\n~~~\n```\n[c](d)\n~~~ x\n[e](f)", &["d"]),
            ("a\n\n    [code](b)\n\n    [code](c)\nd [e](f)", &["f"]),
            ("a\n    [b](c)", &["c"]),
            ("a@misc/b http://c.org @misc/d [^e]: f", &[]),
        ];
        for (text, wanted) in cases {
            assert_eq!(addresses(text), wanted, "{text}");
        }
    }

    #[test]
    fn html_is_distinguished_from_similar_text() {
        let text =
            "<b>a</b> <img src=\"http://a.org/<x>\" alt='>'\n/> <br/> <!-- b --> <a href=x?y&z>";
        let wanted = [
            "<b>",
            "</b>",
            "<img src=\"http://a.org/<x>\" alt='>'\n/>",
            "<br/>",
            "<!",
            "<a href=x?y&z>",
        ];
        assert_eq!(Markup::parse(text).html, wanted);
        for text in [
            "a < b > c",
            "x<y",
            "`<b>`",
            "\\<b>",
            "&lt;b&gt;",
            "<1>",
            "<b, c>",
            "    <b>",
            "<a b",
            "<-",
        ] {
            assert_eq!(Markup::parse(text), Markup::default(), "{text}");
        }
    }
}
