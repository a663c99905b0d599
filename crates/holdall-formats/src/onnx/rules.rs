//! Every rule of the format.

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// No graph, or more than one.
    pub GRAPH: Malformed "onnx-file/graph" "A model has one graph.";
    /// Messages are nested too deep.
    pub DEPTH: Limit "onnx-file/depth"
        "Messages nest at most `Limits::depth` deep; graphs nest where a model branches."
        remedies [RaiseLimit { limit: "depth", at_least: None }];
    /// Text that is too long.
    pub TEXT: Limit "onnx-file/text"
        "A name, a text, and the description of an input or output have at most `Limits::text_len` bytes; the key–values and values of the graph have at most `Limits::attribute_values` items together."
        remedies [RaiseLimit { limit: "text_len", at_least: None }];
    /// An element type that is not known.
    pub ELEMENT_TYPE: Unsupported "onnx-file/element-type"
        "The elements of a tensor have one of the ONNX types 1 to 28, and are not strings."
        remedies [LeaveOut];
    /// Invalid dimensions.
    pub DIMS: Malformed "onnx-file/dims" "Dimensions are not negative.";
    /// Elements that are missing, ambiguous or of the wrong number.
    pub DATA: Malformed "onnx-file/data"
        "A tensor has its elements in one place: as bytes, as numbers in the field of their type, or in another file. There are as many as its dimensions say.";
    /// Too many numbers in fields.
    pub NUMBERS: Limit "onnx-file/numbers"
        "Elements in numeric fields take at most `Limits::header_len` bytes, all tensors of a file together."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
    /// Invalid indices.
    pub INDICES: Malformed "onnx-file/indices"
        "The indices of a sparse tensor are 64-bit integers inside its shape: one for each value, or one per dimension for each value.";
    /// A file that is not inside of the model's folder.
    pub LOCATION: Malformed "onnx-file/location"
        "External data is in a file in or below the model's folder, named by a relative path without `..`, and no link leads out of that folder.";
    /// An external file that is not available or has the wrong length.
    pub EXTERNAL: Unsupported "onnx-file/external"
        "A model with external data is opened together with its external files, and each has the length that the model gives."
        hint "open the model in a folder that has all of its external files";

    /// Weights without a graph.
    pub NO_GRAPH: Misuse "onnx-file/no-graph"
        "Tensors are written as ONNX only into the graph of a model, and nothing else is written there.";
    /// A layout that the format cannot hold.
    pub FORM: Unsupported "onnx-file/form" "A tensor to be written is dense."
        remedies [MakeDense];
    /// A tensor that the graph lacks.
    pub FIT: Unsupported "onnx-file/fit"
        "A tensor to be written has the name and shape of a tensor in the graph."
        remedies [LeaveOut];
    /// A type of elements that the graph does not accept.
    pub TYPE: Unsupported "onnx-file/type"
        "Elements to be written have the graph's type, or a requested type that the model's opset version can cast to the graph's; casting applies to initializers that are neither inputs nor inside a function."
        hint "write elements of the type that the graph has";
    /// A graph that is too long.
    pub GRAPH_LEN: Limit "onnx-file/graph-len"
        "A model that is written has at most `Limits::header_len` bytes besides its weights."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
    /// A model that is too long.
    pub TOO_LARGE: Unsupported "onnx-file/too-large"
        "A model file has less than 2 GiB; a larger model stores its tensors as external data."
        hint "store tensors as external data";
    /// External data for a target that cannot have a second file.
    pub BESIDE: Unsupported "onnx-file/beside"
        "External data is written to one file, next to a model that is written to a folder."
        hint "store all tensors in the model, or write it to a folder";
    /// The tensors written differ from those declared.
    pub DECLARED: Misuse "onnx-file/declared"
        "Tensors are declared before the first byte is written, then written as declared, in order.";
    /// Compression or a digest.
    pub ENCODING: Unsupported "onnx-file/encoding" "Components are stored raw, without a digest."
        remedies [StoreRaw];
}
