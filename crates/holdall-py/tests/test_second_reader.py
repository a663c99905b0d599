"""Byte planes and deltas are read by a program that knows only the pages of the specification, with the same result."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np
import pytest

import holdall
from holdall import delta

ml_dtypes = pytest.importorskip("ml_dtypes")
pytest.importorskip("zstandard")
pytest.importorskip("xxhash")

ROOT = Path(__file__).resolve().parents[3]


def second_reader() -> ModuleType:
    spec = importlib.util.spec_from_file_location("second_reader", ROOT / "interop" / "deltas" / "reader.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reader = second_reader()

TYPES = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "f8": ml_dtypes.float8_e4m3fn,
    "e8m0": ml_dtypes.float8_e8m0fnu,
    "i8": np.int8,
    "u16": np.uint16,
    "i64": np.int64,
    "bool": np.bool_,
}


def assert_same(mine: dict[str, object], theirs: Path) -> None:
    expected = holdall.load(theirs)
    assert mine.keys() == expected.keys()
    for name, array in expected.items():
        tensor = mine[name]
        assert tuple(tensor.shape) == array.shape, name  # type: ignore[attr-defined]
        assert tensor.elements == np.asarray(array).tobytes(), name  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["planes-all", "delta-base", "delta-small_base"])
def test_the_second_reader_reads_files_of_the_corpus(name: str) -> None:
    path = ROOT / "corpus" / "accept" / "ztensor" / f"{name}.zt"
    assert_same(reader.read(path), path)


def model(rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    """One tensor of each type with any bits."""
    arrays = {}
    for name, dtype in TYPES.items():
        bits = rng.integers(0, 256, size * np.dtype(dtype).itemsize, np.uint8)
        arrays[name] = (bits % 2 if name == "bool" else bits).view(dtype).reshape(-1, 5)
    arrays["weights"] = (rng.standard_normal((size // 5, 5)) * 0.02).astype(ml_dtypes.bfloat16)
    arrays["scalar"] = np.array(rng.integers(100))
    arrays["empty"] = np.empty((0, 3), np.float32)
    return arrays


def next_model(rng: np.random.Generator, old: dict[str, np.ndarray], share: float) -> dict[str, np.ndarray]:
    """The model with a share of the elements changed, one tensor fewer and one more."""
    new = {}
    for name, array in old.items():
        if name == "u16":
            continue
        words = array.copy().reshape(-1).view(f"u{array.itemsize}")
        at = rng.random(len(words)) < share
        if name == "bool":
            words[at] ^= 1
        else:
            words[at] += rng.integers(0, 1 << rng.integers(1, 8), at.sum(), np.uint64).astype(words.dtype)
        new[name] = words.view(array.dtype).reshape(array.shape)
    new["added"] = rng.standard_normal(9)
    return new


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.2])
@pytest.mark.parametrize("encoding", ["raw", "planes"])
def test_the_second_reader_applies_deltas(tmp_path: Path, share: float, encoding: Literal["raw", "planes"]) -> None:
    rng = np.random.default_rng([int(share * 10_000), len(encoding)])
    # More than one block of 2^20 elements, of which some have no changed element.
    old = model(rng, 2_500_000 if share < 0.001 else 50_000)
    base, target, made = (tmp_path / name for name in ("base.zt", "target.zt", "delta.zt"))
    holdall.save(base, old, encoding=encoding)
    holdall.save(target, next_model(rng, old, share))
    delta.make(base, target, made)
    layouts = {entry["format"] for entry in reader.File(made).objects.values()}
    assert "delta" in layouts
    assert_same(reader.apply(reader.read(base), reader.File(made)), target)


def test_the_second_reader_notices_a_wrong_base(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    old = model(rng, 50_000)
    base, target, made = (tmp_path / name for name in ("base.zt", "target.zt", "delta.zt"))
    holdall.save(base, old)
    holdall.save(target, next_model(rng, old, 0.01))
    delta.make(base, target, made)
    with pytest.raises(ValueError, match="not what the delta was made from"):
        reader.apply(reader.read(target) | {"u16": reader.read(base)["u16"]}, reader.File(made))
