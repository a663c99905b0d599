use super::*;
use crate::encode::{ComponentRef, ComponentSpec, Stored, TensorSpec};
use crate::model::{Encoding, Value};
use std::sync::Arc;

fn dense(name: &str, dtype: DType, shape: &[u64]) -> TensorSpec {
    let mut spec = TensorSpec::dense(name, dtype, shape);
    spec.attributes.set("unit", Value::Text("m".into()));
    spec
}

/// Returns a model with attributes, two tied tensors, groups and a digest.
fn tensors() -> Vec<TensorSpec> {
    let (mut b, mut q) = (dense("b", DType::F32, &[2, 3]), dense("q", DType::I32, &[8]));
    b.components[0].shares = Some(ComponentRef { tensor: "a".into(), role: Role::Data });
    q.layout = Layout::QuantizedGroup;
    q.components[0].role = Role::PackedWeight;
    q.components.push(ComponentSpec::new(Role::Scales, DType::F32, 8));
    q.attributes.set("bits", Value::Integer(4));
    vec![dense("a", DType::F32, &[2, 3]), b, q]
}

fn attributes() -> Attributes {
    Attributes::from_iter([("note".to_owned(), Value::Text("kept".into()))])
}

fn record_of(specs: &[TensorSpec], digest: Option<&Digest>) -> Record {
    let mut record = Record::new(Some(attributes()));
    let mut end = 0;
    for spec in specs {
        let spec = Arc::new(spec.clone());
        record.add(Arc::clone(&spec));
        for (at, c) in spec.components.iter().enumerate() {
            let start = if c.shares.is_some() { 0 } else { end };
            let range = start..start + c.decoded_len;
            end = end.max(range.end);
            let stored = Stored { range, encoding: Encoding::Raw, digest: digest.cloned() };
            record.store(&spec, at, &stored);
        }
    }
    record
}

fn close(source: &Record, target: &Record, expected: &Expected) -> Ledger {
    compare(Side::Record(source), Side::Record(target), expected)
}

fn unaccounted(change: impl FnOnce(&mut Vec<TensorSpec>)) -> Vec<Loss> {
    let source = record_of(&tensors(), None);
    let mut specs = tensors();
    change(&mut specs);
    let ledger = close(&source, &record_of(&specs, None), &Expected::new());
    assert_eq!(ledger.left_behind, []);
    assert_eq!(ledger.check().is_err(), !ledger.unaccounted.is_empty());
    ledger.unaccounted
}

#[test]
fn unchanged_items_are_accounted_for() {
    assert_eq!(unaccounted(|_| {}), []);
    // In another order, with more.
    let more = |specs: &mut Vec<TensorSpec>| {
        specs.swap(0, 2);
        specs.push(dense("z", DType::U8, &[1]));
        specs[0].attributes.set("more", Value::Null);
    };
    // Ties are compared by byte ranges, which are different now.
    let lost = unaccounted(more);
    assert_eq!(lost, [Loss::in_tensor("b", LossKind::Tie("a".into()))]);
}

#[test]
fn each_item_that_is_dropped_is_found() {
    type Drops = fn(&mut Vec<TensorSpec>);
    let cases: [(LossKind, &str, Drops); 8] = [
        (LossKind::Tensor, "q", |specs| drop(specs.pop())),
        (LossKind::Attribute("unit".into()), "a", |specs| drop(specs[0].attributes.remove("unit"))),
        (LossKind::Attribute("bits".into()), "q", |specs| {
            specs[2].attributes.set("bits", Value::Integer(8));
        }),
        (LossKind::Component(Role::Scales), "q", |specs| drop(specs[2].components.pop())),
        (LossKind::Shape, "a", |specs| specs[0].shape = vec![3, 2]),
        (LossKind::ElementType("f32".into()), "a", |specs| {
            specs[0].components[0].dtype = DType::I32
        }),
        (LossKind::Layout("quantized_group".into()), "q", |specs| {
            specs[2].layout = Layout::from_name("other");
        }),
        (LossKind::Tie("a".into()), "b", |specs| specs[1].components[0].shares = None),
    ];
    for (lost, tensor, change) in cases {
        assert_eq!(unaccounted(change), [Loss::in_tensor(tensor, lost)]);
    }
    let mut other = record_of(&tensors(), None);
    other.set_attributes(Some(Attributes::new()));
    let ledger = close(&record_of(&tensors(), None), &other, &Expected::new());
    assert_eq!(ledger.unaccounted, [Loss::new(LossKind::FileAttribute("note".into()))]);
    let e = ledger.check().unwrap_err();
    assert_eq!((e.code(), e.message().contains("`note`")), (LEDGER.code, true), "{e}");
}

