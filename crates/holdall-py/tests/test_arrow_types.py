"""Arrow tables of every type through records and back: the same values, and the same types."""

import datetime
import decimal
import random

import numpy as np
import pytest

import holdall

pa = pytest.importorskip("pyarrow")


def through(tmp_path, table, **how):
    """Returns a table that was built and read again."""
    path = tmp_path / "through.mt"
    holdall.build(path, table, overwrite=True, **how)
    assert holdall.verify(path)
    with holdall.open(path) as f:
        return pa.table(f["records"].records())


def same(found, table):
    """Compares the values and the types of tables."""
    for field in table.schema:
        column = found[field.name]
        assert column.type == field.type, (field.name, column.type, field.type)
        assert column.combine_chunks().to_pylist() == table[field.name].combine_chunks().to_pylist(), field.name


D = decimal.Decimal
DAY = datetime.date(2024, 2, 29)
COLUMNS = {
    "null": pa.nulls(3),
    "bool": pa.array([True, None, False]),
    **{str(t): pa.array([1, None, 3], t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "half": pa.array(np.array([1, 2, 3], "f2")),
    "float": pa.array([0.5, None, 2], pa.float32()),
    "double": pa.array([0.5, None, 2], pa.float64()),
    "string": pa.array(["a", None, "ü"]),
    "large_string": pa.array(["a", None, "ü"], pa.large_string()),
    "string_view": pa.array(["a", None, "ü" * 20], pa.string_view()),
    "binary": pa.array([b"a", None, b""]),
    "large_binary": pa.array([b"a", None, b""], pa.large_binary()),
    "binary_view": pa.array([b"a", None, b""], pa.binary_view()),
    "fixed_binary": pa.array([b"abc", None, b"xyz"], pa.binary(3)),
    "date32": pa.array([DAY, None, datetime.date(1969, 12, 31)], pa.date32()),
    "date64": pa.array([DAY, None, datetime.date(1969, 12, 31)], pa.date64()),
    **{f"timestamp_{u}": pa.array([1, None, -(10**9)], pa.timestamp(u)) for u in ("s", "ms", "us", "ns")},
    "timestamp_utc": pa.array([1, None, -3], pa.timestamp("ns", "UTC")),
    "timestamp_zone": pa.array([1, None, -3], pa.timestamp("ns", "Europe/Paris")),
    "timestamp_zone_us": pa.array([1, None, -3], pa.timestamp("us", "+01:00")),
    "time32_s": pa.array([1, None, 3], pa.time32("s")),
    "time32_ms": pa.array([1, None, 3], pa.time32("ms")),
    "time64_us": pa.array([1, None, 3], pa.time64("us")),
    "time64_ns": pa.array([1000, None, 3000], pa.time64("ns")),
    **{f"duration_{u}": pa.array([1, None, -3], pa.duration(u)) for u in ("s", "ms", "us", "ns")},
    "decimal32": pa.array([D("1.5"), None, D("-2")], pa.decimal32(5, 2)),
    "decimal64": pa.array([D("1.5"), None, D("-2")], pa.decimal64(12, 2)),
    "decimal128": pa.array([D("1.50"), None, D("-12345678901234567890.12")], pa.decimal128(30, 2)),
    "decimal256": pa.array([D("1.5"), None, D("1e-30")], pa.decimal256(70, 30)),
    "decimal_negative": pa.array([D("1200"), None, D("-100")], pa.decimal128(10, -2)),
    "list": pa.array([[1, 2], None, []], pa.list_(pa.int16())),
    "large_list": pa.array([["a"], None, []], pa.large_list(pa.string())),
    "fixed_list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16(), 2)),
    "list_nulls": pa.array([[1, None], None, [None]], pa.list_(pa.int64())),
    "list_null_texts": pa.array([["a", None], [], ["b"]], pa.large_list(pa.string())),
    "fixed_list_nulls": pa.array([[1, None], None, [3, 4]], pa.list_(pa.int16(), 2)),
    "list_of_dates": pa.array([[DAY, None], None, [DAY]], pa.list_(pa.date32())),
    "list_of_decimals": pa.array([[D("1.5")], None, []], pa.list_(pa.decimal128(5, 1))),
    "lists": pa.array([[[1], None, [None]], None, []], pa.list_(pa.list_(pa.int8()))),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": 3, "b": None}]),
    "struct_values": pa.array([[{"value": 1}, None], [], None], pa.list_(pa.struct([("value", pa.int8())]))),
    "struct_dates": pa.array([{"d": DAY, "n": [D("1")]}, None, {"d": None, "n": None}], pa.struct([("d", pa.date32()), ("n", pa.list_(pa.decimal128(3)))])),
    "map": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int32())),
    "map_dates": pa.array([[(DAY, [1])], None, []], pa.map_(pa.date32(), pa.list_(pa.int8()))),
    "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
    "dictionary_int8": pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), ["x", "y"]),
    "dictionary_ordered": pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int16()), ["low", "high"], ordered=True),
    "dictionary_numbers": pa.array([7, None, 7], pa.int64()).dictionary_encode(),
    "dictionary_dates": pa.array([DAY, None, DAY], pa.date32()).dictionary_encode(),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16, None, b"y" * 16], pa.binary(16))),
    "json": pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(["{}", None, "[1]"])),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype="f4").reshape(3, 2, 2)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_comes_back_as_it_was(tmp_path, name):
    table = pa.table({name: COLUMNS[name]})
    same(through(tmp_path, table), table)
    # In several batches, of which some begin inside of the arrays.
    parts = pa.Table.from_batches([*table.slice(1).to_batches(), *table.to_batches(), *table.slice(0, 0).to_batches()])
    same(through(tmp_path, parts), parts)
    # And what came back goes in again.
    with holdall.open(tmp_path / "through.mt") as f:
        r = f["records"].records()
        holdall.build(tmp_path / "again.mt", pa.table(r), r.schema)
        holdall.append(tmp_path / "again.mt", pa.table(r))
        with holdall.open(tmp_path / "again.mt") as g:
            again = g["records"].records()
            same(pa.table(again), pa.concat_tables([parts, parts]))
            for frame in (again.to_pandas(), again.to_polars() if name not in ("map_dates",) else range(10)):
                assert len(frame) == 10


