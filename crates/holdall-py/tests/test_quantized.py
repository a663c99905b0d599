"""Quantized weights that a model stores as several tensors."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdall

CORPUS = Path(__file__).resolve().parents[3] / "corpus" / "quantized"
CASES = sorted(folder.name for folder in CORPUS.iterdir())
SOUND = [case for case in CASES if not case.startswith("err-")]


def expected(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CORPUS / case / "expect.json").read_text())["expected"]
    return found


def digest(a: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()


@pytest.mark.parametrize("case", SOUND)
def test_load_gives_the_values_under_the_logical_names(case: str) -> None:
    path = CORPUS / case / "model.safetensors"
    loaded = holdall.load(path, dequantize=True)
    with holdall.open(path) as file:
        stored = set(file)
        for name, weight in file.quantized.items():
            about = expected(case)[name]
            assert weight.fault is None
            assert weight.shape == tuple(about["shape"]) == loaded[name].shape
            assert loaded[name].dtype == np.float32 and loaded[name].flags.writeable
            assert digest(loaded[name]) == digest(weight.numpy()) == about["sha256"]
            some = weight.numpy(rows=slice(1, 3))
            np.testing.assert_array_equal(some, loaded[name][1:3])
            np.testing.assert_array_equal(weight.numpy(rows=(0, 2)), loaded[name][:2])
            assert set(weight.components.values()) <= stored
            for tensor in [*weight.components.values(), *weight.not_applied]:
                assert tensor == name or tensor not in loaded
        # The stored names are as before.
        assert set(holdall.load(file)) == stored


def test_names_and_dtypes() -> None:
    path = CORPUS / "gptq-4bit" / "model.safetensors"
    name = "model.layers.0.self_attn.q_proj.weight"
    loaded = holdall.load(path, [name], dequantize=True)
    assert list(loaded) == [name]
    rounded = holdall.load(path, include=["*.weight"], dequantize=True, dtype="f16")
    np.testing.assert_array_equal(rounded[name], loaded[name].astype(np.float16))
    with pytest.raises(holdall.MissingNameError):
        holdall.load(path, ["model.layers.0.self_attn.q_proj.qweight"], dequantize=True)
    with holdall.open(path) as file:
        weight = file.quantized[name]
        assert (weight.kind, weight.parameters["bits"]) == ("gptq", "4")
        assert "gptq" in repr(weight)
        with pytest.raises(holdall.UsageError):
            weight.numpy(rows=slice(0, 4, 2))
        with pytest.raises(holdall.UsageError):
            weight.numpy(rows=(0, 1000))


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("err-")])
def test_missing_companions_are_errors(case: str) -> None:
    path = CORPUS / case / "model.safetensors"
    with holdall.open(path) as file:
        (weight,) = file.quantized.values()
        assert weight.fault is not None
        with pytest.raises(holdall.MalformedError):
            weight.numpy()
        assert len(holdall.load(file)) == len(file)
    with pytest.raises(holdall.MalformedError):
        holdall.load(path, dequantize=True)


def test_a_model_without_quantized_weights_is_as_before(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    holdall.save(path, {"a": np.ones((2, 2), np.float32)})
    with holdall.open(path) as file:
        assert len(file.quantized) == 0
    assert list(holdall.load(path, dequantize=True)) == ["a"]


def test_convert_names_what_it_drops(tmp_path: Path) -> None:
    report = holdall.convert(CORPUS / "fp8-tensor-static" / "model.safetensors", tmp_path / "a.safetensors", dense=True)
    (weight,) = report.dequantized
    assert weight.dropped == ["model.layers.0.mlp.gate_proj.input_scale"]
    with pytest.raises(holdall.HoldallError) as e:
        holdall.convert(CORPUS / "fp8-block" / "model.safetensors", tmp_path / "b.safetensors", dtype="bf16")
    assert "scale" in str(e.value)


def test_the_configuration_decides(tmp_path: Path) -> None:
    shutil.copy(CORPUS / "gptq-4bit" / "model.safetensors", tmp_path)
    with holdall.open(tmp_path / "model.safetensors") as file:
        (weight,) = file.quantized.values()
        assert weight.fault is not None and weight.fault.code == "quantized-weight/parameter"


@pytest.mark.parametrize("dense", [False, True])
def test_parts_of_a_weight_are_not_rounded_without_their_scale(dense: bool) -> None:
    path = CORPUS / "fp8-block" / "model.safetensors"
    with pytest.raises(holdall.UnsupportedError, match="without their scale") as e:
        holdall.load(path, dtype="float32", dense=dense)
    assert e.value.hint is not None and "dequantize=True" in e.value.hint
    rounded = holdall.load(path, dtype="float16", dense=dense, include=["model.norm.weight"])
    assert {name: a.dtype for name, a in rounded.items()} == {"model.norm.weight": np.float16}


def test_described_weights_have_the_same_values(tmp_path: Path) -> None:
    folder = CORPUS / "gptq-4bit"
    holdall.convert(folder / "model.safetensors", tmp_path / "m.zt", described=True)
    expected_values = holdall.load(folder / "model.safetensors", dequantize=True)
    found = holdall.load(tmp_path / "m.zt", dequantize=True)
    assert found.keys() == expected_values.keys()
    assert all(np.array_equal(found[name], value) for name, value in expected_values.items())
    with holdall.open(tmp_path / "m.zt") as file:
        (name, weight), *_ = file.quantized.items()
        assert file.get(name).layout == f"quantized.{weight.kind}"
    holdall.convert(tmp_path / "m.zt", tmp_path / "back.safetensors")
    stored = holdall.load(folder / "model.safetensors")
    back = holdall.load(tmp_path / "back.safetensors")
    assert list(stored) == list(back)
    assert all(np.array_equal(np.asarray(stored[name]), np.asarray(back[name])) for name in stored)
