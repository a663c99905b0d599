"""What people have in NumPy's files and in tables when they come here, with the results that they expect."""

import math

import numpy as np
import pytest

import holdall
import holdall.numpy


def turned():
    """Arrays as `DataFrame.to_numpy()`, `lstsq`, `qr` and `.T` make them."""
    return {
        "X": np.asfortranarray(np.arange(6.0).reshape(3, 2)),
        "q": np.linalg.qr(np.eye(3) + 1)[0],
        "T": np.ones((3, 4), "i2").T,
        "cube": np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
        "texts": np.asfortranarray([["a", "b"], ["c", "dé"]]),
        "C": np.arange(3.0),
    }


def is_as(found, given):
    assert np.array_equal(found, given) and found.dtype == given.dtype and found.shape == given.shape
    assert found.flags.f_contiguous == given.flags.f_contiguous and found.flags.c_contiguous == given.flags.c_contiguous


def test_arrays_in_fortran_order(tmp_path):
    given = turned()
    np.savez(tmp_path / "a.npz", **given)
    for found in (holdall.load(tmp_path / "a.npz"), holdall.numpy.load_file(tmp_path / "a.npz"), holdall.load(tmp_path / "a.npz", list(given))):
        for name, a in given.items():
            is_as(found[name], a)
            assert found[name].flags.writeable
    with holdall.open(tmp_path / "a.npz") as f:
        assert f["X"].layout == "strided"
        for name, a in given.items():
            t = f[name]
            is_as(t.numpy(), a)
            is_as(t.numpy(copy=True), a)
            is_as(np.asarray(t), a)
            assert np.array_equal(t[0], a[0]) and np.array_equal(t[..., -1], a[..., -1])
            assert not t.numpy().flags.writeable
        assert np.shares_memory(f["X"].numpy(copy=False), f["X"].numpy())
        assert np.array_equal(np.from_dlpack(f["X"]), given["X"])
        for name, a in f.stream():
            assert np.array_equal(a, given[name]), name
        streamed = dict(f.stream(["texts", "X"]))
        assert streamed["texts"].dtype == "<U2" and streamed["X"].flags.f_contiguous
    np.save(tmp_path / "a.npy", given["X"])
    is_as(holdall.load(tmp_path / "a.npy")["data"], given["X"])
    rounded = holdall.load(tmp_path / "a.npz", exclude=["texts"], dtype="float32")
    assert rounded["X"].dtype == np.float32 and np.array_equal(rounded["X"], given["X"])


def test_tied_arrays_in_fortran_order(tmp_path):
    a = np.asfortranarray(np.random.default_rng(1).random((200, 300)))
    given = {"a": a, "b": a, "turned": a.T, "other": a + 1}
    for format, shared in (("zt", True), ("pt", True), ("npz", False)):
        path = tmp_path / f"a.{format}"
        holdall.save(path, given)
        for name, found in holdall.load(path).items():
            is_as(found, given[name])
        assert (path.stat().st_size < 3.5 * a.nbytes) == shared, format


@pytest.mark.parametrize("format", ["zt", "npz", "pt"])
def test_saved_arrays_keep_their_order(tmp_path, format):
    given = turned()
    holdall.save(tmp_path / f"a.{format}", given)
    found = holdall.load(tmp_path / f"a.{format}")
    for name, a in given.items():
        if name != "texts" or format == "zt":
            is_as(found[name], a)
        assert np.array_equal(found[name], a)
    if format == "npz":
        by_numpy = np.load(tmp_path / "a.npz")
        assert sorted(by_numpy) == sorted(given)
        for name, a in given.items():
            assert np.array_equal(by_numpy[name], a) and by_numpy[name].dtype == a.dtype
        assert by_numpy["X"].flags.f_contiguous
    # What a file has in another order is saved again as it is.
    with holdall.open(tmp_path / f"a.{format}") as f:
        holdall.save(tmp_path / "b.npz", f)
    for name, a in holdall.load(tmp_path / "b.npz").items():
        assert np.array_equal(a, given[name]) and a.dtype == given[name].dtype


