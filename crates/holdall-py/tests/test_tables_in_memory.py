"""Tables in memory, which are written without temporary files, and rows that become columns: they give the records that
any other way gives."""

import datetime
import random
import uuid

import holdall
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

UTC = datetime.timezone.utc


def streamed(table):
    """The table as a stream, which is not in memory as a whole."""
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


def built(path, rows, **options):
    report = holdall.build(path, rows, sync=False, overwrite=True, **options)
    with holdall.open(path) as f:
        records = f["records"].records()
        return report, list(records), pa.table(records), records.to_pandas(), records.schema


def same(tmp_path, table):
    """Checks that a table gives the same records as its stream, and comes back as it was."""
    one = built(tmp_path / "one.zt", table)
    for other in (tmp_path / "two.zt", tmp_path / "two.mt"):
        two = built(other, streamed(table))
        assert one[0].records == two[0].records == ("records", len(table))
        assert one[0].inferred == two[0].inferred
        assert repr(one[1]) == repr(two[1])
        assert one[2] == two[2]
        assert one[3].equals(two[3])
    back = one[2]
    assert back.num_rows == table.num_rows
    assert back.cast(table.schema).equals(table.combine_chunks().cast(table.schema)) if len(table) else True
    assert holdall.verify(tmp_path / "one.zt")
    return one


def columns(count, seed=0, nulls=False):
    random.seed(seed)

    def maybe(values):
        return [None if nulls and random.random() < 0.3 else value for value in values]

    texts = ["", "a", "größer", "日本語", "x" * 300, "name", "\U0001f600"]
    return pa.table(
        {
            "i8": pa.array(maybe(range(count)) if count < 100 else maybe([n % 100 for n in range(count)]), pa.int8()),
            "i64": pa.array(maybe([random.getrandbits(62) for _ in range(count)]), pa.int64()),
            "f4": pa.array(maybe([random.random() for _ in range(count)]), pa.float32()),
            "f8": pa.array(maybe([random.random() for _ in range(count)]), pa.float64()),
            "ok": pa.array(maybe([random.random() < 0.5 for _ in range(count)]), pa.bool_()),
            "text": pa.array(maybe([random.choice(texts) for _ in range(count)]), pa.string()),
            "large": pa.array(maybe([random.choice(texts) for _ in range(count)]), pa.large_string()),
            "run": pa.array(maybe([random.choice(texts).encode() for _ in range(count)]), pa.binary()),
            "side": pa.array(maybe([random.choice("abc") for _ in range(count)]), pa.string()).dictionary_encode(),
            "ns": pa.array(maybe([random.getrandbits(60) for _ in range(count)]), pa.timestamp("ns", "UTC")),
            "us": pa.array(maybe([random.getrandbits(50) for _ in range(count)]), pa.timestamp("us")),
            "s": pa.array(maybe([random.getrandbits(30) for _ in range(count)]), pa.timestamp("s", "UTC")),
        }
    )


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("count", [0, 1, 7, 1000, 70_000])
def test_a_table_gives_the_records_of_its_stream(tmp_path, count, nulls):
    same(tmp_path, columns(count, nulls=nulls))


@pytest.mark.parametrize("nulls", [False, True])
def test_slices_and_chunks_have_their_own_rows(tmp_path, nulls):
    table = columns(2000, 1, nulls)
    # Bitmaps and texts that do not begin with their buffers.
    same(tmp_path, table.slice(13, 900))
    same(tmp_path, pa.concat_tables([table.slice(3, 5), table.slice(1000), table.slice(0, 0), table.slice(77, 100)]))


def test_long_texts_are_not_cut(tmp_path):
    texts = ["x" * 5_000_000, "", "é" * 1_000_000, "end"]
    _, _, back, _, _ = same(tmp_path, pa.table({"text": texts * 2, "n": range(8)}))
    assert back["text"].to_pylist() == texts * 2


def test_nulls_with_bytes_behind_them_are_absent(tmp_path):
    values = pa.array(["one", "two", "three"], pa.string())
    bits = pa.py_buffer(bytes([0b101]))
    table = pa.table({"text": pa.Array.from_buffers(pa.string(), 3, [bits, *values.buffers()[1:]])})
    _, rows, _, _, _ = same(tmp_path, table)
    assert rows == [{"text": "one"}, {"text": None}, {"text": "three"}]


