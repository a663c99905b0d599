"""The packages `ztensor` 1.2.3 and `safetensors` 0.8 for Python, called as interop/README.md says."""

import os
import sys

import numpy as np
import safetensors
import safetensors.numpy
import ztensor
import ztensor.numpy
from listing import Listing

SHORT = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "bool": "bool",
}


def read_ztensor(path, listing):
    with ztensor.Reader(path) as reader:
        for name in reader.keys():
            about = reader.metadata(name)
            if about.format == "dense" and (about.type or "").startswith("complex"):
                # It takes the shape for that of the stored elements.
                continue
            tensor = reader.read(name)
            for role, array in tensor.components.items():
                of_role = about.components[role]
                dtype, logical = SHORT[of_role["dtype"]], of_role["type"]
                data = array.tobytes()
                listing.component(name, about.shape, about.format, role, dtype, logical, data)


def read_safetensors(path, listing):
    with open(path, "rb") as file:
        for name, about in safetensors.deserialize(file.read()):
            data = bytes(about["data"])
            listing.component(name, about["shape"], "dense", "data", about["dtype"], None, data)


def numbers(dtype, count):
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(bytes(i * 37 % 251 for i in range(size)), dtype=dtype)


DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1"]


def plain():
    tensors = {"t_" + d: numbers(np.dtype(d), 6).reshape(2, 3) for d in DTYPES}
    tensors["t_bool"] = np.array([[True, False], [False, True]])
    tensors["scalar"] = np.array(1.5, dtype=np.float32)
    tensors["nothing"] = np.zeros((0, 4), dtype=np.float32)
    tensors["\u65e5\u672c"] = np.array([1], dtype=np.uint8)
    return tensors


def write(folder):
    def path(name):
        return os.path.join(folder, name)

    metadata = {"format": "np", "\u00fc": '"quoted"\n'}
    safetensors.numpy.save_file(plain(), path("python-0.8-numpy.safetensors"), metadata)
    safetensors.numpy.save_file({}, path("python-0.8-empty.safetensors"))
    # Types that NumPy has no arrays of, two by three elements each; F4 is given in bytes.
    kinds = [
        ("bfloat16", [2, 3], 12),
        ("float8_e4m3fn", [2, 3], 6),
        ("float8_e5m2", [2, 3], 6),
        ("float8_e4m3fnuz", [2, 3], 6),
        ("float8_e5m2fnuz", [2, 3], 6),
        ("float8_e8m0fnu", [2, 3], 6),
        ("float4_e2m1fn_x2", [2, 3], 6),
        ("complex64", [2, 3], 48),
    ]
    arrays = {dtype: numbers(np.uint8, size) for dtype, _, size in kinds}
    entries = {
        dtype: safetensors.TensorSpec(
            dtype=dtype, shape=shape, data_ptr=arrays[dtype].ctypes.data, data_len=size
        )
        for dtype, shape, size in kinds
    }
    safetensors.serialize_file(entries, path("python-0.8-kinds.safetensors"))

    ztensor.numpy.save_file(plain(), path("python-1.2.3-numpy.zt"))
    ztensor.numpy.save_file(plain(), path("python-1.2.3-numpy_zstd.zt"), compression=19)
    with ztensor.Writer(path("python-1.2.3-layouts.zt")) as writer:
        csr = {
            "values": np.array([1, 2, 3], dtype=np.float32),
            "indices": np.array([0, 3, 1], dtype=np.uint64),
            "indptr": np.array([0, 2, 2, 3], dtype=np.uint64),
        }
        of = {"shape": [3, 4], "format": "sparse_csr", "attributes": {"from": "python", "n": 1}}
        writer.write("csr", ztensor.Tensor(csr, **of), checksum="sha256")
        f8 = {"data": np.arange(6, dtype=np.uint8)}
        tensor = ztensor.Tensor(f8, shape=[2, 3], type="f8_e4m3fn")
        writer.write("f8", tensor, compress=3, checksum="crc32c")
    with ztensor.Writer.append(path("python-1.2.3-layouts.zt")) as writer:
        writer.write_numpy("appended", np.arange(3, dtype=np.int64))


def main():
    if sys.argv[1:2] == ["read"]:
        _, _, path, folder = sys.argv
        read = read_safetensors if path.endswith(".safetensors") else read_ztensor
        read(path, Listing(folder))
    else:
        write(sys.argv[2])


main()
