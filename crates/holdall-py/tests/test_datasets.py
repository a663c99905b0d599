"""Records with texts, lists, optional and union members, and blobs, from Python's objects into files and back."""

import datetime
import json

import numpy as np
import pytest
from conftest import ROOT

import holdall

FORMATS = pytest.mark.parametrize("name", ["out.mt", "out.zt"])


def struct(required, **members):
    return {
        "type": "object",
        "TypeDef:Struct": list(members),
        "properties": members,
        "required": required,
        "align": "natural",
    }


def kind(name, **more):
    return {f"TypeDef:{name}": True, **more}


SHAPE = {
    "TypeDef:Union": {"discriminator": "kind"},
    "mapping": {
        "box": struct(["w"], w=kind("Float32"), h=kind("Float32")),
        "mask": struct(["bits"], bits={"TypeDef:Tensor": {"dtype": "U8", "shape": [2, 2]}}),
    },
}
EVERYTHING = struct(
    ["id", "name", "tags", "shape", "image", "when", "boxes"],
    id=kind("Int64"),
    name=kind("String"),
    note=kind("String"),
    tags={**kind("Array"), "items": kind("String")},
    shape=SHAPE,
    image=kind("Bytes"),
    when=kind("Timestamp"),
    boxes={**kind("Array"), "items": kind("Float32")},
    at=struct(["lat"], lat=kind("Float64"), lon=kind("Float64")),
    extra=kind("Record"),
    label={"enum": ["cat", "dog"], "TypeDef:Enum": True},
    z=kind("Complex64"),
    pixels={"TypeDef:Tensor": {"dtype": "F32", "shape": [1, 2]}},
)
FULL = {
    "id": 2**62 + 1,
    "name": "層",
    "note": "n",
    "tags": ["a", ""],
    "shape": {"kind": "mask", "bits": np.array([[1, 2], [3, 4]], np.uint8)},
    "image": b"\0\xff",
    "when": np.datetime64("2024-02-29T12:00:00.000000001", "ns"),
    "boxes": np.array([1.5, np.inf], np.float32),
    "at": {"lat": 1.25, "lon": None},
    "extra": {"a": [1, None]},
    "label": "dog",
    "z": 1 - 2j,
    "pixels": np.array([[1, 2]], np.float32),
}
BARE = {
    "id": -1,
    "name": "",
    "tags": [],
    "shape": {"kind": "box", "w": 1.0},
    "image": bytearray(b""),
    "when": datetime.datetime(1970, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    "boxes": [],
    "note": None,
    "pixels": None,
}


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, (np.ndarray, list)):
        return [plain(v) for v in value]
    return value


@FORMATS
def test_records_of_every_kind_come_back(tmp_path, name):
    out = tmp_path / name
    weight = np.arange(3.0)
    holdall.save(out, {"w": weight, "all": holdall.Dataset([FULL, BARE], EVERYTHING)})
    assert holdall.verify(out)
    with holdall.open(out) as f:
        r = f["all"].records()
        first, second = r
        assert plain(first) == {**plain(FULL), "extra": {"a": [1, None]}}
        expected = {**BARE, "when": np.datetime64(0, "ns"), "image": b""}
        assert plain(second) == plain(expected)
        assert r.schema == EVERYTHING and f["w"].numpy().tolist() == weight.tolist()
        # What was read can be written.
        again = tmp_path / f"again-{name}"
        holdall.save(again, {"all": holdall.Dataset(r, r.schema)})
        with holdall.open(again) as g:
            for role, component in f["all"].components.items():
                assert bytes(component.bytes()) == bytes(g["all"].components[role].bytes())


