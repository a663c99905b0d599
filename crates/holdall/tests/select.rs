//! Globs, renames, grouping and suggestions.

use crate::make::{self, dense, part};
use holdall::{DType, ErrorKind, Glob, Rename, Role, Select, groups, nearest};
use holdall_core::model::group::group_names;
use std::time::{Duration, Instant};

fn matches(pattern: &str, name: &str) -> bool {
    Glob::new(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}")).matches(name)
}

#[test]
fn globs_match_whole_names() {
    for (pattern, yes, no) in [
        ("a.b", &["a.b"][..], &["a.bc", "xa.b", "a-b", ""][..]),
        ("*", &["", "a", "a.b/c\n"], &[]),
        ("layers.*.w", &["layers.0.w", "layers.0.mlp.w", "layers..w"], &["layers.w", "layers.0.b"]),
        ("?", &["a", "é", "."], &["", "ab"]),
        ("l[0-9a]x", &["l0x", "l5x", "lax"], &["lbx", "lx", "l00x"]),
        ("l[!0-9]x", &["lax", "l]x"], &["l1x"]),
        ("[]a]", &["]", "a"], &["b"]),
        ("[!]]", &["a"], &["]"]),
        ("[a-]", &["a", "-"], &["b"]),
        ("[\\]]", &["]"], &["\\"]),
        ("x.{q,k,v}.w", &["x.q.w", "x.v.w"], &["x.o.w", "x..w", "x.qk.w"]),
        ("x{,.bias}", &["x", "x.bias"], &["x."]),
        ("{a{b,c*}d,e?}", &["abd", "acd", "acxxd", "ef"], &["ad", "e", "cd"]),
        ("h.{0..31}.w", &["h.0.w", "h.9.w", "h.31.w"], &["h.32.w", "h.00.w", "h.1x.w", "h..w"]),
        ("h.{0..3,7,x}.w", &["h.3.w", "h.7.w", "h.x.w"], &["h.4.w", "h.6.w"]),
        ("h.{00..31}", &["h.00", "h.07", "h.31"], &["h.7", "h.007", "h.32"]),
        ("a\\*b", &["a*b"], &["axb"]),
        ("a]b}c,d", &["a]b}c,d"], &["a"]),
        ("é*é", &["éé", "éxé"], &["é"]),
    ] {
        for name in yes {
            assert!(matches(pattern, name), "`{pattern}` should match `{name}`");
        }
        for name in no {
            assert!(!matches(pattern, name), "`{pattern}` should not match `{name}`");
        }
    }
    assert!(matches("w[0]", "w[0]") && matches("w[0]", "w0"));
}

#[test]
fn bad_globs_are_misuse_and_say_why() {
    for (pattern, says) in [
        ("a[bc", "`[` is not closed"),
        ("a[", "`[` is not closed"),
        ("[a-", "`[` is not closed"),
        ("[z-a]", "empty"),
        ("{a,b", "`{` is not closed"),
        ("{a,{b}", "`{` is not closed"),
        ("{5..2}", "empty"),
        ("{a..c}", "not a range of numbers"),
        ("{1..99999999999999999999}", "2^64"),
        ("a\\", "nothing follows"),
    ] {
        let e = Glob::new(pattern).expect_err(pattern);
        assert_eq!((e.kind(), e.code()), (ErrorKind::Misuse, "select/pattern"), "{pattern}");
        assert!(e.message().contains(says), "{pattern}: {e}");
    }
    let deep = "{".repeat(10_000);
    assert!(Glob::new(&deep).is_err());
    assert!(Glob::new(&"x*".repeat(1 << 19)).is_err());
    // A name is not a pattern, even a long one.
    let name = "x".repeat(1 << 20);
    assert!(Glob::new(&name).unwrap().matches(&name));
    let wide = "{1..18446744073709551615}".repeat(500);
    assert!(Glob::new(&wide).expect_err("wide").message().contains("too complex"));
}

#[test]
fn no_pattern_explodes() {
    let begun = Instant::now();
    let name = "a".repeat(20_000);
    for pattern in [
        "*a".repeat(50) + "b",
        "{a,a*}".repeat(50) + "b",
        "{a,{a,{a,a}}}".repeat(50) + "*b",
        "{*,*a}".repeat(50) + "b",
    ] {
        assert!(!matches(&pattern, &name));
    }
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}

