//! Rules about schemas and operations on them.

crate::error::rules! {
    /// Every rule of schemas.
    pub static RULES;

    /// No kind, two kinds, or an unknown one.
    pub KIND: Malformed "schema/kind"
        "A node has at most one keyword that starts with `TypeDef:`. It names a kind, and its value is one that the kind allows.";
    /// A standard keyword that contradicts the kind.
    pub KEYWORD: Malformed "schema/keyword" "The standard keywords next to a kind agree with it.";
    /// An invalid alignment.
    pub ALIGN: Malformed "schema/align" "`align` is a power of two from 1 to 65536, or `natural`.";
    /// A `$ref` to something outside of the schema.
    pub REMOTE_REF: Malformed "schema/remote-ref"
        "A `$ref` is `#/$defs/` and a name; nothing is fetched.";
    /// A `$ref` without a target.
    pub MISSING_REF: Malformed "schema/missing-ref" "The target of a `$ref` is in `$defs`.";
    /// A `$ref` next to keywords that are not allowed there.
    pub REF_SIBLINGS: Malformed "schema/ref-siblings"
        "Only annotations, `$defs`, `$schema` and `$id` are allowed next to `$ref`.";
    /// A kind that contains itself.
    pub CYCLE: Malformed "schema/cycle"
        "A node with a kind, or on the path to a reference, does not contain itself; a `$ref` does not refer to itself.";
    /// A size that exceeds 63 bits.
    pub SIZE_OVERFLOW: Malformed "schema/size-overflow" "Sizes fit in 63 bits.";
    /// More nodes than the limit.
    pub TOO_LARGE: Limit "schema/too-large"
        "A schema has at most `Limits::schema_nodes` nodes, and an operation on its paths visits at most as many."
        remedies [RaiseLimit { limit: "schema_nodes", at_least: None }];
    /// Nested more deeply than the limit.
    pub DEPTH: Limit "schema/depth" "A schema nests at most `Limits::depth` levels deep."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// Not a JSON Schema.
    pub INVALID: Malformed "schema/invalid" "A schema is a JSON Schema of draft 2020-12.";
    /// A keyword with another meaning in the declared draft than in 2020-12.
    pub DRAFT: Malformed "schema/draft"
        "A schema has the same meaning in draft 2020-12 as in the draft that `$schema` names: 4, 6, 7, 2019-09 or 2020-12.";
    /// A custom keyword that already has a meaning.
    pub OWN_KEYWORD: Misuse "schema/own-keyword"
        "A custom keyword has a name that neither JSON Schema nor this format uses."
        hint "for a custom kind, give the keyword another name, and put it next to a kind that defines the bytes";
    /// A build without the feature `validate`, which checks values.
    pub NOT_BUILT: Unsupported "schema/not-built"
        "Values are checked against the standard keywords of a schema by builds with the feature \
         `validate`."
        hint "use a build with the feature `validate`, which the command and the Python package \
              have by default";
    /// An enum without a list of distinct strings.
    pub ENUM: Malformed "schema/enum" "`enum` lists at least one string, and no string twice.";
    /// An array with a kind whose items have no kind.
    pub ITEMS: Malformed "schema/items" "The `items` of an array with a kind have a kind.";
    /// Elements of zero bytes.
    pub ZERO_SIZE: Malformed "schema/zero-size" "The elements of an array take at least one byte.";
    /// A struct whose lists of members do not agree.
    pub STRUCT: Malformed "schema/struct"
        "A struct lists each member once; each is in `properties` with a kind, and nothing else is \
         in `properties` or `required`.";
    /// A union without variants, or with invalid ones.
    pub UNION: Malformed "schema/union"
        "A union names its discriminator, and its `mapping` has at least one struct, none of which has a member of that name.";
    /// An invalid dtype or shape of a tensor.
    pub TENSOR: Malformed "schema/tensor"
        "A tensor's `dtype` is a dtype of safetensors, and its `shape` is an array of counts, `null` and names \
         of symbols; in a record its elements fill whole bytes.";
    /// A tensor in a record whose size is not known.
    pub OPEN_SHAPE: Malformed "schema/open-shape"
        "The dtype and shape of a tensor in a record are known, from the schema or from symbols.";
    /// A blob of unknown content.
    pub BLOB: Malformed "schema/blob"
        "The `content` of a blob is `utf-8`, `bytes`, `json` or a dtype of whole bytes.";
    /// A kind that is not allowed at this node.
    pub KIND_PLACE: Malformed "schema/kind-place" "A blob is a reference, not part of a record.";
    /// A keyword that is not allowed on the path to a reference.
    pub REFERENCE_KEYWORD: Malformed "schema/reference-keyword"
        "Nodes without a kind on the path to a reference have only the keywords of section 6.2.";
    /// An invalid path.
    pub PATH: Misuse "schema/path"
        "A path consists of names separated by dots, and of `[i]`; `.`, `[` and `\\` in a name are preceded by `\\`.";
    /// A path that does not exist.
    pub UNKNOWN_PATH: NotFound "schema/unknown-path" "A path exists in the schema.";
    /// No dataset, or several without a choice.
    pub WHICH_DATASET: Misuse "records/which-dataset"
        "An operation on records is given the path of a dataset, unless there is only one.";
    /// A number for an unknown symbol.
    pub UNKNOWN_SYMBOL: NotFound "schema/unknown-symbol"
        "A number is given only for a symbol that occurs in a shape of the schema.";
}
