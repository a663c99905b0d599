//! Models of other programs, and kinds of files with rare marks. Builds with few formats leave them out to be smaller.

use super::{Help, Kind, PACKED, TABLE};

const MADE: Help = Help::Hint(
    "it was compiled for one program or device: open the model that it was compiled from",
);
const OLD_GGML: Help = Help::Hint(
    "this format is older than GGUF: get the model as GGUF, or convert it with `convert_llama_ggml_to_gguf.py` of llama.cpp",
);
const MXNET: Help =
    Help::Hint("load its arrays in Python with `mxnet.nd.load`, and save them with `numpy.savez`");
const NETCDF: Help = Help::Hint("rewrite it as HDF5 with `nccopy -k nc4`, and open that");
const CORE_ML: Help = Help::Hint("open the model that it was converted from with coremltools");
const SAVED_MODEL: Help = Help::Hint(
    "the weights are in `variables/variables.index` in the same folder: open that file, or the folder",
);
const FROZEN: Help = Help::Hint("convert it to ONNX with `tf2onnx`, and open that");

static KINDS: &[Kind] = &[
    Kind::new("a TensorRT engine", 0, b"ftrt", MADE),
    Kind::new("a TensorRT engine", 0, b"ptrt", MADE),
    Kind::new("an ONNX Runtime model", 4, b"ORTM", MADE),
    Kind::new("an ExecuTorch program", 4, b"ET12", MADE),
    Kind::new("a model for Rockchip's processors", 0, b"RKNN", MADE),
    Kind::new("a ggml model", 0, b"lmgg", OLD_GGML),
    Kind::new("a ggml model", 0, b"fmgg", OLD_GGML),
    Kind::new("a ggml model", 0, b"tjgg", OLD_GGML),
    Kind::new("a ggml adapter", 0, b"algg", OLD_GGML),
    Kind::new("an MXNet array file", 0, b"\x12\x01\0\0\0\0\0\0", MXNET),
    Kind::new("a file compressed with zlib", 0, b"\x78\x01", PACKED),
    Kind::new("a file compressed with zlib", 0, b"\x78\x5e", PACKED),
    Kind::new("a file compressed with zlib", 0, b"\x78\x9c", PACKED),
    Kind::new("a file compressed with zlib", 0, b"\x78\xda", PACKED),
    Kind::new("a file compressed with LZMA", 0, b"\x5d\0\0", PACKED),
    Kind::new("a file of R", 0, b"RDX2\n", TABLE),
    Kind::new("a file of R", 0, b"RDX3\n", TABLE),
    Kind::new("a file of R", 0, b"X\n\0\0\0", TABLE),
    Kind::new("a Feather file older than Arrow IPC", 0, b"FEA1", TABLE),
    Kind::new("an Arrow stream", 0, b"\xff\xff\xff\xff", TABLE),
    Kind::new("a NetCDF file older than NetCDF-4", 0, b"CDF", NETCDF),
];

/// Returns the name of a binary file's kind and what to do about it: one of [`KINDS`], or a protocol buffer with a
/// known beginning.
pub(super) fn find(head: &[u8]) -> Option<(&'static str, Help)> {
    if let Some(kind) = KINDS.iter().find(|kind| kind.starts(head)) {
        return Some((kind.name, kind.way));
    }
    if let Some(node) = message_contents(head, 0x0a)
        && node.starts_with(b"\x0a")
        && [&b"\x12\x0bPlaceholder"[..], b"\x12\x05Const"]
            .iter()
            .any(|op| head.windows(op.len()).any(|at| at == *op))
    {
        return Some(("a TensorFlow graph", FROZEN));
    }
    // A version, then a message. In Core ML, it describes the inputs; in TensorFlow, the nodes of the graph.
    let [0x08, 1..=20, rest @ ..] = head else { return None };
    let first = message_contents(message_contents(rest, 0x12)?, 0x0a)?;
    match first.first() {
        Some(0x0a) => Some(("a Core ML model", CORE_ML)),
        Some(0x12 | 0x1a | 0x22 | 0x2a) => {
            Some(("the graph of a TensorFlow saved model", SAVED_MODEL))
        }
        _ => None,
    }
}

/// Returns the contents of the message that begins with this tag and its length.
fn message_contents(head: &[u8], tag: u8) -> Option<&[u8]> {
    let rest = head.strip_prefix(&[tag])?;
    let last = rest.iter().position(|byte| *byte < 0x80)?;
    rest.get(last.saturating_add(1)..)
}
