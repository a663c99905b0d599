//! Any JSON is a schema or violates a rule. The items that a schema lays out are inside the record, do not overlap, and
//! are aligned.

use crate::schemas::{limits, test_vectors};
use crate::walk::is_of_the_file;
use holdall::json::parse;
use holdall::schema::{Checker, Kind, LayoutItem, Root, Schema, Segment, TypeId, diff};

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let limits = limits();
    let Ok(json) = parse(data, limits.depth) else { return };
    for compile in [Schema::compile, Schema::compile_record] {
        match compile(&json, &limits) {
            Ok(schema) => {
                match Checker::new(&schema, &json, &limits) {
                    Ok(checker) => drop(checker.one_record(json.clone())),
                    Err(e) => is_of_the_file(&e),
                }
                let changes = diff((&schema, &json), (&schema, &json), &limits);
                assert!(changes.as_ref().map_or(true, Vec::is_empty), "{changes:?}");
                if let Root::Record(ty) = schema.root() {
                    record(&schema, ty);
                }
            }
            Err(e) => is_of_the_file(&e),
        }
    }
}

fn record(schema: &Schema, ty: TypeId) {
    let limits = limits();
    let Ok(layout) = schema.layout(ty, &limits) else { return };
    let items: Vec<LayoutItem> = layout.map_while(Result::ok).collect();
    assert!(items.len() as u64 <= limits.nodes);
    let extent = schema.extent(ty).expect("it is laid out");
    for (at, item) in items.iter().enumerate() {
        assert!(item.range.start <= item.range.end && item.range.end <= extent.size, "{item:?}");
        assert!(item.align.is_power_of_two());
        let len = item.range.end - item.range.start;
        assert_eq!(item.stride, len.next_multiple_of(u64::from(item.align)), "{item:?}");
        let read = item.path.to_string().parse().ok();
        assert_eq!(read.as_ref(), Some(&item.path));
        let depth = item.path.0.len();
        if depth > 0 {
            let parent = items[..at].iter().rev().find(|p| p.path.0.len() == depth - 1);
            inside(schema, parent.expect("parents come before"), item);
            // The items between this one and its parent: this one, and its siblings.
            let beside = items[..at].iter().rev().take_while(|p| p.path.0.len() >= depth);
            let is_struct = matches!(schema.ty(parent.expect("one").ty).kind, Kind::Struct(_));
            for other in beside.filter(|o| is_struct && o.path.0.len() == depth) {
                assert!(other.range.end <= item.range.start, "{other:?} {item:?}");
                assert!(item.presence.is_none() || other.presence != item.presence);
            }
        }
        let mut path = item.path.clone();
        let places = path.0.iter_mut().filter(|s| **s == Segment::Each);
        places.for_each(|s| *s = Segment::Index(0));
        match schema.accessor(ty, &path) {
            Ok(accessor) => {
                assert_eq!(accessor.offset() as u64, item.range.start);
                assert_eq!(accessor.size() as u64, len);
            }
            // The size of elements in the heap is unknown, as they are not laid out here.
            Err(e) => assert_eq!(e.code(), "schema/open-shape", "{}", item.path),
        }
    }
}

fn inside(schema: &Schema, parent: &LayoutItem, item: &LayoutItem) {
    assert_eq!(&item.path.0[..parent.path.0.len()], &parent.path.0[..]);
    let (outer, inner) = (&parent.range, &item.range);
    assert!(outer.start <= inner.start && inner.end <= outer.end, "{parent:?} {item:?}");
    let ty = schema.ty(parent.ty);
    let start = inner.start - outer.start;
    match &ty.kind {
        Kind::Struct(fields) => {
            let align = u64::from(item.align.min(ty.align));
            assert!(start.is_multiple_of(align), "{parent:?} {item:?}");
            assert!(start >= u64::from(fields.presence_len) && fields.presence_len <= 1 << 20);
            if let Some(bit) = item.presence {
                let own = outer.start..outer.start + u64::from(fields.presence_len);
                assert!(own.contains(&bit.byte) && bit.bit < 8, "{item:?}");
            }
        }
        Kind::Union(union) => {
            assert!(start.is_multiple_of(u64::from(item.align)));
            assert!(start >= u64::from(union.width.bytes()));
        }
        Kind::Array(_) => assert_eq!(start, 0),
        other => panic!("a {} contains no items", other.as_str()),
    }
}

/// Returns the schemas of vectors.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let keys: [&[&str]; 3] = [&["schema"], &["new"], &["reader"]];
    keys.iter().flat_map(|keys| test_vectors(file, keys)).flatten().collect()
}
