"""A dataset of a million records in four files: asked in SQL and in frames, trained on by two workers of two ranks that stop and
go on, and verified by Daft and Ray."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import holdall
import holdall.jobs

COUNT, PARTS, BATCH = 1_000_000, 4, 256
os.environ.setdefault("RAY_raylet_start_wait_time_s", "180")


def label(ids):
    return (ids * 7 % 10).astype(np.uint8)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("million")
    made = []
    for part in range(PARTS):
        points = np.zeros(COUNT // PARTS, [("id", "<u4"), ("label", "u1"), ("x", "<f4", 4)])
        points["id"] = np.arange(len(points)) + part * len(points)
        points["label"] = label(points["id"])
        points["x"] = points["id"][:, None] + np.arange(4)
        made.append(folder / f"p{part}.mt")
        holdall.save(made[-1], {"points": points})
    return made


def frame(library, paths):
    """Every record by this library, as rows and sum of the ids whose label is 3."""
    tables = [holdall.open(path)["points"].records().arrow("id", "label") for path in paths]
    if library == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        a, b, c, d = tables
        asked = "from (select * from a union all select * from b union all select * from c union all select * from d)"
        return duckdb.sql(f"select count(*), sum(id) filter (label = 3) {asked}").fetchall()[0]
    if library == "polars":
        polars = pytest.importorskip("polars")
        whole = polars.concat([polars.DataFrame(table) for table in tables])
        return len(whole), whole.filter(polars.col("label") == 3)["id"].cast(polars.Int64).sum()
    pandas = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    whole = pandas.concat([pa.table(table).to_pandas() for table in tables])
    return len(whole), int(whole[whole["label"] == 3]["id"].sum())


@pytest.mark.parametrize("library", ["duckdb", "polars", "pandas"])
def test_it_is_queried(paths, library):
    ids = np.arange(COUNT)
    rows, total = frame(library, paths)
    assert (rows, int(total)) == (COUNT, int(ids[label(ids) == 3].sum()))


TRAIN = """
import json, sys, torch, holdall.torch
rank, first, count, *paths = sys.argv[1:]
data = holdall.torch.IterableDataset(paths, ["id", "label", "x"], batch=256, shuffle=5, rank=int(rank), ranks=2)
data.skip(int(first))
loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2)
weight = torch.zeros(4, 10, requires_grad=True)
step = torch.optim.SGD([weight], lr=0.01)
given = []
for number, batch in enumerate(loader):
    if number == int(count):
        break
    assert torch.equal(batch["x"][:, 3], (batch["id"].long() + 3).float())
    loss = torch.nn.functional.cross_entropy(batch["x"] / 1e6 @ weight, batch["label"].long())
    step.zero_grad(); loss.backward(); step.step()
    given.append(batch["id"].tolist())
assert bool(torch.isfinite(weight).all()) and bool((weight != 0).any())
print(json.dumps(given))
"""


def trained(rank, first, count, paths):
    """The ids of the batches that a rank's process trained on: from that one on, so many."""
    run = [sys.executable, "-c", TRAIN, str(rank), str(first), str(count), *map(str, paths)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_workers_of_two_ranks_train_and_go_on(paths):
    pytest.importorskip("torch")
    seen = []
    for rank in range(2):
        own = holdall.Batches(paths, ["id"], batch=BATCH, shuffle=5, rank=rank, ranks=2)
        whole = [batch["id"].tolist() for batch in own]
        before = trained(rank, 0, 1001, paths)
        after = trained(rank, len(before), COUNT, paths)
        assert len(before) == 1001 and before + after == whole
        seen += sum(whole, [])
    assert len(seen) == COUNT and sorted(seen) == list(range(COUNT))


def test_daft_verifies(paths):
    pytest.importorskip("daft")
    import holdall.daft

    frame = holdall.daft.records(paths[0].parent / "*.mt")
    assert frame.where("id >= 999998").select("id").to_pydict() == {"id": [999998, 999999]}
    verdicts = holdall.jobs.run("verify", paths[0].parent / "*.mt", paths[0].parent / "daft.ndjson", engine="daft")
    assert (verdicts.done, verdicts.bad) == (PARTS, [])


def test_ray_verifies(paths):
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    import holdall.ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        assert holdall.ray.records(paths[0].parent / "*.mt", columns=["id"]).count() == COUNT
        assert {row["verdict"] for row in holdall.ray.verify(paths[0].parent / "*.mt").take_all()} == {"sound"}
    finally:
        ray.shutdown()
