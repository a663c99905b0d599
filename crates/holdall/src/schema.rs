//! Schemas of records: their types, the offsets of members, and conversion from one schema to another.

pub use holdall_schema::calendar::{date_of, day_of};
pub use holdall_schema::code::{Lang, code};
pub use holdall_schema::record::{InputInteger, InputNumber, Null, RecordInput, Unknown};
pub use holdall_schema::{
    Accessor, AdditionalMembers, Align, Array, Base, Bump, Chain, Change, ChangeKind, Checker,
    Column, Content, ConversionInput, Convert, Converters, Dim, Document, Elements, Encoder, Entry,
    Enum, Extent, Filled, Heap, HeapDefaults, IndexWidth, InferOptions, Inference, Kind,
    LayoutItem, Len, Member, MemberStep, Migrator, Node, NodeId, Object, Outline, OutlineRow, Path,
    Presence, PresenceBit, Property, ReadScalar, Reading, RecordLayout, Resolution, ResolveOptions,
    Root, RowPresence, SCHEMA_ATTRIBUTE, Scalar, Schema, SchemaLimits, Segment, Side, StepKind,
    Struct, Symbols, TENSOR_SCHEMA_ATTRIBUTE, TensorDType, TensorType, Type, TypeId, Typed, Union,
    VALUES_ATTRIBUTE, Values, Variant, Verdict, Vocabulary, Width, by_value, changes_json,
    def_name, diff, normalize, record_schema, resolve, write_name,
};

/// Rules of records that callers compare errors with.
pub mod rules {
    pub use holdall_schema::evolve::rules::DROPS_MEMBER;
    pub use holdall_schema::record::rules::{
        ACCESS, ENUM_INDEX, LENGTH, TOO_LARGE, UNION_TAG, UTF8,
    };
}
