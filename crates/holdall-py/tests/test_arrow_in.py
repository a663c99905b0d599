"""Tables of others that become records."""

import datetime

import numpy as np
import pytest

import holdall

pa = pytest.importorskip("pyarrow")


def table():
    return pa.table(
        {
            "id": pa.array([1, 2, 3], pa.uint16()),
            "x": pa.array([0.5, None, 2.0], pa.float32()),
            "name": ["a", "ü", None],
            "raw": pa.array([b"\0", b"", b"xy"], pa.binary()),
            "label": pa.array(["cat", "dog", "cat"]).dictionary_encode(),
            "when": pa.array([0, 1, 2_000_000_000_000_000_001], pa.timestamp("ns", "UTC")),
            "day": pa.array([datetime.date(2024, 5, 1)] * 3),
            "tags": pa.array([["x"], [], ["y", "z"]]),
            "box": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16(), 2)),
            "at": pa.array([{"lat": 1.5, "city": None}, {"lat": 2.5, "city": "b"}, None]),
        }
    )


def test_a_table_becomes_records(tmp_path):
    kind = holdall.schema.infer(table())
    assert kind["required"] == ["id", "raw", "label", "when", "day", "tags", "box"]
    assert kind["properties"]["label"]["enum"] == ["cat", "dog"]
    assert kind["properties"]["at"]["required"] == ["lat"]
    assert holdall.build(tmp_path / "a.mt", table(), kind).records == ("records", 3)
    with holdall.open(tmp_path / "a.mt") as f:
        r = f["records"].records()
        assert r.columns["id"] == "uint16" and r.columns["x"] == "float32 or absent"
        assert r[0]["at"]["lat"] == 1.5 and r[0]["at"].get("city") is None and r[2].get("at") is None
        assert r[2]["when"] == np.datetime64(2_000_000_000_000_000_001, "ns")
        assert r[0]["day"] == np.datetime64("2024-05-01", "ns")
        # And back.
        back = pa.table(r)
        for name in ("id", "x", "name", "raw", "when", "tags", "box"):
            assert back[name].to_pylist() == table()[name].to_pylist(), name
        assert back["label"].to_pylist() == table()["label"].to_pylist()


def test_views_are_what_they_are_views_of(tmp_path):
    """As Polars gives its columns."""
    views = pa.table({"raw": pa.array([b"\0", b"xy"], pa.binary_view()), "name": pa.array(["a", "ü"], pa.string_view())})
    holdall.build(tmp_path / "a.mt", views)
    with holdall.open(tmp_path / "a.mt") as f:
        assert list(f["records"].records()) == [{"raw": b"\0", "name": "a"}, {"raw": b"xy", "name": "ü"}]


def test_ours_come_back_as_they_were(tmp_path):
    tensor = {"TypeDef:Tensor": {"dtype": "F32", "shape": [2, 2]}}
    kind = {
        "TypeDef:Struct": ["t", "b"],
        "required": ["t", "b"],
        "properties": {"t": tensor, "b": {"TypeDef:BFloat16": True}},
    }
    rows = [{"t": np.full((2, 2), n, np.float32), "b": 1.5 + n} for n in range(3)]
    holdall.save(tmp_path / "a.mt", {"rows": holdall.Dataset(rows, kind)})
    with holdall.open(tmp_path / "a.mt") as f:
        arrow = pa.table(f["rows"].records())
        found = holdall.schema.infer(arrow)
        assert found["properties"]["t"] == tensor and "TypeDef:BFloat16" in found["properties"]["b"]
        holdall.save(tmp_path / "b.mt", {"rows": holdall.Dataset(arrow, found)})
        with holdall.open(tmp_path / "b.mt") as g:
            assert np.array_equal(g["rows"].records().column("t"), f["rows"].records().column("t"))
            assert g["rows"].records().values("b") == [1.5, 2.5, 3.5]
        # Records themselves are records, not a table.
        holdall.save(tmp_path / "c.mt", {"rows": holdall.Dataset(f["rows"].records(), kind)})