def test_columns_become_records(tmp_path):
    members = {
        "id": kind("Int32"),
        "name": kind("String"),
        "when": kind("Timestamp"),
        "score": kind("Float32"),
        "boxes": {**kind("Array"), "items": kind("Int16")},
        "at": struct(["x"], x=kind("Float32"), y=kind("Float32")),
    }
    schema = struct(["id", "name", "when", "boxes", "at"], **members)
    given = {
        "id": np.array([1, 2], np.int64),
        "name": np.array(["a", "b"]),
        "when": np.array(["2024-01-01", "1969-12-31"], "M8[D]"),
        "score": np.ma.masked_array([0.5, 1.5], [True, False]),
        "boxes": holdall.Ragged(np.array([1, 2, 3], np.int16), np.array([0, 3, 3])),
        "at": {"x": [1, 2], "y": [None, 4]},
    }
    out = tmp_path / "columns.mt"
    holdall.save(out, {"points": holdall.Dataset(given, schema)})
    with holdall.open(out) as f:
        r = f["points"].records()
        assert r.column("id").tolist() == [1, 2] and r.texts("name") == ["a", "b"]
        assert r.column("score").tolist() == [None, 1.5]
        assert r.column("when").tolist() == given["when"].astype("M8[ns]").tolist()
        assert [row.tolist() for row in r.values("boxes")] == [[1, 2, 3], []]
        assert r.values("at") == [{"x": 1.0, "y": None}, {"x": 2.0, "y": 4.0}]
    with pytest.raises(holdall.UsageError, match="column `b` has 1 values, column `a` 2"):
        holdall.Dataset({"a": [1, 2], "b": [1]}, schema)
    with pytest.raises(TypeError, match="column `a`"):
        holdall.Dataset({"a": "text"}, schema)


def test_what_does_not_fit_is_refused(tmp_path):
    schema = struct(["id"], id=kind("Int8"), t={"TypeDef:Tensor": {"dtype": "F32", "shape": [2]}})
    out = tmp_path / "out.zt"
    for rows, error, code in [
        ([{"id": 1}, {"id": 300}], holdall.UsageError, "record/range"),
        ([{"id": 1, "x": 2}], holdall.UsageError, "record/unknown-member"),
        ([{"id": None}], holdall.UsageError, "record/type"),
        ([{"id": 1, "t": [1.0]}], holdall.UsageError, "record/count"),
        ([{"id": 1, "t": datetime.datetime(2024, 1, 1)}], holdall.UsageError, "record/type"),
        ([{"id": 1, "t": object()}], TypeError, None),
    ]:
        with pytest.raises(error) as info:
            holdall.save(out, {"r": holdall.Dataset(rows, schema)})
        assert getattr(info.value, "code", None) == code, info.value
        if str(code).startswith("record/"):
            assert info.value.tensor == "r" and f"row {len(rows) - 1}" in str(info.value)
        assert not out.exists() and not list(tmp_path.iterdir())
    with pytest.raises(holdall.UsageError) as info:
        holdall.save(out, {"r": holdall.Dataset([{"id": 9}], {**schema, "properties": {**schema["properties"],
            "id": {"TypeDef:Int8": True, "maximum": 3}}}, check=True)})  # fmt: skip
    assert info.value.code == "record/keyword"
    with pytest.raises(holdall.UnsupportedError):
        holdall.save(tmp_path / "out.safetensors", {"r": holdall.Dataset([{"id": 1}], schema)})
    holdall.save(out, {"r": holdall.Dataset([{"id": 1, "x": 2}], schema, ignore_unknown=True)})


def test_rows_come_from_files_and_iterators_and_into_writers(tmp_path):
    photos = ROOT / "examples/photos"
    schema = json.loads((photos / "schema.json").read_text())
    rows = tmp_path / "rows.ndjson"
    lines = [json.loads(line) for line in (photos / "photos.ndjson").read_text().splitlines()]
    rows.write_text("\n".join(json.dumps({k: v for k, v in line.items() if k != "image"}) for line in lines))
    with holdall.Writer(tmp_path / "w.zt", sync=False) as w:
        w.add("a", holdall.Dataset(rows, schema), {"note": 1})
        w.add("b", holdall.Dataset(({**line, "image": b"x"} for line in lines), photos / "schema.json", dedup=True))
        w.add("texts", holdall.Runs((str(n) for n in range(3)), "utf-8"))
    with holdall.open(tmp_path / "w.zt") as f:
        assert f["a"].attributes["note"] == 1 and f["a"].records().texts("caption") == f["b"].records().texts("caption")
        assert f["texts"].blob().texts() == ["0", "1", "2"]
    data = holdall.save_bytes({"t": holdall.Runs([b"x" * 3_000_000], "bytes")}, format="metatensor")
    (tmp_path / "b.mt").write_bytes(data)
    with holdall.open(tmp_path / "b.mt") as f:
        assert len(f["t"].blob()[0]) == 3_000_000


