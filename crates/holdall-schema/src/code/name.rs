//! Converts any text to names of types and fields.

use std::collections::BTreeSet;

/// Reserved words of Rust and Python, and names of types that the TypeScript code defines.
const RESERVED: [&str; 6] = ["Self", "None", "True", "False", "Float", "Integer"];

/// The names that are in use.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// Converts any text to the name of a type: letters and digits, with each word capitalized.
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

    /// Converts any text to the name of a field: other characters than letters, digits and `_` become `_`, and the name
    /// starts with a letter.
    pub(super) fn field_name(text: &str) -> String {
        let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = text.chars().map(fit).collect();
        match name.chars().next() {
            Some(c) if c.is_ascii_alphabetic() => name,
            _ => format!("m{}{name}", if name.starts_with('_') { "" } else { "_" }),
        }
    }

    /// Reserves the name of a type that is not a struct, and returns the name for structs inside of it.
    pub(super) fn alias(&mut self, name: &str) -> String {
        self.take(name.to_owned());
        format!("{name}Item")
    }

    /// Reserves a name and returns it, with a number appended if it is already in use.
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

/// Returns `true` if a text consists of letters, digits and `_` and starts with a letter.
pub(super) fn is_plain(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
