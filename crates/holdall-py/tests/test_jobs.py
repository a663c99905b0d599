"""Work over many files, which goes on where it was stopped."""

import json
import os
import threading

import numpy as np
import pytest

import holdall
import holdall.jobs


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "many"
    (folder / "deep").mkdir(parents=True)
    for part in range(6):
        holdall.save(folder / f"m{part}.zt", {"w": np.full(100, part % 5, np.float32)})
    (folder / "deep/cut.zt").write_bytes((folder / "m0.zt").read_bytes()[:100])
    return folder


def rows(out):
    return {os.path.basename(row["path"]): row for row in map(json.loads, out.read_text().splitlines())}


def test_a_job_goes_on(folder, tmp_path):
    out = tmp_path / "out.ndjson"
    everything = folder / "**/*.zt"
    done = holdall.jobs.run("verify", everything, out)
    assert (done.done, done.before, [os.path.basename(p) for p in done.bad]) == (7, 0, ["cut.zt"])
    found = rows(out)
    assert found["m1.zt"]["verdict"] == "sound" and found["cut.zt"]["verdict"] == "bad" and found["cut.zt"]["code"]
    # A kill has cut the last line, and one file is another by now.
    data = out.read_bytes()
    out.write_bytes(data[:-9])
    holdall.save(folder / "m3.zt", {"w": np.zeros(3)})
    done = holdall.jobs.run("verify", everything, out, workers=2)
    assert done.done in (1, 2) and done.done + done.before == 7 and rows(out)["m3.zt"]["nbytes"] == 24
    assert holdall.jobs.run("verify", everything, out).done == 0


def test_what_raises_is_tried_again(folder, tmp_path):
    out = tmp_path / "out.ndjson"
    tried = []

    def work(path):
        tried.append(path)
        if len(tried) < 3:
            raise RuntimeError("not now")
        return {"names": list(holdall.open(path))}

    paths = [folder / "m1.zt", folder / "m2.zt"]
    assert len(holdall.jobs.run(work, paths, out).bad) == 2
    assert rows(out)["m1.zt"]["raised"] == "RuntimeError" and rows(out)["m1.zt"]["error"] == "not now"
    done = holdall.jobs.run(work, paths, out)
    assert not done.bad and done.done == 2 and rows(out)["m2.zt"]["names"] == ["w"]
    assert holdall.jobs.run("verify", folder / "none.zt", tmp_path / "none.ndjson").bad
    for how in ({"work": "paint"}, {"engine": "steam"}, {"paths": str(folder / "*.none")}):
        with pytest.raises(holdall.UsageError):
            holdall.jobs.run(**{"work": "verify", "paths": paths, "out": out, **how})


def test_duplicates_are_found(folder, tmp_path):
    holdall.jobs.run("hash", [folder / "*.zt", folder / "m0.zt"], tmp_path / "hash.ndjson")
    (same,) = holdall.jobs.duplicates(tmp_path / "hash.ndjson")
    assert {os.path.basename(path) for path in same} == {"m0.zt", "m5.zt"}
    done = holdall.jobs.run("tensors", folder / "m?.zt", tmp_path / "tensors.ndjson")
    assert done.done == 6 and rows(tmp_path / "tensors.ndjson")["m1.zt"]["tensors"][0]["shape"] == [100]


def test_what_could_not_be_read_is_read_again(folder, tmp_path, monkeypatch):
    from holdall import _engines

    out = tmp_path / "out.ndjson"
    whole = _engines.open

    def cut_off(path, **how):
        if path.endswith("m2.zt"):
            raise holdall.FileIoError("the line is cut off", code="io/read", kind="io")
        return whole(path, **how)

    monkeypatch.setattr(_engines, "open", cut_off)
    done = holdall.jobs.run("verify", folder / "m?.zt", out)
    assert (done.done, [os.path.basename(path) for path in done.bad]) == (6, ["m2.zt"])
    assert rows(out)["m2.zt"]["verdict"] == "unread" and rows(out)["m2.zt"]["code"] == "io/read"
    monkeypatch.undo()
    done = holdall.jobs.run("verify", folder / "m?.zt", out)
    assert (done.done, done.before, done.bad) == (1, 5, []) and rows(out)["m2.zt"]["verdict"] == "sound"


def test_what_was_interrupted_is_gone_on_with(folder, tmp_path):
    out = tmp_path / "out.ndjson"
    begun = []

    def work(path):
        begun.append(path)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return {}

    with pytest.raises(KeyboardInterrupt):
        holdall.jobs.run(work, folder / "m?.zt", out, workers=1)
    before = len(rows(out))
    assert before < 6
    done = holdall.jobs.run(work, folder / "m?.zt", out, workers=1)
    assert (done.done, done.before, len(rows(out))) == (6 - before, before, 6)


def test_a_line_that_a_kill_has_cut_is_left_to_who_writes(folder, tmp_path):
    out = tmp_path / "hash.ndjson"
    holdall.jobs.run("hash", folder / "m?.zt", out)
    data = out.read_bytes()
    out.write_bytes(data[:-5])
    # Whoever only reads changes nothing: the job may be running.
    holdall.jobs.duplicates(out)
    assert out.read_bytes() == data[:-5]
    assert holdall.jobs.run("hash", folder / "m?.zt", out).done == 1 and len(rows(out)) == 6


def test_as_many_files_at_a_time_as_were_asked_for(folder, tmp_path):
    together = threading.Barrier(70)

    def work(path):
        together.wait(60)
        return {}

    paths = [folder / f"none{part}" for part in range(140)]
    done = holdall.jobs.run(work, paths, tmp_path / "out.ndjson", workers=70)
    assert (done.done, done.bad) == (140, [])


def test_files_are_converted_into_a_folder(folder, tmp_path):
    out, into = tmp_path / "out.ndjson", tmp_path / "made"
    how = {"into": into, "extension": ".safetensors"}
    done = holdall.jobs.run("convert", folder / "**/*.zt", out, dtype="float16", **how)
    assert (done.done, [os.path.basename(p) for p in done.bad]) == (7, ["cut.zt"])
    assert rows(out)["m1.zt"]["target"] == str(into / "m1.safetensors") and rows(out)["m1.zt"]["tensors"] == 1
    assert holdall.load(into / "m1.safetensors")["w"].dtype == np.float16
    # What was bad is tried again; what a kill left without a row is written again.
    out.write_bytes(b"".join(out.read_bytes().splitlines(keepends=True)[:3]))
    holdall.save(folder / "deep/cut.zt", {"w": np.ones(2)})
    done = holdall.jobs.run("convert", folder / "**/*.zt", out, **how)
    assert not done.bad and done.done + done.before == 7 and (into / "deep/cut.safetensors").exists()


def test_no_file_is_converted_into_another(folder, tmp_path):
    before = (folder / "m0.zt").read_bytes()
    holdall.save(folder / "m0.safetensors", {"w": np.zeros(1)})
    for paths, how in [
        (folder / "*.zt", {"into": folder}),
        (folder / "m0.*", {"into": tmp_path / "made"}),
        (folder / "*.zt", {}),
    ]:
        with pytest.raises(holdall.UsageError):
            holdall.jobs.run("convert", paths, tmp_path / "out.ndjson", **how)
    with pytest.raises(holdall.UsageError, match="into"):
        holdall.jobs.run("verify", folder / "*.zt", tmp_path / "out.ndjson", into=tmp_path / "made")
    assert (folder / "m0.zt").read_bytes() == before and not (tmp_path / "made").exists()
    assert not (tmp_path / "out.ndjson").exists()
