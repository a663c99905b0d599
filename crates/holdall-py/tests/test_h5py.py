"""h5py over what Holdall writes as HDF5: every type that it has, as itself."""

import json

import numpy as np
import pytest

import holdall

h5py = pytest.importorskip("h5py")


def arrays():
    rng = np.random.default_rng(3)
    out = {f"g/{name}": rng.integers(0, 2, (4, 5)).astype(name) for name in
           "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 ? c8 c16".split()}  # fmt: skip
    out["scalar"] = np.array(2.5)
    out["empty"] = np.zeros((0, 3), "f4")
    out["turned"] = np.arange(6).reshape(2, 3).T
    out |= {f"many/deep/t{i}": np.arange(i) for i in range(700)}
    out["häuser"] = np.ones(1)
    return out


def test_h5py_reads_what_is_written(tmp_path):
    wanted = arrays()
    holdall.save(tmp_path / "a.h5", wanted, attributes={
        "text": "häuser", "n": 7, "x": 0.5, "yes": True, "names": ["a", "", "ccc"], "square": [[1, 2], [3, 4]],
        "g/of the group": 1, "nothing": None, "map": {"a": [1, None]}, "long": "x" * 100_000,
    })  # fmt: skip
    with h5py.File(tmp_path / "a.h5") as f:
        found = {}
        f.visititems(lambda name, of: found.update({name: of[()]}) if isinstance(of, h5py.Dataset) else None)
        assert set(found) == set(wanted)
        for name, array in wanted.items():
            assert found[name].dtype == array.dtype and found[name].shape == array.shape, name
            np.testing.assert_array_equal(found[name], array)
        assert list(f["many/deep"]) == sorted(f"t{i}" for i in range(700))
        assert "t699" in f["many/deep"] and "t700" not in f["many/deep"]
        attrs = f.attrs
        assert attrs["text"] == "häuser" and attrs["n"] == 7 and attrs["x"] == 0.5 and attrs["yes"] == np.True_
        assert list(attrs["names"]) == ["a", "", "ccc"] and attrs["square"].tolist() == [[1, 2], [3, 4]]
        assert f["g"].attrs["of the group"] == 1 and isinstance(attrs["nothing"], h5py.Empty)
        assert len(attrs["long"]) == 100_000 and attrs["holdall.attributes"] == '{"map":{"a":[1,null]}}'
    # Others may go on writing into it.
    with h5py.File(tmp_path / "a.h5", "r+") as f:
        f["many/deep/new"] = np.arange(3)
        f["many/deep/new"].attrs["k"] = "v"
        del f["many/deep/t5"]
        f["turned"][0] = [7, 7]
        f.attrs["text"] = "other"
    with holdall.open(tmp_path / "a.h5") as f:
        assert f["many/deep/new"].attributes["k"] == "v" and "many/deep/t5" not in f
        assert f["turned"].numpy()[0].tolist() == [7, 7] and f.attributes["text"] == "other"
        np.testing.assert_array_equal(f["g/c16"].numpy(), wanted["g/c16"])


def test_floats_that_numpy_lacks(tmp_path):
    ml = pytest.importorskip("ml_dtypes")
    of = {name: np.arange(256, dtype="u1").view(getattr(ml, name)) for name in
          "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu".split()}  # fmt: skip
    of["bfloat16"] = np.arange(1 << 16, dtype="u2").view(ml.bfloat16)
    holdall.save(tmp_path / "a.h5", of)
    with h5py.File(tmp_path / "a.h5") as f:
        # These are numbers to HDF5.
        np.testing.assert_array_equal(f["bfloat16"][()], of["bfloat16"].astype("f4"))
        assert f["bfloat16"].attrs["dtype"] == "bfloat16"
        np.testing.assert_array_equal(f["float8_e5m2"][()], of["float8_e5m2"].astype("f2"))
        # And these are bytes, with their name beside.
        for name in of:
            if name not in ("bfloat16", "float8_e5m2"):
                assert f[name].attrs["dtype"] == name and f[name].dtype == "V1"
                assert f[name][()].tobytes() == of[name].tobytes()
    with holdall.open(tmp_path / "a.h5") as f:
        for name, array in of.items():
            found = f[name].numpy()
            assert found.dtype == array.dtype and found.tobytes() == array.tobytes() and not f[name].attributes, name