#[test]
fn selects_by_include_and_exclude() {
    let names = ["a.w", "a.b", "b.w", "b.b", "x[1]"];
    let chosen = |include: &[&str], exclude: &[&str]| -> Vec<&str> {
        let select = Select::new(include, exclude).unwrap();
        names.into_iter().filter(|n| select.selects(n)).collect()
    };
    assert_eq!(chosen(&[], &[]), names);
    assert_eq!(chosen(&["a.*"], &[]), ["a.w", "a.b"]);
    assert_eq!(chosen(&["a.*", "b.w"], &["*.b"]), ["a.w", "b.w"]);
    assert_eq!(chosen(&[], &["?.*"]), ["x[1]"]);
    assert_eq!(chosen(&["x[1]", "x\\[1]"], &[]), ["x[1]"]);
    assert!(Select::all().is_all() && !Select::new(&[], &["a"]).unwrap().is_all());
}

#[test]
fn renames() {
    let rename = |rule: &str, name: &str| Rename::new(rule).expect(rule).apply(name);
    assert_eq!(rename("model.*=*", "model.a.b").as_deref(), Some("a.b"));
    assert_eq!(rename("model.*=*", "a.b"), None);
    assert_eq!(
        rename("transformer.h.*.attn.*=blk.*.attn.*", "transformer.h.11.attn.c_attn.weight")
            .as_deref(),
        Some("blk.11.attn.c_attn.weight")
    );
    assert_eq!(rename("a=b", "a").as_deref(), Some("b"));
    assert_eq!(rename("{q,k}.*=attn.*", "k.w").as_deref(), Some("attn.w"));
    assert_eq!(rename("*.head=head", "lm.head").as_deref(), Some("head"));
    assert_eq!(rename("a\\=b=c\\*\\=\\\\", "a=b").as_deref(), Some("c*=\\"));

    let rules = ["a.*=x.*", "a.b=never", "*=y.*"].map(|r| Rename::new(r).unwrap());
    assert_eq!(Rename::first(&rules, "a.b"), "x.b");
    assert_eq!(Rename::first(&rules, "c"), "y.c");
    assert_eq!(Rename::first(&[], "c"), "c");

    for (bad, says) in [
        ("ab", "no `=`"),
        ("a=", "nothing after"),
        ("a.*=*.*", "1 `*` before `=` and 2"),
        ("*.*=*", "2 `*` before `=` and 1"),
        ("[=b", "not closed"),
    ] {
        let e = Rename::new(bad).expect_err(bad);
        assert_eq!(e.kind(), ErrorKind::Misuse);
        assert!(e.message().contains(says), "{bad}: {e}");
    }
}

fn grouped(names: &[(&str, u8)]) -> Vec<String> {
    let groups = group_names(names.iter().copied());
    let mut seen: Vec<usize> = groups.iter().flat_map(|g| g.members.clone()).collect();
    for group in &groups {
        assert!(group.members.is_sorted());
        if group.members.len() > 1 {
            // The name is a glob that matches the members, and no other of the names with the same key.
            let glob = Glob::new(&group.name).unwrap();
            let key = names[group.members[0]].1;
            for (at, (name, own)) in names.iter().enumerate() {
                let member = group.members.contains(&at);
                assert!(!member || *own == key);
                assert_eq!(glob.matches(name) && *own == key, member, "{} {name}", group.name);
            }
        }
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..names.len()));
    groups.into_iter().map(|g| g.name).collect()
}

#[test]
fn groups_repeated_layers() {
    let all = |names: &[&str]| grouped(&names.iter().map(|n| (*n, 0)).collect::<Vec<_>>());
    assert_eq!(
        all(&["emb", "h.0.w", "h.0.b", "h.1.w", "h.1.b", "h.2.w", "h.2.b", "norm"]),
        ["emb", "h.{0..2}.w", "h.{0..2}.b", "norm"]
    );
    assert_eq!(all(&["l.7.w", "l.0.w", "l.2.w", "l.1.w", "l.3.w"]), ["l.{0..3,7}.w"]);
    assert_eq!(all(&["l.0", "l.1"]), ["l.{0,1}"]);
    assert_eq!(
        all(&["conv1.w", "conv2.w", "proj_1", "proj_2"]),
        ["conv1.w", "conv2.w", "proj_{1,2}"]
    );
    assert_eq!(all(&["l.00", "l.01", "l.1", "l.10"]), ["l.00", "l.01", "l.{1,10}"]);
    assert_eq!(
        all(&["m.0.e.0", "m.0.e.1", "m.1.e.0", "m.1.e.1", "m.2.e.0"]),
        ["m.{0,1}.e.{0,1}", "m.2.e.0"]
    );
    assert_eq!(all(&["a[*].0", "a[*].1"]), ["a\\[\\*].{0,1}"]);
    assert_eq!(all(&["a.\0.0", "a.0.\0", "a.1.\0"]), ["a.\0.0", "a.0.\0", "a.1.\0"]);
    assert_eq!(all(&["é0.1", "é0.2", "1é", "2é"]), ["é0.{1,2}", "1é", "2é"]);
    assert_eq!(all(&[]), [""; 0]);
    assert_eq!(
        all(&["18446744073709551615", "18446744073709551616", "0"]),
        ["{0,18446744073709551615}", "18446744073709551616"]
    );
    // A layer with another shape is listed separately, and leaves a gap.
    assert_eq!(
        grouped(&[("l.0", 0), ("l.1", 1), ("l.2", 0), ("l.3", 0), ("l.4", 0)]),
        ["l.{0,2..4}", "l.1"]
    );
}

