//! Splitting of a command in one argument into words.

use crate::platform::BACKSLASH_ESCAPES;

/// The words of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words(pub(super) Vec<String>);

/// Splits a text at white space outside quotes (`'…'` or `"…"`). A backslash escapes the next character, except in
/// single quotes and on Windows, where it is part of a path.
pub(super) fn split(text: &str) -> Result<Words, String> {
    split_as(text, BACKSLASH_ESCAPES)
}

fn split_as(text: &str, backslash_escapes: bool) -> Result<Words, String> {
    let mut out: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('\\', None | Some('"')) if backslash_escapes => {
                let next = chars.next().ok_or("a backslash at the end")?;
                word.get_or_insert_default().push(next);
            }
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => out.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("missing closing quote".to_owned());
    }
    out.extend(word);
    match out.first() {
        Some(program) if !program.is_empty() => Ok(Words(out)),
        _ => Err("name a program, for example `python3 -m my_runner`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::split_as;

    #[test]
    fn words_are_cut_as_in_a_shell() {
        let words = |text: &str| split_as(text, true).map(|words| words.0);
        let is = |strings: &[&str]| Ok(strings.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        assert_eq!(words("python3 -m a.b"), is(&["python3", "-m", "a.b"]));
        assert_eq!(
            words("  a\t'b c' \"d 'e'\\\"\" f\\ g ''"),
            is(&["a", "b c", "d 'e'\"", "f g", ""])
        );
        assert_eq!(words("a'b\\'\"c\""), is(&["ab\\c"]));
        for text in ["", "  ", "''", "'a", "a \"b", "a\\"] {
            assert!(split_as(text, true).is_err(), "{text}");
        }
        let paths = split_as(r#""C:\my models\run.exe" --at D:\x"#, false).unwrap();
        assert_eq!(paths.0, [r"C:\my models\run.exe", "--at", r"D:\x"]);
    }
}
