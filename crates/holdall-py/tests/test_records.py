"""Datasets of records, and blobs: reading them."""

import base64
import gc
import json
import pathlib
import pickle
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import REJECT, ROOT

import holdall

ACCEPT = ROOT / "corpus/accept/metatensor"
VECTORS = json.loads((ROOT / "corpus/vectors/metatensor/records.json").read_text())
#: The others are about writing.
READ = [v for v in VECTORS if "record" in v.get("expect", v)]
PATHS = json.loads((ROOT / "corpus/vectors/metatensor/accessors.json").read_text())
IO = pytest.mark.parametrize("io", ["map", "read"])


def corpus(name, io="map"):
    f = holdall.open(ACCEPT / f"made-{name}.mt", io=io)
    return f[next(iter(f))]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """The photos of the examples, as the command writes them."""
    path = tmp_path_factory.mktemp("photos") / "photos.mt"
    here = ROOT / "examples/photos"
    build = ["build", "--schema", here / "schema.json", "--records", here / "photos.ndjson", "--files", here / "files"]
    line = [sys.executable, "-m", "holdall", *build, "--file-member", "image", "-o", path]
    subprocess.run(list(map(str, line)), check=True, capture_output=True)
    return path


def by_hand(schema, data, heap=None, count=1, io="map"):
    """Records of these bytes, in a zTensor file, which holds them to nothing."""
    parts = {"data": np.frombuffer(data, np.uint8)}
    if heap is not None:
        parts["blob_data"] = np.frombuffer(heap, np.uint8)
    out = pathlib.Path(by_hand.folder) / f"{by_hand.count}.zt"
    by_hand.count += 1
    with holdall.Writer(out, sync=False) as w:
        w.add_components("r", (count,), "records", parts, {"metatensor.kind": json.dumps(schema)})
    return holdall.open(out, io=io)["r"].records()


@pytest.fixture(autouse=True)
def folder(tmp_path):
    by_hand.folder, by_hand.count = tmp_path, 0


@IO
def test_strings(io):
    r = corpus("strings", io).records()
    assert len(r) == 4 and r.columns == {"id": "uint32", "name": "string"} and r.enums == {}
    assert r.dtype.names == ("id",) and r.dtype.itemsize == 32 and r.dtype["id"] == np.dtype("<u4")
    assert list(r) == [{"id": n, "name": name} for n, name in enumerate(["Ada", "é", "Ada", ""], 1)]
    assert r.texts("name") == r.values("name") == ["Ada", "é", "Ada", ""]
    names = r.column("name")
    assert names.dtype == np.dtypes.StringDType() and names.tolist() == ["Ada", "é", "Ada", ""]
    assert r.column("id").tolist() == r.numpy()["id"].tolist() == [1, 2, 3, 4]
    assert r.schema["TypeDef:Struct"] == ["id", "name"]
    assert repr(r) == "<holdall.Records 'people', 4 records of 32 bytes: id uint32, name string>"


@IO
def test_scalars(io):
    pytest.importorskip("ml_dtypes")
    r = corpus("scalars", io).records()
    a = r.numpy()
    assert a.dtype == r.dtype and a.shape == (3,) and not a.flags.writeable
    assert r.dtype.names == ("t", "x", "n", "h", "c", "b")
    assert [r.dtype.fields[name][1] for name in r.dtype.names] == [0, 8, 12, 16, 18, 19] and r.dtype.itemsize == 20
    assert (a["t"] == np.datetime64(1, "s")).all() and a["t"].dtype == "M8[ns]"
    assert a["x"].tolist() == [0, 1, 2] and a["h"].astype(float).tolist() == [1, 1, 1] and a["b"].all()
    assert r.enums == {"c": ("red", "green")} and r.column("c").tolist() == [0, 1, 0]
    assert r.texts("c") == ["red", "green", "red"]
    assert r[1] == {"t": np.datetime64(1, "s"), "x": 1.0, "n": 1, "h": 1.0, "c": "green", "b": True}


@IO
def test_what_may_be_absent_is_masked(io):
    r = corpus("optional", io).records()
    assert list(r) == [{"id": 7, "flag": True}, {"id": 8, "flag": None}]
    assert r.dtype.names == ("id",) and r.columns == {"id": "uint32", "flag": "bool or absent"}
    flags = r.column("flag")
    assert flags.tolist() == [True, None] and flags.mask.tolist() == [False, True]
    assert r.values("flag") == [True, None]


