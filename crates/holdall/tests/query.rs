//! Records by index, by condition and at random, and their members as columns.

use crate::records_files::{self, dataset, open, value, write};
use holdall::records::Sample;
use holdall::{Io, Records, TensorRecords as _, WriteOptions};
use serde_json::Value;

const COUNT: u64 = 500;

/// Runs a test on the records of a file, mapped and read.
fn everywhere(test: impl Fn(&Records)) {
    let file = write(&dataset(COUNT), &WriteOptions::new());
    for io in [Io::Map, Io::Read] {
        test(&open(&file, io).tensor("set").unwrap().records().unwrap());
    }
}

#[test]
fn found_records_meet_all_conditions() {
    everywhere(|records| {
        let query = records.query().with_condition("id>=100").unwrap();
        let query = query.with_condition("id<110").unwrap();
        let found: Vec<Value> =
            query.run().unwrap().map(|r| r.unwrap().to_value().unwrap()).collect();
        assert_eq!(found, (100..110).map(value).collect::<Vec<_>>());
        let flagged = records.query().with_condition("flag").unwrap().run().unwrap().count();
        let absent = records.query().with_condition("!flag").unwrap().run().unwrap().count();
        assert_eq!(flagged + absent, COUNT as usize);
        assert!(flagged > 0 && absent > 0);
        // A Boolean member as a condition means its value, not its presence.
        let is_true = |at: &u64| value(*at).get("flag") == Some(&Value::Bool(true));
        assert_eq!(flagged, (0..COUNT).filter(is_true).count());
        let there = records.query().with_condition("flag in (true, false)").unwrap();
        let is_there = |at: &u64| value(*at).get("flag").is_some();
        assert_eq!(there.run().unwrap().count(), (0..COUNT).filter(is_there).count());
        let of_range = query.clone().with_range(105..200).run().unwrap().count();
        assert_eq!(of_range, 5);
        let condition = records.condition("id=7").unwrap();
        let holds = |at| condition.holds(&records.record(at).unwrap()).unwrap();
        assert!(holds(7) && !holds(8));
    });
}

#[test]
fn a_sample_is_the_same_each_time() {
    everywhere(|records| {
        let places = |seed| -> Vec<u64> {
            let query = records.query().with_sample(10, seed);
            query.run().unwrap().map(|r| r.unwrap().index()).collect()
        };
        assert_eq!(places(1), places(1));
        assert_ne!(places(1), places(2));
        assert_eq!(places(1), Sample { count: 10, seed: 1 }.draw(0..COUNT));
        // A sample of the records that match a condition.
        let query = records.query().with_condition("id<50").unwrap().with_sample(10, 1);
        let some: Vec<u64> = query.run().unwrap().map(|r| r.unwrap().index()).collect();
        assert!(some.len() == 10 && some.is_sorted() && some.iter().all(|at| *at < 50));
        assert_eq!(some, Sample { count: 10, seed: 1 }.among(0..50));
    });
}

#[test]
fn columns_are_members_as_json() {
    everywhere(|records| {
        let columns = records.columns(&["id", "text", "flag"]).unwrap();
        assert_eq!(columns.names(), ["id", "text", "flag"]);
        for at in [0, 1, 2, 3, COUNT - 1] {
            let found = columns.values(&records.record(at).unwrap()).unwrap();
            let whole = value(at);
            for (name, found) in columns.names().iter().zip(found) {
                let found = found.map(|json| serde_json::from_str::<Value>(&json).unwrap());
                assert_eq!(found.as_ref(), whole.get(name), "{name} of {at}");
            }
        }
        let all = records.all_columns(3).unwrap();
        assert_eq!(all.names().len(), 3);
    });
}

#[test]
fn invalid_queries_are_refused() {
    everywhere(|records| {
        for (text, code) in [
            ("id=nothing", "records/condition"),
            ("tags=1", "records/condition"),
            ("", "records/condition"),
            ("!", "records/condition"),
            ("nothing", "schema/unknown-path"),
            ("a..b=1", "schema/path"),
        ] {
            let e = records.query().with_condition(text).unwrap_err();
            assert_eq!((e.code(), e.tensor()), (code, Some("set")), "{text}");
        }
        let e = records.query().with_range(0..COUNT + 1).run().unwrap_err();
        assert_eq!(e.code(), "records/index");
        assert_eq!(records.columns(&["nothing"]).unwrap_err().code(), "schema/unknown-path");
    });
}

