"""Rows that are Python objects: what becomes of their values, and of the schema that is inferred from them."""

import datetime
import decimal
import fractions
import json
import uuid

import numpy as np
import pytest

import holdall
from holdall._row_values import json_text

UTC = datetime.timezone.utc


def struct(required=None, **members):
    required = list(members) if required is None else required
    return {"type": "object", "TypeDef:Struct": list(members), "required": required, "properties": members}


def kind(name, **more):
    return {f"TypeDef:{name}": True, **more}


def tensor(dtype, *shape):
    return {"TypeDef:Tensor": {"dtype": dtype, "shape": list(shape)}}


def read(path, name="records"):
    with holdall.open(path) as f:
        return list(f[name].records())


def stored(path):
    with holdall.open(path) as f:
        return {role: bytes(part.bytes()) for role, part in f["records"].components.items()}


SCHEMA = struct(
    ["i", "x", "s", "b", "l", "e", "t"],
    i=kind("Int16"),
    u=kind("Uint64"),
    x=kind("Float64"),
    h=kind("Float16"),
    s=kind("String"),
    b=kind("Boolean"),
    raw=kind("Bytes"),
    l={**kind("Array"), "items": kind("Int32")},
    pair={**kind("Array"), "items": kind("Float32"), "minItems": 2, "maxItems": 2},
    e={"enum": ["no", "yes"], "TypeDef:Enum": True},
    t=kind("Timestamp"),
    at=struct(["lat"], lat=kind("Float64"), lon=kind("Float64")),
    more=kind("Record"),
    z=kind("Complex64"),
    kinds={**kind("Array"), "items": struct(name=kind("String"))},
)
ROW = {"i": 1, "x": 0.5, "s": "ä\n", "b": True, "l": [1, 2, 3], "e": "yes", "t": "2024-02-29T00:00:00Z"}
ROWS = [
    ROW,
    {**ROW, "i": -3, "x": float("nan"), "l": (), "u": 2**64 - 1, "h": 1, "pair": (1.5, float("-inf"))},
    {**ROW, "x": 3, "raw": b"\0\xff", "at": {"lon": 1.0, "lat": 2}, "more": {"a": [1, None, "x"], "1": {}}},
    {**ROW, "z": 1 - 2j, "kinds": [{"name": "a"}, {"name": ""}], "b": np.bool_(False), "i": np.int8(7), "x": np.float32(0.1)},
    {**ROW, "l": np.array([1, 2], "i4"), "pair": np.array([1, 2], "f8"), "raw": memoryview(b"abc"), "t": np.datetime64("2024-02-29")},
    {**ROW, "l": np.arange(6, dtype=">i4")[::2], "t": datetime.datetime(2024, 1, 1, 1, 2, 3, 4, UTC), "s": np.str_("x")},
]


def test_rows_become_what_their_json_becomes(tmp_path):
    lines = tmp_path / "rows.ndjson"
    lines.write_text("\n".join(json_text(row) for row in ROWS), encoding="utf-8")
    for dedup in (False, True):
        holdall.build(tmp_path / "a.mt", iter(ROWS * 200), SCHEMA, dedup=dedup, overwrite=True)
        lines.write_text("\n".join(json_text(row) for row in ROWS * 200), encoding="utf-8")
        holdall.build(tmp_path / "b.mt", lines, SCHEMA, dedup=dedup, overwrite=True)
        if dedup:
            assert [str(row) for row in read(tmp_path / "a.mt")] == [str(row) for row in read(tmp_path / "b.mt")]
        else:
            assert stored(tmp_path / "a.mt") == stored(tmp_path / "b.mt")
    assert holdall.verify(tmp_path / "a.mt")


@pytest.mark.parametrize(
    "change",
    [
        {"i": 1 << 15},
        {"i": 1.5},
        {"i": None},
        {"i": "1"},
        {"i": True},
        {"u": -1},
        {"u": 10**30},
        {"x": 10**30 + 1},
        {"x": "1.0"},
        {"s": 3},
        {"b": 1},
        {"raw": "%"},
        {"l": [1, None]},
        {"l": [1, 2.5]},
        {"l": {"a": 1}},
        {"pair": [1.0]},
        {"pair": [1.0, 2.0, 3.0]},
        {"pair": np.zeros(3, "f4")},
        {"e": "perhaps"},
        {"t": "yesterday"},
        {"t": np.datetime64("NaT")},
        {"at": {"lon": 1.0}},
        {"at": {"lat": 1.0, "alt": 2.0}},
        {"at": [1.0]},
        {"more": [1]},
        {"other": 1},
    ],
)
def test_wrong_values_have_the_errors_of_their_json(tmp_path, change):
    rows = [ROW, {**ROW, **change}]
    lines = tmp_path / "rows.ndjson"
    lines.write_text("\n".join(json_text(row) for row in rows), encoding="utf-8")
    with pytest.raises(holdall.HoldallError) as given:
        holdall.build(tmp_path / "a.mt", rows, SCHEMA)
    with pytest.raises(holdall.HoldallError) as expected:
        holdall.build(tmp_path / "a.mt", lines, SCHEMA)
    assert given.value.code == expected.value.code and "row 1" in str(given.value), str(given.value)
    assert not (tmp_path / "a.mt").exists()


