"""Writes files of HDF5 with h5py, and what they are beside: one whose lengths have fewer bytes than its addresses, one that went through the filter
`scaleoffset`, two of compounds, and two of texts, opaque bytes and times.

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


def described(path, arrays):
    """As h5py reads them."""
    rows = []
    for name, array in arrays.items():
        kind = f"{array.dtype.kind}{8 * array.dtype.itemsize}"
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        rows.append({"name": name, "dtype": kind, "shape": list(array.shape), "sha256": sha256(data)})
    expect = {
        "file": path.name, "producer": f"h5py {h5py.__version__}", "container": "hdf5", "verdict": "accept", "file_size": path.stat().st_size,
        "file_sha256": sha256(path.read_bytes()), "tensors": rows,
    }
    Path(f"{path}.expect.json").write_text(json.dumps(expect, indent=1))


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
described(path, arrays)

path = FOLDER / "h5py_scaleoffset.h5"
steps = np.array([3, 9.25, 3, -4.25, 5, 3, 3.125, 0, 7.5])
cases = {
    "i8": (np.array([36, 41, -70, 94, -16, -3, 78, 93, 0], "i1"), {}),
    "i16": (np.arange(20, dtype=">i2").reshape(4, 5) * 7 - 20, {}),
    "u64": (np.array([(1 << 63) - 1, 0, 5], "u8"), {}),
    "all-bits": (np.array([-(1 << 31), (1 << 31) - 1, 0, 5], ">i4"), {}),
    "same": (np.full(9, 5, "i4"), {}),
    "fill": (np.array([3, 9, 3, 4, 5, 3, 3], "i4"), {"fillvalue": 3}),
    "only-fill": (np.full(9, 3, "i4"), {"fillvalue": 3}),
    "f32": (steps.astype("f4"), {"scaleoffset": 2}),
    "f64": (steps.astype(">f8") * 1.001, {"scaleoffset": 3, "fillvalue": 3}),
    "packed": (np.arange(40, dtype="u2"), {"shuffle": True, "compression": "gzip"}),
}
with h5py.File(path, "w", libver="earliest") as file:
    for name, (array, options) in cases.items():
        chunks = tuple(min(size, 7) for size in array.shape)
        file.create_dataset(name, data=array, chunks=chunks, **{"scaleoffset": 0, **options})
with h5py.File(path) as file:
    described(path, {name: file[name][...] for name in cases})


def packed(dtype):
    """A type without padding, its numbers little-endian: what records become."""
    if dtype.subdtype:
        base, shape = dtype.subdtype
        return np.dtype((packed(base), shape))
    if dtype.names is None:
        return dtype.newbyteorder("<")
    return np.dtype([(name, packed(dtype[name])) for name in dtype.names])


def table(dtype, shape):
    """Records that differ from each other, and are text where they are to be."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(dtype.itemsize)
    out = np.zeros(shape, dtype)
    def fill(part):
        if part.dtype.names:
            for name in part.dtype.names:
                fill(part[name])
        elif part.dtype.kind == "S":
            part[...] = np.array([b"a", b"bcd", b"", b"xyzw"])[rng.integers(0, 4, part.shape)]
        elif part.dtype.kind == "b":
            part[...] = rng.integers(0, 2, part.shape) == 1
        elif part.dtype.kind != "V":
            part[...] = rng.integers(0, 100, part.shape).astype(part.dtype)
    fill(out)
    return out