#[test]
fn conditions_are_put_together() {
    everywhere(|records| {
        let ids = |text: &str| -> Vec<u64> {
            let query = records.query().with_range(0..40).with_condition(text).unwrap();
            query.run().unwrap().map(|r| r.unwrap().index()).collect()
        };
        let wanted =
            |holds: &dyn Fn(u64) -> bool| (0..40).filter(|i| holds(*i)).collect::<Vec<_>>();
        assert_eq!(ids("label=cat and id<10"), wanted(&|i| i % 3 == 0 && i < 10));
        assert_eq!(ids("id<3 or id>=38"), [0, 1, 2, 38, 39]);
        assert_eq!(ids("(id<3 or id>=38) and not label=cat"), [1, 2, 38]);
        assert_eq!(ids("id in (3, 5, 400)"), [3, 5]);
        assert_eq!(ids("label in (cat) and id not in (0,3)").first(), Some(&6));
        assert_eq!(ids("text contains \"1 — \""), [1, 11, 21, 31]);
        assert!(ids("not (text contains record)").is_empty());
        assert_eq!(ids("mask contains 3"), wanted(&|i| i % 5 == 4));
        assert_eq!(ids("box contains 39"), [39]);
        assert!(ids("box not contains 2").is_empty());
        // A missing member equals nothing and contains nothing.
        assert_eq!(ids("flag not in (true)"), wanted(&|i| i % 8 != 0));
        assert_eq!(ids("shape.named.name contains n"), wanted(&|i| i % 2 == 1));
        assert_eq!(ids("text=\"record 11 — ünïcode\""), [11]);
        for text in [
            "tags contains x",
            "meta contains x",
            "mask contains x",
            "id contains 1",
            "label contains c",
        ] {
            let e = records.condition(text).unwrap_err();
            assert_eq!(e.code(), "records/condition", "{text}");
        }
        let e = records.condition("label contains c").unwrap_err().to_string();
        let message = "`contains` needs text or an array: compare a single value with `=` or `in`";
        assert!(e.contains(message), "{e}");
    });
}

#[test]
fn patterns_ranges_and_absence_are_conditions() {
    everywhere(|records| {
        let ids = |text: &str| -> Vec<u64> {
            let query = records.query().with_range(0..40).with_condition(text).unwrap();
            query.run().unwrap().map(|r| r.unwrap().index()).collect()
        };
        let wanted =
            |holds: &dyn Fn(u64) -> bool| (0..40).filter(|i| holds(*i)).collect::<Vec<_>>();
        let has_flag = |at: u64| value(at).get("flag").is_some();
        assert_eq!(ids("id between 3 and 5"), [3, 4, 5]);
        assert_eq!(ids("id not between 3 and 38 and label=cat"), [0, 39]);
        assert_eq!(ids("text like 'record 1_ — %'"), (10..20).collect::<Vec<_>>());
        assert_eq!(ids("text not like record%"), [0; 0]);
        assert_eq!(ids("label like c%"), wanted(&|i| i % 3 == 0));
        assert_eq!(ids("flag is null"), wanted(&|i| !has_flag(i)));
        assert_eq!(ids("flag is not null"), wanted(&has_flag));
        // A comparison of two members.
        assert_eq!(ids("id = member(id)").len(), 40);
        assert!(ids("id != id").is_empty() && ids("text < member(text)").is_empty());
        assert_eq!(ids("label = text"), [0; 0]);
        // For a text, every value is a text.
        assert_eq!(ids("text < text").len(), 40);
        assert_eq!(ids("flag = member(flag)"), wanted(&has_flag));
        // An absent member differs from everything, also from itself.
        assert_eq!(ids("flag != member(flag)"), wanted(&|i| !has_flag(i)));
        for text in [
            "id like 3",
            "label between cat and dog",
            "id between 3",
            "id between 3 or 5",
            "id = member(text)",
            "id = text",
            "label < member(text)",
            "tags = member(tags)",
            "text like 'x\\'",
        ] {
            let e = records.condition(text).unwrap_err();
            assert_eq!((e.code(), e.tensor()), ("records/condition", Some("set")), "{text}");
        }
        let e = records.condition("id = member(nothing)").unwrap_err();
        assert_eq!(e.code(), "schema/unknown-path");
    });
}