def test_frames(tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for n, frame in enumerate([pd.DataFrame({"id": [1, 2], "s": ["a", "b"]}), pl.DataFrame({"id": [1, 2], "s": ["a", "b"]})]):
        holdall.build(tmp_path / f"{n}.mt", frame, holdall.schema.infer(frame))
        with holdall.open(tmp_path / f"{n}.mt") as f:
            assert f["records"].records().values("s") == ["a", "b"]


def test_what_records_have_not_is_refused(tmp_path):
    for odd in [
        pa.table({"x": pa.nulls(1, pa.month_day_nano_interval())}),
        pa.table({"x": pa.nulls(1, pa.list_(pa.month_day_nano_interval()))}),
    ]:
        with pytest.raises(holdall.UnsupportedError) as e:
            holdall.schema.infer(odd)
        assert e.value.code == "python/arrow" and "`x`" in str(e.value)
    with pytest.raises(holdall.UnsupportedError):
        holdall.build(tmp_path / "x.mt", odd, {"TypeDef:Struct": ["x"], "properties": {"x": {"TypeDef:Int64": True}}})
    assert not (tmp_path / "x.mt").exists()


@pytest.mark.parametrize("how", ["to_parquet", "to_ipc"])
def test_records_become_files_of_others(tmp_path, how):
    parquet = pytest.importorskip("pyarrow.parquet")
    holdall.build(tmp_path / "a.mt", table(), holdall.schema.infer(table()))
    target = tmp_path / "a.out"
    with holdall.open(tmp_path / "a.mt") as f:
        r = f["records"].records()
        getattr(r.arrow(batch=2), how)(target)
        read = parquet.read_table(target) if how == "to_parquet" else pa.ipc.open_file(target).read_all()
        assert read.to_pylist() == pa.table(r).to_pylist()
        # Small batches are not small row groups.
        assert how != "to_parquet" or parquet.ParquetFile(target).num_row_groups == 1
        with pytest.raises(holdall.UsageError) as e:
            getattr(r.arrow("id"), how)(target)
        assert e.value.code == "write/exists"
        getattr(r.where("id>=2").arrow("id"), how)(target, overwrite=True)
        again = parquet.read_table(target) if how == "to_parquet" else pa.ipc.open_file(target).read_all()
        assert again.to_pylist() == [{"id": 2}, {"id": 3}]
        # And in again, as records.
        holdall.build(tmp_path / "b.mt", read, r.schema)
        with holdall.open(tmp_path / "b.mt") as g:
            assert pa.table(g["records"].records()).to_pylist() == pa.table(r).to_pylist()
        stream = r.arrow("name", batch=1)
    with pytest.raises(Exception, match="closed"):
        getattr(stream, how)(tmp_path / "c.out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.mt", "a.out", "b.mt"]


def test_a_stream_of_ours_is_read_below_a_call_of_ours(tmp_path):
    """pyarrow lets go of the GIL to ask our stream for batches, below our own function, which had it."""
    holdall.build(tmp_path / "a.mt", table(), holdall.schema.infer(table()))
    with holdall.open(tmp_path / "a.mt") as f:
        r = f["records"].records()
        for batch in (1, 2, 100):
            reader = pa.RecordBatchReader.from_stream(r.arrow(batch=batch))
            holdall.build(tmp_path / "b.mt", reader, r.schema, overwrite=True)
            with holdall.open(tmp_path / "b.mt") as g:
                assert pa.table(g["records"].records()).to_pylist() == pa.table(r).to_pylist()


def columns_at(path):
    """The table in a file of that name."""
    parquet, given = pytest.importorskip("pyarrow.parquet"), table()
    if path.suffix in (".parquet", ".pq"):
        parquet.write_table(given, path, row_group_size=2)
        return
    begin = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with begin(path, given.schema) as out:
        out.write_table(given, max_chunksize=2)


@pytest.mark.parametrize("name", ["a.parquet", "a.pq", "a.arrow", "a.arrows", "a.feather"])
def test_files_of_columns_are_records(tmp_path, name):
    columns_at(tmp_path / name)
    assert holdall.schema.infer(tmp_path / name) == holdall.schema.infer(table())
    # Their types say the schema.
    assert holdall.build(tmp_path / "a.mt", tmp_path / name).records == ("records", 3)
    holdall.build(tmp_path / "b.mt", table())
    holdall.save(tmp_path / "c.mt", {"records": holdall.Dataset(str(tmp_path / name))})
    rows = [list(holdall.open(tmp_path / f"{n}.mt")["records"].records()) for n in "abc"]
    assert len(rows[0]) == 3 and repr(rows[0]) == repr(rows[1]) == repr(rows[2])
    narrow = {**holdall.schema.infer(table()), "required": []}
    assert holdall.schema.check(narrow, tmp_path / name)
    # By its first bytes, whatever it is called.
    if name in ("a.parquet", "a.arrow"):
        (tmp_path / name).rename(tmp_path / "a.json")
        assert holdall.build(tmp_path / "d.mt", tmp_path / "a.json").records == ("records", 3)


def test_a_schema_is_inferred_for_what_has_no_types(tmp_path):
    (tmp_path / "a.csv").write_text("id\n1\n")
    for given in (tmp_path / "a.csv", [{"id": 1}], table().to_reader()):
        report = holdall.build(tmp_path / "a.mt", given, overwrite=True)
        assert list(report.inferred["properties"])[0] == "id"
    holdall.save(tmp_path / "b.mt", {"a": holdall.Dataset(tmp_path / "a.csv"), "b": holdall.Dataset(table().to_reader())})
    with holdall.open(tmp_path / "b.mt") as f:
        assert f["a"].records().column("id").tolist() == [1] and len(f["b"].records()) == 3
    with pytest.raises(holdall.MissingFileError):
        holdall.schema.infer(tmp_path / "nothing.parquet")


def test_a_damaged_file_of_columns_says_so(tmp_path):
    for name in ("a.parquet", "a.arrow"):
        columns_at(tmp_path / name)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-20])
        with pytest.raises(holdall.MalformedError) as e:
            holdall.build(tmp_path / "a.mt", tmp_path / name)
        assert e.value.code == "input/columns" and name in str(e.value)
        assert not (tmp_path / "a.mt").exists()


def test_columns_of_one_name_are_refused(tmp_path):
    one, two = pa.array([1]), pa.array([2])
    inner = pa.struct([pa.field("b", pa.int64()), pa.field("b", pa.int64())])
    struct = pa.StructArray.from_arrays([one, two], fields=list(inner))
    tables = {
        "a": pa.table([one, two], names=["a", "a"]),
        "s.b": pa.table([struct], names=["s"]),
        "l.b": pa.table([pa.ListArray.from_arrays([0, 1], struct)], names=["l"]),
    }
    for name, table in tables.items():
        for schema in (None, {"TypeDef:Struct": ["a"], "properties": {"a": {"TypeDef:Int64": True}}}):
            with pytest.raises(holdall.UnsupportedError, match=f"`{name}`") as raised:
                holdall.build(tmp_path / "d.mt", table, schema)
            assert raised.value.code == "records/arrow" and not (tmp_path / "d.mt").exists()