color = h5py.enum_dtype({"red": 0, "green": 1, "blue": 42}, basetype="u1")
point = [("x", "<f4"), ("y", "<f4"), ("id", "<i8")]
aligned = np.dtype([("a", "u1"), ("b", "f8"), ("c", "i2", 3), ("d", "?")], align=True)
nested = np.dtype({"names": ["when", "at", "name"], "formats": [">i8", np.dtype([("p", ">f4", (2, 2)), ("q", "u1")], align=True), "S5"], "offsets": [24, 4, 40], "itemsize": 48})
records = {
    "plain": (point, (7,), {}),
    "one": (point, (), {}),
    "none": (point, (0,), {}),
    "square": (point, (3, 4), {}),
    "aligned": (aligned, (5,), {}),
    "nested": (nested, (6,), {}),
    "all": ([("n", color), ("c", "<c8"), ("h", ">f2"), ("t", "S4"), ("v", "V3"), ("z", "<c16")], (4,), {}),
    "table/chunked": (point, (1000,), {"chunks": (64,), "compression": "gzip", "shuffle": True}),
    "table/aligned": (aligned, (50, 9), {"chunks": (8, 4), "compression": "gzip", "fletcher32": True}),
    "table/nested": (nested, (33,), {"chunks": (8,), "compression": "lzf"}),
    "table/stored": (nested, (33,), {"chunks": (8,)}),
    "table/sparse": (aligned, (40,), {"chunks": (8,), "compression": "gzip"}),
    "array": (np.dtype((np.dtype(point), (2,))), (3,), {}),
}
for version, most in [("earliest", "latest"), ("v110", "v110")]:
    path = FOLDER / f"h5py_records-{version}.h5"
    with h5py.File(path, "w", libver=(version, most)) as file:
        for name, (dtype, shape, options) in records.items():
            dtype = np.dtype(dtype)
            if name == "table/sparse":
                fill = np.zeros((), dtype)
                fill["b"], fill["c"] = 0.5, [1, 2, 3]
                file.create_dataset(name, shape, dtype, fillvalue=fill, **options)[8:12] = table(dtype, (4,))
            elif name == "array":
                kind = h5py.h5t.py_create(dtype, logical=True)
                made = h5py.h5d.create(file.id, b"array", kind, h5py.h5s.create_simple(shape))
                values = table(point, (3, 2))
                made.write(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=kind)
            else:
                file.create_dataset(name, data=table(dtype, shape), **options)
        file["all"].attrs["unit"] = "mm"
    rows = []
    with h5py.File(path) as file:
        for name in records:
            found = file[name][()]
            found = np.asarray(found)
            data = found.astype(packed(found.dtype)).tobytes()
            rows.append({"name": name, "dtype": "records", "shape": [found.size], "sha256": sha256(data)})
    expect = {
        "file": path.name, "producer": f"h5py {h5py.__version__}", "container": "hdf5", "verdict": "accept", "file_size": path.stat().st_size,
        "file_sha256": sha256(path.read_bytes()), "tensors": rows,
    }
    Path(f"{path}.expect.json").write_text(json.dumps(expect, indent=1))


when = np.array(["2026-01-01", "NaT", "1969-12-31T23:59:59"], "M8[s]")
texts = {
    "fixed": (np.array([b"a", b"bcd", b""], "S10"), {}),
    "grid": (np.array([[b"a", b"bcd"], [b"x", b""]], "S3"), {}),
    "one": (np.array(b"hello"), {}),
    "none": (np.zeros(0, "S4"), {}),
    "opaque": (np.array([b"\x01\x02", b"\x03\x04"], "V2"), {}),
    "packed": (np.array([b"%04d" % i for i in range(1000)], "S4"), {"chunks": (100,), "compression": "gzip", "shuffle": True}),
    "when": (when, {"dtype": h5py.opaque_dtype("<M8[s]")}),
    "lasts": (np.arange(-3, 9).reshape(3, 4).astype("m8[ms]"), {"dtype": h5py.opaque_dtype("<m8[ms]"), "chunks": (2, 3)}),
}
for version, most in [("earliest", "latest"), ("v110", "v110")]:
    path = FOLDER / f"h5py_texts-{version}.h5"
    with h5py.File(path, "w", libver=(version, most)) as file:
        for name, (array, options) in texts.items():
            kind = options.get("dtype", array.dtype)
            file.create_dataset(name, data=array.astype(kind), **{**options, "dtype": kind})
        file.create_dataset("filled", (10,), "S4", chunks=(4,), fillvalue=b"none")[2] = b"two"
        file["fixed"].attrs["unit"] = "mm"
    arrays = {}
    with h5py.File(path) as file:
        for name in [*texts, "filled"]:
            found = np.asarray(file[name][()])
            size = found.dtype.itemsize
            is_time = found.dtype.kind in "mM"
            arrays[name] = found.view("i8") if is_time else np.frombuffer(found.tobytes(), "u1").reshape(*found.shape, size)
    described(path, arrays)
