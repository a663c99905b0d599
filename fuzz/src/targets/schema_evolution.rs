//! Compares two schemas, and checks that the result matches what a reader of such files finds (specification, 8.4.6).

use crate::schemas::{compile, edited, limits, taken, test_vectors, value};
use crate::take::{Put, Take};
use holdall::schema::{
    ChangeKind, Converters, Encoder, Resolution, ResolveOptions, Schema, Verdict, changes_json,
    diff, resolve,
};
use serde_json::{Value, json};

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let mut take = Take::new(data);
    let old = taken(&mut take);
    let new = match take.below(4) {
        0 => taken(&mut take),
        _ => edited(&mut take, &old),
    };
    headers(&old, &new);
    let (Some((writer, from)), Some((reader, to))) = (compile(&old), compile(&new)) else { return };
    let limits = limits();
    for (schema, json) in [(&writer, &old), (&reader, &new)] {
        assert_eq!(diff((schema, json), (schema, json), &limits).unwrap_or_default(), []);
        assert_eq!(diff(schema, schema, &limits).unwrap_or_default(), []);
    }
    let options = ResolveOptions::default().with_limits(limits.clone());
    let found = resolve(&writer, from, &reader, to, &options);
    let changes = diff((&writer, &old), (&reader, &new), &limits);
    if let Ok(changes) = &changes {
        let is_read = |c: &holdall::schema::Change| {
            c.verdict == Verdict::Compatible || c.what == ChangeKind::Removed
        };
        let is_convertible = changes.iter().all(is_read);
        changes_json(changes);
        // Differences of element counts and keywords concern values: the bytes can be read anyway.
        let of_bytes = diff(&writer, &reader, &limits).unwrap_or_default();
        let is_resolved = |c: &holdall::schema::Change| {
            is_read(c) || matches!(c.what, ChangeKind::Bounds | ChangeKind::Length)
        };
        match &found {
            Ok(_) => assert!(of_bytes.iter().all(is_resolved), "{old}\n{new}\n{changes:?}"),
            Err(e) if e.code().starts_with("evolve/") => {
                assert!(!is_convertible, "{old}\n{new}\n{e}")
            }
            // An invalid default, or an exceeded limit.
            Err(e) => assert!(!e.to_string().is_empty()),
        }
    }
    let Ok(resolution) = found else { return };
    let text = value(&mut take, &writer, from);
    let mut encoder = Encoder::new(&writer, from, &limits).expect("it has a size");
    let (mut record, mut heap) = (vec![0; encoder.size()], Vec::new());
    encoder.text(text.as_bytes(), &mut record, &mut heap).expect("it is a value");
    let migrated = migrate(&resolution, &reader, &record, &heap).expect("the record is sound");
    let shown = reader.record_value(to, &migrated.0, &migrated.1, &limits).expect("it is sound");
    if changes.is_ok_and(|c| c.is_empty()) {
        assert_eq!(writer.record_value(from, &record, &heap, &limits).expect("it is sound"), shown);
    }
    // Arbitrary bytes.
    let some = take.run();
    let record: Vec<u8> = some.iter().copied().chain([0]).cycle().take(record.len()).collect();
    let heap = take.run();
    let sound = writer.check_record(from, &record, heap, &limits);
    let migrated = migrate(&resolution, &reader, &record, heap);
    if let (Ok(()), Ok((record, heap))) = (sound, migrated) {
        reader.check_record(to, &record, &heap, &limits).expect("it was sound before");
    }
}

fn migrate(
    resolution: &Resolution,
    reader: &Schema,
    record: &[u8],
    heap: &[u8],
) -> holdall::Result<(Vec<u8>, Vec<u8>)> {
    let converters = Converters::new();
    let (mut out, mut entries) = (vec![0xee; resolution.to_size()], Vec::new());
    resolution.migrator(&converters)?.record(record, heap, &mut out, &mut entries)?;
    let ty = reader.record().expect("it is one of a record");
    assert_eq!(reader.extent(ty).expect("it has one").size as usize, out.len());
    Ok((out, entries))
}

/// Checks the schemas as headers: alone, and with such records in several places.
fn headers(old: &Value, new: &Value) {
    let limits = limits();
    let around = |record: &Value| {
        json!({"properties": {"a": record, "b": {"TypeDef:Tensor": {"dtype": "F32"}}},
               "additionalProperties": {"TypeDef:Array": true, "items": record}})
    };
    let all = [old.clone(), new.clone(), around(old), around(new)];
    let all: Vec<(Schema, &Value)> =
        all.iter().filter_map(|s| Some((Schema::compile(s, &limits).ok()?, s))).collect();
    for (old, old_json) in &all {
        assert_eq!(diff((old, *old_json), (old, *old_json), &limits).unwrap_or_default(), []);
        for (new, new_json) in &all {
            let _ = diff((old, *old_json), (new, *new_json), &limits);
            // The JSON of another schema must not cause a panic.
            let _ = diff((old, *new_json), (new, *old_json), &limits);
        }
    }
}

/// Returns the vectors of comparisons and of resolutions.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let pairs = [["old", "new"], ["writer", "reader"]].into_iter();
    for parts in pairs.flat_map(|keys| test_vectors(file, &keys)) {
        let mut put = Put::default();
        put.run(&parts[0]);
        put.u8(0);
        put.run(&parts[1]);
        all.push([&put.0[..], b"some bytes, of which numbers are taken"].concat());
    }
    for (at, parts) in test_vectors(file, &["schema"]).into_iter().enumerate() {
        let mut put = Put::default();
        let made: Vec<u8> = parts[0].iter().rev().map(|b| b.wrapping_mul(59)).collect();
        put.run(if at % 2 == 0 { &made } else { &parts[0] });
        put.u8(1);
        let dice = (0..96u8).map(|n| n.wrapping_mul(37).wrapping_add(at as u8));
        all.push(put.0.into_iter().chain(dice).collect());
    }
    all
}
