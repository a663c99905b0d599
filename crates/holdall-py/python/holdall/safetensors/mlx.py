"""Saves and loads dicts of mlx arrays, like `safetensors.mlx`, in files of every format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core  # noqa: F401

from . import numpy as _numpy
from ._bytes import Path
from ._frameworks import arrays, of_array
from ._open import safe_open

__all__ = ["load", "load_file", "save", "save_file"]


def __dir__() -> list[str]:
    return sorted(__all__)


def save_file(tensors: Mapping[str, Any], filename: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Writes arrays to a file: see :func:`holdall.safetensors.numpy.save_file`."""
    _numpy.save_file(arrays(tensors, "mlx"), filename, metadata)


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """Returns the bytes of a safetensors file."""
    return _numpy.save(arrays(tensors, "mlx"), metadata)


def load_file(filename: Path, *, backend: str = "mmap") -> dict[str, Any]:
    """Loads all tensors of a file: see :func:`holdall.safetensors.numpy.load_file`."""
    with safe_open(filename, framework="mlx", backend=backend) as file:
        return file.get_tensors()


def load(data: bytes) -> dict[str, Any]:
    """Loads all tensors from the bytes of a file."""
    return {name: of_array(a, "mlx") for name, a in _numpy.load(data).items()}
