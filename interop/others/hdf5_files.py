"""Writes a file of HDF5 whose lengths have fewer bytes than its addresses, with h5py, and what it is beside.

    pip install h5py && python interop/others/hdf5_files.py        from the root of the repository
"""

import hashlib
import json
from pathlib import Path

import h5py
import numpy as np

FOLDER = Path("corpus/accept/hdf5")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


path = FOLDER / "h5py_sizes.h5"
sizes = h5py.h5p.create(h5py.h5p.FILE_CREATE)
sizes.set_sizes(8, 4)
arrays = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "g/chunked": np.arange(48, dtype=">i2").reshape(6, 8),
    "g/one": np.int32(7),
}
with h5py.File(h5py.h5f.create(str(path).encode(), h5py.h5f.ACC_TRUNC, sizes)) as file:
    for name, array in arrays.items():
        options = {"chunks": (4, 3), "compression": "gzip"} if name == "g/chunked" else {}
        file.create_dataset(name, data=array, **options)
    file.attrs["text"] = "häuser"
    file["g"].attrs["texts"] = ["a", "", "bcd"]
names = {"a": "f32", "g/chunked": "i16", "g/one": "i32"}
rows = [
    {"name": name, "dtype": names[name], "shape": list(array.shape), "sha256": sha256(array.astype(array.dtype.newbyteorder("<")).tobytes())}
    for name, array in arrays.items()
]
expect = {
    "file": path.name, "producer": f"h5py {h5py.__version__}", "container": "hdf5", "verdict": "accept", "file_size": path.stat().st_size,
    "file_sha256": sha256(path.read_bytes()), "tensors": rows,
}
Path(f"{path}.expect.json").write_text(json.dumps(expect, indent=1))
