//! The messages of errors, and what errors keep.

use holdall_error::{Detail, Error, Remedy};
use std::collections::BTreeSet;
use std::error::Error as _;
use std::io;

holdall_error::rules! {
    static RULES;

    WORD: Malformed "test/word" "A word is one that there is." hint "look it up" remedies [MakeDense];
    LINE: Malformed "test/line" "A line is made of words.";
    DISK: Io "test/disk" "The disk is there.";
}

fn word() -> Error {
    WORD.broken("`x` is not a word").at(3..4)
}

#[test]
fn contexts_stand_before_the_message_the_widest_first() {
    let e = word().within("word 2").within("line 7").in_source("a.txt");
    assert_eq!(e.to_string(), "a.txt: bytes 3..4: line 7: word 2: `x` is not a word [test/word]");
    assert_eq!(e.message(), "line 7: word 2: `x` is not a word");
    assert_eq!((e.found(), e.code()), ("`x` is not a word", "test/word"));
    assert_eq!(e.contexts().collect::<Vec<_>>(), ["line 7", "word 2"]);
    assert_eq!((e.range(), e.hint()), (Some(3..4), Some("look it up")));
    assert_eq!(RULES.len(), 3);
}

#[test]
fn a_cause_is_kept_with_its_location_and_code() {
    let e = LINE.broken("not words").because(word().within("word 2")).within("line 7").at(0..9);
    let expected = "line 7: not words: bytes 3..4: word 2: `x` is not a word (test/word)";
    assert_eq!(e.message(), expected);
    assert_eq!(e.to_string(), format!("bytes 0..9: {expected} [test/line]"));
    let cause = e.inner().expect("it has one");
    assert_eq!((cause.code(), cause.range()), ("test/word", Some(3..4)));
    assert_eq!(e.source().map(ToString::to_string), Some(cause.to_string()));
    assert_eq!(e.hint(), Some("look it up"), "the cause's, for want of another");
    assert_eq!(e.with_hint("turn the page").hint(), Some("turn the page"));
}

#[test]
fn the_system_error_is_found_among_the_causes() {
    let io = || io::Error::new(io::ErrorKind::TimedOut, "slow\n\u{1b}disk");
    let e = DISK.broken("reading").because(io());
    assert_eq!(e.message(), "reading: slow\\n\\u{1b}disk");
    assert!(e.inner().is_none() && e.io().is_some() && e.is_retryable());
    let e = LINE.broken("no line").because(e.within("block 4"));
    assert_eq!(e.message(), "no line: block 4: reading: slow\\n\\u{1b}disk (test/disk)");
    assert!(e.clone().is_retryable());
    assert_eq!(e.io().map(io::Error::kind), Some(io::ErrorKind::TimedOut));
    assert!(!LINE.broken("no line").is_retryable());
    let e = DISK.broken("the disk is slow").with_cause(io());
    assert_eq!((e.message(), e.is_retryable()), ("the disk is slow", true));
}

#[test]
fn an_error_moves_to_another_rule_or_place_and_keeps_the_rest() {
    let e = word().within("word 2").in_tensor("t").with_rule(&LINE).within("line 7");
    assert_eq!(
        e.to_string(),
        "tensor `t`, bytes 3..4: line 7: word 2: `x` is not a word [test/line]"
    );
    assert_eq!(e.inner().map(Error::code), Some("test/word"));
    assert_eq!(e.hint(), Some("look it up"));
    let e = word().in_source("cache").for_source("a.zip!/b");
    assert_eq!(e.to_string(), "a.zip!/b: bytes 3..4: cache: `x` is not a word [test/word]");
    assert_eq!(e.without_location().to_string(), "cache: `x` is not a word [test/word]");
    let e = LINE.broken("not words").because(word().in_tensor("t").in_component("data"));
    assert_eq!((e.tensor(), e.component(), e.range()), (Some("t"), Some("data"), None));
}

#[test]
fn long_texts_are_cut_wherever_they_come_in() {
    let long = "x".repeat(1 << 20);
    let cause = io::Error::other(long.clone());
    let e = LINE.broken(long.clone()).within(long.clone()).because(cause).in_tensor(long.clone());
    let text = e.with_hint(long).to_string();
    assert!(text.len() < 1000 + 300, "{} bytes", text.len());
    assert!(text.contains("… (1048576 characters)"), "{text}");
    let e = LINE.broken("not words").because(io::Error::other("x".repeat(1 << 20)));
    assert!(e.message().starts_with("not words: xxx") && e.message().len() < 1000, "{e}");
}

#[test]
fn advice_is_its_own_or_its_rules_or_its_causes() {
    let spell = |remedy: &Remedy| (*remedy != Remedy::LeaveOut).then(|| remedy.name().to_owned());
    let e = word();
    assert_eq!(e.remedies(), [Remedy::MakeDense]);
    assert_eq!(e.advice(spell).as_deref(), Some("look it up; make_dense"));
    let outer = LINE.broken("not words").because(e.clone());
    assert_eq!((outer.hint(), outer.remedies()), (e.hint(), e.remedies()));
    let e = e.with_remedy(Remedy::LeaveOut).with_remedy(Remedy::Overwrite);
    assert_eq!((e.hint(), e.advice(spell).as_deref()), (None, Some("overwrite")));
    let e = word().with_hint("ask").with_remedy(Remedy::LeaveOut);
    assert_eq!(e.advice(spell).as_deref(), Some("ask"));
    assert_eq!(LINE.broken("not words").advice(spell), None);
}

#[test]
fn remedies_have_unique_names_and_fields() {
    let all = Remedy::examples();
    let names: BTreeSet<&str> = all.iter().map(Remedy::name).collect();
    assert_eq!(names.len(), all.len());
    for remedy in &all {
        let text = remedy.to_string();
        assert!(text.len() > 10 && !text.contains("--"), "{text}");
        for (_, detail) in remedy.details() {
            let expected = match detail {
                Detail::Text(expected) => expected.to_owned(),
                Detail::Number(expected) => expected.to_string(),
            };
            assert!(text.contains(&expected), "{text} does not say {expected}");
        }
    }
}

#[test]
fn an_empty_name_is_described_in_words() {
    let e = word().within("line 1").in_tensor("");
    let expected =
        "the tensor with an empty name, bytes 3..4: line 1: `x` is not a word [test/word]";
    assert_eq!(e.to_string(), expected);
}
