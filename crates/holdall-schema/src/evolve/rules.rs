//! Rules about reading a file of one schema with another schema.

crate::error::rules! {
    /// Every rule of evolution.
    pub static RULES;

    /// A required member without a value or default.
    pub NO_DEFAULT: Misuse "evolve/no-default"
        "A required member that the file lacks, or may lack, has a `default` in the schema that the file is read with."
        hint "give the member a `default`, make it optional, or declare its old name";
    /// A value that cannot be converted without a converter.
    pub NO_CONVERTER: Misuse "evolve/no-converter"
        "Every value in the file fits the schema that it is read with: unchanged, widened, or through a converter.";
    /// An unknown converter.
    pub CONVERTER: Misuse "evolve/converter"
        "A converter has a known name and the arguments that it requires."
        hint "`cast`, `round`, `scale(K)`, `offset(K)`, `clamp(MIN,MAX)`, `map(OLD=NEW,…)`, `parse`, \
              `text`, `split(SEP)`, `join(SEP)`, `member(NAME)`, `const(VALUE)`, `reshape`; several \
              with `|` between them";
    /// A value that a converter does not accept, or that the new schema does not allow.
    pub VALUE: Misuse "evolve/value"
        "A converter gets values that it accepts, and produces values that the new schema allows.";
    /// A member that would be left out.
    pub DROPS_MEMBER: Misuse "evolve/drops-member"
        "A migration drops members of a file only if the caller allows it.";
}