def test_tied_weights_are_one_dataset(tmp_path):
    w = np.arange(12.0).reshape(3, 4)
    holdall.save(tmp_path / "a.zt", {"a/w": w, "b/w": w})
    holdall.convert(tmp_path / "a.zt", tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["a/w"] == f["b/w"]
        np.testing.assert_array_equal(f["b/w"][()], w)


def test_names_that_cannot_be(tmp_path):
    with pytest.raises(holdall.HoldallError, match="both a dataset and a group"):
        holdall.save(tmp_path / "a.h5", {"a": np.ones(1), "a/b": np.ones(1)})
    assert not (tmp_path / "a.h5").exists()


def _packed(dtype):
    """A type without padding, its numbers little-endian."""
    if dtype.subdtype:
        return np.dtype((_packed(dtype.subdtype[0]), dtype.subdtype[1]))
    if dtype.names is None:
        return dtype.newbyteorder("<")
    return np.dtype([(name, _packed(dtype[name])) for name in dtype.names])


@pytest.mark.parametrize("options", [{}, {"chunks": (16,)}, {"chunks": (16,), "compression": "gzip", "shuffle": True},
                                     {"chunks": (70,), "compression": "lzf", "fletcher32": True}])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_compounds_are_records(tmp_path, options, libver):
    aligned = np.dtype([("b", "i1"), ("x", ">f8"), ("s", "S5"), ("n", [("q", "u2"), ("w", ">u8")], (2,)), ("t", "?")], align=True)
    wanted = np.frombuffer(np.random.default_rng(5).bytes(70 * aligned.itemsize), aligned).copy()
    wanted["t"] = np.arange(70) % 3 == 0
    zeros = np.zeros(70, [("x", ">f8", (50,)), ("y", "i4")])
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as f:
        f.create_dataset("g/t", data=wanted, **options)
        f.create_dataset("zeros", data=zeros, **options)
        f["g/t"].attrs["unit"] = "mm"
    assert holdall.verify(tmp_path / "a.h5")
    holdall.convert(tmp_path / "a.h5", tmp_path / "b.mt")
    holdall.convert(tmp_path / "a.h5", tmp_path / "b.npz")
    holdall.convert(tmp_path / "b.mt", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert f["g/t"][()].tobytes() == wanted.astype(f["g/t"].dtype).tobytes() and f["g/t"].attrs["unit"] == "mm"
        assert f["g/t"].dtype == _packed(aligned) and "metatensor.kind" not in f["g/t"].attrs
    for path in ("a.h5", "b.mt", "b.npz", "b.h5"):
        with holdall.open(tmp_path / path) as f:
            records = f["g/t"].records()
            packed = wanted.astype(_packed(aligned))
            assert records.numpy()["n"]["w"].tolist() == wanted["n"]["w"].tolist()
            assert [r["x"] for r in records[[3, 69]]] == [wanted["x"][3], wanted["x"][69]] or np.isnan(wanted["x"][[3, 69]]).any()
            assert records.numpy().astype(packed.dtype).tobytes() == packed.tobytes()
            assert f["zeros"].records().numpy()["x"].shape == (70, 50) and not f["zeros"].records().numpy()["x"].any()
            assert f["g/t"].attributes["unit"] == "mm"


SCHEMA = '''{"TypeDef:Struct": ["id", "when", "kind", "box", "name", "half", "at"], "type": "object", "properties": {
    "id": {"TypeDef:Int64": true}, "when": {"TypeDef:Timestamp": true}, "kind": {"TypeDef:Enum": true, "enum": ["cat", "dog"]},
    "box": {"TypeDef:Array": true, "items": {"TypeDef:Int16": true}, "minItems": 4, "maxItems": 4},
    "name": {"TypeDef:Array": true, "items": {"TypeDef:Uint32": true}, "minItems": 3, "maxItems": 3, "numpy.descr": "<U3"},
    "half": {"TypeDef:BFloat16": true}, "at": {"TypeDef:Struct": ["x", "y"], "type": "object", "required": ["x", "y"],
        "properties": {"x": {"TypeDef:Float64": true}, "y": {"TypeDef:Boolean": true}}}},
    "required": ["id", "when", "kind", "box", "name", "half", "at"]}'''


def test_records_of_fixed_size_are_compounds(tmp_path):
    rows = [{"id": i, "when": f"2026-01-{i + 1:02}T00:00:00Z", "kind": ["cat", "dog"][i % 2], "box": [i, -i, 2, 3], "name": [97, 98, 0],
             "half": i / 2, "at": {"x": i * 0.25, "y": i % 3 == 0}} for i in range(20)]  # fmt: skip
    holdall.save(tmp_path / "a.mt", {"g/t": holdall.Dataset(rows, json.loads(SCHEMA))})
    holdall.convert(tmp_path / "a.mt", tmp_path / "a.h5")
    assert holdall.verify(tmp_path / "a.h5") and holdall.diff(tmp_path / "a.mt", tmp_path / "a.h5").is_same
    with holdall.open(tmp_path / "a.h5") as f:
        records = f["g/t"].records()
        assert [str(row) for row in records] == [str(row) for row in holdall.open(tmp_path / "a.mt")["g/t"].records()]
    with h5py.File(tmp_path / "a.h5") as f:
        found = f["g/t"][()]
        assert found["id"].tolist() == list(range(20)) and found["box"][3].tolist() == [3, -3, 2, 3]
        assert found["at"]["x"].tolist() == [i * 0.25 for i in range(20)] and found["at"]["y"].dtype == bool
        assert found["kind"].tolist() == [0, 1] * 10 and "metatensor.kind" in f["g/t"].attrs


def test_records_that_compounds_cannot_be(tmp_path):
    pair = np.zeros(3, [("r", "f8"), ("i", "f8")])
    holdall.save(tmp_path / "a.mt", {"pair": pair})
    with pytest.raises(holdall.HoldallError, match="complex numbers"):
        holdall.convert(tmp_path / "a.mt", tmp_path / "a.h5")


def test_compounds_with_texts_and_those_that_records_cannot_be(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["texts"] = np.array([(1, "a")], [("n", "i4"), ("s", h5py.string_dtype())])
        f["nested"] = np.array([((1, "a"),)], [("p", [("n", "i4"), ("s", h5py.string_dtype())])])
        f["w"] = np.ones(3)
        f["regions"] = np.array([(1, f["w"].regionref[:2])], [("n", "i4"), ("r", h5py.regionref_dtype)])
    with holdall.open(tmp_path / "a.h5") as f:
        assert f["w"].numpy().tolist() == [1, 1, 1]
        assert f["texts"].records()[0] == {"n": 1, "s": "a"}
        assert f["nested"].records()[0] == {"p": {"n": 1, "s": "a"}}
        with pytest.raises(holdall.UnsupportedError, match="whose member `r` is references to regions") as info:
            f["regions"].records()
        assert str(info.value).count("hdf5/dtype") == 1


def test_texts_of_one_length_and_times(tmp_path):
    when = np.array(["2026-01-01", "NaT"], "M8[us]")
    wanted = {"s": np.array([[b"a", b"bcd"]], "S3"), "v": np.array([b"ab"], "V2"), "when": when}
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name in ("s", "v"):
            f.create_dataset(f"g/{name}", data=wanted[name])
        f["g/when"] = when.astype(h5py.opaque_dtype(when.dtype))
        f["g/table"] = np.array([(1, when[0])], [("n", "i4"), ("t", h5py.opaque_dtype("<M8[us]"))])
    for source, target in [("a.h5", "b.npz"), ("b.npz", "b.mt"), ("b.mt", "b.h5"), ("a.h5", "c.h5")]:
        holdall.convert(tmp_path / source, tmp_path / target)
    assert holdall.diff(tmp_path / "a.h5", tmp_path / "b.h5").is_same
    arrays = np.load(tmp_path / "b.npz")
    for path in ("b.h5", "c.h5"):
        with h5py.File(tmp_path / path) as f:
            for name, array in wanted.items():
                for found in (f[f"g/{name}"][()], arrays[f"g/{name}"]):
                    assert found.dtype == array.dtype and found.shape == array.shape and found.tobytes() == array.tobytes()
            assert f["g/table"].dtype["t"] == when.dtype and f["g/table"][0]["t"] == when[0]


def test_loading_gives_texts_bytes_and_times(tmp_path):
    wanted = {
        "u": np.array(["a", "bé"]),
        "s": np.array([[b"x", b"yy"]]),
        "d": np.array(["2024-01-01"], "M8[D]"),
        "t": np.array(3, "m8[s]"),
        "x": np.arange(3.0),
    }
    np.savez(tmp_path / "a.npz", **wanted)
    holdall.convert(tmp_path / "a.npz", tmp_path / "a.zt")
    for name in ("a.npz", "a.zt"):
        found = holdall.load(tmp_path / name)
        for key, array in wanted.items():
            assert found[key].dtype == array.dtype and found[key].shape == array.shape, (name, key)
            assert np.array_equal(found[key], array) and found[key].flags.writeable, (name, key)


@pytest.mark.parametrize("format", ["fixed", "table"])
def test_tables_of_pandas(tmp_path, format):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("tables")
    frame = pd.DataFrame({"a": np.arange(50.0), "b": np.arange(50) * 2, "c": [f"t{i}" for i in range(50)]})
    frame.to_hdf(tmp_path / "a.h5", key="df", format=format)
    with holdall.open(tmp_path / "a.h5") as f:
        if format == "table":
            table = f["df/table"].records().numpy()
            assert table["index"].tolist() == list(range(50))
            assert table["values_block_0"][:, 0].tolist() == frame["a"].tolist()
        else:
            assert f["df/block0_values"].numpy()[:, 0].tolist() == frame["a"].tolist()


def test_views_rows_and_slices_are_texts_bytes_and_times_too(tmp_path):
    wanted = {
        "u": np.array([["a", "bé", "日本"], ["", "x", "yz"]]),
        "s": np.array([[b"x", b"yy"], [b"", b"abc"]]),
        "v": np.array([b"ab", b"cd"], "V2"),
        "d": np.array(["2024-01-01", "NaT", "1969-12-31"], "M8[D]"),
        "t": np.array(3, "m8[s]"),
        "one": np.array("scalar"),
        "none": np.zeros((0, 2), "U3"),
        "x": np.arange(6.0).reshape(3, 2),
    }
    np.savez(tmp_path / "a.npz", **wanted)
    for name in ("a.zt", "a.mt", "a.h5"):
        holdall.convert(tmp_path / "a.npz", tmp_path / name)
    keys = [
        (), ..., 0, -1, slice(None), slice(1, 2), slice(None, None, -1), slice(5, 9), (0, 1), (slice(None), 1), (1, slice(1, None)),
        None, (..., 0), [1, 0], (slice(None), slice(None, None, 2)),
    ]  # fmt: skip
    for name in ("a.npz", "a.zt", "a.mt", "a.h5"):
        with holdall.open(tmp_path / name) as f:
            for key, array in wanted.items():
                t = f[key]
                assert t.numpy_dtype == array.dtype, (name, key)
                for found in (t.numpy(), t.numpy(copy=True), np.asarray(t)):
                    assert found.dtype == array.dtype and found.shape == array.shape, (name, key)
                    assert found.tobytes() == array.tobytes(), (name, key)
                into = np.empty(array.shape, array.dtype)
                t.read_into(into)
                assert into.tobytes() == array.tobytes(), (name, key)
                for k in keys:
                    try:
                        part = array[k]
                    except IndexError:
                        with pytest.raises(IndexError):
                            t[k]
                        continue
                    got = t[k]
                    assert np.asarray(got).dtype == np.asarray(part).dtype, (name, key, k)
                    assert np.asarray(got).shape == np.asarray(part).shape, (name, key, k)
                    assert np.asarray(got).tobytes() == np.asarray(part).tobytes(), (name, key, k)
            # The written tensors equal those in the file.
            holdall.save(tmp_path / f"again-{name}.zt", {key: f[key] for key in wanted})
            again = holdall.load(tmp_path / f"again-{name}.zt")
            assert all(again[key].tobytes() == array.tobytes() and again[key].dtype == array.dtype for key, array in wanted.items())


def text(rng, most=12):
    return "".join(rng.choice(list("abcäöß漢🙂 \t\"")) for _ in range(rng.integers(most)))


@pytest.mark.parametrize("seed", range(6))
def test_values_of_any_length_are_those_of_h5py(tmp_path, seed):
    """Random texts, sequences, enumerations and compounds, stored in random ways, are what h5py reads."""
    rng = np.random.default_rng(seed)
    string = h5py.string_dtype()
    level = h5py.enum_dtype({"LOW": -10, "HIGH": 30, "MID": 20}, rng.choice(["i1", "<i2", ">i4"]))
    path = tmp_path / "a.h5"

    def options(count):
        ways = [{}, {"chunks": (max(1, count // 3),)}, {"chunks": (min(7, count),), "compression": "gzip", "shuffle": True}]
        return ways[rng.integers(len(ways))]

    with h5py.File(path, "w", libver=["earliest", "v110", "latest"][seed % 3]) as f:
        for at in range(4):
            count = int(rng.integers(1, 60))
            f.create_dataset(f"t{at}", data=[text(rng, 40) for _ in range(count)], dtype=string, **options(count))
            data = np.empty(count, object)
            data[:] = [rng.random(rng.integers(6)) for _ in range(count)]
            f.create_dataset(f"s{at}", data=data, dtype=h5py.vlen_dtype("<f8"), **options(count))
            rows = np.zeros(count, [("id", "<i8"), ("name", string), ("x", ">f4"), ("level", level), ("two", string, (2,))])
            for row in rows:
                row["id"], row["name"], row["x"] = rng.integers(1 << 60), text(rng), rng.random()
                row["level"], row["two"] = rng.choice([-10, 20, 30]), [text(rng), text(rng)]
            f.create_dataset(f"r{at}", data=rows, **options(count))
            f[f"e{at}"] = rng.choice([-10, 20, 30], count).astype(level)
        layout = h5py.VirtualLayout((20,), string)
        few = min(len(f["t0"]), 10)
        layout[5 : 5 + few] = h5py.VirtualSource(".", "t0", f["t0"].shape, string)[:few]
        f.create_virtual_dataset("v", layout)
    with h5py.File(path) as theirs, holdall.open(path) as ours:
        for name in [*(f"t{at}" for at in range(4)), "v"]:
            assert list(ours[name].records()) == [of.decode() for of in theirs[name]]
        for at in range(4):
            assert [list(of) for of in ours[f"s{at}"].records()] == [list(of) for of in theirs[f"s{at}"]]
            named = {v: k for k, v in ours[f"e{at}"].attributes["hdf5.enum"].items()}
            assert named == {-10: "LOW", 20: "MID", 30: "HIGH"}
            assert (ours[f"e{at}"].numpy() == theirs[f"e{at}"][()]).all()
            for mine, row in zip(ours[f"r{at}"].records(), theirs[f"r{at}"], strict=True):
                assert (mine["id"], mine["name"]) == (row["id"], row["name"].decode())
                assert (mine["x"], list(mine["two"])) == (row["x"], [of.decode() for of in row["two"]])
                assert mine["level"] in (row["level"], named[int(row["level"])])
