"""Records, blobs and tensors as columns of Arrow, read by the packages that people compute with."""

import gc
import struct

import numpy as np
import pytest

import holdall

pa = pytest.importorskip("pyarrow")

KIND = {
    "TypeDef:Struct": [
        "id", "score", "ok", "half", "label", "when", "name", "note", "raw", "at", "box", "grid", "tags", "points", "pet",
        "more", "brain",
    ],
    "required": ["id", "ok", "label", "when", "name", "raw", "at", "box", "grid", "tags", "points", "pet", "brain"],
    "properties": {
        "id": {"TypeDef:Uint32": True},
        "score": {"TypeDef:Float64": True},
        "ok": {"TypeDef:Boolean": True},
        "half": {"TypeDef:Float16": True},
        "label": {"TypeDef:Enum": True, "enum": ["cat", "dog", "cöw"]},
        "when": {"TypeDef:Timestamp": True},
        "name": {"TypeDef:String": True},
        "note": {"TypeDef:String": True},
        "raw": {"TypeDef:Bytes": True},
        "at": {
            "TypeDef:Struct": ["lat", "city"],
            "required": ["lat"],
            "properties": {"lat": {"TypeDef:Float32": True}, "city": {"TypeDef:String": True}},
        },
        "box": {"TypeDef:Array": True, "items": {"TypeDef:Int16": True}, "minItems": 3, "maxItems": 3},
        "grid": {"TypeDef:Tensor": {"dtype": "F32", "shape": [2, 3]}},
        "tags": {"TypeDef:Array": True, "items": {"TypeDef:String": True}},
        "points": {"TypeDef:Array": True, "items": {"TypeDef:Float64": True}},
        "pet": {
            "TypeDef:Union": {"discriminator": "kind"},
            "mapping": {
                "cat": {"TypeDef:Struct": ["lives"], "required": ["lives"], "properties": {"lives": {"TypeDef:Int32": True}}},
                "dog": {"TypeDef:Struct": ["barks"], "required": ["barks"], "properties": {"barks": {"TypeDef:Boolean": True}}},
            },
        },
        "more": {"TypeDef:Record": True},
        "brain": {"TypeDef:BFloat16": True},
    },
}


def record(n):
    out = {
        "id": n,
        "ok": n % 3 == 0,
        "label": ["cat", "dog", "cöw"][n % 3],
        "when": np.datetime64(n * 1_000_000_007, "ns"),
        "name": "ü" * (n % 4),
        "raw": bytes([n % 256]) * (n % 3),
        "at": {"lat": n / 2, **({"city": f"c{n}"} if n % 2 else {})},
        "box": [n, -n, 1],
        "grid": np.arange(6, dtype="f4").reshape(2, 3) + n,
        "tags": [f"t{k}" for k in range(n % 3)],
        "points": [k / 2 for k in range(n % 4)],
        "pet": {"kind": "cat", "lives": n} if n % 2 else {"kind": "dog", "barks": n % 4 == 0},
        "brain": 1.5,
    }
    if n % 5:
        out |= {"score": n * 1.25, "half": 0.5, "note": f"note {n}", "more": {"a": [n]}}
    return out


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("arrow") / "a.mt"
    rng = np.random.default_rng(1)
    tensors = {
        "rows": holdall.Dataset([record(n) for n in range(1000)], KIND),
        "texts": holdall.Runs(["one", "", "drei ü"], "utf-8"),
        "bytes": holdall.Runs([b"\0\1", b""], "bytes"),
        "vectors": holdall.Runs([[1.0, 2.0], [], [3.0]], "float32"),
        "w": rng.standard_normal((6, 2, 3)).astype("f4"),
        "v": np.arange(10),
        "flags": np.arange(10) % 3 == 0,
        "one": np.array(1.0),
    }
    holdall.save(path, tensors)
    return path


@pytest.fixture(params=["map", "read"])
def file(request, path):
    with holdall.open(path, io=request.param) as f:
        yield f


def plain(x):
    """What both sides' values come to."""
    if isinstance(x, np.ndarray):
        x = x.tolist()
    if isinstance(x, np.datetime64):
        return int(x.astype("<i8"))
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, list):
        return [plain(v) for v in x]
    return x