#[test]
fn requested_changes_are_no_loss() {
    let mut specs = tensors();
    specs.pop();
    specs[0].name = "c".into();
    specs[1].components[0].shares = Some(ComponentRef { tensor: "c".into(), role: Role::Data });
    specs[1].attributes.remove("unit");
    let mut expected = Expected::new();
    expected.tensor("a").name = Some("c".into());
    expected.tensor("b").attributes.push("unit".into());
    expected.tensor("q").left_out = true;
    let source = record_of(&tensors(), None);
    let ledger = close(&source, &record_of(&specs, None), &expected);
    assert_eq!((ledger.unaccounted, ledger.left_behind), (vec![], vec![]));

    // A cast to a type other than the requested one is a loss.
    specs[0].components[0].dtype = DType::I32;
    expected.tensor("a").element_type = Some((DType::F32, None));
    let ledger = close(&source, &record_of(&specs, None), &expected);
    assert_eq!(ledger.unaccounted, [Loss::in_tensor("a", LossKind::ElementType("f32".into()))]);
}

#[test]
fn parameters_go_with_their_layout_and_attributes_stay() {
    let mut specs = tensors();
    let mut dense = dense("q", DType::F32, &[8]);
    let mut expected = Expected::new();
    expected.tensor("q").layout = true;
    specs[2] = dense.clone();
    let source = record_of(&tensors(), None);
    let ledger = close(&source, &record_of(&specs, None), &expected);
    assert_eq!((ledger.unaccounted, ledger.left_behind), (vec![], vec![]));

    dense.attributes.remove("unit");
    specs[2] = dense;
    let ledger = close(&source, &record_of(&specs, None), &expected);
    assert_eq!(ledger.unaccounted, [Loss::in_tensor("q", LossKind::Attribute("unit".into()))]);
    expected.drop_attributes();
    let ledger = close(&source, &record_of(&specs, None), &expected);
    assert_eq!(ledger.check().unwrap(), ["the attribute `unit` of tensor `q`"]);
}

#[test]
fn weaker_digests_are_reported_as_lost() {
    let (sha, crc) = (Digest::Sha256([0; 32]), Digest::Crc32(1));
    let left = |old: &Digest, new: Option<&Digest>, expected: &Expected| {
        let (old, new) = (record_of(&tensors(), Some(old)), record_of(&tensors(), new));
        close(&old, &new, expected).check().unwrap()
    };
    let nothing = Expected::new();
    assert_eq!(left(&sha, Some(&sha), &nothing), [""; 0]);
    assert_eq!(left(&crc, Some(&Digest::Xxh3(1)), &nothing), [""; 0]);
    assert_eq!(left(&sha, Some(&crc), &nothing), ["the sha256 digests of 4 components"]);
    assert_eq!(left(&crc, None, &nothing), ["the crc32 digests of 4 components"]);
    let mut asked = Expected::new();
    asked.choose_digests();
    assert_eq!(left(&sha, None, &asked), [""; 0]);
}

#[test]
fn ties_follow_the_tie_rule() {
    let mut specs = tensors();
    specs[1].components[0].shares = None;
    let (source, target) = (record_of(&tensors(), None), record_of(&specs, None));
    let with = |rule| {
        let mut expected = Expected::new();
        expected.set_ties(rule);
        close(&source, &target, &expected)
    };
    assert_eq!(with(TieRule::KeepWhole).unaccounted.len(), 1);
    assert_eq!(with(TieRule::Asked).left_behind, []);
    let left = with(TieRule::Leave).check().unwrap();
    assert_eq!(left, ["that tensor `b` shares the bytes of `a`"]);
}
