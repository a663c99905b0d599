//! Records by place, by condition and by chance, and their members as columns.

mod records_files;

use holdall::records::Sample;
use holdall::{Io, Records, TensorRecords as _, WriteOptions};
use records_files::{dataset, open, value, write};
use serde_json::Value;

const COUNT: u64 = 500;

/// The records of a file, mapped and read.
fn everywhere(test: impl Fn(&Records)) {
    let file = write(&dataset(COUNT), &WriteOptions::new());
    for io in [Io::Map, Io::Read] {
        test(&open(&file, io).tensor("set").unwrap().records().unwrap());
    }
}

#[test]
fn all_conditions_hold_of_what_is_found() {
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
        assert_eq!(places(1), Sample { count: 10, seed: 1 }.of(0..COUNT));
        // Of those for which a condition holds.
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
fn what_cannot_be_asked_is_refused() {
    everywhere(|records| {
        for (text, code) in [
            ("id=x", "records/condition"),
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