def test_columns_of_one_text_lie_together(tmp_path):
    table = columns(5000, 2).select(["text", "i64", "large"])
    holdall.build(tmp_path / "a.zt", table, sync=False)
    with holdall.open(tmp_path / "a.zt") as f:
        assert pa.table(f["records"].records()).cast(table.schema) == table
    whole = (tmp_path / "a.zt").read_bytes()
    at = whole.find("".join(table["text"].to_pylist()).encode())
    assert 0 < at < whole.find("".join(table["large"].to_pylist()).encode())


@pytest.mark.parametrize("row", [0, 3, 65_600])
def test_an_invalid_text_is_refused_with_its_row(tmp_path, row):
    texts = [b"abc"] * 65_700
    texts[row] = b"\xff\xfe"
    raw = pa.array(texts, pa.binary())
    table = pa.table({"text": pa.Array.from_buffers(pa.string(), len(texts), raw.buffers())})
    for given in (table, streamed(table)):
        with pytest.raises(holdall.HoldallError, match=f"row {row}") as e:
            holdall.build(tmp_path / "a.zt", given, sync=False)
        assert e.value.code == "record/utf8"
        assert not (tmp_path / "a.zt").exists()


def test_a_schema_can_ask_for_other_types(tmp_path):
    table = pa.table({"n": pa.array([1, 2, 3], pa.int32()), "more": [1.5, 2.5, 3.5]})
    node = {"type": "number", "TypeDef:Float64": True}
    wide = {"TypeDef:Struct": ["n"], "required": ["n"], "properties": {"n": node}}
    holdall.build(tmp_path / "a.zt", table, wide, ignore_unknown=True, sync=False)
    with holdall.open(tmp_path / "a.zt") as f:
        assert list(f["records"].records()) == [{"n": 1.0}, {"n": 2.0}, {"n": 3.0}]
    with pytest.raises(holdall.UsageError) as e:
        holdall.build(tmp_path / "b.zt", table, wide, sync=False)
    assert e.value.code == "record/unknown-member"
    checked = {**wide, "properties": {"n": {**node, "maximum": 2}}}
    with pytest.raises(holdall.UsageError, match="row 2"):
        holdall.build(tmp_path / "b.zt", table, checked, ignore_unknown=True, sync=False)


@pytest.mark.parametrize("options", [{"dedup": True}, {"threads": 1}, {"encoding": "zstd"}, {"check": True}, {"digest": None}])
def test_options_keep_their_meaning(tmp_path, options):
    table = columns(3000, 3, nulls=True)
    _, rows, back, _, _ = built(tmp_path / "a.zt", table, **options)
    _, others, other, _, _ = built(tmp_path / "b.zt", streamed(table))
    assert repr(rows) == repr(others)
    assert back == other


