"""Selections: tensors by pattern, records by position, and as another type."""

import numpy as np
import pytest

import holdall


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(4)
    tensors = {f"layers.{n}.{k}": rng.standard_normal((4, 4)) for n in range(3) for k in ("weight", "bias")}
    tensors["ids"] = np.arange(5)
    tensors["layers.0.weight"][0] = [1e30, -1e300, np.nan, 1 / 3]
    holdall.save(tmp_path / "m.zt", tensors, encoding="zstd")
    return tmp_path / "m.zt"


def test_patterns(model):
    assert list(holdall.load(model, include=["layers.*.bias"])) == [f"layers.{n}.bias" for n in range(3)]
    assert list(holdall.load(model, exclude="layers.*")) == ["ids"]
    found = holdall.load(model, include=["layers.1.*", "ids"], exclude=["*.bias"])
    assert set(found) == {"layers.1.weight", "ids"}
    with holdall.open(model) as f:
        assert list(f.load(include=["ids"])) == ["ids"]
    with pytest.raises(holdall.NotFoundError):
        holdall.load(model, include=["layer.*"])
    with pytest.raises(TypeError):
        holdall.load(model, ["ids"], include=["ids"])
    assert holdall.load(model, exclude=["*"]) == {}


@pytest.mark.parametrize("dtype", ["float32", np.float16, "f16", np.dtype("f4")])
def test_another_type(model, tmp_path, dtype):
    found = holdall.load(model, dtype=dtype)
    holdall.convert(model, tmp_path / "c.zt", dtype=dtype)
    expected = holdall.load(tmp_path / "c.zt")
    assert list(found) == list(holdall.load(model))
    for name, a in expected.items():
        assert found[name].dtype == a.dtype and found[name].tobytes() == a.tobytes() and found[name].flags.writeable
    assert found["ids"].dtype == np.int64 and np.isinf(found["layers.0.weight"]).any()
    tamed = holdall.load(model, include=["*.weight"], dtype=dtype, saturate=True)
    assert not np.isinf(tamed["layers.0.weight"]).any() and len(tamed) == 3


def test_a_type_for_each_pattern(model):
    found = holdall.load(model, ["layers.1.bias", "layers.0.weight"], dtype={"*.bias": "keep", "*": "float32"})
    assert list(found) == ["layers.1.bias", "layers.0.weight"]
    assert [a.dtype for a in found.values()] == [np.float64, np.float32]
    with pytest.raises(holdall.HoldallError):
        holdall.load(model, dtype="int8")
    assert holdall.load(model, [], dtype="float32") == {}


def test_bfloat16(model):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = holdall.load(model, ["layers.2.weight"], dtype="bfloat16")["layers.2.weight"]
    assert a.dtype == ml_dtypes.bfloat16