def expected(r):
    """A record as Arrow has it."""
    import json

    out = plain(r)
    pet = out["pet"]
    out["pet"] = {"kind": pet["kind"], "cat": None, "dog": None}
    out["pet"][pet["kind"]] = {k: v for k, v in pet.items() if k != "kind"}
    out["grid"] = [v for row in out["grid"] for v in row]
    out["more"] = None if out["more"] is None else json.dumps(out["more"], separators=(",", ":"))
    out["brain"] = struct.pack("<f", float(r["brain"]))[2:]
    return out


def rows_of(table):
    table = table.set_column(table.schema.get_field_index("when"), "when", table["when"].cast(pa.int64()))
    grid = table["grid"]
    table = table.set_column(
        table.schema.get_field_index("grid"), "grid", pa.chunked_array([c.storage for c in grid.chunks], grid.type.storage_type)
    )
    out = table.to_pylist()
    for row in out:
        row["more"] = None if row["more"] is None else row["more"].replace(" ", "")
    return out


def test_every_kind_by_pyarrow(file):
    r = file["rows"].records()
    table = pa.table(r)
    table.validate(full=True)
    assert rows_of(table) == [expected(x) for x in r]
    of = table.schema
    assert of.field("label").type == pa.dictionary(pa.uint8(), pa.string()) and not of.field("id").nullable
    assert of.field("when").type == pa.timestamp("ns", "UTC") and of.field("half").type == pa.float16()
    assert of.field("grid").type == pa.fixed_shape_tensor(pa.float32(), [2, 3]) and of.field("score").nullable
    assert of.field("brain").metadata == {b"holdall.dtype": b"bfloat16"}
    assert pa.schema(r) == of


@pytest.mark.parametrize("cut", [slice(10, 20), slice(None, None, 7), slice(None, None, -3), slice(5, 5), slice(999, None)])
def test_parts_of_records(file, cut):
    r = file["rows"].records()
    table = pa.table(r[cut])
    table.validate(full=True)
    assert rows_of(table) == [expected(x) for x in r[cut]]


def test_chosen_records(file):
    r = file["rows"].records()
    for some in (r[[5, 1, 999, 1]], r.where("id>=10", "id<14"), r.sample(20, seed=3), r[[]]):
        table = pa.table(some)
        table.validate(full=True)
        assert rows_of(table) == [expected(x) for x in some]


def test_batches_come_as_they_are_asked_for(file):
    r = file["rows"].records()
    reader = pa.RecordBatchReader.from_stream(r.arrow("id", batch=300))
    first = reader.read_next_batch()
    assert len(first) == 300 and [len(b) for b in reader] == [300, 300, 100]
    assert pa.table(r.arrow(batch=1)).column("id").to_pylist() == list(range(1000))
    with pytest.raises(holdall.UsageError):
        r.arrow(batch=0)


def test_columns_alone(file):
    r = file["rows"].records()
    table = pa.table(r.arrow("at.lat", "id", "pet.cat.lives", "box[1]", "tags"))
    assert table.column_names == ["at.lat", "id", "pet.cat.lives", "box[1]", "tags"]
    assert table["at.lat"].to_pylist() == [n / 2 for n in range(1000)]
    assert table["pet.cat.lives"].to_pylist()[:4] == [None, 1, None, 3]
    assert table["box[1]"].to_pylist()[:3] == [0, -1, -2] and table["tags"][2].as_py() == ["t0", "t1"]
    with pytest.raises(holdall.NotFoundError):
        r.arrow("nope")


def test_columns_that_are_not_asked_for_are_not_read(path, tmp_path):
    data = bytearray(path.read_bytes())
    with holdall.open(path) as f:
        start, end = f["rows"].location["blob_data"]
    data[start:end] = b"\xff" * (end - start)
    (tmp_path / "bad.mt").write_bytes(data)
    with holdall.open(tmp_path / "bad.mt") as f:
        r = f["rows"].records()
        assert pa.table(r.arrow("id", "label", "at.lat"))["id"].to_pylist() == list(range(1000))
        with pytest.raises(Exception, match="UTF-8"):
            pa.table(r.arrow("name"))
        with pytest.raises(Exception, match="UTF-8"):
            pa.table(r)


def test_what_fails_in_the_middle_is_told(path, tmp_path):
    with holdall.open(path) as f:
        r = f["rows"].records()
        reader = pa.RecordBatchReader.from_stream(r.arrow("name", batch=100))
        assert len(reader.read_next_batch()) == 100
    with pytest.raises(Exception, match="closed"):
        reader.read_next_batch()