@pytest.mark.parametrize(
    "values",
    [[7, 5], [0.1, 1e300], [DAY, datetime.date(1970, 1, 2)], [decimal.Decimal("2.5"), decimal.Decimal("1.50")], [True, False], [b"b", b"a"], [datetime.timedelta(3), datetime.timedelta(1)]],
    ids=repr,
)
def test_the_order_of_categories_comes_back(tmp_path, values):
    """Of each batch, although its rows do not have all of them."""
    chunks = [[1, None, 0], [1, 1]]
    chunks = [pa.DictionaryArray.from_arrays(pa.array(chunk, pa.int8()), pa.array(values), ordered=True) for chunk in chunks]
    table = pa.table({"c": pa.chunked_array(chunks)})
    back = through(tmp_path, table)
    same(back, table)
    assert all(chunk.dictionary.to_pylist() == values for chunk in back["c"].chunks)


def test_a_whole_table_comes_back(tmp_path):
    table = pa.table(COLUMNS)
    same(through(tmp_path, table), table)
    with holdall.open(tmp_path / "through.mt") as f:
        r = f["records"].records()
        same(pa.table(r.arrow(*list(COLUMNS)[::2], batch=2)), table.select(list(COLUMNS)[::2]))
        assert pa.table(r[::-1]).to_pylist() == table.to_pylist()[::-1]
        assert pa.schema(r).equals(pa.table(r).schema)
        # Other readers see times as times, and texts.
        row = r[0]
        assert row["date32"] == np.datetime64(DAY, "ns") and row["decimal128"] == "1.50" and row["list_nulls"][1] == {"value": None}
        assert row["duration_s"] == 1 and row["uuid"] == b"x" * 16 and row["map"][0] == {"key": "a", "value": 1}


def test_times_out_of_range_name_their_column(tmp_path):
    table = pa.table({"id": [1, 2], "far": pa.array([DAY, datetime.date(9999, 1, 1)])})
    with pytest.raises(holdall.UsageError, match="`far`") as e:
        holdall.build(tmp_path / "a.mt", table)
    assert e.value.code == "record/range" and "row 1" in str(e.value)


def test_types_without_a_kind_are_refused(tmp_path):
    for kind in (pa.month_day_nano_interval(), pa.sparse_union([pa.field("a", pa.int8())]), pa.binary(0)):
        table = pa.table({"x": pa.nulls(1, kind) if kind != pa.binary(0) else pa.array([b""], kind)})
        try:
            found = through(tmp_path, table)
        except holdall.UnsupportedError as e:
            assert e.code == "python/arrow" and "`x`" in str(e)
        else:
            assert found["x"].to_pylist() == table["x"].to_pylist()


