//! Tensors are found by name, whatever their order.

use holdall_core::{
    ByteOrder, Component, DType, Encoding, IndexBuilder, Layout, Limits, Result, Role,
};
use proptest::prelude::*;

/// Returns an index of empty tensors with these names.
fn index(names: &[String]) -> Result<holdall_core::Index> {
    let mut builder = IndexBuilder::new("test", "", 8, 0..8, &Limits::default());
    for name in names {
        builder.tensor(name, &[0], Layout::Dense)?;
        builder.component(Component {
            role: Role::Data,
            dtype: DType::U8,
            logical_type: None,
            encoding: Encoding::Raw,
            byte_order: ByteOrder::Little,
            stored: (0..0).into(),
            decoded_len: None,
            digest: None,
        })?;
    }
    builder.finish()
}

proptest! {
    /// Names made of few characters, including NUL, so that many share a prefix or are equal.
    #[test]
    fn names_are_found_and_duplicates_refused(
        names in prop::collection::vec("(layers\\.)?[ab\0é]{0,12}", 0..40),
    ) {
        let mut sorted = names.clone();
        sorted.sort();
        let is_unique = sorted.windows(2).all(|pair| pair[0] != pair[1]);
        match index(&names) {
            Ok(index) => {
                prop_assert!(is_unique);
                for (at, name) in names.iter().enumerate() {
                    prop_assert_eq!(index.position(name), Some(at));
                    let info = index.get(name).unwrap();
                    prop_assert_eq!(info.name(), name);
                    let longer = format!("{name}\0");
                    prop_assert_eq!(index.position(&longer).is_some(), names.contains(&longer));
                }
                prop_assert_eq!(index.names().collect::<Vec<_>>(), names);
            }
            Err(e) => {
                prop_assert_eq!(e.code(), "index/duplicate-name");
                prop_assert!(!is_unique);
            }
        }
    }
}