def test_values_that_records_have_not_are_refused(tmp_path):
    loop = []
    loop.append(loop)
    for value, error in [({1}, TypeError), (object(), TypeError), (fractions.Fraction(1, 3), TypeError), (loop, holdall.HoldallError)]:
        with pytest.raises(error):
            holdall.build(tmp_path / "a.mt", [{"l": value}], SCHEMA)
        with pytest.raises((TypeError, ValueError, holdall.HoldallError)):
            holdall.schema.infer([{"l": value}])
    with pytest.raises(TypeError, match="keys"):
        holdall.build(tmp_path / "a.mt", [{b"i": 1}], SCHEMA)

    def broken():
        yield ROW
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        holdall.build(tmp_path / "a.mt", broken(), SCHEMA)
    with pytest.raises(UnicodeEncodeError):
        holdall.build(tmp_path / "a.mt", [{**ROW, "s": "\ud800"}], SCHEMA)
    assert not list(tmp_path.iterdir())


def test_keywords_are_checked_in_rows(tmp_path):
    schema = struct(n=kind("Int64", maximum=5))
    rows = [{"n": 1}, {"n": 2}, {"n": 7}, {"n": "x"}]
    with pytest.raises(holdall.UsageError) as e:
        holdall.build(tmp_path / "a.mt", rows, schema)
    assert e.value.code == "record/keyword" and "row 2" in str(e.value)
    holdall.build(tmp_path / "a.mt", rows[:2], schema)
    assert read(tmp_path / "a.mt") == rows[:2]
    rows = [{"n": 1, "m": 2}, {"n": None}]
    loose = {**schema, "required": []}
    holdall.build(tmp_path / "b.mt", rows, loose, ignore_unknown=True, null_absent=True)
    assert read(tmp_path / "b.mt") == [{"n": 1}, {"n": None}]


def test_times_and_decimals_are_taken(tmp_path):
    schema = struct(t=kind("Timestamp"), s=kind("String"), x=kind("Float64"), n=kind("Int8"))
    zone = datetime.timezone(datetime.timedelta(hours=2))
    rows = [
        {"t": datetime.date(2024, 5, 1), "s": datetime.date(2024, 5, 1), "x": decimal.Decimal("0.1"), "n": decimal.Decimal(3)},
        {"t": datetime.datetime(2024, 5, 1, 2, tzinfo=zone), "s": decimal.Decimal("1.20"), "x": 1, "n": np.uint8(1)},
        {"t": datetime.datetime(2024, 5, 1, 0), "s": uuid.UUID(int=5), "x": np.float16(0.5), "n": 1.0},
    ]
    holdall.build(tmp_path / "a.mt", rows, schema)
    found = read(tmp_path / "a.mt")
    assert [row["t"] for row in found] == [np.datetime64("2024-05-01", "ns")] * 3
    assert [row["s"] for row in found] == ["2024-05-01", "1.20", str(uuid.UUID(int=5))]
    assert [row["x"] for row in found] == [0.1, 1.0, 0.5] and [row["n"] for row in found] == [3, 1, 1]
    for far in (datetime.date(9999, 1, 1), np.datetime64("3000-01-01"), datetime.datetime(1, 1, 1)):
        with pytest.raises(holdall.UsageError, match="`t`") as e:
            holdall.build(tmp_path / "b.mt", [{**rows[0], "t": far}], schema)
        assert e.value.code == "record/timestamp"
    with pytest.raises(holdall.UsageError) as e:
        holdall.build(tmp_path / "b.mt", [{**rows[0], "n": decimal.Decimal("1.5")}], schema)
    assert e.value.code == "record/range"


