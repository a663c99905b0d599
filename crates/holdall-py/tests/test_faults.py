"""Files in which one tensor cannot be read."""

import json
import pickle
import struct

import numpy as np
import pytest

import holdall
from conftest import ROOT
from holdall.safetensors import SafetensorError, safe_open


def broken() -> bytes:
    """A safetensors file of `a` and `z`, and between them a tensor of an unknown dtype."""
    header = {
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "bad": {"dtype": "X99", "shape": [4], "data_offsets": [8, 16]},
        "z": {"dtype": "F32", "shape": [2], "data_offsets": [16, 24]},
    }
    text = json.dumps(header).encode()
    data = np.array([1, 2, 3, 4, 5, 6], dtype="<f4").tobytes()
    return struct.pack("<Q", len(text)) + text + data


def test_the_others_are_read() -> None:
    with holdall.open(broken()) as f:
        assert list(f) == ["a", "bad", "z"]
        assert [e.code for e in f.faults] == ["safetensors/dtype"]
        assert f["a"].fault is None
        np.testing.assert_array_equal(f["z"].numpy(), [5, 6])
        fault = f["bad"].fault
        assert isinstance(fault, holdall.HoldallError) and fault.tensor == "bad"
        assert "X99" in str(fault)
        assert f["bad"].shape == (4,) and f["bad"].dtype == "none" and len(f["bad"].components) == 0


def test_reading_it_raises_what_is_wrong() -> None:
    with holdall.open(broken()) as f:
        with pytest.warns(UserWarning, match="1 tensor could not be loaded.*`bad`"):
            found = f.load()
        assert list(found) == ["a", "z"] and list(found.faults) == ["bad"] and "bad" not in found
        with pytest.raises(KeyError):
            found["other"]
        for again in (pickle.loads(pickle.dumps(found)), f.load(exclude=["bad"])):
            assert list(again) == ["a", "z"]
        for read in (f["bad"].numpy, f["bad"].to_dense, lambda: found["bad"], lambda: f.load(["bad"]), lambda: f["bad"][0]):
            with pytest.raises(holdall.HoldallError) as e:
                read()
            assert e.value.code == "safetensors/dtype" and e.value.tensor == "bad"
        assert sorted(f.load(["a", "z"])) == ["a", "z"]
        assert f.verify().verdict == "incomplete" and not f.verify()
        assert f.verify(exclude=["bad"]).verdict == "sound"


def test_a_strict_open_refuses_the_file(tmp_path) -> None:
    path = tmp_path / "broken.safetensors"
    path.write_bytes(broken())
    for refused in (
        lambda: holdall.open(broken(), strict=True),
        lambda: holdall.open(path, strict=True),
    ):
        with pytest.raises(holdall.HoldallError) as e:
            refused()
        assert e.value.code == "safetensors/dtype"
    with pytest.raises(SafetensorError) as caught:
        safe_open(path, framework="np")
    assert caught.value.__cause__.code == "safetensors/dtype"


def test_what_is_sound_is_taken_out_of_a_damaged_file(tmp_path) -> None:
    source, target = tmp_path / "broken.safetensors", tmp_path / "out.zt"
    source.write_bytes(broken())
    report = holdall.salvage(source, target)
    assert report.tensors == 2 and report.left_out_count == 1 and not report.is_complete
    assert report.left_out[0].tensor == "bad" and report.open_error is None
    assert sorted(holdall.load(target)) == ["a", "z"]
    with pytest.raises(holdall.UsageError):
        holdall.salvage(source, target)
    # Truncated, it does not open; the complete tensors are recovered.
    source.write_bytes(broken()[:-4])
    report = holdall.salvage(source, target, overwrite=True)
    assert report.tensors == 1 and report.open_error.code == "safetensors/truncated"
    assert sorted(e.code for e in report.left_out) == ["index/cut-short", "safetensors/dtype"]
    np.testing.assert_array_equal(holdall.load(target)["a"], [1, 2])
    source.write_bytes(broken()[:20])
    with pytest.raises(holdall.HoldallError):
        holdall.salvage(source, target, overwrite=True)
    np.testing.assert_array_equal(holdall.load(target)["a"], [1, 2])


def test_a_package_without_its_directory_gets_one(tmp_path) -> None:
    source, target = tmp_path / "cut.carton", tmp_path / "out.carton"
    whole = ROOT / "corpus/accept/carton/made-full.carton"
    source.write_bytes(whole.read_bytes()[:-22])
    report = holdall.salvage(source, target)
    assert report.files > 0 and report.left_out_count == 0 and not report.is_complete
    with holdall.carton.open(whole) as a, holdall.carton.open(target) as b:
        assert a.hash == b.hash
        assert b.verify().verdict == a.verify().verdict