#[test]
fn groups_have_aggregates() {
    everywhere(|records| {
        let asked = ["sum(id)", "min(text)", "max(text)", "mean(id)", "count(flag)", "std(id)"];
        let query = records.query().with_range(0..12);
        let groups = query.groups(&["label"], &asked).unwrap();
        assert_eq!(groups.len(), 2);
        let dog = groups.iter().find(|g| g.values == [Some("\"dog\"".to_owned())]).unwrap();
        let cat = groups.iter().find(|g| g.values == [Some("\"cat\"".to_owned())]).unwrap();
        let float = |text: &Option<String>| text.as_ref().unwrap().parse::<f64>().unwrap();
        assert_eq!((cat.count, dog.count), (4, 8));
        assert_eq!(cat.aggregates[0].as_deref(), Some("18"));
        assert_eq!(cat.aggregates[1].as_deref(), Some("\"record 0 — ünïcode\""));
        assert_eq!(cat.aggregates[2].as_deref(), Some("\"record 9 — ünïcode\""));
        assert_eq!(float(&cat.aggregates[3]), 4.5);
        assert!((float(&cat.aggregates[5]) - 11.25f64.sqrt()).abs() < 1e-12);
        let flags = |wanted: u64| {
            let has = |at: &u64| {
                at.is_multiple_of(3) == (wanted == 0) && value(*at).get("flag").is_some()
            };
            (0..12).filter(has).count().to_string()
        };
        assert_eq!(cat.aggregates[4], Some(flags(0)));
        assert_eq!(dog.aggregates[4], Some(flags(1)));
        // The columns are gathered, with the same result.
        let range = holdall::records::gather::RowSelection::Range(0..12);
        let counted = records.counted(&["label"], &asked, &range, &holdall::Work::new()).unwrap();
        assert_eq!(counted.finish(), groups);
        let none: [&str; 0] = [];
        let all = records.query().groups(&none, &["max(id)"]).unwrap();
        assert_eq!((all[0].count, all[0].aggregates[0].as_deref()), (COUNT, Some("499")));
        for (text, code) in [
            ("id", "records/aggregate"),
            ("median(id)", "records/aggregate"),
            ("sum(text)", "records/aggregate"),
            ("sum()", "records/aggregate"),
            ("min(tags)", "records/condition"),
            ("sum(nothing)", "schema/unknown-path"),
        ] {
            let e = records.groups(&none, &[text]).unwrap_err();
            assert_eq!((e.code(), e.tensor()), (code, Some("set")), "{text}");
        }
    });
}

#[test]
fn names_that_are_nearly_right_are_suggested() {
    everywhere(|records| {
        let near = |e: holdall::Error| match e.remedies() {
            [holdall::Remedy::DidYouMean { name }] => name.clone(),
            _ => e.hint().unwrap_or_default().to_owned(),
        };
        assert_eq!(near(records.condition("labl=cat").unwrap_err()), "label");
        assert_eq!(near(records.condition("label=cta").unwrap_err()), "cat");
        assert_eq!(
            near(records.condition("label=giraffe").unwrap_err()),
            "available: `cat`, `dog`"
        );
        assert_eq!(near(records.condition("shape=circel").unwrap_err()), "circle");
        assert_eq!(near(records.columns(&["txt"]).unwrap_err()), "text");
        let hint = near(records.accessor("zzzzzzzzzz").unwrap_err());
        assert!(hint.starts_with("available: `id`, `x`, "), "{hint}");
    });
}

#[test]
fn records_come_in_the_order_of_members() {
    everywhere(|records| {
        let places = |members: &[&str]| -> Vec<u64> {
            let query = records.query().with_range(0..12).with_order(members).unwrap();
            query.run().unwrap().map(|r| r.unwrap().index()).collect()
        };
        assert_eq!(places(&["-id"]), (0..12).rev().collect::<Vec<_>>());
        assert_eq!(places(&["label", "-x"]), [9, 6, 3, 0, 11, 10, 8, 7, 5, 4, 2, 1]);
        // Records without it come last in both orders, in their original order.
        assert_eq!(places(&["flag"])[..4], [4, 0, 8, 1]);
        assert_eq!(places(&["-flag"])[..4], [0, 8, 4, 1]);
        assert_eq!(places(&["shape", "id"])[..3], [0, 2, 4]);
        assert_eq!(places(&["text"])[..4], [0, 1, 10, 11]);
        for text in ["meta", "tags", "mask"] {
            assert_eq!(records.order(&[text]).unwrap_err().code(), "records/condition");
        }
        assert_eq!(records.order(&["nothing"]).unwrap_err().code(), "schema/unknown-path");
    });
}