def test_blobs(file):
    assert pa.table(file["texts"].blob())["texts"].to_pylist() == ["one", "", "drei ü"]
    assert pa.table(file["bytes"].blob())["bytes"].to_pylist() == [b"\0\1", b""]
    assert pa.table(file["vectors"].blob()[::-1])["vectors"].to_pylist() == [[3.0], [], [1.0, 2.0]]


@pytest.mark.parametrize("io", ["map", "read"])
def test_texts_of_blobs_are_columns(tmp_path, monkeypatch, io):
    from holdall import _arrow

    texts = [f"ü{n}" * (n % 4) for n in range(1000)]
    holdall.save(tmp_path / "b.mt", {"texts": holdall.Runs(texts, "utf-8"), "again": holdall.Runs(["a", "b"] * 50, "utf-8", dedup=True)})
    with holdall.open(tmp_path / "b.mt", io=io) as f:
        blob = f["texts"].blob()
        assert pa.table(blob)["texts"].to_pylist() == texts
        assert pa.table(blob[10:20])["texts"].to_pylist() == texts[10:20]
        assert pa.table(blob[[999, 3, 3]])["texts"].to_pylist() == [texts[999], texts[3], texts[3]]
        assert pa.table(blob[:0])["texts"].to_pylist() == []
        assert pa.table(f["again"].blob())["again"].to_pylist() == ["a", "b"] * 50
        monkeypatch.setattr(_arrow, "_BYTES", 4096)
        table = pa.table(blob)
        assert table["texts"].num_chunks > 1 and table["texts"].to_pylist() == texts
        if io == "map":
            heap = f["texts"].components["blob_data"].numpy().__array_interface__["data"][0]
            assert table["texts"].chunk(0).buffers()[2].address == heap


def test_tensors_without_a_copy(path):
    with holdall.open(path, io="map") as f:
        w = pa.array(f["w"])
        assert w.type == pa.fixed_shape_tensor(pa.float32(), [2, 3])
        assert np.array_equal(w.to_numpy_ndarray(), f["w"].numpy())
        assert w.storage.flatten().buffers()[1].address == f["w"].numpy().__array_interface__["data"][0]
        v = pa.array(f["v"])
        assert v.to_pylist() == list(range(10))
        assert v.buffers()[1].address == f["v"].numpy().__array_interface__["data"][0]
        assert pa.array(f["flags"]).to_pylist() == [n % 3 == 0 for n in range(10)]
        with pytest.raises(holdall.UsageError):
            pa.array(f["one"])
        with pytest.raises(holdall.UsageError):
            f["rows"].__arrow_c_array__()
    gc.collect()
    assert v.to_pylist() == list(range(10))  # The map stays for as long as it is looked into.


def test_texts_without_a_copy(tmp_path):
    holdall.save(tmp_path / "t.mt", {"t": holdall.Dataset([{"s": "abc"}, {"s": "de"}], text_kind())})
    with holdall.open(tmp_path / "t.mt", io="map") as f:
        r = f["t"].records()
        table = pa.table(r)
        heap = f["t"].components["blob_data"].numpy()
        address = table["s"].chunk(0).buffers()[2].address
        assert heap.__array_interface__["data"][0] <= address < heap.__array_interface__["data"][0] + heap.nbytes
        assert table["s"].to_pylist() == ["abc", "de"]


def text_kind():
    return {"TypeDef:Struct": ["s"], "required": ["s"], "properties": {"s": {"TypeDef:String": True}}}


def test_records_that_are_no_structs(tmp_path):
    holdall.build(tmp_path / "a.mt", [3, 1, 2], {"TypeDef:Int32": True})
    with holdall.open(tmp_path / "a.mt") as f:
        table = pa.table(f["records"].records())
        assert table.column_names == ["records"] and table["records"].to_pylist() == [3, 1, 2]


def test_a_stream_that_nobody_takes(file):
    r = file["rows"].records()
    for thing in (r.__arrow_c_stream__(), r.__arrow_c_schema__(), *file["w"].__arrow_c_array__()):
        del thing
    gc.collect()


def test_pandas(file):
    pd = pytest.importorskip("pandas")
    if not hasattr(pd.DataFrame, "from_arrow"):
        pytest.skip("this pandas takes no columns of Arrow")
    r = file["rows"].records()
    frame = pd.DataFrame.from_arrow(r.arrow("id", "name", "label", "when", "score", "at.lat"))
    assert frame["id"].tolist() == list(range(1000)) and frame["name"][3] == "üüü"
    assert frame["label"].tolist() == r.texts("label") and frame["score"].isna().sum() == 200
    assert str(frame["when"].dtype) == "datetime64[ns, UTC]" and frame["when"][1].value == 1_000_000_007
    assert len(pd.DataFrame.from_arrow(r)) == 1000