@IO
def test_unions(io):
    r = corpus("union", io).records()
    assert list(r) == [{"kind": "box", "w": 2.0, "h": 3.0}, {"kind": "circle", "r": 0.5}]
    assert r.column("circle.r").tolist() == [None, 0.5] and r.column("box.h").tolist() == [3.0, None]
    assert r.values("box") == [{"w": 2.0, "h": 3.0}, None]
    assert r.dtype.names == () and r.dtype.itemsize == 32 and r.numpy().shape == (2,)
    with pytest.raises(holdall.UsageError) as info:
        r.column("")
    assert info.value.code == "python/column" and "values(path)" in info.value.hint


@IO
def test_ragged(io):
    t = corpus("ragged", io)
    r = t.records()
    assert [row.tolist() for row in r] == [[1, 2], [], [3]]
    values, offsets = r.ragged()
    assert values.tolist() == [1, 2, 3] and offsets.tolist() == [0, 2, 2, 3] and values.dtype == np.float32
    assert r.ragged().row(0).tolist() == [1, 2] and r.ragged().row(-1).tolist() == [3]
    if io == "map":
        heap = np.asarray(t.components["blob_data"].bytes())
        assert np.shares_memory(values, heap)
    assert not values.flags.writeable and not offsets.flags.writeable
    back = r[::-1].ragged()
    assert back.values.tolist() == [3, 1, 2] and back.offsets.tolist() == [0, 1, 1, 3]
    assert r[1:].ragged().offsets.tolist() == [0, 0, 1] and r[3:].ragged().values.shape == (0,)
    with pytest.raises(holdall.UsageError, match="ragged"):
        r.column("")


@IO
def test_tensors_and_fixed_arrays(io):
    r = corpus("inline", io).records()
    assert r.dtype["image"] == np.dtype((np.uint8, (2, 2))) and r.dtype["at"] == np.dtype(("<f4", (2,)))
    assert r.column("image").tolist() == [[[1, 2], [3, 4]]] and r.column("at").shape == (1, 2)
    assert r[0]["image"].tolist() == [[1, 2], [3, 4]] and r[0]["at"].tolist() == [0.5, 1.5]
    assert r.column("at[1]").tolist() == [1.5]
    assert corpus("symbols", io).records().column("row").shape == (2, 3)


@IO
def test_photos(photos, io):
    with holdall.open(photos, io=io) as f:
        r = f["records"].records()
        expected = [json.loads(line) for line in (ROOT / "examples/photos/photos.ndjson").read_text().splitlines()]
        for found, e in zip(r, expected, strict=True):
            image = (ROOT / "examples/photos/files" / e["image"]).read_bytes() if "image" in e else None
            at = {k: float(np.float32(v)) for k, v in e["at"].items()} if "at" in e else None
            assert found == {**e, "at": at, "image": image}
        assert r.column("at.lat").mask.tolist() == [False, True, False, True]
        assert r.values("tags") == [e["tags"] for e in expected] and r.texts("label")[3] == "other"
        assert r.dtype.names == ("id", "label")
        assert r[1:3].texts("caption") == ["Waiting", "Asleep"]
        for path, code in [("tags", "python/column"), ("image", "python/column"), ("nope", "schema/unknown-path")]:
            with pytest.raises(holdall.HoldallError) as info:
                r.column(path)
            assert info.value.code == code and info.value.tensor == "records"
        for call in (lambda: r.ragged("tags"), lambda: r.ragged("id"), lambda: r.texts("id"), lambda: r.texts("at")):
            with pytest.raises(holdall.UsageError) as info:
                call()
            assert info.value.code == "python/column" and "values" in info.value.hint
        for call in (r.column, r.texts, r.ragged, r.values):
            with pytest.raises(KeyError) as missing:
                call("lable")
            assert missing.value.hint == "did you mean `label`?"
        html = r._repr_html_()
        assert "On the roof" in html and html.count("<tr>") == 5
    assert "closed" in r._repr_html_() and "caption string" in repr(r)


