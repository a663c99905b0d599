//! A value of a schema is read back from its bytes, and bytes that are a record are read back from its JSON.

use crate::schemas::{compile, from_hex, limits, taken, test_vectors, value};
use crate::take::{Put, Take};
use holdall::json::parse;
use holdall::schema::{Checker, Encoder, Schema, Segment, TypeId};

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let mut take = Take::new(data);
    let json = taken(&mut take);
    let Some((schema, ty)) = compile(&json) else { return };
    let (record, heap) = (take.run(), take.run());
    let text = value(&mut take, &schema, ty);
    let Some((bytes, entries)) = encode(&schema, ty, &text) else { return };
    let shown = there_and_back(&schema, ty, &bytes, &entries).expect("it was written here");
    let again = encode(&schema, ty, &shown).expect("what was written here is exact");
    assert_eq!(again, (bytes, entries), "{text}\n{shown}");
    if take.below(4) == 1 {
        let value = parse(text.as_bytes(), 64).expect("it was written here");
        if let Ok(checker) = Checker::new(&schema, &json, &limits()) {
            match checker.one_record(value) {
                Ok(()) => {}
                Err(e) => assert_eq!(e.code(), "record/keyword", "{text}: {e}"),
            }
        }
    }
    // Any bytes.
    let size = schema.extent(ty).expect("it has one").size as usize;
    let record: Vec<u8> = record.iter().copied().chain([0]).cycle().take(size).collect();
    if let Some(shown) = there_and_back(&schema, ty, &record, heap) {
        let (record, heap) = encode(&schema, ty, &shown).expect("what was written here is exact");
        let again = there_and_back(&schema, ty, &record, &heap).expect("it was written here");
        let values = [&shown, &again].map(|text| parse(text.as_bytes(), usize::MAX).expect("JSON"));
        assert_eq!(values[0], values[1]);
    }
    accessors(&schema, ty, &record, heap);
}

/// Returns the bytes of JSON text that is a valid value, encoded as text and by value, which must agree. Returns `None`
/// if it has an integer that its kind would round.
fn encode(schema: &Schema, ty: TypeId, text: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    // An object in a record may nest as deeply as a record, and starts deeper.
    let limits = limits().with_depth(256);
    let mut encoder = Encoder::new(schema, ty, &limits).expect("it has a size");
    let (mut record, mut heap) = (vec![0xff; encoder.size()], Vec::new());
    if let Err(e) = encoder.text(text.as_bytes(), &mut record, &mut heap) {
        if e.code() == "record/range" && e.to_string().contains("cannot be represented exactly") {
            return None;
        }
        panic!("{e}: {text}");
    }
    let value = parse(text.as_bytes(), 256).expect("it is JSON");
    let (mut by_value, mut other) = (vec![0x55; encoder.size()], Vec::new());
    encoder.value(&value, &mut by_value, &mut other).expect("it is the same as text");
    // Members come in another order, so the heap may differ; the values do not.
    let values = [(&record, &heap), (&by_value, &other)].map(|(record, heap)| {
        let mut out = String::new();
        schema.record_text(ty, record, heap, &limits, &mut out).expect("it was written here");
        parse(out.as_bytes(), usize::MAX).expect("it is JSON")
    });
    assert_eq!(values[0], values[1]);
    Some((record, heap))
}

/// Returns the JSON of valid bytes, whatever way they are read.
fn there_and_back(schema: &Schema, ty: TypeId, record: &[u8], heap: &[u8]) -> Option<String> {
    let limits = limits();
    let checked = schema.check_record(ty, record, heap, &limits);
    let mut text = String::new();
    let shown = schema.record_text(ty, record, heap, &limits, &mut text);
    let codes = [&checked, &shown].map(|r| r.as_ref().err().map(|e| e.code()));
    assert_eq!(codes[0], codes[1]);
    match &shown {
        Ok(()) => Some(text),
        Err(e) => {
            crate::walk::is_of_the_file(e);
            None
        }
    }
}

/// Checks that every part of a record has its bytes, or breaks a rule.
fn accessors(schema: &Schema, ty: TypeId, record: &[u8], heap: &[u8]) {
    let limits = limits();
    for item in schema.layout(ty, &limits).expect("it has one").map_while(Result::ok) {
        let mut path = item.path;
        let places = path.0.iter_mut().filter(|s| **s == Segment::Each);
        places.for_each(|s| *s = Segment::Index(0));
        let part = schema.accessor(ty, &path).expect("it is laid out");
        let _ = part.elements(record, heap).map(|e| e.map(|e| e.iter().count()));
        let _ = (part.string(record, heap), part.bytes(record, heap), part.enum_value(record));
        let _ = (part.json(record, heap, &limits), part.variant(record));
        if let Ok(Some(raw)) = part.raw(record) {
            assert_eq!(raw, &record[part.offset()..part.offset() + part.size()]);
        }
    }
}

/// Returns vectors of records: their schemas, and bytes.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let dice: Vec<u8> = (0..64u8).map(|n| n.wrapping_mul(37)).collect();
    let mut all = Vec::new();
    for parts in test_vectors(file, &["schema", "record", "heap"]) {
        let mut put = Put::default();
        put.run(&parts[0]);
        put.run(&from_hex(&parts[1]));
        put.run(&from_hex(&parts[2]));
        all.push([&put.0[..], &dice[..]].concat());
    }
    for (at, parts) in test_vectors(file, &["schema"]).into_iter().enumerate() {
        let mut put = Put::default();
        // In addition, one that is derived from the same text.
        let rotated: Vec<u8> = parts[0].iter().rev().map(|b| b.wrapping_mul(59)).collect();
        put.run(if at % 2 == 0 { &parts[0] } else { &rotated });
        put.run(&dice[..16]);
        put.run(b"some bytes of a heap, 32 of them");
        all.push([&put.0[..], &dice[..]].concat());
    }
    all
}