def test_texts_and_times_of_npz(tmp_path):
    given = {
        "x": np.arange(3.0),
        "names": np.array(["a", "bé"]),
        "d": np.array(["2024-01-01", "NaT"], "M8[D]"),
        "td": np.array([1], "m8[s]"),
        "b": np.array([b"x", b"yy"]),
        "rows": np.array([(1, "x", b"y", "2024-01-01")], [("a", "u1"), ("b", "U3"), ("c", "S2"), ("d", "M8[s]")]),
        "grid": np.zeros((2, 3), [("a", "f4")]),
    }
    np.savez(tmp_path / "a.npz", **given)
    found = holdall.load(tmp_path / "a.npz")
    holdall.save(tmp_path / "b.npz", found)
    holdall.save(tmp_path / "b.zt", found)
    holdall.convert(tmp_path / "a.npz", tmp_path / "c.zt")
    for again in (found, dict(np.load(tmp_path / "b.npz")), holdall.load(tmp_path / "b.zt"), holdall.load(tmp_path / "c.zt")):
        for name, a in given.items():
            b = again[name]
            assert b.dtype == a.dtype and b.shape == a.shape and a.tobytes() == b.tobytes(), name


def test_attributes_are_kept(tmp_path):
    path = tmp_path / "w.zt"
    with holdall.Writer(path, attributes={"a": 1}) as w:
        w.add("x", np.ones(2), {"unit": "m"})
    with holdall.open(path) as f:
        holdall.save(tmp_path / "2.zt", f)
        holdall.save(tmp_path / "3.zt", {"x": f["x"]}, attributes=f.attributes)
    holdall.convert(path, tmp_path / "4.zt")
    for n in (2, 3, 4):
        with holdall.open(tmp_path / f"{n}.zt") as again:
            assert again.attributes == {"a": 1} and again["x"].attributes == {"unit": "m"}


def test_numbers_of_tensors(tmp_path):
    given = {
        "n": np.array(51, np.uint8),
        "v": np.frombuffer(b"42", np.uint8).copy(),
        "i": np.array(0x3130, np.int16),
        "f": np.frombuffer(b"1234", np.float32).copy()[0],
    }
    holdall.save(tmp_path / "a.zt", given)
    with holdall.open(tmp_path / "a.zt") as f:
        assert float(f["n"]) == 51.0 and int(f["n"]) == 51 and math.sqrt(f["n"]) == math.sqrt(51)
        assert float(f["i"]) == 12592.0 and float(f["f"]) == given["f"] and complex(f["i"]) == 12592
        for convert in (float, int, complex):
            with pytest.raises(TypeError, match="one element"):
                convert(f["v"])


def test_columns_of_one_name_are_refused(tmp_path):
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    (tmp_path / "a.csv").write_text("a,a\n1,2\n")
    for build in (
        lambda: holdall.build(tmp_path / "a.mt", table),
        lambda: holdall.build(tmp_path / "a.mt", pd.DataFrame([[1, 2]], columns=["a", "a"])),
        lambda: holdall.build(tmp_path / "a.mt", tmp_path / "a.csv", holdall.schema.infer(tmp_path / "a.csv")),
    ):
        with pytest.raises((holdall.HoldallError, ValueError), match="`a`|'a'"):
            build()
        assert not (tmp_path / "a.mt").exists()


def test_records_load(tmp_path):
    people = [{"name": "Ada", "tags": ["x"], "age": 36}, {"name": "Grace", "tags": []}]
    kind = holdall.schema.infer(people)
    points = np.zeros(3, [("id", "<u4"), ("at", [("lat", "<f4")])])
    given = {
        "people": holdall.Dataset(people, kind),
        "points": points,
        "notes": holdall.Runs(["one", "two"], "utf-8"),
        "w": np.ones(2),
    }
    holdall.save(tmp_path / "a.zt", given)
    found = holdall.load(tmp_path / "a.zt")
    assert list(found["people"]) == list(holdall.open(tmp_path / "a.zt")["people"].records())
    assert found["points"].dtype == points.dtype and found["points"].flags.writeable
    assert list(found["notes"]) == ["one", "two"]
    with holdall.open(tmp_path / "a.zt") as f:
        found = f.load(["people", "notes"])
    # The file is closed.
    assert found["people"][1]["name"] == "Grace" and found["notes"][0] == "one"
    holdall.save(tmp_path / "b.zt", {"deep": {**found, "some": found["people"][1:], "n": 1}})
    again = holdall.load(tmp_path / "b.zt")["deep"]
    assert list(again["people"]) == list(found["people"]) and list(again["notes"]) == ["one", "two"] and again["n"] == 1
    assert [r["name"] for r in again["some"]] == ["Grace"]
    holdall.save(tmp_path / "c.mt", {"few": found["people"].where("age>1"), "last": found["notes"][1:]})
    with holdall.open(tmp_path / "c.mt") as f:
        assert [r["name"] for r in f["few"].records()] == ["Ada"] and list(f["last"].blob()) == ["two"]
