//! Tokens of Rust source: names and punctuation, without comments, strings and characters.

/// A token, and its line number, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'t> {
    pub(crate) text: &'t str,
    pub(crate) line: usize,
}

/// Returns names, `::`, and other characters except white space, one by one.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = skipped(rest).unwrap_or_else(|| {
            let len = match rest {
                _ if rest.starts_with("::") => 2,
                _ if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ => c.len_utf8(),
            };
            all.push(Token { text: &rest[..len], line });
            len
        });
        let (taken, after) = rest.split_at(len);
        line += taken.matches('\n').count();
        rest = after;
    }
    all
}

/// Returns the length of white space, a comment, a string, a character or a lifetime, which are
/// skipped.
fn skipped(rest: &str) -> Option<usize> {
    let mut chars = rest.chars();
    match (chars.next()?, chars.next()) {
        (c, _) if c.is_whitespace() => Some(c.len_utf8()),
        ('/', Some('/')) => Some(rest.find('\n').unwrap_or(rest.len())),
        ('/', Some('*')) => Some(comment(rest)),
        ('"', _) => Some(quoted(rest, '"')),
        ('b' | 'c', Some('"')) => Some(1 + quoted(&rest[1..], '"')),
        ('b', Some('\'')) => Some(1 + quoted(&rest[1..], '\'')),
        ('r', Some('"' | '#')) => raw(rest, 1),
        ('b' | 'c', Some('r')) => raw(rest, 2),
        ('\'', Some('\\')) => Some(quoted(rest, '\'')),
        ('\'', Some(c)) => match chars.next() {
            Some('\'') => Some(2 + c.len_utf8()),
            // A lifetime.
            _ => Some(1 + rest[1..].find(|c| !is_word(c)).unwrap_or(rest.len() - 1)),
        },
        _ => None,
    }
}

/// Returns the length of a comment of this kind, which may be nested.
fn comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while let Some(next) = rest.get(at..).filter(|r| !r.is_empty()) {
        if next.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if next.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += next.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of a raw string with a prefix of that many letters; `None` if it is a name.
fn raw(rest: &str, prefix: usize) -> Option<usize> {
    let after = rest.get(prefix..)?;
    let marks = after.len() - after.trim_start_matches('#').len();
    if !after[marks..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(marks));
    let inner = prefix + marks + 1;
    Some(rest[inner..].find(&end).map_or(rest.len(), |at| inner + at + end.len()))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
