//! Every rule of the format.

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// A key that cannot be a part of a name.
    pub KEY: Malformed "flax/key" "A file is a map or a list, and the keys of maps are UTF-8 strings or integers, each used once.";
    /// An invalid array.
    pub ARRAY: Malformed "flax/array"
        "An array is a list of its shape, without negative dimensions, the name of its type, and its bytes.";
    /// An element type that is not known.
    pub ELEMENT_TYPE: Unsupported "flax/element-type"
        "The elements of an array have a known type of NumPy or JAX with 8 bits or more."
        remedies [LeaveOut];
    /// Chunks that do not form an array.
    pub CHUNKS: Malformed "flax/chunks"
        "A chunked array has its mark first, then its shape, then its chunks in order: all of one type, with as many elements together as the shape.";
    /// Maps and lists are nested too deep.
    pub DEPTH: Limit "flax/depth" "Maps and lists nest at most `Limits::depth` deep."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// Too many values or names besides the arrays.
    pub TOO_MANY: Limit "flax/too-many-values"
        "Names take at most `Limits::header_len` bytes together, a string at most `Limits::text_len`, and there are at most `Limits::attribute_values` values that are not arrays."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
}