def test_what_is_not_dense(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    holdall.save(tmp_path / "s.zt", {"s": sparse.eye_array(4, format="csr"), "d": np.ones(2)})
    # Only dense tensors are rounded.
    found = holdall.load(tmp_path / "s.zt", dtype="float32")
    assert found["d"].dtype == np.float32 and isinstance(found["s"], sparse.csr_array) and found["s"].dtype == np.float64
    found = holdall.load(tmp_path / "s.zt", dtype="float32", dense=True)
    assert list(found) == list(holdall.load(tmp_path / "s.zt", dense=True))
    assert found["s"].dtype == found["d"].dtype == np.float32 and np.array_equal(found["s"], np.eye(4))


@pytest.fixture
def rows(tmp_path):
    a = np.zeros(10, [("id", "<i4")])
    a["id"] = np.arange(10)
    holdall.save(tmp_path / "r.mt", {"r": a})
    return holdall.open(tmp_path / "r.mt")["r"].records()


def ids(some):
    return [r["id"] for r in some]


def test_records_by_place(rows):
    assert ids(rows[[1, 5]]) == [1, 5] and ids(rows[[-1, 0, 0]]) == [9, 0, 0]
    assert ids(rows[np.array([3, -3], "i1")]) == [3, 7] and ids(rows[np.array([2], "u8")]) == [2]
    assert ids(rows[[]]) == [] and ids(rows[np.zeros(0, int)]) == []
    assert ids(rows[2:9:3][[2, 0]]) == [8, 2] and ids(rows[::-1][[0, 1]]) == [9, 8]
    some = rows[[7, 2, 5]]
    assert isinstance(some, holdall.Selection) and some.column("id").tolist() == [7, 2, 5] == some.values("id")
    assert rows[[1, 2, 3, 7, 7, 0]].values("id") == [1, 2, 3, 7, 7, 0]
    assert ids(some[[2, 0]]) == [5, 7] and ids(some[::-1]) == [5, 2, 7] and ids(some.sample(3)) == [2, 5, 7]
    assert rows[np.int64(3)] == rows[3] == {"id": 3}


def test_records_by_mask(rows):
    mask = rows.column("id") % 3 == 0
    assert ids(rows[mask]) == [0, 3, 6, 9] and ids(rows[mask.tolist()]) == [0, 3, 6, 9]
    assert ids(rows[2:6][[True, False, False, True]]) == [2, 5]
    assert ids(rows[mask][[False, True, True, False]]) == [3, 6]


def test_what_is_absent_is_in_no_mask(tmp_path):
    kind = {
        "TypeDef:Struct": ["id", "flag", "n"],
        "properties": {
            "id": {"TypeDef:Int64": True},
            "flag": {"TypeDef:Boolean": True},
            "n": {"TypeDef:Int8": True},
        },
        "required": ["id"],
    }
    values = [(None, None), (True, 1), (False, 5), (None, 7), (True, None), (False, None)]
    rows = [
        {"id": at, **({} if flag is None else {"flag": flag}), **({} if n is None else {"n": n})}
        for at, (flag, n) in enumerate(values)
    ]
    holdall.build(tmp_path / "f.mt", rows, kind)
    found = holdall.open(tmp_path / "f.mt")["records"].records()
    assert ids(found[found.column("flag")]) == ids(found.where("flag")) == ids(found.where("flag=true")) == [1, 4]
    assert ids(found.where("!flag")) == [0, 2, 3, 5] and ids(found.where("flag in (true, false)")) == [1, 2, 4, 5]
    n = found.column("n")
    for condition, mask in (("n>0", n > 0), ("n=5", n == 5), ("n<=5", n <= 5)):
        assert ids(found[mask]) == ids(found.where(condition)), condition
    assert ids(found.where("n")) == [1, 2, 3]
    assert ids(found[np.ma.array([1, 99, 4], mask=[False, True, False])]) == [1, 4]


def test_what_selects_nothing_right(rows):
    for key in ([10], [-11], [True], np.zeros(11, bool)):
        with pytest.raises(IndexError):
            rows[key]
    for key in ([1.5], ["id", 3], np.zeros((2, 2), int), 1.5, None):
        with pytest.raises(TypeError):
            rows[key]
    with pytest.raises(IndexError):
        rows[[1, 2]][[2]]


def test_verify_says_what_is_wrong_with_a_file(tmp_path, model):
    data = model.read_bytes()
    for extension in ("zt", "safetensors", "mt"):
        path = tmp_path / f"whole.{extension}"
        holdall.save(path, {"a": np.ones(100)})
        data = path.read_bytes()
        for bad in (b"", data[:5], data[:50], data[:-1], b"hello world, this is not a tensor file"):
            for source in (bad, tmp_path / f"bad.{extension}"):
                (tmp_path / f"bad.{extension}").write_bytes(bad)
                found = holdall.verify(source)
                assert not found and found.verdict in ("bad", "incomplete") and found.tensors == 0
                assert bool(found.findings) == (found.verdict == "bad") and found.finding_count == len(found.findings)
                if found.findings:
                    with pytest.raises(holdall.HoldallError):
                        found.raise_if_bad()
                else:
                    assert found.unverified[0].message
    with pytest.raises(FileNotFoundError):
        holdall.verify(tmp_path / "none.zt")
    assert holdall.verify(model)


def test_what_is_masked_is_not_chosen(tmp_path):
    rows = [{"a": 1}, {}, {"a": 3}, {"a": -1}, {}]
    schema = {"TypeDef:Struct": ["a"], "type": "object", "properties": {"a": {"TypeDef:Int64": True}}}
    holdall.build(tmp_path / "r.mt", rows, schema)
    with holdall.open(tmp_path / "r.mt") as f:
        r = f["records"].records()
        column = r.column("a")
        assert isinstance(column, np.ma.MaskedArray)
        for mask, condition in ((column > -5, "a > -5"), (column <= 1, "a <= 1"), (column == 0, "a = 0")):
            places = [at for at, row in enumerate(rows) if "a" in row and (row["a"] in list(column[mask].compressed()))]
            assert list(r[mask].positions) == places
            assert len(r[mask]) == len(r.where(condition))
        assert list(r[np.ma.masked_array([0, 1, 2], [False, True, False])].positions) == [0, 2]