def test_times_of_pandas_keep_their_nanoseconds(tmp_path):
    pd = pytest.importorskip("pandas")
    schema = struct([], t=kind("Timestamp"))
    exact = pd.Timestamp("2024-05-01T00:00:00.000000001")
    holdall.build(tmp_path / "a.mt", [{"t": exact}, {"t": exact.tz_localize("Europe/Paris")}], schema)
    assert [row["t"].astype(int) for row in read(tmp_path / "a.mt")] == [exact.value, exact.value - 7_200_000_000_000]
    assert "TypeDef:Timestamp" in holdall.schema.infer([{"t": exact}])["properties"]["t"]
    with pytest.raises(holdall.UsageError):
        holdall.build(tmp_path / "b.mt", [{"t": pd.NaT}], schema)


def test_a_schema_is_inferred_from_objects():
    rows = [
        {
            "day": datetime.date(2024, 5, 1),
            "at": datetime.datetime(2024, 5, 1),
            "np": np.datetime64("2024"),
            "price": decimal.Decimal("1.5"),
            "raw": b"x",
            "x": float("nan"),
            "big": 2**63,
            "v": np.zeros(3, "f4"),
            "mixed": "text",
        },
        {"day": None, "at": datetime.datetime(1, 1, 1), "v": [1, 2, 3], "mixed": datetime.date(2024, 5, 1)},
    ]
    found = holdall.schema.infer(rows[:1])["properties"]
    names = {name: next(key for key in node if key.startswith("TypeDef:")) for name, node in found.items()}
    assert names == {
        "day": "TypeDef:Timestamp", "at": "TypeDef:Timestamp", "np": "TypeDef:Timestamp", "price": "TypeDef:String",
        "raw": "TypeDef:Bytes", "x": "TypeDef:Float64", "big": "TypeDef:Uint64", "v": "TypeDef:Array", "mixed": "TypeDef:String",
    }  # fmt: skip
    found = holdall.schema.infer(rows)
    assert found["required"] == ["at", "v", "mixed"] and "TypeDef:String" in found["properties"]["mixed"]
    # A time that does not fit makes all of them text.
    assert "TypeDef:String" in found["properties"]["at"]
    assert found["properties"]["v"]["maxItems"] == 3
    with pytest.raises(holdall.UnsupportedError) as e:
        holdall.schema.infer([{"a": datetime.date(2024, 5, 1)}, {"a": 1}])
    assert e.value.code == "infer/mixed"
    assert holdall.schema.infer(iter([{"a": 1}, {"a": "x"}]), first=1)["TypeDef:Struct"] == ["a"]
    columns = {"a": np.arange(3), "b": ["x", None, "y"]}
    assert holdall.schema.infer(columns)["required"] == ["a"]
    table = np.zeros(2, [("x", "f4"), ("n", "u1")])
    assert holdall.schema.infer(table)["TypeDef:Struct"] == ["x", "n"]


def test_build_infers_a_schema_and_says_so(tmp_path):
    rows = [{"id": 1, "name": "a", "day": datetime.date(2024, 5, 1)}, {"id": 2, "name": None, "day": datetime.date(2024, 5, 2)}]
    expected = holdall.schema.infer(rows)
    for n, of in enumerate([rows, iter(rows), tuple(rows)]):
        report = holdall.build(tmp_path / f"{n}.mt", of)
        assert report.inferred == expected and report.records == ("records", 2)
        assert [row["id"] for row in read(tmp_path / f"{n}.mt")] == [1, 2]
    assert holdall.build(tmp_path / "given.mt", rows, expected, null_absent=True).inferred is None
    (tmp_path / "r.csv").write_text("a,b\n1,x\n2,y\n")
    assert holdall.build(tmp_path / "csv.mt", tmp_path / "r.csv").inferred["TypeDef:Struct"] == ["a", "b"]
    assert read(tmp_path / "csv.mt") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    holdall.save(tmp_path / "s.mt", {"r": holdall.Dataset(rows), "c": holdall.Dataset({"x": [1.5, 2.5], "t": ["a", None]})})
    assert [row["name"] for row in read(tmp_path / "s.mt", "r")] == ["a", None]
    assert read(tmp_path / "s.mt", "c") == [{"x": 1.5, "t": "a"}, {"x": 2.5, "t": None}]
    with pytest.raises(holdall.UsageError) as e:
        holdall.build(tmp_path / "none.mt", [])
    assert e.value.code == "infer/no-records"


TENSOR = struct(c=tensor("F32", 2, 2))


