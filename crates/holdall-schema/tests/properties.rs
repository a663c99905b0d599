//! Properties of every schema and every record.

use crate::generators::{Dice, noise, schema, value};
use holdall_schema::{Encoder, Kind, Schema, SchemaLimits, Segment};
use proptest::prelude::*;

fn limits() -> SchemaLimits {
    SchemaLimits::default().with_nodes(5000)
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 200, failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn parts_lie_apart_inside_of_their_record(schema in schema()) {
        let schema = Schema::compile_record(&schema, &limits());
        prop_assume!(schema.is_ok());
        let schema = schema.unwrap();
        let ty = schema.record().unwrap();
        let extent = schema.extent(ty).unwrap();
        prop_assert!(extent.stride.is_multiple_of(u64::from(extent.align)));
        let items: Vec<_> = schema.layout(ty, &limits()).unwrap().collect();
        let items: Vec<_> = items.into_iter().map_while(Result::ok).collect();
        for (at, item) in items.iter().enumerate() {
            prop_assert!(item.range.start <= item.range.end && item.range.end <= extent.size);
            let depth = item.path.0.len();
            if depth == 0 {
                continue;
            }
            // The parent is the nearest item before it whose path is one segment shorter.
            let parent = items[..at].iter().rev().find(|p| p.path.0.len() == depth - 1).unwrap();
            prop_assert_eq!(&parent.path.0[..], &item.path.0[..depth - 1]);
            prop_assert!(parent.range.start <= item.range.start && item.range.end <= parent.range.end);
            if let Some(bit) = item.presence {
                prop_assert!((parent.range.start..item.range.start + 1).contains(&bit.byte));
            }
            let Kind::Struct(fields) = &schema.ty(parent.ty).kind else { continue };
            let first = parent.range.start + u64::from(fields.presence_len);
            prop_assert!(item.range.start >= first);
            let align = u64::from(item.align.min(schema.ty(parent.ty).align));
            prop_assert!((item.range.start - parent.range.start).is_multiple_of(align));
            // Members are in order: none starts before the previous one ends.
            let before = items[..at].iter().rev().take_while(|p| p.path.0.len() >= depth);
            for sibling in before.filter(|s| s.path.0.len() == depth) {
                prop_assert!(sibling.range.end <= item.range.start, "{} {}", sibling.path, item.path);
            }
        }
    }

    #[test]
    fn records_come_back_from_their_bytes(schema in schema(), dice in prop::collection::vec(any::<u64>(), 1..60)) {
        let schema = Schema::compile_record(&schema, &limits());
        prop_assume!(schema.is_ok());
        let schema = schema.unwrap();
        let ty = schema.record().unwrap();
        let json = value(&schema, ty, &mut Dice(dice.iter().cycle()));
        let mut encoder = Encoder::new(&schema, ty, &limits()).unwrap();
        let (mut record, mut heap) = (vec![0xff; encoder.size()], Vec::new());
        encoder.value(&json, &mut record, &mut heap).unwrap();
        schema.check_record(ty, &record, &heap, &limits()).unwrap();
        let mut text = String::new();
        schema.record_text(ty, &record, &heap, &limits(), &mut text).unwrap();
        // From text, members are in the order of their names, so entries may be at other positions in the heap.
        let (mut record2, mut heap2) = (vec![0; encoder.size()], Vec::new());
        encoder.text(text.as_bytes(), &mut record2, &mut heap2).unwrap();
        let mut text2 = String::new();
        schema.record_text(ty, &record2, &heap2, &limits(), &mut text2).unwrap();
        prop_assert_eq!(&text, &text2);
        if heap.is_empty() {
            prop_assert_eq!(&record, &record2);
        }
        // Written in the order in which it was read, the record has exactly the same bytes.
        let (mut record3, mut heap3) = (vec![0; encoder.size()], Vec::new());
        encoder.text(text2.as_bytes(), &mut record3, &mut heap3).unwrap();
        prop_assert_eq!((record2, heap2), (record3, heap3));
    }

    #[test]
    fn any_bytes_are_a_record_or_break_a_rule(schema in schema(), noise in prop::collection::vec(any::<u8>(), 1..64), heap in prop::collection::vec(any::<u8>(), 0..64)) {
        let schema = Schema::compile_record(&schema, &limits());
        prop_assume!(schema.is_ok());
        let schema = schema.unwrap();
        let ty = schema.record().unwrap();
        let size = schema.extent(ty).unwrap().size as usize;
        let record: Vec<u8> = noise.iter().cycle().take(size).copied().collect();
        let checked = schema.check_record(ty, &record, &heap, &limits());
        let shown = schema.record_value(ty, &record, &heap, &limits());
        prop_assert_eq!(checked.map_err(|e| e.code()).err(), shown.map_err(|e| e.code()).err());
        for item in schema.layout(ty, &limits()).unwrap().map_while(Result::ok) {
            let mut path = item.path.clone();
            for segment in &mut path.0 {
                if *segment == Segment::Each {
                    *segment = Segment::Index(0);
                }
            }
            let accessor = schema.accessor(ty, &path).unwrap();
            prop_assert_eq!(accessor.offset() as u64, item.range.start);
            let _ = accessor.raw(&record);
            let _ = accessor.elements(&record, &heap);
            let _ = accessor.string(&record, &heap);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

    #[test]
    fn any_json_is_a_schema_or_breaks_a_rule(schema in noise()) {
        let limits = SchemaLimits::default().with_nodes(200);
        let _ = Schema::compile(&schema, &limits);
        if let Ok(schema) = Schema::compile_record(&schema, &limits) {
            let ty = schema.record().unwrap();
            if let Ok(layout) = schema.layout(ty, &limits) {
                prop_assert!(layout.count() <= 201);
            }
        }
    }
}
