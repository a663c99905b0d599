//! Schemas of records: what they are made of, where their bytes lie, and how one schema becomes another.

pub use holdall_schema::calendar::{date_of, day_of};
pub use holdall_schema::code::{Lang, code};
pub use holdall_schema::record::{Null, Unknown};
pub use holdall_schema::{
    Accessor, AdditionalMembers, Align, Array, Base, Bump, Chain, Change, Checker, Column, Content,
    Convert, Converters, Dim, Document, StepKind, Elements, Encoder, Entry, Enum, Extent, Filled, Heap,
    InferOptions, Inference, KIND_ATTRIBUTE, HeapDefaults, Kind, LayoutItem, Len, Member, MemberStep,
    Migrator, Node, NodeId, Object, Outline, OutlineRow, ConversionInput, Path, PlaceWidth, Presence,
    PresenceBit, Property, ReadScalar, Reading, RecordLayout, Resolution, ResolveOptions, Root,
    SCHEMA_ATTRIBUTE, Scalar, Schema, SchemaLimits, Segment, Side, Struct, Symbols, TensorDType,
    TensorType, RowPresence, Type, TypeId, Typed, Union, VALUES_ATTRIBUTE, Values, Variant, Verdict,
    Vocabulary, ChangeKind, Width, by_value, changes_json, def_name, diff, normal, record_kind, resolve,
    write_name,
};

/// Rules of records that callers compare errors with.
pub mod rules {
    pub use holdall_schema::evolve::rules::DROPS_MEMBER;
    pub use holdall_schema::record::rules::{
        ACCESS, ENUM_INDEX, LENGTH, TOO_LARGE, UNION_TAG, UTF8,
    };
}
