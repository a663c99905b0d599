"""Editing files from Python, as `holdall edit` does."""

import json

import numpy as np
import pytest

import holdall


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.zt"
    tensors = {f"layers.{n}.w": np.full((4, 4), n, np.float32) for n in range(3)} | {"head": np.arange(3)}
    holdall.save(path, tensors, attributes={"license": "MIT", "epoch": 1})
    return path


def test_all_changes_are_made_together(model, tmp_path):
    other = tmp_path / "adapter.safetensors"
    holdall.save(other, {"a": np.ones(2), "b": np.zeros(2)})
    before = model.read_bytes()
    with holdall.edit(model) as e:
        assert e.append(other, rename=["*=adapter.*"], exclude=["b"]) == 1
        e.add("new", np.arange(4, dtype=np.int16), attributes={"note": "here"})
        e.replace("head", np.array([1.5, 2.5]))
        assert e.remove("layers.1.*") == 1
        assert e.rename("layers.*=blocks.*") == 2
        e.set({"epoch": 3, "tags": ["x"]})
        e.unset("license")
        assert e.report is None and model.read_bytes() == before
    assert e.report.len == model.stat().st_size and e.report.written > 0
    with holdall.open(model) as f:
        assert f.attributes == {"epoch": 3, "tags": ["x"]}
        assert set(f) == {"blocks.0.w", "blocks.2.w", "head", "adapter.a", "new"}
        assert f["head"].numpy().tolist() == [1.5, 2.5] and f["new"].attributes == {"note": "here"}
        assert f["new"].dtype == np.int16
    assert holdall.verify(model)


def test_the_report_is_that_of_the_command(model, tmp_path, capfd):
    from holdall import _holdall

    copy = tmp_path / "copy.zt"
    copy.write_bytes(model.read_bytes())
    with holdall.edit(model) as e:
        e.set({"license": "Apache-2.0"})
    assert _holdall.command(["holdall", "--json", "edit", str(copy), "set", "license=Apache-2.0"], []) == 0
    printed = json.loads(capfd.readouterr().out)
    assert {name: printed[name] for name in printed if name != "source"} == e.report.__dict__
    assert copy.read_bytes() == model.read_bytes()


def test_an_exception_changes_nothing(model):
    before = model.read_bytes()
    with pytest.raises(RuntimeError), holdall.edit(model) as e:
        e.remove("head")
        raise RuntimeError
    assert model.read_bytes() == before and e.report is None
    e = holdall.edit(model)
    e.remove("head")
    e.discard()
    with pytest.raises(holdall.UsageError) as ended:
        e.commit()
    assert ended.value.code == "python/closed" and model.read_bytes() == before


def test_attributes_of_tensors_and_replaced_ones(model):
    with holdall.edit(model) as e:
        e.set({"unit": "m"}, tensor="head")
    with holdall.edit(model) as e:
        e.replace("head", np.zeros((2, 2), np.float16))
    with holdall.open(model) as f:
        assert f["head"].attributes == {"unit": "m"} and f["head"].shape == (2, 2)
    with holdall.edit(model) as e:
        e.unset("unit", tensor="head")
    with holdall.open(model) as f:
        assert f["head"].attributes == {}


def test_unused_bytes_are_freed(tmp_path):
    path = tmp_path / "a.zt"
    holdall.save(path, {"large": np.random.default_rng(0).random(500_000), "small": np.ones(1)})
    with holdall.edit(path) as e:
        e.remove("large")
        e.compact()
    assert path.stat().st_size < 100_000 and e.report.unused_len == 0
    again = holdall.edit(path)
    again.compact()
    assert again.commit().len == path.stat().st_size
    with holdall.open(path) as f:
        assert list(f) == ["small"]


def test_datasets_and_sparse_tensors_are_added(model):
    points = np.zeros(5, [("id", "<u4"), ("x", "<f4")])
    points["id"] = np.arange(5)
    with holdall.edit(model, encoding="zstd") as e:
        e.add("points", points)
        e.add("texts", holdall.Runs(["a", "b"], "utf-8"))
    with holdall.open(model) as f:
        assert f["points"].records()["id"].tolist() == [0, 1, 2, 3, 4]
        assert list(f["texts"].blob()) == ["a", "b"]


def test_wrong_edits(model, tmp_path):
    before = model.read_bytes()
    wrong = [
        (lambda e: e.add("head", np.ones(1)), holdall.UsageError, "edit/cannot"),
        (lambda e: e.replace("nope", np.ones(1)), holdall.MissingNameError, "file/no-tensor"),
        (lambda e: e.remove("nope*"), holdall.NotFoundError, "select/nothing"),
        (lambda e: e.remove(), holdall.UsageError, "python/option"),
        (lambda e: e.rename("nope=x"), holdall.NotFoundError, "select/nothing"),
        (lambda e: e.rename("layers.*=x"), holdall.UsageError, "write/same-name"),
        (lambda e: e.rename("head"), holdall.UsageError, None),
        (lambda e: e.unset("nope"), holdall.NotFoundError, None),
        (lambda e: e.set({"a": 1}, tensor="nope"), holdall.MissingNameError, None),
        (lambda e: e.append(tmp_path / "nope.zt"), FileNotFoundError, None),
        (lambda e: e.set({"a": object()}), holdall.UsageError, None),
        (lambda e: e.set(3), TypeError, None),
        (lambda e: e.rename(3), TypeError, None),
    ]
    for call, kind, code in wrong:
        with pytest.raises(kind) as found, holdall.edit(model) as e:
            call(e)
        if code is not None:
            assert found.value.code == code
        assert model.read_bytes() == before
    with pytest.raises(FileNotFoundError):
        holdall.edit(tmp_path / "nope.zt")
    (tmp_path / "x.tflite").write_bytes(b"1234")
    with pytest.raises(holdall.HoldallError):
        holdall.edit(tmp_path / "x.tflite")


def test_renames_may_swap(model):
    with holdall.edit(model) as e:
        assert e.rename("layers.0.w=layers.1.w", "layers.1.w=layers.0.w") == 2
    with holdall.open(model) as f:
        assert f["layers.0.w"][0, 0] == 1 and f["layers.1.w"][0, 0] == 0
    assert "done" in repr(e)


def test_progress(model):
    seen = []
    with holdall.edit(model, progress=lambda done, total: seen.append((done, total))) as e:
        e.add("new", np.zeros(1_000_000))
    assert seen and seen[-1][0] == seen[-1][1] > 0
