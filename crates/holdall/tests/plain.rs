//! Reports as plain data, and as the JSON that the command prints.

use holdall::plain::{Plain, ToPlain, hint};
use holdall::{Error, Number, Value, Work, fields};

struct Report {
    len: u64,
    name: Option<String>,
    ratio: f64,
    pairs: Vec<(u64, Option<u64>)>,
}

impl ToPlain for Report {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => name, len, twice: self.len * 2, ratio, pairs)
    }
}

fn text(plain: Plain<'_>) -> String {
    plain.to_json(hint)
}

#[test]
fn fields_stand_in_the_order_in_which_they_are_named() {
    let report =
        Report { len: 3, name: None, ratio: f64::NAN, pairs: vec![(1, None), (2, Some(4))] };
    let json =
        r#"{"name":null,"len":3,"twice":6,"ratio":{"$float":"nan"},"pairs":[[1,null],[2,4]]}"#;
    assert_eq!(text(report.to_plain()), json);
    let more = report.to_plain().without("ratio").without("pairs").and(fields!(a: "\"\n"));
    assert_eq!(text(more), r#"{"name":null,"len":3,"twice":6,"a":"\"\n"}"#);
    assert_eq!(text(Plain::list(Vec::<u64>::new())), "[]");
    assert_eq!(text(Plain::Object(Vec::new())), "{}");
}

#[test]
fn elements_attributes_and_errors_have_the_forms_of_the_command() {
    let numbers = [Number::Integer(-7), Number::Float(0.5), Number::Complex(1.0, -2.0)];
    assert_eq!(text(Plain::from(&numbers[..])), "[-7,0.5,[1.0,-2.0]]");
    assert_eq!(text(Value::Bytes(vec![1]).to_plain()), Value::Bytes(vec![1]).to_json());
    let cancel = holdall::Cancel::new();
    cancel.cancel();
    let e: Error = Work::new().with_cancel(&cancel).check().unwrap_err();
    let e = e.in_tensor("w").at(1..3);
    assert_eq!(
        text(e.to_plain()),
        r#"{"kind":"io","code":"work/cancelled","message":"the operation was cancelled","source":null,"tensor":"w","component":null,"range":[1,3],"hint":null,"remedies":[]}"#
    );
}
