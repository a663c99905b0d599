"""Batches of records: shuffled, shared, resumed; as torch's tensors, with a stand-in where torch is not installed."""

import pickle
import sys
import types

import numpy as np
import pytest

import holdall
import holdall.torch
from holdall._batches import shuffled

KIND = {
    "TypeDef:Struct": ["id", "box", "label", "ok", "when", "name", "raw", "points", "score", "meta"],
    "required": ["id", "box", "label", "ok", "when", "name", "raw", "points", "meta"],
    "properties": {
        "id": {"TypeDef:Uint32": True},
        "box": {"TypeDef:Array": True, "items": {"TypeDef:Int16": True}, "minItems": 2, "maxItems": 2},
        "label": {"TypeDef:Enum": True, "enum": ["cat", "dog"]},
        "ok": {"TypeDef:Boolean": True},
        "when": {"TypeDef:Timestamp": True},
        "name": {"TypeDef:String": True},
        "raw": {"TypeDef:Bytes": True},
        "points": {"TypeDef:Array": True, "items": {"TypeDef:Float64": True}},
        "score": {"TypeDef:Float32": True},
        "meta": {"TypeDef:Record": True},
    },
}


def record(n):
    out = {
        "id": n,
        "box": [n, -n],
        "label": "dog" if n % 3 else "cat",
        "ok": n % 2 == 0,
        "when": np.datetime64(n, "s").astype("datetime64[ns]"),
        "name": f"ü{n}",
        "raw": bytes([n % 256]) * (n % 3),
        "points": [float(n)] * (n % 4),
        "meta": {"n": n},
    }
    return out if n % 5 == 0 else {**out, "score": n / 2}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("batches")
    out = []
    for name, low, high in [("a.mt", 0, 70), ("b.zt", 70, 101)]:
        holdall.save(folder / name, {"rows": holdall.Dataset(map(record, range(low, high)), KIND), "w": np.ones(3)})
        out.append(folder / name)
    return out


def ids(batches):
    return [n for batch in batches for n in batch["id"].tolist()]


@pytest.mark.parametrize("io", ["map", "read"])
def test_columns_of_a_batch(paths, io):
    with holdall.open(paths[0], io=io) as f:
        r = f["rows"].records()
        (batch,) = holdall.Batches(r.where("id>=10 and id<20"), batch=16)
        some = r[10:20]
        assert list(batch) == list(r.columns)
        for path in ("id", "box", "label", "ok", "when"):
            assert np.array_equal(batch[path], some.column(path)) and batch[path].dtype == some.column(path).dtype
        assert batch["score"].tolist() == some.column("score").tolist()
        assert batch["name"] == some.texts("name") and batch["raw"] == some.values("raw")
        assert batch["meta"] == some.values("meta")
        ragged = some.ragged("points")
        assert np.array_equal(batch["points"].values, ragged.values)
        assert np.array_equal(batch["points"].offsets, ragged.offsets)


def test_files_are_one_after_the_other(paths):
    assert ids(holdall.Batches(paths, ["id"], batch=8)) == list(range(101))
    whole = holdall.Batches(paths, batch=101, shuffle=3)
    (batch,) = whole
    order = batch["id"].tolist()
    assert sorted(order) == list(range(101)) != order
    for number, n in enumerate(order):
        wanted = record(n)
        assert batch["name"][number] == wanted["name"] and batch["raw"][number] == wanted["raw"]
        assert batch["points"].row(number).tolist() == wanted["points"]
        assert batch["score"][number] is np.ma.masked if n % 5 == 0 else batch["score"][number] == n / 2


def test_the_order_is_a_permutation_that_never_changes():
    for count in (1, 2, 3, 7, 64, 1000):
        found = shuffled(np.arange(count), count, 5, 1)
        assert sorted(found.tolist()) == list(range(count))
    assert shuffled(np.arange(8), 1000, 7, 0).tolist() == shuffled(np.arange(1000), 1000, 7, 0)[:8].tolist()
    assert shuffled(np.arange(8), 10**12, 7, 0).max() < 10**12
    assert shuffled(np.arange(6), 6, 1, 0).tolist() == ORDER


