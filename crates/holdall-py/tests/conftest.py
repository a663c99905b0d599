"""What the tests have in common: the corpus, and one file with a bit of everything."""

import os
import pathlib

import numpy as np
import pytest

import holdall

ROOT = pathlib.Path(__file__).resolve().parents[3]
ACCEPT = sorted(p for p in (ROOT / "corpus/accept").glob("*/*") if p.suffix != ".json")
REJECT = sorted(p for p in (ROOT / "corpus/reject").glob("*/*") if p.is_file())


@pytest.fixture
def arrays():
    rng = np.random.default_rng(5)
    return {
        "w": rng.standard_normal((64, 32), dtype=np.float32),
        "ids": np.arange(24, dtype=np.int64).reshape(2, 3, 4),
        "mask": rng.integers(0, 2, (7, 3)).astype(bool),
        "half": rng.standard_normal(5).astype(np.float16),
        "c": (rng.standard_normal(4) + 1j).astype(np.complex64),
        "scalar": np.array(3, np.uint8),
        "nothing": np.zeros((0, 4), np.int16),
    }


@pytest.fixture(params=["zt", "mt", "safetensors"])
def path(request, tmp_path, arrays):
    path = tmp_path / f"a.{request.param}"
    holdall.save(path, arrays)
    return path


@pytest.fixture
def zt(tmp_path, arrays):
    path = tmp_path / "a.zt"
    holdall.save(path, arrays)
    return path


def real_model():
    """The weights of MiniLM, where `cargo xtask interop` has fetched them, or `HOLDALL_MODEL` says where they are."""
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    found = list(target.glob("interop/model/*/model/model.safetensors"))
    path = os.environ.get("HOLDALL_MODEL") or (found[0] if found else None)
    if path is None:
        pytest.skip("the model was not fetched")
    return path
