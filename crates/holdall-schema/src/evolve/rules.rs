//! What can stand between a file of one schema and a reader of another.

use crate::error::{Kind, Rule};

/// Every rule of evolution.
pub static RULES: &[&Rule] = &[&NO_DEFAULT, &NO_CONVERTER, &DROPS_MEMBER];

/// A required member without a value.
pub static NO_DEFAULT: Rule = Rule::new(
    "evolve/no-default",
    Kind::Misuse,
    "A required member that a file lacks, or may lack, has a `default` in the schema that it is read \
     with.",
)
.with_hint("give the member a `default`, make it optional, or say what it was called before");
/// A value that does not become another by itself.
pub static NO_CONVERTER: Rule = Rule::new(
    "evolve/no-converter",
    Kind::Misuse,
    "What a file has is what the schema it is read with has, or widens to it, or has a converter.",
);
/// A member that would be lost.
pub static DROPS_MEMBER: Rule = Rule::new(
    "evolve/drops-member",
    Kind::Misuse,
    "A migration leaves out members of a file only when told to.",
);