#: What ``shuffle=1`` makes of six records: promised, like a file format.
ORDER = [2, 5, 0, 1, 4, 3]


def test_ranks_share_the_batches_and_epochs_differ(paths):
    def order(**options):
        return ids(holdall.Batches(paths, ["id"], batch=4, shuffle=9, **options))

    alone = order()
    assert order(epoch=1) != alone == order()
    shares = [list(holdall.Batches(paths, ["id"], batch=4, shuffle=9, rank=k, ranks=3)) for k in range(3)]
    mixed = [shares[n % 3][n // 3] for n in range(26)]
    assert ids(mixed) == alone
    assert [len(holdall.Batches(paths, batch=4, rank=k, ranks=3)) for k in range(3)] == [9, 9, 8]
    even = [holdall.Batches(paths, ["id"], batch=4, rank=k, ranks=3, drop_last=True) for k in range(3)]
    assert [len(list(b)) for b in even] == [len(b) for b in even] == [8, 8, 8]


def test_it_goes_on_where_it_stopped(paths):
    batches = holdall.Batches(paths, ["id"], batch=10, shuffle=2)
    every = ids(batches)
    assert ids(batches) == every  # It starts over.
    running = iter(batches)
    first = [next(running)["id"].tolist() for _ in range(3)]
    again = holdall.Batches(paths, ["id"], batch=10, shuffle=2)
    again.load_state_dict(pickle.loads(pickle.dumps(batches.state_dict())))
    assert sum(first, []) + ids(again) == every
    again.skip(3)
    assert sum(first, []) + ids(again) == every
    again.set_epoch(1)
    assert sorted(ids(again)) == sorted(every)
    copy = pickle.loads(pickle.dumps(batches))
    assert sum(first, []) + ids(copy) == every


def test_what_cannot_be_read_is_refused(paths, tmp_path):
    holdall.build(tmp_path / "c.mt", [{"id": "x"}], {**KIND, "TypeDef:Struct": ["id"], "required": ["id"], "properties": {"id": {"TypeDef:String": True}}})
    for wrong, sources, options in [
        (holdall.UsageError, paths, {"batch": 0}),
        (holdall.UsageError, [], {"batch": 1}),
        (holdall.UsageError, paths, {"batch": 1, "rank": 2, "ranks": 2}),
        (holdall.NotFoundError, paths, {"batch": 1, "columns": ["nope"]}),
        (holdall.NotFoundError, paths, {"batch": 1, "path": "nope"}),
        (holdall.UsageError, [paths[0], tmp_path / "c.mt"], {"batch": 1, "columns": ["id"]}),
    ]:
        with pytest.raises(wrong):
            list(holdall.Batches(sources, **options))
    holdall.save(tmp_path / "none.zt", {"w": np.ones(2)})
    with pytest.raises(holdall.NotFoundError) as e:
        list(holdall.Batches(tmp_path / "none.zt", batch=1))
    assert e.value.code == "records/which-dataset"


class Shared(np.ndarray):
    def share_memory_(self):
        return self


@pytest.fixture(params=["own", "stand-in"])
def torch(request, monkeypatch):
    """torch itself, or as much of it as is called."""
    if request.param == "own":
        yield pytest.importorskip("torch")
        return
    module, data = types.ModuleType("torch"), types.ModuleType("torch.utils.data")
    module.utils = types.SimpleNamespace(data=data)
    data.IterableDataset = data.Dataset = object
    data.info = None
    data.get_worker_info = lambda: data.info
    module.from_numpy = lambda a: a
    module.int64 = np.int64
    module.zeros = lambda count, dtype: np.zeros(count, dtype).view(Shared)
    for name in ("Dataset", "IterableDataset"):
        monkeypatch.delitem(vars(holdall.torch), name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", module)
    yield module
    for name in ("Dataset", "IterableDataset"):
        vars(holdall.torch).pop(name, None)


def test_batches_become_tensors(torch, paths):
    data = holdall.torch.IterableDataset(paths, batch=8)
    batch = next(iter(data))
    assert batch["id"].tolist() == list(range(8)) and batch["when"].tolist()[1] == 1_000_000_000
    assert batch["score"].tolist()[:2] == [0.0, 0.5] and batch["score?"].tolist()[:2] == [False, True]
    assert batch["points"].offsets.tolist()[:4] == [0, 0, 1, 3] and batch["name"][1] == "ü1"
    assert len(data) == 13
    doubled = holdall.torch.IterableDataset(paths, ["id"], batch=8, transform=lambda b: b["id"].tolist())
    assert next(iter(doubled)) == list(range(8))


def test_workers_share_a_rank(torch, paths):
    if isinstance(torch, types.ModuleType) and hasattr(torch.utils.data, "info"):
        shares = []
        for worker in range(2):
            torch.utils.data.info = types.SimpleNamespace(id=worker, num_workers=2)
            data = holdall.torch.IterableDataset(paths, ["id"], batch=8, shuffle=4)
            data.skip(3)
            shares.append(list(data))
        found = [shares[n % 2][n // 2] for n in range(10)]
    else:
        data = holdall.torch.IterableDataset(paths, ["id"], batch=8, shuffle=4)
        data.skip(3)
        found = list(torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context="fork"))
    assert ids(found) == ids(holdall.Batches(paths, ["id"], batch=8, shuffle=4))[24:]


def test_workers_that_stay(torch, paths):
    def order(epoch):
        return ids(holdall.Batches(paths, ["id"], batch=8, shuffle=4, epoch=epoch))

    data = holdall.torch.IterableDataset(paths, ["id"], batch=8, shuffle=4)
    if hasattr(torch.utils.data, "info"):
        torch.utils.data.info = types.SimpleNamespace(id=0, num_workers=1)
        loader = data
    else:
        loader = torch.utils.data.DataLoader(
            data, batch_size=None, num_workers=2, persistent_workers=True, multiprocessing_context="fork"
        )
    assert ids(loader) == order(0) == ids(loader)
    # Left in the middle: what workers made ahead is not lost.
    assert next(iter(loader))["id"].tolist() == order(0)[:8]
    assert ids(loader) == order(0)
    data.set_epoch(1)
    assert ids(loader) == order(1) != order(0)
    assert next(iter(loader))["id"].tolist() == order(1)[:8]
    data.set_epoch(2)
    data.skip(3)
    assert ids(loader) == order(2)[24:]
    assert ids(loader) == order(2)


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_lend_their_batches(tmp_path, how):
    """Batches come in memory that is used again once they were dropped, and those that are kept do not change."""
    torch = pytest.importorskip("torch")
    from holdall import _torch_slots

    rows = np.zeros(1000, [("id", "<i4"), ("x", "<f4", 3), ("ok", "?"), ("half", "<f2")])
    rows["id"], rows["ok"] = np.arange(1000), np.arange(1000) % 3 == 0
    rows["x"] = np.arange(3000).reshape(1000, 3)
    rows["half"] = np.arange(1000) % 100
    holdall.save(tmp_path / "rows.zt", {"rows": rows})
    data = holdall.torch.IterableDataset(tmp_path / "rows.zt", batch=16, shuffle=1)
    order = ids(holdall.Batches(tmp_path / "rows.zt", ["id"], batch=16, shuffle=1))
    loader = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=2, multiprocessing_context=how, persistent_workers=True
    )

    def check(batch, at):
        numbers = order[at * 16 : at * 16 + 16]
        assert batch["id"].tolist() == numbers and type(batch) is dict
        assert batch["x"].dtype == torch.float32 and batch["x"][:, 1].tolist() == [3 * n + 1 for n in numbers]
        assert batch["ok"].tolist() == [n % 3 == 0 for n in numbers]
        assert batch["half"].dtype == torch.float16 and batch["half"].tolist() == [n % 100 for n in numbers]

    _torch_slots.received_memory.clear()
    for _ in range(2):
        addresses = set()
        for at, batch in enumerate(loader):
            check(batch, at)
            addresses.add(batch["x"].data_ptr())
        assert len(addresses) < at / 2
        kept = list(loader)
        for at, batch in enumerate(kept):
            check(batch, at)
            batch["id"] += 1
    # One for each worker, however many epochs there were.
    assert len(_torch_slots.received_memory) == 2


def test_a_lent_batch_that_was_changed_is_sent(tmp_path):
    torch = pytest.importorskip("torch")
    holdall.save(tmp_path / "rows.zt", {"rows": np.array([(n,) for n in range(400)], [("id", "<i8")])})
    data = holdall.torch.IterableDataset(tmp_path / "rows.zt", batch=4)

    def collate(batch):
        # Some keep a tensor of the batch alone, some add to it.
        n = int(batch["id"][0])
        if n % 3 == 0:
            return batch["id"]
        if n % 3 == 1:
            batch["twice"] = batch["id"] * 2
        return batch

    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=1, collate_fn=collate, multiprocessing_context="fork")
    found = list(loader)
    for at, batch in enumerate(found):
        wanted = list(range(4 * at, 4 * at + 4))
        if wanted[0] % 3 == 0:
            assert batch.tolist() == wanted
        else:
            assert batch["id"].tolist() == wanted
            assert ("twice" in batch) == (wanted[0] % 3 == 1)


def same(a, b):
    """Whether batches have the same columns."""
    if isinstance(a, holdall.Ragged):
        return same(a.values, b.values) and same(a.offsets, b.offsets)
    return a.tolist() == b.tolist() if hasattr(a, "tolist") else a == b


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_threads_read_ahead(torch, paths, workers):
    data = holdall.torch.IterableDataset(paths, batch=8, shuffle=4)
    loader = holdall.torch.DataLoader(data, num_workers=workers)
    wanted = list(data)
    found = list(loader)
    assert len(found) == len(loader) == len(wanted) == 13 and len(found[-1]["id"]) == 5
    for one, other in zip(found, wanted):
        assert list(one) == list(other) and all(same(one[path], other[path]) for path in one)
    # Batches may be views of one tensor, but do not overlap.
    for batch in found:
        batch["when"] += 1000
    times = [n for batch in found for n in batch["when"].tolist()]
    assert sorted(times) == [n * 10**9 + 1000 for n in range(101)]
    doubled = holdall.torch.IterableDataset(paths, ["id"], batch=8, transform=lambda b: b["id"].tolist())
    assert [len(ids) for ids in holdall.torch.DataLoader(doubled, num_workers=workers)] == [8] * 12 + [5]


@pytest.mark.parametrize("workers", [0, 2])
def test_threads_go_on_where_the_caller_stopped(torch, paths, workers):
    data = holdall.torch.IterableDataset(paths, ["id"], batch=8, shuffle=4)
    loader = holdall.torch.DataLoader(data, num_workers=workers, prefetch_factor=1)
    every = ids(data)
    running = iter(loader)
    first = [next(running)["id"].tolist() for _ in range(5)]
    state = loader.state_dict()
    assert state == {"epoch": 0, "first": 0, "given": 5}
    # What was read ahead counts only when it is received.
    running.close()
    again = holdall.torch.DataLoader(holdall.torch.IterableDataset(paths, ["id"], batch=8, shuffle=4), num_workers=workers)
    again.load_state_dict(state)
    assert sum(first, []) + ids(again) == every == ids(again)
    loader.set_epoch(1)
    assert sorted(ids(loader)) == sorted(every) and ids(loader) != every
    # An epoch that starts during iteration.
    running = iter(loader)
    next(running)
    loader.set_epoch(0)
    if workers:
        list(running)
    assert ids(loader) == every


def test_threads_read_several_batches_with_one_call(torch, paths, monkeypatch):
    from holdall import _torch_loader

    data = holdall.torch.IterableDataset(paths, ["id"], batch=4, shuffle=2)
    loader = holdall.torch.DataLoader(data, num_workers=2)
    read, sizes = loader._read, []
    monkeypatch.setattr(loader, "_read", lambda some, *more: sizes.append(len(some)) or read(some, *more))
    wanted = ids(data)
    assert ids(loader) == wanted and sorted(sizes) == [1, 2, 4, 8, 11]
    sizes.clear()
    monkeypatch.setattr(_torch_loader, "_PIECE_BYTES", 1)
    assert ids(loader) == wanted and sizes == [1] * 26


def test_memory_of_dropped_batches_is_used_again(torch, tmp_path, monkeypatch):
    from holdall import _torch_loader

    monkeypatch.setattr(_torch_loader, "_PIECE_BYTES", 1)
    rows = np.zeros(4000, [("id", "<i4"), ("x", "<f4", 100)])
    rows["id"] = np.arange(4000)
    rows["x"] = np.arange(4000)[:, None]
    holdall.save(tmp_path / "rows.zt", {"rows": rows})
    data = holdall.torch.IterableDataset(tmp_path / "rows.zt", batch=400, shuffle=1)
    loader = holdall.torch.DataLoader(data, num_workers=2, prefetch_factor=1)

    def address(batch):
        x = batch["x"]
        return x.data_ptr() if hasattr(x, "data_ptr") else x.__array_interface__["data"][0]

    def check(batch):
        assert batch["x"][:, 7].tolist() == batch["id"].tolist()

    addresses = set()
    for batch in loader:
        check(batch)
        addresses.add(address(batch))
    assert len(addresses) < 10
    # Those that are kept do not change.
    kept = list(loader)
    assert len({address(batch) for batch in kept}) == 10 and sorted(ids(kept)) == list(range(4000))
    part = [batch["x"][1] for batch in loader]
    for batch in kept:
        check(batch)
    for x, batch in zip(part, kept):
        assert x.tolist() == batch["x"][1].tolist()


def test_a_failure_of_a_thread_is_the_callers(torch, paths):
    def fails(batch):
        if 50 in batch["id"].tolist():
            raise ValueError("fifty")
        return batch

    data = holdall.torch.IterableDataset(paths, ["id"], batch=8, transform=fails)
    found = []
    with pytest.raises(ValueError, match="fifty"):
        for batch in holdall.torch.DataLoader(data, num_workers=2):
            found.append(batch)
    assert len(found) <= 6
    for wrong in ({"num_workers": -1}, {"prefetch_factor": 0}):
        with pytest.raises(holdall.UsageError):
            holdall.torch.DataLoader(data, **wrong)
    with pytest.raises(holdall.UsageError, match="IterableDataset, found list"):
        holdall.torch.DataLoader([1])


def test_open_files_are_sources(torch, paths):
    with holdall.open(paths[0]) as file:
        count = len(file["rows"].records())
        assert ids(holdall.Batches(file, ["id"], batch=8)) == list(range(count))
        data = holdall.torch.Dataset([file, paths[1]], ["id"])
        assert len(data) > count and data.__getitems__([0, count])["id"].tolist() == [0, count]
        assert ids(pickle.loads(pickle.dumps(holdall.Batches(file, ["id"], batch=8)))) == list(range(count))


def test_records_by_number(torch, paths):
    data = holdall.torch.Dataset(paths, ["id", "label"])
    assert len(data) == 101 and data[100]["id"] == 100 and data[-101]["id"] == 0
    batch = data.collate(data.__getitems__([100, 3, 71]))
    assert batch["id"].tolist() == [100, 3, 71] and batch["label"].tolist() == [1, 0, 1]
    with pytest.raises(IndexError):
        data[101]
    if hasattr(torch.utils.data, "DataLoader"):
        loader = torch.utils.data.DataLoader(data, batch_size=8, collate_fn=data.collate)
        assert ids(loader) == list(range(101))
