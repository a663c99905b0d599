# Written by `cargo xtask gen` from the table of limits in the code.
"""Limits on what a file may demand."""

from typing import TypedDict


class Limits(TypedDict, total=False):
    """The keys of ``limits=``: upper bounds on what a file may demand. Limits that are left out have their default."""

    #: Bytes of a zTensor manifest; of the blocks of a TensorFlow checkpoint's index.
    #: Default: 1 GB.
    manifest_len: int
    #: Bytes of a header (safetensors, Metatensor, GGUF) or of a zip's directory; of elements that an ONNX model stores in numeric fields; of values of variable length and virtual datasets in an HDF5 file, which are in memory.
    #: Default: 100 MB.
    header_len: int
    #: Bytes of each text of a package (``carton.toml``, ``MANIFEST``, ``LINKS``, ``tensor_data/index.toml``) and of a description of layouts.
    #: Default: 8 MiB.
    text_len: int
    #: Bytes that compressed components may decode to, each and all that are loaded at once, however few bytes they store; bytes of a dense copy of a sparse or quantized tensor.
    #: Default: 4 GiB.
    decoded_len: int
    #: Beyond ``decoded_len``, compressed components may decode to this many times their stored size.
    #: Default: 64.
    expansion: int
    #: Bytes of a file that is fetched whole over a network, as sent.
    #: Default: 64 GiB.
    fetched_len: int
    #: Entries of a zip or tar archive, files of a package, objects under a prefix of an object store.
    #: Default: 2^20.
    files: int
    #: Tensors in a file.
    #: Default: 2^24.
    tensors: int
    #: Dimensions of a tensor.
    #: Default: 64.
    rank: int
    #: Components of a tensor.
    #: Default: 16384.
    components: int
    #: Levels of nesting of attribute values, headers and schemas.
    #: Default: 128.
    depth: int
    #: Nodes of a Metatensor schema; paths that one question about it may touch.
    #: Default: 2^20.
    schema_nodes: int
    #: Values in all attributes of a file; keys, items of arrays and entries of maps count too.
    #: Default: 2^22.
    attribute_values: int
    #: Base-2 logarithm of the largest window that a zstd frame may need. Level 22 needs 27.
    #: Default: 27.
    zstd_window_log: int
    #: Whether unknown values of a pickle are left out. By default they are refused.
    skip_unknown: bool