def test_annotations_that_do_not_fit_are_ignored(tmp_path):
    node = {"TypeDef:Int32": True, "arrow.type": "tdD", "arrow.dictionary": "g", "arrow.extension": 3, "arrow.nulls": True}
    text = {"TypeDef:String": True, "arrow.type": "w:3", "arrow.nulls": 1}
    kind = {"TypeDef:Struct": ["a", "b"], "required": ["a", "b"], "properties": {"a": node, "b": text}}
    holdall.build(tmp_path / "a.mt", [{"a": 1, "b": "x"}], kind)
    with holdall.open(tmp_path / "a.mt") as f:
        found = pa.table(f["records"].records())
        assert found.schema.types == [pa.int32(), pa.large_string()] and found.to_pylist() == [{"a": 1, "b": "x"}]


def some_type(rng, depth):
    """Returns a random type, and a function that returns a random value of it."""
    simple = [
        (pa.int8(), lambda: rng.randrange(-128, 128)),
        (pa.uint64(), lambda: rng.randrange(1 << 64)),
        (pa.float64(), lambda: rng.choice([0.5, -1e300, 3.25])),
        (pa.bool_(), lambda: rng.random() < 0.5),
        (pa.string(), lambda: rng.choice(["", "a", "ü" * 30])),
        (pa.large_string(), lambda: rng.choice(["", "x" * 13])),
        (pa.binary(), lambda: rng.randbytes(rng.randrange(4))),
        (pa.binary(4), lambda: rng.randbytes(4)),
        (pa.date32(), lambda: datetime.date(2000, 1, 1) + datetime.timedelta(rng.randrange(9999))),
        (pa.timestamp("us"), lambda: datetime.datetime(2000, 1, 1) + datetime.timedelta(microseconds=rng.randrange(10**15))),
        (pa.time32("ms"), lambda: datetime.time(rng.randrange(24), 3)),
        (pa.duration("us"), lambda: datetime.timedelta(microseconds=rng.randrange(10**12))),
        (pa.decimal128(20, 3), lambda: D(rng.randrange(-(10**15), 10**15)).scaleb(-3)),
    ]
    kind = rng.randrange(12 if depth else 8)
    if kind < 8:
        return rng.choice(simple)
    below, make = some_type(rng, depth - 1)
    maybe = lambda: None if rng.random() < 0.3 else make()  # noqa: E731
    if kind == 8:
        return pa.list_(below), lambda: [maybe() for _ in range(rng.randrange(4))]
    if kind == 9:
        return pa.large_list(below), lambda: [make() for _ in range(rng.randrange(4))]
    if kind == 10:
        return pa.map_(pa.string(), below), lambda: [(str(n), maybe()) for n in range(rng.randrange(3))]
    other, make_other = some_type(rng, depth - 1)
    return pa.struct([("x", below), ("y", other)]), lambda: {"x": maybe(), "y": make_other()}


@pytest.mark.parametrize("seed", range(25))
def test_generated_tables_come_back(tmp_path, seed):
    rng = random.Random(seed)
    count = rng.choice([0, 1, 9, 300])
    columns = {}
    for n in range(rng.randrange(1, 6)):
        kind, make = some_type(rng, 2)
        rate = rng.choice([0, 0.3])
        columns[f"c{n}"] = pa.array([None if rng.random() < rate else make() for _ in range(count)], kind)
    table = pa.table(columns)
    if count:
        same(through(tmp_path, pa.table(table.to_batches(max_chunksize=7) and pa.Table.from_batches(table.to_batches(max_chunksize=7)))), table)
    else:
        same(through(tmp_path, table), table)


def test_decimals_and_maps_are_those_of_parquet(tmp_path):
    """A table that was built and a Parquet file that was read have the same types, and the same schema keywords."""
    decimals = [decimal.Decimal("1.50"), decimal.Decimal("-22.25")]
    maps = pa.array([[("a", 1)], [("b", 2), ("c", 3)]], pa.map_(pa.string(), pa.int32()))
    table = pa.table({"price": pa.array(decimals, pa.decimal128(10, 2)), "counts": maps})
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(table, tmp_path / "t.parquet")
    for name, source in {"table": table, "parquet": tmp_path / "t.parquet"}.items():
        holdall.build(tmp_path / f"{name}.mt", source)
        with holdall.open(tmp_path / f"{name}.mt") as file:
            records = file[next(iter(file))].records()
            found = pa.table(records)
            assert found.schema.types == table.schema.types, name
            assert found.to_pylist() == table.to_pylist(), name
            # Compared as numbers, not as texts.
            assert len(records.where("price < 3")) == 2, name
            assert len(records.where("price > -3")) == 1, name