@pytest.mark.parametrize("way", ["rows of arrays", "rows of lists", "columns", "saved rows", "structured"])
def test_tensors_are_built_again_from_what_was_read(tmp_path, way):
    a = np.arange(12, dtype="f4").reshape(3, 2, 2)
    out = tmp_path / "a.mt"
    if way == "rows of arrays":
        holdall.build(out, [{"c": x} for x in a], TENSOR)
    elif way == "rows of lists":
        holdall.build(out, [{"c": x.tolist()} for x in a], TENSOR)
    elif way == "columns":
        holdall.save(out, {"records": holdall.Dataset({"c": a}, TENSOR)})
    elif way == "saved rows":
        holdall.save(out, {"records": holdall.Dataset([{"c": x} for x in a], TENSOR)})
    else:
        table = np.zeros(3, [("c", "f4", (2, 2))])
        table["c"] = a
        holdall.save(out, {"records": table})
    with holdall.open(out) as f:
        r = f["records"].records()
        assert np.array_equal(r.column("c"), a)
        holdall.build(tmp_path / "b.mt", [row for row in r], r.schema)
        holdall.build(tmp_path / "c.mt", r, r.schema)
        pa = pytest.importorskip("pyarrow")
        holdall.build(tmp_path / "d.mt", pa.table(r), r.schema)
    for name in ("b.mt", "c.mt", "d.mt"):
        assert np.array_equal([row["c"] for row in read(tmp_path / name)], a), name


def test_tensors_of_other_shapes_and_types(tmp_path):
    schema = struct(["c"], c=tensor("I16", 2), f=tensor("F4", 2, 2), s=tensor("F32"), b=tensor("BOOL", 2))
    rows = [
        {"c": [1, 2], "f": [[1, 0.5], [6, -1]], "s": 1.5, "b": np.array([2, 0], "u1").view(bool)},
        {"c": np.array([1, 2], "i8"), "s": np.float32(2), "b": [True, False]},
        {"c": {"data": [3, 4]}},
    ]
    holdall.build(tmp_path / "a.mt", rows, schema)
    found = read(tmp_path / "a.mt")
    assert [row["c"].tolist() for row in found] == [[1, 2], [1, 2], [3, 4]]
    assert found[0]["f"].astype(float).tolist() == [[1, 0.5], [6, -1]] and float(found[0]["s"]) == 1.5
    assert found[0]["b"].tolist() == found[1]["b"].tolist() == [True, False]
    for wrong in ([1], [1, 2, 3], [[1, 2]], np.zeros(3, "i2"), np.zeros((1, 2), "i2"), 3, "x", [1, 70000], [1, None]):
        with pytest.raises(holdall.UsageError, match="`c") as e:
            holdall.build(tmp_path / "b.mt", [{"c": wrong}], schema)
        assert e.value.code in ("record/count", "record/type", "record/range")


def test_unions_are_taken_from_rows(tmp_path):
    union = {
        "TypeDef:Union": {"discriminator": "kind"},
        "mapping": {"box": struct(["w"], w=kind("Float32")), "text": struct(["t"], t=kind("String"))},
    }
    rows = [{"u": {"kind": "box", "w": 1.5}}, {"u": {"t": "x", "kind": "text"}}]
    holdall.build(tmp_path / "a.mt", rows, struct(u=union))
    assert read(tmp_path / "a.mt") == rows
    with pytest.raises(holdall.UsageError) as e:
        holdall.build(tmp_path / "b.mt", [{"u": {"kind": "ball"}}], struct(u=union))
    assert e.value.code == "record/union-key"


def test_texts_and_bytes_of_columns(tmp_path):
    schema = struct(["s"], s=kind("String"), raw=kind("Bytes"), e={"enum": ["a", "b"], "TypeDef:Enum": True}, j=kind("Record"))
    rows = [{"s": "ä", "raw": b"\0", "e": "b", "j": {"x": 1}}, {"s": ""}, {"s": "z", "e": "a", "raw": b""}] * 3000
    holdall.build(tmp_path / "a.mt", rows, schema)
    with holdall.open(tmp_path / "a.mt") as f:
        r = f["records"].records()
        for path in ("s", "e", "raw"):
            assert r.values(path) == [row.get(path) for row in rows], path
        assert r.texts("s") == r.values("s") and r.texts("e") == r.values("e")
        assert [text and json.loads(text) for text in r.texts("j")] == [row.get("j") for row in rows]
        assert r[5:2:-1].texts("s") == r.texts("s")[5:2:-1] and r[[3, 1]].texts("e") == ["b", None]
        with pytest.raises(holdall.UsageError):
            r.texts("raw")
