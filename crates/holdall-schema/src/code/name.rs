//! Names for code: of types and of fields, from any text.

use std::collections::BTreeSet;

/// Words of Rust and Python, and types that the code for TypeScript has itself.
const RESERVED: [&str; 6] = ["Self", "None", "True", "False", "Float", "Integer"];

/// Names that are taken.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// A type's name from any text: letters and digits, each word with a capital letter.
    pub(super) fn type_name(text: &str) -> String {
        let mut name = String::new();
        let mut is_start = true;
        for c in text.chars() {
            match c.is_ascii_alphanumeric() {
                true if is_start => name.push(c.to_ascii_uppercase()),
                true => name.push(c),
                false => {}
            }
            is_start = !c.is_ascii_alphanumeric();
        }
        match name.chars().next() {
            _ if RESERVED.contains(&name.as_str()) => format!("{name}_"),
            Some(c) if c.is_ascii_alphabetic() => name,
            _ => format!("T{name}"),
        }
    }

    /// A field's name from any text: what is not a letter, digit or `_` becomes `_`, and the name starts with a letter.
    pub(super) fn field_name(text: &str) -> String {
        let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = text.chars().map(fit).collect();
        match name.chars().next() {
            Some(c) if c.is_ascii_alphabetic() => name,
            _ => format!("m{}{name}", if name.starts_with('_') { "" } else { "_" }),
        }
    }

    /// Takes the name of a type that is not a struct itself; gives that of structs inside it.
    pub(super) fn alias(&mut self, name: &str) -> String {
        self.take(name.to_owned());
        format!("{name}Item")
    }

    /// That name, or with a number behind it where it is taken; it is taken then.
    pub(super) fn take(&mut self, name: String) -> String {
        let mut free = name.clone();
        let mut next = 2u64;
        while !self.0.insert(free.clone()) {
            free = format!("{name}{next}");
            next = next.saturating_add(1);
        }
        free
    }
}

/// Whether a text is a name of letters, digits and `_` that starts with a letter.
pub(super) fn is_plain(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