def test_pandas_and_polars_tables_are_in_memory_too(tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    data = {"n": [1, 2, 3], "text": ["a", "", "ü"], "at": [datetime.datetime(2026, 1, day) for day in (1, 2, 3)]}
    for frame in (pd.DataFrame(data), pl.DataFrame(data)):
        _, rows, _, _, _ = built(tmp_path / "a.zt", frame)
        assert [row["text"] for row in rows] == data["text"]
        assert [row["at"].astype("M8[us]").item() for row in rows] == data["at"]


# Texts of any place in the heap.


def test_texts_are_gathered_from_wherever_they_are(tmp_path):
    table = columns(20_000, 4, nulls=True)
    for given in (table, streamed(table)):
        holdall.build(tmp_path / "a.zt", given, sync=False, overwrite=True)
        for io in ("map", "read"):
            with holdall.open(tmp_path / "a.zt", io=io) as f:
                records = f["records"].records()
                assert pa.table(records) == table
                assert pa.table(records.arrow("text", "run", batch=999)).combine_chunks() == table.select(["text", "run"])
                places = [19_999, 5, 5, 7777, 0, 12_345]
                assert pa.table(records[places]).combine_chunks() == table.take(places).combine_chunks()
                assert pa.table(records[100:300:7]).combine_chunks() == table.take(list(range(100, 300, 7))).combine_chunks()


# Rows.


class Row(dict):
    """A dict that is read value by value."""


class Text(str):
    pass


def both(tmp_path, rows):
    """Checks that rows give the same records as columns and one by one."""
    one = built(tmp_path / "one.zt", rows)
    two = built(tmp_path / "two.zt", [Row(row) for row in rows])
    assert one[4] == two[4]
    assert one[0].inferred == two[0].inferred
    assert repr(one[1]) == repr(two[1])
    assert one[0].records == two[0].records
    return one


NOON = datetime.datetime(2026, 2, 3, 12, 0, 0, 123_456)


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1, "b": "x", "c": 1.5, "d": True, "e": b"y", "f": NOON}] * 3,
        [{"a": 1}, {"a": None}, {}, {"a": 3}],
        [{}, {"b": "later"}, {"a": 2, "b": None}],
        [{"a": 1, "b": "x"}, {"b": "y", "a": 2}, {"c": 1.0}],
        [{"n": 1}, {"n": 2.5}, {"n": 3}],
        [{"n": 2.5}, {"n": 1}],
        [{"n": 2.5}, {"n": 2**53}, {"n": -(2**53)}],
        [{"n": 2**63 - 1}, {"n": -(2**63)}],
        [{"n": 2**63}],
        [{"x": float("nan")}, {"x": float("inf")}, {"x": -0.0}],
        [{"t": NOON}, {"t": NOON.replace(tzinfo=UTC)}, {"t": NOON.astimezone(datetime.timezone(datetime.timedelta(hours=3)))}],
        [{"t": NOON}, {"t": datetime.date(2026, 1, 1)}, {"t": np.datetime64("2026-01-01T00:00:00.000000001")}],
        [{"t": datetime.datetime(1677, 9, 22)}, {"t": datetime.datetime(2262, 4, 11)}],
        [{"text": ""}, {"text": "größer"}, {"text": "日本語" * 1000}],
        [{"text": Text("x")}, {"text": "y"}],
        [{"n": np.int32(3)}, {"n": 4}],
        [{"id": uuid.UUID(int=1)}, {"id": uuid.UUID(int=2)}],
        [{"a": [1, 2]}, {"a": [3, 4]}],
        [{"a": {"b": 1}}, {"a": {"b": 2}}],
        [{"a": None}],
        [{1: "x"}],
        [{"b": True}, {"b": False}, {"b": None}],
    ],
)
def test_rows_give_the_same_records_as_columns(tmp_path, rows):
    try:
        expected = built(tmp_path / "two.zt", [Row(row) for row in rows])
    except Exception as e:
        with pytest.raises(type(e)) as found:
            built(tmp_path / "one.zt", rows)
        assert str(found.value).replace("one.zt", "two.zt") == str(e)
        return
    assert repr(both(tmp_path, rows)[1]) == repr(expected[1])


def test_many_rows_of_any_form(tmp_path):
    random.seed(7)
    rows = []
    for n in range(140_000):
        row = {"n": n, "x": n / 3, "ok": n % 3 == 0, "text": f"row {n}", "at": NOON + datetime.timedelta(seconds=n)}
        for name in list(row):
            if random.random() < 0.01:
                row[name] = None
            elif random.random() < 0.01:
                del row[name]
        if n > 100_000:
            row["late"] = n
            row["x"] = 5
        rows.append(row)
    report, found, _, _, _ = both(tmp_path, rows)
    assert report.records == ("records", len(rows))
    names = ["n", "x", "ok", "text", "at", "late"]
    assert list(found[0]) == names
    for row, record in zip(rows, found):
        for name in ("n", "x", "ok", "text", "late"):
            assert record[name] == row.get(name)


def test_rows_of_two_types_are_refused_as_before(tmp_path):
    for rows in ([{"a": 1}, {"a": "x"}], [{"a": True}, {"a": 1}], [{"a": 1.5}, {"a": 2**53 + 1}, {"a": "x"}]):
        with pytest.raises(holdall.HoldallError) as e:
            holdall.build(tmp_path / "a.zt", rows)
        assert e.value.code == "infer/mixed"


def test_a_row_that_changes_while_it_is_read_is_read_once(tmp_path):
    rows = [{"n": n} for n in range(10)]

    class Changing(datetime.datetime):
        def __sub__(self, other):
            rows.clear()
            return super().__sub__(other)

    rows[3]["t"] = Changing(2026, 1, 1)
    report = holdall.build(tmp_path / "a.zt", rows, sync=False)
    assert report.records[1] <= 10


def test_a_dataset_of_rows_can_be_saved_twice(tmp_path):
    data = holdall.Dataset([{"n": 1}, {"n": 2}])
    holdall.save(tmp_path / "a.zt", {"d": data}, format="ztensor")
    with holdall.open(tmp_path / "a.zt") as f:
        assert list(f["d"].records()) == [{"n": 1}, {"n": 2}]
