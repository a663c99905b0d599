"""Writes files of NumPy that tests read: several arrays in one `.npy`, times and texts in pickles, and arrays whose dimensions lie in other orders, and
what they are beside.

    pip install numpy && python interop/others/numpy_files.py        from the root of the repository
"""

import hashlib
import json
import pickle
from pathlib import Path

import numpy as np

KINDS = {"M": "i64", "m": "i64", "U": "u32", "S": "u8"}


def kind(dtype):
    return KINDS.get(dtype.kind, f"{dtype.kind}{8 * dtype.itemsize}")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def described(path, container, arrays):
    rows = []
    for name, array in arrays.items():
        plain = array.astype(array.dtype.newbyteorder("<"), order="C")
        inner = {"U": [array.dtype.itemsize // 4], "S": [array.dtype.itemsize]}.get(array.dtype.kind, [])
        shape = [*array.shape, *inner]
        rows.append({"name": name, "dtype": kind(array.dtype), "shape": shape, "dense_sha256": sha256(plain.tobytes())})
    data = path.read_bytes()
    expect = {
        "file": path.name, "producer": f"numpy {np.__version__}", "container": container, "verdict": "accept",
        "file_size": len(data), "file_sha256": sha256(data), "tensors": rows,
    }
    Path(f"{path}.expect.json").write_text(json.dumps(expect, indent=1))


days = np.array(["2024-02-29", "NaT", "1969-12-31"], "M8[D]")
several = {"data": np.arange(6, dtype=np.float32).reshape(2, 3), "data.1": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
           "data.2": days, "data.3": np.empty((0, 2), np.float32), "data.4": np.array(["a", "bcd"])}
path = Path("corpus/accept/numpy/numpy_several.npy")
with path.open("wb") as file:
    for array in several.values():
        np.save(file, array)
described(path, "npy", several)

texts = {
    "day": days,
    "step": np.array([[1, 2], [3, -4]], "m8[25us]"),
    "time": np.array([0, 1 << 40], ">M8[ns]"),
    "bare": np.array([5], "m8"),
    "word": np.array([["héllo", "x"], ["", "日本"]]),
    "word.f": np.asfortranarray(np.array([["ab", "c"], ["", "def"]])),
    "big": np.array(["ab", "c"]).astype(">U2"),
    "raw": np.array([b"ab", b"\x00\xff\x01"]),
    "one": np.array("alone"),
}
for protocol in (0, 1, 2, 4, 5):
    path = Path(f"corpus/accept/pytorch/numpy_texts-p{protocol}.pkl")
    path.write_bytes(pickle.dumps({**texts, "said": np.str_("né"), "bytes": np.bytes_(b"\x01\x02")}, protocol))
    described(path, "pytorch", texts)

# In protocol 5 NumPy writes arrays whose dimensions lie in any order as they lie, and says in which.
cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
turned = {
    "rows": cube,
    "columns": np.asfortranarray(cube),
    "turned": cube.transpose(1, 2, 0),
    "swapped": cube.swapaxes(0, 1),
    "big": cube.astype(">i2").transpose(2, 0, 1),
    "word": np.array([[["ab", "c"], ["", "d"]], [["e", "fg"], ["h", "i"]]]).transpose(1, 0, 2),
    "thin": cube[:, :1].transpose(1, 2, 0),
    "empty": cube[:0].transpose(2, 1, 0),
    "skipped": cube[:, ::2, ::-1],
}
path = Path("corpus/accept/pytorch/numpy_turned-p5.pkl")
path.write_bytes(pickle.dumps(turned, 5))
described(path, "pytorch", turned)

# What `numpy_python2.py` wrote.
old = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "größe": np.arange(6, dtype=np.int16).reshape(2, 3),
    "odd": np.array([np.nan, -0.0, 1e-300]),
    "raw": np.array([b"ab", b"it's \"c\"\n\\"]),
    "nested.list.1": np.arange(3),
}
described(Path("corpus/accept/pytorch/numpy_python2-p0.pkl"), "pytorch", old)
