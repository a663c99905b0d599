//! Models of other programs, and others that only rare marks tell: builds of few formats are smaller without.

use super::{Help, Kind, PACKED, TABLE};

const MADE: Help =
    Help::Hint("it was made for one program or device: open the model that it was made from");
const OLD_GGML: Help = Help::Hint(
    "it is older than GGUF: get the model as GGUF, or convert it by `convert_llama_ggml_to_gguf.py` of llama.cpp",
);
const MXNET: Help = Help::Hint("save its arrays from Python: `mxnet.nd.load`, then `numpy.savez`");
const NETCDF: Help = Help::Hint("`nccopy -k nc4` rewrites it as HDF5, which can be opened");
const CORE_ML: Help = Help::Hint("open the model that coremltools converted");
const SAVED_MODEL: Help = Help::Hint(
    "the weights are beside it, in `variables/variables.index`: open that, or the folder",
);
const FROZEN: Help = Help::Hint("convert it to ONNX, as `tf2onnx` does, and open that");

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
    Kind::new("a file of MXNet's arrays", 0, b"\x12\x01\0\0\0\0\0\0", MXNET),
    Kind::new("a file compressed with zlib", 0, b"\x78\x01", PACKED),
    Kind::new("a file compressed with zlib", 0, b"\x78\x5e", PACKED),
    Kind::new("a file compressed with zlib", 0, b"\x78\x9c", PACKED),
    Kind::new("a file compressed with zlib", 0, b"\x78\xda", PACKED),
    Kind::new("a file compressed with LZMA", 0, b"\x5d\0\0", PACKED),
    Kind::new("a file of R", 0, b"RDX2\n", TABLE),
    Kind::new("a file of R", 0, b"RDX3\n", TABLE),
    Kind::new("a file of R", 0, b"X\n\0\0\0", TABLE),
    Kind::new("a Feather file of before Arrow IPC", 0, b"FEA1", TABLE),
    Kind::new("a stream of Arrow", 0, b"\xff\xff\xff\xff", TABLE),
    Kind::new("a NetCDF file of before HDF5", 0, b"CDF", NETCDF),
];

/// What a file is that is not text: of [`KINDS`], or a protocol buffer that begins as a known one.
pub(super) fn find(head: &[u8]) -> Option<(&'static str, Help)> {
    if let Some(kind) = KINDS.iter().find(|kind| kind.starts(head)) {
        return Some((kind.name, kind.way));
    }
    if let Some(node) = inside(head, 0x0a)
        && node.starts_with(b"\x0a")
        && [&b"\x12\x0bPlaceholder"[..], b"\x12\x05Const"]
            .iter()
            .any(|op| head.windows(op.len()).any(|at| at == *op))
    {
        return Some(("a graph of TensorFlow", FROZEN));
    }
    // A version, then a message: of Core ML what its inputs are called, of TensorFlow what its graph is made of.
    let [0x08, 1..=20, rest @ ..] = head else { return None };
    let first = inside(inside(rest, 0x12)?, 0x0a)?;
    match first.first() {
        Some(0x0a) => Some(("a Core ML model", CORE_ML)),
        Some(0x12 | 0x1a | 0x22 | 0x2a) => {
            Some(("the graph of a saved model of TensorFlow", SAVED_MODEL))
        }
        _ => None,
    }
}

/// What is in the message that begins with this tag and its length.
fn inside(head: &[u8], tag: u8) -> Option<&[u8]> {
    let rest = head.strip_prefix(&[tag])?;
    let last = rest.iter().position(|byte| *byte < 0x80)?;
    rest.get(last.saturating_add(1)..)
}