def as_json(value):
    """A Python value as the JSON of records has it."""
    if isinstance(value, dict):
        return {k: as_json(v) for k, v in value.items() if v is not None}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (list, np.ndarray)):
        return [as_json(v) for v in value]
    if isinstance(value, np.datetime64):
        return value
    if isinstance(value, (complex, np.complexfloating)):
        return [as_json(value.real), as_json(value.imag)]
    if isinstance(value, (np.bool_, np.integer)):
        return value.item()
    if isinstance(value, (int, str, bool)) or value is None:
        return value
    x = float(value)
    if x != x or x in (float("inf"), float("-inf")):
        return {"$float": "nan" if x != x else "inf" if x > 0 else "-inf"}
    return x


def same(found, expected, tolerance):
    if isinstance(found, np.datetime64):
        if np.isnat(found):  # NumPy has no other time for the first nanosecond of 64 bits.
            return expected == "1677-09-21T00:12:43.145224192Z"
        second, fraction = re.fullmatch(r"(.*?)(\.\d+)?Z", expected).groups()
        return found == np.datetime64(second, "s").astype("M8[ns]") + int(float(fraction or 0) * 1e9 + 0.5)
    if isinstance(expected, dict) and set(expected) == {"dtype", "shape", "data"}:
        flat = expected["data"]
        for count in reversed(expected["shape"][1:]):
            flat = [flat[at : at + count] for at in range(0, len(flat), count)] if count else []
        return same(found, flat, tolerance) or found == []
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return False
        return found.keys() == expected.keys() and all(same(found[k], v, tolerance) for k, v in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(same(a, b, tolerance) for a, b in zip(found, expected))
    if isinstance(expected, float):
        return abs(found - expected) <= tolerance * abs(expected)
    return type(found) is type(expected) and found == expected


@IO
@pytest.mark.parametrize("vector", READ, ids=lambda v: v["name"])
def test_vectors(vector, io):
    """Every value of the specification's vectors, from its bytes."""
    pytest.importorskip("ml_dtypes")
    expect = vector.get("expect", vector)
    data, heap = bytes.fromhex(expect["record"]), bytes.fromhex(expect["heap"])
    try:
        _, size, stride, has_heap, _ = holdall._holdall.record_types(json.dumps(vector["schema"]))[-1]
    except holdall.HoldallError as e:
        assert e.code == vector.get("error", "schema/open-shape")
        return
    if len(data) != size or not stride:
        with pytest.raises(holdall.MalformedError) as info:
            by_hand(vector["schema"], data, heap if has_heap else None, io=io)
        assert info.value.code == "records/size"
        return
    r = by_hand(vector["schema"], data.ljust(stride, b"\0"), heap if has_heap else None, io=io)
    if "error" in vector:
        with pytest.raises(holdall.MalformedError) as info:
            r[0]
        assert info.value.code == vector["error"] and info.value.tensor == "r"
        return
    # The JSON has the fewest digits that tell a float from others of its kind.
    kinds = json.dumps(vector["schema"])
    tolerance = 0.1 if re.search("Float8|F8|F6|F4", kinds) else 1e-2 if re.search("Float16|F16", kinds) else 1e-7
    assert same(as_json(r[0]), expect["json"], tolerance), (r[0], expect["json"])
    list(r), repr(r), r.numpy(), r.columns, r._repr_html_()


@IO
@pytest.mark.parametrize("vector", PATHS, ids=lambda v: v["name"])
def test_paths(vector, io):
    data, heap = bytes.fromhex(vector["record"]), bytes.fromhex(vector["heap"])
    try:
        r = by_hand(vector["schema"], data, heap or None, io=io)
    except holdall.HoldallError as e:
        if e.code != "records/heap":
            pytest.skip(f"no dataset: {e.code}")
        r = by_hand(vector["schema"], data, heap, io=io)
    if "error" in vector:
        with pytest.raises(holdall.HoldallError) as info:
            r.values(vector["path"])
        assert info.value.code == vector["error"]
        return
    (found,) = r.values(vector["path"])
    expected = vector["expect"]["value"]
    if isinstance(found, np.datetime64):
        found = found.astype(int).item()
    if isinstance(found, dict) and isinstance(expected, str):
        found = found[r.schema["TypeDef:Union"]["discriminator"]] if "TypeDef:Union" in r.schema else None
        if found is None:
            return
    if isinstance(expected, list) and expected and isinstance(expected[0], str):
        assert len(found) == len(expected)
        return
    assert same(as_json(found), expected, 1e-6), (found, expected)


ABOUT = [p for p in REJECT if re.match(r"(record|schema)\..*\.mt$", p.name)]


@pytest.mark.parametrize("path", ABOUT, ids=lambda p: p.name)
def test_refused(path):
    """Files of the corpus that are wrong about records or blobs, by using them."""
    code = "/".join(path.name.split(".")[:2])
    with pytest.raises(holdall.HoldallError) as info, holdall.open(path) as f:
        for t in f.values():
            if t.layout == "records":
                r = t.records()
                r.numpy(), repr(r)
                for column, what in r.columns.items():
                    if "string" in what and "[" not in what:
                        with pytest.raises(holdall.MalformedError):
                            r.column(column), list(r)
                list(r)
            elif t.layout == "blob":
                b = t.blob()
                list(b), b.texts()
    assert info.value.code == code and type(info.value) in (holdall.MalformedError, holdall.LimitError)


@IO
@pytest.mark.parametrize(
    "name, expected",
    [
        ("blob-utf-8", ["hi", "層", "", "hi"]),
        ("blob-bytes", [b"\0\1\2", b"\xff\0\1\2"]),
        ("blob-json", [{"a": 1}, None]),
        ("blob-elements", [[1.0, 2.0], [3.0]]),
    ],
)
def test_blobs(name, expected, io):
    t = corpus(name, io)
    b = t.blob()
    assert [x.tolist() if isinstance(x, np.ndarray) else x for x in b] == expected
    assert len(b) == len(expected) and len(b[1:]) == len(expected) - 1
    x = b[-1]
    assert (x.tolist() if isinstance(x, np.ndarray) else x) == expected[-1]
    assert b[0:1].tensor.name == "b" and str(len(b)) in repr(b)
    heap = np.asarray(t.components["blob_data"].bytes())
    if name == "blob-elements":
        assert not b[0].flags.writeable and b.dtype == "float32" and b.content == "elements"
        assert np.shares_memory(b[0], heap) == (io == "map")
    view = b.view(0)
    assert view.readonly and (io == "read" or np.shares_memory(np.asarray(view), heap))
    if name in ("blob-utf-8", "blob-json"):
        assert b.texts()[::-1] == b[::-1].texts() and b.texts()[0] in ("hi", '{"a":1}')
    else:
        with pytest.raises(holdall.UsageError) as info:
            b.texts()
        assert info.value.code == "records/content"
    plain = [x.tolist() if isinstance(x, np.ndarray) else x for x in b]
    for some, places in [([1, 0, -1, 1], [1, 0, -1, 1]), (np.array([-1]), [-1]), ([True] + [False] * (len(b) - 1), [0]), ([], [])]:
        found = b[some]
        assert isinstance(found, holdall.Blob) and len(found) == len(places) and found.content == b.content
        for same in (found, pickle.loads(pickle.dumps(found))):
            assert [x.tolist() if isinstance(x, np.ndarray) else x for x in same] == [plain[at] for at in places]
        if name in ("blob-utf-8", "blob-json"):
            assert found.texts() == [b.texts()[at] for at in places]
        if len(places) > 1:
            assert bytes(found[::-1].view(-1)) == bytes(b[1:].view(0)) and len(found[[0, 2]][1:]) == 1
    assert [bytes(b[::-1][[0]].view(0))] == [bytes(b.view(-1))]
    for wrong in (len(b), -len(b) - 1, [0, len(b)], [True]):
        with pytest.raises(IndexError):
            b[wrong]
    for wrong in ("x", [0.5], [[0]]):
        with pytest.raises(TypeError):
            b[wrong]


def test_many_runs(tmp_path):
    texts = ["é" * (at % 50) for at in range(9000)]
    holdall.save(tmp_path / "t.zt", {"t": holdall.Runs(texts, "utf-8"), "big": holdall.Runs([b"x" * (1 << 20)] * 40, "bytes")})
    for io in ("map", "read"):
        with holdall.open(tmp_path / "t.zt", io=io) as f:
            b = f["t"].blob()
            assert list(b) == b.texts() == texts and list(b[::-7]) == texts[::-7]
            assert sum(map(len, f["big"].blob())) == 40 << 20
            runs = iter(b)
            assert next(runs) == ""
        with pytest.raises(holdall.UsageError, match="closed"):
            list(runs)


@IO
@pytest.mark.parametrize("content", ["utf-8", "json"])
def test_a_run_that_is_wrong_is_told_of_in_its_turn(tmp_path, content, io):
    holdall.save(tmp_path / "t.mt", {"t": holdall.Runs([f"text{at}" for at in range(99)], content)})
    (tmp_path / "t.mt").write_bytes((tmp_path / "t.mt").read_bytes().replace(b"text70", b"text\xff0"))
    with holdall.open(tmp_path / "t.mt", io=io) as f:
        for some in (f["t"].blob(), f["t"].blob()[list(range(99))]):
            found, runs = [], iter(some)
            with pytest.raises(holdall.MalformedError, match="run 70"):
                for run in runs:
                    found.append(run)
            assert found == [f"text{at}" for at in range(70)]
            with pytest.raises(holdall.MalformedError, match="run 70"):
                some.texts()


@IO
def test_nothing(io):
    with holdall.open(ACCEPT / "made-nothing.mt", io=io) as f:
        r, b = f["data"].records(), f["blob"].blob()
        assert len(r) == 0 and list(r) == [] and r.numpy().shape == (0,) and r.dtype == np.dtype("<u4")
        assert r.column("").shape == (0,) and r.values("") == [] and len(b) == 0 and list(b) == b.texts() == []
        assert "0 records" in repr(r) and "<table>" in r._repr_html_()


def test_views_are_of_the_map(photos):
    f = holdall.open(photos, io="map")
    t = f["records"]
    r = t.records()
    raw = np.asarray(t.components["data"].bytes())
    a, ids = r.numpy(), r.column("id")
    assert np.shares_memory(a, raw) and np.shares_memory(ids, raw) and ids.strides == (80,)
    with pytest.raises(ValueError):
        ids[0] = 3
    del raw
    f.close()
    del f, t
    gc.collect()
    assert ids.tolist() == [1, 2, 3, 4] and a["id"].tolist() == [1, 2, 3, 4]
    for call in (r.numpy, lambda: r.column("id"), lambda: r[0], lambda: list(r), lambda: r.texts("caption"),
                 lambda: r[1:], lambda: r.values("id"), lambda: r.schema):  # fmt: skip
        with pytest.raises(holdall.UsageError) as info:
            call()
        assert info.value.code == "python/closed"


def test_nothing_stays_mapped(photos, tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("looks at /proc")

    path = tmp_path / "own.mt"
    path.write_bytes(photos.read_bytes())

    def maps():
        return pathlib.Path("/proc/self/maps").read_text().count(str(path))

    for _ in range(10):
        with holdall.open(path, io="map") as f:
            r = f["records"].records()
            kept = [list(r), r.column("label"), r.texts("caption"), r.column("at"), r[1:].numpy()]
        assert maps() == 1
        del r, f, kept
        gc.collect()
        assert maps() == 0


def test_many_threads_read_one_dataset(photos):
    """Some while it is closed: they get the error, or what is right."""
    for _ in range(8):
        f = holdall.open(photos)
        r = f["records"].records()
        expected, wrong = list(r), []

        def go(number):
            try:
                for _ in range(10):
                    if list(r) != expected or r.texts("caption") != [e["caption"] for e in expected]:
                        wrong.append("other values")
            except holdall.UsageError as e:
                if e.code != "python/closed":
                    wrong.append(e)

        threads = [threading.Thread(target=go, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        f.close()
        for t in threads:
            t.join()
        assert not wrong


def test_slices_are_lists(photos):
    r = holdall.open(photos)["records"].records()
    ids = [1, 2, 3, 4]
    for key in (slice(None), slice(1, 3), slice(None, None, -1), slice(3, 0, -2), slice(5, 9), slice(0, 4, 3), slice(-1, None)):
        for other in (slice(None), slice(None, None, -1), slice(1, None)):
            part = r[key][other]
            expected = ids[key][other]
            assert [x["id"] for x in part] == part.column("id").tolist() == part.numpy()["id"].tolist() == expected
            assert part.values("id") == expected and len(part) == len(part.texts("caption")) == len(expected)
            assert len(part.column("at.lat")) == len(expected)
    assert r[-1]["id"] == 4
    for wrong in (4, -5, 10**30):
        with pytest.raises(IndexError):
            r[wrong]
    with pytest.raises(TypeError, match="column"):
        r[1.0]


def test_a_slice_reads_only_its_bytes(tmp_path):
    """Of a sparse file that is larger than what is read by far; counted by the system."""
    if not sys.platform.startswith("linux"):
        pytest.skip("looks at /proc")
    path = tmp_path / "large.mt"
    holdall.save(path, {"r": np.zeros(1 << 20, [("a", "<i8"), ("b", "<f4", 6)])}, sync=False)

    def read_bytes():
        return int(re.search(r"rchar: (\d+)", pathlib.Path("/proc/self/io").read_text()).group(1))

    with holdall.open(path, io="read") as f:
        r = f["r"].records()
        before = read_bytes()
        part = r[1000:1100]
        assert part.numpy().shape == (100,) and part.column("a").shape == (100,) and part[3]["a"] == 0
        assert read_bytes() - before < 4 * 100 * 32 + 4096


def test_a_column_needs_no_memory_for_the_rest(tmp_path):
    """Where nothing is mapped, pieces are read, and the column is kept."""
    a = np.zeros(1 << 19, [("a", "<i4"), ("b", "<f4", 31)])
    a["a"] = np.arange(len(a))
    holdall.save(tmp_path / "a.zt", {"r": a}, encoding="zstd", sync=False)
    with holdall.open(tmp_path / "a.zt") as f:
        found = f["r"].records()[5::3].column("a")
        assert np.array_equal(found, np.arange(5, len(a), 3)) and found.base.nbytes <= 4 * len(a)


STRING = {"TypeDef:Struct": ["s"], "properties": {"s": {"TypeDef:String": True}}, "required": ["s"]}


@IO
def test_texts_that_share_bytes_are_held_to_a_limit(io):
    """Each of many records may point at the same megabyte."""
    count, heap = 20_000, b"x" * (1 << 20)
    r = by_hand(STRING, (bytes(8) + (1 << 20).to_bytes(8, "little")) * count, heap, count, io)
    assert len(r[7]["s"]) == 1 << 20
    for call in (lambda: r.texts("s"), lambda: r.values("s"), lambda: r.column("s")):
        with pytest.raises(holdall.LimitError) as info:
            call()
        assert info.value.code == "record/too-large" and info.value.tensor == "r"


@IO
def test_entries_that_lead_out_of_the_heap(io):
    rng = np.random.default_rng(1)
    for _ in range(300):
        offset, length = ([0, 1, 3, 4, 5, 2**31, 2**63, 2**64 - 1][at] for at in rng.integers(0, 8, 2))
        r = by_hand(STRING, offset.to_bytes(8, "little") + length.to_bytes(8, "little"), b"abcd", io=io)
        sound = offset + length <= 4 and (length or not offset)
        for call in (lambda: r[0]["s"], lambda: r.texts("s")[0], lambda: r.values("s")[0], lambda: r.column("s")[0]):
            try:
                assert call() == "abcd"[offset : offset + length] and (sound or not length)
            except holdall.MalformedError as e:
                assert not sound and e.code in ("record/entry-bounds", "record/entry-empty")


@IO
def test_odd_bytes_are_found_in_columns(io):
    schema = {
        "TypeDef:Struct": ["b", "e", "o", "a"],
        "properties": {
            "b": {"TypeDef:Boolean": True},
            "e": {"TypeDef:Enum": True, "enum": ["x", "y"]},
            "o": {"TypeDef:Boolean": True},
            "a": {"TypeDef:Array": True, "items": {"TypeDef:Boolean": True}},
        },
        "required": ["b", "e", "a"],
        "align": 1,
    }  # fmt: skip
    good = bytes([0, 1, 1, 0]) + bytes(8) + (2).to_bytes(8, "little")
    for at, path, code in [(1, "b", "record/bool-byte"), (2, "e", "record/enum-index"), (3, "o", None)]:
        bad = bytearray(good)
        bad[at] = 2
        r = by_hand(schema, good + bytes(bad), b"\0\1", 2, io)
        if code is None:
            assert r.column(path).tolist() == [None, None]
            continue
        with pytest.raises(holdall.MalformedError) as info:
            r.column(path)
        assert info.value.code == code and "record 1" in str(info.value)
        assert r[:1].column(path).tolist() == [1]
    r = by_hand(schema, good * 2, b"\0\2", 2, io)
    with pytest.raises(holdall.MalformedError) as info:
        r.ragged("a")
    assert info.value.code == "record/bool-byte"


def test_a_schema_that_doubles_is_no_trap():
    """Forty structs without a byte, each with two of the one before: nobody has so many members."""
    defs = {"0": {"TypeDef:Struct": [], "properties": {}, "align": 1}}
    for n in range(1, 41):
        of = {"$ref": f"#/$defs/{n - 1}"}
        defs[str(n)] = {"TypeDef:Struct": ["a", "b"], "properties": {"a": of, "b": of}, "required": ["a", "b"], "align": 1}
    kind = {
        "TypeDef:Struct": ["n", "x"],
        "properties": {"n": {"TypeDef:Uint8": True}, "x": {"$ref": "#/$defs/40"}},
        "required": ["n", "x"],
        "align": 1,
        "$defs": defs,
    }
    r = by_hand(kind, b"\7")
    calls = (lambda: r.dtype, r.numpy, lambda: r.columns, lambda: r.enums, lambda: r[0], lambda: list(r),
             lambda: r.values("x"), lambda: r.column("x"), r.describe)  # fmt: skip
    for call in calls:
        with pytest.raises(holdall.LimitError) as info:
            call()
        assert info.value.tensor == "r" and info.value.code in ("python/dtype", "schema/too-large")
    assert r.column("n").tolist() == [7] and r.values("n") == [7] and repr(r).endswith("1 record of 1 bytes: struct>")
    assert "which cannot be shown: LimitError" in r._repr_html_()


def test_what_is_no_array_says_where_to_look(photos):
    with holdall.open(photos) as f:
        t = f["records"]
        calls = (t.numpy, t.to_dense, lambda: t[0], t.torch, lambda: np.asarray(t), lambda: t.read_into(bytearray(3)))
        for call in calls:
            with pytest.raises((holdall.UnsupportedError, holdall.UsageError)) as info:
                call()
            assert info.value.tensor == "records"
            assert "records()" in info.value.hint, info.value
        with pytest.raises(holdall.UsageError) as info:
            t.blob()
        assert info.value.code == "file/wrong-layout"
    with pytest.raises(holdall.UsageError):
        corpus("flat").records()
    with pytest.raises((holdall.UnsupportedError, holdall.UsageError)) as info:
        corpus("blob-json").numpy()
    assert "blob()" in info.value.hint


@pytest.mark.parametrize("name", ["strings", "scalars", "optional", "union", "ragged", "inline", "blob-json", "blob-elements"])
def test_changed_bytes_end_in_exceptions(name):
    """Every byte of a file changed: an exception or values, nothing else."""
    pytest.importorskip("ml_dtypes")
    data = (ACCEPT / f"made-{name}.mt").read_bytes()
    rng = np.random.default_rng(7)
    outcomes = set()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= int(rng.integers(1, 256))
        try:
            with holdall.open(changed) as f:
                for t in f.values():
                    if t.layout == "records":
                        use(t.records())
                    elif t.layout == "blob":
                        list(t.blob()), repr(t.blob())
            outcomes.add("read")
        except (holdall.HoldallError, UnicodeError) as e:
            outcomes.add(type(e).__name__)
    assert {"MalformedError", "read"} <= outcomes, outcomes


def use(r):
    repr(r), r.dtype, r.numpy(), r.schema, r.enums, list(r), r._repr_html_()
    for path in ["", *r.columns]:
        for call in (r.column, r.texts, r.ragged, r.values):
            try:
                call(path)
            except (holdall.UsageError, holdall.NotFoundError):
                pass


def test_members_are_told(photos):
    with holdall.open(photos) as f:
        r = f["records"].records()
        rows = {row.path: row for row in r.members}
        assert "nt" in rows["id"].kind and rows["at.lat"].base == "record"
        assert set(r.columns) <= set(rows) and rows["caption"].optional == ("or absent" in r.columns["caption"])
        inspected = holdall.inspect(f)["tensors"]["records"]
        assert [m["path"] for m in inspected["members"]] == list(rows)
        assert inspected["members"][0] == rows[inspected["members"][0]["path"]]._asdict()
    line = [sys.executable, "-m", "holdall", "inspect", str(photos), "--json"]
    members = json.loads(subprocess.run(line, check=True, capture_output=True).stdout)["tensors"][0]["members"]
    assert [(m["path"], m["kind"], m["optional"]) for m in members] == [(m.path, m.kind, m.optional) for m in rows.values()]
