//! The table of limits.

use holdall_core::{LIMITS, Limit, LimitUnit, Limits, NameCase};

#[test]
fn a_limit_is_set_and_read_by_its_entry() {
    for limit in LIMITS {
        let mut limits = Limits::default();
        assert_eq!(limit.get(&limits), limit.default, "{}", limit.name);
        for value in [0, 9, limit.max] {
            limit.set(&mut limits, value).unwrap();
            assert_eq!(limit.get(&limits), value, "{}", limit.name);
            for other in LIMITS.iter().filter(|other| other.name != limit.name) {
                assert_eq!(other.get(&limits), other.default, "{}", other.name);
            }
        }
    }
}

#[test]
fn names_are_written_as_an_interface_writes_them() {
    let names = |case| LIMITS.iter().map(move |limit| limit.spelled(case));
    assert!(names(NameCase::Snake).any(|name| name == "zstd_window_log"));
    assert!(names(NameCase::Kebab).any(|name| name == "zstd-window-log"));
    assert!(names(NameCase::Camel).any(|name| name == "zstdWindowLog"));
    for case in [NameCase::Snake, NameCase::Kebab, NameCase::Camel] {
        for (limit, name) in LIMITS.iter().zip(names(case)) {
            assert_eq!(Limit::find(&name, case).unwrap().name, limit.name);
        }
    }
    let expansion = Limit::find("expansion", NameCase::Camel).unwrap();
    assert!(expansion.described(NameCase::Camel).contains("`decodedLen`"));
    assert!(expansion.described(NameCase::Kebab).contains("`decoded-len`"));
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest_one() {
    let e = Limits::default().set("decodedLen", NameCase::Snake, 1).unwrap_err();
    assert_eq!(e.code(), "limits/unknown");
    assert!(e.message().contains("did you mean `decoded_len`?"), "{e}");
    for limit in LIMITS {
        assert!(e.message().contains(limit.name), "{e}");
    }
    let e = Limits::default().set("nothing_like_it", NameCase::Snake, 1).unwrap_err();
    assert!(!e.message().contains("did you mean"), "{e}");
}

#[test]
fn a_value_without_effect_is_refused() {
    let mut limits = Limits::default();
    let e = limits.set("zstdWindowLog", NameCase::Camel, 32).unwrap_err();
    assert_eq!(
        (e.code(), e.message()),
        ("limits/value", "the limit `zstdWindowLog` must be at most 31, not 32")
    );
    assert_eq!(limits.zstd_window_log, Limits::default().zstd_window_log);
    limits.set("tensors", NameCase::Camel, u64::MAX).unwrap();
    assert_eq!(limits.tensors, u64::MAX);
}

#[test]
fn every_limit_has_a_sentence() {
    for limit in LIMITS {
        assert!(limit.help.ends_with('.') && limit.help.len() > 10, "{}", limit.name);
        let is_len = limit.name.ends_with("_len");
        assert_eq!(limit.unit == LimitUnit::Bytes, is_len, "{}", limit.name);
    }
}
