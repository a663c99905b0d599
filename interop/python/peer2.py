"""The package `ztensor` 2.1.2 for Python, called as interop/README.md says."""

import os
import sys

import numpy as np
import ztensor
from listing import Listing

LAYOUTS = {"zt.sparse_csr/1": "sparse_csr", "zt.sparse_coo/1": "sparse_coo"}


def layout_of(name):
    return name.removesuffix("/1") if name.startswith("gguf.") else LAYOUTS.get(name, name)


def read(path, listing):
    ztensor.verify(path, deep=True)
    with ztensor.open(path) as source:
        for name, tensor in source.items():
            # An error where a digest differs.
            tensor.verify()
            for role in tensor.parts:
                part = tensor[role]
                dtype, logical = part.dtype, part.logical
                if logical == "bool":
                    dtype, logical = "bool", None
                layout = layout_of(tensor.layout)
                listing.component(name, tensor.shape, layout, role, dtype, logical, part.tobytes())


def numbers(size):
    return bytes(i * 37 % 251 for i in range(size))


WIDTHS = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1}
WIDTHS |= {"u64": 8, "u32": 4, "u16": 2, "u8": 1}
TYPES = {"f8_e4m3fn": ("u8", 1), "f8_e5m2": ("u8", 1), "f8_e4m3fnuz": ("u8", 1), "f8_e5m2fnuz": ("u8", 1)}
TYPES |= {"f8_e8m0": ("u8", 1), "f4_e2m1": ("u8", 0.5), "complex64": ("f32", 8), "complex128": ("f64", 16)}


def dense(writer, **options):
    tensors = [(dtype, dtype, None, width) for dtype, width in WIDTHS.items()]
    tensors += [(logical, dtype, logical, width) for logical, (dtype, width) in TYPES.items()]
    for name, dtype, logical, width in sorted(tensors):
        writer.add("t_" + name, numbers(int(12 * width)), [3, 4], dtype, logical=logical, **options)


def write(folder):
    def path(name):
        return os.path.join(folder, name)

    with ztensor.Writer(path("python-2.1.2-canonical.zt")) as writer:
        dense(writer)
        writer.set_attributes({"n": 1, "x": 1.5, "l": [True, None, -7], "m": {"b": 1, "aa": 2}})
    with ztensor.Writer(path("python-2.1.2-encoded.zt"), canonical=False) as writer:
        dense(writer, encoding="zt.zstd-seekable/1")
        writer.add("z_long", numbers(3 << 20), [3 << 20], "u8", encoding="zt.zstd-seekable/1")
    with ztensor.Writer(path("python-2.1.2-appended.zt"), canonical=False, align=8192) as writer:
        writer.add("flags", np.array([1, 0], dtype=np.uint8), [2], "u8", logical="bool")
        indices = {"dtype": "u32", "data": np.array([0, 3, 1], dtype=np.uint32).tobytes()}
        indptr = {"dtype": "u32", "data": np.array([0, 2, 2, 3], dtype=np.uint32).tobytes()}
        values = {"dtype": "f32", "data": np.array([1, 2, 3], dtype=np.float32).tobytes()}
        parts = {"indices": indices, "indptr": indptr, "values": values}
        writer.add_object("csr", [3, 4], parts, layout="zt.sparse_csr/1")
    with ztensor.Writer(path("python-2.1.2-appended.zt"), canonical=False, append=True) as writer:
        writer.add("later", numbers(24), [3], "i64")


def main():
    if sys.argv[1:2] == ["read"]:
        read(sys.argv[2], Listing(sys.argv[3]))
    else:
        write(sys.argv[2])


main()
