//! One suite for every system.

use super::*;
use std::sync::atomic::Ordering;

#[cfg(feature = "carton")]
#[test]
fn variables_are_split_at_the_first_sign() {
    for (text, name, value) in [
        ("A=b", "A", "b"),
        ("A=b=c", "A", "b=c"),
        ("A=", "A", ""),
        ("=x", "", "x"),
        ("É=ü", "É", "ü"),
    ] {
        let text_os = std::ffi::OsStr::new(text);
        assert_eq!(split_variable(text_os), (name.into(), value.into()), "{text}");
    }
}

#[test]
fn the_tests_are_not_asked_to_end() {
    assert!(!end_requested().load(Ordering::Relaxed));
    outlive_file_limits();
}

#[test]
fn a_browser_is_named() {
    assert!(!BROWSER.is_empty());
}