@FORMATS
@pytest.mark.parametrize(
    "runs, content",
    [
        (["a", "", "層"], "utf-8"),
        ([b"\0\xff", b""], "bytes"),
        ([{"a": [1, None]}, 3, "x"], "json"),
        ([[1.5, float("nan")], [], np.array([2], np.float32)], "float32"),
        ([np.array([1], ">i8"), [2**62 + 1], range(3)], np.int64),
        ([[True, False], np.array([2, 0], np.uint8).view(bool)], "bool"),
        ([[1 + 2j], np.array([3], np.complex128)], "complex64"),
        (holdall.Ragged(np.array([1, 2, 3], np.uint16), np.array([0, 2, 2, 3])), "uint16"),
    ],
)
def test_runs_come_back(tmp_path, name, runs, content):
    out = tmp_path / name
    holdall.save(out, {"b": holdall.Runs(runs, content)})
    assert holdall.verify(out)
    with holdall.open(out) as f:
        b = f["b"].blob()
        given = [runs.row(at) for at in range(3)] if isinstance(runs, holdall.Ragged) else runs
        assert len(b) == len(given)
        for found, expected in zip(b, given):
            if b.dtype is None:
                assert found == expected
            else:
                expected = np.array(expected)
                if expected.dtype == bool:
                    expected = expected.view(np.uint8) != 0
                assert np.array_equal(found, expected.astype(found.dtype), equal_nan=b.dtype == "float32")
        again = tmp_path / f"again-{name}"
        holdall.save(again, {"b": holdall.Runs(b, b.dtype or b.content)})
        with holdall.open(again) as g:
            assert len(g["b"].blob()) == len(b)


def test_numbers_of_eight_bits(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e8m0fnu"):
        dtype = getattr(ml_dtypes, name)
        given = [np.array([1, 2], dtype), [4.0]]
        holdall.save(tmp_path / "x.zt", {"b": holdall.Runs(given, name)})
        with holdall.open(tmp_path / "x.zt") as f:
            b = f["b"].blob()
            assert b.dtype == name and [run.astype(float).tolist() for run in b] == [[1, 2], [4]]


def test_runs_of_another_content_are_refused(tmp_path):
    out = tmp_path / "out.zt"
    for runs, content, error, text in [
        ([1], "utf-8", TypeError, "text must be a str"),
        (["x"], "bytes", TypeError, "not str"),
        ([float("nan")], "json", ValueError, "JSON"),
        ([[1.5]], "int8", holdall.UsageError, "run 0"),
        ([[1], [300]], "uint8", holdall.UsageError, "run 1"),
        ([np.zeros((1, 1))], "float64", TypeError, "one dimension"),
    ]:
        with pytest.raises(error, match=text):
            holdall.save(out, {"b": holdall.Runs(runs, content)})
        assert not out.exists()
    for runs, content in [("x" * 3, "latin-1"), ([], "str")]:
        with pytest.raises((TypeError, holdall.HoldallError)):
            holdall.Runs(runs, content)
    for of in (b"bytes", 3, {"a": 1}):
        with pytest.raises(TypeError, match="runs must be a path or an iterable"):
            holdall.Runs(of, "json")
    with pytest.raises(holdall.UsageError, match="element type of whole bytes"):
        holdall.save(out, {"b": holdall.Runs([], "float4_e2m1fn")})


def test_blobs_are_built(tmp_path):
    lines = tmp_path / "runs.ndjson"
    lines.write_text('"one"\n"two"\n')
    out = tmp_path / "out.zt"
    report = holdall.build(out, blob="t", runs=lines, content="utf-8")
    assert report.runs == ("t", 2) and report.records is None
    with holdall.open(out) as f:
        assert f["t"].blob().texts() == ["one", "two"]
    kind_of_one = struct(["id"], id=kind("Int32"))
    holdall.build(out, [{"id": 1}], kind_of_one, blob="n", runs=[[1.5], []], content=np.float32, overwrite=True)
    with holdall.open(out) as f:
        assert f["n"].blob()[0].tolist() == [1.5] and len(f["records"].records()) == 1
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a.txt").write_text("text")
    holdall.build(out, blob="f", files=tmp_path / "files", content="utf-8", overwrite=True)
    with holdall.open(out) as f:
        assert f["f"].blob()[0] == "text"
    for how in ({"blob": "b"}, {"blob": "b", "runs": []}, {"runs": [], "content": "json"}):
        with pytest.raises(TypeError):
            holdall.build(out, overwrite=True, **how)
