"""Ten thousand files on Daft and on Ray: verified, hashed, converted, and gone on with."""

import json
import os

import numpy as np
import pytest

import holdall
import holdall.jobs

COUNT = 10_000
os.environ.setdefault("RAY_raylet_start_wait_time_s", "180")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thousands")
    for n in range(COUNT):
        path = folder / f"{n % 100:02}" / f"m{n:04}.zt"
        path.parent.mkdir(exist_ok=True)
        # Every other file is as the one before.
        holdall.save(path, {"w": np.full(16, n // 2, np.float32)}, sync=False)
    (folder / "07/m0007.zt").write_bytes((folder / "07/m0007.zt").read_bytes()[:100])
    return folder


def work(engine, folder, tmp_path):
    everything, out = folder / "*/*.zt", tmp_path / "verdicts.ndjson"
    done = holdall.jobs.run("verify", everything, out, engine=engine)
    assert (done.done, [os.path.basename(path) for path in done.bad]) == (COUNT, ["m0007.zt"])
    # Killed after most of them.
    lines = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:-50]) + lines[-50][:10])
    done = holdall.jobs.run("verify", everything, out, engine=engine)
    assert (done.done, done.before, len(done.bad)) == (50, COUNT - 50, 1)
    assert {row["path"] for row in map(json.loads, out.read_text().splitlines())} == set(map(str, folder.glob("*/*.zt")))

    holdall.jobs.run("hash", everything, tmp_path / "hashes.ndjson", engine=engine)
    same = holdall.jobs.duplicates(tmp_path / "hashes.ndjson")
    assert len(same) == COUNT // 2 - 1 and {len(paths) for paths in same} == {2}

    into = tmp_path / "made"
    how = {"engine": engine, "into": into, "extension": ".safetensors", "sync": False}
    done = holdall.jobs.run("convert", everything, tmp_path / "made.ndjson", **how)
    assert (done.done, [os.path.basename(path) for path in done.bad]) == (COUNT, ["m0007.zt"])
    assert sum(1 for _ in into.glob("*/*.safetensors")) == COUNT - 1
    assert holdall.load(into / "42/m4242.safetensors")["w"].tolist() == [2121.0] * 16


def test_daft(folder, tmp_path):
    pytest.importorskip("daft")
    work("daft", folder, tmp_path)


def test_ray(folder, tmp_path):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        work("ray", folder, tmp_path)
    finally:
        ray.shutdown()
