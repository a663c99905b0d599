//! What can be wrong with a schema, and with what is asked of one.

crate::error::rules! {
    /// Every rule of schemas.
    pub static RULES;

    /// No kind, two of them, or one that there is not.
    pub KIND: Malformed "schema/kind"
        "A node has at most one keyword that starts with `TypeDef:`. It names a kind, and its value is one that the kind allows.";
    /// A standard keyword that says something else than the kind.
    pub KEYWORD: Malformed "schema/keyword" "The standard keywords beside a kind agree with it.";
    /// An invalid alignment.
    pub ALIGN: Malformed "schema/align" "`align` is a power of two from 1 to 65536, or `natural`.";
    /// A `$ref` that leads out of the schema.
    pub REMOTE_REF: Malformed "schema/remote-ref"
        "A `$ref` is `#/$defs/` and a name; nothing is fetched.";
    /// A `$ref` that leads nowhere.
    pub MISSING_REF: Malformed "schema/missing-ref" "The target of a `$ref` is in `$defs`.";
    /// A `$ref` among keywords that say more.
    pub REF_SIBLINGS: Malformed "schema/ref-siblings"
        "Beside `$ref` there are only annotations, `$defs`, `$schema` and `$id`.";
    /// A kind in itself.
    pub CYCLE: Malformed "schema/cycle"
        "A node with a kind, or on the path to a reference, does not contain itself; a `$ref` does not lead to itself.";
    /// More bytes than 63 bits count.
    pub SIZE_OVERFLOW: Malformed "schema/size-overflow" "Sizes fit in 63 bits.";
    /// Over the limit of nodes.
    pub TOO_LARGE: Limit "schema/too-large"
        "A schema has at most `Limits::schema_nodes` nodes, and a question about its paths visits at most as many."
        remedies [RaiseLimit { limit: "schema_nodes", at_least: None }];
    /// Over the limit of nesting.
    pub DEPTH: Limit "schema/depth" "A schema nests at most `Limits::depth` levels deep."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// Not a JSON Schema.
    pub INVALID: Malformed "schema/invalid" "A schema is a JSON Schema of draft 2020-12.";
    /// A keyword that an older draft means something else by.
    pub DRAFT: Malformed "schema/draft"
        "A schema means the same by draft 2020-12 as by the draft that `$schema` names: 4, 6, 7, 2019-09 or 2020-12.";
    /// A keyword of the caller's that is taken already.
    pub OWN_KEYWORD: Misuse "schema/own-keyword"
        "A custom keyword has a name that neither JSON Schema nor this format uses."
        hint "for a custom kind, give the keyword another name, beside a kind that has the bytes";
    /// This build cannot check values.
    pub NOT_BUILT: Unsupported "schema/not-built"
        "Values are checked against the standard keywords of a schema by builds with the feature \
         `validate`."
        hint "use a build with the feature `validate`, which the command and the Python package \
              have by default";
    /// An enum without a list of different strings.
    pub ENUM: Malformed "schema/enum" "`enum` lists at least one string, and no string twice.";
    /// An array of what has no kind.
    pub ITEMS: Malformed "schema/items" "The `items` of an array with a kind have a kind.";
    /// Elements without bytes.
    pub ZERO_SIZE: Malformed "schema/zero-size" "The elements of an array take at least one byte.";
    /// A struct whose lists do not fit together.
    pub STRUCT: Malformed "schema/struct"
        "A struct lists each member once; each is in `properties` with a kind, and nothing else is \
         in `properties` or `required`.";
    /// A union without variants, or with unfit ones.
    pub UNION: Malformed "schema/union"
        "A union names its discriminator, and its `mapping` has at least one struct, none of which has a member of that name.";
    /// An invalid dtype or shape of a tensor.
    pub TENSOR: Malformed "schema/tensor"
        "A tensor's `dtype` is one of safetensors, its `shape` an array of counts, `null` and names \
         of symbols; in a record its elements fill whole bytes.";
    /// A tensor in a record of unknown size.
    pub OPEN_SHAPE: Malformed "schema/open-shape"
        "The dtype and shape of a tensor in a record are known, from the schema or from symbols.";
    /// A blob of unknown content.
    pub BLOB: Malformed "schema/blob"
        "The `content` of a blob is `utf-8`, `bytes`, `json` or a dtype of whole bytes.";
    /// A kind that cannot stand there.
    pub KIND_PLACE: Malformed "schema/kind-place" "A blob is a reference, not part of a record.";
    /// A condition on the way to references.
    pub REFERENCE_KEYWORD: Malformed "schema/reference-keyword"
        "Nodes without a kind on the path to a reference have only the keywords of section 6.2.";
    /// Not a path.
    pub PATH: Misuse "schema/path"
        "A path consists of names separated by dots, and of `[i]`; `.`, `[` and `\\` in a name are preceded by `\\`.";
    /// A path that leads nowhere.
    pub UNKNOWN_PATH: NotFound "schema/unknown-path" "A path leads to something that the schema has.";
    /// Nothing says which records, or there are none.
    pub WHICH_DATASET: Misuse "records/which-dataset"
        "An operation on records is given the path of a dataset, unless there is only one.";
    /// A number for a symbol that there is not.
    pub UNKNOWN_SYMBOL: NotFound "schema/unknown-symbol"
        "A number is given only for a symbol that is in a shape of the schema.";
}
