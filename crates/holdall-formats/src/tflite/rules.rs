//! Every rule of the format.

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// Another version.
    pub VERSION: Unsupported "tflite/version" "The version of a model is 3.";
    /// An invalid buffer.
    pub BUFFER: Malformed "tflite/buffer"
        "The buffer of a tensor is in the model, and its bytes are in the file.";
    /// Invalid dimensions.
    pub DIMS: Malformed "tflite/dims" "Dimensions of tensors with elements are not negative.";
    /// An element type that is not known.
    pub ELEMENT_TYPE: Unsupported "tflite/element-type"
        "The elements of a tensor are numbers or booleans."
        remedies [LeaveOut];
    /// A sparse tensor.
    pub SPARSE: Unsupported "tflite/sparse" "All elements of a tensor are stored."
        remedies [LeaveOut];
    /// Too many bytes besides the elements.
    pub TOO_MUCH: Limit "tflite/too-much"
        "Names, shapes, scales and metadata take at most `Limits::header_len` bytes together; data that is referenced twice counts twice."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
}