#[test]
fn records_are_counted() {
    everywhere(|records| {
        let query = records.query();
        assert_eq!(query.count().unwrap(), COUNT);
        assert_eq!(query.clone().with_sample(7, 1).count().unwrap(), 7);
        assert_eq!(
            query.clone().with_condition("label=cat").unwrap().count().unwrap(),
            COUNT.div_ceil(3)
        );
        assert!(query.clone().with_range(1..COUNT + 1).count().is_err());
        let groups = query.clone().with_range(0..10).groups(&["label", "flag"], &[""; 0]).unwrap();
        let found: Vec<_> = groups.iter().map(|g| (g.values.clone(), g.count)).collect();
        let value = |label: &str, flag: Option<&str>| {
            vec![Some(format!("\"{label}\"")), flag.map(str::to_owned)]
        };
        assert_eq!(
            found,
            [
                (value("dog", None), 4),
                (value("cat", None), 3),
                (value("cat", Some("true")), 1),
                (value("dog", Some("false")), 1),
                (value("dog", Some("true")), 1),
            ]
        );
    });
}

#[test]
fn members_become_files() {
    everywhere(|records| {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("texts");
        let mut export = records.export("text", &folder).unwrap();
        let record = records.record(7).unwrap();
        assert_eq!(export.add(&record).unwrap().unwrap(), "007.txt");
        let found = std::fs::read_to_string(folder.join("007.txt")).unwrap();
        assert_eq!(found, "record 7 — ünïcode");
        let json: Value =
            serde_json::from_str(&export.json(&record, Some("007.txt")).unwrap()).unwrap();
        let mut wanted = value(7);
        wanted["text"] = "007.txt".into();
        assert_eq!(json, wanted);
        // Twice in one run, and over an existing file.
        assert_eq!(export.add(&record).unwrap_err().code(), "build/file-name");
        let mut again = records.export("text", &folder).unwrap();
        assert_eq!(again.add(&record).unwrap_err().code(), "write/exists");
        let mut again = records.export("text", &folder).unwrap().with_overwrite(true);
        again.add(&record).unwrap();
        let mut named = records
            .export("text", &folder)
            .unwrap()
            .with_names(records, "shape.named.name")
            .unwrap();
        assert_eq!(named.add(&record).unwrap().unwrap(), "n7.txt");
        // A record without the name.
        assert_eq!(named.add(&records.record(8).unwrap()).unwrap_err().code(), "build/file-name");
        assert_eq!(records.export("box", &folder).unwrap_err().code(), "records/file-member");
        let e = records.export("text", &folder).unwrap().with_names(records, "meta").unwrap_err();
        assert_eq!(e.code(), "records/file-member");
    });
}

/// Names come from files, which may come from anyone.
#[test]
fn names_that_lead_out_of_the_folder_are_refused() {
    let kind = serde_json::json!({"TypeDef:Struct": ["n", "b"], "required": ["n", "b"], "properties": {
        "n": {"TypeDef:String": true}, "b": {"TypeDef:Bytes": true}}});
    let names = ["../x", "/x", "", ".", "a/../../x", "a\\b", "a/", "a\0b", "..", "./x", "ok/x.png"];
    let values = names.iter().map(|n| serde_json::json!({"n": n, "b": "iVBORw0KGgo="}));
    let (data, heap) = records_files::encode(&kind, values);
    let parts = vec![("data", holdall::DType::U8, data), ("blob_data", holdall::DType::U8, heap)];
    let made = records_files::made("records", &kind.to_string(), names.len() as u64, parts);
    let file = write(&made, &WriteOptions::new());
    let records = open(&file, Io::Map).tensor("set").unwrap().records().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("in");
    let mut export = records.export("b", &folder).unwrap().with_names(&records, "n").unwrap();
    for at in 0..records.len() - 1 {
        let e = export.add(&records.record(at).unwrap()).unwrap_err();
        assert_eq!(e.code(), "build/file-name", "{}", names[at as usize]);
    }
    assert!(!folder.exists());
    export.add(&records.record(records.len() - 1).unwrap()).unwrap();
    assert!(folder.join("ok/x.png").exists());
    let mut export = records.export("b", &folder).unwrap();
    assert_eq!(export.add(&records.record(0).unwrap()).unwrap().unwrap(), "00.png");
}