#[test]
fn groups_many_names_in_linear_time() {
    let begun = Instant::now();
    let moe: Vec<String> = (0..200_000)
        .map(|i| format!("model.layers.{}.experts.{}.w{}", i / 2560, i / 10 % 256, i % 10))
        .collect();
    let groups = group_names(moe.iter().map(|n| (n.as_str(), ())));
    assert_eq!(groups.len(), 20);
    assert_eq!(groups[0].name, "model.layers.{0..77}.experts.{0..255}.w0");
    // Hostile: no two names differ in only one place, with as many numbers as possible.
    let mut state = 1u64;
    let odd: Vec<String> = (0..100_000)
        .map(|_| {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 50
            };
            (0..12).map(|_| next().to_string()).collect::<Vec<_>>().join(".")
        })
        .collect();
    assert_eq!(group_names(odd.iter().map(|n| (n.as_str(), ()))).len(), odd.len());
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}

#[test]
fn suggests_the_nearest_name() {
    let names = [
        "model.embed_tokens.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.1.self_attn.q_proj.weight",
        "model.norm.weight",
        "lm_head.weight",
    ];
    let near = |wanted: &str| nearest(wanted, names.into_iter());
    assert_eq!(near("model.layers.1.self_attn.q_prj.weight"), Some(names[2]));
    assert_eq!(near("model.embed_token.weight"), Some(names[0]));
    assert_eq!(near("LM_HEAD.weight"), Some(names[4]));
    assert_eq!(near("norm.weight"), Some(names[3]));
    assert_eq!(near("lm_head"), Some(names[4]));
    assert_eq!(near("transformer.lm_head.weight"), Some(names[4]));
    assert_eq!(near("quite.another.thing"), None);
    assert_eq!(near(""), None);
    assert_eq!(nearest("w1", ["w2"].into_iter()), Some("w2"));
}

#[test]
fn suggesting_costs_little_whatever_the_names() {
    let begun = Instant::now();
    let names: Vec<String> =
        (0..200_000).map(|i| format!("{}{}", "ab".repeat(100), i * 7919)).collect();
    nearest(&"ba".repeat(100), names.iter().map(String::as_str));
    let long = vec!["x".repeat(4096); 2000];
    nearest(&"y".repeat(512), long.iter().map(String::as_str));
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}

#[test]
fn selections_and_groups_of_a_file() {
    let u8s =
        |name: &str, n: u64| dense(name, &[n], part(Role::Data, DType::U8, vec![0; n as usize]));
    let all = [u8s("h.0.w", 2), u8s("h.1.w", 2), u8s("h.2.w", 3), u8s("h.3.w", 2), u8s("x[0]", 1)];
    let file = make::file("ztensor", &all);
    let of = |include: &[&str]| -> holdall::Result<Vec<String>> {
        let chosen = Select::new(include, &[]).unwrap().tensors(&file)?;
        Ok(chosen.iter().map(|t| t.name().to_owned()).collect())
    };
    assert_eq!(of(&[]).unwrap().len(), 5);
    assert_eq!(of(&["h.{1..2}.w", "x\\[0]"]).unwrap(), ["h.1.w", "h.2.w", "x[0]"]);
    assert_eq!(of(&["x[0]"]).unwrap(), ["x[0]"]);
    let e = of(&["h.0.w", "h.0.v"]).unwrap_err();
    assert_eq!(
        (e.kind(), e.code(), e.source_name()),
        (ErrorKind::NotFound, "select/nothing", Some("made"))
    );
    assert_eq!(e.remedies(), [holdall::Remedy::did_you_mean("h.0.w")]);
    assert_eq!(of(&["z*"]).unwrap_err().code(), "select/nothing");

    let tensors: Vec<_> = file.tensors().collect();
    let names: Vec<String> = groups(&tensors).into_iter().map(|g| g.name).collect();
    assert_eq!(names, ["h.{0,1,3}.w", "h.2.w", "x[0]"]);
}
