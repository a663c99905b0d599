"""Open files, tensors and records are pickled by the path of their file."""

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

import holdall


@pytest.fixture
def data(tmp_path):
    rows = np.zeros(20, [("id", "<u4"), ("x", "<f4", 2)])
    rows["id"] = np.arange(20)
    runs = holdall.Runs(["one", "two", "three"], "utf-8")
    holdall.save(tmp_path / "a.mt", {"w": np.arange(12.0).reshape(3, 4), "rows": rows, "notes": runs})
    return tmp_path / "a.mt"


def things(f):
    rows = f["rows"].records()
    return {
        "file": f,
        "tensor": f["w"],
        "component": f["w"].components["data"],
        "records": rows[5:15:3],
        "selection": rows.where("id>=10", "id<13"),
        "blob": f["notes"].blob()[1:],
    }


def seen(things):
    return {
        "file": things["file"].load(["w"])["w"].tolist(),
        "tensor": things["tensor"].numpy().tolist(),
        "component": bytes(things["component"].bytes()),
        "records": [r["id"] for r in things["records"]],
        "selection": [r["id"] for r in things["selection"]],
        "blob": list(things["blob"]),
    }


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_there_and_back(data, protocol):
    with holdall.open(data) as f:
        before = seen(things(f))
        again = pickle.loads(pickle.dumps(things(f), protocol))
    assert seen(again) == before
    assert again["tensor"].file is again["file"]  # It is opened once.
    assert seen(copy.deepcopy(again)) == before


def test_how_it_was_opened(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with holdall.open("a.mt", io="read", check="all", limits={"decoded_len": 1 << 20}, strict=True) as f:
        made = pickle.dumps(f)
    monkeypatch.chdir("/")
    again = pickle.loads(made)
    assert again.io == "read" and again.name == str(tmp_path / "a.mt")
    holdall.save(tmp_path / "c.zt", {"w": np.zeros(1000)}, encoding="zstd")
    small = pickle.loads(pickle.dumps(holdall.open(tmp_path / "c.zt", limits={"decoded_len": 16})["w"]))
    with pytest.raises(holdall.LimitError):
        small.numpy()


def test_under_another_schema(data):
    schema = {"properties": {"v": {"TypeDef:Tensor": {"dtype": "F32", "shape": [3, 4]}}}}
    with holdall.open(data, schema=schema, rename={"v": "w"}, converters={"v": "cast"}) as f:
        assert pickle.loads(pickle.dumps(f))["v"].numpy().tolist() == f["v"].numpy().tolist()


def test_what_has_no_path(data):
    f = holdall.open(data.read_bytes())
    for thing in things(f).values():
        with pytest.raises(TypeError, match="without a path"):
            pickle.dumps(thing)
    with holdall.open(data) as f:
        t = f["w"]
    with pytest.raises(holdall.UsageError):
        pickle.dumps(f)
    with pytest.raises(holdall.UsageError):
        pickle.dumps(t)


def test_a_file_that_went(data):
    made = pickle.dumps(holdall.open(data))
    data.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(made)


def work(records):
    return sum(r["id"] for r in records)


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_other_processes(data, start):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip("there is no such way here")
    with holdall.open(data) as f:
        rows = f["rows"].records()
        with multiprocessing.get_context(start).Pool(2) as pool:
            assert pool.map(work, [rows[:10], rows[10:]]) == [45, 145]


def test_workers_of_torch(data):
    torch = pytest.importorskip("torch")
    with holdall.open(data) as f:
        rows = f["rows"].records()
        for start in ("spawn", "forkserver"):
            loader = torch.utils.data.DataLoader(
                rows, batch_size=5, num_workers=2, multiprocessing_context=start, collate_fn=lambda_free
            )
            assert sorted(n for batch in loader for n in batch) == list(range(20))


def lambda_free(records):
    return [r["id"] for r in records]
