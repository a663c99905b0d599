//! What can stand between a file of one schema and a reader of another.

crate::error::rules! {
    /// Every rule of evolution.
    pub static RULES;

    /// A required member without a value.
    pub NO_DEFAULT: Misuse "evolve/no-default"
        "A required member that a file lacks, or may lack, has a `default` in the schema that it is \
         read with."
        hint "give the member a `default`, make it optional, or say what it was called before";
    /// A value that does not become another by itself.
    pub NO_CONVERTER: Misuse "evolve/no-converter"
        "What a file has is what the schema it is read with has, or widens to it, or has a \
         converter.";
    /// A member that would be lost.
    pub DROPS_MEMBER: Misuse "evolve/drops-member"
        "A migration leaves out members of a file only when told to.";
}