def test_polars(file):
    pl = pytest.importorskip("polars")
    r = file["rows"].records()
    frame = pl.DataFrame(r.arrow("id", "name", "label", "when", "score", "at", "tags", "points", "box", "pet"))
    assert frame.shape == (1000, 10) and frame["id"].sum() == sum(range(1000))
    assert frame["label"].cast(pl.String).to_list() == r.texts("label")
    assert frame["at"].struct.field("city").to_list() == r.values("at.city")
    assert frame["tags"].to_list() == r.values("tags") and frame["score"].null_count() == 200
    assert frame.filter(pl.col("name") == "üüü")["id"].to_list()[:2] == [3, 7]
    assert pl.DataFrame(r).shape == (1000, 17)


def test_a_frame_of_polars(file, tmp_path):
    pl = pytest.importorskip("polars")
    r = file["rows"].records()
    for some in (r, r[::-3], r[7:9], r[:0], r.where("id>=990"), r[[5, 1, 5]]):
        frame = some.to_polars()
        assert frame.equals(pl.DataFrame(some.arrow())) and frame["name"].to_list() == some.texts("name")
        assert frame["note"].to_list() == some.texts("note") and frame["raw"].to_list() == some.values("raw")
    # Short texts and long ones, one after the other in the heap and not.
    texts = [{"s": "é" * (n % 20) + str(n)} for n in range(50_000)]
    holdall.save(tmp_path / "t.mt", {"t": holdall.Dataset(texts, text_kind())})
    with holdall.open(tmp_path / "t.mt") as f:
        r = f["t"].records()
        assert r.to_polars()["s"].to_list() == [t["s"] for t in texts]
        assert r[::-1].to_polars()["s"].to_list() == [t["s"] for t in texts[::-1]]


def test_texts_as_views_where_they_are_asked_for(file):
    r = file["rows"].records()
    plain = pa.table(r)
    asked = pa.schema([("name", pa.string_view())])
    for some in (r, r[::-1], r[5:5], r.where("id<900")):
        table = pa.RecordBatchReader.from_stream(some, schema=asked).read_all()
        table.validate(full=True)
        of = table.schema
        assert of.field("name").type == pa.string_view() and of.field("raw").type == pa.binary_view()
        assert of.field("at").type.field("city").type == of.field("tags").type.value_type == pa.string_view()
        assert rows_of(table) == rows_of(pa.table(some))
    same = pa.RecordBatchReader.from_stream(r, schema=plain.schema).read_all()
    assert same.schema == plain.schema
    with pytest.raises(ValueError):
        r.__arrow_c_stream__(same)


def test_a_batch_has_so_many_bytes(file, tmp_path):
    holdall.save(tmp_path / "t.mt", {"t": np.zeros(40, [("a", "u1", 4 << 20)])})
    with holdall.open(tmp_path / "t.mt") as f:
        reader = pa.RecordBatchReader.from_stream(f["t"].records().arrow())
        assert [len(batch) for batch in reader] == [16, 16, 8]


def test_duckdb(file):
    duckdb = pytest.importorskip("duckdb")
    r = file["rows"].records()
    with duckdb.connect() as db:
        rows = r.arrow("id", "name", "label", "score", "at", "tags", batch=100)
        found = db.sql("select label, count(*), sum(score) from rows group by label order by label").fetchall()
        assert [(str(a), b) for a, b, _ in found] == [("cat", 334), ("cöw", 333), ("dog", 333)]
        assert db.sql('select id from rows where rows."at".city = \'c7\'').fetchall() == [(7,)]
        # DuckDB has no type of half the bits, and everything else.
        most = r.arrow(*(name for name in KIND["TypeDef:Struct"] if name != "half"))
        assert db.sql("select count(*) from most where len(tags) = 2 and pet.cat.lives > 0").fetchall() == [(166,)]
        (whole,) = db.sql("select * exclude (\"when\") from most order by id desc limit 1").fetchall()
        assert whole[0] == 999 and whole[-1] == struct.pack("<H", 0x3FC0)
        picked = r[[999]].arrow("id", "name")
        assert db.sql("select id from picked").fetchall() == [(999,)]
