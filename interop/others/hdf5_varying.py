"""Writes files of HDF5 with h5py that have values of variable length, enumerations, references, links and virtual datasets, and next to each the
values that h5py reads, as JSON: by the name of a dataset, the list of its elements; in the form of the records that Holdall makes of them.

    pip install h5py && python interop/others/hdf5_varying.py        from the root of the repository
"""

import json
import random
from pathlib import Path

import h5py
import numpy as np

FOLDER = Path("crates/holdall-formats/tests/types_files")
ALPHABET = "abcdeäöüßéñ漢字🙂 \t\"\\"
pick = random.Random(40)


def text(most=12):
    return "".join(pick.choice(ALPHABET) for _ in range(pick.randrange(most)))


def numbers(dtype, most=6):
    return np.array([pick.randrange(100) for _ in range(pick.randrange(most))], dtype)


def objects(values, shape):
    out = np.empty(shape, object)
    flat = out.reshape(-1)
    for at, value in enumerate(values):
        flat[at] = value
    return out


def value(of, file):
    """A value as JSON."""
    if isinstance(of, bytes):
        return of.decode()
    if isinstance(of, h5py.Reference):
        return file[of].name if of else ""
    if isinstance(of, np.void):
        return {name: value(of[name], file) for name in of.dtype.names}
    if isinstance(of, np.ndarray):
        return [value(item, file) for item in of]
    return of.item() if isinstance(of, np.generic) else of


STRING = h5py.string_dtype()
LEVEL = h5py.enum_dtype({"LOW": -10, "HIGH": 30, "MID": 20}, "i2")
for version, most in [("earliest", "latest"), ("v110", "v110"), ("latest", "latest")]:
    path = FOLDER / f"h5py-{version}.h5"
    names = ["texts", "grid", "chunked", "sparse", "one", "none", "ascii", "rows", "nested", "steps", "words", "table", "refs", "pairs"]
    with h5py.File(path, "w", libver=(version, most)) as file:
        file.create_dataset("texts", data=objects([text() for _ in range(40)], 40), dtype=STRING)
        file.create_dataset("grid", data=objects([text() for _ in range(12)], (3, 4)), dtype=STRING)
        options = {"chunks": (50,), "compression": "gzip", "shuffle": True}
        some = [text(40) for _ in range(30)]
        file.create_dataset("chunked", data=objects([pick.choice(some) for _ in range(120)], 120), dtype=STRING, **options)
        file.create_dataset("sparse", (20,), STRING, chunks=(4,))[5] = "five"
        file.create_dataset("one", data=text(), dtype=STRING)
        file.create_dataset("none", (0,), STRING, maxshape=(None,))
        file.create_dataset("ascii", data=objects(["a", "bc", ""], 3), dtype=h5py.string_dtype("ascii"))
        rows = np.empty(25, [("id", "<i8"), ("name", STRING), ("level", LEVEL), ("x", ">f4"), ("tags", h5py.vlen_dtype("<u2"))])
        for row in rows:
            row["id"], row["name"], row["level"], row["x"], row["tags"] = pick.randrange(1 << 60), text(), pick.choice([-10, 20, 30]), 0.5, numbers("<u2")
        file.create_dataset("rows", data=rows, chunks=(7,), compression="gzip")
        inner = np.dtype([("label", STRING), ("n", "<i4", (2,))])
        nested = np.zeros(5, np.dtype([("b", "u1"), ("in", inner), ("two", STRING, (2,))], align=True))
        for at in range(5):
            nested[at] = (at, (text(), [at, -at]), [text(), text()])
        file.create_dataset("nested", data=nested)
        file.create_dataset("steps", data=objects([numbers("<f8") for _ in range(20)], 20), dtype=h5py.vlen_dtype("<f8"))
        words = h5py.vlen_dtype(STRING)
        sequences = [objects([text() for _ in range(n)], n) for n in (0, 3, 1)]
        file.create_dataset("words", (3,), words)
        for at, sequence in enumerate(sequences):
            file["words"][at] = sequence
        table = h5py.vlen_dtype(np.dtype([("a", "<i2"), ("b", ">f8")], align=True))
        file.create_dataset("table", (3,), table)
        for at in range(3):
            file["table"][at] = np.array([(n, n / 2) for n in range(at)], np.dtype([("a", "<i2"), ("b", ">f8")], align=True))
        file["group/sub/data"] = np.arange(3)
        file.create_dataset("refs", (4,), h5py.ref_dtype)
        for at, to in enumerate(["group", "group/sub/data", "/", "texts"]):
            file["refs"][at] = file[to].ref
        pairs = np.zeros(2, [("to", h5py.ref_dtype), ("n", "<i4")])
        pairs["to"], pairs["n"] = [file["group"].ref, h5py.Reference()], [1, 2]
        file["pairs"] = pairs
        file["level"] = np.array([10, 30, -20], "i2").astype(h5py.enum_dtype({"A": 10, "B": 30, "C": -20}, ">i2"))
        file["soft"] = h5py.SoftLink("/group/sub/data")
        file["refs"].attrs["to"] = file["group/sub"].ref
        file["refs"].attrs["pair"] = pairs[:1]
        file["refs"].attrs["list"] = np.array([file["one"].ref, file["group"].ref], h5py.ref_dtype)
        file["group/sub/data"].dims[0].attach_scale((file.create_dataset("scale", data=[1.0, 2, 3]), file["scale"].make_scale("s"))[0])
        base = np.arange(60, dtype="<i4").reshape(6, 10)
        file["base"] = base
        file.create_dataset("packed", data=base, chunks=(4, 4), compression="gzip")
        for source in ["base", "packed"]:
            layout = h5py.VirtualLayout((4, 9), "<i4")
            of = h5py.VirtualSource(".", source, (6, 10))
            layout[0:2, 1:5] = of[1:3, ::3]
            layout[3, ::2] = of[5, 5:]
            file.create_virtual_dataset(f"virtual/{source}", layout, fillvalue=-7)
        layout = h5py.VirtualLayout((50,), STRING)
        layout[5:45] = h5py.VirtualSource(".", "texts", (40,), STRING)
        file.create_virtual_dataset("virtual/texts", layout)
        layout = h5py.VirtualLayout((4, 9), "<i4")
        layout[:] = h5py.VirtualSource(".", "virtual/packed", (4, 9))
        file.create_virtual_dataset("virtual/again", layout)
        layout = h5py.VirtualLayout((3,), rows.dtype)
        layout[:] = h5py.VirtualSource(".", "rows", (25,), rows.dtype)[3:6]
        file.create_virtual_dataset("virtual/rows", layout)
    wanted = {}
    with h5py.File(path) as file:
        for name in [*names, "virtual/texts", "virtual/rows"]:
            found = file[name][()]
            flat = found.reshape(-1) if isinstance(found, np.ndarray) else [found]
            wanted[name] = [value(item, file) for item in flat]
        for name in ["level", "soft", "virtual/base", "virtual/packed", "virtual/again"]:
            wanted[name] = file[name][()].reshape(-1).tolist()
    Path(f"{path}.json").write_text(json.dumps(wanted, ensure_ascii=False, indent=0))
