"""Stubs and docstrings: what is said is what there is."""

import inspect
import pathlib
import subprocess
import sys

import pytest

import holdall

PACKAGE = pathlib.Path(holdall.__file__).parent


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_holdall.pyi").exists()


def test_stubs_are_those_of_the_native_half():
    pytest.importorskip("mypy")
    run = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "holdall._holdall"], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-2000:]


def test_types_hold():
    pytest.importorskip("mypy")
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "-p", "holdall"],
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


def test_all_is_sorted_and_there():
    assert holdall.__all__ == sorted(set(holdall.__all__))
    assert all(hasattr(holdall, name) for name in holdall.__all__)
