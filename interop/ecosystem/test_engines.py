"""Daft, Ray and Hugging Face's datasets over our files: records, tensors, verdicts, jobs that are gone on with."""

import json
import os

import numpy as np
import pytest

import holdall
import holdall.jobs

os.environ.setdefault("RAY_raylet_start_wait_time_s", "180")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    for part in range(4):
        points = np.zeros(1000, [("id", "<u4"), ("at", [("lat", "<f4"), ("lon", "<f4")]), ("v", "<f4", 3)])
        points["id"] = np.arange(1000) + 1000 * part
        holdall.save(folder / f"p{part}.mt", {"points": points})
    (folder / "cut.mt").write_bytes((folder / "p0.mt").read_bytes()[:500])
    (folder / "twin.mt").write_bytes((folder / "p3.mt").read_bytes())
    return folder


def verdicts(rows):
    return {os.path.basename(row["path"]): row["verdict"] for row in rows}


SOUND = {"cut.mt": "bad", "twin.mt": "sound", **{f"p{part}.mt": "sound" for part in range(4)}}


def jobs(folder, engine, out):
    done = holdall.jobs.run("verify", folder / "*.mt", out, engine=engine)
    assert (done.done, done.before, [os.path.basename(p) for p in done.bad]) == (6, 0, ["cut.mt"])
    # Killed while it wrote the last line.
    data = out.read_bytes()
    out.write_bytes(data[:-10])
    done = holdall.jobs.run("verify", folder / "*.mt", out, engine=engine)
    assert (done.done, done.before) == (1, 5)
    assert verdicts(map(json.loads, out.read_text().splitlines())) == SOUND


def test_threads(folder, tmp_path):
    jobs(folder, "threads", tmp_path / "out.ndjson")
    holdall.jobs.run("hash", folder / "*.mt", tmp_path / "hash.ndjson")
    (same,) = holdall.jobs.duplicates(tmp_path / "hash.ndjson")
    assert {os.path.basename(path) for path in same} == {"p3.mt", "twin.mt"}


def test_daft(folder, tmp_path):
    pytest.importorskip("daft")
    import holdall.daft

    frame = holdall.daft.records(folder / "p*.mt")
    assert frame.count_rows() == 4000
    assert frame.select("id").where("id >= 3998").to_pydict() == {"id": [3998, 3999]}
    assert frame.where("id = 7").to_pylist()[0]["at"] == {"lat": 0.0, "lon": 0.0} and len(frame.limit(5).to_pylist()) == 5
    some = holdall.daft.records(folder / "p*.mt", where=["id in (5, 2005)"]).select("id", "v").to_pylist()
    assert [row["id"] for row in some] == [5, 2005] and list(some[0]["v"]) == [0, 0, 0]
    (row,) = holdall.daft.tensors(folder / "p1.mt").to_pylist()
    assert (row["name"], row["shape"], row["layout"]) == ("points", [1000], "records")
    assert verdicts(holdall.daft.verify(folder / "*.mt").to_pylist()) == SOUND
    jobs(folder, "daft", tmp_path / "out.ndjson")


def test_ray(folder, tmp_path):
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    import holdall.ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        data = holdall.ray.records(folder / "p*.mt", columns=["id", "at.lat"])
        assert data.count() == 4000
        assert sorted(row["id"] for row in data.filter(lambda row: row["id"] >= 3998).take_all()) == [3998, 3999]
        some = holdall.ray.records(folder / "p*.mt", where=["id in (5, 2005)"]).take_all()
        assert sorted(row["id"] for row in some) == [5, 2005]
        (row,) = holdall.ray.tensors(folder / "p1.mt").take_all()
        assert (row["name"], list(row["shape"])) == ("points", [1000])
        assert verdicts(holdall.ray.verify(folder / "*.mt").take_all()) == SOUND
        jobs(folder, "ray", tmp_path / "out.ndjson")
    finally:
        ray.shutdown()


def test_datasets(folder):
    datasets = pytest.importorskip("datasets")
    pa = pytest.importorskip("pyarrow")
    with holdall.open(folder / "p1.mt") as f:
        r = f["points"].records()
        for data in (
            datasets.Dataset(pa.table(r.arrow("id", "at"))),
            datasets.Dataset.from_list(list(r[:50])),
            datasets.Dataset.from_pandas(r.to_pandas()[["id"]]),
        ):
            assert data[7]["id"] == 1007 and data.with_format("numpy")[:3]["id"].tolist() == [1000, 1001, 1002]


def test_the_notebook(tmp_path, monkeypatch):
    pytest.importorskip("daft")
    monkeypatch.chdir(tmp_path)
    here = os.path.join(os.path.dirname(__file__), "../../examples/many_files.ipynb")
    with open(here) as file:
        cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
    names: dict = {}
    for cell in cells:
        exec("".join(cell["source"]), names)
    assert names["verdicts"] == {"bad": 1, "sound": 10}
