"""Stubs and docstrings match the code."""

import inspect
import pathlib
import subprocess
import sys

import pytest

import holdall

PACKAGE = pathlib.Path(holdall.__file__).parent


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_holdall.pyi").exists()


def test_stubs_are_those_of_the_native_half(mypy):
    run = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "holdall._holdall"], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-2000:]


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """The command: what it found out about NumPy it keeps for the next time."""
    pytest.importorskip("mypy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYPY_CACHE_DIR", str(tmp_path_factory.mktemp("mypy")))
        yield [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports"]


def test_types_hold(mypy):
    run = subprocess.run(
        [*mypy, "-p", "holdall"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-2000:]


def test_everything_public_has_a_docstring():
    for name in holdall.__all__:
        thing = getattr(holdall, name)
        if name == "__version__":
            continue
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing) and thing.__module__.startswith("holdall") and name not in dir(holdall.errors):
            for member, value in vars(thing).items():
                public = not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
                assert not public or inspect.getdoc(value), f"{name}.{member}"


TYPED = """
from typing import Any
import numpy as np
import holdall

f = holdall.open("a.mt")
t = f["a"]
rows = f["r"].records()
part: np.ndarray[Any, Any] = t[1:3]
column: np.ndarray[Any, Any] = t[:, None, ...]
some: holdall.Selection = rows[[1, 2]]
more: holdall.Selection = rows[np.ones(3, bool)][[0]]
run: holdall.Records = rows[1:2]
record: dict[str, Any] = rows[0]
runs: holdall.Blob = f["b"].blob()[[1, 2]][np.ones(2, bool)][:1]
wrong: int = t[1:3]
wrong = rows[1:2]
wrong = rows[[1]]
wrong = rows[0]
wrong = t.torch()
"""


def test_what_is_given_has_a_type(tmp_path, mypy):
    (tmp_path / "typed.py").write_text(TYPED)
    run = subprocess.run(
        [*mypy, str(tmp_path / "typed.py")],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    found = [line for line in run.stdout.splitlines() if ": error: " in line]
    # Without torch, of its tensors nothing is known.
    assert all("[assignment]" in line for line in found) and len(found) in (4, 5), run.stdout
